//! Counters of a core. The core is their only writer, and the admin thread reads them.

use std::ops::Index;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicU8, Ordering::Relaxed};
use std::sync::OnceLock;

/// A counter or gauge with one writer. An addition is a load and a store, not a locked instruction.
#[derive(Default, Debug)]
pub struct Cell(AtomicU64);

impl Cell {
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }
    #[inline]
    pub fn sub(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(n), Relaxed);
    }
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[derive(Default, Debug)]
pub struct CoreStats {
    pub batches: Cell,
    pub events: Cell,
    pub queue_bytes: Cell,
    pub held_bytes: Cell,
    pub kept_bytes: Cell,
    pub accept_failed: Cell,
    /// Datagrams that the system dropped before they were read.
    pub datagrams_dropped: Cell,
    /// Client connections given to other cores.
    pub moved: Cell,
    pub tasks: Cell,
    pub apps: Vec<AppStats>,
}

#[derive(Default, Debug)]
pub struct AppStats {
    pub ports: Vec<PortStats>,
    pub faults: FaultTable,
    /// How often handlers have let others go first in a long loop.
    pub pauses: Cell,
    /// The program's own counters, as of the last look.
    pub counters: Vec<Cell>,
    pub merges: Vec<MergeStats>,
}

impl AppStats {
    /// One of the program's own counters, with what the nodes of merges have counted.
    pub fn counter(&self, n: usize) -> u64 {
        let merges = self.merges.iter().map(|m| &m.counters);
        merges.chain([&self.counters]).filter_map(|c| c.get(n)).map(Cell::get).fold(0, u64::wrapping_add)
    }
}

/// Of a merge node. Runs and faults are counted by the node (with the first core), the rest by the
/// task of each core.
#[derive(Default, Debug)]
pub struct MergeStats {
    pub runs: Cell,
    pub failed: Cell,
    /// Runs going on now.
    pub active: Cell,
    /// From mappers, and to the reducer.
    pub messages_in: Cell,
    pub messages_out: Cell,
    pub bytes_in: Cell,
    pub bytes_out: Cell,
    pub faults: FaultTable,
    /// The program's own counters, as counted by the nodes before and behind it.
    pub counters: Vec<Cell>,
}

#[derive(Default, Debug)]
pub struct PortStats {
    pub listen: bool,
    /// Connections opened ever, open now, and turned away by the limit.
    pub opened: Cell,
    pub open: Cell,
    pub turned_away: Cell,
    /// Listen: requests in and replies out. Connect: requests out and replies in.
    pub requests: Cell,
    pub replies: Cell,
    pub bytes_in: Cell,
    pub bytes_out: Cell,
    pub retries: Cell,
    /// Connect, exclusive: requests that were sent behind another on its connection.
    pub pipelined: Cell,
    /// Connect: connections closed because of bytes without a request; requests that went to
    /// another server than the one named.
    pub surplus: Cell,
    pub failovers: Cell,
    /// UDP: datagrams that could not be sent; answers to no request, or that came too late.
    pub lost: Cell,
    pub unmatched: Cell,
    /// Listen: answers by their class (`App::classes`), and from a request to the end of its
    /// answer.
    pub classes: Vec<Cell>,
    pub latency: Histogram,
    pub backends: ByPlace,
    pub frames: FrameStats,
}

/// Of a frame port.
#[derive(Default, Debug)]
pub struct FrameStats {
    pub received: Cell,
    pub received_bytes: Cell,
    pub sent: Cell,
    pub sent_bytes: Cell,
    /// Could not be sent.
    pub dropped: Cell,
    /// Of a queue: it was full, the program has discarded the frame, or it still waited when the
    /// run ended.
    pub discarded: Cell,
    /// Dropped by the kernel before they were received.
    pub lost: Cell,
    /// Of those received, how many were copied because other apps read them, too.
    pub copied: Cell,
}

impl FrameStats {
    /// Frames have been received.
    #[inline]
    pub fn came(&self, frames: usize, bytes: u64) {
        self.received.add(frames as u64);
        self.received_bytes.add(bytes);
    }
}

#[derive(Default, Debug)]
pub struct BackendStats {
    pub requests: Cell,
    pub failures: Cell,
    pub ejections: Cell,
    pub connections: Cell,
    /// Its answers to clients by their class, and from a request to the head of its answer.
    pub classes: Vec<Cell>,
    pub latency: Coarse,
    /// Requests outstanding and 1 = usable, as the program sees them too.
    pub load: AtomicU32,
    pub down: AtomicU8,
    /// The last server of the place (`ServerPlace::server`) with which the core has done.
    pub left: AtomicU32,
}

impl BackendStats {
    pub fn new(classes: usize) -> BackendStats {
        BackendStats { classes: (0..classes).map(|_| Cell::default()).collect(), ..BackendStats::default() }
    }

    /// Another server has the place.
    pub fn clear(&self) {
        let one = [&self.requests, &self.failures, &self.ejections, &self.connections];
        one.into_iter()
            .chain(&self.classes)
            .chain(&self.latency.buckets)
            .chain([&self.latency.sum])
            .for_each(|c| c.set(0));
        self.load.store(0, Relaxed);
        self.down.store(0, Relaxed);
    }
}

/// The numbers of a port's backends, by their places. The core adds places while others read.
#[derive(Debug, Default)]
pub struct ByPlace {
    first: Vec<BackendStats>,
    /// Each twice as large as the one before it.
    more: [OnceLock<Box<[BackendStats]>>; PARTS],
    classes: usize,
}

const PARTS: usize = 14;
/// Places of the first part of more.
const PART: usize = 8;

impl ByPlace {
    pub fn new(places: usize, classes: usize) -> ByPlace {
        let first = (0..places).map(|_| BackendStats::new(classes)).collect();
        ByPlace { first, more: Default::default(), classes }
    }

    /// Makes sure that there is a place.
    pub fn add(&self, place: usize) {
        if let Some((part, _)) = self.part(place) {
            self.more[part].get_or_init(|| (0..PART << part).map(|_| BackendStats::new(self.classes)).collect());
        }
    }

    /// The part of a place that is not one of the first, and its place there.
    fn part(&self, place: usize) -> Option<(usize, usize)> {
        let at = place.checked_sub(self.first.len())?;
        let part = (at / PART + 1).ilog2() as usize;
        Some((part, at - PART * ((1 << part) - 1)))
    }

    pub fn get(&self, place: usize) -> Option<&BackendStats> {
        match self.part(place) {
            None => self.first.get(place),
            Some((part, at)) => self.more.get(part)?.get()?.get(at),
        }
    }
}

impl Index<usize> for ByPlace {
    type Output = BackendStats;

    #[inline]
    fn index(&self, place: usize) -> &BackendStats {
        match self.first.get(place) {
            Some(b) => b,
            None => self.get(place).expect("the core has added the place"),
        }
    }
}

/// Faults per (kind, place): a small open-addressed table. When it is full, faults are counted per
/// kind only.
#[derive(Debug)]
pub struct FaultTable {
    keys: Vec<AtomicU64>,
    counts: Vec<AtomicU64>,
}

const FAULT_SLOTS: usize = 256;

impl Default for FaultTable {
    fn default() -> Self {
        FaultTable {
            keys: (0..FAULT_SLOTS).map(|_| AtomicU64::new(0)).collect(),
            counts: (0..FAULT_SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

/// Place of a fault that belongs to no place of the program.
pub const NO_PLACE: u32 = u32::MAX;

impl FaultTable {
    pub fn add(&self, kind: u32, place: u32) {
        self.add_many(kind, place, 1);
    }

    pub fn add_many(&self, kind: u32, place: u32, times: u64) {
        let key = (u64::from(kind) + 1) << 32 | u64::from(place);
        if !self.try_add(key, times) {
            self.try_add((u64::from(kind) + 1) << 32 | u64::from(NO_PLACE), times);
        }
    }

    fn try_add(&self, key: u64, times: u64) -> bool {
        let start = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize;
        for i in 0..32 {
            let slot = (start + i) % FAULT_SLOTS;
            let have = self.keys[slot].load(Relaxed);
            if have == 0 {
                self.keys[slot].store(key, Relaxed);
            } else if have != key {
                continue;
            }
            self.counts[slot].store(self.counts[slot].load(Relaxed) + times, Relaxed);
            return true;
        }
        false
    }

    /// Key and count of each slot; a key is 0 until its fault occurs, and stays.
    pub fn slots(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.keys.iter().zip(&self.counts).map(|(k, c)| (k.load(Relaxed), c.load(Relaxed)))
    }

    /// Adds to the fault of a slot's key.
    pub fn add_key(&self, key: u64, times: u64) {
        if let Some(kind) = ((key >> 32) as u32).checked_sub(1).filter(|_| times > 0) {
            self.add_many(kind, key as u32, times);
        }
    }

    /// (kind, place, count) of each fault that occurred.
    pub fn list(&self) -> Vec<(u32, u32, u64)> {
        let entry = |(k, c): (&AtomicU64, &AtomicU64)| {
            let key = k.load(Relaxed);
            (key != 0).then(|| ((key >> 32) as u32 - 1, key as u32, c.load(Relaxed)))
        };
        self.keys.iter().zip(&self.counts).filter_map(entry).collect()
    }
}

/// Latency in nanoseconds: a bucket per power of two, 1 µs to 34 s, as `/metrics` shows it.
#[derive(Default, Debug)]
pub struct Coarse {
    buckets: [Cell; POWERS],
    pub sum: Cell,
}

impl Coarse {
    #[inline]
    pub fn record(&self, ns: u64) {
        self.buckets[Histogram::index(ns).div_ceil(4)].add(1);
        self.sum.add(ns);
    }

    pub fn powers(&self) -> Powers {
        Powers { counts: std::array::from_fn(|i| self.buckets[i].get()), sum: self.sum.get() }
    }
}

/// How many took less than 1024 ns, 2048 ns and so on, each without those before; the last are all
/// others. The sum is in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Powers {
    pub counts: [u64; POWERS],
    pub sum: u64,
}

impl Powers {
    /// Of all cores.
    pub fn of(all: impl Iterator<Item = Powers>) -> Powers {
        all.fold(Powers::default(), |a, b| Powers {
            counts: std::array::from_fn(|i| a.counts[i] + b.counts[i]),
            sum: a.sum + b.sum,
        })
    }

    /// The bound of a bucket in seconds; the last one has none.
    pub fn bound(i: usize) -> f64 {
        (1u64 << (FIRST as usize + i)) as f64 / 1e9
    }
}

/// Latency in nanoseconds: four buckets per power of two, 1 µs to 64 s.
#[derive(Debug)]
pub struct Histogram {
    buckets: Vec<AtomicU64>,
    pub sum: Cell,
}

const FIRST: u32 = 10;
/// Buckets of which each is a power of two, the first for all below 1024 ns, the last for all from
/// 64 s on.
pub const POWERS: usize = 36 - FIRST as usize + 1;
const BUCKETS: usize = (36 - FIRST as usize) * 4 + 1;

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(), sum: Cell::default() }
    }
}

impl Histogram {
    #[inline]
    pub fn record(&self, ns: u64) {
        let i = Histogram::index(ns);
        self.buckets[i].store(self.buckets[i].load(Relaxed) + 1, Relaxed);
        self.sum.add(ns);
    }

    fn index(ns: u64) -> usize {
        if ns < 1 << FIRST {
            return 0;
        }
        let log = 63 - ns.leading_zeros();
        let quarter = (ns >> (log - 2)) & 3;
        (((log - FIRST) as usize) * 4 + quarter as usize + 1).min(BUCKETS - 1)
    }

    /// Upper bound of a bucket in nanoseconds.
    pub fn bound(i: usize) -> u64 {
        if i == 0 {
            return 1 << FIRST;
        }
        let (log, quarter) = (FIRST + (i as u32 - 1) / 4, (i as u64 - 1) % 4);
        (5 + quarter) << (log - 2)
    }

    /// One that nothing is recorded in, and that takes no memory.
    pub(crate) fn none() -> Histogram {
        Histogram { buckets: Vec::new(), sum: Cell::default() }
    }

    pub fn powers(&self) -> Powers {
        let mut powers = Powers { sum: self.sum.get(), ..Powers::default() };
        for (i, b) in self.buckets.iter().enumerate() {
            powers.counts[i.div_ceil(4)] += b.load(Relaxed);
        }
        powers
    }

    pub fn counts(&self) -> Vec<u64> {
        self.buckets.iter().map(|b| b.load(Relaxed)).collect()
    }
}

/// The value below which `share` of the recorded ones lie.
pub fn percentile(counts: &[u64], share: f64) -> u64 {
    let total: u64 = counts.iter().sum();
    let want = (total as f64 * share).ceil().max(1.0) as u64;
    let mut seen = 0;
    for (i, c) in counts.iter().enumerate() {
        seen += c;
        if seen >= want {
            return Histogram::bound(i);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_their_bounds_say() {
        for ns in [0, 1023, 1024, 1279, 1280, 5000, 1 << 20, (1 << 35) + 17] {
            let i = Histogram::index(ns);
            assert!(ns < Histogram::bound(i), "{ns} in {i}");
            assert!(i == 0 || ns >= Histogram::bound(i - 1), "{ns} in {i}");
        }
    }

    #[test]
    fn powers_of_fine_and_coarse_buckets_are_the_same() {
        let (fine, coarse) = (Histogram::default(), Coarse::default());
        for ns in [0, 1023, 1024, 2047, 2048, 5000, 1 << 20, (1 << 34) + 17, 1 << 35, 1 << 40, u64::MAX >> 8] {
            fine.record(ns);
            coarse.record(ns);
            let i = Histogram::index(ns).div_ceil(4);
            assert!(i == POWERS - 1 || (ns as f64) < Powers::bound(i) * 1e9, "{ns}");
            assert!(i == 0 || ns as f64 >= Powers::bound(i - 1) * 1e9, "{ns}");
        }
        assert_eq!(fine.powers(), coarse.powers());
        assert_eq!(fine.powers().counts.iter().sum::<u64>(), 11);
    }

    #[test]
    fn places_are_added_beside_readers() {
        let all = ByPlace::new(3, 2);
        assert!(all.get(3).is_none());
        for place in 0..5000 {
            all.add(place);
            all[place].requests.add(place as u64);
        }
        assert!((0..5000).all(|p| all[p].requests.get() == p as u64 && all[p].classes.len() == 2));
        all[4000].clear();
        assert_eq!((all[4000].requests.get(), all[4001].requests.get()), (0, 4001));
    }

    #[test]
    fn faults_are_counted_per_kind_and_place() {
        let t = FaultTable::default();
        for _ in 0..3 {
            t.add(8, 1);
        }
        t.add(8, NO_PLACE);
        let mut l = t.list();
        l.sort();
        assert_eq!(l, [(8, 1, 3), (8, NO_PLACE, 1)]);
    }
}
