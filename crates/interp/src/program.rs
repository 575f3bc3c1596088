//! The interpreter as a `wl_program`: the function table of `wireloom.h` over a module.
//!
//! Every function catches panics. A panic is an internal error of the interpreter, and does not end
//! the process. The table's `self_` is the [`Inner`] that the [`InterpProgram`] owns. The data of a
//! core hangs off the core's state memory, that of a waiting task off its frame. Tables hang off
//! the shared memory. So the runtime need not know of any.

use crate::env::Env;
use crate::exec::activation::{Activation, Collected, CoreData, Suspended};
use crate::exec::code::Code;
use crate::exec::frame::Frame;
use crate::exec::sketch::Sketch;
use crate::exec::tables::{Limits, Outside, OutsideTable, Table};
use crate::exec::{self, flatten, Flow};
use crate::grammar::view::{self, Extra};
use crate::grammar::{Answer, Grammar, View};
use crate::stop::Stop;
use crate::value::{fixed_size, MsgRef, Value};
use crate::INTERNAL;
use std::cell::{RefCell, UnsafeCell};
use std::ffi::c_void;
use std::os::raw::c_int;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};
use wireloom_ir::*;
use wireloom_runtime::abi::*;

/// Bytes of a task's frame: the number of its entry in [`CoreData::tasks`], plus 1; 0 = it has not
/// begun.
const FRAME: u32 = 8;

type Tables = Vec<Mutex<Table>>;

pub struct Inner {
    grammar: Grammar,
    handlers: Vec<Code>,
    on_log: Vec<Option<Code>>,
    on_fault: Vec<Option<Code>>,
    on_interim: Vec<Option<Code>>,
    on_answer: Vec<Option<Code>>,
    /// The data of cores and shared memories, freed with the program.
    cores: Mutex<Vec<*mut RefCell<CoreData>>>,
    tables: Mutex<Vec<*mut Tables>>,
    /// By table: another device keeps its entries.
    outside: Vec<Option<Arc<dyn OutsideTable>>>,
    /// Handed to the runtime, which sets `transmit` before any frame comes.
    packets: UnsafeCell<wl_packets>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let cores = std::mem::take(&mut *self.cores.lock().unwrap_or_else(|e| e.into_inner()));
        let tables = std::mem::take(&mut *self.tables.lock().unwrap_or_else(|e| e.into_inner()));
        for p in cores {
            // SAFETY: from Box::into_raw in `init_core`, freed once; no core runs any more.
            drop(unsafe { Box::from_raw(p) });
        }
        for p in tables {
            // SAFETY: from Box::into_raw in `init_shared`.
            drop(unsafe { Box::from_raw(p) });
        }
    }
}

/// An interpreted program. Must outlive every runtime that runs its table.
pub struct InterpProgram {
    table: wl_program,
    _units: Vec<wl_unit>,
    inner: Box<Inner>,
}

// SAFETY: `Inner` is immutable except for two locked lists. The targets of pointers in them belong
// to one core each, or are behind locks.
unsafe impl Send for InterpProgram {}
// SAFETY: as above.
unsafe impl Sync for InterpProgram {}

impl InterpProgram {
    /// The function table; valid as long as `self`.
    pub fn table(&self) -> *const wl_program {
        &self.table
    }

    /// The `self` that its functions take.
    pub fn table_self(&self) -> *mut c_void {
        self.table.self_
    }

    /// The functions of its frame ports; null if it has none. Valid as long as `self`.
    pub fn packets(&self) -> *mut wl_packets {
        let frames = self.module().ports.iter().any(|p| matches!(p.kind, desc::PortKind::Frames { .. }));
        if frames {
            self.inner.packets.get()
        } else {
            std::ptr::null_mut()
        }
    }

    pub fn grammar(&self) -> &Grammar {
        &self.inner.grammar
    }

    pub fn module(&self) -> &Arc<Module> {
        &self.inner.grammar.module
    }
}

/// Makes a program of a module.
pub fn program(module: Arc<Module>) -> InterpProgram {
    program_beside(module, Vec::new())
}

/// Makes a program some of whose tables, by their number, another device keeps.
pub fn program_beside(module: Arc<Module>, outside: Vec<Option<Arc<dyn OutsideTable>>>) -> InterpProgram {
    let mut module = module;
    crate::grammar::tail::intern_types(Arc::make_mut(&mut module));
    let handlers = module.handlers.iter().map(|h| flatten::body(&module, &h.body)).collect();
    let flat = |body: &Option<Body>| body.as_ref().map(|b| flatten::body(&module, b));
    let on_log = module.protocols.iter().map(|p| flat(&p.on_log)).collect();
    let on_fault = module.protocols.iter().map(|p| flat(&p.on_fault)).collect();
    let on_interim = module.protocols.iter().map(|p| flat(&p.on_interim)).collect();
    let on_answer = module.protocols.iter().map(|p| flat(&p.on_answer)).collect();
    let grammar = Grammar::new(module.clone());
    let units: Vec<wl_unit> = (0..module.units.len()).map(|u| unit_entry(&grammar, UnitId(u as u32))).collect();
    let inner = Box::new(Inner {
        grammar,
        handlers,
        on_log,
        on_fault,
        on_interim,
        on_answer,
        cores: Mutex::default(),
        tables: Mutex::default(),
        outside,
        packets: UnsafeCell::new(wl_packets {
            batch: Some(batch),
            steer: None,
            transmit: None,
            queue: None,
            serve: None,
        }),
    });
    let table = wl_program {
        abi: WL_ABI,
        units: units.len() as u32,
        handlers: module.handlers.len() as u32,
        frame_size: FRAME,
        state_size: layout::counters_size(&module) + 8,
        shared_size: layout::table_stats_size(&module) + 8,
        session_size: module.sessions.iter().map(|s| fixed_size(&module, s.ty)).sum::<usize>() as u32,
        tmp_size: 0,
        self_: (&raw const *inner) as *mut c_void,
        unit: units.as_ptr(),
        init_shared: Some(init_shared),
        init_core: Some(init_core),
        run: Some(run),
        fault_reply: Some(fault_reply),
        interim: Some(interim),
        cancel: Some(cancel),
        note: Some(note),
        answer: Some(answer),
        context: Some(context),
        run_of: Some(run_of),
        point: module.ports.iter().any(|p| p.consistent.is_some()).then_some(point),
    };
    InterpProgram { table, _units: units, inner }
}

fn unit_entry(g: &Grammar, unit: UnitId) -> wl_unit {
    let def = g.module.unit(unit);
    wl_unit {
        view_size: g.view_size(unit) as u32,
        head_max: u32::try_from(def.head_max).unwrap_or(u32::MAX),
        whole_max: if def.streams { 0 } else { def.max },
        parse: Some(parse),
        tail: Some(tail),
        copy: None,
    }
}

/// # Safety
/// `this` is the `self_` of a living program's table.
unsafe fn inner<'a>(this: *mut c_void) -> &'a Inner {
    // SAFETY: by contract.
    unsafe { &*(this as *const Inner) }
}

/// Runs `f`; a panic in it is noted and gives `or`.
fn guarded<T>(or: T, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| {
        crate::note_internal("panic in the interpreter");
        or
    })
}

// ---- parsing ----

/// # Safety
/// `p` is a view of the unit's `view_size`.
unsafe fn load(g: &Grammar, unit: UnitId, p: *mut wl_parser) -> View {
    // SAFETY: a view begins with wl_parser and Extra and has room for the slots. Before the first
    // parse() only the parser is valid, so slots are read only in a tail.
    unsafe {
        let parser = p.read();
        if parser.pc == 0 {
            return View { parser, extra: Extra::default(), slots: Vec::new() };
        }
        let extra = p.add(1).cast::<Extra>().read_unaligned();
        let bytes = std::slice::from_raw_parts(p.cast::<u8>().add(view::FIXED), g.view_size(unit) - view::FIXED);
        let slots = g.program(unit).map(|t| view::read_slots(&g.module, t, bytes)).unwrap_or_default();
        View { parser, extra, slots }
    }
}

/// # Safety
/// As for [`load`].
unsafe fn store(g: &Grammar, unit: UnitId, v: &View, p: *mut wl_parser) {
    // SAFETY: as for load.
    unsafe {
        p.write(v.parser);
        p.add(1).cast::<Extra>().write_unaligned(v.extra);
        let n = g.view_size(unit) - view::FIXED;
        std::ptr::write_bytes(p.cast::<u8>().add(view::FIXED), 0, n);
        let bytes = std::slice::from_raw_parts_mut(p.cast::<u8>().add(view::FIXED), n);
        if let Some(t) = g.program(unit) {
            view::write_slots(&g.module, t, &v.slots, bytes);
        }
    }
}

fn code(a: Answer) -> c_int {
    match a {
        Answer::More => WL_MORE,
        Answer::Head => WL_HEAD,
        Answer::Whole => WL_WHOLE,
        Answer::Bad => WL_BAD,
    }
}

unsafe fn input<'a>(buf: *const u8, n: u32) -> &'a [u8] {
    if n == 0 {
        return &[];
    }
    // SAFETY: the runtime gives n valid bytes.
    unsafe { std::slice::from_raw_parts(buf, n as usize) }
}

unsafe extern "C" fn parse(
    this: *mut c_void,
    unit: u32,
    p: *mut wl_parser,
    buf: *const u8,
    n: u32,
    eof: c_int,
) -> c_int {
    guarded(WL_BAD, || {
        // SAFETY: called through our table, under the promises of the ABI.
        unsafe {
            let (g, unit) = (&inner(this).grammar, UnitId(unit));
            let mut v = load(g, unit, p);
            let answer = g.parse(unit, &mut v, input(buf, n), eof != 0);
            store(g, unit, &v, p);
            code(answer)
        }
    })
}

unsafe extern "C" fn tail(
    this: *mut c_void,
    unit: u32,
    p: *mut wl_parser,
    buf: *const u8,
    n: u32,
    eof: c_int,
    used: *mut u32,
) -> c_int {
    guarded(WL_BAD, || {
        // SAFETY: as for parse; `used` is writable.
        unsafe {
            let (g, unit) = (&inner(this).grammar, UnitId(unit));
            let mut v = load(g, unit, p);
            let (answer, taken) = g.tail(unit, &mut v, input(buf, n), eof != 0);
            store(g, unit, &v, p);
            *used = taken as u32;
            code(answer)
        }
    })
}

// ---- memory ----

unsafe extern "C" fn init_shared(this: *mut c_void, shared: *mut c_void, _params: *const wl_param) {
    guarded((), || {
        // SAFETY: as for parse; `shared` has shared_size bytes.
        unsafe {
            let inner = inner(this);
            let m = &inner.grammar.module;
            let table = |(n, t): (usize, &wireloom_ir::Table)| {
                let limits = Limits {
                    capacity: t.capacity,
                    idle: t.idle,
                    from_write: t.from_write,
                    evict_lru: t.evict_lru,
                    blocks: packed_keys::entry_blocks(m, t),
                };
                let mut table = Table::new(limits, Sketch::new(t.kind, t.capacity));
                let outside = inner.outside.get(n).cloned().flatten();
                table.outside = outside.map(|table| Outside { table, module: m.clone(), value: t.value });
                Mutex::new(table)
            };
            let tables = Box::into_raw(Box::new(m.tables.iter().enumerate().map(table).collect::<Tables>()));
            inner.tables.lock().unwrap_or_else(|e| e.into_inner()).push(tables);
            shared.cast::<u8>().add(layout::table_stats_size(m) as usize).cast::<*mut Tables>().write_unaligned(tables);
        }
    })
}

unsafe extern "C" fn init_core(this: *mut c_void, core: *mut wl_core) {
    guarded((), || {
        // SAFETY: as for parse; the core's state has state_size bytes.
        unsafe {
            let inner = inner(this);
            let m = &inner.grammar.module;
            let states = m.states.iter().map(|s| Value::zero(m, s.ty)).collect();
            let data = Box::into_raw(Box::new(RefCell::new(CoreData {
                states,
                rings: m.tables.iter().map(|_| Default::default()).collect(),
                ..CoreData::default()
            })));
            inner.cores.lock().unwrap_or_else(|e| e.into_inner()).push(data);
            (*core)
                .state
                .cast::<u8>()
                .add(layout::counters_size(m) as usize)
                .cast::<*mut RefCell<CoreData>>()
                .write_unaligned(data);
            for (i, s) in m.states.iter().enumerate() {
                let Some(init) = &s.init else { continue };
                let act = activation(inner, core, std::ptr::null_mut());
                let value = Env::handler(&act).eval(init);
                match value {
                    Ok(v) => (*data).borrow_mut().states[i] = v,
                    Err(why) => crate::note_internal(&format!("state {}: {why:?}", s.name)),
                }
            }
        }
    })
}

/// # Safety
/// The core was initialised by `init_core`, its shared memory by `init_shared`.
unsafe fn activation<'a>(inner: &'a Inner, core: *mut wl_core, task: *mut wl_task) -> Activation<'a> {
    let m = &inner.grammar.module;
    // SAFETY: by contract.
    let (data, tables) = unsafe {
        let data = (*core).state.cast::<u8>().add(layout::counters_size(m) as usize).cast::<*mut RefCell<CoreData>>();
        let tables = (*core).shared.cast::<u8>().add(layout::table_stats_size(m) as usize).cast::<*mut Tables>();
        (&*data.read_unaligned(), (*tables.read_unaligned()).as_slice())
    };
    activation_on(inner, core, task, (data, tables))
}

/// The same with data of a core and tables that are given.
fn activation_on<'a>(
    inner: &'a Inner,
    core: *mut wl_core,
    task: *mut wl_task,
    (data, tables): (&'a RefCell<CoreData>, &'a [Mutex<Table>]),
) -> Activation<'a> {
    Activation {
        grammar: &inner.grammar,
        core,
        task,
        request: std::ptr::null(),
        data,
        tables,
        hold: false,
        own: Default::default(),
        seen: Default::default(),
        collect: None,
        frame: Default::default(),
        frame_seen: Default::default(),
        // SAFETY: set by the runtime before any frame comes.
        transmit: unsafe { (*inner.packets.get()).transmit },
        // SAFETY: as above.
        queue: unsafe { (*inner.packets.get()).queue },
        groups: Default::default(),
        order: Default::default(),
        spent: Default::default(),
        begun: Default::default(),
        runs: Default::default(),
    }
}

// ---- frames ----

unsafe extern "C" fn batch(this: *mut c_void, core: *mut wl_core, handler: u32, frames: *mut wl_frame, n: u32) {
    for i in 0..n as usize {
        guarded((), || {
            // SAFETY: as for run; the runtime gives n frames of its own buffers.
            unsafe { one_frame(inner(this), core, handler, &mut *frames.add(i)) }
        });
        // SAFETY: as above; the handler has ended, and nothing of it is kept.
        if let Some(serve) = unsafe { (*inner(this).packets.get()).serve } {
            // SAFETY: as above.
            unsafe { serve(core) };
        }
    }
}

/// Runs a handler for one frame.
///
/// # Safety
/// As for [`activation`]; the frame lies in a buffer with the rooms that it says.
unsafe fn one_frame(inner: &Inner, core: *mut wl_core, handler: u32, f: &mut wl_frame) {
    let m = &inner.grammar.module;
    let (Some(h), Some(body)) = (m.handlers.get(handler as usize), inner.handlers.get(handler as usize)) else {
        return;
    };
    let Some(unit) = h.on.frame_unit() else { return };
    // SAFETY: by contract.
    let tell = move |kind: u16, place: u32| unsafe {
        if let Some(count) = (*(*core).host).fault {
            count(core, u32::from(kind), place)
        }
    };
    // SAFETY: by contract.
    let (there, state) = unsafe { exec::frame::entry::brought(m, core, f) };
    // SAFETY: so many bytes are there.
    let mut bytes = unsafe { input(f.p, there) }.to_vec();
    bytes.resize(f.n as usize, 0);
    let mut frame = Frame::open(&inner.grammar, unit, f, bytes, &mut |k, p| tell(k.0, p.0));
    frame.state = state;
    frame.raw = f;
    // Where it leaves through is not known yet; a queue's frame has its mark there.
    f.out = WL_GONE;
    if matches!(h.on, On::Frame { port, .. } if m.is_queue(port)) {
        // SAFETY: by contract.
        unsafe { (*core).at = f };
    }
    // SAFETY: by contract.
    let act = unsafe { activation(inner, core, std::ptr::null_mut()) };
    *act.frame.borrow_mut() = Some(frame);
    let mut locals = exec::fresh_locals(m, &h.body, body.locals);
    if let Some(l) = locals.first_mut() {
        *l = Value::Msg(MsgRef::Frame(unit))
    }
    let end = exec::run(&Env::handler(&act), body, &mut locals, &mut 0, &mut Vec::new());
    if let Err(stop) = end {
        let (kind, place) = fault_of(stop);
        tell(kind.0, place.0);
    }
}

// ---- handlers ----

unsafe extern "C" fn run(this: *mut c_void, task: *mut wl_task) -> c_int {
    guarded(WL_T_FAULT, || {
        // SAFETY: as for parse; the task and all it names are valid until we return.
        unsafe {
            let inner = inner(this);
            let mut act = activation(inner, (*task).core, task);
            let resumed = take_suspended(&act, task);
            let handler = (*task).handler as usize;
            let on = inner.grammar.module.handlers.get(handler).map(|h| h.on);
            if !on.is_some_and(passes::time_limit::is_limited) {
                act.begun.set(u64::MAX)
            }
            let (mut pc, mut locals) = match resumed {
                Some(s) => {
                    act.hold = s.hold;
                    *act.own.borrow_mut() = s.own;
                    (s.pc, s.locals)
                }
                None => (0, first_locals(inner, &*task)),
            };
            let Some(body) = inner.handlers.get(handler) else { return WL_T_FAULT };
            match exec::run(&Env::handler(&act), body, &mut locals, &mut pc, &mut Vec::new()) {
                Ok(Flow::Suspend { .. }) if !act.keep_order() => {
                    fail(&mut *task, Stop::Fault { kind: FaultKind::OVERLOAD, place: PlaceId(0) })
                }
                Ok(Flow::Suspend { hold }) => {
                    let own = act.own.take();
                    suspend(&act, task, Suspended { pc, locals, own, hold });
                    WL_T_SUSPEND
                }
                Ok(Flow::Return(Value::Bytes(b))) => {
                    // Only a signal returns something: its result.
                    match act.answer(&b) {
                        Ok(()) => WL_T_DONE,
                        Err(stop) => fail(&mut *task, stop),
                    }
                }
                Ok(_) => WL_T_DONE,
                Err(stop) => fail(&mut *task, stop),
            }
        }
    })
}

fn fault_of(stop: Stop) -> (FaultKind, PlaceId) {
    match stop {
        Stop::Fault { kind, place } => (kind, place),
        Stop::Internal(why) => {
            crate::note_internal(&why);
            (INTERNAL, PlaceId(0))
        }
    }
}

fn fail(task: &mut wl_task, stop: Stop) -> c_int {
    let (kind, place) = fault_of(stop);
    task.fault = kind.0;
    task.place = place.0;
    WL_T_FAULT
}

/// Locals of a handler that begins.
fn first_locals(inner: &Inner, task: &wl_task) -> Vec<Value> {
    let m = &inner.grammar.module;
    let h = &m.handlers[task.handler as usize];
    let mut locals = exec::fresh_locals(m, &h.body, inner.handlers[task.handler as usize].locals);
    let mut set = |i: usize, v: Value| {
        if let Some(l) = locals.get_mut(i) {
            *l = v;
        }
    };
    match h.on {
        On::Message { .. } | On::Piece { .. } | On::Upstream { .. } => {
            if let Some((_, unit)) = m.message_of(h.on) {
                set(0, Value::Msg(MsgRef::Request(unit)))
            }
        }
        On::Frame { unit, .. } | On::Check { unit, .. } => set(0, Value::Msg(MsgRef::Frame(unit))),
        On::Opened(_)
        | On::Greeting(_)
        | On::Probe(_)
        | On::Reset(_)
        | On::Closed(_)
        | On::UpstreamOpened(_)
        | On::UpstreamClosed(_) => {
            // SAFETY: null or the connection of the task.
            let instance = unsafe { task.conn.as_ref() }.map_or(0, |c| c.instance);
            set(0, Value::Int(instance as u128));
            if let On::Closed(_) | On::UpstreamClosed(_) = h.on {
                set(1, Value::Int(task.fault as u128));
            }
        }
        On::Fault => {
            set(0, Value::Int(task.fault as u128));
            set(1, Value::Int(task.place as u128));
        }
        On::Signal(n) => {
            let args = &m.signals[n as usize].args;
            // SAFETY: the runtime gives a value per argument.
            let list: &[wl_param] = if args.is_empty() {
                &[]
            } else {
                unsafe { std::slice::from_raw_parts(task.req.base.cast(), args.len()) }
            };
            for (i, (v, (_, ty))) in list.iter().zip(args).enumerate() {
                // SAFETY: as above; an argument's bytes live as long as its signal runs.
                set(i, unsafe { crate::exec::activation::param_value(v, *ty) });
            }
        }
        On::Start | On::End | On::Every(_) | On::Test(_) => {}
    }
    locals
}

/// # Safety
/// The task's frame has [`FRAME`] bytes, zero before its first run.
unsafe fn take_suspended(act: &Activation, task: *mut wl_task) -> Option<Suspended> {
    // SAFETY: by contract.
    let frame = unsafe { (*task).frame.cast::<u32>() };
    let n = unsafe { frame.read_unaligned() }.checked_sub(1)?;
    let mut data = act.data.borrow_mut();
    let found = data.tasks.get_mut(n as usize)?.take()?;
    data.free.push(n);
    // SAFETY: as above.
    unsafe { frame.write_unaligned(0) };
    Some(found)
}

/// # Safety
/// As for [`take_suspended`].
unsafe fn suspend(act: &Activation, task: *mut wl_task, s: Suspended) {
    let mut data = act.data.borrow_mut();
    let n = match data.free.pop() {
        Some(n) => n,
        None => {
            data.tasks.push(None);
            data.tasks.len() as u32 - 1
        }
    };
    // SAFETY: by contract.
    unsafe {
        (*task).pc = s.pc as u32;
        (*task).frame.cast::<u32>().write_unaligned(n + 1);
    }
    data.tasks[n as usize] = Some(s);
}

unsafe extern "C" fn cancel(this: *mut c_void, task: *mut wl_task) {
    guarded((), || {
        // SAFETY: as for run.
        unsafe {
            let act = activation(inner(this), (*task).core, task);
            drop(take_suspended(&act, task));
        }
    })
}

unsafe extern "C" fn note(this: *mut c_void, core: *mut wl_core, proto: u32, request: *const wl_msg) {
    guarded((), || {
        // SAFETY: as for run; `request` is valid.
        unsafe {
            let inner = inner(this);
            let protocol = inner.grammar.module.protocols.get(proto as usize);
            let given = protocol.and_then(|p| Some((p.on_log.as_ref()?, p.request)));
            let (Some(given), Some(Some(code))) = (given, inner.on_log.get(proto as usize)) else { return };
            about(inner, core, given, code, request)
        }
    })
}

unsafe extern "C" fn context(this: *mut c_void, core: *mut wl_core, conn: *mut wl_conn, proto: u32, down: u32) -> u64 {
    guarded(0, || {
        // SAFETY: as for run; `conn` is the client's.
        unsafe {
            let inner = inner(this);
            let m = &inner.grammar.module;
            let Some(p) = m.protocols.get(proto as usize) else { return 0 };
            let (unit, args) = match (down != 0, p.response) {
                (true, Some(unit)) => (unit, &p.response_args),
                _ => (p.request, &p.request_args),
            };
            let mut task = wl_task { core, conn, ..wl_task::default() };
            let act = activation(inner, core, &mut task);
            match Env::handler(&act).all(args) {
                Ok(values) => crate::grammar::pack(&m.unit(unit).params, &values) & !WL_CTX_RESPONSE,
                Err(_) => 0,
            }
        }
    })
}

unsafe extern "C" fn run_of(
    this: *mut c_void,
    core: *mut wl_core,
    conn: *mut wl_conn,
    handler: u32,
    ctx: u64,
    buf: *const u8,
    n: u32,
    messages: *mut u32,
) -> u32 {
    guarded(0, || {
        // SAFETY: as for run; `conn` is the client's, and `messages` is writable.
        unsafe {
            let (mut used, mut passed) = (0, 0);
            while let Some(n) =
                passed_on(inner(this), (core, conn), handler, ctx, input(buf.add(used), n - used as u32))
            {
                (used, passed) = (used + n, passed + 1);
            }
            *messages = passed;
            used as u32
        }
    })
}

/// The bytes of the message at the front, if the handler's plan passes it on in a run. It is
/// counted.
///
/// # Safety
/// `core` and `conn` are valid.
unsafe fn passed_on(
    inner: &Inner,
    (core, conn): (*mut wl_core, *mut wl_conn),
    handler: u32,
    ctx: u64,
    bytes: &[u8],
) -> Option<usize> {
    let (g, m) = (&inner.grammar, &inner.grammar.module);
    let h = m.handlers.get(handler as usize)?;
    let (run, (_, unit)) = (h.plan.run.as_ref()?, m.message_of(h.on)?);
    let mut memory = vec![0u64; g.view_size(unit).div_ceil(8)];
    let p: *mut wl_parser = memory.as_mut_ptr().cast();
    // SAFETY: the memory is a view of the unit, and empty.
    let mut v = unsafe {
        (*p).ctx = ctx;
        load(g, unit, p)
    };
    let mut answer = g.parse(unit, &mut v, bytes, false);
    let mut have = v.parser.head as usize;
    if matches!(answer, Answer::Head) {
        let (next, used) = g.tail(unit, &mut v, &bytes[have..], false);
        (answer, have) = (next, have + used);
    }
    if !matches!(answer, Answer::Whole) || v.parser.flags != 0 || have == 0 {
        return None;
    }
    // SAFETY: as above.
    unsafe { store(g, unit, &v, p) };
    let req = wl_msg { view: p, base: bytes.as_ptr(), head: v.parser.head, ..wl_msg::default() };
    let mut task = wl_task { core, conn, req, ..wl_task::default() };
    // SAFETY: by contract.
    let act = unsafe { activation(inner, core, &mut task) };
    let locals = [Value::Msg(MsgRef::Request(unit))];
    let env = Env { locals: &locals, ..Env::handler(&act) };
    let holds = |e: &Option<Expr>| e.as_ref().is_none_or(|e| env.truth(e).unwrap_or(false));
    if !holds(&run.when) {
        return None;
    }
    for c in run.counts.iter().filter(|c| holds(&c.when)) {
        act.count(c.counter, env.int(&c.by).unwrap_or(0) as u64)
    }
    Some(have)
}

unsafe extern "C" fn answer(this: *mut c_void, core: *mut wl_core, proto: u32, answer: *const wl_msg) {
    guarded((), || {
        // SAFETY: as for run; `answer` is valid.
        unsafe {
            let inner = inner(this);
            let protocol = inner.grammar.module.protocols.get(proto as usize);
            let given = protocol.and_then(|p| Some((p.on_answer.as_ref()?, p.response?)));
            let (Some(given), Some(Some(code))) = (given, inner.on_answer.get(proto as usize)) else { return };
            about(inner, core, given, code, answer)
        }
    })
}

/// The hash of a name, on a core without state and tables.
unsafe extern "C" fn point(this: *mut c_void, core: *mut wl_core, port: u32, name: wl_bytes) -> u32 {
    guarded(0, || {
        // SAFETY: as for run; `name` is valid.
        let (inner, name) = unsafe { (inner(this), Value::bytes(name.as_slice())) };
        let Some(f) = inner.grammar.module.ports.get(port as usize).and_then(|p| p.consistent) else { return 0 };
        let data = RefCell::default();
        let act = activation_on(inner, core, std::ptr::null_mut(), (&data, &[]));
        match exec::call(&Env::handler(&act), f, vec![name]) {
            Ok(Value::Int(n)) => n as u32,
            _ => 0,
        }
    })
}

/// Runs code about a message that has no task.
///
/// # Safety
/// `core` and `message` are valid.
unsafe fn about(inner: &Inner, core: *mut wl_core, (body, unit): (&Body, UnitId), code: &Code, message: *const wl_msg) {
    // SAFETY: the caller's promise.
    let mut act = unsafe { activation(inner, core, std::ptr::null_mut()) };
    act.request = message;
    let mut locals = exec::fresh_locals(&inner.grammar.module, body, code.locals);
    locals[0] = Value::Msg(MsgRef::Request(unit));
    if let Err(Stop::Internal(why)) = exec::run(&Env::handler(&act), code, &mut locals, &mut 0, &mut Vec::new()) {
        crate::note_internal(&why);
    }
}

unsafe extern "C" fn fault_reply(
    this: *mut c_void,
    core: *mut wl_core,
    proto: u32,
    fault: *const wl_fault,
    req: *const wl_msg,
) -> u32 {
    guarded(0, || {
        // SAFETY: as for run; `fault` is valid, `req` is null or valid.
        unsafe {
            let inner = inner(this);
            (*core).out.p = (*core).out.start;
            let (Some(p), Some(Some(body))) =
                (inner.grammar.module.protocols.get(proto as usize), inner.on_fault.get(proto as usize))
            else {
                return WL_R_CLOSE;
            };
            let collected = RefCell::new(Collected::default());
            let mut act = activation(inner, core, std::ptr::null_mut());
            (act.request, act.collect) = (req, Some(&collected));
            let f = *fault;
            let start = f.start.get(..f.start_n as usize).unwrap_or_default();
            let request = if req.is_null() { MsgRef::Absent } else { MsgRef::Request(p.request) };
            let mut locals = vec![
                Value::Int(f.kind as u128),
                Value::Bool(f.side as u32 & WL_SIDE_IN_STEP != 0),
                Value::Msg(request),
                Value::bytes(start),
            ];
            locals.extend(p.response.map(|u| inner.grammar.args(u, f.ctx)).unwrap_or_default());
            if let Some(b) = &p.on_fault {
                let fresh = exec::fresh_locals(&inner.grammar.module, b, body.locals);
                locals.extend(fresh.into_iter().skip(p.fault_presets(&inner.grammar.module)));
            }
            told(&act, body, locals, &collected).unwrap_or(WL_R_CLOSE)
        }
    })
}

unsafe extern "C" fn interim(this: *mut c_void, core: *mut wl_core, proto: u32, answer: *const wl_msg) -> u32 {
    guarded(WL_R_NOTHING, || {
        // SAFETY: as for run; `answer` is valid.
        unsafe {
            let inner = inner(this);
            (*core).out.p = (*core).out.start;
            let m = &inner.grammar.module;
            let protocol = m.protocols.get(proto as usize).and_then(|p| Some((p.on_interim.as_ref()?, p.response?)));
            let (Some((b, unit)), Some(Some(body))) = (protocol, inner.on_interim.get(proto as usize)) else {
                return 0;
            };
            let collected = RefCell::new(Collected::default());
            let mut act = activation(inner, core, std::ptr::null_mut());
            (act.request, act.collect) = (answer, Some(&collected));
            let mut locals = exec::fresh_locals(m, b, body.locals);
            locals[0] = Value::Msg(MsgRef::Request(unit));
            told(&act, body, locals, &collected).unwrap_or(WL_R_NOTHING)
        }
    })
}

/// Builds a protocol's answer to a client without a handler, and returns the flags; none after a
/// fault.
fn told(act: &Activation, body: &Code, mut locals: Vec<Value>, collected: &RefCell<Collected>) -> Option<u32> {
    if let Err(stop) = exec::run(&Env::handler(act), body, &mut locals, &mut 0, &mut Vec::new()) {
        if let Stop::Internal(why) = stop {
            crate::note_internal(&why);
        }
        return None;
    }
    let c = collected.borrow();
    if c.replied {
        act.scratch(&c.bytes).ok()?;
    }
    Some(c.flags)
}
