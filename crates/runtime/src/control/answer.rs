//! Answers and errors of commands, and the parts of a request that several commands have.

use crate::table_io::Row;
use crate::view::{Hosted, View};
use serde_json::{Map, Value};
use wireloom_ir::suggestions;

/// An answer's fields, or an error.
pub(super) type Answer = Result<Row, Refused>;

/// An error, with further fields for its reader.
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

/// A string of the request.
pub(super) fn word<'r>(request: &'r Row, name: &str) -> Result<&'r str, Refused> {
    let given = request.get(name).and_then(Value::as_str);
    given.ok_or_else(|| format!("`{name}` is missing, or no text").into())
}

/// The apps that a request is for: the one it names, or all.
pub(super) fn apps_of<'v>(view: &'v View, request: &Row) -> Result<Vec<&'v Hosted>, Refused> {
    let Some(name) = request.get("app").filter(|v| !v.is_null()) else { return Ok(view.apps.iter().collect()) };
    let name = name.as_str().unwrap_or_default();
    match view.find(name) {
        Some(i) => Ok(vec![&view.apps[i]]),
        None => Err(unknown("app", name, "here", view.names().collect())),
    }
}

/// The error for a name that several apps have.
pub(super) fn several<'v>(what: &str, name: &str, apps: impl Iterator<Item = &'v Hosted>) -> Refused {
    let names: Vec<&str> = apps.map(Hosted::name).collect();
    format!("several apps have a {what} `{name}`: {}; say which with `app` (--app NAME)", names.join(", ")).into()
}

pub(super) fn unknown(what: &str, name: &str, place: &str, known: Vec<&str>) -> Refused {
    let hint = suggestions::lead(name, known.iter().copied());
    let name: String = name.chars().take(64).collect();
    let list = if known.is_empty() { "none".to_string() } else { known.join(", ") };
    format!("there is no {what} `{name}` {place}{hint} there are: {list}").into()
}
