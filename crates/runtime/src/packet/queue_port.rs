//! A queue inside the program as a port: frames are sent to it, and it never receives.

use super::batch::Batch;
use super::pool::Pool;
use super::port::{FramePort, Sent};
use super::queue::Queue;
use std::io;

impl FramePort for Queue {
    fn receive(&mut self, _: &mut Pool, _: &mut Batch, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> Sent {
        let mut taken = Sent::default();
        for (f, buf) in batch.frames.iter().zip(&batch.bufs) {
            taken = taken.and(f, self.push(pool, *buf, *f));
        }
        batch.clear();
        taken
    }

    fn ended(&self) -> bool {
        true
    }

    fn queue(&mut self) -> Option<&mut Queue> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_left_is_counted() {
        let mut pool = Pool::all(1, 8).unwrap().remove(0);
        let batch = |pool: &mut Pool| {
            let mut batch = Batch::default();
            for n in [60, 70, 80] {
                let (buf, f) = pool.store(&vec![0; n]).unwrap();
                batch.push(buf, f);
            }
            batch
        };
        let mut frames = batch(&mut pool);
        assert_eq!(Queue::new(2).transmit(&mut pool, &mut frames), Sent { frames: 2, bytes: 130 });
        // A capture that is read takes nothing.
        let mut file = vec![0; 24];
        file[..6].copy_from_slice(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0]);
        file[20] = 1;
        let reader = crate::packet::pcap::Reader::new(Box::new(io::Cursor::new(file))).unwrap();
        let mut frames = batch(&mut pool);
        assert_eq!(crate::packet::pcap::CaptureInput(reader).transmit(&mut pool, &mut frames), Sent::default());
        assert_eq!(pool.free(), 6);
    }
}
