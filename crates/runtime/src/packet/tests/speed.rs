//! What the loop itself costs. Run it by `cargo test --release -p wireloom-runtime packet::tests::speed -- --ignored --nocapture`.
use super::*;

/// Frames in memory, a batch function that does nothing.
fn cost(in_place: bool, rounds: u64) -> f64 {
    let mut frames = Frames::new(rounds);
    frames.in_place = in_place;
    for i in 0..4096 {
        frames.push(&frame(i % 1000, i), 0);
    }
    let mut options = Options { bind: pairs(&[("wire", "memory:in".into()), ("out", "null".into()), ("mon", "null".into())]), ..Options::default() };
    options.memory.insert("in".into(), (frames, None));
    let s = run_on(program(&["-DNOTHING"]), desc(DROP), options, 1).unwrap();
    assert_eq!(s.frames, rounds * 4096);
    s.elapsed.as_nanos() as f64 / s.frames as f64
}

#[test]
#[ignore = "a measurement"]
fn cost_of_the_loop() {
    for _ in 0..3 {
        println!("in place {:.2} ns, copied {:.2} ns per frame of 64 bytes", cost(true, 50_000), cost(false, 20_000));
    }
}
