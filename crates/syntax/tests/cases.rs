//! Golden tests: each file of `cases/` ends in comments with what parsing it gives: its diagnostics if there are any,
//! else its tree without spans; after it what the formatter makes of it, if that differs. `BLESS=1` writes them anew.

use std::path::PathBuf;
use wireloom_syntax::diagnostic::render_all;
use wireloom_syntax::format::without_spans;
use wireloom_syntax::{format, parse, SourceMap};

const MARK: &str = "\n//= ";

fn cases() -> Vec<(PathBuf, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|p| (p.clone(), std::fs::read_to_string(p).unwrap())).collect()
}

/// The program itself.
fn source(text: &str) -> &str {
    &text[..text.find(MARK).map_or(text.len(), |at| at + 1)]
}

/// The library's and the apps' programs: real text for the properties below.
fn programs() -> Vec<String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts: Vec<String> = cases().iter().map(|(_, t)| source(t).to_string()).collect();
    for folder in ["std", "apps"] {
        let Ok(entries) = std::fs::read_dir(root.join(folder)) else { continue };
        let paths = entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "loom"));
        texts.extend(paths.filter_map(|p| std::fs::read_to_string(p).ok()));
    }
    texts
}

fn outcome(name: &str, text: &str) -> String {
    let mut map = SourceMap::new();
    let id = map.add(name, text);
    let parsed = parse(id, text);
    let mut out = String::new();
    if !parsed.diagnostics.is_empty() {
        out.push_str(&render_all(&parsed.diagnostics, &map, false));
        return out;
    }
    for item in &parsed.file.items {
        out.push_str(&without_spans(&format!("{:?}\n", item.kind)).replace("span: @", "").replace("Ident { name: ", "{"));
    }
    let formatted = format(text).unwrap();
    if formatted != text {
        out.push_str("---- formatted\n");
        out.push_str(&formatted);
    }
    out
}

#[test]
fn golden() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = Vec::new();
    for (path, text) in cases() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let program = source(&text);
        let marked: String = outcome(&name, program).lines().map(|l| format!("//= {l}\n")).collect();
        let whole = format!("{program}{marked}");
        if bless {
            std::fs::write(&path, whole).unwrap();
        } else if whole != text {
            let line = whole.lines().zip(text.lines()).position(|(a, b)| a != b).unwrap_or(0);
            wrong.push(format!("{name}: line {}: {:?}", line + 1, whole.lines().nth(line)));
        }
    }
    assert!(wrong.is_empty(), "run with BLESS=1 after checking:\n{}", wrong.join("\n"));
}

#[test]
fn formatting_twice_is_formatting_once_and_keeps_the_tree() {
    let tree = |text: &str| without_spans(&format!("{:?}", parse(Default::default(), text).file));
    for text in programs() {
        let Ok(once) = format(&text) else { continue };
        assert_eq!(format(&once).unwrap(), once);
        assert_eq!(tree(&once), tree(&text));
        assert_eq!(once.matches("//").count(), text.matches("//").count());
    }
}

/// Joining and breaking lines at random never breaks the two properties either.
#[test]
fn formatting_holds_for_shuffled_line_breaks() {
    let mut random = Random(7);
    for text in programs() {
        for _ in 0..8 {
            let shuffled: String = text
                .chars()
                .map(|c| if c == ' ' && random.below(12) == 0 { '\n' } else { c })
                .collect();
            if let Ok(once) = format(&shuffled) {
                assert_eq!(format(&once).unwrap(), once, "of:\n{shuffled}");
            }
        }
    }
}

/// A small generator, the same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

#[test]
fn mutated_and_cut_programs_neither_panic_nor_hang() {
    let mut random = Random(42);
    let pieces = ["{", "}", "(", ")", "[", "]", "<", "\"", "'", "else", "=>", "->", "until", "|", ".", "\n", "//", "in", "::", "1.2.3.", "é", "switch", "if", "match", "for", "\\"];
    for text in programs() {
        for _ in 0..60 {
            let mut bytes = text.clone().into_bytes();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len());
                match random.below(4) {
                    0 => bytes.truncate(at),
                    1 => drop(bytes.drain(at..(at + random.below(40)).min(bytes.len()))),
                    2 => drop(bytes.splice(at..at, pieces[random.below(pieces.len())].bytes())),
                    _ => {
                        let from = random.below(bytes.len());
                        let part = bytes[from..(from + random.below(60)).min(bytes.len())].to_vec();
                        drop(bytes.splice(at..at, part));
                    }
                }
            }
            let mutated = String::from_utf8_lossy(&bytes).into_owned();
            let mut map = SourceMap::new();
            let id = map.add("mutated.loom", mutated.clone());
            let parsed = parse(id, &mutated);
            render_all(&parsed.diagnostics, &map, true);
            parsed.diagnostics.iter().for_each(|d| drop(d.to_json(&map)));
            if let Ok(once) = format(&mutated) {
                assert_eq!(format(&once).unwrap(), once, "of:\n{mutated}");
            }
        }
    }
}

#[test]
fn every_code_has_a_program_that_shows_it() {
    for code in wireloom_syntax::codes::syntax::CODES.iter().filter(|c| !c.example.is_empty()) {
        let parsed = parse(Default::default(), code.example);
        assert!(parsed.diagnostics.iter().any(|d| d.code == code.code), "{}: {:?}", code.code, parsed.diagnostics);
    }
}
