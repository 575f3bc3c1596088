//! What ports on sockets share: messages of many frames per system call, and checksums that the sender left to its hardware.

use super::port::BATCH;
use crate::engine::common::{self, RawAddr};
use std::os::fd::RawFd;

/// A socket whose queue is full is waited for this long, this often, before a frame is given up.
const WAIT_MS: i32 = 2;
const WAITS: u32 = 20;

/// Headers, slices and addresses of a batch.
pub struct Messages {
    pub headers: Vec<libc::mmsghdr>,
    slices: Vec<libc::iovec>,
    pub addrs: Vec<RawAddr>,
}

// SAFETY: the pointers are set anew before each use.
unsafe impl Send for Messages {}

impl Messages {
    pub fn new() -> Messages {
        // SAFETY: plain structs of numbers and null pointers.
        let (header, slice) = unsafe { std::mem::zeroed::<(libc::mmsghdr, libc::iovec)>() };
        Messages { headers: vec![header; BATCH], slices: vec![slice; BATCH], addrs: vec![RawAddr::empty(); BATCH] }
    }

    /// Ties header `i` to `n` bytes at `p`, and to its address if that has a length.
    pub fn set(&mut self, i: usize, p: *mut u8, n: usize, addr_len: libc::socklen_t) {
        self.slices[i] = libc::iovec { iov_base: p.cast(), iov_len: n };
        let h = &mut self.headers[i].msg_hdr;
        (h.msg_iov, h.msg_iovlen) = (&mut self.slices[i], 1);
        h.msg_name = if addr_len == 0 { std::ptr::null_mut() } else { self.addrs[i].as_mut_ptr().cast() };
        h.msg_namelen = addr_len;
    }

    /// Receives into the first `n`; how many came.
    ///
    /// # Safety
    /// They were `set` to memory that may be written.
    pub unsafe fn receive(&mut self, fd: RawFd, n: usize) -> usize {
        // SAFETY: by contract.
        let got = unsafe { libc::recvmmsg(fd, self.headers.as_mut_ptr(), n as u32, libc::MSG_DONTWAIT, std::ptr::null_mut()) };
        got.max(0) as usize
    }

    /// Sends the first `n`; how many went. One that cannot be sent (too long, say) does not hold up those behind it.
    ///
    /// # Safety
    /// They were `set` to valid memory.
    pub unsafe fn send(&mut self, fd: RawFd, n: usize) -> u32 {
        let (mut at, mut sent, mut waits) = (0, 0, 0);
        while at < n {
            // SAFETY: by contract.
            let k = unsafe { libc::sendmmsg(fd, self.headers[at..].as_mut_ptr(), (n - at) as u32, libc::MSG_DONTWAIT) };
            if k > 0 {
                at += k as usize;
                sent += k as u32;
                continue;
            }
            match common::errno() {
                libc::EAGAIN | libc::ENOBUFS if waits < WAITS => {
                    waits += 1;
                    let mut p = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
                    // SAFETY: one pollfd that lives here.
                    if unsafe { libc::poll(&mut p, 1, WAIT_MS) } > 0 {
                        std::thread::yield_now(); // the device, not the socket, is full
                    }
                }
                libc::EAGAIN | libc::ENOBUFS | libc::ENETDOWN => break,
                libc::EINTR => {}
                _ => at += 1,
            }
        }
        sent
    }
}

/// Computes the TCP or UDP checksum of a frame whose sender has left that to its hardware.
pub fn complete_checksum(frame: &mut [u8]) {
    let word = |f: &[u8], at: usize| f.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    let (mut kind, mut ip) = (word(frame, 12), 14);
    while matches!(kind, 0x8100 | 0x88a8) && ip < 22 {
        kind = word(frame, ip + 2);
        ip += 4;
    }
    let (proto, addresses, at, end) = match kind {
        0x0800 if frame.len() >= ip + 20 => {
            let end = ip + usize::from(word(frame, ip + 2));
            (frame[ip + 9], ip + 12..ip + 20, ip + usize::from(frame[ip] & 15) * 4, end)
        }
        0x86dd if frame.len() >= ip + 40 => (frame[ip + 6], ip + 8..ip + 40, ip + 40, ip + 40 + usize::from(word(frame, ip + 4))),
        _ => return,
    };
    let field = match proto {
        6 => at + 16,
        17 => at + 6,
        _ => return,
    };
    if end > frame.len() || field + 2 > end {
        return;
    }
    frame[field..field + 2].fill(0);
    let length = (end - at) as u64;
    let mut sum = u64::from(proto) + length + ones(&frame[addresses]) + ones(&frame[at..end]);
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let sum = match !(sum as u16) {
        0 if proto == 17 => 0xffff,
        s => s,
    };
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The sum of the 16-bit words.
fn ones(b: &[u8]) -> u64 {
    let pairs = b.chunks_exact(2);
    let odd = pairs.remainder().first().map_or(0, |x| u64::from(*x) << 8);
    pairs.map(|p| u64::from(u16::from_be_bytes([p[0], p[1]]))).sum::<u64>() + odd
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_completed() {
        // UDP 10.0.0.1:1 to 10.0.0.2:2 with "abc".
        let mut f = vec![0u8; 12];
        f.extend([8, 0, 0x45, 0, 0, 31, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 2, 0, 11, 0x12, 0x34, b'a', b'b', b'c', 9, 9]);
        complete_checksum(&mut f);
        let sum = u16::from_be_bytes([f[40], f[41]]);
        let words = [0x0a00u32, 1, 0x0a00, 2, 17, 11, 1, 2, 11, 0x6162, 0x6300];
        let mut want: u32 = words.iter().sum();
        want = (want & 0xffff) + (want >> 16);
        assert_eq!(sum, !(want as u16));
        for cut in 0..f.len() {
            complete_checksum(&mut f[..cut].to_vec());
        }
    }
}
