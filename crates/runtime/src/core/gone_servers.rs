//! Servers come and go while a core serves: the list of a connect port changes.
//!
//! In: the places of another list. Out: servers that are new get requests. One that is gone gets no
//! new ones, and its connections drain. Idle ones are closed, others behind their last answer, and
//! conversations end by themselves. What is left after the limit of a drain
//! is cut off. Then the core says that it has done with the server, and its place may have another.
//!
//! A client whose sessions of a pool are all with a server that is gone keeps them until then.

use super::seen_settings::ReplacedLists;
use super::slab::Id;
use super::types::{flag, Backend, Gone, Mode, Pooling, Side, Start, Target};
use super::Core;
use crate::abi::WL_F_SHUTDOWN;
use crate::params::Settings;
use crate::stats::NO_PLACE;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Connections to servers that are gone are looked at so often.
const LOOK_NS: u64 = 50_000_000;

impl Core {
    /// How long connections to servers that are gone may last.
    pub fn set_drain_limit(&mut self, limit: std::time::Duration) {
        self.gone_limit = limit.as_nanos().min(u64::MAX.into()) as u64;
    }

    /// Takes the lists of an app's ports. The lists that handlers see change: answers the old ones.
    pub(super) fn take_servers(&mut self, a: usize, settings: &Settings) -> ReplacedLists {
        let mut replaced = Vec::new();
        for (p, set) in settings.ports.iter().enumerate() {
            let port = &mut self.apps[a].ports[p];
            if port.listen || set.places.all.is_empty() || self.apps[a].seen.last().ports[p].places == set.places {
                continue;
            }
            self.take_places(a, p, set);
            let port = &mut self.apps[a].ports[p];
            port.places = set.places.of.clone();
            let each = || port.places.iter().map(|place| &port.backends[*place as usize]);
            let (load, up) = (each().map(|b| b.load).collect(), each().map(|b| u8::from(b.up)).collect());
            replaced.push((std::mem::replace(&mut port.load, load), std::mem::replace(&mut port.up, up)));
        }
        replaced
    }

    fn take_places(&mut self, a: usize, p: usize, set: &crate::params::PortSetting) {
        let (now, turn, index) = (self.now, self.settings.turn(), self.index);
        let port = &mut self.apps[a].ports[p];
        let mut back = Vec::new();
        let numbers = &self.stats[index].apps[a].ports[p].backends;
        for (i, place) in set.places.all.iter().enumerate() {
            let instance = set.places.instance(i).map(|k| k as u32);
            if i >= port.backends.len() {
                numbers.add(i);
                port.backends.push(Backend::new(place.addr, instance, &set.options));
            }
            let b = &mut port.backends[i];
            if b.server != place.server {
                debug_assert!(b.open == 0 && b.load == 0, "the core has not done with the last server");
                numbers[i].clear();
                *b = Backend::new(place.addr, instance, &set.options);
                b.server = place.server;
            }
            let was = std::mem::replace(&mut b.instance, instance);
            if instance.is_some() {
                if b.gone.take().is_some() && b.down.is_some() {
                    // It was not probed meanwhile.
                    back.push(Target { a, p, i });
                }
                numbers[i].left.store(0, Relaxed);
            } else if b.gone.is_none() {
                b.gone = Some(Gone { since: now, turn, instance: was.unwrap_or(u32::MAX), left: false });
            }
        }
        back.into_iter().for_each(|at| self.arm_next_probe(at));
        self.try_all(a, p);
    }

    /// The place of an instance that a handler has named.
    #[inline]
    pub(super) fn place_of(&self, a: usize, p: usize, instance: usize) -> Option<usize> {
        let app = &self.apps[a];
        let places = match app.seen.older_places(p) {
            None => &app.ports.get(p)?.places,
            Some(older) => older,
        };
        places.get(instance).map(|place| *place as usize)
    }

    /// How many instances the handler at hand sees.
    pub(super) fn instances(&self, a: usize, p: usize) -> usize {
        let app = &self.apps[a];
        app.seen.older_places(p).unwrap_or(&app.ports[p].places).len()
    }

    /// The instance of a place, for the handler at hand; none: the number of instances.
    pub(super) fn instance_of(&self, a: usize, p: usize, place: usize) -> u32 {
        let app = &self.apps[a];
        match app.seen.older_places(p) {
            None => app.ports[p].instance(place),
            Some(older) => older.iter().position(|i| *i as usize == place).unwrap_or(older.len()) as u32,
        }
    }

    /// Whether a server is in the list of its port.
    pub(super) fn is_listed(&self, at: Target) -> bool {
        self.apps[at.a].ports[at.p].backends[at.i].instance.is_some()
    }

    /// Closes connections to servers that are gone, as far as their work is done.
    pub(super) fn look_at_gone_servers(&mut self) {
        let waits = |b: &Backend| b.gone.is_some_and(|g| !g.left);
        if !self.apps.iter().flat_map(|a| &a.ports).flat_map(|p| &p.backends).any(waits) {
            return;
        }
        for id in self.conns.ids() {
            let Some(c) = self.conns.get(id).filter(|c| c.side == Side::Backend) else { continue };
            let gone = self.apps[c.app as usize].ports[c.port as usize].backends[c.instance as usize].gone;
            if let Some(gone) = gone {
                self.drain_connection(id, self.now.saturating_sub(gone.since) >= self.gone_limit);
            }
        }
        let oldest = self.forget_settings();
        let mut more = false;
        for a in 0..self.apps.len() {
            for p in 0..self.apps[a].ports.len() {
                for i in 0..self.apps[a].ports[p].backends.len() {
                    more |= self.leave_server(Target { a, p, i }, oldest);
                }
            }
        }
        if more {
            self.arm_gone(self.now.saturating_add(LOOK_NS));
        }
    }

    /// A connection to a server that is gone. `due`: its time is over.
    fn drain_connection(&mut self, id: Id, due: bool) {
        let c = &self.conns[id];
        let done = c.count == 0 && c.out.is_empty() && c.input.is_empty() && c.view.is_none() && c.mode == Mode::Head;
        if c.pooling == Pooling::Login {
            self.log_in_elsewhere(id);
        } else if c.pooling == Pooling::Idle {
            if due || !self.keeps_session(id) {
                self.close_session(id);
            }
        } else if c.member != 0 && !c.pooling.is_nobodys() {
            let client = c.client;
            if due && self.conns.get(client).is_some_and(|c| !c.has(flag::DOOMED | flag::CLOSING)) {
                self.tell_fault(client, (WL_F_SHUTDOWN, NO_PLACE), Start::default(), false);
                self.ends_by(client, WL_F_SHUTDOWN);
                if self.conns.alive(client) {
                    self.end_conversation(client);
                }
            }
        } else if c.has(flag::PROBE) {
            self.remove_conn(id, true);
        } else if due || done && c.greets == 0 && !c.has(flag::CONNECTING) && !c.pooling.is_nobodys() {
            self.close_conn(id, false);
        }
    }

    /// Whether the core has still to do with a server that is gone.
    fn leave_server(&mut self, at: Target, oldest: u32) -> bool {
        let b = &self.apps[at.a].ports[at.p].backends[at.i];
        let Some(gone) = b.gone.filter(|g| !g.left) else { return false };
        let busy = b.open > 0 || b.load > 0 || !b.waiters.is_empty() || oldest < gone.turn;
        if busy || self.answers_of(at) {
            return true;
        }
        let b = &mut self.apps[at.a].ports[at.p].backends[at.i];
        b.gone = Some(Gone { left: true, ..gone });
        (b.down, b.stalled) = (None, Vec::new());
        let server = b.server;
        self.my_stats().apps[at.a].ports[at.p].backends[at.i].left.store(server, Release);
        false
    }

    /// Whether an answer that is not yet counted is of this server.
    fn answers_of(&self, at: Target) -> bool {
        self.slots.ids().into_iter().any(|s| {
            let s = &self.slots[s];
            let app = self.conns.get(s.conn).map(|c| usize::from(c.app));
            app == Some(at.a) && s.backend == (at.p as u16, at.i as u32)
        })
    }
}
