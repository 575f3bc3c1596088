//! Signals from the admin page to the cores: `/signal/APP/NAME?arg=value` in, JSON out.
//!
//! A call goes into every core's mailbox; each core takes it between two batches, runs the handler and answers through a channel. The
//! results are listed by core; integers are added up as well.

use crate::core::app::App;
use crate::engine::Waker;
use crate::params;
use serde_json::{json, Map, Number, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;
use wireloom_ir::desc::{ParamValue, ResultType, SignalDesc};

/// A core answers after the batch at hand; one that does not is stuck or ending.
const WAIT: Duration = Duration::from_secs(2);

struct Call {
    app: usize,
    handler: u32,
    args: Arc<Vec<ParamValue>>,
    answer: mpsc::Sender<Option<Vec<u8>>>,
}

/// Calls for one core.
#[derive(Default)]
pub struct Mailbox {
    any: AtomicBool,
    calls: Mutex<Vec<Call>>,
}

impl Mailbox {
    /// Runs what has come in: `run` takes an app, a handler and its arguments.
    pub fn serve(&self, mut run: impl FnMut(usize, u32, &[ParamValue]) -> Option<Vec<u8>>) {
        if !self.any.load(Ordering::Relaxed) || !self.any.swap(false, Ordering::Acquire) {
            return;
        }
        let calls = std::mem::take(&mut *self.calls.lock().unwrap_or_else(|e| e.into_inner()));
        for c in calls {
            // Whoever asked may have gone.
            let _ = c.answer.send(run(c.app, c.handler, &c.args));
        }
    }

    fn put(&self, c: Call) {
        self.calls.lock().unwrap_or_else(|e| e.into_inner()).push(c);
        self.any.store(true, Ordering::Release);
    }
}

/// All cores' mailboxes, and how to wake the cores.
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

impl Post {
    /// `APP/NAME?arg=value&…`
    pub fn ask(&self, apps: &[Arc<App>], target: &str) -> Answer {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (app_name, name) = path.split_once('/').unwrap_or((path, ""));
        let Some(app) = apps.iter().position(|a| a.desc.app == app_name) else {
            let names: Vec<&str> = apps.iter().map(|a| a.desc.app.as_str()).collect();
            return (NOT_FOUND, format!("there is no app `{app_name}`; there are: {}\n", names.join(", ")));
        };
        let signals = &apps[app].desc.signals;
        let Some(signal) = signals.iter().find(|s| s.name == name) else {
            let names: Vec<&str> = signals.iter().map(|s| s.name.as_str()).collect();
            return (NOT_FOUND, format!("app `{app_name}` has no signal `{name}`; its signals: {}\n", names.join(", ")));
        };
        match arguments(signal, query) {
            Ok(args) => self.call(app, app_name, signal, args),
            Err(e) => (BAD, e + "\n"),
        }
    }

    fn call(&self, app: usize, app_name: &str, signal: &SignalDesc, args: Vec<ParamValue>) -> Answer {
        let args = Arc::new(args);
        let asked: Vec<_> = self
            .boxes
            .iter()
            .map(|mailbox| {
                let (answer, got) = mpsc::channel();
                mailbox.put(Call { app, handler: signal.handler, args: args.clone(), answer });
                got
            })
            .collect();
        self.wakers.iter().for_each(Waker::wake);
        let mut cores = Vec::new();
        for got in asked {
            let bytes = got.recv_timeout(WAIT).ok().flatten();
            cores.push(bytes.and_then(|b| decode(&signal.result, &mut &b[..])));
        }
        let status = if cores.iter().any(Option::is_none) { FAILED } else { "200 OK" };
        let sum = (signal.result == ResultType::Int).then(|| cores.iter().flatten().filter_map(integer).fold(0i128, i128::saturating_add));
        let mut out = json!({ "app": app_name, "signal": signal.name, "cores": cores });
        if let Some(sum) = sum {
            out["sum"] = number(sum);
        }
        (status, out.to_string() + "\n")
    }
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

fn arguments(signal: &SignalDesc, query: &str) -> Result<Vec<ParamValue>, String> {
    let mut given: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|p| !p.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = plain(name);
        if !signal.args.iter().any(|(n, _)| *n == name) {
            return Err(format!("signal `{}` has no argument `{name}`", signal.name));
        }
        given.push((name, plain(value)));
    }
    let mut out = Vec::new();
    for (name, ty) in &signal.args {
        let Some((_, text)) = given.iter().find(|(n, _)| n == name) else {
            return Err(format!("signal `{}` needs `{name}`: /signal/APP/{}?{name}=…", signal.name, signal.name));
        };
        out.push(params::parse_data(*ty, text).map_err(|e| format!("argument `{name}`: {e} (got `{text}`)"))?);
    }
    Ok(out)
}

/// Text of a query: `%41` and `+` resolved.
fn plain(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|h| std::str::from_utf8(h).ok()).and_then(|h| u8::from_str_radix(h, 16).ok());
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
            result: ResultType::Nothing,
        };
        assert_eq!(arguments(&s, "t=a%20b&n=255"), Ok(vec![ParamValue::UInt(255), ParamValue::Bytes(b"a b".to_vec())]));
        for bad in ["", "n=1", "n=256&t=", "n=1&t=12345", "n=1&t=&x=1", "n=-1&t="] {
            assert!(arguments(&s, bad).is_err(), "{bad}");
        }
    }
}
