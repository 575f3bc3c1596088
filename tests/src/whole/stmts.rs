//! Statements: nested control flow, assignments, tables.

use super::{Make, Table, TableKind, Ty, Var};
use std::fmt::Write;

impl Make {
    /// Statements of a scope of their own.
    pub(super) fn block(&mut self, n: u64, depth: u32, out: &mut String) {
        let (vars, headers) = (self.vars.len(), self.headers.clone());
        for _ in 0..n {
            self.statement(depth, out)
        }
        self.vars.truncate(vars);
        // A header that was removed inside is gone outside, too.
        let now = std::mem::take(&mut self.headers);
        self.headers = headers.into_iter().filter(|h| now.contains(h)).collect();
    }

    pub(super) fn statement(&mut self, depth: u32, out: &mut String) {
        match self.below(if depth == 0 { 11 } else { 17 }) {
            0 | 1 => self.bind(out),
            2..=4 => self.assign(out),
            5 | 6 => self.table_statement(depth, out),
            7 => self.log(out),
            8 if !self.counters.is_empty() => {
                let c = self.counters[0].clone();
                let _ = writeln!(out, "{c} += {}", self.expr(Ty::U8, 1));
            }
            8..=10 if self.packet => self.packet_statement(depth, out),
            8..=10 => self.assign(out),
            11 | 12 => self.branch(depth, out),
            13 => self.for_range(depth, out),
            14 if !self.hook => self.for_list(depth, out),
            14 => self.for_range(depth, out),
            15 => self.rounds(depth, out),
            _ => self.match_(depth, out),
        }
    }

    fn bind(&mut self, out: &mut String) {
        if self.rng.chance(15) {
            let (a, b) = (self.name("x"), self.name("x"));
            let _ = writeln!(out, "let ({a}, {b}) = {}", self.expr(Ty::Tuple, 2));
            self.vars.extend([a, b].map(|name| Var { name, ty: Ty::Bytes, mutable: false }));
            return;
        }
        let (name, ty, mutable) = (self.name("v"), self.local_type(), self.rng.chance(50));
        let value = self.expr(ty, 2);
        let _ = writeln!(out, "{} {name}: {} = {value}", if mutable { "var" } else { "let" }, ty.text());
        self.vars.push(Var { name, ty, mutable });
    }

    fn assign(&mut self, out: &mut String) {
        let all: Vec<Var> = self.states.iter().chain(self.vars.iter().filter(|v| v.mutable)).cloned().collect();
        if all.is_empty() {
            return;
        }
        let v = all[self.below(all.len() as u64) as usize].clone();
        let n = &v.name;
        // From its own parts, every other time.
        let own = self.rng.chance(50);
        let text = match (v.ty, self.below(4)) {
            (Ty::Two, 0) if own => format!("{n} = Two {{ a: {n}.b, b: {n}.a, n: {n}.n }}"),
            (Ty::Two, 1) if own => format!("{n}.a = cut(concat({n}.b, {n}.a))"),
            (Ty::Two, 2) if own => format!("{n}.b = {n}.a"),
            (Ty::Two, _) if own => format!("{n} = swapped({n})"),
            (Ty::Two, 0) => format!("{n}.a = {}", self.expr(Ty::Bytes, 2)),
            (Ty::Nest, 0) if own => format!("{n} = Nest {{ t: Two {{ a: {n}.t.b, b: {n}.o else {n}.t.a, n: 1 }}, o: some({n}.t.a), l: {n}.l, k: {n}.k }}"),
            (Ty::Nest, 1) if own => format!("{n}.t = swapped({n}.t)"),
            (Ty::Nest, 2) if own => format!("{n}.o = some({n}.t.b)"),
            (Ty::Nest, _) if own => format!("{n}.l = [cut(x) for x in {n}.l if x != {n}.t.a]"),
            (Ty::List, 0 | 1) if own => format!("if len({n}) > 2 {{ {n} = [{n}[2], {n}[0], {n}[1]] }}"),
            (Ty::List, _) if own => format!("{n} = [x for x in {n} if len(x) > 1]"),
            (Ty::MaybeTwo, _) if own => { let x = self.name("y"); format!("if let {x} = {n} {{ {n} = some(Two {{ a: {x}.b, b: {x}.a, n: {x}.n }}) }}") }
            (Ty::Tuple, _) if own => { let (a, b) = (self.name("y"), self.name("y")); format!("let ({a}, {b}) = {n}\n{n} = ({b}, {a})") }
            (Ty::Bytes, _) if own => format!("{n} = slice({n}, u32(1), u32(9))"),
            (Ty::U8 | Ty::U16 | Ty::U32 | Ty::U64, 0 | 1) => format!("{n} += {}", self.expr(v.ty, 1)),
            _ => format!("{n} = {}", self.expr(v.ty, 2)),
        };
        let _ = writeln!(out, "{text}");
    }

    pub(super) fn log(&mut self, out: &mut String) {
        let all: Vec<Var> = self.vars.iter().chain(&self.states).cloned().collect();
        if all.is_empty() {
            return;
        }
        let v = all[self.below(all.len() as u64) as usize].clone();
        let shown = self.shown(&v.name, v.ty);
        let _ = writeln!(out, "log \"{} \", {shown}", v.name);
    }

    fn branch(&mut self, depth: u32, out: &mut String) {
        let _ = match self.below(4) {
            0 => {
                let (x, o) = (self.name("o"), self.leaf_option());
                let _ = writeln!(out, "if let {x} = {} {{", o.0);
                self.vars.push(Var { name: x, ty: o.1, mutable: false });
                self.block(2, depth - 1, out);
                self.vars.pop();
                writeln!(out, "}}")
            }
            _ => {
                let _ = writeln!(out, "if {} {{", self.truth(1));
                self.block(2, depth - 1, out);
                if self.rng.chance(60) {
                    let _ = writeln!(out, "}} else {{");
                    self.block(2, depth - 1, out);
                }
                writeln!(out, "}}")
            }
        };
    }

    fn leaf_option(&mut self) -> (String, Ty) {
        match self.below(3) {
            0 => (self.expr(Ty::MaybeBytes, 1), Ty::Bytes),
            1 => (self.expr(Ty::MaybeTwo, 1), Ty::Two),
            _ => (self.expr(Ty::MaybeU32, 1), Ty::U32),
        }
    }

    fn for_range(&mut self, depth: u32, out: &mut String) {
        let i = self.name("i");
        let to = if self.rng.chance(40) {
            format!("min({}, 4)", self.expr(Ty::U32, 1))
        } else {
            (1 + self.below(4)).to_string()
        };
        let _ = writeln!(out, "for {i} in 0..{to} {{");
        self.vars.push(Var { name: i, ty: Ty::U32, mutable: false });
        self.loop_block(depth, out);
        self.vars.pop();
    }

    fn for_list(&mut self, depth: u32, out: &mut String) {
        let (x, l) = (self.name("e"), self.expr(Ty::List, 0));
        let _ = writeln!(out, "for {x} in {l} {{");
        self.vars.push(Var { name: x, ty: Ty::Bytes, mutable: false });
        self.loop_block(depth, out);
        self.vars.pop();
    }

    fn rounds(&mut self, depth: u32, out: &mut String) {
        let _ = writeln!(out, "loop max {} {{", 1 + self.below(4));
        self.loop_block(depth, out);
    }

    fn loop_block(&mut self, depth: u32, out: &mut String) {
        self.loops += 1;
        let (headers, vars) = (self.headers.clone(), self.vars.len());
        self.block(2, depth - 1, out);
        // In the second round, headers removed by the first are gone: such programs are left to the
        // checker.
        self.headers.retain(|h| headers.contains(h));
        if self.rng.chance(40) {
            let _ =
                writeln!(out, "if {} {{ {} }}", self.truth(1), if self.rng.chance(70) { "break" } else { "continue" });
            if self.rng.chance(50) {
                self.statement(0, out)
            }
        }
        self.vars.truncate(vars);
        self.loops -= 1;
        let _ = writeln!(out, "}}");
    }

    fn match_(&mut self, depth: u32, out: &mut String) {
        let _ = writeln!(out, "match {} {{", self.expr(Ty::U8, 1));
        for arm in ["0", "1..=9 | 31", "x if x % 2 == 0", "_"] {
            let _ = writeln!(out, "{arm} => {{");
            self.block(1, depth - 1, out);
            let _ = writeln!(out, "}}");
        }
        let _ = writeln!(out, "}}");
    }

    fn table_statement(&mut self, depth: u32, out: &mut String) {
        if self.tables.is_empty() || self.held {
            return self.assign(out);
        }
        let i = self.below(self.tables.len() as u64) as usize;
        let t = self.tables[i].clone();
        let n = t.name.clone();
        let limit = self.pick(&[2, 5, 12]);
        let key = self.key(t.key, limit);
        if self.hook && self.hook_table_statement(&t, &key, depth, out) {
            return;
        }
        let _ = match t.kind {
            TableKind::Exact | TableKind::Array | TableKind::Sums => return self.entries(&t, &key, depth, out),
            TableKind::Ring => return self.ring(&t, out),
            TableKind::Bloom => match self.below(2) {
                0 => writeln!(out, "{n}[{key}] = true"),
                _ => writeln!(out, "if {n}[{key}] {{ log \"{n}\" }}"),
            },
            TableKind::CountMin => match self.below(2) {
                0 => writeln!(out, "{n}[{key}] += {}", self.expr(Ty::U64, 1)),
                _ => writeln!(out, "log \"{n}\", {n}[{key}]"),
            },
            TableKind::HyperLogLog => match self.below(2) {
                0 => writeln!(out, "{n}.add({key})"),
                _ => writeln!(out, "log \"{n}\", {n}.estimate()"),
            },
            TableKind::Wildcard => match self.below(4) {
                // Entries of one priority have one mask: of two that match, either might be found.
                way @ (0 | 1) => {
                    let (mask, priority) = self.pick(&[(7, 1), (3, 2), (15, 3), (0, 0)]);
                    match way {
                        0 => writeln!(
                            out,
                            "if len({n}) < 7 {{ {n}.insert({key}, u32({mask}), u32({priority}), {}) }}",
                            self.expr(t.value, 1)
                        ),
                        _ => writeln!(out, "{n}.delete({key}, u32({mask}), u32({priority}))"),
                    }
                }
                _ => return self.found(&t, &key, depth, out),
            },
            TableKind::Lpm => {
                let bits = self.pick(&[8, 24, 30, 32]);
                match self.below(4) {
                    0 => writeln!(
                        out,
                        "if len({n}) < 7 {{ {n}.insert(prefix({key}, {bits}), {}) }}",
                        self.expr(t.value, 1)
                    ),
                    1 => writeln!(out, "{n}.delete(prefix({key}, {bits}))"),
                    _ => return self.found(&t, &key, depth, out),
                }
            }
        };
    }

    /// Reads the parts of an entry.
    pub(super) fn found(&mut self, t: &Table, key: &str, depth: u32, out: &mut String) {
        let x = self.name("w");
        // An option in a table would be an option of an option.
        if matches!(t.value, Ty::MaybeBytes | Ty::MaybeU32 | Ty::MaybeTwo) {
            let _ = writeln!(out, "log \"{}\", {key} in {}", t.name, t.name);
            return;
        }
        let _ = writeln!(out, "if let {x} = {}[{key}] {{", t.name);
        self.vars.push(Var { name: x.clone(), ty: t.value, mutable: false });
        self.block(2, depth.saturating_sub(1), out);
        let shown = self.shown(&x, t.value);
        let _ = writeln!(out, "log \"{x} \", {shown}\n}}");
        self.vars.pop();
    }

    fn entries(&mut self, t: &Table, key: &str, depth: u32, out: &mut String) {
        let n = &t.name;
        let _ = match self.below(8) {
            0 | 1 => writeln!(out, "{n}[{key}] = {}", self.expr(t.value, 2)),
            2 if matches!(t.value, Ty::U8 | Ty::U16 | Ty::U32 | Ty::U64) => {
                writeln!(out, "{n}[{key}] += {}", self.expr(t.value, 1))
            }
            3 if matches!(t.kind, TableKind::Exact) => writeln!(out, "remove {n}[{key}]"),
            4 if !self.hook => writeln!(out, "log \"{n} \", len({n})"),
            5 | 6 if matches!(t.value, Ty::Two | Ty::Nest) && !self.beside => return self.update(t, key, out),
            _ => return self.found(t, key, depth, out),
        };
    }

    fn update(&mut self, t: &Table, key: &str, out: &mut String) {
        self.held = true;
        let packet = std::mem::replace(&mut self.packet, false);
        let _ = writeln!(out, "update {}[{key}] {{", t.name);
        for _ in 0..1 + self.below(3) {
            let _ = match (t.value, self.below(5)) {
                (Ty::Two, 0) => {
                    let x = self.name("u");
                    writeln!(out, "let {x} = .a\n.a = .b\n.b = {x}")
                }
                (Ty::Two, 1) => writeln!(out, ".b = cut(concat(.a, {}))", self.expr(Ty::Bytes, 1)),
                (Ty::Two, 2) => writeln!(out, "if .n > {} {{ .a = .b }} else {{ .n += 1 }}", self.expr(Ty::U32, 1)),
                (Ty::Two, _) => writeln!(out, ".a = {}\n.n = {}", self.expr(Ty::Bytes, 1), self.expr(Ty::U32, 1)),
                (_, 0) => writeln!(out, ".t = swapped(.t)\n.k += 1"),
                (_, 1) => writeln!(out, ".o = some(.t.a)\n.t.a = .t.b"),
                (_, 2) => writeln!(out, ".l = [cut(x) for x in .l if x != .t.a]"),
                _ => writeln!(out, ".l = {}\n.t = {}", self.expr(Ty::List, 1), self.expr(Ty::Two, 1)),
            };
            if self.rng.chance(30) {
                self.assign(out)
            }
        }
        let _ = writeln!(out, "}}");
        (self.held, self.packet) = (false, packet);
    }

    fn ring(&mut self, t: &Table, out: &mut String) {
        let n = &t.name;
        let option = matches!(t.value, Ty::MaybeBytes | Ty::MaybeU32 | Ty::MaybeTwo);
        let x = self.name("r");
        let how = match self.below(6) {
            0..=2 => {
                let _ = writeln!(out, "{n}.push({})", self.expr(t.value, 2));
                return;
            }
            3 => "pop()".to_string(),
            4 => "peek()".to_string(),
            _ => String::new(),
        };
        let taken = if how.is_empty() { format!("{n}[{}]", self.below(4)) } else { format!("{n}.{how}") };
        if option {
            let _ = writeln!(out, "log \"{n} \", len({n})");
            return;
        }
        let _ = writeln!(out, "if let {x} = {taken} {{");
        self.vars.push(Var { name: x.clone(), ty: t.value, mutable: false });
        if self.rng.chance(60) {
            let _ = writeln!(out, "{n}.push({})", self.expr(t.value, 1));
        }
        self.block(1, 0, out);
        let shown = self.shown(&x, t.value);
        let _ = writeln!(out, "log \"{x} \", {shown}\n}}");
        self.vars.pop();
    }
}
