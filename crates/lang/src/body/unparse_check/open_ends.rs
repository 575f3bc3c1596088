//! Fields of a message that end by the bytes behind them.

use ir::{ByteSet, Expr as X, FieldId};
use wireloom_ir as ir;

/// A field whose reader looks at the bytes behind it.
#[derive(Clone)]
pub struct OpenEnd {
    pub field: FieldId,
    /// The condition under which it is there.
    pub taken: X,
    /// Bytes that it may take for its own, and how many behind its end it looks at.
    pub set: ByteSet,
    pub reach: u64,
}

impl OpenEnd {
    pub fn new(field: FieldId, taken: &X, set: ByteSet, reach: u64) -> Self {
        OpenEnd { field, taken: taken.clone(), set, reach }
    }
}
