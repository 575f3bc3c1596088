//! The element library, `std/elements`. Every file has its doc, example and test, and the index of
//! docs/ has each first paragraph. All tests hold. On a capture of everything compiled code sends,
//! packet for packet, the same as the interpreter.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use wireloom_tests::packets::Captures;
use wireloom_tests::{finish, quickly_compiled, root, Wireloom};

/// Elements that are compiled together.
const TOGETHER: usize = 14;

struct Element {
    file: String,
    group: String,
    module: String,
    name: String,
    /// The first sentence of the file's doc comment.
    doc: String,
    ins: Vec<String>,
    /// Outputs, with the sizes of arrays in the example.
    outs: Vec<(String, Option<usize>)>,
    /// `<2>(n = 3)`, from the example.
    args: String,
    text: String,
}

fn files() -> Vec<PathBuf> {
    let mut all = Vec::new();
    for folder in std::fs::read_dir(root().join("std/elements")).expect("the library").flatten() {
        let files = std::fs::read_dir(folder.path()).expect("a folder of elements").flatten().map(|e| e.path());
        all.extend(files.filter(|p| p.extension().is_some_and(|e| e == "loom")));
    }
    all.sort();
    assert!(all.len() >= 100, "the library has {} elements", all.len());
    all
}

/// The text between two texts, the first time.
fn between<'t>(text: &'t str, from: &str, to: &str) -> Option<&'t str> {
    let rest = &text[text.find(from)? + from.len()..];
    Some(&rest[..rest.find(to)?])
}

/// The text behind the element's name in the example, up to the closing bracket, over several
/// lines too.
fn arguments(example: &str, name: &str) -> Option<String> {
    let rest = &example[example.find(&format!("= {name}"))? + 2 + name.len()..];
    let depth = |at: usize| rest[..=at].matches('(').count().checked_sub(rest[..=at].matches(')').count());
    let end = rest.match_indices(')').map(|(at, _)| at).find(|at| depth(*at) == Some(0))?;
    Some(rest[..=end].to_string())
}

fn element(path: &Path) -> Element {
    let file = path.strip_prefix(root()).expect("in the repository").display().to_string();
    let text = std::fs::read_to_string(path).expect("an element");
    let part = |from: &str, to: &str, what: &str| {
        between(&text, from, to).unwrap_or_else(|| panic!("{file} has no {what}")).to_string()
    };
    assert_eq!(text.matches("\nelement ").count(), 1, "{file}: one element per file");
    assert!(text.contains("\ntest \""), "{file} has no test");
    let head = part("\nelement ", "\n}\n", "element");
    let name = head.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("").to_string();
    let example = part("\napp example {\n", "\n}\n", "example");
    let args = arguments(&example, &name).unwrap_or_else(|| panic!("{file}: the example has no `= {name}(…)`"));
    let count = || -> Option<usize> {
        let digits = |t: &str| t.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
        [args.strip_prefix('<'), args.split("n = ").nth(1), args.strip_prefix('(')]
            .into_iter()
            .flatten()
            .find_map(digits)
    };
    let (mut ins, mut outs) = (Vec::new(), Vec::new());
    for line in head.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["in", n, "packet"] => ins.push(n.trim_end_matches(':').to_string()),
            ["out", n, "packet"] => outs.push((n.trim_end_matches(':').to_string(), None)),
            ["out", n, "packet", _] => outs.push((
                n.trim_end_matches(':').to_string(),
                Some(count().unwrap_or_else(|| panic!("{file}: how many ways out?"))),
            )),
            _ => {}
        }
    }
    let comment: Vec<&str> = text
        .lines()
        .take_while(|l| l.starts_with("//!"))
        .map(|l| l[3..].trim())
        .take_while(|l| !l.is_empty())
        .collect();
    let comment = comment.join(" ");
    let module = path.file_stem().and_then(|s| s.to_str()).unwrap_or("").to_string();
    let group = path.parent().and_then(Path::file_name).and_then(|s| s.to_str()).unwrap_or("").to_string();
    assert!(comment.len() > 20, "{file} has no doc comment");
    Element { doc: comment, ins, outs, args, name, module, group, file, text }
}

fn elements() -> Vec<Element> {
    files().iter().map(|p| element(p)).collect()
}

/// docs/elements.md, from the files.
fn index(all: &[Element]) -> String {
    let mut groups: BTreeMap<&str, Vec<&Element>> = BTreeMap::new();
    for e in all {
        groups.entry(&e.group).or_default().push(e);
    }
    let mut text = format!(
        "<!-- Made from the doc comments of std/elements by tests/tests/elements.rs; do not edit. -->\n\n# Elements\n\n\
         The {} elements of the standard library. `use std.elements.queue.codel_queue` brings in a file;\n\
         `link = codel_queue.CodelQueue(rate = 10Mbps)` makes an instance. Each file has the full\n\
         description, an example and tests. How elements are wired and written:\n[language.md](language.md#wiring-of-packets).\n",
        all.len()
    );
    for (group, list) in groups {
        write!(text, "\n## {group}\n\n| element | |\n|---|---|\n").expect("a string");
        for e in list {
            writeln!(text, "| [{}](../{}) | {} |", e.name, e.file, e.doc.replace('|', "\\|")).expect("a string");
        }
    }
    text
}

/// `BLESS=1` writes it.
#[test]
fn the_index_is_that_of_the_files() {
    let golden = wireloom_golden::Golden { path: root().join("docs/elements.md"), text: Some(index(&elements())) };
    wireloom_golden::compare(&[golden]).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn all_tests_hold() {
    let mut args: Vec<String> = ["test", "--interpret"].map(String::from).to_vec();
    args.extend(files().iter().map(|p| p.display().to_string()));
    let out = Wireloom::command(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(out.code, Some(0), "{}", out.text);
    assert!(out.out.contains(" 0 failed"), "{}", out.text);
}

#[test]
fn all_are_formatted() {
    let mut args: Vec<String> = ["fmt", "--check"].map(String::from).to_vec();
    args.extend(files().iter().map(|p| p.display().to_string()));
    let out = Wireloom::command(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(out.code, Some(0), "{}", out.text);
}

/// An app of many instances that all get every packet; each output has a port. Its text, and the
/// number of ports.
fn app(all: &[&Element]) -> (String, usize) {
    let (mut uses, mut instances, mut wires, mut ins, mut ports) =
        (String::new(), String::new(), String::new(), Vec::new(), 0);
    for (i, e) in all.iter().enumerate() {
        writeln!(uses, "use std.elements.{}.{}", e.group, e.module).expect("a string");
        writeln!(instances, "    e{i} = {}.{}{}", e.module, e.name, e.args).expect("a string");
        ins.extend(e.ins.iter().map(|n| format!("e{i}.{n}")));
        for (out, count) in &e.outs {
            for k in 0..count.unwrap_or(1) {
                let at = count.map_or(String::new(), |_| format!("[{k}]"));
                writeln!(wires, "    e{i}.{out}{at} -> outs[{ports}]").expect("a string");
                ports += 1;
            }
        }
    }
    let names: Vec<String> = (0..ports).map(|i| format!("nic(\"o{i}\")")).collect();
    let ins = ins.join(", ");
    let text = format!("{uses}\napp all {{\n    port wire = nic(\"in\"), outs = [{}]\n{instances}    wire -> tee({ins}) -> drop\n{wires}}}\n", names.join(", "));
    (text, ports)
}

/// Runs the app on the capture and returns its output.
fn run(folder: &Path, name: &str, text: &str, ports: usize, interpret: bool) -> Vec<Vec<u8>> {
    let file = folder.join(format!("{name}.loom"));
    std::fs::write(&file, text).expect("the folder is writable");
    let out = |i: usize| folder.join(format!("{name}-{interpret}-{i}.pcap"));
    let outs: Vec<String> = (0..ports).map(|i| format!("pcap:{}", out(i).display())).collect();
    let mut command = Wireloom::program();
    command.arg("run").arg(&file).args([
        "--bind",
        &format!("wire=pcap:{}", folder.join("in.pcap").display()),
        "--bind",
        &format!("outs={}", outs.join(",")),
    ]);
    if interpret {
        command.arg("--interpret");
    }
    let done = finish(quickly_compiled(&mut command));
    assert_eq!(done.code, Some(0), "{}:\n{}", file.display(), done.text);
    (0..ports).map(|i| std::fs::read(out(i)).unwrap_or_default()).collect()
}

#[test]
fn compiled_elements_send_what_interpreted_ones_do() {
    let Some(captures) = Captures::make("elements", "elements", &[]) else { return };
    let all = elements();
    // Elements that draw random numbers are compiled and run, but not compared.
    let (drawing, sure): (Vec<&Element>, Vec<&Element>) =
        all.iter().partition(|e| ["random(", "random_bytes("].iter().any(|f| e.text.contains(f)));
    let (text, ports) = app(&drawing);
    let sent = run(&captures.folder, "drawing", &text, ports, false);
    assert!(sent.iter().filter(|f| f.len() > 24).count() * 2 > ports, "most ways out are taken");
    let parts: Vec<&[&Element]> = sure.chunks(TOGETHER).collect();
    let counted: Vec<(usize, usize)> = std::thread::scope(|s| {
        let halves: Vec<_> = (0..2)
            .map(|half| {
                s.spawn({
                    let (parts, folder) = (&parts, &captures.folder);
                    move || {
                        parts
                            .iter()
                            .enumerate()
                            .filter(|(n, _)| n % 2 == half)
                            .map(|(n, part)| compared(folder, n, part))
                            .collect::<Vec<_>>()
                    }
                })
            })
            .collect();
        halves.into_iter().flat_map(|h| h.join().expect("the other half holds")).collect()
    });
    let (taken, ways) = counted.iter().fold((0, 0), |(t, w), c| (t + c.0, w + c.1));
    assert!(taken * 10 > ways * 7, "only {taken} of {ways} ways out are taken");
}

/// How many outputs were used, and how many there are.
fn compared(folder: &Path, n: usize, part: &[&Element]) -> (usize, usize) {
    let (text, ports) = app(part);
    let name = format!("part{n}");
    let (compiled, interpreted) = (run(folder, &name, &text, ports, false), run(folder, &name, &text, ports, true));
    for (i, (c, t)) in compiled.iter().zip(&interpreted).enumerate() {
        assert!(c == t, "{}/{name}.loom: what leaves at outs[{i}] is not the same:\n{text}", folder.display());
    }
    (compiled.iter().filter(|f| f.len() > 24).count(), ports)
}
