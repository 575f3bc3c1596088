//! Arrays and sketches. In: a statement. Out: its effect on the table, which all cores share here.
//! A HyperLogLog estimates as compiled code does.

use super::activation::Activation;
use super::tables::Table;
use crate::builtin;
use crate::env::Env;
use crate::stop::{Res, Stop};
use crate::value::Value;
use wireloom_ir::*;

/// Where an entry of an array or a sketch is.
pub struct EntryKey<'a> {
    pub key: &'a [u8],
    /// An array's.
    pub index: u128,
}

/// An array's or a sketch's entry before an update; `None`: the table is of another kind.
pub fn entry(
    a: &Activation,
    t: TableId,
    table: &mut Table,
    EntryKey { key, index }: EntryKey,
    place: PlaceId,
) -> Option<Res<Value>> {
    let (m, now) = (a.grammar.module.clone(), a.now());
    let def = &m.tables[t.index()];
    Some(match def.kind {
        TableKind::Array if index >= def.capacity.into() => Err(Stop::Fault { kind: FaultKind::INDEX, place }),
        TableKind::Array | TableKind::Bloom | TableKind::CountMin => {
            Ok(table.peek(key, now).unwrap_or_else(|| Value::zero(&m, def.value)))
        }
        _ => return None,
    })
}

/// The result of an update or assignment: counters and bits only grow.
pub fn merged(kind: TableKind, old: Option<Value>, new: Value) -> Value {
    match (kind, old) {
        (TableKind::CountMin, Some(Value::Int(old))) => Value::Int(old.max(new.as_int().unwrap_or(0))),
        (TableKind::Bloom, Some(Value::Bool(true))) => Value::Bool(true),
        _ => new,
    }
}

fn rank(hash: u64) -> u8 {
    ((hash << 12) | 1 << 11).leading_zeros() as u8 + 1
}

/// As in `support/sketch.h`.
fn ln(mut x: f64) -> f64 {
    let mut k = 0.0;
    while x >= 2.0 {
        x /= 2.0;
        k += 1.0;
    }
    let y = (x - 1.0) / (x + 1.0);
    let (mut power, mut sum) = (y, 0.0);
    for i in (1..40).step_by(2) {
        sum += power / f64::from(i);
        power *= y * y;
    }
    2.0 * sum + k * std::f64::consts::LN_2
}

fn estimate(registers: &[u8]) -> u64 {
    let sum: f64 =
        (0..HLL_REGISTERS as usize).map(|i| 1.0 / (1u64 << registers.get(i).copied().unwrap_or(0)) as f64).sum();
    let zeros = HLL_REGISTERS as usize - registers.iter().filter(|r| **r > 0).count();
    let m = HLL_REGISTERS as f64;
    let e = 0.7213 / (1.0 + 1.079 / m) * m * m / sum;
    ((if e <= 2.5 * m && zeros > 0 { m * ln(m / zeros as f64) } else { e }) + 0.5) as u64
}

/// Runs a statement on a table of these kinds. False: it is handled as for an exact table.
pub fn effect(env: &Env, a: &Activation, s: &StmtKind, locals: &mut [Value]) -> Res<bool> {
    let here = Env { locals, ..*env };
    let m = env.module;
    let kind = |t: &TableId| m.tables[t.index()].kind;
    match s {
        StmtKind::TableGet { table, key, dst }
            if matches!(kind(table), TableKind::Array | TableKind::Bloom | TableKind::CountMin) =>
        {
            let index = if kind(table) == TableKind::Array { here.int(key)? } else { 0 };
            let key = here.key(key)?;
            let mut t = a.table(*table)?;
            let found = entry(a, *table, &mut t, EntryKey { key: &key, index }, PlaceId(0)).and_then(Result::ok);
            locals[dst.index()] = Value::Option(found.map(Box::new));
        }
        StmtKind::TablePut { table, key, .. } if kind(table) == TableKind::HyperLogLog => {
            let mut form = Vec::new();
            crate::value::canonical(m, key.ty, &here.eval(key)?, false, &mut form);
            let hash = builtin::hash(&form);
            let mut t = a.table(*table)?;
            if !t.outside.as_ref().is_some_and(|o| o.table.note(hash)) {
                t.registers.resize(HLL_REGISTERS as usize, 0);
                let r = &mut t.registers[(hash >> 52) as usize];
                *r = rank(hash).max(*r);
            }
        }
        StmtKind::TableLen { table, dst } if kind(table) == TableKind::HyperLogLog => {
            let t = a.table(*table)?;
            let registers = match &t.outside {
                Some(o) => (0..HLL_REGISTERS).map(|n| o.table.register(n).unwrap_or(0)).collect(),
                None => t.registers.clone(),
            };
            locals[dst.index()] = Value::Int(estimate(&registers).into());
        }
        StmtKind::TablePut { table, key, value, place }
            if matches!(kind(table), TableKind::Array | TableKind::Bloom | TableKind::CountMin) =>
        {
            let index = if kind(table) == TableKind::Array { here.int(key)? } else { 0 };
            let (key, value) = (here.key(key)?, here.eval(value)?);
            let mut t = a.table(*table)?;
            if let Some(old) = entry(a, *table, &mut t, EntryKey { key: &key, index }, *place) {
                let value = merged(kind(table), Some(old?), value);
                let result = a.put(*table, &mut t, &key, value, *place);
                a.done(*table, t);
                result?;
            }
        }
        StmtKind::TableRemove { table, key, dst } if kind(table) == TableKind::Array => {
            let there = here.int(key)? < m.tables[table.index()].capacity.into();
            let key = here.key(key)?;
            a.table(*table)?.remove(&key, a.now());
            if let Some(dst) = dst {
                locals[dst.index()] = Value::Bool(there);
            }
        }
        StmtKind::TableLen { table, dst } if kind(table) == TableKind::Array => {
            locals[dst.index()] = Value::Int(m.tables[table.index()].capacity.into())
        }
        StmtKind::TableNext { table, cursor, key, value, more, .. } if kind(table) == TableKind::Array => {
            let at = locals[cursor.index()].as_int().unwrap_or(0);
            let def = &m.tables[table.index()];
            let there = at < def.capacity.into();
            locals[more.index()] = Value::Bool(there);
            if there {
                let mut form = Vec::new();
                crate::value::canonical(m, def.key, &Value::Int(at), true, &mut form);
                let found = a.table(*table)?.peek(&form, a.now()).unwrap_or_else(|| Value::zero(m, def.value));
                (locals[cursor.index()], locals[key.index()], locals[value.index()]) =
                    (Value::Int(at + 1), Value::Int(at), found);
            }
        }
        StmtKind::TableNext { table, cursor, more, .. }
            if matches!(kind(table), TableKind::Bloom | TableKind::CountMin | TableKind::HyperLogLog) =>
        {
            (locals[cursor.index()], locals[more.index()]) = (Value::Int(u64::MAX.into()), Value::Bool(false));
        }
        _ => return Ok(false),
    }
    Ok(true)
}
