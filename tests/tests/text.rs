//! The form of the tree's texts. Comments and pages have at most 100 columns and short sentences.
//! Nothing names things outside of the tree.

use std::path::{Path, PathBuf};
use wireloom_tests::root;

const WIDTH: usize = 100;
/// Words of a sentence.
const SENTENCE: usize = 25;

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
    let mut code = false;
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, l)| marks.is_none_or(|all| all.iter().any(|m| l.trim_start().starts_with(m))));
    by_hand(lines)
        .filter(|(_, l)| {
            let said = l.trim_start().trim_start_matches(['/', '!']);
            let fence = said.trim_start().starts_with("```");
            code ^= fence;
            let indented = if marks.is_some() { is_indented(l) } else { l.starts_with("    ") };
            !(fence || code || indented || l.starts_with('|'))
        })
        .map(|(i, l)| (i + 1, l))
        .collect()
}

/// Lines but for those that a bench or a test writes into a page.
fn by_hand<'t>(lines: impl Iterator<Item = (usize, &'t str)>) -> impl Iterator<Item = (usize, &'t str)> {
    let mut written = false;
    lines.filter(move |(_, l)| {
        written = (written || l.contains(":begin -->")) && !l.contains(":end -->");
        !written
    })
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

/// Paragraphs and items of lists, with the numbers of their first lines. A code span is a word.
fn paragraphs(path: &Path, text: &str) -> Vec<(usize, String)> {
    let page = marks(path).is_none();
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut last = 0;
    for (number, line) in prose(path, text) {
        let line = line.trim();
        let said =
            if page { line } else { line.trim_start_matches(['/', '!', '#', '*']).trim_end_matches("*/").trim() };
        let item = said.split_once(' ').filter(|(mark, _)| {
            ["-", "*"].contains(mark) || mark.strip_suffix('.').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
        });
        let outside = said.is_empty() || said.starts_with('|') || (page && said.starts_with('#'));
        match found.last_mut() {
            _ if outside || line.starts_with("#!/") => continue,
            Some((_, words)) if number == last + 1 && item.is_none() => *words = format!("{words} {said}"),
            _ => found.push((number, item.map_or(said, |(_, rest)| rest).to_string())),
        }
        last = number;
    }
    found.into_iter().map(|(number, text)| (number, coded(&text))).collect()
}

/// Text with a word in the place of each code span.
fn coded(text: &str) -> String {
    text.split('`').enumerate().map(|(i, part)| if i % 2 == 0 { part } else { "code" }).collect()
}

/// The cells of a page's tables.
fn cells(path: &Path, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let is_page = marks(path).is_none();
    for (i, line) in by_hand(text.lines().enumerate()).filter(|(_, l)| is_page && l.starts_with('|')) {
        found.extend(coded(line).split('|').map(|cell| (i + 1, cell.trim().to_string())));
    }
    found
}

/// The longest sentence, with the number of its words.
fn longest(text: &str) -> (usize, &str) {
    let is_end = |w: &str| w == "·" || w.trim_end_matches([')', '*', '"', '_']).ends_with(['.', '!', '?']);
    let (mut best, mut begin, mut count) = ((0, ""), 0, 0);
    for word in text.split_whitespace() {
        let to = word.as_ptr() as usize - text.as_ptr() as usize + word.len();
        count += usize::from(word.contains(char::is_alphanumeric));
        if count > best.0 {
            best = (count, text[begin..to].trim());
        }
        if is_end(word) {
            (begin, count) = (to, 0);
        }
    }
    best
}

#[test]
fn sentences_are_short() {
    assert_eq!(longest("One two. Three `four` five; six."), (4, "Three `four` five; six."));
    let mut long = Vec::new();
    for path in files() {
        let text = std::fs::read_to_string(&path).expect("a text");
        for (number, text) in paragraphs(&path, &text).into_iter().chain(cells(&path, &text)) {
            let (words, sentence) = longest(&text);
            if words > SENTENCE {
                long.push(format!("{}:{number}: {words} words, at most {SENTENCE}: {sentence}", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "{} sentences are too long\n{}", long.len(), long.join("\n"));
}

/// A row that no table has around it is shown as text.
#[test]
fn rows_stand_in_tables() {
    let is_row = |l: &str| l.starts_with('|');
    let mut loose = Vec::new();
    for path in files().iter().filter(|p| marks(p).is_none()) {
        let text = std::fs::read_to_string(path).expect("a text");
        let mut code = false;
        let outside = |(_, l): &(usize, &str)| {
            code ^= l.trim_start().starts_with("```");
            !code
        };
        let lines: Vec<(usize, &str)> = by_hand(text.lines().enumerate()).filter(outside).collect();
        for (n, (i, line)) in lines.iter().enumerate().filter(|(_, (_, l))| is_row(l)) {
            let begins = n == 0 || lines[n - 1].0 + 1 != *i || !is_row(lines[n - 1].1);
            if begins && !lines.get(n + 1).is_some_and(|(_, l)| l.starts_with("|-") || l.starts_with("|:")) {
                loose.push(format!("{}:{}: {line}", path.display(), i + 1));
            }
        }
    }
    assert!(loose.is_empty(), "{}", loose.join("\n"));
}

/// A sentence of a page or of a program names its subject: a packet, a core, a backend.
#[test]
fn sentences_of_pages_have_subjects() {
    let pages = |p: &Path| p.extension().is_some_and(|e| e == "md" || e == "loom");
    let found = vague(pages, |text| text.split_inclusive(". ").map(str::trim).collect());
    assert!(found.is_empty(), "{} sentences lack a subject\n{}", found.len(), found.join("\n"));
}

/// So does the first sentence of a comment.
#[test]
fn comments_begin_with_subjects() {
    let sources = |p: &Path| p.extension().is_some_and(|e| e == "rs" || e == "h");
    let found = vague(sources, |text| vec![text]);
    assert!(found.is_empty(), "{} comments lack a subject\n{}", found.len(), found.join("\n"));
}

/// Sentences of some files that begin with no thing.
fn vague(among: impl Fn(&Path) -> bool, sentences: impl Fn(&str) -> Vec<&str>) -> Vec<String> {
    const VAGUE: [&str; 5] = ["What ", "Who ", "Whoever ", "Whatever ", "All that "];
    let mut found = Vec::new();
    for path in files().iter().filter(|p| among(p)) {
        let text = std::fs::read_to_string(path).expect("a text");
        for (number, text) in paragraphs(path, &text) {
            for sentence in sentences(&text) {
                if VAGUE.iter().any(|w| sentence.starts_with(w)) && !sentence.contains('?') {
                    found.push(format!("{}:{number}: {sentence}", path.display()));
                }
            }
        }
    }
    found
}

/// An entry of the changelog has one line or two: each says one thing that a user sees.
#[test]
fn entries_of_the_changelog_are_short() {
    let page = std::fs::read_to_string(root().join("CHANGELOG.md")).expect("the changelog");
    let lines: Vec<&str> = page.lines().collect();
    let more = |i: usize| lines[i + 1..].iter().take_while(|l| l.starts_with("  ")).count();
    let long: Vec<usize> =
        (0..lines.len()).filter(|i| lines[*i].starts_with("- ") && more(*i) > 1).map(|i| i + 1).collect();
    assert!(long.is_empty() && lines.iter().filter(|l| l.starts_with("- ")).count() > 100, "lines {long:?}");
}

/// The words of the tree: as many as a newcomer reads, each used.
#[test]
fn the_glossary_is_short_and_used() {
    let page = std::fs::read_to_string(root().join("docs/glossary.md")).expect("the glossary");
    let rows: Vec<&str> =
        page.lines().filter_map(|l| l.strip_prefix("| ")).filter(|l| !l.starts_with("term |")).collect();
    assert!((60..=100).contains(&rows.len()), "{} terms", rows.len());
    let tree: Vec<String> = files()
        .iter()
        .filter(|p| !p.ends_with("docs/glossary.md"))
        .map(|p| std::fs::read_to_string(p).expect("a text").to_lowercase().replace(['_', '-', '\n'], " "))
        .collect();
    let is_used = |term: &str| tree.iter().any(|text| text.contains(&term.to_lowercase()));
    let terms = rows.iter().flat_map(|r| r.split(" |").next().unwrap_or("").split(", "));
    // A term in brackets says of which of two meanings its row is.
    let unused: Vec<&str> =
        terms.map(|t| t.split(" (").next().unwrap_or(t)).filter(|t| !is_used(&t.replace('-', " "))).collect();
    assert!(unused.is_empty(), "nothing in the tree is called {unused:?}");
}

/// Words that the field has another word for, as names of files and of types.
#[test]
fn old_names_are_gone() {
    const FILES: &[&str] = &[
        "ahead.rs",
        "begins.rs",
        "blanks.rs",
        "changed.rs",
        "cluster.rs",
        "end.rs",
        "facts.rs",
        "fan.rs",
        "flow.h",
        "halves.rs",
        "holds.rs",
        "init.rs",
        "keyed.rs",
        "lanes.h",
        "lanes.rs",
        "last.rs",
        "late.rs",
        "mesh.rs",
        "near.rs",
        "open.rs",
        "pace.rs",
        "requires.rs",
        "steer.rs",
        "trust.rs",
        "used.rs",
        "usual.rs",
        "wild.h",
        "wild_each.h",
        "x.rs",
    ];
    const TYPES: &[&str] = &["Ahead", "Asks", "Halves", "Keeps", "Kept", "Lane", "Thing", "Truth", "Usual", "Way"];
    const FUNCTIONS: &[&str] = &["ahead", "betrayed", "lived", "usual"];
    let mut found = Vec::new();
    for path in files() {
        if FILES.iter().any(|f| path.ends_with(f)) {
            found.push(format!("{} is a file", path.display()))
        }
        let text = std::fs::read_to_string(&path).expect("a text");
        if path.extension().is_some_and(|e| e == "rs") {
            let named =
                |word: &str, t: &str| text.contains(&format!("{word} {t} ")) || text.contains(&format!("{word} {t}<"));
            let types = TYPES.iter().filter(|t| named("struct", t) || named("enum", t));
            found.extend(types.map(|t| format!("{} has a type `{t}`", path.display())));
            let functions = FUNCTIONS.iter().filter(|f| text.contains(&format!("fn {f}(")));
            found.extend(functions.map(|f| format!("{} has a function `{f}`", path.display())))
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
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

/// So does a message of the compiler.
#[test]
fn messages_have_subjects() {
    let mut found = Vec::new();
    let sources = |p: &PathBuf| {
        ["crates/lang/src", "crates/ir/src", "crates/syntax/src"].iter().any(|f| p.starts_with(root().join(f)))
    };
    for path in files().into_iter().filter(sources) {
        let text = std::fs::read_to_string(&path).expect("a source");
        for (i, line) in text.lines().enumerate() {
            let vague = ["\"what ", "\"who ", "\"whoever ", "\"whatever ", "\"all that "];
            if !line.contains("assert") && vague.iter().any(|w| line.to_lowercase().contains(w)) {
                found.push(format!("{}:{}: {}", path.display(), i + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{} messages lack a subject\n{}", found.len(), found.join("\n"));
}

/// The text form of every app has lines of 120 columns at most, and is read again as it is.
#[test]
fn lines_of_ir_have_at_most_120_columns() {
    let apps = std::fs::read_dir(root().join("apps")).expect("a folder of the tree").flatten();
    let apps: Vec<PathBuf> = apps.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "loom")).collect();
    assert!(apps.len() > 40, "{}", apps.len());
    for app in apps {
        let module = wireloom_tests::programs::bare_module(&app);
        let text = wireloom_ir::text::print(&module);
        let long = text.lines().find(|l| l.chars().count() > 120);
        assert!(long.is_none(), "{}: {long:?}", app.display());
        let again = wireloom_ir::text::parse(&text).unwrap_or_else(|e| panic!("{}: {e:?}", app.display()));
        assert!(wireloom_ir::text::print(&again) == text, "{}", app.display());
    }
}
