//! Words of the text form for operators and builtins.

use crate::desc::FrameEngine;
use crate::{BinOp, Builtin, QueueAct, TableKind, UnOp};

pub const UNARY: &[(UnOp, &str)] = &[(UnOp::Neg, "neg"), (UnOp::Not, "not"), (UnOp::BitNot, "bit_not")];

pub const BINARY: &[(BinOp, &str)] = &[
    (BinOp::Add, "add"),
    (BinOp::Sub, "sub"),
    (BinOp::Mul, "mul"),
    (BinOp::Div, "div"),
    (BinOp::Rem, "rem"),
    (BinOp::AddSat, "add_sat"),
    (BinOp::SubSat, "sub_sat"),
    (BinOp::And, "and"),
    (BinOp::Or, "or"),
    (BinOp::BitAnd, "bit_and"),
    (BinOp::BitOr, "bit_or"),
    (BinOp::BitXor, "bit_xor"),
    (BinOp::Shl, "shl"),
    (BinOp::Shr, "shr"),
    (BinOp::Eq, "eq"),
    (BinOp::Ne, "ne"),
    (BinOp::Lt, "lt"),
    (BinOp::Le, "le"),
    (BinOp::Gt, "gt"),
    (BinOp::Ge, "ge"),
    (BinOp::EqCase, "eq_case"),
];

pub const BUILTINS: &[(Builtin, &str)] = &[
    (Builtin::LenBytes, "len_bytes"),
    (Builtin::Hash, "hash"),
    (Builtin::Fnv1a32, "fnv1a32"),
    (Builtin::Fnv1a64, "fnv1a64"),
    (Builtin::Crc32, "crc32"),
    (Builtin::Md5U32, "md5_u32"),
    (Builtin::Min, "min"),
    (Builtin::Max, "max"),
    (Builtin::Lower, "lower"),
    (Builtin::Upper, "upper"),
    (Builtin::StartsWith, "starts_with"),
    (Builtin::EndsWith, "ends_with"),
    (Builtin::FindBytes, "find_bytes"),
    (Builtin::Slice, "slice"),
    (Builtin::ByteAt, "byte_at"),
    (Builtin::Concat, "concat"),
    (Builtin::ParseU64, "parse_u64"),
    (Builtin::TextU64, "text_u64"),
    (Builtin::TextIp, "text_ip"),
    (Builtin::EndpointIp, "endpoint_ip"),
    (Builtin::EndpointPort, "endpoint_port"),
    (Builtin::HasToken, "has_token"),
    (Builtin::AllIn, "all_in"),
    (Builtin::Be32, "be32"),
    (Builtin::FromBe32, "from_be32"),
    (Builtin::UnixTime, "unix_time"),
    (Builtin::UnixNanos, "unix_nanos"),
    (Builtin::HttpDate, "http_date"),
    (Builtin::AesCtr, "aes_ctr"),
    (Builtin::AesCbcEncrypt, "aes_cbc_encrypt"),
    (Builtin::AesCbcDecrypt, "aes_cbc_decrypt"),
    (Builtin::AesGcmSeal, "aes_gcm_seal"),
    (Builtin::AesGcmOpen, "aes_gcm_open"),
    (Builtin::HmacSha1, "hmac_sha1"),
    (Builtin::HmacSha256, "hmac_sha256"),
    (Builtin::Sha1, "sha1"),
    (Builtin::Sha256, "sha256"),
    (Builtin::ConstantTimeEq, "constant_time_eq"),
    (Builtin::RandomBytes, "random_bytes"),
    (Builtin::FromHex, "from_hex"),
    (Builtin::Keep, "keep"),
];

pub const QUEUE_ACTS: &[(QueueAct, &str)] =
    &[(QueueAct::Pop, "pop"), (QueueAct::Drop, "drop"), (QueueAct::Len, "len"), (QueueAct::First, "first")];
pub const TABLE_KINDS: &[(TableKind, &str)] = &[
    (TableKind::Exact, "exact"),
    (TableKind::Wildcard, "wildcard"),
    (TableKind::Lpm, "lpm"),
    (TableKind::Array, "array"),
    (TableKind::Bloom, "bloom"),
    (TableKind::CountMin, "count_min"),
    (TableKind::Ring, "ring"),
    (TableKind::HyperLogLog, "hyper_log_log"),
];

pub const ENGINES: &[(FrameEngine, &str)] = &[
    (FrameEngine::Nic, "nic"),
    (FrameEngine::Pcap, "pcap"),
    (FrameEngine::Tun, "tun"),
    (FrameEngine::Tap, "tap"),
    (FrameEngine::Kernel, "kernel"),
    (FrameEngine::Memory, "memory"),
    (FrameEngine::Udp, "udp"),
    (FrameEngine::Loop, "loop"),
    (FrameEngine::Queue, "queue"),
];

pub fn name_of<T: PartialEq + Copy>(table: &[(T, &'static str)], value: T) -> &'static str {
    table.iter().find(|(v, _)| *v == value).map_or("unnamed", |(_, n)| n)
}

pub fn value_of<T: Copy>(table: &[(T, &'static str)], name: &str) -> Option<T> {
    table.iter().find(|(_, n)| *n == name).map(|(v, _)| *v)
}
