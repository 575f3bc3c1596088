//! Copies of frames in runs on captures: none is lost, however many there are, and however far the
//! cores are apart.

use wireloom_tests::captures::{read, udp, write, Frames, Runs, EPOCH};
use wireloom_tests::folder::Folder;

const ONE_CORE: &[&str] = &[];
const TWO_CORES: &[&str] = &["--cores", "0-1", "--rps", "on"];
const INTERPRETED: &[&str] = &["--interpret", "--cores", "0-1", "--rps", "on"];

/// Frames of many flows, so many ns apart.
fn frames(count: u64, bytes: usize, gap: u64) -> Frames {
    (0..count).map(|k| (EPOCH + k * gap, udp(k as u8, 1000 + (k % 900) as u16, 53, bytes))).collect()
}

/// An app that sends each frame to so many outputs.
fn broadcast(app: &str, outputs: usize) -> String {
    let outputs: Vec<String> = (0..outputs).map(|k| format!("memory(\"o{k}\")")).collect();
    format!(
        "app {app} {{\n    port w = memory(\"w\"), o = [{}]\n    on w(p) {{ p -> broadcast o }}\n}}\n",
        outputs.join(", ")
    )
}

/// The outputs of an app as captures.
fn captures(app: &str, outputs: usize) -> String {
    let files: Vec<String> = (0..outputs).map(|k| format!("pcap:@/{app}{k}.pcap")).collect();
    format!("o={}", files.join(","))
}

fn with(name: &str, programs: &[(&str, &str)]) -> Folder {
    let folder = Folder::new(name);
    for (file, text) in programs {
        std::fs::write(folder.file(file), text).expect("the folder is writable");
    }
    folder
}

/// Each frame has reached each output.
fn all_have_come(folder: &Folder, app: &str, outputs: usize, sent: &Frames, how: &[&str]) {
    let mut expected: Vec<_> = sent.clone();
    expected.sort();
    for k in 0..outputs {
        let mut came = read(&folder.file(&format!("{app}{k}.pcap")));
        came.sort();
        assert!(came == expected, "{how:?}: {} of {} frames in output {k} of {app}", came.len(), sent.len());
    }
}

fn run(what: &str, outputs: usize, sent: &Frames, hows: &[&[&str]]) {
    let folder = with(what, &[("program.loom", &broadcast("a", outputs))]);
    write(&folder.file("in.pcap"), sent);
    let out = captures("a", outputs);
    for how in hows {
        let args = [&["--bind", "w=pcap:@/in.pcap", "--bind", &out][..], how].concat();
        let text = folder.run("program.loom", &args);
        assert!(text.contains(" 0 faults"), "{how:?}: {text}");
        all_have_come(&folder, "a", outputs, sent, how);
    }
}

/// The other core's copies wait for the one that has the captures.
#[test]
fn to_three_captures() {
    run("copies-three", 3, &frames(40_000, 20, 30_000), &[ONE_CORE, TWO_CORES, INTERPRETED]);
}

/// So many copies of one batch are more than a core has buffers for.
#[test]
fn to_many_captures() {
    run("copies-many", 90, &frames(700, 20, 1000), &[ONE_CORE, TWO_CORES, INTERPRETED]);
}

/// There are few large buffers.
#[test]
fn of_large_frames() {
    run("copies-large", 4, &frames(1000, 9000, 1000), &[ONE_CORE, TWO_CORES, INTERPRETED]);
}

/// Apps of one process hand over by default, and share the frames.
#[test]
fn of_several_apps() {
    let (a, b) = (broadcast("a", 3), broadcast("b", 3));
    let folder = with("copies-apps", &[("a.loom", &a), ("b.loom", &b)]);
    let sent = frames(20_000, 20, 50_000);
    write(&folder.file("in.pcap"), &sent);
    let (first, second, other) = (captures("a", 3), captures("b", 3), folder.file("b.loom"));
    let (first, second) = (format!("a.{first}"), format!("b.{second}"));
    let other = other.to_str().expect("its name is text");
    for how in [&["--cores", "0-1"][..], &["--interpret", "--cores", "0-1"]] {
        let bound = [other, "--bind", "w=pcap:@/in.pcap", "--bind", &first, "--bind", &second];
        let text = folder.run("a.loom", &[&bound[..], how].concat());
        assert!(text.contains(" 0 faults"), "{how:?}: {text}");
        all_have_come(&folder, "a", 3, &sent, how);
        all_have_come(&folder, "b", 3, &sent, how);
    }
}

const DIVIDED: &str = "\
app a {
    port w = memory(\"w\"), o = [memory(\"o0\"), memory(\"o1\"), memory(\"o2\")]
    queue parsed { depth 1024, lossless }
    segment first on cpu(0) { on w(p) { p -> parsed } }
    segment second on cpu(1) { on parsed(p) { p -> broadcast o } }
}
";

/// A segment's copies go to captures that another segment's core has.
#[test]
fn of_a_segment() {
    let folder = with("copies-segment", &[("program.loom", DIVIDED)]);
    let sent = frames(20_000, 20, 50_000);
    write(&folder.file("in.pcap"), &sent);
    let out = captures("a", 3);
    for how in [&["--cores", "0-1"][..], &["--interpret", "--cores", "0-1"]] {
        let args = [&["--bind", "w=pcap:@/in.pcap", "--bind", &out][..], how].concat();
        let text = folder.run("program.loom", &args);
        assert!(text.contains(" 0 faults"), "{how:?}: {text}");
        all_have_come(&folder, "a", 3, &sent, how);
    }
}
