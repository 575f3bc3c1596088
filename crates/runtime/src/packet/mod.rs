//! Frames: in come batches from ports (captures, interfaces, memory), out go the same buffers
//! through other ports, and in between the program's `batch` function runs to completion, one
//! thread per core.
//!
//! ```text
//! port ─ receive ─ steer ─ (ring to another core) ─ batch ─ route ─ (ring) ─ transmit ─ port
//! ```
//!
//! `plan` says which engine each port's instances are bound to and opens them; each engine is a
//! [`FramePort`] in a file of its own (`pcap`, `memory`, `afpacket`, `afxdp`, `tun`, `udp`); `pool`
//! has the buffers, `core` the loop of one core, `rps` says which core handles a frame, `mesh` has
//! the rings between cores, `queue` what waits inside the program, `serve` the threads, and `table`
//! what is loaded before the first frame and written behind the last.
//!
//! Several apps run on the same cores: `options` says what each is told, `share` opens once what
//! several of them name, and `core::fan_out` shows a frame to all that read it, in clusters of one
//! key.
//!
//! A frame is received into a buffer of the pool and leaves from the same buffer: nothing is copied
//! on a straight path, and nothing is allocated per frame.

mod afpacket;
mod afxdp;
mod bpf;
mod core;
mod core_mesh;
mod memory;
mod metrics;
mod offload;
mod options;
mod pcap;
mod pool;
mod port;
mod port_bindings;
mod port_ends;
mod queue;
mod rps;
mod serve;
mod share;
mod sim;
mod socket;
mod spsc;
mod table;
mod tun;
mod udp;

#[cfg(test)]
mod tests;

pub use self::core::{queue as ask_queue, serve as serve_popped, transmit};
pub use memory::{Frames, Sink, Spent, Timing};
pub use metrics::{metrics, status};
pub use pool::Pool;
pub use port::{Batch, FramePort, BATCH};
pub use port_bindings::{bound, check_bindings, Options};
pub use rps::Policy as Rps;
pub(crate) use serve::{prepare, Running, Service};
pub use sim::PacketSim;
pub use table::Inserts;
pub(crate) use table::{Counted, Loads};
