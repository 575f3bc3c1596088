//! From C to a BPF object, by clang.

use crate::Error;
use std::fs;
use std::process::Command;
use wireloom_codegen_c::xdp::{XdpSource, HEADERS};
use wireloom_codegen_c::PrivateFolder;

/// The newest clang that is here.
pub fn clang() -> Option<String> {
    wireloom_codegen_c::newest_clang_here()
}

/// A BPF object.
pub struct Compiled {
    pub bytes: Vec<u8>,
    /// clang's words if its handlers could not be compiled twice.
    pub once: Option<String>,
}

/// Compiles programs to an object with BTF and line information. `spare`: the stack has no room for
/// the places of headers, and handlers are compiled once. `constants`: macros and their numbers.
pub fn compile(source: &XdpSource, spare: bool, constants: &[(&str, u64)]) -> Result<Compiled, Error> {
    compile_text(&source.text, spare, constants)
}

/// The same for C that includes `bpf.h`.
pub fn compile_text(text: &str, spare: bool, constants: &[(&str, u64)]) -> Result<Compiled, Error> {
    let clang = clang().ok_or(Error::NoClang)?;
    let folder = PrivateFolder::new().map_err(|e| Error::System("cannot make a temporary folder".into(), e))?;
    let dir = folder.path();
    let write = |name: &str, text: &str| {
        fs::write(dir.join(name), text).map_err(|e| Error::System(format!("cannot write {name}"), e))
    };
    write("program.bpf.c", text)?;
    for (name, header) in HEADERS {
        write(name, header)?;
    }
    // In a file: the seed is a secret, and everybody sees arguments.
    let constants: String = constants.iter().map(|(name, n)| format!("#define {name} {n}ull\n")).collect();
    write("constants.h", &constants)?;
    let run = |more: &[&str]| {
        Command::new(&clang)
            .current_dir(dir)
            .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-std=gnu17", "-ffreestanding", "-fno-stack-protector"])
            .args(["-Wall", "-Werror=implicit-function-declaration", "-c", "program.bpf.c", "-o", "program.o"])
            .args(cfg!(target_arch = "x86_64").then_some("-DWL_X86_64"))
            .args(["-include", "constants.h"])
            .args(more)
            .output()
            .map_err(|e| Error::System(format!("cannot run {clang}"), e))
    };
    // From what is fastest to what needs least of the stack.
    const ALL: [&[&str]; 3] = [&[], &["-DWL_NO_NEAR"], &["-DWL_NO_NEAR", "-DWL_PLACES_KEPT", "-Os"]];
    let mut out = run(ALL[if spare { 2 } else { 0 }])?;
    let once = (!spare && !out.status.success()).then(|| first_error(&out.stderr));
    for more in ALL[1..].iter().filter(|_| !spare) {
        if !out.status.success() {
            out = run(more)?;
        }
    }
    if !out.status.success() {
        return Err(Error::Compile(String::from_utf8_lossy(&out.stderr).chars().take(4000).collect()));
    }
    let bytes = fs::read(dir.join("program.o")).map_err(|e| Error::System("cannot read the object".into(), e))?;
    Ok(Compiled { bytes, once })
}

/// The first error that clang reports, in a line.
fn first_error(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let error = text.lines().find_map(|l| l.split_once("error: ")).map_or("clang fails", |l| l.1);
    error.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_told() {
        let said =
            b"program.bpf.c:7:1: warning: odd\nprogram.bpf.c:8:2: error: no room\nprogram.bpf.c:9:2: error: later\n";
        assert_eq!(first_error(said), "no room");
        assert_eq!(first_error(b""), "clang fails");
    }
}
