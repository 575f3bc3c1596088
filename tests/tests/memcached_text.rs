//! memcached's ASCII protocol through `memcached_proxy` before real servers. `PLAIN=1` asks one
//! real server instead.

use std::collections::HashMap;
use std::time::{Duration, Instant};
use wireloom_tests::client::show;
use wireloom_tests::memcached::text::{bad_lengths, BAD, BASIC, MANY, MORE};
use wireloom_tests::memcached::{key_of, modulo_owner, Service};
use wireloom_tests::{plain, servers, tag, Backend, Client, Process, Wireloom, PATIENCE};

fn all() -> impl Iterator<Item = &'static wireloom_tests::Dialogue> {
    BASIC.iter().chain(MORE)
}

#[test]
fn dialogues_step_by_step() {
    let service = Service::proxy(3, &[]);
    all().for_each(|d| d.hold(service.port));
}

#[test]
fn several_keys_of_one_server_keep_their_order() {
    let service = Service::proxy(1, &[]);
    MANY.iter().for_each(|d| d.hold(service.port));
    MANY.iter().for_each(|d| d.hold_pipelined(service.port));
    MANY.iter().for_each(|d| d.hold_in_pieces(service.port, 3));
}

#[test]
fn dialogues_pipelined() {
    let service = Service::proxy(3, &[]);
    all().for_each(|d| d.hold_pipelined(service.port));
}

#[test]
fn dialogues_in_pieces_of_any_size() {
    let service = Service::proxy(2, &[]);
    for n in [1, 2, 3, 5, 7, 11, 64] {
        all().for_each(|d| d.hold_in_pieces(service.port, n));
    }
}

#[test]
fn gets_and_cas() {
    let service = Service::proxy(3, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    c.send(format!("set {t}a 1 0 1\r\nx\r\nset {t}b 2 0 1\r\ny\r\n")).expect("STORED\r\nSTORED\r\n");
    c.send(format!("gets {t}a {t}none {t}b\r\n"));
    let answer: Vec<String> = (0..5).map(|_| c.take_line()).collect();
    let first = answer.iter().position(|l| l.starts_with(&format!("VALUE {t}a 1 1 "))).expect("the first key");
    let second = answer.iter().position(|l| l.starts_with(&format!("VALUE {t}b 2 1 "))).expect("the second key");
    assert!(answer[first + 1] == "x" && answer[second + 1] == "y" && answer[4] == "END", "{answer:?}");
    let stamp = answer[first].rsplit(' ').next().expect("a number").to_string();
    c.send(format!("cas {t}a 1 0 1 {stamp}\r\nz\r\n")).expect("STORED\r\n");
    c.send(format!("cas {t}a 1 0 1 {stamp}\r\nz\r\n")).expect("EXISTS\r\n");
    c.send(format!("cas {t}none 1 0 1 {stamp}\r\nz\r\n")).expect("NOT_FOUND\r\n");
    c.send(format!("gats 100 {t}none {t}a\r\n"));
    assert!(c.take_line().starts_with(&format!("VALUE {t}a 1 1 ")));
    c.expect("z\r\nEND\r\n").expect_nothing_more();
}

/// Any number of keys in one get, in a mixed order, with misses and repetitions: each server's come
/// in the order asked.
#[test]
fn any_number_of_keys_is_joined() {
    let service = Service::proxy(3, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    for i in (0..100).filter(|i| i % 7 != 0) {
        c.send(format!("set {t}{i} {i} 0 {}\r\nvalue {i}\r\n", format!("value {i}").len())).expect("STORED\r\n");
    }
    for count in [2, 100, 257, 5_000, 40_000] {
        let order: Vec<u32> = (0..count).map(|n| n * 37 % 100).chain([5, 5, 7, 5]).take(count as usize).collect();
        let keys: Vec<String> = order.iter().map(|i| format!("{t}{i}")).collect();
        let owner = |key: &str| if plain() { 0 } else { modulo_owner(key.as_bytes(), 3) };
        let mut wanted = vec![String::new(); 3];
        for (key, i) in keys.iter().zip(&order).filter(|(_, i)| *i % 7 != 0) {
            wanted[owner(key)] += &format!("VALUE {key} {i} {}\r\nvalue {i}\r\n", format!("value {i}").len());
        }
        c.send(format!("get {}\r\n", keys.join(" "))).expect(format!("{}END\r\n", wanted.concat()));
    }
    c.expect_nothing_more();
}

/// A line may have many keys: each server gets one command with its own ones.
#[test]
fn one_command_for_each_server() {
    if plain() {
        return;
    }
    let backends = [Backend::new(), Backend::new()];
    let proxy = Wireloom::run("memcached_proxy", &["--set", &servers(&[backends[0].port, backends[1].port])]);
    let keys: Vec<String> = (0..1000).map(|i| format!("key{i}")).collect();
    let mut c = Client::connect(proxy.port);
    c.send(format!("get {}\r\n", keys.join(" ")));
    let mut wanted = String::new();
    for (i, backend) in backends.iter().enumerate() {
        let own: String = keys.iter().filter(|k| modulo_owner(k.as_bytes(), 2) == i).map(|k| format!("{k} ")).collect();
        let first = own.split(' ').next().expect("a key");
        let value = format!("VALUE {first} 0 1\r\n{i}\r\n");
        backend
            .accept()
            .expect(format!("get {own}\r\n"))
            .send(format!("{value}END\r\n"))
            .expect_silence(Duration::from_millis(50));
        wanted += &value;
    }
    c.expect(wanted + "END\r\n").expect_nothing_more();
}

/// A page in a browser can send requests to any port: none of their lines is a command.
#[test]
fn http_ends_the_connection() {
    let service = Service::proxy(1, &[]);
    let t = tag();
    let long = "a".repeat(5000);
    for head in [
        "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\n",
        "PUT /x HTTP/1.0\r\n",
        "Host: a\r\n",
        &format!("POST /{long} HTTP/1.1\r\n"),
    ] {
        if plain() && head.starts_with("Host") {
            continue;
        }
        let mut c = Client::connect(service.port);
        c.send(format!("{head}set {t} 0 0 1\r\nx\r\nget {t}\r\n")).expect_closed();
        Client::connect(service.port).send(format!("get {t}\r\n")).expect("END\r\n");
    }
}

/// Data without a possible end, and sizes that no value has, are not waited for.
#[test]
fn beyond_all_limits_is_refused_at_once() {
    let service = Service::proxy(1, &[]);
    for endless in ["q".repeat(3000), format!("set {}", "k".repeat(3000)), format!("stats {}", "x".repeat(3000))] {
        let mut c = Client::connect(service.port);
        c.send(endless);
        let rest = c.rest();
        assert!(rest.is_empty() || rest.starts_with(b"CLIENT_ERROR"), "{}", show(&rest));
    }
    if plain() {
        return;
    }
    for size in ["2147483646", "2147483648", "4294967296", "99999999999999", "18446744073709551616"] {
        let mut c = Client::connect(service.port);
        c.send(format!("set k 0 0 {size}\r\n"));
        assert!(c.take_line().starts_with("CLIENT_ERROR"), "{size}");
    }
}

/// A line of more keys than the proxy takes, and values that have more than 16 MiB together, get
/// errors that say so. No server counts as lost.
#[test]
fn reads_of_too_much_are_told() {
    if plain() {
        return;
    }
    let service = Service::proxy(3, &[]);
    let mut c = Client::connect(service.port);
    c.send(format!("get{}\r\n", " key".repeat(300_000))).expect("CLIENT_ERROR line too long\r\n");
    assert_eq!(c.rest(), b"");
    let (mut c, value) = (Client::connect(service.port), vec![b'x'; 1_000_000]);
    for i in 0..60 {
        c.send(format!("set k{i} 0 0 1000000\r\n")).send(&value).send("\r\n").expect("STORED\r\n");
    }
    for (keys, error) in [(20, "the values exceed 16 MiB together"), (60, "backend lost, or its values exceed 16 MiB")]
    {
        let line: String = (0..keys).map(|i| format!(" k{i}")).collect();
        c.send(format!("get{line}\r\n")).expect(format!("SERVER_ERROR {error}\r\n"));
    }
    c.send("get k1 nokey\r\n").expect("VALUE k1 0 1000000\r\n").expect(&value).expect("\r\nEND\r\n");
}

/// A `set` that is too large takes away the value that was there, as a server does; other commands
/// leave it.
#[test]
fn a_refused_set_leaves_no_old_value() {
    for service in [Service::proxy(1, &[]), Service::kv()] {
        let (mut c, t) = (Client::connect(service.port), tag());
        let big = "y".repeat(2_000_000);
        for (command, left) in [("set", false), ("add", true), ("replace", true), ("append", true)] {
            c.send(format!("set {t} 0 0 1\r\na\r\n")).expect("STORED\r\n");
            c.send(format!("{command} {t} 0 0 2000000\r\n{big}\r\n"))
                .expect("SERVER_ERROR object too large for cache\r\n");
            c.send(format!("get {t}\r\n")).expect(if left {
                format!("VALUE {t} 0 1\r\na\r\nEND\r\n")
            } else {
                "END\r\n".into()
            });
        }
        c.send(format!("set {t} 0 0 1\r\na\r\nset {t} 0 0 2000000 noreply\r\n{big}\r\nget {t}\r\n"))
            .expect("STORED\r\nEND\r\n");
        c.expect_nothing_more();
    }
}

/// Flags of more than 32 bits, `cas` without its number, `delete` with a time: answered as often as
/// memcached answers, or once.
/// If there are more flags than a server takes, it makes an error of the line, and reads the value
/// behind it as commands. So such a line is not passed on.
#[test]
fn a_value_behind_too_many_flags_is_no_command() {
    let service = Service::proxy(1, &[]);
    let (mut c, mut other, t) = (Client::connect(service.port), Client::connect(service.port), tag());
    other.send(format!("set {t}k 0 0 1\r\nx\r\n")).expect("STORED\r\n");
    let flags =
        ["c", "f", "k", "s", "b", "Oa", "F1", "T99", "I", "MS", "C0", "N9", "v", "h", "l", "t", "u", "x", "z", "y"];
    for n in 10..=flags.len() {
        c.send(format!("ms {t}a 11 {}\r\nflush_all\r\n\r\n", flags[..n].join(" ")));
        let answer = c.take_line();
        assert!(n <= 16 || answer == "CLIENT_ERROR options flags too long", "{n}: {answer}");
        c.send("version\r\n").take_until(b"VERSION ");
        c.take_line();
        other.send(format!("get {t}k\r\n")).expect(format!("VALUE {t}k 0 1\r\nx\r\nEND\r\n"));
    }
}

/// A server closes the connection at a long line of `gat`. Such a line ends its client's connection
/// only, and is no failure of the server.
#[test]
fn a_long_line_of_gat_reaches_no_server() {
    if plain() {
        return;
    }
    let page = wireloom_tests::free_port();
    let service = Service::proxy(2, &["--admin", &page.to_string()]);
    let (mut other, t) = (Client::connect(service.port), tag());
    other.send(format!("set {t}k 0 0 1\r\nx\r\n")).expect("STORED\r\n");
    for verb in ["gat 100", "gats 100"] {
        for count in [150, 3000] {
            let keys: String = (0..count).map(|n| format!(" {t}{n}")).collect();
            let mut c = Client::connect(service.port);
            c.send(format!("{verb}{keys}\r\nget {t}k\r\n"));
            match keys.len() {
                ..=1750 => drop(c.expect(format!("END\r\nVALUE {t}k 0 1\r\nx\r\nEND\r\n"))),
                _ => c.expect_closed(),
            }
            other.send(format!("get {t}k\r\n")).expect(format!("VALUE {t}k 0 1\r\nx\r\nEND\r\n"));
        }
    }
    let status = wireloom_tests::admin::status(page);
    let servers = wireloom_tests::admin::port_of(&status, "ascii")["backends"].as_array().cloned().unwrap_or_default();
    assert!(servers.len() == 2 && servers.iter().all(|s| s["failures"] == 0), "{status}");
}

#[test]
fn odd_numbers() {
    for service in [Service::proxy(1, &[]), Service::kv()] {
        let (mut c, t) = (Client::connect(service.port), tag());
        c.send(format!("set {t} 4294967296 0 1\r\na\r\nget {t}\r\n"))
            .expect(format!("STORED\r\nVALUE {t} 0 1\r\na\r\nEND\r\n"));
        c.send(format!("set {t} 18446744073709551615 0 1\r\na\r\nget {t}\r\n"));
        c.expect(format!("STORED\r\nVALUE {t} 4294967295 1\r\na\r\nEND\r\n"));
        c.send(format!("delete {t} 10 noreply\r\ndelete {t} x noreply\r\nget {t}\r\n"))
            .expect(format!("VALUE {t} 4294967295 1\r\na\r\nEND\r\n"));
        if !plain() {
            c.send(format!("cas {t} 0 0 1\r\nb\r\nget {t}\r\n"))
                .expect(format!("ERROR\r\nVALUE {t} 4294967295 1\r\na\r\nEND\r\n"));
        }
        c.expect_nothing_more();
    }
}

#[test]
fn a_thousand_commands_in_one_write() {
    let service = Service::proxy(3, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    let (mut say, mut hear) = (String::new(), String::new());
    for i in 0..1000 {
        match i % 4 {
            0 => {
                say += &format!("set {t}{i} 0 0 4\r\n{i:04}\r\n");
                hear += "STORED\r\n";
            }
            1 => {
                say += &format!("get {t}{}\r\n", i - 1);
                hear += &format!("VALUE {t}{} 0 4\r\n{:04}\r\nEND\r\n", i - 1, i - 1);
            }
            2 => {
                say += &format!("get {t}none {t}{}\r\n", i - 2);
                hear += &format!("VALUE {t}{} 0 4\r\n{:04}\r\nEND\r\n", i - 2, i - 2);
            }
            _ => {
                say += &format!("set {t}{i} 0 0 1 noreply\r\nx\r\ndelete {t}{i}\r\n");
                hear += "DELETED\r\n";
            }
        }
    }
    c.send(&say).expect(&hear).expect_nothing_more();
}

/// Values up to the server's limit pass whole; above it the error, with the client in step.
#[test]
fn large_values() {
    let service = Service::proxy(2, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    for size in [4096, 65_535, 500_000, 1_048_000] {
        let value: Vec<u8> = (0..size).map(|i| (i * 7 + i / 251) as u8).collect();
        c.send(format!("set {t} 0 0 {size}\r\n")).send(&value).send("\r\n").expect("STORED\r\n");
        c.send(format!("get {t}\r\n")).expect(format!("VALUE {t} 0 {size}\r\n")).expect(&value).expect("\r\nEND\r\n");
        c.send(format!("get {t} {t}none {t}\r\n"));
        for _ in 0..2 {
            c.expect(format!("VALUE {t} 0 {size}\r\n")).expect(&value).expect("\r\n");
        }
        c.expect("END\r\n");
    }
    for size in [1_048_576, 1_048_577, 3_000_000] {
        c.send(format!("set {t}big 0 0 {size}\r\n")).send(vec![b'x'; size]).send(format!("\r\nget {t}big\r\n"));
        let error = c.take_line();
        assert!(error.starts_with("SERVER_ERROR object too large for cache"), "{size}: {error}");
        c.expect("END\r\n").expect_nothing_more();
    }
}

#[test]
fn commands_without_a_key() {
    let service = Service::proxy(2, &[]);
    let mut c = Client::connect(service.port);
    c.send("version\r\n");
    assert!(c.take_line().starts_with("VERSION "));
    c.send("verbosity 1\r\n").expect("OK\r\n");
    c.send("verbosity 1 noreply\r\nmn\r\n").expect("MN\r\n");
    // libmemcached's tools put a blank behind it.
    for stats in ["stats\r\n", "stats  \r\n"] {
        c.send(stats);
        let mut names = 0;
        loop {
            match c.take_line() {
                line if line == "END" => break,
                line => assert!(line.starts_with("STAT ") && line.split(' ').count() >= 3, "{stats:?}: {line}"),
            }
            names += 1;
        }
        assert!(names > 0);
    }
    c.send("quit\r\n").expect_closed();
}

/// Each bad line earns one error, and the next lines are answered in step.
#[test]
fn bad_commands_are_answered_in_step() {
    let service = Service::proxy(2, &[]);
    let mut c = Client::connect(service.port);
    let mut wrong = Vec::new();
    for (name, say, hear) in BAD {
        c.send(say.replace('@', &tag())).send("mn\r\n");
        let answer = c.take_line();
        if !hear.iter().any(|h| answer.starts_with(h)) {
            wrong.push(format!("{name}: wanted {hear:?}, got {answer}"));
        }
        let next = if answer == "MN" { answer } else { c.take_line() };
        if next != "MN" {
            wrong.push(format!("{name}: out of step, got {next}"));
            c = Client::connect(service.port);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    c.expect_nothing_more();
}

/// Bad lengths and numbers: error lines only, nothing stored, in step again within the next
/// commands.
#[test]
fn bad_lengths_are_errors_and_change_nothing() {
    let service = Service::proxy(2, &[]);
    let mut wrong = Vec::new();
    for (name, say) in bad_lengths() {
        let (mut c, t) = (Client::connect(service.port), tag());
        c.send(say.replace('@', &t)).send(format!("get {t}a\r\nmn\r\n"));
        let mut lines = Vec::new();
        while lines.last().is_none_or(|l| l != "MN") {
            lines.push(c.take_line());
        }
        // A cut message may take a part of the next one with it; not more than that, and no value
        // is stored.
        let expected =
            |l: &String| ["ERROR", "CLIENT_ERROR", "SERVER_ERROR", "END", "MN"].iter().any(|e| l.starts_with(e));
        c.send(format!("get {t}a\r\n"));
        lines.push(c.take_line());
        if lines[0] == "END"
            || lines[0] == "MN"
            || !lines.iter().all(expected)
            || !lines.ends_with(&["MN".into(), "END".into()])
        {
            wrong.push(format!("{name}: {lines:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Half a message, then the end: nothing is stored, and the next client is served.
#[test]
fn half_messages_change_nothing() {
    let service = Service::proxy(2, &[]);
    for half in [
        "set @a 0 0 5\r\nabc",
        "set @a 0 0 5\r\nabcde",
        "set @a 0 ",
        "get @a",
        "mg",
        "\u{1}",
        "set @a 0 0 5\r\nabcde\r",
    ] {
        for reset in [false, true] {
            let t = tag();
            let mut c = Client::connect(service.port);
            c.send(half.replace('@', &t));
            if reset {
                c.reset();
            } else {
                let rest = c.finish_sending().rest();
                assert!(
                    rest.is_empty() || rest.starts_with(b"ERROR") || rest.starts_with(b"CLIENT_ERROR"),
                    "{half}: {}",
                    show(&rest)
                );
            }
            let mut next = Client::connect(service.port);
            next.send(format!("get {t}a\r\n")).expect("END\r\n");
        }
    }
}

/// Garbage of all kinds from many clients; the service stays.
#[test]
fn garbage_does_not_harm() {
    let service = Service::proxy(2, &[]);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..200 {
        let mut bytes = Vec::new();
        for _ in 0..64 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend(state.to_le_bytes());
        }
        let mut c = Client::connect(service.port);
        c.send(bytes);
    }
    let (mut c, t) = (Client::connect(service.port), tag());
    c.send(format!("set {t} 0 0 1\r\nx\r\nget {t}\r\n")).expect(format!("STORED\r\nVALUE {t} 0 1\r\nx\r\nEND\r\n"));
}

#[test]
fn modulo_spreads_by_fnv1a() {
    if plain() {
        return;
    }
    let service = Service::proxy(3, &[]);
    let mut c = Client::connect(service.port);
    let mut held = [0; 3];
    for i in 0..100 {
        let key = format!("spread{i}");
        c.send(format!("set {key} 0 0 1\r\nx\r\n")).expect("STORED\r\n");
        let owner = modulo_owner(key.as_bytes(), 3);
        Client::connect(service.backends[owner].port)
            .send(format!("get {key}\r\n"))
            .expect(format!("VALUE {key} 0 1\r\n"));
        held[owner] += 1;
    }
    assert!(held.iter().all(|n| *n > 10), "{held:?}");
}

/// A server is lost: errors for its keys only. It returns: its keys are served again.
#[test]
fn a_lost_server_is_an_error_for_its_keys_only() {
    if plain() {
        return;
    }
    let mut service = Service::proxy(3, &["--set", "ascii.eject_time=200ms"]);
    let keys: Vec<String> = (0..3).map(|s| key_of(s, 3, "lost")).collect();
    let mut c = Client::connect(service.port);
    for k in &keys {
        c.send(format!("set {k} 0 0 1\r\nx\r\n")).expect("STORED\r\n");
    }
    let port = service.backends[1].port;
    service.backends[1].kill();
    for _ in 0..20 {
        c.send(format!("get {}\r\n", keys[0])).expect(format!("VALUE {} 0 1\r\nx\r\nEND\r\n", keys[0]));
        c.send(format!("get {}\r\n", keys[1]));
        let error = c.take_line();
        assert!(error.starts_with("SERVER_ERROR"), "{error}");
        c.send(format!("set {} 0 0 1\r\ny\r\n", keys[1]));
        let error = c.take_line();
        assert!(error.starts_with("SERVER_ERROR"), "{error}");
        c.send(format!("get {} {}\r\n", keys[0], keys[2]));
        c.expect(format!("VALUE {} 0 1\r\nx\r\nVALUE {} 0 1\r\nx\r\nEND\r\n", keys[0], keys[2]));
    }
    c.send(format!("get {} {} {}\r\nget {}\r\n", keys[0], keys[1], keys[2], keys[2]));
    let error = c.take_line();
    assert!(error.starts_with("SERVER_ERROR"), "{error}");
    c.expect(format!("VALUE {} 0 1\r\nx\r\nEND\r\n", keys[2]));
    service.backends[1] = Process::memcached_on(port);
    let until = Instant::now() + PATIENCE;
    loop {
        c.send(format!("get {}\r\n", keys[1]));
        match c.take_line() {
            line if line == "END" => break,
            line => assert!(line.starts_with("SERVER_ERROR") && Instant::now() < until, "{line}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    c.send(format!("set {} 0 0 1\r\nz\r\n", keys[1])).expect("STORED\r\n");
}

/// A wrong answer of a backend is an error for the request, never data for another one.
#[test]
fn bad_answers_of_a_backend_are_errors() {
    if plain() {
        return;
    }
    let backend = Backend::new();
    let proxy =
        Wireloom::run("memcached_proxy", &["--set", &servers(&[backend.port]), "--set", "ascii.eject_after=1000"]);
    for bad in [
        &b"VALUE k 0 3\r\nabcdef\r\nEND\r\n"[..],
        b"VALUE k 0 -1\r\n",
        b"VALUE k 0 99999999999\r\nx",
        b"\0\0\0\0\r\nVALUE",
        b"",
    ] {
        let mut c = Client::connect(proxy.port);
        c.send("get k\r\n");
        let mut server = backend.accept();
        server.expect("get k\r\n").send(bad).finish_sending();
        let answer = c.take_line();
        assert!(answer.starts_with("SERVER_ERROR") || answer.as_bytes().starts_with(b"\0"), "{}: {answer}", show(bad));
    }
}

/// Interleaved clients get their own answers, also on a shared backend connection.
#[test]
fn answers_reach_their_own_clients() {
    let service = Service::proxy(2, &[]);
    let t = tag();
    let mut clients: Vec<Client> = (0..50).map(|_| Client::connect(service.port)).collect();
    let mut wanted: HashMap<usize, String> = HashMap::new();
    for round in 0..10 {
        for (i, c) in clients.iter_mut().enumerate() {
            c.send(format!("set {t}{i} {round} 0 2\r\n{i:02}\r\nget {t}{i}\r\n"));
            wanted.entry(i).or_default().push_str(&format!("STORED\r\nVALUE {t}{i} {round} 2\r\n{i:02}\r\nEND\r\n"));
        }
    }
    for (i, c) in clients.iter_mut().enumerate() {
        c.expect(&wanted[&i]).expect_nothing_more();
    }
}
