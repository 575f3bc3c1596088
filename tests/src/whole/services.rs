//! Programs of services: a handler of requests that calls servers and answers.

use super::{Kind, Make, Parts, Ty, Var};
use std::fmt::Write;

impl Make {
    pub(super) fn service_program(&mut self) -> Parts {
        let members = self.state_members(Kind::Service);
        let port = format!("{}_in", self.prefix);
        let mut body = format!("    port {port} = listen tcp({}) as chat\n{members}", 7000 + self.below(20_000));
        if self.rng.chance(15) {
            let (tee, last) = (self.pick(&["", "tee(back[2]) -> "]), self.below(3));
            let n = self.below(9);
            let _ = writeln!(body, "{port} -> match {{ .n > {n} => steer back by .data, any(.op == \"op\", not .n > 7) => {tee}back[0], else => back[{last}] }}");
            return Parts { members: body, ..Parts::default() };
        }
        if self.rng.chance(20) {
            let mut items = String::new();
            self.service_elements(&port, &mut items, &mut body);
            return Parts { items, members: body, ..Parts::default() };
        }
        let _ = writeln!(body, "on {port}(req) {{");
        self.service = true;
        let n = 2 + self.below(3);
        self.service_statements(n, &mut body);
        for _ in 0..self.below(5) {
            self.step(2, &mut body)
        }
        self.answer(&mut body);
        body.push_str("}\n");
        Parts { members: body, ..Parts::default() }
    }

    /// Elements that send on by several ways, which come together again.
    fn service_elements(&mut self, port: &str, items: &mut String, members: &mut String) {
        let (n, prefix) = (2 + self.below(14), self.prefix.clone());
        let _ = writeln!(members, "{port} -> {prefix}_g0 // service elements");
        for k in 0..n {
            let (a, b) = (self.below(4), 2 + self.below(3));
            let body = match self.below(7) {
                0 => "r -> y".to_string(),
                1 | 2 => format!("if r.n % {b} == {a} {{ r -> y }} else {{ r -> z }}"),
                3 => format!("match (r.n + s) % 3 {{ 0 => r -> y, 1 => {{ s += {a}  r -> z }}, _ => r -> y }}"),
                4 => format!("if s % 5 == {a} {{ reply Say {{ text: \"at {k}\" }} }} else {{ r -> y }}"),
                5 => format!("if r.op == \"op\" {{ r -> z return }}\ns += {b}\nr -> y"),
                _ => format!("if r.n > {a} {{ s += {b} }}\nif s > 7 {{ if r.n % 2 == 0 {{ r -> y }} else {{ r -> z }} }} else {{ r -> y }}"),
            };
            let outs: &[&str] = if body.contains("-> z") { &["y", "z"] } else { &["y"] };
            let said = if self.rng.chance(50) { format!("log \"g{k} \", s, r.n\n") } else { String::new() };
            let declared: String = outs.iter().map(|o| format!(" out {o}: Ask\n")).collect();
            let _ = writeln!(
                items,
                "element {prefix}_G{k} {{\n in x: Ask\n{declared} state s: u32\n counter seen\n on x(r) {{\nseen += 1\ns = s * 3 + r.n\n{said}{body}\n}}\n}}"
            );
            let _ = writeln!(members, "{prefix}_g{k} = {prefix}_G{k}()");
            for out in outs {
                let later = k + 1 + self.below(3);
                let filter = self.pick(&["", "", "", "where .n != 3 -> "]);
                let _ = match later < n {
                    true => writeln!(members, "{prefix}_g{k}.{out} -> {filter}{prefix}_g{later}"),
                    false => writeln!(members, "{prefix}_g{k}.{out} -> {filter}back[{}]", self.below(3)),
                };
            }
        }
    }

    fn service_statements(&mut self, n: u64, out: &mut String) {
        for _ in 0..n {
            let depth = self.below(3) as u32;
            self.statement(depth, out);
        }
    }

    /// A statement with a call, perhaps inside of branches and loops. Values read behind it live
    /// across the suspension.
    fn step(&mut self, depth: u32, out: &mut String) {
        let way = self.below(if depth == 0 { 6 } else { 10 });
        match way {
            0..=3 => self.call(out),
            4 => self.call_all(out),
            5 => self.call_for(out),
            6 | 7 => {
                let _ = writeln!(out, "if {} {{ // branch", self.truth(1));
                self.steps(depth - 1, out);
                if self.rng.chance(50) {
                    let _ = writeln!(out, "}} else {{");
                    self.steps(depth - 1, out);
                }
                let _ = writeln!(out, "}}");
            }
            8 => {
                let i = self.name("i");
                let _ = writeln!(out, "for {i} in 0..{} {{ // loop", 1 + self.below(3));
                self.vars.push(Var { name: i, ty: Ty::U32, mutable: false });
                self.steps(depth - 1, out);
                if self.rng.chance(30) {
                    let _ = writeln!(
                        out,
                        "if {} {{ {} }}",
                        self.truth(1),
                        if self.rng.chance(50) { "break" } else { "continue" }
                    );
                }
                let _ = writeln!(out, "}}");
                self.vars.pop();
            }
            _ => {
                let _ = writeln!(out, "match {} {{ // match", self.expr(Ty::U8, 1));
                for arm in ["0 | 7", "1..=9", "_"] {
                    let _ = writeln!(out, "{arm} => {{");
                    self.steps(depth - 1, out);
                    let _ = writeln!(out, "}}");
                }
                let _ = writeln!(out, "}}");
            }
        }
    }

    /// Steps and statements of a scope of their own.
    fn steps(&mut self, depth: u32, out: &mut String) {
        let vars = self.vars.len();
        let n = self.below(2);
        self.service_statements(n, out);
        self.step(depth, out);
        if self.rng.chance(30) {
            self.leave(out)
        }
        self.vars.truncate(vars);
    }

    /// A way out in the middle: an answer, or a fault.
    fn leave(&mut self, out: &mut String) {
        let what = if self.rng.chance(60) {
            format!("reply Say {{ text: {} }} return", self.expr(Ty::Bytes, 1))
        } else {
            "fault mine".into()
        };
        let _ = writeln!(out, "if {} {{ {what} }}", self.truth(1));
    }

    /// A call, and statements behind it.
    fn call(&mut self, out: &mut String) {
        let (a, x) = (self.name("a"), self.name("x"));
        let request = match self.below(6) {
            // An edit of the fields that its protocol's clauses read.
            5 => format!("req with {{ op: \"{}\", n: {} }}", self.pick(&["hush", "op"]), self.expr(Ty::U32, 1)),
            0 => format!("req with {{ data: {} }}", self.expr(Ty::Bytes, 0)),
            1 => format!("Ask {{ op: \"op\", n: {}, data: {} }}", self.expr(Ty::U32, 1), self.literal_word()),
            _ => "req".into(),
        };
        let within = if self.rng.chance(30) { " within 50ms" } else { "" };
        let _ = writeln!(
            out,
            "let {a} = call back[{}]({request}){within} else {{ reply Say {{ text: {} }}; return }}",
            self.below(3),
            self.expr(Ty::Bytes, 1)
        );
        let _ = writeln!(out, "let {x} = cut({a}.text)");
        if self.rng.chance(15) {
            let _ = writeln!(out, "if {} {{ reply {a} with {{ text: upper({a}.text) }} return }}", self.truth(1));
        }
        self.vars.push(Var { name: x, ty: Ty::Bytes, mutable: false });
        let n = 2 + self.below(3);
        self.service_statements(n, out);
        if self.rng.chance(50) {
            self.log(out)
        }
    }

    /// Bytes without blanks and ends of lines, as the receiver takes them.
    fn literal_word(&mut self) -> String {
        format!("\"{}\"", self.pick(&["", "a", "Bc", "x,y"]))
    }

    fn call_all(&mut self, out: &mut String) {
        let (parts, x) = (self.name("l"), self.name("v"));
        let _ = writeln!(out, "let {parts} = call all back(req) else {{ reply Say {{ text: \"not all\" }}; return }}");
        let _ = writeln!(out, "let {x} = fold {parts} from u64(3) with |n, p| n * u64(31) + hash(p.text)");
        self.vars.push(Var { name: x, ty: Ty::U64, mutable: false });
        self.service_statements(2, out);
    }

    fn call_for(&mut self, out: &mut String) {
        let (parts, x, numbers) = (self.name("l"), self.name("v"), self.expr(Ty::Numbers, 1));
        let _ = writeln!(out, "let {parts} = call all for k in {numbers} => back[k % 3](Ask {{ op: \"k\", n: k, data: {} }}) else {{ fault mine }}", self.literal_word());
        let _ = writeln!(out, "let {x} = fold {parts} from u64(5) with |n, p| n * u64(31) + hash(p.text)");
        self.vars.push(Var { name: x, ty: Ty::U64, mutable: false });
        self.service_statements(2, out);
    }

    fn answer(&mut self, out: &mut String) {
        let line = |m: &mut Make| format!("Say {{ text: text(hash({})) }}", m.expr(Ty::Bytes, 2));
        let _ = match self.below(4) {
            0 => writeln!(out, "if {} {{ reply {} }} else {{ reply {} }}", self.truth(1), line(self), line(self)),
            1 => writeln!(out, "reply call back[{}](req) else {}", self.below(3), line(self)),
            _ => writeln!(out, "reply {}", line(self)),
        };
    }
}
