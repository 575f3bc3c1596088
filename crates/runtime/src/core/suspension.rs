//! Suspension: a task waits at its calls, and goes on when the last answer is there.
//!
//! In: a run that ended with `WL_T_SUSPEND`, and the answers of its calls. Out: the next run of the
//! handler. The request and the answers that it needs later are copied, with their views. Locals
//! lie in the task's frame (`wireloom_ir::passes::liveness` decides which).

use super::slab::Id;
use super::types::Stored;
use super::Core;
use crate::abi::*;

impl Core {
    /// The handler waits: its request stays only if a call said `HOLD_REQ`.
    pub(super) fn park(&mut self, id: Id) {
        self.hold_request(id);
        let t = &mut self.tasks[id];
        t.suspended = true;
        let (src, gone, conn) = (t.src, t.req_gone, t.conn);
        self.waits_for(id);
        self.ended_before(conn);
        let t = &self.tasks[id];
        let streams = t.calls.iter().any(|c| self.calls.get(*c).is_some_and(|c| !c.stream.is_nil()));
        if gone && !streams {
            self.discard_tail(id, src);
        }
    }

    /// After a suspension the request is there only if a call said `HOLD_REQ`; it is copied once.
    fn hold_request(&mut self, id: Id) {
        let t = &mut self.tasks[id];
        if t.c.req.view.is_null() || t.req.view.is_some() && t.hold_req {
            return;
        }
        if !t.hold_req {
            t.c.req = wl_msg::default();
            t.req_gone = true;
            if t.req.view.is_some() {
                let (a, mut req) = (t.app as usize, std::mem::take(&mut t.req));
                req.bytes.release(&mut self.pool);
                self.apps[a].views.give(req.view.take());
            }
            return;
        }
        let a = t.app as usize;
        let mut stored = Stored::default();
        let (msg, have) = (t.c.req, t.req_have);
        let kept = self.store(a, &mut stored, msg, have);
        let t = &mut self.tasks[id];
        t.req = stored;
        match kept {
            Some(m) => t.c.req = m,
            None => {
                t.c.req = wl_msg::default();
                t.req_gone = true;
            }
        }
    }

    /// Moves a message that has come from a connection, and its view, to memory of its own.
    pub(super) fn store(&mut self, a: usize, to: &mut Stored, msg: wl_msg, have: u32) -> Option<wl_msg> {
        let unit = *(msg.unit as usize).checked_sub(1).and_then(|i| self.apps[a].app.program.units().get(i))?;
        let body = msg.body;
        let inside =
            (body.p as usize).checked_sub(msg.base as usize).filter(|at| at + body.n as usize <= have as usize);
        match self.take_lent(msg.base, have) {
            Some(bytes) => {
                to.bytes.release(&mut self.pool);
                to.bytes = bytes;
            }
            None => {
                // SAFETY: the message is in place; `have` bytes lie at its base.
                let bytes = unsafe { std::slice::from_raw_parts(msg.base, have as usize) };
                if !to.bytes.append(&mut self.pool, bytes) {
                    return None;
                }
            }
        }
        if !body.p.is_null() && inside.is_none() {
            // Its streamed bytes lie in pieces, and were put together elsewhere.
            // SAFETY: they are in place as the message is.
            if !to.bytes.append(&mut self.pool, unsafe { body.as_slice() }) {
                return None;
            }
        }
        // SAFETY: messages come from connections parsed, by the unit that they name.
        let mut view = unsafe { self.apps[a].views.copy(unit, msg.view) };
        let p = view.as_mut_ptr();
        to.view = Some(view);
        let bytes = to.bytes.as_slice();
        let body = match body.p.is_null() {
            true => body,
            false => {
                let at = inside.unwrap_or(have as usize);
                wl_bytes::of(&bytes[at..at + body.n as usize])
            }
        };
        Some(wl_msg { view: p, base: bytes.as_ptr(), body, ..msg })
    }

    /// A reply of a call is there or has failed. `Some`: the message, in place; stored if it must
    /// outlive the moment.
    pub(super) fn complete_part(&mut self, id: Id, part: u32, status: u32, reply: Option<(wl_msg, u32, bool)>) {
        let Some(t) = self.tasks.get_mut(id) else { return };
        let i = part as usize;
        if i >= t.parts.len() {
            return;
        }
        t.calls[i] = Id::NIL;
        t.parts[i].status = status;
        if let Some((msg, have, hold)) = reply {
            t.have[i] = have;
            t.parts[i] = msg;
            if hold {
                let a = t.app as usize;
                let mut stored = Stored::default();
                let kept = self.store(a, &mut stored, msg, have);
                let t = &mut self.tasks[id];
                t.stored.push(stored);
                t.parts[i] = kept.unwrap_or(wl_msg { status: WL_F_OVERLOAD, ..wl_msg::default() });
            }
        }
        let t = &mut self.tasks[id];
        t.waiting = t.waiting.saturating_sub(1);
        if t.waiting == 0 && !t.running {
            self.run(id);
        }
    }
}
