//! Settings that are read again while services run.
//!
//! In: the pairs of each app, as `--set` and the configuration have them. Out: new [`Settings`] for
//! the cores, which take them between two batches, and lines about each change. A change that an
//! open port, a table or the start has used already is not made: its line says so. A change of a
//! list of servers is made: each server that stays keeps its place (`server_places`). Names of
//! servers are resolved again, on the caller's thread (`server_names`).

use crate::core::app::App;
use crate::error::{Error, Origin};
use crate::params::{self, PortSetting, Settings};
use crate::program::point_hash::PointHash;
use crate::server_names::Answers;
use crate::server_places::ServerPlaces;
use crate::stats::CoreStats;
use crate::view::Group;
use log::Level;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wireloom_ir::desc::{CoreKind, Desc, ParamValue, PortKind};
use wireloom_ir::port_options;

/// A core that does not take settings within this time is stuck.
const PATIENCE: Duration = Duration::from_secs(2);

/// A line about a change: a warning, if it has no effect yet.
pub type ChangeLine = (Level, String);
/// A writer of such lines.
pub type Tell = Box<dyn Fn(Level, &str) + Send>;
/// An app's name, and its pairs.
pub type AppSets = (String, Vec<(String, String)>);
/// Settings that were read again.
pub struct ReadAgain {
    /// Of all apps.
    pub sets: Vec<AppSets>,
    /// About changes of other options, and of settings that have no effect.
    pub lines: Vec<ChangeLine>,
    /// The text of an error of these settings, with its place.
    pub text_of: Box<dyn Fn(Error) -> String>,
}

/// The source of settings, asked at each SIGHUP, and when a name has another address.
pub struct Reload {
    /// Whether there is a file; without one, only names are resolved again.
    pub has_file: bool,
    /// Reads them; an error is a text for the user, and nothing changes. Its argument: the file is
    /// read anew, else they are those that were read last.
    pub read: Box<dyn FnMut(bool) -> Result<ReadAgain, String> + Send>,
    /// Told each line about a change.
    pub tell: Tell,
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

    /// The apps' cores are to take settings.
    pub fn give(&self, apps: &[Arc<App>], settings: Vec<Option<Arc<Settings>>>) {
        apps.iter().zip(&settings).filter_map(|(a, s)| Some((a, s.clone()?))).for_each(|(a, s)| a.renew(s));
        self.put(settings);
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

/// Reads the settings again. `known`: addresses that were looked up; the settings are those that
/// were read last. None: the file is read anew, and all names are resolved. `groups`: those of
/// services first; the cores of a group without [`NewSettings`] take none.
pub(crate) fn reload(
    reload: &mut Reload,
    known: Option<Answers>,
    groups: &[(Arc<Group>, Option<Arc<NewSettings>>)],
    wake: impl Fn(),
) -> Result<(), String> {
    let (at_hangup, known) = (known.is_none(), known.unwrap_or_default());
    let ReadAgain { sets, mut lines, text_of } = (reload.read)(at_hangup)?;
    let mut all = Vec::new();
    for (group, new) in groups {
        let source = SettingsSource { sets: &sets, known: &known };
        all.push(changes(&group.apps, &group.stats, new.as_deref(), source).map_err(&text_of)?);
    }
    for ((group, new), changed) in groups.iter().zip(all) {
        let (settings, told): (Vec<_>, Vec<_>) = changed.into_iter().unzip();
        // Both parts of an app have its parameters.
        let told = told.into_iter().flatten().filter(|l| !lines.contains(l)).collect::<Vec<_>>();
        lines.extend(told);
        if let Some(new) = new {
            new.give(&group.apps, settings);
        }
    }
    wake();
    for (group, new) in groups {
        new.iter().for_each(|new| new.wait(group.stats.len()));
    }
    let has_names = || groups.iter().flat_map(|(g, _)| &g.apps).any(|a| !a.renewed().names.is_empty());
    if lines.is_empty() && !at_hangup {
        return Ok(());
    }
    if lines.is_empty() && reload.has_file {
        (reload.tell)(Level::Info, "the configuration was read again: nothing has changed");
    } else if lines.is_empty() && has_names() {
        (reload.tell)(Level::Info, "the names of servers were resolved again: nothing has changed");
    }
    lines.iter().for_each(|(level, text)| (reload.tell)(*level, text));
    Ok(())
}

/// An app's settings, and a line for each that differs.
pub(crate) type Changed = (Option<Arc<Settings>>, Vec<ChangeLine>);

/// The pairs of all apps, and addresses that are known.
#[derive(Clone, Copy)]
pub(crate) struct SettingsSource<'a> {
    pub sets: &'a [AppSets],
    pub known: &'a Answers,
}

/// The changes of apps that run on some cores.
pub(crate) fn changes(
    apps: &[Arc<App>],
    cores: &[CoreStats],
    new: Option<&NewSettings>,
    source: SettingsSource,
) -> Result<Vec<Changed>, Error> {
    let each = apps.iter().enumerate().map(|(n, app)| {
        let left = |p: usize, place: usize, server: u32| left(cores, (n, p, place), server);
        change(app, new.and_then(|new| new.current(n)), source, &left)
    });
    each.collect()
}

/// Whether all cores have done with the server of a place, by app and port.
fn left(cores: &[CoreStats], (app, port, place): (usize, usize, usize), server: u32) -> bool {
    let done = |c: &CoreStats| Some(c.apps.get(app)?.ports[port].backends.get(place)?.left.load(Ordering::Acquire));
    cores.iter().all(|c| done(c) == Some(server))
}

fn change(
    app: &App,
    now: Option<Arc<Settings>>,
    SettingsSource { sets, known }: SettingsSource,
    left: &dyn Fn(usize, usize, u32) -> bool,
) -> Result<Changed, Error> {
    let Some((_, sets)) = sets.iter().find(|(name, _)| *name == app.desc.app) else { return Ok((now, Vec::new())) };
    let old = now.as_deref().unwrap_or(&app.settings);
    let wanted = params::resolve_again(&app.desc, sets, old.names.again(known.clone()))?;
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
            if frames == (app.core_kind == CoreKind::Packets) || app.core_kind == CoreKind::Both {
                lines.push(line(&app.desc, &format!("{}.{name}", port.name), live));
            }
        }
        options.push(kept);
    }
    let told = |level: Level, text: &String| (level, format!("{}: {text}", app.desc.app));
    lines.extend(wanted.names.changes().iter().map(|text| told(Level::Info, text)));
    let failed = wanted.names.failed.iter().map(|text| told(Level::Warn, text));
    if lines.is_empty() {
        return Ok((now, failed.collect()));
    }
    lines.extend(failed);
    let mut new = params::build(&app.desc, values, options, wanted.names.clone())?;
    let mut hash = PointHash::of(&app.program, &new.params);
    for (n, (was, is)) in old.ports.iter().zip(&mut new.ports).enumerate() {
        if app.desc.ports[n].kind.is_connect() {
            lines.extend(place(app, n, (was, is), hash.as_mut(), left)?);
        }
    }
    Ok((Some(Arc::new(new)), lines))
}

/// Gives the servers of a port their places. A line, if its list has changed.
fn place(
    app: &App,
    n: usize,
    (was, is): (&PortSetting, &mut PortSetting),
    hash: Option<&mut PointHash>,
    left: &dyn Fn(usize, usize, u32) -> bool,
) -> Result<Option<ChangeLine>, Error> {
    let port = format!("{}.{}", app.desc.app, app.desc.ports[n].name);
    if (&was.addrs, &was.names, &was.servers) == (&is.addrs, &is.names, &is.servers) {
        is.take_places(was.places.clone());
        is.tables = was.tables.clone();
        return Ok(None);
    }
    let done = |place: usize| left(n, place, was.places.all[place].server);
    let Some(places) = was.places.next(&is.addrs, &is.names, done) else {
        let text = format!("port `{port}`: too many servers that are gone have work under way");
        return Err(Error::Param(text).at(Origin::of_port(&app.desc, n)));
    };
    is.take_places(places);
    is.tables = is.hash_tables((&app.desc, n), hash)?;
    let without = |a: &ServerPlaces, b: &ServerPlaces| {
        let gone = a.of.iter().filter(|i| !b.of.contains(i)).map(|i| a.all[*i as usize].shown());
        gone.collect::<Vec<_>>().join(", ")
    };
    let (new, gone) = (without(&is.places, &was.places), without(&was.places, &is.places));
    let told = [("new", new), ("gone", gone)];
    let told = told.iter().filter(|(_, list)| !list.is_empty()).map(|(what, list)| format!("; {what}: {list}"));
    let number = match is.addrs.len() {
        1 => "one server".to_string(),
        n => format!("{n} servers"),
    };
    Ok(Some((Level::Info, format!("{port} has {number}{}", told.collect::<String>()))))
}

fn values(desc: &Desc, old: &Settings, wanted: &Settings) -> (Vec<ParamValue>, Vec<ChangeLine>) {
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

fn line(desc: &Desc, name: &str, live: bool) -> ChangeLine {
    match live {
        true => (Level::Info, format!("{}.{name} has its new value", desc.app)),
        false => (Level::Warn, format!("{}.{name} keeps its value until the next start", desc.app)),
    }
}
