//! Rules changed many times while packets flow through all cores: no packet sees a part of one.
//! `WIRELOOM_SEEDS` is how many times, in steps of 200,000.

use serde_json::Value;
use std::fmt::Write;
use wireloom_tests::control::{ControlLine, Controlled};
use wireloom_tests::programs::seeds;

/// UDP packets of 64 flows, as a capture.
fn capture() -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&0xa1b2_c3d4u32.to_le_bytes());
    out.extend_from_slice(&[2, 0, 4, 0]);
    for word in [0u32, 0, 65_535, 1] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    for flow in 0..64u8 {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, flow, 10, 2, 0, 1]);
        let sum = frame[14..].chunks(2).fold(0u32, |s, w| s + u32::from(w[0]) * 256 + u32::from(w[1]));
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame.extend_from_slice(&[4, 0, 0, 53, 0, 26, 0, 0]);
        frame.resize(60, flow);
        for word in [1_700_000_000u32, 1000 * u32::from(flow), 60, 60] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&frame);
    }
    out
}

/// The fields of a rule's version.
fn rule(a: u64) -> String {
    let (b, c) = (a * 3, a ^ 0x5555_5555_5555_5555);
    format!("\"a\":{a},\"b\":{b},\"c\":{c},\"d\":{}", b.wrapping_add(c))
}

/// Rows of one request.
const ROWS: u64 = 2000;

fn change(line: &mut ControlLine, what: &str, table: &str, row: impl Fn(u64) -> String) -> u64 {
    let mut request = format!("{{\"do\":\"{what}\",\"table\":\"{table}\",\"rows\":[");
    for i in 0..ROWS {
        let _ = write!(request, "{}{{{}}}", if i == 0 { "" } else { "," }, row(i));
    }
    let answer = line.ask(&(request + "]}"));
    assert_eq!(answer["ok"], true, "{answer}");
    ROWS
}

#[test]
fn many_changes_and_none_is_seen_half() {
    let changes_wanted = 200_000 * seeds(1).end();
    let folder = std::env::temp_dir().join(format!("wireloom-whole-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("writable");
    let pcap = folder.join("in.pcap");
    std::fs::write(&pcap, capture()).expect("writable");
    let wire = format!("wire=memory:{}*1000000000", pcap.display());
    let app = Controlled::run("whole", &["tests/programs/whole_rules.loom", "--bind", &wire, "--cores", "all"]);
    let counters = || -> Vec<(String, u64)> {
        let list = app.json(&["counter"]);
        let pair =
            |c: &Value| (c["counter"].as_str().unwrap_or_default().to_string(), c["value"].as_u64().unwrap_or(0));
        list.as_array().map_or(Vec::new(), |l| l.iter().map(pair).collect())
    };
    let of = |list: &[(String, u64)], name: &str| list.iter().find(|(n, _)| n == name).map_or(0, |(_, v)| *v);
    let before = of(&counters(), "seen");
    let (mut line, mut changes, mut version) = (app.connect(), 0, 0);
    while changes < changes_wanted {
        version += ROWS;
        let flow = |i: u64| {
            format!("\"src\":\"10.1.0.{}\",\"dst\":\"10.2.0.1\",\"sport\":1024,\"dport\":53,\"proto\":17", i % 64)
        };
        let range =
            |i: u64| format!("\"dst\":\"10.2.0.0/{}\",\"dport\":[1000,2999],\"priority\":{}", 16 + i % 2 * 8, i % 2);
        // Where the whole rule is one entry, and where it is many; replaced, taken away, and put
        // back.
        for _ in 0..4 {
            changes += change(&mut line, "insert", "exact", |i| format!("{},{}", flow(i), rule(version + i)));
            changes += change(&mut line, "insert", "shared", |i| format!("\"key\":{},{}", i % 4, rule(version + i)));
            changes += change(&mut line, "insert", "routes", |i| {
                format!("\"key\":\"{}\",{}", ["10.2.0.0/16", "10.9.0.0/16"][i as usize % 2], rule(version + i))
            });
        }
        changes += change(&mut line, "insert", "acl", |i| format!("{},{}", range(i), rule(version + i)));
        for table in ["exact", "shared", "routes", "acl"] {
            changes += change(&mut line, "delete", table, |i| match table {
                "exact" => flow(i),
                "shared" => format!("\"key\":{}", i % 4),
                "routes" => format!("\"key\":\"{}\"", ["10.2.0.0/16", "10.9.0.0/16"][i as usize % 2]),
                _ => range(i),
            });
        }
    }
    let after = counters();
    assert!(of(&after, "seen") > before, "no packets flow: {after:?}");
    // Packets did look between the changes: at many versions, and at rules with one changed already
    // and the other not.
    assert!(of(&after, "changes") > 1000 && of(&after, "apart") > 0, "{after:?}");
    assert_eq!((of(&after, "torn"), of(&after, "halves")), (0, 0), "{after:?}");
    eprintln!("{changes} changes, {} packets: {after:?}", of(&after, "seen") - before);
    std::fs::remove_dir_all(&folder).ok();
}
