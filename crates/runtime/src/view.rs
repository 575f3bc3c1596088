//! What runs in this process, for those who look at it from outside: the admin page and the control socket.
//!
//! In: groups of cores, each with its apps (services have cores of their own beside those of packets). Out: all apps by name, each with
//! its numbers, summed over the cores it runs on, and the way to those cores.

use crate::core::app::App;
use crate::signal::{Post, Run};
use crate::stats::{AppStats, Cell, CoreStats};
use serde_json::Value;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wireloom_ir::desc::{Desc, ParamValue, SignalDesc};

/// Cores and the apps that run on all of them.
pub struct Group {
    /// How bytes or frames come in.
    pub engine: String,
    pub apps: Vec<Arc<App>>,
    pub stats: Arc<Vec<CoreStats>>,
    pub post: Post,
}

/// An app in its group.
pub struct Hosted {
    pub app: Arc<App>,
    pub group: Arc<Group>,
    number: usize,
}

/// All of them.
pub struct View {
    pub apps: Vec<Hosted>,
    pub groups: Vec<Arc<Group>>,
    started: Instant,
}

impl Hosted {
    pub fn desc(&self) -> &Desc {
        &self.app.desc
    }

    pub fn name(&self) -> &str {
        &self.app.desc.app
    }

    /// Its numbers on each core.
    pub fn parts(&self) -> impl Iterator<Item = &AppStats> {
        self.group.stats.iter().map(|c| &c.apps[self.number])
    }

    pub fn sum(&self, f: impl Fn(&AppStats) -> u64) -> u64 {
        self.parts().map(f).fold(0, u64::wrapping_add)
    }

    /// A counter of the program.
    pub fn counter(&self, i: usize) -> u64 {
        self.sum(|a| a.counters.get(i).map_or(0, Cell::get))
    }

    pub fn cores(&self) -> usize {
        self.group.stats.len()
    }

    /// Has cores do something with this app between two batches, see [`Post::on`].
    pub fn on<T: Send + 'static>(&self, cores: Range<usize>, work: impl Fn(&mut Run) -> T + Send + Sync + 'static) -> Vec<Option<T>> {
        self.group.post.on(self.number, cores, work)
    }

    /// Calls a signal on every core, see [`Post::call`].
    pub fn call(&self, signal: &SignalDesc, args: Vec<ParamValue>) -> (Value, bool) {
        self.group.post.call(self.number, self.name(), signal, args)
    }
}

impl View {
    /// `names`: the order in which the apps were given.
    pub fn new(groups: Vec<Arc<Group>>, names: &[String]) -> View {
        let of = |group: &Arc<Group>| {
            let hosted = |(number, app): (usize, &Arc<App>)| Hosted { app: app.clone(), group: group.clone(), number };
            group.apps.iter().enumerate().map(hosted).collect::<Vec<_>>()
        };
        let mut apps: Vec<Hosted> = groups.iter().flat_map(of).collect();
        apps.sort_by_key(|a| names.iter().position(|n| n == a.name()));
        View { apps, groups, started: Instant::now() }
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        self.apps.iter().position(|a| a.name() == name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.apps.iter().map(Hosted::name)
    }

    /// All cores, group by group.
    pub fn cores(&self) -> impl Iterator<Item = &CoreStats> {
        self.groups.iter().flat_map(|g| g.stats.iter())
    }

    pub fn sum(&self, f: impl Fn(&CoreStats) -> u64) -> u64 {
        self.cores().map(f).fold(0, u64::wrapping_add)
    }

    /// Of all groups, as `frames + io_uring`.
    pub fn engine(&self) -> String {
        self.groups.iter().map(|g| g.engine.as_str()).collect::<Vec<_>>().join(" + ")
    }

    pub fn up(&self) -> Duration {
        self.started.elapsed()
    }
}
