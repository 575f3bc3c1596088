//! RESP2 through `redis_proxy` before real servers. `PLAIN=1` asks one real server instead.

use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wireloom_tests::client::show;
use wireloom_tests::memcached::{key_of, modulo_owner};
use wireloom_tests::redis::{bulk, check, request, words, Answer, Service};
use wireloom_tests::{
    admin, free_port, plain, require_tool, servers, tag, Backend, Client, Process, Wireloom, PATIENCE,
};

/// Said, and the answer in the short form of [`Answer::read`].
const STEPS: &[(&str, &str)] = &[
    ("GET @a", "nil"),
    ("SET @a hello", "+OK"),
    ("GET @a", "$hello"),
    ("get @a", "$hello"),
    ("SET @a other NX", "nil"),
    ("GETSET @a new", "$hello"),
    ("APPEND @a er", ":5"),
    ("STRLEN @a", ":5"),
    ("GETRANGE @a 0 2", "$new"),
    ("INCR @n", ":1"),
    ("INCRBY @n 41", ":42"),
    ("DECR @n", ":41"),
    ("DECRBY @n 50", ":-9"),
    ("INCR @a", "-ERR"),
    ("LPUSH @l a b c", ":3"),
    ("RPUSH @l z", ":4"),
    ("LRANGE @l 0 -1", "[ $c $b $a $z ]"),
    ("LRANGE @l 5 9", "[ ]"),
    ("LPOP @l", "$c"),
    ("RPOP @l", "$z"),
    ("LLEN @l", ":2"),
    ("GET @l", "-WRONGTYPE"),
    ("HSET @h f1 v1 f2 v2", ":2"),
    ("HGET @h f1", "$v1"),
    ("HGET @h none", "nil"),
    ("HMGET @h f2 none f1", "[ $v2 nil $v1 ]"),
    ("HLEN @h", ":2"),
    ("HDEL @h f1 f2", ":2"),
    ("ZADD @z 1 one 2 two", ":2"),
    ("ZRANGE @z 0 -1 WITHSCORES", "[ $one $1 $two $2 ]"),
    ("ZSCORE @z two", "$2"),
    ("SADD @s m", ":1"),
    ("SMEMBERS @s", "[ $m ]"),
    ("SISMEMBER @s x", ":0"),
    ("HSCAN @none 0", "[ $0 [ ] ]"),
    ("EXPIRE @a 100", ":1"),
    ("PERSIST @a", ":1"),
    ("TTL @a", ":-1"),
    ("TYPE @z", "+zset"),
    ("MSET @m1 1 @m2 2 @m3 3 @m4 4", "+OK"),
    ("MGET @m4 @none @m1 @m3 @m1", "[ $4 nil $1 $3 $1 ]"),
    ("MGET @m2", "[ $2 ]"),
    ("MGET @l @m1", "[ nil $1 ]"),
    ("EXISTS @m1 @m2 @none @m1", ":3"),
    ("TOUCH @m1 @none", ":1"),
    ("DEL @m1 @m2 @none", ":2"),
    ("UNLINK @m3 @m4", ":2"),
    ("MGET @m1 @m2 @m3 @m4", "[ nil nil nil nil ]"),
    ("DEL @none", ":0"),
    ("PING", "+PONG"),
    ("PING hello", "$hello"),
    ("ECHO hello", "$hello"),
    ("SELECT 0", "+OK"),
    ("GET", "-ERR"),
    ("MGET", "-ERR"),
    ("MSET @a", "-ERR"),
    ("MSET @a 1 @b", "-ERR"),
    ("SET @a", "-ERR"),
];

#[test]
fn step_by_step() {
    let service = Service::proxy(2, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    for (say, hear) in STEPS {
        c.send(words(say, &t));
        check(&mut c, say, hear, &t);
    }
    c.expect_nothing_more();
}

#[test]
fn pipelined() {
    let service = Service::proxy(2, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    c.send(STEPS.iter().flat_map(|(say, _)| words(say, &t)).collect::<Vec<u8>>());
    for (say, hear) in STEPS {
        check(&mut c, say, hear, &t);
    }
    c.expect_nothing_more();
}

#[test]
fn in_pieces_of_any_size() {
    let service = Service::proxy(2, &[]);
    for n in [1, 2, 3, 5, 7, 13, 100] {
        let (mut c, t) = (Client::connect(service.port), tag());
        c.send_in_pieces(&STEPS.iter().flat_map(|(say, _)| words(say, &t)).collect::<Vec<u8>>(), n);
        for (say, hear) in STEPS {
            check(&mut c, say, hear, &t);
        }
    }
}

#[test]
fn inline_commands() {
    let service = Service::proxy(2, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    c.send("PING\r\n").expect("+PONG\r\n");
    c.send(format!("SET {t} v\r\nGET {t}\r\n  GET   {t}  \r\n")).expect("+OK\r\n$1\r\nv\r\n$1\r\nv\r\n");
    c.send(format!("MGET {t} {t}none\r\n")).expect("*2\r\n$1\r\nv\r\n$-1\r\n");
    c.send(format!("DEL {t} {t}\r\n")).expect(":1\r\n");
    c.send("nonsense\r\n");
    assert!(Answer::take(&mut c).is_error());
    c.send("PING\n").expect("+PONG\r\n").expect_nothing_more();
    c.send("QUIT\r\n").expect("+OK\r\n").expect_closed();
}

/// 200 keys over both servers, in a mixed order, with misses and repetitions.
#[test]
fn many_keys_are_joined_in_order() {
    let service = Service::proxy(2, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    let mut set = vec!["MSET".to_string()];
    for i in (0..200).filter(|i| i % 5 != 0) {
        set.extend([format!("{t}{i}"), format!("value\r\n{i}")]);
    }
    c.send(request(&set)).expect("+OK\r\n");
    let order: Vec<u32> = (0..200).map(|n| n * 77 % 200).chain([3, 3, 5, 3]).collect();
    let mut get = vec!["MGET".to_string()];
    get.extend(order.iter().map(|i| format!("{t}{i}")));
    let wanted: Vec<Answer> =
        order.iter().map(|i| if i % 5 == 0 { Answer::Nil } else { Answer::bulk(format!("value\r\n{i}")) }).collect();
    c.send(request(&get));
    assert_eq!(Answer::take(&mut c), Answer::Array(wanted));
    get[0] = "DEL".into();
    c.send(request(&get)).expect(":160\r\n");
}

#[test]
fn a_thousand_commands_in_one_write() {
    let service = Service::proxy(2, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    let say: Vec<u8> = (0..500)
        .flat_map(|i| [words(&format!("SET @{i} {i}"), &t), words(&format!("GET @{i}"), &t)].concat())
        .collect();
    c.send(say);
    for i in 0..500 {
        c.expect("+OK\r\n").expect(bulk(i.to_string().as_bytes()));
    }
    c.expect_nothing_more();
}

#[test]
fn large_and_binary_values() {
    let service = Service::proxy(2, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    for size in [0, 1, 4095, 4096, 65_537, 1_048_576] {
        let value: Vec<u8> = (0..size).map(|i| (i * 7 + i / 251) as u8).collect();
        c.send(request(&[b"SET", t.as_bytes(), &value])).expect("+OK\r\n");
        c.send(request(&[b"GET", t.as_bytes()])).expect(bulk(&value));
        c.send(request(&[b"MGET", t.as_bytes(), b"none", t.as_bytes()]));
        c.expect("*3\r\n").expect(bulk(&value)).expect("$-1\r\n").expect(bulk(&value));
    }
    for i in 0..1000 {
        c.redis(&["RPUSH", &format!("{t}l"), &format!("item {i}")]);
    }
    let Answer::Array(items) = c.redis(&["LRANGE", &format!("{t}l"), "0", "-1"]) else { panic!("an array") };
    assert!(items.len() == 1000 && items[999] == Answer::bulk("item 999"));
}

/// Several keys in one command: answered as one server answers where all are on one, refused where
/// they are not.
#[test]
fn several_keys_of_one_server() {
    if plain() {
        return;
    }
    let (service, real) = (Service::proxy(2, &[]), Process::redis());
    let (mut ours, mut one) = (Client::connect(service.port), Client::connect(real.port));
    let keys: Vec<String> =
        (0..).map(|i| format!("many{i}")).filter(|k| modulo_owner(k.as_bytes(), 2) == 0).take(3).collect();
    let (a, b, c, far) = (&keys[0], &keys[1], &keys[2], &key_of(1, 2, "many"));
    let steps = "SET A abc;SET B abd;BITOP AND C A B;GET C;RENAME C A;MSETNX B 1 C 2;MSETNX A 1 C 2;LCS A B;COPY A C REPLACE;DEL A B C;SADD A 1 2;SADD B 2 3;SINTER A B;        SUNIONSTORE C A B;SCARD C;SDIFF A B;SINTERCARD 2 A B;SMOVE A B 1;DEL A B C;ZADD A 1 x;ZADD B 2 x;ZUNIONSTORE C 2 A B WEIGHTS 1 2;ZSCORE C x;        ZUNION 2 A B;ZUNIONSTORE C x A;ZMPOP 1 A MIN;ZRANGESTORE A B 0 -1;DEL A B C;RPUSH A 3 1 2;SORT A;SORT A DESC STORE B;LRANGE B 0 -1;LMOVE A B LEFT RIGHT;        RPOPLPUSH A B;LMPOP 2 C A LEFT;OBJECT ENCODING B;DEL A B C;XADD A 1-1 f v;XADD B 2-1 f v;XREAD COUNT 1 STREAMS A B 0 0;XGROUP CREATE A g 0;        XREADGROUP GROUP g me STREAMS A >;XPENDING A g;XACK A g 1-1;XINFO GROUPS A;DEL A B;PFADD A x y;PFADD B z;PFCOUNT A B;PFMERGE C A B;DEL A B C;        EVAL return{KEYS[1],KEYS[2],ARGV[1]} 2 A B x;EVALSHA 0000000000000000000000000000000000000000 1 A;GEOADD A 1 1 p 2 2 q;        GEORADIUS A 1 1 500 km STORE B;GEORADIUS A 1 1 500 km;ZCARD B;GEOSEARCHSTORE C A FROMMEMBER p BYRADIUS 500 km;SET A;GET A B;INCR;MSET A;PING a b";
    for step in steps.split(';') {
        let step: Vec<&str> = step
            .split_whitespace()
            .map(|w| match w {
                "A" => a,
                "B" => b,
                "C" => c,
                w => w,
            })
            .collect();
        let (got, wanted) = (ours.redis(&step), one.redis(&step));
        // The proxy has words of its own where it cannot find the keys.
        assert!(
            got == wanted || (step.contains(&"x") && got.is_error() && wanted.is_error()),
            "{step:?}: {got:?} instead of {wanted:?}"
        );
    }
    for step in [
        "RENAME A F",
        "BITOP AND A B F",
        "MSETNX A 1 F 2",
        "SUNION A F",
        "ZUNIONSTORE A 1 F",
        "ZINTER 2 A F",
        "SORT A STORE F",
        "EVAL x 2 A F",
        "XREAD STREAMS A F 0 0",
        "GEORADIUS A 1 1 1 km STOREDIST F",
        "LMOVE A F LEFT LEFT",
        "SMOVE F A x",
        "PFMERGE A B F",
    ] {
        let step: Vec<&str> = step
            .split(' ')
            .map(|w| match w {
                "A" => a,
                "B" => b,
                "F" => far,
                w => w,
            })
            .collect();
        assert!(matches!(ours.redis(&step), Answer::Error(e) if e.contains("different servers")), "{step:?}");
    }
    ours.expect_nothing_more();
}

/// Quotes of inline commands would be taken for parts of words.
#[test]
fn inline_quotes_are_refused() {
    if plain() {
        return;
    }
    let service = Service::proxy(1, &[]);
    for line in ["SET \"a b\" \"c d\"\r\n", "SET q it's\r\n", "GET \"\r\n"] {
        let rest = Client::connect(service.port).send(line).rest();
        assert!(rest.starts_with(b"-ERR Protocol error"), "{line:?}: {}", show(&rest));
    }
    Client::connect(service.port).send("PING\ta\r\n").expect("$1\r\na\r\n");
}

/// Numbers with zeros in front, which Redis refuses.
#[test]
fn counts_and_sizes_are_plain_numbers() {
    let service = Service::proxy(1, &[]);
    for (request, what) in [
        ("*01\r\n$4\r\nPING\r\n", "multibulk"),
        ("*00\r\n", "multibulk"),
        ("*1x\r\n", "multibulk"),
        ("*1\r\n$04\r\nPING\r\n", "bulk"),
        ("*2\r\n$4\r\nECHO\r\n$00\r\n\r\n", "bulk"),
        ("*1\r\n$4x\r\n", "bulk"),
    ] {
        let wanted = format!("-ERR Protocol error: invalid {what} length\r\n");
        assert_eq!(show(&Client::connect(service.port).send(request).rest()), show(wanted.as_bytes()), "{request:?}");
    }
    Client::connect(service.port).send("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n").expect("$0\r\n\r\n");
}

/// A command that needs all servers, or state of the connection, is refused; the connection stays
/// in step.
#[test]
fn refused_commands() {
    if plain() {
        return;
    }
    let service = Service::proxy(2, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    for line in [
        "EXEC",
        "SUBSCRIBE c",
        "PSUBSCRIBE c",
        "SSUBSCRIBE c",
        "PUBLISH c m",
        "EVAL return-1 0",
        "FLUSHALL",
        "FLUSHDB",
        "SCAN x",
        "SCAN 2",
        "RENAME a",
        "WATCH a",
        "AUTH x",
        "SELECT 1",
        "MONITOR",
        "SHUTDOWN",
        "DEBUG SLEEP 1",
        "MIGRATE a",
        "OBJECT HELP",
        "WAIT 1 1",
        "nonsense",
        "SINTERSTORE",
        "SORT a BY w_*",
        "COPY a a DB 1",
        "EVAL return(1) 4294967295 a",
        "CONFIG SET maxmemory 0",
        "CLIENT REPLY OFF",
        "CLIENT TRACKING ON",
        "CLIENT KILL x",
        "CLIENT SETNAME a\nb",
        "CLIENT SETINFO x y",
        "SCRIPT LOAD x",
        "FUNCTION LIST",
        "DISCARD",
        "BLPOP a b",
        "HELLO x",
        "HELLO 2 AUTH",
        "HELLO 2 SETNAME",
    ] {
        c.send(words(line, &t));
        let got = Answer::take(&mut c);
        assert!(matches!(&got, Answer::Error(e) if e.starts_with("ERR")), "{line}: {got:?}");
        c.send(words("PING", &t)).expect("+PONG\r\n");
    }
}

/// A browser that was made to send a form to us: nothing of it is executed, and the connection
/// ends.
#[test]
fn http_is_no_command() {
    let service = Service::proxy(1, &[]);
    let t = tag();
    for start in ["POST / HTTP/1.1\r\nHost: a\r\n\r\n", "Host: a\r\n", "post x\r\n", "*2\r\n$5\r\nhost:\r\n$1\r\na\r\n"]
    {
        let rest = Client::connect(service.port).send(format!("{start}SET {t}pwn 1\r\n")).rest();
        assert!(rest.is_empty(), "{start:?}: {}", show(&rest));
    }
    if !plain() {
        let rest =
            Client::connect(service.port).send(format!("GET / HTTP/1.1\r\nHost: a\r\n\r\nSET {t}pwn 1\r\n")).rest();
        assert!(rest.is_empty(), "{}", show(&rest));
    }
    Client::connect(service.port).send(request(&["GET", &format!("{t}pwn")])).expect("$-1\r\n");
}

/// The first commands of clients, and their questions about themselves.
#[test]
fn what_clients_say_first() {
    let service = Service::proxy(2, &[]);
    let mut c = Client::connect(service.port);
    c.send(words("CLIENT SETINFO LIB-NAME x", "")).expect("+OK\r\n");
    c.send(words("CLIENT GETNAME", "")).expect("$-1\r\n");
    c.send(words("CLIENT SETNAME me", "")).expect("+OK\r\n");
    c.send(words("CLIENT GETNAME", "")).expect("$2\r\nme\r\n");
    assert!(matches!(c.redis(&["CLIENT", "ID"]), Answer::Integer(n) if n > 0));
    assert!(matches!(c.redis(&["INFO"]), Answer::Bulk(b) if String::from_utf8_lossy(&b).contains("loading:0")));
    let Answer::Array(hello) = c.redis(&["HELLO", "2"]) else { panic!("a map as an array") };
    assert!(hello.len() == 14 && hello[4] == Answer::bulk("proto") && hello[5] == Answer::Integer(2));
    assert!(matches!(c.redis(&["COMMAND", "COUNT"]), Answer::Integer(n) if n > 100));
    assert!(matches!(c.redis(&["COMMAND", "DOCS", "get"]), Answer::Array(a) if a.len() == 2));
    assert!(matches!(c.redis(&["HELLO", "4"]), Answer::Error(e) if e.starts_with("NOPROTO")));
    c.send(words("RESET", "")).expect("+RESET\r\n");
    c.send(words("CLIENT GETNAME", "")).expect("$-1\r\n");
}

/// RESP3 is spoken with the servers, too, so that maps, doubles and nulls keep their types.
#[test]
fn resp3() {
    let service = Service::proxy(2, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    c.send("HELLO 3\r\n").expect("%7\r\n");
    c.take_until(b"modules\r\n*0\r\n");
    for (say, hear) in [
        ("GET @none", "_\r\n"),
        ("HSET @h f v", ":1\r\n"),
        ("HGETALL @h", "%1\r\n$1\r\nf\r\n$1\r\nv\r\n"),
        ("ZADD @z 1.5 m", ":1\r\n"),
        ("ZSCORE @z m", ",1.5\r\n"),
        ("SADD @s x", ":1\r\n"),
        ("SMEMBERS @s", "~1\r\n$1\r\nx\r\n"),
        ("MSET @1 a @2 b @3 c", "+OK\r\n"),
        ("MGET @1 @none @3", "*3\r\n$1\r\na\r\n_\r\n$1\r\nc\r\n"),
        ("DEL @1 @2 @3", ":3\r\n"),
        ("CLIENT GETNAME", "_\r\n"),
        ("BLPOP @l 0.01", "_\r\n"),
        ("LPUSH @l x", ":1\r\n"),
        ("BLPOP @l 1", "*2\r\n$L\r\n@l\r\n$1\r\nx\r\n"),
        ("MULTI", "+OK\r\n"),
        ("HGETALL @h", "+QUEUED\r\n"),
        ("EXEC", "*1\r\n%1\r\n$1\r\nf\r\n$1\r\nv\r\n"),
    ] {
        c.send(words(say, &t)).expect(hear.replace("$L", &format!("${}", t.len() + 1)).replace('@', &t));
    }
    c.send("HELLO 2\r\n").take_until(b"modules\r\n*0\r\n");
    c.send(words("GET @none", &t)).expect("$-1\r\n").expect_nothing_more();
}

#[test]
fn all_servers_are_asked() {
    let service = Service::proxy(3, &["--set", "flush=true"]);
    let mut c = Client::connect(service.port);
    let mut names: Vec<String> = (0..300).map(|i| format!("key{i}")).collect();
    for n in &names {
        assert_eq!(c.redis(&["SET", n, "x"]), Answer::ok());
    }
    assert_eq!(c.redis(&["DBSIZE"]), Answer::Integer(300));
    let sorted = |a: Answer| {
        let Answer::Array(a) = a else { panic!("an array") };
        let mut v: Vec<String> = a
            .into_iter()
            .map(|b| match b {
                Answer::Bulk(b) => String::from_utf8_lossy(&b).into_owned(),
                b => panic!("{b:?}"),
            })
            .collect();
        v.sort();
        v
    };
    names.sort();
    assert_eq!(sorted(c.redis(&["KEYS", "*"])), names);
    let (mut cursor, mut seen) = ("0".to_string(), Vec::new());
    loop {
        let Answer::Array(page) = c.redis(&["SCAN", &cursor, "COUNT", "7"]) else { panic!("a page") };
        let [Answer::Bulk(next), Answer::Array(some)] = &page[..] else { panic!("{page:?}") };
        cursor = String::from_utf8_lossy(next).into_owned();
        seen.extend(sorted(Answer::Array(some.clone())));
        if cursor == "0" {
            break;
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen, names);
    let random: std::collections::HashSet<String> = (0..40)
        .map(|_| match c.redis(&["RANDOMKEY"]) {
            Answer::Bulk(b) => String::from_utf8_lossy(&b).into_owned(),
            a => panic!("{a:?}"),
        })
        .collect();
    assert!(random.len() > 10 && random.iter().all(|n| names.contains(n)));
    assert_eq!(c.redis(&["FLUSHALL"]), Answer::ok());
    assert_eq!(
        (c.redis(&["DBSIZE"]), c.redis(&["RANDOMKEY"]), c.redis(&["KEYS", "*"])),
        (Answer::Integer(0), Answer::Nil, Answer::Array(vec![]))
    );
}

/// Words and values of Redis's own limits: a list of 100,000, a value of 64 MiB in each direction,
/// keys by the thousand.
#[test]
fn large_things() {
    let service = Service::proxy(2, &[]);
    let (mut c, t) = (Client::connect(service.port), tag());
    let mut push = vec!["RPUSH".to_string(), format!("{t}l")];
    push.extend((0..100_000).map(|i| i.to_string()));
    c.send(request(&push));
    assert_eq!(Answer::take(&mut c), Answer::Integer(100_000));
    let Answer::Array(all) = c.redis(&["LRANGE", &format!("{t}l"), "0", "-1"]) else { panic!("an array") };
    assert!(all.len() == 100_000 && all[99_999] == Answer::bulk("99999"));
    let big: Vec<u8> = (0..64 << 20).map(|i: u32| (i * 7 + i / 251) as u8).collect();
    let name = format!("{t}big");
    let mut other = Client::connect(service.port);
    c.send(request(&[b"SET", name.as_bytes(), &big])).expect("+OK\r\n");
    let wanted = bulk(&big);
    assert!(c.send(request(&["GET", &name])).take(wanted.len()) == wanted, "another value");
    assert_eq!(other.redis(&["STRLEN", &name]), Answer::Integer(64 << 20));
    c.send(request(&[b"SETEX", name.as_bytes(), b"100", &big[..20 << 20]])).expect("+OK\r\n");
    assert_eq!(other.redis(&["STRLEN", &name]), Answer::Integer(20 << 20));
    let names: Vec<String> = (0..5000).map(|i| format!("{t}{i}")).collect();
    let set: Vec<String> =
        std::iter::once("MSET".into()).chain(names.iter().flat_map(|n| [n.clone(), n.clone()])).collect();
    c.send(request(&set)).expect("+OK\r\n");
    let with = |verb: &str| request(&std::iter::once(verb.to_string()).chain(names.clone()).collect::<Vec<_>>());
    c.send(with("MGET"));
    assert_eq!(Answer::take(&mut c), Answer::Array(names.iter().map(Answer::bulk).collect()));
    c.send(with("DEL")).expect(":5000\r\n").expect_nothing_more();
}

/// MSET with this many words and values of this size.
fn mset(words: usize, size: usize) -> Vec<u8> {
    let value = bulk(&vec![b'v'; size]);
    let mut out = format!("*{words}\r\n$4\r\nMSET\r\n").into_bytes();
    for i in 1..words {
        if i % 2 == 1 {
            out.extend(bulk(format!("many{i}").as_bytes()));
        } else {
            out.extend(&value);
        }
    }
    out
}

/// MSET at the limits of words and bytes is served, or refused with Redis's errors. A neighbour is
/// served meanwhile, and the work is proportional to the words.
#[test]
fn a_million_words() {
    if plain() {
        return;
    }
    let service = Service::proxy(2, &[]);
    let (port, done) = (service.port, AtomicBool::new(false));
    let waits = std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| {
            let (mut c, mut waits) = (Client::connect(port), Vec::new());
            while !done.load(Ordering::Relaxed) {
                let start = Instant::now();
                c.send("PING\r\n").expect("+PONG\r\n");
                waits.push(start.elapsed());
            }
            waits
        });
        let mut c = Client::connect(port);
        let before = service.front.own_cpu_ms();
        c.send(mset(1_000_001, 1)).expect("+OK\r\n");
        c.send(mset(1_000_002, 1)).expect("-ERR wrong number of arguments for 'mset' command\r\n");
        c.send("GET many999999\r\n").expect("$1\r\nv\r\n").expect_nothing_more();
        let took = service.front.own_cpu_ms() - before;
        let refused = |request: &[u8], told: &str| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it accepts");
            // The proxy may close before all has been sent.
            stream.write_all(request).ok();
            Client::over(stream).expect(told).expect_closed();
        };
        refused(&mset(1_048_577, 1), "-ERR Protocol error: invalid multibulk length\r\n");
        refused(&mset(20_001, 2080), "-ERR out of memory\r\n");
        done.store(true, Ordering::Relaxed);
        // Optimised code takes 90 ms, quick code three times as long.
        assert!(took < 2000, "{took} ms of processor time for two million words");
        neighbour.join().expect("the neighbour is served")
    });
    eprintln!("{} PINGs, the longest wait {:?}", waits.len(), waits.iter().max());
    assert!(waits.len() > 20, "{waits:?}");
}

/// Passwords: of the servers, which a proxy says on each connection, and of its own clients.
#[test]
fn passwords() {
    if plain() {
        return;
    }
    let protected = || Process::redis_with(&["--requirepass", "sesame"]);
    let backends = [protected(), protected()];
    let list = servers(&[backends[0].port, backends[1].port]);
    let proxy = |args: &[&str]| Wireloom::run("redis_proxy", &[&["--set", list.as_str()], args].concat());
    let good = proxy(&["--set", "password=sesame", "--set", "client_password=open"]);
    let mut c = Client::connect(good.port);
    for line in
        ["GET a", "MULTI", "CLIENT ID", "HELLO 3", "AUTH shut", "AUTH someone open", "HELLO 2 AUTH default shut"]
    {
        assert!(
            matches!(c.redis(&line.split(' ').collect::<Vec<_>>()), Answer::Error(e) if e.starts_with("NOAUTH") || e.starts_with("WRONGPASS")),
            "{line}"
        );
    }
    assert_eq!(c.redis(&["AUTH", "open"]), Answer::ok());
    for i in 0..20 {
        let name = format!("k{i}");
        assert_eq!((c.redis(&["SET", &name, "x"]), c.redis(&["GET", &name])), (Answer::ok(), Answer::bulk("x")));
    }
    assert_eq!(c.redis(&["MULTI"]), Answer::ok());
    c.send(words("SET k1 y", "")).expect("+QUEUED\r\n").send(words("EXEC", "")).expect("*1\r\n+OK\r\n");
    c.send(words("BLPOP none 0.01", "")).expect("*-1\r\n");
    let mut c3 = Client::connect(good.port);
    c3.send(words("HELLO 3 AUTH default open", "")).take_until(b"*0\r\n");
    c3.send(words("GET k0", "")).expect("$1\r\nx\r\n").send(words("MULTI", "")).expect("+OK\r\n");
    c3.send(words("GET k1", "")).expect("+QUEUED\r\n").send(words("EXEC", "")).expect("*1\r\n$1\r\ny\r\n");
    let bad = proxy(&["--set", "password=wrong"]);
    let mut c = Client::connect(bad.port);
    for _ in 0..5 {
        assert!(c.redis(&["GET", "k0"]).is_error());
    }
    assert!(bad.output().contains("refuses the greeting: -WRONGPASS"), "{}", bad.output());
    c.send("PING\r\n").expect("+PONG\r\n");
}

/// Broken framing: a protocol error and the end, as Redis does; the next client is served.
#[test]
fn hostile_requests() {
    let service = Service::proxy(2, &[]);
    for bad in [
        "*99999999999999999999\r\n",
        "*2147483648\r\n",
        "*x\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n$-2\r\n",
        "*1\r\n$x\r\nGET\r\n",
        "*2\r\n$3\r\nGET\r\n$99999999999\r\n",
        "*2\r\n$3\r\nGET\r\n$4294967296\r\n",
        "*2\r\n$3\r\nGET\r\n+a\r\n",
        "*2\r\n$3\r\nGET\r\n$-1\r\n",
        "*1\r\n*1\r\n$4\r\nPING\r\n",
    ] {
        let mut c = Client::connect(service.port);
        c.send(bad);
        c.finish_sending();
        let rest = c.rest();
        assert!(rest.starts_with(b"-ERR") && rest.ends_with(b"\r\n"), "{}: {}", bad.escape_debug(), show(&rest));
        assert_eq!(rest.iter().filter(|b| **b == b'\n').count(), 1, "{}: {}", bad.escape_debug(), show(&rest));
        Client::connect(service.port).send("*1\r\n$4\r\nPING\r\n").expect("+PONG\r\n");
    }
    for half in ["*2\r\n$3\r\nGET\r\n", "*2\r\n$3\r\nSET\r\n$10\r\nabc", "*", "*3\r", "PI"] {
        let mut c = Client::connect(service.port);
        c.send(half);
        c.finish_sending();
        let rest = c.rest();
        assert!(rest.is_empty() || rest.starts_with(b"-ERR"), "{half:?}: {}", show(&rest));
    }
    // Redis takes a count below zero for nothing; refusing it is as good.
    let rest = Client::connect(service.port).send("*-1\r\n*1\r\n$4\r\nPING\r\n").finish_sending().rest();
    assert!(rest == b"+PONG\r\n" || rest.starts_with(b"-ERR"), "{}", show(&rest));
    let mut c = Client::connect(service.port);
    c.send("*0\r\n*1\r\n$4\r\nPING\r\n").expect("+PONG\r\n");
    c.send("\r\n*1\r\n$4\r\nPING\r\n").expect("+PONG\r\n");
}

#[test]
fn a_lost_server_is_an_error_for_its_keys_only() {
    if plain() {
        return;
    }
    let mut service = Service::proxy(2, &["--set", "owners.eject_time=200ms"]);
    let keys: Vec<String> = (0..2).map(|s| key_of(s, 2, "lost")).collect();
    let mut c = Client::connect(service.port);
    for k in &keys {
        assert_eq!(c.redis(&["SET", k, "x"]), Answer::ok());
    }
    let port = service.backends[0].port;
    service.backends[0].kill();
    for _ in 0..20 {
        assert!(c.redis(&["GET", &keys[0]]).is_error());
        assert_eq!(c.redis(&["GET", &keys[1]]), Answer::bulk("x"));
        assert!(c.redis(&["MGET", &keys[0], &keys[1]]).is_error());
        assert_eq!(c.redis(&["MGET", &keys[1], &keys[1]]), Answer::Array(vec![Answer::bulk("x"); 2]));
    }
    service.backends[0] = Process::redis_on(port);
    let until = Instant::now() + PATIENCE;
    while c.redis(&["GET", &keys[0]]) != Answer::Nil {
        assert!(Instant::now() < until, "the server is back but not served");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(c.redis(&["MSET", &keys[0], "1", &keys[1], "2"]), Answer::ok());
}

/// Each answer to a part of a request is counted for its server, with its own class.
#[test]
fn answers_that_are_joined_have_their_classes() {
    if plain() {
        return;
    }
    for way in [&[][..], &["--interpret"]] {
        let (backends, page) = ([Backend::new(), Backend::new()], free_port());
        let (list, admin) = (servers(&backends.each_ref().map(|b| b.port)), page.to_string());
        let proxy = Wireloom::run("redis_proxy", &[&["--set", &list, "--admin", &admin], way].concat());
        let keys: Vec<String> = (0..2).map(|s| key_of(s, 2, "joined")).collect();
        let mut c = Client::connect(proxy.port);
        c.send(request(&["MGET", &keys[0], &keys[1]]));
        for (b, (key, answer)) in backends.iter().zip(keys.iter().zip(["*1\r\n$1\r\nx\r\n", "-ERR no\r\n"])) {
            b.accept().expect(request(&["MGET", key])).send(answer).expect_nothing_more();
        }
        assert!(c.take_line().starts_with("-ERR"), "{way:?}");
        let counted = |server: usize, class: &str| {
            let backend = format!("127.0.0.1:{}", backends[server].port);
            let labels = format!("app=\"redis_proxy\",port=\"owners\",backend=\"{backend}\",class=\"{class}\"");
            admin::sample(&admin::metrics(page), &format!("wireloom_backend_responses_total{{{labels}}}"))
        };
        admin::eventually("both are counted", || counted(0, "ok") == 1 && counted(1, "error") == 1);
        assert_eq!([counted(0, "error"), counted(1, "ok"), counted(0, "unknown"), counted(1, "unknown")], [0; 4]);
    }
}

#[test]
fn keys_go_to_their_owner() {
    if plain() {
        return;
    }
    let service = Service::proxy(2, &[]);
    let mut c = Client::connect(service.port);
    let mut direct: Vec<Client> = service.backends.iter().map(|b| Client::connect(b.port)).collect();
    for i in 0..50 {
        let key = format!("owned{i}");
        assert_eq!(c.redis(&["SET", &key, "x"]), Answer::ok());
        let owner = modulo_owner(key.as_bytes(), 2);
        assert_eq!(direct[owner].redis(&["GET", &key]), Answer::bulk("x"));
        assert_eq!(direct[1 - owner].redis(&["GET", &key]), Answer::Nil);
    }
}

#[test]
fn bad_answers_of_a_backend_are_errors() {
    if plain() {
        return;
    }
    let backend = Backend::new();
    let proxy = Wireloom::run("redis_proxy", &["--set", &servers(&[backend.port]), "--set", "owners.eject_after=1000"]);
    for bad in [&b"$5\r\nabc"[..], b"$-7\r\n", b"?\r\n", b"*2\r\n$1\r\na\r\n", b":12", b"$99999999999\r\n", b""] {
        let mut c = Client::connect(proxy.port);
        c.send(request(&["GET", "k"]));
        let mut server = backend.accept();
        server.expect(request(&["GET", "k"])).send(bad).finish_sending();
        let rest = c.finish_sending().rest();
        // Cut within a streamed value, the client may have the beginning already: then its
        // connection ends.
        let begun = bad.starts_with(b"$5") || bad.starts_with(b"*2");
        assert!(rest.starts_with(b"-ERR") || (begun && bad.starts_with(&rest)), "{}: {}", show(bad), show(&rest));
    }
}

#[test]
fn redis_cli_and_benchmark() {
    if !require_tool("redis-cli") || !require_tool("redis-benchmark") {
        return;
    }
    let service = Service::proxy(2, &[]);
    let port = service.port.to_string();
    let cli = |args: &[&str]| {
        let out = Command::new("redis-cli").args(["-p", &port]).args(args).output().expect("redis-cli runs");
        String::from_utf8_lossy(&out.stdout).trim().to_string()
    };
    assert_eq!(cli(&["SET", "cli", "a b"]), "OK");
    assert_eq!(cli(&["GET", "cli"]), "a b");
    assert_eq!(cli(&["RPUSH", "clilist", "x", "y"]), "2");
    assert_eq!(cli(&["LRANGE", "clilist", "0", "-1"]), "x\ny");
    assert_eq!(cli(&["DEL", "cli", "clilist", "none"]), "2");
    let out = Command::new("timeout")
        .args([
            "60",
            "redis-benchmark",
            "-p",
            &port,
            "-t",
            "get,set,incr,lpush,mset",
            "-n",
            "20000",
            "-c",
            "20",
            "-P",
            "8",
            "-r",
            "1000",
            "-q",
        ])
        .output()
        .expect("redis-benchmark runs");
    let text = String::from_utf8_lossy(&out.stdout).replace('\r', "\n");
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(!text.contains("rror from server"), "{text}");
    for test in ["SET", "GET", "INCR", "LPUSH", "MSET"] {
        assert!(
            text.contains(&format!("{test}: ")) || text.contains(&format!("{test} (")),
            "{test} is missing: {text}"
        );
    }
}
