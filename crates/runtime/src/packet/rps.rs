//! Receive packet steering in software: the choice of a core for a frame that one core has received
//! for all.
//!
//! In: the hash of a frame's flow key, and the cost of handling a frame. Out: a core.
//!
//! A hand-over costs both cores tens of nanoseconds. So a cheap handler is faster on the core that
//! receives. Its cost shows when frames come in batches. Until then the receiving core handles all
//! of them.
//!
//! State is kept per core by flow key, so a flow never moves. Its hash bucket belongs to the core
//! that has handled its first frame. Buckets that first appear after the decision are dealt out.
//! The receiving core gets the fewest, as it also receives and hands over. Those that it has from
//! before the decision count as part of its share, so the decision is made early.

use super::core_mesh::core_of;

/// Buckets of flows.
const BUCKETS: usize = 1 << 14;
const NOBODY: u8 = u8::MAX;
/// More cores share frames alike.
pub const CORES_MAX: usize = NOBODY as usize;
/// Batches of at least so many frames are used to measure the cost of a frame: smaller ones cost
/// more for each.
const TELLING: usize = 16;
/// The quickest of such batches counts: the others met cold caches or interrupts. It is believed
/// once so many batches behind it were not quicker by an eighth, or after the last of these.
const STEADY: u32 = 3;
const BATCHES: u32 = 16;
/// The least cost of a frame that is worth handing over, in ns.
const WORTH: u64 = 50;
/// The cost of a frame, in ns, beside its handler: to receive it, find its core and hand it over;
/// to take it over.
const GIVE: u64 = 35;
const TAKE: u64 = 30;

/// `--rps`: whether one core hands frames to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// If that is faster.
    #[default]
    Auto,
    /// Always, to all cores alike.
    On,
    /// Never.
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RpsState {
    /// Not known yet: the batches measured so far, how many of them have changed nothing, and the
    /// ns per frame of the quickest.
    Judging { batches: u32, steady: u32, least: u64 },
    /// The receiving core handles all frames.
    Kept,
    /// The handler costs so much that the others help.
    Shared,
}

/// The steering of the only core that receives.
pub struct Rps {
    me: usize,
    state: RpsState,
    /// Owner of each bucket.
    owner: Vec<u8>,
    /// Buckets of the receiving core from before the decision.
    settled: i64,
    /// Each core's share of the next bucket, in parts of `WHOLE`, and the balance of earlier
    /// buckets.
    due: Vec<i64>,
    balance: Vec<i64>,
    /// Small batches that are measured as one: ns, and frames.
    parts: (u64, usize),
}

const WHOLE: i64 = 1 << 16;

impl Rps {
    /// For core `me` of so many, from two to [`CORES_MAX`].
    pub fn new(me: usize, cores: usize, policy: Policy) -> Rps {
        let state = match policy {
            Policy::Off => RpsState::Kept,
            _ => RpsState::Judging { batches: 0, steady: 0, least: u64::MAX },
        };
        Rps {
            me,
            state,
            owner: vec![NOBODY; BUCKETS],
            settled: 0,
            due: vec![0; cores],
            balance: vec![0; cores],
            parts: (0, 0),
        }
    }

    /// All frames stay on this core.
    #[inline]
    pub fn keeps_all(&self) -> bool {
        self.state == RpsState::Kept
    }

    pub fn is_judging(&self) -> bool {
        matches!(self.state, RpsState::Judging { .. })
    }

    /// A small batch of a capture, which ends where its times go on. Several count as one.
    pub fn took_part(&mut self, ns: u64, frames: usize) -> Option<u64> {
        let (ns, frames) = (self.parts.0 + ns, self.parts.1 + frames);
        self.parts = if frames < TELLING { (ns, frames) } else { (0, 0) };
        self.took(ns, frames)
    }

    /// A batch of `frames` took so long. Returns the cost of a frame, in ns, when this batch
    /// decides it.
    pub fn took(&mut self, ns: u64, frames: usize) -> Option<u64> {
        let RpsState::Judging { batches, steady, least } = &mut self.state else { return None };
        if frames < TELLING {
            return None;
        }
        let cost = ns / frames as u64;
        *batches += 1;
        *steady = if cost < *least - *least / 8 { 0 } else { *steady + 1 };
        *least = (*least).min(cost);
        let (batches, steady, cost) = (*batches, *steady, *least);
        // A quick batch is proof, a slow one is not.
        if cost >= WORTH && steady < STEADY && batches < BATCHES {
            return None;
        }
        self.state = if cost < WORTH { RpsState::Kept } else { RpsState::Shared };
        self.deal(cost);
        Some(cost)
    }

    /// Computes shares with which all cores spend the same time. The receiver spends `GIVE` on
    /// every frame, and the handler on its own ones. The other cores spend `TAKE` and the handler
    /// on theirs.
    fn deal(&mut self, handler: u64) {
        let others = self.due.len() as i64 - 1;
        let (handler, give, take) = (handler as i64, GIVE as i64, TAKE as i64);
        // own * handler + give = (1 - own) * (handler + take) / others
        let own = ((handler + take - others * give) * WHOLE / (others * handler + handler + take))
            .clamp(0, WHOLE / (others + 1));
        for (core, due) in self.due.iter_mut().enumerate() {
            *due = if core == self.me { own } else { (WHOLE - own) / others };
        }
        for (balance, due) in self.balance.iter_mut().zip(&self.due) {
            *balance = self.settled * due;
        }
        self.balance[self.me] -= self.settled * WHOLE;
    }

    /// The core of a flow.
    #[inline]
    pub fn core(&mut self, hash: u32) -> usize {
        let bucket = core_of(hash, BUCKETS);
        let owner = self.owner[bucket];
        if owner == NOBODY {
            self.settle(bucket)
        } else {
            usize::from(owner)
        }
    }

    #[cold]
    fn settle(&mut self, bucket: usize) -> usize {
        let core = if self.state == RpsState::Shared { self.next() } else { self.me };
        self.settled += i64::from(self.is_judging());
        self.owner[bucket] = core as u8;
        core
    }

    /// The core that is most behind its share.
    fn next(&mut self) -> usize {
        for (balance, due) in self.balance.iter_mut().zip(&self.due) {
            *balance += due;
        }
        let core = (0..self.balance.len()).max_by_key(|c| self.balance[*c]).unwrap_or(self.me);
        self.balance[core] -= WHOLE;
        core
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(cores: usize, ns: u64) -> Rps {
        let mut rps = Rps::new(0, cores, Policy::Auto);
        assert_eq!((0..100).find_map(|_| rps.took(ns * 64, 64)), Some(ns));
        rps
    }

    fn shares(rps: &mut Rps, cores: usize) -> Vec<usize> {
        let mut n = vec![0; cores];
        (0..200_000u32).for_each(|h| n[rps.core(h)] += 1);
        n
    }

    #[test]
    fn a_cheap_handler_stays() {
        let mut rps = judged(2, 14);
        assert!(rps.keeps_all());
        assert_eq!(shares(&mut rps, 2), [200_000, 0]);
    }

    #[test]
    fn the_receiver_of_a_costly_handler_gets_least() {
        for (cores, ns, least, most) in
            [(2, 60, 0.15, 0.40), (2, 500, 0.40, 0.50), (4, 500, 0.18, 0.25), (8, 60, 0.0, 0.02)]
        {
            let own = shares(&mut judged(cores, ns), cores);
            let part = own[0] as f64 / 200_000.0;
            assert!(part >= least && part <= most, "{cores} cores, {ns} ns: {own:?}");
            assert!(own[1..].iter().max().unwrap() - own[1..].iter().min().unwrap() < 20_000 / cores, "{own:?}");
        }
    }

    /// Batches that become quicker, as caches fill, tell nothing yet. A quick one is proof.
    #[test]
    fn cold_batches_do_not_count() {
        let mut rps = Rps::new(0, 2, Policy::Auto);
        let slow = [900, 400, 420, 200, 120, 90];
        assert!(slow.iter().all(|ns| rps.took(ns * 64, 64).is_none()));
        assert_eq!(rps.took(40 * 64, 64), Some(40));
        assert!(rps.keeps_all());
        let mut rps = Rps::new(0, 2, Policy::Auto);
        let list = [900, 100, 110, 98, 130];
        assert_eq!(list.iter().position(|ns| rps.took(ns * 64, 64).is_some()), Some(4));
        assert!(!rps.keeps_all() && !rps.is_judging());
    }

    /// A thousand flows that all appear early: those that came before the decision count as part of
    /// the receiving core's share.
    #[test]
    fn early_flows_leave_work_for_other_cores() {
        let mut rps = Rps::new(0, 2, Policy::Auto);
        let flow = |n: u32| (n % 1000).wrapping_mul(0x9e37_79b1);
        let mut n = 0;
        while rps.took(250 * 64, 64).is_none() {
            (0..64).for_each(|k| assert_eq!(rps.core(flow(n + k)), 0));
            n += 64;
        }
        let own = (0..1000).filter(|n| rps.core(flow(*n)) == 0).count();
        assert!((350..=500).contains(&own), "{own} of 1000 flows stay");
    }

    /// Frames before the decision stay, and small batches decide nothing.
    #[test]
    fn a_flow_never_moves() {
        let mut rps = Rps::new(0, 2, Policy::Auto);
        (0..1000u32).for_each(|h| assert_eq!(rps.core(h.wrapping_mul(77_777)), 0));
        (0..1000).for_each(|_| assert_eq!(rps.took(1_000_000, 4), None));
        while rps.took(100_000, 64).is_none() {}
        assert!(!rps.keeps_all() && !rps.is_judging());
        (0..1000u32).for_each(|h| assert_eq!(rps.core(h.wrapping_mul(77_777)), 0));
        let before: Vec<usize> = (0..50_000).map(|h| rps.core(h)).collect();
        assert!(before.contains(&1));
        assert_eq!(before, (0..50_000).map(|h| rps.core(h)).collect::<Vec<_>>());
    }
}
