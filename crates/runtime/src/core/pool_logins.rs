//! Clients that log in where sessions have pools: they wait for a place, in order.
//!
//! In: `up = open db[i] for key`. Out: a connection that counts as a session of the key's pool from
//! its beginning. So a pool never has more than `pool` sessions, and a server no more connections
//! than `max_connections`, however many clients log in at once. If there is no place, the client
//! gets a connection without a socket, which keeps its messages. An idle session of the pool is
//! closed for it: its login brings another one. After `pool_timeout` its conversation has the fault
//! `overload`.

use super::conversation::UPSTREAM;
use super::slab::Id;
use super::types::{flag, Order, Pooling, Target};
use super::Core;
use crate::abi::*;
use crate::stats::NO_PLACE;
use std::collections::VecDeque;

/// Clients that wait for a session of one pool, or for a place at one server; one more is the fault
/// `overload`.
pub(super) const WAITERS_MAX: usize = 16_384;

/// Those that wait for a place at one server, the first first; each with the pools of its key.
struct LoginQueue {
    at: Target,
    waiting: VecDeque<(Id, u32)>,
}

#[derive(Default)]
pub(super) struct PoolLogins {
    queues: Vec<LoginQueue>,
    /// Idle sessions that make place. They are closed at the end of the batch.
    leaving: Vec<LeavingSession>,
    /// A place may be free.
    look: bool,
}

struct LeavingSession {
    id: Id,
    at: Target,
    group: u32,
}

impl PoolLogins {
    pub fn look_again(&mut self) {
        self.look = !self.queues.is_empty();
    }

    fn queue(&self, at: Target) -> Option<&VecDeque<(Id, u32)>> {
        self.queues.iter().find(|q| q.at == at).map(|q| &q.waiting)
    }

    fn add(&mut self, at: Target, id: Id, g: u32) {
        match self.queues.iter_mut().find(|q| q.at == at) {
            Some(q) => q.waiting.push_back((id, g)),
            None => self.queues.push(LoginQueue { at, waiting: VecDeque::from([(id, g)]) }),
        }
    }

    pub fn remove(&mut self, at: Target, id: Id) {
        if let Some(q) = self.queues.iter_mut().find(|q| q.at == at) {
            q.waiting.retain(|(x, _)| *x != id);
        }
        self.queues.retain(|q| !q.waiting.is_empty());
    }

    /// How many logins wait, and how many places are about to be free, at a server. With `only`
    /// those of a key's pool.
    fn waiting_and_due(&self, at: Target, only: Option<u32>) -> (usize, usize) {
        let counts = |g: u32| only.is_none_or(|only| only == g);
        let waiting = self.queue(at).map_or(0, |q| q.iter().filter(|(_, g)| counts(*g)).count());
        let due = self.leaving.iter().filter(|l| l.at == at && counts(l.group)).count();
        (waiting, due)
    }

    /// A connection is closed.
    pub fn has_left(&mut self, id: Id) {
        self.leaving.retain(|l| l.id != id);
    }

    /// Whether anybody waits for a place in a key's pools.
    pub fn waits_for(&self, g: u32) -> bool {
        self.queues.iter().flat_map(|q| &q.waiting).any(|(_, of)| *of == g)
    }
}

impl Core {
    /// Whether a port shares sessions.
    pub(super) fn has_pool(&self, at: Target) -> bool {
        let port = &self.apps[at.a].ports[at.p];
        port.options.pool > 0 && !port.reset.is_empty()
    }

    /// `up = open db[i] for key`
    pub(super) fn log_in(&mut self, at: Target, client: Id, number: u32, key: &[u8]) -> Result<Id, u32> {
        let g = self.pools.find_or_make(at.a as u16, key);
        let made = self.log_in_for(at, client, number, g);
        if made.is_err() {
            self.pools.sweep(g);
        }
        made
    }

    /// The same, by the number of the key's pools.
    pub(super) fn log_in_for(&mut self, at: Target, client: Id, number: u32, g: u32) -> Result<Id, u32> {
        let first = self.pools.logins.queue(at).is_none_or(|q| q.iter().all(|(_, other)| *other != g));
        if first && self.has_place(g, at) {
            return self.begin_login(at, client, number, g);
        }
        if self.pools.logins.queue(at).is_some_and(|q| q.len() >= WAITERS_MAX) {
            return Err(WL_F_OVERLOAD);
        }
        let id = self.book_waiting(at, client, (number, g), Pooling::Login);
        self.pools.logins.add(at, id, g);
        self.make_place(g, at);
        Ok(id)
    }

    fn begin_login(&mut self, at: Target, client: Id, number: u32, g: u32) -> Result<Id, u32> {
        let id = self.connect_upstream(at, client, number)?;
        if let Some(pool) = self.pools.pool_or_new(g, at) {
            pool.sessions += 1;
            self.conns[id].group = g;
        }
        Ok(id)
    }

    /// Whether a pool and its server may have another session.
    fn has_place(&mut self, g: u32, at: Target) -> bool {
        let port = &self.apps[at.a].ports[at.p];
        let room = port.backends[at.i].open < port.options.max_connections;
        room && self.has_place_in_pool(g, at)
    }

    fn has_place_in_pool(&mut self, g: u32, at: Target) -> bool {
        let most = self.apps[at.a].ports[at.p].options.pool;
        self.pools.pool(g, at).is_none_or(|p| p.sessions < most)
    }

    /// Closes an idle session for one that is to log in. Its place is free at the end of the batch.
    fn make_place(&mut self, g: u32, at: Target) {
        if self.has_place_in_pool(g, at) {
            self.gives_place(at);
        } else if let Some(idle) = self.pools.pool(g, at).and_then(|p| p.idle.pop()) {
            self.expel(idle, at);
        }
    }

    /// An idle session makes place. Handlers may run now, so it is closed at the end of the batch.
    pub(super) fn expel(&mut self, id: Id, at: Target) {
        let group = self.conns[id].group;
        self.pools.logins.leaving.push(LeavingSession { id, at, group });
        self.conns[id].set(flag::DOOMED);
        self.mark_dirty(id);
    }

    /// Whether a login of a key needs another session closed than those that are leaving already.
    fn lacks_place(&mut self, g: u32, at: Target) -> bool {
        if self.has_place(g, at) {
            return false;
        }
        let only = (!self.has_place_in_pool(g, at)).then_some(g);
        let (waiting, due) = self.pools.logins.waiting_and_due(at, only);
        due < waiting
    }

    /// Whether somebody waits for a place in a pool.
    pub(super) fn login_waits(&self, g: u32, at: Target) -> bool {
        self.pools.logins.queue(at).is_some_and(|q| q.iter().any(|(_, of)| *of == g))
    }

    /// Whether the place of a session that is idle now goes to a login. The login has waited for
    /// longer than those that wait for a session. Or its server has no other place for a login
    /// of another key.
    pub(super) fn login_is_next(&mut self, g: u32, at: Target) -> bool {
        let Some(queue) = self.pools.logins.queue(at) else { return false };
        let since = |id: Id| self.conns.get(id).map_or(u64::MAX, |c| c.since);
        let own = queue.iter().find(|(_, of)| *of == g).map_or(u64::MAX, |(id, _)| since(*id));
        let taker = self.pools.pool(g, at).and_then(|p| p.waiting.front().copied());
        let taker = taker.map_or(u64::MAX, |id| self.conns.get(id).map_or(0, |c| c.since));
        if own < taker {
            return self.lacks_place(g, at);
        }
        let port = &self.apps[at.a].ports[at.p];
        let (waiting, due) = self.pools.logins.waiting_and_due(at, None);
        let full = port.backends[at.i].open >= port.options.max_connections && due < waiting;
        let spare = self.pools.group(g).is_some_and(|g| g.clients == 0)
            || self.pools.pool(g, at).is_some_and(|p| p.sessions > 1);
        full && spare && taker == u64::MAX
    }

    /// Limits of pools and servers may be others, or idle sessions may be nobody's any more.
    pub(super) fn look_for_places(&mut self) {
        self.pools.logins.look_again();
    }

    /// A connection to a server ends: at the end of the batch its place may be given to a login.
    pub(super) fn place_for_login(&mut self, id: Id) {
        if self.pools.logins.queue(self.target_of(id)).is_some() {
            self.pools.logins.look = true;
        }
    }

    /// Gives free places to those that wait. Whether anybody has got one.
    pub(super) fn start_logins(&mut self) -> bool {
        if !std::mem::take(&mut self.pools.logins.look) {
            return false;
        }
        let servers: Vec<Target> = self.pools.logins.queues.iter().map(|q| q.at).collect();
        let mut started = false;
        for at in servers {
            while let Some(id) = self.next_login(at) {
                self.start_login(id, at);
                started = true;
            }
            let first = self.pools.logins.queue(at).and_then(|q| q.front().copied());
            if let Some((_, g)) = first.filter(|(_, g)| self.lacks_place(*g, at)) {
                self.make_place(g, at);
            }
        }
        started
    }

    /// The first that waits for a server and has a place now.
    fn next_login(&mut self, at: Target) -> Option<Id> {
        let all: Vec<(Id, u32)> = self.pools.logins.queue(at)?.iter().copied().collect();
        let wants = |core: &Core, id: Id| {
            core.conns.get(id).is_some_and(|c| c.pooling == Pooling::Login && !c.has(flag::LEFT | flag::DOOMED))
        };
        all.into_iter().find(|(id, g)| wants(self, *id) && self.has_place(*g, at)).map(|(id, _)| id)
    }

    /// One that has waited logs in now; at another server, if its own is down or gone.
    fn start_login(&mut self, id: Id, at: Target) {
        self.pools.logins.remove(at, id);
        let port = &self.apps[at.a].ports[at.p];
        let to = match port.is_up(at.i) && self.is_listed(at) {
            true => Some(at),
            false => self.next_server(at, &mut Order::from_server(at.i)),
        };
        self.log_in_at(id, to);
    }

    fn log_in_at(&mut self, id: Id, to: Option<Target>) {
        let (at, c) = (self.target_of(id), &self.conns[id]);
        let (client, number, g, tries) = (c.client, u32::from(c.member - UPSTREAM), c.group, c.answered);
        let made = match to {
            // Its turn has come.
            Some(to) if to == at => self.begin_login(to, client, number, g),
            Some(to) => self.log_in_for(to, client, number, g),
            None => Err(WL_F_REFUSED),
        };
        match made {
            Ok(new) => {
                self.conns[new].answered = tries;
                self.replace_waiting(id, new);
            }
            Err(kind) => self.upstream_over(id, Some((kind, NO_PLACE))),
        }
    }

    /// The server of one that waits for a place is gone from the list: it waits for another.
    pub(super) fn log_in_elsewhere(&mut self, id: Id) {
        let at = self.target_of(id);
        let to = self.apps[at.a].ports[at.p].places.first().map(|i| Target { i: *i as usize, ..at });
        self.pools.logins.remove(at, id);
        self.log_in_at(id, to);
    }
}
