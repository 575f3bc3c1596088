//! The io_uring engine: multishot accept and receive into a ring of provided buffers. Sends are
//! queued and submitted with the one `io_uring_enter` of the next `poll`.
//!
//! Received bytes stay in the provided buffers until the next `poll`, which returns them to the
//! kernel. Where the kernel can (6.12), buffers are consumed piecewise, so that small messages of
//! many connections lie side by side. Bytes for a paused connection are copied aside, because a
//! stalled connection must not keep shared buffers. The ring belongs to the thread that opened it
//! (SINGLE_ISSUER): open the engine where it is polled.

use super::common::{self, Slots, ACCEPT_PAUSE_NS};
use super::ring::{BufferRing, Send};
use super::{direct, Engine, Event, Keepalive, Release, Token, Waiting, Waker, WriteResult};
use io_uring::{cqueue, opcode, squeue, types, IoUring};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

const ENTRIES: u32 = 1024;
const COMPLETIONS: u32 = 8192;
const GETEVENTS: u32 = 1;
const EXT_ARG: u32 = 8;

// The kind of an operation, in the upper four bits of its user data; below it the token.
const IGNORED: u64 = 0;
const ACCEPT: u64 = 1 << 60;
const RECV: u64 = 2 << 60;
const SEND: u64 = 3 << 60;
const CONNECT: u64 = 4 << 60;
const WATCH: u64 = 5 << 60;
const BELL: u64 = 6 << 60;
const OTHERS: u64 = 7 << 60;
const TOKEN: u64 = (1 << 60) - 1;

const LISTENER: u16 = 1;
const CONNECTING: u16 = 2;
/// Output was refused while connecting: `Writable` is owed.
const BLOCKED: u16 = 4;
const RECEIVING: u16 = 8;
const SENDING: u16 = 16;
const PAUSED: u16 = 32;
const EOF: u16 = 64;
const BROKEN: u16 = 128;
const CLOSED: u16 = 256;
const WATCHED: u16 = 512;
/// Half close as soon as the offered bytes are sent.
const SHUTTING: u16 = 1024;
/// A listener that waits for descriptors.
const RESTING: u16 = 2048;
/// The end of the input while paused, to be reported on resumption.
const HELD_EOF: u16 = 4096;
/// A listener's accept is with the kernel.
const ACCEPTING: u16 = 8192;

struct UringSocket {
    /// None once closed.
    fd: Option<OwnedFd>,
    flags: u16,
    /// Operations the kernel has not finished; the slot stays while there are any.
    operations: u16,
    peer: Option<SocketAddr>,
    send: Option<Box<Send>>,
    connect: Option<Box<common::RawAddr>>,
    /// Bytes that came while paused.
    held: Vec<u8>,
}

impl UringSocket {
    fn new(fd: OwnedFd, flags: u16, peer: Option<SocketAddr>) -> UringSocket {
        UringSocket { fd: Some(fd), flags, operations: 0, peer, send: None, connect: None, held: Vec::new() }
    }

    fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    fn raw(&self) -> i32 {
        self.fd.as_ref().map_or(-1, |f| f.as_raw_fd())
    }
}

/// An operation that found no place with the kernel.
enum Late {
    /// Wake-ups by other threads.
    Bell,
    /// A look at the descriptor that others read.
    Others,
    Receive(Token),
    Watch(Token),
    Accept(Token),
    Connect(Token),
    /// A send, of which the caller is told that it may try again.
    Write(Token),
    /// The end of another operation.
    Cancel(u64),
    /// Of a socket that is closed. `cancelled`: the end of its operations is on its way.
    Close {
        fd: OwnedFd,
        cancelled: bool,
    },
}

pub struct Uring {
    ring: IoUring,
    buffers: BufferRing,
    bell: Arc<OwnedFd>,
    bell_count: Box<u64>,
    /// A descriptor that others read (`watch`).
    others: Option<i32>,
    sockets: Slots<UringSocket>,
    early: Vec<Event>,
    /// Connections whose held input is due.
    resumed: Vec<Token>,
    /// Operations that found no place with the kernel. They are tried again in the next poll.
    late: Vec<Late>,
    /// Tests: each so many operations find no place; 0: none.
    #[cfg(test)]
    pub refuses: u32,
    #[cfg(test)]
    asked: u32,
    /// Held input delivered in this batch; its positions follow those of the buffers.
    aside: Vec<u8>,
    /// Boxed: the kernel reads a send's header where it lies.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<Send>>,
    completions: Vec<(u64, i32, u32)>,
    retry_at: u64,
    /// How many more connections each listener may accept; those without an entry, any number.
    rooms: Vec<(Token, usize)>,
    /// Listeners that accept from the next poll on: `admit` may bound them before.
    new_listeners: Vec<Token>,
}

impl Uring {
    /// Fails where the kernel has no or too old an io_uring, or does not allow it.
    pub fn new() -> io::Result<Uring> {
        let ring: IoUring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .setup_clamp()
            .build(ENTRIES)?;
        let p = ring.params();
        if !(p.is_feature_nodrop() && p.is_feature_ext_arg() && p.is_feature_submit_stable()) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let buffers = BufferRing::new(&ring)?;
        let bell = Arc::new(common::bell(0)?);
        let mut e = Uring {
            ring,
            buffers,
            bell,
            bell_count: Box::new(0),
            others: None,
            sockets: Slots::new(),
            early: Vec::new(),
            resumed: Vec::new(),
            late: Vec::new(),
            #[cfg(test)]
            refuses: 0,
            #[cfg(test)]
            asked: 0,
            aside: Vec::new(),
            spare: Vec::new(),
            completions: Vec::new(),
            retry_at: 0,
            rooms: Vec::new(),
            new_listeners: Vec::new(),
        };
        e.listen_for_bell();
        // Multishot receive is newer than the rest (6.0): see that the kernel takes the operations
        // at all.
        e.enter(0, Some(Duration::ZERO))?;
        Ok(e)
    }

    /// Queues an entry. It fails if the kernel takes no more, which a machine under load may meet.
    fn push(&mut self, entry: squeue::Entry) -> io::Result<()> {
        #[cfg(test)]
        {
            self.asked += 1;
            if self.refuses > 0 && self.asked.is_multiple_of(self.refuses) {
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
        }
        let mut flushed = false;
        loop {
            // SAFETY: the memory that an entry names lives in its socket's slot or in `self`, or
            // the caller of `write` vouches for it. It stays until the operation has completed.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            match self.ring.submit() {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The kernel takes no entries before the completions have been fetched.
                Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN)) => {
                    if self.fetch() == 0 {
                        if flushed {
                            return Err(e);
                        }
                        // Those that had no place of their own come with a look for events.
                        flushed = true;
                        self.enter(0, Some(Duration::ZERO))?;
                    }
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Queues an entry that is no operation of a socket; it is tried again if it finds no place.
    fn push_or_later(&mut self, entry: squeue::Entry, late: Late) {
        if self.push(entry).is_err() {
            self.late.push(late);
        }
    }

    /// Has the kernel end an operation of a socket.
    fn cancel(&mut self, operation: u64) {
        let cancel = opcode::AsyncCancel::new(operation).build().flags(squeue::Flags::SKIP_SUCCESS);
        self.push_or_later(cancel.user_data(IGNORED), Late::Cancel(operation));
    }

    /// Tries operations again that found no place with the kernel before.
    fn try_again(&mut self, out: &mut Vec<Event>) {
        for late in std::mem::take(&mut self.late) {
            match late {
                Late::Bell => self.listen_for_bell(),
                Late::Others => self.watch_others(),
                Late::Receive(token) => self.receive(token),
                Late::Watch(token) => self.watch(token),
                Late::Accept(listener) => self.accept(listener),
                Late::Connect(token) => self.start_connect(token),
                Late::Write(conn) => {
                    let open = self.sockets.get(conn).is_some_and(|s| !s.has(CLOSED | BROKEN));
                    out.extend(open.then_some(Event::Writable { conn }));
                }
                Late::Cancel(operation) => self.cancel(operation),
                Late::Close { fd, cancelled } => self.close_fd(fd, cancelled),
            }
        }
    }

    /// Fetches completions; how many.
    fn fetch(&mut self) -> usize {
        let before = self.completions.len();
        self.completions.extend(self.ring.completion().map(|c| (c.user_data(), c.result(), c.flags())));
        self.completions.len() - before
    }

    /// Queues an operation of a socket and counts it.
    fn start(&mut self, token: Token, kind: u64, entry: squeue::Entry) -> bool {
        let ok = self.push(entry.user_data(kind | token.0)).is_ok();
        if ok {
            if let Some(s) = self.sockets.get_mut(token) {
                s.operations += 1;
            }
        }
        ok
    }

    fn listen_for_bell(&mut self) {
        let target: *mut u64 = &mut *self.bell_count;
        let read = opcode::Read::new(types::Fd(self.bell.as_raw_fd()), target.cast(), 8).build();
        self.push_or_later(read.user_data(BELL), Late::Bell);
    }

    /// Asks once whether the watched descriptor is readable.
    fn watch_others(&mut self) {
        let Some(fd) = self.others else { return };
        let op = opcode::PollAdd::new(types::Fd(fd), libc::POLLIN as u32).build();
        self.push_or_later(op.user_data(OTHERS), Late::Others);
    }

    /// Queues an operation of a socket that has `flag` while it is with the kernel.
    fn begin(&mut self, token: Token, (kind, flag): (u64, u16), op: squeue::Entry, late: Late) {
        let begun = self.start(token, kind, op);
        if let Some(s) = self.sockets.get_mut(token).filter(|_| begun) {
            s.flags |= flag;
        } else {
            self.late.push(late);
        }
    }

    fn receive(&mut self, token: Token) {
        let Some(s) = self.sockets.get_mut(token) else { return };
        if s.has(RECEIVING | PAUSED | EOF | BROKEN | CLOSED | CONNECTING) {
            return;
        }
        let op = opcode::RecvMulti::new(types::Fd(s.raw()), BufferRing::GROUP).build();
        self.begin(token, (RECV, RECEIVING), op, Late::Receive(token));
    }

    /// Has the kernel tell when a connection that we do not read from breaks.
    fn watch(&mut self, token: Token) {
        let Some(s) = self.sockets.get_mut(token) else { return };
        if s.has(WATCHED | BROKEN | CLOSED | CONNECTING) {
            return;
        }
        let op = opcode::PollAdd::new(types::Fd(s.raw()), libc::POLLERR as u32).build();
        self.begin(token, (WATCH, WATCHED), op, Late::Watch(token));
    }

    fn accept(&mut self, listener: Token) {
        let Some(s) = self.sockets.get_mut(listener) else { return };
        if s.has(CLOSED | ACCEPTING) || self.rooms.contains(&(listener, 0)) {
            return;
        }
        s.flags &= !RESTING;
        let fd = types::Fd(s.raw());
        // The kernel may accept all that wait before we can stop it.
        let few = self.rooms.iter().any(|r| r.0 == listener && r.1 <= common::BACKLOG);
        let op = match few {
            true => {
                opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut()).flags(libc::SOCK_CLOEXEC).build()
            }
            false => opcode::AcceptMulti::new(fd).flags(libc::SOCK_CLOEXEC).build(),
        };
        self.begin(listener, (ACCEPT, ACCEPTING), op, Late::Accept(listener));
    }

    /// Submits the queued entries, waits for `want` completions and fetches all completions.
    fn enter(&mut self, want: u32, timeout: Option<Duration>) -> io::Result<()> {
        let ts = timeout.map(types::Timespec::from);
        let args = match &ts {
            Some(ts) => types::SubmitArgs::new().timespec(ts),
            None => types::SubmitArgs::new(),
        };
        let queued = self.ring.submission().len() as u32;
        // SAFETY: with EXT_ARG the argument is an io_uring_getevents_arg, which SubmitArgs is; `ts`
        // outlives the call.
        let r = unsafe { self.ring.submitter().enter(queued, want, GETEVENTS | EXT_ARG, Some(&args)) };
        if let Err(e) = r {
            let passing = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN];
            if !e.raw_os_error().is_some_and(|n| passing.contains(&n)) {
                return Err(e);
            }
        }
        self.fetch();
        Ok(())
    }

    fn complete(&mut self, data: u64, result: i32, flags: u32, out: &mut Vec<Event>) {
        let (kind, token) = (data & !TOKEN, Token(data & TOKEN));
        if kind == BELL {
            out.push(Event::Woken);
            return self.listen_for_bell();
        }
        if kind == OTHERS {
            // Asked when it is still readable, it completes at once.
            return self.watch_others();
        }
        let done = !cqueue::more(flags);
        if let Some(s) = self.sockets.get_mut(token) {
            s.operations -= u16::from(done && kind != IGNORED);
        }
        match kind {
            ACCEPT => self.accepted(token, result, done, out),
            RECV => self.received(token, result, flags, out),
            SEND => self.sent(token, result, out),
            CONNECT => self.connected(token, result, out),
            WATCH => self.watched(token, result, out),
            _ => {}
        }
        if self.sockets.get(token).is_some_and(|s| s.has(CLOSED) && s.operations == 0) {
            self.sockets.remove(token);
        }
    }

    fn accepted(&mut self, listener: Token, result: i32, done: bool, out: &mut Vec<Event>) {
        if let (true, Some(s)) = (done, self.sockets.get_mut(listener)) {
            s.flags &= !ACCEPTING;
        }
        if result >= 0 {
            self.let_in(listener);
            // SAFETY: the kernel has just given us this descriptor; it has no other owner.
            let fd = unsafe { OwnedFd::from_raw_fd(result) };
            let conn = self.sockets.insert(UringSocket::new(fd, 0, None));
            out.push(Event::Accepted { listener, conn });
            self.receive(conn);
        } else if common::is_exhaustion(-result) {
            out.push(Event::AcceptFailed { listener });
            if let Some(s) = self.sockets.get_mut(listener) {
                s.flags |= RESTING;
                self.retry_at = crate::clock::now() + ACCEPT_PAUSE_NS;
                return;
            }
        }
        if done {
            self.accept(listener);
        }
    }

    /// Counts an accepted connection. With few places left, the kernel accepts one at a time, and
    /// after the last one none.
    fn let_in(&mut self, listener: Token) {
        let Some(r) = self.rooms.iter_mut().find(|r| r.0 == listener) else { return };
        let stops = r.1 == 1 || r.1 == common::BACKLOG + 1;
        r.1 = r.1.saturating_sub(1);
        if stops {
            self.cancel(listener.0 | ACCEPT);
        }
    }

    fn received(&mut self, token: Token, result: i32, flags: u32, out: &mut Vec<Event>) {
        let piece = cqueue::buffer_select(flags).map(|id| {
            let n = result.max(0) as u32;
            (self.buffers.take(id, n, cqueue::buffer_more(flags)), n)
        });
        let Some(s) = self.sockets.get_mut(token) else { return };
        let done = !cqueue::more(flags);
        if done {
            s.flags &= !RECEIVING;
        }
        if s.has(CLOSED | BROKEN) {
            return;
        }
        // Input in order: input behind held input is held too.
        let hold = s.has(PAUSED) || !s.held.is_empty();
        match (result, piece) {
            (1.., Some((start, len))) if hold => s.held.extend_from_slice(self.buffers.bytes(start, len)),
            (1.., Some((start, len))) => out.push(Event::Data { conn: token, start, len }),
            (0, _) if hold => s.flags |= EOF | HELD_EOF,
            (0, _) => {
                s.flags |= EOF;
                out.push(Event::Eof { conn: token });
            }
            (n, _) if n == -libc::ENOBUFS || n == -libc::ECANCELED || n == -libc::EINTR || n > 0 => {}
            _ => {
                s.flags |= BROKEN;
                return out.push(Event::Broken { conn: token });
            }
        }
        if s.has(EOF) {
            self.watch(token);
        } else if done {
            self.receive(token);
        }
    }

    fn sent(&mut self, token: Token, result: i32, out: &mut Vec<Event>) {
        let Some(s) = self.sockets.get_mut(token) else { return };
        s.flags &= !SENDING;
        let Some(send) = s.send.take() else { return };
        let whole = result >= 0 && result as usize == send.total;
        self.spare.push(send);
        if s.has(CLOSED | BROKEN) {
            return;
        }
        match result {
            0.. => out.push(Event::Sent { conn: token, len: result as u32 }),
            n if n == -libc::EINTR || n == -libc::EAGAIN => out.push(Event::Sent { conn: token, len: 0 }),
            _ => {
                s.flags |= BROKEN;
                return out.push(Event::Broken { conn: token });
            }
        }
        if whole && s.has(SHUTTING) {
            s.flags &= !SHUTTING;
            common::half_close(s.raw());
        }
    }

    fn connected(&mut self, token: Token, result: i32, out: &mut Vec<Event>) {
        let Some(s) = self.sockets.get_mut(token) else { return };
        s.connect = None;
        if s.has(CLOSED) {
            return;
        }
        if result < 0 || s.peer.is_none_or(|p| common::connected_to_itself(s.raw(), p)) {
            self.sockets.retire(token);
            let ours = common::is_exhaustion(-result);
            return out.push(Event::ConnectFailed { conn: token, ours });
        }
        s.flags &= !CONNECTING;
        out.push(Event::Connected { conn: token });
        if s.has(BLOCKED) {
            s.flags &= !BLOCKED;
            out.push(Event::Writable { conn: token });
        }
        if s.has(PAUSED) {
            self.watch(token);
        } else {
            self.receive(token);
        }
    }

    fn watched(&mut self, token: Token, result: i32, out: &mut Vec<Event>) {
        let Some(s) = self.sockets.get_mut(token) else { return };
        s.flags &= !WATCHED;
        // A connection that is read from says so itself, after its last bytes.
        let silent = s.has(PAUSED | EOF) && !s.has(CLOSED | BROKEN);
        if silent && result > 0 && result & i32::from(libc::POLLERR) != 0 {
            s.flags |= BROKEN;
            out.push(Event::Broken { conn: token });
        }
    }

    /// Delivers held input of connections that are read again.
    fn deliver_held(&mut self, out: &mut Vec<Event>) {
        for token in std::mem::take(&mut self.resumed) {
            let Some(s) = self.sockets.get_mut(token) else { continue };
            if s.has(PAUSED | CLOSED | BROKEN) {
                continue;
            }
            if !s.held.is_empty() {
                let start = BufferRing::BYTES + self.aside.len() as u32;
                self.aside.append(&mut s.held);
                s.held = Vec::new();
                let len = BufferRing::BYTES + self.aside.len() as u32 - start;
                out.push(Event::Data { conn: token, start, len });
            }
            if s.has(HELD_EOF) {
                s.flags &= !HELD_EOF;
                out.push(Event::Eof { conn: token });
            }
            self.receive(token);
        }
    }

    fn wake_listeners(&mut self) {
        self.retry_at = 0;
        let resting: Vec<Token> = self.sockets.iter().filter(|(_, s)| s.has(RESTING)).map(|(t, _)| t).collect();
        for token in resting {
            self.accept(token);
        }
    }

    /// Cancels a socket's operations and closes it, in this order in the queue and after sends
    /// queued before.
    fn retire(&mut self, token: Token) {
        let Some(s) = self.sockets.get_mut(token) else { return };
        s.flags |= CLOSED;
        s.held = Vec::new();
        let (idle, fd) = (s.operations == 0, s.fd.take());
        let Some(fd) = fd else { return };
        if idle {
            self.sockets.remove(token);
            return;
        }
        self.close_fd(fd, false);
    }

    /// Ends all operations of a descriptor, unless that is done, and closes it. It stays open until
    /// both are with the kernel: another socket with its number would have its operations ended.
    fn close_fd(&mut self, fd: OwnedFd, cancelled: bool) {
        let (target, quiet) = (types::Fd(fd.as_raw_fd()), squeue::Flags::SKIP_SUCCESS);
        let cancel = opcode::AsyncCancel2::new(types::CancelBuilder::fd(target).all()).build();
        let cancelled = cancelled || self.push(cancel.flags(quiet).user_data(IGNORED)).is_ok();
        let close = opcode::Close::new(target).build();
        if cancelled && self.push(close.flags(quiet).user_data(IGNORED)).is_ok() {
            // The close operation owns the descriptor now.
            let _ = fd.into_raw_fd();
        } else {
            self.late.push(Late::Close { fd, cancelled });
        }
    }

    fn start_connect(&mut self, token: Token) {
        let Some(s) = self.sockets.get(token).filter(|s| s.has(CONNECTING)) else { return };
        let Some(a) = &s.connect else { return };
        let op = opcode::Connect::new(types::Fd(s.raw()), a.as_ptr(), a.len).build();
        if !self.start(token, CONNECT, op) {
            self.late.push(Late::Connect(token));
        }
    }
}

impl Engine for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn watch(&mut self, fd: i32) -> io::Result<()> {
        self.others = Some(fd);
        self.watch_others();
        Ok(())
    }

    fn listen(&mut self, addr: SocketAddr) -> io::Result<Token> {
        let fd = common::listener(addr, 0)?;
        let token = self.sockets.insert(UringSocket::new(fd, LISTENER, None));
        self.new_listeners.push(token);
        Ok(token)
    }

    fn unlisten(&mut self, listener: Token) {
        let Some(raw) = self.sockets.get(listener).map(UringSocket::raw) else { return };
        // Clients in the queue have a finished handshake: closing the listener would reset them.
        self.rooms.retain(|r| r.0 != listener);
        // SAFETY: plain system calls on our own socket.
        unsafe { libc::fcntl(raw, libc::F_SETFL, libc::O_NONBLOCK) };
        loop {
            // SAFETY: no address is requested; the descriptor returned has no other owner.
            let fd = unsafe { libc::accept4(raw, std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_CLOEXEC) };
            if fd < 0 {
                break;
            }
            let mut early = std::mem::take(&mut self.early);
            self.accepted(listener, fd, false, &mut early);
            self.early = early;
        }
        self.retire(listener);
    }

    fn admit(&mut self, listener: Token, n: usize) {
        match self.rooms.iter_mut().find(|r| r.0 == listener) {
            Some(r) => r.1 = r.1.saturating_add(n),
            None => self.rooms.push((listener, n)),
        }
        self.accept(listener);
    }

    fn queued(&self, listener: Token) -> usize {
        self.sockets.get(listener).map_or(0, |l| common::accept_queue(l.raw()))
    }

    fn keep_alive(&mut self, conn: Token, how: Keepalive) {
        if let Some(s) = self.sockets.get(conn) {
            how.set(s.raw());
        }
    }

    fn connect(&mut self, addr: SocketAddr) -> io::Result<Token> {
        let fd = common::tcp_socket(addr, 0)?;
        common::set_option(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
        let mut s = UringSocket::new(fd, CONNECTING, Some(addr));
        s.connect = Some(Box::new(common::RawAddr::of(addr)));
        let token = self.sockets.insert(s);
        self.start_connect(token);
        Ok(token)
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.buffers.give_back();
        self.aside.clear();
        self.sockets.reuse();
        events.append(&mut self.early);
        for listener in std::mem::take(&mut self.new_listeners) {
            self.accept(listener);
        }
        if !self.resumed.is_empty() {
            self.deliver_held(events);
        }
        self.try_again(events);
        let mut timeout = timeout;
        if self.retry_at != 0 {
            let pause = Duration::from_nanos(ACCEPT_PAUSE_NS);
            timeout = Some(timeout.map_or(pause, |t| t.min(pause)));
        }
        let waits = events.is_empty() && self.late.is_empty() && timeout != Some(Duration::ZERO);
        self.enter(u32::from(waits), timeout)?;
        let mut completions = std::mem::take(&mut self.completions);
        while !completions.is_empty() {
            for (data, result, flags) in completions.drain(..) {
                self.complete(data, result, flags, events);
            }
            // A full queue of entries may have fetched more meanwhile.
            std::mem::swap(&mut completions, &mut self.completions);
        }
        self.completions = completions;
        if self.retry_at != 0 && crate::clock::now() >= self.retry_at {
            self.wake_listeners();
        }
        Ok(())
    }

    fn data(&self, start: u32, len: u32) -> &[u8] {
        match start.checked_sub(BufferRing::BYTES) {
            None => self.buffers.bytes(start, len),
            Some(at) => &self.aside[at as usize..][..len as usize],
        }
    }

    unsafe fn write(&mut self, conn: Token, slices: &[IoSlice<'_>]) -> WriteResult {
        let Some(s) = self.sockets.get_mut(conn) else { return WriteResult::Broken };
        if s.has(BROKEN | LISTENER | CLOSED) {
            return WriteResult::Broken;
        }
        if s.has(CONNECTING) {
            s.flags |= BLOCKED;
            return WriteResult::Blocked;
        }
        if s.has(SENDING) {
            // The caller has output in flight; `Sent` will come.
            return WriteResult::Blocked;
        }
        if slices.iter().all(|s| s.is_empty()) {
            return WriteResult::Done(0);
        }
        let mut send = self.spare.pop().unwrap_or_default();
        let op = send.prepare(s.raw(), slices);
        s.send = Some(send);
        s.flags |= SENDING;
        if !self.start(conn, SEND, op) {
            if let Some(s) = self.sockets.get_mut(conn) {
                s.flags &= !SENDING;
                self.spare.extend(s.send.take());
            }
            self.late.push(Late::Write(conn));
            return WriteResult::Blocked;
        }
        WriteResult::InFlight
    }

    fn waiting(&mut self, conn: Token) -> Waiting {
        // The kernel fills our buffers only in `poll` (DEFER_TASKRUN): later input is in the
        // socket.
        self.sockets.get(conn).map_or(Waiting::End, |s| direct::waiting(s.raw()))
    }

    fn take_place(&mut self, listener: Token) -> bool {
        let free = self.rooms.iter().any(|r| r.0 == listener && r.1 > 0);
        if free {
            self.let_in(listener);
        }
        free
    }

    fn release(&mut self, conn: Token) -> Release {
        let Some(s) = self.sockets.get_mut(conn) else { return Release::Never };
        if s.has(LISTENER | CONNECTING | SENDING | EOF | BROKEN | CLOSED) {
            return Release::Never;
        }
        if s.operations == 0 {
            // Nothing in the kernel names it any more.
            let gone = s.fd.take().map(|fd| Release::Gone(fd, std::mem::take(&mut s.held)));
            self.sockets.remove(conn);
            return gone.unwrap_or(Release::Never);
        }
        s.flags |= PAUSED;
        for (flag, kind) in [(RECEIVING, RECV), (WATCHED, WATCH)] {
            if self.sockets.get(conn).is_some_and(|s| s.has(flag)) {
                self.cancel(kind | conn.0);
            }
        }
        Release::Later
    }

    fn adopt(&mut self, fd: OwnedFd, peer: SocketAddr) -> io::Result<Token> {
        let conn = self.sockets.insert(UringSocket::new(fd, 0, Some(peer)));
        self.receive(conn);
        Ok(conn)
    }

    fn pause(&mut self, conn: Token, paused: bool) {
        let Some(s) = self.sockets.get_mut(conn) else { return };
        if s.has(PAUSED) == paused || s.has(CLOSED) {
            return;
        }
        if !paused {
            s.flags &= !PAUSED;
            return self.resumed.push(conn);
        }
        s.flags |= PAUSED;
        if s.has(RECEIVING) {
            self.cancel(RECV | conn.0);
        }
        self.watch(conn);
    }

    fn shutdown(&mut self, conn: Token) {
        let Some(s) = self.sockets.get_mut(conn) else { return };
        if s.has(SENDING) {
            s.flags |= SHUTTING;
        } else {
            common::half_close(s.raw());
        }
    }

    fn close(&mut self, conn: Token, reset: bool) {
        let Some(s) = self.sockets.get(conn) else { return };
        if reset && !s.has(CLOSED) {
            common::reset_on_close(s.raw());
        }
        self.retire(conn);
    }

    fn pending_close(&self, conn: Token) -> bool {
        self.sockets.get(conn).is_some_and(|s| s.has(SENDING))
    }

    fn addresses(&self, conn: Token) -> Option<(SocketAddr, SocketAddr)> {
        let s = self.sockets.get(conn)?;
        let local = common::local_address(s.raw())?;
        let peer = if s.has(LISTENER) { Some(local) } else { s.peer.or_else(|| common::peer_address(s.raw())) };
        Some((local, peer?))
    }

    fn waker(&self) -> Waker {
        Waker(Some(self.bell.clone()))
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Wait until the kernel has let go of our memory and of the caller's.
        let patience = types::Timespec::from(Duration::from_secs(1));
        let _ = self.ring.submitter().register_sync_cancel(Some(patience), types::CancelBuilder::any());
        self.buffers.unregister(&self.ring);
    }
}
