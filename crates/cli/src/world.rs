//! The compiler's view of the disk: the user's files, and a standard library that is part of the
//! binary.
//!
//! `WIRELOOM_STD` names a folder that replaces the built-in library. It serves work on the library
//! itself.

use std::io;
use std::path::{Path, PathBuf};
use wireloom_syntax::source::{OsWorld, World, BUILT_IN};

mod files {
    include!(concat!(env!("OUT_DIR"), "/std_files.rs"));
}

const LIBRARY: &str = "WIRELOOM_STD";

/// A mistyped folder of the library would make errors of each of its uses.
pub fn check_library() -> Result<(), String> {
    match std::env::var_os(LIBRARY).map(PathBuf::from) {
        Some(folder) if !folder.is_dir() => {
            Err(format!("the environment's `{LIBRARY}={}` is no folder", folder.display()))
        }
        _ => Ok(()),
    }
}

pub struct CliWorld {
    disk: OsWorld,
}

impl CliWorld {
    pub fn new() -> Self {
        let root = std::env::var_os(LIBRARY).map_or_else(|| Path::new(BUILT_IN).join("std"), PathBuf::from);
        CliWorld { disk: OsWorld::new(root) }
    }
}

fn built_in(path: &Path) -> Option<&'static str> {
    let name = path.strip_prefix(BUILT_IN).ok()?.strip_prefix("std").ok()?.to_str()?;
    files::FILES.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// The modules of the built-in library: `std.http`.
pub fn library() -> Vec<String> {
    files::FILES
        .iter()
        .filter_map(|(n, _)| Some(format!("std.{}", n.strip_suffix(".loom")?.replace('/', "."))))
        .collect()
}

impl World for CliWorld {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match built_in(path) {
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => self.disk.read(path),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        built_in(path).is_some() || self.disk.exists(path)
    }

    fn std_root(&self) -> &Path {
        self.disk.std_root()
    }
}
