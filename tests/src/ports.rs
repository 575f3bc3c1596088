//! Ports for the servers of tests. In: nothing. Out: a port of loopback that no other test has.
//!
//! A look at a port by binding it would not do. A child that another thread starts has a copy of
//! the socket between `fork` and `exec`, and a server would find its port taken. So test binaries
//! share out blocks of ports, and the kernel's tables say which ports are in use.

use std::collections::HashSet;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{LazyLock, Mutex};

/// Below the kernel's ephemeral range, so outgoing connections have none of them.
const FIRST: u16 = 10_000;
const BLOCK: u16 = 64;
const BLOCKS: u16 = (32_768 - FIRST) / BLOCK;

/// Blocks of ports that nobody else has while this lives.
#[derive(Default)]
pub struct Ports {
    blocks: Vec<UnixListener>,
    /// The ports of the last block that are still to be handed out.
    left: std::ops::Range<u16>,
}

static PORTS: LazyLock<Mutex<Ports>> = LazyLock::new(Mutex::default);

/// A port that is this process's alone, and free. No port is handed out twice before the machine's
/// blocks are used up.
pub fn free_port() -> u16 {
    PORTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).free_port()
}

impl Ports {
    /// The next port that is not in use.
    pub fn free_port(&mut self) -> u16 {
        loop {
            let used = ports_in_use();
            for port in self.left.by_ref() {
                if !used.contains(&port) {
                    return port;
                }
            }
            self.take_block();
        }
    }

    /// Takes a block that nobody has. A name of the abstract kind is free again once its process
    /// has ended, however that was.
    fn take_block(&mut self) {
        let begin = std::process::id() as u16 % BLOCKS;
        for block in (0..BLOCKS).map(|n| (begin + n) % BLOCKS) {
            let name = SocketAddr::from_abstract_name(format!("wireloom-test-ports-{block}")).expect("a short name");
            if let Ok(socket) = UnixListener::bind_addr(&name) {
                self.blocks.push(socket);
                self.left = FIRST + block * BLOCK..FIRST + (block + 1) * BLOCK;
                return;
            }
        }
        assert!(!self.blocks.is_empty(), "other test binaries have all ports");
        // The machine's blocks are used up, so it begins its own anew.
        self.blocks.clear();
    }
}

/// The local ports of all sockets of this thread's network namespace, for TCP and UDP.
fn ports_in_use() -> HashSet<u16> {
    let tables = ["tcp", "tcp6", "udp", "udp6"];
    let lines = tables.map(|t| std::fs::read_to_string(format!("/proc/thread-self/net/{t}")).unwrap_or_default());
    lines.iter().flat_map(|text| text.lines().skip(1)).filter_map(local_port).collect()
}

/// The port in `  0: 0100007F:1F90 00000000:0000 0A …` (proc(5), `/proc/net/tcp`).
fn local_port(line: &str) -> Option<u16> {
    let (_, port) = line.split_whitespace().nth(1)?.rsplit_once(':')?;
    u16::from_str_radix(port, 16).ok()
}
