//! Frames of all shapes, cut and lying ones among them: compiled code, with its fast paths, does
//! the same as the interpreter.

use super::both_ways;
use wireloom_tests::captures::{udp, write, Frames, EPOCH};
use wireloom_tests::folder::Folder;

const TUNNELLED: &str = r#"
app tunnelled {
    port wire = nic("a"), out = nic("b")
    table seen: ip4 -> u32 { capacity 8 }
    on wire(p) where p.ip4 {
        var n = u32(0)
        if let known = seen[p.ip4.src] { n = known }
        seen[p.ip4.src] = n + 1
        if not p.udp { return }
        insert Ipv4 {
            version: 4,
            ihl: 5,
            id: u16(n),
            ttl: 9,
            proto: 4,
            src: p.ip4.src,
            dst: 192.0.2.1
        } before p.ip4
        p -> out
    }
}
"#;

/// Four bytes of options: no operation.
fn with_options(f: &mut Vec<u8>) {
    f.splice(34..34, [1; 4]);
    (f[14], f[17]) = (0x46, f[17] + 4);
}

fn tagged(f: &mut Vec<u8>) {
    f.splice(12..12, [0x81, 0, 0, 5]);
}

/// Frames that wait for their table and are changed are parsed twice: plain ones, and other shapes
/// between them. They keep their order, and a fault in one is counted once.
#[test]
fn frames_that_are_opened_twice() {
    let folder = Folder::new("twice");
    std::fs::write(folder.file("tunnelled.loom"), TUNNELLED).unwrap();
    let mut r = fastrand::Rng::with_seed(3);
    let (mut bad, mut input) = (0, Frames::new());
    for i in 0..600u64 {
        let mut f = udp(r.u64(..3) as u8, 1000 + i as u16, 53, 18 + r.u64(..40) as usize);
        match r.u64(..5) {
            0 => with_options(&mut f),
            1 => tagged(&mut f),
            // UDP says that it is longer than the packet.
            2 => {
                (f[38], bad) = (9, bad + 1);
            }
            _ => {}
        }
        input.push((EPOCH + i, f));
    }
    write(&folder.file("in.pcap"), &input);
    let (outs, faults, _) = both_ways(&folder, "tunnelled.loom", &["out"], &[]);
    let [compiled] = &outs[..] else { panic!("one port") };
    assert!(bad > 60 && compiled.len() == 600 - bad, "{bad} of 600, {} out", compiled.len());
    assert_eq!(faults, bad as u64);
    // By address: the number of those before.
    let mut next = [0u16; 3];
    let mut sent = compiled.iter();
    for (_, f) in &input {
        let at = if f[12] == 0x81 { 18 } else { 14 };
        let (src, wrong) = (usize::from(f[at + 15]), at == 14 && f[14] == 0x45 && f[38] == 9);
        if !wrong {
            let (_, g) = sent.next().expect("all but the wrong ones are sent");
            assert_eq!(u16::from_be_bytes([g[at + 4], g[at + 5]]), next[src]);
            assert_eq!(g[at + 20..], f[at..], "behind the new header");
        }
        next[src] += 1;
    }
}

const CHOOSING: &str = r#"
record Match { src: ip, sport: u32, dport: u32, proto: u8 }

record Verdict { pass: bool, note: u8 }

app choosing {
    param otherwise: bytes<6> = "drop"
    port wire = nic("a"), out = nic("b"), even = nic("c")
    table known: flow5 -> u8 { capacity 64 }
    table rules: wildcard Match -> Verdict { capacity 64 }
    counter missed
    on start {
        rules.insert(Match { src: ::, sport: 0, dport: 53, proto: 0 }, Match { src: ::, sport: 0, dport: 0xffffffff, proto: 0 }, 4, Verdict { pass: true, note: 0 })
        rules.insert(Match { src: ::, sport: 1, dport: 0, proto: 6 }, Match { src: ::, sport: 65539, dport: 0, proto: 255 }, 3, Verdict { pass: true, note: 1 })
        rules.insert(Match { src: ::, sport: 0, dport: 0, proto: 17 }, Match { src: ::, sport: 65537, dport: 0, proto: 255 }, 2, Verdict { pass: false, note: 2 })
        rules.insert(Match { src: ::, sport: 65536, dport: 0, proto: 0 }, Match { src: ::, sport: 65536, dport: 0, proto: 1 }, 1, Verdict { pass: true, note: 3 })
        known[flow5 { src: 10.0.0.3, dst: 10.1.0.1, sport: 1003, dport: 53, proto: 17 }] = 1
    }
    on wire(p) where p.ip {
        var pass = false
        var note = u8(9)
        if let n = known[p.flow5] { note = n }
        else {
            let ported = p.tcp or p.udp
            let at = Match {
                src: p.ip.src,
                sport: if ported { u32(p.sport) } else { 65536 },
                dport: if ported { u32(p.dport) } else { 65536 },
                proto: p.ip.proto
            }
            if let rule = rules[at] {
                pass = rule.pass
                note = rule.note
            } else {
                missed += 1
                if otherwise == "accept" { pass = true }
            }
        }
        if note == 2 { p -> even }
        if pass { p -> out }
    }
}
"#;

/// TCP, UDP and others, cut anywhere, with options, tags and lengths that lie. For most frames
/// headers, rules and results are computed without branches, for the rest with them.
#[test]
fn choices_without_branches() {
    let folder = Folder::new("choosing");
    std::fs::write(folder.file("choosing.loom"), CHOOSING).unwrap();
    let mut r = fastrand::Rng::with_seed(29);
    let input: Frames = (0..4000u64)
        .map(|i| {
            let dport = if r.u64(..3) == 0 { 53 } else { 80 };
            let mut f = udp(r.u64(..4) as u8, 1000 + r.u64(..8) as u16, dport, r.u64(..40) as usize);
            match r.u64(..8) {
                // TCP, with a data offset of any kind.
                0..=2 => {
                    f[23] = 6;
                    f.resize(f.len().max(54), 0);
                    f[46] = if r.u64(..2) == 0 { 0x50 } else { (r.u64(..16) as u8) << 4 };
                    f[17] = (f.len() - 14) as u8;
                }
                3 => f[23] = [2, 51, 132][r.u64(..3) as usize],
                // UDP says that it is longer or shorter than it is.
                4 => f[39] = r.u64(..60) as u8,
                // A later fragment, or one that others follow.
                5 => f[20..22].copy_from_slice(&[[0, 9], [0x20, 0]][r.u64(..2) as usize]),
                _ => {}
            }
            match r.u64(..12) {
                0 => with_options(&mut f),
                1 => tagged(&mut f),
                // IPv6 around the same.
                2 => {
                    let (n, proto) = ((f.len() - 34) as u8, f[23]);
                    f.splice(12..34, [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, n, proto, 64][..], &[0x20; 32][..]].concat());
                }
                3 => f.truncate(r.u64(..f.len() as u64) as usize + 1),
                4 => f[17] = r.u64(..90) as u8,
                5 => f.resize(60.max(f.len()), 0),
                _ => {}
            }
            (EPOCH + i, f)
        })
        .collect();
    write(&folder.file("in.pcap"), &input);
    let mut sent = Vec::new();
    for otherwise in ["drop", "accept"] {
        let (outs, faults, _) =
            both_ways(&folder, "choosing.loom", &["out", "even"], &["--set", &format!("otherwise={otherwise}")]);
        assert!(faults > 200, "{faults}");
        assert!(outs.iter().all(|o| o.len() > 100), "{:?}", outs.iter().map(Vec::len).collect::<Vec<_>>());
        sent.push(outs[0].len());
    }
    assert!(sent[1] > sent[0] + 200, "{sent:?}");
}
