//! Names of C's words, macros and of generated code, lengths at the border of 64 bits, sketches of
//! bytes, values without size and large sets: interpreted and compiled, without a warning of the C
//! compiler.

use std::process::Command;
use wireloom_tests::folder::Folder;
use wireloom_tests::{finish, root, Wireloom};

fn passes(program: &str, tests: usize) {
    let mut command = Command::new(Wireloom::binary());
    command.current_dir(root()).env("WIRELOOM_WERROR", "1").args(["test", program]);
    let out = finish(&mut command);
    assert!(out.code == Some(0) && out.text.contains(&format!("{tests} passed, 0 failed")), "{}", out.text);
}

#[test]
fn every_name_compiles() {
    passes("tests/programs/names.loom", 5);
}

#[test]
fn values_without_size_and_large_sets() {
    passes("tests/programs/small.loom", 4);
}

/// A condition of thousands of parts would take the C compiler minutes.
#[test]
fn sets_of_thousands_of_numbers() {
    let numbers: Vec<String> = (0..20_000).map(|n| (n * 3).to_string()).collect();
    let text = format!(
        "fn f(x: u32) -> bool = x in {{{}}}\ntest \"t\" {{ expect f(0) and f(59997) and not f(59998) and not f(1) }}\n",
        numbers.join(", ")
    );
    let folder = Folder::new("large-set");
    let file = folder.file("set.loom");
    std::fs::write(&file, text).expect("the temporary folder is writable");
    passes(&file.display().to_string(), 1);
}
