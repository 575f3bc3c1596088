//! Flow: backpressure, slow readers, tunnels, interim and early answers, drain.

use super::*;
use crate::engine::memory::Ending;
use std::time::Duration;

#[test]
fn a_slow_reader_stops_its_own_stream_only() {
    let mut s = sim(true, &[]);
    let (slow, other) = (s.client("client").unwrap(), s.client("client").unwrap());
    slow.window(Some(100));
    slow.send(b"g big\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"D:1000000 big\n");
    for _ in 0..100 {
        x.send(&[b'z'; 10_000]);
    }
    s.settle();
    assert!(x.unread() > 800_000, "{} unread: the backend is paused", x.unread());
    assert!(s.core.pool.queue_used() < 300_000);
    other.send(b"g o\n");
    s.settle();
    s.backend("backends", 0).unwrap().send(b"r o\n");
    s.settle();
    assert_eq!(text(&other), "r o\n");
    slow.window(None);
    let mut got = 0;
    for _ in 0..100 {
        s.settle();
        got += slow.receive().len();
    }
    assert_eq!(got, "D:1000000 big\n".len() + 1_000_000);
    assert_clean(&mut s);
}

/// One client's answers from two servers, both larger than it takes at once.
#[test]
fn two_large_answers_to_a_slow_client_both_arrive() {
    // The second one has a connection of its own from the start, or shares one with others.
    for others in [false, true] {
        let mut s = sim(false, &[]);
        let c = s.client("client").unwrap();
        c.send(b"g0 a\ng1 b\n");
        s.settle();
        let other = s.client("client").unwrap();
        if others {
            other.send(b"g1 c\n");
            s.settle();
        }
        let x = [s.backend("backends", 0).unwrap(), s.backend("backends", 1).unwrap()];
        c.window(Some(0));
        for (n, x) in x.iter().enumerate() {
            x.send(format!("D:1000000 {n}\n").as_bytes());
        }
        for _ in 0..100 {
            x.iter().for_each(|x| x.send(&[b'z'; 10_000]));
            s.settle();
        }
        if others {
            x[1].send(b"r c\n");
            s.settle();
        }
        let mut got = 0;
        for _ in 0..400 {
            c.window(Some(20_000));
            s.settle();
            got += c.receive().len();
        }
        assert_eq!(got, 2 * ("D:1000000 0\n".len() + 1_000_000), "{others}");
        assert_eq!(text(&other), if others { "r c\n" } else { "" });
        // Both connections serve others.
        c.window(None);
        for n in 0..2 {
            other.send(format!("g{n} more\n").as_bytes());
            s.settle();
            let mut all: Vec<Peer> = std::iter::from_fn(|| s.backend("backends", n)).collect();
            all.push(x[n].clone());
            let asked: Vec<&Peer> = all.iter().filter(|x| text(x).ends_with("more\n")).collect();
            asked[0].send(b"r more\n");
            s.settle();
            assert_eq!(text(&other), "r more\n", "{others} {n}");
        }
        assert_clean(&mut s);
    }
}

#[test]
fn a_slow_backend_stops_the_upload() {
    let mut s = sim(true, &[]);
    let c = s.client("client").unwrap();
    c.send(b"d:1000000 up\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.window(Some(0));
    for _ in 0..100 {
        c.send(&[b'z'; 10_000]);
    }
    s.settle();
    assert!(c.unread() > 800_000);
    x.window(None);
    let mut got = x.receive().len();
    for _ in 0..50 {
        s.settle();
        got += x.receive().len();
    }
    assert_eq!(got, "d:1000000 up\n".len() + 1_000_000);
    x.send(b"r ok\n");
    s.settle();
    assert_eq!(text(&c), "r ok\n");
    assert_clean(&mut s);
}

#[test]
fn a_client_that_reads_nothing_is_not_served_without_end() {
    let mut s = sim(false, &["client.write=10s"]);
    let c = s.client("client").unwrap();
    c.window(Some(0));
    let big = [b"e ".as_slice(), &[b'x'; 1000], b"\n"].concat();
    for _ in 0..2000 {
        c.send(&big);
    }
    s.settle();
    assert!(c.unread() > 1_500_000, "reading stops");
    assert!(s.core.pool.queue_used() + s.core.pool.owned_used() < 600_000);
    s.advance(Duration::from_secs(11));
    assert_eq!(c.ending(), Ending::Reset);
    assert_clean(&mut s);
}

#[test]
fn outstanding_requests_shrink_with_large_replies() {
    let mut s = sim(false, &[]);
    let c = s.client("client").unwrap();
    c.send(b"g 0\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"D:500000 r\n");
    x.send(&vec![b'v'; 500_000]);
    s.settle();
    assert_eq!(c.receive().len(), 500_011);
    x.receive();
    c.send(&b"g n\n".repeat(100));
    s.settle();
    let asked = text(&x).len() / 4;
    assert!((1..=2).contains(&asked), "{asked} asked at once");
}

#[test]
fn a_busy_connection_does_not_starve_others() {
    let mut s = sim(false, &[]);
    let (busy, other) = (s.client("client").unwrap(), s.client("client").unwrap());
    busy.send(&b"e x\n".repeat(5000));
    other.send(b"e o\n");
    let _ = s.core.step(Some(Duration::ZERO));
    assert_eq!(text(&other), "e o\n");
    assert!(busy.receive().len() <= 256 * 4);
    let mut n = 0;
    for _ in 0..100 {
        let _ = s.core.step(Some(Duration::ZERO));
        n += busy.receive().len();
    }
    assert!(n > 15_000);
    s.settle();
    assert_clean(&mut s);
}

/// Answers and requests on connections of their own leave between the parts of a batch. On a shared
/// connection the messages of the batch share a write at its end.
#[test]
fn a_batch_in_parts_writes_no_more_often() {
    for exclusive in [false, true] {
        let mut s = sim(exclusive, &[]);
        let clients: Vec<Peer> = (0..6).map(|_| s.client("client").unwrap()).collect();
        let ask = |s: &mut Sim, line: &[u8]| {
            clients.iter().for_each(|c| c.send(line));
            s.settle();
        };
        // Backend connections exist from here on.
        ask(&mut s, b"g0 a\n");
        let backends: Vec<Peer> = std::iter::from_fn(|| s.backend("backends", 0)).collect();
        assert_eq!(backends.len(), if exclusive { 6 } else { 1 });
        let answers = if exclusive { 1 } else { 6 };
        for x in &backends {
            x.receive();
            x.send(&b"r a\n".repeat(answers));
        }
        s.settle();
        assert!(clients.iter().all(|c| text(c) == "r a\n"));
        let before: Vec<usize> = clients.iter().chain(&backends).map(Peer::writes).collect();
        s.net.parts(1);
        ask(&mut s, b"g0 b\n");
        for x in &backends {
            assert_eq!(text(x), "g0 b\n".repeat(answers));
            x.send(&b"r b\n".repeat(answers));
        }
        s.settle();
        assert!(clients.iter().all(|c| text(c) == "r b\n"));
        let after: Vec<usize> = clients.iter().chain(&backends).map(Peer::writes).collect();
        assert!(before.iter().zip(&after).all(|(b, a)| a - b == 1), "{before:?} {after:?}");
        assert_clean(&mut s);
    }
}

/// Two backends answer two requests of one client in two parts of a batch.
#[test]
fn answers_of_one_batch_to_one_client_leave_together() {
    let mut s = sim(false, &["backends.connections=1"]);
    let c = s.client("client").unwrap();
    c.send(b"g0 a\ng1 b\n");
    s.settle();
    let (x, y) = (s.backend("backends", 0).unwrap(), s.backend("backends", 1).unwrap());
    s.net.parts(1);
    let before = c.writes();
    x.send(b"r a\n");
    y.send(b"r b\n");
    s.settle();
    assert_eq!((text(&c), c.writes() - before), ("r a\nr b\n".into(), 1));
    assert_clean(&mut s);
}

/// A connection that an earlier part of the batch has closed has no more events.
#[test]
fn what_a_part_closes_the_next_does_not_see() {
    let mut s = sim(true, &[]);
    s.net.parts(1);
    let (c, o) = (s.client("client").unwrap(), s.client("client").unwrap());
    c.send(b"g c\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    // The client goes; its backend, whose answer is there already, is a later part.
    c.reset();
    o.send(b"e o\n");
    x.send(b"r c\n");
    s.settle();
    assert_eq!((text(&o), text(&c)), ("e o\n".into(), "".into()));
    assert_eq!(x.ending(), Ending::Reset);
    assert_clean(&mut s);
}

#[test]
fn tunnels_carry_bytes_both_ways_with_half_close() {
    let mut s = sim(true, &[]);
    let c = s.client("client").unwrap();
    c.send(b"g up\nearly");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    assert_eq!(text(&x), "g up\n");
    x.send(b"T ok\nhello");
    s.settle();
    assert_eq!((text(&c), text(&x)), ("T ok\nhello".into(), "early".into()));
    c.send(b"\0\xff!");
    s.settle();
    assert_eq!(x.receive(), b"\0\xff!");
    c.finish();
    s.settle();
    assert_eq!(x.ending(), Ending::Ended);
    x.send(b"bye");
    s.settle();
    assert_eq!(text(&c), "bye");
    x.finish();
    s.settle();
    assert_eq!(c.ending(), Ending::Ended);
    assert_eq!(s.core.in_use(), [0; 4]);
}

#[test]
fn interim_answers_pass_and_the_answer_follows() {
    let mut s = sim(true, &[]);
    let c = s.client("client").unwrap();
    c.send(b"d:5 expect\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"i go on\n");
    s.settle();
    assert_eq!(text(&c), "i go on\n");
    // The program edits it, or does not want it passed on.
    x.send(b"i! edited\ni!\n");
    s.settle();
    assert_eq!(text(&c), "i edited\n");
    c.send(b"12345");
    s.settle();
    assert_eq!(text(&x), "d:5 expect\n12345");
    x.send(b"r done\n");
    s.settle();
    assert_eq!(text(&c), "r done\n");
    assert_clean(&mut s);
}

#[test]
fn an_early_answer_is_told_before_the_end() {
    let mut s = sim(true, &[]);
    let c = s.client("client").unwrap();
    c.send(b"d:1000 up\n123");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"r too large\n");
    s.settle();
    assert_eq!(text(&c), "r too large\n");
    assert_eq!(c.ending(), Ending::Ended);
    c.send(&[b'x'; 500]);
    s.settle();
    assert_eq!(c.ending(), Ending::Ended, "still no reset");
    assert_ne!(x.ending(), Ending::Open, "not reused");
    s.advance(Duration::from_secs(3));
    assert_clean(&mut s);
}

#[test]
fn until_the_end_streams_and_ends_with_the_backend() {
    let mut s = sim(true, &[]);
    let c = s.client("client").unwrap();
    c.send(b"g f\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"u file\nabc");
    s.settle();
    x.send(b"def");
    x.finish();
    s.settle();
    assert_eq!(text(&c), "u file\nabcdef");
    // Only the end of its connection tells the client the same.
    assert_eq!(c.ending(), Ending::Ended);
    c.finish();
    s.advance(Duration::from_secs(3));
    assert_clean(&mut s);
}

#[test]
fn close_flags_end_connections() {
    let mut s = sim(true, &[]);
    let c = s.client("client").unwrap();
    c.send(b"c last\ne ignored\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"C r\n");
    s.settle();
    assert_eq!(text(&c), "C r\n");
    assert_ne!(c.ending(), Ending::Open);
    assert_ne!(x.ending(), Ending::Open);
    assert_clean(&mut s);
}

#[test]
fn drain_finishes_what_is_under_way() {
    let mut s = sim(false, &[]);
    let (idle, busy) = (s.client("client").unwrap(), s.client("client").unwrap());
    busy.send(b"g a\n");
    s.settle();
    s.core.drain();
    s.settle();
    assert!(s.client("client").is_none(), "no longer listening");
    assert_eq!(idle.ending(), Ending::Open, "a request may be on its way");
    idle.send(b"e late\n");
    s.advance(Duration::from_millis(200));
    assert_eq!((text(&idle), idle.ending()), ("e late\n".into(), Ending::Open));
    s.advance(Duration::from_millis(100));
    assert_eq!(idle.ending(), Ending::Ended, "in order, not by a reset");
    idle.send(b"e too late\n");
    s.settle();
    assert_eq!((text(&idle), idle.ending()), (String::new(), Ending::Ended));
    idle.finish();
    s.settle();
    assert_eq!(busy.ending(), Ending::Open);
    s.backend("backends", 0).unwrap().send(b"r a\n");
    s.settle();
    assert_eq!(text(&busy), "r a\n");
    assert_eq!(busy.ending(), Ending::Ended);
    s.advance(Duration::from_secs(1));
    assert_eq!(s.core.clients(), 0);
}

/// If a protocol can announce a drain, the next answer is the last. Bytes behind its request are
/// not read.
#[test]
fn a_protocol_that_tells_of_the_drain_ends_with_its_next_answer() {
    let mut s = sim(false, &[]);
    s.core.apps[0].protos[0].tells_drain = true;
    let (asked, later) = (s.client("client").unwrap(), s.client("client").unwrap());
    asked.send(b"g a\n");
    s.settle();
    s.core.drain();
    later.send(b"e one\ne two\n");
    s.settle();
    assert_eq!((text(&later), later.ending()), ("e one\n".into(), Ending::Ended));
    s.backend("backends", 0).unwrap().send(b"r a\n");
    s.settle();
    assert_eq!((text(&asked), asked.ending()), ("r a\n".into(), Ending::Ended));
}

/// With `cancel`, a client that ends its direction while it waits has left: the backend sees its
/// connection end.
#[test]
fn a_client_that_leaves_cancels_its_request() {
    for (cancel, ending) in [("false", Ending::Open), ("true", Ending::Ended)] {
        let mut s = sim(true, &[&format!("client.cancel={cancel}")]);
        let c = s.client("client").unwrap();
        c.send(b"g a\n");
        s.settle();
        let x = s.backend("backends", 0).unwrap();
        c.finish();
        s.settle();
        assert_eq!((c.ending(), x.ending()), (ending, ending), "cancel={cancel}");
        assert_clean(&mut s);
    }
}

/// Where the server's port says `cancel`, a client leaves by its end only if its next answer comes
/// from there. Requests behind the one that waits do not matter, nor when the end came. Without
/// the option its answer is awaited.
#[test]
fn a_client_that_leaves_cancels_what_waits_at_such_a_server() {
    for behind in ["", "g b\n", "g"] {
        let mut s = sim(true, &["backends.cancel=true"]);
        let c = s.client("client").unwrap();
        c.send(b"g a\n");
        c.send(behind.as_bytes());
        s.settle();
        let x = s.backend("backends", 0).unwrap();
        c.finish();
        s.settle();
        assert_eq!((c.ending(), x.ending()), (Ending::Ended, Ending::Ended), "{behind:?}");
        assert!(s.backend("backends", 0).is_none(), "{behind:?}");
        assert_clean(&mut s);
    }
    // The end comes with the request, or while an answer of the program's own is under way.
    for first in ["g a\n", "e own\ng a\n"] {
        let mut s = sim(true, &["backends.cancel=true"]);
        let c = s.client("client").unwrap();
        c.send(first.as_bytes());
        c.finish();
        s.settle();
        assert_eq!(text(&c), if first.len() > 4 { "e own\n" } else { "" });
        assert_eq!(c.ending(), Ending::Ended);
        assert!(s.backend("backends", 0).is_none_or(|x| x.ending() == Ending::Ended));
        assert_clean(&mut s);
    }
    let mut s = sim(true, &["backends.cancel=false"]);
    let c = s.client("client").unwrap();
    c.send(b"g a\n");
    c.finish();
    s.settle();
    s.backend("backends", 0).unwrap().send(b"r a\n");
    s.settle();
    assert_eq!((text(&c).as_str(), c.ending()), ("r a\n", Ending::Ended));
    assert_clean(&mut s);
}

/// An answer has a time to begin in, and another to go on in.
#[test]
fn answers_begin_in_time_and_flow_on_in_time() {
    let sets = ["backends.answer_timeout=2s", "backends.stream_timeout=20s", "backends.eject_after=0"];
    let mut s = sim(true, &sets);
    let c = s.client("client").unwrap();
    c.send(b"g a\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    s.advance(Duration::from_secs(1));
    x.send(b"D:10 r\n12345");
    s.advance(Duration::from_secs(15));
    x.send(b"6");
    s.advance(Duration::from_secs(15));
    assert_eq!((text(&c), c.ending()), ("D:10 r\n123456".into(), Ending::Open));
    s.advance(Duration::from_secs(10));
    assert_eq!(c.ending(), Ending::Reset, "an answer that stops is no whole one");
    let c = s.client("client").unwrap();
    c.send(b"g a\n");
    s.advance(Duration::from_secs(3));
    assert_eq!(text(&c), "!10\n");
    assert_clean(&mut s);
}

#[test]
fn asynchronous_writes() {
    for exclusive in [false, true] {
        let mut s = sim(exclusive, &[]);
        s.net.asynchronous(true);
        let c = s.client("client").unwrap();
        c.send(b"g a\ne b\n");
        s.settle();
        s.backend("backends", 0).unwrap().send(b"D:5 r\n12345");
        s.settle();
        assert_eq!(text(&c), "D:5 r\n12345e b\n");
        c.send(b"!\n");
        s.settle();
        assert_eq!(text(&c), "!1\n");
        s.advance(Duration::from_secs(3));
        assert_clean(&mut s);
    }
}

#[test]
fn an_upload_paused_for_a_backend_that_dies_goes_on_to_its_end() {
    let mut s = sim(true, &[]);
    let c = s.client("client").unwrap();
    c.send(b"d:500000 up\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.window(Some(0));
    for _ in 0..50 {
        c.send(&[b'z'; 10_000]);
    }
    c.send(b"e next\n");
    s.settle();
    assert!(c.unread() > 0);
    x.reset();
    s.settle();
    s.settle();
    assert_eq!(text(&c), "!8\ne next\n");
    assert_clean(&mut s);
}

#[test]
fn large_replies_to_a_client_that_does_not_read_stay_bounded() {
    let mut s = sim(false, &[]);
    let c = s.client("client").unwrap();
    c.window(Some(0));
    c.send(&b"g n\n".repeat(500));
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    let (mut asked, mut most) = (0, 0);
    for _ in 0..200 {
        let n = x.receive().len() / 4;
        asked += n;
        for _ in 0..n {
            x.send(b"D:1000000 r\n");
            x.send(&vec![b'v'; 1_000_000]);
        }
        s.settle();
        most = most.max(s.core.pool.queue_used());
    }
    assert!(asked <= 32, "{asked} asked");
    assert!(most < 36 << 20, "{most} bytes");
    assert_eq!(c.ending(), Ending::Open, "slow, not at fault");
    c.window(None);
    let mut got = 0;
    while got < 500 * 1_000_012 {
        s.settle();
        let n = x.receive().len() / 4;
        for _ in 0..n {
            x.send(b"D:1000000 r\n");
            x.send(&vec![b'v'; 1_000_000]);
        }
        let more = c.receive().len();
        assert!(n + more > 0, "stuck at {got}");
        got += more;
    }
    assert_eq!(got, 500 * 1_000_012);
    assert_clean(&mut s);
}
