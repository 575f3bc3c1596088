//! From a file to checked IR, with its diagnostics on standard error.

use crate::args::Files;
use crate::world::CliWorld;
use crate::{Failure, Outcome};
use std::io::IsTerminal;
use std::path::Path;
use wireloom_ir::Module;
use wireloom_lang::Checked;

/// Compiles a file. Warnings are printed and go on; errors are printed and end the command.
pub fn load(path: &Path) -> Result<Module, Failure> {
    let checked = wireloom_lang::compile(&CliWorld::new(), path, None);
    print(&checked, false);
    if checked.diagnostics.iter().any(|d| d.is_error()) {
        return Err(Failure::Silent);
    }
    let mut module = checked.module.ok_or_else(|| Failure::Said(format!("{} has no app", path.display())))?;
    wireloom_ir::passes::run_all(&mut module);
    let errors = wireloom_ir::verify::verify(&module);
    if errors.is_empty() {
        return Ok(module);
    }
    let list: Vec<String> = errors.iter().map(|e| format!("\n  {e}")).collect();
    Err(Failure::Said(format!("internal error: the compiler made an invalid program of {}; please report it{}", path.display(), list.concat())))
}

fn print(checked: &Checked, json: bool) {
    let colour = std::io::stderr().is_terminal();
    for d in &checked.diagnostics {
        if json {
            println!("{}", d.to_json(&checked.map));
        } else {
            eprint!("{}", d.render(&checked.map, colour));
            eprintln!();
        }
    }
}

pub fn check(args: Files) -> Outcome {
    let (mut errors, mut warnings) = (0, 0);
    for path in &args.files {
        let checked = wireloom_lang::compile(&CliWorld::new(), path, None);
        print(&checked, args.json);
        errors += checked.diagnostics.iter().filter(|d| d.is_error()).count();
        warnings += checked.diagnostics.iter().filter(|d| !d.is_error()).count();
    }
    if !args.json {
        let files = args.files.len();
        eprintln!("checked {files} file{}: {errors} errors, {warnings} warnings", if files == 1 { "" } else { "s" });
    }
    if errors > 0 {
        return Err(Failure::Silent);
    }
    Ok(())
}
