//! Worst-case steps of each handler. A statement or operation is one step, and so is a byte that a
//! builtin, a comparison or an emission may scan. Loops multiply by their bounds. Parsing is not
//! counted, because it is linear in the bytes received.

use crate::ops::Steps;
use crate::walk::Scope;
use crate::*;

pub fn run(m: &mut Module) {
    let mut cost = Cost::new(m);
    let steps: Vec<u64> = m.handlers.iter().map(|h| cost.block(&h.body.block, &h.body.locals)).collect();
    let inputs: Vec<u64> = (0..m.inputs.len() as u32).map(|i| cost.input(InputId(i))).collect();
    for (h, n) in m.handlers.iter_mut().zip(steps) {
        h.steps = n
    }
    for (i, n) in m.inputs.iter_mut().zip(inputs) {
        i.steps = n
    }
}

/// The bound of a loop's steps, all rounds together. None: it is no loop.
pub fn of_loop(m: &Module, s: &StmtKind, locals: &[Local]) -> Option<u64> {
    matches!(s, StmtKind::For { .. } | StmtKind::Loop { .. }).then(|| Cost::new(m).stmt(s, locals))
}

/// The bound of a function's steps.
pub fn of_func(m: &Module, f: FuncId) -> u64 {
    Cost::new(m).func(f)
}

/// Steps of an operator or a builtin, by the bytes that each operand may have.
fn operation(steps: Steps, sizes: &[u64]) -> u64 {
    match steps {
        Steps::One => 1,
        Steps::Shorter => sum(1, sizes.iter().copied().min().unwrap_or(0)),
        Steps::Bytes => sizes.iter().fold(1, |n, s| sum(n, *s)),
        Steps::Search => {
            let longest = sizes.iter().fold(1, |n, s| n.max(*s));
            longest.saturating_mul(sizes.get(1).map_or(1, |n| (*n).max(1)))
        }
    }
}

struct Cost<'a> {
    m: &'a Module,
    /// Functions do not recurse; one under way counts as 0 so that a wrong module cannot loop here.
    funcs: Vec<Option<u64>>,
    /// As for functions.
    inputs: Vec<Option<u64>>,
}

fn sum(a: u64, b: u64) -> u64 {
    a.saturating_add(b)
}

impl<'a> Cost<'a> {
    fn new(m: &'a Module) -> Self {
        Cost { m, funcs: vec![None; m.funcs.len()], inputs: vec![None; m.inputs.len()] }
    }

    fn input(&mut self, id: InputId) -> u64 {
        let m = self.m;
        let (Some(body), Some(known)) = (m.input_body(id), self.inputs.get(id.index())) else { return 0 };
        if let Some(n) = known {
            return *n;
        }
        self.inputs[id.index()] = Some(0);
        let n = self.block(&body.block, &body.locals);
        self.inputs[id.index()] = Some(n);
        n
    }

    fn block(&mut self, block: &Block, locals: &[Local]) -> u64 {
        block.iter().fold(0, |n, s| sum(n, self.stmt(&s.kind, locals)))
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn stmt(&mut self, s: &StmtKind, locals: &[Local]) -> u64 {
        let mut own = 1u64;
        walk::stmt_exprs(s, &mut |e| own = sum(own, self.expr(e, locals)));
        match s {
            StmtKind::If { then, other, .. } => sum(own, self.block(then, locals).max(self.block(other, locals))),
            StmtKind::Switch { cases, default, .. } => {
                let worst = cases.iter().fold(self.block(default, locals), |n, (_, b)| n.max(self.block(b, locals)));
                sum(own, worst)
            }
            StmtKind::For { max, body, .. } | StmtKind::Loop { max, body } => {
                sum(own, max.saturating_mul(sum(1, self.block(body, locals))))
            }
            StmtKind::TableGet { key, .. }
            | StmtKind::TableRemove { key, .. }
            | StmtKind::TableUpdate { key, .. }
            | StmtKind::TablePut { key, .. } => {
                own = sum(own, layout::size(self.m, key.ty));
                if let StmtKind::TablePut { value, .. } = s {
                    own = sum(own, layout::size(self.m, value.ty))
                }
                if let StmtKind::TableUpdate { body, .. } = s {
                    own = sum(own, self.block(body, locals))
                }
                own
            }
            StmtKind::Emit(e) => match e {
                Emit::Bytes(b) => sum(own, layout::bytes_in(self.m, b.ty)),
                Emit::UInt { .. } | Emit::Number { .. } | Emit::Varint(_) => own,
                Emit::Items { bytes, .. } => sum(own, layout::bytes_in(self.m, bytes.ty).saturating_mul(2)),
                // The most bytes of a message that is built.
                Emit::InOrder { .. } | Emit::Whole { .. } => sum(own, 2 * (16 << 20)),
                Emit::Mark(_) => own,
                Emit::Begins { with, .. } => with.iter().fold(own, |n, e| sum(n, layout::bytes_in(self.m, e.ty))),
            },
            StmtKind::Output { wire, .. } => sum(own, self.m.input_of(*wire).map_or(0, |i| self.input(i))),
            StmtKind::Log(list) => list.iter().fold(own, |n, e| sum(n, layout::bytes_in(self.m, e.ty))),
            StmtKind::Parse { bytes, .. } => sum(own, layout::bytes_in(self.m, bytes.ty)),
            _ => match walk::outgoing(s) {
                Some(msg) => sum(own, self.message(msg, locals)),
                None => own,
            },
        }
    }

    fn message(&mut self, msg: &Outgoing, locals: &[Local]) -> u64 {
        let mut n = 0u64;
        walk::outgoing_blocks(msg, &mut |b| n = sum(n, self.block(b, locals)));
        let Outgoing::Pass { msg, edits } = msg else { return n };
        // A removal looks at every item of its list.
        for e in edits {
            if let Edit::Remove { cond, .. } = e {
                let path = grammar::edit_path(*msg, e);
                let items = self.m.list_at(&path, Scope::locals(locals)).map_or(1, |(u, f, _)| self.list_max(u, f));
                n = sum(n, items.saturating_mul(self.expr(cond, locals)));
            }
        }
        sum(n, edits.len() as u64)
    }

    fn list_max(&self, u: UnitId, f: FieldId) -> u64 {
        match &self.m.unit(u).fields[f.index()].kind {
            FieldKind::List { max, .. } => *max as u64,
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Bytes { .. }
            | FieldKind::Literal { .. }
            | FieldKind::Flag { .. }
            | FieldKind::Unit { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Switch { .. }
            | FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => 1,
        }
    }

    fn expr(&mut self, e: &Expr, locals: &[Local]) -> u64 {
        let mut n = 0u64;
        walk::children(e, &mut |c| n = sum(n, self.expr(c, locals)));
        sum(n, self.own(e, locals))
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn own(&mut self, e: &Expr, locals: &[Local]) -> u64 {
        use ExprKind::*;
        let bytes = |e: &Expr| layout::bytes_in(self.m, e.ty);
        match &*e.kind {
            Int(_) | Bool(_) | Bytes(_) | Local(_) | Param(_) | Acc | None => 0,
            Unary(..) | Binary(..) | Builtin(..) => e.kind.operation().map_or(1, |(row, args)| {
                let sizes: Vec<u64> = args.iter().map(|a| bytes(a)).collect();
                operation(row.steps, &sizes)
            }),
            Call(f, _) => sum(1, self.func(*f)),
            Find { list, name } | CountOf { list, name } => self.search(list, name, false, locals),
            AnyToken { list, name, .. } => self.search(list, name, true, locals),
            Ketama(_, k) => sum(32, bytes(k)),
            Consistent(..) => 32,
            _ => 1,
        }
    }

    /// Every item's name is compared; for tokens every value is scanned as well.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn search(&self, list: &Path, name: &Expr, values: bool, locals: &[Local]) -> u64 {
        let Some((u, f, element)) = self.m.list_at(list, Scope::locals(locals)) else { return 1 };
        let field_max = |unit: UnitId, f: FieldId| match &self.m.unit(unit).fields[f.index()].kind {
            FieldKind::Bytes { max, .. } => *max,
            _ => 0,
        };
        let (names, value) = match self.m.name_and_value(u, element) {
            Some((unit, name, value)) => (field_max(unit, name), value.map_or(0, |v| field_max(unit, v))),
            None => (0, 0),
        };
        let item = sum(sum(1, names.min(layout::bytes_in(self.m, name.ty))), if values { value } else { 0 });
        self.list_max(u, f).saturating_mul(item)
    }

    fn func(&mut self, f: FuncId) -> u64 {
        let m = self.m;
        let (Some(func), Some(known)) = (m.funcs.get(f.index()), self.funcs.get(f.index())) else { return 1 };
        if let Some(n) = known {
            return *n;
        }
        self.funcs[f.index()] = Some(0);
        let n = match &func.body {
            FuncBody::Body(b) => self.block(&b.block, &b.locals),
            FuncBody::Extern { .. } => 1,
        };
        self.funcs[f.index()] = Some(n);
        n
    }
}
