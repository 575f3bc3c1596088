//! The time of a run of `wireloom fuzz`.

use std::cell::Cell;
use std::time::Instant;

/// The time of a run.
pub struct Limit {
    start: Instant,
    seconds: u64,
    begun: Cell<bool>,
}

impl Limit {
    pub fn new(seconds: u64) -> Limit {
        Limit { start: Instant::now(), seconds, begun: Cell::new(false) }
    }

    /// Whether one more is run. The first always is. Without a time, so is each that is not random.
    pub fn goes_on(&self) -> bool {
        !self.begun.replace(true) || self.seconds == 0 || self.is_time_left()
    }

    /// Whether there is time for what is random.
    pub fn is_time_left(&self) -> bool {
        self.start.elapsed().as_secs_f64() < self.seconds as f64
    }

    /// The first line of a run.
    pub fn shown(&self) -> String {
        format!("{} s, of which preparing took {:.1}", self.seconds, self.start.elapsed().as_secs_f64())
    }
}
