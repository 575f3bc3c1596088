//! The text form and `serde` keep a module as it is; wrong text is an error, never a panic.

use wireloom_ir::text::wrap;
use wireloom_ir::{grammar, passes, text, verify, Module};

fn sample() -> Module {
    text::parse(include_str!("sample.ir")).unwrap()
}

#[test]
fn round_trip() {
    let mut m = sample();
    for annotated in [false, true] {
        if annotated {
            assert_eq!(grammar::analyze(&mut m), []);
            passes::run_all(&mut m);
        }
        let printed = text::print(&m);
        let again = text::parse(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
        assert_eq!(again, m);
        assert_eq!(text::print(&again), printed);
    }
}

#[test]
fn types_that_are_listed_twice_keep_their_numbers() {
    let m = text::parse("app \"a\"\ntype t0 = u8\ntype t1 = u8\ntype t2 = option<t1>\ntype t3 = option<t0>\nsession \"x\": t1\nsession \"y\": t2\nsession \"z\": t3").unwrap();
    assert_eq!(text::parse(&text::print(&m)).unwrap(), m);
}

#[test]
fn names_of_any_kind() {
    let mut m = sample();
    m.app = "a\"\\\n\r\t\u{0}é→".into();
    m.handlers[0].body.locals[0].name = "1 # }".into();
    m.units[0].fields[0].name = Some("_".into());
    assert_eq!(text::parse(&text::print(&m)).unwrap(), m);
}

#[test]
fn the_sample_is_sound() {
    let mut m = sample();
    assert_eq!(verify::verify_lowered(&m), []);
    assert_eq!(grammar::analyze(&mut m), []);
    passes::run_all(&mut m);
    assert_eq!(verify::verify(&m), []);
    let once = m.clone();
    passes::run_all(&mut m);
    assert_eq!(m, once, "passes change nothing the second time");
}

#[test]
fn every_prefix_and_every_lost_word_is_read_without_a_panic() {
    let text = text::print(&sample());
    for n in (0..text.len()).step_by(7).filter(|n| text.is_char_boundary(*n)) {
        let _ = text::parse(&text[..n]);
    }
    let words: Vec<&str> = text.split(' ').collect();
    for n in (0..words.len()).step_by(5) {
        let mut w = words.clone();
        w.remove(n);
        if let Ok(m) = text::parse(&w.join(" ")) {
            verify::verify(&m);
        }
    }
    let deep = format!("state \"x\": u8 = {}", "neg(".repeat(100_000));
    assert!(text::parse(&deep).is_err());
    assert!(text::parse(&format!("session \"x\": {}", "option<".repeat(100_000))).is_err());
}

#[test]
fn errors_name_the_line() {
    assert_eq!(text::parse("app \"a\"\nport 7").unwrap_err().line, 2);
}

/// The lines of a text as the text form breaks them.
fn lines(indent: usize, text: &str) -> Vec<String> {
    let mut out = String::new();
    wrap::push(&mut out, indent, text);
    out.lines().map(str::to_string).collect()
}

#[test]
fn spaces_first_then_brackets_then_strings() {
    assert_eq!(lines(2, "a b"), ["  a b"]);
    let words = "word ".repeat(60);
    let broken = lines(2, words.trim_end());
    assert!(broken.iter().all(|l| l.len() <= wrap::WIDTH), "{broken:#?}");
    assert!(broken[0].starts_with("  word") && broken[1].starts_with("      word"));
    let nested = "neg(".repeat(60);
    assert!(lines(0, &nested).iter().all(|l| l.len() <= wrap::WIDTH && l.ends_with('(')));
    let text = format!("doc \"{}\\x00{}\"", "a b".repeat(60), "é".repeat(150));
    let broken = lines(4, &text);
    assert!(broken.iter().all(|l| l.chars().count() <= wrap::WIDTH), "{broken:#?}");
    assert!(broken[1].ends_with('\\') && !broken[2].trim_start().is_empty());
}
