//! Conversations: a client's connection, and the backend connections that belong to it alone.
//!
//! In: messages of either side, connections that open and end. Out: handlers, and the messages that
//! they send. A backend connection of a conversation is an *upstream*. The client and its upstreams
//! are *members*; they stay on one core.
//!
//! Each member is read in order, one message at a time. A handler that waits for an answer holds
//! the next message of its member, and of no other. A member whose message went to a full output is
//! not read until that output has drained. So each direction has its own backpressure.
//!
//! A message that is too long to hold streams from its member into another's output. Until its end
//! that output has a feeder. Messages of others wait behind it, so none is torn.
//!
//! A member that ends ends the others. Output is sent before. A member into which half a message
//! has gone is reset, so that nobody takes the half for the whole.

use super::client::move_queue;
use super::ejection::Why;
use super::input::{FoundMessage, Parsed};
use super::ports::NO_HANDLER;
use super::slab::Id;
use super::types::{begin, flag, Complaint, Conn, Mode, Pooling, Sink, Start, Target, CLIENT, NO_GROUP};
use super::{Core, Raw, HIGH, STORED_MAX};
use crate::abi::*;
use crate::engine::Token;
use crate::program::Unit;
use smallvec::SmallVec;

/// `Conn::member` of an upstream is its number and this.
pub(super) const UPSTREAM: u8 = 2;

/// A connection that neither gets nor gives messages any more.
pub(super) const ENDING: u32 = flag::DOOMED | flag::CLOSING | flag::SHUT | flag::SHUT_WANTED;

type Members = SmallVec<[Id; 8]>;

impl Core {
    /// The client of a member's conversation.
    pub(super) fn client_of(&self, id: Id) -> Id {
        let c = &self.conns[id];
        if c.member == CLIENT {
            id
        } else {
            c.client
        }
    }

    pub(super) fn members(&self, client: Id) -> Members {
        let own = self.conns.get(client).map_or(&[][..], |c| &c.own);
        std::iter::once(client).chain(own.iter().copied()).filter(|id| self.conns.alive(*id)).collect()
    }

    pub(super) fn upstreams(&self, client: Id) -> Members {
        self.conns.get(client).map_or_else(Members::new, |c| c.own.iter().copied().collect())
    }

    /// The number of the upstream that a connection is, for simulations.
    pub fn upstream_number(&self, token: Token) -> Option<u32> {
        let c = self.conns.ids().into_iter().map(|id| &self.conns[id]).find(|c| c.token == token)?;
        u32::from(c.member).checked_sub(UPSTREAM.into())
    }

    /// A client's open upstream of a number.
    pub(super) fn upstream(&self, client: Id, number: u32) -> Option<Id> {
        let open = |id: &&Id| {
            let wanted = |c: &super::types::Conn| {
                u32::from(c.member) == number + u32::from(UPSTREAM)
                    && !c.has(flag::DOOMED | flag::CLOSING | flag::LEFT)
                    && !c.pooling.is_nobodys()
            };
            self.conns.get(**id).is_some_and(wanted)
        };
        self.conns.get(client)?.own.iter().find(open).copied()
    }

    /// When a byte last moved on any connection of a client's conversation.
    pub(super) fn last_moved(&self, client: Id) -> u64 {
        let all = self.members(client);
        all.iter().map(|id| self.conns[*id].last_rx.max(self.conns[*id].last_tx)).max().unwrap_or(0)
    }

    // Messages.

    /// Handles input at a message boundary of an upstream. None: wait.
    pub(super) fn upstream_input(&mut self, id: Id, unit: Unit, rest: Raw) -> Option<usize> {
        if self.conns[id].pooling.is_nobodys() && self.conns[id].count == 0 {
            return self.session_input(id, unit, rest);
        }
        if self.conns[id].has(flag::LAST) {
            return Some(rest.n);
        }
        if self.member_waits(id) {
            self.conns[id].set(flag::STALLED);
            self.held_by_crowd(id);
            return None;
        }
        // As for a client's input.
        self.conns[id].clear(flag::STALLED);
        let (client, proto) = (self.client_of(id), self.conns[id].proto);
        let ctx = self.context(client, proto, true) | WL_CTX_RESPONSE;
        let waits = self.conns[id].has(flag::CONNECTING);
        let asked = self.conns[id].asks.is_some();
        if let Some(used) = if waits || asked { None } else { self.message_run(id, ctx, rest) } {
            return Some(used);
        }
        let whole = self.conns[id].awaits_whole();
        match self.parse(id, unit, ctx, rest, whole) {
            Parsed::More => None,
            Parsed::Bad { kind, place } => {
                self.member_bad(id, kind, place, Start::of(rest));
                Some(rest.n)
            }
            Parsed::Message(m) if waits => self.server_greets(id, rest, m),
            Parsed::Message(m) if asked && self.waits_for_rest(id, rest, &m, unit.whole_max) => None,
            Parsed::Message(m) => {
                self.member_message(id, rest, m);
                Some(m.have)
            }
        }
    }

    /// A message of a server before whose greeting nothing is sent to it. Where the protocol tells
    /// what ends an answer, it tells what ends the greeting, too.
    fn server_greets(&mut self, id: Id, rest: Raw, m: FoundMessage) -> Option<usize> {
        // SAFETY: the view is live until `end_message`.
        let flags = unsafe { (*m.view).flags };
        let at = self.target_of(id);
        let tells_end = self.apps[at.a].protos[self.conns[id].proto as usize].tells_owed;
        let greeted = self.conns[id].begins(begin::GREETED);
        let (refuses, last) = (flags & WL_M_REFUSAL != 0, greeted || !tells_end || flags & WL_M_SETTLES != 0);
        if greeted {
            // It has waited for the handler of its connection's beginning.
        } else if refuses {
            self.backend_failed(at, Why::Refused);
            // With `failover` another server may be willing. Else the client hears the refusal.
            if !self.conns.alive(id) || self.upstream_moved(id) {
                return Some(rest.n);
            }
        } else if last {
            self.succeeded(at, self.conns[id].opened);
        }
        if last && !greeted {
            let proto = self.conns[id].proto;
            self.conns[id].begin |= begin::GREETED;
            self.upstream_ready(id);
            let Some(c) = self.conns.get_mut(id).filter(|c| !c.has(flag::LEFT | flag::DOOMED)) else {
                return Some(rest.n);
            };
            if c.count > 0 || c.proto != proto {
                // It is read again from its beginning when its turn has come.
                c.set(flag::STALLED);
                self.end_message(id);
                self.unstall(id);
                return None;
            }
        }
        // It answers nothing: so it is handled before the connection counts as made.
        self.member_message(id, rest, m);
        if let Some(c) = self.conns.get_mut(id).filter(|_| last) {
            c.clear(flag::CONNECTING);
            self.mark_dirty(id);
            self.unstall_client(id);
        }
        Some(m.have)
    }

    /// The parameters of the next message of a protocol, from a client or from a server.
    pub(super) fn context(&mut self, client: Id, proto: u16, down: bool) -> u64 {
        let Some(c) = self.conns.get(client) else { return 0 };
        let a = c.app as usize;
        if !self.apps[a].protos[proto as usize].args[usize::from(down)] {
            return 0;
        }
        self.enter(a);
        self.context_within(client, proto, down)
    }

    /// The same inside of a handler, whose scratch is in use.
    pub(super) fn context_within(&mut self, client: Id, proto: u16, down: bool) -> u64 {
        let Some(c) = self.conns.get_mut(client) else { return 0 };
        let (a, conn): (_, *mut wl_conn) = (c.app as usize, &mut c.c);
        if !self.apps[a].protos[proto as usize].args[usize::from(down)] {
            return 0;
        }
        let table = *self.apps[a].app.program.table();
        let wl: *mut wl_core = &mut *self.apps[a].wl;
        // SAFETY: the program's own function; the connection is in place.
        table.context.map_or(0, |f| unsafe { f(table.self_, wl, conn, u32::from(proto), u32::from(down)) })
    }

    /// Whether the next message of a member must wait. Its handler is under way, or the output that
    /// its last one went to is full. Or a server has not greeted, or its client is told of a fault
    /// later. A member that is paused for an output waits until that output has drained, which ends
    /// the pause. Input that has come before may find room earlier.
    pub(super) fn member_waits(&self, id: Id) -> bool {
        let c = &self.conns[id];
        c.count > 0
            || c.on_hold
            || c.complaint.is_some()
            || c.has(flag::FLOW)
            || self.is_crowded()
            || self.conns.get(c.behind).is_some_and(|d| d.out.len() > HIGH || d.after.is_some())
            || self.awaits_greeting(c)
    }

    /// Whether a server that a client has opened has still to greet, or its greeting is being
    /// handled.
    fn awaits_greeting(&self, client: &Conn) -> bool {
        let app = &self.apps[client.app as usize];
        let is_awaited = |c: &Conn| {
            let silent = c.has(flag::CONNECTING) && app.protos[c.proto as usize].server_first;
            // A session of a pool has greeted long ago.
            (silent && c.pooling != Pooling::Waiting || c.begins(begin::GREETING) && c.count > 0) && !c.has(flag::LEFT)
        };
        app.servers_greet && client.own.iter().filter_map(|id| self.conns.get(*id)).any(is_awaited)
    }

    pub(super) fn member_message(&mut self, id: Id, rest: Raw, m: FoundMessage) {
        // SAFETY: the view is live until `end_message`.
        let flags = unsafe { (*m.view).flags };
        if flags & WL_M_IN_STEP != 0 {
            return self.dropped_message(id, rest, m);
        }
        let client = self.client_of(id);
        let c = &mut self.conns[id];
        c.answered = c.answered.saturating_add(1);
        c.ignored = 0;
        debug_assert!(!c.has(flag::FLOW), "nobody would end its pause");
        c.behind = Id::NIL;
        if flags & WL_M_CLOSE != 0 {
            c.set(flag::LAST);
        }
        let greeting = c.has(flag::CONNECTING);
        c.begin = if greeting { c.begin | begin::GREETING } else { c.begin & !begin::GREETING };
        let asked = self.conns[id].asks.is_some() && id != client && !greeting;
        let asked = if asked { self.answered(id, rest, &m) } else { None };
        let rests = id != client && {
            if !greeting {
                self.settle_owed(id, flags);
            }
            self.rests_behind(id, flags)
        };
        if let Some(c) = self.conns.get_mut(client) {
            c.at_rest = id != client && (c.at_rest || rests);
        }
        let c = &mut self.conns[id];
        if !m.whole {
            (c.mode, c.sink) = (Mode::Tail, Sink::Undecided);
        }
        let (a, p, alt, member) = (c.app as usize, c.port as usize, c.alt as usize, c.member);
        let app = &self.apps[a];
        let handler = match member {
            CLIENT => app.ports[p].handlers[alt],
            n => app.upstreams[usize::from(n - UPSTREAM)].message[alt],
        };
        let st = &self.my_stats().apps[a].ports[p];
        match member {
            CLIENT => st.requests.add(1),
            _ => st.replies.add(1),
        }
        if let Some(ask) = asked {
            self.give_answer(id, ask, rest, &m);
        } else if handler == NO_HANDLER {
            self.conns[id].sink = Sink::Discard;
        } else {
            let task = self.new_task(a, handler, client, Id::NIL);
            let c = &mut self.conns[id];
            (c.owner, c.count) = (task, 1);
            let t = &mut self.tasks[task];
            (t.src, t.req_flags, t.req_have, t.req_more) = (id, flags, m.have as u32, !m.whole);
            t.bytes_behind = rest.n > m.have;
            t.c.req = m.seen(rest.p);
            self.run(task);
            if let Some(t) = self.tasks.get_mut(task) {
                t.bytes_behind = false;
            }
        }
        if m.whole && self.conns.alive(id) {
            self.end_message(id);
        }
        if id != client {
            self.complain_if_due(client);
        }
    }

    /// A message with a fault from which its grammar recovers: it is dropped to its end.
    fn dropped_message(&mut self, id: Id, rest: Raw, m: FoundMessage) {
        // SAFETY: the view is live until `end_message`.
        let (kind, place) = unsafe { (u32::from((*m.view).fault), (*m.view).place) };
        let client = self.client_of(id);
        let told = if id == client { kind } else { WL_F_BAD_REPLY };
        self.count_fault_at(id, told, place);
        if m.whole {
            self.end_message(id);
        } else {
            let c = &mut self.conns[id];
            (c.mode, c.sink, c.owner) = (Mode::Tail, Sink::Discard, Id::NIL);
        }
        let start = Start::of(Raw { n: m.have, ..rest });
        if id == client && self.awaits_answers(client, true) {
            let complaint = Complaint { fault: (told, place), start, in_step: true };
            self.conns[client].complaint = Some(Box::new(complaint));
            return;
        }
        self.tell_fault(client, (told, place), start, true);
        self.keeps_pace(id, client);
        if id != client && self.conns.alive(id) {
            self.asks_in_doubt(id);
        }
    }

    /// A handler has ended: if it was that of a member's message, the next one may be read.
    pub(super) fn message_handled(&mut self, src: Id, task: Id) {
        let Some(c) = self.conns.get_mut(src) else { return };
        if c.member != 0 && c.count > 0 && (c.owner == task || c.begins(begin::HANDLERS)) {
            c.count -= 1;
            if c.count == 0 {
                c.begin &= !begin::HANDLERS;
                self.settle_member(src);
            }
        }
    }

    /// The last byte of a streamed message has passed. `ends`: its reader knows so by the end of
    /// the connection only.
    pub(super) fn member_tail_done(&mut self, id: Id, ends: bool) {
        self.end_message(id);
        let c = &mut self.conns[id];
        c.mode = Mode::Head;
        let (sink, owner) = (std::mem::take(&mut c.sink), c.owner);
        if let Some(t) = self.tasks.get_mut(owner) {
            t.req_more = false;
        }
        if let Sink::Read(part) = sink {
            self.complete_part(owner, part, WL_S_OK, None);
            if !self.conns.alive(id) {
                return;
            }
        }
        if let Sink::Conn(dst) = sink {
            if self.conns.get(dst).is_some_and(|d| d.feeder == id) {
                self.feed_next(dst);
                self.ask_completely(dst);
            }
            if ends && self.conns.alive(dst) {
                let last = if self.conns[dst].member == CLIENT { flag::CLOSING } else { flag::SHUT_WANTED };
                self.conns[dst].set(last);
                self.mark_dirty(dst);
            }
        }
        self.settle_member(id);
    }

    /// A server has greeted, or is awaited no longer: messages of its client may be handled.
    pub(super) fn unstall_client(&mut self, id: Id) {
        let client = self.client_of(id);
        if self.conns.alive(client) {
            self.unstall(client);
        }
    }

    /// Between two messages of a member.
    fn settle_member(&mut self, id: Id) {
        let c = &self.conns[id];
        if c.begins(begin::GREETING) {
            self.unstall_client(id);
        }
        self.complain_if_due(self.client_of(id));
        let Some(c) = self.conns.get(id) else { return };
        if c.count > 0 || c.mode == Mode::Tail || c.has(flag::DOOMED | flag::CLOSING) {
            return;
        }
        if c.pooling == Pooling::Released {
            return self.begin_reset(id);
        }
        self.change_protocol(id);
        let c = &self.conns[id];
        if c.has(flag::LAST) {
            return self.member_over(id);
        }
        if c.has(flag::EOF) {
            self.mark_again(id);
        }
        self.unstall(id);
    }

    // Sending.

    /// Sends a message to the client (0) or on an upstream.
    pub(super) fn host_tell(&mut self, id: Id, (to, proto): (u32, u16), head: Raw, tail: u32) -> Result<(), u32> {
        let t = &self.tasks[id];
        let (client, src, answer) = (t.conn, t.src, t.rep_src);
        let (here, more) = self.tail_here(id, tail);
        if tail == WL_TAIL_REQ && t.req_streamed {
            // The rest of a message passes once, or has been read.
            return Err(WL_F_CONSTRAINT);
        }
        // Where the rest of the message comes from.
        let from = if tail == WL_TAIL_REP { answer } else { src };
        if more && tail == WL_TAIL_REP && self.conns.get(from).is_none_or(|c| c.sink != Sink::Undecided) {
            return Err(WL_F_CONSTRAINT);
        }
        let dst = match to.checked_sub(1) {
            None => client,
            Some(number) => match self.upstream(client, number) {
                Some(open) => open,
                None => self.first_use(id, number)?,
            },
        };
        let Some(d) = self.conns.get(dst).filter(|d| !d.has(ENDING) && d.mode != Mode::Drain) else {
            return Err(WL_F_LOST);
        };
        if d.speaks != proto {
            return Err(WL_F_UNSPOKEN);
        }
        let (a, p, i, upstream) = (d.app as usize, d.port as usize, d.instance as usize, d.member != CLIENT);
        let full = if self.conns.alive(d.feeder) || d.after.is_some() {
            self.append_behind(dst, from, (head, here), more)?;
            true
        } else {
            if self.append_out(dst, head, here).is_err() {
                self.doom(dst, WL_F_OVERLOAD);
                return Err(WL_F_OVERLOAD);
            }
            if more {
                self.conns[dst].feeder = from;
            }
            self.conns[dst].out.len() > HIGH
        };
        if upstream {
            self.count_owed(id, dst, proto, head);
        }
        if more {
            self.tasks[id].req_streamed |= tail == WL_TAIL_REQ;
            let s = &mut self.conns[from];
            s.sink = Sink::Conn(dst);
            if !s.input.is_empty() || s.has(flag::EOF) {
                self.mark_again(from);
            }
        }
        if full {
            self.falls_behind(src, dst);
        }
        let st = &self.my_stats().apps[a].ports[p];
        if upstream {
            st.requests.add(1);
            st.backends[i].requests.add(1);
        } else {
            st.replies.add(1);
        }
        Ok(())
    }

    /// Keeps a message until those before it have passed.
    #[cold]
    fn append_behind(&mut self, dst: Id, src: Id, parts: (Raw, Raw), more: bool) -> Result<(), u32> {
        let after = self.conns[dst].after.get_or_insert_default();
        // SAFETY: program bytes, valid during the call.
        let pieces = unsafe { [parts.0.slice(), parts.1.slice()] };
        if after.len() <= STORED_MAX && after.append(&mut self.pool, &pieces, more.then_some(src)) {
            return Ok(());
        }
        self.doom(dst, WL_F_OVERLOAD);
        Err(WL_F_OVERLOAD)
    }

    /// A member is not read until an output has drained.
    pub(super) fn falls_behind(&mut self, src: Id, dst: Id) {
        if let Some(s) = self.conns.get_mut(src) {
            s.behind = dst;
            self.conns[dst].waited = true;
        }
    }

    /// An output has drained: those that waited for it are read again.
    pub(super) fn member_drained(&mut self, dst: Id) {
        self.conns[dst].waited = false;
        let (queued, feeder) = (self.conns[dst].after.is_some(), self.conns[dst].feeder);
        for id in self.members(self.client_of(dst)) {
            let c = &mut self.conns[id];
            if c.behind != dst {
                continue;
            }
            if queued && id != feeder {
                self.conns[dst].waited = true;
                continue;
            }
            c.behind = Id::NIL;
            self.read_on(id);
        }
    }

    pub(super) fn read_on(&mut self, id: Id) {
        let c = &mut self.conns[id];
        if c.has(flag::FLOW) {
            c.clear(flag::FLOW);
            if c.input.is_empty() {
                self.unpause(id);
            } else {
                self.mark_again(id);
            }
        }
        self.unstall(id);
    }

    /// Whether a streaming member has not got its turn in the output that it streams to.
    pub(super) fn awaits_turn(&mut self, id: Id) -> bool {
        let Sink::Conn(dst) = self.conns[id].sink else { return false };
        let waits = self.conns.get(dst).is_some_and(|d| d.feeder != id);
        if waits {
            self.conns[id].set(flag::STALLED);
        }
        waits
    }

    /// Whether more of a message is still to come into an output.
    pub(super) fn is_fed(&self, id: Id) -> bool {
        let c = &self.conns[id];
        c.after.is_some() || self.conns.alive(c.feeder)
    }

    /// A streamed message has passed: those that waited behind it follow, up to the next that
    /// streams.
    fn feed_next(&mut self, dst: Id) {
        self.conns[dst].feeder = Id::NIL;
        let Some(mut after) = self.conns[dst].after.take() else { return };
        while let Some(mut next) = after.pop() {
            let d = &mut self.conns[dst];
            if d.out.is_empty() {
                d.last_tx = self.now;
            }
            if !move_queue(&mut self.pool, &mut next.bytes, &mut d.out) {
                self.doom(dst, WL_F_OVERLOAD);
            }
            let Some(source) = next.source else { continue };
            let Some(s) = self.conns.get_mut(source) else {
                self.doom(dst, WL_F_LOST);
                continue;
            };
            s.clear(flag::STALLED);
            s.behind = Id::NIL;
            self.conns[dst].feeder = source;
            self.mark_again(source);
            break;
        }
        let d = &mut self.conns[dst];
        d.waited = true;
        if !after.is_empty() {
            d.after = Some(after);
        }
        self.mark_dirty(dst);
    }

    // Upstreams.

    /// The first message on an upstream that was not opened. Which instance, only a port of one
    /// leaves no doubt about.
    fn first_use(&mut self, id: Id, number: u32) -> Result<Id, u32> {
        let a = self.tasks[id].app as usize;
        let port = self.apps[a].upstreams.get(number as usize).map_or(0, |c| c.port as usize);
        let in_pool = self.conns.get(self.tasks[id].conn).is_some_and(|c| c.group != NO_GROUP);
        match self.instances(a, port) {
            1 if in_pool => self.host_take(id, number, 0),
            1 => self.open_upstream(id, number, 0, None),
            0 => Err(WL_F_REFUSED),
            // The program has to choose.
            _ => Err(WL_F_CONSTRAINT),
        }
    }

    /// Opens an upstream of a task's client; with a key as one of the sessions of its pool.
    pub(super) fn open_upstream(&mut self, id: Id, number: u32, index: u32, key: Option<&[u8]>) -> Result<Id, u32> {
        let (a, client) = (self.tasks[id].app as usize, self.tasks[id].conn);
        let ends = flag::DOOMED | flag::CLOSING | flag::TURNED_AWAY;
        if !self.conns.get(client).is_some_and(|c| c.member == CLIENT && !c.has(ends)) {
            return Err(WL_F_LOST);
        }
        if let Some(old) = self.upstream(client, number) {
            self.dismiss(old);
        }
        let upstream = self.apps[a].upstreams.get(number as usize).ok_or(WL_F_INDEX)?;
        let p = upstream.port as usize;
        let at = Target { a, p, i: self.place_of(a, p, index as usize).ok_or(WL_F_INDEX)? };
        let mut order = self.order_of(at, index as usize);
        let at = if self.apps[a].ports[p].is_up(at.i) {
            at
        } else {
            self.next_server(at, &mut order).ok_or(WL_F_REFUSED)?
        };
        match key {
            Some(key) if self.has_pool(at) => self.log_in(at, client, number, key),
            _ => self.connect_upstream(at, client, number),
        }
    }

    pub(super) fn connect_upstream(&mut self, at: Target, client: Id, number: u32) -> Result<Id, u32> {
        let port = &self.apps[at.a].ports[at.p];
        if port.backends[at.i].open >= port.options.max_connections && !self.gives_place(at) {
            return Err(WL_F_OVERLOAD);
        }
        let id = self.connect(at)?;
        let c = &mut self.conns[id];
        (c.member, c.speaks) = (UPSTREAM + number as u8, c.proto);
        self.make_own(id, client);
        self.apps[at.a].ports[at.p].change_load(at.i, 1);
        Ok(id)
    }

    pub(super) fn host_shut(&mut self, id: Id, number: u32) {
        if let Some(upstream) = self.upstream(self.tasks[id].conn, number) {
            self.dismiss(upstream);
        }
    }

    pub(super) fn upstream_connected(&mut self, id: Id) {
        self.succeeded(self.target_of(id), self.conns[id].opened);
        self.upstream_ready(id);
    }

    /// Messages may go out on an upstream.
    fn upstream_ready(&mut self, id: Id) {
        // So many servers were tried.
        let now = self.now;
        let c = &mut self.conns[id];
        (c.answered, c.asked) = (0, now);
        self.arm_answer(id);
        self.mark_dirty(id);
        self.run_opened(id);
        if self.conns.get(id).is_some_and(|c| !c.has(flag::LEFT)) {
            self.run_upstream_opened(id);
        }
    }

    /// `on up.opened`
    pub(super) fn run_upstream_opened(&mut self, id: Id) {
        let c = &self.conns[id];
        let (a, client, n) = (c.app as usize, c.client, usize::from(c.member - UPSTREAM));
        if self.conns.alive(client) && !self.apps[a].upstreams[n].opened.is_empty() {
            // With a greeting, that is there.
            let ahead = c.has(flag::CONNECTING);
            let handlers = self.apps[a].upstreams[n].opened.clone();
            self.run_beginning((a, &handlers), client, id, ahead);
        }
    }
}
