//! Expressions, by type.

use super::{Make, Ty};

impl Make {
    pub(super) fn literal(&mut self, ty: Ty) -> String {
        let n = self.pick(&[0u32, 1, 2, 3, 5, 7, 8, 31, 100, 127, 200, 255]);
        match ty {
            Ty::Bool => self.pick(&["true", "false"]).into(),
            Ty::I32 => format!("i32({n})"),
            Ty::U8 | Ty::U16 | Ty::U32 | Ty::U64 => format!("{}({n})", ty.text()),
            Ty::Ip4 => format!("10.0.{}.{}", n % 2, self.below(4)),
            Ty::Bytes | Ty::Text => {
                format!("\"{}\"", self.pick(&["", "a", "Bc", "dEf", "0123456789abcdef", "x,y", "\\0\\xff"]))
            }
            Ty::MaybeU32 => {
                if n.is_multiple_of(3) {
                    "none".into()
                } else {
                    format!("some(u32({n}))")
                }
            }
            Ty::MaybeBytes => {
                if n.is_multiple_of(3) {
                    "none".into()
                } else {
                    format!("some({})", self.literal(Ty::Bytes))
                }
            }
            Ty::Two => format!("Two {{ a: {}, b: {}, n: {n} }}", self.literal(Ty::Bytes), self.literal(Ty::Bytes)),
            Ty::MaybeTwo => {
                if n.is_multiple_of(3) {
                    "none".into()
                } else {
                    format!("some({})", self.literal(Ty::Two))
                }
            }
            Ty::Tuple => format!("({}, {})", self.literal(Ty::Bytes), self.literal(Ty::Bytes)),
            Ty::List => {
                format!("[{}, {}, {}]", self.literal(Ty::Bytes), self.literal(Ty::Bytes), self.literal(Ty::Bytes))
            }
            Ty::Numbers => format!("[u32({n}), u32({}), u32(9)]", n / 2),
            Ty::Nest => format!(
                "Nest {{ t: {}, o: {}, l: {}, k: {n} }}",
                self.literal(Ty::Two),
                self.literal(Ty::MaybeBytes),
                self.literal(Ty::List)
            ),
        }
    }

    /// A variable or state of a type.
    fn named(&mut self, ty: Ty) -> Option<String> {
        let fit: Vec<String> =
            self.vars.iter().chain(&self.states).filter(|v| v.ty == ty).map(|v| v.name.clone()).collect();
        if fit.is_empty() {
            return None;
        }
        Some(fit[self.below(fit.len() as u64) as usize].clone())
    }

    /// An available value of a type; mostly parts of values.
    fn leaf(&mut self, ty: Ty) -> String {
        let part = match (ty, self.below(6)) {
            (Ty::Bytes, 0) => self.named(Ty::Two).map(|n| format!("{n}.a")),
            (Ty::Bytes, 1) => self.named(Ty::Two).map(|n| format!("{n}.b")),
            (Ty::Bytes, 2) => self.named(Ty::Nest).map(|n| format!("{n}.t.{}", self.pick(&["a", "b"]))),
            (Ty::Bytes, 3) => self.named(Ty::MaybeBytes).map(|n| format!("({n} else \"n\")")),
            (Ty::Bytes, 4) => self.named(Ty::List).map(|n| {
                let i = self.below(3);
                format!("(if len({n}) > {i} {{ {n}[{i}] }} else {{ \"e\" }})")
            }),
            (Ty::Two, 0..=2) => self.named(Ty::Nest).map(|n| format!("{n}.t")),
            (Ty::Two, 3) => self.named(Ty::MaybeTwo).map(|n| format!("({n} else {})", self.literal(Ty::Two))),
            (Ty::List, 0..=2) => self.named(Ty::Nest).map(|n| format!("{n}.l")),
            (Ty::MaybeBytes, 0..=2) => self.named(Ty::Nest).map(|n| format!("{n}.o")),
            (Ty::U32, 0) => self.named(Ty::Two).map(|n| format!("{n}.n")),
            (Ty::U64, 0) => self.named(Ty::Nest).map(|n| format!("{n}.k")),
            (Ty::U64, 1) if !self.counters.is_empty() && !self.held && !self.hook => Some(self.counters[0].clone()),
            _ => None,
        };
        if let Some(p) = part {
            return p;
        }
        if let Some(p) = self.of_message(ty) {
            return p;
        }
        let found = if self.rng.chance(80) { self.named(ty) } else { None };
        found.unwrap_or_else(|| self.literal(ty))
    }

    /// Part of the current packet or request.
    fn of_message(&mut self, ty: Ty) -> Option<String> {
        if !self.rng.chance(40) {
            return None;
        }
        if self.service {
            return match ty {
                Ty::Bytes => Some(format!("req.{}", self.pick(&["op", "data"]))),
                Ty::U32 => Some("req.n".into()),
                _ => None,
            };
        }
        if !self.packet {
            return None;
        }
        let has = |h: &str| self.headers.contains(&h);
        match ty {
            Ty::U32 => Some("p.len".into()),
            Ty::Ip4 if has("ip4") => Some(format!("p.ip4.{}", self.pick(&["src", "dst"]))),
            Ty::U8 if has("ip4") => Some(format!("p.ip4.{}", self.pick(&["ttl", "proto"]))),
            Ty::U16 if has("udp") => Some(format!("p.udp.{}", self.pick(&["src", "dst"]))),
            Ty::U16 if has("vlan") => Some("u16(p.vlan.vid)".into()),
            Ty::U16 if has("eth") => Some("p.eth.type".into()),
            Ty::Bytes if self.rng.chance(30) => Some("cut(slice(p.payload, 0, 12))".into()),
            _ => None,
        }
    }

    pub(super) fn expr(&mut self, ty: Ty, depth: u32) -> String {
        if depth == 0 || self.rng.chance(30) {
            return self.leaf(ty);
        }
        let d = depth - 1;
        if self.rng.chance(10) {
            return format!(
                "(if {} {{ {} }} else {{ {} }})",
                self.expr(Ty::Bool, d),
                self.expr(ty, d),
                self.expr(ty, d)
            );
        }
        match ty {
            Ty::Bool => self.truth(d),
            Ty::Bytes => match self.below(7) {
                0 => format!("cut(lower({}))", self.expr(ty, d)),
                1 => format!("cut(concat({}, {}))", self.expr(ty, d), self.expr(ty, d)),
                2 => format!("cut(slice({}, u32({}), u32({})))", self.expr(ty, d), self.below(4), self.below(9)),
                3 => format!("cut(text({}))", self.expr(Ty::U32, d)),
                4 => format!("longer({}, {})", self.expr(ty, d), self.expr(ty, d)),
                _ => self.leaf(ty),
            },
            Ty::Text => format!("concat({}, {})", self.expr(Ty::Bytes, d), self.expr(Ty::Bytes, d)),
            Ty::MaybeBytes => format!("some({})", self.expr(Ty::Bytes, d)),
            Ty::MaybeU32 => match self.below(2) {
                0 => format!("find({}, \"a\")", self.expr(Ty::Bytes, d)),
                _ => format!("some({})", self.expr(Ty::U32, d)),
            },
            Ty::MaybeTwo => format!("some({})", self.expr(Ty::Two, d)),
            Ty::Two => match self.below(3) {
                0 => format!("swapped({})", self.expr(ty, d)),
                _ => format!(
                    "Two {{ a: {}, b: {}, n: {} }}",
                    self.expr(Ty::Bytes, d),
                    self.expr(Ty::Bytes, d),
                    self.expr(Ty::U32, d)
                ),
            },
            Ty::Tuple => format!("({}, {})", self.expr(Ty::Bytes, d), self.expr(Ty::Bytes, d)),
            Ty::List => match self.below(3) {
                0 => format!("[{}, {}]", self.expr(Ty::Bytes, d), self.expr(Ty::Bytes, d)),
                1 => {
                    let l = self.leaf(ty);
                    format!("[cut(x) for x in {l} if len(x) > {}]", self.below(3))
                }
                _ => format!("[{}, {}, {}]", self.expr(Ty::Bytes, 0), self.expr(Ty::Bytes, 0), self.expr(Ty::Bytes, 0)),
            },
            Ty::Numbers => {
                let l = self.leaf(ty);
                format!("[x ^ {} for x in {l} if x != {}]", self.expr(Ty::U32, 0), self.below(9))
            }
            Ty::Nest => format!(
                "Nest {{ t: {}, o: {}, l: {}, k: {} }}",
                self.expr(Ty::Two, d),
                self.expr(Ty::MaybeBytes, d),
                self.expr(Ty::List, 0),
                self.expr(Ty::U64, d)
            ),
            Ty::Ip4 => self.leaf(ty),
            _ => self.integer(ty, d),
        }
    }

    pub(super) fn truth(&mut self, d: u32) -> String {
        let ty = self.pick(&[Ty::U8, Ty::U16, Ty::U32, Ty::U64, Ty::I32]);
        match self.below(7) {
            0 => format!("({} and {})", self.expr(Ty::Bool, d), self.expr(Ty::Bool, d)),
            1 => format!("({} or not {})", self.expr(Ty::Bool, d), self.expr(Ty::Bool, d)),
            2 => format!(
                "({} {} {})",
                self.expr(Ty::Bytes, d),
                self.pick(if self.hook { &["==", "!=", "<", "<="] } else { &["==", "!=", "<", "~="] }),
                self.expr(Ty::Bytes, d)
            ),
            3 if !self.hook => format!("(len({}) > {})", self.expr(Ty::List, d), self.below(4)),
            _ => format!(
                "({} {} {})",
                self.expr(ty, d),
                self.pick(&["==", "!=", "<", "<=", ">", ">="]),
                self.expr(ty, d)
            ),
        }
    }

    fn integer(&mut self, ty: Ty, d: u32) -> String {
        match self.below(10) {
            0 => {
                let from = self.pick(&[Ty::U8, Ty::U16, Ty::U32, Ty::U64, Ty::I32]);
                format!("{}({})", ty.text(), self.expr(from, d))
            }
            1 if ty == Ty::U64 => format!("hash({})", self.expr(Ty::Bytes, d)),
            1 if ty == Ty::U32 => format!("({} else {})", self.expr(Ty::MaybeU32, d), self.expr(ty, d)),
            2 if ty == Ty::U32 && !self.hook => {
                format!("(fold {} from u32(1) with |acc, x| acc * u32(31) + x)", self.leaf(Ty::Numbers))
            }
            7 if ty == Ty::U32 && !self.hook => format!("most({})", self.leaf(Ty::Numbers)),
            3 if ty == Ty::U64 => format!("len({})", self.expr(Ty::Bytes, d)),
            4 => format!("({} {} {}({}))", self.expr(ty, d), self.pick(&["<<", ">>"]), "u8", self.below(9)),
            5 => format!("{}({}, {})", self.pick(&["min", "max"]), self.expr(ty, d), self.expr(ty, d)),
            6 if ty != Ty::I32 => {
                format!("({} {} ({} | {}(1)))", self.expr(ty, d), self.pick(&["/", "%"]), self.expr(ty, d), ty.text())
            }
            _ => format!(
                "({} {} {})",
                self.expr(ty, d),
                self.pick(&["+", "-", "*", "^", "&", "|", "+|", "-|"]),
                self.expr(ty, d)
            ),
        }
    }

    /// A key of few values, so that entries are met again.
    pub(super) fn key(&mut self, ty: Ty, limit: u64) -> String {
        match ty {
            Ty::Bytes => {
                if self.rng.chance(50) {
                    self.literal(ty)
                } else {
                    self.leaf(ty)
                }
            }
            Ty::Ip4 => self.leaf(ty),
            _ => format!("({} % {}({limit}))", self.expr(ty, 1), ty.text()),
        }
    }

    /// A value as text and numbers in a log line.
    pub(super) fn shown(&mut self, name: &str, ty: Ty) -> String {
        match ty {
            Ty::Two => format!("{name}.a, \"/\", {name}.b, \"/\", {name}.n"),
            Ty::Nest => format!("{name}.t.a, \"/\", {name}.t.b, \"/\", ({name}.o else \"-\"), \"/\", (fold {name}.l from u64(7) with |acc, x| acc * u64(31) + hash(x))"),
            Ty::MaybeTwo => format!("({name} else Two {{ a: \"no\", b: \"ne\", n: 0 }}).b"),
            Ty::MaybeBytes => format!("({name} else \"none\")"),
            Ty::MaybeU32 => format!("({name} else u32(77))"),
            Ty::List => format!("len({name}), \":\", (fold {name} from u64(7) with |acc, x| acc * u64(31) + hash(x))"),
            Ty::Numbers => format!("(fold {name} from u32(len({name})) with |acc, x| acc * u32(7) + x)"),
            Ty::Tuple => format!("hash({name})"),
            _ => name.to_string(),
        }
    }
}
