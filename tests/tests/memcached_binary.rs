//! memcached's binary protocol through `memcached_proxy` before real servers. `PLAIN=1` asks one
//! real server instead.

use std::time::{Duration, Instant};
use wireloom_tests::client::show;
use wireloom_tests::memcached::binary::{op, status, Packet};
use wireloom_tests::memcached::{binary_checks as checks, key_of, Service};
use wireloom_tests::{plain, servers, tag, Backend, Client, Process, Wireloom, PATIENCE};

#[test]
fn storage() {
    checks::storage(Service::proxy(3, &[]).port);
}

#[test]
fn compare_and_set() {
    checks::compare_and_set(Service::proxy(3, &[]).port);
}

#[test]
fn numbers() {
    checks::numbers(Service::proxy(3, &[]).port);
}

#[test]
fn touch_and_gat() {
    checks::touching(Service::proxy(3, &[]).port);
}

#[test]
fn quiet_commands_and_their_noop() {
    checks::quiet(Service::proxy(3, &[]).port);
}

#[test]
fn pieces_of_any_size() {
    let service = Service::proxy(3, &[]);
    for n in [1, 2, 3, 5, 7, 11, 23, 24, 25, 100] {
        checks::in_pieces(service.port, n);
    }
}

#[test]
fn a_thousand_packets_in_one_write() {
    checks::pipelined(Service::proxy(3, &[]).port);
}

#[test]
fn half_messages_change_nothing() {
    checks::half_messages(Service::proxy(2, &[]).port);
}

#[test]
fn commands_without_a_key() {
    let service = Service::proxy(2, &[]);
    let mut c = Client::connect(service.port);
    let version = c.ask(&Packet::request(op::VERSION, "").opaque(1));
    assert!(version.status == 0 && version.opaque == 1 && !version.value.is_empty());
    c.send(Packet::request(op::STAT, "").opaque(2).bytes());
    let mut stats = 0;
    loop {
        let stat = Packet::take(&mut c);
        assert_eq!((stat.opcode, stat.status, stat.opaque), (op::STAT, 0, 2));
        if stat.key.is_empty() {
            break;
        }
        stats += 1;
    }
    assert!(stats > 0);
    c.in_step();
    let quit = c.ask(&Packet::request(op::QUIT, "").opaque(3));
    assert_eq!((quit.opcode, quit.status, quit.opaque), (op::QUIT, 0, 3));
    c.expect_closed();
    let mut c = Client::connect(service.port);
    c.send(Packet::request(op::QUITQ, "").bytes()).expect_closed();
}

#[test]
fn both_protocols_on_one_port_see_the_same_data() {
    let service = Service::proxy(3, &[]);
    for i in 0..20 {
        let key = format!("{}{i}", tag());
        let (mut text, mut binary) = (Client::connect(service.port), Client::connect(service.port));
        text.send(format!("set {key} 7 0 2\r\nab\r\n")).expect("STORED\r\n");
        let got = binary.ask(&Packet::request(op::GET, &key));
        assert_eq!((got.status, got.extras.as_slice(), got.value.as_slice()), (0, &[0, 0, 0, 7][..], &b"ab"[..]));
        assert_eq!(binary.ask(&Packet::request(op::DELETE, &key)).status, 0);
        text.send(format!("get {key}\r\n")).expect("END\r\n");
    }
}

#[test]
fn large_values() {
    let service = Service::proxy(2, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    for size in [5000, 65_536, 1_048_000] {
        let value: Vec<u8> = (0..size).map(|i| (i * 11 + i / 256) as u8).collect();
        assert_eq!(c.ask(&Packet::store(op::SET, &t, &value)).status, 0, "{size}");
        let got = c.ask(&Packet::request(op::GETK, &t));
        assert!(got.status == 0 && got.value == value, "{size}");
    }
    for size in [1_048_576, 1_048_577, 2_000_000] {
        let answer = c.ask(&Packet::store(op::SET, &t, &vec![b'x'; size]).opaque(5));
        assert_eq!((answer.status, answer.opaque), (status::TOO_LARGE, 5), "{size}");
        c.in_step();
    }
}

#[test]
fn unknown_opcodes_are_refused_in_step() {
    let service = Service::proxy(2, &[]);
    let mut c = Client::connect(service.port);
    for opcode in [0x50, 0x7f, 0xff] {
        let answer = c.ask(&Packet::request(opcode, "").opaque(4));
        assert_eq!((answer.status, answer.opaque, answer.opcode), (status::UNKNOWN_COMMAND, 4, opcode));
        c.in_step();
    }
    // A packet that no unit holds is refused with the words of its own command, too.
    for refused in
        [Packet::request(op::GETK, &"k".repeat(4097)), Packet::store(op::SETQ, "k", &vec![b'x'; (4 << 20) + 1])]
    {
        let opcode = refused.opcode;
        let answer = c.ask(&refused.opaque(0xdead_beef));
        assert!(answer.status != 0 && answer.opaque == 0xdead_beef && answer.opcode == opcode, "{answer:?}");
        c.in_step();
    }
}

/// Lengths that contradict each other: an error or the end of the connection, never a wrong
/// reading; the next client is served.
#[test]
fn wrong_lengths_are_refused() {
    let service = Service::proxy(2, &[]);
    let with = |at: usize, bytes: &[u8]| {
        let mut p = Packet::store(op::SET, "wrong", b"value").bytes();
        p[at..at + bytes.len()].copy_from_slice(bytes);
        p
    };
    for (name, bytes) in [
        ("key longer than the body", with(2, &[0xff, 0xff])),
        ("key of 251", with(2, &[0, 251])),
        ("extras longer than the body", with(4, &[0xff])),
        ("body smaller than key and extras", with(8, &[0, 0, 0, 3])),
        ("body of nothing", with(8, &[0, 0, 0, 0])),
        ("body of 4 GiB", with(8, &[0xff, 0xff, 0xff, 0xff])),
        ("a response's magic", with(0, &[0x81])),
        ("bad magic after a good packet", [Packet::request(op::NOOP, "").bytes(), vec![0x55; 48]].concat()),
    ] {
        let mut c = Client::connect(service.port);
        c.send(&bytes).finish_sending();
        let answer = c.rest();
        let noop = usize::from(name.contains("after a good")) * 24;
        let rest = &answer[noop.min(answer.len())..];
        let refused = rest.is_empty() || (rest[0] == 0x81 && rest[7] != 0) || rest.starts_with(b"ERROR");
        assert!(refused, "{name}: {}", show(&answer));
        let mut next = Client::connect(service.port);
        assert_eq!(next.ask(&Packet::request(op::GET, "wrong")).status, status::NOT_FOUND, "{name}");
    }
}

/// If key and extras are longer than the body, the start of the next packet is unknown: the error,
/// with the opaque, and the end.
#[test]
fn lengths_that_contradict_each_other_are_told() {
    if plain() {
        return;
    }
    let service = Service::proxy(1, &[]);
    for (at, bytes) in [(2, &[0xff, 0xff][..]), (4, &[0xff]), (8, &[0, 0, 0, 3]), (8, &[0; 4])] {
        let mut packet = Packet::store(op::SET, "wrong", b"value").opaque(0xdead_beef).bytes();
        packet[at..at + bytes.len()].copy_from_slice(bytes);
        let mut c = Client::connect(service.port);
        c.send(Packet::request(op::NOOP, "").bytes()).send(&packet);
        c.take(24);
        let wanted = Packet {
            magic: 0x81,
            opcode: op::SET,
            status: 4,
            opaque: 0xdead_beef,
            value: b"Invalid arguments".to_vec(),
            ..Packet::default()
        };
        assert_eq!(show(&c.rest()), show(&wanted.bytes()), "{at}");
    }
}

/// A packet whose key is too long but whose lengths agree: the error, then in step.
#[test]
fn a_key_too_long_is_an_error_in_step() {
    let service = Service::proxy(2, &[]);
    let mut c = Client::connect(service.port);
    let answer = c.ask(&Packet::request(op::GET, &"k".repeat(251)).opaque(6));
    assert!(answer.status != 0 && answer.opaque == 6, "{answer:?}");
    if !plain() {
        c.in_step();
    }
}

#[test]
fn a_lost_server_is_an_error_for_its_keys_only() {
    if plain() {
        return;
    }
    let mut service = Service::proxy(2, &["--set", "binary.eject_time=200ms"]);
    let keys: Vec<String> = (0..2).map(|s| key_of(s, 2, "lostb")).collect();
    let mut c = Client::connect(service.port);
    for k in &keys {
        assert_eq!(c.ask(&Packet::store(op::SET, k, b"x")).status, 0);
    }
    let port = service.backends[0].port;
    service.backends[0].kill();
    for n in 0..20 {
        let lost = c.ask(&Packet::request(op::GET, &keys[0]).opaque(n));
        assert!(matches!(lost.status, 0x84..=0x86) && lost.opaque == n, "{lost:?}");
        assert_eq!(c.ask(&Packet::request(op::GET, &keys[1])).value, b"x");
        // A quiet read speaks of failures other than a miss.
        c.send(Packet::request(op::GETQ, &keys[0]).opaque(7).bytes());
        let lost = Packet::take(&mut c);
        assert!(lost.status != 0 && lost.opaque == 7, "{lost:?}");
    }
    c.in_step();
    service.backends[0] = Process::memcached_on(port);
    let until = Instant::now() + PATIENCE;
    while c.ask(&Packet::request(op::GET, &keys[0])).status != status::NOT_FOUND {
        assert!(Instant::now() < until, "the server is back but not served");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(c.ask(&Packet::store(op::SET, &keys[0], b"z")).status, 0);
}

#[test]
fn bad_answers_of_a_backend_are_errors() {
    if plain() {
        return;
    }
    let backend = Backend::new();
    let proxy =
        Wireloom::run("memcached_proxy", &["--set", &servers(&[backend.port]), "--set", "binary.eject_after=1000"]);
    let good =
        Packet { magic: 0x81, opcode: op::GET, extras: vec![0; 4], value: b"v".to_vec(), ..Packet::default() }.bytes();
    let mut long_key = good.clone();
    long_key[3] = 200;
    for bad in [&b"\x55garbage garbage garbage garbage"[..], &good[..10], &long_key, b""] {
        let mut c = Client::connect(proxy.port);
        c.send(Packet::request(op::GET, "k").opaque(8).bytes());
        let mut server = backend.accept();
        server.take(25);
        server.send(bad).finish_sending();
        eprintln!("the backend says {}", show(bad));
        let answer = Packet::take(&mut c);
        assert!(answer.status != 0 && answer.opaque == 8, "{answer:?}");
    }
    // Cut within the value, when the client may have the head already: an error, or the end of its
    // connection; never a whole answer.
    let mut c = Client::connect(proxy.port);
    c.send(Packet::request(op::GET, "k").opaque(8).bytes());
    let mut server = backend.accept();
    server.take(25);
    server.send(&good[..good.len() - 1]).finish_sending();
    let answer = c.finish_sending().rest();
    assert!(answer.len() < good.len() || answer[7] != 0, "{}", show(&answer));
}
