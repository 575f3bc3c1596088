//! Tables whose values are copied when they are read.
//!
//! In: bodies. Out: [`Table::copied`] of each table with masks that one body both reads and
//! changes. Bytes of a value lie in its entry, which a change in the same body may move or remove.

use crate::*;
use std::collections::BTreeSet;

pub fn run(m: &mut Module) {
    let plan = plan(m);
    for (n, t) in m.tables.iter_mut().enumerate() {
        t.copied = plan.contains(&TableId(n as u32))
    }
}

/// The tables of which some body both reads and changes entries with masks.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn plan(m: &Module) -> BTreeSet<TableId> {
    let mut all = BTreeSet::new();
    m.bodies(&mut |body| {
        let (mut read, mut changed) = (BTreeSet::new(), BTreeSet::new());
        walk::stmts(&body.block, &mut |s| match &s.kind {
            StmtKind::TableGet { table, .. } | StmtKind::TableNext { table, .. } => drop(read.insert(*table)),
            StmtKind::TableInsert { table, .. } | StmtKind::TableDelete { table, .. } => drop(changed.insert(*table)),
            _ => {}
        });
        all.extend(read.intersection(&changed));
    });
    all
}
