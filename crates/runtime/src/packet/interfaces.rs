//! The network interfaces of a run, and whether they are still there.
//!
//! In: the names of interfaces, at the start. Out: a line in the log for each that has gone, and
//! whether one is left from which frames come. An interface that is made anew is another one: no
//! socket and no program in the XDP hook is tied to it.

use super::afpacket::index_of;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The time between two looks.
const LOOK: Duration = Duration::from_secs(1);

struct Known {
    index: u32,
    /// Frames come from there.
    read: bool,
    there: bool,
}

pub(crate) struct Interfaces {
    known: BTreeMap<String, Known>,
    next: Instant,
}

impl Interfaces {
    /// Of these names, with whether frames come from there.
    pub(crate) fn of(names: impl Iterator<Item = (String, bool)>) -> Interfaces {
        let mut known: BTreeMap<String, Known> = BTreeMap::new();
        for (name, read) in names {
            let Ok(index) = index_of(&name) else { continue };
            known.entry(name).or_insert(Known { index, read, there: true }).read |= read;
        }
        Interfaces { known, next: Instant::now() + LOOK }
    }

    /// The names of those from which frames came, if the last of them has gone since the last look.
    pub(crate) fn lost(&mut self) -> Option<String> {
        if self.known.is_empty() || Instant::now() < self.next {
            return None;
        }
        self.next = Instant::now() + LOOK;
        let mut lost = false;
        for (name, k) in self.known.iter_mut().filter(|(_, k)| k.there) {
            if index_of(name) != Ok(k.index) {
                log::warn!(target: "wireloom", "interface `{name}` is gone");
                k.there = false;
                lost |= k.read;
            }
        }
        let read: Vec<(&String, &Known)> = self.known.iter().filter(|(_, k)| k.read).collect();
        let none = lost && read.iter().all(|(_, k)| !k.there);
        none.then(|| read.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", "))
    }
}
