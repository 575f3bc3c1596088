//! Streaming: tails and tunnels flow from one connection to another, never held beyond a bound.

use super::input::{run_tail, TailProgress};
use super::slab::Id;
use super::types::{flag, Mode, Side, Sink, Start};
use super::{Core, Raw, HIGH, STORED_MAX};
use crate::abi::*;
use crate::program::Verdict;
use crate::stats::NO_PLACE;

/// A delimiter that ends a message at fault comes within so many bytes, or the connection ends.
const SOUGHT_MAX: usize = 2048;

impl Core {
    /// Moves tail bytes on. None: nothing can be done now.
    pub(super) fn pump(&mut self, id: Id, rest: Raw) -> Option<usize> {
        let c = &self.conns[id];
        match c.sink {
            Sink::Undecided => return None,
            Sink::Conn(to) if self.conns.get(to).is_some_and(|t| t.has(flag::CONNECTING) && t.member == 0) => {
                return None
            }
            Sink::Conn(_) | Sink::Slot(_) | Sink::Discard | Sink::Read(_) => {}
        }
        let reads = c.reading.is_some();
        if c.member != 0 && self.awaits_turn(id) || reads && self.tail_waits(id) {
            return None;
        }
        let c = &mut self.conns[id];
        let (eof, sink) = (c.has(flag::EOF), c.sink);
        let (a, proto, side) = (c.app as usize, c.proto as usize, c.side);
        let member = c.member != 0;
        let dropped = side == Side::Client && c.owner.is_nil() && !member;
        let p = self.apps[a].protos[proto];
        let unit = if side == Side::Client { p.request } else { p.response.unwrap_or(p.request) };
        let view: *mut wl_parser = c.view.as_mut()?.as_mut_ptr().cast();
        let TailProgress { verdict, used, omitted } = if self.reads_pieces(id) {
            // The message may have ended in its handler.
            let Some(progress) = self.read_pieces(id, unit, rest, eof) else { return Some(rest.n) };
            progress
        } else {
            self.read_through(id);
            run_tail(unit, view, rest, eof, false)
        };
        if used > 0 && !omitted {
            self.forward(id, Raw { p: rest.p, n: used });
        }
        match verdict {
            Verdict::Whole => {
                // SAFETY: the view lives in the connection until `end_message`.
                let ends = unsafe { (*view).flags } & (WL_M_UNTIL_EOF | WL_M_ENDS) != 0;
                self.tail_done(id, ends);
                Some(used)
            }
            // The end of a message that was dropped from its head on. SAFETY: as below.
            Verdict::Bad if dropped && unsafe { (*view).flags } & WL_M_IN_STEP != 0 => {
                let view: *const wl_parser = view;
                let c = &mut self.conns[id];
                c.mode = Mode::Head;
                let start = c.dropped.take().map_or_else(Start::default, |s| *s);
                self.in_step_fault(id, view, start);
                self.end_message(id);
                Some(used)
            }
            // The end of an answer that was skipped. SAFETY: as below.
            Verdict::Bad
                if (member || side == Side::Backend)
                    && sink == Sink::Discard
                    && unsafe { (*view).flags } & WL_M_IN_STEP != 0 =>
            {
                self.tail_done(id, false);
                Some(used)
            }
            Verdict::Bad => {
                // SAFETY: the view lives in the connection until `end_message`.
                let (kind, place) = unsafe { (u32::from((*view).fault), (*view).place) };
                self.tail_bad(id, if kind == 0 { WL_F_MALFORMED } else { kind }, place);
                Some(rest.n)
            }
            _ if dropped && self.is_endless(id, used, view) => Some(rest.n),
            _ if used == 0 => None,
            _ => Some(used),
        }
    }

    /// Ends the connection if too many bytes have been dropped in search of a delimiter; returns
    /// whether it did. (A length gives its own end.)
    pub(super) fn is_endless(&mut self, id: Id, used: usize, view: *const wl_parser) -> bool {
        // SAFETY: the view lives in the connection until `end_message`.
        let v = unsafe { *view };
        let Some(start) = self.conns[id].dropped.as_mut().filter(|_| v.left == 0) else { return false };
        start.sought += used;
        if start.sought <= SOUGHT_MAX {
            return false;
        }
        let message = **start;
        self.conns[id].mode = Mode::Head;
        self.client_fault(id, if v.fault == 0 { WL_F_MALFORMED } else { u32::from(v.fault) }, v.place, message);
        true
    }

    /// Sends bytes where the source's tail goes; pauses the source when the destination is full.
    pub(super) fn forward(&mut self, src: Id, bytes: Raw) {
        match self.conns[src].sink {
            Sink::Conn(dst) if self.conns.alive(dst) => self.forward_conn(src, dst, bytes),
            Sink::Slot(slot) if self.slots.alive(slot) => self.forward_slot(src, slot, bytes),
            Sink::Undecided | Sink::Discard | Sink::Read(_) => {}
            Sink::Conn(_) | Sink::Slot(_) => self.conns[src].sink = Sink::Discard,
        }
    }

    fn forward_conn(&mut self, src: Id, dst: Id, bytes: Raw) {
        self.conns[src].moved = true;
        let bytes = bytes.from(self.write_uncopied(dst, bytes));
        if bytes.n == 0 {
            return;
        }
        let d = &mut self.conns[dst];
        d.last_tx = if d.out.is_empty() { self.now } else { d.last_tx };
        // SAFETY: the source's bytes are in place during this batch.
        if !d.out.append(&mut self.pool, unsafe { bytes.slice() }) {
            self.doom(dst, WL_F_OVERLOAD);
            return;
        }
        let full = d.out.len() > HIGH;
        self.mark_dirty(dst);
        if full {
            self.pause_source(src, dst);
        }
    }

    fn forward_slot(&mut self, src: Id, slot: Id, bytes: Raw) {
        let (conn, front) = self.append_reply(slot, bytes);
        let Some(c) = self.conns.get(conn) else { return };
        let waiting = if front { c.out.len() } else { self.slots[slot].stored.len() };
        if waiting > HIGH {
            self.leave_alone(src);
            self.move_over(src);
            if self.can_pause(src) {
                self.pause_answer(src, conn, front);
            } else if waiting > STORED_MAX && self.conns[src].has(flag::LEFT) {
                self.pause_answer(src, conn, front);
                self.hold_up(src);
            } else if waiting > STORED_MAX {
                self.doom(conn, WL_F_OVERLOAD);
                self.conns[src].sink = Sink::Discard;
            }
        }
    }

    /// A shared backend connection carries other clients' answers: it is never paused for one of
    /// them.
    fn can_pause(&self, src: Id) -> bool {
        let c = &self.conns[src];
        c.side == Side::Client || self.can_close_alone(src)
    }

    /// An answer goes on when its client has room, or when its turn has come (`give_turn`).
    fn pause_answer(&mut self, src: Id, client: Id, front: bool) {
        match front {
            true => self.pause_source(src, client),
            false => self.pause_reading(src),
        }
    }

    pub(super) fn pause_source(&mut self, src: Id, dst: Id) {
        if self.conns[src].member != 0 {
            self.falls_behind(src, dst);
        } else if self.conns[dst].paused_src != src {
            // The one before it has come to its end.
            self.resume_source(dst);
            self.conns[dst].paused_src = src;
        }
        self.pause_reading(src);
    }

    fn pause_reading(&mut self, src: Id) {
        let s = &mut self.conns[src];
        s.set(flag::FLOW);
        if !s.has(flag::PAUSED) {
            s.set(flag::PAUSED);
            let token = s.token;
            self.engine.pause(token, true);
        }
    }

    /// The destination has room again.
    pub(super) fn resume_source(&mut self, dst: Id) {
        let src = std::mem::take(&mut self.conns[dst].paused_src);
        self.resume_reading(src);
    }

    pub(super) fn resume_reading(&mut self, src: Id) {
        if let Some(s) = self.conns.get_mut(src) {
            s.clear(flag::FLOW);
            if s.input.is_empty() {
                self.unpause(src);
            } else {
                self.mark_again(src);
            }
        }
    }

    /// The last byte of a streaming tail has been passed on. `ends`: only the end of its connection
    /// told so.
    fn tail_done(&mut self, id: Id, ends: bool) {
        if self.conns[id].member != 0 {
            return self.member_tail_done(id, ends);
        }
        self.end_message(id);
        let c = &mut self.conns[id];
        c.mode = Mode::Head;
        let (sink, owner, side) = (std::mem::take(&mut c.sink), std::mem::take(&mut c.owner), c.side);
        match side {
            Side::Client => {
                if let Some(t) = self.tasks.get_mut(owner) {
                    t.req_more = false;
                }
                match sink {
                    Sink::Slot(slot) => self.slot_done(slot),
                    Sink::Read(part) => self.complete_part(owner, part, WL_S_OK, None),
                    Sink::Conn(backend) if self.conns.alive(backend) => {
                        self.request_complete(backend, id);
                        if ends {
                            self.end_requests(backend);
                        }
                    }
                    _ => {}
                }
            }
            Side::Backend => {
                let slot = if let Sink::Slot(s) = sink { s } else { Id::NIL };
                if let (true, Some(s)) = (ends, self.slots.get_mut(slot)) {
                    s.close = true;
                    let client = s.conn;
                    if let Some(c) = self.conns.get_mut(client) {
                        c.set(flag::LAST);
                    }
                }
                self.answer_complete(id, slot);
                self.slot_done(slot);
            }
        }
    }

    /// A tail does not follow its grammar, or its connection ended inside it.
    fn tail_bad(&mut self, id: Id, kind: u32, place: u32) {
        if self.conns[id].member != 0 {
            return self.member_bad(id, kind, place, Start::default());
        }
        if self.conns[id].side == Side::Backend {
            self.backend_bad(id, kind, place);
            return;
        }
        let owner = self.stop_request(id);
        if self.tasks.alive(owner) {
            self.task_fault(owner, kind, place);
        } else {
            self.count_fault_at(id, kind, place);
        }
        self.close_if_answered(id);
    }

    /// The rest of a request goes nowhere, and no other is read. Gives the task that it was for.
    pub(super) fn stop_request(&mut self, id: Id) -> Id {
        let c = &mut self.conns[id];
        let (sink, owner) = (std::mem::replace(&mut c.sink, Sink::Discard), c.owner);
        c.mode = Mode::Drain;
        c.set(flag::LAST | flag::LINGER);
        self.end_message(id);
        if let Sink::Conn(backend) = sink {
            // A request cut short must not be taken for a whole one: the backend sees the
            // connection end.
            self.detach_calls(owner);
            if self.conns.alive(backend) {
                self.close_conn(backend, true);
            }
        }
        owner
    }

    pub(super) fn close_if_answered(&mut self, id: Id) {
        if let Some(c) = self.conns.get_mut(id) {
            if c.has(flag::EOF) || c.count == 0 {
                c.set(flag::CLOSING);
                self.mark_dirty(id);
            }
        }
    }

    /// Both connections carry raw bytes from now on.
    pub(super) fn start_tunnel(&mut self, client: Id, backend: Id) {
        for (id, other) in [(client, backend), (backend, client)] {
            self.end_message(id);
            let c = &mut self.conns[id];
            c.mode = Mode::Raw;
            c.sink = Sink::Conn(other);
            c.clear(flag::LAST | flag::STALLED);
            c.set(flag::NO_REUSE);
            if !c.input.is_empty() || c.has(flag::EOF) {
                self.mark_again(id);
            }
        }
    }

    /// One direction of a tunnel has ended: the other side learns it after the last byte.
    pub(super) fn tunnel_eof(&mut self, id: Id) {
        let Sink::Conn(other) = self.conns[id].sink else { return };
        if !self.conns.alive(other) {
            self.close_conn(id, false);
            return;
        }
        self.conns[other].set(flag::SHUT_WANTED);
        self.mark_dirty(other);
    }

    /// One end of a tunnel was closed. The other end is closed after its output.
    pub(super) fn tunnel_closed(&mut self, other: Id, reset: bool) {
        if let Some(c) = self.conns.get_mut(other) {
            c.set(if reset { flag::DOOMED } else { flag::CLOSING });
            self.mark_dirty(other);
            if reset {
                self.ends_by(other, WL_F_LOST);
            }
        }
    }

    pub(super) fn count_fault_at(&mut self, id: Id, kind: u32, place: u32) {
        let (a, port) = (self.conns[id].app, self.conns[id].port);
        self.ends_by(id, kind);
        self.log_fault(a, (kind, place), u32::from(port), id);
        self.add_fault(a, kind, place, u32::from(port));
    }

    /// Notes why a connection ends: the first reason counts.
    pub(super) fn ends_by(&mut self, id: Id, kind: u32) {
        if let Some(c) = self.conns.get_mut(id).filter(|c| c.why == 0) {
            c.why = kind as u16;
        }
    }

    /// Counts a fault of a connection that cannot be served on, and closes it.
    pub(super) fn doom(&mut self, id: Id, kind: u32) {
        if self.conns.get(id).is_some_and(|c| !c.has(flag::DOOMED)) {
            match self.conns[id].side == Side::Client && self.conns[id].member == 0 {
                true => self.count_cut(id, kind),
                false => self.count_fault_at(id, kind, NO_PLACE),
            }
            self.close_unsent(id);
        }
    }

    /// Closes a connection at the end of the batch, without its output.
    pub(super) fn close_unsent(&mut self, id: Id) {
        if let Some(c) = self.conns.get_mut(id) {
            c.set(flag::DOOMED);
            self.mark_dirty(id);
        }
    }
}
