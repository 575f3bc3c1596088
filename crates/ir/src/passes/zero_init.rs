//! Sets locals to zero that may be read before they are set on some path.
//!
//! The lowering guards such reads by flags that no analysis here follows. The zero goes right
//! before the first statement of the body that names the local. After the pass, every local is set
//! before it is read. No local is live across a suspension only because of a path that is never
//! taken.

use crate::*;

pub fn run(m: &mut Module) {
    let mut zeros = Vec::new();
    let bodies = bodies(m);
    for (body, preset) in &bodies {
        zeros.push(verify::unset(m, body, *preset))
    }
    let sets: Vec<Vec<(usize, Stmt)>> = bodies
        .iter()
        .zip(&zeros)
        .map(|((body, _), locals)| {
            locals.iter().filter_map(|l| Some((first_use(body, *l)?, set(m, body, *l)?))).collect()
        })
        .collect();
    let mut sets = sets.into_iter();
    m.bodies_mut(&mut |body| {
        let mut inserts = sets.next().unwrap_or_default();
        inserts.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        for (at, s) in inserts {
            body.block.insert(at, s)
        }
    });
}

/// All bodies, in the order of [`Module::bodies_mut`], and how many of their locals are set when
/// they begin.
fn bodies(m: &Module) -> Vec<(Body, usize)> {
    let mut all = Vec::new();
    for f in &m.funcs {
        if let FuncBody::Body(b) = &f.body {
            all.push((b.clone(), f.params as usize))
        }
    }
    for p in &m.protocols {
        if let Some(b) = &p.on_log {
            all.push((b.clone(), 1))
        }
        if let Some(b) = &p.on_fault {
            all.push((b.clone(), p.fault_presets(m)))
        }
        for b in [&p.on_interim, &p.on_answer].into_iter().flatten() {
            all.push((b.clone(), 1))
        }
    }
    for h in &m.handlers {
        let preset = match h.on {
            On::Message { .. }
            | On::Piece { .. }
            | On::Opened(_)
            | On::Greeting(_)
            | On::Probe(_)
            | On::Reset(_)
            | On::Upstream { .. }
            | On::UpstreamOpened(_) => 1,
            On::Fault | On::Closed(_) | On::UpstreamClosed(_) => 2,
            On::Signal(n) => m.signals.get(n as usize).map_or(0, |s| s.args.len()),
            On::Frame { .. } | On::Start | On::End | On::Every(_) | On::Test(_) | On::Check { .. } => 0,
        };
        all.push((h.body.clone(), preset));
    }
    all.extend(m.inputs.iter().filter_map(|i| Some((i.body.clone()?, i.given()))));
    all
}

/// The first statement of the outermost block that names the local, in itself or in its blocks.
fn first_use(body: &Body, local: LocalId) -> Option<usize> {
    body.block.iter().position(|s| {
        let mut found = false;
        walk::stmts(std::slice::from_ref(s), &mut |s| {
            walk::stmt_locals_read(&s.kind, &mut |l| found |= l == local);
            found |= walk::defined(&s.kind).contains(&Some(local));
        });
        found
    })
}

fn set(m: &Module, body: &Body, local: LocalId) -> Option<Stmt> {
    let ty = body.locals.get(local.index())?.ty;
    Some(Stmt { span: Span::default(), kind: StmtKind::Set(local, zero(m, ty)?) })
}

/// The zero of a type, where it has one that can be written.
pub fn zero(m: &Module, ty: TyId) -> Option<Expr> {
    zero_at(m, ty, 0)
}

fn zero_at(m: &Module, ty: TyId, depth: u32) -> Option<Expr> {
    if depth > layout::MAX_DEPTH {
        return None;
    }
    let kind = match m.types.get(ty.index())? {
        Ty::Bool => ExprKind::Bool(false),
        Ty::UInt(_) | Ty::Int(_) => ExprKind::Int(0),
        Ty::Bytes(_) => ExprKind::Bytes(Vec::new()),
        Ty::Option(_) => ExprKind::None,
        Ty::List(..) => ExprKind::MakeList(Vec::new()),
        Ty::Tuple(list) => ExprKind::Make(list.iter().map(|t| zero_at(m, *t, depth + 1)).collect::<Option<_>>()?),
        Ty::Record(r) => ExprKind::Make(
            m.records.get(r.index())?.fields.iter().map(|(_, t)| zero_at(m, *t, depth + 1)).collect::<Option<_>>()?,
        ),
        Ty::Unit | Ty::Endpoint | Ty::Ip | Ty::Msg(_) => return None,
    };
    Some(Expr::new(ty, kind))
}
