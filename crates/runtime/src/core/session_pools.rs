//! Pools of sessions: connections of conversations that go from client to client of one key.
//!
//! In: sessions that programs release, and clients that ask for one. Out: sessions that are reset,
//! each with one client at a time.
//!
//! A client brings a session into the pool before it takes one. So whom no server has accepted gets
//! none, and the process keeps no passwords.
//!
//! A session goes back behind a message that its protocol calls idle (`idle when`). Then it belongs
//! to nobody. The message of `on reset` is sent, and the answer is awaited. The first one for which
//! `reset when` holds, then an idle one, and no byte behind it. Any other course closes the
//! session. So does a byte that comes while nobody has it.
//!
//! A client that is to log in opens a connection as one of the sessions of a pool. It waits for a
//! place if the pool, or the server, has all the sessions that it may have
//! ([`super::pool_logins`]).
//!
//! A client that finds no idle session gets a connection without a socket, which keeps its
//! messages. It waits in the order of the clients, for at most `pool_timeout`.

use super::conversation::UPSTREAM;
use super::input::Parsed;
use super::pool_logins::{PoolLogins, WAITERS_MAX};
use super::slab::Id;
use super::types::{flag, Backend, Mode, Pooling, Side, Sink, Target, CLIENT, NO_GROUP, NO_PROTO, NO_SOCKET};
use super::{Core, Raw};
use crate::abi::*;
use crate::engine::Waiting;
use crate::program::Unit;
use crate::stats::NO_PLACE;
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use wireloom_ir::desc::Failover;

/// The pools of one key.
pub(super) struct SessionGroup {
    app: u16,
    key: Box<[u8]>,
    /// Clients that may take its sessions.
    pub clients: u32,
    pools: SmallVec<[SessionPool; 1]>,
}

/// The sessions with one server.
pub(super) struct SessionPool {
    port: u16,
    instance: u32,
    /// Those of clients that log in included.
    pub sessions: u32,
    pub idle: Vec<Id>,
    pub waiting: VecDeque<Id>,
}

#[derive(Default)]
pub(super) struct SessionPools {
    groups: Vec<Option<SessionGroup>>,
    free: Vec<u32>,
    by_key: HashMap<(u16, Box<[u8]>), u32>,
    /// Sessions that handlers have taken: `on up.opened` is still to run.
    taken: Vec<(Id, Id)>,
    /// Connections that wait for sessions of which there are none any more.
    in_vain: Vec<Id>,
    pub logins: PoolLogins,
}

impl SessionPools {
    pub fn group(&mut self, g: u32) -> Option<&mut SessionGroup> {
        self.groups.get_mut(g as usize)?.as_mut()
    }

    pub fn pool(&mut self, g: u32, at: Target) -> Option<&mut SessionPool> {
        self.group(g)?.pools.iter_mut().find(|p| usize::from(p.port) == at.p && p.instance as usize == at.i)
    }

    fn find(&self, app: u16, key: &[u8]) -> Option<u32> {
        // A key is compared as a whole: a hash alone could bring two users together.
        self.by_key.get(&(app, Box::from(key))).copied()
    }

    pub fn find_or_make(&mut self, app: u16, key: &[u8]) -> u32 {
        if let Some(g) = self.find(app, key) {
            return g;
        }
        let group = Some(SessionGroup { app, key: key.into(), clients: 0, pools: SmallVec::new() });
        let g = match self.free.pop() {
            Some(g) => {
                self.groups[g as usize] = group;
                g
            }
            None => {
                self.groups.push(group);
                self.groups.len() as u32 - 1
            }
        };
        self.by_key.insert((app, key.into()), g);
        g
    }

    pub fn pool_or_new(&mut self, g: u32, at: Target) -> Option<&mut SessionPool> {
        if self.pool(g, at).is_none() {
            let pool = SessionPool {
                port: at.p as u16,
                instance: at.i as u32,
                sessions: 0,
                idle: Vec::new(),
                waiting: VecDeque::new(),
            };
            self.group(g)?.pools.push(pool);
        }
        self.pool(g, at)
    }

    /// Drops a group that nobody is in.
    pub fn sweep(&mut self, g: u32) {
        let Some(group) = self.group(g) else { return };
        let used = |p: &SessionPool| p.sessions > 0 || !p.waiting.is_empty();
        if group.clients > 0 || group.pools.iter().any(used) || self.logins.waits_for(g) {
            return;
        }
        if let Some(group) = self.groups[g as usize].take() {
            self.by_key.remove(&(group.app, group.key));
            self.free.push(g);
        }
    }
}

impl Core {
    // Back to the pool.

    /// `pool up for key`. With `pool 0` the session stays its client's.
    pub(super) fn host_pool(&mut self, id: Id, number: u32, key: &[u8]) {
        let t = &self.tasks[id];
        let (client, src, flags, more) = (t.conn, t.src, t.req_flags, t.req_more);
        let Some(upstream) = self.upstream(client, number).filter(|u| self.conns[*u].pooling == Pooling::Owned) else {
            return;
        };
        let at = self.target_of(upstream);
        let port = &self.apps[at.a].ports[at.p];
        let most = port.options.pool;
        if most == 0 || port.reset.is_empty() {
            return;
        }
        let idle = src == upstream && flags & WL_M_IDLE != 0 && flags & WL_M_CLOSE == 0 && !more;
        if idle && (self.conns[upstream].owes() || self.conns[upstream].asks.is_some() || self.is_fed(upstream)) {
            // Its client still awaits something on it.
            return;
        }
        let own = self.conns[client].group;
        let same = self.pools.group(own).is_some_and(|g| usize::from(g.app) == at.a && *g.key == *key);
        let g = if same { own } else { self.pools.find_or_make(at.a as u16, key) };
        let of_another = self.conns[upstream].group != NO_GROUP && self.conns[upstream].group != g;
        let ends = flag::SHUT | flag::SHUT_WANTED | flag::LAST | flag::EOF;
        // It may speak another protocol by now, or be on hold.
        let (c, first) = (&self.conns[upstream], self.apps[at.a].ports[at.p].protos[0]);
        let usual = c.proto == first && c.speaks == first && c.becomes == NO_PROTO && !c.on_hold;
        let whole = usual && !self.is_fed(upstream) && !self.conns[upstream].has(ends);
        if !idle || of_another || self.draining || !whole {
            // The rest of its server's messages is not known.
            self.pools.sweep(g);
            return self.dismiss(upstream);
        }
        self.join_group(client, g);
        if self.conns[upstream].group == NO_GROUP {
            let Some(pool) = self.pools.pool_or_new(g, at) else { return };
            if pool.sessions >= most {
                return self.dismiss(upstream);
            }
            pool.sessions += 1;
            self.conns[upstream].group = g;
        }
        self.conns[upstream].pooling = Pooling::Released;
    }

    fn join_group(&mut self, client: Id, g: u32) {
        let old = std::mem::replace(&mut self.conns[client].group, g);
        if old == g {
            return;
        }
        if let Some(group) = self.pools.group(g) {
            group.clients += 1;
        }
        self.leave_group(old);
    }

    fn leave_group(&mut self, g: u32) {
        let now = self.now;
        let Some(group) = self.pools.group(g) else { return };
        group.clients -= 1;
        if group.clients == 0 {
            self.pools.logins.look_again();
        }
        let Some(group) = self.pools.group(g) else { return };
        if group.clients == 0 {
            let idle: Vec<Id> = group.pools.iter().flat_map(|p| p.idle.iter().copied()).collect();
            for id in idle {
                self.conns[id].last_rx = now;
                self.arm_idle_session(id);
            }
        }
        self.pools.sweep(g);
    }

    /// The handler that has released a session is done: the session is reset.
    pub(super) fn begin_reset(&mut self, id: Id) {
        let client = self.conns[id].client;
        self.part_from(id, client);
        let at = self.target_of(id);
        if self.reset_message(id, at).is_none() {
            return self.close_session(id);
        }
        let c = &mut self.conns[id];
        (c.pooling, c.since) = (Pooling::Resetting, self.now);
        if c.out.is_empty() {
            c.last_tx = self.now;
        }
        let span = self.apps[at.a].ports[at.p].options.reset_timeout();
        self.arm(id, self.now.saturating_add(span));
        self.mark_dirty(id);
        if !self.conns[id].input.is_empty() {
            self.mark_again(id);
        }
    }

    /// Puts the message that resets a session into its output.
    fn reset_message(&mut self, id: Id, at: Target) -> Option<()> {
        if self.apps[at.a].ports[at.p].reset_message.is_none() {
            let handler = *self.apps[at.a].ports[at.p].reset.first()?;
            let (bytes, messages) = self.spoken(id, handler);
            // A second message would have an answer of its own.
            messages.filter(|n| *n == 1)?;
            self.apps[at.a].ports[at.p].reset_message = Some(bytes.into());
        }
        let bytes = self.apps[at.a].ports[at.p].reset_message.as_deref()?;
        self.conns[id].out.append(&mut self.pool, bytes).then_some(())
    }

    /// A session and its client do not know each other any more.
    fn part_from(&mut self, id: Id, client: Id) {
        let behind = self.members(client);
        if let Some(c) = self.conns.get_mut(client) {
            c.own.retain(|x| *x != id);
        }
        let c = &mut self.conns[id];
        c.client = Id::NIL;
        c.behind = Id::NIL;
        c.owner = Id::NIL;
        c.clear(flag::PRIVATE);
        self.read_on(id);
        for member in behind {
            if member != id && self.conns[member].behind == id {
                self.conns[member].behind = Id::NIL;
                self.read_on(member);
            }
        }
        self.answers_no_more(client);
    }

    // While it belongs to nobody.

    /// Handles input at a message boundary of a session that belongs to no client.
    pub(super) fn session_input(&mut self, id: Id, unit: Unit, rest: Raw) -> Option<usize> {
        let pooling = self.conns[id].pooling;
        if pooling == Pooling::Idle {
            self.close_session(id);
            return Some(rest.n);
        }
        let m = match self.parse(id, unit, WL_CTX_RESPONSE, rest, false) {
            Parsed::More => return None,
            Parsed::Bad { .. } => {
                self.close_session(id);
                return Some(rest.n);
            }
            Parsed::Message(m) => m,
        };
        // SAFETY: the view is live until `end_message`.
        let flags = unsafe { (*m.view).flags };
        let confirms = flags & WL_M_RESET != 0;
        let confirmed = confirms || pooling == Pooling::Confirmed;
        let idle = flags & WL_M_IDLE != 0;
        let refused = flags & (WL_M_REFUSAL | WL_M_CLOSE | WL_M_IN_STEP | WL_M_UNTIL_EOF) != 0;
        if refused || idle && !confirmed || confirms && pooling == Pooling::Confirmed || idle && rest.n > m.have {
            self.close_session(id);
            return Some(rest.n);
        }
        if confirms {
            self.conns[id].pooling = Pooling::Confirmed;
        }
        if !m.whole {
            if idle {
                self.close_session(id);
                return Some(rest.n);
            }
            let c = &mut self.conns[id];
            (c.mode, c.sink) = (Mode::Tail, Sink::Discard);
            return Some(m.have);
        }
        self.end_message(id);
        if idle {
            self.session_idle(id);
        }
        Some(m.have)
    }

    /// A session is as new: the next client gets it.
    fn session_idle(&mut self, id: Id) {
        let (g, at) = (self.conns[id].group, self.target_of(id));
        // A byte that has come behind its reset is nobody's. `take` looks by itself.
        let wanted = self.pools.pool(g, at).is_some_and(|p| !p.waiting.is_empty());
        let quiet = !wanted || self.engine.waiting(self.conns[id].token) == Waiting::Nothing;
        if self.draining || !quiet || self.conns[id].has(flag::DOOMED | flag::CLOSING | flag::EOF) {
            return self.close_session(id);
        }
        if self.login_is_next(g, at) {
            // Its place is for one that has waited for longer.
            return self.close_session(id);
        }
        while let Some(waiting) = self.pools.pool(g, at).and_then(|p| p.waiting.pop_front()) {
            let wants = self.conns.get(waiting).is_some_and(|c| c.pooling == Pooling::Waiting && !c.has(flag::LEFT));
            if wants {
                return self.give_session(waiting, id);
            }
        }
        let old = self.session_old_at(id);
        if old <= self.now {
            return self.close_session(id);
        }
        self.conns[id].pooling = Pooling::Idle;
        self.conns[id].last_rx = self.now;
        if let Some(pool) = self.pools.pool(g, at) {
            pool.idle.push(id);
        }
        if self.pools.group(g).is_none_or(|g| g.clients == 0) {
            self.arm_idle_session(id);
        }
        if old != u64::MAX {
            self.arm(id, old);
        }
    }

    fn arm_idle_session(&mut self, id: Id) {
        let at = self.target_of(id);
        let span = self.apps[at.a].ports[at.p].options.idle_timeout;
        self.arm(id, self.now.saturating_add(span));
    }

    /// Until when an idle session is kept: for as long as clients may want it, and it is not old.
    pub(super) fn session_kept_until(&self, id: Id) -> u64 {
        let c = &self.conns[id];
        let group = self.pools.groups.get(c.group as usize).and_then(|g| g.as_ref());
        let old = self.session_old_at(id);
        if group.is_some_and(|g| g.clients > 0) {
            return old;
        }
        let span = self.apps[c.app as usize].ports[c.port as usize].options.idle_timeout;
        c.last_rx.saturating_add(span).min(old)
    }

    /// When `pool_lifetime` of a session is over. The last one of clients that are connected stays:
    /// without it they would have to log in again.
    fn session_old_at(&self, id: Id) -> u64 {
        let c = &self.conns[id];
        let span = self.apps[c.app as usize].ports[c.port as usize].options.pool_lifetime;
        let here = |p: &&SessionPool| p.port == c.port && p.instance == c.instance;
        let last = self
            .pools
            .groups
            .get(c.group as usize)
            .and_then(|g| g.as_ref())
            .is_some_and(|g| g.clients > 0 && g.pools.iter().find(here).is_some_and(|p| p.sessions == 1));
        if span == 0 || last {
            return u64::MAX;
        }
        c.opened.saturating_add(span)
    }

    /// A session that no client has is given up.
    pub(super) fn close_session(&mut self, id: Id) {
        self.conns[id].set(flag::LEFT);
        self.remove_upstream(id, true);
    }

    /// Where a port has all the connections that it may have: gives up an idle session, if possible
    /// one whose clients are gone.
    pub(super) fn gives_place(&mut self, at: Target) -> bool {
        let here = |p: &SessionPool| usize::from(p.port) == at.p && p.instance as usize == at.i && !p.idle.is_empty();
        let mut found = None;
        for g in self.pools.groups.iter_mut().flatten().filter(|g| usize::from(g.app) == at.a) {
            let unwanted = g.clients == 0;
            // Clients that are connected keep their last session.
            if let Some(p) = g.pools.iter_mut().find(|p| here(p) && (unwanted || p.sessions > 1)) {
                found = Some(p);
                if unwanted {
                    break;
                }
            }
        }
        let Some(id) = found.and_then(|p| p.idle.pop()) else { return false };
        self.expel(id, at);
        true
    }

    // To the next client.

    /// `up = take db[i]`
    pub(super) fn host_take(&mut self, id: Id, number: u32, index: u32) -> Result<Id, u32> {
        let (a, client) = (self.tasks[id].app as usize, self.tasks[id].conn);
        let ends = flag::DOOMED | flag::CLOSING | flag::TURNED_AWAY;
        let g = match self.conns.get(client) {
            Some(c) if c.member == CLIENT && !c.has(ends) => c.group,
            _ => return Err(WL_F_LOST),
        };
        let upstream = self.apps[a].upstreams.get(number as usize).ok_or(WL_F_INDEX)?;
        let p = upstream.port as usize;
        let at = Target { a, p, i: self.place_of(a, p, index as usize).ok_or(WL_F_INDEX)? };
        // Without a group no server has accepted this client.
        let found = self.place_of_sessions(g, at);
        if let Some(old) = self.upstream(client, number) {
            let under_way = self.conns[old].owes() || self.conns[old].asks.is_some();
            if under_way && found.is_none_or(|at| self.target_of(old) == at) {
                // Its answers come on the session that it has.
                return Ok(old);
            }
            self.dismiss(old);
        }
        let at = found.ok_or(WL_F_REFUSED)?;
        while let Some(session) = self.pools.pool(g, at).and_then(|p| p.idle.pop()) {
            let Some(c) = self.conns.get(session) else { continue };
            let sound = c.pooling == Pooling::Idle && !c.has(flag::DOOMED | flag::CLOSING | flag::EOF);
            if sound && self.engine.waiting(self.conns[session].token) == Waiting::Nothing {
                self.attach(session, client, number);
                self.pools.taken.push((session, client));
                return Ok(session);
            }
            self.conns[session].set(flag::DOOMED);
            self.mark_dirty(session);
        }
        self.wait_for_session(at, client, number)
    }

    /// The server with sessions of a group: the one that is asked for, or else the next one.
    fn place_of_sessions(&mut self, g: u32, at: Target) -> Option<Target> {
        let port = &self.apps[at.a].ports[at.p];
        let (n, next) = (port.places.len(), port.options.failover == Failover::Next);
        let first = port.backends[at.i].instance;
        let others = (1..n).map(|k| port.places[(first.unwrap_or(0) as usize + k) % n] as usize).filter(|_| next);
        // Its sessions may all be with a server that is gone.
        let was = |b: &Backend| b.gone.is_some_and(|gone| next || Some(gone.instance) == first);
        let gone = port.backends.iter().enumerate().filter(|(_, b)| was(b)).map(|(i, _)| i);
        let has = |i: &usize| self.pools.pool(g, Target { i: *i, ..at }).is_some_and(|p| p.sessions > 0);
        let found = std::iter::once(at.i).chain(others).chain(gone).find(has)?;
        Some(Target { i: found, ..at })
    }

    /// Whether a session with a server that is gone is kept: its clients have no other.
    pub(super) fn keeps_session(&mut self, id: Id) -> bool {
        let (at, g) = (self.target_of(id), self.conns[id].group);
        let listed = &self.apps[at.a].ports[at.p].places;
        let other = |p: &SessionPool| usize::from(p.port) == at.p && p.sessions > 0 && listed.contains(&p.instance);
        self.pools.group(g).is_some_and(|g| g.clients > 0 && !g.pools.iter().any(other))
    }

    fn attach(&mut self, session: Id, client: Id, number: u32) {
        let now = self.now;
        let c = &mut self.conns[session];
        (c.member, c.pooling) = (UPSTREAM + number as u8, Pooling::Owned);
        (c.mode, c.sink, c.answered, c.ignored) = (Mode::Head, Sink::Undecided, 0, 0);
        (c.last_rx, c.last_tx) = (now, now);
        (c.owed, c.unfinished, c.uncounted, c.asks) = (0, false, false, None);
        self.make_own(session, client);
    }

    /// A connection without a socket, for the messages of a client that waits.
    fn wait_for_session(&mut self, at: Target, client: Id, number: u32) -> Result<Id, u32> {
        let g = self.conns[client].group;
        match self.pools.pool(g, at) {
            Some(p) if p.waiting.len() < WAITERS_MAX => {}
            _ => return Err(WL_F_OVERLOAD),
        }
        let id = self.book_waiting(at, client, (number, g), Pooling::Waiting);
        if let Some(pool) = self.pools.pool(g, at) {
            pool.waiting.push_back(id);
        }
        Ok(id)
    }

    /// A connection without a socket, for a client's messages.
    pub(super) fn book_waiting(&mut self, at: Target, client: Id, (number, g): (u32, u32), pooling: Pooling) -> Id {
        let port = &self.apps[at.a].ports[at.p];
        let (proto, patience) = (port.protos[0], port.options.pool_timeout);
        let id = self.book_conn(NO_SOCKET, Side::Backend, at.a as u16, at.p as u16, at.i as u32);
        let c = &mut self.conns[id];
        c.set(flag::CONNECTING);
        (c.proto, c.speaks) = (proto, proto);
        (c.member, c.pooling, c.group) = (UPSTREAM + number as u8, pooling, g);
        self.make_own(id, client);
        self.apps[at.a].ports[at.p].change_load(at.i, 1);
        self.arm(id, self.now.saturating_add(patience));
        id
    }

    /// The first client that waits gets a session, on which its messages go out.
    fn give_session(&mut self, waiting: Id, session: Id) {
        let (client, number) = (self.conns[waiting].client, u32::from(self.conns[waiting].member - UPSTREAM));
        self.attach(session, client, number);
        self.replace_waiting(waiting, session);
        if self.conns.alive(session) {
            self.run_upstream_opened(session);
        }
    }

    /// The messages of a connection without a socket go out on another.
    pub(super) fn replace_waiting(&mut self, waiting: Id, by: Id) {
        let unsent = std::mem::take(&mut self.conns[waiting].out);
        let shut = self.conns[waiting].flags & flag::SHUT_WANTED;
        self.inherit(waiting, by, unsent);
        self.conns[by].set(shut);
        self.conns[waiting].set(flag::LEFT);
        self.remove_upstream(waiting, false);
    }

    /// No session has come in time.
    pub(super) fn waited_in_vain(&mut self, id: Id) {
        self.upstream_over(id, Some((WL_F_OVERLOAD, NO_PLACE)));
    }

    // Books.

    /// A connection is taken out of the books: so are its places in pools.
    pub(super) fn leave_pool(&mut self, id: Id) {
        let c = &mut self.conns[id];
        let (g, side, pooling) = (std::mem::replace(&mut c.group, NO_GROUP), c.side, c.pooling);
        if side == Side::Backend && !pooling.waits() {
            self.pools.logins.has_left(id);
            self.place_for_login(id);
        }
        if g == NO_GROUP {
            return;
        }
        if side == Side::Client {
            return self.leave_group(g);
        }
        let at = self.target_of(id);
        if pooling == Pooling::Login {
            self.pools.logins.remove(at, id);
            return self.pools.sweep(g);
        }
        // One that is to log in brings another session.
        let more = self.login_waits(g, at);
        if let Some(pool) = self.pools.pool(g, at) {
            if pooling == Pooling::Waiting {
                pool.waiting.retain(|x| *x != id);
            } else {
                pool.sessions -= 1;
                pool.idle.retain(|x| *x != id);
            }
            if pool.sessions == 0 && !more {
                let lost: Vec<Id> = pool.waiting.drain(..).collect();
                self.pools.in_vain.extend(lost);
            }
        }
        self.pools.sweep(g);
    }

    /// Does the work that handlers and closed connections have left.
    pub(super) fn settle_pools(&mut self) -> bool {
        let started = self.start_logins();
        if self.pools.taken.is_empty() && self.pools.in_vain.is_empty() {
            return started;
        }
        while let Some((session, client)) = self.pools.taken.pop() {
            let has = |c: &super::types::Conn| c.client == client && c.pooling == Pooling::Owned;
            if self.conns.get(session).is_some_and(has) {
                self.run_upstream_opened(session);
            }
        }
        while let Some(id) = self.pools.in_vain.pop() {
            if self.conns.get(id).is_some_and(|c| c.pooling == Pooling::Waiting) {
                self.upstream_over(id, Some((WL_F_REFUSED, NO_PLACE)));
            }
        }
        true
    }

    /// The sessions of a key to an instance, as a handler names it.
    pub(super) fn pooled(&mut self, (a, p, instance): (usize, usize, usize), key: &[u8]) -> u32 {
        let Some(i) = self.place_of(a, p, instance) else { return 0 };
        let at = Target { a, p, i };
        let found = self.pools.find(at.a as u16, key);
        found.and_then(|g| self.pools.pool(g, at)).map_or(0, |p| p.sessions)
    }

    /// A fact about a client's upstream (`WL_UPSTREAM_*`); 0 while there is none.
    pub(super) fn upstream_fact(&self, task: Id, number: u32, fact: u32) -> u64 {
        let open = self.upstream(self.tasks[task].conn, number);
        let Some(c) = open.and_then(|id| self.conns.get(id)) else { return 0 };
        match fact {
            WL_UPSTREAM_ID if c.pooling == Pooling::Owned => c.c.id,
            WL_UPSTREAM_INSTANCE => u64::from(self.instance_of(c.app as usize, c.port as usize, c.instance as usize)),
            WL_UPSTREAM_OWED => u64::from(c.owed) + u64::from(c.unfinished),
            _ => 0,
        }
    }
}
