//! Storage whose addresses never change and whose entries are named by index and generation.
//!
//! Programs hold pointers to connections and tasks while they run, and running may open connections, so entries must
//! not move. Values are not dropped when freed: their inner buffers stay for the next user.

const BITS: u32 = 7;
const CHUNK: usize = 1 << BITS;

/// Names an entry; stays harmless after the entry was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    pub index: u32,
    pub gen: u32,
}

impl Id {
    pub const NIL: Id = Id { index: u32::MAX, gen: 0 };

    pub fn is_nil(self) -> bool {
        self.index == u32::MAX
    }
}

impl Default for Id {
    fn default() -> Self {
        Id::NIL
    }
}

struct Entry<T> {
    gen: u32,
    live: bool,
    value: T,
}

pub struct Slab<T> {
    /// Of known size, so that an index into one needs no check.
    chunks: Vec<Box<[Entry<T>; CHUNK]>>,
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
        Slab { chunks: Vec::new(), free: Vec::new(), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes an entry: a new one, or one as its last user left it.
    pub fn alloc(&mut self) -> Id {
        self.len += 1;
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.grow(),
        };
        let e = self.entry(index);
        e.live = true;
        Id { index, gen: e.gen }
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let first = (self.chunks.len() << BITS) as u32;
        self.chunks.push(Box::new(std::array::from_fn(|_| Entry { gen: 1, live: false, value: T::default() })));
        self.free.extend((first + 1..first + CHUNK as u32).rev());
        first
    }

    pub fn free(&mut self, id: Id) {
        let e = self.entry(id.index);
        debug_assert!(e.live && e.gen == id.gen);
        e.live = false;
        e.gen = e.gen.wrapping_add(1).max(1);
        self.free.push(id.index);
        self.len -= 1;
    }

    #[inline]
    fn entry(&mut self, index: u32) -> &mut Entry<T> {
        &mut self.chunks[index as usize >> BITS][index as usize & (CHUNK - 1)]
    }

    #[inline]
    pub fn alive(&self, id: Id) -> bool {
        self.get(id).is_some()
    }

    #[inline]
    pub fn get(&self, id: Id) -> Option<&T> {
        let e = &self.chunks.get(id.index as usize >> BITS)?[id.index as usize & (CHUNK - 1)];
        (e.live && e.gen == id.gen).then_some(&e.value)
    }

    #[inline]
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let e = &mut self.chunks.get_mut(id.index as usize >> BITS)?[id.index as usize & (CHUNK - 1)];
        (e.live && e.gen == id.gen).then_some(&mut e.value)
    }

    /// The id of the live entry at an index.
    pub fn current(&self, index: u32) -> Option<Id> {
        let e = &self.chunks.get(index as usize >> BITS)?[index as usize & (CHUNK - 1)];
        e.live.then_some(Id { index, gen: e.gen })
    }

    /// Ids of all live entries.
    pub fn ids(&self) -> Vec<Id> {
        let chunks = self.chunks.iter().enumerate();
        let entries = chunks.flat_map(|(c, v)| v.iter().enumerate().map(move |(i, e)| ((c << BITS) + i, e)));
        entries.filter(|(_, e)| e.live).map(|(i, e)| Id { index: i as u32, gen: e.gen }).collect()
    }
}

/// By id, for code that has just checked or made it.
impl<T: Default> std::ops::Index<Id> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, id: Id) -> &T {
        &self.chunks[id.index as usize >> BITS][id.index as usize & (CHUNK - 1)].value
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
}
