//! Frames between segments. In: frames that a handler sends to a queue of another segment, and
//! those that come from there. Out: the same, in the rings of [`Crossings`] or handled.
//!
//! [`Crossings`]: crate::packet::crossing::Crossings

use super::PacketCore;
use crate::abi::{wl_frame, WL_F_OVERLOAD};
use crate::clock;
use crate::packet::batch::{prefetch, Batch, Buf, BATCH};
use crate::packet::crossing::{Item, NextEvent};
use crate::stats::NO_PLACE;
use wireloom_ir::FramePart;

impl PacketCore {
    /// Whether all that was sent to other segments has found room.
    pub(super) fn settle(&mut self) -> bool {
        let settled = self.crossings.settle(&mut self.mesh);
        self.take_back();
        settled
    }

    /// Buffers whose frames have gone to another process, and frames that it will not take.
    fn take_back(&mut self) {
        while let Some(buf) = self.crossings.spent.pop() {
            self.pool.put(buf);
        }
        while let Some(port) = self.crossings.lost.pop() {
            self.frame_stats(port).discarded.add(1);
        }
    }

    /// Frames that are sent from now on are not earlier than that.
    pub(super) fn tell_time(&mut self, time: u64) {
        if self.capture.is_some() {
            self.crossings.tell(time, &mut self.mesh);
        }
        // A core that sends nothing of its own may have frames of others to handle.
        self.times.iter().filter(|_| time < u64::MAX).for_each(|t| t.reach(time));
    }

    /// Nobody waits for the frames of a core that reads no capture, itself or through others.
    pub(super) fn tell_no_time(&mut self) {
        if self.crossings.from.is_empty() {
            self.tell_time(u64::MAX);
        }
    }

    /// A core that sends to others takes in nothing while frames are late, nor without buffers for
    /// copies of it.
    pub(super) fn may_send(&mut self) -> bool {
        !self.crossings.sends() || self.settle() && self.pool.free() >= BATCH
    }

    /// A frame leaves for another segment.
    pub(super) fn cross(&mut self, k: usize, f: wl_frame, buf: Buf) {
        // Frames that nobody gives back are shown again by their port.
        let Some((buf, frame)) = self.owned(self.crossings.port(k), f, buf) else {
            self.frame_stats(self.crossings.port(k)).discarded.add(1);
            return self.count_fault(WL_F_OVERLOAD, NO_PLACE);
        };
        self.entries.give(&self.pool, buf, self.popped.serving);
        let taken = self.crossings.send(k, Item { frame, buf, now: self.now });
        let s = self.frame_stats(self.crossings.port(k));
        if taken {
            s.sent.add(1);
            s.sent_bytes.add(f.n.into());
        } else {
            s.discarded.add(1);
            self.pool.put(buf);
        }
        self.take_back();
    }

    /// When the next frame of another segment comes, at the earliest.
    pub(super) fn next_crossing(&mut self) -> u64 {
        if self.crossings.from.is_empty() {
            return u64::MAX;
        }
        match self.crossings.next() {
            (NextEvent::Nothing, bound) => bound,
            (NextEvent::Frame(..) | NextEvent::Held, time) => time,
        }
    }

    /// Handles what other segments have sent. Whether there was anything.
    pub(super) fn take_crossings(&mut self) -> bool {
        if self.crossings.from.is_empty() {
            return false;
        }
        if !self.mesh.send_late() {
            self.blocked = true;
            return true;
        }
        let busy = if self.timeline.is_some() { self.take_in_time() } else { self.take_as_they_come() };
        if busy {
            self.given = clock::now();
        } else if !self.blocked {
            self.finish_crossings();
        }
        busy
    }

    fn take_as_they_come(&mut self) -> bool {
        let mut busy = false;
        for k in 0..self.crossings.from.len() {
            busy |= self.may_take() && self.take_from(k, None);
        }
        busy
    }

    /// Whether all that was sent to other cores has found room.
    fn may_take(&mut self) -> bool {
        self.mesh.send_late() && self.settle()
    }

    /// Frames that the core has sent to itself.
    pub(super) fn take_own_crossings(&mut self) -> bool {
        self.settle();
        let mut busy = false;
        for k in 0..self.crossings.from.len() {
            busy |= self.crossings.is_own(k) && self.take_from(k, None);
        }
        busy
    }

    /// In a run on captures: the earliest frames, and before them the timers that are due.
    fn take_in_time(&mut self) -> bool {
        let own = self.next_captured();
        let mut busy = false;
        for _ in 0..BATCH {
            if !self.may_take() {
                self.blocked = true;
                break;
            }
            let (next, bound) = self.crossings.next();
            let until = own.min(bound);
            if until < u64::MAX && !self.catch_up(until) {
                self.blocked = true;
                break;
            }
            match next {
                NextEvent::Frame(k, now) if now <= own => {
                    self.now = self.now.max(now);
                    busy |= self.take_from(k, Some(now));
                    self.run_loops();
                }
                next => {
                    if until < u64::MAX {
                        self.tell_time(until);
                    }
                    self.blocked = matches!(next, NextEvent::Held) && !busy;
                    break;
                }
            }
        }
        busy
    }

    /// The time of the next frame of this core's captures.
    fn next_captured(&mut self) -> u64 {
        let mut next = u64::MAX;
        for i in self.inputs.iter().filter(|i| !i.ended && !i.looped && !self.draining) {
            let port = &mut self.ends[i.end].port;
            if port.is_capture() {
                // At its end, or broken: the next look tells.
                next = next.min(port.next_time().unwrap_or(0));
            }
        }
        if self.pace && next < u64::MAX {
            next.min(self.paced())
        } else {
            next
        }
    }

    /// Has the handler of a queue handle frames of one sender.
    fn take_from(&mut self, k: usize, now: Option<u64>) -> bool {
        let mut batch = std::mem::replace(&mut self.batch, Batch::absent());
        let from = &mut self.crossings.from[k];
        let (port, instance, handler) = (from.port, from.instance, from.handler);
        let seen = self.app.app.desc.ports[usize::from(port)].part != FramePart::Nothing;
        let mut size = 0;
        while batch.room() > 0 {
            let Some(Item { frame: f, buf, .. }) = from.take(now, &mut self.pool) else { break };
            if seen {
                prefetch(f.p);
            }
            size += u64::from(f.n);
            self.entries.take(&self.pool, buf, batch.len(), false);
            batch.push(buf, wl_frame { port, instance, out: f.mark(), ..f });
        }
        let busy = !batch.is_empty();
        if busy {
            if self.capture.is_none() {
                self.read_clock();
            }
            self.frame_stats(port.into()).came(batch.len(), size);
            self.handle(&mut batch, handler);
        }
        self.batch = batch;
        busy
    }

    /// Behind the last frame the time goes on to where the senders have come.
    fn finish_crossings(&mut self) {
        if self.crossings.finished || self.next_captured() < u64::MAX {
            return;
        }
        let Some(time) = self.crossings.ended() else { return };
        self.crossings.finished = self.capture.is_none() || self.catch_up(time);
        if self.capture.is_some() {
            self.now = self.now.max(time);
        }
    }

    /// When all cores have ended: what none of them has handled is discarded.
    pub fn lose_crossings(&mut self) {
        for port in self.crossings.left() {
            self.frame_stats(port).discarded.add(1);
        }
    }
}
