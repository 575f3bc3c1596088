//! Bytes of the stack that compiled bodies take for large values, with the functions and inputs
//! that they lead to.
//!
//! Each local has a place of its own. So has each large value that an expression makes on its way,
//! as code without optimisation keeps them. Values that are read in place take none. Small values
//! are not counted: the stacks ([`crate::desc::STACK`]) have room for them besides [`LIMIT`].

use crate::*;

/// The most bytes of a handler or function, with all that it calls.
pub const LIMIT: u64 = 1 << 20;
/// Smaller values are not counted.
const SMALL: u64 = 256;
/// A function with more than this is not made part of its callers: its stack is taken only while
/// it runs.
const APART: u64 = 16 << 10;

/// Bytes of a value, as compiled code holds it. Bytes are a slice.
pub fn value(m: &Module, ty: TyId) -> u64 {
    layout_of(m, ty, 0).0
}

/// Size and alignment.
fn layout_of(m: &Module, ty: TyId, depth: u32) -> (u64, u64) {
    if depth > layout::MAX_DEPTH {
        return (0, 1);
    }
    let members = |types: &mut dyn Iterator<Item = TyId>| {
        let (mut size, mut align) = (0u64, 1);
        for t in types {
            let (n, a) = layout_of(m, t, depth + 1);
            size = up(size, a).saturating_add(n);
            align = align.max(a);
        }
        (up(size, align).max(1), align)
    };
    match m.types.get(ty.index()) {
        None | Some(Ty::Unit | Ty::Bool) => (1, 1),
        Some(Ty::UInt(b) | Ty::Int(b)) => (layout::int_bytes(*b), layout::int_bytes(*b)),
        Some(Ty::Bytes(_)) => (16, 8),
        Some(Ty::Endpoint) => (20, 2),
        Some(Ty::Ip) => (16, 1),
        Some(Ty::Msg(_)) => (72, 8),
        Some(Ty::Option(t)) => {
            let (n, a) = layout_of(m, *t, depth + 1);
            (up(a.saturating_add(n), a), a)
        }
        Some(Ty::List(t, max)) => {
            let (n, a) = layout_of(m, *t, depth + 1);
            let align = a.max(4);
            (up(up(4, a).saturating_add(n.saturating_mul(u64::from((*max).max(1)))), align), align)
        }
        Some(Ty::Record(r)) => match m.records.get(r.index()) {
            Some(r) => members(&mut r.fields.iter().map(|f| f.1)),
            None => (1, 1),
        },
        Some(Ty::Tuple(list)) => members(&mut list.iter().copied()),
    }
}

/// A multiple of the alignment, a power of two; the largest number if there is none.
fn up(n: u64, align: u64) -> u64 {
    n.checked_next_multiple_of(align).unwrap_or(u64::MAX)
}

/// Whether a value is read where it is: a local, a parameter, or `state` without bytes, or a part
/// of one.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn is_in_place(m: &Module, e: &Expr) -> bool {
    match &*e.kind {
        ExprKind::Local(_) | ExprKind::Param(_) => true,
        ExprKind::State(_) | ExprKind::Session(_) => !layout::has_bytes(m, e.ty),
        ExprKind::Get(a, _) | ExprKind::Unwrap(a) | ExprKind::ListGet(a, _) => is_in_place(m, a),
        _ => false,
    }
}

/// Whether an expression is `state` or a `session`, or a part of one: only that part is read.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn is_stored(e: &Expr) -> bool {
    match &*e.kind {
        ExprKind::State(_) | ExprKind::Session(_) => true,
        ExprKind::Get(a, _) | ExprKind::Unwrap(a) | ExprKind::ListGet(a, _) => is_stored(a),
        _ => false,
    }
}

/// The stack of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackNeed {
    /// All of it.
    pub bytes: u64,
    /// The statement that takes most, and how much; the body's own span if its parameters do.
    pub most: (u64, Span),
}

/// A body that needs more than [`LIMIT`], though none that it leads to does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge {
    pub name: String,
    pub need: StackNeed,
}

/// The stacks of all bodies.
pub struct Stacks<'m> {
    m: &'m Module,
    funcs: Vec<Option<StackNeed>>,
    /// The stacks of the bodies of inputs, without those that they lead to.
    inputs: Vec<StackNeed>,
}

impl<'m> Stacks<'m> {
    pub fn new(m: &'m Module) -> Self {
        let mut all =
            Stacks { m, funcs: vec![None; m.funcs.len()], inputs: vec![StackNeed::default(); m.inputs.len()] };
        (0..m.funcs.len()).for_each(|f| all.func(FuncId(f as u32)));
        for i in 0..m.inputs.len() {
            if let Some(b) = m.input_body(InputId(i as u32)) {
                all.inputs[i] = all.own(b, Span::default())
            }
        }
        all
    }

    /// Whether a function is not to be made part of its callers.
    pub fn is_apart(&self, f: FuncId) -> bool {
        self.known(f).bytes > APART
    }

    fn known(&self, f: FuncId) -> StackNeed {
        self.funcs.get(f.index()).copied().flatten().unwrap_or_default()
    }

    pub fn too_large(&mut self) -> Vec<TooLarge> {
        let m = self.m;
        let mut found: Vec<TooLarge> = Vec::new();
        for (n, f) in m.funcs.iter().enumerate() {
            let need = self.known(FuncId(n as u32));
            let FuncBody::Body(b) = &f.body else { continue };
            if need.bytes > LIMIT && !self.calls_beyond(&b.block) {
                found.push(TooLarge { name: f.name.clone(), need });
            }
        }
        let handlers = m.handlers.iter().map(|h| (&h.name, h.span, &h.body));
        let protocols =
            m.protocols.iter().flat_map(|p| p.bodies().into_iter().flatten().map(|b| (&p.name, Span::default(), b)));
        for (name, span, body) in handlers.chain(protocols) {
            let need = self.with_inputs(body, span);
            if need.bytes > LIMIT && !self.calls_beyond(&body.block) {
                found.push(TooLarge { name: name.clone(), need });
            }
        }
        found
    }

    /// A handler with the inputs that it leads to: some of them become parts of it.
    fn with_inputs(&mut self, body: &Body, span: Span) -> StackNeed {
        let mut need = self.own(body, span);
        let (mut open, mut seen) = (self.m.outputs(&body.block), vec![false; self.inputs.len()]);
        while let Some(i) = open.pop() {
            if std::mem::replace(&mut seen[i.index()], true) {
                continue;
            }
            let own = self.inputs[i.index()];
            need.bytes = need.bytes.saturating_add(own.bytes);
            need.most = if own.most.0 > need.most.0 { own.most } else { need.most };
            open.extend(self.m.input_body(i).into_iter().flat_map(|b| self.m.outputs(&b.block)));
        }
        need
    }

    /// Whether a block calls a function that is beyond the limit by itself.
    fn calls_beyond(&self, block: &Block) -> bool {
        walk::calls(block).iter().any(|f| self.known(*f).bytes > LIMIT)
    }

    fn func(&mut self, f: FuncId) {
        let m = self.m;
        let Some(None) = self.funcs.get(f.index()) else { return };
        // Functions do not recurse; a wrong module cannot loop here.
        self.funcs[f.index()] = Some(StackNeed::default());
        if let FuncBody::Body(b) = &m.funcs[f.index()].body {
            self.funcs[f.index()] = Some(self.own(b, m.funcs[f.index()].span));
        }
    }

    /// A body with the functions that it calls.
    fn own(&mut self, body: &Body, span: Span) -> StackNeed {
        let mut deepest = 0;
        for f in walk::calls(&body.block) {
            self.func(f);
            deepest = deepest.max(self.known(f).bytes);
        }
        let locals = body.locals.iter().fold(0u64, |n, l| n.saturating_add(large(value(self.m, l.ty))));
        let mut need = StackNeed { bytes: locals.saturating_add(deepest), most: (0, span) };
        walk::stmts(&body.block, &mut |s| {
            let made = self.stmt(&s.kind);
            need.bytes = need.bytes.saturating_add(made);
            // A local is the place of the value that it is set to.
            let set = walk::defined(&s.kind).into_iter().flatten().filter_map(|l| body.locals.get(l.index()));
            let all = set.fold(made, |n, l| n.saturating_add(large(value(self.m, l.ty))));
            if all > need.most.0 && s.span.line > 0 {
                need.most = (all, s.span)
            }
        });
        need
    }

    /// Bytes that a statement makes by itself, its blocks not counted.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn stmt(&self, s: &StmtKind) -> u64 {
        let m = self.m;
        if let StmtKind::Set(_, e) | StmtKind::SetState(_, e) | StmtKind::SetSession(_, e) = s {
            if let ExprKind::MakeList(items) = &*e.kind {
                return items
                    .iter()
                    .fold(0, |n, i| n.saturating_add(large(value(m, i.ty))).saturating_add(self.expr(i)));
            }
        }
        let mut sum = 0u64;
        walk::stmt_exprs(s, &mut |e| sum = sum.saturating_add(self.expr(e)));
        let copies = |n: u64, ty: TyId| n.saturating_mul(self.levels(ty));
        sum.saturating_add(match s {
            StmtKind::SetState(_, e) | StmtKind::SetSession(_, e) => {
                let fault = if e.may_fault() { large(value(m, e.ty)) } else { 0 };
                fault.saturating_add(if layout::has_bytes(m, e.ty) { self.levels(e.ty) } else { 0 })
            }
            StmtKind::Await { .. } => 0,
            _ => match s.table_stmt() {
                Some(t) => {
                    let table = &m.tables[t.table().index()];
                    let (keys, values) = table_copies(&t);
                    copies(keys, table.key).saturating_add(copies(values, table.value))
                }
                None => 0,
            },
        })
    }

    /// Bytes that an expression makes on its way.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn expr(&self, e: &Expr) -> u64 {
        match &*e.kind {
            ExprKind::ListLen(a) | ExprKind::IsSome(a) if is_stored(a) => return self.indices(a),
            _ if is_stored(e) => {
                let loaded = if layout::has_bytes(self.m, e.ty) { self.levels(e.ty).saturating_mul(2) } else { 0 };
                return loaded.saturating_add(self.indices(e));
            }
            _ => {}
        }
        let mut sum = 0u64;
        walk::children(e, &mut |c| sum = sum.saturating_add(self.expr(c)));
        sum.saturating_add(self.made(e))
    }

    /// Of a part that is read where it lies, the indices are made.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn indices(&self, e: &Expr) -> u64 {
        match &*e.kind {
            ExprKind::Get(a, _) | ExprKind::Unwrap(a) => self.indices(a),
            ExprKind::ListGet(a, i) => self.indices(a).saturating_add(self.expr(i)),
            _ => 0,
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn made(&self, e: &Expr) -> u64 {
        let of = |e: &Expr| large(value(self.m, e.ty));
        let given = |args: &[Expr]| args.iter().fold(0u64, |n, a| n.saturating_add(of(a)));
        let levels = |args: &[&Expr]| args.iter().fold(0u64, |n, a| n.saturating_add(self.levels(a.ty)));
        match &*e.kind {
            ExprKind::Local(_) | ExprKind::Param(_) => 0,
            ExprKind::Get(..) | ExprKind::Unwrap(_) | ExprKind::IsSome(_) | ExprKind::ListLen(_) => 0,
            ExprKind::ListGet(a, _) if is_in_place(self.m, a) => 0,
            ExprKind::ListGet(a, _) => of(a).saturating_add(of(e)),
            ExprKind::Call(_, args) => of(e).saturating_add(given(args)),
            ExprKind::Binary(_, a, b) => levels(&[a, b]),
            ExprKind::Builtin(_, args) => {
                levels(&args.iter().collect::<Vec<_>>()).saturating_add(of(e).saturating_mul(2))
            }
            ExprKind::Read(_) => of(e).saturating_mul(2),
            _ => of(e),
        }
    }

    /// A value and all in it, since helpers give each part by value.
    fn levels(&self, ty: TyId) -> u64 {
        self.levels_at(ty, 0)
    }

    fn levels_at(&self, ty: TyId, depth: u32) -> u64 {
        let own = large(value(self.m, ty));
        if own == 0 || depth > layout::MAX_DEPTH {
            return own;
        }
        let inner = |t: &TyId| self.levels_at(*t, depth + 1);
        own.saturating_add(match self.m.ty(ty) {
            Ty::Option(t) | Ty::List(t, _) => inner(t),
            Ty::Record(r) => self.m.records[r.index()].fields.iter().fold(0u64, |n, (_, t)| n.saturating_add(inner(t))),
            Ty::Tuple(ts) => ts.iter().fold(0u64, |n, t| n.saturating_add(inner(t))),
            Ty::Unit | Ty::Bool | Ty::UInt(_) | Ty::Int(_) | Ty::Bytes(_) | Ty::Endpoint | Ty::Ip | Ty::Msg(_) => 0,
        })
    }
}

/// How often a statement has a table's key, and its value, beside the locals.
fn table_copies(s: &TableStmt) -> (u64, u64) {
    match s {
        TableStmt::Len { .. } => (0, 0),
        TableStmt::Remove { .. } => (3, 0),
        TableStmt::Get { .. } => (3, 2),
        TableStmt::Next { .. } => (2, 2),
        TableStmt::Put { .. } => (3, 3),
        TableStmt::Update { .. }
        | TableStmt::Insert { .. }
        | TableStmt::Delete { .. }
        | TableStmt::Push { .. }
        | TableStmt::Pop { .. } => (3, 5),
    }
}

fn large(bytes: u64) -> u64 {
    if bytes < SMALL {
        0
    } else {
        bytes
    }
}
