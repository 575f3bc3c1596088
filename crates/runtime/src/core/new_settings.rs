//! A core takes settings that were read again, between two batches.
//!
//! Handlers that pause, and bytes of parameters that an answer still holds, may use the settings
//! before: those are kept until the core ends.

use super::Core;
use crate::params::Settings;
use crate::reload::NewSettings;
use std::sync::Arc;

/// The settings that the core's apps use, or have used.
#[derive(Default)]
pub(super) struct TakenSettings {
    seen: u32,
    kept: Vec<Arc<Settings>>,
}

impl Core {
    /// Takes new settings, if there are any.
    pub(crate) fn take_settings(&mut self, new: &NewSettings) {
        let Some(apps) = new.since(&mut self.settings.seen) else { return };
        for (a, settings) in apps.into_iter().enumerate().filter_map(|(a, s)| Some((a, s?))) {
            self.apps[a].wl.param = settings.params.as_ptr();
            for (p, port) in settings.ports.iter().enumerate() {
                let before = std::mem::replace(&mut self.apps[a].ports[p].options, port.options.clone());
                self.change_places(a, p, before.max_connections);
            }
            self.settings.kept.push(settings);
        }
        // A timer that fires asks for the deadline anew.
        for id in self.conns.ids() {
            self.arm(id, self.now);
        }
        new.taken();
    }
}
