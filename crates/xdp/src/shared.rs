//! Memory of a map that the kernel and this process share.

use crate::Error;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

pub struct Shared {
    at: *mut u8,
    size: usize,
}

// SAFETY: the memory is read and written here word by word, atomically.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps the values of an array, which lie side by side.
    pub fn new(map: BorrowedFd, size: usize) -> Result<Shared, Error> {
        Shared::mapped(map, size, libc::PROT_READ)
    }

    /// The same, to be written, too.
    pub fn writable(map: BorrowedFd, size: usize) -> Result<Shared, Error> {
        Shared::mapped(map, size, libc::PROT_READ | libc::PROT_WRITE)
    }

    fn mapped(map: BorrowedFd, size: usize, access: libc::c_int) -> Result<Shared, Error> {
        let size = size.next_multiple_of(4096);
        // SAFETY: a new mapping of a descriptor that is open.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_SHARED, map.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(Error::System("cannot map the program's memory".into(), io::Error::last_os_error()));
        }
        Ok(Shared { at: at.cast(), size })
    }

    /// The word at an offset in bytes; 0 behind the end.
    pub fn word(&self, at: usize) -> u64 {
        if !at.is_multiple_of(8) || at + 8 > self.size {
            return 0;
        }
        // SAFETY: within the mapping, aligned; others write it meanwhile, atomically for readers.
        unsafe { (*self.at.add(at).cast::<AtomicU64>()).load(Ordering::Relaxed) }
    }
}

impl Shared {
    /// Sets a word of a mapping that can be written; nothing behind the end.
    pub fn set(&self, at: usize, to: u64) {
        if at.is_multiple_of(8) && at + 8 <= self.size {
            // SAFETY: within the mapping, aligned. Only those write that have made it writable.
            unsafe { (*self.at.add(at).cast::<AtomicU64>()).store(to, Ordering::SeqCst) }
        }
    }
}

impl Shared {
    /// Sets bits of a word of such a mapping, which others change meanwhile.
    pub fn or(&self, at: usize, bits: u64) {
        if at.is_multiple_of(8) && at + 8 <= self.size {
            // SAFETY: within the mapping, aligned. Only those write that have made it writable.
            unsafe { (*self.at.add(at).cast::<AtomicU64>()).fetch_or(bits, Ordering::Relaxed) };
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own.
        unsafe { libc::munmap(self.at.cast(), self.size) };
    }
}
