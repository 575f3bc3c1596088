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

/// Compiles programs to an object with BTF and line information. `spare`: the stack has no room for
/// the places of headers, and handlers are compiled once. `constants`: macros and their numbers.
pub fn compile(source: &XdpSource, spare: bool, constants: &[(&str, u64)]) -> Result<Vec<u8>, Error> {
    compile_text(&source.text, spare, constants)
}

/// The same for C that includes `bpf.h`.
pub fn compile_text(text: &str, spare: bool, constants: &[(&str, u64)]) -> Result<Vec<u8>, Error> {
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
    for more in ALL[1..].iter().filter(|_| !spare) {
        if !out.status.success() {
            out = run(more)?;
        }
    }
    if !out.status.success() {
        return Err(Error::Compile(String::from_utf8_lossy(&out.stderr).chars().take(4000).collect()));
    }
    fs::read(dir.join("program.o")).map_err(|e| Error::System("cannot read the object".into(), e))
}
