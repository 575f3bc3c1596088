//! Admission to a listening port: no more connections than `max_connections`.
//!
//! The engine accepts as many connections as there are places. The others wait in the kernel's
//! queue until a place becomes free. After `accept_timeout` a waiting connection is accepted, gets
//! `overload` from its protocol, and is closed in order.

use super::slab::Id;
use super::types::{flag, Start, CLIENT};
use super::{Core, LINGER_NS};
use crate::abi::WL_F_OVERLOAD;
use crate::engine::Token;
use crate::stats::NO_PLACE;
use log::Level;
use wireloom_ir::desc::PortOptions;

/// Most connections of a port that are refused at a time.
pub(super) const TOLD_MAX: usize = 1024;

pub(super) struct Listener {
    pub token: Token,
    pub app: u16,
    pub port: u16,
    /// When its queue was last checked while the port was full; 0: it is not full.
    pub since: u64,
    /// How many waited then, and still do.
    pub due: usize,
}

impl Listener {
    pub fn new(token: Token, app: u16, port: u16) -> Listener {
        Listener { token, app, port, since: 0, due: 0 }
    }
}

impl Core {
    /// The core may use so many descriptors. Clients leave those that their requests need for
    /// connections to backends; else nobody could be served when clients have taken all.
    pub(crate) fn share_descriptors(&mut self, share: u64) {
        let ports = || self.apps.iter().flat_map(|a| a.ports.iter()).filter(|p| !p.udp);
        let listening = ports().filter(|p| p.listen).count().max(1) as u64;
        let each = if ports().any(|p| !p.listen && !p.backends.is_empty()) { 2 } else { 1 };
        // Those that are only told that there is no place need descriptors, too.
        self.told_max = TOLD_MAX.min(usize::try_from(share / 8 / listening).unwrap_or(TOLD_MAX)).max(1);
        let room = u32::try_from((share - share / 8) / each / listening).unwrap_or(u32::MAX).max(1);
        self.room = room;
        for app in &mut self.apps {
            for (p, port) in app.ports.iter_mut().enumerate().filter(|(_, p)| p.listen && !p.udp) {
                let asked = port.options.max_connections;
                if asked <= room {
                    continue;
                }
                port.options.max_connections = room;
                let name = &app.app.desc.ports[p].name;
                // The default asks for as many as there can be.
                let level = if asked == PortOptions::default().max_connections { Level::Info } else { Level::Warn };
                let core = self.index;
                log::log!(level, "{}.{name}: core {core} takes {room} connections at most, not {asked}: this process may open too few files (ulimit -n)", app.app.desc.app);
            }
        }
    }

    /// Whether a port has no place left.
    pub(super) fn full(&self, a: u16, p: u16) -> bool {
        let port = &self.apps[a as usize].ports[p as usize];
        port.open - port.turned_away >= port.options.max_connections
    }

    /// The limit of a port has changed from `before`: connections over a lower one are served on.
    pub(super) fn change_places(&mut self, a: usize, p: usize, before: u32) {
        let port = &mut self.apps[a].ports[p];
        if !port.listen || port.udp {
            return;
        }
        port.options.max_connections = port.options.max_connections.min(self.room);
        let now = port.options.max_connections;
        if now < before {
            port.surplus += before - now;
            return;
        }
        let missed = port.surplus.min(now - before);
        port.surplus -= missed;
        let more = (now - before - missed) as usize;
        let listener = self.listeners.iter().find(|l| (l.app as usize, l.port as usize) == (a, p)).map(|l| l.token);
        if let Some(token) = listener.filter(|_| more > 0 && !self.draining) {
            self.engine.admit(token, more);
        }
    }

    /// A connection over the limit: it gets an error when it speaks, and is soon closed if it does
    /// not. In a conversation it may wait for our word, and gets the error at once.
    pub(super) fn turn_away(&mut self, id: Id) {
        let c = &mut self.conns[id];
        c.set(flag::TURNED_AWAY);
        let (a, p) = (c.app as usize, c.port as usize);
        self.apps[a].ports[p].turned_away += 1;
        self.my_stats().apps[a].ports[p].turned_away.add(1);
        self.arm(id, self.now.saturating_add(LINGER_NS));
        if self.conns[id].member == CLIENT {
            self.client_over(id, (WL_F_OVERLOAD, NO_PLACE), Start::default());
        }
    }

    /// Whether a connection that ends was turned away. One that has said nothing, and so has got no
    /// answer, is counted now.
    pub(super) fn turned_away(&mut self, id: Id) -> bool {
        let c = &self.conns[id];
        let away = c.has(flag::TURNED_AWAY);
        if away && !c.has(flag::LAST) && c.why == 0 {
            self.count_fault_at(id, WL_F_OVERLOAD, NO_PLACE);
        }
        away
    }

    /// A connection was accepted: if it took the last place, the queue is watched from now on.
    pub(super) fn last_place(&mut self, listener: Token) {
        let now = self.now;
        let Some(i) = self.listeners.iter().position(|l| l.token == listener) else { return };
        if self.full(self.listeners[i].app, self.listeners[i].port) {
            (self.listeners[i].since, self.listeners[i].due) = (now, 0);
        }
    }

    /// A connection has come from another core: one less is let in.
    pub(super) fn take_place(&mut self, a: usize, p: usize) {
        let l = self.listeners.iter().find(|l| (l.app as usize, l.port as usize) == (a, p)).map(|l| l.token);
        if !l.is_some_and(|l| self.engine.take_place(l)) {
            self.apps[a].ports[p].surplus += 1;
        }
    }

    /// A client connection has been closed, or has moved to another core.
    pub(super) fn place_free(&mut self, a: usize, p: usize, turned_away: bool) {
        if turned_away {
            self.apps[a].ports[p].turned_away -= 1;
        } else if self.apps[a].ports[p].surplus > 0 {
            self.apps[a].ports[p].surplus -= 1;
        } else if !self.draining {
            if let Some(l) = self.listeners.iter().find(|l| (l.app as usize, l.port as usize) == (a, p)) {
                self.engine.admit(l.token, 1);
            }
        }
    }

    /// Admits waiting connections of full ports after `accept_timeout`, so that they are refused
    /// with an answer. Each queue is checked twice per `accept_timeout`. A connection seen in the
    /// check before has waited for at least half of it.
    pub(super) fn answer_queues(&mut self) {
        for i in 0..self.listeners.len() {
            let (a, p) = (self.listeners[i].app, self.listeners[i].port);
            if self.draining || !self.full(a, p) {
                (self.listeners[i].since, self.listeners[i].due) = (0, 0);
                continue;
            }
            let port = &self.apps[a as usize].ports[p as usize];
            let (wait, told) = (port.options.accept_timeout / 2, port.turned_away as usize);
            let l = &mut self.listeners[i];
            if l.since != 0 && self.now - l.since < wait {
                continue;
            }
            let n = l.due.min(self.told_max.saturating_sub(told));
            // Admitted connections leave the queue as they arrive.
            l.due = self.engine.queued(l.token);
            l.since = self.now;
            if n > 0 {
                self.engine.admit(l.token, n);
            }
        }
    }
}
