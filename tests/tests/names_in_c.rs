//! Names of C's words, macros and of generated code, lengths at the border of 64 bits, and sketches
//! of bytes. They run interpreted and compiled, without a warning of the C compiler.

use std::process::Command;
use wireloom_tests::{finish, root, Wireloom};

#[test]
fn every_name_compiles() {
    let mut command = Command::new(Wireloom::binary());
    command.current_dir(root()).env("WIRELOOM_WERROR", "1").args(["test", "tests/programs/names.loom"]);
    let out = finish(&mut command);
    assert!(out.code == Some(0) && out.text.contains("5 passed, 0 failed"), "{}", out.text);
}
