//! Statements: runs flat code over locals. State, messages, calls and replies go through an
//! [`activation::Activation`]. Pure functions run without one.

pub mod activation;
pub mod code;
pub mod effects;
pub mod flatten;
pub mod frame;
pub mod functions;
mod match_effects;
pub mod match_tables;
pub mod message;
pub mod outgoing;
mod reading;
pub mod sketch;
pub mod sketches;
pub mod tables;

use crate::env::Env;
use crate::stop::{internal, Res, Stop};
use crate::value::{mask, MsgRef, Value};
use code::{Code, Op};
use wireloom_ir::*;

/// How code ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Flow {
    End,
    Return(Value),
    /// Waiting for calls; goes on at the operation noted in `pc`.
    Suspend {
        hold: bool,
    },
}

/// Calls a function.
pub fn call(env: &Env, f: FuncId, args: Vec<Value>) -> Res<Value> {
    let func = &env.module.funcs[f.index()];
    let body = match &func.body {
        FuncBody::Body(b) => b,
        FuncBody::Extern { symbol, .. } => {
            return internal(format!("`{symbol}` is a C function: it needs the compiled program"))
        }
    };
    let made;
    let code = match env.functions {
        Some(all) => all.function(env.module, f, body),
        None => {
            made = flatten::body(env.module, body);
            &made
        }
    };
    let mut locals = fresh_locals(env.module, body, code.locals);
    locals.iter_mut().zip(args).for_each(|(l, a)| *l = a);
    let inner = Env { this: None, item: None, acc: None, ..*env };
    match run(&inner, code, &mut locals, &mut 0, &mut Vec::new())? {
        Flow::Return(v) => Ok(v),
        Flow::End if matches!(env.module.ty(func.ret), Ty::Unit) => Ok(Value::Unit),
        _ => internal(format!("function {} ends without a value", func.name)),
    }
}

/// Zero values for a body's locals and for the hidden ones behind them.
pub fn fresh_locals(m: &Module, body: &Body, all: usize) -> Vec<Value> {
    let mut locals: Vec<Value> = body.locals.iter().map(|l| Value::zero(m, l.ty)).collect();
    locals.resize(all.max(locals.len()), Value::Int(0));
    locals
}

/// Runs code from `pc`. `sink` takes the output of `Emit`. `env.locals` is not used: `locals` are.
pub fn run(env: &Env, code: &Code, locals: &mut Vec<Value>, pc: &mut usize, sink: &mut Vec<u8>) -> Res<Flow> {
    if locals.len() < code.locals {
        locals.resize(code.locals, Value::Int(0));
    }
    while let Some(op) = code.ops.get(*pc) {
        *pc += 1;
        let here = Env { locals, ..*env };
        match op {
            Op::Plain(StmtKind::Return(e)) => {
                return Ok(Flow::Return(e.as_ref().map_or(Ok(Value::Unit), |e| here.eval(e))?));
            }
            Op::Await { hold, .. } => return Ok(Flow::Suspend { hold: *hold }),
            Op::Jump(to) => *pc = *to,
            Op::Unless(cond, to) => {
                if !here.truth(cond)? {
                    *pc = *to;
                }
            }
            Op::Switch { on, cases, default } => {
                let v = here.int(on)?;
                *pc = cases.iter().find(|(c, _)| *c as u128 == v).map_or(*default, |(_, to)| *to);
            }
            Op::SetHidden(slot, e) => locals[*slot] = here.eval(e)?,
            Op::ForTest { var, to, exit } => {
                let (i, end) = (locals[var.index()].as_int(), locals[*to].as_int());
                if i >= end {
                    *pc = *exit;
                }
            }
            Op::ForStep { var, top } => {
                locals[var.index()] = Value::Int(locals[var.index()].as_int().unwrap_or(0).wrapping_add(1) & mask(64));
                *pc = *top;
            }
            Op::Round { counter, max, exit } => {
                let n = locals[*counter].as_int().unwrap_or(0);
                locals[*counter] = Value::Int(n + 1);
                if n >= *max as u128 {
                    *pc = *exit;
                }
            }
            Op::Bind { dst, part, unit } => {
                let n = here.int(part)?;
                locals[dst.index()] = Value::Msg(MsgRef::Part(n as u32, *unit));
            }
            Op::Plain(s) => plain(env, s, locals, sink)?,
            _ => effects::outward(env, op, locals)?,
        }
    }
    Ok(Flow::End)
}

/// A statement that does not jump.
fn plain(env: &Env, s: &StmtKind, locals: &mut [Value], sink: &mut Vec<u8>) -> Res<()> {
    let here = Env { locals, ..*env };
    match s {
        StmtKind::Set(l, e) => locals[l.index()] = here.eval(e)?,
        StmtKind::SetField(l, path, e) => {
            let v = here.eval(e)?;
            let mut at = &mut locals[l.index()];
            for n in path {
                at = match at {
                    Value::Record(vs) if (*n as usize) < vs.len() => &mut vs[*n as usize],
                    _ => return internal("no such member"),
                };
            }
            *at = v;
        }
        StmtKind::Push(l, e) => {
            let v = here.eval(e)?;
            match &mut locals[l.index()] {
                Value::List(list) => list.push(v),
                _ => return internal("push to no list"),
            }
        }
        StmtKind::Require { cond, kind, place } => {
            if !here.truth(cond)? {
                return Err(Stop::Fault { kind: *kind, place: *place });
            }
        }
        StmtKind::Fault { kind, place } => return Err(Stop::Fault { kind: *kind, place: *place }),
        StmtKind::Emit(Emit::Mark(l)) => locals[l.index()] = Value::Int(sink.len() as u128),
        StmtKind::Emit(e) => outgoing::emit(&here, e, sink)?,
        other => effects::effect(env, other, locals)?,
    }
    Ok(())
}
