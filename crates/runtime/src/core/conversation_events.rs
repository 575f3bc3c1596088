//! Handlers of the beginnings and ends of a conversation's connections.
//!
//! In: a member that has begun. Out: its handlers, behind which its first message is read. Also in:
//! a client that is gone while handlers wait for answers. Out: the client as it was at its end, for
//! those handlers.
//!
//! A handler of a beginning counts as the handling of a message without bytes. So a check of the
//! client, by a call, comes before all that the client says. With the client it ends, as the
//! handler of a message does. A handler of an end goes on when its client is gone.

use super::slab::Id;
use super::types::{begin, GoneClient};
use super::Core;
use smallvec::SmallVec;
use std::collections::hash_map::Entry;
use std::collections::HashMap;

/// The tasks of a conversation's events that wait for answers, by their client.
pub(super) type EventWaits = HashMap<Id, SmallVec<[Id; 2]>>;

impl Core {
    /// Runs the handlers of a member's beginning. `ahead`: a message of it is there already.
    pub(super) fn run_beginning(&mut self, (a, handlers): (usize, &[u32]), client: Id, member: Id, ahead: bool) {
        for h in handlers {
            let task = self.new_task(a, *h, client, Id::NIL);
            self.tasks[task].src = Id::NIL;
            // A session of a pool may have said something before its new client hears of it.
            let held =
                self.conns.get_mut(member).filter(|c| c.member != 0 && (c.count == 0 || c.begins(begin::HANDLERS)));
            if let Some(c) = held {
                c.begin |= begin::HANDLERS;
                (c.owner, c.count) = (task, c.count + 1);
                let t = &mut self.tasks[task];
                (t.src, t.bytes_behind) = (member, ahead);
            }
            self.run(task);
        }
    }

    /// A handler waits for an answer. Those of a conversation's events are noted by their client.
    pub(super) fn waits_for(&mut self, task: Id) {
        let t = &self.tasks[task];
        let begins = |s: &Self| s.conns.get(t.src).is_some_and(|c| c.begins(begin::HANDLERS));
        let talks = |s: &Self| s.conns.get(t.conn).is_some_and(|c| c.member != 0);
        if t.slot.is_nil() && (t.src.is_nil() || begins(self)) && talks(self) {
            self.event_waits.entry(t.conn).or_default().push(task);
        }
    }

    /// It does not wait any more.
    pub(super) fn waits_no_more(&mut self, task: Id) {
        if self.event_waits.is_empty() {
            return;
        }
        if let Entry::Occupied(mut e) = self.event_waits.entry(self.tasks[task].conn) {
            e.get_mut().retain(|t| *t != task);
            if e.get().is_empty() {
                e.remove();
            }
        }
    }

    /// A client is gone. Handlers that wait, and do not end with it, keep what they know of it.
    pub(super) fn keep_for_waiting(&mut self, id: Id) {
        if self.event_waits.is_empty() {
            return;
        }
        let c = &self.conns[id];
        for task in self.event_waits.remove(&id).unwrap_or_default() {
            let mut session = c.session.clone();
            let mut known = c.c;
            known.session = session.as_mut().map_or(std::ptr::null_mut(), |s| s.as_mut_ptr().cast());
            if let Some(t) = self.tasks.get_mut(task) {
                t.gone = Some(Box::new(GoneClient { c: known, session }));
            }
        }
    }
}
