//! Whether requests to a backend may share its connections when nobody has said (`pipeline` is `auto`).
//!
//! In come the answers of one backend as one core sees them; out goes how many requests may lie on one connection now, and how
//! long one answer may hold up those behind it. Sharing saves a write for each request, and takes from the backend what it could
//! do at once. So a backend must first have answered [`WARM`] requests in a row, quickly and well, some within [`QUICK_NS`]; requests share only beside
//! [`SPREAD`] connections at work; the first [`PROOF`] answers from behind others come from pairs; and every [`TOGETHER_NS`]
//! for [`APART_NS`] nothing is shared, to compare: where answers take longer to requests that share, nothing does. A backend that
//! ends each connection after so many answers has no requests behind that.
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
/// For how long requests share before they do not, to compare, and for how long they do not; the fewest answers of such a time.
const TOGETHER_NS: u64 = 2 * S;
const APART_NS: u64 = 50 * MS;
const SAMPLE: u32 = 512;
/// A backend whose quickest answer of them takes this long has something to do for each: beside that, a write saved is nothing, and to
/// wait behind another costs twice as much.
const QUICK_NS: u64 = 2 * MS;
/// A backend that takes longer than this for them is not so busy that sharing would save anything worth a delay.
const BUSY_NS: u64 = S / 2;
/// How much slower the mean answer may be where requests share: by an eighth, and what one look at the sockets may take.
const SLOWER_NS: u64 = MS / 4;
/// A comparison is made of this much sharing and so many answers from behind others, however long that takes: a backend's pause falls into one
/// only. These answers may be slower by half, which says more than the mean of all where they are few.
const WEIGH_NS: u64 = 100 * MS;
const TELLS: u32 = 64;
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
    /// When the last comparison was made, or sharing began.
    weighed: u64,
    /// Whether a comparison was won in this time of sharing.
    won: bool,
    /// After which answer the backend ends a connection; 0: not known.
    life: u32,
    /// Times of sharing since it last ended for a worse reason.
    times: u32,
    /// What answers took to requests of the last time when none shared; since the last comparison to all others, and to those behind others.
    apart: Mean,
    together: Mean,
    behind: Mean,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: u64,
    count: u32,
    least: u64,
}

impl Mean {
    fn add(&mut self, waited: u64) {
        self.least = if self.count == 0 { waited } else { self.least.min(waited) };
        self.sum += waited.min(2 * MEAN_NS);
        self.count += 1;
    }

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

    /// How many answers a connection gives.
    #[inline]
    pub fn life(&self) -> u32 {
        if self.life == 0 { u32::MAX } else { self.life }
    }

    /// The answer with this number on its connection has begun. `ends`: it is the last one.
    #[inline]
    pub fn lived(&mut self, number: u32, ends: bool) {
        if ends {
            self.life = number;
        } else if number > self.life {
            self.life = 0;
        }
    }

    /// An answer has begun, to a request that was sent `waited` ago, when `shared` was what [`Trust::sharing`] said; `behind` another or not.
    #[inline]
    pub fn took(&mut self, now: u64, shared: bool, behind: bool, waited: u64) {
        if shared { self.together.add(waited) } else { self.apart.add(waited) }
        if behind {
            self.behind.add(waited);
        }
        if self.sharing && self.behind.count >= TELLS && now >= self.weighed.saturating_add(WEIGH_NS) {
            self.compare(now);
        }
        if now >= self.until {
            self.turn(now);
        }
    }

    fn compare(&mut self, now: u64) {
        let (apart, together, behind) = (self.apart.get(), self.together.get(), self.behind.get());
        (self.together, self.behind, self.weighed) = (Mean::default(), Mean::default(), now);
        if together <= apart + apart / 8 + SLOWER_NS && behind <= apart + apart / 2 + SLOWER_NS {
            self.won = true;
            return;
        }
        self.part(now);
        self.lost += 1;
        if self.lost == LOST {
            self.lost = 0;
            self.lose(now, CALM_NS);
        }
    }

    /// The time of sharing, or of not sharing, is over.
    fn turn(&mut self, now: u64) {
        if self.sharing {
            self.shared_well(now);
        } else if now < self.calm_until || now >= self.until.saturating_add(BUSY_NS) {
            self.part(now);
        } else if self.apart.count >= SAMPLE {
            match self.apart.least < QUICK_NS {
                true => (self.sharing, self.until, self.weighed) = (true, now.saturating_add(TOGETHER_NS), now),
                false => self.part(now),
            }
        }
    }

    /// A time of sharing is over in which nothing spoke against it.
    fn shared_well(&mut self, now: u64) {
        if self.won {
            self.lost = 0;
        }
        self.times += 1;
        if self.times == GOOD {
            (self.times, self.level) = (0, self.level.saturating_sub(1));
        }
        self.part(now);
    }

    /// Of a backend that has earned it long ago and never does wrong.
    #[cfg(test)]
    pub fn blind() -> Trust {
        Trust { good: WARM, followed: PROOF, sharing: true, until: u64::MAX, ..Trust::default() }
    }

    /// From now on nothing is shared.
    fn part(&mut self, now: u64) {
        (self.apart, self.won) = (Mean::default(), false);
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
        (self.together, self.behind) = (Mean::default(), Mean::default());
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
                self.answer(shared, shared && i % 2 == 0, if shared { together } else { apart });
            }
        }

        fn answer(&mut self, shared: bool, behind: bool, waited: u64) {
            if behind { self.trust.followed(self.now) } else { self.trust.answered(self.now, waited) }
            self.trust.took(self.now, shared, behind, waited);
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
        w.answers(8000, MS, 12 * MS);
        assert_eq!(w.most(), 1);
        assert!(w.trust.calm_until > w.now + 5 * S);
        // A little slower is not slower.
        let mut w = Work::new();
        w.answers(5000, MS, MS + MS / 3);
        assert_eq!(w.most(), MOST);
    }

    #[test]
    fn a_backend_without_quick_answers_is_left_alone() {
        let mut w = Work::new();
        w.answers(20_000, 3 * MS, 3 * MS);
        assert_eq!(w.most(), 1);
        // It has become quick: some hundred answers later it is asked so.
        w.answers(2 * SAMPLE, MS, MS);
        assert_eq!(w.most(), MOST);
    }

    #[test]
    fn where_little_is_asked_nothing_is_shared() {
        let mut w = Work::new();
        for _ in 0..20_000 {
            w.now += MS;
            w.answers(1, 10 * MS, 10 * MS);
            assert_eq!(w.most(), 1);
        }
    }

    /// A backend that works on one request of a connection at a time, and has some quick ones. One in fifty lies behind another and takes
    /// twice as long.
    #[test]
    fn the_few_behind_others_count() {
        let mut w = Work::new();
        let mut spoilt = 0;
        for i in 0..600_000 {
            w.now += MS / 2;
            let shared = w.trust.sharing();
            let behind = w.most() > 1 && i % 50 == 0;
            spoilt += u32::from(behind);
            w.answer(shared, behind, if behind { 20 * MS } else if i % 100 == 1 { MS } else { 10 * MS });
        }
        assert!((3 * TELLS..=15 * TELLS).contains(&spoilt), "{spoilt} in five minutes");
    }

    #[test]
    fn after_how_many_answers_connections_end_is_learned_and_forgotten() {
        let mut t = Trust::default();
        assert_eq!(t.life(), u32::MAX);
        t.lived(100, true);
        t.lived(100, false);
        assert_eq!(t.life(), 100);
        t.lived(7, true);
        assert_eq!(t.life(), 7);
        t.lived(8, false);
        assert_eq!(t.life(), u32::MAX);
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
