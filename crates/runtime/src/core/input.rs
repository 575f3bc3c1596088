//! From bytes to messages: parsing in the engine's buffer, and keeping incomplete messages.

use super::body_pieces::HeadFound;
use super::slab::Id;
use super::types::{flag, Mode, Side, Sink};
use super::views::{MessageView, PARSER_WORDS};
use super::{Core, Raw, INPUT_HIGH, SLICE_MESSAGES};
use crate::abi::*;
use crate::buffer::OwnedBuf;
use crate::program::{Unit, Verdict};

/// A message that was found at the front of some bytes.
#[derive(Clone, Copy)]
pub(super) struct FoundMessage {
    pub view: *mut wl_parser,
    pub head: usize,
    /// Head and the part of the tail that is there.
    pub have: usize,
    pub whole: bool,
    /// Its streamed bytes, if they are held.
    pub body: Option<Raw>,
    /// The message as it is passed on, if not all of it is.
    pub passed: Option<Raw>,
    /// As of [`wl_msg`].
    pub unit: u32,
}

impl FoundMessage {
    /// One whose body is not held; `have`: its bytes here.
    pub fn new(view: *mut wl_parser, head: usize, have: usize, whole: bool) -> FoundMessage {
        FoundMessage { view, head, have, whole, body: None, passed: None, unit: 0 }
    }

    /// Its bytes as the program has them.
    pub fn length(&self) -> u32 {
        self.passed.map_or(self.have, |p| p.n) as u32
    }

    /// As the program sees it, at its first byte.
    pub fn seen(&self, base: *const u8) -> wl_msg {
        let base = self.passed.map_or(base, |p| p.p);
        let (body, whole) = match self.body {
            Some(b) => (wl_bytes { p: b.p, n: b.n as u32, _pad: 0 }, self.length()),
            None => (wl_bytes::EMPTY, 0),
        };
        wl_msg { view: self.view, base, head: self.head as u32, status: WL_S_OK, body, whole, unit: self.unit }
    }
}

/// The kept bytes of a connection while they are worked through. A large message that must stay
/// takes the memory with it, instead of being copied.
#[derive(Default)]
pub(super) struct Lent {
    bytes: OwnedBuf,
    /// Bytes that have left with a message, and those before them.
    gone: usize,
}

pub(super) enum Parsed {
    More,
    Bad { kind: u32, place: u32 },
    Message(FoundMessage),
}

/// Answers of shared connections below this many bytes are passed on only when they are complete.
const SHORT: usize = 16 << 10;
/// Requests of pipelined protocols below this many bytes are handled when they are complete; larger
/// ones while they arrive.
const LARGE: usize = 64 << 10;
/// Messages from so many bytes on are not copied to stay.
const LENT_MIN: usize = 256 << 10;

impl Core {
    /// Bytes arrived.
    pub(super) fn data(&mut self, id: Id, raw: Raw) {
        let now = self.now;
        let c = &mut self.conns[id];
        if c.has(flag::DATAGRAM) {
            return self.datagram(id, raw);
        }
        c.last_rx = now;
        if c.side == Side::Client {
            self.pace.input(&mut c.window);
        }
        let (a, p) = (c.app as usize, c.port as usize);
        let ignore = c.has(flag::DOOMED | flag::CLOSING) || c.mode == Mode::Drain;
        let buffered = !c.input.is_empty() || c.has(flag::STALLED | flag::AGAIN);
        let late = !buffered && self.must_wait(id);
        self.my_stats().apps[a].ports[p].bytes_in.add(raw.n as u64);
        if ignore {
            return;
        }
        if self.conns[id].has(flag::UNSENT) {
            return self.spoilt(id, true);
        }
        if late {
            self.mark_again(id);
        }
        if buffered || late {
            if self.keep(id, raw) && !self.conns[id].has(flag::AGAIN) {
                self.process_buffered(id);
            }
            return;
        }
        let used = self.process(id, raw);
        if used < raw.n && self.conns.alive(id) {
            self.keep(id, raw.from(used));
        }
    }

    /// Keeps bytes for later; pauses a connection that cannot be parsed now. False if the
    /// connection was given up.
    pub(super) fn keep(&mut self, id: Id, raw: Raw) -> bool {
        let c = &mut self.conns[id];
        // SAFETY: the caller's bytes are still in place.
        if !c.input.append(&mut self.pool, unsafe { raw.slice() }) {
            self.too_much(id);
            return false;
        }
        self.pause_if_waiting(id);
        true
    }

    fn pause_if_waiting(&mut self, id: Id) {
        let c = &mut self.conns[id];
        let waiting = c.has(flag::STALLED | flag::AGAIN) || (c.mode == Mode::Tail && c.sink == Sink::Undecided);
        if waiting && c.input.len() > INPUT_HIGH && !c.has(flag::PAUSED) {
            c.set(flag::PAUSED);
            let token = c.token;
            self.engine.pause(token, true);
        }
    }

    /// A message does not fit into memory.
    fn too_much(&mut self, id: Id) {
        match self.conns[id].side {
            Side::Client => self.kept_fault(id, WL_F_OVERLOAD),
            Side::Backend => self.backend_bad(id, WL_F_OVERLOAD, crate::stats::NO_PLACE),
        }
    }

    /// Parses the kept bytes.
    pub(super) fn process_buffered(&mut self, id: Id) {
        let bytes = std::mem::take(&mut self.conns[id].input);
        let raw = Raw::of(bytes.as_slice());
        let outer = std::mem::replace(&mut self.lent, Lent { bytes, gone: 0 });
        let used = self.process(id, raw);
        let Lent { bytes: mut buf, gone } = std::mem::replace(&mut self.lent, outer);
        buf.consume(used - gone);
        if buf.is_empty() {
            buf.release(&mut self.pool);
        }
        let Some(c) = self.conns.get_mut(id) else {
            buf.release(&mut self.pool);
            return;
        };
        c.input = buf;
        self.pause_if_waiting(id);
        self.unpause(id);
        if self.conns[id].has(flag::EOF) {
            self.at_eof(id);
        }
    }

    /// The memory of a large message among the bytes that are worked through, from its first byte
    /// on. The bytes behind it are looked at in the connection's next turn.
    pub(super) fn take_lent(&mut self, message: *const u8, bytes: u32) -> Option<OwnedBuf> {
        let (all, n) = (self.lent.bytes.as_slice(), bytes as usize);
        let from = (message as usize).checked_sub(all.as_ptr() as usize)?;
        let to = from.checked_add(n)?;
        // The bytes behind it are copied: they must be the fewer.
        if n < LENT_MIN || self.lent.gone > 0 || to > all.len() || all.len() - to > n / 2 {
            return None;
        }
        let taken = self.lent.bytes.take(&mut self.pool, from, to)?;
        self.lent.gone = to;
        Some(taken)
    }

    /// Resumes reading if nothing speaks against it any more.
    pub(super) fn unpause(&mut self, id: Id) {
        let c = &mut self.conns[id];
        let waiting =
            c.has(flag::STALLED | flag::AGAIN | flag::FLOW) || (c.mode == Mode::Tail && c.sink == Sink::Undecided);
        if c.has(flag::PAUSED) && (!waiting || (!c.has(flag::FLOW) && c.input.len() <= INPUT_HIGH / 2)) {
            c.clear(flag::PAUSED);
            let (token, now) = (c.token, self.now);
            c.last_rx = now;
            self.engine.pause(token, false);
        }
    }

    /// Works through bytes; answers how many are done with.
    fn process(&mut self, id: Id, raw: Raw) -> usize {
        let used = self.process_turn(id, raw);
        self.account(id);
        used
    }

    fn process_turn(&mut self, id: Id, raw: Raw) -> usize {
        let (mut off, mut budget) = (0, SLICE_MESSAGES);
        loop {
            let Some(c) = self.conns.get(id) else { return raw.n };
            if c.has(flag::DOOMED | flag::CLOSING) {
                return raw.n;
            }
            if !c.paused.is_nil() {
                return off;
            }
            let rest = raw.from(off);
            let done = match c.mode {
                Mode::Drain => return raw.n,
                Mode::Raw => {
                    self.forward(id, rest);
                    return raw.n;
                }
                Mode::Tail if rest.n == 0 && !c.has(flag::EOF) => None,
                Mode::Tail => self.pump(id, rest),
                Mode::Head if rest.n == 0 => {
                    if c.has(flag::RELEASE) {
                        self.release(id);
                    }
                    None
                }
                // Answers to requests that were sent elsewhere, or nonsense: it is closed.
                Mode::Head if c.has(flag::RELEASE) && c.has(flag::NO_REUSE) => {
                    self.release(id);
                    return raw.n;
                }
                Mode::Head
                    if budget == 0 || budget < SLICE_MESSAGES && self.slice_over(id, SLICE_MESSAGES - budget) =>
                {
                    self.mark_again(id);
                    None
                }
                Mode::Head => {
                    budget -= 1;
                    match c.side {
                        Side::Client => self.client_input(id, rest),
                        Side::Backend => self.backend_input(id, rest),
                    }
                }
            };
            match done {
                Some(n) => off += n,
                None => return off,
            }
            if self.lent.gone > 0 {
                // The message has left with its memory.
                if self.conns.alive(id) {
                    self.mark_again(id)
                }
                return off;
            }
        }
    }

    /// Looks for a message at the front of `rest`. `hold`: only whole messages are of use.
    pub(super) fn parse(&mut self, id: Id, unit: Unit, ctx: u64, rest: Raw, hold: bool) -> Parsed {
        match self.parse_front(id, unit, ctx, rest, hold) {
            Parsed::Message(m) => Parsed::Message(FoundMessage { unit: unit.index() as u32 + 1, ..m }),
            other @ (Parsed::More | Parsed::Bad { .. }) => other,
        }
    }

    #[inline]
    fn parse_front(&mut self, id: Id, unit: Unit, ctx: u64, rest: Raw, hold: bool) -> Parsed {
        let hold = hold && unit.whole_max > 0;
        let c = &mut self.conns[id];
        let eof = c.has(flag::EOF | flag::DATAGRAM);
        let a = c.app as usize;
        let n = rest.n.min(u32::MAX as usize) as u32;
        let saved = c.view.is_some();
        let view: *mut wl_parser = match &mut c.view {
            Some(v) => v.as_mut_ptr(),
            None => {
                // The parser sets up the rest of its view itself.
                let scratch = &mut self.apps[a].scratch;
                scratch[..PARSER_WORDS].fill(0);
                scratch.as_mut_ptr().cast()
            }
        };
        if !saved {
            // SAFETY: views are at least as large as the parser's state and aligned to 8.
            unsafe { (*view).ctx = ctx };
        }
        let mut tail_used = c.tail_used as usize;
        if !c.has(flag::HEAD_DONE) {
            // SAFETY: view as above; `rest` is in place.
            match unsafe { unit.parse(view, rest.p, n, eof) } {
                Verdict::More if rest.n > unit.head_max => {
                    return Parsed::Bad { kind: WL_F_TOO_LONG, place: unsafe { (*view).place } }
                }
                Verdict::More => {
                    self.save_view(id, unit, saved);
                    return Parsed::More;
                }
                Verdict::Bad => return bad(view),
                verdict => {
                    // SAFETY: the parser has set `head`.
                    let head = unsafe { (*view).head } as usize;
                    // SAFETY: as above.
                    let in_step = unsafe { (*view).flags } & WL_M_IN_STEP != 0;
                    // A message may begin with its tail, but no whole message is empty.
                    if head == 0 && !in_step && verdict == Verdict::Whole || head > rest.n {
                        return Parsed::Bad { kind: WL_F_MALFORMED, place: crate::stats::NO_PLACE };
                    }
                    if verdict == Verdict::Whole {
                        let body = self.body_limit(id, unit).map(|_| rest.from(head).none());
                        return Parsed::Message(FoundMessage { body, ..FoundMessage::new(view, head, head, true) });
                    }
                    tail_used = 0;
                }
            }
        }
        // SAFETY: as above.
        let head = unsafe { (*view).head } as usize;
        // SAFETY: as above.
        let in_step = unsafe { (*view).flags } & WL_M_IN_STEP != 0;
        if let Some(how) = self.piece_handler(id).filter(|_| !in_step) {
            let view = self.save_view(id, unit, saved);
            self.begin_pieces(id, how, Raw { n: head, ..rest });
            return Parsed::Message(FoundMessage::new(view, head, head, false));
        }
        if let Some(limit) = self.body_limit(id, unit).filter(|_| !in_step) {
            return self.parse_held(id, unit, HeadFound { view, saved, head, tail_used, eof }, rest, limit);
        }
        let TailProgress { verdict, used, .. } = run_tail(unit, view, rest.from(head + tail_used), eof, true);
        let have = head + tail_used + used;
        match verdict {
            // A fault the grammar recovers from: its end has been reached, the next message
            // follows. SAFETY: as above.
            Verdict::Bad if have > 0 && unsafe { (*view).flags } & WL_M_IN_STEP != 0 => {
                Parsed::Message(FoundMessage::new(view, head, have, true))
            }
            Verdict::Bad => bad(view),
            Verdict::Whole if have == 0 => Parsed::Bad { kind: WL_F_MALFORMED, place: crate::stats::NO_PLACE },
            Verdict::Whole => Parsed::Message(FoundMessage::new(view, head, have, true)),
            _ => {
                let view = self.save_view(id, unit, saved);
                // SAFETY: as above.
                let in_step = unsafe { (*view).flags } & WL_M_IN_STEP != 0;
                let client = self.conns[id].side == Side::Client;
                // SAFETY: as above.
                let known = if client { 0 } else { unsafe { (*view).left } };
                let too_long = hold && !in_step && known.saturating_add(have as u64) > unit.whole_max as u64;
                if too_long && client {
                    return Parsed::Bad { kind: WL_F_TOO_LONG, place: crate::stats::NO_PLACE };
                }
                // A short answer on a shared connection is awaited whole. If its server is lost in
                // the middle, the client gets an error instead of a cut answer.
                let c = &self.conns[id];
                // SAFETY: as above.
                let endless = unsafe { (*view).flags } & WL_M_UNTIL_EOF != 0;
                let near = known > 0 && known.saturating_add(have as u64) <= SHORT as u64;
                let short = (unit.whole_max > 0 || c.has(flag::PIPED) || near)
                    && !endless
                    && !omits(view)
                    && have < SHORT
                    && c.side == Side::Backend
                    && !c.has(flag::EOF)
                    && !self.can_close_alone(id);
                let small = c.side == Side::Client
                    && !endless
                    && !omits(view)
                    && have < LARGE
                    && !c.has(flag::EOF)
                    && !self.apps[a].protos[c.proto as usize].exclusive;
                // An answer that cannot be held is skipped: where it ends the grammar knows.
                if !hold && !short && !small || in_step || too_long {
                    let c = &mut self.conns[id];
                    c.clear(flag::HEAD_DONE);
                    c.tail_used = 0;
                    return Parsed::Message(FoundMessage::new(view, head, have, false));
                }
                let c = &mut self.conns[id];
                c.set(flag::HEAD_DONE);
                c.tail_used = (tail_used + used) as u32;
                Parsed::More
            }
        }
    }

    /// Moves the parser's state from the scratch to the connection; the message's clock starts.
    pub(super) fn save_view(&mut self, id: Id, unit: Unit, saved: bool) -> *mut wl_parser {
        if !saved {
            let now = self.now;
            let a = self.conns[id].app as usize;
            let app = &mut self.apps[a];
            // SAFETY: the unit has parsed in the scratch just now.
            let view = unsafe { app.views.copy(unit, app.scratch.as_ptr().cast()) };
            let c = &mut self.conns[id];
            c.view = Some(view);
            c.since = now;
            self.arm_message(id);
        }
        self.conns[id].view.as_mut().map_or(std::ptr::null_mut(), MessageView::as_mut_ptr)
    }

    /// The message under way is over: its parser state goes back.
    #[inline]
    pub(super) fn end_message(&mut self, id: Id) {
        let c = &mut self.conns[id];
        c.clear(flag::HEAD_DONE);
        c.tail_used = 0;
        c.moved = false;
        if c.held.is_some() {
            self.let_go(id);
        }
        self.end_pieces(id);
        let c = &mut self.conns[id];
        if c.view.is_some() {
            let (a, view) = (c.app as usize, c.view.take());
            self.apps[a].views.give(view);
        }
    }

    /// The peer has ended its direction.
    pub(super) fn eof(&mut self, id: Id) {
        let c = &mut self.conns[id];
        c.set(flag::EOF);
        if c.has(flag::DOOMED) || c.has(flag::SHUT) && c.mode == Mode::Drain {
            self.close_conn(id, false);
            return;
        }
        if c.mode == Mode::Raw {
            self.tunnel_eof(id);
            return;
        }
        if c.has(flag::UNSENT) {
            return self.spoilt(id, false);
        }
        if !c.has(flag::AGAIN) {
            self.process_buffered(id);
        }
    }

    /// All input before the end of the connection has been handled, or waits for a stall to end.
    fn at_eof(&mut self, id: Id) {
        let c = &self.conns[id];
        if c.has(flag::AGAIN | flag::CLOSING | flag::DOOMED | flag::DATAGRAM) || c.mode == Mode::Raw {
            return;
        }
        // Requests that wait behind others are not awaited.
        if c.has(flag::STALLED) && !self.gives_up(id) {
            return;
        }
        let c = &self.conns[id];
        if c.mode == Mode::Tail && c.sink == Sink::Undecided {
            return;
        }
        match c.side {
            Side::Client => self.client_eof(id),
            Side::Backend => self.backend_lost(id),
        }
    }
}

pub(super) fn bad(view: *mut wl_parser) -> Parsed {
    // SAFETY: the view is live; the caller has just used it.
    let v = unsafe { *view };
    Parsed::Bad { kind: if v.fault == 0 { WL_F_MALFORMED } else { u32::from(v.fault) }, place: v.place }
}

/// Whether the bytes that come next of a message are not passed on.
pub(super) fn omits(view: *const wl_parser) -> bool {
    // SAFETY: the caller's view is live.
    unsafe { (*view).flags & WL_M_OMIT != 0 }
}

/// The result of parsing a piece of a tail.
pub(super) struct TailProgress {
    pub verdict: Verdict,
    pub used: usize,
    /// The bytes that were used are not passed on.
    pub omitted: bool,
}

/// Runs the tail parser over `rest`, skipping runs that need no parsing. It stops where passed
/// bytes and dropped bytes meet. With `passed` it stops before the first dropped byte, except for
/// bytes dropped to resynchronise.
pub(super) fn run_tail(unit: Unit, view: *mut wl_parser, rest: Raw, eof: bool, passed: bool) -> TailProgress {
    let (mut off, mut omit) = (0, omits(view));
    let mut omitted = omit;
    loop {
        // SAFETY: the view is live.
        let v = unsafe { &mut *view };
        if v.left > 0 {
            let k = v.left.min((rest.n - off) as u64);
            v.left -= k;
            off += k as usize;
            // At the end of the connection the parser judges a cut run itself.
            if v.left > 0 && !eof {
                return TailProgress { verdict: Verdict::More, used: off, omitted };
            }
        }
        let at = rest.from(off);
        // SAFETY: view and bytes are live.
        let (verdict, used) = unsafe { unit.tail(view, at.p, at.n.min(u32::MAX as usize) as u32, eof) };
        off += used as usize;
        match verdict {
            Verdict::Whole | Verdict::Bad => return TailProgress { verdict, used: off, omitted },
            _ if omits(view) != omit => {
                omit = !omit;
                // SAFETY: as above.
                let in_step = unsafe { (*view).flags } & WL_M_IN_STEP != 0;
                if off < rest.n && (off > 0 || passed) && !(passed && in_step) {
                    return TailProgress { verdict: Verdict::More, used: off, omitted };
                }
                // Behind the last byte the message may end without another.
                omitted = if off == 0 { omit } else { omitted };
            }
            _ => {
                // SAFETY: as above.
                let v = unsafe { &mut *view };
                if eof && used == 0 {
                    return TailProgress { verdict: truncated(v), used: off, omitted };
                }
                if !eof && v.left == 0 && (used == 0 || off == rest.n) {
                    return TailProgress { verdict: Verdict::More, used: off, omitted };
                }
            }
        }
    }
}

pub(super) fn truncated(v: &mut wl_parser) -> Verdict {
    v.fault = WL_F_TRUNCATED as u16;
    v.flags &= !WL_M_IN_STEP;
    Verdict::Bad
}
