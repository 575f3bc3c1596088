//! Storage with stable addresses, whose entries are named by index and generation.
//!
//! Programs hold pointers to connections and tasks while they run. A running program may open
//! connections, so entries must not move. They lie side by side in a range of addresses that is
//! reserved at the first use. Memory is added as entries are taken. Finding an entry is a
//! comparison and a multiplication. Values are not dropped when freed: their inner buffers stay for
//! the next user.

use std::ptr::NonNull;

/// Entries for which addresses are reserved, where the process may have as many.
const MOST: usize = 1 << 24;
/// Fewer are not worth a start.
const FEWEST: usize = 1 << 12;
/// Memory is made usable in pieces of this many bytes, and entries are made for a page at a time.
const PIECE: usize = 64 << 10;
const PAGE: usize = 4096;

/// Names an entry; stays harmless after the entry was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    pub index: u32,
    pub gen: u32,
}

impl Id {
    pub const NIL: Id = Id { index: u32::MAX, gen: 0 };

    #[inline]
    pub fn is_nil(self) -> bool {
        self.index == u32::MAX
    }
}

impl Default for Id {
    fn default() -> Self {
        Id::NIL
    }
}

/// In this order and place, so that the generation shares a cache line with the value's first
/// fields.
#[repr(C, align(64))]
struct Entry<T> {
    /// Odd while in use.
    gen: u32,
    value: T,
}

impl<T> Entry<T> {
    fn live(&self) -> bool {
        self.gen & 1 == 1
    }
}

pub struct Slab<T> {
    first: NonNull<Entry<T>>,
    /// Entries that are made, in use or not; all of them lie in usable memory.
    made: usize,
    /// Bytes of usable and of reserved memory.
    usable: usize,
    reserved: usize,
    free: Vec<u32>,
    len: usize,
}

impl<T: Default> Default for Slab<T> {
    fn default() -> Self {
        Slab::new()
    }
}

impl<T: Default> Slab<T> {
    pub fn new() -> Slab<T> {
        Slab { first: NonNull::dangling(), made: 0, usable: 0, reserved: 0, free: Vec::new(), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes an entry: a new one, or one as its last user left it.
    #[inline]
    pub fn alloc(&mut self) -> Id {
        self.len += 1;
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.grow(),
        };
        let e = self.entry(index);
        e.gen = e.gen.wrapping_add(1);
        Id { index, gen: e.gen }
    }

    /// Makes a page of entries, at least one; answers the first of them.
    #[cold]
    fn grow(&mut self) -> u32 {
        let size = std::mem::size_of::<Entry<T>>();
        if self.reserved == 0 {
            (self.first, self.reserved) = reserve(size);
        }
        let first = self.made;
        let more = (PAGE / size).max(1);
        let need = (first + more) * size;
        assert!(need <= self.reserved, "more than {first} entries of one kind");
        if need > self.usable {
            let upto = need.next_multiple_of(PIECE).min(self.reserved);
            // SAFETY: the range lies in the reservation of this slab.
            let r = unsafe { libc::mprotect(self.first.as_ptr().cast(), upto, libc::PROT_READ | libc::PROT_WRITE) };
            assert!(r == 0, "no memory for entries: {}", std::io::Error::last_os_error());
            self.usable = upto;
        }
        for i in first..first + more {
            // SAFETY: within usable memory, by the check above; not made before, so nothing is
            // overwritten.
            unsafe { self.first.add(i).write(Entry { gen: 0, value: T::default() }) };
        }
        self.made = first + more;
        self.free.extend((first as u32 + 1..(first + more) as u32).rev());
        first as u32
    }

    #[inline]
    pub fn free(&mut self, id: Id) {
        let e = self.entry(id.index);
        debug_assert!(e.live() && e.gen == id.gen);
        e.gen = e.gen.wrapping_add(1);
        self.free.push(id.index);
        self.len -= 1;
    }

    /// Frees an entry that is not to be given out again.
    pub fn retire(&mut self, id: Id) {
        let e = self.entry(id.index);
        debug_assert!(e.live() && e.gen == id.gen);
        e.gen = e.gen.wrapping_add(1);
        self.len -= 1;
    }

    fn made(&self) -> &[Entry<T>] {
        // SAFETY: the first `made` entries have been written.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.made) }
    }

    #[inline]
    fn entry(&mut self, index: u32) -> &mut Entry<T> {
        assert!((index as usize) < self.made);
        // SAFETY: made entries have been written, and `self` is borrowed mutably.
        unsafe { self.first.add(index as usize).as_mut() }
    }

    #[inline]
    pub fn alive(&self, id: Id) -> bool {
        self.get(id).is_some()
    }

    #[inline]
    pub fn get(&self, id: Id) -> Option<&T> {
        let e = self.made().get(id.index as usize)?;
        (e.gen == id.gen).then_some(&e.value)
    }

    #[inline]
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        if id.index as usize >= self.made {
            return None;
        }
        let e = self.entry(id.index);
        (e.gen == id.gen).then_some(&mut e.value)
    }

    /// The id of the live entry at an index.
    pub fn current(&self, index: u32) -> Option<Id> {
        let e = self.made().get(index as usize)?;
        e.live().then_some(Id { index, gen: e.gen })
    }

    /// Ids of all live entries.
    pub fn ids(&self) -> Vec<Id> {
        let entries = self.made().iter().enumerate();
        entries.filter(|(_, e)| e.live()).map(|(i, e)| Id { index: i as u32, gen: e.gen }).collect()
    }
}

/// Addresses for entries of `size` bytes, without memory: for fewer where the process may not have
/// so many.
fn reserve<T>(size: usize) -> (NonNull<Entry<T>>, usize) {
    let mut most = MOST;
    loop {
        let bytes = (most * size).next_multiple_of(PIECE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that is there.
        let p = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        match NonNull::new(p.cast()) {
            Some(first) if p != libc::MAP_FAILED => return (first, bytes),
            // Much fewer: several slabs share the address space that the process may have.
            _ => most /= 16,
        }
        assert!(most >= FEWEST, "no addresses for entries: {}", std::io::Error::last_os_error());
    }
}

impl<T> Drop for Slab<T> {
    fn drop(&mut self) {
        if self.reserved > 0 {
            // SAFETY: the first `made` entries have been written and are dropped once; the mapping
            // is this slab's own.
            unsafe {
                std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.made).drop_in_place();
                libc::munmap(self.first.as_ptr().cast(), self.reserved);
            }
        }
    }
}

// SAFETY: the slab owns its entries; nothing else points to them but programs' pointers, which the
// core that owns the slab gives out.
unsafe impl<T: Send> Send for Slab<T> {}

/// By id, for code that has just checked or made it.
impl<T: Default> std::ops::Index<Id> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, id: Id) -> &T {
        &self.made()[id.index as usize].value
    }
}

impl<T: Default> std::ops::IndexMut<Id> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, id: Id) -> &mut T {
        &mut self.entry(id.index).value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_freed_entries_name_nothing() {
        let mut s: Slab<u32> = Slab::new();
        let a = s.alloc();
        s[a] = 7;
        s.free(a);
        assert!(!s.alive(a) && s.get_mut(a).is_none());
        let b = s.alloc();
        assert_eq!(b.index, a.index);
        assert!(s.alive(b) && !s.alive(a) && !s.alive(Id::NIL));
    }

    #[test]
    fn a_retired_entry_is_not_given_out_again() {
        let mut s: Slab<u32> = Slab::new();
        let a = s.alloc();
        s.retire(a);
        assert!(!s.alive(a) && s.is_empty());
        assert!((0..5000).all(|_| s.alloc().index != a.index));
    }

    #[test]
    fn entries_do_not_move() {
        let mut s: Slab<u64> = Slab::new();
        let a = s.alloc();
        let before: *const u64 = &s[a];
        for _ in 0..10_000 {
            s.alloc();
        }
        assert_eq!(before, &s[a] as *const u64);
        assert_eq!(s.ids().len(), 10_001);
    }

    #[test]
    fn entries_are_dropped_with_the_slab() {
        let held = std::rc::Rc::new(());
        let mut s: Slab<Option<std::rc::Rc<()>>> = Slab::new();
        for _ in 0..1000 {
            let id = s.alloc();
            s[id] = Some(held.clone());
        }
        let some = s.ids();
        some.iter().take(500).for_each(|id| s.free(*id));
        assert_eq!(std::rc::Rc::strong_count(&held), 1001, "freed entries keep what they hold");
        drop(s);
        assert_eq!(std::rc::Rc::strong_count(&held), 1);
    }

    #[test]
    fn generations_pass_their_largest_number() {
        let mut s: Slab<u8> = Slab::new();
        let a = s.alloc();
        s.entry(a.index).gen = u32::MAX;
        let last = Id { gen: u32::MAX, ..a };
        assert!(s.alive(last));
        s.free(last);
        let b = s.alloc();
        assert!(s.alive(b) && !s.alive(last) && s.current(a.index) == Some(b));
    }
}
