//! Services on sockets: real servers and clients, scripted ones, and the view of operators.
//!
//! One binary: `cargo test -p wireloom-tests --test services -- NAME::` runs one file of it.

mod access_log;
mod admin;
mod beanstalk;
mod become_protocol;
mod caches;
mod clients_http;
mod clients_memcached;
mod clients_redis;
mod combiner;
mod compile_cache;
mod config;
mod control;
mod conversations;
mod distribution;
mod faults_http;
mod handles;
mod held_bodies;
mod http_apart;
mod http_cache;
mod http_hostile;
mod http_pipeline;
mod http_proxy;
mod http_together;
mod http_torture;
mod kv_server;
mod large_values;
mod memcached_binary;
mod memcached_text;
mod merge_nodes;
mod mqtt;
mod mqtt_broker;
mod mysql;
mod plain_proxies;
mod postgres;
mod random_commands;
mod redis;
mod redis_transactions;
mod same_answers;
mod signals;
mod smtp;
mod tls_router;
mod udp;
mod websocket;
mod word_count;
