//! From a file to checked IR, with its diagnostics on standard error.

use crate::args::Files;
use crate::world::CliWorld;
use crate::{Failure, Outcome};
use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::Path;
use wireloom_ir::Module;
use wireloom_lang::Checked;

/// Compiles a file, with its first app. Warnings are printed and go on; errors are printed and end the command.
pub fn load(path: &Path) -> Result<Module, Failure> {
    let checked = wireloom_lang::compile(&CliWorld::new(), path, None);
    print(&checked, false, &mut HashSet::new());
    finished(path, checked)
}

/// Compiles a file once with each of its apps. What is the same for several of them is said once.
pub fn load_each(path: &Path) -> Result<Vec<(Option<String>, Module)>, Failure> {
    let mut said = HashSet::new();
    let mut modules = Vec::new();
    for (app, checked) in each_app(path) {
        print(&checked, false, &mut said);
        modules.push((app, checked));
    }
    modules.into_iter().map(|(app, checked)| Ok((app, finished(path, checked)?))).collect()
}

/// A file is compiled with one app at a time; one without apps has its tests.
fn each_app(path: &Path) -> Vec<(Option<String>, Checked)> {
    let first = wireloom_lang::compile(&CliWorld::new(), path, None);
    let apps = first.apps.clone();
    let mut all = vec![(apps.first().cloned(), first)];
    all.extend(apps.iter().skip(1).map(|app| (Some(app.clone()), wireloom_lang::compile(&CliWorld::new(), path, Some(app)))));
    all
}

fn finished(path: &Path, checked: Checked) -> Result<Module, Failure> {
    if checked.has_errors() {
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

/// Prints what was not said before; gives the numbers of errors and warnings among that.
fn print(checked: &Checked, json: bool, said: &mut HashSet<String>) -> (usize, usize) {
    let colour = std::io::stderr().is_terminal();
    let mut new = (0, 0);
    for d in &checked.diagnostics {
        let text = if json { d.to_json(&checked.map).to_string() } else { d.render(&checked.map, colour) };
        if !said.insert(text.clone()) {
            continue;
        }
        match d.is_error() {
            true => new.0 += 1,
            false => new.1 += 1,
        }
        if json {
            println!("{text}");
        } else {
            eprintln!("{text}");
        }
    }
    new
}

pub fn check(args: Files) -> Outcome {
    let (mut errors, mut warnings) = (0, 0);
    for path in &args.files {
        let mut said = HashSet::new();
        for (_, checked) in each_app(path) {
            let new = print(&checked, args.json, &mut said);
            errors += new.0;
            warnings += new.1;
        }
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
