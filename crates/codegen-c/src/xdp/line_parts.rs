//! The parts of a line of the log, and the form of its record.

use serde::{Deserialize, Serialize};

/// Bytes of the ring that all lines go through.
pub const LINES_BYTES: u32 = 1 << 18;

/// A part of a line. Its value is so many words of the line's record, behind its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinePart {
    /// A constant: it is not sent.
    Text(Vec<u8>),
    Bool,
    Unsigned,
    Signed,
    Address,
    Endpoint,
    /// Their number, and room for at most so many.
    Bytes(u64),
}

impl LinePart {
    pub fn words(&self) -> usize {
        match self {
            LinePart::Text(_) => 0,
            LinePart::Bool | LinePart::Unsigned | LinePart::Signed => 1,
            LinePart::Address => 2,
            LinePart::Endpoint => 3,
            LinePart::Bytes(most) => 1 + most.div_ceil(8) as usize,
        }
    }

    /// Statements that put a value into a record.
    pub(super) fn stores(&self, value: &str, at: usize) -> String {
        let word = |n: usize, text: String| format!("r_[{}] = {text};\n", at + n);
        let address = || word(0, format!("{value}.w[0]")) + &word(1, format!("{value}.w[1]"));
        match self {
            LinePart::Text(_) => String::new(),
            LinePart::Bool | LinePart::Unsigned => word(0, format!("(uint64_t){value}")),
            LinePart::Signed => word(0, format!("(uint64_t)(int64_t){value}")),
            LinePart::Address => address(),
            LinePart::Endpoint => address() + &word(2, format!("{value}.port")),
            LinePart::Bytes(most) => {
                word(0, format!("wl_least({value}.n, {most})"))
                    + &format!("wl_pack_bytes(x, r_ + {}, {most}, {value});\n", at + 1)
            }
        }
    }
}
