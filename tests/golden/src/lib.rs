//! Golden tests: each file of a folder is a test of its own, named after the file.
//! `cargo test --test cases -- wiring_errors` runs one. With `BLESS=1` a test writes the files that
//! it would compare. A failure shows the difference.

pub use libtest_mimic::Trial;
use libtest_mimic::{Arguments, Failed};
use similar::TextDiff;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines around each difference.
const CONTEXT: usize = 3;

/// A file, and the text that must be in it; none: the file must not be there.
pub struct Golden {
    pub path: PathBuf,
    pub text: Option<String>,
}

pub fn blessing() -> bool {
    std::env::var_os("BLESS").is_some()
}

/// The files of a folder with this extension, in order.
///
/// # Panics
/// If the folder cannot be read.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut all: Vec<_> =
        entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == extension)).collect();
    all.sort();
    all
}

/// Compares each output with its file, or writes it.
///
/// # Errors
/// The differences, or why a file could not be written.
pub fn compare(all: &[Golden]) -> Result<(), String> {
    let wrong: Vec<String> =
        all.iter().filter_map(|g| if blessing() { write(g).err() } else { difference(g) }).collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

fn write(g: &Golden) -> Result<(), String> {
    if fs::read_to_string(&g.path).ok() == g.text {
        return Ok(());
    }
    let done = match &g.text {
        Some(text) => fs::write(&g.path, text),
        None => fs::remove_file(&g.path),
    };
    done.map_err(|e| format!("{}: {e}", g.path.display()))
}

fn difference(g: &Golden) -> Option<String> {
    let (there, now) = (fs::read_to_string(&g.path).ok(), g.text.as_deref());
    if there.as_deref() == now {
        return None;
    }
    Some(
        diff(&g.path.display().to_string(), &there.unwrap_or_default(), now.unwrap_or_default()) + "BLESS=1 accepts it",
    )
}

/// The difference between the file and the output now.
pub fn diff(name: &str, there: &str, now: &str) -> String {
    TextDiff::from_lines(there, now).unified_diff().context_radius(CONTEXT).header(name, "now").to_string()
}

/// A test of one file.
pub fn test(name: impl Into<String>, run: impl FnOnce() -> Result<(), String> + Send + 'static) -> Trial {
    Trial::test(name, || run().map_err(Failed::from))
}

/// The name that a file gives to its test.
pub fn name(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

/// A test that panics where something is wrong.
pub fn panics(name: impl Into<String>, run: impl FnOnce() + Send + 'static) -> Trial {
    test(name, || {
        run();
        Ok(())
    })
}

/// Runs the tests that the command line asks for, and ends the process.
pub fn run(tests: Vec<Trial>) -> ! {
    let mut args = Arguments::from_args();
    // As the usual harness does.
    args.test_threads = args.test_threads.or_else(|| std::env::var("RUST_TEST_THREADS").ok()?.parse().ok());
    libtest_mimic::run(&args, tests).exit()
}
