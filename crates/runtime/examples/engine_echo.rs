//! An echo server on an engine, to measure the engine's cost per message.
//!
//! `engine_echo epoll|uring PORT`: serves until killed. `engine_echo load PORT CONNS SECONDS PID`:
//! sends 100-byte messages on CONNS connections, one outstanding on each. It prints messages per
//! second and the CPU time per message of process PID. Pin the two to different cores (`taskset
//! -c`).

use std::collections::HashMap;
use std::io::{IoSlice, Read, Write as _};
use std::time::{Duration, Instant};
use wireloom_runtime::engine::{open, Engine, EngineKind, Event, Token, WriteResult};

/// A connection's output: the bytes being sent, and the bytes that came meanwhile.
#[derive(Default)]
struct Out {
    sending: Vec<u8>,
    next: Vec<u8>,
    in_flight: bool,
}

fn flush(engine: &mut dyn Engine, conn: Token, o: &mut Out) {
    while !o.in_flight {
        if o.sending.is_empty() {
            std::mem::swap(&mut o.sending, &mut o.next);
        }
        if o.sending.is_empty() {
            return;
        }
        // SAFETY: `sending` is not touched before `Sent` is there.
        match unsafe { engine.write(conn, &[IoSlice::new(&o.sending)]) } {
            WriteResult::InFlight => o.in_flight = true,
            WriteResult::Done(n) if n > 0 => drop(o.sending.drain(..n)),
            _ => return,
        }
    }
}

fn serve(kind: EngineKind, port: u16) -> std::io::Result<()> {
    let mut engine = open(kind)?;
    engine.listen((std::net::Ipv4Addr::LOCALHOST, port).into())?;
    let mut events = Vec::new();
    let mut out: HashMap<Token, Out> = HashMap::new();
    loop {
        events.clear();
        engine.poll(None, &mut events)?;
        for e in &events {
            match *e {
                Event::Accepted { conn, .. } => drop(out.insert(conn, Out::default())),
                Event::Data { conn, start, len } => {
                    let Some(o) = out.get_mut(&conn) else { continue };
                    o.next.extend_from_slice(engine.data(start, len));
                    flush(&mut *engine, conn, o);
                }
                Event::Sent { conn, len } => {
                    let Some(o) = out.get_mut(&conn) else { continue };
                    o.in_flight = false;
                    o.sending.drain(..len as usize);
                    if !o.sending.is_empty() || !o.next.is_empty() {
                        flush(&mut *engine, conn, o);
                    }
                }
                Event::Writable { conn } => {
                    if let Some(o) = out.get_mut(&conn) {
                        flush(&mut *engine, conn, o);
                    }
                }
                Event::Eof { conn } | Event::Broken { conn } => {
                    engine.close(conn, false);
                    if !engine.pending_close(conn) {
                        out.remove(&conn);
                    }
                }
                _ => {}
            }
        }
    }
}

/// CPU time of a process so far, in seconds.
fn cpu(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|s| s.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn load(port: u16, conns: usize, seconds: u64, pid: u32) -> std::io::Result<()> {
    let mut streams = Vec::new();
    for _ in 0..conns {
        let s = std::net::TcpStream::connect(("127.0.0.1", port))?;
        s.set_nodelay(true)?;
        streams.push(s);
    }
    let (message, mut answer) = ([b'x'; 100], [0; 100]);
    let (mut count, mut start, mut before) = (0u64, Instant::now(), cpu(pid));
    let mut warm = false;
    while start.elapsed() < Duration::from_secs(seconds) {
        for s in &mut streams {
            s.write_all(&message)?;
        }
        for s in &mut streams {
            s.read_exact(&mut answer)?;
        }
        count += conns as u64;
        if !warm && start.elapsed() > Duration::from_millis(500) {
            (warm, count, start, before) = (true, 0, Instant::now(), cpu(pid));
        }
    }
    let (elapsed, used) = (start.elapsed().as_secs_f64(), cpu(pid) - before);
    println!("{conns} conns: {:.0} msg/s, {:.3} us CPU/msg", count as f64 / elapsed, used * 1e6 / count as f64);
    Ok(())
}

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args.get(i).and_then(|s| s.parse::<u32>().ok()).unwrap_or(0);
    match args.get(1).map(String::as_str) {
        Some("epoll") => serve(EngineKind::Epoll, number(2) as u16),
        Some("uring") => serve(EngineKind::Uring, number(2) as u16),
        Some("load") => load(number(2) as u16, number(3) as usize, u64::from(number(4)), number(5)),
        _ => {
            eprintln!("usage: engine_echo epoll|uring PORT | load PORT CONNS SECONDS PID");
            std::process::exit(2)
        }
    }
}
