//! The numbers by which the requests of a connection, or of a socket for datagrams, are found.
//!
//! In: calls. Out: numbers of the width of the protocol's id, each of one call at a time. They
//! follow each other through all numbers of that width. So a number comes again as late as it can.
//! It may also rest: then nobody has it, and an answer with it finds nothing.
//!
//! Over UDP a secret permutes their low 16 bits, and those above are random. So a stranger, who
//! sees none of them, cannot guess one.

use super::slab::Id;
use std::collections::VecDeque;

/// Places at first. They double until at most half of them are taken.
const PLACES: usize = 64;
/// Numbers of one connection that are taken at a time, where the width has so many.
const MOST: usize = 1 << 15;
/// The number with which the sequence begins, for ids of two bytes and more.
const FIRST: u64 = 1 << 12;

/// Why a number rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Answered,
    Forgotten,
}

pub struct RequestNumbers {
    width: usize,
    /// By the low bits of a number's place in the sequence.
    places: Vec<NumberPlace>,
    /// The place in the sequence of the number that was given last.
    last: u64,
    taken: usize,
    /// Until when numbers rest, those of one reason in order.
    resting: [VecDeque<(u64, u64)>; 2],
    /// The number that no call has.
    nobodys: u64,
    /// None: numbers count up.
    secret: Option<Box<Secret>>,
}

/// A number, `nobodys` if the place is free, and its call.
#[derive(Clone, Copy)]
struct NumberPlace {
    number: u64,
    call: Id,
}

pub(super) struct Secret {
    /// The rounds of a Feistel network on two bytes, or on the halves of one.
    rounds: [[u8; 256]; 4],
    state: u64,
}

impl Secret {
    /// From the system's random source. Without it, ids would have to be guessable.
    pub(super) fn new() -> Option<Box<Secret>> {
        let mut s = Box::new(Secret { rounds: [[0; 256]; 4], state: 0 });
        let mut seed = [0u8; 8];
        let fill = |to: &mut [u8]| {
            // SAFETY: the kernel writes no more than the length given.
            unsafe { libc::getrandom(to.as_mut_ptr().cast(), to.len(), 0) == to.len() as isize }
        };
        let filled = s.rounds.iter_mut().all(|r| fill(r)) && fill(&mut seed);
        s.state = u64::from_ne_bytes(seed);
        filled.then_some(s)
    }

    /// `half`: the bits of a half of the number.
    fn permute(&self, n: u64, half: u32) -> u64 {
        let (mut l, mut r) = halves(n, half);
        for round in &self.rounds {
            (l, r) = (r, (l ^ round[usize::from(r)]) & low(half) as u8);
        }
        u64::from(l) << half | u64::from(r)
    }

    fn undo(&self, n: u64, half: u32) -> u64 {
        let (mut l, mut r) = halves(n, half);
        for round in self.rounds.iter().rev() {
            (l, r) = ((r ^ round[usize::from(l)]) & low(half) as u8, l);
        }
        u64::from(l) << half | u64::from(r)
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        super::mix(self.state)
    }
}

fn halves(n: u64, half: u32) -> (u8, u8) {
    ((n >> half & low(half)) as u8, (n & low(half)) as u8)
}

/// Ones in so many low bits.
fn low(bits: u32) -> u64 {
    u64::MAX.checked_shr(64 - bits).unwrap_or(0)
}

impl RequestNumbers {
    /// `width`: of the id, in bytes.
    pub(super) fn new(width: usize, secret: Option<Box<Secret>>) -> RequestNumbers {
        let mut n = RequestNumbers {
            width,
            places: Vec::new(),
            last: FIRST - 1,
            taken: 0,
            resting: Default::default(),
            nobodys: 0,
            secret,
        };
        n.nobodys = n.secret.as_ref().map_or(0, |s| s.permute(0, n.half()));
        n
    }

    /// A half of the bits that a secret permutes.
    fn half(&self) -> u32 {
        if self.width == 1 {
            4
        } else {
            8
        }
    }

    /// How many numbers may be taken at a time.
    fn most(&self) -> usize {
        MOST.min(low(2 * self.half()) as usize)
    }

    /// The number of messages without an answer: no request has it.
    pub(super) fn nobodys(&self) -> u64 {
        self.nobodys
    }

    /// Whether a call can get a number.
    pub(super) fn has_room(&mut self, now: u64) -> bool {
        self.wake(now);
        self.taken < self.most()
    }

    /// When the next number has rested.
    pub(super) fn rests_until(&self) -> Option<u64> {
        self.resting.iter().filter_map(|r| r.front()).map(|(until, _)| *until).min()
    }

    /// A number for a call; none if too many are under way.
    pub(super) fn take(&mut self, call: Id, now: u64) -> Option<u64> {
        if !self.has_room(now) {
            return None;
        }
        self.taken += 1;
        if 2 * self.taken > self.places.len() && self.places.len() <= low(2 * self.half()) as usize {
            self.grow();
        }
        let least = low(2 * self.half());
        loop {
            self.last = self.last.wrapping_add(1);
            let at = self.last as usize & (self.places.len() - 1);
            if self.last & least == 0 || self.places[at].number != self.nobodys {
                continue;
            }
            let number = self.at(self.last);
            self.places[at] = NumberPlace { number, call };
            return Some(number);
        }
    }

    /// The number at a place of the sequence.
    fn at(&mut self, n: u64) -> u64 {
        let (half, all) = (self.half(), low(8 * self.width.min(8) as u32));
        let least = low(2 * half);
        match &mut self.secret {
            None => n & all,
            Some(s) => (s.next() & !least | s.permute(n & least, half)) & all,
        }
    }

    fn place(&self, number: u64) -> usize {
        let (half, least) = (self.half(), number & low(2 * self.half()));
        let n = self.secret.as_ref().map_or(least, |s| s.undo(least, half));
        n as usize & self.places.len().wrapping_sub(1)
    }

    #[cold]
    fn grow(&mut self) {
        let free = NumberPlace { number: self.nobodys, call: Id::NIL };
        let more = (2 * self.places.len()).max(PLACES);
        let old = std::mem::replace(&mut self.places, vec![free; more]);
        for p in old.into_iter().filter(|p| p.number != self.nobodys) {
            let at = self.place(p.number);
            self.places[at] = p;
        }
    }

    /// The place of a number that is taken.
    fn taken(&mut self, number: u64) -> Option<&mut NumberPlace> {
        let (at, nobodys) = (self.place(number), self.nobodys);
        self.places.get_mut(at).filter(|p| p.number == number && number != nobodys)
    }

    /// The call of a number.
    pub(super) fn find(&self, number: u64) -> Option<Id> {
        let p = self.places.get(self.place(number))?;
        (p.number == number && !p.call.is_nil()).then_some(p.call)
    }

    /// The number of a call may be given to another one.
    pub(super) fn give_back(&mut self, number: u64) {
        let nobodys = self.nobodys;
        if let Some(p) = self.taken(number).filter(|p| !p.call.is_nil()) {
            *p = NumberPlace { number: nobodys, call: Id::NIL };
            self.taken -= 1;
        }
    }

    /// The same, but not before this time.
    pub(super) fn rest(&mut self, number: u64, until: u64, why: Rest) {
        if let Some(p) = self.taken(number).filter(|p| !p.call.is_nil()) {
            p.call = Id::NIL;
            self.resting[why as usize].push_back((until, number));
        }
    }

    fn wake(&mut self, now: u64) {
        for why in [Rest::Answered, Rest::Forgotten] {
            while let Some((_, number)) = self.resting[why as usize].front().copied().filter(|(until, _)| *until <= now)
            {
                self.resting[why as usize].pop_front();
                let nobodys = self.nobodys;
                if let Some(p) = self.taken(number) {
                    p.number = nobodys;
                    self.taken -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u32) -> Id {
        Id { index: n, gen: 1 }
    }

    fn numbers(width: usize, secret: bool) -> RequestNumbers {
        RequestNumbers::new(width, secret.then(|| Secret::new().unwrap()))
    }

    fn most(width: usize) -> u32 {
        if width == 1 {
            255
        } else {
            MOST as u32
        }
    }

    #[test]
    fn a_number_leads_to_its_call_until_it_is_given_back() {
        for (width, secret) in [1, 2, 3, 4, 8].into_iter().flat_map(|w| [(w, false), (w, true)]) {
            let mut all = numbers(width, secret);
            let given: Vec<u64> = (0..most(width)).map(|n| all.take(id(n), 0).unwrap()).collect();
            assert!(all.take(id(9), 0).is_none() && !all.has_room(0), "{width}: no more than there are");
            let mut seen = given.clone();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), given.len(), "{width}: no two are the same");
            for (n, number) in given.iter().enumerate() {
                assert_eq!(all.find(*number), Some(id(n as u32)));
                assert!(*number <= low(8 * width as u32) && *number != all.nobodys());
            }
            all.give_back(given[7]);
            all.give_back(given[8]);
            assert_eq!((all.find(given[7]), all.find(all.nobodys())), (None, None));
            let again = all.take(id(70_000), 0).unwrap();
            assert!(width == 1 || again != given[7], "{width}: not the same at once");
            assert_eq!(all.find(again), Some(id(70_000)));
            all.give_back(given[8]);
            assert_eq!(all.find(again), Some(id(70_000)), "a number is given back once");
        }
    }

    /// A number comes again behind all others.
    #[test]
    fn numbers_come_again_late() {
        for (width, secret) in [1, 2].into_iter().flat_map(|w| [(w, false), (w, true)]) {
            let mut all = numbers(width, secret);
            let kept: Vec<u64> = (0..100).map(|n| all.take(id(n), 0).unwrap()).collect();
            let first = all.take(id(100), 0).unwrap();
            all.give_back(first);
            let mut between = 0;
            loop {
                let next = all.take(id(101), 0).unwrap();
                if next == first {
                    break;
                }
                assert!(!kept.contains(&next) && next != all.nobodys());
                all.give_back(next);
                between += 1;
            }
            // With one byte all others, but for that of nobody.
            let others = (1 << (8 * width)) - 100 - 2;
            assert!(between == others || width > 1 && between > others / 2, "{width}: {between}");
        }
    }

    #[test]
    fn a_number_that_rests_is_nobodys_until_its_time() {
        for (width, secret) in [1, 2, 4].into_iter().flat_map(|w| [(w, false), (w, true)]) {
            let mut all = numbers(width, secret);
            let given: Vec<u64> = (0..most(width)).map(|n| all.take(id(n), 0).unwrap()).collect();
            all.rest(given[0], 500, Rest::Forgotten);
            all.rest(given[1], 600, Rest::Forgotten);
            all.rest(given[2], 100, Rest::Answered);
            assert!(given[..3].iter().all(|n| all.find(*n).is_none()));
            given[..3].iter().for_each(|n| all.give_back(*n));
            assert_eq!((all.rests_until(), all.take(id(9), 99)), (Some(100), None));
            let got = [all.take(id(9), 100), all.take(id(9), 499), all.take(id(9), 500), all.take(id(9), 599)];
            assert_eq!(got.map(|n| n.is_some()), [true, false, true, false], "{width}");
            assert!(all.take(id(9), 600).is_some() && all.rests_until().is_none());
        }
    }

    /// Of all numbers that a stranger may try, as many are right as requests are under way.
    #[test]
    fn few_of_all_numbers_are_those_of_requests() {
        let mut all = numbers(2, true);
        let taken: Vec<u64> = (0..10).map(|n| all.take(id(n), 0).unwrap()).collect();
        let right = (0..=0xffff).filter(|n| all.find(*n).is_some()).count();
        assert_eq!(right, taken.len());
        let mut other = numbers(2, true);
        let others: Vec<u64> = (0..10).map(|n| other.take(id(n), 0).unwrap()).collect();
        assert_ne!(taken, others, "each socket has a secret of its own");
    }
}
