//! The core on the memory engine, with the line program.

mod answers_by_id;
mod basic;
mod faults;
mod flow;
mod health;
mod large_answers;
mod pipeline;
mod pool;
mod server_lists;
mod slow_requests;
mod together;
mod torture;
mod turns;

use crate::engine::memory::Peer;
use crate::sim::Sim;
use crate::test_program;

fn sim(exclusive: bool, sets: &[&str]) -> Sim {
    Sim::new(vec![test_program::app(exclusive, sets)]).unwrap()
}

/// However often they have been disappointed, requests share connections where `pipeline` is not
/// given.
fn trust(s: &mut Sim) {
    for b in s.core.apps.iter_mut().flat_map(|a| &mut a.ports).flat_map(|p| &mut p.backends) {
        (b.trust, b.calm_until) = (super::pipelining_policy::PipeliningPolicy::blind(), 0);
    }
}

fn text(p: &Peer) -> String {
    String::from_utf8(p.receive()).unwrap()
}

/// Nothing is left after an end without faults.
fn assert_clean(s: &mut Sim) {
    s.core.shut();
    assert_eq!(s.core.in_use(), [0; 4], "connections, tasks, slots, calls");
    assert_eq!((s.core.pool.queue_used(), s.core.pool.owned_used()), (0, 0), "bytes");
}
