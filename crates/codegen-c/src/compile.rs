//! From C text to a shared object: finds a compiler, compiles once per content.
//!
//! The name of the result is a hash of all that it depends on: source, headers, extern files, compiler version, flags.

use crate::{CSource, HEADERS};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// AddressSanitizer and UndefinedBehaviorSanitizer (the process that loads the result must preload their runtime).
    pub sanitize: bool,
    /// `-O` level.
    pub opt: u8,
    /// For any x86-64 or aarch64, not just this machine's processor.
    pub portable: bool,
    /// The compiler to use; None: what `$WIRELOOM_CC` says, else the newest clang, else gcc.
    pub cc: Option<String>,
    pub cache_dir: PathBuf,
    /// Headers from here instead of the built-in ones (for work on them).
    pub include_dir: Option<PathBuf>,
    /// Directory to which the names of `extern` files are relative.
    pub extern_dir: PathBuf,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions { sanitize: false, opt: 2, portable: false, cc: None, cache_dir: default_cache_dir(), include_dir: None, extern_dir: PathBuf::from(".") }
    }
}

/// `$XDG_CACHE_HOME/wireloom`, `~/.cache/wireloom`, or in the temporary directory.
fn default_cache_dir() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| std::env::var_os("HOME").map(|h| Path::new(&h).join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("wireloom")
}

/// Versions of clang that are looked for, beside what `clang` is.
const CLANGS: std::ops::RangeInclusive<u32> = 11..=29;

#[derive(Debug)]
pub enum CompileError {
    NoCompiler { tried: Vec<String> },
    Io { path: PathBuf, error: io::Error },
    /// The compiler refused the file: a bug of this crate, or a mistake in an `extern` file.
    Failed { command: String, messages: String },
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::NoCompiler { tried } => {
                write!(f, "no C compiler found (tried {}); install clang, or run with the interpreter", tried.join(", "))
            }
            CompileError::Io { path, error } if error.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "cannot write {}: {error}; set XDG_CACHE_HOME to a folder for compiled programs, or run with --interpret", path.display())
            }
            CompileError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            CompileError::Failed { command, messages } => write!(f, "the C compiler failed:\n{command}\n{messages}"),
        }
    }
}

impl std::error::Error for CompileError {}

/// A compiler's command, and what tells it from others.
pub fn find_compiler(wanted: Option<&str>) -> Result<(String, String), CompileError> {
    let named = wanted.map(str::to_string).or_else(|| std::env::var("WIRELOOM_CC").ok().filter(|c| !c.is_empty()));
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    let found = match &named {
        Some(c) => find(c, &dirs).map(|path| (c.clone(), path)),
        None => newest_clang(&dirs).or_else(|| Some(("gcc".to_string(), find("gcc", &dirs)?))),
    };
    // Asking a compiler for its version costs 20 ms; its file's size and time say as much.
    found.map(|(cc, path)| (cc, stamp(&path))).ok_or_else(|| CompileError::NoCompiler { tried: named.map_or_else(|| vec!["clang".into(), "gcc".into()], |c| vec![c]) })
}

/// Newer ones know newer processors: what they make of packet programs takes up to a fifth less time.
fn newest_clang(dirs: &OsStr) -> Option<(String, PathBuf)> {
    let names = CLANGS.map(|v| format!("clang-{v}")).chain(["clang".to_string()]);
    names.filter_map(|name| find(&name, dirs).map(|path| (name, path))).max_by_key(|(_, path)| version(path))
}

/// Of a compiler that lies in `…/llvm-19/…` or is called `clang-19`, once links are followed; else 0.
fn version(path: &Path) -> u32 {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let parts = real.components().filter_map(|c| c.as_os_str().to_str()?.rsplit_once('-'));
    parts.filter(|(name, _)| matches!(*name, "clang" | "llvm")).filter_map(|(_, v)| v.parse().ok()).max().unwrap_or(0)
}

/// A command in one of the folders of a `PATH`.
fn find(name: &str, dirs: &OsStr) -> Option<PathBuf> {
    if name.contains('/') { return Path::new(name).is_file().then(|| PathBuf::from(name)) }
    std::env::split_paths(dirs).map(|d| d.join(name)).find(|p| p.is_file())
}

fn stamp(path: &Path) -> String {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let meta = fs::metadata(&real).ok();
    let time = meta.as_ref().and_then(|m| m.modified().ok()).and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    format!("{} {} {}", real.display(), meta.map_or(0, |m| m.len()), time.map_or(0, |t| t.as_nanos()))
}

/// Compiles a source to a shared object and gives its path. The second time it costs no more than a look.
pub fn compile(source: &CSource, options: &CompileOptions) -> Result<PathBuf, CompileError> {
    let (cc, version) = find_compiler(options.cc.as_deref())?;
    let flags = flags(options, cc.contains("clang"));
    let externs: Vec<PathBuf> = source.externs.iter().map(|e| options.extern_dir.join(e)).collect();
    let mut hash = Fnv::new();
    for part in [cc.as_str(), version.as_str(), source.text.as_str()].into_iter().chain(flags.iter().map(String::as_str)) { hash.add(part.as_bytes()) }
    if !options.portable { hash.add(cpu().as_bytes()) }
    let headers = headers(options)?;
    for (name, text) in &headers { hash.add(name.as_bytes()); hash.add(text.as_bytes()) }
    for e in &externs { hash.add(&read(e)?) }
    let id = hash.hex();
    let so = options.cache_dir.join(format!("{}-{id}.so", source.name));
    if so.is_file() { return Ok(so) }
    fs::create_dir_all(&options.cache_dir).map_err(|error| CompileError::Io { path: options.cache_dir.clone(), error })?;
    let include = options.cache_dir.join(format!("include-{}", header_id(&headers)));
    write_headers(&include, &headers)?;
    let c = options.cache_dir.join(format!("{}-{id}.c", source.name));
    write(&c, source.text.as_bytes())?;
    // Compiled beside the result, then renamed: a second process never loads half a file.
    let part = options.cache_dir.join(format!("{}-{id}.{}.tmp", source.name, unique()));
    let mut command = Command::new(&cc);
    command.args(&flags).arg("-I").arg(&include).arg("-o").arg(&part).arg(&c).args(&externs);
    run(&mut command)?;
    fs::rename(&part, &so).map_err(|error| CompileError::Io { path: so.clone(), error })?;
    Ok(so)
}

fn flags(o: &CompileOptions, clang: bool) -> Vec<String> {
    let mut f: Vec<String> =
        ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-tautological-compare", "-Wno-type-limits", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing", "-fno-plt"].map(String::from).to_vec();
    // The checker limits nesting; clang's own limit is lower than ours.
    if clang { f.push("-fbracket-depth=8192".into()) }
    f.push(format!("-O{}", o.opt));
    if !o.portable { f.push("-march=native".into()) }
    if o.sanitize {
        f.extend(["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"].map(String::from));
        // The program that loads the object brings the runtime of the sanitizers.
        if clang { f.push("-shared-libasan".into()) }
    }
    f
}

/// What `-march=native` depends on.
fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines().filter(|l| l.starts_with("flags") || l.starts_with("Features") || l.starts_with("model name")).take(2).collect()
}

fn headers(o: &CompileOptions) -> Result<Vec<(String, String)>, CompileError> {
    let mut all = Vec::new();
    for (name, text) in HEADERS {
        let text = match &o.include_dir {
            Some(dir) => String::from_utf8_lossy(&read(&dir.join(name))?).into_owned(),
            None => text.to_string(),
        };
        all.push((name.to_string(), text));
    }
    Ok(all)
}

fn header_id(headers: &[(String, String)]) -> String {
    let mut h = Fnv::new();
    for (n, t) in headers { h.add(n.as_bytes()); h.add(t.as_bytes()) }
    h.hex()
}

fn write_headers(dir: &Path, headers: &[(String, String)]) -> Result<(), CompileError> {
    fs::create_dir_all(dir).map_err(|error| CompileError::Io { path: dir.to_path_buf(), error })?;
    for (name, text) in headers {
        let path = dir.join(name);
        if fs::metadata(&path).map(|m| m.len()).ok() != Some(text.len() as u64) { write(&path, text.as_bytes())? }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, CompileError> { fs::read(path).map_err(|error| CompileError::Io { path: path.to_path_buf(), error }) }

fn write(path: &Path, bytes: &[u8]) -> Result<(), CompileError> {
    let io = |error| CompileError::Io { path: path.to_path_buf(), error };
    let part = path.with_extension(format!("{}.part", unique()));
    fs::write(&part, bytes).map_err(io)?;
    fs::rename(&part, path).map_err(io)
}

/// For names of files that are being written.
fn unique() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn run(command: &mut Command) -> Result<(), CompileError> {
    let text = |c: &Command| {
        std::iter::once(c.get_program()).chain(c.get_args()).map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
    };
    let output = command.output().map_err(|error| CompileError::Io { path: PathBuf::from(command.get_program()), error })?;
    if output.status.success() { return Ok(()) }
    Err(CompileError::Failed { command: text(command), messages: String::from_utf8_lossy(&output.stderr).into_owned() })
}

/// FNV-1a, 128 bits, over length-prefixed parts.
struct Fnv(u128);

impl Fnv {
    fn new() -> Self { Fnv(0x6c62272e07bb014262b821756295c58d) }
    fn add(&mut self, bytes: &[u8]) {
        for b in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ *b as u128).wrapping_mul(0x0000000001000000000000000000013b);
        }
    }
    fn hex(&self) -> String { format!("{:032x}", self.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `clang` may be newer than those whose names say how new they are, or older; one of which nothing is known is the last resort.
    #[test]
    fn the_newest_clang_is_taken() {
        let dir = std::env::temp_dir().join(format!("wireloom-clangs-{}", unique()));
        let bin = dir.join("bin");
        fs::create_dir_all(&bin).unwrap();
        let install = |version: u32| {
            let real = dir.join(format!("llvm-{version}/bin"));
            fs::create_dir_all(&real).unwrap();
            fs::write(real.join("clang"), "").unwrap();
            real.join("clang")
        };
        let newest = || newest_clang(bin.as_os_str()).map(|(name, _)| name);
        assert_eq!(newest(), None);
        fs::write(bin.join("clang"), "").unwrap();
        assert_eq!(newest().unwrap(), "clang");
        std::os::unix::fs::symlink(install(14), bin.join("clang-14")).unwrap();
        std::os::unix::fs::symlink(install(19), bin.join("clang-19")).unwrap();
        assert_eq!(newest().unwrap(), "clang-19");
        fs::remove_file(bin.join("clang")).unwrap();
        std::os::unix::fs::symlink(install(21), bin.join("clang")).unwrap();
        assert_eq!(newest().unwrap(), "clang");
        fs::remove_dir_all(dir).unwrap();
    }
}
