//! Much of one thing: thousands of cases, names and diagnostics on one line are checked and
//! reported like a few. (Each once took quadratic time: minutes for these.)

use std::path::Path;
use wireloom_lang::{compile, Checked};
use wireloom_syntax::{diagnostic, MemoryWorld};

fn checked(text: String) -> Checked {
    let world = MemoryWorld::new().with("/app/main.loom", text).with("/std/packet.loom", "");
    compile(&world, Path::new("/app/main.loom"), None)
}

fn said(c: &Checked) -> String {
    diagnostic::render_all(&c.diagnostics, &c.map, false)
}

fn joined(n: usize, of: impl Fn(usize) -> String) -> String {
    (0..n).map(of).collect::<Vec<_>>().join(" ")
}

#[test]
fn switches_of_many_cases() {
    for cases in
        [joined(20_000, |i| format!("{i} => f{i}: u8,")), joined(20_000, |i| format!("when kind == {i} => f{i}: u8,"))]
    {
        let on = if cases.starts_with("when") { "" } else { "kind " };
        let c = checked(format!("unit M {{ kind: u32  body: switch {on}{{ {cases} else => nothing }} }}\n"));
        // More than a parser has room for, which is said at once.
        assert!(said(&c).contains("`main.M` has 20002 fields") && said(&c).ends_with("\n1 error\n"), "{}", said(&c));
    }
}

/// A case knows that the cases before it were not taken, and none before it does. Facts that a case
/// has proved hold only there.
#[test]
fn cases_know_of_those_before() {
    let unit = |cases: &str| {
        format!("unit M {{ n: u8  m: u8  body: switch {{ {cases} else => nothing }}\n let q = 8 / n }}\n")
    };
    // A division by a value that may be zero becomes a requirement: a field more.
    let fields = |cases: &str| {
        let app =
            "protocol p { request M  response M }\napp a { port c = listen tcp(80) as p\n on c(r) { reply r } }\n";
        let c = checked(unit(cases) + app);
        let m = c.module.as_ref().unwrap_or_else(|| panic!("{}", said(&c)));
        m.units[0].fields.iter().filter(|f| matches!(f.kind, wireloom_ir::FieldKind::Require { .. })).count()
    };
    let behind = 1;
    assert_eq!(fields("when n == 0 => a: u8, when 8 / n == 4 => b: u8,"), behind);
    assert_eq!(fields("when m == 0 => a: u8, when 8 / n == 4 => b: u8,"), behind + 1);
    assert_eq!(fields("when n > 0 => { let x = 8 / n }, when m == 1 => { let y = 8 / n },"), behind + 1);
}

#[test]
fn thousands_of_diagnostics_on_one_line() {
    let c = checked(joined(20_000, |_| "unit M { }".into()));
    let text = said(&c);
    assert_eq!(text.matches("is defined twice").count(), 19_999);
    // Each at its column, with the part of the line in question.
    let last = text.rfind("error[").map_or("", |at| &text[at..]);
    assert!(last.contains(&format!("main.loom:1:{}\n", 19_999 * 11 + 6)), "{last}");
    let (line, mark) = (last.lines().nth(3).unwrap_or_default(), last.lines().nth(4).unwrap_or_default());
    assert!(
        line.starts_with("1 | …")
            && line.ends_with("M { }")
            && line.chars().nth(mark.find('^').unwrap_or(0)) == Some('M'),
        "{last}"
    );
}

#[test]
fn thousands_of_variants_and_members() {
    let c =
        checked(format!("enum E: u32 {{ {}, v7 = 9 }}\n", joined(50_000, |i| format!("v{i},")).trim_end_matches(',')));
    let text = said(&c);
    assert!(
        text.contains("`v7` is defined twice")
            && text.contains("`v7` has the value of `v9`: 9")
            && text.contains("2 errors"),
        "{text}"
    );
    let c = checked(format!("unit M {{ {} f7: u8 }}\n", joined(30_000, |i| format!("f{i}: u8 "))));
    let text = said(&c);
    assert!(
        text.contains("`f7` is defined twice") && text.contains("has 30001 fields") && text.contains("2 errors"),
        "{text}"
    );
}

/// Of thousands of unknown names the first get suggestions.
#[test]
fn hints_have_an_end() {
    let c = checked(format!(
        "const known = 1\nfn f() -> u32 {{ {} 0 }}\n",
        joined(8_000, |i| format!("let a{i} = knownn"))
    ));
    let text = said(&c);
    assert_eq!(
        (text.matches("unknown name `knownn`").count(), text.matches("did you mean `known`?").count()),
        (8_000, 100)
    );
}

/// A value that is computed again at each use would double with each: gigabytes of code for forty
/// lines.
#[test]
fn computed_fields_of_computed_fields() {
    let chain = |first: &str, next: fn(usize) -> String| {
        format!(
            "unit H {{ n: u8  a: bytes<9> [n]\n let l0 = {first}\n{}\n}}\n",
            (1..40).map(next).collect::<Vec<_>>().join("\n")
        )
    };
    let numbers = chain("u64(n)", |i| format!("let l{i} = l{} + l{}", i - 1, i - 1));
    let bytes = chain("slice(a, 0, 2)", |i| {
        format!("let l{i} = if n > {i} {{ l{} }} else {{ slice(l{}, 0, 2) }}", i - 1, i - 1)
    });
    let header = numbers.replace("a: bytes<9> [n]", "") + "packet P { h: H }\n";
    let messages = "protocol p { request H }\n";
    assert_eq!(said(&checked(numbers + messages)), "");
    for text in [bytes + messages, header] {
        let c = checked(text);
        assert!(said(&c).contains("E0415"), "{}", said(&c));
    }
}

/// Elements that send at several places each: their number counts, not the number of paths through
/// them. Elements of services, and elements that hold several, double at every step.
#[test]
fn elements_behind_elements() {
    let app = |items: &str, lines: &str| {
        format!("unit H {{ n: u8 }}\npacket P {{ h: H }}\n{items}\napp a {{\n port wire = memory(\"w\") as P, far = memory(\"o\") as P\n{lines}\n}}\n")
    };
    let twice = "element T {\n in x: P\n out y: P\n on x(p) { if p.len > 5 { p -> y; return }\n p -> y }\n}\n";
    let chain = |n: usize| {
        app(
            twice,
            &format!(
                "{}\n wire{} -> far",
                (0..n).map(|i| format!("t{i} = T()")).collect::<Vec<_>>().join("\n"),
                joined(n, |i| format!("-> t{i}"))
            ),
        )
    };
    let c = checked(chain(64));
    assert_eq!(said(&c), "");
    let m = c.module.expect("it is sound");
    assert_eq!((m.elements.len(), m.inputs.len(), m.wires.len()), (64, 64, 65));
    // A send in the middle of a way has a copy of its own.
    let service = |n: usize, behind: &str| {
        format!("unit M {{ n: u8 }}\nprotocol p {{ request M  response M  stateless }}\nelement T {{\n in x: M\n out y: M\n counter _c\n on x(m) {{ if m.n > 5 {{ m -> y }} else {{ m -> y }} {behind} }}\n}}\napp a {{\n port c = listen tcp(80) as p\n port s = connect tcp(127.0.0.1:81) as p\n{}\n c{} -> s\n}}\n",
        (0..n).map(|i| format!(" t{i} = T()")).collect::<Vec<_>>().join("\n"), joined(n, |i| format!(" -> t{i}")))
    };
    assert_eq!(said(&checked(service(8, "_c += 1"))), "");
    assert_eq!(said(&checked(service(64, ""))), "");
    let nested = (1..30)
        .map(|i| {
            format!(
                "element E{i} {{\n in x: P\n out y: P\n a = E{}()\n b = E{}()\n x -> a -> b -> y\n}}\n",
                i - 1,
                i - 1
            )
        })
        .collect::<String>();
    let nested = app(&(twice.replace("element T", "element E0") + &nested), "e = E29()\n wire -> e -> far");
    let flat = app(
        &twice.replace("element T", "element E0"),
        &((0..4100).map(|i| format!("e{i} = E0()\n")).collect::<String>() + " wire -> e0 -> far"),
    );
    let hint = |of: &str| checked(of.to_string()).diagnostics.iter().find_map(|d| d.hint.clone()).unwrap_or_default();
    assert!(hint(&nested).contains("double at every step") && hint(&flat).contains("another app"), "{}", hint(&flat));
    for (text, code, what) in [
        (service(15, "_c += 1"), "E0506", "stand in too many places"),
        (nested, "E0509", "more than 4096 elements"),
        (flat, "E0509", "more than 4096 elements"),
    ] {
        let text = said(&checked(text));
        assert!(text.contains(code) && text.contains(what) && text.matches("error[").count() == 1, "{text}");
    }
}

/// Chains of 50,000 elements end in a moment, whatever is wrong with them.
#[test]
fn chains_of_wires() {
    let app = |more: &str, chain: String| {
        format!("unit H {{ n: u8 }}\npacket P {{ h: H }}\nelement T {{\n in x: P\n out y: P\n on x(p) {{ p -> y }}\n}}\napp a {{\n port wire = memory(\"w\") as P, far = memory(\"o\") as P\n{more} wire {chain} -> far\n}}\n")
    };
    let declared: String = (0..50_000).map(|i| format!(" t{i} = T()\n")).collect();
    let pairs: String = (1..50_000).map(|i| format!(" t{} -> t{i}\n", i - 1)).collect();
    for (text, code) in [
        (app(&declared, joined(50_000, |i| format!("-> t{i}"))), "E0508"),
        (app(&(declared + &pairs), "-> t0".into()), "E0509"),
        (app("", "-> T() ".repeat(50_000)), "E0508"),
        (app(" t = T()\n", "-> t ".repeat(50_000)), "E0508"),
    ] {
        let text = said(&checked(text));
        assert!(text.contains(code), "{code}: {}", text.chars().take(2000).collect::<String>());
    }
}
