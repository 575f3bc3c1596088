//! A core takes settings that were read again, between two batches.
//!
//! Handlers that are under way may hold bytes of parameters from the settings in which they began.
//! Those are kept until such handlers have ended: all else of a core has copies.

use super::Core;
use crate::params::Settings;
use crate::reload::NewSettings;
use std::sync::Arc;

/// The settings that the core's apps use, or that their handlers may still read.
#[derive(Default)]
pub(super) struct TakenSettings {
    seen: u32,
    /// Counts the changes. A handler is of the settings of its turn.
    turn: u32,
    kept: Vec<KeptSettings>,
}

/// Settings of an app, from a turn on.
struct KeptSettings {
    app: usize,
    turn: u32,
    _alive: Arc<Settings>,
}

impl TakenSettings {
    pub(super) fn turn(&self) -> u32 {
        self.turn
    }

    fn keep(&mut self, app: usize, settings: Arc<Settings>) {
        self.kept.push(KeptSettings { app, turn: self.turn, _alive: settings });
    }

    /// Drops the settings that were replaced before a turn, the oldest that a handler is of.
    fn forget_before(&mut self, oldest: u32) {
        let newer = |k: &KeptSettings, all: &[KeptSettings]| {
            all.iter().any(|n| n.app == k.app && n.turn > k.turn && n.turn <= oldest)
        };
        let gone: Vec<bool> = self.kept.iter().map(|k| newer(k, &self.kept)).collect();
        let mut gone = gone.into_iter();
        self.kept.retain(|_| !gone.next().unwrap_or(false));
    }
}

impl Core {
    /// Takes new settings, if there are any.
    pub(crate) fn take_settings(&mut self, new: &NewSettings) {
        let Some(apps) = new.since(&mut self.settings.seen) else { return };
        self.settings.turn += 1;
        for (a, settings) in apps.into_iter().enumerate().filter_map(|(a, s)| Some((a, s?))) {
            self.apps[a].wl.param = settings.params.as_ptr();
            for (p, port) in settings.ports.iter().enumerate() {
                let before = std::mem::replace(&mut self.apps[a].ports[p].options, port.options.clone());
                // The program may make it from its parameters.
                self.apps[a].ports[p].reset_message = None;
                self.change_places(a, p, before.max_connections);
            }
            self.settings.keep(a, settings);
        }
        let under_way = self.tasks.ids().into_iter().map(|t| self.tasks[t].settings);
        let oldest = under_way.min().unwrap_or(self.settings.turn);
        self.settings.forget_before(oldest);
        // A timer that fires asks for the deadline anew.
        for id in self.conns.ids() {
            self.arm(id, self.now);
        }
        new.taken();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_kept_while_a_handler_may_read_them() {
        let mut all = TakenSettings::default();
        for turn in 1..=5 {
            all.turn = turn;
            all.keep(0, Arc::new(Settings::default()));
            if turn == 2 {
                all.keep(1, Arc::new(Settings::default()));
            }
        }
        let turns = |all: &TakenSettings| all.kept.iter().map(|k| (k.app, k.turn)).collect::<Vec<_>>();
        // A handler of the time between the third and the fourth.
        all.forget_before(3);
        assert_eq!(turns(&all), [(1, 2), (0, 3), (0, 4), (0, 5)]);
        all.forget_before(5);
        assert_eq!(turns(&all), [(1, 2), (0, 5)]);
        assert!(all.kept.iter().all(|k| Arc::strong_count(&k._alive) == 1));
    }
}
