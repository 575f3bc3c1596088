//! Ports that lead nowhere: `null`.

use super::pool::Pool;
use super::port::{Batch, FramePort};
use std::io;

/// Takes all, gives nothing.
pub struct Null;

impl FramePort for Null {
    fn receive(&mut self, _: &mut Pool, _: &mut Batch, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> u32 {
        let n = batch.len() as u32;
        batch.release(pool);
        n
    }
    fn ended(&self) -> bool {
        true
    }
}
