//! Large answers on shared connections. Such a connection is left to the requests that wait
//! already. Clients with large answers use connections alone.

use super::*;
use crate::engine::memory::Ending;
use std::time::Duration;

const BIG: usize = 1_000_000;

/// A shared connection on which a large answer has begun, its client that reads nothing, and one
/// that waits behind it.
fn begun(s: &mut Sim, size: usize) -> (Peer, Peer, Peer) {
    let (slow, behind) = (s.client("client").unwrap(), s.client("client").unwrap());
    slow.window(Some(100));
    slow.send(b"g big\n");
    s.settle();
    behind.send(b"g behind\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    assert_eq!(text(&x), "g big\ng behind\n");
    x.send(format!("D:{size} big\n").as_bytes());
    x.send(&vec![b'z'; 400_000]);
    s.settle();
    (slow, behind, x)
}

fn rest(s: &mut Sim, x: &Peer, mut left: usize) {
    while left > 0 {
        let n = left.min(1 << 20);
        x.send(&vec![b'z'; n]);
        s.settle();
        left -= n;
    }
}

/// How many bytes a client takes until nothing more comes.
fn taken(s: &mut Sim, client: &Peer) -> usize {
    (0..100)
        .map(|_| {
            s.settle();
            client.receive().len()
        })
        .sum()
}

#[test]
fn requests_go_to_another_connection_once_a_large_answer_begins() {
    let mut s = sim(false, &[]);
    let (slow, behind, x) = begun(&mut s, BIG);
    let third = s.client("client").unwrap();
    third.send(b"g third\n");
    s.settle();
    let y = s.backend("backends", 0).unwrap();
    assert_eq!((text(&y), text(&x)), ("g third\n".into(), String::new()));
    y.send(b"r third\n");
    // Its client still awaits an answer on the first connection: the next request must not overtake
    // it.
    behind.send(b"g later\n");
    s.settle();
    assert_eq!((text(&third), text(&y)), ("r third\n".into(), String::new()));
    rest(&mut s, &x, BIG - 400_000);
    x.send(b"r behind\n");
    s.settle();
    assert_eq!(
        (text(&behind), text(&y)),
        ("r behind\n".into(), "g later\n".into()),
        "though the slow one has read nothing"
    );
    y.send(b"r later\n");
    slow.window(None);
    let got = taken(&mut s, &slow);
    assert_eq!((got, text(&behind)), ("D:1000000 big\n".len() + BIG, "r later\n".into()));
    assert_clean(&mut s);
}

#[test]
fn a_client_with_large_answers_asks_alone_and_stops_its_own_stream() {
    let mut s = sim(false, &[]);
    let (slow, behind, x) = begun(&mut s, BIG);
    rest(&mut s, &x, BIG - 400_000);
    x.send(b"r behind\n");
    slow.window(None);
    let got = taken(&mut s, &slow);
    assert_eq!((got, text(&behind)), ("D:1000000 big\n".len() + BIG, "r behind\n".into()));
    // The first connection is its own now; the other client's next request goes on a shared one,
    // and the slow one's second waits.
    slow.window(Some(100));
    slow.send(b"g one\ng two\n");
    behind.send(b"g other\n");
    s.settle();
    let y = s.backend("backends", 0).unwrap();
    assert_eq!((text(&x), text(&y)), ("g one\n".into(), "g other\n".into()));
    x.send(b"D:1000000 one\n");
    for _ in 0..100 {
        x.send(&[b'z'; 10_000]);
    }
    y.send(b"r other\n");
    s.settle();
    assert!(x.unread() > 700_000, "{} unread: it is paused", x.unread());
    assert!(s.core.pool.queue_used() < 300_000);
    assert_eq!(text(&behind), "r other\n");
    slow.window(None);
    taken(&mut s, &slow);
    assert_eq!(text(&x), "g two\n");
    x.send(b"r two\n");
    s.settle();
    assert_eq!(text(&slow), "r two\n");
    assert_clean(&mut s);
}

#[test]
fn a_client_that_holds_up_others_is_cut_off() {
    let mut s = sim(false, &[]);
    let size = 60 << 20;
    let (slow, behind, x) = begun(&mut s, size);
    rest(&mut s, &x, size - 400_000);
    x.send(b"r behind\n");
    s.settle();
    assert!(x.unread() > 16 << 20, "{} unread: it is paused", x.unread());
    assert_eq!((slow.ending(), text(&behind)), (Ending::Open, String::new()));
    s.advance(Duration::from_millis(2100));
    for _ in 0..100 {
        s.settle();
    }
    assert_eq!((slow.ending(), text(&behind)), (Ending::Reset, "r behind\n".into()));
    // It comes again, and asks on a connection of its own.
    let (again, other) = (s.client("client").unwrap(), s.client("client").unwrap());
    behind.send(b"g small\n");
    again.send(b"g big\n");
    s.settle();
    other.send(b"g other\n");
    s.settle();
    let mut asked: Vec<String> =
        [Some(x), s.backend("backends", 0), s.backend("backends", 0), s.backend("backends", 0)]
            .iter()
            .flatten()
            .map(text)
            .collect();
    asked.retain(|t| !t.is_empty());
    asked.sort();
    assert_eq!(asked, ["g big\n", "g other\n", "g small\n"]);
    assert_clean(&mut s);
}

/// The end of a message without an answer is unknown: its client's next request goes out behind it.
#[test]
fn a_message_without_an_answer_keeps_its_connection() {
    let mut s = sim(false, &[]);
    let (slow, c) = (s.client("client").unwrap(), s.client("client").unwrap());
    slow.window(Some(100));
    slow.send(b"g big\n");
    s.settle();
    c.send(b"q silent\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"D:1000000 big\n");
    x.send(&vec![b'z'; 400_000]);
    s.settle();
    c.send(b"g next\n");
    s.settle();
    assert_eq!(text(&x), "g big\nq silent\ng next\n");
    assert!(s.backend("backends", 0).is_none());
}

/// Without `share` each request has a connection to itself. A client's next request waits, and a
/// connection with bytes behind its answer serves nobody else.
#[test]
fn requests_do_not_share_connections_if_that_is_asked_for() {
    let mut s = sim(false, &["backends.share=false"]);
    let (a, b) = (s.client("client").unwrap(), s.client("client").unwrap());
    a.send(b"g a\ng b\n");
    b.send(b"g c\n");
    s.settle();
    let (x, y) = (s.backend("backends", 0).unwrap(), s.backend("backends", 0).unwrap());
    assert_eq!((text(&x), text(&y)), ("g a\n".into(), "g c\n".into()));
    y.send(b"r c\n");
    s.settle();
    assert_eq!(text(&b), "r c\n");
    y.send(b"r surplus\n");
    x.send(b"r a\n");
    s.settle();
    assert_eq!(y.ending(), Ending::Ended);
    // The connection of the first answer, or a new one.
    let z = s.backend("backends", 0);
    let asked = z.as_ref().unwrap_or(&x);
    assert_eq!((text(&a), text(asked)), ("r a\n".into(), "g b\n".into()));
    asked.send(b"r b\n");
    s.settle();
    assert_eq!((text(&a), text(&b)), ("r b\n".into(), String::new()));
    assert_clean(&mut s);
}
