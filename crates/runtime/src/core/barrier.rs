//! Barriers: a large request does not overtake messages without an answer.
//!
//! A request that is still arriving goes out on a connection of its own (`call_own`). Messages of
//! the same client without an answer may be under way on the shared connections. The end of such a
//! message is known by the next answer on its connection. So the port's probe is sent there first,
//! and the large request waits for its answer.

use super::slab::Id;
use super::types::{flag, Target};
use super::{Core, Raw, BACKEND_OUT_MAX};
use crate::abi::*;

impl Core {
    /// The client of a task has sent a message without an answer.
    pub(super) fn mark_writer(&mut self, task: Id) {
        let client = self.tasks[task].conn;
        if let Some(c) = self.conns.get_mut(client) {
            c.set(flag::WROTE);
        }
    }

    /// Whether a client's messages without an answer may be under way to a backend.
    pub(super) fn behind_unanswered(&self, at: Target, call: Id) -> bool {
        let client = self.tasks.get(self.calls[call].task).and_then(|t| self.conns.get(t.conn));
        client.is_some_and(|c| c.has(flag::WROTE)) && self.unanswered_conn(at).is_some()
    }

    fn unanswered_conn(&self, at: Target) -> Option<Id> {
        let port = &self.apps[at.a].ports[at.p];
        let proto = self.apps[at.a].protos[port.protos[0] as usize];
        if port.probe.is_empty() || proto.id.is_some() {
            return None;
        }
        let unanswered = |id: &&Id| self.conns.get(**id).is_some_and(|s| s.has(flag::UNANSWERED));
        port.backends[at.i].shared.iter().find(unanswered).copied()
    }

    /// A large request waits for the end of the batch, when the barrier can be made.
    pub(super) fn call_behind(&mut self, call: Id, head: Raw, here: Raw) -> Result<(), u32> {
        let task = self.calls[call].task;
        if !self.keep_request(call, head, here) {
            return Err(WL_F_OVERLOAD);
        }
        self.calls[call].stream = self.tasks[task].conn;
        self.tasks[task].req_streamed = true;
        self.held_back.push(call);
        Ok(())
    }

    /// Sends barriers, and the requests behind those that are answered.
    pub(super) fn pass_barriers(&mut self) {
        while let Some(call) = self.held_back.pop() {
            let Some(k) = self.calls.get(call) else { continue };
            let at = Target { a: k.app as usize, p: k.port as usize, i: k.inst as usize };
            if !self.tasks.alive(k.task) {
                self.free_call(call);
            } else if !self.unanswered_conn(at).is_some_and(|conn| self.send_barrier(at, conn, call)) {
                let conn = self.own_connection(at);
                self.send_copy(at, call, conn)
            }
        }
    }

    /// False: there is none to be had.
    fn send_barrier(&mut self, at: Target, conn: Id, behind: Id) -> bool {
        let Some(&handler) = self.apps[at.a].ports[at.p].probe.first() else { return false };
        let (bytes, messages) = self.spoken(conn, handler);
        if messages != Some(1) || self.conns[conn].out.len() > BACKEND_OUT_MAX {
            return false;
        }
        let (call, now) = (self.calls.alloc(), self.now);
        let c = &mut self.calls[call];
        (c.task, c.part, c.app, c.port, c.inst) = (Id::NIL, 0, at.a as u16, at.p as u16, at.i as u32);
        (c.conn, c.next, c.stream, c.retried, c.repeat, c.ends) = (Id::NIL, Id::NIL, Id::NIL, false, false, false);
        (c.private, c.ctx, c.flags, c.issued, c.deadline) = (false, 0, 0, now, now);
        (c.releases, c.number) = (behind, 0);
        self.apps[at.a].ports[at.p].change_load(at.i, 1);
        if self.append_out(conn, Raw::of(&bytes), Raw::of(&[])).is_err() {
            self.calls[call].releases = Id::NIL;
            self.free_call(call);
            return false;
        }
        self.link_call(conn, call);
        true
    }
}
