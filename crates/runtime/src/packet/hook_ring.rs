//! Frames that a program in the XDP hook puts into a ring (`BPF_MAP_TYPE_RINGBUF`): the parts that
//! a queue carries. The kernel copies only these, and keeps no buffer of this process meanwhile.
//!
//! A record is a note, the frame's length and how many of its bytes are there, the queue's entry,
//! and the bytes: `wl_to_ring` of `support/bpf.h`. Records of all processors come in one order.

use super::batch::Batch;
use super::pool::Pool;
use super::port::{FramePort, Sent};
use crate::abi::{wl_frame, WL_GONE};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

/// The note of a frame for the handler of its own port.
pub const OWN: u16 = u16::MAX;
/// Bytes of a record's head, which the kernel writes: its length, and its place.
const HEAD: u64 = 8;
/// Bits of the length: the record is still being written; it was given up.
const BUSY: u32 = 1 << 31;
const GIVEN_UP: u32 = 1 << 30;
/// Bytes before the entry.
const FIRST: usize = 16;

/// The program's ring, and the frames that found it full.
#[derive(Clone)]
pub struct RingSource {
    pub map: Arc<OwnedFd>,
    /// A power of two.
    pub bytes: usize,
    /// Words of an entry.
    pub words: usize,
    pub lost: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Says whether the reader looks by itself. Else a frame wakes it that begins with the bell.
    pub awake: Arc<dyn Fn(bool) + Send + Sync>,
    pub bell: u64,
}

/// Bytes of a frame that does nothing but wake the reader: `WL_BELL` of `support/bpf.h`.
const BELL: u32 = 14;

impl RingSource {
    /// Whether a frame does nothing but wake the reader.
    pub fn is_bell(&self, f: &wl_frame) -> bool {
        // SAFETY: the frame has these bytes.
        f.n == BELL && unsafe { f.p.cast::<u64>().read_unaligned() } == self.bell
    }
}

/// A record as it lies in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingRecord<'a> {
    pub note: u64,
    /// Bytes of the whole frame.
    pub n: u32,
    pub entry: &'a [u8],
    /// The beginning of the frame.
    pub bytes: &'a [u8],
}

impl<'a> RingRecord<'a> {
    /// None: these bytes are no record.
    fn of(all: &'a [u8], words: usize) -> Option<RingRecord<'a>> {
        let (first, rest) = all.split_at_checked(FIRST)?;
        let (entry, rest) = rest.split_at_checked(8 * words)?;
        let number = |at: usize| first[at..at + 4].try_into().map(u32::from_ne_bytes).ok();
        let (n, there) = (number(8)?, number(12)?);
        let note = u64::from_ne_bytes(first[..8].try_into().ok()?);
        (there <= n).then_some(RingRecord { note, n, entry, bytes: rest.get(..there as usize)? })
    }
}

/// The consumer's end of a ring.
pub struct HookRing {
    source: RingSource,
    /// The consumer's position, in a page that we write.
    position: *mut u8,
    /// The producers' position, in a page of its own; then all records, mapped twice in a row.
    records: *mut u8,
    page: usize,
    at: u64,
    lost: u64,
    /// Whether it has said last that it is awake.
    awake: AtomicBool,
}

// SAFETY: the mappings belong to this value alone, and the kernel's side is written atomically.
unsafe impl Send for HookRing {}

impl HookRing {
    pub fn open(source: &RingSource) -> io::Result<HookRing> {
        // SAFETY: a plain system call.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let of = |size: usize, rights: libc::c_int, at: usize| {
            let (fd, at) = (source.map.as_raw_fd(), at as libc::off_t);
            // SAFETY: a new mapping of a descriptor that is open.
            match unsafe { libc::mmap(std::ptr::null_mut(), size, rights, libc::MAP_SHARED, fd, at) } {
                libc::MAP_FAILED => Err(io::Error::last_os_error()),
                place => Ok(place.cast::<u8>()),
            }
        };
        let position = of(page, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let records = of(page + 2 * source.bytes, libc::PROT_READ, page).inspect_err(|_| {
            // SAFETY: made above.
            unsafe { libc::munmap(position.cast(), page) };
        })?;
        let at = word(position).load(Ordering::Relaxed);
        Ok(HookRing { source: source.clone(), position, records, page, at, lost: 0, awake: AtomicBool::new(false) })
    }

    fn say(&self, awake: bool) {
        if self.awake.swap(awake, Ordering::Relaxed) != awake {
            (self.source.awake)(awake);
            // The next look at the ring, or the kernel's, must come later.
            fence(Ordering::SeqCst);
        }
    }

    /// Takes records, as long as `take` has room for them (true: it has taken it).
    pub fn read(&mut self, mut take: impl FnMut(RingRecord) -> bool) {
        loop {
            let (before, mut more) = (self.at, true);
            let end = word(self.records).load(Ordering::Acquire);
            while more && self.at != end {
                // SAFETY: within the records, which are mapped twice in a row: none is cut.
                let place = unsafe { self.records.add(self.page + (self.at as usize & (self.source.bytes - 1))) };
                // SAFETY: the aligned first word of a record.
                let length = unsafe { AtomicU32::from_ptr(place.cast()) }.load(Ordering::Acquire);
                let size = (length & !(BUSY | GIVEN_UP)) as usize;
                if length & BUSY != 0 || size > self.source.bytes {
                    break;
                }
                if length & GIVEN_UP == 0 {
                    // SAFETY: as above; the kernel leaves it alone until the position is behind it.
                    let bytes = unsafe { std::slice::from_raw_parts(place.add(HEAD as usize), size) };
                    more = RingRecord::of(bytes, self.source.words).is_none_or(&mut take);
                }
                if more {
                    self.at += (size as u64 + HEAD).next_multiple_of(8);
                }
            }
            if self.at == before {
                return;
            }
            word(self.position).store(self.at, Ordering::Release);
            if !more {
                return;
            }
        }
    }
}

fn word(page: *mut u8) -> &'static AtomicU64 {
    // SAFETY: the first word of a mapping, used within calls of its owner only.
    unsafe { AtomicU64::from_ptr(page.cast()) }
}

impl Drop for HookRing {
    fn drop(&mut self) {
        // SAFETY: the mappings are this one's own.
        unsafe {
            libc::munmap(self.position.cast(), self.page);
            libc::munmap(self.records.cast(), self.page + 2 * self.source.bytes);
        }
    }
}

/// The frame of a record, in a buffer of the pool.
fn store(pool: &mut Pool, r: &RingRecord) -> Option<(super::batch::Buf, wl_frame)> {
    let (buf, mut f) = pool.take(r.n as usize)?;
    // SAFETY: the frame has room for `n` bytes, of which no more than that are there.
    unsafe { std::ptr::copy_nonoverlapping(r.bytes.as_ptr(), f.p, r.bytes.len()) };
    pool.region().entry(buf, usize::MAX, |own| {
        for (w, bytes) in own.iter_mut().zip(r.entry.chunks_exact(8)) {
            *w = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
    });
    let port = (r.note >> 48) as u16;
    f.out = if port == OWN { WL_GONE } else { (r.note >> 32) as u32 };
    f.set_mark(r.note as u32);
    Some((buf, f))
}

impl FramePort for HookRing {
    fn receive(&mut self, pool: &mut Pool, into: &mut Batch, _: u64) -> io::Result<()> {
        self.say(true);
        self.read(|r| {
            if into.room() == 0 {
                return false;
            }
            match store(pool, &r) {
                Some((buf, f)) => {
                    into.push(buf, f);
                    true
                }
                // Without a free buffer it stays there.
                None => false,
            }
        });
        Ok(())
    }

    /// Frames leave by the socket of their interface.
    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> Sent {
        batch.release(pool);
        Sent::default()
    }

    /// Asked before the thread waits for it.
    fn fd(&self) -> Option<RawFd> {
        self.say(false);
        Some(self.source.map.as_raw_fd())
    }

    fn lost(&mut self) -> u64 {
        let all = (self.source.lost)();
        all - std::mem::replace(&mut self.lost, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_its_parts() {
        let mut all = vec![0u8; 40];
        all[..8].copy_from_slice(&(3u64 << 48 | 9 << 32 | 0xdead_beef).to_ne_bytes());
        all[8..12].copy_from_slice(&1500u32.to_ne_bytes());
        all[12..16].copy_from_slice(&10u32.to_ne_bytes());
        all[16..24].copy_from_slice(&77u64.to_ne_bytes());
        all[24..34].copy_from_slice(b"0123456789");
        let r = RingRecord::of(&all, 1).expect("a record");
        assert_eq!(
            (r.note, r.n, r.entry, r.bytes),
            (3 << 48 | 9 << 32 | 0xdead_beef, 1500, &all[16..24], &all[24..34])
        );
        // Lengths that lie.
        assert_eq!(RingRecord::of(&all[..30], 1), None);
        assert_eq!(RingRecord::of(&all[..20], 1), None);
        assert_eq!(RingRecord::of(&all[..9], 1), None);
        all[12..16].copy_from_slice(&1501u32.to_ne_bytes());
        assert_eq!(RingRecord::of(&all, 1), None);
    }
}
