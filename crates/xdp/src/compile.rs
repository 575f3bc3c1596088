//! From C to a BPF object, by clang.

use crate::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use wireloom_codegen_c::xdp::{XdpSource, HEADERS};
use wireloom_codegen_c::{kept, PrivateFolder};

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

/// How little of the stack programs may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thrift {
    /// The fastest ones that clang compiles.
    #[default]
    Fast,
    /// The stack has no room for the places of headers, and handlers are compiled once.
    Spare,
    /// Values are also computed anew where that saves room.
    Sparer,
    /// Functions of tables make fewer calls, and clang keeps no value for two uses of it.
    Sparest,
    /// The values of handlers lie in the processor's state: [`XdpSource::far_text`].
    Far,
    /// Rounds of loops are functions of their own, too: [`XdpSource::apart_text`].
    Apart,
}

impl Thrift {
    fn name(self) -> &'static str {
        match self {
            Thrift::Fast => "fast",
            Thrift::Spare => "spare",
            Thrift::Sparer => "sparer",
            Thrift::Sparest => "sparest",
            Thrift::Far => "far",
            Thrift::Apart => "apart",
        }
    }

    /// The C code that is compiled for it.
    pub fn text(self, source: &XdpSource) -> &str {
        match self {
            Thrift::Fast | Thrift::Spare | Thrift::Sparer | Thrift::Sparest => &source.text,
            Thrift::Far => &source.far_text,
            Thrift::Apart => &source.apart_text,
        }
    }

    /// The flags of clang, of which the first that do are taken.
    fn ways(self) -> &'static [&'static [&'static str]] {
        match self {
            Thrift::Fast => &WAYS,
            Thrift::Spare => &WAYS[2..],
            Thrift::Sparer => &WAYS[3..],
            Thrift::Sparest => &WAYS[4..],
            // Another clang may not know how to save room.
            Thrift::Far => &[WAYS[3], WAYS[2]],
            Thrift::Apart => &[WAYS[4], WAYS[2]],
        }
    }

    /// The next kind, where programs of this one are refused. A smaller stack does not help one
    /// that is too long.
    pub fn next(self, refused: &Error) -> Option<Thrift> {
        match (refused, self) {
            (_, Thrift::Apart) => None,
            (Error::Long { .. } | Error::Stack { .. }, Thrift::Far) => Some(Thrift::Apart),
            (Error::Long { .. }, _) => Some(Thrift::Far),
            (Error::Stack { .. }, Thrift::Fast) => Some(Thrift::Spare),
            (Error::Stack { .. }, Thrift::Spare) => Some(Thrift::Sparer),
            (Error::Stack { .. }, Thrift::Sparer) => Some(Thrift::Sparest),
            (Error::Stack { .. }, Thrift::Sparest) => Some(Thrift::Far),
            _ => None,
        }
    }
}

/// Compiles C that includes `bpf.h` to an object with BTF and line information. `constants`: macros
/// and their numbers. An object is kept where compiled programs are, and made once. `starting` is
/// called before clang runs.
pub fn compile(
    text: &str,
    thrift: Thrift,
    constants: &[(&str, u64)],
    starting: Option<fn()>,
) -> Result<Compiled, Error> {
    let clang = clang().ok_or(Error::NoClang)?;
    let constants: String = constants.iter().map(|(name, n)| format!("#define {name} {n}ull\n")).collect();
    let ways = thrift.ways().concat().join(" ");
    let mut inputs = vec![text, &constants, env!("CARGO_PKG_VERSION"), thrift.name(), &ways];
    inputs.extend(HEADERS.iter().flat_map(|(name, header)| [*name, *header]));
    let job = Job { clang: &clang, text, constants: &constants };
    let made = || {
        starting.iter().for_each(|told| told());
        job.run(thrift).map(|c| c.to_bytes())
    };
    let kept = kept("hook", &clang, &inputs, made)?;
    match Compiled::of_bytes(&kept) {
        Some(compiled) => Ok(compiled),
        None => job.run(thrift),
    }
}

impl Compiled {
    /// clang's words with their length before them, and the object.
    fn to_bytes(&self) -> Vec<u8> {
        let once = self.once.as_deref().unwrap_or_default();
        [&(once.len() as u32).to_le_bytes(), once.as_bytes(), &self.bytes].concat()
    }

    fn of_bytes(all: &[u8]) -> Option<Compiled> {
        let (n, rest) = all.split_first_chunk()?;
        let (once, bytes) = rest.split_at_checked(u32::from_le_bytes(*n) as usize)?;
        let once = String::from_utf8(once.to_vec()).ok()?;
        Some(Compiled { bytes: bytes.to_vec(), once: Some(once).filter(|w| !w.is_empty()) })
    }
}

/// From what is fastest to what needs least of the stack.
const WAYS: [&[&str]; 5] = [
    &[],
    &["-DWL_NO_NEAR"],
    &["-DWL_NO_NEAR", "-DWL_PLACES_KEPT", "-Os"],
    &["-DWL_NO_NEAR", "-DWL_PLACES_KEPT", "-Os", "-mllvm", "-sink-insts-to-avoid-spills"],
    &[
        "-DWL_NO_NEAR",
        "-DWL_PLACES_KEPT",
        "-DWL_FLAT",
        "-Os",
        "-mllvm",
        "-sink-insts-to-avoid-spills",
        "-mllvm",
        "-disable-machine-cse",
        "-mllvm",
        "-regalloc=basic",
    ],
];

struct Job<'a> {
    clang: &'a str,
    text: &'a str,
    constants: &'a str,
}

impl Job<'_> {
    fn run(&self, thrift: Thrift) -> Result<Compiled, Error> {
        let folder = PrivateFolder::new().map_err(|e| Error::System("cannot make a temporary folder".into(), e))?;
        let dir = folder.path();
        let own = [("program.bpf.c", self.text), ("constants.h", self.constants)];
        for (name, text) in own.into_iter().chain(HEADERS.iter().copied()) {
            fs::write(dir.join(name), text).map_err(|e| Error::System(format!("cannot write {name}"), e))?
        }
        let ways = thrift.ways();
        let mut out = self.clang(dir, ways[0])?;
        let once = (thrift == Thrift::Fast && !out.status.success()).then(|| first_error(&out.stderr));
        for more in &ways[1..] {
            if !out.status.success() {
                out = self.clang(dir, more)?;
            }
        }
        if !out.status.success() && String::from_utf8_lossy(&out.stderr).contains("BPF stack limit") {
            return Err(of_frames(&fs::read_to_string(dir.join("program.su")).unwrap_or_default()));
        }
        if !out.status.success() {
            return Err(Error::Compile(String::from_utf8_lossy(&out.stderr).chars().take(4000).collect()));
        }
        let bytes = fs::read(dir.join("program.o")).map_err(|e| Error::System("cannot read the object".into(), e))?;
        Ok(Compiled { bytes, once })
    }

    fn clang(&self, dir: &Path, more: &[&str]) -> Result<Output, Error> {
        Command::new(self.clang)
            .current_dir(dir)
            .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-std=gnu17", "-ffreestanding", "-fno-stack-protector"])
            .arg("-fstack-usage")
            .args(["-Wall", "-Werror=implicit-function-declaration", "-c", "program.bpf.c", "-o", "program.o"])
            .args(cfg!(target_arch = "x86_64").then_some("-DWL_X86_64"))
            .args(["-include", "constants.h"])
            .args(more)
            .output()
            .map_err(|e| Error::System(format!("cannot run {}", self.clang), e))
    }
}

/// A program that clang has no room for, by the sizes of all frames: `app.loom:7:name`, bytes, and
/// `static`.
fn of_frames(sizes: &str) -> Error {
    let size = |l: &str| {
        let mut parts = l.split('\t');
        Some((parts.next()?.rsplit(':').next()?.to_string(), parts.next()?.parse::<usize>().ok()?))
    };
    let largest = sizes.lines().filter_map(size).max_by_key(|s| s.1);
    let why = largest.as_ref().map_or("clang's limit is exceeded".to_string(), |s| format!("clang: it takes {}", s.1));
    Error::Stack { program: largest.map(|s| s.0), why }
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

    #[test]
    fn the_largest_frame_is_named() {
        let told = |sizes| of_frames(sizes).to_string();
        let text = told("a.loom:7:small\t96\tstatic\na.loom:551:p0_in\t608\tstatic\nbpf.h:9:wl_move\t48\tstatic\n");
        assert!(text.starts_with("the handler `p0_in` needs more") && text.contains("(clang: it takes 608)"), "{text}");
        assert!(told("").starts_with("a handler needs more"), "{}", told(""));
    }

    #[test]
    fn what_is_kept_is_read_again() {
        for once in [None, Some("no room".to_string())] {
            let bytes = Compiled { bytes: vec![7; 9], once: once.clone() }.to_bytes();
            let again = Compiled::of_bytes(&bytes).expect("it is whole");
            assert_eq!((again.bytes, again.once), (vec![7; 9], once));
        }
        assert!(Compiled::of_bytes(&[1, 0, 0, 0]).is_none() && Compiled::of_bytes(&[]).is_none());
    }
}
