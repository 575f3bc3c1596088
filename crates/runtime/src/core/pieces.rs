//! Handlers of the pieces of a message's streamed bytes (`on client.body`).
//!
//! In: the bytes of a message behind its head, on a port whose messages have such a handler. The
//! handler runs for each run of streamed bytes as it arrives, before it is passed on. Out: the
//! bytes that the handler lets pass. It may give others in their place, let the rest fall, answer
//! the request, or end in a fault. Backpressure is that of all streams: the source is not read
//! while its destination is full.

use super::body_pieces::UnitTail;
use super::conversation::UPSTREAM;
use super::input::TailProgress;
use super::piece_state::{PieceHandler, Reading, Said};
use super::slab::Id;
use super::types::{flag, Mode, Side, Sink};
use super::{Core, Raw};
use crate::abi::*;
use crate::buffer::OwnedBuf;
use crate::program::{Unit, Verdict};
use crate::splitter::{End, Splitter};
use crate::stats::NO_PLACE;
use wireloom_ir::Protocol;

/// The last chunk, and no trailer fields (RFC 9112 section 7.1).
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
const CHUNK_END: &[u8] = b"\r\n";

impl Core {
    pub(super) fn piece_handler(&self, id: Id) -> Option<PieceHandler> {
        let c = &self.conns[id];
        let app = &self.apps[c.app as usize];
        let all = match c.member.checked_sub(UPSTREAM) {
            Some(n) => &app.upstreams[usize::from(n)].pieces,
            None => &app.ports[c.port as usize].pieces,
        };
        *all.get(c.alt as usize)?
    }

    /// A head has been found, whose tail has a handler.
    pub(super) fn begin_pieces(&mut self, id: Id, how: PieceHandler, head: Raw) {
        let mut kept = OwnedBuf::new();
        // SAFETY: the caller's bytes are in place.
        if !kept.append(&mut self.pool, unsafe { head.slice() }) {
            self.doom(id, WL_F_OVERLOAD);
        }
        let c = &mut self.conns[id];
        // SAFETY: the view lives in the connection until `end_message`.
        let view = c.view.as_mut().map(|v| unsafe { &mut *v.as_mut_ptr().cast::<wl_parser>() });
        let flags = view.map_or(0, |v| {
            v.flags |= if how.stream > 0 { WL_M_ITEMS } else { 0 };
            v.flags
        });
        c.reading = Some(Box::new(Reading {
            how,
            split: Splitter::default(),
            head: kept,
            item: OwnedBuf::new(),
            chunks: how.changes && how.stream == 0 && flags & WL_M_CHUNKS != 0,
            falls: false,
            turn_over: false,
        }));
    }

    #[inline]
    pub(super) fn end_pieces(&mut self, id: Id) {
        if let Some(mut r) = self.conns[id].reading.take() {
            r.head.release(&mut self.pool);
            r.item.release(&mut self.pool);
        }
    }

    /// Whether the bytes of a tail go to a handler.
    pub(super) fn reads_pieces(&self, id: Id) -> bool {
        let c = &self.conns[id];
        c.reading.is_some() && !matches!(c.sink, Sink::Discard | Sink::Undecided)
    }

    /// Gives the streamed bytes to their handler, and passes on what it lets pass. None: the
    /// message has ended by that.
    pub(super) fn read_pieces(&mut self, id: Id, unit: Unit, rest: Raw, eof: bool) -> Option<TailProgress> {
        let c = &mut self.conns[id];
        let stream = c.reading.as_ref().map_or(0, |r| r.how.stream);
        if stream > 0 {
            return self.read_items(id, unit, rest, eof);
        }
        let view: *mut wl_parser = c.view.as_mut()?.as_mut_ptr().cast();
        let mut tail = UnitTail { unit, view };
        let mut off = 0;
        loop {
            let reading = self.conns.get_mut(id)?.reading.as_mut()?;
            let chunks = reading.chunks;
            // SAFETY: the caller's bytes are in place.
            let run = reading.split.next(&mut tail, unsafe { &rest.slice()[off..] }, eof);
            let bytes = Raw { n: run.used, ..rest.from(off) };
            off += run.used;
            if run.streamed {
                self.each_piece(id, bytes)?;
            } else if bytes.n > 0 && !run.omitted && !chunks {
                self.forward(id, bytes);
            }
            let verdict = match run.end {
                None => continue,
                Some(End::Whole) => Verdict::Whole,
                Some(End::Bad) => Verdict::Bad,
                Some(End::More) => Verdict::More,
            };
            if verdict == Verdict::Whole && chunks {
                self.forward(id, Raw::of(LAST_CHUNK));
            }
            return Some(TailProgress { verdict, used: off, omitted: true });
        }
    }

    fn each_piece(&mut self, id: Id, bytes: Raw) -> Option<()> {
        let mut off = 0;
        while off < bytes.n {
            let n = (bytes.n - off).min(Protocol::PIECE_MAX as usize);
            self.piece(id, Raw { n, ..bytes.from(off) })?;
            off += n;
        }
        Some(())
    }

    /// Runs the handler for a piece. None: the message has ended.
    pub(super) fn piece(&mut self, id: Id, bytes: Raw) -> Option<()> {
        if self.conns.get(id)?.reading.as_ref()?.falls {
            return Some(());
        }
        let Some(client) = self.client_of_pieces(id) else {
            self.conns[id].sink = Sink::Discard;
            return Some(());
        };
        let (kind, place) = self.run_piece(id, client, bytes);
        if kind != WL_F_NONE {
            self.piece_fault(id, kind, place);
            return None;
        }
        match std::mem::take(&mut self.at_hand.said) {
            Said::Nothing => self.pass_piece(id, bytes),
            Said::Answered => {
                self.answered_from_piece(id);
                return None;
            }
            // Only this item falls.
            Said::Falls if self.is_item(id) => {}
            Said::Falls => {
                if !self.may_differ(id) {
                    self.piece_fault(id, WL_F_CONSTRAINT, NO_PLACE);
                    return None;
                }
                self.conns[id].reading.as_mut()?.falls = true;
            }
            Said::Changed => {
                let changed = std::mem::take(&mut self.at_hand.bytes);
                let fits = changed.len() == bytes.n || self.may_differ(id);
                if fits {
                    self.pass_piece(id, Raw::of(&changed));
                }
                self.at_hand.bytes = changed;
                if !fits {
                    // Its length has gone out, and there is no other way to tell it.
                    self.piece_fault(id, WL_F_CONSTRAINT, NO_PLACE);
                    return None;
                }
            }
        }
        Some(())
    }

    /// The connection of the client whose message, or whose answer, this is.
    fn client_of_pieces(&self, id: Id) -> Option<Id> {
        let c = &self.conns[id];
        match (c.side, c.sink) {
            (Side::Client, _) => Some(id),
            (Side::Backend, _) if c.member != 0 => self.conns.alive(c.client).then_some(c.client),
            (Side::Backend, Sink::Slot(slot)) => self.slots.get(slot).map(|s| s.conn).filter(|c| self.conns.alive(*c)),
            (Side::Backend, _) => None,
        }
    }

    /// The fault of the handler, and its place.
    fn run_piece(&mut self, id: Id, client: Id, bytes: Raw) -> (u32, u32) {
        let c = &mut self.conns[id];
        let a = c.app as usize;
        let (Some(reading), Some(view)) = (c.reading.as_ref(), c.view.as_mut()) else { return (WL_F_NONE, NO_PLACE) };
        let head = reading.head.as_slice();
        let msg = wl_msg {
            view: view.as_mut_ptr().cast(),
            base: head.as_ptr(),
            head: head.len() as u32,
            status: WL_S_OK,
            body: wl_bytes { p: bytes.p, n: bytes.n as u32, ..wl_bytes::EMPTY },
            ..wl_msg::default()
        };
        let handler = reading.how.handler;
        let task = self.new_task(a, handler, client, Id::NIL);
        self.tasks[task].c.req = msg;
        // Its messages to a full output of a conversation hold up those of its own side.
        self.tasks[task].src = if self.conns[id].member != 0 { id } else { Id::NIL };
        (self.at_hand.task, self.at_hand.said) = (task, Said::Nothing);
        let result = self.run_once(task);
        self.at_hand.task = Id::NIL;
        let t = &self.tasks[task].c;
        let told = match (result, t.fault) {
            (WL_T_DONE, _) => (WL_F_NONE, NO_PLACE),
            (_, 0) => (WL_F_CONSTRAINT, t.place),
            (_, kind) => (u32::from(kind), t.place),
        };
        self.end_task(task);
        told
    }

    /// Passes on a piece, as a chunk where its message is framed anew.
    fn pass_piece(&mut self, id: Id, bytes: Raw) {
        let chunks = self.conns[id].reading.as_ref().is_some_and(|r| r.chunks);
        if !chunks {
            return self.forward(id, bytes);
        }
        // A chunk without bytes would be the last one.
        if bytes.n == 0 {
            return;
        }
        let (size, n) = chunk_size(bytes.n as u32);
        self.forward(id, Raw::of(&size[..n]));
        self.forward(id, bytes);
        self.forward(id, Raw::of(CHUNK_END));
    }

    /// Whether a message may have another length than it came with.
    fn may_differ(&self, id: Id) -> bool {
        let c = &self.conns[id];
        let chunks = c.reading.as_ref().is_some_and(|r| r.chunks);
        // SAFETY: the view lives in the connection until `end_message`.
        let flags = c.view.as_ref().map_or(0, |v| unsafe { (*v.as_ptr().cast::<wl_parser>()).flags });
        self.is_item(id) || chunks || flags & (WL_M_UNTIL_EOF | WL_M_ENDS) != 0 || matches!(c.sink, Sink::Read(_))
    }

    /// The handler of a piece has ended in a fault.
    pub(super) fn piece_fault(&mut self, id: Id, kind: u32, place: u32) {
        if self.conns[id].member != 0 {
            return self.cut_message(id, kind, place);
        }
        if self.conns[id].side == Side::Client {
            let owner = self.stop_request(id);
            if self.tasks.alive(owner) {
                self.handler_fault(owner, kind, place);
            } else {
                self.count_fault_at(id, kind, place);
            }
            return self.close_if_answered(id);
        }
        self.count_fault_at(id, kind, place);
        let Sink::Slot(slot) = self.conns[id].sink else { return };
        self.truncated(slot, kind);
        self.abandon_source(id, slot);
    }

    /// The handler of a piece has answered the request: nobody reads the rest, and the connection
    /// ends with the answer.
    fn answered_from_piece(&mut self, id: Id) {
        let a = self.conns[id].app as usize;
        let owner = self.stop_request(id);
        let slot = self.tasks.get(owner).map_or(Id::NIL, |t| t.slot);
        let open = self.slots.get(slot).is_some_and(|s| !s.answered);
        if open {
            let s = &mut self.slots[slot];
            // The answer is the program's own.
            (s.answered, s.close, s.heard) = (true, true, false);
            self.take_outcome(a, slot);
            let answer = std::mem::take(&mut self.at_hand.bytes);
            if !self.slots[slot].silent {
                self.append_reply(slot, Raw::of(&answer));
            }
            self.at_hand.bytes = answer;
        }
        if self.tasks.get(owner).is_some_and(|t| t.suspended) {
            self.cancel_task(owner);
        } else if self.tasks.alive(owner) {
            self.end_task(owner);
        }
        if open {
            self.slot_done(slot);
        } else if self.conns.alive(id) {
            // An answer has begun: it cannot be told from a whole one but by a reset.
            self.doom(id, WL_F_CANCELLED);
        }
        self.close_if_answered(id);
    }

    // ---- host functions ----

    /// These bytes go on in the place of the piece at hand, or nothing more does.
    pub(super) fn host_piece(&mut self, task: Id, bytes: Raw, falls: bool) {
        if !self.at_hand.is_of(task) || self.at_hand.said == Said::Answered {
            return;
        }
        self.at_hand.said = if falls { Said::Falls } else { Said::Changed };
        self.at_hand.bytes.clear();
        // SAFETY: the program's bytes are valid during the call.
        self.at_hand.bytes.extend_from_slice(unsafe { bytes.slice() });
    }

    pub(super) fn answer_from_piece(&mut self, head: wl_bytes) {
        if self.at_hand.said == Said::Answered {
            return;
        }
        self.at_hand.said = Said::Answered;
        self.at_hand.bytes.clear();
        // SAFETY: the program's bytes are valid during the call.
        self.at_hand.bytes.extend_from_slice(unsafe { head.as_slice() });
    }

    /// A part that is answered when the rest of the request has come.
    pub(super) fn host_wait_body(&mut self, id: Id, flags: u32) {
        let part = self.new_part(id, flags);
        let t = &mut self.tasks[id];
        let (src, more) = (t.src, t.req_more);
        // It is read now, and cannot be passed on.
        t.req_streamed = true;
        let waits = self.conns.get(src).is_some_and(|c| {
            let reads = c.side == Side::Client || c.member != 0;
            more && c.mode == Mode::Tail && c.owner == id && c.sink == Sink::Undecided && reads
        });
        if !waits {
            return self.complete_part(id, part, WL_S_OK, None);
        }
        let c = &mut self.conns[src];
        c.sink = Sink::Read(part);
        let view = c.view.as_mut().map_or(std::ptr::null_mut(), |v| v.as_mut_ptr().cast());
        if !c.input.is_empty() || c.has(flag::EOF) {
            self.mark_again(src);
        }
        if self.conns[src].member == 0 {
            self.tell_to_send(src, view);
        }
    }

    /// A client that waits for it is told to send the rest of its request (RFC 9110 section
    /// 10.1.1). It is not if answers to earlier requests are due.
    pub(super) fn tell_to_send(&mut self, id: Id, view: *const wl_parser) {
        // SAFETY: the view of the caller's message is live.
        if view.is_null() || unsafe { (*view).flags } & WL_M_EXPECTS == 0 || self.conns[id].has(flag::EOF) {
            return;
        }
        let c = &self.conns[id];
        let due = if self.tasks.alive(c.owner) && c.mode == Mode::Tail { 1 } else { 0 };
        if c.count > due {
            return;
        }
        let app = self.apps[c.app as usize].app.clone();
        let text = &app.desc.protocols[c.proto as usize].expects;
        if self.append_out(id, Raw::of(text), Raw::of(&[])).is_err() {
            self.doom(id, WL_F_OVERLOAD);
        }
    }
}

/// The line in front of a chunk, and its length.
fn chunk_size(n: u32) -> ([u8; 10], usize) {
    let digits = (35 - (n | 1).leading_zeros() as usize) / 4;
    let mut line = [0; 10];
    for (i, d) in line[..digits].iter_mut().enumerate() {
        *d = b"0123456789abcdef"[(n >> (4 * (digits - 1 - i))) as usize & 15];
    }
    line[digits..digits + 2].copy_from_slice(CHUNK_END);
    (line, digits + 2)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_chunks_size_is_hexadecimal() {
        for n in [1u32, 15, 16, 255, 256, 4095, 4096, 65_535, 65_536, u32::MAX] {
            let (line, len) = super::chunk_size(n);
            assert_eq!(&line[..len], format!("{n:x}\r\n").as_bytes());
        }
    }
}
