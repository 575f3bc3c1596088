//! A page of documentation as its blocks of code, and how one is written anew.

use std::path::{Path, PathBuf};

/// A fenced block: ```` ```loom,test,file=lines.loom ````.
pub struct Block {
    /// The line of the opening fence, from 1.
    pub line: usize,
    /// `loom`, `sh`, …
    pub language: String,
    /// The words behind the language: `test`, `error=E0301`.
    pub marks: Vec<(String, String)>,
    pub text: String,
}

impl Block {
    pub fn mark(&self, name: &str) -> Option<&str> {
        self.marks.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

pub struct Page {
    pub path: PathBuf,
    pub text: String,
    pub blocks: Vec<Block>,
}

impl Page {
    pub fn read(path: &Path) -> Page {
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut blocks = Vec::new();
        let mut open: Option<Block> = None;
        for (n, line) in text.lines().enumerate() {
            match (&mut open, line.strip_prefix("```")) {
                (None, Some(info)) => open = Some(begin(n + 1, info)),
                (Some(_), Some("")) => blocks.extend(open.take()),
                (Some(block), _) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        if let Some(block) = open {
            panic!("{}:{}: a block without an end", path.display(), block.line);
        }
        Page { path: path.to_path_buf(), text, blocks }
    }

    /// The page with other text in some of its blocks.
    pub fn rewrite(&self, changed: &[(usize, String)]) {
        let mut out = String::new();
        let mut skip = false;
        for (n, line) in self.text.lines().enumerate() {
            skip &= line != "```";
            if skip {
                continue;
            }
            out.push_str(line);
            out.push('\n');
            if let Some((_, text)) = changed.iter().find(|(at, _)| *at == n + 1) {
                out.push_str(text);
                skip = true;
            }
        }
        std::fs::write(&self.path, out).expect("the page is writable");
    }
}

fn begin(line: usize, info: &str) -> Block {
    let mut words = info.trim().split(',').map(str::trim);
    let language = words.next().unwrap_or("").to_string();
    let marks =
        words.map(|w| w.split_once('=').unwrap_or((w, ""))).map(|(n, v)| (n.to_string(), v.to_string())).collect();
    Block { line, language, marks, text: String::new() }
}

/// Whether the output matches the page: `…` in a line stands for any text, a line of its own for
/// any lines.
pub fn matches(shown: &[&str], said: &[&str]) -> bool {
    match (shown.split_first(), said.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first.trim() == "…" => (0..=said.len()).any(|n| matches(rest, &said[n..])),
        (Some((first, shown)), Some((line, said))) => {
            line_matches(first.trim_end(), line.trim_end()) && matches(shown, said)
        }
        _ => false,
    }
}

fn line_matches(shown: &str, said: &str) -> bool {
    let Some((before, after)) = shown.split_once('…') else { return shown == said };
    let Some(rest) = said.strip_prefix(before) else { return false };
    let ends = rest.char_indices().map(|(i, _)| i).chain([rest.len()]);
    ends.into_iter().any(|i| line_matches(after, &rest[i..]))
}
