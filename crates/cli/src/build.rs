//! `wireloom build`: one executable file.

use crate::args::Build;
use crate::{engine, load, payload, Outcome};
use std::path::PathBuf;
use wireloom_codegen_c::CompileOptions;

pub fn build(args: Build) -> Outcome {
    let module = load::load(&args.file)?;
    if module.app.is_empty() {
        return Err(crate::Failure::Said(format!("{} has no app to build", args.file.display())));
    }
    let library = engine::library(&module, &CompileOptions { portable: args.portable, ..CompileOptions::default() })?;
    let desc = serde_json::to_vec(&module.desc())?;
    let target = args.output.unwrap_or_else(|| PathBuf::from(&module.app));
    payload::write(&target, &library.bytes, &desc).map_err(|e| format!("cannot write {}: {e}", target.display()))?;
    let size = std::fs::metadata(&target)?.len();
    eprintln!("wireloom: built {} ({:.1} MiB); run it with --help", target.display(), size as f64 / (1 << 20) as f64);
    Ok(())
}
