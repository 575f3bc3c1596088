//! Tables that the hook keeps, for the interpreter.

use crate::shape::Shape;
use crate::Object;
use std::sync::{Arc, Mutex, MutexGuard};
use wireloom_interp::{OutsideTable, Pattern, Ranked};
use wireloom_ir::{Module, TableId};

/// A table of a program in the hook.
struct HookTable {
    object: Arc<Mutex<Object>>,
    table: usize,
    key: Shape,
    value: Shape,
}

impl HookTable {
    fn object(&self) -> MutexGuard<'_, Object> {
        self.object.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl OutsideTable for HookTable {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.object().get(self.table, &self.key.spread(key)).map(|v| self.value.gather(&v))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> bool {
        self.object().put(self.table, &self.key.spread(key), &self.value.spread(value))
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.object().remove(self.table, &self.key.spread(key))
    }

    fn pop(&self) -> Option<Vec<u8>> {
        self.object().pop(self.table)
    }

    fn at(&self, place: u64) -> Option<Vec<u8>> {
        self.object().at(self.table, place)
    }

    fn held(&self, values: u64) {
        self.object().hold(self.table, values)
    }

    fn entries(&self) -> u64 {
        let object = self.object();
        object.sweep(self.table);
        object.entries(self.table)
    }

    fn next(&self, place: u64) -> Option<(u64, Vec<u8>, Vec<u8>)> {
        let (next, key, value) = self.object().next(self.table, place)?;
        Some((next, self.key.gather(&key), self.value.gather(&value)))
    }

    fn note(&self, hash: u64) -> bool {
        self.object().note(self.table, hash)
    }

    fn register(&self, place: u64) -> Option<u8> {
        self.object().register(self.table, place)
    }

    fn stand_for(&self, pattern: Pattern, entry: Option<Ranked>) -> bool {
        self.object().stand_for(self.table, pattern, entry)
    }
}

/// By table of a module: those that programs in the hook keep.
pub fn tables(m: &Module, objects: &[Arc<Mutex<Object>>]) -> Vec<Option<Arc<dyn OutsideTable>>> {
    let of = |n: usize| {
        objects.iter().find_map(|object| {
            let table = object.lock().unwrap_or_else(|e| e.into_inner()).table(TableId(n as u32))?;
            let t = &m.tables[n];
            let (key, value) = (Shape::of(m, t.key), Shape::of(m, t.value));
            Some(Arc::new(HookTable { object: object.clone(), table, key, value }) as Arc<dyn OutsideTable>)
        })
    };
    (0..m.tables.len()).map(of).collect()
}
