//! Queues between segments. In: frames that a core sends to another segment. Out: the same buffers,
//! in their order, on the core of that segment.
//!
//! A ring leads from each sending core to the core of the queue's handler, for each instance of the
//! queue. A frame that finds the ring of a lossy queue full is discarded. That of a lossless queue
//! is late: its sender takes in nothing until all late frames have found room. Segments form no
//! circle, so the last one always goes on.
//!
//! In a run on captures a frame brings the time at which it was sent, which is the time of the core
//! that handles it. Each core says how far its time has come ([`Upstream`]). Later frames of the
//! sender are not earlier than that. So a core knows which of several senders comes next, and when
//! its timers are due.

use super::batch::Buf;
use super::board::{Board, Upstream};
use super::core_mesh::Mesh;
use super::nic::{LinkIn, LinkOut};
use super::pool::Pool;
use super::port_targets::{depth, frame_handler};
use super::spsc::{self, Consumer, Producer};
use crate::abi::wl_frame;
use crate::core::app::App;
use std::collections::VecDeque;
use std::sync::atomic::{Ordering::Acquire, Ordering::Release};
use wireloom_ir::desc::{FrameEngine, PortKind};

/// A frame on its way, and the time of the core that sent it.
#[derive(Clone, Copy)]
pub struct Item {
    pub frame: wl_frame,
    pub buf: Buf,
    pub now: u64,
}

// SAFETY: whoever takes an item out of a ring is the only one to use its buffer.
unsafe impl Send for Item {}

/// A core's place on the board.
#[derive(Clone)]
pub struct CorePlace {
    board: Board,
    core: usize,
}

impl Default for CorePlace {
    fn default() -> CorePlace {
        CorePlace { board: Board::new(1), core: 0 }
    }
}

impl CorePlace {
    fn upstream(&self) -> &Upstream {
        self.board.upstream(self.core)
    }
}

/// How frames get to another segment.
enum Out {
    /// The ring has so many places beyond the queue's depth.
    Ring(Producer<Item>, usize),
    /// To another process.
    Link(Box<LinkOut>),
}

/// Where a queue's frames leave a core.
struct Sender {
    out: Out,
    to: usize,
    port: usize,
    lossless: bool,
    late: VecDeque<Item>,
    /// Something was put in that has not been shown.
    fresh: bool,
}

impl Sender {
    fn has_room(&mut self, item: &Item) -> bool {
        match &mut self.out {
            Out::Ring(ring, spare) => ring.room(*spare + 1) > *spare,
            Out::Link(link) => link.has_room(item.frame.n as usize),
        }
    }

    /// Nobody will ever take frames from there.
    fn is_gone(&self) -> bool {
        matches!(&self.out, Out::Link(link) if link.is_gone())
    }

    /// A buffer that is of use no more is added to `spent`.
    fn put(&mut self, item: Item, spent: &mut Vec<Buf>) {
        match &mut self.out {
            Out::Ring(ring, _) => drop(ring.put(item)),
            Out::Link(link) => {
                link.put(item.buf, &item.frame, item.now);
                spent.push(item.buf);
            }
        }
        self.fresh = true;
    }

    fn put_late(&mut self, spent: &mut Vec<Buf>) {
        while let Some(item) = self.late.front().copied() {
            if !self.has_room(&item) {
                return;
            }
            self.late.pop_front();
            self.put(item, spent);
        }
    }
}

/// How frames come from another segment.
enum In {
    /// With the oldest one.
    Ring(Consumer<Item>, Option<Item>),
    Link(Box<LinkIn>),
}

impl In {
    /// The time of the oldest frame.
    fn peek(&mut self) -> Option<u64> {
        match self {
            In::Ring(ring, first) => {
                *first = first.or_else(|| ring.pop());
                first.map(|item| item.now)
            }
            In::Link(link) => link.peek(),
        }
    }

    fn take(&mut self, pool: &mut Pool) -> Option<Item> {
        match self {
            In::Ring(ring, first) => first.take().or_else(|| ring.pop()),
            In::Link(link) => link.take(pool).map(|(buf, frame, now)| Item { frame, buf, now }),
        }
    }

    fn skip(&mut self) -> bool {
        match self {
            In::Ring(ring, first) => first.take().or_else(|| ring.pop()).is_some(),
            In::Link(link) => link.skip(),
        }
    }
}

/// Where they come to a core.
pub struct Receiver {
    way: In,
    /// None: the core itself.
    from: Option<CorePlace>,
    /// The time of the last frame. Frames of one sender come in the order of their times.
    seen: u64,
    pub port: u16,
    pub instance: u16,
    pub handler: u32,
}

impl Receiver {
    /// The oldest frame's time, or what the empty ring promises; whether there is a frame.
    fn next(&mut self) -> (u64, bool) {
        // A time that was published before the ring was found empty holds.
        let said = self.from.as_ref().map(CorePlace::upstream).map(|u| (u.has_ended(), u.clock.load(Acquire)));
        match (self.way.peek(), said) {
            (Some(now), _) => (now, true),
            // The frame may have been shown before the sender's clock was.
            (None, Some((false, clock))) => (clock.max(self.seen), false),
            (None, _) => (u64::MAX, false),
        }
    }

    /// The next frame, if it was sent at `now`; whenever, for `None`.
    pub fn take(&mut self, now: Option<u64>, pool: &mut Pool) -> Option<Item> {
        if now.is_some() && self.way.peek() != now {
            return None;
        }
        let item = self.way.take(pool)?;
        self.seen = item.now;
        Some(item)
    }

    fn has_ended(&mut self) -> bool {
        let ended = self.from.as_ref().is_none_or(|u| u.upstream().has_ended());
        ended && !self.next().1
    }
}

/// The next event.
pub enum NextEvent {
    /// A frame, by receiver and time.
    Frame(usize, u64),
    /// A frame that one sender may still precede.
    Held,
    Nothing,
}

/// An instance of a queue between segments.
pub struct QueueInstance {
    pub port: usize,
    pub instance: usize,
    pub depth: usize,
    pub lossless: bool,
    pub handler: u32,
}

impl QueueInstance {
    /// The instances of a queue. None: the port is no queue between segments.
    pub fn of(app: &App, port: usize) -> Option<Vec<QueueInstance>> {
        let (kind, handler) = (&app.desc.ports[port].kind, frame_handler(&app.desc, port)?);
        let lossless = matches!(kind, PortKind::Frames { engine: FrameEngine::Lossless, .. });
        let names = app.settings.ports[port].names.iter().enumerate();
        let plan = |(instance, name): (usize, &String)| {
            let depth = depth(name);
            QueueInstance { port, instance, depth, lossless, handler }
        };
        kind.is_crossing().then(|| names.map(plan).collect())
    }
}

/// One core's ends of such queues.
#[derive(Default)]
pub struct Crossings {
    me: CorePlace,
    to: Vec<Sender>,
    pub from: Vec<Receiver>,
    /// Buffers whose frames another process has, to be given back.
    pub spent: Vec<Buf>,
    /// Ports of late frames that nobody will take.
    pub lost: Vec<usize>,
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
    /// Its place on a board that other processes see, too.
    pub fn show_on(&mut self, board: Board, core: usize) {
        self.me = CorePlace { board, core };
    }

    /// Leads a queue from one core to another; answers by which number the sender knows it.
    pub fn join(all: &mut [&mut Crossings], from: usize, to: usize, p: &QueueInstance) -> usize {
        let upstream = (from != to).then(|| all[from].me.clone());
        let size = p.depth.max(2).next_power_of_two();
        let (put, take) = spsc::ring(size);
        all[to].receive(In::Ring(take, None), upstream, p);
        all[from].send_to(to, Out::Ring(put, size - p.depth), p)
    }

    /// Leads a queue to a core of another process.
    pub fn join_out(&mut self, to: usize, link: LinkOut, p: &QueueInstance) -> usize {
        self.spent.reserve(2 * super::batch::BATCH);
        self.send_to(to, Out::Link(Box::new(link)), p)
    }

    /// Leads a queue from a core of another process.
    pub fn join_in(&mut self, from: usize, link: LinkIn, p: &QueueInstance) {
        let upstream = CorePlace { board: self.me.board.clone(), core: from };
        self.receive(In::Link(Box::new(link)), Some(upstream), p);
    }

    fn receive(&mut self, way: In, from: Option<CorePlace>, p: &QueueInstance) {
        let (port, instance) = (p.port as u16, p.instance as u16);
        self.from.push(Receiver { way, from, seen: 0, port, instance, handler: p.handler });
    }

    fn send_to(&mut self, to: usize, out: Out, p: &QueueInstance) -> usize {
        let late = VecDeque::with_capacity(if p.lossless { 2 * super::batch::BATCH } else { 0 });
        self.to.push(Sender { out, to, port: p.port, lossless: p.lossless, late, fresh: false });
        self.to.len() - 1
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
        if s.late.is_empty() && s.has_room(&item) {
            s.put(item, &mut self.spent);
            return true;
        }
        let waits = s.lossless && !s.is_gone();
        if waits {
            s.late.push_back(item);
            self.late += 1;
        }
        waits
    }

    /// Shows what was sent, and puts in what is late. False: some of it still is.
    pub fn settle(&mut self, mesh: &mut Mesh) -> bool {
        if self.to.is_empty() {
            return true;
        }
        self.late = 0;
        // Later frames of any ring are not earlier than the late ones, or than the last one sent.
        let mut time = self.sent_at;
        for s in &mut self.to {
            s.put_late(&mut self.spent);
            if !s.late.is_empty() && s.is_gone() {
                self.lost.extend(s.late.iter().map(|_| s.port));
                self.spent.extend(s.late.drain(..).map(|item| item.buf));
            }
            self.late += s.late.len();
            time = s.late.front().map_or(time, |item| time.min(item.now));
            if std::mem::take(&mut s.fresh) {
                if let Out::Ring(ring, _) = &s.out {
                    ring.show();
                }
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
            self.to.iter_mut().for_each(|s| {
                if let Out::Link(link) = &mut s.out {
                    link.finish();
                }
            });
            self.from.iter_mut().for_each(|r| {
                if let In::Link(link) = &mut r.way {
                    link.finish();
                }
            });
            self.me.upstream().end();
            self.to.iter().for_each(|s| mesh.tell(s.to));
        }
    }

    /// Frames that are sent from now on come no earlier than `time`.
    pub fn tell(&mut self, time: u64, mesh: &mut Mesh) {
        if time > self.clock && self.settle(mesh) {
            self.advance(time, mesh);
        }
    }

    fn advance(&mut self, time: u64, mesh: &mut Mesh) {
        if time > self.clock {
            self.clock = time;
            self.me.upstream().clock.store(time, Release);
            self.to.iter().for_each(|s| mesh.tell(s.to));
        }
    }

    /// The frame that comes next in time, and the time before which no other one comes.
    pub fn next(&mut self) -> (NextEvent, u64) {
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
            Some((k, time)) if time <= bound => (NextEvent::Frame(k, time), time),
            Some(_) => (NextEvent::Held, bound),
            None => (NextEvent::Nothing, bound),
        }
    }

    /// Of a core that sends to itself.
    pub fn is_own(&self, k: usize) -> bool {
        self.from[k].from.is_none()
    }

    /// All senders have ended, and all they have sent is handled: how far their time had come.
    pub fn ended(&mut self) -> Option<u64> {
        let ended = self.from.iter_mut().all(Receiver::has_ended);
        let clock = |r: &Receiver| r.from.as_ref().map_or(0, |u| u.upstream().clock.load(Acquire));
        // Those that read no capture have no time.
        ended.then(|| self.from.iter().map(clock).filter(|c| *c < u64::MAX).max().unwrap_or(0))
    }

    pub fn nothing_there(&mut self) -> bool {
        self.from.iter_mut().all(|r| !r.next().1)
    }

    /// The ports of the frames that are left when all cores have ended.
    pub fn left(&mut self) -> Vec<usize> {
        let late = self.to.iter_mut().flat_map(|s| s.late.drain(..).map(|_| s.port).collect::<Vec<_>>());
        let mut left: Vec<usize> = late.collect();
        for r in &mut self.from {
            while r.way.skip() {
                left.push(r.port.into());
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(now: u64) -> Item {
        let frame = wl_frame {
            p: std::ptr::null_mut(),
            n: 0,
            head: 0,
            tail: 0,
            port: 0,
            instance: 0,
            time: now,
            wire: 0,
            out: 0,
        };
        Item { frame, buf: now as Buf, now }
    }

    fn pool() -> Pool {
        Pool::all(1, 1).expect("memory").remove(0)
    }

    fn plan(instance: usize, depth: usize, lossless: bool) -> QueueInstance {
        QueueInstance { port: 3, instance, depth, lossless, handler: 0 }
    }

    /// Two senders of a third core, and a mesh for each.
    fn three(depth: usize, lossless: bool) -> (Vec<Crossings>, Vec<Mesh>) {
        let mut all: Vec<Crossings> = (0..3).map(|_| Crossings::default()).collect();
        for from in 0..2 {
            let mut each: Vec<&mut Crossings> = all.iter_mut().collect();
            assert_eq!(Crossings::join(&mut each, from, 2, &plan(0, depth, lossless)), 0);
        }
        (all, Mesh::all(3, 1).expect("descriptors"))
    }

    #[test]
    fn a_full_queue_discards_or_is_waited_for() {
        for depth in [1, 2, 3, 5, 64] {
            let (mut all, mut mesh) = three(depth, false);
            let taken = (0..100).filter(|n| all[0].send(0, item(*n))).count();
            assert!(all[0].settle(&mut mesh[0]));
            assert_eq!((taken, all[2].left().len()), (depth, depth));
            let (mut all, mut mesh) = three(depth, true);
            assert!((0..100).all(|n| all[0].send(0, item(n))));
            let mut got = Vec::new();
            while !all[0].settle(&mut mesh[0]) || got.len() < 100 {
                while let Some(i) = all[2].from[0].take(None, &mut pool()) {
                    got.push(i.now);
                }
            }
            assert!(got.iter().copied().eq(0..100), "depth {depth}");
        }
    }

    #[test]
    fn the_earliest_frame_of_all_senders_comes_first() {
        let (mut all, mut mesh) = three(8, true);
        let next = |all: &mut Vec<Crossings>| match all[2].next() {
            (NextEvent::Frame(k, time), _) => Some((k, time)),
            _ => None,
        };
        all[0].send(0, item(10));
        all[0].send(0, item(30));
        all[0].settle(&mut mesh[0]);
        assert_eq!(next(&mut all), None, "the other one may send an earlier one");
        all[1].send(0, item(20));
        all[1].settle(&mut mesh[1]);
        for (k, time) in [(0, 10), (1, 20)] {
            assert_eq!(next(&mut all), Some((k, time)));
            assert_eq!(all[2].from[k].take(Some(time), &mut pool()).map(|i| i.now), Some(time));
        }
        assert!(all[2].from[0].take(Some(29), &mut pool()).is_none(), "another time is left");
        assert_eq!(next(&mut all), None);
        all[1].tell(25, &mut mesh[1]);
        assert!(matches!(all[2].next(), (NextEvent::Held, 25)));
        all[1].closing = true;
        all[1].close(26, &mut mesh[1]);
        assert_eq!(next(&mut all), Some((0, 30)));
        assert_eq!(all[2].ended(), None);
        all[0].closing = true;
        all[0].close(40, &mut mesh[0]);
        assert!(all[2].from[0].take(None, &mut pool()).is_some());
        assert_eq!(all[2].ended(), Some(40));
    }

    /// Two instances of one queue: while one is full, the other tells how far the sender is.
    #[test]
    fn a_late_frame_holds_up_nothing_before_it() {
        let mut all: Vec<Crossings> = (0..2).map(|_| Crossings::default()).collect();
        for instance in 0..2 {
            Crossings::join(&mut all.iter_mut().collect::<Vec<_>>(), 0, 1, &plan(instance, 1, true));
        }
        let mut mesh = Mesh::all(2, 1).expect("descriptors");
        all[0].send(0, item(7));
        all[0].send(0, item(7));
        assert!(!all[0].settle(&mut mesh[0]));
        assert!(matches!(all[1].next(), (NextEvent::Frame(0, 7), _)), "no frame before 7 can come any more");
    }

    #[test]
    fn frames_cross_between_threads() {
        let mut all: Vec<Crossings> = (0..2).map(|_| Crossings::default()).collect();
        Crossings::join(&mut all.iter_mut().collect::<Vec<_>>(), 0, 1, &plan(0, 3, true));
        let mut mesh = Mesh::all(2, 1).expect("descriptors");
        let (mut to, mut from) = (all.remove(0), all.remove(0));
        let n = 20_000;
        let sender = std::thread::spawn(move || {
            for now in 0..n {
                to.send(0, item(now));
                while !to.settle(&mut mesh[0]) {
                    std::thread::yield_now();
                }
            }
            to.closing = true;
            to.close(n, &mut mesh[0]);
        });
        let (mut got, mut pool) = (0, pool());
        while from.ended().is_none() {
            match from.next() {
                (NextEvent::Frame(k, time), _) => {
                    let i = from.from[k].take(Some(time), &mut pool).expect("it is there");
                    assert_eq!((i.now, u64::from(i.buf)), (got, got));
                    got += 1;
                }
                (_, bound) => {
                    assert!(bound >= got.saturating_sub(1), "what was said holds");
                    std::thread::yield_now();
                }
            }
        }
        assert_eq!((got, from.ended()), (n, Some(n)));
        sender.join().expect("it ends");
    }
}
