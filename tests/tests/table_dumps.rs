//! A dump of any table can be loaded: dumped, loaded into an empty table and dumped again, it is
//! the same. Tables have keys and values of each type, with odd values.

use wireloom_tests::folder::Folder;
use wireloom_tests::{finish, quickly_compiled, Wireloom};

const TYPES: &str = "enum Closed: u8 { red, green = 5 }
enum Open: u8 { red, green = 5, _ }
enum Wide: u64 { red, green = 0x100000000, _ }
enum Word: bytes<8> { get = \"GET\", put = \"PUT\", _ }
record Both { a: u8, b: bytes<9>, c: duration, d: Open }
";

/// Each type, with values of it.
const VALUES: &[(&str, &[&str])] = &[
    ("bool", &["true", "false"]),
    ("u8", &["0", "255"]),
    ("u16", &["7", "65535"]),
    ("u24", &["0", "0xffffff"]),
    ("u32", &["0", "0x0a000001", "0xffffffff"]),
    ("u48", &["0", "0xffffffffffff"]),
    ("u64", &["0", "0x20000000000001", "0xffffffffffffffff"]),
    ("Closed", &["Closed.red", "Closed.green"]),
    ("Open", &["Open.red", "Open.green", "Open(77)", "Open(255)"]),
    ("Wide", &["Wide.red", "Wide.green", "Wide(0xffffffffffffffff)"]),
    ("Word", &["Word.get", "Word.put", "Word(255)"]),
    ("duration", &["0s", "1ns", "5ms", "9600h"]),
    ("mac", &["02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff"]),
    ("ip4", &["10.0.0.1", "255.255.255.255", "0.0.0.0"]),
    ("ip6", &["2001:db8::1", "::", "::ffff:1.2.3.4", "::1.2.3.4"]),
    ("ip", &["10.0.0.1", "2001:db8::1", "::"]),
    (
        "bytes<9>",
        &[
            r#""""#,
            r#"" ""#,
            r#"" 0x41""#,
            r#""0x41""#,
            r#""0x""#,
            r#""0X41""#,
            r#""041""#,
            r#""41""#,
            r#""-1""#,
            r#""\x00""#,
            r#""\xff\xfe""#,
            r#""\"""#,
            r#"",""#,
            r#""a\nb""#,
            r#""\r""#,
            r#""\t0x1""#,
            r#""null""#,
            r#""true""#,
            r#""[1]""#,
            r#""{}""#,
            r#""any""#,
            r#""*""#,
            r#""1e3""#,
            r#""10.0.0.1""#,
            r#""é""#,
        ],
    ),
    ("(u8, bytes<9>)", &[r#"(3, " 0x41")"#, r#"(4, "0x")"#, r#"(5, "")"#]),
    ("Both", &[r#"Both { a: 1, b: " 0x41", c: 5ms, d: Open(9) }"#, r#"Both { a: 2, b: "12", c: 0s, d: Open.green }"#]),
];

/// Tables of each type as a key and as a value, and the code that fills them.
fn tables() -> (String, String, usize) {
    let (mut tables, mut fill, mut n) = (String::new(), String::new(), 0);
    for (ty, values) in VALUES {
        tables += &format!("    table t{n}: {ty} -> u32 {{ capacity 64 }}\n");
        tables += &format!("    table t{}: u32 -> {ty} {{ capacity 64 }}\n", n + 1);
        for (at, value) in values.iter().enumerate() {
            fill += &format!("        t{n}[{value}] = {at}\n        t{}[{at}] = {value}\n", n + 1);
        }
        n += 2;
    }
    (tables, fill, n)
}

/// The rows of a file, in any order.
fn rows(folder: &Folder, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.file(name)).expect("it was written");
    let mut rows: Vec<String> = if name.ends_with("json") {
        let list: Vec<serde_json::Value> = serde_json::from_str(&text).expect("it is JSON");
        list.iter().map(ToString::to_string).collect()
    } else {
        // Bytes with line ends lie on several lines: the file as a whole is compared.
        text.lines().map(str::to_string).collect()
    };
    rows.sort();
    rows
}

#[test]
fn dumps_are_loaded_as_they_were() {
    let folder = Folder::new("table-dumps");
    let (tables, fill, n) = tables();
    let app = |start: &str| {
        format!("{TYPES}app a {{\n    port w = memory(\"w\")\n{tables}    on start {{\n{start}    }}\n    on w(p) {{ drop p }}\n}}\n")
    };
    // A capture without a frame.
    let mut empty = vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0];
    empty.extend(1u32.to_le_bytes());
    std::fs::write(folder.file("in.pcap"), empty).expect("written");
    std::fs::write(folder.file("full.loom"), app(&fill)).expect("written");
    std::fs::write(folder.file("empty.loom"), app("")).expect("written");
    let run = |program: &str, how: &[&str], files: Vec<String>| {
        let mut command = Wireloom::program();
        command.current_dir(folder.path()).args(["run", program, "--bind", "w=pcap:in.pcap"]).args(how).args(files);
        let out = finish(quickly_compiled(&mut command));
        assert_eq!(out.code, Some(0), "{program} {how:?}: {}", out.text);
    };
    for (form, how) in [("json", &["--interpret"][..]), ("csv", &["--interpret"]), ("json", &[]), ("csv", &[])] {
        let files = |option: &str, name: &str| {
            let one = |i: usize| [option.to_string(), format!("t{i}={name}{i}.{form}")];
            (0..n).flat_map(one).collect::<Vec<String>>()
        };
        run("full.loom", how, files("--dump", "first"));
        run("empty.loom", how, [files("--load", "first"), files("--dump", "again")].concat());
        for i in 0..n {
            let (first, again) =
                (rows(&folder, &format!("first{i}.{form}")), rows(&folder, &format!("again{i}.{form}")));
            let values = VALUES[i / 2].1.len();
            if form == "json" {
                assert_eq!(first.len(), values, "{}", VALUES[i / 2].0);
            }
            assert_eq!(first, again, "{} {form} {how:?}", VALUES[i / 2].0);
        }
    }
}
