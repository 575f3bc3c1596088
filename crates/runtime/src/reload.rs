//! Settings that are read again while services run.
//!
//! In: the pairs of each app, as `--set` and the configuration have them. Out: new [`Settings`] for
//! the cores, which take them between two batches, and lines about each change. A change that an
//! open port, a table or the start has used already is not made: its line says so.

use crate::core::app::App;
use crate::error::Error;
use crate::params::{self, Settings};
use crate::view::Group;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wireloom_ir::desc::{Desc, Half, ParamValue, PortKind};
use wireloom_ir::port_options;

/// A core that does not take settings within this time is stuck.
const PATIENCE: Duration = Duration::from_secs(2);

/// An app's name, and its pairs.
pub type AppSets = (String, Vec<(String, String)>);
/// The pairs of all apps, and lines about changes of other options.
pub type ReadAgain = (Vec<AppSets>, Vec<String>);

/// The source of settings, asked at each SIGHUP.
pub struct Reload {
    /// Reads them; an error is a text for the user, and nothing changes.
    pub read: Box<dyn FnMut() -> Result<ReadAgain, String> + Send>,
    /// Told each line about a change.
    pub tell: Box<dyn Fn(&str) + Send>,
}

/// The settings of a group's apps that its cores are to take.
#[derive(Default)]
pub(crate) struct NewSettings {
    /// Counts changes: a core that has seen another number looks.
    version: AtomicU32,
    /// How many cores have taken the last change.
    taken: AtomicU32,
    /// Of each app; none: those that it started with.
    apps: Mutex<Vec<Option<Arc<Settings>>>>,
}

impl NewSettings {
    /// The settings of all apps, if they have changed since `seen`.
    pub fn since(&self, seen: &mut u32) -> Option<Vec<Option<Arc<Settings>>>> {
        if self.version.load(Ordering::Relaxed) == *seen {
            return None;
        }
        *seen = self.version.load(Ordering::Acquire);
        Some(self.apps.lock().unwrap_or_else(|e| e.into_inner()).clone())
    }

    /// A core has taken the last change.
    pub fn taken(&self) {
        self.taken.fetch_add(1, Ordering::Release);
    }

    /// Waits until all cores have taken it: those that are busy do between two batches.
    pub fn wait(&self, cores: usize) {
        let end = Instant::now() + PATIENCE;
        while (self.taken.load(Ordering::Acquire) as usize) < cores && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn put(&self, apps: Vec<Option<Arc<Settings>>>) {
        self.taken.store(0, Ordering::Release);
        *self.apps.lock().unwrap_or_else(|e| e.into_inner()) = apps;
        self.version.fetch_add(1, Ordering::Release);
    }

    fn current(&self, app: usize) -> Option<Arc<Settings>> {
        self.apps.lock().unwrap_or_else(|e| e.into_inner()).get(app).cloned().flatten()
    }
}

/// Reads the settings again. `groups`: those of services first; the cores of a group without
/// [`NewSettings`] take none.
pub(crate) fn reload(
    reload: &mut Reload,
    groups: &[(Arc<Group>, Option<Arc<NewSettings>>)],
    wake: impl Fn(),
) -> Result<(), String> {
    let (sets, mut lines) = (reload.read)()?;
    let mut all = Vec::new();
    for (group, new) in groups {
        let apps = group.apps.iter().enumerate();
        let changed = apps.map(|(n, app)| change(app, new.as_ref().and_then(|new| new.current(n)), &sets));
        all.push(changed.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?);
    }
    for ((_, new), changed) in groups.iter().zip(all) {
        let (settings, told): (Vec<_>, Vec<_>) = changed.into_iter().unzip();
        // Both parts of an app have its parameters.
        let told = told.into_iter().flatten().filter(|l| !lines.contains(l)).collect::<Vec<_>>();
        lines.extend(told);
        if let Some(new) = new {
            new.put(settings);
        }
    }
    wake();
    for (group, new) in groups {
        new.iter().for_each(|new| new.wait(group.stats.len()));
    }
    if lines.is_empty() {
        (reload.tell)("the configuration was read again: nothing has changed");
    }
    lines.iter().for_each(|l| (reload.tell)(l));
    Ok(())
}

/// An app's settings, and a line for each that differs.
type Changed = (Option<Arc<Settings>>, Vec<String>);

fn change(app: &App, now: Option<Arc<Settings>>, sets: &[AppSets]) -> Result<Changed, Error> {
    let Some((_, sets)) = sets.iter().find(|(name, _)| *name == app.desc.app) else { return Ok((now, Vec::new())) };
    let wanted = params::resolve(&app.desc, sets)?;
    let old = now.as_deref().unwrap_or(&app.settings);
    let (values, mut lines) = values(&app.desc, old, &wanted);
    let mut options = Vec::new();
    for (n, (was, is)) in old.ports.iter().zip(&wanted.ports).enumerate() {
        let mut kept = was.options.clone();
        let port = &app.desc.ports[n];
        let frames = matches!(port.kind, PortKind::Frames { .. });
        let merged = app.desc.merges.iter().any(|m| m.from == n as u32 || m.to == n as u32);
        for ((name, before), (_, after)) in port_options::texts(&was.options).zip(port_options::texts(&is.options)) {
            if before == after {
                continue;
            }
            let live = port_options::is_live(name) && !frames && !merged;
            if live {
                port_options::copy(name, &is.options, &mut kept);
            }
            // The other part of an app in two has the other ports.
            if frames == (app.half == Half::Packets) || app.half == Half::Both {
                lines.push(line(&app.desc, &format!("{}.{name}", port.name), live));
            }
        }
        options.push(kept);
    }
    if lines.is_empty() {
        return Ok((now, lines));
    }
    Ok((Some(Arc::new(params::build(&app.desc, values, options)?)), lines))
}

fn values(desc: &Desc, old: &Settings, wanted: &Settings) -> (Vec<ParamValue>, Vec<String>) {
    let mut lines = Vec::new();
    let each = old.values.iter().zip(&wanted.values).zip(&desc.params);
    let values = each.map(|((was, is), p)| {
        if was == is {
            return was.clone();
        }
        lines.push(line(desc, &p.name, p.live));
        if p.live {
            is.clone()
        } else {
            was.clone()
        }
    });
    let values = values.collect();
    (values, lines)
}

fn line(desc: &Desc, name: &str, live: bool) -> String {
    match live {
        true => format!("{}.{name} has its new value", desc.app),
        false => format!("{}.{name} keeps its value until the next start", desc.app),
    }
}
