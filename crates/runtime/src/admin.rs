//! The admin page: `/metrics` for Prometheus, `/status` as JSON, `/graph` with the apps' pictures.
//! `/signal/APP/NAME` calls an app's signals. The page has a thread of its own ([`page`]).
//!
//! It reads the cores' counters while they run and sums them.

mod exposition;
mod page;
mod request;
mod signal;

use crate::stats::{percentile, AppStats, BackendStats, Cell, FaultTable, MergeStats, PortStats, Powers};
use crate::view::{Hosted, View};
use exposition::label;
pub(crate) use exposition::Family;
pub use page::Page;
use page::Response;
use request::Request;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// The answer to a request that changes nothing.
fn page(view: &View, request: &Request) -> Response {
    let path = request.target.split('?').next().unwrap_or("");
    let (status, kind, body) = match (request.method.as_str(), path) {
        ("GET" | "HEAD", "/metrics") => ("200 OK", "text/plain; version=0.0.4", metrics(view)),
        ("GET" | "HEAD", "/status") => ("200 OK", "application/json", status(view).to_string() + "\n"),
        ("GET" | "HEAD", "/graph") => ("200 OK", "text/html; charset=utf-8", graph(view)),
        ("GET" | "HEAD", "/") => ("200 OK", "text/plain", index(view)),
        ("GET" | "HEAD", p) if p.starts_with("/signal/") => (
            "405 Method Not Allowed",
            "text/plain",
            "a signal is called by POST, with Content-Type: application/json\n".into(),
        ),
        ("GET" | "HEAD", _) => {
            ("404 Not Found", "text/plain", "there are /graph, /metrics, /status and /signal/APP/NAME\n".into())
        }
        _ => ("405 Method Not Allowed", "text/plain", "only GET, and POST for signals\n".into()),
    };
    Response { status, kind, body }
}

/// Calls a signal: `/signal/APP/NAME?arg=value`, or with the arguments as a JSON object.
fn signal(view: &View, request: &Request) -> Response {
    let (status, body) = signal::ask(view, &request.target["/signal/".len()..], &request.body);
    Response { status, kind: if body.starts_with('{') { "application/json" } else { "text/plain" }, body }
}

/// The picture of each app. Its numbers are those of `/status`, read once a second.
fn graph(view: &View) -> String {
    let mut out = String::from(
        "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>graph</title>\n<style>body { margin: 0 } svg { display: block; max-width: 100%; height: auto }</style>\n",
    );
    for a in view.apps.iter().filter(|a| !a.desc().picture.is_empty()) {
        let name = wireloom_ir::graph::escape(a.name());
        let _ = writeln!(out, "<section data-app=\"{name}\">\n{}</section>", a.desc().picture);
    }
    out + include_str!("admin/graph.html")
}

/// The list of pages.
fn index(view: &View) -> String {
    let mut out = String::from("/graph\n/metrics\n/status\n");
    for a in &view.apps {
        for s in &a.desc().signals {
            let args: Vec<String> = s.args.iter().map(|a| format!("{}=", a.name)).collect();
            let query = if args.is_empty() { String::new() } else { format!("?{}", args.join("&")) };
            let _ = writeln!(out, "/signal/{}/{}{query}", a.name(), s.name);
        }
    }
    out
}

fn faults(app: &Hosted) -> Vec<(u32, u32, u64)> {
    let tables = app.parts().flat_map(|a| a.merges.iter().map(|m| &m.faults).chain([&a.faults]));
    let outside = app.app.program.outside().map(|o| o.faults()).unwrap_or_default();
    let mut all: Vec<(u32, u32, u64)> = tables.flat_map(FaultTable::list).chain(outside).collect();
    all.sort_unstable();
    all.dedup_by(|b, a| {
        let same = (a.0, a.1) == (b.0, b.1);
        if same {
            a.2 += b.2;
        }
        same
    });
    all
}

fn latency(app: &Hosted) -> Vec<u64> {
    let mut total: Vec<u64> = Vec::new();
    for counts in app.parts().flat_map(|a| a.ports.iter().map(|p| p.latency.counts())) {
        total.resize(counts.len().max(total.len()), 0);
        total.iter_mut().zip(counts).for_each(|(t, n)| *t += n);
    }
    total
}

/// The state as JSON.
pub fn status(view: &View) -> Value {
    let list: Vec<Value> = view.apps.iter().map(app_status).collect();
    json!({
        "engine": view.engine(),
        "cores": view.cores().count(),
        "uptime_s": view.up().as_secs_f64(),
        "memory": {
            "queues": view.sum(|c| c.queue_bytes.get()),
            "held": view.sum(|c| c.held_bytes.get()),
            "kept": view.sum(|c| c.kept_bytes.get()),
            "tasks": view.sum(|c| c.tasks.get()),
        },
        "accept_failures": view.sum(|c| c.accept_failed.get()),
        "apps": list,
    })
}

fn app_status(a: &Hosted) -> Value {
    let (desc, counts) = (a.desc(), latency(a));
    let us = |share| percentile(&counts, share) as f64 / 1000.0;
    let counters: serde_json::Map<String, Value> =
        desc.counters.iter().enumerate().map(|(n, c)| (c.name.clone(), json!(a.counter(n)))).collect();
    let fault = |(k, p, n): &(u32, u32, u64)| json!({"kind": a.app.fault_name(*k), "place": a.app.place_name(*p), "line": a.app.place_line(*p), "count": n});
    let faults: Vec<Value> = faults(a).iter().map(fault).collect();
    let ports: Vec<Value> = (0..desc.ports.len()).map(|p| port_status(a, p)).collect();
    let merges: Vec<Value> = (0..desc.merges.len()).map(|m| merge_status(a, m)).collect();
    json!({
        "app": desc.app,
        "ports": ports,
        "merges": merges,
        "hooks": hooks_status(a),
        "faults": faults,
        "counters": counters,
        "tables": tables_status(a),
        "latency_us": { "p50": us(0.5), "p90": us(0.9), "p99": us(0.99), "p999": us(0.999) },
    })
}

/// Frames that the XDP hook has received, by their fate there.
fn hooks_status(a: &Hosted) -> Vec<Value> {
    let Some(outside) = a.app.program.outside() else { return Vec::new() };
    let fates = outside.fates();
    if fates.is_empty() {
        return Vec::new();
    }
    let mut hook = serde_json::Map::from_iter([("hook".to_string(), json!("xdp"))]);
    hook.extend(fates.into_iter().map(|(fate, n)| (fate.to_string(), json!(n))));
    hook.insert("lines_lost".into(), json!(outside.lines_lost()));
    vec![Value::Object(hook)]
}

/// How many entries each table holds, as its own statistics say.
fn tables_status(a: &Hosted) -> serde_json::Map<String, Value> {
    let tables = a.desc().tables.iter().enumerate();
    tables.filter_map(|(n, t)| Some((t.name.clone(), json!({ "entries": a.app.table_stats(n)?[0] })))).collect()
}

fn merge_status(a: &Hosted, m: usize) -> Value {
    let all = |f: fn(&MergeStats) -> &Cell| a.sum(|s| f(&s.merges[m]).get());
    json!({
        "merge": a.desc().merges[m].name,
        "inputs": a.desc().merges[m].inputs,
        "runs": all(|s| &s.runs),
        "failed": all(|s| &s.failed),
        "active": all(|s| &s.active),
        "messages_in": all(|s| &s.messages_in),
        "messages_out": all(|s| &s.messages_out),
        "bytes_in": all(|s| &s.bytes_in),
        "bytes_out": all(|s| &s.bytes_out),
    })
}

fn is_frames(p: &wireloom_ir::desc::PortDesc) -> bool {
    matches!(p.kind, wireloom_ir::desc::PortKind::Frames { .. })
}

/// How many answers there were of each class.
fn class_status(a: &Hosted, get: impl Fn(&AppStats) -> &[Cell]) -> Value {
    let count = |n: usize| a.sum(|s| get(s).get(n).map_or(0, Cell::get));
    a.app
        .classes
        .iter()
        .enumerate()
        .map(|(n, class)| (class.clone(), json!(count(n))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn port_status(a: &Hosted, p: usize) -> Value {
    if is_frames(&a.desc().ports[p]) {
        return crate::packet::status(a, p);
    }
    let all = |f: fn(&PortStats) -> &Cell| a.sum(|s| f(&s.ports[p]).get());
    let mut v = json!({
        "port": a.desc().ports[p].name,
        "opened": all(|s| &s.opened),
        "open": all(|s| &s.open),
        "turned_away": all(|s| &s.turned_away),
        "requests": all(|s| &s.requests),
        "replies": all(|s| &s.replies),
        "bytes_in": all(|s| &s.bytes_in),
        "bytes_out": all(|s| &s.bytes_out),
        "retries": all(|s| &s.retries),
        "pipelined": all(|s| &s.pipelined),
        "surplus": all(|s| &s.surplus),
        "failovers": all(|s| &s.failovers),
    });
    if a.desc().ports[p].udp {
        v["lost"] = json!(all(|s| &s.lost));
        v["unmatched"] = json!(all(|s| &s.unmatched));
    }
    if a.app.settings.ports[p].listen {
        v["classes"] = class_status(a, |s| &s.ports[p].classes);
    } else {
        let backends: Vec<Value> = backends(a, p)
            .into_iter()
            .map(|(b, address)| {
                let of = |f: fn(&BackendStats) -> u64| a.sum(|s| s.ports[p].backends.get(b).map_or(0, f));
                json!({
                    "address": &*address,
                    "up": of(|b| u64::from(b.down.load(Relaxed))) == 0,
                    "load": of(|b| u64::from(b.load.load(Relaxed))),
                    "connections": of(|b| b.connections.get()),
                    "requests": of(|b| b.requests.get()),
                    "failures": of(|b| b.failures.get()),
                    "ejections": of(|b| b.ejections.get()),
                    "classes": class_status(a, |s| s.ports[p].backends.get(b).map_or(&[][..], |b| &b.classes)),
                })
            })
            .collect();
        v["backends"] = Value::Array(backends);
        v["gone"] = Value::Array(gone(a, p));
    }
    v
}

/// All numbers in the Prometheus text format.
pub fn metrics(view: &View) -> String {
    let mut out = String::new();
    port_metrics(&mut out, view);
    crate::packet::metrics(&mut out, view);
    merge_metrics(&mut out, view);
    backend_metrics(&mut out, view);
    let mut f = Family::new(&mut out, "wireloom_faults_total", "counter", "Faults by kind and place.");
    for a in &view.apps {
        for (k, p, n) in faults(a) {
            let (kind, place, line) = (a.app.fault_name(k), a.app.place_name(p), a.app.place_line(p));
            f.add(&[("app", a.name()), ("kind", &kind), ("place", &place), ("line", &line)], n);
        }
    }
    let mut f = Family::new(&mut out, "wireloom_counter_total", "counter", "Counters the program declares.");
    for a in &view.apps {
        for (n, c) in a.desc().counters.iter().enumerate() {
            f.add(&[("app", a.name()), ("name", &c.name)], a.counter(n));
        }
    }
    class_metrics(&mut out, view);
    latency_metrics(&mut out, view);
    let mut f = Family::new(
        &mut out,
        "wireloom_pauses_total",
        "counter",
        "How often handlers have let others go first in a long loop.",
    );
    for a in &view.apps {
        f.add(&[("app", a.name())], a.sum(|s| s.pauses.get()));
    }
    let mut f = Family::new(&mut out, "wireloom_memory_bytes", "gauge", "Bytes of the pools.");
    f.add(&[("pool", "queues")], view.sum(|c| c.queue_bytes.get()));
    f.add(&[("pool", "held")], view.sum(|c| c.held_bytes.get()));
    f.add(&[("pool", "kept")], view.sum(|c| c.kept_bytes.get()));
    let mut f = Family::new(&mut out, "wireloom_batches_total", "counter", "Event batches per core.");
    for (i, c) in view.cores().enumerate() {
        f.add(&[("core", &i.to_string())], c.batches.get());
    }
    let mut f = Family::new(
        &mut out,
        "wireloom_connections_moved_total",
        "counter",
        "Client connections given to another core.",
    );
    for (i, c) in view.cores().enumerate() {
        f.add(&[("core", &i.to_string())], c.moved.get());
    }
    let mut f = Family::new(
        &mut out,
        "wireloom_accept_failures_total",
        "counter",
        "Connections not accepted for want of descriptors.",
    );
    f.add(&[], view.sum(|c| c.accept_failed.get()));
    let mut f = Family::new(
        &mut out,
        "wireloom_access_log_lost_total",
        "counter",
        "Lines of the access log that found no room or could not be written.",
    );
    f.add(&[], view.groups.iter().filter_map(|g| g.log.as_ref()).map(|l| l.lost()).sum());
    let mut f = Family::new(
        &mut out,
        "wireloom_log_lost_total",
        "counter",
        "Lines of standard error that found no room or could not be written.",
    );
    f.add(&[], crate::log_queue::lost());
    out
}

fn merge_metrics(out: &mut String, view: &View) {
    type Get = fn(&MergeStats) -> &Cell;
    let families: [(&str, &str, &str, Get); 7] = [
        ("wireloom_merge_runs_total", "counter", "Merges begun.", |s| &s.runs),
        ("wireloom_merge_failed_total", "counter", "Merges that ended with a fault.", |s| &s.failed),
        ("wireloom_merge_active", "gauge", "Merges going on now.", |s| &s.active),
        ("wireloom_merge_messages_in_total", "counter", "Messages merged.", |s| &s.messages_in),
        ("wireloom_merge_messages_out_total", "counter", "Messages that came out.", |s| &s.messages_out),
        ("wireloom_merge_received_bytes_total", "counter", "Bytes of the inputs.", |s| &s.bytes_in),
        ("wireloom_merge_sent_bytes_total", "counter", "Bytes that came out.", |s| &s.bytes_out),
    ];
    if view.apps.iter().all(|a| a.desc().merges.is_empty()) {
        return;
    }
    for (name, kind, help, get) in families {
        let mut f = Family::new(out, name, kind, help);
        for a in &view.apps {
            for (m, merge) in a.desc().merges.iter().enumerate() {
                f.add(&[("app", a.name()), ("merge", &merge.name)], a.sum(|s| get(&s.merges[m]).get()));
            }
        }
    }
}

fn port_metrics(out: &mut String, view: &View) {
    type Get = fn(&PortStats) -> &Cell;
    let families: [(&str, &str, &str, Get); 11] = [
        ("wireloom_connections_total", "counter", "Connections opened.", |s| &s.opened),
        ("wireloom_connections", "gauge", "Connections open now.", |s| &s.open),
        ("wireloom_connections_turned_away_total", "counter", "Connections over the limit.", |s| &s.turned_away),
        ("wireloom_requests_total", "counter", "Requests.", |s| &s.requests),
        ("wireloom_replies_total", "counter", "Replies.", |s| &s.replies),
        ("wireloom_received_bytes_total", "counter", "Bytes received.", |s| &s.bytes_in),
        ("wireloom_sent_bytes_total", "counter", "Bytes sent.", |s| &s.bytes_out),
        ("wireloom_retries_total", "counter", "Requests sent again on a fresh connection.", |s| &s.retries),
        ("wireloom_pipelined_total", "counter", "Requests sent behind another on its connection.", |s| &s.pipelined),
        ("wireloom_surplus_total", "counter", "Connections closed because of bytes without a request.", |s| &s.surplus),
        ("wireloom_failovers_total", "counter", "Requests that went to another server.", |s| &s.failovers),
    ];
    for (name, kind, help, get) in families {
        let mut f = Family::new(out, name, kind, help);
        for a in &view.apps {
            for (p, port) in a.desc().ports.iter().enumerate().filter(|(_, p)| !is_frames(p)) {
                f.add(&[("app", a.name()), ("port", &port.name)], a.sum(|s| get(&s.ports[p]).get()));
            }
        }
    }
    datagram_metrics(out, view);
}

/// Of ports over UDP, if there are any.
fn datagram_metrics(out: &mut String, view: &View) {
    type Get = fn(&PortStats) -> &Cell;
    if !view.apps.iter().any(|a| a.desc().ports.iter().any(|p| p.udp)) {
        return;
    }
    let mut f = Family::new(
        out,
        "wireloom_datagrams_dropped_total",
        "counter",
        "Datagrams that the system dropped because they were not read in time.",
    );
    f.add(&[], view.sum(|c| c.datagrams_dropped.get()));
    let families: [(&str, &str, Get); 2] = [
        ("wireloom_datagrams_lost_total", "Datagrams that could not be sent.", |s| &s.lost),
        ("wireloom_datagrams_unmatched_total", "Answers to no request, or too late.", |s| &s.unmatched),
    ];
    for (name, help, get) in families {
        let mut f = Family::new(out, name, "counter", help);
        for a in &view.apps {
            for (p, port) in a.desc().ports.iter().enumerate().filter(|(_, p)| p.udp) {
                f.add(&[("app", a.name()), ("port", &port.name)], a.sum(|s| get(&s.ports[p]).get()));
            }
        }
    }
}

fn backend_metrics(out: &mut String, view: &View) {
    type Get = fn(&BackendStats) -> u64;
    let families: [(&str, &str, &str, Get); 6] = [
        ("wireloom_backend_requests_total", "counter", "Requests per backend.", |b| b.requests.get()),
        ("wireloom_backend_failures_total", "counter", "Failures per backend.", |b| b.failures.get()),
        ("wireloom_backend_ejections_total", "counter", "Times a backend was ejected.", |b| b.ejections.get()),
        ("wireloom_backend_connections", "gauge", "Connections per backend.", |b| b.connections.get()),
        ("wireloom_backend_outstanding", "gauge", "Requests under way per backend.", |b| {
            u64::from(b.load.load(Relaxed))
        }),
        ("wireloom_backend_ejected_cores", "gauge", "Cores on which a backend is ejected.", |b| {
            u64::from(b.down.load(Relaxed))
        }),
    ];
    for (name, kind, help, get) in families {
        let mut f = Family::new(out, name, kind, help);
        for a in &view.apps {
            for (p, port) in a.desc().ports.iter().enumerate() {
                for (b, address) in backends(a, p) {
                    let n = a.sum(|s| s.ports[p].backends.get(b).map_or(0, get));
                    f.add(&[("app", a.name()), ("port", &port.name), ("backend", &address)], n);
                }
            }
        }
    }
}

/// (app, number, name) of every port of connections.
fn ports(view: &View) -> impl Iterator<Item = (&Hosted, usize, &str)> {
    view.apps.iter().flat_map(|a| {
        a.desc().ports.iter().enumerate().filter(|(_, p)| !is_frames(p)).map(move |(p, d)| (a, p, d.name.as_str()))
    })
}

/// (place, address) of every backend of a port.
fn backends(a: &Hosted, port: usize) -> Vec<(usize, Arc<str>)> {
    let settings = a.app.renewed();
    let places = &settings.ports[port].places;
    let names = numbered(places.of.iter().map(|i| places.all[*i as usize].name.clone()));
    places.of.iter().map(|i| *i as usize).zip(names).collect()
}

/// Names of which each occurs once: the second of its kind becomes `name#2`.
fn numbered(names: impl Iterator<Item = Arc<str>>) -> Vec<Arc<str>> {
    let mut seen: HashMap<Arc<str>, u32> = HashMap::new();
    let each = |name: Arc<str>| {
        let n = seen.entry(name.clone()).and_modify(|n| *n += 1).or_insert(1);
        if *n == 1 {
            name
        } else {
            format!("{name}#{n}").into()
        }
    };
    names.map(each).collect()
}

/// Servers that are not in the list any more and have connections.
fn gone(a: &Hosted, port: usize) -> Vec<Value> {
    let settings = a.app.renewed();
    let places = &settings.ports[port].places;
    let gone = places.all.iter().enumerate().filter(|(i, _)| places.instance(*i).is_none());
    let shown = gone.filter_map(|(i, place)| {
        let open = a.sum(|s| s.ports[port].backends.get(i).map_or(0, |b| b.connections.get()));
        (open > 0).then(|| json!({ "address": &*place.name, "connections": open }))
    });
    shown.collect()
}

fn class_metrics(out: &mut String, view: &View) {
    let mut f = Family::new(out, "wireloom_responses_total", "counter", "Answers to clients by their class.");
    for (a, p, port) in ports(view).filter(|(a, p, _)| a.app.settings.ports[*p].listen) {
        for (n, class) in a.app.classes.iter().enumerate() {
            let count = a.sum(|s| s.ports[p].classes.get(n).map_or(0, Cell::get));
            f.add(&[("app", a.name()), ("port", port), ("class", class)], count);
        }
    }
    let mut f = Family::new(
        out,
        "wireloom_backend_responses_total",
        "counter",
        "Answers to clients that a backend has given, by their class.",
    );
    for (a, p, port) in ports(view) {
        for (b, backend) in backends(a, p) {
            for (n, class) in a.app.classes.iter().enumerate() {
                let count = a.sum(|s| s.ports[p].backends.get(b).and_then(|b| b.classes.get(n)).map_or(0, Cell::get));
                f.add(&[("app", a.name()), ("port", port), ("backend", &backend), ("class", class)], count);
            }
        }
    }
}

fn latency_metrics(out: &mut String, view: &View) {
    let mut f = Histograms::new(out, "wireloom_request_seconds", "From a request to the end of its answer.");
    for (a, p, port) in ports(view).filter(|(a, p, _)| a.app.settings.ports[*p].listen) {
        f.add(&[("app", a.name()), ("port", port)], Powers::of(a.parts().map(|s| s.ports[p].latency.powers())));
    }
    let mut f =
        Histograms::new(out, "wireloom_backend_seconds", "From a request to a backend to the head of its answer.");
    for (a, p, port) in ports(view) {
        for (b, backend) in backends(a, p) {
            f.add(
                &[("app", a.name()), ("port", port), ("backend", &backend)],
                Powers::of(a.parts().filter_map(|s| Some(s.ports[p].backends.get(b)?.latency.powers()))),
            );
        }
    }
}

/// One family of histograms in the text format.
struct Histograms<'a> {
    out: &'a mut String,
    name: &'a str,
}

impl<'a> Histograms<'a> {
    fn new(out: &'a mut String, name: &'a str, help: &str) -> Histograms<'a> {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
        Histograms { out, name }
    }

    fn add(&mut self, labels: &[(&str, &str)], of: Powers) {
        let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}=\"{}\"", label(v))).collect();
        let (labels, name, mut seen) = (labels.join(","), self.name, 0);
        for (i, n) in of.counts.iter().enumerate() {
            seen += n;
            let le = if i + 1 < of.counts.len() { Powers::bound(i).to_string() } else { "+Inf".into() };
            let _ = writeln!(self.out, "{name}_bucket{{{labels},le=\"{le}\"}} {seen}");
        }
        let sum = of.sum as f64 / 1e9;
        let _ = writeln!(self.out, "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {seen}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_listed_twice_has_two_names() {
        let all = numbered(["a:1", "b:1", "a:1", "a:1"].into_iter().map(Arc::from));
        assert_eq!(all.iter().map(|n| &**n).collect::<Vec<_>>(), ["a:1", "b:1", "a:1#2", "a:1#3"]);
    }
}
