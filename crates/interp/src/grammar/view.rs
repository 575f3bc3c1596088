//! The view of a message as bytes: `wl_parser`, a few counters, then the tail program's slots. It
//! is position independent, so the runtime may move it.

use super::tail;
use crate::value::{fixed_size, get_fixed, put_fixed, Value};
use wireloom_ir::Module;
use wireloom_runtime::abi::wl_parser;

/// Values of `wl_parser::pc`: what a view waits for.
pub const PC_HEAD: u16 = 0;
pub const PC_TAIL: u16 = 1;
pub const PC_RECOVER_UNTIL: u16 = 2;
pub const PC_RECOVER_LENGTH: u16 = 3;
pub const PC_DONE: u16 = 4;

/// A view while it is worked on.
pub struct View {
    pub parser: wl_parser,
    pub extra: Extra,
    pub slots: Vec<Value>,
}

/// The part of a view behind `wl_parser`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Extra {
    /// Bytes of the message seen so far (at its end: its length).
    pub total: u64,
    /// Bytes of the message that are passed on; the part between them and `total` is held.
    pub from: u64,
    /// Borders among held bytes between passed and dropped ones, and how many of these are behind.
    pub cuts: u32,
    pub cut: u32,
    /// In a run: bytes gone by (searched runs) or still to come (checked runs).
    pub run: u64,
    /// `wl_parser::left` when we last looked: the runtime may have passed bytes on by itself.
    pub left: u64,
    pub in_run: u32,
    /// The tail program's counter.
    pub pc: u32,
    /// How to get back in step after a fault: 0 not at all, 1 at `recover_at`, from 2 on at a
    /// delimiter of that number.
    pub recover: u32,
    pub _pad: u32,
    /// Position in the message.
    pub recover_at: u64,
    /// The bytes behind the head when it was parsed, so that the head can be parsed again.
    pub ahead: Lookahead,
    /// The bytes behind the whole message, once its end is known, so that it can be parsed again.
    pub after: Lookahead,
}

/// The first bytes behind a part of a message, that its parser may have looked at.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Lookahead {
    bytes: [u8; AHEAD],
    n: u32,
    /// Whether the input ends behind them.
    eof: u32,
}

/// Longest look ahead: literals are shorter.
pub const AHEAD: usize = 64;

impl Default for Lookahead {
    fn default() -> Self {
        Lookahead { bytes: [0; AHEAD], n: 0, eof: 0 }
    }
}

impl Lookahead {
    /// The first bytes of the rest.
    pub fn of(rest: &[u8], eof: bool) -> Lookahead {
        let n = rest.len().min(AHEAD);
        let mut a = Lookahead { n: n as u32, eof: (eof && n == rest.len()) as u32, ..Lookahead::default() };
        a.bytes[..n].copy_from_slice(&rest[..n]);
        a
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..(self.n as usize).min(AHEAD)]
    }

    pub fn eof(&self) -> bool {
        self.eof != 0
    }
}

/// Bytes in front of the slots.
pub const FIXED: usize = std::mem::size_of::<wl_parser>() + std::mem::size_of::<Extra>();

/// Bytes of one slot: a byte that says whether it is set, and the value.
fn slot_size(m: &Module, ty: wireloom_ir::TyId) -> usize {
    1 + fixed_size(m, ty)
}

pub fn view_size(m: &Module, p: &tail::Program) -> usize {
    (FIXED + p.slots.iter().map(|t| slot_size(m, *t)).sum::<usize>()).next_multiple_of(8)
}

/// The slots as values; one that was never set is `Unit`.
pub fn read_slots(m: &Module, p: &tail::Program, bytes: &[u8]) -> Vec<Value> {
    let mut at = 0;
    let mut read = |ty: &wireloom_ir::TyId| {
        let b = &bytes[at..];
        at += slot_size(m, *ty);
        if b[0] == 0 {
            Value::Unit
        } else {
            get_fixed(m, *ty, &b[1..])
        }
    };
    p.slots.iter().map(&mut read).collect()
}

pub fn write_slots(m: &Module, p: &tail::Program, values: &[Value], bytes: &mut [u8]) {
    let mut at = 0;
    for (ty, v) in p.slots.iter().zip(values) {
        bytes[at] = !matches!(v, Value::Unit) as u8;
        put_fixed(m, *ty, v, &mut bytes[at + 1..]);
        at += slot_size(m, *ty);
    }
}
