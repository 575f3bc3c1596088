//! Connections that requests of one batch share where `pipeline` is `auto`. The tests show how a
//! backend earns the trust, and the cost if it did not deserve it.

use super::*;
use crate::engine::memory::Ending;
use std::time::Duration;

const CLIENTS: usize = 64;
const AUTO: &[&str] = &["backends.pipeline=auto"];

/// Many clients in front of one backend.
struct Crowd {
    s: Sim,
    clients: Vec<Peer>,
    servers: Vec<Peer>,
    asked: u64,
}

/// A connection and the requests, without their first letters, that lie on it.
type Group = (Peer, Vec<String>);

impl Crowd {
    fn new(sets: &[&str]) -> Crowd {
        let mut s = sim(true, &[&["backends.eject_after=100"], sets].concat());
        let clients = (0..CLIENTS).map(|_| s.client("client").unwrap()).collect();
        Crowd { s, clients, servers: Vec::new(), asked: 0 }
    }

    /// A crowd whose requests share.
    fn trusted() -> Crowd {
        let mut c = Crowd::new(AUTO);
        for _ in 0..200 {
            c.round();
        }
        assert!(c.most() >= 4, "they share");
        c
    }

    /// Every client asks, all in one batch.
    fn ask(&mut self) -> Vec<Group> {
        self.asked += 1;
        for (i, c) in self.clients.iter().enumerate() {
            c.send(format!("g0 {i}.{}\n", self.asked).as_bytes());
        }
        self.s.settle();
        self.groups()
    }

    /// The requests that the backend has received since, by connection.
    fn groups(&mut self) -> Vec<Group> {
        while let Some(x) = self.s.backend("backends", 0) {
            self.servers.push(x);
        }
        let of = |x: &Peer| text(x).lines().map(|l| l[3..].to_string()).collect::<Vec<_>>();
        self.servers.iter().map(|x| (x.clone(), of(x))).filter(|g| !g.1.is_empty()).collect()
    }

    fn answer(&mut self, groups: &[Group]) {
        for (x, asked) in groups {
            x.send(asked.iter().map(|a| format!("r {a}\n")).collect::<String>().as_bytes());
        }
        self.s.settle();
    }

    /// All have their answers to the last request, and nothing else.
    fn check(&self) {
        for (i, c) in self.clients.iter().enumerate() {
            assert_eq!(text(c), format!("r {i}.{}\n", self.asked));
        }
    }

    /// All ask and are answered within a millisecond; how many requests each connection had.
    fn round(&mut self) -> Vec<usize> {
        let groups = self.ask();
        self.s.advance(Duration::from_millis(1));
        self.answer(&groups);
        self.check();
        groups.iter().map(|g| g.1.len()).collect()
    }

    fn most(&mut self) -> usize {
        self.round().into_iter().max().unwrap_or(0)
    }

    /// Nothing is shared for so many seconds.
    fn is_calm_for(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.s.advance(Duration::from_millis(990));
            assert_eq!(self.most(), 1);
        }
    }

    fn shares_again(&mut self) {
        self.s.advance(Duration::from_secs(2));
        for _ in 0..200 {
            self.round();
        }
        assert!(self.most() >= 2, "they share again");
    }
}

/// The connection with the most requests; the others.
fn largest(mut groups: Vec<Group>) -> (Group, Vec<Group>) {
    groups.sort_by_key(|g| g.1.len());
    (groups.pop().unwrap(), groups)
}

#[test]
fn requests_of_one_batch_go_out_together_once_the_backend_has_earned_it() {
    let mut c = Crowd::new(AUTO);
    let sizes: Vec<Vec<usize>> = (0..200).map(|_| c.round()).collect();
    let most: Vec<usize> = sizes.iter().map(|s| *s.iter().max().unwrap()).collect();
    let pairs = most.iter().position(|n| *n > 1).expect("they share");
    assert_eq!((most[pairs], most.iter().max()), (2, Some(&8)), "{most:?}");
    assert!(sizes.iter().all(|s| s.len() >= 16), "enough connections are at work");
    assert_eq!(c.servers.len(), CLIENTS, "no connection but those that were there");
    let stats = &c.s.stats(0).ports[1];
    assert_eq!(
        (stats.requests.get(), stats.replies.get(), stats.retries.get()),
        (200 * CLIENTS as u64, 200 * CLIENTS as u64, 0)
    );
    assert!(stats.pipelined.get() > 2000);
    assert_clean(&mut c.s);
}

#[test]
fn nothing_is_put_behind_what_was_sent_before() {
    let mut c = Crowd::trusted();
    let (first, others) = largest(c.ask());
    assert!(first.1.len() > 1);
    let late = c.s.client("client").unwrap();
    late.send(b"g0 late\n");
    c.s.settle();
    let groups = c.groups();
    assert_eq!((groups.len(), groups[0].1.as_slice()), (1, &["late".to_string()][..]));
    assert!(others.iter().chain([&first]).all(|g| text(&g.0).is_empty()));
    c.answer(&groups);
    assert_eq!(text(&late), "r late\n");
    c.answer(&others);
    c.answer(&[first]);
    c.check();
    assert_clean(&mut c.s);
}

#[test]
fn nothing_is_shared_unless_it_is_asked_for() {
    let mut c = Crowd::new(&[]);
    for _ in 0..200 {
        assert_eq!(c.most(), 1);
    }
    assert_clean(&mut c.s);
}

#[test]
fn a_slow_answer_holds_up_those_behind_it_for_some_milliseconds() {
    let mut c = Crowd::trusted();
    let ((slow, asked), others) = largest(c.ask());
    c.s.advance(Duration::from_millis(1));
    c.answer(&others);
    let goes_on = c.s.client("client").unwrap();
    let mut again = Vec::new();
    for ms in 0..40 {
        goes_on.send(b"g0 on\n");
        c.s.settle();
        c.s.advance(Duration::from_millis(1));
        let (on, others): (Vec<Group>, Vec<Group>) = c.groups().into_iter().partition(|g| g.1 == ["on"]);
        c.answer(&on);
        assert_eq!(text(&goes_on), "r on\n");
        assert!(others.is_empty() || ms >= 18, "{ms} ms");
        again.extend(others);
    }
    assert_eq!(
        again.iter().map(|g| g.1.len()).collect::<Vec<_>>(),
        vec![1; asked.len() - 1],
        "each on its own connection"
    );
    c.answer(&again);
    slow.send(format!("r {}\nr {}\n", asked[0], asked[1]).as_bytes());
    c.s.settle();
    c.check();
    assert_ne!(slow.ending(), Ending::Open);
    assert_eq!(c.s.stats(0).faults.list(), []);
    c.is_calm_for(9);
    c.shares_again();
    assert_clean(&mut c.s);
}

#[test]
fn a_backend_that_rests_as_a_whole_gets_nothing_twice() {
    let mut c = Crowd::trusted();
    let groups = c.ask();
    c.s.advance(Duration::from_millis(230));
    assert!(c.groups().is_empty());
    c.answer(&groups);
    c.check();
    assert_eq!(c.s.stats(0).ports[1].retries.get(), 0);
    assert_clean(&mut c.s);
}

#[test]
fn a_backend_that_is_silent_for_longer_is_asked_again() {
    let mut c = Crowd::trusted();
    let groups = c.ask();
    c.s.advance(Duration::from_millis(300));
    let again = c.groups();
    let shared = groups.iter().filter(|g| g.1.len() > 1).map(|g| g.1.len() - 1).sum::<usize>();
    assert_eq!(again.len(), shared);
    let firsts: Vec<Group> = groups.into_iter().map(|(x, mut asked)| (x, asked.drain(..1).collect())).collect();
    c.answer(&firsts);
    c.answer(&again);
    c.check();
    assert_clean(&mut c.s);
}

#[test]
fn slow_answers_on_connections_of_their_own_end_the_sharing() {
    let mut c = Crowd::trusted();
    let poll = c.s.client("client").unwrap();
    poll.send(b"g0 poll\n");
    c.s.settle();
    let waiting = c.groups();
    c.s.advance(Duration::from_millis(200));
    c.answer(&waiting);
    assert_eq!(text(&poll), "r poll\n");
    c.is_calm_for(9);
    c.shares_again();
    assert_clean(&mut c.s);
}

/// Some simple servers drop the bytes that they have read behind a request.
#[test]
fn a_backend_that_drops_what_lies_behind_is_found_out_at_once() {
    let mut c = Crowd::new(AUTO);
    let groups = loop {
        let groups = c.ask();
        if groups.iter().any(|g| g.1.len() > 1) {
            break groups;
        }
        c.s.advance(Duration::from_millis(1));
        c.answer(&groups);
        c.check();
    };
    assert!(groups.iter().all(|g| g.1.len() <= 2), "pairs first");
    let dropped = groups.iter().filter(|g| g.1.len() == 2).count();
    let firsts: Vec<Group> = groups.iter().map(|(x, asked)| (x.clone(), asked[..1].to_vec())).collect();
    c.answer(&firsts[1..]);
    c.s.advance(Duration::from_millis(20));
    c.answer(&firsts[..1]);
    c.s.advance(Duration::from_millis(25));
    let again = c.groups();
    assert_eq!(again.len(), dropped);
    c.answer(&again);
    c.check();
    assert!(groups.iter().filter(|g| g.1.len() == 2).all(|g| g.0.ending() != Ending::Open));
    c.is_calm_for(59);
    assert_clean(&mut c.s);
}

#[test]
fn a_backend_that_closes_behind_each_answer_is_found_out_too() {
    let mut c = Crowd::new(AUTO);
    let mut lost = 0;
    for _ in 0..400 {
        let groups = c.ask();
        c.s.advance(Duration::from_millis(1));
        for (x, asked) in &groups {
            x.send(format!("r {}\n", asked[0]).as_bytes());
            if asked.len() > 1 {
                lost += asked.len() - 1;
                x.finish();
            }
        }
        c.s.settle();
        let again = c.groups();
        c.answer(&again);
        c.check();
    }
    assert!((1..=32).contains(&lost), "{lost} requests sent twice");
    assert_clean(&mut c.s);
}

#[test]
fn garbage_ends_the_sharing_for_a_minute() {
    let mut c = Crowd::trusted();
    let other = c.s.client("client").unwrap();
    other.send(b"d0:2 o\nhi");
    c.s.settle();
    let x = c.s.backend("backends", 0).unwrap();
    assert_eq!(text(&x), "d0:2 o\nhi", "a client's first request that may not be sent twice has a new connection");
    x.send(b"r o\nr o\n");
    c.s.settle();
    assert_eq!((text(&other), x.ending() != Ending::Open), ("r o\n".into(), true));
    c.is_calm_for(59);
    c.shares_again();
    assert_clean(&mut c.s);
}

#[test]
fn without_memory_for_a_request_no_connection_is_forgotten() {
    use crate::buffer::{ChunkPool, PoolLimits};
    let mut c = Crowd::trusted();
    c.s.core.pool = ChunkPool::new(PoolLimits { owned_bytes: 0, ..PoolLimits::default() });
    let groups = c.ask();
    assert!(groups.len() < CLIENTS, "some were refused");
    c.answer(&groups);
    let told = c.clients.iter().map(text).filter(|t| t.starts_with('!')).count();
    assert_eq!(told + groups.len(), CLIENTS);
    c.s.core.pool = ChunkPool::new(PoolLimits::default());
    let b = &c.s.core.apps[0].ports[1].backends[0];
    assert_eq!(b.open as usize, b.idle.len(), "all that are open can be used");
    c.round();
    assert_clean(&mut c.s);
}

/// Of a connection that was shared all are answered but the last one, whose answer has begun. The
/// connection, the last one's client.
fn one_left(c: &mut Crowd) -> (Peer, Peer) {
    let ((x, asked), others) = largest(c.ask());
    let (last, before) = asked.split_last().unwrap();
    c.answer(&others);
    c.answer(&[(x.clone(), before.to_vec())]);
    x.send(b"D:9 events\none");
    c.s.settle();
    let client = last.split('.').next().unwrap().parse::<usize>().unwrap();
    (x, c.clients[client].clone())
}

/// Server-sent events, say: too few to fill a buffer, and the only answer that is left on its
/// connection.
#[test]
fn what_comes_bit_by_bit_is_not_kept_back() {
    let mut c = Crowd::trusted();
    let (slow, client) = one_left(&mut c);
    assert_eq!(text(&client), "", "it may be complete soon");
    c.s.advance(Duration::from_millis(40));
    assert_eq!(text(&client), "D:9 events\none");
    assert!(c.groups().is_empty(), "nothing is sent twice");
    c.s.advance(Duration::from_secs(2));
    slow.send(b"twosix");
    c.s.settle();
    assert_eq!(text(&client), "twosix");
    assert_eq!(slow.ending(), Ending::Open, "the connection is used on");
    assert_clean(&mut c.s);
}

#[test]
fn an_answer_that_comes_bit_by_bit_for_nobody_is_given_up() {
    let mut c = Crowd::trusted();
    let (slow, client) = one_left(&mut c);
    client.reset();
    c.s.settle();
    c.s.advance(Duration::from_millis(40));
    assert_ne!(slow.ending(), Ending::Open);
    assert_clean(&mut c.s);
}
