//! Several apps that read one port. Each sees each frame once and unchanged, on the core that its
//! cluster's hash says. Frames are copied only for apps that change them, or that send frames which
//! other apps need.
use super::*;
use crate::stats::CoreStats;

const FLOWS: u32 = 50;

struct Ran {
    summary: Summary,
    stats: Arc<Vec<CoreStats>>,
    /// The output of each app: (core, bytes).
    sent: Vec<Vec<(usize, Vec<u8>)>>,
}

impl Ran {
    fn sum(&self, app: usize, get: impl Fn(&crate::stats::FrameStats) -> u64) -> u64 {
        self.stats.iter().map(|c| get(&c.apps[app].ports[0].frames)).sum()
    }

    fn copied(&self) -> Vec<u64> {
        (0..self.sent.len()).map(|app| self.sum(app, |f| f.copied.get())).collect()
    }

    /// The core on which an app has handled each flow; it must be one.
    fn cores(&self, app: usize, at: usize) -> Vec<usize> {
        let of = |flow: u32| {
            let mut cores: Vec<usize> =
                self.sent[app].iter().filter(|f| f.1[at..at + 4] == flow.to_ne_bytes()).map(|f| f.0).collect();
            cores.dedup();
            assert_eq!(cores.len(), 1, "flow {flow} of app {app} was on cores {cores:?}");
            cores[0]
        };
        (0..FLOWS).map(of).collect()
    }
}

/// Apps (mode, cluster, flows of one hash), all on `wire`, each sending to memory.
fn run(apps: &[(u64, Option<u32>, u32)], wire: &str, frames: Frames, cores: usize) -> Ran {
    let (mut list, mut sinks) = (Vec::new(), Vec::new());
    let mut options = Options { bind: pairs(&[("wire", wire.into()), ("mon", "null".into())]), ..Options::default() };
    options.memory.insert("in".into(), (frames, None));
    for (n, (mode, cluster, by)) in apps.iter().enumerate() {
        let (name, by) = (format!("app{n}"), format!("-DBY={by}"));
        options.bind.push((format!("{name}.out"), format!("memory:{name}")));
        let sink = Arc::new(FrameSink { keep: true, ..FrameSink::default() });
        options.memory.insert(name.clone(), (Frames::default(), Some(sink.clone())));
        sinks.push(sink);
        list.push((program(&["-DSTEER", &by]), Desc { app: name, cluster: *cluster, ..desc(*mode) }));
    }
    let (tx, rx) = std::sync::mpsc::channel();
    let summary = run_all(
        list,
        options,
        cores,
        Stop::default(),
        Some(Box::new(move |r| tx.send(r.view.groups[0].stats.clone()).unwrap())),
    )
    .unwrap();
    let sent = sinks.iter().map(|s| s.frames.lock().unwrap().iter().map(|f| (f.0, f.2.clone())).collect()).collect();
    Ran { summary, stats: rx.recv().unwrap(), sent }
}

fn traffic(each: u32) -> Vec<Vec<u8>> {
    (0..each).flat_map(|seq| (0..FLOWS).map(move |flow| frame(flow, seq))).collect()
}

fn in_memory(list: &[Vec<u8>], rounds: u64) -> Frames {
    let mut frames = Frames::new(rounds);
    list.iter().for_each(|f| frames.push(f, 0));
    frames
}

fn of(ran: &Ran, app: usize) -> Vec<Vec<u8>> {
    ran.sent[app].iter().map(|f| f.1.clone()).collect()
}

#[test]
fn each_app_sees_frames_as_they_came() {
    let list = traffic(20);
    let n = list.len() as u64;
    let input =
        format!("pcap:{}", capture("shared.pcap", list.iter().enumerate().map(|(i, f)| (1 + i as u64 * 1000, &f[..]))));
    let grown: Vec<Vec<u8>> = list.iter().map(|f| [&[0x11; 20][..], f].concat()).collect();
    let shrunk: Vec<Vec<u8>> = list.iter().map(|f| f[4..].to_vec()).collect();
    for wire in [input.as_str(), "memory:in"] {
        let ran = run(
            &[(GROW, Some(0), 1), (DROP, Some(0), 1), (FORWARD, Some(0), 1), (SHRINK, Some(0), 1)],
            wire,
            in_memory(&list, 1),
            1,
        );
        assert_eq!(
            (ran.summary.frames, ran.summary.frames_sent, ran.summary.frames_dropped, ran.summary.faults),
            (4 * n, 3 * n, 0, 0)
        );
        assert!(of(&ran, 0) == grown && of(&ran, 2) == list && of(&ran, 3) == shrunk, "{wire}");
        // A reading app causes no copy; nor does the last app that changes frames.
        assert_eq!(ran.copied(), [n, 0, n, 0], "{wire}");
    }
}

#[test]
fn nothing_is_copied_without_need() {
    let list = traffic(20);
    let n = list.len() as u64;
    for (modes, copies) in [
        (&[DROP, DROP, DROP][..], 0),
        (&[DROP, FORWARD], 0),
        (&[SHRINK, DROP], 0),
        (&[FORWARD, FORWARD], n),
        (&[FORWARD, SHRINK], n),
    ] {
        let apps: Vec<_> = modes.iter().map(|m| (*m, Some(0), 1)).collect();
        let ran = run(&apps, "memory:in", in_memory(&list, 1), 1);
        assert_eq!(ran.copied().iter().sum::<u64>(), copies, "{modes:?}");
        assert_eq!(ran.summary.frames, n * modes.len() as u64);
        // On two cores a frame is whole on one of them.
        let ran = run(&apps, "memory:in", in_memory(&list, 1), 2);
        assert_eq!(ran.copied().iter().sum::<u64>(), copies, "{modes:?} on two cores");
    }
}

#[test]
fn a_cluster_has_a_flow_on_one_core() {
    let list = traffic(40);
    let n = list.len() as u64;
    let input = format!(
        "pcap:{}",
        capture("cluster.pcap", list.iter().enumerate().map(|(i, f)| (1 + i as u64 * 1000, &f[..])))
    );
    for wire in [input.as_str(), "memory:in"] {
        // The order is checked by the program.
        let ran = run(&[(ORDER, Some(3), 1), (ORDER, Some(3), 1), (DROP, Some(3), 1)], wire, in_memory(&list, 1), 2);
        assert_eq!((ran.summary.frames, ran.summary.frames_sent, ran.summary.faults), (3 * n, 2 * n, 0));
        let (a, b) = (ran.cores(0, 42), ran.cores(1, 42));
        assert!(a == b && a.contains(&0) && a.contains(&1), "{a:?} and {b:?}");
        assert_eq!(ran.copied(), [n, 0, 0]);
    }
}

#[test]
fn clusters_of_different_keys_each_get_a_frame_once() {
    let list = traffic(400);
    let n = list.len() as u64;
    let mut sorted = list.clone();
    sorted.sort();
    let input = format!(
        "pcap:{}",
        capture("clusters.pcap", list.iter().enumerate().map(|(i, f)| (1 + i as u64 * 1000, &f[..])))
    );
    for wire in [input.as_str(), "memory:in"] {
        let ran = run(
            &[(ORDER, Some(0), 1), (ORDER, Some(1), 7), (DROP, Some(1), 7), (SHRINK, None, 3)],
            wire,
            in_memory(&list, 1),
            2,
        );
        assert_eq!(
            (ran.summary.frames, ran.summary.frames_sent, ran.summary.frames_dropped, ran.summary.faults),
            (4 * n, 3 * n, 0, 0)
        );
        let (a, b, c) = (ran.cores(0, 42), ran.cores(1, 42), ran.cores(3, 38));
        assert!(a != b && b != c && a != c, "the keys differ: {a:?} {b:?} {c:?}");
        for app in [0, 1] {
            let mut got = of(&ran, app);
            got.sort();
            assert!(got == sorted, "app {app} of {wire}");
        }
        let mut cut = of(&ran, 3);
        cut.sort();
        let mut want: Vec<Vec<u8>> = list.iter().map(|f| f[4..].to_vec()).collect();
        want.sort();
        assert!(cut == want, "{wire}");
        assert_eq!(ran.copied()[2], 0, "{wire}");
    }
}

/// Each on a key of its own, on two cores, without a copy: only counts of holders.
#[test]
fn readers_of_different_keys_share_frames_between_cores() {
    let list = traffic(400);
    let ran = run(&[(DROP, Some(0), 1), (DROP, Some(1), 7), (DROP, None, 3)], "memory:in", in_memory(&list, 20), 2);
    assert_eq!((ran.summary.frames, ran.summary.faults), (60 * list.len() as u64, 0));
    assert_eq!(ran.copied(), [0, 0, 0]);
}

#[test]
fn time_and_tables_are_each_apps_own() {
    let second = 1_000_000_000u64;
    let times = [100 * second, 100 * second + 1, 103 * second + second / 2];
    let input = format!("pcap:{}", capture("shared-clock.pcap", times.iter().map(|t| (*t, &[9u8; 60][..]))));
    let ran = run(&[(CLOCK, Some(0), 1), (CLOCK, Some(0), 1)], &input, Frames::default(), 1);
    for app in 0..2 {
        let ticks: Vec<u64> = of(&ran, app).iter().map(|f| u64::from_ne_bytes(f[8..16].try_into().unwrap())).collect();
        assert_eq!(ticks, [0, 0, 3], "app {app}");
    }
}
