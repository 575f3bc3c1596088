//! The time of a run of `wireloom fuzz`.

use crate::args::Compile;
use crate::engine::{self, Loaded};
use crate::Failure;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wireloom_codegen_c::Stop;
use wireloom_ir::Module;

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

    /// Compiles a program. The compiler is stopped when the time is over.
    pub fn make(&self, module: &Arc<Module>, compile: &Compile) -> Result<Loaded, Failure> {
        let stop = Stop::default();
        if self.seconds > 0 {
            let (left, stop) = (Duration::from_secs(self.seconds).saturating_sub(self.start.elapsed()), stop.clone());
            // It ends with the process.
            crate::serve::without_signals(|| {
                std::thread::Builder::new().name("limit".into()).spawn(move || {
                    std::thread::sleep(left);
                    stop.stop()
                })
            })?;
        }
        let made = engine::make_until(module, compile, stop.clone());
        match made {
            Err(_) if stop.is_stopped() => Err(Failure::Said(format!(
                "nothing was compared: compiling took longer than the {} s of --seconds",
                self.seconds
            ))),
            made => made,
        }
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
