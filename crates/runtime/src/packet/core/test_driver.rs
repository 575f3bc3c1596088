//! The functions with which tests drive a core: see [`super::super::sim`].

use super::PacketCore;
use crate::packet::batch::Batch;

impl PacketCore {
    /// Faults are kept, with their places.
    pub fn watch(&mut self) {
        self.watched = Some(Vec::new());
    }

    /// Those since the last call.
    pub fn take_watched(&mut self) -> Vec<(u32, u32)> {
        self.watched.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Time is that of captures: it goes on to `time`.
    pub fn move_to(&mut self, time: u64) {
        self.run_due(time);
        self.now = self.now.max(time);
        self.read_clock();
    }

    /// Runs a handler that no frame starts, and sends what it has sent.
    pub fn run_plain(&mut self, handler: u32) {
        self.run_handler(handler, None, &[]);
        self.flush();
    }

    /// Runs a handler over one frame.
    pub fn run_frame(&mut self, handler: u32, port: u16, instance: u16, time: u64, data: &[u8]) {
        let Some((buf, mut frame)) = self.pool.store(data) else { return };
        (frame.port, frame.instance, frame.time) = (port, instance, time);
        let mut batch = Batch::default();
        batch.push(buf, frame);
        self.handle(&mut batch, handler);
    }
}
