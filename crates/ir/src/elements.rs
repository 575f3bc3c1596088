//! The graph of a program's elements: instances, the wires between them, and their inputs.
//!
//! A handler or an input gives a packet to a wire by [`StmtKind::Output`]. The wire leads to a
//! target. The sender does not see the target's changes of the packet. No target leads back to
//! itself. After the pass [`crate::passes::inline_elements`], the body of an inlined input stands
//! in its senders. The other inputs are compiled once, and senders jump to them.

use crate::*;

/// An instance of an element. An instance that stands in several wirings, each with other nodes
/// behind it, is here once for each. All of these share states, tables and counters.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    /// Names of the instances around it, and its own: `edge.count`.
    pub name: String,
    /// The element's own name: `Count`.
    pub kind: String,
    /// The compound element that holds it. None: the app.
    pub parent: Option<ElementId>,
}

/// From an output to the target of its packets. One for each place of an array of outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Wire {
    /// None: a handler or wiring of the app.
    pub from: Option<ElementId>,
    /// The output, `y` or `y[1]`; for an app, the target's name.
    pub out: String,
    pub to: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// An input, and the place where it is an array of `in`s (0 where it is none).
    Input { input: InputId, index: u32 },
    /// An instance of a frame port or of a queue.
    Port { port: PortId, index: u32 },
}

impl Target {
    /// The input, where it is one.
    pub fn input(self) -> Option<InputId> {
        match self {
            Target::Input { input, .. } => Some(input),
            Target::Port { .. } => None,
        }
    }
}

/// The code for the packets of a wire: an element's, or nodes of a wiring of the app or of a
/// compound element.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The element's `in`, or the output that the nodes follow.
    pub name: String,
    /// None: nodes of the app.
    pub element: Option<ElementId>,
    pub span: Span,
    pub unit: UnitId,
    /// It is an array of `in`s.
    pub indexed: bool,
    /// The fields of the packet's state that its senders give.
    pub state: Vec<PacketFieldId>,
    /// Local 0 is the packet (a `Msg` of the unit), local 1 its mark (u32). Local 2 of an array is
    /// the index of the input that it arrived at (u32). Then comes a local for each field of
    /// `state`. It ends behind its last statement, without
    /// a return. None: it stands in each of its senders.
    pub body: Option<Body>,
    /// Worst-case steps, by the bounds pass.
    pub steps: u64,
}

impl Input {
    /// Locals that its sender gives.
    pub fn given(&self) -> usize {
        self.first_field() + self.state.len()
    }

    /// The first local that is a field of the packet's state.
    pub fn first_field(&self) -> usize {
        2 + usize::from(self.indexed)
    }
}

impl Module {
    /// Where a wire leads, if it leads to an input.
    pub fn input_of(&self, wire: WireId) -> Option<InputId> {
        self.wires.get(wire.index())?.to.input()
    }

    /// The body of an input that is joined to.
    pub fn input_body(&self, id: InputId) -> Option<&Body> {
        self.inputs.get(id.index())?.body.as_ref()
    }

    /// Inputs that a block gives packets to, each as often as it does.
    pub fn outputs(&self, block: &Block) -> Vec<InputId> {
        let mut found = Vec::new();
        walk::stmts(block, &mut |s| {
            if let StmtKind::Output { wire, .. } = &s.kind {
                found.extend(self.input_of(*wire))
            }
        });
        found
    }

    /// All inputs, senders before their targets; those on a circle are left out.
    pub fn inputs_in_order(&self) -> Vec<InputId> {
        let targets: Vec<Vec<InputId>> =
            self.inputs.iter().map(|i| i.body.as_ref().map_or(vec![], |b| self.outputs(&b.block))).collect();
        let mut senders = vec![0usize; self.inputs.len()];
        for t in targets.iter().flatten() {
            senders[t.index()] += 1
        }
        let mut order: Vec<InputId> =
            (0..self.inputs.len() as u32).map(InputId).filter(|i| senders[i.index()] == 0).collect();
        let mut at = 0;
        while let Some(i) = order.get(at).copied() {
            at += 1;
            for t in &targets[i.index()] {
                senders[t.index()] -= 1;
                if senders[t.index()] == 0 {
                    order.push(*t)
                }
            }
        }
        order
    }

    /// Whether an input, or an input reached from it, uses a table.
    pub fn input_uses_tables(&self, id: InputId) -> bool {
        let mut uses = false;
        if let Some(body) = self.input_body(id) {
            self.reached(&body.block, &mut |b| walk::stmts(b, &mut |s| uses |= s.kind.table().is_some()))
        }
        uses
    }

    /// Calls `f` for a block, and for all blocks that its packets may reach.
    pub fn reached(&self, block: &Block, f: &mut dyn FnMut(&Block)) {
        f(block);
        let (mut open, mut seen) = (self.outputs(block), vec![false; self.inputs.len()]);
        while let Some(i) = open.pop() {
            let Some(body) = self.input_body(i).filter(|_| !std::mem::replace(&mut seen[i.index()], true)) else {
                continue;
            };
            f(&body.block);
            open.extend(self.outputs(&body.block));
        }
    }
}

/// Whether a statement changes a frame itself.
pub fn changes_frame(s: &StmtKind) -> bool {
    matches!(s, StmtKind::Frame { act, .. } if act.changes())
}
