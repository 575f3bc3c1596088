//! Properties of every program: formatting twice is formatting once, and no text makes the parser
//! panic.

use std::path::PathBuf;
use wireloom_syntax::diagnostic::render_all;
use wireloom_syntax::format::without_spans;
use wireloom_syntax::{format, parse, SourceMap};

const MARK: &str = "\n//= ";

/// The program itself.
fn source(text: &str) -> &str {
    &text[..text.find(MARK).map_or(text.len(), |at| at + 1)]
}

/// The cases', the library's and the apps' programs: real text for the properties below.
fn programs() -> Vec<String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts = Vec::new();
    for folder in ["crates/syntax/tests/cases", "std", "apps"] {
        for path in wireloom_golden::files(&root.join(folder), "loom") {
            let text = std::fs::read_to_string(path).unwrap();
            texts.push(source(&text).to_string());
        }
    }
    texts
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
            let shuffled: String =
                text.chars().map(|c| if c == ' ' && random.below(12) == 0 { '\n' } else { c }).collect();
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
    let pieces = [
        "{", "}", "(", ")", "[", "]", "<", "\"", "'", "else", "=>", "->", "until", "|", ".", "\n", "//", "in", "::",
        "1.2.3.", "é", "switch", "if", "match", "for", "\\",
    ];
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
