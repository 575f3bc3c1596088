//! SHA-1 and SHA-256, and HMAC over them.
//!
//! The library's own HMAC copies and erases a kilobyte for each message. Here a key is two states
//! of the hash, behind the two blocks that RFC 2104 derives from the key. Each message continues
//! from copies of these states.

use aws_lc_sys::{SHA1_Final, SHA1_Init, SHA1_Update, SHA256_Final, SHA256_Init, SHA256_Update, SHA256_CTX, SHA_CTX};
use std::mem::MaybeUninit;

/// Bytes of both hashes' blocks.
const BLOCK: usize = 64;

/// A digest; of SHA-1 the first 20 bytes.
pub type Digest = [u8; 32];

pub trait Hash: Copy {
    const SIZE: usize;
    fn start() -> Self;
    fn add(&mut self, bytes: &[u8]);
    fn end(self) -> Digest;
}

macro_rules! hash {
    ($name:ident, $state:ty, $size:literal, $init:ident, $update:ident, $end:ident) => {
        #[derive(Clone, Copy)]
        pub struct $name($state);

        impl Hash for $name {
            const SIZE: usize = $size;

            fn start() -> Self {
                aws_lc_rs::init();
                let mut state = MaybeUninit::uninit();
                // SAFETY: the function fills in the state.
                unsafe {
                    $init(state.as_mut_ptr());
                    $name(state.assume_init())
                }
            }

            fn add(&mut self, bytes: &[u8]) {
                // SAFETY: the state was begun, and the bytes are a slice.
                unsafe { $update(&mut self.0, bytes.as_ptr().cast(), bytes.len()) };
            }

            fn end(mut self) -> Digest {
                let mut out = [0; 32];
                // SAFETY: the state was begun, and there is room for the digest.
                unsafe { $end(out.as_mut_ptr(), &mut self.0) };
                out
            }
        }
    };
}

hash!(Sha1, SHA_CTX, 20, SHA1_Init, SHA1_Update, SHA1_Final);
hash!(Sha256, SHA256_CTX, 32, SHA256_Init, SHA256_Update, SHA256_Final);

pub fn digest<'a, H: Hash>(parts: impl Iterator<Item = &'a [u8]>) -> Digest {
    let mut h = H::start();
    parts.for_each(|p| h.add(p));
    h.end()
}

/// A key of HMAC.
pub struct Mac<H> {
    inner: H,
    outer: H,
}

impl<H: Hash> Mac<H> {
    pub fn new(key: &[u8]) -> Mac<H> {
        let mut block = [0; BLOCK];
        if key.len() > BLOCK {
            block[..H::SIZE].copy_from_slice(&digest::<H>([key].into_iter())[..H::SIZE]);
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let behind = |pad: u8| {
            let mut h = H::start();
            h.add(&block.map(|b| b ^ pad));
            h
        };
        Mac { inner: behind(0x36), outer: behind(0x5c) }
    }

    pub fn sign<'a>(&self, parts: impl Iterator<Item = &'a [u8]>) -> Digest {
        let (mut inner, mut outer) = (self.inner, self.outer);
        parts.for_each(|p| inner.add(p));
        outer.add(&inner.end()[..H::SIZE]);
        outer.end()
    }
}
