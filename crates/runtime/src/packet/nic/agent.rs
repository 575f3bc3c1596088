//! The agent: a thread of the CPU's process that looks after the process of the NIC.
//!
//! It starts that process, shows its counters, has signals run on its cores, and passes on the end.
//! A process that has ended too early is started again, after a while if it did not live long. A
//! run on captures cannot go on without it, and ends with an error.

use super::channel::Channel;
use super::mirror::Mirror;
use super::role::{told, VARIABLE};
use super::shared::Joint;
use crate::clock;
use crate::core::app::App;
use crate::engine::common;
use crate::engine::Waker;
use crate::error::Error;
use crate::packet::board::stage;
use crate::server::options::Stop;
use crate::signal::{HandlerFault, Mailbox};
use crate::stats::CoreStats;
use serde_json::{json, Value};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wireloom_ir::desc::ParamValue;

/// The variable of the environment with the command of the NIC's process.
const COMMAND: &str = "WIRELOOM_NIC_COMMAND";

/// Between two looks at the counters.
const LOOK: Duration = Duration::from_millis(20);
/// To compile a program takes a while.
const START_WAIT: Duration = Duration::from_secs(300);
/// A core answers after its batch.
const ANSWER_WAIT: Duration = Duration::from_secs(20);
/// A process that has said that it ends is gone by then.
const END_WAIT: Duration = Duration::from_secs(10);
/// So many starts in a row may each end within `SHORT`.
const TRIES: u32 = 5;
const SHORT: Duration = Duration::from_secs(2);

/// (app, port, binding).
pub type Ports = Vec<(String, String, String)>;

/// The agent's means.
pub struct Work {
    pub joint: Arc<Joint>,
    pub app: Arc<App>,
    pub stats: Arc<Vec<CoreStats>>,
    /// Of the NIC's cores.
    pub boxes: Vec<(usize, Arc<Mailbox>)>,
    pub stop: Stop,
    /// Captures are read: who has lost a part of them cannot begin again.
    pub captures: bool,
}

/// The agent and its process; when dropped before the end, both are ended.
pub struct Agent {
    pub ports: Ports,
    bell: Arc<OwnedFd>,
    thread: Option<std::thread::JoinHandle<Result<(), String>>>,
    stop: Stop,
}

impl Agent {
    /// Starts the process, and waits until its ports are open.
    pub fn start(work: Work) -> Result<Agent, Error> {
        let fail = |e| Error::Io("cannot start the process of the NIC".into(), e);
        let bell = Arc::new(common::bell(libc::EFD_NONBLOCK).map_err(fail)?);
        let stop = work.stop.clone();
        let (tx, rx) = std::sync::mpsc::channel();
        let heard = bell.clone();
        // The process ends with the thread that has started it.
        let run = move || {
            let mut agent = AgentRun::new(work, heard)?;
            match agent.start(false) {
                Ok(ports) => drop(tx.send(Ok(ports))),
                Err(Failed::Ended(e) | Failed::Said(e)) => {
                    drop(tx.send(Err(e)));
                    return Ok(());
                }
            }
            agent.run()
        };
        let thread = std::thread::Builder::new().name("nic".into()).spawn(run).map_err(fail)?;
        match rx.recv() {
            Ok(Ok(ports)) => Ok(Agent { ports, bell, thread: Some(thread), stop }),
            Ok(Err(e)) => {
                let _ = thread.join();
                Err(Error::Program(e))
            }
            Err(_) => Err(Error::Program("the agent of the NIC has ended".into())),
        }
    }

    pub fn waker(&self) -> Waker {
        Waker(Some(self.bell.clone()))
    }

    pub fn ended(&self) -> bool {
        self.thread.as_ref().is_none_or(std::thread::JoinHandle::is_finished)
    }

    /// Waits for the end.
    pub fn finish(&mut self) -> Result<(), String> {
        match self.thread.take().map(std::thread::JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(e))) => Err(e),
            Some(Err(_)) => Err("the agent of the NIC has ended".into()),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop.end();
            common::ring(&self.bell);
            let _ = self.finish();
        }
    }
}

/// The other process.
struct OtherProcess {
    child: Child,
    channel: Channel,
    since: Instant,
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// This executable, or one for another processor: `qemu-aarch64 -L /usr/aarch64-linux-gnu FILE`.
fn command_of(words: Option<&str>) -> Command {
    let mut words = words.into_iter().flat_map(str::split_whitespace);
    let mut command = Command::new(words.next().unwrap_or("/proc/self/exe"));
    command.args(words);
    command
}

impl OtherProcess {
    fn start(joint: &Joint, anew: bool) -> io::Result<OtherProcess> {
        let (channel, there) = Channel::pair()?;
        let files: Vec<RawFd> = std::iter::once(there.as_raw_fd()).chain(joint.files()).collect();
        let mut args = std::env::args_os();
        let mut command = command_of(std::env::var(COMMAND).ok().as_deref());
        if let Some(name) = args.next().filter(|_| std::env::var_os(COMMAND).is_none()) {
            command.arg0(name);
        }
        command.args(args).env(VARIABLE, told(anew, &files)).envs([clock::shared()]).stdin(Stdio::null());
        let inherit = move || {
            // SAFETY: plain system calls, as they are allowed between fork and exec.
            unsafe {
                common::check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
                for fd in &files {
                    common::check(libc::fcntl(*fd, libc::F_SETFD, 0))?;
                }
            }
            Ok(())
        };
        // SAFETY: the closure allocates nothing and takes no locks.
        let child = unsafe { command.pre_exec(inherit) }.spawn()?;
        Ok(OtherProcess { child, channel, since: Instant::now() })
    }

    /// How it has ended, if it has, or does within the time.
    fn status(&mut self, wait: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + wait;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
                _ => return None,
            }
        }
    }
}

/// Why there is no process.
enum Failed {
    /// It has ended without a word.
    Ended(String),
    Said(String),
}

struct AgentRun {
    work: Work,
    bell: Arc<OwnedFd>,
    peer: Option<OtherProcess>,
    mirrors: Vec<(usize, Mirror)>,
    /// The last word to the process: 0 to run, 1 to drain, 2 to end.
    told: u8,
    /// It has said that it has ended in order, or why not.
    said: Option<Result<(), String>>,
    short: u32,
    /// Signals that it was asked to run.
    asked: u64,
}

impl AgentRun {
    fn new(work: Work, bell: Arc<OwnedFd>) -> Result<AgentRun, String> {
        let mirrors =
            work.boxes.iter().map(|(k, _)| (*k, Mirror::new(work.joint.layout.core_words, &work.app.desc))).collect();
        Ok(AgentRun { work, bell, peer: None, mirrors, told: 0, said: None, short: 0, asked: 0 })
    }

    /// Starts the process; its ports, when they are open.
    fn start(&mut self, anew: bool) -> Result<Ports, Failed> {
        let said = |e: io::Error| Failed::Said(format!("cannot start the process of the NIC: {e}"));
        let mut peer = OtherProcess::start(&self.work.joint, anew).map_err(said)?;
        let begin = Instant::now();
        loop {
            match peer.channel.receive(LOOK) {
                Ok(Some(m)) if m["is"] == "ready" => {
                    self.peer = Some(peer);
                    return Ok(serde_json::from_value(m["ports"].clone()).unwrap_or_default());
                }
                Ok(Some(m)) if m["is"] == "ended" => {
                    let why = m["error"].as_str().unwrap_or("the process of the NIC has ended");
                    return Err(Failed::Said(why.into()));
                }
                Ok(_) if self.work.stop.ended() || begin.elapsed() > START_WAIT => {
                    return Err(Failed::Said("the process of the NIC did not start".into()))
                }
                Ok(_) => {}
                Err(_) => return Err(Failed::Ended(ended_how(peer.status(END_WAIT)))),
            }
        }
    }

    fn run(&mut self) -> Result<(), String> {
        loop {
            self.wait();
            self.mirror();
            self.serve();
            self.pass_on();
            let alive = self.hear(Duration::ZERO).is_ok();
            if self.said.is_some() {
                return self.finish();
            }
            if !alive {
                self.died()?;
            }
            if self.peer.is_none() {
                return Ok(());
            }
        }
    }

    /// The process has said that it ends.
    fn finish(&mut self) -> Result<(), String> {
        let said = self.said.take().unwrap_or(Ok(()));
        self.mirror();
        if let Some(peer) = &mut self.peer {
            peer.status(END_WAIT);
        }
        self.peer = None;
        self.work.joint.gone.store(true, Relaxed);
        if said.is_err() {
            self.work.stop.end();
        }
        said
    }

    fn wait(&self) {
        let Some(peer) = &self.peer else { return };
        let fd = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds = [fd(self.bell.as_raw_fd()), fd(peer.channel.fd())];
        let mut count = 0u64;
        // SAFETY: two pollfds and eight bytes that live here; the bell does not block.
        unsafe {
            libc::poll(fds.as_mut_ptr(), 2, LOOK.as_millis() as i32);
            libc::read(self.bell.as_raw_fd(), (&raw mut count).cast(), 8);
        }
    }

    fn mirror(&mut self) {
        for (core, mirror) in &mut self.mirrors {
            mirror.look(self.work.joint.core_words(*core), &self.work.stats[*core]);
        }
    }

    /// Signals for the NIC's cores.
    fn serve(&mut self) {
        let boxes = self.work.boxes.clone();
        for (core, mailbox) in boxes {
            mailbox.serve(|_, handler, args| self.signal(core, handler, args));
        }
    }

    fn signal(&mut self, core: usize, handler: u32, args: &[ParamValue]) -> Result<Vec<u8>, HandlerFault> {
        let refused = (crate::abi::WL_F_REFUSED, crate::stats::NO_PLACE);
        let Some(peer) = self.peer.as_mut().filter(|_| self.said.is_none()) else { return Err(refused) };
        self.asked += 1;
        let asked = json!({ "do": "signal", "id": self.asked, "core": core, "handler": handler, "args": args });
        peer.channel.send(&asked).map_err(|_| refused)?;
        let answer = self.hear(ANSWER_WAIT).ok().flatten().ok_or(refused)?;
        let fault = |n: usize| answer["fault"][n].as_u64().unwrap_or(0) as u32;
        match answer["fault"].is_array() {
            true => Err((fault(0), fault(1))),
            false => serde_json::from_value(answer["result"].clone()).map_err(|_| refused),
        }
    }

    /// Takes in messages until an answer comes, or none for so long. An error: the process is gone.
    fn hear(&mut self, wait: Duration) -> io::Result<Option<Value>> {
        let end = Instant::now() + wait;
        loop {
            let Some(peer) = &mut self.peer else { return Ok(None) };
            let Some(m) = peer.channel.receive(end.saturating_duration_since(Instant::now()))? else { return Ok(None) };
            match m["is"].as_str() {
                // An answer that comes too late is no answer to another question.
                Some("answer") if m["id"] == self.asked => return Ok(Some(m)),
                // Somebody has told the other process to end: both do.
                Some("stop") => self.work.stop.drain(),
                Some("ended") => {
                    self.said = Some(m["error"].as_str().map_or(Ok(()), |e| Err(e.to_string())));
                    return Ok(None);
                }
                _ => {}
            }
        }
    }

    /// Tells the process that the run drains or ends.
    fn pass_on(&mut self) {
        let state = if self.work.stop.ended() { 2 } else { u8::from(!self.work.stop.running()) };
        let Some(peer) = self.peer.as_mut().filter(|_| state > self.told) else { return };
        self.told = state;
        // If it is gone, `hear` finds out.
        let _ = peer.channel.send(&json!({ "do": if state == 2 { "end" } else { "drain" } }));
    }

    /// The process has ended without a word.
    fn died(&mut self) -> Result<(), String> {
        let Some(mut peer) = self.peer.take() else { return Ok(()) };
        self.mirror();
        let mut how = ended_how(peer.status(END_WAIT));
        let mut short = peer.since.elapsed() < SHORT;
        drop(peer);
        loop {
            self.short = if short { self.short + 1 } else { 0 };
            if let Some(why) = self.no_more() {
                self.give_up();
                return Err(format!("{how}, {why}"));
            }
            log::error!("{how}; it is started again. Packets and tables that it had are lost");
            if self.short > 1 {
                self.rest(Duration::from_millis(100 << self.short));
            }
            match self.start_anew() {
                Ok(()) => return Ok(()),
                Err(Failed::Said(e)) => {
                    self.give_up();
                    return Err(e);
                }
                Err(Failed::Ended(e)) => (how, short) = (e, true),
            }
        }
    }

    /// Why it is not started again.
    fn no_more(&self) -> Option<&'static str> {
        match () {
            () if !self.work.stop.running() => Some("while the run ended"),
            () if self.work.captures => Some("and a run on captures cannot begin in their middle"),
            () if self.short >= TRIES => Some("again and again"),
            () => None,
        }
    }

    fn start_anew(&mut self) -> Result<(), Failed> {
        self.work.joint.restarts.fetch_add(1, Relaxed);
        let board = self.work.joint.board();
        for (core, mirror) in &mut self.mirrors {
            board.forget(*core);
            mirror.forget(self.work.joint.core_words(*core));
        }
        self.start(true).map(drop)
    }

    /// Waits before another start, unless the run ends.
    fn rest(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && self.work.stop.running() {
            std::thread::sleep(LOOK);
        }
    }

    /// Nobody is there any more: the other cores do not wait for the NIC's.
    fn give_up(&mut self) {
        self.work.joint.gone.store(true, Relaxed);
        let board = self.work.joint.board();
        for (core, _) in &self.mirrors {
            board.reach(*core, stage::HANDLED);
            board.upstream(*core).end();
        }
        self.work.stop.end();
    }
}

fn ended_how(status: Option<ExitStatus>) -> String {
    let how = match status.map(|s| (s.signal(), s.code())) {
        Some((Some(signal), _)) => format!("by signal {signal}"),
        Some((_, Some(code))) => format!("with exit code {code}"),
        _ => "without a word".into(),
    };
    format!("the process of the NIC has ended {how}")
}
