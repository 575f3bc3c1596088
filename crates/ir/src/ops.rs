//! The table of operations: operators, builtins, and the functions of the language. A row has
//! everything of an operation but its meaning, which each backend has. These are its name in the
//! text form, operands, result, steps, effect, devices, and its line in the pages. The enums are
//! made from the rows.

mod operands;
mod placed;

pub use placed::{cpu_only, statement, Statement, STATEMENTS};

use std::fmt;
use std::ops::RangeInclusive;

pub struct Operation {
    /// In the text form.
    pub name: &'static str,
    pub operands: &'static [Kind],
    pub result: Kind,
    pub steps: Steps,
    pub effect: Effect,
    pub devices: &'static [Device],
    pub doc: &'static str,
    /// As programs call it; empty: they cannot.
    pub usage: &'static str,
}

/// The type of an operand or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    /// An integer of any width, with or without a sign.
    Int,
    /// An integer of any width without a sign.
    Uint,
    /// An integer of this width without a sign.
    U(u8),
    Bytes,
    /// As many bytes.
    BytesOf(u64),
    /// At most half as many bytes as the first operand has.
    Half,
    Ip,
    Endpoint,
    /// An ip, or that of an endpoint.
    Address,
    /// Bytes, an integer, an ip or an endpoint.
    Ordered,
    /// Data: all but messages.
    Plain,
    /// The type of the first operand; of bytes the maximum may differ.
    Same,
    /// A set of bytes: 32 constant bytes.
    Set,
    /// A constant number of bytes that the result has room for.
    Room,
    Option(&'static Kind),
    /// The last operand, which may be left out.
    Maybe(&'static Kind),
    /// Any number of last operands.
    Many(&'static Kind),
    /// A list of bytes.
    BytesList,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Kind::Bool => f.write_str("bool"),
            Kind::Int => f.write_str("int"),
            Kind::Uint => f.write_str("uint"),
            Kind::U(bits) => write!(f, "u{bits}"),
            Kind::Bytes | Kind::Half => f.write_str("bytes"),
            Kind::BytesOf(n) => write!(f, "bytes<{n}>"),
            Kind::Ip => f.write_str("ip"),
            Kind::Endpoint => f.write_str("endpoint"),
            Kind::Address => f.write_str("address"),
            Kind::Ordered => f.write_str("ordered"),
            Kind::Plain => f.write_str("data"),
            Kind::Same => f.write_str("same"),
            Kind::Set => f.write_str("set"),
            Kind::Room => f.write_str("constant"),
            Kind::Option(k) | Kind::Maybe(k) => write!(f, "{k}?"),
            Kind::Many(k) => write!(f, "{k}…"),
            Kind::BytesList => f.write_str("list"),
        }
    }
}

/// Steps in the worst case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    One,
    /// One, and one for each byte of the shorter operand.
    Shorter,
    /// One, and one for each byte of the operands.
    Bytes,
    /// A plain search: the bytes of the operand that is searched for at each place of the longest.
    Search,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Pure,
    /// Equal operands may give different results.
    Time,
    /// The result is made in the core's scratch, of which there may be too little.
    Scratch,
    /// As `Scratch`, by the runtime's library, and not in units and clauses.
    Crypto,
    /// As `Crypto`; the last operand is data that becomes the result, byte for byte in its place.
    Cipher,
}

/// `Cpu` is the interpreter and C, `Xdp` a BPF program in the kernel. `Nic` is the CPU of a network
/// card, which runs what `Cpu` runs; only segments have it. `Fpga` is expected, from what the
/// device can do; no backend for it is in the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    #[default]
    Cpu,
    Xdp,
    Nic,
    Fpga,
}

const CPU: &[Device] = &[Device::Cpu];
const XDP: &[Device] = &[Device::Cpu, Device::Xdp];
const FPGA: &[Device] = &[Device::Cpu, Device::Fpga];
const ALL: &[Device] = &[Device::Cpu, Device::Xdp, Device::Fpga];

/// An enum that is made from rows.
pub trait Rows: Copy + 'static {
    const ROWS: &'static [(Self, Operation)];

    fn row(self) -> &'static Operation;

    /// The operation of this name in the text form.
    fn named(name: &str) -> Option<Self> {
        Self::ROWS.iter().find(|(_, row)| row.name == name).map(|(op, _)| *op)
    }
}

macro_rules! rows {
    ($(#[$about:meta])* $type:ident: $(
        $variant:ident $name:literal ($($operand:expr),*) -> $result:expr, $steps:ident, $effect:ident, $devices:ident,
            $doc:literal $(, $usage:literal)?;
    )*) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type {
            $(#[doc = $doc] $variant,)*
        }

        impl Rows for $type {
            const ROWS: &'static [(Self, Operation)] = {
                use Kind::*;
                &[$((
                    $type::$variant,
                    Operation {
                        name: $name,
                        operands: &[$($operand),*],
                        result: $result,
                        steps: Steps::$steps,
                        effect: Effect::$effect,
                        devices: $devices,
                        doc: $doc,
                        usage: concat!($($usage)?),
                    },
                )),*]
            };

            fn row(self) -> &'static Operation {
                &Self::ROWS[self as usize].1
            }
        }
    };
}

rows! {
    UnOp:
    Neg    "neg"     (Int)  -> Same, One, Pure, ALL, "The negative, cut to the width.";
    Not    "not"     (Bool) -> Bool, One, Pure, ALL, "The other truth value.";
    BitNot "bit_not" (Int)  -> Same, One, Pure, ALL, "Each bit inverted.";
}

rows! {
    /// The right side of `And` and `Or` is not evaluated in vain.
    BinOp:
    Add    "add"     (Int, Same)  -> Same, One, Pure, ALL, "The sum, cut to the width.";
    Sub    "sub"     (Int, Same)  -> Same, One, Pure, ALL, "The difference, cut to the width.";
    Mul    "mul"     (Int, Same)  -> Same, One, Pure, ALL, "The product, cut to the width.";
    Div    "div"     (Int, Same)  -> Same, One, Pure, XDP, "The quotient; guarded: the divisor is not 0.";
    Rem    "rem"     (Int, Same)  -> Same, One, Pure, XDP, "The remainder; guarded: the divisor is not 0.";
    AddSat "add_sat" (Int, Same)  -> Same, One, Pure, ALL, "The sum, or the nearest number of the type.";
    SubSat "sub_sat" (Int, Same)  -> Same, One, Pure, ALL, "The difference, or the nearest number of the type.";
    And    "and"     (Bool, Bool) -> Bool, One, Pure, ALL, "Both hold; the right side is read only if the left holds.";
    Or     "or"      (Bool, Bool) -> Bool, One, Pure, ALL, "One holds; the right side is read if the left does not.";
    BitAnd "bit_and" (Int, Same)  -> Same, One, Pure, ALL, "The bits that both have.";
    BitOr  "bit_or"  (Int, Same)  -> Same, One, Pure, ALL, "The bits that one has.";
    BitXor "bit_xor" (Int, Same)  -> Same, One, Pure, ALL, "The bits that only one has.";
    Shl    "shl"     (Int, U(32)) -> Same, One, Pure, ALL, "Shifted up; 0 from the width on.";
    Shr    "shr"     (Int, U(32)) -> Same, One, Pure, ALL, "Shifted down, with the sign; 0 from the width on.";
    Eq     "eq"      (Plain, Same)   -> Bool, Shorter, Pure, ALL, "Both are equal.";
    Ne     "ne"      (Plain, Same)   -> Bool, Shorter, Pure, ALL, "They differ.";
    Lt     "lt"      (Ordered, Same) -> Bool, Shorter, Pure, ALL, "The first is smaller; bytes as in a dictionary.";
    Le     "le"      (Ordered, Same) -> Bool, Shorter, Pure, ALL, "The first is not larger.";
    Gt     "gt"      (Ordered, Same) -> Bool, Shorter, Pure, ALL, "The first is larger.";
    Ge     "ge"      (Ordered, Same) -> Bool, Shorter, Pure, ALL, "The first is not smaller.";
    EqCase "eq_case" (Bytes, Bytes)  -> Bool, Shorter, Pure, CPU, "Equal but for ASCII case.";
}

rows! {
    /// Functions that every backend implements.
    Builtin:
    LenBytes "len_bytes" (Bytes) -> Uint, One, Pure, ALL, "How many bytes there are.";
    Hash "hash" (Plain) -> U(64), Bytes, Pure, ALL,
        "u64 of bytes, numbers, tuples, endpoints, flows; the same in every run: FNV-1a of 64 bits over the bytes, \
         then murmur3's finaliser. Integers are little endian in whole bytes, an endpoint's port big endian. \
         The parts of a tuple follow each other without their lengths: `(\"a\", \"b\")` and `(\"ab\", \"\")` have one hash",
        "hash(x)";
    Fnv1a32 "fnv1a32" (Bytes) -> U(32), Bytes, Pure, ALL, "u32, FNV-1a", "fnv1a32(b)";
    Fnv1a64 "fnv1a64" (Bytes) -> U(64), Bytes, Pure, ALL, "u64, FNV-1a", "fnv1a64(b)";
    Crc32 "crc32" (Bytes) -> U(32), Bytes, Pure, FPGA, "u32, the CRC of Ethernet and zlib", "crc32(b)";
    Crc32c "crc32c" (Bytes) -> U(32), Bytes, Pure, FPGA, "u32, the CRC of iSCSI, SCTP and ext4 (RFC 3720)", "crc32c(b)";
    Murmur64 "murmur64" (U(64), Bytes) -> U(64), Bytes, Pure, ALL,
        "u64, MurmurHash64A with a seed: a hash of long bytes that is faster than `hash`",
        "murmur64(seed, b)";
    SipHash "siphash" (U(64), U(64), Bytes) -> U(64), Bytes, Pure, FPGA,
        "u64, SipHash-2-4 with a secret key of two numbers: for tokens, and for hashes that a sender must not predict",
        "siphash(k0, k1, b)";
    Md5U32 "md5_u32" (Bytes) -> U(32), Bytes, Pure, CPU,
        "u32, the first four bytes of the MD5, little endian", "md5(b)";
    Min "min" (Int, Same) -> Same, One, Pure, ALL, "the smaller number", "min(a, b)";
    Max "max" (Int, Same) -> Same, One, Pure, ALL, "the larger number", "max(a, b)";
    Lower "lower" (Bytes) -> Same, Bytes, Scratch, XDP, "bytes, ASCII letters as small ones", "lower(b)";
    Upper "upper" (Bytes) -> Same, Bytes, Scratch, XDP, "bytes, ASCII letters as capitals", "upper(b)";
    StartsWith "starts_with" (Bytes, Bytes) -> Bool, Bytes, Pure, XDP, "bool", "starts_with(b, p)";
    EndsWith "ends_with" (Bytes, Bytes) -> Bool, Bytes, Pure, XDP, "bool", "ends_with(b, p)";
    // A third operand is where the search begins, and where the offset counts from.
    FindBytes "find_bytes" (Bytes, Bytes, Maybe(&Uint)) -> Option(&U(32)), Search, Pure, XDP,
        "u32?, the offset of p", "find(b, p)";
    Slice "slice" (Bytes, Uint, Uint) -> Bytes, One, Pure, XDP,
        "bytes; ends past the end are the end", "slice(b, from, to)";
    ByteAt "byte_at" (Bytes, Uint) -> U(8), One, Pure, ALL, "One byte; guarded: it is there.";
    Concat "concat" (Many(&Bytes)) -> Bytes, Bytes, Scratch, XDP,
        "bytes; its maximum is the sum of theirs", "concat(a, b, …)";
    ParseU64 "parse_u64" (Bytes) -> Option(&U(64)), Bytes, Pure, XDP,
        "A number of decimal digits only, without overflow.";
    TextU64 "text_u64" (Int) -> Bytes, One, Scratch, XDP, "A number as decimal digits.";
    TextIp "text_ip" (Address) -> Bytes, One, Scratch, CPU, "An address as text.";
    EndpointIp "endpoint_ip" (Endpoint) -> Ip, One, Pure, ALL, "The address.";
    EndpointPort "endpoint_port" (Endpoint) -> U(16), One, Pure, ALL, "The port.";
    HasToken "has_token" (Bytes, Bytes) -> Bool, Bytes, Pure, CPU,
        "bool: t is in a comma separated list (RFC 9110 5.6.1), ASCII caseless", "has_token(b, t)";
    AllIn "all_in" (Bytes, Set) -> Bool, Bytes, Pure, CPU, "bool: every byte is in the charset", "all_in(b, set)";
    Be32 "be32" (U(32)) -> BytesOf(4), One, Scratch, XDP, "the four bytes of a u32, big endian", "be32(n)";
    FromBe32 "from_be32" (Bytes) -> U(32), Bytes, Pure, ALL,
        "u32 of four bytes, big endian; missing bytes are 0", "from_be32(b)";
    UnixTime "unix_time" () -> U(64), One, Time, CPU,
        "u64: seconds since 1970, read once per batch", "unix_time()";
    // The sizes of keys, vectors, nonces and blocks are guarded.
    AesCtr "aes_ctr" (Bytes, Bytes, Bytes) -> Bytes, Bytes, Cipher, FPGA,
        "AES in counter mode (SP 800-38A) from this counter block of 16 bytes; its own inverse",
        "aes_ctr(key, block, data)";
    AesCbcEncrypt "aes_cbc_encrypt" (Bytes, Bytes, Bytes) -> Bytes, Bytes, Cipher, CPU,
        "AES in CBC mode: a vector of 16 bytes, data of whole blocks, without padding",
        "aes_cbc_encrypt(key, vector, data)";
    AesCbcDecrypt "aes_cbc_decrypt" (Bytes, Bytes, Bytes) -> Bytes, Bytes, Cipher, CPU,
        "the inverse of `aes_cbc_encrypt`", "aes_cbc_decrypt(key, vector, data)";
    AesGcmSeal "aes_gcm_seal" (Bytes, Bytes, Bytes, Bytes) -> Bytes, Bytes, Cipher, FPGA,
        "AES-GCM (SP 800-38D) with a nonce of 12 bytes: the data encrypted, and a tag of 16 bytes",
        "aes_gcm_seal(key, nonce, associated, data)";
    AesGcmOpen "aes_gcm_open" (Bytes, Bytes, Bytes, Bytes) -> Option(&Bytes), Bytes, Crypto, FPGA,
        "bytes?: none if the tag does not match", "aes_gcm_open(key, nonce, associated, data)";
    HmacSha1 "hmac_sha1" (Bytes, Bytes, Many(&Bytes)) -> BytesOf(20), Bytes, Crypto, CPU,
        "20 bytes over the concatenation of a, b, … (RFC 2104)", "hmac_sha1(key, a, b, …)";
    HmacSha256 "hmac_sha256" (Bytes, Bytes, Many(&Bytes)) -> BytesOf(32), Bytes, Crypto, CPU,
        "32 bytes over the concatenation of a, b, … (RFC 2104)", "hmac_sha256(key, a, b, …)";
    Sha1 "sha1" (Bytes, Many(&Bytes)) -> BytesOf(20), Bytes, Crypto, CPU,
        "20 bytes over the concatenation of a, b, …", "sha1(a, b, …)";
    Sha256 "sha256" (Bytes, Many(&Bytes)) -> BytesOf(32), Bytes, Crypto, CPU,
        "32 bytes over the concatenation of a, b, …", "sha256(a, b, …)";
    ConstantTimeEq "constant_time_eq" (Bytes, Bytes) -> Bool, Bytes, Pure, CPU,
        "bool, in a time that depends on the lengths alone: for MACs", "constant_time_eq(a, b)";
    RandomBytes "random_bytes" (Room) -> Bytes, One, Crypto, CPU,
        "n secure random bytes; n is a constant", "random_bytes(n)";
    FromHex "from_hex" (Bytes) -> Option(&Half), Bytes, Scratch, CPU,
        "bytes?, of pairs of hexadecimal digits", "from_hex(b)";
    Join "join" (BytesList, Bytes) -> Bytes, Bytes, Scratch, CPU,
        "The items of a list, with a separator between them.";
    Trim "trim_bytes" (Bytes, Set) -> Bytes, Bytes, Pure, CPU,
        "bytes without those of the charset at both ends", "trim(b, set)";
    // A text and a path: of each step 1, the length (2 bytes, low first) and a key; or 2 and an
    // index (4 bytes).
    JsonRaw "json_raw" (Bytes, Bytes) -> Option(&Bytes), Bytes, Pure, CPU, "The text of a JSON value at a path.";
    JsonText "json_text" (Bytes, Bytes) -> Option(&Bytes), Bytes, Scratch, CPU, "The characters of a string at a path.";
    JsonInt "json_int" (Bytes, Bytes) -> Option(&U(64)), Bytes, Pure, CPU,
        "A whole number of 64 bits with its sign at a path.";
    Xor "xor" (Bytes, Bytes) -> Same, Bytes, Scratch, CPU,
        "bytes: those of data, by exclusive or with those of key, which are repeated", "xor(data, key)";
    IsUtf8 "is_utf8" (Bytes) -> Bool, Bytes, Pure, CPU,
        "bool: the bytes are UTF-8 (RFC 3629), without surrogates and longer forms than needed", "is_utf8(b)";
    UnixNanos "unix_nanos" () -> U(64), One, Time, CPU, "Nanoseconds since 1970, read once per batch.";
    HttpDate "http_date" (U(64)) -> BytesOf(29), One, Scratch, CPU,
        "bytes<29>: a time since 1970 as HTTP writes it (RFC 9110 section 5.6.7), such as `http_date(unix_time())`",
        "http_date(seconds)";
    OutOfTime "out_of_time" (U(32)) -> Bool, One, Time, XDP,
        "The activation has used up its time, after so many further steps. Within the hook the kernel's limits hold.";
    Keep "keep" (Plain) -> Same, Bytes, Scratch, XDP, "The same value, its bytes copied to the core's scratch.";
}

impl Builtin {
    pub fn is_cipher(self) -> bool {
        self.row().effect == Effect::Cipher
    }

    pub fn takes_scratch(self) -> bool {
        matches!(self.row().effect, Effect::Scratch | Effect::Crypto | Effect::Cipher)
    }
}

impl Operation {
    /// The kind of an operand, if there may be as many.
    pub fn operand(&self, n: usize) -> Option<Kind> {
        match self.operands.get(n).or(self.operands.last())? {
            Kind::Many(k) => Some(**k),
            Kind::Maybe(k) if n < self.operands.len() => Some(**k),
            k @ Kind::Bool
            | k @ Kind::Int
            | k @ Kind::Uint
            | k @ Kind::U(_)
            | k @ Kind::Bytes
            | k @ Kind::BytesOf(_)
            | k @ Kind::Half
            | k @ Kind::Ip
            | k @ Kind::Endpoint
            | k @ Kind::Address
            | k @ Kind::Ordered
            | k @ Kind::Plain
            | k @ Kind::Same
            | k @ Kind::Set
            | k @ Kind::Room
            | k @ Kind::Option(_)
            | k @ Kind::BytesList
            | k @ Kind::Maybe(_) => (n < self.operands.len()).then_some(*k),
        }
    }

    /// How many operands there may be.
    pub fn arity(&self) -> RangeInclusive<usize> {
        let n = self.operands.len();
        match self.operands.last() {
            Some(Kind::Maybe(_)) => n - 1..=n,
            Some(Kind::Many(_)) => n - 1..=usize::MAX,
            _ => n..=n,
        }
    }
}

macro_rules! own {
    ($($variant:ident $doc:literal, $usage:literal;)*) => {
        /// Functions that `lang` lowers to more, or to other things, than one builtin.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Own {
            $($variant,)*
        }

        const OWN: &[Function] = &[$(Function { call: Call::Own(Own::$variant), usage: $usage, doc: $doc }),*];
    };
}

own! {
    Len "u64 for bytes and tables, u32 for lists and ports", "len(x)";
    Random "a u64 below n", "random(n)";
    Raw "the original bytes of a field, list or nested unit", "raw(x)";
    Ketama
        "the instance that owns a key on twemproxy's ring, which is libmemcached's with weights: by MD5, \
         or by a hash of 32 bits (`std.hashes`)",
        "ketama(port, key)";
    Consistent
        "the instance that owns a key on the ring of libmemcached without weights: 100 points for each server. \
         `hash` is the name of a function from `bytes<512>` or longer to `u32`, for keys and the names of points",
        "consistent(port, key, hash)";
    Modula "an instance by the remainder of a hash of 32 bits, each in proportion to its weight", "modula(port, hash)";
    Maglev "an instance by Maglev's table", "maglev(port, hash)";
    Up "bool: whether an instance is usable", "up(port, i)";
    Load "u32: the requests of an instance that are under way", "load(port, i)";
    Server "endpoint: the address of an instance, by which its server is known; 0.0.0.0:0 if there is no such instance", "server(port, i)";
    Instance "u32?: the instance that has an address, if it is in the list", "instance(port, address)";
    Pooled "u32: the sessions that the [pool](#pools-of-sessions) of a key has to an instance, on this core", "pooled(port, i, key)";
    AnyToken "`has_token` over all items of a name", "any_token(list, name, t)";
    Text "bytes: see [types](#types)", "text(x)";
    Some "an option: see [types](#types)", "some(x)";
    Parse "a message of these bytes; in tests, and in handlers of packets and of [conversations](#conversations) that make no calls", "parse(Unit(b))";
    BytesOf "the bytes of a message; in tests", "bytes_of(m)";
    Any "bool: one of them holds", "any(a, b, …)";
    All "bool: each of them holds", "all(a, b, …)";
    Payload "the bytes behind a header", "payload(h)";
    ChecksumOk "bool: a header's checksum is right, or left out where that is allowed", "checksum_ok(h)";
    UpdateChecksum "computes a header's checksum anew", "update_checksum(h)";
    Json "a value of a JSON text by its path: [see below](#json)", "json(b)";
    Split "the pieces between separators: [see lists](#lists)", "split(b, separator, …)";
    Join "the items of a list of bytes, with a separator between them", "join(list, separator)";
    Prefix
        "the first bits of an address (of 32 for IPv4, of 128 for IPv6); a larger number gives the whole address",
        "prefix(address, bits)";
}

impl Own {
    pub fn name(self) -> &'static str {
        OWN[self as usize].name()
    }
}

/// A function of the language.
#[derive(Clone, Copy)]
pub struct Function {
    pub call: Call,
    pub usage: &'static str,
    pub doc: &'static str,
}

#[derive(Clone, Copy)]
pub enum Call {
    Own(Own),
    Builtin(Builtin),
}

impl Function {
    pub fn name(&self) -> &'static str {
        self.usage.split_once('(').map_or(self.usage, |(name, _)| name)
    }

    /// How many arguments it takes, by its usage: before `…` the last one may be left out.
    pub fn arity(&self) -> RangeInclusive<usize> {
        let n = if self.usage.ends_with("()") { 0 } else { self.usage.split(", ").count() };
        if self.usage.ends_with("…)") {
            n - 2..=usize::MAX
        } else {
            n..=n
        }
    }

    /// Whether it is one of the ciphers and digests.
    pub fn is_crypto(&self) -> bool {
        matches!(self.call, Call::Builtin(b) if matches!(b.row().effect, Effect::Crypto | Effect::Cipher))
    }
}

/// All functions of the language.
pub fn functions() -> impl Iterator<Item = Function> {
    let builtins = Builtin::ROWS.iter().filter(|(_, row)| !row.usage.is_empty());
    builtins
        .map(|(b, row)| Function { call: Call::Builtin(*b), usage: row.usage, doc: row.doc })
        .chain(OWN.iter().copied())
}

pub fn function(name: &str) -> Option<Function> {
    functions().find(|f| f.name() == name)
}
