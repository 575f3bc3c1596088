//! `wireloom build`: one executable file.

use crate::args::Build;
use crate::serve::payload::{self, Payload};
use crate::{engine, load, Outcome};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use wireloom_codegen_c::CompileOptions;
use wireloom_ir::desc::Desc;
use wireloom_ir::graph::live_svg;
use wireloom_runtime::params;

pub fn build(args: Build) -> Outcome {
    if args.export {
        return crate::export::export(&args);
    }
    let (graph, module) = load::load_both(&args.file)?;
    if module.app.is_empty() {
        return Err(crate::Failure::Said(format!("{} has no app to build", args.file.display())));
    }
    let desc = params::with_defaults(module.desc(), &crate::place::settings(&module, &args.set)?)?;
    let hook = crate::place::build(&module, &desc, &args)?;
    let library = engine::library(&module, &CompileOptions { portable: args.portable, ..CompileOptions::default() })?;
    let desc = serde_json::to_vec(&Desc { picture: live_svg(&graph), ..desc })?;
    let mut payload = Payload { library: library.bytes, desc, ..Payload::default() };
    if let Some((hook, programs)) = hook {
        (payload.hook, payload.programs) = hook.pack(&programs)?;
    }
    let target = args.output.unwrap_or_else(|| PathBuf::from(&module.app));
    let write = || {
        let (base, trailer) = (base()?, payload::trailer(&payload));
        write(&target, &[&[&base[..]], &payload.parts()[..], &[&trailer]].concat())
    };
    write().map_err(|e: io::Error| format!("cannot write {}: {e}", target.display()))?;
    let size = fs::metadata(&target)?.len();
    eprintln!("wireloom: built {} ({:.1} MiB); run it with --help", target.display(), size as f64 / (1 << 20) as f64);
    Ok(())
}

/// The executable that the program is appended to: the runtime beside this one, or this one, with
/// the compiler.
fn base() -> io::Result<Vec<u8>> {
    let runtime = std::env::current_exe()?.with_file_name("wireloom-runtime");
    let id = payload::ID.as_bytes();
    match fs::read(&runtime) {
        Ok(bytes) if bytes.windows(id.len()).any(|w| w == id) => return Ok(bytes),
        Ok(_) => {
            eprintln!("wireloom: {} is of another version; the compiler goes into the file instead", runtime.display())
        }
        Err(e) => eprintln!("wireloom: {}: {e}; the compiler goes into the file instead", runtime.display()),
    }
    fs::read("/proc/self/exe")
}

/// Removes what killed processes have written of the same target.
fn remove_left(target: &Path, name: &str) {
    let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let of = |file: &str| -> Option<u32> {
            file.strip_prefix(&format!(".{name}."))?.strip_suffix(".partial")?.parse().ok()
        };
        let left = |pid| entry.metadata().is_ok_and(|meta| wireloom_codegen_c::is_left(pid, &meta));
        if file.to_str().and_then(of).is_some_and(left) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Into a new file beside the target, and renamed: the target may be running, or the disk may fill
/// up in the middle. The umask decides on its permissions.
fn write(target: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let name = name.to_string_lossy();
    remove_left(target, &name);
    let partial = target.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let mut out = fs::OpenOptions::new().write(true).create_new(true).mode(0o777).open(&partial)?;
    let written = parts
        .iter()
        .try_for_each(|p| out.write_all(p))
        .and_then(|()| out.sync_all())
        .and_then(|()| fs::rename(&partial, target));
    written.inspect_err(|_| drop(fs::remove_file(&partial)))
}
