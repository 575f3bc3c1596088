//! Messages to send: built from emits, or passed on with edits.

use super::activation::Activation;
use super::code::{Code, Out, OutEdit};
use super::message::{Bytes, Message, Ready};
use super::Flow;
use crate::env::Env;
use crate::grammar::tree::{Content, FieldNode, Node};
use crate::stop::{internal, Res, Stop};
use crate::value::{int_type, signed, MsgRef, Value};
use wireloom_ir::*;
use wireloom_runtime::abi::{WL_TAIL_NONE, WL_TAIL_REQ};

pub fn emit(env: &Env, e: &Emit, sink: &mut Vec<u8>) -> Res<()> {
    match e {
        Emit::Bytes(e) => sink.extend_from_slice(&env.bytes(e)?),
        Emit::UInt { value, bytes, big } => {
            let v = env.int(value)?.to_le_bytes();
            let low = &v[..(*bytes as usize).min(16)];
            if *big {
                sink.extend(low.iter().rev())
            } else {
                sink.extend_from_slice(low)
            }
        }
        Emit::Number { value, radix, width } => {
            let (bits, neg) = int_type(env.module.ty(value.ty)).unwrap_or((64, false));
            let v = env.int(value)?;
            let (minus, size) = match neg && signed(v, bits) < 0 {
                true => (true, signed(v, bits).unsigned_abs()),
                false => (false, v),
            };
            if minus {
                sink.push(b'-');
            }
            let text = digits(size, *radix as u128);
            sink.extend(std::iter::repeat_n(b'0', (*width as usize).saturating_sub(text.len())));
            sink.extend(text);
        }
        Emit::Items { unit, bytes, count, max } => {
            let (bytes, count, a) = (env.bytes(bytes)?, env.int(count)?, env.activation()?);
            let (mut at, mut n) = (0, 0u128);
            while at < bytes.len() {
                let Some(size) = a.item_size(*unit, &bytes[at..]) else {
                    return Err(Stop::Fault { kind: FaultKind::MALFORMED, place: PlaceId(0) });
                };
                (at, n) = (at + size, n + 1);
            }
            counted(n, count, *max)?;
            sink.extend_from_slice(&bytes);
        }
        Emit::InOrder { unit, count, max } => {
            let count = env.int(count)?;
            let n = env.activation()?.in_order(*unit, sink)?;
            counted(n as u128, count, *max)?;
        }
        Emit::Mark(_) => return internal("a mark where no local can be set"),
        Emit::Whole { unit, args, from, max, place } => {
            let (args, from, a) = (env.all(args)?, env.int(from)? as usize, env.activation()?);
            let written = sink.get(from..).unwrap_or_default();
            if !a.are_messages(*unit, &args, written, *max) {
                return Err(Stop::Fault { kind: FaultKind::CONSTRAINT, place: *place });
            }
        }
        Emit::Begins { not, with, from, place } => {
            let written = sink.get(env.int(from)? as usize..).unwrap_or_default();
            let mut found = false;
            for text in with {
                let text = env.bytes(text)?;
                // Too few bytes tell nothing: only the reader of what follows can.
                found |= written.starts_with(&text) || !not && text.starts_with(written);
            }
            if found == *not {
                return Err(Stop::Fault { kind: FaultKind::CONSTRAINT, place: *place });
            }
        }
        Emit::Varint(e) => {
            let mut v = env.int(e)?;
            while v > 127 {
                sink.push(v as u8 & 127 | 128);
                v >>= 7;
            }
            sink.push(v as u8);
        }
    }
    Ok(())
}

/// Whether so many items are as many as they must be (all ones: any number), and no more than they
/// may.
fn counted(n: u128, count: u128, max: u32) -> Res<()> {
    let fault = |kind| Err(Stop::Fault { kind, place: PlaceId(0) });
    if n > u128::from(max) {
        return fault(FaultKind::TOO_LONG);
    }
    if count != u128::from(u64::MAX) && n != count {
        return fault(FaultKind::CONSTRAINT);
    }
    Ok(())
}

fn digits(mut v: u128, radix: u128) -> Vec<u8> {
    let radix = radix.clamp(2, 16);
    let mut text = Vec::new();
    loop {
        text.push(b"0123456789abcdef"[(v % radix) as usize]);
        v /= radix;
        if v == 0 {
            text.reverse();
            return text;
        }
    }
}

/// The bytes that a block emits.
fn emitted(env: &Env, code: &Code, locals: &mut Vec<Value>) -> Res<Vec<u8>> {
    let mut sink = Vec::new();
    match super::run(env, code, locals, &mut 0, &mut sink)? {
        Flow::End => Ok(sink),
        _ => internal("a message's body leaves it"),
    }
}

/// Makes a message ready to send.
pub fn build(env: &Env, act: &Activation, out: &Out, locals: &mut Vec<Value>) -> Res<Ready> {
    match out {
        Out::Nothing => Ok(Ready { bytes: Bytes::Built(Vec::new()), tail: WL_TAIL_NONE }),
        Out::Built { body, .. } => Ok(Ready { bytes: Bytes::Built(emitted(env, body, locals)?), tail: WL_TAIL_NONE }),
        Out::Pass { msg, edits } => {
            let Some(Value::Msg(r)) = locals.get(msg.index()) else { return internal("no message to pass on") };
            // The runtime must know that it is the client's request, also of one without a tail.
            let request = matches!(r, MsgRef::Request(_)) && act.task().is_some();
            let msg = act.message(*r)?;
            let mut changes = Vec::new();
            for e in edits {
                edit(env, &msg, e, locals, &mut changes)?;
            }
            let tail = if request { WL_TAIL_REQ } else { msg.tail };
            let bytes =
                if changes.is_empty() { Bytes::Original(msg) } else { Bytes::Built(apply(&msg.bytes, changes)) };
            Ok(Ready { bytes, tail })
        }
    }
}

/// Bytes that replace those from `start` to `end`.
struct Change {
    start: usize,
    end: usize,
    bytes: Vec<u8>,
}

fn apply(base: &[u8], mut changes: Vec<Change>) -> Vec<u8> {
    changes.sort_by_key(|c| c.start);
    let (mut out, mut at) = (Vec::with_capacity(base.len() + 64), 0);
    for c in changes {
        out.extend_from_slice(&base[at.min(c.start)..c.start]);
        out.extend_from_slice(&c.bytes);
        at = at.max(c.end);
    }
    out.extend_from_slice(&base[at..]);
    out
}

fn edit(env: &Env, msg: &Message, e: &OutEdit, locals: &mut Vec<Value>, changes: &mut Vec<Change>) -> Res<()> {
    let holds = |cond: &Option<Expr>, locals: &[Value]| match cond {
        Some(c) => Env { locals, ..*env }.truth(c),
        None => Ok(true),
    };
    match e {
        OutEdit::Set { field, cond, body } => {
            if holds(cond, locals)? {
                let bytes = emitted(env, body, locals)?;
                let at = find(&msg.node, field)?;
                changes.push(Change { start: at.start, end: at.end, bytes });
            }
        }
        OutEdit::Remove { list, index, cond } => {
            let Content::Items(items) = &find(&msg.node, list)?.content else { return internal("an edit of no list") };
            for (i, item) in items.iter().enumerate() {
                locals[index.index()] = Value::Int(i as u128);
                if (Env { locals, ..*env }).truth(cond)? {
                    changes.push(Change { start: item.start, end: item.next, bytes: Vec::new() });
                }
            }
        }
        OutEdit::Append { list, cond, body } => {
            if holds(cond, locals)? {
                let bytes = emitted(env, body, locals)?;
                let end = find(&msg.node, list)?.end;
                changes.push(Change { start: end, end, bytes });
            }
        }
    }
    Ok(())
}

/// The field at a path through nested units; fields of taken cases are the unit's own.
fn find<'a>(node: &'a Node, path: &[FieldId]) -> Res<&'a FieldNode> {
    let Some((f, rest)) = path.split_first() else { return internal("an empty path") };
    let Some(found) = node.field(*f) else { return internal("an edit of a field that is not there") };
    match (&found.content, rest) {
        (_, []) => Ok(found),
        (Content::Unit(inner), _) => find(inner, rest),
        // A switch on the way: its fields are fields of the unit.
        (Content::Case(_), _) => find(node, rest),
        _ => internal("a path through a field that is no unit"),
    }
}
