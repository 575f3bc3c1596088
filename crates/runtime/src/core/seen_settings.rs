//! The settings of an app as its handlers see them.
//!
//! A handler sees the settings in which it began to its end: parameters, and the servers of ports.
//! So replaced settings are kept until such handlers have ended. All else of a core has copies.

use crate::abi::{wl_core, wl_param, wl_port};
use crate::params::Settings;
use std::collections::VecDeque;
use std::sync::Arc;

/// Lists of ports (`load` and `up` of `wl_port`) that others have replaced.
pub type ReplacedLists = Vec<(Box<[u32]>, Box<[u8]>)>;

/// Settings of an app as handlers see them, from a turn on.
struct SeenFrom {
    turn: u32,
    settings: Arc<Settings>,
    ports: Box<[wl_port]>,
    /// Lists that `ports` names and that a later turn has replaced.
    _replaced: ReplacedLists,
}

/// The settings of an app that its handlers see, the oldest first. Never empty.
pub struct SeenSettings {
    all: VecDeque<SeenFrom>,
    /// Those of the handler at hand, if they are older than the last.
    older: Option<usize>,
    now: (*const wl_param, *const wl_port),
}

impl SeenSettings {
    pub fn new(settings: Arc<Settings>, ports: Box<[wl_port]>) -> SeenSettings {
        let mut seen = SeenSettings { all: VecDeque::new(), older: None, now: (std::ptr::null(), std::ptr::null()) };
        seen.add(0, settings, ports, Vec::new());
        seen
    }

    /// Others follow, from a turn on; `replaced`: lists of the last ones.
    pub fn add(&mut self, turn: u32, settings: Arc<Settings>, ports: Box<[wl_port]>, replaced: ReplacedLists) {
        if let Some(last) = self.all.back_mut() {
            last._replaced = replaced;
        }
        self.now = (settings.params.as_ptr(), ports.as_ptr());
        self.all.push_back(SeenFrom { turn, settings, ports, _replaced: Vec::new() });
    }

    /// Drops settings that were replaced before a turn, the oldest that a handler is of.
    pub fn forget_before(&mut self, oldest: u32) {
        while self.all.get(1).is_some_and(|next| next.turn <= oldest) {
            self.all.pop_front();
        }
    }

    /// The settings that the core has taken last.
    pub fn last(&self) -> &Settings {
        &self.all[self.all.len() - 1].settings
    }

    /// The handlers to be run now see the last settings.
    #[inline]
    pub fn show(&mut self, wl: &mut wl_core) {
        self.older = None;
        (wl.param, wl.port) = self.now;
    }

    /// The handler to be run now has begun in a turn.
    #[cold]
    pub fn show_of(&mut self, turn: u32, wl: &mut wl_core) {
        let at = self.all.iter().rposition(|s| s.turn <= turn).unwrap_or(0);
        if at + 1 < self.all.len() {
            self.older = Some(at);
            (wl.param, wl.port) = (self.all[at].settings.params.as_ptr(), self.all[at].ports.as_ptr());
        }
    }

    /// The places of a port's instances, as the handler at hand sees them, if those are older ones.
    pub fn older_places(&self, port: usize) -> Option<&[u32]> {
        Some(&self.all[self.older?].settings.ports[port].places.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_kept_while_a_handler_may_see_them() {
        let first = Arc::new(Settings::default());
        let mut seen = SeenSettings::new(first.clone(), Box::default());
        for turn in [1, 2, 4, 5] {
            seen.add(turn, Arc::new(Settings::default()), Box::default(), Vec::new());
        }
        let turns = |seen: &SeenSettings| seen.all.iter().map(|s| s.turn).collect::<Vec<_>>();
        // A handler of the time between the second and the fourth.
        seen.forget_before(3);
        assert_eq!(turns(&seen), [2, 4, 5]);
        seen.forget_before(5);
        assert_eq!((turns(&seen), Arc::strong_count(&first)), (vec![5], 1));
    }
}
