//! Signals that are called by a request to the admin page.

use crate::value_syntax;
use crate::view::View;
use serde_json::{Map, Value};
use wireloom_ir::desc::{ParamValue, SignalDesc};

/// A status line and a body.
pub(super) type HttpAnswer = (&'static str, String);

const NOT_FOUND: &str = "404 Not Found";
const BAD: &str = "400 Bad Request";
const FAILED: &str = "500 Internal Server Error";

/// Calls a signal: `APP/NAME?arg=value&…`; `body`, if not empty, is a JSON object of further
/// arguments.
pub(super) fn ask(view: &View, target: &str, body: &[u8]) -> HttpAnswer {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (app_name, name) = path.split_once('/').unwrap_or((path, ""));
    let Some(app) = view.find(app_name).map(|i| &view.apps[i]) else {
        let names: Vec<&str> = view.names().collect();
        return (NOT_FOUND, format!("there is no app `{app_name}`; there are: {}\n", names.join(", ")));
    };
    let signals = &app.desc().signals;
    let Some(signal) = signals.iter().find(|s| s.name == name) else {
        let own = signals.iter().filter(|s| !crate::table_io::is_of_table(app.desc(), s));
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

fn arguments(signal: &SignalDesc, query: &str, body: &[u8]) -> Result<Vec<ParamValue>, String> {
    let pairs = query.split('&').filter(|p| !p.is_empty()).map(|p| p.split_once('=').unwrap_or((p, "")));
    let mut given: Vec<(String, Value)> =
        pairs.map(|(name, value)| (plain(name), Value::String(plain(value)))).collect();
    if !body.trim_ascii().is_empty() {
        let object: Map<String, Value> =
            serde_json::from_slice(body).map_err(|e| format!("the body is no JSON object: {e}"))?;
        given.extend(object);
    }
    if let Some((name, _)) = given.iter().find(|(name, _)| !signal.args.iter().any(|a| a.name == *name)) {
        return Err(format!("signal `{}` has no argument `{name}`", signal.name));
    }
    let mut out = Vec::new();
    for arg in &signal.args {
        let name = &arg.name;
        let Some((_, value)) = given.iter().find(|(n, _)| n == name) else {
            if let Some(v) = &arg.default {
                out.push(v.clone());
                continue;
            }
            return Err(format!("signal `{}` needs `{name}`: /signal/APP/{}?{name}=…", signal.name, signal.name));
        };
        let value = value_syntax::single(arg.ty, &arg.form, name, value);
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

#[cfg(test)]
mod tests {
    use super::*;
    use wireloom_ir::desc::{ArgDesc, Form, ParamType, ResultType};

    #[test]
    fn arguments_are_checked() {
        let arg = |name: &str, ty| ArgDesc { name: name.into(), ty, form: Form::Plain, default: None };
        let s = SignalDesc {
            name: "f".into(),
            doc: String::new(),
            handler: 0,
            args: vec![arg("n", ParamType::UInt(8)), arg("t", ParamType::Bytes(4))],
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
