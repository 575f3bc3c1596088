//! A program that improves while it runs: quickly compiled code serves first, optimised code of the
//! same source takes its place.
//!
//! Both are compiled from one C text, so they agree on everything in memory: states, sessions,
//! views, frames of tasks, resume points. [`Tiers::program`] is a table whose functions go through
//! one pointer, and [`Tiers::exchange`] sets it. A call under way ends in the code in which it
//! began. The next one begins in the new code. Shared objects are never unloaded, so constants of
//! the first code stay valid.

use super::{no_merge, Merge, Packets, Program, Unit};
use crate::abi::*;
use crate::error::Error;
use std::ffi::c_void;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A program and the way to exchange its code. Both live as long as the process.
pub struct Tiers {
    now: &'static Now,
    program: Program,
}

/// The `self` of the table's functions.
struct Now {
    code: AtomicPtr<Program>,
}

/// `self` of a merge's function, which is not told which merge it is of.
struct OneMerge {
    now: &'static Now,
    index: usize,
}

impl Tiers {
    /// Wraps quickly made code.
    pub fn new(quick: Program) -> Tiers {
        let quick: &'static Program = Box::leak(Box::new(quick));
        let now: &'static Now = Box::leak(Box::new(Now { code: AtomicPtr::new(std::ptr::from_ref(quick).cast_mut()) }));
        let this = std::ptr::from_ref(now).cast_mut().cast::<c_void>();
        let table = Box::leak(Box::new(*quick.table()));
        table.self_ = this;
        table.init_shared = table.init_shared.map(|_| init_shared as _);
        table.init_core = table.init_core.map(|_| init_core as _);
        table.run = table.run.map(|_| run as _);
        table.fault_reply = table.fault_reply.map(|_| fault_reply as _);
        table.interim = table.interim.map(|_| interim as _);
        table.note = table.note.map(|_| note as _);
        table.answer = table.answer.map(|_| answer as _);
        table.point = table.point.map(|_| point as _);
        table.cancel = table.cancel.map(|_| cancel as _);
        let units = quick
            .units
            .iter()
            .map(|u| Unit { parse: u.parse.map(|_| parse as _), tail: u.tail.map(|_| tail as _), this, ..*u })
            .collect();
        let merge = |(index, m): (usize, &Merge)| Merge {
            run: merge,
            this: std::ptr::from_ref(Box::leak(Box::new(OneMerge { now, index }))).cast_mut().cast(),
            ..*m
        };
        let merges = quick.merges.iter().enumerate().map(merge).collect();
        let packets = quick.packets.map(|p| Packets { batch, steer: p.steer.map(|_| steer as _), this, ..p });
        Tiers { now, program: Program { table, units, merges, packets, mark: None, outside: None } }
    }

    /// The program to serve: the best code so far.
    pub fn program(&self) -> Program {
        self.program.clone()
    }

    /// Replaces the running code by optimised code of the same source. An error: the source
    /// differs.
    pub fn exchange(&self, better: Program) -> Result<(), Error> {
        if !alike(&self.program, &better) {
            return Err(Error::Program("optimised code differs from the code in whose place it is to come".into()));
        }
        let better: &'static Program = Box::leak(Box::new(better));
        self.now.code.store(std::ptr::from_ref(better).cast_mut(), Ordering::Release);
        Ok(())
    }
}

/// Whether two programs agree on all shared sizes, and have the same functions.
fn alike(a: &Program, b: &Program) -> bool {
    let sizes = |p: &Program| {
        let t = p.table();
        (t.abi, t.handlers, t.frame_size, t.state_size, t.shared_size, t.session_size, t.tmp_size)
    };
    let functions = |p: &Program| {
        let t = p.table();
        let packets = p.packets.map(|p| p.steer.is_some());
        [
            Some(t.init_shared.is_some()),
            Some(t.init_core.is_some()),
            Some(t.fault_reply.is_some()),
            Some(t.interim.is_some()),
            Some(t.cancel.is_some()),
            Some(t.note.is_some()),
            Some(t.answer.is_some()),
            Some(t.point.is_some()),
            packets,
        ]
    };
    let units = |p: &Program| {
        p.units
            .iter()
            .map(|u| (u.view_size, u.head_max, u.whole_max, u.parse.is_some(), u.tail.is_some()))
            .collect::<Vec<_>>()
    };
    let merges = |p: &Program| p.merges.iter().map(|m| (m.state_size, m.inputs, m.message_max)).collect::<Vec<_>>();
    sizes(a) == sizes(b) && functions(a) == functions(b) && units(a) == units(b) && merges(a) == merges(b)
}

/// The code of now.
/// # Safety
/// `this` is the `self` of a table that [`Tiers::new`] made.
#[inline]
unsafe fn code(this: *mut c_void) -> &'static Program {
    // SAFETY: a leaked `Now`, by contract. The program behind its pointer is leaked, too, and was
    // whole when it was stored.
    unsafe { &*(*this.cast::<Now>()).code.load(Ordering::Acquire) }
}

// The functions below are called as those of `wireloom.h`, and pass their arguments on. Arguments
// that are valid for one code are valid for the other. Where one code has a function the other has
// it, too (`alike`).

unsafe extern "C" fn init_shared(this: *mut c_void, shared: *mut c_void, params: *const wl_param) {
    // SAFETY: as said above.
    unsafe {
        let t = code(this).table();
        if let Some(f) = t.init_shared {
            f(t.self_, shared, params)
        }
    }
}

unsafe extern "C" fn init_core(this: *mut c_void, core: *mut wl_core) {
    // SAFETY: as said above.
    unsafe {
        let t = code(this).table();
        if let Some(f) = t.init_core {
            f(t.self_, core)
        }
    }
}

unsafe extern "C" fn point(this: *mut c_void, core: *mut wl_core, port: u32, name: wl_bytes) -> u32 {
    // SAFETY: as said above.
    unsafe {
        let t = code(this).table();
        t.point.map_or(0, |f| f(t.self_, core, port, name))
    }
}

unsafe extern "C" fn run(this: *mut c_void, task: *mut wl_task) -> c_int {
    // SAFETY: as said above.
    unsafe {
        let t = code(this).table();
        t.run.map_or(WL_T_FAULT, |f| f(t.self_, task))
    }
}

unsafe extern "C" fn fault_reply(
    this: *mut c_void,
    core: *mut wl_core,
    proto: u32,
    fault: *const wl_fault,
    req: *const wl_msg,
) -> u32 {
    // SAFETY: as said above.
    unsafe {
        let t = code(this).table();
        t.fault_reply.map_or(0, |f| f(t.self_, core, proto, fault, req))
    }
}

unsafe extern "C" fn interim(this: *mut c_void, core: *mut wl_core, proto: u32, rep: *const wl_msg) -> u32 {
    // SAFETY: as said above.
    unsafe {
        let t = code(this).table();
        t.interim.map_or(0, |f| f(t.self_, core, proto, rep))
    }
}

unsafe extern "C" fn note(this: *mut c_void, core: *mut wl_core, proto: u32, request: *const wl_msg) {
    // SAFETY: as said above.
    unsafe {
        let t = code(this).table();
        if let Some(f) = t.note {
            f(t.self_, core, proto, request)
        }
    }
}

unsafe extern "C" fn answer(this: *mut c_void, core: *mut wl_core, proto: u32, answer: *const wl_msg) {
    // SAFETY: as said above.
    unsafe {
        let t = code(this).table();
        if let Some(f) = t.answer {
            f(t.self_, core, proto, answer)
        }
    }
}

unsafe extern "C" fn cancel(this: *mut c_void, task: *mut wl_task) {
    // SAFETY: as said above.
    unsafe {
        let t = code(this).table();
        if let Some(f) = t.cancel {
            f(t.self_, task)
        }
    }
}

unsafe extern "C" fn parse(
    this: *mut c_void,
    unit: u32,
    view: *mut wl_parser,
    buf: *const u8,
    n: u32,
    eof: c_int,
) -> c_int {
    // SAFETY: as said above; both codes have the same units.
    unsafe {
        let u = code(this).units.get_unchecked(unit as usize);
        u.parse.map_or(WL_BAD, |f| f(u.this, unit, view, buf, n, eof))
    }
}

unsafe extern "C" fn tail(
    this: *mut c_void,
    unit: u32,
    view: *mut wl_parser,
    buf: *const u8,
    n: u32,
    eof: c_int,
    used: *mut u32,
) -> c_int {
    // SAFETY: as for `parse`.
    unsafe {
        let u = code(this).units.get_unchecked(unit as usize);
        u.tail.map_or(WL_WHOLE, |f| f(u.this, unit, view, buf, n, eof, used))
    }
}

unsafe extern "C" fn batch(this: *mut c_void, core: *mut wl_core, handler: u32, frames: *mut wl_frame, n: u32) {
    // SAFETY: as said above.
    unsafe {
        if let Some(p) = code(this).packets {
            (p.batch)(p.this, core, handler, frames, n)
        }
    }
}

unsafe extern "C" fn steer(this: *mut c_void, port: u32, frames: *const wl_frame, n: u32, hashes: *mut u32) {
    // SAFETY: as said above.
    unsafe {
        if let Some((f, this)) = code(this).packets.and_then(|k| Some((k.steer?, k.this))) {
            f(this, port, frames, n, hashes)
        }
    }
}

unsafe extern "C" fn merge(
    this: *mut c_void,
    state: *mut c_void,
    windows: *mut wl_window,
    inputs: u32,
    out: *mut u8,
    cap: u32,
    at: *mut wl_merge_at,
) -> c_int {
    // SAFETY: `this` is a leaked `OneMerge` of `Tiers::new`; the rest as said above; both codes
    // have the same merges.
    unsafe {
        let one = &*this.cast::<OneMerge>();
        let Some(m) = code(std::ptr::from_ref(one.now).cast_mut().cast()).merges.get(one.index) else {
            return no_merge(this, state, windows, inputs, out, cap, at);
        };
        (m.run)(m.this, state, windows, inputs, out, cap, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{test_program, App, Sim};

    /// The line program, with a table of its own that may be changed first.
    fn code(change: impl FnOnce(&mut wl_program)) -> Program {
        let spec = test_program::spec(false, &[]);
        let table = Box::leak(Box::new(*spec.program.table()));
        change(table);
        // SAFETY: leaked, and a copy of one that is valid.
        unsafe { Program::from_table(table) }.unwrap()
    }

    /// Counts the calls that reach the second code.
    static LATER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

    unsafe extern "C" fn counted(this: *mut c_void, task: *mut wl_task) -> c_int {
        LATER.fetch_add(1, Ordering::Relaxed);
        // SAFETY: called as the line program's own function, whose place it takes.
        test_program::spec(false, &[]).program.table().run.map_or(WL_T_FAULT, |f| unsafe { f(this, task) })
    }

    #[test]
    fn a_task_that_waits_goes_on_in_the_new_code() {
        let tiers = Tiers::new(code(|_| {}));
        let spec = test_program::spec(false, &[]);
        let mut s = Sim::new(vec![App::new(tiers.program(), spec.desc, &spec.sets).unwrap()]).unwrap();
        let c = s.client("client").unwrap();
        c.send(b"g0 a\n");
        s.settle();
        let b = s.backend("backends", 0).expect("it is asked");
        assert_eq!(LATER.load(Ordering::Relaxed), 0);
        tiers.exchange(code(|t| t.run = Some(counted))).unwrap();
        b.send(b"first\n");
        s.settle();
        assert!(String::from_utf8(c.receive()).unwrap().contains("first"));
        c.send(b"g0 b\n");
        s.settle();
        b.send(b"second\n");
        s.settle();
        assert!(String::from_utf8(c.receive()).unwrap().contains("second"));
        assert!(LATER.load(Ordering::Relaxed) >= 2, "{LATER:?}");
    }

    #[test]
    fn code_of_another_source_is_refused() {
        let tiers = Tiers::new(code(|_| {}));
        let others: [fn(&mut wl_program); 5] = [
            |t| t.frame_size += 8,
            |t| t.state_size += 8,
            |t| t.session_size += 8,
            |t| t.interim = None,
            |t| t.units = 1,
        ];
        for other in others {
            assert!(tiers.exchange(code(other)).is_err());
        }
        assert!(tiers.exchange(code(|_| {})).is_ok());
    }
}
