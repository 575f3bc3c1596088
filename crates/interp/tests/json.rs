//! Values of JSON by path: the corners of RFC 8259.

use wireloom_interp::json::{int, raw, text};

const A: &[u8] = b"\x01\x01\x00a";

#[test]
fn the_last_of_equal_keys_counts() {
    assert_eq!(int(br#"{"a":1,"\u0061":2}"#, A), Some(2));
    assert_eq!(int(br#"{"a":{"a":1},"a":{}}"#, &[A, A].concat()), None);
}

#[test]
fn numbers_have_64_bits_and_no_fraction() {
    assert_eq!(int(b"-9223372036854775808", b""), Some(i64::MIN));
    for text in [&b"9223372036854775808"[..], b"1.0", b"1e2", b"01", b"-", b"+1"] {
        assert_eq!(int(text, b""), None);
    }
}

#[test]
fn text_is_utf8() {
    assert_eq!(text(br#""\ud83d\ude00\n""#, b"").as_deref(), Some("\u{1f600}\n".as_bytes()));
    for bad in [&br#""\ud83d""#[..], b"\"\xff\"", b"\"\x01\"", b"\"\\x\"", b"\"a", b"1 2"] {
        assert_eq!(text(bad, b""), None);
    }
}

#[test]
fn depth_is_bounded() {
    let nest = |n: usize| [b"[".repeat(n), b"]".repeat(n)].concat();
    assert!(raw(&nest(64), b"").is_some() && raw(&nest(65), b"").is_none());
}
