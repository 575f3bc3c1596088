//! Expressions: pure, so each becomes one C expression.

use crate::gen::Gen;
use crate::names;
use crate::scope::{At, Head, Inst, Item, Scope};
use crate::types::int_width;
use crate::xdp::bytes::flat;
use wireloom_ir::layout::int_of;
use wireloom_ir::*;

impl Gen<'_> {
    /// The unit behind a message local.
    pub fn msg_inst(&self, s: &Scope, l: LocalId) -> Option<Inst> {
        let (name, ty) = s.locals.get(l.index())?;
        let Ty::Msg(u) = self.m.ty(*ty) else { return None };
        if self.is_frame(*u) {
            return Some(Inst { unit: *u, at: name.clone(), base: format!("{name}->p"), head: Some(Head::Frame) });
        }
        let view = names::unit(self.m, *u);
        Some(Inst {
            head: None,
            unit: *u,
            at: format!("((const {view}_view *)(const void *){name}.view)->f"),
            base: format!("{name}.base"),
        })
    }

    fn root(&mut self, s: &Scope, root: Root) -> At {
        let none = || At::Unit(Inst { unit: UnitId(0), at: "(*v)".into(), base: "p".into(), head: None });
        match root {
            Root::Local(l) => self.msg_inst(s, l).map_or_else(none, At::Unit),
            Root::This => s.this.clone().map_or_else(none, At::Unit),
            Root::Item => match &s.item {
                Some(Item::Unit(i)) => At::Unit(i.clone()),
                Some(Item::Listed(i, f, at)) => At::Item(i.clone(), *f, at.clone()),
                None => none(),
            },
        }
    }

    pub fn resolve(&mut self, s: &Scope, path: &Path) -> At {
        let mut at = self.root(s, path.root);
        for step in &path.steps {
            at = match step {
                Step::Field(f) => match self.inside(&at) {
                    Some(inst) => At::Field(inst, *f),
                    None => at,
                },
                Step::Index(e) => match at {
                    At::Field(inst, f) => {
                        let FieldKind::List { element, .. } = self.m.unit(inst.unit).fields[f.index()].kind else {
                            return At::Field(inst, f);
                        };
                        let i = self.expr(s, e);
                        let item = format!("{}.{}.at[{i}]", inst.at, names::field(self.m, inst.unit, f));
                        At::Item(inst, element, item)
                    }
                    other @ At::Unit(_) | other @ At::Item(..) => other,
                },
            };
        }
        at
    }

    /// The unit whose fields can be named at this position.
    fn inside(&self, at: &At) -> Option<Inst> {
        match at {
            At::Unit(i) => Some(i.clone()),
            At::Field(i, f) if i.head == Some(Head::Frame) => {
                match self.layers(i.unit).iter().position(|l| l.header == *f) {
                    Some(n) => {
                        let begin = match self.frames.at_hand {
                            Some(k) if k as usize == n => "h".to_string(),
                            _ => self.place_in(&i.at, &format!("at[{n}]")),
                        };
                        Some(self.header_inst(i.unit, n as u32, self.layers(i.unit)[n].unit, &i.at, &begin))
                    }
                    None => Some(i.clone()),
                }
            }
            At::Field(Inst { head: Some(_), .. }, _) => self.inside_header(at),
            At::Field(i, f) => match &self.m.unit(i.unit).fields[f.index()].kind {
                FieldKind::Unit { unit, .. } | FieldKind::StreamUnit { unit, .. } => Some(Inst {
                    unit: *unit,
                    at: format!("{}.{}", i.at, names::field(self.m, i.unit, *f)),
                    base: i.base.clone(),
                    head: None,
                }),
                FieldKind::Switch { .. } => Some(i.clone()),
                FieldKind::UInt { .. }
                | FieldKind::Number { .. }
                | FieldKind::Varint { .. }
                | FieldKind::Bytes { .. }
                | FieldKind::Literal { .. }
                | FieldKind::Flag { .. }
                | FieldKind::List { .. }
                | FieldKind::StreamBytes { .. }
                | FieldKind::Let { .. }
                | FieldKind::Require { .. }
                | FieldKind::Recover { .. }
                | FieldKind::Pass { .. }
                | FieldKind::Align { .. }
                | FieldKind::Nothing => None,
            },
            At::Item(i, element, item) => match &self.m.unit(i.unit).fields[element.index()].kind {
                FieldKind::Unit { unit, .. } => {
                    Some(Inst { unit: *unit, at: format!("{item}.v"), base: i.base.clone(), head: None })
                }
                FieldKind::UInt { .. }
                | FieldKind::Number { .. }
                | FieldKind::Varint { .. }
                | FieldKind::Bytes { .. }
                | FieldKind::Literal { .. }
                | FieldKind::Flag { .. }
                | FieldKind::List { .. }
                | FieldKind::StreamBytes { .. }
                | FieldKind::StreamUnit { .. }
                | FieldKind::Switch { .. }
                | FieldKind::Let { .. }
                | FieldKind::Require { .. }
                | FieldKind::Recover { .. }
                | FieldKind::Pass { .. }
                | FieldKind::Align { .. }
                | FieldKind::Nothing => None,
            },
        }
    }

    fn read(&mut self, s: &Scope, path: &Path, ty: TyId) -> String {
        match self.resolve(s, path) {
            At::Unit(..) => self.zero(ty),
            At::Item(i, f, item) => match self.m.unit(i.unit).fields[f.index()].kind {
                FieldKind::Bytes { .. } => format!("wl_at({}, {item}.v)", i.base),
                FieldKind::UInt { .. }
                | FieldKind::Number { .. }
                | FieldKind::Varint { .. }
                | FieldKind::Literal { .. }
                | FieldKind::Flag { .. }
                | FieldKind::Unit { .. }
                | FieldKind::List { .. }
                | FieldKind::StreamBytes { .. }
                | FieldKind::StreamUnit { .. }
                | FieldKind::Switch { .. }
                | FieldKind::Let { .. }
                | FieldKind::Require { .. }
                | FieldKind::Recover { .. }
                | FieldKind::Pass { .. }
                | FieldKind::Align { .. }
                | FieldKind::Nothing => format!("{item}.v"),
            },
            At::Field(i @ Inst { head: Some(Head::Header { .. }), .. }, f) => self.header_field(&i, f, ty),
            At::Field(i, f) => {
                let m = self.m;
                let field = &m.unit(i.unit).fields[f.index()];
                let name = names::field(m, i.unit, f);
                match &field.kind {
                    FieldKind::Bytes { .. } => format!("wl_at({}, {}.{name})", i.base, i.at),
                    FieldKind::Let { value } if grammar::computed::again(m, field) => {
                        let inner = Scope { this: Some(i), ..Scope::default() };
                        format!("({})", self.expr(&inner, value))
                    }
                    FieldKind::Let { .. } if layout::has_bytes(m, field.ty) => match m.ty(field.ty) {
                        Ty::Bytes(_) => format!("wl_at({}, {}.{name}.v)", i.base, i.at),
                        Ty::Unit
                        | Ty::Bool
                        | Ty::UInt(_)
                        | Ty::Int(_)
                        | Ty::Endpoint
                        | Ty::Ip
                        | Ty::Option(_)
                        | Ty::List(..)
                        | Ty::Record(_)
                        | Ty::Tuple(_)
                        | Ty::Msg(_) => {
                            format!("(wl_opt_wl_bytes){{{0}.{name}.has, wl_at({1}, {0}.{name}.v)}}", i.at, i.base)
                        }
                    },
                    FieldKind::List { element, .. } => self.list_value(&i, f, *element, ty),
                    FieldKind::Switch { .. } => format!("{}.{name}__case", i.at),
                    FieldKind::Literal { .. } | FieldKind::StreamBytes { .. } => self.raw(&At::Field(i, f)),
                    FieldKind::UInt { .. }
                    | FieldKind::Number { .. }
                    | FieldKind::Varint { .. }
                    | FieldKind::Flag { .. }
                    | FieldKind::Unit { .. }
                    | FieldKind::StreamUnit { .. }
                    | FieldKind::Let { .. }
                    | FieldKind::Require { .. }
                    | FieldKind::Recover { .. }
                    | FieldKind::Pass { .. }
                    | FieldKind::Align { .. }
                    | FieldKind::Nothing => format!("{}.{name}", i.at),
                }
            }
        }
    }

    /// A list field as a list value.
    fn list_value(&mut self, i: &Inst, f: FieldId, element: FieldId, ty: TyId) -> String {
        let m = self.m;
        if !matches!(m.ty(ty), Ty::List(..)) {
            return self.zero(ty);
        }
        let (c, list) = (self.cty(ty), names::field_of(m, i.unit, f));
        let name = format!("list_of_{list}");
        if self.first(&name) {
            let item = match m.unit(i.unit).fields[element.index()].kind {
                FieldKind::Bytes { .. } => "wl_at(p, l->at[i].v)",
                FieldKind::UInt { .. }
                | FieldKind::Number { .. }
                | FieldKind::Varint { .. }
                | FieldKind::Literal { .. }
                | FieldKind::Flag { .. }
                | FieldKind::Unit { .. }
                | FieldKind::List { .. }
                | FieldKind::StreamBytes { .. }
                | FieldKind::StreamUnit { .. }
                | FieldKind::Switch { .. }
                | FieldKind::Let { .. }
                | FieldKind::Require { .. }
                | FieldKind::Recover { .. }
                | FieldKind::Pass { .. }
                | FieldKind::Align { .. }
                | FieldKind::Nothing => "l->at[i].v",
            };
            let Ty::List(_, max) = m.ty(ty) else { return self.zero(ty) };
            self.helpers.push_str(&format!(
                "static inline {c} {name}(const struct {list}_l *l, const uint8_t *p) {{\n{c} r;\nr.n = l->n > {max}u ? {max}u : l->n;\n(void)p;\n\
                 for (uint32_t i = 0; i < r.n; i++) r.v[i] = {item};\nreturn r;\n}}\n"
            ));
        }
        format!("{name}(&{}.{}, {})", i.at, names::field(m, i.unit, f), i.base)
    }

    /// The original bytes at a position.
    pub fn raw(&mut self, at: &At) -> String {
        match at {
            At::Unit(Inst { head: Some(Head::Frame), at, .. }) => format!("wl_b({at}->p, {at}->n)"),
            At::Unit(Inst { head: Some(Head::Header { view, layer, .. }), .. }) => header_bytes(view, *layer),
            At::Field(i @ Inst { head: Some(Head::Frame), .. }, f) => {
                match self.layers(i.unit).iter().position(|l| l.header == *f || l.switch == *f) {
                    Some(n) => header_bytes(&i.at, n as u32),
                    None => "wl_b(NULL, 0)".into(),
                }
            }
            At::Field(i @ Inst { head: Some(Head::Header { view, frame, layer }), .. }, f) => {
                self.header_raw(i, view, *frame, *layer, *f)
            }
            At::Unit(i) => match i.at.strip_suffix(".f").or(i.at.strip_suffix("->f")) {
                // A whole message: what is held of it.
                Some(_) if i.base.ends_with(".base") => {
                    let msg = i.base.trim_end_matches(".base");
                    format!("wl_b({msg}.base, wl_held({msg}))")
                }
                _ => "wl_b(NULL, 0)".into(),
            },
            At::Field(i, f) => format!("wl_at({}, {})", i.base, self.extent_of(i, *f)),
            At::Item(i, _, item) => format!("wl_at({}, {item}.x)", i.base),
        }
    }

    /// Lvalue of a field's extent in the view.
    pub fn extent_of(&self, i: &Inst, f: FieldId) -> String {
        format!("{}.{}__x", i.at, names::field(self.m, i.unit, f))
    }

    /// An integer constant of a type.
    pub fn int(&mut self, v: u128, ty: TyId) -> String {
        match self.m.ty(ty) {
            Ty::Bool => (v != 0).to_string(),
            Ty::UInt(b) if *b > 64 => {
                format!("((unsigned __int128)UINT64_C({:#x}) << 64 | UINT64_C({:#x}))", (v >> 64) as u64, v as u64)
            }
            Ty::Int(b) => {
                let bits = *b as u32;
                let cut = ((v as u64) << (64 - bits)) as i64 >> (64 - bits);
                if cut == i64::MIN {
                    "INT64_MIN".into()
                } else if cut < 0 {
                    format!("(int{}_t)({cut})", int_width(*b))
                } else {
                    format!("(int{}_t){cut}", int_width(*b))
                }
            }
            Ty::UInt(b) => {
                let n = v as u64;
                match int_width(*b) {
                    64 => format!("UINT64_C({n})"),
                    32 => format!("{n}u"),
                    w => format!("(uint{w}_t){n}"),
                }
            }
            Ty::Unit
            | Ty::Bytes(_)
            | Ty::Endpoint
            | Ty::Ip
            | Ty::Option(_)
            | Ty::List(..)
            | Ty::Record(_)
            | Ty::Tuple(_)
            | Ty::Msg(_) => self.zero(ty),
        }
    }

    /// Cuts a C integer expression to a type's width.
    pub(crate) fn fit(&mut self, text: String, ty: TyId) -> String {
        match self.m.ty(ty) {
            Ty::UInt(b) if *b > 64 => format!("(unsigned __int128)({text})"),
            Ty::UInt(b) if [8, 16, 32, 64].contains(b) => format!("(uint{b}_t)({text})"),
            Ty::UInt(b) => format!(
                "(uint{}_t)(({text}) & {:#x}u{})",
                int_width(*b),
                (1u128 << b) - 1,
                if *b > 32 { "ll" } else { "" }
            ),
            Ty::Int(b) if [8, 16, 32, 64].contains(b) => format!("(int{b}_t)({text})"),
            Ty::Int(b) => format!("(int{}_t)wl_sext((uint64_t)({text}), {b})", int_width(*b)),
            Ty::Bool => format!("(bool)({text})"),
            Ty::Unit
            | Ty::Bytes(_)
            | Ty::Endpoint
            | Ty::Ip
            | Ty::Option(_)
            | Ty::List(..)
            | Ty::Record(_)
            | Ty::Tuple(_)
            | Ty::Msg(_) => text,
        }
    }

    pub fn exprs(&mut self, s: &Scope, es: &[Expr]) -> Vec<String> {
        es.iter().map(|e| self.expr(s, e)).collect()
    }

    /// The place of `state`, or of a part of it. Only the part that is wanted is made a value.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn stored_at(&mut self, s: &Scope, e: &Expr) -> Option<String> {
        if self.xdp || !stack::is_stored(e) {
            return None;
        }
        match &*e.kind {
            ExprKind::State(id) => Some(format!("wl_state(x)->s_{}", names::state(self.m, *id))),
            ExprKind::Session(id) => Some(format!("wl_session(x)->{}", names::session(self.m, *id))),
            ExprKind::Unwrap(a) => Some(format!("{}.v", self.stored_at(s, a)?)),
            ExprKind::Get(a, n) => {
                let members = self.members(a.ty);
                Some(format!("{}.{}", self.stored_at(s, a)?, members.get(*n as usize)?.0))
            }
            ExprKind::ListGet(a, i) => {
                let index = self.expr(s, i);
                Some(format!("{}.v[{index}]", self.stored_at(s, a)?))
            }
            _ => None,
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn expr(&mut self, s: &Scope, e: &Expr) -> String {
        let part = match &*e.kind {
            ExprKind::ListLen(a) => self.stored_at(s, a).map(|at| format!("{at}.n")),
            ExprKind::IsSome(a) => self.stored_at(s, a).map(|at| format!("{at}.has")),
            _ => self.stored_at(s, e).map(|at| self.load(e.ty, &at)),
        };
        match part {
            Some(text) => text,
            None => self.value(s, e),
        }
    }

    fn value(&mut self, s: &Scope, e: &Expr) -> String {
        match &*e.kind {
            ExprKind::FrameLen(l) => format!("{}->n", local(s, *l)),
            ExprKind::FrameMark(_) => "mark_in".into(),
            ExprKind::PacketState(_, f) => match self.carried_in.contains(f) {
                true => format!("state_in_{}", f.0),
                false => self.expr(s, &self.m.packet[f.index()].init),
            },
            ExprKind::FrameInstance(_) if self.xdp => "WL_X(x)->instance".into(),
            ExprKind::FrameTime(_) if self.xdp => "x->core->now".into(),
            ExprKind::FrameInstance(l) => format!("(uint32_t){}->f->instance", local(s, *l)),
            ExprKind::FrameTime(l) => format!("{}->f->time", local(s, *l)),
            ExprKind::Payload(l, None) if self.xdp => format!("wl_of_frame(x, {0}->top, {0}->end)", local(s, *l)),
            ExprKind::Payload(l, Some(n)) if self.xdp => {
                format!("wl_of_frame(x, {0}->to[{n}], {0}->lim[{n}])", local(s, *l))
            }
            ExprKind::Payload(l, None) => format!("wl_b({0}->p + {0}->top, {0}->end - {0}->top)", local(s, *l)),
            ExprKind::Payload(l, Some(n)) => {
                format!("wl_b({0}->p + {0}->to[{n}], (uint32_t)({0}->lim[{n}] - {0}->to[{n}]))", local(s, *l))
            }
            ExprKind::ChecksumOk(l, n) => match self.msg_inst(s, *l) {
                Some(i) if self.xdp => self.xdp_sum_ok(&i.at, i.unit, *n),
                Some(i) => format!("wl_view_sum_ok({}, {}_headers, {n})", i.at, names::unit(self.m, i.unit)),
                None => "false".into(),
            },
            ExprKind::Int(v) => self.int(*v, e.ty),
            ExprKind::Bool(b) => b.to_string(),
            ExprKind::Bytes(b) if self.xdp => self.xdp_literal(b),
            ExprKind::Bytes(b) => format!("wl_b({}, {})", names::literal(b), b.len()),
            ExprKind::Local(l) if self.xdp && matches!(self.m.ty(e.ty), Ty::Bool) => {
                s.locals.get(l.index()).map_or_else(|| "0".into(), |l| format!("WL_FLAG({})", l.0))
            }
            ExprKind::Local(l) => s.locals.get(l.index()).map_or_else(|| "0".into(), |l| l.0.clone()),
            ExprKind::Param(p) => self.param(*p, e.ty),
            ExprKind::State(id) => {
                let st = &self.m.states[id.index()];
                let at = format!("wl_state(x)->s_{}", names::state(self.m, *id));
                self.load(st.ty, &at)
            }
            ExprKind::Session(id) => {
                let st = &self.m.sessions[id.index()];
                let at = format!("wl_session(x)->{}", names::session(self.m, *id));
                self.load(st.ty, &at)
            }
            ExprKind::Counter(c) => format!("wl_state(x)->counter[{}]", c.0),
            ExprKind::UnitParam(root, n) => self.unit_param(s, *root, *n),
            ExprKind::Read(p) => self.read(s, p, e.ty),
            ExprKind::Count(p) => match self.resolve(s, p) {
                At::Field(i, f) => format!("{}.{}.n", i.at, names::field(self.m, i.unit, f)),
                At::Unit(_) | At::Item(..) => "0u".into(),
            },
            ExprKind::Raw(p) => {
                let at = self.resolve(s, p);
                self.raw(&at)
            }
            ExprKind::Case(p, n) => match self.resolve(s, p) {
                At::Field(i @ Inst { head: Some(Head::Frame), .. }, f) => {
                    match self.layers(i.unit).iter().position(|l| l.switch == f) {
                        Some(k) => format!("({}WL_HAS({}, {k}))", if *n == 0 { "" } else { "!" }, i.at),
                        None => "false".into(),
                    }
                }
                At::Field(i, f) => format!("({}.{}__case == {n})", i.at, names::field(self.m, i.unit, f)),
                At::Unit(_) | At::Item(..) => "false".into(),
            },
            ExprKind::Acc => s.acc.clone().unwrap_or_else(|| "0".into()),
            ExprKind::HasMsg(l) => {
                s.locals.get(l.index()).map_or_else(|| "false".into(), |l| format!("({}.view != NULL)", l.0))
            }
            ExprKind::Held(l) => {
                let c = self.cty(e.ty);
                s.locals
                    .get(l.index())
                    .map_or_else(|| "false".into(), |l| format!("(({c}){{{0}.body.p != NULL, {0}.body}})", l.0))
            }
            ExprKind::PartStatus(i) => format!("(uint16_t)wl_part(x->task, {}).status", self.expr(s, i)),
            ExprKind::Parts => "x->task->parts".into(),
            ExprKind::Unary(op, a) => self.unary(s, *op, a, e.ty),
            ExprKind::Binary(op, a, b) => self.binary(s, *op, a, b, e.ty),
            ExprKind::Cast(a) => {
                if let Some(v4) = mapped(self.m, a).filter(|_| *self.m.ty(e.ty) == Ty::Ip) {
                    return format!("wl_v4_ip({})", self.expr(s, v4));
                }
                let text = self.expr(s, a);
                match (self.m.ty(a.ty), self.m.ty(e.ty)) {
                    (Ty::Bool | Ty::UInt(_) | Ty::Int(_), Ty::Bool | Ty::UInt(_) | Ty::Int(_)) => self.fit(text, e.ty),
                    (Ty::Ip, Ty::UInt(128)) => format!("wl_ip_u128({text})"),
                    (Ty::UInt(128), Ty::Ip) => format!("wl_u128_ip({text})"),
                    _ => text,
                }
            }
            ExprKind::If(c, a, b) => match self.either_header(s, e) {
                Some(text) => text,
                None => format!("({} ? {} : {})", self.expr(s, c), self.expr(s, a), self.expr(s, b)),
            },
            ExprKind::InRanges(a, ranges) => self.in_ranges_of(s, a, ranges),
            ExprKind::Some(a) => format!("({}){{true, {}}}", self.cty(e.ty), self.expr(s, a)),
            ExprKind::None => format!("({}){{0}}", self.cty(e.ty)),
            ExprKind::IsSome(a) => format!("({}).has", self.expr(s, a)),
            ExprKind::Unwrap(a) => format!("({}).v", self.expr(s, a)),
            ExprKind::Make(parts) => {
                let parts = self.exprs(s, parts);
                if *self.m.ty(e.ty) == Ty::Endpoint {
                    return format!("wl_ep_of({})", parts.join(", "));
                }
                format!("({}){{{}}}", self.cty(e.ty), if parts.is_empty() { "".into() } else { parts.join(", ") })
            }
            ExprKind::Get(a, n) => {
                let members = self.members(a.ty);
                let name = members.get(*n as usize).map_or("e0", |m| &m.0).to_string();
                format!("({}).{name}", self.expr(s, a))
            }
            ExprKind::MakeList(items) => {
                let items = self.exprs(s, items);
                format!(
                    "({}){{{}, {{{}}}}}",
                    self.cty(e.ty),
                    items.len(),
                    if items.is_empty() { "0".into() } else { items.join(", ") }
                )
            }
            ExprKind::ListLen(a) => format!("({}).n", self.expr(s, a)),
            ExprKind::ListGet(a, i) => self.list_get(s, a, i),
            ExprKind::Call(f, args) => {
                let args = self.exprs(s, args);
                names::call(self.m, *f, &args.join(", "))
            }
            ExprKind::Builtin(b, args) => self.builtin(s, *b, args, e.ty),
            ExprKind::Find { list, name } => self.over_items(s, "find", list, &[name]),
            ExprKind::CountOf { list, name } => self.over_items(s, "count", list, &[name]),
            ExprKind::AnyToken { list, name, token } => self.over_items(s, "token", list, &[name, token]),
            ExprKind::PortLen(p) if self.xdp => format!("{}u", self.instances[p.index()]),
            ExprKind::PortLen(p) => format!("x->core->port[{}].n", p.0),
            ExprKind::PortUp(p, i) => format!("(x->core->port[{}].up[{}] != 0)", p.0, self.expr(s, i)),
            ExprKind::PortLoad(p, i) => format!("x->core->port[{}].load[{}]", p.0, self.expr(s, i)),
            ExprKind::PortServer(p, i) => format!("wl_port_server(&x->core->port[{}], {})", p.0, self.expr(s, i)),
            ExprKind::PortFind(p, a) => format!("wl_port_find(&x->core->port[{}], {})", p.0, self.expr(s, a)),
            ExprKind::Pooled { port, index, key } => {
                let (index, key) = (self.expr(s, index), self.expr(s, key));
                format!("x->core->host->pooled(x->core, {}, {index}, {key})", port.0)
            }
            ExprKind::UpstreamFact(upstream, fact) => {
                let (of, fact) = (upstream.0, *fact as u32);
                format!("(x->task && x->conn ? x->core->host->upstream_fact(x->task, {of}, {fact}) : 0)")
            }
            ExprKind::GroupCount(i) => format!("wl_group_count(x, {})", self.expr(s, i)),
            ExprKind::GroupBytes(i) => format!("wl_group_bytes(x, {})", self.expr(s, i)),
            ExprKind::Ketama(p, k) => {
                let key = match self.m.ty(k.ty) {
                    Ty::Bytes(_) => format!("wl_md5_u32({})", self.expr(s, k)),
                    Ty::Unit
                    | Ty::Bool
                    | Ty::UInt(_)
                    | Ty::Int(_)
                    | Ty::Endpoint
                    | Ty::Ip
                    | Ty::Option(_)
                    | Ty::List(..)
                    | Ty::Record(_)
                    | Ty::Tuple(_)
                    | Ty::Msg(_) => self.expr(s, k),
                };
                format!("wl_ketama(x->core, {}, {key})", p.0)
            }
            ExprKind::Consistent(p, h) => format!("wl_consistent(x->core, {}, {})", p.0, self.expr(s, h)),
            ExprKind::Modula(p, h) => format!("wl_modula(&x->core->port[{}], {})", p.0, self.expr(s, h)),
            ExprKind::Maglev(p, h) => format!("wl_maglev(x->core, {}, {})", p.0, self.expr(s, h)),
            ExprKind::ConnPeer => "wl_peer(x)".into(),
            ExprKind::ConnLocal => "wl_local(x)".into(),
            ExprKind::ConnId => "(x->conn ? x->conn->id : 0)".into(),
            ExprKind::ConnHandle => "(x->conn ? x->conn->handle : 0)".into(),
            ExprKind::ConnFlow => "wl_conn_flow(x)".into(),
            ExprKind::Now => "x->core->now".into(),
            ExprKind::Draining => "(x->core->draining != 0)".into(),
            ExprKind::Random(n) => format!("wl_random(x, {})", self.expr(s, n)),
        }
    }

    fn param(&mut self, p: ParamId, ty: TyId) -> String {
        if self.xdp {
            return self.xdp_param(p, ty);
        }
        let at = format!("x->core->param[{}]", p.0);
        match self.m.ty(ty) {
            Ty::Bool => format!("({at}.u != 0)"),
            Ty::UInt(_) | Ty::Int(_) => self.fit(format!("{at}.u"), ty),
            Ty::Endpoint => format!("{at}.ep"),
            Ty::Bytes(_) => format!("{at}.b"),
            Ty::List(..) if matches!(self.m.params[p.index()].ty, desc::ParamType::Texts(..)) => {
                format!("(*(const {} *)(const void *){at}.b.p)", self.cty(ty))
            }
            // Only the length of a list of endpoints is known to a program.
            Ty::List(..) => format!("({}){{.n = (uint32_t){at}.u}}", self.cty(ty)),
            Ty::Unit | Ty::Ip | Ty::Option(_) | Ty::Record(_) | Ty::Tuple(_) | Ty::Msg(_) => self.zero(ty),
        }
    }

    fn unit_param(&mut self, s: &Scope, root: Root, n: u32) -> String {
        let at = self.root(s, root);
        let Some(i) = self.inside(&at) else { return "0".into() };
        let unit = self.m.unit(i.unit);
        let n = n as usize;
        match (unit.params.get(n), n.checked_sub(unit.params.len()).and_then(|n| unit.asked.get(n))) {
            (Some(p), _) => format!("{}.{}", i.at, names::param(&p.name)),
            // Read once, where the head is complete.
            (None, Some(p)) => {
                format!("(({})(v->p.ctx >> {} & UINT64_C({:#x})))", self.cty(p.ty), p.shift, p.mask())
            }
            (None, None) => "0".into(),
        }
    }

    fn unary(&mut self, s: &Scope, op: UnOp, a: &Expr, ty: TyId) -> String {
        let text = self.expr(s, a);
        match op {
            UnOp::Not => format!("!({text})"),
            UnOp::Neg if matches!(self.m.ty(ty), Ty::UInt(b) if *b > 64) => format!("(0 - ({text}))"),
            UnOp::Neg => self.fit(format!("0 - (uint64_t)({text})"), ty),
            UnOp::BitNot => self.fit(format!("~({text})"), ty),
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn binary(&mut self, s: &Scope, op: BinOp, a: &Expr, b: &Expr, ty: TyId) -> String {
        use BinOp::*;
        let (x, y) = (self.expr(s, a), self.expr(s, b));
        if let (true, Eq | Ne) = (self.xdp, op) {
            if let Some(text) = self.xdp_equal((a, &x), (b, &y)) {
                return if op == Eq { text } else { format!("!{text}") };
            }
        }
        match op {
            And if self.xdp && flat(a) && flat(b) => return format!("({x} & {y})"),
            Or if self.xdp && flat(a) && flat(b) => return format!("({x} | {y})"),
            And => return format!("({x} && {y})"),
            Or => return format!("({x} || {y})"),
            EqCase => return format!("wl_eq_case({x}, {y})"),
            Eq => return self.equal(a.ty, &x, &y),
            Ne => return format!("!{}", self.equal(a.ty, &x, &y)),
            Lt | Le | Gt | Ge => {
                let sign = match op {
                    Lt => "<",
                    Le => "<=",
                    Gt => ">",
                    _ => ">=",
                };
                return match self.m.ty(a.ty) {
                    Ty::Bytes(_) => format!("(wl_cmp({x}, {y}) {sign} 0)"),
                    Ty::Ip if self.xdp => format!("(wl_ip_order({x}, {y}) {sign} 0)"),
                    Ty::Ip => format!("(memcmp({x}.b, {y}.b, 16) {sign} 0)"),
                    Ty::Unit
                    | Ty::Bool
                    | Ty::UInt(_)
                    | Ty::Int(_)
                    | Ty::Endpoint
                    | Ty::Option(_)
                    | Ty::List(..)
                    | Ty::Record(_)
                    | Ty::Tuple(_)
                    | Ty::Msg(_) => format!("({x} {sign} {y})"),
                };
            }
            Add | Sub | Mul | Div | Rem | AddSat | SubSat | BitAnd | BitOr | BitXor | Shl | Shr => {}
        }
        let Some((bits, signed)) = int_of(self.m, ty) else { return self.zero(ty) };
        let wide = bits > 64;
        let c = if wide {
            "unsigned __int128"
        } else if bits > 32 {
            "uint64_t"
        } else {
            "uint32_t"
        };
        let plain = |o: &str| format!("({c})({x}) {o} ({c})({y})");
        let (max, min) = if signed { ((1i128 << (bits - 1)) - 1, -(1i128 << (bits - 1))) } else { (0, 0) };
        let limits = format!(
            "{}, {}",
            if min == i64::MIN as i128 { "INT64_MIN".into() } else { format!("INT64_C({min})") },
            format_args!("INT64_C({max})")
        );
        let text = match op {
            Add => plain("+"),
            Sub => plain("-"),
            Mul => plain("*"),
            BitAnd => plain("&"),
            BitOr => plain("|"),
            BitXor => plain("^"),
            Div if wide => plain("/"),
            Rem if wide => plain("%"),
            Div => format!("wl_{}div({x}, {y})", if signed { "s" } else { "u" }),
            Rem => format!("wl_{}rem({x}, {y})", if signed { "s" } else { "u" }),
            AddSat if signed => format!("wl_adds_sat({x}, {y}, {limits})"),
            SubSat if signed => format!("wl_subs_sat({x}, {y}, {limits})"),
            AddSat if wide => format!("({x} + {y} < {x} ? ~(unsigned __int128)0 : {x} + {y})"),
            SubSat if wide => format!("({x} > {y} ? {x} - {y} : 0)"),
            AddSat => {
                format!("wl_add_sat({x}, {y}, UINT64_C({}))", if bits == 64 { u64::MAX } else { (1 << bits) - 1 })
            }
            SubSat => format!("wl_sub_sat({x}, {y})"),
            Shl if wide => format!("({y} < 128 ? {x} << {y} : 0)"),
            Shr if wide => format!("({y} < 128 ? {x} >> {y} : 0)"),
            Shl => format!("wl_shl((uint64_t)({x}), {y}, {bits})"),
            Shr if signed => format!("wl_sar({x}, {y}, {bits})"),
            Shr => format!("wl_shr({x}, {y}, {bits})"),
            And | Or | Eq | Ne | Lt | Le | Gt | Ge | EqCase => x,
        };
        self.fit(text, ty)
    }

    fn in_ranges_of(&mut self, s: &Scope, a: &Expr, ranges: &[(u64, u64)]) -> String {
        let value = self.expr(s, a);
        let bits = int_of(self.m, a.ty).map_or(64, |b| int_width(b.0));
        let c = if bits > 64 { "unsigned __int128".into() } else { format!("uint{bits}_t") };
        let name = format!("v{bits}_");
        let test = self.in_ranges(&name, ranges, bits);
        format!("({{ {c} {name} = ({c})({value}); {test}; }})")
    }

    fn list_get(&mut self, s: &Scope, a: &Expr, i: &Expr) -> String {
        let index = self.expr(s, i);
        match stack::is_in_place(self.m, a) {
            true => format!("({}).v[{index}]", self.expr(s, a)),
            false => format!("({{ {} l_ = {}; l_.v[{index}]; }})", self.cty(a.ty), self.expr(s, a)),
        }
    }
}

/// The IPv4 address in a number that is one mapped to IPv6.
fn mapped<'e>(m: &Module, e: &'e Expr) -> Option<&'e Expr> {
    let ExprKind::Binary(BinOp::BitOr, a, b) = &*e.kind else { return None };
    match (&*a.kind, &*b.kind) {
        (ExprKind::Cast(v4), ExprKind::Int(0xffff_0000_0000)) if *m.ty(v4.ty) == Ty::UInt(32) => Some(v4),
        _ => None,
    }
}

fn local(s: &Scope, l: LocalId) -> &str {
    s.locals.get(l.index()).map_or("NULL", |l| l.0.as_str())
}

fn header_bytes(view: &str, layer: u32) -> String {
    format!("wl_b({view}->p + {view}->at[{layer}], (uint32_t)({view}->to[{layer}] - {view}->at[{layer}]))")
}
