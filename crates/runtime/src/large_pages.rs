//! Memory for tables and state: zeroed, in large pages, from a cache line on.

use std::ptr::NonNull;

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

/// Zeroed words in pages that belong to nothing else, until [`give_back`]. None: the system has no
/// such pages.
pub fn own_pages(bytes: usize) -> Option<NonNull<u64>> {
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, of no file.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return None;
    }
    NonNull::new(base.cast())
}

/// Gives pages back to the system.
/// # Safety
/// They are all those of one [`own_pages`], and nobody uses them.
pub unsafe fn give_back(pages: *mut [u64]) {
    // SAFETY: the caller vouches for them.
    unsafe { libc::munmap(pages.cast(), 8 * pages.len()) };
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
