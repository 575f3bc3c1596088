//! Records that programs in the hook put into a ring (`BPF_MAP_TYPE_RINGBUF`). The process takes
//! them, the oldest first.

use crate::Error;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a record's length, and of its place. While the kernel writes the record, its length is
/// larger than any.
const HEAD: u64 = 8;

/// In the length: the kernel still writes the record.
const BUSY: u32 = 1 << 31;

/// From the begin of a record to the next one.
fn step_of(size: usize) -> u64 {
    (size as u64 + HEAD).next_multiple_of(8)
}

/// The consumer's end. All records have one size.
pub struct Ring {
    /// The consumer's position, in a page that we write.
    position: *mut u8,
    /// The producers' position, in a page of its own; then all records, mapped twice in a row.
    records: *mut u8,
    page: usize,
    bytes: usize,
    /// Of a record; 0: they differ.
    size: usize,
}

// SAFETY: the mappings belong to this value, and the kernel's side is written atomically.
unsafe impl Send for Ring {}
// SAFETY: who borrows it reads positions only, atomically; to take a record needs it alone.
unsafe impl Sync for Ring {}

impl Ring {
    /// Maps a ring of so many bytes, a power of two.
    pub fn new(map: BorrowedFd, bytes: usize, size: usize) -> Result<Ring, Error> {
        // SAFETY: a plain system call.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let of = |size: usize, rights: libc::c_int, at: usize| {
            let (fd, at) = (map.as_raw_fd(), at as libc::off_t);
            // SAFETY: a new mapping of a descriptor that is open.
            match unsafe { libc::mmap(std::ptr::null_mut(), size, rights, libc::MAP_SHARED, fd, at) } {
                libc::MAP_FAILED => Err(Error::System("cannot map a ring of XDP".into(), io::Error::last_os_error())),
                place => Ok(place.cast::<u8>()),
            }
        };
        let position = of(page, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        match of(page + 2 * bytes, libc::PROT_READ, page) {
            Ok(records) => Ok(Ring { position, records, page, bytes, size }),
            Err(e) => {
                // SAFETY: made above.
                unsafe { libc::munmap(position.cast(), page) };
                Err(e)
            }
        }
    }

    fn word(place: *mut u8) -> &'static AtomicU64 {
        // SAFETY: the first word of a mapping, used while the ring is borrowed only.
        unsafe { AtomicU64::from_ptr(place.cast()) }
    }

    fn step(&self) -> u64 {
        step_of(self.size)
    }

    /// Records that wait.
    pub fn len(&self) -> u64 {
        let (from, to) =
            (Self::word(self.position).load(Ordering::Relaxed), Self::word(self.records).load(Ordering::Acquire));
        to.wrapping_sub(from) / self.step()
    }

    /// The record that begins at a position. `None`: the kernel is still writing it.
    fn record(&self, from: u64) -> Option<Vec<u8>> {
        // SAFETY: within the records, which are mapped twice in a row: a record is never cut.
        let at = unsafe { self.records.add(self.page + (from as usize & (self.bytes - 1))) };
        // SAFETY: the aligned first word of a record.
        let length = unsafe { AtomicU32::from_ptr(at.cast()) }.load(Ordering::Acquire);
        // Programs give no record up.
        if length & BUSY != 0 || length as usize > self.bytes || self.size > 0 && length as usize != self.size {
            return None;
        }
        // SAFETY: as above; the kernel leaves a record alone until the position is behind it.
        Some(unsafe { std::slice::from_raw_parts(at.add(HEAD as usize), length as usize) }.to_vec())
    }

    /// The record at a place, from the oldest on.
    pub fn at(&self, place: u64) -> Option<Vec<u8>> {
        let from = Self::word(self.position).load(Ordering::Relaxed);
        (place < self.len()).then(|| self.record(from + place * self.step()))?
    }

    /// Takes the oldest record.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let record = self.at(0)?;
        let next = Self::word(self.position).load(Ordering::Relaxed) + step_of(record.len());
        Self::word(self.position).store(next, Ordering::Release);
        Some(record)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mappings are this one's own.
        unsafe {
            libc::munmap(self.position.cast(), self.page);
            libc::munmap(self.records.cast(), self.page + 2 * self.bytes);
        }
    }
}
