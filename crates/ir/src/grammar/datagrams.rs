//! Ports over UDP: their protocols and handlers must do without connections.
//!
//! In: ports, protocols, handlers. Out: findings E0680 to E0682. A datagram is one message. It may
//! be lost, and may come twice or out of order. So an answer is matched by a number of its own, and
//! nothing lives from one datagram to the next.

use super::Finding;
use crate::desc::{PortKind, Sharing};
use crate::*;

pub(super) fn check(m: &Module, out: &mut Vec<Finding>) {
    for (n, port) in m.ports.iter().enumerate().filter(|(_, p)| p.udp) {
        let listens = matches!(port.kind, PortKind::Listen(_));
        for p in port.protocols.iter().filter_map(|p| m.protocols.get(p.index())) {
            if let Some(why) = needs_connection(m, p) {
                out.push(
                    Finding::new("E0680", port.span, format!("`{}` cannot be spoken over UDP: {why}", p.name))
                        .hint("use `tcp(…)`, or a protocol of requests and answers"),
                );
            } else if !listens && p.response.is_some() && (p.order_by.is_none() || p.sharing == Sharing::Exclusive) {
                out.push(
                    Finding::new("E0681", port.span, format!("answers of `{}` cannot be matched to requests", p.name))
                        .hint("datagrams are lost and overtake each other: `order by id`, with `sharing pipelined`"),
                );
            }
        }
        handlers(m, PortId(n as u32), port, out);
    }
}

/// The part of a protocol that needs a connection.
fn needs_connection(m: &Module, p: &Protocol) -> Option<&'static str> {
    let merged = m.merges.iter().any(|g| [g.from, g.to].iter().any(|q| m.ports[q.index()].udp));
    if p.sharing == Sharing::Session {
        Some("a conversation lives as long as its connections")
    } else if p.tunnel.is_some() {
        Some("it opens a tunnel")
    } else if p.private_request.is_some() || p.private_response.is_some() {
        Some("it ties connections to clients")
    } else if merged {
        Some("a merge reads streams")
    } else {
        None
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn handlers(m: &Module, id: PortId, port: &Port, out: &mut Vec<Finding>) {
    for h in &m.handlers {
        let told = match h.on {
            On::Opened(p) | On::Closed(p) | On::Greeting(p) if p == id => {
                "a port over UDP has no connections that open or close".to_string()
            }
            On::Message { port: p, .. } if p == id => match session_of(m, &h.body) {
                Some(name) => format!("`{name}` would be forgotten with each datagram of `{}`", port.name),
                None => continue,
            },
            _ => continue,
        };
        let finding =
            Finding::new("E0682", h.span, told).hint("keep it in a `table` by `client.peer`, or leave it out");
        out.push(finding);
    }
}

/// A session that a body uses.
fn session_of<'m>(m: &'m Module, body: &Body) -> Option<&'m str> {
    let mut found = None;
    walk::block_exprs(&body.block, &mut |e| {
        if let ExprKind::Session(s) = &*e.kind {
            found = Some(*s);
        }
    });
    walk::stmts(&body.block, &mut |s| {
        if let StmtKind::SetSession(s, _) = &s.kind {
            found = Some(*s);
        }
    });
    found.and_then(|s| m.sessions.get(s.index())).map(|s| s.name.as_str())
}
