//! Faults: counted per kind and place, answered to the client in its protocol, shown to the app's
//! fault handlers.

use super::slab::Id;
use super::types::{flag, Mode, Start, NO_PROTO};
use super::{Core, Raw};
use crate::abi::*;
use crate::signal::HandlerFault;

/// Faults waiting for the app's handlers in one batch; further ones are only counted.
const QUEUE_MAX: usize = 1024;

/// The subject of a fault.
enum Of {
    /// A message that never reached a handler.
    Refused(Start),
    /// The request that a task handles.
    Task(Id),
    /// An answer that had begun; its request is gone.
    Answer,
}

/// Of faults that belong to no port.
pub(super) const NO_PORT: u32 = u32::MAX;

impl Core {
    /// Counts a fault that no line about an answer tells. `id`: the connection that it is about, or
    /// nil.
    pub(super) fn count_fault(&mut self, a: u16, (kind, place): HandlerFault, port: u32, id: Id) {
        self.log_fault(a, (kind, place), port, id);
        self.add_fault(a, kind, place, port);
    }

    pub(super) fn add_fault(&mut self, a: u16, kind: u32, place: u32, port: u32) {
        self.last_fault = (kind, place);
        self.my_stats().apps[a as usize].faults.add(kind, place);
        if !self.apps[a as usize].fault_handlers.is_empty() && self.faults.len() < QUEUE_MAX {
            self.faults.push((a, wl_fault { kind: kind as u16, place, port, ..wl_fault::default() }));
        }
    }

    /// Runs the apps' fault handlers for the faults of this batch. Faults in these handlers are
    /// counted, but no handler runs for them.
    pub(super) fn run_fault_handlers(&mut self) {
        let faults = std::mem::take(&mut self.faults);
        for (a, f) in &faults {
            for h in self.apps[*a as usize].fault_handlers.clone() {
                self.run_event(*a as usize, h, Id::NIL, Some(*f));
            }
        }
        let mut faults = faults;
        faults.clear();
        self.faults = faults;
    }

    /// A handler ends with a fault. A message that its unit does not allow is then the program's
    /// own: the client's was read.
    pub(super) fn handler_fault(&mut self, id: Id, kind: u32, place: u32) {
        let told = match kind {
            WL_F_MALFORMED | WL_F_CONSTRAINT | WL_F_TOO_LONG => WL_F_INTERNAL,
            _ => kind,
        };
        self.end_with_fault(id, kind, place, told);
    }

    /// Ends a task with a fault because the rest of its request is bad or late.
    pub(super) fn task_fault(&mut self, id: Id, kind: u32, place: u32) {
        self.end_with_fault(id, kind, place, kind);
    }

    /// A task ends with a fault: its client gets the protocol's answer to it. If an answer has
    /// begun, the client is cut off.
    fn end_with_fault(&mut self, id: Id, kind: u32, place: u32, told: u32) {
        let t = &self.tasks[id];
        let (a, slot, conn, src, suspended) = (t.app, t.slot, t.conn, t.src, t.suspended);
        let silent = self.slots.get(slot).is_some_and(|s| s.silent);
        if !(silent && kind == WL_F_NO_REPLY) {
            let port = self.conns.get(conn).map_or(0, |c| u32::from(c.port));
            let of_message = !src.is_nil() && self.conns.get(conn).is_some_and(|c| c.member != 0);
            let about = if of_message { src } else { conn };
            match self.slots.get(slot).is_some_and(|s| !s.silent) {
                true => self.add_fault(a, kind, place, port),
                false => self.count_fault(a, (kind, place), port, about),
            }
        }
        self.note_fault(slot, kind);
        if self.conns.get(conn).is_some_and(|c| c.member != 0) {
            self.tell_fault(conn, (told, place), Start::default(), true);
            self.keeps_pace(src, conn);
        }
        if let Some(s) = self.slots.get_mut(slot) {
            if silent {
                s.answered = true;
                self.slot_done(slot);
            } else if !s.answered {
                self.answer_fault(slot, told, place, true, Of::Task(id));
            } else if !s.done {
                self.cut_off(slot, told, place);
            }
        }
        if !self.tasks.alive(id) {
            return;
        }
        if suspended {
            self.cancel_task(id);
        } else {
            self.end_task(id);
        }
    }

    /// Counts a fault and answers a slot with it.
    pub(super) fn slot_fault(&mut self, slot: Id, kind: u32, place: u32, in_step: bool, start: Start) {
        let c = &self.conns[self.slots[slot].conn];
        self.add_fault(c.app, kind, place, u32::from(c.port));
        self.note_fault(slot, kind);
        if self.slots[slot].note.is_none() {
            self.note(slot, None);
        }
        self.answer_fault(slot, kind, place, in_step, Of::Refused(start));
    }

    fn answer_fault(&mut self, slot: Id, kind: u32, place: u32, in_step: bool, of: Of) {
        let conn = self.slots[slot].conn;
        self.slots[slot].answered = true;
        if self.slots[slot].silent {
            self.slot_done(slot);
            return;
        }
        let c = &self.conns[conn];
        let a = c.app as usize;
        // Where no further message is read, or the rest of this one is still to come, the answer
        // may as well say so.
        let drains = self.draining && self.apps[a].protos.get(c.proto as usize).is_some_and(|p| p.tells_drain);
        let in_step = in_step && !drains && !c.has(flag::LAST) && c.mode != Mode::Tail;
        let proto = if c.proto == NO_PROTO {
            u32::from(self.apps[a].ports[c.port as usize].protos[0])
        } else {
            u32::from(c.proto)
        };
        let (start, ctx, req) = match of {
            Of::Refused(start) => (start, 0, None),
            Of::Task(t) => (Start::default(), self.tasks[t].ctx, Some(self.tasks[t].c.req)),
            Of::Answer => (Start::default(), 0, None),
        };
        let side = if in_step { WL_SIDE_IN_STEP as u16 } else { 0 };
        let fault = wl_fault {
            kind: kind as u16,
            side,
            place,
            port: u32::from(c.port),
            start_n: start.n,
            ctx,
            start: start.bytes,
        };
        let table = *self.apps[a].app.program.table();
        let mut flags = 0;
        self.enter(a);
        if let Some(f) = table.fault_reply {
            let req = req.as_ref().filter(|r| !r.view.is_null()).map_or(std::ptr::null(), |r| r as *const wl_msg);
            let wl: *mut wl_core = &mut *self.apps[a].wl;
            // SAFETY: the program's own function; the messages named are in place.
            flags = unsafe { f(table.self_, wl, proto, &fault, req) };
        }
        self.take_outcome(a, slot);
        let built = self.apps[a].built();
        self.complain(slot, kind, place, false);
        if built.n > 0 && flags & WL_R_NOTHING == 0 {
            // SAFETY: the scratch stays until the next entry into the program.
            self.append_reply(slot, Raw::of(unsafe { built.as_slice() }));
        }
        if flags & WL_R_CLOSE != 0 || built.n == 0 && flags & WL_R_NOTHING == 0 {
            self.slots[slot].close = true;
            self.conns[conn].set(flag::LAST | flag::LINGER);
        }
        self.slot_done(slot);
    }

    /// An answer that has begun cannot be completed. If the client has not received any part of it,
    /// it gets a fault. Otherwise the connection is reset, so that a cut answer is not taken for a
    /// whole one.
    pub(super) fn truncated(&mut self, slot: Id, kind: u32) {
        self.note_fault(slot, kind);
        let Some(s) = self.slots.get_mut(slot) else { return };
        if s.started {
            self.cut_off(slot, kind, crate::stats::NO_PLACE);
            return;
        }
        s.stored.clear(&mut self.pool);
        s.src = Id::NIL;
        self.answer_fault(slot, kind, crate::stats::NO_PLACE, true, Of::Answer);
    }

    fn cut_off(&mut self, slot: Id, kind: u32, place: u32) {
        self.complain(slot, kind, place, true);
        self.close_unsent(self.slots[slot].conn);
    }
}
