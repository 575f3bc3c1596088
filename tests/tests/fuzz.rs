//! `wireloom fuzz` on every message of the standard library, its C compiled with AddressSanitizer and UBSan: a minute in all.
//! A failure prints the seed that repeats it. `WIRELOOM_FUZZ_SECONDS` is the time per message.

use wireloom_tests::Wireloom;

const MESSAGES: &[&str] = &[
    "std.http.Request", "std.http.Response", "std.memcached.Command", "std.memcached.Request", "std.memcached.Response",
    "std.redis.Request", "std.redis.Response", "std.kv.Pair",
];

#[test]
fn every_message_sanitized() {
    let seconds = std::env::var("WIRELOOM_FUZZ_SECONDS").unwrap_or_else(|_| "5".into());
    for message in MESSAGES {
        let out = Wireloom::command(&["fuzz", message, "--seconds", &seconds, "--sanitize"]);
        assert_eq!(out.code, Some(0), "{message}: {}", out.text);
        assert!(out.out.contains("no difference"), "{message}: {}", out.text);
        eprintln!("{message}: {}", out.out.trim());
    }
}

#[test]
fn parts_of_messages_are_refused_by_name() {
    let out = Wireloom::command(&["fuzz", "std.http.Field"]);
    assert!(out.code == Some(1) && out.text.contains("Request, Response"), "{}", out.text);
}
