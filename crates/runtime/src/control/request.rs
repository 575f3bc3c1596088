//! Commands of the control socket: a line in, a line out.
//!
//! `{"do":"tables"}` and so on (docs/operations.md lists them); the answer is `{"ok":true,…}` or `{"ok":false,"error":…}`, with the
//! request's `id` if it had one.

use super::tables;
use crate::admin;
use crate::core::app::App;
use crate::rows::{self, Row};
use crate::signal::Post;
use crate::stats::CoreStats;
use serde_json::{json, Map, Value};
use std::sync::Arc;
use std::time::Instant;
use wireloom_ir::desc::SignalDesc;
use wireloom_ir::near;

/// What the socket shows and changes.
pub struct View {
    pub apps: Vec<Arc<App>>,
    pub(super) stats: Arc<Vec<CoreStats>>,
    pub(super) post: Arc<Post>,
    engine: String,
    started: Instant,
}

/// An answer's fields, or what was wrong.
pub(super) type Answer = Result<Row, Refused>;

/// An error, and what else its reader may want to know.
pub(super) struct Refused {
    pub text: String,
    pub more: Row,
}

impl From<String> for Refused {
    fn from(text: String) -> Self {
        Refused { text, more: Map::new() }
    }
}

pub(super) fn fields(v: Value) -> Row {
    match v {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The commands, for those who mistype one.
const COMMANDS: [&str; 10] = ["hello", "status", "tables", "get", "insert", "delete", "read", "clear", "signals", "signal"];

impl View {
    pub fn new(apps: Vec<Arc<App>>, stats: Arc<Vec<CoreStats>>, engine: String, post: Arc<Post>) -> View {
        View { apps, stats, post, engine, started: Instant::now() }
    }

    /// Answers a line, with the line's end.
    pub(super) fn answer(&self, line: &[u8]) -> String {
        let (id, answer) = match serde_json::from_slice::<Row>(line) {
            Ok(mut request) => (request.remove("id"), self.run(&request)),
            Err(e) => (None, Err(format!("this is no JSON object: {e}").into())),
        };
        let mut out = match answer {
            Ok(mut fields) => {
                fields.insert("ok".into(), true.into());
                fields
            }
            Err(Refused { text, mut more }) => {
                more.insert("ok".into(), false.into());
                more.insert("error".into(), text.into());
                more
            }
        };
        if let Some(id) = id {
            out.insert("id".into(), id);
        }
        let mut text = Value::Object(out).to_string();
        text.push('\n');
        text
    }

    fn run(&self, request: &Row) -> Answer {
        let Some(command) = request.get("do").and_then(Value::as_str) else {
            return Err(format!("`do` is missing: {}", COMMANDS.join(", ")).into());
        };
        match command {
            "hello" => Ok(self.hello()),
            "status" => Ok(fields(admin::status(&self.apps, &self.stats, &self.engine, self.started.elapsed()))),
            "signals" => Ok(fields(json!({ "signals": self.signals() }))),
            "signal" => self.signal(request),
            "tables" => tables::list(self, request),
            "get" => tables::get(self, request),
            "insert" => tables::insert(self, request),
            "delete" => tables::delete(self, request),
            "read" => tables::read(self, request),
            "clear" => tables::clear(self, request),
            other => {
                let other: String = other.chars().take(40).collect();
                let hint = near::hint(&other, COMMANDS);
                Err(format!("there is no command `{other}`{hint}{} there are: {}", if hint.is_empty() { ";" } else { "" }, COMMANDS.join(", ")).into())
            }
        }
    }

    fn hello(&self) -> Row {
        let apps: Vec<&str> = self.apps.iter().map(|a| a.desc.app.as_str()).collect();
        let up = self.started.elapsed().as_secs_f64();
        fields(json!({ "wireloom": env!("CARGO_PKG_VERSION"), "pid": std::process::id(), "apps": apps, "cores": self.stats.len(), "uptime_s": up }))
    }

    /// A string of the request.
    pub(super) fn word<'r>(&self, request: &'r Row, name: &str) -> Result<&'r str, Refused> {
        let given = request.get(name).and_then(Value::as_str);
        given.ok_or_else(|| format!("`{name}` is missing, or no text").into())
    }

    /// The apps that a request is for: the one it names, or all.
    pub(super) fn apps_of(&self, request: &Row) -> Result<Vec<usize>, Refused> {
        let Some(name) = request.get("app").filter(|v| !v.is_null()) else { return Ok((0..self.apps.len()).collect()) };
        let name = name.as_str().unwrap_or_default();
        let names = || self.apps.iter().map(|a| a.desc.app.as_str());
        match self.apps.iter().position(|a| a.desc.app == name) {
            Some(i) => Ok(vec![i]),
            None => Err(unknown("app", name, "here", names().collect())),
        }
    }

    /// Signals that the programs wrote themselves: (app, signal).
    fn own_signals(&self) -> impl Iterator<Item = (usize, &SignalDesc)> {
        self.apps.iter().enumerate().flat_map(|(i, a)| {
            let desc = &a.desc;
            desc.signals.iter().filter(|s| !tables::is_of_table(desc, s)).map(move |s| (i, s))
        })
    }

    fn signals(&self) -> Vec<Value> {
        let args = |s: &SignalDesc| -> Vec<Value> {
            let arg = |(i, (n, t)): (usize, &(String, _))| json!({ "name": n, "is": rows::expected(*t, rows::form(s, i)) });
            s.args.iter().enumerate().map(arg).collect()
        };
        self.own_signals().map(|(i, s)| json!({ "app": self.apps[i].desc.app, "signal": s.name, "doc": s.doc, "args": args(s) })).collect()
    }

    fn signal(&self, request: &Row) -> Answer {
        let (name, apps) = (self.word(request, "signal")?, self.apps_of(request)?);
        let found: Vec<_> = apps.iter().filter_map(|i| Some((*i, self.apps[*i].desc.signals.iter().find(|s| s.name == name)?))).collect();
        let (app, signal) = match found[..] {
            [one] => one,
            [] => {
                let known: Vec<&str> = self.own_signals().filter(|(i, _)| apps.contains(i)).map(|(_, s)| s.name.as_str()).collect();
                return Err(unknown("signal", name, "here", known));
            }
            _ => return Err(self.several("signal", name, found.iter().map(|f| f.0))),
        };
        let given = match request.get("args") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(o)) => o.clone(),
            // In order.
            Some(Value::Array(list)) if list.len() <= signal.args.len() => signal.args.iter().map(|(n, _)| n.clone()).zip(list.iter().cloned()).collect(),
            Some(_) => return Err(format!("signal `{name}` takes {} arguments: {}", signal.args.len(), usage(signal)).into()),
        };
        if let Some(extra) = given.keys().find(|k| !signal.args.iter().any(|(n, _)| n == *k)) {
            return Err(unknown("argument", extra, &format!("of signal `{name}`"), signal.args.iter().map(|(n, _)| n.as_str()).collect()));
        }
        let arg = |(i, (n, t)): (usize, &(String, _))| match given.get(n) {
            Some(v) => rows::single(*t, rows::form(signal, i), n, v).map_err(|e| Refused::from(format!("argument `{n}`: {e}"))),
            None => Err(format!("signal `{name}` needs `{n}`: {}", usage(signal)).into()),
        };
        let args = signal.args.iter().enumerate().map(arg).collect::<Result<Vec<_>, _>>()?;
        let (out, all) = self.post.call(app, &self.apps[app].desc.app, signal, args);
        match all {
            true => Ok(fields(out)),
            false => Err(Refused { text: format!("signal `{name}` ended with a fault, or the app is ending; `wireloom counter --all` shows faults"), more: fields(out) }),
        }
    }

    /// Several apps have what was named.
    pub(super) fn several(&self, what: &str, name: &str, apps: impl Iterator<Item = usize>) -> Refused {
        let names: Vec<&str> = apps.map(|i| self.apps[i].desc.app.as_str()).collect();
        format!("several apps have a {what} `{name}`: {}; say which with `app`", names.join(", ")).into()
    }
}

fn usage(signal: &SignalDesc) -> String {
    let args: Vec<String> = signal.args.iter().map(|(n, _)| format!("{n}=…")).collect();
    format!("{} {}", signal.name, args.join(" "))
}

pub(super) fn unknown(what: &str, name: &str, place: &str, known: Vec<&str>) -> Refused {
    let hint = near::hint(name, known.iter().copied());
    let name: String = name.chars().take(64).collect();
    let list = if known.is_empty() { "none".to_string() } else { known.join(", ") };
    format!("there is no {what} `{name}` {place}{hint}{} there are: {list}", if hint.is_empty() { ";" } else { "" }).into()
}
