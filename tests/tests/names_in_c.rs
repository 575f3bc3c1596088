//! Names of C's words, macros and of generated code, lengths at the border of 64 bits, and sketches
//! of bytes: interpreted and compiled, without a warning of the C compiler.

use std::process::Command;
use std::time::Duration;
use wireloom_tests::{finish_within, root, Wireloom};

#[test]
fn every_name_compiles() {
    let mut command = Command::new(Wireloom::binary());
    command.current_dir(root()).env("WIRELOOM_WERROR", "1").args(["test", "tests/programs/names.loom"]);
    let out = finish_within(&mut command, Duration::from_secs(120));
    assert!(out.code == Some(0) && out.text.contains("5 passed, 0 failed"), "{}", out.text);
}
