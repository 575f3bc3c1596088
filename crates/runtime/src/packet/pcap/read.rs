//! Reading captures. A window moves over the (decompressed) file, and `peek` finds the next frame
//! in it.

use super::super::pool::FRAME_MAX;
use super::link::{LinkType, Style, OTHER_LINK};
use super::ng::Section;
use super::record::{u16_at, u32_at, Next};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Bytes read at once.
const STEP: usize = 1 << 20;
/// Nothing that must be seen as a whole is longer.
const WHOLE_MAX: usize = FRAME_MAX + 65_536;

enum Format {
    Classic { big: bool, nanos: bool },
    Ng(Section),
}

pub struct Reader {
    source: Box<dyn Read + Send>,
    window: Vec<u8>,
    at: usize,
    end: usize,
    eof: bool,
    /// Offset of `window[0]` in the capture.
    offset: u64,
    format: Format,
    style: Style,
    next: Option<Next>,
    ended: bool,
    /// The pipe that it comes through, uncompressed. Whether the pipe is polled before it is read,
    /// and whether the next frame has not come yet.
    pipe: Option<OwnedFd>,
    live: bool,
    waits: bool,
    /// The error that ended it early.
    failure: Option<String>,
    count: u64,
}

impl Reader {
    /// Opens a file, compressed or not, and reads its first header.
    pub fn open(path: &Path) -> Result<Reader, String> {
        let unread = |e: io::Error| format!("cannot open {}: {e}", path.display());
        // Opening a named pipe waits until the other end is opened.
        let named = std::fs::metadata(path).is_ok_and(|m| m.file_type().is_fifo());
        let mut file = File::options()
            .read(true)
            .custom_flags(if named { libc::O_NONBLOCK } else { 0 })
            .open(path)
            .map_err(unread)?;
        if named && !has_come_in_time(&file) {
            return Ok(Reader::of(Box::new(io::empty()), true));
        }
        if named {
            // SAFETY: a plain call on a descriptor that lives here.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) };
        }
        let mut magic = [0; 4];
        let mut have = 0;
        while have < 4 {
            if named && !has_come_in_time(&file) {
                return Ok(Reader::of(Box::new(io::empty()), true));
            }
            match file.read(&mut magic[have..]) {
                Ok(0) => break,
                Ok(n) => have += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("cannot read {}: {e}", path.display())),
            }
        }
        let cannot = |e: io::Error| format!("cannot read {}: {e}", path.display());
        let kind = file.metadata().map_err(cannot)?.file_type();
        let pipe =
            if kind.is_fifo() || kind.is_socket() { Some(file.try_clone().map_err(cannot)?.into()) } else { None };
        let all = io::Cursor::new(magic[..have].to_vec()).chain(file);
        let source: Box<dyn Read + Send> = match magic {
            [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(all)),
            [0x28, 0xb5, 0x2f, 0xfd] => {
                Box::new(zstd::Decoder::new(all).map_err(|e| format!("{}: {e}", path.display()))?)
            }
            _ => {
                let mut reader = Reader { pipe, ..Reader::of(Box::new(all), false) };
                reader.first_header().map_err(|e| format!("{}: {e}", path.display()))?;
                return Ok(reader);
            }
        };
        Reader::new(source).map_err(|e| format!("{}: {e}", path.display()))
    }

    pub fn new(source: Box<dyn Read + Send>) -> Result<Reader, String> {
        let mut r = Reader::of(source, false);
        r.first_header()?;
        Ok(r)
    }

    fn of(source: Box<dyn Read + Send>, ended: bool) -> Reader {
        let (format, window) = (Format::Classic { big: false, nanos: false }, vec![0; STEP + WHOLE_MAX]);
        Reader {
            source,
            window,
            at: 0,
            end: 0,
            eof: false,
            offset: 0,
            format,
            style: Style::default(),
            next: None,
            ended,
            pipe: None,
            live: false,
            waits: false,
            failure: None,
            count: 0,
        }
    }

    /// How it is written: the link type is that of the first frame.
    pub fn style(&self) -> Style {
        self.style
    }

    fn first_header(&mut self) -> Result<(), String> {
        if !self.need(24)? {
            return Err(format!("not a capture: {} bytes are too few for one", self.end));
        }
        let h = &self.window[..24];
        let magic: [u8; 4] = [h[0], h[1], h[2], h[3]];
        let (big, nanos) = match magic {
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, false),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, true),
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, false),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, true),
            [0x0a, 0x0d, 0x0d, 0x0a] => return self.first_section(),
            [a, b, c, d] => return Err(format!("not a capture: begins with {a:02x} {b:02x} {c:02x} {d:02x}")),
        };
        let (major, snap, link) = (u16_at(h, 4, big), u32_at(h, 16, big), LinkType::of(u32_at(h, 20, big))?);
        if major != 2 {
            return Err(format!("version {major} of the pcap format is not known"));
        }
        self.format = Format::Classic { big, nanos };
        self.style = Style { link, nanos, snap };
        self.at = 24;
        Ok(())
    }

    fn first_section(&mut self) -> Result<(), String> {
        self.format = Format::Ng(Section::default());
        // The interface comes before the first frame; without frames there may be none.
        self.peek();
        let Format::Ng(section) = &self.format else { return Ok(()) };
        match (section.link(), self.failure.take()) {
            (None, Some(e)) => return Err(e),
            (link, failure) => {
                self.style = Style { link: link.unwrap_or(LinkType::Ethernet), ..Style::default() };
                self.failure = failure;
            }
        }
        Ok(())
    }

    /// From now on a silent pipe does not block the reader.
    pub fn live(&mut self) {
        self.live = self.pipe.is_some();
    }

    /// The descriptor to wait for if the next frame has not come yet.
    pub fn waits_for(&self) -> Option<RawFd> {
        self.pipe.as_ref().filter(|_| self.waits).map(AsRawFd::as_raw_fd)
    }

    /// The next frame; `None` while it has not come, and at the end, which `failure` may have
    /// brought about.
    pub fn peek(&mut self) -> Option<Next> {
        if self.next.is_none() && !self.ended {
            self.waits = false;
            let found = self.find();
            if self.waits {
                return None;
            }
            self.next = found.unwrap_or_else(|e| {
                let at = self.offset + self.at as u64;
                self.failure = Some(match e.starts_with(OTHER_LINK) {
                    // There is nothing wrong with it.
                    true => format!("frame {} of the capture cannot be read: {e}", self.count + 1),
                    false => format!("the capture is damaged at byte {at}, after {} frames: {e}", self.count),
                });
                None
            });
            self.ended = self.next.is_none();
        }
        self.next
    }

    /// The error that ended the capture early; returned once.
    pub fn failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    pub fn bytes(&self, next: &Next) -> &[u8] {
        &self.window[self.at + next.at..self.at + next.at + next.n]
    }

    /// Goes past the frame that `peek` gave.
    pub fn advance(&mut self) {
        if let Some(n) = self.next.take() {
            self.at += n.record;
            self.count += 1;
        }
    }

    /// Whether all was read and said.
    pub fn ended(&self) -> bool {
        self.ended && self.next.is_none() && self.failure.is_none()
    }

    fn find(&mut self) -> Result<Option<Next>, String> {
        match self.format {
            Format::Classic { big, nanos } => self.find_classic(big, nanos),
            Format::Ng(_) => self.find_ng(),
        }
    }

    fn find_classic(&mut self, big: bool, nanos: bool) -> Result<Option<Next>, String> {
        if !self.need(16)? {
            return if self.here().is_empty() { Ok(None) } else { Err("cut off within the header of a frame".into()) };
        }
        let h = self.here();
        let (seconds, fraction, n, wire) =
            (u32_at(h, 0, big), u32_at(h, 4, big), u32_at(h, 8, big), u32_at(h, 12, big));
        if n as usize > FRAME_MAX {
            return Err(format!("a frame of {n} bytes (at most {FRAME_MAX} are possible)"));
        }
        let n = n as usize;
        if !self.need(16 + n)? {
            return Err(format!("cut off within a frame of {n} bytes"));
        }
        let ns = if nanos { u64::from(fraction) } else { u64::from(fraction) * 1000 };
        Ok(Some(Next { time: u64::from(seconds) * 1_000_000_000 + ns, wire, at: 16, n, record: 16 + n }))
    }

    fn find_ng(&mut self) -> Result<Option<Next>, String> {
        loop {
            if !self.need(12)? {
                return if self.here().is_empty() {
                    Ok(None)
                } else {
                    Err("cut off within the header of a block".into())
                };
            }
            let Format::Ng(section) = &mut self.format else { return Ok(None) };
            let h = &self.window[self.at..self.end];
            let (kind, length) = section.block(h)?;
            if !Section::needs_all(kind) {
                self.skip(length)?;
                continue;
            }
            if length > WHOLE_MAX {
                return Err(format!("a block of {length} bytes"));
            }
            if !self.need(length)? {
                return Err(format!("cut off within a block of {length} bytes"));
            }
            let Format::Ng(section) = &mut self.format else { return Ok(None) };
            let block = &self.window[self.at..self.at + length];
            if let Some(next) = section.take(kind, block)? {
                return Ok(Some(next));
            }
            self.at += length;
        }
    }

    fn here(&self) -> &[u8] {
        &self.window[self.at..self.end]
    }

    /// Goes past `n` bytes, which may be more than the window holds, and waits for them.
    fn skip(&mut self, n: usize) -> Result<(), String> {
        let live = std::mem::replace(&mut self.live, false);
        let done = self.pass(n);
        self.live = live;
        done
    }

    fn pass(&mut self, mut n: usize) -> Result<(), String> {
        loop {
            let step = n.min(self.end - self.at);
            self.at += step;
            n -= step;
            if n == 0 {
                return Ok(());
            }
            if !self.need(1)? {
                return Err("cut off within a block".into());
            }
        }
    }

    /// Whether `n` bytes are (now) in the window.
    #[inline]
    fn need(&mut self, n: usize) -> Result<bool, String> {
        if self.end - self.at >= n {
            return Ok(true);
        }
        self.fill(n)
    }

    #[cold]
    fn fill(&mut self, n: usize) -> Result<bool, String> {
        self.window.copy_within(self.at..self.end, 0);
        self.offset += self.at as u64;
        self.end -= self.at;
        self.at = 0;
        while self.end < n && !self.eof {
            if self.live && self.pipe.as_ref().is_some_and(|p| !has_come(p)) {
                self.waits = true;
                return Ok(false);
            }
            if self.pipe.as_ref().is_some_and(|p| !has_come_in_time(p)) {
                self.eof = true;
                break;
            }
            match self.source.read(&mut self.window[self.end..]) {
                Ok(0) => self.eof = true,
                Ok(k) => self.end += k,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("cannot be read: {e}")),
            }
        }
        Ok(self.end >= n)
    }
}

/// Whether there is something to be read from a pipe, its end included.
fn has_come(pipe: &impl AsRawFd) -> bool {
    comes_within(pipe, 0)
}

fn comes_within(pipe: &impl AsRawFd, ms: libc::c_int) -> bool {
    let mut p = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd that lives here.
    unsafe { libc::poll(&mut p, 1, ms) > 0 }
}

/// Waits for input; false if the process is told to stop.
fn has_come_in_time(pipe: &impl AsRawFd) -> bool {
    while !comes_within(pipe, 100) {
        if is_told_to_stop() {
            return false;
        }
    }
    true
}

/// Whether SIGTERM or SIGINT has come: both are blocked and wait until the run looks for them.
fn is_told_to_stop() -> bool {
    // SAFETY: plain calls on a set that lives here.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&mut set) == 0
            && (libc::sigismember(&set, libc::SIGTERM) == 1 || libc::sigismember(&set, libc::SIGINT) == 1)
    }
}
