//! Commands of the control socket: a line in, a line out.
//!
//! `{"do":"tables"}` and so on (docs/operations.md lists them). The answer is `{"ok":true,…}` or
//! `{"ok":false,"error":…}`, with the request's `id` if it had one.

use super::answer::{apps_of, fields, several, unknown, word, Answer, Refused};
use super::tables;
use crate::table_io::{self, Row};
use crate::view::{Hosted, View};
use crate::{admin, value_syntax};
use serde_json::{json, Map, Value};
use wireloom_ir::desc::{ArgDesc, SignalDesc};
use wireloom_ir::suggestions;

/// The commands, for the hint after a mistyped one.
const COMMANDS: [&str; 10] =
    ["hello", "status", "tables", "get", "insert", "delete", "read", "clear", "signals", "signal"];

/// Answers a line, with the line's end.
pub(super) fn answer(view: &View, line: &[u8]) -> String {
    let (id, answer) = match serde_json::from_slice::<Row>(line) {
        Ok(mut request) => (request.remove("id"), run(view, &request)),
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

fn run(view: &View, request: &Row) -> Answer {
    let Some(command) = request.get("do").and_then(Value::as_str) else {
        return Err(format!("`do` is missing: {}", COMMANDS.join(", ")).into());
    };
    match command {
        "hello" => Ok(hello(view)),
        "status" => Ok(fields(admin::status(view))),
        "signals" => Ok(fields(json!({ "signals": signals(view) }))),
        "signal" => signal(view, request),
        "tables" => tables::list(view, request),
        "get" => tables::get(view, request),
        "insert" => tables::insert(view, request),
        "delete" => tables::delete(view, request),
        "read" => tables::read(view, request),
        "clear" => tables::clear(view, request),
        other => {
            let other: String = other.chars().take(40).collect();
            let hint = suggestions::lead(&other, COMMANDS);
            Err(format!("there is no command `{other}`{hint} there are: {}", COMMANDS.join(", ")).into())
        }
    }
}

fn hello(view: &View) -> Row {
    let apps: Vec<&str> = view.names().collect();
    let (cores, up) = (view.cores().count(), view.up().as_secs_f64());
    fields(
        json!({ "wireloom": env!("CARGO_PKG_VERSION"), "pid": std::process::id(), "apps": apps, "cores": cores, "uptime_s": up }),
    )
}

/// Signals that the program wrote itself.
fn own_signals(app: &Hosted) -> impl Iterator<Item = &SignalDesc> {
    app.desc().signals.iter().filter(|s| !table_io::is_of_table(app.desc(), s))
}

fn signals(view: &View) -> Vec<Value> {
    let args = |s: &SignalDesc| -> Vec<Value> {
        let arg = |a: &ArgDesc| json!({ "name": a.name, "is": value_syntax::expected(a.ty, &a.form) });
        s.args.iter().map(arg).collect()
    };
    let of =
        |a| own_signals(a).map(move |s| json!({ "app": a.name(), "signal": s.name, "doc": s.doc, "args": args(s) }));
    view.apps.iter().flat_map(of).collect()
}

fn signal(view: &View, request: &Row) -> Answer {
    let (name, apps) = (word(request, "signal")?, apps_of(view, request)?);
    let found: Vec<_> =
        apps.iter().filter_map(|a| Some((*a, a.desc().signals.iter().find(|s| s.name == name)?))).collect();
    let (app, signal) = match found[..] {
        [one] => one,
        [] => {
            let known: Vec<&str> = apps.iter().flat_map(|a| own_signals(a)).map(|s| s.name.as_str()).collect();
            return Err(unknown("signal", name, "here", known));
        }
        _ => return Err(several("signal", name, found.iter().map(|f| f.0))),
    };
    let given = match request.get("args") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(o)) => o.clone(),
        // In order.
        Some(Value::Array(list)) if list.len() <= signal.args.len() => {
            signal.args.iter().map(|a| a.name.clone()).zip(list.iter().cloned()).collect()
        }
        Some(_) => {
            return Err(format!("signal `{name}` takes {} arguments: {}", signal.args.len(), usage(signal)).into())
        }
    };
    if let Some(extra) = given.keys().find(|k| !signal.args.iter().any(|a| a.name == **k)) {
        return Err(unknown(
            "argument",
            extra,
            &format!("of signal `{name}`"),
            signal.args.iter().map(|a| a.name.as_str()).collect(),
        ));
    }
    let arg = |a: &ArgDesc| match (given.get(&a.name), &a.default) {
        (Some(v), _) => value_syntax::single(a.ty, &a.form, &a.name, v)
            .map_err(|e| Refused::from(format!("argument `{}`: {e}", a.name))),
        (None, Some(default)) => Ok(default.clone()),
        (None, None) => Err(format!("signal `{name}` needs `{}`: {}", a.name, usage(signal)).into()),
    };
    let args = signal.args.iter().map(arg).collect::<Result<Vec<_>, _>>()?;
    let (out, all) = app.call(signal, args);
    match all {
        true => Ok(fields(out)),
        false => Err(Refused {
            text: format!(
                "signal `{name}` ended with a fault, or the app is ending; `wireloom counter --all` shows faults"
            ),
            more: fields(out),
        }),
    }
}

fn usage(signal: &SignalDesc) -> String {
    let args: Vec<String> = signal.args.iter().map(|a| format!("{}=…", a.name)).collect();
    format!("{} {}", signal.name, args.join(" "))
}
