//! One field after the other.

use super::{FieldPlace, Maker, Scope};
use std::fmt::Write;

impl Maker {
    /// Writes a field, or a few that belong together, and brings their values into scope.
    pub(super) fn field(&mut self, s: &mut Scope, out: &mut String, place: FieldPlace, depth: u32) {
        let known = s.bytes.len();
        let at = out.len();
        self.any_field(s, out, place, depth);
        let computes = ["let ", "require "].iter().any(|w| out[at..].trim_start().starts_with(w));
        // Bytes that may have been given away are mostly not asked for.
        if self.flown && !computes && self.rng.chance(90) {
            s.bytes.drain(..known.min(s.bytes.len()));
            s.ints.retain(|(text, _)| !text.contains("count("));
        }
    }

    fn any_field(&mut self, s: &mut Scope, out: &mut String, place: FieldPlace, depth: u32) {
        if place == (FieldPlace::Message { last: true }) && self.rng.chance(25) {
            return self.last_field(s, out, place);
        }
        let may_flow =
            self.streams && matches!(place, FieldPlace::Message { .. } | FieldPlace::Case | FieldPlace::Part);
        match self.rng.below(100) {
            0..=11 => self.integer(s, out, place),
            12..=15 => self.bit_fields(s, out, place),
            16..=18 => self.literal(out),
            19..=21 => {
                self.note("flag");
                let name = self.fresh();
                let _ = writeln!(out, "    {name}: flag \"{}\"", self.pick(&["!", "yes", "ab"]));
                self.add_bool(s, place, name);
            }
            22..=28 => self.text_number(s, out, place),
            29..=31 => {
                self.note("varint");
                let name = self.fresh();
                let _ =
                    writeln!(out, "    {name}: varint<{}>{}", self.pick(&["u8", "u16", "u32", "u64"]), self.within());
                self.add_int(s, place, name, u64::MAX);
            }
            32..=50 => self.bytes(s, out, place),
            51..=54 => self.measured(s, out, place),
            55..=56 => self.text_enum(s, out, place),
            57..=61 if depth > 0 => self.nested(s, out, place, depth),
            62..=66 if depth > 0 => self.list(s, out, place, depth),
            67..=74 if depth > 0 => self.switch(s, out, place, depth),
            75..=80 => self.let_(s, out, place),
            81..=85 => {
                self.note("require");
                let cond = self.likely(s);
                let _ = writeln!(out, "    require {cond}{}", self.or_fault());
            }
            86..=88 => {
                let how =
                    if self.rng.chance(50) { "until \"\\n\"".to_string() } else { format!("[{}]", self.length(s, 30)) };
                self.note(if how.starts_with('u') { "recover until" } else { "recover length" });
                let _ = writeln!(out, "    recover {how}");
            }
            89..=90 => {
                self.note("skip");
                let _ = writeln!(out, "    _: skip {}", 1 + self.rng.below(5));
            }
            91..=92 => {
                self.note("pad");
                let _ = writeln!(out, "    _: pad {}", self.pick(&[2, 4, 8]));
            }
            93 => {
                self.note("order");
                let _ = writeln!(out, "    order {}", self.pick(&["little", "big"]));
            }
            _ if may_flow && depth > 0 => self.stream(s, out),
            _ => self.integer(s, out, place),
        }
    }

    /// A field that can only stand at the end.
    fn last_field(&mut self, s: &mut Scope, out: &mut String, place: FieldPlace) {
        let name = self.fresh();
        match self.rng.below(4) {
            0 | 3 if self.streams => {
                self.note("stream until close");
                let _ = writeln!(out, "    {name}: stream bytes until close");
            }
            1 => {
                self.note("list to end");
                let _ = writeln!(
                    out,
                    "    {name}: list<{}, {}> to end",
                    self.pick(&["u16", "u8", "varint<u32>"]),
                    4 + self.rng.below(20)
                );
                self.add_int(s, place, format!("{name}.count(|x| x > 3)"), 30);
            }
            _ => {
                self.note("bytes to end");
                let max = if self.long { "100KiB" } else { "60" };
                let of = self.pick(&["", "", " of no_line", " trim blank"]);
                let _ = writeln!(out, "    {name}: bytes<{max}>{of} to end");
                self.add_bytes(s, place, name);
            }
        }
    }

    pub(super) fn or_fault(&mut self) -> &'static str {
        self.pick(&["", " else wrong_a", " else wrong_b"])
    }

    fn within(&mut self) -> &'static str {
        self.pick(&["", "", "", " in 0..=30", " in {1, 2, 3, 10}", " in 2..=200"])
    }

    fn integer(&mut self, s: &mut Scope, out: &mut String, place: FieldPlace) {
        let name = self.fresh();
        let ty = self.pick(&[
            "u8", "u8", "u8", "u16", "u24", "u32", "u40", "u48", "u56", "u64", "i8", "i16", "i32", "i64", "Kind",
            "Letter", "Wide", "ip4", "mac",
        ]);
        let order = match ty {
            "u8" | "i8" | "Kind" | "Letter" => "",
            _ => self.pick(&["", "", " little", " big"]),
        };
        let plain = ty.starts_with('u');
        let within = if plain { self.within() } else { "" };
        self.note(match (ty.as_bytes()[0], order) {
            (_, " little") => "little endian",
            (b'u', _) => "unsigned",
            (b'i', _) => "signed",
            (b'K' | b'L' | b'W', _) => "enum",
            _ => "address",
        });
        let _ = writeln!(out, "    {name}: {ty}{order}{within}");
        match ty {
            "mac" | "ip4" => {}
            "Kind" | "Letter" | "Wide" => {
                self.add_int(s, place, name.clone(), 255);
                if let Some(seen) = self.seen.ints.last_mut().filter(|(text, _)| *text == format!("req.{name}")) {
                    seen.0 = if ty == "Wide" { format!("u16(req.{name})") } else { format!("u8(req.{name})") };
                }
                s.ints.pop();
                s.ints.push((if ty == "Wide" { format!("u16({name})") } else { format!("u8({name})") }, 255));
            }
            _ if plain => self.add_int(s, place, name, if ty == "u8" { 255 } else { u64::MAX }),
            _ => {
                s.bools.push(format!("({name} < 0)"));
                if matches!(place, FieldPlace::Message { .. }) && !self.flown {
                    self.seen.bools.push(format!("req.{name} < 0"));
                }
            }
        }
    }

    fn bit_fields(&mut self, s: &mut Scope, out: &mut String, place: FieldPlace) {
        self.note("bit fields");
        let whole = self.pick(&[8, 8, 16, 24, 32, 64]);
        let order = self.pick(&["", "", "    order little\n", "    order big\n"]);
        out.push_str(order);
        let mut left = whole;
        while left > 0 {
            let mut n = 1 + self.rng.below(left.min(13));
            // A width of whole bytes at the beginning would be no part of a group.
            if left == whole && n.is_multiple_of(8) {
                n -= 1;
            }
            left -= n;
            let (name, sign) = (self.fresh(), if n > 1 && self.rng.chance(15) { 'i' } else { 'u' });
            let sign = if matches!(n, 8 | 16 | 32 | 64) || sign == 'u' { sign } else { 'u' };
            let _ = writeln!(out, "    {name}: {sign}{n}");
            if sign == 'u' {
                self.add_int(s, place, name, (1 << n) - 1);
            }
        }
    }

    fn literal(&mut self, out: &mut String) {
        self.note("literal");
        let text =
            self.pick(&["\"ab\"", "\"\\r\\n\" or \"\\n\"", "\";\"", "\"\\0\\xff\"", "\"abc\" or \"abd\" or \"x\""]);
        let _ = writeln!(out, "    {text}{}", self.or_fault());
    }

    fn text_number(&mut self, s: &mut Scope, out: &mut String, place: FieldPlace) {
        let name = self.fresh();
        let radix = self.pick(&["decimal", "hex"]);
        let ty = self.pick(&["u8", "u16", "u32", "u64", "i16", "i64"]);
        let (size, end) = match self.rng.below(5) {
            0 => ("", " until \" \""),
            1 => ("", " until \"\\r\\n\" or \"\\n\""),
            2 => (", 2", ""),
            3 => (", 3", " until \",\""),
            _ => ("", ""),
        };
        self.note(match (ty.starts_with('i'), radix, end) {
            (true, ..) => "signed number as text",
            (_, "hex", _) => "hex",
            (_, _, "") => "decimal",
            _ => "decimal until",
        });
        let within = if ty.starts_with('i') { "" } else { self.within() };
        let _ = writeln!(out, "    {name}: {radix}<{ty}{size}>{end}{within}");
        // A number that ends at the first byte that is no digit is followed by such a byte.
        if size.is_empty() && end.is_empty() {
            let _ = writeln!(out, "    \"{}\"", self.pick(&[";", "\\n", " "]));
        }
        if ty.starts_with('u') {
            self.add_int(s, place, name, u64::MAX);
        } else {
            s.bools.push(format!("({name} < 5)"));
        }
    }

    /// `let` of a number, a bool, an option or bytes.
    fn let_(&mut self, s: &mut Scope, out: &mut String, place: FieldPlace) {
        let name = self.fresh();
        let option = s.options.is_empty() && self.rng.chance(40);
        match if option { 2 } else { self.rng.below(8) } {
            0 | 1 if !s.bytes.is_empty() => {
                self.note("let of bytes");
                let of = self.one(&s.bytes);
                let value = if self.rng.chance(50) {
                    of
                } else {
                    format!("slice({of}, {}, {})", self.rng.below(3), 2 + self.rng.below(6))
                };
                let _ = writeln!(out, "    let {name} = {value}");
                self.add_bytes(s, place, name);
            }
            2 | 3 if !s.bytes.is_empty() => {
                self.note("let of an option");
                let of = self.one(&s.bytes);
                let _ = writeln!(
                    out,
                    "    let {name} = {}",
                    if self.rng.chance(50) { format!("find({of}, \"a\")") } else { format!("u32({of})") }
                );
                s.options.push(name);
            }
            4 | 5 => {
                self.note("let of a bool");
                let value = self.truth(s, 2);
                let _ = writeln!(out, "    let {name} = {value}");
                self.add_bool(s, place, name);
            }
            _ => {
                self.note("let of a number");
                let value = self.int(s, 2);
                let _ = writeln!(out, "    let {name} = {value}");
                self.add_int(s, place, name, u64::MAX);
            }
        }
    }
}
