//! Headers of frames to test programs with, and chains of extension headers of IPv6 in front of a
//! TCP SYN to port 22.

/// Hop-by-hop options, routing, fragment, AH and destination options.
pub const EXTENSIONS: [u8; 5] = [0, 43, 44, 51, 60];

/// A frame with these extension headers. A fragment header says that the packet is whole.
pub fn extended(chain: &[u8]) -> Vec<u8> {
    let mut rest = Vec::new();
    for (n, kind) in chain.iter().enumerate() {
        let next = chain.get(n + 1).copied().unwrap_or(6);
        match kind {
            44 => rest.extend([next, 0, 0, 0, 0, 0, 0, 7]),
            51 => rest.extend([next, 4, 0, 0, 0, 0, 16, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
            43 => rest.extend([next, 0, 4, 0, 0, 0, 0, 0]),
            _ => rest.extend([next, 0, 1, 4, 0, 0, 0, 0]),
        }
    }
    rest.extend(tcp(4001, 22, 2, &[], b""));
    ether(0x86dd, &[], &ip6(chain.first().copied().unwrap_or(6), &rest))
}

/// Every chain of up to so many extension headers, with its frame.
pub fn chains(longest: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut all, mut last) = (Vec::new(), vec![Vec::new()]);
    for _ in 0..=longest {
        all.extend(last.iter().map(|c| (c.clone(), extended(c))));
        last = last.iter().flat_map(|c| EXTENSIONS.map(|k| [&c[..], &[k]].concat())).collect();
    }
    all
}

pub(super) fn ether(kind: u16, tags: &[u16], rest: &[u8]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for t in tags {
        f.extend([0x81, 0, (t >> 8) as u8, *t as u8]);
    }
    f.extend(kind.to_be_bytes());
    f.extend_from_slice(rest);
    f
}

pub(super) fn ip6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut h = vec![0x60, 0, 0, 0];
    h.extend((rest.len() as u16).to_be_bytes());
    h.extend([next, 33]);
    for end in [1, 2] {
        h.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
    }
    h.extend_from_slice(rest);
    h
}

pub(super) fn tcp(sport: u16, dport: u16, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut t = Vec::new();
    [sport, dport].into_iter().for_each(|w| t.extend(w.to_be_bytes()));
    t.extend([0, 0, 0, 1, 0, 0, 0, 2, (5 + options.len() as u8 / 4) << 4, flags, 0x10, 0, 0, 0, 0, 0]);
    t.extend_from_slice(options);
    t.extend_from_slice(payload);
    t
}
