//! The port `null`: it discards frames and never receives one.

use super::batch::Batch;
use super::pool::Pool;
use super::port::{FramePort, Sent};
use std::io;

/// Takes all, gives nothing.
pub struct Null;

impl FramePort for Null {
    fn receive(&mut self, _: &mut Pool, _: &mut Batch, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> Sent {
        let all = Sent::all(batch);
        batch.release(pool);
        all
    }
    fn swallows(&self) -> bool {
        true
    }
    fn ended(&self) -> bool {
        true
    }
}
