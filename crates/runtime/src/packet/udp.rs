//! UDP sockets as message ports: a frame is a datagram's payload.
//!
//! A port that is read listens on its address. Its answers go back to the sender of the frame; a
//! new frame goes to the last sender. A port that is only written sends to its address.

use super::batch::{Batch, Buf, BATCH};
use super::pool::Pool;
use super::port::{FramePort, Sent};
use super::socket::Messages;
use crate::abi::{wl_frame, WL_TAILROOM};
use crate::engine::common::RawAddr;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

const READ: usize = 2048;

pub struct Udp {
    socket: UdpSocket,
    /// None: a port that is read.
    to: Option<RawAddr>,
    last: Option<RawAddr>,
    /// Port and instance: frames that came from here have their sender in their buffer's note.
    me: (u16, u16),
    messages: Messages,
    taken: Vec<(Buf, wl_frame)>,
}

// SAFETY: the frames in `taken` are used within one call only.
unsafe impl Send for Udp {}

impl Udp {
    pub fn open(name: &str, receives: bool, me: (u16, u16)) -> Result<Udp, String> {
        let bad = |e: &dyn std::fmt::Display| format!("`{name}`: {e}; expected ADDRESS:PORT, as in 127.0.0.1:4739");
        let mut found = name.to_socket_addrs().map_err(|e| bad(&e))?;
        let address = found.next().ok_or_else(|| bad(&"has no address"))?;
        let any: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
        let local = if receives { address } else { any };
        let socket = UdpSocket::bind(local).map_err(|e| format!("cannot open a UDP socket on {local}: {e}"))?;
        socket.set_nonblocking(true).map_err(|e| e.to_string())?;
        let to = (!receives).then(|| RawAddr::of(address));
        Ok(Udp {
            socket,
            to,
            last: None,
            me,
            messages: Messages::new(format!("udp:{name}")),
            taken: Vec::with_capacity(BATCH),
        })
    }

    fn remember(&mut self, pool: &mut Pool, buf: Buf, i: usize) {
        let Some(addr) = self.messages.addrs[i].get() else { return };
        self.last = Some(RawAddr::of(addr));
        if let Some(note) = pool.note(buf) {
            note[..28].copy_from_slice(&pack(addr));
        }
    }

    fn peer(&self, pool: &mut Pool, buf: Buf, f: &wl_frame) -> Option<RawAddr> {
        if self.to.is_some() {
            return self.to;
        }
        let note = pool.note(buf).filter(|_| (f.port, f.instance) == self.me);
        note.map_or(self.last, |n| Some(RawAddr::of(unpack(&n[..28]))))
    }
}

/// An address in 28 bytes: family, port, address, scope.
fn pack(a: SocketAddr) -> [u8; 28] {
    let mut out = [0; 28];
    out[0] = u8::from(a.is_ipv6());
    out[2..4].copy_from_slice(&a.port().to_be_bytes());
    match a {
        SocketAddr::V4(a) => out[4..8].copy_from_slice(&a.ip().octets()),
        SocketAddr::V6(a) => {
            out[4..20].copy_from_slice(&a.ip().octets());
            out[20..24].copy_from_slice(&a.scope_id().to_be_bytes());
        }
    }
    out
}

fn unpack(b: &[u8]) -> SocketAddr {
    let port = u16::from_be_bytes([b[2], b[3]]);
    if b[0] == 0 {
        return SocketAddr::from(([b[4], b[5], b[6], b[7]], port));
    }
    let mut ip = [0; 16];
    ip.copy_from_slice(&b[4..20]);
    let scope = u32::from_be_bytes([b[20], b[21], b[22], b[23]]);
    std::net::SocketAddrV6::new(ip.into(), port, 0, scope).into()
}

impl FramePort for Udp {
    fn receive(&mut self, pool: &mut Pool, into: &mut Batch, _: u64) -> io::Result<()> {
        self.taken.clear();
        for i in 0..into.room() {
            let Some((buf, f)) = pool.take(READ) else { break };
            self.taken.push((buf, f));
            let size = std::mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            // Some of the room behind the frame is used, too: few datagrams are longer.
            self.messages.set(i, f.p, (f.n + f.tail - WL_TAILROOM) as usize, size);
        }
        // SAFETY: set just above to room in buffers that are ours.
        let n = unsafe { self.messages.receive(self.socket.as_raw_fd(), self.taken.len()) };
        for i in 0..self.taken.len() {
            let (buf, mut f) = self.taken[i];
            if i >= n {
                pool.put(buf);
                continue;
            }
            let h = self.messages.headers[i];
            self.messages.addrs[i].len = h.msg_hdr.msg_namelen;
            f.tail = f.tail + f.n - h.msg_len;
            let cut = h.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            (f.n, f.wire) = (h.msg_len, h.msg_len + u32::from(cut));
            self.remember(pool, buf, i);
            into.push(buf, f);
        }
        Ok(())
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> Sent {
        let mut count = 0;
        for (f, buf) in batch.frames.iter().zip(&batch.bufs).take(BATCH) {
            let Some(to) = self.peer(pool, *buf, f) else { continue };
            self.messages.addrs[count] = to;
            self.messages.set(count, f.p, f.n as usize, to.len);
            count += 1;
        }
        // SAFETY: set just above to frames that are ours until they are released.
        let sent = unsafe { self.messages.send(self.socket.as_raw_fd(), count) };
        batch.release(pool);
        sent
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }

    fn ended(&self) -> bool {
        self.to.is_some()
    }
}
