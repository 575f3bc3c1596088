//! `wireloom emit` and `wireloom graph`.

use crate::args::{Artifact, Emit, Graph};
use crate::{load, place, Outcome};
use std::path::{Path, PathBuf};

pub fn emit(args: Emit) -> Outcome {
    let module = load::load(&args.file)?;
    if !args.set.is_empty() && args.what != Artifact::Bpf && args.place.is_none() {
        return Err("`--set` is for `bpf` and `--place`: other code is the same with all values".into());
    }
    let text = match args.what {
        Artifact::Ir if args.place.is_some() => place::ir(&module, &args.set)?,
        Artifact::Ir => wireloom_ir::text::print(&module),
        Artifact::C => wireloom_codegen_c::emit(&module, &wireloom_codegen_c::Options::default()).text,
        Artifact::Bpf => place::text(&module, &args.set)?,
    };
    write(args.output.as_deref().filter(|path| *path != Path::new("-")), &text)
}

pub fn graph(args: Graph) -> Outcome {
    let module = load::load_graph(&args.file)?;
    if module.app.is_empty() {
        return Err(format!("{} has no app to draw", args.file.display()).into());
    }
    let svg = wireloom_ir::graph::svg(&module);
    let target = args.output.unwrap_or_else(|| PathBuf::from(format!("{}.svg", module.app)));
    if target == Path::new("-") {
        return write(None, &svg);
    }
    write(Some(&target), &svg)?;
    eprintln!("wireloom: wrote {}", target.display());
    Ok(())
}

fn write(target: Option<&Path>, text: &str) -> Outcome {
    match target {
        Some(path) => std::fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()).into()),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}
