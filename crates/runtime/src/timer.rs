//! A hierarchical timing wheel: millisecond resolution, insert and cancel in constant time.
//!
//! Times are nanoseconds of [`crate::clock`]. They are rounded up to whole milliseconds, so a
//! timer never fires early. Six levels of 64 slots hold 2^36 ms (two years). Later timers wait in
//! the last level. A bitmap holds a level's occupied slots, so finding the next deadline reads six
//! words. Nodes live in one vector with a free list. It does not allocate once it has grown to the
//! number of timers in use.

const LEVELS: usize = 6;
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const NIL: u32 = u32::MAX;
const NS_PER_MS: u64 = 1_000_000;

/// Names an armed timer; stays harmless after the timer has fired or was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerKey {
    index: u32,
    generation: u32,
}

impl TimerKey {
    /// A key that names no timer.
    pub const NONE: TimerKey = TimerKey { index: NIL, generation: 0 };
}

impl Default for TimerKey {
    fn default() -> Self {
        TimerKey::NONE
    }
}

struct TimerNode {
    at: u64,
    id: u64,
    prev: u32,
    next: u32,
    generation: u32,
    /// level * SLOTS + slot, or `NIL` when free.
    place: u32,
}

pub struct Wheel {
    nodes: Vec<TimerNode>,
    free: u32,
    /// First and last node of each slot's list.
    head: [u32; LEVELS * SLOTS],
    tail: [u32; LEVELS * SLOTS],
    occupied: [u64; LEVELS],
    /// All deadlines up to and including this millisecond have been reported.
    now: u64,
    len: usize,
}

impl Wheel {
    pub fn new(now_ns: u64) -> Wheel {
        Wheel {
            nodes: Vec::new(),
            free: NIL,
            head: [NIL; LEVELS * SLOTS],
            tail: [NIL; LEVELS * SLOTS],
            occupied: [0; LEVELS],
            now: now_ns / NS_PER_MS,
            len: 0,
        }
    }

    /// Number of armed timers.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Arms a timer that reports `id` at `at_ns` or up to a millisecond later (in the next
    /// millisecond if that is past).
    pub fn insert(&mut self, at_ns: u64, id: u64) -> TimerKey {
        let at = at_ns.div_ceil(NS_PER_MS).max(self.now + 1);
        let index = self.allocate(at, id);
        self.link(index);
        self.len += 1;
        TimerKey { index, generation: self.nodes[index as usize].generation }
    }

    /// Disarms; false if it had fired or been cancelled before.
    pub fn cancel(&mut self, key: TimerKey) -> bool {
        match self.nodes.get(key.index as usize) {
            Some(n) if n.generation == key.generation && n.place != NIL => {}
            _ => return false,
        }
        self.unlink(key.index);
        self.release(key.index);
        true
    }

    /// When `expire` must be called next: never later than the earliest deadline. It is earlier
    /// only where far timers must be sorted more finely, at most once per level and timer.
    pub fn next_deadline(&self) -> Option<u64> {
        let mut best: Option<u64> = None;
        for level in 0..LEVELS {
            if let Some(start) = self.next_slot(level) {
                best = Some(best.map_or(start, |b| b.min(start)));
            }
        }
        best.map(|ms| ms.saturating_mul(NS_PER_MS))
    }

    /// Reports all timers due at `now_ns`, in order of their deadlines.
    pub fn expire(&mut self, now_ns: u64, out: &mut Vec<u64>) {
        let target = now_ns / NS_PER_MS;
        while self.now < target {
            // Jump over empty stretches: the next occupied slot of any level is the next moment
            // anything happens.
            let next = match self.next_deadline() {
                Some(ns) if ns / NS_PER_MS <= target => ns / NS_PER_MS,
                _ => {
                    self.now = target;
                    return;
                }
            };
            self.now = next;
            self.cascade();
            self.fire(out);
        }
    }

    /// Start (ms) of the first occupied slot of a level after `now`.
    fn next_slot(&self, level: usize) -> Option<u64> {
        let bits = self.occupied[level];
        if bits == 0 {
            return None;
        }
        let shift = BITS * level as u32;
        let current = self.now >> shift;
        // Distance 1..=64 from the current slot; the current slot itself lies a whole turn ahead.
        let turn = bits.rotate_right(((current + 1) & (SLOTS as u64 - 1)) as u32);
        Some((current + 1 + u64::from(turn.trailing_zeros())) << shift)
    }

    /// Moves timers of coarser levels whose slot begins now into finer ones.
    fn cascade(&mut self) {
        for level in (1..LEVELS).rev() {
            let shift = BITS * level as u32;
            if self.now & ((1 << shift) - 1) != 0 {
                continue;
            }
            let place = level * SLOTS + ((self.now >> shift) as usize & (SLOTS - 1));
            let mut i = self.head[place];
            self.head[place] = NIL;
            self.tail[place] = NIL;
            self.occupied[level] &= !(1 << (place % SLOTS));
            while i != NIL {
                let next = self.nodes[i as usize].next;
                self.link(i);
                i = next;
            }
        }
    }

    /// Reports the timers of the level-0 slot of `now`.
    fn fire(&mut self, out: &mut Vec<u64>) {
        let place = self.now as usize & (SLOTS - 1);
        let mut i = self.head[place];
        self.head[place] = NIL;
        self.tail[place] = NIL;
        self.occupied[0] &= !(1 << place);
        while i != NIL {
            let next = self.nodes[i as usize].next;
            out.push(self.nodes[i as usize].id);
            self.release(i);
            i = next;
        }
    }

    /// Puts a node into the slot of its deadline, as seen from `now`. Needs `at >= now`.
    fn link(&mut self, index: u32) {
        let at = self.nodes[index as usize].at;
        let mut level = 0;
        // A level reaches 64 of its slots ahead, counted in whole slots from the current one. A
        // timer due exactly now (only while cascading) goes to the level-0 slot that is about to
        // fire.
        while level < LEVELS - 1 && (at >> (BITS * level as u32)) - (self.now >> (BITS * level as u32)) >= SLOTS as u64
        {
            level += 1;
        }
        let shift = BITS * level as u32;
        let ahead = ((at >> shift) - (self.now >> shift)).min(SLOTS as u64 - 1);
        let slot = ((self.now >> shift) + ahead) as usize & (SLOTS - 1);
        let place = level * SLOTS + slot;
        let last = self.tail[place];
        let node = &mut self.nodes[index as usize];
        node.place = place as u32;
        node.prev = last;
        node.next = NIL;
        match last {
            NIL => self.head[place] = index,
            l => self.nodes[l as usize].next = index,
        }
        self.tail[place] = index;
        self.occupied[level] |= 1 << slot;
    }

    fn unlink(&mut self, index: u32) {
        let TimerNode { prev, next, place, .. } = self.nodes[index as usize];
        let place = place as usize;
        match prev {
            NIL => self.head[place] = next,
            p => self.nodes[p as usize].next = next,
        }
        match next {
            NIL => self.tail[place] = prev,
            n => self.nodes[n as usize].prev = prev,
        }
        if self.head[place] == NIL {
            self.occupied[place / SLOTS] &= !(1 << (place % SLOTS));
        }
    }

    fn allocate(&mut self, at: u64, id: u64) -> u32 {
        if self.free == NIL {
            self.nodes.push(TimerNode { at, id, prev: NIL, next: NIL, generation: 0, place: NIL });
            return (self.nodes.len() - 1) as u32;
        }
        let index = self.free;
        let node = &mut self.nodes[index as usize];
        self.free = node.next;
        node.at = at;
        node.id = id;
        index
    }

    fn release(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        node.place = NIL;
        node.generation = node.generation.wrapping_add(1);
        node.next = self.free;
        self.free = index;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const MS: u64 = NS_PER_MS;

    /// The wheel against a map that is searched: same timers, same order of deadlines, right
    /// deadlines.
    #[test]
    fn agrees_with_a_sorted_model() {
        for seed in 0..60 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut now = rng.u64(..1 << 40);
            let mut wheel = Wheel::new(now);
            let mut model: HashMap<u64, (u64, TimerKey)> = HashMap::new();
            let (mut next_id, mut fired) = (0, Vec::new());
            for _ in 0..2000 {
                match rng.u64(..10) {
                    0..=5 => {
                        let scale = 1 << rng.u64(..52);
                        let at = now + rng.u64(..scale);
                        let key = wheel.insert(at, next_id);
                        model.insert(next_id, (at.div_ceil(MS).max(now / MS + 1), key));
                        next_id += 1;
                    }
                    6 => {
                        if let Some(&id) = model.keys().min() {
                            let (_, key) = model.remove(&id).unwrap();
                            assert!(wheel.cancel(key));
                            assert!(!wheel.cancel(key));
                        }
                    }
                    7 => {
                        let far = 1 << rng.u64(..46);
                        now += rng.u64(..far);
                    }
                    _ => now = wheel.next_deadline().unwrap_or(now).max(now),
                }
                fired.clear();
                wheel.expire(now, &mut fired);
                let due: Vec<u64> = fired.iter().map(|id| model.remove(id).expect("fired once").0).collect();
                assert!(due.windows(2).all(|w| w[0] <= w[1]), "in order");
                assert!(due.iter().all(|at| *at <= now / MS), "not early");
                let earliest = model.values().map(|v| v.0).min();
                assert!(earliest.is_none_or(|at| at > now / MS), "none late");
                match (earliest, wheel.next_deadline()) {
                    (None, d) => assert_eq!(d, None),
                    (Some(at), d) => assert!(d.unwrap() <= at * MS && d.unwrap() > now / MS * MS),
                }
                assert_eq!(wheel.len(), model.len());
            }
        }
    }

    #[test]
    fn near_deadlines_are_exact() {
        let mut w = Wheel::new(0);
        w.insert(10 * MS - 1, 1);
        assert_eq!(w.next_deadline(), Some(10 * MS));
        let mut out = Vec::new();
        w.expire(10 * MS - 1, &mut out);
        assert!(out.is_empty());
        w.expire(10 * MS, &mut out);
        assert_eq!(out, [1]);
    }

    #[test]
    fn keys_of_no_timer_are_harmless() {
        let mut w = Wheel::new(0);
        assert!(!w.cancel(TimerKey::NONE));
        let a = w.insert(MS, 1);
        w.cancel(a);
        let b = w.insert(MS, 2);
        assert!(!w.cancel(a), "a reused node has a new generation");
        assert!(w.cancel(b));
    }
}
