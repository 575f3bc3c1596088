//! Fields that are set, headers that are put in and taken out, checksums.

use super::*;

#[test]
fn fields_and_their_checksums() {
    let folder = Folder::new("xdp-fields");
    let path = written(
        &folder,
        "app fields {
    port wire = nic(\"eth0\")
    counter right
    counter wrong
    on wire(p) where p.eth {
        let mac = p.eth.src
        p.eth.src = p.eth.dst
        p.eth.dst = mac
        if p.ip4 {
            if checksum_ok(p.ip4) { right += 1 } else { wrong += 1 }
            if p.ip4.ttl < 2 { return }
            p.ip4.ttl -= 1
            p.ip4.dscp = 11
            p.ip4.id = p.ip4.id ^ 0xffff
            let src = p.ip4.src
            p.ip4.src = p.ip4.dst
            p.ip4.dst = src
            if u32(p.ip4.src) & 1 == 1 { p.ip4.dst = 192.0.2.77 }
        }
        if p.ip6 {
            p.ip6.hops = 9
            p.ip6.label = 0x12345
        }
        if p.tcp {
            let port = p.tcp.src
            p.tcp.src = p.tcp.dst
            p.tcp.dst = port
            p.tcp.seq += 5
            p.tcp.window = 0
            p.tcp.psh = 1
        }
        if p.udp { p.udp.dst = 53 }
        p -> wire
    }
}
",
    );
    let Some(sum) = compare(&path, &[], hostile(20_000)) else { return };
    assert!(sum.sent > 5000 && sum.counted > 1000, "{sum:?}");
}

#[test]
fn checksums_made_anew() {
    let folder = Folder::new("xdp-sums");
    let path = written(
        &folder,
        "app sums {
    port wire = nic(\"eth0\")
    counter right
    on wire(p) {
        if p.tcp and checksum_ok(p.tcp) { right += 1 }
        if p.udp and checksum_ok(p.udp) { right += 1 }
        if p.icmp and checksum_ok(p.icmp) { right += 1 }
        if p.ip4 { update_checksum(p.ip4) }
        if p.tcp { update_checksum(p.tcp) }
        if p.udp { update_checksum(p.udp) }
        if p.icmp { update_checksum(p.icmp) }
        p -> wire
    }
}
",
    );
    let Some(sum) = compare(&path, &[], hostile(20_000)) else { return };
    assert!(sum.sent > 5000 && sum.counted > 100, "{sum:?}");
}

#[test]
fn headers_put_in() {
    let folder = Folder::new("xdp-insert");
    let path = written(
        &folder,
        "unit Tag { order big  vid: u16  type: u16 }
app tunnel {
    port wire = nic(\"eth0\")
    on wire(p) where p.eth {
        if p.ip4 {
            if p.ip4.ttl > 100 {
                insert Ipv4 { version: 4, ihl: 5, ttl: 64, proto: 4, src: 10.0.0.1, dst: 10.0.0.2 } before p.ip4
            } else {
                insert [
                    Ethernet { dst: p.eth.dst, src: p.eth.src, type: 0x0800 },
                    Ipv4 { version: 4, ihl: 5, ttl: p.ip4.ttl, proto: 47, src: 10.0.0.1, dst: 10.0.0.2 },
                    Tag { vid: 7, type: 0x6558 }
                ] before p.eth
            }
            p.ip4.id = 4711
        } else if p.udp {
            insert Tag { vid: 1, type: 2 } before p.udp
        }
        p -> wire
    }
}
",
    );
    let Some(sum) = compare(&path, &[], hostile(20_000)) else { return };
    assert!(sum.sent > 5000, "{sum:?}");
}

/// New headers with a checksum over what follows them: tunnels over UDP, and ICMP.
#[test]
fn headers_with_sums_over_their_payload() {
    let folder = Folder::new("xdp-insert-sums");
    let path = written(
        &folder,
        "use std.vxlan
app tunnels {
    port wire = nic(\"eth0\")
    on wire(p) where p.eth {
        if p.udp {
            insert [
                Ethernet { dst: p.eth.dst, src: p.eth.src, type: 0x0800 },
                Ipv4 { ttl: 64, proto: 17, flags: 2, src: 10.0.0.1, dst: 10.0.0.2 },
                Udp { src: u16(49152 | (hash(p.len) & 0x3fff)), dst: 4789, sum: 7 },
                vxlan.Vxlan { valid: 1, vni: 77 }
            ] before p.eth
        } else if p.ip6 {
            insert [
                Ipv6 { next: 17, hops: 9, src: 2001:db8::1, dst: p.ip6.dst },
                Udp { src: 9, dst: 9 }
            ] before p.ip6
        } else if p.ip4 {
            insert [
                Ipv4 { ttl: 9, proto: 1, src: p.ip4.dst, dst: p.ip4.src },
                Icmp { type: 3, code: 1, rest: 0 }
            ] before p.ip4
        }
        p -> wire
    }
}
",
    );
    let Some(sum) = compare(&path, &[], hostile(20_000)) else { return };
    assert!(sum.sent > 5000, "{sum:?}");
}

/// The checksum of GRE, which is there by a flag: with it and without, and with a key.
#[test]
fn checksums_by_a_flag() {
    let folder = Folder::new("xdp-flagged-sums");
    let path = written(
        &folder,
        "app tunnelled {
    port wire = nic(\"eth0\")
    counter right
    on wire(p) where p.gre {
        if checksum_ok(p.gre) { right += 1 }
        if p.inner_ip4 and p.inner_udp {
            let what = p.inner_udp.dst & 7
            if what == 1 { p.inner_ip4.ttl = 77 }
            if what == 2 { p.inner_udp.dst = 99 }
            if what == 3 { p.inner_ip4.src = 10.9.8.7 }
            if what == 4 { p.gre.type = 0x1234 }
            if what == 5 { insert Vlan { vid: 5, type: 0x0800 } before p.inner_ip4 }
            if what == 6 { remove p.inner_udp }
            if what == 7 { update_checksum(p.gre) }
        } else { p.gre.type = 7 }
        p -> wire
    }
}
",
    );
    let tunnelled = |each: Taker| {
        for what in 0..2048u32 {
            let (flags, n) = ((what >> 3 & 11) as u8, (what >> 7) as usize);
            let flags = (flags & 8) << 4 | (flags & 3) << 4;
            let mut f = wireloom_tests::captures::udp(1, 9, 47, 200)[..34].to_vec();
            f[23] = 47;
            f.extend([flags, 0, 8, 0]);
            let parts = (flags >> 7) + (flags >> 5 & 1) + (flags >> 4 & 1);
            f.extend((0..4 * parts).map(|k| k.wrapping_mul(what as u8)));
            f.extend(&wireloom_tests::captures::udp(2, what as u16, what as u16 & 7, n)[14..]);
            let total = f.len() as u16 - 14;
            f[16..18].copy_from_slice(&total.to_be_bytes());
            // Some are cut off within the checksum.
            f.truncate(if what % 61 == 60 { 38 + what as usize % 6 } else { f.len() });
            if what % 61 == 60 {
                let total = f.len() as u16 - 14;
                f[16..18].copy_from_slice(&total.to_be_bytes());
            }
            each(&f)
        }
    };
    let Some(sum) = compare(&path, &[], tunnelled) else { return };
    assert!(sum.sent > 1900 && sum.counted > 500, "{sum:?}");
}

#[test]
fn headers_taken_out() {
    let folder = Folder::new("xdp-remove");
    let path = written(
        &folder,
        "app untag {
    port wire = nic(\"eth0\")
    counter bytes
    on wire(p) where p.eth {
        if p.vlan { remove p.vlan }
        if p.ip4 and p.inner_ip4 {
            remove p.ip4
            p.inner_ip4.ttl = 5
        }
        bytes += u64(p.len)
        if p.udp { p.udp.src = 99 }
        p -> wire
    }
}
",
    );
    let Some(sum) = compare(&path, &[], hostile(20_000)) else { return };
    assert!(sum.sent > 5000, "{sum:?}");
}

/// Headroom is used up: a counted fault, and the frame is gone.
#[test]
fn headroom_gone() {
    let folder = Folder::new("xdp-headroom");
    let path = written(
        &folder,
        "unit Block { order big  a: u64  b: u64  c: u64  d: u64  e: u64  f: u64  g: u64  h: u64 }
app pad {
    port wire = nic(\"eth0\")
    on wire(p) where p.eth {
        insert [Block { a: 1 }] before p.eth
        insert [Block { a: 2 }] before p.eth
        insert [Block { a: 3 }] before p.eth
        insert [Block { a: 4 }] before p.eth
        p -> wire
    }
}
",
    );
    let (m, all) = placed(&module(&path), &[]);
    let Some(object) = load(&m, &all, &[]) else { return };
    let ran = object.test(0, &[7; 64]).expect("the kernel runs it");
    assert_eq!(ran.verdict, Verdict::Drop);
    let faults = object.faults_by_place();
    assert_eq!(faults.iter().map(|f| (f.0, f.2)).collect::<Vec<_>>(), [(12, 1)], "overload: {faults:?}");
    assert_eq!(m.places[faults[0].1 as usize].span.line, 8, "the fourth insertion");
}

/// New payloads: longer, shorter, of the old one's parts; headers behind them go.
#[test]
fn payloads_replaced() {
    let folder = Folder::new("xdp-payload");
    let path = written(
        &folder,
        "app payloads {
    port wire = nic(\"eth0\")
    counter right
    on wire(p) where p.eth {
        let n = len(p.payload)
        if p.udp and n > 3 and p.payload[0] & 1 == 1 {
            payload(p.udp) = concat(slice(p.payload, 0, 3), \"=\", slice(p.payload, 2, 40))
            if checksum_ok(p.udp) { right += 1 }
        } else if p.tcp {
            p.payload = concat(p.payload, \"more\", text(n))
            if checksum_ok(p.tcp) { right += 1 }
            p.payload = slice(p.payload, 1, 1000)
        } else if p.icmp {
            p.payload = \"\"
        } else if p.ip4 {
            payload(p.ip4) = slice(payload(p.ip4), 1, 65535)
        } else if p.ip6 {
            p.payload = concat(p.payload, p.payload)
        } else {
            payload(p.eth) = concat(\"0123456789abcdefghij\", slice(p.payload, 5, 25))
        }
        if p.ip4 and checksum_ok(p.ip4) { right += 1 }
        p -> wire
    }
}
",
    );
    let Some(sum) = compare(&path, &[], |each| {
        for n in 0..80u8 {
            each(&bytes::udp(&vec![n | 1; n as usize]));
        }
        hostile(20_000)(each)
    }) else {
        return;
    };
    assert!(sum.sent > 5000 && sum.counted > 1000, "{sum:?}");
}
