//! Statements about tables, apart from all others. An emitter of one kind of table matches these,
//! and names those that this kind has not.

use crate::*;

/// A [`StmtKind`] about a table, whose members are those of the statement.
#[derive(Clone, Copy)]
pub enum TableStmt<'s> {
    Get {
        table: &'s TableId,
        key: &'s Expr,
        dst: &'s LocalId,
    },
    Put {
        table: &'s TableId,
        key: &'s Expr,
        value: &'s Expr,
        place: &'s PlaceId,
    },
    Remove {
        table: &'s TableId,
        key: &'s Expr,
        dst: &'s Option<LocalId>,
    },
    Update {
        table: &'s TableId,
        key: &'s Expr,
        entry: &'s LocalId,
        body: &'s Block,
        place: &'s PlaceId,
    },
    Len {
        table: &'s TableId,
        dst: &'s LocalId,
    },
    Next {
        table: &'s TableId,
        cursor: &'s LocalId,
        key: &'s LocalId,
        value: &'s LocalId,
        more: &'s LocalId,
        masked: &'s Option<(LocalId, LocalId)>,
    },
    Insert {
        table: &'s TableId,
        key: &'s Expr,
        mask: &'s Expr,
        priority: &'s Expr,
        value: &'s Expr,
        place: &'s PlaceId,
    },
    Delete {
        table: &'s TableId,
        key: &'s Expr,
        mask: &'s Expr,
        priority: &'s Expr,
        dst: &'s Option<LocalId>,
    },
    Push {
        table: &'s TableId,
        value: &'s Expr,
        dst: &'s LocalId,
    },
    Pop {
        table: &'s TableId,
        dst: &'s LocalId,
    },
}

impl StmtKind {
    /// The statement, if it is about a table.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn table_stmt(&self) -> Option<TableStmt<'_>> {
        use TableStmt::*;
        Some(match self {
            StmtKind::TableGet { table, key, dst } => Get { table, key, dst },
            StmtKind::TablePut { table, key, value, place } => Put { table, key, value, place },
            StmtKind::TableRemove { table, key, dst } => Remove { table, key, dst },
            StmtKind::TableUpdate { table, key, entry, body, place } => Update { table, key, entry, body, place },
            StmtKind::TableLen { table, dst } => Len { table, dst },
            StmtKind::TableNext { table, cursor, key, value, more, masked } => {
                Next { table, cursor, key, value, more, masked }
            }
            StmtKind::TableInsert { table, key, mask, priority, value, place } => {
                Insert { table, key, mask, priority, value, place }
            }
            StmtKind::TableDelete { table, key, mask, priority, dst } => Delete { table, key, mask, priority, dst },
            StmtKind::TablePush { table, value, dst } => Push { table, value, dst },
            StmtKind::TablePop { table, dst } => Pop { table, dst },
            _ => return None,
        })
    }

    /// The table that a statement is about. The body of an update has statements of its own.
    pub fn table(&self) -> Option<TableId> {
        self.table_stmt().map(|s| s.table())
    }

    /// The table that a statement only reads.
    pub fn read_table(&self) -> Option<TableId> {
        self.table_stmt().filter(|s| s.effect() == TableEffect::Reads).map(|s| s.table())
    }

    /// The table whose entries a statement may change.
    pub fn changed_table(&self) -> Option<TableId> {
        self.table_stmt().filter(|s| s.effect() != TableEffect::Reads).map(|s| s.table())
    }

    /// The table to which a statement may add an entry.
    pub fn filled_table(&self) -> Option<TableId> {
        self.table_stmt().filter(|s| s.effect() == TableEffect::Fills).map(|s| s.table())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableEffect {
    Reads,
    /// Takes entries out.
    Drains,
    /// May add an entry.
    Fills,
}

impl TableStmt<'_> {
    pub fn table(&self) -> TableId {
        use TableStmt::*;
        match self {
            Get { table, .. }
            | Put { table, .. }
            | Remove { table, .. }
            | Update { table, .. }
            | Len { table, .. }
            | Next { table, .. }
            | Insert { table, .. }
            | Delete { table, .. }
            | Push { table, .. }
            | Pop { table, .. } => **table,
        }
    }

    pub fn effect(&self) -> TableEffect {
        use TableStmt::*;
        match self {
            Get { .. } | Len { .. } | Next { .. } => TableEffect::Reads,
            Remove { .. } | Delete { .. } | Pop { .. } => TableEffect::Drains,
            Put { .. } | Update { .. } | Insert { .. } | Push { .. } => TableEffect::Fills,
        }
    }
}
