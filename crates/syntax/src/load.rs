//! Reading files of the world, with a diagnostic for those that cannot be read.

use crate::ast::{FileId, Span};
use crate::diagnostic::Diagnostic;
use crate::source::{SourceMap, World, MAX_FILE};
use std::path::Path;

impl SourceMap {
    /// Reads a file of the world, once: a path already known gives the same id again. `at` is the
    /// `use` that asks.
    pub fn load(&mut self, world: &dyn World, path: &Path, at: Option<Span>) -> Result<FileId, Box<Diagnostic>> {
        if let Some((id, _)) = self.files().find(|(_, f)| f.path == path) {
            return Ok(id);
        }
        let fail = |code, message: String| Box::new(Diagnostic::at(code, at, message));
        let bytes = world.read(path).map_err(|e| fail("E0010", format!("cannot read `{}`: {e}", path.display())))?;
        if bytes.len() > MAX_FILE {
            return Err(fail("E0010", format!("cannot read `{}`: it is larger than 16 MiB", path.display())));
        }
        let text = String::from_utf8(bytes).map_err(|e| {
            let (good, bad) = e.as_bytes().split_at(e.utf8_error().valid_up_to());
            let line = good.split(|b| *b == b'\n').count();
            let before = good.rsplit(|b| *b == b'\n').next().unwrap_or_default();
            let column = String::from_utf8_lossy(before).chars().count() + 1;
            let byte = bad.first().copied().unwrap_or_default();
            fail(
                "E0011",
                format!("`{}` is not UTF-8 text: byte 0x{byte:02x} in line {line}, column {column}", path.display()),
            )
        })?;
        Ok(self.add(path, text))
    }
}
