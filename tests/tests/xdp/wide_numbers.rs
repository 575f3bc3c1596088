//! IPv6 addresses as values: numbers of 128 bits, which the hook keeps as two of 64.

use super::*;

/// Two parts of an app with addresses in all places in which values stand.
const VALUES: &str = "record Peer { port: u16, to: ip6, hops: u8 }
record Pair { from: ip6, to: ip6, port: u16 }
app wide {
    port wire = nic(\"eth0\")
    state last: ip6
    table seen: ip6 -> u64 { capacity 64K }
    table pairs: Pair -> Peer { capacity 64K }
    table names: array u32 -> ip6 { capacity 16 }
    table sketch: count_min ip6 -> u64 { capacity 1K }
    table maybe: bloom ip6 { capacity 1K }
    counter same, near, known, longer, mixed
    fn other(a: ip6, b: ip6) -> ip6 = if a == b { 2001:db8::7 } else { b }
    fn place(a: ip6) -> ip6? { if a in 2001:db8::/32 { return a } none }
    on wire(p) where p.ip6 {
        let (src, dst) = (p.ip6.src, p.ip6.dst)
        if src == last { same += 1 }
        last = src
        if dst == 2001:db8::1 { near += 1 }
        seen[src] += 1
        let k = Pair { from: src, to: dst, port: if p.udp { p.udp.dst } else { 0 } }
        if let was = pairs[k] { if was.to == src { known += 1 } }
        pairs[k] = Peer { port: 7, to: src, hops: p.ip6.hops }
        update pairs[k] { .hops += 1; .to = dst }
        names[u32(p.len) % 16] = dst
        sketch[src] += 1
        if sketch[dst] > 2 { longer += 1 }
        maybe[dst] = true
        if src in maybe { longer += 1 }
        if let found = place(dst) { if found == src { known += 1 } }
        let bits = u128(src) ^ u128(dst)
        if u64(bits & 0xffff) + u64(bits >> 64) > 9 { mixed += hash(bits) & 7 }
        if p.ip6.hops > 64 {
            p.ip6.src = dst
            p.ip6.dst = src
        } else if p.ip6.hops > 9 {
            p.ip6.dst = other(src, dst)
        } else {
            p.ip6.src = 2001:db8::99
        }
        p -> wire
    }
}
";

/// The interpreter does the same, also beside programs with values in memory.
#[test]
fn addresses_of_ipv6_are_values() {
    let folder = Folder::new("xdp-wide");
    let path = written(&folder, VALUES);
    for thrift in [Thrift::Fast, Thrift::Far, Thrift::Apart] {
        BEGIN.set(thrift);
        let run = |both: &mut Both| hostile(6_000)(&mut |bytes| both.frame(bytes));
        let sum = beside_it(&path, &[], 1000, run);
        BEGIN.set(usual_thrift());
        let Some(sum) = sum else { return };
        assert!(sum.sent > 1000 && sum.counted > 1000 && sum.entries > 100, "{thrift:?}: {sum:?}");
    }
}

/// Prefixes and patterns of them.
#[test]
fn tables_of_prefixes_of_ipv6() {
    let folder = Folder::new("xdp-wide-prefixes");
    let path = written(
        &folder,
        "app prefixes {
    port wire = nic(\"eth0\")
    table nets: lpm ip6 -> u8 { capacity 16 }
    table rules: wildcard ip6 -> u8 { capacity 16 }
    counter inside, known, neither
    on start {
        nets.insert(::/1, u8(1))
        nets.insert(2001:db8::/32, u8(2))
        nets.insert(2001:db8::1/128, u8(3))
        rules.insert(2001:db8::2, ffff::ffff, u32(3), u8(4))
        rules.insert(::, ::1, u32(2), u8(5))
    }
    on wire(p) where p.ip6 {
        if let n = nets[p.ip6.dst] { inside += u64(n) } else { neither += 1 }
        if let n = rules[p.ip6.src] { known += u64(n) }
        p -> kernel
    }
}
",
    );
    let Some(sum) = compare(&path, &[], hostile(6_000)) else { return };
    assert!(sum.sent > 1000 && sum.counted > 2000, "{sum:?}");
}

/// The same in rounds of loops, and between elements.
#[test]
fn addresses_of_ipv6_in_loops() {
    let folder = Folder::new("xdp-wide-loops");
    let path = written(
        &folder,
        "app rounds {
    port wire = nic(\"eth0\")
    table steps: ip6 -> ip6 { capacity 4K }
    counter rounds
    on wire(p) where p.ip6 {
        var at = p.ip6.src
        var n = u8(0)
        loop max 8 {
            let next = steps[at] else { break }
            rounds += 1
            at = next
            n += 1
        }
        steps[p.ip6.src] = p.ip6.dst
        steps[at] = if n > 3 { ::1 } else { p.ip6.dst }
        p.ip6.dst = at
        p -> wire
    }
}
",
    );
    let run = |both: &mut Both| hostile(6_000)(&mut |bytes| both.frame(bytes));
    for thrift in [Thrift::Fast, Thrift::Apart] {
        BEGIN.set(thrift);
        let sum = beside_it(&path, &[], 10, run);
        BEGIN.set(usual_thrift());
        let Some(sum) = sum else { return };
        assert!(sum.sent > 1000 && sum.counted > 100, "{thrift:?}: {sum:?}");
    }
}
