//! A name of a type has one meaning in its crate. A reader who finds the name in two files need not
//! ask which of two types it is. Types in functions and in tests do not count.

use crate::circles::words;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use wireloom_tests::root;

/// The types that a file declares outside of functions, implementations and inline tests.
fn declared(text: &str) -> Vec<String> {
    let (mut found, mut depth) = (Vec::new(), 0);
    let words = words(text);
    for (n, word) in words.iter().enumerate() {
        match word.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "struct" | "enum" | "trait" | "union" | "type" if depth == 0 => found.extend(words.get(n + 1).cloned()),
            _ => {}
        }
    }
    found
}

fn is_test(path: &Path) -> bool {
    let name = path.file_stem().map_or(String::new(), |n| n.to_string_lossy().into_owned());
    name == "tests" || name.ends_with("_tests") || name.ends_with("_test")
}

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of a crate").flatten() {
        let path = entry.path();
        if is_test(&path) {
            continue;
        }
        match path.is_dir() {
            true => files(&path, out),
            false if path.extension().is_some_and(|e| e == "rs") => out.push(path),
            false => {}
        }
    }
}

#[test]
fn declarations_are_found() {
    let text = "pub struct A; enum B { C } fn f() { struct D; } impl X for A { type Item = B; }
        // struct E;
        #[cfg(test)] mod tests { struct F; } type G = A;";
    assert_eq!(declared(text), ["A", "B", "G"]);
}

#[test]
fn one_type_per_name() {
    let mut twice = Vec::new();
    for krate in std::fs::read_dir(root().join("crates")).expect("the crates").flatten() {
        let mut sources = Vec::new();
        files(&krate.path().join("src"), &mut sources);
        assert!(!sources.is_empty(), "{} has no sources", krate.path().display());
        let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for path in sources {
            let text = std::fs::read_to_string(&path).expect("a source file");
            let place = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
            for name in declared(&text) {
                types.entry(name).or_default().push(place.clone());
            }
        }
        twice.extend(types.into_iter().filter(|(_, places)| places.len() > 1));
    }
    assert!(twice.is_empty(), "types of a crate with the same name: {twice:#?}");
}
