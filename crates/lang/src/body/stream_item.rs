//! The item of a stream that a handler is for (`on client.rows`).

use wireloom_ir as ir;

#[derive(Clone)]
pub struct StreamItem {
    /// The message of the stream.
    pub msg: ir::LocalId,
    pub item: ir::LocalId,
    pub unit: ir::UnitId,
    /// The item for which this holds is the last.
    pub until: ir::Expr,
}
