//! Failover: the order in which a request goes to other servers of its port.
//!
//! A request goes to another server if its own is down or cannot be reached (`failover next`). The
//! order is that of the program's policy, so that the load of a dead server goes to all others. A
//! server found by `ketama`, `consistent` or `maglev` is followed by the next ones on its ring or
//! in its table. Each other request begins its round at another place.

use super::types::{Order, Target};
use super::Core;
use crate::abi::*;
use wireloom_ir::desc::Failover;

/// A round that begins at the server in bits 0 to 31.
const TURN: u64 = 3 << 32;
const KIND: u64 = 7 << 32;

impl Core {
    /// The order of a request for this server, which the program has named by its instance.
    pub(super) fn order_of(&mut self, to: Target, instance: usize) -> Order {
        let place = std::mem::take(&mut self.apps[to.a].wl.place);
        let seen = &self.apps[to.a].seen;
        let at = place as u32 as usize;
        let found = match place & KIND {
            _ if place == 0 || place >> 48 != to.p as u64 || seen.older_places(to.p).is_some() => None,
            WL_P_RING => seen.last().ports[to.p].tables.points().get(2 * at + 1),
            WL_P_POINTS => seen.last().ports[to.p].tables.consistent.get(2 * at + 1),
            WL_P_MAGLEV => seen.last().ports[to.p].tables.maglev.get(at),
            _ => None,
        };
        let place = if found.is_some_and(|i| *i as usize == instance) { place } else { 0 };
        Order { origin: to.i as u32, considered: 0, place, turn: self.settings.turn() }
    }

    /// The next server in an order that is up.
    pub(super) fn next_server(&mut self, at: Target, order: &mut Order) -> Option<Target> {
        let port = &self.apps[at.a].ports[at.p];
        let listed = port.backends[order.origin as usize].instance.is_some();
        if port.options.failover != Failover::Next || port.places.len() < 1 + usize::from(listed) {
            return None;
        }
        if order.turn != self.settings.turn() {
            // The list may be another one.
            (order.considered, order.place, order.turn) = (0, 0, self.settings.turn());
        }
        if order.place == 0 {
            self.rounds = self.rounds.wrapping_add(1);
            order.place = TURN | u64::from(self.rounds);
        }
        let before = order.considered;
        // Rather one that another request tries out than none.
        let i = self.find_server(at, order, |b, up| up && b.trial.is_nil()).or_else(|| {
            order.considered = before;
            self.find_server(at, order, |b, up| up || !b.trial.is_nil())
        })?;
        Some(Target { i, ..at })
    }

    fn find_server(
        &mut self,
        at: Target,
        order: &mut Order,
        fits: impl Fn(&super::types::Backend, bool) -> bool,
    ) -> Option<usize> {
        let (app, seen) = (&self.apps[at.a], &mut self.seen);
        let port = &app.ports[at.p];
        let place = |instance: usize| port.places[instance] as usize;
        let fits = |instance: usize| fits(&port.backends[place(instance)], port.is_up(place(instance)));
        let origin = port.backends[order.origin as usize].instance.map(|k| k as usize);
        let (n, from, tables) = (port.places.len(), order.place as u32 as usize, &app.seen.last().ports[at.p].tables);
        let list = match order.place & KIND {
            WL_P_RING => tables.points(),
            WL_P_POINTS => &tables.consistent,
            WL_P_MAGLEV => &tables.maglev,
            _ => {
                let (first, others) = origin.map_or((0, n), |k| (k + 1, n - 1));
                let server = |k: u32| (first + (from + k as usize) % others) % n;
                let k = (order.considered..others as u32).find(|k| fits(server(*k)))?;
                order.considered = k + 1;
                return Some(place(server(k)));
            }
        };
        // Of rings every second number is an instance.
        let (step, first) = if order.place & KIND == WL_P_MAGLEV { (1, 0) } else { (2, 1) };
        let points = list.len() / step;
        seen.clear();
        seen.resize(n, false);
        if let Some(origin) = origin {
            seen[origin] = true;
        }
        let mut k = 0;
        for point in 1..=points {
            let i = list[(from + point) % points * step + first] as usize;
            if std::mem::replace(&mut seen[i], true) {
                continue;
            }
            k += 1;
            if k > order.considered && fits(i) {
                order.considered = k;
                return Some(place(i));
            }
        }
        None
    }
}
