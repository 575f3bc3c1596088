//! The objects of C files with `extern` functions.
//!
//! In: the files, and the functions that a program calls. Out: objects in which these have names
//! that no other code has ([`crate::names::extern_symbol`]). Otherwise a function that is called
//! like one of the generated code or of the C library would be taken for it.

use crate::compile::{CompileError, Job};
use crate::names::extern_symbol;
use object::elf::{FileHeader64, SectionHeader64, Sym64, SHT_SYMTAB, STB_LOCAL};
use object::pod::{bytes_of, Pod};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, U32, U64};
use std::io;
use std::process::Command;

impl Job<'_> {
    /// Compiles the files; `of`: the name of the result that they are for.
    pub(crate) fn extern_objects(&self, of: &str) -> Result<Vec<String>, CompileError> {
        let mut objects = Vec::new();
        for (n, file) in self.externs.iter().enumerate() {
            let object = format!("{of}.extern{n}.o");
            objects.push(object.clone());
            let made = self
                .run(self.extern_command(&object).arg(file))
                .and_then(|_| self.rename(&object).map_err(|e| self.io(&object, e)));
            if let Err(e) = made {
                objects.iter().for_each(|o| self.folder.remove(o));
                return Err(e);
            }
        }
        Ok(objects)
    }

    /// The compiler, to make an object of such a file. It knows more of `exit` and its kin than
    /// their files say.
    pub(crate) fn extern_command(&self, out: &str) -> Command {
        let mut command = self.object_command(out);
        command.args(self.source.extern_names.iter().map(|n| format!("-fno-builtin-{n}")));
        command
    }

    /// Gives the functions that are called their own names, where the object defines or uses them.
    fn rename(&self, object: &str) -> io::Result<()> {
        let bytes = self.folder.read(object)?.ok_or(io::ErrorKind::NotFound)?;
        let bad = |e: object::Error| io::Error::new(io::ErrorKind::InvalidData, e.to_string());
        match renamed(&bytes, &self.source.extern_names).map_err(bad)? {
            Some(new) => self.folder.write(object, &new),
            None => Ok(()),
        }
    }
}

/// An object with other names for the global symbols of these names; none: it has no such symbol.
/// The new names stand behind a copy of its string table, at the end of the file.
fn renamed(bytes: &[u8], names: &[String]) -> object::Result<Option<Vec<u8>>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let symbols = sections.symbols(endian, bytes, SHT_SYMTAB)?;
    let (table, strings) = (symbols.section(), symbols.string_section());
    let (table, old) = (sections.section(table)?, sections.section(strings)?);
    let mut new_strings = old.data(endian, bytes)?.to_vec();
    let mut out = bytes.to_vec();
    for (index, symbol) in symbols.enumerate() {
        let name = symbols.symbol_name(endian, symbol)?;
        let called = names.iter().find(|n| n.as_bytes() == name).filter(|_| symbol.st_bind() != STB_LOCAL);
        let Some(called) = called else { continue };
        // The name is a symbol's first member.
        let at = table.sh_offset(endian) as usize + index.0 * size_of::<Sym64<Endianness>>();
        put(&mut out, at, &U32::new(endian, new_strings.len() as u32));
        new_strings.extend(extern_symbol(called).bytes().chain([0]));
    }
    if new_strings.len() as u64 == old.sh_size(endian) {
        return Ok(None);
    }
    let mut moved = *old;
    moved.sh_offset = U64::new(endian, out.len() as u64);
    moved.sh_size = U64::new(endian, new_strings.len() as u64);
    let at = header.e_shoff(endian) as usize + strings.0 * size_of::<SectionHeader64<Endianness>>();
    put(&mut out, at, &moved);
    out.extend(new_strings);
    Ok(Some(out))
}

/// Writes a part of an object over what is there.
fn put<T: Pod>(out: &mut [u8], at: usize, part: &T) {
    let part = bytes_of(part);
    out[at..at + part.len()].copy_from_slice(part);
}
