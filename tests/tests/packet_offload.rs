//! Applications in several forms, on the CPU, divided between CPU and NIC, and on the NIC: all
//! forms send the same frames. Channels of queues, instances on devices, and the modelled link's
//! parameters in the program.

use std::process::Command;
use wireloom_tests::captures::{read, traffic, udp, write, Frames, EPOCH};
use wireloom_tests::finish;
use wireloom_tests::folder::Folder;
use wireloom_tests::process::quickly_compiled;
use wireloom_tests::{root, Wireloom};

/// Runs an app on the capture `in.pcap` of the folder. It gives the frames that it sends, its
/// counters, and for each of its queues over the link: frames, transactions, bytes.
fn run(folder: &Folder, app: &str, more: &[&str]) -> Ran {
    run_by(&mut Wireloom::program(), folder, app, more)
}

/// The frames of a run, its counters, and its queues over the link.
pub type Ran = (Frames, String, Vec<[u64; 3]>);

/// The same with another executable, or in another environment.
pub fn run_by(command: &mut Command, folder: &Folder, app: &str, more: &[&str]) -> Ran {
    command.args(["run", app, "--dump", "counters=counters.json"]).current_dir(folder.file("."));
    command.args(["--bind", "wire=pcap:in.pcap", "--bind", "out=pcap:out.pcap"]).args(more);
    let out = finish(quickly_compiled(command));
    assert_eq!(out.code, Some(0), "{app}: {}", out.text);
    let told = out.text.lines().filter_map(|l| Some(l.split_once(": modelled link")?.1));
    // Between transactions and bytes: hundredths of transactions, and TLPs.
    let queues = told.map(|l| {
        let n: Vec<u64> = l.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        [n[0], n[1], n[5] + n[6]]
    });
    let counters = std::fs::read_to_string(folder.file("counters.json")).expect("the counters");
    (read(&folder.file("out.pcap")), counters, queues.collect())
}

/// A request of the key-value store.
fn request(op: u8, key: u64, client: u16, value: &[u8]) -> Vec<u8> {
    let mut f = udp(7, client, 5252, 12 + value.len());
    f.truncate(42);
    f.extend([op, 0]);
    f.extend(client.to_be_bytes());
    f.extend(key.to_be_bytes());
    f.extend(value);
    f
}

#[test]
fn a_store_answers_alike_in_each_form() {
    let folder = Folder::new("offload-kv");
    let mut random = fastrand::Rng::with_seed(5);
    let mut known = std::collections::BTreeMap::new();
    let (mut frames, mut expected) = (Frames::new(), Vec::new());
    for n in 0..3000u64 {
        let (key, time, client) = (random.u64(..40), EPOCH + n * 300, 2000 + n as u16);
        if random.u8(..4) == 0 {
            frames.push((time, udp(1, client, 53, 90)));
        }
        let value: Vec<u8> = (0..random.usize(..65)).map(|_| random.u8(..)).collect();
        let set = random.u8(..5) == 0;
        frames.push((time, request(u8::from(set), key, client, if set { &value } else { b"" })));
        match (set, known.get(&key)) {
            (true, _) => {
                expected.push((client, 0, Vec::new()));
                known.insert(key, value);
            }
            (false, Some(v)) => expected.push((client, 0, v.clone())),
            (false, None) => expected.push((client, 1, Vec::new())),
        }
    }
    write(&folder.file("in.pcap"), &frames);
    let file = root().join("examples/offload_kv.loom").display().to_string();
    let mut crossed = Vec::new();
    for form in ["kv_on_cpu", "kv_split", "kv_cached"] {
        let (sent, counters, over) = run(&folder, &format!("{file}:{form}"), &[]);
        let answers: Vec<(u16, u8, Vec<u8>)> =
            sent.iter().map(|(_, f)| (u16::from_be_bytes([f[36], f[37]]), f[43], f[54..].to_vec())).collect();
        let differ = answers.iter().zip(&expected).position(|(a, b)| a != b);
        assert!(answers == expected, "{form}: {} of {}, differ at {differ:?}", answers.len(), expected.len());
        assert!(sent.iter().all(|(_, f)| f[42] & 128 != 0), "{form}: answers are marked");
        if form == "kv_cached" {
            assert!(!counters.contains("\"hits\": 0") && !counters.contains("\"hits\":0"), "{counters}");
        }
        crossed.push(over.iter().fold([0; 3], |a, q| [a[0] + q[0], a[1] + q[1], a[2] + q[2]]));
    }
    let fewer = |a: [u64; 3], b: [u64; 3]| a[0] < b[0] && a[1] <= b[1] && a[2] < b[2];
    assert!(fewer(crossed[1], crossed[0]) && fewer(crossed[2], crossed[1]), "{crossed:?}");
}

/// Frames of all kinds that the functions tell apart.
pub fn mixed() -> Frames {
    let mut frames = traffic(8, 1500, &[50, 100, 5000]);
    for (n, f) in frames.iter_mut().enumerate() {
        match n % 5 {
            0 => f.1[23] = 6,
            1 => {
                f.1[36..38].copy_from_slice(&5151u16.to_be_bytes());
                f.1[42..46].copy_from_slice(&[0x53, 0x51, 0, n as u8 % 7]);
            }
            _ => {}
        }
    }
    frames
}

#[test]
fn functions_do_the_same_in_each_form() {
    let folder = Folder::new("offload-functions");
    let frames = mixed();
    write(&folder.file("in.pcap"), &frames);
    let file = root().join("examples/offload_functions.loom").display().to_string();
    for (forms, over) in [
        (&["aes_on_cpu", "aes_split", "aes_on_nic"][..], [2, 2, 0]),
        (&["sequencer_on_cpu", "sequencer_split", "sequencer_on_nic"], [2, 2, 0]),
    ] {
        let all: Vec<_> = forms.iter().map(|f| run(&folder, &format!("{file}:{f}"), &[])).collect();
        for ((form, one), queues) in forms.iter().zip(&all).zip(over) {
            assert_eq!((one.0.len(), one.2.len()), (frames.len(), queues), "{form}");
            assert!(one.0 == all[0].0, "{form} sends other frames than {}", forms[0]);
        }
        let bytes = |n: usize| all[n].2.iter().map(|q| q[2]).sum::<u64>();
        assert!(bytes(1) < bytes(0), "the card keeps frames: {:?} and {:?}", all[1].2, all[0].2);
        assert!(all[0].0 != frames, "{forms:?} change frames");
    }
    let bytes: usize = frames.iter().map(|f| f.1.len()).sum();
    let forms = ["flows_whole", "flows_on_cpu", "flows_split", "flows_on_nic"];
    let all = forms.map(|form| {
        let mut command = Wireloom::program();
        command.args(["run", &format!("{file}:{form}"), "--dump", "counters=counters.json"]);
        command.args(["--bind", "wire=pcap:in.pcap"]).current_dir(folder.file("."));
        let out = finish(quickly_compiled(&mut command));
        assert_eq!(out.code, Some(0), "{form}: {}", out.text);
        std::fs::read_to_string(folder.file("counters.json")).expect("the counters")
    });
    assert!(all[0].contains(&bytes.to_string()), "{bytes}: {}", all[0]);
    assert!(all.iter().all(|c| *c == all[0]), "{all:?}");
}

/// Tuples of the workers, among other frames.
#[test]
fn workers_find_the_same_users_in_each_form() {
    let folder = Folder::new("offload-users");
    let mut random = fastrand::Rng::with_seed(6);
    let frames: Frames = (0..2000u64)
        .map(|n| {
            let most = random.u64(..40);
            let user = random.u64(..=most);
            let mut f = udp(1, 4000, if n % 9 == 0 { 53 } else { 7777 }, 40);
            f[42..50].copy_from_slice(&user.to_be_bytes());
            f[50..58].copy_from_slice(&1u64.to_be_bytes());
            (EPOCH + n * 250, f)
        })
        .collect();
    write(&folder.file("in.pcap"), &frames);
    let file = root().join("examples/offload_users.loom").display().to_string();
    let all = ["users_on_cpu", "users_split", "users_bypass"].map(|f| run(&folder, &format!("{file}:{f}"), &[]));
    for (n, one) in all.iter().enumerate() {
        let differ = one.0.iter().zip(&all[0].0).position(|(a, b)| a != b);
        assert!(one.0 == all[0].0, "form {n}: {} and {} frames, {differ:?}", one.0.len(), all[0].0.len());
    }
    assert!(all[0].0.len() > 500, "{}", all[0].0.len());
    let crossed = |n: usize| all[n].2.iter().map(|q| q[0]).sum::<u64>();
    assert!(crossed(2) < crossed(0) && crossed(0) < crossed(1), "{} {} {}", crossed(0), crossed(1), crossed(2));
}

/// Two channels over two queues, of which one leads over the link. `ON` stands for the device of
/// the segment in the middle.
const CHANNELS: &str = r#"
app channels {
    port wire = nic("a"), out = nic("b")
    queue up   { depth 64, instances 2, lossless, channels [odd, even, far] }
    queue down { depth 64, lossless, channels [plain, told] }
    counter odds, evens, fars, told
    table seen: u16 -> u64 { capacity 4K }
    tell = Tell()
    segment front on cpu(0) {
        on wire(p) where p.udp {
            if p.udp.src % 5 == 0 { p -> up.far[1]; return }
            p.mark = p.udp.src
            if p.udp.src % 2 == 1 { p -> steer up.odd by p.udp.src } else { p -> up.even[0] }
        }
    }
    segment middle on ON {
        on up.even(p) where p.udp {
            evens += 1
            seen[p.udp.src] += 1
            p -> down.plain
        }
        up.far -> where .udp -> tell -> down.told
        on up.odd(p) {
            odds += u64(p.port) + 1
            if p.mark % 3 == 0 { return }
            p -> down.told
        }
    }
    segment back on cpu(0) {
        down.plain -> out
        on down.told(p) where p.udp {
            told += 1
            p.udp.dst = 7
            p -> out
        }
    }
}
element Tell {
    in  x: packet
    out y: packet
    counter fars
    on x(p) {
        fars += 1
        p -> y
    }
}
"#;

#[test]
fn packets_come_by_their_channel() {
    let folder = Folder::new("channels");
    let frames = traffic(31, 2000, &[1, 100, 2000]);
    write(&folder.file("in.pcap"), &frames);
    let text = CHANNELS.replace(", fars, told", ", told");
    let mut all = Vec::new();
    for (n, on) in ["cpu(0)", "cpu(1)", "nic", "nic"].into_iter().enumerate() {
        std::fs::write(folder.file("program.loom"), text.replace("ON", on)).expect("the folder is writable");
        let args: &[&str] = if n == 3 { &["--interpret"] } else { &["--cores", "0,1"] };
        all.push(run(&folder, "program.loom", args));
        let (now, first) = (&all[n], &all[0]);
        assert!(now.0 == first.0 && now.1 == first.1, "{on}: {} and {} frames", now.0.len(), first.0.len());
    }
    let source = |f: &[u8]| u16::from_be_bytes([f[34], f[35]]);
    let expected: Vec<(u16, u16)> = frames
        .iter()
        .filter_map(|(_, f)| match source(f) {
            n if n % 5 == 0 => Some((n, 7)),
            n if n % 2 == 0 => Some((n, 53)),
            n => (n % 3 != 0).then_some((n, 7)),
        })
        .collect();
    let came: Vec<(u16, u16)> = all[0].0.iter().map(|(_, f)| (source(f), u16::from_be_bytes([f[36], f[37]]))).collect();
    assert!(came == expected, "{} and {}", came.len(), expected.len());
}

/// The channels of one instance keep their order.
#[test]
fn channels_keep_one_order() {
    let folder = Folder::new("channels-order");
    let frames: Frames = (0..2000u16).map(|n| (EPOCH, udp(1, n, 53, 20))).collect();
    write(&folder.file("in.pcap"), &frames);
    let text = r#"
app ordered {
    port wire = nic("a"), out = nic("b")
    queue q { depth 64, lossless, channels [a, b, c] }
    segment front on cpu(0) {
        on wire(p) where p.udp {
            if p.udp.src % 3 == 0 { p -> q.a } else if p.udp.src % 7 == 0 { p -> q.c } else { p -> q.b }
        }
    }
    segment back on ON {
        q.a -> out
        on q.b(p) where p.udp { p.udp.dst = 1  p -> out }
        on q.c(p) where p.udp { p.udp.dst = 2  p -> out }
    }
}
"#;
    for on in ["cpu(1)", "nic"] {
        std::fs::write(folder.file("program.loom"), text.replace("ON", on)).expect("the folder is writable");
        let (sent, ..) = run(&folder, "program.loom", &[]);
        let came: Vec<(u16, u8)> = sent.iter().map(|(_, f)| (u16::from_be_bytes([f[34], f[35]]), f[37])).collect();
        let of = |n: u16| {
            if n.is_multiple_of(3) {
                53
            } else if n.is_multiple_of(7) {
                2
            } else {
                1
            }
        };
        let expected: Vec<(u16, u8)> = (0..2000).map(|n| (n, of(n))).collect();
        assert!(came == expected, "{on}: {} frames", came.len());
    }
}

const CARD: &str = r#"
app split {
    port wire = nic("a"), out = nic("b")
    queue up { depth 64, lossless }
    LINK
    count = Count() ON
    segment host on cpu(0) { on up(p) where p.udp { p.udp.dst = 9  p -> back } }
    queue back { depth 64, lossless }
    segment send on WHERE { back -> out }
    wire -> count -> up
}
element Count {
    in  x: packet
    out y: packet
    counter seen
    on x(p) where p.udp {
        seen += 1
        p -> y
    }
}
"#;

#[test]
fn an_instance_stands_on_a_device() {
    let folder = Folder::new("instance-on-nic");
    write(&folder.file("in.pcap"), &traffic(4, 600, &[0, 400]));
    let mut all = Vec::new();
    for (on, at, over) in [("on cpu(1)", "cpu(1)", 0), ("on nic", "cpu(1)", 1), ("on nic(cores 1)", "nic", 2)] {
        let text = CARD.replace("LINK", "").replace("ON", on).replace("WHERE", at);
        std::fs::write(folder.file("program.loom"), text).expect("the folder is writable");
        let one = run(&folder, "program.loom", &[]);
        assert_eq!((one.0.len(), one.2.len()), (600, over), "{on}");
        all.push(one);
    }
    assert!(all.iter().all(|r| r.0 == all[0].0 && r.1 == all[0].1));
}

/// The program gives the link's parameters, and arguments come over them.
#[test]
fn a_program_gives_the_links_parameters() {
    let folder = Folder::new("link-in-program");
    let frames: Frames = (0..1024u16).map(|n| (EPOCH, udp(1, n, 53, 20))).collect();
    write(&folder.file("in.pcap"), &frames);
    let transactions = |link: &str, args: &[&str]| {
        let text = CARD.replace("LINK", link).replace("ON", "on nic").replace("WHERE", "cpu(0)");
        std::fs::write(folder.file("program.loom"), text).expect("the folder is writable");
        run(&folder, "program.loom", args).2[0][1]
    };
    let of_batches = |n: u64| 2 * 1024 / n;
    assert_eq!(transactions("", &[]), of_batches(16));
    assert_eq!(transactions("link { batch 64, wait 5us }", &[]), of_batches(64));
    assert_eq!(transactions("link { batch 64 }", &["--link", "batch=4"]), of_batches(4));
    let explained = finish(Wireloom::program().args(["explain", "program.loom"]).current_dir(folder.file(".")));
    assert!(explained.text.contains("parameters: batch 64, wait 2000"), "{}", explained.text);
}
