//! Where source text comes from, and where in it a span lies.

use crate::ast::{FileId, Span};
use crate::diagnostic::Diagnostic;
use std::collections::BTreeMap;
use std::io;
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

    /// The file that `use a.b` means when written in a file of the folder `from`: the user's folder first, then the
    /// standard library (there a leading `std` is the root itself). When the path names something inside a module
    /// (`use std.http.Request`), the longest prefix that is a file wins. Gives the file and how many parts it took.
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
        let size = std::fs::metadata(path)?.len();
        if size > MAX_FILE as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is larger than 16 MiB"));
        }
        std::fs::read(path)
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

    /// Takes a text in under a name. A text over [`MAX_FILE`] is cut there (loading refuses it before).
    pub fn add(&mut self, path: impl Into<PathBuf>, text: impl Into<String>) -> FileId {
        let mut text = text.into();
        if text.len() > MAX_FILE {
            let end = (0..=MAX_FILE).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
            text.truncate(end);
        }
        let starts = text.bytes().enumerate().filter(|&(_, b)| b == b'\n').map(|(i, _)| i as u32 + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        self.files.push(Source { path: path.into(), text, lines });
        FileId(self.files.len() as u32 - 1)
    }

    /// Reads a file of the world, once: a path already known gives the same id again. `at` is the `use` that asks.
    pub fn load(&mut self, world: &dyn World, path: &Path, at: Option<Span>) -> Result<FileId, Box<Diagnostic>> {
        if let Some(id) = self.files.iter().position(|f| f.path == path) {
            return Ok(FileId(id as u32));
        }
        let fail = |code, message: String| Box::new(Diagnostic::at(code, at, message));
        let bytes =
            world.read(path).map_err(|e| fail("E0010", format!("cannot read `{}`: {e}", path.display())))?;
        if bytes.len() > MAX_FILE {
            return Err(fail("E0010", format!("cannot read `{}`: it is larger than 16 MiB", path.display())));
        }
        let text = String::from_utf8(bytes).map_err(|e| {
            let offset = e.utf8_error().valid_up_to();
            fail("E0011", format!("`{}` is not UTF-8 text (at byte {offset})", path.display()))
        })?;
        Ok(self.add(path, text))
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
        let path = self.file(span.file).map(|f| f.path.display().to_string()).unwrap_or_default();
        format!("{path}:{}:{}", at.line, at.column)
    }
}

impl Source {
    /// Line and column of an offset; an offset past the end is the end.
    pub fn position(&self, offset: u32) -> Position {
        let offset = offset.min(self.text.len() as u32);
        let line = self.lines.partition_point(|&start| start <= offset);
        let start = self.lines[line - 1] as usize;
        let column = self.text.get(start..offset as usize).map_or(1, |s| s.chars().count() + 1);
        Position { line, column }
    }

    /// The text of a line (from 1) without its end.
    pub fn line(&self, line: usize) -> &str {
        let Some(&start) = line.checked_sub(1).and_then(|i| self.lines.get(i)) else { return "" };
        let end = self.lines.get(line).map_or(self.text.len(), |&next| next as usize);
        self.text[start as usize..end].trim_end_matches(['\n', '\r'])
    }

    pub fn line_count(&self) -> usize {
        self.lines.len()
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
