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
    for code in codes::checker().filter(|c| !c.example.is_empty()) {
        let checked = wireloom_lang::compile(&world(code.example), Path::new("/app/main.loom"), None);
        if !checked.diagnostics.iter().any(|d| d.code == code.code) {
            let said = diagnostic::render_all(&checked.diagnostics, &checked.map, false);
            wrong += &format!("---- {} is missing in:\n{}\nsaid:\n{said}\n", code.code, code.example);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Causes that an example cannot show. Most are refused before the analysis of the IR could find
/// them, and tested there.
#[test]
fn codes_without_an_example() {
    let code = |text: &str, app: Option<&str>| {
        let checked = wireloom_lang::compile(&world(text), Path::new("/app/main.loom"), app);
        checked.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>()
    };
    assert_eq!(code("const a: u8 = 1\n", Some("none")), ["E0204"]);
    let nested = format!("fn f(a: bool) -> bool = {}a\n", "not ".repeat(125));
    assert_eq!(code(&nested, None), ["E0504"]);
    let arms: String = (0..257).map(|n| format!("{n} => 1\n")).collect();
    assert_eq!(code(&format!("fn f(a: u16) -> u16 = match a {{\n{arms}_ => 2\n}}\n"), None), ["E0507"]);
    let nodes = " -> e".repeat(300);
    let long = format!("unit H {{ n: u8 }}\npacket P {{ h: H }}\nelement E {{\n in x: packet\n out y: packet\n on x(p) {{ p -> y }}\n}}\napp a {{\n port i = memory(\"i\") as P, o = memory(\"o\") as P\n e = E()\n i{nodes} -> o\n}}\n");
    assert_eq!(code(&long, None), ["E0508"]);
    // E0506 and E0509: `many.rs`. E0687 to E0691, which the C compiler finds: `functions_in_c.rs`
    // of the end-to-end tests. E0717: `elements_in_c.rs` there.
    let without: Vec<_> = codes::checker().filter(|c| c.example.is_empty()).map(|c| c.code).collect();
    assert_eq!(
        without,
        [
            "E0204", "E0406", "E0408", "E0413", "E0504", "E0506", "E0507", "E0508", "E0509", "E0510", "E0687", "E0688",
            "E0689", "E0690", "E0691", "E0717"
        ]
    );
}

/// Bytes that are no text are found by line and column, as all else is.
#[test]
fn bytes_that_are_no_text() {
    let mut world = world("");
    world.add("/app/main.loom", b"unit M { n: u8 }\n// \xc3\xa9\xff\n".as_slice());
    let checked = wireloom_lang::compile(&world, Path::new("/app/main.loom"), None);
    let said = diagnostic::render_all(&checked.diagnostics, &checked.map, false);
    assert!(said.contains("E0011") && said.contains("byte 0xff in line 2, column 5"), "{said}");
}

/// Where two handle one port, both places are shown.
#[test]
fn both_handlers_of_a_port_are_shown() {
    let text = "unit M { n: u8  m: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    c -> s\n    on c(r) { reply call s(r) }\n}\n";
    let checked = wireloom_lang::compile(&world(text), Path::new("/app/main.loom"), None);
    let said = diagnostic::render_all(&checked.diagnostics, &checked.map, false);
    assert!(said.contains("E0639") && said.contains("the first one") && said.contains("the second one"), "{said}");
}

#[test]
fn every_code_in_the_source_is_listed() {
    let mut missing = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).expect("a source file");
            for part in text.split('"') {
                let is_code = part.len() == 5
                    && (part.starts_with("E0") || part.starts_with("W0"))
                    && part[1..].bytes().all(|b| b.is_ascii_digit());
                if is_code && codes::find(part).is_none() {
                    missing.push(part.to_string());
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}
