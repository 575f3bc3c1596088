//! Named bytes of a frame keep their values. A frame stays whole for all its users, also when
//! another use was sent or changed before.

use super::both_ways;
use wireloom_tests::captures::{udp, write, Frames, Runs, EPOCH};
use wireloom_tests::folder::Folder;
use wireloom_tests::Wireloom;

const NAMED: &str = r#"
record Piece { n: u32, data: bytes<2000> }

app named {
    port wire = nic("a"), out = nic("b"), early = nic("c")

    on wire(p) where p.udp and p.ip4 {
        // Read behind the frame's leaving, and twice behind new frames: nothing has taken its
        // place.
        let data = payload(p.udp)
        let head = slice(payload(p.eth), 0, 20)
        let piece = Piece { n: p.len, data: payload(p.udp) }
        var last: bytes<20> = ""
        for i in 0..2 {
            if i == 1 { [Ethernet { type: 0x1111 }, last] -> early }
            last = slice(payload(p.ip4), 0, 8)
            p.udp.src += 1
        }
        p.ip4.ttl = 9
        insert Ipv4 { version: 4, ihl: 5, proto: 4, src: 1.1.1.1, dst: 2.2.2.2 } before p.ip4
        [Ethernet { type: 0x2222 }, head] -> early
        p -> out
        [Ethernet { type: 0x3333 }, data] -> out
        [Ethernet { type: 0x4444 }, piece.data] -> out
    }
}
"#;

const LEFT: &str = r#"
app left {
    port wire = nic("a"), out = nic("b"), early = nic("c")

    on wire(p) where p.udp {
        loop max 3 {
            if p.udp.src > 1000 { p -> early; break }
            return
        }
        p -> out
    }
}
"#;

const LISTS: &str = r#"
app lists {
    port wire = nic("a"), out = nic("b"), early = nic("c")

    on wire(p) where p.udp {
        p -> broadcast [out, early]
        p -> steer [out, early] by p.udp.src
    }
}
"#;

const STATES: &str = r#"
record Last { n: u32, data: bytes<40> }

app states {
    port wire = nic("a"), out = nic("b")
    state text: bytes<40>
    state last: Last
    state maybe: bytes<40>?

    on wire(p) where p.udp {
        let before = text
        let old = last
        let some = maybe
        let piece = slice(text, 0, 2)
        text = payload(p.udp)
        last = Last { n: old.n + 1, data: payload(p.udp) }
        maybe = slice(payload(p.udp), 1, 9)
        [Ethernet { type: 0x1111 }, before, old.data, some else "none", piece] -> out
        text = slice(text, 1, 35)
        text = concat(slice(text, 0, 3), text)
        [Ethernet { type: 0x2222 }, text] -> out
    }
}
"#;

fn input() -> Frames {
    (0..300)
        .map(|i| {
            let mut f = udp(1, 900 + i, 53, 40);
            f[42..].iter_mut().enumerate().for_each(|(k, b)| *b = (i as u8).wrapping_add(k as u8));
            (EPOCH + u64::from(i), f)
        })
        .collect()
}

#[test]
fn bytes_of_a_frame_are_values() {
    let folder = Folder::new("named");
    std::fs::write(folder.file("named.loom"), NAMED).unwrap();
    let input = input();
    write(&folder.file("in.pcap"), &input);
    let (outs, faults, _) = both_ways(&folder, "named.loom", &["out", "early"], &[]);
    assert_eq!((faults, outs[0].len(), outs[1].len()), (0, 900, 600));
    let framed = |kind: u8, data: &[u8]| [&[0; 12][..], &[kind, kind], data].concat();
    for (i, (_, f)) in input.iter().enumerate() {
        assert_eq!(outs[0][3 * i].1.len(), f.len() + 20);
        assert_eq!(outs[0][3 * i + 1].1, framed(0x33, &f[42..]), "{i}");
        assert_eq!(outs[0][3 * i + 2].1, framed(0x44, &f[42..]), "{i}");
        assert_eq!(outs[1][2 * i].1[..18], framed(0x11, &f[34..38]), "{i}");
        assert_eq!(outs[1][2 * i + 1].1, framed(0x22, &f[14..34]), "{i}");
    }
}

#[test]
fn bytes_of_states_are_values() {
    let folder = Folder::new("states");
    std::fs::write(folder.file("states.loom"), STATES).unwrap();
    let input = input();
    write(&folder.file("in.pcap"), &input);
    let (outs, faults, _) = both_ways(&folder, "states.loom", &["out"], &[]);
    assert_eq!((faults, outs[0].len()), (0, 600));
    let (mut text, mut last, mut maybe) = (Vec::new(), Vec::new(), b"none".to_vec());
    for (i, (_, f)) in input.iter().enumerate() {
        let piece = text.iter().take(2).copied().collect::<Vec<u8>>();
        assert_eq!(outs[0][2 * i].1[14..], [text, last, maybe, piece].concat(), "{i}");
        (last, maybe) = (f[42..].to_vec(), f[43..51].to_vec());
        text = [&f[43..46], &f[43..77]].concat();
        assert_eq!(outs[0][2 * i + 1].1[14..], text, "{i}");
    }
}

#[test]
fn a_frame_that_leaves_in_a_loop_may_leave_again() {
    let folder = Folder::new("left");
    std::fs::write(folder.file("left.loom"), LEFT).unwrap();
    let input = input();
    write(&folder.file("in.pcap"), &input);
    let (outs, ..) = both_ways(&folder, "left.loom", &["out", "early"], &[]);
    assert_eq!(outs[0], input[101..]);
    assert_eq!(outs[1], input[101..]);
}

#[test]
fn handlers_send_to_lists_of_ports() {
    let folder = Folder::new("lists");
    std::fs::write(folder.file("lists.loom"), LISTS).unwrap();
    let input = input();
    write(&folder.file("in.pcap"), &input);
    let (outs, ..) = both_ways(&folder, "lists.loom", &["out", "early"], &[]);
    let steered = outs.iter().map(|o| o.len() - input.len()).collect::<Vec<_>>();
    assert!(steered.iter().all(|n| *n > 90) && steered.iter().sum::<usize>() == input.len(), "{steered:?}");
}

const BYTES: &str = r#"
app texts {
    port wire = nic("a")
    table seen: bytes<32> -> bytes<32> { capacity 64 }
    on wire(p) where p.udp { seen[payload(p.udp)] = payload(p.udp) }
}
"#;

/// Texts of all kinds are the same behind a dump and a load, by CSV as by JSON.
#[test]
fn what_is_dumped_is_loaded() {
    let folder = Folder::new("texts");
    std::fs::write(folder.file("texts.loom"), BYTES).unwrap();
    let texts: [&[u8]; 14] = [
        b"plain",
        b"a\nb",
        b"\r\n",
        b"q\"uo,te",
        b"",
        b"  sp ",
        b"\t",
        b"0xff",
        b"\xff\0\xfe",
        b"1.5",
        b"null",
        b"[1,2]",
        b"\\n",
        "\u{e9}t\u{e9}".as_bytes(),
    ];
    let input: Frames = texts
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let mut f = udp(1, 1000, 53, t.len());
            f[42..].copy_from_slice(t);
            (EPOCH + i as u64, f)
        })
        .collect();
    write(&folder.file("in.pcap"), &input);
    let rows = |name: &str| {
        let all: Vec<serde_json::Value> =
            serde_json::from_str(&std::fs::read_to_string(folder.file(name)).unwrap()).unwrap();
        all.iter().map(ToString::to_string).collect::<std::collections::BTreeSet<_>>()
    };
    folder.run("texts.loom", &["--bind", "wire=pcap:@/in.pcap", "--dump", "seen=@/a.json"]);
    folder.run("texts.loom", &["--bind", "wire=pcap:@/in.pcap", "--dump", "seen=@/a.csv"]);
    assert_eq!(rows("a.json").len(), texts.len());
    for from in ["a.json", "a.csv"] {
        folder.run(
            "texts.loom",
            &["--bind", "wire=null", "--load", &format!("seen=@/{from}"), "--dump", "seen=@/b.json"],
        );
        assert_eq!(rows("b.json"), rows("a.json"), "{from}");
    }
}

/// A table whose values have no form in a file is named as what it is.
#[test]
fn what_cannot_be_loaded_is_told() {
    let folder = Folder::new("unloaded");
    let program = r#"
app maybe {
    port wire = nic("a")
    table seen: u16 -> bytes<4>? { capacity 64 }
    on wire(p) where p.udp { seen[p.udp.src] = some("x") }
}
"#;
    std::fs::write(folder.file("maybe.loom"), program).unwrap();
    std::fs::write(folder.file("rows.json"), "[]").unwrap();
    let args = ["run", "--interpret", "@/maybe.loom", "--bind", "wire=null", "--load"];
    for (table, says) in [
        ("seen", "table `seen` has no `insert`: a file has no form for all fields of its key and value"),
        ("sen", "app `maybe` has no table `sen` for this"),
    ] {
        let all = folder.arguments(&[&args[..], &[&format!("{table}=@/rows.json")]].concat());
        let out = Wireloom::command(&all.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(out.code == Some(1) && out.text.contains(says), "{}", out.text);
    }
}
