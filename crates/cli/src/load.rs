//! From a file to checked IR, with its diagnostics on standard error. A file with several apps
//! gives a module for each. `FILE:APP` names one.

use crate::args::{Files, MAX_ERRORS};
use crate::world::CliWorld;
use crate::{c_files, Failure, Outcome};
use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use wireloom_interp::differential::contexts;
use wireloom_ir::passes::{run_all, run_both, run_on_graph};
use wireloom_ir::{suggestions, Module, UnitId};
use wireloom_lang::Checked;

/// The apps of a file, each with its tests. A file without an app gives one module of its units,
/// functions and elements. Warnings are printed, and the command goes on; errors are printed and
/// end it.
pub fn load_all(path: &Path) -> Result<Vec<Module>, Failure> {
    finish_all(compile_apps(path), path, false, run_all)
}

/// As [`load_all`], and a module for each test of an element.
pub fn load_tests(path: &Path) -> Result<Vec<Module>, Failure> {
    finish_all(compile(path), path, false, run_all)
}

fn finish_all(
    all: Vec<Checked>,
    path: &Path,
    bare: bool,
    mut passes: impl FnMut(&mut Module),
) -> Result<Vec<Module>, Failure> {
    let mut all = all;
    c_files::check(&mut all)?;
    print(&all, false, MAX_ERRORS);
    if all.iter().any(Checked::has_errors) {
        return Err(Failure::Silent);
    }
    all.into_iter().map(|checked| finish(checked, path, bare, &mut passes)).collect()
}

/// The only app of a file, or the one named, without its tests.
pub fn load(path: &Path) -> Result<Module, Failure> {
    load_after(path, run_all)
}

/// The same with its graph of elements as it was lowered.
pub fn load_graph(path: &Path) -> Result<Module, Failure> {
    load_after(path, run_on_graph)
}

/// Both: the graph as it was lowered, and the program whose elements are inlined.
pub fn load_both(path: &Path) -> Result<(Module, Module), Failure> {
    let mut inlined = None;
    let graph = load_after(path, |m| inlined = Some(run_both(m)))?;
    Ok((graph, inlined.ok_or_else(|| Failure::Said(format!("{} has no app", path.display())))?))
}

fn load_after(path: &Path, passes: impl FnMut(&mut Module)) -> Result<Module, Failure> {
    let mut all = finish_all(compile_apps(path), path, true, passes)?;
    if all.len() > 1 {
        let names: Vec<&str> = all.iter().map(|m| m.app.as_str()).collect();
        let (path, list) = (path.display(), names.join(", "));
        return Err(Failure::Said(format!("{path} has several apps: {list}; name one: {path}:{}", names[0])));
    }
    Ok(all.remove(0))
}

/// The apps of a file, to be run.
pub fn apps(path: &Path) -> Result<Vec<Module>, Failure> {
    let all = finish_all(compile_apps(path), path, true, run_all)?;
    match all.iter().find(|m| m.ports.is_empty()) {
        Some(m) if m.app.is_empty() => {
            let path = path.display();
            Err(Failure::Said(format!("{path} has no app to run; `wireloom test {path}` runs its tests")))
        }
        Some(m) => {
            Err(Failure::Said(format!("app `{}` of {} has no port: it would do nothing", m.app, path.display())))
        }
        None => Ok(all),
    }
}

/// The pictures of the apps of a file, for the admin page.
pub fn pictures(path: &Path) -> Vec<String> {
    let draw = |mut m: Module| {
        run_on_graph(&mut m);
        wireloom_ir::graph::live_svg(&m)
    };
    compile_apps(path).into_iter().filter_map(|c| c.module).map(draw).collect()
}

/// Runs the passes. A `bare` module has no tests.
fn finish(checked: Checked, path: &Path, bare: bool, passes: impl FnOnce(&mut Module)) -> Result<Module, Failure> {
    let mut module = checked.module.ok_or_else(|| Failure::Said(format!("{} has no app", path.display())))?;
    if bare {
        module.drop_tests();
    }
    passes(&mut module);
    let errors = wireloom_ir::verify::verify(&module);
    if errors.is_empty() {
        return Ok(module);
    }
    let list: Vec<String> = errors.iter().map(|e| format!("\n  {e}")).collect();
    Err(Failure::Said(format!(
        "internal error: the compiler made an invalid program of {}; please report it{}",
        path.display(),
        list.concat()
    )))
}

/// `FILE` or `FILE:APP`.
fn target(path: &Path) -> (PathBuf, Option<String>) {
    match path.to_str().and_then(|t| t.rsplit_once(':')) {
        Some((file, app)) if !path.exists() && Path::new(file).exists() => (PathBuf::from(file), Some(app.to_string())),
        _ => (path.to_path_buf(), None),
    }
}

/// A result per app and per test of an element.
fn compile(path: &Path) -> Vec<Checked> {
    let mut all = compile_apps(path);
    let (file, app) = target(path);
    let tests = if app.is_some() { 0 } else { all[0].element_tests };
    all.extend((0..tests).map(|n| wireloom_lang::compile_test(&CliWorld::new(), &file, n)));
    all
}

/// A result per app; of a file in error or without apps, one.
fn compile_apps(path: &Path) -> Vec<Checked> {
    let (path, app) = target(path);
    let world = CliWorld::new();
    let mut all = match &app {
        Some(_) => vec![wireloom_lang::compile(&world, &path, app.as_deref())],
        None => wireloom_lang::compile_apps(&world, &path),
    };
    if !path.exists() {
        let told = std::mem::take(&mut all[0].diagnostics).into_iter();
        all[0].diagnostics = told.map(|d| if d.code == "E0010" { hint_of_file(d, &path) } else { d }).collect();
    }
    all
}

/// A missing file: which one may have been meant.
fn hint_of_file(d: wireloom_syntax::Diagnostic, path: &Path) -> wireloom_syntax::Diagnostic {
    let with_suffix = |p: PathBuf| p.is_file().then(|| p.display().to_string());
    let plain = path.with_extension("loom");
    let found = with_suffix(plain.clone())
        .or_else(|| with_suffix(Path::new("apps").join(plain.file_name()?)))
        .or_else(|| neighbour(path));
    match found {
        Some(found) => d.hint(format!("did you mean `{found}`?")),
        None => d,
    }
}

/// The file beside it whose name is nearest.
fn neighbour(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names: Vec<String> =
        std::fs::read_dir(folder).ok()?.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    let near = suggestions::nearest(
        path.file_name()?.to_str()?,
        names.iter().map(String::as_str).filter(|n| n.ends_with(".loom")),
    )?;
    Some(path.with_file_name(near).display().to_string())
}

/// Prints the diagnostics of a file, once; returns the numbers of errors and warnings.
fn print(all: &[Checked], json: bool, most: usize) -> (usize, usize) {
    let colour = std::io::stderr().is_terminal();
    let (mut said, mut errors, mut warnings) = (HashSet::new(), 0, 0);
    for checked in all {
        for d in &checked.diagnostics {
            let key = d.to_json(&checked.map);
            // Errors outside of the apps are reported with each.
            if !said.insert(key.clone()) {
                continue;
            }
            *(if d.is_error() { &mut errors } else { &mut warnings }) += 1;
            if most > 0 && errors + warnings > most {
                continue;
            }
            if json {
                println!("{key}");
            } else {
                eprint!("{}", d.render(&checked.map, colour));
                eprintln!();
            }
        }
    }
    let hidden = if most > 0 { (errors + warnings).saturating_sub(most) } else { 0 };
    if hidden > 0 {
        eprintln!("… and {} (`wireloom check --max-errors 0` shows all)\n", number(hidden, "more diagnostic"));
    }
    (errors, warnings)
}

pub fn check(args: Files) -> Outcome {
    let (mut errors, mut warnings) = (0, 0);
    for path in &args.files {
        let mut all = compile(path);
        c_files::check(&mut all)?;
        let (e, w) = print(&all, args.json, args.max_errors);
        (errors, warnings) = (errors + e, warnings + w);
    }
    if !args.json {
        eprintln!(
            "checked {}: {}, {}",
            number(args.files.len(), "file"),
            number(errors, "error"),
            number(warnings, "warning")
        );
    }
    if errors > 0 {
        return Err(Failure::Silent);
    }
    Ok(())
}

/// `1 error`, `2 errors`.
fn number(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// The short names of a module's messages.
pub fn messages(m: &Module) -> String {
    let all = (0..m.units.len()).filter(|u| !contexts(m, UnitId(*u as u32)).is_empty());
    all.map(|u| short(&m.units[u].name)).collect::<Vec<_>>().join(", ")
}

/// The last part of a name.
pub fn short(name: &str) -> String {
    name.rsplit('.').next().unwrap_or(name).to_string()
}
