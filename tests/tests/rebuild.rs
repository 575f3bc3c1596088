//! A message that is parsed and built again from its fields is the same. That holds for every
//! message of the standard library that a program can build, by interpreter and compiled code.
//! Built again once more, it is the same bytes.

use std::sync::Arc;
use wireloom_interp::generate::Generator;
use wireloom_interp::grammar::args;
use wireloom_interp::{parse_message, Parsed};
use wireloom_ir::{Module, UnitId};
use wireloom_tests::programs::{answer, no_internal_errors, seeds, twins_of};

const FILE: &str = "tests/programs/rebuild.loom";

/// The named fields and their values; bytes without a name (blanks, line ends) have several forms.
fn fields(module: &Module, unit: UnitId, bytes: &[u8]) -> String {
    match parse_message(module, unit, bytes, 0, true) {
        Parsed::Message { dump, used, .. } if used == bytes.len() => {
            dump.lines().filter(|l| !l.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n")
        }
        _ => format!("not read: {}", bytes.escape_ascii()),
    }
}

/// At least `least` messages must be made, `built` of a hundred built again, and `same` of a
/// hundred to the byte.
fn rebuilds(app: &str, least: usize, built: usize, same: usize) {
    rebuilds_of(app, 100, least, built, same);
}

/// The same from so many seeds: of some units few random messages are valid.
fn rebuilds_of(app: &str, tried: u64, least: usize, built: usize, same: usize) {
    let t = twins_of(FILE, Some(app));
    let compiled = t.compiled.as_ref().unwrap_or(&t.interpreted);
    let unit = t.module.protocols[t.module.ports[0].protocols[0].index()].request;
    let args = args(&t.module, unit, 0);
    let module: &Arc<Module> = &t.module;
    let (mut made, mut done, mut equal) = (0, 0, 0);
    for seed in seeds(tried) {
        let Some(message) = Generator::new(module, seed).message(unit, &args) else { continue };
        made += 1;
        let first = answer(module, &t.interpreted, &message);
        assert_eq!(
            first.escape_ascii().to_string(),
            answer(module, compiled, &message).escape_ascii().to_string(),
            "{app}, seed {seed}: left interpreted, right compiled"
        );
        if first.is_empty() {
            continue;
        }
        done += 1;
        equal += usize::from(first == message);
        assert_eq!(
            fields(module, unit, &message),
            fields(module, unit, &first),
            "{app}, seed {seed}: left as it came, right built again"
        );
        let second = answer(module, &t.interpreted, &first);
        assert_eq!(
            first.escape_ascii().to_string(),
            second.escape_ascii().to_string(),
            "{app}, seed {seed}: built twice"
        );
    }
    eprintln!("{app}: {made} made, {done} built, {equal} to the byte");
    assert!(
        made >= least && done * 100 >= made * built && equal * 100 >= made * same,
        "{app}: {made} made, {done} built, {equal} to the byte"
    );
    no_internal_errors();
}

#[test]
fn kv_pair() {
    rebuilds("pair", 80, 100, 100);
}

#[test]
fn memcached_command() {
    rebuilds("command", 80, 100, 10);
}

#[test]
fn http_request() {
    rebuilds_of("get", 10_000, 90, 90, 10);
}

#[test]
fn memcached_request() {
    rebuilds_of("ask", 400, 90, 70, 5);
}

#[test]
fn memcached_answer() {
    rebuilds("answer", 30, 60, 5);
}

#[test]
fn redis_request() {
    rebuilds_of("order", 400, 90, 50, 5);
}

#[test]
fn redis_response() {
    rebuilds("item", 45, 60, 5);
}

#[test]
fn units_in_lengths_that_depend_on_each_other() {
    rebuilds_of("frame", 500, 12, 90, 50);
}

/// Built from values, a message is read as these values, and built again it is the same bytes.
#[test]
fn lengths_are_those_of_what_follows() {
    let (of_values, of_frames) = (twins_of(FILE, Some("value")), twins_of(FILE, Some("frame")));
    let module: &Arc<Module> = &of_values.module;
    let compiled = of_values.compiled.as_ref().unwrap_or(&of_values.interpreted);
    let protocol = &module.protocols[module.ports[0].protocols[0].index()];
    let unit = protocol.response.expect("it answers");
    let mut built = 0;
    for seed in seeds(150) {
        let Some(values) = Generator::new(module, seed).message(protocol.request, &[]) else { continue };
        let message = answer(module, &of_values.interpreted, &values);
        assert_eq!(message.escape_ascii().to_string(), answer(module, compiled, &values).escape_ascii().to_string());
        let read = fields(module, unit, &message);
        assert!(!read.starts_with("not read"), "{read}");
        let second = answer(&of_frames.module, &of_frames.interpreted, &message);
        assert_eq!(message.escape_ascii().to_string(), second.escape_ascii().to_string());
        built += 1;
    }
    assert!(built > 30, "{built}");
    no_internal_errors();
}
