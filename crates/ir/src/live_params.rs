//! Parameters whose values may change while a program runs: only code that runs again and again
//! reads them.
//!
//! In: a module. Out: a switch for each parameter. The address of a listening port, and the first
//! value of a `state`, have left the parameter's value in other memory. So has all that the start
//! reads, a list of servers included. Apps with frame ports have no such parameters: theirs are
//! parts of programs in the XDP hook and on other cores.

use crate::desc::{PortKind, Value};
use crate::{walk, Expr, ExprKind, FuncBody, Module, On};

/// Of each parameter, whether it may change.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn of(m: &Module) -> Vec<bool> {
    let has_frames = m.ports.iter().any(|p| matches!(p.kind, PortKind::Frames { .. }));
    let mut live = vec![!has_frames; m.params.len()];
    let mut at_start = vec![false; m.funcs.len()];
    let mut fixed = vec![false; m.ports.len()];
    m.merges.iter().for_each(|g| fixed[g.to.index()] = true);
    // Points of rings are hashed when a list of servers is new only.
    let mut open: Vec<usize> = m.ports.iter().filter_map(|p| p.consistent).map(|f| f.index()).collect();
    open.iter().for_each(|f| at_start[*f] = true);
    let mut read = |e: &Expr, open: &mut Vec<usize>| match &*e.kind {
        ExprKind::Param(p) => live[p.index()] = false,
        ExprKind::PortLen(p)
        | ExprKind::Ketama(p, _)
        | ExprKind::Consistent(p, _)
        | ExprKind::Modula(p, _)
        | ExprKind::Maglev(p, _) => {
            fixed[p.index()] = true;
        }
        ExprKind::Call(f, _) if !std::mem::replace(&mut at_start[f.index()], true) => open.push(f.index()),
        _ => {}
    };
    m.states.iter().filter_map(|s| s.init.as_ref()).for_each(|e| walk::expr(e, &mut |e| read(e, &mut open)));
    for h in m.handlers.iter().filter(|h| matches!(h.on, On::Start)) {
        walk::block_exprs(&h.body.block, &mut |e| read(e, &mut open));
    }
    while let Some(f) = open.pop() {
        if let FuncBody::Body(body) = &m.funcs[f].body {
            walk::block_exprs(&body.block, &mut |e| read(e, &mut open));
        }
    }
    for (port, fixed) in m.ports.iter().zip(fixed) {
        let (PortKind::Listen(value) | PortKind::Connect(value) | PortKind::Frames { names: value, .. }) = &port.kind;
        if let (Value::Param(p), true) = (value, fixed || !port.kind.is_connect()) {
            live[*p as usize] = false;
        }
    }
    live
}
