//! The messages that a handler reads: parsed once more from the memory of the runtime, and those
//! that the program has made.

use super::activation::{slice, Activation};
use super::message::Message;
use crate::grammar::pack;
use crate::grammar::tree::Node;
use crate::grammar::view::{Extra, FIXED, PC_DONE};
use crate::stop::{internal, Res, Stop};
use crate::value::{MsgRef, Value};
use std::rc::Rc;
use wireloom_ir::*;
use wireloom_runtime::abi::*;

impl Activation<'_> {
    fn raw(&self, r: MsgRef) -> Option<(wl_msg, UnitId, u32)> {
        let (msg, unit, tail) = match r {
            MsgRef::Request(u) => match self.task() {
                Some(t) => (t.req, u, WL_TAIL_REQ),
                // SAFETY: null or the message that fault_reply or interim was given.
                None => (unsafe { self.request.as_ref() }.copied()?, u, WL_TAIL_NONE),
            },
            MsgRef::Part(n, u) => (self.raw_part(n as u128)?, u, if n == 0 { WL_TAIL_REP } else { WL_TAIL_NONE }),
            MsgRef::Absent | MsgRef::Own(_) | MsgRef::Frame(_) => return None,
        };
        (!msg.view.is_null() && msg.status == WL_S_OK).then_some((msg, unit, tail))
    }

    pub fn has_msg(&self, r: MsgRef) -> bool {
        matches!(r, MsgRef::Own(_) | MsgRef::Frame(_)) || self.raw(r).is_some()
    }

    pub fn message(&self, r: MsgRef) -> Res<Rc<Message>> {
        if let MsgRef::Own(n) = r {
            return self.own.borrow().get(n as usize).cloned().map_or_else(|| internal("no such parsed message"), Ok);
        }
        if let MsgRef::Frame(_) = r {
            if let Some(m) = &*self.frame_seen.borrow() {
                return Ok(m.clone());
            }
            let m = self.with_frame(|f| f.message(self.module()))?;
            *self.frame_seen.borrow_mut() = Some(m.clone());
            return Ok(m);
        }
        if let Some(m) = self.seen.borrow().get(&r) {
            return Ok(m.clone());
        }
        let Some((raw, unit, tail)) = self.raw(r) else { return internal("a message that is not there") };
        let m = Rc::new(self.read(raw, unit, tail, matches!(r, MsgRef::Part(..)) && self.hold)?);
        self.seen.borrow_mut().insert(r, m.clone());
        Ok(m)
    }

    /// Parses a message of the runtime's once more. `held`: all of it lies at its base.
    fn read(&self, raw: wl_msg, unit: UnitId, tail: u32, held: bool) -> Res<Message> {
        // SAFETY: a view has view_size bytes, at least FIXED, and was written by our parser.
        let (parser, extra) = unsafe { (raw.view.read(), raw.view.add(1).cast::<Extra>().read_unaligned()) };
        const { assert!(FIXED == std::mem::size_of::<wl_parser>() + std::mem::size_of::<Extra>()) };
        let complete = parser.pc == PC_DONE && extra.total == raw.head as u64;
        let whole = complete || (held && parser.pc == PC_DONE);
        let n = if whole { extra.total.max(raw.head as u64) } else { raw.head as u64 } as usize;
        // SAFETY: a message's head lies at its base, a held message as a whole.
        let mut bytes = unsafe { slice(raw.base, n) }.to_vec();
        let ahead = if whole { extra.after } else { extra.ahead };
        bytes.extend_from_slice(ahead.bytes());
        let node = self.grammar.read(unit, &bytes, parser.ctx, ahead.eof(), whole).or_else(internal)?;
        bytes.truncate(n);
        // SAFETY: the runtime says where the whole of a message lies, and its streamed bytes.
        let (all, body) = unsafe {
            (slice(raw.base, raw.whole as usize), (!raw.body.p.is_null()).then(|| raw.body.as_slice().to_vec()))
        };
        let rest = all.get(n..).unwrap_or_default().to_vec();
        let tail = if whole { WL_TAIL_NONE } else { tail };
        Ok(Message { unit, node, bytes, tail, base: raw.base, rest, body, ends: false })
    }

    /// Parses bytes as a whole message of the program's own.
    pub(super) fn parse_own(&self, unit: UnitId, bytes: &[u8]) -> Option<MsgRef> {
        let mut p = self.grammar.parser(bytes, true);
        let def = self.module().unit(unit);
        let node = p.message(unit, def, self.grammar.args(unit, 0)).ok()?;
        if node.end != bytes.len() {
            return None;
        }
        Some(self.keep_own(unit, node, bytes, None, false))
    }

    /// Reads a message that the program has kept: the first one in these bytes.
    pub(super) fn parse_kept(&self, unit: UnitId, args: &[Value], bytes: &[u8]) -> Option<MsgRef> {
        let response = self.module().protocols.iter().any(|p| p.response == Some(unit));
        let ctx = pack(&self.module().unit(unit).params, args) | if response { WL_CTX_RESPONSE } else { 0 };
        let kept = self.grammar.kept(unit, bytes, ctx)?;
        let bytes = &bytes[..kept.whole];
        let def = self.module().unit(unit);
        let mut p = self.grammar.parser(bytes, true);
        let node = p.message(unit, def, self.grammar.args(unit, ctx)).ok()?;
        Some(self.keep_own(unit, node, bytes, Some(kept.body), kept.ends))
    }

    /// How many bytes the item of a unit has that they begin with.
    pub fn item_size(&self, unit: UnitId, bytes: &[u8]) -> Option<usize> {
        let def = self.module().unit(unit);
        let node = self.grammar.parser(bytes, true).message(unit, def, self.grammar.args(unit, 0)).ok()?;
        (node.end > 0).then_some(node.end)
    }

    /// An item of each part's run, in the order that was kept; how many.
    pub fn in_order(&self, unit: UnitId, sink: &mut Vec<u8>) -> Res<usize> {
        let bad = || Err(Stop::Fault { kind: FaultKind::BAD_REPLY, place: PlaceId(0) });
        // SAFETY: kept by the host until the task ends.
        let order = self.task().map_or(&[][..], |t| unsafe { t.kept.as_slice() });
        let mut runs = self.runs.borrow_mut();
        for part in order.chunks_exact(2) {
            let Some((bytes, at)) = runs.get_mut(u16::from_ne_bytes([part[0], part[1]]) as usize) else { return bad() };
            let Some(n) = self.item_size(unit, &bytes[*at..]) else { return bad() };
            sink.extend_from_slice(&bytes[*at..*at + n]);
            *at += n;
        }
        if runs.iter().any(|(bytes, at)| *at < bytes.len()) {
            bad()
        } else {
            Ok(order.len() / 2)
        }
    }

    /// Parses what is to be sent in the place of a message: its head, and what of its tail lies
    /// behind it.
    pub(super) fn reread(&self, of: &Message, bytes: &[u8]) -> Option<MsgRef> {
        let tail = of.bytes.len() - of.node.end;
        let ctx = pack(&self.module().unit(of.unit).params, &of.node.args);
        let node = self.grammar.read(of.unit, bytes, ctx, true, of.tail == WL_TAIL_NONE).ok()?;
        (node.end + tail == bytes.len()).then(|| self.keep_own(of.unit, node, bytes, None, false))
    }

    /// A message that was built for a unit without parameters.
    pub(super) fn read_built(&self, unit: UnitId, bytes: &[u8]) -> Option<MsgRef> {
        let node = self.grammar.read(unit, bytes, 0, true, true).ok()?;
        (node.end == bytes.len()).then(|| self.keep_own(unit, node, bytes, None, false))
    }

    /// Whether bytes are messages of a unit with these parameters: one, or at most so many.
    pub(super) fn are_messages(&self, unit: UnitId, args: &[Value], bytes: &[u8], max: u32) -> bool {
        let ctx = pack(&self.module().unit(unit).params, args);
        let mut rest = bytes;
        for _ in 0..max {
            let Ok(node) = self.grammar.read(unit, rest, ctx, true, true) else { return false };
            rest = &rest[node.end..];
            if rest.is_empty() {
                return true;
            }
        }
        false
    }

    fn keep_own(&self, unit: UnitId, node: Node, bytes: &[u8], body: Option<Vec<u8>>, ends: bool) -> MsgRef {
        let mut own = self.own.borrow_mut();
        let (tail, base) = (WL_TAIL_NONE, std::ptr::null());
        let bytes = bytes.to_vec();
        own.push(Rc::new(Message { unit, node, tail, base, bytes, rest: Vec::new(), body, ends }));
        MsgRef::Own(own.len() as u32 - 1)
    }
}
