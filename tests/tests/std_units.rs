//! Every message of the standard library. Interpreter and compiled code read the same messages from
//! every fragmentation of a stream. A message that is parsed and built again from its fields is the
//! same.

use std::path::{Path, PathBuf};
use wireloom_interp::api::parse_with;
use wireloom_interp::differential::{contexts, is_message, Pair, Summary};
use wireloom_interp::generate::Generator;
use wireloom_interp::grammar::Grammar;
use wireloom_interp::Parsed;
use wireloom_ir::{Extent, FieldKind, ListExtent, Module, UnitId};
use wireloom_runtime::abi::{wl_parser, wl_program, WL_MORE};
use wireloom_tests::programs::{module, no_internal_errors, seeds, twins};
use wireloom_tests::root;

fn library() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("std")).expect("the library is there");
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "loom")).collect();
    files.sort();
    files
}

/// The messages that a file defines, each with the contexts in which it is read.
fn messages(file: &Path, m: &Module) -> Vec<(UnitId, Vec<u64>)> {
    let own = format!("{}.", file.file_stem().unwrap_or_default().to_string_lossy());
    let units = (0..m.units.len() as u32).map(UnitId).filter(|u| m.unit(*u).name.starts_with(&own));
    units.map(|u| (u, contexts(m, u))).filter(|(_, c)| !c.is_empty()).collect()
}

/// Whether a message takes all bytes behind it: one of datagrams, or the rest of a connection.
fn to_the_end(m: &Module, unit: UnitId) -> bool {
    let u = m.unit(unit);
    let last = u.body.last().map(|f| &u.fields[f.index()].kind);
    matches!(
        last,
        Some(
            FieldKind::Bytes { extent: Extent::ToEnd, .. }
                | FieldKind::List { extent: ListExtent::ToEnd, .. }
                | FieldKind::StreamBytes { extent: Extent::Close }
        )
    )
}

/// The grammars of a module, ready.
fn grammar(m: &Module) -> Grammar {
    let mut m = m.clone();
    wireloom_interp::grammar::tail::intern_types(&mut m);
    Grammar::new(std::sync::Arc::new(m))
}

#[test]
fn any_fragmentation_by_interpreter_and_compiled_code() {
    for file in library() {
        let t = twins(&file);
        let compiled = t.compiled.as_ref().unwrap_or(&t.interpreted);
        for (unit, contexts) in messages(&file, &t.module) {
            let name = &t.module.unit(unit).name;
            let mut sum = Summary::default();
            // Those with many contexts have enough streams with a few for each.
            let streams = if contexts.len() > 4 { 20 } else { 60 };
            for seed in seeds(2) {
                for &ctx in &contexts {
                    let pair = Pair { module: &t.module, a: t.interpreted.table(), b: compiled.table(), unit, ctx };
                    // SAFETY: both tables live as long as the process.
                    sum.add(
                        &unsafe { pair.compare_random(seed, streams) }
                            .unwrap_or_else(|e| panic!("{}: {name}: {e}", file.display())),
                    );
                }
            }
            eprintln!("{name}: {sum:?}");
            // A unit inside a packet is one message per try, and mostly unreadable with another one
            // behind it.
            let flows = is_message(&t.module, unit) && !to_the_end(&t.module, unit);
            let (messages, bad) = if flows { (100, 10) } else { (4, 4) };
            // Any bytes may stand at the end of a datagram, so few are refused.
            let refused = sum.bad + sum.in_step > bad || to_the_end(&t.module, unit);
            assert!(sum.messages > messages && refused, "{name}: the streams are worth little: {sum:?}");
        }
    }
    no_internal_errors();
}

/// A message's fields do not depend on the bytes behind it, and it ends where it ends.
#[test]
fn messages_end_where_they_end() {
    for file in library() {
        let module = module(&file);
        let grammar = grammar(&module);
        for (unit, contexts) in messages(&file, &module) {
            let name = &module.unit(unit).name;
            let (mut made, mut ended) = (0, 0);
            for seed in seeds(20) {
                let ctx = contexts[seed as usize % contexts.len()];
                let mut g = Generator::new(&module, seed);
                let Some(message) = g.message(unit, &grammar.args(unit, ctx)) else { continue };
                let Parsed::Message { used, dump, .. } = parse_with(&grammar, unit, &message, ctx, true) else {
                    panic!("{name}: seed {seed}: a made message is not read: {}", message.escape_ascii())
                };
                assert_eq!(used, message.len(), "{name}: seed {seed}");
                made += 1;
                let next = [&message[..], &message[..]].concat();
                if let Parsed::Message { used: first, dump: again, .. } = parse_with(&grammar, unit, &next, ctx, true) {
                    // A message up to the connection's end takes the bytes behind it, too.
                    ended += usize::from(first == used);
                    assert!(
                        first == used && again == dump || first == next.len(),
                        "{name}: seed {seed}: {}",
                        message.escape_ascii()
                    );
                }
                for cut in (0..message.len()).step_by(1 + message.len() / 500) {
                    let part = parse_with(&grammar, unit, &message[..cut], ctx, false);
                    assert!(
                        !matches!(part, Parsed::Bad { .. }),
                        "{name}: seed {seed}: refused after {cut} bytes: {}",
                        message.escape_ascii()
                    );
                }
            }
            eprintln!("{name}: {made} made, {ended} end before another one");
            // A unit inside a packet may go on to the packet's end.
            assert!(
                made >= 15 && (ended >= 10 || !is_message(&module, unit) || to_the_end(&module, unit)),
                "{name}: {made} made, {ended} end before another one"
            );
        }
    }
    no_internal_errors();
}

/// Bytes of a view that a small message may take.
const SMALL_VIEW: usize = 64 << 10;
const POISON: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// The bytes that compiled code writes when it parses a message and copies its view.
fn written(t: &wl_program, unit: UnitId, ctx: u64, message: &[u8]) -> (usize, usize) {
    // SAFETY: the table has this unit.
    let u = unsafe { &*t.unit.add(unit.index()) };
    let (words, head) = ((u.view_size as usize).div_ceil(8), std::mem::size_of::<wl_parser>() / 8);
    let mut view = vec![POISON; words];
    let mut copy = vec![POISON; words];
    view[..head].fill(0);
    let Some(parse) = u.parse else { return (0, 0) };
    let touched = |v: &[u64]| 8 * v[head..].iter().filter(|w| **w != POISON).count();
    // SAFETY: views of the unit's size, and the message's bytes.
    unsafe {
        let p = view.as_mut_ptr().cast::<wl_parser>();
        (*p).ctx = ctx;
        parse(t.self_, unit.0, p, message.as_ptr(), message.len() as u32, 1);
        match u.copy {
            Some(f) => drop(f(copy.as_mut_ptr().cast(), p)),
            None => copy.copy_from_slice(&view),
        }
        // The parser is the same.
        (*copy.as_mut_ptr().cast::<wl_parser>()) = p.read();
    }
    let same = view.iter().zip(&copy).all(|(a, b)| a == b || *b == POISON);
    assert!(same, "a copied view differs");
    (touched(&view), touched(&copy))
}

/// Parses a part of a message, copies the view, and goes on in the copy: the fields are those of
/// the message parsed at once.
fn goes_on_in_a_copy(t: &wl_program, unit: UnitId, ctx: u64, message: &[u8], cut: usize) {
    // SAFETY: the table has this unit.
    let u = unsafe { &*t.unit.add(unit.index()) };
    let (words, head) = ((u.view_size as usize).div_ceil(8), std::mem::size_of::<wl_parser>() / 8);
    let (Some(parse), Some(copy)) = (u.parse, u.copy) else { return };
    let poisoned = || {
        let mut view = vec![POISON; words];
        view[..head].fill(0);
        view
    };
    let (mut whole, mut part, mut rest) = (poisoned(), poisoned(), poisoned());
    let run = |view: &mut [u64], n: usize, eof: i32| {
        let p = view.as_mut_ptr().cast::<wl_parser>();
        // SAFETY: a view of the unit's size, and the message's bytes.
        unsafe {
            (*p).ctx = ctx;
            parse(t.self_, unit.0, p, message.as_ptr(), n as u32, eof)
        }
    };
    let at_once = run(&mut whole, message.len(), 1);
    if run(&mut part, cut, 0) != WL_MORE {
        return;
    }
    // SAFETY: views of the unit's size.
    let used = unsafe { copy(rest.as_mut_ptr().cast(), part.as_ptr().cast()) };
    // SAFETY: as above.
    assert_eq!(used, unsafe { copy(std::ptr::null_mut(), part.as_ptr().cast()) });
    part.fill(!POISON);
    assert_eq!(run(&mut rest, message.len(), 1), at_once, "cut at {cut}: {}", message.escape_ascii());
    let differ = |(a, b): (&u64, &u64)| a != b && *a != POISON && *b != POISON;
    let place = whole[head..].iter().zip(&rest[head..]).position(differ);
    assert_eq!(place, None, "cut at {cut}, word: {}", message.escape_ascii());
}

/// Incomplete messages stay with the bytes of their views that are in use.
#[test]
fn incomplete_messages_go_on_in_a_copy() {
    for file in library().into_iter().chain([root().join("tests/programs/large_lists.loom")]) {
        let t = twins(&file);
        let Some(compiled) = &t.compiled else { return };
        let grammar = grammar(&t.module);
        for (unit, contexts) in messages(&file, &t.module) {
            for seed in 1..=4 {
                let ctx = contexts[seed as usize % contexts.len()];
                let mut g = Generator::new(&t.module, seed);
                let Some(message) = g.message(unit, &grammar.args(unit, ctx)) else { continue };
                for cut in (0..message.len().min(1024)).step_by(1 + message.len().min(1024) / 20) {
                    goes_on_in_a_copy(compiled.table(), unit, ctx, &message, cut);
                }
            }
        }
    }
}

/// A message costs what it has, not what its limits allow: a list with room for a million items is
/// neither cleared nor copied whole.
#[test]
fn small_messages_take_little_of_their_views() {
    for file in library().into_iter().chain([root().join("tests/programs/large_lists.loom")]) {
        let t = twins(&file);
        let Some(compiled) = &t.compiled else { return };
        let grammar = grammar(&t.module);
        for (unit, contexts) in messages(&file, &t.module) {
            let name = &t.module.unit(unit).name;
            for seed in 1..=8 {
                let ctx = contexts[seed as usize % contexts.len()];
                let mut g = Generator::new(&t.module, seed);
                let Some(message) = g.message(unit, &grammar.args(unit, ctx)) else { continue };
                if message.len() > 1024 {
                    continue;
                }
                let (view, copy) = written(compiled.table(), unit, ctx, &message);
                assert!(view < SMALL_VIEW && copy < SMALL_VIEW, "{name}, seed {seed}: {view} and {copy} bytes");
            }
        }
    }
}
