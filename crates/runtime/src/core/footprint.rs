//! Returns memory that only the start needed: the compiler's code and its heap.
//!
//! Between reading a program and serving it, the process has run a parser, a checker and a code
//! generator. Their pages stay resident though nothing uses them again. Unmodified pages of files
//! can be dropped at any time. If they are used again, they come back from the page cache with a
//! minor fault. Mappings with modified (anonymous) pages, such as relocated data, are left alone.

use std::io::{BufRead, BufReader};

/// A mapping of `/proc/self/smaps`, as far as it matters here.
#[derive(Debug, PartialEq)]
struct SmapsMapping {
    start: usize,
    end: usize,
    clean_file: bool,
}

/// Call it before the first core starts.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: a plain call; the allocator is thread-safe.
    unsafe {
        libc::malloc_trim(0);
    }
    // Without /proc there is nothing to gain and nothing lost.
    let Ok(f) = std::fs::File::open("/proc/self/smaps") else { return };
    for m in clean_mappings(BufReader::new(f)) {
        // SAFETY: the mapping is private, not writable, and has no page that differs from its file.
        // Dropped pages are read from the file again on access, with the same content.
        unsafe { libc::madvise(m.start as *mut libc::c_void, m.end - m.start, libc::MADV_DONTNEED) };
    }
}

/// Private read-only mappings of files none of whose pages differs from the file.
fn clean_mappings(text: impl BufRead) -> Vec<SmapsMapping> {
    let mut found: Vec<SmapsMapping> = Vec::new();
    for line in text.lines().map_while(Result::ok) {
        match header(&line) {
            Some(m) => found.push(m),
            None => {
                let modified = ["Anonymous:", "Swap:", "Locked:"]
                    .iter()
                    .any(|k| line.strip_prefix(k).is_some_and(|v| v.trim() != "0 kB"));
                if let (true, Some(m)) = (modified, found.last_mut()) {
                    m.clean_file = false;
                }
            }
        }
    }
    found.retain(|m| m.clean_file);
    found
}

/// `start-end perms offset dev inode path`
fn header(line: &str) -> Option<SmapsMapping> {
    let mut words = line.split_ascii_whitespace();
    let (range, perms) = (words.next()?, words.next()?);
    let (start, end) = range.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    let path = words.nth(3).unwrap_or("");
    let clean_file = perms.starts_with('r')
        && perms.as_bytes().get(1) == Some(&b'-')
        && perms.ends_with('p')
        && path.starts_with('/');
    Some(SmapsMapping { start, end, clean_file })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unmodified_read_only_file_mappings_are_dropped() {
        let text = "1000-2000 r-xp 00000000 fe:00 12 /usr/bin/x\nRss: 4 kB\nAnonymous:             0 kB\n\
                    2000-3000 r--p 00001000 fe:00 12 /usr/bin/x\nAnonymous:             4 kB\n\
                    3000-4000 rw-p 00002000 fe:00 12 /usr/bin/x\nAnonymous:             0 kB\n\
                    4000-5000 r--s 00000000 fe:00 13 /tmp/shared\nAnonymous:             0 kB\n\
                    5000-6000 rw-p 00000000 00:00 0 [heap]\nAnonymous:             0 kB\n\
                    7000-8000 r-xp 00000000 00:00 0 [vdso]\nAnonymous:             0 kB\n";
        assert_eq!(clean_mappings(text.as_bytes()), [SmapsMapping { start: 0x1000, end: 0x2000, clean_file: true }]);
    }

    #[test]
    fn code_and_constants_are_the_same_afterwards() {
        let table: &'static [u8] = b"constants are read from the file again";
        let before = table.to_vec();
        trim();
        assert_eq!(table, before);
        assert_eq!(format!("{:.3}", 2f64.sqrt()), "1.414");
    }
}
