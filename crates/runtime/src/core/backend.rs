//! Backend connections: their input, and their end.

use super::ejection::Why;
use super::input::{FoundMessage, Parsed};
use super::ports::IdField;
use super::slab::Id;
use super::types::{flag, Mode, Sink, Start, Target};
use super::{Core, Raw};
use crate::abi::*;
use crate::stats::NO_PLACE;
use wireloom_ir::desc::Reuse;

/// An answer, or its head, at the front of a backend's bytes.
struct FrontAnswer {
    call: Id,
    rest: Raw,
    m: FoundMessage,
    /// The handler reads it as a whole.
    hold: bool,
}

impl Core {
    pub(super) fn target_of(&self, id: Id) -> Target {
        let c = &self.conns[id];
        Target { a: c.app as usize, p: c.port as usize, i: c.endpoint() as usize }
    }

    pub(super) fn connected(&mut self, id: Id) {
        let c = &mut self.conns[id];
        let first = self.apps[c.app as usize].protos[c.proto as usize].server_first;
        let waits = (c.member != 0 || c.has(flag::PROBE)) && first;
        if !waits {
            c.clear(flag::CONNECTING);
        }
        (c.last_rx, c.last_tx) = (self.now, self.now);
        let (token, member) = (c.token, c.member);
        if let Some((local, peer)) = self.engine.addresses(token) {
            let c = &mut self.conns[id].c;
            (c.local, c.peer) = (local.into(), peer.into());
        }
        if member != 0 {
            return if waits { self.mark_dirty(id) } else { self.upstream_connected(id) };
        }
        if waits {
            // A server that speaks first is well once it has spoken.
            self.conns[id].greets = 1;
            return;
        }
        if !self.greet(id) {
            return;
        }
        if self.conns[id].greets == 0 {
            self.ready(id);
        }
        if !self.conns.alive(id) {
            return;
        }
        self.begin_streams(id);
        self.mark_dirty(id);
        self.run_opened(id);
    }

    /// A probe's connection becomes one of the pool.
    pub(super) fn adopt(&mut self, at: Target, id: Id) {
        let exclusive = self.can_close_alone(id);
        let app = &mut self.apps[at.a];
        let port = &mut app.ports[at.p];
        let b = &mut port.backends[at.i];
        let session = app.protos[port.protos[0] as usize].session;
        if exclusive && (session || port.options.reuse == Reuse::Never) {
            self.close_conn(id, false);
        } else if exclusive {
            self.serve_waiter(at, Some(id));
        } else if let Some(free) = b.shared.iter_mut().find(|s| s.is_nil()) {
            *free = id;
        } else {
            self.close_conn(id, false);
        }
    }

    /// `ours`: for a want of this machine.
    pub(super) fn connect_failed(&mut self, id: Id, ours: bool) {
        let at = self.target_of(id);
        if self.conns[id].has(flag::PROBE) {
            let begun = self.conns[id].since;
            self.remove_conn(id, true);
            self.probe_failed(at, begun);
            return;
        }
        if self.conns[id].member != 0 {
            return self.upstream_lost(id, if ours { WL_F_OVERLOAD } else { WL_F_REFUSED });
        }
        if ours {
            return self.fail_backend(id, WL_F_OVERLOAD, WL_F_OVERLOAD);
        }
        self.backend_failed(at, Why::Refused);
        if self.conns.alive(id) {
            self.unreachable(id);
        }
    }

    /// Handles input at a message boundary of a backend connection.
    pub(super) fn backend_input(&mut self, id: Id, rest: Raw) -> Option<usize> {
        let c = &self.conns[id];
        let proto = self.apps[c.app as usize].protos[c.proto as usize];
        let Some(unit) = proto.response else { return Some(rest.n) };
        if c.member != 0 {
            return self.upstream_input(id, unit, rest);
        }
        if c.greets > 0 {
            return self.greeted(id, unit, rest);
        }
        if c.count == 0 {
            self.surplus(id);
            return Some(rest.n);
        }
        let call = match proto.id {
            None => Some(c.first),
            Some(field) if field.of_response(rest.n).is_none() => return None,
            Some(field) => self.call_by_id(id, rest, field),
        };
        let Some(call) = call else {
            self.nobodys_answer(id);
            return Some(rest.n);
        };
        let k = &self.calls[call];
        let hold = match self.tasks.get(k.task) {
            Some(t) => k.flags & WL_C_HOLD != 0 || t.parts.len() > 1,
            None => false,
        };
        let ctx = k.ctx | WL_CTX_RESPONSE;
        self.conns[id].set(flag::ANSWERING);
        match self.parse(id, unit, ctx, rest, hold) {
            Parsed::More => None,
            Parsed::Bad { kind, place } => {
                self.bad_answer(id, call, (kind, place));
                Some(rest.n)
            }
            Parsed::Message(m) => {
                self.backend_message(id, FrontAnswer { call, rest, m, hold }, proto.id);
                Some(m.have)
            }
        }
    }

    fn backend_message(&mut self, id: Id, answer: FrontAnswer, by_id: Option<IdField>) {
        let FrontAnswer { call, rest, m, hold } = answer;
        // SAFETY: the view is live until `end_message`.
        let flags = unsafe { (*m.view).flags };
        if flags & WL_M_IN_STEP != 0 {
            return self.bad_answer_in_step(id, call, &m);
        }
        let ends = flags & (WL_M_CLOSE | WL_M_UNTIL_EOF) != 0;
        if flags & WL_M_TUNNEL != 0 && self.conns[id].has(flag::PIPED) {
            // No call is waiting for it.
            self.backend_bad(id, WL_F_BAD_REPLY, NO_PLACE);
            return;
        }
        if flags & WL_M_STRAY != 0 {
            // Those behind it may be other clients', too.
            self.bad_answer(id, call, (WL_F_BAD_REPLY, NO_PLACE));
            return;
        }
        let k = &self.calls[call];
        let (task, part, client_id) = (k.task, k.part, k.client_id);
        if flags & WL_M_INTERIM != 0 && m.whole {
            // An interim answer that says `Connection: close` would close the client's connection,
            // so it is not passed on.
            if !ends {
                let (m, rest) = self.with_client_id(by_id, client_id, m, rest);
                self.interim(id, task, rest, &m);
            }
            self.end_message(id);
            return;
        }
        let at = self.target_of(id);
        self.succeeded(at, self.calls[call].issued);
        self.learn(id, call);
        let took = self.now.saturating_sub(self.calls[call].issued);
        self.my_stats().apps[at.a].ports[at.p].backends[at.i].latency.record(took);
        self.my_stats().apps[at.a].ports[at.p].replies.add(1);
        let (client, slot) = self.tasks.get(task).map_or((Id::NIL, Id::NIL), |t| (t.conn, t.slot));
        let private = flags & WL_M_PRIVATE != 0;
        if private && !self.conns[id].has(flag::PIPED) {
            self.make_own(id, client);
        }
        // A shared connection cannot become one client's.
        let ends = ends || private && self.conns[id].has(flag::PIPED);
        if ends {
            self.conns[id].set(flag::NO_REUSE);
        }
        let tunnel = flags & WL_M_TUNNEL != 0;
        self.heard(slot, tunnel);
        if m.whole {
            if !tunnel {
                self.check_early(id, call);
            }
            self.finish_call(id, call);
        } else {
            self.put_first(id, call);
            let c = &mut self.conns[id];
            c.mode = Mode::Tail;
            c.sink = Sink::Undecided;
        }
        if let Some(t) = self.tasks.get_mut(task) {
            t.rep_src = id;
            t.rep_more = !m.whole;
            let (m, rest) = self.with_client_id(by_id, client_id, m, rest);
            let msg = m.seen(rest.p);
            if hold && !m.whole {
                // It has streams and cannot be held; half of it must not pass for the whole.
                self.complete_part(task, part, WL_F_OVERLOAD, None);
            } else {
                self.count_joined(at, self.conns[id].proto, task, &msg);
                self.complete_part(task, part, WL_S_OK, Some((msg, m.length(), hold)));
            }
        }
        let Some(c) = self.conns.get_mut(id) else { return };
        if !m.whole {
            if c.sink == Sink::Undecided {
                c.sink = Sink::Discard;
            }
            // SAFETY: the view lives in the connection until `end_message`.
            let left = c.view.as_ref().map_or(0, |v| unsafe { (*v.as_ptr().cast::<wl_parser>()).left });
            self.large_answer(id, left);
            let c = &mut self.conns[id];
            if c.sink == Sink::Discard {
                self.leave_alone(id);
            } else if ends {
                self.shed(id);
            }
            return;
        }
        self.end_message(id);
        if ends {
            self.shed_all(id);
        }
        if !tunnel || !self.conns.alive(id) {
            return;
        }
        if self.can_close_alone(id) && self.conns.get(client).is_some_and(|c| !c.has(flag::CLOSING | flag::DOOMED)) {
            self.conns[id].clear(flag::RELEASE);
            self.start_tunnel(client, id);
        } else {
            // Its client goes: it speaks another protocol now, and can serve nobody else.
            self.close_conn(id, false);
            self.serve_waiter(at, None);
        }
    }

    /// An answer with a fault from which its grammar recovers. Its client gets the fault, and the
    /// rest of the answer is skipped. The connection serves the other calls.
    fn bad_answer_in_step(&mut self, id: Id, call: Id, m: &FoundMessage) {
        // SAFETY: the view is live until `end_message`.
        let (kind, place) = unsafe { (u32::from((*m.view).fault), (*m.view).place) };
        let at = self.target_of(id);
        self.count_fault(at.a as u16, (WL_F_BAD_REPLY, place), at.p as u32, id);
        // One that is too long for us says nothing about its server.
        if kind == WL_F_TOO_LONG {
            self.succeeded(at, self.calls[call].issued)
        } else {
            self.backend_failed(at, Why::Nonsense)
        }
        let k = &mut self.calls[call];
        let (task, part) = (std::mem::take(&mut k.task), k.part);
        if m.whole {
            self.finish_call(id, call);
            self.end_message(id);
        } else if self.can_close_alone(id) {
            self.close_conn(id, false);
        } else {
            self.put_first(id, call);
            let c = &mut self.conns[id];
            (c.mode, c.sink) = (Mode::Tail, Sink::Discard);
        }
        self.complete_part(task, part, WL_F_BAD_REPLY, None);
    }

    /// A response that another one follows: goes to the client if its turn has come and it reads
    /// such responses, else is dropped.
    pub(super) fn interim(&mut self, id: Id, task: Id, rest: Raw, m: &FoundMessage) {
        let Some(t) = self.tasks.get(task) else { return };
        let (slot, alone) = (t.slot, t.parts.len() == 1);
        let Some(s) = self.slots.get(slot) else { return };
        let (conn, started) = (s.conn, s.started);
        if !alone || s.answered || self.conns[conn].first != slot || self.response_of(conn) != self.response_of(id) {
            return;
        }
        let msg = m.seen(rest.p);
        let Some(head) = self.interim_head(conn, &msg) else { return };
        self.append_reply(slot, head);
        if self.slots.alive(slot) {
            self.append_reply(slot, Raw { p: rest.p, n: m.have }.from(m.head));
        }
        if self.conns.get(conn).is_some_and(|c| c.has(flag::DATAGRAM)) {
            self.send_output(conn);
        }
        // The answer proper has not begun: a fault can still be told.
        if let Some(s) = self.slots.get_mut(slot) {
            s.started = started;
        }
    }

    /// The unit of the answers on a connection.
    fn response_of(&self, conn: Id) -> Option<u32> {
        let c = &self.conns[conn];
        self.apps[c.app as usize].app.desc.protocols.get(c.proto as usize).and_then(|p| p.response)
    }

    /// The head of an interim answer as the program passes it on; none if it does not.
    fn interim_head(&mut self, conn: Id, msg: &wl_msg) -> Option<Raw> {
        let (a, proto) = (self.conns[conn].app as usize, u32::from(self.conns[conn].proto));
        let table = *self.apps[a].app.program.table();
        self.enter(a);
        let wl: *mut wl_core = &mut *self.apps[a].wl;
        // SAFETY: the program's own function; the message is in place.
        let flags = table.interim.map_or(0, |f| unsafe { f(table.self_, wl, proto, msg) });
        let built = self.apps[a].built();
        match (flags & WL_R_NOTHING, built.n) {
            (0, 0) => Some(Raw { p: msg.base, n: msg.head as usize }),
            // SAFETY: the scratch stays until the next entry into the program.
            (0, _) => Some(Raw::of(unsafe { built.as_slice() })),
            _ => None,
        }
    }

    /// An answer is complete: its call leaves the connection.
    fn finish_call(&mut self, id: Id, call: Id) {
        self.unlink_call(id, call);
        self.free_call(call);
        self.next_turn(id);
        self.settle(id);
        let exclusive = self.can_close_alone(id);
        let c = &mut self.conns[id];
        c.clear(flag::ANSWERING);
        c.answered = c.answered.saturating_add(1);
        if exclusive && c.count == 0 {
            c.set(flag::RELEASE);
        } else if !exclusive {
            self.give_up_idle(id);
            self.end_retired(id);
        }
    }

    /// The streaming tail of the first call's answer is complete.
    pub(super) fn answer_complete(&mut self, id: Id, _slot: Id) {
        let call = self.conns[id].first;
        if self.calls.alive(call) {
            self.check_early(id, call);
            self.finish_call(id, call);
        }
    }

    /// The answer came before the request was complete. The client gets a fault, and the rest of
    /// the request is dropped. The backend connection is not used again. With an exclusive protocol
    /// the client connection is closed too, so that the client can stop sending.
    fn check_early(&mut self, id: Id, call: Id) {
        let stream = self.calls[call].stream;
        let Some(c) = self.conns.get_mut(stream) else { return };
        if c.mode == Mode::Tail && c.sink == Sink::Conn(id) {
            c.sink = Sink::Discard;
            let exclusive = self.apps[c.app as usize].protos[c.proto as usize].exclusive;
            if exclusive {
                c.set(flag::LINGER | flag::LAST);
            }
            if c.has(flag::FLOW) {
                c.clear(flag::FLOW);
                self.mark_again(stream);
            }
            let first = self.conns[stream].first;
            if let Some(s) = self.slots.get_mut(first).filter(|_| exclusive) {
                s.close = true;
            }
            self.conns[id].set(flag::NO_REUSE);
        }
    }

    /// An exclusive connection has answered and nothing further has arrived: back to the pool.
    pub(super) fn release(&mut self, id: Id) {
        let at = self.target_of(id);
        let draining = self.draining;
        let c = &mut self.conns[id];
        c.clear(flag::RELEASE);
        let unusable = c.has(flag::NO_REUSE | flag::EOF) || !c.out.is_empty() && !c.has(flag::IN_FLIGHT) || draining;
        if unusable || self.out_of_step(id) {
            self.close_conn(id, false);
            self.serve_waiter(at, None);
            return;
        }
        let c = &self.conns[id];
        let (own, client) = (c.has(flag::PRIVATE), c.client);
        match (own, self.conns.alive(client)) {
            (false, _) => self.serve_waiter(at, Some(id)),
            (true, true) => {}
            (true, false) => self.close_conn(id, false),
        }
    }

    /// The answer to a call cannot be read, or belongs to another request.
    fn bad_answer(&mut self, id: Id, call: Id, (fault, place): (u32, u32)) {
        // The others of its connection are lost.
        self.put_first(id, call);
        self.backend_bad(id, fault, place);
    }

    /// The backend sent bytes that cannot be an answer, or that cannot be read. The connection is
    /// closed.
    pub(super) fn backend_bad(&mut self, id: Id, fault: u32, place: u32) {
        if self.conns[id].member != 0 {
            return self.member_bad(id, fault, place, Start::default());
        }
        let (at, now) = (self.target_of(id), self.now);
        let told = match fault {
            WL_F_TRUNCATED => WL_F_LOST,
            WL_F_OVERLOAD => fault,
            _ => WL_F_BAD_REPLY,
        };
        self.count_fault(at.a as u16, (told, place), at.p as u32, id);
        // One that is too long for us says nothing about its server.
        let too_long = matches!(fault, WL_F_TOO_LONG | WL_F_OVERLOAD);
        if !too_long {
            self.on_violation(at, now);
        }
        self.fail_counted(id, told, WL_F_LOST);
        if !too_long {
            self.backend_failed(at, Why::Nonsense);
        }
    }

    /// A backend connection has ended.
    pub(super) fn backend_lost(&mut self, id: Id) {
        if self.conns[id].member != 0 {
            return self.upstream_ended(id);
        }
        let at = self.target_of(id);
        let c = &self.conns[id];
        let waiting = c.count > 0 && !c.has(flag::RELEASE);
        // An idle connection that is closed under a request is no sign of a sick backend.
        let reused = if c.has(flag::PIPED) { c.answered > 0 } else { c.has(flag::REUSED) && self.can_close_alone(id) };
        let stale = reused && !c.has(flag::ANSWERING);
        if c.has(flag::PIPED) && self.calls.get(c.first).is_some_and(|k| k.behind) {
            let now = self.now;
            self.trust(at).on_slow_response(now);
        }
        self.fail_backend(id, WL_F_LOST, WL_F_LOST);
        if waiting && !stale {
            self.backend_failed(at, Why::Lost);
        }
    }

    /// Closes a backend connection; the first of its calls fails with `front`, the others with
    /// `rest`. Those of a `pipeline` that are just lost are sent again. An answer that this cuts
    /// off is a fault of its own: no task counts it any more. With `cancelled`, another one is
    /// counted.
    pub(super) fn fail_backend(&mut self, id: Id, front: u32, rest: u32) {
        let c = &self.conns[id];
        let cuts = front != WL_F_CANCELLED && matches!(c.sink, Sink::Slot(slot) if self.slots.alive(slot));
        if c.mode == Mode::Tail && cuts && self.calls.alive(c.first) {
            self.add_fault(c.app, front, NO_PLACE, u32::from(c.port));
        }
        self.fail_counted(id, front, rest);
    }

    /// The same for a fault that is counted already.
    fn fail_counted(&mut self, id: Id, front: u32, rest: u32) {
        let at = self.target_of(id);
        let c = &mut self.conns[id];
        let (mode, sink, probe) = (c.mode, c.sink, c.has(flag::PROBE).then_some(c.since));
        let retry = c.has(flag::REUSED) && !c.has(flag::ANSWERING);
        let shared = c.has(flag::PIPED);
        let mut call = self.take_calls(id);
        if !self.conns[id].has(flag::CONNECTING) {
            self.conns[id].set(flag::CLOSING);
            self.run_closed(id);
        }
        self.remove_conn(id, front != WL_F_LOST);
        if let Some(begun) = probe {
            self.probe_failed(at, begun);
        }
        let mut status = front;
        if mode == Mode::Tail && self.calls.alive(call) {
            // Its task has the head already: the client's answer is cut short.
            let next = self.calls[call].next;
            self.free_call(call);
            call = next;
            if let Sink::Slot(slot) = sink {
                self.truncated(slot, front);
            }
            status = rest;
        } else if mode == Mode::Raw {
            if let Sink::Conn(other) = sink {
                self.tunnel_closed(other, false);
            }
        }
        while let Some(c) = self.calls.get(call) {
            let next = c.next;
            self.calls[call].next = Id::NIL;
            self.calls[call].conn = Id::NIL;
            if shared && status == WL_F_LOST {
                self.resend(at, call);
            } else if !(retry && status == WL_F_LOST && self.retry(at, call)) {
                self.fail_call(call, status);
            }
            status = rest;
            call = next;
        }
        self.serve_waiter(at, None);
    }

    /// Sends a request again, once, on a fresh connection: only one whose protocol says that twice
    /// does no harm.
    fn retry(&mut self, at: Target, call: Id) -> bool {
        let c = &mut self.calls[call];
        if c.retried || !c.repeat || c.kept.is_empty() || !self.tasks.alive(c.task) {
            return false;
        }
        c.retried = true;
        let Ok(conn) = self.connect(at) else { return false };
        self.my_stats().apps[at.a].ports[at.p].retries.add(1);
        let kept = Raw::of(self.calls[call].kept.as_slice());
        self.bind(conn, call, kept, Raw::of(&[])).is_ok()
    }
}
