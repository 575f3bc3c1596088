//! Parameters of an app and options of its ports, with their defaults: what `--set` may give it.
//!
//! `explain` and help texts show them.

use super::{constant, duration, entries, heading};
use crate::desc::{Failover, Form, ParamDesc, ParamType, ParamValue, PortOptions, Reuse};
use crate::port_options::{self, Slot};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Parameters with their types, docs, and defaults or the values that are `set`; nothing if there
/// are none.
pub fn parameters(all: &[ParamDesc], set: &BTreeSet<&str>) -> String {
    let mut out = String::new();
    if all.is_empty() {
        return out;
    }
    heading(&mut out, "Parameters (--set NAME=VALUE)");
    let row = |p: &ParamDesc| {
        let word = if set.contains(p.name.as_str()) { "set to" } else { "default" };
        let given = p.default.as_ref().map_or("required".to_string(), |d| format!("{word} {}", default_of(p, d)));
        let doc = p.doc.lines().map(|l| l.trim().to_string()).filter(|l| !l.is_empty());
        (p.name.clone(), format!("{}, {given}", type_of(p)), doc.collect())
    };
    entries(&mut out, &all.iter().map(row).collect::<Vec<_>>());
    out
}

fn type_of(p: &ParamDesc) -> String {
    match p.ty {
        _ if p.form == Form::Ip4 => "ip4".to_string(),
        _ if p.form == Form::Mac => "mac".to_string(),
        ParamType::Bool => "bool".to_string(),
        ParamType::UInt(bits) => format!("u{bits}"),
        ParamType::Duration => "duration".into(),
        ParamType::Bytes(max) => format!("bytes<{max}>"),
        _ if p.form == Form::OrPort => "endpoint or u16".into(),
        ParamType::Texts(most, size) => format!("list<bytes<{size}>, {most}>"),
        ParamType::Endpoint => "endpoint".into(),
        ParamType::Endpoints(max) => format!("list<endpoint, {max}>"),
    }
}

/// The value of a parameter, in its form.
fn default_of(p: &ParamDesc, v: &ParamValue) -> String {
    match (&p.form, v) {
        (Form::Ip4, ParamValue::UInt(n)) => std::net::Ipv4Addr::from(*n as u32).to_string(),
        (Form::Mac, ParamValue::UInt(n)) => {
            n.to_be_bytes()[2..].iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
        }
        _ => constant(v),
    }
}

/// An option's value, as `--set` takes it. Options that are set together as one have none.
pub fn option(o: &PortOptions, name: &str) -> Option<String> {
    Some(match port_options::slot(&mut o.clone(), name)? {
        Slot::Times(_) => return None,
        Slot::Time(0, _) => "0s".into(),
        Slot::Time(n, _) => duration(*n),
        Slot::Auto(0, _) => "auto".into(),
        Slot::Count(n, _) | Slot::Auto(n, _) => n.to_string(),
        Slot::Switch(on) => on.to_string(),
        Slot::Byte(b) => b.to_string(),
        Slot::Reuse(r) => port_options::word_of(Reuse::NAMES, *r).into(),
        Slot::Failover(f) => port_options::word_of(Failover::NAMES, *f).into(),
    })
}

/// Columns of a line.
const WIDTH: usize = 100;

/// A port's name, and each of its options with its value.
pub type PortValues = (String, Vec<(&'static str, String)>);

/// The options of ports; nothing if there are none.
pub fn options(ports: &[PortValues]) -> String {
    let mut out = String::new();
    let (has_options, width) = (|p: &&PortValues| !p.1.is_empty(), ports.iter().map(|p| p.0.len()).max().unwrap_or(0));
    for (port, all) in ports.iter().filter(has_options) {
        if out.is_empty() {
            heading(&mut out, "Options of ports (--set PORT.OPTION=VALUE), with their defaults");
        }
        let mut line = format!("  {port:<width$}");
        for (n, (option, value)) in all.iter().enumerate() {
            let item = format!(" {option}={value}{}", if n + 1 < all.len() { "," } else { "" });
            if line.len() + item.len() > WIDTH {
                let _ = writeln!(out, "{line}");
                line = format!("  {:width$}", "");
            }
            line.push_str(&item);
        }
        let _ = writeln!(out, "{line}");
    }
    out
}
