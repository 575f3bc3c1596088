//! The `test` blocks of the standard library and of the apps, by interpreter and compiled code.

use wireloom_tests::{quickly_compiled, root, Wireloom};

fn files(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).expect("the folder is there");
    let names = entries.flatten().map(|e| format!("{folder}/{}", e.file_name().to_string_lossy()));
    let mut files: Vec<String> = names.filter(|n| n.ends_with(".loom")).collect();
    files.sort();
    files
}

fn all_hold(files: &[String], extra: &[&str]) {
    let mut args = vec!["test"];
    args.extend(files.iter().map(String::as_str));
    args.extend(extra);
    // All of them are compiled.
    let out = Wireloom::command_with(&args, |c| {
        quickly_compiled(c);
    });
    assert_eq!(out.code, Some(0), "{}", out.text);
    assert!(out.out.contains(" 0 failed"), "{}", out.text);
}

#[test]
fn library() {
    all_hold(&files("std"), &[]);
}

fn of_packets(file: &str) -> bool {
    let text = std::fs::read_to_string(root().join(file)).expect("a file");
    text.contains("nic(\"")
}

#[test]
fn services() {
    all_hold(&files("apps").into_iter().filter(|f| !of_packets(f)).collect::<Vec<_>>(), &[]);
}

#[test]
fn requests_sent_twice() {
    all_hold(&["tests/programs/sent_twice.loom".into()], &[]);
}

#[test]
fn ends_of_conversations() {
    all_hold(&["tests/programs/conversation_ends.loom".into()], &[]);
}

/// Handlers that ask their client's server.
#[test]
fn calls_in_conversations() {
    all_hold(&["tests/programs/asks.loom".into(), "tests/programs/asks_beside.loom".into()], &[]);
}

#[test]
fn sessions_of_one_port() {
    all_hold(&["tests/programs/sessions_of_one_port.loom".into()], &[]);
}

#[test]
fn beginnings_and_ends_of_connections() {
    all_hold(&["tests/programs/beginnings.loom".into()], &[]);
}

#[test]
fn lists_of_copies() {
    all_hold(&["tests/programs/edited_copies.loom".into()], &[]);
}

#[test]
fn names_in_what_is_sent() {
    all_hold(&["tests/programs/named_bytes.loom".into()], &[]);
}

/// Functions and elements that ask for parts which their users have found already.
#[test]
fn parts_that_are_asked_for_again() {
    all_hold(&["tests/programs/asked_again.loom".into()], &[]);
}

// In two tests, which run at the same time.
#[test]
fn network_functions() {
    all_hold(&files("apps").into_iter().filter(|f| of_packets(f)).step_by(2).collect::<Vec<_>>(), &[]);
}

#[test]
fn more_network_functions() {
    all_hold(&files("apps").into_iter().filter(|f| of_packets(f)).skip(1).step_by(2).collect::<Vec<_>>(), &[]);
}

/// The compiler's own cases that are programs with tests.
#[test]
fn cases_of_the_compiler() {
    let text = |f: &String| std::fs::read_to_string(root().join(f)).expect("a file");
    let cases: Vec<String> = files("crates/lang/tests/cases")
        .into_iter()
        .filter(|f| text(f).contains("\ntest \"") && !text(f).contains("//~ E"))
        .collect();
    assert!(!cases.is_empty());
    all_hold(&cases, &[]);
}

/// Every file of the library and every app has tests: blocks of its own, or the mergers' own tests.
/// A network function has at least two.
#[test]
fn nothing_is_untested() {
    for file in files("std").into_iter().chain(files("apps")) {
        let text = std::fs::read_to_string(root().join(&file)).expect("a file");
        let least = if file.starts_with("apps") && of_packets(&file) { 2 } else { 1 };
        assert!(text.matches("\ntest \"").count() >= least || text.contains(" merge by "), "{file} has no test");
    }
}
