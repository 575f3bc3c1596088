//! The part of BPF that AF_XDP needs: a map of sockets by queue, and a program that gives each
//! frame to its queue's socket. The program's attachment to an interface ends with the process.

use crate::engine::common;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const MAP_XSK: u32 = 17;
const PROG_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const REDIRECT_MAP: i32 = 51;
/// Frames of queues without a socket are dropped.
const XDP_DROP: i32 = 1;
/// Offset of the receiving queue in the program's context.
const RX_QUEUE: i16 = 16;

/// The program takes frames of several buffers (linux/bpf.h, since Linux 5.18).
const HAS_FRAGS: u32 = 1 << 5;

/// By the driver, or else by the generic path behind it.
pub const XDP_FLAGS_DRIVER: u32 = 1 << 2;
pub const XDP_FLAGS_GENERIC: u32 = 1 << 1;

/// The argument of the system call: a union whose members are written where the kernel looks for
/// them.
#[repr(C, align(8))]
struct Attr([u8; 144]);

impl Attr {
    fn new() -> Attr {
        Attr([0; 144])
    }
    fn word(mut self, at: usize, v: u32) -> Attr {
        self.0[at..at + 4].copy_from_slice(&v.to_ne_bytes());
        self
    }
    fn fd(self, at: usize, fd: &OwnedFd) -> Attr {
        self.word(at, fd.as_raw_fd() as u32)
    }
    fn pointer<T>(mut self, at: usize, p: *const T) -> Attr {
        self.0[at..at + 8].copy_from_slice(&(p as u64).to_ne_bytes());
        self
    }
    /// # Safety
    /// Pointers in it are valid for as long as the command reads.
    unsafe fn call(&self, command: libc::c_long) -> io::Result<libc::c_long> {
        // SAFETY: by contract; the kernel reads no more than the given size.
        let r = unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_ptr(), self.0.len()) };
        if r < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(r)
        }
    }
    /// # Safety
    /// As for `call`.
    unsafe fn open(&self, command: libc::c_long) -> io::Result<OwnedFd> {
        // SAFETY: by contract; the command answers a new descriptor.
        unsafe { self.call(command).map(|fd| OwnedFd::from_raw_fd(fd as i32)) }
    }
}

fn instruction(code: u8, to: u8, from: u8, offset: i16, value: i32) -> u64 {
    u64::from(code) | u64::from(from << 4 | to) << 8 | u64::from(offset as u16) << 16 | u64::from(value as u32) << 32
}

/// The program on an interface; detached when dropped.
pub struct Attached {
    map: OwnedFd,
    _program: OwnedFd,
    _link: OwnedFd,
    pub generic: bool,
    /// Frames of several buffers pass.
    pub frags: bool,
}

impl Attached {
    pub fn new(interface: u32, queues: usize) -> io::Result<Attached> {
        // SAFETY: no pointers.
        let map =
            unsafe { Attr::new().word(0, MAP_XSK).word(4, 4).word(8, 4).word(12, queues as u32).open(MAP_CREATE)? };
        // Old kernels know no such flag, and some drivers refuse a program that has it.
        Self::attach(&map, interface, HAS_FRAGS)
            .or_else(|e| match e.raw_os_error() {
                Some(libc::EBUSY | libc::EPERM) => Err(e),
                _ => Self::attach(&map, interface, 0),
            })
            .map(|(program, link, generic, frags)| Attached { map, _program: program, _link: link, generic, frags })
    }

    fn attach(map: &OwnedFd, interface: u32, load_flags: u32) -> io::Result<(OwnedFd, OwnedFd, bool, bool)> {
        let program = load(map, load_flags)?;
        // SAFETY: no pointers.
        let attach = |flags| unsafe {
            Attr::new().fd(0, &program).word(4, interface).word(8, ATTACH_XDP).word(12, flags).open(LINK_CREATE)
        };
        let (link, generic) = match attach(XDP_FLAGS_DRIVER) {
            Ok(link) => (link, false),
            // In use by another program: the generic path would be refused as well, and its error
            // says less.
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => return Err(e),
            Err(_) => (attach(XDP_FLAGS_GENERIC)?, true),
        };
        Ok((program, link, generic, load_flags & HAS_FRAGS != 0))
    }

    /// Frames of this queue go to this socket.
    pub fn give(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        put_socket(&self.map, queue, socket)
    }
}

/// Puts a socket into a map of sockets.
pub fn put_socket(map: &OwnedFd, place: u32, socket: &OwnedFd) -> io::Result<()> {
    let value = socket.as_raw_fd();
    let attr = Attr::new().fd(0, map).pointer(8, &place).pointer(16, &value);
    // SAFETY: key and value are four bytes each and live here.
    unsafe { attr.call(MAP_UPDATE).map(drop) }
}

/// r2 = the queue; r1 = the map; r3 = the action without a socket; redirect. A queue that has come
/// later has no socket: its frames must not pass by the app.
fn load(map: &OwnedFd, flags: u32) -> io::Result<OwnedFd> {
    let code = [
        instruction(0x61, 2, 1, RX_QUEUE, 0),
        instruction(0x18, 1, 1, 0, map.as_raw_fd()),
        0,
        instruction(0xb7, 3, 0, 0, XDP_DROP),
        instruction(0x85, 0, 0, 0, REDIRECT_MAP),
        instruction(0x95, 0, 0, 0, 0),
    ];
    let license = c"Apache-2.0";
    let attr = Attr::new()
        .word(0, PROG_XDP)
        .word(4, code.len() as u32)
        .pointer(8, code.as_ptr())
        .pointer(16, license.as_ptr())
        .word(44, flags)
        .word(68, ATTACH_XDP);
    // SAFETY: instructions and license live here.
    unsafe { attr.open(PROG_LOAD) }
}

/// As [`common::check`], for results of system calls that take a size.
pub fn set<T>(fd: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    let (at, size) = ((value as *const T).cast(), std::mem::size_of::<T>() as u32);
    // SAFETY: the value lives here and has the size given.
    common::check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, at, size) }).map(drop)
}
