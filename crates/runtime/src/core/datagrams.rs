//! Messages over UDP: a datagram is one message.
//!
//! In: datagrams, each with the bytes of one message. Out: answers to their senders, requests to
//! backends. A datagram of a client is a connection that ends with its answer. So an answer has one
//! receiver, the sender of its request. Nothing answers a datagram twice, and no answer is longer
//! than the port's `max_answer`. The answer to a datagram that is no message is not longer than
//! that datagram. So forged senders get no more than was sent in their name.
//!
//! A backend has sockets, which its requests share. Answers are matched by a number that stands for
//! the client's id (`order by`). Numbers come in a secret order, and each socket has a port of its
//! own, so that a stranger cannot guess an answer's. An answer to no request is counted
//! (`unmatched`); so is a datagram that could not be sent (`lost`).

use super::answers_by_id::with_number;
use super::ejection::Why;
use super::input::{FoundMessage, Parsed};
use super::ports::IdField;
use super::request_numbers::{RequestNumbers, Rest, Secret};
use super::slab::Id;
use super::types::{flag, Side, Start, Target, NO_PROTO};
use super::{Core, Raw};
use crate::abi::*;
use crate::buffer::MAX_SLICES;
use crate::engine::{Token, WriteResult};
use crate::stats::NO_PLACE;
use std::io::IoSlice;

/// How long a number of one byte rests when its answer has come.
const DUPLICATES_NS: u64 = 100_000_000;

// Clients.

impl Core {
    /// A datagram has come to a listening port; its bytes follow.
    pub(super) fn datagram_came(&mut self, token: Token, a: u16, p: u16) {
        if self.full(a, p) {
            self.engine.close(token, false);
            self.my_stats().apps[a as usize].ports[p as usize].turned_away.add(1);
            return self.count_fault(a, (WL_F_OVERLOAD, NO_PLACE), u32::from(p), Id::NIL);
        }
        let id = self.open_conn(token, Side::Client, a, p, 0);
        let port = &self.apps[a as usize].ports[p as usize];
        let c = &mut self.conns[id];
        c.set(flag::DATAGRAM | flag::EOF);
        c.most_answer = port.options.max_answer;
        if let [one] = port.protos[..] {
            c.proto = one;
        }
    }

    pub(super) fn datagram(&mut self, id: Id, raw: Raw) {
        let c = &mut self.conns[id];
        c.last_rx = self.now;
        let (side, a, p) = (c.side, c.app as usize, c.port as usize);
        let over = c.has(flag::DOOMED | flag::CLOSING);
        self.my_stats().apps[a].ports[p].bytes_in.add(raw.n as u64);
        match side {
            _ if over => {}
            Side::Client => self.datagram_of_client(id, raw),
            Side::Backend => self.datagram_of_backend(id, raw),
        }
        self.account(id);
    }

    fn datagram_of_client(&mut self, id: Id, raw: Raw) {
        if raw.n == 0 {
            return self.refuse_datagram(id, WL_F_TRUNCATED, NO_PLACE, raw);
        }
        if self.conns[id].proto == NO_PROTO && !self.choose_protocol(id, raw) {
            return;
        }
        let c = &self.conns[id];
        let proto = &self.apps[c.app as usize].protos[c.proto as usize];
        let (request, ctx) = (proto.request, proto.ctx);
        match self.parse(id, request, ctx, raw, true) {
            Parsed::Message(m) if m.whole && m.have == raw.n => self.client_message(id, raw, m),
            // Bytes behind a message belong to none.
            Parsed::Message(m) if m.whole => self.refuse_datagram(id, WL_F_MALFORMED, NO_PLACE, raw),
            Parsed::Message(_) | Parsed::More => self.refuse_datagram(id, WL_F_TRUNCATED, NO_PLACE, raw),
            Parsed::Bad { kind, place } => self.refuse_datagram(id, kind, place, raw),
        }
    }

    /// A datagram that is no message. Its answer, if the protocol has one, is no longer than it.
    fn refuse_datagram(&mut self, id: Id, kind: u32, place: u32, raw: Raw) {
        let c = &mut self.conns[id];
        c.most_answer = c.most_answer.min(raw.n as u32);
        self.client_fault(id, kind, place, Start::of(raw));
    }

    /// The output of a connection of datagrams is one, and is complete when nothing is under way.
    pub(super) fn write_datagram(&mut self, id: Id) -> bool {
        let c = &self.conns[id];
        if !c.out.is_empty() && (c.side == Side::Backend || c.count == 0) {
            self.send_output(id);
        }
        true
    }

    /// Sends all output as one datagram.
    pub(super) fn send_output(&mut self, id: Id) {
        let c = &self.conns[id];
        let (token, size, client) = (c.token, c.out.len(), c.side == Side::Client);
        if client && size > c.most_answer as usize {
            self.count_fault_at(id, WL_F_TOO_LONG, NO_PLACE);
            return self.conns[id].out.clear(&mut self.pool);
        }
        let mut bytes = std::mem::take(&mut self.datagram);
        bytes.clear();
        let c = &mut self.conns[id];
        if c.out.whole(&self.pool).is_none() {
            while !c.out.is_empty() {
                let mut slices = [IoSlice::new(&[]); MAX_SLICES];
                let n = c.out.front(&self.pool, &mut slices);
                let before = bytes.len();
                slices[..n].iter().for_each(|s| bytes.extend_from_slice(s));
                c.out.consume(&mut self.pool, bytes.len() - before);
            }
        }
        let whole = c.out.whole(&self.pool).filter(|_| !c.out.is_empty()).unwrap_or(&bytes);
        // SAFETY: a datagram is sent, or lost, before the call returns.
        let written = unsafe { self.engine.write(token, &[IoSlice::new(whole)]) };
        self.datagram = bytes;
        let c = &mut self.conns[id];
        c.out.clear(&mut self.pool);
        c.last_tx = self.now;
        c.most_answer = c.most_answer.saturating_sub(size as u32);
        let (a, p) = (c.app as usize, c.port as usize);
        let st = &self.my_stats().apps[a].ports[p];
        match written == WriteResult::Done(size) {
            true => st.bytes_out.add(size as u64),
            false => st.lost.add(1),
        }
    }
}

// Backends.

impl Core {
    /// Opens a socket to a backend. It is ready at once.
    pub(super) fn connect_datagrams(&mut self, at: Target) -> Result<Id, u32> {
        let port = &self.apps[at.a].ports[at.p];
        let (addr, proto, idle) = (port.backends[at.i].addr, port.protos[0], port.options.idle_timeout);
        let id = self.apps[at.a].protos[proto as usize].id;
        let secret = if self.virtual_time || id.is_none() { None } else { Some(Secret::new().ok_or(WL_F_OVERLOAD)?) };
        let numbers = id.map(|f| Box::new(RequestNumbers::new(f.width, secret)));
        let token = match self.engine.connect_datagrams(addr) {
            Ok(token) => token,
            Err(e) => return Err(self.no_connection(at, &e)),
        };
        let id = self.open_conn(token, Side::Backend, at.a as u16, at.p as u16, at.i as u32);
        let c = &mut self.conns[id];
        (c.proto, c.numbers) = (proto, numbers);
        c.set(flag::DATAGRAM);
        if let Some((local, peer)) = self.engine.addresses(token) {
            let c = &mut self.conns[id].c;
            (c.local, c.peer) = (local.into(), peer.into());
        }
        self.apps[at.a].ports[at.p].backends[at.i].open += 1;
        self.my_stats().apps[at.a].ports[at.p].backends[at.i].connections.add(1);
        self.arm(id, self.now.saturating_add(idle));
        Ok(id)
    }

    /// Sends a request, and waits for its answer under a number of ours.
    pub(super) fn call_datagram(&mut self, conn: Id, call: Id, request: (Raw, Raw)) -> Result<(), u32> {
        let field = self.id_field(conn).ok_or(WL_F_CONSTRAINT)?;
        let own = self.number_for(conn, call, request.0, field)?.to_be_bytes();
        // SAFETY: program bytes, valid during the call.
        let sent = self.send_datagram(conn, unsafe { &with_number(request, field, &own) });
        match sent {
            Ok(()) => self.link_call(conn, call),
            Err(_) => self.give_number_back(conn, call),
        }
        sent
    }

    /// One datagram to a backend.
    pub(super) fn send_datagram(&mut self, conn: Id, parts: &[&[u8]]) -> Result<(), u32> {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        let size: usize = parts.iter().map(|p| p.len()).sum();
        let c = &mut self.conns[conn];
        c.last_tx = self.now;
        let (token, a, p) = (c.token, c.app as usize, c.port as usize);
        // SAFETY: a datagram is sent, or lost, before the call returns.
        let written = unsafe { self.engine.write(token, &slices[..parts.len()]) };
        let st = &self.my_stats().apps[a].ports[p];
        match written {
            WriteResult::Done(n) if n == size => {
                st.bytes_out.add(n as u64);
                Ok(())
            }
            // The event follows that ends the socket.
            WriteResult::Broken => Err(WL_F_REFUSED),
            _ => {
                st.lost.add(1);
                Err(WL_F_OVERLOAD)
            }
        }
    }

    fn datagram_of_backend(&mut self, id: Id, raw: Raw) {
        let c = &self.conns[id];
        let (at, proto) = (self.target_of(id), self.apps[c.app as usize].protos[c.proto as usize]);
        if let (1.., Some(unit)) = (c.greets, proto.response) {
            self.greeted(id, unit, raw);
            return;
        }
        let call = proto.id.and_then(|f| self.call_by_id(id, raw, f));
        let (Some(call), Some(unit), Some(field)) = (call, proto.response, proto.id) else {
            return self.my_stats().apps[at.a].ports[at.p].unmatched.add(1);
        };
        let ctx = self.calls[call].ctx | WL_CTX_RESPONSE;
        match self.parse(id, unit, ctx, raw, true) {
            Parsed::Message(m) if m.whole && m.have == raw.n => self.datagram_answer(id, call, (raw, m), field),
            Parsed::Bad { kind, place } => self.bad_datagram(id, call, kind, place),
            _ => self.bad_datagram(id, call, WL_F_MALFORMED, NO_PLACE),
        }
    }

    /// The answer to a request cannot be read.
    fn bad_datagram(&mut self, id: Id, call: Id, kind: u32, place: u32) {
        self.end_message(id);
        let at = self.target_of(id);
        self.count_fault(at.a as u16, (WL_F_BAD_REPLY, place), at.p as u32, id);
        // One that is too long for us says nothing about its server.
        if kind != WL_F_TOO_LONG {
            self.backend_failed(at, Why::Nonsense);
        }
        self.end_datagram_call(id, call, WL_F_BAD_REPLY);
    }

    fn datagram_answer(&mut self, id: Id, call: Id, (raw, m): (Raw, FoundMessage), field: IdField) {
        // SAFETY: the view is live until `end_message`.
        let flags = unsafe { (*m.view).flags };
        let at = self.target_of(id);
        if flags & WL_M_STRAY != 0 {
            self.end_message(id);
            return self.my_stats().apps[at.a].ports[at.p].unmatched.add(1);
        }
        if flags & WL_M_IN_STEP != 0 {
            return self.bad_datagram(id, call, WL_F_MALFORMED, NO_PLACE);
        }
        let k = &self.calls[call];
        let (task, part, client_id, issued) = (k.task, k.part, k.client_id, k.issued);
        let hold = self.tasks.get(task).is_some_and(|t| k.flags & WL_C_HOLD != 0 || t.parts.len() > 1);
        let (m, raw) = self.with_client_id(Some(field), client_id, m, raw);
        if flags & WL_M_INTERIM != 0 {
            self.interim(id, task, raw, &m);
            return self.end_message(id);
        }
        self.succeeded(at, issued);
        self.heard(self.tasks.get(task).map_or(Id::NIL, |t| t.slot), false);
        let st = &self.my_stats().apps[at.a].ports[at.p];
        st.backends[at.i].latency.record(self.now.saturating_sub(issued));
        st.replies.add(1);
        if field.width == 1 {
            // Numbers of one byte come again soon, and an answer may come twice.
            self.rest(id, call, (DUPLICATES_NS, Rest::Answered));
        }
        self.unlink_call(id, call);
        self.free_call(call);
        if let Some(t) = self.tasks.get_mut(task) {
            (t.rep_src, t.rep_more) = (id, false);
            let msg = m.seen(raw.p);
            self.count_joined(at, self.conns[id].proto, task, &msg);
            self.complete_part(task, part, WL_S_OK, Some((msg, m.have as u32, hold)));
        }
        if self.conns.alive(id) {
            self.end_message(id);
        }
    }

    /// A call over UDP ends without an answer. Its number rests for as long as an answer may take.
    fn end_datagram_call(&mut self, id: Id, call: Id, kind: u32) {
        if !self.calls.alive(call) {
            return;
        }
        let c = &self.conns[id];
        let patience = self.apps[c.app as usize].ports[c.port as usize].options.answer_timeout;
        self.rest(id, call, (patience, Rest::Forgotten));
        self.unlink_call(id, call);
        self.fail_call(call, kind);
    }

    /// The number of a call rests for so many nanoseconds.
    fn rest(&mut self, id: Id, call: Id, (span, why): (u64, Rest)) {
        let (number, until) = (self.calls[call].number, self.now.saturating_add(span));
        if let Some(n) = &mut self.conns[id].numbers {
            n.rest(number, until, why);
        }
    }

    /// Requests whose answers have not come: the datagrams, or their answers, are lost. Those that
    /// nobody waits for any more keep their number for a while.
    pub(super) fn datagrams_due(&mut self, id: Id) {
        let at = self.target_of(id);
        for call in self.late(id) {
            let Some(k) = self.calls.get(call) else { continue };
            if !k.task.is_nil() {
                self.backend_failed(at, Why::Silent);
            }
            if !self.conns.alive(id) {
                return;
            }
            self.end_datagram_call(id, call, WL_F_TIMEOUT);
        }
    }
}
