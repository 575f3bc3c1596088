//! TUN and TAP devices, and `kernel`, which passes frames to the host's own stack through a TAP.

use super::batch::{bytes, Batch};
use super::pool::Pool;
use super::port::{FramePort, Sent};
use super::send_errors::SendErrors;
use crate::engine::common;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Frames read into this much room; those of a device with a larger MTU take a large buffer.
const READ: usize = 2048;
const LONGEST: usize = 65_550;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Frames begin with IP.
    Tun,
    Tap,
    /// A TAP of ours, by default `wireloom0`.
    Kernel,
}

pub struct Tun {
    fd: OwnedFd,
    /// The most bytes of one read.
    room: usize,
    broken: bool,
    name: String,
    errors: SendErrors,
}

impl Tun {
    /// Attaches to the device, makes it if it is missing, and brings it up. `mac`: the address that
    /// the host's stack uses on it.
    pub fn open(name: &str, kind: Kind, mac: Option<[u8; 6]>) -> Result<Tun, String> {
        let name = if kind == Kind::Kernel && matches!(name, "" | "kernel") { "wireloom0" } else { name };
        let fail = |e: io::Error| {
            let right = matches!(e.raw_os_error(), Some(libc::EPERM | libc::EACCES))
                .then_some("; TUN and TAP need CAP_NET_ADMIN: run as root, or `sudo setcap cap_net_admin+ep FILE`");
            format!("cannot open the device `{name}`: {e}{}", right.unwrap_or_default())
        };
        let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
        // SAFETY: a plain system call; the path is a C string.
        let fd = common::check(unsafe { libc::open(c"/dev/net/tun".as_ptr(), flags) }).map_err(fail)?;
        // SAFETY: opened just now.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut request = named(name)?;
        let mode = if kind == Kind::Tun { libc::IFF_TUN } else { libc::IFF_TAP };
        request.ifr_ifru.ifru_flags = (mode | libc::IFF_NO_PI) as i16;
        // SAFETY: the request lives here.
        common::check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as _, &mut request) }).map_err(fail)?;
        if let Some(mac) = mac {
            set_mac(&fd, &mut request, mac).map_err(fail)?;
        }
        let mtu = bring_up(&mut request).map_err(fail)?;
        let room = if mtu + 22 <= READ { READ } else { LONGEST };
        Ok(Tun { fd, room, broken: false, name: name.to_string(), errors: SendErrors::default() })
    }
}

/// A request on the interface of this name.
fn named(name: &str) -> Result<libc::ifreq, String> {
    if name.len() >= libc::IFNAMSIZ || name.bytes().any(|b| b == 0 || b == b'/' || b.is_ascii_whitespace()) {
        return Err(format!("`{name}` is no name of an interface (at most {} bytes)", libc::IFNAMSIZ - 1));
    }
    // SAFETY: a plain struct of numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn set_mac(fd: &OwnedFd, request: &mut libc::ifreq, mac: [u8; 6]) -> io::Result<()> {
    // SAFETY: a plain struct of numbers.
    let mut address: libc::sockaddr = unsafe { std::mem::zeroed() };
    address.sa_family = libc::ARPHRD_ETHER;
    for (to, from) in address.sa_data.iter_mut().zip(mac) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_hwaddr = address;
    // SAFETY: the request lives here; a TAP's own descriptor takes it.
    common::check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCSIFHWADDR as _, request) }).map(drop)
}

/// Sets the device up; its MTU.
fn bring_up(request: &mut libc::ifreq) -> io::Result<usize> {
    // SAFETY: plain system calls on a request that lives during them; the descriptor is closed by
    // its owner.
    unsafe {
        let socket = common::check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        let socket = OwnedFd::from_raw_fd(socket);
        common::check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut *request))?;
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as i16;
        common::check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &mut *request))?;
        common::check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &mut *request))?;
        Ok(request.ifr_ifru.ifru_mtu.max(0) as usize)
    }
}

impl FramePort for Tun {
    fn receive(&mut self, pool: &mut Pool, into: &mut Batch, _: u64) -> io::Result<()> {
        while into.room() > 0 {
            let Some((buf, mut f)) = pool.take(self.room) else { break };
            // SAFETY: the frame has `n` bytes of room, all ours.
            let n = unsafe { libc::read(self.fd.as_raw_fd(), f.p.cast(), f.n as usize) };
            if n <= 0 {
                pool.put(buf);
                match common::errno() {
                    _ if n == 0 => {}
                    libc::EAGAIN | libc::EINTR => {}
                    // The device is down: it may come back.
                    libc::EIO => {}
                    e => {
                        self.broken = true;
                        return Err(io::Error::from_raw_os_error(e));
                    }
                }
                break;
            }
            f.tail += f.n - n as u32;
            (f.n, f.wire) = (n as u32, n as u32);
            into.push(buf, f);
        }
        Ok(())
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> Sent {
        let mut sent = Sent::default();
        for f in &batch.frames {
            let data = bytes(f);
            // SAFETY: the bytes live here.
            let n = unsafe { libc::write(self.fd.as_raw_fd(), data.as_ptr().cast(), data.len()) };
            if n < 0 && common::errno() != libc::EAGAIN {
                self.errors.tell(&self.name, common::errno())
            }
            sent = sent.and(f, n == data.len() as isize);
        }
        batch.release(pool);
        sent
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }

    fn ended(&self) -> bool {
        self.broken
    }
}
