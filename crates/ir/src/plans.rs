//! Plans: decisions of passes about handlers of frames, for backends.
//!
//! A plan changes no result. A backend may ignore a plan, but must not do more than it says. The
//! verifier checks that each plan is legal, so a backend need not check again.

use crate::header_bits::{Bits, Known};
use crate::*;

/// The plans of one handler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HandlerPlan {
    /// Set by the pass `batch_lookup`.
    pub batch: Option<BatchLookup>,
}

/// Lookups that are done for a whole batch before its first frame is handled. There is one, or two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchLookup {
    /// The handler's first use of a table, if that is an exact one with a part for each core. Its
    /// key is packed and hashed, and its place in the table is fetched.
    pub exact: Option<TableLookup>,
    /// A lookup in a table of masks that no frame changes: the first use of a table, or the one
    /// after a miss in the exact one. All keys of a batch are looked up side by side.
    pub masked: Option<TableLookup>,
    /// No fault can end the handler before the first of these lookups. A frame whose guard holds is
    /// sure to make it, so it may be counted ahead of time.
    pub sure: bool,
    /// Locals of which nothing is made but these keys.
    pub unused: Vec<LocalId>,
    /// The other fields of the frame that the handler reads.
    pub reuse: HeaderReuse,
}

/// A use of a table whose key the frame alone tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableLookup {
    pub table: TableId,
    pub site: StmtPath,
    /// Over local 0, the app's parameters and constants.
    pub key: Expr,
    /// All conditions that lead there, over the same. Each may rely on those before it.
    pub guard: Vec<Expr>,
}

/// The handler's needs of a frame's headers, besides its keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum HeaderReuse {
    /// All of them, or it changes the frame: the frame is parsed again when its turn comes.
    Parse,
    /// Where these layers begin.
    Places(Vec<u32>),
}

/// Where the headers of most frames are looked for first. Set by the pass `packet_fast_path`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FastPath {
    /// Which layer is looked for behind which (None: at the frame's beginning), at a constant
    /// place: the headers before it have no options.
    pub steps: Vec<(Option<u32>, u32)>,
    /// The stack that most frames have, if bits tell it.
    pub stack: Option<HeaderStack>,
}

/// Headers one behind the other, told by bits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeaderStack {
    /// Bytes that such a frame has at least, and 16.
    pub least: u32,
    /// Each header, or several of which one is there; only the last are several.
    pub stages: Vec<Vec<Stage>>,
}

/// A header of such a frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    pub layer: u32,
    /// Where it begins, in bytes.
    pub at: u32,
    /// Its bytes, without its variable part.
    pub least: u32,
    /// The bits that must be there, at its own fields or at the fields of the header before it.
    pub bits: Bits,
    /// Fields whose values these bits say.
    pub known: Known,
}

/// A statement of a body. Statements are numbered from 1 within their block; a nested block's
/// statements follow the number of their statement, all blocks of one statement counted through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StmtPath(pub Vec<u32>);

impl std::fmt::Display for StmtPath {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        for (n, part) in self.0.iter().enumerate() {
            write!(f, "{}{part}", if n > 0 { "." } else { "" })?
        }
        Ok(())
    }
}

impl StmtPath {
    /// The statement, if there is one.
    pub fn find<'b>(&self, block: &'b Block) -> Option<&'b Stmt> {
        let (first, rest) = self.0.split_first()?;
        let mut at = block.get(first.checked_sub(1)? as usize)?;
        for n in rest {
            let (mut left, mut found) = (n.checked_sub(1)? as usize, None);
            walk::stmt_blocks(&at.kind, &mut |b| {
                if found.is_none() {
                    found = b.get(left);
                    left = left.saturating_sub(b.len());
                }
            });
            at = found?;
        }
        Some(at)
    }
}

/// The table and the key of a statement that uses one entry of it.
pub fn keyed(s: &StmtKind) -> Option<(TableId, &Expr)> {
    match s {
        StmtKind::TableGet { table, key, .. }
        | StmtKind::TablePut { table, key, .. }
        | StmtKind::TableUpdate { table, key, .. }
        | StmtKind::TableRemove { table, key, .. } => Some((*table, key)),
        _ => None,
    }
}
