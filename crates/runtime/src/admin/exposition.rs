//! The text format of Prometheus: families of samples with labels.

use std::fmt::Write as _;

/// A label's value, escaped as the text format asks.
pub(super) fn label(s: &str) -> String {
    s.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// One family of samples in the text format.
pub(crate) struct Family<'a> {
    out: &'a mut String,
    name: &'a str,
}

impl<'a> Family<'a> {
    pub(crate) fn new(out: &'a mut String, name: &'a str, kind: &str, help: &str) -> Family<'a> {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { out, name }
    }
    pub(crate) fn add(&mut self, labels: &[(&str, &str)], value: u64) {
        let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}=\"{}\"", label(v))).collect();
        let _ = writeln!(self.out, "{}{{{}}} {value}", self.name, labels.join(","));
    }
}
