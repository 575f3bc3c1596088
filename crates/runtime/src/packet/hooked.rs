//! Interfaces whose frames a program in the kernel's XDP hook sees first. In: the program's map of
//! sockets. Out: frames that the program gives to this process, each with the place that it was
//! sent to.

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
}

/// The place that a frame was sent to which the program gives to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// It was sent to this instance of a port.
    To { port: u16, instance: u16 },
    /// A note in front of the frame says it.
    Noted,
}

/// The note of a frame for the handler of its own port.
const OWN: u16 = u16::MAX;
/// Bytes of a note: a number in the order of this machine.
const NOTE: usize = 8;

impl Gives {
    /// Puts the place that a frame was sent to where ports are sent to, and its mark. `WL_GONE`:
    /// the frame is for the handler of its own port. False: the frame has no note.
    pub fn read(self, f: &mut wl_frame) -> bool {
        let (port, instance, mark) = match self {
            Gives::To { port, instance } => (port, instance, 0),
            Gives::Noted if (f.head as usize) < NOTE => return false,
            Gives::Noted => {
                // SAFETY: as many bytes in front of the frame belong to its buffer.
                let note = unsafe { f.p.sub(NOTE).cast::<u64>().read_unaligned() };
                ((note >> 48) as u16, (note >> 32) as u16, note as u32)
            }
        };
        f.out = if port == OWN { WL_GONE } else { u32::from(port) << 16 | u32::from(instance) };
        f.set_mark(mark);
        true
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
        assert!(Gives::Noted.read(&mut f));
        assert_eq!((f.out, f.mark()), (3 << 16 | 9, 0xdead_beef));
        assert!(!Gives::Noted.read(&mut at(7)), "there is no room for a note");
        assert!(Gives::To { port: OWN, instance: 0 }.read(&mut f));
        assert_eq!((f.out, f.mark()), (WL_GONE, 0));
    }
}
