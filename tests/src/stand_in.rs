//! With `PLAIN=1` a real server stands in for an app, as far as there is one. That shows whether
//! the tests expect the behaviour of real servers.

use crate::{free_port, Process};
use std::collections::HashMap;
use std::process::Command;

/// The server that does an app's work, given the arguments of `wireloom run`.
pub fn start(app: &str, args: &[&str], adjust: impl FnOnce(&mut Command)) -> Process {
    let set: HashMap<&str, &str> =
        args.windows(2).filter(|w| w[0] == "--set").filter_map(|w| w[1].split_once('=')).collect();
    let get = |name: &str, default: &'static str| set.get(name).copied().unwrap_or(default);
    match app {
        "memcached_proxy" | "kv_server" => Process::memcached(),
        "redis_proxy" => Process::redis(),
        "static_web" => {
            let (status, body) = (get("status", "200"), get("body", "Hello from Wireloom.\n"));
            if body.len() < 2000 {
                let kind = get("content_type", "text/plain");
                return Process::nginx_with(
                    &format!("default_type {kind}; location / {{ return {status} '{body}'; }}"),
                    adjust,
                );
            }
            let nginx = Process::nginx_with("location / { try_files /body =404; }", adjust);
            std::fs::write(Process::nginx_folder(nginx.port).join("body"), body).expect("the folder is writable");
            nginx
        }
        "http_balancer" => {
            let servers: String =
                get("servers", "").split(',').map(|s| format!("server {s} max_fails=2 fail_timeout=1s; ")).collect();
            let name = format!("u{}", free_port());
            let (call, read) = (get("backend.call_timeout", "30s"), get("client.read_timeout", "30s"));
            let text = format!(
                "client_header_timeout {read}; client_body_timeout {read}; location / {{ proxy_pass http://{name}; proxy_http_version 1.1; \
                 proxy_set_header Connection ''; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_read_timeout {call}; \
                 proxy_buffering off; proxy_request_buffering off; proxy_connect_timeout 2s; }} }} upstream {name} {{ hash $remote_port; {servers} keepalive 64; "
            );
            Process::nginx_with(&text, adjust)
        }
        _ => panic!("nothing stands in for {app}"),
    }
}
