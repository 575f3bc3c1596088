//! Circles of files: a file uses names of another one that uses names of the first, directly or
//! through others. A module may use the files below it without being in a circle with them.
//!
//! The files are read as words, without types. A call of a method is not seen. So the walks over
//! trees stay possible, which are recursive by nature: expressions and blocks in `lang`, and
//! expressions, calls and statements in `interp`. They are methods of one type in several files.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use wireloom_tests::root;

const CRATES: &[&str] = &["syntax", "ir", "lang", "runtime", "interp", "codegen-c", "xdp", "cli"];

type Name = Vec<String>;

/// A `use`: the path, and the name that the file has for it (`*`: all names).
struct Import {
    path: Name,
    alias: String,
    exported: bool,
}

#[derive(Default)]
struct File {
    words: Vec<String>,
    /// Names that it declares, with the variants of its enums.
    own: BTreeSet<String>,
    imports: Vec<Import>,
}

type Files = BTreeMap<Name, File>;

/// The file that declares each path that was asked for.
type Known = RefCell<BTreeMap<Name, Name>>;

/// Words and signs, without comments, strings, lifetimes and inline tests.
pub fn words(text: &str) -> Vec<String> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some(c) = rest.chars().next() {
        let raw = |s: &str| s.starts_with("r\"") || s.starts_with("r#");
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |n| n + 2)
        } else if raw(rest) || rest.starts_with('b') && raw(&rest[1..]) {
            let open = rest.find('"').unwrap_or(0);
            let end = format!("\"{}", "#".repeat(rest[..open].matches('#').count()));
            rest[open + 1..].find(&end).map_or(rest.len(), |n| open + 1 + n + end.len())
        } else if c == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |n| n + 2)
        } else if c == '\'' {
            let mut chars = rest[1..].char_indices();
            match (chars.next(), chars.next()) {
                (Some((_, '\\')), Some((n, e))) => {
                    rest[1 + n + e.len_utf8()..].find('\'').map_or(rest.len(), |k| k + n + 2 + e.len_utf8())
                }
                (Some(_), Some((n, '\''))) => n + 2,
                _ => 1,
            }
        } else if c.is_alphanumeric() || c == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            out.push(rest[..end].to_string());
            end
        } else if rest.starts_with("::") {
            out.push("::".into());
            2
        } else {
            if !c.is_whitespace() {
                out.push(c.to_string());
            }
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    without_tests(out)
}

fn without_tests(all: Vec<String>) -> Vec<String> {
    let begins = |at: &[String]| {
        ["#", "[", "cfg", "(", "test", ")", "]", "mod"].iter().zip(at).filter(|(a, b)| *a == b).count() == 8
            && at.get(9).is_some_and(|w| w == "{")
    };
    let (mut out, mut n) = (Vec::new(), 0);
    while n < all.len() {
        if !begins(&all[n..]) {
            out.push(all[n].clone());
            n += 1;
            continue;
        }
        let mut depth = 0;
        n += 9;
        while n < all.len() {
            depth += i32::from(all[n] == "{") - i32::from(all[n] == "}");
            n += 1;
            if depth == 0 {
                break;
            }
        }
    }
    out
}

/// The tree of a `use`, from `at` on; gives the place behind it.
fn tree(words: &[String], mut at: usize, before: &Name, exported: bool, out: &mut Vec<Import>) -> usize {
    let mut path = before.clone();
    loop {
        match words.get(at).map_or(";", String::as_str) {
            "::" => at += 1,
            "{" => {
                at += 1;
                while words.get(at).is_some_and(|w| w != "}") {
                    at = tree(words, at, &path, exported, out);
                    at += usize::from(words.get(at).is_some_and(|w| w == ","));
                }
                return at + 1;
            }
            "as" => {
                out.push(Import { path, alias: words.get(at + 1).cloned().unwrap_or_default(), exported });
                return at + 2;
            }
            ";" | "," | "}" => {
                let itself = path.last().is_some_and(|w| w == "self") && path.len() > 1;
                if itself {
                    path.pop();
                }
                out.push(Import { alias: path.last().cloned().unwrap_or_default(), path, exported });
                return at;
            }
            word => {
                path.push(word.to_string());
                at += 1;
            }
        }
    }
}

fn file(text: &str) -> File {
    let all = words(text);
    let mut f = File::default();
    let mut n = 0;
    while n < all.len() {
        match all[n].as_str() {
            "use" => {
                let exported = n.checked_sub(1).is_some_and(|b| all[b] == "pub" || all[b] == ")");
                n = tree(&all, n + 1, &vec![], exported, &mut f.imports) + 1;
                continue;
            }
            "enum" => f.own.extend(variants(&all[n..])),
            "fn" | "struct" | "trait" | "type" | "const" | "static" | "union" | "macro_rules" => {
                let name = all[n + 1..].iter().find(|w| *w != "!");
                f.own.extend(name.cloned())
            }
            _ => {}
        }
        f.words.push(all[n].clone());
        n += 1;
    }
    f
}

/// The name of an enum and those of its variants.
fn variants(at: &[String]) -> Vec<String> {
    let mut names: Vec<String> = at.get(1).cloned().into_iter().collect();
    let (mut depth, mut fresh) = (0, false);
    for w in at.iter().skip_while(|w| *w != "{") {
        match w.as_str() {
            "{" | "(" | "[" | "<" => {
                depth += 1;
                fresh = depth == 1
            }
            "}" | ")" | "]" | ">" => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            "," => fresh = depth == 1,
            "#" => {}
            name if depth == 1 && fresh && name != "]" => {
                names.push(name.to_string());
                fresh = false
            }
            _ => {}
        }
    }
    names
}

/// A file and the modules that it has in files of their own.
fn load(path: &Path, name: Name, files: &mut Files) {
    let f = file(&std::fs::read_to_string(path).expect("a source"));
    let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
    let folder = path.parent().expect("a folder");
    let below = if ["lib", "main", "mod"].contains(&stem.as_str()) { folder.to_path_buf() } else { folder.join(stem) };
    for w in f.words.windows(3).filter(|w| w[0] == "mod" && w[2] == ";") {
        let child: Vec<PathBuf> = vec![below.join(format!("{}.rs", w[1])), below.join(&w[1]).join("mod.rs")];
        if let Some(child) = child.iter().find(|c| c.exists()) {
            load(child, [&name[..], &[w[1].clone()]].concat(), files)
        }
    }
    files.insert(name, f);
}

/// A path from the root of the crate; None: it leads out of it.
fn absolute(files: &Files, of: &Name, path: &[String]) -> Option<Name> {
    let mut base = of.clone();
    let (first, mut rest) = path.split_first()?;
    match first.as_str() {
        "crate" => return Some(rest.to_vec()),
        "self" => {}
        "super" => {
            base.pop();
            while rest.first().is_some_and(|w| w == "super") {
                base.pop();
                rest = &rest[1..]
            }
        }
        word => {
            base.push(word.to_string());
            return files.contains_key(&base).then(|| [base, rest.to_vec()].concat());
        }
    }
    Some([base, rest.to_vec()].concat())
}

/// The file that declares what a path names. Answers are kept in `known`: many words name the same.
fn declares(files: &Files, known: &Known, path: &[String]) -> Name {
    if let Some(file) = known.borrow().get(path) {
        return file.clone();
    }
    let file = search(files, path, &mut BTreeSet::new());
    known.borrow_mut().insert(path.to_vec(), file.clone());
    file
}

/// The same without `known`; `seen` has the paths that were searched already.
fn search(files: &Files, path: &[String], seen: &mut BTreeSet<Name>) -> Name {
    let mut module: Name = vec![];
    let mut left = path;
    while let Some((next, rest)) = left.split_first() {
        let inner = [&module[..], std::slice::from_ref(next)].concat();
        if !files.contains_key(&inner) {
            break;
        }
        (module, left) = (inner, rest)
    }
    let Some(name) = left.first() else { return module };
    let f = &files[&module];
    if f.own.contains(name) || !seen.insert(path.to_vec()) {
        return module;
    }
    for i in &f.imports {
        let Some(to) = absolute(files, &module, &i.path) else { continue };
        if i.alias == *name && to != path {
            return search(files, &[to, left[1..].to_vec()].concat(), seen);
        }
        if i.alias == "*" {
            let all = [&to[..to.len() - 1], left].concat();
            let found = search(files, &all, seen);
            if found != module && files[&found].own.contains(name) {
                return found;
            }
        }
    }
    module
}

/// The files that a file uses.
fn used(files: &Files, known: &Known, of: &Name) -> BTreeSet<Name> {
    let f = &files[of];
    let mut found = BTreeSet::new();
    let word = |n: usize| f.words.get(n).map_or("", String::as_str);
    let is_word = |w: &str| w.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut n = 0;
    while n < f.words.len() {
        let begin = n;
        n += 1;
        if !is_word(word(begin)) || begin > 0 && ["::", "."].contains(&word(begin - 1)) {
            continue;
        }
        // `pub(super)` names no item.
        if begin > 1 && word(begin - 1) == "(" && word(begin - 2) == "pub" {
            continue;
        }
        let mut path: Name = vec![word(begin).to_string()];
        while word(n) == "::" && is_word(word(n + 1)) {
            path.push(word(n + 1).to_string());
            n += 2
        }
        let is_name = path.len() > 1 || path[0].starts_with(char::is_uppercase) || ["(", "!"].contains(&word(n));
        let import = f.imports.iter().find(|i| i.alias == path[0]);
        if let Some(i) = import {
            if let Some(to) = absolute(files, of, &i.path) {
                found.insert(declares(files, known, &[to, path[1..].to_vec()].concat()));
            }
        } else if let Some(to) = absolute(files, of, &path) {
            found.insert(declares(files, known, &to));
        } else if is_name && !f.own.contains(&path[0]) {
            for i in f.imports.iter().filter(|i| i.alias == "*" && !i.exported) {
                let Some(to) = absolute(files, of, &i.path) else { continue };
                let file = declares(files, known, &[&to[..to.len() - 1], &path[..]].concat());
                if path.iter().any(|w| files[&file].own.contains(w)) {
                    found.insert(file);
                }
            }
        }
    }
    // A module stands before the files below it.
    found.retain(|to| to != of && !to.starts_with(of));
    found
}

fn uses(files: &Files) -> BTreeMap<Name, BTreeSet<Name>> {
    let known = Known::default();
    files.keys().map(|n| (n.clone(), used(files, &known, n))).collect()
}

/// The files that lead to each other.
fn circles(uses: &BTreeMap<Name, BTreeSet<Name>>) -> Vec<Vec<Name>> {
    let reach = |from: &Name| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(at) = open.pop() {
            open.extend(uses.get(&at).into_iter().flatten().filter(|to| seen.insert((*to).clone())).cloned())
        }
        seen
    };
    let all: BTreeMap<&Name, BTreeSet<Name>> = uses.keys().map(|n| (n, reach(n))).collect();
    let mut found: Vec<Vec<Name>> = Vec::new();
    for (n, to) in &all {
        if to.contains(*n) && !found.iter().any(|c| c.contains(n)) {
            found.push(
                all.iter()
                    .filter(|(o, back)| to.contains(**o) && back.contains(*n))
                    .map(|(o, _)| (*o).clone())
                    .collect(),
            )
        }
    }
    found
}

/// Per circle, its files in one text.
fn circles_of(krate: &str) -> Vec<String> {
    let src = root().join("crates").join(krate).join("src");
    let top = ["lib.rs", "main.rs"].map(|f| src.join(f)).into_iter().find(|f| f.exists()).expect("a root");
    let mut files = Files::new();
    load(&top, vec![], &mut files);
    let uses = uses(&files);
    if let Some(shown) = std::env::var_os("SHOW_USES").filter(|k| k == krate) {
        println!("{shown:?}");
        uses.iter().for_each(|(n, to)| {
            println!("{} -> {:?}", n.join("::"), to.iter().map(|t| t.join("::")).collect::<Vec<_>>())
        })
    }
    circles(&uses).iter().map(|c| c.iter().map(|n| n.join("::")).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn circles_are_found() {
    let mut files = Files::new();
    let of = |name: &str| name.split("::").map(str::to_string).collect::<Name>();
    files.insert(vec![], file("mod a; mod b; mod c;"));
    files.insert(of("a"), file("use crate::b::B; pub struct A(B); // crate::c::C"));
    files.insert(
        of("b"),
        file("use super::*; pub struct B(Option<Box<a::A>>); fn s() -> &'static str { \"crate::c\" }"),
    );
    files.insert(of("c"), file("pub(super) struct C(crate::a::A); #[cfg(test)] mod tests { use crate::d; }"));
    let uses = uses(&files);
    assert_eq!(circles(&uses), [[of("a"), of("b")]]);
}

#[test]
fn no_files_use_each_other() {
    let wrong: Vec<String> =
        CRATES.iter().flat_map(|krate| circles_of(krate).into_iter().map(move |c| format!("{krate}: {c}"))).collect();
    assert!(wrong.is_empty(), "move names that these files share into a file of their own:\n{}", wrong.join("\n"));
}
