//! Shared parts of ports on sockets: messages of many frames per system call.

use super::batch::BATCH;
use super::offload::HEADER;
use super::port::Sent;
use super::send_errors::SendErrors;
use crate::engine::common::{self, RawAddr};
use std::os::fd::RawFd;

/// A socket whose queue is full is waited for this long, this often, before a frame is given up.
const WAIT_MS: i32 = 2;
const WAITS: u32 = 20;

/// Headers, slices and addresses of a batch.
pub struct Messages {
    pub headers: Vec<libc::mmsghdr>,
    /// Two for each: a header, if there are some, and the frame.
    slices: Vec<[libc::iovec; 2]>,
    before: Vec<[u8; HEADER]>,
    pub addrs: Vec<RawAddr>,
    /// The port's target, as it is bound.
    name: String,
    errors: SendErrors,
}

// SAFETY: the pointers are set anew before each use.
unsafe impl Send for Messages {}

impl Messages {
    pub fn new(name: String) -> Messages {
        // SAFETY: plain structs of numbers and null pointers.
        let (header, slice) = unsafe { std::mem::zeroed::<(libc::mmsghdr, libc::iovec)>() };
        Messages {
            headers: vec![header; BATCH],
            slices: vec![[slice; 2]; BATCH],
            before: vec![[0; HEADER]; BATCH],
            addrs: vec![RawAddr::empty(); BATCH],
            name,
            errors: SendErrors::default(),
        }
    }

    /// Ties header `i` to `n` bytes at `p`, and to its address if that has a length.
    pub fn set(&mut self, i: usize, p: *mut u8, n: usize, addr_len: libc::socklen_t) {
        self.slices[i][1] = libc::iovec { iov_base: p.cast(), iov_len: n };
        let h = &mut self.headers[i].msg_hdr;
        (h.msg_iov, h.msg_iovlen) = (&mut self.slices[i][1], 1);
        h.msg_name = if addr_len == 0 { std::ptr::null_mut() } else { self.addrs[i].as_mut_ptr().cast() };
        h.msg_namelen = addr_len;
    }

    /// Puts a header in front of message `i`, which was set.
    pub fn set_header(&mut self, i: usize, header: [u8; HEADER]) {
        self.before[i] = header;
        self.slices[i][0] = libc::iovec { iov_base: self.before[i].as_mut_ptr().cast(), iov_len: HEADER };
        let h = &mut self.headers[i].msg_hdr;
        (h.msg_iov, h.msg_iovlen) = (self.slices[i].as_mut_ptr(), 2);
    }

    /// Receives into the first `n`; how many came.
    ///
    /// # Safety
    /// They were `set` to memory that may be written.
    pub unsafe fn receive(&mut self, fd: RawFd, n: usize) -> usize {
        // SAFETY: by contract.
        let got = unsafe {
            libc::recvmmsg(fd, self.headers.as_mut_ptr(), n as u32, libc::MSG_DONTWAIT, std::ptr::null_mut())
        };
        got.max(0) as usize
    }

    /// Sends the first `n` and returns the number sent. A frame that cannot be sent (too long, say)
    /// does not hold up the frames behind it.
    ///
    /// # Safety
    /// They were `set` to valid memory.
    pub unsafe fn send(&mut self, fd: RawFd, n: usize) -> Sent {
        let (mut at, mut sent, mut waits) = (0, Sent::default(), 0);
        while at < n {
            // SAFETY: by contract.
            let k = unsafe { libc::sendmmsg(fd, self.headers[at..].as_mut_ptr(), (n - at) as u32, libc::MSG_DONTWAIT) };
            if k > 0 {
                let gone = &self.headers[at..at + k as usize];
                sent.frames += gone.len() as u64;
                sent.bytes += gone
                    .iter()
                    .map(|h| u64::from(h.msg_len) - if h.msg_hdr.msg_iovlen == 2 { HEADER as u64 } else { 0 })
                    .sum::<u64>();
                at += gone.len();
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
                libc::EAGAIN | libc::ENOBUFS => break,
                libc::EINTR => {}
                errno => {
                    self.errors.tell(&self.name, errno);
                    if errno == libc::ENETDOWN {
                        break;
                    }
                    at += 1
                }
            }
        }
        sent
    }
}
