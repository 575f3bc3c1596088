//! The view of the running process for the admin page and the control socket.
//!
//! In: groups of cores, each with its apps (services have cores of their own beside those of
//! packets). Out: all apps by name, each with its counters, summed over its cores, and the way to
//! those cores. An app with frame ports and service ports is in two groups.

use crate::core::app::App;
use crate::signal::{self, Asked, Post, RunHandler};
use crate::stats::{AppStats, CoreStats};
use serde_json::Value;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wireloom_ir::desc::{CoreKind, Desc, ParamValue, SignalDesc};

/// Cores and the apps that run on all of them.
pub struct Group {
    /// How bytes or frames come in.
    pub engine: String,
    pub apps: Vec<Arc<App>>,
    pub stats: Arc<Vec<CoreStats>>,
    pub post: Post,
    /// Where requests are logged.
    pub log: Option<Arc<crate::access_log::AccessLog>>,
}

impl Group {
    /// The counts of an app here, by counter.
    pub fn counted(&self, app: &str) -> Vec<u64> {
        let Some(number) = self.apps.iter().position(|a| a.desc.app == app) else { return Vec::new() };
        let sum = |n: usize| self.stats.iter().filter_map(|c| Some(c.apps.get(number)?.counter(n))).sum();
        (0..self.apps[number].desc.counters.len()).map(sum).collect()
    }

    /// The counts of an app on some of its cores, by counter.
    pub fn counted_on(&self, app: usize, cores: &[usize]) -> Vec<u64> {
        let sum = |n: usize| cores.iter().map(|k| self.stats[*k].apps[app].counter(n)).sum();
        (0..self.apps[app].desc.counters.len()).map(sum).collect()
    }
}

/// An app, or its part for services where it has two kinds of cores.
pub struct Hosted {
    pub app: Arc<App>,
    /// One, or the services' and the packets'.
    parts: Vec<Part>,
}

/// An app in a group: which one it is there.
struct Part {
    group: Arc<Group>,
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
        self.parts.iter().flat_map(|p| p.group.stats.iter().map(|c| &c.apps[p.number]))
    }

    pub fn sum(&self, f: impl Fn(&AppStats) -> u64) -> u64 {
        self.parts().map(f).fold(0, u64::wrapping_add)
    }

    /// A counter of the program.
    pub fn counter(&self, i: usize) -> u64 {
        self.sum(|a| a.counter(i))
    }

    /// Its cores of a kind; they are numbered, those of services first.
    pub fn cores(&self, core_kind: CoreKind) -> Range<usize> {
        let each: Vec<(CoreKind, usize)> =
            self.parts.iter().map(|p| (p.group.apps[p.number].core_kind, p.group.stats.len())).collect();
        let before: usize = each.iter().take_while(|(h, _)| !runs(*h, core_kind)).map(|p| p.1).sum();
        let those: usize = each.iter().filter(|(h, _)| runs(*h, core_kind)).map(|p| p.1).sum();
        before..before + those
    }

    /// Has cores do something with this app between two batches, all at the same time. None: one
    /// did not answer.
    pub fn on<T: Send + 'static>(
        &self,
        cores: Range<usize>,
        work: impl Fn(&mut RunHandler) -> T + Send + Sync + 'static,
    ) -> Vec<Option<T>> {
        let work = Arc::new(work);
        let (mut first, mut asked) = (0, Vec::new());
        for p in &self.parts {
            let here = cores.start.max(first)..cores.end.min(first + p.group.stats.len());
            for core in here {
                let work = work.clone();
                asked.push(p.group.post.ask(p.number, core - first, move |run| work(run)));
            }
            first += p.group.stats.len();
        }
        asked.into_iter().map(Asked::answer).collect()
    }

    /// Calls a signal on every core that runs it. The answer, and whether all cores gave one.
    pub fn call(&self, signal: &SignalDesc, args: Vec<ParamValue>) -> (Value, bool) {
        let handler = signal.handler;
        let core_kind = self.desc().handlers.get(handler as usize).map_or(CoreKind::Both, |h| h.core_kind);
        let answers = self.on(self.cores(core_kind), move |run| run(handler, &args).ok());
        signal::summed(self.name(), signal, answers)
    }
}

/// Whether cores of one kind run what belongs to another kind.
fn runs(cores: CoreKind, what: CoreKind) -> bool {
    cores == CoreKind::Both || what == CoreKind::Both || cores == what
}

impl View {
    /// `groups`: services first. `names`: the order in which the apps were given.
    pub fn new(groups: Vec<Arc<Group>>, names: &[String]) -> View {
        let mut apps: Vec<Hosted> = Vec::new();
        for group in &groups {
            for (number, app) in group.apps.iter().enumerate() {
                let part = Part { group: group.clone(), number };
                match apps.iter_mut().find(|a| a.name() == app.desc.app) {
                    Some(a) => a.parts.push(part),
                    None => apps.push(Hosted { app: app.clone(), parts: vec![part] }),
                }
            }
        }
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
