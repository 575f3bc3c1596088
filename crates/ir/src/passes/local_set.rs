//! Sets of the locals of a body, a bit for each.

/// A set of locals.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LocalSet(Vec<u64>);

impl LocalSet {
    pub(super) fn new(n: usize) -> Self {
        LocalSet(vec![0; n.div_ceil(64)])
    }
    pub(super) fn has(&self, i: usize) -> bool {
        self.0.get(i / 64).is_some_and(|w| w >> (i % 64) & 1 == 1)
    }
    pub(super) fn add(&mut self, i: usize) {
        if let Some(w) = self.0.get_mut(i / 64) {
            *w |= 1 << (i % 64)
        }
    }
    pub(super) fn remove(&mut self, i: usize) {
        if let Some(w) = self.0.get_mut(i / 64) {
            *w &= !(1 << (i % 64))
        }
    }
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|w| *w == 0)
    }
    pub(super) fn union(&mut self, o: &LocalSet) {
        for (a, b) in self.0.iter_mut().zip(&o.0) {
            *a |= b
        }
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.0.len() * 64).filter(|i| self.has(*i))
    }
}
