//! Lookups that are done for a whole batch of frames.

use super::StmtPath;
use crate::*;

/// Lookups that are done for a whole batch before its first frame is handled. There is one, or two.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchLookup {
    /// The handler's first use of a table, if that is an exact one with a part for each core. Its
    /// key is packed and hashed, and its place in the table is fetched.
    pub exact: Option<TableLookup>,
    /// A lookup in a table of masks that no frame changes. It is the first use of a table, or the
    /// one after a miss in the exact one. All keys of a batch are looked up side by side.
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
#[derive(Clone, Debug, PartialEq)]
pub struct TableLookup {
    pub table: TableId,
    pub site: StmtPath,
    /// Over local 0, the app's parameters and constants.
    pub key: Expr,
    /// All conditions that lead there, over the same. Each may rely on those before it.
    pub guard: Vec<Expr>,
    /// A condition of the key: whether a header is there. With it and without it the key is packed
    /// by code of its own.
    pub split: Option<Expr>,
}

/// The handler's needs of a frame's headers, besides its keys.
#[derive(Clone, Debug, PartialEq)]
pub enum HeaderReuse {
    /// All of them, or it changes the frame: the frame is parsed again when its turn comes.
    Parse,
    /// Where these layers begin.
    Places(Vec<u32>),
}

/// A lookup beside the statement that makes it.
pub struct KeySite<'m> {
    pub table: TableId,
    /// The key as it stands in the statement.
    pub site: &'m Expr,
    /// The key over the frame alone.
    pub key: &'m Expr,
    /// All conditions that lead there, over the frame alone.
    pub guard: &'m [Expr],
    /// The condition that splits the key.
    pub split: Option<&'m Expr>,
}

impl<'m> KeySite<'m> {
    /// None: the body has no such statement.
    pub fn of(lookup: &'m TableLookup, body: &'m Body) -> Option<Self> {
        let (table, site) = keyed(&lookup.site.find(&body.block)?.kind)?;
        Some(KeySite { table, site, key: &lookup.key, guard: &lookup.guard, split: lookup.split.as_ref() })
    }

    /// Whether an expression is the key in that statement.
    pub fn is(&self, key: &Expr) -> bool {
        std::ptr::eq(self.site, key)
    }
}

/// The table and the key of a statement that uses one entry of it.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn keyed(s: &StmtKind) -> Option<(TableId, &Expr)> {
    match s {
        StmtKind::TableGet { table, key, .. }
        | StmtKind::TablePut { table, key, .. }
        | StmtKind::TableUpdate { table, key, .. }
        | StmtKind::TableRemove { table, key, .. } => Some((*table, key)),
        _ => None,
    }
}
