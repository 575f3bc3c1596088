//! Units that lie in a length, as the parser's code sees them.
//!
//! In: a field with `lies_in`, in front of the tail. Out: code in which the bytes end where the
//! length does. So a part of the unit that needs more faults as soon as those bytes are there. A
//! run of bytes and a number end there, as at the end of a connection.

use crate::names;
use crate::parser::{line, Limit, Parser};
use crate::scope::Inst;
use wireloom_ir::*;

impl Parser<'_, '_> {
    /// Code for lengths: a part of the view, and what stands where the parser is entered, where a
    /// message begins, and where bytes are missing.
    pub fn limit_code(&self) -> [&'static str; 4] {
        if !self.has_limits {
            return [""; 4];
        }
        [
            "uint32_t limit, limit_start, limit_place;\n",
            "const uint32_t all = end;\nconst int last = eof;\nif (v->p.pc && v->limit <= end) { end = v->limit; eof = 1; }\n",
            "v->limit = UINT32_MAX;\n",
            "if (v->limit <= all) LIMIT()\n",
        ]
    }

    /// Whether a literal is next: 1, 0, or -1 if more bytes decide.
    pub fn matched(&self, at: &str, literal: &[u8]) -> String {
        let (text, n) = (names::literal(literal), literal.len());
        match self.limit {
            None => format!("wl_match(p + {at}, end - {at}, {text}, {n})"),
            Some(_) => format!("wl_match_last(p + {at}, end - {at}, {text}, {n}, v->limit <= all)"),
        }
    }

    /// A unit that lies in a length. Behind it no bytes are seen; a part that needs more faults at
    /// `more`.
    pub fn nested_within(&mut self, inst: &Inst, field: &Field, length: &Expr, nested: (UnitId, &[Expr], &str)) {
        let s = self.scope(inst);
        let text = self.expr(&s, length);
        line!(self, "{{ uint64_t n_ = {text};");
        self.check(length);
        line!(self, "n_ = n_ < UINT32_MAX - pos ? pos + n_ : UINT32_MAX;");
        let around = self.limit.clone();
        let outer = around.as_ref().map(|_| (self.slot("uint32_t"), self.slot("uint32_t")));
        if let Some((end, start)) = &outer {
            line!(self, "if (n_ > v->limit) LIMIT()");
            line!(self, "{end} = v->limit;\n{start} = v->limit_start;");
        }
        let place = field.place;
        line!(self, "v->limit = (uint32_t)n_;\nv->limit_start = pos;\nv->limit_place = {};", place.0);
        line!(self, "if (v->limit <= end) {{ end = v->limit; eof = 1; }} }}");
        (self.limit, self.ensured, self.has_limits) = (Some(Limit { place, outer }), 0, true);
        let (unit, args, at) = nested;
        self.nested(inst, unit, args, at);
        self.leave_limit(around);
    }

    fn leave_limit(&mut self, around: Option<Limit>) {
        let left = std::mem::replace(&mut self.limit, around);
        self.ensured = 0;
        line!(self, "end = all;\neof = last;");
        match (left.and_then(|l| l.outer), &self.limit) {
            (Some((end, start)), Some(Limit { place, .. })) => {
                line!(self, "v->limit = {end};\nv->limit_start = {start};\nv->limit_place = {};", place.0);
                line!(self, "if (v->limit <= end) {{ end = v->limit; eof = 1; }}");
            }
            _ => line!(self, "v->limit = UINT32_MAX;"),
        }
    }

    /// The unit of the message.
    pub fn message_body(&mut self, inst: &Inst) {
        let unit = self.g.m.unit(inst.unit);
        self.note_start(inst);
        let (head, tail) = unit.body.split_at(unit.body.len().min(unit.tail as usize));
        self.in_front = true;
        self.fields(inst, head);
        self.in_front = false;
        self.fields(inst, tail);
    }
}
