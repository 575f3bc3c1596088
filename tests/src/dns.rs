//! DNS over UDP for tests: questions, answers, and a resolver that does as it is told.

use crate::PATIENCE;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;

/// A client's socket.
pub fn socket() -> UdpSocket {
    let s = UdpSocket::bind("127.0.0.1:0").expect("loopback has ports");
    s.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    s
}

/// Sends a datagram, and waits for one.
pub fn ask(client: &UdpSocket, port: u16, request: &[u8]) -> Option<Vec<u8>> {
    client.send_to(request, ("127.0.0.1", port)).expect("loopback takes datagrams");
    let mut bytes = [0; 65536];
    let (n, _) = client.recv_from(&mut bytes).ok()?;
    Some(bytes[..n].to_vec())
}

/// A question for an address.
pub fn question(id: u16, name: &str) -> Vec<u8> {
    let mut q = [&id.to_be_bytes()[..], b"\x01\0\0\x01\0\0\0\0\0\0"].concat();
    for label in name.split('.') {
        q.push(label.len() as u8);
        q.extend(label.as_bytes());
    }
    q.extend(b"\0\0\x01\0\x01");
    q
}

/// The answer to a question: one address.
pub fn answer(question: &[u8], ttl: u32, address: [u8; 4]) -> Vec<u8> {
    let mut a = [&question[..2], b"\x81\x80\0\x01\0\x01\0\0\0\0", &question[12..]].concat();
    a.extend(b"\xc0\x0c\0\x01\0\x01");
    a.extend(ttl.to_be_bytes());
    a.extend(b"\0\x04");
    a.extend(address);
    a
}

/// A resolver that does as `act` says with each question: the answers are sent to the asker.
pub struct Resolver {
    pub addr: SocketAddr,
    socket: UdpSocket,
    asked: Arc<AtomicU32>,
}

impl Resolver {
    pub fn new(mut act: impl FnMut(u32, &[u8]) -> Vec<Vec<u8>> + Send + 'static) -> Resolver {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has ports");
        let (own, addr) = (socket.try_clone().expect("descriptors"), socket.local_addr().expect("it is bound"));
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 65536];
            while let Ok((n, from)) = own.recv_from(&mut bytes) {
                if n == 0 {
                    return;
                }
                let asked = count.fetch_add(1, Relaxed) + 1;
                for a in act(asked, &bytes[..n]) {
                    own.send_to(&a, from).ok();
                }
            }
        });
        Resolver { addr, socket, asked }
    }

    /// How many questions it has had.
    pub fn asked(&self) -> u32 {
        self.asked.load(Relaxed)
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.socket.send_to(b"", self.addr).ok();
    }
}
