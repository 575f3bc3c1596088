//! A task of a merge: some inputs, one output, on one core's thread.

use super::input::{Filled, Input, Source};
use super::nodes::{Nodes, WindowState};
use super::pipe::{Block, Pipe};
use super::socket::{self, Bell, Transferred};
use super::Fault;
use crate::abi::*;
use crate::program::Merge;
use crate::stats::{MergeStats, PortStats};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The state that the tasks of a run share.
pub struct Run {
    state: AtomicU8,
    fault: Mutex<Option<Fault>>,
    /// One per task, and the node's own.
    pub bells: Vec<Arc<Bell>>,
    pub node: Arc<Bell>,
}

const GOING: u8 = 0;
const COMPLETE: u8 = 1;
const FAILED: u8 = 2;

impl Run {
    pub fn new(bells: Vec<Arc<Bell>>, node: Arc<Bell>) -> Run {
        Run { state: AtomicU8::new(GOING), fault: Mutex::new(None), bells, node }
    }

    /// Ends the run, unless it has ended. The first fault is the one that counts: others follow
    /// from it.
    pub fn fail(&self, fault: Fault) {
        let mut first = self.fault.lock().unwrap_or_else(|e| e.into_inner());
        if self.state.compare_exchange(GOING, FAILED, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            *first = Some(fault);
        }
        drop(first);
        self.bells.iter().chain([&self.node]).for_each(|b| b.ring());
    }

    /// All is written. From here on, new connections belong to the next run.
    fn complete(&self) -> bool {
        self.state.compare_exchange(GOING, COMPLETE, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    pub fn going(&self) -> bool {
        self.state.load(Ordering::SeqCst) == GOING
    }

    fn failed(&self) -> bool {
        self.state.load(Ordering::SeqCst) == FAILED
    }

    pub fn into_fault(self) -> Option<Fault> {
        self.fault.into_inner().unwrap_or_else(|e| e.into_inner())
    }
}

/// Where a task's output goes.
pub enum TaskSink {
    Reducer(OwnedFd),
    Pipe(Arc<Pipe>),
}

/// Longest waits; None: for ever.
#[derive(Clone, Copy)]
pub struct Limits {
    pub read: Option<Duration>,
    pub write: Option<Duration>,
}

/// The counters of a task: those of the node and its ports, of the task's core.
#[derive(Clone, Copy)]
pub struct Counts<'a> {
    pub merge: &'a MergeStats,
    pub from: &'a PortStats,
    pub to: &'a PortStats,
}

/// The nodes behind the merge, at the root: the handler, and what it has sent.
pub struct Behind {
    pub handler: u32,
    pub view: WindowState,
    pub sent: Vec<u8>,
}

/// The tools of a task. `out` has room for two messages at least.
pub struct TaskTools {
    /// Of a merge with nodes before or behind it.
    pub nodes: Option<Box<Nodes>>,
    pub behind: Option<Behind>,
    pub inputs: Vec<Input>,
    pub sink: TaskSink,
    pub out: Box<[u8]>,
    /// Written to the reducer behind the last message; 0: nothing.
    pub end_mark: u8,
}

pub struct Worker<'a> {
    run: &'a Run,
    number: usize,
    merge: Merge,
    limits: Limits,
    counts: Counts<'a>,
    bell: Arc<Bell>,
    inputs: Vec<Input>,
    /// Messages of each input that were counted.
    read: Vec<u64>,
    windows: Vec<wl_window>,
    state: Box<[u64]>,
    sink: TaskSink,
    out: Box<[u8]>,
    end_mark: u8,
    have: usize,
    nodes: Option<Box<Nodes>>,
    behind: Option<Behind>,
}

/// The run is over for a reason that is already noted, or for this one.
pub enum Stopped {
    Over,
    Fault(Fault),
}

type Res<T> = Result<T, Stopped>;

fn fault<T>(kind: i32, text: impl Into<String>) -> Res<T> {
    Err(Stopped::Fault(Fault::new(kind, text)))
}

/// The rest of a task that is done: its memory, and the reducer's connection if it had it.
pub struct Left {
    /// The task's.
    pub number: usize,
    pub buffers: Vec<Box<[u8]>>,
    pub reducer: Option<OwnedFd>,
    pub nodes: Option<Box<Nodes>>,
}

impl<'a> Worker<'a> {
    /// `number`: which task of the run.
    pub fn new(
        run: &'a Run,
        number: usize,
        merge: Merge,
        limits: Limits,
        counts: Counts<'a>,
        parts: TaskTools,
    ) -> Worker<'a> {
        let TaskTools { nodes, behind, inputs, sink, out, end_mark } = parts;
        let windows = vec![wl_window::default(); inputs.len()];
        let state = crate::large_pages::words(merge.state_size);
        let bell = run.bells[number].clone();
        let read = vec![0; inputs.len()];
        let have = 0;
        Worker {
            number,
            read,
            run,
            merge,
            limits,
            counts,
            bell,
            inputs,
            windows,
            state,
            sink,
            out,
            end_mark,
            have,
            nodes,
            behind,
        }
    }

    /// Runs to the end of the inputs, or of the run.
    pub fn work(mut self) -> Left {
        match self.merge_all().and_then(|()| self.finish()) {
            Ok(()) | Err(Stopped::Over) => {}
            Err(Stopped::Fault(f)) => self.run.fail(f),
        }
        (0..self.inputs.len()).for_each(|k| self.count_messages(k));
        let reducer = match self.sink {
            TaskSink::Reducer(fd) => Some(fd),
            TaskSink::Pipe(_) => None,
        };
        let mut buffers: Vec<_> = self.inputs.into_iter().filter_map(Input::into_buffer).collect();
        buffers.push(self.out);
        Left { number: self.number, buffers, reducer, nodes: self.nodes }
    }

    fn merge_all(&mut self) -> Res<()> {
        loop {
            let mut at = wl_merge_at::default();
            let verdict = self.step(&mut at);
            self.have += (at.used as usize).min(self.out.len() - self.have);
            if matches!(self.sink, TaskSink::Reducer(_)) && self.behind.is_none() {
                self.count_sent(at.messages);
            }
            match verdict {
                WL_G_DRY if (at.input as usize) < self.inputs.len() => self.fill(at.input as usize)?,
                WL_G_FULL => self.flush()?,
                WL_G_DONE => return self.end_output(),
                _ => return self.bad(&at),
            }
            if self.run.failed() {
                return Err(Stopped::Over);
            }
        }
    }

    fn count_sent(&self, messages: u32) {
        self.counts.merge.messages_out.add(u64::from(messages));
        self.counts.to.requests.add(u64::from(messages));
    }

    /// Hands on what is left, with the mark that says to the reducer that it is all.
    fn end_output(&mut self) -> Res<()> {
        let (TaskSink::Reducer(fd), true) = (&self.sink, self.end_mark != 0) else { return self.flush() };
        let fd = fd.as_raw_fd();
        // The mark is no message: the nodes do not see it.
        if self.behind.is_some() || self.have == self.out.len() {
            self.flush()?;
        }
        self.out[self.have] = self.end_mark;
        self.have += 1;
        self.send_out(fd)
    }

    fn step(&mut self, at: &mut wl_merge_at) -> i32 {
        let out = &mut self.out[self.have..];
        // SAFETY: the state has the size asked for and is aligned to 8. Every window names its
        // buffer's first n bytes; `out` has the room given.
        unsafe { self.merge.run(self.state.as_mut_ptr().cast(), &mut self.windows, out, at) }
    }

    fn bad(&mut self, at: &wl_merge_at) -> Res<()> {
        let k = at.input as usize;
        let behind = if self.inputs.get(k).and_then(Input::before).is_some() { " behind the nodes" } else { "" };
        let (name, message) = (self.name(k), self.message(k));
        let text = if at.fault == WL_F_TRUNCATED && self.is_marked(k) {
            // The last byte passes for the mark, though it may have been the end of a message.
            format!("{name} ended within message {message}, or behind it without the end mark of a whole stream")
        } else {
            format!("{name}: message {message}{behind} cannot be merged")
        };
        Err(Stopped::Fault(Fault { kind: at.fault, place: at.place, text }))
    }

    fn name(&self, input: usize) -> String {
        match self.inputs.get(input).map(|i| &i.source) {
            Some(Source::Socket { number, fd, .. }) => {
                let peer = crate::engine::common::peer_address(*fd).map_or_else(String::new, |a| format!(" ({a})"));
                format!("input {number}{peer}")
            }
            _ => format!("input {input}"),
        }
    }

    /// Whether a byte marks the end of an input's stream.
    fn is_marked(&self, input: usize) -> bool {
        matches!(self.inputs.get(input).map(|i| &i.source), Some(Source::Socket { end, .. }) if end.byte != 0)
    }

    /// The number of the message at hand of an input, from 1.
    fn message(&self, k: usize) -> u64 {
        let now = self.windows.get(k).map_or(0, |w| u64::from(w.messages));
        self.read.get(k).map_or(0, |n| n + now + 1)
    }

    /// More bytes, or the end, for an input that has run dry. Finished output leaves before a wait.
    fn fill(&mut self, k: usize) -> Res<()> {
        let begin = Instant::now();
        loop {
            if self.read(k)? {
                return Ok(());
            }
            if self.have > 0 {
                self.flush()?;
                // A pipe may have rung the bell while the flush slept: look again before sleeping
                // on.
                continue;
            }
            let end = self.limits.read.map(|d| begin + d);
            if end.is_some_and(|e| Instant::now() >= e) {
                return fault(WL_F_IDLE as i32, format!("{} sent nothing for too long", self.name(k)));
            }
            let fd = match &self.inputs[k].source {
                Source::Socket { fd, .. } => Some(socket::want(*fd, libc::POLLIN)),
                Source::Pipe { .. } => None,
            };
            // A task that waits for another leaves the time limit to that one.
            self.wait(fd, if fd.is_some() { end } else { None })?;
        }
    }

    /// Reads an input once; false if there is nothing yet.
    fn read(&mut self, k: usize) -> Res<bool> {
        match self.inputs[k].fill(&mut self.windows[k], self.nodes.as_deref_mut()) {
            Filled::More(n) => {
                if matches!(self.inputs[k].source, Source::Socket { .. }) {
                    self.counts.merge.bytes_in.add(n as u64);
                    self.counts.from.bytes_in.add(n as u64);
                    self.count_messages(k);
                }
                Ok(true)
            }
            Filled::End => Ok(true),
            Filled::Later => Ok(false),
            Filled::Cut => {
                fault(WL_F_TRUNCATED as i32, format!("{} ended without the end mark of a whole stream", self.name(k)))
            }
            Filled::Broken(e) => fault(WL_F_LOST as i32, format!("{} was lost: {e}", self.name(k))),
            Filled::Bad(f) => {
                let message = self.inputs[k].before().map_or(0, |b| b.handled + 1);
                let text = format!("{}: message {message} cannot be handled", self.name(k));
                Err(Stopped::Fault(Fault { text, ..f }))
            }
        }
    }

    /// Of mappers only: what comes from another task was counted there.
    fn count_messages(&mut self, k: usize) {
        let merged = std::mem::take(&mut self.windows[k].messages);
        self.read[k] += u64::from(merged);
        let n = self.inputs[k].take_messages(merged);
        self.counts.merge.messages_in.add(n);
        self.counts.from.requests.add(n);
        if let Some(nodes) = &self.nodes {
            nodes.show_counters(&self.counts.merge.counters);
        }
    }

    /// Hands on all that is written.
    fn flush(&mut self) -> Res<()> {
        if self.have == 0 {
            return Ok(());
        }
        match &self.sink {
            TaskSink::Reducer(fd) if self.behind.is_some() => self.send_handled(fd.as_raw_fd()),
            TaskSink::Reducer(fd) => self.send_out(fd.as_raw_fd()),
            TaskSink::Pipe(pipe) => {
                let pipe = pipe.clone();
                let next = loop {
                    match pipe.take_empty() {
                        Some(b) => break b,
                        None => self.wait(None, None)?,
                    }
                };
                let bytes = std::mem::replace(&mut self.out, next);
                pipe.push(Block { bytes, len: std::mem::take(&mut self.have) });
                Ok(())
            }
        }
    }

    fn send_out(&mut self, fd: RawFd) -> Res<()> {
        let out = std::mem::take(&mut self.out);
        let done = self.send_all(fd, &out[..self.have]);
        (self.out, self.have) = (out, 0);
        done
    }

    /// The messages at hand run through the nodes behind the merge, and what these send goes out.
    fn send_handled(&mut self, fd: RawFd) -> Res<()> {
        let (Some(mut nodes), Some(mut behind)) = (self.nodes.take(), self.behind.take()) else { return Ok(()) };
        // The merge writes whole messages: none goes on in the next block.
        let mut w = wl_window { buf: self.out.as_ptr(), n: self.have as u32, eof: 1, ..wl_window::default() };
        let most = self.out.len();
        let mut done = Ok(());
        while done.is_ok() && w.pos < w.n {
            let handled = nodes.run(behind.handler, &mut w, &mut behind.view, (&mut behind.sent, most));
            done = match handled {
                Ok(messages) => {
                    self.count_sent(messages);
                    self.send_all(fd, &behind.sent)
                }
                Err(f) => Err(Stopped::Fault(Fault { text: "a merged message cannot be handled".into(), ..f })),
            };
            behind.sent.clear();
        }
        self.have = 0;
        (self.nodes, self.behind) = (Some(nodes), Some(behind));
        done
    }

    fn send_all(&mut self, fd: RawFd, bytes: &[u8]) -> Res<()> {
        let (mut sent, mut moved) = (0, Instant::now());
        while sent < bytes.len() {
            match socket::send(fd, &bytes[sent..]) {
                Transferred::Bytes(n) => {
                    sent += n;
                    self.counts.merge.bytes_out.add(n as u64);
                    self.counts.to.bytes_out.add(n as u64);
                    if sent < bytes.len() && self.limits.write.is_some() {
                        moved = Instant::now();
                    }
                }
                Transferred::Broken(e) => return fault(WL_F_LOST as i32, format!("the reducer was lost: {e}")),
                Transferred::Blocked | Transferred::End => {
                    let end = self.limits.write.map(|d| moved + d);
                    if end.is_some_and(|e| Instant::now() >= e) {
                        return fault(WL_F_TIMEOUT as i32, "the reducer took nothing for too long");
                    }
                    self.wait(Some(socket::want(fd, libc::POLLOUT)), end)?;
                }
            }
        }
        Ok(())
    }

    /// Waits for `fd` or the bell, and meanwhile sees to it that a broken mapper or reducer is
    /// noticed.
    fn wait(&mut self, fd: Option<libc::pollfd>, end: Option<Instant>) -> Res<()> {
        let mut fds = vec![self.bell.want()];
        fds.extend(fd);
        let fixed = fds.len();
        let awaited = fd.map_or(-1, |f| f.fd);
        let reducer = match &self.sink {
            TaskSink::Reducer(r) if r.as_raw_fd() != awaited => Some(socket::want(r.as_raw_fd(), 0)),
            _ => None,
        };
        fds.extend(reducer);
        let mut who = Vec::new();
        for (k, input) in self.inputs.iter().enumerate() {
            if let (Source::Socket { fd, .. }, true) = (&input.source, input.watched) {
                if *fd != awaited {
                    fds.push(socket::want(*fd, 0));
                    who.push(k);
                }
            }
        }
        socket::poll(&mut fds, end);
        if fds[0].revents != 0 {
            self.bell.hush();
            if self.run.failed() {
                return Err(Stopped::Over);
            }
        }
        if reducer.is_some() && fds[fixed].revents != 0 {
            return fault(WL_F_LOST as i32, "the reducer was lost");
        }
        let first = fixed + usize::from(reducer.is_some());
        for (f, k) in fds[first..].iter().zip(who) {
            if f.revents != 0 {
                self.look_at_broken(k)?;
            }
        }
        Ok(())
    }

    /// An input that is not awaited reports an error or hang-up: only reading on tells whether its
    /// stream is whole.
    fn look_at_broken(&mut self, k: usize) -> Res<()> {
        if !self.inputs[k].has_room(&self.windows[k]) {
            self.inputs[k].watched = false;
            return Ok(());
        }
        self.read(k).map(drop)
    }

    /// Tells whoever reads our output that this is its end.
    fn finish(&mut self) -> Res<()> {
        match &self.sink {
            TaskSink::Pipe(pipe) => pipe.end(),
            TaskSink::Reducer(fd) => {
                if !self.run.complete() {
                    return Err(Stopped::Over);
                }
                // Bytes of the reducer are read, or closing would reset the connection.
                let mut scrap = [0; 4096];
                for _ in 0..256 {
                    if !matches!(socket::receive(fd.as_raw_fd(), &mut scrap, 0), Transferred::Bytes(_)) {
                        break;
                    }
                }
                socket::close_in_order(fd.as_raw_fd());
                crate::engine::common::half_close(fd.as_raw_fd());
            }
        }
        Ok(())
    }
}
