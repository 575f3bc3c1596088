//! Tables of which each processor has a part: others see the sums.

use super::live::has_xdp;
use super::races::{at_once, udp_frame, word, Work};
use super::*;
use wireloom_tests::net::Net;

/// Goes on on another processor, if there is one.
fn move_on() {
    // SAFETY: plain system calls on this thread, with a set that lives here.
    unsafe {
        let all = libc::sysconf(libc::_SC_NPROCESSORS_ONLN).max(1) as usize;
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET((libc::sched_getcpu().max(0) as usize + 1) % all, &mut one);
        libc::sched_setaffinity(0, std::mem::size_of_val(&one), &one);
    }
}

fn number(u: u64) -> wl_param {
    wl_param { u, ..wl_param::default() }
}

/// Frames come to all processors in turn. Commands, timers and the tables at the end see what the
/// interpreter sees, which has one core.
#[test]
fn sums_are_what_one_core_has() {
    let folder = Folder::new("xdp-per-core");
    let path = written(
        &folder,
        "app sums {
    port wire = nic(\"eth0\")
    table sizes: u16 -> record { packets: u64, small: u8, bytes: u32 } { capacity 4096, per_core }
    table hosts: (ip, u16) -> u16 { capacity 4096, per_core }
    table texts: bytes<20> -> u64 { capacity 4096, per_core }
    table few: array u32 -> record { n: u64, bytes: u32 } { capacity 50, per_core }
    counter there
    state seen: u64
    on wire(p) where p.ip {
        update sizes[u16(p.len) % 90] { .packets += 1; .small += 100; .bytes += u32(p.len) * 65_000 }
        let at = u32(p.len) % 50
        update few[at] { .n += 1; .bytes = u32(p.len) + .bytes }
        if p.tcp or p.udp { hosts[(p.ip.src, p.dport)] += 40_000 }
        if p.udp { texts[slice(p.payload, 0, 20)] += 3 }
        if sizes[60000] { there += 1 }
        p -> kernel
    }
    every 1ms {
        if let s = sizes[60] { seen += s.packets * 3 + u64(s.small) }
        seen += u64(len(sizes))
        if seen % 7 == 3 { sizes[60] = { packets: seen, small: 5, bytes: 9 } }
        if seen % 5 == 1 { remove sizes[61] }
        few[3] = { n: seen, bytes: 4 }
    }
}
",
    );
    let run = |both: &mut Both| {
        let mut n = 0u64;
        hostile(5_000)(&mut |bytes| {
            n += 1;
            if n.is_multiple_of(3) {
                move_on()
            }
            both.frame(bytes);
            if n.is_multiple_of(500) {
                both.at(both.time);
                both.signal("sizes.get", &[number(n / 500 % 90)]);
                both.signal("few.get", &[number(n / 500 % 50)]);
                both.signal("sizes.len", &[]);
            }
            if n.is_multiple_of(5_000) {
                both.signal("sizes.insert", &[number(n / 5_000 % 90), number(77), number(200), number(1 << 31)]);
                both.signal("sizes.remove", &[number(n / 5_000 % 90 + 1)]);
                both.signal("few.insert", &[number(7), number(n), number(8)]);
            }
        });
    };
    let Some(sum) = beside_it(&path, &[], 1000, run) else { return };
    assert!(sum.entries > 150 && sum.frames > 10_000, "{sum:?}");
}

const ROUNDS: u32 = 400_000;

/// Each processor counts without locks, while commands read sums, and add and remove other entries.
/// No count is lost, and none is torn.
#[test]
fn counts_add_up_without_locks() {
    let folder = Folder::new("xdp-per-core-races");
    let path = written(
        &folder,
        "app races {
    port wire = nic(\"eth0\")
    state turn: u64
    table flows: u32 -> record { packets: u64, bytes: u64 } { capacity 500, per_core }
    table sizes: array u32 -> record { packets: u64, bytes: u64 } { capacity 50, per_core }
    on wire(p) {
        turn += 1
        update flows[u32(turn * 7 % 400)] { .packets += 1; .bytes += 3 }
        update sizes[u32(turn % 49)] { .packets += 1; .bytes += 3 }
    }
}
",
    );
    let (m, all) = placed(&module(path), &[]);
    let Some(object) = load(&m, &all, &[]) else { return };
    object.set_time(1 << 40).expect("the time is set");
    let (frame, left) = (udp_frame(), std::sync::atomic::AtomicU32::new(2));
    let run = || -> Work {
        Box::new(|| {
            for _ in 0..ROUNDS / 1000 {
                object.test_many(0, &frame, 1000).expect("the kernel runs it");
            }
            left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        })
    };
    let mut changes = 0u64;
    let outside: Work = Box::new(|| {
        while left.load(std::sync::atomic::Ordering::Relaxed) > 0 {
            for n in 0..50u64 {
                let read = |table, key: u64| object.get(table, &key.to_le_bytes()[..4]).unwrap_or_default();
                for v in [read(0, n * 7 % 400), read(1, n % 49)] {
                    assert!(v.is_empty() || word(&v, 0) * 3 == word(&v, 1), "torn");
                }
                let other = (1000 + n % 9).to_le_bytes();
                assert!(object.put(0, &other[..4], &[1; 16]), "no room");
                assert_eq!(object.get(0, &other[..4]).as_deref(), Some(&[1; 16][..]));
                assert!(object.remove(0, &other[..4]), "the entry has gone");
                changes += 1;
            }
            object.settle();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    at_once(vec![run(), run(), outside]);
    assert!(changes > 500, "{changes}");
    let (mut counted, mut keys, mut place) = (0, std::collections::BTreeSet::new(), 0);
    while let Some((next, key, value)) = object.next(0, place) {
        assert_eq!(word(&value, 0) * 3, word(&value, 1));
        assert!(keys.insert(key), "a key is given twice");
        counted += word(&value, 0);
        place = next;
    }
    let sizes: u64 = (0..50u32).map(|n| word(&object.get(1, &n.to_le_bytes()).expect("an entry"), 0)).sum();
    let all = 2 * u64::from(ROUNDS / 1000 * 1000);
    assert_eq!((counted, sizes, keys.len() as u64, object.faults(12)), (all, all, object.entries(0), 0));
    // Both processors had a part.
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get()) as u64;
    let [_, _, inserts, ..] = object.statistics(0);
    assert!(inserts >= 400 * processors.min(2), "{inserts}");
}

#[test]
fn explain_says_that_processors_have_parts() {
    let folder = Folder::new("xdp-per-core-explain");
    let path = written(
        &folder,
        "app counted {
    port wire = nic(\"eth0\")
    table sources: ip -> u64 { capacity 64K, per_core }
    on wire(p) where p.ip { sources[p.ip.src] += 1  p -> kernel }
}
",
    );
    let told = Wireloom::command(&["explain", &path.display().to_string(), "--place", "xdp"]);
    assert!(told.text.contains("table sources: no locks: each processor has a part of its own"), "{}", told.text);
    let told = Wireloom::command(&["explain", &path.display().to_string()]);
    assert!(told.text.contains("traffic only adds"), "{}", told.text);
}

/// Frames of both processors of a real interface: commands and the dump at the end have their sums.
#[test]
fn sums_live() {
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["a", "b"], &["ping", "taskset"]) else { return };
    net.link(("a", "a0", "02:00:00:00:0a:01"), ("b", "b0", "02:00:00:00:0b:01"));
    net.sh("a", "ip addr add 10.8.0.1/24 dev a0");
    net.sh("b", "ip addr add 10.8.0.2/24 dev b0");
    let folder = Folder::new("xdp-sums-live");
    let source = "app sums {
    port wire = nic(\"a0\")
    table sources: ip -> record { packets: u64, bytes: u64 } { capacity 1K, per_core }
    counter all
    on wire(p) on xdp {
        if p.ip4 and p.ip4.src == 10.8.0.2 { all += 1 }
        if p.ip { update sources[p.ip.src] { .packets += 1; .bytes += u64(p.len) } }
        p -> kernel
    }
}
";
    let (path, dump) = (written(&folder, source).display().to_string(), folder.name_of("sources.csv"));
    std::fs::write(folder.file("first.csv"), "key,packets,bytes\n10.9.9.9,3,1000\n").expect("the folder is writable");
    let control = net.folder.join("control").display().to_string();
    let (load, out) = (format!("sources={}", folder.name_of("first.csv")), format!("sources={dump}"));
    let mut app = net.app("a", &path, &["--control", &control, "--load", &load, "--dump", &out]);
    let told = |args: &[&str]| {
        let said = Wireloom::command(&[args, &["--control", &control]].concat());
        assert_eq!(said.code, Some(0), "{args:?}: {}", said.text);
        said.text
    };
    net.ping("b", "10.8.0.1", 1, 56);
    for cpu in ["0", "1"] {
        net.try_sh("b", &format!("taskset -c {cpu} ping -n -q -c 40 -i 0.005 10.8.0.1"));
    }
    told(&["table", "sources", "insert", "key=10.8.0.9", "packets=5", "bytes=7"]);
    let number = |text: &str, name: &str| -> Option<u64> {
        let found = text.split(|c: char| !c.is_ascii_alphanumeric()).skip_while(|w| *w != name).nth(1);
        text.contains(name).then(|| text.split(&format!("\"{name}\":")).nth(1)).flatten().map_or_else(
            || found.and_then(|n| n.parse().ok()),
            |rest| rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?.parse().ok(),
        )
    };
    let shown = told(&["table", "sources", "get", "key=10.8.0.2", "--json"]);
    let count = || told(&["counter", "all", "--json"]);
    // A counter is shown as it was up to 0.1 s ago.
    wireloom_tests::admin::eventually("the counter is shown", || number(&count(), "value") >= Some(81));
    let counted = count();
    let (sum, all) = (number(&shown, "packets"), number(&counted, "value"));
    assert!(sum == all && sum >= Some(81), "{shown} {counted}");
    assert_eq!(number(&told(&["table", "sources", "get", "key=10.8.0.9", "--json"]), "packets"), Some(5));
    assert_eq!(number(&told(&["table", "sources", "get", "key=10.9.9.9", "--json"]), "bytes"), Some(1000));
    told(&["table", "sources", "delete", "key=10.8.0.9"]);
    let listed = told(&["table", "sources"]);
    assert!(listed.contains("10.8.0.2") && !listed.contains("10.8.0.9"), "{listed}");
    app.signal(libc::SIGINT);
    assert_eq!(app.exit(), Some(0), "{}", app.output());
    let rows = std::fs::read_to_string(&dump).expect("it is dumped");
    assert!(rows.contains("10.9.9.9") && rows.matches("10.8.0.2").count() == 1, "{rows}");
}
