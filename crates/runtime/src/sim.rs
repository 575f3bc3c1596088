//! One core over the memory engine: the runtime as a deterministic machine.
//!
//! A test plays clients and backends, byte by byte, and advances time. `wireloom test`,
//! differential tests and fuzzing use it. Listening ports keep the addresses of their settings.
//! Nothing touches the network.

use crate::core::app::App;
use crate::core::Core;
use crate::engine::memory::{Behaviour, Memory, Network, Peer};
use crate::engine::Token;
use crate::error::Error;
use crate::packet::PacketSim;
use crate::reload::{self, NewSettings};
use crate::stats::{AppStats, CoreStats};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub struct Sim {
    pub core: Core,
    pub net: Network,
    apps: Vec<Arc<App>>,
    settings: NewSettings,
}

/// Most batches that [`Sim::settle`] runs; a program that is still busy then never stops.
const SETTLE_MAX: u32 = 10_000;

impl Sim {
    pub fn new(apps: Vec<Arc<App>>) -> Result<Sim, Error> {
        if let Some(a) = apps.iter().find(|a| !a.desc.merges.is_empty()) {
            return Err(Error::Unsupported(format!(
                "app `{}`: `merge` is not simulated; run it on sockets",
                a.desc.app
            )));
        }
        let (engine, net) = Memory::new();
        let stats = Arc::new(vec![CoreStats::for_apps(&apps)]);
        let mut core = Core::new(Box::new(engine), &apps, stats, 0, true);
        core.apps.iter_mut().for_each(|a| a.logged = Some(Default::default()));
        core.listen()?;
        core.start();
        Ok(Sim { core, net, apps, settings: NewSettings::default() })
    }

    /// Reads the settings of the first app again. Answers a line for each that differs.
    pub fn read_again(&mut self, sets: &[(String, String)]) -> Result<Vec<String>, Error> {
        let sets = [(self.apps[0].desc.app.clone(), sets.to_vec())];
        let source = reload::SettingsSource { sets: &sets, known: &std::collections::HashMap::new() };
        let changed = reload::changes(&self.apps, &self.core.stats, Some(&self.settings), source)?;
        let (settings, told): (Vec<_>, Vec<_>) = changed.into_iter().unzip();
        self.settings.give(&self.apps, settings);
        self.core.take_settings(&self.settings);
        Ok(told.into_iter().flatten().map(|(_, text)| text).collect())
    }

    /// The time.
    pub fn now(&self) -> u64 {
        self.net.now()
    }

    /// Some apps have a half whose packets are simulated there.
    pub fn beside(&mut self, packets: &PacketSim) {
        let (apps, stats) = packets.apps();
        self.core.beside(&apps, &stats);
    }

    /// The counts of the first app's connections, by counter.
    pub fn counted(&self) -> Vec<u64> {
        self.core.publish();
        self.core.stats[0].apps[0].counters.iter().map(crate::stats::Cell::get).collect()
    }

    /// The app's statistics.
    pub fn stats(&self, app: usize) -> &AppStats {
        &self.core.stats[0].apps[app]
    }

    /// Connects a client to the listening port of this name. None if there is no such port or it is
    /// closed.
    pub fn client(&mut self, port: &str) -> Option<Peer> {
        let addr = self.address(port, 0)?;
        if self.is_udp(port) {
            return self.net.datagrams(addr);
        }
        let peer = self.net.connect(SocketAddr::from(([10, 0, 0, 1], addr.port())));
        let peer = match peer {
            Some(p) => Some(p),
            None => self.net.connect(addr),
        };
        self.settle();
        peer
    }

    /// Takes the next connection that the program has made to an instance of a connect port.
    pub fn backend(&mut self, port: &str, instance: usize) -> Option<Peer> {
        self.net.accept(self.address(port, instance)?)
    }

    /// Takes the first connection that the program has made to any instance, and that is not
    /// another upstream's.
    pub fn upstream(&mut self, port: &str, number: u32) -> Option<Peer> {
        let all: Vec<_> = (0..).map_while(|i| self.address(port, i)).collect();
        let mut made: Vec<_> = all.into_iter().flat_map(|a| self.net.made(a)).collect();
        made.sort_unstable_by_key(|(line, _)| *line);
        let of = |token: Option<Token>| token.and_then(|t| self.core.upstream_number(t));
        let (line, _) = made.into_iter().find(|(_, token)| of(*token).is_none_or(|n| n == number))?;
        self.net.take(line)
    }

    /// Sets the fate of further connections to a backend.
    pub fn behave(&mut self, port: &str, instance: usize, b: Behaviour) {
        if let Some(a) = self.address(port, instance) {
            self.net.behave(a, b);
        }
    }

    fn is_udp(&self, port: &str) -> bool {
        self.apps.iter().flat_map(|a| &a.desc.ports).any(|p| p.name == port && p.udp)
    }

    fn address(&self, port: &str, instance: usize) -> Option<SocketAddr> {
        self.apps.iter().find_map(|a| {
            let i = a.desc.ports.iter().position(|p| p.name == port)?;
            a.renewed().ports[i].addrs.get(instance).copied()
        })
    }

    /// The next line that a program has logged.
    pub fn logged(&mut self) -> Option<Vec<u8>> {
        self.core.apps.iter_mut().find_map(|a| a.logged.as_mut()?.pop_front())
    }

    /// Runs batches until nothing happens any more (time stands still).
    pub fn settle(&mut self) {
        for _ in 0..SETTLE_MAX {
            // The memory engine's poll does not fail.
            let _ = self.core.step(Some(Duration::ZERO));
            if !self.core.busy() {
                return;
            }
        }
    }

    /// Moves time on in steps, and runs due timers.
    pub fn advance(&mut self, d: Duration) {
        let step = Duration::from_millis(1).max(d / 64);
        let mut left = d;
        while !left.is_zero() {
            let now = step.min(left);
            self.net.advance(now);
            left -= now;
            self.settle();
        }
    }
}
