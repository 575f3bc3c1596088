//! Buffers for copies. In: the bytes of a frame. Out: a buffer that holds them, as soon as one can
//! be had.
//!
//! Frames that are staged leave first. In a run on captures a core then waits for the others, which
//! have its buffers: nothing hastens it. In a live run the copy is lost, since frames that wait
//! meanwhile would be lost, too.

use super::entries::EntryOf;
use super::PacketCore;
use crate::abi::wl_frame;
use crate::clock;
use crate::engine::common::nap;
use crate::packet::batch::Buf;

/// If all other cores have rested and had nothing to do for so many ns, none gives a buffer back. A
/// core that writes to a slow pipe does not rest, and is waited for.
const PATIENCE: u64 = 200_000_000;
/// Nor does it if they have had something to do for so long.
const MOST: u64 = 10_000_000_000;

impl PacketCore {
    /// A frame that holds the first `there` of these bytes, and has the length of all.
    #[inline]
    pub(super) fn store(&mut self, bytes: &[u8], there: usize) -> Option<(Buf, wl_frame)> {
        match self.pool.store_part(bytes, there) {
            Some(stored) => Some(stored),
            None if self.make_room(bytes.len()) => self.pool.store_part(bytes, there),
            None => None,
        }
    }

    /// Gets a buffer for a frame of `n` bytes back. False: there is none to be had.
    #[cold]
    fn make_room(&mut self, n: usize) -> bool {
        self.flush();
        if self.pool.has(n) {
            return true;
        }
        if self.capture.is_none() || self.stats.len() == 1 || self.alone {
            return false;
        }
        let of = std::mem::replace(&mut self.entries.of, EntryOf::Buffer);
        self.works(false);
        let got = self.wait_for_room(n);
        self.works(true);
        self.entries.of = of;
        self.alone = !got;
        got
    }

    fn wait_for_room(&mut self, n: usize) -> bool {
        let (board, me) = (self.mesh.shared.board.clone(), self.index);
        let turns = || -> Vec<u32> { (0..board.cores()).map(|k| board.turns(k)).collect() };
        let began = clock::now();
        let (mut since, mut seen, mut rounds) = (began, turns(), 0u32);
        let mut rested = vec![false; board.cores()];
        rested[me] = true;
        loop {
            self.mesh.send_late();
            self.settle();
            self.mesh.ring_bells(false);
            self.send_for_others();
            if self.pool.has(n) {
                return true;
            }
            let (now, turns) = (clock::now(), turns());
            rested.iter_mut().enumerate().for_each(|(k, rested)| *rested |= !board.works(k));
            if turns != seen {
                (since, seen) = (now, turns);
                rested.fill(false);
                rested[me] = true;
                if now - began > MOST {
                    return false;
                }
            } else if now - since > PATIENCE && !rested.contains(&false) {
                return false;
            }
            rounds += 1;
            if rounds.is_multiple_of(4) {
                nap(super::NAP);
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Frames of other cores leave through this one's ports, so that those cores need not wait for
    /// this one. Where several apps run, the ports of the others are out of reach here.
    fn send_for_others(&mut self) {
        if self.number > 0 || !self.others.is_empty() {
            return;
        }
        while let Some(item) = self.mesh.next_send() {
            self.stage(item.frame, item.buf);
        }
        self.flush();
    }
}
