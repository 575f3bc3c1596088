//! Bytes, lists, switches, nested units, streams.

use super::{FieldPlace, Maker, Scope};
use std::fmt::Write;

impl Maker {
    /// A largest size: above 4 KiB it is a tail.
    fn size(&mut self) -> (&'static str, u64) {
        if self.long && self.rng.chance(30) {
            self.note("a long field");
            return self.pick(&[("100KiB", 102_400), ("5000", 5000), ("1MiB", 1 << 20)]);
        }
        self.pick(&[("20", 20), ("20", 20), ("255", 255), ("64", 64), ("4KiB", 4096), ("3", 3)])
    }

    pub(super) fn bytes(&mut self, s: &mut Scope, out: &mut String, place: FieldPlace) {
        let (name, word, (max, most)) = (self.fresh(), self.pick(&["bytes", "bytes", "token", "text"]), self.size());
        let (caseless, or) = (self.pick(&["", "", "", " caseless"]), self.or_fault());
        let until = self.pick(&[
            "until \"\\n\"",
            "until \"\\r\\n\" or \"\\n\"",
            "until \" \" or \"\\t\"",
            "until \"abab\"",
            "until \"--\"",
            "until peek \";\"",
        ]);
        let mut behind = "";
        let shape = match self.rng.below(10) {
            0..=3 => {
                self.note("bytes by length");
                format!(
                    "[{}]{}",
                    self.length(s, most),
                    self.pick(&["", "", " trim blank", " of low", " of no_line trim blank"])
                )
            }
            4 => {
                self.note("trimmed until");
                format!("{} {until} trim blank", self.pick(&["", "of low", "of no_line"]))
            }
            5 => {
                self.note("charset until");
                format!("of {} until \"{}\"", self.pick(&["low", "digit"]), self.pick(&[":", " ", "\\r\\n"]))
            }
            6 | 7 => {
                self.note("charset run");
                behind = self.pick(&["    \":\"\n", "    \"\\n\"\n", "    _: u8\n", ""]);
                format!("of {}{}", self.pick(&["low", "digit", "blank", "spaced"]), self.pick(&["", "", " trim blank"]))
            }
            _ => {
                self.note("bytes until");
                until.to_string()
            }
        };
        if shape.contains("peek") {
            self.note("until peek");
            behind = "    \";\"\n";
        }
        let within = if self.rng.chance(6) { " in {\"a\", \"ab\", \"GET\"}" } else { "" };
        let _ = write!(out, "    {name}: {word}<{max}> {shape}{caseless}{within}{or}\n{behind}");
        self.add_bytes(s, place, name);
    }

    /// A length in front of its field.
    pub(super) fn measured(&mut self, s: &mut Scope, out: &mut String, place: FieldPlace) {
        self.note("computed length");
        let (n, a, b) = (self.fresh(), self.fresh(), self.fresh());
        let ty = self.pick(&["u8", "u16", "u32 little", "decimal<u16, 3>", "varint<u32>", "hex<u32> until \" \""]);
        if self.rng.chance(50) {
            let (max, _) = self.size();
            let _ = writeln!(out, "    {n}: {ty} = len({a})\n    {a}: bytes<{max}> [{n}]");
        } else {
            let _ = writeln!(out, "    {n}: {ty} = len({a}) + len({b}) + 2\n    {b}: bytes<20> until \"\\n\"\n    {a}: bytes<255> [{n} - len({b}) - 2]");
            self.add_bytes(s, place, b);
        }
        self.add_int(s, place, n, u64::MAX);
        self.add_bytes(s, place, a);
    }

    pub(super) fn text_enum(&mut self, s: &mut Scope, out: &mut String, place: FieldPlace) {
        self.note("enum of text");
        let (name, ty) = (self.fresh(), self.pick(&["Verb", "Only"]));
        let end = if self.rng.chance(60) { "until \" \"".to_string() } else { format!("[{}]", self.pick(&[2, 3])) };
        let _ = writeln!(out, "    {name}: {ty} {end}");
        let variant = if ty == "Verb" { "Verb.put" } else { "Only.no" };
        self.add_bool(s, place, format!("{name} == {variant}"));
        s.bools.pop();
        s.bools.push(format!("({name} == {variant})"));
    }

    /// A unit of its own, and its readable values.
    fn part(&mut self, place: FieldPlace, params: bool, first: &str, depth: u32) -> (String, Scope) {
        let name = self.part_name();
        let (mut scope, mut body) = (Scope::default(), String::new());
        let params = if params { self.params(&mut scope) } else { String::new() };
        let outer = scope.clone();
        body.push_str(first);
        for _ in 0..1 + self.rng.below(3) {
            self.field(&mut scope, &mut body, place, depth - 1);
        }
        let _ = write!(self.parts, "unit {name}{params} {{\n{body}}}\n");
        let after = |list: Vec<String>, n: usize| {
            list.into_iter().skip(n).filter(|t| t.bytes().all(|b| b.is_ascii_alphanumeric())).collect::<Vec<_>>()
        };
        let mut public =
            Scope { bools: after(scope.bools, outer.bools.len()), bytes: after(scope.bytes, 0), ..Scope::default() };
        let ints = scope.ints.into_iter().skip(outer.ints.len());
        public.ints = ints.filter(|(text, _)| text.bytes().all(|b| b.is_ascii_alphanumeric())).collect();
        (
            if params.is_empty() { name } else { format!("{name}{}", if params.contains("q:") { "|" } else { "/" }) },
            public,
        )
    }

    /// The unit's name with arguments, if it has parameters.
    fn call(&mut self, s: &Scope, part: &str) -> String {
        match (part.strip_suffix('|'), part.strip_suffix('/')) {
            (Some(name), _) => format!("{name}(u8({}), {})", self.int(s, 1), self.truth(s, 1)),
            (_, Some(name)) => format!("{name}(u8({}))", self.int(s, 1)),
            _ => part.to_string(),
        }
    }

    pub(super) fn nested(&mut self, s: &mut Scope, out: &mut String, place: FieldPlace, depth: u32) {
        let inner = if place == FieldPlace::Item { FieldPlace::Item } else { FieldPlace::Part };
        let name = self.fresh();
        if self.rng.chance(25) {
            return self.enclosed(s, out, &name);
        }
        let params = self.rng.chance(40);
        self.note(if params { "nested with parameters" } else { "nested" });
        let flown = self.flown;
        let (part, public) = self.part(inner, params, "", depth);
        let call = self.call(s, &part);
        let _ = writeln!(out, "    {name}: {call}");
        let readable = self.flown == flown;
        for (text, most) in public.ints {
            if readable {
                self.add_int(s, place, format!("{name}.{text}"), most)
            } else {
                s.ints.push((format!("{name}.{text}"), most))
            }
        }
        s.bools.extend(public.bools.into_iter().map(|b| format!("{name}.{b}")));
        for text in public.bytes {
            if readable {
                self.add_bytes(s, place, format!("{name}.{text}"))
            } else {
                s.bytes.push(format!("{name}.{text}"))
            }
        }
    }

    /// A unit in an extent.
    fn enclosed(&mut self, s: &mut Scope, out: &mut String, name: &str) {
        let part = self.part_name();
        if self.rng.chance(30) {
            return self.enclosed_parts(s, out, name, &part);
        }
        let to_end = self.rng.chance(60);
        let body = match (to_end, self.rng.below(2)) {
            (true, 0) => "kind: u8  rest: bytes<40> to end",
            (true, _) => "a: token<9> of low  \"=\"  rest: bytes<40> of low to end",
            (false, 0) => "n: u8  rest: bytes<40> [n]",
            (false, _) => "a: bytes<9> until \";\"  b: u16",
        };
        let _ = writeln!(self.parts, "unit {part} {{ {body} }}");
        if self.rng.chance(50) {
            self.note("a unit in a length");
            let length = self.length(s, 40);
            let _ = writeln!(out, "    {name}: {part} [{length}]");
        } else {
            self.note("a unit until");
            let end = self.pick(&["\\n", ";;", "."]);
            let _ = writeln!(out, "    {name}: {part} until \"{end}\"");
        }
        if to_end {
            s.bytes.push(format!("{name}.rest"));
        }
    }

    /// A unit in a length whose parts have lengths, counts and ends of their own. Often they do not
    /// fit.
    fn enclosed_parts(&mut self, s: &mut Scope, out: &mut String, name: &str, part: &str) {
        self.note("parts in a length");
        let inner = self.pick(&[
            "a: u16  w: u8  rest: bytes<9> [w]",
            "w: varint<u32>  rest: bytes<9> of low [w]",
            "a: hex<u16>  \",\"  b: Kind",
            "a: u16  rest: bytes<9> to end",
        ]);
        let body = self.pick(&[
            "m: u8  i: INNER [m]  z: u8",
            "m: u8  i: INNER [m]  j: INNER [m / 2]",
            "k: u8  items: list<INNER, 5> to end",
            "c: u8  items: list<INNER, 5> [c]",
            "c: u8  items: list<u16, 8> [c]",
            "items: list<token<5> of low until \",\", 4> until \".\"",
            "a: token<9> of low",
            "d: decimal<u16>",
            "w: switch { \"abc\" => { b: u8 }, \"ab\" => nothing, else => { c: token<3> of digit } }",
            "f: flag \"ab\"  i: INNER",
        ]);
        let _ = writeln!(self.parts, "unit {part}I {{ {inner} }}");
        let _ = writeln!(self.parts, "unit {part} {{ {} }}", body.replace("INNER", &format!("{part}I")));
        let length =
            if self.rng.chance(50) { self.length(s, 40) } else { self.pick(&["0", "1", "2", "4", "7"]).into() };
        let _ = writeln!(out, "    {name}: {part} [{length}]");
    }

    pub(super) fn list(&mut self, s: &mut Scope, out: &mut String, place: FieldPlace, depth: u32) {
        let (name, max) = (self.fresh(), self.pick(&[2, 8, 40]));
        let flown = std::mem::replace(&mut self.flown, false);
        match self.rng.below(7) {
            0 => {
                self.note("list by count");
                let item = self.pick(&[
                    "u16",
                    "u8",
                    "varint<u32>",
                    "decimal<u16> until \",\"",
                    "bytes<9> until \"\\n\"",
                    "u16 little",
                    "Kind",
                    "bytes<5> [2]",
                ]);
                let count = self.length(s, max);
                let _ = writeln!(out, "    {name}: list<{item}, {max}> [{count}]");
            }
            1 => {
                self.note("list until a delimiter");
                let item = self.pick(&["token<5> of low until \",\"", "decimal<u16> until \",\"", "hex<u8, 2>"]);
                let _ =
                    writeln!(out, "    {name}: list<{item}, {max}> until \"{}\"", self.pick(&[";", "\\n", "\\r\\n"]));
            }
            2 => {
                self.note("list of units until a delimiter");
                let (part, _) = self.part(
                    FieldPlace::Item,
                    false,
                    "    key: token<9> of low until \"=\"\n    value: bytes<20> until \",\"\n",
                    depth,
                );
                let _ = writeln!(out, "    {name}: list<{part}, {max}> until \"{}\"", self.pick(&[";", "\\n"]));
                if !flown {
                    s.bytes.push(format!("({name}[\"a\"] else \"x\")"));
                    s.ints.push((format!("{name}.count(\"ab\")"), 40));
                }
            }
            3 => {
                self.note("list until an item");
                let (part, public) = self.part(FieldPlace::Item, false, "    last: u8\n", depth);
                let inner = Scope {
                    ints: public.ints.into_iter().map(|(t, m)| (format!(".{t}"), m)).collect(),
                    ..Scope::default()
                };
                let cond = if self.rng.chance(50) {
                    format!(".last < {}", 5 + self.rng.below(30))
                } else {
                    format!(".last == 1 or {}", self.truth(&inner, 1))
                };
                let _ = writeln!(out, "    {name}: list<{part}, {max}> until {cond}");
            }
            4 | 5 => {
                self.note("list by a fold");
                let (part, _) = self.part(FieldPlace::Item, false, "    more: u8\n", depth);
                let from = self.length(s, 5);
                let step = self.pick(&["left - 1 + (.more & 1)", "left - 1", "left + .more / 2 - 1"]);
                let _ = writeln!(out, "    {name}: list<{part}, {max}> fold left = {from} then {step} until left == 0");
            }
            _ => {
                self.note("list of units by count");
                let params = self.rng.chance(30);
                let (part, _) = self.part(FieldPlace::Item, params, "", depth);
                let (call, count) = (self.call(s, &part), self.length(s, max));
                let _ = writeln!(out, "    {name}: list<{call}, {max}> [{count}]");
            }
        }
        self.flown |= flown;
        self.add_int(s, place, format!("{name}.count(|x| true)"), max);
        s.ints.pop();
        s.ints.push((format!("len({name})"), max));
        if let Some(seen) = self.seen.ints.last_mut().filter(|(text, _)| text.contains(&format!("{name}.count"))) {
            seen.0 = format!("len(req.{name})");
        }
    }

    pub(super) fn switch(&mut self, s: &mut Scope, out: &mut String, place: FieldPlace, depth: u32) {
        let name = self.fresh();
        let (on, guards): (String, Vec<String>) = match self.rng.below(if s.options.is_empty() { 5 } else { 9 }) {
            0 => {
                self.note("switch by literals");
                (String::new(), vec!["\"get \"".into(), "\"put \" | \"p\"".into(), "\"\\0\"".into()])
            }
            1 => {
                self.note("switch by peeked literals");
                (String::new(), vec!["peek \"get \"".into(), "\"p\"".into(), "peek \"ab\" | peek \"\\xff\"".into()])
            }
            2 if !s.ints.is_empty() => {
                self.note("switch by a value");
                let i = self.rng.below(s.ints.len() as u64) as usize;
                (s.ints[i].0.clone(), vec!["0 | 1".into(), "2".into(), format!("{} | 7", 3 + self.rng.below(4))])
            }
            3 if !s.bytes.is_empty() => {
                self.note("switch by bytes");
                (self.one(&s.bytes), vec!["\"a\" | \"ab\"".into(), "\"GET\"".into(), "\"x\"".into()])
            }
            _ => {
                self.note("switch by conditions");
                let mut guards: Vec<String> = (0..2).map(|_| format!("when {}", self.truth(s, 2))).collect();
                let option = match (s.options.is_empty(), s.bytes.is_empty()) {
                    (false, _) => Some(self.one(&s.options)),
                    (true, false) => Some(format!("find({}, \"a\")", self.one(&s.bytes))),
                    _ => None,
                };
                if let Some(option) = option.filter(|_| self.rng.chance(60)) {
                    self.note("switch by an option");
                    guards[0] = format!("when got{name} = {option}");
                }
                (String::new(), guards)
            }
        };
        let _ = writeln!(out, "    {name}: switch {on}{}{{", if on.is_empty() { "" } else { " " });
        let before = s.clone();
        let (flown, mut after) = (self.flown, self.flown);
        for guard in guards {
            self.flown = flown;
            let mut inner = before.clone();
            if guard.contains("when got") {
                inner.ints.push((format!("got{name}"), u64::MAX));
            }
            let known = inner.clone();
            self.case(&mut inner, out, &guard, place, depth);
            self.public_of_case(&mut inner, &known, s);
            after |= self.flown;
        }
        let other = self.pick(&["else => nothing", "else => fault wrong_a", "else => { _: u8 }", ""]);
        let _ = writeln!(out, "        {other}\n    }}");
        self.flown = after;
    }

    fn case(&mut self, inner: &mut Scope, out: &mut String, guard: &str, place: FieldPlace, depth: u32) {
        if self.rng.chance(12) {
            let _ = writeln!(out, "        {guard} => nothing");
            return;
        }
        if self.rng.chance(8) {
            let _ = writeln!(out, "        {guard} => fault wrong_b");
            return;
        }
        let _ = writeln!(out, "        {guard} => {{");
        // Streams may stand in cases of the message and of its parts, not in those of items.
        let inside = if place == FieldPlace::Item { FieldPlace::Item } else { FieldPlace::Case };
        for _ in 0..1 + self.rng.below(3) {
            self.field(inner, out, inside, depth - 1);
        }
        let _ = writeln!(out, "        }}");
    }

    /// The values of a case that its switch passes on: behind it they are known as options.
    fn public_of_case(&mut self, inner: &mut Scope, known: &Scope, s: &mut Scope) {
        inner.leave_case(known, &mut self.rng);
        s.ints.extend(inner.ints.iter().skip(known.ints.len()).cloned());
        s.bools.extend(inner.bools.iter().skip(known.bools.len()).cloned());
        if !self.flown {
            s.bytes.extend(inner.bytes.iter().skip(known.bytes.len()).cloned());
        }
    }

    pub(super) fn stream(&mut self, s: &mut Scope, out: &mut String) {
        let name = self.fresh();
        if self.rng.chance(45) {
            self.note("stream of bytes");
            let length = self.length(s, 50);
            let _ = writeln!(out, "    {name}: stream bytes [{length}]");
            self.flown = true;
            return;
        }
        self.flown = true;
        if self.rng.chance(35) {
            self.note("stream of one unit");
            let (part, _) = self.part(FieldPlace::Part, true, "", 2);
            let call = self.call(s, &part);
            let _ = writeln!(out, "    {name}: stream {call}");
            return;
        }
        self.note("stream of units");
        let first = match self.rng.below(3) {
            0 => "    size: hex<u32> until \"\\r\\n\"\n    rest: switch { when size > 0 => { data: stream bytes [size]  \"\\r\\n\" }, else => nothing }\n",
            1 => "    size: u8\n    data: stream bytes [size]\n",
            _ => "    size: decimal<u8> until \" \"\n    data: bytes<300> [size]\n",
        };
        let (part, public) = self.part(FieldPlace::Part, true, first, 2);
        let call = self.call(s, &part);
        let inner =
            Scope { ints: public.ints.into_iter().map(|(t, m)| (format!(".{t}"), m)).collect(), ..Scope::default() };
        let cond = if self.rng.chance(60) {
            ".size == 0".to_string()
        } else {
            format!(".size < 3 or {}", self.truth(&inner, 1))
        };
        let _ = writeln!(out, "    {name}: stream {call} until {cond}");
    }
}
