//! A field is set in a header whose own checksum is wrong. It stays wrong (RFC 1624), and a broken
//! packet does not become a sound one. The checksums of the headers around it are made anew.
//! Interpreter and compiled code write the same bytes.

use std::sync::Arc;
use wireloom_interp::frames::{hex, FrameIn, FramePair};
use wireloom_tests::folder::Folder;
use wireloom_tests::programs::{checked_both, compiled, interpreted, no_internal_errors};

const PROGRAM: &str = r#"
app inner {
    port wire = memory("w"), out = memory("o"), broken = memory("b")
    on wire(p) {
        if p.inner_tcp {
            p.inner_tcp.dst = 81
            if not checksum_ok(p.inner_tcp) { p -> broken }
        }
        if p.inner_udp {
            p.inner_udp.dst = 54
            if not checksum_ok(p.inner_udp) { p -> broken }
        }
        p -> out
    }
}
"#;

fn sum(bytes: &[u8]) -> u16 {
    let word = |w: &[u8]| u32::from(u16::from_be_bytes([w[0], *w.get(1).unwrap_or(&0)]));
    let mut s: u32 = bytes.chunks(2).map(word).sum();
    while s >> 16 > 0 {
        s = (s & 0xffff) + (s >> 16)
    }
    !(s as u16)
}

fn ip4(proto: u8, rest: &[u8]) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    p[2..4].copy_from_slice(&(20 + rest.len() as u16).to_be_bytes());
    let c = sum(&p);
    p[10..12].copy_from_slice(&c.to_be_bytes());
    [&p, rest].concat()
}

/// A transport header with its checksum at `at`, plus `wrong`.
fn summed(proto: u8, mut rest: Vec<u8>, at: usize, wrong: u16) -> Vec<u8> {
    let mut pseudo = vec![10, 0, 0, 1, 10, 0, 0, 2, 0, proto];
    pseudo.extend((rest.len() as u16).to_be_bytes());
    pseudo.extend(&rest);
    let c = sum(&pseudo).wrapping_add(wrong);
    rest[at..at + 2].copy_from_slice(&c.to_be_bytes());
    ip4(proto, &rest)
}

fn udp(src: u16, dst: u16, data: &[u8]) -> Vec<u8> {
    let length = (8 + data.len() as u16).to_be_bytes();
    [&src.to_be_bytes()[..], &dst.to_be_bytes(), &length, &[0, 0], data].concat()
}

fn tcp() -> Vec<u8> {
    [&[0x10, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 1, 0, 0, 0, 0, 0][..], b"hello"].concat()
}

fn ether(rest: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], rest].concat()
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    let folder = Folder::new("inner-checksums");
    let path = folder.file("program.loom");
    std::fs::write(&path, PROGRAM).expect("the folder is writable");
    let (graph, module) = checked_both(&path, None).expect("it is sound");
    let (graph, module) = (Arc::new(graph), Arc::new(module));
    let Some(other) = compiled(&module).expect("C") else { return };
    let mut pair = FramePair::new(&module, interpreted(&graph), other, &[]).expect("both start");
    for wrong in [0, 1, 0x1234] {
        for inside in [summed(6, tcp(), 16, wrong), summed(17, udp(4000, 53, b"name"), 6, wrong)] {
            let vxlan = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &ether(&inside)].concat();
            for frame in [summed(17, udp(5000, 4789, &vxlan), 6, 0), ip4(4, &inside)].map(|f| ether(&f)) {
                let wire = frame.len() as u32;
                let f = FrameIn {
                    port: 0,
                    instance: 0,
                    time: 1,
                    wire,
                    bytes: frame,
                    rooms: (256, 256),
                    mark: 0,
                    entry: Vec::new(),
                };
                pair.frame(&f).unwrap_or_else(|e| panic!("{wrong}, {}: {e}", hex(&f.bytes)));
            }
        }
    }
    pair.finish().expect("tables are the same");
    assert_eq!(pair.sum.sent, 12 + 8, "all leave, and the broken ones once more: {:?}", pair.sum);
    no_internal_errors();
}
