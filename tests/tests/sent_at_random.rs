//! Units at random, built with values at random: what is sent is read as it was meant, or the
//! program has a fault. The parts of a unit stand beside others that they may be read as.

use wireloom_interp::{parse_message, Parsed};
use wireloom_ir::Module;
use wireloom_tests::folder::Folder;
use wireloom_tests::programs::{answer, checked_both, interpreted, no_internal_errors, seeds};

/// The values of a request.
struct Asked {
    k: u8,
    text: &'static str,
}

const TEXTS: [&str; 16] = ["", "#", "#a", " a", "a ", "a", "aa", "ba", "!", "=", "x", "ab", "xa", " ", "a b", "1"];

/// A part of a unit: its fields, the values that are given, and what its reader should see.
struct Part {
    fields: String,
    given: String,
    seen: fn(&str, &Asked) -> Vec<String>,
}

fn text(name: &str, a: &Asked) -> Vec<String> {
    vec![format!("{name} = \"{}\"", a.text)]
}

fn number(name: &str, a: &Asked) -> Vec<String> {
    vec![format!("{name} = {}", a.k)]
}

fn nothing(_: &str, _: &Asked) -> Vec<String> {
    vec![]
}

/// One of the parts, with the names that belong to number `i`.
fn part(kind: usize, set: &str, i: usize) -> Part {
    let p = |fields: &str, given: &str, seen| {
        let fill = |s: &str| s.replace('@', &i.to_string()).replace("SET", set);
        Part { fields: fill(fields), given: fill(given), seen }
    };
    match kind {
        0 => p("\"#\"", "", nothing),
        1 => p("_: bytes<5> of SET", "", nothing),
        2 => p("left@: bytes<5> of SET", "", nothing),
        3 => p("v@: bytes<5> of SET", "v@: slice(m.q, 0, 5)", text),
        4 => p("v@: flag \"#\"", "v@: m.k == 1", |n, a| vec![format!("{n} = {}", a.k == 1)]),
        5 => p("v@: bytes<9> until \";\"", "v@: m.q", text),
        6 => p("v@: bytes<9> until \"#\"", "v@: m.q", text),
        7 => p(
            "s@: switch { peek \"#\" => v@: bytes<9> until \";\", else => o@: bytes<9> until \";\" }",
            "v@: m.q",
            text,
        ),
        8 => p(
            "s@: switch { peek \"#\" => o@: bytes<9> until \";\", else => v@: bytes<9> until \";\" }",
            "v@: m.q",
            text,
        ),
        9 => p(
            "s@: switch { \"a\" => nothing, \"!\" => o@: bytes<9> until \";\", else => v@: bytes<9> until \";\" }",
            "v@: m.q",
            text,
        ),
        10 => p("v@: u8  s@: switch v@ { 1 => o@: u8, 2 => nothing, 3 => nothing }", "v@: m.k", number),
        11 => p("v@: u8  s@: switch { when v@ == 1 => o@: u8, when v@ == 2 => nothing }", "v@: m.k", number),
        12 => p("n@: u8 in 1..=2 = len(v@)  v@: bytes<9> [n@]", "v@: m.q", text),
        13 => p("n@: decimal<u8> until \";\" in {0, 2} = len(v@)  v@: bytes<9> [n@]", "v@: m.q", text),
        14 => p("l@: list<Bit, 4> until \";\"  require l@.any(|b| b.t == 2)", "l@: [Bit { t: m.k }]", |n, a| {
            vec![format!("l{}: 1 items", &n[1..]), format!("t = {}", a.k)]
        }),
        15 => p("p@: Bit  require raw(p@) == \"\\x02\"", "p@: Bit { t: m.k }", |_, a| vec![format!("t = {}", a.k)]),
        16 => p(
            "s@: switch { peek \"\\x01\" | peek \"\\x02\" => v@: u8, else => o@: bytes<9> until \";\" }",
            "v@: m.k",
            number,
        ),
        _ => p("v@: decimal<u8>", "v@: m.k", number),
    }
}

const KINDS: u64 = 18;

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

fn program(parts: &[Part]) -> String {
    let fields: Vec<&str> = parts.iter().map(|p| p.fields.as_str()).collect();
    let given: Vec<&str> = parts.iter().map(|p| p.given.as_str()).filter(|g| !g.is_empty()).collect();
    format!(
        "charset blank = \" \"\ncharset mark = \"#!\"\ncharset letter = \"ab\"\nunit Bit {{ t: u8 in 0..=9 }}\n\
         unit Ask {{ k: u8  q: bytes<9> until \"\\n\" }}\nunit U {{\n    {}\n    \".\"\n}}\n\
         protocol p {{ request Ask  response U  stateless }}\n\
         app a {{ port client = listen tcp(7000) as p  on client(m) {{ reply U {{ {} }} }} }}\n",
        fields.join("\n    "),
        given.join(", ")
    )
}

/// Names the difference between an answer and what was meant, if there is one.
fn misread(module: &Module, parts: &[Part], asked: &Asked, sent: &[u8]) -> Option<String> {
    let unit = module.protocols[module.ports[0].protocols[0].index()].response.expect("the protocol has answers");
    let Parsed::Message { used, dump, .. } = parse_message(module, unit, sent, 0, true) else {
        return Some("it is refused".into());
    };
    if used != sent.len() {
        return Some(format!("{used} bytes of it are read"));
    }
    let lines: Vec<&str> = dump.lines().map(|l| l.trim_start_matches([' ', '-'])).collect();
    let missing = |(i, p): (usize, &Part)| {
        let seen = (p.seen)(&format!("v{i}"), asked);
        let gone = seen.into_iter().find(|s| !lines.contains(&s.as_str()));
        gone.map(|s| format!("not `{s}`"))
    };
    // One byte of a run may part its neighbours.
    let more = |l: &&&str| l.starts_with("left") && l.len() > "left0 = \"a\"".len();
    let left = lines.iter().find(more);
    parts.iter().enumerate().find_map(missing).or(left.map(|l| format!("`{l}`, which was left out")))
}

#[test]
fn units_at_random() {
    let folder = Folder::new("sent");
    let (mut programs, mut sent, mut faults, mut wrong) = (0, 0, 0, vec![]);
    for seed in seeds(160) {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let n = 1 + random.below(3) as usize;
        let set = |r: &mut Random| ["blank", "mark", "letter"][r.below(3) as usize];
        let parts: Vec<Part> = (0..n)
            .map(|i| {
                let (kind, set) = (random.below(KINDS) as usize, set(&mut random));
                part(kind, set, i)
            })
            .collect();
        let path = folder.file("p.loom");
        std::fs::write(&path, program(&parts)).expect("the folder is writable");
        // Some grammars are ambiguous by themselves, and some messages are never valid.
        let Ok((graph, module)) = checked_both(&path, None) else { continue };
        let by = interpreted(&std::sync::Arc::new(graph));
        programs += 1;
        for _ in 0..12 {
            let asked = Asked { k: random.below(5) as u8, text: TEXTS[random.below(16) as usize] };
            let request = [&[asked.k], asked.text.as_bytes(), b"\n"].concat();
            let answer = answer(&module, &by, &request);
            if answer.is_empty() {
                faults += 1;
                continue;
            }
            sent += 1;
            if let Some(why) = misread(&module, &parts, &asked, &answer) {
                let of = (asked.k, asked.text);
                wrong.push(format!("seed {seed}, {of:?}: {} {why}\n{}", answer.escape_ascii(), program(&parts)));
                break;
            }
        }
    }
    eprintln!("{programs} programs, {sent} messages, {faults} faults");
    assert!(wrong.is_empty(), "{} of {programs}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(programs >= 60 && sent >= 150 && faults >= 100, "{programs} programs, {sent} messages, {faults} faults");
    no_internal_errors();
}
