//! Frames handed over to another core. In: a frame, its buffer and its receiver. Out: the same on
//! the other core, in order.
//!
//! A cache line that moves between cores costs both of them tens of nanoseconds. So a frame takes
//! half a line. The frames of a batch have much in common (time, port, receiver): that goes before
//! them once, as a label.

use super::batch::Buf;
use super::spsc::{self, Consumer, Producer};
use crate::abi::{wl_frame, WL_GONE};

/// A frame and its buffer.
#[derive(Clone, Copy)]
pub struct HandedFrame {
    pub frame: wl_frame,
    pub buf: Buf,
    /// The receiver on that core. For a frame to be sent: the app. For a frame to be handled: the
    /// number of [`super::core::Fans`] (0 if there is one app).
    pub of: u32,
}

// SAFETY: a buffer belongs to the core that has taken its item out of the ring.
unsafe impl Send for HandedFrame {}

/// The common parts of the frames behind it.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct CommonParts {
    time: u64,
    of: u32,
    port: u16,
    instance: u16,
}

#[derive(Clone, Copy)]
enum HandoverEntry {
    Label(CommonParts),
    Frame { p: *mut u8, n: u32, wire: u32, head: u32, tail: u32, buf: Buf },
}

const _: () = assert!(size_of::<HandoverEntry>() == 32);

// SAFETY: a buffer belongs to the core that has taken its frame out of the ring.
unsafe impl Send for HandoverEntry {}

/// The end of the core that hands frames over.
pub struct Giver {
    ring: Producer<HandoverEntry>,
    label: Option<CommonParts>,
}

/// The end of the core that takes them over.
pub struct Taker {
    ring: Consumer<HandoverEntry>,
    label: CommonParts,
}

/// A ring for at least `size` frames, or half as many if they have nothing in common.
pub fn ring(size: usize) -> (Giver, Taker) {
    let (put, take) = spsc::ring(size);
    (Giver { ring: put, label: None }, Taker { ring: take, label: CommonParts::default() })
}

impl Giver {
    /// Room for frames, whatever they have in common. Looks at the other side only if there seems
    /// to be less than `want`.
    #[inline]
    pub fn room(&mut self, want: usize) -> usize {
        self.ring.room(2 * want) / 2
    }

    pub fn is_half_full(&mut self) -> bool {
        self.ring.is_half_full()
    }

    /// Puts a frame in, to be shown later; false: the ring is full.
    #[inline]
    pub fn put(&mut self, frame: &wl_frame, buf: Buf, of: u32) -> bool {
        debug_assert_eq!(frame.out, WL_GONE, "nobody has handled it");
        let wl_frame { p, n, wire, time, port, instance, head, tail, .. } = *frame;
        let label = CommonParts { time, of, port, instance };
        if self.label != Some(label) && !self.tell(label) {
            return false;
        }
        self.ring.put(HandoverEntry::Frame { p, n, wire, head, tail, buf })
    }

    /// Puts a label in, if the frame behind it has room, too.
    fn tell(&mut self, label: CommonParts) -> bool {
        let told = self.ring.room(2) >= 2 && self.ring.put(HandoverEntry::Label(label));
        if told {
            self.label = Some(label);
        }
        told
    }

    /// Publishes the frames that were put in.
    #[inline]
    pub fn show(&self) {
        self.ring.show();
    }
}

impl Taker {
    #[inline]
    pub fn next(&mut self) -> Option<HandedFrame> {
        loop {
            match self.ring.pop()? {
                HandoverEntry::Label(label) => self.label = label,
                HandoverEntry::Frame { p, n, wire, head, tail, buf } => {
                    let CommonParts { time, of, port, instance } = self.label;
                    let frame = wl_frame { p, n, wire, time, out: WL_GONE, port, instance, head, tail };
                    return Some(HandedFrame { frame, buf, of });
                }
            }
        }
    }

    #[inline]
    pub fn is_empty(&mut self) -> bool {
        self.ring.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(n: u32, time: u64, port: u16) -> wl_frame {
        let (p, head, tail) = (std::ptr::null_mut(), n + 1, n + 2);
        wl_frame { p, n, wire: n + 3, time, out: WL_GONE, port, instance: port + 1, head, tail }
    }

    /// Every field comes back, whether a frame has its neighbours' label or not.
    #[test]
    fn frames_come_back_whole() {
        let (mut give, mut take) = ring(64);
        let sent: Vec<(wl_frame, Buf, u32)> =
            (0..30u32).map(|k| (frame(k, u64::from(k / 3), (k / 5) as u16), k + 7, k / 10)).collect();
        assert!(sent.iter().all(|(f, buf, of)| give.put(f, *buf, *of)));
        assert!(take.is_empty(), "not shown yet");
        give.show();
        for (f, buf, of) in sent {
            let item = take.next().expect("a frame");
            let parts = |f: &wl_frame| (f.p, f.n, f.wire, f.time, f.out, f.port, f.instance, f.head, f.tail);
            assert_eq!((parts(&item.frame), item.buf, item.of), (parts(&f), buf, of));
        }
        assert!(take.next().is_none() && take.is_empty());
    }

    /// A label that found no room is put in before the next frame that it belongs to.
    #[test]
    fn a_refused_label_is_not_taken_as_told() {
        let (mut give, mut take) = ring(4);
        assert!((0..3).all(|k| give.put(&frame(k, 1, 0), k, 0)));
        assert!(!give.put(&frame(3, 2, 0), 3, 0), "no room");
        give.show();
        assert_eq!(std::iter::from_fn(|| take.next()).count(), 3);
        assert!(give.put(&frame(4, 2, 0), 4, 0));
        give.show();
        assert_eq!(take.next().map(|i| i.frame.time), Some(2));
    }

    /// The promise of `room` holds for frames with a label each, and a full ring refuses.
    #[test]
    fn there_is_the_room_that_is_promised() {
        let (mut give, mut take) = ring(16);
        for round in 0..50u64 {
            let room = give.room(8);
            assert_eq!(room, 8, "round {round}");
            assert!((0..room as u32).all(|k| give.put(&frame(k, round * 100 + u64::from(k), 0), k, 0)));
            assert!(!give.put(&frame(9, 0, 0), 9, 0), "it is full");
            give.show();
            let times: Vec<u64> = std::iter::from_fn(|| take.next()).map(|i| i.frame.time).collect();
            assert!(times.into_iter().eq((0..8).map(|k| round * 100 + k)));
        }
    }
}
