//! The end of a core's service: nothing new is accepted, and work under way finishes.
//!
//! In: [`Core::drain`]. Out: the end of each client connection, in order. One that is idle stays
//! open for a grace.
//!
//! A conversation ends when it is idle. Its protocol may tell that (`idle when`): the server waits
//! for the next message, and the client has sent none. Of others only time tells it. The client is
//! told as of a fault, `shutdown`.

use super::slab::Id;
use super::types::{flag, Mode, Side, Start, CLIENT};
use super::Core;
use crate::abi::WL_F_SHUTDOWN;
use crate::stats::NO_PLACE;

/// Idle connections stay open so long after a drain has begun: a request that is on its way is
/// answered.
const DRAIN_GRACE_NS: u64 = 250_000_000;
/// Conversations are looked at so often.
const LOOK_NS: u64 = 100_000_000;
/// A conversation whose protocol does not tell is idle when no byte has moved for so long.
const QUIET_NS: u64 = 1_000_000_000;

impl Core {
    /// Stops accepting. Connections end with their next answer, if their protocol can say so, or
    /// when they are idle after a grace.
    pub fn drain(&mut self) {
        self.draining = true;
        self.close_desk();
        self.drain_idle_at = self.engine.now().saturating_add(DRAIN_GRACE_NS);
        self.drain_look_at = self.drain_idle_at;
        self.apps.iter_mut().for_each(|a| a.wl.draining = 1);
        // They stay listed: whom the engine has accepted until now is served.
        for i in 0..self.listeners.len() {
            self.engine.unlisten(self.listeners[i].token);
        }
    }

    /// A drain closes idle connections once its grace is over. Busy ones close after their answer
    /// (`advance`), conversations when they are idle.
    pub(super) fn close_idle(&mut self) {
        if !self.draining || self.now < self.drain_look_at {
            return;
        }
        self.drain_look_at = self.now.saturating_add(LOOK_NS);
        let first = !std::mem::replace(&mut self.drain_closed, true);
        for id in self.conns.ids() {
            let Some(c) = self.conns.get_mut(id).filter(|c| c.side == Side::Client) else { continue };
            if c.member == CLIENT {
                if self.rests(id) {
                    self.tell_fault(id, (WL_F_SHUTDOWN, NO_PLACE), Start::default(), false);
                    self.ends_by(id, WL_F_SHUTDOWN);
                    if self.conns.alive(id) {
                        self.end_conversation(id);
                    }
                }
                continue;
            }
            let idle = c.count == 0 && c.mode == Mode::Head && c.input.is_empty() && !c.has(flag::AGAIN);
            if first && idle {
                c.set(flag::CLOSING | flag::LINGER);
                self.mark_dirty(id);
            }
        }
    }

    /// Whether nothing is under way in a client's conversation.
    fn rests(&self, client: Id) -> bool {
        let still = |id: &Id| {
            let c = &self.conns[*id];
            let done = c.out.is_empty() && c.after.is_none() && c.input.is_empty() && c.view.is_none();
            done && c.count == 0 && !self.is_asked(c) && c.mode == Mode::Head && !c.has(flag::AGAIN | flag::CONNECTING)
        };
        let c = &self.conns[client];
        if c.has(flag::DOOMED | flag::CLOSING | flag::SHUT) || !self.members(client).iter().all(still) {
            return false;
        }
        match self.apps[c.app as usize].protos.get(c.proto as usize) {
            Some(p) if p.tells_idle => c.at_rest,
            _ => self.now.saturating_sub(self.last_moved(client)) >= QUIET_NS,
        }
    }
}
