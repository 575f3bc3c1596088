//! Functions over bytes and integers that every backend implements: hashes, text, tokens.

use wireloom_ir::Builtin;
use wireloom_runtime::crypto::Op;

/// FNV-1a, 64 bits.
pub fn fnv1a64(b: &[u8]) -> u64 {
    b.iter().fold(0xcbf2_9ce4_8422_2325, |h, &x| (h ^ x as u64).wrapping_mul(0x0000_0100_0000_01b3))
}

/// FNV-1a, 32 bits.
pub fn fnv1a32(b: &[u8]) -> u32 {
    b.iter().fold(0x811c_9dc5, |h, &x| (h ^ x as u32).wrapping_mul(0x0100_0193))
}

/// The finaliser of murmur3's 64-bit hash.
pub fn fmix64(mut h: u64) -> u64 {
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

/// The language's `hash` over a value's canonical bytes.
pub fn hash(b: &[u8]) -> u64 {
    fmix64(fnv1a64(b))
}

/// CRC-32 as in Ethernet and zlib (reflected, polynomial 0xedb88320).
pub fn crc32(b: &[u8]) -> u32 {
    !b.iter().fold(!0u32, |mut c, &x| {
        c ^= x as u32;
        for _ in 0..8 {
            c = (c >> 1) ^ (0xedb8_8320 & (c & 1).wrapping_neg());
        }
        c
    })
}

/// A number below `below`: one step of splitmix64 on a core's random state, scaled by
/// multiplication.
pub fn random_below(seed: &mut u64, below: u64) -> u64 {
    ((random(seed) as u128 * below as u128) >> 64) as u64
}

fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const MD5_SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// MD5 (RFC 1321).
pub fn md5(b: &[u8]) -> [u8; 16] {
    let mut padded = b.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&((b.len() as u64) << 3).to_le_bytes());
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded.chunks_exact(64) {
        md5_block(&mut state, block);
    }
    let mut out = [0; 16];
    for (o, w) in out.chunks_exact_mut(4).zip(state) {
        o.copy_from_slice(&w.to_le_bytes());
    }
    out
}

fn md5_block(state: &mut [u32; 4], block: &[u8]) {
    let word = |i: usize| u32::from_le_bytes([block[4 * i], block[4 * i + 1], block[4 * i + 2], block[4 * i + 3]]);
    let [mut a, mut b, mut c, mut d] = *state;
    for i in 0..64usize {
        let (f, g) = match i / 16 {
            0 => ((b & c) | (!b & d), i),
            1 => ((d & b) | (!d & c), (5 * i + 1) % 16),
            2 => (b ^ c ^ d, (3 * i + 5) % 16),
            _ => (c ^ (b | !d), (7 * i) % 16),
        };
        // The table of RFC 1321 is floor(2^32 * |sin(i + 1)|).
        let k = (((i + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
        let sum = a.wrapping_add(f).wrapping_add(k).wrapping_add(word(g));
        a = d;
        d = c;
        c = b;
        b = b.wrapping_add(sum.rotate_left(MD5_SHIFTS[i / 16][i % 4]));
    }
    for (s, v) in state.iter_mut().zip([a, b, c, d]) {
        *s = s.wrapping_add(v);
    }
}

/// The first four bytes of the digest, little endian: libmemcached's ketama hash of a key.
pub fn md5_u32(b: &[u8]) -> u32 {
    let d = md5(b);
    u32::from_le_bytes([d[0], d[1], d[2], d[3]])
}

pub fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    hay.windows(needle.len()).position(|w| w == needle)
}

/// The operation of the runtime's library.
pub fn crypto(b: Builtin) -> Option<Op> {
    Some(match b {
        Builtin::AesCtr => Op::AesCtr,
        Builtin::AesCbcEncrypt => Op::AesCbcEncrypt,
        Builtin::AesCbcDecrypt => Op::AesCbcDecrypt,
        Builtin::AesGcmSeal => Op::AesGcmSeal,
        Builtin::AesGcmOpen => Op::AesGcmOpen,
        Builtin::HmacSha1 => Op::HmacSha1,
        Builtin::HmacSha256 => Op::HmacSha256,
        Builtin::Sha1 => Op::Sha1,
        Builtin::Sha256 => Op::Sha256,
        _ => return None,
    })
}

/// Pairs of hexadecimal digits, large or small.
pub fn from_hex(b: &[u8]) -> Option<Vec<u8>> {
    let digit = |d: u8| char::from(d).to_digit(16).map(|d| d as u8);
    if b.len() % 2 != 0 {
        return None;
    }
    b.chunks_exact(2).map(|p| Some(digit(p[0])? << 4 | digit(p[1])?)).collect()
}

/// Decimal digits only, at least one, no overflow.
pub fn parse_u64(b: &[u8]) -> Option<u64> {
    if b.is_empty() {
        return None;
    }
    b.iter().try_fold(0u64, |v, &d| {
        if !d.is_ascii_digit() {
            return None;
        }
        v.checked_mul(10)?.checked_add((d - b'0') as u64)
    })
}

/// Whether `token` is in the comma separated list (RFC 9110 5.6.1): ASCII caseless, blanks around
/// items and empty items ignored. An item with parameters (`a;q=1`) is not the token `a`.
pub fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.split(|&b| b == b',').any(|item| {
        let item = trim(item, |b| b == b' ' || b == b'\t');
        !item.is_empty() && item.eq_ignore_ascii_case(token)
    })
}

/// The bytes without the leading and trailing ones for which `blank` holds.
pub fn trim(mut b: &[u8], blank: impl Fn(u8) -> bool) -> &[u8] {
    while let [first, rest @ ..] = b {
        if !blank(*first) {
            break;
        }
        b = rest;
    }
    while let [rest @ .., last] = b {
        if !blank(*last) {
            break;
        }
        b = rest;
    }
    b
}

/// Instance of the first point on the ring (pairs of point and instance, sorted by point) not below
/// `hash`.
pub fn ring_lookup(ring: &[u32], hash: u32) -> u32 {
    let pairs: Vec<(u32, u32)> = ring.chunks_exact(2).map(|p| (p[0], p[1])).collect();
    match pairs.get(pairs.partition_point(|(point, _)| *point < hash)).or(pairs.first()) {
        Some((_, instance)) => *instance,
        None => 0,
    }
}
