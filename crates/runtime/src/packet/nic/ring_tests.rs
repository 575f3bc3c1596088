//! Rings in memory that a hostile process may write: damage is counted, and the ring goes on.

use super::*;

struct Bytes(std::cell::UnsafeCell<Vec<u128>>);
// SAFETY: tests use it as the two ends of a ring do.
unsafe impl Sync for Bytes {}
// SAFETY: as above.
unsafe impl Send for Bytes {}

fn memory(depth: usize, slot: usize) -> RingMemory {
    let form = Form::of(depth, slot, 4 * slot);
    let keep = Arc::new(Bytes(std::cell::UnsafeCell::new(vec![0u128; form.bytes() / 16 + 8])));
    let at = keep.0.get();
    // SAFETY: the vector lives as long as `keep`; its address is brought up to 128.
    let m = unsafe {
        let at = (*at).as_mut_ptr().cast::<u8>();
        RingMemory::at(at.add(at.align_offset(128)), form, keep)
    };
    m.clear();
    m
}

fn content(n: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (n as usize * 7 + i) as u8).collect()
}

fn put(p: &mut RingProducer, n: u64, len: usize) -> bool {
    let room = p.has_room(len);
    if room {
        let all = content(n, len);
        let (a, b) = all.split_at(len.min(8));
        let len = len as u32;
        p.put(Head { len, frame: len, wire: len, mark: n as u32, time: n, now: n }, [a, b]);
    }
    room
}

fn take(c: &mut RingConsumer) -> Option<(u64, Vec<u8>)> {
    let head = c.peek()?;
    let mut to = vec![0; head.len as usize];
    let (a, b) = to.split_at_mut((head.len as usize).min(24));
    // SAFETY: as long as the entry.
    unsafe { c.take([(a.as_mut_ptr(), a.len()), (b.as_mut_ptr(), b.len())]) };
    Some((head.now, to))
}

fn ends(m: &RingMemory) -> (RingProducer, RingConsumer) {
    (RingProducer::new(m.clone(), 8, false), RingConsumer::new(m.clone(), false))
}

#[test]
fn entries_of_all_lengths_keep_their_order() {
    let m = memory(8, 128);
    let (mut p, mut c) = ends(&m);
    let (mut next, mut got) = (0, 0);
    for round in 0..5000u64 {
        for _ in 0..round % 5 {
            let len = (next as usize * 37) % 500;
            next += u64::from(put(&mut p, next, len));
        }
        for _ in 0..round % 4 {
            let Some((n, bytes)) = take(&mut c) else { break };
            assert_eq!((n, bytes), (got, content(got, (got as usize * 37) % 500)));
            got += 1;
        }
    }
    while take(&mut c).is_some() {
        got += 1;
    }
    assert!(next > 5000 && got == next, "{got} of {next}");
    let h = m.header();
    assert_eq!((h.consumer.damaged.load(Relaxed), h.consumer.disordered.load(Relaxed)), (0, 0));
}

#[test]
fn a_full_ring_says_so() {
    let m = memory(8, 256);
    let (mut p, mut c) = ends(&m);
    assert_eq!((0..20).filter(|n| put(&mut p, *n, 60)).count(), 8);
    assert!(take(&mut c).is_some() && put(&mut p, 8, 60) && !put(&mut p, 9, 60));
    while take(&mut c).is_some() {}
    // A frame of more slots than its queue is deep has them to itself.
    let m = memory(1, 128);
    let mut p = RingProducer::new(m.clone(), 1, false);
    let mut c = RingConsumer::new(m, false);
    assert!(put(&mut p, 0, 400) && !put(&mut p, 1, 4));
    assert_eq!(take(&mut c).map(|e| e.1), Some(content(0, 400)));
    assert!(put(&mut p, 1, 4) && !put(&mut p, 2, 4));
}

/// Any byte of any slot is changed, while entries wait: what comes out was put in, in its order,
/// and the ring goes on.
#[test]
fn damage_is_counted_and_passed() {
    for at in 0..3 * 128 {
        for change in [0xff, 1, 0x80] {
            for waiting in [0, 1, 3] {
                let m = memory(4, 128);
                let (mut p, mut c) = (RingProducer::new(m.clone(), 4, false), RingConsumer::new(m.clone(), false));
                (0..waiting).for_each(|n| assert!(put(&mut p, n, 60)));
                m.bytes()[at] ^= change;
                let (mut next, mut last, mut came) = (waiting, None, 0);
                for _ in 0..2000 {
                    next += u64::from(put(&mut p, next, 60));
                    while let Some((n, bytes)) = take(&mut c) {
                        assert!(last.is_none_or(|l| n > l), "{n} behind {last:?}, at {at}");
                        assert_eq!(bytes.len(), 60);
                        (last, came) = (Some(n), came + 1);
                    }
                }
                let said = format!("byte {at} ^ {change:x}, {waiting} waiting: {came} of {next}");
                assert!(next > 1500, "it stands still: {said}");
                assert!(came + 4 >= next, "{said}");
                let h = m.header();
                let counted = h.consumer.damaged.load(Relaxed) + h.consumer.disordered.load(Relaxed);
                assert!(came == next || counted + h.producer.damaged.load(Relaxed) > 0, "not counted: {said}");
            }
        }
    }
}

/// A status and the published positions are damaged at once. Neither side waits for ever.
#[test]
fn damaged_positions_stop_no_ring() {
    let positions = [0, 7, 1 << 40, u64::MAX];
    for waiting in 0..=4u64 {
        for slot in 0..8u64 {
            for kind in [0, FIRST, MORE, 3] {
                for (put_at, taken_at) in positions.into_iter().flat_map(|a| positions.map(|b| (a, b))) {
                    for anew in [false, true] {
                        let m = memory(4, 128);
                        let (mut p, mut c) =
                            (RingProducer::new(m.clone(), 4, false), RingConsumer::new(m.clone(), false));
                        for n in 0..6 {
                            assert!(put(&mut p, n, 60) && take(&mut c).is_some());
                        }
                        (0..waiting).for_each(|n| assert!(put(&mut p, 6 + n, 60)));
                        m.set(slot, m.status(slot) & !3 | kind);
                        m.header().put.0.store(put_at, Release);
                        m.header().taken.0.store(taken_at, Release);
                        if anew {
                            p = RingProducer::new(m.clone(), 4, true);
                            c = RingConsumer::new(m.clone(), true);
                        }
                        let mut next = 10;
                        for _ in 0..600 {
                            next += u64::from(put(&mut p, next, 60));
                            drop(take(&mut c));
                        }
                        let said = format!("slot {slot} {kind}, {waiting} waiting, at {put_at} and {taken_at}, {anew}");
                        assert!(next > 300, "it stands still: {said}");
                        while take(&mut c).is_some() {}
                        for n in 2000..2020 {
                            assert!(put(&mut p, n, 60), "{said}");
                            assert_eq!(take(&mut c).map(|e| e.0), Some(n), "{said}");
                        }
                    }
                }
            }
        }
    }
}

/// The whole memory is filled at random, again and again.
#[test]
fn noise_does_no_harm() {
    let m = memory(8, 128);
    let (mut p, mut c) = ends(&m);
    let mut x = 88172645463325252u64;
    let mut random = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    for round in 0..2000u64 {
        for b in m.bytes().iter_mut() {
            *b = random() as u8;
        }
        for n in 0..6 {
            let _ = put(&mut p, round * 8 + n, (random() % 600) as usize);
        }
        for _ in 0..20 {
            drop(take(&mut c));
        }
    }
    // Behind the noise it works again.
    let mut came = 0;
    for n in 0..5000 {
        put(&mut p, n, 50);
        came += u64::from(take(&mut c).is_some_and(|e| e.1 == content(e.0, 50)));
    }
    assert!(came > 4000, "{came}");
}

/// A side that ends in any place of its work is followed by another one.
#[test]
fn a_side_takes_the_place_of_one_that_has_ended() {
    let m = memory(8, 128);
    let (mut p, mut c) = ends(&m);
    let (mut next, mut last, mut came) = (0, None, 0);
    for round in 0..500u64 {
        for _ in 0..round % 7 {
            next += u64::from(put(&mut p, next, (next as usize * 53) % 300));
        }
        for _ in 0..round % 5 {
            let Some((n, bytes)) = take(&mut c) else { break };
            assert!(last.is_none_or(|l| n > l));
            assert_eq!(bytes, content(n, (n as usize * 53) % 300));
            (last, came) = (Some(n), came + 1);
        }
        match round % 3 {
            0 => p = RingProducer::new(m.clone(), 8, true),
            1 => c = RingConsumer::new(m.clone(), true),
            _ => {}
        }
    }
    while take(&mut c).is_some() {
        came += 1;
    }
    assert_eq!(came, next, "all but unfinished entries come");
    // One that was being written is not there; its continuations are no hindrance.
    for k in 1..3 {
        m.set(p.put + k, full(p.put + k, MORE));
    }
    let mut p = RingProducer::new(m.clone(), 8, true);
    for n in 0..50 {
        assert!(put(&mut p, n, 200));
        assert_eq!(take(&mut c).map(|e| e.0), Some(n));
    }
}

#[test]
fn it_works_between_threads() {
    let m = memory(64, 256);
    let (mut p, mut c) = (RingProducer::new(m.clone(), 64, false), RingConsumer::new(m, false));
    let n = 100_000;
    let feeder = std::thread::spawn(move || {
        for i in 0..n {
            while !put(&mut p, i, (i % 700) as usize) {
                std::thread::yield_now();
            }
        }
    });
    for i in 0..n {
        let got = loop {
            match take(&mut c) {
                Some(e) => break e,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!((got.0, got.1.len()), (i, (i % 700) as usize));
    }
    feeder.join().unwrap();
}
