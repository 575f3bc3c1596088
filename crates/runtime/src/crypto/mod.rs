//! Ciphers, digests and secure random bytes for programs, called by `wl_host.crypto` and by the
//! interpreter.
//!
//! In: an operation and its byte strings, the key first and the data last. Out: bytes, or the
//! verdict that the data is not authentic. AWS-LC does the work. Programs name keys as plain bytes.
//! A core makes the schedule of a key at its first use. A table of the core (of its thread) keeps
//! the schedule under the key's bytes. A known key allocates nothing.

mod hash;
pub mod op;

use crate::abi::wl_bytes;
use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_128_GCM, AES_256_GCM};
use aws_lc_rs::cipher::{
    DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey, AES_128, AES_256,
};
use aws_lc_rs::constant_time;
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use hash::{digest, Hash, Mac, Sha1, Sha256};
pub use op::Op;
use op::OPS;
use std::cell::RefCell;

pub const BLOCK: usize = 16;
pub const NONCE: usize = 12;
pub const TAG: usize = 16;

/// A key, ready for use.
enum ReadyKey {
    Encrypt(EncryptingKey),
    Decrypt(DecryptingKey),
    Gcm(LessSafeKey),
    Hmac1(Mac<Sha1>),
    Hmac256(Mac<Sha256>),
}

impl ReadyKey {
    fn new(op: Op, key: &[u8]) -> Option<ReadyKey> {
        let cipher = || {
            let algorithm = match key.len() {
                16 => &AES_128,
                32 => &AES_256,
                _ => return None,
            };
            UnboundCipherKey::new(algorithm, key).ok()
        };
        Some(match op {
            Op::AesCtr => ReadyKey::Encrypt(EncryptingKey::ctr(cipher()?).ok()?),
            Op::AesCbcEncrypt => ReadyKey::Encrypt(EncryptingKey::cbc(cipher()?).ok()?),
            Op::AesCbcDecrypt => ReadyKey::Decrypt(DecryptingKey::cbc(cipher()?).ok()?),
            Op::AesGcmSeal | Op::AesGcmOpen => {
                let algorithm = match key.len() {
                    16 => &AES_128_GCM,
                    32 => &AES_256_GCM,
                    _ => return None,
                };
                ReadyKey::Gcm(LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?))
            }
            Op::HmacSha1 => ReadyKey::Hmac1(Mac::new(key)),
            Op::HmacSha256 => ReadyKey::Hmac256(Mac::new(key)),
            Op::Sha1 | Op::Sha256 | Op::Random => return None,
        })
    }
}

struct KeyEntry {
    op: Op,
    key: Box<[u8]>,
    ready: ReadyKey,
}

const SETS: usize = 2048;
const WAYS: usize = 8;

/// Keys by their bytes: sets of a few places each. In a full set the next place in turn makes room.
struct Keys {
    places: Vec<Option<Box<KeyEntry>>>,
    turn: usize,
}

thread_local! {
    static KEYS: RefCell<Keys> = const { RefCell::new(Keys { places: Vec::new(), turn: 0 }) };
}

/// Sealing and opening share a key's schedule.
fn kind(op: Op) -> Op {
    if op == Op::AesGcmOpen {
        Op::AesGcmSeal
    } else {
        op
    }
}

fn set_of(op: Op, key: &[u8]) -> usize {
    let word = |b: &[u8]| {
        <[u8; 8]>::try_from(b).map_or_else(|_| b.iter().fold(0, |a, x| a << 8 | u64::from(*x)), u64::from_le_bytes)
    };
    let (n, head) = (key.len(), word(&key[..key.len().min(8)]));
    let tail = word(&key[n.saturating_sub(8)..]);
    let h = (head ^ tail.rotate_left(29) ^ (n as u64) << 8 ^ op as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (h >> 40) as usize % SETS
}

impl Keys {
    /// The key's place, filled.
    fn find(&mut self, op: Op, key: &[u8]) -> Option<&ReadyKey> {
        let first = set_of(op, key) * WAYS;
        if self.places.is_empty() {
            self.places.resize_with(SETS * WAYS, || None);
        }
        let set = &mut self.places[first..first + WAYS];
        let is = |e: &Option<Box<KeyEntry>>| e.as_ref().is_some_and(|e| e.op == op && *e.key == *key);
        let at = match set.iter().position(is) {
            Some(at) => at,
            None => {
                let entry = Box::new(KeyEntry { op, key: key.into(), ready: ReadyKey::new(op, key)? });
                let at = set.iter().position(Option::is_none).unwrap_or(self.turn % WAYS);
                self.turn = self.turn.wrapping_add(1);
                set[at] = Some(entry);
                at
            }
        };
        set[at].as_ref().map(|e| &e.ready)
    }
}

/// The bytes of an argument.
///
/// # Safety
/// As for [`wl_bytes::as_slice`].
unsafe fn arg(args: &[wl_bytes], i: usize) -> Option<&[u8]> {
    // SAFETY: by contract.
    args.get(i).map(|b| unsafe { b.as_slice() })
}

/// Bytes that the result has room for.
pub fn room(op: Op, data: usize) -> usize {
    match op {
        Op::AesCtr | Op::AesCbcEncrypt | Op::AesCbcDecrypt | Op::AesGcmOpen | Op::Random => data,
        Op::AesGcmSeal => data + TAG,
        Op::HmacSha1 | Op::Sha1 => Sha1::SIZE,
        Op::HmacSha256 | Op::Sha256 => Sha256::SIZE,
    }
}

/// The data of a cipher in its place in `out`.
///
/// # Safety
/// `out` has room for the data's bytes; it is where the data is, or overlaps nothing of it.
unsafe fn in_place<'a>(data: &wl_bytes, out: *mut u8) -> &'a mut [u8] {
    if data.n == 0 {
        return &mut [];
    }
    if !std::ptr::eq(data.p, out) {
        // SAFETY: by contract.
        unsafe { std::ptr::copy_nonoverlapping(data.p, out, data.n as usize) }
    }
    // SAFETY: by contract; no other reference to these bytes exists meanwhile.
    unsafe { std::slice::from_raw_parts_mut(out, data.n as usize) }
}

/// Computes, and answers how many bytes are in `out`; None: the data is not authentic, or an
/// argument's size is wrong.
///
/// # Safety
/// The arguments are valid; `out` has [`room`] and is where the data (the last argument of a
/// cipher) is, or overlaps no argument.
unsafe fn apply(op: Op, args: &[wl_bytes], out: *mut u8) -> Option<usize> {
    // SAFETY: by contract, here and for all parts below.
    let part = |i| unsafe { arg(args, i) };
    match op {
        Op::AesCtr | Op::AesCbcEncrypt | Op::AesCbcDecrypt => {
            let (key, iv, data) = (part(0)?, <[u8; BLOCK]>::try_from(part(1)?).ok()?, args.get(2)?);
            if op != Op::AesCtr && !(data.n as usize).is_multiple_of(BLOCK) {
                return None;
            }
            KEYS.with_borrow_mut(|k| {
                let ready = k.find(op, key)?;
                // SAFETY: by contract.
                let bytes = unsafe { in_place(data, out) };
                match ready {
                    ReadyKey::Encrypt(k) => {
                        k.less_safe_encrypt(bytes, EncryptionContext::Iv128(FixedLength::from(iv))).map(drop).ok()?
                    }
                    ReadyKey::Decrypt(k) => {
                        k.decrypt(bytes, DecryptionContext::Iv128(FixedLength::from(iv))).map(drop).ok()?
                    }
                    ReadyKey::Gcm(_) | ReadyKey::Hmac1(_) | ReadyKey::Hmac256(_) => return None,
                }
                Some(bytes.len())
            })
        }
        Op::AesGcmSeal | Op::AesGcmOpen => {
            let (key, nonce, aad, data) =
                (part(0)?, <[u8; NONCE]>::try_from(part(1)?).ok()?, Aad::from(part(2)?), args.get(3)?);
            let nonce = Nonce::assume_unique_for_key(nonce);
            KEYS.with_borrow_mut(|k| {
                let ReadyKey::Gcm(k) = k.find(kind(op), key)? else { return None };
                if op == Op::AesGcmSeal {
                    // SAFETY: by contract, as below.
                    let bytes = unsafe { in_place(data, out) };
                    let tag = k.seal_in_place_separate_tag(nonce, aad, bytes).ok()?;
                    // SAFETY: there is room for the tag behind the data.
                    unsafe { std::ptr::copy_nonoverlapping(tag.as_ref().as_ptr(), out.add(bytes.len()), TAG) }
                    return Some(bytes.len() + TAG);
                }
                // SAFETY: the argument is valid.
                let n = unsafe { data.as_slice() }.len().checked_sub(TAG)?;
                if std::ptr::eq(data.p, out) {
                    // SAFETY: as above.
                    let (bytes, tag) = unsafe { in_place(data, out) }.split_at_mut(n);
                    k.open_in_place_separate_tag(nonce, aad, tag, bytes).ok()?;
                } else {
                    // SAFETY: as above.
                    let ((bytes, tag), plain) = unsafe {
                        (
                            data.as_slice().split_at(n),
                            if n == 0 { &mut [] } else { std::slice::from_raw_parts_mut(out, n) },
                        )
                    };
                    k.open_separate_gather(nonce, aad, bytes, tag, plain).ok()?;
                }
                Some(n)
            })
        }
        Op::HmacSha1 | Op::HmacSha256 => {
            let key = part(0)?;
            let parts = (1..args.len()).filter_map(part);
            let tag = KEYS.with_borrow_mut(|k| match k.find(op, key)? {
                ReadyKey::Hmac1(k) => Some(k.sign(parts)),
                ReadyKey::Hmac256(k) => Some(k.sign(parts)),
                ReadyKey::Encrypt(_) | ReadyKey::Decrypt(_) | ReadyKey::Gcm(_) => None,
            })?;
            // SAFETY: there is room for the tag.
            Some(unsafe { put(&tag[..room(op, 0)], out) })
        }
        Op::Sha1 | Op::Sha256 => {
            let parts = (0..args.len()).filter_map(part);
            let made = if op == Op::Sha1 { digest::<Sha1>(parts) } else { digest::<Sha256>(parts) };
            // SAFETY: there is room for the digest.
            Some(unsafe { put(&made[..room(op, 0)], out) })
        }
        Op::Random => {
            let n = args.first()?.n as usize;
            // SAFETY: there is room for as many.
            let bytes = if n == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(out, n) } };
            SystemRandom::new().fill(bytes).ok()?;
            Some(n)
        }
    }
}

/// # Safety
/// `out` has room.
unsafe fn put(bytes: &[u8], out: *mut u8) -> usize {
    // SAFETY: by contract.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out, bytes.len()) }
    bytes.len()
}

/// The function `wl_host.crypto`.
///
/// # Safety
/// As the header demands: valid arguments, and room in `out`, which is where the data is or
/// overlaps no argument.
pub unsafe extern "C" fn entry(op: u32, args: *const wl_bytes, n: u32, out: *mut u8) -> i32 {
    let Some(op) = OPS.get(op as usize) else { return -1 };
    // SAFETY: by contract.
    let done = unsafe { apply(*op, std::slice::from_raw_parts(args, n as usize), out) };
    done.map_or(-1, |n| n as i32)
}

/// Computes into new memory.
pub fn compute(op: Op, args: &[&[u8]]) -> Option<Vec<u8>> {
    let list: Vec<wl_bytes> = args.iter().map(|a| wl_bytes::of(a)).collect();
    let mut out = vec![0; room(op, args.last().map_or(0, |a| a.len()))];
    // SAFETY: the arguments are slices, `out` is new and has room.
    let n = unsafe { apply(op, &list, out.as_mut_ptr()) }?;
    out.truncate(n);
    Some(out)
}

/// As many secure random bytes.
pub fn random(n: usize) -> Option<Vec<u8>> {
    compute(Op::Random, &[&vec![0; n]])
}

/// Compares in a time that depends on the lengths alone.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(a, b).is_ok()
}

#[cfg(test)]
mod tests;
