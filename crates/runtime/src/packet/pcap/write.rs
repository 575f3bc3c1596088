//! Writing captures: pcap, or pcapng by the file's name; compressed if it ends in `.gz` or `.zst`.

use super::link::{LinkType, Style};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Bytes gathered before they are written.
const STEP: usize = 256 << 10;

enum To {
    Plain(File),
    Gz(flate2::write::GzEncoder<File>),
    Zst(zstd::Encoder<'static, File>),
}

impl To {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            To::Plain(f) => f.write_all(bytes),
            To::Gz(f) => f.write_all(bytes),
            To::Zst(f) => f.write_all(bytes),
        }
    }
    fn finish(self) -> io::Result<()> {
        match self {
            To::Plain(_) => Ok(()),
            To::Gz(f) => f.finish().map(drop),
            To::Zst(f) => f.finish().map(drop),
        }
    }
}

pub struct Writer {
    to: Option<To>,
    buffer: Vec<u8>,
    ng: bool,
    nanos: bool,
    failure: Option<io::Error>,
}

impl Writer {
    pub fn create(path: &Path, style: Style) -> Result<Writer, String> {
        let fail = |e: io::Error| format!("cannot write {}: {e}", path.display());
        let file = File::create(path).map_err(fail)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let (name, to) = if let Some(n) = name.strip_suffix(".gz") {
            (n, To::Gz(flate2::write::GzEncoder::new(file, flate2::Compression::fast())))
        } else if let Some(n) = name.strip_suffix(".zst") {
            (n, To::Zst(zstd::Encoder::new(file, 1).map_err(fail)?))
        } else {
            (&name[..], To::Plain(file))
        };
        let ng = name.ends_with(".pcapng");
        let mut w =
            Writer { to: Some(to), buffer: Vec::with_capacity(STEP + 65_536), ng, nanos: style.nanos, failure: None };
        if ng {
            w.ng_header(style.link)
        } else {
            w.classic_header(style)
        }
        // A file that cannot be written fails here at once.
        w.flush();
        match w.failure.take() {
            Some(e) => Err(fail(e)),
            None => Ok(w),
        }
    }

    fn classic_header(&mut self, s: Style) {
        let magic: u32 = if s.nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        // Frames may have grown, and readers cut them to the header's length.
        self.words(&[magic, 0x0004_0002, 0, 0, s.snap.max(u16::MAX.into()), s.link.number().into()]);
    }

    fn ng_header(&mut self, link: LinkType) {
        // A section of unknown length, and one interface that counts nanoseconds.
        self.words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 0x0000_0001, u32::MAX, u32::MAX, 28]);
        self.words(&[1, 32, link.number().into(), super::super::pool::FRAME_MAX as u32, 0x0001_0009, 9, 0, 32]);
    }

    fn words(&mut self, words: &[u32]) {
        for w in words {
            self.buffer.extend_from_slice(&w.to_le_bytes());
        }
    }

    /// Writes a frame; false: it cannot be written.
    pub fn frame(&mut self, bytes: &[u8], time: u64, wire: u32) -> bool {
        if self.failure.is_some() || self.to.is_none() {
            return false;
        }
        let n = bytes.len() as u32;
        if self.ng {
            let whole = 32 + n.next_multiple_of(4);
            self.words(&[6, whole, 0, (time >> 32) as u32, time as u32, n, wire.max(n)]);
            self.buffer.extend_from_slice(bytes);
            self.buffer.resize(self.buffer.len() + (n.next_multiple_of(4) - n) as usize, 0);
            self.words(&[whole]);
        } else {
            let (seconds, ns) = (time / 1_000_000_000, time % 1_000_000_000);
            let fraction = if self.nanos { ns } else { ns / 1000 };
            self.words(&[seconds.min(u32::MAX.into()) as u32, fraction as u32, n, wire.max(n)]);
            self.buffer.extend_from_slice(bytes);
        }
        if self.buffer.len() >= STEP {
            self.flush();
        }
        self.failure.is_none()
    }

    /// Writes the gathered frames while no new ones come, for readers of the file or pipe.
    pub fn write_out(&mut self) {
        if !self.buffer.is_empty() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if let Some(to) = &mut self.to {
            if let Err(e) = to.write(&self.buffer) {
                self.failure.get_or_insert(e);
            }
        }
        self.buffer.clear();
    }

    /// Writes the rest and ends the file.
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush();
        let ended = self.to.take().map_or(Ok(()), To::finish);
        self.failure.take().map_or(ended, Err)
    }
}
