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
use super::Core;
use crate::abi::wl_conn;

/// A client that is gone: what handlers know of it, and its `session` variables.
#[derive(Debug)]
pub struct GoneClient {
    pub c: wl_conn,
    /// `c` leads to it.
    _session: Option<Box<[u64]>>,
}

impl Core {
    /// Runs the handlers of a member's beginning. `ahead`: a message of it is there already.
    pub(super) fn run_beginning(&mut self, (a, handlers): (usize, &[u32]), client: Id, member: Id, ahead: bool) {
        for h in handlers {
            let task = self.new_task(a, *h, client, Id::NIL);
            self.tasks[task].src = Id::NIL;
            // A session of a pool may have said something before its new client hears of it.
            let held = self.conns.get_mut(member).filter(|c| c.member != 0 && (c.count == 0 || c.beginning));
            if let Some(c) = held {
                c.beginning = true;
                (c.owner, c.count) = (task, c.count + 1);
                let t = &mut self.tasks[task];
                (t.src, t.bytes_behind) = (member, ahead);
            }
            self.run(task);
        }
    }

    /// A handler waits for an answer: its client, if it is one of a conversation, knows of it.
    pub(super) fn waits_for(&mut self, task: Id) {
        let t = &mut self.tasks[task];
        t.next_waiting = Id::NIL;
        if let Some(c) = self.conns.get_mut(t.conn).filter(|c| c.member != 0) {
            t.next_waiting = std::mem::replace(&mut c.waits, task);
        }
    }

    /// It does not wait any more.
    pub(super) fn waits_no_more(&mut self, task: Id) {
        let t = &self.tasks[task];
        let (conn, next) = (t.conn, t.next_waiting);
        let Some(c) = self.conns.get_mut(conn) else { return };
        if c.waits == task {
            c.waits = next;
            return;
        }
        let mut at = c.waits;
        while let Some(t) = self.tasks.get_mut(at) {
            at = t.next_waiting;
            if at == task {
                t.next_waiting = next;
                return;
            }
        }
    }

    /// A client is gone. Handlers that wait, and do not end with it, keep what they know of it.
    pub(super) fn keep_for_waiting(&mut self, id: Id) {
        let c = &mut self.conns[id];
        let mut at = std::mem::replace(&mut c.waits, Id::NIL);
        while let Some(t) = self.tasks.get_mut(at) {
            at = std::mem::replace(&mut t.next_waiting, Id::NIL);
            let c = &self.conns[id];
            let mut session = c.session.clone();
            let mut known = c.c;
            known.session = session.as_mut().map_or(std::ptr::null_mut(), |s| s.as_mut_ptr().cast());
            t.gone = Some(Box::new(GoneClient { c: known, _session: session }));
        }
    }
}
