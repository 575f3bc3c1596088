//! Clauses and members that are written twice, or beside others that exclude them. Each takes
//! effect, or is told of here.
//!
//! Every kind of clause is listed, so a new one does not compile until it says how often it stands.

use crate::compiler::{Compiler, Reported, R};
use std::collections::BTreeMap;
use wireloom_syntax::ast::{self, ClauseKind, Field, FieldKind, MemberKind, On, Span};
use wireloom_syntax::Diagnostic;

/// How often a clause stands in its protocol.
enum Times {
    /// All of a kind take effect.
    Any,
    /// This name of it stands once.
    Once(&'static str),
    /// One that always answers: those behind it never do.
    Last,
}

fn times(c: &ClauseKind) -> Times {
    match c {
        // Told of where their units, names and bodies are read.
        ClauseKind::Request(_)
        | ClauseKind::Response(..)
        | ClauseKind::Up(..)
        | ClauseKind::Down(..)
        | ClauseKind::Session { .. }
        | ClauseKind::Matches { .. }
        | ClauseKind::Log(_)
        | ClauseKind::Class { .. }
        | ClauseKind::Ignore { .. }
        | ClauseKind::OnProbe { .. }
        | ClauseKind::OnReset { .. } => Times::Any,
        // One of several conditions holds, each fault has its own, and edits follow each other.
        ClauseKind::Flag { .. } | ClauseKind::Refuse { .. } | ClauseKind::Forward { .. } => Times::Any,
        ClauseKind::Order { .. } => Times::Once("order"),
        ClauseKind::Sharing(_) => Times::Once("sharing"),
        ClauseKind::ServerFirst => Times::Once("server_first"),
        ClauseKind::Stateless => Times::Once("stateless"),
        ClauseKind::Chunks { response: false, .. } => Times::Once("chunks request"),
        ClauseKind::Chunks { response: true, .. } => Times::Once("chunks response"),
        ClauseKind::Expects { .. } => Times::Once("expects"),
        ClauseKind::Status(_) => Times::Once("status"),
        ClauseKind::OnFault { .. } => Times::Once("on fault"),
        ClauseKind::OnRequest { guard: Some(_), .. } => Times::Any,
        ClauseKind::OnRequest { guard: None, .. } => Times::Last,
    }
}

impl Compiler<'_> {
    /// Clauses of a protocol that another of the same kind makes void.
    pub fn repeated_clauses(&mut self, p: &ast::Protocol) {
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        let mut last: Option<Span> = None;
        for c in &p.clauses {
            if let (ClauseKind::OnRequest { .. }, Some(first)) = (&c.kind, last) {
                self.report(
                    Diagnostic::error("E0612", c.span, "this never answers a request")
                        .label("the one before it takes all of them")
                        .also(first, "it has no `where`")
                        .hint("put the one without `where` last"),
                );
            }
            match times(&c.kind) {
                Times::Any => {}
                Times::Last => last = last.or(Some(c.span)),
                Times::Once(word) => match seen.get(word) {
                    None => {
                        seen.insert(word, c.span);
                    }
                    Some(first) => {
                        self.report(
                            Diagnostic::error("E0612", c.span, format!("`{word}` is said twice"))
                                .label("a second time")
                                .also(*first, "here first")
                                .hint("only one of them could hold: remove the other"),
                        );
                    }
                },
            }
        }
    }

    /// Each way into an element has one handler or one wiring. An array has one handler, or a
    /// wiring of the whole, or one for each place.
    pub fn repeated_ways_in(&mut self, e: &ast::Element) {
        // Its handlers are its C file's; others are refused where they stand.
        if e.in_c.is_some() {
            return;
        }
        let mut taken: BTreeMap<&str, Vec<(Option<u128>, Span)>> = BTreeMap::new();
        for m in &e.members {
            if let MemberKind::In { name, .. } = &m.kind {
                taken.entry(&name.name).or_default();
            }
        }
        for m in &e.members {
            let (name, place, span) = match &m.kind {
                MemberKind::Handler(ast::Handler { on: On::Message { port, .. }, .. }) => (port, None, port.span),
                MemberKind::Wiring(nodes) => {
                    let Some(ast::Node { kind: ast::NodeKind::Expr(from), span }) = nodes.first() else { continue };
                    let Some((name, index)) = super::apps::arrays::name_at(from) else { continue };
                    let place = index.and_then(|i| if let ast::ExprKind::Int(n) = &*i.kind { Some(*n) } else { None });
                    if index.is_some() && place.is_none() {
                        continue;
                    }
                    (name, place, *span)
                }
                MemberKind::Handler(_)
                | MemberKind::Param(_)
                | MemberKind::In { .. }
                | MemberKind::Out { .. }
                | MemberKind::Port(_)
                | MemberKind::State { .. }
                | MemberKind::PacketState(_)
                | MemberKind::Session { .. }
                | MemberKind::Upstream { .. }
                | MemberKind::Counter(_)
                | MemberKind::Table(_)
                | MemberKind::Queue(_)
                | MemberKind::Cache(_)
                | MemberKind::Gauge(_)
                | MemberKind::Segment { .. }
                | MemberKind::Link { .. }
                | MemberKind::Const { .. }
                | MemberKind::Fn(_)
                | MemberKind::Signal { .. }
                | MemberKind::Instance { .. } => continue,
            };
            let Some(before) = taken.get_mut(name.name.as_str()) else { continue };
            let first = before.iter().find(|(p, _)| *p == place || p.is_none() || place.is_none()).map(|(_, s)| *s);
            before.push((place, span));
            let Some(first) = first else { continue };
            self.once(
                Diagnostic::error("E0639", span, format!("the messages of `{}` are handled already", name.name))
                    .label("a second time")
                    .also(first, "here first")
                    .hint("send to both in one handler: `p -> a  p -> b`"),
            );
        }
    }

    /// An element's ways share their names with its other members: `p -> y` means one of them.
    pub fn ways_have_names(&mut self, e: &ast::Element) {
        let mut ways: BTreeMap<&str, Span> = BTreeMap::new();
        for m in &e.members {
            if let MemberKind::In { name, .. } | MemberKind::Out { name, .. } = &m.kind {
                ways.entry(&name.name).or_insert(name.span);
            }
        }
        for m in &e.members {
            let instance = if let MemberKind::Instance { name, .. } = &m.kind { Some(name) } else { None };
            let Some(name) = crate::unused::member(m).map(|(_, n)| n).or(instance) else { continue };
            let Some(way) = ways.get(name.name.as_str()) else { continue };
            self.once(
                Diagnostic::error("E0203", name.span, format!("`{}` is defined twice", name.name))
                    .label("defined again here")
                    .also(*way, "a way in or out has this name"),
            );
        }
    }

    /// Clauses of a unit, each of which stands once, or has fields behind it.
    pub fn repeated_fields(&mut self, fields: &[Field]) -> R<()> {
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        let mut made = Ok(());
        for f in fields {
            let word = match &f.kind {
                FieldKind::Limit(_) => "limit",
                FieldKind::Link(_) => "link",
                FieldKind::Partial(_) => "partial",
                FieldKind::Addresses(..) => "addresses",
                FieldKind::Order { .. } => "order",
                FieldKind::Recover { .. } => "recover",
                FieldKind::PassAs(_) => "pass as",
                FieldKind::PassWhen(_) | FieldKind::PerPacket(_) | FieldKind::Append { .. } => continue,
                // A fault of these is one of the `recover` before them.
                FieldKind::Let { .. } | FieldKind::Require { .. } => {
                    seen.remove("recover");
                    continue;
                }
                // Each of these may stand again for the fields behind it.
                FieldKind::Literal { .. } | FieldKind::Value { .. } => {
                    seen.remove("order");
                    seen.remove("recover");
                    continue;
                }
            };
            let Some(first) = seen.insert(word, f.span) else { continue };
            let d = Diagnostic::error("E0203", f.span, format!("`{word}` is given twice")).label("a second time");
            let d = d.also(first, "here first, without effect");
            self.report(d.hint("only one of them could hold: remove the other"));
            made = Err(Reported);
        }
        made
    }
}
