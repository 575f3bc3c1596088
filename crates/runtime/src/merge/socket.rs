//! Socket functions for merges: sockets are non-blocking, and one `poll` waits for everything that
//! a task needs.
//!
//! Connections are set to reset when they are closed, until `close_in_order` changes that. So a cut
//! stream never looks complete, even if the process ends.

use crate::engine::common;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Instant;

/// The result of a read or write.
pub enum Transferred {
    Bytes(usize),
    /// A read: the peer has ended its stream.
    End,
    Blocked,
    Broken(io::Error),
}

/// A listening socket of its own: a second service on the same port is an error, for each would get
/// some of the mappers.
pub fn listen(addr: SocketAddr) -> io::Result<OwnedFd> {
    if let Some(fd) = common::take_early(addr, libc::SOCK_NONBLOCK)? {
        return Ok(fd);
    }
    let fd = common::tcp_socket(addr, libc::SOCK_NONBLOCK)?;
    common::set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    let a = common::RawAddr::of(addr);
    // SAFETY: `a` is a valid address of the length given; the rest are plain system calls on our
    // own socket.
    unsafe {
        common::check(libc::bind(fd.as_raw_fd(), a.as_ptr(), a.len))?;
        common::check(libc::listen(fd.as_raw_fd(), 1024))?;
    }
    Ok(fd)
}

/// The next connection; None if none waits.
pub fn accept(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: a plain system call; the descriptor it returns has no other owner.
    let fd = unsafe { libc::accept4(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags) };
    if fd >= 0 {
        common::reset_on_close(fd);
        // SAFETY: as above.
        return Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) }));
    }
    let e = io::Error::last_os_error();
    match e.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted => Ok(None),
        _ => Err(e),
    }
}

/// Begins to connect; poll for writing, then ask `connected`.
pub fn connect(addr: SocketAddr) -> io::Result<OwnedFd> {
    let fd = common::tcp_socket(addr, libc::SOCK_NONBLOCK)?;
    common::set_option(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    common::reset_on_close(fd.as_raw_fd());
    let a = common::RawAddr::of(addr);
    // SAFETY: `a` is a valid address of the length given.
    match common::check(unsafe { libc::connect(fd.as_raw_fd(), a.as_ptr(), a.len) }) {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
        _ => Ok(fd),
    }
}

pub fn connected(fd: &OwnedFd, addr: SocketAddr) -> io::Result<()> {
    let (mut error, mut len) = (0i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the option's value is an int that lives during the call.
    common::check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            std::ptr::addr_of_mut!(error).cast(),
            &mut len,
        )
    })?;
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    if common::connected_to_itself(fd.as_raw_fd(), addr) {
        return Err(io::Error::from(ErrorKind::ConnectionRefused));
    }
    Ok(())
}

fn moved(n: isize, end: Transferred) -> Transferred {
    match n {
        1.. => Transferred::Bytes(n as usize),
        0 => end,
        _ => {
            let e = io::Error::last_os_error();
            if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) {
                Transferred::Blocked
            } else {
                Transferred::Broken(e)
            }
        }
    }
}

pub fn receive(fd: RawFd, room: &mut [u8], flags: i32) -> Transferred {
    // SAFETY: writes at most the length given into memory that lives during the call.
    moved(unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), flags | libc::MSG_DONTWAIT) }, Transferred::End)
}

pub fn send(fd: RawFd, bytes: &[u8]) -> Transferred {
    // SAFETY: reads at most the length given from memory that lives during the call.
    moved(
        unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) },
        Transferred::Blocked,
    )
}

/// Undoes what `accept` and `connect` set: closing ends the stream in order.
pub fn close_in_order(fd: RawFd) {
    let l = libc::linger { l_onoff: 0, l_linger: 0 };
    // SAFETY: the option's value is a `linger` that lives during the call. Failure leaves the
    // reset, which errs on the safe side.
    unsafe {
        let size = size_of::<libc::linger>() as libc::socklen_t;
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, std::ptr::addr_of!(l).cast(), size);
    }
}

/// The events that a descriptor is polled for; 0: only for being broken.
pub fn want(fd: RawFd, events: i16) -> libc::pollfd {
    libc::pollfd { fd, events, revents: 0 }
}

/// Waits for any of them, at most until `end`. Errors and interruptions look like a wake-up without
/// a reason.
pub fn poll(fds: &mut [libc::pollfd], end: Option<Instant>) {
    let ms = end.map_or(-1, |end| {
        let left = end.saturating_duration_since(Instant::now());
        // Rounded up: a wait that ends too early would be repeated in a spin.
        left.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32
    });
    // SAFETY: the slice lives during the call.
    unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, ms) };
}

/// Wakes a thread out of `poll`.
pub struct Bell(std::sync::Arc<OwnedFd>);

impl Bell {
    pub fn new() -> io::Result<Bell> {
        Ok(Bell(std::sync::Arc::new(common::bell(libc::EFD_NONBLOCK)?)))
    }

    pub fn ring(&self) {
        common::ring(&self.0);
    }

    pub fn want(&self) -> libc::pollfd {
        want(self.0.as_raw_fd(), libc::POLLIN)
    }

    /// Silences it; what it was rung for must be looked at afterwards.
    pub fn hush(&self) {
        let mut count = 0u64;
        // SAFETY: writes eight bytes into a live u64. Nothing to read means that it was silent.
        unsafe { libc::read(self.0.as_raw_fd(), std::ptr::addr_of_mut!(count).cast(), 8) };
    }

    pub fn waker(&self) -> crate::engine::Waker {
        crate::engine::Waker(Some(self.0.clone()))
    }
}
