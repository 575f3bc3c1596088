//! The host functions that handlers call. They append, link and mark. They never run a handler,
//! parse, or close.

use super::dispatch::CallRequest;
use super::slab::Id;
use super::stacks::in_pieces;
use super::types::{flag, Sink, Stored, Task};
use super::{Core, Raw};
use crate::abi::*;
use std::os::raw::c_int;

pub(super) fn table() -> wl_host {
    wl_host {
        call: Some(call),
        reply: Some(reply),
        send: Some(send),
        grow: Some(grow),
        close: Some(close),
        log: Some(log_line),
        fault: Some(fault),
        crypto: Some(crate::crypto::entry),
        pause: Some(super::stacks::pause),
        late: Some(super::stacks::late),
        keep: Some(keep),
        tell: Some(tell),
        ask: Some(ask),
        open: Some(open),
        shut: Some(shut),
        deliver: Some(deliver),
        dismiss: Some(dismiss),
        wait: Some(wait),
        changed: Some(changed),
        change_protocol: Some(become_protocol),
        hold: Some(hold),
        pool: Some(pool),
        take: Some(take),
        pooled: Some(pooled),
        upstream_fact: Some(upstream_fact),
    }
}

/// The core and the task behind a program's task pointer.
///
/// # Safety
/// `task` is the argument of `run`, and the call happens inside that `run`.
unsafe fn of<'a>(task: *mut wl_task) -> (&'a mut Core, Id) {
    // SAFETY: `c` is the first field of `Task` (repr C). `rt` was set by `enter` just before `run`,
    // which uses no other reference to the core until it returns.
    unsafe {
        let id = (*task.cast::<Task>()).me;
        let core = &mut *(*(*task).core).rt.cast::<Core>();
        (core, id)
    }
}

unsafe extern "C" fn call(task: *mut wl_task, port: u32, index: u32, head: wl_bytes, tail: u32, how: *const wl_call) {
    const DEFAULTS: wl_call = wl_call { timeout_ns: 0, ctx: 0, flags: 0, _pad: 0 };
    // SAFETY: the ABI allows a null for "all defaults"; else it is valid during the call.
    let how = unsafe { how.as_ref() }.unwrap_or(&DEFAULTS);
    let pieces = how.flags & WL_C_PIECES != 0;
    // SAFETY: called by the program inside `run`.
    let (core, id) = unsafe {
        if pieces {
            in_pieces((*task).core, head)
        }
        of(task)
    };
    core.host_call(id, CallRequest { port, index, head, tail, how });
    if pieces {
        core.drop_pieces()
    }
}

unsafe extern "C" fn reply(task: *mut wl_task, head: wl_bytes, tail: u32, flags: u32) {
    let pieces = flags & WL_R_PIECES != 0;
    // SAFETY: as above.
    let (core, id) = unsafe {
        if pieces {
            in_pieces((*task).core, head)
        }
        of(task)
    };
    core.host_reply(id, head, tail, flags);
    if pieces {
        core.drop_pieces()
    }
}

unsafe extern "C" fn send(task: *mut wl_task, port: u32, index: u32, head: wl_bytes, tail: u32) {
    // SAFETY: as above.
    let (core, id) = unsafe { of(task) };
    core.host_send(id, port, index, head, tail);
}

unsafe extern "C" fn grow(core: *mut wl_core, need: u32) -> c_int {
    // SAFETY: `rt` is valid inside program code.
    let (this, wl) = unsafe { (&mut *(*core).rt.cast::<Core>(), core) };
    this.app_of(wl).is_some_and(|a| this.apps[a].grow(need)) as c_int
}

unsafe extern "C" fn close(task: *mut wl_task) {
    // SAFETY: as above.
    let (core, id) = unsafe { of(task) };
    core.tasks[id].closed = true;
    let conn = core.tasks[id].conn;
    if core.conns.get(conn).is_some_and(|c| c.member != 0) {
        return core.end_conversation(conn);
    }
    if let Some(c) = core.conns.get_mut(conn) {
        c.set(flag::LAST);
        if c.count == 0 {
            c.set(flag::CLOSING);
        }
        core.mark_dirty(conn);
    }
}

unsafe extern "C" fn keep(task: *mut wl_task, bytes: wl_bytes) -> c_int {
    // SAFETY: as above.
    let (core, id) = unsafe { of(task) };
    // SAFETY: the program's bytes are valid during the call.
    c_int::from(core.host_keep(id, unsafe { bytes.as_slice() }))
}

unsafe extern "C" fn tell(task: *mut wl_task, to: u32, proto: u32, head: wl_bytes, tail: u32) -> u32 {
    // SAFETY: as above.
    let (core, id) = unsafe { of(task) };
    // SAFETY: the program's bytes are valid during the call.
    let head = Raw::of(unsafe { head.as_slice() });
    if to == WL_TO_PIECE || to == WL_TO_NONE {
        core.host_piece(id, head, to == WL_TO_NONE);
        return WL_F_NONE;
    }
    core.host_tell(id, (to, proto as u16), head, tail).err().unwrap_or(WL_F_NONE)
}

unsafe extern "C" fn ask(
    task: *mut wl_task,
    upstream: u32,
    proto: u32,
    head: wl_bytes,
    tail: u32,
    how: *const wl_call,
) {
    // SAFETY: as above; the program's bytes and its words are valid during the call.
    let ((core, id), head, how) = unsafe { (of(task), Raw::of(head.as_slice()), *how) };
    core.host_ask(id, (upstream, proto as u16), (head, tail), &how);
}

unsafe extern "C" fn open(task: *mut wl_task, upstream: u32, index: u32, pooled: u32, key: wl_bytes) -> u32 {
    // SAFETY: as above; the key's bytes are valid during the call.
    let ((core, id), key) = unsafe { (of(task), key.as_slice()) };
    core.open_upstream(id, upstream, index, (pooled != 0).then_some(key)).err().unwrap_or(WL_F_NONE)
}

unsafe extern "C" fn shut(task: *mut wl_task, upstream: u32) {
    // SAFETY: as above.
    let (core, id) = unsafe { of(task) };
    core.host_shut(id, upstream);
}

unsafe extern "C" fn pool(task: *mut wl_task, upstream: u32, key: wl_bytes) {
    // SAFETY: as above; the key's bytes are valid during the call.
    let ((core, id), key) = unsafe { (of(task), key.as_slice()) };
    core.host_pool(id, upstream, key);
}

unsafe extern "C" fn take(task: *mut wl_task, upstream: u32, index: u32) -> u32 {
    // SAFETY: as above.
    let (core, id) = unsafe { of(task) };
    core.host_take(id, upstream, index).err().unwrap_or(WL_F_NONE)
}

unsafe extern "C" fn pooled(core: *mut wl_core, port: u32, index: u32, key: wl_bytes) -> u32 {
    // SAFETY: as for `grow`; the key's bytes are valid during the call.
    let (this, key) = unsafe { (&mut *(*core).rt.cast::<Core>(), key.as_slice()) };
    this.app_of(core).map_or(0, |a| this.pooled((a, port as usize, index as usize), key))
}

unsafe extern "C" fn upstream_fact(task: *mut wl_task, upstream: u32, fact: u32) -> u64 {
    // SAFETY: as above.
    let (core, id) = unsafe { of(task) };
    core.upstream_fact(id, upstream, fact)
}

unsafe extern "C" fn deliver(
    task: *mut wl_task,
    handles: *const u64,
    n: u32,
    head: wl_bytes,
    tail: u32,
    proto: u32,
    place: u32,
) {
    // SAFETY: as above; the program's handles and bytes are valid during the call.
    let ((core, id), handles, head) = unsafe { (of(task), of_handles(handles, n), Raw::of(head.as_slice())) };
    core.host_deliver(id, handles, (head, tail), proto as u16, place);
}

unsafe extern "C" fn become_protocol(task: *mut wl_task, member: u32, proto: u32, rest: u32) -> u32 {
    // SAFETY: as above.
    let (core, id) = unsafe { of(task) };
    core.host_become(id, member, proto as u16, rest != 0).err().unwrap_or(WL_F_NONE)
}

unsafe extern "C" fn hold(task: *mut wl_task, member: u32, on: u32) {
    // SAFETY: as above.
    let (core, id) = unsafe { of(task) };
    core.host_hold(id, member, on != 0);
}

unsafe extern "C" fn dismiss(task: *mut wl_task, handles: *const u64, n: u32) {
    // SAFETY: as above.
    let ((core, id), handles) = unsafe { (of(task), of_handles(handles, n)) };
    core.host_dismiss(id, handles);
}

/// # Safety
/// `n` handles lie at `p` for as long as they are used.
unsafe fn of_handles<'a>(p: *const u64, n: u32) -> &'a [u64] {
    if n == 0 {
        return &[];
    }
    // SAFETY: by contract.
    unsafe { std::slice::from_raw_parts(p, n as usize) }
}

unsafe extern "C" fn wait(task: *mut wl_task, table: u32, hash: u64, timeout_ns: u64, flags: u32) {
    // SAFETY: as above.
    let (core, id) = unsafe { of(task) };
    if table == WL_BODY {
        return core.host_wait_body(id, flags);
    }
    core.host_wait(id, (table, hash), timeout_ns, flags);
}

unsafe extern "C" fn changed(core: *mut wl_core, table: u32, hash: u64) {
    // SAFETY: as for `grow`.
    let this = unsafe { &*(*core).rt.cast::<Core>() };
    if let Some(a) = this.app_of(core) {
        this.apps[a].app.entry_changes.note(table, hash);
    }
}

unsafe extern "C" fn log_line(core: *mut wl_core, level: u32, text: wl_bytes) {
    // SAFETY: as above; the text is valid during the call.
    let (this, text) = unsafe { (&mut *(*core).rt.cast::<Core>(), text.as_slice()) };
    if let Some(note) = &mut this.noting {
        return note.column(text);
    }
    match this.app_of(core) {
        Some(a) => this.apps[a].log_line(level, text),
        None => crate::log_lines::log_line("", level, text),
    }
}

unsafe extern "C" fn fault(core: *mut wl_core, kind: u32, place: u32) {
    // SAFETY: as above.
    let this = unsafe { &mut *(*core).rt.cast::<Core>() };
    if let Some(a) = this.app_of(core) {
        this.my_stats().apps[a].faults.add(kind, place);
    }
}

impl Core {
    /// The app that a program's core is of.
    fn app_of(&self, wl: *const wl_core) -> Option<usize> {
        self.apps.iter().position(|a| std::ptr::eq(&*a.wl, wl))
    }

    /// Where the bytes of a tail are that are here already, and whether more will stream.
    pub(super) fn tail_here(&self, id: Id, tail: u32) -> (Raw, bool) {
        const NONE: Raw = Raw { p: std::ptr::null(), n: 0 };
        let t = &self.tasks[id];
        let piece = |m: &wl_msg, have: u32| {
            if m.base.is_null() || have <= m.head {
                return Raw { p: [].as_ptr(), n: 0 };
            }
            // SAFETY: `have` bytes lie at `base`.
            Raw { p: unsafe { m.base.add(m.head as usize) }, n: (have - m.head) as usize }
        };
        match tail {
            WL_TAIL_REQ if !t.c.req.view.is_null() => (piece(&t.c.req, t.req_have), t.req_more),
            WL_TAIL_REP => {
                // The handler may have chosen an earlier, stored reply as `rep`.
                let i = t.parts.iter().position(|p| p.base == t.c.rep.base).unwrap_or(0);
                match t.parts.get(i) {
                    Some(m) if !m.view.is_null() => (piece(m, t.have[i]), t.rep_more && i == 0),
                    _ => (Raw { p: [].as_ptr(), n: 0 }, false),
                }
            }
            _ => (Raw { p: [].as_ptr(), ..NONE }, false),
        }
    }

    /// A copy of bytes that the task has until it ends.
    fn host_keep(&mut self, id: Id, bytes: &[u8]) -> bool {
        let mut stored = Stored::default();
        let fits = stored.bytes.append(&mut self.pool, bytes);
        let t = &mut self.tasks[id];
        let at = stored.bytes.as_slice();
        t.c.kept = wl_bytes { p: at.as_ptr(), n: at.len() as u32, ..wl_bytes::default() };
        t.stored.push(stored);
        fits
    }

    fn host_reply(&mut self, id: Id, head: wl_bytes, tail: u32, flags: u32) {
        let t = &self.tasks[id];
        let (slot, conn, src) = (t.slot, t.conn, t.rep_src);
        let a = t.app as usize;
        if self.at_hand.is_of(id) {
            return self.answer_from_piece(head);
        }
        let Some(s) = self.slots.get_mut(slot) else { return self.signal_result(head) };
        if s.answered {
            return;
        }
        s.answered = true;
        self.take_outcome(a, slot);
        let (t, s) = (&self.tasks[id], &mut self.slots[slot]);
        let c = &self.conns[conn];
        let drains =
            self.draining && self.apps[c.app as usize].protos.get(c.proto as usize).is_some_and(|p| p.tells_drain);
        if flags & WL_R_CLOSE != 0 || drains || tail == WL_TAIL_REP && ends_with_connection(&t.c.rep) {
            s.close = true;
            self.conns[conn].set(flag::LAST);
        }
        if s.silent || flags & WL_R_NOTHING != 0 {
            if !s.silent {
                self.slot_done(slot);
            }
            return;
        }
        if tail == WL_TAIL_NONE {
            // SAFETY: the program's bytes are valid during the call.
            self.append_reply(slot, Raw::of(unsafe { head.as_slice() }));
            return self.slot_done(slot);
        }
        let (here, more) = self.tail_here(id, tail);
        // SAFETY: the program's bytes are valid during the call.
        self.append_reply(slot, Raw::of(unsafe { head.as_slice() }));
        if here.n > 0 {
            self.append_reply(slot, here);
        }
        if !more {
            self.slot_done(slot);
            return;
        }
        let from = if tail == WL_TAIL_REQ { conn } else { src };
        match self.conns.get_mut(from) {
            Some(c) => {
                c.sink = Sink::Slot(slot);
                self.slots[slot].src = from;
                if tail == WL_TAIL_REQ && !self.conns[from].input.is_empty() {
                    self.mark_again(from);
                }
            }
            None => self.slot_done(slot),
        }
    }
}

/// Whether only the end of the connection tells the message's end where it is passed on.
fn ends_with_connection(m: &wl_msg) -> bool {
    // SAFETY: a message's view is live while its task runs.
    !m.view.is_null() && unsafe { (*m.view).flags } & (WL_M_UNTIL_EOF | WL_M_ENDS) != 0
}
