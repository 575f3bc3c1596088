//! Reads the admin page.

use crate::client::Client;
use crate::PATIENCE;
use serde_json::Value;
use std::time::{Duration, Instant};

fn fetch(port: u16, path: &str) -> (String, Vec<u8>) {
    ask(port, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
}

/// Head and body of the answer to a request.
pub fn ask(port: u16, request: &str) -> (String, Vec<u8>) {
    let mut client = Client::connect(port);
    client.send(request);
    let head = String::from_utf8_lossy(&client.take_until(b"\r\n\r\n")).into_owned();
    (head, client.rest())
}

/// `/status` as JSON.
pub fn status(port: u16) -> Value {
    let (head, body) = fetch(port, "/status");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("application/json"), "{head}");
    serde_json::from_slice(&body).expect("/status is JSON")
}

/// `/metrics` as text.
pub fn metrics(port: u16) -> String {
    let (head, body) = fetch(port, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/plain"), "{head}");
    String::from_utf8(body).expect("/metrics is text")
}

/// `/graph` as text.
pub fn graph(port: u16) -> String {
    let (head, body) = fetch(port, "/graph");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/html"), "{head}");
    String::from_utf8(body).expect("/graph is text")
}

/// The sum of the samples whose name and labels begin like this.
pub fn sample(metrics: &str, beginning: &str) -> u64 {
    let lines = metrics.lines().filter(|l| l.starts_with(beginning));
    lines.filter_map(|l| l.rsplit(' ').next()).filter_map(|n| n.parse::<u64>().ok()).sum()
}

/// An app's port in `/status`.
pub fn port_of<'a>(status: &'a Value, name: &str) -> &'a Value {
    let ports =
        status["apps"].as_array().into_iter().flatten().flat_map(|a| a["ports"].as_array().into_iter().flatten());
    ports.into_iter().find(|p| p["port"] == name).unwrap_or_else(|| panic!("no port {name} in {status}"))
}

/// How many faults of a kind `/status` has counted.
pub fn faults(status: &Value, kind: &str) -> u64 {
    let faults =
        status["apps"].as_array().into_iter().flatten().flat_map(|a| a["faults"].as_array().into_iter().flatten());
    faults.filter(|f| f["kind"] == kind).filter_map(|f| f["count"].as_u64()).sum()
}

/// The answer of a signal: `app/name?arg=…`.
pub fn signal(port: u16, path: &str) -> String {
    let request = format!("POST /signal/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n");
    String::from_utf8_lossy(&ask(port, &request).1).into_owned()
}

/// Waits until it holds: counters may be read a moment before the core has stored them.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
