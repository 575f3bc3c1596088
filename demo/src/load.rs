//! Clients: a few connections per side, each a thread that asks, checks the answer, and notes how
//! long it took.

use hdrhistogram::Histogram;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub const CONNECTIONS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(3);
/// On each key, one after the other.
const OPERATIONS: u64 = 10;

/// The answers that all clients of one side have seen so far.
pub struct Meter {
    pub answers: AtomicU64,
    /// Errors that the proxy said (a lost backend is one for its keys only).
    pub errors: AtomicU64,
    /// Failures that must never happen: a wrong answer, a connection lost, no answer at all.
    pub wrong: AtomicU64,
    /// Microseconds since the last look.
    pub latency: Mutex<Histogram<u64>>,
    pub total: Mutex<Histogram<u64>>,
    stop: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Memcached,
    Http,
}

enum Answer {
    Good,
    Error,
}

impl Meter {
    pub fn new() -> Arc<Meter> {
        let histogram = || Histogram::new_with_bounds(1, 60_000_000, 3).expect("fixed, valid bounds");
        Arc::new(Meter {
            answers: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            latency: Mutex::new(histogram()),
            total: Mutex::new(histogram()),
            stop: AtomicBool::new(false),
        })
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Median and 99th percentile in µs since the last call.
    pub fn take_latency(&self) -> (u64, u64) {
        let mut h = self.latency.lock().unwrap_or_else(|e| e.into_inner());
        let result = (h.value_at_quantile(0.5), h.value_at_quantile(0.99));
        h.reset();
        result
    }
}

/// Starts the clients of one side.
pub fn start(kind: Kind, port: u16, meter: &Arc<Meter>) -> Vec<std::thread::JoinHandle<()>> {
    (0..CONNECTIONS)
        .map(|n| {
            let meter = meter.clone();
            std::thread::spawn(move || client(kind, port, n, &meter))
        })
        .collect()
}

/// One client: connects again whenever it lost its connection.
fn client(kind: Kind, port: u16, n: usize, meter: &Meter) {
    let mut round = 0u64;
    while !meter.stop.load(Ordering::Relaxed) {
        let result = talk(kind, port, n, &mut round, meter);
        if result.is_err() && !meter.stop.load(Ordering::Relaxed) {
            meter.wrong.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn talk(kind: Kind, port: u16, n: usize, round: &mut u64, meter: &Meter) -> std::io::Result<()> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    while !meter.stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let (answer, close) = match kind {
            Kind::Memcached => (memcached(&mut reader, &mut writer, n, *round)?, false),
            Kind::Http => http(&mut reader, &mut writer)?,
        };
        *round += 1;
        meter.answers.fetch_add(1, Ordering::Relaxed);
        if let Answer::Error = answer {
            meter.errors.fetch_add(1, Ordering::Relaxed);
            // The client goes on with its next key: it does not make those that are served wait.
            *round = round.next_multiple_of(OPERATIONS);
        }
        let us = begin.elapsed().as_micros() as u64;
        for histogram in [&meter.latency, &meter.total] {
            histogram.lock().unwrap_or_else(|e| e.into_inner()).saturating_record(us.max(1));
        }
        if close {
            return Ok(());
        }
    }
    Ok(())
}

fn bad(text: String) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, text)
}

fn line(reader: &mut impl BufRead) -> std::io::Result<String> {
    let mut text = String::new();
    if reader.read_line(&mut text)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(text)
}

/// One `set` for nine `get`s over a hundred keys per client; the value says whose it is, so that an
/// answer to the wrong client shows.
fn memcached(reader: &mut impl BufRead, writer: &mut impl Write, n: usize, round: u64) -> std::io::Result<Answer> {
    let key = format!("demo-{n}-{}", round / OPERATIONS % 100);
    if round.is_multiple_of(OPERATIONS) {
        let value = format!("{key}={round}");
        write!(writer, "set {key} 0 0 {}\r\n{value}\r\n", value.len())?;
        let answer = line(reader)?;
        return match answer.as_str() {
            "STORED\r\n" => Ok(Answer::Good),
            a if a.starts_with("SERVER_ERROR") => Ok(Answer::Error),
            a => Err(bad(format!("answer to set: {a:?}"))),
        };
    }
    write!(writer, "get {key}\r\n")?;
    let answer = line(reader)?;
    if answer.starts_with("SERVER_ERROR") {
        return Ok(Answer::Error);
    }
    if answer == "END\r\n" {
        return Ok(Answer::Good);
    }
    let size = answer
        .strip_prefix(&format!("VALUE {key} 0 "))
        .and_then(|s| s.trim_end().parse::<usize>().ok())
        .ok_or_else(|| bad(format!("answer to get {key}: {answer:?}")))?;
    let mut rest = vec![0; size + 7];
    reader.read_exact(&mut rest)?;
    if !rest.starts_with(format!("{key}=").as_bytes()) || !rest.ends_with(b"\r\nEND\r\n") {
        return Err(bad("the value of another key".into()));
    }
    Ok(Answer::Good)
}

/// Also whether the connection ends.
fn http(reader: &mut impl BufRead, writer: &mut impl Write) -> std::io::Result<(Answer, bool)> {
    writer.write_all(b"GET / HTTP/1.1\r\nHost: demo\r\n\r\n")?;
    let status = line(reader)?;
    let (mut length, mut close) = (0, false);
    loop {
        let field = line(reader)?.to_ascii_lowercase();
        if field == "\r\n" {
            break;
        }
        if let Some(n) = field.strip_prefix("content-length:") {
            length = n.trim().parse().map_err(|_| bad(field.clone()))?;
        }
        close |= field.starts_with("connection:") && field.contains("close");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    match status.get(9..12) {
        Some("200") if body.starts_with(b"backend ") => Ok((Answer::Good, close)),
        Some("502" | "503" | "504") => Ok((Answer::Error, close)),
        _ => Err(bad(format!("answer {status:?}"))),
    }
}
