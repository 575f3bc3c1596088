//! The frames of a batch by the core that handles them. In: a core for each frame. Out: for each
//! core the places of its frames in the batch, in order.
//!
//! The cores of neighbouring frames have no pattern, so a branch on a frame's core would be
//! mispredicted half of the time. Nothing here branches on it.

use super::batch::BATCH;

pub struct Scatter {
    cores: Vec<BatchPlaces>,
}

#[derive(Clone, Copy)]
struct BatchPlaces {
    count: usize,
    at: [u8; BATCH],
}

const _: () = assert!(BATCH <= 1 + u8::MAX as usize);

impl Scatter {
    pub fn new(cores: usize) -> Scatter {
        Scatter { cores: vec![BatchPlaces { count: 0, at: [0; BATCH] }; cores] }
    }

    /// Sorts anew: `core` tells the core of each place, from 0 to `count`.
    #[inline]
    pub fn sort(&mut self, count: usize, mut core: impl FnMut(usize) -> usize) {
        self.cores.iter_mut().for_each(|c| c.count = 0);
        for k in 0..count.min(BATCH) {
            let places = &mut self.cores[core(k)];
            places.at[places.count % BATCH] = k as u8;
            places.count += 1;
        }
    }

    pub fn of(&self, core: usize) -> &[u8] {
        let places = &self.cores[core];
        &places.at[..places.count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_its_cores_in_order() {
        let mut s = Scatter::new(3);
        for round in 0..3 {
            s.sort(BATCH, |k| (k * k + round) % 3);
            for core in 0..3 {
                let want: Vec<u8> = (0..BATCH as u8).filter(|k| (usize::from(*k).pow(2) + round) % 3 == core).collect();
                assert_eq!(s.of(core), want);
            }
        }
        s.sort(0, |_| 0);
        assert!((0..3).all(|c| s.of(c).is_empty()));
    }
}
