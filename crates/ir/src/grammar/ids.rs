//! Ids of requests that the runtime exchanges: what else depends on them.
//!
//! In: protocols with `order by` that a port connects with. Out: findings E0409. On the way to a
//! server a request gets another id, and its answer the client's. So every number must be valid
//! there, and no other byte may depend on it. Else the server would read another message than the
//! client has sent.

use super::{order_field, Finding};
use crate::desc::{PortKind, Sharing};
use crate::*;

/// The ids of one side's messages.
struct Ids<'m> {
    m: &'m Module,
    protocol: &'m Protocol,
    unit: UnitId,
    field: FieldId,
    /// Whether 0 is one of them. All other numbers are.
    zero: bool,
}

pub(super) fn check(m: &Module, id: ProtocolId, out: &mut Vec<Finding>) {
    let Some(protocol) = m.protocols.get(id.index()) else { return };
    // A connection that carries one request at a time needs no other ids.
    if protocol.sharing == Sharing::Exclusive {
        return;
    }
    let asks = |port: &&Port| matches!(port.kind, PortKind::Connect(_)) && port.protocols.contains(&id);
    let mut ports = m.ports.iter().filter(asks).peekable();
    let (Some(field), Some(unit), Some(answer)) = (protocol.order_by, protocol.response, order_field(m, protocol))
    else {
        return;
    };
    if ports.peek().is_none() {
        return;
    }
    // Over TCP the ids count up from 1, and 0 is that of messages without an answer.
    let udp = ports.any(|p| p.udp);
    let request = Ids { m, protocol, unit: protocol.request, field, zero: udp || protocol.no_reply.is_some() };
    request.grammar(out);
    let response = Ids { m, protocol, unit, field: answer, zero: udp || request.admits_zero() };
    response.grammar(out);
    request.clauses(udp, out);
    response.clauses(udp, out);
}

impl Ids<'_> {
    fn unit(&self) -> &Unit {
        self.m.unit(self.unit)
    }

    fn id(&self) -> &Field {
        &self.unit().fields[self.field.index()]
    }

    fn largest(&self) -> u64 {
        let FieldKind::UInt { bits, .. } = self.id().kind else { return u64::MAX };
        u64::MAX.checked_shr(64 - u32::from(bits)).unwrap_or(0)
    }

    /// Whether a message may have the id 0 by its grammar.
    fn admits_zero(&self) -> bool {
        let within = self.id().within.as_ref().is_none_or(|r| r.iter().any(|(from, _)| *from == 0));
        within && !self.unit().body.iter().any(|f| self.excludes_zero(&self.unit().fields[f.index()]))
    }

    /// Whether a field only says that the id is not 0.
    fn excludes_zero(&self, field: &Field) -> bool {
        let FieldKind::Require { cond } = &field.kind else { return false };
        let ExprKind::Binary(op, a, b) = &*cond.kind else { return false };
        let zero = |e: &Expr| matches!(&*e.kind, ExprKind::Int(0));
        *op == BinOp::Ne && (self.is_id(a) && zero(b) || zero(a) && self.is_id(b))
            || *op == BinOp::Gt && self.is_id(a) && zero(b)
            || *op == BinOp::Lt && zero(a) && self.is_id(b)
    }

    fn is_id(&self, e: &Expr) -> bool {
        matches!(&*e.kind, ExprKind::Read(p) if p.root == Root::This && p.steps == [Step::Field(self.field)])
    }

    /// Whether an expression depends on the id.
    fn reads(&self, e: &Expr) -> bool {
        let mut reads = false;
        walk::expr(e, &mut |e| {
            let Some(p) = walk::path_of(e).filter(|p| p.root == Root::This) else { return };
            reads |= p.steps.first().is_none_or(|s| *s == Step::Field(self.field));
        });
        reads
    }

    /// The unit's own fields.
    fn grammar(&self, out: &mut Vec<Finding>) {
        let id = self.id();
        let (name, largest) = (&self.protocol.name, self.largest());
        if id.computed.is_some() {
            let found = Finding::new("E0409", id.span, format!("protocol `{name}` is ordered by a computed field"))
                .label(id.span, "servers get another number here")
                .hint("give the id a field of its own");
            add(found, out);
        }
        let least = u64::from(!self.zero);
        if id.within.as_ref().is_some_and(|r| !covers(r, least, largest)) {
            let found = Finding::new(
                "E0409",
                id.span,
                format!("protocol `{name}` is ordered by a field that has not all numbers"),
            )
            .label(id.span, "an id of the runtime may not be in this set")
            .hint(match self.zero {
                true => "leave out `in`".to_string(),
                false => format!("leave out `in`, or write `in 1..={largest}`"),
            });
            add(found, out);
        }
        for field in &self.unit().fields {
            if !self.zero && self.excludes_zero(field) {
                continue;
            }
            let mut reads = false;
            walk::field_exprs(field, &mut |e, _| reads |= self.reads(e));
            if reads {
                let found = Finding::new("E0409", field.span, format!("this depends on the id of protocol `{name}`"))
                    .label(field.span, "servers read another id")
                    .label(id.span, "this one")
                    .hint("the runtime exchanges ids: let nothing else in the message depend on them");
                add(found, out);
            }
        }
    }

    /// The protocol's clauses about such a message, where its server decides, too.
    fn clauses(&self, udp: bool, out: &mut Vec<Finding>) {
        let p = self.protocol;
        let mut clauses = Vec::new();
        if self.unit == p.request {
            // Of messages without an answer the id is 0 over TCP.
            let no_reply = p.no_reply.as_ref().filter(|e| udp || !self.is_zero(e));
            clauses.extend([("no_reply", no_reply), ("close request", p.close_request.as_ref())]);
            clauses.extend(p.response_args.iter().map(|e| ("response", Some(e))));
        }
        if Some(self.unit) == p.response {
            let answers = [
                ("close response", &p.close_response),
                ("interim", &p.interim),
                ("tunnel", &p.tunnel),
                ("refusal", &p.refusal),
            ];
            clauses.extend(answers.map(|(name, e)| (name, e.as_ref())));
        }
        for (clause, e) in clauses {
            if e.is_some_and(|e| self.reads(e)) {
                let span = self.id().span;
                let found =
                    Finding::new("E0409", span, format!("`{clause}` of protocol `{}` depends on its id", p.name))
                        .label(span, "servers read another id")
                        .hint("the runtime exchanges ids: ask for another field");
                add(found, out);
            }
        }
    }

    /// Whether a condition is that the id is 0.
    fn is_zero(&self, e: &Expr) -> bool {
        let ExprKind::Binary(BinOp::Eq, a, b) = &*e.kind else { return false };
        self.is_id(a) && matches!(&*b.kind, ExprKind::Int(0))
    }
}

/// Whether ranges have all numbers from one to another.
fn covers(ranges: &[(u64, u64)], least: u64, largest: u64) -> bool {
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    let mut next = Some(least);
    for (from, to) in ranges {
        if next.is_some_and(|at| from <= at && at <= to) {
            next = to.checked_add(1);
        }
    }
    next.is_none_or(|n| n > largest)
}

fn add(found: Finding, out: &mut Vec<Finding>) {
    if !out.contains(&found) {
        out.push(found)
    }
}
