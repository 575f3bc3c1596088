//! Handlers: calls and suspensions, passing, editing and building messages, state, tables,
//! functions, builtins.
mod common;
use common::*;

fn hex(b: &[u8]) -> String {
    b.iter().map(|b| format!("{b:02x}")).collect()
}

fn request(key: &str, items: &str, value: &str) -> Vec<u8> {
    [&[key.len() as u8, 0x12, 0xff], key.as_bytes(), items.as_bytes(), b".", &[0, value.len() as u8], value.as_bytes()]
        .concat()
}

fn run(args: &[String]) -> Vec<String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let out = drive(&module("handlers"), "run", &args);
    out.lines().map(str::to_string).collect()
}

fn on(handler: u32, key: &str) -> String {
    format!("{handler}:{}", hex(&request(key, "a:1;x:2;b:3;x:4;", "tail")))
}

#[test]
fn calls_and_replies() {
    let got = run(&[
        format!("={}", hex(b"\x07hello\n")),
        on(0, "k"),
        "=".into(),
        on(0, "k"),
        format!("={}", hex(b"\x07hi\n")),
        on(1, "k"),
        "fault:9".into(),
    ]);
    let head = "\\x01\\x12\\xffka:1;x:2;b:3;x:4;.\\x00\\x04";
    assert_eq!(
        got[0],
        format!("call port 1 index 1 head \"{head}\" tail 1 timeout 50 ctx 8000000000000000 flags 2"),
        "{got:#?}"
    );
    assert_eq!(got[1..4], ["log 1  \"k11k\"", "reply \"\\x07hello\\x0a\" tail 2 flags 0", "done"]);
    assert_eq!(got[5..7], ["log 1  \"k11k\"", "fault 9 at 2"]);
    assert_eq!(got[7], format!("call port 1 index 0 head \"{head}\" tail 1 timeout 0 ctx 8000000000000000 flags 1"));
    assert_eq!(got[10..12], ["reply \"hi,hi,hi\\x0a00021\" tail 0 flags 1", "done"]);
    assert_eq!(got[12], "says \"\\x09yes\\x0a\" flags 1");
}

#[test]
fn edits() {
    let got = run(&[on(2, "key")]);
    assert_eq!(got[0], "send port 1 index 1 head \"\\x04\\x13\\x00KEY+a:1;b:3;via:me;.\\x00\\x04\" tail 1");
    assert_eq!(got[1], "reply \"\" tail 0 flags 2");
}

#[test]
fn state_and_functions() {
    let got = run(&(0..9).map(|i| on(3, &format!("k{i}"))).collect::<Vec<_>>());
    let logs: Vec<_> = got.iter().filter(|l| l.starts_with("log")).collect();
    assert_eq!(logs[0], "log 1  \"-70\"");
    assert_eq!(logs[1], "log 1  \"k0142\"");
    assert_eq!(logs[8], "log 1  \"k7179216\"");
    assert_eq!(got.last().unwrap(), "fault 40 at 3");
}

#[test]
fn tables() {
    let got = run(&["a", "a", "b", "c", "a", "d", "b", "del"].map(|k| on(4, k)));
    let logs: Vec<_> = got.iter().filter(|l| l.starts_with("log")).map(|l| &l[7..]).collect();
    // Three entries at most: d evicts b (c is younger, a was read).
    assert_eq!(
        logs,
        [
            "\"false01\"",
            "\"true1a1\"",
            "\"false02\"",
            "\"false03\"",
            "\"true2aa3\"",
            "\"false03\"",
            "\"false03\"",
            "\"true\"",
            "\"false02\""
        ]
    );
    let full = run(&[
        on(5, "a"),
        on(5, "b"),
        on(5, "c"),
        "time:1500".into(),
        on(5, "a"),
        "time:2100".into(),
        on(5, "c"),
        on(5, &"l".repeat(250)),
        "time:9000".into(),
        on(5, "z"),
        on(5, &"l".repeat(240)),
    ]);
    let logs: Vec<_> =
        full.iter().filter(|l| l.starts_with("log") || l.starts_with("fault")).map(String::as_str).collect();
    assert_eq!(
        logs[..6],
        [
            "log 1  \"false01\"",
            "log 1  \"false02\"",
            "fault 14 at 4",
            "log 1  \"true1a2\"",
            "log 1  \"false02\"",
            "fault 14 at 4"
        ]
    );
    assert_eq!(logs[6..], ["log 1  \"false01\"", "log 1  \"false02\""]);
}

#[test]
fn builtins() {
    let got = run(&[on(6, "foobar")]);
    let logs: Vec<_> = got.iter().filter(|l| l.starts_with("log")).map(|l| l[8..].trim_end_matches('"')).collect();
    // Published vectors: FNV-1a of "foobar", CRC-32 and md5 (3858f622…) of the same.
    assert_eq!(logs[..4], ["3214735720", "2666930069", "586569784", "9625390261332436968"], "{logs:?}");
    assert_eq!(
        logs[7..18],
        ["127", "-127", "-128", "-128", "0", "-128", "-127", "104", "4095", "3800", "2560"],
        "{logs:?}"
    );
    assert_eq!(logs[18..], ["127.0.0.1:4711", "127.0.0.1", "true", "false", "true"]);
}
