//! A list that ends behind an item by its values (`until .field == x`, `fold`) has no other end in
//! a message that a program builds or edits. Interpreter and compiled code agree.

use std::sync::Arc;
use wireloom_interp::generate::Generator;
use wireloom_ir::Module;
use wireloom_tests::programs::{answer, no_internal_errors, seeds, twins_of};

const FILE: &str = "tests/programs/list_ends.loom";

/// For random messages, the answer is that of the model; none: the message would not be valid.
/// Both happen.
fn answers(app: &str, model: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    let t = twins_of(FILE, Some(app));
    let compiled = t.compiled.as_ref().unwrap_or(&t.interpreted);
    let unit = t.module.protocols[t.module.ports[0].protocols[0].index()].request;
    let module: &Arc<Module> = &t.module;
    let (mut valid, mut others) = (0, 0);
    for seed in seeds(400) {
        let Some(message) = Generator::new(module, seed).message(unit, &[]) else { continue };
        let expected = model(&message);
        *(if expected.is_some() { &mut valid } else { &mut others }) += 1;
        let expected = expected.unwrap_or_default();
        for (by, program) in [("interpreted", &t.interpreted), ("compiled", compiled)] {
            assert_eq!(
                expected.escape_ascii().to_string(),
                answer(module, program, &message).escape_ascii().to_string(),
                "{app} {by}, seed {seed}: {}",
                message.escape_ascii()
            );
        }
    }
    eprintln!("{app}: {valid} valid, {others} others");
    assert!(valid >= 10 && (others >= 10 || app == "tag"), "{app}: {valid} valid, {others} others");
    no_internal_errors();
}

/// The items of a message that go on: all but those of a key.
fn kept(message: &[u8], drop: u8) -> Vec<[u8; 2]> {
    message.chunks_exact(2).map(|c| [c[0], c[1]]).filter(|c| c[1] != drop).collect()
}

/// The marks, if exactly the last one is the last.
fn marked(marks: Vec<[u8; 2]>) -> Option<Vec<u8>> {
    let at = marks.iter().position(|m| m[0] == 1)?;
    (at + 1 == marks.len()).then(|| marks.concat())
}

#[test]
fn items_built() {
    answers("built", |m| marked(kept(&m[2..], m[0])));
}

#[test]
fn items_taken_as_they_came() {
    answers("taken", |m| marked(kept(&m[2..], m[0])));
}

#[test]
fn items_made_by_a_function() {
    answers("made", |m| marked(kept(&m[2..], m[0])));
}

#[test]
fn several_messages_as_one_answer() {
    answers("parted", |m| match (m[0], m[1]) {
        (3, 2) => (m[4] == 1).then(|| m[2..].to_vec()),
        _ => None,
    });
}

#[test]
fn items_removed() {
    answers("edited", |m| marked(kept(m, 0)));
}

#[test]
fn a_fold() {
    answers("tree", |m| {
        let nodes = kept(&m[2..], m[0]);
        let mut left = 1i32;
        for (i, n) in nodes.iter().enumerate() {
            left += i32::from(n[0]) - 1;
            if left == 0 {
                return (i + 1 == nodes.len()).then(|| nodes.concat());
            }
        }
        None
    });
}

#[test]
fn a_list_that_fills_a_length() {
    answers("tag", |m| Some(m.to_vec()));
}
