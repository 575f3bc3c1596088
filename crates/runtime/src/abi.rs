//! The C ABI between a program and the runtime: `support/wireloom.h` in Rust, name for name.
//!
//! The header has the comments on meaning. This file has only the shapes. The test at the end lets
//! the C compiler print the size of every struct and the offset of every field, and compares them.
#![allow(non_camel_case_types)]

use std::ffi::c_void;
use std::os::raw::c_int;

pub const WL_ABI: u32 = 29;

// Results of parse() and tail().
pub const WL_MORE: c_int = 0;
pub const WL_HEAD: c_int = 1;
pub const WL_WHOLE: c_int = 2;
pub const WL_BAD: c_int = 3;

// Facts about a message (`wl_parser::flags`).
pub const WL_M_CLOSE: u32 = 1;
pub const WL_M_INTERIM: u32 = 2;
pub const WL_M_TUNNEL: u32 = 4;
pub const WL_M_NO_REPLY: u32 = 8;
pub const WL_M_UNTIL_EOF: u32 = 16;
pub const WL_M_IN_STEP: u32 = 32;
pub const WL_M_REPEAT: u32 = 64;
pub const WL_M_PRIVATE: u32 = 128;
pub const WL_M_OMIT: u32 = 256;
pub const WL_M_ENDS: u32 = 512;
pub const WL_M_REFUSAL: u32 = 1024;
pub const WL_M_CHUNKS: u32 = 32768;
pub const WL_M_EXPECTS: u32 = 65536;
/// `wl_host.tell`, from a handler of pieces.
pub const WL_TO_PIECE: u32 = u32::MAX - 1;
pub const WL_TO_NONE: u32 = u32::MAX;
/// `wl_host.wait`.
pub const WL_BODY: u32 = u32::MAX;
pub const WL_M_ALONE: u32 = 2048;
pub const WL_M_STRAY: u32 = 4096;
pub const WL_M_IDLE: u32 = 8192;
pub const WL_M_RESET: u32 = 16384;
pub const WL_M_OWES: u32 = 131_072;
pub const WL_M_UNFINISHED: u32 = 262_144;
pub const WL_M_SETTLES: u32 = 524_288;
pub const WL_M_ITEMS: u32 = 1 << 20;
pub const WL_M_BORDER: u32 = 1 << 21;
pub const WL_M_ITEM: u32 = 1 << 22;
pub const WL_M_ITEM_MASK: u32 = 15 << 22;
/// `wl_host.upstream_fact`.
pub const WL_UPSTREAM_ID: u32 = 0;
pub const WL_UPSTREAM_INSTANCE: u32 = 1;
pub const WL_UPSTREAM_OWED: u32 = 2;

// Where a program has found an instance: bits 32 and up of `place`, below the port.
pub const WL_P_RING: u64 = 1 << 32;
pub const WL_P_MAGLEV: u64 = 2 << 32;
pub const WL_P_POINTS: u64 = 4 << 32;
/// Bit 63 of `ctx`: the message is a response.
pub const WL_CTX_RESPONSE: u64 = 1 << 63;

// Where the tail of an outgoing message comes from.
pub const WL_TAIL_NONE: u32 = 0;
pub const WL_TAIL_REQ: u32 = 1;
pub const WL_TAIL_REP: u32 = 2;

// Fault kinds.
pub const WL_F_NONE: u32 = 0;
pub const WL_F_MALFORMED: u32 = 1;
pub const WL_F_TOO_LONG: u32 = 2;
pub const WL_F_TRUNCATED: u32 = 3;
pub const WL_F_CONSTRAINT: u32 = 4;
pub const WL_F_INDEX: u32 = 5;
pub const WL_F_DIVISION: u32 = 6;
pub const WL_F_NONE_VALUE: u32 = 7;
pub const WL_F_LOST: u32 = 8;
pub const WL_F_REFUSED: u32 = 9;
pub const WL_F_TIMEOUT: u32 = 10;
pub const WL_F_BAD_REPLY: u32 = 11;
pub const WL_F_OVERLOAD: u32 = 12;
pub const WL_F_IDLE: u32 = 13;
pub const WL_F_FULL: u32 = 14;
pub const WL_F_CANCELLED: u32 = 15;
pub const WL_F_NO_REPLY: u32 = 16;
pub const WL_F_INTERNAL: u32 = 18;
pub const WL_F_EARLY: u32 = 19;
pub const WL_F_UNSPOKEN: u32 = 20;
pub const WL_F_SHUTDOWN: u32 = 21;
pub const WL_F_ENDED: u32 = 22;
pub const WL_F_USER: u32 = 32;

/// Flag of `wl_fault::side`: the faulty message has been read to its end, the next one follows.
pub const WL_SIDE_IN_STEP: u32 = 1;
/// So many first bytes of a refused message are told.
pub const WL_START: usize = 32;
const _: () = assert!(WL_START as u64 == wireloom_ir::Protocol::START);

/// `wl_msg::status` of a reply that is there.
pub const WL_S_OK: u32 = 0;

// Results of run().
pub const WL_T_DONE: c_int = 0;
pub const WL_T_SUSPEND: c_int = 1;
pub const WL_T_FAULT: c_int = 2;

// Flags of call().
pub const WL_C_HOLD: u32 = 1;
pub const WL_C_HOLD_REQ: u32 = 2;
pub const WL_C_PIPELINE: u32 = 4;
pub const WL_C_PIECES: u32 = 8;
pub const WL_C_JUDGED: u32 = 16;
pub const WL_C_NO_REPLY: u32 = 32;
pub const WL_C_REPEAT: u32 = 64;
pub const WL_C_PRIVATE: u32 = 128;
pub const WL_C_ENDS: u32 = 256;
pub const WL_C_MATCHES: u32 = 512;

// Operations of crypto().
pub const WL_X_AES_CTR: u32 = crate::crypto::op::Op::AesCtr as u32;
pub const WL_X_AES_CBC_ENCRYPT: u32 = crate::crypto::op::Op::AesCbcEncrypt as u32;
pub const WL_X_AES_CBC_DECRYPT: u32 = crate::crypto::op::Op::AesCbcDecrypt as u32;
pub const WL_X_AES_GCM_SEAL: u32 = crate::crypto::op::Op::AesGcmSeal as u32;
pub const WL_X_AES_GCM_OPEN: u32 = crate::crypto::op::Op::AesGcmOpen as u32;
pub const WL_X_HMAC_SHA1: u32 = crate::crypto::op::Op::HmacSha1 as u32;
pub const WL_X_HMAC_SHA256: u32 = crate::crypto::op::Op::HmacSha256 as u32;
pub const WL_X_SHA1: u32 = crate::crypto::op::Op::Sha1 as u32;
pub const WL_X_SHA256: u32 = crate::crypto::op::Op::Sha256 as u32;
pub const WL_X_RANDOM: u32 = crate::crypto::op::Op::Random as u32;

// Flags of reply(), fault_reply() and interim().
pub const WL_R_CLOSE: u32 = 1;
pub const WL_R_NOTHING: u32 = 2;
pub const WL_R_PIECES: u32 = 4;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wl_bytes {
    pub p: *const u8,
    pub n: u32,
    pub _pad: u32,
}

/// The name of a fault kind of the runtime.
pub fn fault_name(kind: u32) -> &'static str {
    const NAMES: [&str; 23] = [
        "none",
        "malformed",
        "too_long",
        "truncated",
        "constraint",
        "index",
        "division",
        "none_value",
        "lost",
        "refused",
        "timeout",
        "bad_reply",
        "overload",
        "idle",
        "full",
        "cancelled",
        "no_reply",
        "expect",
        "internal",
        "early",
        "unspoken",
        "shutdown",
        "ended",
    ];
    NAMES.get(kind as usize).copied().unwrap_or("unknown")
}

impl wl_out {
    /// All of a piece of memory, empty.
    pub fn of(out: &mut [u8]) -> wl_out {
        let range = out.as_mut_ptr_range();
        wl_out { start: range.start, p: range.start, end: range.end }
    }
}

impl wl_core {
    /// The only core of a program, without memory, parameters or ports yet.
    pub fn of(host: &wl_host, self_: *mut c_void, out: wl_out) -> wl_core {
        wl_core {
            host,
            rt: std::ptr::null_mut(),
            state: std::ptr::null_mut(),
            shared: std::ptr::null_mut(),
            param: std::ptr::null(),
            port: std::ptr::null(),
            now: 0,
            wall: 0,
            seed: 0,
            index: 0,
            cores: 1,
            out,
            self_,
            left: wl_left::default(),
            draining: 0,
            fuel: 0,
            tmp: std::ptr::null_mut(),
            outcome: 0,
            mark: 0,
            place: 0,
            at: std::ptr::null_mut(),
            frames: std::ptr::null_mut(),
            entries: std::ptr::null_mut(),
            behind: 0,
        }
    }
}

impl wl_bytes {
    pub const EMPTY: wl_bytes = wl_bytes { p: std::ptr::null(), n: 0, _pad: 0 };

    /// Names the bytes of `s`; slices of 4 GiB and more do not occur (messages are bounded far
    /// below).
    pub fn of(s: &[u8]) -> wl_bytes {
        wl_bytes { p: s.as_ptr(), n: s.len() as u32, _pad: 0 }
    }

    /// The bytes as a slice.
    /// # Safety
    /// `p` must be valid for `n` bytes for as long as the caller uses the slice, or `n` must be 0.
    pub unsafe fn as_slice<'a>(&self) -> &'a [u8] {
        if self.n == 0 {
            return &[];
        }
        // SAFETY: the caller vouches for p and n.
        unsafe { std::slice::from_raw_parts(self.p, self.n as usize) }
    }
}

impl Default for wl_bytes {
    fn default() -> Self {
        wl_bytes::EMPTY
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct wl_parser {
    pub pc: u16,
    pub fault: u16,
    pub place: u32,
    pub pos: u32,
    pub scan: u32,
    pub head: u32,
    pub flags: u32,
    pub left: u64,
    pub ctx: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wl_msg {
    pub view: *mut wl_parser,
    pub base: *const u8,
    pub head: u32,
    pub status: u32,
    pub body: wl_bytes,
    pub whole: u32,
    /// The number of its unit plus one; 0: unknown, so that its view cannot be copied.
    pub unit: u32,
}

impl Default for wl_msg {
    fn default() -> Self {
        wl_msg {
            view: std::ptr::null_mut(),
            base: std::ptr::null(),
            head: 0,
            status: 0,
            body: wl_bytes::EMPTY,
            whole: 0,
            unit: 0,
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct wl_fault {
    pub kind: u16,
    pub side: u16,
    pub place: u32,
    pub port: u32,
    /// `fault_reply` only: the first bytes of a message that was refused.
    pub start_n: u32,
    /// `fault_reply` only: the response's parameters, as packed for the last call.
    pub ctx: u64,
    pub start: [u8; WL_START],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wl_out {
    pub start: *mut u8,
    pub p: *mut u8,
    pub end: *mut u8,
}

impl Default for wl_out {
    fn default() -> Self {
        wl_out { start: std::ptr::null_mut(), p: std::ptr::null_mut(), end: std::ptr::null_mut() }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct wl_endpoint {
    pub ip: [u8; 16],
    pub port: u16,
    pub v4: u16,
    pub _pad: u32,
}

impl From<std::net::SocketAddr> for wl_endpoint {
    fn from(a: std::net::SocketAddr) -> Self {
        let (ip, v4) = match a.ip() {
            std::net::IpAddr::V4(v) => (v.to_ipv6_mapped().octets(), 1),
            std::net::IpAddr::V6(v) => (v.octets(), v.to_ipv4_mapped().is_some() as u16),
        };
        wl_endpoint { ip, port: a.port(), v4, _pad: 0 }
    }
}

impl From<wl_endpoint> for std::net::SocketAddr {
    fn from(e: wl_endpoint) -> Self {
        let v6 = std::net::Ipv6Addr::from(e.ip);
        let ip = match v6.to_ipv4_mapped() {
            Some(v4) if e.v4 != 0 => std::net::IpAddr::V4(v4),
            _ => std::net::IpAddr::V6(v6),
        };
        std::net::SocketAddr::new(ip, e.port)
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wl_conn {
    pub session: *mut c_void,
    pub peer: wl_endpoint,
    pub local: wl_endpoint,
    pub port: u32,
    pub instance: u32,
    pub id: u64,
    pub handle: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wl_task {
    pub core: *mut wl_core,
    pub conn: *mut wl_conn,
    pub frame: *mut c_void,
    pub handler: u32,
    pub pc: u32,
    pub fault: u16,
    pub _pad: u16,
    pub place: u32,
    pub req: wl_msg,
    pub rep: wl_msg,
    pub part: *mut wl_msg,
    pub parts: u32,
    pub _pad2: u32,
    pub kept: wl_bytes,
}

impl Default for wl_task {
    fn default() -> Self {
        wl_task {
            core: std::ptr::null_mut(),
            conn: std::ptr::null_mut(),
            frame: std::ptr::null_mut(),
            handler: 0,
            pc: 0,
            fault: 0,
            _pad: 0,
            place: 0,
            req: wl_msg::default(),
            rep: wl_msg::default(),
            part: std::ptr::null_mut(),
            parts: 0,
            _pad2: 0,
            kept: wl_bytes::default(),
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct wl_call {
    pub timeout_ns: u64,
    pub ctx: u64,
    pub flags: u32,
    pub _pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct wl_host {
    pub call: Option<unsafe extern "C" fn(*mut wl_task, u32, u32, wl_bytes, u32, *const wl_call)>,
    pub reply: Option<unsafe extern "C" fn(*mut wl_task, wl_bytes, u32, u32)>,
    pub send: Option<unsafe extern "C" fn(*mut wl_task, u32, u32, wl_bytes, u32)>,
    pub grow: Option<unsafe extern "C" fn(*mut wl_core, u32) -> c_int>,
    pub close: Option<unsafe extern "C" fn(*mut wl_task)>,
    pub log: Option<unsafe extern "C" fn(*mut wl_core, u32, wl_bytes)>,
    pub fault: Option<unsafe extern "C" fn(*mut wl_core, u32, u32)>,
    pub crypto: Option<unsafe extern "C" fn(u32, *const wl_bytes, u32, *mut u8) -> i32>,
    pub pause: Option<unsafe extern "C" fn(*mut wl_core)>,
    pub keep: Option<unsafe extern "C" fn(*mut wl_task, wl_bytes) -> c_int>,
    pub tell: Option<unsafe extern "C" fn(*mut wl_task, u32, u32, wl_bytes, u32) -> u32>,
    pub ask: Option<unsafe extern "C" fn(*mut wl_task, u32, u32, wl_bytes, u32, *const wl_call)>,
    pub open: Option<unsafe extern "C" fn(*mut wl_task, u32, u32, u32, wl_bytes) -> u32>,
    pub shut: Option<unsafe extern "C" fn(*mut wl_task, u32)>,
    pub deliver: Option<unsafe extern "C" fn(*mut wl_task, *const u64, u32, wl_bytes, u32, u32, u32)>,
    pub dismiss: Option<unsafe extern "C" fn(*mut wl_task, *const u64, u32)>,
    pub wait: Option<unsafe extern "C" fn(*mut wl_task, u32, u64, u64, u32)>,
    pub changed: Option<unsafe extern "C" fn(*mut wl_core, u32, u64)>,
    pub change_protocol: Option<unsafe extern "C" fn(*mut wl_task, u32, u32, u32) -> u32>,
    pub hold: Option<unsafe extern "C" fn(*mut wl_task, u32, u32)>,
    pub pool: Option<unsafe extern "C" fn(*mut wl_task, u32, wl_bytes)>,
    pub take: Option<unsafe extern "C" fn(*mut wl_task, u32, u32) -> u32>,
    pub pooled: Option<unsafe extern "C" fn(*mut wl_core, u32, u32, wl_bytes) -> u32>,
    pub upstream_fact: Option<unsafe extern "C" fn(*mut wl_task, u32, u32) -> u64>,
    pub late: Option<unsafe extern "C" fn(*mut wl_core, *mut u64) -> c_int>,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wl_port {
    pub n: u32,
    pub _pad: u32,
    pub load: *const u32,
    pub up: *const u8,
    pub ring: *const u32,
    pub ring_n: u32,
    pub maglev_n: u32,
    pub maglev: *const u32,
    pub points: *const u32,
    pub points_n: u32,
    pub _pad2: u32,
    pub server: *const wl_endpoint,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct wl_param {
    pub u: u64,
    pub b: wl_bytes,
    pub ep: wl_endpoint,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct wl_left {
    pub bytes: u64,
    pub frames: u32,
    pub out: u32,
    pub known: u32,
    pub _pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wl_core {
    pub host: *const wl_host,
    pub rt: *mut c_void,
    pub state: *mut c_void,
    pub shared: *mut c_void,
    pub param: *const wl_param,
    pub port: *const wl_port,
    pub now: u64,
    pub wall: u64,
    pub seed: u64,
    pub index: u32,
    pub cores: u32,
    pub out: wl_out,
    pub self_: *mut c_void,
    pub left: wl_left,
    pub draining: u32,
    pub fuel: u32,
    pub tmp: *mut u8,
    pub outcome: u32,
    pub mark: u32,
    pub place: u64,
    pub at: *mut wl_frame,
    pub frames: *mut wl_frame,
    pub entries: *mut u8,
    pub behind: u64,
}

pub type PointFn = unsafe extern "C" fn(*mut c_void, *mut wl_core, u32, wl_bytes) -> u32;
pub type ParseFn = unsafe extern "C" fn(*mut c_void, u32, *mut wl_parser, *const u8, u32, c_int) -> c_int;
pub type TailFn = unsafe extern "C" fn(*mut c_void, u32, *mut wl_parser, *const u8, u32, c_int, *mut u32) -> c_int;
pub type CopyViewFn = unsafe extern "C" fn(*mut wl_parser, *const wl_parser) -> u64;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct wl_unit {
    pub view_size: u32,
    pub head_max: u32,
    pub whole_max: u64,
    pub parse: Option<ParseFn>,
    pub tail: Option<TailFn>,
    pub copy: Option<CopyViewFn>,
}

pub type RunOfFn =
    unsafe extern "C" fn(*mut c_void, *mut wl_core, *mut wl_conn, u32, u64, *const u8, u32, *mut u32) -> u32;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct wl_program {
    pub abi: u32,
    pub units: u32,
    pub handlers: u32,
    pub frame_size: u32,
    pub state_size: u64,
    pub shared_size: u64,
    pub session_size: u32,
    pub tmp_size: u32,
    pub self_: *mut c_void,
    pub unit: *const wl_unit,
    pub init_shared: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *const wl_param)>,
    pub init_core: Option<unsafe extern "C" fn(*mut c_void, *mut wl_core)>,
    pub run: Option<unsafe extern "C" fn(*mut c_void, *mut wl_task) -> c_int>,
    pub fault_reply:
        Option<unsafe extern "C" fn(*mut c_void, *mut wl_core, u32, *const wl_fault, *const wl_msg) -> u32>,
    pub interim: Option<unsafe extern "C" fn(*mut c_void, *mut wl_core, u32, *const wl_msg) -> u32>,
    pub cancel: Option<unsafe extern "C" fn(*mut c_void, *mut wl_task)>,
    pub note: Option<unsafe extern "C" fn(*mut c_void, *mut wl_core, u32, *const wl_msg)>,
    pub answer: Option<unsafe extern "C" fn(*mut c_void, *mut wl_core, u32, *const wl_msg)>,
    pub context: Option<unsafe extern "C" fn(*mut c_void, *mut wl_core, *mut wl_conn, u32, u32) -> u64>,
    pub run_of: Option<RunOfFn>,
    pub point: Option<PointFn>,
}

/// Type of the symbol `wireloom_program`.
pub type ProgramFn = unsafe extern "C" fn() -> *const wl_program;

pub const WL_G_DRY: c_int = 0;
pub const WL_G_FULL: c_int = 1;
pub const WL_G_DONE: c_int = 2;
pub const WL_G_BAD: c_int = 3;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wl_window {
    pub buf: *const u8,
    pub pos: u32,
    pub n: u32,
    pub eof: u32,
    pub messages: u32,
}

impl Default for wl_window {
    fn default() -> Self {
        wl_window { buf: std::ptr::null(), pos: 0, n: 0, eof: 0, messages: 0 }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct wl_merge_at {
    pub input: u32,
    pub fault: u32,
    pub place: u32,
    pub used: u32,
    pub messages: u32,
}

pub type MergeFn =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut wl_window, u32, *mut u8, u32, *mut wl_merge_at) -> c_int;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct wl_merge {
    pub state_size: u64,
    pub inputs: u32,
    pub message_max: u32,
    pub run: Option<MergeFn>,
}

/// Type of the symbol `wireloom_merges`.
pub type MergesFn = unsafe extern "C" fn(*mut u32) -> *const wl_merge;

pub const WL_HEADROOM: u32 = 256;
pub const WL_TAILROOM: u32 = 256;
/// `wl_frame.out`: the frame leaves through no port.
impl wl_frame {
    /// The mark of a frame that waits in a queue.
    pub fn mark(&self) -> u32 {
        u32::from(self.port) | u32::from(self.instance) << 16
    }

    /// Sets the mark of a frame that leaves to a queue.
    pub fn set_mark(&mut self, mark: u32) {
        (self.port, self.instance) = (mark as u16, (mark >> 16) as u16)
    }
}

pub const WL_GONE: u32 = u32::MAX;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wl_frame {
    pub p: *mut u8,
    pub n: u32,
    pub wire: u32,
    pub time: u64,
    pub out: u32,
    pub port: u16,
    pub instance: u16,
    pub head: u32,
    pub tail: u32,
}

pub type BatchFn = unsafe extern "C" fn(*mut c_void, *mut wl_core, u32, *mut wl_frame, u32);
pub type SteerFn = unsafe extern "C" fn(*mut c_void, u32, *const wl_frame, u32, *mut u32);
pub type TransmitFn = unsafe extern "C" fn(*mut wl_core, u32, u32, *const u8, u32);
pub type QueueFn = unsafe extern "C" fn(*mut wl_core, u32, u32, u32) -> u32;
pub type ServeFn = unsafe extern "C" fn(*mut wl_core);

pub const WL_Q_POP: u32 = 0;
pub const WL_Q_DROP: u32 = 1;
pub const WL_Q_LEN: u32 = 2;
pub const WL_Q_FIRST: u32 = 3;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct wl_packets {
    pub batch: Option<BatchFn>,
    pub steer: Option<SteerFn>,
    pub transmit: Option<TransmitFn>,
    pub queue: Option<QueueFn>,
    pub serve: Option<ServeFn>,
}

/// Type of the symbol `wireloom_packets`.
pub type PacketsFn = unsafe extern "C" fn() -> *mut wl_packets;

#[cfg(test)]
#[path = "abi_test.rs"]
mod tests;
