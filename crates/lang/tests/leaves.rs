//! Operands that never come back, in every operation and every place of code: each is refused with
//! an error of its own. Nothing is left out of a program without an error.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use wireloom_ir::ops;
use wireloom_lang::{compile, compile_losing_tests, Checked};
use wireloom_syntax::{diagnostic, MemoryWorld};

const FILE: &str = "/app/main.loom";

const OPERATIONS: &[&str] = &[
    "X + 1",
    "1 + X",
    "X - 1",
    "1 *| X",
    "X % 3",
    "X << 1",
    "1 << X",
    "X & 1",
    "X == 1",
    "1 == X",
    "X < 1",
    "X ~= \"a\"",
    "X and c",
    "X or c",
    "not X",
    "-X",
    "~X",
    "X in { 1, 2 }",
    "1 in { X, 2 }",
    "1 in X..3",
    "X in 10.0.0.0/8",
    "now - X",
    "1s * X",
    "X * 1s",
    "u8(X)",
    "u64(X)",
    "i32(X)",
    "ip4(X)",
    "ip(X)",
    "mac(X)",
    "bytes(X)",
    "Color(X)",
    "f(X)",
    "R { a: X }",
    "r with { a: X }",
    "X with { a: 1 }",
    "X.a",
    "X[0]",
    "xs[X]",
    "xs.any(|x| X)",
    "xs.count(|x| X)",
    "X.any(|x| x == 1)",
    "xs.first(|x| X)",
    "xs.without(X)",
    "[X, 1]",
    "(X, 1)",
    "some(X)",
    "X else 1",
    "[X for x in xs]",
    "[x for x in X]",
    "[x for x in xs if X]",
    "fold xs from X with |a, x| a",
    "fold xs from 1 with |a, x| X",
    "if X { 1 } else { 2 }",
    "match X { 1 => 2, _ => 3 }",
    "t[X]",
    "json(X).a.int",
    "json(b)[X].int",
    "X.json.a",
    "call others(X)",
    "call others[X](q)",
    "call others[0](X)",
    "call others(q) within X",
    "call all others(X)",
    "call all for x in xs => others[0](X)",
    "X(1)",
];

/// Operations that are statements; `return` and its like may stand where a way ends.
const STATEMENTS: &[&str] = &[
    "log X",
    "s = X",
    "s += X",
    "t[1] = X",
    "t[X] = 1",
    "t[1] += X",
    "remove t[X]",
    "var v: u64 = u64(X)",
    "X + 1",
    "for x in X { }",
    "for i in 0..X { }",
    "return X + 1",
    "update t[X] { }",
    "expect X",
    "if let x = X { }",
];

const LEAVES: &[&str] =
    &["{ return }", "{ return 3 }", "{ fault constraint }", "if c { return 3 } else { fault constraint }"];

fn world(text: &str) -> MemoryWorld {
    static STD: LazyLock<Vec<(PathBuf, Vec<u8>)>> = LazyLock::new(|| {
        let std = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../std");
        let files = std::fs::read_dir(std).expect("std is there").flatten().filter(|f| f.path().is_file());
        files.map(|f| (f.file_name().into(), std::fs::read(f.path()).expect("a module of std"))).collect()
    });
    let mut world = MemoryWorld::new().with(FILE, text);
    for (name, text) in STD.iter().filter(|_| text.contains("use std.")) {
        world.add(Path::new("/std").join(name), text.as_slice());
    }
    world
}

const COMMON: &str = "enum Color: u8 { red, blue }
record R { a: u64 }
fn f(x: u64) -> u64 { x }
";
const NAMES: &str = "let c = true  let b = \"abc\"  let r = R { a: 1 }  let xs = [1, 2, 3]";

const KINDS: usize = 9;

/// Programs with a line in each kind of code.
fn programs(line: &str) -> Vec<String> {
    let code = format!("{NAMES}\n{line}");
    let words = "unit W { a: u8 }\nprotocol words { request W response W stateless }\n";
    let app = |members: &str| {
        format!(
            "{COMMON}{words}app a {{ port client = listen tcp(80) as words  port others = connect tcp(\"x:1\") as words
state s: u64  table t: u64 -> u64 {{ capacity 8 }}\n{members}
on client(q) {{ reply W {{ a: 1 }} }} }}\n"
        )
    };
    vec![
        format!("{COMMON}fn g(n: u64) -> u64 {{ {code}\n3 }}\n"),
        format!("{COMMON}test \"t\" {{ {code} }}\n"),
        app(&format!("on start {{ {code} }}")),
        app(&format!("every 1s {{ {code} }}")),
        app(&format!("signal g() -> u64 {{ {code}\n3 }}")),
        app(&format!("fn g(n: u64) -> u64 {{ s += 1  {code}\n3 }}")),
        app("").replace("reply W { a: 1 }", &format!("{code}\nreply W {{ a: 1 }}")),
        frames(&code, ""),
        frames(&code, "on xdp"),
    ]
}

fn frames(code: &str, device: &str) -> String {
    format!(
        "use std.packet\n{COMMON}app a {{ port w = nic(\"a\"), o = nic(\"b\")  state s: u64
table t: u64 -> u64 {{ capacity 8 }}\non w(p) {device} {{ {code}\np -> o }} }}\n"
    )
}

fn checked(text: &str) -> Checked {
    compile(&world(text), Path::new(FILE), None)
}

fn said(c: &Checked) -> String {
    diagnostic::render_all(&c.diagnostics, &c.map, false)
}

/// The lines with which a program is not refused, or not by a real error.
fn not_refused(lines: impl Iterator<Item = String>, kinds: usize) -> Vec<String> {
    let mut wrong = vec![];
    for line in lines {
        for (kind, text) in programs(&line).into_iter().enumerate().take(kinds) {
            let c = checked(&text);
            if !c.has_errors() || c.diagnostics.iter().any(|d| d.code == "E0801") {
                wrong.push(format!("{kind}: {line}"));
            }
        }
    }
    wrong
}

#[test]
fn operations() {
    let lines = OPERATIONS.iter().flat_map(|o| LEAVES.iter().map(|l| format!("let _v = {}", o.replace('X', l))));
    assert_eq!(not_refused(lines, KINDS), [""; 0]);
}

#[test]
fn statements() {
    let lines = STATEMENTS.iter().flat_map(|s| LEAVES.iter().map(|l| s.replace('X', l)));
    assert_eq!(not_refused(lines, KINDS), [""; 0]);
}

/// Each argument of each function of the language; the others are of several types.
#[test]
fn functions() {
    let lines = ops::functions().flat_map(|f| {
        let n = (*f.arity().end()).min(*f.arity().start() + 1);
        (0..n).flat_map(move |at| {
            ["b", "7", "xs", "10.0.0.1", "c"].map(|other| {
                let args: Vec<&str> = (0..n).map(|i| if i == at { "{ return 3 }" } else { other }).collect();
                format!("let _v = {}({})", f.name(), args.join(", "))
            })
        })
    });
    assert_eq!(not_refused(lines, 3), [""; 0]);
}

/// The functions of one operand tell about it, and not about something else.
#[test]
fn the_operand_is_named() {
    for f in ops::functions().filter(|f| f.arity() == (1..=1)) {
        let c = checked(&format!("fn g() -> u64 {{ let _v = {}({{ return 3 }})\n 3 }}\n", f.name()));
        let known =
            ["json", "raw", "parse", "bytes_of", "payload", "checksum_ok", "update_checksum"].contains(&f.name());
        assert!(known || said(&c).contains("E0317"), "{}: {}", f.name(), said(&c));
    }
}

/// Places where one way may end.
#[test]
fn ways_may_leave() {
    for way in [
        "let _v = if c { 1 } else { return 3 }",
        "let _v = match n { 1 => 1, _ => { return 3 } }",
        "let _v = xs.first(|x| x == n) else { return 3 }",
        "let _v = c or { return 3 }",
        "let _v = c and { fault constraint }",
        "let _v = u8(if c { 1 } else { return 3 })",
        "let _v = f(xs.first(|x| x == n) else { return 3 })",
        "if c { return 3 }",
        "return 3",
        "let _v = { return 3 }",
        "match n { 1 => { return 3 }, _ => { fault constraint } }",
    ] {
        let text = format!("{COMMON}fn g(n: u64) -> u64 {{ {NAMES}\n{way}\n3 }}\ntest \"t\" {{ expect g(1) == 3 }}\n");
        let c = checked(&text);
        assert!(c.module.as_ref().is_some_and(|m| m.tests.len() == 1), "{text}\n{}", said(&c));
    }
}

/// A function that always faults has a value of its type for the code around, wherever it is put.
#[test]
fn functions_that_always_fault_are_operands() {
    let pure = "fn g(n: u64) -> u64 { fault constraint }\nfn h() -> u64 = g(1) + 1\n";
    let inlined = "app a { port w = memory(\"w\")  state s: u64\nfn g(n: u64) -> u64 { s += 1  fault constraint }
on w(p) { s = g(1) + 1  drop p } }\n";
    for text in [pure.to_string(), format!("use std.packet\n{inlined}")] {
        let c = checked(&text);
        assert!(c.module.is_some(), "{text}\n{}", said(&c));
    }
}

#[test]
fn a_lost_test_is_an_error() {
    let made = compile_losing_tests(&world("fn f() -> u64 = 3\ntest \"t\" { expect f() == 4 }\n"), Path::new(FILE));
    assert_eq!(made.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), ["E0801"]);
    assert!(made.module.is_none() && said(&made).contains("test \"t\""), "{}", said(&made));
    assert!(compile_losing_tests(&world("fn f() -> u64 = 3\n"), Path::new(FILE)).module.is_some());
}

/// Behind a statement that leaves, a test has nothing.
#[test]
fn a_test_ends_where_it_leaves() {
    let c = checked("test \"t\" { let x = { return }  expect x == 1 }\n");
    assert_eq!(c.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), ["W0904"], "{}", said(&c));
}
