//! Filters: the first part of a handler that something keeps on the CPU, for the XDP hook.
//!
//! In: a module for the hook, and handlers that cannot run there. Out: for each a *filter*, a
//! handler of its own. It decides about as many packets as it can, and gives the others to the
//! process, which runs the whole handler. So a filter leaves no trace of a packet that it gives
//! away. It counts only where it is sure that the packet ends in the hook. A packet with a fault is
//! given away, too.

use super::{frames, own_obstacles, sharing, Obstacle, Search};
use crate::desc::{FrameEngine, ParamValue, PortKind, Value};
use crate::ops::Device;
use crate::*;
use std::collections::BTreeSet;

/// A handler with a filter in the hook.
#[derive(Clone, Debug)]
pub struct Split {
    /// The handler, which the CPU runs.
    pub handler: HandlerId,
    /// Its filter, behind the module's own handlers.
    pub filter: HandlerId,
    /// The first thing that keeps the handler on the CPU.
    pub left: Obstacle,
}

/// Adds the filters of handlers to a module. Handlers are left out for which the hook would decide
/// about no packet. What a filter gives away goes to a port without a name ([`is_process`]).
pub fn split(m: &mut Module, handlers: &[HandlerId]) -> Vec<Split> {
    let ports = m.ports.len();
    let (port, flag, index) = (PortId(ports as u32), type_of(m, Ty::Bool), type_of(m, Ty::UInt(32)));
    let mut all = Vec::new();
    for h in handlers {
        let Some(left) = own_obstacles(m, *h).into_iter().find(|o| o.code != "E0674") else { continue };
        let Some(body) = filter_of(m, *h, &Away { port, index, flag }) else { continue };
        if m.ports.len() == ports {
            m.ports.push(process(&m.ports[ports - 1]))
        }
        let (filter, handler) = (HandlerId(m.handlers.len() as u32), &m.handlers[h.index()]);
        let plan = Default::default();
        m.handlers.push(Handler { body, device: Device::Xdp, segment: None, plan, ..handler.clone() });
        match own_obstacles(m, filter).is_empty() && sharing::conflicts(m, filter, &[filter]).is_empty() {
            true => all.push(Split { handler: *h, filter, left }),
            false => drop(m.handlers.pop()),
        }
    }
    all
}

/// Whether packets that are sent there are those that a filter gives to the process.
pub fn is_process(m: &Module, port: PortId) -> bool {
    m.ports.get(port.index()).is_some_and(|p| p.name.is_empty())
}

fn process(like: &Port) -> Port {
    let names = Value::Const(ParamValue::Endpoints(vec![String::new()]));
    let kind = PortKind::Frames { engine: FrameEngine::Loop, names };
    Port { name: String::new(), kind, protocols: Vec::new(), ..like.clone() }
}

fn type_of(m: &mut Module, ty: Ty) -> TyId {
    let at = m.types.iter().position(|t| *t == ty).unwrap_or_else(|| {
        m.types.push(ty);
        m.types.len() - 1
    });
    TyId(at as u32)
}

/// The port and the types with which packets are given away.
struct Away {
    port: PortId,
    index: TyId,
    /// The type of locals that the filter does not use.
    flag: TyId,
}

impl Away {
    fn statements(&self, span: Span) -> [Stmt; 2] {
        let index = Expr { ty: self.index, kind: Box::new(ExprKind::Int(0)) };
        let act = FrameAct::Send { port: self.port, index, mark: None, state: Vec::new(), last: true };
        let give = StmtKind::Frame { frame: LocalId(0), act };
        [Stmt { span, kind: give }, Stmt { span, kind: StmtKind::Return(None) }]
    }
}

/// The body of a handler's filter. `None`: it would decide about no packet.
fn filter_of(m: &Module, handler: HandlerId, away: &Away) -> Option<Body> {
    let h = &m.handlers[handler.index()];
    let On::Frame { port, .. } = h.on else { return None };
    let block = Splitter { m, h, port, away }.block(&h.body.block, true);
    if !decides(&block, away.port).any() {
        return None;
    }
    let mut used = BTreeSet::from([LocalId(0)]);
    walk::stmts(&block, &mut |s| {
        walk::stmt_locals_read(&s.kind, &mut |l| used.extend([l]));
        used.extend(walk::defined(&s.kind).into_iter().flatten());
    });
    let mut locals = h.body.locals.clone();
    for (n, l) in locals.iter_mut().enumerate().filter(|(n, _)| !used.contains(&LocalId(*n as u32))) {
        (l.ty, l.name) = (away.flag, format!("unused{n}"));
    }
    Some(Body { locals, block, selects: Vec::new() })
}

/// The fate of the packets of a filter's block.
struct Decided {
    /// Some go on behind it, or end the handler there.
    falls: bool,
    /// Some end the handler within it.
    ends: bool,
}

impl Decided {
    fn any(&self) -> bool {
        self.falls || self.ends
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn decides(block: &[Stmt], away: PortId) -> Decided {
    let mut ends = false;
    for s in block {
        match &s.kind {
            StmtKind::Frame { act: FrameAct::Send { port, .. }, .. } if *port == away => {
                return Decided { falls: false, ends }
            }
            StmtKind::Return(_) => return Decided { falls: false, ends: true },
            StmtKind::If { then, other, .. } => {
                let (a, b) = (decides(then, away), decides(other, away));
                ends |= a.ends || b.ends;
                if !a.falls && !b.falls {
                    return Decided { falls: false, ends };
                }
            }
            _ => walk::stmts(std::slice::from_ref(s), &mut |s| ends |= matches!(s.kind, StmtKind::Return(_))),
        }
    }
    Decided { falls: true, ends }
}

struct Splitter<'m> {
    m: &'m Module,
    h: &'m Handler,
    port: PortId,
    away: &'m Away,
}

impl Splitter<'_> {
    /// The filter's part of a block. `last`: nothing follows it in its handler.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn block(&self, block: &[Stmt], last: bool) -> Block {
        let mut out = Vec::new();
        let ends = last || frames::leaves(block);
        for (n, s) in block.iter().enumerate() {
            let rest = &block[n..];
            if self.runs(rest) && (is_plain(self.m, rest) || ends && is_sure(self.m, rest)) {
                out.extend_from_slice(rest);
                return out;
            }
            let one = std::slice::from_ref(s);
            match &s.kind {
                StmtKind::If { cond, then, other } if self.tests(s, cond) => {
                    let here = last && n + 1 == block.len();
                    let (then, other) = (self.block(then, here), self.block(other, here));
                    out.push(Stmt { kind: StmtKind::If { cond: cond.clone(), then, other }, ..s.clone() });
                }
                _ if self.runs(one) && is_plain(self.m, one) => out.push(s.clone()),
                _ => {
                    out.extend(self.away.statements(s.span));
                    return out;
                }
            }
        }
        out
    }

    /// Whether nothing keeps statements off the hook.
    fn runs(&self, block: &[Stmt]) -> bool {
        let mut s = Search { m: self.m, h: self.h, port: self.port, called: BTreeSet::new(), found: Vec::new() };
        s.block(block);
        s.found.is_empty()
    }

    fn tests(&self, s: &Stmt, cond: &Expr) -> bool {
        let alone = Stmt { span: s.span, kind: StmtKind::Return(Some(cond.clone())) };
        self.runs(std::slice::from_ref(&alone)) && is_steady(cond)
    }
}

/// Whether an expression has the same value when the process computes it again.
fn is_steady(e: &Expr) -> bool {
    let mut steady = true;
    walk::expr(e, &mut |e| {
        steady &= !matches!(
            &*e.kind,
            ExprKind::State(_)
                | ExprKind::Counter(_)
                | ExprKind::Now
                | ExprKind::FrameTime(_)
                | ExprKind::Random(_)
                | ExprKind::Call(..)
        )
    });
    steady
}

/// Whether statements only set locals and choose.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn is_plain(m: &Module, block: &[Stmt]) -> bool {
    let mut plain = true;
    walk::stmts(block, &mut |s| {
        plain &= match &s.kind {
            StmtKind::Set(..)
            | StmtKind::SetField(..)
            | StmtKind::If { .. }
            | StmtKind::Switch { .. }
            | StmtKind::Loop { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Return(_)
            | StmtKind::Require { .. }
            | StmtKind::Fault { .. } => true,
            StmtKind::For { .. } => frames::broadcast(m, &s.kind).is_none(),
            _ => false,
        };
        walk::stmt_exprs(&s.kind, &mut |e| plain &= is_steady(e));
    });
    plain
}

/// Whether statements may count and send besides, and none of them can fault.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn is_sure(m: &Module, block: &[Stmt]) -> bool {
    let mut sure = true;
    walk::stmts(block, &mut |s| {
        sure &= match &s.kind {
            StmtKind::Count(..)
            | StmtKind::Set(..)
            | StmtKind::SetField(..)
            | StmtKind::If { .. }
            | StmtKind::Switch { .. }
            | StmtKind::Return(_)
            | StmtKind::Frame {
                act: FrameAct::Send { .. } | FrameAct::Set { .. } | FrameAct::Swap { .. } | FrameAct::Checksum { .. },
                ..
            } => true,
            StmtKind::For { .. } => frames::broadcast(m, &s.kind).is_some(),
            _ => false,
        };
        walk::stmt_exprs(&s.kind, &mut |e| sure &= is_steady(e) && !e.may_fault());
    });
    sure
}
