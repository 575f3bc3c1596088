//! Names of C's words, macros and of generated code, lengths at the border of 64 bits, sketches of
//! bytes, values without size and large sets. They run interpreted and compiled, without a warning
//! of the C compiler.

use wireloom_tests::folder::Folder;
use wireloom_tests::{finish, root, Wireloom};

fn passes(program: &str, tests: usize) {
    let mut command = Wireloom::program();
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
    passes("tests/programs/small.loom", 7);
}

/// A condition of thousands of parts would take the C compiler minutes.
#[test]
fn sets_of_thousands_of_numbers() {
    let numbers: Vec<String> = (0..20_000).map(|n| (n * 3).to_string()).collect();
    let text = format!(
        "fn third(x: u32) -> bool = x in {{{}, 70000..=70009, 70005..=70020}}\ntest \"t\" {{\n\
         expect third(0) and third(3) and third(29997) and third(59997) and third(70000) and third(70020)\n\
         expect not third(1) and not third(29998) and not third(59998) and not third(60000) and not third(70021)\n}}\n",
        numbers.join(", ")
    );
    let folder = Folder::new("large-set");
    let file = folder.file("set.loom");
    std::fs::write(&file, text).expect("the temporary folder is writable");
    passes(&file.display().to_string(), 1);
}
