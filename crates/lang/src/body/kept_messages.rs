//! Messages as values: the streamed bytes of one that is held, and messages kept in tables.
//!
//! A message is kept as its bytes, and parsed again when it is read, under the parameters that the
//! reader's request gives to its answer. So an answer that was kept for GET has no body for HEAD.

use super::built_message::EditedMessage;
use super::Lower;
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::ty::Ty;
use crate::units::findings::source;
use crate::val::{OutKind, Val, Vk};
use ir::{ExprKind as K, FaultKind, FieldKind, LocalId, StmtKind, TableId, UnitId};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Arg, Ident, Span};
use wireloom_syntax::Diagnostic;

/// The longest message that is kept where its type does not say it, and the longest of any.
const LONGEST: u64 = 64 << 10;
pub const LONGEST_MAX: u64 = 16 << 20;

impl Compiler<'_> {
    /// A unit as the type of a value is a message that is kept.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn kept(&self, t: Ty) -> Ty {
        match t {
            Ty::Msg(u) if self.m.units.get(u.index()).is_some_and(|u| u.frame.is_none()) => Ty::Kept(u, LONGEST),
            Ty::Option(t) => self.kept(*t).option(),
            t => t,
        }
    }

    /// Whether a message is a part of data of a type.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn has_kept(&self, t: &Ty) -> bool {
        match t {
            Ty::Kept(..) => true,
            Ty::Record(r) => self.records[r.index()].iter().any(|(_, t)| self.has_kept(t)),
            t => t.parts().is_some_and(|ts| ts.iter().any(|t| self.has_kept(t))),
        }
    }

    /// Whether a unit has streams, in it or in its parts.
    pub fn has_streams(&self, u: UnitId) -> bool {
        let stream = |k: &FieldKind| matches!(k, FieldKind::StreamBytes { .. } | FieldKind::StreamUnit { .. });
        ir::grammar::tail::has(&self.m, u, &stream)
    }

    /// Whether a list in it ends with the connection: its items cannot be told from streamed bytes.
    pub fn has_endless_lists(&self, u: UnitId) -> bool {
        let endless = |k: &FieldKind| matches!(k, FieldKind::List { extent: ir::ListExtent::ToEnd, .. });
        ir::grammar::tail::has(&self.m, u, &endless)
    }
}

impl Lower<'_, '_> {
    /// Bytes of a message's streams that are held, if they are.
    fn body_limit(&self, msg: LocalId) -> Option<u64> {
        // A function is checked by itself, before it is known which messages it is given.
        if self.kind == super::Kind::Func {
            return Some(LONGEST_MAX);
        }
        let of_port = |p: ir::PortId| u64::from(self.cx.m.ports.get(p.index()).map_or(0, |p| p.options.hold_body));
        let own = self.handler.filter(|h| h.req == msg && !h.greeting).map(|h| of_port(h.port));
        own.filter(|n| *n > 0).or_else(|| self.bodies.get(&msg).copied())
    }

    /// The answer of a call to a port may be held.
    pub fn note_body(&mut self, answer: LocalId, port: ir::PortId) {
        let most = self.cx.m.ports[port.index()].options.hold_body;
        if most > 0 {
            self.bodies.insert(answer, most.into());
        }
        if self.cx.changing.iter().any(|(p, _)| *p == port) {
            self.in_other_pieces.insert(answer);
        }
    }

    /// `message.data`: its streamed bytes as one, where they are held.
    pub fn held_member(&mut self, p: &ir::Path, u: UnitId, name: &Ident) -> Option<Val> {
        let ir::Path { root: ir::Root::Local(l), steps } = p else { return None };
        if name.name != "data" || !steps.is_empty() || !self.cx.has_streams(u) {
            return None;
        }
        let ty = Ty::Bytes(self.body_limit(*l)?).option();
        let t = self.cx.lower_ty(&ty);
        Some(Val::pure(ty, ir::Expr::new(t, K::Held(*l))))
    }

    /// A value read from a table, or a part of one: a message that was kept is parsed.
    pub fn recalled(&mut self, v: Val, span: Span) -> R<Val> {
        let (unit, max, there, bytes) = match (&v.ty, &v.kind) {
            (Ty::Kept(u, n), Vk::Pure(e)) => (*u, *n, None, e.clone()),
            (Ty::Option(t), Vk::Pure(e)) => {
                let Ty::Kept(u, n) = **t else { return Ok(v) };
                let ty = self.cx.lower_ty(t);
                let none = ir::Expr::new(ty, K::Bytes(vec![]));
                let there = build::is_some(e.clone());
                (u, n, Some(there.clone()), build::if_(ty, there, build::unwrap(ty, e.clone()), none))
            }
            _ => return Ok(v),
        };
        if self.pure_only() {
            return Err(self.involved(span));
        }
        if self.held.is_some() {
            return Err(self.while_held(span, "reads a message"));
        }
        self.impure = true;
        let before = std::mem::take(&mut self.asked_args);
        let args = self.reader_params(unit, span);
        let asked = std::mem::replace(&mut self.asked_args, before);
        let args = args?;
        let (m, ok) = (self.new_local("kept", &Ty::Msg(unit)), self.new_local("", &Ty::Bool));
        self.push(span, StmtKind::Parse { unit, kept: Some(args), bytes, dst: m, ok });
        self.bodies.insert(m, max);
        self.read_with.extend(asked.into_iter().map(|args| (m, args)));
        let whole = self.local_expr(ok);
        let cond = there.map_or(whole.clone(), |there| build::and(there, whole));
        let cond = self.temp("", &Ty::Bool, cond, span);
        Ok(Val::maybe(self.local_expr(cond), Val::path(Ty::Msg(unit), build::msg(m))))
    }

    /// The parameters with which an answer to the request at hand is read; zeros where there is
    /// none.
    fn reader_params(&mut self, unit: UnitId, span: Span) -> R<Vec<ir::Expr>> {
        let params = self.cx.units[unit.index()].params.clone();
        let answers = |h: &super::HandlerCtx| {
            !params.is_empty() && !h.greeting && self.cx.m.protocols[h.protocol.index()].response == Some(unit)
        };
        let Some(h) = self.handler.filter(answers) else {
            return Ok(params.iter().map(|(_, t)| self.zero(t)).collect());
        };
        let request = Val::path(Ty::Msg(self.cx.m.protocols[h.protocol.index()].request), build::msg(h.req));
        let mut args = self.response_args(h.protocol, &request, span)?;
        args.truncate(params.len());
        Ok(args)
    }

    /// A message as the bytes that are kept of it.
    pub fn keep_message(&mut self, v: &Val, unit: UnitId, max: u64, span: Span) -> R<ir::Expr> {
        let o = self.message_of(v, span)?;
        if o.unit != unit {
            return Err(self.mismatch(&Ty::Msg(unit), &Ty::Msg(o.unit), span));
        }
        if self.pure_only() {
            return Err(self.involved(span));
        }
        if self.held.is_some() {
            return Err(self.while_held(span, "keeps a message"));
        }
        self.impure = true;
        self.reads_the_same(unit, span)?;
        let msg = match &o.kind {
            OutKind::Inner => return Err(Reported),
            OutKind::Built(_) => {
                for (l, (_, t)) in o.params.iter().zip(self.cx.units[unit.index()].params.clone()) {
                    let zero = self.zero(&t);
                    self.push(span, StmtKind::Set(*l, zero));
                }
                ir::Outgoing::Built { unit, body: self.read_whole(&o, span)? }
            }
            OutKind::Pass { msg, edits, copy } => {
                self.all_there(*msg, unit, span)?;
                let edits = self.with_pending(*msg, edits, *copy);
                self.finished(EditedMessage { unit, msg: *msg, known: o.fields.clone(), edits }, vec![], span)?
            }
        };
        let ty = Ty::Bytes(max);
        let t = self.cx.lower_ty(&ty);
        let bytes = self.new_local("", &ty);
        self.push(span, StmtKind::Render { msg, dst: bytes });
        let bytes = self.local_expr(bytes);
        let fits = build::cmp(ir::BinOp::Le, build::len_bytes(bytes.clone()), build::u64(max));
        self.guard(fits, FaultKind::TOO_LONG, span);
        Ok(build::cast(t, bytes))
    }

    /// The reader of a kept message may know other arguments for its unit.
    fn reads_the_same(&mut self, unit: UnitId, span: Span) -> R<()> {
        let Some(f) = ir::grammar::params::other_fields(&self.cx.m, unit) else { return Ok(()) };
        let shown = self.show(&Ty::Msg(unit));
        let at = source(self.field_ir(unit, f).span);
        let d = Diagnostic::error("E0443", span, format!("this {shown} would be another one for another request"))
            .label("its reader may know other arguments")
            .also(at, "this depends on a parameter")
            .hint("keep a record of its fields");
        Err(self.cx.report(d))
    }

    /// A message that streams is kept only if it is held.
    fn all_there(&mut self, msg: LocalId, unit: UnitId, span: Span) -> R<()> {
        if !self.cx.has_streams(unit) {
            return Ok(());
        }
        let Some(n) = self.body_limit(msg) else {
            let shown = self.show(&Ty::Msg(unit));
            let d = Diagnostic::error("E0441", span, format!("this {shown} may stream past, and cannot be kept"))
                .label("not all of it is there");
            return Err(self.cx.report(d.hint("its port holds short ones with `hold_body 64KiB else pass`")));
        };
        let t = self.cx.lower_ty(&Ty::Bytes(n).option());
        self.guard(build::is_some(ir::Expr::new(t, K::Held(msg))), FaultKind::TOO_LONG, span);
        Ok(())
    }

    /// `table.wait(key, 2s)`: until another handler has set or removed the entry, or as long.
    pub fn wait_for_entry(&mut self, table: TableId, name: &Ident, args: &[Arg], span: Span) -> R<Val> {
        let [key, within] = args else {
            let d = Diagnostic::error("E0308", span, format!("`wait` takes 2 arguments, found {}", args.len()));
            let hint = format!("write `{}.wait(key, 2s)`", self.table_called(table));
            return Err(self.cx.report(d.hint(hint)));
        };
        if self.frames
            || self.kind != super::Kind::Handler
            || self.cx.m.tables[table.index()].kind != ir::TableKind::Exact
        {
            let d = Diagnostic::error("E0603", name.span, "only handlers of connections wait for an entry of a table");
            return Err(self.cx.report(d.hint("of an exact table")));
        }
        if self.held.is_some() {
            return Err(self.while_held(span, "waits"));
        }
        let ty = self.cx.tables[table.index()].key.clone();
        let key = self.expr_as(&key.value, &ty)?;
        let within = self.expr_as(&within.value, &Ty::Duration)?;
        self.push(span, StmtKind::Wait { table, key, within });
        self.push(span, StmtKind::Await { hold: false, hold_req: false, live: vec![] });
        self.epoch += 1;
        Ok(Val::unit())
    }
}
