//! The operations of `wl_host.crypto`, by number.

/// The operation; `WL_X_*` of the C header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Op {
    /// key, counter block, data: AES in counter mode (SP 800-38A), which is its own inverse.
    AesCtr = 0,
    /// key, vector, data of whole blocks: AES in CBC mode (SP 800-38A), without padding.
    AesCbcEncrypt = 1,
    AesCbcDecrypt = 2,
    /// key, nonce, associated data, data: AES-GCM (SP 800-38D); the tag follows the data.
    AesGcmSeal = 3,
    AesGcmOpen = 4,
    /// key, parts: HMAC (RFC 2104) over the parts, one behind the other.
    HmacSha1 = 5,
    HmacSha256 = 6,
    /// parts
    Sha1 = 7,
    Sha256 = 8,
    /// As many random bytes as the argument is long.
    Random = 9,
}

pub(super) const OPS: [Op; 10] = [
    Op::AesCtr,
    Op::AesCbcEncrypt,
    Op::AesCbcDecrypt,
    Op::AesGcmSeal,
    Op::AesGcmOpen,
    Op::HmacSha1,
    Op::HmacSha256,
    Op::Sha1,
    Op::Sha256,
    Op::Random,
];
