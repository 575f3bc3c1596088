//! Handlers that pause run on a stack of their own.
//!
//! Some handlers have a long loop in which no other handler can observe a pause
//! (`wireloom_ir::passes::pauses`). Such a handler runs on a *handler stack*: a stack, scratch, and
//! room for the messages that it builds, used by it alone. The loop reads the clock now and then
//! (`wl_host.pause`). When the slice is used up, the core leaves the stack. It enters it again when
//! the connection has its turn. The handler's data stays in place. Its request gets memory of its
//! own before it begins, and answers are used only if they are kept whole. Tasks and connections
//! never move. If its client leaves, the stack is abandoned.

use super::handler_stack::{HandlerStack, FIRST_LOOK, KEPT_SCRATCH};
use super::slab::Id;
use super::types::{flag, Stored};
use super::{Core, Raw};
use crate::abi::*;
use crate::buffer::ChunkQueue;
use corosensei::{Coroutine, CoroutineResult};
use std::os::raw::{c_int, c_void};

/// `Core::run_once`: the handler has paused. Programs never answer this.
pub(super) const PAUSED: c_int = 3;
/// The most handlers of a core that are paused at a time; further ones run on. Pages of a stack
/// take memory when they are used.
const MOST: usize = wireloom_ir::desc::PAUSED as usize;
/// The most of them where each may need large scratch; a further handler runs on to its end.
const MOST_LARGE: usize = wireloom_ir::desc::PAUSED_LARGE as usize;
/// A loop looks at the clock about this often; at first after so many rounds.
const LOOK_NS: u64 = 4_000;
const ROUNDS_MAX: u32 = 1 << 20;
/// A large message is put into chunks so many bytes at a time.
const PIECE: usize = 64 << 10;

type StackEntry = unsafe extern "C" fn(*mut c_void, *mut wl_task) -> c_int;

/// `wl_host.pause` where handlers do not pause.
///
/// # Safety
/// `core` is the program's.
pub unsafe extern "C" fn run_on(core: *mut wl_core) {
    // SAFETY: by contract.
    unsafe { (*core).fuel = 0 }
}

/// `wl_host.late`: a handler on a stack of its own pauses, and so has no limit.
///
/// # Safety
/// Called by a handler; `begun` is its own.
pub(super) unsafe extern "C" fn late(core: *mut wl_core, begun: *mut u64) -> c_int {
    // SAFETY: as in `pause`.
    let pauses = unsafe { !(*(*core).rt.cast::<Core>()).stacks.current.is_null() };
    // SAFETY: by contract.
    if pauses {
        0
    } else {
        unsafe { crate::time_limit::late(core, begun) }
    }
}

/// `wl_host.pause`: looks at the clock; returns when the handler has its next turn.
pub(super) unsafe extern "C" fn pause(core: *mut wl_core) {
    // SAFETY: called by a handler inside `run`; `rt` is its core, to which no reference outlives
    // the block.
    let handler_stack = unsafe { (*(*core).rt.cast::<Core>()).look(&mut *core) };
    if let Some(handler_stack) = handler_stack {
        // SAFETY: this code runs on that stack; its yielder lives as long as its stack is in use.
        unsafe { (*(*handler_stack).yielder).suspend(()) }
    }
}

/// Puts a large message that is about to be sent into chunks, piece by piece. Its handler may pause
/// in between.
///
/// # Safety
/// As for a call by the handler, which leaves `head` in place.
pub(super) unsafe fn in_pieces(core: *mut wl_core, head: wl_bytes) {
    let mut at = 0;
    while at < head.n as usize {
        // SAFETY: `rt` is the core, to which no reference outlives the block; the bytes are in
        // place.
        let more = unsafe {
            let this = &mut *(*core).rt.cast::<Core>();
            this.add_piece(head, at)
        };
        let Some(n) = more else { return };
        at += n;
        // SAFETY: as above.
        unsafe { pause(core) }
    }
}

impl Core {
    /// Puts the next piece of a message into chunks. None: it is sent as a whole.
    fn add_piece(&mut self, head: wl_bytes, at: usize) -> Option<usize> {
        let stack = self.stacks.current;
        if stack.is_null() || (head.n as usize) < 2 * PIECE {
            return None;
        }
        // SAFETY: the current stack is live, and no other reference to it exists now.
        let stack = unsafe { &mut *stack };
        // SAFETY: the program's bytes are in place until it goes on.
        let bytes = unsafe { head.as_slice() };
        let n = PIECE.min(bytes.len() - at);
        stack.pieces_of = head.p;
        if !stack.pieces.append(&mut self.pool, &bytes[at..at + n]) {
            self.drop_pieces();
            return None;
        }
        Some(n)
    }

    /// The chunks of a message, if it was put into some.
    #[inline]
    pub(super) fn pieces_of(&mut self, message: Raw) -> Option<ChunkQueue> {
        let stack = self.stacks.current;
        if stack.is_null() || message.n < 2 * PIECE {
            return None;
        }
        // SAFETY: as above.
        let stack = unsafe { &mut *stack };
        let all = std::ptr::eq(stack.pieces_of, message.p) && stack.pieces.len() == message.n;
        all.then(|| std::mem::take(&mut stack.pieces))
    }

    /// The message in pieces has been sent, or will not be.
    pub(super) fn drop_pieces(&mut self) {
        // SAFETY: as above.
        if let Some(stack) = unsafe { self.stacks.current.as_mut() } {
            stack.pieces.clear(&mut self.pool);
        }
    }

    /// The running stack, if it is to be left.
    fn look(&mut self, wl: &mut wl_core) -> Option<*mut HandlerStack> {
        let at = self.stacks.current;
        if at.is_null() {
            wl.fuel = 0;
            return None;
        }
        let now = self.engine.now();
        // SAFETY: the current stack is live, and no other reference to it exists now.
        let handler_stack = unsafe { &mut *at };
        let took = now.saturating_sub(std::mem::replace(&mut handler_stack.looked, now));
        if took < LOOK_NS / 2 {
            handler_stack.rounds = (handler_stack.rounds * 2).min(ROUNDS_MAX);
        } else if took > LOOK_NS * 2 {
            handler_stack.rounds = (handler_stack.rounds / 2).max(1);
        }
        wl.fuel = handler_stack.rounds;
        (now >= self.stacks.end && self.stacks.paused < MOST).then_some(at)
    }

    /// Prepares a stack for a task that may pause. False: it runs on the core's own stack.
    pub(super) fn takes_stack(&mut self, id: Id) -> bool {
        let t = &self.tasks[id];
        let app = &self.apps[t.app as usize];
        let Some(Some(least)) = app.pauses.get(t.c.handler as usize) else { return false };
        let bytes = t.have.iter().copied().max().unwrap_or(0).max(t.req_have);
        if bytes < *least || !self.conns.alive(t.conn) {
            return false;
        }
        // Its session must not be seen by another request of its connection.
        let c = &self.conns[t.conn];
        if app.alone[t.c.handler as usize] != u32::MAX && (!c.has(flag::ALONE) || c.count > 1) {
            return false;
        }
        let large = app.app.program.table().tmp_size as usize > KEPT_SCRATCH;
        if large && self.stacks.paused >= MOST_LARGE {
            return false;
        }
        if t.c.pc == 0 {
            self.pin_request(id)
        } else {
            // A request that is needed later was held; of the answers all must be.
            t.parts.iter().all(|p| {
                p.view.is_null()
                    || t.stored.iter().any(|s| s.view.as_ref().is_some_and(|v| std::ptr::eq(v.as_ptr(), p.view.cast())))
            })
        }
    }

    /// Gives the request memory of its own, so that it stays in place.
    fn pin_request(&mut self, id: Id) -> bool {
        let t = &self.tasks[id];
        if t.req.view.is_some() || t.c.req.view.is_null() {
            return true;
        }
        let (a, msg, have) = (t.app as usize, t.c.req, t.req_have);
        let mut stored = Stored::default();
        let Some(kept) = self.store(a, &mut stored, msg, have) else {
            stored.bytes.release(&mut self.pool);
            return false;
        };
        let t = &mut self.tasks[id];
        (t.req, t.c.req) = (stored, kept);
        true
    }

    /// Runs a handler on a stack; as `run_once`.
    pub(super) fn run_on_stack(&mut self, id: Id, run: StackEntry, this: *mut c_void, task: *mut wl_task) -> c_int {
        let Some(at) = self.stacks.take() else {
            // SAFETY: as in `run_once`.
            return unsafe { run(this, task) };
        };
        let size = self.apps[self.tasks[id].app as usize].app.program.table().tmp_size as usize;
        // SAFETY: the stack is live, and no other reference to it exists.
        let handler_stack = unsafe { &mut *at };
        if handler_stack.tmp.len() < size {
            // Pages that are not written take no memory.
            handler_stack.tmp = vec![0; size];
        }
        handler_stack.built.p = handler_stack.built.start;
        (handler_stack.rounds, handler_stack.looked) = (FIRST_LOOK, self.stamp);
        let Some(stack) = handler_stack.stack.take() else { return WL_T_FAULT };
        handler_stack.run = Some(Coroutine::with_stack(stack, move |yielder, ()| {
            // SAFETY: the stack outlives the code that runs on it; the rest as in `run_once`.
            unsafe {
                (*at).yielder = yielder;
                run(this, task)
            }
        }));
        self.tasks[id].handler_stack = at;
        self.enter_stack(id)
    }

    /// Begins or resumes the handler on a task's stack, until its end, the next call, or a pause.
    pub(super) fn enter_stack(&mut self, id: Id) -> c_int {
        let this: *mut Core = self;
        let (at, a, conn) = (self.tasks[id].handler_stack, self.tasks[id].app as usize, self.tasks[id].conn);
        self.stacks.end = self.stamp.saturating_add(self.left_of_slice(conn));
        self.stacks.current = at;
        let app = &mut self.apps[a];
        app.seen.show(&mut app.wl);
        self.see_as(a, self.tasks[id].settings);
        // SAFETY: the stack is live. No reference to it is kept while it runs.
        let mut run = unsafe {
            let handler_stack = &mut *at;
            std::mem::swap(&mut self.apps[a].out, &mut handler_stack.out);
            let wl = &mut self.apps[a].wl;
            wl.rt = this.cast();
            (wl.outcome, wl.place) = (handler_stack.outcome, handler_stack.place);
            std::mem::swap(&mut wl.out, &mut handler_stack.built);
            (wl.tmp, wl.fuel) = (handler_stack.tmp.as_mut_ptr().cast(), handler_stack.rounds);
            handler_stack.run.take()
        };
        // Host functions reach this core through `rt`; `self` is not used until the stack is left.
        let left = run.as_mut().map_or(CoroutineResult::Return(WL_T_FAULT), |r| r.resume(()));
        self.stacks.current = std::ptr::null_mut();
        // SAFETY: as above.
        let handler_stack = unsafe { &mut *at };
        handler_stack.run = run;
        std::mem::swap(&mut self.apps[a].out, &mut handler_stack.out);
        let wl = &mut self.apps[a].wl;
        (handler_stack.outcome, handler_stack.place) = match left {
            CoroutineResult::Yield(()) => (wl.outcome, wl.place),
            CoroutineResult::Return(_) => (0, 0),
        };
        std::mem::swap(&mut wl.out, &mut handler_stack.built);
        (wl.tmp, wl.fuel) = (std::ptr::null_mut(), 0);
        match left {
            CoroutineResult::Yield(()) => PAUSED,
            CoroutineResult::Return(code) => {
                handler_stack.stack = handler_stack.run.take().map(Coroutine::into_stack);
                self.tasks[id].handler_stack = std::ptr::null_mut();
                self.stacks.give(&mut self.pool, at);
                code
            }
        }
    }

    /// A handler has paused: its connection goes to the end of the queue.
    pub(super) fn paused(&mut self, id: Id) {
        self.stacks.paused += 1;
        let (conn, a) = (self.tasks[id].conn, self.tasks[id].app as usize);
        self.my_stats().apps[a].pauses.add(1);
        self.tasks[id].next_paused = Id::NIL;
        let mut last = self.conns[conn].paused;
        if last.is_nil() {
            self.conns[conn].paused = id;
        } else {
            while !self.tasks[last].next_paused.is_nil() {
                last = self.tasks[last].next_paused;
            }
            self.tasks[last].next_paused = id;
        }
        self.mark_again(conn);
    }

    /// The turn of a connection with paused handlers: the one that waits longest goes on.
    pub(super) fn resume_paused(&mut self, conn: Id) {
        let id = self.conns[conn].paused;
        self.unlist(conn, id);
        // SAFETY: a paused task has a stack, which is live.
        unsafe { (*self.tasks[id].handler_stack).looked = self.stamp }
        let result = self.enter_stack(id);
        let result = self.has_run(id, result);
        self.work_off(id, result);
        if self.conns.alive(conn) {
            // Input that has arrived meanwhile, and the end of the connection, are handled in its
            // next turn.
            self.mark_again(conn);
        }
        self.account(conn);
    }

    /// Takes a task off its connection's list of paused ones.
    fn unlist(&mut self, conn: Id, id: Id) {
        self.stacks.paused -= 1;
        let next = self.tasks[id].next_paused;
        let Some(c) = self.conns.get_mut(conn) else { return };
        let mut at = c.paused;
        if at == id {
            c.paused = next;
        } else {
            while let Some(t) = self.tasks.get_mut(at) {
                if t.next_paused == id {
                    t.next_paused = next;
                    break;
                }
                at = t.next_paused;
            }
        }
    }

    /// A task ends while it is paused: its stack is abandoned.
    pub(super) fn leave_stack(&mut self, id: Id) {
        let at = std::mem::replace(&mut self.tasks[id].handler_stack, std::ptr::null_mut());
        let conn = self.tasks[id].conn;
        self.unlist(conn, id);
        // SAFETY: the stack is live, and no other reference to it exists. Generated code keeps
        // nothing on its stack that must be released: a handler that locks a table does not pause
        // meanwhile.
        unsafe {
            let handler_stack = &mut *at;
            if let Some(mut run) = handler_stack.run.take() {
                run.force_reset();
                handler_stack.stack = Some(run.into_stack());
            }
            (handler_stack.outcome, handler_stack.place) = (0, 0);
            handler_stack.pieces.clear(&mut self.pool);
        }
        self.stacks.give(&mut self.pool, at);
    }
}
