//! The common part of the memcached tests: fixtures, dialogues and packets of both protocols. A
//! fixture is a proxy before real servers, our own server, or a plain memcached to check the
//! expectations.

pub mod binary;
pub mod binary_checks;
pub mod text;

use crate::{plain, servers, Process, Wireloom};

/// A memcached service under test, with the servers behind it.
pub struct Service {
    pub port: u16,
    /// The proxy or the server itself.
    pub front: Process,
    pub backends: Vec<Process>,
}

impl Service {
    /// `memcached_proxy` before n real servers; a plain memcached with `PLAIN=1`.
    pub fn proxy(n: usize, extra: &[&str]) -> Service {
        if plain() {
            let front = Process::memcached();
            return Service { port: front.port, front, backends: Vec::new() };
        }
        Service::before("memcached_proxy", n, extra)
    }

    /// `memcached_proxy_brief` before n real servers.
    pub fn brief(n: usize) -> Service {
        Service::before("memcached_proxy_brief", n, &[])
    }

    fn before(app: &str, n: usize, extra: &[&str]) -> Service {
        let backends: Vec<Process> = (0..n).map(|_| Process::memcached()).collect();
        let ports: Vec<u16> = backends.iter().map(|b| b.port).collect();
        let list = servers(&ports);
        let mut args = vec!["--set", list.as_str()];
        args.extend(extra);
        let front = Wireloom::run(app, &args);
        Service { port: front.port, front, backends }
    }

    pub fn ports(&self) -> Vec<u16> {
        self.backends.iter().map(|b| b.port).collect()
    }

    /// `kv_server`; a plain memcached with `PLAIN=1`.
    pub fn kv() -> Service {
        let front = Wireloom::run("kv_server", &[]);
        Service { port: front.port, front, backends: Vec::new() }
    }
}

/// The server that owns a key by `distribution=modulo`: FNV-1a, 64 bits, modulo the number of
/// servers.
pub fn modulo_owner(key: &[u8], servers: usize) -> usize {
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    (hash % servers as u64) as usize
}

/// `prefix0`, `prefix1`, …: the first key that belongs to this server.
pub fn key_of(server: usize, servers: usize, prefix: &str) -> String {
    (0..)
        .map(|i| format!("{prefix}{i}"))
        .find(|k| modulo_owner(k.as_bytes(), servers) == server)
        .expect("a key is found")
}
