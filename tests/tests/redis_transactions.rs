//! Transactions and waiting commands of Redis through `redis_proxy`.

use std::time::{Duration, Instant};
use wireloom_tests::memcached::modulo_owner;
use wireloom_tests::redis::{check, words, Answer, Service};
use wireloom_tests::{plain, tag, Client, PATIENCE};

/// Transactions of one server are executed as one. A command that cannot be queued refuses the
/// whole, and none of it is executed.
#[test]
fn transactions() {
    let service = Service::proxy(2, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    let far = (0..)
        .map(|i| format!("{{{i}}}{t}"))
        .find(|k| modulo_owner(&k.as_bytes()[1..k.find('}').unwrap_or(1)], 2) != modulo_owner(t.as_bytes(), 2))
        .expect("another server's key");
    let steps = [
        ("MULTI", "+OK"),
        ("SET {@}a 1", "+QUEUED"),
        ("INCR {@}a", "+QUEUED"),
        ("MSET {@}b x {@}c y", "+QUEUED"),
        ("GET {@}none", "+QUEUED"),
        ("EXEC", "[ +OK :2 +OK nil ]"),
        ("GET {@}b", "$x"),
        ("MULTI", "+OK"),
        ("DEL {@}b", "+QUEUED"),
        ("DISCARD", "+OK"),
        ("GET {@}b", "$x"),
        ("EXEC", "-ERR"),
        ("DISCARD", "-ERR"),
        ("MULTI", "+OK"),
        ("EXEC", "[ ]"),
        ("MULTI", "+OK"),
        ("MULTI", "-ERR"),
        ("EXEC", "[ ]"),
        ("MULTI x", "-ERR wrong number"),
        ("EXEC", "-ERR EXEC without"),
        ("MULTI", "+OK"),
        ("DISCARD x", "-ERR wrong number"),
        ("SET {@}b lost", "+QUEUED"),
        ("EXEC", "-EXECABORT"),
        ("MULTI", "+OK"),
        ("EXEC x", "-ERR wrong number"),
        ("EXEC", "-EXECABORT"),
        ("UNWATCH x", "-ERR wrong number"),
        ("DBSIZE x", "-ERR wrong number"),
        ("KEYS", "-ERR wrong number"),
        ("SELECT", "-ERR wrong number"),
        ("MULTI", "+OK"),
        ("SET {@}b lost", "+QUEUED"),
        ("nonsense", "-ERR"),
        ("SET {@}c lost", "+QUEUED"),
        ("EXEC", "-EXECABORT"),
        ("GET {@}b", "$x"),
        ("GET {@}c", "$y"),
        ("MULTI", "+OK"),
        ("INCR {@}b", "+QUEUED"),
        ("SET {@}c z", "+QUEUED"),
        ("EXEC", "[ - +OK ]"),
        ("GET {@}c", "$z"),
        ("MULTI", "+OK"),
        ("LPUSH {@}a x y", "+QUEUED"),
        ("HSET {@}h f v g w", "+QUEUED"),
        ("EXEC", "[ - :2 ]"),
    ];
    for (say, hear) in steps {
        c.send(words(say, &t));
        check(&mut c, say, hear, &t);
    }
    // In one write, as libraries send them.
    c.send(steps[..6].iter().flat_map(|(say, _)| words(say, &t)).collect::<Vec<u8>>());
    for (say, hear) in &steps[..6] {
        check(&mut c, say, hear, &t);
    }
    if !plain() {
        for (say, hear) in [
            ("MULTI", "+OK"),
            ("SET {@}b lost", "+QUEUED"),
            ("SET FAR lost", "-ERR"),
            ("EXEC", "-EXECABORT"),
            ("GET {@}b", "$x"),
            ("GET FAR", "nil"),
        ] {
            c.send(words(&say.replace("FAR", &far), &t));
            check(&mut c, say, hear, &t);
        }
    }
    c.send("MULTI\r\nQUIT\r\n").expect("+OK\r\n+OK\r\n").expect_closed();
}

/// No command of another client gets into a transaction, and none of it is seen by halves.
#[test]
fn transactions_are_isolated() {
    let service = Service::proxy(1, &[]);
    let t = tag();
    let (port, name) = (service.port, t.clone());
    let writer = std::thread::spawn(move || {
        let mut c = Client::connect(port);
        for i in 0..300 {
            c.send(
                [
                    words("MULTI", &name),
                    words(&format!("SET {{@}}a {i}"), &name),
                    words(&format!("SET {{@}}b {i}"), &name),
                    words("EXEC", &name),
                ]
                .concat(),
            );
            c.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n");
        }
    });
    let mut c = Client::connect(port);
    while !writer.is_finished() {
        let Answer::Array(both) = c.redis(&["MGET", &format!("{{{t}}}a"), &format!("{{{t}}}b")]) else {
            panic!("an array")
        };
        assert_eq!(both[0], both[1]);
    }
    writer.join().expect("the writer is content");
}

/// Requests keep their order around requests with connections of their own.
#[test]
fn nothing_overtakes_what_waits() {
    let service = Service::proxy(2, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    let big = "x".repeat(300_000);
    for _ in 0..50 {
        let say = [
            words("RPUSH @l a", &t),
            words("BLPOP @l 0", &t),
            words("LLEN @l", &t),
            words(&format!("SET @b {big}"), &t),
            words("STRLEN @b", &t),
            words("SET @b y", &t),
            words("STRLEN @b", &t),
        ];
        c.send(say.concat());
        c.expect(format!(":1\r\n*2\r\n${}\r\n{t}l\r\n$1\r\na\r\n:0\r\n+OK\r\n:300000\r\n+OK\r\n:1\r\n", t.len() + 1));
    }
    let mut other = Client::connect(service.port);
    c.send(words("BLPOP @l 0", &t));
    c.expect_silence(Duration::from_millis(100));
    assert_eq!(other.redis(&["RPUSH", &format!("{t}l"), "z"]), Answer::Integer(1));
    check(&mut c, "BLPOP", "[ $@l $z ]", &t);
}

/// A client that ends while it waits has nothing popped for it, as with Redis itself. It ends its
/// direction or both, is reset, or has sent more behind. No call stays behind at a server.
#[test]
fn a_client_that_ends_while_it_waits_takes_nothing() {
    let service = Service::proxy(2, &[]);
    let servers: Vec<u16> = service.backends.iter().map(|b| b.port).chain(plain().then_some(service.port)).collect();
    let blocked = |n: usize| {
        let until = Instant::now() + PATIENCE;
        let now = || servers.iter().map(|p| blocked_clients(*p)).sum::<usize>();
        while now() != n {
            assert!(Instant::now() < until, "{} clients are blocked, not {n}", now());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let t = tag();
    let mut other = Client::connect(service.port);
    let waits = [
        ("BLPOP @l 0", "RPUSH @l job", "LLEN @l"),
        ("BLMOVE @l @l LEFT RIGHT 0", "RPUSH @l job", "LLEN @l"),
        ("BRPOPLPUSH @l @l 0", "RPUSH @l job", "LLEN @l"),
        ("BLMPOP 0 1 @l LEFT", "RPUSH @l job", "LLEN @l"),
        ("BZPOPMIN @l 0", "ZADD @l 1 job", "ZCARD @l"),
        ("BZMPOP 0 1 @l MIN", "ZADD @l 1 job", "ZCARD @l"),
    ];
    for (wait, push, count) in waits {
        for way in ["half", "both", "reset", "more behind"] {
            let mut c = Client::connect(service.port);
            c.send(words(wait, &t));
            if way == "more behind" {
                c.send(words("GET @b", &t));
            }
            blocked(1);
            match way {
                "both" => drop(c),
                "reset" => c.reset(),
                _ => assert_eq!(c.finish_sending().rest(), b"", "{wait}, {way}"),
            }
            blocked(0);
            for say in [push, count, "DEL @l"] {
                other.send(words(say, &t));
                check(&mut other, say, ":1", &t);
            }
        }
    }
}

fn blocked_clients(server: u16) -> usize {
    let mut c = Client::connect(server);
    c.send("INFO clients\r\nQUIT\r\n");
    let text = String::from_utf8(c.rest()).expect("INFO is text");
    let line = text.lines().find_map(|l| l.strip_prefix("blocked_clients:")).expect("it counts them");
    line.trim().parse().expect("a number")
}
