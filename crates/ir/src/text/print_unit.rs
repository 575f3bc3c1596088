//! Printing: units, their fields and layers.

use super::print::{bytes, set, span, string, strings, Printer};
use crate::*;
use std::fmt::Write;

impl Printer<'_> {
    pub fn unit(&mut self, id: UnitId, u: &Unit) {
        self.braces(&format!("unit {}", string(&u.name)), &span(&u.span), &mut |p| {
            if !u.doc.is_empty() {
                p.line(&format!("doc {};", string(&u.doc)))
            }
            for (word, q) in u.params.iter().map(|q| ("param", q)).chain(u.asked.iter().map(|q| ("asked", q))) {
                let line = format!("{word} {}: {} shift {} bits {};", string(&q.name), p.ty(q.ty), q.shift, q.bits);
                p.line(&line)
            }
            if let Some(n) = u.limit {
                p.line(&format!("limit {n};"))
            }
            p.header(id, &u.header);
            for l in u.frame.iter().flat_map(|f| &f.layers) {
                p.layer(id, l)
            }
            if u.frame.as_ref().is_some_and(|f| f.layers.is_empty()) {
                p.line("no_layers;")
            }
            if let Some(f) = u.frame.as_ref().and_then(|f| f.fast_path.as_ref()) {
                p.fast_path(id, f)
            }
            if u.frame.as_ref().is_some_and(|f| f.branch_free) {
                p.line("branch_free;")
            }
            for s in u.frame.iter().flat_map(|f| &f.slots) {
                p.slot(id, s)
            }
            p.line(&format!(
                "measure tail {}{} min {} max {} head_max {} first {};",
                u.tail,
                if u.streams { " streams" } else { "" },
                u.min,
                u.max,
                u.head_max,
                set(&u.first)
            ));
            for (n, f) in u.fields.iter().enumerate() {
                p.field(id, n, f)
            }
            let body: Vec<String> = u.body.iter().map(|f| p.field_ref(Some(id), *f)).collect();
            p.line(&format!("body ({});", body.join(", ")));
        });
    }

    fn header(&mut self, id: UnitId, h: &Header) {
        if let Some(c) = h.checksum {
            let over = match c.over {
                Over::Header => "header".into(),
                Over::Message => "message".into(),
                Over::Transport { protocol, optional } => {
                    format!("transport {protocol}{}", if optional { " optional" } else { "" })
                }
            };
            let when = c.when.map_or(String::new(), |f| format!(" when {}", self.field_ref(Some(id), f)));
            let line = format!("checksum {} over {over}{when};", self.field_ref(Some(id), c.field));
            self.line(&line);
        }
        if let Some((a, b)) = h.addresses {
            let line = format!("addresses {}, {};", self.field_ref(Some(id), a), self.field_ref(Some(id), b));
            self.line(&line);
        }
        if let Some(f) = h.partial {
            let line = format!("partial {};", self.field_ref(Some(id), f));
            self.line(&line);
        }
        if !h.per_packet.is_empty() {
            let fields: Vec<String> = h.per_packet.iter().map(|f| self.field_ref(Some(id), *f)).collect();
            self.line(&format!("per_packet ({});", fields.join(", ")));
        }
        match h.link {
            desc::Begins::Any => {}
            desc::Begins::Ethernet => self.line("link ethernet;"),
            desc::Begins::Ip => self.line("link ip;"),
        }
        if let Some(c) = h.covers {
            let line = format!("covers {}{};", self.field_ref(Some(id), c.field), if c.own { " own" } else { "" });
            self.line(&line);
        }
    }

    fn layer(&mut self, id: UnitId, l: &Layer) {
        let after: Vec<String> = l
            .after
            .iter()
            .map(|a| {
                let from = a.layer.map_or("start".into(), |n| n.to_string());
                a.cond.as_ref().map_or(from.clone(), |c| format!("{from} if {}", self.expr_in(c, Some(id))))
            })
            .collect();
        let line = format!(
            "layer {} {} of {} after ({});",
            self.field_ref(Some(id), l.switch),
            self.field_ref(Some(id), l.header),
            self.unit_ref(l.unit),
            after.join(", ")
        );
        self.line(&line);
    }

    fn field(&mut self, unit: UnitId, n: usize, f: &Field) {
        let mut text = format!(
            "field #{n} {}: {} at {} bad {} too_long {}",
            f.name.as_deref().map_or("_".into(), string),
            self.ty(f.ty),
            f.place.0,
            f.bad.0,
            f.too_long.0
        );
        if let Some(w) = &f.within {
            let _ = write!(text, " in ({})", self.ranges(w));
        }
        if let Some(e) = &f.lies_in {
            let _ = write!(text, " lies_in {}", self.expr_scoped(e, crate::walk::Scope::this(unit)));
        }
        if let Some(c) = &f.computed {
            let list: Vec<String> = c.lengths.iter().map(|f| self.field_ref(Some(unit), *f)).collect();
            let _ = write!(text, " computed ({}) plus {}", list.join(", "), c.plus);
        }
        if f.value_used {
            text.push_str(" value")
        }
        if f.extent_used {
            text.push_str(" extent")
        }
        if !f.doc.is_empty() {
            let _ = write!(text, " doc {}", string(&f.doc));
        }
        let kind = self.field_kind(unit, &f.kind);
        if let FieldKind::Switch { cases } = &f.kind {
            self.braces(&format!("{text} = switch"), &span(&f.span), &mut |p| {
                for c in cases {
                    p.case(unit, c)
                }
            });
        } else {
            self.line(&format!("{text} = {kind};{}", span(&f.span)));
        }
    }

    pub fn ranges(&self, list: &[(u64, u64)]) -> String {
        list.iter().map(|(a, b)| format!("{a}..{b}")).collect::<Vec<_>>().join(", ")
    }

    fn case(&mut self, unit: UnitId, c: &Case) {
        let guard = match &c.guard {
            Guard::Literal { values, peek } => {
                format!("{} ({})", if *peek { "peek" } else { "literal" }, strings(values))
            }
            Guard::When(e) => format!("when {}", self.expr_in(e, Some(unit))),
            Guard::Else => "else".into(),
            Guard::Fault(k) => format!("fault {}", k.0),
        };
        let fields: Vec<String> = c.fields.iter().map(|f| self.field_ref(Some(unit), *f)).collect();
        self.line(&format!(
            "case {} {guard} => ({});",
            c.name.as_deref().map_or("_".into(), string),
            fields.join(", ")
        ));
    }

    fn until(&self, u: &Until) -> String {
        format!("until{} ({})", if u.peek { " peek" } else { "" }, strings(&u.delimiters))
    }

    fn extent(&self, unit: UnitId, e: &Extent) -> String {
        match e {
            Extent::Length(e) => format!("length {}", self.expr_in(e, Some(unit))),
            Extent::Until(u) => self.until(u),
            Extent::Run => "run".into(),
            Extent::ToEnd => "to_end".into(),
            Extent::Close => "close".into(),
        }
    }

    fn args(&self, unit: UnitId, args: &[Expr]) -> String {
        args.iter().map(|e| self.expr_in(e, Some(unit))).collect::<Vec<_>>().join(", ")
    }

    fn field_kind(&self, unit: UnitId, k: &FieldKind) -> String {
        let e = |e: &Expr| self.expr_in(e, Some(unit));
        match k {
            FieldKind::UInt { bytes, shift, bits, big, signed, advance } => format!(
                "uint bytes {bytes} shift {shift} bits {bits} {}{}{}",
                if *big { "big" } else { "little" },
                if *signed { " signed" } else { "" },
                if *advance { " advance" } else { "" }
            ),
            FieldKind::Number { radix, digits, exact, until } => format!(
                "number radix {radix} digits {digits}{}{}",
                if *exact { " exact" } else { "" },
                until.as_ref().map_or(String::new(), |u| format!(" {}", self.until(u)))
            ),
            FieldKind::Varint { max_bytes } => format!("varint {max_bytes}"),
            FieldKind::Bytes { min, max, class, extent, trim, caseless } => format!(
                "bytes {min}..{max}{}{}{} {}",
                class.map_or(String::new(), |c| format!(" class {}", set(&c))),
                trim.map_or(String::new(), |c| format!(" trim {}", set(&c))),
                if *caseless { " caseless" } else { "" },
                self.extent(unit, extent)
            ),
            FieldKind::Literal { values } => format!("literal ({})", strings(values)),
            FieldKind::Flag { value } => format!("flag {}", bytes(value)),
            FieldKind::Unit { unit: inner, args } => {
                format!("unit {} ({})", self.unit_ref(*inner), self.args(unit, args))
            }
            FieldKind::List { element, max, extent } => format!(
                "list {} max {max} {}",
                self.field_ref(Some(unit), *element),
                match extent {
                    ListExtent::Count(n) => format!("count {}", e(n)),
                    ListExtent::Until(u) => self.until(u),
                    ListExtent::ToEnd => "to_end".into(),
                    ListExtent::Fold { init, holds, step, done } => {
                        let holds = holds.as_ref().map_or(String::new(), |h| format!(" holds {}", e(h)));
                        format!("fold {}{holds} step {} done {}", e(init), e(step), e(done))
                    }
                }
            ),
            FieldKind::StreamBytes { extent } => format!("stream_bytes {}", self.extent(unit, extent)),
            FieldKind::StreamUnit { unit: inner, args, until } => format!(
                "stream_unit {} ({}){}",
                self.unit_ref(*inner),
                self.args(unit, args),
                until.as_ref().map_or(String::new(), |u| format!(" until {}", e(u)))
            ),
            FieldKind::Switch { .. } => "switch".into(),
            FieldKind::Let { value } => format!("let {}", e(value)),
            FieldKind::Require { cond } => format!("require {}", e(cond)),
            FieldKind::Recover { how: Recover::Until(u) } => format!("recover {}", self.until(u)),
            FieldKind::Recover { how: Recover::Length(n) } => format!("recover length {}", e(n)),
            FieldKind::Pass { how: PassRule::When(c) } => format!("pass when {}", e(c)),
            FieldKind::Pass { how: PassRule::As { case, endless } } => {
                format!("pass as {case}{}", if *endless { " endless" } else { "" })
            }
            FieldKind::Align { to } => format!("align {to}"),
            FieldKind::Nothing => "nothing".into(),
        }
    }
}
