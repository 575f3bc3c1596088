//! From C text to a shared object: finds a compiler, compiles once per content ([`crate::cache`]).
//!
//! The name of the result is a hash of all its inputs: source, headers, extern files with their
//! includes, compiler version, flags.

use crate::compile_cache::{unique, Folder, Sha};
use crate::{CSource, Stop, HEADERS};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// AddressSanitizer and UndefinedBehaviorSanitizer (the process that loads the result must
    /// preload their runtime).
    pub sanitize: bool,
    /// `-O` level.
    pub opt: u8,
    /// For any x86-64 or aarch64, not just this machine's processor.
    pub portable: bool,
    /// The compiler to use; None: the one of `$WIRELOOM_CC`, else the newest clang, else gcc.
    pub cc: Option<String>,
    /// Where results are kept; a folder that is not safe is not used (see [`compile`]). Empty:
    /// nowhere.
    pub cache_dir: PathBuf,
    /// Headers from here instead of the built-in ones (for work on them).
    pub include_dir: Option<PathBuf>,
    /// Directory to which the names of `extern` files are relative.
    pub extern_dir: PathBuf,
    /// Told the program's name when the compiler is started for it, which takes seconds.
    pub starting: Option<fn(&str)>,
    /// Compiles beside a service, with less priority than that.
    pub beside: bool,
    /// Until it is stopped.
    pub stop: Option<Stop>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            sanitize: false,
            opt: 2,
            portable: false,
            cc: None,
            cache_dir: default_cache_dir(),
            include_dir: None,
            extern_dir: PathBuf::from("."),
            starting: None,
            beside: false,
            stop: None,
        }
    }
}

/// `$XDG_CACHE_HOME/wireloom` or `~/.cache/wireloom`; empty without either. In a home of another
/// user, as `sudo` leaves it, nothing is made.
fn default_cache_dir() -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").filter(|h| is_ours(h)).map(|h| h.join(".cache")));
    base.map_or_else(PathBuf::new, |b| b.join("wireloom"))
}

fn is_ours(path: &Path) -> bool {
    // SAFETY: a plain system call.
    fs::metadata(path).is_ok_and(|m| m.is_dir() && m.uid() == unsafe { libc::geteuid() })
}

/// A shared object.
#[derive(Debug)]
pub struct Compiled {
    /// To be loaded from memory: the file may change.
    pub bytes: Vec<u8>,
    /// Where it is kept; the C text lies beside it. None: nowhere.
    pub path: Option<PathBuf>,
    /// Why it could not be kept.
    pub notice: Option<String>,
}

/// Versions of clang that are looked for, beside plain `clang`.
const CLANGS: std::ops::RangeInclusive<u32> = 11..=29;

#[derive(Debug)]
pub enum CompileError {
    NoCompiler {
        tried: Vec<String>,
    },
    /// `$WIRELOOM_CC` names none.
    NotNamed {
        named: String,
    },
    Io {
        path: PathBuf,
        error: io::Error,
    },
    /// The compiler refused the file: a bug of this crate, or a mistake in an `extern` file.
    Failed {
        command: String,
        messages: String,
    },
    /// By [`Stop::stop`].
    Stopped,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::NoCompiler { tried } => {
                write!(
                    f,
                    "no C compiler found (tried {}); install clang, or run with the interpreter",
                    tried.join(", ")
                )
            }
            CompileError::NotNamed { named } => {
                let place = if named.contains('/') { "there is no such file" } else { "no folder of PATH has it" };
                write!(f, "the environment's `WIRELOOM_CC={named}` names no C compiler: {place}")
            }
            CompileError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            CompileError::Failed { command, messages } => write!(f, "the C compiler failed:\n{command}\n{messages}"),
            CompileError::Stopped => f.write_str("the compiler was stopped"),
        }
    }
}

impl std::error::Error for CompileError {}

/// A compiler's command, and its version.
pub fn find_compiler(wanted: Option<&str>) -> Result<(String, String), CompileError> {
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    let by_name = |c: &str| find(c, &dirs).map(|path| (named_from_anywhere(c), path));
    let variable = std::env::var_os("WIRELOOM_CC").filter(|c| !c.is_empty());
    let found = match (wanted, variable.map(|v| v.to_string_lossy().into_owned())) {
        (Some(c), _) => by_name(c).ok_or_else(|| CompileError::NoCompiler { tried: vec![c.into()] }),
        (None, Some(named)) => by_name(&named).ok_or(CompileError::NotNamed { named }),
        (None, None) => newest_clang(&dirs)
            .or_else(|| Some(("gcc".to_string(), find("gcc", &dirs)?)))
            .ok_or_else(|| CompileError::NoCompiler { tried: vec!["clang".into(), "gcc".into()] }),
    };
    // Asking a compiler for its version costs 20 ms; its file's size and time say as much.
    found.map(|(cc, path)| (cc, stamp(&path)))
}

/// A path that begins here is one from the root: the compiler is started in another folder.
fn named_from_anywhere(name: &str) -> String {
    if !name.contains('/') {
        return name.to_string();
    }
    std::path::absolute(name).map_or_else(|_| name.to_string(), |p| p.to_string_lossy().into_owned())
}

/// The newest clang in the folders of `PATH`.
pub fn newest_clang_here() -> Option<String> {
    Some(newest_clang(&std::env::var_os("PATH")?)?.1.to_string_lossy().into_owned())
}

/// Newer ones know newer processors, and make faster packet programs.
fn newest_clang(dirs: &OsStr) -> Option<(String, PathBuf)> {
    let names = CLANGS.map(|v| format!("clang-{v}")).chain(["clang".to_string()]);
    names.filter_map(|name| find(&name, dirs).map(|path| (name, path))).max_by_key(|(_, path)| version(path))
}

/// Of a compiler that lies in `…/llvm-19/…` or is called `clang-19`, once links are followed;
/// else 0.
fn version(path: &Path) -> u32 {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let parts = real.components().filter_map(|c| c.as_os_str().to_str()?.rsplit_once('-'));
    parts.filter(|(name, _)| matches!(*name, "clang" | "llvm")).filter_map(|(_, v)| v.parse().ok()).max().unwrap_or(0)
}

/// A command in one of the folders of a `PATH`.
fn find(name: &str, dirs: &OsStr) -> Option<PathBuf> {
    if name.contains('/') {
        return Path::new(name).is_file().then(|| PathBuf::from(name));
    }
    std::env::split_paths(dirs).map(|d| d.join(name)).find(|p| p.is_file())
}

fn stamp(path: &Path) -> String {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let meta = fs::metadata(&real).ok();
    let time = meta.as_ref().and_then(|m| m.modified().ok()).and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    format!("{} {} {}", real.display(), meta.map_or(0, |m| m.len()), time.map_or(0, |t| t.as_nanos()))
}

/// Compiles a source to a shared object. The second time it costs no more than a look, if there is
/// a folder for it that only this user can write. Otherwise it is made in a temporary folder, which
/// is removed at once.
pub fn compile(source: &CSource, options: &CompileOptions) -> Result<Compiled, CompileError> {
    let error = match compile_kept(source, options) {
        Err(e) => e,
        made => return made,
    };
    let dir = &options.cache_dir;
    let Some(why) = of_no_use(dir, &error) else { return Err(error) };
    let mut made = compile_kept(source, &CompileOptions { cache_dir: PathBuf::new(), ..options.clone() })?;
    made.notice = Some(format!("compiled programs are not kept: cannot use {}: {why}", dir.display()));
    Ok(made)
}

/// Why a folder is of no use, if that is what has failed. It may be full or read-only, or something
/// else lies in the place of a file.
pub(crate) fn of_no_use(dir: &Path, error: &CompileError) -> Option<io::Error> {
    match error {
        _ if dir.as_os_str().is_empty() => None,
        CompileError::Io { path, error } if path.starts_with(dir) => {
            Some(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        }
        CompileError::Failed { .. } => Folder::open(dir).and_then(|f| f.try_room()).err(),
        CompileError::Io { .. }
        | CompileError::NoCompiler { .. }
        | CompileError::NotNamed { .. }
        | CompileError::Stopped => None,
    }
}

fn compile_kept(source: &CSource, options: &CompileOptions) -> Result<Compiled, CompileError> {
    kept_or(source, options, |job, name| {
        if let Some(starting) = options.starting {
            starting(&source.name)
        }
        let io = |error| job.io(name, error);
        let _turn = job.folder.turn(name, TURN, || options.stop.as_ref().is_some_and(Stop::is_stopped)).map_err(io)?;
        // The holder of the turn before may have made it.
        if let Some(bytes) = job.folder.get(name).map_err(io)? {
            return Ok(bytes);
        }
        let bytes = job.compile(name)?;
        job.folder.put(name, &bytes).map_err(io)?;
        Ok(bytes)
    })
}

/// How long a compiler waits for another one that makes the same; then both do.
const TURN: Duration = Duration::from_secs(20);

/// The kept result of a source; None if [`compile`] would have to start the compiler.
pub fn cached(source: &CSource, options: &CompileOptions) -> Result<Option<Compiled>, CompileError> {
    match kept_or(source, options, |_, _| Err(None)) {
        Ok(kept) => Ok(Some(kept)),
        Err(None) => Ok(None),
        Err(Some(e)) if of_no_use(&options.cache_dir, &e).is_some() => Ok(None),
        Err(Some(e)) => Err(e),
    }
}

/// The kept result of a source; else the result of `make`.
fn kept_or<E: From<CompileError>>(
    source: &CSource,
    options: &CompileOptions,
    make: impl FnOnce(&Job, &str) -> Result<Vec<u8>, E>,
) -> Result<Compiled, E> {
    let (cc, version) = find_compiler(options.cc.as_deref())?;
    let (folder, notice) = folder(options)?;
    static SWEPT: std::sync::Once = std::sync::Once::new();
    SWEPT.call_once(|| folder.sweep());
    let job = Job::new(&cc, source, options, &folder)?;
    let name = format!("{}-{}.so", source.name, job.id(&version)?);
    let io = |error| CompileError::Io { path: folder.path().join(&name), error };
    let path = notice.is_none().then(|| folder.path().join(&name));
    if let Some(bytes) = folder.get(&name).map_err(io)? {
        return Ok(Compiled { bytes, path, notice });
    }
    let bytes = make(&job, &name)?;
    Ok(Compiled { bytes, path, notice })
}

/// The kept result of a compiler for these inputs. Else that of `make`, which is kept if there is a
/// folder for it. `name`: of the file, before a hash of the inputs.
pub fn kept<E>(
    name: &str,
    compiler: &str,
    inputs: &[&str],
    make: impl FnOnce() -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let Ok(folder) = Folder::open(&default_cache_dir()) else { return make() };
    let mut sha = Sha::new();
    sha.add(stamp(Path::new(compiler)).as_bytes());
    inputs.iter().for_each(|i| sha.add(i.as_bytes()));
    let name = format!("{name}-{}.o", sha.hex());
    let there = || folder.get(&name).ok().flatten();
    if let Some(bytes) = there() {
        return Ok(bytes);
    }
    let _turn = folder.turn(&name, TURN, || false);
    // The holder of the turn before may have made it.
    if let Some(bytes) = there() {
        return Ok(bytes);
    }
    let bytes = make()?;
    // A folder without room, for one, is no reason to fail.
    let _ = folder.put(&name, &bytes);
    Ok(bytes)
}

/// The folder to work in, and why it is not the one where results are kept.
pub(crate) fn folder(options: &CompileOptions) -> Result<(Folder, Option<String>), CompileError> {
    let wanted = &options.cache_dir;
    let notice = if wanted.as_os_str().is_empty() {
        "there is neither XDG_CACHE_HOME nor a HOME of this user's".to_string()
    } else {
        match Folder::open(wanted) {
            Ok(folder) => return Ok((folder, None)),
            Err(e) => format!("cannot use {}: {e}", wanted.display()),
        }
    };
    let folder = Folder::passing().map_err(|error| CompileError::Io { path: std::env::temp_dir(), error })?;
    Ok((folder, Some(format!("compiled programs are not kept: {notice}"))))
}

/// A source, with the compiler and its flags.
pub(crate) struct Job<'a> {
    pub(crate) cc: &'a str,
    pub(crate) source: &'a CSource,
    pub(crate) flags: Vec<String>,
    portable: bool,
    pub(crate) folder: &'a Folder,
    /// The folder of headers, in `folder`.
    pub(crate) include: String,
    headers: Vec<(String, String)>,
    pub(crate) externs: Vec<PathBuf>,
    beside: bool,
    stop: Option<&'a Stop>,
}

impl<'a> Job<'a> {
    pub(crate) fn new(
        cc: &'a str,
        source: &'a CSource,
        options: &'a CompileOptions,
        folder: &'a Folder,
    ) -> Result<Job<'a>, CompileError> {
        let headers = headers(options)?;
        let mut sha = Sha::new();
        for (name, text) in &headers {
            sha.add(name.as_bytes());
            sha.add(text.as_bytes())
        }
        let include = format!("include-{}", sha.hex());
        // The compiler runs in the folder.
        let dir = std::path::absolute(Path::new(".").join(&options.extern_dir))
            .map_err(|error| CompileError::Io { path: options.extern_dir.clone(), error })?;
        let externs = source.externs.iter().map(|e| dir.join(e)).collect();
        Ok(Job {
            cc,
            source,
            flags: flags(options, cc.contains("clang")),
            portable: options.portable,
            folder,
            include,
            headers,
            externs,
            beside: options.beside,
            stop: options.stop.as_ref(),
        })
    }

    /// A hash of all inputs.
    fn id(&self, version: &str) -> Result<String, CompileError> {
        let mut sha = Sha::new();
        for part in [self.cc, version, self.include.as_str(), self.source.text.as_str()]
            .into_iter()
            .chain(self.flags.iter().map(String::as_str))
        {
            sha.add(part.as_bytes())
        }
        if !self.portable {
            sha.add(cpu().as_bytes())
        }
        for name in ["CPATH", "C_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS"] {
            sha.add(std::env::var_os(name).unwrap_or_default().as_encoded_bytes())
        }
        for header in LIBC {
            sha.add(stamp(Path::new(header)).as_bytes())
        }
        for e in &self.externs {
            sha.add(&read(e)?);
            sha.add(&self.preprocessed(e)?);
        }
        Ok(sha.hex())
    }

    /// An extern file with all its includes.
    fn preprocessed(&self, file: &Path) -> Result<Vec<u8>, CompileError> {
        self.write_headers()?;
        Ok(self.run(self.command().args(self.object_flags()).args(["-E", "-I", &self.include]).arg(file))?.stdout)
    }

    fn compile(&self, name: &str) -> Result<Vec<u8>, CompileError> {
        self.write_headers()?;
        let c = Path::new(name).with_extension("c").to_string_lossy().into_owned();
        self.folder.write(&c, self.source.text.as_bytes()).map_err(|e| self.io(&c, e))?;
        let out = format!("{name}.{}.tmp", unique());
        let done = if self.source.parts > 1 { self.compile_parts(&c, &out) } else { self.link(&[c], &out) };
        let bytes = self.folder.read(&out);
        self.folder.remove(&out);
        done?;
        bytes.and_then(|b| b.ok_or_else(|| io::ErrorKind::NotFound.into())).map_err(|e| self.io(&out, e))
    }

    /// The parts of a large file, side by side.
    fn compile_parts(&self, c: &str, out: &str) -> Result<(), CompileError> {
        let objects: Vec<String> = (1..=self.source.parts).map(|n| format!("{out}.{n}.o")).collect();
        let one = &|n: usize| self.run(self.object_command(&objects[n]).args([&format!("-DWL_PART={}", n + 1), c]));
        let compiled: Vec<_> = std::thread::scope(|s| {
            let threads: Vec<_> = (0..objects.len()).map(|n| s.spawn(move || one(n))).collect();
            threads.into_iter().map(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p))).collect()
        });
        let done = compiled.into_iter().try_for_each(|r| r.map(drop)).and_then(|()| self.link(&objects, out));
        objects.iter().for_each(|o| self.folder.remove(o));
        done
    }

    fn object_flags(&self) -> impl Iterator<Item = &String> {
        self.flags.iter().filter(|f| *f != "-shared")
    }

    /// The compiler, to make an object of a file.
    pub(crate) fn object_command(&self, out: &str) -> Command {
        let mut command = self.command();
        command.args(self.object_flags()).args(["-I", &self.include, "-c", "-o", out]);
        command
    }

    /// Compiles the remaining C, and makes the shared object.
    fn link(&self, files: &[String], out: &str) -> Result<(), CompileError> {
        // Functions in C may use the mathematics library, and name no libraries themselves.
        let libraries = if self.externs.is_empty() { &[][..] } else { &["-lm"] };
        let objects = self.extern_objects(out)?;
        let mut command = self.command();
        command.args(&self.flags).args(["-I", &self.include, "-o", out]).args(files).args(&objects);
        let done = self.run(command.args(libraries)).map(drop);
        objects.iter().for_each(|o| self.folder.remove(o));
        done
    }

    pub(crate) fn write_headers(&self) -> Result<(), CompileError> {
        let dir = self.folder.inner(&self.include).map_err(|e| self.io(&self.include, e))?;
        self.headers
            .iter()
            .try_for_each(|(name, text)| dir.ensure(name, text.as_bytes()))
            .map_err(|e| self.io(&self.include, e))
    }

    /// The compiler, to run in the folder, which its descriptor names. Only this user can read its
    /// output.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.cc);
        // A compiler that is killed leaves its own files where `Folder::sweep` finds them.
        command.env("TMPDIR", ".");
        let folder = self.folder.raw();
        let niceness = if self.beside { BESIDE } else { 0 };
        let parent = std::process::id() as i32;
        // SAFETY: system calls that are safe after `fork`; the descriptor is open as long as
        // `self`.
        unsafe {
            command.pre_exec(move || {
                // A parent that is killed takes the compiler along. The thread that starts it waits
                // for its end.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                if libc::getppid() != parent {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                libc::umask(0o077);
                libc::nice(niceness);
                // Threads that leave signals to others start compilers, too, which must be stopped
                // by them.
                let mut none = std::mem::zeroed();
                libc::sigemptyset(&mut none);
                libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
                if libc::fchdir(folder) == 0 {
                    Ok(())
                } else {
                    Err(io::Error::last_os_error())
                }
            });
        }
        command
    }

    pub(crate) fn run(&self, command: &mut Command) -> Result<Output, CompileError> {
        let text = |c: &Command| {
            std::iter::once(c.get_program())
                .chain(c.get_args())
                .map(OsStr::to_string_lossy)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let output = match self.stop {
            None => command.output(),
            Some(stop) => stop.output(command),
        };
        match output {
            Ok(output) if output.status.success() => Ok(output),
            _ if self.stop.is_some_and(Stop::is_stopped) => Err(CompileError::Stopped),
            Ok(output) => Err(CompileError::Failed {
                command: text(command),
                messages: String::from_utf8_lossy(&output.stderr).into_owned(),
            }),
            Err(error) => Err(CompileError::Io { path: PathBuf::from(command.get_program()), error }),
        }
    }

    pub(crate) fn io(&self, name: &str, error: io::Error) -> CompileError {
        CompileError::Io { path: self.folder.path().join(name), error }
    }
}

/// How much a compiler that runs beside a service gives way: it gets a quarter of the service's
/// share of a core that both want.
const BESIDE: i32 = 6;

/// Headers of the system that change with each version of its C library.
const LIBC: [&str; 2] = ["/usr/include/features.h", "/usr/include/string.h"];

fn flags(o: &CompileOptions, clang: bool) -> Vec<String> {
    let mut f: Vec<String> =
        ["-std=c11", "-D_GNU_SOURCE", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing", "-fno-plt"]
            .map(String::from)
            .to_vec();
    // Warnings of generated code are for developers of the compiler.
    let strict = std::env::var_os("WIRELOOM_WERROR").is_some_and(|v| !v.is_empty());
    let warnings: &[&str] = if strict {
        &["-Wall", "-Wextra", "-Werror", "-Wno-tautological-compare", "-Wno-type-limits"]
    } else {
        &["-w"]
    };
    f.extend(warnings.iter().map(|w| w.to_string()));
    // The checker limits nesting; clang's own limit is lower than ours.
    if clang {
        f.push("-fbracket-depth=8192".into())
    }
    f.push(format!("-O{}", o.opt));
    if !o.portable {
        f.push("-march=native".into())
    }
    if o.sanitize {
        f.extend(
            ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
                .map(String::from),
        );
        // The program that loads the object brings the runtime of the sanitizers.
        if clang {
            f.push("-shared-libasan".into())
        }
    }
    f
}

/// The processor's properties that `-march=native` depends on.
fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .filter(|l| l.starts_with("flags") || l.starts_with("Features") || l.starts_with("model name"))
        .take(2)
        .collect()
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

fn read(path: &Path) -> Result<Vec<u8>, CompileError> {
    fs::read(path).map_err(|error| CompileError::Io { path: path.to_path_buf(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `clang` may be newer than those whose names say how new they are, or older; one of which
    /// nothing is known is the last resort.
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
