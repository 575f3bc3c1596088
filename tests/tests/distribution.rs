//! Where keys go: `ketama` and `modula` agree with twemproxy and libmemcached, `maglev` is even and
//! moves little.

use std::collections::HashMap;
use std::process::Command;
use wireloom_tests::memcached::Service;
use wireloom_tests::{free_port, require_tool};
use wireloom_tests::{servers, Client, Process, Wireloom};

/// Asks libmemcached itself for the server of each key. Arguments: keys, behaviours as
/// `number=value,…`, and servers. It says `unknown` if it was built without one of them.
const LIBMEMCACHED: &str = r#"
import ctypes, sys
lib = ctypes.CDLL("libmemcached.so.11")
lib.memcached.restype = ctypes.c_void_p
lib.memcached_generate_hash.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
lib.memcached_behavior_set.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64]
lib.memcached_server_add.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint16]
m = lib.memcached(None, 0)
for number, value in (b.split("=") for b in sys.argv[2].split(",")):
    if lib.memcached_behavior_set(m, int(number), int(value)) != 0:
        sys.exit(print("unknown"))
for server in sys.argv[3:]:
    host, port = server.rsplit(":", 1)
    assert lib.memcached_server_add(m, host.encode(), int(port)) == 0
print(*[lib.memcached_generate_hash(m, b"key%d" % i, len(b"key%d" % i)) for i in range(int(sys.argv[1]))])
"#;

/// `memcached_behavior_t` of libmemcached.
const HASH: u32 = 2;
const KETAMA: u32 = 3;
const DISTRIBUTION: u32 = 9;
const KETAMA_WEIGHTED: u32 = 16;
const CONSISTENT: u32 = 1;

/// Where libmemcached puts `key0` to `key<n-1>`. None: it is not installed (loudly), or was built
/// without such a behaviour.
fn theirs(behaviours: &[(u32, u32)], servers: &[String], n: usize) -> Option<Vec<usize>> {
    let behaviours: Vec<String> = behaviours.iter().map(|(a, b)| format!("{a}={b}")).collect();
    let mut command = Command::new("python3");
    command.args(["-c", LIBMEMCACHED, &n.to_string(), &behaviours.join(",")]).args(servers);
    let out = command.output().expect("python3 runs");
    if !out.status.success() {
        assert!(std::env::var_os("CI").is_none(), "{}", String::from_utf8_lossy(&out.stderr));
        eprintln!("SKIPPED: libmemcached.so.11 is not installed (libmemcached-tools brings it)");
        return None;
    }
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    if text.trim() == "unknown" {
        return None;
    }
    Some(text.split_whitespace().map(|w| w.parse().expect("a number")).collect())
}

/// Which backend holds each of `key0` to `key<n-1>`, after all were set through the proxy.
fn owners(proxy: u16, backends: &[u16], n: usize) -> Vec<usize> {
    let mut proxy = Client::connect(proxy);
    for i in 0..n {
        proxy.send(format!("set key{i} 0 0 1\r\nx\r\n"));
    }
    proxy.expect("STORED\r\n".repeat(n));
    let mut held = HashMap::new();
    for (b, backend) in backends.iter().enumerate() {
        let mut direct = Client::connect(*backend);
        for i in 0..n {
            direct.send(format!("mg key{i}\r\n"));
        }
        for i in 0..n {
            if direct.take_line() == "HD" {
                assert!(held.insert(i, b).is_none(), "key{i} is on two servers");
            }
        }
    }
    (0..n).map(|i| *held.get(&i).unwrap_or_else(|| panic!("key{i} is on no server"))).collect()
}

fn listed(service: &Service) -> Vec<String> {
    service.backends.iter().map(|b| format!("127.0.0.1:{}", b.port)).collect()
}

#[test]
fn ketama_agrees_with_libmemcached() {
    let service = Service::proxy(3, &["--set", "distribution=ketama"]);
    if service.backends.is_empty() {
        return;
    }
    let n = 10_000;
    let Some(theirs) = theirs(&[(KETAMA_WEIGHTED, 1)], &listed(&service), n) else { return };
    let ours = owners(service.port, &service.ports(), n);
    let differ = ours.iter().zip(&theirs).filter(|(a, b)| a != b).count();
    assert_eq!(differ, 0, "{differ} of {n} keys lie elsewhere");
}

/// libmemcached's hashes (`memcached_hash_t`), by our names.
const THEIR_HASHES: [(&str, u32); 9] = [
    ("one_at_a_time", 0),
    ("md5", 1),
    ("crc32", 2),
    ("fnv1_64", 3),
    ("fnv1a_64", 4),
    ("fnv1_32", 5),
    ("fnv1a_32", 6),
    ("murmur", 8),
    ("jenkins", 9),
];

/// The ring without weights, with each of libmemcached's hashes.
#[test]
fn consistent_agrees_with_libmemcached() {
    let backends: Vec<Process> = match require_tool("memcached") {
        true => (0..4).map(|_| Process::memcached()).collect(),
        false => return,
    };
    let ports: Vec<u16> = backends.iter().map(|b| b.port).collect();
    let list: Vec<String> = ports.iter().map(|p| format!("127.0.0.1:{p}")).collect();
    let n = 2_000;
    let mut compared = 0;
    for (name, number) in THEIR_HASHES {
        let Some(theirs) = theirs(&[(DISTRIBUTION, CONSISTENT), (HASH, number)], &list, n) else { continue };
        let hash = format!("hash={name}");
        let set = ["--set", &servers(&ports), "--set", "distribution=consistent", "--set", &hash];
        let ours = owners(Wireloom::run("memcached_proxy", &set).port, &ports, n);
        let differ = ours.iter().zip(&theirs).filter(|(a, b)| a != b).count();
        assert_eq!(differ, 0, "{name}: {differ} of {n} keys lie elsewhere");
        for b in &backends {
            Client::connect(b.port).send("flush_all\r\n").expect("OK\r\n");
        }
        compared += 1;
    }
    assert!(compared >= 7 || std::env::var_os("CI").is_none(), "{compared} hashes are known to libmemcached");
    // `ketama` of libmemcached's clients is this ring, by the hash that they set.
    let Some(theirs) = theirs(&[(KETAMA, 1), (HASH, 1)], &list, n) else { return };
    let proxy = Wireloom::run("memcached_proxy", &["--set", &servers(&ports), "--set", "distribution=consistent"]);
    assert!(owners(proxy.port, &ports, n) == theirs, "keys lie elsewhere");
}

/// The hashes that twemproxy has, and how many keys are placed by each.
const HASHES: [(&str, usize); 12] = [
    ("fnv1a_64", 10_000),
    ("md5", 10_000),
    ("fnv1_64", 1000),
    ("fnv1a_32", 1000),
    ("fnv1_32", 1000),
    ("murmur", 1000),
    ("crc16", 1000),
    ("crc32", 1000),
    ("crc32a", 1000),
    ("one_at_a_time", 1000),
    ("jenkins", 1000),
    ("hsieh", 1000),
];

/// Keys of all kinds: of every length up to 40 bytes, with and without tags, some with bytes above
/// 0x7f.
fn keys(n: usize) -> Vec<Vec<u8>> {
    let pad = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let key = |i: usize| {
        [
            format!("k{i}:").as_bytes(),
            &pad[..i % 36],
            if i.is_multiple_of(5) { &b"{tag}x"[..] } else { b"" },
            if i.is_multiple_of(7) { "\u{e9}".as_bytes() } else { b"" },
        ]
        .concat()
    };
    (0..n).map(key).collect()
}

/// Values stored through twemproxy are found through ours, with every distribution and hash. So a
/// farm moves over without losing its data.
#[test]
fn keys_lie_where_twemproxy_puts_them() {
    if !require_tool("nutcracker") {
        return;
    }
    let backends: Vec<Process> = (0..3).map(|_| Process::memcached()).collect();
    let list: Vec<String> =
        backends.iter().zip(["1", "2 second", "3"]).map(|(b, more)| format!("127.0.0.1:{}:{more}", b.port)).collect();
    let folder = wireloom_tests::folder::Folder::new("twemproxy");
    for distribution in ["ketama", "modula"] {
        for (hash, n) in HASHES {
            let (port, stats) = (free_port(), free_port());
            let config = folder.file("nutcracker.yml");
            let lines: String = list.iter().map(|s| format!("   - {s}\n")).collect();
            std::fs::write(&config, format!("farm:\n  listen: 127.0.0.1:{port}\n  hash: {hash}\n  hash_tag: \"{{}}\"\n  distribution: {distribution}\n  servers:\n{lines}")).expect("a file");
            let theirs = Process::start(
                "nutcracker",
                Command::new("nutcracker").arg("-c").arg(&config).args(["-s", &stats.to_string(), "-a", "127.0.0.1"]),
                port,
            );
            let keys = keys(n);
            let mut c = Client::connect(theirs.port);
            for part in keys.chunks(500) {
                let say: Vec<u8> = part.iter().flat_map(|k| [&b"set "[..], k, b" 0 0 1\r\nx\r\n"].concat()).collect();
                c.send(say).expect("STORED\r\n".repeat(part.len()));
            }
            drop(theirs);
            let set = format!("servers={}", list.join(","));
            let (by, with) = (format!("distribution={distribution}"), format!("hash={hash}"));
            let ours = Wireloom::run(
                "memcached_proxy",
                &["--set", &set, "--set", &by, "--set", &with, "--set", "hash_tag={}"],
            );
            let mut c = Client::connect(ours.port);
            for part in keys.chunks(500) {
                c.send([&b"get "[..], &part.join(&b' '), b"\r\n"].concat());
                let answer = c.take_until(b"END\r\n");
                let found = answer.windows(6).filter(|w| w == b"VALUE ").count();
                assert_eq!(found, part.len(), "{distribution} by {hash}: keys lie elsewhere");
            }
            for b in &backends {
                Client::connect(b.port).send("flush_all\r\n").expect("OK\r\n");
            }
        }
    }
}

#[test]
fn maglev_is_even_and_moves_little() {
    let service = Service::proxy(3, &["--set", "distribution=maglev"]);
    if service.backends.is_empty() {
        return;
    }
    let n = 1500;
    let three = owners(service.port, &service.ports(), n);
    for b in 0..3 {
        let share = three.iter().filter(|o| **o == b).count();
        // An even share is 500; chance alone gives a deviation of 18.
        assert!((400..600).contains(&share), "server {b} holds {share} of {n}");
    }
    // The same without the third server: keys of the others hardly move.
    let ports = &service.ports()[..2];
    let fewer = Wireloom::run("memcached_proxy", &["--set", &servers(ports), "--set", "distribution=maglev"]);
    for port in ports {
        Client::connect(*port).send("flush_all\r\n").expect("OK\r\n");
    }
    let two = owners(fewer.port, ports, n);
    let moved = three.iter().zip(&two).filter(|(a, b)| **a != 2 && a != b).count();
    assert!(moved < n / 10, "{moved} of {n} keys moved that need not");
}
