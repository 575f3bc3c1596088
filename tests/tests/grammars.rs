//! Generated grammars: units of every field form. Interpreter and compiled code must parse each
//! accepted grammar alike, valid or damaged, whole or in pieces. Handlers must read the same
//! values. Many units make one module, so that the C compiler runs a few times only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use wireloom_interp::differential::{contexts, HandlerAct, Mock, Pair, Summary};
use wireloom_interp::generate::Generator;
use wireloom_interp::grammar::args;
use wireloom_ir::{Module, On, UnitId};
use wireloom_runtime::Program;
use wireloom_syntax::source::MemoryWorld;
use wireloom_tests::grammars::{program, Made, Maker};
use wireloom_tests::programs::{no_internal_errors, seeds, twins, Twins};

const UNITS: usize = 30;
const ROUNDS: usize = 30;

/// Every form that the generator knows.
const FORMS: &[&str] = &[
    "unsigned",
    "signed",
    "enum",
    "address",
    "little endian",
    "bit fields",
    "literal",
    "flag",
    "decimal",
    "decimal until",
    "hex",
    "signed number as text",
    "varint",
    "bytes by length",
    "bytes until",
    "until peek",
    "trimmed until",
    "charset until",
    "charset run",
    "bytes to end",
    "a long field",
    "computed length",
    "enum of text",
    "nested",
    "nested with parameters",
    "a unit in a length",
    "parts in a length",
    "a unit until",
    "list by count",
    "list until a delimiter",
    "list of units until a delimiter",
    "list until an item",
    "list by a fold",
    "list of units by count",
    "list to end",
    "switch by literals",
    "switch by peeked literals",
    "switch by a value",
    "switch by bytes",
    "switch by conditions",
    "switch by an option",
    "let of a number",
    "let of a bool",
    "let of bytes",
    "let of an option",
    "require",
    "recover until",
    "recover length",
    "skip",
    "pad",
    "order",
    "stream of bytes",
    "stream of one unit",
    "stream of units",
    "stream until close",
    "parameters of a response",
];

/// The code of the compiler's error for a module of one unit.
fn refusal(unit: &Made) -> Option<&'static str> {
    let mut world = MemoryWorld::default();
    world.add("/one.loom", program(&[unit]));
    let checked = wireloom_lang::compile(&world, Path::new("/one.loom"), None);
    let said = checked.diagnostics.iter().find(|d| d.is_error())?;
    if std::env::var_os("WIRELOOM_REFUSED").is_some() {
        eprintln!("{}", said.render(&checked.map, false));
    }
    Some(said.code)
}

/// The next units of a maker that the compiler accepts, and how many it refuses by which code.
fn accepted(make: &mut Maker, refused: &mut BTreeMap<&'static str, usize>) -> Vec<Made> {
    let mut units = Vec::new();
    for n in 0.. {
        let unit = make.message(&format!("U{n}"));
        match refusal(&unit) {
            None => units.push(unit),
            Some(code) => *refused.entry(code).or_default() += 1,
        }
        if units.len() == UNITS {
            break;
        }
    }
    units
}

/// The actions of a unit's handler for a message, by each of both.
fn handled(t: &Twins, mocks: &mut [Mock], unit: UnitId, message: &[u8]) -> Vec<Vec<HandlerAct>> {
    let of =
        |on: &On| matches!(on, On::Message { protocol, .. } if t.module.protocols[protocol.index()].request == unit);
    let Some(handler) = t.module.handlers.iter().position(|h| of(&h.on)) else { return Vec::new() };
    mocks.iter_mut().map(|m| m.run_message(handler as u32, message, &[])).collect()
}

/// Streams and handled messages of one unit.
fn compare(t: &Twins, compiled: &Program, mocks: &mut [Mock], unit: UnitId, seed: u64) -> Result<Summary, String> {
    let mut sum = Summary::default();
    for ctx in contexts(&t.module, unit).into_iter().take(3) {
        let pair = Pair { module: &t.module, a: t.interpreted.table(), b: compiled.table(), unit, ctx };
        // SAFETY: both programs live as long as the process.
        sum.add(&unsafe { pair.compare_random(seed, ROUNDS) }?);
    }
    let args = args(&t.module, unit, 0);
    let mut generator = Generator::new(&t.module, seed);
    for _ in 0..ROUNDS / 3 {
        let Some(message) = generator.message(unit, &args) else { continue };
        let done = handled(t, mocks, unit, &message);
        let [a, b] = &done[..] else { continue };
        if let Some(n) = (0..a.len().max(b.len())).find(|n| a.get(*n) != b.get(*n)) {
            return Err(format!(
                "the handlers differ in act {n}: interpreted {:?}, compiled {:?}\nmessage: \"{}\"",
                a.get(n),
                b.get(n),
                message.escape_ascii()
            ));
        }
    }
    Ok(sum)
}

fn named(m: &Module, name: &str) -> UnitId {
    UnitId(
        m.units.iter().position(|u| u.name.rsplit('.').next() == Some(name)).expect("the unit is in the module") as u32
    )
}

/// The results of both for all these units: by unit the streams, or the difference.
fn compare_all(t: &Twins, units: &[UnitId], seed: u64) -> Vec<Result<Summary, String>> {
    let compiled = t.compiled.as_ref().unwrap_or(&t.interpreted);
    // SAFETY: the programs live as long as the process.
    let mut mocks = [&t.interpreted, compiled].map(|p| unsafe { Mock::new(p.table(), &t.module, &[]) });
    let internal = |why| format!("{why}\ninternal errors: {:?}", wireloom_interp::internal_errors());
    units.iter().map(|unit| compare(t, compiled, &mut mocks, *unit, seed).map_err(internal)).collect()
}

#[test]
fn grammars_are_parsed_alike() {
    let (mut forms, mut refused, mut alive, mut all) = (BTreeSet::new(), BTreeMap::new(), 0, 0);
    let (mut total, mut differences) = (Summary::default(), Vec::new());
    for seed in seeds(2) {
        let units = accepted(&mut Maker::new(seed), &mut refused);
        units.iter().for_each(|u| forms.extend(u.forms.iter().copied()));
        let file = std::env::temp_dir().join(format!("wireloom-grammars-{}-{seed}.loom", std::process::id()));
        std::fs::write(&file, program(&units.iter().collect::<Vec<_>>())).expect("the temporary folder is writable");
        let t = twins(&file);
        let ids: Vec<UnitId> = units.iter().map(|u| named(&t.module, &u.name)).collect();
        let before = differences.len();
        for (unit, done) in units.iter().zip(compare_all(&t, &ids, seed)) {
            all += 1;
            match done {
                Ok(sum) => {
                    alive += usize::from(sum.messages > 0);
                    total.add(&sum);
                }
                Err(why) => differences.push(format!("seed {seed}, {}:{}: {why}", file.display(), unit.name)),
            }
        }
        // A difference is kept for inspection.
        if differences.len() == before {
            std::fs::remove_file(&file).ok();
        }
    }
    let refusals: usize = refused.values().sum();
    eprintln!("{all} units, {alive} of them with messages; {total:?}; {refusals} refused: {refused:?}");
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    let unseen: Vec<_> = FORMS.iter().filter(|f| !forms.contains(*f)).collect();
    assert!(unseen.is_empty(), "forms that no accepted unit has: {unseen:?}");
    assert_eq!(forms.len(), FORMS.len(), "forms that are not listed here");
    assert!(alive * 4 >= all * 3 && refusals < all, "most units are accepted, and of most there are messages");
    assert!(total.in_step * 20 > all && total.bad > all, "{total:?}");
    no_internal_errors();
}

/// Grammars that once showed a difference.
#[test]
fn mended_grammars_are_parsed_alike() {
    let t = twins("tests/programs/grammars.loom");
    let units: Vec<UnitId> = t.module.protocols.iter().map(|p| p.request).collect();
    let mut differences = Vec::new();
    for seed in 1..=20 {
        let done = compare_all(&t, &units, seed);
        differences.extend(done.into_iter().filter_map(|d| d.err()));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    no_internal_errors();
}
