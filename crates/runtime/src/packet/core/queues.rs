//! Queues of frames: their operations for handlers, and the handlers of popped frames.
//!
//! A popped frame is handled as soon as the handler that popped it has ended. The program calls
//! `serve_popped` between two frames of a batch. The core calls it behind every other handler. It
//! runs the program's `batch` within `batch`, so the data of the current batch is put aside
//! meanwhile.

use super::{PacketCore, NO_HANDLER};
use crate::abi::*;
use crate::packet::batch::{Batch, Buf};
use crate::packet::port::Sent;

/// Popped frames that are handled at one go. A program that sends what it takes from a queue to the
/// same queue must not keep others from their turn.
const AT_ONCE: usize = 1 << 16;
/// Times that periodic handlers run behind a capture's end for what still waits.
const RUN_OUT: usize = 1 << 20;

/// Frames that were taken from queues and wait for their handlers.
#[derive(Default)]
pub struct Popped {
    frames: std::collections::VecDeque<(Buf, wl_frame)>,
    batch: Batch,
    /// Their handlers are at work.
    pub serving: bool,
    /// How often that was done which is done at most [`RUN_OUT`] times.
    ran_out: usize,
}

impl PacketCore {
    /// The answer of `wl_packets.queue`.
    pub(super) fn ask_queue(&mut self, port: u32, instance: u32, act: u32) -> u32 {
        // Frames that the handlers before have sent there count.
        self.stage_moved();
        let Some(super::Route::Here(end)) = self.way(port << 16 | instance & 0xffff) else { return 0 };
        let Some(queue) = self.ends[end].port.queue() else { return 0 };
        match act {
            WL_Q_LEN => queue.len() as u32,
            WL_Q_FIRST => queue.first().unwrap_or(0),
            _ => {
                let Some((buf, mut f)) = queue.pop(&mut self.pool) else { return 0 };
                if act == WL_Q_POP {
                    let mark = f.mark();
                    (f.port, f.instance, f.out) = (port as u16, instance as u16, mark);
                    let s = self.frame_stats(port as usize);
                    s.received.add(1);
                    s.received_bytes.add(f.n.into());
                    self.popped.frames.push_back((buf, f));
                } else {
                    self.frame_stats(port as usize).discarded.add(1);
                    self.pool.put(buf);
                }
                1
            }
        }
    }

    /// Runs the queues' handlers for what was popped. Whether there was anything.
    pub(super) fn serve_popped(&mut self) -> bool {
        if self.popped.serving || self.popped.frames.is_empty() {
            return false;
        }
        self.stage_moved();
        let outer = (self.current, self.staged, self.copied, self.missing, self.shared, self.app.wl.at);
        let entries = (self.app.wl.frames, self.app.wl.entries, self.entries.of);
        // A frame from a queue is this app's alone.
        self.shared = 0;
        self.popped.serving = true;
        let mut batch = std::mem::replace(&mut self.popped.batch, Batch::absent());
        let mut done = 0;
        while done < AT_ONCE {
            while let Some((buf, f)) = self.popped.frames.front().copied() {
                if batch.room() == 0 || batch.frames.first().is_some_and(|b| b.port != f.port) {
                    break;
                }
                self.popped.frames.pop_front();
                self.entries.take(&self.pool, buf, batch.len(), true);
                batch.push(buf, f);
            }
            let Some(first) = batch.frames.first() else { break };
            done += batch.len();
            match self.handlers[usize::from(first.port)] {
                NO_HANDLER => batch.release(&mut self.pool),
                handler => self.handle(&mut batch, handler),
            }
        }
        self.popped.batch = batch;
        self.popped.serving = false;
        (self.current, self.staged, self.copied, self.missing, self.shared, self.app.wl.at) = outer;
        (self.app.wl.frames, self.app.wl.entries, self.entries.of) = entries;
        true
    }

    /// Behind a capture's end, once: periodic handlers go on at their times while frames wait in
    /// queues. False: it has to wait for another segment first.
    fn run_out(&mut self) -> bool {
        while self.capture.is_some() && self.popped.ran_out < RUN_OUT {
            if self.every.is_empty() || self.waiting() == 0 {
                break;
            }
            if !self.settle() {
                return false;
            }
            self.popped.ran_out += 1;
            self.now = self.now.max(self.due);
            self.read_clock();
            self.run_timers();
            self.run_loops();
        }
        self.popped.ran_out = RUN_OUT;
        true
    }

    /// Whether what waited has left this core, too.
    pub fn all_run_out(&mut self) -> bool {
        let mut done = true;
        self.each(|c| done &= c.run_out());
        done && self.work_done()
    }

    fn waiting(&mut self) -> usize {
        self.ends.iter_mut().filter_map(|e| e.port.queue()).map(|q| q.len()).sum()
    }

    /// Frames that wait when the run ends are discarded, too.
    pub(super) fn lose_waiting(&mut self) {
        for e in 0..self.ends.len() {
            let of = self.ends[e].of;
            while let Some((buf, _)) = self.ends[e].port.queue().and_then(|q| q.pop(&mut self.pool)) {
                self.pool.put(buf);
                self.frame_stats(of).discarded.add(1);
            }
        }
    }

    /// A frame for a queue goes there at once, so that whoever asks next sees it.
    pub(super) fn enqueue(&mut self, end: usize, f: wl_frame, buf: Buf) {
        let has_room = self.ends[end].port.queue().is_some_and(|q| q.has_room());
        let owned = if has_room { self.owned(self.ends[end].of, f, buf) } else { Some((buf, f)) };
        let Some((buf, f)) = owned else { return self.count_sent(end, 1, Sent::default()) };
        self.entries.give(&self.pool, buf, self.popped.serving);
        let Some(queue) = self.ends[end].port.queue() else { return self.pool.put(buf) };
        let taken = queue.push(&mut self.pool, buf, f);
        self.count_sent(end, 1, Sent::default().and(&f, taken));
    }
}
