//! `wireloom build`: one executable file.

use crate::args::Build;
use crate::serve::payload::{self, Payload};
use crate::whole_file::WholeFile;
use crate::{engine, load, Outcome};
use std::fs;
use std::io::{self, Write};
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

/// The umask decides on the executable's permissions.
fn write(target: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut out = WholeFile::create(target, 0o777)?;
    parts.iter().try_for_each(|p| out.file.write_all(p))?;
    out.put()
}
