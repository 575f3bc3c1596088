//! The `test` blocks of the standard library and of the apps, by interpreter and compiled code.

use std::path::Path;
use wireloom_tests::{root, Wireloom};

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
    let out = Wireloom::command(&args);
    assert_eq!(out.code, Some(0), "{}", out.text);
    assert!(out.out.contains(" 0 failed"), "{}", out.text);
}

#[test]
fn library() {
    all_hold(&files("std"), &[]);
}

#[test]
fn apps() {
    all_hold(&files("apps"), &[]);
}

/// The compiler's own cases, those that are programs with tests.
#[test]
fn cases_of_the_compiler() {
    let text = |f: &String| std::fs::read_to_string(root().join(f)).expect("a file");
    let cases: Vec<String> = files("crates/lang/tests/cases").into_iter().filter(|f| text(f).contains("\ntest \"") && !text(f).contains("//~ E")).collect();
    assert!(!cases.is_empty());
    all_hold(&cases, &[]);
}

/// Every file of the library and every app has tests: blocks of its own, captures in packet_apps.rs or ipsec.rs, or the mergers' own tests.
#[test]
fn nothing_is_untested() {
    let captures: String = ["packet_apps", "ipsec"].map(|f| std::fs::read_to_string(root().join(format!("tests/tests/{f}.rs"))).expect("a file")).concat();
    for file in files("std").into_iter().chain(files("apps")) {
        let text = std::fs::read_to_string(root().join(&file)).expect("a file");
        let name = Path::new(&file).file_stem().and_then(|s| s.to_str()).expect("a name");
        let by_captures = file.starts_with("apps") && (captures.contains(&format!("\nfn {name}(")) || captures.contains(&format!("\"{name}\""))) || file == "std/packet.loom";
        assert!(text.contains("\ntest \"") || text.contains(" merge by ") || by_captures, "{file} has no test");
    }
}
