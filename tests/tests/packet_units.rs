//! Every header and message of `std/` against tshark, on captures that scapy makes. All fields of
//! whole frames and messages are compared; then prefixes, captures that cut frames off, and every
//! byte changed. The captures and the expected results are in `packets/units.py`.

use std::path::Path;
use wireloom_interp::differential::{contexts, Pair};
use wireloom_ir::UnitId;
use wireloom_tests::packets::Captures;
use wireloom_tests::process::{finish, quickly_compiled};
use wireloom_tests::programs::{no_internal_errors, twins};
use wireloom_tests::Wireloom;

/// `wireloom ARGS` in the captures' folder; its output goes to `NAME.log`.
fn wireloom(folder: &Path, name: &str, args: &[&str]) -> String {
    let output = finish(quickly_compiled(Wireloom::program().current_dir(folder).args(args)));
    assert_eq!(output.code, Some(0), "{args:?} in {}:\n{}", folder.display(), output.text);
    std::fs::write(folder.join(format!("{name}.log")), &output.text).expect("the folder is writable");
    output.text
}

#[test]
fn fields_agree_with_tshark() {
    let Some(captures) = Captures::make("units", "units", &[]) else { return };
    let folder = captures.folder.as_path();
    // By the interpreter and by compiled code.
    let tests = wireloom(folder, "units", &["test", "units.loom"]);
    assert!(tests.contains("16 passed, 0 failed"), "{tests}");
    for name in ["frames", "cut", "snap", "broken"] {
        let bind = format!("wire=pcap:{name}.pcap");
        let interpreted = said(&wireloom(folder, name, &["run", "--interpret", "fields.loom", "--bind", &bind]));
        let compiled = said(&wireloom(folder, name, &["run", "fields.loom", "--bind", &bind]));
        assert_eq!(interpreted.len(), compiled.len(), "{name}");
        for (i, c) in interpreted.iter().zip(&compiled) {
            assert_eq!(i, c, "{name}: the interpreter and compiled code");
        }
    }
    captures.check(&[]);
    // All headers again, frame by frame: every prefix and every changed byte, in memory that ends
    // where the frame does.
    let fuzzed = wireloom(folder, "fuzz", &["fuzz", "fields.loom", "--frames", "frames.pcap", "--seconds", "0"]);
    assert!(fuzzed.contains("no difference") && !fuzzed.contains(" in 0 frames"), "{fuzzed}");
    messages_survive(folder);
}

/// The lines that the app logged, without times.
fn said(log: &str) -> Vec<String> {
    log.lines().filter_map(|l| Some(l[l.find("@ ")?..].to_string())).collect()
}

/// Every prefix of every message, and every byte of each changed: compiled code and interpreter
/// find the same.
fn messages_survive(folder: &Path) {
    let text = std::fs::read_to_string(folder.join("payloads.json")).expect("the script wrote it");
    let list: Vec<serde_json::Value> = serde_json::from_str(&text).expect("it is JSON");
    assert!(list.len() >= 10, "{text}");
    for row in list {
        let field = |name: &str| row[name].as_str().unwrap_or_default().to_string();
        let (file, unit, bytes) = (format!("std/{}.loom", field("module")), field("unit"), unhex(&field("bytes")));
        let t = twins(&file);
        let compiled = t.compiled.as_ref().unwrap_or(&t.interpreted);
        let id =
            t.module.units.iter().position(|u| u.name == unit).unwrap_or_else(|| panic!("{unit} is no unit of {file}"));
        let id = UnitId(id as u32);
        assert_eq!(contexts(&t.module, id), [0], "{unit}");
        let pair = Pair { module: &t.module, a: t.interpreted.table(), b: compiled.table(), unit: id, ctx: 0 };
        let try_one = |input: &[u8]| {
            // SAFETY: both tables live as long as the process.
            unsafe { pair.compare(input, &[], true) }.unwrap_or_else(|e| panic!("{e}"));
        };
        for cut in 0..=bytes.len() {
            try_one(&bytes[..cut]);
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut broken = bytes.clone();
                broken[at] ^= flip;
                try_one(&broken);
            }
        }
    }
    no_internal_errors();
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("two digits")).collect()
}
