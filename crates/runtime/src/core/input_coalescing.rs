//! Input coalescing: a short rest before a poll of the sockets, where that makes batches larger.
//!
//! On shared (pipelined) backend connections a batch costs one write per backend and one read of
//! the answers, however many requests it carries. So larger batches are cheaper for this process,
//! for the backends and for the kernel. A core with many active clients and high load rests up to
//! `max` before it polls. It never rests for few clients, at light load, or for exclusive
//! connections, where a batch has nothing to share.
//!
//! The decision uses counts over windows of some milliseconds. Let `a` clients be active, each with
//! an event every `t`. A rest of `t / 10` slows no client by more than a tenth, even if all only
//! wait for answers. It gathers `a / 10` events, and more requests where clients send several at
//! once.
//!
//! Rests raise the rate that decides about them, since small batches are dear for all sides. So the
//! gathered requests are averaged over windows. Four of them begin a rest, less than two end it.
//! The limit for the sake of the clients is that of the last window alone.

use std::time::Duration;

/// Length of a window of observation.
const WINDOW_NS: u64 = 10_000_000;
/// A rest begins if it gathers at least `BEGIN` requests, and ends below `END`. A core without
/// rests finds little more than one request in a poll. With a higher threshold, the same load would
/// sometimes begin to rest and sometimes not.
const BEGIN: u64 = 4;
const END: u64 = 2;
/// Windows in an average: the last one is this part of it.
const AVERAGE: u64 = 4;
/// Shortest rest: below it the timer costs more than it gives.
const SHORTEST_NS: u64 = 40_000;
/// A rest is at most the mean time between two messages of one client over this.
const SHARE: u64 = 10;
/// Percent of the time at work at which resting begins, and below which it ends. Reading belongs to
/// the poll, not to work: a core with memcached clients of 8 outstanding was near 40 at 93% CPU.
const BUSY: u64 = 33;
const QUIET: u64 = 15;

/// The default of the longest rest: twice that gave no more on memcached with 512 clients, half of
/// it a third less.
pub const DEFAULT_MAX: Duration = Duration::from_micros(200);

/// Input per second.
#[derive(Clone, Copy)]
struct Rates {
    inputs: u64,
    shared: u64,
}

pub(super) struct Pace {
    max: u64,
    /// The present rest; 0: none.
    rest: u64,
    /// Percent of the time at work, smoothed, and whether that counts as much.
    busy: Option<u64>,
    loaded: bool,
    /// Averages over windows; none after a window without input.
    rates: Option<Rates>,
    /// The window's number, its start, and its counts.
    number: u32,
    start: u64,
    active: u64,
    inputs: u64,
    shared: u64,
    idle: u64,
}

impl Pace {
    pub fn new(max: Duration, now: u64) -> Pace {
        let max = max.as_nanos().min(u128::from(WINDOW_NS)) as u64;
        Pace {
            max,
            rest: 0,
            busy: None,
            loaded: false,
            rates: None,
            number: 1,
            start: now,
            active: 0,
            inputs: 0,
            shared: 0,
            idle: 0,
        }
    }

    /// How long to rest before the next poll.
    #[inline]
    pub fn rest(&self) -> u64 {
        self.rest
    }

    /// A client has sent something; `stamp` is the connection's own.
    #[inline]
    pub fn input(&mut self, stamp: &mut u32) {
        self.inputs += 1;
        if *stamp != self.number {
            *stamp = self.number;
            self.active += 1;
        }
    }

    /// A request has gone out on a shared connection.
    #[inline]
    pub fn shared(&mut self) {
        self.shared += 1;
    }

    /// A poll (and the rest before it) has taken this long.
    #[inline]
    pub fn polled(&mut self, took: u64, now: u64) {
        self.idle += took;
        if now.saturating_sub(self.start) >= WINDOW_NS {
            self.close_window(now);
        }
    }

    fn close_window(&mut self, now: u64) {
        let span = now - self.start;
        let busy = 100 - (100 * self.idle / span).min(100);
        // Smoothed, as one window in which the clients had no turn says little.
        let busy = self.busy.map_or(busy, |before| average(before, busy));
        self.busy = Some(busy);
        self.loaded = busy >= if self.loaded { QUIET } else { BUSY };
        self.average_rates(span);
        let longest = self.longest(span);
        self.rest = if self.loaded && self.pays(longest) { longest } else { 0 };
        (self.start, self.active, self.inputs, self.shared, self.idle) = (now, 0, 0, 0, 0);
        self.number = self.number.wrapping_add(1);
    }

    fn average_rates(&mut self, span: u64) {
        let per_second = |n: u64| n.saturating_mul(1_000_000_000) / span;
        let now = Rates { inputs: per_second(self.inputs), shared: per_second(self.shared) };
        // A long window has seen a core without work: it alone counts.
        let before = self.rates.filter(|_| span < AVERAGE * WINDOW_NS).unwrap_or(now);
        self.rates = (self.inputs > 0)
            .then(|| Rates { inputs: average(before.inputs, now.inputs), shared: average(before.shared, now.shared) });
    }

    /// The longest rest that slows none of the clients of this window down.
    fn longest(&self, span: u64) -> u64 {
        let between = span.saturating_mul(self.active) / self.inputs.max(1);
        self.max.min(between / SHARE)
    }

    /// Whether a rest of this length gathers enough. It needs input of more than one client. The
    /// requests must save more writes and reads than the timer costs.
    fn pays(&self, rest: u64) -> bool {
        let Some(rates) = self.rates else { return false };
        if rest == 0 || rest < SHORTEST_NS.min(self.max) || rates.shared < rates.inputs / 2 {
            return false;
        }
        // A client that sends several requests at once is worth several: they go to several
        // backends.
        let gathers = |rate: u64, least: u64| rate.saturating_mul(rest) >= least * 1_000_000_000;
        let least = if self.rest > 0 { END } else { BEGIN };
        gathers(rates.inputs, 1) && gathers(rates.inputs.max(rates.shared), least)
    }
}

fn average(before: u64, now: u64) -> u64 {
    ((AVERAGE - 1) * before + now) / AVERAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window with `clients` active clients that send `inputs` messages in all, the core at work
    /// `busy` percent.
    fn window(p: &mut Pace, now: &mut u64, clients: usize, inputs: usize, busy: u64, shared: bool) {
        let mut stamps = vec![0; clients];
        for i in 0..inputs {
            p.input(&mut stamps[i % clients]);
            if shared {
                p.shared();
            }
        }
        *now += WINDOW_NS;
        p.polled(WINDOW_NS / 100 * (100 - busy), *now);
    }

    fn rest_after(clients: usize, inputs: usize, busy: u64, shared: bool) -> u64 {
        let (mut p, mut now) = (Pace::new(DEFAULT_MAX, 0), 0);
        window(&mut p, &mut now, clients, inputs, busy, shared);
        p.rest()
    }

    #[test]
    fn many_clients_on_shared_connections_are_gathered() {
        assert_eq!(rest_after(512, 1000, 70, true), 200_000);
        let fewer = rest_after(128, 900, 70, true);
        assert!(fewer > 100_000 && fewer < 200_000, "a tenth of a client's period: {fewer}");
    }

    #[test]
    fn requests_count_not_reads() {
        // 100 reads in 10 ms gather 2 in 200 us, but 16 requests if each read brings 8.
        let (mut p, mut now) = (Pace::new(DEFAULT_MAX, 0), 0);
        (0..700).for_each(|_| p.shared());
        window(&mut p, &mut now, 100, 100, 70, true);
        assert_eq!(p.rest(), 200_000);
    }

    #[test]
    fn nobody_waits_when_it_gives_nothing() {
        assert_eq!(rest_after(512, 1000, 30, true), 0, "light load");
        assert_eq!(rest_after(8, 1000, 90, true), 0, "few clients that wait for each answer");
        assert_eq!(rest_after(512, 100, 90, true), 0, "few messages");
        assert_eq!(rest_after(512, 1000, 90, false), 0, "nothing to share");
    }

    #[test]
    fn one_client_never_waits() {
        // A read every 2 ms with 100 requests in it.
        let (mut p, mut now) = (Pace::new(DEFAULT_MAX, 0), 0);
        (0..500).for_each(|_| p.shared());
        window(&mut p, &mut now, 1, 5, 90, false);
        assert_eq!(p.rest(), 0);
        // Nor does the last one of many.
        let (mut p, mut now) = (Pace::new(DEFAULT_MAX, 0), 0);
        window(&mut p, &mut now, 512, 1000, 90, true);
        assert_eq!(p.rest(), 200_000);
        window(&mut p, &mut now, 1, 200, 90, true);
        assert_eq!(p.rest(), 0);
    }

    /// Clients that wait for their answers: their core serves `apart` inputs in a window without
    /// rests and `gathered` with them. Returns in how many of the last 50 windows it rested.
    fn settled(p: &mut Pace, now: &mut u64, apart: usize, gathered: usize) -> usize {
        let mut rested = 0;
        for i in 0..100 {
            let inputs = if p.rest() > 0 { gathered } else { apart };
            // The clients' own core serves them in turns: windows differ by a third either way.
            window(p, now, 512, [2 * inputs / 3, inputs, 4 * inputs / 3][i % 3], 60, true);
            rested += usize::from(i >= 50 && p.rest() > 0);
        }
        rested
    }

    #[test]
    fn the_rate_that_rests_raise_does_not_decide_whether_they_begin() {
        // 40,000 requests per second are 8 in 200 us.
        for (apart, gathered) in [(300, 600), (390, 410), (410, 390), (250, 280), (800, 800)] {
            let (mut p, mut now) = (Pace::new(DEFAULT_MAX, 0), 0);
            assert_eq!(settled(&mut p, &mut now, apart, gathered), 50, "{apart}/{gathered} from rest");
            // Also after an interval with few clients.
            for _ in 0..100 {
                window(&mut p, &mut now, 4, 400, 60, true);
            }
            assert_eq!(p.rest(), 0);
            assert_eq!(settled(&mut p, &mut now, apart, gathered), 50, "{apart}/{gathered} after few clients");
        }
    }

    #[test]
    fn one_window_without_a_turn_for_the_clients_ends_nothing() {
        let (mut p, mut now) = (Pace::new(DEFAULT_MAX, 0), 0);
        for i in 0..40 {
            window(&mut p, &mut now, 512, if i % 4 == 3 { 20 } else { 500 }, 60, true);
            assert_eq!(p.rest(), 200_000, "window {i}");
        }
    }

    #[test]
    fn resting_ends_only_when_there_is_little_to_do() {
        let (mut p, mut now) = (Pace::new(DEFAULT_MAX, 0), 0);
        window(&mut p, &mut now, 512, 1000, 70, true);
        window(&mut p, &mut now, 512, 0, 0, true);
        assert_eq!(p.rest(), 0, "nothing came in");
        for _ in 0..20 {
            window(&mut p, &mut now, 512, 1000, 25, true);
            assert_eq!(p.rest(), 200_000);
        }
        for _ in 0..20 {
            window(&mut p, &mut now, 512, 1000, 10, true);
        }
        assert_eq!(p.rest(), 0);
    }

    #[test]
    fn it_can_be_turned_off() {
        let (mut p, mut now) = (Pace::new(Duration::ZERO, 0), 0);
        window(&mut p, &mut now, 512, 1000, 70, true);
        assert_eq!(p.rest(), 0);
    }
}
