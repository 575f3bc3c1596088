//! A core takes settings that were read again, between two batches.
//!
//! Handlers that are under way see the settings in which they began ([`super::seen_settings`]).

use super::types::Side;
use super::Core;
use crate::reload::NewSettings;

/// The changes that a core has taken.
#[derive(Default)]
pub(super) struct TakenSettings {
    seen: u32,
    /// Counts the changes. A handler is of the settings of its turn.
    turn: u32,
}

impl TakenSettings {
    pub(super) fn turn(&self) -> u32 {
        self.turn
    }
}

impl Core {
    /// Takes new settings, if there are any.
    pub(crate) fn take_settings(&mut self, new: &NewSettings) {
        let Some(apps) = new.since(&mut self.settings.seen) else { return };
        self.settings.turn += 1;
        for (a, settings) in apps.into_iter().enumerate().filter_map(|(a, s)| Some((a, s?))) {
            let replaced = self.take_servers(a, &settings);
            for (p, port) in settings.ports.iter().enumerate() {
                let before = std::mem::replace(&mut self.apps[a].ports[p].options, port.options.clone());
                // The program may make it from its parameters.
                self.apps[a].ports[p].reset_message = None;
                self.change_places(a, p, before.max_connections);
            }
            self.apps[a].see(self.settings.turn, settings, replaced);
        }
        self.forget_settings();
        // A timer that fires asks for the deadline anew.
        for id in self.conns.ids() {
            self.arm(id, self.now);
            let c = &mut self.conns[id];
            if c.side == Side::Backend {
                c.c.instance = self.apps[c.app as usize].ports[c.port as usize].instance(c.instance as usize);
            }
        }
        new.taken();
        self.look_for_places();
        self.look_at_gone_servers();
    }

    /// Drops settings that no handler sees any more. The oldest turn of a handler.
    pub(super) fn forget_settings(&mut self) -> u32 {
        let under_way = self.tasks.ids().into_iter().map(|t| self.tasks[t].settings);
        let oldest = under_way.min().unwrap_or(self.settings.turn);
        self.apps.iter_mut().for_each(|a| a.seen.forget_before(oldest));
        oldest
    }

    /// The handler to be run next sees the settings of its turn.
    #[inline]
    pub(super) fn see_as(&mut self, a: usize, turn: u32) {
        if turn != self.settings.turn {
            let app = &mut self.apps[a];
            app.seen.show_of(turn, &mut app.wl);
        }
    }
}
