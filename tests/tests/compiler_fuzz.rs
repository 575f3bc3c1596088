//! No text makes the compiler fail: the programs of the repository, damaged at random, and texts
//! made to be unpleasant. Each is refused with diagnostics that help, or it is a program. A program
//! keeps its meaning in every form. The C compiler accepts it without a warning. Compiled and
//! interpreted it does the same.
//!
//! `WIRELOOM_SEEDS` is how many damaged versions of each program are tried. The current text is in
//! the temporary folder (`wireloom-fuzz-<pid>.loom`) as long as it has not passed, so that it is
//! found even after a crash.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use wireloom_interp::differential::{contexts, Pair};
use wireloom_interp::generate::Rng;
use wireloom_ir::UnitId;
use wireloom_syntax::MemoryWorld;
use wireloom_tests::fuzz::corpus::{self, MAIN};
use wireloom_tests::fuzz::judge::{judge, Sound};
use wireloom_tests::fuzz::mutate::Mutator;
use wireloom_tests::programs::{code_tests, compiled, interpreted, no_internal_errors, seeds};

/// The stack that the operating system gives a program's first thread.
const STACK: usize = 8 << 20;

/// Every so many sound mutants one is compiled and run.
const SAMPLE: usize = 10;

/// Unpleasant programs are given to the C compiler (in long runs) up to this size.
const LARGEST_C: usize = 1 << 20;

fn on_a_usual_stack(run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// The current text, kept until it has passed.
struct Case(PathBuf);

impl Case {
    fn new(bytes: &[u8]) -> Case {
        let thread = format!("{:?}", std::thread::current().id()).replace(|c: char| !c.is_ascii_digit(), "");
        let path = std::env::temp_dir().join(format!("wireloom-fuzz-{}-{thread}.loom", std::process::id()));
        std::fs::write(&path, bytes).expect("the temporary folder is writable");
        Case(path)
    }

    fn passed(self) {
        std::fs::remove_file(&self.0).ok();
    }
}

/// Judges one text as the file at `path`, compiled from `main`.
fn try_text(world: &mut MemoryWorld, path: &Path, main: &Path, bytes: &[u8]) -> Result<Option<Sound>, String> {
    world.add(path, bytes);
    judge(world, main, std::str::from_utf8(bytes).ok())
}

/// Compiles a program and compares what its tests and its messages do with the interpreter's word.
fn compare(sound: Sound, seed: u64) -> Result<(), String> {
    if !sound.c.externs.is_empty() {
        return Ok(());
    }
    let module = Arc::new(sound.module);
    let Some(compiled) = compiled(&module)? else { return Ok(()) };
    let interpreted = interpreted(&module);
    if module.params.is_empty() {
        let (a, b) = (code_tests(&module, &interpreted), code_tests(&module, &compiled));
        if let Some((a, b)) = a.iter().zip(&b).find(|(a, b)| a != b) {
            return Err(format!("interpreted: {a:?}\ncompiled: {b:?}"));
        }
    }
    for unit in (0..module.units.len() as u32).map(UnitId) {
        for ctx in contexts(&module, unit).into_iter().take(2) {
            let pair = Pair { module: &module, a: interpreted.table(), b: compiled.table(), unit, ctx };
            // SAFETY: both programs live as long as the process.
            unsafe { pair.compare_random(seed, 6) }?;
        }
    }
    Ok(())
}

#[test]
fn damaged_programs() {
    on_a_usual_stack(|| {
        let programs = corpus::programs();
        let clean = corpus::world;
        let mut world = clean();
        let first = std::env::var("WIRELOOM_FIRST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1u64);
        let apps: Vec<usize> = (0..programs.len()).filter(|i| programs[*i].name.contains("/apps/")).collect();
        let (mut tried, mut sound, mut run) = (0, 0, 0);
        let mut wrong = Vec::new();
        for round in seeds(1) {
            let mut mutator = Mutator::new(&programs, first.wrapping_mul(1_000_003) ^ round);
            for (i, p) in programs.iter().enumerate() {
                let bytes = mutator.mutant(i);
                let library = p.path != Path::new(MAIN);
                // A damaged module is met through a program that uses it, too.
                let mut main = p.path.clone();
                if library && mutator.rng.chance(50) {
                    let app = apps[mutator.rng.below(apps.len() as u64) as usize];
                    world.add(MAIN, programs[app].text.as_str());
                    main = MAIN.into();
                }
                let case = Case::new(&bytes);
                tried += 1;
                let judged = try_text(&mut world, &p.path, &main, &bytes).and_then(|s| {
                    let Some(s) = s else { return Ok(()) };
                    sound += 1;
                    if sound % SAMPLE != 0 {
                        return Ok(());
                    }
                    run += 1;
                    compare(s, round)
                });
                match judged {
                    Ok(()) => case.passed(),
                    Err(e) => {
                        let kept = std::env::temp_dir().join(format!(
                            "wireloom-fuzz-{}-wrong-{}.loom",
                            std::process::id(),
                            wrong.len()
                        ));
                        std::fs::rename(&case.0, &kept).ok();
                        eprintln!("{} ({}), seed {first}, round {round}: {e}", kept.display(), p.name);
                        wrong.push(kept);
                    }
                }
                if library {
                    world = clean();
                }
            }
        }
        eprintln!("{tried} damaged programs, {sound} of them sound, {run} compiled and run");
        assert!(wrong.is_empty(), "{wrong:?}");
        no_internal_errors();
    });
}

/// The programs themselves are judged as the damaged ones are.
#[test]
fn undamaged_programs() {
    on_a_usual_stack(|| {
        let mut world = corpus::world();
        // Half of them, but in a long run: each is judged by tests of its own, too.
        let step = if std::env::var_os("WIRELOOM_SEEDS").is_some() { 1 } else { 2 };
        let wrong: Vec<String> = corpus::programs()
            .iter()
            .step_by(step)
            .filter_map(|p| {
                try_text(&mut world, &p.path, &p.path, p.text.as_bytes()).err().map(|e| format!("{}: {e}\n", p.name))
            })
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.concat());
    });
}

/// Text that nests, repeats or breaks off without end.
fn unpleasant() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |name: &str, text: String| all.push((name.into(), text.into_bytes()));
    const DEEP: usize = 10_000;
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{ ", " }"),
        ("- ", ""),
        ("not ", ""),
        ("! ", ""),
        ("~", ""),
        ("if a { ", " }"),
        ("f(", ")"),
        ("some(", ")"),
        ("|x| ", ""),
        ("match a { _ => ", " }"),
        ("fold a from ", " with |x, y| 1"),
        ("a else ", ""),
        ("a is ", ""),
        ("a.b(", ")"),
        ("[x for x in ", "]"),
        ("R { a: ", " }"),
        ("a with { b: ", " }"),
        ("1 + ", ""),
        ("a and ", ""),
        ("a..", ""),
        ("u8(", ")"),
        ("(1, ", ")"),
    ] {
        for n in [100, 200, 255, DEEP] {
            add("nested expressions", format!("fn f(a: u32) -> u32 = {}1{}\n", open.repeat(n), close.repeat(n)));
            add(
                "nested expressions in a test",
                format!("test \"t\" {{ expect {}1{} }}\n", open.repeat(n), close.repeat(n)),
            );
            add("expressions without an end", format!("fn f(a: u32) -> u32 = {}", open.repeat(n)));
        }
    }
    for (open, close) in
        [("list<", ", 2>"), ("[", "; 2]"), ("(", ", u8)"), ("record { a: ", " }"), ("", "?"), ("list<", "")]
    {
        for n in [8, 16, 30, 33, 100, 200, DEEP] {
            let nested = format!("{}u8{}", open.repeat(n), close.repeat(n));
            add("nested types", format!("type T = {nested}\nfn f(t: T) -> u32 = 1\n"));
            add(
                "nested state",
                format!(
                    "app a {{ state s: {nested}\n session t: {nested}\n table v: u8 -> {nested} {{ capacity 3 }} }}\n"
                ),
            );
            add("nested fields", format!("unit U {{ a: {nested} to end }}\n"));
        }
    }
    for (open, close) in [
        ("switch { \"a\" => b: ", ", else => nothing }"),
        ("switch { else => { a: u8  b: ", " } }"),
        ("list<", ", 2> to end"),
        ("stream ", ""),
    ] {
        for n in [30, 100, 200, DEEP] {
            add("nested shapes", format!("unit U {{ x: {} u8 {} }}\n", open.repeat(n), close.repeat(n)));
        }
    }
    for (open, close) in [
        ("if a > 1 { ", " }"),
        ("for x in 0..2 { ", " }"),
        ("loop max 2 { ", " }"),
        ("{ ", " }"),
        ("match a { 1 => { ", " } _ => { } }"),
    ] {
        for n in [50, 100, 120, 200, DEEP] {
            add(
                "nested statements",
                format!("fn f(a: u32) -> u32 {{ {} return 1 {}\n a }}\n", open.repeat(n), close.repeat(n)),
            );
        }
    }
    let chain = |n: usize, link: &dyn Fn(usize) -> String| (0..n).map(link).collect::<String>();
    for n in [100, 2_000] {
        add(
            "functions that call the next",
            chain(n, &|i| format!("fn f{i}(a: u32) -> u32 = f{}(a)\n", i + 1))
                + &format!("fn f{n}(a: u32) -> u32 = a\n"),
        );
        add(
            "functions that call the next twice",
            chain(n, &|i| format!("fn f{i}(a: u32) -> u32 = f{0}(a) + f{0}(a)\n", i + 1))
                + &format!("fn f{n}(a: u32) -> u32 = a\n"),
        );
        add(
            "constants of the next",
            chain(n, &|i| format!("const c{i} = c{} + 1\n", i + 1)) + &format!("const c{n} = 1\n"),
        );
        add("types of the next", chain(n, &|i| format!("type T{i} = T{}\n", i + 1)) + &format!("type T{n} = u8\n"));
        add(
            "tuples of the next twice",
            chain(n, &|i| format!("type T{i} = (T{0}, T{0})\n", i + 1))
                + &format!("type T{n} = u8\nfn f(t: T0) -> u8 = 1\n"),
        );
        add(
            "records of the next twice",
            chain(n, &|i| format!("record R{i} {{ a: R{0}  b: R{0} }}\n", i + 1))
                + &format!("record R{n} {{ a: u8 }}\nfn f(t: R0) -> u8 = 1\n"),
        );
        add(
            "units of the next",
            chain(n, &|i| format!("unit U{i} {{ a: U{} }}\n", i + 1)) + &format!("unit U{n} {{ a: u8 }}\n"),
        );
        add(
            "units of the next twice",
            chain(n, &|i| format!("unit U{i} {{ a: U{0}  b: U{0} }}\n", i + 1)) + &format!("unit U{n} {{ a: u8 }}\n"),
        );
        add(
            "lists of lists of units",
            chain(n, &|i| format!("unit U{i} {{ a: list<U{}, 100> to end }}\n", i + 1))
                + &format!("unit U{n} {{ a: u8 }}\n"),
        );
        add(
            "messages given on",
            format!(
                "unit M {{ a: u8 }}\n{}fn f{n}(m: M) -> u32 = 1\n",
                chain(n, &|i| format!("fn f{i}(m: M) -> u32 = f{0}(m) + f{0}(m)\n", i + 1))
            ),
        );
        add("a long sum", format!("fn f(a: u32) -> u32 = a{}\n", " + a".repeat(n)));
        add("a long list", format!("fn f(a: u32) -> u32 = len([{}])\n", "a, ".repeat(n)));
        add("a long concat", format!("fn f(a: bytes<9>) -> u64 = len(concat({}))\n", "a, ".repeat(n)));
        add(
            "a long match",
            format!("fn f(a: u32) -> u32 = match a {{ {} _ => 1 }}\n", chain(n, &|i| format!("{i} => {i}\n"))),
        );
        add(
            "a match of many tuples",
            format!(
                "fn f(a: bool, b: bool) -> u32 = match (a, b, a, b) {{ {} _ => 1 }}\n",
                chain(n, &|i| format!("({}, _, {}, _) => {i}\n", i % 2 == 0, i % 3 == 0))
            ),
        );
        add(
            "a long enum",
            format!(
                "enum E {{ {} }}\nfn f(e: E) -> u32 = match e {{ {} }}\n",
                chain(n, &|i| format!("v{i},")),
                chain(n, &|i| format!("v{i} => {i}\n"))
            ),
        );
        add("many fields", format!("unit U {{ {} }}\n", chain(n, &|i| format!("f{i}: u8\n"))));
        // Facts about the cases are compared with each other: checking is quadratic, and 2,000
        // cases take 3 s.
        add(
            "many cases",
            format!(
                "unit U {{ k: u16\n s: switch k {{ {} else => nothing }} }}\n",
                chain(n.min(500), &|i| format!("{i} => f{i}: u8\n"))
            ),
        );
        add(
            "many literals",
            format!(
                "unit U {{ s: switch {{ {} else => nothing }} }}\n",
                chain(n, &|i| format!("\"w{i} \" => f{i}: u8\n"))
            ),
        );
        add("many statements", format!("fn f(a: u32) -> u32 {{ var x = a\n {} x }}\n", "x += a\n".repeat(n)));
        add(
            "many variables",
            format!("fn f(a: u32) -> u32 {{ {} a }}\n", chain(n, &|i| format!("let x{i} = a + {i}\n"))),
        );
        add(
            "many errors",
            format!("fn f(a: u32) -> u32 {{ {} a }}\n", chain(n, &|i| format!("let x{i} = nothing{i} + \"a\"\n"))),
        );
        add("many bad items", "fn fn fn }\n".repeat(n));
        add("many tests", chain(n, &|i| format!("test \"t{i}\" {{ expect {i} == {i} }}\n")));
        add(
            "many else ifs",
            format!("fn f(a: u32) -> u32 {{ if a == 1 {{ }} {} a }}\n", "else if a == 2 { } ".repeat(n)),
        );
        add("closers only", "}".repeat(n) + &")".repeat(n));
    }
    for n in [u64::MAX, 1 << 63, 1 << 32, (1 << 32) - 1, 1 << 31, 1 << 24, 0] {
        add("a large type", format!("fn f(a: bytes<{n}>, b: list<u8, {n}>, c: [u64; {n}]) -> u64 = len(a)\n"));
        add("a large list of lists", format!("type T = list<list<list<u64, {n}>, {n}>, {n}>\nfn f(a: T) -> u64 = 1\n"));
        add("a large table", format!("app a {{ table t: bytes<65536> -> bytes<{n}> {{ capacity {n}, idle {n}s }} state s: list<u64, {n}> }}\n"));
        add("a large loop", format!("fn f(a: u64) -> u64 {{ var x = a\n loop max {n} {{ x += 1 }} for i in 0..{n} {{ for j in 0..{n} {{ x += 1 }} }} x }}\n"));
        add("a large field", format!("unit U {{ a: bytes<{n}> to end }}\nunit V {{ a: list<U, {n}> to end  b: bytes<{n}> [{n}]  _: skip {n}  _: pad {n} }}\n"));
        add("a large number", format!("enum E: u64 {{ a = {n}, b, _ }}\nconst c: u64 = {n} + {n} * {n}\nconst d = {n} << {n}\nfn f(a: u64) -> u64 = a % {n} + a / {n} + (a << {n})\n"));
        add("a large period", format!("app a {{ every {n}s {{ }} every {n}ns {{ }} }}\n"));
        add("a large range", format!("unit U {{ a: u64 in 0..={n}  b: u64 in {n}..{n}  c: u8 in {n}..=5 }}\nfn f(a: u64) -> bool = a in 0..{n} or a in {n}..={n}\n"));
    }
    for text in [
        "\"",
        "'",
        "b\"",
        "fn f() = \"a",
        "/// only a comment",
        "//! file",
        "\u{feff}fn f() -> u8 = 1\n",
        "fn\u{a0}f() -> u8 = 1\n",
        "const é = 1\n",
        "\0",
        "1.2.3",
        "1.2.3.4.5",
        "[::",
        "[::1]:99999999",
        "10.0.0.0/99",
        "02:00:00",
        "0x",
        "0b",
        "1e5",
        "999999999999999999999999999999999999999999999",
        "'\\",
        "\"\\",
        "\"\\x4",
        "\r",
        "fn f() -> u8 = 1\r",
        "use use\n",
        "use main\n",
        "use std\n",
        "use std.http.Request.x.y\n",
        "use a.b.c\n",
        "fn f(",
        "unit",
        "app",
        "app a",
        "app a {",
        "test",
        "test \"",
        "test \"a\" of",
        "table",
        "element e",
        "protocol p",
    ] {
        add("a piece", text.to_string());
    }
    add("a line without an end", format!("const a = {}", "1".repeat(1 << 20)));
    add("a name without an end", format!("const {} = 1\n", "a".repeat(1 << 20)));
    add("a text without an end", format!("const a: bytes<9> = \"{}\"\n", "a".repeat(1 << 20)));
    add("a comment without an end", format!("// {}", "a ".repeat(1 << 20)));
    add("blank lines", "\n".repeat(1 << 20));
    add("odd letters", "日本語 ".repeat(1 << 16));
    all.push(("no text".into(), vec![0xff; 4096]));
    all.push(("too long".into(), vec![b'\n'; (16 << 20) + 1]));
    let mut rng = Rng::new(7);
    all.push(("random bytes".into(), (0..1 << 16).map(|_| rng.below(128) as u8).collect()));
    all
}

#[test]
fn unpleasant_texts() {
    on_a_usual_stack(|| {
        let mut world = corpus::world();
        let compile_all = std::env::var_os("WIRELOOM_SEEDS").is_some();
        let mut wrong = String::new();
        for (name, bytes) in unpleasant() {
            let case = Case::new(&bytes);
            let begun = std::time::Instant::now();
            let tried = try_text(&mut world, Path::new(MAIN), Path::new(MAIN), &bytes).and_then(|s| match s {
                Some(s) if s.c.text.len() < LARGEST_C && compile_all => compare(s, 1),
                _ => Ok(()),
            });
            if let Err(e) = tried {
                let start = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned();
                wrong += &format!(
                    "---- {name} ({} bytes): {}\n{start}\n",
                    bytes.len(),
                    e.chars().take(600).collect::<String>()
                );
            }
            if begun.elapsed().as_secs() > 4 {
                eprintln!("{name}, {} bytes: {:?} in all", bytes.len(), begun.elapsed());
            }
            case.passed();
        }
        assert!(wrong.is_empty(), "{wrong}");
    });
}
