//! Programs with a cache that is written back, beside the rules (`lang/src/apps/write_back.rs`).
//!
//! Random schedules of reads, writes, answers and losses. Each answer to a client, and each request
//! to the server, is one that the rules allow. In the end the server has what was written last.

use crate::cache_model::{Broken, Protocol};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wireloom_runtime::core::app::App;
use wireloom_runtime::engine::memory::Peer;
use wireloom_runtime::sim::Sim;
use wireloom_runtime::Program;
use wireloom_tests::folder::Folder;
use wireloom_tests::programs::twins;

const APP: &str = r#"
unit Ask    { id: u16  write: u8  key: u8  value: u8 }
unit Answer { id: u16  value: u8 }

protocol values {
    request  Ask
    response Answer
    order    by id
    sharing  pipelined
    stateless
    on fault(f) { if let r = request { reply Answer { id: r.id, value: 255 } } }
}

app behind {
    param server: endpoint
    port client = listen udp(7000)    as values
    port store  = connect udp(server) as values { answer_timeout 998ms, idle_timeout 9h, eject_after 0 }

    cache hot: u8 -> u8 { capacity 100, dirty 2, allocate_on_read, write_back 1s, write_timeout 10s }

    on hot.write_back(e) {
        let a = call store(Ask { id: 0, write: 1, key: e.key, value: e.value })
        if a.value != e.value { return }
    }

    on client(req) {
        if req.write == 1 {
            write hot[req.key] { req.value }
            reply Answer { id: req.id, value: req.value }
            return
        }
        let value = cached hot[req.key] { (call store(req)).value }
        reply Answer { id: req.id, value: value }
    }
}
"#;

/// Dirty entries at most, and keys.
const MOST: usize = 2;
const KEYS: u8 = 3;
/// Milliseconds: a step of time, how long an answer is awaited, and a write may be under way.
const STEP: u64 = 250;
const ANSWER: u64 = 1000;
const TIMEOUT: u64 = 10_000;

/// An entry: value, number, and until when it is claimed.
#[derive(Clone, Copy)]
struct Entry {
    value: u8,
    number: u64,
    claimed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    /// A client, with its lease.
    Read {
        client: u16,
        lease: Option<u8>,
    },
    Write {
        client: u16,
    },
    /// An entry of this number.
    Entry {
        number: u64,
    },
}

/// A request that the server has not answered.
#[derive(Clone, Copy)]
struct Waiting {
    number: [u8; 2],
    key: u8,
    value: u8,
    mine: u8,
    asked: u64,
    of: For,
}

/// A run of a program beside the rules.
struct Run {
    sim: Sim,
    client: Peer,
    store: Option<Peer>,
    cache: Protocol,
    since: [u64; KEYS as usize],
    dirty: BTreeMap<u8, Entry>,
    server: [u8; KEYS as usize],
    /// The values of which one must be there in the end: the last write, and those beside it.
    last: [BTreeSet<u8>; KEYS as usize],
    waiting: Vec<Waiting>,
    next: u16,
    time: u64,
    answers: Vec<Vec<u8>>,
    /// Hits, misses, stale fills, written ones, failed tries, lost ones.
    counts: [u64; 6],
}

impl Run {
    fn new(program: &Program, module: &wireloom_ir::Module) -> Run {
        let sets = [("server".to_string(), "10.0.0.9:1".to_string())];
        let app = App::new(program.clone(), module.desc(), &sets).expect("a program and its description");
        let mut sim = Sim::new(vec![app]).expect("the app is simulated");
        let client = sim.client("client").expect("it listens");
        Run {
            sim,
            client,
            store: None,
            cache: Protocol::new(KEYS.into(), Broken::Nothing),
            since: [0; KEYS as usize],
            dirty: BTreeMap::new(),
            server: [0; KEYS as usize],
            last: std::array::from_fn(|_| BTreeSet::from([0])),
            waiting: Vec::new(),
            next: 1,
            time: 0,
            answers: Vec::new(),
            counts: [0; 6],
        }
    }

    /// The message of a client.
    fn send(&mut self, write: u8, key: u8, value: u8) -> u16 {
        let id = self.next;
        self.next += 1;
        self.client.send(&[(id >> 8) as u8, id as u8, write, key, value]);
        self.sim.settle();
        id
    }

    /// The next request at the server.
    fn request(&mut self) -> Option<Vec<u8>> {
        if self.store.is_none() {
            self.store = self.sim.backend("store", 0);
        }
        self.store.as_mut()?.datagram()
    }

    fn begins(&mut self, key: u8) -> u8 {
        self.since[usize::from(key)] = self.time;
        let mine = self.cache.write_begins(key);
        self.cache.remove(key);
        mine
    }

    fn read(&mut self, key: u8) {
        let client = self.send(0, key, 0);
        if let Some(d) = self.dirty.get(&key) {
            self.counts[0] += 1;
            return self.expect(client, d.value);
        }
        let (entry, lease) = (self.cache.entries.get(&key).copied(), self.cache.lease(key));
        if let Some(value) = self.cache.hit(entry, &lease) {
            self.counts[0] += 1;
            return self.expect(client, value);
        }
        self.counts[1] += 1;
        let asked = self.request().expect("a miss asks the server");
        assert_eq!(asked[2..4], [0, key]);
        let of = For::Read { client, lease: self.cache.take(&lease) };
        self.waiting.push(Waiting { number: [asked[0], asked[1]], key, value: 0, mine: 0, asked: self.time, of });
    }

    fn write(&mut self, key: u8, value: u8) {
        let client = self.send(1, key, value);
        let full = self.dirty.len() >= MOST && !self.dirty.contains_key(&key);
        if full {
            let mine = self.begins(key);
            let asked = self.request().expect("it goes to the server at once");
            assert_eq!(asked[2..], [1, key, value]);
            let of = For::Write { client };
            self.waiting.push(Waiting { number: [asked[0], asked[1]], key, value, mine, asked: self.time, of });
            return;
        }
        let d = self.dirty.entry(key).or_insert(Entry { value, number: 0, claimed: 0 });
        (d.value, d.number) = (value, u64::from(client));
        self.last[usize::from(key)] = BTreeSet::from([value]);
        self.expect(client, value);
    }

    /// Entries that a task has claimed meanwhile.
    fn claims(&mut self) {
        while let Some(asked) = self.request() {
            let (key, value) = (asked[3], asked[4]);
            assert_eq!(asked[2], 1, "a read that nobody has asked for");
            let (now, mine) = (self.time, self.begins(key));
            let d = self.dirty.get_mut(&key).expect("a clean entry is not written");
            assert_eq!(value, d.value, "the value is the last one");
            assert!(d.claimed <= now, "it is claimed until {}, now is {now}", d.claimed);
            self.counts[4] += u64::from(d.claimed > 0);
            // The claim began within the last step of time.
            d.claimed = now + TIMEOUT - STEP;
            let of = For::Entry { number: d.number };
            self.waiting.push(Waiting { number: [asked[0], asked[1]], key, value, mine, asked: now, of });
        }
    }

    fn answer(&mut self, which: usize) {
        let w = self.waiting.swap_remove(which);
        let key = usize::from(w.key);
        if !matches!(w.of, For::Read { .. }) {
            self.server[key] = w.value;
        }
        let value = self.server[key];
        self.store.as_ref().expect("it was asked").send(&[w.number[0], w.number[1], value]);
        self.sim.settle();
        match w.of {
            For::Read { client, lease } => {
                match self.cache.may_fill(lease, &self.cache.lease(w.key)) {
                    true => self.cache.put(w.key, lease.expect("a fill has a lease"), value),
                    false => self.counts[2] += 1,
                }
                self.expect(client, value);
            }
            For::Write { client } => {
                self.cache.write_ends(w.key, w.mine);
                self.last[key].insert(value);
                self.expect(client, value);
            }
            For::Entry { number } => {
                self.counts[3] += 1;
                let same = self.dirty.get(&w.key).is_some_and(|d| d.number == number);
                if let (Some(version), true) = (self.cache.write_ends(w.key, w.mine), same) {
                    self.cache.put(w.key, version, value);
                }
                match self.dirty.get_mut(&w.key) {
                    Some(d) if !same => d.claimed = 0,
                    _ => drop(self.dirty.remove(&w.key)),
                }
            }
        }
        self.claims();
    }

    /// A step of time. Requests of too long ago are given up. The step is all that is known of the
    /// time of a claim. So the program's patience is 2 ms shorter.
    fn step(&mut self) {
        self.sim.advance(Duration::from_millis(STEP));
        self.time += STEP;
        let (late, waiting) = self.waiting.iter().partition(|w| self.time - w.asked >= ANSWER);
        self.waiting = waiting;
        let late: Vec<Waiting> = late;
        for w in late {
            match w.of {
                For::Read { client, .. } | For::Write { client } => self.expect(client, 255),
                For::Entry { .. } => {}
            }
        }
        for (lease, since) in self.cache.leases.iter_mut().zip(self.since) {
            lease.over = lease.writers > 0 && self.time - since >= TIMEOUT;
        }
        self.claims();
    }

    fn expect(&mut self, id: u16, value: u8) {
        self.answers.extend(std::iter::from_fn(|| self.client.datagram()));
        let wanted = vec![(id >> 8) as u8, id as u8, value];
        let at = self.answers.iter().position(|a| *a == wanted);
        self.answers.swap_remove(at.unwrap_or_else(|| panic!("{wanted:?} is not among {:?}", self.answers)));
    }

    /// The server answers until nothing is dirty; then it has what was written last.
    fn ends(&mut self) {
        for _ in 0..200 {
            while !self.waiting.is_empty() {
                self.answer(0);
            }
            self.step();
        }
        assert!(self.dirty.is_empty() && self.answers.is_empty());
        for (key, last) in self.last.iter().enumerate() {
            assert!(last.contains(&self.server[key]), "key {key}: {} and not {last:?}", self.server[key]);
        }
        self.sim.core.publish();
        let counted: Vec<u64> = self.sim.stats(0).counters.iter().map(|c| c.get()).collect();
        assert_eq!(counted, self.counts, "hits, misses, stale fills, written, failed and lost ones");
    }
}

/// Runs of random schedules, interpreted and compiled.
#[test]
fn programs_follow_the_rules() {
    let folder = Folder::new("write-back-model");
    let file = folder.path().join("behind.loom");
    std::fs::write(&file, APP).expect("the folder is writable");
    let twins = twins(&file);
    let mut sum = [0; 6];
    for program in [Some(&twins.interpreted), twins.compiled.as_ref()].into_iter().flatten() {
        for seed in 1..=30 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut run = Run::new(program, &twins.module);
            for n in 0..200 {
                match random.u8(0..100) {
                    0..=24 => run.read(random.u8(0..KEYS)),
                    25..=44 => run.write(random.u8(0..KEYS), 1 + n),
                    45..=74 if !run.waiting.is_empty() => {
                        let which = random.usize(0..run.waiting.len());
                        run.answer(which);
                    }
                    _ => run.step(),
                }
            }
            run.ends();
            (0..6).for_each(|i| sum[i] += run.counts[i]);
        }
    }
    assert!(sum[..5].iter().all(|n| *n > 30) && sum[5] == 0, "each kind is there: {sum:?}");
}
