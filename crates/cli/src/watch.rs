//! `wireloom counter` and `wireloom signal`: the counters and signals of a running app.

use crate::args::{Counter, Signal};
use crate::control::{columns, print, Client, Object};
use crate::table::plain;
use crate::{Failure, Outcome};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

// ---- counters ----

/// A number that an app shows.
struct Sample {
    app: String,
    name: String,
    value: u64,
}

pub fn counter(args: Counter) -> Outcome {
    let mut client = Client::find(&args.target)?;
    let period = match args.watch {
        None => None,
        Some(s) if s.is_finite() && (0.01..=86_400.0).contains(&s) => Some(Duration::from_secs_f64(s)),
        Some(s) => return Err(Failure::Said(format!("`--watch {s}`: expected seconds, from 0.01 to a day"))),
    };
    let (mut before, mut at, mut rounds): (BTreeMap<(String, String), u64>, _, _) =
        (BTreeMap::new(), Instant::now(), 0);
    loop {
        let status = match client.ask(json!({ "do": "status" })) {
            // A watcher that stays to the app's end has seen all values.
            Err(r) if rounds > 0 && r.answer.is_empty() => {
                eprintln!("wireloom: {}", r.text);
                return Ok(());
            }
            other => other?,
        };
        let elapsed = std::mem::replace(&mut at, Instant::now()).elapsed().as_secs_f64();
        let samples = chosen(samples(&status, args.all || !args.names.is_empty()), &args)?;
        let rate = |s: &Sample| {
            before.get(&(s.app.clone(), s.name.clone())).map(|b| s.value.saturating_sub(*b) as f64 / elapsed)
        };
        let text = if args.target.json {
            let row = |s: &Sample| json!({ "app": s.app, "counter": s.name, "value": s.value, "per_s": rate(s) });
            Value::Array(samples.iter().map(row).collect()).to_string() + "\n"
        } else {
            shown(&samples, period.is_some(), &rate)
        };
        if !print(&text) {
            return Ok(());
        }
        before = samples.into_iter().map(|s| ((s.app, s.name), s.value)).collect();
        rounds += 1;
        match period {
            Some(p) if args.count.is_none_or(|n| rounds < n) => std::thread::sleep(p),
            _ => return Ok(()),
        }
    }
}

fn shown(samples: &[Sample], watched: bool, rate: &dyn Fn(&Sample) -> Option<f64>) -> String {
    let mut head = ["app", "counter", "value"].map(String::from).to_vec();
    if watched {
        head.push("per second".into());
    }
    let row = |s: &Sample| {
        let mut row = vec![json!(s.app), json!(s.name), json!(s.value)];
        if watched {
            row.push(rate(s).map_or(json!(""), |r| json!((r * 10.0).round() / 10.0)));
        }
        row
    };
    columns(&head, &samples.iter().map(row).collect::<Vec<_>>(), &mut Vec::new()) + if watched { "\n" } else { "" }
}

/// The program's counters; with `all` also faults, and the counters of ports.
fn samples(status: &Object, all: bool) -> Vec<Sample> {
    let mut out = Vec::new();
    for app in status.get("apps").and_then(Value::as_array).map_or(&[][..], |a| a) {
        let name = app["app"].as_str().unwrap_or_default();
        let mut add = |what: String, v: &Value| {
            if let Some(value) = v.as_u64() {
                out.push(Sample { app: name.into(), name: what, value });
            }
        };
        let list = |what: &str| app[what].as_array().cloned().unwrap_or_default();
        for (c, v) in app["counters"].as_object().into_iter().flatten() {
            add(c.clone(), v);
        }
        if !all {
            continue;
        }
        for f in list("faults") {
            let place = f["place"].as_str().unwrap_or_default();
            add(format!("fault {} {place}", f["kind"].as_str().unwrap_or_default()).trim_end().into(), &f["count"]);
        }
        for (what, of) in [("ports", "port"), ("merges", "merge"), ("hooks", "hook")] {
            for p in list(what) {
                let port = p[of].as_str().unwrap_or_default().to_string();
                for (k, v) in p.as_object().into_iter().flatten() {
                    add(format!("{port}.{k}"), v);
                }
            }
        }
    }
    out
}

/// The named counters.
fn chosen(all: Vec<Sample>, args: &Counter) -> Result<Vec<Sample>, Failure> {
    let app = |s: &Sample| args.target.app.as_ref().is_none_or(|a| *a == s.app);
    let all: Vec<Sample> = all.into_iter().filter(app).collect();
    if let Some(missing) = args.names.iter().find(|n| !all.iter().any(|s| s.name == **n)) {
        let known: Vec<&str> = all.iter().map(|s| s.name.as_str()).collect();
        let hint = wireloom_ir::suggestions::lead(missing, known.iter().copied());
        let list = if known.is_empty() { "none".into() } else { known.join(", ") };
        return Err(Failure::Said(format!("there is no counter `{missing}`{hint} there are: {list}")));
    }
    if all.is_empty() && args.names.is_empty() && !args.all {
        return Err(Failure::Said(
            "the app declares no counters; `--all` shows the counters of its ports, and faults".into(),
        ));
    }
    Ok(all.into_iter().filter(|s| args.names.is_empty() || args.names.contains(&s.name)).collect())
}

// ---- signals ----

pub fn signal(args: Signal) -> Outcome {
    let mut client = Client::find(&args.target)?;
    let Some(name) = &args.name else { return list(&mut client, args.target.json) };
    let named = args.args.first().is_some_and(|a| a.contains('='));
    let given = if named { Value::Object(crate::table::pairs(&args.args)?) } else { args.args.clone().into() };
    let answer = client.ask(json!({ "do": "signal", "signal": name, "args": given }))?;
    if args.target.json {
        print(&plain(answer));
        return Ok(());
    }
    let cores = answer.get("cores").and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), String::from);
    match (answer.get("sum"), &cores[..]) {
        (Some(sum), _) => print(&format!("{}\n", text(sum))),
        (None, all) if all.iter().all(Value::is_null) => true,
        (None, [one]) => print(&format!("{}\n", text(one))),
        (None, all) => {
            print(&all.iter().enumerate().map(|(i, v)| format!("core {i}: {}\n", text(v))).collect::<String>())
        }
    };
    Ok(())
}

fn list(client: &mut Client, json: bool) -> Outcome {
    let mut answer = client.ask(json!({ "do": "signals" }))?;
    let signals = answer.remove("signals").unwrap_or(Value::Object(Map::new()));
    if json {
        print(&(signals.to_string() + "\n"));
        return Ok(());
    }
    let signals = signals.as_array().cloned().unwrap_or_default();
    if signals.is_empty() {
        return Err(Failure::Said(
            "the app has no signals of its own; `wireloom table` reads and changes its tables".into(),
        ));
    }
    let args = |s: &Value| {
        let arg =
            |a: &Value| format!("{}={}", a["name"].as_str().unwrap_or_default(), a["is"].as_str().unwrap_or_default());
        s["args"].as_array().map_or(String::new(), |l| l.iter().map(arg).collect::<Vec<_>>().join(", "))
    };
    let row = |s: &Value| {
        vec![s["app"].clone(), s["signal"].clone(), args(s).into(), s["doc"].as_str().unwrap_or_default().trim().into()]
    };
    let head = ["app", "signal", "arguments", "about"].map(String::from);
    print(&columns(&head, &signals.iter().map(row).collect::<Vec<_>>(), &mut Vec::new()));
    Ok(())
}
