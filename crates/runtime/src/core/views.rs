//! Views: memory in which a parser keeps its state and the places of a message's fields.
//!
//! A message is parsed in its app's scratch. If it is incomplete, or stays, its view is copied into
//! one of its unit's size. A unit with long lists has a view of many MiB, of which a usual message
//! touches some hundred bytes. So only bytes in use are copied, and spare views are counted by
//! them.

use crate::abi::wl_parser;
use crate::large_pages::{give_back, own_pages, words};
use crate::program::Unit;
use std::ptr::NonNull;

/// Bytes of spare views, and of one of them; larger ones are given back to the system.
const SPARE: usize = 2 << 20;
const SPARE_EACH: usize = 64 << 10;
/// Bytes that a view takes beyond those in use: these may begin and end within pages.
const PAGES: usize = 8 << 10;

/// A view of one unit. Behind it lies the unit's number ([`Unit::index`]): connections are many,
/// and each has room for a view in its memory.
///
/// The heap gives long memory out again that it must clear first, which makes each of its pages
/// present. So a long view has pages of its own, and its end gives them back.
pub struct MessageView {
    base: NonNull<u64>,
    words: u32,
    /// In pages of its own, not in the heap.
    long: bool,
}

// SAFETY: the memory belongs to its view alone, as a box's does.
unsafe impl Send for MessageView {}

impl MessageView {
    fn new(unit: Unit) -> MessageView {
        let bytes = unit.view_size.next_multiple_of(8) + 8;
        let pages = if unit.view_size > SPARE_EACH { own_pages(bytes) } else { None };
        let long = pages.is_some();
        let base = pages.unwrap_or_else(|| NonNull::from(Box::leak(words(bytes))).cast());
        let mut view = MessageView { base, words: (bytes / 8) as u32, long };
        if let Some(number) = view.words_mut().last_mut() {
            *number = unit.index() as u64;
        }
        view
    }

    fn words(&self) -> &[u64] {
        // SAFETY: the memory has so many words, which begin as zeros.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words as usize) }
    }

    fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and nobody else borrows it.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.words as usize) }
    }

    fn unit(&self) -> usize {
        self.words().last().map_or(0, |number| *number as usize)
    }

    pub fn as_ptr(&self) -> *const wl_parser {
        self.words().as_ptr().cast()
    }

    pub fn as_mut_ptr(&mut self) -> *mut wl_parser {
        self.words_mut().as_mut_ptr().cast()
    }

    /// Sets the parser's own state to zero. The parser sets up the rest itself.
    pub fn reset(&mut self) {
        self.words_mut()[..PARSER_WORDS].fill(0);
    }
}

impl Drop for MessageView {
    fn drop(&mut self) {
        let words = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.words as usize);
        if self.long {
            // SAFETY: these pages are this view's, which ends.
            unsafe { give_back(words) };
        } else {
            // SAFETY: a box of so many words was leaked for this view.
            drop(unsafe { Box::from_raw(words) });
        }
    }
}

/// The part of a view that every parser has.
pub const PARSER_WORDS: usize = std::mem::size_of::<wl_parser>().div_ceil(8);

/// Views without a use, for each unit of a program.
pub struct SpareViews {
    /// With the bytes that each one takes.
    of_units: Vec<Vec<(MessageView, usize)>>,
    units: Vec<Unit>,
    taken: usize,
}

impl SpareViews {
    pub fn of(units: &[Unit]) -> SpareViews {
        SpareViews { of_units: units.iter().map(|_| Vec::new()).collect(), units: units.to_vec(), taken: 0 }
    }

    /// The contents are any.
    pub fn take(&mut self, unit: Unit) -> MessageView {
        let spare = self.of_units.get_mut(unit.index()).and_then(Vec::pop);
        match spare {
            Some((view, taken)) => {
                self.taken -= taken;
                view
            }
            None => MessageView::new(unit),
        }
    }

    /// A copy of the bytes in use.
    /// # Safety
    /// `from` is a view of this unit.
    pub unsafe fn copy(&mut self, unit: Unit, from: *const wl_parser) -> MessageView {
        let mut view = self.take(unit);
        // SAFETY: the caller vouches for `from`; the new view has its unit's size.
        unsafe { unit.copy_view(view.as_mut_ptr(), from) };
        view
    }

    pub fn give(&mut self, view: Option<MessageView>) {
        let Some(view) = view else { return };
        let i = view.unit();
        let unit = self.units[i];
        // SAFETY: it is a view of this unit.
        let touched = || unsafe { unit.in_use(view.as_ptr()) };
        let in_use = if unit.view_size <= SPARE_EACH { unit.view_size } else { touched() + PAGES };
        if in_use > SPARE_EACH || self.taken + in_use > SPARE {
            return;
        }
        self.taken += in_use;
        self.of_units[i].push((view, in_use));
    }
}
