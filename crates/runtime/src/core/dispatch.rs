//! Requests to backends: they get a connection, or wait for one.
//!
//! Pipelined protocols share a few connections per backend. A request is appended at once, even
//! while the connection is being made. Exclusive protocols take an idle connection (the one used
//! last), open one, or wait in a bounded queue. `pool` chooses among idle connections, and handles
//! requests that no backend has seen.
//!
//! Retry: a request is sent a second time, on a fresh connection, only under three conditions. It
//! went out on a pooled connection that had been idle. That connection ended before the first byte
//! of an answer. The whole request is still in memory. This is the case in which the backend closes
//! an idle connection at the moment of its use.

use super::ports::{Port, Proto};
use super::slab::Id;
use super::types::{flag, Mode, Order, Side, Sink, Target, BACKENDS};
use super::{Core, Raw, BACKEND_OUT_MAX, HIGH, PENDING_MAX, WAITERS_MAX};
use crate::abi::*;
use crate::engine::Keepalive;
use wireloom_ir::desc::Reuse;

/// A call as a handler makes it. Its bytes are valid until the host's function returns.
#[derive(Clone, Copy)]
pub(super) struct CallRequest<'a> {
    pub port: u32,
    /// The instance of the port.
    pub index: u32,
    pub head: wl_bytes,
    /// `WL_TAIL_*`.
    pub tail: u32,
    pub how: &'a wl_call,
}

impl Port {
    /// How its sockets notice that a peer is gone.
    pub(super) fn keepalive(&self) -> Keepalive {
        Keepalive { idle: self.options.keepalive, patience: self.options.write_timeout }
    }
}

/// The protocol's clauses about a request on its way to a server.
struct Clauses {
    no_reply: bool,
    repeat: bool,
    private: bool,
    ends: bool,
}

impl Clauses {
    /// By the flags of its call, where it is not the client's request as it came. `request`: what
    /// the parser has said of that. Its end stays as it is in an edited one.
    fn of(call: u32, request: u32) -> Self {
        let ends = request & (WL_M_UNTIL_EOF | WL_M_ENDS) != 0 || call & WL_C_ENDS != 0;
        let said = |by_call: u32, by_parser: u32| match call & WL_C_JUDGED {
            0 => request & by_parser != 0,
            _ => call & by_call != 0,
        };
        Clauses {
            no_reply: said(WL_C_NO_REPLY, WL_M_NO_REPLY),
            repeat: said(WL_C_REPEAT, WL_M_REPEAT),
            private: said(WL_C_PRIVATE, WL_M_PRIVATE),
            ends,
        }
    }
}

impl Core {
    pub(super) fn host_call(&mut self, id: Id, request: CallRequest) {
        let how = request.how;
        let part = self.new_part(id, how.flags);
        self.tasks[id].ctx = how.ctx;
        if let Err(kind) = self.dispatch(id, part, request) {
            self.complete_part(id, part, kind, None);
        }
    }

    /// A part of a task that is waited for.
    pub(super) fn new_part(&mut self, id: Id, flags: u32) -> u32 {
        let t = &mut self.tasks[id];
        if t.fresh {
            t.fresh = false;
            t.parts.clear();
            t.have.clear();
            t.calls.clear();
        }
        let part = t.parts.len() as u32;
        t.parts.push(wl_msg::default());
        t.have.push(0);
        t.calls.push(Id::NIL);
        t.waiting += 1;
        t.hold_req |= flags & WL_C_HOLD_REQ != 0;
        part
    }

    /// Resolves the target of a call. If the backend is down, the call goes to another one
    /// (`failover`) or fails at once.
    fn target(&mut self, id: Id, port: u32, index: u32) -> Result<(Target, Order, Proto), u32> {
        let a = self.tasks[id].app as usize;
        let p = port as usize;
        let at = Target { a, p, i: self.place_of(a, p, index as usize).ok_or(WL_F_INDEX)? };
        let mut order = self.order_of(at, index as usize);
        let (app, port) = (&self.apps[a], &self.apps[a].ports[p]);
        let (up, proto) = (port.is_up(at.i), app.protos[port.protos[0] as usize]);
        let at = if up { at } else { self.next_server(at, &mut order).ok_or(WL_F_REFUSED)? };
        Ok((at, order, proto))
    }

    fn dispatch(&mut self, id: Id, part: u32, request: CallRequest) -> Result<(), u32> {
        let CallRequest { port, index, head, tail, how } = request;
        let app = self.tasks[id].app as usize;
        if tail == WL_TAIL_REQ && self.tasks[id].req_streamed {
            return Err(WL_F_CONSTRAINT);
        }
        if let Some(place) = self.place_of(app, port as usize, index as usize) {
            self.asks(id, part, (port as u16, place as u32));
        }
        let (mut target, order, proto) = self.target(id, port, index)?;
        let (here, more) = self.tail_here(id, tail);
        let udp = self.apps[target.a].ports[target.p].udp;
        if udp && more {
            return Err(WL_F_TOO_LONG);
        }
        let t = &self.tasks[id];
        let own = !t.c.req.base.is_null() && (head.p == t.c.req.base || tail == WL_TAIL_REQ);
        let Clauses { no_reply, repeat, private, ends } = Clauses::of(how.flags, if own { t.req_flags } else { 0 });
        // SAFETY: the program's bytes are valid during the call.
        let head = Raw::of(unsafe { head.as_slice() });
        if no_reply || proto.response.is_none() {
            self.mark_writer(id);
            self.one_way((target, order), proto, head, here, more)?;
            return Err(WL_F_NO_REPLY);
        }
        let timeout = if how.timeout_ns == 0 {
            self.apps[target.a].ports[target.p].options.answer_timeout
        } else {
            how.timeout_ns
        };
        let call = self.calls.alloc();
        let now = self.now;
        let c = &mut self.calls[call];
        (c.task, c.part, c.app, c.port, c.inst) = (id, part, target.a as u16, target.p as u16, target.i as u32);
        (c.conn, c.next, c.stream, c.retried, c.repeat, c.ends) = (Id::NIL, Id::NIL, Id::NIL, false, repeat, ends);
        (c.private, c.order, c.releases, c.number) = (private, order, Id::NIL, 0);
        (c.ctx, c.flags, c.issued, c.deadline) = (how.ctx, how.flags, now, now.saturating_add(timeout));
        self.tasks[id].calls[part as usize] = call;
        self.apps[target.a].ports[target.p].change_load(target.i, 1);
        let st = &self.my_stats().apps[target.a].ports[target.p];
        st.requests.add(1);
        st.backends[target.i].requests.add(1);
        if target.i != order.origin as usize {
            st.failovers.add(1);
            self.asks(id, part, (port as u16, target.i as u32));
        }
        self.try_out(target, call);
        let sent = loop {
            let sent = match proto.exclusive {
                _ if udp => self.call_shared(target, proto, call, head, here),
                true => self.call_exclusive(target, call, head, here, more),
                false if more && self.behind_unanswered(target, call) => self.call_behind(call, head, here),
                false if more => self.call_own(target, call, head, here),
                false if self.asks_alone(target, call) => self.call_alone(target, call, head, here),
                // Nothing could come behind it.
                false if ends => Err(WL_F_CONSTRAINT),
                false => self.call_shared(target, proto, call, head, here),
            };
            if sent != Err(WL_F_REFUSED) {
                break sent;
            }
            let mut order = self.calls[call].order;
            let Some(next) = self.next_server(target, &mut order) else { break sent };
            self.redirect(call, next, order);
            target = next;
        };
        if sent.is_err() {
            self.stays_here(call);
            self.free_call(call);
        }
        sent
    }

    /// The backend that a task's request is sent to.
    #[inline]
    pub(super) fn asks(&mut self, task: Id, part: u32, backend: (u16, u32)) {
        let slot = self.tasks.get(task).map_or(Id::NIL, |t| t.slot);
        if let Some(s) = self.slots.get_mut(slot) {
            s.backend = if part > 0 { BACKENDS } else { backend };
            s.heard = false;
        }
    }

    /// The backend has answered: the answer to the client may be its own.
    #[inline]
    pub(super) fn heard(&mut self, slot: Id, tunnel: bool) {
        if let Some(s) = self.slots.get_mut(slot) {
            (s.heard, s.tunnel) = (true, tunnel);
        }
    }

    fn call_shared(&mut self, at: Target, proto: Proto, call: Id, head: Raw, here: Raw) -> Result<(), u32> {
        let conn = match proto.id {
            Some(_) => self.conn_with_id(at)?,
            None => Some(self.shared_conn(at)?),
        };
        match conn {
            Some(conn) => self.call_on(conn, at, call, (head, here)),
            None => self.wait_for_id(at, call, (head, here)),
        }
    }

    /// Sends a request on a shared connection.
    pub(super) fn call_on(&mut self, conn: Id, at: Target, call: Id, (head, here): (Raw, Raw)) -> Result<(), u32> {
        let c = &self.conns[conn];
        if c.has(flag::DATAGRAM) {
            return self.call_datagram(conn, call, (head, here));
        }
        if c.count >= PENDING_MAX || c.out.len() > BACKEND_OUT_MAX {
            return Err(WL_F_OVERLOAD);
        }
        self.mark_unsent(conn);
        self.append_request(conn, call, head, here)?;
        self.pace.shared();
        self.link_call(conn, call);
        let client = self.tasks[self.calls[call].task].conn;
        self.hold_back(conn, client, at);
        Ok(())
    }

    /// A backend that does not take its requests stops the clients that talk to it.
    fn hold_back(&mut self, conn: Id, client: Id, at: Target) {
        if self.conns[conn].out.len() <= 4 * HIGH {
            return;
        }
        if let Some(c) = self.conns.get_mut(client) {
            if !c.has(flag::BEHIND) {
                c.set(flag::BEHIND);
                self.apps[at.a].ports[at.p].backends[at.i].stalled.push(client);
            }
        }
    }

    pub(super) fn append_out(&mut self, conn: Id, head: Raw, here: Raw) -> Result<(), u32> {
        let c = &mut self.conns[conn];
        if c.out.is_empty() {
            c.last_tx = self.now;
        }
        if here.n == 0 {
            if let Some(pieces) = self.pieces_of(head) {
                self.conns[conn].out.join(&mut self.pool, pieces);
                self.mark_dirty(conn);
                return Ok(());
            }
        }
        let c = &mut self.conns[conn];
        // SAFETY: program bytes, valid during the call.
        let fits = unsafe {
            if here.n == 0 {
                c.out.append(&mut self.pool, head.slice())
            } else {
                c.out.append_all(&mut self.pool, &[head.slice(), here.slice()])
            }
        };
        self.mark_dirty(conn);
        if fits {
            Ok(())
        } else {
            Err(WL_F_OVERLOAD)
        }
    }

    /// Appends a request, with an id of ours where answers carry ids.
    pub(super) fn append_request(&mut self, conn: Id, call: Id, head: Raw, here: Raw) -> Result<(), u32> {
        let Some(field) = self.id_field(conn) else { return self.append_out(conn, head, here) };
        let number = self.number_for(conn, call, head, field)?;
        let appended = self.append_with_id(conn, number, (head, here), field);
        if appended.is_err() {
            self.give_number_back(conn, call);
        }
        appended
    }

    pub(super) fn link_call(&mut self, conn: Id, call: Id) {
        let now = self.now;
        let c = &mut self.conns[conn];
        if c.has(flag::UNANSWERED) && c.prover.is_nil() {
            c.prover = call;
        }
        let behind = !c.last.is_nil();
        self.put_last(conn, call);
        let k = &mut self.calls[call];
        (k.conn, k.turn, k.behind) = (conn, now, behind);
        let deadline = k.deadline;
        if deadline < self.conns[conn].timer_at {
            self.arm(conn, deadline);
        }
    }

    /// Puts a call behind the others of its connection.
    pub(super) fn put_last(&mut self, conn: Id, call: Id) {
        let c = &mut self.conns[conn];
        let last = std::mem::replace(&mut c.last, call);
        c.count += 1;
        self.calls[call].before = last;
        if last.is_nil() {
            self.conns[conn].first = call;
        } else {
            self.calls[last].next = call;
        }
    }

    /// An idle shared connection is checked for input before the next request is written.
    pub(super) fn mark_unsent(&mut self, conn: Id) {
        let c = &mut self.conns[conn];
        if c.count == 0 && c.out.is_empty() && !c.has(flag::CONNECTING) {
            c.set(flag::UNSENT);
        }
    }

    /// One of a backend's shared connections, in turn; opened if need be.
    pub(super) fn shared_conn(&mut self, at: Target) -> Result<Id, u32> {
        let b = &mut self.apps[at.a].ports[at.p].backends[at.i];
        let turn = b.turn as usize % b.shared.len();
        b.turn = b.turn.wrapping_add(1);
        let id = b.shared[turn];
        if self.conns.get(id).is_some_and(|c| !c.has(flag::DOOMED | flag::CLOSING)) {
            return Ok(id);
        }
        let id = self.connect(at)?;
        self.apps[at.a].ports[at.p].backends[at.i].shared[turn] = id;
        Ok(id)
    }

    /// Starts a connection to a backend.
    pub(super) fn connect(&mut self, at: Target) -> Result<Id, u32> {
        let port = &self.apps[at.a].ports[at.p];
        if port.udp {
            return self.connect_datagrams(at);
        }
        let (addr, proto, timeout) = (port.backends[at.i].addr, port.protos[0], port.options.connect_timeout);
        let keepalive = port.keepalive();
        let token = match self.engine.connect(addr) {
            Ok(t) => t,
            Err(e) => return Err(self.no_connection(at, &e)),
        };
        self.engine.keep_alive(token, keepalive);
        let id = self.open_conn(token, Side::Backend, at.a as u16, at.p as u16, at.i as u32);
        let c = &mut self.conns[id];
        c.proto = proto;
        c.set(flag::CONNECTING);
        self.apps[at.a].ports[at.p].backends[at.i].open += 1;
        self.my_stats().apps[at.a].ports[at.p].backends[at.i].connections.add(1);
        self.arm(id, self.now.saturating_add(timeout));
        Ok(id)
    }

    fn call_exclusive(&mut self, at: Target, call: Id, head: Raw, here: Raw, more: bool) -> Result<(), u32> {
        if more {
            let task = self.calls[call].task;
            self.calls[call].stream = self.tasks[task].src;
            self.tasks[task].req_streamed = true;
        } else if !self.calls[call].ends {
            if let Some(conn) = self.pipelined_conn(at, call) {
                return self.call_piped(conn, call, head, here);
            }
        }
        if let Some(conn) = self.pooled_conn(at, call, more) {
            if !more && self.calls[call].repeat {
                // Kept for a retry. Without memory for it there is just no retry.
                self.keep_request(call, head, here);
            }
            return self.bind(conn, call, head, here);
        }
        let port = &self.apps[at.a].ports[at.p];
        if port.backends[at.i].open < port.options.max_connections {
            match self.connect(at) {
                // Those that are there have to do.
                Err(WL_F_OVERLOAD) if self.apps[at.a].ports[at.p].backends[at.i].open > 0 => {
                    if let Some(conn) = self.take_idle(at) {
                        return self.bind(conn, call, head, here);
                    }
                }
                made => return made.and_then(|conn| self.bind(conn, call, head, here)),
            }
        }
        let port = &self.apps[at.a].ports[at.p];
        if port.backends[at.i].waiters.len() >= WAITERS_MAX || !self.keep_request(call, head, here) {
            return Err(WL_F_OVERLOAD);
        }
        let deadline = self.calls[call].deadline;
        self.apps[at.a].ports[at.p].backends[at.i].waiters.push_back(call);
        self.arm_waiters(at, deadline);
        Ok(())
    }

    /// A request of a pipelined protocol that is still arriving would block a shared connection. It
    /// gets a connection of its own.
    fn call_own(&mut self, at: Target, call: Id, head: Raw, here: Raw) -> Result<(), u32> {
        let task = self.calls[call].task;
        self.calls[call].stream = self.tasks[task].src;
        self.tasks[task].req_streamed = true;
        let conn = self.own_connection(at)?;
        self.bind(conn, call, head, here)
    }

    pub(super) fn keep_request(&mut self, call: Id, head: Raw, here: Raw) -> bool {
        let kept = &mut self.calls[call].kept;
        // SAFETY: program bytes, valid during the call.
        unsafe { kept.append(&mut self.pool, head.slice()) && kept.append(&mut self.pool, here.slice()) }
    }

    /// Gives an exclusive connection its one request.
    pub(super) fn bind(&mut self, conn: Id, call: Id, head: Raw, here: Raw) -> Result<(), u32> {
        self.conns[conn].clear(flag::ANSWERING | flag::RELEASE);
        let at = self.target_of(conn);
        if self.calls[call].private || self.apps[at.a].ports[at.p].options.reuse == Reuse::Never {
            let client = self.tasks.get(self.calls[call].task).map_or(Id::NIL, |t| t.conn);
            self.make_own(conn, client);
        }
        self.link_call(conn, call);
        if let Err(e) = self.append_request(conn, call, head, here) {
            self.conns[conn].set(flag::DOOMED);
            self.unlink_call(conn, call);
            self.mark_dirty(conn);
            return Err(e);
        }
        let stream = self.calls[call].stream;
        if self.calls[call].ends && stream.is_nil() {
            self.end_requests(conn);
        }
        if let Some(c) = self.conns.get_mut(stream) {
            if c.mode == Mode::Tail {
                c.sink = Sink::Conn(conn);
                if !c.input.is_empty() || c.has(flag::EOF) {
                    self.mark_again(stream);
                }
            }
        }
        Ok(())
    }

    /// The requests to a backend end with the direction of the connection that carries them. The
    /// answer may still come.
    pub(super) fn end_requests(&mut self, conn: Id) {
        self.conns[conn].set(flag::SHUT_WANTED | flag::NO_REUSE);
        self.mark_dirty(conn);
    }

    /// An exclusive connection is free, or one could be opened: the next waiting request takes it.
    pub(super) fn serve_waiter(&mut self, at: Target, free: Option<Id>) {
        if self.waits_for_ids(at) {
            // Requests that wait for an id are served at the end of the batch.
            return self.apps[at.a].ports[at.p].backends[at.i].idle.extend(free);
        }
        let mut free = free;
        loop {
            let port = &mut self.apps[at.a].ports[at.p];
            let room = port.backends[at.i].open < port.options.max_connections;
            if free.is_none() && !room {
                return;
            }
            let Some(call) = port.backends[at.i].waiters.pop_front() else { break };
            if !self.calls.alive(call) {
                continue;
            }
            if !self.tasks.alive(self.calls[call].task) {
                self.free_call(call);
                continue;
            }
            if let Some(conn) = free {
                self.conns[conn].set(flag::REUSED | flag::UNSENT);
            }
            let got = free.take().map_or_else(|| self.connect(at), Ok);
            let bound = got.and_then(|conn| {
                let kept = Raw::of(self.calls[call].kept.as_slice());
                self.bind(conn, call, kept, Raw::of(&[]))
            });
            match bound {
                Err(WL_F_REFUSED) if self.fail_over(at, call) => {}
                Err(kind) => self.fail_call(call, kind),
                Ok(()) => {}
            }
            if free.is_none() {
                return;
            }
        }
        if let Some(conn) = free {
            self.apps[at.a].ports[at.p].backends[at.i].idle.push(conn);
        }
    }

    /// Removes a call from its connection. Its number may be given to another one.
    pub(super) fn unlink_call(&mut self, conn: Id, call: Id) {
        self.give_number_back(conn, call);
        self.take_out(conn, call);
    }

    /// Removes a call from its connection's list.
    pub(super) fn take_out(&mut self, conn: Id, call: Id) {
        let k = &mut self.calls[call];
        let (next, before) = (std::mem::take(&mut k.next), std::mem::take(&mut k.before));
        if let Some(k) = self.calls.get_mut(next) {
            k.before = before;
        }
        let c = &mut self.conns[conn];
        c.count -= 1;
        if c.prover == call {
            c.clear(flag::UNANSWERED);
            c.prover = Id::NIL;
        }
        if c.first == call {
            c.first = next;
            if next.is_nil() {
                c.last = Id::NIL;
            }
            return;
        }
        if c.last == call {
            c.last = before;
        }
        self.calls[before].next = next;
    }

    /// Puts a call in front of the others of its connection. Its answer has come before theirs, and
    /// the connection's next bytes are of it.
    pub(super) fn put_first(&mut self, conn: Id, call: Id) {
        let c = &self.conns[conn];
        let (first, prover, unanswered) = (c.first, c.prover, c.has(flag::UNANSWERED));
        if first == call {
            return;
        }
        self.take_out(conn, call);
        self.calls[call].next = first;
        self.calls[first].before = call;
        let c = &mut self.conns[conn];
        (c.first, c.prover) = (call, prover);
        c.count += 1;
        if unanswered {
            c.set(flag::UNANSWERED)
        }
    }

    pub(super) fn free_call(&mut self, call: Id) {
        let c = &mut self.calls[call];
        if !c.releases.is_nil() {
            self.held_back.push(std::mem::take(&mut c.releases));
        }
        c.kept.release(&mut self.pool);
        let (a, p, i) = (c.app as usize, c.port as usize, c.inst as usize);
        self.calls.free(call);
        self.apps[a].ports[p].change_load(i, -1);
        self.tried_out(Target { a, p, i }, call);
    }

    /// Ends a call without an answer; its task, if it still waits, learns why.
    pub(super) fn fail_call(&mut self, call: Id, kind: u32) {
        let (task, part) = (self.calls[call].task, self.calls[call].part);
        if kind == WL_F_REFUSED {
            self.stays_here(call);
        }
        self.free_call(call);
        self.complete_part(task, part, kind, None);
    }

    /// No server has been reached for a request whose rest is still arriving. If nothing of it has
    /// gone on, the program may send the request elsewhere.
    fn stays_here(&mut self, call: Id) {
        let k = &self.calls[call];
        let (task, stream) = (k.task, k.stream);
        let Some(c) = self.conns.get_mut(stream) else { return };
        if c.mode == Mode::Tail && !c.moved && matches!(c.sink, Sink::Conn(_) | Sink::Undecided | Sink::Discard) {
            c.sink = Sink::Undecided;
            if let Some(t) = self.tasks.get_mut(task) {
                t.req_streamed = false;
            }
        }
    }

    /// The rest of requests waits until their connection is there.
    pub(super) fn begin_streams(&mut self, conn: Id) {
        let stream = self.calls.get(self.conns[conn].first).map_or(Id::NIL, |k| k.stream);
        if self.conns.alive(stream) {
            self.mark_again(stream);
        }
    }

    /// A task that ends leaves its calls: exclusive connections are closed, shared ones read the
    /// answer and drop it.
    pub(super) fn detach_calls(&mut self, id: Id) {
        let Some(t) = self.tasks.get_mut(id) else { return };
        for i in 0..t.calls.len() {
            let call = std::mem::take(&mut self.tasks[id].calls[i]);
            let Some(c) = self.calls.get_mut(call) else { continue };
            c.task = Id::NIL;
            let conn = c.conn;
            if self.conns.alive(conn) && self.can_close_alone(conn) {
                self.close_conn(conn, false);
            } else if self.conns.alive(conn) {
                self.end_retired(conn);
            }
        }
    }

    /// A message that is not answered; to another server where this one cannot even be tried.
    fn one_way(&mut self, to: (Target, Order), proto: Proto, head: Raw, here: Raw, more: bool) -> Result<(), u32> {
        let (mut at, mut order) = to;
        loop {
            let sent = self.one_way_to(at, proto, head, here, more);
            if sent != Err(WL_F_REFUSED) {
                return sent;
            }
            let Some(next) = self.next_server(at, &mut order) else { return sent };
            at = next;
        }
    }

    fn one_way_to(&mut self, at: Target, proto: Proto, head: Raw, here: Raw, more: bool) -> Result<(), u32> {
        if more {
            return Err(WL_F_OVERLOAD);
        }
        let st = &self.my_stats().apps[at.a].ports[at.p];
        st.requests.add(1);
        st.backends[at.i].requests.add(1);
        if proto.exclusive && proto.response.is_some() {
            let conn = match self.take_idle(at) {
                Some(c) => c,
                None => self.connect(at)?,
            };
            self.append_unanswered(conn, head, here)?;
            self.apps[at.a].ports[at.p].backends[at.i].idle.push(conn);
            return Ok(());
        }
        let conn = self.shared_conn(at)?;
        if self.conns[conn].has(flag::DATAGRAM) {
            return self.send_unanswered(conn, head, here);
        }
        if self.conns[conn].out.len() > BACKEND_OUT_MAX {
            return Err(WL_F_OVERLOAD);
        }
        self.mark_unsent(conn);
        self.unanswered(conn);
        self.append_unanswered(conn, head, here)
    }

    pub(super) fn host_send(&mut self, id: Id, port: u32, index: u32, head: wl_bytes, tail: u32) {
        // SAFETY: the program's bytes are valid during the call.
        let head = Raw::of(unsafe { head.as_slice() });
        let sent = self.target(id, port, index).and_then(|(at, order, proto)| {
            let (here, more) = self.tail_here(id, tail);
            self.mark_writer(id);
            self.one_way((at, order), proto, head, here, more)?;
            let client = self.tasks[id].conn;
            let turn = self.apps[at.a].ports[at.p].backends[at.i].shared[0];
            if self.conns.alive(turn) {
                self.hold_back(turn, client, at);
            }
            Ok(())
        });
        if let Err(kind) = sent {
            let (a, client) = (self.tasks[id].app, self.tasks[id].conn);
            self.count_fault(a, (kind, crate::stats::NO_PLACE), port, client);
        }
    }
}
