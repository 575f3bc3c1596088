//! Elements behind elements that put headers in and take them out. A chain does what it does with a
//! queue before each element, where the packet is read anew. Chains are made at random, of elements
//! of the library and of some that look at headers.

use fastrand::Rng;
use std::fmt::Write;
use wireloom_tests::captures::{read_cut, udp, write, write_cut, Frames, Runs, EPOCH, MS};
use wireloom_tests::folder::Folder;
use wireloom_tests::Wireloom;

/// An instance and its outputs, the first of which goes on.
type Kind = (&'static str, &'static [&'static str]);

const KINDS: [Kind; 19] = [
    ("vlan_encap.VlanEncap(5)", &["y"]),
    ("vlan_encap.VlanEncap(6, 0, 0x88a8)", &["y"]),
    ("vlan_decap.VlanDecap()", &["y", "other"]),
    ("mpls_push.MplsPush(77)", &["y", "other"]),
    ("mpls_pop.MplsPop()", &["y", "other"]),
    ("gre_encap.GreEncap(10.9.0.1, 10.9.0.2)", &["y", "other"]),
    ("gre_decap.GreDecap()", &["y", "other"]),
    ("ip_in_ip_encap.IpInIpEncap(10.8.0.1, 10.8.0.2)", &["y", "other"]),
    ("ip_in_ip_decap.IpInIpDecap()", &["y", "other"]),
    ("pppoe_encap.PppoeEncap(9)", &["y", "other"]),
    ("pppoe_decap.PppoeDecap()", &["y", "other"]),
    ("vxlan_encap.VxlanEncap(10.7.0.1, 10.7.0.2, 8, 02:00:00:00:00:08, 02:00:00:00:00:09)", &["y"]),
    ("vxlan_decap.VxlanDecap(8)", &["y", "other"]),
    ("dec_ip_ttl.DecIpTtl()", &["y", "expired"]),
    ("Even()", &["y", "odd"]),
    ("Wrap()", &["y"]),
    ("Follow()", &["y"]),
    ("Edit()", &["y"]),
    ("Passes()", &["y"]),
];

/// One that only looks, one that changes fields that it finds, one that looks at nothing. Then a
/// header of our own with a length and a checksum, and headers in the middle and behind all.
const OWN: &str = "
unit Toy {
    order  big
    length: u32 covers rest
    sum:    u16 checksum message
    other:  u16
}
element Wrap {
    in  x: packet
    out y: packet
    on x(p) {
        if p.ip4 { insert [Ipv4 { ttl: 7, proto: 253 }, Toy { other: 5 }] before p.ip4 }
        p -> y
    }
}
element Follow {
    in  x: packet
    out y: packet
    on x(p) {
        if p.inner_udp { insert Vlan { vid: 3, type: 9 } before p.inner_udp }
        else if p.udp { insert Vlan { vid: 9, type: 9 } behind p.udp }
        p -> y
    }
}
element Even {
    in  x:   packet
    out y:   packet
    out odd: packet
    on x(p) {
        if p.inner_udp and p.inner_udp.src & 3 == 1 { p -> odd }
        else if p.udp and not p.inner_udp and p.udp.src & 7 == 1 or p.vlan2 and p.vlan2.vid == 6 { p -> odd }
        else { p -> y }
    }
}
element Edit {
    in  x: packet
    out y: packet
    on x(p) {
        if p.vlan { p.vlan.pcp = 3 }
        if p.ip4 { p.ip4.id += 1  p.ip4.dst = 10.5.5.5 }
        if p.udp { update_checksum(p.udp) }
        if p.ip4 and not p.inner_ip4 and p.ip4.ttl > 5 and p.udp and not p.vxlan { p.payload = concat(p.payload, \"!\") }
        p -> y
    }
}
element Passes {
    in  x: packet
    out y: packet
    counter seen
    on x(p) { seen += 1  p -> y }
}
";

fn uses() -> String {
    let library = KINDS.iter().filter_map(|k| k.0.split_once('.')).map(|(module, _)| module);
    let folder = |module: &str| match module {
        "vlan_encap" | "vlan_decap" => "ethernet",
        "dec_ip_ttl" => "ip",
        _ => "tunnel",
    };
    library.fold(String::new(), |mut text, m| {
        if !text.contains(&format!(".{m}\n")) {
            writeln!(text, "use std.elements.{}.{m}", folder(m)).expect("a text");
        }
        text
    })
}

/// A chain as an app. The packet is used behind the first element, too, as it was before.
fn app(chain: &[Kind], queues: bool) -> String {
    let mut text = format!("{}{OWN}app chain {{\n    port wire = nic(\"a\"), out = nic(\"b\")\n", uses());
    text.push_str("    port rest = nic(\"c\"), near = nic(\"d\")\n");
    let mut add = |line: String| writeln!(text, "    {line}").expect("a text");
    for (n, (instance, _)) in chain.iter().enumerate() {
        add(format!("e{n} = {instance}"));
        if queues {
            add(format!("queue q{n} {{ depth 16 }}"));
        }
    }
    let input = |n: usize| if queues { format!("q{n}") } else { format!("e{n}") };
    add(format!("on wire(p) {{ p -> {}  if p.udp {{ p.udp.dst = 7  p -> near }} }}", input(0)));
    for (n, (_, outs)) in chain.iter().enumerate() {
        if queues {
            add(format!("every 1ms {{ loop max 16 {{ q{n}.pop() }} }}\n    q{n} -> e{n}"));
        }
        for (k, out) in outs.iter().enumerate() {
            let name = if outs.len() == 1 { format!("e{n}") } else { format!("e{n}.{out}") };
            let to = if k > 0 {
                "rest".into()
            } else if n + 1 < chain.len() {
                input(n + 1)
            } else {
                "out".into()
            };
            add(format!("{name} -> {to}"));
        }
    }
    text + "}\n"
}

/// Packets with some tags, whose ports tell them apart.
fn frames(r: &mut Rng) -> Frames {
    (0..40u64)
        .map(|n| {
            let mut f = udp(n as u8, 100 + n as u16, 53, 18 + r.usize(..40));
            f[22] = r.u8(1..9);
            tag(r, &mut f);
            (EPOCH + n * 20 * MS, f)
        })
        .collect()
}

fn tag(r: &mut Rng, f: &mut Vec<u8>) {
    for _ in 0..r.usize(..3) {
        let tag = [0x81, 0, 0, r.u8(1..7)];
        f.splice(12..12, tag);
    }
}

/// Longer ones. Some have the length 0, are padded, are the first part of a datagram, or IPv6. In
/// some UDP ends before IP does.
fn long_frames(r: &mut Rng) -> Frames {
    let one = |r: &mut Rng, n: u64| {
        let mut f = udp(n as u8, 100 + n as u16, 53, r.usize(60..400));
        f[22] = r.u8(1..9);
        match r.u8(..8) {
            0 => (f[16], f[17]) = (0, 0),
            1 => f.resize(f.len() + r.usize(..40), 0xee),
            2 => (f[20], f[38]) = (0x20, 9),
            3 => {
                let size = r.u16(8..f.len() as u16 - 34);
                f[38..40].copy_from_slice(&size.to_be_bytes());
            }
            4 => {
                let size = f[38..40].to_vec();
                let mut head = vec![0x60, 0, 0, 0];
                head.extend(size);
                head.extend([17, 9, 0x20, 1].into_iter().chain([7; 14]).chain([0x20, 1]).chain([8; 14]));
                f.splice(14..34, head);
                (f[12], f[13], f[60]) = (0x86, 0xdd, 0x5a);
            }
            _ => {}
        }
        if f[12] == 8 {
            (f[24], f[25]) = (0, 0);
            let sum: u32 = f[14..34].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            f[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        tag(r, &mut f);
        (EPOCH + n * 20 * MS, f)
    };
    (0..40).map(|n| one(r, n)).collect()
}

/// The frames of each port, with their lengths on the wire.
type Ran = Vec<Vec<(usize, Vec<u8>)>>;

const PORTS: [&str; 3] = ["out", "rest", "near"];

fn run(folder: &Folder, program: &str, more: &[&str]) -> Ran {
    let mut args = vec!["--bind".to_string(), "wire=pcap:@/in.pcap".into()];
    for p in PORTS {
        args.extend(["--bind".into(), format!("{p}=pcap:@/{p}.pcap")]);
    }
    args.extend(more.iter().map(|s| s.to_string()));
    folder.run(program, &args.iter().map(String::as_str).collect::<Vec<_>>());
    let parts = |p: &&str| read_cut(&folder.file(&format!("{p}.pcap"))).into_iter().map(|(_, n, f)| (n, f)).collect();
    PORTS.iter().map(parts).collect()
}

/// The frames that a chain makes of the capture. They are the same in any way.
fn same_in_all(folder: &Folder, chain: &[Kind], seed: u64) -> Ran {
    std::fs::write(folder.file("direct.loom"), app(chain, false)).expect("the folder is writable");
    std::fs::write(folder.file("queues.loom"), app(chain, true)).expect("the folder is writable");
    let wanted = run(folder, "queues.loom", &["--interpret"]);
    for (program, more) in [("direct.loom", &[][..]), ("direct.loom", &["--interpret"]), ("queues.loom", &[])] {
        let got = run(folder, program, more);
        for (port, (got, wanted)) in PORTS.iter().zip(got.iter().zip(&wanted)) {
            let differ = got.iter().zip(wanted).find(|(a, b)| a != b);
            let names: Vec<&str> = chain.iter().map(|k| k.0).collect();
            assert!(
                got == wanted,
                "seed {seed}, {names:?}: {program} {more:?}, {port}: {} and {} frames, {differ:02x?}",
                got.len(),
                wanted.len()
            );
        }
    }
    wanted
}

fn seeds() -> std::ops::Range<u64> {
    0..std::env::var("WIRELOOM_CHAINS").ok().and_then(|n| n.parse().ok()).unwrap_or(5)
}

fn chain(r: &mut Rng) -> Vec<Kind> {
    (0..r.usize(2..8)).map(|_| KINDS[r.usize(..KINDS.len())]).collect()
}

#[test]
fn elements_see_the_packet_that_they_get() {
    let folder = Folder::new("packet_chains");
    for seed in seeds() {
        let mut r = Rng::with_seed(seed);
        let chain = chain(&mut r);
        write(&folder.file("in.pcap"), &frames(&mut r));
        same_in_all(&folder, &chain, seed);
    }
}

/// Frames leave with the headers of the whole frames, with their lengths, and the length on the
/// wire. Checksums over bytes that are missing are 0: those of new headers, and of UDP.
#[test]
fn frames_that_a_capture_has_cut_keep_their_lengths() {
    let folder = Folder::new("packet_chains_cut");
    for seed in seeds() {
        let mut r = Rng::with_seed(1000 + seed);
        let (mut chain, frames) = (chain(&mut r), long_frames(&mut r));
        // Cut anywhere, also within headers.
        write_cut(&folder.file("in.pcap"), &frames, |f| r.usize(1..f.len() + 10));
        same_in_all(&folder, &chain, seed);
        // A new payload, or a frame that is built of bytes, has other lengths.
        chain.retain(|k| !k.0.starts_with("Edit") && !k.0.starts_with("vxlan_decap"));
        write(&folder.file("in.pcap"), &frames);
        let whole = same_in_all(&folder, &chain, seed);
        write_cut(&folder.file("in.pcap"), &frames, |_| r.usize(80..200));
        let cut = same_in_all(&folder, &chain, seed);
        for (port, (cut, whole)) in PORTS.iter().zip(cut.iter().zip(&whole)) {
            assert_eq!(cut.len(), whole.len(), "seed {seed}, {port}");
            for ((n, f), (all, w)) in cut.iter().zip(whole) {
                let alike = f.iter().zip(w).all(|(a, b)| a == b || *a == 0);
                assert!(
                    n == all && f.len() <= w.len() && alike,
                    "seed {seed}, {chain:?}, {port}: {n} {all}\n{f:02x?}\n{w:02x?}"
                );
            }
        }
    }
}

/// The ways through a graph are as many as 2^64, and are not followed one by one.
#[test]
fn many_ways_that_come_together_again() {
    let folder = Folder::new("packet_chains_ways");
    let mut text = "element Fork {
            in  x: packet
            out y: packet
            out z: packet
            on x(p) { if p.len > 90 { p -> y } else { p -> z } }
        }
        app forks {
            port wire = memory(\"w\"), out = memory(\"o\")
            on wire(p) where p.vlan { p.eth.type = p.vlan.type  remove p.vlan  p -> e0 }\n"
        .to_string();
    for n in 0..64 {
        let next = if n < 63 { format!("e{}", n + 1) } else { "out".into() };
        writeln!(text, "e{n} = Fork()\ne{n}.y -> {next}\ne{n}.z -> {next}").expect("a text");
    }
    std::fs::write(folder.file("forks.loom"), text + "}\n").expect("the folder is writable");
    let said = Wireloom::command(&["explain", &folder.name_of("forks.loom")]);
    assert_eq!(said.code, Some(0), "{}", said.text);
}
