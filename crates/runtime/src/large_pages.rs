//! Memory for tables and state: zeroed, in large pages, from a cache line on.

/// A program's memory begins at a cache line: its tables' locks have lines of their own.
pub const LINE: usize = 64;

/// A large page.
const HUGE: usize = 2 << 20;

/// Memory of at least this size begins at a large page, because a table uses its first bytes most.
const LARGE: usize = 4 * HUGE;

/// Zeroed memory with room to begin where [`first_line`] says. (An aligned, zeroed allocation would
/// touch every page; this one leaves untouched pages absent.)
pub fn placed(bytes: usize) -> Box<[u64]> {
    words(bytes + if bytes >= LARGE { HUGE } else { LINE })
}

/// The first whole line, or the first large page, of memory from `placed`.
pub fn first_line(memory: &mut [u64]) -> *mut u64 {
    let align = if std::mem::size_of_val(memory) >= LARGE + HUGE { HUGE } else { LINE };
    let skip = memory.as_ptr().align_offset(align).min(memory.len());
    memory[skip..].as_mut_ptr()
}

/// Zeroed words holding at least `bytes` bytes. Untouched pages stay absent. Ends the process, with
/// the reason, where the system does not have them.
pub fn words(bytes: usize) -> Box<[u64]> {
    let n = bytes.div_ceil(8);
    let Ok(layout) = std::alloc::Layout::array::<u64>(n) else { no_memory(bytes) };
    if n == 0 {
        return Box::default();
    }
    // SAFETY: the layout has a size, and the words that it is for are the box's own; zeros are
    // words.
    unsafe {
        let p = std::alloc::alloc_zeroed(layout).cast::<u64>();
        if p.is_null() {
            no_memory(bytes);
        }
        Box::from_raw(std::ptr::slice_from_raw_parts_mut(p, n))
    }
}

/// Zeroed words in pages that belong to nothing else: the system has them again at their end.
pub struct OwnPages {
    base: std::ptr::NonNull<u64>,
    n: usize,
}

// SAFETY: the pages are used by their owner only, as a box's memory is.
unsafe impl Send for OwnPages {}

impl OwnPages {
    /// None: the system has no such pages.
    pub fn new(bytes: usize) -> Option<OwnPages> {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, of no file.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        Some(OwnPages { base: std::ptr::NonNull::new(base.cast())?, n: bytes / 8 })
    }

    pub fn words(&self) -> &[u64] {
        // SAFETY: the mapping has so many words, which begin as zeros.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.n) }
    }

    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and it is borrowed by nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.n) }
    }
}

impl Drop for OwnPages {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nobody uses any more. Its length is that of `new` up
        // to less than a word, so the same number of pages.
        unsafe { libc::munmap(self.base.as_ptr().cast(), 8 * self.n) };
    }
}

fn no_memory(bytes: usize) -> ! {
    let size = bytes >> 20;
    let text = format!("wireloom: the system has no {size} MiB for tables and state; lower the capacity of tables\n");
    crate::log_queue::put(text.as_bytes());
    crate::log_queue::finish();
    std::process::exit(1);
}

/// Asks for pages of 2 MiB. Tables of flows are accessed in random order, and each access to a
/// small page would cost a walk of the page tables. Without large pages the program is only slower.
pub fn huge_pages<T>(memory: &[T]) {
    let bytes = std::mem::size_of_val(memory);
    if bytes >= LARGE {
        let skip = memory.as_ptr().cast::<u8>().align_offset(HUGE).min(bytes);
        // SAFETY: the range lies inside of the slice, and advice changes nothing of its contents.
        unsafe {
            libc::madvise(
                memory.as_ptr().cast::<u8>().add(skip).cast_mut().cast(),
                (bytes - skip) / HUGE * HUGE,
                libc::MADV_HUGEPAGE,
            )
        };
    }
}
