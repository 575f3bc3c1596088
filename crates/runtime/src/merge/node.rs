//! The life of a merge node: gather the mappers, run, begin again. It runs on a thread that sleeps
//! while tasks work.

use super::input::{Before, EndMark, Input, Source};
use super::nodes::{NodeHandlers, Nodes};
use super::pipe::Pipe;
use super::plan::{plan, MergePlan};
use super::socket::{self, Bell, Transferred};
use super::worker::{Behind, Counts, Left, Limits, Run, TaskSink, TaskTools, Worker};
use super::{Fault, Setting};
use crate::abi::*;
use crate::core::app::App;
use crate::engine::Waker;
use crate::error::{Error, Origin};
use crate::program::Merge;
use crate::stats::{MergeStats, PortStats};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Window of an input, and the output: large enough that system calls do not count, small enough
/// for the cache.
const WINDOW: usize = 256 << 10;
/// Of a pipe: so many blocks of this size under way.
const BLOCK: usize = 64 << 10;
const BLOCKS: usize = 4;
/// How long a listener rests after descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub struct Node {
    app: Arc<App>,
    index: usize,
    number: usize,
    merge: Merge,
    setting: Setting,
    listener: Option<OwnedFd>,
    rest_until: Option<Instant>,
    bell: Arc<Bell>,
    bells: Vec<Arc<Bell>>,
    buffers: Vec<Box<[u8]>>,
    places: NodeHandlers,
    /// Of each task, from its first run on, if there are nodes before or behind the merge.
    nodes: Vec<Option<Box<Nodes>>>,
    drain_end: Option<Instant>,
}

/// Connections that have said nothing, kept beside the mappers; of more, the oldest is closed.
const SILENT_MAX: usize = 64;

/// A connection that is or may become a mapper's. `watched` while it gathers: polled for its first
/// byte, then for being broken.
struct Mapper {
    fd: OwnedFd,
    since: Instant,
    watched: bool,
    /// It has sent something. A connection without a byte (a probe, a scan of ports) takes no
    /// mapper's place.
    spoke: bool,
}

impl Mapper {
    fn new(fd: OwnedFd) -> Mapper {
        Mapper { fd, since: Instant::now(), watched: true, spoke: false }
    }

    fn name(&self) -> String {
        crate::engine::common::peer_address(self.fd.as_raw_fd())
            .map_or_else(|| "one that has left".into(), |a| a.to_string())
    }
}

impl Node {
    pub fn open(app: Arc<App>, index: usize, number: usize, setting: Setting) -> Result<Node, Error> {
        let desc = &app.desc.merges[number];
        let from = &app.settings.ports[desc.from as usize];
        let name = &app.desc.ports[desc.from as usize].name;
        check_end_mark(&app, desc.from)?;
        check_end_mark(&app, desc.to)?;
        let addr = from.addrs[0];
        let origin = Origin::of_port(&app.desc, desc.from as usize);
        let listener = socket::listen(addr)
            .map_err(|e| Error::Io(format!("port `{name}`: cannot listen on {addr}"), e).at(origin))?;
        let fail = |e| Error::Io("cannot make an event descriptor".into(), e);
        let tasks = setting.stats.len();
        let bells = (0..tasks).map(|_| Bell::new().map(Arc::new)).collect::<Result<Vec<_>, _>>().map_err(fail)?;
        Ok(Node {
            places: NodeHandlers::of(&app, number),
            nodes: (0..tasks).map(|_| None).collect(),
            merge: app.program.merges()[number],
            app: app.clone(),
            index,
            number,
            setting,
            listener: Some(listener),
            rest_until: None,
            bell: Arc::new(Bell::new().map_err(fail)?),
            bells,
            buffers: Vec::new(),
            drain_end: None,
        })
    }

    pub fn waker(&self) -> Waker {
        self.bell.waker()
    }

    fn inputs(&self) -> usize {
        self.app.desc.merges[self.number].inputs as usize
    }

    fn stats(&self, core: usize) -> &MergeStats {
        &self.setting.stats[core].apps[self.index].merges[self.number]
    }

    fn port(&self) -> &PortStats {
        &self.setting.stats[0].apps[self.index].ports[self.app.desc.merges[self.number].from as usize]
    }

    fn count(&self, fault: &Fault) {
        self.stats(0).faults.add(fault.kind, fault.place);
        let place = match self.app.place_name(fault.place) {
            p if p.is_empty() => p,
            p => format!(" at {p}"),
        };
        let kind = self.app.fault_name(fault.kind);
        log::warn!(
            "{}: merge {}: {} ({kind}{place})",
            self.app.desc.app,
            self.app.desc.merges[self.number].name,
            fault.text
        );
    }

    /// Gathers and merges until told to stop; whether all ended in order.
    pub fn run(mut self) -> bool {
        let mut gathered = Vec::new();
        loop {
            if !self.gather(&mut gathered) {
                let clean = !gathered.iter().any(|m| m.spoke);
                gathered.into_iter().for_each(|m| self.drop_mapper(m, true));
                return clean;
            }
            let mappers = self.take_mappers(&mut gathered);
            self.perform(mappers, &mut gathered);
        }
    }

    /// Whether to end now. The first call of a drain closes the listener and sets the limit.
    fn ending(&mut self) -> bool {
        if self.setting.stop.running() {
            return false;
        }
        self.listener = None;
        let limit = self.setting.drain_limit;
        let end = *self.drain_end.get_or_insert_with(|| Instant::now() + limit);
        self.setting.stop.ended() || Instant::now() >= end
    }

    /// The mappers of the run. A further connection that has sent bytes is refused; the silent
    /// ones wait on.
    fn take_mappers(&self, gathered: &mut Vec<Mapper>) -> Vec<Mapper> {
        let (mut spoke, silent): (Vec<_>, Vec<_>) = std::mem::take(gathered).into_iter().partition(|m| m.spoke);
        for m in spoke.drain(self.inputs()..) {
            self.refuse(m);
        }
        *gathered = silent;
        spoke
    }

    /// Waits until all mappers have sent their first byte. False: the service ends.
    fn gather(&mut self, mappers: &mut Vec<Mapper>) -> bool {
        let options = &self.app.settings.ports[self.app.desc.merges[self.number].from as usize].options;
        let (idle, told) = (limit(options.idle_timeout), limit(options.read_timeout));
        // When the first mapper came, and when it is told next which are missing.
        let mut begin = Instant::now();
        let mut tell = None;
        loop {
            if self.ending() || self.listener.is_none() {
                return false;
            }
            let before = spoken(mappers);
            if before >= self.inputs() {
                return true;
            }
            let now = Instant::now();
            if before == 0 {
                (begin, tell) = (now, None);
            } else if tell.is_none() {
                tell = told.map(|d| begin + d);
            }
            let end = idle.filter(|_| before > 0).map(|d| begin + d);
            if end.is_some_and(|e| now >= e) {
                let text = format!("only {before} of {} inputs came", self.inputs());
                self.count(&Fault::new(WL_F_IDLE as i32, text));
                mappers.drain(..).for_each(|m| self.drop_mapper(m, true));
                continue;
            }
            if tell.is_some_and(|t| now >= t) {
                self.tell_missing(mappers, now - begin);
                tell = Some(now + (now - begin));
            }
            let silent = idle.and_then(|d| mappers.iter().filter(|m| !m.spoke).map(|m| m.since + d).min());
            self.wait(mappers, [end, tell, silent].into_iter().flatten().min());
            self.look_at(mappers);
            self.drop_silent(mappers, idle);
            while spoken(mappers) < self.inputs() {
                match self.accept() {
                    Some(fd) => mappers.push(Mapper::new(fd)),
                    None => break,
                }
            }
        }
    }

    fn tell_missing(&self, mappers: &[Mapper], since: Duration) {
        let names =
            |spoke: bool| mappers.iter().filter(|m| m.spoke == spoke).map(Mapper::name).collect::<Vec<_>>().join(", ");
        let (here, silent) = (names(true), names(false));
        let silent = if silent.is_empty() { silent } else { format!("; connected, but silent: {silent}") };
        let (app, merge) = (&self.app.desc.app, &self.app.desc.merges[self.number].name);
        let missing = self.inputs().saturating_sub(spoken(mappers));
        log::warn!(
            "{app}: merge {merge}: {missing} of {} inputs are missing since {} s; here are {here}{silent}",
            self.inputs(),
            since.as_secs()
        );
    }

    /// Closes connections that have been silent for too long, and the oldest of too many.
    fn drop_silent(&self, mappers: &mut Vec<Mapper>, idle: Option<Duration>) {
        let mut extra = (mappers.len() - spoken(mappers)).saturating_sub(SILENT_MAX);
        let mut i = 0;
        while i < mappers.len() {
            let m = &mappers[i];
            if !m.spoke && (extra > 0 || idle.is_some_and(|d| m.since.elapsed() >= d)) {
                extra = extra.saturating_sub(1);
                let m = mappers.remove(i);
                log::info!("{}: {} said nothing: it is no mapper", self.app.desc.app, m.name());
                self.drop_mapper(m, false);
            } else {
                i += 1;
            }
        }
    }

    /// Waits for a connection, the bell, or a gathered mapper that breaks.
    fn wait(&mut self, mappers: &mut [Mapper], end: Option<Instant>) {
        let mut fds = vec![self.bell.want()];
        let resting = self.rest_until.filter(|r| *r > Instant::now());
        if let (Some(l), None) = (&self.listener, resting) {
            fds.push(socket::want(l.as_raw_fd(), libc::POLLIN));
        }
        let first = fds.len();
        fds.extend(
            mappers
                .iter()
                .filter(|m| m.watched)
                .map(|m| socket::want(m.fd.as_raw_fd(), if m.spoke { 0 } else { libc::POLLIN })),
        );
        socket::poll(&mut fds, [end, resting].into_iter().flatten().min());
        if fds[0].revents != 0 {
            self.bell.hush();
        }
        // Looked at by `look_at`, which needs them marked.
        for (m, f) in mappers.iter_mut().filter(|m| m.watched).zip(&fds[first..]) {
            m.watched = f.revents == 0;
        }
    }

    /// Of those on which something has happened: the first byte makes a mapper. One that is reset
    /// before the merge has begun leaves its place to another. One that has sent bytes and then its
    /// end stays: reading it tells. The end alone is a mapper without messages only where no end
    /// mark says so.
    fn look_at(&mut self, mappers: &mut Vec<Mapper>) {
        let end_mark = self.app.settings.ports[self.app.desc.merges[self.number].from as usize].options.end_mark;
        let mut i = 0;
        while i < mappers.len() {
            if mappers[i].watched {
                i += 1;
                continue;
            }
            let m = &mut mappers[i];
            match socket::receive(m.fd.as_raw_fd(), &mut [0], libc::MSG_PEEK) {
                Transferred::Bytes(_) if !m.spoke => (m.spoke, m.watched) = (true, true),
                Transferred::End if !m.spoke && end_mark == 0 => m.spoke = true,
                Transferred::Blocked if !m.spoke => m.watched = true,
                Transferred::Bytes(_) | Transferred::Blocked => {}
                Transferred::End if m.spoke => {}
                Transferred::End | Transferred::Broken(_) => {
                    let m = mappers.remove(i);
                    if m.spoke {
                        self.count(&Fault::new(WL_F_LOST as i32, "a mapper was lost before the merge began"));
                    }
                    self.drop_mapper(m, false);
                    continue;
                }
            }
            i += 1;
        }
    }

    fn accept(&mut self) -> Option<OwnedFd> {
        match socket::accept(self.listener.as_ref()?) {
            Ok(fd) => {
                if fd.is_some() {
                    self.port().opened.add(1);
                    self.port().open.add(1);
                }
                fd
            }
            Err(e) => {
                log::warn!("{}: cannot accept: {e}", self.app.desc.app);
                self.setting.stats[0].accept_failed.add(1);
                self.rest_until = Some(Instant::now() + ACCEPT_PAUSE);
                None
            }
        }
    }

    fn drop_mapper(&self, m: Mapper, reset: bool) {
        self.port().open.sub(1);
        if !reset {
            socket::close_in_order(m.fd.as_raw_fd());
        }
    }

    /// One merge, from these mappers. Connections that come when it is over are of the next.
    fn perform(&mut self, mappers: Vec<Mapper>, next: &mut Vec<Mapper>) {
        self.stats(0).runs.add(1);
        self.stats(0).active.set(1);
        let run = Run::new(self.bells.clone(), self.bell.clone());
        let lefts = self.run_tasks(&run, &mappers, next);
        let fault = run.into_fault();
        if let Some(f) = &fault {
            self.stats(0).failed.add(1);
            self.count(f);
        }
        for mut left in lefts {
            self.buffers.extend(left.buffers);
            for (kind, place, times) in left.nodes.as_mut().map_or(Vec::new(), |n| n.take_caught()) {
                self.stats(0).faults.add_many(kind, place, times);
            }
            self.nodes[left.number] = left.nodes;
            // A reset, unless the task has ended the stream in order.
            drop(left.reducer);
        }
        self.stats(0).active.set(0);
        mappers.into_iter().for_each(|m| self.drop_mapper(m, fault.is_some()));
        self.buffers.truncate(self.inputs() + 2 + BLOCKS * self.setting.stats.len());
    }

    /// Runs the tree's tasks, and meanwhile turns further connections away.
    fn run_tasks(&mut self, run: &Run, mappers: &[Mapper], next: &mut Vec<Mapper>) -> Vec<Left> {
        let reducer = match self.connect(run, next) {
            Ok(fd) => fd,
            Err(f) => {
                run.fail(f);
                return Vec::new();
            }
        };
        let (window, block) = (WINDOW.max(2 * self.merge.message_max), BLOCK.max(2 * self.merge.message_max));
        let (tasks, pipes) = self.tasks(mappers, reducer, window, block);
        let app = self.app.clone();
        let desc = &app.desc.merges[self.number];
        let options = |p: u32| &app.settings.ports[p as usize].options;
        let limits =
            Limits { read: limit(options(desc.from).read_timeout), write: limit(options(desc.to).write_timeout) };
        let (merge, stats, cpus) = (self.merge, self.setting.stats.clone(), self.setting.cpus.clone());
        let (index, number) = (self.index, self.number);
        let lefts = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (n, task) in tasks.into_iter().enumerate() {
                let (stats, cpu) = (&stats[n].apps[index], cpus.get(n).copied());
                let counts = Counts {
                    merge: &stats.merges[number],
                    from: &stats.ports[desc.from as usize],
                    to: &stats.ports[desc.to as usize],
                };
                let work = move || {
                    if let Some(cpu) = cpu {
                        crate::server::options::pin(cpu);
                    }
                    let left = Worker::new(run, n, merge, limits, counts, task).work();
                    run.node.ring();
                    left
                };
                match std::thread::Builder::new().name(format!("merge-{n}")).spawn_scoped(scope, work) {
                    Ok(t) => threads.push(t),
                    Err(e) => run.fail(Fault::new(WL_F_OVERLOAD as i32, format!("cannot start a thread: {e}"))),
                }
            }
            while threads.iter().any(|t| !t.is_finished()) {
                self.attend(run, next);
            }
            threads
                .into_iter()
                .filter_map(|t| {
                    t.join().map_err(|_| run.fail(Fault::new(WL_F_OVERLOAD as i32, "a task ended by a panic"))).ok()
                })
                .collect()
        });
        self.buffers.extend(pipes.iter().flat_map(|p| p.blocks()));
        lefts
    }

    /// Looks after the node while its tasks work.
    fn attend(&mut self, run: &Run, next: &mut Vec<Mapper>) {
        // A thread that has rung may need a moment until it counts as finished.
        let end = if run.going() { self.drain_end } else { Some(Instant::now() + Duration::from_millis(1)) };
        self.wait(&mut [], end);
        if self.ending() {
            run.fail(Fault::new(WL_F_CANCELLED as i32, "the service ended within a run"));
        }
        self.turn_away(run, next);
    }

    fn turn_away(&mut self, run: &Run, next: &mut Vec<Mapper>) {
        while next.len() < self.inputs() + SILENT_MAX {
            let Some(fd) = self.accept() else { return };
            let mapper = Mapper::new(fd);
            if run.going() {
                self.refuse(mapper);
            } else {
                next.push(mapper);
            }
        }
    }

    fn refuse(&self, mapper: Mapper) {
        self.port().turned_away.add(1);
        self.count(&Fault::new(WL_F_OVERLOAD as i32, "a connection beyond the inputs was refused"));
        self.drop_mapper(mapper, true);
    }

    /// The first of the reducer's addresses that accepts.
    fn connect(&mut self, run: &Run, next: &mut Vec<Mapper>) -> Result<OwnedFd, Fault> {
        let app = self.app.clone();
        let port = &app.settings.ports[app.desc.merges[self.number].to as usize];
        let mut why = Fault::new(WL_F_REFUSED as i32, "the reducer has no address");
        for addr in &port.addrs {
            let refused = |e: std::io::Error| {
                Fault::new(WL_F_REFUSED as i32, format!("no connection to the reducer {addr}: {e}"))
            };
            let fd = match socket::connect(*addr) {
                Ok(fd) => fd,
                Err(e) => {
                    why = refused(e);
                    continue;
                }
            };
            let end = limit(port.options.connect_timeout).map(|d| Instant::now() + d);
            loop {
                let mut fds = [self.bell.want(), socket::want(fd.as_raw_fd(), libc::POLLOUT)];
                socket::poll(&mut fds, end);
                if fds[0].revents != 0 {
                    self.bell.hush();
                }
                if self.ending() {
                    return Err(Fault::new(WL_F_CANCELLED as i32, "the service ended within a run"));
                }
                self.turn_away(run, next);
                if fds[1].revents != 0 {
                    match socket::connected(&fd, *addr) {
                        Ok(()) => {
                            self.setting.stats[0].apps[self.index].ports[app.desc.merges[self.number].to as usize]
                                .opened
                                .add(1);
                            return Ok(fd);
                        }
                        Err(e) => why = refused(e),
                    }
                    break;
                }
                if end.is_some_and(|e| Instant::now() >= e) {
                    why = refused(std::io::ErrorKind::TimedOut.into());
                    break;
                }
            }
        }
        Err(why)
    }

    fn buffer(&mut self, size: usize) -> Box<[u8]> {
        match self.buffers.iter().position(|b| b.len() == size) {
            Some(i) => self.buffers.swap_remove(i),
            None => vec![0; size].into_boxed_slice(),
        }
    }

    /// The plan as tasks: the root first, then its children, each with a pipe to it.
    fn tasks(
        &mut self,
        mappers: &[Mapper],
        reducer: OwnedFd,
        window: usize,
        block: usize,
    ) -> (Vec<TaskTools>, Vec<Arc<Pipe>>) {
        let MergePlan { children, .. } = plan(mappers.len(), self.setting.stats.len());
        let desc = &self.app.desc.merges[self.number];
        let mark = |port: u32| self.app.settings.ports[port as usize].options.end_mark;
        let (end_mark, end) = (mark(desc.to), EndMark { byte: mark(desc.from), kept: false });
        let root_nodes = self.take_nodes(0);
        let before = |nodes: &Option<Box<Nodes>>| Some(Before::new(self.places.before?, nodes.as_ref()?));
        let befores: Vec<_> = mappers.iter().map(|_| before(&root_nodes)).collect();
        let behind = root_nodes.as_ref().zip(self.places.behind);
        let behind = behind.map(|(nodes, handler)| Behind { handler, view: nodes.view(), sent: Vec::new() });
        let mut sockets = Vec::new();
        for ((number, m), before) in mappers.iter().enumerate().zip(befores) {
            let source = Source::Socket { number, fd: m.fd.as_raw_fd(), buffer: self.buffer(window), end, before };
            sockets.push(Input::new(source));
        }
        let mut sockets = sockets.into_iter();
        let (mut pipes, mut streams, mut below) = (Vec::new(), Vec::new(), Vec::new());
        for (c, share) in children.into_iter().enumerate() {
            let blocks = (0..BLOCKS).map(|_| self.buffer(block)).collect();
            let pipe = Arc::new(Pipe::new(blocks, self.bells[0].clone(), self.bells[c + 1].clone()));
            let inputs = sockets.by_ref().take(share).collect();
            let (sink, out, nodes) = (TaskSink::Pipe(pipe.clone()), self.buffer(block), self.take_nodes(c + 1));
            below.push(TaskTools { nodes, behind: None, inputs, sink, out, end_mark });
            streams.push(Input::new(Source::Pipe { pipe: pipe.clone(), block: None, joined: Vec::new() }));
            pipes.push(pipe);
        }
        let root = TaskTools {
            nodes: root_nodes,
            behind,
            inputs: streams.into_iter().chain(sockets).collect(),
            sink: TaskSink::Reducer(reducer),
            out: self.buffer(window),
            end_mark,
        };
        (std::iter::once(root).chain(below).collect(), pipes)
    }

    /// A task's share of the app, if nodes run in it.
    fn take_nodes(&mut self, task: usize) -> Option<Box<Nodes>> {
        let new = || Box::new(Nodes::new(&self.app, self.number, task, self.setting.stats.len()));
        self.places.any().then(|| self.nodes[task].take().unwrap_or_else(new))
    }
}

fn spoken(mappers: &[Mapper]) -> usize {
    mappers.iter().filter(|m| m.spoke).count()
}

/// A mark that could begin a message would make a stream that is cut there look whole.
fn check_end_mark(app: &App, port: u32) -> Result<(), Error> {
    let (port, settings) = (&app.desc.ports[port as usize], &app.settings.ports[port as usize]);
    let mark = settings.options.end_mark;
    let begins = port.protocols.iter().any(|p| app.desc.protocols[*p as usize].first.contains(&mark));
    if mark != 0 && begins {
        let shown = std::ascii::escape_default(mark);
        let text = format!(
            "port `{}`: the end mark '{shown}' can begin a message, so it cannot tell the end of a stream",
            port.name
        );
        return Err(Error::Param(text).at(Origin::of_app("set", &app.desc, &format!("{}.end_mark", port.name))));
    }
    Ok(())
}

/// A port option's time; 0 is no limit.
fn limit(ns: u64) -> Option<Duration> {
    (ns > 0).then(|| Duration::from_nanos(ns))
}
