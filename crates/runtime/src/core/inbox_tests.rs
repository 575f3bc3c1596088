//! Rings between cores: order, bounds, long messages, and wakes.

use super::*;

fn record<'a>(handles: &'a [u64], head: &'a [u8], rest: &'a [u8]) -> Record<'a> {
    Record { app: 1, proto: 3, place: 7, closes: false, handles, head, rest }
}

fn pair(bytes: usize) -> (Mail, Mail) {
    let all = Arc::new(Inboxes::with_rings_of(2, bytes));
    (Mail::new(all.clone(), 0, Waker(None)), Mail::new(all, 1, Waker(None)))
}

/// The records that have come: handles and bytes.
fn taken(m: &Mail) -> Vec<(Vec<u64>, Vec<u8>)> {
    let mut out = Vec::new();
    let rung = m.rung();
    m.receive(rung, &mut |r| {
        assert_eq!((r.app, r.place, r.closes), (1, 7, false));
        out.push((r.handles.to_vec(), [r.head, r.rest].concat()));
    });
    out
}

#[test]
fn records_come_in_order_and_whole() {
    let (mut a, b) = pair(64 << 10);
    for round in 0..1000u64 {
        // Lengths around those of words, of the ring's end, and of messages that lie outside.
        let sizes = [0, 1, 7, 8, 9, 100, (round as usize * 37) % LONG, LONG + round as usize];
        for (i, n) in sizes.iter().enumerate() {
            let text: Vec<u8> = (0..*n).map(|k| (k as u64 * 31 + round + i as u64) as u8).collect();
            let cut = n / 3;
            let handles: Vec<u64> = (0..i as u64).map(|h| h << 32 | round).collect();
            assert_eq!(a.send(1, &record(&handles, &text[..cut], &text[cut..])), Delivery::Yes);
        }
        let got = taken(&b);
        assert_eq!(got.len(), sizes.len());
        for (i, (handles, bytes)) in got.iter().enumerate() {
            assert_eq!((handles.len(), bytes.len()), (i, sizes[i]));
            let good = |(k, b): (usize, &u8)| *b == (k as u64 * 31 + round + i as u64) as u8;
            assert!(bytes.iter().enumerate().all(good));
        }
        a.announce();
        assert!(a.has_room());
    }
}

#[test]
fn a_full_ring_refuses_and_its_writer_is_told_of_room() {
    let (mut a, b) = pair(64 << 10);
    let text = [7u8; 1000];
    let mut sent = 0;
    while a.send(1, &record(&[1], &text, &[])) == Delivery::Yes {
        sent += 1;
    }
    assert!((50..66).contains(&sent), "{sent}");
    assert!(a.is_crowded() && !a.has_room(), "more than half of it is used");
    assert!(!a.told_of_room());
    assert_eq!(taken(&b).len(), sent);
    assert!(a.told_of_room() && a.has_room() && !a.is_crowded());
    assert_eq!(a.send(1, &record(&[1], &text, &[])), Delivery::Yes);
}

#[test]
fn long_messages_that_wait_are_bounded_and_freed() {
    let (mut a, b) = pair(64 << 10);
    let text = vec![1u8; 1 << 20];
    let sent = (0..100).take_while(|_| a.send(1, &record(&[1], &text, &[])) == Delivery::Yes).count();
    assert_eq!(sent, LONG_MAX >> 20);
    assert_eq!(taken(&b).len(), sent);
    assert_eq!(a.send(1, &record(&[1], &text, &[])), Delivery::Yes);
    // The last one is freed with the ring.
}

#[test]
fn nothing_goes_to_a_core_that_has_ended_or_is_not_there() {
    let (mut a, mut b) = pair(64 << 10);
    assert_eq!(a.send(0, &record(&[1], b"x", &[])), Delivery::Gone);
    assert_eq!(a.send(2, &record(&[1], b"x", &[])), Delivery::Gone);
    b.close();
    assert_eq!(a.send(1, &record(&[1], b"x", &[])), Delivery::Gone);
    assert!(a.told_of_room(), "nobody waits for it");
}

#[test]
fn a_core_with_mail_does_not_sleep() {
    let (mut a, b) = pair(64 << 10);
    assert!(b.may_sleep());
    a.send(1, &record(&[1], b"x", &[]));
    assert!(a.announces());
    a.announce();
    assert!(!a.announces());
    assert!(!b.may_sleep());
    b.woken();
    assert_eq!(taken(&b).len(), 1);
    assert!(b.may_sleep());
}

/// Two threads, each writing to the other, with rests: nothing is lost, doubled or out of order.
#[test]
fn both_ways_between_threads() {
    const MESSAGES: u64 = 200_000;
    let all = Arc::new(Inboxes::with_rings_of(2, 64 << 10));
    let run = |me: usize| {
        let mut m = Mail::new(all.clone(), me, Waker(None));
        move || {
            let (mut next, mut seen) = (0u64, 0u64);
            while next < MESSAGES || seen < MESSAGES {
                if next < MESSAGES && (!m.is_crowded() || m.has_room()) {
                    let text = [next as u8; 40];
                    if m.send(1 - me, &record(&[next], &text[..(next % 40) as usize], &[])) == Delivery::Yes {
                        next += 1;
                    }
                }
                m.announce();
                let rung = m.rung();
                m.receive(rung, &mut |r| {
                    assert_eq!((r.handles, r.head.len() as u64), (&[seen][..], seen % 40));
                    assert!(r.head.iter().all(|b| *b == seen as u8));
                    seen += 1;
                });
                if rung == 0 {
                    std::thread::yield_now();
                }
            }
        }
    };
    let (mut one, two) = (run(0), run(1));
    let other = std::thread::spawn(two);
    one();
    other.join().expect("the other thread is content");
}
