//! The numbers by which the requests of a socket for datagrams are found.

use super::slab::Id;
use std::collections::VecDeque;

/// Requests under way on one socket.
const PLACES: u64 = 1 << PLACE_BITS;

const PLACE_BITS: u32 = 12;

/// The numbers of the requests of one socket. A number has the width of the protocol's id. Its low
/// 16 bits lead back to the place. They are a permutation of the place and of four bits that change
/// with each use.
pub struct RequestNumbers {
    /// The call at each place, and its number.
    places: Vec<(Id, u64)>,
    free: VecDeque<u16>,
    /// None: numbers count up, for tests.
    secret: Option<Box<Secret>>,
}

struct Secret {
    /// The rounds of a Feistel network on two bytes.
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

    fn permute(&self, n: u16) -> u16 {
        let [mut l, mut r] = n.to_be_bytes();
        for round in &self.rounds {
            (l, r) = (r, l ^ round[r as usize]);
        }
        u16::from_be_bytes([l, r])
    }

    fn undo(&self, n: u16) -> u16 {
        let [mut l, mut r] = n.to_be_bytes();
        for round in self.rounds.iter().rev() {
            (l, r) = (r ^ round[l as usize], l);
        }
        u16::from_be_bytes([l, r])
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        super::mix(self.state)
    }
}

impl RequestNumbers {
    /// None: the system gives no random bytes.
    pub(super) fn new(secret: bool) -> Option<RequestNumbers> {
        let secret = if secret { Some(Secret::new()?) } else { None };
        Some(RequestNumbers { places: Vec::new(), free: VecDeque::new(), secret })
    }

    /// A number for a call; none if too many are under way.
    pub(super) fn take(&mut self, call: Id, width: usize) -> Option<u64> {
        let place = match self.free.pop_front() {
            Some(p) => p,
            None if (self.places.len() as u64) < PLACES => {
                self.places.push((Id::NIL, 0));
                (self.places.len() - 1) as u16
            }
            None => return None,
        };
        let before = self.places[usize::from(place)].1;
        let number = match &mut self.secret {
            Some(s) => {
                // Another one than the last of this place: an answer that comes late is not taken.
                let random = s.next();
                let turn = (s.undo(before as u16) >> PLACE_BITS) as u64 + 1 + random % 15;
                let low = s.permute(((turn as u16 & 15) << PLACE_BITS) | place);
                (random & !0xffff | u64::from(low)) & mask(width)
            }
            None => {
                let used = self.places[usize::from(place)].1 >> PLACE_BITS & 15;
                ((used + 1) & 15) << PLACE_BITS | u64::from(place)
            }
        };
        self.places[usize::from(place)] = (call, number);
        Some(number)
    }

    fn place(&self, number: u64) -> usize {
        let low = number as u16;
        let plain = self.secret.as_ref().map_or(low, |s| s.undo(low));
        usize::from(plain) & (PLACES as usize - 1)
    }

    /// The call of a number.
    pub(super) fn find(&self, number: u64) -> Option<Id> {
        let (call, own) = *self.places.get(self.place(number))?;
        (own == number && !call.is_nil()).then_some(call)
    }

    pub(super) fn give_back(&mut self, number: u64) {
        let place = self.place(number);
        if let Some(p) = self.places.get_mut(place).filter(|p| p.1 == number && !p.0.is_nil()) {
            p.0 = Id::NIL;
            self.free.push_back(place as u16);
        }
    }
}

fn mask(width: usize) -> u64 {
    if width >= 8 {
        u64::MAX
    } else {
        (1 << (8 * width)) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u32) -> Id {
        Id { index: n, gen: 1 }
    }

    #[test]
    fn a_number_leads_to_its_call_until_it_is_given_back() {
        for width in [2, 3, 4, 8] {
            let mut all = RequestNumbers::new(true).unwrap();
            let numbers: Vec<u64> = (0..PLACES as u32).map(|n| all.take(id(n), width).unwrap()).collect();
            assert!(all.take(id(9), width).is_none(), "no more than there are places");
            let mut seen = numbers.clone();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), numbers.len(), "no two are the same");
            for (n, number) in numbers.iter().enumerate() {
                assert_eq!(all.find(*number), Some(id(n as u32)));
                assert!(*number <= mask(width));
            }
            all.give_back(numbers[7]);
            assert_eq!(all.find(numbers[7]), None);
            let again = all.take(id(7000), width).unwrap();
            assert_ne!(again, numbers[7], "a late answer is not taken for the next request's");
            assert_eq!((all.find(again), all.find(numbers[7])), (Some(id(7000)), None));
            all.give_back(numbers[7]);
            assert_eq!(all.find(again), Some(id(7000)), "a number is given back once");
        }
    }

    /// Of all numbers that a stranger may try, as many are right as requests are under way.
    #[test]
    fn few_of_all_numbers_are_those_of_requests() {
        let mut all = RequestNumbers::new(true).unwrap();
        let taken: Vec<u64> = (0..10).map(|n| all.take(id(n), 2).unwrap()).collect();
        let right = (0..=0xffff).filter(|n| all.find(*n).is_some()).count();
        assert_eq!(right, taken.len());
        let mut other = RequestNumbers::new(true).unwrap();
        let others: Vec<u64> = (0..10).map(|n| other.take(id(n), 2).unwrap()).collect();
        assert_ne!(taken, others, "each socket has a secret of its own");
    }
}
