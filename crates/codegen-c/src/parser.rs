//! A message unit's parser: one coroutine that walks the grammar, with nested units inlined, and
//! can stop at any byte.
//!
//! `NAME_step(v, p, base, pos, end, eof, used)` works on the bytes `p + pos … p + end`. Offsets
//! count from the message's first byte. `p` is where that byte is or would be, and `base` is the
//! offset of the first byte given. To stop, it notes a resume point in `v->p.pc` and goes to
//! `more`. The next call jumps back to that label. `pos` moves only past complete fields (in the
//! tail also past checked parts of long ones). So bytes that are needed again are never released.
//!
//! The head ends at run time, where the first field that begins the tail is reached
//! (`wireloom_ir::grammar::tail`).

use crate::gen::Gen;
use crate::names;
use crate::scope::{Inst, Scope};
use crate::split::apart;
use wireloom_ir::*;

/// How far the head is, seen from the code being emitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Head,
    /// Some paths to this point have passed the head's end.
    Either,
    Tail,
}

pub(crate) struct Parser<'g, 'm> {
    pub g: &'g mut Gen<'m>,
    pub message: UnitId,
    pub out: String,
    labels: u32,
    pub phase: Phase,
    /// Bytes known to be there from `pos` on.
    pub ensured: u64,
    slots: Vec<(&'static str, String)>,
    pub streams: bool,
    /// Whether the view counts the bytes by which offsets were set back (`v->passed`). That is of a
    /// message with streams, where something in it depends on how far it is.
    pub counts: bool,
    /// Whether something in it says what of the tail is passed on.
    passes: bool,
    /// How many such fields there are.
    cuts: u32,
    recovers: Vec<Until>,
    pub has_recover: bool,
    pub uses_fx: bool,
    /// Fields lie in front of the tail: units in lengths have limits there.
    pub in_front: bool,
    /// The length at hand that a unit lies in.
    pub limit: Option<Limit>,
    pub has_limits: bool,
}

/// The bytes that a unit lies in, and what holds behind it.
#[derive(Clone)]
pub(crate) struct Limit {
    pub place: PlaceId,
    /// Slots of the end and the start of the length around this one.
    pub outer: Option<(String, String)>,
}

macro_rules! line {
    ($p:expr, $($arg:tt)*) => {{ use std::fmt::Write; let _ = writeln!($p.out, $($arg)*); }};
}
pub(crate) use line;

impl<'g, 'm> Parser<'g, 'm> {
    fn new(g: &'g mut Gen<'m>, message: UnitId) -> Self {
        let streams = g.m.unit(message).streams;
        let phase = Phase::Head;
        let depends = |kind: &FieldKind| matches!(kind, FieldKind::Align { .. } | FieldKind::Recover { .. });
        let passes = |kind: &FieldKind| matches!(kind, FieldKind::Pass { how: PassRule::When(_) });
        Parser {
            counts: streams && grammar::tail::has(g.m, message, &depends),
            passes: grammar::tail::has(g.m, message, &passes),
            cuts: 0,
            g,
            message,
            out: String::new(),
            labels: 0,
            phase,
            ensured: 0,
            slots: Vec::new(),
            streams,
            recovers: Vec::new(),
            has_recover: false,
            uses_fx: false,
            in_front: false,
            limit: None,
            has_limits: false,
        }
    }

    pub fn field_of(&self, u: UnitId, f: FieldId) -> &'m Field {
        &self.g.m.unit(u).fields[f.index()]
    }

    /// A new resume point; the bytes known to be there are forgotten.
    pub fn label(&mut self) -> u32 {
        self.labels += 1;
        self.ensured = 0;
        line!(self, "L{}:;", self.labels);
        self.labels
    }

    /// A resume point whose place follows later.
    pub fn reserve(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }

    /// A member of the view for the parser itself.
    pub fn slot(&mut self, ty: &'static str) -> String {
        let name = format!("k{}", self.slots.len());
        self.slots.push((ty, name.clone()));
        format!("v->{name}")
    }

    pub fn wait(&self, label: u32, f: &Field) -> String {
        format!("WAIT({label}, {})", f.place.0)
    }
    pub fn bad(&self, f: &Field) -> String {
        format!("FAIL({}, {})", f.bad.0, f.place.0)
    }
    pub fn too_long(&self, f: &Field) -> String {
        format!("FAIL({}, {})", f.too_long.0, f.place.0)
    }

    pub fn scope(&self, inst: &Inst) -> Scope {
        Scope { this: Some(inst.clone()), ..Scope::default() }
    }

    /// A grammar expression as C; what it may fault with is checked by [`Self::check`].
    pub fn expr(&mut self, s: &Scope, e: &Expr) -> String {
        if e.may_fault() {
            self.uses_fx = true
        }
        self.g.expr(s, e)
    }

    /// After code that has evaluated `e`.
    pub fn check(&mut self, e: &Expr) {
        if e.may_fault() {
            line!(self, "if (WL_UNLIKELY(x->fault)) FAIL(x->fault, x->place);\nx->tmp_n = 0;")
        }
    }

    /// Whether the head ends before this field.
    fn begins_tail(&self, u: UnitId, f: FieldId) -> bool {
        grammar::begins_tail(self.g.m, self.message, u, f)
    }

    /// The number of a stream whose items have a handler; 0: they have none.
    pub fn watched(&self, inst: &Inst, f: FieldId) -> u32 {
        if inst.unit == self.message && inst.at == "v->f" {
            self.g.m.stream_number(inst.unit, f)
        } else {
            0
        }
    }

    /// Ends the head here, if it has not ended.
    pub fn end_head(&mut self, until_eof: bool) {
        let eof = if until_eof { " | WL_M_UNTIL_EOF" } else { "" };
        if self.phase == Phase::Tail {
            if until_eof {
                line!(self, "v->p.flags |= WL_M_UNTIL_EOF;")
            }
            return;
        }
        let label = self.reserve();
        let u = names::unit(self.g.m, self.message);
        if self.phase == Phase::Either {
            line!(self, "if (!(v->p.flags & WL_IN_TAIL)) {{")
        } else {
            line!(self, "{{")
        }
        line!(self, "HEAD({label}, {u}_flags(v, p){eof})\n}}\nL{label}:;");
        if self.phase == Phase::Either && until_eof {
            line!(self, "v->p.flags |= WL_M_UNTIL_EOF;")
        }
        self.phase = Phase::Tail;
        self.ensured = 0;
    }

    /// The bytes before this point are accepted: they are passed on. Where only a part of it is,
    /// piece by piece.
    pub fn commit(&mut self) {
        if self.phase == Phase::Head {
            return;
        }
        if self.passes {
            let label = self.reserve();
            line!(self, "if (v->cut_n) {{ v->resume = {label}; goto release; }}\nL{label}:;");
            self.ensured = 0;
        }
        line!(self, "from = pos;");
    }

    pub fn fields(&mut self, inst: &Inst, list: &[FieldId]) {
        for (i, &f) in list.iter().enumerate() {
            if self.ensured == 0 {
                self.ensure_run(inst, &list[i..])
            }
            self.named_field(inst, f);
        }
    }

    /// One length check for the run of fixed-size fields that begins here. A field whose value can
    /// be wrong ends the run, so that a fault is seen as soon as its bytes are there.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn ensure_run(&mut self, inst: &Inst, list: &[FieldId]) {
        let (mut size, mut fields, mut last) = (0u64, 0, None);
        for &f in list {
            let field = self.field_of(inst.unit, f);
            match &field.kind {
                FieldKind::UInt { bytes, advance, .. } => {
                    if *advance {
                        size += *bytes as u64;
                        fields += 1
                    }
                    last = Some(field);
                    if field.within.is_some() {
                        break;
                    }
                }
                FieldKind::Bytes { min, max, class: None, extent: Extent::Length(e), .. }
                    if !self.begins_tail(inst.unit, f) =>
                {
                    match *e.kind {
                        ExprKind::Int(n) if n <= 256 && (*min..=*max).contains(&(n as u64)) => {
                            size += n as u64;
                            fields += 1;
                            last = Some(field)
                        }
                        _ => break,
                    }
                }
                FieldKind::Nothing => {}
                FieldKind::Number { .. }
                | FieldKind::Varint { .. }
                | FieldKind::Bytes { .. }
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
                | FieldKind::Align { .. } => break,
            }
        }
        if let (Some(last), true) = (last, fields > 1) {
            self.need(size, last);
            self.ensured = size;
        }
    }

    /// Waits for so many bytes, unless they are known to be there; they are about to be consumed.
    pub fn need(&mut self, size: u64, f: &Field) {
        if self.ensured >= size {
            return;
        }
        let label = self.label();
        line!(self, "if (end - pos < {size}) {}", self.wait(label, f));
    }

    pub fn consume(&mut self, size: u64) {
        line!(self, "pos += {size};");
        self.ensured = self.ensured.saturating_sub(size);
    }

    fn named_field(&mut self, inst: &Inst, f: FieldId) {
        let m = self.g.m;
        let name = names::field(m, inst.unit, f);
        let field = self.field_of(inst.unit, f);
        if let Some(n) = &field.name {
            line!(self, "/* {} */", names::comment(n))
        }
        let value = format!("{}.{name}", inst.at);
        let extent = self.g.has_extent(inst.unit, f).then(|| self.g.extent_of(inst, f));
        let store = self.g.stores(inst.unit, f).then_some(value.as_str());
        self.field(inst, f, &value, store, extent.as_deref());
    }

    /// One field. `member`: its lvalue in the unit's struct; `store`: where its value goes;
    /// `extent`: where its extent goes.
    pub fn field(&mut self, inst: &Inst, f: FieldId, member: &str, store: Option<&str>, extent: Option<&str>) {
        let field = self.field_of(inst.unit, f);
        if self.begins_tail(inst.unit, f)
            && !matches!(field.kind, FieldKind::Bytes { .. } | FieldKind::StreamBytes { .. })
        {
            self.end_head(matches!(field.kind, FieldKind::List { extent: ListExtent::ToEnd, .. }));
        }
        let begins = self.begins_tail(inst.unit, f);
        match &field.kind {
            FieldKind::UInt { bytes, shift, bits, big, signed, advance } => {
                self.need(*bytes as u64, field);
                if let Some(x) = extent {
                    line!(self, "{x} = (wl_ext){{pos, {bytes}}};")
                }
                if store.is_some() || field.within.is_some() {
                    let raw = load_int(*bytes, *big);
                    let value = int_value(&raw, *bytes, *shift, *bits, *signed);
                    self.checked_value(field, &value, *bits, store);
                }
                if *advance {
                    self.consume(*bytes as u64)
                }
            }
            FieldKind::Number { radix, digits, exact, until } => {
                self.number(field, (*radix, *digits, *exact), until.as_ref(), store, extent)
            }
            FieldKind::Varint { max_bytes } => self.varint(field, *max_bytes, store, extent),
            FieldKind::Bytes { .. } => self.bytes(inst, field, begins, store, extent),
            FieldKind::Literal { values } => {
                self.literal(field, values);
                line!(self, "if (!dl) {}", self.bad(field));
                if let Some(x) = extent {
                    line!(self, "{x} = (wl_ext){{pos, dl}};")
                }
                line!(self, "pos += dl;\n}}");
                self.ensured = 0;
            }
            FieldKind::Flag { value } => {
                self.literal(field, std::slice::from_ref(value));
                if let Some(x) = extent {
                    line!(self, "{x} = (wl_ext){{pos, dl}};")
                }
                if let Some(at) = store {
                    line!(self, "{at} = dl != 0;")
                }
                line!(self, "pos += dl;\n}}");
                self.ensured = 0;
            }
            FieldKind::Unit { unit, args } => {
                if let Some(x) = extent {
                    line!(self, "{x}.o = pos;")
                }
                match field.lies_in.as_ref().filter(|_| self.in_front) {
                    Some(length) => self.nested_within(inst, field, length, (*unit, args, member)),
                    None => self.nested(inst, *unit, args, member),
                }
                if let Some(x) = extent {
                    line!(self, "{x}.n = pos - {x}.o;")
                }
            }
            FieldKind::List { .. } => self.list(inst, f, member, extent),
            FieldKind::StreamBytes { extent: e } => self.stream_bytes(inst, field, e, extent),
            FieldKind::StreamUnit { .. } => self.stream_unit(inst, f, member),
            FieldKind::Switch { cases } => self.switch(inst, field, cases, member, extent),
            FieldKind::Let { value } => self.computed(inst, field, value, store),
            FieldKind::Require { cond } => {
                let s = self.scope(inst);
                let c = self.expr(&s, cond);
                line!(self, "{{ bool c_ = {c};");
                self.check(cond);
                line!(self, "if (WL_UNLIKELY(!c_)) {} }}", self.bad(field));
            }
            FieldKind::Recover { how } => self.recover(inst, how),
            FieldKind::Pass { how } => self.pass(inst, how),
            FieldKind::Align { to } => {
                let to = (*to).max(1);
                let label = self.label();
                line!(self, "{{ uint32_t pad = ({to}u - ({} - {}.start_) % {to}u) % {to}u;", self.distance(), inst.at);
                line!(self, "if (end - pos < pad) {}\npos += pad; }}", self.wait(label, field));
            }
            FieldKind::Nothing => {}
        }
    }

    /// A number that must be in its ranges and goes to `store`.
    fn checked_value(&mut self, field: &Field, value: &str, bits: u8, store: Option<&str>) {
        let Some(ranges) = &field.within else {
            if let Some(at) = store {
                let fit = self.g.cty(field.ty);
                line!(self, "{at} = ({fit})({value});")
            }
            return;
        };
        let test =
            self.g.in_ranges(&crate::types::low_bits("n_", layout::int_of(self.g.m, field.ty)), ranges, bits as u32);
        line!(self, "{{ uint64_t n_ = (uint64_t)({value});\nif (WL_UNLIKELY(!{test})) {}", self.bad(field));
        if let Some(at) = store {
            let fit = self.g.cty(field.ty);
            line!(self, "{at} = ({fit})n_;")
        }
        line!(self, "}}");
    }

    fn computed(&mut self, inst: &Inst, field: &Field, value: &Expr, store: Option<&str>) {
        let Some(at) = store else { return };
        let s = self.scope(inst);
        let text = self.expr(&s, value);
        match self.g.m.ty(value.ty) {
            Ty::Bytes(_) => line!(self, "{{ wl_bytes b_ = {text};\n{at}.has = true;\n{at}.v = (wl_ext){{b_.n ? (uint32_t)(b_.p - p) : 0, b_.n}}; }}"),
            Ty::Option(_) if layout::has_bytes(self.g.m, field.ty) => line!(
                self,
                "{{ wl_opt_wl_bytes b_ = {text};\n{at}.has = b_.has;\n{at}.v = (wl_ext){{b_.has && b_.v.n ? (uint32_t)(b_.v.p - p) : 0, b_.has ? b_.v.n : 0}}; }}"
            ),
            Ty::Unit | Ty::Bool | Ty::UInt(_) | Ty::Int(_) | Ty::Endpoint | Ty::Ip | Ty::Option(_) | Ty::List(..) | Ty::Record(_) | Ty::Tuple(_) | Ty::Msg(_) => line!(self, "{at} = {text};"),
        }
        self.check(value);
    }

    /// Opens a block in which `dl` is the length of the literal that is next, 0 if none is.
    pub fn literal(&mut self, field: &Field, values: &[Vec<u8>]) {
        let label = self.label();
        line!(self, "{{ uint32_t dl = 0; int m_; (void)m_;");
        for (i, v) in values.iter().enumerate() {
            let test = format!("(m_ = {}) != 0", self.matched("pos", v));
            line!(
                self,
                "{}if ({test}) {{ if (m_ < 0) {} dl = {}; }}",
                if i > 0 { "else " } else { "" },
                self.wait(label, field),
                v.len()
            );
        }
    }

    /// A nested unit: its parameters, then its fields.
    pub fn nested(&mut self, outer: &Inst, unit: UnitId, args: &[Expr], at: &str) {
        let m = self.g.m;
        let inst = Inst { unit, at: at.to_string(), base: outer.base.clone(), head: None };
        let s = self.scope(outer);
        for (p, a) in m.unit(unit).params.iter().zip(args) {
            let value = self.expr(&s, a);
            line!(self, "{at}.{} = {value};", names::param(&p.name));
            self.check(a);
        }
        self.unit_body(&inst);
    }

    /// How far the parser is behind the message's first byte, however long its streams are.
    fn distance(&self) -> &'static str {
        if self.counts {
            "(v->passed + pos)"
        } else {
            "pos"
        }
    }

    fn unit_body(&mut self, inst: &Inst) {
        self.note_start(inst);
        self.fields(inst, &self.g.m.unit(inst.unit).body);
    }

    /// Padding counts from the unit's start.
    pub fn note_start(&mut self, inst: &Inst) {
        if self.g.m.unit(inst.unit).fields.iter().any(|f| matches!(f.kind, FieldKind::Align { .. })) {
            line!(self, "{}.start_ = {};", inst.at, self.distance())
        }
    }

    fn switch(&mut self, inst: &Inst, field: &Field, cases: &[Case], member: &str, extent: Option<&str>) {
        let case = format!("{member}__case");
        if let Some(x) = extent {
            line!(self, "{x}.o = pos;")
        }
        let label = self.label();
        line!(self, "{{ uint32_t k_ = 0; int m_; (void)m_;\ndo {{");
        let mut open = true;
        for (i, c) in cases.iter().enumerate() {
            match &c.guard {
                Guard::Literal { values, peek } => {
                    for v in values {
                        let test = format!("(m_ = {}) != 0", self.matched("pos", v));
                        let k = if *peek { 0 } else { v.len() };
                        line!(
                            self,
                            "if ({test}) {{ if (m_ < 0) {} {case} = {i}; k_ = {k}; break; }}",
                            self.wait(label, field)
                        );
                    }
                }
                Guard::When(e) => {
                    let s = self.scope(inst);
                    let text = self.expr(&s, e);
                    line!(self, "{{ bool c_ = {text};");
                    self.check(e);
                    line!(self, "if (c_) {{ {case} = {i}; break; }} }}");
                }
                Guard::Else => {
                    line!(self, "{case} = {i};");
                    open = false
                }
                Guard::Fault(kind) => {
                    line!(self, "FAIL({}, {})", kind.0, field.place.0);
                    open = false
                }
            }
            if !open {
                break;
            }
        }
        if open {
            line!(self, "{}", self.bad(field))
        }
        line!(self, "}} while (0);\npos += k_;\n}}\nswitch ({case}) {{");
        let before = self.phase;
        let mut after = Vec::new();
        for (i, c) in cases.iter().enumerate() {
            self.phase = before;
            self.ensured = 0;
            let name = c.name.as_deref().map(|n| format!(" /* {} */", names::comment(n))).unwrap_or_default();
            line!(self, "case {i}: {{{name}");
            self.fields(inst, &c.fields);
            line!(self, "break;\n}}");
            if !matches!(c.guard, Guard::Fault(_)) {
                after.push(self.phase)
            }
        }
        line!(self, "default: break;\n}}");
        self.phase = match after.first() {
            Some(p) if after.iter().all(|q| q == p) => *p,
            None => before,
            _ => Phase::Either,
        };
        self.ensured = 0;
        if let Some(x) = extent {
            line!(self, "{x}.n = pos - {x}.o;")
        }
    }

    fn recover(&mut self, inst: &Inst, how: &Recover) {
        self.has_recover = true;
        match how {
            Recover::Length(e) => {
                let s = self.scope(inst);
                let n = self.expr(&s, e);
                line!(self, "{{ uint64_t n_ = {n};");
                self.check(e);
                line!(self, "v->recover_at = {} + (n_ < UINT32_MAX ? n_ : UINT32_MAX);\nv->recover = v->recover_at < UINT32_MAX; }}", self.distance());
            }
            Recover::Until(u) => {
                self.recovers.push(u.clone());
                line!(self, "v->recover = {};\nv->recover_at = {};", self.recovers.len() + 1, self.distance());
            }
        }
    }

    /// From here on bytes of the tail are passed on or not. Where that changes the runtime is told,
    /// between two bytes, when those before are accepted.
    fn pass(&mut self, inst: &Inst, how: &PassRule) {
        match how {
            PassRule::As { endless, .. } => {
                if *endless {
                    line!(self, "v->p.flags |= WL_M_ENDS;")
                }
            }
            PassRule::When(_) if self.phase == Phase::Head => {}
            PassRule::When(e) => {
                let s = self.scope(inst);
                let text = self.expr(&s, e);
                let label = self.reserve();
                line!(self, "{{ bool c_ = {text};");
                self.check(e);
                line!(
                    self,
                    "if (v->p.flags & WL_IN_TAIL && c_ == (((v->p.flags & WL_M_OMIT) != 0) != (v->cut_n & 1))) {{"
                );
                line!(self, "if (pos == from) {{ v->p.flags ^= WL_M_OMIT; v->p.pc = {label}; RETURN(WL_MORE) }}");
                line!(self, "if (v->cut_n && v->cuts[v->cut_n - 1] == pos) v->cut_n--; else v->cuts[v->cut_n++] = pos;\n}}\n}}\nL{label}:;");
                self.ensured = 0;
                self.cuts += 1;
            }
        }
    }

    /// The code after a fault from which the stream can get back in step.
    fn skip_code(&mut self) {
        let label = self.reserve();
        let recovers = std::mem::take(&mut self.recovers);
        line!(self, "bad:;\nv->p.fault = fk;\nv->p.place = fp;");
        if self.has_limits {
            line!(self, "end = all;\neof = last;\nv->limit = UINT32_MAX;")
        }
        if self.passes {
            line!(self, "v->cut_n = 0;")
        }
        line!(self, "if (v->recover == 0 || fk == WL_F_TRUNCATED) RETURN(WL_BAD)");
        let here = self.distance();
        line!(self, "if (v->recover == 1 && v->recover_at < {here}) RETURN(WL_BAD)");
        // In the head, the search for a delimiter starts where `recover` stands; in the tail that
        // place may be gone.
        line!(self, "if (v->recover > 1 && !(v->p.flags & WL_IN_TAIL)) pos = (uint32_t)v->recover_at;");
        line!(self, "v->p.pc = {label};\nv->p.scan = 0;\nif (!(v->p.flags & WL_IN_TAIL)) {{");
        line!(self, "v->p.head = from = pos;\nv->p.flags |= WL_IN_TAIL | WL_M_IN_STEP;\nRETURN(WL_HEAD)\n}}\nv->p.flags |= WL_M_IN_STEP;");
        // The rest of the message is dropped, from what was held on.
        line!(self, "if (!(v->p.flags & WL_M_OMIT)) {{ v->p.flags |= WL_M_OMIT; RETURN(WL_MORE) }}");
        line!(self, "L{label}:;");
        line!(self, "if (v->recover == 1) {{");
        line!(self, "uint64_t left = v->recover_at - {here};\nv->recover_at = {here};");
        line!(self, "if (end - pos < left) {{ v->p.left = left - (end - pos); pos = from = end; v->recover_at = {here}; if (!eof) RETURN(WL_MORE) v->p.left = 0; v->p.flags &= ~(uint32_t)WL_M_IN_STEP; RETURN(WL_BAD) }}");
        line!(self, "pos += (uint32_t)left;\nfrom = pos;\nRETURN(WL_BAD)\n}}");
        for (i, u) in recovers.iter().enumerate() {
            line!(self, "if (v->recover == {}) for (; pos < end; pos++) {{", i + 2);
            let firsts: Vec<u8> = u.delimiters.iter().filter_map(|d| d.first().copied()).collect();
            if let [a] | [a, _] = firsts[..] {
                line!(
                    self,
                    "pos = wl_scan_two(p, pos, end, {a}, {});\nif (pos == end) break;",
                    firsts[firsts.len() - 1]
                );
            }
            line!(self, "int m_;");
            for d in &u.delimiters {
                line!(
                    self,
                    "if ((m_ = wl_match(p + pos, end - pos, {}, {})) > 0) {{ pos += {}; from = pos; RETURN(WL_BAD) }}",
                    names::literal(d),
                    d.len(),
                    d.len()
                );
                line!(self, "if (m_ < 0 && !eof) {{ from = pos; RETURN(WL_MORE) }}");
            }
            line!(self, "}}");
        }
        line!(self, "from = pos;\nif (!eof) RETURN(WL_MORE)\nv->p.flags &= ~(uint32_t)WL_M_IN_STEP;\nRETURN(WL_BAD)");
        self.recovers = recovers;
    }

    /// The end of the message.
    fn finish(&mut self) {
        if self.phase != Phase::Tail {
            let u = names::unit(self.g.m, self.message);
            line!(
                self,
                "if (!(v->p.flags & WL_IN_TAIL)) {{ v->p.flags |= {u}_flags(v, p) | WL_IN_TAIL; v->p.head = pos; }}"
            );
        }
        self.commit();
        line!(self, "RETURN(WL_WHOLE)");
    }

    /// The bytes that were held are accepted, but not all are passed on: the runtime gets them
    /// piece by piece.
    fn release_code(&mut self) {
        self.passes &= self.phase != Phase::Head;
        if !self.passes {
            return;
        }
        let label = self.reserve();
        line!(self, "release:;\nv->p.pc = {label};\nL{label}:;");
        line!(self, "if (v->cut < v->cut_n) {{ from = v->cuts[v->cut++]; v->p.flags ^= WL_M_OMIT; RETURN(WL_MORE) }}");
        line!(self, "v->cut = v->cut_n = 0;\nv->p.pc = v->resume;\ngoto next;");
    }

    pub fn next_labels(&self) -> u32 {
        self.labels
    }
}

/// C text that reads an integer at `pos`.
fn load_int(bytes: u8, big: bool) -> String {
    let order = if big { "be" } else { "le" };
    match bytes {
        1 => "p[pos]".into(),
        2 => format!("wl_{order}16(p + pos)"),
        4 => format!("wl_{order}32(p + pos)"),
        8 => format!("wl_{order}64(p + pos)"),
        n => format!("wl_{order}(p + pos, {n})"),
    }
}

/// The value inside a container.
fn int_value(raw: &str, bytes: u8, shift: u8, bits: u8, signed: bool) -> String {
    let whole = bits as u32 == bytes as u32 * 8;
    let cut = match (shift, whole) {
        (0, true) => raw.to_string(),
        _ if bits >= 64 => format!("({raw} >> {shift})"),
        _ => format!("((uint64_t)({raw} >> {shift}) & UINT64_C({:#x}))", (1u64 << bits) - 1),
    };
    if signed && bits <= 64 {
        format!("wl_sext((uint64_t){cut}, {bits})")
    } else {
        cut
    }
}

impl Gen<'_> {
    /// Emits a message unit: its view, flags, parser, `parse` and `tail`.
    pub fn message_unit(&mut self, u: UnitId) {
        let name = names::unit(self.m, u);
        self.unit_struct(u);
        let unit = self.m.unit(u);
        let mut p = Parser::new(self, u);
        let inst = Inst { unit: u, at: "v->f".into(), base: "p".into(), head: None };
        for param in &unit.params {
            let c = p.g.cty(param.ty);
            line!(
                p,
                "v->f.{} = ({c})(v->p.ctx >> {} & UINT64_C({:#x}));",
                names::param(&param.name),
                param.shift,
                param.mask()
            );
        }
        p.message_body(&inst);
        p.finish();
        p.release_code();
        if p.has_recover {
            p.skip_code()
        } else {
            line!(p, "bad:;\nv->p.fault = fk;\nv->p.place = fp;\nRETURN(WL_BAD)")
        }
        let (body, labels, slots, fx, recover, counts) =
            (p.out.clone(), p.next_labels(), p.slots.clone(), p.uses_fx, p.has_recover, p.counts);
        let (passes, cuts, [limit_state, enter, begin, more]) = (p.passes, p.cuts.max(1), p.limit_code());
        let mut view = format!(
            "/* The state of a parser of {}. */\ntypedef struct {name}_view {{\nwl_parser p;\nuint32_t from;\n",
            names::comment(&unit.name)
        );
        if passes {
            view.push_str(&format!("uint32_t cuts[{cuts}], cut, cut_n;\nuint16_t resume;\n"))
        }
        if counts {
            view.push_str("uint64_t passed;\n")
        }
        if recover {
            view.push_str("uint32_t recover;\nuint64_t recover_at;\n")
        }
        view.push_str(limit_state);
        for (ty, n) in &slots {
            view.push_str(&format!("{ty} {n};\n"))
        }
        view.push_str(&format!("{name} f;\n}} {name}_view;\n\n"));
        self.types.push_str(&view);
        self.flags_function(u);
        let dispatch: String = (1..=labels).map(|i| format!("case {i}: goto L{i};\n")).collect();
        let reset = self.clear_view(u);
        let next = if passes { "next:;\n" } else { "" };
        let scratch = if fx {
            "uint8_t tmp[WL_GRAMMAR_TMP];\nwl_fx fx = {.tmp = tmp, .tmp_max = sizeof tmp}, *x = &fx;\n"
        } else {
            ""
        };
        let parse = format!(
            "int {name}_parse(void *self, uint32_t unit, wl_parser *v, const uint8_t *buf, uint32_t n, int eof)"
        );
        let tail = format!("int {name}_tail(void *self, uint32_t unit, wl_parser *v, const uint8_t *buf, uint32_t n, int eof, uint32_t *used)");
        let runs = self.message_runs(u);
        // In a run most of a message's state is known.
        let inlined = if runs.is_empty() { "static" } else { "WL_INLINE" };
        let copy = self.copy_view(u).map_or_else(String::new, |c| c.1);
        let text = format!(
            "/* unit {} */\n{inlined} int {name}_step({name}_view *v, const uint8_t *p, uint32_t base, uint32_t pos, uint32_t end, int eof, uint32_t *used) {{\n\
             uint32_t fp = 0, from = base;\nuint16_t fk = 0;\n{scratch}{enter}{next}switch (v->p.pc) {{\ncase 0: break;\n{dispatch}default: fk = WL_F_MALFORMED; goto bad;\n}}\n{reset}{begin}{body}\
             more:;\n{more}if (eof) {{ fk = WL_F_TRUNCATED; goto bad; }}\nRETURN(WL_MORE)\n}}\n\
             static {parse} {{\n\
             uint32_t used;\n(void)self; (void)unit;\nreturn {name}_step(({name}_view *)(void *)v, buf, 0, v->pos, n, eof, &used);\n}}\n\
             static {tail} {{\n\
             (void)self; (void)unit;\nuint32_t skip = wl_skip_run(v, n);\n\
             if (v->left) {{ *used = n; return eof ? wl_cut(v) : WL_MORE; }}\nuint32_t base = (({name}_view *)(void *)v)->from, pos = v->pos;\n\
             int r = {name}_step(({name}_view *)(void *)v, (const uint8_t *)((uintptr_t)(buf + skip) - base), base, pos, base + n - skip, eof, used);\n\
             *used += skip;\nreturn r;\n}}\n\n",
            names::comment(&unit.name)
        );
        let (protos, runs): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
        self.code.push_str(&apart(&[vec![parse, tail], protos].concat(), &(text + &runs.concat())));
        self.code.push_str(&copy);
    }

    /// Facts about a complete head, from the clauses of the protocols that use the unit.
    fn flags_function(&mut self, u: UnitId) {
        let name = names::unit(self.m, u);
        let scope =
            Scope { this: Some(Inst { unit: u, at: "v->f".into(), base: "p".into(), head: None }), ..Scope::default() };
        let mut text = String::new();
        let m = self.m;
        for p in &m.protocols {
            let request =
                ["CLOSE", "NO_REPLY", "ALONE", "REPEAT", "PRIVATE", "CHUNKS", "EXPECTS", "OWES", "UNFINISHED"];
            let response =
                ["CLOSE", "INTERIM", "TUNNEL", "REFUSAL", "STRAY", "PRIVATE", "CHUNKS", "IDLE", "RESET", "SETTLES"];
            let both = p.response == Some(p.request);
            let mut side = |here: bool, test: &str, clauses: &[Option<&Expr>], flags: &[&str]| {
                if !here {
                    return;
                }
                for (clause, flag) in clauses.iter().zip(flags) {
                    let Some(e) = *clause else { continue };
                    let c = self.expr(&scope, e);
                    let guard = if both { format!("{test}(v->p.ctx & WL_CTX_RESPONSE) && ") } else { String::new() };
                    text.push_str(&format!("if ({guard}{c}) flags |= WL_M_{flag};\n"));
                }
            };
            side(p.request == u, "!", &p.request_clauses(), &request);
            side(p.response == Some(u), "", &p.response_clauses(), &response);
        }
        let fx = if text.contains("(x, ") || text.contains("(x)") {
            "uint8_t tmp[WL_GRAMMAR_TMP];\nwl_fx fx = {.tmp = tmp, .tmp_max = sizeof tmp}, *x = &fx;\n"
        } else {
            ""
        };
        self.code.push_str(&format!(
            "static uint32_t {name}_flags(const {name}_view *v, const uint8_t *p) {{\nuint32_t flags = 0;\n(void)v; (void)p;\n{fx}{text}return flags;\n}}\n"
        ));
    }
}
