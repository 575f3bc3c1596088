//! Handlers that run for sixteen frames at a time send and count the same as the interpreter, for
//! all kinds of frames.

use serde_json::Value;
use std::path::Path;
use wireloom_tests::folder::Folder;
use wireloom_tests::process::finish;
use wireloom_tests::{fully_compiled, root, Wireloom};

/// Conditions over headers of all kinds, locals set in branches, counts of several frames' numbers,
/// two outputs.
const CONDITIONS: &str = r#"
app conditions {
    param near: bool = true
    port wire = nic("in"), low = nic("a"), high = nic("b")
    counter bytes
    counter payload
    counter optional
    counter local
    counter many

    on wire(p) where p.ip4 {
        bytes += p.len
        var class: u32 = 0
        if p.udp {
            payload += u64(p.udp.length) - 8
            class = u32(p.udp.dst >> 4) & 0xff
        } else if p.tcp {
            if p.tcp.offset > 5 { optional += 1 }
            class = u32(p.tcp.src) + u32(p.tcp.dst)
            if p.tcp.syn == 1 and not (p.tcp.ack == 1) { class = 7 }
        }
        if p.ip4.src == 10.0.0.1 or p.ip4.ttl < 2 {
            local += 3
            if near { p -> low }
        } else if class > 100 and p.ip4.total != 40 {
            many += u64(class)
            p -> high
        }
    }
}
"#;

/// Tests for frames without TCP or UDP: headers up to IPv4, with numbers of several widths.
const SHORT: &str = r#"
app short {
    port wire = nic("in"), low = nic("a"), high = nic("b")
    counter odd
    counter wide
    counter fragments

    on wire(p) {
        if p.ip4 {
            wide += u64(p.ip4.id) * 3 + u64(p.len)
            if p.ip4.offset > 0 or p.ip4.more == 1 { fragments += 1 }
            if p.ip4.dscp ^ 1 < 4 { p -> low } else if p.ip4.id & 0xff < 128 { p -> high }
        } else {
            odd += 1
            p -> high
        }
    }
}
"#;

/// An exact table that every frame may change, so that their order matters; its keys lie at all
/// kinds of places in their words.
const TABLES: &str = r#"
record Key { class: u8, src: ip, dst: ip, port: u16, near: bool }
record Seen { frames: u64 = 0, bytes: u64 = 0, last: u16 = 0 }

app tables {
    port wire = nic("in"), low = nic("a"), high = nic("b")
    table seen: Key -> Seen { capacity 4096 }
    counter few

    on wire(p) where p.ip4 {
        if p.tcp or p.udp {
            let at = Key { class: p.ip4.ttl >> 1, src: p.ip4.src, dst: 10.1.2.3, port: p.dport & 0x3ff, near: p.ip4.ttl < 2 }
            var e = seen[at] else Seen {}
            e.frames += 1
            e.bytes += p.len
            e.last = p.sport
            seen[at] = e
            if e.frames > 100 { p -> high } else { few += 1 p -> low }
        }
    }
}
"#;

/// Entries that come and go between frames of one batch, in a table that grows meanwhile.
const MOVES: &str = r#"
record Key { src: ip4, dst: ip4 }
record Seen { frames: u64 = 0, bytes: u64 = 0 }

app moves {
    port wire = nic("in"), low = nic("a"), high = nic("b")
    table seen: Key -> Seen { capacity 100000 }
    counter gone

    on wire(p) where p.ip4 {
        if p.tcp or p.udp {
            BEFORE
            let c = Key { src: p.ip4.src, dst: p.ip4.dst }
            var e = seen[c] else Seen {}
            e.frames += 1
            e.bytes += p.len
            if p.ip4.id & 7 == 3 {
                remove seen[c]
                gone += 1
            } else { seen[c] = e }
            if e.frames > 1 { p -> high } else { p -> low }
        }
    }
}
"#;

/// Of the handler, most is left out by a parameter.
const LEFT_OUT: &str = r#"
record Seen { frames: u64 = 0, bytes: u64 = 0 }

app left_out {
    param name: bytes<16> = ""
    port wire = nic("in"), low = nic("a"), high = nic("b")
    table seen: flow5 -> Seen { capacity 4096 }
    counter classes

    on wire(p) where p.ip4 {
        update seen[p.flow5] {
            .frames += 1
            .bytes += p.len
        }
        if len(name) > 2 {
CLASSES
        }
        if p.ip4.ttl < 2 { p -> low } else { p -> high }
    }
}
"#;

/// Frames that the handler changes, whose headers lie where they do in most: a field set, headers
/// put in, lengths and sums that follow.
const CHANGES: &str = r#"
record Key { src: ip4, port: u16 }
record Seen { frames: u64 = 0 }

unit Tag { order big  a: u16  b: u32 }

app changes {
    port wire = nic("in"), low = nic("a"), high = nic("b")
    table seen: Key -> Seen { capacity 4096 }
    counter few
    counter spared

    on wire(p) where p.ip4 {
        if not (p.tcp or p.udp) or p.ip4.src == 10.0.1.1 { spared += 1; return }
        let at = Key { src: p.ip4.src, port: p.dport }
        var e = seen[at] else Seen {}
        e.frames += 1
        seen[at] = e
        if p.ip4.ttl < 2 { p -> low; return }
        p.eth.dst = p.eth.src
        if e.frames > 100 {
            if p.udp { insert Tag { a: u16(e.frames), b: 7 } before p.udp }
            insert Ipv4 { version: 4, ihl: 5, dscp: p.ip4.dscp, ttl: 9, proto: 4, src: 10.9.9.9, dst: 10.8.8.8 } before p.ip4
            p -> high
        } else {
            few += 1
            if p.tcp { insert Tag { a: 3, b: u32(p.tcp.seq) } before p.tcp }
            p -> low
        }
    }
}
"#;

/// A sequence that looks random and is the same each time.
struct Draw(u64);

impl Draw {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.next(n) == 0
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.next(list.len() as u64) as usize]
    }
}

/// A frame of the shape that most have, or one in which something is otherwise: types, lengths,
/// options, fragments, cut off anywhere.
fn frame(d: &mut Draw, odd: u64) -> Vec<u8> {
    let tcp = d.one_in(2);
    let payload = d.next(40) as usize;
    let offset = if d.one_in(odd) { d.next(16) as u8 } else { d.pick(&[5, 5, 8]) };
    let header = if tcp { usize::from(offset.max(5)) * 4 } else { 8 };
    let total = (20 + header + payload) as u16;
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    f.extend(if d.one_in(odd) { d.pick(&[0x86ddu16, 0x0806, 0x8100, 0x0801, 0x8847]) } else { 0x0800 }.to_be_bytes());
    f.push(if d.one_in(odd) { d.pick(&[0x44, 0x46, 0x4f, 0x65, 0x40]) } else { 0x45 });
    f.push(d.next(8) as u8 * 4);
    f.extend(
        if d.one_in(odd) {
            d.pick(&[0, 19, 20, 21, 27, 28, total + 1, total.wrapping_sub(1), u16::MAX])
        } else {
            total
        }
        .to_be_bytes(),
    );
    f.extend((d.next(65536) as u16).to_be_bytes());
    f.extend(if d.one_in(odd) { d.pick(&[0x2000u16, 0x0001, 0x1fff, 0x8000]) } else { 0x4000 }.to_be_bytes());
    f.push(if d.one_in(8) { 1 } else { 64 });
    f.push(if d.one_in(odd) {
        d.pick(&[1, 47, 58, 0, 255])
    } else if tcp {
        6
    } else {
        17
    });
    f.extend([0, 0]);
    f.extend([10, 0, d.next(2) as u8, d.next(3) as u8]);
    f.extend([192, 168, d.next(4) as u8, d.next(256) as u8]);
    f.extend((d.pick(&[80, 443, 1024, 65535, 7]) as u16).to_be_bytes());
    f.extend((d.pick(&[53, 80, 2000, 1, 40000]) as u16).to_be_bytes());
    if tcp {
        f.extend([0; 8]);
        f.extend([offset << 4, d.pick(&[0x02, 0x12, 0x10, 0x18, 0xff]), 0, 0, 0, 0, 0, 0]);
        f.resize(34 + header, 1);
    } else {
        let long = (8 + payload) as u16;
        f.extend(if d.one_in(odd) { d.pick(&[0, 7, 8, long + 1, u16::MAX]) } else { long }.to_be_bytes());
        f.extend([0, 0]);
    }
    f.resize(34 + header + payload, 0xee);
    if d.one_in(3) {
        f.resize(f.len().max(60), 0)
    }
    if d.one_in(odd) {
        f.truncate(d.next(f.len() as u64 + 1) as usize)
    }
    if f.is_empty() {
        f.push(0)
    }
    f
}

/// A capture of frames that all came at one time, so that batches are whole. Of those of other
/// shapes there are stretches of few and of many.
fn capture(path: &str, frames: usize) {
    let mut d = Draw(0x9e37_79b9_7f4a_7c15);
    let mut file: Vec<u8> =
        [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1].iter().flat_map(|w| w.to_le_bytes()).collect();
    for n in 0..frames {
        let odd = [400, 60, 12, 3][n * 4 / frames];
        let f = frame(&mut d, odd);
        file.extend([1_700_000_000u32, 0, f.len() as u32, f.len() as u32].iter().flat_map(|w| w.to_le_bytes()));
        file.extend(f);
    }
    std::fs::write(path, file).expect("the capture is written");
}

/// The results of a run: the captures that it has written, its counters, and the entries of a
/// table.
fn run(
    folder: &Folder,
    app: &Path,
    ports: &[&str],
    table: Option<&str>,
    args: &[String],
    interpret: bool,
) -> (Vec<Vec<u8>>, Value, Vec<String>) {
    let kind = if interpret { "interpreted" } else { "compiled" };
    let entries = folder.name_of(&format!("{kind}.json"));
    let out = |p: &str| folder.name_of(&format!("{kind}-{p}.pcap"));
    let mut command = Wireloom::program();
    command.current_dir(root()).arg("run").arg(app).args([
        "--cores",
        "0",
        "--bind",
        &format!("wire=pcap:{}", folder.name_of("in.pcap")),
    ]);
    for p in ports {
        command.args(["--bind", &format!("{p}=pcap:{}", out(p))]);
    }
    command.args(["--dump", &format!("counters={}", folder.name_of(kind))]).args(args);
    if let Some(table) = table {
        command.args(["--dump", &format!("{table}={entries}")]);
    }
    if interpret {
        command.arg("--interpret");
    }
    let done = finish(fully_compiled(&mut command));
    assert_eq!(done.code, Some(0), "{}:\n{}", app.display(), done.text);
    let counters = std::fs::read_to_string(folder.name_of(kind)).expect("counters are written");
    // A table's entries are in no order.
    let mut rows: Vec<String> = table.map_or(Vec::new(), |_| {
        let text = std::fs::read_to_string(&entries).expect("the table is written");
        let list: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        list.iter().map(Value::to_string).collect()
    });
    rows.sort();
    (
        ports.iter().map(|p| std::fs::read(out(p)).expect("a capture")).collect(),
        serde_json::from_str(&counters).expect("JSON"),
        rows,
    )
}

/// Compiled and interpreted alike. All outputs are used, all counters count, and there is code for
/// many frames at once.
fn agree(folder: &Folder, app: &Path, ports: &[&str], table: Option<&str>, args: &[String]) {
    let emitted = Wireloom::command(&["emit", "c", &app.display().to_string()]);
    assert!(emitted.out.contains("wl_lanes_words(g, "), "no code for many frames at once:\n{}", emitted.text);
    let (compiled, interpreted) =
        (run(folder, app, ports, table, args, false), run(folder, app, ports, table, args, true));
    assert!(
        compiled.2 == interpreted.2 && compiled.2.is_empty() == table.is_none(),
        "{}: {} and {} entries",
        folder.path().display(),
        compiled.2.len(),
        interpreted.2.len()
    );
    assert_eq!(compiled.1, interpreted.1, "{}: counters", app.display());
    for ((c, t), port) in compiled.0.iter().zip(&interpreted.0).zip(ports) {
        assert!(
            c == t,
            "{}: what leaves through {port} is not the same ({} and {} bytes)",
            folder.path().display(),
            c.len(),
            t.len()
        );
        assert!(c.len() > 24, "nothing leaves through {port}");
    }
}

fn on_text(name: &str, text: &str, table: Option<&str>, args: &[&str]) {
    let folder = Folder::new(&format!("{name}{}", args.concat().replace('=', "-")));
    capture(&folder.name_of("in.pcap"), 8000);
    let app = folder.file("app.loom");
    std::fs::write(&app, text).expect("the folder is writable");
    agree(&folder, &app, &["low", "high"], table, &args.iter().map(|a| a.to_string()).collect::<Vec<_>>());
}

#[test]
fn conditions_over_headers() {
    on_text("conditions", CONDITIONS, None, &[]);
}

#[test]
fn a_parameter_decides() {
    let text = CONDITIONS.replace("if near { p -> low }", "if near { p -> high }").replace("p -> high\n", "p -> low\n");
    on_text("decides", &text, None, &["--set", "near=true"]);
}

#[test]
fn short_frames_and_fragments() {
    on_text("short", SHORT, None, &[]);
}

#[test]
fn keys_of_an_exact_table() {
    on_text("tables", TABLES, Some("seen"), &[]);
}

/// Whether the C of an app looks keys up for whole batches.
fn looks_up_batches(text: &str) -> bool {
    let folder = Folder::new("batches");
    std::fs::write(folder.file("app.loom"), text).expect("the folder is writable");
    Wireloom::command(&["emit", "c", &folder.name_of("app.loom")]).out.contains(" = wl_place_peek(")
}

#[test]
fn entries_move_within_a_batch() {
    let text = MOVES.replace("BEFORE", "");
    assert!(looks_up_batches(&text));
    on_text("moves", &text, Some("seen"), &[]);
}

/// Frames whose handler ends before it are not looked up.
#[test]
fn a_fault_comes_before_the_lookup() {
    let text = MOVES.replace("BEFORE", "let share = u32(1000) / u32(p.ip4.id & 3)\nif share > 900 { gone += 1 }");
    assert!(looks_up_batches(&text));
    on_text("faults", &text, Some("seen"), &[]);
}

#[test]
fn a_parameter_leaves_much_out() {
    let class = |n: u32| {
        format!(
            "if p.ip4.ttl == {n} {{ classes += {} }} else if p.ip4.id & 0xf == {n} {{ classes += {} }}\n",
            n + 1,
            2 * n + 1
        )
    };
    let text = LEFT_OUT.replace("CLASSES", &(0..12).map(class).collect::<String>());
    let folder = Folder::new("copies");
    std::fs::write(folder.file("app.loom"), &text).expect("the folder is writable");
    let emitted = Wireloom::command(&["emit", "c", &folder.name_of("app.loom")]).out;
    assert!(emitted.contains("const uint64_t common = keep.when_0 ? 0 : same;"), "no copy of the handler:\n{emitted}");
    on_text("left-out", &text, Some("seen"), &["--set", "name=no"]);
    on_text("left-out", &text, Some("seen"), &["--set", "name=all"]);
}

#[test]
fn frames_are_changed() {
    let folder = Folder::new("known");
    let app = folder.file("app.loom");
    std::fs::write(&app, CHANGES).expect("the folder is writable");
    let emitted = Wireloom::command(&["emit", "c", &app.display().to_string()]);
    assert!(
        emitted.out.contains("_known(v, &f[k]"),
        "frames of which all is known are opened like others:\n{}",
        emitted.text
    );
    on_text("changes", CHANGES, Some("seen"), &[]);
}

/// If all frames leave one way, the program counts the leaving frames and their bytes. That holds
/// also if it changes or drops some, and for faults before and behind the output.
#[test]
fn what_leaves_one_way_is_counted() {
    let text = CHANGES
        .replace(", high = nic(\"b\")", "")
        .replace("p -> high", "p -> low")
        .replace("var e = ", "let third = u32(p.ip4.id & 3)\nif 1000 / third > 900 { few += 2 }\nvar e = ")
        .replace("p -> low; return", "let more = u64(p.ip4.id & 12)\np -> low\nfew += 1000 / more\nreturn");
    let folder = Folder::new("one-way");
    capture(&folder.name_of("in.pcap"), 8000);
    let app = folder.file("app.loom");
    std::fs::write(&app, &text).expect("the folder is writable");
    let emitted = Wireloom::command(&["emit", "c", &app.display().to_string()]);
    assert!(emitted.out.contains("core->left.known = 1;"), "the runtime looks at all frames:\n{}", emitted.text);
    agree(&folder, &app, &["low"], Some("seen"), &[]);
    // With two ways it does.
    std::fs::write(&app, CHANGES).expect("the folder is writable");
    let emitted = Wireloom::command(&["emit", "c", &app.display().to_string()]);
    assert!(emitted.out.contains("wl_view_pass(") && !emitted.out.contains("left.known"), "{}", emitted.text);
}

#[test]
fn flows_are_counted() {
    let folder = Folder::new("flows");
    capture(&folder.name_of("in.pcap"), 8000);
    agree(&folder, &root().join("apps/flow_tracker.loom"), &[], Some("flows"), &[]);
}

/// Rules: as many as are compared one by one, and more.
fn rules(n: u64) -> String {
    let mut d = Draw(n);
    let rule = |i: u64| {
        let mut parts = vec![format!(r#""priority": {i}, "action": "{}""#, d.pick(&["accept", "drop"]))];
        if d.one_in(2) {
            parts.push(format!(r#""src": "10.0.{}.{}/{}""#, d.next(2), d.next(3), d.pick(&[24, 32])))
        }
        parts.push(format!(r#""dst": "192.168.{}.{}/{}""#, d.next(4), d.next(256) & 0xf0, d.pick(&[24, 28, 28, 28])));
        if d.one_in(3) {
            parts.push(format!(r#""dport": {}"#, d.pick(&[53, 80, 2000, 1, 40000])))
        }
        if d.one_in(3) {
            parts.push(format!(r#""proto": {}"#, d.pick(&[6, 17, 1])))
        }
        format!("{{{}}}", parts.join(", "))
    };
    format!("[{}]", (0..n).map(rule).collect::<Vec<_>>().join(",\n"))
}

fn firewall(name: &str, n: u64, args: &[&str]) {
    let folder = Folder::new(name);
    capture(&folder.name_of("in.pcap"), 8000);
    std::fs::write(folder.name_of("rules.json"), rules(n)).expect("the folder is writable");
    std::fs::write(
        folder.name_of("exact.json"),
        r#"[{"src": "10.0.0.1", "dst": "192.168.1.7", "sport": 80, "dport": 53, "proto": 17, "action": "accept"}]"#,
    )
    .expect("the folder is writable");
    let mut all = vec!["--load".to_string(), format!("rules={}", folder.name_of("rules.json"))];
    all.extend(folder.arguments(args));
    agree(&folder, &root().join("apps/openflow_firewall.loom"), &["accepted"], None, &all);
}

#[test]
fn few_rules() {
    firewall("few", 12, &[]);
}

#[test]
fn many_rules() {
    firewall("many", 300, &["--set", "otherwise=accept"]);
}

#[test]
fn an_exact_rule_comes_first() {
    firewall("exact", 40, &["--load", "exact=@/exact.json"]);
}
