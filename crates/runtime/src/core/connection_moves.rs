//! Connections move between cores: an idle core takes over from a busy one.
//!
//! A core without rest for some time, kept busy by two or more clients, hands one of them to a core
//! that sleeps. The move takes the socket, the bytes that have arrived, and the connection's
//! session. A connection moves between two requests, when none is under way and no output is left.
//! So answers stay in order, and each goes to its client. Connections stay if their program keeps
//! state of requests on its core (`Desc::per_core`), or handles the opening and closing of
//! connections. They also stay if backend connections are tied to clients, as in
//! conversations.

use super::slab::Id;
use super::types::{flag, Mode, Side};
use super::{Core, Raw};
use crate::engine::{Release, Waker};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// A core is busy if it has rested for less than a part of such an interval. It sleeps if it has
/// waited for this long.
const BUSY_NS: u64 = 20_000_000;
const REST_PART: u64 = 4;
const ASLEEP_NS: u64 = 1_000_000;
/// The least time between two connections that a core gives away.
const PAUSE_NS: u64 = 10_000_000;
/// Time in which a poll reads the input of its events is no rest.
const READ_NS: u64 = 5_000;
/// Flags that a connection may have when it moves.
const MOVABLE: u32 = flag::AGAIN | flag::PAUSED | flag::DIRTY | flag::IN_FLIGHT;
/// How often an engine is asked to release a connection.
const TRIES: u32 = 16;
/// So many client connections that were served last are remembered, each at a place by its number.
pub(super) const RECENT: usize = 16;

/// The cores of a service.
#[derive(Default)]
pub struct Moves {
    desks: Vec<Desk>,
}

#[derive(Default)]
struct Desk {
    any: AtomicBool,
    inbox: Mutex<Inbox>,
    waker: OnceLock<Waker>,
    /// Since when the core waits for events; 0: it does not.
    asleep: AtomicU64,
}

#[derive(Default)]
struct Inbox {
    moved: Vec<Moved>,
    /// The core ends: it takes nothing over.
    closed: bool,
}

impl Desk {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// A client connection on its way.
struct Moved {
    fd: OwnedFd,
    peer: SocketAddr,
    input: Vec<u8>,
    app: u16,
    port: u16,
    proto: u16,
    alt: u16,
    reply_max: u32,
    answered: u32,
    ignored: u8,
    id: u64,
    session: Option<Box<[u64]>>,
}

impl Moves {
    pub fn new(cores: usize) -> Moves {
        Moves { desks: (0..cores).map(|_| Desk::default()).collect() }
    }

    /// The core that has slept longest, if one has slept for a while.
    fn sleeper(&self, now: u64) -> Option<usize> {
        let since = |d: &Desk| d.asleep.load(Ordering::Relaxed);
        let asleep = self.desks.iter().enumerate().filter(|(_, d)| since(d) != 0 && since(d) + ASLEEP_NS <= now);
        asleep.min_by_key(|(_, d)| since(d)).map(|(i, _)| i)
    }
}

/// A core's record of its own rest and of its clients.
#[derive(Default)]
pub(super) struct Moving {
    moves: Option<Arc<Moves>>,
    /// Client connections that were served last, and when.
    recent: [(Id, u64); RECENT],
    /// The start of the current interval, its rest so far, and whether the interval before was
    /// busy.
    since: u64,
    rested: u64,
    busy: bool,
    /// When it may next give a connection away.
    next: u64,
    /// A connection that the engine is about to let go of, for which core, and how often it was
    /// asked.
    leaving: Option<(Id, usize, u32)>,
}

impl Core {
    /// Shares connections with other cores from now on.
    pub fn share_clients(&mut self, moves: &Arc<Moves>) {
        if moves.desks.len() > 1 {
            let _ = moves.desks[self.index].waker.set(self.engine.waker());
            self.moving.moves = Some(moves.clone());
        }
    }

    #[inline]
    pub(super) fn served(&mut self, id: Id, now: u64) {
        self.moving.recent[id.index as usize % RECENT] = (id, now);
    }

    #[inline]
    pub(super) fn asleep(&mut self, wait: Option<Duration>, now: u64) {
        if let (Some(m), true) = (&self.moving.moves, wait != Some(Duration::ZERO)) {
            m.desks[self.index].asleep.store(now, Ordering::Relaxed);
        }
    }

    /// A poll that was to wait has taken `took` and given `events`.
    #[inline]
    pub(super) fn awake(&mut self, wait: Option<Duration>, took: u64, events: usize) {
        let (Some(m), true) = (&self.moving.moves, wait != Some(Duration::ZERO)) else { return };
        m.desks[self.index].asleep.store(0, Ordering::Relaxed);
        self.moving.rested += took.saturating_sub(events as u64 * READ_NS);
    }

    /// Takes over the connections that other cores have given.
    #[inline]
    pub(super) fn take_moved(&mut self) {
        let Some(m) = &self.moving.moves else { return };
        let desk = &m.desks[self.index];
        if desk.any.load(Ordering::Relaxed) && desk.any.swap(false, Ordering::Acquire) {
            let moved = std::mem::take(&mut desk.inbox().moved);
            moved.into_iter().for_each(|m| self.take_over(m));
        }
    }

    /// Takes over the connections in the inbox and closes it.
    pub(super) fn close_desk(&mut self) {
        let Some(m) = &self.moving.moves else { return };
        let mut inbox = m.desks[self.index].inbox();
        inbox.closed = true;
        let moved = std::mem::take(&mut inbox.moved);
        drop(inbox);
        moved.into_iter().for_each(|m| self.take_over(m));
    }

    /// Gives a connection away, where that is of use.
    #[inline]
    pub(super) fn give_away(&mut self) {
        if self.moving.moves.is_none() {
            return;
        }
        let m = &mut self.moving;
        let time = self.now.saturating_sub(m.since);
        if time >= BUSY_NS {
            m.busy = m.rested < time / REST_PART;
            (m.since, m.rested) = (self.now, 0);
        }
        if let Some((id, to, tries)) = m.leaving.take() {
            self.leave(id, to, tries);
        } else if m.busy && self.now >= m.next && !self.draining {
            self.give_one();
        }
    }

    /// Whether a connection whose turn it is waits for the engine to let go of it.
    #[inline]
    pub(super) fn leaves(&self, id: Id) -> bool {
        self.moving.leaving.is_some_and(|l| l.0 == id)
    }

    #[cold]
    fn give_one(&mut self) {
        let since = self.now.saturating_sub(BUSY_NS);
        let recent = self.moving.recent;
        let busy = || recent.iter().filter(|(id, at)| *at > since && self.conns.alive(*id)).map(|r| r.0);
        let to = self.moving.moves.as_ref().and_then(|m| m.sleeper(self.now));
        let (Some(to), true) = (to, busy().count() > 1) else { return };
        let Some(id) = busy().find(|id| self.between(*id)) else { return };
        self.moving.next = self.now + PAUSE_NS;
        self.leave(id, to, 0);
    }

    /// Whether a connection lies between two requests, with nothing under way but the last answer.
    fn between(&self, id: Id) -> bool {
        let c = &self.conns[id];
        let app = &self.apps[c.app as usize];
        let port = &app.ports[c.port as usize];
        let idle = c.side == Side::Client
            && c.mode == Mode::Head
            && c.flags & !MOVABLE == 0
            && c.count == 0
            && c.member == 0
            && c.paused.is_nil();
        let own = app.app.desc.per_core || !port.opened.is_empty() || !port.closed.is_empty() || !c.own.is_empty();
        idle && !own && c.view.is_none() && c.dropped.is_none() && c.paused_src.is_nil()
    }

    /// Has the engine let go of a connection, which may take until the next poll. Meanwhile it has
    /// no turn.
    fn leave(&mut self, id: Id, to: usize, tries: u32) {
        let Some(c) = self.conns.get(id) else { return };
        let (token, sends) = (c.token, !c.out.is_empty() || c.has(flag::IN_FLIGHT));
        let peer = self.engine.addresses(token).map(|a| a.1);
        let (Some(peer), true) = (peer, self.between(id) && !self.draining) else { return self.stays(id) };
        let released = if sends { Release::Later } else { self.engine.release(token) };
        match released {
            Release::Gone(fd, held) => self.hand_over(id, to, fd, peer, &held),
            Release::Later if tries < TRIES => self.moving.leaving = Some((id, to, tries + 1)),
            _ => self.stays(id),
        }
    }

    /// It was asked to leave, but goes on here.
    fn stays(&mut self, id: Id) {
        self.mark_again(id);
        if !self.conns[id].has(flag::PAUSED) {
            self.engine.pause(self.conns[id].token, false);
        }
    }

    fn hand_over(&mut self, id: Id, to: usize, fd: OwnedFd, peer: SocketAddr, held: &[u8]) {
        let c = &mut self.conns[id];
        let (a, p) = (c.app as usize, c.port as usize);
        let moved = Moved {
            fd,
            peer,
            input: [c.input.as_slice(), held].concat(),
            app: c.app,
            port: c.port,
            proto: c.proto,
            alt: c.alt,
            reply_max: c.reply_max,
            answered: c.answered,
            ignored: c.ignored,
            id: c.c.id,
            session: c.session.take(),
        };
        self.remove_conn(id, false);
        self.place_free(a, p, false);
        // It was opened once, and is open still.
        self.my_stats().apps[a].ports[p].opened.sub(1);
        let Some(moves) = self.moving.moves.clone() else { return };
        let desk = &moves.desks[to];
        let mut inbox = desk.inbox();
        if inbox.closed {
            drop(inbox);
            return self.take_over(moved);
        }
        inbox.moved.push(moved);
        desk.any.store(true, Ordering::Release);
        drop(inbox);
        self.my_stats().moved.add(1);
        if let Some(w) = desk.waker.get() {
            w.wake();
        }
    }

    fn take_over(&mut self, m: Moved) {
        let Ok(token) = self.engine.adopt(m.fd, m.peer) else { return };
        let (a, p) = (m.app as usize, m.port as usize);
        self.take_place(a, p);
        let id = self.open_conn(token, Side::Client, m.app, m.port, 0);
        let c = &mut self.conns[id];
        (c.proto, c.alt, c.reply_max, c.answered, c.ignored) = (m.proto, m.alt, m.reply_max, m.answered, m.ignored);
        c.c.id = m.id;
        if m.session.is_some() {
            c.session = m.session;
            c.c.session = c.session.as_mut().map_or(std::ptr::null_mut(), |s| s.as_mut_ptr().cast());
        }
        let idle = self.apps[a].ports[p].options.idle_timeout;
        self.arm(id, self.now.saturating_add(idle));
        if !m.input.is_empty() {
            self.mark_again(id);
            self.keep(id, Raw::of(&m.input));
        }
    }
}
