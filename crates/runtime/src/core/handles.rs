//! Messages to clients of other conversations, by handles.
//!
//! In: messages of any handler, and the handles of their receivers. Out: bytes in the receivers'
//! outputs. A handle is a number: the core, the place in its books, and how often that place has
//! been given out. So a handle that is kept longer than its connection names nothing, and never
//! another connection. Those of other cores go through their inboxes.
//!
//! A receiver does not hold up its senders. Beyond `max_queued` bytes of output it gets no further
//! message. Each message that does not arrive is a fault: `lost` if the client is gone, `overload`
//! if its output or an inbox is full. It is `unspoken` if the client speaks another protocol.

use super::conversation::ENDING;
use super::fault::NO_PORT;
use super::inbox::{Delivery, Inboxes, Mail, Record};
use super::slab::Id;
use super::types::{flag, Mode, CLIENT};
use super::{Core, Raw};
use crate::abi::*;
use std::sync::Arc;

/// Bits of a handle's parts, from the highest: core, place, generation. No generation is 0, so no
/// handle is.
const INDEX_BITS: u32 = 24;
const GEN_BITS: u32 = 31;
const CORES: usize = 1 << (64 - INDEX_BITS - GEN_BITS);
/// Most receivers of one record.
const RECEIVERS: usize = 256;

/// The last generation that has a handle. A place that has come so far is not given out again.
const LAST_GEN: u32 = u32::MAX - 2;

fn handle_of(core: usize, id: Id) -> u64 {
    if core >= CORES || id.index >= 1 << INDEX_BITS || id.gen > LAST_GEN {
        return 0;
    }
    (core as u64) << (INDEX_BITS + GEN_BITS) | u64::from(id.index) << GEN_BITS | u64::from(id.gen / 2 + 1)
}

/// The core of a handle, and the entry in its books.
fn entry_of(handle: u64) -> Option<(usize, Id)> {
    let gen = (handle & ((1 << GEN_BITS) - 1)) as u32;
    let index = (handle >> GEN_BITS) as u32 & ((1 << INDEX_BITS) - 1);
    // Generations of entries in use are odd.
    let id = Id { index, gen: gen.checked_sub(1)? * 2 + 1 };
    Some(((handle >> (INDEX_BITS + GEN_BITS)) as usize, id))
}

/// The part of a core that reaches other cores.
#[derive(Default)]
pub(super) struct Reach {
    mail: Option<Mail>,
    /// Connections that are not read until inboxes of other cores have room.
    held: Vec<Id>,
    /// The receivers of a message by their cores; empty between two messages.
    others: Vec<Vec<u64>>,
}

impl Core {
    /// Exchanges messages with other cores from now on.
    pub fn share_inboxes(&mut self, inboxes: &Arc<Inboxes>) {
        self.reach.mail = Some(Mail::new(inboxes.clone(), self.index, self.engine.waker()));
    }

    /// Gives a client of a conversation its handle.
    pub(super) fn give_handle(&mut self, id: Id) {
        self.conns[id].c.handle = handle_of(self.index, id);
    }

    /// Takes an entry of a connection out of use: for good, if another use could not be told from
    /// earlier ones.
    pub(super) fn free_entry(&mut self, id: Id) {
        if id.gen >= LAST_GEN {
            self.conns.retire(id);
        } else {
            self.conns.free(id);
        }
    }

    // Sending.

    /// Sends a message to each client that is named.
    pub(super) fn host_deliver(&mut self, task: Id, handles: &[u64], parts: (Raw, u32), proto: u16, place: u32) {
        let (app, conn, head) = (self.tasks[task].app, self.tasks[task].conn, parts.0);
        let (here, more) = self.tail_here(task, parts.1);
        if more {
            // Its rest could not be sent to several.
            return self.count_fault(app, (WL_F_OVERLOAD, place), NO_PORT, conn);
        }
        // SAFETY: program bytes, valid during the call.
        let (head, rest) = unsafe { (head.slice(), here.slice()) };
        self.send_record(Record { app, proto, place, closes: false, handles, head, rest });
    }

    /// Closes each client that is named.
    pub(super) fn host_dismiss(&mut self, task: Id, handles: &[u64]) {
        let app = self.tasks[task].app;
        let place = crate::stats::NO_PLACE;
        self.send_record(Record { app, proto: 0, place, closes: true, handles, head: &[], rest: &[] });
    }

    /// Receivers of one core share a record.
    fn send_record(&mut self, r: Record) {
        let core = |h: &u64| entry_of(*h).map(|e| e.0);
        let mut others = std::mem::take(&mut self.reach.others);
        for same in r.handles.chunk_by(|a, b| core(a) == core(b)) {
            match core(&same[0]) {
                Some(c) if c == self.index => self.accept_record(&Record { handles: same, ..r }),
                Some(c) if c < self.stats.len() => {
                    if others.len() <= c {
                        others.resize_with(c + 1, Vec::new);
                    }
                    others[c].extend_from_slice(same);
                }
                _ => self.not_delivered(&r, same.len(), WL_F_LOST),
            }
        }
        for (core, handles) in others.iter_mut().enumerate().filter(|(_, h)| !h.is_empty()) {
            for some in handles.chunks(RECEIVERS) {
                self.mail_record(core, &Record { handles: some, ..r });
            }
            handles.clear();
        }
        self.reach.others = others;
    }

    fn mail_record(&mut self, core: usize, r: &Record) {
        let sent = self.reach.mail.as_mut().map_or(Delivery::Gone, |m| m.send(core, r));
        match sent {
            Delivery::Yes => {}
            Delivery::Full => self.not_delivered(r, r.handles.len(), WL_F_OVERLOAD),
            Delivery::Gone => self.not_delivered(r, r.handles.len(), WL_F_LOST),
        }
    }

    /// Connections that are gone need not be closed: that is no fault.
    #[cold]
    fn not_delivered(&mut self, r: &Record, receivers: usize, kind: u32) {
        for _ in 0..receivers {
            if !r.closes || kind == WL_F_OVERLOAD {
                self.count_fault(r.app, (kind, r.place), NO_PORT, Id::NIL);
            }
        }
    }

    // Receiving.

    /// A record whose receivers are clients of this core.
    fn accept_record(&mut self, r: &Record) {
        for handle in r.handles {
            let id = entry_of(*handle).map_or(Id::NIL, |e| e.1);
            let open = |c: &&super::types::Conn| c.app == r.app && c.member == CLIENT && c.mode != Mode::Drain;
            if self.conns.get(id).filter(open).is_none_or(|c| c.has(ENDING | flag::TURNED_AWAY)) {
                self.not_delivered(r, 1, WL_F_LOST);
            } else if r.closes {
                self.end_conversation(id);
            } else if self.conns[id].speaks != r.proto {
                self.not_delivered(r, 1, WL_F_UNSPOKEN);
            } else if !self.put_out(id, r) {
                self.not_delivered(r, 1, WL_F_OVERLOAD);
            }
        }
    }

    /// Appends a message to a client's output; false: that has no room for it.
    fn put_out(&mut self, id: Id, r: &Record) -> bool {
        let c = &self.conns[id];
        let (a, p) = (c.app as usize, c.port as usize);
        let behind = self.conns.alive(c.feeder) || c.after.is_some();
        let waiting = c.after.as_ref().map_or(0, |a| a.len());
        let bytes = r.head.len() + r.rest.len();
        if c.out.len() + waiting + bytes > self.apps[a].ports[p].options.max_queued as usize {
            return false;
        }
        if behind {
            return self.put_behind(id, r);
        }
        let c = &mut self.conns[id];
        if c.out.is_empty() {
            c.last_tx = self.now;
        }
        let fits = if r.rest.is_empty() {
            c.out.append(&mut self.pool, r.head)
        } else {
            c.out.append_all(&mut self.pool, &[r.head, r.rest])
        };
        self.mark_dirty(id);
        if fits {
            self.my_stats().apps[a].ports[p].replies.add(1);
        } else {
            // Half a message may be there.
            self.doom(id, WL_F_OVERLOAD);
        }
        fits
    }

    /// A message streams into the client's output: this one waits until that has passed.
    #[cold]
    fn put_behind(&mut self, id: Id, r: &Record) -> bool {
        let c = &mut self.conns[id];
        if !c.after.get_or_insert_default().append(&mut self.pool, &[r.head, r.rest], None) {
            return false;
        }
        let (a, p) = (c.app as usize, c.port as usize);
        self.my_stats().apps[a].ports[p].replies.add(1);
        true
    }

    // In each batch.

    /// Takes the messages that other cores have sent, and goes on reading where inboxes were full.
    #[inline]
    pub(super) fn take_mail(&mut self) {
        let Some(m) = &self.reach.mail else { return };
        let rung = m.rung();
        if rung != 0 {
            self.receive_mail(rung);
        }
        self.look_for_room();
    }

    fn receive_mail(&mut self, rung: u64) {
        let Some(mail) = self.reach.mail.take() else { return };
        mail.receive(rung, &mut |r| self.accept_record(&r));
        self.reach.mail = Some(mail);
    }

    fn look_for_room(&mut self) {
        let Some(m) = &mut self.reach.mail else { return };
        let told = m.told_of_room();
        if (m.is_crowded() || told) && m.has_room() {
            for id in std::mem::take(&mut self.reach.held) {
                if self.conns.alive(id) {
                    self.unstall(id);
                }
            }
        }
    }

    /// Tells the cores that have got something, at the end of a batch.
    #[inline]
    pub(super) fn announce_mail(&mut self) {
        let Some(m) = &mut self.reach.mail else { return };
        m.announce();
        // A reader that is behind tells of room from now on.
        self.look_for_room();
    }

    /// Whether there are messages of this core that nobody knows of yet.
    pub(super) fn has_unannounced(&self) -> bool {
        self.reach.mail.as_ref().is_some_and(Mail::announces)
    }

    /// Whether this core may wait for events.
    pub(super) fn may_sleep(&self) -> bool {
        self.reach.mail.as_ref().is_none_or(Mail::may_sleep)
    }

    #[inline]
    pub(super) fn mail_woken(&self) {
        if let Some(m) = &self.reach.mail {
            m.woken();
        }
    }

    /// Whether members must wait because another core has fallen behind.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.reach.mail.as_ref().is_some_and(Mail::is_crowded)
    }

    /// A connection that was not read because of that is read again when there is room.
    #[inline]
    pub(super) fn held_by_crowd(&mut self, id: Id) {
        if self.is_crowded() && self.conns[id].member != 0 {
            self.reach.held.push(id);
        }
    }

    pub(super) fn close_mail(&mut self) {
        if let Some(m) = &mut self.reach.mail {
            m.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_names_its_entry() {
        for (core, index, gen) in [(0, 0, 1), (0, 1, 3), (511, (1 << 24) - 1, LAST_GEN), (7, 12345, 0x8000_0001)] {
            let h = handle_of(core, Id { index, gen });
            assert!(h != 0);
            assert_eq!(entry_of(h), Some((core, Id { index, gen })), "{core} {index} {gen}");
        }
        assert_eq!(handle_of(512, Id { index: 0, gen: 1 }), 0);
        assert_eq!(handle_of(0, Id { index: 0, gen: u32::MAX }), 0);
        assert_eq!(entry_of(0), None);
    }
}
