//! A program as the runtime calls it: a safe wrapper over the C function table.
//!
//! The table comes from a shared object ([`Program::open`]) or from memory
//! ([`Program::from_table`], the interpreter and tests). In an executable made by `wireloom build`
//! it comes from the executable itself ([`Program::linked`]).

mod load;
pub mod point_hash;
mod quick_start;

use crate::abi::*;
use crate::error::Error;
pub use quick_start::Tiers;
use std::ffi::c_void;
use std::os::raw::c_int;
use std::sync::atomic::AtomicU32;

/// The result of a parser; see `WL_MORE` and its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    More,
    Head,
    Whole,
    Bad,
}

impl Verdict {
    fn of(code: c_int) -> Verdict {
        match code {
            WL_MORE => Verdict::More,
            WL_HEAD => Verdict::Head,
            WL_WHOLE => Verdict::Whole,
            _ => Verdict::Bad,
        }
    }
}

/// A unit's parser: sizes and functions.
#[derive(Clone, Copy)]
pub struct Unit {
    pub view_size: usize,
    pub head_max: usize,
    /// Largest message held whole; 0: it has streams and is never held.
    pub whole_max: usize,
    /// None: the unit is only part of others.
    parse: Option<ParseFn>,
    tail: Option<TailFn>,
    copy: Option<CopyViewFn>,
    this: *mut c_void,
    index: u32,
}

impl Unit {
    /// # Safety
    /// `view` points to `view_size` bytes, aligned to 8; `buf` is valid for `n` bytes.
    #[inline]
    pub unsafe fn parse(&self, view: *mut wl_parser, buf: *const u8, n: u32, eof: bool) -> Verdict {
        // SAFETY: the caller vouches for the pointers, the program for the function.
        self.parse.map_or(Verdict::Bad, |parse| {
            Verdict::of(unsafe { parse(self.this, self.index, view, buf, n, eof as c_int) })
        })
    }

    /// Parses tail bytes; answers how many belong to the message.
    /// # Safety
    /// As for [`Unit::parse`].
    #[inline]
    pub unsafe fn tail(&self, view: *mut wl_parser, buf: *const u8, n: u32, eof: bool) -> (Verdict, u32) {
        let Some(tail) = self.tail else { return (Verdict::Whole, 0) };
        let mut used = 0;
        // SAFETY: as above.
        let code = unsafe { tail(self.this, self.index, view, buf, n, eof as c_int, &mut used) };
        (Verdict::of(code), used.min(n))
    }

    /// Its place in [`Program::units`].
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// Copies a view, of a message that may be incomplete.
    /// # Safety
    /// Both point to `view_size` bytes, aligned to 8, and do not overlap; `view` was parsed.
    pub unsafe fn copy_view(&self, to: *mut wl_parser, view: *const wl_parser) {
        // SAFETY: the caller vouches for the pointers, the program for the function.
        unsafe {
            match self.copy {
                Some(copy) => {
                    copy(to, view);
                }
                None => std::ptr::copy_nonoverlapping(view.cast::<u8>(), to.cast::<u8>(), self.view_size),
            }
        }
    }

    /// Bytes of a view that its message has touched.
    /// # Safety
    /// `view` points to `view_size` bytes that were parsed, or copied from such.
    pub unsafe fn in_use(&self, view: *const wl_parser) -> usize {
        // SAFETY: the caller vouches for the view, the program for the function.
        self.copy.map_or(self.view_size, |copy| unsafe { copy(std::ptr::null_mut(), view) } as usize)
    }
}

/// A merge node's function.
#[derive(Clone, Copy)]
pub struct Merge {
    pub state_size: usize,
    pub inputs: usize,
    pub message_max: usize,
    run: MergeFn,
    this: *mut c_void,
}

// SAFETY: as for `Program`: a function and the program's own pointer, used with one state per task.
unsafe impl Send for Merge {}
// SAFETY: as above.
unsafe impl Sync for Merge {}

impl Merge {
    /// Merges until an input runs dry or the output is full; answers WL_G_*.
    /// # Safety
    /// `state` has `state_size` bytes, aligned to 8, zeroed before the first call; each window
    /// names valid bytes.
    pub unsafe fn run(
        &self,
        state: *mut c_void,
        windows: &mut [wl_window],
        out: &mut [u8],
        at: &mut wl_merge_at,
    ) -> i32 {
        let cap = out.len().min(u32::MAX as usize) as u32;
        // SAFETY: the caller vouches for the state and the windows, the program for the function.
        unsafe { (self.run)(self.this, state, windows.as_mut_ptr(), windows.len() as u32, out.as_mut_ptr(), cap, at) }
    }
}

/// The functions of a program with frame ports.
#[derive(Clone, Copy)]
pub struct Packets {
    pub batch: BatchFn,
    pub steer: Option<SteerFn>,
    pub this: *mut c_void,
    /// The program's own table.
    table: *mut wl_packets,
}

impl Packets {
    /// The steering hashes of frames that came in on a port. False: the program has none.
    #[inline]
    pub fn hashes(&self, port: u32, frames: &[wl_frame], hashes: &mut [u32]) -> bool {
        let Some(steer) = self.steer else { return false };
        let n = frames.len().min(hashes.len()) as u32;
        // SAFETY: the program's own function, on valid frames and room for as many hashes.
        unsafe { steer(self.this, port, frames.as_ptr(), n, hashes.as_mut_ptr()) };
        true
    }

    /// The steering hash of a frame that is in no buffer.
    pub fn hash(&self, port: u32, frame: &[u8]) -> Option<u32> {
        let (p, n) = (frame.as_ptr().cast_mut(), frame.len() as u32);
        let frame = wl_frame { p, n, wire: n, time: 0, out: WL_GONE, port: 0, instance: 0, head: 0, tail: 0 };
        let mut hash = [0];
        self.hashes(port, &[frame], &mut hash).then_some(hash[0])
    }

    /// Exchanges the functions that the program calls: for harnesses that run programs without
    /// [`crate::serve`].
    /// # Safety
    /// Nothing runs the program now; the functions fit whoever runs it from now on.
    pub unsafe fn set_host(&self, transmit: TransmitFn, queue: QueueFn, serve: ServeFn) {
        // SAFETY: valid for the process by the contract of `with_packets`, not used elsewhere now.
        unsafe {
            ((*self.table).transmit, (*self.table).queue, (*self.table).serve) =
                (Some(transmit), Some(queue), Some(serve))
        }
    }
}

// SAFETY: as for `Program`: functions and the program's own pointers.
unsafe impl Send for Packets {}
// SAFETY: as above.
unsafe impl Sync for Packets {}

/// A loaded program. Cheap to copy; lives as long as the process. Shared objects are not closed,
/// because their code may be on the stack of another core.
#[derive(Clone)]
pub struct Program {
    table: *const wl_program,
    units: Vec<Unit>,
    merges: Vec<Merge>,
    packets: Option<Packets>,
    mark: Option<&'static AtomicU32>,
    outside: Option<std::sync::Arc<dyn Outside>>,
}

/// The part of the program that another device runs.
pub trait Outside: Send + Sync {
    /// Its count of a counter.
    fn counter(&self, counter: usize) -> u64;

    /// Frames that it has received, by what became of them.
    fn fates(&self) -> Vec<(&'static str, u64)>;

    /// Lines of the log that it could not pass on.
    fn lines_lost(&self) -> u64 {
        0
    }

    /// Kind, place and number of its faults. Without a place: [`NO_PLACE`](crate::stats::NO_PLACE).
    fn faults(&self) -> Vec<(u32, u32, u64)>;

    /// The part that it shares with the process of a NIC.
    fn joint(&self) -> Option<std::sync::Arc<crate::packet::nic::Joint>> {
        None
    }

    /// The statistics of a table that it keeps: entries, hits, misses, inserts, evictions, expired,
    /// rejected, bytes.
    fn table_stats(&self, table: usize) -> Option<[u64; 8]>;
}

/// Two other devices.
struct Both(std::sync::Arc<dyn Outside>, std::sync::Arc<dyn Outside>);

impl Outside for Both {
    fn counter(&self, counter: usize) -> u64 {
        self.0.counter(counter).wrapping_add(self.1.counter(counter))
    }

    fn fates(&self) -> Vec<(&'static str, u64)> {
        [self.0.fates(), self.1.fates()].concat()
    }

    fn faults(&self) -> Vec<(u32, u32, u64)> {
        [self.0.faults(), self.1.faults()].concat()
    }

    fn joint(&self) -> Option<std::sync::Arc<crate::packet::nic::Joint>> {
        self.0.joint().or_else(|| self.1.joint())
    }

    fn table_stats(&self, table: usize) -> Option<[u64; 8]> {
        self.0.table_stats(table).or_else(|| self.1.table_stats(table))
    }
}

// SAFETY: the table is immutable. By the ABI its functions can be called from several cores at once
// on different tasks.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

impl Program {
    /// Wraps a function table.
    /// # Safety
    /// `table` and all it points to must be valid for the rest of the process and obey
    /// `wireloom.h`.
    pub unsafe fn from_table(table: *const wl_program) -> Result<Program, Error> {
        if table.is_null() {
            return Err(Error::Program("the program has no function table".into()));
        }
        // SAFETY: valid by contract.
        let t = unsafe { &*table };
        if t.abi != WL_ABI {
            return Err(Error::Program(format!(
                "the program was built for ABI version {}, this runtime speaks {WL_ABI}; build it again",
                t.abi
            )));
        }
        if t.run.is_none() {
            return Err(Error::Program("the program has no run function".into()));
        }
        let mut units = Vec::with_capacity(t.units as usize);
        for i in 0..t.units {
            // SAFETY: `unit` holds `units` entries by contract.
            let u = unsafe { *t.unit.add(i as usize) };
            let view_size = (u.view_size as usize).max(std::mem::size_of::<wl_parser>());
            units.push(Unit {
                view_size,
                head_max: u.head_max as usize,
                whole_max: u.whole_max as usize,
                parse: u.parse,
                tail: u.tail,
                copy: u.copy,
                this: t.self_,
                index: i,
            });
        }
        Ok(Program { table, units, merges: Vec::new(), packets: None, mark: None, outside: None })
    }

    /// Adds what another device counts to the program's counters.
    pub fn with_outside(self, outside: std::sync::Arc<dyn Outside>) -> Program {
        let outside = match self.outside {
            Some(first) => std::sync::Arc::new(Both(first, outside)),
            None => outside,
        };
        Program { outside: Some(outside), ..self }
    }

    pub fn outside(&self) -> Option<&dyn Outside> {
        self.outside.as_deref()
    }

    /// Adds merge nodes, whose functions take `this` as their `self`.
    /// # Safety
    /// The functions obey `wireloom.h`; they and `this` stay valid for the rest of the process.
    pub unsafe fn with_merges(mut self, this: *mut c_void, merges: &[wl_merge]) -> Program {
        let merge = |m: &wl_merge| Merge {
            state_size: m.state_size as usize,
            inputs: m.inputs as usize,
            message_max: m.message_max as usize,
            run: m.run.unwrap_or(no_merge),
            this,
        };
        self.merges = merges.iter().map(merge).collect();
        self
    }

    /// The element where the program runs now, if it was compiled with marks.
    pub fn mark(&self) -> Option<&'static AtomicU32> {
        self.mark
    }

    /// The functions that run frames, if the program has frame ports.
    pub fn packets(&self) -> Option<Packets> {
        self.packets
    }

    pub fn table(&self) -> &wl_program {
        // SAFETY: valid for the process by the contract of `from_table`.
        unsafe { &*self.table }
    }

    pub fn merges(&self) -> &[Merge] {
        &self.merges
    }

    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// The largest view of all units, in 8-byte words.
    pub fn view_words(&self) -> usize {
        self.units.iter().map(|u| u.view_size.div_ceil(8)).max().unwrap_or(8)
    }
}

/// Stands for a merge function that a program does not have.
unsafe extern "C" fn no_merge(
    _: *mut c_void,
    _: *mut c_void,
    _: *mut wl_window,
    _: u32,
    _: *mut u8,
    _: u32,
    _: *mut wl_merge_at,
) -> c_int {
    WL_G_BAD
}
