//! The end of a core's service: nothing new is accepted, and work under way finishes.
//!
//! In: [`Core::drain`]. Out: the end of each client connection, in order. One that is idle stays
//! open for a grace.

use super::types::{flag, Mode, Side};
use super::Core;

/// Idle connections stay open so long after a drain has begun: a request that is on its way is
/// answered.
const DRAIN_GRACE_NS: u64 = 250_000_000;

impl Core {
    /// Stops accepting. Connections end with their next answer, if their protocol can say so, or
    /// when they are idle after a grace.
    pub fn drain(&mut self) {
        self.draining = true;
        self.close_desk();
        self.drain_idle_at = self.engine.now().saturating_add(DRAIN_GRACE_NS);
        self.apps.iter_mut().for_each(|a| a.wl.draining = 1);
        // They stay listed: whom the engine has accepted until now is served.
        for i in 0..self.listeners.len() {
            self.engine.unlisten(self.listeners[i].token);
        }
    }

    /// The grace of a drain is over.
    pub(super) fn grace_over(&self) -> bool {
        self.now >= self.drain_idle_at
    }

    /// A drain closes idle connections once its grace is over. Busy ones close after their answer
    /// (`advance`). A conversation goes on until one of its sides ends it: only they know when it
    /// may end.
    pub(super) fn close_idle(&mut self) {
        if !self.draining || self.drain_closed || !self.grace_over() {
            return;
        }
        self.drain_closed = true;
        for id in self.conns.ids() {
            let c = &mut self.conns[id];
            let idle = c.count == 0 && c.mode == Mode::Head && c.input.is_empty() && !c.has(flag::AGAIN);
            if c.side == Side::Client && c.member == 0 && idle {
                c.set(flag::CLOSING | flag::LINGER);
                self.mark_dirty(id);
            }
        }
    }
}
