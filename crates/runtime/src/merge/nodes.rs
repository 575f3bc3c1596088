//! The nodes before and behind a merge: handlers that run for each message of an input or of the
//! output.
//!
//! In: whole messages in a window. Out: the messages that the handler sends, one behind the other.
//! A task has a share of the app as a core has one, with counters and `state` of its own. A fault
//! of a handler ends the run.

use super::Fault;
use crate::abi::*;
use crate::clock;
use crate::core::app::{App, AppCore};
use crate::large_pages::words;
use crate::program::{Unit, Verdict};
use crate::stats::{Cell, NO_PLACE};
use std::os::raw::c_int;
use std::sync::Arc;
use wireloom_ir::desc::HandlerOn;

pub struct Nodes {
    app: AppCore,
    unit: Unit,
    ctx: u64,
    frame: Box<[u64]>,
    /// The messages that handlers have sent, while they run.
    out: Vec<u8>,
    sent: u32,
    /// Faults that handlers have caught themselves: kind, place, how many.
    caught: Vec<(u32, u32, u64)>,
}

// SAFETY: the raw pointers name its own boxes and memory that the app shares between threads; one
// thread has it at a time.
unsafe impl Send for Nodes {}

/// A window's parser state. It outlasts the bytes: a message may come in pieces.
pub struct WindowState(Box<[u64]>);

/// The handlers before and behind a merge.
#[derive(Clone, Copy, Default)]
pub struct NodeHandlers {
    pub before: Option<u32>,
    pub behind: Option<u32>,
}

impl NodeHandlers {
    pub fn of(app: &App, merge: usize) -> NodeHandlers {
        let desc = &app.desc.merges[merge];
        let on = |of: u32| {
            let mut all = app.desc.handlers.iter();
            let at = all.position(|h| matches!(h.on, HandlerOn::Message { port, .. } if port == of));
            at.map(|n| n as u32)
        };
        NodeHandlers { before: on(desc.from), behind: on(desc.to) }
    }

    pub fn any(self) -> bool {
        self.before.or(self.behind).is_some()
    }
}

impl Nodes {
    /// The share of task `index` of `tasks`.
    pub fn new(app: &Arc<App>, merge: usize, index: usize, tasks: usize) -> Nodes {
        let desc = &app.desc.merges[merge];
        let protocol = app.desc.ports[desc.from as usize].protocols.first();
        let seed = crate::core::mix(clock::now() ^ (index as u64) << 32 ^ u64::from(std::process::id()));
        let mut nodes = Nodes {
            unit: app.program.units()[desc.unit as usize],
            ctx: protocol.map_or(0, |p| app.desc.protocols[*p as usize].default_ctx),
            app: AppCore::new(app.clone(), host(), index as u32, tasks as u32, seed),
            frame: words(app.program.table().frame_size as usize),
            out: Vec::new(),
            sent: 0,
            caught: Vec::new(),
        };
        nodes.enter();
        let wl: *mut wl_core = &mut *nodes.app.wl;
        if let Some(init) = app.program.table().init_core {
            // SAFETY: the program's own function; its core is in place.
            unsafe { init((*wl).self_, wl) };
        }
        nodes
    }

    pub fn view(&self) -> WindowState {
        let mut view = WindowState(words(self.unit.view_size.max(size_of::<wl_parser>())));
        view.begin(self.ctx);
        view
    }

    /// Handles the whole messages of a window, until none is left or `most` bytes are in `to`.
    /// Answers how many messages were sent.
    pub fn run(
        &mut self,
        handler: u32,
        w: &mut wl_window,
        view: &mut WindowState,
        (to, most): (&mut Vec<u8>, usize),
    ) -> Result<u32, Fault> {
        self.sent = 0;
        let now = clock::now();
        (self.app.wl.now, self.app.wl.wall) = (now, now.wrapping_add(clock::look()));
        std::mem::swap(&mut self.out, to);
        let mut done = Ok(true);
        while self.out.len() < most && matches!(done, Ok(true)) {
            done = self.message(handler, w, view);
        }
        std::mem::swap(&mut self.out, to);
        done.map(|_| self.sent)
    }

    /// Handles one message; false: there is none that is whole.
    fn message(&mut self, handler: u32, w: &mut wl_window, view: &mut WindowState) -> Result<bool, Fault> {
        if w.pos >= w.n {
            return Ok(false);
        }
        let (parser, n): (*mut wl_parser, _) = (view.0.as_mut_ptr().cast(), w.n - w.pos);
        // SAFETY: a window names `n` valid bytes from its position on.
        let base = unsafe { w.buf.add(w.pos as usize) };
        // SAFETY: the view has the unit's size; the bytes are valid.
        let verdict = unsafe { self.unit.parse(parser, base, n, w.eof != 0) };
        // SAFETY: every view begins with the parser's state.
        let state = unsafe { *parser };
        match verdict {
            Verdict::Whole if state.head > 0 && state.head <= n => {}
            Verdict::More if w.eof == 0 => return Ok(false),
            Verdict::More => return Err(fault(WL_F_TRUNCATED, state.place)),
            Verdict::Bad => return Err(fault(u32::from(state.fault), state.place)),
            // As in the merge: a fault that a grammar recovers from is one here, too.
            Verdict::Head | Verdict::Whole => return Err(fault(WL_F_MALFORMED, state.place)),
        }
        self.handle(handler, wl_msg { view: parser, base, head: state.head, ..wl_msg::default() })?;
        w.pos += state.head;
        w.messages += 1;
        view.begin(self.ctx);
        Ok(true)
    }

    fn handle(&mut self, handler: u32, req: wl_msg) -> Result<(), Fault> {
        self.frame.fill(0);
        let mut task = wl_task {
            core: &mut *self.app.wl,
            frame: self.frame.as_mut_ptr().cast(),
            handler,
            place: NO_PLACE,
            req,
            ..wl_task::default()
        };
        self.enter();
        let table = self.app.app.program.table();
        let (run, this, task): (_, _, *mut wl_task) = (table.run, table.self_, &mut task);
        // SAFETY: the task, its frame and its message are in place; host functions reach `self`
        // through `rt`, and `self` is not used until `run` returns.
        let (code, kind, place) = unsafe {
            let code = run.map_or(WL_T_FAULT, |run| run(this, task));
            (code, u32::from((*task).fault), (*task).place)
        };
        match code {
            WL_T_DONE => Ok(()),
            _ if kind == 0 => Err(fault(WL_F_CONSTRAINT, place)),
            _ => Err(fault(kind, place)),
        }
    }

    fn enter(&mut self) {
        self.app.wl.rt = std::ptr::from_mut(self).cast();
        self.app.reset_out();
    }

    /// Faults that were caught since the last call.
    pub fn take_caught(&mut self) -> Vec<(u32, u32, u64)> {
        std::mem::take(&mut self.caught)
    }

    pub fn show_counters(&self, cells: &[Cell]) {
        self.app.show_counters(cells);
    }
}

impl WindowState {
    fn begin(&mut self, ctx: u64) {
        // SAFETY: a view has room for the parser's state, and is aligned to 8.
        unsafe { *self.0.as_mut_ptr().cast() = wl_parser { ctx, ..wl_parser::default() } }
    }
}

fn fault(kind: u32, place: u32) -> Fault {
    Fault { kind, place, text: String::new() }
}

fn host() -> wl_host {
    wl_host {
        send: Some(send),
        grow: Some(grow),
        log: Some(log_line),
        fault: Some(caught),
        ..wl_host::without_connections()
    }
}

/// # Safety
/// Inside a call of the program, which `enter` has prepared.
unsafe fn of<'a>(core: *mut wl_core) -> &'a mut Nodes {
    // SAFETY: `rt` was set by `enter`, and nothing else uses it until the program returns.
    unsafe { &mut *(*core).rt.cast::<Nodes>() }
}

unsafe extern "C" fn send(task: *mut wl_task, _: u32, _: u32, head: wl_bytes, _: u32) {
    // SAFETY: called by the program inside `run`; its bytes are valid during the call, and lie
    // apart from those sent before.
    let (this, bytes) = unsafe { (of((*task).core), head.as_slice()) };
    this.out.extend_from_slice(bytes);
    this.sent += 1;
}

unsafe extern "C" fn grow(core: *mut wl_core, need: u32) -> c_int {
    // SAFETY: as above.
    c_int::from(unsafe { of(core) }.app.grow(need))
}

unsafe extern "C" fn log_line(core: *mut wl_core, level: u32, text: wl_bytes) {
    // SAFETY: as above.
    let (this, text) = unsafe { (of(core), text.as_slice()) };
    crate::log_lines::log_line(&this.app.app.desc.app, level, text);
}

unsafe extern "C" fn caught(core: *mut wl_core, kind: u32, place: u32) {
    // SAFETY: as above.
    let this = unsafe { of(core) };
    match this.caught.iter_mut().find(|c| (c.0, c.1) == (kind, place)) {
        Some(c) => c.2 += 1,
        None => this.caught.push((kind, place, 1)),
    }
}
