//! Frames between cores. The flow of a frame decides its core, so the order within a flow is kept.
//!
//! Two rings lead from each core to each other core. One holds frames to be handled there, one
//! holds frames to be sent through a port that only that core has. Transmit rings are always
//! drained at once. Handler rings are drained only while there is room to pass on their results.
//! This rules out a cyclic wait between cores.

use super::batch::{Buf, BATCH};
use super::board::Board;
use super::handover::{self, Giver, HandedFrame, Taker};
use super::spsc::{self, Consumer, Producer};
use crate::abi::wl_frame;
use crate::engine::common;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{fence, Ordering::SeqCst};
use std::sync::Arc;

/// Frames on their way from one core to another.
const RING: usize = 1024;

/// How far the cores have come, and how to wake them.
pub struct Progress {
    pub board: Board,
    bells: Vec<Arc<OwnedFd>>,
}

impl Progress {
    pub fn new(cores: usize) -> std::io::Result<Arc<Progress>> {
        let bells = (0..cores).map(|_| common::bell(libc::EFD_NONBLOCK).map(Arc::new)).collect::<Result<_, _>>()?;
        Ok(Progress::of(Board::new(cores), bells))
    }

    /// Of cores of two processes.
    pub fn of(board: Board, bells: Vec<Arc<OwnedFd>>) -> Arc<Progress> {
        Arc::new(Progress { board, bells })
    }

    pub fn bell(&self, core: usize) -> &Arc<OwnedFd> {
        &self.bells[core]
    }

    pub fn wake_all(&self) {
        self.bells.iter().for_each(|b| common::ring(b));
    }
}

/// One core's ends of the rings.
pub struct Mesh {
    pub shared: Arc<Progress>,
    me: usize,
    /// The most frames of a batch that go to one core.
    batch: usize,
    work_to: Vec<Option<Giver>>,
    work_from: Vec<Taker>,
    send_to: Vec<Option<Producer<HandedFrame>>>,
    send_from: Vec<Consumer<HandedFrame>>,
    /// Items that found their ring full.
    late: Vec<VecDeque<HandedFrame>>,
    late_count: usize,
    /// Cores that were given something since the last `ring_bells`.
    told: Vec<bool>,
}

impl Mesh {
    /// `clusters`: so many may each want all frames of a batch.
    pub fn all(cores: usize, clusters: usize) -> std::io::Result<Vec<Mesh>> {
        Ok(Mesh::of(Progress::new(cores)?, clusters))
    }

    pub fn of(shared: Arc<Progress>, clusters: usize) -> Vec<Mesh> {
        let (cores, batch) = (shared.board.cores(), BATCH * clusters.max(1));
        let new = |me| Mesh {
            shared: shared.clone(),
            batch,
            me,
            work_to: Vec::new(),
            work_from: Vec::new(),
            send_to: Vec::new(),
            send_from: Vec::new(),
            late: (0..cores).map(|_| VecDeque::new()).collect(),
            late_count: 0,
            told: vec![false; cores],
        };
        let mut all: Vec<Mesh> = (0..cores).map(new).collect();
        for from in 0..cores {
            for to in 0..cores {
                let (put, take) = (from != to).then(|| handover::ring(RING.max(2 * batch))).unzip();
                all[from].work_to.push(put);
                all[to].work_from.extend(take);
                let (put, take) = (from != to).then(|| spsc::ring(RING)).unzip();
                all[from].send_to.push(put);
                all[to].send_from.extend(take);
            }
        }
        all
    }

    /// For an app that goes through another's: leads nowhere.
    pub fn guest(shared: &Arc<Progress>) -> Mesh {
        let none = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (work_to, work_from, send_to, send_from) = none;
        Mesh {
            shared: shared.clone(),
            batch: 0,
            me: 0,
            work_to,
            work_from,
            send_to,
            send_from,
            late: Vec::new(),
            late_count: 0,
            told: Vec::new(),
        }
    }

    /// Whether a batch can be received and passed on.
    pub fn has_room(&mut self) -> bool {
        let batch = self.batch;
        self.work_to.iter_mut().flatten().all(|r| r.room(batch) >= batch)
    }

    /// Gives a frame to another core to handle, once `given` is called. There is room (`has_room`).
    #[inline]
    pub fn give(&mut self, to: usize, frame: &wl_frame, buf: Buf, of: u32) -> bool {
        self.told[to] = true;
        self.work_to[to].as_mut().is_some_and(|r| r.put(frame, buf, of))
    }

    pub fn given(&mut self) {
        self.work_to.iter().flatten().for_each(Giver::show);
    }

    /// Gives a frame to the core that has its port.
    pub fn send(&mut self, to: usize, item: HandedFrame) {
        self.told[to] = true;
        let direct = self.late[to].is_empty() && self.send_to[to].as_mut().is_some_and(|r| r.push(item));
        if !direct {
            self.late[to].push_back(item);
            self.late_count += 1;
        }
    }

    /// Passes on items that found their ring full; true if none is left.
    pub fn send_late(&mut self) -> bool {
        if self.late_count == 0 {
            return true;
        }
        for (to, late) in self.late.iter_mut().enumerate() {
            let Some(ring) = &mut self.send_to[to] else { continue };
            while ring.room(1) > 0 {
                let Some(item) = late.pop_front() else { break };
                ring.push(item);
                self.late_count -= 1;
                self.told[to] = true;
            }
        }
        self.late_count == 0
    }

    /// A core was given something.
    pub fn tell(&mut self, to: usize) {
        if let Some(told) = self.told.get_mut(to) {
            *told = true;
        }
    }

    /// Wakes cores that were given items; with `lazy` only cores whose rings are half full.
    pub fn ring_bells(&mut self, lazy: bool) {
        for to in 0..self.told.len() {
            if !self.told[to] || lazy && !self.is_half_full(to) {
                continue;
            }
            self.told[to] = false;
            fence(SeqCst);
            if self.shared.board.sleeps(to) {
                common::ring(&self.shared.bells[to]);
            }
        }
    }

    fn is_half_full(&mut self, to: usize) -> bool {
        self.work_to[to].as_mut().is_some_and(Giver::is_half_full)
            || self.send_to[to].as_mut().is_some_and(Producer::is_half_full)
    }

    pub fn next_send(&mut self) -> Option<HandedFrame> {
        self.send_from.iter_mut().find_map(Consumer::pop)
    }

    pub fn neighbours(&self) -> usize {
        self.work_from.len()
    }

    #[inline]
    pub fn next_work(&mut self, from: usize) -> Option<HandedFrame> {
        self.work_from[from].next()
    }

    pub fn no_work(&mut self) -> bool {
        self.work_from.iter_mut().all(Taker::is_empty)
    }

    pub fn no_sends(&mut self) -> bool {
        self.send_from.iter_mut().all(Consumer::is_empty)
    }

    pub fn bell(&self) -> RawFd {
        self.shared.bells[self.me].as_raw_fd()
    }

    /// Says that this core will sleep; false: there is something to do.
    pub fn may_sleep(&mut self) -> bool {
        self.shared.board.set_sleeping(self.me, true);
        fence(SeqCst);
        self.no_work() && self.no_sends() && self.late_count == 0
    }

    pub fn awake(&mut self) {
        self.shared.board.set_sleeping(self.me, false);
    }
}

/// Which of `cores` a hash belongs to, or which of so many buckets.
#[inline]
pub fn core_of(hash: u32, cores: usize) -> usize {
    ((u64::from(hash.wrapping_mul(0x9E37_79B1)) * cores as u64) >> 32) as usize
}

/// The hash of programs that ask for none: the frames of a flow, in both directions, have one.
pub fn flow_hash(frame: &[u8]) -> u32 {
    let word = |at: usize| frame.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    let mut ip = 14;
    let mut kind = word(12);
    while matches!(kind, 0x8100 | 0x88a8) && ip < 30 {
        kind = word(ip + 2);
        ip += 4;
    }
    match (kind, frame.first().map(|b| b >> 4)) {
        (0x0800, _) => hash_ip4(frame.get(ip..).unwrap_or_default()),
        (0x86dd, _) => hash_ip6(frame.get(ip..).unwrap_or_default()),
        (_, Some(4)) => hash_ip4(frame),
        (_, Some(6)) => hash_ip6(frame),
        _ => sum(&[frame.get(..6).unwrap_or_default(), frame.get(6..12).unwrap_or_default()]),
    }
}

fn hash_ip4(p: &[u8]) -> u32 {
    let Some(h) = p.get(..20) else { return 0 };
    let fragment = h[6] & 0x3f != 0 || h[7] != 0;
    let at = usize::from(h[0] & 15) * 4;
    let ports = if fragment { &[][..] } else { p.get(at..at + 4).unwrap_or_default() };
    with_ports(&[&h[12..16], &h[16..20]], h[9], ports)
}

fn hash_ip6(p: &[u8]) -> u32 {
    let Some(h) = p.get(..40) else { return 0 };
    with_ports(&[&h[8..24], &h[24..40]], h[6], p.get(40..44).unwrap_or_default())
}

fn with_ports(ends: &[&[u8]; 2], proto: u8, ports: &[u8]) -> u32 {
    let addresses = sum(ends);
    if !matches!(proto, 6 | 17 | 132) || ports.len() < 4 {
        return addresses;
    }
    addresses.wrapping_add(sum(&[&ports[..2], &ports[2..4]]))
}

/// The sum of a hash of each part: the same whichever comes first.
fn sum(parts: &[&[u8]; 2]) -> u32 {
    let fnv = |b: &&[u8]| b.iter().fold(0x811c_9dc5u32, |h, x| (h ^ u32::from(*x)).wrapping_mul(0x0100_0193));
    fnv(&parts[0]).wrapping_add(fnv(&parts[1]))
}
