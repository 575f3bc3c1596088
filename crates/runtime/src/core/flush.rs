//! The end of a batch: one write per connection that has output, and the closing of connections.

use super::slab::Id;
use super::types::{flag, Mode, Side, Sink, CLIENT, NO_SOCKET};
use super::{Core, Raw, DRAIN_LINGER_NS, LINGER_NS, LOW};
use crate::abi::{wl_fault, WL_F_ENDED, WL_START};
use crate::buffer::MAX_SLICES;
use crate::engine::WriteResult;
use crate::stats::NO_PLACE;
use std::io::IoSlice;

/// A connection that takes more in one batch gets the rest in the next.
const AT_ONCE: usize = 1 << 20;
/// Bytes from which on a write of their own costs less than their copy.
const UNCOPIED_MIN: usize = 16 << 10;
/// A connection that takes no output, or whose output waits for something.
const NOT_NOW: u32 = flag::BLOCKED
    | flag::IN_FLIGHT
    | flag::CONNECTING
    | flag::UNSENT
    | flag::DATAGRAM
    | flag::CLOSING
    | flag::DOOMED
    | flag::SHUT
    | flag::SHUT_WANTED;

impl Core {
    pub(super) fn flush(&mut self) {
        // Connections that become dirty by a close are appended to the list and handled in the same
        // loop.
        let mut i = 0;
        while i < self.dirty.len() {
            let id = self.dirty[i];
            i += 1;
            if let Some(c) = self.conns.get_mut(id) {
                c.clear(flag::DIRTY);
                self.flush_conn(id);
            }
        }
        self.dirty.clear();
        self.dirty.append(&mut self.written_later);
    }

    /// Between the parts of a batch: writes to connections whose output seems complete for this
    /// batch. Shared connections and closing ones wait for the end of the batch.
    pub(super) fn flush_finished(&mut self) {
        let (mut kept, listed) = (0, self.dirty.len());
        for i in 0..listed {
            let id = self.dirty[i];
            if self.finished(id) {
                self.conns[id].clear(flag::DIRTY);
                self.flush_conn(id);
            } else {
                self.dirty[kept] = id;
                kept += 1;
            }
        }
        self.dirty.drain(kept..listed);
    }

    fn finished(&self, id: Id) -> bool {
        self.conns.get(id).is_some_and(|c| {
            let stays = !c.has(flag::DOOMED | flag::CLOSING | flag::SHUT_WANTED) && c.mode == Mode::Head;
            stays
                && match c.side {
                    Side::Client => c.count == 0 || c.member != 0,
                    Side::Backend => self.can_close_alone(id),
                }
        })
    }

    fn flush_conn(&mut self, id: Id) {
        let c = &self.conns[id];
        if c.has(flag::DOOMED) {
            match c.side {
                Side::Client => self.close_conn(id, true),
                Side::Backend => self.backend_lost(id),
            }
            return;
        }
        if !self.write_out(id) {
            return;
        }
        let c = &self.conns[id];
        if c.member != 0 {
            if c.out.len() < LOW && c.waited {
                self.member_drained(id);
            }
        } else if c.out.len() < LOW && (c.side == Side::Backend || c.has(flag::STALLED) || !c.paused_src.is_nil()) {
            self.drained(id);
        }
        let c = &self.conns[id];
        if c.out.is_empty() && !c.has(flag::CONNECTING) {
            if c.has(flag::SHUT_WANTED) && c.member != 0 && self.is_fed(id) {
                // The rest of a message is still to come.
            } else if c.has(flag::SHUT_WANTED) {
                self.shut_direction(id);
            } else if c.has(flag::CLOSING) {
                self.end_conn(id);
            }
        }
    }

    /// Writes as much as the engine takes. False if the connection is gone.
    #[inline]
    fn write_out(&mut self, id: Id) -> bool {
        let mut most = AT_ONCE;
        loop {
            let c = &self.conns[id];
            if c.has(flag::DATAGRAM) {
                return self.write_datagram(id);
            }
            if c.out.is_empty() || c.has(flag::BLOCKED | flag::IN_FLIGHT | flag::CONNECTING) {
                return true;
            }
            if most == 0 {
                self.conns[id].set(flag::DIRTY);
                self.written_later.push(id);
                return true;
            }
            if !self.still_idle(id) {
                return false;
            }
            let c = &mut self.conns[id];
            let mut many;
            let one = c.out.whole(&self.pool).map(|bytes| [IoSlice::new(bytes)]);
            let slices = match &one {
                Some(one) => &one[..],
                None => {
                    many = [IoSlice::new(&[]); MAX_SLICES];
                    let n = c.out.front(&self.pool, &mut many);
                    &many[..n]
                }
            };
            let offered: usize = slices.iter().map(|s| s.len()).sum();
            // The slices hold the whole queue, and `flush_conn` shuts the direction down or closes
            // right after.
            let last = c.has(flag::CLOSING) && !c.has(flag::SHUT_WANTED | flag::SHUT) && offered == c.out.len();
            // SAFETY: after `InFlight` the queue is only appended to until `Sent`, and appending
            // moves no bytes. The queue of a closed connection stays in the graveyard until the
            // engine releases it.
            let result = unsafe {
                match last {
                    true => self.engine.write_last(c.token, slices),
                    false => self.engine.write(c.token, slices),
                }
            };
            match result {
                WriteResult::Done(k) => {
                    self.written(id, k);
                    most = most.saturating_sub(k);
                    if k < offered {
                        self.blocked(id);
                        return true;
                    }
                }
                WriteResult::InFlight => {
                    c.set(flag::IN_FLIGHT);
                    self.arm_write(id);
                    return true;
                }
                WriteResult::Blocked => {
                    self.blocked(id);
                    return true;
                }
                WriteResult::Broken => {
                    self.broken(id);
                    return false;
                }
            }
        }
    }

    /// Gives a large piece of output to the engine without a copy, if nothing is before it. The
    /// bytes that are gone.
    pub(super) fn write_uncopied(&mut self, id: Id, bytes: Raw) -> usize {
        let c = &self.conns[id];
        if bytes.n < UNCOPIED_MIN || !c.out.is_empty() || c.has(NOT_NOW) || !self.engine.writes_at_once() {
            return 0;
        }
        // SAFETY: the caller's bytes are in place, and this engine keeps none.
        match unsafe { self.engine.write(c.token, &[IoSlice::new(bytes.slice())]) } {
            WriteResult::Done(k) => {
                self.has_left(id, k);
                if k < bytes.n {
                    self.blocked(id);
                }
                k
            }
            WriteResult::Blocked | WriteResult::InFlight => {
                self.blocked(id);
                0
            }
            // The next write, at the end of the batch, finds it so.
            WriteResult::Broken => 0,
        }
    }

    #[inline]
    fn written(&mut self, id: Id, n: usize) {
        self.conns[id].out.consume(&mut self.pool, n);
        self.has_left(id, n);
    }

    #[inline]
    fn has_left(&mut self, id: Id, n: usize) {
        let now = self.now;
        let c = &mut self.conns[id];
        c.last_tx = now;
        c.left = c.left.wrapping_add(n as u64);
        c.clear(flag::UNSENT);
        let (a, p) = (c.app as usize, c.port as usize);
        self.my_stats().apps[a].ports[p].bytes_out.add(n as u64);
    }

    #[cold]
    fn blocked(&mut self, id: Id) {
        self.conns[id].set(flag::BLOCKED);
        self.arm_write(id);
    }

    /// The engine has sent the bytes that it held.
    pub(super) fn sent(&mut self, id: Id, len: u32) {
        self.conns[id].clear(flag::IN_FLIGHT);
        self.written(id, len as usize);
        self.mark_dirty(id);
    }

    /// Output has fallen below the mark: the paused source goes on.
    fn drained(&mut self, id: Id) {
        if !self.conns[id].paused_src.is_nil() {
            self.resume_source(id);
        }
        match self.conns[id].side {
            Side::Client => self.unstall(id),
            Side::Backend => {
                let at = self.target_of(id);
                if self.apps[at.a].ports[at.p].backends[at.i].stalled.is_empty() {
                    return;
                }
                for client in std::mem::take(&mut self.apps[at.a].ports[at.p].backends[at.i].stalled) {
                    if let Some(c) = self.conns.get_mut(client) {
                        c.clear(flag::BEHIND);
                        self.unstall(client);
                    }
                }
            }
        }
    }

    /// Half-close of a tunnel, after the last byte.
    fn shut_direction(&mut self, id: Id) {
        let c = &mut self.conns[id];
        c.clear(flag::SHUT_WANTED);
        c.set(flag::SHUT);
        let (token, sink, eof, raw) = (c.token, c.sink, c.has(flag::EOF), c.mode == Mode::Raw);
        self.engine.shutdown(token);
        let (Sink::Conn(other), true) = (sink, raw) else { return };
        // Both directions have ended when both sides have seen the other's end and passed it on.
        if eof && self.conns.get(other).is_none_or(|o| o.has(flag::SHUT) && o.out.is_empty()) {
            self.close_conn(id, false);
        }
    }

    /// All output is gone and the connection is to end. It ends at once, or lingers if the peer is
    /// still sending. A close with unread input would reset the connection and destroy the answer.
    fn end_conn(&mut self, id: Id) {
        let c = &mut self.conns[id];
        let linger = c.side == Side::Client
            && !c.has(flag::EOF)
            && (c.has(flag::LINGER) || c.mode == Mode::Tail || !c.input.is_empty());
        if !linger {
            self.close_conn(id, false);
            return;
        }
        if c.has(flag::SHUT) {
            return;
        }
        c.set(flag::SHUT);
        c.mode = Mode::Drain;
        c.since = self.now;
        c.input.release(&mut self.pool);
        let (token, paused) = (c.token, c.has(flag::PAUSED));
        c.clear(flag::PAUSED | flag::STALLED | flag::FLOW);
        self.engine.shutdown(token);
        if paused {
            self.engine.pause(token, false);
        }
        self.drop_slots(id);
        let talks = self.conns[id].member != 0;
        if talks {
            self.stop_handler(id);
        }
        // For the program it has ended, whatever its peer does.
        match self.conns[id].has(flag::TURNED_AWAY) {
            true => {}
            false if talks => self.last_words(id),
            false => self.run_closed(id),
        }
        if self.conns.alive(id) {
            let span = if self.draining { DRAIN_LINGER_NS } else { LINGER_NS };
            self.arm(id, self.now.saturating_add(span));
        }
    }

    /// Whether a client's connection has ended for the program, and waits for its peer.
    pub(super) fn lingers(&self, id: Id) -> bool {
        let c = &self.conns[id];
        c.side == Side::Client && c.has(flag::SHUT) && c.mode == Mode::Drain
    }

    /// The engine reports a broken connection.
    pub(super) fn broken(&mut self, id: Id) {
        self.ends_by(id, crate::abi::WL_F_LOST);
        match (self.conns[id].side, self.conns[id].mode) {
            (Side::Backend, Mode::Raw) | (Side::Client, _) => self.close_conn(id, true),
            (Side::Backend, _) if self.conns[id].has(flag::CONNECTING) => self.connect_failed(id, false),
            (Side::Backend, _) if self.conns[id].has(flag::UNSENT) => self.spoilt(id, false),
            (Side::Backend, _) => self.backend_lost(id),
        }
    }

    /// Ends a connection, with its calls, tasks and streams.
    pub(super) fn close_conn(&mut self, id: Id, reset: bool) {
        let c = &self.conns[id];
        let (mode, sink, side) = (c.mode, c.sink, c.side);
        if mode == Mode::Raw {
            if let Sink::Conn(other) = sink {
                self.tunnel_closed(other, reset);
            }
        }
        if self.conns[id].member != 0 {
            return self.close_member(id, reset);
        }
        if side == Side::Backend {
            self.fail_backend_quietly(id, reset);
            return;
        }
        let (a, p) = (self.conns[id].app as usize, self.conns[id].port as usize);
        let (turned_away, told) = (self.turned_away(id), self.lingers(id));
        self.drop_slots(id);
        self.close_own(id);
        if !turned_away && !told {
            self.run_closed(id);
        }
        if self.conns.alive(id) {
            self.remove_conn(id, reset);
            self.place_free(a, p, turned_away);
        }
    }

    /// Why a connection ends, for the handlers of its end.
    pub(super) fn why(&self, id: Id) -> wl_fault {
        let kind = match self.conns[id].why {
            0 => WL_F_ENDED as u16,
            kind => kind,
        };
        wl_fault { kind, side: 0, place: NO_PLACE, port: 0, start_n: 0, ctx: 0, start: [0; WL_START] }
    }

    pub(super) fn run_closed(&mut self, id: Id) {
        let (a, p) = (self.conns[id].app as usize, self.conns[id].port as usize);
        if !self.apps[a].ports[p].closed.is_empty() {
            let why = self.why(id);
            for h in self.apps[a].ports[p].closed.clone() {
                self.run_event(a, h, id, Some(why));
            }
        }
    }

    /// Closes a backend connection that we do not need any more; calls on it are lost.
    fn fail_backend_quietly(&mut self, id: Id, reset: bool) {
        if self.conns[id].mode == Mode::Raw {
            self.conns[id].mode = Mode::Drain;
        }
        let kind = if reset { crate::abi::WL_F_CANCELLED } else { crate::abi::WL_F_LOST };
        self.conns[id].set(flag::ANSWERING); // no retry
        self.conns[id].clear(flag::PIPED);
        self.fail_backend(id, kind, kind);
    }

    pub(super) fn run_opened(&mut self, id: Id) {
        let (a, p) = (self.conns[id].app as usize, self.conns[id].port as usize);
        if !self.apps[a].ports[p].opened.is_empty() {
            let handlers = self.apps[a].ports[p].opened.clone();
            match self.conns[id].member {
                CLIENT => self.run_beginning((a, &handlers), id, id, false),
                _ => handlers.iter().for_each(|h| self.run_event(a, *h, id, None)),
            }
        }
    }

    /// Takes a connection out of the books and closes it.
    pub(super) fn remove_conn(&mut self, id: Id, reset: bool) {
        let c = &mut self.conns[id];
        let (token, side, a, p, i) = (c.token, c.side, c.app as usize, c.port as usize, c.endpoint() as usize);
        self.wheel.cancel(c.timer);
        self.leave_conversation(id);
        self.keep_for_waiting(id);
        // The source that was paused for this connection goes on; its bytes are dropped now.
        self.resume_source(id);
        let c = &mut self.conns[id];
        if token != NO_SOCKET {
            self.engine.close(token, reset);
        }
        if c.has(flag::IN_FLIGHT) && self.engine.pending_close(token) {
            self.graveyard.push((token, std::mem::take(&mut c.out)));
        } else {
            c.out.clear(&mut self.pool);
        }
        c.input.release(&mut self.pool);
        if c.held.is_some() {
            self.let_go(id);
        }
        self.end_pieces(id);
        let c = &mut self.conns[id];
        let (view, session, client) = (c.view.take(), c.session.take(), c.client);
        c.token = crate::engine::Token(u64::MAX);
        self.free_entry(id);
        let app = &mut self.apps[a];
        app.views.give(view);
        app.ports[p].open -= 1;
        if let Some(s) = session {
            if app.sessions.len() < 1024 {
                app.sessions.push(s);
            }
        }
        self.my_stats().apps[a].ports[p].open.sub(1);
        if let Some(c) = self.conns.get_mut(client) {
            c.own.retain(|x| *x != id);
        }
        if side == Side::Backend && token != NO_SOCKET {
            let b = &mut self.apps[a].ports[p].backends[i];
            b.open -= 1;
            b.idle.retain(|x| *x != id);
            b.piped.retain(|x| *x != id);
            for s in &mut b.shared {
                if *s == id {
                    *s = Id::NIL;
                }
            }
            let stalled = std::mem::take(&mut b.stalled);
            self.my_stats().apps[a].ports[p].backends[i].connections.sub(1);
            for client in stalled {
                if let Some(c) = self.conns.get_mut(client) {
                    c.clear(flag::BEHIND);
                    self.unstall(client);
                }
            }
        }
    }

    /// Frees output of closed connections once the engine has let go of it.
    pub(super) fn bury(&mut self) {
        let mut i = 0;
        while i < self.graveyard.len() {
            if self.engine.pending_close(self.graveyard[i].0) {
                i += 1;
                continue;
            }
            let (_, mut queue) = self.graveyard.swap_remove(i);
            queue.clear(&mut self.pool);
        }
    }
}
