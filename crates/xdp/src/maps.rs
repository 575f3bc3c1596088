//! The maps of a loaded program, by name.

use aya::maps::Map;
use aya::Ebpf;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// The descriptor of an array, also one of maps, a hash map, a trie or a ring. `NotFound`: the
/// program has no such map.
pub(crate) fn map_of<'e>(ebpf: &'e Ebpf, name: &str) -> io::Result<BorrowedFd<'e>> {
    match ebpf.map(name) {
        Some(
            Map::Array(data)
            | Map::ArrayOfMaps(data)
            | Map::HashMap(data)
            | Map::LruHashMap(data)
            | Map::LpmTrie(data)
            | Map::ProgramArray(data)
            | Map::RingBuf(data),
        ) => Ok(data.fd().as_fd()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}
