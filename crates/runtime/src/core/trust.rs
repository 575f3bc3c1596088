//! Whether requests to a backend may share its connections when nobody has said (`pipeline` is `auto`).
//!
//! In come the answers of one backend as one core sees them; out goes how many requests may lie on one connection now, and how
//! long one answer may hold up those behind it. Sharing saves a write for each request, and takes from the backend what it could
//! do at once. So a backend must first have answered [`WARM`] requests in a row, quickly and well; requests share only beside
//! [`SPREAD`] connections at work; the first [`PROOF`] answers from behind others come from pairs; and every [`TOGETHER_NS`]
//! for [`APART_NS`] nothing is shared, to compare: where answers take longer to requests that share, nothing does.
//! What else costs the trust, for a while that doubles each time:
//! - an answer that holds up those behind it ([`Trust::patience`]), while the backend answers on other connections;
//! - an answer that is none, or that nobody has asked for.
//!
//! A slow answer to a request that had a connection of its own takes it, too, as the next one could lie in front of others.

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

/// Most requests on one connection.
const MOST: u32 = 8;
/// Requests under way for each that may lie on one connection: so many connections are at work before any has two.
const SPREAD: u32 = 4;
/// Answers in a row before any share.
const WARM: u32 = 64;
/// Answers from behind others before more than two share.
const PROOF: u32 = 16;
/// Beyond this mean time to an answer nothing is shared.
const MEAN_NS: u64 = 50 * MS;
/// An answer is slow when it takes this and four times the mean. Short enough that nobody who waits behind it will mind.
const SLOW_NS: u64 = 20 * MS;
/// For how long requests share before they do not, to compare, and for how long they do not; the fewest answers that are compared.
const TOGETHER_NS: u64 = 2 * S;
const APART_NS: u64 = 50 * MS;
const SAMPLE: u32 = 512;
/// How much slower the mean answer may be where requests share: by an eighth, and what one look at the sockets may take.
const SLOWER_NS: u64 = MS / 4;
/// Comparisons in a row that sharing must lose: load changes, too.
const LOST: u32 = 3;
/// How long nothing is shared at first, and after what cannot be an answer.
const CALM_NS: u64 = 10 * S;
const BAD_NS: u64 = 60 * S;
/// How often the calm doubles.
const LEVELS: u32 = 6;
/// So many times of sharing in a row, a minute, make good for one level.
const GOOD: u32 = 30;

/// What one core thinks of a backend. Times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    calm_until: u64,
    level: u32,
    /// Answers in a row that were neither slow nor bad.
    good: u32,
    /// Answers that came from behind others.
    followed: u32,
    /// The time from a request that is first on its connection to its answer, smoothed over some sixteen.
    mean: u64,
    /// When the backend has last answered.
    heard: u64,
    /// Whether requests share at present, until when, and how often in a row that was slower.
    sharing: bool,
    until: u64,
    lost: u32,
    /// Times of sharing since it last ended for a worse reason.
    times: u32,
    /// What answers took to requests of the last time when none shared, and of this one; how many of these lay behind others.
    apart: Mean,
    together: Mean,
    behind: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: u64,
    count: u32,
}

impl Mean {
    fn get(self) -> u64 {
        self.sum / u64::from(self.count.max(1))
    }
}

impl Trust {
    /// How many requests may lie on one connection, of `load` under way.
    #[inline]
    pub fn most(&self, now: u64, load: u32) -> u32 {
        if !self.sharing || load < 2 * SPREAD || self.good < WARM || now < self.calm_until || self.mean > MEAN_NS {
            return 1;
        }
        (load / SPREAD).min(if self.followed < PROOF { 2 } else { MOST })
    }

    /// Whether requests share at present.
    pub fn sharing(&self) -> bool {
        self.sharing
    }

    /// An answer has begun, to a request that was sent `waited` ago when `shared` was what [`Trust::sharing`] said.
    #[inline]
    pub fn took(&mut self, now: u64, shared: bool, waited: u64) {
        let mean = if shared { &mut self.together } else { &mut self.apart };
        mean.sum += waited.min(2 * MEAN_NS);
        mean.count += 1;
        if self.sharing && self.together.count >= SAMPLE {
            self.compare(now);
        }
        if now >= self.until {
            self.turn(now);
        }
    }

    fn compare(&mut self, now: u64) {
        let (apart, together) = (self.apart.get(), self.together.get());
        let tells = self.behind >= SAMPLE / 8;
        (self.together, self.behind) = (Mean::default(), 0);
        if tells && together > apart + apart / 8 + SLOWER_NS {
            self.part(now);
            self.lost += 1;
            if self.lost == LOST {
                self.lost = 0;
                self.lose(now, CALM_NS);
            }
        }
    }

    /// The time of sharing, or of not sharing, is over.
    fn turn(&mut self, now: u64) {
        if self.sharing {
            (self.lost, self.times) = (0, self.times + 1);
            if self.times == GOOD {
                (self.times, self.level) = (0, self.level.saturating_sub(1));
            }
            self.part(now);
        } else if now < self.calm_until {
            self.part(now);
        } else if self.apart.count >= SAMPLE {
            (self.together, self.behind) = (Mean::default(), 0);
            (self.sharing, self.until) = (true, now.saturating_add(TOGETHER_NS));
        }
    }

    /// Of a backend that has earned it long ago and never does wrong.
    #[cfg(test)]
    pub fn blind() -> Trust {
        Trust { good: WARM, followed: PROOF, sharing: true, until: u64::MAX, ..Trust::default() }
    }

    /// From now on nothing is shared.
    fn part(&mut self, now: u64) {
        self.apart = Mean::default();
        (self.sharing, self.until) = (false, now.saturating_add(APART_NS));
    }

    /// An answer has begun whose request was the only one on its connection, or the first.
    #[inline]
    pub fn answered(&mut self, now: u64, waited: u64) {
        self.heard = now;
        if waited > self.patience() {
            self.good = 0;
            self.calm_until = self.calm_until.max(now.saturating_add(CALM_NS));
        } else {
            self.good = self.good.saturating_add(1);
        }
        self.mean = self.mean - self.mean / 16 + waited.min(2 * MEAN_NS) / 16;
    }

    /// An answer has begun whose request lay behind another.
    #[inline]
    pub fn followed(&mut self, now: u64) {
        self.heard = now;
        self.followed = self.followed.saturating_add(1);
        self.behind += 1;
    }

    /// How long an answer may take before it is slow.
    #[inline]
    pub fn patience(&self) -> u64 {
        SLOW_NS + 4 * self.mean
    }

    /// Whether the backend has answered others lately, while the one whose turn came at `turn` was waited for: else it is not this
    /// answer that is slow but the backend, and to send the request again does not help.
    pub fn heard_since(&self, turn: u64) -> bool {
        self.heard >= turn.saturating_add(self.patience() / 2)
    }

    /// An answer holds up those behind it. `behind`: it is itself one that lay behind another when it was asked for.
    pub fn held_up(&mut self, now: u64, behind: bool) {
        if behind && self.followed < PROOF {
            // Perhaps the backend drops what it has read too much.
            self.level = LEVELS;
        }
        self.lose(now, CALM_NS);
    }

    /// An answer that is none, or that nobody has asked for.
    pub fn betrayed(&mut self, now: u64) {
        self.lose(now, BAD_NS);
    }

    fn lose(&mut self, now: u64, span: u64) {
        // Of what goes wrong at one time, the first counts.
        if self.calm_until <= now {
            self.calm_until = now.saturating_add(span << self.level);
            self.level = (self.level + 1).min(LEVELS);
        }
        (self.good, self.times) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A backend at work, in whose eyes time passes.
    struct Work {
        trust: Trust,
        now: u64,
    }

    impl Work {
        fn new() -> Work {
            Work { trust: Trust::default(), now: S }
        }

        /// Answers, a tenth of a millisecond apart, of requests that share when they may and then take `together`, else `apart`.
        fn answers(&mut self, n: u32, apart: u64, together: u64) {
            for i in 0..n {
                self.now += MS / 10;
                let shared = self.trust.sharing();
                let waited = if shared { together } else { apart };
                if shared && i % 2 == 0 { self.trust.followed(self.now) } else { self.trust.answered(self.now, waited) }
                self.trust.took(self.now, shared, waited);
            }
        }

        fn most(&self) -> u32 {
            self.trust.most(self.now, 1000)
        }

        fn trusted() -> Work {
            let mut w = Work::new();
            w.answers(1000, MS, MS);
            assert_eq!(w.most(), MOST);
            w
        }
    }

    #[test]
    fn trust_is_earned() {
        let mut w = Work::new();
        w.answers(WARM - 1, MS, MS);
        assert_eq!(w.most(), 1);
        w.answers(SAMPLE - WARM, MS, MS);
        assert_eq!(w.most(), 1, "there is nothing to compare with yet");
        w.answers(2, MS, MS);
        assert_eq!(w.most(), 2, "pairs first");
        w.answers(2 * PROOF, MS, MS);
        assert_eq!(w.most(), MOST);
        // As many as leave enough connections at work.
        let at = |load| w.trust.most(w.now, load);
        assert_eq!([0, SPREAD, 2 * SPREAD - 1, 2 * SPREAD, 5 * SPREAD].map(at), [1, 1, 1, 2, 5]);
    }

    #[test]
    fn slow_backends_are_left_alone() {
        let mut w = Work::new();
        w.answers(5000, 80 * MS, 80 * MS);
        assert_eq!(w.most(), 1);
    }

    #[test]
    fn one_slow_answer_ends_it_for_a_while() {
        let mut w = Work::trusted();
        w.trust.answered(w.now, 200 * MS);
        assert_eq!(w.most(), 1);
        w.answers(90_000, MS, MS);
        assert_eq!(w.most(), 1);
        w.answers(15_000, MS, MS);
        assert_eq!(w.most(), MOST);
    }

    #[test]
    fn the_calm_doubles() {
        let mut w = Work::trusted();
        for seconds in [10, 20, 40] {
            w.trust.held_up(w.now, false);
            w.trust.held_up(w.now, false);
            let lost = w.now;
            while w.most() == 1 {
                w.answers(100, MS, MS);
            }
            let calm = (w.now - lost) / S;
            assert!((seconds..seconds + 2).contains(&calm), "{calm} of {seconds}");
        }
        // Two good minutes, and it is as in the beginning but for one.
        w.answers(1_300_000, MS, MS);
        assert_eq!(w.trust.level, 1);
    }

    #[test]
    fn a_backend_that_never_answers_what_lies_behind_is_not_asked_again_soon() {
        let mut w = Work::new();
        w.answers(SAMPLE + 2, MS, MS);
        assert_eq!(w.most(), 2);
        w.trust.held_up(w.now, true);
        w.answers(6_000_000, MS, MS);
        assert_eq!(w.most(), 1, "after ten minutes");
        w.answers(450_000, MS, MS);
        assert!(w.most() > 1);
    }

    #[test]
    fn sharing_that_makes_answers_slower_ends() {
        let mut w = Work::new();
        w.answers(5000, 3 * MS, 12 * MS);
        assert_eq!(w.most(), 1);
        assert!(w.trust.calm_until > w.now + 5 * S);
        // A little slower is not slower.
        let mut w = Work::new();
        w.answers(5000, 3 * MS, 3 * MS + MS / 2);
        assert_eq!(w.most(), MOST);
    }

    #[test]
    fn every_so_often_nothing_is_shared() {
        let mut w = Work::trusted();
        let mut shared = 0;
        for _ in 0..100_000 {
            w.answers(1, MS, MS);
            shared += u64::from(w.most() > 1);
        }
        assert!((95_000..99_000).contains(&shared), "{shared}");
    }

    #[test]
    fn a_backend_that_says_nothing_at_all_is_not_a_slow_answer() {
        let mut w = Work::trusted();
        let turn = w.now;
        w.answers(1, MS, MS);
        assert!(!w.trust.heard_since(turn));
        w.now += 15 * MS;
        w.answers(1, MS, MS);
        assert!(w.trust.heard_since(turn));
    }

    #[test]
    fn garbage_costs_more() {
        let mut w = Work::trusted();
        w.trust.betrayed(w.now);
        w.answers(590_000, MS, MS);
        assert_eq!(w.most(), 1);
        w.answers(15_000, MS, MS);
        assert_eq!(w.most(), MOST);
    }
}
