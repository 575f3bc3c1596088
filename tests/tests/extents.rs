//! A unit that does not fit into its length is noticed when the bytes of that length are there, not
//! when more come. Interpreter and compiled code agree, whole and torn at every byte.

use wireloom_interp::differential::{random_cuts, trace_stream, Event, Pair};
use wireloom_interp::generate::{Generator, Rng};
use wireloom_ir::{FaultKind, UnitId};
use wireloom_tests::programs::{no_internal_errors, seeds, twins, Twins};

#[derive(Debug, PartialEq, Eq)]
enum Told {
    Malformed,
    Waits,
    /// A message of so many bytes.
    Is(u64),
    /// A message with a fault, and the stream goes on behind so many bytes.
    Skips(u64),
}

use Told::{Is, Malformed, Skips, Waits};

fn unit(t: &Twins, name: &str) -> UnitId {
    let found = t.module.units.iter().position(|u| u.name.rsplit('.').next() == Some(name));
    UnitId(found.expect("the unit is in the module") as u32)
}

fn first(t: &Twins, name: &str, input: &[u8], cuts: &[usize], by: usize) -> Told {
    let program = [&t.interpreted, t.compiled.as_ref().unwrap_or(&t.interpreted)][by];
    // SAFETY: the programs live as long as the process.
    let events = unsafe { trace_stream(program.table(), unit(t, name).0, input, 0, cuts, false) };
    match &events[0] {
        Event::Bad { kind, .. } if *kind == FaultKind::MALFORMED.0 => Malformed,
        Event::Waiting => Waits,
        Event::Message { total, .. } => Is(*total),
        Event::InStep { total, kind, .. } if *kind == FaultKind::MALFORMED.0 => Skips(*total),
        other => panic!("{name} of \"{}\": {other:?}", input.escape_ascii()),
    }
}

#[test]
fn a_length_that_is_too_short_is_noticed_at_once() {
    let t = twins("tests/programs/extents.loom");
    let cases: &[(&str, &[u8], Told)] = &[
        // Nothing is there of the unit, a part of it, a part by its own length.
        ("Plain", b"\0", Malformed),
        ("Plain", b"\x01", Waits),
        ("Plain", b"\x01f", Malformed),
        ("Plain", b"\x03f\xc8", Waits),
        ("Plain", b"\x03f\xc8x", Malformed),
        ("Plain", b"\x03f\x01x", Waits),
        ("Plain", b"\x03f\x01xz", Is(5)),
        // One that is too long.
        ("Plain", b"\x04f\x01x", Malformed),
        ("ToEnd", b"\0", Malformed),
        ("ToEnd", b"\x01", Malformed),
        ("ToEnd", b"\x02aa", Is(3)),
        // The inner length reaches beyond the outer one; it is too short; it fits.
        ("Nested", b"\x03\x05", Malformed),
        ("Nested", b"\x02\x01", Waits),
        ("Nested", b"\x02\x01a", Malformed),
        ("Nested", b"\x03\x02aa", Waits),
        ("Nested", b"\x03\x02aaz", Is(5)),
        ("Nested", b"\x04\x02aa", Malformed),
        ("Listed", b"\0", Is(1)),
        ("Listed", b"\x03k\0k", Malformed),
        ("Listed", b"\x03k\x09a", Malformed),
        ("Listed", b"\x04k\0k\0", Is(5)),
        ("Counted", b"\0", Malformed),
        ("Counted", b"\x03\x02ab", Malformed),
        ("Counted", b"\x03\x01ab", Is(4)),
        // A run of bytes or digits that the next byte would end ends with the length.
        ("Texts", b"\x03abc", Waits),
        ("Texts", b"\x03abcd", Is(5)),
        ("Texts", b"\x03ab1", Malformed),
        ("Digits", b"\x03123", Waits),
        ("Digits", b"\x031234", Is(5)),
        ("Digits", b"\0", Malformed),
        ("Choices", b"\x02abc", Is(4)),
        ("Choices", b"\x03abc", Malformed),
        ("Choices", b"\x01a", Malformed),
        ("Lines", b"\x03ab\r", Malformed),
        ("Lines", b"\x04ab\r\nz", Is(6)),
        // An item that flows.
        ("Items", b"n\x01\x01", Malformed),
        ("Items", b"n\x01\x02aa\0\x03aab", Is(10)),
        ("Recovering", b"\x01", Waits),
        ("Recovering", b"\x01f;", Skips(3)),
        ("Recovering", b"\x03f\xc8x;", Skips(5)),
    ];
    for (name, input, told) in cases {
        for by in [0, 1] {
            let pieces: Vec<usize> = vec![1; input.len()];
            let whole = (0..input.len()).map(|cut| vec![cut]);
            for cuts in whole.chain([pieces]) {
                let seen = first(&t, name, input, &cuts, by);
                assert_eq!(seen, *told, "{name} of \"{}\" by {by}, cut {cuts:?}", input.escape_ascii());
            }
        }
    }
    no_internal_errors();
}

/// Random messages with other lengths in them: both notice the same, at the same byte.
#[test]
fn random_lengths_are_noticed_alike() {
    let t = twins("tests/programs/extents.loom");
    let compiled = t.compiled.as_ref().unwrap_or(&t.interpreted);
    let units: Vec<UnitId> = t.module.protocols.iter().map(|p| p.request).collect();
    let (mut early, mut all) = (0, 0);
    for seed in seeds(300) {
        let mut rng = Rng::new(seed);
        for unit in &units {
            let Some(mut message) = Generator::new(&t.module, seed).message(*unit, &[]) else { continue };
            let at = rng.below(message.len().min(4) as u64) as usize;
            message[at] = rng.below(8) as u8;
            let pair = Pair { module: &t.module, a: t.interpreted.table(), b: compiled.table(), unit: *unit, ctx: 0 };
            for n in 1..=message.len() {
                let cuts = random_cuts(&mut rng, n);
                // SAFETY: both programs live as long as the process.
                unsafe { pair.compare(&message[..n], &cuts, false) }.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
                // SAFETY: as above.
                let seen = unsafe { trace_stream(compiled.table(), unit.0, &message[..n], 0, &[], false) };
                all += 1;
                early += usize::from(matches!(seen[0], Event::Bad { .. }) && n < message.len());
            }
        }
    }
    assert!(early * 20 > all, "{early} of {all} are faults before the end");
    no_internal_errors();
}
