//! The parser's code for fields of variable size: bytes, numbers as text, lists, streams.

use crate::names;
use crate::parser::{line, Parser, Phase};
use crate::scope::{Inst, Item, Scope};
use crate::types::low_bits;
use wireloom_ir::layout::int_of;
use wireloom_ir::*;

impl Parser<'_, '_> {
    pub fn bytes(&mut self, inst: &Inst, field: &Field, begins: bool, store: Option<&str>, extent: Option<&str>) {
        let FieldKind::Bytes { min, max, class, extent: kind, trim, .. } = &field.kind else { return };
        let b = Bytes { min: *min, max: *max, class: *class, trim: *trim, store, extent };
        match kind {
            Extent::Length(e) => self.bytes_length(inst, field, begins, e, &b),
            Extent::Until(u) => {
                if begins {
                    self.end_head(false)
                }
                self.bytes_until(field, u, &b);
            }
            Extent::Run => {
                if begins {
                    self.end_head(false)
                }
                self.bytes_run(field, &b);
            }
            Extent::ToEnd | Extent::Close => {
                if begins {
                    self.end_head(true)
                } else {
                    self.ends_with_connection()
                }
                self.bytes_to_end(field, &b);
            }
        }
    }

    /// Only the end of the connection tells where the message ends.
    fn ends_with_connection(&mut self) {
        if self.limit.is_some() {
            return;
        }
        line!(self, "v->p.flags |= WL_M_UNTIL_EOF;")
    }

    fn bytes_length(&mut self, inst: &Inst, field: &Field, begins: bool, e: &Expr, b: &Bytes) {
        let s = self.scope(inst);
        if let ExprKind::Int(n) = *e.kind {
            let n = n.min(u64::MAX as u128) as u64;
            if !begins && self.ensured >= n && (b.min..=b.max).contains(&n) && b.class.is_none() && b.trim.is_none() {
                self.value(field, b, &n.to_string());
                let ensured = self.ensured;
                line!(self, "pos += {n};");
                self.ensured = ensured - n;
                return;
            }
        }
        let text = self.expr(&s, e);
        if self.phase == Phase::Head && !begins {
            return self.whole_run(field, b, &text, Some(e));
        }
        // In the tail, the fields behind a length may be gone when more bytes have come.
        let run = self.run_of(field, b, e, &text);
        match self.phase {
            Phase::Tail => self.tail_run(field, b, &run),
            _ if begins => {
                // An empty field ends no head.
                line!(self, "if ({run}) {{");
                self.end_head(false);
                self.tail_run(field, b, &run);
                line!(self, "}} else {{");
                self.value(field, b, "0");
                line!(self, "}}");
                self.phase = Phase::Either;
            }
            Phase::Either if self.flows(b) => {
                line!(self, "if (v->p.flags & WL_IN_TAIL) {{");
                self.phase = Phase::Tail;
                self.tail_run(field, b, &run);
                line!(self, "}} else {{");
                self.phase = Phase::Head;
                self.whole_run(field, b, &run, None);
                line!(self, "}}");
                self.phase = Phase::Either;
            }
            Phase::Head | Phase::Either => self.whole_run(field, b, &run, None),
        }
    }

    /// Waits for all of a field of `n` bytes. `check`: the expression of `n`, if its value is not
    /// checked yet.
    fn whole_run(&mut self, field: &Field, b: &Bytes, n: &str, check: Option<&Expr>) {
        let label = self.label();
        line!(self, "{{ uint64_t n_ = {n};");
        if let Some(e) = check {
            self.length_check(field, b, e)
        }
        line!(self, "if (end - pos < n_) {}", self.wait(label, field));
        self.value(field, b, "(uint32_t)n_");
        if let Some(allowed) = b.allowed() {
            let set = self.g.set(&allowed.complement());
            line!(
                self,
                "if (wl_scan_set(p, pos, pos + (uint32_t)n_, &{set}) != pos + (uint32_t)n_) {}",
                self.bad(field)
            );
        }
        line!(self, "pos += (uint32_t)n_; }}");
    }

    /// The length of a field, kept in the view.
    fn run_of(&mut self, field: &Field, b: &Bytes, e: &Expr, text: &str) -> String {
        line!(self, "{{ uint64_t n_ = {text};");
        self.length_check(field, b, e);
        let run = self.slot("uint64_t");
        line!(self, "{run} = n_; }}");
        run
    }

    fn length_check(&mut self, field: &Field, b: &Bytes, e: &Expr) {
        self.check(e);
        line!(self, "if (n_ > UINT64_C({})) {}", b.max, self.too_long(field));
        if b.min > 0 && b.trim.is_none() {
            line!(self, "if (n_ < {}) {}", b.min, self.bad(field))
        }
    }

    /// A run of known length in the tail: passed on as it comes. Where no byte needs a look the
    /// runtime does it alone.
    fn tail_run(&mut self, field: &Field, b: &Bytes, run: &str) {
        // Without a look at its bytes nothing can be wrong in it.
        let looks = b.class.is_some() && b.max <= grammar::tail::HELD_BYTES;
        if looks || b.trim.is_some() || self.keeps(b) {
            return self.whole_run(field, b, run, None);
        }
        self.commit();
        line!(self, "{}", self.value_text(b, "pos", &format!("(uint32_t){run}")));
        match &b.class {
            None => self.skip_run(field, run),
            Some(c) => {
                let set = self.g.set(&c.complement());
                let label = self.label();
                line!(self, "{{ uint32_t n_ = end - pos < {run} ? end - pos : (uint32_t){run};");
                line!(
                    self,
                    "uint32_t i = wl_scan_set(p, pos, pos + n_, &{set});\nif (i != pos + n_) {}",
                    self.bad_at(field, b, "i")
                );
                line!(self, "pos += n_;\nfrom = pos;\n{run} -= n_;\nif ({run}) {} }}", self.wait(label, field));
            }
        }
    }

    fn skip_run(&mut self, field: &Field, run: &str) {
        let label = self.reserve();
        let passed = if self.counts { format!("v->passed += pos + {run} - v->p.head; ") } else { String::new() };
        line!(self, "if (end - pos < {run}) {{ {passed}RUN({label}, {run}, {}, {}) }} else pos += (uint32_t){run};\nL{label}:;\nfrom = pos;", field.place.0, self.streams as u8);
        self.ensured = 0;
    }

    /// Code that stores a bytes value of `n` bytes at `at`.
    fn value_text(&self, b: &Bytes, at: &str, n: &str) -> String {
        let ext = format!("(wl_ext){{{at}, {n}}}");
        [b.extent, b.store].iter().flatten().map(|x| format!("{x} = {ext}; ")).collect()
    }

    /// Stores the value of a complete field, from `pos` on, trimmed; checks the rest of it.
    fn value(&mut self, field: &Field, b: &Bytes, n: &str) {
        let Some(trim) = &b.trim else {
            let text = self.value_text(b, "pos", n);
            if !text.is_empty() {
                line!(self, "{text}")
            }
            return;
        };
        if let Some(x) = b.extent {
            line!(self, "{x} = (wl_ext){{pos, {n}}};")
        }
        let inside = b.class.is_some_and(|c| trim.iter().all(|t| c.has(t)));
        if b.store.is_none() && b.min == 0 && (inside || b.class.is_none()) {
            return;
        }
        let set = self.g.set(trim);
        line!(self, "{{ wl_ext e_ = wl_trim(p, (wl_ext){{pos, {n}}}, &{set});");
        if b.min > 0 {
            line!(self, "if (e_.n < {}) {}", b.min, self.bad(field))
        }
        if let (Some(c), false) = (&b.class, inside) {
            let set = self.g.set(&c.complement());
            line!(self, "if (wl_scan_set(p, e_.o, e_.o + e_.n, &{set}) != e_.o + e_.n) {}", self.bad(field));
        }
        if let Some(at) = b.store {
            line!(self, "{at} = e_;")
        }
        line!(self, "}}");
    }

    /// Whether a field of the tail is kept until it is complete: the grammar may read it
    /// ([`grammar::late`]).
    fn keeps(&self, b: &Bytes) -> bool {
        b.store.is_some() && b.max <= grammar::tail::KEPT_BYTES
    }

    /// Whether checked bytes of a field, where it lies in the tail, are given away before its end
    /// is found: of long ones. Of others a fault stands at their first byte, from where a delimiter
    /// to recover by is looked for.
    fn flows(&self, b: &Bytes) -> bool {
        b.max > grammar::tail::HELD_BYTES && b.trim.is_none() && !self.keeps(b)
    }

    /// A fault of a byte in a field: in the tail it stands there if the bytes before it may be
    /// gone.
    fn bad_at(&self, field: &Field, b: &Bytes, at: &str) -> String {
        self.fault_at(self.bad(field), b, at)
    }

    fn too_long_at(&self, field: &Field, b: &Bytes, at: &str) -> String {
        self.fault_at(self.too_long(field), b, at)
    }

    fn fault_at(&self, fault: String, b: &Bytes, at: &str) -> String {
        match self.phase {
            Phase::Head => fault,
            _ if !self.flows(b) => fault,
            Phase::Either => format!("{{ if (v->p.flags & WL_IN_TAIL) pos = {at}; {fault} }}"),
            Phase::Tail => format!("{{ pos = {at}; {fault} }}"),
        }
    }

    /// Declares the start of the field: `pos`, or earlier, if bytes of it were passed on before.
    fn begin_long(&mut self, b: &Bytes) -> Option<String> {
        if self.phase != Phase::Tail || !self.flows(b) {
            return None;
        }
        self.commit();
        let run = self.slot("uint32_t");
        line!(self, "{run} = 0;\n{}", self.value_text(b, "pos", "0"));
        Some(run)
    }

    /// At the end of a long field whose last part is `n` bytes: its length in all is stored.
    fn end_long(&mut self, field: &Field, b: &Bytes, run: Option<&str>, n: &str) {
        match run {
            None => {
                if b.min > 0 && b.trim.is_none() {
                    line!(self, "if ({n} < {}) {}", b.min, self.bad(field))
                }
                self.value(field, b, n);
            }
            Some(run) => {
                if b.min > 0 {
                    line!(self, "if ({run} + {n} < {}) {}", b.min, self.bad(field))
                }
                for x in [b.extent, b.store].iter().flatten() {
                    line!(self, "{x}.n = {run} + {n};")
                }
            }
        }
    }

    /// Bytes up to a delimiter. One scan looks for any byte that can end the field: a delimiter's
    /// first byte or a byte that is not allowed. The first event in the order of bytes decides:
    /// delimiter, too long, not allowed.
    fn bytes_until(&mut self, field: &Field, u: &Until, b: &Bytes) {
        let run = self.begin_long(b);
        let mut stop = b.class.map_or(ByteSet::EMPTY, |c| c.complement());
        for t in b.trim.iter().flat_map(|t| t.iter()) {
            stop.0[(t >> 6) as usize] &= !(1 << (t & 63))
        }
        let allowed = stop.complement();
        for d in &u.delimiters {
            if let Some(&c) = d.first() {
                stop.add(c)
            }
        }
        let scan = self.scan_text(&stop);
        let label = self.label();
        let gone = run.as_deref().unwrap_or("0");
        line!(self, "{{ uint32_t room_ = {}u - {gone}, lim_ = end - pos > room_ ? pos + room_ + 1 : end, i = pos + v->p.scan, dl = 0;", b.max.min(u32::MAX as u64 - 1));
        line!(
            self,
            "for (;;) {{\ni = {scan};\nif (i == lim_) {{\nif (end - pos > room_) {}",
            self.too_long_at(field, b, "pos + room_")
        );
        self.suspend_long(field, run.as_deref(), label);
        line!(self, "}}\nint m_;");
        for d in &u.delimiters {
            line!(self, "m_ = {};\nif (m_ > 0) {{ dl = {}; break; }}\nif (m_ < 0) {{", self.matched("i", d), d.len());
            self.suspend_long(field, run.as_deref(), label);
            line!(self, "}}");
        }
        line!(self, "if (i - pos == room_) {}", self.too_long_at(field, b, "i"));
        if b.class.is_some() {
            let starts: ByteSet = u.delimiters.iter().filter_map(|d| d.first()).fold(ByteSet::EMPTY, |mut s, c| {
                s.add(*c);
                s
            });
            let legal = starts.iter().filter(|c| allowed.has(*c)).fold(ByteSet::EMPTY, |mut s, c| {
                s.add(c);
                s
            });
            if legal == ByteSet::EMPTY {
                line!(self, "{}", self.bad_at(field, b, "i"));
            } else {
                let tests: Vec<_> = legal.iter().map(|c| format!("p[i] != {c}")).collect();
                line!(self, "if ({}) {}\ni++;", tests.join(" && "), self.bad_at(field, b, "i"));
            }
        } else {
            line!(self, "i++;");
        }
        line!(self, "}}\nv->p.scan = 0;");
        self.end_long(field, b, run.as_deref(), "(i - pos)");
        line!(self, "pos = i{};\n{}(void)dl; }}", if u.peek { "" } else { " + dl" }, gone_on(run.as_deref()));
    }

    /// Text that finds the next stop byte from `i` below `lim_`.
    fn scan_text(&mut self, stop: &ByteSet) -> String {
        let few: Vec<u8> = stop.iter().take(3).collect();
        match few[..] {
            [] => "lim_".into(),
            [a] => format!("wl_scan_two(p, i, lim_, {a}, {a})"),
            [a, c] => format!("wl_scan_two(p, i, lim_, {a}, {c})"),
            _ => format!("wl_scan_set(p, i, lim_, &{})", self.g.set(stop)),
        }
    }

    /// Suspends in a long field, with bytes up to `i` checked.
    fn suspend_long(&mut self, field: &Field, run: Option<&str>, label: u32) {
        match run {
            Some(run) => line!(self, "{run} += i - pos;\npos = from = i;\nv->p.scan = 0;"),
            None => line!(self, "v->p.scan = i - pos;"),
        }
        line!(self, "{}", self.wait(label, field));
    }

    fn bytes_run(&mut self, field: &Field, b: &Bytes) {
        let run = self.begin_long(b);
        let stop = b.class.map_or(ByteSet::EMPTY, |c| c.complement());
        let scan = self.scan_text(&stop);
        let label = self.label();
        let gone = run.as_deref().unwrap_or("0");
        line!(
            self,
            "{{ uint32_t room_ = {}u - {gone}, lim_ = end - pos > room_ ? pos + room_ + 1 : end, i = pos + v->p.scan;",
            b.max.min(u32::MAX as u64 - 1)
        );
        line!(
            self,
            "i = {scan};\nif (i - pos > room_) {}\nif (i == end && !eof) {{",
            self.too_long_at(field, b, "pos + room_")
        );
        self.suspend_long(field, run.as_deref(), label);
        line!(self, "}}\nv->p.scan = 0;");
        self.end_long(field, b, run.as_deref(), "(i - pos)");
        line!(self, "pos = i;\n{}}}", gone_on(run.as_deref()));
    }

    fn bytes_to_end(&mut self, field: &Field, b: &Bytes) {
        let run = self.begin_long(b);
        let gone = run.as_deref().unwrap_or("0");
        let label = self.label();
        line!(self, "{{ uint32_t i = end, room_ = {}u - {gone};", b.max.min(u32::MAX as u64 - 1));
        if let Some(allowed) = b.allowed() {
            // The first in the order of the bytes decides: one that is not allowed, or one too
            // many.
            let set = self.g.set(&allowed.complement());
            line!(self, "uint32_t lim_ = end - pos > room_ ? pos + room_ : end;\nuint32_t bad_ = wl_scan_set(p, pos + v->p.scan, lim_, &{set});\nif (bad_ != lim_) {}", self.bad_at(field, b, "bad_"));
        }
        line!(self, "if (end - pos > room_) {}", self.too_long_at(field, b, "pos + room_"));
        line!(self, "if (!eof) {{");
        self.suspend_long(field, run.as_deref(), label);
        line!(self, "}}\nv->p.scan = 0;");
        self.end_long(field, b, run.as_deref(), "(i - pos)");
        line!(self, "pos = i;\n{}}}", gone_on(run.as_deref()));
    }

    pub fn number(
        &mut self,
        field: &Field,
        shape: (u8, u8, bool),
        until: Option<&Until>,
        store: Option<&str>,
        extent: Option<&str>,
    ) {
        let (radix, digits, exact) = shape;
        let (bits, signed) = int_of(self.g.m, field.ty).unwrap_or((64, false));
        let label = self.label();
        let call = |at: &str, n: &str, max: u32| match radix {
            10 => format!("wl_digits10({at}, {n}, {max})"),
            16 => format!("wl_digits16({at}, {n}, {max})"),
            r => format!("wl_digits({at}, {n}, {max}, {r})"),
        };
        line!(self, "{{");
        let minus = if signed {
            line!(self, "uint32_t minus = end != pos && p[pos] == '-';");
            "minus"
        } else {
            "0"
        };
        let from = if signed { "pos + minus".to_string() } else { "pos".into() };
        let most = digits as u32 + !(exact && until.is_none()) as u32;
        line!(self, "wl_num n_ = {};", call(&format!("p + {from}"), &format!("end - ({from})"), most));
        line!(self, "uint32_t after = {from} + n_.digits;");
        if exact && until.is_none() {
            line!(
                self,
                "if (n_.digits < {digits}) {{ if (after == end) {} {} }}",
                self.wait(label, field),
                self.bad(field)
            );
        } else {
            line!(self, "if (n_.digits > {digits}) {}", self.too_long(field));
            let at_eof = if until.is_some() { "" } else { " && (!eof || n_.digits == 0)" };
            line!(self, "if (after == end{at_eof}) {}", self.wait(label, field));
            let short = if exact { format!("n_.digits != {digits}") } else { "n_.digits == 0".into() };
            line!(self, "if ({short}) {}", self.bad(field));
        }
        if let Some(u) = until {
            line!(self, "uint32_t dl = 0; int m_;");
            for (i, d) in u.delimiters.iter().enumerate() {
                let test = format!("(m_ = {}) != 0", self.matched("after", d));
                line!(
                    self,
                    "{}if ({test}) {{ if (m_ < 0) {} dl = {}; }}",
                    if i > 0 { "else " } else { "" },
                    self.wait(label, field),
                    d.len()
                );
            }
            line!(self, "if (!dl) {}", self.bad(field));
        }
        let top = if bits >= 64 { u64::MAX } else { (1u64 << bits) - 1 };
        if signed {
            line!(
                self,
                "if (n_.over || n_.v > UINT64_C({}) + minus) {}\nif (minus) n_.v = 0 - n_.v;",
                top >> 1,
                self.bad(field)
            );
        } else if top == u64::MAX {
            line!(self, "if (n_.over) {}", self.bad(field));
        } else {
            line!(self, "if (n_.over || n_.v > UINT64_C({top})) {}", self.bad(field));
        }
        if let Some(ranges) = &field.within {
            let test = self.g.in_ranges(&low_bits("n_.v", int_of(self.g.m, field.ty)), ranges, 64);
            line!(self, "if (!{test}) {}", self.bad(field));
        }
        if let Some(x) = extent {
            line!(self, "{x} = (wl_ext){{pos, after - pos}};")
        }
        if let Some(at) = store {
            let c = self.g.cty(field.ty);
            line!(self, "{at} = ({c})n_.v;")
        }
        let skip = if until.is_some_and(|u| !u.peek) { " + dl" } else { "" };
        line!(self, "(void){minus};\npos = after{skip}; }}");
        self.ensured = 0;
    }

    pub fn varint(&mut self, field: &Field, max_bytes: u8, store: Option<&str>, extent: Option<&str>) {
        let (bits, _) = int_of(self.g.m, field.ty).unwrap_or((64, false));
        let label = self.label();
        line!(self, "{{ unsigned __int128 n_ = 0; uint32_t i = 0;\nfor (;; i++) {{");
        line!(self, "if (i == {max_bytes}) {}\nif (end - pos == i) {}", self.too_long(field), self.wait(label, field));
        line!(self, "uint8_t c = p[pos + i];\nif (i < 18) n_ |= (unsigned __int128)(c & 127) << (7 * i);\nif (c < 128) break;\n}}");
        if bits < 128 {
            line!(self, "if (n_ >> {bits}) {}", self.bad(field))
        }
        if let Some(ranges) = &field.within {
            let test = self.g.in_ranges(&low_bits("n_", int_of(self.g.m, field.ty)), ranges, 64);
            line!(self, "if (!{test}) {}", self.bad(field));
        }
        if let Some(x) = extent {
            line!(self, "{x} = (wl_ext){{pos, i + 1}};")
        }
        if let Some(at) = store {
            let c = self.g.cty(field.ty);
            line!(self, "{at} = ({c})n_;")
        }
        line!(self, "pos += i + 1; }}");
        self.ensured = 0;
    }

    pub fn list(&mut self, inst: &Inst, f: FieldId, member: &str, extent: Option<&str>) {
        let field = self.field_of(inst.unit, f);
        let FieldKind::List { element, max, extent: kind } = &field.kind else { return };
        let (element, max) = (*element, *max);
        let all = self.g.keeps_items(inst.unit, f, element);
        let item = if all { format!("{member}.at[{member}.n]") } else { format!("{member}.at[0]") };
        let s = self.scope(inst);
        if let Some(x) = extent {
            line!(self, "{x}.o = pos;")
        }
        if matches!(kind, ListExtent::ToEnd) {
            self.ends_with_connection()
        }
        line!(self, "{member}.n = 0;");
        let acc = match kind {
            ListExtent::Fold { init, .. } => {
                let acc = self.slot("uint64_t");
                let init_text = self.expr(&s, init);
                line!(self, "{acc} = {init_text};");
                self.check(init);
                Some(acc)
            }
            ListExtent::Count(_) | ListExtent::Until(_) | ListExtent::ToEnd => None,
        };
        if let ListExtent::Count(e) = kind {
            let count = self.expr(&s, e);
            line!(self, "{{ uint64_t n_ = {count};");
            self.check(e);
            line!(self, "if (n_ > {max}) {} }}", self.too_long(field));
        }
        line!(self, "for (;;) {{");
        self.list_end(field, &s, member, acc.as_deref());
        self.element(inst, element, &item, all);
        if let (ListExtent::Fold { holds, step, .. }, Some(acc)) = (kind, &acc) {
            let scope = Scope {
                item: Some(Item::Listed(inst.clone(), element, item.clone())),
                acc: Some(acc.clone()),
                ..s.clone()
            };
            if let Some(h) = holds {
                let text = self.expr(&scope, h);
                line!(self, "if (WL_UNLIKELY(!({text}))) FAIL({}, {})", FaultKind::MALFORMED.0, field.place.0);
            }
            let next = self.expr(&scope, step);
            line!(self, "{acc} = {next};");
            self.check(step);
        }
        line!(self, "{member}.n++;");
        if !grammar::passed_at_once(self.g.m, inst.unit, f) {
            self.commit()
        }
        line!(self, "}}");
        if let Some(x) = extent {
            let dl = if matches!(kind, ListExtent::Until(u) if !u.peek) { " - v->p.scan" } else { "" };
            line!(self, "{x}.n = pos{dl} - {x}.o;");
        }
        if matches!(kind, ListExtent::Until(_)) {
            line!(self, "v->p.scan = 0;")
        }
        self.ensured = 0;
    }

    /// Leaves the list's loop where it ends; another item than the last allowed is too long.
    fn list_end(&mut self, field: &Field, s: &Scope, member: &str, acc: Option<&str>) {
        let FieldKind::List { max, extent: kind, .. } = &field.kind else { return };
        match kind {
            ListExtent::Count(e) => {
                let count = self.expr(s, e);
                line!(self, "if ({member}.n >= {count}) break;");
                self.ensured = 0;
                return;
            }
            ListExtent::Until(u) => {
                self.literal(field, &u.delimiters);
                // The delimiter's length outlives the loop in the view's scan slot.
                let dl = if u.peek { "0" } else { "dl" };
                line!(self, "if (dl) {{ pos += {dl}; v->p.scan = {dl}; break; }} }}");
            }
            ListExtent::ToEnd => {
                let label = self.label();
                line!(self, "if (pos == end) {{ if (eof) break; {} }}", self.wait(label, field));
            }
            ListExtent::Fold { done, .. } => {
                let scope = Scope { acc: acc.map(str::to_string), ..s.clone() };
                let text = self.expr(&scope, done);
                line!(self, "if (({text}) != 0) break;");
                self.ensured = 0;
            }
        }
        line!(self, "if ({member}.n == {max}) {}", self.too_long(field));
    }

    fn element(&mut self, inst: &Inst, element: FieldId, item: &str, all: bool) {
        let field = self.field_of(inst.unit, element);
        let value = format!("{item}.v");
        let extent = self.g.has_extent(inst.unit, element).then(|| format!("{item}.x"));
        let plain = !matches!(field.kind, FieldKind::Unit { .. } | FieldKind::List { .. } | FieldKind::Switch { .. });
        let store = plain && (all || field.value_used);
        let member = match field.kind {
            FieldKind::List { .. } | FieldKind::Switch { .. } => {
                format!("{item}.{}", names::field(self.g.m, inst.unit, element))
            }
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Bytes { .. }
            | FieldKind::Literal { .. }
            | FieldKind::Flag { .. }
            | FieldKind::Unit { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => value.clone(),
        };
        self.ensured = 0;
        self.field(inst, element, &member, store.then_some(value.as_str()), extent.as_deref());
        self.ensured = 0;
    }

    pub fn stream_bytes(&mut self, inst: &Inst, field: &Field, e: &Extent, extent: Option<&str>) {
        match e {
            Extent::Length(len) => {
                let s = self.scope(inst);
                let run = self.slot("uint64_t");
                let text = self.expr(&s, len);
                line!(self, "{run} = {text};");
                self.check(len);
                if let Some(x) = extent {
                    line!(self, "{x} = (wl_ext){{pos, (uint32_t){run}}};")
                }
                self.commit();
                if self.phase == Phase::Tail {
                    return self.skip_run(field, &run);
                }
                line!(self, "if ({run}) {{");
                self.end_head(false);
                self.skip_run(field, &run);
                line!(self, "}}");
                self.phase = Phase::Either;
            }
            Extent::Until(u) => {
                self.end_head(false);
                let b = Bytes { min: 0, max: u32::MAX as u64, class: None, trim: None, store: None, extent };
                // Of a stream no length is counted, so it may be longer than 4 GiB.
                self.stream_until(field, u, &b);
            }
            Extent::Run | Extent::ToEnd | Extent::Close => {
                self.end_head(matches!(e, Extent::Close | Extent::ToEnd));
                self.commit();
                let label = self.label();
                line!(self, "pos = from = end;\nif (!eof) {{ {} {} }}", self.rebase(), self.wait(label, field));
            }
        }
        self.ensured = 0;
    }

    fn stream_until(&mut self, field: &Field, u: &Until, _b: &Bytes) {
        let mut stop = ByteSet::EMPTY;
        for d in &u.delimiters {
            if let Some(&c) = d.first() {
                stop.add(c)
            }
        }
        let scan = self.scan_text(&stop);
        self.commit();
        let label = self.label();
        line!(self, "{{ uint32_t i = pos, lim_ = end, dl = 0;\nfor (;; i++) {{\ni = {scan};\nif (i == lim_) {{ pos = from = i; {} {} }}\nint m_;", self.rebase(), self.wait(label, field));
        for d in &u.delimiters {
            line!(
                self,
                "m_ = wl_match(p + i, end - i, {}, {});\nif (m_ > 0) {{ dl = {}; break; }}",
                names::literal(d),
                d.len(),
                d.len()
            );
            line!(self, "if (m_ < 0) {{ pos = from = i; {} {} }}", self.rebase(), self.wait(label, field));
        }
        line!(self, "}}\npos = from = i{};\n(void)dl; }}", if u.peek { "" } else { " + dl" });
    }

    /// Offsets count from the head's end again, so that they stay small however long a stream is.
    fn rebase(&self) -> &'static str {
        if self.counts {
            "v->passed += pos - v->p.head;\nWL_REBASE"
        } else {
            "WL_REBASE"
        }
    }

    /// An item of a stream begins here (`number` is the stream's), or the last one ends (0). The
    /// runtime looks at the bytes before, if it has asked for that.
    fn border(&mut self, number: u32) {
        let label = self.reserve();
        line!(
            self,
            "if (v->p.flags & WL_M_ITEMS) {{ v->p.flags = ((v->p.flags & ~(uint32_t)WL_M_ITEM_MASK) ^ WL_M_BORDER) | {number}u * WL_M_ITEM; v->p.pc = {label}; RETURN(WL_MORE) }}\nL{label}:;"
        );
        self.ensured = 0;
    }

    pub fn stream_unit(&mut self, inst: &Inst, f: FieldId, member: &str) {
        let FieldKind::StreamUnit { unit, args, until } = &self.field_of(inst.unit, f).kind else { return };
        let (unit, number) = (*unit, self.watched(inst, f));
        self.end_head(false);
        self.commit();
        line!(self, "for (;;) {{\n{}", self.rebase());
        if number > 0 {
            self.border(number)
        }
        self.nested(inst, unit, args, member);
        match until {
            None => line!(self, "break;\n}}"),
            Some(e) => {
                let item = Item::Unit(Inst { unit, at: member.to_string(), base: inst.base.clone(), head: None });
                let s = Scope { item: Some(item), ..self.scope(inst) };
                let text = self.expr(&s, e);
                line!(self, "{{ bool c_ = {text};");
                self.check(e);
                line!(self, "if (c_) break; }}");
                self.commit();
                line!(self, "}}");
            }
        }
        self.commit();
        if number > 0 {
            self.border(0)
        }
        self.ensured = 0;
    }
}

/// Behind a long field its bytes, which were passed on as they came, are not held. `run`: as of
/// `begin_long`.
fn gone_on(run: Option<&str>) -> &'static str {
    if run.is_some() {
        "from = pos;\n"
    } else {
        ""
    }
}

/// A bytes field's bounds and where its value and extent go.
struct Bytes<'a> {
    min: u64,
    max: u64,
    class: Option<ByteSet>,
    trim: Option<ByteSet>,
    store: Option<&'a str>,
    extent: Option<&'a str>,
}

impl Bytes<'_> {
    /// The allowed bytes, with the bytes at both ends that are trimmed away.
    fn allowed(&self) -> Option<ByteSet> {
        self.class.map(|c| self.trim.map_or(c, |t| c.union(&t)))
    }
}
