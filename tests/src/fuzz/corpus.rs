//! The programs of the repository, and the world that they are compiled in. These are the library,
//! the apps, the examples, the documentation's blocks and the examples of all codes. The cases of
//! the checker's and the parser's own tests count, too.

use crate::root;
use std::path::{Path, PathBuf};
use wireloom_syntax::{codes, MemoryWorld};

pub struct Program {
    pub name: String,
    pub text: String,
    /// Where it lies in the world: a module of the library stays where the others find it.
    pub path: PathBuf,
}

/// Where every other program is put.
pub const MAIN: &str = "/app/main.loom";

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == extension)).collect();
    found.sort();
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The blocks of Wireloom of a page: what stands behind `loom` in the fence, and the text.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```loom")) {
            (None, Some(marks)) => open = Some((marks.to_string(), String::new())),
            (Some(_), _) if line == "```" => found.extend(open.take()),
            (Some((_, text)), _) => {
                text.push_str(line);
                text.push('\n');
            }
            _ => {}
        }
    }
    found
}

fn pages() -> Vec<(String, Vec<(String, String)>)> {
    ["docs", "examples"].iter().flat_map(|d| files(d, "md")).map(|p| (stem(&p), blocks(&read(&p)))).collect()
}

pub fn programs() -> Vec<Program> {
    let main = |name: String, text: String| Program { name, text, path: MAIN.into() };
    let library = files("std", "loom").into_iter().map(|p| Program {
        name: format!("std.{}", stem(&p)),
        text: read(&p),
        path: Path::new("/std").join(p.file_name().unwrap_or_default()),
    });
    let folders = ["apps", "examples", "crates/lang/tests/cases", "crates/syntax/tests/cases"];
    let others = folders.iter().flat_map(|f| files(f, "loom")).map(|p| main(p.display().to_string(), read(&p)));
    let documented = pages().into_iter().flat_map(|(page, blocks)| {
        blocks.into_iter().enumerate().map(move |(i, (_, text))| Program {
            name: format!("{page}.md, block {i}"),
            text,
            path: MAIN.into(),
        })
    });
    let examples =
        codes::all().filter(|c| !c.example.is_empty()).map(|c| main(c.code.to_string(), c.example.to_string()));
    library.chain(others).chain(documented).chain(examples).collect()
}

/// The library, and the modules that the documentation's programs use.
pub fn world() -> MemoryWorld {
    let mut world = MemoryWorld::new();
    for p in files("std", "loom") {
        world.add(Path::new("/std").join(p.file_name().unwrap_or_default()), read(&p));
    }
    for (marks, text) in pages().into_iter().flat_map(|p| p.1) {
        if let Some(name) = marks.split(',').find_map(|m| m.strip_prefix("file=")) {
            world.add(Path::new("/app").join(name), text);
        }
    }
    world
}
