//! The admin page's thread: accepts connections, reads a request from each, writes an answer,
//! closes.
//!
//! One loop serves all connections and never waits for one. Each connection has a deadline for its
//! request and its answer. If there are too many, the one whose request has been incomplete for
//! longest is closed. Signals wait for the cores on threads of their own. The loop ends at once
//! when the process stops, in any state of its connections.

use super::request::{self, Names, Refusal, Request};
use crate::engine::common::is_exhaustion;
use crate::error::{Error, Origin};
use crate::view::View;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// From a connection's first moment to its whole request.
const REQUEST_WAIT: Duration = Duration::from_secs(5);
/// From the request to the answer's last byte.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// From the answer's last byte to the client's end of the connection.
const CLOSE_WAIT: Duration = Duration::from_secs(1);
/// Connections at once.
const CONNECTIONS: usize = 128;
/// Signals under way at once.
const SIGNALS: usize = 8;
/// Connections accepted before those that are there have their turn.
const ACCEPTS: usize = 16;
/// Without descriptors the next connection is tried again after this time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running admin page; ends when dropped.
pub struct Page {
    addr: SocketAddr,
    /// Closed to end the thread.
    stop: Option<UnixStream>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Page {
    /// `names`: hosts beside its own address and `localhost` that requests may name.
    pub fn open(addr: SocketAddr, names: Vec<String>, view: Arc<View>) -> Result<Page, Error> {
        let fail = |e| Error::Io(format!("cannot listen on {addr} for the admin page"), e).at(Origin::option("admin"));
        let listener = TcpListener::bind(addr).map_err(fail)?;
        let addr = listener.local_addr().map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let (stop, told) = UnixStream::pair().map_err(fail)?;
        let (wake, woken) = UnixStream::pair().map_err(fail)?;
        woken.set_nonblocking(true).map_err(fail)?;
        wake.set_nonblocking(true).map_err(fail)?;
        let done = Arc::new(FinishedSignals { list: Mutex::default(), wake });
        let desk =
            PageDesk { listener, told, woken, done, names, view, clients: Vec::new(), next: 0, signals: 0, rest: None };
        let thread = std::thread::Builder::new().name("admin".into()).spawn(move || desk.run()).map_err(fail)?;
        Ok(Page { addr, stop: Some(stop), thread: Some(thread) })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }
}

/// The answer to a client.
pub(super) struct Response {
    pub status: &'static str,
    pub kind: &'static str,
    pub body: String,
}

impl Response {
    fn bytes(&self, head_only: bool) -> Vec<u8> {
        let allow = if self.status.starts_with("405") { "Allow: GET, HEAD, POST\r\n" } else { "" };
        let (status, kind, body) = (self.status, self.kind, if head_only { "" } else { &self.body });
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{body}", self.body.len()).into_bytes()
    }
}

impl From<Refusal> for Response {
    fn from(r: Refusal) -> Response {
        Response { status: r.0, kind: "text/plain", body: r.1.to_string() + "\n" }
    }
}

/// Answers of signals, by client, and the socket that wakes the loop for them.
struct FinishedSignals {
    list: Mutex<Vec<(u64, Response)>>,
    wake: UnixStream,
}

#[derive(PartialEq, Eq)]
enum ClientState {
    Asking,
    /// A signal is under way.
    Waiting,
    Answering,
    /// The answer is sent. Further input is dropped, because a close with unread input could
    /// destroy the answer.
    Closing,
}

struct Client {
    id: u64,
    stream: TcpStream,
    state: ClientState,
    until: Instant,
    /// Input so far, or output still to be sent.
    bytes: Vec<u8>,
}

impl Client {
    fn events(&self) -> i16 {
        match self.state {
            ClientState::Asking | ClientState::Closing => libc::POLLIN,
            ClientState::Answering => libc::POLLOUT,
            ClientState::Waiting => 0,
        }
    }

    fn answer(&mut self, bytes: Vec<u8>) {
        (self.state, self.bytes, self.until) = (ClientState::Answering, bytes, Instant::now() + ANSWER_WAIT);
    }

    /// Sends as much as the socket takes.
    fn send(&mut self) -> std::io::Result<()> {
        while !self.bytes.is_empty() {
            match self.stream.write(&self.bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => drop(self.bytes.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.stream.shutdown(std::net::Shutdown::Write)?;
        (self.state, self.until) = (ClientState::Closing, Instant::now() + CLOSE_WAIT);
        Ok(())
    }

    /// Reads one piece of input; false: the client sends no more.
    fn receive(&mut self) -> std::io::Result<bool> {
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece) {
            Ok(0) => Ok(false),
            Ok(n) if self.state == ClientState::Asking => {
                self.bytes.extend_from_slice(&piece[..n]);
                Ok(true)
            }
            Ok(_) => Ok(true),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(true),
            Err(e) => Err(e),
        }
    }
}

struct PageDesk {
    listener: TcpListener,
    told: UnixStream,
    woken: UnixStream,
    done: Arc<FinishedSignals>,
    names: Vec<String>,
    view: Arc<View>,
    /// In the order in which they came.
    clients: Vec<Client>,
    next: u64,
    signals: usize,
    /// No connection is accepted until then: there are no descriptors.
    rest: Option<Instant>,
}

impl PageDesk {
    fn run(mut self) {
        loop {
            let fd = |fd: i32, events: i16| libc::pollfd { fd, events, revents: 0 };
            let mut fds = vec![
                fd(self.told.as_raw_fd(), libc::POLLIN),
                fd(self.woken.as_raw_fd(), libc::POLLIN),
                fd(self.listener.as_raw_fd(), if self.rest.is_none() { libc::POLLIN } else { 0 }),
            ];
            fds.extend(self.clients.iter().map(|c| fd(c.stream.as_raw_fd(), c.events())));
            // SAFETY: as many pollfds as told, which live here.
            unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, self.pause()) };
            if fds[0].revents != 0 {
                return;
            }
            self.take_done();
            let ready: Vec<bool> = fds[3..].iter().map(|f| f.revents != 0).collect();
            self.serve(&ready);
            self.rest = self.rest.filter(|end| *end > Instant::now());
            if fds[2].revents != 0 {
                self.accept();
            }
        }
    }

    /// Milliseconds to the next deadline.
    fn pause(&self) -> i32 {
        let now = Instant::now();
        let ends = self.clients.iter().map(|c| c.until).chain(self.rest);
        ends.map(|end| end.saturating_duration_since(now).as_millis() as i32 + 1).min().unwrap_or(-1)
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) => {
                    let none_left = is_exhaustion(e.raw_os_error().unwrap_or(0));
                    self.rest = none_left.then(|| Instant::now() + ACCEPT_PAUSE);
                    return;
                }
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.clients.len() >= CONNECTIONS {
                let first = self.clients.iter().position(|c| c.state == ClientState::Asking).unwrap_or(0);
                self.clients.remove(first);
            }
            self.next += 1;
            self.clients.push(Client {
                id: self.next,
                stream,
                state: ClientState::Asking,
                until: Instant::now() + REQUEST_WAIT,
                bytes: Vec::new(),
            });
        }
    }

    /// Goes on with the clients that something has happened to, and ends those whose time is over.
    fn serve(&mut self, ready: &[bool]) {
        let now = Instant::now();
        let mut clients = std::mem::take(&mut self.clients);
        let mut ready = ready.iter();
        clients.retain_mut(|c| {
            let on = if *ready.next().unwrap_or(&false) { self.step(c) } else { Ok(true) };
            if c.until <= now && c.state == ClientState::Asking && matches!(on, Ok(true)) {
                c.answer(
                    Response::from(Refusal("408 Request Timeout", "the request did not come in time")).bytes(false),
                );
                return c.send().is_ok();
            }
            // A client that has gone is its own affair.
            matches!(on, Ok(true)) && c.until > now
        });
        self.clients = clients;
    }

    /// False: the connection is done with.
    fn step(&mut self, c: &mut Client) -> std::io::Result<bool> {
        match c.state {
            ClientState::Answering => c.send().map(|()| true),
            ClientState::Closing => c.receive(),
            // The connection has ended: nothing else is waited for on it.
            ClientState::Waiting => Ok(false),
            ClientState::Asking => {
                let more = c.receive()?;
                let own = c.stream.local_addr().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |a| a.ip());
                match request::read(&c.bytes, &Names { own, given: &self.names }) {
                    Ok(None) => return Ok(more),
                    Ok(Some(request)) => self.answer(c, request),
                    Err(refusal) => c.answer(Response::from(refusal).bytes(false)),
                }
                if c.state == ClientState::Answering {
                    c.send().map(|()| true)
                } else {
                    Ok(true)
                }
            }
        }
    }

    fn answer(&mut self, c: &mut Client, request: Request) {
        if request.method == "POST" && request.target.starts_with("/signal/") {
            self.signal(c, request);
        } else {
            c.answer(super::page(&self.view, &request).bytes(request.method == "HEAD"));
        }
    }

    /// Has a signal called beside the loop: cores answer between two batches.
    fn signal(&mut self, c: &mut Client, request: Request) {
        let busy = || Response::from(Refusal("503 Service Unavailable", "too many signals are under way")).bytes(false);
        if self.signals >= SIGNALS {
            return c.answer(busy());
        }
        let (id, view, done) = (c.id, self.view.clone(), self.done.clone());
        let run = move || {
            let response = super::signal(&view, &request);
            done.list.lock().unwrap_or_else(|e| e.into_inner()).push((id, response));
            // One byte that waits is as good as two.
            let _ = (&done.wake).write(&[0]);
        };
        if std::thread::Builder::new().name("admin".into()).spawn(run).is_err() {
            return c.answer(busy());
        }
        self.signals += 1;
        (c.state, c.until) = (ClientState::Waiting, Instant::now() + 3 * ANSWER_WAIT);
    }

    fn take_done(&mut self) {
        let _ = self.woken.read(&mut [0; 64]);
        for (id, response) in std::mem::take(&mut *self.done.list.lock().unwrap_or_else(|e| e.into_inner())) {
            self.signals -= 1;
            if let Some(c) = self.clients.iter_mut().find(|c| c.id == id) {
                c.answer(response.bytes(false));
            }
        }
    }
}
