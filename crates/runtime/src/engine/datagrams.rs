//! UDP beside another engine: each datagram that a listener receives is a connection of its own.
//!
//! In: datagrams. Out: for a listener `Accepted` and `Data`, for a connected socket `Data`, both
//! with one whole datagram. A write is one datagram. It goes to the sender of the datagram that
//! opened the connection, from the address at which that one came. So an answer has one receiver.
//!
//! All sockets lie in an epoll set of their own, which is readable when one of them is. The other
//! engine watches that set as one descriptor ([`Engine::watch`]). Tokens have the bit `ASIDE`, and
//! positions of bytes the bit `BYTES`, so that both engines' are told apart.

use super::common::{self, check, RawAddr, Slots};
use super::{Engine, Event, Keepalive, Release, Token, Waiting, Waker, WriteResult};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Of a token's index: it belongs to a datagram or a UDP socket.
pub const ASIDE: u64 = 1 << 31;
const BYTES: u32 = 1 << 31;
/// Datagrams of one poll, and room for each: more than UDP over IPv4 or IPv6 can carry.
const BATCH: usize = 32;
const ROOM: usize = 1 << 16;
/// Room for the control messages of a datagram: its own address and the count of lost ones.
const CONTROL: usize = 128;
/// A burst waits in the socket while a batch is handled (bytes; the system may allow less).
const RECEIVE_BUFFER: i32 = 4 << 20;

enum SocketName {
    Listener {
        fd: OwnedFd,
        local: SocketAddr,
    },
    /// A datagram of a listener, whose sender gets the answer.
    Sender {
        listener: Token,
        peer: SocketAddr,
        at: Option<IpAddr>,
    },
    Connected {
        fd: OwnedFd,
        local: SocketAddr,
        peer: SocketAddr,
    },
}

/// UDP sockets, and the engine for all else.
pub struct WithDatagrams {
    inner: Box<dyn Engine>,
    epoll: OwnedFd,
    names: Slots<SocketName>,
    buffer: Box<[u8]>,
    events: Vec<libc::epoll_event>,
    /// Sockets whose peer has refused a datagram (ICMP).
    refused: Vec<Token>,
    /// Datagrams that the kernel dropped because a socket's buffer was full: by socket, as counted
    /// by the kernel, and in sum.
    dropped: Vec<(Token, u32)>,
    lost: u64,
}

impl WithDatagrams {
    pub fn new(mut inner: Box<dyn Engine>) -> io::Result<WithDatagrams> {
        // SAFETY: a plain system call; the descriptor it returns has no other owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        inner.watch(epoll.as_raw_fd())?;
        Ok(WithDatagrams {
            inner,
            epoll,
            names: Slots::new(),
            buffer: vec![0; BATCH * ROOM].into_boxed_slice(),
            events: vec![libc::epoll_event { events: 0, u64: 0 }; BATCH],
            refused: Vec::new(),
            dropped: Vec::new(),
            lost: 0,
        })
    }

    fn is_aside(token: Token) -> bool {
        token.0 & ASIDE != 0
    }

    fn own(token: Token) -> Token {
        Token(token.0 & !ASIDE)
    }

    fn enter(&mut self, fd: RawFd, name: SocketName) -> io::Result<Token> {
        let own = self.names.insert(name);
        let mut e = libc::epoll_event { events: libc::EPOLLIN as u32, u64: own.0 };
        // SAFETY: `e` lives during the call.
        let added = check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut e) });
        if let Err(e) = added {
            self.names.remove(own);
            return Err(e);
        }
        Ok(Token(own.0 | ASIDE))
    }

    /// Reads no more from a socket.
    fn ignore(&mut self, own: Token) {
        if let Some(SocketName::Listener { fd, .. }) = self.names.get(own) {
            // SAFETY: a plain system call; failing, the socket is read on, and its datagrams are
            // refused by the core.
            unsafe {
                libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd.as_raw_fd(), std::ptr::null_mut())
            };
        }
    }

    /// Receives what the sockets have, up to a batch.
    fn receive(&mut self, out: &mut Vec<Event>) -> io::Result<()> {
        self.names.reuse();
        for own in std::mem::take(&mut self.refused) {
            if self.names.get(own).is_some() {
                out.push(Event::Broken { conn: Token(own.0 | ASIDE) });
            }
        }
        // SAFETY: the buffer holds so many events and lives during the call.
        let n =
            unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), self.events.len() as i32, 0) };
        let n = match check(n) {
            Ok(n) => n as usize,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
            Err(e) => return Err(e),
        };
        let mut used = 0;
        for i in 0..n {
            // The rest of the batch is shared by the sockets that are left.
            let most = (BATCH - used).div_ceil(n - i);
            let token = self.events[i].u64;
            used += self.read(Token(token), used, most, out);
        }
        Ok(())
    }

    /// Reads at most `most` datagrams of a socket into the places from `first` on.
    fn read(&mut self, own: Token, first: usize, most: usize, out: &mut Vec<Event>) -> usize {
        let Some(name) = self.names.get(own) else { return 0 };
        let (fd, listens) = match name {
            SocketName::Listener { fd, .. } => (fd.as_raw_fd(), true),
            SocketName::Connected { fd, .. } => (fd.as_raw_fd(), false),
            SocketName::Sender { .. } => return 0,
        };
        let mut addresses = [RawAddr::empty(); BATCH];
        let mut controls = [Control([0; CONTROL]); BATCH];
        // SAFETY: all zeros are a value of these plain structures.
        let (mut pieces, mut heads) =
            unsafe { (std::mem::zeroed::<[libc::iovec; BATCH]>(), std::mem::zeroed::<[libc::mmsghdr; BATCH]>()) };
        for i in 0..most {
            pieces[i].iov_base = self.buffer[(first + i) * ROOM..].as_mut_ptr().cast();
            pieces[i].iov_len = ROOM;
            let h = &mut heads[i].msg_hdr;
            h.msg_name = addresses[i].as_mut_ptr().cast();
            h.msg_namelen = addresses[i].len;
            (h.msg_iov, h.msg_iovlen) = (&mut pieces[i], 1);
            (h.msg_control, h.msg_controllen) = (controls[i].0.as_mut_ptr().cast(), CONTROL);
        }
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: the headers name memory of this function and of the buffer, and live as long.
        let n = unsafe { libc::recvmmsg(fd, heads.as_mut_ptr(), most as u32, flags, std::ptr::null_mut()) };
        let n = match check(n) {
            Ok(n) => n as usize,
            Err(e) => {
                // A listener's errors are of answers that somebody refuses; its next read goes on.
                if !listens && e.raw_os_error().is_some_and(is_refusal) {
                    out.push(Event::Broken { conn: Token(own.0 | ASIDE) });
                }
                return 0;
            }
        };
        for i in 0..n {
            let told = told(&heads[i].msg_hdr);
            if let Some(count) = told.dropped {
                self.count_dropped(own, count);
            }
            let conn = if listens {
                let Some(peer) = addresses[i].get() else { continue };
                let conn = self.names.insert(SocketName::Sender { listener: own, peer, at: told.at });
                out.push(Event::Accepted { listener: Token(own.0 | ASIDE), conn: Token(conn.0 | ASIDE) });
                conn
            } else {
                own
            };
            let start = ((first + i) * ROOM) as u32 | BYTES;
            out.push(Event::Data { conn: Token(conn.0 | ASIDE), start, len: heads[i].msg_len });
        }
        n
    }

    fn count_dropped(&mut self, own: Token, count: u32) {
        match self.dropped.iter_mut().find(|d| d.0 == own) {
            Some((_, before)) => {
                self.lost += u64::from(count.wrapping_sub(*before));
                *before = count;
            }
            None => {
                self.lost += u64::from(count);
                self.dropped.push((own, count));
            }
        }
    }

    fn send(&mut self, own: Token, slices: &[IoSlice<'_>]) -> WriteResult {
        let Some(name) = self.names.get(own) else { return WriteResult::Broken };
        let (fd, to) = match name {
            SocketName::Listener { .. } => return WriteResult::Broken,
            SocketName::Connected { fd, .. } => (fd.as_raw_fd(), None),
            SocketName::Sender { listener, peer, at } => match self.names.get(*listener) {
                Some(SocketName::Listener { fd, local }) => (fd.as_raw_fd(), Some((*peer, *at, local.is_ipv6()))),
                _ => return WriteResult::Broken,
            },
        };
        let sum = slices.iter().map(|s| s.len()).sum();
        match send_one(fd, slices, to).or_else(|e| {
            // The error is that of an earlier datagram.
            match e.raw_os_error().is_some_and(is_refusal) {
                true if to.is_none() => {
                    self.refused.push(own);
                    Err(e)
                }
                true => send_one(fd, slices, to),
                false => Err(e),
            }
        }) {
            Ok(()) => WriteResult::Done(sum),
            Err(e) if e.raw_os_error().is_some_and(is_refusal) => WriteResult::Broken,
            // The socket's buffer is full, or the datagram is too long: it is lost.
            Err(_) => WriteResult::Blocked,
        }
    }
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// The peer, or a router, says that nothing takes datagrams there.
fn is_refusal(errno: i32) -> bool {
    matches!(errno, libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN)
}

/// The facts that the kernel tells of a datagram.
#[derive(Default)]
struct DatagramFacts {
    /// The address at which it came.
    at: Option<IpAddr>,
    /// Datagrams that the socket has dropped so far.
    dropped: Option<u32>,
}

fn told(head: &libc::msghdr) -> DatagramFacts {
    let mut told = DatagramFacts::default();
    // SAFETY: the kernel has filled in the control messages that the header names, whose memory is
    // aligned and live.
    unsafe {
        let mut c = libc::CMSG_FIRSTHDR(head);
        while let Some(h) = c.as_ref() {
            let data = libc::CMSG_DATA(c);
            match (h.cmsg_level, h.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    told.at = Some(IpAddr::from(info.ipi_addr.s_addr.to_ne_bytes()));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    told.at = Some(IpAddr::from(info.ipi6_addr.s6_addr));
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => told.dropped = Some(data.cast::<u32>().read_unaligned()),
                _ => {}
            }
            c = libc::CMSG_NXTHDR(head, c);
        }
    }
    told
}

/// Sends one datagram: to the peer of the socket, or to an address from one of ours.
fn send_one(fd: RawFd, slices: &[IoSlice<'_>], to: Option<(SocketAddr, Option<IpAddr>, bool)>) -> io::Result<()> {
    let mut control = Control([0; CONTROL]);
    // SAFETY: all zeros are a value of this plain structure.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_iov = slices.as_ptr().cast_mut().cast();
    head.msg_iovlen = slices.len();
    let mut address = RawAddr::empty();
    if let Some((peer, at, six)) = to {
        address = RawAddr::of(in_family(peer, six));
        head.msg_name = address.as_mut_ptr().cast();
        head.msg_namelen = address.len;
        if let Some(at) = at {
            name_source(&mut head, &mut control, at);
        }
    }
    // SAFETY: the header names live memory; `IoSlice` has the layout of an `iovec`.
    let n = unsafe { libc::sendmsg(fd, &head, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    let _ = &address;
    if n < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// A socket of IPv6 names IPv4 peers by their mapped addresses.
fn in_family(peer: SocketAddr, six: bool) -> SocketAddr {
    match peer {
        SocketAddr::V4(a) if six => SocketAddr::new(IpAddr::V6(a.ip().to_ipv6_mapped()), a.port()),
        other => other,
    }
}

/// The datagram leaves from this address of ours.
fn name_source(head: &mut libc::msghdr, control: &mut Control, at: IpAddr) {
    head.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: the room is aligned, and larger than either message.
    unsafe {
        let size = match at {
            IpAddr::V4(_) => std::mem::size_of::<libc::in_pktinfo>(),
            IpAddr::V6(_) => std::mem::size_of::<libc::in6_pktinfo>(),
        } as u32;
        head.msg_controllen = libc::CMSG_SPACE(size) as usize;
        let c = libc::CMSG_FIRSTHDR(head);
        (*c).cmsg_len = libc::CMSG_LEN(size) as usize;
        match at {
            IpAddr::V4(a) => {
                ((*c).cmsg_level, (*c).cmsg_type) = (libc::IPPROTO_IP, libc::IP_PKTINFO);
                let mut info: libc::in_pktinfo = std::mem::zeroed();
                info.ipi_spec_dst.s_addr = u32::from_ne_bytes(a.octets());
                libc::CMSG_DATA(c).cast::<libc::in_pktinfo>().write_unaligned(info);
            }
            IpAddr::V6(a) => {
                ((*c).cmsg_level, (*c).cmsg_type) = (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO);
                let mut info: libc::in6_pktinfo = std::mem::zeroed();
                info.ipi6_addr.s6_addr = a.octets();
                libc::CMSG_DATA(c).cast::<libc::in6_pktinfo>().write_unaligned(info);
            }
        }
    }
}

/// A bound socket of this core: SO_REUSEPORT lets every core have its own on the same port.
fn bound(addr: SocketAddr) -> io::Result<OwnedFd> {
    let fd = common::udp_socket(addr)?;
    let raw = fd.as_raw_fd();
    common::set_option(raw, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    match addr {
        SocketAddr::V4(_) => common::set_option(raw, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?,
        SocketAddr::V6(_) => common::set_option(raw, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?,
    }
    prepare(raw);
    let a = RawAddr::of(addr);
    // SAFETY: `a` is a valid address of the length given.
    check(unsafe { libc::bind(raw, a.as_ptr(), a.len) })?;
    Ok(fd)
}

/// Options that only make it better.
fn prepare(fd: RawFd) {
    let _ = common::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER);
    let _ = common::set_option(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
}

impl Engine for WithDatagrams {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn listen_datagrams(&mut self, addr: SocketAddr) -> io::Result<Token> {
        let fd = bound(addr)?;
        let raw = fd.as_raw_fd();
        let local = common::local_address(raw).unwrap_or(addr);
        // An address of IPv6 is shown as IPv4 where it is one; the family of the socket counts
        // here.
        let local = in_family(local, addr.is_ipv6());
        self.enter(raw, SocketName::Listener { fd, local })
    }

    fn connect_datagrams(&mut self, peer: SocketAddr) -> io::Result<Token> {
        let fd = common::udp_socket(peer)?;
        let raw = fd.as_raw_fd();
        prepare(raw);
        let a = RawAddr::of(peer);
        // SAFETY: `a` is a valid address of the length given.
        check(unsafe { libc::connect(raw, a.as_ptr(), a.len) })?;
        let local = common::local_address(raw).unwrap_or(peer);
        self.enter(raw, SocketName::Connected { fd, local, peer })
    }

    fn dropped_datagrams(&self) -> u64 {
        self.lost
    }

    fn listen(&mut self, addr: SocketAddr) -> io::Result<Token> {
        self.inner.listen(addr)
    }

    fn unlisten(&mut self, listener: Token) {
        match Self::is_aside(listener) {
            // It stays open: answers to what it has received go out on it.
            true => self.ignore(Self::own(listener)),
            false => self.inner.unlisten(listener),
        }
    }

    fn admit(&mut self, listener: Token, n: usize) {
        if !Self::is_aside(listener) {
            self.inner.admit(listener, n)
        }
    }

    fn take_place(&mut self, listener: Token) -> bool {
        !Self::is_aside(listener) && self.inner.take_place(listener)
    }

    fn queued(&self, listener: Token) -> usize {
        if Self::is_aside(listener) {
            0
        } else {
            self.inner.queued(listener)
        }
    }

    fn keep_alive(&mut self, conn: Token, how: Keepalive) {
        if !Self::is_aside(conn) {
            self.inner.keep_alive(conn, how)
        }
    }

    fn connect(&mut self, addr: SocketAddr) -> io::Result<Token> {
        self.inner.connect(addr)
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let timeout = if self.refused.is_empty() { timeout } else { Some(Duration::ZERO) };
        self.inner.poll(timeout, events)?;
        self.receive(events)
    }

    fn more(&self) -> bool {
        self.inner.more()
    }

    fn data(&self, start: u32, len: u32) -> &[u8] {
        match start & BYTES {
            0 => self.inner.data(start, len),
            _ => &self.buffer[(start & !BYTES) as usize..][..len as usize],
        }
    }

    fn writes_at_once(&self) -> bool {
        self.inner.writes_at_once()
    }

    unsafe fn write(&mut self, conn: Token, slices: &[IoSlice<'_>]) -> WriteResult {
        match Self::is_aside(conn) {
            true => self.send(Self::own(conn), slices),
            // SAFETY: by the same contract.
            false => unsafe { self.inner.write(conn, slices) },
        }
    }

    unsafe fn write_last(&mut self, conn: Token, slices: &[IoSlice<'_>]) -> WriteResult {
        match Self::is_aside(conn) {
            true => self.send(Self::own(conn), slices),
            // SAFETY: by the same contract.
            false => unsafe { self.inner.write_last(conn, slices) },
        }
    }

    fn waiting(&mut self, conn: Token) -> Waiting {
        match Self::is_aside(conn) {
            true => Waiting::Nothing,
            false => self.inner.waiting(conn),
        }
    }

    fn release(&mut self, conn: Token) -> Release {
        match Self::is_aside(conn) {
            true => Release::Never,
            false => self.inner.release(conn),
        }
    }

    fn adopt(&mut self, fd: OwnedFd, peer: SocketAddr) -> io::Result<Token> {
        self.inner.adopt(fd, peer)
    }

    fn pause(&mut self, conn: Token, paused: bool) {
        if !Self::is_aside(conn) {
            self.inner.pause(conn, paused)
        }
    }

    fn shutdown(&mut self, conn: Token) {
        if !Self::is_aside(conn) {
            self.inner.shutdown(conn)
        }
    }

    fn close(&mut self, conn: Token, reset: bool) {
        if !Self::is_aside(conn) {
            return self.inner.close(conn, reset);
        }
        let own = Self::own(conn);
        // The events of this batch may still name it.
        self.names.retire(own);
        self.dropped.retain(|d| d.0 != own);
    }

    fn pending_close(&self, conn: Token) -> bool {
        !Self::is_aside(conn) && self.inner.pending_close(conn)
    }

    fn addresses(&self, conn: Token) -> Option<(SocketAddr, SocketAddr)> {
        if !Self::is_aside(conn) {
            return self.inner.addresses(conn);
        }
        match self.names.get(Self::own(conn))? {
            SocketName::Listener { local, .. } => Some((*local, *local)),
            SocketName::Connected { local, peer, .. } => Some((*local, *peer)),
            SocketName::Sender { listener, peer, at } => match self.names.get(*listener)? {
                SocketName::Listener { local, .. } => {
                    let at = at.map_or(*local, |ip| SocketAddr::new(ip.to_canonical(), local.port()));
                    Some((at, *peer))
                }
                _ => None,
            },
        }
    }

    fn rest(&mut self, time: Duration) {
        self.inner.rest(time)
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn worked(&self) -> u64 {
        self.inner.worked()
    }

    fn now(&self) -> u64 {
        self.inner.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{open, EngineKind};
    use std::net::UdpSocket;

    fn engines() -> Vec<WithDatagrams> {
        let kinds = [EngineKind::Epoll, EngineKind::Uring].into_iter();
        kinds.filter_map(|k| open(k).ok()).map(|e| WithDatagrams::new(e).expect("an epoll set")).collect()
    }

    /// Polls until there are events.
    fn events(e: &mut WithDatagrams) -> Vec<Event> {
        let mut all = Vec::new();
        for _ in 0..100 {
            e.poll(Some(Duration::from_millis(50)), &mut all).expect("a poll");
            all.retain(|e| !matches!(e, Event::Woken));
            if !all.is_empty() {
                break;
            }
        }
        all
    }

    fn put(e: &mut WithDatagrams, conn: Token, parts: &[&[u8]]) -> WriteResult {
        let slices: Vec<IoSlice> = parts.iter().map(|p| IoSlice::new(p)).collect();
        // SAFETY: a datagram is sent, or lost, before the call returns.
        unsafe { e.write(conn, &slices) }
    }

    #[test]
    fn an_answer_goes_to_the_sender_from_the_address_that_was_asked() {
        for mut e in engines() {
            for (any, asked) in [("0.0.0.0:0", "127.0.0.3"), ("[::]:0", "::1"), ("[::]:0", "127.0.0.1")] {
                let Ok(listener) = e.listen_datagrams(any.parse().expect("an address")) else { continue };
                let port = e.addresses(listener).expect("it is bound").0.port();
                let at = SocketAddr::new(asked.parse().expect("an address"), port);
                let client = UdpSocket::bind(if asked == "::1" { "[::1]:0" } else { "127.0.0.1:0" }).expect("loopback");
                let (size, longest) = (60_000, vec![7; 60_000]);
                client.send_to(&longest, at).expect("loopback takes datagrams");
                client.send_to(b"", at).expect("loopback takes datagrams");
                let mut all = events(&mut e);
                while all.len() < 4 {
                    all.extend(events(&mut e));
                }
                let [Event::Accepted { conn: a, .. }, Event::Data { start, len, .. }, Event::Accepted { conn: b, .. }, Event::Data { len: 0, .. }] =
                    all[..]
                else {
                    panic!("{all:?}")
                };
                assert!(len == size && e.data(start, len) == &longest[..] && a != b);
                let (local, peer) = e.addresses(a).expect("a sender");
                assert_eq!((local, peer), (at, client.local_addr().expect("it is bound")), "{any}");
                assert_eq!(put(&mut e, a, &[b"one ", b"answer"]), WriteResult::Done(10));
                assert_eq!(put(&mut e, b, &[&[0; 70_000]]), WriteResult::Blocked, "no datagram is so long");
                let mut bytes = [0; 100];
                let (n, from) = client.recv_from(&mut bytes).expect("an answer");
                assert_eq!((&bytes[..n], from), (&b"one answer"[..], at));
                e.close(a, false);
                assert_eq!(put(&mut e, a, &[b"more"]), WriteResult::Broken, "a closed one is no more");
                e.close(b, false);
                e.close(listener, false);
            }
        }
    }

    #[test]
    fn a_socket_hears_its_peer_alone_and_that_nobody_is_there() {
        for mut e in engines() {
            let peer = UdpSocket::bind("127.0.0.1:0").expect("loopback");
            let conn = e.connect_datagrams(peer.local_addr().expect("it is bound")).expect("a socket");
            let own = e.addresses(conn).expect("it is bound").0;
            UdpSocket::bind("127.0.0.1:0").expect("loopback").send_to(b"forged", own).expect("loopback");
            assert_eq!(put(&mut e, conn, &[b"hello"]), WriteResult::Done(5));
            let (_, from) = peer.recv_from(&mut [0; 10]).expect("a request");
            peer.send_to(b"hi", from).expect("loopback");
            let all = events(&mut e);
            let [Event::Data { conn: c, start, len }] = all[..] else { panic!("{all:?}") };
            assert_eq!((c, e.data(start, len)), (conn, &b"hi"[..]));
            drop(peer);
            put(&mut e, conn, &[b"anyone?"]);
            assert_eq!(events(&mut e), [Event::Broken { conn }]);
            e.close(conn, false);
        }
    }
}
