//! Elements behind elements that put headers in and take them out. A chain does what it does with a
//! queue before each element, where the packet is read anew. Chains are made at random, of elements
//! of the library and of some that look at headers.

use fastrand::Rng;
use std::fmt::Write;
use wireloom_tests::captures::{read, udp, write, Frames, Runs, EPOCH, MS};
use wireloom_tests::folder::Folder;
use wireloom_tests::Wireloom;

/// An instance and its outputs, the first of which goes on.
type Kind = (&'static str, &'static [&'static str]);

const KINDS: [Kind; 17] = [
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
    ("Edit()", &["y"]),
    ("Passes()", &["y"]),
];

/// One that only looks, one that changes fields that it finds, one that looks at nothing.
const OWN: &str = "
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
            for _ in 0..r.usize(..3) {
                let tag = [0x81, 0, 0, r.u8(1..7)];
                f.splice(12..12, tag);
            }
            (EPOCH + n * 20 * MS, f)
        })
        .collect()
}

fn run(folder: &Folder, program: &str, more: &[&str]) -> Vec<Vec<Vec<u8>>> {
    let ports = ["out", "rest", "near"];
    let mut args = vec!["--bind".to_string(), "wire=pcap:@/in.pcap".into()];
    for p in ports {
        args.extend(["--bind".into(), format!("{p}=pcap:@/{p}.pcap")]);
    }
    args.extend(more.iter().map(|s| s.to_string()));
    folder.run(program, &args.iter().map(String::as_str).collect::<Vec<_>>());
    let bytes = |p: &&str| read(&folder.file(&format!("{p}.pcap"))).into_iter().map(|(_, f)| f).collect();
    ports.iter().map(bytes).collect()
}

#[test]
fn elements_see_the_packet_that_they_get() {
    let folder = Folder::new("packet_chains");
    for seed in 0..std::env::var("WIRELOOM_CHAINS").ok().and_then(|n| n.parse().ok()).unwrap_or(5) {
        let mut r = Rng::with_seed(seed);
        let chain: Vec<Kind> = (0..r.usize(2..8)).map(|_| KINDS[r.usize(..KINDS.len())]).collect();
        write(&folder.file("in.pcap"), &frames(&mut r));
        std::fs::write(folder.file("direct.loom"), app(&chain, false)).expect("the folder is writable");
        std::fs::write(folder.file("queues.loom"), app(&chain, true)).expect("the folder is writable");
        let wanted = run(&folder, "queues.loom", &["--interpret"]);
        for (program, more) in [("direct.loom", &[][..]), ("direct.loom", &["--interpret"]), ("queues.loom", &[])] {
            let got = run(&folder, program, more);
            for (port, (got, wanted)) in ["out", "rest", "near"].iter().zip(got.iter().zip(&wanted)) {
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
