//! Random grammars in source text: units of every field form, each the request or the response of a
//! protocol of its own. Handlers read some of their fields. The grammars are mostly well formed by
//! construction; the compiler refuses the others.

mod exprs;
mod fields;
mod shapes;

use std::collections::BTreeSet;
use std::fmt::Write;
use wireloom_interp::generate::Rng;

/// Items that the units use.
pub const ITEMS: &str = "fault wrong_a, wrong_b
charset low = 'a'..='z'
charset blank = \" \\t\"
charset spaced = 'a'..='z' | \" \\t\"
charset digit = '0'..='9'
charset no_line = 0x00..=0x09 | 0x0b..=0xff
enum Kind: u8 { zero, one, seven = 7, _ }
enum Letter: u8 { a = 97, b = 98, c = 99 }
enum Wide: u16 { none_yet, far = 300, _ }
enum Verb: bytes<8> { get = \"GET\", put = \"PUT\", _ }
enum Only: bytes<4> { yes = \"yes\", no = \"no\" }
fn twist(a: u32, b: u32) -> u32 = (a * u32(31) ^ b) % u32(64)
";

/// A unit with all its parts.
pub struct Made {
    /// The unit of the message.
    pub name: String,
    /// Its units and its protocol.
    pub source: String,
    /// Statements of its handler; none for a response.
    pub handler: Option<String>,
    /// The field forms in it.
    pub forms: BTreeSet<&'static str>,
}

impl Made {
    /// Its port of an app, and the handler of that.
    pub fn members(&self, port: usize) -> String {
        let Some(handler) = &self.handler else { return String::new() };
        let name = &self.name;
        format!("    port p{name} = listen tcp({port}) as proto{name}\n    on p{name}(req) {{\n{handler}    }}\n")
    }
}

/// A module of all these units, with one app that listens for them.
pub fn program(units: &[&Made]) -> String {
    let mut text = ITEMS.to_string();
    units.iter().for_each(|u| text += &u.source);
    text += "app all {\n";
    units.iter().enumerate().for_each(|(i, u)| text += &u.members(7000 + i));
    text + "}\n"
}

/// The values that expressions can read at some place of a unit.
#[derive(Clone, Default)]
struct Scope {
    /// Expressions of unsigned numbers, and their largest values.
    ints: Vec<(String, u64)>,
    bools: Vec<String>,
    bytes: Vec<String>,
    /// Options of numbers.
    options: Vec<String>,
}

impl Scope {
    /// Values added behind `before`, seen from outside of their case.
    fn leave_case(&mut self, before: &Scope, rng: &mut Rng) {
        let plain = |text: &String| text.bytes().all(|b| b.is_ascii_alphanumeric());
        let added = |list: &mut Vec<String>, n: usize| {
            list.split_off(n.min(list.len())).into_iter().filter(plain).collect::<Vec<_>>()
        };
        let ints = self.ints.split_off(before.ints.len().min(self.ints.len()));
        for (text, most) in ints.into_iter().filter(|(text, _)| plain(text)) {
            self.bools.push(format!("({text} is some(_))"));
            self.ints.push((format!("({text} else {})", rng.below(4)), most));
        }
        for text in added(&mut self.bytes, before.bytes.len()) {
            self.bytes.push(format!("({text} else \"x\")"));
        }
        self.bools.truncate(before.bools.len());
        self.options.truncate(before.options.len());
    }
}

/// Where a field stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldPlace {
    /// In the message itself: it may be the last one.
    Message {
        last: bool,
    },
    Case,
    /// In a unit of the message.
    Part,
    /// In an item of a list or a stream.
    Item,
}

pub struct Maker {
    rng: Rng,
    forms: BTreeSet<&'static str>,
    /// Units that are done.
    parts: String,
    /// Name of the message's unit.
    name: String,
    names: usize,
    /// Whether the message may have `stream` fields, long fields.
    streams: bool,
    long: bool,
    /// A stream has begun: a handler cannot read fields behind it, and the grammar hardly their
    /// bytes.
    flown: bool,
    /// The values that a handler can read: expressions of numbers and of bytes.
    seen: Scope,
}

impl Maker {
    pub fn new(seed: u64) -> Maker {
        let rng = Rng::new(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x6a09_e667_f3bc_c908);
        Maker {
            rng,
            forms: BTreeSet::new(),
            parts: String::new(),
            name: String::new(),
            names: 0,
            streams: false,
            long: false,
            flown: false,
            seen: Scope::default(),
        }
    }

    /// The next unit, called `name`.
    pub fn message(&mut self, name: &str) -> Made {
        (self.name, self.names, self.flown) = (name.to_string(), 0, false);
        (self.forms, self.parts, self.seen) = Default::default();
        self.streams = self.rng.chance(45);
        self.long = self.rng.chance(35);
        let answer = self.rng.chance(12);
        let (mut scope, mut body) = (Scope::default(), String::new());
        let params = if answer { self.params(&mut scope) } else { String::new() };
        let last = 2 + self.rng.below(8);
        for n in 0..=last {
            self.field(&mut scope, &mut body, FieldPlace::Message { last: n == last }, 2);
        }
        let mut source = std::mem::take(&mut self.parts);
        let _ = write!(source, "unit {name}{params} {{\n{body}}}\n");
        if answer {
            self.note("parameters of a response");
            let given = if params.contains("q:") { "(p = request.n, q = request.n > 3)" } else { "(p = request.n)" };
            let _ = write!(source, "unit {name}Ask {{ n: u8 }}\nprotocol proto{name} {{\n    request {name}Ask\n    response {name}{given}\n}}\n");
        } else {
            let _ = write!(source, "protocol proto{name} {{\n    request {name}\n}}\n");
        }
        let handler = (!answer).then(|| self.handler());
        Made { name: name.to_string(), source, handler, forms: std::mem::take(&mut self.forms) }
    }

    /// Logs some of these values.
    fn handler(&mut self) -> String {
        let seen = std::mem::take(&mut self.seen);
        let mut parts: Vec<String> = seen.ints.iter().map(|(text, _)| format!("u64({text})")).collect();
        parts.extend(seen.bools.iter().map(|b| format!("(if {b} {{ u64(1) }} else {{ u64(2) }})")));
        parts.extend(seen.bytes);
        parts.retain(|_| self.rng.chance(60));
        let texts: Vec<String> = parts.iter().map(|p| format!("        log {p}\n")).collect();
        texts.concat()
    }

    /// The parameters of a unit, which are in scope then.
    fn params(&mut self, scope: &mut Scope) -> String {
        scope.ints.push(("p".into(), 255));
        if self.rng.chance(50) {
            return "(p: u8)".into();
        }
        scope.bools.push("q".into());
        "(p: u8, q: bool)".into()
    }

    fn note(&mut self, form: &'static str) {
        self.forms.insert(form);
    }

    fn fresh(&mut self) -> String {
        self.names += 1;
        format!("f{}", self.names)
    }

    fn part_name(&mut self) -> String {
        let field = self.fresh();
        format!("{}{field}", self.name)
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.rng.below(list.len() as u64) as usize]
    }

    /// A field that expressions and, in the message itself, the handler can read.
    fn add_int(&mut self, s: &mut Scope, place: FieldPlace, text: String, most: u64) {
        if matches!(place, FieldPlace::Message { .. }) && !self.flown {
            self.seen.ints.push((format!("req.{text}"), most));
        }
        s.ints.push((text, most));
    }

    fn add_bytes(&mut self, s: &mut Scope, place: FieldPlace, text: String) {
        if matches!(place, FieldPlace::Message { .. }) && !self.flown {
            self.seen.bytes.push(format!("req.{text}"));
        }
        s.bytes.push(text);
    }

    fn add_bool(&mut self, s: &mut Scope, place: FieldPlace, text: String) {
        if matches!(place, FieldPlace::Message { .. }) && !self.flown {
            self.seen.bools.push(format!("req.{text}"));
        }
        s.bools.push(text);
    }
}
