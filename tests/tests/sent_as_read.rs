//! A receiver reads the message that was meant: no value, edit or answer makes another one of it.
//! Each program has its tests in it, which are run by the interpreter and as compiled code.

use wireloom_tests::Wireloom;

fn passes(file: &str, tests: usize) {
    let said = Wireloom::command(&["test", &format!("tests/programs/{file}.loom")]);
    assert!(said.code == Some(0) && said.text.contains(&format!("{tests} passed, 0 failed")), "{}", said.text);
}

/// An answer is read under the request that was sent; its client has sent another one.
#[test]
fn answers_of_edited_requests() {
    passes("answers_of_edited", 13);
}

/// Values that end as their delimiter begins.
#[test]
fn overlapping_ends() {
    passes("overlapping_ends", 7);
}

/// Changed fields behind runs, numbers, flags and in cases.
#[test]
fn edits_beside_open_ends() {
    passes("edits_beside", 19);
}

/// Numbers, lists and empty values where a reader looks for a flag, a case or more of a run.
#[test]
fn first_bytes() {
    passes("first_bytes", 10);
}

/// Parts of messages that are read with other arguments, or that a list has no room for.
#[test]
fn parts_of_messages() {
    passes("parts_alike", 4);
}

/// Messages of conversations whose receivers read their unit with other arguments.
#[test]
fn other_protocols_and_directions() {
    passes("told_alike", 6);
}

/// Selectors of no case, peeked cases, rules over lists, computed numbers, runs that are left out.
#[test]
fn read_as_meant() {
    passes("read_as_meant", 25);
}

/// Beginnings of items from a comprehension, and of messages that functions give.
#[test]
fn beginnings_that_are_written_late() {
    passes("read_as_meant_late", 10);
}
