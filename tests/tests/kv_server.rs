//! `kv_server` answers as memcached does, in both protocols: the dialogues and checks are those of
//! the proxy's tests.

use wireloom_tests::memcached::binary_checks as checks;
use wireloom_tests::memcached::text::{bad_lengths, BAD, BASIC, MANY};
use wireloom_tests::memcached::Service;
use wireloom_tests::{tag, Client};

#[test]
fn text_dialogues() {
    let kv = Service::kv();
    BASIC.iter().chain(MANY).for_each(|d| d.hold(kv.port));
    BASIC.iter().for_each(|d| d.hold_pipelined(kv.port));
}

#[test]
fn text_dialogues_in_pieces() {
    let kv = Service::kv();
    for n in [1, 3, 7] {
        BASIC.iter().for_each(|d| d.hold_in_pieces(kv.port, n));
    }
}

#[test]
fn text_cas() {
    let kv = Service::kv();
    let (mut c, t) = (Client::connect(kv.port), tag());
    c.send(format!("set {t} 3 0 1\r\nx\r\ngets {t}\r\n")).expect("STORED\r\n");
    let line = c.take_line();
    let stamp = line.rsplit(' ').next().expect("a number").to_string();
    c.expect("x\r\nEND\r\n");
    c.send(format!("cas {t} 3 0 1 {stamp}\r\ny\r\n")).expect("STORED\r\n");
    c.send(format!("cas {t} 3 0 1 {stamp}\r\nz\r\n")).expect("EXISTS\r\n");
    c.send(format!("get {t}\r\n")).expect(format!("VALUE {t} 3 1\r\ny\r\nEND\r\n"));
}

#[test]
fn bad_text_is_answered_in_step() {
    let kv = Service::kv();
    for (name, say, hear) in BAD {
        let mut c = Client::connect(kv.port);
        c.send(say.replace('@', &tag())).send("version\r\n");
        let line = c.take_line();
        assert!(hear.iter().any(|h| line.starts_with(h)), "{name}: {line}");
        let next = c.take_line();
        assert!(next.starts_with("VERSION "), "{name}: out of step: {next}");
    }
    for (name, say) in bad_lengths() {
        let (mut c, t) = (Client::connect(kv.port), tag());
        c.send(say.replace('@', &t)).send("version\r\nversion\r\n");
        let line = c.take_line();
        assert!(line.contains("ERROR"), "{name}: {line}");
        while !c.take_line().starts_with("VERSION ") {}
        Client::connect(kv.port).send(format!("get {t}a\r\n")).expect("END\r\n");
    }
}

#[test]
fn text_large_values() {
    let kv = Service::kv();
    let (mut c, t) = (Client::connect(kv.port), tag());
    for size in [5000, 100_000, 1_000_000] {
        let value: Vec<u8> = (0..size).map(|i| (i * 7 + i / 251) as u8).collect();
        c.send(format!("set {t} 0 0 {size}\r\n")).send(&value).send("\r\n").expect("STORED\r\n");
        c.send(format!("get {t}\r\n")).expect(format!("VALUE {t} 0 {size}\r\n")).expect(&value).expect("\r\nEND\r\n");
    }
    c.send(format!("set {t} 0 0 2000000\r\n")).send(vec![b'x'; 2_000_000]).send("\r\nversion\r\n");
    assert!(c.take_line().starts_with("SERVER_ERROR object too large for cache"));
    assert!(c.take_line().starts_with("VERSION "));
}

#[test]
fn binary() {
    let kv = Service::kv();
    checks::storage(kv.port);
    checks::compare_and_set(kv.port);
    checks::numbers(kv.port);
    checks::touching(kv.port);
    checks::quiet(kv.port);
    checks::pipelined(kv.port);
    checks::half_messages(kv.port);
    for n in [1, 5, 24] {
        checks::in_pieces(kv.port, n);
    }
}

/// Items of more than 1 MiB, counted as memcached counts them, are refused; `set` removes the old
/// value.
#[test]
fn items_of_a_mebibyte() {
    let kv = Service::kv();
    let (mut c, t) = (Client::connect(kv.port), tag());
    for (flags, beside) in [(0, 59), (1, 63)] {
        let most = (1 << 20) - beside - t.len();
        for (verb, size, answer, left) in [
            ("set", most, "STORED", true),
            ("add", most + 1, "SERVER_ERROR object too large for cache", true),
            ("replace", 1 << 20, "SERVER_ERROR object too large for cache", true),
            ("set", most + 1, "SERVER_ERROR object too large for cache", false),
        ] {
            c.send(format!("{verb} {t} {flags} 0 {size}\r\n"))
                .send("x".repeat(size))
                .send("\r\n")
                .expect(format!("{answer}\r\n"));
            let stays = if left { "TOUCHED\r\n" } else { "NOT_FOUND\r\n" };
            c.send(format!("touch {t} 0\r\n")).expect(stays);
        }
    }
}

/// More is stored than fits: the oldest makes room, memory stays bounded, the newest is there.
#[test]
fn a_full_table_evicts_and_stays_bounded() {
    let kv = Service::kv();
    let (mut c, t) = (Client::connect(kv.port), tag());
    let value = "v".repeat(100_000);
    for i in 0..2000 {
        c.send(format!("set {t}{i} 0 0 100000\r\n{value}\r\n")).expect("STORED\r\n");
    }
    c.send(format!("get {t}1999\r\n"))
        .expect(format!("VALUE {t}1999 0 100000\r\n"))
        .expect(&value)
        .expect("\r\nEND\r\n");
    c.send(format!("get {t}0\r\n"));
    if !wireloom_tests::plain() {
        c.expect("END\r\n");
        assert!(kv.front.rss_kib() < 160 * 1024, "{} KiB", kv.front.rss_kib());
    }
}
