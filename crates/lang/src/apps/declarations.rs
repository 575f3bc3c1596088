//! Declarations of an app beside tables and values: gauges, caches, queues of messages.

use crate::ty::Ty;
use ir::{CounterId, Expr as X, LocalId, TableId};
use std::cell::{Cell, OnceCell};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, Ident, Span};

/// The item behind its name.
pub struct Gauge {
    pub table: TableId,
    pub keyed: bool,
    pub meter: bool,
    /// Tokens a second and the bucket's size: of a limiter one pair, of a meter the committed and
    /// the peak one.
    pub buckets: Vec<(X, X)>,
}

/// The item behind its name.
pub struct Cache {
    pub name: Ident,
    pub(super) number: usize,
    pub(super) entries: TableId,
    pub(super) leases: TableId,
    pub(super) key: Ty,
    pub(super) value: Ty,
    pub(super) hits: CounterId,
    pub(super) misses: CounterId,
    pub(super) stale: CounterId,
    pub(super) write_through: bool,
    pub(super) allocate_on_read: bool,
    /// In nanoseconds: a constant or a parameter.
    pub(super) max_age: Option<X>,
    pub(super) write_timeout: u64,
    /// The field of the value with the time at which it ends.
    pub(super) expires: Option<u32>,
    /// `ways N`: its entries have places in sets.
    pub(super) ways: Option<Ways>,
    /// Of packets.
    pub(super) exchanges: Option<Exchanges>,
    /// `write_back D`: what is written waits in the cache for its server.
    pub(super) back: Option<WriteBack>,
}

/// The part of a cache that is written back.
pub struct WriteBack {
    /// In nanoseconds: how often the entries that wait are written.
    pub(super) period: u64,
    /// How many wait at most; 0: a quarter of the cache's entries.
    pub(super) most: u64,
    /// How often a write is tried; none: until it has an answer.
    pub(super) tries: Option<u64>,
    /// The entries that wait.
    pub(super) table: TableId,
    pub(super) written: CounterId,
    pub(super) failed: CounterId,
    pub(super) lost: CounterId,
    /// And where it stands.
    pub(super) handler: OnceCell<(ast::Handler, Span)>,
    pub(super) span: Span,
}

/// The sets of a cache with ways.
#[derive(Clone, Copy)]
pub struct Ways {
    /// Places of a set.
    pub(super) each: u64,
    /// Of each set the tags of its entries, the one used last first.
    pub(super) tags: TableId,
    pub(super) sets: u64,
}

/// Parts that only a cache of packets has.
pub struct Exchanges {
    /// The type of an exchange's name, which tells the request of an answer.
    pub(super) ty: Ty,
    /// Requests under way, by that.
    pub(super) asked: TableId,
    /// One number. An entry of an older epoch is none.
    pub(super) epoch: TableId,
}

/// A call or send: its port, the block around it, and its place.
#[derive(Clone, Debug)]
pub struct CallSite {
    pub port: ir::PortId,
    pub block: Option<(usize, Role)>,
    pub span: Span,
}

/// Which block of a cache a call stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Read,
    Write,
    Beside,
}

#[derive(Debug)]
pub struct MessageQueue {
    pub(super) name: String,
    pub ring: ir::TableId,
    pub unit: ir::UnitId,
    pub(super) longest: u64,
    /// Messages that found the queue full or were too long for it.
    pub(super) discarded: ir::CounterId,
    pub(super) handler: OnceCell<ast::Handler>,
    pub(super) span: Span,
    /// Something takes messages from it.
    pub(super) taken: Cell<bool>,
}

/// Where a packet goes back to, as an answer.
pub struct WayBack {
    pub(super) packet: Expr,
    pub(super) frame: LocalId,
    pub(super) port: ir::PortId,
}
