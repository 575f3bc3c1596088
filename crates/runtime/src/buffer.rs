//! Memory for bytes in transit: a core's pool, output queues of chunks, and contiguous buffers for
//! held messages.
//!
//! All memory comes from one [`ChunkPool`] per core, which has a cap in bytes and keeps returned
//! memory on free lists. So the data path does not allocate after warm-up. Above a low-water mark,
//! memory goes back to the system, so that a burst does not stay resident. Queues start with a
//! small chunk (2 KiB) and continue with large ones (16 KiB). So hundreds of connections with a
//! short answer each fit into the cache and the memory target.
//!
//! Queues and buffers do not return their memory when they are dropped, because they hold no
//! reference to the pool. Call `clear` or `release`. Debug builds assert that.

use std::io::IoSlice;
use wireloom_ir::desc;

/// Size of a queue's first chunk, and of later ones.
pub const SMALL_CHUNK: usize = 2 * 1024;
pub const CHUNK: usize = 16 * 1024;
/// Most slices that [`ChunkQueue::front`] gives.
pub const MAX_SLICES: usize = 16;

const NIL: u32 = u32::MAX;
const MIN_CLASS: u32 = 9; // 512 bytes
const MAX_CLASS: u32 = 24; // 16 MiB
const CLASSES: usize = (MAX_CLASS - MIN_CLASS + 1) as usize;

/// How much a pool may hold.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Chunk bytes in use at most; an append beyond fails.
    pub queue_bytes: usize,
    /// Held bytes (`OwnedBuf`) in use at most.
    pub owned_bytes: usize,
    /// Free bytes kept for reuse, of each kind.
    pub keep_bytes: usize,
}

impl Default for PoolLimits {
    fn default() -> Self {
        PoolLimits {
            queue_bytes: desc::POOL_QUEUES as usize,
            owned_bytes: desc::POOL_HELD as usize,
            keep_bytes: 1 << 20,
        }
    }
}

/// A chunk's slot; slots stay, their memory comes and goes.
struct ChunkSlot {
    data: Box<[u8]>,
    next: u32,
    start: u32,
    end: u32,
}

#[derive(Clone, Copy)]
struct FreeList {
    first: u32,
    count: usize,
}

/// A core's memory for bytes in transit.
pub struct ChunkPool {
    limits: PoolLimits,
    slots: Vec<ChunkSlot>,
    /// Free chunks with memory: small, large; then slots without memory.
    free: [FreeList; 2],
    bare: u32,
    queue_used: usize,
    classes: [Vec<Vec<u8>>; CLASSES],
    /// Large memory that goes back to the system, a piece at a time; its bytes.
    leaving: Vec<Vec<u8>>,
    leaving_bytes: usize,
    owned_used: usize,
    owned_kept: usize,
}

impl Default for ChunkPool {
    fn default() -> Self {
        ChunkPool::new(PoolLimits::default())
    }
}

fn zeroed(n: usize) -> Box<[u8]> {
    // calloc: pages that are never written are never resident.
    vec![0; n].into_boxed_slice()
}

impl ChunkPool {
    pub fn new(limits: PoolLimits) -> ChunkPool {
        ChunkPool {
            limits,
            slots: Vec::new(),
            free: [FreeList { first: NIL, count: 0 }; 2],
            bare: NIL,
            queue_used: 0,
            classes: Default::default(),
            leaving: Vec::new(),
            leaving_bytes: 0,
            owned_used: 0,
            owned_kept: 0,
        }
    }

    /// Bytes of chunks in use by queues.
    pub fn queue_used(&self) -> usize {
        self.queue_used
    }

    /// Bytes in use by `OwnedBuf`s.
    pub fn owned_used(&self) -> usize {
        self.owned_used
    }

    /// Bytes on free lists.
    pub fn kept(&self) -> usize {
        self.free[0].count * SMALL_CHUNK + self.free[1].count * CHUNK + self.owned_kept
    }

    /// Whether queues may still grow by `n` bytes of chunks (to the chunk).
    fn queue_room(&self, n: usize) -> bool {
        n == 0 || self.queue_used + n <= self.limits.queue_bytes
    }

    fn take_chunk(&mut self, large: bool) -> u32 {
        let size = if large { CHUNK } else { SMALL_CHUNK };
        self.queue_used += size;
        let list = &mut self.free[large as usize];
        let index = if list.first != NIL {
            let i = list.first;
            list.first = self.slots[i as usize].next;
            list.count -= 1;
            i
        } else if self.bare != NIL {
            let i = self.bare;
            self.bare = self.slots[i as usize].next;
            self.slots[i as usize].data = zeroed(size);
            i
        } else {
            self.slots.push(ChunkSlot { data: zeroed(size), next: NIL, start: 0, end: 0 });
            (self.slots.len() - 1) as u32
        };
        let slot = &mut self.slots[index as usize];
        (slot.next, slot.start, slot.end) = (NIL, 0, 0);
        index
    }

    #[inline]
    fn give_chunk(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let size = slot.data.len();
        self.queue_used -= size;
        let list = &mut self.free[(size == CHUNK) as usize];
        if (list.count + 1) * size <= self.limits.keep_bytes {
            slot.next = list.first;
            *list = FreeList { first: index, count: list.count + 1 };
        } else {
            self.strip_chunk(index);
        }
    }

    /// A chunk's memory goes back to the system.
    #[cold]
    fn strip_chunk(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.data = Box::default();
        slot.next = self.bare;
        self.bare = index;
    }

    /// A buffer with room for at least `size` bytes; None when the pool is full or `size` exceeds
    /// 16 MiB.
    pub fn alloc(&mut self, size: usize) -> Option<OwnedBuf> {
        let data = self.take_class(size)?;
        Some(OwnedBuf { data, start: 0 })
    }

    /// The class of a size, if the pool has room for one more of it, less `old` bytes.
    fn class_of(&self, size: usize, old: usize) -> Option<usize> {
        let class = size.max(1 << MIN_CLASS).checked_next_power_of_two()?;
        (class <= 1 << MAX_CLASS && self.owned_used - old + class <= self.limits.owned_bytes).then_some(class)
    }

    fn take_class(&mut self, size: usize) -> Option<Vec<u8>> {
        let class = self.class_of(size, 0)?;
        self.owned_used += class;
        match self.classes[class_index(class)].pop() {
            Some(b) => {
                self.owned_kept -= class;
                Some(b)
            }
            None => Some(Vec::with_capacity(class)),
        }
    }

    /// Makes large memory larger. The system moves its pages, so nothing is copied.
    fn grow_class(&mut self, data: &mut Vec<u8>, size: usize) -> bool {
        let old = data.capacity();
        let Some(class) = self.class_of(size, old) else { return false };
        data.reserve_exact(class - data.len());
        self.owned_used = self.owned_used - old + class;
        true
    }

    fn give_class(&mut self, mut data: Vec<u8>) {
        let n = data.capacity();
        if n == 0 {
            return;
        }
        self.owned_used -= n;
        data.clear();
        if self.owned_kept + n <= self.limits.keep_bytes {
            self.owned_kept += n;
            self.classes[class_index(n)].push(data);
        } else {
            self.give_back(data)
        }
    }

    /// Memory that is not needed any more. To give much back to the system takes long, so that is
    /// done in pieces ([`ChunkPool::release_some`]).
    pub fn give_back(&mut self, mut data: Vec<u8>) {
        data.clear();
        let n = data.capacity();
        if n > LEAVES_AT_ONCE && self.leaving_bytes + n <= LEAVING_MAX {
            self.leaving_bytes += n;
            self.leaving.push(data)
        }
    }

    /// Gives a piece of memory back to the system. True: there is more.
    pub fn release_some(&mut self) -> bool {
        let Some(data) = self.leaving.last_mut() else { return false };
        let before = data.capacity();
        data.shrink_to(before.saturating_sub(LEAVES_AT_ONCE));
        self.leaving_bytes -= before - data.capacity();
        if data.capacity() <= LEAVES_AT_ONCE {
            self.leaving_bytes -= data.capacity();
            self.leaving.pop();
        }
        !self.leaving.is_empty()
    }

    /// Whether memory waits for [`ChunkPool::release_some`].
    pub fn releases(&self) -> bool {
        !self.leaving.is_empty()
    }
}

/// Bytes that go back to the system at a time.
const LEAVES_AT_ONCE: usize = 2 << 20;
/// Of more that comes at a time, the rest goes at once: it must not pile up.
const LEAVING_MAX: usize = 256 << 20;
/// Memory from so many bytes on has pages of its own, once [`pages_of_their_own`] was called.
const OWN_PAGES: usize = 1 << 20;

/// Has the allocator take large memory from the system and give it back there. It is never cleared
/// then, and grows without being copied. (By itself the C library stops doing so when the first of
/// it was freed.)
pub fn pages_of_their_own() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: a plain setting of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_PAGES as libc::c_int);
    }
}

fn class_index(size: usize) -> usize {
    (size.trailing_zeros() - MIN_CLASS) as usize
}

/// Bytes waiting to be sent: a list of chunks. 16 bytes when empty, and no memory beyond that.
///
/// `append` never moves bytes that are already in the queue, so slices handed to an engine stay in
/// place until `consume` or `clear`.
#[derive(Debug)]
pub struct ChunkQueue {
    first: u32,
    last: u32,
    len: usize,
}

impl Default for ChunkQueue {
    fn default() -> Self {
        ChunkQueue::new()
    }
}

impl ChunkQueue {
    pub const fn new() -> ChunkQueue {
        ChunkQueue { first: NIL, last: NIL, len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds bytes at the end. False, and nothing added, when the pool is full.
    #[must_use]
    pub fn append(&mut self, pool: &mut ChunkPool, bytes: &[u8]) -> bool {
        if self.last != NIL {
            // The common case: it fits into the last chunk.
            let slot = &mut pool.slots[self.last as usize];
            let end = slot.end as usize;
            if let Some(room) = slot.data.get_mut(end..end + bytes.len()) {
                room.copy_from_slice(bytes);
                slot.end += bytes.len() as u32;
                self.len += bytes.len();
                return true;
            }
        } else if (1..=SMALL_CHUNK).contains(&bytes.len()) && pool.queue_room(SMALL_CHUNK) {
            // Or is the first, and short.
            let chunk = pool.take_chunk(false);
            let slot = &mut pool.slots[chunk as usize];
            slot.data[..bytes.len()].copy_from_slice(bytes);
            slot.end = bytes.len() as u32;
            *self = ChunkQueue { first: chunk, last: chunk, len: bytes.len() };
            return true;
        }
        self.append_all(pool, &[bytes])
    }

    /// Adds several slices as one: all or nothing.
    #[must_use]
    pub fn append_all(&mut self, pool: &mut ChunkPool, parts: &[&[u8]]) -> bool {
        let total: usize = parts.iter().map(|p| p.len()).sum();
        if !pool.queue_room(self.growth(pool, total)) {
            return false;
        }
        for part in parts {
            self.fill(pool, part, total > SMALL_CHUNK);
        }
        true
    }

    /// Bytes of new chunks that `total` more bytes need.
    fn growth(&self, pool: &ChunkPool, total: usize) -> usize {
        if self.last == NIL {
            let first = if total <= SMALL_CHUNK { SMALL_CHUNK } else { CHUNK };
            return if total == 0 { 0 } else { first + total.saturating_sub(first).div_ceil(CHUNK) * CHUNK };
        }
        let slot = &pool.slots[self.last as usize];
        total.saturating_sub(slot.data.len() - slot.end as usize).div_ceil(CHUNK) * CHUNK
    }

    fn fill(&mut self, pool: &mut ChunkPool, mut bytes: &[u8], large: bool) {
        self.len += bytes.len();
        while !bytes.is_empty() {
            if self.last == NIL
                || pool.slots[self.last as usize].end as usize == pool.slots[self.last as usize].data.len()
            {
                let chunk = pool.take_chunk(self.last != NIL || large);
                match self.last {
                    NIL => self.first = chunk,
                    l => pool.slots[l as usize].next = chunk,
                }
                self.last = chunk;
            }
            let slot = &mut pool.slots[self.last as usize];
            let room = &mut slot.data[slot.end as usize..];
            let n = room.len().min(bytes.len());
            room[..n].copy_from_slice(&bytes[..n]);
            slot.end += n as u32;
            bytes = &bytes[n..];
        }
    }

    /// Appends another queue without moving a byte.
    pub fn join(&mut self, pool: &mut ChunkPool, mut other: ChunkQueue) {
        let (first, last, len) = (other.first, other.last, other.len);
        (other.first, other.last, other.len) = (NIL, NIL, 0);
        if first == NIL {
            return;
        }
        match self.last {
            NIL => self.first = first,
            end => pool.slots[end as usize].next = first,
        }
        (self.last, self.len) = (last, self.len + len);
    }

    /// All bytes, if they lie in one chunk.
    pub fn whole<'a>(&self, pool: &'a ChunkPool) -> Option<&'a [u8]> {
        if self.first != self.last || self.first == NIL {
            return None;
        }
        let slot = &pool.slots[self.first as usize];
        slot.data.get(slot.start as usize..slot.end as usize)
    }

    /// The first bytes as slices; answers how many of `out` were filled in.
    pub fn front<'a>(&self, pool: &'a ChunkPool, out: &mut [IoSlice<'a>; MAX_SLICES]) -> usize {
        let (mut n, mut i) = (0, self.first);
        while i != NIL && n < MAX_SLICES {
            let slot = &pool.slots[i as usize];
            if slot.start < slot.end {
                out[n] = IoSlice::new(&slot.data[slot.start as usize..slot.end as usize]);
                n += 1;
            }
            i = slot.next;
        }
        n
    }

    /// Drops the first `n` bytes (at most `len`); chunks that become empty go back to the pool.
    #[inline]
    pub fn consume(&mut self, pool: &mut ChunkPool, n: usize) {
        if n >= self.len && self.first == self.last && self.first != NIL {
            // The common case: all of it, in one chunk.
            pool.give_chunk(self.first);
            (self.first, self.last, self.len) = (NIL, NIL, 0);
            return;
        }
        self.consume_some(pool, n);
    }

    #[inline(never)]
    fn consume_some(&mut self, pool: &mut ChunkPool, n: usize) {
        let mut left = n.min(self.len);
        self.len -= left;
        while self.first != NIL {
            let slot = &mut pool.slots[self.first as usize];
            let have = (slot.end - slot.start) as usize;
            if left < have {
                slot.start += left as u32;
                return;
            }
            left -= have;
            let next = slot.next;
            pool.give_chunk(self.first);
            self.first = next;
        }
        self.last = NIL;
    }

    /// Drops everything.
    pub fn clear(&mut self, pool: &mut ChunkPool) {
        self.consume(pool, self.len);
    }
}

impl Drop for ChunkQueue {
    fn drop(&mut self) {
        debug_assert!(self.first == NIL || std::thread::panicking(), "a queue was dropped without clear()");
    }
}

/// A contiguous buffer that grows by powers of two up to 16 MiB: for messages that are not complete
/// yet or must be held. Holds nothing until first used.
#[derive(Debug, Default)]
pub struct OwnedBuf {
    /// The content ends where this does; its capacity is the class.
    data: Vec<u8>,
    start: usize,
}

impl OwnedBuf {
    pub fn new() -> OwnedBuf {
        OwnedBuf::default()
    }

    pub fn len(&self) -> usize {
        self.data.len() - self.start
    }

    pub fn is_empty(&self) -> bool {
        self.start == self.data.len()
    }

    pub fn capacity(&self) -> usize {
        self.data.capacity()
    }

    /// Whether it holds no memory.
    pub fn is_unused(&self) -> bool {
        self.data.capacity() == 0
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.data[self.start..]
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.data[self.start..]
    }

    /// Makes room for `extra` bytes behind the content, moving it if need be. False when the pool
    /// is full or the content would pass 16 MiB; the content stays.
    #[must_use]
    pub fn reserve(&mut self, pool: &mut ChunkPool, extra: usize) -> bool {
        if self.data.capacity() - self.data.len() >= extra {
            return true;
        }
        let Some(need) = self.len().checked_add(extra) else { return false };
        // Moving down within the buffer is allowed only when it frees at least half, so that it
        // pays.
        if need <= self.data.capacity() && self.start >= self.data.capacity() / 2 {
            self.data.drain(..self.start);
        } else if self.start == 0 && self.data.capacity() >= OWN_PAGES {
            return pool.grow_class(&mut self.data, need);
        } else {
            let Some(mut larger) = pool.take_class(need) else { return false };
            larger.extend_from_slice(self.as_slice());
            pool.give_class(std::mem::replace(&mut self.data, larger));
        }
        self.start = 0;
        true
    }

    #[must_use]
    pub fn append(&mut self, pool: &mut ChunkPool, bytes: &[u8]) -> bool {
        if !self.reserve(pool, bytes.len()) {
            return false;
        }
        self.data.extend_from_slice(bytes);
        true
    }

    /// Drops the first `n` bytes (at most `len`). The rest does not move.
    pub fn consume(&mut self, n: usize) {
        self.start += n.min(self.len());
        if self.is_empty() {
            self.truncate()
        }
    }

    /// Gives away the memory with the content from byte `from` to `to`; the bytes behind it move to
    /// other memory. None, and nothing changed, if there is no room for those.
    pub fn take(&mut self, pool: &mut ChunkPool, from: usize, to: usize) -> Option<OwnedBuf> {
        let mut rest = OwnedBuf::new();
        let behind = self.as_slice().get(to..)?;
        if !behind.is_empty() && !rest.append(pool, behind) {
            return None;
        }
        let mut taken = std::mem::replace(self, rest);
        taken.data.truncate(taken.start + to);
        taken.start += from;
        Some(taken)
    }

    /// Forgets the content, keeps the memory.
    pub fn truncate(&mut self) {
        self.data.clear();
        self.start = 0;
    }

    /// Gives the memory back; the buffer is empty and usable again.
    pub fn release(&mut self, pool: &mut ChunkPool) {
        self.start = 0;
        pool.give_class(std::mem::take(&mut self.data));
    }
}

impl Drop for OwnedBuf {
    fn drop(&mut self) {
        debug_assert!(self.is_unused() || std::thread::panicking(), "a buffer was dropped without release()");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(q: &ChunkQueue, pool: &ChunkPool) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let n = q.front(pool, &mut slices);
        slices[..n].iter().flat_map(|s| s.iter().copied()).collect()
    }

    #[test]
    fn queue_is_a_fifo_of_bytes() {
        let mut pool = ChunkPool::default();
        let mut q = ChunkQueue::new();
        let mut model: Vec<u8> = Vec::new();
        let mut x: u32 = 1;
        for round in 0..5000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let n = (x >> 8) as usize % if round % 7 == 0 { 20_000 } else { 300 };
            if x >> 31 == 0 && q.len() < 200_000 {
                let bytes: Vec<u8> = (0..n).map(|i| (i as u32 ^ x) as u8).collect();
                let (a, b) = bytes.split_at(n / 3);
                assert!(if x & 1 == 0 { q.append_all(&mut pool, &[a, b]) } else { q.append(&mut pool, &bytes) });
                model.extend(&bytes);
            } else {
                let n = n.min(model.len());
                q.consume(&mut pool, n);
                model.drain(..n);
            }
            assert_eq!(q.len(), model.len());
            let front = content(&q, &pool);
            assert_eq!(front, model[..front.len()]);
            assert!(front.len() == model.len() || front.len() > 8 * CHUNK);
        }
        q.clear(&mut pool);
        assert_eq!(pool.queue_used(), 0);
    }

    #[test]
    fn large_memory_leaves_in_pieces_and_does_not_pile_up() {
        let mut pool = ChunkPool::default();
        for _ in 0..40 {
            pool.give_back(Vec::with_capacity(16 << 20));
        }
        assert_eq!(pool.leaving_bytes, LEAVING_MAX);
        // The last piece of each goes with the one before.
        let pieces = 1 + std::iter::from_fn(|| pool.release_some().then_some(())).count();
        assert_eq!(pieces, LEAVING_MAX / (16 << 20) * ((16 << 20) / LEAVES_AT_ONCE - 1));
        assert!(!pool.releases() && pool.leaving_bytes == 0);
    }

    #[test]
    fn a_message_leaves_with_its_memory() {
        let mut pool = ChunkPool::default();
        let mut buf = OwnedBuf::new();
        let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7) as u8).collect();
        assert!(buf.append(&mut pool, &bytes[..1000]));
        buf.consume(400);
        bytes[1000..].chunks(60_000).for_each(|c| assert!(buf.append(&mut pool, c)));
        let at = buf.as_slice()[100..].as_ptr();
        let mut taken = buf.take(&mut pool, 100, 2_900_000).expect("there is room");
        assert!(std::ptr::eq(taken.as_slice().as_ptr(), at), "it was not copied");
        assert!(taken.as_slice() == &bytes[500..2_900_400] && buf.as_slice() == &bytes[2_900_400..]);
        assert!(buf.append(&mut pool, b"more") && buf.as_slice().ends_with(b"more"));
        taken.release(&mut pool);
        buf.release(&mut pool);
        assert_eq!(pool.owned_used(), 0);
    }

    #[test]
    fn queues_respect_the_cap_and_take_all_or_nothing() {
        let limits = PoolLimits { queue_bytes: 2 * CHUNK, owned_bytes: 4096, keep_bytes: CHUNK };
        let mut pool = ChunkPool::new(limits);
        let mut q = ChunkQueue::new();
        assert!(!q.append(&mut pool, &vec![1; 2 * CHUNK + 1]));
        assert!(q.is_empty() && pool.queue_used() == 0);
        assert!(q.append(&mut pool, &vec![1; 2 * CHUNK - 1]));
        assert!(!q.append_all(&mut pool, &[b"a", b"b"]));
        assert!(q.append(&mut pool, b"c"));
        assert!(q.append(&mut pool, b""));
        assert_eq!(q.len(), 2 * CHUNK);
        q.clear(&mut pool);
        assert!(pool.kept() <= CHUNK, "above the low-water mark memory goes back");
    }

    #[test]
    fn appending_never_moves_what_is_there() {
        let mut pool = ChunkPool::default();
        let mut q = ChunkQueue::new();
        assert!(q.append(&mut pool, b"first"));
        let mut s = [IoSlice::new(&[]); MAX_SLICES];
        q.front(&pool, &mut s);
        let before = s[0].as_ptr();
        for _ in 0..100 {
            assert!(q.append(&mut pool, &[7; 3000]));
        }
        let mut s = [IoSlice::new(&[]); MAX_SLICES];
        q.front(&pool, &mut s);
        assert_eq!(s[0].as_ptr(), before);
        q.clear(&mut pool);
    }

    #[test]
    fn owned_buffers_grow_within_the_cap() {
        let mut pool = ChunkPool::new(PoolLimits { queue_bytes: 0, owned_bytes: 8192, keep_bytes: 8192 });
        let mut b = OwnedBuf::new();
        for i in 0..4000u32 {
            assert!(b.append(&mut pool, &[i as u8]));
        }
        assert!(!b.append(&mut pool, &[0; 5000]), "4096 in use, 8192 more asked for");
        assert!(b.as_slice().iter().enumerate().all(|(i, x)| *x == i as u8));
        b.consume(3000);
        assert!(b.append(&mut pool, &[9; 3000]), "moves down instead of growing");
        assert_eq!((b.len(), b.capacity()), (4000, 4096));
        b.release(&mut pool);
        assert_eq!(pool.owned_used(), 0);
        assert!(pool.alloc(8193).is_none());
        assert!(pool.alloc((16 << 20) + 1).is_none());
        let mut c = pool.alloc(4096).unwrap();
        c.release(&mut pool);
    }
}
