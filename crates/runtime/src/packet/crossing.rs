//! Queues between segments. In: frames that a core sends to another segment. Out: the same buffers,
//! in their order, on the core of that segment.
//!
//! A ring leads from each sending core to the core of the queue's handler, for each instance of the
//! queue. A frame that finds the ring of a lossy queue full is discarded. That of a lossless queue
//! is late: its sender takes in nothing until all late frames have found room. Segments form no
//! circle, so the last one always goes on.
//!
//! In a run on captures a frame brings the time at which it was sent, which is the time of the core
//! that handles it. Each core says how far its time has come ([`Upstream`]). What comes from it
//! later is not earlier than that. So a core knows which of several senders comes next, and when
//! its timers are due.

use super::core_mesh::Mesh;
use super::pool::Buf;
use super::spsc::{self, Consumer, Producer};
use crate::abi::wl_frame;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::Arc;

/// A frame on its way, and the time of the core that sent it.
#[derive(Clone, Copy)]
pub struct Item {
    pub frame: wl_frame,
    pub buf: Buf,
    pub now: u64,
}

// SAFETY: whoever takes an item out of a ring is the only one to use its buffer.
unsafe impl Send for Item {}

/// What a core tells those that it sends to.
#[derive(Default)]
pub struct Upstream {
    clock: AtomicU64,
    ended: AtomicBool,
}

/// Where a queue's frames leave a core.
struct Sender {
    ring: Producer<Item>,
    to: usize,
    port: usize,
    /// Places of the ring beyond the queue's depth.
    spare: usize,
    lossless: bool,
    late: VecDeque<Item>,
    /// Something was put in that has not been shown.
    fresh: bool,
}

impl Sender {
    fn has_room(&mut self) -> bool {
        self.ring.room(self.spare + 1) > self.spare
    }

    fn put(&mut self, item: Item) {
        self.ring.put(item);
        self.fresh = true;
    }

    fn put_late(&mut self) {
        while self.has_room() {
            let Some(item) = self.late.pop_front() else { break };
            self.put(item);
        }
    }
}

/// Where they come to a core.
pub struct Receiver {
    ring: Consumer<Item>,
    /// None: the core itself.
    from: Option<Arc<Upstream>>,
    pub port: u16,
    pub instance: u16,
    pub handler: u32,
    /// The oldest one.
    first: Option<Item>,
}

impl Receiver {
    /// The oldest frame's time, or what the empty ring promises; whether there is a frame.
    fn next(&mut self) -> (u64, bool) {
        // What was said before the ring was found empty holds.
        let said = self.from.as_ref().map(|u| (u.ended.load(Acquire), u.clock.load(Acquire)));
        self.first = self.first.or_else(|| self.ring.pop());
        match (&self.first, said) {
            (Some(item), _) => (item.now, true),
            (None, Some((false, clock))) => (clock, false),
            (None, _) => (u64::MAX, false),
        }
    }

    /// The next frame, if it was sent at `now`; whenever, for `None`.
    pub fn take(&mut self, now: Option<u64>) -> Option<Item> {
        let item = self.first.take().or_else(|| self.ring.pop())?;
        if now.is_some_and(|now| now != item.now) {
            self.first = Some(item);
            return None;
        }
        Some(item)
    }

    fn has_ended(&mut self) -> bool {
        let ended = self.from.as_ref().is_none_or(|u| u.ended.load(Acquire));
        ended && !self.next().1
    }
}

/// What comes next.
pub enum Next {
    /// A frame, by receiver and time.
    Frame(usize, u64),
    /// A frame that one sender may still precede.
    Held,
    Nothing,
}

/// What to ask a queue between segments for.
pub struct Plan {
    pub port: usize,
    pub instance: usize,
    pub depth: usize,
    pub lossless: bool,
    pub handler: u32,
}

/// One core's ends of such queues.
#[derive(Default)]
pub struct Crossings {
    me: Arc<Upstream>,
    to: Vec<Sender>,
    pub from: Vec<Receiver>,
    late: usize,
    clock: u64,
    /// The latest time of a frame that it has sent.
    sent_at: u64,
    /// All is handled: what is late is the last.
    pub closing: bool,
    /// All senders have ended, and its time is theirs.
    pub finished: bool,
}

impl Crossings {
    /// Leads a queue from one core to another; answers by which number the sender knows it.
    pub fn join(all: &mut [&mut Crossings], from: usize, to: usize, p: &Plan) -> usize {
        let upstream = (from != to).then(|| all[from].me.clone());
        let size = p.depth.max(2).next_power_of_two();
        let (put, take) = spsc::ring(size);
        all[to].from.push(Receiver {
            ring: take,
            from: upstream,
            port: p.port as u16,
            instance: p.instance as u16,
            handler: p.handler,
            first: None,
        });
        let late = VecDeque::with_capacity(if p.lossless { 2 * super::port::BATCH } else { 0 });
        let (spare, lossless) = (size - p.depth, p.lossless);
        all[from].to.push(Sender { ring: put, to, port: p.port, spare, lossless, late, fresh: false });
        all[from].to.len() - 1
    }

    /// Whether it sends to segments.
    pub fn sends(&self) -> bool {
        !self.to.is_empty()
    }

    pub fn port(&self, k: usize) -> usize {
        self.to[k].port
    }

    /// Sends a frame. False: it is discarded.
    pub fn send(&mut self, k: usize, mut item: Item) -> bool {
        // Nothing comes from before the time that was told.
        if self.clock < u64::MAX {
            item.now = item.now.max(self.clock);
        }
        self.sent_at = self.sent_at.max(item.now);
        let s = &mut self.to[k];
        if s.late.is_empty() && s.has_room() {
            s.put(item);
            return true;
        }
        if s.lossless {
            s.late.push_back(item);
            self.late += 1;
        }
        s.lossless
    }

    /// Shows what was sent, and puts in what is late. False: some of it still is.
    pub fn settle(&mut self, mesh: &mut Mesh) -> bool {
        if self.to.is_empty() {
            return true;
        }
        self.late = 0;
        // What will be put into any ring is not earlier than what is late, or was sent last.
        let mut time = self.sent_at;
        for s in &mut self.to {
            s.put_late();
            self.late += s.late.len();
            time = s.late.front().map_or(time, |item| time.min(item.now));
            if std::mem::take(&mut s.fresh) {
                s.ring.show();
                mesh.tell(s.to);
            }
        }
        self.advance(time, mesh);
        self.late == 0
    }

    /// Behind the last frame: no more comes from here.
    pub fn close(&mut self, now: u64, mesh: &mut Mesh) {
        if self.closing && self.settle(mesh) {
            self.closing = false;
            self.tell(now, mesh);
            self.me.ended.store(true, Release);
            self.to.iter().for_each(|s| mesh.tell(s.to));
        }
    }

    /// What will be sent from now on comes no earlier than `time`.
    pub fn tell(&mut self, time: u64, mesh: &mut Mesh) {
        if time > self.clock && self.settle(mesh) {
            self.advance(time, mesh);
        }
    }

    fn advance(&mut self, time: u64, mesh: &mut Mesh) {
        if time > self.clock {
            self.clock = time;
            self.me.clock.store(time, Release);
            self.to.iter().for_each(|s| mesh.tell(s.to));
        }
    }

    /// The frame that comes next in time, and the time before which no other one comes.
    pub fn next(&mut self) -> (Next, u64) {
        let (mut first, mut bound) = (None, u64::MAX);
        for (k, r) in self.from.iter_mut().enumerate().filter(|(_, r)| r.from.is_some()) {
            let (time, there) = r.next();
            if !there {
                bound = bound.min(time);
            } else if first.is_none_or(|(_, t)| time < t) {
                first = Some((k, time));
            }
        }
        match first {
            Some((k, time)) if time <= bound => (Next::Frame(k, time), time),
            Some(_) => (Next::Held, bound),
            None => (Next::Nothing, bound),
        }
    }

    /// Of a core that sends to itself.
    pub fn is_own(&self, k: usize) -> bool {
        self.from[k].from.is_none()
    }

    /// All senders have ended, and all they have sent is handled: how far their time had come.
    pub fn ended(&mut self) -> Option<u64> {
        let ended = self.from.iter_mut().all(Receiver::has_ended);
        let clock = |r: &Receiver| r.from.as_ref().map_or(0, |u| u.clock.load(Acquire));
        ended.then(|| self.from.iter().map(clock).max().unwrap_or(0))
    }

    pub fn nothing_there(&mut self) -> bool {
        self.from.iter_mut().all(|r| !r.next().1)
    }

    /// What is left when all cores have ended: its port, and its buffer.
    pub fn left(&mut self) -> Vec<usize> {
        let late = self.to.iter_mut().flat_map(|s| s.late.drain(..).map(|_| s.port).collect::<Vec<_>>());
        let mut left: Vec<usize> = late.collect();
        for r in &mut self.from {
            while r.take(None).is_some() {
                left.push(r.port.into());
            }
        }
        left
    }
}
