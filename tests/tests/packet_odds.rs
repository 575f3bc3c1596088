//! Frames that are not parsed are counted, interpreted and compiled alike, and pass all the same:
//! SNAP, and a third tag. `--log-faults` tells of each kind.

use wireloom_interp::frames::chains;
use wireloom_tests::folder::Folder;
use wireloom_tests::{finish, plain, quickly_compiled, Wireloom};

/// An app with these handlers.
fn app(handlers: &str) -> String {
    let ports = "port wire = memory(\"w\") as packet.Packet, far = memory(\"f\") as packet.Packet";
    format!("use std.packet\napp told {{\n    {ports}\n    counter others\n    counter seen\n    {handlers}\n}}\n")
}

/// An app's conditions, and the faults that the frames are for it.
const APPS: &[(&str, &[&str])] = &[
    (
        "on fault(_f) { others += 1 }\n    on wire(p) { if p.ip4 { seen += 1 }  p -> far }",
        &["5 faults", "3 llc_frame", "2 too_many_tags"],
    ),
    ("on wire(p) { if p.ip4 { seen += 1 }  p -> far }", &["5 faults", "3 llc_frame", "2 too_many_tags"]),
    (
        "on wire(p) { if p.udp and p.udp.dst == 53 { seen += 1 }  p -> far }",
        &["5 faults", "3 llc_frame", "2 too_many_tags"],
    ),
    (
        "on wire(p) { if p.ip4 { seen += 1  insert Vlan { vid: 7, type: p.eth.type } before p.ip4 }  p -> far }",
        &["5 faults", "3 llc_frame", "2 too_many_tags"],
    ),
    // No header behind the tag is used.
    ("on wire(p) { if p.vlan { seen += 1 }  p -> far }", &["2 faults", "2 llc_frame"]),
    ("on wire(p) { if p.eth { seen += 1 }  p -> far }", &[]),
];

/// Ethernet with these tags, then the type and a payload.
fn frame(tags: &[u16], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for t in tags {
        f.extend(0x8100u16.to_be_bytes());
        f.extend(t.to_be_bytes());
    }
    f.extend(kind.to_be_bytes());
    f.extend(payload);
    f.resize(f.len().max(60), 0);
    f
}

/// An IPv4 header of an experimental protocol (RFC 3692), without a payload.
const IP: [u8; 20] = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0x65, 0xeb, 10, 0, 0, 1, 10, 0, 0, 2];

#[test]
fn what_is_not_looked_into_is_told() {
    if plain() {
        return;
    }
    let folder = Folder::new("odds");
    let snap: Vec<u8> = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &IP].concat();
    let bridge = [0x42, 0x42, 3, 0, 0, 0, 0, 0];
    let frames = [
        frame(&[], 0x0800, &IP),
        frame(&[5], 0x0800, &IP),
        frame(&[5, 6], 0x0800, &IP),
        frame(&[5, 6, 7], 0x0800, &IP),
        frame(&[5, 6, 7, 8], 0x0800, &IP),
        frame(&[], snap.len() as u16, &snap),
        frame(&[5], snap.len() as u16, &snap),
        frame(&[], 38, &bridge),
        frame(&[], 0x0805, &IP),
    ];
    std::fs::write(folder.file("in.pcap"), capture(&frames)).expect("written");
    let runs = APPS.iter().flat_map(|a| [&[][..], &["--interpret"]].map(|how| (a, how)));
    for ((handlers, faults), how) in runs {
        std::fs::write(folder.file("told.loom"), app(handlers)).expect("written");
        let mut command = Wireloom::program();
        command
            .current_dir(folder.path())
            .args(["run", "told.loom", "--bind", "wire=pcap:in.pcap", "--bind", "far=pcap:out.pcap"])
            .args(how)
            .arg("--log-faults");
        let out = finish(quickly_compiled(&mut command));
        let said = &out.text;
        assert!(out.code == Some(0) && said.contains("9 frames received, 9 sent"), "{handlers} {how:?}: {said}");
        assert!(faults.iter().all(|f| said.contains(f)), "{handlers} {how:?}: {said}");
        for kind in ["llc_frame", "too_many_tags"] {
            let logged = said.contains(&format!("told: {kind}"));
            assert_eq!(logged, faults.iter().any(|f| f.ends_with(kind)), "{handlers} {how:?}: {said}");
        }
        let others =
            ["faults", "llc_frame", "too_many_tags"].into_iter().filter(|f| !faults.iter().any(|t| t.contains(f)));
        assert!(
            others.filter(|f| said.contains(f)).all(|f| f == "faults" && said.contains("0 faults")),
            "{handlers} {how:?}: {said}"
        );
    }
}

/// Chains of extension headers in front of a SYN to port 22. Each is seen, or `transport_unknown`.
const GATE: &str = "on wire(p) {
        if p.tcp and p.tcp.dst == 22 { others += 1 } else if p.transport_unknown { seen += 1 } else { p -> far }
    }";

/// Whether a chain has a fragment header or AH in a place that is not parsed. That is behind
/// another of them, behind options of a routed packet, or in front of three headers.
fn stands_wrong(chain: &[u8]) -> bool {
    let routed = chain.windows(2).position(|w| w == [43, 60]).map(|n| n + 1);
    let marks = chain.iter().enumerate().filter(|(_, k)| [44, 51].contains(*k)).map(|(n, _)| n);
    let marks: Vec<usize> = marks.collect();
    marks.len() > 1 || marks.iter().any(|n| routed.is_some_and(|r| r < *n) || n + 3 < chain.len())
}

/// A capture of these frames.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut all = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    for f in frames {
        let n = f.len() as u32;
        all.extend([7, 0, n, n].iter().flat_map(|w: &u32| w.to_le_bytes()));
        all.extend(f);
    }
    all
}

/// Every chain of up to five extension headers: none hides the port. Up to four are parsed in any
/// order, if a fragment header or AH stands once, with at most two behind it.
#[test]
fn extension_headers_hide_no_port() {
    if plain() {
        return;
    }
    let folder = Folder::new("extensions");
    let all = chains(5);
    let frames: Vec<_> = all.iter().map(|c| c.1.clone()).collect();
    let parsed: Vec<_> = all.iter().filter(|c| c.0.len() <= 4 && !stands_wrong(&c.0)).map(|c| c.1.clone()).collect();
    std::fs::write(folder.file("all.pcap"), capture(&frames)).expect("written");
    std::fs::write(folder.file("parsed.pcap"), capture(&parsed)).expect("written");
    std::fs::write(folder.file("told.loom"), app(GATE)).expect("written");
    for (file, sent, how) in ["all", "parsed"].iter().flat_map(|f| [(f, 0, ""), (f, 0, "--interpret")]) {
        let mut command = Wireloom::program();
        command.current_dir(folder.path()).args(["run", "told.loom", "--bind", &format!("wire=pcap:{file}.pcap")]);
        command.args(["--bind", "far=null", "--dump", "counters=counters.json"]);
        let out = finish(quickly_compiled(command.args((!how.is_empty()).then_some(how))));
        assert!(out.code == Some(0) && out.text.contains(&format!(" {sent} sent")), "{file} {how}: {}", out.text);
        let counters = std::fs::read_to_string(folder.file("counters.json")).expect("counters");
        let hidden = counters.contains("\"seen\": 0") || counters.contains("\"seen\":0");
        assert_eq!(hidden, *file == "parsed", "{file} {how}: {counters}");
    }
}

/// VLAN tags and MPLS labels in front of the same SYN, and an IP header of another version: none
/// hides the port.
#[test]
fn tags_and_labels_hide_no_port() {
    let folder = Folder::new("tags");
    let packet = |version: u8| {
        let mut f = vec![version << 4 | 5, 0, 0, 40, 0, 0, 0, 0, 9, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        f.extend([0, 9, 0, 22, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 1, 0, 0, 0, 0, 0]);
        f
    };
    let frame = |types: &[u16], labels: usize, version: u8| {
        let mut f = vec![2; 12];
        for (n, t) in types.iter().enumerate() {
            f.extend(t.to_be_bytes());
            if n + 1 < types.len() {
                f.extend([0, 7]);
            }
        }
        (0..labels).for_each(|n| f.extend([0, 1, 0x40 | u8::from(n + 1 == labels), 9]));
        f.extend(packet(version));
        f
    };
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for tags in 0..5 {
        for tag in [0x8100, 0x88a8] {
            let types = |last| [vec![tag; tags], vec![last]].concat();
            frames.push(frame(&types(0x0800), 0, 4));
            frames.push(frame(&types(0x0800), 0, 7));
            frames.extend((1..6).map(|labels| frame(&types(0x8847), labels, 4)));
        }
    }
    std::fs::write(folder.file("in.pcap"), capture(&frames)).expect("written");
    std::fs::write(folder.file("told.loom"), app(GATE)).expect("written");
    for how in ["", "--interpret"] {
        let mut command = Wireloom::program();
        command.current_dir(folder.path()).args(["run", "told.loom", "--bind", "wire=pcap:in.pcap"]);
        let out = finish(quickly_compiled(command.args(["--bind", "far=null"]).args((!how.is_empty()).then_some(how))));
        assert!(out.code == Some(0) && out.text.contains(" 0 sent"), "{how}: {}", out.text);
    }
}

/// Elements whose `in` names a packet type have state of packets, too; checked alone and in apps.
#[test]
fn state_of_named_packets() {
    let out = Wireloom::command(&["test", "tests/programs/named_packets.loom"]);
    assert!(out.code == Some(0) && out.text.contains("2 passed, 0 failed"), "{}", out.text);
}

/// An earlier receiver keeps its bytes, and a total length of 0 means the rest of the frame, for
/// the interpreter and compiled code.
#[test]
fn copies_and_lengths_are_as_demanded() {
    let out = Wireloom::command(&["test", "tests/programs/demands.loom"]);
    assert!(out.code == Some(0) && out.text.contains("3 passed, 0 failed"), "{}", out.text);
}

/// A port over UDP that cannot send says why, once.
#[test]
fn frames_that_udp_cannot_send() {
    let folder = Folder::new("udp-refused");
    let [path, input] = ["refused.loom", "in.pcap"].map(|name| folder.path().join(name));
    let text = "unit H { order big  kind: u8 }\npacket P { h: H }\napp refused {\n    port i = pcap(\"in.pcap\")\n    \
         port out = udp(\"255.255.255.255:9\") as P\n    on i(_p) { [\"one\"] -> out }\n}\n";
    std::fs::write(&path, text).expect("the folder is writable");
    wireloom_tests::captures::write(&input, &vec![(1, vec![0; 60]), (2, vec![0; 60])]);
    let bind = format!("i=pcap:{}", input.display());
    let said = Wireloom::command(&["run", &path.display().to_string(), "--bind", &bind, "--control", "off"]).text;
    let sign = "udp:255.255.255.255:9: frames cannot be sent: Permission denied";
    assert_eq!(said.matches(sign).count(), 1, "{said}");
    assert!(said.contains("2 without an output"), "{said}");
}
