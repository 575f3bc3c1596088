//! A frame as a record of a capture says where it lies; integers of either byte order.

/// A frame in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub time: u64,
    pub wire: u32,
    /// Where its bytes begin, from the record's first byte.
    pub(super) at: usize,
    pub(super) n: usize,
    /// Length of the record.
    pub(super) record: usize,
}

impl Next {
    pub fn new(time: u64, wire: u32, at: usize, n: usize, record: usize) -> Next {
        Next { time, wire, at, n, record }
    }
}

/// A number of the file, in its byte order. There are enough bytes.
pub fn u32_at(b: &[u8], at: usize, big: bool) -> u32 {
    let bytes = [b[at], b[at + 1], b[at + 2], b[at + 3]];
    if big {
        u32::from_be_bytes(bytes)
    } else {
        u32::from_le_bytes(bytes)
    }
}

pub fn u16_at(b: &[u8], at: usize, big: bool) -> u16 {
    let bytes = [b[at], b[at + 1]];
    if big {
        u16::from_be_bytes(bytes)
    } else {
        u16::from_le_bytes(bytes)
    }
}
