//! Segments on a NIC, in a process of their own: the same frames, tables, counters and faults as on
//! the CPU. Each of the two processes may be killed, told to end, or find the memory spoiled.

use crate::packet_segments::{program, run, MEET, OUTS, WIDE};
use std::net::UdpSocket;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use wireloom_tests::admin::{eventually, metrics, sample};
use wireloom_tests::captures::{read, read_cut, sport, traffic, udp, write, write_cut, Frames, Runs, EPOCH, MS};
use wireloom_tests::control::Controlled;
use wireloom_tests::folder::Folder;
use wireloom_tests::process::quickly_compiled;
use wireloom_tests::{finish, free_port, Process, Wireloom};

/// A program with some of its segments on the NIC.
fn placed(program: &str, segments: &[(&str, &str)]) -> String {
    segments.iter().fold(program.to_string(), |text, (segment, on)| {
        let (before, after) = text.split_once(&format!("segment {segment} on ")).expect("the segment");
        let rest = &after[after.find(')').expect("its cores") + 1..];
        format!("{before}segment {segment} on {on}{rest}")
    })
}

/// Compares the frames that a program makes, with all segments on the CPU and with some on the NIC.
fn alike(name: &str, program: &str, placements: &[&[(&str, &str)]], frames: &Frames, more: &[&str]) {
    let folder = Folder::new(name);
    write(&folder.file("in.pcap"), frames);
    let run = |way: &str, text: &str, more: &[&str]| {
        std::fs::write(folder.file("program.loom"), text).expect("the folder is writable");
        run(&folder, way, more)
    };
    let first = run("cpu", program, &[more, &["--cores", "0"]].concat());
    for (n, segments) in placements.iter().enumerate() {
        let text = placed(program, segments);
        for (k, args) in [&["--cores", "0", "--nic-cores", "0-1"][..], &["--interpret"]].into_iter().enumerate() {
            let other = run(&format!("nic-{n}-{k}"), &text, &[more, args].concat());
            assert_eq!((&first.1, first.2), (&other.1, other.2), "counters and losses, {segments:?}");
            for (o, (a, b)) in OUTS.iter().zip(first.0.iter().zip(&other.0)) {
                let differ = a.iter().zip(b).position(|(a, b)| a != b);
                assert!(a == b, "{segments:?}, {o}: {} and {} frames, differ at {differ:?}", a.len(), b.len());
            }
        }
    }
}

#[test]
fn placements_make_no_difference() {
    let mut frames = traffic(3, 2000, &[0, 200, 40_000, 3 * MS, 9 * MS]);
    for f in frames.iter_mut().step_by(11) {
        f.1[23] = 200;
    }
    let (rx, work, tx) = (("rx", "nic"), ("work", "nic"), ("tx", "nic"));
    alike("nic-chain", &program("64", "lossless"), &[&[rx], &[work], &[tx], &[rx, tx], &[rx, work, tx]], &frames, &[]);
    alike("nic-short", &program("2", "lossless"), &[&[work], &[rx, tx]], &traffic(5, 800, &[0, 0, 1000, 2 * MS]), &[]);
}

/// Frames that a capture has cut: headers that are put in behind a queue, on the NIC or not, count
/// what is missing.
#[test]
fn cut_frames_keep_their_lengths() {
    let folder = Folder::new("nic-cut");
    let program = "app cut {
        port wire = nic(\"a\"), out = nic(\"b\")
        queue hard    { depth 64, lossless, carries whole }
        queue answers { depth 64, lossless, carries whole }
        segment front on cpu(0) { on wire(p) { p -> hard } }
        segment card on CARD {
            on hard(p) {
                if p.ip4 { insert Ipv4 { ttl: 9, proto: 4 } before p.ip4 }
                p -> answers
            }
        }
        segment back on cpu(0) { on answers(p) { p -> out } }
    }";
    let frames = traffic(9, 300, &[0, MS]);
    write_cut(&folder.file("in.pcap"), &frames, |f| f.len().min(60 + f.len() % 7));
    let args = ["--bind", "wire=pcap:@/in.pcap", "--bind", "out=pcap:@/out.pcap"];
    for (place, more) in [("cpu(0)", &[][..]), ("nic", &[]), ("nic", &["--interpret"])] {
        std::fs::write(folder.file("cut.loom"), program.replace("CARD", place)).expect("the folder is writable");
        folder.run("cut.loom", &[&args, more].concat());
        let got = read_cut(&folder.file("out.pcap"));
        assert_eq!(got.len(), frames.len());
        for ((_, wire, f), (_, whole)) in got.iter().zip(&frames) {
            let total = |at: usize| usize::from(f[at]) << 8 | usize::from(f[at + 1]);
            let of = whole.len();
            assert_eq!((*wire, total(16), total(36)), (of + 20, of + 6, of - 14), "{place} {more:?}");
        }
    }
}

/// Each process reads a capture, and their frames meet in the order of their times.
#[test]
fn ways_of_two_processes_meet() {
    let folder = Folder::new("nic-meet");
    write(&folder.file("in.pcap"), &traffic(12, 1500, &[0, 0, 500, 30_000]));
    write(&folder.file("other.pcap"), &traffic(13, 500, &[0, 90_000]));
    let mut all = Vec::new();
    let placements: [&[(&str, &str)]; 4] =
        [&[], &[("middle", "nic")], &[("first", "nic"), ("nothing", "nic")], &[("end", "nic")]];
    for (n, segments) in placements.iter().enumerate() {
        std::fs::write(folder.file("program.loom"), placed(MEET, segments)).expect("the folder is writable");
        let (out, counters, discarded) = run(&folder, &n.to_string(), &["--bind", "other=pcap:@/other.pcap"]);
        // Frames of equal times from two senders come in no fixed order.
        let out: Vec<Frames> = out
            .into_iter()
            .map(|mut f| {
                f.sort();
                f
            })
            .collect();
        all.push((out, counters, discarded));
        assert!(all[0] == all[n], "{segments:?}");
    }
}

/// A segment of two cores on the NIC, and its tables in files.
#[test]
fn tables_of_both_processes_are_written() {
    let frames = traffic(21, 3000, &[1, 100, 700, 20_000]);
    let wide = WIDE.replace("DEPTH", "16");
    alike("nic-wide", &wide, &[&[("work", "nic(cores 2)")], &[("rx", "nic"), ("tx", "nic")]], &frames, &[]);
    let folder = Folder::new("nic-wide-tables");
    write(&folder.file("in.pcap"), &frames);
    let mut tables = Vec::new();
    for (n, text) in [wide.clone(), placed(&wide, &[("work", "nic(cores 2)")])].iter().enumerate() {
        std::fs::write(folder.file("program.loom"), text).expect("the folder is writable");
        run(&folder, &n.to_string(), &["--dump", "flows=@/flows.csv", "--dump", "words=@/words.json"]);
        let file = |name: &str| std::fs::read_to_string(folder.file(name)).expect("a table");
        let mut flows: Vec<String> = file("flows.csv").lines().map(String::from).collect();
        flows.sort();
        tables.push((flows, file("words.json")));
    }
    assert!(tables[0] == tables[1] && tables[0].0.len() > 10, "{tables:?}");
}

/// Frames of several slots, marks, and times cross in slots of any size.
#[test]
fn large_frames_cross_the_link() {
    let frames: Frames = (0..300u16)
        .map(|i| (EPOCH + u64::from(i) * 1000, udp(1, 1000 + i, 53, [0, 900, 8900][usize::from(i % 3)])))
        .collect();
    let plain = program("16", "lossless").replace("p -> pace", "p -> told");
    for entry in ["entry=128", "entry=2048"] {
        alike("nic-large", &plain, &[&[("work", "nic")]], &frames, &["--link", entry]);
    }
}

#[test]
fn a_lossy_queue_over_the_link_counts_what_it_discards() {
    let folder = Folder::new("nic-lossy");
    let frames = traffic(6, 2000, &[0]);
    write(&folder.file("in.pcap"), &frames);
    for segment in ["rx", "work"] {
        let text = placed(&program("2", "lossy"), &[(segment, "nic")]);
        std::fs::write(folder.file("program.loom"), text).expect("the folder is writable");
        let (out, _, discarded) = run(&folder, segment, &[]);
        assert!(discarded > 0, "{segment}: bursts of 64 frames find room for two");
        let arrived: usize = out.iter().map(|f| f.iter().filter(|f| f.1[37] == 53).count()).sum();
        assert_eq!(arrived + discarded as usize, frames.len(), "{segment}");
    }
}

/// A frame crosses to the CPU and back; each side counts, and has a table.
const TWO: &str = r#"
unit H { order big  kind: u8 }
packet P { h: H }

app two {
    port wire = udp("127.0.0.1:PORT") as P, out = udp("127.0.0.1:BACK") as P
    queue up { depth 64, HOW }
    queue down { depth 64, HOW }
    counter seen, served
    table here: u32 -> u32 { capacity 64 }
    table there: u32 -> u32 { capacity 64 }
    segment front on nic {
        on wire(p) {
            seen += 1
            there[p.len] += 1
            p.mark = 7
            p -> up
        }
    }
    segment work on cpu(0) {
        on up(p) {
            served += 1
            here[p.len] += p.mark
            p -> down
        }
    }
    segment back on nic { down -> out }
}
"#;

/// A run of it, with the sockets around it.
struct Live {
    run: Controlled,
    sender: UdpSocket,
    back: UdpSocket,
    admin: u16,
    port: u16,
}

fn live(name: &str, how: &str, more: &[&str]) -> Live {
    let (port, admin) = (free_port(), free_port());
    let back = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    back.set_read_timeout(Some(Duration::from_millis(200))).expect("a time-out");
    let text = TWO.replace("PORT", &port.to_string()).replace("HOW", how);
    let text = text.replace("BACK", &back.local_addr().expect("an address").port().to_string());
    let file = std::env::temp_dir().join(format!("wireloom-nic-{}-{name}.loom", std::process::id()));
    std::fs::write(&file, text).expect("the folder is writable");
    let file = file.display().to_string();
    let admin_text = admin.to_string();
    let run = Controlled::run(name, &[&[file.as_str(), "--admin", &admin_text, "--drain", "2"], more].concat());
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    eventually("the admin page", || std::net::TcpStream::connect(("127.0.0.1", admin)).is_ok());
    Live { run, sender, back, admin, port }
}

impl Live {
    /// The process of the NIC.
    fn second(&self) -> Option<i32> {
        children(self.run.app.child.id()).first().copied()
    }

    /// Sends datagrams of so many bytes each; how many come back.
    fn send(&self, count: usize, bytes: usize) -> usize {
        let (mut came, mut to) = (0, [0; 2048]);
        for _ in 0..count {
            self.sender.send_to(&vec![1; bytes], ("127.0.0.1", self.port)).expect("it is sent");
            came += usize::from(self.back.recv_from(&mut to).is_ok_and(|(n, _)| n == bytes));
        }
        came
    }

    fn metric(&self, beginning: &str) -> u64 {
        sample(&metrics(self.admin), beginning)
    }

    /// SIGTERM to a process; both end in order.
    fn ends(mut self, pid: Option<i32>) -> String {
        let second = self.second();
        let first = self.run.app.child.id() as i32;
        // SAFETY: processes of this test.
        unsafe { libc::kill(pid.unwrap_or(first), libc::SIGTERM) };
        assert_eq!(self.run.app.exit(), Some(0), "{}", self.run.app.output());
        assert!(second.is_none_or(is_gone), "no process is left");
        self.run.app.output()
    }
}

fn children(pid: u32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let all: Vec<String> = tasks.map(of).collect();
    let ours = |pid: &i32| {
        let args = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&args).contains("WIRELOOM_NIC=")
            && std::fs::read_link(format!("/proc/{pid}/exe"))
                .is_ok_and(|e| e == std::fs::canonicalize(Wireloom::binary()).expect("the binary"))
    };
    all.iter().flat_map(|c| c.split_whitespace()).filter_map(|c| c.parse().ok()).filter(ours).collect()
}

/// It has ended; a zombie has, too.
fn is_gone(pid: i32) -> bool {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z') || rest.starts_with('X')) {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(pid: i32) {
    // SAFETY: a process of this test.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    assert!(is_gone(pid));
}

#[test]
fn tables_counters_and_metrics_are_those_of_both_processes() {
    let live = live("nic-control", "lossless", &[]);
    assert_eq!(live.send(40, 100), 40);
    let counters = || live.run.json(&["counter"]).to_string();
    eventually("counters of both", || {
        let text = counters();
        text.matches("40").count() >= 2
    });
    for (table, value) in [("there", 40), ("here", 280)] {
        let rows = live.run.json(&["table", table]).to_string();
        assert!(rows.contains(&format!("{value}")), "{table}: {rows}");
        live.run.told(&["table", table, "insert", "key=9", "value=77"]);
        assert!(live.run.json(&["table", table]).to_string().contains("77"), "{table}");
        eventually("the table's statistics", || {
            live.run.json(&["table"]).to_string().contains(&format!("\"table\":\"{table}\""))
        });
    }
    let page = metrics(live.admin);
    let at = |beginning: &str| sample(&page, beginning);
    assert_eq!(at("wireloom_frames_received_total{app=\"two\",port=\"wire\"}"), 40);
    assert_eq!(at("wireloom_frames_received_total{app=\"two\",port=\"up\"}"), 40);
    assert!(at("wireloom_link_transactions_total{app=\"two\",queue=\"up\",kind=\"write\"}") > 0, "{page}");
    assert!(at("wireloom_link_transactions_total{app=\"two\",queue=\"down\",kind=\"doorbell\"}") > 0, "{page}");
    assert!(at("wireloom_link_bytes_total{app=\"two\",queue=\"up\",kind=\"payload\"}") > 4000, "{page}");
    assert_eq!(at("wireloom_nic_restarts_total{app=\"two\"}"), 0);
    let said = live.ends(None);
    assert!(said.contains("modelled link, `up` from the NIC to the CPU: 40 frames"), "{said}");
}

#[test]
fn a_signal_to_either_process_ends_both() {
    for second in [false, true] {
        let live = live("nic-ends", "lossless", &[]);
        assert_eq!(live.send(3, 10), 3);
        let pid = live.second();
        assert!(pid.is_some(), "there is a second process");
        // A terminal that closes ends nothing.
        // SAFETY: processes of this test.
        if let Some(p) = &pid {
            unsafe { libc::kill(*p, libc::SIGHUP) };
        }
        live.run.app.signal(libc::SIGHUP);
        assert_eq!(live.send(3, 10), 3);
        live.ends(pid.filter(|_| second));
    }
}

#[test]
fn the_second_process_does_not_outlive_the_first() {
    let mut live = live("nic-orphan", "lossless", &[]);
    let second = live.second().expect("there is a second process");
    live.run.app.kill();
    assert!(is_gone(second), "it is an orphan");
}

/// The process of the NIC is killed while frames flow: it is started again, and all goes on.
#[test]
fn a_killed_process_is_started_again() {
    for how in ["lossless", "lossy"] {
        let live = live("nic-killed", how, &[]);
        assert_eq!(live.send(20, 64), 20);
        for round in 1..=2 {
            let second = live.second().expect("there is a second process");
            std::thread::sleep(Duration::from_millis(2100));
            kill(second);
            live.send(3, 64);
            eventually("a new process", || live.second().is_some_and(|p| p != second));
            eventually("frames come again", || live.send(1, 64) == 1);
            assert_eq!(live.send(30, 64), 30, "{}", live.run.app.output());
            assert_eq!(live.metric("wireloom_nic_restarts_total{app=\"two\"}"), round);
        }
        eventually("the counts of ended processes stay", || {
            live.metric("wireloom_frames_received_total{app=\"two\",port=\"wire\"}") >= 80
        });
        assert_eq!(live.metric("wireloom_link_damaged_total{app=\"two\",queue=\"down\",kind=\"damaged\"}"), 0);
        let said = live.ends(None);
        assert!(said.contains("has ended by signal 9; it is started again"), "{said}");
    }
}

/// One that ends again and again ends the run, with an error.
#[test]
fn a_process_that_always_ends_is_given_up() {
    let mut live = live("nic-again", "lossless", &[]);
    let end = Instant::now() + Duration::from_secs(60);
    let code = loop {
        if let Ok(Some(status)) = live.run.app.child.try_wait() {
            break status.code();
        }
        assert!(Instant::now() < end, "{}", live.run.app.output());
        live.second().into_iter().for_each(kill);
        std::thread::sleep(Duration::from_millis(5));
    };
    let said = live.run.app.output();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("again and again"), "{said}");
}

/// A run on captures does not begin in their middle.
#[test]
fn a_run_on_captures_ends_with_the_process() {
    let folder = Folder::new("nic-capture");
    write(&folder.file("in.pcap"), &traffic(3, 400, &[40 * MS]));
    let text = placed(&program("64", "lossless"), &[("rx", "nic")]);
    std::fs::write(folder.file("program.loom"), text).expect("the folder is writable");
    let mut args = vec!["--pace".to_string(), "--bind".into(), format!("wire=pcap:{}", folder.name_of("in.pcap"))];
    OUTS.iter().for_each(|o| args.extend(["--bind".into(), format!("{o}=null")]));
    let mut command = Wireloom::program();
    command.arg("run").arg(folder.file("program.loom")).args(args);
    let mut process = Process::start_saying("nic-capture", quickly_compiled(&mut command), 0, "ready after");
    let second = children(process.child.id()).first().copied().expect("there is a second process");
    kill(second);
    assert_eq!(process.exit(), Some(1), "{}", process.output());
    assert!(process.output().contains("cannot begin in their middle"), "{}", process.output());
}

/// The shared memory, as a third process sees it.
fn memory(pid: u32) -> std::fs::File {
    let dir = format!("/proc/{pid}/fd");
    let is = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|l| l.display().to_string().contains("wireloom-nic"))
    };
    let path = std::fs::read_dir(&dir).expect("our process").flatten().map(|e| e.path()).find(is).expect("the memory");
    std::fs::OpenOptions::new().read(true).write(true).open(path).expect("it can be opened")
}

/// Noise in the rings, again and again, while frames flow: it is counted, nobody crashes, and
/// behind it frames come again.
#[test]
fn noise_in_shared_memory_does_no_harm() {
    let live = live("nic-noise", "lossless", &[]);
    assert_eq!(live.send(10, 64), 10);
    let second = live.second();
    let file = memory(live.run.app.child.id());
    let bytes = file.metadata().expect("a file").len();
    // Behind the head and the board: counters, then rings.
    let (words, mut random) = (bytes / 8, fastrand::Rng::with_seed(4));
    for _ in 0..40 {
        for _ in 0..2000 {
            let at = random.u64(1024..words) * 8;
            file.write_all_at(&random.u64(..).to_le_bytes(), at).expect("it is written");
        }
        live.send(2, 64);
    }
    // Each status word, too: slots begin at multiples of 64.
    for at in (8192..bytes).step_by(64) {
        file.write_all_at(&random.u64(..).to_le_bytes(), at).expect("it is written");
    }
    eventually("frames come again", || live.send(1, 64) == 1);
    let harm =
        |q: &str| live.metric(&format!("wireloom_link_damaged_total{{app=\"two\",queue=\"{q}\",kind=\"damaged\"}}"));
    assert!(harm("up") > 0 && harm("down") > 0, "it is counted");
    assert_eq!(live.second(), second, "nobody has crashed");
    live.ends(None);
}

#[test]
fn mistakes_are_told() {
    let folder = Folder::new("nic-mistakes");
    write(&folder.file("in.pcap"), &traffic(3, 10, &[0]));
    let run = |text: &str, args: &[&str]| {
        std::fs::write(folder.file("program.loom"), text).expect("the folder is writable");
        let mut command = Wireloom::program();
        command.arg("run").arg(folder.file("program.loom")).args(folder.arguments(args));
        finish(quickly_compiled(&mut command))
    };
    let text = placed(&program("64", "lossless"), &[("rx", "nic")]);
    let bound = ["--bind", "wire=pcap:@/none.pcap", "--bind", "out=null", "--bind", "side=null", "--bind", "rest=null"];
    for (args, said) in [
        (&bound[..], "port `wire`: "),
        (&[&bound[2..], &["--bind", "wire=pcap:@/in.pcap", "--link", "batch=0"]].concat(), "--link batch=0"),
        (&[&bound[2..], &["--bind", "wire=pcap:@/in.pcap", "--nic-cores", "1000"]].concat(), "there is no CPU"),
    ] {
        let out = run(&text, args);
        assert!(out.code == Some(1) && out.text.contains(said), "{args:?}: {:?} {}", out.code, out.text);
        assert_eq!(out.text.matches(said).count(), 1, "it is told once: {}", out.text);
    }
    let frames = read(&folder.file("in.pcap"));
    assert!(frames.iter().all(|f| sport(&f.1) > 0), "the capture is as it was");
}

/// The microbenchmark of queue synchronisation: 7 to 16 times fewer transactions, the same bytes,
/// the same counts in each run.
#[test]
fn batches_save_transactions() {
    let folder = Folder::new("nic-batches");
    let bench = wireloom_tests::root().join("bench/nic/queue_sync.loom");
    for (size, gap) in [(22, 0), (22, 250), (214, 0), (214, 200)] {
        let frames: Frames = (0..2000u16).map(|i| (EPOCH + u64::from(i) * gap, udp(1, i, 53, size))).collect();
        write(&folder.file("in.pcap"), &frames);
        let counts = |link: &str| {
            let mut command = Wireloom::program();
            command.arg("run").arg(&bench).args(["--bind", "out=null", "--link", link]);
            command.args(["--bind", &format!("wire=pcap:{}", folder.name_of("in.pcap"))]);
            let out = finish(quickly_compiled(&mut command));
            let line = out.text.lines().find(|l| l.contains("modelled link")).unwrap_or_else(|| panic!("{}", out.text));
            let line = line.split_once(": modelled link").expect("a line").1;
            line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect::<Vec<u64>>()
        };
        let (one, many) = (counts("batch=1,blocking=1"), counts("batch=16"));
        assert_eq!((one[0], many[0]), (2000, 2000), "{one:?} {many:?}");
        assert!((7 * many[1]..=16 * many[1]).contains(&one[1]), "{size}, {gap}: {} and {}", one[1], many[1]);
        // Payload and overhead, behind the hundredths of transactions and the TLPs.
        assert_eq!(one[4..7], many[4..7], "{one:?} {many:?}");
        assert_eq!(many, counts("batch=16"), "another run counts the same");
    }
}

/// The card's process for a machine: the runtime's rings and the generated C.
fn card(folder: &Folder, target: Option<&str>) -> String {
    let root = wireloom_tests::root();
    let name = |what: &str| folder.name_of(&format!("{}-{what}", target.unwrap_or("here")));
    let gcc = target.map_or("cc".into(), |t| format!("{}-gcc", t.replace("-unknown", "")));
    let mut compile = std::process::Command::new(&gcc);
    compile.args(["-std=gnu11", "-O1", "-c", "-o", &name("card.o")]).arg(root.join("tests/nic/card.c"));
    compile.arg("-I").arg(root.join("support")).arg(format!("-DGENERATED=\"{}\"", folder.name_of("split.c")));
    let out = finish(&mut compile);
    assert_eq!(out.code, Some(0), "{gcc}: {}", out.text);
    let mut build = std::process::Command::new("rustc");
    build.args(["--edition", "2021", "-O", "-o", &name("card")]).arg(root.join("tests/nic/card.rs"));
    build.args(["-C", &format!("link-arg={}", name("card.o"))]);
    if let Some(target) = target {
        build.args(["--target", target, "-C", &format!("linker={gcc}")]);
    }
    let out = finish(&mut build);
    assert_eq!(out.code, Some(0), "rustc: {}", out.text);
    name("card")
}

/// Whether rustc has the library of a target. If not: says so, and fails the test in CI.
fn has_target(target: &str) -> bool {
    let out = finish(std::process::Command::new("rustc").args(["--print", "target-libdir", "--target", target]));
    let found = out.code == Some(0) && std::path::Path::new(out.text.trim()).is_dir();
    if !found {
        assert!(std::env::var_os("CI").is_none(), "rustc has no {target}; scripts/setup.sh test adds it");
        eprintln!("SKIPPED: rustc has no {target} (`rustup target add {target}`)");
    }
    found
}

/// The card's processor is of another kind: its process runs by an emulator, and the rings lie
/// between them. The same frames and marks come back.
#[test]
fn a_processor_of_another_kind() {
    use wireloom_tests::process::require_tool;
    let target = "aarch64-unknown-linux-gnu";
    if !require_tool("aarch64-linux-gnu-gcc") || !require_tool("qemu-aarch64") || !has_target(target) {
        return;
    }
    let folder = Folder::new("nic-aarch64");
    let program = wireloom_tests::root().join("tests/nic/split.loom");
    let emitted = Wireloom::program().args(["emit", "c"]).arg(&program).output();
    std::fs::write(folder.file("split.c"), emitted.expect("it runs").stdout).expect("the folder is writable");
    let (here, there) = (card(&folder, None), card(&folder, Some(target)));
    let (frames, mut came) = ("3000", Vec::new());
    for (n, emulated) in [false, true].into_iter().enumerate() {
        let (rings, out) = (folder.name_of(&format!("rings-{n}")), folder.name_of(&format!("out-{n}")));
        let made = finish(std::process::Command::new(&here).args(["make", &rings]));
        assert_eq!(made.code, Some(0), "{}", made.text);
        let mut run = std::process::Command::new(if emulated { "qemu-aarch64" } else { here.as_str() });
        if emulated {
            run.args(["-L", "/usr/aarch64-linux-gnu", &there]);
        }
        let mut card = run.args(["run", &rings, frames]).spawn().expect("it starts");
        let fed = finish(std::process::Command::new(&here).args(["feed", &rings, frames, &out]));
        assert_eq!(fed.code, Some(0), "{}", fed.text);
        assert!(card.wait().expect("it ends").success(), "emulated: {emulated}");
        came.push(std::fs::read_to_string(&out).expect("what came back"));
    }
    assert!(came[0] == came[1], "the two processors make different frames");
    let lines: Vec<&str> = came[0].lines().collect();
    let marks = lines.iter().filter(|l| l.starts_with("1001 ")).count();
    assert_eq!((lines.len(), marks), (3000, 11), "marks count the packets of each source");
    // The new addresses: 10.9.9.9.
    let edited = lines.iter().filter(|l| l.contains("10, 9, 9, 9")).count();
    assert_eq!(edited, 3000 - 3000_usize.div_ceil(9));
}
