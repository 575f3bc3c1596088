//! Names mean nothing. The names of programs and of the library are exchanged for words of C,
//! macros of its headers and names like those of generated code. The programs are checked as
//! before, give C without a warning, and their tests do the same.
//!
//! `WIRELOOM_SEEDS` is how many other sets of names each program gets; as usual one program in four
//! gets one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use wireloom_codegen_c::{find_compiler, CSource, HEADERS};
use wireloom_ir::Module;
use wireloom_syntax::MemoryWorld;
use wireloom_tests::folder::Folder;
use wireloom_tests::fuzz::judge::{judge, Sound};
use wireloom_tests::fuzz::rename::{known, map, renamed};
use wireloom_tests::programs::{code_tests, compiled, interpreted, no_internal_errors, seeds, LONG};
use wireloom_tests::root;

/// One program in so many has its tests run under the other names.
const RUN: usize = 4;

fn files(folder: &str) -> Vec<PathBuf> {
    wireloom_golden::files(&root().join(folder), "loom")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The library, and one program, by their places in the world.
fn together(library: &[(PathBuf, String)], program: &Path) -> Vec<(PathBuf, String)> {
    let mut all = library.to_vec();
    all.push((Path::new("/app").join(program.file_name().expect("a file")), read(program)));
    all
}

fn judged(files: &[(PathBuf, String)], names: &BTreeMap<String, String>) -> Result<Sound, String> {
    let mut world = MemoryWorld::new();
    for (path, text) in files {
        world.add(path, renamed(text, names));
    }
    let (main, text) = files.last().expect("the program");
    match judge(&world, main, None)? {
        Some(sound) => Ok(sound),
        None => {
            let checked = wireloom_lang::compile(&world, main, None);
            let said: String =
                checked.diagnostics.iter().filter(|d| d.is_error()).map(|d| d.render(&checked.map, false)).collect();
            Err(format!("it is refused:\n{said}\nwhere before it was\n{}", text.lines().next().unwrap_or_default()))
        }
    }
}

/// The C compiler reads the file without a word.
fn read_by_c(c: &CSource, folder: &Folder) -> Result<(), String> {
    let Ok((cc, _)) = find_compiler(None) else { return Ok(()) };
    let file = folder.file("program.c");
    std::fs::write(&file, &c.text).expect("written");
    let mut command = Command::new(cc);
    command.args([
        "-std=c11",
        "-D_GNU_SOURCE",
        "-fsyntax-only",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-tautological-compare",
        "-Wno-type-limits",
        "-march=native",
    ]);
    let out = command.arg("-I").arg(folder.path()).arg(&file).output().expect("the compiler starts");
    if out.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&out.stderr).into_owned())
    }
}

/// The compiled tests under the other names do the same as the interpreted ones under the first
/// names.
fn do_the_same(before: Module, after: Module) -> Result<(), String> {
    let (before, after) = (Arc::new(before), Arc::new(after));
    let Some(program) = compiled(&after)? else { return Ok(()) };
    let (a, b) = (code_tests(&before, &interpreted(&before)), code_tests(&after, &program));
    if a.len() != b.len() {
        return Err(format!("{} tests, and {}", a.len(), b.len()));
    }
    match a.iter().zip(&b).find(|(a, b)| a != b) {
        Some((a, b)) => Err(format!("before: {a:?}\nafter: {b:?}")),
        None => Ok(()),
    }
}

#[test]
fn names_mean_nothing() {
    let library: Vec<_> =
        files("std").into_iter().map(|p| (Path::new("/std").join(p.file_name().expect("a file")), read(&p))).collect();
    let programs: Vec<PathBuf> = ["apps", "tests/programs", "examples"].into_iter().flat_map(files).collect();
    let (known, folder, long) = (known(), Folder::new("renamed"), std::env::var_os(LONG).is_some());
    for (name, text) in HEADERS {
        std::fs::write(folder.file(name), text).expect("written");
    }
    let (mut tried, mut run, mut exchanged, mut wrong) = (0, 0, 0, Vec::new());
    for seed in seeds(1) {
        for (i, path) in programs.iter().enumerate().filter(|(i, _)| long || i % 4 == seed as usize % 4) {
            let files = together(&library, path);
            // Files that do not stand alone, or call C, are left out.
            let Ok(before) = judged(&files, &BTreeMap::new()) else { continue };
            if !before.c.externs.is_empty() {
                continue;
            }
            let names = map(&files, &known, seed * 1000 + i as u64);
            tried += 1;
            exchanged += names.keys().filter(|n| files.last().is_some_and(|(_, t)| t.contains(n.as_str()))).count();
            let same = judged(&files, &names).and_then(|after| {
                read_by_c(&after.c, &folder)?;
                if !long && tried % RUN != 0 {
                    return Ok(());
                }
                run += 1;
                do_the_same(before.module, after.module)
            });
            if let Err(e) = same {
                let text = renamed(&files.last().expect("the program").1, &names);
                let kept =
                    std::env::temp_dir().join(format!("wireloom-renamed-{}-{i}-{seed}.loom", std::process::id()));
                std::fs::write(&kept, text).expect("written");
                wrong.push(format!("{} (kept as {}), seed {seed}: {e}", path.display(), kept.display()));
            }
        }
    }
    eprintln!("{tried} programs with {exchanged} other names of their own, {run} of them run");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(tried >= 10 && run >= 2 && exchanged >= 20 * tried, "{tried} programs, {run} run, {exchanged} names");
    no_internal_errors();
}
