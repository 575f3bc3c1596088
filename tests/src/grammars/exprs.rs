//! Expressions over the fields that a unit has read so far.

use super::{Maker, Scope};

impl Maker {
    pub(super) fn int(&mut self, s: &Scope, depth: u32) -> String {
        if depth == 0 || self.rng.chance(30) {
            let i = self.rng.below(s.ints.len() as u64 + 1) as usize;
            return s.ints.get(i).map_or_else(|| self.rng.below(12).to_string(), |(text, _)| text.clone());
        }
        let (a, b) = (self.int(s, depth - 1), self.int(s, depth - 1));
        match self.rng.below(13) {
            0 => format!("({a} + {b})"),
            1 => format!("({a} * {})", self.rng.below(5)),
            2 => format!("({a} - {b})"),
            3 => format!("({a} & {})", self.pick(&[1, 7, 15])),
            4 => format!("({a} ^ {b})"),
            5 => format!("({a} {} {})", self.pick(&["<<", ">>"]), self.rng.below(4)),
            6 => format!("({a} {} {})", self.pick(&["/", "%"]), 1 + self.rng.below(9)),
            7 => format!("{}({a}, {b})", self.pick(&["min", "max"])),
            8 => format!("(if {} {{ {a} }} else {{ {b} }})", self.truth(s, depth - 1)),
            9 => format!("twist(u32({a}), u32({b}))"),
            10 if !s.bytes.is_empty() => format!("len({})", self.some_bytes(s)),
            11 if !s.bytes.is_empty() => {
                format!("(find({}, \"{}\") else {b})", self.some_bytes(s), self.pick(&["a", "x", "1"]))
            }
            12 if !s.options.is_empty() => format!("({} else {a})", self.one(&s.options)),
            _ => format!("u8({a})"),
        }
    }

    pub(super) fn truth(&mut self, s: &Scope, depth: u32) -> String {
        if depth > 0 && self.rng.chance(30) {
            let (a, b) = (self.truth(s, depth - 1), self.truth(s, depth - 1));
            return match self.rng.below(3) {
                0 => format!("({a} and {b})"),
                1 => format!("({a} or {b})"),
                _ => format!("(not {a})"),
            };
        }
        match self.rng.below(8) {
            0 if !s.bools.is_empty() => self.one(&s.bools),
            1 if !s.bytes.is_empty() => format!(
                "({} {} \"{}\")",
                self.some_bytes(s),
                self.pick(&["==", "!=", "~=", "<"]),
                self.pick(&["a", "ab", "GET", "x"])
            ),
            2 if !s.bytes.is_empty() => format!(
                "{}({}, \"{}\")",
                self.pick(&["starts_with", "ends_with", "has_token"]),
                self.some_bytes(s),
                self.pick(&["a", "b", "x"])
            ),
            3 if !s.bytes.is_empty() => format!("all_in({}, {})", self.some_bytes(s), self.pick(&["low", "digit"])),
            4 if !s.options.is_empty() => format!("({} is some(_))", self.one(&s.options)),
            5 => format!("({} in {})", self.int(s, depth.min(1)), self.pick(&["{1, 5, 9}", "0..=20", "3..=255"])),
            _ => format!(
                "({} {} {})",
                self.int(s, depth.min(1)),
                self.pick(&["==", "!=", "<", "<=", ">", ">="]),
                self.int(s, depth.min(1))
            ),
        }
    }

    /// A condition that mostly holds: a message of which all conditions hold must be found by
    /// chance.
    pub(super) fn likely(&mut self, s: &Scope) -> String {
        match self.rng.below(6) {
            0 => self.truth(s, 1),
            1 if !s.bytes.is_empty() => format!("{} != \"{}\"", self.some_bytes(s), self.pick(&["", "a", "GET"])),
            2 if !s.bytes.is_empty() => format!("len({}) < {}", self.some_bytes(s), 8 + self.rng.below(20)),
            _ => format!("{} != {}", self.int(s, 1), self.rng.below(30)),
        }
    }

    fn some_bytes(&mut self, s: &Scope) -> String {
        let text = self.one(&s.bytes);
        match self.rng.below(8) {
            0 => format!("lower({text})"),
            1 => format!("slice({text}, {}, {})", self.rng.below(3), 3 + self.rng.below(5)),
            _ => text,
        }
    }

    pub(super) fn one(&mut self, list: &[String]) -> String {
        list[self.rng.below(list.len() as u64) as usize].clone()
    }

    /// A length that is mostly small: of `most` at most.
    pub(super) fn length(&mut self, s: &Scope, most: u64) -> String {
        if s.ints.is_empty() || self.rng.chance(12) {
            return self.rng.below(most.min(20) + 1).to_string();
        }
        let i = self.rng.below(s.ints.len() as u64) as usize;
        let (text, largest) = s.ints[i].clone();
        match self.rng.below(10) {
            0 => format!("{text} % {}", 1 + most.min(30)),
            1 => format!("min({text}, {most})"),
            2 => format!("{text} & 15"),
            3 => format!("{text} + {}", self.rng.below(4)),
            4 => format!("{text} - {}", self.rng.below(3)),
            5 => self.int(s, 2),
            6 if largest > 255 => format!("u8({text})"),
            _ if largest > 255 => format!("{text} % 40"),
            _ => text,
        }
    }
}
