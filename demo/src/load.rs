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

/// One `set` for nine `get`s over a hundred keys per client. The value says whose it is, so that an
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

#[cfg(test)]
mod tests {
    //! Clients beside servers that answer by a rule. The rule says what counts as an answer, an
    //! error and a wrong answer, and how a client goes on behind each.

    use super::*;
    use std::net::TcpListener;

    /// Serves one client after another. `rule` gives the answer to a request by its first line; an
    /// empty one closes the connection. The first lines of the requests, in order.
    fn server(rule: impl Fn(usize, &str) -> String + Send + 'static) -> (u16, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut writer = stream.unwrap();
                let mut reader = BufReader::new(writer.try_clone().unwrap());
                while let Ok(first) = line(&mut reader) {
                    // The rest of a request: the data of `set`, the fields of HTTP.
                    let http = first.starts_with("GET ");
                    while http && line(&mut reader).is_ok_and(|l| l != "\r\n") {}
                    if first.starts_with("set ") {
                        line(&mut reader).unwrap();
                    }
                    let answer = rule(noted.lock().unwrap().len(), first.trim_end());
                    noted.lock().unwrap().push(first.trim_end().to_string());
                    if answer.is_empty() || writer.write_all(answer.as_bytes()).is_err() {
                        break;
                    }
                }
            }
        });
        (port, asked)
    }

    /// Lets one client ask until `n` requests have been seen.
    fn play(kind: Kind, n: usize, rule: impl Fn(usize, &str) -> String + Send + 'static) -> (Arc<Meter>, Vec<String>) {
        let (port, asked) = server(rule);
        let meter = Meter::new();
        let its = meter.clone();
        let thread = std::thread::spawn(move || client(kind, port, 7, &its));
        let until = Instant::now() + Duration::from_secs(20);
        while asked.lock().unwrap().len() < n {
            assert!(Instant::now() < until, "{n} requests within 20 s");
            std::thread::sleep(Duration::from_millis(1));
        }
        meter.stop();
        thread.join().unwrap();
        let seen = asked.lock().unwrap()[..n].to_vec();
        (meter, seen)
    }

    fn count(n: &AtomicU64) -> u64 {
        n.load(Ordering::Relaxed)
    }

    /// The word at a place of a line.
    fn word(line: &str, n: usize) -> &str {
        line.split(' ').nth(n).unwrap_or("")
    }

    fn held(asked: &str) -> String {
        match word(asked, 0) {
            "set" => "STORED\r\n".into(),
            _ => {
                let value = format!("{}=0", word(asked, 1));
                format!("VALUE {} 0 {}\r\n{value}\r\nEND\r\n", word(asked, 1), value.len())
            }
        }
    }

    #[test]
    fn nine_reads_follow_each_write_of_a_key() {
        let (meter, seen) = play(Kind::Memcached, 25, |_, asked| held(asked));
        let verbs: Vec<&str> = seen.iter().map(|l| word(l, 0)).collect();
        for (i, verb) in verbs.iter().enumerate() {
            assert_eq!(*verb, if i % 10 == 0 { "set" } else { "get" }, "{seen:?}");
        }
        assert!(seen[..10].iter().all(|l| word(l, 1) == "demo-7-0"));
        assert!(seen[10..20].iter().all(|l| word(l, 1) == "demo-7-1"));
        assert!(count(&meter.answers) >= 24);
        assert_eq!((count(&meter.errors), count(&meter.wrong)), (0, 0));
    }

    /// Half of the keys have lost their server. The client asks for the next key at once: it does
    /// not make the keys wait that are served.
    #[test]
    fn an_error_costs_the_served_keys_nothing() {
        let begin = Instant::now();
        let lost = |asked: &str| word(asked, 1).ends_with(['1', '3', '5', '7', '9']);
        let (meter, seen) =
            play(
                Kind::Memcached,
                1100,
                move |_, asked| {
                    if lost(asked) {
                        "SERVER_ERROR backend lost\r\n".into()
                    } else {
                        held(asked)
                    }
                },
            );
        // An error is the only request for its key in a round: 1 of 11.
        let errors = seen.iter().filter(|l| lost(l)).count();
        assert_eq!((errors, seen.len() - errors), (100, 1000));
        assert!(count(&meter.errors) >= 99 && count(&meter.wrong) == 0);
        // A pause of 50 ms behind each error would be 5 s.
        assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    }

    #[test]
    fn the_value_of_another_key_is_wrong() {
        for answer in
            ["VALUE demo-7-0 0 10\r\ndemo-8-0=0\r\nEND\r\n", "VALUE demo-8-0 0 1\r\nx\r\nEND\r\n", "hello\r\n"]
        {
            let (meter, _) = play(Kind::Memcached, 4, move |n, asked| if n == 1 { answer.into() } else { held(asked) });
            assert_eq!((count(&meter.wrong), count(&meter.errors)), (1, 0), "{answer:?}");
        }
    }

    #[test]
    fn a_connection_that_is_lost_is_wrong_and_made_again() {
        let (meter, seen) = play(Kind::Memcached, 5, |n, asked| if n == 2 { String::new() } else { held(asked) });
        assert_eq!(count(&meter.wrong), 1);
        assert_eq!(seen[2], seen[3], "the same is asked again");
    }

    #[test]
    fn answers_of_http() {
        let page = |status: &str, body: &str, more: &str| {
            format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n{more}\r\n{body}", body.len())
        };
        for (odd, errors, wrong) in [
            (page("200", "backend 2\n", ""), 0, 0),
            (page("200", "backend 2\n", "Connection: close\r\n"), 0, 0),
            (page("502", "", ""), 1, 0),
            (page("503", "later", ""), 1, 0),
            (page("200", "another page", ""), 0, 1),
            (page("404", "backend 2\n", ""), 0, 1),
            ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n".into(), 0, 1),
        ] {
            let answer = odd.clone();
            let (meter, _) =
                play(Kind::Http, 5, move |n, _| if n == 2 { answer.clone() } else { page("200", "backend 1\n", "") });
            assert_eq!((count(&meter.errors), count(&meter.wrong)), (errors, wrong), "{odd:?}");
        }
    }
}
