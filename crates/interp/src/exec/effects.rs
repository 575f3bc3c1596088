//! Statements and operations with effects beyond the locals: state, tables, queues, messages that
//! are sent.

use super::activation::Activation;
use super::code::{Op, Out};
use super::frame::acts;
use super::sketches::EntryKey;
use super::{match_effects, outgoing};
use crate::env::Env;
use crate::grammar;
use crate::stop::{internal, Res, Stop};
use crate::value::{from_canonical, MsgRef, Value};
use wireloom_ir::*;
use wireloom_runtime::abi::*;

/// Takes the values of a ring that another device fills: what comes from now on is later.
fn fetch(a: &Activation, ring: TableId, most: u64) -> Res<()> {
    let t = a.table(ring)?;
    let mut data = a.data.borrow_mut();
    for _ in 0..most {
        let Some(value) = t.outside.as_ref().and_then(|o| o.pop()) else { break };
        data.rings[ring.index()].push_back(value);
    }
    drop(data);
    a.done(ring, t);
    Ok(())
}

/// Tells the device that fills a ring, too, how many values are here: it has that much less room.
fn tell_held(a: &Activation, ring: TableId) -> Res<()> {
    let values = a.data.borrow().rings[ring.index()].len() as u64;
    let t = a.table(ring)?;
    if let Some(o) = &t.outside {
        o.table.held(values)
    }
    a.done(ring, t);
    Ok(())
}

/// A value of a ring, from the oldest on: those that are here come before those of another device.
fn ring_value(a: &Activation, ring: TableId, place: usize) -> Res<Option<Value>> {
    let (here, found) = {
        let data = a.data.borrow();
        (data.rings[ring.index()].len(), data.rings[ring.index()].get(place).cloned())
    };
    if found.is_some() {
        return Ok(found);
    }
    let t = a.table(ring)?;
    let found = t.outside.as_ref().and_then(|o| o.at((place - here) as u64));
    a.done(ring, t);
    Ok(found)
}

/// Statements with effects beyond the locals.
pub fn effect(env: &Env, s: &StmtKind, locals: &mut [Value]) -> Res<()> {
    if let Some(t) = match_effects::table_of(env.module, s) {
        return match_effects::effect(env, t, s, locals);
    }
    let a = env.activation()?;
    if super::sketches::effect(env, a, s, locals)? {
        return Ok(());
    }
    let here = Env { locals, ..*env };
    match s {
        StmtKind::SetState(s, e) => {
            let v = here.eval(e)?;
            match a.data.borrow_mut().states.get_mut(s.index()) {
                Some(at) => *at = v,
                None => return internal("no such state"),
            }
        }
        StmtKind::SetSession(s, e) => a.set_session(*s, &here.eval(e)?),
        StmtKind::Count(c, e) => {
            let n = here.int(e)? as u64;
            a.count(*c, n)
        }
        StmtKind::TableGet { table, key, dst } if a.is_ring(*table) => {
            let place = usize::try_from(here.int(key)?).unwrap_or(usize::MAX);
            let found = ring_value(a, *table, place)?;
            locals[dst.index()] = Value::Option(found.map(Box::new));
        }
        StmtKind::TableLen { table, dst } if a.is_ring(*table) => {
            let mut n = a.data.borrow().rings[table.index()].len() as u64;
            let t = a.table(*table)?;
            n += t.outside.as_ref().map_or(0, |o| o.table.entries());
            a.done(*table, t);
            locals[dst.index()] = Value::Int(n.into());
        }
        StmtKind::TableNext { table, cursor, key, value, more, .. } if a.is_ring(*table) => {
            let at = locals[cursor.index()].as_int().unwrap_or(0);
            let found = ring_value(a, *table, at as usize)?;
            locals[more.index()] = Value::Bool(found.is_some());
            if let Some(v) = found {
                (locals[cursor.index()], locals[key.index()], locals[value.index()]) =
                    (Value::Int(at + 1), Value::Int(at), v);
            } else {
                locals[cursor.index()] = Value::Int(u64::MAX.into());
            }
        }
        StmtKind::TableGet { table, key, dst } => {
            let key = here.key(key)?;
            let mut t = a.table(*table)?;
            let found = t.get(&key, a.now());
            a.done(*table, t);
            locals[dst.index()] = Value::Option(found.map(Box::new));
        }
        StmtKind::TablePut { table, key, value, place } => {
            let (key, value) = (here.key(key)?, here.eval(value)?);
            let mut t = a.table(*table)?;
            let result = a.put(*table, &mut t, &key, value, *place);
            a.done(*table, t);
            a.changed(*table, &key);
            result?;
        }
        StmtKind::TableRemove { table, key, dst } => {
            let key = here.key(key)?;
            let mut t = a.table(*table)?;
            let was = t.remove(&key, a.now());
            a.done(*table, t);
            a.changed(*table, &key);
            if let Some(dst) = dst {
                locals[dst.index()] = Value::Bool(was);
            }
        }
        StmtKind::TableLen { table, dst } => {
            let mut t = a.table(*table)?;
            locals[dst.index()] = Value::Int(t.len(a.now()) as u128);
            a.done(*table, t);
        }
        StmtKind::TableNext { table, cursor, key, value, more, .. } => {
            let at = locals[cursor.index()].as_int().unwrap_or(0) as u64;
            let mut t = a.table(*table)?;
            // Each core walks its own part: here all tables are shared, and the first core's. A
            // connection has one core: its handlers see all.
            let handler = a.task().and_then(|t| env.module.handlers.get(t.handler as usize));
            let all = a.core().index == 0 || handler.is_some_and(|h| h.on.is_of_connections());
            let found = if all { t.step(at, a.now()) } else { None };
            a.done(*table, t);
            locals[cursor.index()] = Value::Int(found.as_ref().map_or(u64::MAX, |f| f.0).into());
            locals[more.index()] = Value::Bool(found.is_some());
            if let Some((_, k, v)) = found {
                locals[key.index()] =
                    from_canonical(env.module, env.module.tables[table.index()].key, &mut k.as_slice());
                locals[value.index()] = v;
            }
        }
        StmtKind::TablePush { table, value, dst } => {
            let value = here.eval(value)?;
            // Those of another device came before.
            fetch(a, *table, env.module.tables[table.index()].capacity)?;
            let mut data = a.data.borrow_mut();
            let Some(ring) = data.rings.get_mut(table.index()) else { return internal("no such ring") };
            let room = (ring.len() as u64) < env.module.tables[table.index()].capacity;
            if room {
                ring.push_back(value);
            }
            drop(data);
            tell_held(a, *table)?;
            locals[dst.index()] = Value::Bool(room);
        }
        StmtKind::TablePop { table, dst } => {
            let here = a.data.borrow_mut().rings.get_mut(table.index()).and_then(|r| r.pop_front());
            if here.is_some() {
                tell_held(a, *table)?
            }
            let t = a.table(*table)?;
            let first = here.or_else(|| t.outside.as_ref().and_then(|o| o.pop()));
            a.done(*table, t);
            locals[dst.index()] = Value::Option(first.map(Box::new));
        }
        StmtKind::GroupBegin { port, .. } => {
            *a.groups.borrow_mut() = vec![Default::default(); a.port(*port)?.len as usize];
            a.order.borrow_mut().clear();
        }
        StmtKind::GroupAdd { index, parts } => {
            let i = here.int(index)? as usize;
            let parts = parts.iter().map(|p| here.bytes(p)).collect::<Res<Vec<_>>>()?;
            if let Some((n, bytes)) = a.groups.borrow_mut().get_mut(i) {
                *n += 1;
                a.order.borrow_mut().push(i);
                parts.iter().for_each(|p| bytes.extend_from_slice(p));
            }
        }
        StmtKind::GroupRun { part, bytes } => {
            let mut runs = a.runs.borrow_mut();
            if here.int(part)? == 0 {
                runs.clear();
            }
            runs.push((here.bytes(bytes)?.to_vec(), 0));
        }
        StmtKind::Output { wire, mark, state, last, fresh, .. } => {
            acts::output(env, a, *wire, (here.eval(mark)?, acts::carried(&here, state)?), (*last, *fresh))?
        }
        StmtKind::Queue { port, index, act, dst } => {
            let act = match act {
                QueueAct::Pop => WL_Q_POP,
                QueueAct::Drop => WL_Q_DROP,
                QueueAct::Len => WL_Q_LEN,
                QueueAct::First => WL_Q_FIRST,
            };
            let index = here.int(index)? as u32;
            // SAFETY: the runtime's function, inside a call that the runtime made.
            let answer = a.queue.map_or(0, |f| unsafe { f(a.core, port.0, index, act) });
            locals[dst.index()] = if act <= WL_Q_DROP { Value::Bool(answer != 0) } else { Value::Int(answer.into()) };
        }
        StmtKind::Close => {
            if let Some(c) = a.collect {
                c.borrow_mut().flags |= WL_R_CLOSE;
            } else if let Some(f) = unsafe { (*a.core().host).close } {
                // SAFETY: as for reply.
                unsafe { f(a.task) }
            }
        }
        StmtKind::OpenUpstream { upstream, index, key, place } => {
            let index = here.int(index)? as u32;
            let pooled = u32::from(key.is_some());
            let key = key.as_ref().map(|key| here.bytes(key)).transpose()?;
            let bytes = key.as_ref().map_or(wl_bytes::default(), |k| wl_bytes {
                p: k.as_ptr(),
                n: k.len() as u32,
                ..wl_bytes::default()
            });
            // SAFETY: as for reply; the key's bytes are valid during the call.
            let kind =
                unsafe { (*a.core().host).open }.map_or(0, |f| unsafe { f(a.task, upstream.0, index, pooled, bytes) });
            lost(kind, *place)?
        }
        StmtKind::TakeUpstream { upstream, index, place } => {
            let index = here.int(index)? as u32;
            // SAFETY: as for reply.
            let kind = unsafe { (*a.core().host).take }.map_or(0, |f| unsafe { f(a.task, upstream.0, index) });
            lost(kind, *place)?
        }
        StmtKind::PoolUpstream { upstream, key } => {
            let key = here.bytes(key)?;
            // SAFETY: as for reply; the key's bytes are valid during the call.
            if let Some(f) = unsafe { (*a.core().host).pool } {
                unsafe {
                    f(a.task, upstream.0, wl_bytes { p: key.as_ptr(), n: key.len() as u32, ..wl_bytes::default() })
                }
            }
        }
        StmtKind::Dismiss(to) => {
            let to = handles(&here, to)?;
            // SAFETY: as for reply.
            if let Some(f) = unsafe { (*a.core().host).dismiss } {
                unsafe { f(a.task, to.as_ptr(), to.len() as u32) }
            }
        }
        StmtKind::Become { member, protocol, rest, place } => {
            // SAFETY: as for reply.
            let kind = unsafe { (*a.core().host).change_protocol }
                .map_or(0, |f| unsafe { f(a.task, member.number(), protocol.0, u32::from(*rest)) });
            lost(kind, *place)?
        }
        StmtKind::Hold(member) | StmtKind::Release(member) => {
            let on = u32::from(matches!(s, StmtKind::Hold(_)));
            // SAFETY: as for reply.
            if let Some(f) = unsafe { (*a.core().host).hold } {
                unsafe { f(a.task, member.number(), on) }
            }
        }
        StmtKind::CloseUpstream(upstream) => {
            // SAFETY: as for reply.
            if let Some(f) = unsafe { (*a.core().host).shut } {
                unsafe { f(a.task, upstream.0) }
            }
        }
        // SAFETY: the core that runs this activation.
        StmtKind::Outcome(e) => unsafe { (*a.core).outcome = here.int(e)? as u32 },
        StmtKind::Log(es) => {
            let mut text = Vec::new();
            for e in es {
                a.log_text(e, &here.eval(e)?, &mut text);
            }
            // SAFETY: as for reply; the text lives until log() returns.
            if let Some(f) = unsafe { (*a.core().host).log } {
                unsafe { f(a.core, 1, wl_bytes::of(&text)) }
            }
        }
        StmtKind::Parse { unit, kept, bytes, dst, ok } => {
            let bytes = here.bytes(bytes)?;
            let parsed = match kept {
                Some(args) => a.parse_kept(*unit, &here.all(args)?, &bytes),
                None => a.parse_own(*unit, &bytes),
            };
            locals[ok.index()] = Value::Bool(parsed.is_some());
            locals[dst.index()] = Value::Msg(parsed.unwrap_or(MsgRef::Absent));
        }
        _ => return internal("a statement where it cannot stand"),
    }
    Ok(())
}

/// The fault by which the host does not take a message of a conversation.
fn lost(kind: u32, place: PlaceId) -> Res<()> {
    match kind {
        WL_F_NONE => Ok(()),
        kind => Err(Stop::Fault { kind: FaultKind(kind as u16), place }),
    }
}

/// The clients that a value names.
fn handles(env: &Env, to: &Expr) -> Res<Vec<u64>> {
    let number = |v: &Value| v.as_int().map_or_else(|| internal("a client is named by no handle"), |n| Ok(n as u64));
    match env.eval(to)? {
        Value::List(all) => all.iter().map(number).collect(),
        one => Ok(vec![number(&one)?]),
    }
}

/// In a handler of pieces: what goes on.
fn about_piece(a: &Activation, to: u32, bytes: &[u8]) -> Res<()> {
    // SAFETY: as for reply.
    if let Some(f) = unsafe { (*a.core().host).tell } {
        unsafe { f(a.task, to, 0, wl_bytes::of(bytes), WL_TAIL_NONE) };
    }
    Ok(())
}

/// Whether a message that the program has parsed ends with its connection.
fn ends(env: &Env, msg: &Out) -> Res<bool> {
    match msg {
        Out::Pass { msg, .. } => Ok(env.message(*msg)?.ends),
        Out::Built { .. } | Out::Nothing => Ok(false),
    }
}

/// Flags of a call: the protocol's clauses about the message that is sent.
fn judged(env: &Env, msg: &Out, clauses: &[Expr]) -> Res<u32> {
    let mut flags = if clauses.is_empty() { 0 } else { WL_C_JUDGED };
    for (e, flag) in clauses.iter().zip([WL_C_NO_REPLY, WL_C_REPEAT, WL_C_PRIVATE, WL_C_ENDS]) {
        if env.truth(e)? {
            flags |= flag
        }
    }
    Ok(if ends(env, msg)? { flags | WL_C_ENDS } else { flags })
}

/// Operations that send, wait, or run blocks of their own.
pub fn outward(env: &Env, op: &Op, locals: &mut Vec<Value>) -> Res<()> {
    let a = env.activation()?;
    match op {
        Op::Reply { msg, close } => {
            let nothing = matches!(msg, Out::Nothing);
            let ready = outgoing::build(env, a, msg, locals)?;
            let ends = ends(&Env { locals, ..*env }, msg)?;
            a.reply(ready, *close || ends, nothing)
        }
        Op::Send { port, index, msg } => {
            let index = Env { locals, ..*env }.int(index)? as u32;
            let ready = outgoing::build(env, a, msg, locals)?;
            let head = a.head(&ready)?;
            // SAFETY: as for reply.
            if let Some(f) = unsafe { (*a.core().host).send } {
                unsafe { f(a.task, port.0, index, head, ready.tail) };
            }
            Ok(())
        }
        Op::Tell { to, proto, msg, place } => {
            let ready = outgoing::build(env, a, msg, locals)?;
            let head = a.head(&ready)?;
            // SAFETY: as for reply.
            let tell = unsafe { (*a.core().host).tell };
            let kind = tell.map_or(0, |f| unsafe { f(a.task, to.number(), *proto, head, ready.tail) });
            lost(kind, *place)
        }
        Op::Ask { upstream, proto, msg, within, matched, hold, hold_req } => {
            let here = Env { locals, ..*env };
            let timeout_ns = within.as_ref().map_or(Ok(0), |e| here.int(e))? as u64;
            let values = here.all(matched)?;
            let response = env.module.protocols.get(*proto as usize).and_then(|p| p.response);
            let asked = response.map_or(&[][..], |u| &env.module.unit(u).asked);
            let ctx = WL_CTX_RESPONSE | grammar::pack(asked, &values);
            let flags = if *hold { WL_C_HOLD } else { 0 } | if *hold_req { WL_C_HOLD_REQ } else { 0 };
            let flags = flags | if values.is_empty() { 0 } else { WL_C_MATCHES };
            let call = wl_call { timeout_ns, ctx, flags, _pad: 0 };
            let ready = outgoing::build(env, a, msg, locals)?;
            let head = a.head(&ready)?;
            // SAFETY: as for reply; `call` is read before the function returns.
            if let Some(f) = unsafe { (*a.core().host).ask } {
                unsafe { f(a.task, upstream.0, *proto, head, ready.tail, &call) };
            }
            Ok(())
        }
        Op::Deliver { to, proto, msg, place } => {
            let to = handles(&Env { locals, ..*env }, to)?;
            let ready = outgoing::build(env, a, msg, locals)?;
            let head = a.head(&ready)?;
            // SAFETY: as for reply.
            if let Some(f) = unsafe { (*a.core().host).deliver } {
                unsafe { f(a.task, to.as_ptr(), to.len() as u32, head, ready.tail, *proto, place.0) };
            }
            Ok(())
        }
        Op::Call { port, index, msg, within, args, clauses, hold, hold_req } => {
            let here = Env { locals, ..*env };
            let index = here.int(index)? as u32;
            let timeout_ns = within.as_ref().map_or(Ok(0), |e| here.int(e))? as u64;
            let args = here.all(args)?;
            let flags = if *hold { WL_C_HOLD } else { 0 } | if *hold_req { WL_C_HOLD_REQ } else { 0 };
            let protocol = env.module.ports[port.index()].protocols.first().map(|p| &env.module.protocols[p.index()]);
            let (mut ctx, mut shares) = (WL_CTX_RESPONSE, false);
            if let Some(unit) = protocol.and_then(|p| p.response) {
                let Unit { params, asked, .. } = env.module.unit(unit);
                let kept = args.get(params.len() + 1..).unwrap_or_default();
                ctx = grammar::pack(params, &args) | grammar::pack(asked, kept);
                shares = matches!(args.get(params.len()), Some(Value::Bool(true)));
            }
            let flags = flags | if shares { WL_C_PIPELINE } else { 0 } | judged(&here, msg, clauses)?;
            let call = wl_call { timeout_ns, ctx, flags, _pad: 0 };
            let ready = outgoing::build(env, a, msg, locals)?;
            let head = a.head(&ready)?;
            // SAFETY: as for reply; `call` is read before the function returns.
            if let Some(f) = unsafe { (*a.core().host).call } {
                unsafe { f(a.task, port.0, index, head, ready.tail, &call) };
            }
            Ok(())
        }
        Op::Wait { table, key, within, hold_req } => {
            let here = Env { locals, ..*env };
            let (key, ns) = (here.key(key)?, here.int(within)? as u64);
            let flags = if *hold_req { WL_C_HOLD_REQ } else { 0 };
            // SAFETY: as for reply.
            if let Some(f) = unsafe { (*a.core().host).wait } {
                unsafe { f(a.task, table.0, crate::builtin::key_hash(&key), ns, flags) };
            }
            Ok(())
        }
        Op::AwaitBody { hold_req } => {
            let flags = if *hold_req { WL_C_HOLD_REQ } else { 0 };
            // SAFETY: as for reply.
            if let Some(f) = unsafe { (*a.core().host).wait } {
                unsafe { f(a.task, WL_BODY, 0, 0, flags) };
            }
            Ok(())
        }
        Op::SetPiece(e) => {
            let value = Env { locals, ..*env }.bytes(e)?;
            about_piece(a, WL_TO_PIECE, &value)
        }
        Op::DropBody => about_piece(a, WL_TO_NONE, &[]),
        Op::Render { msg, dst } => {
            let ready = outgoing::build(env, a, msg, locals)?;
            let mut bytes = ready.bytes.as_slice().to_vec();
            if let Out::Pass { msg, .. } = msg {
                bytes.extend_from_slice(&Env { locals, ..*env }.message(*msg)?.rest);
            }
            locals[dst.index()] = Value::bytes(&bytes);
            Ok(())
        }
        Op::Reread { msg, dst, ok } => {
            let of = match msg {
                Out::Pass { msg: of, .. } => Some(Env { locals, ..*env }.message(*of)?),
                Out::Built { .. } | Out::Nothing => None,
            };
            let ready = outgoing::build(env, a, msg, locals)?;
            let bytes = ready.bytes.as_slice();
            let again = match (of, msg) {
                (Some(of), _) => a.reread(&of, bytes),
                (None, Out::Built { unit, .. }) => a.read_built(*unit, bytes),
                (None, _) => return internal("the message to be read again was not changed"),
            };
            locals[ok.index()] = Value::Bool(again.is_some());
            locals[dst.index()] = Value::Msg(again.unwrap_or(MsgRef::Absent));
            Ok(())
        }
        Op::Frame(act) => acts::act(env, a, act, locals),
        Op::SendFrame { port, index, parts } => acts::send_frame(env, a, *port, index, parts, locals),
        Op::Update { table, key, entry, body, place } => {
            let kind = env.module.tables[table.index()].kind;
            let index = if kind == TableKind::Array { Env { locals, ..*env }.int(key)? } else { 0 };
            let key = Env { locals, ..*env }.key(key)?;
            let zero = Value::zero(env.module, env.module.tables[table.index()].value);
            let mut t = a.table(*table)?;
            let other = super::sketches::entry(a, *table, &mut t, EntryKey { key: &key, index }, *place).transpose()?;
            locals[entry.index()] = other.unwrap_or_else(|| t.peek(&key, a.now()).unwrap_or(zero));
            super::run(env, body, locals, &mut 0, &mut Vec::new())?;
            let old = t.peek(&key, a.now());
            let value = super::sketches::merged(kind, old.clone(), locals[entry.index()].clone());
            // An update that sets nothing wakes no handler: those that wait may make it.
            let set = old.is_none_or(|old| old != value);
            let result = a.put(*table, &mut t, &key, value, *place);
            a.done(*table, t);
            if set {
                a.changed(*table, &key);
            }
            result
        }
        _ => internal("an operation the interpreter does not know"),
    }
}
