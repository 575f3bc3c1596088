//! Lists of servers that change under load.

use super::*;
use crate::engine::memory::{Behaviour, Ending, Peer};
use std::time::Duration;

fn server(n: u16) -> std::net::SocketAddr {
    ([10, 9, 0, n as u8], 1).into()
}

/// Has the app read its list of servers again, with other settings beside it.
pub(super) fn list(s: &mut Sim, servers: &[u16], others: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let servers = servers.iter().map(|n| server(*n).to_string()).collect::<Vec<_>>().join(",");
    let others = others.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let sets: Vec<_> = others.chain([("servers".to_string(), servers)]).collect();
    let told = s.read_again(&sets).map_err(|e| e.to_string());
    s.settle();
    told
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn send(s: &mut Sim, c: &Peer, line: &str) {
    c.send(line.as_bytes());
    s.settle();
}

#[test]
fn a_server_that_is_gone_answers_what_it_has_got() {
    for exclusive in [true, false] {
        let mut s = sim(exclusive, &[]);
        let [c, d, e] = [0; 3].map(|_| s.client("client").unwrap());
        send(&mut s, &c, "g0 a\n");
        let x = s.net.accept(server(1)).unwrap();
        assert_eq!(text(&x), "g0 a\n");
        let told = list(&mut s, &[2, 3], &[]).unwrap();
        assert_eq!(told[1], "line.backends has 2 servers; new: 10.9.0.3:1; gone: 10.9.0.1:1");
        // The first is now the second of before, and the second one is new.
        send(&mut s, &d, "g0 b\n");
        send(&mut s, &e, "g1 c\n");
        let (y, z) = (s.net.accept(server(2)).unwrap(), s.net.accept(server(3)).unwrap());
        assert_eq!((text(&x), text(&y), text(&z)), ("".into(), "g0 b\n".into(), "g1 c\n".into()));
        s.advance(ms(200));
        assert_eq!(x.ending(), Ending::Open, "its answer is awaited");
        for (peer, answer) in [(&z, "r c\n"), (&y, "r b\n"), (&x, "r a\n")] {
            peer.send(answer.as_bytes());
        }
        s.settle();
        assert_eq!([&c, &d, &e].map(text), ["r a\n", "r b\n", "r c\n"]);
        s.advance(ms(100));
        assert_ne!(x.ending(), Ending::Open);
        assert_eq!((y.ending(), z.ending()), (Ending::Open, Ending::Open));
        let requests = |place: usize| s.stats(0).ports[1].backends[place].requests.get();
        assert_eq!([0, 1, 2].map(requests), [1, 1, 1]);
        assert_eq!(s.core.apps[0].ports[1].load[..], [0, 0]);
        // Its place is free for another.
        list(&mut s, &[3, 2, 4], &[]).unwrap();
        send(&mut s, &c, "g2 d\n");
        assert_eq!(text(&s.net.accept(server(4)).unwrap()), "g2 d\n");
        assert_eq!(s.core.apps[0].ports[1].backends.len(), 3);
        assert_eq!(s.stats(0).ports[1].backends[0].requests.get(), 1, "counted anew");
        assert_clean(&mut s);
    }
}

/// One that hangs is cut off when the limit of a drain is over.
#[test]
fn what_is_not_answered_is_cut_off_in_the_end() {
    for exclusive in [true, false] {
        let mut s = sim(exclusive, &["backends.call=60s"]);
        s.core.set_drain_limit(ms(500));
        let c = s.client("client").unwrap();
        send(&mut s, &c, "p0 a\n");
        let x = s.net.accept(server(1)).unwrap();
        list(&mut s, &[2], &[("backends.call", "60s")]).unwrap();
        s.advance(ms(400));
        assert_eq!((x.ending(), text(&c)), (Ending::Open, String::new()));
        s.advance(ms(200));
        assert_ne!(x.ending(), Ending::Open);
        assert!(text(&c).starts_with('!'));
        assert_clean(&mut s);
    }
}

/// A handler names servers by the list with which it began, also behind a call.
#[test]
fn a_handler_keeps_its_list() {
    let mut s = sim(true, &[]);
    let c = s.client("client").unwrap();
    send(&mut s, &c, "h1 a\n");
    let x = s.net.accept(server(2)).unwrap();
    assert_eq!(text(&x), "h1 a\n");
    list(&mut s, &[3], &[]).unwrap();
    x.send(b"r a\n");
    s.settle();
    let second = std::iter::from_fn(|| s.net.accept(server(2)).or_else(|| s.net.accept(server(1)))).last();
    let second = second.as_ref().unwrap_or(&x);
    assert!(text(second).contains("a\n"), "the second call");
    assert!(s.net.accept(server(3)).is_none());
    second.send(b"r a\n");
    s.settle();
    assert!(!text(&c).starts_with('!'));
    s.advance(ms(200));
    assert_ne!(second.ending(), Ending::Open);
    assert_clean(&mut s);
}

/// Health belongs to a server, wherever it stands in the list.
#[test]
fn a_server_that_is_down_stays_down() {
    let mut s = sim(true, &["backends.failover=next"]);
    let [c, d] = [0; 2].map(|_| s.client("client").unwrap());
    send(&mut s, &d, "p0 hold\n");
    let held = s.net.accept(server(1)).unwrap();
    s.behave("backends", 0, Behaviour::Refuse);
    let mut conns = Vec::new();
    for n in 0..8 {
        send(&mut s, &c, &format!("g0 {n}\n"));
        conns.extend(s.net.accept(server(2)));
        conns.last().unwrap().send(format!("r {n}\n").as_bytes());
        s.settle();
        assert_eq!(text(&c), format!("r {n}\n"));
    }
    assert_eq!(s.core.apps[0].ports[1].up[..], [0, 1]);
    list(&mut s, &[3, 1, 2], &[("backends.failover", "next")]).unwrap();
    assert_eq!(s.core.apps[0].ports[1].up[..], [1, 0, 1]);
    // While it has work under way, it may leave the list and come back.
    list(&mut s, &[3, 2], &[("backends.failover", "next")]).unwrap();
    s.advance(ms(500));
    list(&mut s, &[3, 2, 1], &[("backends.failover", "next")]).unwrap();
    assert_eq!(s.core.apps[0].ports[1].up[..], [1, 1, 0]);
    s.net.behave(server(1), Behaviour::Accept);
    s.advance(Duration::from_secs(4));
    assert_eq!(s.core.apps[0].ports[1].up[..], [1, 1, 1]);
    held.send(b"r hold\n");
    s.settle();
    // One that is gone is not probed.
    s.net.behave(server(1), Behaviour::Refuse);
    list(&mut s, &[3], &[("backends.failover", "next")]).unwrap();
    s.advance(Duration::from_secs(4));
    assert!(s.core.apps[0].ports[1].backends.iter().all(|b| b.open == 0));
    assert_clean(&mut s);
}

/// A request on its way to a server that cannot be reached goes to one of the new list.
#[test]
fn requests_fail_over_to_new_servers() {
    for exclusive in [true, false] {
        let mut s = sim(exclusive, &["backends.failover=next"]);
        (1..=2).for_each(|n| s.net.behave(server(n), Behaviour::Silent));
        let c = s.client("client").unwrap();
        send(&mut s, &c, "p0 a\n");
        list(&mut s, &[3], &[("backends.failover", "next")]).unwrap();
        s.advance(Duration::from_secs(3));
        let z = s.net.accept(server(3)).expect("the new one is asked");
        assert_eq!(text(&z), "p0 a\n");
        z.send(b"r a\n");
        s.settle();
        assert_eq!(text(&c), "r a\n");
        assert_clean(&mut s);
    }
}

#[test]
fn thousands_of_lists_take_no_more_memory() {
    let mut s = sim(true, &[]);
    let c = s.client("client").unwrap();
    for n in 0..1000u16 {
        let (one, other) = (1 + n % 200, 1 + (n * 7 + 3) % 200);
        list(&mut s, &[one, other], &[]).unwrap();
        send(&mut s, &c, "g0 a\n");
        let x = s.net.accept(server(one)).expect("the first of the list is asked");
        x.send(b"r a\n");
        s.settle();
        assert_eq!(text(&c), "r a\n");
        s.advance(ms(51));
    }
    let port = &s.core.apps[0].ports[1];
    assert!(port.backends.len() <= 8, "{} places", port.backends.len());
    assert!(port.backends.iter().filter(|b| b.instance.is_none()).all(|b| b.gone.is_some_and(|g| g.left)));
    assert_clean(&mut s);
}

#[test]
fn a_bad_list_changes_nothing() {
    let mut s = sim(true, &[]);
    let sets = [("servers".to_string(), "10.9.0.1".to_string())];
    assert!(s.read_again(&sets).unwrap_err().to_string().contains("has no port"));
    assert!(list(&mut s, &[1, 2, 3, 4, 5, 6, 7, 8, 9], &[]).unwrap_err().contains("at most 8 endpoints"));
    assert!(list(&mut s, &[1, 2], &[]).unwrap().is_empty());
    assert_eq!(list(&mut s, &[2], &[]).unwrap()[1], "line.backends has one server; gone: 10.9.0.1:1");
    list(&mut s, &[1, 2], &[]).unwrap();
    let c = s.client("client").unwrap();
    send(&mut s, &c, "g1 a\n");
    assert!(s.net.accept(server(2)).is_some());
}

/// One that was ejected from a longer list is tried at once if no other is left.
#[test]
fn a_list_of_servers_that_are_down_is_tried() {
    for exclusive in [true, false] {
        let mut s = sim(exclusive, &["backends.eject_after=3"]);
        let c = s.client("client").unwrap();
        let eject = |s: &mut Sim, n: u16, line: &str| {
            s.net.behave(server(n), Behaviour::Refuse);
            for _ in 0..3 {
                send(s, &c, line);
                assert_eq!(text(&c), "!9\n");
            }
            s.net.behave(server(n), Behaviour::Accept);
        };
        eject(&mut s, 1, "p0 a\n");
        // Another is up: this one has to answer its probe first.
        list(&mut s, &[1, 3], &[]).unwrap();
        assert_eq!(s.core.apps[0].ports[1].up[..], [0, 1]);
        list(&mut s, &[1], &[]).unwrap();
        assert_eq!(s.core.apps[0].ports[1].up[..], [1]);
        send(&mut s, &c, "p0 b\n");
        let x = s.net.accept(server(1)).unwrap();
        assert_eq!(text(&x), "p0 b\n");
        x.send(b"r b\n");
        s.settle();
        assert_eq!(text(&c), "r b\n");
        // It is the last one, and stays in use.
        s.net.behave(server(1), Behaviour::Refuse);
        x.reset();
        s.settle();
        for _ in 0..5 {
            send(&mut s, &c, "p0 c\n");
            text(&c);
        }
        assert_eq!(s.core.apps[0].ports[1].up[..], [1]);
        assert_clean(&mut s);
    }
}

/// Two that were ejected one after the other, and nothing else.
#[test]
fn all_servers_of_a_list_are_tried_if_none_is_up() {
    let mut s = sim(true, &[]);
    let c = s.client("client").unwrap();
    list(&mut s, &[1, 2, 3], &[]).unwrap();
    for (n, line) in [(1, "p0 a\n"), (2, "p1 a\n")] {
        s.net.behave(server(n), Behaviour::Refuse);
        for _ in 0..5 {
            send(&mut s, &c, line);
        }
    }
    text(&c);
    assert_eq!(s.core.apps[0].ports[1].up[..], [0, 0, 1]);
    list(&mut s, &[2, 1], &[]).unwrap();
    assert_eq!(s.core.apps[0].ports[1].up[..], [1, 1]);
    s.net.behave(server(2), Behaviour::Accept);
    send(&mut s, &c, "p0 b\n");
    assert_eq!(text(&s.net.accept(server(2)).unwrap()), "p0 b\n");
    assert_clean(&mut s);
}
