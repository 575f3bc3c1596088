//! Tasks: activations of handlers, from the message to the answer.

use super::slab::Id;
use super::stacks::PAUSED;
use super::types::{Mode, Sink};
use super::Core;
use crate::abi::*;
use crate::stats::NO_PLACE;

/// A handler may be resumed without waiting (all its calls failed at once) this often before it is
/// stopped.
const SPIN_MAX: u32 = 1024;

impl Core {
    pub(super) fn new_task(&mut self, a: usize, handler: u32, conn: Id, slot: Id) -> Id {
        let id = self.tasks.alloc();
        let words = self.apps[a].frame_words;
        let core: *mut wl_core = &mut *self.apps[a].wl;
        let t = &mut self.tasks[id];
        if words > 0 {
            t.frame.clear();
            t.frame.resize(words, 0);
        }
        t.c.core = core;
        t.c.frame = t.frame.as_mut_ptr().cast();
        (t.c.handler, t.c.pc, t.c.fault, t.c.place) = (handler, 0, 0, NO_PLACE);
        (t.c.req, t.c.rep, t.c.kept) = (wl_msg::default(), wl_msg::default(), wl_bytes::default());
        t.me = id;
        t.app = a as u16;
        t.settings = self.settings.turn();
        (t.conn, t.src, t.slot, t.rep_src) = (conn, conn, slot, Id::NIL);
        (t.waiting, t.req_flags, t.req_have) = (0, 0, 0);
        (t.fresh, t.running, t.req_more, t.req_gone, t.rep_more) = (true, false, false, false, false);
        (t.hold_req, t.req_streamed, t.closed, t.suspended) = (false, false, false, false);
        t.bytes_behind = false;
        id
    }

    /// A handler that no request starts: opened, closed, every, start, fault.
    pub(super) fn run_event(&mut self, a: usize, handler: u32, conn: Id, fault: Option<wl_fault>) {
        let task = self.new_task(a, handler, conn, Id::NIL);
        // No message of its connection is at hand.
        self.tasks[task].src = Id::NIL;
        if let Some(f) = fault {
            self.tasks[task].c.fault = f.kind;
            self.tasks[task].c.place = f.place;
        }
        self.run(task);
    }

    /// Runs a handler until it is done, faults, or waits.
    pub(super) fn run(&mut self, id: Id) {
        let result = self.run_once(id);
        self.work_off(id, result);
    }

    /// Acts on the result of a run.
    pub(super) fn work_off(&mut self, id: Id, mut result: i32) {
        for _ in 0..SPIN_MAX {
            match result {
                PAUSED => return self.paused(id),
                WL_T_DONE => return self.finish(id),
                WL_T_SUSPEND if self.tasks[id].waiting > 0 => return self.park(id),
                // All its calls have failed or are answered already.
                WL_T_SUSPEND if !self.tasks[id].fresh => {}
                WL_T_SUSPEND => return self.handler_fault(id, WL_F_NO_REPLY, NO_PLACE),
                _ => {
                    let t = &self.tasks[id].c;
                    let (kind, place) = (u32::from(t.fault), t.place);
                    return self.handler_fault(id, if kind == 0 { WL_F_CONSTRAINT } else { kind }, place);
                }
            }
            result = self.run_once(id);
        }
        self.handler_fault(id, WL_F_OVERLOAD, NO_PLACE);
    }

    pub(super) fn run_once(&mut self, id: Id) -> i32 {
        if self.tasks[id].suspended {
            self.waits_no_more(id);
        }
        let on_stack = self.takes_stack(id);
        let this: *mut Core = self;
        let t = &mut self.tasks[id];
        let gone = t.gone.as_mut().map_or(std::ptr::null_mut(), |g| &mut g.c as *mut wl_conn);
        t.c.conn = self.conns.get_mut(t.conn).map_or(gone, |c| &mut c.c as *mut wl_conn);
        (t.fresh, t.running, t.suspended) = (true, true, false);
        t.c.part = t.parts.as_mut_ptr();
        t.c.parts = t.parts.len() as u32;
        if let Some(first) = t.parts.first() {
            t.c.rep = *first;
        }
        let app = &mut self.apps[t.app as usize];
        app.enter(this);
        let table = app.app.program.table();
        let (run, this) = (table.run, table.self_);
        let (task, a, turn): (*mut wl_task, _, _) = (&mut t.c, t.app as usize, t.settings);
        self.see_as(a, turn);
        // SAFETY: `run` was checked at load. The task, its frame and messages are in place. Host
        // functions reach this core through `rt`, set by `enter` just before. `self` is not used
        // until `run` returns.
        let result = match run {
            Some(run) if on_stack => self.run_on_stack(id, run, this, task),
            run => run.map_or(WL_T_FAULT, |run| unsafe { run(this, task) }),
        };
        self.has_run(id, result)
    }

    /// A run is over, unless it has paused.
    pub(super) fn has_run(&mut self, id: Id, result: i32) -> i32 {
        if result != PAUSED {
            let t = &mut self.tasks[id];
            t.running = false;
            t.rep_src = Id::NIL;
        }
        result
    }

    /// Skips a tail that has no reader.
    pub(super) fn discard_tail(&mut self, id: Id, conn: Id) {
        if let Some(c) = self.conns.get_mut(conn) {
            if c.mode == Mode::Tail && c.owner == id && c.sink == Sink::Undecided {
                c.sink = Sink::Discard;
                if !c.input.is_empty() {
                    self.mark_again(conn);
                }
            }
        }
    }

    /// The handler has ended.
    fn finish(&mut self, id: Id) {
        let slot = self.tasks[id].slot;
        if let Some(s) = self.slots.get_mut(slot) {
            if s.silent || self.tasks[id].closed && !s.answered {
                s.answered = true;
                self.slot_done(slot);
            } else if !s.answered {
                return self.handler_fault(id, WL_F_NO_REPLY, NO_PLACE);
            }
        }
        self.end_task(id);
    }

    /// Releases everything. Answers to calls under way are dropped.
    pub(super) fn end_task(&mut self, id: Id) {
        if !self.tasks[id].handler_stack.is_null() {
            self.leave_stack(id);
        }
        if self.tasks[id].suspended {
            self.waits_no_more(id);
        }
        let t = &mut self.tasks[id];
        t.gone = None;
        let src = t.src;
        if !t.calls.is_empty() {
            self.detach_calls(id);
            if let Some(t) = self.tasks.get_mut(id) {
                t.parts.clear();
                t.have.clear();
                t.calls.clear();
            }
        }
        self.discard_tail(id, src);
        self.release_task(id);
        self.message_handled(src, id);
    }

    fn release_task(&mut self, id: Id) {
        let Some(t) = self.tasks.get_mut(id) else { return };
        let a = t.app as usize;
        if let Some(s) = self.slots.get_mut(t.slot) {
            s.task = Id::NIL;
        }
        if t.stored.is_empty() && t.req.view.is_none() && t.req.bytes.is_unused() {
            return self.tasks.free(id);
        }
        let mut stored = std::mem::take(&mut t.stored);
        let mut req = std::mem::take(&mut t.req);
        for s in stored.iter_mut().chain([&mut req]) {
            s.bytes.release(&mut self.pool);
            self.apps[a].views.give(s.view.take());
        }
        stored.clear();
        self.tasks[id].stored = stored;
        self.tasks.free(id);
    }

    /// The client is gone or was answered with a fault: the program lets go of a suspended task.
    pub(super) fn cancel_task(&mut self, id: Id) {
        let a = self.tasks[id].app as usize;
        let table = self.apps[a].app.program.table();
        if let (Some(cancel), this) = (table.cancel, table.self_) {
            self.enter(a);
            self.see_as(a, self.tasks[id].settings);
            let task: *mut wl_task = &mut self.tasks[id].c;
            // SAFETY: as for `run`.
            unsafe { cancel(this, task) };
        }
        self.end_task(id);
    }
}
