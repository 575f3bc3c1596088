//! Admission to a listening port: no more connections than `max_connections`.
//!
//! The engine accepts as many connections as there are places. The others wait in the kernel's
//! queue until a place becomes free. Where a protocol announces the end of connections, as HTTP
//! does, idle ones give their places to those that wait. After `accept_timeout` a waiting connection
//! is accepted, gets `overload` from its protocol, and is closed in order.

use super::slab::Id;
use super::types::{flag, Conn, Mode, Side, Start, CLIENT};
use super::{Core, LINGER_NS};
use crate::abi::{WL_F_IDLE, WL_F_OVERLOAD};
use crate::engine::Token;
use crate::stats::NO_PLACE;
use log::Level;
use wireloom_ir::desc::PortOptions;

/// Most connections of a port that are refused at a time.
pub(super) const TOLD_MAX: usize = 1024;

/// Nanoseconds that refused connections have to take their answer, and to say a word for it, if
/// others wait for their places.
const TAKES_NS: u64 = 100_000_000;
const SPEAKS_NS: u64 = 300_000_000;

pub(super) struct Listener {
    pub token: Token,
    pub app: u16,
    pub port: u16,
    /// When its queue was last checked while the port was full; 0: it is not full.
    pub since: u64,
    /// How many waited then, and still do.
    pub due: usize,
    /// How many of these were let in to be refused, and have not come yet.
    pub coming: usize,
}

impl Listener {
    pub fn new(token: Token, app: u16, port: u16) -> Listener {
        Listener { token, app, port, since: 0, due: 0, coming: 0 }
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

    /// A connection that is to be refused has come.
    pub(super) fn refused_came(&mut self, listener: Token) {
        if let Some(l) = self.listeners.iter_mut().find(|l| l.token == listener) {
            l.coming = l.coming.saturating_sub(1);
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
        self.told.push_back(id);
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
            self.tell_next(a, p);
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
            self.hurry(i);
            let wait = self.apps[a as usize].ports[p as usize].options.accept_timeout / 2;
            if self.listeners[i].since != 0 && self.now - self.listeners[i].since < wait {
                continue;
            }
            self.listeners[i].due -= self.idle_give_way((a, p), self.listeners[i].due, wait / 2);
            let told = self.apps[a as usize].ports[p as usize].turned_away as usize;
            let l = &mut self.listeners[i];
            let n = l.due.min(self.told_max.saturating_sub(told));
            // Admitted connections leave the queue as they arrive.
            l.due = self.engine.queued(l.token);
            l.since = self.now;
            l.coming = n;
            if n > 0 {
                self.engine.admit(l.token, n);
            }
        }
    }

    /// A refused connection has been closed: the next one that is due takes its place.
    fn tell_next(&mut self, a: usize, p: usize) {
        let l = self.listeners.iter_mut().find(|l| (l.app as usize, l.port as usize) == (a, p) && l.due > l.coming);
        if let Some(l) = l.filter(|_| !self.draining) {
            l.coming += 1;
            self.engine.admit(l.token, 1);
        }
    }

    /// Refused connections whose peers keep them open are closed, if all places for them are taken
    /// and others are due.
    fn hurry(&mut self, i: usize) {
        let (a, p) = (self.listeners[i].app, self.listeners[i].port);
        let told = self.apps[a as usize].ports[p as usize].turned_away as usize;
        let l = &self.listeners[i];
        let crowded = l.due > l.coming && told + l.coming >= self.told_max;
        for _ in 0..self.told.len() {
            let Some(id) = self.told.pop_front() else { return };
            let Some(c) = self.conns.get(id) else { continue };
            let span = if c.has(flag::SHUT) { TAKES_NS } else { SPEAKS_NS };
            if crowded && (c.app, c.port) == (a, p) && self.now - c.since >= span {
                self.close_conn(id, false);
            } else {
                self.told.push_back(id);
            }
        }
    }

    /// Closes up to `n` client connections of a port that have been idle for `span`, those first
    /// that have been so for longest. Returns how many.
    fn idle_give_way(&mut self, (a, p): (u16, u16), n: usize, span: u64) -> usize {
        let app = &self.apps[a as usize];
        let announces = |p: &u16| app.protos[*p as usize].tells_drain;
        if n == 0 || !app.ports[p as usize].protos.iter().all(announces) {
            return 0;
        }
        let before = self.now.saturating_sub(span);
        let here = self.conns.iter().filter(|(_, c)| (c.app, c.port) == (a, p) && is_idle(c));
        let mut idle: Vec<_> = here.map(|(id, c)| (c.last_rx.max(c.last_tx), id)).filter(|i| i.0 <= before).collect();
        let n = n.min(idle.len());
        if n > 0 && n < idle.len() {
            idle.select_nth_unstable_by_key(n - 1, |i| i.0);
        }
        for (_, id) in &idle[..n] {
            self.my_stats().apps[a as usize].ports[p as usize].gave_way.add(1);
            self.ends_by(*id, WL_F_IDLE);
            self.close_conn(*id, false);
        }
        n
    }
}

/// Whether a client's connection waits for a request, and none has begun.
pub(super) fn awaits_request(c: &Conn) -> bool {
    c.side == Side::Client && c.count == 0 && c.mode == Mode::Head && c.input.is_empty() && !c.has(flag::AGAIN)
}

/// Whether nothing is lost when a client's connection is closed now.
fn is_idle(c: &Conn) -> bool {
    let ends = flag::CLOSING | flag::LAST | flag::SHUT | flag::TURNED_AWAY | flag::EOF;
    awaits_request(c) && c.member == 0 && c.view.is_none() && c.out.is_empty() && !c.has(ends)
}
