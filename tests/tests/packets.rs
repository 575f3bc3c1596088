//! Packet programs: captures, interfaces in namespaces, headers and elements, against scapy, tshark
//! and models.
//!
//! One binary: `cargo test -p wireloom-tests --test packets -- NAME::` runs one file of it.

mod ipfix;
mod ipsec;
mod one_clock;
mod packet_apps;
mod packet_bench;
mod packet_captures;
mod packet_carries;
mod packet_chains;
mod packet_copies;
mod packet_cores;
mod packet_live;
mod packet_mistakes;
mod packet_nic;
mod packet_odds;
mod packet_offload;
mod packet_processors;
mod packet_segments;
mod packet_sharing;
mod packet_state;
mod packet_times;
mod packet_units;
mod packet_vectorize;
mod table_dumps;
mod xdp;
