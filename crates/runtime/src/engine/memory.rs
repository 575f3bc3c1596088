//! The memory engine: connections inside of this process, and a clock that tests advance.
//!
//! The program's side is an [`Engine`]. The test's side is a [`Network`] (addresses, faults, time)
//! and a [`Peer`] per connection. Everything is deterministic. Events come in the order in which
//! connections were made. Each `Peer::send` is one `Data` event, so a test chooses the cuts. Time
//! advances only by [`Network::advance`].

use super::common::Slots;
use super::{Engine, Event, Token, Waiting, Waker, WriteResult, MAX_RECV};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// How the test's side treats connections that the program makes to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    Accept,
    Refuse,
    /// Neither accepts nor refuses.
    Silent,
}

/// How the program's direction of a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Open,
    /// Ended in order (half close or close).
    Ended,
    Reset,
}

/// One connection, both directions.
struct MemoryConnection {
    token: Option<Token>,
    local: SocketAddr,
    peer: SocketAddr,
    /// The listener it waits at, until it is accepted.
    listener: Option<Token>,
    connecting: bool,
    /// To the program: pieces, then perhaps an end.
    input: VecDeque<Vec<u8>>,
    input_ended: bool,
    eof_told: bool,
    broken: bool,
    broken_told: bool,
    paused: bool,
    /// From the program.
    output: Vec<u8>,
    /// Bytes the program may still write; None: any number.
    window: Option<usize>,
    blocked: bool,
    flight: Vec<(*const u8, usize)>,
    ending: Ending,
    shutting: bool,
    /// Writes of the program that the engine took bytes of.
    writes: usize,
    /// Each write of a line of datagrams.
    datagrams: Option<VecDeque<Vec<u8>>>,
    /// The address that datagrams of a client go to.
    target: Option<Token>,
}

impl MemoryConnection {
    fn new(local: SocketAddr, peer: SocketAddr) -> MemoryConnection {
        MemoryConnection {
            token: None,
            local,
            peer,
            listener: None,
            connecting: false,
            input: VecDeque::new(),
            input_ended: false,
            eof_told: false,
            broken: false,
            broken_told: false,
            paused: false,
            output: Vec::new(),
            window: None,
            blocked: false,
            flight: Vec::new(),
            ending: Ending::Open,
            shutting: false,
            writes: 0,
            datagrams: None,
            target: None,
        }
    }

    /// Datagrams from and to one address.
    fn of_datagrams(local: SocketAddr, peer: SocketAddr) -> MemoryConnection {
        MemoryConnection { datagrams: Some(VecDeque::new()), ..MemoryConnection::new(local, peer) }
    }

    /// How much of `n` bytes the program may write now.
    fn room(&self, n: usize) -> usize {
        self.window.map_or(n, |w| w.min(n))
    }

    /// A datagram of the program.
    fn sent(&mut self, slices: &[IoSlice<'_>]) -> usize {
        let bytes = slices.iter().flat_map(|s| s.iter().copied()).collect::<Vec<u8>>();
        let n = bytes.len();
        self.writes += 1;
        if let Some(all) = &mut self.datagrams {
            all.push_back(bytes);
        }
        n
    }

    fn wrote(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        if let Some(w) = &mut self.window {
            *w -= bytes.len();
        }
    }
}

struct World {
    now: u64,
    lines: Vec<MemoryConnection>,
    /// The object that a token names.
    names: Slots<Name>,
    behaviour: HashMap<SocketAddr, Behaviour>,
    /// Connections the program made that the test has not taken yet.
    made: HashMap<SocketAddr, VecDeque<usize>>,
    exhausted: bool,
    /// As in the epoll engine.
    rooms: HashMap<Token, usize>,
    asynchronous: bool,
    /// Events of a poll come in an order that this number says; 0: line after line.
    order: u64,
    /// How many connections one poll looks at, and where the next one goes on.
    part: usize,
    seen: usize,
    next_port: u16,
    woken: bool,
}

enum Name {
    Listener(SocketAddr),
    /// The same for datagrams.
    Socket(SocketAddr),
    Link(usize),
    /// A datagram on a line.
    Datagram(usize),
}

impl World {
    fn line(&mut self, t: Token) -> Option<&mut MemoryConnection> {
        match self.names.get(t)? {
            Name::Link(i) | Name::Datagram(i) => self.lines.get_mut(*i),
            Name::Listener(_) | Name::Socket(_) => None,
        }
    }

    fn port(&mut self) -> u16 {
        self.next_port = self.next_port.checked_add(1).unwrap_or(10_000);
        self.next_port
    }

    fn listener(&self, addr: SocketAddr) -> Option<Token> {
        let fits = |a: &SocketAddr| a.port() == addr.port() && (a.ip() == addr.ip() || a.ip().is_unspecified());
        self.names.iter().find_map(|(t, n)| matches!(n, Name::Listener(a) if fits(a)).then_some(t))
    }

    /// The socket that takes datagrams to an address.
    fn socket(&self, addr: SocketAddr) -> Option<Token> {
        let fits = |a: &SocketAddr| a.port() == addr.port() && (a.ip() == addr.ip() || a.ip().is_unspecified());
        self.names.iter().find_map(|(t, n)| matches!(n, Name::Socket(a) if fits(a)).then_some(t))
    }
}

/// The program's side.
pub struct Memory {
    world: Rc<RefCell<World>>,
    batch: Vec<u8>,
}

/// The test's side.
#[derive(Clone)]
pub struct Network {
    world: Rc<RefCell<World>>,
}

/// The test's end of a connection.
#[derive(Clone)]
pub struct Peer {
    world: Rc<RefCell<World>>,
    line: usize,
}

impl Memory {
    /// An engine and the network around it.
    #[allow(clippy::new_ret_no_self)]
    pub fn new() -> (Memory, Network) {
        let world = Rc::new(RefCell::new(World {
            now: 1_000_000_000,
            lines: Vec::new(),
            names: Slots::new(),
            behaviour: HashMap::new(),
            made: HashMap::new(),
            exhausted: false,
            rooms: HashMap::new(),
            asynchronous: false,
            order: 0,
            part: usize::MAX,
            seen: 0,
            next_port: 10_000,
            woken: false,
        }));
        (Memory { world: world.clone(), batch: Vec::new() }, Network { world })
    }

    /// Everything that happened on one line since the last poll.
    fn gather(batch: &mut Vec<u8>, w: &mut World, i: usize, events: &mut Vec<Event>) {
        if w.lines[i].datagrams.is_some() {
            return Self::datagrams(batch, w, i, events);
        }
        Self::arrive(w, i, events);
        // Most lines of a long run have been closed: they cost no more than this look.
        let Some(conn) = w.lines[i].token else { return };
        if w.lines[i].connecting && Self::settle(w, i, conn, events) {
            return;
        }
        let l = &mut w.lines[i];
        Self::land(l, conn, events);
        if l.blocked && !l.broken && l.window != Some(0) {
            l.blocked = false;
            events.push(Event::Writable { conn });
        }
        let mut taken = 0;
        while !l.paused && taken < MAX_RECV {
            let Some(mut piece) = l.input.pop_front() else { break };
            if piece.len() > MAX_RECV - taken {
                l.input.push_front(piece.split_off(MAX_RECV - taken));
            }
            taken += piece.len();
            events.push(Event::Data { conn, start: batch.len() as u32, len: piece.len() as u32 });
            batch.extend(piece);
        }
        if l.broken && !l.broken_told {
            l.broken_told = true;
            events.push(Event::Broken { conn });
        } else if l.input_ended && !l.eof_told && !l.paused && l.input.is_empty() && !l.broken {
            l.eof_told = true;
            events.push(Event::Eof { conn });
        }
    }

    /// The datagrams that have come on one line: each of a client is a connection of its own.
    fn datagrams(batch: &mut Vec<u8>, w: &mut World, i: usize, events: &mut Vec<Event>) {
        while let Some(piece) = w.lines[i].input.pop_front() {
            let conn = match (w.lines[i].target, w.lines[i].token) {
                (Some(listener), _) if w.names.get(listener).is_some() => {
                    let conn = w.names.insert(Name::Datagram(i));
                    events.push(Event::Accepted { listener, conn });
                    conn
                }
                (None, Some(conn)) => conn,
                _ => continue,
            };
            events.push(Event::Data { conn, start: batch.len() as u32, len: piece.len() as u32 });
            batch.extend(piece);
        }
        if let (true, Some(conn)) = (std::mem::take(&mut w.lines[i].broken), w.lines[i].token) {
            events.push(Event::Broken { conn });
        }
    }

    /// Accepts a waiting connection.
    fn arrive(w: &mut World, i: usize, events: &mut Vec<Event>) {
        let Some(listener) = w.lines[i].listener else { return };
        if w.names.get(listener).is_none() {
            w.lines[i].listener = None;
            w.lines[i].ending = Ending::Reset;
        } else if w.exhausted {
            events.push(Event::AcceptFailed { listener });
        } else if w.rooms.get(&listener) != Some(&0) {
            if let Some(room) = w.rooms.get_mut(&listener) {
                *room -= 1;
            }
            let conn = w.names.insert(Name::Link(i));
            w.lines[i].listener = None;
            w.lines[i].token = Some(conn);
            events.push(Event::Accepted { listener, conn });
        }
    }

    /// Decides a connection attempt; true: nothing more to report.
    fn settle(w: &mut World, i: usize, conn: Token, events: &mut Vec<Event>) -> bool {
        match w.behaviour.get(&w.lines[i].peer).copied().unwrap_or(Behaviour::Accept) {
            Behaviour::Silent => {}
            Behaviour::Refuse => {
                events.push(Event::ConnectFailed { conn, ours: false });
                w.names.retire(conn);
                w.lines[i].token = None;
            }
            Behaviour::Accept => {
                w.lines[i].connecting = false;
                let peer = w.lines[i].peer;
                w.made.entry(peer).or_default().push_back(i);
                events.push(Event::Connected { conn });
                return false;
            }
        }
        true
    }

    /// Completes output in flight.
    fn land(l: &mut MemoryConnection, conn: Token, events: &mut Vec<Event>) {
        if l.flight.is_empty() || l.broken || l.window == Some(0) {
            return;
        }
        let mut len = 0;
        for (p, n) in std::mem::take(&mut l.flight) {
            let n = l.room(n);
            // SAFETY: the caller of `write` keeps the slices in place until `Sent`.
            let bytes = unsafe { std::slice::from_raw_parts(p, n) };
            l.wrote(bytes);
            len += n as u32;
        }
        if l.shutting {
            l.ending = Ending::Ended;
        }
        events.push(Event::Sent { conn, len });
    }
}

/// Mixes events by a number; the next number. Those of one connection keep their order.
fn mixed(events: &mut Vec<Event>, mut order: u64) -> u64 {
    let of = |e: &Event| match *e {
        Event::AcceptFailed { listener } => Some(listener),
        Event::Accepted { conn, .. }
        | Event::Connected { conn }
        | Event::ConnectFailed { conn, .. }
        | Event::Data { conn, .. }
        | Event::Eof { conn }
        | Event::Broken { conn }
        | Event::Writable { conn }
        | Event::Sent { conn, .. } => Some(conn),
        Event::Woken => None,
    };
    let mut lines: Vec<(Option<Token>, VecDeque<Event>)> = Vec::new();
    for e in events.drain(..) {
        match lines.iter_mut().find(|l| l.0 == of(&e)) {
            Some(l) => l.1.push_back(e),
            None => lines.push((of(&e), VecDeque::from([e]))),
        }
    }
    while !lines.is_empty() {
        order ^= order << 13;
        order ^= order >> 7;
        order ^= order << 17;
        let k = order as usize % lines.len();
        events.extend(lines[k].1.pop_front());
        if lines[k].1.is_empty() {
            lines.swap_remove(k);
        }
    }
    order
}

impl Engine for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn listen(&mut self, addr: SocketAddr) -> io::Result<Token> {
        let mut w = self.world.borrow_mut();
        if w.listener(addr).is_some() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        Ok(w.names.insert(Name::Listener(addr)))
    }

    fn unlisten(&mut self, listener: Token) {
        self.world.borrow_mut().names.remove(listener);
    }

    fn admit(&mut self, listener: Token, n: usize) {
        let mut w = self.world.borrow_mut();
        let room = w.rooms.entry(listener).or_insert(0);
        *room = room.saturating_add(n);
    }

    fn queued(&self, listener: Token) -> usize {
        self.world.borrow().lines.iter().filter(|l| l.listener == Some(listener)).count()
    }

    fn connect(&mut self, addr: SocketAddr) -> io::Result<Token> {
        let mut w = self.world.borrow_mut();
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), w.port());
        let i = w.lines.len();
        let token = w.names.insert(Name::Link(i));
        let mut line = MemoryConnection::new(local, addr);
        line.token = Some(token);
        line.connecting = true;
        w.lines.push(line);
        Ok(token)
    }

    fn listen_datagrams(&mut self, addr: SocketAddr) -> io::Result<Token> {
        let mut w = self.world.borrow_mut();
        if w.socket(addr).is_some() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        Ok(w.names.insert(Name::Socket(addr)))
    }

    fn connect_datagrams(&mut self, addr: SocketAddr) -> io::Result<Token> {
        let mut w = self.world.borrow_mut();
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), w.port());
        let i = w.lines.len();
        let token = w.names.insert(Name::Link(i));
        w.lines.push(MemoryConnection { token: Some(token), ..MemoryConnection::of_datagrams(local, addr) });
        w.made.entry(addr).or_default().push_back(i);
        Ok(token)
    }

    fn poll(&mut self, _: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.batch.clear();
        let mut w = self.world.borrow_mut();
        w.names.reuse();
        let end = w.seen.saturating_add(w.part).min(w.lines.len());
        for i in w.seen..end {
            Self::gather(&mut self.batch, &mut w, i, events);
        }
        w.seen = if end == w.lines.len() { 0 } else { end };
        if w.order != 0 {
            w.order = mixed(events, w.order);
        }
        if std::mem::take(&mut w.woken) {
            events.push(Event::Woken);
        }
        Ok(())
    }

    fn more(&self) -> bool {
        self.world.borrow().seen > 0
    }

    fn data(&self, start: u32, len: u32) -> &[u8] {
        &self.batch[start as usize..][..len as usize]
    }

    unsafe fn write(&mut self, conn: Token, slices: &[IoSlice<'_>]) -> WriteResult {
        let mut w = self.world.borrow_mut();
        let asynchronous = w.asynchronous;
        let behaviour = w.line(conn).map(|l| l.peer).and_then(|p| w.behaviour.get(&p).copied());
        if let Some(l) = w.line(conn).filter(|l| l.datagrams.is_some()) {
            l.broken |= behaviour == Some(Behaviour::Refuse);
            return WriteResult::Done(match behaviour {
                None | Some(Behaviour::Accept) => l.sent(slices),
                _ => slices.iter().map(|s| s.len()).sum(),
            });
        }
        let Some(l) = w.line(conn) else { return WriteResult::Broken };
        if l.broken {
            l.broken_told = true;
            return WriteResult::Broken;
        }
        let total: usize = slices.iter().map(|s| s.len()).sum();
        if total == 0 {
            return WriteResult::Done(0);
        }
        if l.connecting || l.blocked || !l.flight.is_empty() || (!asynchronous && l.window == Some(0)) {
            l.blocked |= l.flight.is_empty();
            return WriteResult::Blocked;
        }
        l.writes += 1;
        if asynchronous {
            l.flight = slices.iter().map(|s| (s.as_ptr(), s.len())).collect();
            return WriteResult::InFlight;
        }
        let mut done = 0;
        for s in slices {
            let n = l.room(s.len());
            l.wrote(&s[..n]);
            done += n;
        }
        l.blocked = done < total;
        WriteResult::Done(done)
    }

    fn waiting(&mut self, conn: Token) -> Waiting {
        match self.world.borrow_mut().line(conn) {
            Some(l) if !l.input.is_empty() => Waiting::Bytes,
            Some(l) if !l.broken && !l.input_ended => Waiting::Nothing,
            _ => Waiting::End,
        }
    }

    fn pause(&mut self, conn: Token, paused: bool) {
        if let Some(l) = self.world.borrow_mut().line(conn) {
            l.paused = paused;
        }
    }

    fn shutdown(&mut self, conn: Token) {
        if let Some(l) = self.world.borrow_mut().line(conn) {
            if l.flight.is_empty() {
                l.ending = Ending::Ended;
            } else {
                l.shutting = true;
            }
        }
    }

    fn close(&mut self, conn: Token, reset: bool) {
        let mut w = self.world.borrow_mut();
        if matches!(w.names.get(conn), Some(Name::Datagram(_))) {
            w.names.retire(conn);
            return;
        }
        if let Some(l) = w.line(conn) {
            // Like a kernel: unread bytes make the close a reset.
            let reset = reset || !l.input.is_empty();
            l.ending = if reset || l.ending == Ending::Reset { Ending::Reset } else { Ending::Ended };
            l.token = None;
            l.flight.clear();
            w.names.remove(conn);
        }
    }

    fn pending_close(&self, _: Token) -> bool {
        false
    }

    fn addresses(&self, conn: Token) -> Option<(SocketAddr, SocketAddr)> {
        let mut w = self.world.borrow_mut();
        if let Some(Name::Listener(a) | Name::Socket(a)) = w.names.get(conn) {
            return Some((*a, *a));
        }
        w.line(conn).map(|l| (l.local, l.peer))
    }

    fn waker(&self) -> Waker {
        Waker(None)
    }

    fn now(&self) -> u64 {
        self.world.borrow().now + WORKED.get()
    }

    fn worked(&self) -> u64 {
        self.now()
    }
}

thread_local! {
    static WORKED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A handler of this thread takes so many nanoseconds: the clocks of the thread's engines move on.
#[cfg(test)]
pub fn work(ns: u64) {
    WORKED.set(WORKED.get() + ns);
}

impl Network {
    pub fn now(&self) -> u64 {
        self.world.borrow().now + WORKED.get()
    }

    pub fn advance(&self, d: Duration) {
        self.world.borrow_mut().now += d.as_nanos() as u64;
    }

    /// Connects to the program as a client; None when it does not listen there.
    pub fn connect(&self, addr: SocketAddr) -> Option<Peer> {
        let mut w = self.world.borrow_mut();
        let from = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), w.port());
        drop(w);
        self.connect_from(from, addr)
    }

    pub fn connect_from(&self, from: SocketAddr, addr: SocketAddr) -> Option<Peer> {
        let mut w = self.world.borrow_mut();
        let listener = w.listener(addr)?;
        let mut line = MemoryConnection::new(addr, from);
        line.listener = Some(listener);
        w.lines.push(line);
        Some(Peer { world: self.world.clone(), line: w.lines.len() - 1 })
    }

    /// A client that sends datagrams to the program; None when it does not listen there.
    pub fn datagrams(&self, addr: SocketAddr) -> Option<Peer> {
        let mut w = self.world.borrow_mut();
        let target = w.socket(addr)?;
        let from = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), w.port());
        w.lines.push(MemoryConnection { target: Some(target), ..MemoryConnection::of_datagrams(addr, from) });
        Some(Peer { world: self.world.clone(), line: w.lines.len() - 1 })
    }

    /// The numbers of the connections that the program has made to `addr` among all, and the
    /// tokens of those that it still has.
    pub fn made(&self, addr: SocketAddr) -> Vec<(usize, Option<Token>)> {
        let w = self.world.borrow();
        w.made.get(&addr).into_iter().flatten().map(|i| (*i, w.lines[*i].token)).collect()
    }

    /// One of these connections, by its number.
    pub fn take(&self, line: usize) -> Option<Peer> {
        self.world.borrow_mut().made.values_mut().for_each(|made| made.retain(|i| *i != line));
        Some(Peer { world: self.world.clone(), line })
    }

    /// The next connection that the program has made to `addr`.
    pub fn accept(&self, addr: SocketAddr) -> Option<Peer> {
        let line = self.world.borrow_mut().made.get_mut(&addr)?.pop_front()?;
        Some(Peer { world: self.world.clone(), line })
    }

    /// Sets the fate of the program's connections to `addr` from now on (accepted, unless set
    /// otherwise).
    pub fn behave(&self, addr: SocketAddr, b: Behaviour) {
        self.world.borrow_mut().behaviour.insert(addr, b);
    }

    /// While true, accepting fails for want of descriptors.
    pub fn exhaust(&self, yes: bool) {
        self.world.borrow_mut().exhausted = yes;
    }

    /// While true, writes are `InFlight` until the next poll, as with io_uring.
    pub fn asynchronous(&self, yes: bool) {
        self.world.borrow_mut().asynchronous = yes;
    }

    /// Events of a poll come in an order of this number, as a kernel's completions do. Those of one
    /// connection keep theirs. 0: line after line.
    pub fn mix(&self, order: u64) {
        self.world.borrow_mut().order = order;
    }

    /// Batches come in parts: one poll looks at so many connections, as epoll does.
    pub fn parts(&self, connections: usize) {
        self.world.borrow_mut().part = connections.max(1);
    }

    /// Makes the next poll report `Woken`.
    pub fn wake(&self) {
        self.world.borrow_mut().woken = true;
    }
}

impl Peer {
    fn with<R>(&self, f: impl FnOnce(&mut MemoryConnection) -> R) -> R {
        f(&mut self.world.borrow_mut().lines[self.line])
    }

    /// Whether this is the same end of the same connection.
    pub fn is(&self, other: &Peer) -> bool {
        self.line == other.line
    }

    /// Sends bytes; they arrive as one piece. On a line of datagrams they are one, which may be
    /// empty.
    pub fn send(&self, bytes: &[u8]) {
        if !bytes.is_empty() || self.has_datagrams() {
            self.with(|l| l.input.push_back(bytes.to_vec()));
        }
    }

    /// Whether it is a line of datagrams.
    pub fn has_datagrams(&self) -> bool {
        self.with(|l| l.datagrams.is_some())
    }

    /// Takes the next datagram that the program has sent.
    pub fn datagram(&self) -> Option<Vec<u8>> {
        self.with(|l| l.datagrams.as_mut().and_then(VecDeque::pop_front))
    }

    /// Takes the bytes that the program has sent.
    pub fn receive(&self) -> Vec<u8> {
        self.with(|l| match &mut l.datagrams {
            Some(all) => all.drain(..).flatten().collect(),
            None => std::mem::take(&mut l.output),
        })
    }

    /// Ends our direction (half close).
    pub fn finish(&self) {
        self.with(|l| l.input_ended = true);
    }

    /// Breaks the connection; undelivered bytes are lost.
    pub fn reset(&self) {
        self.with(|l| {
            l.input.clear();
            l.broken = true;
        });
    }

    /// Lets the program write `n` more bytes (None: any number), then its output is blocked.
    pub fn window(&self, n: Option<usize>) {
        self.with(|l| l.window = n);
    }

    /// How often the program has written.
    pub fn writes(&self) -> usize {
        self.with(|l| l.writes)
    }

    /// How the program's direction stands.
    pub fn ending(&self) -> Ending {
        self.with(|l| l.ending)
    }

    /// Bytes sent that the program has not read.
    pub fn unread(&self) -> usize {
        self.with(|l| l.input.iter().map(Vec::len).sum())
    }

    pub fn address(&self) -> SocketAddr {
        self.with(|l| l.peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(m: &mut Memory) -> Vec<Event> {
        let mut events = Vec::new();
        m.poll(None, &mut events).unwrap();
        events
    }

    fn put(m: &mut Memory, conn: Token, bytes: &[u8]) -> WriteResult {
        // SAFETY: the tests that write asynchronously pass 'static bytes.
        unsafe { m.write(conn, &[IoSlice::new(bytes)]) }
    }

    fn accepted(m: &mut Memory, net: &Network) -> (Token, Peer) {
        let addr = "10.0.0.1:80".parse().unwrap();
        let listener = m.listen(addr).unwrap();
        let peer = net.connect(addr).unwrap();
        let events = poll(m);
        let [Event::Accepted { listener: l, conn }] = events[..] else { panic!("{events:?}") };
        assert_eq!(l, listener);
        (conn, peer)
    }

    #[test]
    fn pieces_arrive_as_cut_and_the_end_comes_last() {
        let (mut m, net) = Memory::new();
        let (conn, peer) = accepted(&mut m, &net);
        peer.send(b"ab");
        peer.send(b"c");
        peer.finish();
        m.pause(conn, true);
        assert!(poll(&mut m).is_empty());
        m.pause(conn, false);
        let events = poll(&mut m);
        let data = |start, len| Event::Data { conn, start, len };
        assert_eq!(events, [data(0, 2), data(2, 1), Event::Eof { conn }]);
        assert_eq!(m.data(0, 3), b"abc");
        assert!(poll(&mut m).is_empty());
    }

    #[test]
    fn a_window_blocks_output() {
        let (mut m, net) = Memory::new();
        let (conn, peer) = accepted(&mut m, &net);
        peer.window(Some(3));
        assert_eq!(put(&mut m, conn, b"hello"), WriteResult::Done(3));
        assert_eq!(put(&mut m, conn, b"lo"), WriteResult::Blocked);
        assert!(poll(&mut m).is_empty());
        peer.window(None);
        assert_eq!(poll(&mut m), [Event::Writable { conn }]);
        assert_eq!(put(&mut m, conn, b"lo"), WriteResult::Done(2));
        m.shutdown(conn);
        assert_eq!((peer.receive(), peer.ending()), (b"hello".to_vec(), Ending::Ended));
    }

    #[test]
    fn asynchronous_output_is_in_flight_until_the_next_poll() {
        let (mut m, net) = Memory::new();
        net.asynchronous(true);
        let (conn, peer) = accepted(&mut m, &net);
        assert_eq!(put(&mut m, conn, b"hello"), WriteResult::InFlight);
        m.shutdown(conn);
        assert_eq!((peer.receive(), peer.ending()), (Vec::new(), Ending::Open));
        assert_eq!(poll(&mut m), [Event::Sent { conn, len: 5 }]);
        assert_eq!((peer.receive(), peer.ending()), (b"hello".to_vec(), Ending::Ended));
    }

    #[test]
    fn connections_are_refused_ignored_or_made() {
        let (mut m, net) = Memory::new();
        let addr: SocketAddr = "10.0.0.9:1".parse().unwrap();
        net.behave(addr, Behaviour::Silent);
        let conn = m.connect(addr).unwrap();
        assert!(poll(&mut m).is_empty() && net.accept(addr).is_none());
        net.behave(addr, Behaviour::Accept);
        assert_eq!(poll(&mut m), [Event::Connected { conn }]);
        net.accept(addr).unwrap().reset();
        assert_eq!(poll(&mut m), [Event::Broken { conn }]);
        assert_eq!(put(&mut m, conn, b"x"), WriteResult::Broken);
        net.behave(addr, Behaviour::Refuse);
        let conn = m.connect(addr).unwrap();
        assert_eq!(poll(&mut m), [Event::ConnectFailed { conn, ours: false }]);
    }

    #[test]
    fn time_moves_when_told() {
        let (m, net) = Memory::new();
        let before = m.now();
        net.advance(Duration::from_millis(5));
        assert_eq!(m.now() - before, 5_000_000);
    }
}
