//! The epoll engine: edge-triggered, one `epoll_ctl` per connection in its whole life.
//!
//! In: the kernel's reports. Out: [`Event`]s, whose bytes lie one after the other in a receive
//! buffer that all connections of a part of a batch share. A message costs one `recv` and one
//! `send`. The batch shares one `epoll_wait`. A short read means that the socket is empty, because
//! the next byte raises a new edge. So no read runs until EAGAIN. Only after the kernel has
//! announced the end of the stream, a second `recv` fetches it. Before a write to a connection that
//! was idle, one `epoll_wait` tells of several such connections whether anything has come on them.
//! Its reports are handled by the next poll. Connections that were not read to
//! the end (buffer full, or [`MAX_RECV`] reached) stay on a ready list and come first in the next
//! poll.

use super::common::{self, check, Slots, ACCEPT_PAUSE_NS};
use super::{direct, Engine, Event, Keepalive, Release, Token, Waiting, Waker, WriteResult, MAX_RECV};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Kernel events per `epoll_wait`.
const BATCH: usize = 256;
/// Of these, how many are handled in one poll. With so few, input, answers and output stay in the
/// fastest cache from step to step. The code of each step is fetched once for all of them.
const PART: usize = 32;
/// Receive buffer; with less than `MIN_ROOM` left the batch ends.
const BUFFER: usize = 256 * 1024;
const MIN_ROOM: usize = 16 * 1024;
/// Connections accepted per listener and poll.
const ACCEPTS: usize = 64;
const BELL: Token = Token(u64::MAX);
/// Descriptors that others read (`watch`).
const WATCHED: Token = Token(u64::MAX - 1);
/// One look at the kernel's reports is good for so many writes to idle connections.
const LOOKED: u32 = 8;
/// Polls of fewer events are followed by too few such writes for a look.
const LEAST_EVENTS: usize = 6;

const LISTENER: u16 = 1;
const CONNECTING: u16 = 2;
/// Output is full: `Writable` is owed.
const BLOCKED: u16 = 4;
/// An edge was seen and the socket was not read empty since.
const READABLE: u16 = 8;
/// On the ready list.
const QUEUED: u16 = 16;
const PAUSED: u16 = 32;
const EOF: u16 = 64;
/// The kernel has announced the end of the stream or an error: read until that is seen.
const ENDING: u16 = 128;
const BROKEN: u16 = 256;
/// A listener that waits for descriptors.
const RESTING: u16 = 512;

/// Small, as each message looks one up twice.
struct EpollSocket {
    fd: OwnedFd,
    flags: u16,
}

impl EpollSocket {
    fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }
}

pub struct Epoll {
    epoll: OwnedFd,
    bell: Arc<OwnedFd>,
    sockets: Slots<EpollSocket>,
    /// Where each socket is connected to, by its token's index.
    peers: Vec<Option<SocketAddr>>,
    kernel_events: Vec<libc::epoll_event>,
    /// Those of the last wait that polls have yet to look at.
    unseen: std::ops::Range<usize>,
    /// Those of looks since then, for the next wait.
    ahead: Vec<libc::epoll_event>,
    /// Sockets with events that no poll has handled yet, by their tokens' index. Some more may be
    /// here.
    announced: Vec<bool>,
    /// For so many more writes the last look is good. Events of the last poll.
    fresh: u32,
    handled: usize,
    ready: VecDeque<Token>,
    /// Events that arose outside of `poll`.
    early: Vec<Event>,
    buffer: Box<[u8]>,
    filled: usize,
    /// When resting listeners are to be tried again; 0: none rests.
    retry_at: u64,
    /// How many more connections each listener may accept; those without an entry, any number.
    rooms: Vec<(Token, usize)>,
}

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: a plain system call; the descriptor it returns has no other owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        let bell = common::bell(libc::EFD_NONBLOCK)?;
        let e = Epoll {
            epoll,
            bell: Arc::new(bell),
            sockets: Slots::new(),
            peers: Vec::new(),
            kernel_events: vec![libc::epoll_event { events: 0, u64: 0 }; BATCH],
            unseen: 0..0,
            ahead: Vec::with_capacity(BATCH),
            announced: Vec::new(),
            fresh: 0,
            handled: 0,
            ready: VecDeque::new(),
            early: Vec::new(),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            filled: 0,
            retry_at: 0,
            rooms: Vec::new(),
        };
        e.control(libc::EPOLL_CTL_ADD, e.bell.as_raw_fd(), libc::EPOLLIN, BELL)?;
        Ok(e)
    }

    fn control(&self, op: i32, fd: i32, events: i32, token: Token) -> io::Result<()> {
        let mut e = libc::epoll_event { events: events as u32, u64: token.0 };
        // SAFETY: `e` lives during the call.
        check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), op, fd, &mut e) }).map(drop)
    }

    /// Enters a connection's socket; its one and only registration.
    fn register(&mut self, fd: OwnedFd, flags: u16, peer: Option<SocketAddr>) -> io::Result<Token> {
        let raw = fd.as_raw_fd();
        let token = self.sockets.insert(EpollSocket { fd, flags });
        let i = token.0 as u32 as usize;
        if i >= self.peers.len() {
            self.peers.resize(i + 1, None);
            self.announced.resize(i + 1, false);
        }
        self.peers[i] = peer;
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        if let Err(e) = self.control(libc::EPOLL_CTL_ADD, raw, events, token) {
            self.sockets.remove(token);
            return Err(e);
        }
        Ok(token)
    }

    fn wait(&mut self, timeout: Option<Duration>, idle: bool) -> io::Result<usize> {
        // Those of looks, and those that have come since.
        let have = self.ahead.len();
        self.kernel_events[..have].copy_from_slice(&self.ahead);
        self.ahead.clear();
        if have == BATCH {
            return Ok(have);
        }
        let mut ms = match timeout {
            _ if !idle => 0,
            // Rounded up, so that the caller does not spin through the last millisecond.
            Some(d) => i32::try_from(d.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX),
            None => -1,
        };
        if self.retry_at != 0 && !(0..=50).contains(&ms) {
            ms = (ACCEPT_PAUSE_NS / 1_000_000) as i32;
        }
        let rest = &mut self.kernel_events[have..];
        // SAFETY: the buffer holds so many events and lives during the call.
        let n = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), rest.as_mut_ptr(), rest.len() as i32, ms) };
        match check(n) {
            Ok(n) => Ok(have + n as usize),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(have),
            Err(e) => Err(e),
        }
    }

    /// Asks for reports without waiting, and notes their sockets. True: a socket that was read
    /// empty and is not noted has got nothing until now.
    fn look(&mut self) -> bool {
        let (have, room) = (self.ahead.len(), BATCH - self.ahead.len());
        if room == 0 {
            return false;
        }
        self.ahead.resize(BATCH, libc::epoll_event { events: 0, u64: 0 });
        // SAFETY: the list has `room` more events behind those that it has.
        let n = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), self.ahead[have..].as_mut_ptr(), room as i32, 0) };
        let n = usize::try_from(n).ok();
        self.ahead.truncate(have + n.unwrap_or(0));
        let new = self.ahead[have..].iter().chain(&self.kernel_events[self.unseen.clone()]);
        for token in new.map(|e| e.u64) {
            if let Some(a) = self.announced.get_mut(token as u32 as usize) {
                *a = true;
            }
        }
        // A full list does not say which others there are.
        n.is_some_and(|n| n < room)
    }

    fn accept(&mut self, listener: Token, out: &mut Vec<Event>) {
        for _ in 0..ACCEPTS {
            if self.room(listener) == Some(0) {
                return self.shut_door(listener);
            }
            let Some(l) = self.sockets.get(listener) else { return };
            let mut addr = common::RawAddr::empty();
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            // SAFETY: `addr` has room for any address, and its length is given.
            let r = unsafe { libc::accept4(l.fd.as_raw_fd(), addr.as_mut_ptr(), &mut addr.len, flags) };
            let failure = match check(r) {
                Ok(fd) => {
                    // SAFETY: accept4 has just returned this descriptor; it has no other owner.
                    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
                    match self.register(fd, 0, addr.get()) {
                        Ok(conn) => {
                            if let Some(r) = self.rooms.iter_mut().find(|r| r.0 == listener) {
                                r.1 -= 1;
                            }
                            out.push(Event::Accepted { listener, conn });
                            continue;
                        }
                        Err(e) => e,
                    }
                }
                Err(e) => e,
            };
            match failure.raw_os_error() {
                Some(libc::EAGAIN) => return,
                Some(n) if common::is_exhaustion(n) || n == libc::ENOSPC => return self.rest(listener, out),
                // The one connection failed before it was accepted; the others did not.
                _ => {}
            }
        }
    }

    fn room(&self, listener: Token) -> Option<usize> {
        self.rooms.iter().find(|r| r.0 == listener).map(|r| r.1)
    }

    /// New clients wait in the listener's queue.
    fn shut_door(&mut self, listener: Token) {
        if let Some(l) = self.sockets.get(listener) {
            // Failing here cannot happen for a descriptor that is registered.
            let _ = self.control(libc::EPOLL_CTL_MOD, l.fd.as_raw_fd(), 0, listener);
        }
    }

    /// Leaves a listener alone for a while: level-triggered, it would report its queue again and
    /// again.
    fn rest(&mut self, listener: Token, out: &mut Vec<Event>) {
        out.push(Event::AcceptFailed { listener });
        let Some(l) = self.sockets.get_mut(listener) else { return };
        l.flags |= RESTING;
        let fd = l.fd.as_raw_fd();
        if self.control(libc::EPOLL_CTL_MOD, fd, 0, listener).is_ok() {
            self.retry_at = crate::clock::now() + ACCEPT_PAUSE_NS;
        }
    }

    fn wake_listeners(&mut self) {
        self.retry_at = 0;
        let resting: Vec<(Token, i32)> =
            self.sockets.iter().filter(|(_, s)| s.has(RESTING)).map(|(t, s)| (t, s.fd.as_raw_fd())).collect();
        for (token, fd) in resting {
            if let Some(s) = self.sockets.get_mut(token) {
                s.flags &= !RESTING;
            }
            // Failing here cannot happen for a descriptor that is registered; then the listener
            // stays silent.
            let _ = self.control(libc::EPOLL_CTL_MOD, fd, libc::EPOLLIN, token);
        }
    }

    /// One kernel event.
    #[inline]
    fn handle(&mut self, token: Token, mask: u32, out: &mut Vec<Event>) {
        if let Some(a) = self.announced.get_mut(token.0 as u32 as usize) {
            *a = false;
        }
        // The common case: nothing but input, where nothing is awaited but that.
        let plain = mask & !((libc::EPOLLIN | libc::EPOLLOUT) as u32) == 0 && mask & libc::EPOLLIN as u32 != 0;
        match self.sockets.get_mut(token) {
            Some(s) if plain && s.flags == 0 => {
                s.flags = READABLE;
                self.read(token, out);
            }
            _ => self.handle_any(token, mask, out),
        }
    }

    #[inline(never)]
    fn handle_any(&mut self, token: Token, mask: u32, out: &mut Vec<Event>) {
        if token == BELL {
            let mut n = 0u64;
            // SAFETY: reads eight bytes into a live u64.
            unsafe { libc::read(self.bell.as_raw_fd(), std::ptr::addr_of_mut!(n).cast(), 8) };
            return out.push(Event::Woken);
        }
        let is = |bits: i32| mask & bits as u32 != 0;
        let Some(s) = self.sockets.get_mut(token) else { return };
        if s.has(LISTENER) {
            return self.accept(token, out);
        }
        if s.has(CONNECTING) {
            return self.connected(token, mask, out);
        }
        if s.has(BLOCKED) && is(libc::EPOLLOUT) && !is(libc::EPOLLERR) {
            s.flags &= !BLOCKED;
            out.push(Event::Writable { conn: token });
        }
        if !is(libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) || s.has(BROKEN) {
            return;
        }
        if is(libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) {
            s.flags |= ENDING;
        }
        if s.has(EOF | PAUSED) {
            if !s.has(EOF) {
                s.flags |= READABLE;
            }
            if is(libc::EPOLLERR) {
                s.flags |= BROKEN;
                out.push(Event::Broken { conn: token });
            }
            return;
        }
        s.flags |= READABLE;
        if !s.has(QUEUED) {
            self.read(token, out);
        }
    }

    fn connected(&mut self, token: Token, mask: u32, out: &mut Vec<Event>) {
        let Some(s) = self.sockets.get_mut(token) else { return };
        let failed = mask & (libc::EPOLLERR | libc::EPOLLHUP) as u32 != 0
            || self.peers[token.0 as u32 as usize].is_none_or(|p| common::connected_to_itself(s.fd.as_raw_fd(), p));
        if failed {
            self.sockets.retire(token);
            return out.push(Event::ConnectFailed { conn: token, ours: false });
        }
        if mask & libc::EPOLLOUT as u32 == 0 {
            return;
        }
        s.flags &= !CONNECTING;
        out.push(Event::Connected { conn: token });
        // The peer may have spoken, or output been tried, already.
        self.handle(token, mask, out);
    }

    /// Reads once, or until the announced end; the connection goes on the ready list when more may
    /// be there.
    fn read(&mut self, token: Token, out: &mut Vec<Event>) {
        loop {
            let Some(s) = self.sockets.get_mut(token) else { return };
            let room = self.buffer.len() - self.filled;
            if room < MIN_ROOM {
                s.flags |= QUEUED;
                return self.ready.push_back(token);
            }
            let want = room.min(MAX_RECV);
            let target = &mut self.buffer[self.filled..self.filled + want];
            // SAFETY: `target` is `want` writable bytes.
            let n = unsafe { direct::recv(s.fd.as_raw_fd(), target.as_mut_ptr(), want) };
            if n > 0 {
                let n = n as usize;
                out.push(Event::Data { conn: token, start: self.filled as u32, len: n as u32 });
                self.filled += n;
                if n == want {
                    s.flags |= QUEUED;
                    return self.ready.push_back(token);
                }
                if s.has(ENDING) {
                    continue;
                }
                s.flags &= !READABLE;
                return;
            }
            match -n as i32 {
                libc::EINTR => continue,
                0 => {
                    s.flags |= EOF;
                    out.push(Event::Eof { conn: token });
                }
                libc::EAGAIN => {}
                _ => {
                    s.flags |= BROKEN;
                    out.push(Event::Broken { conn: token });
                }
            }
            s.flags &= !READABLE;
            return;
        }
    }

    /// Connections that were not read to the end last time, each once.
    fn read_ready(&mut self, out: &mut Vec<Event>) {
        for _ in 0..self.ready.len() {
            let Some(token) = self.ready.pop_front() else { return };
            let Some(s) = self.sockets.get_mut(token) else { continue };
            s.flags &= !QUEUED;
            if s.has(READABLE) && !s.has(PAUSED | EOF | BROKEN) {
                self.read(token, out);
            }
        }
    }

    #[inline(always)]
    fn send(&mut self, conn: Token, slices: &[IoSlice<'_>], flags: i32) -> WriteResult {
        let Some(s) = self.sockets.get_mut(conn) else { return WriteResult::Broken };
        if s.has(BROKEN | LISTENER | BLOCKED | CONNECTING) {
            return s.refuse();
        }
        let total: usize = slices.iter().map(|s| s.len()).sum();
        if total == 0 {
            return WriteResult::Done(0);
        }
        let n = send(s.fd.as_raw_fd(), slices, flags);
        if n == total as isize {
            return WriteResult::Done(total);
        }
        s.not_all(n, slices, flags)
    }
}

impl EpollSocket {
    #[cold]
    fn refuse(&mut self) -> WriteResult {
        if self.has(BROKEN | LISTENER) {
            return WriteResult::Broken;
        }
        self.flags |= BLOCKED;
        WriteResult::Blocked
    }

    /// A send has taken less than all, or has failed.
    #[cold]
    fn not_all(&mut self, mut n: isize, slices: &[IoSlice<'_>], flags: i32) -> WriteResult {
        while n == -(libc::EINTR as isize) {
            n = send(self.fd.as_raw_fd(), slices, flags);
        }
        let total: usize = slices.iter().map(|s| s.len()).sum();
        if n >= 0 {
            if (n as usize) < total {
                self.flags |= BLOCKED;
            }
            return WriteResult::Done(n as usize);
        }
        if n == -(libc::EAGAIN as isize) {
            self.flags |= BLOCKED;
            return WriteResult::Blocked;
        }
        self.flags |= BROKEN;
        WriteResult::Broken
    }
}

/// One `send` or `sendmsg`; answers the bytes or the negative error number.
#[inline(always)]
fn send(fd: i32, slices: &[IoSlice<'_>], flags: i32) -> isize {
    let flags = flags | libc::MSG_NOSIGNAL;
    if let [one] = slices {
        // SAFETY: the slice is valid for its length.
        return unsafe { direct::send(fd, one.as_ptr(), one.len(), flags) };
    }
    send_many(fd, slices, flags)
}

#[inline(never)]
fn send_many(fd: i32, slices: &[IoSlice<'_>], flags: i32) -> isize {
    // SAFETY: IoSlice has the layout of iovec; the kernel only reads the headers and the slices.
    let n = unsafe {
        let mut m: libc::msghdr = std::mem::zeroed();
        m.msg_iov = slices.as_ptr().cast_mut().cast();
        m.msg_iovlen = slices.len() as _;
        libc::sendmsg(fd, &m, flags)
    };
    if n < 0 {
        -(common::errno() as isize)
    } else {
        n
    }
}

impl Engine for Epoll {
    fn name(&self) -> &'static str {
        "epoll"
    }

    fn listen(&mut self, addr: SocketAddr) -> io::Result<Token> {
        let fd = common::listener(addr, libc::SOCK_NONBLOCK)?;
        let raw = fd.as_raw_fd();
        let token = self.sockets.insert(EpollSocket { fd, flags: LISTENER });
        self.control(libc::EPOLL_CTL_ADD, raw, libc::EPOLLIN, token).inspect_err(|_| {
            self.sockets.remove(token);
        })?;
        Ok(token)
    }

    fn unlisten(&mut self, listener: Token) {
        // Clients in the queue have a finished handshake: closing the listener would reset them.
        self.rooms.retain(|r| r.0 != listener);
        let mut early = std::mem::take(&mut self.early);
        loop {
            let before = early.len();
            self.accept(listener, &mut early);
            if early.len() - before < ACCEPTS {
                break;
            }
        }
        self.early = early;
        self.sockets.remove(listener);
    }

    fn admit(&mut self, listener: Token, n: usize) {
        let Some(l) = self.sockets.get(listener) else { return };
        let (raw, resting) = (l.fd.as_raw_fd(), l.has(RESTING));
        let Some(r) = self.rooms.iter_mut().find(|r| r.0 == listener) else { return self.rooms.push((listener, n)) };
        let shut = r.1 == 0;
        r.1 = r.1.saturating_add(n);
        if shut && n > 0 && !resting {
            // As in `shut_door`.
            let _ = self.control(libc::EPOLL_CTL_MOD, raw, libc::EPOLLIN, listener);
        }
    }

    fn queued(&self, listener: Token) -> usize {
        self.sockets.get(listener).map_or(0, |l| common::accept_queue(l.fd.as_raw_fd()))
    }

    fn keep_alive(&mut self, conn: Token, how: Keepalive) {
        if let Some(s) = self.sockets.get(conn) {
            how.set(s.fd.as_raw_fd());
        }
    }

    fn connect(&mut self, addr: SocketAddr) -> io::Result<Token> {
        let fd = common::tcp_socket(addr, libc::SOCK_NONBLOCK)?;
        common::set_option(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
        let a = common::RawAddr::of(addr);
        // SAFETY: `a` is a valid address of the length given.
        let r = check(unsafe { libc::connect(fd.as_raw_fd(), a.as_ptr(), a.len) });
        match r {
            Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
            _ => self.register(fd, CONNECTING, Some(addr)),
        }
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.filled = 0;
        self.sockets.reuse();
        if self.unseen.is_empty() {
            let idle = self.early.is_empty() && self.ready.is_empty() && self.ahead.is_empty();
            events.append(&mut self.early);
            self.unseen = 0..self.wait(timeout, idle)?;
            if !self.ready.is_empty() {
                self.read_ready(events);
            }
        }
        (self.fresh, self.handled) = (0, self.unseen.len().min(PART));
        for _ in 0..PART {
            let Some(i) = self.unseen.next() else { break };
            let e = self.kernel_events[i];
            self.handle(Token(e.u64), e.events, events);
        }
        if self.retry_at != 0 && crate::clock::now() >= self.retry_at {
            self.wake_listeners();
        }
        Ok(())
    }

    fn more(&self) -> bool {
        !self.unseen.is_empty()
    }

    fn data(&self, start: u32, len: u32) -> &[u8] {
        &self.buffer[start as usize..][..len as usize]
    }

    fn writes_at_once(&self) -> bool {
        true
    }

    unsafe fn write(&mut self, conn: Token, slices: &[IoSlice<'_>]) -> WriteResult {
        self.send(conn, slices, 0)
    }

    unsafe fn write_last(&mut self, conn: Token, slices: &[IoSlice<'_>]) -> WriteResult {
        // The kernel sends the bytes held back by MSG_MORE with the FIN of the close. That saves a
        // segment, and a wake-up of the peer.
        self.send(conn, slices, libc::MSG_MORE)
    }

    fn waiting(&mut self, conn: Token) -> Waiting {
        let Some(s) = self.sockets.get(conn) else { return Waiting::End };
        let (fd, plain) = (s.fd.as_raw_fd(), s.flags == 0);
        if !plain || self.handled < LEAST_EVENTS {
            return direct::waiting(fd);
        }
        if self.fresh == 0 {
            if !self.look() {
                return direct::waiting(fd);
            }
            self.fresh = LOOKED;
        }
        self.fresh -= 1;
        match self.announced[conn.0 as u32 as usize] {
            false => Waiting::Nothing,
            true => direct::waiting(fd),
        }
    }

    fn watch(&mut self, fd: std::os::fd::RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN, WATCHED)
    }

    fn take_place(&mut self, listener: Token) -> bool {
        let Some(r) = self.rooms.iter_mut().find(|r| r.0 == listener && r.1 > 0) else { return false };
        r.1 -= 1;
        true
    }

    fn release(&mut self, conn: Token) -> Release {
        let Some(s) = self.sockets.get(conn) else { return Release::Never };
        // Its other pending events would be lost.
        if s.has(LISTENER | CONNECTING | BLOCKED | EOF | ENDING | BROKEN)
            || self.control(libc::EPOLL_CTL_DEL, s.fd.as_raw_fd(), 0, conn).is_err()
        {
            return Release::Never;
        }
        self.sockets.remove(conn).map_or(Release::Never, |s| Release::Gone(s.fd, Vec::new()))
    }

    fn adopt(&mut self, fd: OwnedFd, peer: SocketAddr) -> io::Result<Token> {
        // A new edge reports its input.
        self.register(fd, 0, Some(peer))
    }

    fn pause(&mut self, conn: Token, paused: bool) {
        let Some(s) = self.sockets.get_mut(conn) else { return };
        if paused {
            s.flags |= PAUSED;
            return;
        }
        s.flags &= !PAUSED;
        if s.has(READABLE) && !s.has(QUEUED) {
            s.flags |= QUEUED;
            self.ready.push_back(conn);
        }
    }

    fn shutdown(&mut self, conn: Token) {
        if let Some(s) = self.sockets.get(conn) {
            common::half_close(s.fd.as_raw_fd());
        }
    }

    fn close(&mut self, conn: Token, reset: bool) {
        if let Some(s) = self.sockets.remove(conn) {
            if reset {
                common::reset_on_close(s.fd.as_raw_fd());
            }
        }
    }

    fn pending_close(&self, _: Token) -> bool {
        false
    }

    fn addresses(&self, conn: Token) -> Option<(SocketAddr, SocketAddr)> {
        let s = self.sockets.get(conn)?;
        let local = common::local_address(s.fd.as_raw_fd())?;
        let peer = self.peers.get(conn.0 as u32 as usize).copied().flatten();
        Some((local, if s.has(LISTENER) { local } else { peer.unwrap_or(local) }))
    }

    fn waker(&self) -> Waker {
        Waker(Some(self.bell.clone()))
    }
}
