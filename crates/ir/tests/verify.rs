//! Each invariant of the verifier, broken once: the sample with a few words changed.

use wireloom_ir::{grammar, passes, text, verify, Module};

const SAMPLE: &str = include_str!("sample.ir");

fn errors(from: &str, to: &str) -> Vec<verify::Error> {
    assert!(SAMPLE.contains(from), "not in the sample: {from}");
    let m = text::parse(&SAMPLE.replace(from, to)).unwrap_or_else(|e| panic!("{e}"));
    verify::verify_lowered(&m)
}

/// Replacing `from` by `to` must be found, with this message, at this path.
#[track_caller]
fn wrong(from: &str, to: &str, path: &str, message: &str) {
    let found = errors(from, to);
    assert!(
        found.iter().any(|e| e.path.starts_with(path) && e.message.contains(message)),
        "{path}: {message}: not among {found:#?}"
    );
}

#[track_caller]
fn fine(from: &str, to: &str) {
    assert_eq!(errors(from, to), [])
}

const POST: &str = "table_len stats#0 -> %n#1;";
const HTTP: &str = "\n  close;\n}";

#[test]
fn indices() {
    wrong("param port#1", "param port#7", "port client", "parameter does not exist");
    wrong("request Request#2", "request Request#9", "protocol http", "unit does not exist");
    wrong("count requests#0", "count requests#3", "handler on client: stmt 1", "counter does not exist");
    wrong("fault 8 at 0", "fault 8 at 5", "handler on client: stmt 7.1", "place does not exist");
    wrong("fault 8 at 0", "fault 900 at 0", "handler on client: stmt 7.1", "fault kind does not exist");
    wrong("set_session chosen#0", "set_session chosen#1", "handler on client: stmt 11", "session does not exist");
    wrong("table_get stats#0", "table_get stats#2", "handler on client: stmt 9", "table does not exist");
    wrong("table_push turns#1", "table_push stats#0", "handler every", "no ring");
    wrong("table_pop turns#1", "table_pop turns#9", "handler every", "no ring");
    wrong("queue pop waiting#3", "queue pop sink#2", "handler every", "no queue");
    wrong("queue len waiting#3 [0:u32] -> %q#4", "queue len waiting#3 [0:u32] -> %b#2", "handler every", "");
    wrong("call pick#0(%key", "call pick#9(%key", "handler on client: stmt 3", "function does not exist");
    wrong(".key#5):bytes<250>;", ".key#50):bytes<250>;", "handler on client: stmt 2", "leads nowhere");
    wrong("local %1: u32 \"i\"", "local %1: t999 \"i\"", "handler on client http", "type does not exist");
}

#[test]
fn types_of_expressions() {
    let at = "handler on client";
    wrong("count requests#0 1:u64", "count requests#0 1:u8", at, "no u64");
    wrong("count requests#0 1:u64", "count requests#0 add(1:u64, 1:u8):u64", at, "where same is due");
    wrong("count requests#0 1:u64", "count requests#0 cast(b\"\":bytes<0>):u64", at, "unrelated types");
    wrong("count requests#0 1:u64", "count requests#0 shl(1:u64, 1:u64):u64", at, "where u32 is due");
    wrong("count requests#0 1:u64", "count requests#0 unwrap(1:u64):u64", at, "no option");
    wrong("count requests#0 1:u64", "count requests#0 hash():u64", at, "number of operands");
    wrong("count requests#0 1:u64", "count requests#0 len_bytes(1:u8):u64", at, "where bytes is due");
    wrong("count requests#0 1:u64", "count requests#0 items(%req#0.key#5):u32", at, "not lead to a list");
    wrong("count requests#0 1:u64", "count requests#0 list_len(1:u64):u64", at, "no list");
    wrong("count requests#0 1:u64", "count requests#0 acc:u64", at, "outside a fold");
    wrong("count requests#0 1:u64", "count requests#0 read(this.#0):u8", at, "leads nowhere");
    wrong("count requests#0 1:u64", "count requests#0 if(1:u8, 1:u64, 2:u64):u64", at, "not a bool");
    wrong("count requests#0 1:u64", "count requests#0 case(%req#0.key#5, 0):bool", at, "not lead to a switch");
    wrong("count requests#0 1:u64", "count requests#0 maglev(backends#1, 1:u64):u32", at, "not marked for Maglev");
    wrong("count requests#0 1:u64", "count requests#0 300:u8", at, "does not fit");
    wrong(
        "emit bytes b\"error\":bytes<5>",
        "emit bytes b\"error\":bytes<4>",
        "protocol memcached.binary: on_fault: stmt 1.1.5",
        "longer than its type",
    );
    wrong("call pick#0(%key#1:bytes<250>, ", "call pick#0(", at, "number of arguments");
    wrong("some(%b#2:u32)", "some(%key#1:bytes<250>)", at, "`some` of another type");
    wrong("if ne(%status#6:u16, 0:u16):bool", "if %status#6:u16", at, "not a bool");
    wrong("get(%entry#5:record<Stat#0>, 0)", "get(%entry#5:record<Stat#0>, 5)", at, "member does not exist");
}

/// Answers over UDP are told apart by the field that `order_by` names.
#[test]
fn datagrams() {
    let udp = SAMPLE.replace("connect param servers#0", "connect udp param servers#0");
    let found = |text: &str| verify::verify_lowered(&text::parse(text).unwrap_or_else(|e| panic!("{e}")));
    assert_eq!(found(&udp), []);
    let found = found(&udp.replace("  order_by opaque#4;\n", ""));
    let said = |e: &verify::Error| e.path == "port backends" && e.message == "answers over UDP without `order_by`";
    assert!(found.iter().any(said), "{found:#?}");
}

#[test]
fn locals() {
    wrong("bind %rep#3 = part 0:u32;", "", "handler on client", "before it is set");
    wrong("set %b#2 = call", "set %req#0 = call", "handler on client: stmt 3", "message local is set");
    wrong("set %b#2 = call", "set %key#1 = call", "handler on client: stmt 3", "wanted");
    // Set on one branch only, then on both; the `zero_init` pass mends the first.
    let branch = |other: &str| {
        format!(
            "{POST} if eq(now:u64, 0:u64):bool {{ set %more#2 = 1:u64; }} else {{ {other} }} set %n#1 = %more#2:u64;"
        )
    };
    let check = |s: String, init: bool| {
        let text = SAMPLE
            .replace("local %4: u32 \"q\";", "local %4: u32 \"q\"; local %5: u64 \"more\";")
            .replace(POST, &s.replace("%more#2", "%more#5"));
        let mut m = text::parse(&text).unwrap();
        (passes::find("edits").unwrap().run)(&mut m);
        if init {
            (passes::find("zero_init").unwrap().run)(&mut m)
        }
        (passes::find("liveness").unwrap().run)(&mut m);
        verify::verify(&m)
    };
    assert!(check(branch(""), false).iter().any(|e| e.message.contains("before it is set")));
    assert_eq!(check(branch(""), true), []);
    assert_eq!(check(branch("set %more#2 = 2:u64;"), false), []);
    assert_eq!(check(branch("return;"), false), []);
}

#[test]
fn control() {
    wrong(HTTP, "\n  break;\n}", "handler on client http", "outside a loop");
    wrong("max 20 {", "max 0 {", "handler on client http", "0 rounds");
    wrong("loop 3", "loop 0", "handler every", "0 rounds");
    wrong(
        "hash(%key#0:bytes<250>):u64",
        "cast(call pick#0(%key#0:bytes<250>, 1:u32):u32):u64",
        "fn pick",
        "calls `pick`",
    );
    wrong(
        "return cast(rem(hash(%key#0:bytes<250>):u64, cast(%n#1:u32):u64):u64):u32;",
        "",
        "fn pick",
        "return on every path",
    );
    wrong("require ne(%n#1:u32, 0:u32):bool else 6 at 0;", "set_state turn#0 = 1:u32;", "fn pick", "may not do this");
    wrong(
        "set_field %entry#5 [0] =",
        "await live (); set_field %entry#5 [0] =",
        "handler on client: stmt 10.1",
        "may not do this",
    );
    wrong(HTTP, "\n  emit varint 1:u64;\n}", "handler on client http", "outside a message");
    wrong(HTTP, "\n  return 1:u8;\n}", "handler on client http", "returns a value");
}

#[test]
fn calls_and_answers() {
    wrong("  await live ();\n", "", "handler on client: stmt 5", "before any suspension");
    wrong(POST, "call backends#1 [0:u32] args () nothing;", "handler every", "not followed by an await");
    fine(POST, "table_len stats#0 -> %n#1; call backends#1 [0:u32] args () nothing; await live ();");
    wrong("call backends#1 [%b#2:u32]", "call client#0 [%b#2:u32]", "handler on client: stmt 4", "not a connect port");
    wrong(
        "call backends#1 [%b#2:u32] args ()",
        "call sink#2 [%b#2:u32] args ()",
        "handler on client: stmt 4",
        "without answers",
    );
    wrong(
        "call backends#1 [%b#2:u32] args ()",
        "call backends#1 [%b#2:u32] args (1:u8)",
        "handler on client: stmt 4",
        "unit's parameters",
    );
    wrong("send sink#2 [0:u32] pass", "send backends#1 [0:u32] pass", "handler on client http", "of another unit");
    wrong(POST, "reply nothing;", "handler every", "an answer where none is due");
    wrong(HTTP, "\n  reply pass %req#0;\n}", "handler on client http", "none is due");
    wrong(POST, "log (conn_peer:endpoint);", "handler every", "no connection");
    wrong(
        "close;\n    }\n  }\n}",
        "await live ();\n    }\n  }\n}",
        "protocol memcached.binary: on_fault",
        "may not do this",
    );
}

#[test]
fn edits() {
    wrong("set .opaque#4", "set .opaque#44", "handler on client", "names no field");
    wrong("append .headers#1", "append .method#0", "handler on client http", "no list");
    let mut m = text::parse(SAMPLE).unwrap();
    assert_eq!(grammar::analyze(&mut m), []);
    let unsorted = m.clone();
    passes::run_all(&mut m);
    assert_eq!(verify::verify(&m), []);
    assert!(verify::verify(&unsorted).iter().any(|e| e.message.contains("wire order")));
}

#[test]
fn tables() {
    wrong(
        "table \"stats\": exact bytes<250> ->",
        "table \"stats\": exact msg<#0> ->",
        "table stats",
        "cannot be stored",
    );
    wrong("capacity 1000", "capacity 0", "table stats", "capacity of 0");
    wrong(
        "table_get stats#0 [%key#1:bytes<250>]",
        "table_get stats#0 [1:u8]",
        "handler on client: stmt 9",
        "key is not",
    );
    wrong(
        "local %4: option<record<Stat#0>>",
        "local %4: option<u8>",
        "handler on client: stmt 9",
        "option of the table's value",
    );
    wrong("as %entry#5 at", "as %b#2 at", "handler on client: stmt 10", "given another");
}

#[test]
fn units() {
    wrong("body (#0, #1, #3, #4);", "body (#0, #1, #3);", "unit Request", "exactly one place");
    wrong("body (#0, #1, #3, #4);", "body (#0, #1, #3, #4, #4);", "unit Request", "exactly one place");
    wrong("list #2 max 20", "list #1 max 20", "unit Request", "exactly one place");
    wrong(
        "bytes 1 shift 0 bits 8 big advance;\n  field #1",
        "bytes 1 shift 1 bits 8 big advance;\n  field #1",
        "unit Command: field magic",
        "its container",
    );
    wrong(
        "length read(this.key_len#2):u16",
        "length len_bytes(read(this.value#6):bytes<1048576>):u32",
        "unit Command: field key",
        "not before it",
    );
    wrong("when unit_param(this, 0):bool", "when 1:u8", "unit Request", "guard is not a bool");
    wrong("unit Header#1 ();", "unit Header#1 (1:u8);", "unit Request", "unit's parameters");
    wrong("bytes 1..16 class", "bytes 17..16 class", "unit Request: field method", "above the largest");
    wrong("until (b\":\")", "until (b\"\")", "unit Header", "delimiter without bytes");
}

#[test]
fn events() {
    wrong(
        "on message client#0 http#1",
        "on message backends#1 memcached_binary#0",
        "handler on client http",
        "does not listen",
    );
    wrong(
        "  local %0: msg<Request#2> \"req\";\n  local %1: u32 \"i\";",
        "  local %0: u8 \"req\";\n  local %1: u32 \"i\";",
        "handler on client http",
        "",
    );
    wrong("on message client#0 http#1", "on test 0", "handler every", "after handlers of tests");
    wrong(
        "local %2: msg<Command#0> \"request\"",
        "local %2: u8 \"request\"",
        "protocol memcached.binary: on_fault",
        "locals 0 to 3",
    );
    wrong("code #3", "code #0", "test pick", "not its own");
    wrong("see_nothing client#0 0;", "at #3 see_nothing client#0 0;", "test ", "a step's handler is not its own");
    wrong("see_nothing client#0 0;", "at #3 close client#0 0;", "test ", "no step at a place");
    wrong("see_nothing client#0 0;", "at #3 see_nothing client#9 0;", "test ", "a port does not exist");
}

#[test]
fn cyclic_types() {
    let m: Module = text::parse("app \"a\"\ntype t0 = option<t1>\ntype t1 = option<t0>").unwrap();
    assert!(verify::verify(&m).iter().any(|e| e.message.contains("contains itself")));
}

#[test]
fn frames() {
    let mut m = text::parse(SAMPLE).unwrap();
    grammar::analyze(&mut m);
    passes::run_all(&mut m);
    for l in &mut m.handlers[0].body.locals {
        l.in_frame = false
    }
    assert!(verify::verify(&m).iter().any(|e| e.message.contains("not in the frame")));
}

/// Plans that say more than the pass would.
#[test]
fn plans() {
    let lookups = include_str!("passes/batch_lookup.out");
    let stacks = include_str!("passes/packet_fast_path.out");
    let broken = |text: &str, from: &str, to: &str, message: &str| {
        assert!(text.contains(from), "not in the text: {from}");
        let m = text::parse(&text.replacen(from, to, 1)).unwrap_or_else(|e| panic!("{e}"));
        let found = verify::verify_lowered(&m);
        assert!(found.iter().any(|e| e.message.contains(message)), "{from}: not among {found:#?}");
    };
    for text in [lookups, stacks] {
        assert_eq!(verify::verify_lowered(&text::parse(text).unwrap()), []);
    }
    broken(lookups, "exact flows#0 at 3 [", "exact flows#0 at 2 [", "not made where it says");
    broken(lookups, "at 4.3 [", "at 4.9 [", "not made where it says");
    broken(lookups, "exact flows#0 at 3", "exact rules#1 at 3", "is not that of its statement");
    broken(lookups, "frame_len(%p#0):u32):record", "7:u32):record", "is not that of its statement");
    broken(lookups, "masked rules#1 at 4.3", "masked flows#0 at 4.3", "not one of masks");
    broken(lookups, "places ();\n  }\n  if param", "sure;\n    places ();\n  }\n  if param", "a fault may end");
    broken(lookups, "unused (%k#1);", "unused (%k#1, %flow#2);", "calls unused is used");
    let reads = "require eq(read(%p#0.h#0.ttl#0):u8, 7:u8):bool else 4 at 0;\n    if is_some(%rule#3:option";
    broken(lookups, "if is_some(%rule#3:option", reads, "reads more of the headers");
    broken(lookups, "table \"rules\": wildcard", "table \"rules\": exact", "not one of masks");
    broken(stacks, "step start -> link#0;", "step start -> net#1;", "does not follow");
    broken(stacks, "step link#0 -> net#1;", "", "no step leads to");
    broken(stacks, "least 16 bits", "least 17 bits", "not that of its steps");
}

const SEGMENTS: &str = r#"app "s"
segment "rx" on cpu 0
segment "tx" on cpu 1
place "here"
unit "Link" {
  measure tail 1 min 2 max 2 head_max 2 first "00-ff";
  field #0 "type": u16 at 0 bad 1 too_long 2 = uint bytes 2 shift 0 bits 16 big advance;
  body (#0);
}
unit "P" {
  layer #1 link#0 of Link#0 after (start);
  measure tail 1 min 0 max 2 head_max 2 first "00-ff";
  field #0 "link": unit at 0 bad 1 too_long 2 = unit Link#0 ();
  field #1 _: unit at 0 bad 1 too_long 2 = switch {
    case "link" when true:bool => (link#0);
    case _ else => ();
  }
  body (#1);
}
port "wire" memory bytes b"w" as ()
port "out" memory bytes b"o" as ()
port "q" lossless endpoints("8") as ()
port "r" queue endpoints("8") as ()
state "last": u32
handler "wire" on frame wire#0 P#1 in rx#0 steps 0 {
  local %0: msg<P#1> "p";
  set_state last#0 = 1:u32;
  frame %p#0 send last q#2 [0:u32] mark 0:u32;
}
handler "q" on frame q#2 P#1 in tx#1 steps 0 {
  local %0: msg<P#1> "p";
  local %1: bool "ok";
  frame %p#0 send last out#1 [0:u32];
}
"#;

#[test]
fn segments() {
    let all = |from: &str, to: &str| {
        assert!(SEGMENTS.contains(from), "not in the text: {from}");
        verify::verify_lowered(&text::parse(&SEGMENTS.replacen(from, to, 1)).unwrap_or_else(|e| panic!("{e}")))
    };
    let wrong = |from: &str, to: &str, message: &str| {
        let found = all(from, to);
        assert!(found.iter().any(|e| e.message.contains(message)), "{message}: not among {found:#?}");
    };
    assert_eq!(all("", ""), []);
    wrong("in tx#1 steps", "in tx#2 steps", "segment does not exist");
    wrong("\"q\" lossless", "\"q\" queue", "no queue between segments, or not called so");
    wrong("\"r\" queue", "\"r\" lossy", "no queue between segments, or not called so");
    wrong("in tx#1 steps", "in rx#0 steps", "no queue between segments, or not called so");
    wrong("in rx#0 steps 0 {", "steps 0 {", "Unplaced");
    wrong("out#1 [0:u32];", "q#2 [0:u32] mark 0:u32;", "Circle");
    wrong("  frame %p#0 send last out", "  set_state last#0 = 2:u32;\n  frame %p#0 send last out", "State");
    wrong("  frame %p#0 send last out", "  queue pop q#2 [0:u32] -> %ok#1;\n  frame %p#0 send last out", "taken from");
}

/// The result of passes over a case in `tests/passes`, with `from` replaced by `to`.
fn planned(name: &str, from: &str, to: &str) -> Vec<verify::Error> {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/passes/{name}.out"));
    let source = std::fs::read_to_string(file).expect("the case is there");
    assert!(source.contains(from), "not in {name}.out: {from}");
    let m = text::parse(&source.replacen(from, to, 1)).unwrap_or_else(|e| panic!("{e}"));
    verify::verify_lowered(&m)
}

#[test]
fn plans_are_legal() {
    #[track_caller]
    fn wrong(name: &str, from: &str, to: &str, path: &str, message: &str) {
        assert_eq!(planned(name, from, from), [], "{name}");
        let found = planned(name, from, to);
        assert!(found.iter().any(|e| e.path == path && e.message.contains(message)), "{path}: {message}: {found:#?}");
    }
    let count = "handler count: vector";
    wrong("vectorize", "send out#4 [0] #25", "send out#4 [1] #25", count, "does not do what the handler does");
    wrong("vectorize", "value 4259848", "value 4259849", count, "not that of the unit's fast path");
    wrong("vectorize", "shl #20 8", "shl #20 7", "handler rules: vector", "not that of the batch lookup");
    let log = "if case(%p#0.#7, 0):bool {\n    log (read";
    let vector = format!("vector {{ least 28; stack {{ }} run {{ }} }} {log}");
    wrong("vectorize", log, &vector, "handler log: vector", "cannot be vectorized");
    let one = "handler one: hoisted";
    wrong("hoisted_state", "counters (seen#0)", "counters (seen#0, read#1)", one, "reads a counter");
    wrong("hoisted_state", "level#1):u32, 7", "mode#0):u32, 7", one, "may change a condition");
    wrong("hoisted_state", "lookups (rules#1)", "lookups (flows#0)", one, "not one of the batch lookup");
    wrong("hoisted_state", "output out#1 [3]", "output out#1 [4]", one, "leave elsewhere");
    wrong("hoisted_state", "filled flows#0", "filled rules#1", "handler two: hoisted", "not the exact one");
    wrong("late_keys", "late (%k#1)", "late (%k#1, %changed#2)", "handler one: late", "another value");
    let around = "runs_on \"state `total` is used on both sides of a pause\"";
    wrong("pauses", around, "pauses least 0", "handler around: pauses", "can observe a pause");
    wrong("pauses", "pauses least 4096", "pauses least 0", "handler bytes: pauses", "larger requests");
}
