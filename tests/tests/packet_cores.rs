//! Tables kept per core: keys of any form give on two cores the entries that they give on one. They
//! read headers that only some of the packets have.

use fastrand::Rng;
use std::fmt::Write;
use wireloom_tests::captures::{rows, udp, write, Frames, Runs, EPOCH, MS};
use wireloom_tests::folder::Folder;
use wireloom_tests::programs::seeds;

/// Sources of a part of a key that any packet of a branch has.
const ANYWHERE: [&str; 7] = [
    "if p.udp { p.udp.# } else { 0 }",
    "if p.tcp { p.tcp.# } else { 0 }",
    "if p.inner_udp { p.inner_udp.# } else { 0 }",
    "if p.inner_udp { p.inner_udp.# } else if p.udp { p.udp.# } else { 0 }",
    "if p.udp { p.udp.# } else if p.tcp { p.tcp.# } else { 0 }",
    "if p.vxlan { 0 } else if p.udp { p.udp.# } else { 0 }",
    "7",
];

fn key(rng: &mut Rng, more: &[&'static str]) -> String {
    let all: Vec<&str> = ANYWHERE.iter().chain(more).chain(more).copied().collect();
    let mut part = |field| rng.choice(&all).expect("some").replace('#', field);
    let mut two = [part("src"), part("dst")];
    // A flow and its answer.
    if rng.u8(..3) == 0 {
        two.reverse()
    }
    format!("R {{ a: {}, b: {} }}", two[0], two[1])
}

fn app(rng: &mut Rng, n: u64) -> String {
    let mut text = format!("app a{n} {{\n    port wire = nic(\"a\")\n    table t{n}: R -> u64 {{ capacity 64K }}\n");
    let mut line = |indent: usize, s: &str| writeln!(text, "{:indent$}{s}", "").expect("text");
    line(4, "on wire(p) where p.ip4 {");
    let inner = ["p.inner_udp.#"];
    line(8, "if p.vxlan {");
    if rng.bool() {
        line(12, "if p.inner_udp {");
        if rng.u8(..3) == 0 {
            line(16, "p.inner_udp.dst = 9");
        }
        line(16, &format!("t{n}[{}] += 1", key(rng, &inner)));
        line(12, &format!("}} else {{ t{n}[{}] += 1 }}", key(rng, &[])));
    } else {
        line(12, &format!("t{n}[{}] += 1", key(rng, &[])));
    }
    line(12, if rng.bool() { "return" } else { "" });
    line(8, "}");
    match rng.u8(..3) {
        0 => line(8, &format!("t{n}[{}] += 1", key(rng, &[]))),
        1 => {
            line(8, &format!("if p.udp {{ t{n}[{}] += 1 }}", key(rng, &["p.udp.#"])));
            line(8, &format!("else {{ t{n}[{}] += 1 }}", key(rng, &[])));
        }
        _ => {
            line(8, &format!("let k = {}", key(rng, &[])));
            line(8, &format!("if p.tcp {{ t{n}[{}] += 1 }}", key(rng, &["p.tcp.#"])));
            line(8, &format!("t{n}[k] += 1"));
        }
    }
    text + "    }\n}\n"
}

/// A VXLAN packet around a frame (RFC 7348 section 5).
fn tunnel(source: u16, inner: &[u8]) -> Vec<u8> {
    let mut f = udp(9, source, 4789, 8 + inner.len());
    f[42] = 8;
    f[50..].copy_from_slice(inner);
    f
}

/// Flows plain and in tunnels, with their answers.
fn frames(rng: &mut Rng) -> Frames {
    let one = |rng: &mut Rng| {
        let (mut a, mut b) = (1000 + rng.u16(..30), 2000 + rng.u16(..4));
        if rng.bool() {
            std::mem::swap(&mut a, &mut b)
        }
        let mut plain = udp(rng.u8(1..4), a, b, 20);
        if rng.u8(..6) == 0 {
            // Another protocol; its ports are not looked at. The sum of the header covers it.
            plain[23] = 1;
            let sum = u16::from_be_bytes([plain[24], plain[25]]) + 16;
            plain[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        if rng.bool() {
            tunnel(rng.u16(5000..5004), &plain)
        } else {
            plain
        }
    };
    (0..900).map(|n| (EPOCH + n * MS, one(rng))).collect()
}

fn compare(folder: &Folder, program: &str, apps: std::ops::Range<u64>) {
    std::fs::write(folder.file("p.loom"), program).expect("the folder is writable");
    let run = |cores: &str| {
        let mut args = vec!["--bind".to_string(), "wire=pcap:@/in.pcap".into(), "--cores".into(), cores.into()];
        args.extend(["--rps".into(), "on".into()]);
        for n in apps.clone() {
            args.extend(["--dump".into(), format!("t{n}=@/t{n}-{cores}.json")])
        }
        folder.run("p.loom", &args.iter().map(String::as_str).collect::<Vec<_>>());
    };
    run("0");
    run("0-1");
    for n in apps {
        let of = |cores: &str| rows(&folder.file(&format!("t{n}-{cores}.json")));
        let (one, two) = (of("0"), of("0-1"));
        assert!(!one.is_empty());
        assert_eq!(one, two, "app a{n} of\n{program}");
    }
}

/// Apps by themselves, and several on one port, which may be steered together.
#[test]
fn generated_keys_find_their_entries_on_any_core() {
    for seed in seeds(6) {
        let mut rng = Rng::with_seed(seed);
        let folder = Folder::new(&format!("cores{seed}"));
        write(&folder.file("in.pcap"), &frames(&mut rng));
        let count = if seed % 2 == 0 { 1 } else { 4 };
        let apps: String = (0..count).map(|n| app(&mut rng, n)).collect();
        compare(&folder, &format!("record R {{ a: u16, b: u16 }}\n{apps}"), 0..count);
    }
}

/// A flow is found again in its tunnel, where its ports are those of other headers.
#[test]
fn a_key_of_other_headers_does_not_steer() {
    let folder = Folder::new("other_headers");
    let mut rng = Rng::with_seed(1);
    write(&folder.file("in.pcap"), &frames(&mut rng));
    let program = "record R { a: u16, b: u16 }
app a0 {
    port wire = nic(\"a\")
    table t0: R -> u64 { capacity 64K }
    on wire(p) where p.ip4 {
        if p.vxlan {
            t0[R { a: if p.inner_udp { p.inner_udp.src } else { 0 }, b: if p.inner_udp { p.inner_udp.dst } else { 0 } }] += 1
            return
        }
        t0[R { a: p.sport, b: p.dport }] += 1
    }
}
";
    compare(&folder, program, 0..1);
}
