//! Client connections: accepting, requests to tasks, replies in order.

use super::input::{FoundMessage, Parsed};
use super::ports::{Front, NO_HANDLER};
use super::slab::Id;
use super::types::{flag, Conn, Mode, Side, Sink, Start, CLIENT, NO_BACKEND, NO_PROTO};
use super::{Core, Raw, HIGH, REPLY_BUDGET, STORED_MAX};
use crate::abi::*;
use crate::buffer::ChunkQueue;
use crate::engine::Token;
use crate::stats::NO_PLACE;

impl Core {
    pub(super) fn accepted(&mut self, listener: Token, token: Token) {
        let Some(l) = self.listeners.iter_mut().find(|l| l.token == listener) else {
            self.engine.close(token, true);
            return;
        };
        l.due = l.due.saturating_sub(1);
        let (a, p) = (l.app, l.port);
        if self.apps[a as usize].ports[p as usize].udp {
            return self.datagram_came(token, a, p);
        }
        let full = self.full(a, p);
        let id = self.open_conn(token, Side::Client, a, p, 0);
        let app = &self.apps[a as usize];
        let proto = app.ports[p as usize].protos[0];
        let member = u8::from(app.protos[proto as usize].session) * CLIENT;
        if app.ports[p as usize].protos.len() == 1 || member == CLIENT {
            let c = &mut self.conns[id];
            (c.proto, c.speaks, c.member) = (proto, proto, member);
            if member == CLIENT {
                self.give_handle(id);
            }
        }
        if full {
            return self.turn_away(id);
        }
        self.last_place(listener);
        let idle = self.apps[a as usize].ports[p as usize].options.idle_timeout;
        self.arm(id, self.now.saturating_add(idle));
        self.run_opened(id);
    }

    /// Enters a connection into the books.
    pub(super) fn open_conn(&mut self, token: Token, side: Side, a: u16, p: u16, instance: u32) -> Id {
        let id = self.book_conn(token, side, a, p, instance);
        self.register(token, id);
        id
    }

    /// The entry of a connection in the books.
    pub(super) fn book_conn(&mut self, token: Token, side: Side, a: u16, p: u16, instance: u32) -> Id {
        let id = self.conns.alloc();
        let (now, number) = (self.now, self.next_conn_id[side as usize]);
        self.next_conn_id[side as usize] += 1;
        let app = &mut self.apps[a as usize];
        app.ports[p as usize].open += 1;
        let shown = if side == Side::Backend { app.ports[p as usize].instance(instance as usize) } else { instance };
        let words = app.session_words;
        let session = (side == Side::Client && words > 0).then(|| {
            let mut s = app.sessions.pop().unwrap_or_else(|| crate::large_pages::words(words * 8));
            s.fill(0);
            s
        });
        let c = &mut self.conns[id];
        *c = Conn {
            token,
            side,
            app: a,
            port: p,
            instance,
            session,
            last_rx: now,
            last_tx: now,
            since: now,
            opened: now,
            ..Conn::default()
        };
        c.c.port = u32::from(p);
        c.c.instance = shown;
        c.c.id = number;
        // Until replies were seen, they may be large.
        c.reply_max = super::REPLY_GUESS;
        if let Some(s) = &mut c.session {
            c.c.session = s.as_mut_ptr().cast();
        }
        // A backend's local address is known when it is connected.
        if side == Side::Client {
            if let Some((local, peer)) = self.engine.addresses(token) {
                c.c.local = local.into();
                c.c.peer = peer.into();
            }
        }
        let s = &self.my_stats().apps[a as usize].ports[p as usize];
        s.opened.add(1);
        s.open.add(1);
        id
    }

    /// Handles input at a message boundary of a client. None: wait.
    pub(super) fn client_input(&mut self, id: Id, rest: Raw) -> Option<usize> {
        if self.conns[id].has(flag::LAST) {
            return Some(rest.n);
        }
        match self.ignored(id, rest) {
            Front::All(n) => return Some(n),
            Front::Part => return None,
            Front::Other => {}
        }
        if self.must_stall(id) {
            self.conns[id].set(flag::STALLED);
            self.held_by_crowd(id);
            return None;
        }
        // A turn for another reason may find that the stall is over: nobody else will tell.
        self.conns[id].clear(flag::ALONE | flag::STALLED);
        if self.conns[id].proto == NO_PROTO && !self.choose_protocol(id, rest) {
            return Some(rest.n);
        }
        let c = &self.conns[id];
        if c.has(flag::TURNED_AWAY) {
            self.client_fault(id, WL_F_OVERLOAD, NO_PLACE, Start::of(rest));
            return Some(rest.n);
        }
        let (proto_of, proto) = (c.proto, &self.apps[c.app as usize].protos[c.proto as usize]);
        let (request, ctx, hold) = (proto.request, proto.ctx, !proto.exclusive);
        let member = self.conns[id].member != 0;
        let ctx = if member { ctx | self.context(id, proto_of, false) } else { ctx };
        if member {
            if let Some(used) = self.message_run(id, ctx, rest) {
                return Some(used);
            }
        }
        match self.parse(id, request, ctx, rest, hold) {
            Parsed::More => None,
            Parsed::Bad { kind, place } => {
                self.client_fault(id, kind, place, Start::of(rest));
                Some(rest.n)
            }
            Parsed::Message(m) if self.conns[id].member != 0 => {
                self.member_message(id, rest, m);
                Some(m.have)
            }
            Parsed::Message(m) => {
                // SAFETY: the view is live until `end_message`.
                let alone = unsafe { (*m.view).flags } & WL_M_ALONE != 0 || self.handled_alone(id, m.head);
                // One that is still arriving goes on a connection of its own, where it could
                // overtake those before it.
                if alone || hold && !m.whole {
                    let c = &mut self.conns[id];
                    c.set(flag::ALONE);
                    if c.count > 0 {
                        c.set(flag::STALLED);
                        // It is read again from its beginning when its turn has come.
                        self.end_message(id);
                        return None;
                    }
                }
                self.client_message(id, rest, m);
                Some(m.have)
            }
        }
    }

    /// Whether a request of so many bytes is handled alone, so that its handler may pause.
    #[inline]
    fn handled_alone(&self, id: Id, bytes: usize) -> bool {
        let c = &self.conns[id];
        let app = &self.apps[c.app as usize];
        let handler = app.ports[c.port as usize].handlers[c.alt as usize];
        app.alone.get(handler as usize).is_some_and(|least| bytes >= *least as usize)
    }

    /// Whether the bytes in front of a request are such as its protocol drops.
    #[inline]
    fn ignored(&mut self, id: Id, rest: Raw) -> Front {
        let c = &mut self.conns[id];
        if c.proto == NO_PROTO {
            return Front::Other;
        }
        let ignore = &self.apps[c.app as usize].protos[c.proto as usize].ignore;
        if ignore.max == 0 || c.view.is_some() {
            return Front::Other;
        }
        // SAFETY: the caller's bytes are in place.
        let front = if c.ignored < ignore.max { ignore.in_front(unsafe { rest.slice() }) } else { Front::Other };
        c.ignored = if matches!(front, Front::All(_)) { c.ignored + 1 } else { c.ignored };
        front
    }

    /// Whether the next request must wait: too many under way, or the client does not take its
    /// answers.
    #[inline]
    pub(super) fn must_stall(&self, id: Id) -> bool {
        let c = &self.conns[id];
        if c.member != 0 {
            return self.member_waits(id);
        }
        if c.has(flag::BEHIND) || c.out.len() > HIGH {
            return true;
        }
        c.count > 0 && self.too_many(c)
    }

    /// Whether as many of a client's requests are under way as may be.
    fn too_many(&self, c: &Conn) -> bool {
        let app = &self.apps[c.app as usize];
        let exclusive = c.proto != NO_PROTO && app.protos[c.proto as usize].exclusive;
        let limit =
            if exclusive || c.has(flag::ALONE) { 1 } else { app.ports[c.port as usize].options.max_outstanding };
        let by_size = (REPLY_BUDGET / u64::from(c.reply_max).max(1)).max(1);
        u64::from(c.count) >= u64::from(limit).min(by_size)
    }

    /// Looks at requests again that were stalled.
    #[inline]
    pub(super) fn unstall(&mut self, id: Id) {
        if self.conns[id].has(flag::STALLED) {
            self.unstall_if_due(id);
        }
    }

    fn unstall_if_due(&mut self, id: Id) {
        if !self.must_stall(id) {
            self.conns[id].clear(flag::STALLED);
            self.mark_again(id);
        } else {
            self.held_by_crowd(id);
        }
    }

    pub(super) fn choose_protocol(&mut self, id: Id, rest: Raw) -> bool {
        let c = &mut self.conns[id];
        let port = &self.apps[c.app as usize].ports[c.port as usize];
        // SAFETY: the caller's bytes are in place and not empty.
        let alt = port.first[unsafe { *rest.p } as usize];
        c.alt = if alt == 255 { 0 } else { u16::from(alt) };
        c.proto = port.protos[c.alt as usize];
        if alt != 255 {
            c.member = u8::from(self.apps[c.app as usize].protos[c.proto as usize].session) * CLIENT;
        }
        if alt == 255 {
            self.client_fault(id, WL_F_MALFORMED, NO_PLACE, Start::of(rest));
        }
        alt != 255
    }

    pub(super) fn client_message(&mut self, id: Id, rest: Raw, m: FoundMessage) {
        // SAFETY: the view is live until `end_message`.
        let flags = unsafe { (*m.view).flags };
        if flags & WL_M_IN_STEP != 0 {
            self.bad_in_step(id, rest, m);
            return;
        }
        let slot = self.push_slot(id);
        self.note(slot, Some(m.seen(rest.p)));
        let c = &mut self.conns[id];
        c.answered = c.answered.saturating_add(1);
        c.ignored = 0;
        let (a, p) = (c.app as usize, c.port as usize);
        let last = flags & WL_M_CLOSE != 0 || self.draining && self.apps[a].protos[c.proto as usize].tells_drain;
        if last {
            c.set(flag::LAST);
        }
        if !m.whole {
            c.mode = Mode::Tail;
            c.sink = Sink::Undecided;
        }
        let app = &self.apps[a];
        let handler = app.ports[p].handlers[c.alt as usize];
        let one_way = app.protos[c.proto as usize].response.is_none();
        self.my_stats().apps[a].ports[p].requests.add(1);
        let s = &mut self.slots[slot];
        s.close = last;
        s.silent = one_way || flags & WL_M_NO_REPLY != 0;
        if handler == NO_HANDLER {
            s.answered = true;
            self.slot_done(slot);
            self.conns[id].sink = Sink::Discard;
        } else {
            let task = self.new_task(a, handler, id, slot);
            self.slots[slot].task = task;
            if !m.whole {
                self.conns[id].owner = task;
            }
            let t = &mut self.tasks[task];
            t.req_flags = flags;
            t.req_have = m.length();
            t.req_more = !m.whole;
            t.c.req = m.seen(rest.p);
            self.run(task);
        }
        if m.whole && self.conns.alive(id) {
            self.end_message(id);
        }
    }

    /// A message with a fault that the grammar recovers from is dropped to its end, then answered.
    fn bad_in_step(&mut self, id: Id, rest: Raw, m: FoundMessage) {
        let start = Start::of(Raw { n: m.have, ..rest });
        if m.whole {
            self.in_step_fault(id, m.view, start);
            self.end_message(id);
            return;
        }
        let c = &mut self.conns[id];
        c.mode = Mode::Tail;
        c.sink = Sink::Discard;
        c.owner = Id::NIL;
        c.dropped = Some(Box::new(start));
        self.is_endless(id, m.have - m.head, m.view);
    }

    /// Answers a message that was dropped; the stream is in step.
    pub(super) fn in_step_fault(&mut self, id: Id, view: *const wl_parser, start: Start) {
        // SAFETY: the view is live until `end_message`.
        let v = unsafe { *view };
        let slot = self.push_slot(id);
        self.slots[slot].silent = v.flags & WL_M_NO_REPLY != 0;
        let kind = if v.fault == 0 { WL_F_MALFORMED } else { u32::from(v.fault) };
        self.slot_fault(slot, kind, v.place, true, start);
    }

    /// A place at the end of the reply order.
    pub(super) fn push_slot(&mut self, conn: Id) -> Id {
        let slot = self.slots.alloc();
        let now = self.now;
        let s = &mut self.slots[slot];
        s.conn = conn;
        (s.task, s.next, s.src) = (Id::NIL, Id::NIL, Id::NIL);
        (s.answered, s.done, s.close, s.silent, s.started) = (false, false, false, false, false);
        (s.tunnel, s.heard) = (false, false);
        (s.bytes, s.since, s.backend, s.outcome, s.fault) = (0, now, NO_BACKEND, 0, 0);
        let c = &mut self.conns[conn];
        let last = std::mem::replace(&mut c.last, slot);
        c.count += 1;
        if last.is_nil() {
            c.first = slot;
        } else {
            self.slots[last].next = slot;
        }
        slot
    }

    /// Adds reply bytes to a slot: to the connection if the slot is first in order, else to the
    /// slot's store. Returns the connection and whether the slot is first.
    pub(super) fn append_reply(&mut self, slot: Id, bytes: Raw) -> (Id, bool) {
        let pieces = self.pieces_of(bytes);
        let s = &mut self.slots[slot];
        let conn = s.conn;
        let c = &mut self.conns[conn];
        let front = c.first == slot;
        s.bytes += bytes.n as u64;
        c.reply_max = c.reply_max.max(s.bytes.min(u64::from(u32::MAX)) as u32);
        if bytes.n == 0 {
            return (conn, front);
        }
        let queue = if front { &mut c.out } else { &mut s.stored };
        if front {
            s.started = true;
            if queue.is_empty() {
                c.last_tx = self.now;
            }
        }
        let fits = match pieces {
            Some(pieces) => {
                queue.join(&mut self.pool, pieces);
                true
            }
            // SAFETY: reply bytes are in place for the time of the call.
            None => queue.append(&mut self.pool, unsafe { bytes.slice() }),
        };
        if !fits || queue.len() > STORED_MAX + HIGH {
            self.doom(conn, WL_F_OVERLOAD);
        }
        if front {
            self.mark_dirty(conn);
        }
        (conn, front)
    }

    /// A slot has all its bytes.
    pub(super) fn slot_done(&mut self, slot: Id) {
        let Some(s) = self.slots.get_mut(slot) else { return };
        s.done = true;
        let conn = s.conn;
        if self.conns[conn].first == slot {
            self.advance(conn);
        }
    }

    /// Passes the turn: done slots leave, the next one's stored bytes go out.
    pub(super) fn advance(&mut self, conn: Id) {
        loop {
            let slot = self.conns[conn].first;
            if slot.is_nil() {
                break;
            }
            if !self.slots[slot].stored.is_empty() {
                self.give_turn(conn, slot);
            }
            if !self.slots[slot].done {
                break;
            }
            if self.pop_slot(conn, slot) {
                self.conns[conn].set(flag::CLOSING | flag::LAST);
                break;
            }
        }
        let c = &mut self.conns[conn];
        let ends = self.draining && self.now >= self.drain_idle_at;
        if c.count == 0 && c.mode != Mode::Tail && (ends || c.has(flag::EOF | flag::LAST)) {
            let ended = c.has(flag::EOF) && c.input.is_empty() && c.mode == Mode::Head && !c.has(flag::AGAIN);
            if ended || c.has(flag::LAST) && c.mode != Mode::Raw || ends && c.input.is_empty() && c.mode == Mode::Head {
                c.set(flag::CLOSING);
            }
        }
        if self.draining {
            // A client that is still sending must not be answered by a reset.
            c.set(flag::LINGER);
        }
        self.mark_dirty(conn);
        self.ended_before(conn);
        self.unstall(conn);
    }

    /// The slot is first in order now: its stored bytes go out.
    #[cold]
    fn give_turn(&mut self, conn: Id, slot: Id) {
        let s = &mut self.slots[slot];
        s.started = true;
        let mut stored = std::mem::take(&mut s.stored);
        let src = s.src;
        let now = self.now;
        let c = &mut self.conns[conn];
        if c.out.is_empty() && !c.has(flag::IN_FLIGHT) {
            c.last_tx = now;
            c.out = stored;
        } else if !move_queue(&mut self.pool, &mut stored, &mut c.out) {
            self.doom(conn, WL_F_OVERLOAD);
        }
        if let Some(s) = self.conns.get(src) {
            if s.has(flag::FLOW) && s.sink == Sink::Slot(slot) {
                self.pause_source(src, conn);
                if self.conns[conn].out.len() <= HIGH {
                    self.resume_source(conn);
                }
            }
        }
    }

    /// Returns whether the connection ends with it. (A task that outlives its slot has an id that
    /// names nothing.)
    fn pop_slot(&mut self, conn: Id, slot: Id) -> bool {
        self.count_answer(slot, 0);
        let s = &self.slots[slot];
        let (next, bytes, since, close) = (s.next, s.bytes, s.since, s.close);
        self.slots.free(slot);
        let c = &mut self.conns[conn];
        c.first = next;
        c.count -= 1;
        if next.is_nil() {
            c.last = Id::NIL;
        }
        let bytes = bytes.min(u64::from(u32::MAX)) as u32;
        c.reply_max = if bytes >= c.reply_max { bytes } else { c.reply_max - c.reply_max / 16 };
        let (a, p) = (c.app as usize, c.port as usize);
        let took = self.took(since);
        let st = &self.my_stats().apps[a];
        st.ports[p].replies.add(1);
        st.ports[p].latency.record(took);
        close
    }

    /// Refuses the message under way, with its kept bytes as the start.
    pub(super) fn kept_fault(&mut self, id: Id, kind: u32) {
        let kept = Raw::of(self.conns[id].input.as_slice());
        self.client_fault(id, kind, NO_PLACE, Start::of(kept));
    }

    /// The client's bytes are out of step with the grammar: earlier replies go out, then the
    /// protocol's complaint.
    pub(super) fn client_fault(&mut self, id: Id, kind: u32, place: u32, start: Start) {
        if self.conns[id].member != 0 {
            return self.member_bad(id, kind, place, start);
        }
        let begun = if self.conns[id].view.is_some() { self.conns[id].since } else { self.now };
        self.end_message(id);
        let c = &mut self.conns[id];
        c.set(flag::LAST | flag::LINGER);
        c.mode = Mode::Drain;
        let ended = c.has(flag::EOF);
        if kind == WL_F_TRUNCATED && ended && self.conns[id].count == 0 {
            self.count_fault_at(id, kind, place);
            self.conns[id].set(flag::CLOSING);
            self.mark_dirty(id);
            return;
        }
        let slot = self.push_slot(id);
        self.slots[slot].close = true;
        self.note_since(slot, begun);
        self.slot_fault(slot, kind, place, false, start);
    }

    /// All bytes of a client that has ended its direction are worked off.
    pub(super) fn client_eof(&mut self, id: Id) {
        if self.conns[id].member != 0 {
            return self.member_eof(id);
        }
        if self.gives_up(id) {
            self.count_fault_at(id, WL_F_CANCELLED, NO_PLACE);
            self.drop_slots(id);
            // It may still read the answers that are on their way.
            self.conns[id].set(flag::CLOSING | flag::LAST);
            return self.mark_dirty(id);
        }
        let c = &self.conns[id];
        if c.mode == Mode::Head && (!c.input.is_empty() || c.view.is_some()) && !c.has(flag::LAST) {
            self.kept_fault(id, WL_F_TRUNCATED);
            return;
        }
        if c.count == 0 {
            self.conns[id].set(flag::CLOSING);
            self.mark_dirty(id);
        }
    }

    /// Whether a client that has ended its direction while it waits is taken to have left. Its port
    /// says so, or that of a server which its next answer waits for.
    pub(super) fn gives_up(&self, id: Id) -> bool {
        let c = &self.conns[id];
        if c.side != Side::Client || c.member != 0 || c.count == 0 {
            return false;
        }
        let ports = &self.apps[c.app as usize].ports;
        let calls = || self.slots.get(c.first).and_then(|s| self.tasks.get(s.task)).into_iter().flat_map(|t| &t.calls);
        ports[c.port as usize].options.cancel
            || calls().filter_map(|k| self.calls.get(*k)).any(|k| ports[k.port as usize].options.cancel)
    }

    /// A client may have ended its direction before it came to wait for what it waits for now.
    pub(super) fn ended_before(&mut self, id: Id) {
        if self.conns.get(id).is_some_and(|c| c.has(flag::EOF) && !c.has(flag::DATAGRAM)) && self.gives_up(id) {
            self.mark_again(id);
        }
    }

    /// A client connection's slots and their tasks end without an answer.
    pub(super) fn drop_slots(&mut self, conn: Id) {
        let c = &mut self.conns[conn];
        let why = match u32::from(c.why) {
            // The client has left.
            0 | WL_F_ENDED | WL_F_LOST => WL_F_CANCELLED,
            why => why,
        };
        let mut slot = std::mem::replace(&mut c.first, Id::NIL);
        c.last = Id::NIL;
        c.count = 0;
        while !slot.is_nil() {
            self.count_answer(slot, why);
            let s = &mut self.slots[slot];
            let (next, task, src) = (s.next, s.task, s.src);
            s.stored.clear(&mut self.pool);
            self.slots.free(slot);
            if self.tasks.alive(task) {
                self.tasks[task].slot = Id::NIL;
                self.cancel_task(task);
            }
            self.abandon_source(src, slot);
            slot = next;
        }
        self.log_tunnel(conn);
    }

    /// The rest of an answer has no reader: a shared connection reads on, an exclusive one is
    /// closed.
    pub(super) fn abandon_source(&mut self, src: Id, slot: Id) {
        let Some(s) = self.conns.get_mut(src) else { return };
        if s.sink != Sink::Slot(slot) {
            return; // it has long been streaming to someone else
        }
        s.sink = Sink::Discard;
        let paused = s.has(flag::FLOW);
        self.leave_alone(src);
        if self.conns.alive(src) && self.can_close_alone(src) {
            self.close_conn(src, false);
        } else if paused {
            self.resume_reading(src);
        }
    }

    /// Whether a backend connection serves at most one call.
    pub(super) fn can_close_alone(&self, id: Id) -> bool {
        let c = &self.conns[id];
        let alone = c.has(flag::OWN) || self.apps[c.app as usize].protos[c.proto as usize].exclusive;
        c.side == Side::Backend && alone && !c.has(flag::PIPED)
    }
}

/// Moves all bytes of one queue behind another's.
pub(super) fn move_queue(pool: &mut crate::buffer::ChunkPool, from: &mut ChunkQueue, to: &mut ChunkQueue) -> bool {
    let mut fits = true;
    while !from.is_empty() {
        let mut slices = [std::io::IoSlice::new(&[]); crate::buffer::MAX_SLICES];
        let n = from.front(pool, &mut slices);
        let raws: Vec<Raw> = slices[..n].iter().map(|s| Raw::of(s)).collect();
        let total = raws.iter().map(|r| r.n).sum();
        for r in raws {
            // SAFETY: appending takes other chunks and moves none (see `ChunkQueue`).
            fits &= to.append(pool, unsafe { r.slice() });
        }
        from.consume(pool, total);
    }
    fits
}
