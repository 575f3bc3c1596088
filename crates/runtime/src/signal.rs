//! Work for the cores from outside: signals called by the admin page (`/signal/APP/NAME?arg=value`
//! in, JSON out) and by the control socket.
//!
//! A job goes into the cores' mailboxes. Each core takes it between two batches, runs handlers and
//! answers through a channel. So the changes of one job appear at once to every message and packet
//! of that core. A signal's results are listed by core; integers are added up as well.

use crate::engine::Waker;
use crate::params;
use crate::table_io;
use crate::view::View;
use serde_json::{json, Map, Number, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;
use wireloom_ir::desc::{ParamValue, ResultType, SignalDesc};

/// A core answers after the batch at hand; one that does not is stuck or ending.
const WAIT: Duration = Duration::from_secs(2);

/// What a handler ended with: the fault's kind and place.
pub type Fault = (u32, u32);
/// Runs a handler of the app at hand with arguments, on the core at hand; its result as the program
/// wrote it.
pub type Run<'r> = dyn FnMut(u32, &[ParamValue]) -> Result<Vec<u8>, Fault> + 'r;
/// Runs a handler of any app of the core.
type RunOf<'r> = dyn FnMut(usize, u32, &[ParamValue]) -> Result<Vec<u8>, Fault> + 'r;
/// Work for a core, done between two batches.
type Job = Box<dyn FnOnce(&mut RunOf) + Send>;

/// Work for one core.
#[derive(Default)]
pub struct Mailbox {
    any: AtomicBool,
    jobs: Mutex<Jobs>,
}

#[derive(Default)]
struct Jobs {
    list: Vec<Job>,
    /// The core has ended: what comes is dropped, so that nobody waits for it.
    closed: bool,
}

/// Closes a core's mailbox when the core ends, in whatever way.
pub struct Closes(pub Arc<Mailbox>);

impl Drop for Closes {
    fn drop(&mut self) {
        let mut jobs = self.0.jobs.lock().unwrap_or_else(|e| e.into_inner());
        *jobs = Jobs { list: Vec::new(), closed: true };
    }
}

impl Mailbox {
    /// Does what has come in.
    pub fn serve(&self, mut run: impl FnMut(usize, u32, &[ParamValue]) -> Result<Vec<u8>, Fault>) {
        if !self.any.load(Ordering::Relaxed) || !self.any.swap(false, Ordering::Acquire) {
            return;
        }
        let jobs = std::mem::take(&mut self.jobs.lock().unwrap_or_else(|e| e.into_inner()).list);
        for job in jobs {
            job(&mut run);
        }
    }

    fn put(&self, job: Job) {
        let mut jobs = self.jobs.lock().unwrap_or_else(|e| e.into_inner());
        if !jobs.closed {
            jobs.list.push(job);
            self.any.store(true, Ordering::Release);
        }
    }
}

/// The mailboxes of a group of cores, and how to wake the cores.
#[derive(Default)]
pub struct Post {
    pub boxes: Vec<Arc<Mailbox>>,
    pub wakers: Vec<Waker>,
}

/// A status line and a body.
pub type Answer = (&'static str, String);

const NOT_FOUND: &str = "404 Not Found";
const BAD: &str = "400 Bad Request";
const FAILED: &str = "500 Internal Server Error";

/// Calls a signal: `APP/NAME?arg=value&…`; `body`, if not empty, is a JSON object of further
/// arguments.
pub fn ask(view: &View, target: &str, body: &[u8]) -> Answer {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (app_name, name) = path.split_once('/').unwrap_or((path, ""));
    let Some(app) = view.find(app_name).map(|i| &view.apps[i]) else {
        let names: Vec<&str> = view.names().collect();
        return (NOT_FOUND, format!("there is no app `{app_name}`; there are: {}\n", names.join(", ")));
    };
    let signals = &app.desc().signals;
    let Some(signal) = signals.iter().find(|s| s.name == name) else {
        let own = signals.iter().filter(|s| !crate::control::is_of_table(app.desc(), s));
        let names: Vec<&str> = own.map(|s| s.name.as_str()).collect();
        return (NOT_FOUND, format!("app `{app_name}` has no signal `{name}`; its signals: {}\n", names.join(", ")));
    };
    match arguments(signal, query, body) {
        Ok(args) => {
            let (out, all) = app.call(signal, args);
            (if all { "200 OK" } else { FAILED }, out.to_string() + "\n")
        }
        Err(e) => (BAD, e + "\n"),
    }
}

/// What a core was asked.
pub struct Asked<T>(mpsc::Receiver<T>);

impl<T> Asked<T> {
    /// None: it did not answer.
    pub fn answer(self) -> Option<T> {
        self.0.recv_timeout(WAIT).ok()
    }
}

impl Post {
    /// Has a core do something with an app between two batches.
    pub fn ask<T: Send + 'static>(
        &self,
        app: usize,
        core: usize,
        work: impl FnOnce(&mut Run) -> T + Send + 'static,
    ) -> Asked<T> {
        let (answer, got) = mpsc::channel();
        // Whoever asked may have gone.
        self.boxes[core]
            .put(Box::new(move |run| drop(answer.send(work(&mut |handler, args| run(app, handler, args))))));
        self.wakers[core].wake();
        Asked(got)
    }
}

/// A signal's results by core, and their sum if they are integers; whether all cores gave one.
pub fn summed(app: &str, signal: &SignalDesc, answers: Vec<Option<Option<Vec<u8>>>>) -> (Value, bool) {
    let cores: Vec<Option<Value>> =
        answers.into_iter().map(|b| b.flatten().and_then(|b| decode(&signal.result, &mut &b[..]))).collect();
    let sum = (signal.result == ResultType::Int)
        .then(|| cores.iter().flatten().filter_map(integer).fold(0i128, i128::saturating_add));
    let all = cores.iter().all(Option::is_some);
    let mut out = json!({ "app": app, "signal": signal.name, "cores": cores });
    if let Some(sum) = sum {
        out["sum"] = number(sum);
    }
    (out, all)
}

fn integer(v: &Value) -> Option<i128> {
    v.as_i64().map(i128::from).or_else(|| v.as_u64().map(i128::from))
}

/// A JSON number where one can hold it, its text else.
fn number(n: i128) -> Value {
    match (u64::try_from(n), i64::try_from(n)) {
        (Ok(n), _) => Value::Number(Number::from(n)),
        (_, Ok(n)) => Value::Number(Number::from(n)),
        _ => Value::String(n.to_string()),
    }
}

fn arguments(signal: &SignalDesc, query: &str, body: &[u8]) -> Result<Vec<ParamValue>, String> {
    let pairs = query.split('&').filter(|p| !p.is_empty()).map(|p| p.split_once('=').unwrap_or((p, "")));
    let mut given: Vec<(String, Value)> =
        pairs.map(|(name, value)| (plain(name), Value::String(plain(value)))).collect();
    if !body.trim_ascii().is_empty() {
        let object: Map<String, Value> =
            serde_json::from_slice(body).map_err(|e| format!("the body is no JSON object: {e}"))?;
        given.extend(object);
    }
    if let Some((name, _)) = given.iter().find(|(name, _)| !signal.args.iter().any(|(n, _)| n == name)) {
        return Err(format!("signal `{}` has no argument `{name}`", signal.name));
    }
    let mut out = Vec::new();
    for (i, (name, ty)) in signal.args.iter().enumerate() {
        let Some((_, value)) = given.iter().find(|(n, _)| n == name) else {
            if let Some(v) = table_io::default(signal, i) {
                out.push(v.clone());
                continue;
            }
            return Err(format!("signal `{}` needs `{name}`: /signal/APP/{}?{name}=…", signal.name, signal.name));
        };
        let value = table_io::single(*ty, table_io::form(signal, i), name, value);
        out.push(value.map_err(|e| format!("argument `{name}`: {e}"))?);
    }
    Ok(out)
}

/// Text of a query: `%41` and `+` resolved.
fn plain(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes
            .get(at + 1..at + 3)
            .and_then(|h| std::str::from_utf8(h).ok())
            .and_then(|h| u8::from_str_radix(h, 16).ok());
        match (bytes[at], hex) {
            (b'%', Some(b)) => {
                out.push(b);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (b, _) => out.push(b),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A result as the program wrote it (see [`ResultType`]).
pub(crate) fn decode(ty: &ResultType, from: &mut &[u8]) -> Option<Value> {
    Some(match ty {
        ResultType::Nothing => Value::Null,
        ResultType::Bool => Value::Bool(leaf(from)? == b"true"),
        ResultType::Int => number(std::str::from_utf8(leaf(from)?).ok()?.parse().ok()?),
        ResultType::Text => Value::String(params::data_text(leaf(from)?)),
        ResultType::Option(t) => {
            let (mark, rest) = from.split_first()?;
            *from = rest;
            if *mark == b'+' {
                decode(t, from)?
            } else {
                Value::Null
            }
        }
        ResultType::Record(fields) => {
            let mut map = Map::new();
            for (name, t) in fields {
                map.insert(name.clone(), decode(t, from)?);
            }
            Value::Object(map)
        }
    })
}

fn leaf<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let colon = from.iter().position(|b| *b == b':')?;
    let n: usize = std::str::from_utf8(&from[..colon]).ok()?.parse().ok()?;
    let rest = &from[colon + 1..];
    let value = rest.get(..n)?;
    *from = &rest[n..];
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wireloom_ir::desc::ParamType;

    #[test]
    fn results_are_decoded() {
        let ty = ResultType::Record(vec![
            ("n".into(), ResultType::Int),
            ("who".into(), ResultType::Option(Box::new(ResultType::Text))),
            ("up".into(), ResultType::Option(Box::new(ResultType::Bool))),
        ]);
        let v = decode(&ty, &mut &b"2:-7+5:a\"b:c-"[..]).unwrap();
        assert_eq!(v, json!({"n": -7, "who": "a\"b:c", "up": null}));
        for cut in 0..13 {
            assert_eq!(decode(&ty, &mut &b"2:-7+5:a\"b:c-"[..cut.min(12)]), None, "{cut}");
        }
    }

    #[test]
    fn arguments_are_checked() {
        let s = SignalDesc {
            name: "f".into(),
            doc: String::new(),
            handler: 0,
            args: vec![("n".into(), ParamType::UInt(8)), ("t".into(), ParamType::Bytes(4))],
            forms: Vec::new(),
            defaults: Vec::new(),
            masked: false,
            result: ResultType::Nothing,
        };
        let wanted = Ok(vec![ParamValue::UInt(255), ParamValue::Bytes(b"a b".to_vec())]);
        assert_eq!(arguments(&s, "t=a%20b&n=255", b""), wanted);
        assert_eq!(arguments(&s, "", br#"{"n": 255, "t": "a b"}"#), wanted);
        assert_eq!(arguments(&s, "n=255", br#"{"t": "a b"}"#), wanted);
        for bad in
            ["[]", "{", "{\"n\": 256, \"t\": \"\"}", "{\"n\": 1, \"t\": \"\", \"x\": 1}", "{\"n\": null, \"t\": \"\"}"]
        {
            assert!(arguments(&s, "", bad.as_bytes()).is_err(), "{bad}");
        }
        for bad in ["", "n=1", "n=256&t=", "n=1&t=12345", "n=1&t=&x=1", "n=-1&t="] {
            assert!(arguments(&s, bad, b"").is_err(), "{bad}");
        }
    }
}
