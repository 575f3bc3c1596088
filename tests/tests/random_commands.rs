//! Random commands, good and bad, get the same bytes from a real server and from ours. That is
//! memcached beside `kv_server` and the proxies, in both protocols, and Redis beside `redis_proxy`.
//! After each step both servers must hold the same data. `COMMANDS=n` sends more commands, `SEED=n`
//! others.

use std::collections::HashMap;
use wireloom_tests::client::show;
use wireloom_tests::memcached::binary::{op, Packet};
use wireloom_tests::memcached::Service as Memcached;
use wireloom_tests::redis::{request, Service as Redis};
use wireloom_tests::{plain, require_tool, Client, Process};

fn number_of(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Steps to send.
fn commands() -> u64 {
    number_of("COMMANDS", 3000)
}

type Rng = fastrand::Rng;

fn pick<'a>(r: &mut Rng, from: &[&'a str]) -> &'a str {
    from[r.usize(..from.len())]
}

/// One of the usual words mostly, else an odd one.
fn mostly<'a>(r: &mut Rng, usual: &[&'a str], odd: &[&'a str]) -> &'a str {
    let from = if r.u8(..10) < 9 { usual } else { odd };
    pick(r, from)
}

// ---- memcached ----

const KEYS: &[&str] = &["a", "b", "c", "n", "x:1", "é", "!\"#", "0", "noreply", "-", "q", "\x7f", "\x01\t\x1b[0m"];

const EXPTIMES: (&[&str], &[&str]) = (
    &["0", "100", "1000"],
    &[
        "-1",
        "2592000",
        "2592001",
        "x",
        "",
        "noreply",
        "+100",
        "-0",
        "+-1",
        "2147483648",
        "4294967296",
        "4294967396",
        "-2147483649",
        "9223372036854775808",
    ],
);

const FLAGS: &[&str] = &[
    "v", "k", "f", "s", "q", "q", "qx", "vq", "O7", "Oab", "N30", "T100", "T0", "R30", "x", "D5", "J10", "MS", "MA",
    "MP", "MI", "MZ", "F5", "", "D-1", "I", "b7", "!", "é", "noreply",
];

/// Stands for the stamp that a server has given to `a`: each has its own.
const STAMP: &str = "stamp-of-a";

fn with_stamp(said: &[u8], c: &mut Client) -> Vec<u8> {
    let Some(at) = said.windows(STAMP.len()).position(|w| w == STAMP.as_bytes()) else { return said.to_vec() };
    let head = String::from_utf8_lossy(&c.send("gets a\r\nmn\r\n").take_until(b"MN\r\n")).into_owned();
    let stamp = head.lines().next().and_then(|l| l.split(' ').nth(4)).unwrap_or("3").to_string();
    let rest = with_stamp(&said[at + STAMP.len()..], c);
    [&said[..at], stamp.as_bytes(), &rest].concat()
}

/// Numbers only grow, and none begins with 0: memcached fills up a number that loses digits. It
/// does so only while no answer under way has the number. Blanks in front of a number are part of
/// it for memcached, and not for `kv_server`.
fn value(r: &mut Rng) -> Vec<u8> {
    match r.u8(..4) {
        0 => pick(r, &["1", "9", "10", "x", ""]).into(),
        1 => b"a\r\nb\r\n".to_vec(),
        _ => (0..r.usize(..12)).map(|_| r.u8(..) | 0x21).collect(),
    }
}

fn size(r: &mut Rng, data: &[u8]) -> String {
    let n = data.len();
    match r.u8(..40) {
        0 => (n + 1).to_string(),
        1 => n.saturating_sub(1).to_string(),
        2 => "-1".into(),
        3 => "x".into(),
        4 => format!("00{n}"),
        _ => n.to_string(),
    }
}

fn memcached_command(r: &mut Rng, meta: bool) -> Vec<u8> {
    let key = pick(r, KEYS);
    // Without a blank the verb is another one.
    let gap = mostly(r, &[" "], &["  ", ""]);
    let exptime = mostly(r, EXPTIMES.0, EXPTIMES.1);
    let noreply = mostly(r, &["", "", "", " noreply"], &[" noreply ", "  noreply", " no", " 0", " 0 noreply", " "]);
    let number =
        mostly(r, &["0", "1", "5", "100"], &["18446744073709551616", "x", "", "1.5", "noreply", "007", "+1", "-1"]);
    match r.u8(..20) {
        0..=5 => {
            let verb = pick(r, &["set", "set", "set", "add", "replace", "append", "prepend"]);
            let flags = mostly(r, &["0", "5"], &["4294967295", "4294967296", "x", "", "-1", "+5"]);
            let data = value(r);
            let line = format!("{verb}{gap}{key} {flags} {exptime} {}{noreply}\r\n", size(r, &data));
            [line.as_bytes(), &data, b"\r\n"].concat()
        }
        6 => {
            let (unique, data) = (mostly(r, &["0", STAMP, STAMP], &["x", "-1", "18446744073709551616"]), value(r));
            // An empty word would move the stamp to the place of the size.
            let exptime = pick(r, EXPTIMES.0);
            let key = if unique == STAMP { "a" } else { key };
            let line = format!("cas {key} 0 {exptime} {} {unique}{noreply}\r\n", data.len());
            [line.as_bytes(), &data, b"\r\n"].concat()
        }
        7 | 8 => format!("get{gap}{key}\r\n").into_bytes(),
        9 => format!("gat{gap}{exptime} {key} none\r\n").into_bytes(),
        10 => format!("incr {key}{gap}{number}{noreply}\r\n").into_bytes(),
        11 => {
            let number = if ["1", "5", "100", "007"].contains(&number) { "0" } else { number };
            format!("decr {key}{gap}{number}{noreply}\r\n").into_bytes()
        }
        12 => format!("delete{gap}{key}{noreply}\r\n").into_bytes(),
        13 => format!("touch {key}{gap}{exptime}{noreply}\r\n").into_bytes(),
        14 => mostly(r, &["version\r\n", "verbosity 1\r\n", "\r\n", "get a\n"], &["GET a\r\n", "get\r\n", "set a\r\n"])
            .into(),
        15 if !meta => mostly(r, &["get a\r\n"], &["flush_all\r\n", "flush_all noreply\r\n", "flush_all x\r\n"]).into(),
        _ if meta => {
            let mut flags = String::new();
            let mut seen = Vec::new();
            for _ in 0..r.usize(..4) {
                let flag = pick(r, FLAGS);
                // Which error comes of a flag that stands twice is the server's own affair.
                if !seen.contains(&flag.get(..1)) {
                    seen.push(flag.get(..1));
                    flags += &format!(" {flag}");
                }
            }
            let data = value(r);
            match r.u8(..4) {
                0 => format!("mg {key}{flags}\r\n").into_bytes(),
                1 => format!("md {key}{flags}\r\n").into_bytes(),
                // With `N` memcached withholds an answer on a hit only.
                2 => format!("ma {key}{}\r\n", flags.replace(" N30", "")).into_bytes(),
                _ => [format!("ms {key} {}{flags}\r\n", data.len()).as_bytes(), &data, b"\r\n"].concat(),
            }
        }
        _ => format!("get {key}\r\n").into_bytes(),
    }
}

/// Without versions. Errors are alike whatever they say, and as many as there may be in a row. A
/// server reads the data of a refused command as commands.
fn memcached_normal(answer: &[u8]) -> Vec<u8> {
    let mut out: Vec<&[u8]> = Vec::new();
    for line in answer.split_inclusive(|b| *b == b'\n') {
        let line: &[u8] = match line {
            _ if line.starts_with(b"VERSION ") => b"VERSION\r\n",
            _ if line.starts_with(b"CLIENT_ERROR ") || line == b"ERROR\r\n" => b"an error\r\n",
            _ => line,
        };
        if out.last() != Some(&line) || line != b"an error\r\n" {
            out.push(line);
        }
    }
    out.concat()
}

fn memcached_beside(ours: &Memcached, meta: bool) {
    let real = Process::memcached();
    let (mut a, mut b) = (Client::connect(real.port), Client::connect(ours.port));
    let mut r = Rng::with_seed(number_of("SEED", 1));
    let end = b"MN\r\nNOT_FOUND\r\n";
    // Each server's data, key by key: how several are joined is told elsewhere.
    let held: String = KEYS.iter().map(|k| format!("get {k}\r\n")).collect();
    for _ in 0..commands() {
        let said: Vec<u8> = (0..[1, 1, 1, 2, 4][r.usize(..5)]).flat_map(|_| memcached_command(&mut r, meta)).collect();
        for step in [said.as_slice(), held.as_bytes()] {
            let step = [step, b"mn\r\nmn\r\nincr no-such-key 1\r\n"].concat();
            let (x, y) = (with_stamp(&step, &mut a), with_stamp(&step, &mut b));
            let (x, y) = (a.send(x).take_until(end), b.send(y).take_until(end));
            let (x, y) = (memcached_normal(&x), memcached_normal(&y));
            assert!(x == y, "{}\n after {}\n   real {}\n   ours {}", show(&step), show(&said), show(&x), show(&y));
        }
    }
}

#[test]
fn kv_server_beside_memcached() {
    if require_tool("memcached") {
        memcached_beside(&Memcached::kv(), false);
    }
}

#[test]
fn memcached_proxy_beside_memcached() {
    if require_tool("memcached") && !plain() {
        memcached_beside(&Memcached::proxy(2, &[]), true);
    }
}

// ---- memcached, binary ----

/// The binary protocol has keys of any bytes.
const BINARY_KEYS: &[&str] = &["a", "b", "c", "n", "x:1", "é", "0", " ", "a b", "\r\n", "\0", "\x7f"];

/// The `cas` of a request. Each server has given stamps of its own.
enum Cas {
    Any,
    Wrong,
    /// The stamp that the last answer about the key had.
    Seen,
}

fn expiry(r: &mut Rng) -> u32 {
    let usual = [0, 100, 1000];
    // Unix times long ago and far ahead, -1, and the least time that is one.
    let odd = [1, 2_592_001, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];
    // An entry of one second may end between the two servers' answers.
    if r.u8(..10) < 8 {
        usual[r.usize(..3)]
    } else {
        odd[1 + r.usize(..5)]
    }
}

const QUIET: &[u8] = &[
    op::GETQ,
    op::GETKQ,
    op::GATQ,
    op::GATKQ,
    op::SETQ,
    op::ADDQ,
    op::REPLACEQ,
    op::APPENDQ,
    op::PREPENDQ,
    op::DELETEQ,
    op::INCREMENTQ,
    op::DECREMENTQ,
];

/// The commands that are sent: all that memcached knows, those of `memcached_proxy`, which does not
/// pass on `flush`, and the loud ones.
#[derive(Clone, Copy, PartialEq)]
enum Set {
    All,
    NoFlush,
    Loud,
}

fn binary_command(r: &mut Rng, set: Set) -> (Packet, Cas) {
    loop {
        let (packet, cas) = any_binary_command(r);
        let loud = packet.opcode < 0x50 && !QUIET.contains(&packet.opcode);
        let flush = [op::FLUSH, op::FLUSHQ].contains(&packet.opcode);
        if set == Set::All || !flush && (set == Set::NoFlush || loud) {
            return (packet, cas);
        }
    }
}

/// A request that a server answers without ending the connection.
fn any_binary_command(r: &mut Rng) -> (Packet, Cas) {
    let key = BINARY_KEYS[r.usize(..BINARY_KEYS.len())];
    let cas = match r.u8(..10) {
        0 => Cas::Wrong,
        1 | 2 => Cas::Seen,
        _ => Cas::Any,
    };
    let of = |r: &mut Rng, list: &[u8]| list[r.usize(..list.len())];
    let packet = match r.u8(..20) {
        0..=5 => {
            let opcode = of(r, &[op::SET, op::SET, op::SETQ, op::ADD, op::ADDQ, op::REPLACE, op::REPLACEQ]);
            let flags = [0u32, 5, 0xffff_ffff][r.usize(..3)];
            let extras = [flags.to_be_bytes(), expiry(r).to_be_bytes()].concat();
            Packet { extras, ..Packet::store(opcode, key, &value(r)) }
        }
        6 | 7 => {
            let opcode = of(r, &[op::APPEND, op::APPENDQ, op::PREPEND, op::PREPENDQ]);
            Packet::join(opcode, key, &value(r))
        }
        8 | 9 => {
            // Numbers only grow, see `value`.
            let (opcode, by) = match r.bool() {
                true => (of(r, &[op::INCREMENT, op::INCREMENTQ]), [0, 1, 5, 100][r.usize(..4)]),
                false => (of(r, &[op::DECREMENT, op::DECREMENTQ]), 0),
            };
            let mut packet = Packet::change(opcode, key, by, [0, 1, 77][r.usize(..3)]);
            packet.extras[16..].copy_from_slice(&expiry(r).to_be_bytes());
            packet
        }
        10 => Packet::request(of(r, &[op::DELETE, op::DELETEQ]), key),
        11..=13 => Packet::request(of(r, &[op::GET, op::GETQ, op::GETK, op::GETKQ]), key),
        14 | 15 => Packet::touch(of(r, &[op::TOUCH, op::GAT, op::GATQ, op::GATK, op::GATKQ]), key, expiry(r)),
        16 => Packet::request(of(r, &[op::NOOP, op::VERSION]), ""),
        // Behind an unknown command with a body memcached drops as many bytes of the next one.
        17 => Packet::request(of(r, &[0x50, 0x7f, 0xff]), ""),
        18 => Packet::request(of(r, &[op::FLUSH, op::FLUSHQ]), ""),
        _ => Packet::request(op::GET, key),
    };
    let keyed = !packet.key.is_empty() && packet.opcode < 0x50;
    (packet, if keyed { cas } else { Cas::Any })
}

/// The bytes of requests for a server that has given these stamps.
fn with_cas(requests: &[(Packet, Cas)], seen: &HashMap<Vec<u8>, u64>) -> Vec<u8> {
    // Servers count their stamps from 1 on, or draw them below 2^48.
    const WRONG: u64 = 0x7777_7777_7777_7777;
    let cas = |p: &Packet, cas: &Cas| match cas {
        Cas::Any => 0,
        Cas::Wrong => WRONG,
        Cas::Seen => seen.get(&p.key).copied().unwrap_or(WRONG),
    };
    requests.iter().flat_map(|(p, c)| p.clone().cas(cas(p, c)).bytes()).collect()
}

/// All answers up to that to a noop of this number, as they are compared. Of a stamp whether there
/// is one, of a version nothing. Stamps are kept by the keys of their requests.
fn answers(c: &mut Client, requests: &[(Packet, Cas)], end: u32, seen: &mut HashMap<Vec<u8>, u64>) -> Vec<Packet> {
    let mut all = Vec::new();
    loop {
        let mut answer = Packet::take(c);
        if (answer.opcode, answer.opaque) == (op::NOOP, end) {
            return all;
        }
        if answer.cas != 0 {
            let request = requests.iter().find(|(p, _)| p.opaque == answer.opaque).expect("an answer to a request");
            seen.insert(request.0.key.clone(), answer.cas);
            answer.cas = 1;
        }
        if answer.opcode == op::VERSION {
            answer.value.clear();
        }
        all.push(answer);
    }
}

fn binary_beside(ours: &Memcached, set: Set) {
    let real = Process::memcached();
    let (mut a, mut b) = (Client::connect(real.port), Client::connect(ours.port));
    let (mut seen_a, mut seen_b) = (HashMap::new(), HashMap::new());
    let mut r = Rng::with_seed(number_of("SEED", 1));
    let mut opaque = 0;
    for _ in 0..commands() {
        let said: Vec<_> = (0..[1, 1, 1, 2, 4][r.usize(..5)]).map(|_| binary_command(&mut r, set)).collect();
        let held = BINARY_KEYS.iter().map(|k| (Packet::request(op::GETK, k), Cas::Any)).collect();
        for mut step in [said, held] {
            for (packet, _) in &mut step {
                opaque += 1;
                packet.opaque = opaque;
            }
            opaque += 1;
            let end = Packet::request(op::NOOP, "").opaque(opaque).bytes();
            a.send([with_cas(&step, &seen_a), end.clone()].concat());
            b.send([with_cas(&step, &seen_b), end].concat());
            let x = answers(&mut a, &step, opaque, &mut seen_a);
            let y = answers(&mut b, &step, opaque, &mut seen_b);
            let said: Vec<&Packet> = step.iter().map(|(p, _)| p).collect();
            assert!(x == y, "{said:?}\n   real {x:?}\n   ours {y:?}");
        }
    }
}

#[test]
fn kv_server_beside_memcached_binary() {
    if require_tool("memcached") {
        binary_beside(&Memcached::kv(), Set::All);
    }
}

#[test]
fn memcached_proxy_beside_memcached_binary() {
    if require_tool("memcached") && !plain() {
        binary_beside(&Memcached::proxy(2, &[]), Set::NoFlush);
    }
}

#[test]
fn memcached_proxy_brief_beside_memcached() {
    if require_tool("memcached") && !plain() {
        binary_beside(&Memcached::brief(2), Set::Loud);
    }
}

// ---- Redis ----

const NAMES: &[&str] = &["{t}a", "{t}b", "{t}n", "{t}l", "{t}s", "{t}z", "{t}h", "{t}", "{t}é\r\n"];

const COMMANDS: &[&str] = &[
    "GET K",
    "SET K V",
    "SET K V NX",
    "SET K V XX GET",
    "SET K V EX N",
    "SETNX K V",
    "GETSET K V",
    "GETDEL K",
    "APPEND K V",
    "STRLEN K",
    "GETRANGE K N N",
    "SETRANGE K N V",
    "INCR K",
    "DECR K",
    "INCRBY K N",
    "INCRBYFLOAT K N",
    "SETBIT K N 1",
    "GETBIT K N",
    "BITCOUNT K",
    "BITOP NOT K K",
    "DEL K",
    "DEL K K K",
    "UNLINK K",
    "EXISTS K K K",
    "TOUCH K K",
    "TYPE K",
    "EXPIRE K N",
    "PERSIST K",
    "TTL K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K REPLACE",
    "MGET K K K",
    "MSET K V K V",
    "MSETNX K V K V",
    "LPUSH K V V",
    "RPUSH K V",
    "LPOP K",
    "RPOP K N",
    "LLEN K",
    "LRANGE K N N",
    "LINDEX K N",
    "LSET K N V",
    "LINSERT K BEFORE V V",
    "LREM K N V",
    "LTRIM K N N",
    "LMOVE K K LEFT RIGHT",
    "RPOPLPUSH K K",
    "LPOS K V",
    "SADD K V V",
    "SREM K V",
    "SCARD K",
    "SISMEMBER K V",
    "SMISMEMBER K V V",
    "SINTERSTORE K K K",
    "SUNIONSTORE K K K",
    "SMOVE K K V",
    "SINTERCARD 2 K K",
    "SINTERCARD N K",
    "ZADD K N V",
    "ZADD K NX N V N V",
    "ZINCRBY K N V",
    "ZSCORE K V",
    "ZRANK K V",
    "ZCARD K",
    "ZRANGE K N N",
    "ZRANGE K N N WITHSCORES",
    "ZREM K V",
    "ZPOPMIN K",
    "ZCOUNT K N N",
    "ZUNIONSTORE K 2 K K",
    "ZUNIONSTORE K N K",
    "ZRANGESTORE K K N N",
    "HSET K V V V V",
    "HGET K V",
    "HDEL K V",
    "HLEN K",
    "HEXISTS K V",
    "HINCRBY K V N",
    "HMGET K V V",
    "HSETNX K V V",
    "HSTRLEN K V",
    "OBJECT ENCODING K",
    "EVAL S 1 K V",
    "PING V",
    "ECHO V",
    "PING",
    "ECHO",
    "GET",
    "GET K K",
    "SET K",
    "MSET K",
    "MGET",
    "DEL",
    "LPUSH K",
    "HSET K V",
    "ZADD K V V",
    "INCRBY K V",
    "XADD K 1-N V V",
    "XADD K 5-5 V",
    "XLEN K",
    "XRANGE K - +",
    "PFADD K V V",
    "PFCOUNT K K",
    "GETEX K EX N",
    "LCS K K",
    "SORT K ALPHA",
    "SORT K LIMIT N N",
    "SELECT 0",
    "get K",
    "gEt K",
    "LMPOP 2 K K LEFT",
    "ZMPOP 1 K MIN",
    "SPOP K 0",
];

fn redis_command(r: &mut Rng) -> Vec<u8> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    for word in pick(r, COMMANDS).split(' ') {
        words.push(match word {
            "K" => pick(r, NAMES).into(),
            "V" => match r.u8(..3) {
                0 => pick(r, &["1", "-5", "", "x", "1.5", "\r\n", "$3\r\nabc\r\n"]).into(),
                1 => (0..r.usize(..8)).map(|_| r.u8(..)).collect(),
                _ => vec![r.u8(b'a'..b'e')],
            },
            "N" => mostly(
                r,
                &["0", "1", "2", "10", "-1"],
                &["x", "", "9223372036854775807", "1.5", "-9223372036854775809"],
            )
            .into(),
            "S" => {
                pick(r, &["return ARGV[1]", "return redis.call('GET', KEYS[1])", "return {1,2,{'a'}}", "bad"]).into()
            }
            _ => word.into(),
        });
    }
    if r.u8(..30) == 0 {
        words.push(b"surplus".to_vec());
    }
    request(&words)
}

/// Errors of a class are alike; what it says more may be the proxy's.
fn redis_normal(answer: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in answer.split_inclusive(|b| *b == b'\n') {
        let class = line.split(|b| *b == b' ').next().unwrap_or(line);
        out.extend_from_slice(if line.starts_with(b"-") { class } else { line });
    }
    out
}

/// All keys have one hash tag, so one server of the proxy has them, as the real one has.
#[test]
fn redis_proxy_beside_redis() {
    if !require_tool("redis-server") || plain() {
        return;
    }
    let (real, ours) = (Process::redis(), Redis::proxy(2, &[]));
    let (mut a, mut b) = (Client::connect(real.port), Client::connect(ours.port));
    let mut r = Rng::with_seed(number_of("SEED", 1));
    let mut held = Vec::new();
    for name in NAMES {
        held.extend(request(&["TYPE", name]));
        held.extend(request(&["STRLEN", name]));
        held.extend(request(&["LRANGE", name, "0", "-1"]));
        held.extend(request(&["SCARD", name]));
        held.extend(request(&["ZRANGE", name, "0", "-1", "WITHSCORES"]));
        held.extend(request(&["HLEN", name]));
    }
    let end = b"$14\r\nthe step's end\r\n";
    for _ in 0..commands() {
        let said: Vec<u8> = (0..[1, 1, 1, 2, 8][r.usize(..5)]).flat_map(|_| redis_command(&mut r)).collect();
        for step in [&said, &held] {
            let step = [step.as_slice(), &request(&["ECHO", "the step's end"])].concat();
            let (x, y) = (a.send(&step).take_until(end), b.send(&step).take_until(end));
            let (x, y) = (redis_normal(&x), redis_normal(&y));
            assert!(x == y, "{}\n after {}\n   real {}\n   ours {}", show(&step), show(&said), show(&x), show(&y));
        }
    }
}
