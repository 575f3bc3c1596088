//! Entries of queues: they cross beside frames. In: the entries that a program has filled for
//! frames that it sends to queues. Out: the same, where the program looks for those of frames
//! that come from queues.
//!
//! On its way an entry belongs to the buffer of its frame ([`Region::entry`]). While a batch is
//! handled the program has the entries of its frames one behind the other (`wl_core.entries`). The
//! layout of an entry is that of [`wireloom_ir::layout::Entry`].
//!
//! [`Region::entry`]: crate::packet::pool::Region::entry

use super::PacketCore;
use crate::abi::wl_frame;
use crate::packet::batch::{bytes, Buf, LONG_BATCH, NONE};
use crate::packet::pool::Pool;

/// Whose entry goes along with the frame that is staged.
#[derive(Clone, Copy, PartialEq)]
pub enum EntryOf {
    /// It came with its buffer.
    Buffer,
    /// That of a frame of the batch at hand.
    Frame(usize),
    /// That of a copy.
    Copy,
}

/// The entries of a batch, behind that of a copy.
type EntrySlots = Box<[u64]>;

pub struct Entries {
    /// Bytes of an entry, a multiple of 8; 0: they are empty.
    pub bytes: usize,
    batch: EntrySlots,
    /// Those of frames that were popped: they are handled while a batch is.
    popped: EntrySlots,
    pub of: EntryOf,
}

impl Entries {
    pub fn new(bytes: usize) -> Entries {
        let slots = || vec![0u64; if bytes == 0 { 0 } else { bytes / 8 * (LONG_BATCH + 1) }].into_boxed_slice();
        Entries { bytes, batch: slots(), popped: slots(), of: EntryOf::Buffer }
    }

    fn slots(&mut self, popped: bool) -> &mut EntrySlots {
        if popped {
            &mut self.popped
        } else {
            &mut self.batch
        }
    }

    /// That of the first frame.
    fn first(&mut self, popped: bool) -> *mut u8 {
        let copy = self.bytes / 8;
        self.slots(popped)[copy..].as_mut_ptr().cast()
    }

    /// Frame `k` of a batch has come from a queue.
    pub fn take(&mut self, pool: &Pool, buf: Buf, k: usize, popped: bool) {
        let n = self.bytes / 8;
        if n > 0 {
            pool.region().entry(buf, n, |entry| self.slots(popped)[(k + 1) * n..][..n].copy_from_slice(entry));
        }
    }

    /// The entry of the frame that is staged, if the program has filled it.
    fn at_hand(&mut self, popped: bool) -> Option<&[u64]> {
        let n = self.bytes / 8;
        let k = match self.of {
            EntryOf::Buffer => return None,
            EntryOf::Copy => 0,
            EntryOf::Frame(k) => k + 1,
        };
        Some(&self.slots(popped)[k * n..][..n])
    }

    /// A frame goes to a queue in this buffer.
    pub fn give(&mut self, pool: &Pool, buf: Buf, popped: bool) {
        if let Some(own) = self.at_hand(popped).filter(|own| !own.is_empty()) {
            pool.region().entry(buf, own.len(), |entry| entry.copy_from_slice(own));
        }
    }
}

impl PacketCore {
    /// The program finds the entries of the batch at hand.
    pub(super) fn show_entries(&mut self, frames: *mut wl_frame) {
        if self.entries.bytes > 0 {
            self.app.wl.frames = frames;
            self.app.wl.entries = self.entries.first(self.popped.serving);
        }
    }

    /// How many bytes of a frame that is staged cross a queue.
    fn there(&mut self, port: usize, n: u32) -> usize {
        let part = self.app.app.desc.ports[port].part;
        let first = self.entries.at_hand(self.popped.serving).and_then(|e| e.first()).map(|word| word.to_ne_bytes());
        part.there(first.as_ref().map_or(&[][..], |word| word), n) as usize
    }

    /// A frame that nobody gives back is copied before it waits: its port shows it again.
    pub(super) fn owned(&mut self, port: usize, f: wl_frame, buf: Buf) -> Option<(Buf, wl_frame)> {
        if buf != NONE {
            return Some((buf, f));
        }
        let there = self.there(port, f.n);
        let copy = self.store(bytes(&f), there);
        copy.map(|(b, c)| (b, wl_frame { p: c.p, head: c.head, tail: c.tail, ..f }))
    }

    /// A copy of a frame for a queue, or for another port.
    pub(super) fn copied_part(&mut self, port: usize, data: &[u8]) -> Option<(Buf, wl_frame)> {
        let there = if self.is_queue(port) { self.there(port, data.len() as u32) } else { data.len() };
        self.store(data, there)
    }

    pub(super) fn is_queue(&self, port: usize) -> bool {
        self.queues.get(port) == Some(&true)
    }
}
