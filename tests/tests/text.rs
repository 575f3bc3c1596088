//! The form of the tree's texts: comments and pages have at most 100 columns, and nothing names
//! things outside of the tree.

use std::path::{Path, PathBuf};
use wireloom_tests::root;

const WIDTH: usize = 100;

/// Sources and pages, without generated files and files that are compared byte by byte.
fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the tree").flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() {
                if !["target", ".git", "results", "cases", "programs"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if marks(&path).is_some() || name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// How lines that are comments begin, in files that have some.
fn marks(path: &Path) -> Option<&'static [&'static str]> {
    match path.extension()?.to_str()? {
        "rs" | "loom" => Some(&["//"]),
        "c" | "h" => Some(&["//", "/*", "* "]),
        "py" | "sh" | "toml" => Some(&["#"]),
        _ => None,
    }
}

/// Lines of prose, with their numbers: comments of a source, or a page, without code, tables and
/// the output of benches.
fn prose<'t>(path: &Path, text: &'t str) -> Vec<(usize, &'t str)> {
    let marks = marks(path);
    let (mut code, mut written) = (false, false);
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, l)| marks.is_none_or(|all| all.iter().any(|m| l.trim_start().starts_with(m))));
    lines
        .filter(|(_, l)| {
            let said = l.trim_start().trim_start_matches(['/', '!']);
            let fence = said.trim_start().starts_with("```");
            code ^= fence;
            written = (written || l.contains(":begin -->")) && !l.contains(":end -->");
            let indented = if marks.is_some() { is_indented(l) } else { l.starts_with("    ") };
            !(fence || code || written || indented || l.starts_with('|'))
        })
        .map(|(i, l)| (i + 1, l))
        .collect()
}

/// Whether a comment holds code: four blanks and more behind its mark.
fn is_indented(line: &str) -> bool {
    line.trim_start().trim_start_matches(['/', '!', '#', '*']).starts_with("    ")
}

#[test]
fn lines_of_prose_have_at_most_100_columns() {
    let mut long = Vec::new();
    for path in files() {
        let text = std::fs::read_to_string(&path).expect("a text");
        for (number, line) in prose(&path, &text) {
            // A single word, as a link, cannot be broken.
            if line.chars().count() > WIDTH && line.split_whitespace().count() > 2 {
                long.push(format!("{}:{number}: {} columns", path.display(), line.chars().count()));
            }
        }
    }
    assert!(long.is_empty(), "{} lines of comments or pages are too long\n{}", long.len(), long.join("\n"));
}

#[test]
fn nothing_names_what_lies_outside() {
    let forbidden = ["the brief", "this session", "../shared", "shared/bench", "shared/design"];
    let mut found = Vec::new();
    for path in files().iter().filter(|p| !p.ends_with("tests/tests/text.rs")) {
        let text = std::fs::read_to_string(path).expect("a text");
        for (i, line) in text.lines().enumerate() {
            let lower = line.to_lowercase();
            found.extend(
                forbidden.iter().filter(|w| lower.contains(*w)).map(|w| format!("{}:{}: {w}", path.display(), i + 1)),
            );
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The map names files by the ends of their paths.
#[test]
fn files_of_the_map_are_there() {
    let all: Vec<String> = files().iter().map(|p| p.display().to_string()).collect();
    let map = std::fs::read_to_string(root().join("docs/architecture.md")).expect("the map");
    let is_file = |name: &&str| [".rs", ".h", ".loom", "/"].iter().any(|e| name.ends_with(e)) && !name.contains(' ');
    let named: Vec<&str> = map.split('`').skip(1).step_by(2).filter(is_file).collect();
    assert!(named.len() > 30, "{named:?}");
    let is_there = |name: &str| match name.ends_with('/') {
        true => all.iter().any(|p| p.contains(&format!("/{name}"))),
        false => all.iter().any(|p| p.ends_with(&format!("/{name}"))),
    };
    let missing: Vec<_> = named.into_iter().filter(|n| !is_there(n)).collect();
    assert!(missing.is_empty(), "docs/architecture.md names {missing:?}");
}
