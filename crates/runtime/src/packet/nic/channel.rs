//! Messages between the two processes, beside the frames: a JSON value a line, over a socket pair.

use serde_json::Value;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The longest line.
const LINE_MAX: usize = 64 << 20;
/// A process that does not read for so long is lost.
const WRITE_WAIT: Duration = Duration::from_secs(5);

pub struct Channel {
    stream: UnixStream,
    held: Vec<u8>,
}

impl Channel {
    pub fn pair() -> io::Result<(Channel, UnixStream)> {
        let (here, there) = UnixStream::pair()?;
        Ok((Channel::of(here)?, there))
    }

    pub fn of(stream: UnixStream) -> io::Result<Channel> {
        stream.set_write_timeout(Some(WRITE_WAIT))?;
        Ok(Channel { stream, held: Vec::new() })
    }

    pub fn open(fd: OwnedFd) -> io::Result<Channel> {
        Channel::of(UnixStream::from(fd))
    }

    pub fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    pub fn send(&mut self, message: &Value) -> io::Result<()> {
        self.stream.write_all(format!("{message}\n").as_bytes())
    }

    /// The next message, if it comes in time. An error: the other process has ended, or talks nonsense.
    pub fn receive(&mut self, wait: Duration) -> io::Result<Option<Value>> {
        let end = Instant::now() + wait;
        let mut seen = 0;
        loop {
            if let Some(at) = self.held[seen..].iter().position(|b| *b == b'\n').map(|n| seen + n) {
                let value = serde_json::from_slice(&self.held[..at]).map_err(io::Error::from)?;
                self.held.drain(..=at);
                return Ok(Some(value));
            }
            seen = self.held.len();
            if seen > LINE_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            let left = end.saturating_duration_since(Instant::now());
            if !self.readable(left) {
                return Ok(None);
            }
            let mut piece = [0; 8192];
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.held.extend_from_slice(&piece[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn readable(&self, wait: Duration) -> bool {
        let mut fd = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd that lives here.
        unsafe { libc::poll(&mut fd, 1, wait.as_millis().min(600_000) as i32) > 0 }
    }
}
