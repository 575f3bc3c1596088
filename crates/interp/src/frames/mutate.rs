//! Frames to test programs with: a few well-formed ones of most kinds, and changes of given ones.

use super::headers::{ether, extended, ip6, tcp};
use super::FrameIn;
use crate::generate::Rng;

/// Makes frames out of given ones.
pub struct Mutator {
    rng: Rng,
    corpus: Vec<Vec<u8>>,
    /// Addresses that mean something to the app.
    addresses: Vec<[u8; 4]>,
    /// Ports, their instances, and whether their frames begin with Ethernet.
    inputs: Vec<(usize, u16, bool)>,
    time: u64,
}

/// Values that lengths and offsets like to go wrong at.
const NUMBERS: [u16; 14] = [0, 1, 4, 5, 8, 19, 20, 21, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff];

impl Mutator {
    pub fn new(seed: u64, corpus: Vec<Vec<u8>>, addresses: Vec<[u8; 4]>, inputs: Vec<(usize, u16, bool)>) -> Mutator {
        Mutator { rng: Rng::new(seed), corpus, addresses, inputs, time: 1_700_000_000_000_000_000 }
    }

    /// Every frame unchanged, every prefix of it (also as a longer frame that a capture has cut),
    /// and every byte changed in six ways.
    pub fn systematic(&self) -> Vec<(Vec<u8>, u32)> {
        let mut all = Vec::new();
        for f in &self.corpus {
            let n = f.len() as u32;
            for cut in 0..=f.len() {
                all.push((f[..cut].to_vec(), cut as u32));
                all.push((f[..cut].to_vec(), n));
            }
            for at in 0..f.len() {
                let mut tried = vec![f[at]];
                for value in [0, 0xff, f[at].wrapping_add(1), f[at] ^ 1, f[at] ^ 0x80, f[at] ^ 0x10] {
                    if !tried.contains(&value) {
                        tried.push(value);
                        let mut g = f.clone();
                        g[at] = value;
                        all.push((g, n));
                    }
                }
            }
        }
        all
    }

    /// Bytes as a frame on one of the ports.
    pub fn place(&mut self, mut bytes: Vec<u8>, wire: u32) -> FrameIn {
        let (port, instances, ethernet) = self.inputs[self.rng.below(self.inputs.len() as u64) as usize];
        let mut wire = wire.max(bytes.len() as u32);
        if !ethernet {
            let link = bytes.len().min(14);
            bytes.drain(..link);
            wire -= link as u32;
        }
        self.time += match self.rng.below(1000) {
            0 => 400_000_000_000,
            1..=9 => 11_000_000_000,
            _ => self.rng.below(2_000_000),
        };
        let rooms = match self.rng.below(4) {
            0 => (0, 0),
            1 => (self.rng.below(64) as u32, self.rng.below(64) as u32),
            _ => (256, 256),
        };
        FrameIn {
            port,
            instance: self.rng.below(instances.into()) as u16,
            time: self.time,
            wire,
            bytes,
            rooms,
            mark: 0,
            entry: Vec::new(),
        }
    }

    /// A random frame.
    pub fn random(&mut self) -> FrameIn {
        let mut f = self.any();
        for _ in 0..self.rng.below(5) {
            self.change(&mut f);
        }
        let wire = if self.rng.chance(5) { f.len() as u32 + self.rng.below(1500) as u32 } else { 0 };
        self.place(f, wire)
    }

    fn any(&mut self) -> Vec<u8> {
        let n = self.rng.below(self.corpus.len() as u64) as usize;
        self.corpus[n].clone()
    }

    fn change(&mut self, f: &mut Vec<u8>) {
        let n = f.len() as u64;
        if n < 2 {
            f.push(self.rng.any() as u8);
            return;
        }
        // Headers stand in front: changes there do more.
        let reach = if self.rng.chance(70) { n.min(64) } else { n };
        let at = self.rng.below(reach) as usize;
        let number = NUMBERS[self.rng.below(NUMBERS.len() as u64) as usize];
        match self.rng.below(14) {
            0 | 1 => f[at] ^= 1 << self.rng.below(8),
            2 => f[at] = self.rng.any() as u8,
            3 => f[at] = number as u8,
            4 | 5 => {
                let at = at & !1;
                let was = u16::from_be_bytes([f[at], *f.get(at + 1).unwrap_or(&0)]);
                let to = match self.rng.below(4) {
                    0 => number,
                    1 => was.wrapping_add(number),
                    2 => was.wrapping_sub(number),
                    _ => f.len() as u16 - at as u16,
                };
                f[at] = (to >> 8) as u8;
                if let Some(b) = f.get_mut(at + 1) {
                    *b = to as u8;
                }
            }
            6 => f.truncate(at),
            7 => f.extend((0..self.rng.below(80)).map(|i| i as u8)),
            8 => {
                // The front of one, the end of another.
                let other = self.any();
                f.truncate(at);
                f.extend_from_slice(other.get(at..).unwrap_or_default());
            }
            9 => {
                // A part twice, or a part less.
                let len = (1 + self.rng.below(40) as usize).min(f.len() - at);
                if self.rng.chance(50) {
                    let part = f[at..at + len].to_vec();
                    f.splice(at..at, part);
                } else {
                    f.drain(at..at + len);
                }
            }
            10 | 11 if n >= 34 => {
                // Another address: one that means something, or that of the other end.
                let place = if self.rng.chance(50) { 26 } else { 30 };
                let to = match self.rng.below(3) {
                    0 if !self.addresses.is_empty() => {
                        self.addresses[self.rng.below(self.addresses.len() as u64) as usize]
                    }
                    1 => [10, 0, 0, self.rng.below(8) as u8],
                    _ => {
                        let mut other = [0; 4];
                        other.copy_from_slice(&f[56 - place..60 - place]);
                        other
                    }
                };
                f[place..place + 4].copy_from_slice(&to);
            }
            12 if n >= 38 => {
                // Another port, of few.
                let at = if self.rng.chance(50) { 35 } else { 37 };
                f[at] = self.rng.below(4) as u8;
            }
            _ => f[at] = f[at].wrapping_add(1),
        }
    }
}

/// Internet checksum of these bytes.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let all: Vec<u8> = parts.concat();
    let mut sum: u32 = all.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0))).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

fn ip4(src: [u8; 4], dst: [u8; 4], proto: u8, fragment: u16, options: &[u8], rest: &[u8]) -> Vec<u8> {
    let words = 5 + options.len() / 4;
    let total = (words * 4 + rest.len()) as u16;
    let mut h = vec![0x40 | words as u8, 0];
    h.extend(total.to_be_bytes());
    h.extend([0x12, 0x34]);
    h.extend(fragment.to_be_bytes());
    h.extend([61, proto, 0, 0]);
    h.extend(src);
    h.extend(dst);
    h.extend_from_slice(options);
    let sum = checksum(&[&h]);
    h[10..12].copy_from_slice(&sum);
    h.extend_from_slice(rest);
    h
}

/// A segment or datagram with the checksum that goes with these addresses.
fn summed(proto: u8, src: [u8; 4], dst: [u8; 4], mut segment: Vec<u8>, at: usize) -> Vec<u8> {
    let length = (segment.len() as u16).to_be_bytes();
    let sum = checksum(&[&src, &dst, &[0, proto], &length, &segment]);
    segment[at..at + 2].copy_from_slice(&sum);
    segment
}

fn udp(sport: u16, dport: u16, payload: &[u8]) -> Vec<u8> {
    let mut u = Vec::new();
    [sport, dport, 8 + payload.len() as u16, 0].into_iter().for_each(|w| u.extend(w.to_be_bytes()));
    u.extend_from_slice(payload);
    u
}

fn icmp(kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
    let mut i = vec![kind, code, 0, 0];
    i.extend_from_slice(rest);
    let sum = checksum(&[&i]);
    i[2..4].copy_from_slice(&sum);
    i
}

/// Well-formed frames of most kinds, between a host of a LAN and a server; `public` stands for the
/// receiver in some of them.
pub fn samples(public: &[[u8; 4]]) -> Vec<Vec<u8>> {
    let (host, server) = ([10, 0, 0, 1], [198, 51, 100, 7]);
    let dns = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03org\x00\x00\x01\x00\x01";
    let mss = [2, 4, 5, 0xb4, 1, 1, 4, 2];
    let plain = |proto, rest: &[u8]| ether(0x800, &[], &ip4(host, server, proto, 0x4000, &[], rest));
    let query = summed(17, host, server, udp(4000, 53, dns), 6);
    let syn = summed(6, host, server, tcp(4001, 22, 2, &mss, b""), 16);
    let mut all = vec![
        plain(17, &query),
        plain(6, &syn),
        plain(6, &summed(6, host, server, tcp(4001, 80, 0x18, &[], b"GET / HTTP/1.1\r\n\r\n"), 16)),
        plain(6, &summed(6, host, server, tcp(4001, 80, 0x11, &[], b""), 16)),
        plain(1, &icmp(8, 0, &[0, 7, 0, 5, b'p', b'i', b'n', b'g'])),
        plain(
            47,
            &[&[0x20, 0, 8, 0, 0, 0, 0, 9][..], &ip4([10, 1, 0, 1], [10, 1, 0, 2], 17, 0, &[], &udp(1, 2, b"gre"))]
                .concat(),
        ),
        plain(4, &ip4([10, 1, 0, 1], [10, 1, 0, 2], 6, 0, &[], &tcp(1, 2, 2, &mss, b""))),
        plain(
            50,
            &[
                0, 0, 16, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                23, 24,
            ],
        ),
        ether(0x800, &[], &ip4(host, server, 17, 0x2000, &[], &query)),
        ether(0x800, &[], &ip4(host, server, 17, 185, &[], b"a later fragment")),
        ether(0x800, &[], &ip4(host, server, 17, 0, &[7, 7, 4, 0, 0, 0, 0, 1], &query)),
        ether(0x800, &[100], &ip4(host, server, 17, 0, &[], &query)),
        ether(0x800, &[100, 200], &ip4(host, server, 6, 0, &[], &syn)),
        ether(0x806, &[], &[0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 9]),
        ether(0x86dd, &[], &ip6(17, &udp(4000, 53, dns))),
        ether(0x86dd, &[], &ip6(6, &tcp(4001, 22, 2, &mss, b""))),
        ether(0x86dd, &[], &ip6(58, &icmp(128, 0, &[0, 7, 0, 5]))),
        ether(0x86dd, &[], &ip6(0, &[&[17, 0, 5, 2, 0, 0, 1, 0][..], &udp(1, 2, b"hop")].concat())),
        extended(&[60, 60]),
        extended(&[0, 60, 43, 44, 60, 0]),
        extended(&[60; 6]),
        ether(0x800, &[], &ip4(host, server, 6, 0x2000, &[], &syn[..8])),
        ether(0x88b5, &[], b"experimental"),
    ];
    let ends = if public.is_empty() { &[[198, 51, 100, 1]][..] } else { public };
    for end in ends {
        let inwards = |proto, rest: &[u8]| ether(0x800, &[], &ip4(server, *end, proto, 0, &[], rest));
        let quoted =
            |proto, rest: &[u8]| icmp(3, 3, &[&[0, 0, 0, 0][..], &ip4(*end, server, proto, 0, &[], rest)].concat());
        all.extend([
            inwards(17, &summed(17, server, *end, udp(53, 4000, dns), 6)),
            inwards(6, &summed(6, server, *end, tcp(22, 4001, 0x12, &mss, b""), 16)),
            inwards(6, &summed(6, server, *end, tcp(22, 4001, 4, &[], b""), 16)),
            inwards(1, &icmp(0, 0, &[0, 7, 0, 5, b'p', b'o', b'n', b'g'])),
            inwards(1, &quoted(17, &udp(4000, 53, dns))),
            inwards(1, &quoted(6, &tcp(4001, 22, 2, &mss, b""))),
            inwards(1, &quoted(1, &icmp(8, 0, &[0, 7, 0, 5]))),
            ether(0x800, &[], &ip4(host, *end, 17, 0, &[], &udp(4000, 4000, b"hairpin"))),
        ]);
    }
    all
}
