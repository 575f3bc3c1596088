//! Merge nodes (FLICK's foldt): sorted streams of many connections combined into one, as a tree of
//! tasks over the cores.
//!
//! In: an app's listen port, on which exactly `inputs` mappers connect, and its connect port to the
//! reducer. Out: one sorted stream to the reducer, in which the program has combined messages of
//! equal keys. Stages: `node` gathers the mappers, then plans the tree (`plan`) and runs its tasks,
//! a thread per core. A `worker` reads its `input`s (sockets, or the `pipe` from another task) into
//! bounded windows. It calls the program's merge, and writes the result to the reducer or to its
//! pipe. Where a program has nodes before the merge, they handle each message of a mapper, in the
//! task that reads it. Those behind it handle each message that the root writes (`nodes`).
//!
//! Sockets are read only when the merge needs their bytes, and windows have a fixed size. So a slow
//! reducer stalls the tasks, these stall the mappers, and memory stays flat. Every failure ends the
//! run with a reset of the reducer's connection, so that a cut stream never looks complete. After
//! each run the node waits for the next mappers.

mod input;
mod node;
mod nodes;
mod pipe;
mod plan;
mod socket;
mod worker;

pub use node::Node;

use crate::core::app::App;
use crate::error::Error;
use crate::server::options::Stop;
use crate::stats::CoreStats;
use std::sync::Arc;
use std::time::Duration;

/// The state that all nodes of a service share.
#[derive(Clone)]
pub struct Setting {
    pub stats: Arc<Vec<CoreStats>>,
    pub cpus: Vec<usize>,
    pub stop: Stop,
    pub drain_limit: Duration,
}

/// Opens the listening ports of all merge nodes.
pub fn open(apps: &[Arc<App>], setting: &Setting) -> Result<Vec<Node>, Error> {
    let mut nodes = Vec::new();
    for (a, app) in apps.iter().enumerate() {
        for m in 0..app.desc.merges.len() {
            nodes.push(Node::open(app.clone(), a, m, setting.clone())?);
        }
    }
    Ok(nodes)
}

/// Why a run ended before its end.
#[derive(Clone, Debug)]
pub struct Fault {
    pub kind: u32,
    pub place: u32,
    pub text: String,
}

impl Fault {
    fn new(kind: i32, text: impl Into<String>) -> Fault {
        Fault { kind: kind as u32, place: crate::stats::NO_PLACE, text: text.into() }
    }
}
