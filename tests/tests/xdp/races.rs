//! Two processors at one table at the same time.

use super::*;
use wireloom_interp::{Pattern, Ranked};
use wireloom_xdp::Hand;

/// The work of a thread.
pub(super) type Work<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs all at once, each on a processor of its own as far as there are some.
pub(super) fn at_once(all: Vec<Work>) {
    let barrier = std::sync::Barrier::new(all.len());
    std::thread::scope(|s| {
        for (n, work) in all.into_iter().enumerate() {
            let barrier = &barrier;
            s.spawn(move || {
                // SAFETY: plain system calls on this thread, with a set that lives here.
                unsafe {
                    let mut one: libc::cpu_set_t = std::mem::zeroed();
                    libc::CPU_SET(n % libc::sysconf(libc::_SC_NPROCESSORS_ONLN).max(1) as usize, &mut one);
                    libc::sched_setaffinity(0, std::mem::size_of_val(&one), &one);
                }
                barrier.wait();
                work()
            });
        }
    });
}

const ROUNDS: u32 = 400_000;

/// Each processor counts in all entries, so many that lines overflow. Meanwhile others come and go,
/// by packets and from outside. No count is lost, and each key has one entry.
#[test]
fn counts_add_up() {
    let folder = Folder::new("xdp-races");
    let path = written(
        &folder,
        "app races {
    port wire = nic(\"eth0\")
    state turn: u64
    table flows: u32 -> record { packets: u64, bytes: u64 } { capacity 500 }
    table guests: u32 -> u64 { capacity 300, idle 1s }
    counter seen
    on wire(p) {
        turn += 1
        update flows[u32(turn * 7 % 480)] { .packets += 1; .bytes += 3 }
        let other = u32(turn * 5 % 200)
        if let n = guests[other] {
            seen += n % 2
            if turn % 3 == 0 { remove guests[other] }
        } else { guests[other] = u64(other) * 2 }
    }
}
",
    );
    let (m, all) = placed(&module(path), &[]);
    let Some(object) = load(&m, &all, &[]) else { return };
    object.set_time(1 << 40).expect("the time is set");
    let frame = udp_frame();
    let run = || -> Work { Box::new(|| drop(object.test_many(0, &frame, ROUNDS).expect("the kernel runs it"))) };
    let outside: Work = Box::new(|| {
        for n in 0..20_000u32 {
            let key = (1000 + n % 50).to_le_bytes();
            assert!(object.put(1, &key, &u64::from(n * 2).to_le_bytes()), "no room");
            assert!(object.get(1, &key).is_some(), "the entry has gone");
            assert!(object.remove(1, &key), "the entry has gone");
            if let Some(v) = object.get(0, &(n % 480).to_le_bytes()) {
                assert_eq!(word(&v, 0) * 3, word(&v, 1), "torn");
            }
        }
    });
    at_once(vec![run(), run(), outside]);
    let (mut packets, mut keys, mut place) = (0, std::collections::BTreeSet::new(), 0);
    while let Some((next, key, value)) = object.next(0, place) {
        assert!(keys.insert(key), "a key has two entries");
        assert_eq!(word(&value, 0) * 3, word(&value, 1));
        packets += word(&value, 0);
        place = next;
    }
    assert_eq!((packets, keys.len()), (2 * u64::from(ROUNDS), 480));
    assert_eq!((object.counter(0), object.faults(12)), (0, 0));
    // Nothing is left behind by those that have gone.
    for n in 0..200u32 {
        object.remove(1, &n.to_le_bytes());
    }
    assert_eq!(object.entries(1), 0);
    for n in 0..300u32 {
        assert!(object.put(1, &n.to_le_bytes(), &[0; 8]), "a slot is lost: {n}");
    }
    assert!(!object.put(1, &300u32.to_le_bytes(), &[0; 8]), "more entries than the capacity");
}

/// A table is changed from outside as long as packets count in it. That is a hundred thousand
/// times, and a million times in a long run (`WIRELOOM_SEEDS`). No count is lost, none is torn, and
/// each change is there as soon as it is made.
#[test]
fn changes_under_traffic() {
    let folder = Folder::new("xdp-changes");
    let path = written(
        &folder,
        "app changed {
    port wire = nic(\"eth0\")
    state turn: u64
    table flows: u32 -> record { packets: u64, bytes: u64 } { capacity 2000 }
    table blocked: u32 -> u64 { capacity 2000 }
    counter dropped
    on wire(p) {
        turn += 1
        update flows[u32(turn * 7 % 480)] { .packets += 1; .bytes += 3 }
        if let n = blocked[u32(turn % 500)] { if n != turn % 500 * 3 { dropped += 1 } }
        p -> kernel
    }
}
",
    );
    let (m, all) = placed(&module(path), &[]);
    let Some(object) = load(&m, &all, &[]) else { return };
    let changes = if std::env::var_os("WIRELOOM_SEEDS").is_some() { 1_000_000u32 } else { 100_000 };
    let (frame, done) = (udp_frame(), std::sync::atomic::AtomicBool::new(false));
    let sent = std::sync::atomic::AtomicU64::new(0);
    let packets: Work = Box::new(|| {
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            object.test_many(0, &frame, 1000).expect("the kernel runs it");
            sent.fetch_add(1000, std::sync::atomic::Ordering::Relaxed);
        }
    });
    let outside: Work = Box::new(|| {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut there = std::collections::BTreeMap::new();
        for n in 0..changes {
            let key = rng.u32(..500);
            let bytes = key.to_le_bytes();
            if rng.u8(..) < 120 {
                assert_eq!(object.remove(1, &bytes), there.remove(&key).is_some(), "change {n}");
            } else {
                assert!(object.put(1, &bytes, &u64::from(key * 3).to_le_bytes()), "change {n}: no room");
                there.insert(key, ());
            }
            // Entries of flows are counted by packets only; others come and go among them.
            let guest = (1000 + n % 900).to_le_bytes();
            match n / 900 % 2 {
                0 => assert!(object.put(0, &guest, &[0; 16]), "change {n}: no room"),
                _ => assert!(object.remove(0, &guest), "change {n}: the entry has gone"),
            }
            if n % 16 == 0 {
                let v = object.get(0, &(n / 16 % 480).to_le_bytes()).unwrap_or_default();
                assert!(v.is_empty() || word(&v, 0) * 3 == word(&v, 1), "torn");
                assert_eq!(object.get(1, &bytes).is_some(), there.contains_key(&key), "change {n}");
            }
        }
        assert_eq!(object.entries(1), there.len() as u64);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    at_once(vec![packets, outside]);
    let count = |n: u32| object.get(0, &n.to_le_bytes()).map_or(0, |v| word(&v, 0));
    assert_eq!((0..480).map(count).sum::<u64>(), sent.into_inner());
    assert_eq!((object.counter(0), object.faults(12)), (0, 0));
}

/// With one receiving queue packets take no locks, but while the process changes a table.
#[test]
fn one_queue() {
    let folder = Folder::new("xdp-one-queue");
    let path = written(
        &folder,
        "app one {
    port wire = nic(\"eth0\")
    state turn: u64
    table flows: u32 -> record { packets: u64, bytes: u64 } { capacity 500 }
    table sizes: array u32 -> record { packets: u64, bytes: u64 } { capacity 50 }
    on wire(p) {
        turn += 1
        update flows[u32(turn * 7 % 480)] { .packets += 1; .bytes += 3 }
        update sizes[u32(turn % 50)] { .packets += 1; .bytes += 3 }
    }
}
",
    );
    let (m, all) = placed(&module(path), &[]);
    let Some(mut object) = load(&m, &all, &[]) else { return };
    object.set_time(1 << 40).expect("the time is set");
    object.set_one_queue(true);
    assert!(object.has_one_queue());
    let (frame, done) = (udp_frame(), std::sync::atomic::AtomicBool::new(false));
    let packets: Work = Box::new(|| {
        for _ in 0..ROUNDS / 1000 {
            object.test_many(0, &frame, 1000).expect("the kernel runs it");
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let mut changes = 0u64;
    let outside: Work = Box::new(|| {
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            for n in 0..100u64 {
                let key = (n % 480).to_le_bytes();
                let v = object.get(0, &key[..4]).unwrap_or_default();
                // As a packet would: this and that one take turns.
                if v.len() == 16 {
                    assert_eq!(word(&v, 0) * 3, word(&v, 1), "torn");
                }
                changes += u64::from(object.put(0, &(1000 + n % 9).to_le_bytes()[..4], &[0; 16]));
                changes += u64::from(object.remove(0, &(1000 + n % 9).to_le_bytes()[..4]));
                let v = object.get(1, &(n % 50).to_le_bytes()[..4]).expect("an array has its entries");
                assert_eq!(word(&v, 0) * 3, word(&v, 1), "torn");
            }
            object.settle();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    at_once(vec![packets, outside]);
    assert!(changes > 1000, "{changes}");
    let (mut counted, mut place) = (0, 0);
    while let Some((next, _, value)) = object.next(0, place) {
        assert_eq!(word(&value, 0) * 3, word(&value, 1));
        counted += word(&value, 0);
        place = next;
    }
    let sizes: u64 = (0..50u32).map(|n| word(&object.get(1, &n.to_le_bytes()).expect("an entry"), 0)).sum();
    let all = u64::from(ROUNDS / 1000 * 1000);
    assert_eq!((counted, sizes, object.faults(12)), (all, all, 0));
}

/// The same with entries that make room for others, and expire.
#[test]
fn entries_make_room() {
    let folder = Folder::new("xdp-races-lru");
    let path = written(
        &folder,
        "app races {
    port wire = nic(\"eth0\")
    state turn: u64
    table few: u32 -> record { key: u32, twice: u64 } { capacity 1024, idle 1s, evict lru }
    counter wrong
    on wire(p) {
        turn += 1
        let key = u32(turn * 12347 % 5000)
        if let e = few[key] { if e.key != key or e.twice != u64(key) * 2 { wrong += 1 } }
        update few[key] { .key = key; .twice = u64(key) * 2 }
    }
}
",
    );
    let (m, all) = placed(&module(path), &[]);
    let Some(object) = load(&m, &all, &[]) else { return };
    object.set_time(1 << 40).expect("the time is set");
    let frame = udp_frame();
    let run = || -> Work { Box::new(|| drop(object.test_many(0, &frame, ROUNDS).expect("the kernel runs it"))) };
    let clock: Work = Box::new(|| {
        for n in 0..2_000u64 {
            object.set_time((1 << 40) + n * 2_000_000).expect("the time is set");
            if n % 100 == 0 {
                object.sweep(0)
            }
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    });
    at_once(vec![run(), run(), clock]);
    let [_, _, inserts, evictions, expired, rejected] = object.statistics(0);
    assert_eq!((object.counter(0), rejected, object.faults(14)), (0, 0, 0));
    assert!(evictions > 1000 && object.entries(0) <= 1024, "{evictions} {}", object.entries(0));
    assert_eq!(inserts - evictions - expired, object.entries(0));
}

pub(super) fn word(bytes: &[u8], n: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * n..8 * n + 8].try_into().expect("eight bytes"))
}

pub(super) fn udp_frame() -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    f.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 9, 0, 9, 0, 8, 0, 0]);
    f
}

/// A program that calls another one: it runs while the process changes the other one's tables.
const CALLER: &str = "#define SEC(name) __attribute__((section(name), used))
static long (*const bpf_tail_call)(void *ctx, void *programs, unsigned n) = (void *)12;
struct { int (*type)[3]; unsigned *key, *value; int (*max_entries)[1]; } after SEC(\".maps\");
SEC(\"xdp\") int go(void *ctx) { bpf_tail_call(ctx, &after, 0); return 0; }
char _license[] SEC(\"license\") = \"GPL\";
";

/// Entries of a wildcard table are replaced, come and go, and masks change their order, while
/// packets look them up. One entry that fits is always there: each packet finds one, whole.
#[test]
fn wildcards_that_change() {
    let folder = Folder::new("xdp-wildcard-races");
    let path = written(
        &folder,
        "record Rule { src: ip4, dst: ip4 }
app changing {
    port wire = nic(\"eth0\")
    table rules: wildcard Rule -> record { a: u64, b: u64 } { capacity 16 }
    counter found
    counter torn
    on wire(p) where p.ip4 {
        if let r = rules[Rule { src: p.ip4.src, dst: p.ip4.dst }] {
            found += 1
            if r.a != r.b { torn += 1 }
        }
    }
}
",
    );
    let (m, all) = placed(&module(path), &[]);
    let Some(mut object) = load(&m, &all, &[]) else { return };
    let mut caller = Hand::load(CALLER).unwrap_or_else(|e| panic!("{e}"));
    caller.put_after(&object, 0).unwrap_or_else(|e| panic!("{e}"));
    let frame = kinds::udp([10, 0, 0, 1], [10, 0, 0, 2], 53);
    let set = |object: &mut Object, mask: u8, entry: Option<(u128, u64)>| {
        let (mask, key) = ([[0xff; 4], [mask; 4]].concat(), [[1, 0, 0, 10], [2, 0, 0, 10].map(|b| b & mask)].concat());
        let value = entry.map(|(priority, n)| (priority, [n, n].map(u64::to_le_bytes).concat()));
        let ranked = value.as_ref().map(|(priority, value)| Ranked { priority: *priority, value });
        assert!(object.stand_for(0, Pattern { key: &key, mask: &mask }, ranked), "no room");
    };
    set(&mut object, 0xff, Some((5, 0)));
    let rounds = 2_000_000;
    let packets: Work = Box::new(|| {
        caller.run("go", &frame, rounds).expect("the kernel runs it");
    });
    let changes: Work = Box::new(|| {
        for n in 0..3000u64 {
            // Now in front of the first mask, now behind it.
            set(&mut object, 0x0f, Some((u128::from(n % 11), n)));
            set(&mut object, 0xff, Some((5, n)));
            match n % 30 {
                7 => object.sort(),
                0..5 => set(&mut object, 0x0f, None),
                _ => {}
            }
        }
    });
    at_once(vec![packets, changes]);
    object.sort();
    caller.run("go", &frame, 1).expect("the kernel runs it");
    assert_eq!((object.counter(0), object.counter(1)), (u64::from(rounds) + 1, 0));
}
