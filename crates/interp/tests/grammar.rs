//! Parsing: any fragmentation, and compiled C beside it.
mod common;
use common::*;
use wireloom_interp::{parse_message, Parsed};
use wireloom_ir::*;

/// Units of `grammars.ir`, and the unit of modules with one.
const TEXT: UnitId = UnitId(2);
const STREAM: UnitId = UnitId(4);

/// Result, used bytes and fault as one line.
fn outcome(m: &Module, unit: UnitId, bytes: &[u8], eof: bool) -> String {
    match parse_message(m, unit, bytes, 0, eof) {
        Parsed::Message { head, used, .. } => format!("{head}/{used}"),
        Parsed::More => "more".into(),
        Parsed::Bad { kind, in_step: true, used, .. } => format!("fault {} then {used}", kind.0),
        Parsed::Bad { kind, .. } => format!("fault {}", kind.0),
    }
}

#[test]
fn text_messages() {
    let (m, unit) = (module("grammars"), TEXT);
    let long = [b"get ".as_slice(), &[b'k'; 250], b"\r\n"].concat();
    let longer = [b"get ".as_slice(), &[b'k'; 251], b"\r\nnext"].concat();
    let cases: &[(&[u8], bool, &str)] = &[
        (b"get a bb  ccc\r\nrest", false, "15/15"),
        (b"gets a\n", false, "7/7"),
        (b"get a b c d e\r\nx", false, "fault 2 then 15"),
        (&long, false, "256/256"),
        (&longer, false, "fault 2 then 257"),
        (b"set k 7 5 noreply\r\nhello\r\nnext", false, "19/26"),
        (b"set k 7 0\r\n\r\n", false, "13/13"),
        (b"set k 70001 1\r\nx\r\n", false, "fault 1 then 15"),
        (b"set k 7 5\r\nhelloXXnext", false, "fault 32 then 18"),
        (b"set k 7 100001\r\nhel", false, "more"),
        (b"set k 7 5\r\nhel", true, "fault 3"),
        (b"HTTP/1.1\r\nhost: example \r\nx-y:\r\n\r\n\x81\x01\x07\x09\xab\xcd", false, "40/40"),
        (b"HTTP/1.1\r\nno: example\r\n\r\n\x01\x01\xab\xcd", false, "fault 1 then 10"),
        (b"bad x", false, "0/0"),
        (b"something else\nx", false, "15/15"),
        (b"", true, "fault 3"),
        (b"ge", false, "more"),
    ];
    for (bytes, eof, want) in cases {
        assert_eq!(outcome(&m, unit, bytes, *eof), *want, "{}", bytes.escape_ascii());
    }
}

#[test]
fn streams() {
    let (m, unit) = (module("grammars"), STREAM);
    let cases: &[(&[u8], bool, &str)] = &[
        (b"c5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n\r\nnext", false, "1/38"),
        (b"c5\r\nhelloXX", false, "fault 1"),
        (b"c5\r\nhel", true, "fault 3"),
        (b"cfffffffffffffffff\r\n", false, "fault 2"),
        (b"l5\nhello", false, "3/8"),
        (b"l0\n", false, "3/3"),
        (b"l18446744073709551616\nabc", false, "fault 1"),
        (b"efghij", true, "1/6"),
        (b"x", false, "1/1"),
    ];
    for (bytes, eof, want) in cases {
        assert_eq!(outcome(&m, unit, bytes, *eof), *want, "{}", bytes.escape_ascii());
    }
}

#[test]
fn text_as_compiled() {
    let (m, unit) = (module("grammars"), TEXT);
    compare_unit(&m, unit, 0, 150);
}

#[test]
fn streams_as_compiled() {
    let (m, unit) = (module("grammars"), STREAM);
    compare_unit(&m, unit, 0, 150);
}

#[test]
fn binary_as_compiled() {
    compare_unit(&module("binary"), UnitId(0), 0, 150);
}

#[test]
fn resp() {
    let (m, unit) = (module("resp"), UnitId(1));
    let cases: &[(&[u8], &str)] = &[
        (b"+OK\r\n", "0/5"),
        (b"$5\r\nhello\r\n", "0/11"),
        (b"$-1\r\n+next\r\n", "0/5"),
        (b"*2\r\n*1\r\n:1\r\n$2\r\nhi\r\n:2\r\n", "0/20"),
        (b"*0\r\n", "0/4"),
        (b"*3\r\n:1\r\n:2\r\n", "more"),
        (b"$-2\r\n", "fault 1"),
        (b"$1048577\r\n", "fault 2"),
        (b"*41\r\n", "more"),
        (b"x", "fault 1"),
    ];
    for (bytes, want) in cases {
        assert_eq!(outcome(&m, unit, bytes, false), *want, "{}", bytes.escape_ascii());
    }
    compare_unit(&m, unit, 0, 100);
}

#[test]
fn http() {
    let (m, unit) = (module("http_proxy"), UnitId(2));
    let head = b"HTTP/1.1 200\r\nContent-Length: 5\r\nConnection: a, Close\r\n\r\n";
    let response = 1 << 63;
    let parse = |bytes: &[u8], ctx| parse_message(&m, unit, bytes, ctx, true);
    let with_body = [&head[..], b"hello"].concat();
    match parse(&with_body, response) {
        Parsed::Message { head: h, used, flags, dump } => {
            assert_eq!((h, used, flags), (head.len(), with_body.len(), 1));
            assert!(dump.contains("value = \"a, Close\""), "{dump}");
        }
        other => panic!("{other:?}"),
    }
    // The answer to HEAD has no body; an interim answer is marked.
    assert!(matches!(parse(head, response | 1), Parsed::Message { used, .. } if used == head.len()));
    assert!(matches!(parse(b"HTTP/1.1 100\r\n\r\n", response), Parsed::Message { flags, .. } if flags & 2 != 0));
    let chunked = b"HTTP/1.1 200\r\ntransfer-encoding: gzip, chunked\r\n\r\n3;x=1\r\nabc\r\n0\r\nA: b\r\n\r\nnext";
    assert!(matches!(parse(chunked, response), Parsed::Message { used, .. } if used == chunked.len() - 4));
    let bad = b"HTTP/1.1 200\r\ncontent-length: 5x\r\n\r\nhello";
    assert!(matches!(parse(bad, response), Parsed::Bad { in_step: false, .. }));
    for ctx in [0, response, response | 1] {
        compare_unit(&m, unit, ctx, 100);
    }
}
