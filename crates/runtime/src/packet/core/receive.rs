//! In: frames of this core's ports and of other cores' rings. Out: batches of one port, each
//! handled here or steered to its core.

use super::{PacketCore, PortInput, NO_HANDLER};
use crate::abi::{wl_frame, WL_GONE};
use crate::clock;
use crate::packet::batch::{bytes, prefetch, Batch, BATCH, LONG_BATCH};
use crate::packet::core_mesh::{core_of, flow_hash};
use crate::packet::port::{Label, APART_NS};
use crate::packet::rps::Rps;

impl PacketCore {
    pub(super) fn receive(&mut self) -> bool {
        if !self.mesh.has_room() || !self.mesh.send_late() || !self.may_send() {
            self.blocked = true;
            return false;
        }
        if self.timeline.is_some() {
            // Others have this core's buffers, and some are kept for copies.
            if self.stats.len() > 1 && !self.pool.has_spare(2 * BATCH) {
                self.blocked = true;
                return false;
            }
            return self.receive_captured();
        }
        let mut busy = false;
        for i in 0..self.inputs.len() {
            busy |= self.receive_from(i, u64::MAX);
        }
        busy
    }

    /// The earliest frames of all captures.
    fn receive_captured(&mut self) -> bool {
        let (mut first, mut second) = ((u64::MAX, usize::MAX), u64::MAX);
        let (mut busy, mut live, mut captured) = (false, false, false);
        for i in 0..self.inputs.len() {
            if self.inputs[i].ended || self.inputs[i].looped {
                continue;
            }
            let port = &mut self.ends[self.inputs[i].end].port;
            if !port.is_capture() {
                busy |= self.receive_from(i, u64::MAX);
                live = true;
                continue;
            }
            captured = true;
            // A capture at its end, or broken: the next look tells.
            let time = port.next_time().unwrap_or(0);
            if time < first.0 {
                second = first.0;
                first = (time, i);
            } else {
                second = second.min(time);
            }
        }
        if first.1 == usize::MAX {
            if live && !captured {
                self.tell_no_time();
            }
            return busy;
        }
        let bound = self.next_crossing();
        if first.0 > bound {
            self.blocked = !busy;
            return busy;
        }
        let clock = if self.pace { self.paced() } else { u64::MAX };
        if self.pace {
            self.each(|c| c.now = if c.capture.is_some() { c.now.max(clock) } else { c.now });
        }
        self.all_loops();
        if !self.all_catch_up(first.0.min(clock)) {
            self.blocked = true;
            return busy;
        }
        self.tell_time(first.0.min(clock));
        if first.0 > clock {
            return busy;
        }
        // Frames leave a queue at the time of the frame at hand.
        let second = if self.no_queues() { second } else { first.0 };
        let near = first.0.saturating_add(self.apart);
        let until = second.min(clock).min(bound).min(near).min(self.next_due().saturating_sub(1));
        let got = self.receive_from(first.1, until.max(first.0));
        // No buffer for a frame that is there: others have them. One that has not come is waited
        // for.
        let input = &self.inputs[first.1];
        self.blocked |= !got && !input.ended && self.ends[input.end].port.fd().is_none();
        // Behind the end of one, others have frames.
        got | busy | input.ended
    }

    /// The time of the capture that corresponds to now.
    pub(super) fn paced(&self) -> u64 {
        self.timeline.unwrap_or(0).saturating_add(clock::now() - self.began)
    }

    pub(super) fn receive_from(&mut self, i: usize, until: u64) -> bool {
        if self.inputs[i].ended {
            return false;
        }
        let end = self.inputs[i].end;
        // Several apps that share a port share frames of the pool.
        let ready = if self.inputs[i].fan.is_none() { self.ends[end].ready.take() } else { None };
        if let Some(mut ready) = ready {
            let got = self.receive_ready(&mut ready, i, until);
            self.inputs[i].ended = self.ends[end].port.ended();
            self.ends[end].ready = Some(ready);
            return got;
        }
        let mut batch = std::mem::replace(&mut self.batch, Batch::absent());
        let result = self.ends[end].port.receive(&mut self.pool, &mut batch, until);
        let port = &mut self.ends[end].port;
        let ended = port.ended() || result.is_err();
        let lost = port.lost();
        if lost > 0 {
            self.count_lost(i, lost);
        }
        let got = !batch.is_empty();
        if got {
            if let Some(fan) = self.inputs[i].fan {
                self.came(&mut batch, fan);
                self.fan_out(&mut batch, fan);
            } else if self.inputs[i].hooked {
                self.send_on(&mut batch, i);
            } else {
                self.label(&mut batch, i);
                self.dispatch(&mut batch, i);
            }
        }
        self.batch = batch;
        if let Err(e) = result {
            let input = &self.inputs[i];
            let name = input
                .fan
                .map_or_else(|| self.port_name(input.port.into(), input.instance.into()), |fan| self.fan_name(fan));
            self.errors.push(format!("port `{name}`: {e}"));
        }
        self.inputs[i].ended = ended;
        got
    }

    pub(super) fn count_lost(&self, i: usize, n: u64) {
        match self.inputs[i].fan {
            Some(fan) => self.lost(fan, n),
            None => self.frame_stats(self.inputs[i].port.into()).lost.add(n),
        }
    }

    /// Frames of a port that has them ready. Where nobody waits for what a batch leads to, several
    /// batches are handled in a row. A round of the loop costs as much as some tens of frames.
    fn receive_ready(&mut self, batch: &mut Batch, i: usize, until: u64) -> bool {
        if self.capture.is_none() {
            self.read_clock();
        }
        let PortInput { end, port, instance, handler, .. } = self.inputs[i];
        let (alone, quiet) = (self.keeps(i), self.is_quiet(handler));
        let long = alone && (quiet || self.nowhere) && self.timeline.is_none() && !self.writes;
        let (most, slice_end) =
            if long { (LONG_BATCH, self.now.saturating_add(self.slice)) } else { (BATCH, self.now) };
        let mut got = false;
        let mut looks = ClockLooks::new();
        loop {
            let label = Label { port, instance, time: self.now };
            let bytes = self.ends[end].port.receive_ready(batch, most, until, label);
            if batch.is_empty() {
                return got;
            }
            got = true;
            self.frame_stats(port.into()).came(batch.len(), bytes);
            if alone {
                self.run_batch(batch, handler, !quiet)
            } else {
                self.dispatch(batch, i)
            }
            if !goes_on(self.now, slice_end, u64::MAX) {
                return true;
            }
            if !looks.is_due() {
                continue;
            }
            let before = self.now;
            self.read_clock();
            looks.took(self.now - before);
            if !goes_on(self.now, slice_end, self.due) {
                return true;
            }
        }
    }

    /// Says where the frames came from, and when.
    fn label(&mut self, batch: &mut Batch, i: usize) {
        if self.capture.is_none() {
            self.read_clock();
        }
        let (port, instance, now) = (self.inputs[i].port, self.inputs[i].instance, self.now);
        let looped = self.inputs[i].looped;
        // Of a run on captures the kernel's times know nothing.
        if self.capture.is_some() && !looped && !self.ends[self.inputs[i].end].port.is_capture() {
            batch.frames.iter_mut().for_each(|f| f.time = 0);
        }
        let bytes = batch.stamp(now, |f| {
            // Where a frame came from before it went back into the program is still of interest.
            f.instance = if looped { f.instance } else { instance };
            f.port = port;
        });
        self.frame_stats(port.into()).came(batch.len(), bytes);
    }

    /// Frames that the hook's program has sent on its way. Each goes where it was sent, as if a
    /// handler of this core had sent it. Those for the port's own handler are handled.
    fn send_on(&mut self, batch: &mut Batch, i: usize) {
        if self.capture.is_none() {
            self.read_clock();
        }
        let PortInput { port, instance, handler, .. } = self.inputs[i];
        let own = |f: &wl_frame| f.out == WL_GONE && handler != NO_HANDLER;
        let queues = std::mem::take(&mut self.queues);
        let bytes = batch.stamp(self.now, |f| {
            // The mark is for queues only.
            if queues.get((f.out >> 16) as usize) != Some(&true) {
                (f.port, f.instance) = (port, instance)
            }
        });
        self.queues = queues;
        self.frame_stats(port.into()).came(batch.len(), bytes);
        if !batch.frames.iter().all(own) {
            for k in 0..batch.len() {
                if !own(&batch.frames[k]) {
                    self.stage(batch.frames[k], batch.bufs[k]);
                }
            }
            batch.retain(|_, f, _| own(f));
            self.flush();
        }
        self.dispatch(batch, i);
    }

    /// Handles what is for this core and passes on the rest.
    fn dispatch(&mut self, batch: &mut Batch, i: usize) {
        let PortInput { port, handler, .. } = self.inputs[i];
        if !self.keeps(i) {
            let hashes = self.hashes(port.into(), &batch.frames);
            let (cores, count) = (self.stats.len(), batch.len());
            match &mut self.rps {
                Some(rps) => self.scatter.sort(count, |k| rps.core(hashes[k])),
                None => self.scatter.sort(count, |k| core_of(hashes[k], cores)),
            }
            self.give_away(batch, 0);
        }
        if self.rps.as_ref().is_some_and(Rps::is_judging) {
            self.judge(batch, handler)
        } else {
            self.handle(batch, handler)
        }
    }

    /// Whether all frames of an input are for this core.
    fn keeps(&self, i: usize) -> bool {
        self.inputs[i].steered || self.stats.len() == 1 || self.rps.as_ref().is_some_and(Rps::keeps_all)
    }

    /// Handles frames and looks at what that costs.
    #[cold]
    fn judge(&mut self, batch: &mut Batch, handler: u32) {
        let (frames, began) = (batch.len(), clock::now());
        self.handle(batch, handler);
        let Some(rps) = &mut self.rps else { return };
        // Batches are small here, however many frames there are.
        let spent = clock::now() - began;
        let cost = if self.apart < APART_NS { rps.took_part(spent, frames) } else { rps.took(spent, frames) };
        if let Some(ns) = cost {
            let all = if rps.keeps_all() {
                "handles all of them: to hand them over would take longer"
            } else {
                "hands frames to the other cores"
            };
            log::info!("core {} receives for all cores, a frame takes {ns} ns: it {all} (--rps)", self.index);
        }
    }

    /// Gives the frames that the last `scatter` has found to be for other cores to them; the others
    /// move up.
    pub(super) fn give_away(&mut self, batch: &mut Batch, of: u32) {
        let (scatter, mesh, pool) = (&self.scatter, &mut self.mesh, &mut self.pool);
        for to in (0..self.stats.len()).filter(|to| *to != self.index) {
            self.times.iter().for_each(|t| t.all.gave(to, scatter.of(to).len() as u64));
            for k in scatter.of(to).iter().map(|k| usize::from(*k)) {
                if !mesh.give(to, &batch.frames[k], batch.bufs[k], of) {
                    pool.put(batch.bufs[k]); // cannot be: there was room
                }
            }
        }
        batch.keep(scatter.of(self.index));
        mesh.given();
    }

    /// The steering hashes of frames that came in on a port.
    pub(super) fn hashes(&self, port: u32, frames: &[wl_frame]) -> [u32; BATCH] {
        debug_assert!(frames.len() <= BATCH);
        let mut hashes = [0; BATCH];
        if !self.packets.hashes(port, frames, &mut hashes) {
            frames.iter().zip(&mut hashes).for_each(|(f, h)| *h = flow_hash(bytes(f)));
        }
        hashes
    }

    /// Frames that other cores have for this one to handle.
    pub(super) fn take_work(&mut self) -> bool {
        let mut busy = false;
        for from in 0..self.mesh.neighbours() {
            if !self.mesh.send_late() {
                return true;
            }
            let mut batch = std::mem::replace(&mut self.batch, Batch::absent());
            let (mut of, mut taken, mut late) = (0, 0, false);
            while let Some(item) = self.mesh.next_work(from) {
                taken += 1;
                prefetch(item.frame.p);
                if item.of != of || !self.continues(&batch, &item.frame) {
                    self.handle_given(&mut batch, of);
                    // Frames of many times make many batches.
                    late = !self.mesh.send_late();
                }
                of = item.of;
                batch.push(item.buf, item.frame);
                if late || batch.room() == 0 {
                    break;
                }
            }
            self.handle_given(&mut batch, of);
            self.batch = batch;
            if let Some(times) = self.times.as_ref().filter(|_| taken > 0) {
                times.all.handled(self.index, taken);
            }
            busy |= taken > 0;
        }
        if busy {
            self.given = clock::now();
        }
        busy
    }

    /// Whether a frame can be handled together with those before it.
    fn continues(&self, batch: &Batch, f: &wl_frame) -> bool {
        let Some(first) = batch.frames.first() else { return true };
        let near = self.timeline.is_none() || f.time.abs_diff(first.time) <= self.apart && f.time < self.next_due();
        f.port == first.port && near
    }

    fn handle_given(&mut self, batch: &mut Batch, of: u32) {
        if let Some(f) = batch.frames.first() {
            let (port, time) = (f.port, f.time);
            if self.timeline.is_some() {
                self.all_catch_up(time);
            }
            if self.capture.is_none() {
                self.read_clock();
            }
            if !self.fans.is_empty() {
                return self.deliver_given(batch, of);
            }
            self.handle(batch, self.handlers[usize::from(port)]);
        }
    }
}

/// Decides how many batches in a row are handled between two looks at the clock. A look costs as
/// much as some twenty frames of a cheap handler.
struct ClockLooks {
    /// Batches between two looks, and those until the next one.
    each: u64,
    left: u64,
}

impl ClockLooks {
    /// The clock may be late by about so many nanoseconds, and by at most so many batches.
    const LATE_NS: u64 = 1_000;
    const LATE_BATCHES: u64 = 4;

    fn new() -> ClockLooks {
        ClockLooks { each: 1, left: 1 }
    }

    /// Behind each batch: whether to look now.
    #[inline]
    fn is_due(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    /// The batches since the last look took `ns` in all.
    #[inline]
    fn took(&mut self, ns: u64) {
        self.each = (Self::LATE_NS * self.each / ns.max(1)).clamp(1, Self::LATE_BATCHES);
        self.left = self.each;
    }
}

/// Whether a core handles one more batch before it does something else: its slice is not over, and
/// no periodic handler is due.
#[inline]
fn goes_on(now: u64, slice_end: u64, due: u64) -> bool {
    now < slice_end && now < due
}

#[cfg(test)]
mod tests {
    use super::{goes_on, ClockLooks};

    /// The batches that are handled from here to the next look.
    fn batches(looks: &mut ClockLooks) -> u64 {
        (1..).find(|_| looks.is_due()).unwrap()
    }

    #[test]
    fn the_clock_is_late_by_a_microsecond_and_four_batches_at_most() {
        let mut looks = ClockLooks::new();
        assert_eq!(batches(&mut looks), 1, "nothing is known of the first batch");
        looks.took(400);
        assert_eq!(batches(&mut looks), 2);
        looks.took(200);
        assert_eq!(batches(&mut looks), 4);
        looks.took(0);
        assert_eq!(batches(&mut looks), 4);
        looks.took(400_000);
        assert_eq!(batches(&mut looks), 1, "batches have become slow");
    }

    #[test]
    fn batches_in_a_row_end_with_the_slice_and_at_timers() {
        assert!(goes_on(100, 120, 110) && goes_on(100, 120, u64::MAX));
        assert!(!goes_on(120, 120, u64::MAX), "the slice is over");
        assert!(!goes_on(110, 120, 110), "a timer is due");
        assert!(!goes_on(100, 100, u64::MAX), "one batch only");
    }
}
