//! Captures of every kind that the runtime reads, beside tshark's reading of them; damaged ones;
//! and the order of a million frames on two cores.

use std::io::Write;
use std::process::Command;
use wireloom_tests::packets::Captures;
use wireloom_tests::process::{finish, Process};
use wireloom_tests::{Output, Wireloom};

fn copy(from: &str, to: &str, more: &[&str]) -> Output {
    let (from, to) = (format!("wire={from}"), format!("out={to}"));
    let mut command = Wireloom::program();
    command
        .current_dir(wireloom_tests::root())
        .args(["run", "tests/programs/copy.loom", "--bind", &from, "--bind", &to])
        .args(more);
    finish(&mut command)
}

fn list(c: &Captures, name: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(c.folder.join(name)).expect("the script wrote it");
    serde_json::from_str(&text).expect("it is JSON")
}

#[test]
fn captures_are_read_as_tshark_reads_them() {
    let Some(c) = Captures::make("captures", "captures", &[]) else { return };
    let path = |name: &str| format!("pcap:{}", c.folder.join(name).display());
    let good = list(&c, "good.json");
    let names: Vec<&str> = good.as_array().into_iter().flatten().filter_map(|n| n.as_str()).collect();
    assert!(names.len() >= 14, "{names:?}");
    for name in &names {
        let o = copy(&path(name), &path(&format!("out-{name}.pcap")), &[]);
        assert_eq!(o.code, Some(0), "{name}: {}", o.text);
    }
    c.check(&names);
    for row in list(&c, "bad.json").as_array().into_iter().flatten() {
        let (name, why) = (row[0].as_str().unwrap_or_default(), row[1].as_str().unwrap_or_default());
        let o = copy(&path(name), &path("bad-out.pcap"), &[]);
        assert!(
            o.code == Some(1) && why.split('|').any(|w| o.text.contains(w)) && o.text.contains(name),
            "{name}, which should say `{why}`:\n{}",
            o.text
        );
    }
}

const FLOWS: u32 = 997;
const FRAMES: u32 = 1_000_000;

/// Frame number `n` of a flow of UDP, with its checksum left out.
fn frame(flow: u32, n: u32) -> [u8; 64] {
    let mut f = [0; 64];
    f[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    f[14..24].copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, 17]);
    f[26..34].copy_from_slice(&[10, 0, (flow >> 8) as u8, flow as u8, 10, 1, 0, 1]);
    f[34..40].copy_from_slice(&[4, 0, 0x1e, 0x61, 0, 30]);
    f[42..46].copy_from_slice(&n.to_be_bytes());
    f
}

/// One core reads a capture and hands over the other core's frames: steering by software. The
/// frames of both are written to one capture. Each handler sees its flow's frames in order, and so
/// does the writer.
#[test]
fn a_million_frames_keep_their_order_on_two_cores() {
    let folder = std::env::temp_dir().join(format!("wireloom-order-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
    let (input, output) = (folder.join("in.pcap"), folder.join("out.pcap"));
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    let (mut next, mut seed) = (vec![0u32; FLOWS as usize], 1u64);
    for i in 0..FRAMES {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let flow = (seed >> 33) as u32 % FLOWS;
        next[flow as usize] += 1;
        for word in [1_700_000_000 + i / 1_000_000, i % 1_000_000, 64, 64] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame(flow, next[flow as usize]));
    }
    std::fs::write(&input, &file).expect("the temporary folder is writable");
    let dump = format!("last={}", folder.join("last.json").display());
    let o = copy(
        &format!("pcap:{}", input.display()),
        &format!("pcap:{}", output.display()),
        &["--cores", "0-1", "--rps", "on", "--dump", &dump],
    );
    assert_eq!(o.code, Some(0), "{}", o.text);
    assert!(o.text.contains("1000000 frames received, 1000000 sent, 0 without an output, 0 faults"), "{}", o.text);
    let got = std::fs::read(&output).expect("it was written");
    let mut last = vec![0u32; FLOWS as usize];
    for record in got[24..].chunks_exact(80) {
        let word = |at: usize| u32::from_be_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
        let flow = (word(16 + 26) & 0xffff) as usize;
        assert_eq!(word(16 + 42), last[flow] + 1, "flow {flow} was written out of order");
        last[flow] += 1;
    }
    assert_eq!(last, next);
    // The tables of the cores, put together: each flow once, as its handler saw it.
    let text = std::fs::read_to_string(folder.join("last.json")).expect("it was written");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(rows.len(), FLOWS as usize);
    std::fs::remove_dir_all(&folder).ok();
}

/// A silent pipe keeps no app from ending, and late frames are read like early ones.
#[test]
fn captures_come_through_pipes() {
    let folder = std::env::temp_dir().join(format!("wireloom-pipe-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
    let record = |n: u32| {
        let words = [1_700_000_000 + n, 0, 64, 64].map(u32::to_le_bytes);
        [words.as_flattened(), &frame(7, n)].concat()
    };
    let header = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    for (name, ends) in [("ends", true), ("waits", false)] {
        let (pipe, output) = (folder.join(name), folder.join(format!("{name}.pcap")));
        let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
        assert!(made.success());
        // Open for reading, too, so that it opens at once. That end would keep the pipe open, so it
        // is closed when the other one has come.
        let mut first = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).expect("a pipe");
        first.write_all(&header).and_then(|()| first.write_all(&record(1))).expect("the pipe has room");
        let (from, to) = (format!("wire=pcap:{}", pipe.display()), format!("out=pcap:{}", output.display()));
        let mut command = Wireloom::program();
        command.current_dir(wireloom_tests::root()).args([
            "run",
            "tests/programs/copy.loom",
            "--bind",
            &from,
            "--bind",
            &to,
        ]);
        let mut run = Process::start_saying("pipe", &mut command, u16::from(ends), "wireloom: ready ");
        let mut late = std::fs::OpenOptions::new().write(true).open(&pipe).expect("a pipe");
        drop(first);
        if ends {
            late.write_all(&record(2)[..50])
                .and_then(|()| late.write_all(&record(2)[50..]))
                .expect("the pipe has room");
            drop(late);
        } else {
            run.signal(libc::SIGTERM);
        }
        assert_eq!(run.exit(), Some(0), "{name}: {}", run.output());
        assert!(!ends || run.output().contains("2 frames received, 2 sent"), "{}", run.output());
    }
    std::fs::remove_dir_all(&folder).ok();
}

/// The header of a UDP packet of `total` bytes to 192.0.2.1, with its checksum.
fn ip4_header(total: u16) -> [u8; 20] {
    let mut h = [0; 20];
    h[..12].copy_from_slice(&[0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    h[12..].copy_from_slice(&[10, 1, 0, 7, 192, 0, 2, 1]);
    let sum: u32 = h.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    h[10..12].copy_from_slice(&sum.to_be_bytes());
    h
}

/// A frame of 1,514 bytes of which a capture has 96 gets a header of 20 more: 116 of 1,534. So it
/// is where its own length is 0, as devices leave it that cut large packets into frames.
#[test]
fn bytes_that_a_capture_has_cut_off_stay_missing() {
    let folder = wireloom_tests::folder::Folder::new("cut");
    let (from, to) = (folder.file("in.pcap"), folder.file("out.pcap"));
    let (wire, out) = (format!("wire=pcap:{}", from.display()), format!("out=pcap:{}", to.display()));
    let of = |encap: &str, declared: u16, grown: u32| {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend(ip4_header(declared));
        if declared > 0 {
            frame.extend([4, 0, 0, 53, 5, 0xc8, 0, 0]);
        } else {
            // TCP: no length behind it tells of the missing bytes.
            frame[23] = 6;
            let sum = u16::from_be_bytes([frame[24], frame[25]]) + 11;
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            frame.extend([4, 0, 0, 53, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 16, 0, 0, 0, 0, 0]);
        }
        frame.resize(96, 0x5a);
        let head: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1];
        let record: [u32; 4] = [1, 0, 96, 1514];
        let mut file: Vec<u8> = head.iter().chain(&record).flat_map(|w| w.to_le_bytes()).collect();
        file.extend(&frame);
        std::fs::write(&from, file).expect("our own folder");
        for more in [&["--interpret"][..], &[]] {
            let encap = format!("encap={encap}");
            let sets = ["--set", "vip=192.0.2.1", "--set", "dips=10.0.0.1,10.0.0.2", "--set", &encap];
            let bound = ["--bind", &wire, "--bind", &out];
            let o = Wireloom::command(&[&["run", "apps/l4_balancer.loom"][..], &sets, &bound, more].concat());
            assert_eq!(o.code, Some(0), "{}", o.text);
            let written = std::fs::read(&to).expect("it is written");
            let lengths = written.len() - (96 + grown as usize) - 8;
            let length = |at: usize| u32::from_le_bytes(written[at..at + 4].try_into().expect("four bytes"));
            assert_eq!((length(lengths), length(lengths + 4)), (96 + grown, 1514 + grown), "{encap} {more:?}");
            // The new header's length counts the missing bytes; the old header keeps its own.
            let total = |at: usize| u16::from_be_bytes([written[lengths + 8 + at], written[lengths + 9 + at]]);
            let inner = 16 + grown as usize;
            assert_eq!((u32::from(total(16)), total(inner)), (1500 + grown, declared), "{encap} {more:?}");
        }
    };
    for declared in [1500, 0] {
        of("ipip", declared, 20);
        of("gre", declared, 24);
        of("nvgre", declared, 42);
    }
}
