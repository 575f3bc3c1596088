//! Range analysis of text: removes charset and length checks that the text's construction
//! guarantees.
//!
//! In: `all_in(value, set)` and `len(value) < n`. Out: `true` where constants, digits, slices and
//! choices of these prove it, through any local or function. Messages are built with requirements
//! about their texts, such as no line end in a header. Most texts of a program are its own
//! constants, and need no check at run time. `fold` drops the remaining statements.

use crate::*;
use std::collections::HashMap;

/// So many first locals of a handler may be its arguments, signals and `on fault` apart.
const ARGUMENTS: u32 = 2;

pub fn run(m: &mut Module) {
    let presets: Vec<_> = m.protocols.iter().map(|p| p.fault_presets(m) as u32).collect();
    let types = std::mem::take(&mut m.types);
    let mut p = Program { types: &types, funcs: Vec::with_capacity(m.funcs.len()) };
    for f in &mut m.funcs {
        let made = match &mut f.body {
            FuncBody::Body(body) => p.simplify(body, f.params),
            FuncBody::Extern { .. } => Made::ANY,
        };
        p.funcs.push(made);
    }
    for (q, arguments) in m.protocols.iter_mut().zip(presets) {
        if let Some(body) = &mut q.on_log {
            p.simplify(body, 1);
        }
        if let Some(body) = &mut q.on_fault {
            p.simplify(body, arguments);
        }
        for body in [&mut q.on_interim, &mut q.on_answer].into_iter().flatten() {
            p.simplify(body, 1);
        }
    }
    let signals: Vec<u32> = m.signals.iter().map(|s| s.args.len() as u32).collect();
    for h in &mut m.handlers {
        let arguments = match h.on {
            On::Signal(n) => signals.get(n as usize).copied().unwrap_or(u32::MAX),
            On::Message { .. }
            | On::Piece { .. }
            | On::Frame { .. }
            | On::Opened(_)
            | On::Greeting(_)
            | On::Probe(_)
            | On::Reset(_)
            | On::Closed(_)
            | On::Upstream { .. }
            | On::UpstreamOpened(_)
            | On::UpstreamClosed(_)
            | On::Fault
            | On::Start
            | On::End
            | On::Every(_)
            | On::Test(_)
            | On::Check { .. } => ARGUMENTS,
        };
        let arguments = arguments.min(h.body.locals.len() as u32);
        p.simplify(&mut h.body, arguments);
    }
    for i in &mut m.inputs {
        let given = i.given() as u32;
        if let Some(body) = &mut i.body {
            p.simplify(body, given);
        }
    }
    m.types = types;
}

/// The parts of a value of bytes.
#[derive(Clone, Copy, PartialEq)]
struct Made {
    of: ByteSet,
    /// Bytes, at most.
    longest: u64,
}

impl Made {
    const NOTHING: Made = Made { of: ByteSet::EMPTY, longest: 0 };
    const ANY: Made = Made { of: ByteSet::ALL, longest: u64::MAX };

    fn or(self, o: Made) -> Made {
        Made { of: self.of.union(&o.of), longest: self.longest.max(o.longest) }
    }
    fn is_within(self, o: Made) -> bool {
        self.of.is_subset(&o.of) && self.longest <= o.longest
    }
}

struct Program<'a> {
    types: &'a [Ty],
    /// Results of the functions so far. Functions call only those before them.
    funcs: Vec<Made>,
}

impl Program<'_> {
    /// Simplifies a body; what its results are made of.
    fn simplify(&self, body: &mut Body, arguments: u32) -> Made {
        let known = LocalParts::new(self, body, arguments);
        walk::block_exprs_mut(&mut body.block, &mut |e| known.simplify(e));
        let mut all = Made::NOTHING;
        walk::stmts(&body.block, &mut |s| {
            if let StmtKind::Return(e) = &s.kind {
                all = all.or(e.as_ref().map_or(Made::ANY, |e| known.made(e)))
            }
        });
        all
    }
}

/// The parts of a body's locals; of those that are not listed nothing is known.
struct LocalParts<'a> {
    program: &'a Program<'a>,
    locals: HashMap<LocalId, Made>,
}

impl<'a> LocalParts<'a> {
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn new(program: &'a Program, body: &Body, arguments: u32) -> Self {
        let mut known = LocalParts { program, locals: (0..arguments).map(|n| (LocalId(n), Made::ANY)).collect() };
        // First in the order of the text. Then, since a loop may bring values back, until all that
        // is said of a local holds of what it is set to.
        walk::stmts(&body.block, &mut |s| match &s.kind {
            StmtKind::Set(l, e) => {
                let made = known.made(e);
                let before = known.locals.get(l).copied().unwrap_or(Made::NOTHING);
                known.locals.insert(*l, before.or(made));
            }
            kind => {
                for l in walk::defined(kind).into_iter().flatten() {
                    known.locals.insert(l, Made::ANY);
                }
            }
        });
        let mut changed = true;
        while changed {
            changed = false;
            walk::stmts(&body.block, &mut |s| {
                if let StmtKind::Set(l, e) = &s.kind {
                    let said = known.locals.get(l).copied().unwrap_or(Made::ANY);
                    if !known.made(e).is_within(said) {
                        known.locals.insert(*l, Made::ANY);
                        changed = true;
                    }
                }
            });
        }
        known
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn made(&self, e: &Expr) -> Made {
        let Some(Ty::Bytes(max)) = self.program.types.get(e.ty.index()) else { return Made::ANY };
        let made = match &*e.kind {
            ExprKind::Bytes(b) => Made { of: ByteSet::of(b), longest: b.len() as u64 },
            ExprKind::Local(l) => self.locals.get(l).copied().unwrap_or(Made::ANY),
            ExprKind::If(_, a, b) => self.made(a).or(self.made(b)),
            ExprKind::Cast(a) => self.made(a),
            ExprKind::Call(f, _) => self.program.funcs.get(f.index()).copied().unwrap_or(Made::ANY),
            ExprKind::Builtin(f, args) => self.builtin(*f, args),
            _ => Made::ANY,
        };
        Made { longest: made.longest.min(*max), ..made }
    }

    fn builtin(&self, f: Builtin, args: &[Expr]) -> Made {
        match (f, args) {
            (Builtin::TextU64, [n]) => {
                let signed = matches!(self.program.types.get(n.ty.index()), Some(Ty::Int(_)));
                Made { of: ByteSet::of(if signed { b"-0123456789" } else { b"0123456789" }), longest: 20 }
            }
            (Builtin::HttpDate, _) => {
                Made { of: ByteSet::of(b"ADFGJMNOSTW abcdeghilnoprtuvy,:0123456789"), longest: 29 }
            }
            (Builtin::Slice | Builtin::Keep, [from, ..]) => self.made(from),
            (Builtin::Concat, parts) => {
                Made { longest: u64::MAX, ..parts.iter().fold(Made::NOTHING, |all, p| all.or(self.made(p))) }
            }
            _ => Made::ANY,
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn simplify(&self, e: &mut Expr) {
        let holds = match &*e.kind {
            ExprKind::Builtin(Builtin::AllIn, args) => match args.as_slice() {
                [value, set] => {
                    matches!(&*set.kind, ExprKind::Bytes(set) if ByteSet::of_bits(set).is_some_and(|set| self.made(value).of.is_subset(&set)))
                }
                _ => false,
            },
            ExprKind::Binary(BinOp::Lt, a, b) => match (&*a.kind, &*b.kind) {
                (ExprKind::Builtin(Builtin::LenBytes, args), ExprKind::Int(n)) => {
                    args.first().is_some_and(|e| u128::from(self.made(e).longest) < *n)
                }
                _ => false,
            },
            _ => false,
        };
        if holds {
            *e.kind = ExprKind::Bool(true)
        }
    }
}
