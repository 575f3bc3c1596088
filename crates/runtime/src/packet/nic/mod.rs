//! Segments `on nic`: a second process that stands for the processor of a network card.
//!
//! ```text
//! process of the CPU                        process of the NIC
//! core ─ queue ─ ring ════ shared memory ════ ring ─ core
//! agent ─────────────── socket ────────────── peer
//! ```
//!
//! It is the same executable with the same arguments, started by the first process, so it has the
//! same program. Each process opens its own ports and runs its own segments. A [`layout`] divides
//! the memory that both map. It has a board with the state of all cores, and the NIC's counters.
//! Behind them lies a [`ring`] for each instance of a queue that leads over the [`link`]. A
//! [`meter`] tells the cost that the entries would have on PCIe.
//!
//! In the first process an [`agent`] starts the other one, shows its counters, has signals run
//! there, and passes on the end. In the other one, a [`peer`] does what it is told. If one of them
//! is killed, the other one ends, or starts it again.

mod agent;
mod channel;
mod layout;
mod link;
mod meter;
mod mirror;
mod peer;
mod ring;
mod role;
mod shared;
mod tell;

pub use agent::{Agent, Work};
pub use layout::{LinkRing, ProcessSide};
pub use link::{Carried, LinkIn, LinkOut};
pub use meter::{Cost, Link, PARAMETERS};
pub use mirror::Tables;
pub use peer::{AgentPeer, Served};
pub use role::{Inherited, Role};
pub use shared::Joint;
pub use tell::{explained, metrics, summary};
