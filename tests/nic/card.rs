//! A process for a card's processor of another kind, without the runtime: the runtime's own rings,
//! and the generated C of a segment. The test `packet_nic::a_processor_of_another_kind` compiles it
//! for this machine and for aarch64.
//!
//!     card make FILE
//!     card run FILE FRAMES
//!     card feed FILE FRAMES OUT
//!
//! FILE holds two rings, one behind the other: to the card, and back. `feed` puts frames in, and
//! writes what comes back to OUT.

#![allow(dead_code)]

// The meter takes the link's parameters from the crate that has them.
extern crate self as wireloom_ir;
#[path = "../../crates/ir/src/link.rs"]
pub mod link;

#[path = "../../crates/runtime/src/packet"]
pub mod packet {
    pub mod pool {
        pub const FRAME_MAX: usize = 262_144;
    }
    #[path = "nic"]
    pub mod nic {
        pub mod meter;
        pub mod ring;
    }
}

use packet::nic::ring::{Form, Head, RingConsumer, RingMemory, RingProducer, CONTENT_MAX};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Arc;

extern "C" {
    fn card_begin();
    fn card_handle(handler: u32, p: *mut u8, n: u32, mark: *mut u32) -> u32;
    fn card_headroom() -> u32;
    fn card_tailroom() -> u32;
    fn mmap(at: *mut u8, len: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
}

/// The handler of `hard`, and the port `answers`, in the order of the program.
const HANDLER: u32 = 1;
const ANSWERS: u32 = 3;

/// The two rings in a file.
fn rings(file: &str) -> (RingMemory, RingMemory) {
    let form = Form::of(64, 256, CONTENT_MAX);
    let file = std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(file);
    let file = file.expect("the file");
    file.set_len(2 * form.bytes() as u64).expect("its length");
    // SAFETY: the file's length, readable and writable, shared.
    let at = unsafe { mmap(std::ptr::null_mut(), 2 * form.bytes(), 3, 1, file.as_raw_fd(), 0) };
    assert!(!at.is_null() && at as isize != -1, "it cannot be mapped");
    // SAFETY: two rings, in memory that stays mapped.
    unsafe { (RingMemory::at(at, form, Arc::new(())), RingMemory::at(at.add(form.bytes()), form, Arc::new(()))) }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (to, back) = rings(&args[1]);
    let frames = || args[2].parse().expect("a number");
    match args[0].as_str() {
        "make" => {
            to.clear();
            back.clear();
        }
        "run" => run(RingConsumer::new(to, false), RingProducer::new(back, 64, false), frames()),
        _ => feed(RingProducer::new(to, 64, false), RingConsumer::new(back, false), frames(), &args[3]),
    }
}

fn next(ring: &mut RingConsumer) -> Head {
    loop {
        match ring.peek() {
            Some(h) => return h,
            None => std::thread::yield_now(),
        }
    }
}

fn run(mut to: RingConsumer, mut back: RingProducer, frames: u64) {
    // SAFETY: plain functions of card.c.
    let (head, tail) = unsafe {
        card_begin();
        (card_headroom() as usize, card_tailroom() as usize)
    };
    let mut room = vec![0u8; head + 65_536 + tail];
    for _ in 0..frames {
        let h = next(&mut to);
        let (n, mut mark) = (h.len as usize, h.mark);
        // SAFETY: the room is longer than any frame of the test.
        let out = unsafe {
            let at = room.as_mut_ptr().add(head);
            to.take([(at, n), (at, 0)]);
            card_handle(HANDLER, at, n as u32, &mut mark)
        };
        assert_eq!(out, ANSWERS << 16, "it goes to the queue");
        while !back.has_room(n) {
            std::thread::yield_now();
        }
        back.put(Head { mark, ..h }, [&room[head..head + n], &[]]);
    }
}

/// IPv4 and UDP with a payload, from a few sources; each ninth is something else.
fn frame(n: u64) -> Vec<u8> {
    let size = (n * 37 % 1400) as usize;
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    f.extend((28 + size as u16).to_be_bytes());
    f.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, (n % 11) as u8, 10, 1, 0, 1]);
    let sum = f[14..34].chunks(2).fold(0u32, |s, b| s + u32::from(u16::from_be_bytes([b[0], b[1]])));
    f[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    f.extend([0, 9, 0, 53]);
    f.extend((8 + size as u16).to_be_bytes());
    f.extend([0, 0]);
    f.extend((0..size).map(|i| (n as usize * 7 + i) as u8));
    if n % 9 == 0 {
        f[12] = 0x88;
    }
    f
}

fn feed(mut to: RingProducer, mut back: RingConsumer, frames: u64, out: &str) {
    let mut file = std::io::BufWriter::new(std::fs::File::create(out).expect("OUT"));
    let (mut sent, mut came) = (0, 0);
    while came < frames {
        let f = frame(sent);
        if sent < frames && to.has_room(f.len()) {
            let len = f.len() as u32;
            to.put(Head { len, frame: len, wire: len, mark: 1000, time: sent, now: sent }, [&f, &[]]);
            sent += 1;
        }
        let Some(h) = back.peek() else {
            std::thread::yield_now();
            continue;
        };
        let mut bytes = vec![0; h.len as usize];
        // SAFETY: as long as the entry.
        unsafe { back.take([(bytes.as_mut_ptr(), bytes.len()), (bytes.as_mut_ptr(), 0)]) };
        assert_eq!(h.now, came, "in order");
        writeln!(file, "{} {} {bytes:?}", h.mark, h.time).expect("OUT");
        came += 1;
    }
}
