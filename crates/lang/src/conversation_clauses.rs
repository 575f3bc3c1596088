//! Protocols of conversations: their clauses, what they remember, and the parameters of their
//! messages.

use crate::body::{Kind, Lower};
use crate::compiler::{Compiler, Reported, R};
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::Val;
use ir::ExprKind as K;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, ClauseKind, Expr, FlagKind, Ident, SharingKind, Span};
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    /// Whether a protocol is one of conversations; its clauses must then be those of one.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn conversation_clauses(&mut self, p: &ast::Protocol) -> R<bool> {
        let find = |f: &dyn Fn(&ClauseKind) -> bool| p.clauses.iter().find(|c| f(&c.kind)).map(|c| c.span);
        let up = find(&|k| matches!(k, ClauseKind::Up(..)));
        let down = find(&|k| matches!(k, ClauseKind::Down(..)));
        let session = find(&|k| matches!(k, ClauseKind::Sharing(SharingKind::Session)));
        let kept = find(&|k| matches!(k, ClauseKind::Session { .. }));
        let Some(one) = up.or(down).or(session).or(kept) else { return Ok(false) };
        let bad = |text: &str, span| Diagnostic::error("E0696", span, text.to_string());
        if up.is_none() || down.is_none() || session.is_none() {
            let d = bad("a conversation has messages `up` and `down`, and `sharing session`", one)
                .label("one of them is missing")
                .hint("write `up Query  down Answer  sharing session`");
            return Err(self.report(d));
        }
        for c in &p.clauses {
            let fits = match &c.kind {
                ClauseKind::Up(..) | ClauseKind::Down(..) | ClauseKind::Session { .. } => true,
                ClauseKind::OnFault { .. } | ClauseKind::OnReset { .. } | ClauseKind::ServerFirst => true,
                ClauseKind::Matches { .. } => true,
                ClauseKind::Sharing(kind) => *kind == SharingKind::Session,
                ClauseKind::Flag { flag, .. } => matches!(
                    flag,
                    FlagKind::CloseRequest
                        | FlagKind::CloseResponse
                        | FlagKind::Refusal
                        | FlagKind::Idle
                        | FlagKind::Reset
                        | FlagKind::Owes
                        | FlagKind::Unfinished
                        | FlagKind::Settles
                ),
                _ => false,
            };
            if !fits {
                let d = bad("this clause is about requests and their answers", c.span)
                    .label("not in a conversation")
                    .hint("messages `up` and `down` are tied to each other by `call up(m)` only");
                return Err(self.report(d));
            }
        }
        Ok(true)
    }

    /// Requests and answers have no greeting of the server: its first message would be an answer.
    pub fn no_greeting_here(&mut self, span: Span) {
        let d = Diagnostic::error("E0696", span, "a server that is asked does not speak first")
            .label("only in a conversation")
            .hint("write `up Query  down Answer  sharing session` with your units");
        self.report(d);
    }

    /// `session mode: Mode` of a protocol: each conversation has its own.
    pub fn protocol_sessions(&mut self, module: ModId, p: &ast::Protocol) -> R<Vec<(String, ir::SessionId, Ty)>> {
        let mut all: Vec<(String, ir::SessionId, Ty)> = vec![];
        for c in &p.clauses {
            let ClauseKind::Session { name, ty } = &c.kind else { continue };
            if all.iter().any(|(n, ..)| *n == name.name) {
                return Err(self.error("E0203", name.span, format!("`{}` is defined twice", name.name)));
            }
            let (id, ty) = self.session_of(module, name, ty)?;
            all.push((name.name.clone(), id, ty));
        }
        Ok(all)
    }

    /// Arguments for the parameters of a conversation's messages, over its sessions.
    pub fn session_args(
        &mut self,
        module: ModId,
        id: ir::ProtocolId,
        unit: ir::UnitId,
        args: &[(Option<Ident>, Expr)],
        span: Span,
    ) -> R<Vec<ir::Expr>> {
        let sessions = self.protocols[id.index()].sessions.clone();
        let mut out = Vec::new();
        for (e, t) in self.matched_args(unit, args, span)? {
            let mut l = Lower::new(self, module, Kind::Clause);
            let named = |l: &mut Lower, (name, s, ty): &(String, ir::SessionId, Ty)| {
                let t = l.cx.lower_ty(ty);
                let value = Val::pure(ty.clone(), ir::Expr::new(t, K::Session(*s)));
                (Ident { name: name.clone(), span: e.span }, value)
            };
            let binds: Vec<_> = sessions.iter().map(|s| named(&mut l, s)).collect();
            l.bind_all(&binds);
            let v = l.expr(&e, Some(&t))?;
            let arg = if t == Ty::Bool { l.cond_of(v, e.span)? } else { l.coerce(v, &t, e.span)? };
            if !l.out.is_empty() {
                return Err(l.involved(e.span));
            }
            out.push(arg);
        }
        Ok(out)
    }

    /// An argument for each parameter of a unit.
    fn matched_args(&mut self, unit: ir::UnitId, args: &[(Option<Ident>, Expr)], span: Span) -> R<Vec<(Expr, Ty)>> {
        let params = self.units[unit.index()].params.clone();
        if self.units[unit.index()].lacks_params {
            return Err(Reported);
        }
        if args.len() > params.len() {
            let text = format!("the messages take {} arguments, found {}", params.len(), args.len());
            return Err(self.error("E0308", span, text));
        }
        for n in args.iter().filter_map(|(n, _)| n.as_ref()) {
            if !params.iter().any(|(p, _)| *p == n.name) {
                return Err(self.error("E0308", n.span, format!("the messages have no parameter `{}`", n.name)));
            }
        }
        let mut all = vec![];
        for (i, (name, t)) in params.iter().enumerate() {
            let named = args.iter().find(|(n, _)| n.as_ref().is_some_and(|n| n.name == *name));
            let Some((_, e)) = named.or(args.get(i).filter(|(n, _)| n.is_none())) else {
                return Err(self.error("E0308", span, format!("the messages' parameter `{name}` is not given")));
            };
            all.push((e.clone(), t.clone()));
        }
        Ok(all)
    }
}
