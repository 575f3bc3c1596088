//! Where source text comes from, and the file and line of a span.

use crate::ast::{FileId, Span};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// No source file may be larger: spans are 32 bits wide, and nobody writes such a file by hand.
pub const MAX_FILE: usize = 16 << 20;

/// All input the compiler does, so that tests and the language server can stand in for the disk.
pub trait World {
    /// The bytes of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Whether there is such a file.
    fn exists(&self, path: &Path) -> bool;

    /// The folder that `use std.…` looks into.
    fn std_root(&self) -> &Path;

    /// The file that `use a.b` means when written in a file of the folder `from`. The user's folder
    /// comes first, then the standard library (there a leading `std` is the root itself). If the
    /// path names something inside a module (`use std.http.Request`), the longest prefix that is a
    /// file wins. Returns the file and how many parts it took.
    fn resolve(&self, from: &Path, parts: &[&str]) -> Option<(PathBuf, usize)> {
        (1..=parts.len()).rev().find_map(|taken| {
            candidates(from, self.std_root(), &parts[..taken])
                .into_iter()
                .find(|path| self.exists(path))
                .map(|path| (path, taken))
        })
    }
}

/// The files a module's name may stand for, best first.
fn candidates(from: &Path, std_root: &Path, parts: &[&str]) -> Vec<PathBuf> {
    let mut found = vec![module_file(from, parts)];
    match parts {
        ["std", rest @ ..] if !rest.is_empty() => found.push(module_file(std_root, rest)),
        ["std"] => {}
        _ => found.push(module_file(std_root, parts)),
    }
    found
}

fn module_file(root: &Path, parts: &[&str]) -> PathBuf {
    let mut path = root.to_path_buf();
    path.extend(parts);
    path.set_extension("loom");
    path
}

/// The world of the operating system's files.
pub struct OsWorld {
    std_root: PathBuf,
}

impl OsWorld {
    pub fn new(std_root: impl Into<PathBuf>) -> Self {
        OsWorld { std_root: std_root.into() }
    }
}

impl World for OsWorld {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        // Opening one waits until another process writes to it. That of a shell's `<(…)` is a link.
        if std::fs::symlink_metadata(path)?.file_type().is_fifo() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a named pipe is no source file"));
        }
        // A device may have no end.
        std::fs::File::open(path)?.take(MAX_FILE as u64 + 1).read_to_end(&mut text)?;
        if text.len() > MAX_FILE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is larger than 16 MiB"));
        }
        Ok(text)
    }

    fn exists(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn std_root(&self) -> &Path {
        &self.std_root
    }
}

/// A world of files held in memory; its standard library lies in `/std`.
#[derive(Default)]
pub struct MemoryWorld {
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl MemoryWorld {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn with(mut self, path: impl Into<PathBuf>, text: impl Into<Vec<u8>>) -> Self {
        self.add(path, text);
        self
    }

    pub fn add(&mut self, path: impl Into<PathBuf>, text: impl Into<Vec<u8>>) {
        self.files.insert(path.into(), text.into());
    }
}

impl World for MemoryWorld {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn exists(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    fn std_root(&self) -> &Path {
        Path::new("/std")
    }
}

/// One source file.
pub struct Source {
    pub path: PathBuf,
    pub text: String,
    /// Where each line starts.
    lines: Vec<u32>,
    /// The number of characters before each block of [`BLOCK`] bytes. A line may be as long as the
    /// file, and have thousands of diagnostics.
    characters: Vec<u32>,
}

/// Where the built-in library pretends to lie; no such folder exists.
pub const BUILT_IN: &str = "/<wireloom>";

const BLOCK: usize = 256;

impl Source {
    /// The name that people see: `std/http.loom` for a file of the built-in library.
    pub fn shown(&self) -> String {
        self.path.strip_prefix(BUILT_IN).unwrap_or(&self.path).display().to_string()
    }
}

/// Characters that begin in these bytes of a text.
fn begin_in(bytes: &[u8]) -> usize {
    bytes.iter().filter(|b| **b & 0xc0 != 0x80).count()
}

/// A place for people: both count from 1; the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// All files of one run of the compiler, by [`FileId`].
#[derive(Default)]
pub struct SourceMap {
    files: Vec<Source>,
}

impl SourceMap {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a text in under a name. A text over [`MAX_FILE`] is cut there (loading refuses it
    /// before).
    pub fn add(&mut self, path: impl Into<PathBuf>, text: impl Into<String>) -> FileId {
        let mut text = text.into();
        if text.len() > MAX_FILE {
            let end = (0..=MAX_FILE).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
            text.truncate(end);
        }
        let starts = text.bytes().enumerate().filter(|&(_, b)| b == b'\n').map(|(i, _)| i as u32 + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        let before = |all: &mut u32, block: &[u8]| {
            *all += begin_in(block) as u32;
            Some(*all)
        };
        let characters = std::iter::once(0).chain(text.as_bytes().chunks(BLOCK).scan(0, before)).collect();
        self.files.push(Source { path: path.into(), text, lines, characters });
        FileId(self.files.len() as u32 - 1)
    }

    pub fn file(&self, id: FileId) -> Option<&Source> {
        self.files.get(id.0 as usize)
    }

    pub fn files(&self) -> impl Iterator<Item = (FileId, &Source)> {
        self.files.iter().enumerate().map(|(i, f)| (FileId(i as u32), f))
    }

    /// The text of a span; empty when the span lies outside of its file.
    pub fn text(&self, span: Span) -> &str {
        self.file(span.file).and_then(|f| f.text.get(span.start as usize..span.end as usize)).unwrap_or("")
    }

    /// Line and column where a span starts.
    pub fn position(&self, span: Span) -> Position {
        self.file(span.file).map_or(Position { line: 1, column: 1 }, |f| f.position(span.start))
    }

    /// `path:line:column`
    pub fn describe(&self, span: Span) -> String {
        let at = self.position(span);
        let path = self.file(span.file).map(Source::shown).unwrap_or_default();
        format!("{path}:{}:{}", at.line, at.column)
    }
}

impl Source {
    /// Line and column of an offset; an offset past the end is the end.
    pub fn position(&self, offset: u32) -> Position {
        let offset = offset.min(self.text.len() as u32);
        let line = self.lines.partition_point(|&start| start <= offset);
        let start = self.lines[line - 1] as usize;
        Position { line, column: self.characters_before(offset as usize) - self.characters_before(start) + 1 }
    }

    /// Characters that begin before an offset.
    fn characters_before(&self, offset: usize) -> usize {
        let block = (offset / BLOCK).min(self.characters.len().saturating_sub(1));
        let known = self.characters.get(block).map_or(0, |n| *n as usize);
        known + begin_in(&self.text.as_bytes()[(block * BLOCK).min(offset)..offset])
    }

    /// Where so many characters have begun.
    fn offset_behind(&self, characters: usize) -> usize {
        let block = self.characters.partition_point(|n| *n as usize <= characters).saturating_sub(1);
        let from = (block * BLOCK).min(self.text.len());
        let more = characters - self.characters.get(block).map_or(0, |n| *n as usize);
        let starts = self.text.as_bytes()[from..].iter().enumerate().filter(|(_, b)| **b & 0xc0 != 0x80);
        starts.map(|(i, _)| from + i).nth(more).unwrap_or(self.text.len())
    }

    /// How many characters a line has.
    pub fn line_length(&self, line: usize) -> usize {
        let text = self.line(line);
        match self.line_start(line) {
            Some(start) => self.characters_before(start + text.len()) - self.characters_before(start),
            None => 0,
        }
    }

    /// A line without so many of its first characters.
    pub fn line_behind(&self, line: usize, skip: usize) -> &str {
        let (text, Some(start)) = (self.line(line), self.line_start(line)) else { return "" };
        let from = self.offset_behind(self.characters_before(start) + skip) - start;
        text.get(from..).unwrap_or("")
    }

    fn line_start(&self, line: usize) -> Option<usize> {
        line.checked_sub(1).and_then(|i| self.lines.get(i)).map(|start| *start as usize)
    }

    /// The text of a line (from 1) without its end.
    pub fn line(&self, line: usize) -> &str {
        let Some(start) = self.line_start(line) else { return "" };
        let end = self.lines.get(line).map_or(self.text.len(), |&next| next as usize);
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let mut map = SourceMap::new();
        let file = map.add("a.loom", "äb\ncd\n");
        let at = |start| map.position(Span { file, start, end: start });
        assert_eq!(at(2), Position { line: 1, column: 2 });
        assert_eq!(at(5), Position { line: 2, column: 2 });
        assert_eq!(at(99), Position { line: 3, column: 1 });
        assert_eq!(map.file(file).map(|f| f.line(1)), Some("äb"));
    }

    /// The result of the index of characters, counted one by one.
    #[test]
    fn long_lines_have_places() {
        let lines: Vec<String> = (0..5).map(|i| "aé€😀\t".repeat([0, 1, 51, 200, 3][i])).collect();
        for text in [lines.join("\n"), lines.join("\r\n"), String::new()] {
            let mut map = SourceMap::new();
            let id = map.add("a.loom", text.clone());
            let file = map.file(id).expect("it was added");
            for (at, _) in text.char_indices().chain([(text.len(), ' ')]) {
                let line = text[..at].matches('\n').count() + 1;
                let column = text[..at].chars().rev().take_while(|c| *c != '\n').count() + 1;
                assert_eq!(file.position(at as u32), Position { line, column });
                let behind: String = file.line(line).chars().skip(column - 1).collect();
                assert_eq!(file.line_behind(line, column - 1), behind, "{line}:{column}");
            }
            for line in 0..8 {
                assert_eq!(file.line_length(line), file.line(line).chars().count(), "{line}");
                assert_eq!(file.line_behind(line, 10_000), "");
            }
        }
    }

    #[test]
    fn a_use_finds_the_users_file_before_the_standard_one() {
        let world = MemoryWorld::new().with("/std/http.loom", "").with("/std/kv.loom", "").with("/app/kv.loom", "");
        let find = |parts: &[&str]| world.resolve(Path::new("/app"), parts);
        assert_eq!(find(&["kv"]), Some(("/app/kv.loom".into(), 1)));
        assert_eq!(find(&["std", "kv"]), Some(("/std/kv.loom".into(), 2)));
        assert_eq!(find(&["std", "http", "Request"]), Some(("/std/http.loom".into(), 2)));
        assert_eq!(find(&["nothing"]), None);
    }

    #[test]
    fn bytes_that_are_not_text_are_refused() {
        let world = MemoryWorld::new().with("/a.loom", vec![b'a', 0xff]);
        let error = SourceMap::new().load(&world, Path::new("/a.loom"), None).unwrap_err();
        assert_eq!(error.code, "E0011");
    }
}
