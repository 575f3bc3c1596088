//! The example of every code of the checker has that error, and each such code is explained.

use std::path::Path;
use wireloom_syntax::{codes, diagnostic, MemoryWorld, World};

fn world(text: &str) -> MemoryWorld {
    let std = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../std");
    let mut world = MemoryWorld::new().with("/app/main.loom", text);
    for file in std::fs::read_dir(std).expect("std is there").flatten().filter(|f| f.path().is_file()) {
        let text = std::fs::read(file.path()).expect("a module of std");
        world.add(Path::new("/std").join(file.file_name()), text);
    }
    assert!(world.std_root() == Path::new("/std"));
    world
}

#[test]
fn every_example_has_its_error() {
    let mut wrong = String::new();
    for code in codes::lang::CODES.iter().filter(|c| !c.example.is_empty()) {
        let checked = wireloom_lang::compile(&world(code.example), Path::new("/app/main.loom"), None);
        if !checked.diagnostics.iter().any(|d| d.code == code.code) {
            let said = diagnostic::render_all(&checked.diagnostics, &checked.map, false);
            wrong += &format!("---- {} is missing in:\n{}\nsaid:\n{said}\n", code.code, code.example);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// What an example cannot show: the rest is refused before the analysis of the IR could find it, and tested there.
#[test]
fn codes_without_an_example() {
    let code = |text: &str, app: Option<&str>| {
        let checked = wireloom_lang::compile(&world(text), Path::new("/app/main.loom"), app);
        checked.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>()
    };
    assert_eq!(code("const a: u8 = 1\n", Some("none")), ["E0204"]);
    let nested = format!("fn f(a: bool) -> bool = {}a\n", "not ".repeat(125));
    assert_eq!(code(&nested, None), ["E0504"]);
    let without: Vec<_> = codes::lang::CODES.iter().filter(|c| c.example.is_empty()).map(|c| c.code).collect();
    assert_eq!(without, ["E0204", "E0406", "E0408", "E0413", "E0504"]);
}

#[test]
fn every_code_in_the_source_is_listed() {
    let mut missing = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            if entry.path().is_dir() { folders.push(entry.path()); continue; }
            let text = std::fs::read_to_string(entry.path()).expect("a source file");
            for part in text.split('"') {
                let is_code = part.len() == 5 && (part.starts_with("E0") || part.starts_with("W0")) && part[1..].bytes().all(|b| b.is_ascii_digit());
                if is_code && codes::find(part).is_none() { missing.push(part.to_string()); }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}
