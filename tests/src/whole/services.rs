//! Programs of services: a handler of requests that calls servers and answers.

use super::{Kind, Make, Parts, Ty, Var};
use std::fmt::Write;

impl Make {
    pub(super) fn service_program(&mut self) -> Parts {
        let members = self.state_members(Kind::Service);
        let port = format!("{}_in", self.prefix);
        let mut body = format!("    port {port} = listen tcp({}) as chat\n{members}on {port}(req) {{\n", 7000 + self.below(20_000));
        self.service = true;
        let n = 2 + self.below(3);
        self.service_statements(n, &mut body);
        for _ in 0..self.below(4) { self.call(&mut body) }
        self.answer(&mut body);
        body.push_str("}\n");
        Parts { items: String::new(), members: body }
    }

    fn service_statements(&mut self, n: u64, out: &mut String) {
        for _ in 0..n {
            let depth = self.below(3) as u32;
            self.statement(depth, out);
        }
    }

    /// A call, and statements behind it: what they read lies over the suspension.
    fn call(&mut self, out: &mut String) {
        let (a, x) = (self.name("a"), self.name("x"));
        let _ = writeln!(out, "let {a} = call back[{}](req) else {{ reply Say {{ text: {} }}; return }}", self.below(3), self.expr(Ty::Bytes, 1));
        let _ = writeln!(out, "let {x} = cut({a}.text)");
        self.vars.push(Var { name: x, ty: Ty::Bytes, mutable: false });
        let n = 2 + self.below(3);
        self.service_statements(n, out);
        if self.rng.chance(50) { self.log(out) }
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
