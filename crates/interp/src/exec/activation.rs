//! One activation of a handler: everything outside its locals, through the ABI's `wl_core` and
//! `wl_task`.
//!
//! All pointers come from the runtime and belong to the core of the current thread. They stay valid
//! until `run` or `fault_reply` returns. That is the contract of `wireloom.h`. Messages are copied
//! out once per activation (`reading.rs`).

use super::frame::Frame;
use super::match_tables::MatchTable;
use super::message::{Bytes, Message, Ready};
use super::tables::Table;
use crate::grammar::Grammar;
use crate::stop::{internal, Res, Stop};
use crate::value::{
    encoded_size, endpoint_text, fixed_size, from_canonical, get_fixed, int_type, ip_text, put_fixed, signed, Endpoint,
    MsgRef, Value,
};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard};
use wireloom_ir::*;
use wireloom_runtime::abi::*;

/// A core's data between activations.
#[derive(Default)]
pub struct CoreData {
    pub states: Vec<Value>,
    /// By table: the values of a ring.
    pub rings: Vec<std::collections::VecDeque<Value>>,
    pub tasks: Vec<Option<Suspended>>,
    pub free: Vec<u32>,
    /// By table: those that are not exact.
    pub match_tables: std::collections::HashMap<u32, MatchTable>,
}

/// A handler that waits.
pub struct Suspended {
    pub pc: usize,
    pub locals: Vec<Value>,
    pub own: Vec<Rc<Message>>,
    /// The replies it waits for will be whole.
    pub hold: bool,
}

/// The bytes that `fault_reply` and `interim` collect in place of a reply.
#[derive(Default)]
pub struct Collected {
    pub bytes: Vec<u8>,
    pub flags: u32,
    pub replied: bool,
}

/// So many steps are between two looks at the time.
const STEPS_MAX: u64 = 1 << 20;

pub struct Activation<'a> {
    pub grammar: &'a Grammar,
    pub core: *mut wl_core,
    /// Null in `fault_reply` and `interim`, and when a core starts.
    pub task: *mut wl_task,
    /// The message it is about when there is no task.
    pub request: *const wl_msg,
    pub data: &'a RefCell<CoreData>,
    pub tables: &'a [Mutex<Table>],
    /// Replies are whole.
    pub hold: bool,
    pub own: RefCell<Vec<Rc<Message>>>,
    pub seen: RefCell<HashMap<MsgRef, Rc<Message>>>,
    pub collect: Option<&'a RefCell<Collected>>,
    /// The frame that a handler of frames is about.
    pub frame: RefCell<Option<Frame>>,
    /// The same as a message, while nothing changes it.
    pub frame_seen: RefCell<Option<Rc<Message>>>,
    /// How frames are handed out.
    pub transmit: Option<TransmitFn>,
    /// The answers of queues of frames.
    pub queue: Option<QueueFn>,
    /// Items of each instance of a port: how many, and their bytes.
    pub groups: RefCell<Vec<(u32, Vec<u8>)>>,
    /// The instances of all items, in the order in which they came.
    pub order: RefCell<Vec<usize>>,
    /// Steps since the last look at the time, and the time of the first one.
    pub spent: Cell<u64>,
    pub begun: Cell<u64>,
    /// The items that are left of each part.
    pub runs: RefCell<Vec<(Vec<u8>, usize)>>,
}

/// A connect or listen port.
pub struct PortView<'a> {
    pub len: u32,
    pub ring: &'a [u32],
    /// Behind the ring: the instances by remainder of a hash.
    pub slots: &'a [u32],
    pub maglev: &'a [u32],
    /// libmemcached's ring without weights.
    pub points: &'a [u32],
    load: &'a [u32],
    up: &'a [u8],
    servers: &'a [wl_endpoint],
}

impl PortView<'_> {
    pub fn up(&self, i: u128) -> Res<bool> {
        self.at(self.up, i).map(|u| u != 0)
    }

    pub fn load(&self, i: u128) -> Res<u32> {
        self.at(self.load, i)
    }

    pub fn server(&self, i: u128) -> Res<Endpoint> {
        self.at(self.servers, i).map(|s| endpoint(&s))
    }

    /// The instance of an address; of one that is not listed, the number of instances.
    pub fn find(&self, address: &Endpoint) -> u32 {
        let found = self.servers.iter().position(|s| endpoint(s) == *address);
        found.map_or(self.len, |i| i as u32)
    }

    fn at<T: Copy>(&self, list: &[T], i: u128) -> Res<T> {
        let found = usize::try_from(i).ok().and_then(|i| list.get(i).copied());
        found.map_or_else(|| internal("no such instance of a port"), Ok)
    }
}

/// A slice of the runtime's memory.
///
/// # Safety
/// `p` is valid for `n` values for the activation, or null.
pub(super) unsafe fn slice<'a, T>(p: *const T, n: usize) -> &'a [T] {
    if p.is_null() || n == 0 {
        return &[];
    }
    // SAFETY: by contract.
    unsafe { std::slice::from_raw_parts(p, n) }
}

/// A parameter's or a signal's argument's value.
///
/// # Safety
/// Its bytes, if it has any, are there.
pub unsafe fn param_value(v: &wl_param, ty: desc::ParamType) -> Value {
    match ty {
        desc::ParamType::Bool => Value::Bool(v.u != 0),
        // SAFETY: by contract.
        desc::ParamType::Bytes(_) => Value::bytes(unsafe { v.b.as_slice() }),
        desc::ParamType::Endpoint => Value::Endpoint(endpoint(&v.ep)),
        // The list begins with its length, half a place before its items.
        desc::ParamType::Texts(..) => {
            let at = v.b.p.wrapping_add(std::mem::size_of::<u64>()).cast::<wl_bytes>();
            // SAFETY: by contract, there are `u` items.
            let items = unsafe { slice(at, v.u as usize) };
            // SAFETY: as above.
            Value::List(items.iter().map(|b| Value::bytes(unsafe { b.as_slice() })).collect())
        }
        desc::ParamType::UInt(_) | desc::ParamType::Duration | desc::ParamType::Endpoints(_) => Value::Int(v.u as u128),
    }
}

impl Activation<'_> {
    pub(super) fn module(&self) -> &Module {
        &self.grammar.module
    }

    pub(super) fn core(&self) -> &wl_core {
        // SAFETY: the runtime's core outlives the activation (module doc); no other reference to it
        // is held across calls.
        unsafe { &*self.core }
    }

    pub fn task(&self) -> Option<&wl_task> {
        // SAFETY: null or the task being run (module doc).
        unsafe { self.task.as_ref() }
    }

    // ---- values of the world ----

    pub fn param(&self, p: ParamId) -> Res<Value> {
        let params = &self.module().params;
        // SAFETY: the runtime supplies one value per parameter.
        let list = unsafe { slice(self.core().param, params.len()) };
        let (Some(v), Some(def)) = (list.get(p.index()), params.get(p.index())) else {
            return internal("no such parameter");
        };
        // SAFETY: the runtime keeps a parameter's bytes.
        Ok(unsafe { param_value(v, def.ty) })
    }

    /// The result of a signal.
    pub fn answer(&self, bytes: &[u8]) -> Res<()> {
        let bytes = self.scratch(bytes)?;
        // SAFETY: the host's functions take the task they gave us.
        if let Some(f) = unsafe { (*self.core().host).reply } {
            unsafe { f(self.task, bytes, WL_TAIL_NONE, 0) };
        }
        Ok(())
    }

    pub fn state(&self, s: StateId) -> Res<Value> {
        let data = self.data.borrow();
        data.states.get(s.index()).cloned().map_or_else(|| internal("no such state"), Ok)
    }

    /// The bytes of the connection's session that hold one variable.
    fn session_bytes(&self, s: SessionId) -> Option<(*mut u8, usize)> {
        let conn = self.connection()?;
        let m = self.module();
        let before: usize = m.sessions[..s.index()].iter().map(|s| fixed_size(m, s.ty)).sum();
        let n = fixed_size(m, m.sessions[s.index()].ty);
        // SAFETY: a session has `session_size` bytes, the sum over all variables.
        (!conn.session.is_null()).then(|| (unsafe { (conn.session as *mut u8).add(before) }, n))
    }

    pub fn session(&self, s: SessionId) -> Res<Value> {
        let (m, ty) = (self.module(), self.module().sessions[s.index()].ty);
        match self.session_bytes(s) {
            // SAFETY: see session_bytes.
            Some((p, n)) => Ok(get_fixed(m, ty, unsafe { slice(p, n) })),
            None => Ok(Value::zero(m, ty)),
        }
    }

    pub(super) fn set_session(&self, s: SessionId, v: &Value) {
        if let Some((p, n)) = self.session_bytes(s) {
            // SAFETY: see session_bytes; no other code reads a session while its handler runs.
            let bytes = unsafe { std::slice::from_raw_parts_mut(p, n) };
            bytes.fill(0);
            put_fixed(self.module(), self.module().sessions[s.index()].ty, v, bytes);
        }
    }

    pub(super) fn counter_word(&self, c: CounterId) -> *mut u64 {
        // SAFETY: counters come first in the core's state, which has state_size bytes and is
        // aligned for u64.
        unsafe { (self.core().state as *mut u8).add(layout::counter_offset(c) as usize) as *mut u64 }
    }

    pub fn count(&self, c: CounterId, by: u64) {
        let word = self.counter_word(c);
        // SAFETY: see counter_word; only this core writes it.
        unsafe { word.write(word.read().wrapping_add(by)) }
    }

    pub fn counter(&self, c: CounterId) -> u64 {
        // SAFETY: see counter_word.
        unsafe { self.counter_word(c).read() }
    }

    pub fn port(&self, p: PortId) -> Res<PortView<'_>> {
        // SAFETY: one entry per port, whose lists have the lengths that stand beside them.
        unsafe {
            let ports = slice(self.core().port, self.module().ports.len());
            let Some(port) = ports.get(p.index()) else { return internal("no such port") };
            Ok(PortView {
                len: port.n,
                ring: slice(port.ring, 2 * port.ring_n as usize),
                slots: if port.ring.is_null() {
                    &[]
                } else {
                    slice(
                        port.ring.add(2 * port.ring_n as usize + 1),
                        *port.ring.add(2 * port.ring_n as usize) as usize,
                    )
                },
                maglev: slice(port.maglev, port.maglev_n as usize),
                points: slice(port.points, 2 * port.points_n as usize),
                load: slice(port.load, port.n as usize),
                up: slice(port.up, port.n as usize),
                servers: slice(port.server, port.n as usize),
            })
        }
    }

    /// Where the last instance of a port was found (`wl_core.place`).
    pub fn found_at(&self, p: PortId, kind: u64, at: usize) {
        // SAFETY: the activation's core, which nothing else uses meanwhile.
        unsafe { (*self.core).place = (p.index() as u64) << 48 | kind | at as u64 }
    }

    fn connection(&self) -> Option<&wl_conn> {
        // SAFETY: null or the task's connection.
        self.task().and_then(|t| unsafe { t.conn.as_ref() })
    }

    /// Peer, local address and id of the task's connection; zeros where there is none.
    pub fn conn(&self) -> Res<(Endpoint, Endpoint, u64)> {
        Ok(self.connection().map_or_else(Default::default, |c| (endpoint(&c.peer), endpoint(&c.local), c.id)))
    }

    /// The handle of the task's client; 0 where there is none.
    pub fn handle(&self) -> u64 {
        self.connection().map_or(0, |c| c.handle)
    }

    /// The sessions of a pool.
    pub fn pooled(&self, port: PortId, index: u32, key: &[u8]) -> u32 {
        let key = wl_bytes { p: key.as_ptr(), n: key.len() as u32, ..wl_bytes::default() };
        // SAFETY: the core's host is valid while the handler runs; the key's bytes are in place.
        unsafe { (*self.core).host.as_ref().and_then(|h| h.pooled).map_or(0, |f| f(self.core, port.0, index, key)) }
    }

    /// A fact about an upstream; 0 where there is none.
    pub fn upstream_fact(&self, upstream: UpstreamId, fact: UpstreamFact) -> u64 {
        if self.task.is_null() || self.connection().is_none() {
            return 0;
        }
        // SAFETY: as for `pooled`; the task is the one that runs.
        let fact_of = unsafe { (*self.core).host.as_ref() }.and_then(|h| h.upstream_fact);
        // SAFETY: as above.
        fact_of.map_or(0, |f| unsafe { f(self.task, upstream.0, fact as u32) })
    }

    pub fn now(&self) -> u64 {
        self.core().now
    }

    /// Whether the handler has used up its time, after so many further steps.
    pub fn out_of_time(&self, steps: u64) -> bool {
        let spent = self.spent.get() + steps;
        self.spent.set(if spent > STEPS_MAX { 0 } else { spent });
        // SAFETY: the core is ours while the handler runs, and so is its host's table.
        let late = unsafe { (*self.core).host.as_ref() }.and_then(|h| h.late);
        // SAFETY: as above.
        spent > STEPS_MAX && late.is_some_and(|f| unsafe { f(self.core, self.begun.as_ptr()) } != 0)
    }

    pub fn draining(&self) -> bool {
        self.core().draining != 0
    }

    pub fn wall(&self) -> u64 {
        self.core().wall
    }

    pub fn random(&self, below: u64) -> u64 {
        // SAFETY: the core is ours while the handler runs.
        crate::builtin::random_below(unsafe { &mut (*self.core).seed }, below)
    }

    pub fn parts(&self) -> u32 {
        self.task().map_or(0, |t| t.parts)
    }

    pub(super) fn raw_part(&self, n: u128) -> Option<wl_msg> {
        let t = self.task()?;
        // SAFETY: part has `parts` entries.
        unsafe { slice(t.part, t.parts as usize) }.get(usize::try_from(n).ok()?).copied()
    }

    pub fn part_status(&self, n: u128) -> Res<u32> {
        Ok(self.raw_part(n).map_or(WL_F_LOST, |p| p.status))
    }

    /// Has the order of the items in groups kept over a suspension: of each, which part its group
    /// is. False: there is no memory.
    pub fn keep_order(&self) -> bool {
        let (groups, order) = (self.groups.take(), self.order.take());
        if order.is_empty() {
            return true;
        }
        let ranks: Vec<u16> = groups
            .iter()
            .scan(0, |n, g| {
                let here = *n;
                *n += u16::from(g.0 > 0);
                Some(here)
            })
            .collect();
        let bytes: Vec<u8> = order.iter().flat_map(|i| ranks[*i].to_ne_bytes()).collect();
        // SAFETY: the core's host and the task are valid while the handler runs.
        unsafe {
            let keep = (*self.core).host.as_ref().and_then(|h| h.keep);
            keep.is_some_and(|f| {
                f(self.task, wl_bytes { p: bytes.as_ptr(), n: bytes.len() as u32, ..wl_bytes::default() }) != 0
            })
        }
    }

    /// The current frame.
    pub fn with_frame<T>(&self, f: impl FnOnce(&Frame) -> T) -> Res<T> {
        match self.frame.borrow().as_ref() {
            Some(frame) => Ok(f(frame)),
            None => internal("no frame at hand"),
        }
    }

    /// The current frame, to be changed.
    pub fn change_frame<T>(&self, f: impl FnOnce(&mut Frame) -> T) -> Res<T> {
        *self.frame_seen.borrow_mut() = None;
        match self.frame.borrow_mut().as_mut() {
            Some(frame) => Ok(f(frame)),
            None => internal("no frame at hand"),
        }
    }

    /// Hands out a frame of these bytes, and the mark that goes with it into a queue.
    pub fn transmit(&self, port: PortId, instance: u32, mark: u32, bytes: &[u8]) {
        if let Some(f) = self.transmit {
            // SAFETY: the runtime's function; it copies the bytes. The core is the program's own
            // while it runs.
            unsafe {
                (*self.core).mark = mark;
                f(self.core, port.0, instance, bytes.as_ptr(), bytes.len() as u32)
            }
        }
    }

    // ---- sending ----

    /// The head as the ABI wants it: original bytes where they are, others in the core's scratch.
    pub(super) fn head(&self, ready: &Ready) -> Res<wl_bytes> {
        match &ready.bytes {
            Bytes::Original(m) if !m.base.is_null() => Ok(wl_bytes { p: m.base, n: m.bytes.len() as u32, _pad: 0 }),
            b => self.scratch(b.as_slice()),
        }
    }

    /// Copies bytes to the start of `core->out`.
    pub fn scratch(&self, b: &[u8]) -> Res<wl_bytes> {
        let full = Stop::Fault { kind: FaultKind::OVERLOAD, place: PlaceId(0) };
        // SAFETY: `out` is the core's scratch: [start, end) is writable, and grow() may move it.
        unsafe {
            let out = &raw mut (*self.core).out;
            (*out).p = (*out).start;
            if ((*out).end as usize - (*out).p as usize) < b.len() {
                let room = u32::try_from(b.len()).ok().and_then(|n| Some(((*self.core().host).grow?)(self.core, n)));
                if room.unwrap_or(0) == 0 || ((*out).end as usize - (*out).p as usize) < b.len() {
                    return Err(full);
                }
            }
            if !b.is_empty() {
                std::ptr::copy_nonoverlapping(b.as_ptr(), (*out).p, b.len());
            }
            (*out).p = (*out).p.add(b.len());
            Ok(wl_bytes { p: (*out).start, n: b.len() as u32, _pad: 0 })
        }
    }

    pub(super) fn reply(&self, ready: Ready, close: bool, nothing: bool) -> Res<()> {
        let flags = if close { WL_R_CLOSE } else { 0 } | if nothing { WL_R_NOTHING } else { 0 };
        if let Some(c) = self.collect {
            *c.borrow_mut() = Collected { bytes: ready.bytes.as_slice().to_vec(), flags, replied: true };
            return Ok(());
        }
        let head = self.head(&ready)?;
        // SAFETY: the host's functions take the task they gave us.
        if let Some(f) = unsafe { (*self.core().host).reply } {
            unsafe { f(self.task, head, ready.tail, flags) };
        }
        Ok(())
    }

    pub fn table(&self, t: TableId) -> Res<MutexGuard<'_, Table>> {
        match self.tables.get(t.index()) {
            Some(table) => {
                let mut table = table.lock().unwrap_or_else(|e| e.into_inner());
                table.behind = self.core().behind;
                Ok(table)
            }
            None => internal("no such table"),
        }
    }

    /// Publishes a table's statistics and lets it go.
    pub fn done(&self, t: TableId, table: MutexGuard<'_, Table>) {
        let words = table.stats.words();
        // SAFETY: statistics come first in the shared memory, which has shared_size bytes; written
        // under the table's lock.
        unsafe {
            let at = (self.core().shared as *mut u8).add(layout::table_stats_offset(t) as usize) as *mut u64;
            for (i, w) in words.into_iter().enumerate() {
                (*(at.add(i) as *const std::sync::atomic::AtomicU64)).store(w, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }

    pub fn put(&self, t: TableId, table: &mut Table, key: &[u8], value: Value, place: PlaceId) -> Res<()> {
        let size = if table.has_blocks() {
            let (m, def) = (self.module(), &self.module().tables[t.index()]);
            let k = from_canonical(m, def.key, &mut &*key);
            encoded_size(m, def.key, &k) + encoded_size(m, def.value, &value)
        } else {
            0
        };
        match table.put(key, value, size, self.now()) {
            true => Ok(()),
            false => Err(Stop::Fault { kind: FaultKind::FULL, place }),
        }
    }

    /// Tells handlers that wait for an entry.
    pub fn changed(&self, t: TableId, key: &[u8]) {
        // SAFETY: the host's functions take the core that they gave us.
        if let Some(f) = unsafe { (*self.core().host).changed } {
            unsafe { f(self.core, t.0, crate::builtin::key_hash(key)) }
        }
    }

    pub(super) fn is_ring(&self, t: TableId) -> bool {
        self.module().tables[t.index()].kind == TableKind::Ring
    }

    /// Text of a value for the log.
    pub(super) fn log_text(&self, e: &Expr, v: &Value, out: &mut Vec<u8>) {
        match v {
            Value::Bytes(b) => out.extend_from_slice(b),
            Value::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
            Value::Int(i) => match int_type(self.module().ty(e.ty)) {
                Some((bits, true)) => out.extend_from_slice(signed(*i, bits).to_string().as_bytes()),
                _ => out.extend_from_slice(i.to_string().as_bytes()),
            },
            Value::Ip(ip) => out.extend_from_slice(ip_text(*ip).as_bytes()),
            Value::Endpoint(e) => out.extend_from_slice(endpoint_text(e.ip, e.port).as_bytes()),
            // Others have no text, as in compiled code.
            _ => {}
        }
    }
}

fn endpoint(e: &wl_endpoint) -> Endpoint {
    Endpoint { ip: e.ip, port: e.port }
}
