//! A hand-made program for tests: a line protocol, behind the same function table as generated
//! code.
//!
//! A message is a line. `d:5 …\n` is followed by a tail of 5 bytes, `u…\n` by one until the
//! connection ends. A digit after the first letter is the backend. First letters of requests:
//!
//! - `g` pass on; `e` echo; `q` pass on, unanswered; `c` pass on, then close;
//! - `a` ask all backends, join the answers; `h` hold request and reply over two calls;
//! - `t:5` echo with the tail; `d:5` pass on with the tail;
//! - `f` fault; `v` fault: built a message that is not valid; `n` no answer;
//! - `x` call a backend that does not exist; `w` pass on, wait 50 ms at most;
//! - `k` pass on; the backend's connection becomes its client's own;
//! - `?:5` a fault in step, with 5 bytes to drop; `?L:5` because it is too long.
//!
//! `g`, `w` and `h` may share connections. First letters of responses:
//!
//! - `i` interim (`i!`: the program changes it, or keeps it); `T` tunnel; `C` close after it;
//! - `K` the connection is its client's own; `D:5` with a tail; `u` until the end.
//!
//! `!` is garbage.
#![allow(clippy::missing_safety_doc)]

use crate::abi::*;
use crate::core::app::App;
use crate::program::Program;
use crate::server::AppSpec;
use std::ffi::c_void;
use std::sync::Arc;
use wireloom_ir::desc::*;

unsafe extern "C" fn parse(_: *mut c_void, _: u32, v: *mut wl_parser, buf: *const u8, n: u32, _: i32) -> i32 {
    let v = &mut *v;
    let b = std::slice::from_raw_parts(buf, n as usize);
    if v.pos == 0 && b[0] == b'!' {
        (v.fault, v.place) = (WL_F_MALFORMED as u16, 1);
        return WL_BAD;
    }
    let Some(at) = b[v.pos as usize..].iter().position(|c| *c == b'\n') else {
        v.pos = n;
        return WL_MORE;
    };
    v.head = v.pos + at as u32 + 1;
    let line = &b[..v.head as usize];
    v.flags = match line[0] {
        b'c' | b'C' => WL_M_CLOSE,
        b'q' => WL_M_NO_REPLY,
        b'i' => WL_M_INTERIM,
        b'T' => WL_M_TUNNEL,
        b'u' => WL_M_UNTIL_EOF,
        b'?' => WL_M_IN_STEP,
        b'g' => WL_M_REPEAT,
        b'k' | b'K' => WL_M_PRIVATE,
        _ => 0,
    };
    if line[0] == b'?' {
        (v.fault, v.place) = (if line.get(1) == Some(&b'L') { WL_F_TOO_LONG } else { WL_F_CONSTRAINT } as u16, 4);
    }
    if line[0] == b'u' {
        v.left = u64::MAX;
        return WL_HEAD;
    }
    if let Some(colon) = line.iter().position(|c| *c == b':') {
        let digits: Vec<u8> = line[colon + 1..].iter().copied().take_while(u8::is_ascii_digit).collect();
        v.left = String::from_utf8_lossy(&digits).parse().unwrap_or(0);
        return WL_HEAD;
    }
    if line[0] == b'?' {
        return WL_HEAD;
    }
    WL_WHOLE
}

unsafe extern "C" fn tail(
    _: *mut c_void,
    _: u32,
    v: *mut wl_parser,
    _: *const u8,
    n: u32,
    eof: i32,
    used: *mut u32,
) -> i32 {
    let v = &mut *v;
    let k = v.left.min(u64::from(n));
    v.left -= k;
    *used = k as u32;
    match v.left {
        0 if v.flags & WL_M_IN_STEP != 0 => WL_BAD,
        0 => WL_WHOLE,
        _ if eof != 0 && v.flags & WL_M_UNTIL_EOF != 0 => WL_WHOLE,
        _ if eof != 0 => WL_BAD,
        _ => WL_MORE,
    }
}

unsafe fn bytes(m: &wl_msg) -> &'static [u8] {
    std::slice::from_raw_parts(m.base, m.head as usize)
}

unsafe extern "C" fn run(_: *mut c_void, task: *mut wl_task) -> i32 {
    let t = &mut *task;
    if t.handler != 0 {
        return event(t);
    }
    let host = *(*t.core).host;
    let (call, reply) = (host.call.unwrap(), host.reply.unwrap());
    let n = (*(*t.core).port.add(1)).n;
    let frame = t.frame.cast::<u64>();
    let mut how = wl_call::default();
    if t.pc == 0 {
        let req = bytes(&t.req);
        let index = u32::from(req.get(1).filter(|c| c.is_ascii_digit()).map_or(0, |c| c - b'0'));
        *frame = u64::from(req[0]);
        t.pc = 1;
        let head = wl_bytes::of(req);
        match req[0] {
            b'e' => {
                reply(task, head, WL_TAIL_NONE, 0);
                return WL_T_DONE;
            }
            b'b' => {
                let us: u64 = std::str::from_utf8(&req[1..])
                    .ok()
                    .and_then(|t| t.split_whitespace().next()?.parse().ok())
                    .unwrap_or(0);
                crate::engine::memory::work(us * 1000);
                reply(task, head, WL_TAIL_NONE, 0);
                return WL_T_DONE;
            }
            b't' => {
                reply(task, head, WL_TAIL_REQ, 0);
                return WL_T_DONE;
            }
            b'f' => {
                (t.fault, t.place) = (WL_F_USER as u16, 2);
                return WL_T_FAULT;
            }
            b'v' => {
                (t.fault, t.place) = (WL_F_CONSTRAINT as u16, 5);
                return WL_T_FAULT;
            }
            b'n' => return WL_T_DONE,
            b'a' => {
                how.flags = WL_C_HOLD;
                (0..n).for_each(|i| call(task, 1, i, head, WL_TAIL_NONE, &how));
            }
            b'h' => {
                how.flags = WL_C_HOLD | WL_C_HOLD_REQ | WL_C_PIPELINE;
                call(task, 1, index, head, WL_TAIL_NONE, &how);
            }
            b'x' => call(task, 1, 99, head, WL_TAIL_NONE, &how),
            b'd' => call(task, 1, index, head, WL_TAIL_REQ, &how),
            first => {
                how.flags = if first == b'g' || first == b'w' { WL_C_PIPELINE } else { 0 };
                how.timeout_ns = if first == b'w' { 50_000_000 } else { 0 };
                call(task, 1, index, head, WL_TAIL_NONE, &how);
            }
        }
        return WL_T_SUSPEND;
    }
    let parts = std::slice::from_raw_parts(t.part, t.parts as usize);
    if *frame == u64::from(b'a') {
        let text: Vec<u8> = parts
            .iter()
            .flat_map(|p| if p.status == 0 { bytes(p).to_vec() } else { format!("({})", p.status).into_bytes() })
            .collect();
        let joined: Vec<u8> = text.iter().map(|c| if *c == b'\n' { b'+' } else { *c }).chain([b'\n']).collect();
        reply(task, wl_bytes::of(&joined), WL_TAIL_NONE, 0);
        return WL_T_DONE;
    }
    if t.rep.status != 0 {
        (t.fault, t.place) = (t.rep.status as u16, 3);
        return WL_T_FAULT;
    }
    if *frame == u64::from(b'h') && t.pc == 1 {
        // The first reply must survive the second call.
        t.pc = 2;
        *frame.add(1) = t.rep.base as u64;
        *frame.add(2) = u64::from(t.rep.head);
        let head = wl_bytes::of(bytes(&t.req));
        call(task, 1, (n > 1) as u32, head, WL_TAIL_NONE, &how);
        return WL_T_SUSPEND;
    }
    if t.pc == 2 {
        let first = std::slice::from_raw_parts(*frame.add(1) as *const u8, *frame.add(2) as usize - 1);
        let all = [bytes(&t.req).strip_suffix(b"\n").unwrap_or(b""), b"=", first, b"+", bytes(&t.rep)].concat();
        reply(task, wl_bytes::of(&all), WL_TAIL_NONE, 0);
        return WL_T_DONE;
    }
    reply(task, wl_bytes::of(bytes(&t.rep)), WL_TAIL_REP, 0);
    WL_T_DONE
}

/// Handlers 1.. count in the core's state: opened, closed, fault, every, start.
unsafe fn event(t: &mut wl_task) -> i32 {
    *(*t.core).state.cast::<u64>().add(t.handler as usize) += 1;
    WL_T_DONE
}

unsafe extern "C" fn fault_reply(
    _: *mut c_void,
    core: *mut wl_core,
    _: u32,
    f: *const wl_fault,
    _: *const wl_msg,
) -> u32 {
    let text = format!("!{}\n", (*f).kind);
    let out = &mut (*core).out;
    std::ptr::copy_nonoverlapping(text.as_ptr(), out.p, text.len());
    out.p = out.p.add(text.len());
    let kind = u32::from((*f).kind);
    if kind <= WL_F_TRUNCATED || kind == WL_F_IDLE {
        WL_R_CLOSE
    } else {
        0
    }
}

/// `i! …` goes to the client without the mark, and not at all if that is all of it; others go as
/// they came.
unsafe extern "C" fn interim(_: *mut c_void, core: *mut wl_core, _: u32, answer: *const wl_msg) -> u32 {
    let head = std::slice::from_raw_parts((*answer).base, (*answer).head as usize);
    let Some(rest) = head.strip_prefix(b"i!") else { return 0 };
    if rest == b"\n" {
        return WL_R_NOTHING;
    }
    let out = &mut (*core).out;
    *out.p = b'i';
    std::ptr::copy_nonoverlapping(rest.as_ptr(), out.p.add(1), rest.len());
    out.p = out.p.add(1 + rest.len());
    0
}

/// The line program as an app: `client` listens on port 7000, `backends` are `servers`.
pub fn app(exclusive: bool, sets: &[&str]) -> Arc<App> {
    app_of(spec(exclusive, sets))
}

/// The same, not yet checked.
pub fn spec(exclusive: bool, sets: &[&str]) -> AppSpec {
    spec_of(desc(exclusive), sets)
}

/// The same with ids: answers are matched by the two bytes behind the first letter.
pub fn app_by_id(exclusive: bool, sets: &[&str]) -> Arc<App> {
    let mut d = desc(exclusive);
    d.protocols[0].order = Order::ById { request: 1, response: 1, width: 2 };
    app_of(spec_of(d, sets))
}

fn app_of(s: AppSpec) -> Arc<App> {
    App::new(s.program, s.desc, &s.sets).unwrap()
}

fn spec_of(desc: Desc, sets: &[&str]) -> AppSpec {
    let unit = Box::leak(Box::new([
        wl_unit {
            view_size: 64,
            head_max: 1024,
            whole_max: 16 << 20,
            parse: Some(parse),
            tail: Some(tail),
            copy: None,
        },
        wl_unit {
            view_size: 64,
            head_max: 1024,
            whole_max: 16 << 20,
            parse: Some(parse),
            tail: Some(tail),
            copy: None,
        },
    ]));
    let table = Box::leak(Box::new(wl_program {
        abi: WL_ABI,
        units: 2,
        handlers: 6,
        frame_size: 24,
        state_size: 64,
        shared_size: 0,
        session_size: 16,
        tmp_size: 0,
        self_: std::ptr::null_mut(),
        unit: unit.as_ptr(),
        init_shared: None,
        init_core: None,
        run: Some(run),
        fault_reply: Some(fault_reply),
        interim: Some(interim),
        cancel: None,
        note: None,
        answer: None,
        context: None,
        run_of: None,
        point: None,
    }));
    // SAFETY: leaked, so valid for the process.
    let program = unsafe { Program::from_table(table) }.unwrap();
    AppSpec { program, desc, sets: sets.iter().map(|s| crate::params::pair(s).unwrap()).collect() }
}

/// The protocol of its ports.
pub fn protocol(exclusive: bool) -> ProtocolDesc {
    ProtocolDesc {
        name: "line".into(),
        request: 0,
        response: Some(1),
        sharing: if exclusive { Sharing::Exclusive } else { Sharing::Pipelined },
        server_first: false,
        order: Order::InOrder,
        first: (0..=255).collect(),
        default_ctx: 0,
        ignore: None,
        expects: Vec::new(),
        classes: Vec::new(),
        logs: false,
        tells_drain: false,
        tells_idle: false,
        tells_owed: false,
        tells_match: false,
        args: [false; 2],
    }
}

fn desc(exclusive: bool) -> Desc {
    let port = |name: &str, kind| PortDesc::plain(name, kind, vec![0]);
    let on = |on| HandlerDesc {
        name: format!("{on:?}"),
        on,
        steps: 1,
        pauses: None,
        alone: false,
        one_by_one: false,
        run_to: None,
        run_as: 0,
        begins: Begins::Any,
        frames: FrameUse::Edits,
        sends: true,
        core_kind: CoreKind::Both,
        segment: None,
    };
    let param = |name: &str, ty, default| ParamDesc {
        name: name.into(),
        ty,
        form: Form::Plain,
        default,
        doc: String::new(),
        live: name == "servers",
    };
    Desc {
        app: "line".into(),
        params: vec![
            param("port", ParamType::UInt(16), Some(ParamValue::UInt(7000))),
            param(
                "servers",
                ParamType::Endpoints(8),
                Some(ParamValue::Endpoints(vec!["10.9.0.1:1".into(), "10.9.0.2:1".into()])),
            ),
        ],
        ports: vec![
            port("client", PortKind::Listen(Value::Param(0))),
            port("backends", PortKind::Connect(Value::Param(1))),
        ],
        protocols: vec![protocol(exclusive)],
        units: vec!["Request".into(), "Response".into()],
        handlers: vec![
            on(HandlerOn::Message { port: 0, alternative: 0 }),
            on(HandlerOn::Opened { port: 0 }),
            on(HandlerOn::Closed { port: 0 }),
            on(HandlerOn::Fault),
            on(HandlerOn::Every { period: 1_000_000_000 }),
            on(HandlerOn::Start),
        ],
        ..Desc::default()
    }
}
