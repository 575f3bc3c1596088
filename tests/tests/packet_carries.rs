//! State of packets, and what crosses a queue. With segments on one core and on two, compiled and
//! interpreted, and with whole frames the same comes out.

use super::packet_segments::alike;
use wireloom_ir::FramePart;
use wireloom_tests::captures::{udp, Frames, EPOCH, MS};
use wireloom_tests::folder::Folder;
use wireloom_tests::programs::module;
use wireloom_tests::Wireloom;

/// `CARRIES` stands for nothing or `, carries whole`.
const PROGRAM: &str = r#"
/// Finds out about a packet.
element Top {
    in  x: packet
    out y: packet
    state of packet { user: u32, hops: u8 = 0, from: ip, late: bool = false }
    counter known
    on x(p) {
        p.user = p.len * 7
        p.hops += 1
        if p.ip { p.from = p.ip.src  known += 1 } else { p.from = 10.9.9.9 }
        if p.len % 2 == 0 { p.late = true }
        p -> y
    }
}

/// Has a `user` of its own.
element Own {
    in  x: packet
    out y: packet
    state of packet { user: u16 = 77, Top.hops }
    counter sum
    on x(p) {
        p.user += u16(p.len)
        p.hops += 1
        sum += u64(p.user)
        p -> y
    }
}

/// To each of three.
element Spread {
    in  x: packet
    out a: packet
    out b: packet
    out c: packet
    state of packet { Top.user }
    on x(p) {
        p -> a
        p.user += 1
        if p.len % 3 == 0 { p -> b }
        p.user += 1
        p -> c
    }
}

app carried {
    port wire = nic("a"), out = nic("b"), side = nic("c"), rest = nic("d")
    state of packet { Top.user, Top.hops, Top.from, Top.late, n: u64 = 3 }
    queue light { depth 7, lossless CARRIES }
    queue heads { depth 7, instances 2, lossless CARRIES }
    queue whole { depth 7, lossless CARRIES }
    queue again { depth 7, lossless CARRIES }
    top = Top()
    own = Own()
    spread = Spread()
    counter users, bytes, ports
    segment rx on cpu(0) {
        wire -> top -> own -> spread
        spread.a -> light
        spread.b -> steer heads by .len
        spread.c -> whole
    }
    segment work on cpu(1) {
        on light(p) {
            users += u64(p.user) ^ p.n
            bytes += u64(p.len)
            p.n += u64(p.hops)
            p -> again
        }
        on heads[i](p) where p.udp {
            ports += u64(p.udp.dst) + i
            [Ethernet { type: 0x0800 }, Ipv4 { ttl: p.hops, proto: 17, id: u16(p.user) }, Udp { src: p.udp.dst, dst: u16(len(p.payload)) }, slice(p.payload, 0, 3)] -> side
        }
    }
    segment tx on cpu(0) {
        on whole(p) { if p.ip4 { p.ip4.id = u16(p.user) }  p -> out }
        on again(p) {
            if p.late { [Ethernet { type: u16(p.user) }, Ipv4 { ttl: u8(p.n), proto: 9 }, text(p.from)] -> rest }
        }
    }
}
"#;

fn program(whole: bool) -> String {
    PROGRAM.replace("CARRIES", if whole { ", carries whole" } else { "" })
}

fn frames() -> Frames {
    let one = |n: u64| {
        let (size, port) = ((n * 37 % 1400) as usize, if n.is_multiple_of(5) { 53 } else { n as u16 });
        (EPOCH + n * MS / 8, udp(n as u8, n as u16, port, size))
    };
    (0..2000).map(one).collect()
}

#[test]
fn cut_or_whole_makes_no_difference() {
    let cut = alike("carries-cut", &program(false), &frames());
    let whole = alike("carries-whole", &program(true), &frames());
    assert!(cut == whole, "{:?}", cut.iter().map(Vec::len).collect::<Vec<_>>());
    assert!(cut.iter().all(|f| f.len() > 500), "{:?}", cut.iter().map(Vec::len).collect::<Vec<_>>());
}

#[test]
fn what_crosses_is_found_and_shown() {
    let folder = Folder::new("carries-shown");
    std::fs::write(folder.file("program.loom"), program(false)).expect("the folder is writable");
    let m = module(folder.file("program.loom"));
    let of = |name: &str| m.ports.iter().find(|p| p.name == name).map(|p| p.carries.clone()).expect("the queue");
    let names = |name: &str| of(name).state.iter().map(|f| m.packet[f.index()].name.clone()).collect::<Vec<_>>();
    assert_eq!((of("light").part, of("again").part), (FramePart::Nothing, FramePart::Nothing));
    assert!(matches!(of("heads").part, FramePart::Headers(_)) && of("whole").part == FramePart::Whole);
    assert_eq!(names("whole"), ["Top.user"]);
    assert_eq!(names("heads"), ["Top.user", "Top.hops"]);
    assert_eq!(names("again"), ["Top.user", "Top.from", "Top.late", "n"]);
    let said = Wireloom::command(&["explain", &folder.file("program.loom").display().to_string()]);
    for line in [
        "carries no byte of the frame, and an entry of",
        "carries headers and",
        "carries whole frames, and an entry of 8 bytes",
    ] {
        assert!(said.text.contains(line), "{line}: {}", said.text);
    }
}
