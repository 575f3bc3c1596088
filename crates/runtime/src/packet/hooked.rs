//! Interfaces whose frames a program in the kernel's XDP hook sees first. In: the program's map of
//! sockets. Out: frames that the program gives to this process, each with the place that it was
//! sent to.

use super::hook_ring::{RingSource, OWN};
use crate::abi::{wl_frame, WL_GONE};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// An instance of a port whose interface has a program in front of it.
#[derive(Clone)]
pub struct Hooked {
    pub port: usize,
    pub instance: usize,
    /// The program's map of sockets, the place of the interface's first queue in it, and the number
    /// of its places.
    pub sockets: Arc<OwnedFd>,
    pub first: u32,
    pub queues: u32,
    pub gives: Gives,
    /// The program runs behind the driver, so frames are copied.
    pub copied: bool,
    /// By which parts of frames come, from all instances of the port. The first one reads it.
    pub ring: Option<RingSource>,
}

/// How the process learns where a frame was sent that the program gives to it, and what goes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// All frames were sent to this instance of a port, whole.
    To { port: u16, instance: u16 },
    /// A note in front of the frame says it.
    Noted,
    /// So does a note behind the frame's length and an entry of so many words. The frame may be
    /// cut.
    Carried { words: u8 },
    /// Frames of at least [`LONG`] bytes have such a note, too. Others are whole, and for this
    /// instance of a port.
    LongCarried { words: u8, port: u16, instance: u16 },
}

/// Bytes of a note: a number in the order of this machine.
const NOTE: usize = 8;
/// Frames of fewer bytes are not cut: `WL_LONG` of `support/bpf.h`.
const LONG: u32 = 256;

/// The length and the entry that came with a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Bytes that the frame had before it was cut.
    pub n: u32,
    /// Words of its entry, in front of the length.
    words: usize,
}

impl Gives {
    /// Puts the place that a frame was sent to where ports are sent to, and its mark. `WL_GONE`:
    /// the frame is for the handler of its own port. None: the frame has no note.
    pub fn read(self, f: &mut wl_frame) -> Option<Came> {
        let (to, came) = match self {
            Gives::To { port, instance } => (Some((port, instance)), Came { n: f.n, words: 0 }),
            Gives::Noted => (None, Came { n: f.n, words: 0 }),
            Gives::LongCarried { port, instance, .. } if f.n < LONG => {
                (Some((port, instance)), Came { n: f.n, words: 0 })
            }
            Gives::Carried { words } | Gives::LongCarried { words, .. } => {
                let words = usize::from(words);
                if (f.head as usize) < (words + 2) * NOTE {
                    return None;
                }
                (None, Came { n: word(f, 2) as u32, words })
            }
        };
        let (port, instance, mark) = match to {
            Some((port, instance)) => (port, instance, 0),
            None if (f.head as usize) < NOTE => return None,
            None => {
                let note = word(f, 1);
                ((note >> 48) as u16, (note >> 32) as u16, note as u32)
            }
        };
        f.out = if port == OWN { WL_GONE } else { u32::from(port) << 16 | u32::from(instance) };
        f.set_mark(mark);
        // More than the buffer holds cannot be: nobody reads behind what has come, but copies have
        // this length.
        Some(Came { n: came.n.clamp(f.n, f.n + f.tail), ..came })
    }
}

/// The word that is so many words in front of a frame, which has the room.
fn word(f: &wl_frame, before: usize) -> u64 {
    // SAFETY: by contract as many bytes in front of the frame belong to its buffer.
    unsafe { f.p.sub(before * NOTE).cast::<u64>().read_unaligned() }
}

impl Came {
    /// Puts the entry where that of the frame's buffer is.
    pub fn entry(self, f: &wl_frame, own: &mut [u64]) {
        match own.first_mut() {
            // Of a whole frame without a note all is there.
            Some(first) if self.words == 0 => {
                *first = u64::from_ne_bytes([f.n.to_ne_bytes(), [0; 4]].concat().try_into().unwrap_or_default())
            }
            _ => own.iter_mut().take(self.words).enumerate().for_each(|(k, w)| *w = word(f, self.words + 2 - k)),
        }
    }

    /// The frame with its length.
    pub fn whole(self, f: &mut wl_frame) {
        let more = self.n - f.n;
        (f.n, f.wire, f.tail) = (self.n, f.wire.max(self.n), f.tail - more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_the_port_and_carries_the_mark() {
        let mut room = [0u8; 64];
        let note = 3u64 << 48 | 9 << 32 | 0xdead_beef;
        room[8..16].copy_from_slice(&note.to_ne_bytes());
        let at = |head: u32| wl_frame {
            p: room.as_ptr().wrapping_add(16).cast_mut(),
            n: 48,
            wire: 48,
            time: 0,
            out: WL_GONE,
            port: 0,
            instance: 0,
            head,
            tail: 0,
        };
        let mut f = at(16);
        assert!(Gives::Noted.read(&mut f).is_some());
        assert_eq!((f.out, f.mark()), (3 << 16 | 9, 0xdead_beef));
        assert!(Gives::Noted.read(&mut at(7)).is_none(), "there is no room for a note");
        assert!(Gives::To { port: OWN, instance: 0 }.read(&mut f).is_some());
        assert_eq!((f.out, f.mark()), (WL_GONE, 0));
    }

    /// A cut frame has its length and its entry in front of it. One that is shorter than [`LONG`]
    /// has nothing there.
    #[test]
    fn a_cut_frame_has_its_length_again() {
        let mut room = [0u64; 160];
        (room[2], room[3], room[4], room[5]) = (7 << 32 | 300, 0x1122, 1500, 3 << 48 | 9 << 32);
        let at = |n: u32, head: u32, tail: u32| {
            let p = room[6..].as_ptr().cast_mut().cast();
            wl_frame { p, n, wire: n, time: 0, out: WL_GONE, port: 0, instance: 0, head, tail }
        };
        for gives in [Gives::Carried { words: 2 }, Gives::LongCarried { words: 2, port: 1, instance: 1 }] {
            let mut f = at(300, 48, 2000);
            let came = gives.read(&mut f).expect("a note");
            let mut own = [0; 3];
            came.entry(&f, &mut own);
            came.whole(&mut f);
            assert_eq!((f.out, f.n, f.wire, f.tail, own), (3 << 16 | 9, 1500, 1500, 800, [7 << 32 | 300, 0x1122, 0]));
            // Never longer than its buffer, or shorter than what has come.
            assert_eq!(gives.read(&mut at(300, 48, 100)).map(|c| c.n), Some(400));
            assert_eq!(gives.read(&mut at(2000, 48, 100)).map(|c| c.n), Some(2000));
            assert_eq!(gives.read(&mut at(300, 31, 100)), None, "there is no room for a note");
        }
        let mut f = at(60, 0, 9);
        let came = Gives::LongCarried { words: 2, port: 1, instance: 2 }.read(&mut f).expect("no note is needed");
        let mut own = [u64::MAX; 2];
        came.entry(&f, &mut own);
        assert_eq!(
            (f.out, came.n, own[0].to_ne_bytes()[..4].to_vec()),
            (1 << 16 | 2, 60, 60u32.to_ne_bytes().to_vec())
        );
    }
}
