//! Puts elements into their senders: an output becomes the body of the input that its wire leads
//! to.
//!
//! In: the graph as it was lowered. Out: handlers that hold what becomes of their packets. An input
//! of one sender is put there. An input of at most [`BUDGET`] statements, those put into it
//! included, is put into every sender. A larger one is kept, once, and its outputs stay: backends
//! join to it. So what elements take grows with their number, not with the number of ways through
//! them. Outputs to ports become sends.
//!
//! A target has the packet for itself: where it changes the frame, it stands between a
//! [`FrameAct::Save`] and a [`FrameAct::Restore`]. The `copies` pass drops those that nobody needs.

use crate::elements::changes_frame;
use crate::*;

/// Statements that are put into more than one sender.
const BUDGET: usize = 64;
/// Blocks in one another; C compilers, too, have a limit.
const DEPTH: usize = 48;

pub fn run(m: &mut Module) {
    let order = m.inputs_in_order();
    // A circle is the verifier's to tell; where inputs stand in their senders the pass has run.
    if order.len() < m.inputs.len() || m.inputs.iter().any(|i| i.body.is_none()) {
        return;
    }
    let mut uses = vec![0usize; m.inputs.len()];
    m.bodies(&mut |b| {
        for i in m.outputs(&b.block) {
            uses[i.index()] += 1
        }
    });
    let mut pass = Inline {
        wires: std::mem::take(&mut m.wires),
        inputs: std::mem::take(&mut m.inputs),
        uses,
        budget: BUDGET,
        known: vec![InlinedInput::default(); order.len()],
        queues: (0..m.ports.len() as u32).map(PortId).filter(|p| m.is_queue(*p)).collect(),
        packet: m.packet.clone(),
    };
    for id in order.into_iter().rev() {
        let Some(mut body) = pass.inputs[id.index()].body.take() else { continue };
        pass.body(&mut body);
        pass.know(id, &body);
        pass.inputs[id.index()].body = Some(body);
    }
    for h in &mut m.handlers {
        pass.body(&mut h.body)
    }
    (m.wires, m.inputs) = (pass.wires, pass.inputs);
    drop_unjoined(m);
}

/// Statements of a handler that holds all that its packets reach.
const WHOLE: usize = 2000;

/// Puts all inputs that a handler's packets reach into it, as far as it then has at most [`WHOLE`]
/// statements: for devices that cannot join.
pub fn whole(m: &mut Module, handler: HandlerId) {
    if m.outputs(&m.handlers[handler.index()].body.block).is_empty() {
        return;
    }
    let order = m.inputs_in_order();
    let mut pass = Inline {
        wires: m.wires.clone(),
        inputs: m.inputs.clone(),
        uses: vec![0; m.inputs.len()],
        budget: WHOLE,
        known: vec![InlinedInput::default(); m.inputs.len()],
        queues: (0..m.ports.len() as u32).map(PortId).filter(|p| m.is_queue(*p)).collect(),
        packet: m.packet.clone(),
    };
    for id in order.into_iter().rev() {
        let Some(mut body) = pass.inputs[id.index()].body.take() else { continue };
        pass.body(&mut body);
        pass.know(id, &body);
        pass.inputs[id.index()].body = Some(body);
    }
    let mut body = m.handlers[handler.index()].body.clone();
    pass.body(&mut body);
    let mut size = 0;
    walk::stmts(&body.block, &mut |_| size += 1);
    if size <= WHOLE {
        body.selects.clear();
        m.handlers[handler.index()].body = body;
        super::copies::run(m);
    }
}

/// Inputs that no output leads to any more have no bodies.
fn drop_unjoined(m: &mut Module) {
    let mut joined = vec![false; m.inputs.len()];
    for h in &m.handlers {
        let mut open = m.outputs(&h.body.block);
        while let Some(i) = open.pop() {
            if std::mem::replace(&mut joined[i.index()], true) {
                continue;
            }
            open.extend(m.input_body(i).map_or(vec![], |b| m.outputs(&b.block)));
        }
    }
    for (i, joined) in m.inputs.iter_mut().zip(joined) {
        if !joined {
            i.body = None
        }
    }
}

/// The facts about an input whose targets have been put into it.
#[derive(Clone, Default)]
struct InlinedInput {
    inlined: bool,
    depth: usize,
    changes: bool,
}

struct Inline {
    wires: Vec<Wire>,
    inputs: Vec<Input>,
    /// Outputs that lead to each input, as lowered.
    uses: Vec<usize>,
    /// Statements that are put into more than one sender.
    budget: usize,
    known: Vec<InlinedInput>,
    /// Ports that take the mark with the packet.
    queues: Vec<PortId>,
    /// The fields of the state of packets.
    packet: Vec<PacketField>,
}

impl Inline {
    fn know(&mut self, id: InputId, body: &Body) {
        let (mut size, mut changes) = (0, false);
        walk::stmts(&body.block, &mut |s| {
            size += 1;
            changes |= changes_frame(&s.kind)
                || matches!(s.kind, StmtKind::Output { fresh: true, .. })
                || self.target(&s.kind).is_some_and(|t| self.known[t.index()].changes);
        });
        let depth = depth(&body.block);
        self.known[id.index()] = InlinedInput {
            inlined: (size <= self.budget || self.uses[id.index()] == 1) && depth < DEPTH,
            depth,
            changes,
        };
    }

    fn target(&self, s: &StmtKind) -> Option<InputId> {
        let StmtKind::Output { wire, .. } = s else { return None };
        self.wires.get(wire.index())?.to.input()
    }

    fn body(&self, body: &mut Body) {
        let mut copies = 0;
        walk::stmts(&body.block, &mut |s| {
            if let StmtKind::Frame { act: FrameAct::Save { copy }, .. } = &s.kind {
                copies = copies.max(copy + 1)
            }
        });
        let mut site = Site { pass: self, locals: &mut body.locals, copies, depth: 0 };
        site.block(&mut body.block);
    }
}

/// The body that is put into.
struct Site<'a> {
    pass: &'a Inline,
    locals: &'a mut Vec<Local>,
    /// Pairs of [`FrameAct::Save`] and [`FrameAct::Restore`] so far.
    copies: u32,
    depth: usize,
}

impl Site<'_> {
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn block(&mut self, block: &mut Block) {
        for mut s in std::mem::take(block) {
            self.depth += 1;
            walk::stmt_blocks_mut(&mut s.kind, &mut |b| self.block(b));
            self.depth -= 1;
            match s.kind {
                StmtKind::Output { wire, frame, mark, state, fresh, .. } => {
                    self.output((wire, fresh), (frame, mark, state), s.span, block)
                }
                _ => block.push(s),
            }
        }
    }

    fn output(
        &mut self,
        (wire, fresh): (WireId, bool),
        given: (LocalId, Expr, Vec<Carried>),
        span: Span,
        out: &mut Block,
    ) {
        let (frame, mark, state) = given;
        let stmt = |kind| Stmt { span, kind };
        let Some(to) = self.pass.wires.get(wire.index()).map(|w| w.to) else { return };
        let (id, index) = match to {
            Target::Port { port, index } => {
                let index = Expr::new(mark.ty, ExprKind::Int(index.into()));
                let queue = self.pass.queues.contains(&port);
                let mark = Some(mark).filter(|m| queue && *m.kind != ExprKind::Int(0));
                let state = if queue { state } else { Vec::new() };
                return out.push(stmt(StmtKind::Frame {
                    frame,
                    act: FrameAct::Send { port, index, mark, state, last: false },
                }));
            }
            Target::Input { input, index } => (input, index),
        };
        let known = &self.pass.known[id.index()];
        let body =
            self.pass.inputs[id.index()].body.as_ref().filter(|_| known.inlined && self.depth + known.depth < DEPTH);
        let copy = self.copies;
        let kept = matches!(out.last(), Some(Stmt { kind: StmtKind::Frame { act: FrameAct::Save { .. }, .. }, .. }));
        let keeps = (known.changes || fresh) && !kept;
        if keeps {
            self.copies += 1;
            out.push(stmt(StmtKind::Frame { frame, act: FrameAct::Save { copy } }));
        }
        match body {
            Some(body) => {
                if fresh {
                    out.push(stmt(StmtKind::Frame { frame, act: FrameAct::Parse }))
                }
                let (input, place) = (&self.pass.inputs[id.index()], Expr::new(mark.ty, ExprKind::Int(index.into())));
                let mut given = vec![(1, mark), (2, place)];
                given.truncate(input.first_field() - 1);
                for (k, f) in input.state.iter().enumerate() {
                    let value = state.iter().find(|c| c.field == *f).map(|c| &c.value);
                    let value = value.unwrap_or(&self.pass.packet[f.index()].init).clone();
                    given.push((input.first_field() + k, value))
                }
                self.put(body, (frame, &given), span, out)
            }
            None => out.push(stmt(StmtKind::Output { wire, frame, mark, state, last: false, fresh })),
        }
        if keeps {
            out.push(stmt(StmtKind::Frame { frame, act: FrameAct::Restore { copy } }))
        }
    }

    /// A copy of a body, with locals of its own. The frame is the sender's; of the locals that the
    /// sender gives, those that the body asks for are set before it.
    fn put(&mut self, body: &Body, (frame, given): (LocalId, &[(usize, Expr)]), span: Span, out: &mut Block) {
        let (mut block, mut asked) = (body.block.clone(), vec![false; body.locals.len()]);
        walk::block_locals_mut(&mut block, &mut |l| asked[l.index()] = true);
        let mut own = vec![frame; body.locals.len()];
        for (n, local) in body.locals.iter().enumerate().skip(1) {
            if n > given.len() || asked[n] {
                own[n] = LocalId(self.locals.len() as u32);
                self.locals.push(local.clone())
            }
        }
        walk::block_locals_mut(&mut block, &mut |l| *l = own[l.index()]);
        let (copies, mut most) = (self.copies, 0);
        walk::stmts_mut(&mut block, &mut |s| {
            if let StmtKind::Frame { act: FrameAct::Save { copy } | FrameAct::Restore { copy }, .. } = &mut s.kind {
                most = most.max(*copy + 1);
                *copy += copies;
            }
        });
        self.copies += most;
        for (n, value) in given.iter().filter(|(n, _)| asked[*n]) {
            out.push(Stmt { span, kind: StmtKind::Set(own[*n], value.clone()) })
        }
        out.extend(block);
    }
}

/// Blocks in one another.
fn depth(block: &Block) -> usize {
    let mut most = 0;
    for s in block {
        walk::stmt_blocks(&s.kind, &mut |b| most = most.max(depth(b) + 1))
    }
    most
}
