//! Real Redis clients, at their newest versions and with their default settings, through
//! `redis_proxy`: redis-py, ioredis, node-redis, go-redis, lettuce and jedis. `scripts/clients.sh`
//! installs them into `target/clients`. Their programs are in `tests/clients/redis`.

use std::path::PathBuf;
use std::process::Command;
use wireloom_tests::redis::Service;
use wireloom_tests::{client_library, finish, plain, root, servers, tag, Process, Wireloom};

/// Runs a client against a proxy without passwords, and against one that needs a password and has
/// one for its servers.
fn both_ways(name: &str, good: usize, command: impl Fn() -> Command) {
    let run = |port: u16, password: &[&str]| {
        let mut c = command();
        c.env("WIRELOOM_PORT", port.to_string()).args([port.to_string(), tag()]).args(password);
        let out = finish(&mut c);
        let said = out.out.lines().filter(|l| l.starts_with("good")).count();
        assert!(out.code == Some(0) && said == good, "{name}: {:?}\n{}", out.code, out.text);
    };
    run(Service::proxy(3, &[]).port, &[]);
    if plain() {
        return;
    }
    let backends: Vec<Process> = (0..2).map(|_| Process::redis_with(&["--requirepass", "sesame"])).collect();
    let list = servers(&[backends[0].port, backends[1].port]);
    let proxy =
        Wireloom::run("redis_proxy", &["--set", &list, "--set", "password=sesame", "--set", "client_password=open"]);
    run(proxy.port, &["open"]);
}

fn source(name: &str) -> PathBuf {
    root().join("tests/clients/redis").join(name)
}

#[test]
fn redis_py() {
    let Some(folder) = client_library("redis/python", "python3") else { return };
    both_ways("redis-py", 1, || {
        let mut c = Command::new("python3");
        c.env("PYTHONPATH", &folder).arg(source("client.py"));
        c
    });
}

#[test]
fn ioredis_and_node_redis() {
    let Some(folder) = client_library("redis/node", "npm") else { return };
    both_ways("ioredis and node-redis", 2, || {
        let mut c = Command::new("node");
        c.env("WIRELOOM_MODULES", &folder).arg(source("node/client.mjs"));
        c
    });
}

#[test]
fn go_redis() {
    let Some(folder) = client_library("redis/go", "go") else { return };
    both_ways("go-redis", 1, || Command::new(folder.join("client")));
}

#[test]
fn lettuce_and_jedis() {
    let Some(folder) = client_library("redis/java", "mvn") else { return };
    both_ways("lettuce and jedis", 2, || {
        let mut c = Command::new("java");
        c.args(["-XX:TieredStopAtLevel=1", "-cp"]).arg(folder.join("lib/*")).arg(source("java/Clients.java"));
        c
    });
}
