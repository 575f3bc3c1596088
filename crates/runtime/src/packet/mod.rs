//! Frames: batches come in from ports (captures, interfaces, memory), and the same buffers go out
//! through other ports. Between them, the program's `batch` function runs to completion, one thread
//! per core.
//!
//! ```text
//! port ─ receive ─ steer ─ (ring to another core) ─ batch ─ route ─ (ring) ─ transmit ─ port
//! ```
//!
//! `port_targets` reads the targets of each port's instances. `port_bindings` opens them. Each
//! engine is a [`FramePort`] in a file of its own (`pcap`, `memory`, `afpacket`, `afxdp`, `tun`,
//! `udp`). `pool` has the buffers, and `core` the loop of one core. `rps` chooses the core of a
//! frame. `core_mesh` has the rings between cores, and `core_times` how far they have come. `queue`
//! has the queues inside the program, and `crossing` those between segments. `nic` leads them to
//! another process. `serve` has the threads. `table` loads tables before the first frame and writes
//! them behind the last.
//!
//! Several apps run on the same cores. `options` gives each app its part of the command line.
//! `share` opens a port once that several apps name. `core::fan_out` shows a frame to all apps that
//! read it, in clusters of one key.
//!
//! A frame is received into a buffer of the pool and leaves from the same buffer. A straight path
//! copies nothing, and nothing is allocated per frame.

mod afpacket;
mod afxdp;
mod batch;
mod board;
mod bpf;
mod core;
mod core_mesh;
mod core_times;
mod crossing;
pub mod fault_kinds;
mod handover;
pub mod hook_ring;
mod hooked;
mod host_stack;
pub(crate) mod interface_uses;
mod interfaces;
mod loop_port;
mod memory;
mod metrics;
pub mod nic;
mod null_port;
mod offload;
mod options;
mod pcap;
mod pool;
mod port;
mod port_bindings;
mod port_targets;
mod queue;
mod queue_port;
mod rps;
mod scatter;
mod send_errors;
mod serve;
mod shared_ports;
mod sim;
mod socket;
pub(crate) mod spsc;
mod table_files;
mod tun;
mod udp;

#[cfg(test)]
mod tests;

pub use self::core::{queue as ask_queue, serve as serve_popped, transmit};
pub use afpacket::promiscuous;
pub use afxdp::mtu;
pub use batch::{Batch, BATCH};
pub use hooked::{Gives, Hooked};
pub use memory::{FrameSink, Frames, Spent, Timing};
pub use metrics::{metrics, status};
pub use options::{Inserts, Options};
pub use pool::Pool;
pub use port::FramePort;
pub use port_bindings::bound;
pub use port_targets::{check_bindings, interfaces_of};
pub use rps::Policy as Rps;
pub(crate) use serve::{prepare, RunningPackets, Service};
pub use sim::PacketSim;
pub(crate) use table_files::{Counted, Loads};
