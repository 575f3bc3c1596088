//! Handlers, or the keys of their lookups, for sixteen frames side by side.
//!
//! A vector plan is straight-line code over vectors. A number is a vector of 32 bits per frame. A
//! mask has one bit per frame. Each value is computed once, in the order of the steps, and has the
//! number of its `Let` in its loop, from 0 on.

use super::Destination;
use crate::*;
use std::collections::BTreeSet;

/// The vectorized form of a handler of frames. It has one or two loops over groups of frames.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VectorPlan {
    /// Bytes that each frame of a group has, or the group is not vectorized.
    pub least: u32,
    /// Says which frames of a group have the most common header stack.
    pub stack: Vec<VectorStep>,
    /// Packs the key of the batch lookup, for those frames. In the loop of `stack`, behind it.
    pub key: Vec<VectorStep>,
    /// The handler, for those frames. With a `key` it is a loop of its own, behind the lookups of
    /// the batch; without one it follows `stack`. None: the handler runs frame by frame.
    pub run: Option<Vec<VectorStep>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum VectorStep {
    /// The next steps look at this layer.
    Header(u32),
    Let(VectorValue),
    /// In `stack`: these frames have the stack.
    Stack(MaskRef),
    /// In `key`: these frames have this one of the last headers.
    Last(u32, MaskRef),
    /// In `key`: 64 bits of the key of an exact table, as two numbers, the lower first.
    Pair(u32, NumberRef, NumberRef),
    /// In `key`: 32 bits of the key of a table of masks.
    Column(u32, NumberRef),
    /// The same, if all frames of the stack have the same value.
    Even(u32, u32),
    /// In `key`: these frames look the key up.
    Asks(MaskRef),
    /// Adds a constant to a counter for each of these frames.
    Count(CounterId, u64, MaskRef),
    /// Adds each frame's own number.
    Sum(CounterId, NumberRef, MaskRef),
    /// These frames look a table up, and count as misses.
    Miss(TableId, MaskRef),
    /// So many of them are hits instead: a value of `Hits`.
    Hit(TableId, u32),
    /// These frames leave.
    Send(Destination, MaskRef),
}

/// A value with a name in the generated code.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorValue {
    /// The header field that it is.
    pub field: Option<String>,
    pub op: VectorOp,
}

/// A number per frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NumberRef {
    Const(u32),
    Value(u32),
    /// A word of the bytes that value `rows` has loaded.
    Word {
        rows: u32,
        word: u32,
    },
    /// The frames' lengths.
    Lengths,
}

/// A bit per frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskRef {
    All,
    None,
    /// Frames of the most common header stack.
    Stack,
    Value(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Eq,
    Lt,
    Le,
}

#[derive(Clone, Debug, PartialEq)]
pub enum VectorOp {
    /// Loads up to eight words of four bytes of each frame, which begin at these places. All lie
    /// between `from` and `to`. A word has its first byte lowest.
    Words {
        from: u32,
        to: u32,
        places: Vec<u32>,
    },
    /// The bytes in reverse order.
    Swap(NumberRef),
    /// Shifted down, then under a mask.
    Bits {
        of: NumberRef,
        shift: u32,
        mask: Option<u32>,
    },
    /// Shifted up.
    Shl(NumberRef, u32),
    /// The result is under a mask if it is narrower than 32 bits.
    Binary(BinaryOp, NumberRef, NumberRef, Option<u32>),
    /// The first number where the mask is set, else the second.
    Choose(MaskRef, NumberRef, NumberRef),
    /// A parameter of the app, the same for all frames.
    Param(Expr),
    /// The entries of the table of masks that the batch lookup has found.
    Entries,
    /// A number in these entries, or a member of theirs; 0 outside of the mask.
    Load {
        table: TableId,
        member: Option<u32>,
        entries: u32,
        mask: MaskRef,
    },
    /// The frames whose word has this value under this mask.
    Has {
        of: NumberRef,
        mask: u32,
        value: u32,
    },
    Compare(Compare, NumberRef, NumberRef),
    Not(MaskRef),
    Both(MaskRef, MaskRef),
    Either(MaskRef, MaskRef),
    /// All frames, if this hoisted condition holds.
    When(u32),
    /// All frames, if this parameter of the app is true.
    Holds(Expr),
    /// The frames that have an entry.
    Found(u32),
    /// How many frames a mask has.
    Hits(MaskRef),
}

impl VectorPlan {
    /// Counters to which each frame adds a number of its own.
    pub fn sums(&self) -> BTreeSet<CounterId> {
        let sum = |s: &VectorStep| if let VectorStep::Sum(c, ..) = s { Some(*c) } else { None };
        self.run.iter().flatten().filter_map(sum).collect()
    }

    /// Where frames leave.
    pub fn outputs(&self) -> BTreeSet<Destination> {
        let output = |s: &VectorStep| if let VectorStep::Send(d, _) = s { Some(*d) } else { None };
        self.run.iter().flatten().filter_map(output).collect()
    }

    /// The single output, if frames leave through no other.
    pub fn output(&self) -> Option<Destination> {
        self.outputs().pop_first().filter(|d| self.outputs().iter().all(|o| o == d))
    }

    /// Words of the key that are the same for all frames of the stack.
    pub fn even(&self) -> Vec<(u32, u32)> {
        let even = |s: &VectorStep| if let VectorStep::Even(w, v) = s { Some((*w, *v)) } else { None };
        self.key.iter().filter_map(even).collect()
    }

    /// Words of 64 bits of the key of an exact table.
    pub fn pairs(&self) -> usize {
        self.key.iter().filter(|s| matches!(s, VectorStep::Pair(..))).count()
    }

    /// Those of the last headers of which each frame has one.
    pub fn last_headers(&self) -> Vec<u32> {
        let last = |s: &VectorStep| if let VectorStep::Last(n, _) = s { Some(*n) } else { None };
        self.key.iter().filter_map(last).collect()
    }
}
