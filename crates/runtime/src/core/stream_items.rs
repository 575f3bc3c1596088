//! Handlers of the items of a stream of units (`on client.rows`).
//!
//! In: the bytes of a message behind its head. The parser tells where an item of the stream begins
//! and ends. Out: each item goes to the handler when it is complete, then on, unless the handler
//! drops it or gives another one in its place. What lies around the items is passed on as it came.
//! An item that lies in one piece is not copied.

use super::body_pieces::UnitTail;
use super::input::{truncated, TailProgress};
use super::slab::Id;
use super::types::flag;
use super::{Core, Raw, HIGH};
use crate::abi::*;
use crate::program::{Unit, Verdict};
use crate::splitter::TailParser;
use crate::stats::NO_PLACE;
use wireloom_ir::Protocol;

/// After so many items the clock is looked at.
const TURN_ITEMS: u32 = 4;

impl Core {
    pub(super) fn is_item(&self, id: Id) -> bool {
        self.conns[id].reading.as_ref().is_some_and(|r| r.how.stream > 0)
    }

    /// Whether the next item of a connection waits for its next turn.
    pub(super) fn turn_is_over(&mut self, id: Id) -> bool {
        self.conns[id].reading.as_mut().is_some_and(|r| std::mem::take(&mut r.turn_over))
    }

    /// Gives the items to their handler, and passes on what it lets pass. None: the message has
    /// ended by that.
    pub(super) fn read_items(&mut self, id: Id, unit: Unit, rest: Raw, eof: bool) -> Option<TailProgress> {
        let (mut off, mut items) = (0, 0);
        // Where the item at hand begins, or goes on.
        let mut from = 0;
        loop {
            let c = self.conns.get_mut(id)?;
            let stream = c.reading.as_ref()?.how.stream;
            let view: *mut wl_parser = c.view.as_mut()?.as_mut_ptr().cast();
            let mut tail = UnitTail { unit, view };
            let before = tail.state().flags;
            // SAFETY: the caller's bytes are in place.
            let (verdict, used) = tail.read(unsafe { &rest.slice()[off..] }, eof);
            let state = tail.state();
            let after = state.flags;
            let ended = matches!(verdict, Verdict::More | Verdict::Head) && eof && used == 0 && after == before;
            let verdict = if ended { truncated(state) } else { verdict };
            let run = Raw { n: used, ..rest.from(off) };
            off += used;
            let dropped = before & WL_M_OMIT != 0;
            let item = !dropped && before & WL_M_ITEM_MASK == stream * WL_M_ITEM;
            if !item {
                from = off;
                if !dropped && used > 0 {
                    self.forward(id, run);
                }
            } else if (before ^ after) & WL_M_BORDER != 0 {
                self.item(id, Raw { n: off - from, ..rest.from(from) })?;
                from = off;
                items += 1;
                let over = items % TURN_ITEMS == 0 && self.slice_over(id, items);
                if off < rest.n && (over || self.is_ahead(id)) {
                    self.conns.get_mut(id)?.reading.as_mut()?.turn_over = over;
                    return Some(TailProgress { verdict: Verdict::More, used: off, omitted: true });
                }
            }
            let goes_on = match verdict {
                Verdict::Whole | Verdict::Bad => false,
                Verdict::More | Verdict::Head => after != before || used > 0 && off < rest.n,
            };
            if !goes_on {
                if item && off > from {
                    self.keep_item(id, Raw { n: off - from, ..rest.from(from) })?;
                }
                return Some(TailProgress { verdict, used: off, omitted: true });
            }
        }
    }

    /// The beginning of an item, until the rest has come.
    fn keep_item(&mut self, id: Id, bytes: Raw) -> Option<()> {
        let reading = self.conns.get_mut(id)?.reading.as_mut()?;
        if (reading.item.len() + bytes.n) as u64 > Protocol::ITEM_MAX {
            self.piece_fault(id, WL_F_TOO_LONG, NO_PLACE);
            return None;
        }
        // SAFETY: the caller's bytes are in place.
        if !reading.item.append(&mut self.pool, unsafe { bytes.slice() }) {
            self.doom(id, WL_F_OVERLOAD);
        }
        Some(())
    }

    /// An item is complete: `end` is all of it, or what follows the part that was kept.
    fn item(&mut self, id: Id, end: Raw) -> Option<()> {
        if self.conns.get(id)?.reading.as_ref()?.item.is_empty() {
            if end.n as u64 > Protocol::ITEM_MAX {
                self.piece_fault(id, WL_F_TOO_LONG, NO_PLACE);
                return None;
            }
            return self.piece(id, end);
        }
        self.keep_item(id, end)?;
        let mut kept = std::mem::take(&mut self.conns.get_mut(id)?.reading.as_mut()?.item);
        let goes_on = self.piece(id, Raw::of(kept.as_slice()));
        kept.release(&mut self.pool);
        goes_on
    }

    /// Whether the handler has sent more than the other members take.
    fn is_ahead(&self, id: Id) -> bool {
        let full = |c: &super::types::Conn| self.conns.get(c.behind).is_some_and(|d| d.out.len() > HIGH);
        self.conns.get(id).is_some_and(full)
    }

    /// Whether the rest of a message waits: for its connection's next turn, or until the messages
    /// that its handler has sent are on their way.
    pub(super) fn tail_waits(&mut self, id: Id) -> bool {
        if self.is_ahead(id) {
            let behind = self.conns[id].behind;
            self.pause_source(id, behind);
            return true;
        }
        let over = self.turn_is_over(id);
        if over && !self.conns[id].has(flag::DOOMED) {
            self.mark_again(id);
        }
        over
    }

    /// Nobody wants the items of a message any more: its parser does not stop at them.
    pub(super) fn read_through(&mut self, id: Id) {
        let c = &mut self.conns[id];
        if let (Some(_), Some(v)) = (&c.reading, &mut c.view) {
            // SAFETY: the view lives in the connection until `end_message`.
            unsafe { (*v.as_mut_ptr().cast::<wl_parser>()).flags &= !WL_M_ITEMS };
        }
    }
}
