//! The port `loop`: frames that are sent to it come back into the program.

use super::batch::{Batch, Buf};
use super::pool::Pool;
use super::port::{FramePort, Sent};
use crate::abi::{wl_frame, WL_GONE};
use std::collections::VecDeque;
use std::io;

/// Returns the frames that were sent to it, in order.
#[derive(Default)]
pub struct Loop {
    waiting: VecDeque<(Buf, wl_frame)>,
}

// SAFETY: the frames point into buffers that belong to the port while it holds them.
unsafe impl Send for Loop {}

impl FramePort for Loop {
    fn receive(&mut self, _: &mut Pool, into: &mut Batch, _: u64) -> io::Result<()> {
        let n = into.room().min(self.waiting.len());
        for (buf, frame) in self.waiting.drain(..n) {
            into.push(buf, wl_frame { out: WL_GONE, ..frame });
        }
        Ok(())
    }

    fn transmit(&mut self, _: &mut Pool, batch: &mut Batch) -> Sent {
        let all = Sent::all(batch);
        self.waiting.extend(batch.bufs.drain(..).zip(batch.frames.drain(..)));
        all
    }
}
