//! Views of messages, as the harness gives them to parsers. A parser must not depend on its view's
//! address, so the harness moves the view between calls.
//!
//! A view of a list of a million items takes many megabytes, of which a message uses few. Such a
//! view is a memory mapping. Untouched pages cost nothing, and an exchange of page tables moves the
//! view. A guard page lies behind it.

use std::ops::{Deref, DerefMut};
use std::os::raw::c_int;
use std::ptr::null_mut;
use wireloom_runtime::abi::*;

/// Views of more words are mappings.
const LARGE: usize = 8 << 10;

pub(super) enum ComparedView {
    Small(Vec<u64>),
    Large(Mapping),
}

impl ComparedView {
    /// So many words, all 0.
    pub(super) fn new(words: usize) -> ComparedView {
        if words > LARGE {
            ComparedView::Large(Mapping::new(words))
        } else {
            ComparedView::Small(vec![0; words])
        }
    }

    /// The same at another place; the old one is gone.
    pub(super) fn moved(self) -> ComparedView {
        match self {
            ComparedView::Small(v) => ComparedView::Small(v.clone()),
            ComparedView::Large(m) => ComparedView::Large(m.moved()),
        }
    }

    pub(super) fn copied(&self) -> ComparedView {
        let mut copy = ComparedView::new(self.len());
        copy.copy_from_slice(self);
        copy
    }
}

impl Deref for ComparedView {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match self {
            ComparedView::Small(v) => v,
            // SAFETY: mapped, aligned, of that many words, and this view's alone.
            ComparedView::Large(m) => unsafe { std::slice::from_raw_parts(m.start(), m.words) },
        }
    }
}

impl DerefMut for ComparedView {
    fn deref_mut(&mut self) -> &mut [u64] {
        match self {
            ComparedView::Small(v) => v,
            // SAFETY: as above.
            ComparedView::Large(m) => unsafe { std::slice::from_raw_parts_mut(m.start(), m.words) },
        }
    }
}

/// Pages of which the last words are the view, and one more behind them without any rights.
pub(super) struct Mapping {
    /// All addresses that are ours, and their number.
    all: (*mut libc::c_void, usize),
    /// Where those begin that may be used.
    at: *mut libc::c_void,
    words: usize,
}

/// The range of one entry of a directory of page tables: between such addresses whole tables are
/// moved.
const DIRECTORY: usize = 2 << 20;

impl Mapping {
    fn new(words: usize) -> Mapping {
        let new = Mapping::reserved(words);
        // SAFETY: the pages were reserved just now.
        let done = unsafe { libc::mprotect(new.at, new.len(), libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        // A parser that clears the view gets it in few faults. It is a wish that may stay unheard.
        // SAFETY: as above.
        unsafe { libc::madvise(new.at, new.len(), libc::MADV_HUGEPAGE) };
        new
    }

    /// Addresses reserved for this view, without any rights.
    fn reserved(words: usize) -> Mapping {
        let all = (words * 8).next_multiple_of(page()) + page() + DIRECTORY;
        // SAFETY: asks for new memory.
        let start = unsafe {
            libc::mmap(
                null_mut(),
                all,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Mapping {
            all: (start, all),
            at: start.wrapping_byte_add(start.addr().next_multiple_of(DIRECTORY) - start.addr()),
            words,
        }
    }

    /// Bytes that may be used.
    fn len(&self) -> usize {
        (self.words * 8).next_multiple_of(page())
    }

    fn start(&self) -> *mut u64 {
        self.at.wrapping_byte_add(self.len() - self.words * 8).cast()
    }

    fn moved(self) -> Mapping {
        let to = Mapping::reserved(self.words);
        // The old addresses stay ours until they are given back, so that no other mapping gets them
        // in between.
        let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
        // SAFETY: both are mappings of this view alone; the old place is not used again.
        let at = unsafe { libc::mremap(self.at, self.len(), self.len(), how, to.at) };
        assert_eq!(at, to.at, "{}", std::io::Error::last_os_error());
        to
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: all addresses are this one's.
        unsafe { libc::munmap(self.all.0, self.all.1) };
    }
}

/// Bytes of a page.
fn page() -> usize {
    // SAFETY: a plain system call.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// A view with room for any of the program's units.
pub(super) fn view(table: &wl_program, unit: u32, ctx: u64) -> ComparedView {
    // SAFETY: `unit` has `units` entries.
    let size = unsafe { (*table.unit.add(unit as usize)).view_size as usize };
    let words = size.max(std::mem::size_of::<wl_parser>()).div_ceil(8);
    let mut v = ComparedView::new(words);
    // SAFETY: the view is aligned for u64 and large enough for a wl_parser.
    unsafe { (*v.as_mut_ptr().cast::<wl_parser>()).ctx = ctx };
    v
}

pub(super) fn parser(v: &[u64]) -> wl_parser {
    // SAFETY: made by `view`.
    unsafe { v.as_ptr().cast::<wl_parser>().read() }
}

/// Takes up to `have` bytes off the run at hand.
pub(super) fn pass_run(v: &mut [u64], have: usize) -> usize {
    // SAFETY: made by `view`.
    let p = unsafe { &mut *v.as_mut_ptr().cast::<wl_parser>() };
    let n = p.left.min(have as u64);
    p.left -= n;
    n as usize
}

/// One call of `parse` (`tail`: of `tail`). The bytes are given in a buffer of just their size, so
/// that a sanitizer sees a read past them. Answers the code and the bytes used.
///
/// # Safety
/// The table is valid.
pub(super) unsafe fn feed(
    t: &wl_program,
    unit: u32,
    v: &mut [u64],
    bytes: &[u8],
    eof: bool,
    tail: bool,
) -> (c_int, u32) {
    // Of no bytes: the end of some that are there, since generated code may count back from it.
    let (exact, skip): (Box<[u8]>, usize) = if bytes.is_empty() { (vec![0; 8].into(), 8) } else { (bytes.into(), 0) };
    let mut used = 0u32;
    // SAFETY: by contract; the view is one of this unit's.
    unsafe {
        let u = &*t.unit.add(unit as usize);
        let p = v.as_mut_ptr().cast::<wl_parser>();
        let (start, n) = (exact.as_ptr().add(skip), bytes.len() as u32);
        let code = match (tail, u.parse, u.tail) {
            (false, Some(f), _) => f(t.self_, unit, p, start, n, eof as c_int),
            (true, _, Some(f)) => f(t.self_, unit, p, start, n, eof as c_int, &mut used),
            _ => WL_BAD,
        };
        (code, used)
    }
}
