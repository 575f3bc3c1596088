//! The time of captures: each frame has its own. Of several cores with the time of one capture, one
//! is far behind the others. Entries that it goes on to use do not expire by the others' time.

use wireloom_tests::captures::{udp, write, Frames, Runs, EPOCH, MS};
use wireloom_tests::folder::Folder;

/// Packets from this port take their core long.
const SLOW: u16 = 2;

/// Two cores of a segment, each with half of the ports.
const SEGMENTS: &str = r#"
app apart {
    port wire = nic("a")
    queue keyed { depth 1024, instances 2, lossless }
    param slow: u16
    table seen: u16 -> u32 { capacity 64, idle 100ms }
    counter begun, work
    segment rx on cpu(0) { on wire(p) where p.udp { p -> keyed[p.udp.src & 1] } }
    segment both on cpu(1..3) {
        on keyed(p) where p.udp {
            if p.udp.src == slow { loop max 20000 { work += 1 } }
            if not seen[p.udp.src] { begun += 1 }
            seen[p.udp.src] += 1
        }
    }
}
"#;

/// Flows over cores by their hash. No key of a table decides the core, so cores share the tables.
const HANDED: &str = r#"
app apart {
    port wire = nic("a")
    param slow: u16
    table seen: u16 -> u32 { capacity 64, idle 100ms }
    table sizes: u32 -> u32 { capacity 64 }
    counter begun, work
    on wire(p) where p.udp {
        if p.udp.src == slow { loop max 20000 { work += 1 } }
        if not seen[p.udp.src] { begun += 1 }
        seen[p.udp.src] += 1
        sizes[p.len] += 1
    }
}
"#;

/// The flows of ports 1 to `flows`, each with a packet every 20 ms.
fn capture(flows: u16) -> Frames {
    let of = |n: u16| (0..flows).map(move |k| (EPOCH + u64::from(n) * 20 * MS + u64::from(k), udp(1, k + 1, 9, 20)));
    (0..400).flat_map(of).collect()
}

/// Entries that began in a run. `slow`: 0 if the app has no such parameter.
fn begun(folder: &Folder, slow: u16, more: &[&str]) -> u64 {
    let set = format!("slow={slow}");
    let mut args = vec!["--bind", "wire=pcap:@/in.pcap", "--dump", "counters=@/counters.json"];
    if slow > 0 {
        args.extend(["--set", &set]);
    }
    args.extend(more);
    folder.run("program.loom", &args);
    counters(folder)["begun"].as_u64().expect("the counter")
}

fn counters(folder: &Folder) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.file("counters.json")).expect("the counters");
    serde_json::from_str(&text).expect("an object")
}

#[test]
fn cores_of_a_segment() {
    let folder = Folder::new("times-segment");
    std::fs::write(folder.file("program.loom"), SEGMENTS).expect("the folder is writable");
    write(&folder.file("in.pcap"), &capture(3));
    for more in [&["--cores", "0-1"][..], &[], &["--interpret"]] {
        assert_eq!(begun(&folder, SLOW, more), 3, "{more:?}");
    }
}

#[test]
fn frames_that_are_handed_over() {
    let folder = Folder::new("times-handed");
    std::fs::write(folder.file("program.loom"), HANDED).expect("the folder is writable");
    write(&folder.file("in.pcap"), &capture(6));
    for slow in 1..=6 {
        assert_eq!(begun(&folder, slow, &["--cores", "0-1", "--rps", "on"]), 6, "port {slow} is slow");
    }
}

/// Entries and limiters that a frame of the same batch has just used.
const EXACT: &str = r#"
app apart {
    port wire = nic("a")
    table few: u32 -> u64 { capacity 8, idle 500us }
    table many: u32 -> u64 { capacity 4096, idle 4ms }
    limiter each: u32 { rate 1000, burst 1, capacity 16, idle 1s, evict lru }
    counter begun, begun_many, refused, early
    state last: u64
    on wire(p) where p.udp {
        if not few[1] { begun += 1 }
        few[1] += 1
        if not many[u32(p.udp.src)] { begun_many += 1 }
        many[u32(p.udp.src)] += 1
        if not each[2].take(1) { refused += 1 }
        if last > 0 and u64(now) - last != 400000 { early += 1 }
        last = u64(now)
    }
}
"#;

/// Each frame has its own time, however many of them one batch could hold.
#[test]
fn each_frame_has_its_own_time() {
    let folder = Folder::new("times-exact");
    std::fs::write(folder.file("program.loom"), EXACT).expect("the folder is writable");
    let frames: Frames = (0..3000).map(|k| (EPOCH + k * 400_000, udp(1, 7, 9, 20))).collect();
    write(&folder.file("in.pcap"), &frames);
    for more in [&[][..], &["--interpret"], &["--cores", "0-1"]] {
        begun(&folder, 0, more);
        let counted = counters(&folder);
        let of = |name: &str| counted[name].as_u64().expect("the counter");
        assert_eq!((of("begun"), of("begun_many"), of("early")), (1, 1, 0), "{more:?}");
        // A token comes every millisecond, and one is kept: each third frame gets one.
        assert_eq!(of("refused"), 2000, "{more:?}");
    }
}
