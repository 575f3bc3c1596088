//! Statements on the frame at hand.

use super::edit::{finish, Built};
use super::entry;
use crate::env::Env;
use crate::exec::activation::Activation;
use crate::exec::code::{Act, Code};
use crate::exec::{fresh_locals, run};
use crate::stop::{internal, Res, Stop};
use crate::value::{MsgRef, Value};
use wireloom_ir::*;

/// Runs the code of parts.
fn build(env: &Env, parts: &[(Option<UnitId>, Code)], locals: &mut Vec<Value>) -> Res<Built> {
    parts
        .iter()
        .map(|(unit, code)| {
            let mut bytes = Vec::new();
            run(env, code, locals, &mut 0, &mut bytes)?;
            Ok((*unit, bytes))
        })
        .collect()
}

pub fn send_frame(
    env: &Env,
    a: &Activation,
    port: PortId,
    index: &Expr,
    parts: &[(Option<UnitId>, Code)],
    locals: &mut Vec<Value>,
) -> Res<()> {
    let built = build(env, parts, locals)?;
    let index = Env { locals, ..*env }.int(index)? as u32;
    let mut bytes: Vec<u8> = built.iter().flat_map(|p| p.1.iter().copied()).collect();
    finish(env.module, &built, &mut bytes, &[], 0, None);
    let n = bytes.len() as u32;
    entry::fill(env.module, a, port, &Vec::new(), (None, n, n));
    a.transmit(port, index, 0, &bytes);
    Ok(())
}

/// The frame as it is now leaves; `last`: it is moved.
fn send(
    m: &Module,
    a: &Activation,
    (port, index): (PortId, u32),
    goes: (u32, entry::CarriedFields),
    last: bool,
) -> Res<()> {
    let (mark, state) = goes;
    let (raw, n, top) = a.with_frame(|f| (f.raw.cast_const(), f.bytes.len() as u32, f.top()))?;
    if last {
        let mark = m.is_queue(port).then_some(mark);
        if !raw.is_null() {
            entry::fill(m, a, port, &state, (Some(raw), n, top));
        }
        return a.with_frame(|f| f.leave(port, index, mark));
    }
    entry::fill(m, a, port, &state, (None, n, top));
    // From where it lies: by that the runtime knows its time.
    if let Some((p, n)) = a.with_frame(|f| f.write_back())? {
        // SAFETY: a frame names n bytes of its buffer.
        a.transmit(port, index, mark, unsafe { std::slice::from_raw_parts(p, n) });
    }
    Ok(())
}

/// Gives the frame to the target of a wire. The sender does not see the target's changes.
pub fn output(
    env: &Env,
    a: &Activation,
    wire: WireId,
    (mark, state): (Value, entry::CarriedFields),
    (last, fresh): (bool, bool),
) -> Res<()> {
    let m = env.module;
    let (to, index) = match m.wires[wire.index()].to {
        Target::Port { port, index } => {
            let Value::Int(mark) = mark else { return internal("a mark that is no number") };
            return send(m, a, (port, index), (mark as u32, state), last);
        }
        Target::Input { input, index } => (input, index),
    };
    let Some(body) = m.input_body(to) else { return internal("an output to an input without code") };
    let code = a.grammar.functions.input(m, to, body);
    let mut locals = fresh_locals(m, body, code.locals);
    locals[0] = Value::Msg(MsgRef::Frame(m.inputs[to.index()].unit));
    locals[1] = mark;
    let input = &m.inputs[to.index()];
    if input.indexed {
        locals[2] = Value::Int(index.into())
    }
    for (k, f) in input.state.iter().enumerate() {
        let given = state.iter().find(|s| s.0 == *f).map(|s| s.1.clone());
        locals[input.first_field() + k] = given.unwrap_or_else(|| entry::begins_with(m, *f));
    }
    let before = a.with_frame(|f| f.clone())?;
    if fresh {
        a.change_frame(|f| f.look_again(a.grammar))?;
    }
    let inner = Env { this: None, item: None, acc: None, ..*env };
    run(&inner, code, &mut locals, &mut 0, &mut Vec::new())?;
    a.change_frame(|f| *f = before)
}

pub fn act(env: &Env, a: &Activation, act: &Act, locals: &mut Vec<Value>) -> Res<()> {
    let m = env.module;
    let full = |place: PlaceId| Err(Stop::Fault { kind: FaultKind::OVERLOAD, place });
    match act {
        Act::Insert { before, parts, place } => {
            let built = build(env, parts, locals)?;
            a.change_frame(|f| f.insert(m, *before, &built)).and_then(|ok| if ok { Ok(()) } else { full(*place) })
        }
        Act::Payload { layer, body, place } => {
            let mut bytes = Vec::new();
            run(env, body, locals, &mut 0, &mut bytes)?;
            a.change_frame(|f| f.set_payload(m, *layer, &bytes)).and_then(|ok| if ok { Ok(()) } else { full(*place) })
        }
        Act::Plain(FrameAct::Set { layer, field, value }) => {
            let v = Env { locals, ..*env }.eval(value)?;
            a.change_frame(|f| f.set(m, *layer as usize, *field, &v))?
        }
        Act::Plain(FrameAct::Swap { layer, a: one, b: other }) => {
            a.change_frame(|f| f.swap(m, *layer as usize, *one, *other))
        }
        Act::Plain(FrameAct::Remove { layer }) => a.change_frame(|f| f.remove(m, *layer as usize)),
        Act::Plain(FrameAct::Save { copy }) => a.change_frame(|f| {
            f.kept.truncate(*copy as usize);
            f.kept.push(f.clone())
        }),
        Act::Plain(FrameAct::Restore { copy }) => a.change_frame(|f| f.restore(*copy as usize)),
        Act::Plain(FrameAct::Parse) => a.change_frame(|f| f.look_again(a.grammar)),
        Act::Plain(FrameAct::Checksum { layer }) => a.change_frame(|f| f.resum(m, *layer as usize)),
        Act::Plain(FrameAct::InC { .. }) => internal("an element in C needs the compiled program"),
        Act::Plain(FrameAct::Send { port, index, mark, state, last }) => {
            let here = Env { locals, ..*env };
            let mark = mark.as_ref().map_or(Ok(0), |e| here.int(e))? as u32;
            let state = carried(&here, state)?;
            send(m, a, (*port, here.int(index)? as u32), (mark, state), *last)
        }
        Act::Plain(FrameAct::Insert { .. } | FrameAct::Payload { .. }) => internal("an act whose code is missing"),
    }
}

/// The values of the state that goes with a packet.
pub fn carried(here: &Env, state: &[Carried]) -> Res<entry::CarriedFields> {
    state.iter().map(|c| Ok((c.field, here.eval(&c.value)?))).collect()
}
