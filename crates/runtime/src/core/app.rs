//! An app: a program with its description and settings, and each core's data of it.

use super::entry_waits::EntryChanges;
use super::failure_log::FailureLog;
use super::ports::{port, shown, upstreams, Port, Proto, UpstreamHandlers};
use super::seen_settings::SeenSettings;
use super::slab::Id;
use super::views::SpareViews;
use crate::abi::*;
use crate::error::Error;
use crate::large_pages::{first_line, huge_pages, placed, words};
use crate::params::{self, Settings};
use crate::program::point_hash::PointHash;
use crate::program::Program;
use crate::server_places::ServerPlaces;
use crate::stats::{AppStats, ByPlace, Cell, CoreStats, Histogram, MergeStats, PortStats};
use std::collections::VecDeque;
use std::sync::{Arc, RwLock};
use wireloom_ir::desc::{self, CoreKind, CounterDesc, Desc, HandlerOn, Order, PortKind};
use wireloom_ir::OwnFault;

/// A program ready to serve; shared by all cores.
pub struct App {
    pub program: Program,
    pub desc: Desc,
    /// Those that it started with.
    pub settings: Arc<Settings>,
    /// Those that it has now.
    renewed: RwLock<Arc<Settings>>,
    /// Memory of all cores of both kinds, 8-byte words; programs synchronise on it themselves.
    shared: Arc<SharedMemory>,
    /// The part that these cores run, of an app with frame ports and service ports.
    pub core_kind: CoreKind,
    /// Names of the answer classes of all protocols; number 0 is unknown. Empty if no protocol has
    /// classes. `class_numbers` maps each protocol's own numbers to these.
    pub classes: Vec<String>,
    pub class_numbers: Vec<Vec<u8>>,
    /// Words about answers that failed.
    pub told: FailureLog,
    /// Counts changes of table entries for which handlers wait.
    pub(super) entry_changes: EntryChanges,
}

pub struct SharedMemory(std::cell::UnsafeCell<Box<[u64]>>);
// SAFETY: the runtime only hands out the address; the program's own code synchronises access (its
// tables lock).
unsafe impl Sync for SharedMemory {}
// SAFETY: plain memory.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    fn of(program: &Program, settings: &Settings) -> SharedMemory {
        let mut shared = placed(program.table().shared_size as usize);
        if let Some(init) = program.table().init_shared {
            // SAFETY: from its first line on `shared` has the size asked for.
            unsafe { init(program.table().self_, first_line(&mut shared).cast(), settings.params.as_ptr()) };
        }
        SharedMemory(std::cell::UnsafeCell::new(shared))
    }
}

impl App {
    /// Checks the description against the program, resolves the settings, builds hash tables and
    /// shared memory.
    pub fn new(program: Program, desc: Desc, sets: &[(String, String)]) -> Result<Arc<App>, Error> {
        App::with(program, desc, sets, CoreKind::Both, None)
    }

    /// The parts of an app with frame ports and service ports, packets first: they share the
    /// memory of all cores.
    pub fn partition(program: Program, desc: &Desc, sets: &[(String, String)]) -> Result<(Arc<App>, Arc<App>), Error> {
        let packets = App::with(program.clone(), desc.for_cores(CoreKind::Packets), sets, CoreKind::Packets, None)?;
        let services = App::with(
            program,
            desc.for_cores(CoreKind::Services),
            sets,
            CoreKind::Services,
            Some(packets.shared.clone()),
        )?;
        Ok((packets, services))
    }

    fn with(
        program: Program,
        desc: Desc,
        sets: &[(String, String)],
        core_kind: CoreKind,
        shared: Option<Arc<SharedMemory>>,
    ) -> Result<Arc<App>, Error> {
        check(&program, &desc)?;
        let mut settings = params::resolve(&desc, sets)?;
        let mut hash = PointHash::of(&program, &settings.params);
        for (n, set) in settings.ports.iter_mut().enumerate().filter(|(n, _)| desc.ports[*n].kind.is_connect()) {
            set.take_places(ServerPlaces::first(&set.addrs, &set.names));
            set.tables = set.hash_tables((&desc, n), hash.as_mut())?;
        }
        drop(hash);
        let settings = Arc::new(settings);
        let shared = shared.unwrap_or_else(|| Arc::new(SharedMemory::of(&program, &settings)));
        let (classes, class_numbers) = answer_classes(&desc);
        let told = FailureLog::new(desc.faults.len());
        Ok(Arc::new(App {
            program,
            desc,
            renewed: RwLock::new(settings.clone()),
            settings,
            shared,
            core_kind,
            classes,
            class_numbers,
            told,
            entry_changes: EntryChanges::default(),
        }))
    }

    /// The settings that cores take, or have taken, since they were read again.
    pub fn renewed(&self) -> Arc<Settings> {
        self.renewed.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    pub(crate) fn renew(&self, settings: Arc<Settings>) {
        *self.renewed.write().unwrap_or_else(|e| e.into_inner()) = settings;
    }

    /// Counters that the other kind of cores counts, alone or too, and that handlers of this one
    /// read.
    pub fn foreign_counters(&self) -> impl Iterator<Item = (usize, &CounterDesc)> {
        let foreign = move |c: &CounterDesc| self.core_kind != CoreKind::Both && c.core_kind != self.core_kind;
        self.desc.counters.iter().enumerate().filter(move |(_, c)| foreign(c))
    }

    fn shared_ptr(&self) -> *mut u64 {
        // SAFETY: only the address is taken; the box itself never changes.
        unsafe { first_line(&mut *self.shared.0.get()) }
    }

    /// The statistics of a table: entries, hits, misses, inserts, evictions, expired, rejected,
    /// bytes.
    pub fn table_stats(&self, table: usize) -> Option<[u64; 8]> {
        let at = self.desc.tables.get(table)?.stats as usize;
        if let Some(stats) = self.program.outside().and_then(|o| o.table_stats(table)) {
            return Some(stats);
        }
        if !at.is_multiple_of(8) || at + 64 > self.program.table().shared_size as usize {
            return None;
        }
        // SAFETY: inside the shared memory, by the check, and aligned; programs change these words
        // by atomic operations.
        let word = |i: usize| unsafe { std::sync::atomic::AtomicU64::from_ptr(self.shared_ptr().add(at / 8 + i)) };
        Some(std::array::from_fn(|i| word(i).load(std::sync::atomic::Ordering::Relaxed)))
    }

    /// Whether a merge node has this listen port, and no core.
    pub fn merges_from(&self, port: usize) -> bool {
        self.desc.merges.iter().any(|m| m.from as usize == port)
    }

    pub fn fault_name(&self, kind: u32) -> String {
        name_of_fault(&self.desc, kind)
    }

    fn own_fault(&self, kind: u32) -> Option<&OwnFault> {
        own_fault(&self.desc, kind)
    }

    /// Why the app cannot run: its start, the first handler that `stats` covers, ended in a fault.
    /// The doc comment of the fault gives the reason.
    pub fn start_fault(&self, stats: &AppStats) -> Option<String> {
        let (kind, place, _) = stats.faults.list().into_iter().next()?;
        let at = self.place_at(place);
        let says = self
            .own_fault(kind)
            .map(|f| f.doc.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|d| !d.is_empty());
        let says = says.map(|d| format!(": {d}")).unwrap_or_default();
        Some(format!("app `{}` cannot start: fault {}{at}{says}", self.desc.app, self.fault_name(kind)))
    }

    pub fn place_name(&self, place: u32) -> String {
        self.desc.places.get(place as usize).map(|p| p.name.clone()).unwrap_or_default()
    }

    /// The same in the sources, `file:line:column`.
    pub fn place_line(&self, place: u32) -> String {
        let place = self.desc.places.get(place as usize);
        place.map(|p| format!("{}:{}:{}", p.file, p.line, p.column)).unwrap_or_default()
    }

    /// The same, as a part of a line.
    pub(super) fn place_at(&self, place: u32) -> String {
        let library = self.desc.places.get(place as usize).map_or("", |p| &p.library);
        match self.place_line(place) {
            line if line.is_empty() => line,
            line if library.is_empty() => format!(" at {line}"),
            line => format!(" at {line}, in {library}"),
        }
    }

    /// A line about a fault of packets, at most one a second for each kind.
    pub fn log_packet_fault(&self, kind: u32, place: u32, second: u64) {
        let Some(more) = self.told.may(kind, second) else { return };
        let more = if more > 0 { format!("; {more} more since the last such line") } else { String::new() };
        log::warn!(target: "app", "{}: {}{}{more}", self.desc.app, self.fault_name(kind), self.place_at(place));
    }
}

/// `AppCore::alone`; `paused`: handlers of this program may pause.
fn alone(handlers: &[wireloom_ir::desc::HandlerDesc], paused: bool) -> Vec<u32> {
    let least = |h: &wireloom_ir::desc::HandlerDesc| match h.one_by_one {
        true => 0,
        false => h.pauses.filter(|_| paused && h.alone).unwrap_or(u32::MAX),
    };
    handlers.iter().map(least).collect()
}

/// Every index in the description must be inside the program's tables.
fn check(program: &Program, desc: &Desc) -> Result<(), Error> {
    let t = program.table();
    let bad = |s: String| Err(Error::Program(format!("app `{}`: {s}", desc.app)));
    for p in &desc.protocols {
        if p.request >= t.units || p.response.is_some_and(|r| r >= t.units) {
            return bad(format!("protocol `{}` names a unit the program does not have", p.name));
        }
        if let Order::ById { width, .. } = p.order {
            if !(1..=8).contains(&width) {
                return bad(format!("protocol `{}`: ids of {width} bytes are not supported (1 to 8)", p.name));
            }
        }
    }
    for p in &desc.ports {
        if matches!(p.kind, PortKind::Frames { .. }) {
            if program.packets().is_none() {
                return bad(format!("port `{}` carries frames, but the program has no `wireloom_packets`", p.name));
            }
            continue;
        }
        if p.protocols.is_empty() || p.protocols.iter().any(|i| *i as usize >= desc.protocols.len()) {
            return bad(format!("port `{}` has no protocol", p.name));
        }
    }
    for (i, m) in desc.merges.iter().enumerate() {
        let port = |p: u32, listen: bool| {
            desc.ports.get(p as usize).is_some_and(|p| matches!(p.kind, PortKind::Listen(_)) == listen)
        };
        let fits = program.merges().get(i).is_some_and(|f| m.inputs >= 1 && m.inputs as usize <= f.inputs);
        if !fits || !port(m.from, true) || !port(m.to, false) {
            return bad(format!("merge `{}` does not match the program", m.name));
        }
    }
    for (i, h) in desc.handlers.iter().enumerate() {
        let port = match h.on {
            HandlerOn::Message { port, .. }
            | HandlerOn::Piece { port, .. }
            | HandlerOn::Frame { port }
            | HandlerOn::Opened { port }
            | HandlerOn::Greeting { port }
            | HandlerOn::Probe { port }
            | HandlerOn::Reset { port }
            | HandlerOn::Closed { port } => port,
            HandlerOn::Upstream { upstream, .. }
            | HandlerOn::UpstreamOpened { upstream }
            | HandlerOn::UpstreamClosed { upstream } => {
                desc.upstreams.get(upstream as usize).map_or(u32::MAX, |c| c.port)
            }
            HandlerOn::Fault
            | HandlerOn::Every { .. }
            | HandlerOn::Start
            | HandlerOn::End
            | HandlerOn::Signal
            | HandlerOn::Elsewhere => 0,
        };
        if i as u32 >= t.handlers || (port as usize >= desc.ports.len() && port != 0) {
            return bad(format!("handler `{}` does not match the program", h.name));
        }
    }
    Ok(())
}

/// A core's share of an app.
pub struct AppCore {
    pub app: Arc<App>,
    pub wl: Box<wl_core>,
    /// It tells what another device has counted: the first core of the process.
    pub tells_outside: bool,
    pub host: Box<wl_host>,
    pub seen: SeenSettings,
    pub protos: Vec<Proto>,
    pub ports: Vec<Port>,
    pub upstreams: Vec<UpstreamHandlers>,
    /// Servers of its conversations greet.
    pub servers_greet: bool,
    pub state: Box<[u64]>,
    pub out: Vec<u8>,
    /// Of each handler, the least bytes of a request for which it may pause.
    pub pauses: Vec<Option<u32>>,
    /// Of each handler, the least bytes of a request that it handles alone on its connection.
    pub alone: Vec<u32>,
    pub frame_words: usize,
    pub session_words: usize,
    /// Parser state of the message at hand; saved elsewhere when it must last.
    pub scratch: Box<[u64]>,
    pub views: SpareViews,
    pub sessions: Vec<Box<[u64]>>,
    pub fault_handlers: Vec<u32>,
    /// In tests: the program's lines that nobody has seen yet.
    pub logged: Option<VecDeque<Vec<u8>>>,
    pub every: Vec<(u32, u64)>,
    pub start: Vec<u32>,
    pub end: Vec<u32>,
    /// Connections that wait for a turn, and the time that the app has used in this batch.
    pub queue: VecDeque<Id>,
    pub spent: u64,
    /// The program has run since its counters were shown.
    pub unshown: bool,
    /// Rounds over the queue so far; of this one, how many still have their turn, and whether
    /// anyone has run.
    pub round: u32,
    pub round_left: usize,
    pub round_ran: bool,
    /// For each counter, the sum of other cores that this core's word includes.
    foreign: Vec<u64>,
}

/// Most lines that a test keeps.
const LOGGED_MAX: usize = 10_000;

/// A head a program builds may grow to this.
pub const MAX_BUILT: usize = 16 << 20;
/// A message beyond this gets room for the largest.
pub const LARGE_BUILT: usize = 1 << 20;

impl AppCore {
    /// Logs a line of the program.
    pub fn log_line(&mut self, level: u32, text: &[u8]) {
        if let Some(lines) = self.logged.as_mut().filter(|l| l.len() < LOGGED_MAX) {
            lines.push_back(text.to_vec());
        }
        crate::log_lines::log_line(&self.app.desc.app, level, text);
    }

    pub fn new(app: Arc<App>, host: wl_host, index: u32, cores: u32, seed: u64) -> AppCore {
        let ports: Vec<Port> = (0..app.desc.ports.len()).map(|i| port(&app.desc, &app.settings.ports[i], i)).collect();
        let seen = SeenSettings::new(app.settings.clone(), shown(&ports, &app.settings));
        let t = *app.program.table();
        let mut state = placed(t.state_size as usize);
        if app.program.packets().is_some() {
            huge_pages(&state);
        }
        let mut out = vec![0u8; 4096];
        let host = Box::new(host);
        let wl = Box::new(wl_core {
            state: first_line(&mut state).cast(),
            shared: app.shared_ptr().cast(),
            seed,
            index,
            cores,
            ..wl_core::of(&host, t.self_, wl_out::of(&mut out))
        });
        let on = |f: &dyn Fn(&HandlerOn) -> bool| -> Vec<u32> {
            let h = app.desc.handlers.iter().enumerate();
            h.filter(|(_, h)| f(&h.on)).map(|(i, _)| i as u32).collect()
        };
        let every = app.desc.handlers.iter().enumerate();
        let every = every.filter_map(|(i, h)| match h.on {
            HandlerOn::Every { period } => Some((i as u32, period.max(desc::LEAST_PERIOD))),
            _ => None,
        });
        let mut core = AppCore {
            tells_outside: index == 0,
            protos: app.desc.protocols.iter().map(|p| Proto::of(p, app.program.units())).collect(),
            fault_handlers: on(&|h| matches!(h, HandlerOn::Fault)),
            logged: None,
            start: on(&|h| matches!(h, HandlerOn::Start)),
            end: on(&|h| matches!(h, HandlerOn::End)),
            every: every.collect(),
            foreign: vec![0; app.desc.counters.len()],
            frame_words: (t.frame_size as usize).div_ceil(8),
            session_words: (t.session_size as usize).div_ceil(8),
            scratch: words(app.program.view_words() * 8),
            views: SpareViews::of(app.program.units()),
            sessions: Vec::new(),
            queue: VecDeque::new(),
            spent: 0,
            unshown: false,
            round: 0,
            round_left: 0,
            round_ran: false,
            pauses: app.desc.handlers.iter().map(|h| h.pauses.filter(|_| t.tmp_size > 0)).collect(),
            alone: alone(&app.desc.handlers, t.tmp_size > 0),
            upstreams: upstreams(&app.desc),
            servers_greet: app.desc.protocols.iter().any(|p| p.server_first),
            ports,
            state,
            out,
            wl,
            host,
            seen,
            app,
        };
        core.seen.show(&mut core.wl);
        core
    }

    /// The handlers to be run now see other settings, from a turn on.
    pub fn see(&mut self, turn: u32, settings: Arc<Settings>, replaced: super::seen_settings::ReplacedLists) {
        let ports = shown(&self.ports, &settings);
        self.seen.add(turn, settings, ports, replaced);
        self.seen.show(&mut self.wl);
    }

    /// See [`super::Core::enter`].
    #[inline]
    pub fn enter(&mut self, core: *mut super::Core) {
        self.wl.rt = core.cast();
        self.wl.out.p = self.wl.out.start;
        self.unshown = true;
        self.seen.show(&mut self.wl);
    }

    /// Publishes the program's own counters, without the sums of other cores.
    pub fn show_counters(&self, cells: &[Cell]) {
        for (n, ((c, cell), foreign)) in self.app.desc.counters.iter().zip(cells).zip(&self.foreign).enumerate() {
            let own = self.counter(c.offset as usize / 8).wrapping_sub(*foreign);
            cell.set(own.wrapping_add(self.counted_outside(n)));
        }
    }

    /// The count of another device. One core tells it.
    pub fn counted_outside(&self, counter: usize) -> u64 {
        if self.tells_outside {
            self.app.program.outside().map_or(0, |o| o.counter(counter))
        } else {
            0
        }
    }

    /// Adds to the program's counters the sums of other cores that `counted` gives.
    pub fn take_counters(&mut self, counted: impl Fn(usize, &CounterDesc) -> u64) {
        let app = self.app.clone();
        for (n, c) in app.foreign_counters() {
            self.set_foreign(n, c, counted(n, c));
        }
    }

    /// Removes the sums of other cores: the program sees its own counters again.
    pub fn give_back_counters(&mut self) {
        self.take_counters(|_, _| 0);
    }

    fn set_foreign(&mut self, n: usize, c: &CounterDesc, sum: u64) {
        let skip = (self.wl.state as usize - self.state.as_ptr() as usize) / 8;
        if let Some(word) = self.state.get_mut(skip + c.offset as usize / 8) {
            *word = word.wrapping_add(sum).wrapping_sub(self.foreign[n]);
            self.foreign[n] = sum;
        }
    }

    /// A counter, by its word in the core's state.
    pub fn counter(&self, word: usize) -> u64 {
        let skip = (self.wl.state as usize - self.state.as_ptr() as usize) / 8;
        self.state.get(skip + word).copied().unwrap_or(0)
    }

    /// The unit with which connection side/port parses.
    pub fn view_words(&self) -> usize {
        self.scratch.len()
    }

    /// Makes room for `need` more bytes in the building scratch.
    pub fn grow(&mut self, need: u32) -> bool {
        let used = (self.wl.out.p as usize).saturating_sub(self.wl.out.start as usize);
        let want = used + need as usize;
        if want > MAX_BUILT {
            return false;
        }
        if want > self.out.len() {
            // Much is rarely all that comes, and to move it takes long. Pages that are not written
            // take no memory.
            let size = if want > LARGE_BUILT { MAX_BUILT } else { want.next_power_of_two() };
            let mut out = vec![0; size];
            // SAFETY: the program has built so many bytes, which lie there.
            out[..used].copy_from_slice(unsafe { std::slice::from_raw_parts(self.wl.out.start, used) });
            self.out = out;
        }
        self.wl.out = wl_out::of(&mut self.out);
        // SAFETY: `used` is within the buffer, which only grew.
        self.wl.out.p = unsafe { self.wl.out.start.add(used) };
        true
    }

    /// An empty building scratch.
    #[inline]
    pub fn reset_out(&mut self) {
        self.wl.out.p = self.wl.out.start;
    }

    /// The message that the program has built.
    pub fn built(&self) -> wl_bytes {
        let n = (self.wl.out.p as usize).saturating_sub(self.wl.out.start as usize).min(self.out.len());
        wl_bytes { p: self.wl.out.start, n: n as u32, _pad: 0 }
    }
}

impl CoreStats {
    /// Zeroes for a core that hosts these apps.
    pub fn for_apps(apps: &[Arc<App>]) -> CoreStats {
        let classes = |a: &App| a.classes.iter().map(|_| Cell::default()).collect::<Vec<_>>();
        let port = |a: &App, p: &params::PortSetting| PortStats {
            listen: p.listen,
            classes: if p.listen { classes(a) } else { Vec::new() },
            latency: if p.listen { Histogram::default() } else { Histogram::none() },
            backends: ByPlace::new(p.addrs.len(), a.classes.len()),
            ..PortStats::default()
        };
        let counters = |a: &App| a.desc.counters.iter().map(|_| Cell::default()).collect::<Vec<_>>();
        let merge = |a: &App| MergeStats { counters: counters(a), ..MergeStats::default() };
        let app = |a: &Arc<App>| AppStats {
            ports: a.settings.ports.iter().map(|p| port(a, p)).collect(),
            counters: counters(a),
            merges: a.desc.merges.iter().map(|_| merge(a)).collect(),
            ..AppStats::default()
        };
        CoreStats { apps: apps.iter().map(app).collect(), ..CoreStats::default() }
    }
}

/// The classes of all protocols, 0 for none, and for each protocol the numbers of its own; empty if
/// there are none.
fn answer_classes(desc: &wireloom_ir::desc::Desc) -> (Vec<String>, Vec<Vec<u8>>) {
    let mut names = vec![String::from("unknown")];
    let mut number = |name: &String| {
        let at = names.iter().skip(1).position(|n| n == name).map_or(names.len(), |n| n + 1);
        if at == names.len() {
            names.push(name.clone());
        }
        at.min(255) as u8
    };
    let numbers =
        desc.protocols.iter().map(|p| std::iter::once(0).chain(p.classes.iter().map(&mut number)).collect()).collect();
    if names.len() == 1 {
        (Vec::new(), numbers)
    } else {
        (names, numbers)
    }
}

/// The name of a kind of fault: one of the language, or the app's own.
pub fn name_of_fault(desc: &Desc, kind: u32) -> String {
    if kind >= WL_F_USER {
        return own_fault(desc, kind).map_or_else(|| format!("fault {kind}"), |f| f.name.clone());
    }
    fault_name(kind).to_string()
}

fn own_fault(desc: &Desc, kind: u32) -> Option<&OwnFault> {
    desc.faults.get(kind.checked_sub(WL_F_USER)? as usize)
}
