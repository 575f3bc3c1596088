//! Work for the cores from outside: signals called by the admin page (`/signal/APP/NAME?arg=value`
//! in, JSON out) and by the control socket.
//!
//! A job goes into the cores' mailboxes. Each core takes it between two batches, runs handlers and
//! answers through a channel. So the changes of one job appear at once to every message and packet
//! of that core. A signal's results are listed by core; integers are added up as well.

use crate::engine::Waker;
use crate::value_syntax;
use serde_json::{json, Map, Number, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;
use wireloom_ir::desc::{ParamValue, ResultType, SignalDesc};

/// A core answers after its batch, and a core that has ended at once. One that does not is stuck. A
/// busy machine may stop a core for seconds.
const WAIT: Duration = Duration::from_secs(20);

/// The fault of a handler: kind and place.
pub type HandlerFault = (u32, u32);
/// Runs a handler of the app with arguments, on this core; its result as the program wrote it.
pub type RunHandler<'r> = dyn FnMut(u32, &[ParamValue]) -> Result<Vec<u8>, HandlerFault> + 'r;
/// Runs a handler of any app of the core.
type RunOf<'r> = dyn FnMut(usize, u32, &[ParamValue]) -> Result<Vec<u8>, HandlerFault> + 'r;
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
    /// The core has ended: new jobs are dropped, so that their senders do not wait.
    closed: bool,
}

/// Closes a core's mailbox when the core ends, also by a panic.
pub struct Closes(pub Arc<Mailbox>);

impl Drop for Closes {
    fn drop(&mut self) {
        let mut jobs = self.0.jobs.lock().unwrap_or_else(|e| e.into_inner());
        *jobs = Jobs { list: Vec::new(), closed: true };
    }
}

impl Mailbox {
    /// Runs the jobs that have arrived.
    pub fn serve(&self, mut run: impl FnMut(usize, u32, &[ParamValue]) -> Result<Vec<u8>, HandlerFault>) {
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

/// A pending answer of a core.
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
        work: impl FnOnce(&mut RunHandler) -> T + Send + 'static,
    ) -> Asked<T> {
        let (answer, got) = mpsc::channel();
        // The receiver may be gone.
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

/// A result as the program wrote it (see [`ResultType`]).
pub(crate) fn decode(ty: &ResultType, from: &mut &[u8]) -> Option<Value> {
    Some(match ty {
        ResultType::Nothing => Value::Null,
        ResultType::Bool => Value::Bool(leaf(from)? == b"true"),
        ResultType::Int => number(std::str::from_utf8(leaf(from)?).ok()?.parse().ok()?),
        ResultType::Text => Value::String(value_syntax::data_text(leaf(from)?)),
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
}
