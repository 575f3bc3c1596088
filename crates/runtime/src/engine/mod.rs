//! The engine trait: the border between the core and connections. The runtime's core knows nothing
//! of sockets. `epoll`, `uring` and `memory` implement this trait.
//!
//! An engine belongs to one core (one thread). `poll` gathers a batch of events. Received bytes lie
//! in the engine's own buffer until the next `poll`. Output is given as slices. An engine that
//! sends asynchronously (io_uring) copies nothing. It answers `InFlight`, and the caller keeps the
//! bytes in place until `Sent`.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

pub(crate) mod common;
pub mod datagrams;
mod direct;
pub mod epoll;
pub mod memory;
mod ring;
pub mod uring;

/// Most slices that one `write` uses.
pub const MAX_SLICES: usize = 16;
/// Most bytes of one connection that one `poll` reports.
pub const MAX_RECV: usize = 64 * 1024;

/// Which engine to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// The cheapest that this machine allows.
    #[default]
    Auto,
    Epoll,
    Uring,
}

/// Opens an engine for this thread.
pub fn open(kind: EngineKind) -> std::io::Result<Box<dyn Engine>> {
    match kind {
        EngineKind::Epoll => Ok(Box::new(epoll::Epoll::new()?)),
        EngineKind::Uring => Ok(Box::new(uring::Uring::new()?)),
        // Measured with examples/engine_echo (Linux 6.18): 4.2 us of CPU per echoed message against
        // 4.3, a difference within the noise, and 1.3 MB less resident memory.
        EngineKind::Auto => Ok(Box::new(epoll::Epoll::new()?)),
    }
}

/// A connection's or listener's name inside one engine. It is not reused before the caller has
/// dropped it. Engines put a generation in the upper half, so that late events of a closed
/// connection are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// An event of the engine. `Data` names bytes in the engine's receive buffer: read them with
/// [`Engine::data`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection was accepted on a listener; it is readable at once.
    Accepted {
        listener: Token,
        conn: Token,
    },
    /// Accepting failed for want of descriptors or memory; the engine retries by itself after a
    /// pause.
    AcceptFailed {
        listener: Token,
    },
    Connected {
        conn: Token,
    },
    /// The connection attempt failed. The token is closed. `ours`: this machine has no port or
    /// memory left for it, which says nothing about the peer.
    ConnectFailed {
        conn: Token,
        ours: bool,
    },
    Data {
        conn: Token,
        start: u32,
        len: u32,
    },
    /// The peer has ended its direction. Output still works.
    Eof {
        conn: Token,
    },
    /// The connection is broken (reset). Output is lost.
    Broken {
        conn: Token,
    },
    /// After `Blocked`: output is possible again.
    Writable {
        conn: Token,
    },
    /// After `InFlight`: this many bytes are gone; the rest must be offered again.
    Sent {
        conn: Token,
        len: u32,
    },
    /// Another thread rang the waker.
    Woken,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// The first n bytes are gone (n may be less than offered: then the connection is blocked and
    /// `Writable` follows).
    Done(usize),
    /// The slices stay borrowed until `Sent` or `Broken`.
    InFlight,
    /// Nothing could be written; `Writable` follows.
    Blocked,
    /// The connection is broken; `Broken` will not be reported for it again.
    Broken,
}

/// The state of a connection that no event has reported yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    Nothing,
    Bytes,
    /// Its end, in order or not.
    End,
}

/// Whether a connection has been released.
pub enum Release {
    /// The socket, and its input that no event has reported.
    Gone(OwnedFd, Vec<u8>),
    /// After the next poll, perhaps.
    Later,
    Never,
}

pub use common::Keepalive;

pub trait Engine {
    fn name(&self) -> &'static str;
    fn listen(&mut self, addr: SocketAddr) -> std::io::Result<Token>;
    /// Stops accepting (drain); the port is freed.
    fn unlisten(&mut self, listener: Token);
    /// Lets `n` more connections in. From the first call on a listener accepts no more than were
    /// let in; the others wait in its queue. An engine that accepts ahead may overshoot.
    fn admit(&mut self, listener: Token, n: usize);
    /// Lets one connection less in. False: no more may come in anyway.
    fn take_place(&mut self, _listener: Token) -> bool {
        false
    }
    /// How many connections wait in a listener's queue.
    fn queued(&self, listener: Token) -> usize;
    fn connect(&mut self, addr: SocketAddr) -> std::io::Result<Token>;
    /// Notices that a connection's peer is gone, as [`Keepalive`] says. Connections that a listener
    /// accepts have what it has.
    fn keep_alive(&mut self, _conn: Token, _how: Keepalive) {}
    /// Opens a socket for datagrams. Each that comes is `Accepted` as a connection of its own, with
    /// its bytes as one `Data`. What is written there goes to its sender as one datagram.
    fn listen_datagrams(&mut self, _addr: SocketAddr) -> std::io::Result<Token> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    /// A socket for datagrams to one address and back. It is ready at once.
    fn connect_datagrams(&mut self, _addr: SocketAddr) -> std::io::Result<Token> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    /// Datagrams that came and were dropped by the system, because nothing read them in time.
    fn dropped_datagrams(&self) -> u64 {
        0
    }
    /// `poll` returns while this descriptor is readable. It reports no event for it.
    fn watch(&mut self, _fd: std::os::fd::RawFd) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    /// Waits at most `timeout` (None: for ever) and appends events to `events`. Data of one
    /// connection is at most [`MAX_RECV`] bytes per poll, so that no connection starves the others.
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> std::io::Result<()>;
    /// Whether the last poll has left events over that it knows of: the next poll is part of the
    /// same batch and does not wait.
    fn more(&self) -> bool {
        false
    }
    /// Bytes of a `Data` event of the last poll.
    fn data(&self, start: u32, len: u32) -> &[u8];
    /// Whether `write` never keeps a slice (`InFlight`).
    fn writes_at_once(&self) -> bool {
        false
    }
    /// Offers output. The slices must stay valid as [`WriteResult::InFlight`] says.
    /// # Safety
    /// After `InFlight` the memory of every slice must stay valid and unchanged until `Sent` or
    /// `Broken`. After `close` it must stay so until `pending_close` no longer lists the token.
    unsafe fn write(&mut self, conn: Token, slices: &[std::io::IoSlice<'_>]) -> WriteResult;
    /// As `write`, for the last bytes before a `shutdown` or `close` that follows at once when they
    /// are gone. The bytes may wait for it and leave together with the end of the stream.
    /// # Safety
    /// As for `write`.
    unsafe fn write_last(&mut self, conn: Token, slices: &[std::io::IoSlice<'_>]) -> WriteResult {
        // SAFETY: by the same contract.
        unsafe { self.write(conn, slices) }
    }
    /// Looks for input without reading it. A system call, for connections that were idle.
    fn waiting(&mut self, conn: Token) -> Waiting;
    /// Lets go of a connection, so that another thread's engine can `adopt` it. Until it is gone
    /// its input is held back; `pause` with false, and it goes on.
    fn release(&mut self, _conn: Token) -> Release {
        Release::Never
    }
    /// Takes a connection that another engine of the same kind has released.
    fn adopt(&mut self, _fd: OwnedFd, _peer: SocketAddr) -> std::io::Result<Token> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    /// Stops (true) or resumes reading: backpressure. A paused connection still reports `Broken`.
    fn pause(&mut self, conn: Token, paused: bool);
    /// Ends our direction after the written bytes (half close).
    fn shutdown(&mut self, conn: Token);
    /// Closes at once; no more events for the token. `reset`: discard unsent data and send RST.
    fn close(&mut self, conn: Token, reset: bool);
    /// Whether buffers given to `write` may still be read for this (closed) token.
    fn pending_close(&self, conn: Token) -> bool;
    fn addresses(&self, conn: Token) -> Option<(SocketAddr /* local */, SocketAddr /* peer */)>;
    /// Lets this thread sleep for a fraction of a millisecond; events do not wake it.
    fn rest(&mut self, time: Duration) {
        common::nap(time);
    }
    /// A handle with which another thread wakes `poll`.
    fn waker(&self) -> Waker;
    /// The time that this thread has had of its processor, in nanoseconds.
    fn worked(&self) -> u64 {
        crate::clock::of_processor()
    }
    /// Monotonic time in nanoseconds. The memory engine's is virtual; read time here only, once per
    /// batch.
    fn now(&self) -> u64 {
        crate::clock::now()
    }
}

/// Wakes an engine from another thread (an eventfd; for the memory engine nothing).
#[derive(Clone)]
pub struct Waker(pub Option<std::sync::Arc<std::os::fd::OwnedFd>>);

impl Waker {
    /// Makes the engine's current or next `poll` return with [`Event::Woken`].
    pub fn wake(&self) {
        if let Some(fd) = &self.0 {
            common::ring(fd);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
