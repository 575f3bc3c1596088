//! Compares the layout of every ABI struct with that of the C compiler for `support/wireloom.h`.
use super::*;
use std::mem::{offset_of, size_of};
use std::path::PathBuf;
use std::process::Command;

/// For each struct: its name, its size, and (C field name, offset) of each field.
type StructLayout = (&'static str, usize, Vec<(&'static str, usize)>);

macro_rules! layout {
    ($t:ident: $($f:ident),*) => { layout!($t: $($f = $f),*) };
    ($t:ident: $($f:ident = $c:ident),*) => {
        (stringify!($t), size_of::<$t>(), vec![$((stringify!($c), offset_of!($t, $f))),*])
    };
}

fn ours() -> Vec<StructLayout> {
    vec![
        layout!(wl_bytes: p, n, _pad),
        layout!(wl_parser: pc, fault, place, pos, scan, head, flags, left, ctx),
        layout!(wl_msg: view, base, head, status, body, whole, unit),
        layout!(wl_fault: kind, side, place, port, start_n, ctx, start),
        layout!(wl_out: start, p, end),
        layout!(wl_endpoint: ip, port, v4, _pad),
        layout!(wl_conn: session, peer, local, port, instance, id, handle),
        layout!(wl_task: core, conn, frame, handler, pc, fault, _pad, place, req, rep, part, parts, _pad2, kept),
        layout!(wl_call: timeout_ns, ctx, flags, _pad),
        layout!(wl_host: call, reply, send, grow, close, log, fault, crypto, pause, keep, tell, ask, open, shut, deliver, dismiss, wait, changed, change_protocol, hold, pool, take, pooled, upstream_fact, late),
        layout!(wl_port: n, _pad, load, up, ring, ring_n, maglev_n, maglev, points, points_n, _pad2, server),
        layout!(wl_param: u, b, ep),
        layout!(wl_core: host = host, rt = rt, state = state, shared = shared, param = param, port = port, now = now,
            wall = wall, seed = seed, index = index, cores = cores, out = out, self_ = self, left = left, draining = draining, fuel = fuel, tmp = tmp, outcome = outcome, mark = mark, place = place, at = at, frames = frames, entries = entries, behind = behind),
        layout!(wl_left: bytes, frames, out, known, _pad),
        layout!(wl_window: buf, pos, n, eof, messages),
        layout!(wl_merge_at: input, fault, place, used, messages),
        layout!(wl_merge: state_size, inputs, message_max, run),
        layout!(wl_frame: p, n, wire, time, out, port, instance, head, tail),
        layout!(wl_packets: batch, steer, transmit, queue, serve),
        layout!(wl_unit: view_size, head_max, whole_max, parse, tail, copy),
        layout!(wl_program: abi = abi, units = units, handlers = handlers, frame_size = frame_size,
            state_size = state_size, shared_size = shared_size, session_size = session_size, tmp_size = tmp_size, self_ = self,
            unit = unit, init_shared = init_shared, init_core = init_core, run = run, fault_reply = fault_reply,
            interim = interim, cancel = cancel, note = note, answer = answer, context = context, run_of = run_of, point = point),
    ]
}

fn constants() -> Vec<(&'static str, i64)> {
    macro_rules! c { ($($n:ident),*) => { vec![$((stringify!($n), $n as i64)),*] } }
    c!(
        WL_ABI,
        WL_MORE,
        WL_HEAD,
        WL_WHOLE,
        WL_BAD,
        WL_M_CLOSE,
        WL_M_INTERIM,
        WL_M_TUNNEL,
        WL_M_NO_REPLY,
        WL_M_UNTIL_EOF,
        WL_M_IN_STEP,
        WL_M_REPEAT,
        WL_M_PRIVATE,
        WL_M_REFUSAL,
        WL_M_ALONE,
        WL_M_STRAY,
        WL_M_IDLE,
        WL_M_RESET,
        WL_M_CHUNKS,
        WL_M_EXPECTS,
        WL_M_OWES,
        WL_M_UNFINISHED,
        WL_M_SETTLES,
        WL_C_MATCHES,
        WL_UPSTREAM_ID,
        WL_UPSTREAM_INSTANCE,
        WL_UPSTREAM_OWED,
        WL_TO_PIECE,
        WL_TO_NONE,
        WL_BODY,
        WL_TAIL_NONE,
        WL_TAIL_REQ,
        WL_TAIL_REP,
        WL_F_NONE,
        WL_F_MALFORMED,
        WL_F_TOO_LONG,
        WL_F_TRUNCATED,
        WL_F_CONSTRAINT,
        WL_F_INDEX,
        WL_F_DIVISION,
        WL_F_NONE_VALUE,
        WL_F_LOST,
        WL_F_REFUSED,
        WL_F_TIMEOUT,
        WL_F_BAD_REPLY,
        WL_F_OVERLOAD,
        WL_F_IDLE,
        WL_F_FULL,
        WL_F_CANCELLED,
        WL_F_NO_REPLY,
        WL_F_INTERNAL,
        WL_F_EARLY,
        WL_F_UNSPOKEN,
        WL_F_SHUTDOWN,
        WL_F_ENDED,
        WL_F_USER,
        WL_S_OK,
        WL_T_DONE,
        WL_T_SUSPEND,
        WL_T_FAULT,
        WL_C_HOLD,
        WL_C_HOLD_REQ,
        WL_C_PIPELINE,
        WL_C_JUDGED,
        WL_C_NO_REPLY,
        WL_C_REPEAT,
        WL_C_PRIVATE,
        WL_C_ENDS,
        WL_R_CLOSE,
        WL_R_NOTHING,
        WL_G_DRY,
        WL_G_FULL,
        WL_G_DONE,
        WL_G_BAD,
        WL_HEADROOM,
        WL_TAILROOM,
        WL_GONE,
        WL_X_AES_CTR,
        WL_X_AES_CBC_ENCRYPT,
        WL_X_AES_CBC_DECRYPT,
        WL_X_AES_GCM_SEAL,
        WL_X_AES_GCM_OPEN,
        WL_X_HMAC_SHA1,
        WL_X_HMAC_SHA256,
        WL_X_SHA1,
        WL_X_SHA256,
        WL_X_RANDOM
    )
}

/// A C program that prints one line per struct, field and constant.
fn c_program() -> String {
    let mut c = String::from("#include <stdio.h>\n#include \"wireloom.h\"\nint main(void){\n");
    for (name, _, fields) in ours() {
        c += &format!("printf(\"{name} %zu\\n\", sizeof({name}));\n");
        for (f, _) in fields {
            c += &format!("printf(\"{name}.{f} %zu\\n\", offsetof({name}, {f}));\n");
        }
    }
    for (name, _) in constants() {
        c += &format!("printf(\"{name} %lld\\n\", (long long){name});\n");
    }
    c + "return 0;}\n"
}

fn expected() -> String {
    let mut s = String::new();
    for (name, size, fields) in ours() {
        s += &format!("{name} {size}\n");
        for (f, o) in fields {
            s += &format!("{name}.{f} {o}\n");
        }
    }
    for (name, v) in constants() {
        s += &format!("{name} {v}\n");
    }
    s
}

#[test]
fn layout_is_that_of_the_header() {
    let Some(cc) = ["clang", "cc", "gcc"].into_iter().find(|c| Command::new(c).arg("--version").output().is_ok())
    else {
        eprintln!("SKIPPED layout_is_that_of_the_header: no C compiler on this machine");
        return;
    };
    let dir = std::env::temp_dir().join(format!("wireloom-abi-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (src, exe) = (dir.join("abi.c"), dir.join("abi"));
    std::fs::write(&src, c_program()).unwrap();
    let include = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../support");
    let out = Command::new(cc)
        .arg("-Wall")
        .arg("-Wextra")
        .arg("-Werror")
        .arg("-I")
        .arg(include)
        .arg(&src)
        .arg("-o")
        .arg(&exe)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let run = Command::new(&exe).output().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(String::from_utf8(run.stdout).unwrap(), expected());
}

#[test]
fn endpoints_survive_the_round_trip() {
    for a in ["127.0.0.1:80", "[::1]:443", "255.1.2.3:65535", "[2001:db8::1]:1"] {
        let a: std::net::SocketAddr = a.parse().unwrap();
        assert_eq!(std::net::SocketAddr::from(wl_endpoint::from(a)), a);
    }
}
