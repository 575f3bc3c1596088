//! Gives programs other names. In: files that are compiled together. Out: the same files with other
//! names: words of C, macros of its headers, and names like those of generated code. Nothing else
//! changes, so neither may the meaning.
//!
//! One map holds for all files, the library's too, and no two names become one. So whatever a name
//! refers to, all that refers to it follows. Words that the compiler itself knows stay: those that
//! stand in its source as a string.

use crate::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use wireloom_interp::generate::Rng;
use wireloom_ir::c_words::{is_c_word, WORDS};
use wireloom_syntax::ast::{FileId, Ident, ItemKind, TypeKind};
use wireloom_syntax::parser::RESERVED;
use wireloom_syntax::token::Tok;
use wireloom_syntax::{lexer, parse};

/// Macros and functions of C's headers, and of those that generated code includes.
const HEADERS: &[&str] = &[
    "NULL",
    "EOF",
    "BUFSIZ",
    "INT_MAX",
    "UINT8_MAX",
    "UINT64_C",
    "NAN",
    "INFINITY",
    "EINTR",
    "SIGINT",
    "FILE",
    "DIR",
    "CHAR_BIT",
    "FD_SET",
    "LINE_MAX",
    "memcpy",
    "memset",
    "memcmp",
    "strlen",
    "malloc",
    "free",
    "abort",
    "exit",
    "read",
    "write",
    "send",
    "time",
    "signal",
    "index",
    "uint8_t",
    "size_t",
    "uint64_t",
    "ssize_t",
    "div",
    "log2",
    "y0",
    "j1",
    "y1",
    "gamma",
    "round",
    "floor",
    "WL_HAS",
    "WL_INLINE",
    "WL_LIKELY",
    "WL_UNLIKELY",
    "FAIL",
    "WL_MORE",
];

/// Names of generated code's own.
const OWN: &[&str] = &[
    "wl_core",
    "wl_fx",
    "wl_msg",
    "wl_parser",
    "wl_frame",
    "wl_x",
    "fn_f",
    "on_f",
    "r_f",
    "s_f",
    "t_f",
    "v_f",
    "eq_f",
    "hash_f",
    "put_f",
    "get_f",
    "keep_f",
    "list_of_f",
    "view_f",
    "set_f",
    "is_f",
    "u__f_",
    "v__f_0",
    "p__f",
    "f_0",
    "f_1",
    "x_0",
    "x_1",
    "t_0",
    "n_",
    "dl",
    "pos",
    "eof",
    "buf",
    "core",
    "out_",
    "base",
    "self_",
    "f_view",
    "f_tail",
    "f_headers",
    "F_view",
    "F_tail",
    "F_",
    "f_",
    "f__0v",
    "int__0v",
    "x__0x5f78",
    "int_",
    "int__0v_",
    "EOF_",
    "NULL__0v",
    "L0_f",
    "again_1",
    "done",
    "h",
    "v",
    "x",
    "p",
    "m",
    "fx",
    "at_",
    "is_0",
    "acc",
    "covers",
    "miss",
];

/// Words that the compiler knows.
pub fn known() -> BTreeSet<String> {
    let mut all: BTreeSet<String> = wireloom_ir::ops::functions().map(|f| f.name().to_string()).collect();
    let mut left: Vec<PathBuf> =
        ["syntax", "lang", "ir", "runtime"].iter().map(|c| root().join("crates").join(c).join("src")).collect();
    while let Some(path) = left.pop() {
        match std::fs::read_to_string(&path) {
            Err(_) => left.extend(std::fs::read_dir(&path).into_iter().flatten().flatten().map(|e| e.path())),
            // Those it must be able to give away.
            Ok(_) if path.ends_with("c_words.rs") => {}
            Ok(text) => all.extend(text.split('"').filter(|w| is_name(w)).map(str::to_string)),
        }
    }
    all
}

/// `u24`, `i32`: any width is a type.
fn is_integer(name: &str) -> bool {
    name.strip_prefix(['u', 'i']).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The words of a text that are neither in strings nor in comments.
fn words(text: &str) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let tokens = lexer::lex(FileId(0), text, &mut Vec::new()).tokens;
    tokens.into_iter().filter(|t| t.tok == Tok::Word).map(|t| t.span.start as usize..t.span.end as usize)
}

/// The names in a file, as the parser finds them.
fn names(text: &str) -> BTreeSet<String> {
    let shown = format!("{:?}", parse(FileId(0), text).file);
    shown
        .split("Ident { name: \"")
        .skip(1)
        .filter_map(|t| t.split('"').next())
        .filter(|n| is_name(n))
        .map(str::to_string)
        .collect()
}

/// Names that are seen from outside: variants that are written as they are called.
fn shown(text: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for item in parse(FileId(0), text).file.items {
        let ItemKind::Enum { base: Some(base), variants, .. } = item.kind else { continue };
        let bytes = matches!(&base.kind, TypeKind::Named { path, .. } if path.parts.last().is_some_and(|p: &Ident| matches!(p.name.as_str(), "bytes" | "text" | "token")));
        if bytes {
            all.extend(variants.into_iter().filter(|v| v.value.is_none()).map(|v| v.name.name))
        }
    }
    all
}

/// A field without a name is called after its unit: `MetaValue` gives `meta_value`.
fn snake(name: &str) -> String {
    let lower = |(i, c): (usize, char)| {
        if c.is_ascii_uppercase() && i > 0 {
            format!("_{}", c.to_ascii_lowercase())
        } else {
            c.to_ascii_lowercase().to_string()
        }
    };
    name.chars().enumerate().map(lower).collect()
}

/// Other names for what these files name.
pub fn map(files: &[(PathBuf, String)], known: &BTreeSet<String>, seed: u64) -> BTreeMap<String, String> {
    let mut rng = Rng::new(seed);
    let there: BTreeSet<String> = files.iter().flat_map(|(_, t)| words(t).map(|r| t[r].to_string())).collect();
    let modules: BTreeSet<String> =
        files.iter().filter_map(|(p, _)| Some(p.file_stem()?.to_string_lossy().into_owned())).collect();
    let outside: BTreeSet<String> = files.iter().flat_map(|(_, t)| shown(t)).collect();
    let stays = |n: &String| {
        is_integer(n) || known.contains(n) || modules.contains(n) || outside.contains(n) || n.starts_with('_')
    };
    let all: BTreeSet<String> = files.iter().flat_map(|(_, t)| names(t)).filter(|n| !stays(n)).collect();
    let derived = |n: &String| snake(n) != *n && there.contains(&snake(n));
    let from_units: BTreeSet<String> = all.iter().filter(|n| derived(n)).flat_map(|n| [n.clone(), snake(n)]).collect();
    let mut from: Vec<String> = all.difference(&from_units).cloned().collect();
    // A block that is one of these leaves a loop.
    let leaves = |n: &str| matches!(n, "break" | "continue");
    let free = |n: &&&str| {
        !leaves(n) && !there.contains(**n) && !RESERVED.contains(*n) && (!known.contains(**n) || is_c_word(n))
    };
    let mut to: Vec<String> = WORDS.iter().chain(HEADERS).chain(OWN).filter(free).map(|n| n.to_string()).collect();
    shuffle(&mut from, &mut rng);
    shuffle(&mut to, &mut rng);
    let more: Vec<String> = to
        .iter()
        .flat_map(|n| [format!("{n}_"), format!("{n}_view"), format!("t_{n}"), format!("fn_{n}_0"), format!("{n}__1")])
        .filter(|n| !there.contains(n))
        .collect();
    to.extend(more);
    let mut taken = BTreeSet::new();
    to.retain(|n| taken.insert(n.clone()));
    from.into_iter().zip(to).collect()
}

fn shuffle(list: &mut [String], rng: &mut Rng) {
    for i in (1..list.len()).rev() {
        list.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

/// A text with other names.
pub fn renamed(text: &str, map: &BTreeMap<String, String>) -> String {
    let (mut out, mut end) = (String::new(), 0);
    for word in words(text) {
        out.push_str(&text[end..word.start]);
        let name = &text[word.clone()];
        out.push_str(map.get(name).map_or(name, String::as_str));
        end = word.end;
    }
    out + &text[end..]
}
