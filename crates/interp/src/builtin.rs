//! Functions over bytes and integers that every backend implements: hashes, text, tokens.

use wireloom_runtime::consistent_hashing::md5;

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
    crc32fast::hash(b)
}

/// CRC-32C (RFC 3720: reflected, polynomial 0x82f63b78).
pub fn crc32c(b: &[u8]) -> u32 {
    let bit = |c: u32| (c >> 1) ^ (0x82f6_3b78 * (c & 1));
    !b.iter().fold(!0, |c, x| (0..8).fold(c ^ u32::from(*x), |c, _| bit(c)))
}

/// MurmurHash64A (A. Appleby).
pub fn murmur64(seed: u64, b: &[u8]) -> u64 {
    const BY: u64 = 0xc6a4_a793_5bd1_e995;
    let words = b.chunks_exact(8);
    let word = |w: &[u8]| w.iter().rev().fold(0, |w, x| w << 8 | u64::from(*x));
    let rest = words.remainder();
    let mut h = seed ^ (b.len() as u64).wrapping_mul(BY);
    for w in words {
        let k = word(w).wrapping_mul(BY);
        h = (h ^ (k ^ k >> 47).wrapping_mul(BY)).wrapping_mul(BY);
    }
    if !rest.is_empty() {
        h = (h ^ word(rest)).wrapping_mul(BY)
    }
    h = (h ^ h >> 47).wrapping_mul(BY);
    h ^ h >> 47
}

/// The hash by which waits for an entry are told of its changes.
pub fn key_hash(key: &[u8]) -> u64 {
    siphash([0, 0], key)
}

/// SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012).
pub fn siphash(key: [u64; 2], b: &[u8]) -> u64 {
    let start = [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];
    let mut v: [u64; 4] = std::array::from_fn(|i| start[i] ^ key[i % 2]);
    let words = b.chunks_exact(8);
    // The last word has the length in its highest byte.
    let rest = words.remainder().iter().rev().fold(0, |w, x| w << 8 | u64::from(*x));
    let last = rest | (b.len() as u64) << 56;
    let words = words.map(|w| w.iter().rev().fold(0, |w, x| w << 8 | u64::from(*x)));
    for w in words.chain([last]) {
        v[3] ^= w;
        (0..2).for_each(|_| sip_round(&mut v));
        v[0] ^= w;
    }
    v[2] ^= 0xff;
    (0..4).for_each(|_| sip_round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn sip_round(v: &mut [u64; 4]) {
    let mix = |v: &mut [u64; 4], a: usize, b: usize, turn: u32| {
        v[a] = v[a].wrapping_add(v[b]);
        v[b] = v[b].rotate_left(turn) ^ v[a];
    };
    mix(v, 0, 1, 13);
    mix(v, 2, 3, 16);
    v[0] = v[0].rotate_left(32);
    mix(v, 2, 1, 17);
    mix(v, 0, 3, 21);
    v[2] = v[2].rotate_left(32);
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

/// Pairs of hexadecimal digits, large or small.
pub fn from_hex(b: &[u8]) -> Option<Vec<u8>> {
    let digit = |d: u8| char::from(d).to_digit(16).map(|d| d as u8);
    if !b.len().is_multiple_of(2) {
        return None;
    }
    b.chunks_exact(2).map(|p| Some(digit(p[0])? << 4 | digit(p[1])?)).collect()
}

/// Exclusive or with a key that is repeated; an empty one changes nothing.
pub fn xor(data: &[u8], key: &[u8]) -> Vec<u8> {
    let key = if key.is_empty() { &[0][..] } else { key };
    data.iter().zip(key.iter().cycle()).map(|(a, b)| a ^ b).collect()
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
/// The index of its point, and the instance.
pub fn ring_lookup(ring: &[u32], hash: u32) -> Option<(usize, u32)> {
    let pairs: Vec<(u32, u32)> = ring.chunks_exact(2).map(|p| (p[0], p[1])).collect();
    let at = pairs.partition_point(|(point, _)| *point < hash);
    let at = if at < pairs.len() { at } else { 0 };
    pairs.get(at).map(|(_, instance)| (at, *instance))
}
