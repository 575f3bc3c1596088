//! Whether requests to a backend may share its connections now, where `pipeline` is `auto`.
//!
//! In: the answers of one backend, as one core sees them. Out: how many requests may share one
//! connection, and how long one answer may hold up those behind it. The operator has declared the
//! backend trustworthy. This file measures whether it is fast enough.
//!
//! A backend must have answered [`WARM`] requests in a row without a slow one. Requests share only
//! beside [`SPREAD`] connections at work. The first [`PROOF`] shared answers come from pairs. A
//! slow answer ends the sharing for [`CALM_NS`]. An invalid answer, or one without a request, ends
//! it for [`BAD_NS`].

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

/// Most requests on one connection.
const MOST: u32 = 8;
/// Requests under way for each that may lie on one connection: so many connections are at work
/// before any has two.
const SPREAD: u32 = 4;
/// Answers in a row before any share.
const WARM: u32 = 64;
/// Answers from behind others before more than two share.
const PROOF: u32 = 16;
/// Beyond this mean time to an answer nothing is shared.
const MEAN_NS: u64 = 50 * MS;
/// An answer is slow if it takes this and four times the mean. The value is small enough that a
/// client behind it does not notice.
const SLOW_NS: u64 = 20 * MS;
/// How long nothing is shared after a slow answer, and after bytes that cannot be an answer.
const CALM_NS: u64 = 10 * S;
const BAD_NS: u64 = 60 * S;

/// The state of one backend on one core. Times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct PipeliningPolicy {
    calm_until: u64,
    /// Answers in a row that were neither slow nor bad.
    good: u32,
    /// Answers that came from behind others.
    followed: u32,
    /// The time from a request that is first on its connection to its answer, smoothed over some
    /// sixteen.
    mean: u64,
    /// When the backend last answered.
    heard: u64,
}

impl PipeliningPolicy {
    /// How many requests may lie on one connection, of `load` under way.
    #[inline]
    pub fn most(&self, now: u64, load: u32) -> u32 {
        if load < 2 * SPREAD || self.good < WARM || now < self.calm_until || self.mean > MEAN_NS {
            return 1;
        }
        (load / SPREAD).min(if self.followed < PROOF { 2 } else { MOST })
    }

    /// Of a backend that has earned it long ago and never does wrong.
    #[cfg(test)]
    pub fn blind() -> PipeliningPolicy {
        PipeliningPolicy { good: WARM, followed: PROOF, ..PipeliningPolicy::default() }
    }

    /// An answer has begun whose request was the only one on its connection, or the first.
    #[inline]
    pub fn on_response(&mut self, now: u64, waited: u64) {
        self.heard = now;
        if waited > self.patience() {
            self.back_off(now, CALM_NS);
        } else {
            self.good = self.good.saturating_add(1);
        }
        self.mean = self.mean - self.mean / 16 + waited.min(2 * MEAN_NS) / 16;
    }

    /// An answer has begun whose request lay behind another.
    #[inline]
    pub fn on_pipelined_response(&mut self, now: u64) {
        self.heard = now;
        self.followed = self.followed.saturating_add(1);
    }

    /// How long an answer may take before it is slow.
    #[inline]
    pub fn patience(&self) -> u64 {
        SLOW_NS + 4 * self.mean
    }

    /// Whether the backend has answered other calls since `turn`, when the waiting call became
    /// first. If not, the backend itself is slow, and sending the request again does not help.
    pub fn heard_since(&self, turn: u64) -> bool {
        self.heard >= turn.saturating_add(self.patience() / 2)
    }

    /// An answer holds up those behind it. A backend that has never answered a request behind
    /// another may drop the bytes that it has read too far.
    pub fn on_slow_response(&mut self, now: u64) {
        self.back_off(now, if self.followed < PROOF { BAD_NS } else { CALM_NS });
    }

    /// Bytes that are no answer, or an answer without a request.
    pub fn on_violation(&mut self, now: u64) {
        self.back_off(now, BAD_NS);
    }

    fn back_off(&mut self, now: u64, span: u64) {
        self.calm_until = self.calm_until.max(now.saturating_add(span));
        self.good = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `n` answers, a tenth of a millisecond apart.
    fn answers(t: &mut PipeliningPolicy, now: &mut u64, n: u32, took: u64) {
        for _ in 0..n {
            *now += MS / 10;
            t.on_response(*now, took);
        }
    }

    #[test]
    fn it_is_earned_and_pairs_come_first() {
        let (mut t, mut now) = (PipeliningPolicy::default(), S);
        answers(&mut t, &mut now, WARM - 1, MS);
        assert_eq!(t.most(now, 1000), 1);
        answers(&mut t, &mut now, 1, MS);
        assert_eq!((t.most(now, 1000), t.most(now, 2 * SPREAD - 1)), (2, 1));
        (0..PROOF).for_each(|_| t.on_pipelined_response(now));
        assert_eq!((t.most(now, 1000), t.most(now, 12)), (MOST, 3));
    }

    #[test]
    fn a_slow_backend_shares_nothing() {
        let (mut t, mut now) = (PipeliningPolicy::default(), S);
        answers(&mut t, &mut now, 500, 80 * MS);
        assert_eq!(t.most(now + 60 * S, 1000), 1);
    }

    #[test]
    fn what_costs_it_and_for_how_long() {
        let lost = |back_off: fn(&mut PipeliningPolicy, u64), span: u64| {
            let (mut t, mut now) = (PipeliningPolicy::blind(), S);
            back_off(&mut t, now);
            answers(&mut t, &mut now, 2 * WARM, MS);
            assert_eq!((t.most(S + span - MS, 1000), t.most(S + span, 1000)), (1, MOST));
        };
        lost(|t, now| t.on_response(now, 200 * MS), CALM_NS);
        lost(PipeliningPolicy::on_slow_response, CALM_NS);
        lost(PipeliningPolicy::on_violation, BAD_NS);
    }

    #[test]
    fn a_backend_that_says_nothing_at_all_is_not_a_slow_answer() {
        let (mut t, mut now) = (PipeliningPolicy::blind(), S);
        answers(&mut t, &mut now, 1, MS);
        assert!(!t.heard_since(S));
        now += 15 * MS;
        answers(&mut t, &mut now, 1, MS);
        assert!(t.heard_since(S));
    }
}
