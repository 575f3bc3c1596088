//! Tables of all kinds, functions, loops, time, several interfaces.

use super::*;
use wireloom_runtime::abi::wl_bytes;

fn number(u: u64) -> wl_param {
    wl_param { u, ..wl_param::default() }
}

#[test]
fn arrays() {
    let folder = Folder::new("xdp-arrays");
    let path = written(
        &folder,
        "app arrays {
    port wire = nic(\"eth0\")
    table sizes: array u32 -> u64 { capacity 200 }
    table seen: array u16 -> record { times: u32, last: u16, to: ip } { capacity 64 }
    counter none_there
    on wire(p) where p.ip {
        sizes[u32(p.len)] += 1
        let at = u16(p.len) % 70
        if let s = seen[at] {
            if s.times > 5 { remove seen[at] }
        } else { none_there += 1; p -> kernel; return }
        update seen[at] {
            .times += 1
            .last = u16(p.len)
            .to = p.ip.dst
        }
        if p.tcp { sizes[u32(p.tcp.dst) % 150] = u64(p.tcp.src) }
        p -> kernel
    }
}
",
    );
    let run = |both: &mut Both| {
        hostile(5_000)(&mut |bytes| both.frame(bytes));
        both.signal("sizes.insert", &[number(7), number(77)]);
        both.signal("sizes.get", &[number(7)]);
        both.signal("seen.remove", &[number(3)]);
        hostile(500)(&mut |bytes| both.frame(bytes));
    };
    let Some(sum) = beside_it(&path, &[], 1000, run) else { return };
    assert!(sum.entries == 264 && sum.counted > 10, "{sum:?}");
}

/// Each kind of fault is raised in a handler and in a function, and counted.
#[test]
fn fault_kinds() {
    let frames = |each: Taker| (0..130).for_each(|to| each(&super::bytes::datagram((9, to), b"x")));
    compare(&root().join("tests/programs/fault_kinds_packets.loom"), &[], frames);
}

/// A small table that is full takes a new entry as soon as any of its entries has expired, as on
/// the CPU.
#[test]
fn small_tables_make_room() {
    let folder = Folder::new("xdp-small");
    let path = written(
        &folder,
        "app small {
    port wire = nic(\"eth0\")
    table few: u16 -> u16 { capacity 8, idle 10s }
    table more: (u16, u32) -> u16 { capacity 20, idle 7s }
    on wire(p) where p.udp {
        more[(p.udp.dst, p.len)] = p.udp.src
        few[p.udp.src] = p.udp.dst
        p -> kernel
    }
}
",
    );
    let run = |both: &mut Both| {
        let mut random = fastrand::Rng::with_seed(7);
        for n in 0..4_000u64 {
            // Now and then so little that some of the entries have expired.
            let pause = if random.u8(..) < 30 { random.u64(..11_000) } else { random.u64(..900) };
            both.at(both.time + pause * 1_000_000);
            let (src, dst) = (random.u16(..12), random.u16(..28) + (n / 1_000) as u16);
            both.frame(&wireloom_tests::captures::udp(1, src, dst, 20));
        }
    };
    let Some(sum) = beside_it(&path, &[], 1000, run) else { return };
    assert!(sum.sent > 1_000 && sum.frames > 1_000, "{sum:?}");
}

/// An address as the argument of a signal: it must outlive the call.
fn address(bytes: &[u8; 16]) -> wl_param {
    wl_param { b: wl_bytes { p: bytes.as_ptr(), n: 16, _pad: 0 }, ..wl_param::default() }
}

/// An IPv4 address as one of 16 bytes.
fn mapped(ip: u32) -> [u8; 16] {
    let mut all = [0; 16];
    all[10..12].fill(0xff);
    all[12..].copy_from_slice(&ip.to_be_bytes());
    all
}

pub(super) fn udp(src: [u8; 4], dst: [u8; 4], port: u16) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    f.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
    f.extend(src);
    f.extend(dst);
    f.extend(4000u16.to_be_bytes());
    f.extend(port.to_be_bytes());
    f.extend([0, 8, 0, 0]);
    f
}

/// A round that compares its number does not make the kernel's verifier count the rounds.
#[test]
fn numbers_of_rounds_are_compared() {
    let folder = Folder::new("xdp-rounds");
    let path = written(
        &folder,
        "record Two { a: bytes<16>  b: bytes<16>  n: u32 }
app rounds {
    port wire = nic(\"eth0\")
    table t: u32 -> Two { capacity 2000, idle 10s }
    table few: array u32 -> u32 { capacity 9 }
    state s: u32
    on wire(p) {
        for i in 0..min(p.len, 4) {
            update t[i % u32(5)] {
                .n = max(i, p.len)
                if .n > (some(u32(60)) else i) { .a = .b } else { .n += 1 }
            }
            if p.eth { let a = p.eth.src  p.eth.src = p.eth.dst  p.eth.dst = a }
            if p.len != u32(127) { continue }
            s = s + 1
        }
        loop max 7 {
            few[s % 9] += 1
            s += 1
            if s % 5 == 0 { break }
        }
        p -> kernel
    }
}
",
    );
    let Some(sum) = compare(&path, &[], hostile(2_000)) else { return };
    assert!(sum.sent > 1000 && sum.entries > 4, "{sum:?}");
}

/// Ways through searches within searches join for the kernel's verifier: else each search would
/// double what it follows.
#[test]
fn searches_within_searches() {
    let folder = Folder::new("xdp-searches");
    let pair = |n: u32| {
        format!(
            "if let a{n} = t[(p.len + u32({n})) % u32(5)] {{
                if let b{n} = u[(a{n} - s) % u32(4)] {{ s += p.len * 31 + b{n}.n  log \"b \", b{n}.a }}
                if let c{n} = few[a{n} % u32(9)] {{ log \"c \", c{n} }}
                if let d{n} = nets[ip4(a{n})] {{ s += u32(d{n}) }}
                log \"a \", a{n}
            }}\n"
        )
    };
    let pairs: String = (0..6).map(pair).collect();
    let path = written(
        &folder,
        &format!(
            "app searches {{
    port wire = nic(\"eth0\")
    table t: wildcard u32 -> u32 {{ capacity 8 }}
    table u: u32 -> record {{ a: u64, n: u32 }} {{ capacity 80 }}
    table few: array u32 -> u16 {{ capacity 9 }}
    table nets: lpm ip4 -> u8 {{ capacity 9 }}
    state s: u32
    on start {{ t.insert(u32(2), u32(3), u32(1), u32(7)) nets.insert(0.0.0.0/30, u8(3)) }}
    on wire(p) {{
        u[p.len % 4] = {{ a: 1 << 40, n: p.len }}
        {pairs}p -> kernel
    }}
}}
"
        ),
    );
    let Some(sum) = compare(&path, &[], hostile(500)) else { return };
    assert!(sum.lines > 1000, "{sum:?}");
}

/// Prefixes are found longest first, and change between packets.
#[test]
fn prefixes() {
    let folder = Folder::new("xdp-prefixes");
    let path = written(
        &folder,
        "app prefixes {
    port wire = nic(\"eth0\")
    table routes: lpm ip4 -> u32 { capacity 1K }
    table nets: lpm ip -> record { a: u64, b: bool } { capacity 3 }
    counter hits
    counter nexts
    on wire(p) where p.ip {
        if p.ip4 { if let r = routes[p.ip4.dst] { hits += u64(r) } }
        if let n = nets[p.ip.src] { nexts += n.a; if n.b { p -> wire; return } }
        p -> kernel
    }
}
",
    );
    let run = |both: &mut Both| {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut routes = Vec::new();
        for round in 0..400 {
            let bits = rng.u32(0..=32);
            let mask = (u64::from(u32::MAX) << (32 - bits)) as u32;
            let net = 0x0a00_0000 | rng.u32(..1 << 12);
            both.signal("routes.insert", &[number(net.into()), number(mask.into()), number(round + 1)]);
            routes.push((net, mask));
            if rng.bool() {
                let (net, mask) = routes.swap_remove(rng.usize(..routes.len()));
                both.signal("routes.remove", &[number(net.into()), number(mask.into())]);
            }
            for _ in 0..5 {
                let to = (0x0a00_0000 | rng.u32(..1 << 12)).to_be_bytes();
                both.frame(&udp([10, 0, 0, 1], to, 53));
            }
        }
        let bits = |n: u32| (u128::MAX << (128 - n)).to_be_bytes();
        for (ip, n, a) in [(0x0a00_0000, 104, 1), (0x0a00_0001, 128, 10), (0xc000_0000, 100, 100)] {
            let (ip, mask) = (mapped(ip), bits(n));
            both.signal("nets.insert", &[address(&ip), address(&mask), number(a), number((a == 10).into())]);
            hostile(200)(&mut |bytes| both.frame(bytes));
        }
        let mask = bits(104);
        both.signal("nets.remove", &[address(&mapped(0x0a00_0000)), address(&mask)]);
        hostile(200)(&mut |bytes| both.frame(bytes));
    };
    let Some(sum) = beside_it(&path, &[], 1000, run) else { return };
    assert!(sum.counted > 100_000 && sum.entries > 20, "{sum:?}");
}

/// The entry of the highest priority that fits is found. Entries have masks at random, and change
/// between packets. Their places are used again, and masks come into order now and then.
#[test]
fn wildcards() {
    let folder = Folder::new("xdp-wildcards");
    let path = written(
        &folder,
        "record Rule { src: ip4, port: u16 }
app wildcards {
    port wire = nic(\"eth0\")
    table rules: wildcard Rule -> record { action: u32 } { capacity 300 }
    counter hits
    counter sums
    on wire(p) where p.udp and p.ip4 {
        let r = rules[Rule { src: p.ip4.src, port: p.udp.dst }] else { p -> kernel; return }
        hits += 1
        sums += u64(r.action)
        if r.action % 2 == 1 { p -> wire }
    }
}
",
    );
    let run = |both: &mut Both| {
        let mut rng = fastrand::Rng::with_seed(6);
        let mut rules: Vec<[u64; 5]> = Vec::new();
        for round in 0..600u64 {
            let masks = [0xffff_ffff, 0xffff_ff00, 0xffff_fff0, 0];
            let ports = [0xffff, 0xfff0, 0];
            let (m, n) = (masks[rng.usize(..4)], ports[rng.usize(..3)]);
            // No two have one priority: which of two is found is not said.
            let priority = round * 7919 % 1000;
            let rule = [0x0a00_0000 + rng.u64(..64), m, rng.u64(..32), n, priority];
            let args: Vec<wl_param> = rule.iter().map(|n| number(*n)).collect();
            both.signal("rules.insert", &[&args[..], &[number(round + 1)]].concat());
            rules.push(rule);
            if rng.u8(..3) > 0 {
                let args = rules.swap_remove(rng.usize(..rules.len())).map(number);
                both.signal("rules.remove", &args);
            }
            if round % 7 == 0 {
                both.object.lock().unwrap().sort()
            }
            for _ in 0..5 {
                both.frame(&udp([10, 0, 0, rng.u8(..64)], [10, 0, 0, 9], rng.u16(..32)));
            }
        }
    };
    let Some(sum) = beside_it(&path, &[], 1000, run) else { return };
    assert!(sum.counted > 1000 && sum.entries > 100, "{sum:?}");
}

/// Sketches of few keys have true counts, as the interpreter's have.
#[test]
fn sketches() {
    let folder = Folder::new("xdp-sketches");
    let path = written(
        &folder,
        "app sketches {
    port wire = nic(\"eth0\")
    table names: bloom (ip4, u16) { capacity 64K }
    table counts: count_min (ip4, u16) -> u64 { capacity 64K }
    counter again
    counter most
    on wire(p) where p.udp and p.ip4 {
        let key = (p.ip4.src, p.udp.dst)
        if names[key] { again += 1 }
        names[key] = true
        counts[key] += u64(p.len)
        most += counts[key]
        if counts[key] > 300 { p -> wire } else { p -> kernel }
    }
}
",
    );
    let run = |both: &mut Both| {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..3000 {
            both.frame(&udp([10, 0, 0, rng.u8(..16)], [10, 0, 0, 9], rng.u16(..16)));
        }
        both.signal("counts.get", &[number(0x0a00_0001), number(3)]);
        both.signal("counts.insert", &[number(0x0a00_0001), number(3), number(1 << 40)]);
        both.signal("counts.get", &[number(0x0a00_0001), number(3)]);
        for _ in 0..300 {
            both.frame(&udp([10, 0, 0, rng.u8(..16)], [10, 0, 0, 9], rng.u16(..16)));
        }
    };
    let Some(sum) = beside_it(&path, &[], 1000, run) else { return };
    assert!(sum.counted > 1 << 40, "{sum:?}");
}

/// Estimates are equal, since keys are hashed alike. Both devices add keys.
#[test]
fn estimates() {
    let folder = Folder::new("xdp-estimates");
    let path = written(
        &folder,
        "app estimates {
    port wire = nic(\"eth0\")
    table sources: hyper_log_log (ip4, u16)
    table hosts: hyper_log_log ip
    counter seen
    on wire(p) where p.udp and p.ip4 {
        sources.add((p.ip4.src, p.udp.dst))
        if p.udp.dst != 3 { hosts.add(p.ip.src) }
        seen += 1
        p -> kernel
    }
    signal different() -> u64 { sources.estimate() }
    signal known() -> u64 { hosts.estimate() }
    signal add(a: ip4, b: u16) -> u64 { sources.add((a, b))  sources.estimate() }
}
",
    );
    let run = |both: &mut Both| {
        let mut rng = fastrand::Rng::with_seed(9);
        for round in 0..20_000 {
            if round % 1000 == 7 {
                both.signal("different", &[]);
                both.signal("known", &[]);
                both.signal("add", &[number(0x0b00_0000 + round), number(3)]);
            }
            both.frame(&udp([10, 0, rng.u8(..), rng.u8(..)], [10, 0, 0, 9], rng.u16(..16)));
        }
        both.signal("different", &[]);
        both.signal("known", &[]);
    };
    let Some(sum) = beside_it(&path, &[], 1000, run) else { return };
    assert!(sum.counted == 20_000, "{sum:?}");
}

#[test]
fn functions_and_loops() {
    let folder = Folder::new("xdp-loops");
    let path = written(
        &folder,
        "record Pair { a: u64, b: u32 }
app loops {
    port wire = nic(\"eth0\")
    table primes: array u32 -> u32 { capacity 32 }
    table hosts: ip -> Pair { capacity 4096 }
    counter rounds
    counter found
    on start { for i in 0..32 { primes[i] = u32(i) * 37 % 101 } }
    on wire(p) where p.ip {
        let pair = folded(p.ip.src, u32(p.len))
        rounds += pair.a
        if let at = place(pair.b % 101) { found += u64(at) }
        var n = u64(p.len)
        loop max 200 {
            if n == 1 { break }
            if n % 2 == 0 { n /= 2; continue }
            n = 3 * n + 1
        }
        if n == 1 { p -> kernel } else { p -> wire }
    }
    fn folded(of: ip, len: u32) -> Pair {
        var sum = u64(7)
        for i in 0..min(len, 1500) { sum = sum * 31 + (sum >> 7) + u64(i) }
        update hosts[of] { .a += 1; .b = u32(sum) }
        Pair { a: sum % 1000, b: u32(sum >> 8) }
    }
    fn place(value: u32) -> u32? {
        for i in 0..32 {
            let prime = primes[i]
            if prime == value { return some(u32(i)) }
        }
        none
    }
}
",
    );
    let Some(sum) = compare(&path, &[], hostile(5_000)) else { return };
    assert!(sum.sent > 1000 && sum.counted > 1000 && sum.entries > 100, "{sum:?}");
}

/// Entries expire, and packets have times: a clock that the test sets.
#[test]
fn time() {
    let folder = Folder::new("xdp-time");
    let path = written(
        &folder,
        "record Seen { at: instant, times: u32 }
app clock {
    port wire = nic(\"eth0\")
    table hosts: ip -> Seen { capacity 64K, idle 2s }
    table few: u16 -> u32 { capacity 2048, idle 1s, evict lru }
    counter late
    on wire(p) where p.ip {
        if let s = hosts[p.ip.src] {
            if p.time - s.at > 700ms { late += 1 }
            late += u64(s.times)
        }
        update hosts[p.ip.src] { .at = p.time; .times += 1 }
        few[u16(p.len)] = 1
        p -> kernel
    }
}
",
    );
    let run = |both: &mut Both| hostile(10_000)(&mut |bytes| both.frame(bytes));
    let Some(sum) = beside_it(&path, &[], 1_000_000, run) else { return };
    assert!(sum.counted > 1000, "{sum:?}");
}

/// Frames go to one of several interfaces, to all, and to all others.
#[test]
fn interfaces() {
    let folder = Folder::new("xdp-interfaces");
    let path = written(
        &folder,
        "app several {
    port ports = [nic(\"eth0\"), nic(\"eth1\"), nic(\"eth2\")], far = [nic(\"eth3\"), nic(\"eth4\")]
    counter first
    on ports(p) where p.ip {
        if p.port == 0 { first += 1 }
        if p.tcp { p -> ports[p.port]; return }
        if p.udp {
            for i in 0..len(ports) { if i != p.port { p -> ports[i] } }
            return
        }
        if p.icmp {
            for i in 0..len(far) { p -> far[i] }
            return
        }
        if p.len % 2 == 0 { p -> far[1] } else { p -> ports[2] }
    }
}
",
    );
    let Some(sum) = compare(&path, &[], hostile(5_000)) else { return };
    assert!(sum.sent > 1000 && sum.counted > 1000, "{sum:?}");
}
