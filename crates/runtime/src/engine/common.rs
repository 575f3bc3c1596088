//! Shared parts of the socket engines: socket calls, address conversion, tokens and slots.

use super::Token;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

/// How long an engine rests a listener after the descriptors ran out.
pub const ACCEPT_PAUSE_NS: u64 = 50_000_000;
/// Length of a listener's queue of connections that wait to be accepted.
pub const BACKLOG: usize = 4096;
/// Local ports from here on may be given to outgoing connections, so a connection could meet
/// itself.
const EPHEMERAL: u16 = 1024;

/// Sleeps for less than a millisecond. The kernel would add 50 us to that; the thread's slack is
/// made smaller first.
pub fn nap(time: std::time::Duration) {
    thread_local!(static PRECISE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    if !PRECISE.replace(true) {
        // SAFETY: a plain system call; without effect where it is not allowed.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1000) };
    }
    let t = libc::timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: time.subsec_nanos() as libc::c_long };
    // SAFETY: `t` lives during the call. A nap cut short by a signal is short; that does not
    // matter.
    unsafe { libc::nanosleep(&t, std::ptr::null_mut()) };
}

/// A system call's result as `io::Result`.
pub fn check(r: libc::c_int) -> io::Result<libc::c_int> {
    if r < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(r)
    }
}

pub fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Whether accepting or opening failed for want of descriptors, memory or local ports: worth a
/// later try.
pub fn is_exhaustion(errno: i32) -> bool {
    matches!(errno, libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::EADDRNOTAVAIL)
}

/// An address in the form the kernel takes.
#[derive(Clone, Copy)]
pub struct RawAddr {
    pub storage: libc::sockaddr_storage,
    pub len: libc::socklen_t,
}

impl RawAddr {
    pub fn empty() -> RawAddr {
        // SAFETY: sockaddr_storage is plain bytes; all zeroes is a valid value.
        RawAddr { storage: unsafe { zeroed() }, len: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    pub fn of(addr: SocketAddr) -> RawAddr {
        let mut raw = RawAddr::empty();
        let p = std::ptr::addr_of_mut!(raw.storage);
        match addr {
            SocketAddr::V4(a) => {
                // SAFETY: sockaddr_storage is large enough and aligned for every socket address.
                let s = unsafe { &mut *p.cast::<libc::sockaddr_in>() };
                s.sin_family = libc::AF_INET as libc::sa_family_t;
                s.sin_port = a.port().to_be();
                s.sin_addr.s_addr = u32::from_ne_bytes(a.ip().octets());
                raw.len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
            SocketAddr::V6(a) => {
                // SAFETY: as above.
                let s = unsafe { &mut *p.cast::<libc::sockaddr_in6>() };
                s.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                s.sin6_port = a.port().to_be();
                s.sin6_addr.s6_addr = a.ip().octets();
                s.sin6_flowinfo = a.flowinfo();
                s.sin6_scope_id = a.scope_id();
                raw.len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
        }
        raw
    }

    pub fn as_ptr(&self) -> *const libc::sockaddr {
        std::ptr::addr_of!(self.storage).cast()
    }

    pub fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        std::ptr::addr_of_mut!(self.storage).cast()
    }

    /// The address; IPv4 clients of an IPv6 listener are shown as IPv4.
    pub fn get(&self) -> Option<SocketAddr> {
        let p = std::ptr::addr_of!(self.storage);
        match i32::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says which type it is; storage is large enough for it.
                let s = unsafe { &*p.cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(s.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(s.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let s = unsafe { &*p.cast::<libc::sockaddr_in6>() };
                let (ip, port) = (Ipv6Addr::from(s.sin6_addr.s6_addr), u16::from_be(s.sin6_port));
                match ip.to_ipv4_mapped() {
                    Some(v4) => Some(SocketAddrV4::new(v4, port).into()),
                    None => Some(SocketAddrV6::new(ip, port, s.sin6_flowinfo, s.sin6_scope_id).into()),
                }
            }
            _ => None,
        }
    }
}

/// A TCP socket; `flags` beyond SOCK_CLOEXEC (SOCK_NONBLOCK for epoll).
pub fn tcp_socket(addr: SocketAddr, flags: i32) -> io::Result<OwnedFd> {
    socket_for(addr, libc::SOCK_STREAM | flags)
}

/// A UDP socket that does not block.
pub fn udp_socket(addr: SocketAddr) -> io::Result<OwnedFd> {
    socket_for(addr, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK)
}

/// A socket of the address's family. One on `[::]` takes IPv4 clients too, whatever the machine's
/// default is (`net.ipv6.bindv6only`).
fn socket_for(addr: SocketAddr, kind: i32) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: a plain system call; the descriptor it returns has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(check(libc::socket(family, kind | libc::SOCK_CLOEXEC, 0))?) };
    if addr.is_ipv6() {
        set_option(fd.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
    }
    Ok(fd)
}

pub fn set_option(fd: RawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the option's value is an int that lives during the call.
    let r = unsafe {
        libc::setsockopt(fd, level, name, std::ptr::addr_of!(value).cast(), size_of::<i32>() as libc::socklen_t)
    };
    check(r).map(drop)
}

/// How a socket over TCP notices that its peer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Nanoseconds without a byte, after which the peer is asked; 0: never.
    pub idle: u64,
    /// Nanoseconds for which a peer may take no bytes.
    pub patience: u64,
}

/// The peer is asked so often, and so many seconds apart.
const PROBES: i32 = 3;
const PROBE_S: i32 = 10;

impl Keepalive {
    fn idle_seconds(self) -> i32 {
        // The kernel's limit is 32,767 s.
        self.idle.div_ceil(1_000_000_000).clamp(1, 32_767) as i32
    }

    /// Milliseconds after which bytes that the peer has not confirmed end the connection. A peer
    /// that only does not read must not lose its connection before `write_timeout`: then the
    /// kernel's own limit stays.
    fn unconfirmed_ms(self) -> Option<i32> {
        let all = (self.idle_seconds() + PROBES * PROBE_S) * 1000;
        (self.patience / 1_000_000 <= all as u64).then_some(all)
    }

    pub fn set(self, fd: RawFd) {
        if self.idle == 0 {
            return;
        }
        // Options of the kernel that may be refused: the connection works without them.
        let tcp =
            [(libc::TCP_KEEPIDLE, self.idle_seconds()), (libc::TCP_KEEPINTVL, PROBE_S), (libc::TCP_KEEPCNT, PROBES)];
        let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
        for (name, value) in tcp.into_iter().chain(self.unconfirmed_ms().map(|ms| (libc::TCP_USER_TIMEOUT, ms))) {
            let _ = set_option(fd, libc::IPPROTO_TCP, name, value);
        }
    }
}

/// A listening socket of this core: SO_REUSEPORT lets every core have its own on the same port.
/// TCP_NODELAY is inherited by the accepted sockets, so that it costs no call per connection.
pub fn listener(addr: SocketAddr, flags: i32) -> io::Result<OwnedFd> {
    if let Some(fd) = take_early(addr, flags)? {
        return Ok(fd);
    }
    let fd = tcp_socket(addr, flags)?;
    let raw = fd.as_raw_fd();
    set_option(raw, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    set_option(raw, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    bind(raw, addr)?;
    // SAFETY: a plain system call on our own socket.
    check(unsafe { libc::listen(raw, BACKLOG as i32) })?;
    Ok(fd)
}

/// Sockets that listen before their program is compiled. Early clients wait in the queue of the
/// first core's socket.
static EARLY: Mutex<Vec<(SocketAddr, OwnedFd)>> = Mutex::new(Vec::new());

/// Listens on an address; the first `listener` of this address takes the socket over.
pub fn listen_early(addr: SocketAddr) -> io::Result<()> {
    free_to_listen(addr)?;
    let fd = listener(addr, 0)?;
    EARLY.lock().unwrap_or_else(|e| e.into_inner()).push((addr, fd));
    Ok(())
}

pub fn listens_early(addr: SocketAddr) -> bool {
    EARLY.lock().unwrap_or_else(|e| e.into_inner()).iter().any(|(a, _)| *a == addr)
}

/// The early socket of an address; `flags` as for `socket`.
pub fn take_early(addr: SocketAddr, flags: i32) -> io::Result<Option<OwnedFd>> {
    let mut early = EARLY.lock().unwrap_or_else(|e| e.into_inner());
    let Some(at) = early.iter().position(|(a, _)| *a == addr) else { return Ok(None) };
    let fd = early.swap_remove(at).1;
    if flags & libc::SOCK_NONBLOCK != 0 {
        // SAFETY: a plain system call on our own socket, which has no other flags of this kind.
        check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })?;
    }
    Ok(Some(fd))
}

/// Whether an address is free to listen on. It is only bound: a client that connects meanwhile is
/// refused, not accepted and cut off.
pub fn free_to_listen(addr: SocketAddr) -> io::Result<()> {
    bind(tcp_socket(addr, 0)?.as_raw_fd(), addr)
}

/// The same for datagrams. The option that lets cores share a port is not set: any other socket
/// there is in the way.
pub fn free_for_datagrams(addr: SocketAddr) -> io::Result<()> {
    let fd = udp_socket(addr)?;
    let a = RawAddr::of(addr);
    // SAFETY: `a` is a valid address of the length given.
    check(unsafe { libc::bind(fd.as_raw_fd(), a.as_ptr(), a.len) }).map(drop)
}

fn bind(fd: RawFd, addr: SocketAddr) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    let a = RawAddr::of(addr);
    // SAFETY: `a` is a valid address of the length given.
    check(unsafe { libc::bind(fd, a.as_ptr(), a.len) }).map(drop)
}

/// How many connections wait to be accepted. For a listener the kernel reports it in the field of
/// unacknowledged segments.
pub fn accept_queue(listener: RawFd) -> usize {
    // SAFETY: all zeroes are a valid value, and the kernel writes no more than the length given.
    unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut len = std::mem::size_of::<libc::tcp_info>() as libc::socklen_t;
        let r = libc::getsockopt(
            listener,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            std::ptr::addr_of_mut!(info).cast(),
            &mut len,
        );
        if r == 0 {
            info.tcpi_unacked as usize
        } else {
            0
        }
    }
}

pub fn local_address(fd: RawFd) -> Option<SocketAddr> {
    let mut a = RawAddr::empty();
    // SAFETY: `a` has room for any address, and its length is given.
    check(unsafe { libc::getsockname(fd, a.as_mut_ptr(), &mut a.len) }).ok()?;
    a.get()
}

pub fn peer_address(fd: RawFd) -> Option<SocketAddr> {
    let mut a = RawAddr::empty();
    // SAFETY: as in `local_address`.
    check(unsafe { libc::getpeername(fd, a.as_mut_ptr(), &mut a.len) }).ok()?;
    a.get()
}

/// A socket can connect to itself if the kernel picks the very port it connects to, and no socket
/// listens there. For us that is a refused connection.
pub fn connected_to_itself(fd: RawFd, peer: SocketAddr) -> bool {
    peer.port() >= EPHEMERAL && local_address(fd) == Some(peer)
}

/// The next `close` discards unsent data and sends RST.
pub fn reset_on_close(fd: RawFd) {
    let l = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the option's value is a `linger` that lives during the call. Failure leaves an
    // ordinary close.
    unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            std::ptr::addr_of!(l).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        );
    }
}

pub fn half_close(fd: RawFd) {
    // SAFETY: a plain system call; an already broken connection answers with an error that does not
    // matter here.
    unsafe { libc::shutdown(fd, libc::SHUT_WR) };
}

/// An eventfd for a waker.
pub fn bell(flags: i32) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; the descriptor it returns has no other owner.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::eventfd(0, libc::EFD_CLOEXEC | flags))?)) }
}

pub fn ring(fd: &OwnedFd) {
    let one = 1u64;
    // SAFETY: writes eight bytes from a live u64. A full counter means that it is ringing already.
    unsafe { libc::write(fd.as_raw_fd(), std::ptr::addr_of!(one).cast(), 8) };
}

/// Entries with generations: a token names an entry until that is removed, and never its successor.
pub struct Slots<T> {
    entries: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    /// Free, but not for the tokens of this batch of events.
    later: Vec<u32>,
}

/// Generations have 28 bits, so that a token and an operation's kind fit into 64 bits.
const GENERATION: u32 = (1 << 28) - 1;

impl<T> Slots<T> {
    pub fn new() -> Slots<T> {
        Slots { entries: Vec::new(), free: Vec::new(), later: Vec::new() }
    }

    pub fn insert(&mut self, value: T) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push((1, None));
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        entry.1 = Some(value);
        Token(u64::from(entry.0) << 32 | u64::from(index))
    }

    #[inline]
    pub fn get(&self, t: Token) -> Option<&T> {
        let (generation, value) = self.entries.get(t.0 as u32 as usize)?;
        if u64::from(*generation) != t.0 >> 32 {
            return None;
        }
        value.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, t: Token) -> Option<&mut T> {
        let (generation, value) = self.entries.get_mut(t.0 as u32 as usize)?;
        if u64::from(*generation) != t.0 >> 32 {
            return None;
        }
        value.as_mut()
    }

    pub fn remove(&mut self, t: Token) -> Option<T> {
        let (generation, value) = self.entries.get_mut(t.0 as u32 as usize)?;
        if u64::from(*generation) != t.0 >> 32 {
            return None;
        }
        *generation = (*generation % GENERATION) + 1;
        self.free.push(t.0 as u32);
        value.take()
    }

    /// Removes an entry for which an event may still come. Its index stays unused until `reuse`. A
    /// core that makes connections before it has seen that event would reuse the index.
    pub fn retire(&mut self, t: Token) -> Option<T> {
        let value = self.remove(t)?;
        self.later.extend(self.free.pop());
        Some(value)
    }

    /// The events of the last batch have been seen.
    #[inline]
    pub fn reuse(&mut self) {
        self.free.append(&mut self.later);
    }

    pub fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(i, (generation, v))| v.as_ref().map(|v| (Token(u64::from(*generation) << 32 | i as u64), v)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_removed_entries_name_nothing() {
        let mut s = Slots::new();
        let a = s.insert(1);
        assert_eq!(s.remove(a), Some(1));
        let b = s.insert(2);
        assert!(s.get(a).is_none() && s.remove(a).is_none());
        assert_eq!(s.get(b), Some(&2));
        assert_eq!(s.iter().count(), 1);
    }

    #[test]
    fn asking_for_a_port_cuts_nobody_off() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let here = listener(any, 0).unwrap();
        let addr = local_address(here.as_raw_fd()).unwrap();
        assert_eq!(free_to_listen(addr).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(here);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    // In use while a client's attempt has the port.
                    free_to_listen(addr).ok();
                }
            });
            for _ in 0..3000 {
                match std::net::TcpStream::connect(addr) {
                    Err(e) => assert_eq!(e.kind(), io::ErrorKind::ConnectionRefused),
                    Ok(c) => assert_eq!(c.local_addr().ok(), c.peer_addr().ok(), "nobody listens"),
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn addresses_survive_the_round_trip() {
        for a in ["127.0.0.1:80", "[::1]:443", "[2001:db8::1]:1"] {
            let a: SocketAddr = a.parse().unwrap();
            assert_eq!(RawAddr::of(a).get(), Some(a));
        }
    }
}
