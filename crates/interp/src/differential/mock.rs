//! A host that notes the effects of handlers: calls, replies, sends, logs. It answers calls from a
//! script.

use super::view::{feed, parser, view, ComparedView};
use std::os::raw::c_int;
use wireloom_ir::*;
use wireloom_runtime::abi::*;
use wireloom_runtime::large_pages;

/// The effects of a handler, with tails resolved to their bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerAct {
    /// Where the next call's server was found (`wl_core.place`).
    Found(u64),
    Call {
        port: u32,
        index: u32,
        bytes: Vec<u8>,
        timeout: u64,
        ctx: u64,
        /// The flags by which its protocol describes it (`WL_C_*`).
        clauses: u32,
    },
    Reply {
        bytes: Vec<u8>,
        flags: u32,
    },
    Send {
        port: u32,
        index: u32,
        bytes: Vec<u8>,
    },
    Tell {
        to: u32,
        proto: u32,
        bytes: Vec<u8>,
    },
    Ask {
        upstream: u32,
        proto: u32,
        bytes: Vec<u8>,
        timeout: u64,
        ctx: u64,
        matches: bool,
    },
    Deliver {
        to: Vec<u64>,
        proto: u32,
        bytes: Vec<u8>,
        place: u32,
    },
    Dismiss {
        to: Vec<u64>,
    },
    Open {
        upstream: u32,
        index: u32,
        key: Option<Vec<u8>>,
    },
    Shut {
        upstream: u32,
    },
    Pool {
        upstream: u32,
        key: Vec<u8>,
    },
    Take {
        upstream: u32,
        index: u32,
    },
    Become {
        member: u32,
        proto: u32,
        rest: u32,
    },
    Hold {
        member: u32,
        on: u32,
    },
    Wait {
        table: u32,
        timeout: u64,
    },
    Close,
    Log {
        level: u32,
        text: Vec<u8>,
    },
    Fault {
        kind: u16,
        place: u32,
    },
    FaultReply {
        bytes: Vec<u8>,
        flags: u32,
    },
    /// The status and class of the answer before it, if it has some.
    Outcome(u32),
    Done,
    /// The request was not a whole message.
    NoRequest,
}

/// How a call is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MockAnswer {
    /// These bytes from the backend.
    Bytes(Vec<u8>),
    /// A fault (`WL_F_*`) in the answer's place.
    Fault(u32),
}

/// A message as the mock runtime keeps it: view and all bytes.
struct HeldMessage {
    view: ComparedView,
    bytes: Vec<u8>,
    status: u32,
    /// Its streamed bytes are held: taken to be all behind its head.
    streams: bool,
}

impl HeldMessage {
    fn msg(&mut self) -> wl_msg {
        if self.status != WL_S_OK {
            return wl_msg { status: self.status, ..wl_msg::default() };
        }
        let head = parser(&self.view).head;
        let whole = if self.streams { self.bytes.len() as u32 } else { 0 };
        let body = if self.streams { wl_bytes::of(self.tail()) } else { wl_bytes::EMPTY };
        let (view, base) = (self.view.as_mut_ptr().cast(), self.bytes.as_ptr());
        wl_msg { view, base, head, status: WL_S_OK, body, whole, unit: 0 }
    }

    fn tail(&self) -> &[u8] {
        self.bytes.get(parser(&self.view).head as usize..).unwrap_or_default()
    }
}

/// The port of a wait for an entry.
const WAIT: u32 = u32::MAX;

struct Issued {
    port: u32,
    /// The protocol in which an upstream was asked.
    asked: Option<u32>,
    ctx: u64,
    flags: u32,
}

/// The notes of the host's functions, which reach them by `core->rt`.
#[derive(Default)]
struct Notes {
    acts: Vec<HandlerAct>,
    issued: Vec<Issued>,
    request_tail: Vec<u8>,
    reply_tail: Vec<u8>,
    out: Vec<u8>,
}

/// Largest head that the mock has room for.
const OUT_MAX: usize = 4 << 20;

/// A core with nothing but notes behind it.
pub struct Mock<'a> {
    t: &'a wl_program,
    m: &'a Module,
    core: Box<wl_core>,
    /// Memory that the core points to.
    _host: Box<wl_host>,
    _ports: Vec<wl_port>,
    _lists: Vec<Vec<u32>>,
    _up: Vec<Vec<u8>>,
    _servers: Vec<wl_endpoint>,
    _state: Box<[u64]>,
    _shared: Box<[u64]>,
    _params: Vec<wl_param>,
    notes: Box<Notes>,
    pub session: Vec<u64>,
    /// Replies of the current message: its handler may read them to its end.
    kept: Vec<(Vec<HeldMessage>, Vec<wl_msg>)>,
}

/// Instances of every connect port of the mock.
const INSTANCES: u32 = 3;

impl<'a> Mock<'a> {
    /// A core for the program, its memory initialised.
    ///
    /// # Safety
    /// `table` is valid for `'a`; what `params` point to outlives the mock.
    pub unsafe fn new(table: *const wl_program, m: &'a Module, params: &[wl_param]) -> Mock<'a> {
        // SAFETY: by contract.
        let t = unsafe { &*table };
        let host = Box::new(host_table());
        let load = vec![0u32; INSTANCES as usize];
        let up = vec![1u8; INSTANCES as usize];
        let ring: Vec<u32> = (0..64u32)
            .flat_map(|i| [i << 26, i % INSTANCES])
            .chain([INSTANCES + 1])
            .chain((0..=INSTANCES).map(|i| i % INSTANCES))
            .collect();
        let maglev: Vec<u32> = (0..101u32).map(|i| i * 7 % INSTANCES).collect();
        let server = |i| wl_endpoint::from(std::net::SocketAddr::from(([10, 0, 0, i], 7000)));
        let servers: Vec<wl_endpoint> = (1..=INSTANCES as u8).map(server).collect();
        let port = |p: &Port| wl_port {
            n: if matches!(p.kind, desc::PortKind::Connect(_)) { INSTANCES } else { 0 },
            _pad: 0,
            load: load.as_ptr(),
            up: up.as_ptr(),
            ring: ring.as_ptr(),
            ring_n: 64,
            maglev_n: maglev.len() as u32,
            maglev: maglev.as_ptr(),
            points: ring.as_ptr(),
            points_n: 64,
            _pad2: 0,
            server: servers.as_ptr(),
        };
        let ports: Vec<wl_port> = m.ports.iter().map(port).collect();
        let mut params = params.to_vec();
        params.resize(m.params.len().max(1), wl_param::default());
        let mut state = large_pages::placed(t.state_size as usize);
        let mut shared = large_pages::placed(t.shared_size as usize);
        let mut notes = Box::new(Notes { out: vec![0; 4096], ..Notes::default() });
        let out = wl_out::of(&mut notes.out);
        let core = Box::new(wl_core {
            rt: (&raw mut *notes).cast(),
            state: large_pages::first_line(&mut state).cast(),
            shared: large_pages::first_line(&mut shared).cast(),
            param: params.as_ptr(),
            port: ports.as_ptr(),
            now: 1_000_000_000,
            wall: 1_700_000_000_000_000_000,
            seed: 42,
            ..wl_core::of(&host, t.self_, out)
        });
        let mut mock = Mock {
            t,
            m,
            core,
            _host: host,
            _ports: ports,
            _lists: vec![load, ring, maglev],
            _up: vec![up],
            _servers: servers,
            _state: state,
            _shared: shared,
            _params: params,
            notes,
            session: vec![0; (t.session_size as usize).div_ceil(8) + 1],
            kept: Vec::new(),
        };
        // SAFETY: the program's own functions on memory of the sizes it asked for.
        unsafe {
            if let Some(f) = t.init_shared {
                f(t.self_, mock.core.shared, mock._params.as_ptr());
            }
            if let Some(f) = t.init_core {
                f(t.self_, &mut *mock.core);
            }
        }
        mock
    }

    /// Entries, hits, misses, inserts, evictions, expired and rejected of a table.
    pub fn table_stats(&self, t: TableId) -> [u64; 7] {
        let at = layout::table_stats_offset(t) as usize / 8;
        let at = at + (self.core.shared as usize - self._shared.as_ptr() as usize) / 8;
        std::array::from_fn(|i| self._shared[at + i])
    }

    pub fn set_now(&mut self, now: u64) {
        self.core.now = now;
    }

    /// Runs a handler without a message or connection; answers its result, and its fault's kind and
    /// place.
    pub fn run_plain(&mut self, handler: u32) -> (c_int, u16, u32) {
        let mut frame = vec![0u64; (self.t.frame_size as usize).div_ceil(8) + 1];
        let mut task = self.task(handler, &mut frame, std::ptr::null_mut(), wl_msg::default());
        let code = self.resume(&mut task);
        (code, task.fault, task.place)
    }

    /// The effects since the last call.
    pub fn take_acts(&mut self) -> Vec<HandlerAct> {
        std::mem::take(&mut self.notes.acts)
    }

    fn task(&mut self, handler: u32, frame: &mut [u64], conn: *mut wl_conn, req: wl_msg) -> wl_task {
        wl_task { core: &mut *self.core, conn, frame: frame.as_mut_ptr().cast(), handler, req, ..wl_task::default() }
    }

    fn resume(&mut self, task: &mut wl_task) -> c_int {
        match self.t.run {
            // SAFETY: the task and the core are whole; the program obeys the ABI.
            Some(f) => unsafe { f(self.t.self_, task) },
            None => WL_T_FAULT,
        }
    }

    /// Gives a request to the handler of a listen port; calls are answered from `answers`, in
    /// order, over and over. Answers everything the handler did.
    pub fn run_message(&mut self, handler: u32, request: &[u8], answers: &[MockAnswer]) -> Vec<HandlerAct> {
        let Some((protocol, unit)) = self.m.message_of(self.m.handlers[handler as usize].on) else {
            return vec![HandlerAct::NoRequest];
        };
        *self.notes = Notes { out: std::mem::take(&mut self.notes.out), ..Notes::default() };
        let Some(mut req) = self.keep(unit.0, 0, request, false) else { return vec![HandlerAct::NoRequest] };
        self.notes.request_tail = req.tail().to_vec();
        let peer = "192.0.2.7:4711".parse().map_or_else(|_| wl_endpoint::default(), |a: std::net::SocketAddr| a.into());
        let local =
            "198.51.100.1:80".parse().map_or_else(|_| wl_endpoint::default(), |a: std::net::SocketAddr| a.into());
        let mut conn =
            wl_conn { session: self.session.as_mut_ptr().cast(), peer, local, port: 0, instance: 0, id: 9, handle: 5 };
        let mut frame = vec![0u64; (self.t.frame_size as usize).div_ceil(8) + 1];
        let msg = req.msg();
        let mut task = self.task(handler, &mut frame, &mut conn, msg);
        let mut given = 0;
        self.kept.clear();
        loop {
            match self.resume(&mut task) {
                WL_T_SUSPEND => {}
                WL_T_DONE => {
                    self.notes.acts.push(HandlerAct::Done);
                    break;
                }
                _ => {
                    self.faulted(&task, protocol.0, &mut req);
                    break;
                }
            }
            if given > 10_000 {
                break;
            }
            let issued = std::mem::take(&mut self.notes.issued);
            let mut kept: Vec<HeldMessage> = issued.iter().map(|i| self.answer(i, answers, &mut given)).collect();
            self.notes.reply_tail = kept.first().map(|k| k.tail().to_vec()).unwrap_or_default();
            let mut parts: Vec<wl_msg> = kept.iter_mut().map(HeldMessage::msg).collect();
            task.part = parts.as_mut_ptr();
            task.parts = parts.len() as u32;
            task.rep = parts.first().copied().unwrap_or_default();
            self.kept.push((kept, parts));
        }
        self.log_request(protocol.0, &mut req);
        std::mem::take(&mut self.notes.acts)
    }

    /// The request's columns in the access log, where its protocol has some.
    fn log_request(&mut self, protocol: u32, req: &mut HeldMessage) {
        let (Some(note), Some(_)) = (self.t.note, &self.m.protocols[protocol as usize].on_log) else { return };
        let msg = req.msg();
        // SAFETY: the core and the message are whole.
        unsafe { note(self.t.self_, &mut *self.core, protocol, &msg) }
    }

    fn faulted(&mut self, task: &wl_task, protocol: u32, req: &mut HeldMessage) {
        self.notes.acts.push(HandlerAct::Fault { kind: task.fault, place: task.place });
        let f = wl_fault { kind: task.fault, side: 1, place: task.place, ..wl_fault::default() };
        let msg = req.msg();
        self.fault_reply(protocol, &f, Some(&msg));
    }

    fn fault_reply(&mut self, protocol: u32, f: &wl_fault, req: Option<&wl_msg>) {
        let Some(function) = self.t.fault_reply else { return };
        self.core.out.p = self.core.out.start;
        // SAFETY: the core and the fault are whole.
        let flags =
            unsafe { function(self.t.self_, &mut *self.core, protocol, f, req.map_or(std::ptr::null(), |r| r)) };
        let out = self.core.out;
        // SAFETY: `start` to `p` were written by the program.
        let bytes = unsafe { std::slice::from_raw_parts(out.start, out.p as usize - out.start as usize) }.to_vec();
        self.notes.acts.push(HandlerAct::FaultReply { bytes, flags });
        told(&mut self.core.outcome, &mut self.notes.acts);
    }

    fn answer(&mut self, call: &Issued, answers: &[MockAnswer], given: &mut usize) -> HeldMessage {
        let lost = |status| HeldMessage { view: ComparedView::new(8), bytes: Vec::new(), status, streams: false };
        if call.port == WAIT {
            return lost(WL_S_OK);
        }
        let answer = if answers.is_empty() { None } else { answers.get(*given % answers.len()) };
        *given += 1;
        let protocol = match call.asked {
            Some(protocol) => protocol as usize,
            None => self.m.ports[call.port as usize].protocols[0].index(),
        };
        match (answer, self.m.protocols[protocol].response) {
            (Some(MockAnswer::Bytes(b)), Some(unit)) => {
                self.keep(unit.0, call.ctx, b, call.flags & WL_C_HOLD != 0).unwrap_or_else(|| lost(WL_F_BAD_REPLY))
            }
            (Some(MockAnswer::Fault(kind)), _) => lost(*kind),
            _ => lost(WL_F_LOST),
        }
    }

    /// Parses a message that is there as a whole. `hold`: to its end, else its head only.
    fn keep(&self, unit: u32, ctx: u64, bytes: &[u8], hold: bool) -> Option<HeldMessage> {
        let mut v = view(self.t, unit, ctx);
        // SAFETY: the table is valid.
        let (mut code, _) = unsafe { feed(self.t, unit, &mut v, bytes, false, false) };
        if code == WL_MORE {
            v = view(self.t, unit, ctx);
            // SAFETY: as above.
            code = unsafe { feed(self.t, unit, &mut v, bytes, true, false) }.0;
        }
        let head = parser(&v).head as usize;
        let whole = match code {
            WL_WHOLE => head,
            WL_HEAD if parser(&v).flags & WL_M_IN_STEP == 0 => {
                let mut tail = v.copied();
                // SAFETY: as above.
                let (code, used) = unsafe { feed(self.t, unit, &mut tail, &bytes[head..], true, true) };
                if code != WL_WHOLE {
                    return None;
                }
                if hold {
                    v = tail;
                }
                head + used as usize
            }
            _ => return None,
        };
        let streams = self.m.units[unit as usize].streams;
        Some(HeldMessage { view: v, bytes: bytes[..whole].to_vec(), status: WL_S_OK, streams })
    }
}

/// The notes behind a core.
///
/// # Safety
/// The core is a mock's.
unsafe fn notes<'a>(core: *mut wl_core) -> &'a mut Notes {
    // SAFETY: by contract; the mock does not touch its notes while the program runs.
    unsafe { &mut *(*core).rt.cast::<Notes>() }
}

unsafe fn joined(n: &Notes, head: wl_bytes, tail: u32) -> Vec<u8> {
    // SAFETY: the program gives valid bytes.
    let mut all = unsafe { head.as_slice() }.to_vec();
    match tail {
        WL_TAIL_REQ => all.extend_from_slice(&n.request_tail),
        WL_TAIL_REP => all.extend_from_slice(&n.reply_tail),
        _ => {}
    }
    all
}

/// Takes what was said of an answer.
fn told(outcome: &mut u32, acts: &mut Vec<HandlerAct>) {
    match std::mem::take(outcome) {
        0 => {}
        n => acts.push(HandlerAct::Outcome(n)),
    }
}

/// The functions that note what a program does.
fn host_table() -> wl_host {
    wl_host {
        call: Some(call),
        reply: Some(reply),
        send: Some(send),
        grow: Some(grow),
        close: Some(close),
        log: Some(log),
        fault: Some(fault),
        keep: Some(keep),
        tell: Some(tell),
        ask: Some(ask),
        open: Some(open),
        shut: Some(shut),
        deliver: Some(deliver),
        dismiss: Some(dismiss),
        wait: Some(wait),
        pool: Some(pool),
        take: Some(take),
        pooled: Some(pooled),
        upstream_fact: Some(upstream_fact),
        change_protocol: Some(become_protocol),
        hold: Some(hold),
        ..wl_host::without_connections()
    }
}

unsafe extern "C" fn call(t: *mut wl_task, port: u32, index: u32, head: wl_bytes, tail: u32, c: *const wl_call) {
    // SAFETY: called by a program that the mock runs.
    unsafe {
        let (n, c) = (notes((*t).core), *c);
        let bytes = joined(n, head, tail);
        match std::mem::take(&mut (*(*t).core).place) {
            place if place != 0 && place >> 48 == u64::from(port) => n.acts.push(HandlerAct::Found(place)),
            _ => {}
        }
        let clauses = c.flags & !(WL_C_HOLD | WL_C_HOLD_REQ | WL_C_PIECES);
        n.acts.push(HandlerAct::Call { port, index, bytes, timeout: c.timeout_ns, ctx: c.ctx, clauses });
        n.issued.push(Issued { port, asked: None, ctx: c.ctx, flags: c.flags });
    }
}

unsafe extern "C" fn reply(t: *mut wl_task, head: wl_bytes, tail: u32, flags: u32) {
    // SAFETY: as for call.
    unsafe {
        let n = notes((*t).core);
        let bytes = joined(n, head, tail);
        n.acts.push(HandlerAct::Reply { bytes, flags: flags & !WL_R_PIECES });
        told(&mut (*(*t).core).outcome, &mut n.acts);
    }
}

unsafe extern "C" fn send(t: *mut wl_task, port: u32, index: u32, head: wl_bytes, tail: u32) {
    // SAFETY: as for call.
    unsafe {
        let n = notes((*t).core);
        let bytes = joined(n, head, tail);
        n.acts.push(HandlerAct::Send { port, index, bytes });
    }
}

unsafe extern "C" fn grow(core: *mut wl_core, need: u32) -> c_int {
    // SAFETY: as for call.
    unsafe {
        let (n, out) = (notes(core), &mut (*core).out);
        let used = out.p as usize - out.start as usize;
        let size = (used + need as usize).next_power_of_two();
        if size > OUT_MAX {
            return 0;
        }
        n.out.resize(size.max(n.out.len()), 0);
        let range = n.out.as_mut_ptr_range();
        *out = wl_out { start: range.start, p: range.start.add(used), end: range.end };
        1
    }
}

unsafe extern "C" fn close(t: *mut wl_task) {
    // SAFETY: as for call.
    unsafe { notes((*t).core).acts.push(HandlerAct::Close) }
}

unsafe extern "C" fn tell(t: *mut wl_task, to: u32, proto: u32, head: wl_bytes, tail: u32) -> u32 {
    // SAFETY: as for call.
    unsafe {
        let n = notes((*t).core);
        let bytes = joined(n, head, tail);
        n.acts.push(HandlerAct::Tell { to, proto, bytes });
        // Now and then it is lost.
        if n.acts.len() % 5 == 4 {
            WL_F_LOST
        } else {
            WL_F_NONE
        }
    }
}

unsafe extern "C" fn ask(t: *mut wl_task, upstream: u32, proto: u32, head: wl_bytes, tail: u32, c: *const wl_call) {
    // SAFETY: as for call.
    unsafe {
        let (n, c) = (notes((*t).core), *c);
        let bytes = joined(n, head, tail);
        let matches = c.flags & WL_C_MATCHES != 0;
        n.acts.push(HandlerAct::Ask { upstream, proto, bytes, timeout: c.timeout_ns, ctx: c.ctx, matches });
        n.issued.push(Issued { port: 0, asked: Some(proto), ctx: c.ctx, flags: c.flags });
    }
}

unsafe extern "C" fn open(t: *mut wl_task, upstream: u32, index: u32, pooled: u32, key: wl_bytes) -> u32 {
    // SAFETY: as for call.
    unsafe {
        let n = notes((*t).core);
        let key = (pooled != 0).then(|| key.as_slice().to_vec());
        n.acts.push(HandlerAct::Open { upstream, index, key });
        if index % 3 == 2 {
            WL_F_REFUSED
        } else {
            WL_F_NONE
        }
    }
}

unsafe extern "C" fn shut(t: *mut wl_task, upstream: u32) {
    // SAFETY: as for call.
    unsafe { notes((*t).core).acts.push(HandlerAct::Shut { upstream }) }
}

unsafe extern "C" fn pool(t: *mut wl_task, upstream: u32, key: wl_bytes) {
    // SAFETY: as for call.
    unsafe { notes((*t).core).acts.push(HandlerAct::Pool { upstream, key: key.as_slice().to_vec() }) }
}

unsafe extern "C" fn take(t: *mut wl_task, upstream: u32, index: u32) -> u32 {
    // SAFETY: as for call.
    unsafe {
        let n = notes((*t).core);
        n.acts.push(HandlerAct::Take { upstream, index });
        if index % 3 == 1 {
            WL_F_OVERLOAD
        } else {
            WL_F_NONE
        }
    }
}

unsafe extern "C" fn become_protocol(t: *mut wl_task, member: u32, proto: u32, rest: u32) -> u32 {
    // SAFETY: as for call.
    unsafe {
        let n = notes((*t).core);
        n.acts.push(HandlerAct::Become { member, proto, rest });
        // Now and then bytes have come ahead.
        if n.acts.len() % 4 == 3 {
            WL_F_EARLY
        } else {
            WL_F_NONE
        }
    }
}

/// Depends on all that the program says.
unsafe extern "C" fn pooled(_: *mut wl_core, port: u32, index: u32, key: wl_bytes) -> u32 {
    // SAFETY: as for call.
    let key = unsafe { key.as_slice() };
    key.iter().fold(port.wrapping_mul(7).wrapping_add(index), |sum, b| sum.wrapping_add(u32::from(*b))) % 3
}

unsafe extern "C" fn upstream_fact(_: *mut wl_task, upstream: u32, fact: u32) -> u64 {
    match fact {
        WL_UPSTREAM_ID => 0x1_0000_0001 * u64::from(upstream + 1),
        _ => u64::from(upstream + fact) % 3,
    }
}

unsafe extern "C" fn hold(t: *mut wl_task, member: u32, on: u32) {
    // SAFETY: as for call.
    unsafe { notes((*t).core).acts.push(HandlerAct::Hold { member, on }) }
}

unsafe extern "C" fn wait(t: *mut wl_task, table: u32, _: u64, timeout: u64, flags: u32) {
    // SAFETY: as for call.
    unsafe {
        let n = notes((*t).core);
        n.acts.push(HandlerAct::Wait { table, timeout });
        n.issued.push(Issued { port: WAIT, asked: None, ctx: 0, flags });
    }
}

/// The handles of an argument.
///
/// # Safety
/// `n` of them lie at `p`.
unsafe fn handles(p: *const u64, n: u32) -> Vec<u64> {
    // SAFETY: as the caller promises; without any, the pointer is not read.
    (0..n as usize).map(|i| unsafe { *p.add(i) }).collect()
}

unsafe extern "C" fn deliver(
    t: *mut wl_task,
    p: *const u64,
    n: u32,
    head: wl_bytes,
    tail: u32,
    proto: u32,
    place: u32,
) {
    // SAFETY: as for call.
    unsafe {
        let to = handles(p, n);
        let notes = notes((*t).core);
        let bytes = joined(notes, head, tail);
        notes.acts.push(HandlerAct::Deliver { to, proto, bytes, place });
    }
}

unsafe extern "C" fn dismiss(t: *mut wl_task, p: *const u64, n: u32) {
    // SAFETY: as for call.
    unsafe { notes((*t).core).acts.push(HandlerAct::Dismiss { to: handles(p, n) }) }
}

unsafe extern "C" fn keep(t: *mut wl_task, bytes: wl_bytes) -> c_int {
    // SAFETY: as for call. HeldMessage bytes stay to the end of the process: a test's few bytes.
    unsafe {
        let copy = bytes.as_slice().to_vec().leak();
        (*t).kept = wl_bytes { p: copy.as_ptr(), n: copy.len() as u32, ..wl_bytes::default() };
    }
    1
}

unsafe extern "C" fn log(core: *mut wl_core, level: u32, text: wl_bytes) {
    // SAFETY: as for call.
    unsafe { notes(core).acts.push(HandlerAct::Log { level, text: text.as_slice().to_vec() }) }
}

unsafe extern "C" fn fault(core: *mut wl_core, kind: u32, place: u32) {
    // SAFETY: as for call.
    unsafe { notes(core).acts.push(HandlerAct::Fault { kind: kind as u16, place }) }
}
