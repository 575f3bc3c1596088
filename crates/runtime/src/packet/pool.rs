//! Buffers for frames. In: the number of frames that a core must be able to hold. Out: buffers with
//! room before and behind the frame.
//!
//! One region of memory serves all cores. So one core can receive a frame, another handle it and a
//! third send it. The region can also be the UMEM of every AF_XDP socket. Each core owns a part. A
//! buffer that ends its way elsewhere returns to its owner through a ring. Where apps of several
//! cores share frames, each buffer has a count of its holders. The last one to release it frees it.
//! Small buffers are one page each. Larger frames (captures of coalesced segments) take one of the
//! few large buffers, whose pages are absent until used.

use super::batch::{Batch, Buf, NONE};
use super::offload::{Large, Undone, HEADER};
use super::spsc::{self, Consumer, Producer};
use crate::abi::{wl_frame, WL_GONE, WL_HEADROOM, WL_TAILROOM};
use std::cell::UnsafeCell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use wireloom_ir::desc;

/// Offset in a buffer's note of the frame's offload work. The port's part is before it.
const UNDONE_AT: usize = NOTE - Undone::SIZE;
/// Before that lies the kernel's header for a frame that it is to complete.
const HEADER_AT: usize = UNDONE_AT - HEADER;

/// Bytes of a small buffer, the chunk of AF_XDP.
pub const CHUNK: usize = desc::FRAME_BUFFER as usize;
/// The first bytes of a buffer, which belong to the port that received into it (an address, say).
pub const NOTE: usize = 64;
const HEAD: usize = NOTE + WL_HEADROOM as usize;
/// Largest frame of a small buffer.
const SMALL_MAX: usize = CHUNK - HEAD - WL_TAILROOM as usize;
/// Largest frame at all: the largest snap length in use.
pub const FRAME_MAX: usize = LARGE - CHUNK;
const LARGE: usize = desc::LARGE_FRAME_BUFFER as usize;
/// Large buffers of a core: enough for a batch in and a batch of copies.
const LARGE_COUNT: usize = desc::LARGE_FRAME_BUFFERS as usize;
/// Large buffers that may wait in the queues of a core, all together: the others are for frames on
/// their way.
const LARGE_WAIT: usize = 64;
/// Small frames begin at one of this many cache lines. If they all began at the same one, the
/// frames of a batch would share few cache sets.
const COLOURS: usize = 16;
pub const COLOURED_MAX: usize = SMALL_MAX - COLOURS * 64;

/// The memory of all buffers.
pub struct Region {
    base: *mut u8,
    bytes: usize,
    cores: usize,
    /// Small buffers of a core.
    small: usize,
    /// Holders of each buffer, 1 for free ones; empty: no buffer is shared.
    holders: Box<[AtomicU32]>,
    /// The AF_XDP socket with which it was registered as UMEM.
    umem_socket: Mutex<Option<Umem>>,
    /// Some port leaves checksums and the cut of segments to the ports behind it.
    offloads: AtomicBool,
    /// For each buffer: what goes through queues beside its frame, so many words.
    entries: OnceLock<(usize, Box<[EntryWord]>)>,
}

/// A word of an entry: it belongs to the holder of its buffer.
#[repr(transparent)]
struct EntryWord(UnsafeCell<u64>);

// SAFETY: as for the buffers.
unsafe impl Sync for EntryWord {}

/// The region as an AF_XDP socket has registered it.
pub struct Umem {
    pub socket: Arc<OwnedFd>,
    /// Frames may take several buffers.
    pub frags: bool,
}

// SAFETY: plain memory; only the holder of a buffer's number uses the buffer.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    fn new(cores: usize, small: usize, shared: bool) -> io::Result<Arc<Region>> {
        let bytes = cores * (small * CHUNK + LARGE_COUNT * LARGE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping of our own.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping, which has no other reference yet.
        crate::large_pages::huge_pages(unsafe { std::slice::from_raw_parts(base.cast::<u8>(), cores * small * CHUNK) });
        let holders = (0..if shared { cores * (small + LARGE_COUNT) } else { 0 }).map(|_| AtomicU32::new(1)).collect();
        Ok(Arc::new(Region {
            base: base.cast(),
            bytes,
            cores,
            small,
            holders,
            umem_socket: Mutex::new(None),
            offloads: AtomicBool::new(false),
            entries: OnceLock::new(),
        }))
    }

    /// The small buffers of all cores: the UMEM of AF_XDP sockets.
    #[inline]
    pub fn umem(&self) -> (*mut u8, usize) {
        (self.base, self.cores * self.small * CHUNK)
    }

    pub fn umem_socket(&self) -> &Mutex<Option<Umem>> {
        &self.umem_socket
    }

    pub fn offloads(&self) -> bool {
        self.offloads.load(Relaxed)
    }

    /// From now on buffers are taken with an empty [`Undone`].
    pub fn keep_offloads(&self) {
        self.offloads.store(true, Relaxed);
    }

    /// From now on each buffer has room for an entry of so many bytes.
    pub fn keep_entries(&self, bytes: usize) {
        let words = bytes.div_ceil(8);
        let all = words * self.cores * self.per_core();
        self.entries.get_or_init(|| (words, (0..all).map(|_| EntryWord(UnsafeCell::new(0))).collect()));
    }

    /// The first words of a buffer's entry, for its holder.
    pub fn entry<T>(&self, buf: Buf, words: usize, f: impl FnOnce(&mut [u64]) -> T) -> Option<T> {
        let (each, all) = self.entries.get()?;
        let own = all.get(buf as usize * each..)?.get(..words.min(*each))?;
        // SAFETY: a word takes as much room as its number, and only the holder of the buffer uses
        // its words.
        Some(f(unsafe {
            let first = UnsafeCell::raw_get(&raw const (*own.as_ptr()).0);
            std::slice::from_raw_parts_mut(first, own.len())
        }))
    }

    /// Buffers of one core, of both sizes.
    pub fn per_core(&self) -> usize {
        self.small + LARGE_COUNT
    }

    #[inline]
    fn is_small(&self, buf: Buf) -> bool {
        (buf as usize) < self.cores * self.small
    }

    fn owner(&self, buf: Buf) -> usize {
        if self.is_small(buf) {
            buf as usize / self.small
        } else {
            (buf as usize - self.cores * self.small) / LARGE_COUNT
        }
    }

    /// One holder less; whether that was the last one.
    fn leave(&self, buf: Buf) -> bool {
        let Some(holders) = self.holders.get(buf as usize) else { return true };
        // Only holders make others, so a single holder stays single.
        if holders.load(Acquire) > 1 {
            if holders.fetch_sub(1, AcqRel) > 1 {
                return false;
            }
            holders.store(1, Relaxed);
        }
        true
    }

    /// A buffer's first byte and its length.
    #[inline]
    fn place(&self, buf: Buf) -> (*mut u8, usize) {
        let (at, size) = if self.is_small(buf) {
            (buf as usize * CHUNK, CHUNK)
        } else {
            let (_, small) = self.umem();
            (small + (buf as usize - self.cores * self.small) * LARGE, LARGE)
        };
        debug_assert!(at + size <= self.bytes);
        // SAFETY: numbers of buffers come from this region only.
        (unsafe { self.base.add(at) }, size)
    }
}

/// An empty frame of `n` bytes in the buffer at `at`.
///
/// # Safety
/// The buffer has `size` bytes, which is room for the frame.
#[inline]
unsafe fn frame(at: *mut u8, size: usize, buf: Buf, n: usize) -> wl_frame {
    let colour = if n <= COLOURED_MAX { (buf as usize % COLOURS) * 64 } else { 0 };
    let (head, n) = (WL_HEADROOM as usize + colour, n as u32);
    // SAFETY: `HEAD` and the colours are within the buffer.
    let p = unsafe { at.add(NOTE + head) };
    wl_frame {
        p,
        n,
        head: head as u32,
        tail: (size - NOTE - head) as u32 - n,
        port: 0,
        instance: 0,
        time: 0,
        wire: n,
        out: WL_GONE,
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; each user of it holds an `Arc` of it.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}

/// Copies a frame. Short ones, the majority, are copied by wide moves that overlap, without a call.
///
/// # Safety
/// As for `copy_nonoverlapping`.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, n: usize) {
    type Wide = [u8; 32];
    // SAFETY: each move is within the `n` bytes.
    let wide =
        |at: usize| unsafe { to.add(at).cast::<Wide>().write_unaligned(from.add(at).cast::<Wide>().read_unaligned()) };
    match n {
        32..=64 => [0, n - 32].into_iter().for_each(wide),
        65..=128 => [0, 32, n - 64, n - 32].into_iter().for_each(wide),
        // SAFETY: by contract.
        _ => unsafe { std::ptr::copy_nonoverlapping(from, to, n) },
    }
}

/// A core's buffers.
pub struct Pool {
    region: Arc<Region>,
    /// Numbers of its small buffers: from the first on, so many.
    first: Buf,
    count: u32,
    core: usize,
    small: Vec<Buf>,
    large: Vec<Buf>,
    /// Large buffers that wait in this core's queues.
    large_waiting: usize,
    /// To and from the other cores: buffers on their way home.
    home: Vec<Option<Producer<Buf>>>,
    back: Vec<Consumer<Buf>>,
}

impl Pool {
    /// One pool per core, each with `small` buffers.
    pub fn all(cores: usize, small: usize) -> io::Result<Vec<Pool>> {
        Pool::of(Region::new(cores, small, false)?, cores)
    }

    /// Whose buffers several cores may hold at once.
    pub fn all_shared(cores: usize, small: usize) -> io::Result<Vec<Pool>> {
        Pool::of(Region::new(cores, small, true)?, cores)
    }

    fn of(region: Arc<Region>, cores: usize) -> io::Result<Vec<Pool>> {
        let mut pools: Vec<Pool> = (0..cores).map(|core| Pool::new(&region, core)).collect();
        for from in 0..cores {
            for to in 0..cores {
                let ring = (from != to).then(|| spsc::ring(region.per_core()));
                let (give, take) = ring.unzip();
                pools[from].home.push(give);
                pools[to].back.extend(take);
            }
        }
        Ok(pools)
    }

    fn new(region: &Arc<Region>, core: usize) -> Pool {
        let numbers = |first: usize, n: usize| (first..first + n).rev().map(|i| i as Buf).collect();
        let small = numbers(core * region.small, region.small);
        let large = numbers(region.cores * region.small + core * LARGE_COUNT, LARGE_COUNT);
        // With counts of holders no buffer goes the short way.
        let count = if region.holders.is_empty() { region.small as u32 } else { 0 };
        let first = (core * region.small) as Buf;
        Pool {
            region: region.clone(),
            first,
            count,
            core,
            small,
            large,
            large_waiting: 0,
            home: Vec::new(),
            back: Vec::new(),
        }
    }

    /// For an app that borrows another's: has none.
    pub fn guest(region: &Arc<Region>) -> Pool {
        Pool {
            region: region.clone(),
            first: 0,
            count: 0,
            core: usize::MAX,
            small: Vec::new(),
            large: Vec::new(),
            large_waiting: 0,
            home: Vec::new(),
            back: Vec::new(),
        }
    }

    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Adds a holder; called by a holder of the buffer.
    pub fn hold(&self, buf: Buf) {
        if let Some(holders) = self.region.holders.get(buf as usize) {
            holders.fetch_add(1, Relaxed);
        }
    }

    /// Whether the buffer has other holders, or none at all.
    pub fn is_shared(&self, buf: Buf) -> bool {
        buf == NONE || self.region.holders.get(buf as usize).is_some_and(|h| h.load(Acquire) > 1)
    }

    /// Small buffers to be had now.
    pub fn free(&mut self) -> usize {
        if self.small.len() < super::BATCH {
            self.collect();
        }
        self.small.len()
    }

    /// Whether there are so many small buffers.
    pub fn has_spare(&mut self, n: usize) -> bool {
        if self.small.len() < n {
            self.collect();
        }
        self.small.len() >= n
    }

    /// Takes in the buffers that other cores have given back.
    pub fn collect(&mut self) {
        for back in &mut self.back {
            while let Some(buf) = back.pop() {
                let list = if self.region.is_small(buf) { &mut self.small } else { &mut self.large };
                list.push(buf);
            }
        }
    }

    /// An empty frame with room for `n` bytes. Its time and origin are for the caller to set.
    #[inline]
    pub fn take(&mut self, n: usize) -> Option<(Buf, wl_frame)> {
        if n > FRAME_MAX {
            return None;
        }
        let buf = if n <= SMALL_MAX { self.take_small()? } else { self.take_large()? };
        let (at, size) = self.region.place(buf);
        // SAFETY: the buffer has the room.
        Some((buf, unsafe { frame(at, size, buf, n) }))
    }

    /// Whether there is a buffer for a frame of `n` bytes.
    pub fn has(&mut self, n: usize) -> bool {
        if n > FRAME_MAX {
            return false;
        }
        self.collect();
        !if n <= SMALL_MAX { &self.small } else { &self.large }.is_empty()
    }

    /// A frame that holds these bytes.
    #[inline]
    pub fn store(&mut self, bytes: &[u8]) -> Option<(Buf, wl_frame)> {
        let (buf, frame) = self.take(bytes.len())?;
        // SAFETY: the frame has room for the bytes, and no other reference to it exists.
        unsafe { copy(bytes.as_ptr(), frame.p, bytes.len()) };
        Some((buf, frame))
    }

    /// A frame of the same length, of which only the first `there` bytes are copied: nobody reads
    /// more.
    #[inline]
    pub fn store_part(&mut self, bytes: &[u8], there: usize) -> Option<(Buf, wl_frame)> {
        let (buf, frame) = self.take(bytes.len())?;
        // SAFETY: as in `store`.
        unsafe { copy(bytes.as_ptr(), frame.p, there.min(bytes.len())) };
        Some((buf, frame))
    }

    /// The next piece of a large frame, in a buffer of its own; `None`: there is none for it now.
    pub fn take_piece(&mut self, large: &mut Large) -> Option<(Buf, wl_frame)> {
        let n = large.next();
        let (buf, mut f) = self.take(n)?;
        // SAFETY: a buffer of our own with that much room.
        large.take(unsafe { std::slice::from_raw_parts_mut(f.p, n) });
        f.time = large.time;
        Some((buf, f))
    }

    /// Stores frames of at most [`COLOURED_MAX`] bytes, as many as there are buffers for, behind
    /// those of the batch.
    #[inline]
    pub fn store_all<'a>(&mut self, frames: impl ExactSizeIterator<Item = &'a [u8]>, into: &mut Batch) {
        if self.small.len() < frames.len() {
            self.collect();
        }
        let left = self.small.len().saturating_sub(frames.len());
        let count = self.small.len() - left;
        let (base, bufs) = (self.region.base, &self.small[left..]);
        into.frames.extend(frames.zip(bufs).map(|(bytes, buf)| {
            assert!(bytes.len() <= COLOURED_MAX);
            // SAFETY: a small buffer of the region, which has the room and no other reference.
            unsafe {
                let frame = frame(base.add(*buf as usize * CHUNK), CHUNK, *buf, bytes.len());
                copy(bytes.as_ptr(), frame.p, bytes.len());
                frame
            }
        }));
        into.bufs.extend_from_slice(bufs);
        self.small.truncate(left);
        if self.region.offloads() {
            for k in into.len() - count..into.len() {
                self.set_undone(into.bufs[k], Undone::default());
            }
        }
    }

    /// A small buffer as such, for a ring that the kernel fills.
    #[inline]
    pub fn take_small(&mut self) -> Option<Buf> {
        if self.small.is_empty() {
            self.collect();
        }
        let buf = self.small.pop()?;
        self.forget_undone(buf);
        Some(buf)
    }

    fn take_large(&mut self) -> Option<Buf> {
        if self.large.is_empty() {
            self.collect();
        }
        let buf = self.large.pop()?;
        self.forget_undone(buf);
        Some(buf)
    }

    fn forget_undone(&mut self, buf: Buf) {
        if self.region.offloads() {
            self.set_undone(buf, Undone::default());
        }
    }

    /// The offload work that is left for the frame of a buffer.
    pub fn undone(&mut self, buf: Buf) -> Undone {
        self.note(buf).map_or(Undone::default(), |n| Undone::read(&n[UNDONE_AT..]))
    }

    /// The kernel's header for a frame that leaves; empty if the kernel has nothing to do.
    pub fn header(&mut self, buf: Buf) -> [u8; HEADER] {
        let mut h = [0; HEADER];
        if let Some(n) = self.note(buf).filter(|n| !Undone::read(&n[UNDONE_AT..]).is_nothing()) {
            h.copy_from_slice(&n[HEADER_AT..UNDONE_AT]);
        }
        h
    }

    pub fn set_header(&mut self, buf: Buf, header: &[u8; HEADER]) {
        if let Some(n) = self.note(buf) {
            n[HEADER_AT..UNDONE_AT].copy_from_slice(header);
        }
    }

    pub fn set_undone(&mut self, buf: Buf, undone: Undone) {
        if let Some(n) = self.note(buf) {
            undone.write(&mut n[UNDONE_AT..]);
        }
    }

    /// Gives a buffer back.
    #[inline]
    pub fn put(&mut self, buf: Buf) {
        if buf.wrapping_sub(self.first) < self.count {
            self.small.push(buf);
        } else if buf != NONE {
            self.put_far(buf);
            self.home.iter().flatten().for_each(Producer::show);
        }
    }

    fn put_quietly(&mut self, buf: Buf) {
        if buf.wrapping_sub(self.first) < self.count {
            self.small.push(buf);
        } else if buf != NONE {
            self.put_far(buf);
        }
    }

    /// Gives many back: those of one origin at once.
    #[inline]
    pub fn put_all(&mut self, bufs: &[Buf]) {
        // Without early exits, so that many are compared at once.
        let (first, count) = (self.first, self.count);
        if bufs.iter().fold(true, |all, b| all & (b.wrapping_sub(first) < count)) {
            self.small.extend_from_slice(bufs);
        } else if !bufs.iter().fold(true, |all, b| all & (*b == NONE)) {
            bufs.iter().for_each(|b| self.put_quietly(*b));
            self.home.iter().flatten().for_each(Producer::show);
        }
    }

    fn put_far(&mut self, buf: Buf) {
        if !self.region.leave(buf) {
            return;
        }
        let owner = self.region.owner(buf);
        if owner == self.core {
            let list = if self.region.is_small(buf) { &mut self.small } else { &mut self.large };
            list.push(buf);
        } else if let Some(Some(home)) = self.home.get_mut(owner) {
            // The ring holds as many as there are.
            home.put(buf);
        }
    }

    /// A received frame at `at` in the UMEM; `None`: it does not lie within one buffer.
    pub fn at_address(&self, at: u64, n: u32) -> Option<(Buf, wl_frame)> {
        let (_, umem) = self.region.umem();
        let (buf, offset) = (at as usize / CHUNK, at as usize % CHUNK);
        if at as usize >= umem || offset < NOTE || offset + n as usize > CHUNK {
            return None;
        }
        let (start, size) = self.region.place(buf as Buf);
        // SAFETY: checked above.
        let p = unsafe { start.add(offset) };
        let (head, tail) = ((offset - NOTE) as u32, (size - offset) as u32 - n);
        Some((buf as Buf, wl_frame { p, n, head, tail, port: 0, instance: 0, time: 0, wire: n, out: WL_GONE }))
    }

    /// The room of a small buffer with one holder, and its offset in the UMEM.
    pub fn room_of(&mut self, buf: Buf) -> (&mut [u8], u64) {
        assert!(self.region.is_small(buf));
        let (at, size) = self.region.place(buf);
        // SAFETY: the caller holds the buffer, and the slice borrows the pool.
        (unsafe { std::slice::from_raw_parts_mut(at.add(NOTE), size - NOTE) }, (buf as usize * CHUNK + NOTE) as u64)
    }

    /// Whether it is one of the few for large frames.
    fn is_large(&self, buf: Buf) -> bool {
        buf != NONE && !self.region.is_small(buf)
    }

    /// A frame is to wait in a queue. False: too many of the few large buffers do.
    pub fn wait(&mut self, buf: Buf) -> bool {
        let large = self.is_large(buf);
        let room = !large || self.large_waiting < LARGE_WAIT;
        self.large_waiting += usize::from(large && room);
        room
    }

    /// A frame waits no longer.
    pub fn go_on(&mut self, buf: Buf) {
        self.large_waiting -= usize::from(self.is_large(buf));
    }

    /// Where a frame lies in the UMEM, if it does.
    pub fn address_of(&self, buf: Buf, frame: &wl_frame) -> Option<u64> {
        (buf != NONE && self.region.is_small(buf)).then(|| frame.p as u64 - self.region.base as u64)
    }

    /// The note of the port that received into the buffer.
    pub fn note(&mut self, buf: Buf) -> Option<&mut [u8; NOTE]> {
        // SAFETY: the caller holds the buffer; its first bytes are no part of any frame.
        (buf != NONE).then(|| unsafe { &mut *self.region.place(buf).0.cast::<[u8; NOTE]>() })
    }
}

impl Batch {
    /// Gives all buffers back.
    #[inline]
    pub fn release(&mut self, pool: &mut Pool) {
        if !self.lent {
            pool.put_all(&self.bufs);
            self.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_room_on_both_sides() {
        let mut pool = Pool::all(1, 128).unwrap().remove(0);
        for n in [0, 1, 64, 1514, COLOURED_MAX, SMALL_MAX, SMALL_MAX + 1, 65_536, FRAME_MAX] {
            let (buf, f) = pool.take(n).unwrap();
            let (start, size) = pool.region.place(buf);
            assert!(f.head >= WL_HEADROOM && f.tail >= WL_TAILROOM, "{n}: {} {}", f.head, f.tail);
            assert_eq!(f.p as usize - f.head as usize, start as usize + NOTE, "{n}");
            assert_eq!(f.p as usize + (f.n + f.tail) as usize, start as usize + size, "{n}");
            pool.put(buf);
        }
        assert!(pool.take(FRAME_MAX + 1).is_none());
    }

    #[test]
    fn stored_frames_are_whole_and_nothing_else_is_written() {
        let mut pool = Pool::all(1, 8).unwrap().remove(0);
        let bytes: Vec<u8> = (0..300u32).map(|n| (n % 251) as u8 + 1).collect();
        for n in 0..bytes.len() {
            let (buf, size) = {
                let (buf, f) = pool.take(n).unwrap();
                (buf, f.head as usize + n + f.tail as usize)
            };
            let start = pool.region.place(buf).0;
            // SAFETY: the whole of a buffer without other references.
            let all = unsafe { std::slice::from_raw_parts_mut(start, NOTE + size) };
            all.fill(0);
            pool.put(buf);
            let (again, f) = pool.store(&bytes[..n]).unwrap();
            assert_eq!(again, buf);
            let at = NOTE + f.head as usize;
            assert_eq!(&all[at..at + n], &bytes[..n]);
            assert!(all[..at].iter().chain(&all[at + n..]).all(|b| *b == 0), "{n}");
            pool.put(again);
        }
    }

    #[test]
    fn the_last_holder_frees_a_buffer() {
        let mut pools = Pool::all_shared(2, 8).unwrap();
        let (buf, _) = pools[0].take(64).unwrap();
        pools[0].hold(buf);
        pools[0].hold(buf);
        assert!(pools[0].is_shared(buf) && pools[0].is_shared(NONE));
        for (n, core) in [1, 0, 1].into_iter().enumerate() {
            assert_eq!((pools[0].free(), pools[0].is_shared(buf)), (7, n < 2), "{n}");
            pools[core].put_all(&[buf]);
        }
        assert_eq!(pools[0].free(), 8);
        assert!(!pools[0].is_shared(buf), "it is counted anew");
    }

    #[test]
    fn buffers_come_home() {
        let mut pools = Pool::all(2, 64).unwrap();
        let mut taken = Vec::new();
        while let Some((buf, _)) = pools[0].take(64) {
            taken.push(buf);
        }
        assert_eq!(taken.len(), 64);
        for buf in taken {
            pools[1].put(buf);
        }
        assert_eq!(pools[1].free(), 64, "the other core keeps its own");
        assert_eq!(pools[0].free(), 64);
    }
}
