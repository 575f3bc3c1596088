//! `wireloom fuzz` on every message of the standard library, the C of some compiled with
//! AddressSanitizer and UBSan. And on every packet app. A failure prints the seed that repeats it.
//! `WIRELOOM_FUZZ_SECONDS` is the time per message.

use std::path::PathBuf;
use wireloom_tests::folder::Folder;
use wireloom_tests::{fully_compiled, quickly_compiled, root, Output, Wireloom};

/// The files of the library that have a protocol.
fn protocols() -> Vec<String> {
    let files = std::fs::read_dir(root().join("std")).unwrap().map(|f| f.unwrap().path());
    let has_protocol =
        |f: &PathBuf| f.is_file() && std::fs::read_to_string(f).unwrap().lines().any(|l| l.starts_with("protocol "));
    let mut all: Vec<String> = files.filter(has_protocol).map(|f| f.display().to_string()).collect();
    all.sort();
    assert!(all.len() > 10, "{all:?}");
    all
}

/// With the sanitizers, which see more in code that is not optimised: every prefix and every
/// changed byte, which also compiles it. Then random changes for so many seconds, if any.
fn sanitized(args: &[&str], seconds: &str) -> Output {
    let run = |seconds: &str| {
        Wireloom::command_with(&[args, &["--seconds", seconds, "--sanitize"]].concat(), |c| {
            quickly_compiled(c);
        })
    };
    let once = run("0");
    if once.code == Some(0) && seconds != "0" {
        run(seconds)
    } else {
        once
    }
}

/// The time of random changes per message or app: none, unless it is asked for.
fn seconds() -> String {
    std::env::var("WIRELOOM_FUZZ_SECONDS").unwrap_or_else(|_| "0".into())
}

/// The protocols whose code is compiled with the sanitizers, which takes several times as long:
/// those with most kinds of fields. All are if `WIRELOOM_FUZZ_SECONDS` is set.
const SANITIZED_PROTOCOLS: &[&str] = &["http.loom", "postgres.loom"];

#[test]
fn every_message() {
    let long = std::env::var_os("WIRELOOM_FUZZ_SECONDS").is_some();
    for file in protocols() {
        let out = if long || SANITIZED_PROTOCOLS.iter().any(|p| file.ends_with(&format!("/{p}"))) {
            sanitized(&["fuzz", &file], &seconds())
        } else {
            Wireloom::command_with(&["fuzz", &file, "--seconds", "0"], |c| {
                quickly_compiled(c);
            })
        };
        assert_eq!(out.code, Some(0), "{file}: {}", out.text);
        assert!(out.out.contains("no difference"), "{file}: {}", out.text);
        eprintln!("{file}: {}{}", out.text.trim(), out.out.trim());
    }
}

/// Apps with frame ports, and what they need to be told. Those that send random bytes (aes_gateway,
/// ipsec_gateway) cannot be compared.
const APPS: &[(&str, &[&str])] = &[
    ("dns_tap", &[]),
    ("dpi_balancer", &[]),
    ("flow_classifier", &[]),
    ("flow_tracker", &[]),
    ("l4_balancer", &["vip=192.0.2.1", "dips=10.0.0.1,10.0.0.2", "encap=nvgre"]),
    ("learning_switch", &[]),
    ("nat44", &["public=198.51.100.1"]),
    ("network_sequencer", &[]),
    ("openflow_firewall", &["otherwise=accept"]),
    ("packet_capture", &["fields=true", "both=true"]),
    ("pfabric_scheduler", &[]),
    ("port_knocking", &[]),
    ("xdp_firewall", &["otherwise=drop"]),
    ("xdp_kv_cache", &[]),
    ("ddos_filter", &["rate=100", "burst=5", "syn_rate=5", "sample=2"]),
];

/// Further ones if `WIRELOOM_FUZZ_SECONDS` is set.
const MORE_APPS: &[(&str, &[&str])] = &[("l4_balancer", &["vip=192.0.2.1", "dips=10.0.0.1,10.0.0.2", "encap=ipip"])];

/// Those whose code is compiled with the sanitizers, which takes several times as long: ones that
/// change frames most. All are if `WIRELOOM_FUZZ_SECONDS` is set.
const SANITIZED: &[&str] = &["l4_balancer", "nat44"];

/// Those whose code is optimised, which takes four times as long: one whose handlers are batched
/// and vectorized. All are if `WIRELOOM_FUZZ_SECONDS` is set.
const OPTIMISED: &[&str] = &["flow_tracker"];

/// Every prefix and every changed byte of frames of most kinds, then random changes. Nothing reads
/// past a frame. Interpreter and compiled code have the same frames, faults, log and counters.
/// `WIRELOOM_FUZZ_SECONDS` is the time per app for random ones.
#[test]
fn every_packet_app() {
    let (seconds, long) = (seconds(), std::env::var_os("WIRELOOM_FUZZ_SECONDS").is_some());
    for (app, sets) in APPS.iter().chain(MORE_APPS.iter().filter(|_| long)) {
        let file = format!("apps/{app}.loom");
        let mut args = vec!["fuzz", &file];
        for set in *sets {
            args.extend(["--set", set]);
        }
        let with_sanitizers = long || SANITIZED.contains(app);
        let out = match with_sanitizers {
            true => sanitized(&args, &seconds),
            false => Wireloom::command_with(&[&args[..], &["--seconds", &seconds]].concat(), |c| {
                if long || OPTIMISED.contains(app) {
                    fully_compiled(c);
                } else {
                    quickly_compiled(c);
                }
            }),
        };
        assert_eq!(out.code, Some(0), "{app} {sets:?}: {}", out.text);
        assert!(out.out.contains("no difference") && frames(&out) > 1000, "{app}: {}", out.text);
        eprintln!("{app}: {}", out.out.trim());
    }
}

fn frames(out: &Output) -> u64 {
    let words = out.out.split_once("no difference in ").and_then(|(_, rest)| rest.split_once(' '));
    words.and_then(|(n, _)| n.parse().ok()).unwrap_or(0)
}

/// Fields behind streams, where what was read is given away: what is asked of them, padding, and
/// recovery by a length.
const BEHIND_STREAMS: &[(&str, &str)] = &[
    ("Asked", "unit Asked { n: u8  data: stream bytes [n]  m: u8  word: bytes<255> [m]  require word < \"m\"  let high = word > \"Z\"
        line: text<20> until \"\\n\"  require high or len(word) < 9 }"),
    ("Padded", "unit Padded { n: u8  data: stream bytes [n]  _: pad 4  m: u8  require m < 128 }"),
    ("Items", "unit Item { n: u8  data: bytes<255> [n]  _: pad 8  require n < 200 }
        unit Items { n: u8  items: stream Item until .n < 16  z: u8  _: pad 3  require z < 200 }"),
    ("Recovers", "unit Part { n: u8  data: stream bytes [n] }
        unit Recovers { n: u16  recover [n]  parts: stream Part until .n < 100  z: u8  require z < 128 }"),
    ("Held", "unit Held { name: token<20> until \":\"  n: u16  data: bytes<100KiB> [n]  require name < \"m\"  require data < \"m\" }"),
];

#[test]
fn fields_behind_streams_sanitized() {
    let folder = Folder::new("behind_streams");
    for (unit, text) in BEHIND_STREAMS {
        let file = folder.name_of(&format!("{}.loom", unit.to_lowercase()));
        std::fs::write(&file, format!("{text}\nprotocol p {{ request {unit} }}\n")).expect("the folder is writable");
        let out = sanitized(&["fuzz", &format!("{file}:{unit}")], "1");
        assert_eq!(out.code, Some(0), "{unit}: {}", out.text);
        assert!(out.out.contains("no difference"), "{unit}: {}", out.text);
        eprintln!("{unit}: {}", out.out.trim());
    }
}

#[test]
fn parts_of_messages_are_refused_by_name() {
    let out = Wireloom::command(&["fuzz", "std.http.Field"]);
    assert!(out.code == Some(1) && out.text.contains("Request, Response"), "{}", out.text);
    let folder = wireloom_tests::folder::Folder::new("alone");
    std::fs::write(folder.file("alone.loom"), "unit Alone { n: u8 }\n").expect("the folder is writable");
    let out = Wireloom::command(&["fuzz", &folder.name_of("alone.loom:Alone")]);
    assert!(out.code == Some(1) && out.text.contains("nothing in its file is"), "{}", out.text);
}

/// An app that logs, keeps a table, and lets packets wait.
fn waiting(kept: u32, kind: u32) -> String {
    format!(
        "app waiting {{
    port wire = nic(\"a\"), out = nic(\"b\")
    queue q {{ depth 4 }}
    table seen: u32 -> u64 {{ capacity 64 }}
    on wire(p) where p.eth {{
        seen[p.len] = {kept}
        if p.ip {{ log p.ip.src, \" \", p.len }}
        if p.len > 100 {{ log 80 / (p.len % 2) }}
        p.eth.type = {kind}
        p -> q
        if len(q) > 2 {{ q.pop() }}
    }}
    q -> out
}}
"
    )
}

/// The contents of tables and queues at the end count: a program beside one that keeps something
/// else, and beside itself.
/// Sketches that are full many times over make mistakes, for other keys in each program.
const FULL_SKETCHES: &str = r#"
use std.packet
app full {
    port wire = memory("w") as packet.Packet, out = memory("o") as packet.Packet
    table seen: bloom u32 { capacity 1 }
    table heavy: count_min u32 -> u64 { capacity 1 }
    on wire(p) where p.ip4 {
        if seen[u32(p.ip4.src)] { return }
        seen[u32(p.ip4.src)] = true
        heavy[u32(p.ip4.dst)] += 1
        if heavy[u32(p.ip4.dst)] < 3 { p -> out }
    }
}
"#;

#[test]
fn sketches_make_no_difference() {
    let folder = Folder::new("fuzz-sketches");
    std::fs::write(folder.file("full.loom"), FULL_SKETCHES).expect("the folder is writable");
    let file = folder.file("full.loom").display().to_string();
    let out = Wireloom::command_with(&["fuzz", &file, "--seconds", "2"], |c| {
        quickly_compiled(c);
    });
    assert!(out.code == Some(0) && out.out.contains("no difference"), "{}", out.text);
}

#[test]
fn tables_and_queues_are_compared() {
    use std::sync::Arc;
    use wireloom_interp::frames::{FrameIn, FramePair, FrameSummary};
    let folder = std::env::temp_dir().join(format!("wireloom-fuzz-waiting-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let module = |kept, kind| {
        let file = folder.join("waiting.loom");
        std::fs::write(&file, waiting(kept, kind)).expect("the folder is writable");
        Arc::new(wireloom_tests::programs::module_of(&file, None))
    };
    let run = |a: &Arc<wireloom_ir::Module>,
               b: &Arc<wireloom_ir::Module>,
               frames: u8|
     -> Result<FrameSummary, String> {
        let mut pair =
            FramePair::new(a, wireloom_tests::programs::interpreted(a), wireloom_tests::programs::interpreted(b), &[])?;
        for n in 0..frames {
            pair.frame(&FrameIn {
                port: 0,
                instance: 0,
                time: 0,
                wire: 0,
                bytes: vec![n; 60 + usize::from(n)],
                rooms: (64, 64),
                mark: 0,
                entry: Vec::new(),
            })?;
        }
        pair.finish()?;
        Ok(pair.sum)
    };
    let usual = module(1, 7);
    let sum = run(&usual, &module(1, 7), 5).expect("they are the same");
    assert_eq!((sum.frames, sum.sent, sum.entries, sum.waiting), (5, 3, 5, 2));
    let why = run(&usual, &module(2, 7), 2).expect_err("the tables differ");
    assert!(why.contains("table seen") && why.contains("2 entries"), "{why}");
    let why = run(&usual, &module(1, 8), 2).expect_err("the queues differ");
    assert!(why.contains("queue"), "{why}");
    let out = Wireloom::command(&["fuzz", &folder.join("waiting.loom").display().to_string(), "--seconds", "0"]);
    assert!(out.code == Some(0) && out.out.contains("2 packets in queues"), "{}", out.text);
    std::fs::remove_dir_all(&folder).ok();
}
