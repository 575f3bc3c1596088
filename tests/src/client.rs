//! A raw client with deadlines: says bytes, expects bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// How long any expectation waits before it fails the test. It only ends a test that hangs: a slow
/// machine may take long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The longest time in which a peer may close or exit by itself. It is less than the time-outs that
/// would end it in any case (`read_timeout` and the drain: 30 s).
pub const CLOSING: Duration = Duration::from_secs(25);

pub struct Client {
    pub stream: TcpStream,
    /// Received but not yet taken.
    pub seen: Vec<u8>,
    peer: String,
}

impl Client {
    pub fn connect(port: u16) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts");
        Client::over(stream)
    }

    pub fn over(stream: TcpStream) -> Client {
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
        let peer = stream.peer_addr().map_or("nobody".into(), |a| a.to_string());
        Client { stream, seen: Vec::new(), peer }
    }

    /// Its own address and port.
    pub fn address(&self) -> String {
        self.stream.local_addr().map_or("nobody".into(), |a| a.to_string())
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.stream.write_all(bytes.as_ref()).expect("the peer takes what we send");
        self
    }

    /// In pieces of n bytes, each in a segment of its own.
    pub fn send_in_pieces(&mut self, bytes: &[u8], n: usize) -> &mut Self {
        for piece in bytes.chunks(n) {
            self.stream.write_all(piece).expect("the peer takes what we send");
            std::thread::sleep(Duration::from_micros(300));
        }
        self
    }

    /// Reads once; false at the end of the stream.
    fn fill(&mut self) -> bool {
        self.fill_or_end().is_ok()
    }

    /// Reads once. The error says how the stream ended, and with which peer.
    fn fill_or_end(&mut self) -> Result<(), String> {
        let mut buffer = [0; 65536];
        let why = match self.stream.read(&mut buffer) {
            Ok(0) => "no more bytes".to_string(),
            Ok(n) => {
                self.seen.extend_from_slice(&buffer[..n]);
                return Ok(());
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
                return Ok(())
            }
            Err(e) => e.to_string(),
        };
        Err(format!("the connection with {} ended ({why})", self.peer))
    }

    /// True if bytes are there, or come in the next moment.
    pub fn has_something(&mut self) -> bool {
        if self.seen.is_empty() {
            self.fill();
        }
        !self.seen.is_empty()
    }

    /// Takes exactly n bytes.
    pub fn take(&mut self, n: usize) -> Vec<u8> {
        let until = Instant::now() + PATIENCE;
        while self.seen.len() < n {
            if let Err(end) = self.fill_or_end() {
                panic!("{end} after {} of {n} bytes: {}", self.seen.len(), show(&self.seen))
            }
            assert!(Instant::now() < until, "only {} of {n} bytes came: {}", self.seen.len(), show(&self.seen));
        }
        self.seen.drain(..n).collect()
    }

    /// Takes up to and including a delimiter.
    pub fn take_until(&mut self, delimiter: &[u8]) -> Vec<u8> {
        let until = Instant::now() + PATIENCE;
        let mut from = 0;
        loop {
            if let Some(at) = self.seen[from..].windows(delimiter.len()).position(|w| w == delimiter) {
                return self.take(from + at + delimiter.len());
            }
            from = (self.seen.len() + 1).saturating_sub(delimiter.len());
            if let Err(end) = self.fill_or_end() {
                panic!("{end} before {}: {}", show(delimiter), show(&self.seen))
            }
            assert!(Instant::now() < until, "{} did not come: {}", show(delimiter), show(&self.seen));
        }
    }

    /// The next bytes must be these.
    pub fn expect(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let wanted = bytes.as_ref();
        let until = Instant::now() + PATIENCE;
        while self.seen.len() < wanted.len() && wanted.starts_with(&self.seen) && Instant::now() < until && self.fill()
        {
        }
        let got = &self.seen[..self.seen.len().min(wanted.len())];
        let late = if Instant::now() < until { "" } else { " until patience ran out" };
        assert!(got == wanted, "expected {}\n     got {}{late}", show(wanted), show(&self.seen));
        self.seen.drain(..wanted.len());
        self
    }

    /// All bytes until the peer closes.
    pub fn rest(&mut self) -> Vec<u8> {
        let (mut had, mut since) = (self.seen.len(), Instant::now());
        while self.fill() {
            assert!(since.elapsed() < CLOSING, "the peer does not close; so far {}", show(&self.seen));
            if self.seen.len() > had {
                (had, since) = (self.seen.len(), Instant::now());
            }
        }
        std::mem::take(&mut self.seen)
    }

    /// Whether the connection ends by a reset, not in order; the bytes before it are dropped.
    pub fn was_reset(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match std::io::Read::read(&mut self.stream, &mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(e) => return e.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }

    /// The peer must close without another byte.
    pub fn expect_closed(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "expected the end, got {}", show(&rest));
    }

    /// Nothing may come for this long.
    pub fn expect_silence(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until && self.seen.is_empty() {
            if let Err(end) = self.fill_or_end() {
                panic!("{end}")
            }
        }
        assert!(self.seen.is_empty(), "expected nothing, got {}", show(&self.seen));
    }

    /// Nothing may be there now, nor come in the next moment.
    pub fn expect_nothing_more(&mut self) {
        self.expect_silence(Duration::from_millis(20));
    }

    /// Takes a message's head, in lower case, each field as `name: value` without further blanks
    /// (RFC 9112 section 5).
    pub fn take_head(&mut self) -> String {
        let head = String::from_utf8_lossy(&self.take_until(b"\r\n\r\n")).to_lowercase();
        let mut lines = head.split("\r\n");
        let mut plain = lines.next().unwrap_or("").to_string() + "\r\n";
        for line in lines.take_while(|l| !l.is_empty()) {
            match line.split_once(':') {
                Some((name, value)) => plain += &format!("{name}: {}\r\n", value.trim_matches([' ', '\t'])),
                None => plain += &format!("{line}\r\n"),
            }
        }
        plain + "\r\n"
    }

    /// Takes a line, without its CRLF.
    pub fn take_line(&mut self) -> String {
        let line = self.take_until(b"\r\n");
        String::from_utf8_lossy(&line[..line.len() - 2]).into_owned()
    }

    pub fn finish_sending(&mut self) -> &mut Self {
        self.stream.shutdown(Shutdown::Write).ok();
        self
    }

    /// Closes with a reset.
    pub fn reset(self) {
        use std::os::fd::AsRawFd;
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        // SAFETY: a valid descriptor and a valid option value.
        unsafe {
            libc::setsockopt(
                self.stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                (&raw const linger).cast(),
                size_of::<libc::linger>() as u32,
            );
        }
    }
}

/// Bytes for people.
pub fn show(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(600)];
    let more = if bytes.len() > cut.len() { format!("… ({} bytes)", bytes.len()) } else { String::new() };
    format!("\"{}\"{more}", cut.escape_ascii())
}
