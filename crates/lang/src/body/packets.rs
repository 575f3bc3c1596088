//! Frames: proofs about their headers, computed members, edits in place.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of ExprKind")]

use super::Lower;
use crate::compiler::{Reported, R, T_BOOL, T_U32, T_U64};
use crate::ir_builder as build;
use crate::ty::{Ty, U32};
use crate::units::info::PacketInfo;
use crate::val::{OutKind, Val, Vk};
use ir::ops::Own;
use ir::{BinOp, Emit, Expr as X, ExprKind as K, FaultKind, FrameAct, LocalId, Part, StmtKind};
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, ExprKind, Ident, Span};
use wireloom_syntax::Diagnostic;

/// No frame is longer.
const MAX_FRAME: u64 = 65_535;

/// A header of a frame, by the local that holds the frame.
#[derive(Clone, Copy)]
struct HeaderAt {
    frame: LocalId,
    unit: ir::UnitId,
    layer: u32,
}

impl Lower<'_, '_> {
    /// The part of a header whose length follows from a field.
    fn sized_by(&self, header: ir::UnitId, field: ir::FieldId) -> Option<String> {
        let sized = |f: &&ir::Field| match &f.kind {
            ir::FieldKind::Bytes { extent: ir::Extent::Length(n), .. } => ir::header_bits::reads(n, field),
            _ => false,
        };
        self.cx.m.units[header.index()].fields.iter().find(sized).and_then(|f| f.name.clone())
    }

    /// The unit of the message that a local holds.
    pub fn message_unit(&self, l: LocalId) -> Option<ir::UnitId> {
        if let ir::Ty::Msg(u) = self.cx.m.types.get(self.locals.get(l.index())?.ty.index())? {
            return Some(*u);
        }
        None
    }

    /// The frame that a local holds.
    pub fn frame_unit(&self, l: LocalId) -> Option<ir::UnitId> {
        self.message_unit(l).filter(|u| self.cx.m.units[u.index()].frame.is_some())
    }

    /// The local of a whole frame that a value is.
    pub fn whole_frame(&self, v: &Val) -> Option<LocalId> {
        v.kind.message().filter(|l| self.frame_unit(*l).is_some())
    }

    /// The layers of a frame that a local holds.
    pub fn frame_layers(&self, l: LocalId) -> &[ir::Layer] {
        self.frame_unit(l).map_or(&[], |u| self.layers(u))
    }

    fn layers(&self, u: ir::UnitId) -> &[ir::Layer] {
        self.cx.m.units[u.index()].frame.as_ref().map_or(&[], |f| &f.layers)
    }

    /// Whether a path names something of a frame.
    pub fn is_header(&self, p: &ir::Path) -> bool {
        matches!(p.root, ir::Root::Local(l) if self.frame_unit(l).is_some())
    }

    // ---- which headers are there ----

    /// The headers of which a condition says that one is there: a `Case` of a layer, or several
    /// joined by `or`.
    fn headers_asked(&self, cond: &X, frame: &mut Option<LocalId>, into: &mut Vec<u32>) -> bool {
        match &*cond.kind {
            K::Binary(BinOp::Or, a, b) => self.headers_asked(a, frame, into) && self.headers_asked(b, frame, into),
            K::Case(ir::Path { root: ir::Root::Local(l), steps }, 0) => {
                let (Some(u), [ir::Step::Field(f)]) = (self.frame_unit(*l), steps.as_slice()) else { return false };
                if frame.is_some_and(|o| o != *l) {
                    return false;
                }
                *frame = Some(*l);
                match self.layers(u).iter().position(|x| x.switch == *f) {
                    Some(n) => {
                        into.push(n as u32);
                        true
                    }
                    None => false,
                }
            }
            _ => false,
        }
    }

    /// Whether the facts say that one of the headers asked for is there. A header that is there has
    /// one of those before it that its `after` names.
    pub fn header_known(&self, cond: &X) -> bool {
        let (mut frame, mut set) = (None, vec![]);
        if !self.headers_asked(cond, &mut frame, &mut set) {
            return false;
        }
        let Some(u) = frame.and_then(|l| self.frame_unit(l)) else { return false };
        let mut absent = vec![];
        for f in &self.facts {
            let K::Unary(ir::UnOp::Not, inner) = &*f.kind else { continue };
            let (mut other, mut gone) = (None, vec![]);
            if self.headers_asked(inner, &mut other, &mut gone) && other == frame {
                absent.extend(gone);
            }
        }
        let layers = self.layers(u);
        set.retain(|n| !absent.contains(n));
        // Where a header may have been taken out, what came behind it says nothing of it; nor does
        // its absence say what was before that.
        let taken = |n: &u32| frame.is_some_and(|l| self.gone.contains(&(l, *n)));
        let before: Vec<u32> = set.iter().copied().filter(|n| !taken(n)).collect();
        let never: Vec<u32> = absent.iter().copied().filter(|n| !taken(n)).collect();
        // Absent headers count, too: a header may come after one that can no longer be there (a
        // second tag where there is no first one).
        let (mut known, mut always) = (vec![None; layers.len()], vec![None; layers.len()]);
        self.facts.iter().any(|f| {
            let (mut other, mut one_of) = (None, vec![]);
            self.headers_asked(f, &mut other, &mut one_of)
                && other == frame
                && one_of.iter().filter(|n| !absent.contains(n)).all(|n| {
                    set.contains(n)
                        || comes_after(layers, *n, &before, &never, &mut known)
                        || comes_after(layers, *n, &before, &[], &mut always)
                })
        })
    }

    /// Whether a condition is about headers alone.
    fn about_headers(&self, cond: &X) -> bool {
        match &*cond.kind {
            K::Binary(BinOp::Or | BinOp::And, a, b) => self.about_headers(a) && self.about_headers(b),
            K::Unary(ir::UnOp::Not, a) => self.about_headers(a),
            K::Bool(_) => true,
            _ => self.headers_asked(cond, &mut None, &mut vec![]),
        }
    }

    /// Data computed from headers: without a proof that they are there it is required.
    pub fn is_computed(&self, v: &Val) -> bool {
        matches!(&v.kind, Vk::Maybe(c, inner) if matches!(inner.kind, Vk::Pure(_)) && self.about_headers(c))
    }

    /// The condition to test before a header that may be absent is read.
    pub fn header_hint(&self, cond: &X) -> Option<String> {
        let (mut frame, mut set) = (None, vec![]);
        if !self.headers_asked(cond, &mut frame, &mut set) {
            return None;
        }
        let l = frame?;
        let u = self.frame_unit(l)?;
        let fields = &self.cx.m.units[u.index()].fields;
        let name = &self.locals.get(l.index())?.name;
        let names: Vec<String> = set
            .iter()
            .filter_map(|n| fields[self.layers(u)[*n as usize].header.index()].name.as_ref())
            .map(|h| format!("{name}.{h}"))
            .collect();
        let test = names.join(" or ");
        Some(format!("test it first: `if {test} {{ … }}`, `where {test}`, or give an alternative: `x else …`"))
    }

    /// An expression with the branches left out that cannot be taken here.
    fn narrow(&self, e: X) -> X {
        let kind = match *e.kind {
            K::If(c, a, b) => {
                let c = self.narrow(c);
                if self.proven(&c) {
                    return self.narrow(a);
                }
                if self.proven(&build::not(c.clone())) {
                    return self.narrow(b);
                }
                return build::if_(e.ty, c, self.narrow(a), self.narrow(b));
            }
            K::Get(a, i) => {
                let a = self.narrow(a);
                return part(&a, i, e.ty).unwrap_or(X::new(e.ty, K::Get(a, i)));
            }
            K::Make(es) => K::Make(es.into_iter().map(|e| self.narrow(e)).collect()),
            K::Some(a) => K::Some(self.narrow(a)),
            K::Cast(a) => K::Cast(self.narrow(a)),
            K::Binary(op, a, b) => K::Binary(op, self.narrow(a), self.narrow(b)),
            k => k,
        };
        X::new(e.ty, kind)
    }

    // ---- members ----

    /// `.len`, `.payload`, …, and computed members; None: it is a header, or not known.
    pub fn packet_member(&mut self, p: &ir::Path, u: ir::UnitId, name: &Ident) -> Option<R<Val>> {
        let info = self.cx.units[u.index()].packet.clone()?;
        let ir::Root::Local(l) = p.root else { return None };
        if let Some(field) = self.packet_field(name) {
            return Some(self.read_field(field, u, name));
        }
        if let Some(i) = info.lets.iter().position(|(n, ..)| n.name == name.name) {
            return Some(self.computed_member(p, u, name, &info, i));
        }
        Some(Ok(match name.name.as_str() {
            "len" => Val::pure(U32, X::new(T_U32, K::FrameLen(l))),
            "port" => Val::pure(U32, X::new(T_U32, K::FrameInstance(l))),
            "time" => Val::pure(Ty::Instant, X::new(T_U64, K::FrameTime(l))),
            "payload" => self.payload(l, None),
            // A copy: the mark may be set before the value is used.
            "mark" => {
                let mark = self.mark_local();
                let value = self.local_expr(mark);
                let copy = self.temp("", &U32, value, name.span);
                Val::pure(U32, self.local_expr(copy))
            }
            _ => return None,
        }))
    }

    fn payload(&mut self, l: LocalId, layer: Option<u32>) -> Val {
        let ty = Ty::Bytes(MAX_FRAME);
        let t = self.cx.lower_ty(&ty);
        Val::pure(ty, X::new(t, K::Payload(l, layer)))
    }

    /// Lowered anew at each use, with the headers that are known there.
    fn computed_member(
        &mut self,
        p: &ir::Path,
        u: ir::UnitId,
        name: &Ident,
        info: &Rc<PacketInfo>,
        i: usize,
    ) -> R<Val> {
        let key = format!("{}.{}", self.cx.m.units[u.index()].name, name.name);
        if self.inlined.contains(&key) || self.inlined.len() >= 16 {
            return Err(self.cx.recursion(&name.name, name.span));
        }
        let (_, ty, e) = info.lets[i].clone();
        let scopes = std::mem::replace(&mut self.scopes, vec![vec![]]);
        let (module, in_app, called) = (self.module, self.in_app, self.call_into(info.module, name.span));
        (self.module, self.in_app) = (info.module, false);
        let dot = self.dot.take();
        let packet = self.packet.replace((p.clone(), u));
        self.inlined.push(key);
        let made = self.deeper(name.span, |s| {
            s.as_text(|s| match ty {
                None => s.expr(&e, None),
                Some(t) => {
                    let t = s.cx.ty(s.module, &t)?;
                    let v = s.expr_as(&e, &t)?;
                    Ok(Val::pure(t, v))
                }
            })
        });
        self.inlined.pop();
        self.packet = packet;
        self.dot = dot;
        (self.module, self.in_app, self.called) = (module, in_app, called);
        self.scopes = scopes;
        let v = made?;
        let ty = self.settled(&v.ty);
        match (&v.ty, v.kind) {
            (Ty::Option(t), Vk::Pure(e)) => {
                let t = (**t).clone();
                Ok(match open(&self.narrow(e), self.cx.lower_ty(&t)) {
                    Some((cond, inner)) => Val::maybe(cond, Val::pure(t, inner)),
                    None => return Err(self.err("E0620", name.span, format!("`{}` is `none` here", name.name))),
                })
            }
            (Ty::Lit, Vk::Pure(e)) => Ok(Val::pure(ty, e)),
            (_, Vk::Pure(e)) => Ok(Val::pure(ty, self.narrow(e))),
            (_, kind) => Ok(Val { ty, kind, caseless: v.caseless }),
        }
    }

    /// A bare name in a computed member: a header or another member of the packet.
    pub fn packet_name(&mut self, n: &Ident) -> Option<R<Val>> {
        let (p, u) = self.packet.clone()?;
        let known = crate::units::packets::BUILTIN.contains(&n.name.as_str())
            || self.cx.units[u.index()].member(&n.name).is_some()
            || self.cx.units[u.index()].packet.as_ref().is_some_and(|i| i.lets.iter().any(|(l, ..)| l.name == n.name));
        known.then(|| self.field_of(Val::path(Ty::Msg(u), p), n, n.span))
    }

    /// A value of a packet, read now: the function that gets it may change the packet.
    pub fn now(&mut self, v: Val, span: Span) -> Val {
        let Vk::Pure(e) = &v.kind else { return v };
        let mut reads = false;
        ir::walk::expr(e, &mut |e| reads |= matches!(&*e.kind, K::Read(_) | K::Payload(..) | K::FrameLen(_)));
        if !reads || !v.ty.is_plain() || self.pure_only() {
            return self.once(v, span);
        }
        let (ty, e) = (v.ty.clone(), e.clone());
        let l = self.temp("", &ty, e, span);
        Val { caseless: v.caseless, ..Val::pure(ty, self.local_expr(l)) }
    }

    // ---- headers as places ----

    /// Whether a place is in a frame, or a frame itself.
    pub fn in_frame(&self, e: &Expr) -> bool {
        let framed = |v: &Val| matches!(&v.kind, Vk::Path(ir::Path { root: ir::Root::Local(l), .. }) if self.frame_unit(*l).is_some());
        match &*e.kind {
            ExprKind::Name(n) => match self.lookup(&n.name) {
                Some((i, j)) => framed(&self.scopes[i][j].val),
                None => false,
            },
            ExprKind::Field(Some(b), _) => self.in_frame(b),
            ExprKind::Field(None, _) => self.dot.as_ref().is_some_and(framed),
            ExprKind::Call(..) => payload_of(e).is_some_and(|h| self.in_frame(h)),
            _ => false,
        }
    }

    pub fn frame_local(&mut self, v: &Val, span: Span) -> R<LocalId> {
        match self.whole_frame(v) {
            Some(l) => Ok(l),
            None if v.ty.is_error() => Err(Reported),
            None => {
                let s = self.show(&v.ty);
                Err(self.err("E0622", span, format!("expected a packet, found {s}")))
            }
        }
    }

    /// A header that is known to be there.
    fn header_at(&mut self, e: &Expr) -> R<HeaderAt> {
        let v = self.expr(e, None)?;
        let v = self.defined(v, e.span)?;
        if let Vk::Path(ir::Path { root: ir::Root::Local(l), steps }) = &v.kind {
            if let (Some(u), [ir::Step::Field(f)]) = (self.frame_unit(*l), steps.as_slice()) {
                if let Some(n) = self.layers(u).iter().position(|x| x.header == *f) {
                    return Ok(HeaderAt { frame: *l, unit: u, layer: n as u32 });
                }
            }
        }
        if v.ty.is_error() {
            return Err(Reported);
        }
        let s = self.show(&v.ty);
        Err(self.cx.report(
            Diagnostic::error("E0622", e.span, format!("expected a header of a packet, found {s}"))
                .hint("a header is named by its packet: `p.ip4`"),
        ))
    }

    pub fn act(&mut self, frame: LocalId, act: FrameAct, span: Span) -> R<()> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        self.impure = true;
        self.push(span, StmtKind::Frame { frame, act });
        Ok(())
    }

    /// `p.ip4.ttl -= 1`, `p.payload = bytes`.
    pub fn frame_assign(&mut self, place: &Expr, op: Option<ast::BinOp>, value: &Expr, span: Span) -> R<Val> {
        if let Some(h) = payload_of(place) {
            let h = self.header_at(h)?;
            if op.is_some() {
                return Err(self.err("E0313", span, "a payload is set as a whole, by `=`"));
            }
            return self.set_payload(h.frame, h.unit, Some(h.layer), value, span);
        }
        let (base, name) = match &*place.kind {
            ExprKind::Field(Some(b), n) => (self.expr(b, None)?, n),
            ExprKind::Field(None, n) => (self.dot.clone().ok_or(Reported)?, n),
            _ => {
                return Err(self.cx.report(
                    Diagnostic::error("E0313", place.span, "a packet cannot be assigned to")
                        .hint("assign to a field of one of its headers: `p.ip4.ttl = 64`"),
                ))
            }
        };
        let base = self.defined(base, place.span)?;
        let Vk::Path(path) = &base.kind else {
            return Err(self.err("E0313", place.span, "this is computed and cannot be assigned to"));
        };
        let ir::Root::Local(frame) = path.root else { return Err(Reported) };
        let Some(u) = self.frame_unit(frame) else { return Err(Reported) };
        if path.steps.is_empty() {
            return self.frame_part((frame, u), name, op, value, span);
        }
        let [ir::Step::Field(h)] = path.steps.as_slice() else {
            return Err(self.err("E0622", place.span, "only fields of a header itself are set in place"));
        };
        let Some(layer) = self.layers(u).iter().position(|l| l.header == *h) else { return Err(Reported) };
        let header = self.layers(u)[layer].unit;
        let Some(m) = self.cx.units[header.index()].member(&name.name).cloned() else {
            return Err(self.cx.unknown_field(header, name));
        };
        if m.ty.is_error() {
            return Err(Reported);
        }
        let kind = self.field_ir(header, m.field).kind;
        // Sums go over pairs of bytes: where the field begins must be known to be even.
        let even = ir::frame::fixed_offset(&self.cx.m, header, m.field).is_some_and(|n| n % 2 == 0);
        let (fits, varies) = match &kind {
            ir::FieldKind::UInt { .. } => (true, false),
            ir::FieldKind::Bytes { extent: ir::Extent::Length(n), .. } => {
                (build::as_int(n).is_some() || even, build::as_int(n).is_none())
            }
            _ => (false, false),
        };
        if !fits || !m.cases.is_empty() {
            return Err(self.cx.report(
                Diagnostic::error(
                    "E0622",
                    name.span,
                    format!("`{}` has no fixed size and cannot be set in place", name.name),
                )
                .hint("remove the header and insert one that is built anew"),
            ));
        }
        if let Some(sized) = self.sized_by(header, m.field) {
            let text = format!("`{}` says how long `{sized}` is, and cannot be set in place", name.name);
            let d = Diagnostic::error("E0622", name.span, text);
            return Err(self.cx.report(d.hint("remove the header and insert one that is built anew")));
        }
        let current = self.cx.member_val(&path.clone(), header, &m);
        let ty = m.ty.clone();
        let e = match op {
            None => self.expr_as(value, &ty)?,
            Some(op) => {
                let v = self.expr(value, Some(&ty))?;
                let sum = self.arith(op, current, v, span)?;
                self.coerce(sum, &ty, span)?
            }
        };
        if let Some(ranges) = self.field_ir(header, m.field).within {
            let ok = crate::fold::fold(&self.cx.m, &X::new(T_BOOL, K::InRanges(e.clone(), ranges)));
            if build::as_bool(&ok) == Some(false) {
                return Err(self.cx.report(
                    Diagnostic::error("E0433", value.span, "this value is not valid in this field")
                        .label("the receiver would refuse it"),
                ));
            }
            self.guard(ok, FaultKind::CONSTRAINT, span);
        }
        let changed = ir::Path { root: path.root, steps: vec![ir::Step::Field(*h), ir::Step::Field(m.field)] };
        let e = if varies {
            // As many bytes as before: nothing moves.
            let l = self.temp("", &ty, e, span);
            let t = self.local_expr(l).ty;
            let same = build::cmp(
                BinOp::Eq,
                build::len_bytes(self.local_expr(l)),
                build::len_bytes(X::new(t, K::Read(changed.clone()))),
            );
            self.guard(same, FaultKind::CONSTRAINT, span);
            self.local_expr(l)
        } else {
            e
        };
        self.act(frame, FrameAct::Set { layer: layer as u32, field: m.field, value: e }, span)?;
        self.forget(|k| matches!(k, K::Read(p) if *p == changed));
        Ok(Val::unit())
    }

    /// The local with the mark of the packet at hand. It is part of the handler, not of the frame.
    fn mark_local(&mut self) -> LocalId {
        if let Some(l) = self.mark {
            return l;
        }
        let l = self.new_local("mark", &U32);
        self.mark = Some(l);
        self.impure = true;
        l
    }

    /// The packet's mark, if it may have one by now.
    pub fn mark_at_hand(&mut self) -> Option<X> {
        let mark = if self.queued { Some(self.mark_local()) } else { self.mark };
        mark.map(|l| self.local_expr(l))
    }

    fn set_mark(&mut self, op: Option<ast::BinOp>, value: &Expr, span: Span) -> R<Val> {
        let mark = self.mark_local();
        let e = match op {
            None => self.expr_as(value, &U32)?,
            Some(op) => {
                let v = self.expr(value, Some(&U32))?;
                let current = Val::pure(U32, self.local_expr(mark));
                let sum = self.arith(op, current, v, span)?;
                self.coerce(sum, &U32, span)?
            }
        };
        self.push(span, StmtKind::Set(mark, e));
        Ok(Val::unit())
    }

    fn frame_part(
        &mut self,
        (frame, u): (LocalId, ir::UnitId),
        name: &Ident,
        op: Option<ast::BinOp>,
        value: &Expr,
        span: Span,
    ) -> R<Val> {
        if let Some((field, ty)) = self.packet_field(name) {
            return self.set_field(field, (name, &ty), op, value, span);
        }
        if name.name == "mark" && self.cx.units[u.index()].member("mark").is_none() {
            return self.set_mark(op, value, span);
        }
        if name.name != "payload" || op.is_some() {
            let header = self.cx.units[u.index()].member(&name.name).is_some();
            let d = Diagnostic::error("E0313", name.span, format!("`{}` cannot be assigned to", name.name));
            return Err(self.cx.report(if header {
                d.hint("set its fields, or `remove` it and `insert` another one")
            } else {
                d.hint("fields of headers, `.payload` and `payload(p.header)` can")
            }));
        }
        self.set_payload(frame, u, None, value, span)
    }

    /// `p.payload = bytes`, `payload(p.eth) = bytes`: of a header what came behind it is gone.
    fn set_payload(&mut self, frame: LocalId, u: ir::UnitId, layer: Option<u32>, value: &Expr, span: Span) -> R<Val> {
        let v = self.expr(value, None)?;
        let max = v.ty.bytes_max().min(MAX_FRAME) as u32;
        let bytes = self.bytes_of(v, value.span)?;
        let sp = self.cx.span(span);
        let body = vec![build::stmt(sp, StmtKind::Emit(Emit::Bytes(bytes)))];
        let place = self.place_id(span);
        self.act(frame, FrameAct::Payload { layer, body, max, place, keep: None }, span)?;
        let layers = self.layers(u);
        let there =
            |k: u32| build::case(build::step(&build::msg(frame), ir::Step::Field(layers[k as usize].switch)), 0);
        let (gone, rest): (Vec<u32>, Vec<u32>) =
            (0..layers.len() as u32).partition(|k| layer.is_some_and(|n| ir::frame::leads_to(layers, n, *k)));
        let taken: Vec<(LocalId, u32)> = gone.iter().map(|k| (frame, *k)).collect();
        let gone: Vec<X> = gone.into_iter().map(there).collect();
        // A fact that holds only because one of those is there stays known.
        let known: Vec<X> = rest.into_iter().map(there).filter(|c| !gone.is_empty() && self.proven(c)).collect();
        self.forget(|k| matches!(k, K::Payload(..) | K::FrameLen(_)) || gone.iter().any(|g| *k == *g.kind));
        for c in &known {
            self.assume(c, true);
        }
        for g in &gone {
            self.assume(g, false);
        }
        self.gone.extend(taken);
        Ok(Val::unit())
    }

    /// `remove p.vlan`.
    pub fn remove_header(&mut self, e: &Expr, span: Span) -> R<()> {
        let h = self.header_at(e)?;
        self.act(h.frame, FrameAct::Remove { layer: h.layer }, span)?;
        let switch = self.layers(h.unit)[h.layer as usize].switch;
        let there = build::case(build::step(&build::msg(h.frame), ir::Step::Field(switch)), 0);
        // It is gone; what came behind it still is there.
        let behind: Vec<u32> = (0..self.layers(h.unit).len() as u32).collect();
        let known: Vec<X> = behind
            .iter()
            .map(|n| {
                build::case(
                    build::step(&build::msg(h.frame), ir::Step::Field(self.layers(h.unit)[*n as usize].switch)),
                    0,
                )
            })
            .filter(|c| *c != there && self.proven(c))
            .collect();
        self.forget(|k| *k == *there.kind || matches!(k, K::FrameLen(_)));
        for c in known {
            self.assume(&c, true);
        }
        self.assume(&there, false);
        self.gone.insert((h.frame, h.layer));
        Ok(())
    }

    /// `insert Vlan { … } before p.ip4`, `… behind p.eth`.
    pub fn insert_header(&mut self, parts: &Expr, before: bool, at: &Expr, span: Span) -> R<()> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        let h = self.header_at(at)?;
        let (parts, max) = self.frame_parts(parts)?;
        let place = self.place_id(span);
        if before {
            self.act(h.frame, FrameAct::Insert { before: Some(h.layer), behind: None, parts, max, place }, span)?;
        } else {
            let next = self.followers(h.frame, h.unit, h.layer);
            let sp = self.cx.span(span);
            let insert = |before| {
                build::stmt(
                    sp,
                    StmtKind::Frame {
                        frame: h.frame,
                        act: FrameAct::Insert { before, behind: Some(h.layer), parts: parts.clone(), max, place },
                    },
                )
            };
            // The next header decides. None: this is the last one.
            let mut block = vec![insert(None)];
            for n in next.into_iter().rev() {
                let cond = build::case(
                    build::step(&build::msg(h.frame), ir::Step::Field(self.layers(h.unit)[n as usize].switch)),
                    0,
                );
                if self.proven(&cond) {
                    block = vec![insert(Some(n))];
                    continue;
                }
                if self.proven(&build::not(cond.clone())) {
                    continue;
                }
                block = vec![build::stmt(sp, StmtKind::If { cond, then: vec![insert(Some(n))], other: block })];
            }
            self.impure = true;
            self.out.extend(block);
        }
        self.forget(|k| matches!(k, K::FrameLen(_)));
        Ok(())
    }

    /// Headers that may lie right behind one, outer ones first. They are those that name it, and
    /// behind such as may have been taken out, those that name these.
    fn followers(&self, frame: LocalId, unit: ir::UnitId, layer: u32) -> Vec<u32> {
        let (mut all, mut open) = (std::collections::BTreeSet::new(), vec![layer]);
        while let Some(from) = open.pop() {
            let behind =
                self.layers(unit).iter().enumerate().filter(|(_, l)| l.after.iter().any(|a| a.layer == Some(from)));
            for n in behind.map(|(n, _)| n as u32) {
                if all.insert(n) && self.gone.contains(&(frame, n)) {
                    open.push(n)
                }
            }
        }
        all.into_iter().collect()
    }

    /// Headers and bytes, one behind the other, and how many bytes they are at most.
    pub(super) fn frame_parts(&mut self, e: &Expr) -> R<(Vec<Part>, u32)> {
        let items = match &*e.kind {
            ExprKind::List(es) => es.clone(),
            _ => vec![e.clone()],
        };
        if items.is_empty() {
            return Err(self.err("E0622", e.span, "a frame has at least one part"));
        }
        let (mut parts, mut max) = (vec![], 0u64);
        for i in &items {
            let v = self.expr(i, None)?;
            match (&v.ty, &v.kind) {
                (Ty::Msg(u), Vk::Out(o)) => match &o.kind {
                    OutKind::Built(body) => {
                        parts.push(Part { unit: Some(*u), body: body.clone() });
                        max = max.saturating_add(self.most(*u));
                    }
                    OutKind::Pass { .. } | OutKind::Inner => {
                        return Err(self.err("E0622", i.span, "a part of a frame is built: `Unit { … }`, or bytes"))
                    }
                },
                (Ty::Msg(_), Vk::Path(p)) if !p.steps.is_empty() => {
                    let t = self.cx.lower_ty(&Ty::Bytes(MAX_FRAME));
                    let sp = self.cx.span(i.span);
                    parts.push(Part {
                        unit: None,
                        body: vec![build::stmt(sp, StmtKind::Emit(Emit::Bytes(X::new(t, K::Raw(p.clone())))))],
                    });
                    if let Ty::Msg(u) = &v.ty {
                        max = max.saturating_add(self.most(*u));
                    }
                }
                _ => {
                    max = max.saturating_add(v.ty.bytes_max());
                    let bytes = self.bytes_of(v, i.span)?;
                    let sp = self.cx.span(i.span);
                    parts.push(Part { unit: None, body: vec![build::stmt(sp, StmtKind::Emit(Emit::Bytes(bytes)))] });
                }
            }
        }
        Ok((parts, max.min(MAX_FRAME) as u32))
    }

    /// Most bytes of a header.
    fn most(&self, u: ir::UnitId) -> u64 {
        let unit = &self.cx.m.units[u.index()];
        let of = |f: &ir::Field| match &f.kind {
            ir::FieldKind::UInt { bytes, advance: true, .. } => u64::from(*bytes),
            ir::FieldKind::Bytes { max, .. } => *max,
            ir::FieldKind::Literal { values } => values.iter().map(|v| v.len() as u64).max().unwrap_or(0),
            ir::FieldKind::Unit { unit, .. } => self.most(*unit),
            ir::FieldKind::List { element, max, .. } => match &unit.fields[element.index()].kind {
                ir::FieldKind::Unit { unit, .. } => self.most(*unit).saturating_mul(u64::from(*max)),
                ir::FieldKind::UInt { bytes, .. } => u64::from(*bytes).saturating_mul(u64::from(*max)),
                _ => MAX_FRAME,
            },
            ir::FieldKind::UInt { .. }
            | ir::FieldKind::Number { .. }
            | ir::FieldKind::Varint { .. }
            | ir::FieldKind::Flag { .. }
            | ir::FieldKind::StreamBytes { .. }
            | ir::FieldKind::StreamUnit { .. }
            | ir::FieldKind::Switch { .. }
            | ir::FieldKind::Let { .. }
            | ir::FieldKind::Require { .. }
            | ir::FieldKind::Recover { .. }
            | ir::FieldKind::Pass { .. }
            | ir::FieldKind::Align { .. }
            | ir::FieldKind::Nothing => 0,
        };
        unit.fields.iter().map(of).fold(0u64, u64::saturating_add).min(MAX_FRAME)
    }

    /// `payload(p.udp)`, `checksum_ok(p.ip4)`, `update_checksum(p.ip4)`.
    pub fn header_fn(&mut self, own: Own, e: &Expr, span: Span) -> R<Val> {
        let h = self.header_at(e)?;
        if own == Own::Payload {
            return Ok(self.payload(h.frame, Some(h.layer)));
        }
        let unit = self.layers(h.unit)[h.layer as usize].unit;
        if self.cx.m.units[unit.index()].header.checksum.is_none() {
            let s = self.show(&Ty::Msg(unit));
            return Err(self.cx.report(
                Diagnostic::error("E0622", e.span, format!("{s} has no checksum"))
                    .hint("a field is one by `checksum header`, `checksum message` or `checksum transport N`"),
            ));
        }
        if own == Own::ChecksumOk {
            return Ok(Val::pure(Ty::Bool, X::new(T_BOOL, K::ChecksumOk(h.frame, h.layer))));
        }
        self.act(h.frame, FrameAct::Checksum { layer: h.layer }, span)?;
        Ok(Val::unit())
    }
}

/// The header of `payload(p.eth)`.
fn payload_of(e: &Expr) -> Option<&Expr> {
    match &*e.kind {
        ExprKind::Call(f, args) => match (&*f.kind, args.as_slice()) {
            (ExprKind::Name(n), [a]) if n.name == "payload" && a.name.is_none() => Some(&a.value),
            _ => None,
        },
        _ => None,
    }
}

/// Whether every way to a header leads through one of a set.
fn comes_after(layers: &[ir::Layer], n: u32, set: &[u32], absent: &[u32], known: &mut Vec<Option<bool>>) -> bool {
    if set.contains(&n) {
        return true;
    }
    if let Some(k) = known[n as usize] {
        return k;
    }
    let mut before =
        layers[n as usize].after.iter().map(|a| a.layer).filter(|l| l.is_none_or(|l| !absent.contains(&l))).peekable();
    let yes = before.peek().is_some()
        && before
            .collect::<Vec<_>>()
            .into_iter()
            .all(|l| l.is_some_and(|l| comes_after(layers, l, set, absent, known)));
    known[n as usize] = Some(yes);
    yes
}

/// When an option is there, and its value then.
fn open(e: &X, t: ir::TyId) -> Option<(X, X)> {
    match &*e.kind {
        K::Some(v) => Some((build::boolean(true), v.clone())),
        K::None => None,
        K::If(c, a, b) => Some(match (open(a, t), open(b, t)) {
            (None, None) => return None,
            (Some((ca, va)), None) => (build::and(c.clone(), ca), va),
            (None, Some((cb, vb))) => (build::and(build::not(c.clone()), cb), vb),
            (Some((ca, va)), Some((cb, vb))) => {
                let cond = if build::as_bool(&ca) == Some(true) {
                    if build::as_bool(&cb) == Some(true) {
                        build::boolean(true)
                    } else {
                        build::or(c.clone(), cb)
                    }
                } else {
                    build::or(build::and(c.clone(), ca), build::and(build::not(c.clone()), cb))
                };
                (cond, build::if_(va.ty, c.clone(), va, vb))
            }
        }),
        _ => Some((build::is_some(e.clone()), X::new(t, K::Unwrap(e.clone())))),
    }
}

/// A part of a record that is chosen by conditions.
pub fn part(e: &X, i: u32, ty: ir::TyId) -> Option<X> {
    match &*e.kind {
        K::Make(es) => es.get(i as usize).cloned(),
        K::If(c, a, b) => Some(build::if_(ty, c.clone(), part(a, i, ty)?, part(b, i, ty)?)),
        _ => None,
    }
}
