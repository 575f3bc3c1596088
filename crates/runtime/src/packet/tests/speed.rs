//! The cost of the loop itself. Run it by `cargo test --release -p wireloom-runtime
//! packet::tests::speed -- --ignored --nocapture`.
use super::*;

/// Frames in memory, a batch function that does nothing.
fn cost(in_place: bool, rounds: u64) -> f64 {
    let mut frames = Frames::new(rounds);
    frames.in_place = in_place;
    for i in 0..4096 {
        frames.push(&frame(i % 1000, i), 0);
    }
    let mut options = Options {
        bind: pairs(&[("wire", "memory:in".into()), ("out", "null".into()), ("mon", "null".into())]),
        ..Options::default()
    };
    options.memory.insert("in".into(), (frames, None));
    let program = program(&["-DNOTHING"]);
    let before = cpu_ns();
    let s = run_on(program, desc(DROP), options, 1).unwrap();
    assert_eq!(s.frames, rounds * 4096);
    (cpu_ns() - before) as f64 / s.frames as f64
}

/// Of this process: others may be at work on the machine.
fn cpu_ns() -> u64 {
    // SAFETY: clock_gettime fills in the struct it is given.
    let t = unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t);
        t
    };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[test]
#[ignore = "a measurement"]
fn cost_of_the_loop() {
    for _ in 0..3 {
        println!("in place {:.2} ns, copied {:.2} ns per frame of 64 bytes", cost(true, 50_000), cost(false, 20_000));
    }
}

/// One app that does nothing, and three that share its frames.
#[test]
#[ignore = "a measurement"]
fn cost_of_sharing() {
    let of = |apps: usize| {
        let mut frames = Frames::new(10_000);
        (0..4096).for_each(|i| frames.push(&frame(i % 1000, i), 0));
        let mut options = Options {
            bind: pairs(&[("wire", "memory:in".into()), ("out", "null".into()), ("mon", "null".into())]),
            ..Options::default()
        };
        options.memory.insert("in".into(), (frames, None));
        let list = (0..apps)
            .map(|n| (program(&["-DNOTHING"]), Desc { app: format!("app{n}"), cluster: Some(0), ..desc(DROP) }))
            .collect();
        let before = cpu_ns();
        run_all(list, options, 1, Stop::default(), None).unwrap();
        (cpu_ns() - before) as f64 / (10_000.0 * 4096.0)
    };
    for _ in 0..3 {
        println!("one app {:.2} ns, three apps {:.2} ns per frame", of(1), of(3));
    }
}

/// A capture of a million frames: read, read and written, and dealt out to two cores.
#[test]
#[ignore = "a measurement"]
fn cost_of_captures() {
    let list: Vec<Vec<u8>> = (0..1000).map(|i| frame(i, 0)).collect();
    let input = capture("speed.pcap", (0..1_000_000usize).map(|i| (1 + i as u64 * 1000, &list[i % 1000][..])));
    let run = |mode, out: &str, cores| {
        let bind = pairs(&[("wire", format!("pcap:{input}")), ("out", out.to_string()), ("mon", "null".into())]);
        let program = program(&["-DSTEER"]);
        let before = cpu_ns();
        let s = run_on(program, desc(mode), Options { bind, ..Options::default() }, cores).unwrap();
        ((cpu_ns() - before) as f64 / s.frames as f64, s.elapsed.as_nanos() as f64 / s.frames as f64)
    };
    let out = format!("pcap:{}", dir().join("speed-out.pcap").display());
    for _ in 0..3 {
        let (read, written, dealt) = (run(DROP, "null", 1), run(FORWARD, &out, 1), run(DROP, "null", 2));
        println!("CPU ns per frame (and time): read {:.1} ({:.1}), read and written {:.1} ({:.1}), on two cores {:.1} ({:.1})", read.0, read.1, written.0, written.1, dealt.0, dealt.1);
    }
}
