//! Statements on tables whose entries have masks.

use super::match_tables::{and, is_match_table, Masked, MatchTable};
use super::tables::{Pattern, Ranked};
use crate::env::Env;
use crate::stop::{Res, Stop};
use crate::value::{canonical, from_canonical, Value};
use wireloom_ir::*;

/// The table of a statement about one of these. (Entries without a mask are put into other tables:
/// E0701.)
pub fn table_of(m: &Module, s: &StmtKind) -> Option<TableId> {
    s.table().filter(|t| is_match_table(m, *t))
}

/// A wildcard entry's priority; of prefixes the longest counts.
fn rank(env: &Env, t: &Table, mask: &[u8], priority: &Expr) -> Res<u128> {
    Ok(if t.kind == TableKind::Lpm {
        mask.iter().map(|b| u128::from(b.count_ones())).sum()
    } else {
        env.int(priority)?
    })
}

/// The table's entries, taken out of the core's data meanwhile, because expressions read that data.
fn with<T>(env: &Env, id: TableId, f: impl FnOnce(&mut MatchTable) -> Res<T>) -> Res<T> {
    let a = env.activation()?;
    let mut k = a.data.borrow_mut().match_tables.remove(&id.0).unwrap_or_default();
    let made = f(&mut k);
    a.data.borrow_mut().match_tables.insert(id.0, k);
    made
}

pub fn effect(env: &Env, id: TableId, s: &StmtKind, locals: &mut [Value]) -> Res<()> {
    let here = Env { locals, ..*env };
    let set = with(env, id, |k| changed(&here, id, s, k))?;
    for (l, v) in set {
        locals[l.index()] = v;
    }
    Ok(())
}

/// Runs a statement; returns the locals that it sets.
fn changed(here: &Env, id: TableId, s: &StmtKind, k: &mut MatchTable) -> Res<Vec<(LocalId, Value)>> {
    let t = &here.module.tables[id.index()];
    Ok(match s {
        StmtKind::TableGet { key, dst, .. } => {
            vec![(*dst, Value::Option(k.find(&here.key(key)?).cloned().map(Box::new)))]
        }
        StmtKind::TableLen { dst, .. } => vec![(*dst, Value::Int(k.masked.len() as u128))],
        StmtKind::TableInsert { key, mask, priority, value, place, .. } => {
            let (mask, value) = (here.key(mask)?, here.eval(value)?);
            let (key, priority) = (and(&here.key(key)?, &mask), rank(here, t, &mask, priority)?);
            match k.place(&key, &mask, priority) {
                Some(i) => {
                    k.masked[i].value = value;
                    tell(k, here, id, &key, &mask)?;
                }
                None if k.masked.len() as u64 >= t.capacity => {
                    return Err(Stop::Fault { kind: FaultKind::FULL, place: *place })
                }
                None => {
                    k.masked.push(Masked { key: key.clone(), mask: mask.clone(), priority, value });
                    if !tell(k, here, id, &key, &mask)? {
                        k.masked.pop();
                        return Err(Stop::Fault { kind: FaultKind::FULL, place: *place });
                    }
                }
            }
            vec![]
        }
        StmtKind::TableDelete { key, mask, priority, dst, .. } => {
            let mask = here.key(mask)?;
            let (key, priority) = (and(&here.key(key)?, &mask), rank(here, t, &mask, priority)?);
            let at = k.place(&key, &mask, priority);
            if let Some(i) = at {
                k.masked.remove(i);
                tell(k, here, id, &key, &mask)?;
            }
            dst.map(|d| (d, Value::Bool(at.is_some()))).into_iter().collect()
        }
        StmtKind::TableNext { cursor, key, value, more, masked, .. } => {
            let at = here.locals[cursor.index()].as_int().unwrap_or(0);
            let entry = k.masked.get(at as usize);
            let found = entry.map(|e| (from_canonical(here.module, t.key, &mut e.key.as_slice()), e.value.clone()));
            let next = if found.is_some() { at + 1 } else { u64::MAX.into() };
            let mut set = vec![(*cursor, Value::Int(next)), (*more, Value::Bool(found.is_some()))];
            if let (Some((mask, priority)), Some(e)) = (masked, entry) {
                set.extend([
                    (*mask, from_canonical(here.module, t.key, &mut e.mask.as_slice())),
                    (*priority, Value::Int(e.priority)),
                ]);
            }
            if let Some((k, v)) = found {
                set.extend([(*key, k), (*value, v)]);
            }
            set
        }
        _ => vec![],
    })
}

/// Tells the device that keeps the table, if one does, what a key and a mask stand for now.
/// False: it has no room.
fn tell(k: &MatchTable, env: &Env, id: TableId, key: &[u8], mask: &[u8]) -> Res<bool> {
    let table = env.activation()?.table(id)?;
    let Some(outside) = &table.outside else { return Ok(true) };
    let alike = k.masked.iter().filter(|e| e.key == key && e.mask == mask);
    let mut value = Vec::new();
    let best = alike.max_by_key(|e| e.priority).map(|e| {
        canonical(env.module, outside.value, &e.value, true, &mut value);
        e.priority
    });
    let entry = best.map(|priority| Ranked { priority, value: &value });
    Ok(outside.table.stand_for(Pattern { key, mask }, entry))
}
