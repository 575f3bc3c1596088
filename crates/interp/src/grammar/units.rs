//! The units of a module, made ready to be parsed.

use super::{tail, view};
use crate::exec::functions::Functions;
use crate::value::{mask, Value};
use std::sync::Arc;
use wireloom_ir::grammar::tail as split;
use wireloom_ir::*;
use wireloom_runtime::abi::WL_CTX_RESPONSE;

/// All units of a module, ready to parse.
pub struct Grammar {
    pub module: Arc<Module>,
    pub functions: Functions,
    pub(super) programs: Vec<Result<tail::Program, String>>,
    /// All delimiters that a recovery may look for.
    pub(super) recovers: Vec<Until>,
    /// By unit: the layers of frames that the program looks at.
    looked_at: Vec<std::collections::BTreeSet<u32>>,
}

impl Grammar {
    /// The module must have the types of [`tail::intern_types`].
    pub fn new(module: Arc<Module>) -> Grammar {
        let programs = (0..module.units.len()).map(|u| tail::compile(&module, UnitId(u as u32))).collect();
        let fields = module.units.iter().flat_map(|u| &u.fields);
        let recovers = fields.filter_map(|f| match &f.kind {
            FieldKind::Recover { how: Recover::Until(u) } => Some(u.clone()),
            _ => None,
        });
        let recovers = recovers.collect();
        let looked_at =
            (0..module.units.len()).map(|u| wireloom_ir::frame::needed_layers(&module, UnitId(u as u32)).1).collect();
        Grammar { functions: Functions::new(&module), module, programs, recovers, looked_at }
    }

    /// Whether a fault of this layer of a frame counts, where its `after` number `i` expects it.
    pub fn looks_at(&self, unit: UnitId, layer: usize, i: usize) -> bool {
        let layers = self.module.unit(unit).frame.as_ref().map_or(&[][..], |f| &f.layers);
        let needed = self.looked_at.get(unit.index()).filter(|l| l.contains(&(layer as u32)));
        needed.is_some_and(|n| wireloom_ir::frame::is_looked_for(&self.module, layers, n, layer, i))
    }

    pub fn program(&self, unit: UnitId) -> Option<&tail::Program> {
        self.programs[unit.index()].as_ref().ok()
    }

    pub fn view_size(&self, unit: UnitId) -> usize {
        self.program(unit).map_or(view::FIXED, |p| view::view_size(&self.module, p))
    }

    /// As [`args`].
    pub fn args(&self, unit: UnitId, ctx: u64) -> Vec<Value> {
        args(&self.module, unit, ctx)
    }

    /// The rule by which a message's head ends, if its tail could be lowered.
    pub(super) fn stop(&self, unit: UnitId) -> Option<split::Rule> {
        let has_tail = self.program(unit).is_some_and(|p| !p.ops.is_empty());
        has_tail.then(|| split::rule(&self.module, unit))
    }
}

/// Values of a unit's parameters, and behind them those that its answers are compared with.
pub fn args(m: &Module, unit: UnitId, ctx: u64) -> Vec<Value> {
    let Unit { params, asked, .. } = m.unit(unit);
    params.iter().chain(asked).map(|p| unpack(m, p, ctx)).collect()
}

/// One parameter out of a packed context.
fn unpack(m: &Module, p: &UnitParam, ctx: u64) -> Value {
    let v = (ctx >> p.shift.min(63)) as u128 & mask(p.bits);
    match m.ty(p.ty) {
        Ty::Bool => Value::Bool(v != 0),
        _ => Value::Int(v),
    }
}

/// The context with which a response to a request is parsed.
pub fn pack(params: &[UnitParam], args: &[Value]) -> u64 {
    let bits = |(p, v): (&UnitParam, &Value)| ((v.as_int().unwrap_or(0) & mask(p.bits)) as u64) << p.shift.min(63);
    params.iter().zip(args).map(bits).fold(WL_CTX_RESPONSE, |a, b| a | b)
}
