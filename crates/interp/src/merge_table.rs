//! Merge nodes behind the C ABI (`wl_merge`), so that `run` works without a C compiler.
//!
//! A call parses the next message of every input once. It combines the least ones until an input
//! has no more bytes or the output is full. Between calls the state is plain bytes without owner:
//! the message that is being combined, in wire form, and the last key of each input.

use crate::merge::{combine, order, record, render, unsorted, NoRecord, Record};
use crate::stop::Stop;
use crate::value::Value;
use std::ffi::c_void;
use std::os::raw::c_int;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use wireloom_ir::*;
use wireloom_runtime::abi::*;

/// The merge nodes of a module. Must outlive every runtime that runs them.
pub struct InterpMerges {
    module: Arc<Module>,
    entries: Vec<wl_merge>,
}

/// A merge node is a function without a number, so there is one function per node: this many.
const NODES: usize = 8;

impl InterpMerges {
    /// Merge nodes beyond the eighth have no entry, which the runtime refuses.
    pub fn new(module: Arc<Module>) -> InterpMerges {
        let runs: [MergeFn; NODES] = [run::<0>, run::<1>, run::<2>, run::<3>, run::<4>, run::<5>, run::<6>, run::<7>];
        let entry = |(merge, run): (&Merge, MergeFn)| wl_merge {
            state_size: state_size(&module, merge) as u64,
            inputs: merge.inputs,
            message_max: message_max(&module, merge) as u32,
            run: Some(run),
        };
        let entries = module.merges.iter().zip(runs).map(entry).collect();
        InterpMerges { module, entries }
    }

    pub fn entries(&self) -> &[wl_merge] {
        &self.entries
    }

    /// The `self` of their functions.
    pub fn this(&self) -> *mut c_void {
        Arc::as_ptr(&self.module) as *mut c_void
    }
}

fn message_max(m: &Module, merge: &Merge) -> usize {
    m.unit(merge.unit).max.clamp(64, 1 << 28) as usize
}

/// A slot for a message or a key: length plus 1 (0: none), then the bytes.
fn slot_size(m: &Module, merge: &Merge) -> usize {
    4 + message_max(m, merge)
}

fn state_size(m: &Module, merge: &Merge) -> usize {
    slot_size(m, merge) * (1 + merge.inputs as usize)
}

fn get(slot: &[u8]) -> Option<&[u8]> {
    let n = u32::from_le_bytes(slot[..4].try_into().unwrap_or_default()).checked_sub(1)?;
    slot.get(4..4 + n as usize)
}

fn set(slot: &mut [u8], bytes: Option<&[u8]>) {
    let n = bytes.map_or(0, |b| b.len() as u32 + 1);
    slot[..4].copy_from_slice(&n.to_le_bytes());
    if let Some(b) = bytes {
        slot[4..4 + b.len()].copy_from_slice(b);
    }
}

fn key_bytes(key: &Value) -> Vec<u8> {
    match key {
        Value::Bytes(b) => b.to_vec(),
        Value::Int(i) => i.to_le_bytes().to_vec(),
        _ => Vec::new(),
    }
}

fn key_of(m: &Module, merge: &Merge, bytes: &[u8]) -> Value {
    match m.ty(m.unit(merge.unit).fields[merge.key.index()].ty) {
        Ty::Bytes(_) => Value::bytes(bytes),
        _ => Value::Int(u128::from_le_bytes(bytes.try_into().unwrap_or_default())),
    }
}

/// How a call ends.
enum MergeStop {
    Dry(usize),
    Full,
    Done,
    Bad(usize, FaultKind, PlaceId),
}

struct Call<'a> {
    m: &'a Module,
    merge: &'a Merge,
    windows: &'a mut [wl_window],
    out: &'a mut [u8],
    used: usize,
    messages: u32,
    heads: Vec<Option<Record>>,
    last: Vec<Option<Value>>,
    /// The current key, and its values so far.
    pending: Option<(Value, Vec<Value>)>,
}

impl Call<'_> {
    fn all(&mut self) -> MergeStop {
        for k in 0..self.windows.len() {
            if let Err(end) = self.load(k) {
                return end;
            }
        }
        loop {
            match self.step() {
                Ok(()) => {}
                Err(end) => return end,
            }
        }
    }

    /// Takes the next message of all.
    fn step(&mut self) -> Result<(), MergeStop> {
        let heads = self.heads.iter().enumerate().filter_map(|(k, r)| Some((k, r.as_ref()?)));
        let least = heads.min_by(|a, b| order(self.m, self.merge, &a.1.key, &b.1.key)).map(|(k, _)| k);
        let same = |k: usize| matches!((&self.pending, &self.heads[k]), (Some((key, _)), Some(r)) if *key == r.key);
        if self.pending.is_some() && !least.is_some_and(same) {
            self.emit()?;
        }
        let Some(k) = least else { return Err(MergeStop::Done) };
        let Some(taken) = self.heads[k].take() else { return Ok(()) };
        self.pending = Some(match self.pending.take() {
            None => (taken.key.clone(), taken.values),
            Some((key, values)) => {
                let both = combine(self.m, self.merge, &values, &taken.values).map_err(|stop| bad(k, stop))?;
                (key, both)
            }
        });
        self.windows[k].pos += taken.len as u32;
        self.windows[k].messages += 1;
        self.last[k] = Some(taken.key);
        self.load(k)
    }

    fn emit(&mut self) -> Result<(), MergeStop> {
        if self.out.len() - self.used < message_max(self.m, self.merge) {
            return Err(MergeStop::Full);
        }
        if let Some((key, values)) = self.pending.take() {
            let mut bytes = Vec::new();
            render(self.m, self.merge, &key, &values, &mut bytes);
            self.out[self.used..self.used + bytes.len()].copy_from_slice(&bytes);
            self.used += bytes.len();
            self.messages += 1;
        }
        Ok(())
    }

    /// The next message of an input; none at its end.
    fn load(&mut self, k: usize) -> Result<(), MergeStop> {
        let w = self.windows[k];
        let (pos, eof) = (w.pos as usize, w.eof != 0);
        if w.pos >= w.n {
            return if eof { Ok(()) } else { Err(MergeStop::Dry(k)) };
        }
        // SAFETY: a window names its buffer's first n bytes, which stay while the call lasts.
        let buf = unsafe { std::slice::from_raw_parts(w.buf, w.n as usize) };
        let found = match record(self.m, self.merge, &buf[pos..], eof) {
            Ok(r) => r,
            Err(NoRecord::More(place)) if eof => return Err(MergeStop::Bad(k, FaultKind::TRUNCATED, place)),
            Err(NoRecord::More(_)) => return Err(MergeStop::Dry(k)),
            Err(NoRecord::Stop(stop)) => return Err(bad(k, stop)),
        };
        if self.last[k].as_ref().is_some_and(|last| order(self.m, self.merge, last, &found.key).is_gt()) {
            return Err(bad(k, unsorted(self.m, self.merge)));
        }
        self.heads[k] = Some(found);
        Ok(())
    }
}

fn bad(k: usize, stop: Stop) -> MergeStop {
    match stop {
        Stop::Fault { kind, place } => MergeStop::Bad(k, kind, place),
        Stop::Internal(why) => {
            crate::note_internal(&why);
            MergeStop::Bad(k, crate::INTERNAL, PlaceId(0))
        }
    }
}

/// One call: restores the state, merges, and saves it.
fn call(
    m: &Module,
    merge: &Merge,
    state: &mut [u8],
    windows: &mut [wl_window],
    out: &mut [u8],
) -> (MergeStop, usize, u32) {
    let size = slot_size(m, merge);
    let (first, rest) = state.split_at_mut(size);
    let pending = get(first).and_then(|b| record(m, merge, b, true).ok()).map(|r| (r.key, r.values));
    let last = rest.chunks(size).map(|s| get(s).map(|b| key_of(m, merge, b))).collect();
    let heads = windows.iter().map(|_| None).collect();
    let mut c = Call { m, merge, windows, out, used: 0, messages: 0, heads, last, pending };
    let end = c.all();
    let wire = c.pending.as_ref().map(|(key, values)| {
        let mut bytes = Vec::new();
        render(m, merge, key, values, &mut bytes);
        bytes
    });
    set(first, wire.as_deref());
    for (slot, key) in rest.chunks_mut(size).zip(&c.last) {
        set(slot, key.as_ref().map(key_bytes).as_deref());
    }
    (end, c.used, c.messages)
}

unsafe extern "C" fn run<const N: usize>(
    this: *mut c_void,
    state: *mut c_void,
    windows: *mut wl_window,
    inputs: u32,
    out: *mut u8,
    cap: u32,
    at: *mut wl_merge_at,
) -> c_int {
    // SAFETY: `this` comes from `InterpMerges::this`; the rest is as the ABI promises.
    let (m, windows, out, at) = unsafe {
        let m = &*(this as *const Module);
        (
            m,
            std::slice::from_raw_parts_mut(windows, inputs as usize),
            std::slice::from_raw_parts_mut(out, cap as usize),
            &mut *at,
        )
    };
    let merge = &m.merges[N];
    let inputs = windows.len().min(merge.inputs as usize);
    // SAFETY: as above.
    let state = unsafe { std::slice::from_raw_parts_mut(state.cast::<u8>(), state_size(m, merge)) };
    let ended =
        catch_unwind(AssertUnwindSafe(|| call(m, merge, state, &mut windows[..inputs], out))).unwrap_or_else(|_| {
            crate::note_internal("panic in an interpreted merge");
            (MergeStop::Bad(0, crate::INTERNAL, PlaceId(0)), 0, 0)
        });
    *at = wl_merge_at { used: ended.1 as u32, messages: ended.2, ..wl_merge_at::default() };
    match ended.0 {
        MergeStop::Dry(k) => {
            at.input = k as u32;
            WL_G_DRY
        }
        MergeStop::Full => WL_G_FULL,
        MergeStop::Done => WL_G_DONE,
        MergeStop::Bad(k, kind, place) => {
            (at.input, at.fault, at.place) = (k as u32, u32::from(kind.0), place.0);
            WL_G_BAD
        }
    }
}
