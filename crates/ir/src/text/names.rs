//! Words of the text form for operators, builtins, acts on queues, kinds of tables and engines.

use crate::desc::FrameEngine;
use crate::{BinOp, Builtin, QueueAct, TableKind, UnOp};

/// What the text form has one word for, each.
pub trait Word: Copy + 'static {
    const WORDS: &'static [(Self, &'static str)];

    fn word(self) -> &'static str;
}

/// A variant without a word does not compile.
macro_rules! words {
    ($type:ident: $($variant:ident $word:literal),* $(,)?) => {
        impl Word for $type {
            const WORDS: &'static [($type, &'static str)] = &[$(($type::$variant, $word)),*];

            fn word(self) -> &'static str {
                match self {
                    $($type::$variant => $word,)*
                }
            }
        }
    };
}

words!(
    UnOp:
    Neg "neg",
    Not "not",
    BitNot "bit_not",
);

words!(
    BinOp:
    Add "add",
    Sub "sub",
    Mul "mul",
    Div "div",
    Rem "rem",
    AddSat "add_sat",
    SubSat "sub_sat",
    And "and",
    Or "or",
    BitAnd "bit_and",
    BitOr "bit_or",
    BitXor "bit_xor",
    Shl "shl",
    Shr "shr",
    Eq "eq",
    Ne "ne",
    Lt "lt",
    Le "le",
    Gt "gt",
    Ge "ge",
    EqCase "eq_case",
);

words!(
    Builtin:
    LenBytes "len_bytes",
    Hash "hash",
    Fnv1a32 "fnv1a32",
    Fnv1a64 "fnv1a64",
    Crc32 "crc32",
    Md5U32 "md5_u32",
    Min "min",
    Max "max",
    Lower "lower",
    Upper "upper",
    StartsWith "starts_with",
    EndsWith "ends_with",
    FindBytes "find_bytes",
    Slice "slice",
    ByteAt "byte_at",
    Concat "concat",
    ParseU64 "parse_u64",
    TextU64 "text_u64",
    TextIp "text_ip",
    EndpointIp "endpoint_ip",
    EndpointPort "endpoint_port",
    HasToken "has_token",
    AllIn "all_in",
    Be32 "be32",
    FromBe32 "from_be32",
    UnixTime "unix_time",
    UnixNanos "unix_nanos",
    HttpDate "http_date",
    AesCtr "aes_ctr",
    AesCbcEncrypt "aes_cbc_encrypt",
    AesCbcDecrypt "aes_cbc_decrypt",
    AesGcmSeal "aes_gcm_seal",
    AesGcmOpen "aes_gcm_open",
    HmacSha1 "hmac_sha1",
    HmacSha256 "hmac_sha256",
    Sha1 "sha1",
    Sha256 "sha256",
    ConstantTimeEq "constant_time_eq",
    RandomBytes "random_bytes",
    FromHex "from_hex",
    Keep "keep",
);

words!(
    QueueAct:
    Pop "pop",
    Drop "drop",
    Len "len",
    First "first",
);

words!(
    TableKind:
    Exact "exact",
    Wildcard "wildcard",
    Lpm "lpm",
    Array "array",
    Bloom "bloom",
    CountMin "count_min",
    Ring "ring",
    HyperLogLog "hyper_log_log",
);

words!(
    FrameEngine:
    Nic "nic",
    Pcap "pcap",
    Tun "tun",
    Tap "tap",
    Kernel "kernel",
    Memory "memory",
    Udp "udp",
    Loop "loop",
    Queue "queue",
    Lossy "lossy",
    Lossless "lossless",
);

pub fn value_of<T: Word>(word: &str) -> Option<T> {
    T::WORDS.iter().find(|(_, w)| *w == word).map(|(v, _)| *v)
}
