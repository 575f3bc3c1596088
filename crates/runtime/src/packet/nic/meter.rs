//! The modelled link: what the entries of a ring would cost on PCIe, in virtual time.
//!
//! In: each entry that the card's end of a ring puts in or takes out, with its time and its bytes.
//! Out: counts of transactions, of packets of the transaction layer (TLPs), of bytes, and times. No
//! clock of the machine is read, so a run on captures gives the same counts each time.
//!
//! The model. Rings lie in the host's memory, and the card reaches them by DMA, as Floem's do. It
//! moves up to `batch` entries by one transaction, which may gather several pieces. A batch ends
//! when it is full, or when the next entry comes more than `wait` after its first.
//!
//! - To the host: one read of status words (are the entries free?), then one write of the entries,
//!   status and content together.
//! - To the card: one doorbell of the host (a write of 4 bytes), one read of the entries, one write
//!   of their status words.
//!
//! With `blocking 1` the card waits for each transaction before it begins the next one. Else reads
//! of one batch overlap with the bytes of others. A transaction then costs the time `op` of the
//! engine, and the time of its bytes.
//!
//! Sizes and speeds are those of a PCIe 3.0 link of 8 lanes. It has 8 GT/s with 128b/130b, payloads
//! of 256 bytes, read requests of 512 bytes. 24 bytes lie before the payload of a write or a read
//! request, and 20 before that of a completion. (They are framing, number, header and LCRC.) These,
//! and the latency of a read, follow R. Neugebauer and others, "Understanding PCIe performance for
//! end host networking" (SIGCOMM 2018). `write`, `op` and `wait` are assumptions. Packets of the
//! data link layer (acknowledgements, credits) are not counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
pub use wireloom_ir::link::{Link, PARAMETERS};

/// The cost of a batch: entries of these bytes each.
pub fn batch_cost(link: &Link, bytes: &[u64], to_card: bool) -> Cost {
    let n = bytes.len() as u64;
    let mut c = Cost { entries: n, ..Cost::default() };
    if to_card {
        c.doorbells = 1;
        c.write(link, &mut std::iter::once(link.doorbell));
        c.reads = 1;
        c.read(link, &mut bytes.iter().copied());
        c.writes = 1;
        c.write(link, &mut std::iter::repeat_n(link.status, bytes.len()));
    } else {
        c.reads = 1;
        c.status_reads = 1;
        c.read(link, &mut std::iter::repeat_n(link.status, bytes.len()));
        c.writes = 1;
        c.write(link, &mut bytes.iter().copied());
    }
    c
}

fn ns(link: &Link, bytes: u64) -> u64 {
    (bytes * 8_000).div_ceil(link.mbits)
}

/// How long the engine is at a batch, and when its last entry has arrived.
fn times(link: &Link, c: &Cost) -> (u64, u64) {
    // Both directions carry bytes at the same time; at most all of them go one way.
    let (moving, ops) = (ns(link, c.payload + c.overhead), (c.reads + c.writes) * link.op);
    let waits = c.reads * link.read + c.writes * link.write;
    match link.blocking {
        0 => ((ops).max(moving), ops + moving + link.read + link.write),
        _ => (ops + moving + waits, ops + moving + waits),
    }
}
/// Counts of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub entries: u64,
    pub reads: u64,
    pub writes: u64,
    pub doorbells: u64,
    /// Of the reads, those of status words only.
    pub status_reads: u64,
    pub tlps: u64,
    pub payload: u64,
    pub overhead: u64,
}

impl Cost {
    fn write(&mut self, link: &Link, pieces: &mut dyn Iterator<Item = u64>) {
        for bytes in pieces {
            let tlps = bytes.div_ceil(link.payload);
            self.tlps += tlps;
            self.payload += bytes;
            self.overhead += tlps * link.write_header;
        }
    }

    fn read(&mut self, link: &Link, pieces: &mut dyn Iterator<Item = u64>) {
        for bytes in pieces {
            let (requests, completions) = (bytes.div_ceil(link.request), bytes.div_ceil(link.payload));
            self.tlps += requests + completions;
            self.payload += bytes;
            self.overhead += requests * link.write_header + completions * link.completion_header;
        }
    }

    /// Transactions of DMA, and doorbells.
    pub fn transactions(&self) -> u64 {
        self.reads + self.writes + self.doorbells
    }
}

/// The counts of a ring, in memory that both processes see. Only the card's end writes them.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Meter(pub [AtomicU64; WORDS]);

/// The words of a meter, as metrics name them.
pub const NAMES: [&str; WORDS] =
    ["entries", "read", "write", "doorbell", "status_read", "tlps", "payload", "overhead", "busy_ns", "latency_ns"];
pub const WORDS: usize = 10;

/// The entries of a batch, and the engine.
pub struct DmaEngine {
    link: Link,
    to_card: bool,
    bytes: Vec<u64>,
    /// Times of the batch's entries.
    first: u64,
    sum: u64,
    last: u64,
    free_at: u64,
}

impl DmaEngine {
    pub fn new(link: Link, to_card: bool) -> DmaEngine {
        let bytes = Vec::with_capacity(link.batch as usize);
        DmaEngine { link, to_card, bytes, first: 0, sum: 0, last: 0, free_at: 0 }
    }

    /// An entry crosses.
    pub fn entry(&mut self, meter: &Meter, now: u64, bytes: u64) {
        if !self.bytes.is_empty() && now.saturating_sub(self.first) > self.link.wait {
            self.flush(meter);
        }
        if self.bytes.is_empty() {
            (self.first, self.sum) = (now, 0);
        }
        self.bytes.push(bytes);
        self.last = self.last.max(now);
        self.sum += now.saturating_sub(self.first);
        if self.bytes.len() as u64 == self.link.batch {
            self.flush(meter);
        }
    }

    /// The batch at hand is the last for now.
    pub fn flush(&mut self, meter: &Meter) {
        if self.bytes.is_empty() {
            return;
        }
        let c = batch_cost(&self.link, &self.bytes, self.to_card);
        let (busy, takes) = times(&self.link, &c);
        let begins = self.last.max(self.free_at);
        self.free_at = begins + busy;
        // From each entry's own time to the arrival of the batch.
        let latency = (begins + takes).saturating_sub(self.first) * c.entries - self.sum;
        let words =
            [c.entries, c.reads, c.writes, c.doorbells, c.status_reads, c.tlps, c.payload, c.overhead, busy, latency];
        for (word, n) in meter.0.iter().zip(words) {
            word.store(word.load(Relaxed).wrapping_add(n), Relaxed);
        }
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(link: Link, to_card: bool, entries: u64, bytes: u64, gap: u64) -> [u64; WORDS] {
        let (meter, mut e) = (Meter::default(), DmaEngine::new(link, to_card));
        (0..entries).for_each(|n| e.entry(&meter, n * gap, bytes));
        e.flush(&meter);
        std::array::from_fn(|n| meter.0[n].load(Relaxed))
    }

    #[test]
    fn a_batch_costs_what_the_model_says() {
        let link = Link::default();
        // Two entries of 128 and 320 bytes to the host: a read of two status words, then 1 + 2
        // TLPs.
        let c = batch_cost(&link, &[128, 320], false);
        let (payload, overhead) = (2 * 8 + 448, 2 * (24 + 20) + 3 * 24);
        let want =
            Cost { entries: 2, reads: 1, writes: 1, doorbells: 0, status_reads: 1, tlps: 4 + 3, payload, overhead };
        assert_eq!(c, want);
        // To the card: a doorbell, a read with one completion and one with two, two status words.
        let c = batch_cost(&link, &[128, 320], true);
        let (payload, overhead) = (4 + 448 + 2 * 8, 24 + (24 + 20) + (24 + 2 * 20) + 2 * 24);
        let want =
            Cost { entries: 2, reads: 1, writes: 1, doorbells: 1, status_reads: 0, tlps: 1 + 5 + 2, payload, overhead };
        assert_eq!(c, want);
    }

    #[test]
    fn batches_end_when_full_or_late() {
        let link = Link { batch: 4, wait: 100, ..Link::default() };
        assert_eq!(run(link, false, 12, 64, 1)[1..3], [3, 3]);
        assert_eq!(run(link, false, 12, 64, 40)[1..3], [4, 4]); // three within 100 ns
        assert_eq!(run(link, false, 12, 64, 101)[1..3], [12, 12]);
        assert_eq!(run(link, true, 5, 64, 0)[1..4], [2, 2, 2]);
    }

    /// Floem's microbenchmark of queue synchronisation, in this model. There are 7 to 15 times
    /// fewer transactions, and the engine has more time left the smaller the entries are.
    #[test]
    fn batches_save_transactions() {
        let alone = Link { batch: 1, blocking: 1, ..Link::default() };
        let (mut before, size) = (u64::MAX, |frame: u64| (48 + frame).next_multiple_of(64));
        for frame in [32, 64, 128, 256] {
            let (a, b) = (run(alone, false, 4096, size(frame), 0), run(Link::default(), false, 4096, size(frame), 0));
            let (one, many) = (a[1] + a[2], b[1] + b[2]);
            assert!((7 * many..=16 * many).contains(&one), "{frame}: {one} and {many}");
            assert_eq!((a[6], a[7]), (b[6], b[7]), "the bytes are the same");
            let gain = a[8] * 100 / b[8];
            assert!(gain > 700 && gain <= before, "{frame}: {gain} %, before {before}");
            before = gain;
        }
    }
}
