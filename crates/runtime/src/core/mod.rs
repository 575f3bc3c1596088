//! One core: everything between the engine's events and the program's handlers.
//!
//! In: batches of [`Event`]s. Out: writes, once per connection and batch. Between them, run to
//! completion:
//!
//! ```text
//! bytes ─ input ─ message ─ task ─ call ─ backend connection ─ reply ─ task ─ slot ─ client
//! connection ─ flush
//! ```
//!
//! `input` cuts bytes into messages in the engine's own buffer. `client` starts tasks and keeps
//! replies in order. `task` runs handlers, and `host` has the functions that they call.
//! `suspension` keeps tasks that wait for answers. `dispatch` and `backend` move requests and
//! answers. `pool` chooses connections, and `health` keeps the state of backends. `tail` streams
//! messages that are too long to hold. `pipeline` shares connections of exclusive protocols by the
//! rules of `pipelining_policy`, `answers_by_id` those of protocols whose answers carry ids.
//! `large_answers` gives large answers of pipelined protocols connections of their own.
//! `conversation` ties the backend connections of a client to it.
//! `handles` sends messages to other clients, through `inbox` to those of other cores.
//! `connection_limit` makes clients wait, `turns` shares the core's time.
//! `new_settings` takes settings that were read again, `gone_servers` lists of servers.
//! `fault`, `timeouts` and `flush` do as their names say. Nothing here knows sockets.
//!
//! Handlers run inside `task::run` only. The host functions that they call never run a handler,
//! parse, or close a connection. They append, link, and mark (`DIRTY`, `DOOMED`, `AGAIN`). `step`
//! works off the marks.

mod answers_by_id;
pub mod app;
mod asks;
mod backend;
mod barrier;
mod become_protocol;
mod body_pieces;
mod client;
mod connection_limit;
pub mod connection_moves;
mod conversation;
mod conversation_ends;
mod conversation_events;
mod conversation_faults;
mod datagrams;
mod dispatch;
mod drain;
mod ejection;
mod entry_waits;
mod failover;
mod failure_log;
pub mod fault;
mod flush;
pub mod footprint;
mod gone_servers;
mod greeting;
mod handler_stack;
mod handles;
mod health;
mod held_body;
mod host;
pub mod inbox;
mod input;
pub mod input_coalescing;
mod large_answers;
mod message_runs;
mod new_settings;
mod owed_answers;
mod piece_state;
mod pieces;
mod pipeline;
mod pipelining_policy;
mod pool;
mod pool_logins;
mod ports;
mod questions;
mod request_numbers;
mod request_records;
pub mod seen_settings;
mod session_pools;
pub(crate) mod signal;
pub mod slab;
pub mod stacks;
mod stream_items;
mod suspension;
mod tail;
mod task;
mod timeouts;
mod turns;
pub mod types;
mod views;
mod waiting_messages;

#[cfg(test)]
mod tests;

use crate::abi::wl_fault;
use crate::buffer::{ChunkPool, ChunkQueue, PoolLimits};
use crate::clock;
use crate::engine::{Engine, Event, Token};
use crate::stats::CoreStats;
use crate::timer::Wheel;
use app::{App, AppCore};
use slab::{Id, Slab};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use types::{Call, Conn, Slot, Task};
use wireloom_ir::desc::CoreKind;

/// Output of one connection beyond which its sources are paused, and below which they go on.
pub const HIGH: usize = 64 << 10;
pub const LOW: usize = HIGH / 2;
/// Unparsed input of a stalled connection beyond which reading is paused.
const INPUT_HIGH: usize = 32 << 10;
/// Messages of one connection in one turn, if its slice of time lasts so long; the rest waits for
/// the next.
const SLICE_MESSAGES: u32 = 128;
/// Replies of one client under way: outstanding times the largest recent one stays about below
/// this.
const REPLY_BUDGET: u64 = 1 << 20;
/// The assumed size of a reply before the first was seen; forgotten within a few dozen replies.
const REPLY_GUESS: u32 = 32 << 10;
/// Reply bytes stored for one client (out of turn, or not taken) beyond which it is cut off.
const STORED_MAX: usize = 32 << 20;
/// Requests waiting on one backend connection, and for one exclusive backend.
const PENDING_MAX: u32 = 65_536;
const WAITERS_MAX: usize = 4096;
/// Unsent request bytes to one backend beyond which further calls fail.
const BACKEND_OUT_MAX: usize = 16 << 20;
/// A lingering connection is read this long, and this much.
const LINGER_NS: u64 = 2_000_000_000;
/// Most connections that follow each other while a core shuts.
const SHUT_ROUNDS: usize = 64;
/// The same in a drain, which must come to an end.
const DRAIN_LINGER_NS: u64 = 500_000_000;

/// Bytes that stay where they are until the next poll (or while the owner of the buffer says so).
#[derive(Clone, Copy)]
struct Raw {
    p: *const u8,
    n: usize,
}

impl Raw {
    fn of(s: &[u8]) -> Raw {
        Raw { p: s.as_ptr(), n: s.len() }
    }
    /// # Safety
    /// The memory that `of` was given must still be valid.
    unsafe fn slice<'a>(self) -> &'a [u8] {
        // SAFETY: by contract.
        unsafe { std::slice::from_raw_parts(self.p, self.n) }
    }
    /// None of them, at their beginning.
    fn none(self) -> Raw {
        Raw { n: 0, ..self }
    }
    fn from(self, off: usize) -> Raw {
        debug_assert!(off <= self.n);
        // SAFETY: within the same memory.
        Raw { p: unsafe { self.p.add(off) }, n: self.n - off }
    }
}

pub struct Core {
    pub engine: Box<dyn Engine>,
    pub pool: ChunkPool,
    pub stats: Arc<Vec<CoreStats>>,
    index: usize,
    now: u64,
    /// The lead of the clock of the day, if that was set.
    ahead: u64,
    wheel: Wheel,
    pace: input_coalescing::Pace,
    pub(crate) apps: Vec<AppCore>,
    pub(crate) conns: Slab<Conn>,
    tasks: Slab<Task>,
    slots: Slab<Slot>,
    calls: Slab<Call>,
    /// By a token's index: of connections, and of datagrams.
    by_token: [Vec<Id>; 2],
    listeners: Vec<connection_limit::Listener>,
    dirty: Vec<Id>,
    /// Those of which the next batch writes more.
    written_later: Vec<Id>,
    stacks: handler_stack::HandlerStacks,
    lent: input::Lent,
    moving: connection_moves::Moving,
    reach: handles::Reach,
    /// Large requests that wait for a barrier to be made, or whose barrier is passed.
    held_back: Vec<Id>,
    /// Servers to which requests wait for ids.
    short_of_ids: Vec<types::Target>,
    /// Rounds of `failover` begun, and the servers seen in one.
    rounds: u32,
    seen: Vec<bool>,
    /// Until when the time of this core is accounted for, and the app whose turn is next.
    stamp: u64,
    turn: usize,
    /// The processor's time up to the last long turn.
    worked: u64,
    /// Output queues of closed connections that the engine still reads.
    graveyard: Vec<(Token, ChunkQueue)>,
    faults: Vec<(u16, wl_fault)>,
    /// Connection attempts that failed at once.
    failures: Vec<types::Target>,
    /// Most connections of a port that are refused at a time.
    told_max: usize,
    /// Most connections of a listening port, by the descriptors that this process may have.
    room: u32,
    /// Settings that were read again.
    settings: new_settings::TakenSettings,
    /// When it may be said again that no connection can be opened.
    want_told: u64,
    /// The result of the current signal.
    result: Option<Vec<u8>>,
    last_fault: crate::signal::HandlerFault,
    /// An answer with its client's id put back.
    patch: Vec<u8>,
    /// A datagram whose bytes lay in pieces.
    datagram: Vec<u8>,
    events: Vec<Event>,
    /// Whether the last batch had any.
    had_events: bool,
    fired: Vec<u64>,
    /// Tasks that wait for entries of tables.
    entry_waits: entry_waits::EntryWaits,
    /// Tasks of events of conversations that wait for answers.
    event_waits: conversation_events::EventWaits,
    /// Upstreams that have changed their protocol while they were asked.
    unspoken: Vec<Id>,
    /// Faults that clients of conversations were told of.
    faults_told: u64,
    /// For bodies that are held.
    bodies: held_body::Bodies,
    /// Of sessions.
    pools: session_pools::SessionPools,
    /// The piece at hand of a body that has a handler.
    at_hand: piece_state::AtHand,
    /// By side: clients have consecutive numbers, which programs use to take turns.
    next_conn_id: [u64; 2],
    /// The service ends; from this time on, idle connections are closed.
    draining: bool,
    /// The tasks of end handlers.
    ending: Vec<Id>,
    drain_idle_at: u64,
    drain_closed: bool,
    /// When idle conversations are looked for next.
    drain_look_at: u64,
    /// How long connections to servers that are gone may last.
    gone_limit: u64,
    gone_due: u64,
    virtual_time: bool,
    housekeeping: u64,
    /// Apps here whose packets are handled by another group of cores: the numbers of that one, and
    /// the app's place among them.
    partners: Vec<(usize, Arc<Vec<CoreStats>>, usize)>,
    access: crate::access_log::Lines,
    /// Every fault has a line, not only those that are answered and not the client's.
    log_faults: bool,
    /// The access log's note of the current request.
    noting: Option<Box<crate::access_log::Note>>,
    /// Notes of requests that have become tunnels, by the client's connection.
    tunnels: HashMap<Id, Box<crate::access_log::Note>>,
}

impl Core {
    /// A core that hosts `apps`; `stats[index]` is its own.
    pub fn new(
        engine: Box<dyn Engine>,
        apps: &[Arc<App>],
        stats: Arc<Vec<CoreStats>>,
        index: usize,
        virtual_time: bool,
    ) -> Core {
        let (now, worked) = (engine.now(), engine.worked());
        let cores = stats.len() as u32;
        let seed = |i: usize| {
            let base = if virtual_time { 0x5EED } else { now ^ std::process::id() as u64 };
            crate::core::mix(base ^ ((index as u64) << 32) ^ i as u64)
        };
        let apps: Vec<AppCore> = apps
            .iter()
            .enumerate()
            .map(|(i, a)| AppCore::new(a.clone(), host::table(), index as u32, cores, seed(i)))
            .collect();
        let mut core = Core {
            engine,
            pool: ChunkPool::new(PoolLimits::default()),
            stats,
            index,
            now,
            ahead: if virtual_time { 0 } else { clock::look() },
            wheel: Wheel::new(now),
            pace: input_coalescing::Pace::new(
                if virtual_time { Duration::ZERO } else { input_coalescing::DEFAULT_MAX },
                now,
            ),
            apps,
            conns: Slab::new(),
            tasks: Slab::new(),
            slots: Slab::new(),
            calls: Slab::new(),
            by_token: Default::default(),
            listeners: Vec::new(),
            dirty: Vec::new(),
            written_later: Vec::new(),
            stacks: handler_stack::HandlerStacks::new(),
            lent: input::Lent::default(),
            moving: connection_moves::Moving::default(),
            reach: handles::Reach::default(),
            held_back: Vec::new(),
            short_of_ids: Vec::new(),
            rounds: 0,
            seen: Vec::new(),
            stamp: now,
            turn: 0,
            worked,
            graveyard: Vec::new(),
            faults: Vec::new(),
            failures: Vec::new(),
            told_max: connection_limit::TOLD_MAX,
            room: u32::MAX,
            settings: Default::default(),
            log_faults: false,
            want_told: 0,
            result: None,
            last_fault: (0, 0),
            patch: Vec::new(),
            datagram: Vec::new(),
            events: Vec::new(),
            had_events: false,
            fired: Vec::new(),
            entry_waits: entry_waits::EntryWaits::default(),
            event_waits: conversation_events::EventWaits::default(),
            unspoken: Vec::new(),
            faults_told: 0,
            bodies: held_body::Bodies::default(),
            pools: session_pools::SessionPools::default(),
            at_hand: piece_state::AtHand::default(),
            next_conn_id: [(index as u64) << 48 | 1, (index as u64) << 48 | 1 << 47],
            draining: false,
            ending: Vec::new(),
            drain_idle_at: u64::MAX,
            drain_closed: false,
            drain_look_at: u64::MAX,
            gone_limit: 30_000_000_000,
            gone_due: 0,
            virtual_time,
            housekeeping: 0,
            partners: Vec::new(),
            access: crate::access_log::Lines::default(),
            noting: None,
            tunnels: HashMap::new(),
        };
        core.read_clock();
        core
    }

    /// The longest rest before a poll that makes batches larger (see [`pace`]); zero: never.
    pub fn set_batch_wait(&mut self, max: Duration) {
        self.pace = input_coalescing::Pace::new(max, self.now);
    }

    /// Opens the listening ports.
    pub fn listen(&mut self) -> Result<(), crate::error::Error> {
        for a in 0..self.apps.len() {
            for p in 0..self.apps[a].ports.len() {
                if !self.apps[a].ports[p].listen || self.apps[a].app.merges_from(p) {
                    continue;
                }
                let addr = self.apps[a].app.settings.ports[p].addrs[0];
                let udp = self.apps[a].ports[p].udp;
                let opened = if udp { self.engine.listen_datagrams(addr) } else { self.engine.listen(addr) };
                let token = opened.map_err(|e| {
                    let desc = &self.apps[a].app.desc;
                    let text = format!("port `{}`: cannot listen on {addr}", desc.ports[p].name);
                    crate::error::Error::Io(text, e).at(crate::error::Origin::of_port(desc, p))
                })?;
                if !udp {
                    self.engine.keep_alive(token, self.apps[a].ports[p].keepalive());
                }
                self.engine.admit(token, self.apps[a].ports[p].options.max_connections as usize);
                self.listeners.push(connection_limit::Listener::new(token, a as u16, p as u16));
            }
        }
        Ok(())
    }

    /// Runs `init_core` and the start handlers, arms periodic ones.
    pub fn start(&mut self) {
        self.read_clock();
        for a in 0..self.apps.len() {
            if let Some(init) = self.apps[a].app.program.table().init_core {
                self.enter(a);
                let wl: *mut crate::abi::wl_core = &mut *self.apps[a].wl;
                // SAFETY: the program's own function on its own core.
                unsafe { init((*wl).self_, wl) };
            }
            for h in self.apps[a].start.clone() {
                self.run_event(a, h, Id::NIL, None);
            }
            for i in 0..self.apps[a].every.len() {
                self.arm_every(a, i);
            }
        }
        self.flush();
    }

    /// Why an app cannot run, if its start has ended in a fault.
    pub fn start_fault(&self) -> Option<String> {
        let stats = &self.stats[self.index].apps;
        self.apps.iter().zip(stats).find_map(|(a, s)| a.app.start_fault(s))
    }

    /// All is done: runs the end handlers. Those that wait for answers go on in further batches, as
    /// long as [`Core::is_ending`].
    pub fn end(&mut self) {
        for a in 0..self.apps.len() {
            for h in self.apps[a].end.clone() {
                let task = self.new_task(a, h, Id::NIL, Id::NIL);
                self.ending.push(task);
                self.run(task);
            }
        }
        self.end_batch();
    }

    /// Whether an end handler waits for an answer, or for an entry of a table.
    pub fn is_ending(&mut self) -> bool {
        let tasks = &self.tasks;
        self.ending.retain(|t| tasks.alive(*t));
        !self.ending.is_empty()
    }

    /// There is no time left for end handlers. Those that wait for an entry learn it.
    pub fn stop_ending(&mut self) {
        let ending = std::mem::take(&mut self.ending);
        self.give_up_waits(&ending);
        self.end_batch();
    }

    fn end_batch(&mut self) {
        self.run_fault_handlers();
        self.flush();
        self.access.give(true);
    }

    /// One batch: waits at most `max_wait` for events, and handles them with all consequences.
    pub fn step(&mut self, max_wait: Option<Duration>) -> std::io::Result<()> {
        let mut wait = self.wait(max_wait);
        if wait != Some(Duration::ZERO) && !self.may_sleep() {
            wait = Some(Duration::ZERO);
        }
        let before = self.engine.now();
        if self.pace.rest() > 0 && wait != Some(Duration::ZERO) {
            self.engine.rest(Duration::from_nanos(self.pace.rest()));
        }
        self.had_events = false;
        self.apps.iter_mut().for_each(|a| a.spent = 0);
        self.my_stats().batches.add(1);
        self.asleep(wait, before);
        let mut polled = self.part(wait, before);
        self.mail_woken();
        self.take_moved();
        self.take_mail();
        while polled.is_ok() && self.engine.more() {
            self.flush_finished();
            polled = self.part(Some(Duration::ZERO), self.engine.now());
        }
        if self.has_queued() {
            // An answer that is ready does not wait for the slices of others.
            self.flush_finished();
        }
        self.run_queues();
        self.run_timers();
        self.end_waits();
        self.close_idle();
        self.settle_pools();
        self.end_unspoken();
        while let Some(at) = self.failures.pop() {
            self.backend_failed(at, ejection::Why::Refused);
        }
        self.run_fault_handlers();
        self.pass_barriers();
        self.serve_short_of_ids();
        self.flush();
        if self.settle_pools() | self.end_unspoken() {
            self.flush();
        }
        while self.serve_short_of_ids() {
            self.flush();
        }
        self.announce_mail();
        self.access.give(false);
        self.bury();
        self.pool.release_some();
        self.give_away();
        if self.now >= self.housekeeping {
            self.housekeep();
        }
        polled
    }

    /// Part of a batch: the events of one poll that began at `since`.
    fn part(&mut self, wait: Option<Duration>, since: u64) -> std::io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let polled = self.engine.poll(wait, &mut events);
        self.read_clock();
        self.take_counters();
        self.awake(wait, self.now.saturating_sub(since), events.len());
        self.pace.polled(self.now.saturating_sub(since), self.now);
        self.my_stats().events.add(events.len() as u64);
        self.had_events |= !events.is_empty();
        for e in &events {
            self.event(*e);
        }
        self.events = events;
        polled
    }

    fn wait(&self, max_wait: Option<Duration>) -> Option<Duration> {
        if self.has_queued() || !self.dirty.is_empty() || self.pool.releases() || self.has_unannounced() {
            return Some(Duration::ZERO);
        }
        let now = self.now;
        let idle = self.draining.then_some(self.drain_look_at);
        // Counters that may have changed are shown then, and connections that wait for a place
        // looked at.
        let full = self.listeners.iter().any(|l| l.since != 0);
        let look = (full || self.apps.iter().any(|a| a.unshown)).then_some(self.housekeeping);
        let next = self
            .wheel
            .next_deadline()
            .into_iter()
            .chain(idle)
            .chain(look)
            .min()
            .map(|d| Duration::from_nanos(d.saturating_sub(now)));
        match (next, max_wait) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn event(&mut self, e: Event) {
        match e {
            Event::Data { conn, start, len } => {
                if let Some(id) = self.lookup(conn) {
                    let raw = Raw::of(self.engine.data(start, len));
                    self.data(id, raw);
                }
            }
            Event::Accepted { listener, conn } => self.accepted(listener, conn),
            Event::AcceptFailed { .. } => self.my_stats().accept_failed.add(1),
            Event::Connected { conn } => {
                if let Some(id) = self.lookup(conn) {
                    self.connected(id);
                }
            }
            Event::ConnectFailed { conn, ours } => {
                if let Some(id) = self.lookup(conn) {
                    self.connect_failed(id, ours);
                }
            }
            Event::Eof { conn } => {
                if let Some(id) = self.lookup(conn) {
                    self.eof(id);
                }
            }
            Event::Broken { conn } => {
                if let Some(id) = self.lookup(conn) {
                    self.broken(id);
                }
            }
            Event::Writable { conn } => {
                if let Some(id) = self.lookup(conn) {
                    self.conns[id].clear(types::flag::BLOCKED);
                    self.mark_dirty(id);
                }
            }
            Event::Sent { conn, len } => {
                if let Some(id) = self.lookup(conn) {
                    self.sent(id, len);
                }
            }
            Event::Woken => {}
        }
    }

    #[inline]
    fn lookup(&self, token: Token) -> Option<Id> {
        let (aside, i) = place_of(token);
        let id = *self.by_token[aside].get(i)?;
        let c = self.conns.get(id)?;
        (c.token == token).then_some(id)
    }

    fn register(&mut self, token: Token, id: Id) {
        let (aside, i) = place_of(token);
        let all = &mut self.by_token[aside];
        if i >= all.len() {
            all.resize(i + 1, Id::NIL);
        }
        all[i] = id;
    }

    #[inline]
    fn mark_dirty(&mut self, id: Id) {
        let c = &mut self.conns[id];
        if !c.has(types::flag::DIRTY) {
            c.set(types::flag::DIRTY);
            self.dirty.push(id);
        }
    }

    #[inline]
    fn my_stats(&self) -> &CoreStats {
        &self.stats[self.index]
    }

    /// Binds the program's core to this one. Done before each entry into program code, so that host
    /// functions can come back to `self` through `rt`.
    #[inline]
    fn enter(&mut self, a: usize) {
        let this: *mut Core = self;
        self.apps[a].enter(this);
    }

    fn read_clock(&mut self) {
        self.now = self.engine.now();
        self.stamp = self.now;
        let wall = self.now.wrapping_add(self.ahead);
        for a in &mut self.apps {
            a.wl.now = self.now;
            a.wl.wall = wall;
        }
    }

    /// Some apps have a part that handles packets in this group.
    pub fn beside(&mut self, packets: &[Arc<App>], stats: &Arc<Vec<CoreStats>>) {
        let other = |a: &AppCore| {
            (a.app.core_kind == CoreKind::Services)
                .then(|| packets.iter().position(|p| p.desc.app == a.app.desc.app))
                .flatten()
        };
        let partners = self.apps.iter().enumerate().filter_map(|(n, a)| Some((n, other(a)?)));
        self.partners = partners.map(|(here, there)| (here, stats.clone(), there)).collect();
    }

    /// Brings in the counters of packet cores, and the other cores' counts of shared counters, for
    /// the messages of this batch.
    fn take_counters(&mut self) {
        for (here, packets, there) in &self.partners {
            let sum = |cores: &mut dyn Iterator<Item = &CoreStats>, app: usize, n: usize| {
                cores
                    .filter_map(|c| c.apps.get(app)?.counters.get(n))
                    .map(crate::stats::Cell::get)
                    .fold(0, u64::wrapping_add)
            };
            let others = || self.stats.iter().enumerate().filter(|(i, _)| *i != self.index).map(|(_, c)| c);
            self.apps[*here].take_counters(|n, c| {
                let beside = if c.core_kind == CoreKind::Both { sum(&mut others(), *here, n) } else { 0 };
                sum(&mut packets.iter(), *there, n).wrapping_add(beside)
            });
        }
    }

    /// A handler that runs on packet cores and connection cores sees its own core's counts.
    pub(super) fn with_own_counters<T>(&mut self, app: usize, handler: u32, run: impl FnOnce(&mut Core) -> T) -> T {
        if self.partners.is_empty()
            || self.apps[app].app.desc.handlers.get(handler as usize).is_none_or(|h| h.core_kind != CoreKind::Both)
        {
            return run(self);
        }
        self.apps[app].give_back_counters();
        let out = run(self);
        self.take_counters();
        out
    }

    /// Publishes the counters now, for a reader that cannot wait for the next batch.
    pub fn publish(&self) {
        self.show_counters();
    }

    /// Once in a while: the wall clock's distance, gauges.
    fn housekeep(&mut self) {
        self.housekeeping = self.now + 100_000_000;
        self.apps.iter_mut().for_each(|a| a.unshown = false);
        self.answer_queues();
        if !self.virtual_time {
            self.ahead = clock::look();
        }
        let (q, h, k) = (self.pool.queue_used(), self.pool.owned_used(), self.pool.kept());
        let s = self.my_stats();
        s.queue_bytes.set(q as u64);
        s.held_bytes.set(h as u64);
        s.kept_bytes.set(k as u64);
        s.tasks.set(self.tasks.len() as u64);
        s.datagrams_dropped.set(self.engine.dropped_datagrams());
        self.show_counters();
        self.tell_left();
        for (a, st) in self.apps.iter().zip(&s.apps) {
            for (p, ps) in a.ports.iter().zip(&st.ports) {
                for (i, b) in p.backends.iter().enumerate() {
                    ps.backends[i].load.store(b.load, std::sync::atomic::Ordering::Relaxed);
                    ps.backends[i].down.store(u8::from(b.down.is_some()), std::sync::atomic::Ordering::Relaxed);
                }
            }
        }
    }

    /// Publishes the program's own counters.
    fn show_counters(&self) {
        for (a, st) in self.apps.iter().zip(&self.my_stats().apps) {
            a.show_counters(&st.counters);
        }
    }

    /// Whether the last batch had events or left work over.
    pub fn busy(&self) -> bool {
        self.had_events || self.has_queued() || !self.dirty.is_empty()
    }

    /// Client connections still open.
    pub fn clients(&self) -> usize {
        self.apps.iter().flat_map(|a| &a.ports).filter(|p| p.listen).map(|p| p.open as usize).sum()
    }

    /// Closes everything at once. A handler of an end may make connections meanwhile, whose ends
    /// come next.
    pub fn shut(&mut self) {
        for _ in 0..SHUT_ROUNDS {
            let open = self.conns.ids();
            if open.is_empty() {
                break;
            }
            for id in open {
                if self.conns.alive(id) {
                    self.close_conn(id, false);
                }
            }
        }
        self.bury();
    }

    /// The number of entries in use: connections, tasks, slots, calls (for tests: all come back to
    /// 0).
    pub fn in_use(&self) -> [usize; 4] {
        [self.conns.len(), self.tasks.len(), self.slots.len(), self.calls.len()]
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.show_counters();
        self.close_mail();
        if !std::thread::panicking() {
            self.shut();
        }
        // Memory that the kernel may still read stays in place until the process ends.
        std::mem::take(&mut self.graveyard).into_iter().for_each(std::mem::forget);
    }
}

/// Where a token is listed.
#[inline]
fn place_of(token: Token) -> (usize, usize) {
    let aside = crate::engine::datagrams::ASIDE;
    (usize::from(token.0 & aside != 0), (token.0 as u32 & !(aside as u32)) as usize)
}

/// SplitMix64's finaliser.
pub(crate) fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
