//! Captures that tests make and read, and programs that run over them.

use crate::folder::Folder;
use crate::process::{finish, quickly_compiled};
use crate::Wireloom;
use fastrand::Rng;
use std::path::Path;

pub const MS: u64 = 1_000_000;
/// When the captures begin.
pub const EPOCH: u64 = 1_700_000_000_000 * MS;

pub trait Runs {
    /// `wireloom run program.loom ARGS` to its end; `@` in an argument is the folder.
    fn run(&self, program: &str, args: &[&str]) -> String;
}

impl Runs for Folder {
    fn run(&self, program: &str, args: &[&str]) -> String {
        let mut command = Wireloom::program();
        command.arg("run").arg(self.file(program)).args(self.arguments(args));
        let output = finish(quickly_compiled(&mut command));
        assert_eq!(output.code, Some(0), "{args:?} in {}:\n{}", self.path().display(), output.text);
        output.text
    }
}

/// Ethernet, IPv4 and UDP with `payload` zeros.
pub fn udp(src: u8, sport: u16, dport: u16, payload: usize) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    f.extend((28 + payload as u16).to_be_bytes());
    f.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, src, 10, 1, 0, 1]);
    let sum: u32 = f[14..34].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    f[24..26].copy_from_slice(&sum.to_be_bytes());
    for n in [sport, dport, 8 + payload as u16, 0] {
        f.extend(n.to_be_bytes());
    }
    f.resize(42 + payload, 0);
    f
}

pub fn sport(f: &[u8]) -> u16 {
    u16::from_be_bytes([f[34], f[35]])
}

pub type Frames = Vec<(u64, Vec<u8>)>;

/// A capture with nanoseconds.
pub fn write(path: &Path, frames: &Frames) {
    write_cut(path, frames, |_| usize::MAX)
}

/// The same, of which each frame has as many bytes as `kept` says at most.
pub fn write_cut(path: &Path, frames: &Frames, mut kept: impl FnMut(&[u8]) -> usize) {
    let mut out = Vec::new();
    for n in [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 65535, 1] {
        out.extend(n.to_le_bytes());
    }
    for (time, f) in frames {
        let n = kept(f).min(f.len());
        for n in [(time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32, n as u32, f.len() as u32] {
            out.extend(n.to_le_bytes());
        }
        out.extend(&f[..n]);
    }
    std::fs::write(path, out).expect("the folder is writable");
}

pub fn read(path: &Path) -> Frames {
    read_cut(path).into_iter().map(|(time, _, f)| (time, f)).collect()
}

/// The time of each frame, its length on the wire, and its bytes.
pub fn read_cut(path: &Path) -> Vec<(u64, usize, Vec<u8>)> {
    let all = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let word = |at: usize| u32::from_le_bytes([all[at], all[at + 1], all[at + 2], all[at + 3]]);
    assert_eq!(word(0), 0xa1b2_3c4d, "a capture with nanoseconds");
    let (mut at, mut frames) = (24, Vec::new());
    while at < all.len() {
        let (n, wire) = (word(at + 8) as usize, word(at + 12) as usize);
        let time = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4));
        frames.push((time, wire, all[at + 16..at + 16 + n].to_vec()));
        at += 16 + n;
    }
    frames
}

pub fn traffic(seed: u64, n: u16, gaps: &[u64]) -> Frames {
    let (mut r, mut time) = (Rng::with_seed(seed), EPOCH);
    (0..n)
        .map(|i| {
            time += gaps[r.u64(..gaps.len() as u64) as usize];
            (time, udp(r.u64(..4) as u8, 1000 + i, 53, 18 + r.u64(..300) as usize))
        })
        .collect()
}

/// The keys and values of a dumped table, in order. A record has its fields in the place of a key.
pub fn rows(path: &Path) -> Vec<(String, u64)> {
    let all: Vec<serde_json::Map<String, serde_json::Value>> =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let row = |mut fields: serde_json::Map<String, serde_json::Value>| {
        let value = fields.remove("value").and_then(|v| v.as_u64()).unwrap();
        let key = fields.remove("key").unwrap_or_else(|| fields.into());
        (key.as_str().map_or_else(|| key.to_string(), String::from), value)
    };
    let mut rows: Vec<_> = all.into_iter().map(row).collect();
    rows.sort();
    rows
}
