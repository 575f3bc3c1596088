//! Files, tests and names that the pages for contributors mention are there. So a rename in the
//! tree changes the pages, too.

use std::path::{Path, PathBuf};
use wireloom_tests::root;

const PAGES: &[&str] = &["CONTRIBUTING.md", "docs/architecture.md", "docs/glossary.md"];
const ENDINGS: &[&str] = &["rs", "h", "loom", "ir", "out", "md", "py", "sh", "html", "toml"];

/// All files of the tree, below its root.
fn tree() -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![root()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the tree").flatten() {
            let path = entry.path();
            if !path.is_dir() {
                found.push(below_root(&path));
            } else if !["target", ".git", "results"].iter().any(|n| path.ends_with(n)) {
                folders.push(path);
            }
        }
    }
    found
}

fn below_root(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// A line of a page: its text between backticks, the targets of its links, and the words of a line
/// of code.
fn mentioned(line: &str) -> Vec<&str> {
    if let Some(code) = line.strip_prefix("    ") {
        return code.split(" #").next().unwrap_or("").split_whitespace().collect();
    }
    let quoted = line.split('`').skip(1).step_by(2);
    let linked = line.split("](").skip(1).filter_map(|l| l.split(')').next());
    quoted.chain(linked.filter(|l| !l.contains("://"))).map(|w| w.split('#').next().unwrap_or(w)).collect()
}

/// A word in capitals stands for any: `NAME`, `GROUP`, `E0xxx`.
fn is_placeholder(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or(part);
    stem.starts_with("E0xx") || stem.len() > 1 && stem.chars().all(|c| c.is_ascii_uppercase())
}

fn is_path(word: &str) -> bool {
    let ends = |e: &&str| word.strip_suffix(*e).is_some_and(|w| w.ends_with('.'));
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    plain && (word.ends_with('/') || ENDINGS.iter().any(ends)) && word.trim_matches('/').len() > 1
}

/// The folders in which a name without folders may be meant: those of the path before it on the
/// line.
fn above(path: &str) -> impl Iterator<Item = &Path> {
    Path::new(path).ancestors().filter(|p| p.components().count() > 0)
}

/// Files of a line that are not there. A path may lack its beginning (`crates/`).
fn missing_files(line: &str, page: &str, tree: &[String]) -> Vec<String> {
    let is_there = |path: &str| match path.strip_suffix('/') {
        Some(folder) => tree.iter().any(|f| format!("/{f}").contains(&format!("/{folder}/"))),
        None => tree.iter().any(|f| format!("/{f}").ends_with(&format!("/{path}"))),
    };
    let full = |path: &str| tree.iter().find(|f| format!("/{f}").contains(&format!("/{path}"))).cloned();
    let (mut missing, mut before) = (Vec::new(), None::<String>);
    for word in mentioned(line).into_iter().filter(|w| is_path(w)) {
        let known: PathBuf = word.split('/').take_while(|p| !is_placeholder(p)).collect();
        let Some(known) = known.to_str().filter(|k| !k.is_empty()) else { continue };
        let is_whole = known.len() >= word.trim_end_matches('/').len();
        let path = if is_whole { word.to_string() } else { format!("{known}/") };
        let beside = root().join(page).with_file_name(&path).exists();
        let found = match &before {
            Some(b) if !path.trim_end_matches('/').contains('/') => {
                above(b).any(|folder| root().join(folder).join(&path).exists())
            }
            _ => is_there(&path),
        };
        if !(found || beside) {
            missing.push(word.to_string());
        }
        if word.contains('/') {
            before = full(path.trim_end_matches('/')).or(before);
        }
    }
    missing
}

#[test]
fn files_are_there() {
    let tree = tree();
    let (mut missing, mut named) = (Vec::new(), 0);
    for page in PAGES {
        let text = std::fs::read_to_string(root().join(page)).expect("a page");
        for (i, line) in text.lines().enumerate() {
            named += mentioned(line).iter().filter(|w| is_path(w)).count();
            missing.extend(missing_files(line, page, &tree).iter().map(|f| format!("{page}:{}: {f}", i + 1)));
        }
    }
    assert!(named > 150, "{named} files");
    assert!(missing.is_empty(), "not in the tree:\n{}", missing.join("\n"));
}

/// The check above finds a file that was renamed, also if another folder has one of its name.
#[test]
fn a_renamed_file_is_missed() {
    let tree = tree();
    let missing = |line: &str| missing_files(line, "docs/architecture.md", &tree);
    assert_eq!(missing("`runtime/src/core/task.rs`, `flush.rs`, and [the IR](ir.md#plans)"), [""; 0]);
    assert_eq!(missing("`runtime/src/core/tasks.rs`, `std/elements/GROUP/NAME.loom`"), ["runtime/src/core/tasks.rs"]);
    assert_eq!(missing("`runtime/src/core/task.rs`, `batch_lookup.rs`"), ["batch_lookup.rs"]);
    assert_eq!(missing("    wireloom check std/element/GROUP/NAME.loom"), ["std/element/GROUP/NAME.loom"]);
    assert_eq!(missing("[the IR](irs.md)"), ["irs.md"]);
}

/// Sources in which names are looked for.
fn sources(tree: &[String]) -> String {
    let is_source = |f: &&String| {
        let ends = [".rs", ".h", ".loom", ".sh", ".toml", "Makefile"].iter().any(|e| f.ends_with(e));
        ends && !f.ends_with("page_names.rs")
    };
    tree.iter().filter(is_source).filter_map(|f| std::fs::read_to_string(root().join(f)).ok()).collect()
}

/// `wl_view`, `passes::run_all`, `HandlerDesc::sends`: names of code.
fn is_name(word: &str) -> bool {
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_:.".contains(c));
    let joined = word.trim_matches('_').contains('_') || word.contains("::");
    plain && joined && !word.ends_with("::") && !is_path(word)
}

#[test]
fn names_are_there() {
    let sources = sources(&tree());
    let (mut missing, mut named) = (Vec::new(), 0);
    for page in PAGES {
        let text = std::fs::read_to_string(root().join(page)).expect("a page");
        for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.starts_with("    ")) {
            for word in mentioned(line).into_iter().filter(|w| is_name(w)) {
                named += 1;
                // The last part, which others name: `NAME_parse` stands for all that end so.
                let last = word.rsplit([':', '.']).next().unwrap_or(word).replace("NAME", "");
                if !sources.contains(&last) {
                    missing.push(format!("{page}:{}: {word}", i + 1));
                }
            }
        }
    }
    assert!(named > 20, "{named} names");
    assert!(missing.is_empty(), "not in the tree:\n{}", missing.join("\n"));
}

/// "`name` in `file`": the file has the name.
#[test]
fn names_are_in_their_files() {
    let tree = tree();
    let (mut wrong, mut named) = (Vec::new(), 0);
    for page in PAGES {
        let text = std::fs::read_to_string(root().join(page)).expect("a page");
        let parts: Vec<&str> = text.split('`').collect();
        for part in parts.windows(4).skip(1).step_by(2) {
            let [name, " in ", file, _] = part else { continue };
            let Some(path) = tree.iter().find(|f| is_path(file) && format!("/{f}").ends_with(&format!("/{file}")))
            else {
                continue;
            };
            named += 1;
            let source = std::fs::read_to_string(root().join(path)).expect("a source");
            if !source.contains(&name.replace("NAME", "")) {
                wrong.push(format!("{page}: `{name}` is not in {file}"));
            }
        }
    }
    assert!(named >= 4, "{named} names");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn of_all_crates() -> Vec<String> {
    let crates = std::fs::read_dir(root().join("crates")).expect("the crates").flatten();
    let folders = crates.map(|c| format!("crates/{}/tests", c.file_name().to_string_lossy()));
    std::iter::once("tests/tests".to_string()).chain(folders).collect()
}

/// `--test NAME` in a command: the crate that `-p` names, or any, has such a file, and
/// `-- MODULE::` is a module of it.
#[test]
fn tests_of_commands_are_there() {
    let (mut wrong, mut named) = (Vec::new(), 0);
    for page in PAGES {
        let text = std::fs::read_to_string(root().join(page)).expect("a page");
        for line in text.lines() {
            let words: Vec<&str> = line.split([' ', '`', ')']).filter(|w| !w.is_empty()).collect();
            let behind = |flag: &str| words.iter().position(|w| *w == flag).and_then(|i| words.get(i + 1)).copied();
            let Some(file) = behind("--test") else { continue };
            let mut folders = match behind("-p") {
                Some(krate) => vec![format!("crates/{}/tests", krate.trim_start_matches("wireloom-"))],
                None => of_all_crates(),
            };
            named += 1;
            folders.retain(|f| root().join(f).join(format!("{file}.rs")).exists());
            let Some(folder) = folders.first() else {
                wrong.push(format!("{page}: no {file}.rs"));
                continue;
            };
            let source = std::fs::read_to_string(root().join(folder).join(format!("{file}.rs"))).expect("a source");
            // `docs` makes its tests of the pages.
            let modules = words.iter().skip_while(|w| **w != "--").filter_map(|w| w.split_once("::")).map(|(m, _)| m);
            let gone =
                modules.filter(|m| file != "docs" && !is_placeholder(m) && !source.contains(&format!("mod {m};")));
            wrong.extend(gone.map(|m| format!("{page}: {folder}/{file}.rs has no module {m}")));
        }
    }
    assert!(named > 15, "{named} commands");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each app and each example has its row on the page that lists them; each app is in the bench of
/// starts.
#[test]
fn programs_are_listed() {
    for (folder, page, quote, ending) in [
        ("apps", "README.md", "", ".loom"),
        ("examples", "examples/README.md", "", ".loom"),
        ("apps", "bench/startup.py", "\"", ""),
    ] {
        let text = std::fs::read_to_string(root().join(page)).expect("a page");
        let programs = std::fs::read_dir(root().join(folder)).expect("programs").flatten();
        let names = programs.filter_map(|e| Some(e.file_name().to_str()?.strip_suffix(".loom")?.to_string()));
        let missing: Vec<String> = names.filter(|n| !text.contains(&format!("{quote}{n}{ending}{quote}"))).collect();
        assert!(missing.is_empty(), "{page} does not list {missing:?}");
    }
}
