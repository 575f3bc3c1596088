//! The clauses of a protocol about one message: `refuse`, the parameters of the answer's unit,
//! `pipeline when`, `matches`, and `status` and `class` of an answer.

use super::read_with::AskedArg;
use super::Lower;
use crate::compiler::{Reported, R, T_U32};
use crate::ir_builder as build;
use crate::ty::{Ty, U16};
use crate::val::{OutKind, Outgoing, Val, Vk};
use ir::{BinOp, Edit, ExprKind as K, FieldId, FieldKind, Root, Step, StmtKind};
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, ClauseKind, FlagKind, Ident, ItemKind, Span};
use wireloom_syntax::Diagnostic;

/// In `refuse`: whether the program passes the request on as it came.
pub const RECEIVED: &str = "received";

/// A protocol's answers about a request on its way to a server.
#[derive(Default)]
pub struct Asked {
    /// The parameters that its answer is read with.
    pub args: Vec<ir::Expr>,
    /// [`ir::StmtKind::Call`]'s `clauses`, without the last one.
    pub clauses: Vec<ir::Expr>,
}

/// The clauses that say how the runtime sends a request.
const OF_SENDING: [FlagKind; 3] = [FlagKind::NoReply, FlagKind::Repeat, FlagKind::PrivateRequest];

/// A question about a request. `waits`: for its answer. `judged`: also by its clauses, because the
/// parser has not seen it as it is sent.
#[derive(Clone, Copy)]
struct Asking {
    received: bool,
    waits: bool,
    judged: bool,
}

impl Lower<'_, '_> {
    /// A built answer with what its unit asks of the request.
    pub(super) fn answering(
        &mut self,
        o: &Outgoing,
        body: &ir::Block,
        proto: ir::ProtocolId,
        response: bool,
        span: Span,
    ) -> R<ir::Block> {
        let mut body = body.clone();
        let session = self.cx.is_session(proto);
        let asks = (response || session) && self.kind != super::Kind::OnFault;
        let Some(handler) = self.handler.filter(|_| asks) else {
            return Ok(body);
        };
        let mut asked = vec![];
        let mut ask = |e: &ir::Expr| {
            if let ir::ExprKind::Local(l) = &*e.kind {
                asked.push(*l);
            }
        };
        ir::walk::block_exprs(&body, &mut ask);
        if let Some(ends) = &o.ends {
            ir::walk::expr(ends, &mut ask);
        }
        if !o.params.iter().any(|p| asked.contains(p)) {
            return Ok(body);
        }
        let args = if session {
            self.session_args(proto, response)
        } else {
            let request = Val::path(Ty::Msg(self.cx.m.protocols[proto.index()].request), build::msg(handler.req));
            self.response_args(proto, &request, span)?
        };
        // Several answers in one have each their own.
        for (l, arg) in o.params.iter().zip(args.iter().take(self.cx.units[o.unit.index()].params.len()).cycle()) {
            if !asked.contains(l) {
                continue;
            }
            let arg = crate::fold::fold(&self.cx.m, arg);
            let known = [true, false].into_iter().find(|holds| self.holds(&arg, *holds));
            if let Some(v) = known.map(build::boolean) {
                ir::walk::block_exprs_mut(&mut body, &mut |e| {
                    if matches!(*e.kind, ir::ExprKind::Local(k) if k == *l) {
                        *e = v.clone();
                    }
                });
            }
            self.push(span, ir::StmtKind::Set(*l, known.map_or(arg, build::boolean)));
        }
        Ok(body)
    }

    /// In front of `on fault`: what the answer's unit asks of the request, where the request is
    /// there. Else the runtime has said it.
    pub fn ask_request(&mut self, proto: ir::ProtocolId, req: ir::LocalId, span: Span) {
        let mut used = vec![];
        ir::walk::stmts(&self.out, &mut |s| ir::walk::stmt_locals_read(&s.kind, &mut |l| used.push(l)));
        let outer = std::mem::take(&mut self.out);
        let args = self.cx.m.protocols[proto.index()].response_args.clone();
        for (l, mut arg) in self.asked.clone().into_iter().zip(args) {
            if !used.contains(&l) {
                continue;
            }
            ir::walk::expr_mut(&mut arg, &mut |e| super::unparse_check::edits::reroot(e, req));
            let there = ir::Expr::new(crate::compiler::T_BOOL, ir::ExprKind::HasMsg(req));
            let asked = ir::Expr::new(arg.ty, ir::ExprKind::If(there, arg, self.local_expr(l)));
            self.push(span, ir::StmtKind::Set(l, asked));
        }
        self.out.extend(outer);
    }

    /// Runs a piece of a protocol, which sees these names and those of its module.
    pub(super) fn in_protocol<T>(
        &mut self,
        module: usize,
        span: Span,
        binds: Vec<(&str, Val)>,
        f: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let scopes = std::mem::replace(&mut self.scopes, vec![vec![]]);
        let outer = (std::mem::replace(&mut self.module, module), std::mem::replace(&mut self.in_app, false));
        let binds: Vec<_> = binds.into_iter().map(|(n, v)| (Ident { name: n.into(), span }, v)).collect();
        self.bind_all(&binds);
        let made = f(self);
        self.scopes = scopes;
        (self.module, self.in_app) = outer;
        made
    }

    /// The status and class that an answer is counted under, by its protocol's `status` and `class`
    /// ([`StmtKind::Outcome`]). None: the protocol has neither, or nothing is known of a message
    /// that was put together from others.
    pub fn outcome(&mut self, proto: ir::ProtocolId, answer: &Rc<Outgoing>, span: Span) -> R<Option<ir::Expr>> {
        if matches!(answer.kind, OutKind::Built(_)) && answer.fields.is_empty() {
            return Ok(None);
        }
        let info = self.cx.protocols[proto.index()].clone();
        let ItemKind::Protocol(p) = &info.ast.kind else { return Err(Reported) };
        let mut clauses =
            p.clauses.iter().filter(|c| matches!(c.kind, ClauseKind::Status(_) | ClauseKind::Class { .. })).peekable();
        if clauses.peek().is_none() {
            return Ok(None);
        }
        let clauses: Vec<_> = clauses.collect();
        let response = self.received(answer);
        let told = self.cx.diags.len();
        let asking = std::mem::replace(&mut self.asking, true);
        let read = |s: &mut Self| s.sub(|s| s.outcome_of(&clauses));
        let (made, block) = self.in_protocol(info.module, span, vec![("response", response)], read);
        self.asking = asking;
        if made.is_err() && matches!(answer.kind, OutKind::Built(_)) {
            // The clauses are right, but not every part of a message that is being built can be
            // read.
            self.cx.diags.truncate(told);
            return Ok(None);
        }
        self.out.extend(block);
        made.map(Some)
    }

    /// A message that is sent, as its receiver sees it: fields of cases are options, and lengths
    /// are those of the fields that were set.
    fn received(&self, o: &Rc<Outgoing>) -> Val {
        let mut seen = (**o).clone();
        if let OutKind::Pass { msg, .. } = &o.kind {
            for (f, value) in self.computed_values(o.unit, *msg, &o.fields) {
                if let Some(m) = self.cx.units[o.unit.index()].by_field(f) {
                    seen.fields.push((m.name.clone(), Val::pure(m.ty.clone(), value)));
                }
            }
        }
        for (name, v) in &mut seen.fields {
            let cased = self.cx.units[o.unit.index()].member(name).is_some_and(|m| !m.cases.is_empty());
            if cased && !matches!(v.kind, Vk::Maybe(..)) && !v.ty.is_option() && !v.ty.is_error() {
                *v = Val::maybe(build::boolean(true), v.clone());
            }
        }
        Val { ty: Ty::Msg(o.unit), kind: Vk::Out(Rc::new(seen)), caseless: false }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn outcome_of(&mut self, clauses: &[&ast::Clause]) -> R<ir::Expr> {
        let (mut status, mut classes) = (None, vec![]);
        for c in clauses {
            match &c.kind {
                ClauseKind::Status(e) => status = Some(self.expr_as(e, &U16)?),
                ClauseKind::Class { when, .. } => classes.push(self.cond(when)?),
                _ => {}
            }
        }
        let number =
            classes.into_iter().enumerate().rev().fold(build::u32(0), |other, (i, when)| {
                ir::Expr::new(T_U32, K::If(when, build::u32(i as u32 + 1), other))
            });
        let Some(status) = status else { return Ok(number) };
        Ok(build::bin(
            T_U32,
            BinOp::Add,
            build::bin(T_U32, BinOp::Mul, build::cast(T_U32, status), build::u32(256)),
            number,
        ))
    }

    /// Asks the protocol about a request on its way to a server, as it will be sent. A request may
    /// be refused. `waits`: for its answer. An edited request is read again where its edits may
    /// have changed what is asked.
    pub fn asked_of(&mut self, proto: ir::ProtocolId, v: &Val, span: Span, waits: bool) -> R<Asked> {
        let o = self.message_of(v, span)?;
        let judged = waits && self.has_clauses(o.unit);
        let asking = Asking { received: false, waits, judged };
        let (msg, mut edits) = match &o.kind {
            OutKind::Pass { msg, edits, copy } => (*msg, self.with_pending(*msg, edits, *copy)),
            OutKind::Built(_) | OutKind::Inner => return self.asked_of_built(proto, &o, span, asking),
        };
        if edits.is_empty() {
            let parsed = self.handler.is_some_and(|h| h.req == msg && h.protocol == proto);
            return self.ask_for(proto, v, span, Asking { received: true, judged: judged && !parsed, ..asking });
        }
        let seen = self.received(&o);
        let (start, before) = (self.start(), self.asked_args.len());
        let (made, block) = self.sub(|s| s.ask_for(proto, &seen, span, asking));
        let all = made?;
        if !self.is_changed(o.unit, msg, &edits, &block, &all) {
            self.out.extend(block);
            return Ok(all);
        }
        self.go_back(start);
        self.asked_args.truncate(before);
        self.settle(o.unit, msg, &o.fields, &mut edits);
        self.ask_again(proto, o.unit, ir::Outgoing::Pass { msg, edits }, span, asking)
    }

    /// Values of a message that was read again: it is gone when the one that is sent is put
    /// together.
    fn held_values(&mut self, all: Vec<ir::Expr>, span: Span) -> Vec<ir::Expr> {
        let keep = |e: ir::Expr| {
            if build::as_bool(&e).is_some() {
                return e;
            }
            let l = self.new_local_of("", e.ty);
            self.push(span, StmtKind::Set(l, e));
            self.local_expr(l)
        };
        all.into_iter().map(keep).collect()
    }

    /// Whether any protocol says of this unit's requests how they are sent.
    fn has_clauses(&self, unit: ir::UnitId) -> bool {
        let said = |p: &ir::Protocol| p.no_reply.is_some() || p.repeat.is_some() || p.private_request.is_some();
        self.cx.m.protocols.iter().any(|p| p.request == unit && said(p))
    }

    /// Not every part of a message that is being built can be read. It is read again then.
    fn asked_of_built(&mut self, proto: ir::ProtocolId, o: &Rc<Outgoing>, span: Span, asking: Asking) -> R<Asked> {
        let told = self.cx.diags.len();
        let seen = self.received(o);
        let start = self.start();
        let (made, block) = self.sub(|s| s.ask_for(proto, &seen, span, asking));
        match made {
            Ok(all) => {
                self.out.extend(block);
                return Ok(all);
            }
            Err(e) if self.cx.diags[told..].iter().all(|d| d.code != "E0432") => return Err(e),
            Err(_) => {}
        }
        let OutKind::Built(body) = &o.kind else { return Err(Reported) };
        self.cx.diags.truncate(told);
        self.go_back(start);
        self.ask_again(proto, o.unit, ir::Outgoing::Built { unit: o.unit, body: body.clone() }, span, asking)
    }

    /// Asks of a message that is read as its receiver will read it.
    fn ask_again(
        &mut self,
        proto: ir::ProtocolId,
        unit: ir::UnitId,
        msg: ir::Outgoing,
        span: Span,
        asking: Asking,
    ) -> R<Asked> {
        let (dst, ok) = (self.new_local("", &Ty::Msg(unit)), self.new_local("", &Ty::Bool));
        let edited = match &msg {
            ir::Outgoing::Pass { msg, edits } => Some((*msg, edits.clone())),
            ir::Outgoing::Built { .. } | ir::Outgoing::Nothing => None,
        };
        self.push(span, StmtKind::Reread { msg, dst, ok });
        let there = self.local_expr(ok);
        self.guard(there, ir::FaultKind::CONSTRAINT, span);
        let again = Val::path(Ty::Msg(unit), build::msg(dst));
        let all = self.ask_for(proto, &again, span, asking)?;
        if let Some((of, edits)) = edited {
            self.as_before(unit, dst, of, &edits);
        }
        Ok(Asked { args: self.held_values(all.args, span), clauses: self.held_values(all.clauses, span) })
    }

    fn ask_for(&mut self, proto: ir::ProtocolId, request: &Val, span: Span, asking: Asking) -> R<Asked> {
        let outer = std::mem::replace(&mut self.asking, true);
        let made = self.refuse(proto, request, asking.received, span).and_then(|()| {
            if !asking.waits {
                self.is_unanswered(proto, request, span)?;
                return Ok(Asked::default());
            }
            let args = self.response_args(proto, request, span)?;
            let clauses = if asking.judged { self.clauses_of(proto, request, span, &OF_SENDING)? } else { vec![] };
            Ok(Asked { args, clauses })
        });
        self.asking = outer;
        made
    }

    /// For each of these flags whether a clause of the protocol holds for a request.
    fn clauses_of(&mut self, proto: ir::ProtocolId, request: &Val, span: Span, of: &[FlagKind]) -> R<Vec<ir::Expr>> {
        let info = self.cx.protocols[proto.index()].clone();
        let ItemKind::Protocol(p) = &info.ast.kind else { return Err(Reported) };
        // A clause is read as it stands, not by what is known of the request here.
        let facts = std::mem::take(&mut self.facts);
        let made = self.in_protocol(info.module, span, vec![("request", request.clone())], |s| {
            let mut of_flag = |kind: &FlagKind| {
                let mut any = build::boolean(false);
                for c in &p.clauses {
                    let ClauseKind::Flag { flag, when } = &c.kind else { continue };
                    if flag == kind {
                        any = build::or(any, s.cond(when)?)
                    }
                }
                Ok(crate::fold::fold(&s.cx.m, &any))
            };
            of.iter().map(&mut of_flag).collect()
        });
        self.facts = facts;
        made
    }

    /// A message that nobody waits for has no answer: else it would be taken for that of another
    /// request.
    fn is_unanswered(&mut self, proto: ir::ProtocolId, request: &Val, span: Span) -> R<()> {
        let info = self.cx.protocols[proto.index()].clone();
        if info.response.is_none() || self.cx.is_session(proto) {
            return Ok(());
        }
        if !info.no_reply {
            let name = self.cx.m.protocols[proto.index()].name.clone();
            return Err(self.cx.report(
                Diagnostic::error("E0662", span, format!("each request of `{name}` is answered"))
                    .label("nobody waits for the answer")
                    .hint("`call port[i](message)` waits for it"),
            ));
        }
        for silent in self.clauses_of(proto, request, span, &[FlagKind::NoReply])? {
            self.guard(silent, ir::FaultKind::CONSTRAINT, span);
        }
        Ok(())
    }

    /// Whether what was asked of a message reads parts of it that edits may have changed, other
    /// than the fields that they set.
    fn is_changed(&self, unit: ir::UnitId, msg: ir::LocalId, edits: &[Edit], block: &ir::Block, asked: &Asked) -> bool {
        let lists: Vec<FieldId> = edits
            .iter()
            .filter_map(|e| match e {
                Edit::Set { .. } => None,
                Edit::Remove { list, .. } | Edit::Append { list, .. } => list.first().copied(),
            })
            .collect();
        let mut changed = false;
        let mut look = |e: &ir::Expr| {
            let Some(ir::Path { root: Root::Local(l), steps }) = ir::walk::path_of(e) else { return };
            let (true, Some(Step::Field(f))) = (*l == msg, steps.first()) else { return };
            let kind = &self.cx.m.units[unit.index()].fields[f.index()].kind;
            changed |= lists.contains(f) || matches!(kind, FieldKind::Let { .. } | FieldKind::Switch { .. });
        };
        ir::walk::block_exprs(block, &mut look);
        asked.args.iter().chain(&asked.clauses).for_each(|e| ir::walk::expr(e, &mut look));
        changed
    }

    /// Refuses a request that its protocol does not send on a connection which others use, too.
    /// `received`: it is passed on as it came.
    fn refuse(&mut self, proto: ir::ProtocolId, request: &Val, received: bool, span: Span) -> R<()> {
        let info = self.cx.protocols[proto.index()].clone();
        let ItemKind::Protocol(p) = &info.ast.kind else { return Err(Reported) };
        for c in &p.clauses {
            let ClauseKind::Refuse { kind, when } = &c.kind else { continue };
            let kind = self.cx.fault_kind(info.module, kind)?;
            // The clause is read as it stands, not by what is known of the request here.
            let facts = std::mem::take(&mut self.facts);
            let untouched = Val::pure(Ty::Bool, build::boolean(received));
            let binds = vec![("request", request.clone()), (RECEIVED, untouched)];
            let refused = self.in_protocol(info.module, span, binds, |s| s.cond(when));
            self.facts = facts;
            self.guard(build::not(refused?), kind, span);
        }
        Ok(())
    }

    /// The parameters that the parser of the answer to this request needs. Behind them whether the
    /// request may share a connection (`pipeline when`), and the values of `matches`.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn response_args(&mut self, proto: ir::ProtocolId, request: &Val, span: Span) -> R<Vec<ir::Expr>> {
        let info = self.cx.protocols[proto.index()].clone();
        let ItemKind::Protocol(p) = &info.ast.kind else { return Err(Reported) };
        let Some(args) = p.clauses.iter().find_map(|c| match &c.kind {
            ClauseKind::Response(_, args) => Some(args.clone()),
            _ => None,
        }) else {
            return Ok(vec![]);
        };
        let Some(unit) = info.response else { return Ok(vec![]) };
        let params = self.cx.units[unit.index()].params.clone();
        let given = |i: usize, name: &str| {
            let named = args.iter().find(|(n, _)| n.as_ref().is_some_and(|n| n.name == name));
            named.or(args.get(i).filter(|(n, _)| n.is_none()))
        };
        let pipeline = p.clauses.iter().filter_map(|c| match &c.kind {
            ClauseKind::Flag { flag: FlagKind::Pipeline, when } => Some(when),
            _ => None,
        });
        self.in_protocol(info.module, span, vec![("request", request.clone())], |s| {
            let (mut all, mut made) = (vec![], Ok(vec![]));
            for (i, (name, t)) in params.iter().enumerate() {
                let (from, known) = (s.out.len(), s.locals.len());
                let value = match given(i, name) {
                    Some((_, e)) => s.expr_as(e, t),
                    None => Ok(s.zero(t)),
                };
                match (value, &mut made) {
                    (Ok(v), Ok(made)) => {
                        all.push(AskedArg::new(&s.out[from..], v.clone(), known));
                        made.push(v);
                    }
                    (Err(e), _) => made = Err(e),
                    (Ok(_), Err(_)) => {}
                }
            }
            s.asked_args.push(all);
            let shares = pipeline.map(|e| s.cond(e)).collect::<R<Vec<_>>>();
            let kept = s.kept_for_answer(&info);
            let (made, shares, kept) = (made?, shares?.into_iter().reduce(build::or), kept?);
            let place = shares.or_else(|| (!kept.is_empty()).then(|| build::boolean(false)));
            Ok(made.into_iter().chain(place).chain(kept).collect())
        })
    }

    /// The values of `matches`, at their places among those of other protocols with the same
    /// answers.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub(super) fn kept_for_answer(&mut self, info: &crate::items::ProtocolInfo) -> R<Vec<ir::Expr>> {
        let ItemKind::Protocol(p) = &info.ast.kind else { return Err(Reported) };
        let values = p.clauses.iter().find_map(|c| match &c.kind {
            ClauseKind::Matches { values, .. } => Some(values),
            _ => None,
        });
        let (Some(values), Some(unit)) = (values, info.response) else { return Ok(vec![]) };
        let (from, types) = &info.asked;
        let others: Vec<ir::TyId> = self.cx.m.units[unit.index()].asked[..*from].iter().map(|p| p.ty).collect();
        let mut all: Vec<ir::Expr> = others.into_iter().map(|t| self.zero_of(t)).collect();
        all.push(build::boolean(true));
        for ((_, e), t) in values.iter().zip(types.iter().skip(1)) {
            all.push(self.expr_as(e, t)?);
        }
        Ok(all)
    }
}
