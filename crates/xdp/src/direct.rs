//! Values of arrays that programs reach by an address, without a lookup.
//!
//! The kernel gives the address of a map's only value to an instruction that names the map
//! (`BPF_PSEUDO_MAP_VALUE`). `aya` makes such instructions for global variables only, and does not
//! let the process share their memory. So the C has a number in the place of the address
//! (`WL_DIRECT_CORES` and others of `support/bpf.h`). Here the map is made, and each instruction
//! with the number gets its descriptor.

use crate::Error;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An array of one value.
pub struct Direct {
    map: OwnedFd,
    number: u64,
}

/// Begin of `union bpf_attr` for `BPF_MAP_CREATE`.
#[repr(C)]
#[derive(Default)]
struct Create {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

impl Create {
    /// The map, under a name.
    fn made(mut self, name: &str) -> io::Result<OwnedFd> {
        self.name.iter_mut().zip(name.bytes().take(15)).for_each(|(to, b)| *to = b);
        let size = std::mem::size_of::<Create>() as libc::c_uint;
        // SAFETY: the attribute has the kernel's layout, as far as its size says.
        let map = unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_CREATE, &raw mut self, size) };
        if map < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor, which nobody else has.
        Ok(unsafe { OwnedFd::from_raw_fd(map as i32) })
    }
}

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_TYPE_RINGBUF: u32 = 27;
/// Bytes of the smallest ring.
const RING: u32 = 65536;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_F_MMAPABLE: u32 = 1024;

impl Direct {
    /// `number` stands in the C for the address of the value, which has so many bytes, all 0.
    pub fn new(name: &str, number: u64, bytes: usize) -> Result<Direct, Error> {
        let fail = |e| Error::System(format!("cannot make the map {name}"), e);
        let value = u32::try_from(bytes).map_err(|_| fail(io::ErrorKind::OutOfMemory.into()))?;
        let kind = BPF_MAP_TYPE_ARRAY;
        let map = Create { kind, key: 4, value, entries: 1, flags: BPF_F_MMAPABLE, ..Create::default() };
        Ok(Direct { map: map.made(name).map_err(fail)?, number })
    }

    /// A ring buffer, to see whether the kernel has them.
    pub fn ring(name: &str) -> io::Result<OwnedFd> {
        Create { kind: BPF_MAP_TYPE_RINGBUF, entries: RING, ..Create::default() }.made(name)
    }

    pub fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Gives each instruction of an object that loads the number the value's address.
    pub fn put_into(&self, object: &mut [u8]) {
        for_each_load(object, self.number, |two| {
            two[1] = two[1] & 0x0f | BPF_PSEUDO_MAP_VALUE << 4;
            two[4..8].copy_from_slice(&self.map.as_raw_fd().to_le_bytes());
            two[12..16].fill(0);
        })
    }
}

/// Has each instruction of an object that loads a number load another one.
pub fn put_number(object: &mut [u8], number: u64, other: u64) {
    for_each_load(object, number, |two| {
        two[4..8].copy_from_slice(&(other as u32).to_le_bytes());
        two[12..16].copy_from_slice(&((other >> 32) as u32).to_le_bytes());
    })
}

fn for_each_load(object: &mut [u8], number: u64, change: impl Fn(&mut [u8])) {
    for at in (0..object.len().saturating_sub(2 * INSTRUCTION - 1)).step_by(INSTRUCTION) {
        let Some(two) = object.get_mut(at..at + 2 * INSTRUCTION) else { return };
        if loaded(two) == Some(number) {
            change(two)
        }
    }
}

/// Bytes of an instruction; loading 64 bits takes two, of which the second has the upper half.
const INSTRUCTION: usize = 8;
const LOAD_64: u8 = 0x18;
const BPF_PSEUDO_MAP_VALUE: u8 = 2;

/// The number that a plain instruction loads.
fn loaded(two: &[u8]) -> Option<u64> {
    if two[0] != LOAD_64 || two[1] >> 4 != 0 || two[8..12] != [0; 4] {
        return None;
    }
    let half = |at: usize| two[at..at + 4].try_into().map(u32::from_le_bytes).ok();
    Some(u64::from(half(12)?) << 32 | u64::from(half(4)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_becomes_an_address() {
        let number = 0x0102_0304_0506_0708u64;
        let mut plain = vec![LOAD_64, 3, 0, 0, 8, 7, 6, 5, 0, 0, 0, 0, 4, 3, 2, 1];
        assert_eq!(loaded(&plain), Some(number));
        let mut object = [vec![0; 8], plain.clone(), vec![9; 8]].concat();
        let map = OwnedFd::from(std::fs::File::open("/dev/null").expect("a descriptor"));
        let fd = map.as_raw_fd() as u8;
        Direct { map, number }.put_into(&mut object);
        assert_eq!(
            object,
            [vec![0; 8], vec![LOAD_64, 0x23, 0, 0, fd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], vec![9; 8]].concat()
        );
        let mut object = [plain.clone(), vec![9; 8]].concat();
        put_number(&mut object, number, 0x1112_1314_1516_1718);
        assert_eq!(loaded(&object), Some(0x1112_1314_1516_1718));
        // It names a map already.
        plain[1] = 0x13;
        assert_eq!(loaded(&plain), None);
    }
}
