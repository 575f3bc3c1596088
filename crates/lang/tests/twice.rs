//! Each clause, member and field is written twice, or beside one that excludes it. It takes effect,
//! or there is a diagnostic. Every word of the parser's lists has an entry here.

use std::path::Path;
use wireloom_lang::compile;
use wireloom_syntax::parser::{CLAUSES, MEMBERS};
use wireloom_syntax::{MemoryWorld, Severity};

/// The codes of a program.
fn said(text: &str) -> Vec<&'static str> {
    let std = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../std");
    let mut world = MemoryWorld::new().with("/app/main.loom", text);
    for file in std::fs::read_dir(std).expect("std is there").flatten().filter(|f| f.path().is_file()) {
        let text = std::fs::read(file.path()).expect("a module of std");
        world.add(Path::new("/std").join(file.file_name()), text);
    }
    let checked = compile(&world, Path::new("/app/main.loom"), None);
    let all = checked.diagnostics.iter().filter(|d| d.severity != Severity::Note && d.code != "W0907");
    all.map(|d| d.code).collect()
}

/// Whether two of it are one too many.
#[derive(Clone, Copy, PartialEq)]
enum Two {
    Both,
    Refused,
}
use Two::{Both, Refused};

/// Tries one of each, which is accepted, and two.
fn try_each(entries: &[(&str, Two)], program: impl Fn(&str) -> String) {
    let mut wrong = String::new();
    for (entry, two) in entries {
        let (once, twice) = (said(&program(entry)), said(&program(&format!("{entry}\n{entry}"))));
        if !once.is_empty() {
            wrong += &format!("one `{entry}`: {once:?}\n");
        }
        if twice.is_empty() == (*two == Refused) {
            wrong += &format!("two `{entry}`: {twice:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn covers(words: &[&str], entries: &[&[(&str, Two)]], elsewhere: &[&str]) {
    let begins = |w: &str| entries.iter().copied().flatten().any(|(e, _)| e.split_whitespace().next() == Some(w));
    let missing: Vec<_> = words.iter().filter(|w| !begins(w) && !elsewhere.contains(w)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Of requests and answers; their units stand at the end.
const ASKED: &[(&str, Two)] = &[
    ("request R", Refused),
    ("response S", Refused),
    ("order in_order", Refused),
    ("sharing exclusive", Refused),
    ("stateless", Refused),
    ("close request when request.a == 1", Both),
    ("close response when response.a == 1", Both),
    ("interim when response.a == 1", Both),
    ("tunnel when response.a == 1", Both),
    ("no_reply when request.a == 1", Both),
    ("alone when request.a == 1", Both),
    ("repeat when request.a == 1", Both),
    ("pipeline when request.a == 1", Both),
    ("refuse bad when request.a == 1", Both),
    ("matches(id = request.a) when response.a == id", Refused),
    ("private request when request.a == 1", Both),
    ("private response when response.a == 1", Both),
    ("ignore \"\\r\\n\" max 4", Refused),
    ("log request.a", Refused),
    ("status response.a", Refused),
    ("class \"x2\" when response.a == 1", Refused),
    ("forward request { msg.a = 1 }", Both),
    ("forward response { msg.a = 1 }", Both),
    ("expects \"x\" when request.a == 1", Refused),
    ("on fault(f) { reply S { a: 1, b: 2 } }", Refused),
    ("on request(r) where r.a == 1 { reply S { a: 1, b: 2 } }", Both),
    ("on request(r) { reply S { a: 1, b: 2 } }", Refused),
    ("on probe { reply R { a: 1, b: 2 } }", Refused),
];

const TALKED: &[(&str, Two)] = &[
    ("up R", Refused),
    ("down S", Refused),
    ("sharing session", Refused),
    ("session mode: u8", Refused),
    ("server_first", Refused),
    ("refusal when down.a == 1", Both),
    ("idle when down.a == 1", Both),
    ("close up when up.a == 1", Both),
    ("close down when down.a == 1", Both),
    ("on fault(f) { reply S { a: 1, b: 2 } }", Refused),
    ("owes when up.a == 1 idle when down.a == 1", Both),
    ("owes when up.a == 1 idle when down.a == 1 unfinished when up.a == 2 settles when down.a == 3", Both),
];

#[test]
fn clauses_of_protocols() {
    let units = "fault bad\nunit R { a: u8 in {1, 2}  b: u8 }\nunit S { a: u8  b: u8 }\n";
    let with = |needed: &'static [&'static str]| {
        move |clause: &str| {
            let rest: Vec<_> = needed.iter().filter(|n| !clause.starts_with(**n)).copied().collect();
            format!("{units}protocol p {{\n{clause}\n{}\n}}\n", rest.join("\n"))
        }
    };
    try_each(ASKED, with(&["request R", "response S", "stateless"]));
    try_each(TALKED, with(&["up R", "down S", "sharing session"]));
    let inner = ["matches", "unfinished", "settles", "reset", "chunks"];
    covers(CLAUSES, &[ASKED, TALKED], &inner);
    let chunks = "chunks response as b when response.n == 1";
    let streams =
        "unit R { a: u8 }\nunit S { n: u8  body: switch n { 1 => b: B, else => c: stream bytes until close } }\n\
                   unit B { data: stream bytes [4] }\n";
    try_each(&[(chunks, Refused)], |c| format!("{streams}protocol p {{ request R  response S\n{c}\n}}\n"));
}

/// A handler of an event, a counter: of apps and elements.
const OF_ALL: &[(&str, Two)] = &[
    ("param n: u8 = 1", Refused),
    ("state n: u8", Refused),
    ("counter n", Refused),
    ("table n: u8 -> u8 { capacity 4 }", Refused),
    ("limiter n: u8 { rate 10, burst 10, capacity 16 }", Refused),
    ("const n = 1", Refused),
    ("fn n() -> u8 = 1", Refused),
    ("state of packet { n: u8 }", Refused),
    ("signal n() { }", Refused),
    ("on start { }", Both),
    ("on end { }", Both),
    ("every 1s { }", Both),
];

const OF_APPS: &[(&str, Two)] = &[
    ("port q = memory(\"q\")", Refused),
    ("on w(p) { p -> o }", Refused),
    ("w -> o", Refused),
    ("segment q on cpu(0) { on w(p) { p -> o } }", Refused),
    ("link { batch 4, wait 1us }", Refused),
    ("queue q { depth 4 } on w(p) { p -> q } on q(p) { p -> o }", Refused),
    ("export segment n() { }", Refused),
    ("f = F()", Refused),
];

const OF_SERVICES: &[(&str, Two)] = &[
    ("session n: u8", Refused),
    ("request n: u8", Refused),
    ("cache n: u8 -> u8 { capacity 16, max_age 1s }", Refused),
    ("on client.opened { }", Both),
    ("on client.closed { }", Both),
    ("on fault(f) { }", Both),
    ("on client(r) { reply call s(r) }", Refused),
    ("client -> s", Refused),
];

const OF_ELEMENTS: &[(&str, Two)] = &[
    ("signal stop", Refused),
    ("on x(p) { p -> y }", Refused),
    ("x -> y", Refused),
    ("f = F()  x -> f -> y", Refused),
    ("queue q { depth 4 } on x(p) { p -> q } on q(p) { p -> y }", Refused),
];

const F: &str = "element F { in x: packet  out y: packet  on x(p) { p -> y } }\n";

#[test]
fn members_of_apps_and_elements() {
    let app = |member: &str| format!("{F}app a {{ port w = memory(\"w\")  port o = memory(\"o\")\n{member}\n}}\n");
    try_each(OF_APPS, app);
    try_each(OF_ALL, app);
    let service = |member: &str| {
        let handled = member.contains("on client(") || member.contains("client ->");
        let rest = if handled { "" } else { "on client(r) { reply call s(r) }" };
        format!(
            "unit R {{ a: u8 }}\nprotocol p {{ stateless request R response R }}\napp a {{ port client = listen tcp(80) as p\n\
             port s = connect tcp(127.0.0.1:81) as p\n{rest}\n{member}\n}}\n"
        )
    };
    // A cache without a use is told of.
    let services: Vec<_> = OF_SERVICES.iter().filter(|(m, _)| !m.starts_with("cache")).copied().collect();
    try_each(&services, service);
    let element = |member: &str| {
        let handled = ["on x", "x ->"].iter().any(|w| member.contains(w));
        let rest = if handled { "" } else { "on x(p) { p -> y }" };
        format!(
            "{F}element E {{ in x: packet  out y: packet\n{rest}\n{member}\n}}\n\
             app a {{ port w = memory(\"w\")  port o = memory(\"o\")\n e = E()  w -> e -> o }}\n"
        )
    };
    try_each(OF_ELEMENTS, element);
    try_each(OF_ALL, element);
    covers(MEMBERS, &[OF_ALL, OF_APPS, OF_SERVICES, OF_ELEMENTS], &["in", "out", "meter", "global"]);
}

#[test]
fn ways_in_and_names() {
    let element = |members: &str| {
        format!(
            "{F}element E {{ {members} }}\napp a {{ port w = memory(\"w\"), v = memory(\"v\"), o = memory(\"o\")\n\
             e = E()\n{} e -> o }}\n",
            if members.contains('[') { "w -> e.x[0]  v -> e.x[1]" } else { "w -> e" }
        )
    };
    let two = [
        "in x: packet  out y: packet  on x(p) { p -> y }  x -> y",
        "in x: packet [2]  out y: packet  on x[i](p) { p -> y }  on x[i](p) { p -> y }",
        "in x: packet [2]  out y: packet  on x[i](p) { p -> y }  x[0] -> y",
        "in x: packet [2]  out y: packet  x -> y  x[0] -> y",
        "in x: packet [2]  out y: packet  x[0] -> y  x[1] -> y  x[0] -> y",
        "in x: packet  out y: packet  y = F()  on x(p) { p -> y }",
        "in x: packet  out y: packet  state x: u8  on x(p) { x = 1  p -> y }",
    ];
    for members in two {
        assert!(!said(&element(members)).is_empty(), "{members}");
    }
    for members in [
        "in x: packet [2]  out y: packet  x[0] -> y  x[1] -> y",
        "in x: packet [2]  out y: packet  on x[i](p) { if i == 0 { p -> y } }",
    ] {
        assert_eq!(said(&element(members)), [""; 0], "{members}");
    }
}

/// A way out has one wiring, or each wiring that leads to it goes on behind it.
#[test]
fn ways_out() {
    let said = |wiring: &str| {
        said(&format!(
            "{F}app a {{ port w = memory(\"w\"), v = memory(\"v\"), o = memory(\"o\"), o2 = memory(\"o2\")\n\
             f = F()  g = F()\n{wiring} }}\n"
        ))
    };
    for wiring in [
        "w -> f -> o  f -> o2  w -> g  g -> o",
        "w -> f -> o  f -> o2",
        "w -> f -> o  f.y -> o2",
        "w -> f.x  f -> o  f.y -> o2",
        "w -> f -> g -> o  f -> o2",
        "w -> f -> g -> o  g -> o2",
        "w -> match { .len > 64 => f, else => drop } -> o  f -> o2",
        "queue q { depth 4 }  on w(p) { p -> q }  q -> f -> o  f -> o2",
    ] {
        assert!(!said(wiring).is_empty(), "{wiring}");
    }
    for wiring in [
        "w -> f -> o  v -> f -> o2",
        "w -> f -> g -> o  v -> g -> o2",
        "w -> f -> o  v -> f  f -> o2",
        "on w(p) { p -> f }  f -> o  v -> g -> f",
    ] {
        assert_eq!(said(wiring), [""; 0], "{wiring}");
    }
}

#[test]
fn fields_and_items() {
    for text in [
        "unit U { a: u8  order big  order little  b: u16 }",
        "unit U { limit 16  limit 32  a: bytes<16> [4] }",
        "unit U { limit 3  a: bytes<16> [4] }",
        "unit U { recover until \"\\n\"  recover until \"\\r\"  a: u8 }",
        "unit U { \"x\" or \"x\"  a: u8 }",
        "unit U { a: bytes<9> until \"x\" or \"x\" }",
        "unit U { a: bytes<4> [9] }",
        "unit U { a: list<u8, 4> [9] }",
        "unit U { a: u8  require 1 == 2 }",
        "unit U { a: u8 link ethernet  link ip }",
        "unit U { a: u1  b: u1  c: u6  partial a  partial b }",
        "enum N: u8 { a, _, _ }",
        "unit M { n: u8 }  protocol p { stateless request M response M }\n\
         app a { port c = listen tcp(80) as p  port d = listen tcp(80) as p  on c(r) { reply r }  on d(r) { reply r } }",
        "app a { param n: u8 = 1  port w = memory(\"w\")  on w(p) where n == 1 { drop } }\n\
         test \"t\" of a(n = 1, n = 2) { expect 1 == 1 }",
    ] {
        assert!(!said(text).is_empty(), "{text}");
    }
    for text in [
        "unit U { order little  a: u16  order big  b: u16 }",
        "unit U { recover until \"\\n\"  a: u8  recover until \"\\r\"  b: u8 }",
        "unit U { a: u8  b: switch a { 1 => { c: u8  require 1 == 2 }, else => nothing } }",
    ] {
        assert_eq!(said(text), [""; 0], "{text}");
    }
}
