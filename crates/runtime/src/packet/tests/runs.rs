//! Captures and frames in memory.
use super::*;
use wireloom_ir::{TableKind, TableSharing};

/// A table with a part on each core.
fn parts() -> TableDesc {
    TableDesc {
        name: "t".into(),
        kind: TableKind::Exact,
        sharing: TableSharing::Parts,
        stats: 0,
        capacity: 64,
        idle: 0,
        evict_lru: false,
        written: true,
        core_kind: CoreKind::Both,
        nic: false,
        segment: None,
        rates: None,
    }
}

fn temp(name: &str) -> String {
    dir().join(name).display().to_string()
}

fn pcap_to_pcap(mode: u64, input: &str, output: &str) -> Summary {
    let bind = pairs(&[("wire", format!("pcap:{input}")), ("out", format!("pcap:{output}")), ("mon", "null".into())]);
    run_on(program(&[]), desc(mode), Options { bind, ..Options::default() }, 1).unwrap()
}

#[test]
fn a_capture_passes_unchanged() {
    for style in [pcap::Style::default(), pcap::Style { nanos: false, snap: 65_535, link: pcap::LinkType::Ip }] {
        let (input, output) = (temp("same-in.pcap"), temp("same-out.pcap"));
        let mut w = pcap::Writer::create(Path::new(&input), style).unwrap();
        for i in 0..10_000u64 {
            let f = vec![i as u8; 60 + (i as usize * 37) % 3000];
            assert!(w.frame(&f, 1_600_000_000_000_000_000 + i * 12_345_000, f.len() as u32 + u32::from(i % 5 == 0)));
        }
        w.finish().unwrap();
        let s = pcap_to_pcap(FORWARD, &input, &output);
        assert_eq!((s.frames, s.frames_sent, s.frames_dropped, s.faults), (10_000, 10_000, 0, 0));
        assert!(std::fs::read(&input).unwrap() == std::fs::read(&output).unwrap(), "the written capture differs");
    }
}

#[test]
fn frames_grow_and_shrink() {
    let list: Vec<Vec<u8>> =
        [64, 1500, 2000, 3400, 9000, 65_000].iter().map(|n| (0..*n).map(|i| i as u8).collect()).collect();
    let input = capture("size-in.pcap", list.iter().map(|f| (5, &f[..])));
    let output = temp("size-out.pcap");
    pcap_to_pcap(SHRINK, &input, &output);
    let got = frames_of(&output);
    assert_eq!(got.len(), list.len());
    for ((_, wire, got), f) in got.iter().zip(&list) {
        assert_eq!((*wire as usize, &got[..]), (f.len() - 4, &f[4..]));
    }
    pcap_to_pcap(GROW, &input, &output);
    for ((_, wire, got), f) in frames_of(&output).iter().zip(&list) {
        assert_eq!((*wire as usize, &got[..20], &got[20..]), (f.len() + 20, &[0x11; 20][..], &f[..]));
    }
}

#[test]
fn copies_and_moved_frames_keep_their_order() {
    let list: Vec<Vec<u8>> =
        (0..300u32).map(|i| [[0, i as u8, (i >> 8) as u8].to_vec(), vec![7; 60]].concat()).collect();
    let input = capture("tee-in.pcap", list.iter().enumerate().map(|(i, f)| (i as u64, &f[..])));
    let output = temp("tee-out.pcap");
    let bind = pairs(&[("wire", format!("pcap:{input}")), ("mon", format!("pcap:{output}")), ("out", "null".into())]);
    let s = run_on(program(&[]), desc(TEE), Options { bind, ..Options::default() }, 1).unwrap();
    assert_eq!(s.frames_sent, 450);
    let mut want = Vec::new();
    for (i, f) in list.iter().enumerate() {
        want.push((i as u64, f.clone()));
        if f[1] & 1 == 0 {
            want.push((i as u64, [&[0x80], &f[1..]].concat()));
        }
    }
    let got: Vec<(u64, Vec<u8>)> = frames_of(&output).into_iter().map(|f| (f.0, f.2)).collect();
    assert!(got == want, "order, times or content differ");
}

#[test]
fn captures_are_merged_by_time() {
    let frames: Vec<Vec<u8>> = (0..40u8).map(|i| vec![i; 60]).collect();
    let of = |k: usize| {
        frames.iter().enumerate().filter(move |(i, _)| i * i % 7 % 3 == k).map(|(i, f)| (i as u64 * 400_000, &f[..]))
    };
    let inputs: Vec<String> = (0..3).map(|k| format!("pcap:{}", capture(&format!("merge{k}.pcap"), of(k)))).collect();
    let outputs: Vec<String> = (0..3).map(|k| temp(&format!("merged{k}.pcap"))).collect();
    let one = temp("merged.pcap");
    let bind = |out: String| pairs(&[("wire", inputs.join(",")), ("out", out), ("mon", "null".into())]);
    run_on(program(&[]), desc(FORWARD), Options { bind: bind(format!("pcap:{one}")), ..Options::default() }, 1)
        .unwrap();
    let got: Vec<u8> = frames_of(&one).iter().map(|f| f.2[0]).collect();
    assert_eq!(got, (0..40).collect::<Vec<u8>>());
    // Instance to instance, through --out of the port itself for one of them.
    let list: Vec<String> = outputs.iter().map(|o| format!("pcap:{o}")).collect();
    run_on(program(&[]), desc(CROSS), Options { bind: bind(list.join(",")), ..Options::default() }, 1).unwrap();
    for (k, output) in outputs.iter().enumerate() {
        let got: Vec<(u64, Vec<u8>)> = frames_of(output).into_iter().map(|f| (f.0, f.2)).collect();
        assert_eq!(got, of(k).map(|(t, f)| (t, f.to_vec())).collect::<Vec<_>>());
    }
}

/// The end of a capture is no reason to rest before others are read: eighty times, that would be
/// forty seconds.
#[test]
fn empty_captures_hold_up_nobody() {
    let none = format!("pcap:{}", capture("empty.pcap", []));
    let some = format!("pcap:{}", capture("one.pcap", [(5, &[1u8; 60][..])]));
    let inputs = [vec![none; 80], vec![some]].concat().join(",");
    let bind = pairs(&[("wire", inputs), ("out", "null".into()), ("mon", "null".into())]);
    let s = run_on(program(&[]), desc(FORWARD), Options { bind, ..Options::default() }, 1).unwrap();
    assert_eq!(s.frames_sent, 1);
    assert!(s.elapsed.as_secs() < 30, "{:?}", s.elapsed);
}

/// Two million frames, on two cores, from one capture: each flow's frames are handled, and written,
/// in their order.
#[test]
fn flows_keep_their_order_on_two_cores() {
    const FLOWS: u32 = 1000;
    const N: u32 = 1_000_000;
    let mut next = vec![0u32; FLOWS as usize];
    let mut seed = 1u64;
    let mut list = Vec::new();
    for _ in 0..N {
        seed = crate::core::mix(seed);
        let flow = (seed % u64::from(FLOWS)) as u32;
        list.push(frame(flow, next[flow as usize]));
        next[flow as usize] += 1;
    }
    let input = capture("order.pcap", list.iter().enumerate().map(|(i, f)| (1 + i as u64 * 1000, &f[..])));
    for flags in [&["-DSTEER"][..], &[]] {
        let output = temp("order-out.pcap");
        let bind =
            pairs(&[("wire", format!("pcap:{input}")), ("out", format!("pcap:{output}")), ("mon", "null".into())]);
        let s = run_on(program(flags), desc(ORDER), Options { bind, rps: Rps::On, ..Options::default() }, 2).unwrap();
        assert_eq!((s.frames, s.frames_sent, s.faults), (u64::from(N), u64::from(N), 0), "{flags:?}");
        let mut last = vec![0u32; FLOWS as usize];
        for (_, _, f) in frames_of(&output) {
            let word = |at: usize| u32::from_ne_bytes([f[at], f[at + 1], f[at + 2], f[at + 3]]);
            let flow = word(42) as usize;
            assert_eq!(word(46), last[flow], "flow {flow} was written out of order");
            last[flow] += 1;
        }
        assert_eq!(last, next);
    }
}

/// 15,000 frames of 100 flows from memory to memory on two cores: the cores that each flow was on.
fn cores_of_flows(one_queue: bool, rps: Rps) -> Vec<Vec<usize>> {
    let mut frames = Frames { one_queue, ..Frames::new(3) };
    for seq in 0..50 {
        for flow in 0..100 {
            frames.push(&frame(flow, seq), 0);
        }
    }
    let sink = Arc::new(FrameSink { keep: true, ..FrameSink::default() });
    let mut options = Options {
        bind: pairs(&[("wire", "memory:in".into()), ("out", "memory:out".into()), ("mon", "null".into())]),
        rps,
        ..Options::default()
    };
    options.memory.insert("in".into(), (frames, None));
    options.memory.insert("out".into(), (Frames::default(), Some(sink.clone())));
    let s = run_on(program(&["-DSTEER"]), desc(FORWARD), options, 2).unwrap();
    assert_eq!((s.frames, s.frames_sent), (15_000, 15_000));
    let got = sink.frames.lock().unwrap();
    let cores_of = |flow: u32| {
        let mut cores: Vec<usize> = got.iter().filter(|f| f.2[42..46] == flow.to_ne_bytes()).map(|f| f.0).collect();
        cores.sort_unstable();
        cores.dedup();
        cores
    };
    (0..100).map(cores_of).collect()
}

#[test]
fn memory_deals_flows_out_to_cores() {
    let all = cores_of_flows(false, Rps::Auto);
    assert!(all.iter().all(|c| c.len() == 1), "a flow was on two cores");
    assert!(all.contains(&vec![0]) && all.contains(&vec![1]), "one core had nothing to do");
}

/// From a single queue; a frame leaves through an end of the core that has handled it.
#[test]
fn frames_of_a_single_queue_are_handed_over_or_kept() {
    for rps in [Rps::On, Rps::Off, Rps::Auto] {
        let all = cores_of_flows(true, rps);
        assert!(all.iter().all(|c| c.len() == 1), "{rps:?}: {all:?}");
        let (kept, shared) = (all.iter().all(|c| *c == [0]), all.contains(&vec![1]));
        assert!(
            match rps {
                Rps::On => shared,
                Rps::Off => kept,
                Rps::Auto => kept || shared,
            },
            "{rps:?}: {all:?}"
        );
    }
}

#[test]
fn time_is_the_captures() {
    let second = 1_000_000_000u64;
    // Three ticks lie between the second and the third frame.
    let times = [100 * second, 100 * second + 1, 103 * second + second / 2, 103 * second + second / 2 + 5];
    let input = capture("clock.pcap", times.iter().map(|t| (*t, &[9u8; 60][..])));
    let output = temp("clock-out.pcap");
    pcap_to_pcap(CLOCK, &input, &output);
    let got: Vec<(u64, u64, u64)> = frames_of(&output)
        .iter()
        .map(|(t, _, f)| {
            (*t, u64::from_ne_bytes(f[..8].try_into().unwrap()), u64::from_ne_bytes(f[8..16].try_into().unwrap()))
        })
        .collect();
    assert_eq!(got.iter().map(|g| g.0).collect::<Vec<_>>(), times);
    assert_eq!(
        got.iter().map(|g| g.1).collect::<Vec<_>>(),
        [times[1], times[1], times[3], times[3]],
        "now is the newest frame's time"
    );
    assert_eq!(got.iter().map(|g| g.2).collect::<Vec<_>>(), [0, 0, 3, 3], "ticks");
}

#[test]
fn a_capture_can_be_paced() {
    let input = capture("pace.pcap", (0..5u64).map(|i| (77 + i * 50_000_000, &[1u8; 60][..])));
    let bind = pairs(&[("wire", format!("pcap:{input}")), ("out", "null".into()), ("mon", "null".into())]);
    let run = |pace| {
        run_on(program(&[]), desc(FORWARD), Options { bind: bind.clone(), pace, ..Options::default() }, 1)
            .unwrap()
            .elapsed
    };
    // A busy machine may stop a run for a while: the best of some counts.
    let (fast, paced) = ((0..5).map(|_| run(false)).min().unwrap(), run(true));
    assert!(paced.as_millis() >= 200 && fast.as_millis() < 200, "{fast:?} and {paced:?}");
}

#[test]
fn a_damaged_capture_is_told_of_after_the_rest_was_done() {
    let frames: Vec<Vec<u8>> = (0..200).map(|i| frame(1, i)).collect();
    let input = capture("damaged.pcap", frames.iter().map(|f| (5, &f[..])));
    let bytes = std::fs::read(&input).unwrap();
    std::fs::write(&input, &bytes[..bytes.len() - 10]).unwrap();
    let output = temp("damaged-out.pcap");
    let (bind, dump) = (
        pairs(&[("wire", format!("pcap:{input}")), ("out", format!("pcap:{output}")), ("mon", "null".into())]),
        temp("damaged.json"),
    );
    let options = Options { bind, dump: vec![("t".into(), dump.clone().into())], ..Options::default() };
    let e = run_on(program(&[]), desc(FORWARD), options, 1).unwrap_err().to_string();
    assert_eq!(
        e,
        "port `wire`: the capture is damaged at byte 15944, after 199 frames: cut off within a frame of 64 bytes"
    );
    assert_eq!(frames_of(&output).len(), 199);
    assert_eq!(std::fs::read_to_string(dump).unwrap(), "[]\n");
}

#[test]
fn tables_are_loaded_and_dumped() {
    let input = capture("table.pcap", [(5, &[1u8; 60][..])]);
    let json = temp("load.json");
    std::fs::write(&json, r#"[{"k": 7, "v": 70}, {"k": 8, "v": "80"}]"#).unwrap();
    let csv = temp("load.csv");
    std::fs::write(&csv, "v,k\n90,9\n").unwrap();
    let bind = pairs(&[("wire", format!("pcap:{input}")), ("out", "null".into()), ("mon", "null".into())]);
    let load: Vec<(String, PathBuf)> = [&json, &csv].map(|f| ("t".to_string(), f.into())).to_vec();
    let dump: Vec<(String, PathBuf)> =
        [temp("dump.json"), temp("dump.csv")].map(|f| ("t".to_string(), f.into())).to_vec();
    let options = Options { bind, load, dump: dump.clone(), ..Options::default() };
    run_on(program(&[]), desc(DROP), options.clone(), 2).unwrap();
    let text = |i: usize| std::fs::read_to_string(&dump[i].1).unwrap();
    assert_eq!(text(0), "[{\"k\":7,\"w\":\"x\",\"value\":70},\n{\"k\":8,\"w\":\"x\",\"value\":80},\n{\"k\":9,\"w\":\"x\",\"value\":90}]\n");
    assert_eq!(text(1), "k,w,value\n7,x,70\n8,x,80\n9,x,90\n");
    // A part on each core: loaded on both, dumped from both, and written once where they are the
    // same.
    let parts = Desc { tables: vec![parts()], ..desc(DROP) };
    run_on(program(&[]), parts, options.clone(), 2).unwrap();
    assert_eq!(text(1).lines().count(), 4);
    // More than the table holds.
    let rows: Vec<String> = (0..65).map(|i| format!("{{\"k\":{i},\"v\":0}}")).collect();
    std::fs::write(&json, format!("[{}]", rows.join(","))).unwrap();
    let e = run_on(program(&[]), desc(DROP), options, 1).unwrap_err().to_string();
    assert!(e.ends_with("load.json: row 65 cannot be inserted: full here"), "{e}");
}

#[test]
fn mistakes_are_named() {
    let input = capture("mistakes.pcap", [(5, &[1u8; 60][..])]);
    let text = temp("text.pcap");
    std::fs::write(&text, "no capture at all, but a text").unwrap();
    let wire = ("wire", format!("pcap:{input}"));
    let new = temp("new.pcap");
    let error = |bind: Vec<(&str, String)>, out: Vec<(&str, String)>| {
        let options = Options { bind: pairs(&bind), out: pairs(&out), ..Options::default() };
        run_on(program(&[]), desc(FORWARD), options, 1).unwrap_err().to_string()
    };
    for (bind, out, why) in [
        (
            vec![("wires", "null".into())],
            vec![],
            "app `test` has no port `wires`; did you mean `wire`? it has: wire, out, mon",
        ),
        (vec![("wire", "x".into())], vec![], "names no engine"),
        (vec![("wire", "pcap:/nonexistent/a.pcap".into())], vec![], "cannot open /nonexistent/a.pcap: No such file"),
        (vec![("wire", format!("pcap:{text}"))], vec![], "text.pcap: not a capture: begins with 6e 6f 20 63"),
        (
            vec![wire.clone(), ("out", "pcap:/nonexistent/b.pcap".into())],
            vec![],
            "port `out`: cannot write /nonexistent/b.pcap",
        ),
        (
            vec![wire.clone(), ("out", "afpacket:nosuchif".into())],
            vec![],
            "port `out`: there is no interface `nosuchif`",
        ),
        (vec![wire.clone(), ("out", "udp:nowhere".into())], vec![], "expected ADDRESS:PORT"),
        (vec![wire.clone()], vec![("wire", "pcap:/tmp/a,b".into())], "--out names 2 instances, the port has 1"),
        (
            vec![wire.clone(), ("out", wire.1.clone())],
            vec![],
            "mistakes.pcap is the capture that port `wire` reads; name another file",
        ),
        (
            vec![wire.clone(), ("out", format!("pcap:{new}")), ("mon", format!("pcap:{new}"))],
            vec![],
            "new.pcap is the capture that port `out` writes; name another file",
        ),
        // An existing file is not overwritten unless all ports exist.
        (
            vec![wire.clone(), ("out", format!("pcap:{text}")), ("mon", "afpacket:nosuchif".into())],
            vec![],
            "port `mon`: there is no interface `nosuchif`",
        ),
    ] {
        let e = error(bind, out);
        assert!(e.contains(why), "{e}");
    }
    assert!(std::fs::read(&text).unwrap().starts_with(b"no capture") && std::fs::metadata(&input).unwrap().len() > 24);
    let options = Options { dump: vec![("x".into(), temp("x.json").into())], ..Options::default() };
    let e = run_on(program(&[]), desc(FORWARD), options, 1).unwrap_err().to_string();
    assert!(e.contains("no table `x`") && e.ends_with("it has: t"), "{e}");
}

#[test]
fn faults_are_counted_and_shown_to_handlers() {
    let mut options = Options {
        bind: pairs(&[("wire", "memory:in".into()), ("out", "null".into()), ("mon", "null".into())]),
        ..Options::default()
    };
    let mut frames = Frames::new(1);
    (0..100).for_each(|i| frames.push(&frame(1, i), 0));
    options.memory.insert("in".into(), (frames, None));
    let s = run_on(program(&[]), desc(FAULT), options, 1).unwrap();
    assert_eq!((s.frames, s.faults, s.frames_sent), (100, 100, 0));
}

#[test]
fn what_has_no_way_out_is_counted() {
    let frames: Vec<Vec<u8>> = (0..10).map(|i| frame(1, i)).collect();
    let input = capture("noway.pcap", frames.iter().map(|f| (5, &f[..])));
    // CROSS sends to an instance of `out` that is not there.
    let bind = pairs(&[("wire", format!("pcap:{input},{input}")), ("out", "null".into()), ("mon", "null".into())]);
    let s = run_on(program(&[]), desc(CROSS), Options { bind, ..Options::default() }, 1).unwrap();
    assert_eq!((s.frames, s.frames_sent, s.frames_dropped), (20, 10, 10));
}

/// Frames in place: some are dropped, some are sent through one port, some through another. The
/// counts are the same with and without a reader, and with and without the program's own numbers.
/// The frames come out whole and in order.
#[test]
fn filtered_frames_are_counted() {
    for (ways, flags) in [(1u32, &[][..]), (3, &[]), (1, &["-DTELLS=1"]), (3, &["-DTELLS=1"])] {
        let list: Vec<Vec<u8>> = (0..1000u32)
            .map(|i| {
                let last = (i * i / 7 % 4) & ways;
                [frame(i % 50, i), vec![0; i as usize % 40], vec![last as u8]].concat()
            })
            .collect();
        let run = |keep: bool, writes: bool| {
            let sink = Arc::new(FrameSink { keep, ..FrameSink::default() });
            let mon = if writes { format!("pcap:{}", temp("filtered.pcap")) } else { "null".into() };
            let mut options = Options {
                bind: pairs(&[("wire", "memory:in".into()), ("out", "memory:out".into()), ("mon", mon)]),
                ..Options::default()
            };
            let mut frames = Frames::new(3);
            frames.in_place = true;
            list.iter().for_each(|f| frames.push(f, 0));
            options.memory.insert("in".into(), (frames, None));
            options.memory.insert("out".into(), (Frames::default(), Some(sink.clone())));
            let s = run_on(program(flags), desc(FILTER), options, 1).unwrap();
            assert_eq!((s.frames, s.frames_dropped, s.faults), (3000, 0, 0));
            let kept: Vec<Vec<u8>> = sink.frames.lock().unwrap().iter().map(|f| f.2.clone()).collect();
            (s.frames_sent, kept)
        };
        let to = |last: u8| list.iter().filter(move |f| f[f.len() - 1] == last);
        let sent = 3 * (to(1).count() + to(3).count()) as u64;
        assert!(sent > 300 && sent < 2700 && (to(3).count() > 0) == (ways == 3));
        assert_eq!(run(false, false), (sent, Vec::new()), "nobody looks");
        let want: Vec<Vec<u8>> = (0..3).flat_map(|_| to(1).cloned()).collect();
        for writes in [false, true] {
            let (n, got) = run(true, writes);
            assert!(n == sent && got == want, "{n} of {sent}, {} of {}", got.len(), want.len());
        }
    }
}
