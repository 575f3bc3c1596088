//! In: a program's decisions on a batch, and copies that it sends. Out: frames staged at their
//! ports or for other cores, or returned to the pool.

use super::entries::EntryOf;
use super::{PacketCore, Route};
use crate::abi::{wl_frame, wl_left, WL_F_OVERLOAD, WL_GONE};
use crate::packet::batch::{bytes, Batch, BATCH};
use crate::packet::handover::HandedFrame;
use crate::packet::offload::{Large, Undone};
use crate::packet::port::Sent;

/// The totals of a program's work on a batch.
#[derive(Debug, PartialEq)]
struct Leaving {
    /// Frames that are not dropped, and their bytes.
    frames: u64,
    bytes: u64,
    /// Where one of them leaves through, and whether all do.
    out: u32,
    alike: bool,
}

impl Leaving {
    /// The program's own count.
    #[inline]
    fn told(left: &wl_left) -> Option<Leaving> {
        let out = if left.frames == 0 { WL_GONE } else { left.out };
        (left.known != 0).then(|| Leaving { frames: left.frames.into(), bytes: left.bytes, out, alike: true })
    }

    /// Without branches: what becomes of a frame cannot be foretold.
    #[inline]
    fn of(frames: &[wl_frame]) -> Leaving {
        let out = frames.iter().map(|f| f.out).find(|out| *out != WL_GONE).unwrap_or(WL_GONE);
        let (mut gone, mut bytes, mut others) = (0, 0, 0);
        for f in frames {
            let drops = u32::from(f.out == WL_GONE);
            gone += u64::from(drops);
            bytes += u64::from(f.n & drops.wrapping_sub(1));
            others |= (f.out ^ out) & drops.wrapping_sub(1);
        }
        Leaving { frames: frames.len() as u64 - gone, bytes, out, alike: others == 0 }
    }
}

impl PacketCore {
    /// Bytes that a capture had cut off a frame of the batch at hand. Those of a payload that the
    /// program has exchanged are not among them. Where no port writes captures they are not noted,
    /// and batches may be long.
    #[inline]
    fn missing(&self, f: &wl_frame, k: usize) -> u32 {
        let now = f.wire.saturating_sub(f.n);
        if self.writes {
            now.min(self.missing[k])
        } else {
            now
        }
    }

    /// A frame as it leaves: its length on the wire is the one it has now, with the bytes that a
    /// capture had cut off.
    #[inline]
    pub(super) fn whole(&self, batch: &Batch, k: usize) -> wl_frame {
        let f = batch.frames[k];
        let wire = f.n.saturating_add(self.missing(&f, k));
        wl_frame { wire, time: self.leaves_at(f.time, f.out), ..f }
    }

    /// The time of a frame that leaves: when it came, or, if it has waited in a queue, now.
    #[inline]
    fn leaves_at(&self, came: u64, out: u32) -> u64 {
        let waits = self.queues.get((out >> 16) as usize) == Some(&true);
        if self.popped.serving && !waits {
            self.now
        } else {
            came
        }
    }

    /// Sends the frames where the program has put them.
    #[inline]
    pub(super) fn route(&mut self, batch: &mut Batch) {
        if self.shared != 0 {
            return self.route_shared(batch);
        }
        if self.staged == 0 && self.touched.is_empty() {
            let told = Leaving::told(&self.app.wl.left);
            debug_assert!(told.as_ref().is_none_or(|told| *told == Leaving::of(&batch.frames)), "{told:?}");
            let leaving = told.unwrap_or_else(|| Leaving::of(&batch.frames));
            if leaving.frames == 0 {
                return batch.release(&mut self.pool);
            }
            if let Some(end) = self.only_way(&leaving, batch.len()) {
                return self.leave_through(end, batch, &leaving);
            }
        }
        for k in 0..batch.len() {
            match batch.frames[k].out {
                WL_GONE => self.pool.put(batch.bufs[k]),
                _ if k < self.staged => {}
                _ => {
                    self.entries.of = EntryOf::Frame(k);
                    self.stage(self.whole(batch, k), batch.bufs[k])
                }
            }
        }
        self.entries.of = EntryOf::Buffer;
        batch.clear();
        self.flush();
    }

    /// The end that all frames leave through that are not dropped, as in filters.
    #[inline]
    fn only_way(&self, leaving: &Leaving, of: usize) -> Option<usize> {
        if !leaving.alike {
            return None;
        }
        match self.way(leaving.out) {
            // Of what waits in queues, dropped frames are given back one by one.
            // So do frames whose entries go along.
            Some(Route::Here(end)) if !self.ends[end].queue => Some(end),
            Some(Route::Here(end)) if leaving.frames == of as u64 && self.entries.bytes == 0 => Some(end),
            _ => None,
        }
    }

    /// All frames of a batch that leave do so through one end.
    #[inline]
    fn leave_through(&mut self, end: usize, batch: &mut Batch, leaving: &Leaving) {
        if self.ends[end].port.swallows() {
            self.count_sent(end, leaving.frames, Sent { frames: leaving.frames, bytes: leaving.bytes });
            return batch.release(&mut self.pool);
        }
        if self.writes || self.popped.serving {
            for k in 0..batch.len() {
                batch.frames[k] = self.whole(batch, k);
            }
        }
        if leaving.frames < batch.len() as u64 {
            self.drop_gone(batch);
        }
        self.transmit_through(end, batch);
    }

    /// Gives back the buffers of dropped frames; the others move up.
    #[inline]
    fn drop_gone(&mut self, batch: &mut Batch) {
        batch.retain(|_, frame, buf| {
            let stays = frame.out != WL_GONE;
            if !stays {
                self.pool.put(*buf);
            }
            stays
        });
    }

    /// `None`: the frame is dropped on purpose.
    pub(super) fn way(&self, out: u32) -> Option<Route> {
        if out == WL_GONE {
            return None;
        }
        let (port, instance) = (out >> 16, out & 0xffff);
        let route = self.routes.get(port as usize).and_then(|r| r.get(instance as usize));
        Some(route.copied().unwrap_or(Route::Nowhere))
    }

    /// A frame leaves: at the end of this batch, or when its port has a batch of its own.
    pub(super) fn stage(&mut self, f: wl_frame, buf: u32) {
        match self.way(f.out) {
            Some(Route::Here(end)) if self.ends[end].queue => self.enqueue(end, f, buf),
            Some(Route::Here(end)) => {
                let stage = &mut self.ends[end].stage;
                if stage.is_empty() {
                    self.touched.push(end);
                }
                stage.push(buf, f);
                if stage.room() == 0 {
                    self.flush_end(end);
                    self.touched.retain(|e| *e != end);
                }
            }
            Some(Route::Segment(k)) => self.cross(k, f, buf),
            Some(Route::Core(core)) => self.mesh.send(core, HandedFrame { frame: f, buf, of: self.number as u32 }),
            Some(Route::Nowhere) => {
                if let Some(s) = self.counts_of().ports.get((f.out >> 16) as usize) {
                    s.frames.dropped.add(1);
                }
                self.pool.put(buf);
            }
            None => self.pool.put(buf),
        }
    }

    pub(super) fn flush(&mut self) {
        while let Some(end) = self.touched.pop() {
            self.flush_end(end);
        }
    }

    fn flush_end(&mut self, end: usize) {
        let mut stage = std::mem::replace(&mut self.ends[end].stage, Batch::absent());
        self.transmit_through(end, &mut stage);
        self.ends[end].stage = stage;
    }

    fn transmit_through(&mut self, end: usize, batch: &mut Batch) {
        if self.pool.region().offloads() && !self.ends[end].queue {
            return self.transmit_undone(end, batch);
        }
        self.transmit_done(end, batch);
    }

    #[inline]
    fn transmit_done(&mut self, end: usize, batch: &mut Batch) {
        let n = batch.len() as u64;
        let sent = self.ends[end].port.transmit(&mut self.pool, batch);
        self.count_sent(end, n, sent);
    }

    /// Sends frames of which some may lack checksums or be too large: the kernel is told, or it is
    /// done here.
    #[cold]
    fn transmit_undone(&mut self, end: usize, batch: &mut Batch) {
        let told = self.ends[end].port.offloads();
        let pool = &mut self.pool;
        let mut large = std::mem::take(&mut self.uncut);
        batch.retain(|_, frame, buf| {
            let undone = pool.undone(*buf);
            if undone.is_nothing() {
                return true;
            }
            // SAFETY: a frame of the batch, which belongs to this core.
            let bytes = unsafe { std::slice::from_raw_parts_mut(frame.p, frame.n as usize) };
            if let Some(header) = if told { undone.header(bytes) } else { None } {
                pool.set_header(*buf, &header);
                return true;
            }
            pool.set_undone(*buf, Undone::default());
            if undone.is_one() {
                undone.complete(bytes);
                return true;
            }
            large.push((undone, *frame, *buf));
            false
        });
        self.transmit_done(end, batch);
        for (undone, frame, buf) in large.drain(..) {
            self.transmit_cut(end, batch, undone, &frame);
            self.pool.put(buf);
        }
        self.uncut = large;
    }

    /// Sends a segment as the frames that it stands for.
    fn transmit_cut(&mut self, end: usize, batch: &mut Batch, undone: Undone, frame: &wl_frame) {
        let mut pieces = std::mem::take(&mut self.pieces);
        if undone.cut(bytes(frame), &mut pieces) {
            self.transmit_pieces(end, batch, frame, &mut pieces);
        } else {
            self.count_sent(end, 1, Sent::default());
        }
        self.pieces = pieces;
    }

    fn transmit_pieces(&mut self, end: usize, batch: &mut Batch, frame: &wl_frame, pieces: &mut Large) {
        while let Some((buf, f)) = if pieces.next() > 0 { self.pool.take_piece(pieces) } else { None } {
            batch.push(
                buf,
                wl_frame { time: frame.time, out: frame.out, port: frame.port, instance: frame.instance, ..f },
            );
            if batch.room() == 0 {
                self.transmit_done(end, batch);
            }
        }
        self.transmit_done(end, batch);
        if pieces.next() > 0 {
            self.count_fault(WL_F_OVERLOAD, crate::stats::NO_PLACE);
        }
    }

    #[inline]
    pub(super) fn count_sent(&self, end: usize, n: u64, sent: Sent) {
        let s = &self.stats[self.index].apps[self.number].ports[self.ends[end].of].frames;
        s.sent.add(sent.frames);
        s.sent_bytes.add(sent.bytes);
        let lost = if self.ends[end].queue { &s.discarded } else { &s.dropped };
        lost.add(n.saturating_sub(sent.frames));
    }

    /// Frames of other cores for this one's ports.
    pub(super) fn take_sends(&mut self) -> bool {
        let mut busy = false;
        for _ in 0..BATCH {
            let Some(item) = self.mesh.next_send() else { break };
            match item.of as usize {
                0 => self.stage(item.frame, item.buf),
                app => self.with(app, |c| c.stage(item.frame, item.buf)),
            }
            busy = true;
        }
        if busy {
            self.each(PacketCore::flush);
        }
        busy
    }

    /// A copy leaves. Frames that the program has moved before go first.
    pub(super) fn copy_out(&mut self, port: u32, instance: u32, data: &[u8]) {
        self.stage_moved();
        let (time, missing, undone) = self.copied_from(data.as_ptr());
        self.entries.of = EntryOf::Copy;
        match self.copied_part(port as usize, data) {
            Some((buf, mut f)) => {
                if !undone.is_nothing() {
                    self.pool.set_undone(buf, undone);
                }
                f.out = port << 16 | instance & 0xffff;
                f.time = self.leaves_at(time, f.out);
                f.wire += missing;
                match self.queues.get(port as usize) {
                    Some(true) => f.set_mark(self.app.wl.mark),
                    _ => f.port = u16::MAX, // it came from none
                }
                self.stage(f, buf);
            }
            None => {
                self.count_fault(WL_F_OVERLOAD, crate::stats::NO_PLACE);
                if let Some(s) = self.counts_of().ports.get(port as usize) {
                    s.frames.dropped.add(1);
                }
            }
        }
        self.entries.of = EntryOf::Buffer;
    }

    /// The time of the frame that begins here, of the batch at hand or new. Then the bytes that a
    /// capture has cut off it, and the work left to be done on it.
    fn copied_from(&mut self, p: *const u8) -> (u64, u32, Undone) {
        let new = (self.now, 0, Undone::default());
        // SAFETY: as in `stage_moved`.
        let Some(batch) = (unsafe { self.current.as_ref() }) else { return new };
        let n = batch.len();
        // It is the one at hand, so the search goes on where the last one ended.
        let found = (self.copied..n).find(|k| batch.frames[*k].p.cast_const() == p);
        let Some(k) = found else { return new };
        self.copied = k;
        let f = &batch.frames[k];
        let undone = if self.pool.region().offloads() { self.pool.undone(batch.bufs[k]) } else { Undone::default() };
        (f.time, self.missing(f, k), undone)
    }

    /// Stages the frames of the batch at hand that have been moved so far. Handlers run in the
    /// frames' order: those behind the last one that is moved have not been handled yet. In a batch
    /// from a queue these have their marks where the others have their ports.
    pub(super) fn stage_moved(&mut self) {
        // SAFETY: null, or the batch that `handle` has lent to the program, which is inside a call
        // of ours.
        let Some(batch) = (unsafe { self.current.as_mut() }) else { return };
        let at = self.app.wl.at.cast_const();
        let handled = batch.frames.iter().position(|f| std::ptr::eq(f, at)).map_or(batch.len(), |k| k + 1);
        let Some(last) = (self.staged..handled).rev().find(|k| batch.frames[*k].out != WL_GONE) else { return };
        for k in self.staged..=last {
            if batch.frames[k].out != WL_GONE {
                self.stage_of(batch, k);
            }
        }
        self.entries.of = EntryOf::Buffer;
        self.staged = last + 1;
    }
}
