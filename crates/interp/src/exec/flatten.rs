//! Lowers structured bodies to flat code with jumps. A handler suspended at an `Await` is then a
//! program counter and its locals.

use super::code::{Act, Code, Op, Out, OutEdit};
use wireloom_ir::*;

/// A whole body.
pub fn body(m: &Module, b: &Body) -> Code {
    let mut f =
        Flattener { m, locals: &b.locals, code: Code { ops: Vec::new(), locals: b.locals.len() }, loops: Vec::new() };
    f.block(&b.block);
    let mut code = f.code;
    hold_calls(&mut code.ops);
    code
}

struct Loop {
    /// Jumps to fix up: `break`s and `continue`s.
    breaks: Vec<usize>,
    continues: Vec<usize>,
}

struct Flattener<'a> {
    m: &'a Module,
    locals: &'a [Local],
    code: Code,
    loops: Vec<Loop>,
}

impl Flattener<'_> {
    fn emit(&mut self, op: Op) -> usize {
        self.code.ops.push(op);
        self.code.ops.len() - 1
    }

    /// The number of the protocol of a message to a member of a conversation.
    fn spoken(&self, to: Peer, protocol: Option<ProtocolId>) -> u32 {
        self.m.spoken(to, protocol).map_or(0, |p| p.0)
    }

    fn here(&self) -> usize {
        self.code.ops.len()
    }

    fn hidden(&mut self) -> usize {
        self.code.locals += 1;
        self.code.locals - 1
    }

    fn land(&mut self, at: usize, target: usize) {
        match &mut self.code.ops[at] {
            Op::Jump(t) | Op::Unless(_, t) | Op::ForTest { exit: t, .. } | Op::Round { exit: t, .. } => *t = target,
            _ => {}
        }
    }

    fn block(&mut self, b: &Block) {
        b.iter().for_each(|s| self.stmt(&s.kind));
    }

    fn stmt(&mut self, s: &StmtKind) {
        match s {
            StmtKind::If { cond, then, other } => self.branch(cond, then, other),
            StmtKind::Switch { on, cases, default } => self.switch(on, cases, default),
            StmtKind::For { var, from, to, body, .. } => self.counted(*var, from, to, body),
            StmtKind::Loop { max, body } => self.bounded(*max, body),
            StmtKind::Break | StmtKind::Continue => {
                let jump = self.emit(Op::Jump(usize::MAX));
                if let Some(l) = self.loops.last_mut() {
                    if matches!(s, StmtKind::Break) {
                        l.breaks.push(jump)
                    } else {
                        l.continues.push(jump)
                    }
                }
            }
            StmtKind::TableUpdate { table, key, entry, body, place } => {
                let body = self.inner(body);
                self.emit(Op::Update { table: *table, key: key.clone(), entry: *entry, body, place: *place });
            }
            StmtKind::Call { port, index, msg, within, response_args, clauses } => {
                let msg = self.out(msg);
                let (within, args) = (within.clone(), response_args.clone());
                self.emit(Op::Call {
                    port: *port,
                    index: index.clone(),
                    msg,
                    within,
                    args,
                    clauses: clauses.clone(),
                    hold: false,
                    hold_req: false,
                });
            }
            StmtKind::Wait { table, key, within } => {
                let (key, within) = (key.clone(), within.clone());
                self.emit(Op::Wait { table: *table, key, within, hold_req: false });
            }
            StmtKind::AwaitBody => {
                self.emit(Op::AwaitBody { hold_req: false });
            }
            StmtKind::SetPiece(e) => {
                self.emit(Op::SetPiece(e.clone()));
            }
            StmtKind::DropBody => {
                self.emit(Op::DropBody);
            }
            StmtKind::Await { hold, hold_req, .. } => {
                self.emit(Op::Await { hold: *hold, hold_req: *hold_req });
            }
            StmtKind::Reply { msg, close } => {
                let msg = self.out(msg);
                self.emit(Op::Reply { msg, close: *close });
            }
            StmtKind::Send { port, index, msg } => {
                let msg = self.out(msg);
                self.emit(Op::Send { port: *port, index: index.clone(), msg });
            }
            StmtKind::Tell { to, protocol, msg, place } => {
                let (msg, proto) = (self.out(msg), self.spoken(*to, *protocol));
                self.emit(Op::Tell { to: *to, proto, msg, place: *place });
            }
            StmtKind::Ask { upstream, protocol, msg, within, matched } => {
                let (msg, proto) = (self.out(msg), self.spoken(Peer::Upstream(*upstream), *protocol));
                let (upstream, within, matched) = (*upstream, within.clone(), matched.clone());
                self.emit(Op::Ask { upstream, proto, msg, within, matched, hold: false, hold_req: false });
            }
            StmtKind::Deliver { to, protocol, msg, place } => {
                let (msg, proto) = (self.out(msg), self.spoken(Peer::Client, *protocol));
                self.emit(Op::Deliver { to: to.clone(), proto, msg, place: *place });
            }
            StmtKind::Render { msg, dst } => {
                let msg = self.out(msg);
                self.emit(Op::Render { msg, dst: *dst });
            }
            StmtKind::Reread { msg, dst, ok } => {
                let msg = self.out(msg);
                self.emit(Op::Reread { msg, dst: *dst, ok: *ok });
            }
            StmtKind::Frame { act, .. } => {
                let act = match act {
                    FrameAct::Insert { before, parts, place, .. } => {
                        Act::Insert { before: *before, parts: self.parts(parts), place: *place }
                    }
                    FrameAct::Payload { layer, body, place, .. } => {
                        Act::Payload { layer: *layer, body: self.inner(body), place: *place }
                    }
                    plain => Act::Plain(plain.clone()),
                };
                self.emit(Op::Frame(act));
            }
            StmtKind::SendFrame { port, index, parts, .. } => {
                let parts = self.parts(parts);
                self.emit(Op::SendFrame { port: *port, index: index.clone(), parts });
            }
            StmtKind::BindPart { dst, part } => match self.locals.get(dst.index()).map(|l| self.m.ty(l.ty)) {
                Some(Ty::Msg(unit)) => {
                    let unit = *unit;
                    self.emit(Op::Bind { dst: *dst, part: part.clone(), unit });
                }
                _ => {
                    self.emit(Op::Plain(s.clone()));
                }
            },
            plain => {
                self.emit(Op::Plain(plain.clone()));
            }
        }
    }

    fn branch(&mut self, cond: &Expr, then: &Block, other: &Block) {
        let test = self.emit(Op::Unless(cond.clone(), 0));
        self.block(then);
        if other.is_empty() {
            let end = self.here();
            return self.land(test, end);
        }
        let skip = self.emit(Op::Jump(0));
        let at = self.here();
        self.land(test, at);
        self.block(other);
        let end = self.here();
        self.land(skip, end);
    }

    fn switch(&mut self, on: &Expr, cases: &[(Vec<u64>, Block)], default: &Block) {
        let at = self.emit(Op::Jump(0));
        let (mut table, mut exits) = (Vec::new(), Vec::new());
        for (values, block) in cases {
            let here = self.here();
            table.extend(values.iter().map(|v| (*v, here)));
            self.block(block);
            exits.push(self.emit(Op::Jump(0)));
        }
        let otherwise = self.here();
        self.block(default);
        let end = self.here();
        exits.into_iter().for_each(|e| self.land(e, end));
        self.code.ops[at] = Op::Switch { on: on.clone(), cases: table, default: otherwise };
    }

    fn counted(&mut self, var: LocalId, from: &Expr, to: &Expr, body: &Block) {
        let bound = self.hidden();
        self.emit(Op::SetHidden(bound, to.clone()));
        self.emit(Op::Plain(StmtKind::Set(var, from.clone())));
        let top = self.emit(Op::ForTest { var, to: bound, exit: 0 });
        self.loops.push(Loop { breaks: Vec::new(), continues: Vec::new() });
        self.block(body);
        let step = self.emit(Op::ForStep { var, top });
        self.close_loop(top, step);
    }

    fn bounded(&mut self, max: u64, body: &Block) {
        let counter = self.hidden();
        let zero = Expr::new(TyId(0), ExprKind::Bool(false));
        self.emit(Op::SetHidden(counter, zero));
        let top = self.emit(Op::Round { counter, max, exit: 0 });
        self.loops.push(Loop { breaks: Vec::new(), continues: Vec::new() });
        self.block(body);
        self.emit(Op::Jump(top));
        self.close_loop(top, top);
    }

    fn close_loop(&mut self, test: usize, next: usize) {
        let end = self.here();
        self.land(test, end);
        if let Some(l) = self.loops.pop() {
            l.breaks.into_iter().for_each(|j| self.land(j, end));
            l.continues.into_iter().for_each(|j| self.land(j, next));
        }
    }

    /// Code of a block inside a statement: it shares the locals, and nothing in it suspends.
    fn inner(&mut self, b: &Block) -> Code {
        let mut f = Flattener {
            m: self.m,
            locals: self.locals,
            code: Code { ops: Vec::new(), locals: self.code.locals },
            loops: Vec::new(),
        };
        f.block(b);
        self.code.locals = self.code.locals.max(f.code.locals);
        f.code
    }

    fn parts(&mut self, parts: &[Part]) -> Vec<(Option<UnitId>, Code)> {
        parts.iter().map(|p| (p.unit, self.inner(&p.body))).collect()
    }

    fn out(&mut self, msg: &Outgoing) -> Out {
        match msg {
            Outgoing::Pass { msg, edits } => {
                Out::Pass { msg: *msg, edits: edits.iter().map(|e| self.edit(e)).collect() }
            }
            Outgoing::Built { unit, body } => Out::Built { unit: *unit, body: self.inner(body) },
            Outgoing::Nothing => Out::Nothing,
        }
    }

    fn edit(&mut self, e: &Edit) -> OutEdit {
        match e {
            Edit::Set { field, cond, body } => {
                OutEdit::Set { field: field.clone(), cond: cond.clone(), body: self.inner(body) }
            }
            Edit::Remove { list, index, cond } => {
                OutEdit::Remove { list: list.clone(), index: *index, cond: cond.clone() }
            }
            Edit::Append { list, cond, body } => {
                OutEdit::Append { list: list.clone(), cond: cond.clone(), body: self.inner(body) }
            }
        }
    }
}

/// Gives every call the flags of the `Await` that waits for it: the next one in the code.
fn hold_calls(ops: &mut [Op]) {
    let marks: Vec<(usize, bool, bool)> = ops
        .iter()
        .enumerate()
        .filter_map(|(i, op)| match op {
            Op::Await { hold, hold_req } => Some((i, *hold, *hold_req)),
            _ => None,
        })
        .collect();
    for (i, op) in ops.iter_mut().enumerate() {
        let Some((_, h, r)) = marks.iter().find(|m| m.0 > i).or(marks.first()) else { continue };
        match op {
            Op::Call { hold, hold_req, .. } | Op::Ask { hold, hold_req, .. } => (*hold, *hold_req) = (*h, *r),
            Op::Wait { hold_req, .. } | Op::AwaitBody { hold_req } => *hold_req = *r,
            _ => {}
        }
    }
}
