//! Lowers a message's tail to a flat program that can live in a view.
//!
//! The program covers the fields from the first that may begin the tail. Its whole state is a
//! program counter and a few slots of fixed size. So it can resume at any byte without earlier
//! bytes.
//!
//! Fields that can be large (streams, long bytes, lists) become runs and loops. Every other field
//! is a segment: the plain parser parses it at once when all its bytes are there. An expression
//! over earlier fields is cut at segment borders. Its largest parts that need one segment only are
//! evaluated while that segment's bytes are there. Slots keep the results (`Local` in the rewritten
//! expressions).

use crate::value::fixed_size;
use std::collections::HashMap;
use wireloom_ir::grammar::tail as split;
use wireloom_ir::*;

/// Index of a slot: a value that outlives the bytes it was read from.
pub type Slot = usize;
/// Expressions to evaluate at the end of a segment, and where they go.
pub type Captures = Vec<(Slot, Expr)>;

#[derive(Clone, Debug)]
pub enum TailOp {
    /// Parse this field of an instance.
    Segment {
        inst: usize,
        field: FieldId,
        segment: usize,
    },
    /// The head ends here. `endless`: the field that is next ends with the connection.
    Begin {
        endless: bool,
    },
    Set(Slot, Expr),
    Jump(usize),
    /// Goes to the target where the condition does not hold.
    Unless(Expr, usize),
    /// Goes to `other` if none of the literals is next.
    Literal {
        values: Vec<Vec<u8>>,
        peek: bool,
        place: PlaceId,
        other: usize,
    },
    /// Goes to `other` if more bytes follow.
    AtEnd {
        place: PlaceId,
        other: usize,
    },
    Run(Run),
    Align {
        to: u32,
        start: Option<Slot>,
        place: PlaceId,
    },
    /// From here on bytes are passed on if this holds. Bytes held since then are known by the slots
    /// of the program's `cuts`.
    Pass(Expr),
    /// The bytes before this point are accepted.
    Commit,
    /// Before an item of the stream of this number, or behind the last one (0): who has asked for
    /// it looks at the bytes before.
    Border(u32),
    /// Notes the position.
    Mark(Slot),
    Fault {
        kind: FaultKind,
        place: PlaceId,
    },
    End,
}

/// Bytes that are passed on as they come.
#[derive(Clone, Debug)]
pub struct Run {
    pub extent: Extent,
    pub min: u64,
    pub max: u64,
    pub class: Option<ByteSet>,
    pub place: PlaceId,
    pub too_long: FaultKind,
    pub bad: FaultKind,
    /// Where its length goes when it is complete, if that is asked for.
    pub length: Option<Slot>,
}

/// A list's form: its element, the most items, and the rule for its end.
struct TailList<'a> {
    element: FieldId,
    max: u32,
    extent: &'a ListExtent,
}

/// A unit as it occurs at one place of the message.
#[derive(Clone, Debug)]
pub struct Inst {
    pub id: UnitId,
    /// Its definition with rewritten expressions.
    pub def: Unit,
    /// Slots of its parameters; empty for the message itself (they are in `ctx`).
    pub params: Vec<Slot>,
    /// Slot of its first position; None: the message itself.
    pub start: Option<Slot>,
    at: HashMap<FieldId, Loc>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Loc {
    Segment(usize),
    /// The slot holds the case taken (u32).
    Case(Slot),
    /// The slot holds the number of items (u32).
    Count(Slot),
    Inst(usize),
    /// Bytes that are gone: the slot holds how many there were (u64).
    Length(Slot),
}

#[derive(Clone, Debug, Default)]
pub struct Program {
    pub ops: Vec<TailOp>,
    pub insts: Vec<Inst>,
    /// By segment; 0 is the head before the program begins.
    pub captures: Vec<Captures>,
    /// The borders among held bytes between passed and dropped ones (u64, from the message's first
    /// byte).
    pub cuts: Vec<Slot>,
    pub slots: Vec<TyId>,
}

/// The head before the program: everything the plain parser has seen.
pub const HEAD: usize = 0;

/// A captured value must fit in this many bytes of a view.
const LARGEST_SLOT: usize = 64 << 10;

struct Compiler<'a> {
    m: &'a Module,
    rule: split::Rule,
    out: Program,
    /// Whether the head may have ended before the current field.
    behind: bool,
    u64: TyId,
    u32: TyId,
    bool: TyId,
}

/// Types that compiled tails need; the module must have them before [`compile`].
pub fn intern_types(m: &mut Module) {
    m.intern(Ty::UInt(64));
    m.intern(Ty::UInt(32));
    m.intern(Ty::Bool);
}

fn type_of(m: &Module, ty: Ty) -> TyId {
    TyId(m.types.iter().position(|t| *t == ty).unwrap_or(0) as u32)
}

/// The tail program of a message; without a tail it is empty.
pub fn compile(m: &Module, message: UnitId) -> Result<Program, String> {
    let unit = m.unit(message);
    if unit.tail as usize >= unit.body.len() {
        return Ok(Program::default());
    }
    let mut c = Compiler {
        m,
        rule: split::rule(m, message),
        out: Program { captures: vec![Vec::new()], ..Program::default() },
        behind: false,
        u64: type_of(m, Ty::UInt(64)),
        u32: type_of(m, Ty::UInt(32)),
        bool: type_of(m, Ty::Bool),
    };
    let root = c.instance(message, Vec::new(), None);
    for f in all_fields(unit, &unit.body[..unit.tail as usize]) {
        c.out.insts[root].at.insert(f, Loc::Segment(HEAD));
    }
    c.fields(root, &unit.body[unit.tail as usize..])?;
    c.emit(TailOp::Commit);
    c.out.ops.push(TailOp::End);
    Ok(c.out)
}

/// These fields, and those in their cases and elements.
fn all_fields(unit: &Unit, fields: &[FieldId]) -> Vec<FieldId> {
    let (mut all, mut todo) = (Vec::new(), fields.to_vec());
    while let Some(f) = todo.pop() {
        all.push(f);
        match &unit.fields[f.index()].kind {
            FieldKind::Switch { cases } => todo.extend(cases.iter().flat_map(|c| c.fields.iter().copied())),
            FieldKind::List { element, .. } => todo.push(*element),
            _ => {}
        }
    }
    all
}

impl Compiler<'_> {
    fn instance(&mut self, id: UnitId, params: Vec<Slot>, start: Option<Slot>) -> usize {
        self.out.insts.push(Inst { id, def: self.m.unit(id).clone(), params, start, at: HashMap::new() });
        self.out.insts.len() - 1
    }

    fn slot(&mut self, ty: TyId) -> Slot {
        self.out.slots.push(ty);
        self.out.slots.len() - 1
    }

    fn here(&self) -> usize {
        self.out.ops.len()
    }

    fn emit(&mut self, op: TailOp) -> usize {
        self.out.ops.push(op);
        self.here() - 1
    }

    /// Sets the target of a jump to the next operation.
    fn land(&mut self, jump: usize) {
        let here = self.here();
        match &mut self.out.ops[jump] {
            TailOp::Jump(t)
            | TailOp::Unless(_, t)
            | TailOp::Literal { other: t, .. }
            | TailOp::AtEnd { other: t, .. } => *t = here,
            _ => {}
        }
    }

    fn local(&self, slot: Slot, ty: TyId) -> Expr {
        Expr::new(ty, ExprKind::Local(LocalId(slot as u32)))
    }

    fn number(&self, n: u64, ty: TyId) -> Expr {
        Expr::new(ty, ExprKind::Int(n as u128))
    }

    /// Whether a field is lowered to runs and loops.
    fn flows(&self, id: UnitId, f: FieldId, depth: u32) -> bool {
        if split::contains(self.m, self.rule, id, f) {
            return true;
        }
        if !self.behind || depth > layout::MAX_DEPTH {
            return false;
        }
        let unit = self.m.unit(id);
        match &unit.fields[f.index()].kind {
            FieldKind::List { .. } | FieldKind::StreamBytes { .. } | FieldKind::StreamUnit { .. } => true,
            FieldKind::Bytes { max, .. } => *max > split::HELD_BYTES && !is_kept(&unit.fields[f.index()]),
            FieldKind::Unit { unit, .. } => self.m.unit(*unit).body.iter().any(|f| self.flows(*unit, *f, depth + 1)),
            FieldKind::Switch { cases } => cases.iter().flat_map(|c| &c.fields).any(|f| self.flows(id, *f, depth + 1)),
            _ => false,
        }
    }

    fn fields(&mut self, inst: usize, list: &[FieldId]) -> Result<(), String> {
        list.iter().try_for_each(|f| self.field(inst, *f))
    }

    fn field(&mut self, inst: usize, f: FieldId) -> Result<(), String> {
        let id = self.out.insts[inst].id;
        let field = self.m.unit(id).fields[f.index()].clone();
        // A value without a reader is not computed, and its operands need not be there.
        if matches!(field.kind, FieldKind::Let { .. }) && !field.value_used {
            return Ok(());
        }
        if split::begins(self.m, self.rule, id, f) {
            self.begin(inst, &field)?;
            self.behind = true;
        }
        if let (FieldKind::Pass { how: PassRule::When(e) }, true) = (&field.kind, self.behind) {
            let mut e = e.clone();
            self.rewrite(&mut e, Scope::of(inst))?;
            self.emit(TailOp::Pass(e));
            let cut = self.slot(self.u64);
            self.out.cuts.push(cut);
            return Ok(());
        }
        if !self.flows(id, f, 0) || is_trimmed(&field) {
            return self.segment(inst, f, &field);
        }
        match &field.kind {
            FieldKind::Bytes { .. } | FieldKind::StreamBytes { .. } => self.run(inst, f, &field),
            FieldKind::Unit { unit, args } => {
                let inner = self.nested(inst, *unit, args)?;
                self.out.insts[inst].at.insert(f, Loc::Inst(inner));
                Ok(())
            }
            FieldKind::StreamUnit { unit, args, until } => {
                let number = if inst == 0 { self.m.stream_number(id, f) } else { 0 };
                self.stream_unit(inst, (*unit, args), until.as_ref(), number)
            }
            FieldKind::List { element, max, extent } => {
                self.list(inst, f, &field, &TailList { element: *element, max: *max, extent })
            }
            FieldKind::Switch { cases } => self.switch(inst, f, &field, cases),
            _ => Err(format!("{}: a field of an unknown kind in a tail", field.name.unwrap_or_default())),
        }
    }

    /// The head ends before this field, unless it is empty. Behind a switch only some cases may
    /// have begun the tail: a second `Begin` does nothing then.
    fn begin(&mut self, inst: usize, field: &Field) -> Result<(), String> {
        let length = match &field.kind {
            FieldKind::Bytes { extent: Extent::Length(e), .. }
            | FieldKind::StreamBytes { extent: Extent::Length(e) } => Some(e),
            _ => None,
        };
        let skip = match length {
            Some(e) => {
                let mut e = e.clone();
                self.rewrite(&mut e, Scope::of(inst))?;
                let zero = self.number(0, e.ty);
                let some = self.binary(BinOp::Ne, e, zero);
                Some(self.emit(TailOp::Unless(some, 0)))
            }
            None => None,
        };
        self.emit(TailOp::Begin { endless: is_endless(field) });
        if let Some(skip) = skip {
            self.land(skip);
        }
        Ok(())
    }

    /// A field that is parsed at once.
    fn segment(&mut self, inst: usize, f: FieldId, field: &Field) -> Result<(), String> {
        if let FieldKind::Align { to } = field.kind {
            let start = self.out.insts[inst].start;
            self.emit(TailOp::Align { to, start, place: field.place });
            return Ok(());
        }
        let segment = self.out.captures.len();
        self.out.captures.push(Vec::new());
        let inside = all_fields(self.m.unit(self.out.insts[inst].id), &[f]);
        for g in &inside {
            self.out.insts[inst].at.insert(*g, Loc::Segment(segment));
        }
        for g in inside {
            let mut field = self.out.insts[inst].def.fields[g.index()].clone();
            let mut result = Ok(());
            walk::field_exprs_mut(&mut field, &mut |e, _| {
                let at = Scope { this: inst, item: None, acc: None, segment: Some(segment) };
                if let Err(x) = self.rewrite(e, at) {
                    result = Err(x);
                }
            });
            result?;
            self.out.insts[inst].def.fields[g.index()] = field;
        }
        self.emit(TailOp::Segment { inst, field: f, segment });
        Ok(())
    }

    /// Bytes that are passed on as they come.
    fn run(&mut self, inst: usize, f: FieldId, field: &Field) -> Result<(), String> {
        let (mut extent, min, max, class) = match &field.kind {
            FieldKind::Bytes { min, max, class, extent, .. } => (extent.clone(), *min, *max, *class),
            FieldKind::StreamBytes { extent } => (extent.clone(), 0, u64::MAX, None),
            _ => return Err(format!("{}: a run of no bytes", field.name.clone().unwrap_or_default())),
        };
        if let Extent::Length(e) = &mut extent {
            self.rewrite(e, Scope::of(inst))?;
        }
        let length = field.value_used.then(|| self.slot(self.u64));
        if let Some(slot) = length {
            self.out.insts[inst].at.insert(f, Loc::Length(slot));
        }
        self.emit(TailOp::Commit);
        self.emit(TailOp::Run(Run {
            extent,
            min,
            max,
            class,
            place: field.place,
            too_long: field.too_long,
            bad: field.bad,
            length,
        }));
        Ok(())
    }

    fn nested(&mut self, outer: usize, id: UnitId, args: &[Expr]) -> Result<usize, String> {
        let mut params = Vec::new();
        for a in args {
            let (mut a, ty) = (a.clone(), a.ty);
            self.rewrite(&mut a, Scope::of(outer))?;
            let slot = self.slot(ty);
            self.emit(TailOp::Set(slot, a));
            params.push(slot);
        }
        let mark = self.slot(self.u64);
        self.emit(TailOp::Mark(mark));
        let inst = self.instance(id, params, Some(mark));
        let body = self.m.unit(id).body.clone();
        self.fields(inst, &body)?;
        Ok(inst)
    }

    /// `number`: the stream's, if its items have a handler.
    fn stream_unit(
        &mut self,
        inst: usize,
        (id, args): (UnitId, &[Expr]),
        until: Option<&Expr>,
        number: u32,
    ) -> Result<(), String> {
        let top = self.emit(TailOp::Commit);
        if number > 0 {
            self.emit(TailOp::Border(number));
        }
        let item = self.nested(inst, id, args)?;
        if let Some(until) = until {
            let mut done = until.clone();
            self.rewrite(&mut done, Scope { item: Some(item), ..Scope::of(inst) })?;
            self.emit(TailOp::Unless(done, top));
        }
        self.emit(TailOp::Commit);
        if number > 0 {
            self.emit(TailOp::Border(0));
        }
        Ok(())
    }

    fn list(&mut self, inst: usize, f: FieldId, field: &Field, list: &TailList) -> Result<(), String> {
        let TailList { element, max, extent } = *list;
        let fault = |kind| TailOp::Fault { kind, place: field.place };
        let count = self.slot(self.u32);
        let zero = self.number(0, self.u32);
        self.emit(TailOp::Set(count, zero));
        // The bound: for a counted list the count, else the maximum.
        let bound = self.slot(self.u64);
        let most = self.number(max as u64, self.u64);
        let mut acc = None;
        match extent {
            ListExtent::Count(n) => {
                let mut n = n.clone();
                self.rewrite(&mut n, Scope::of(inst))?;
                let n = Expr::new(self.u64, ExprKind::Cast(n));
                self.emit(TailOp::Set(bound, n));
                let fits = self.binary(BinOp::Le, self.local(bound, self.u64), most);
                let over = self.emit(TailOp::Unless(fits, 0));
                let go = self.emit(TailOp::Jump(0));
                self.land(over);
                self.emit(fault(field.too_long));
                self.land(go);
            }
            ListExtent::Fold { init, .. } => {
                let mut init = init.clone();
                self.rewrite(&mut init, Scope::of(inst))?;
                let slot = self.slot(self.u64);
                self.emit(TailOp::Set(slot, init));
                acc = Some(slot);
                self.emit(TailOp::Set(bound, most));
            }
            _ => {
                self.emit(TailOp::Set(bound, most));
            }
        }
        let top = self.here();
        let mut exits = self.list_end(inst, field, extent, acc)?;
        let wide = Expr::new(self.u64, ExprKind::Cast(self.local(count, self.u32)));
        let room = self.binary(BinOp::Lt, wide, self.local(bound, self.u64));
        let full = self.emit(TailOp::Unless(room, 0));
        self.field(inst, element)?;
        let one = self.number(1, self.u32);
        let next = Expr::new(self.u32, ExprKind::Binary(BinOp::Add, self.local(count, self.u32), one));
        self.emit(TailOp::Set(count, next));
        if let (ListExtent::Fold { holds, step, .. }, Some(slot)) = (extent, acc) {
            if let Some(holds) = holds {
                let holds = self.over_item(inst, element, acc, holds)?;
                let broken = self.emit(TailOp::Unless(holds, 0));
                let go = self.emit(TailOp::Jump(0));
                self.land(broken);
                self.emit(fault(FaultKind::MALFORMED));
                self.land(go);
            }
            let step = self.over_item(inst, element, acc, step)?;
            self.emit(TailOp::Set(slot, step));
        }
        if !grammar::passed_at_once(self.m, self.out.insts[inst].id, f) {
            self.emit(TailOp::Commit);
        }
        self.emit(TailOp::Jump(top));
        self.land(full);
        if !matches!(extent, ListExtent::Count(_)) {
            self.emit(fault(field.too_long));
        }
        exits.drain(..).for_each(|e| self.land(e));
        self.out.insts[inst].at.insert(f, Loc::Count(count));
        Ok(())
    }

    /// An expression over a list's item and the accumulator.
    fn over_item(&mut self, inst: usize, element: FieldId, acc: Option<Slot>, e: &Expr) -> Result<Expr, String> {
        let mut e = e.clone();
        let item = match self.out.insts[inst].at.get(&element) {
            Some(Loc::Inst(i)) => Some(*i),
            // An item that is parsed at once is read as the field that it is.
            _ => {
                of_element(&mut e, element);
                None
            }
        };
        self.rewrite(&mut e, Scope { item, acc, ..Scope::of(inst) })?;
        Ok(e)
    }

    /// The test for a list's end; answers the jumps that leave the loop.
    fn list_end(
        &mut self,
        inst: usize,
        field: &Field,
        extent: &ListExtent,
        acc: Option<Slot>,
    ) -> Result<Vec<usize>, String> {
        let test = match extent {
            ListExtent::Count(_) => return Ok(Vec::new()),
            ListExtent::Until(u) => {
                TailOp::Literal { values: u.delimiters.clone(), peek: u.peek, place: field.place, other: 0 }
            }
            ListExtent::ToEnd => TailOp::AtEnd { place: field.place, other: 0 },
            ListExtent::Fold { done, .. } => {
                let mut done = done.clone();
                self.rewrite(&mut done, Scope { acc, ..Scope::of(inst) })?;
                TailOp::Unless(done, 0)
            }
        };
        let test = self.emit(test);
        let leave = self.emit(TailOp::Jump(0));
        self.land(test);
        Ok(vec![leave])
    }

    fn switch(&mut self, inst: usize, f: FieldId, field: &Field, cases: &[Case]) -> Result<(), String> {
        let taken = self.slot(self.u32);
        self.out.insts[inst].at.insert(f, Loc::Case(taken));
        let (mut exits, mut closed) = (Vec::new(), false);
        let (before, mut behind) = (self.behind, self.behind);
        for (i, case) in cases.iter().enumerate() {
            self.behind = before;
            let test = match &case.guard {
                Guard::Literal { values, peek } => {
                    Some(TailOp::Literal { values: values.clone(), peek: *peek, place: field.place, other: 0 })
                }
                Guard::When(e) => {
                    let mut e = e.clone();
                    self.rewrite(&mut e, Scope::of(inst))?;
                    Some(TailOp::Unless(e, 0))
                }
                Guard::Else => None,
                Guard::Fault(kind) => {
                    self.emit(TailOp::Fault { kind: *kind, place: field.place });
                    closed = true;
                    break;
                }
            };
            let test = test.map(|t| self.emit(t));
            let n = self.number(i as u64, self.u32);
            self.emit(TailOp::Set(taken, n));
            self.fields(inst, &case.fields)?;
            behind |= self.behind;
            exits.push(self.emit(TailOp::Jump(0)));
            match test {
                Some(t) => self.land(t),
                None => {
                    closed = true;
                    break;
                }
            }
        }
        if !closed {
            self.emit(TailOp::Fault { kind: field.bad, place: field.place });
        }
        self.behind = behind;
        exits.into_iter().for_each(|e| self.land(e));
        Ok(())
    }

    fn binary(&self, op: BinOp, a: Expr, b: Expr) -> Expr {
        Expr::new(self.bool, ExprKind::Binary(op, a, b))
    }

    // ---- expressions ----

    /// Cuts an expression at segment borders.
    fn rewrite(&mut self, e: &mut Expr, at: Scope) -> Result<(), String> {
        let mut needs = Needs::default();
        self.needs(e, at, &mut needs)?;
        if needs.is_constant() {
            return Ok(());
        }
        if let Some(segment) = needs.single() {
            let mut moved = e.clone();
            self.reroot(&mut moved, at);
            if at.segment == Some(segment) {
                *e = moved;
                return Ok(());
            }
            if fixed_size(self.m, e.ty) <= LARGEST_SLOT {
                let slot = self.slot(e.ty);
                self.out.captures[segment].push((slot, moved));
                *e = self.local(slot, e.ty);
                return Ok(());
            }
        }
        if let Some(direct) = self.direct(e, at)? {
            *e = direct;
            return Ok(());
        }
        let mut result = Ok(());
        walk::children_mut(e, &mut |child| {
            if result.is_ok() {
                result = self.rewrite(child, at);
            }
        });
        result
    }

    /// The value of an expression without operands, over slots.
    fn direct(&self, e: &Expr, at: Scope) -> Result<Option<Expr>, String> {
        Ok(Some(match &*e.kind {
            ExprKind::Acc => match at.acc {
                Some(s) => self.local(s, self.u64),
                None => return Err("an accumulator outside a fold".into()),
            },
            ExprKind::UnitParam(root, n) => {
                let inst = at.root(*root).ok_or("a parameter of no unit")?;
                match self.out.insts[inst].params.get(*n as usize) {
                    Some(s) => self.local(*s, e.ty),
                    None => return Err("no such unit parameter".into()),
                }
            }
            ExprKind::Case(p, n) => match self.locate(p, at)? {
                (_, Loc::Case(s), _) => {
                    self.binary(BinOp::Eq, self.local(s, self.u32), self.number(*n as u64, self.u32))
                }
                _ => return Err("case of a tail field that is no switch".into()),
            },
            ExprKind::Count(p) => match self.locate(p, at)? {
                (_, Loc::Count(s), _) => self.local(s, self.u32),
                _ => return Err("count of a tail field that is no list".into()),
            },
            ExprKind::Builtin(Builtin::LenBytes, args) => match args.first().map(|a| &*a.kind) {
                Some(ExprKind::Read(p)) => match self.locate(p, at)? {
                    (_, Loc::Length(s), _) => self.local(s, self.u64),
                    _ => return Ok(None),
                },
                _ => return Ok(None),
            },
            ExprKind::Read(_)
            | ExprKind::Raw(_)
            | ExprKind::Find { .. }
            | ExprKind::CountOf { .. }
            | ExprKind::AnyToken { .. } => return Err("the value of a tail field that is passed on is needed".into()),
            _ => return Ok(None),
        }))
    }

    /// Instance and place of the field at a path, and how many steps lead to the instance.
    fn locate(&self, p: &Path, at: Scope) -> Result<(usize, Loc, usize), String> {
        let mut inst = at.root(p.root).ok_or("a path from nowhere")?;
        for (i, step) in p.steps.iter().enumerate() {
            let Step::Field(f) = step else { return Err("an index into a list of a tail".into()) };
            match self.out.insts[inst].at.get(f) {
                Some(Loc::Inst(next)) if i + 1 < p.steps.len() => inst = *next,
                Some(loc) => return Ok((inst, *loc, i)),
                None => return Err(format!("a tail expression needs field {} of a later part", f.0)),
            }
        }
        Err("a path without steps in a tail".into())
    }

    fn needs(&self, e: &Expr, at: Scope, out: &mut Needs) -> Result<(), String> {
        match (walk::path_of(e), at.segment) {
            // The item of a list that lies in this very segment.
            (Some(Path { root: Root::Item, .. }), Some(s)) => out.segment(s),
            (Some(p), _) => match self.locate(p, at)?.1 {
                Loc::Segment(s) => out.segment(s),
                _ => out.other = true,
            },
            _ => {}
        }
        match (&*e.kind, at.segment) {
            (ExprKind::Acc | ExprKind::UnitParam(Root::Item, _), Some(s)) => out.segment(s),
            (ExprKind::Acc, None) => out.other = true,
            (ExprKind::UnitParam(root, _), _) => match at.root(*root) {
                Some(i) if self.out.insts[i].params.is_empty() => out.segment(HEAD),
                _ => out.other = true,
            },
            _ => {}
        }
        let mut result = Ok(());
        walk::children(e, &mut |child| {
            if result.is_ok() {
                result = self.needs(child, at, out);
            }
        });
        result
    }

    /// Makes paths start at the instance whose segment they are evaluated in.
    fn reroot(&self, e: &mut Expr, at: Scope) {
        if let Some((_, _, skip)) = walk::path_of(e)
            .filter(|p| p.root != Root::Item || at.segment.is_none())
            .and_then(|p| self.locate(p, at).ok())
        {
            match &mut *e.kind {
                ExprKind::Read(p) | ExprKind::Count(p) | ExprKind::Raw(p) | ExprKind::Case(p, _) => {
                    reroot_path(p, skip)
                }
                ExprKind::Find { list, .. } | ExprKind::CountOf { list, .. } | ExprKind::AnyToken { list, .. } => {
                    reroot_path(list, skip)
                }
                _ => {}
            }
        }
        walk::children_mut(e, &mut |child| self.reroot(child, at));
    }
}

/// Bytes behind the head's end that are parsed at once, since the grammar may read them directly
/// behind their field; any number up to that.
fn is_kept(field: &Field) -> bool {
    is_trimmed(field)
        || field.value_used && matches!(field.kind, FieldKind::Bytes { max, .. } if max <= split::KEPT_BYTES)
}

fn is_endless(field: &Field) -> bool {
    match &field.kind {
        FieldKind::Bytes { extent, .. } | FieldKind::StreamBytes { extent } => {
            matches!(extent, Extent::Close | Extent::ToEnd)
        }
        FieldKind::List { extent, .. } => matches!(extent, ListExtent::ToEnd),
        _ => false,
    }
}

/// The trimmed bytes are known when the whole field is there.
fn is_trimmed(field: &Field) -> bool {
    matches!(field.kind, FieldKind::Bytes { trim: Some(_), .. })
}

/// Paths from the item as paths from the unit that has the list.
fn of_element(e: &mut Expr, element: FieldId) {
    walk::expr_mut(e, &mut |e| {
        let path = match &mut *e.kind {
            ExprKind::Read(p) | ExprKind::Count(p) | ExprKind::Raw(p) | ExprKind::Case(p, _) => p,
            ExprKind::Find { list, .. } | ExprKind::CountOf { list, .. } | ExprKind::AnyToken { list, .. } => list,
            _ => return,
        };
        if path.root == Root::Item {
            path.root = Root::This;
            path.steps.insert(0, Step::Field(element));
        }
    });
}

fn reroot_path(p: &mut Path, skip: usize) {
    p.root = Root::This;
    p.steps.drain(..skip);
}

/// Where an expression stands: instances of its roots, and the segment it is evaluated in.
#[derive(Clone, Copy)]
struct Scope {
    this: usize,
    item: Option<usize>,
    acc: Option<Slot>,
    segment: Option<usize>,
}

impl Scope {
    fn of(this: usize) -> Scope {
        Scope { this, item: None, acc: None, segment: None }
    }

    fn root(&self, r: Root) -> Option<usize> {
        match r {
            Root::This => Some(self.this),
            Root::Item => self.item,
            Root::Local(_) => None,
        }
    }
}

/// The operands of an expression.
#[derive(Default)]
struct Needs {
    segments: Vec<usize>,
    /// Slots: parameters, cases, counts, accumulators.
    other: bool,
}

impl Needs {
    fn segment(&mut self, s: usize) {
        if !self.segments.contains(&s) {
            self.segments.push(s);
        }
    }

    fn is_constant(&self) -> bool {
        self.segments.is_empty() && !self.other
    }

    fn single(&self) -> Option<usize> {
        match (&self.segments[..], self.other) {
            ([s], false) => Some(*s),
            _ => None,
        }
    }
}
