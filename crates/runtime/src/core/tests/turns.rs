//! Turns: shares of time between connections and between apps.

use super::*;
use std::time::Duration;

fn step(s: &mut Sim) {
    let _ = s.core.step(Some(Duration::ZERO));
}

fn lines(p: &Peer) -> usize {
    text(p).lines().count()
}

/// How many of their requests a light and a heavy client have been answered when the light one has
/// been served whole.
fn race(light: &str, heavy: &str, n: usize) -> (usize, u64) {
    let mut s = sim(false, &[]);
    let (l, h) = (s.client("client").unwrap(), s.client("client").unwrap());
    h.send(heavy.repeat(n).as_bytes());
    l.send(light.repeat(n).as_bytes());
    let (begin, mut done, mut beside) = (s.now(), 0, 0);
    while done < n {
        step(&mut s);
        done += lines(&l);
        beside += lines(&h);
        assert!(s.now() - begin < 100_000_000_000, "{done} of {n}");
    }
    (beside, s.now() - begin)
}

/// Equal shares of time, not of messages: when the light one is done it has had half of the core.
#[test]
fn a_turn_is_a_share_of_time() {
    for (heavy, us) in [("b40 x\n", 40), ("b400 x\n", 400), ("b2000 x\n", 2000)] {
        let (beside, took) = race("b10 x\n", heavy, 1000);
        let (light, others) = (1000 * 10_000u64, beside as u64 * us * 1000);
        assert!(others < light * 6 / 5 + us * 1000 + 100_000, "{heavy:?}: {beside} beside, {others} ns beside {light}");
        assert!(took < 2 * light * 6 / 5 + us * 1000 + 200_000, "{heavy:?}: {took} ns for {light}");
    }
}

/// One light client among a hundred heavy ones gets its share, too.
#[test]
fn a_light_client_among_many_heavy_ones() {
    let mut s = sim(false, &[]);
    let heavy: Vec<Peer> = (0..100).map(|_| s.client("client").unwrap()).collect();
    let light = s.client("client").unwrap();
    heavy.iter().for_each(|h| h.send(&b"b1000 x\n".repeat(200)));
    light.send(&b"b5 x\n".repeat(200));
    let (begin, mut done) = (s.now(), 0);
    while done < 200 {
        step(&mut s);
        done += lines(&light);
    }
    // 1 ms of its own work, of 101 that share the core. A message is never interrupted, so each
    // connection may be one ahead.
    let took = s.now() - begin;
    assert!(took < 101 * 1_000_000 * 6 / 5 + 101_000_000, "{took} ns");
}

/// An app beside a busy one waits for a slice and for the message that is under way.
#[test]
fn an_app_beside_a_busy_one() {
    let both = vec![test_program::app(false, &["port=7000"]), test_program::app(false, &["port=7001"])];
    let mut s = Sim::new(both).unwrap();
    let busy: Vec<Peer> = (0..50).map(|_| s.net.connect("0.0.0.0:7000".parse().unwrap()).unwrap()).collect();
    let light = s.net.connect("0.0.0.0:7001".parse().unwrap()).unwrap();
    s.settle();
    busy.iter().for_each(|b| b.send(&b"b200 x\n".repeat(500)));
    let mut worst = 0;
    for _ in 0..200 {
        light.send(b"b1 x\n");
        let begin = s.now();
        while text(&light).is_empty() {
            step(&mut s);
        }
        worst = worst.max(s.now() - begin);
    }
    assert!(worst < 600_000, "the light app waited for {worst} ns beside messages of 200 us");
    assert!(busy.iter().map(lines).sum::<usize>() > 100, "the busy one goes on");
}
