//! Real memcached clients: libmemcached's tools and conformance test, and a Python client, through
//! `memcached_proxy` and at `kv_server`.

use std::path::Path;
use std::process::Command;
use wireloom_tests::memcached::Service;
use wireloom_tests::{finish, plain, require_tool};

fn tool(name: &str, port: u16, args: &[&str]) -> (Option<i32>, String) {
    let out = finish(Command::new(name).arg(format!("--servers=127.0.0.1:{port}")).args(args));
    (out.code, out.text)
}

fn tools(port: u16) {
    let folder = std::env::temp_dir();
    for (round, binary) in [&[][..], &["--binary"][..]].into_iter().enumerate() {
        let run = |name: &str, args: &[&str]| tool(name, port, &[binary, args].concat());
        for (size, key) in [(5, "small"), (100_000, "large")] {
            let key = format!("wltool-{}-{port}-{round}-{key}", std::process::id());
            let path = folder.join(&key);
            let text = "0123456789".repeat(size / 10 + 1);
            std::fs::write(&path, &text[..size]).expect("the temporary folder is writable");
            assert_eq!(
                run("memccp", &[path.to_str().expect("a plain name")]),
                (Some(0), String::new()),
                "memccp {binary:?}"
            );
            std::fs::remove_file(&path).ok();
            let (code, out) = run("memccat", &[&key]);
            assert!(
                code == Some(0) && out.trim_end() == &text[..size],
                "memccat {binary:?}: {code:?}, {} bytes",
                out.len()
            );
            assert_eq!(run("memcexist", &[&key]).0, Some(0), "memcexist {binary:?}");
            assert_eq!(run("memctouch", &["--expire=100", &key]).0, Some(0), "memctouch {binary:?}");
            assert_eq!(run("memcrm", &[&key]).0, Some(0), "memcrm {binary:?}");
            assert_ne!(run("memccat", &[&key]).0, Some(0), "memccat of a removed key {binary:?}");
            assert_ne!(run("memcexist", &[&key]).0, Some(0), "memcexist of a removed key {binary:?}");
        }
        // memcping fails over the binary protocol with every server.
        if binary.is_empty() {
            assert_eq!(run("memcping", &[]).0, Some(0), "memcping");
        }
        for test in ["set", "get", "mget"] {
            let (code, out) = run(
                "memcslap",
                &["--concurrency=4", "--execute-number=500", "--initial-load=500", &format!("--test={test}")],
            );
            assert!(code == Some(0) && !out.to_lowercase().contains("fail"), "memcslap {test} {binary:?}: {out}");
        }
    }
}

/// memccapable's tests, except `ascii quit`, which fails alone against memcached itself. Tests that
/// flush are left out, too: a proxy refuses a flush, since it concerns all servers.
fn capable(port: u16, flush: bool) {
    let names = "ascii version,ascii verbosity,ascii set,ascii set noreply,ascii get,ascii gets,ascii mget,ascii add,\
        ascii add noreply,ascii replace,ascii replace noreply,ascii cas,ascii cas noreply,ascii delete,ascii delete noreply,ascii incr,\
        ascii incr noreply,ascii decr,ascii decr noreply,ascii append,ascii append noreply,ascii prepend,ascii prepend noreply,ascii stat,\
        binary noop,binary quit,binary quitq,binary set,binary setq,binary add,binary addq,binary replace,binary replaceq,binary delete,\
        binary deleteq,binary get,binary getq,binary getk,binary getkq,binary incr,binary incrq,binary decr,binary decrq,binary version,\
        binary append,binary appendq,binary prepend,binary prependq,binary stat";
    let flushing = if flush { ",ascii flush,ascii flush noreply,binary flush,binary flushq" } else { "" };
    let mut failed = Vec::new();
    for name in format!("{names}{flushing}").split(',').map(str::trim) {
        let out = finish(Command::new("memccapable").args([
            "-h",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-t",
            "3",
            "-T",
            name,
        ]));
        if !out.text.contains("[pass]") || out.text.contains("[FAIL]") {
            failed.push(format!("{name}: {}", out.text.trim()));
        }
    }
    assert!(failed.is_empty(), "memccapable:\n{}", failed.join("\n"));
}

const PYMEMCACHE: &str = r#"
import sys
from pymemcache.client.base import Client
c = Client(("127.0.0.1", int(sys.argv[1])), connect_timeout=60, timeout=60, default_noreply=False)
t = sys.argv[2]
assert c.set(t + "a", b"1") and c.get(t + "a") == b"1"
assert c.add(t + "a", b"2") is False and c.replace(t + "a", b"5") and c.append(t + "a", b"0")
assert c.incr(t + "a", 7) == 57 and c.decr(t + "a", 7) == 50 and c.incr(t + "none", 1) is None
value, stamp = c.gets(t + "a")
assert c.cas(t + "a", b"x", stamp) is True and c.cas(t + "a", b"y", stamp) is False and c.cas(t + "none", b"y", stamp) is None
items = {t + "m%d" % i: b"v%d" % i for i in range(100)}
assert c.set_many(items) == []
assert c.get_many(list(items) + [t + "none"]) == items
assert len(c.gets_many(list(items))) == 100
assert c.touch(t + "a", 100)
c.set(t + "n", b"big" * 200000, noreply=True)
assert c.get(t + "n") == b"big" * 200000
assert c.delete(t + "a") is True and c.delete(t + "a") is False and c.delete_many(list(items))
assert c.get_many(list(items)) == {}
assert c.version()
c.quit()
print("good")
"#;

/// A Python with pymemcache, if there is one: the one in the PATH, or Debian's own, for which there
/// is a package.
fn python_with_pymemcache() -> Option<&'static str> {
    let found = ["python3", "/usr/bin/python3"].into_iter().find(|p| {
        (!p.starts_with('/') || Path::new(p).exists())
            && finish(Command::new(p).args(["-c", "import pymemcache"])).code == Some(0)
    });
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "python3-pymemcache is not installed; scripts/setup.sh test installs it"
        );
        eprintln!("SKIPPED: pymemcache is not installed");
    }
    found
}

fn pymemcache(port: u16) {
    let Some(python) = python_with_pymemcache() else { return };
    let out = finish(Command::new(python).args(["-c", PYMEMCACHE, &port.to_string(), &wireloom_tests::tag()]));
    assert!(out.code == Some(0) && out.out.trim() == "good", "{}", out.text);
}

#[test]
fn libmemcached_tools_through_the_proxy() {
    if require_tool("memccat") {
        tools(Service::proxy(3, &[]).port);
    }
}

#[test]
fn libmemcached_tools_at_the_server() {
    if require_tool("memccat") {
        tools(Service::kv().port);
    }
}

#[test]
fn memccapable_through_the_proxy() {
    if require_tool("memccapable") {
        capable(Service::proxy(2, &[]).port, plain());
    }
}

#[test]
fn memccapable_at_the_server() {
    if require_tool("memccapable") {
        capable(Service::kv().port, plain());
    }
}

#[test]
fn pymemcache_through_the_proxy() {
    pymemcache(Service::proxy(3, &[]).port);
}

#[test]
fn pymemcache_at_the_server() {
    pymemcache(Service::kv().port);
}
