//! Declarations that nothing needs: a mistake in each place of them has a diagnostic.

use std::path::Path;
use wireloom_lang::compile;
use wireloom_syntax::parser::{CLAUSES, MEMBERS};
use wireloom_syntax::MemoryWorld;

/// Places of the value in question have this word.
const HERE: &str = "HERE";

/// The codes of a program's errors.
fn errors(text: &str) -> Vec<&'static str> {
    let std = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../std");
    let mut world = MemoryWorld::new().with("/app/main.loom", text);
    for file in std::fs::read_dir(std).expect("std is there").flatten().filter(|f| f.path().is_file()) {
        let text = std::fs::read(file.path()).expect("a module of std");
        world.add(Path::new("/std").join(file.file_name()), text);
    }
    let checked = compile(&world, Path::new("/app/main.loom"), None);
    checked.diagnostics.iter().filter(|d| d.is_error()).map(|d| d.code).collect()
}

/// Each place with a value that is right, and then with a name that nothing has.
fn try_each(places: &[(&str, &str)], program: impl Fn(&str) -> String) {
    let mut wrong = String::new();
    for (place, right) in places {
        assert!(place.contains(HERE), "{place}");
        let (good, bad) =
            (errors(&program(&place.replace(HERE, right))), errors(&program(&place.replace(HERE, "nosuch"))));
        if !good.is_empty() {
            wrong += &format!("`{place}` with {right}: {good:?}\n");
        }
        if bad.is_empty() {
            wrong += &format!("`{place}` with an unknown name is accepted\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn covers(words: &[&str], places: &[&[(&str, &str)]], elsewhere: &[&str]) {
    let has = |w: &str| places.iter().copied().flatten().any(|(p, _)| p.split_whitespace().next() == Some(w));
    let missing: Vec<_> = words.iter().filter(|w| !has(w) && !elsewhere.contains(w)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

const ASKED: &[(&str, &str)] = &[
    ("request HERE", "R"),
    ("response HERE", "S"),
    ("close request when request.a == HERE", "1"),
    ("close response when response.a == HERE", "1"),
    ("interim when response.a == HERE", "1"),
    ("tunnel when response.a == HERE", "1"),
    ("no_reply when request.a == HERE", "1"),
    ("alone when request.a == HERE", "1"),
    ("repeat when request.a == HERE", "1"),
    ("pipeline when request.a == HERE", "1"),
    ("refuse bad when request.a == HERE", "1"),
    ("refuse HERE when request.a == 1", "bad"),
    ("matches(id = request.a) when response.a == HERE", "id"),
    ("matches(id = HERE) when response.a == id", "request.a"),
    ("private request when request.a == HERE", "1"),
    ("private response when response.a == HERE", "1"),
    ("ignore \"\\r\\n\" max HERE", "4"),
    ("log HERE", "request.a"),
    ("status HERE", "response.a"),
    ("class \"x2\" when response.a == HERE", "1"),
    ("forward request { msg.a = HERE }", "1"),
    ("forward response { msg.a = HERE }", "1"),
    ("expects \"x\" when request.a == HERE", "1"),
    ("on fault(f) { reply S { a: HERE, b: 2 } }", "1"),
    ("on request(r) where r.a == HERE { reply S { a: 1, b: 2 } }", "1"),
    ("on request(r) where r.a == 1 { reply S { a: HERE, b: 2 } }", "1"),
    ("on request(r) { let x: u8 = HERE  reply S { a: x, b: 2 } }", "1"),
    ("on probe { reply R { a: HERE, b: 2 } }", "1"),
];

const TALKED: &[(&str, &str)] = &[
    ("up HERE", "R"),
    ("down HERE", "S"),
    ("session mode: HERE", "u8"),
    ("refusal when down.a == HERE", "1"),
    ("idle when down.a == HERE", "1"),
    ("close up when up.a == HERE", "1"),
    ("close down when down.a == HERE", "1"),
    ("owes when up.a == HERE idle when down.a == 1", "1"),
    ("owes when up.a == 1 idle when down.a == 1 unfinished when up.a == HERE settles when down.a == 3", "2"),
    ("owes when up.a == 1 idle when down.a == 1 unfinished when up.a == 2 settles when down.a == HERE", "3"),
    ("on fault(f) { reply S { a: HERE, b: 2 } }", "1"),
];

#[test]
fn clauses_of_protocols() {
    let units = "fault bad\nunit R { a: u8 in {1, 2}  b: u8 }\nunit S { a: u8  b: u8 }\n";
    let with = |needed: &'static [&'static str]| {
        move |clause: &str| {
            let first = clause.split_whitespace().next();
            let rest: Vec<_> = needed.iter().filter(|n| n.split_whitespace().next() != first).copied().collect();
            format!("{units}protocol p {{\n{clause}\n{}\n}}\n", rest.join("\n"))
        }
    };
    try_each(ASKED, with(&["request R", "response S", "stateless"]));
    try_each(TALKED, with(&["up R", "down S", "sharing session"]));
    let inner = ["matches", "unfinished", "settles", "reset", "chunks"];
    let without_value = ["order", "sharing", "stateless", "server_first"];
    covers(CLAUSES, &[ASKED, TALKED], &[&inner[..], &without_value].concat());
    let streams =
        "unit R { a: u8 }\nunit S { n: u8  body: switch n { 1 => b: B, else => c: stream bytes until close } }\n\
                   unit B { data: stream bytes [4] }\n";
    let chunks = "chunks response as b when response.n == HERE";
    try_each(&[(chunks, "1")], |c| format!("{streams}protocol p {{ request R  response S\n{c}\n}}\n"));
}

/// Members of elements.
const OF_ELEMENTS: &[(&str, &str)] = &[
    ("param n: HERE", "u8"),
    ("param n: u8 = HERE", "1"),
    ("state n: HERE", "u8"),
    ("state n: u8 = HERE", "1"),
    ("table n: HERE -> u8 { capacity 4 }", "u8"),
    ("table n: u8 -> HERE { capacity 4 }", "u8"),
    ("table n: u8 -> u8 { capacity HERE }", "4"),
    ("limiter n: u8 { rate HERE, burst 10, capacity 16 }", "10"),
    ("const n = HERE", "1"),
    ("fn n() -> u8 = HERE", "1"),
    ("fn n() -> HERE = 1", "u8"),
    ("state of packet { n: HERE }", "u8"),
    ("signal n() { let a: u8 = HERE }", "1"),
    ("on start { let a: u8 = HERE }", "1"),
    ("on end { let a: u8 = HERE }", "1"),
    ("every HERE { }", "1s"),
    ("every 1s { let a: u8 = HERE }", "1"),
    ("queue q { depth HERE } on x(p) { p -> q } on q(p) { p -> y }", "4"),
    ("on x(p) { let n: u16 = HERE  p -> y }", "1"),
    ("on x(p) where p.len > HERE { p -> y }", "1"),
    ("f = HERE()  x -> f -> y", "F"),
    ("x -> match { .len > HERE => y, else => drop }", "64"),
];

/// Members of apps.
const OF_APPS: &[(&str, &str)] = &[
    ("port q = memory(HERE)", "\"q\""),
    ("on w(p) { let n: u16 = HERE  p -> o }", "1"),
    ("segment q on cpu(HERE) { on w(p) { p -> o } }", "0"),
    ("link { batch HERE, wait 1us }", "4"),
    ("queue q { depth HERE } on w(p) { p -> q } on q(p) { p -> o }", "4"),
];

const F: &str = "element F { in x: packet  out y: packet  on x(p) { p -> y } }\n";

#[test]
fn members_of_elements() {
    let element = |member: &str| {
        let handled = ["on x", "x ->"].iter().any(|w| member.contains(w));
        let rest = if handled { "" } else { "on x(p) { p -> y }" };
        format!("{F}element E {{ in x: packet  out y: packet\n{rest}\n{member}\n}}\n")
    };
    try_each(OF_ELEMENTS, element);
    // Words of apps only have their values there.
    let elsewhere = ["in", "out", "counter", "meter", "global", "port", "segment", "export", "link"];
    let services = ["session", "request", "cache"];
    covers(MEMBERS, &[OF_ELEMENTS], &[&elsewhere[..], &services].concat());
    try_each(&[("in x: HERE", "packet")], |m| format!("element E {{ {m}  out y: packet  on x(p) {{ p -> y }} }}\n"));
    try_each(&[("out y: HERE", "packet")], |m| format!("element E {{ in x: packet  {m}  on x(p) {{ p -> y }} }}\n"));
}

/// The second app of a file is checked as the first one is, when it is asked for.
#[test]
fn members_of_apps() {
    let app = |member: &str| {
        let handled = ["on w", "w ->"].iter().any(|w| member.contains(w));
        let rest = if handled { "" } else { "w -> o" };
        format!("{F}app a {{ port w = memory(\"w\")  port o = memory(\"o\")\n{rest}\n{member}\n}}\n")
    };
    let both: Vec<_> =
        OF_ELEMENTS.iter().filter(|(p, _)| !p.contains("x ->") && !p.contains("on x")).copied().collect();
    try_each(&both, app);
    try_each(OF_APPS, app);
}

const ITEMS: &[(&str, &str)] = &[
    ("const n = HERE", "1"),
    ("const n: HERE = 1", "u8"),
    ("type T = HERE", "u8"),
    ("enum N: u8 { a = HERE }", "1"),
    ("enum N: HERE { a }", "u8"),
    ("charset c = HERE", "\"a\""),
    ("record T { a: HERE }", "u8"),
    ("fn n(a: HERE) -> u8 = 1", "u8"),
    ("fn n(a: u8) -> HERE = 1", "u8"),
    ("fn n(a: u8) -> u8 = HERE", "1"),
    ("fn n(a: u8) -> u8 { if a == 1 { let b: u8 = HERE }  a }", "1"),
    ("fn n(a: u8) -> u8 = if a == 1 { 1 } else { HERE }", "1"),
    ("table n: HERE -> u8 { capacity 4 }", "u8"),
    ("table n: u8 -> HERE { capacity 4 }", "u8"),
    ("table n: u8 -> u8 { capacity HERE }", "4"),
    ("unit U { a: HERE }", "u8"),
    ("unit U { a: bytes<HERE> [4] }", "4"),
    ("unit U { a: bytes<4> [HERE] }", "4"),
    ("unit U { a: bytes<9> until HERE }", "\"x\""),
    ("unit U { a: list<u8, 4> [HERE] }", "4"),
    ("unit U { a: u8  require a == HERE }", "1"),
    ("unit U { a: u8 in {HERE} }", "1"),
    ("unit U { a: u8  let b = HERE }", "1"),
    ("unit U { limit HERE  a: u8 }", "16"),
    ("unit U { a: u8  b: switch a { HERE => { c: u8 }, else => nothing } }", "1"),
    ("unit U { a: u8  b: switch { when a == HERE => { c: u8 }, else => nothing } }", "1"),
    ("unit U { a: u8  b: switch a { 1 => { c: HERE }, else => nothing } }", "u8"),
    ("unit U(n: HERE) { a: u8 }", "u8"),
    ("unit U { a: u8 = HERE }", "1"),
    ("unit U { a: u8 }  packet P { a: HERE }", "U"),
    ("unit U { a: u8 }  packet P { a: U  b: U after a where .a == HERE }", "1"),
    ("test \"t\" { expect 1 == HERE }", "1"),
    ("test \"t\" { let a: u8 = HERE }", "1"),
    ("use HERE", "std.packet"),
];

#[test]
fn items() {
    try_each(ITEMS, |item| format!("{item}\n"));
}
