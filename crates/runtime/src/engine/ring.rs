//! Memory that the io_uring engine shares with the kernel: the ring of receive buffers, and the
//! headers of sends.

use io_uring::{opcode, squeue, types, IoUring};
use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU16, Ordering};

/// Buffers are consumed piecewise by consecutive receives (Linux 6.12).
const INCREMENTAL: u16 = 2;
const PAGE: usize = 4096;

/// Buffers that the kernel picks from when bytes arrive, and that we give back when they are used
/// up.
pub struct BufferRing {
    entries: *mut types::BufRingEntry,
    memory: *mut u8,
    size: u32,
    count: u16,
    tail: u16,
    /// Bytes of each buffer that were reported already.
    used: Vec<u32>,
    /// Buffers to give back when the batch is over.
    spent: Vec<u16>,
}

impl BufferRing {
    pub const GROUP: u16 = 0;
    /// All buffers together.
    pub const BYTES: u32 = 1 << 20;

    pub fn new(ring: &IoUring) -> io::Result<BufferRing> {
        // Piecewise: few large buffers. Else a receive takes a whole buffer, however few bytes
        // came: many small ones.
        let mut b = BufferRing::allocate(64);
        if b.register(ring, INCREMENTAL).is_err() {
            b = BufferRing::allocate(512);
            b.register(ring, 0)?;
        }
        for id in 0..b.count {
            b.offer(id);
        }
        b.publish();
        Ok(b)
    }

    fn entries_layout(count: u16) -> Layout {
        let bytes = count as usize * std::mem::size_of::<types::BufRingEntry>();
        Layout::from_size_align(bytes, PAGE).expect("a small page-aligned layout")
    }

    fn memory_layout() -> Layout {
        Layout::from_size_align(Self::BYTES as usize, PAGE).expect("a small page-aligned layout")
    }

    fn allocate(count: u16) -> BufferRing {
        // SAFETY: both layouts have a size above zero.
        let (entries, memory) =
            unsafe { (alloc_zeroed(Self::entries_layout(count)), alloc_zeroed(Self::memory_layout())) };
        if entries.is_null() || memory.is_null() {
            handle_alloc_error(Self::memory_layout());
        }
        let size = Self::BYTES / u32::from(count);
        let used = vec![0; count as usize];
        BufferRing { entries: entries.cast(), memory, size, count, tail: 0, used, spent: Vec::new() }
    }

    fn register(&mut self, ring: &IoUring, flags: u16) -> io::Result<()> {
        // SAFETY: the entries stay in place until `unregister` (from the engine's Drop) or the
        // ring's end.
        unsafe { ring.submitter().register_buf_ring_with_flags(self.entries as u64, self.count, Self::GROUP, flags) }
    }

    pub fn unregister(&mut self, ring: &IoUring) {
        let _ = ring.submitter().unregister_buf_ring(Self::GROUP);
    }

    fn offer(&mut self, id: u16) {
        let index = self.tail & (self.count - 1);
        self.used[id as usize] = 0;
        // SAFETY: index < count and id < count, so both pointers stay inside their allocations; the
        // kernel does not read this entry before `publish`.
        unsafe {
            let e = &mut *self.entries.add(index as usize);
            e.set_addr(self.memory.add(id as usize * self.size as usize) as u64);
            e.set_len(self.size);
            e.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        // SAFETY: the ring's tail is a u16 inside its first entry, shared with the kernel, hence
        // atomic.
        unsafe {
            let tail = types::BufRingEntry::tail(self.entries).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }

    /// Gives the buffers spent in the last batch back to the kernel: their bytes are gone.
    pub fn give_back(&mut self) {
        if self.spent.is_empty() {
            return;
        }
        let mut spent = std::mem::take(&mut self.spent);
        for id in spent.drain(..) {
            self.offer(id);
        }
        self.spent = spent;
        self.publish();
    }

    /// Notes that `n` more bytes of buffer `id` are filled; answers where they start. `more`: the
    /// kernel goes on filling this buffer.
    pub fn take(&mut self, id: u16, n: u32, more: bool) -> u32 {
        let used = &mut self.used[id as usize];
        let start = u32::from(id) * self.size + *used;
        *used += n;
        if !more {
            self.spent.push(id);
        }
        start
    }

    pub fn bytes(&self, start: u32, len: u32) -> &[u8] {
        assert!(start.checked_add(len).is_some_and(|end| end <= Self::BYTES));
        // SAFETY: in bounds; the kernel does not write reported bytes again before `give_back`,
        // which needs `&mut`.
        unsafe { std::slice::from_raw_parts(self.memory.add(start as usize), len as usize) }
    }
}

impl Drop for BufferRing {
    fn drop(&mut self) {
        // SAFETY: allocated with these layouts; the engine has unregistered the ring, or it was
        // never registered.
        unsafe {
            dealloc(self.entries.cast(), Self::entries_layout(self.count));
            dealloc(self.memory, Self::memory_layout());
        }
    }
}

/// A send under way: the header and slices the kernel reads.
pub struct Send {
    header: libc::msghdr,
    slices: [libc::iovec; super::MAX_SLICES],
    pub total: usize,
}

impl Default for Send {
    fn default() -> Self {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: msghdr is plain data; all zeroes is a valid value.
        Send { header: unsafe { std::mem::zeroed() }, slices: [none; super::MAX_SLICES], total: 0 }
    }
}

impl Send {
    /// The operation that sends `slices` (at most the first 16). `self` must stay in place until it
    /// completes.
    pub fn prepare(&mut self, fd: i32, slices: &[IoSlice<'_>]) -> squeue::Entry {
        let slices = &slices[..slices.len().min(super::MAX_SLICES)];
        self.total = slices.iter().map(|s| s.len()).sum();
        if let [one] = slices {
            let n = one.len().min(u32::MAX as usize) as u32;
            return opcode::Send::new(types::Fd(fd), one.as_ptr(), n).flags(libc::MSG_NOSIGNAL).build();
        }
        for (to, from) in self.slices.iter_mut().zip(slices) {
            *to = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
        }
        self.header.msg_iov = self.slices.as_mut_ptr();
        self.header.msg_iovlen = slices.len() as _;
        opcode::SendMsg::new(types::Fd(fd), &self.header).flags(libc::MSG_NOSIGNAL as u32).build()
    }
}
