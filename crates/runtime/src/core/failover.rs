//! Failover: the order in which a request goes to other servers of its port.
//!
//! A request goes to another server if its own is down or cannot be reached (`failover next`). The
//! order is that of the program's policy, so that the load of a dead server goes to all others. A
//! server found by `ketama` or `maglev` is followed by the next ones on its ring or in its table.
//! Each other request begins its round at another place.

use super::types::{Order, Target};
use super::Core;
use crate::abi::*;
use wireloom_ir::desc::Failover;

/// A round that begins at the server in bits 0 to 31.
const TURN: u64 = 3 << 32;
const KIND: u64 = 3 << 32;

impl Core {
    /// The order of a request for this server, behind the program's choice.
    pub(super) fn order_of(&mut self, a: usize, port: usize, index: usize) -> Order {
        let place = std::mem::take(&mut self.apps[a].wl.place);
        let app = &self.apps[a];
        let at = place as u32 as usize;
        let found = match place & KIND {
            _ if place == 0 || place >> 48 != port as u64 => None,
            WL_P_RING => app.app.ring(port).get(2 * at + 1),
            WL_P_MAGLEV => app.app.maglev(port).get(at),
            _ => None,
        };
        let place = if found.is_some_and(|i| *i as usize == index) { place } else { 0 };
        Order { origin: index as u32, considered: 0, place }
    }

    /// The next server in an order that is up.
    pub(super) fn next_server(&mut self, at: Target, order: &mut Order) -> Option<Target> {
        let port = &self.apps[at.a].ports[at.p];
        if port.options.failover != Failover::Next || port.backends.len() < 2 {
            return None;
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
        let fits = |i: usize| fits(&port.backends[i], port.up[i] != 0);
        let (n, origin, from) = (port.backends.len(), order.origin as usize, order.place as u32 as usize);
        let list = match order.place & KIND {
            WL_P_RING => app.app.ring(at.p),
            WL_P_MAGLEV => app.app.maglev(at.p),
            _ => {
                let server = |k: u32| (origin + 1 + (from + k as usize) % (n - 1)) % n;
                let k = (order.considered..n as u32 - 1).find(|k| fits(server(*k)))?;
                order.considered = k + 1;
                return Some(server(k));
            }
        };
        // Of a ring every second number is an instance.
        let (step, first) = if order.place & KIND == WL_P_RING { (2, 1) } else { (1, 0) };
        let points = list.len() / step;
        seen.clear();
        seen.resize(n, false);
        seen[origin] = true;
        let mut k = 0;
        for point in 1..=points {
            let i = list[(from + point) % points * step + first] as usize;
            if std::mem::replace(&mut seen[i], true) {
                continue;
            }
            k += 1;
            if k > order.considered && fits(i) {
                order.considered = k;
                return Some(i);
            }
        }
        None
    }
}
