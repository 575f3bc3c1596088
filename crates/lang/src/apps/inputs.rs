//! The graph of packets: the targets of the wires. In: a packet at an output, and the nodes that
//! follow it. Out: an output in the sender's code, a wire, and an input of the IR. All senders
//! share one lowered input.
//!
//! An input is an `in` of an instance, or nodes of a wiring (`where`, `match`, …) behind an output.
//! Proofs about a packet in its sender do not hold in the input, with two exceptions. The input
//! knows whether the packet has just arrived ([`Lower::arrival`]), and which headers may have been
//! removed.

use super::arrays::instance_at;
use super::scope::{AppName, AppScope};
use super::wire_ends::{Around, Does, From, Pending};
use crate::body::{Kind, Lower};
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::ty::{Ty, U32};
use crate::units::findings::source;
use crate::val::Val;
use ir::{LocalId, StmtKind};
use std::collections::BTreeSet;
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, ExprKind, Ident, Node, NodeKind, Span};
use wireloom_syntax::Diagnostic;

/// Most inputs of a program.
const MOST_INPUTS: usize = 16 << 10;

/// The input that a packet is given to. It is made if its key is new.
struct Destination {
    key: String,
    name: String,
    element: u32,
    does: Does,
}

impl Compiler<'_> {
    /// The number of an instance in a wiring, from 1 on: `key` names its wires.
    pub fn element_number(&mut self, parent: u32, name: &str, kind: &str, key: &str) -> u32 {
        let known = (parent, format!("{name} {key}"));
        if let Some(n) = self.element_numbers.get(&known) {
            return *n;
        }
        let around = element_id(parent);
        let name = match around.and_then(|p| self.m.elements.get(p.index())) {
            Some(p) => format!("{}.{name}", p.name),
            None => name.to_string(),
        };
        self.m.elements.push(ir::Element { name, kind: kind.to_string(), parent: around });
        let n = self.m.elements.len() as u32;
        self.element_numbers.insert(known, n);
        n
    }

    /// Lowers the inputs that packets reach from here, until none is left to be lowered.
    pub fn behind_handlers(&mut self, app: &str) {
        loop {
            self.loops(app);
            let Some(n) = self.inputs.iter().position(|i| !i.lowered) else { break };
            self.inputs[n].lowered = true;
            self.input(app, n);
        }
    }

    /// Checks the whole graph, once all of it is lowered.
    pub fn check_graph(&mut self) {
        self.circles();
        self.held_outputs();
        self.unused_ways();
    }

    /// Packets given, while an entry of a table is held, to an element that uses a table.
    fn held_outputs(&mut self) {
        let mut found: Vec<Span> = Vec::new();
        self.m.bodies(&mut |b| {
            ir::walk::stmts(&b.block, &mut |s| {
                if let StmtKind::TableUpdate { body, .. } = &s.kind {
                    ir::walk::stmts(body, &mut |s| {
                        if let StmtKind::Output { wire, .. } = &s.kind {
                            if self.m.input_of(*wire).is_some_and(|to| self.m.input_uses_tables(to)) {
                                found.push(source(s.span))
                            }
                        }
                    });
                }
            })
        });
        for span in found {
            let d = Diagnostic::error(
                "E0710",
                span,
                "this gives a packet to an element that uses a table while an entry is held by `update`",
            )
            .label("not here");
            self.report(d.hint("move it before or behind the `update`; a `var` can keep its values"));
        }
    }

    fn input(&mut self, app: &str, n: usize) {
        let i = &self.inputs[n];
        let (id, does, around, span, arrival, gone) =
            (i.id, i.does.clone(), i.around.clone(), i.span, i.arrival, i.gone.clone());
        let unit = self.m.inputs[id.index()].unit;
        let name = match element_id(around.element) {
            Some(e) => format!("element {}", self.m.elements[e.index()].name),
            None => format!("app {app}"),
        };
        let place = match &does {
            Does::Element(e) => format!("element {}", self.m.elements[e.element as usize - 1].name),
            Does::Nodes(_) => format!("{name}: {}", self.m.inputs[id.index()].name),
        };
        let (outer, said, again) = (self.enter(&around), self.diags.len(), self.m.inputs[id.index()].body.is_some());
        let mut l = super::frames::begin(self, around.module, place);
        (l.outlets, l.arrival) = (around.outlets, arrival);
        let p = l.new_local("p", &Ty::Msg(unit));
        l.mark = Some(l.new_local("mark", &U32));
        l.marked = true;
        let at = does.places().map(|count| {
            let index = l.new_local("index", &U32);
            l.bounds.insert(index, count - 1);
            l.local_expr(index)
        });
        let fields = l.cx.m.inputs[id.index()].state.clone();
        for f in fields {
            let field = &l.cx.m.packet[f.index()];
            let (name, ty) = (super::packet_fields::short(&field.name).to_string(), field.ty);
            let local = l.new_local_of(&name, ty);
            l.fields.insert(f, local);
        }
        l.gone = gone.into_iter().map(|layer| (p, layer)).collect();
        let v = Val::path(Ty::Msg(unit), build::msg(p));
        let made = match &does {
            Does::Element(e) => l.enter_element(e, v, at, span),
            Does::Nodes(nodes) => l.flow(nodes, v, span),
        };
        l.cx.settle(made, span);
        let body = l.body();
        self.leave(outer);
        self.m.inputs[id.index()].body = Some(body);
        if again {
            self.said_again(said);
        }
    }

    /// Sees names as they are around nodes; returns the old scope.
    pub fn enter(&mut self, a: &Around) -> (AppScope, u32) {
        (std::mem::replace(&mut self.app, a.app.clone()), std::mem::replace(&mut self.element, a.element))
    }

    pub fn leave(&mut self, (app, element): (AppScope, u32)) {
        (self.app, self.element) = (app, element);
    }

    /// Drops repeated errors: the same code was lowered once more.
    pub fn said_again(&mut self, from: usize) {
        let new = self.diags.split_off(from);
        for d in new {
            if !self.diags.iter().any(|o| o.code == d.code && o.span() == d.span()) {
                self.diags.push(d)
            }
        }
    }

    /// Packets that would go round for ever.
    fn circles(&mut self) {
        let order: BTreeSet<ir::InputId> = self.m.inputs_in_order().into_iter().collect();
        let left: Vec<ir::InputId> =
            (0..self.m.inputs.len() as u32).map(ir::InputId).filter(|i| !order.contains(i)).collect();
        // Each remaining input has a sender that remains, too: go back from one to the next until
        // one comes again.
        let Some(mut at) = left.first().copied() else { return };
        let mut seen = vec![];
        while !seen.contains(&at) {
            seen.push(at);
            let Some((sender, _)) = left.iter().find_map(|s| Some((*s, self.output_to(*s, at)?))) else { return };
            at = sender;
        }
        // The one that stands first in the source is where the circle begins.
        let circle = &seen[seen.iter().position(|i| *i == at).unwrap_or(0)..];
        let Some(first) = circle.iter().copied().min() else { return };
        let Some(span) = circle.iter().find_map(|s| self.output_to(*s, first)) else { return };
        let input = &self.m.inputs[first.index()];
        let name = input.element.map_or(&input.name, |e| &self.m.elements[e.index()].name).clone();
        self.leads_back(&name, span);
    }

    /// Messages would come again to where they come from.
    pub fn leads_back(&mut self, name: &str, span: Span) -> Reported {
        let d = Diagnostic::error("E0635", span, format!("this wiring leads back to `{name}`, which it comes from"));
        self.report(d.note("messages would go round for ever").hint("end it elsewhere, or let it come back by another `in`; packets that come again by the same one go through a `queue` and a timer"))
    }

    /// Where an input gives packets to another.
    fn output_to(&self, from: ir::InputId, to: ir::InputId) -> Option<Span> {
        let mut found = None;
        ir::walk::stmts(&self.m.input_body(from)?.block, &mut |s| {
            if let StmtKind::Output { wire, .. } = &s.kind {
                if self.m.input_of(*wire) == Some(to) {
                    found = Some(source(s.span))
                }
            }
        });
        found
    }

    fn wire(&mut self, from: From, to: ir::Target) -> ir::WireId {
        let wire = ir::Wire { from: element_id(from.element), out: from.out, to };
        let next = ir::WireId(self.m.wires.len() as u32);
        let wires = &mut self.m.wires;
        *self.wire_ids.entry(format!("{:?} {} {:?}", wire.from, wire.out, wire.to)).or_insert_with(|| {
            wires.push(wire);
            next
        })
    }
}

fn element_id(number: u32) -> Option<ir::ElementId> {
    number.checked_sub(1).map(ir::ElementId)
}

impl Lower<'_, '_> {
    /// The packet that a value is.
    pub fn is_packet(&self, v: &Val) -> bool {
        self.packet_at_hand(v).is_some()
    }

    pub fn packet_at_hand(&self, v: &Val) -> Option<(LocalId, ir::UnitId)> {
        let l = v.kind.message().filter(|_| self.frames)?;
        Some((l, self.frame_unit(l)?))
    }

    /// Takes a message from a way out to the nodes that follow it, whose names are at hand. A
    /// packet is given to a wire; another message goes along the nodes here.
    pub fn along(&mut self, from: From, nodes: &[Node], v: Val, span: Span) -> R<()> {
        let Some((frame, unit)) = self.packet_at_hand(&v) else { return self.flow(nodes, v, span) };
        let Some((first, rest)) = nodes.split_first() else { return self.flow(nodes, v, span) };
        match &first.kind {
            NodeKind::Word { word, args, by: None } if word.name == "drop" && args.is_empty() && rest.is_empty() => {
                return Ok(())
            }
            NodeKind::Expr(e) => {
                if let (Some((name, way)), []) = (self.way_through(e), rest) {
                    return self.through(&name, &way, v, Some(from), span);
                }
                if let (Some(port), []) = (self.whole_port(e), rest) {
                    return self.output(from, ir::Target::Port { port, index: 0 }, frame, span);
                }
                if let Some((n, port, index)) = instance_at(e).filter(|_| !self.is_outlet(e)) {
                    if let Some(AppName::Instance(i)) = self.cx.app.get(&n.name).cloned() {
                        let entrance = self.entrance((&n.name, port), &i, rest, &v, first.span)?;
                        let at = self.place_of(&entrance, index, &v, first.span)?;
                        let key = format!("{}.{}", entrance.element, entrance.input);
                        let (input, element) = (entrance.input.clone(), entrance.element);
                        let to = Destination { key, name: input, element, does: Does::Element(entrance.into()) };
                        return self.output_to_input(from, to, at, (frame, unit), first.span);
                    }
                }
            }
            NodeKind::Word { .. } | NodeKind::Match(_) | NodeKind::Merge { .. } => {}
        }
        // Nodes that the compiler makes for tests have one place.
        let to = Destination {
            key: format!("{} {nodes:?}", self.cx.element),
            name: from.out.clone(),
            element: self.cx.element,
            does: Does::Nodes(nodes.to_vec()),
        };
        self.output_to_input(from, to, None, (frame, unit), span)
    }

    /// A port of one instance of frames, by its name.
    fn whole_port(&self, e: &Expr) -> Option<ir::PortId> {
        let ExprKind::Name(n) = &*e.kind else { return None };
        if self.is_outlet(e) {
            return None;
        }
        let whole = |p: &ir::PortId| self.cx.app.is_single(*p) && self.takes_frames(*p) && !self.cx.has_channels(*p);
        self.cx.app.port(&n.name).filter(whole)
    }

    fn output_to_input(
        &mut self,
        from: From,
        to: Destination,
        at: Option<ir::Expr>,
        (frame, unit): (LocalId, ir::UnitId),
        span: Span,
    ) -> R<()> {
        // Checked by itself, nothing of it is kept: where it is used it is lowered again.
        if self.unused || self.kind == Kind::Func {
            self.impure = true;
            return Ok(());
        }
        let Destination { key, name, element, does } = to;
        let key = format!("{key} {} {}", unit.0, self.arrival);
        let count = does.places();
        let gone: BTreeSet<u32> = self.gone.iter().filter(|g| g.0 == frame).map(|g| g.1).collect();
        let n = match self.cx.inputs.iter().position(|i| i.key == key) {
            Some(n) => n,
            None => {
                if self.cx.inputs.len() >= MOST_INPUTS {
                    return Err(self.too_many(&name, span));
                }
                let (id, at) = (ir::InputId(self.cx.m.inputs.len() as u32), self.cx.span(span));
                let at = ir::Span { element: 0, ..at };
                self.cx.m.inputs.push(ir::Input {
                    name,
                    element: element_id(element),
                    span: at,
                    unit,
                    indexed: count.is_some(),
                    state: (0..self.cx.m.packet.len() as u32).map(ir::PacketFieldId).collect(),
                    body: None,
                    steps: 0,
                });
                let around = Around {
                    app: self.cx.app.clone(),
                    module: self.module,
                    outlets: self.outlets.clone(),
                    element: self.cx.element,
                };
                self.cx.inputs.push(Pending {
                    key,
                    id,
                    does,
                    around,
                    arrival: self.arrival,
                    gone: gone.clone(),
                    lowered: false,
                    span,
                });
                self.cx.inputs.len() - 1
            }
        };
        let input = &mut self.cx.inputs[n];
        if !gone.is_subset(&input.gone) {
            input.gone.extend(gone);
            input.lowered = false;
        }
        let input = input.id;
        let (Some(at), Some(count)) = (at, count) else {
            return self.output(from, ir::Target::Input { input, index: 0 }, frame, span);
        };
        self.choose(at, count, span, &|s, n| {
            s.output(from.clone(), ir::Target::Input { input, index: n as u32 }, frame, span)
        })
    }

    fn too_many(&mut self, name: &str, span: Span) -> crate::compiler::Reported {
        let d =
            Diagnostic::error("E0506", span, format!("`{name}` and the elements around it stand in too many places"))
                .label("one place too many");
        self.cx.report(d.note(format!("each wiring of an element makes a copy of it, with its inner elements; the limit is {MOST_INPUTS} inputs"))
            .hint("wire its output once: `a -> e`, `b -> e`, `e -> …`"))
    }

    fn output(&mut self, from: From, to: ir::Target, frame: LocalId, span: Span) -> R<()> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        self.impure = true;
        let wire = self.cx.wire(from, to);
        let mark = self.mark_at_hand().unwrap_or(build::u32(0));
        let state = self.state_at_hand();
        self.push(span, StmtKind::Output { wire, frame, mark, state, last: false, fresh: false });
        self.forget(|k| matches!(k, ir::ExprKind::State(_) | ir::ExprKind::Session(_) | ir::ExprKind::Counter(_)));
        Ok(())
    }
}

/// The name of a wire from a handler or a wiring: its target.
pub fn to_name(n: &Ident, port: Option<&Ident>) -> String {
    port.map_or(n.name.clone(), |p| format!("{}.{}", n.name, p.name))
}
