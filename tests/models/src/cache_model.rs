//! The protocol of caches (`lang/src/apps/caches.rs`): all interleavings of its steps, and programs
//! against it.
//!
//! [`Protocol`] has the steps, each of which is atomic in a program: one look at a table or one
//! change of an entry. [`World`] lets three clients, two keys and a server take them in any order.
//! There are lost messages, writes that are applied after they were given up, eviction, and leases
//! that
//! two keys share. Stateright visits every state. `programs_follow_the_protocol` gives random
//! schedules to a program, interpreted and compiled, and expects at each step what [`Protocol`]
//! says.

use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::BTreeMap;
use std::time::Duration;
use wireloom_runtime::core::app::App;
use wireloom_runtime::engine::memory::Peer;
use wireloom_runtime::sim::Sim;
use wireloom_runtime::Program;
use wireloom_tests::folder::Folder;
use wireloom_tests::programs::{twins, LONG};

/// A part of the protocol that is left out, to see that the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Broken {
    Nothing,
    /// A value is kept without a look at its lease.
    FillWithoutLease,
    /// Values are kept, and served, while a write is under way.
    BlindToWrites,
    /// An entry counts whatever its version.
    HitWithoutVersion,
    /// A write voids leases when it ends only.
    WriteBeginsInSilence,
    /// A write voids leases when it begins only.
    WriteEndsInSilence,
    /// The value of a write is kept even if another came between.
    KeepOverlappingWrites,
    /// Of a cache with ways: the entry in a place counts for any key.
    EntryOfAnyKey,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Lease {
    pub(crate) version: u8,
    pub(crate) writers: u8,
    /// The last write to begin has been under way for longer than `write_timeout`.
    pub(crate) over: bool,
}

impl Lease {
    pub(crate) fn quiet(&self) -> bool {
        self.writers == 0 || self.over
    }
}

/// The two tables of a cache. Each function is one step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Protocol {
    pub(crate) broken: Broken,
    pub(crate) leases: Vec<Lease>,
    /// By key: the version, and the value.
    pub(crate) entries: BTreeMap<u8, (u8, u8)>,
    /// Of a cache with ways: both keys share the only place of a set.
    pub(crate) place: Option<Place>,
}

/// The tag of a set of one way (`lang/src/apps/cache_ways.rs`), and the entry in its place: key,
/// version and value. Tags and entries change in two steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    tag: Option<u8>,
    entry: Option<(u8, u8, u8)>,
}

impl Protocol {
    pub(crate) fn new(leases: usize, broken: Broken) -> Protocol {
        Protocol { broken, leases: vec![Lease::default(); leases], entries: BTreeMap::new(), place: None }
    }

    pub(crate) fn slot(&self, key: u8) -> usize {
        usize::from(key) % self.leases.len()
    }

    pub(crate) fn lease(&self, key: u8) -> Lease {
        self.leases[self.slot(key)].clone()
    }

    /// Whether an entry counts, by the lease that was read after it.
    pub(crate) fn hit(&self, entry: Option<(u8, u8)>, lease: &Lease) -> Option<u8> {
        let (version, value) = entry?;
        let current = version == lease.version || self.broken == Broken::HitWithoutVersion;
        let quiet = lease.quiet() || self.broken == Broken::BlindToWrites;
        (current && quiet).then_some(value)
    }

    /// The lease of a miss.
    pub(crate) fn take(&self, lease: &Lease) -> Option<u8> {
        (lease.quiet() || self.broken == Broken::BlindToWrites).then_some(lease.version)
    }

    pub(crate) fn may_fill(&self, taken: Option<u8>, now: &Lease) -> bool {
        match self.broken {
            Broken::FillWithoutLease => true,
            Broken::BlindToWrites => taken == Some(now.version),
            _ => taken == Some(now.version) && now.quiet(),
        }
    }

    pub(crate) fn put(&mut self, key: u8, version: u8, value: u8) {
        match &mut self.place {
            Some(place) => place.entry = Some((key, version, value)),
            None => drop(self.entries.insert(key, (version, value))),
        }
    }

    /// The entry of a key whose tag was found.
    pub(crate) fn placed(&self, key: u8) -> Option<(u8, u8)> {
        let any = self.broken == Broken::EntryOfAnyKey;
        let entry = self.place.as_ref().and_then(|p| p.entry).filter(|(own, ..)| any || *own == key);
        entry.map(|(_, version, value)| (version, value))
    }

    /// A write begins; gives the version that it has made.
    pub(crate) fn write_begins(&mut self, key: u8) -> u8 {
        let (slot, silent) = (self.slot(key), self.broken == Broken::WriteBeginsInSilence);
        let lease = &mut self.leases[slot];
        let others = if lease.quiet() { 0 } else { lease.writers };
        lease.writers = others + u8::from(!silent);
        lease.version += u8::from(!silent);
        lease.over = false;
        lease.version
    }

    pub(crate) fn remove(&mut self, key: u8) {
        self.entries.remove(&key);
    }

    /// A write ends; gives the version under which its value may be kept.
    pub(crate) fn write_ends(&mut self, key: u8, mine: u8) -> Option<u8> {
        let (slot, broken) = (self.slot(key), self.broken);
        let lease = &mut self.leases[slot];
        lease.version += u8::from(broken != Broken::WriteEndsInSilence);
        lease.writers = lease.writers.saturating_sub(1);
        if lease.writers == 0 {
            lease.over = false;
        }
        let alone = lease.version == mine + 1 && lease.writers == 0;
        (alone || broken == Broken::KeepOverlappingWrites).then_some(lease.version)
    }
}

// ---- all interleavings ----

/// A message to the server or back. A value is the number of the write that made it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Message {
    Request,
    Answer(u8),
}

/// Where a client's handler is. `floor` is the newest value that a client had the answer for when
/// the read began: it must not get an older one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum At {
    Idle,
    Finds {
        key: u8,
        floor: u8,
    },
    Looks {
        key: u8,
        floor: u8,
        entry: Option<(u8, u8)>,
    },
    Hits {
        key: u8,
        floor: u8,
        value: u8,
    },
    Asks {
        key: u8,
        floor: u8,
        lease: Option<u8>,
        message: Message,
    },
    Fills {
        key: u8,
        floor: u8,
        lease: Option<u8>,
        value: u8,
        may: Option<bool>,
    },
    Begins {
        key: u8,
        mine: u8,
    },
    Writes {
        key: u8,
        mine: u8,
        message: Message,
    },
    Ends {
        key: u8,
        version: Option<u8>,
        value: u8,
    },
    /// Of a cache with ways: the tag has changed. `floor`: of a read.
    Stores {
        key: u8,
        floor: Option<u8>,
        version: u8,
        value: u8,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct State {
    cache: Protocol,
    /// By key: the number of its last write, and the newest one whose answer a client has read.
    server: [u8; 2],
    known: [u8; 2],
    clients: Vec<(u8, At)>,
    /// Keys of writes that were given up, and may still be applied.
    astray: Vec<u8>,
    losses: u8,
    strict: bool,
    wrong: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Read(usize, u8),
    Write(usize, u8),
    Step(usize),
    Serve(usize),
    GiveUp(usize),
    ApplyAstray(usize),
    LeaseIsOver(usize),
    Evict(u8),
}

#[derive(Clone)]
struct World {
    /// Two keys share a lease, or have their own.
    leases: usize,
    broken: Broken,
    /// How many reads and writes each client makes.
    turns: Vec<u8>,
    losses: u8,
    /// A value that a client has read is known, too: reads do not go back. That holds where no
    /// write is given up, as one that is may be applied at any time later.
    strict: bool,
    /// Whether what is written is kept.
    keeps_writes: bool,
    ways: bool,
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let place = self.ways.then(Place::default);
        vec![State {
            cache: Protocol { place, ..Protocol::new(self.leases, self.broken) },
            server: [0; 2],
            known: [0; 2],
            clients: self.turns.iter().map(|n| (*n, At::Idle)).collect(),
            astray: Vec::new(),
            losses: self.losses,
            strict: self.strict,
            wrong: false,
        }]
    }

    fn actions(&self, s: &State, out: &mut Vec<Action>) {
        for (c, (turns, at)) in s.clients.iter().enumerate() {
            match at {
                At::Idle if *turns > 0 => {
                    for key in 0..2 {
                        out.extend([Action::Read(c, key), Action::Write(c, key)]);
                    }
                }
                At::Idle => {}
                At::Asks { message, .. } | At::Writes { message, .. } => {
                    out.push(match message {
                        Message::Request => Action::Serve(c),
                        Message::Answer(_) => Action::Step(c),
                    });
                    if s.losses > 0 {
                        out.push(Action::GiveUp(c));
                    }
                }
                _ => out.push(Action::Step(c)),
            }
        }
        out.extend((0..s.astray.len()).map(Action::ApplyAstray));
        for slot in 0..s.cache.leases.len() {
            let l = &s.cache.leases[slot];
            let writing = s.clients.iter().any(|(_, at)| match at {
                At::Begins { key, .. } | At::Writes { key, .. } => s.cache.slot(*key) == slot,
                _ => false,
            });
            // A write may last longer than `write_timeout`; then reads may go back until it ends.
            if l.writers > 0 && !l.over && !(self.strict && writing) {
                out.push(Action::LeaseIsOver(slot));
            }
        }
        out.extend(s.cache.entries.keys().map(|k| Action::Evict(*k)));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut s = last.clone();
        match action {
            Action::Read(c, key) => {
                s.clients[c].0 -= 1;
                let (floor, entry) = (s.known[usize::from(key)], s.cache.entries.get(&key).copied());
                let tagged = s.cache.place.as_ref().is_some_and(|p| p.tag == Some(key));
                s.clients[c].1 = if tagged { At::Finds { key, floor } } else { At::Looks { key, floor, entry } };
            }
            Action::Write(c, key) => {
                s.clients[c].0 -= 1;
                s.clients[c].1 = At::Begins { key, mine: s.cache.write_begins(key) };
            }
            Action::Serve(c) => s.serve(c),
            Action::Step(c) => s.step(c, self.keeps_writes),
            Action::GiveUp(c) => {
                s.losses -= 1;
                if let At::Writes { key, message: Message::Request, .. } = s.clients[c].1 {
                    s.astray.push(key);
                    s.astray.sort_unstable();
                }
                s.clients[c].1 = At::Idle;
            }
            Action::ApplyAstray(n) => {
                let key = s.astray.remove(n);
                s.server[usize::from(key)] += 1;
            }
            Action::LeaseIsOver(slot) => s.cache.leases[slot].over = true,
            Action::Evict(key) => s.cache.remove(key),
        }
        Some(s.canonical())
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always("no value older than one that is known", |_, s: &State| !s.wrong),
            Property::sometimes("a hit", |_, s: &State| {
                s.clients.iter().any(|(_, at)| matches!(at, At::Hits { value, .. } if *value > 0))
            }),
            Property::sometimes("a stale fill is refused", |_, s: &State| {
                s.clients.iter().any(|(_, at)| matches!(at, At::Fills { lease: Some(_), may: Some(false), .. }))
            }),
            Property::sometimes("a write goes astray and is applied", |_, s: &State| {
                s.losses == 0 && s.astray.is_empty() && s.server != s.known && s.clients.iter().all(|c| c.1 == At::Idle)
            }),
        ]
    }
}

impl At {
    /// With the keys exchanged.
    fn mirrored(mut self) -> At {
        match &mut self {
            At::Idle => {}
            At::Finds { key, .. }
            | At::Stores { key, .. }
            | At::Looks { key, .. }
            | At::Hits { key, .. }
            | At::Asks { key, .. }
            | At::Fills { key, .. }
            | At::Begins { key, .. }
            | At::Writes { key, .. }
            | At::Ends { key, .. } => *key = 1 - *key,
        }
        self
    }
}

impl State {
    /// Clients differ by nothing but where they are, and the keys by nothing at all. So of states
    /// that are equal but for the names, one is visited.
    fn canonical(mut self) -> State {
        self.clients.sort_unstable();
        let mirrored = self.clone().mirrored();
        self.min(mirrored)
    }

    /// With the keys exchanged.
    fn mirrored(mut self) -> State {
        self.cache.leases.reverse();
        self.cache.entries = self.cache.entries.into_iter().map(|(key, entry)| (1 - key, entry)).collect();
        if let Some(place) = &mut self.cache.place {
            place.tag = place.tag.map(|key| 1 - key);
            place.entry = place.entry.map(|(key, version, value)| (1 - key, version, value));
        }
        self.server.reverse();
        self.known.reverse();
        self.clients = self.clients.into_iter().map(|(turns, at)| (turns, at.mirrored())).collect();
        self.clients.sort_unstable();
        self.astray = self.astray.iter().map(|key| 1 - key).collect();
        self.astray.sort_unstable();
        self
    }

    fn serve(&mut self, c: usize) {
        match &mut self.clients[c].1 {
            At::Asks { key, message, .. } => *message = Message::Answer(self.server[usize::from(*key)]),
            At::Writes { key, message, .. } => {
                self.server[usize::from(*key)] += 1;
                *message = Message::Answer(self.server[usize::from(*key)]);
            }
            _ => {}
        }
    }

    fn reads(&mut self, key: u8, floor: u8, value: u8) -> At {
        self.wrong |= value < floor;
        if self.strict {
            let known = &mut self.known[usize::from(key)];
            *known = (*known).max(value);
        }
        At::Idle
    }

    /// The client has read the answer to its write.
    fn written(&mut self, key: u8, value: u8) -> At {
        let known = &mut self.known[usize::from(key)];
        *known = (*known).max(value);
        At::Idle
    }

    /// A value is kept: of a cache with ways the tag changes first.
    fn keeps(&mut self, c: usize, stores: At) {
        let At::Stores { key, .. } = stores else { return };
        self.clients[c].1 = stores;
        match &mut self.cache.place {
            Some(place) => place.tag = Some(key),
            None => self.step(c, true),
        }
    }

    /// The next step of a client's handler.
    fn step(&mut self, c: usize, keeps_writes: bool) {
        let next = match self.clients[c].1.clone() {
            At::Idle => At::Idle,
            At::Finds { key, floor } => At::Looks { key, floor, entry: self.cache.placed(key) },
            At::Looks { key, floor, entry } => {
                let lease = self.cache.lease(key);
                match self.cache.hit(entry, &lease) {
                    Some(value) => At::Hits { key, floor, value },
                    None => At::Asks { key, floor, lease: self.cache.take(&lease), message: Message::Request },
                }
            }
            At::Hits { key, floor, value } => self.reads(key, floor, value),
            At::Asks { key, floor, lease, message: Message::Answer(value) } => {
                At::Fills { key, floor, lease, value, may: None }
            }
            At::Fills { key, floor, lease, value, may: None } => {
                let may = self.cache.may_fill(lease, &self.cache.lease(key));
                At::Fills { key, floor, lease, value, may: Some(may) }
            }
            At::Fills { key, floor, lease, value, may: Some(may) } => {
                if may {
                    let version = lease.unwrap_or_else(|| self.cache.lease(key).version);
                    return self.keeps(c, At::Stores { key, floor: Some(floor), version, value });
                }
                self.reads(key, floor, value)
            }
            At::Stores { key, floor, version, value } => {
                self.cache.put(key, version, value);
                match floor {
                    Some(floor) => self.reads(key, floor, value),
                    None => self.written(key, value),
                }
            }
            At::Begins { key, mine } => {
                self.cache.remove(key);
                At::Writes { key, mine, message: Message::Request }
            }
            At::Writes { key, mine, message: Message::Answer(value) } => {
                let version = self.cache.write_ends(key, mine).filter(|_| keeps_writes);
                At::Ends { key, version, value }
            }
            At::Ends { key, version, value } => {
                if let Some(version) = version {
                    return self.keeps(c, At::Stores { key, floor: None, version, value });
                }
                self.written(key, value)
            }
            waiting => waiting,
        };
        self.clients[c].1 = next;
    }
}

fn world(leases: usize, broken: Broken) -> World {
    // A long run takes minutes.
    let turns = if std::env::var_os(LONG).is_some() { vec![2, 2, 1] } else { vec![2, 1, 1] };
    World { leases, broken, turns, losses: 1, strict: false, keeps_writes: true, ways: false }
}

fn no_counterexample(world: World) {
    let checker = world.clone().checker().threads(2).spawn_dfs().join();
    assert!(checker.is_done());
    eprintln!("{} leases: {} states", world.leases, checker.unique_state_count());
    assert!(checker.unique_state_count() > 10_000);
    checker.assert_properties();
}

/// Without losses: no client reads an older value than another has read before.
fn strict(leases: usize, broken: Broken) -> World {
    World { losses: 0, strict: true, ..world(leases, broken) }
}

#[test]
fn reads_do_not_go_back() {
    for leases in [1, 2] {
        let checker = strict(leases, Broken::Nothing).checker().threads(2).spawn_dfs().join();
        assert!(checker.is_done() && checker.unique_state_count() > 1000);
        checker.assert_no_discovery("no value older than one that is known");
    }
}

#[test]
fn all_interleavings_with_a_lease_for_each_key() {
    no_counterexample(world(2, Broken::Nothing));
}

#[test]
fn all_interleavings_with_a_shared_lease() {
    no_counterexample(world(1, Broken::Nothing));
}

#[test]
fn all_interleavings_without_kept_writes() {
    no_counterexample(World { keeps_writes: false, ..world(2, Broken::Nothing) });
}

/// With ways an entry stays when a write begins, and may lie where the tag is another key's.
#[test]
fn all_interleavings_of_two_keys_in_one_place() {
    let turns = if std::env::var_os(LONG).is_some() { vec![2, 1, 1] } else { vec![1, 1, 1] };
    no_counterexample(World { ways: true, turns: turns.clone(), ..world(2, Broken::Nothing) });
    let checker = World { ways: true, turns: turns.clone(), ..strict(2, Broken::Nothing) }
        .checker()
        .threads(2)
        .spawn_dfs()
        .join();
    checker.assert_no_discovery("no value older than one that is known");
    let broken = World { ways: true, turns, ..world(1, Broken::EntryOfAnyKey) };
    let checker = broken.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    assert!(checker.discovery("no value older than one that is known").is_some());
}

/// Each part of the protocol is needed.
#[test]
fn without_a_part_there_is_a_counterexample() {
    for broken in [
        Broken::FillWithoutLease,
        Broken::BlindToWrites,
        Broken::HitWithoutVersion,
        Broken::WriteBeginsInSilence,
        Broken::WriteEndsInSilence,
        Broken::KeepOverlappingWrites,
    ] {
        let needs_strict = matches!(broken, Broken::BlindToWrites | Broken::WriteBeginsInSilence);
        let world = if needs_strict { strict(2, broken) } else { world(2, broken) };
        let checker = world.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let found = checker.discovery("no value older than one that is known");
        assert!(found.is_some(), "{broken:?} makes no difference");
    }
}

// ---- programs ----

const APP: &str = r#"
unit Ask    { id: u16  write: u8  key: u8 }
unit Answer { id: u16  value: u8 }

protocol values {
    request  Ask
    response Answer
    order    by id
    sharing  pipelined
    stateless
    on fault(f) { if let r = request { reply Answer { id: r.id, value: 255 } } }
}

app caching {
    param server: endpoint
    port client = listen udp(7000)    as values
    port store  = connect udp(server) as values { answer_timeout 1s, idle_timeout 9h, eject_after 0 }

    cache hot: u8 -> u8 { capacity 100, allocate_on_read, write_through, write_timeout 10s }

    on client(req) {
        if req.write == 1 {
            write hot[req.key] {
                let a = call store(req)
                reply a
                a.value
            }
            return
        }
        let value = cached hot[req.key] { (call store(req)).value }
        reply Answer { id: req.id, value: value }
    }
}
"#;

/// A request that the server has not answered.
struct Waiting {
    number: [u8; 2],
    client: u16,
    key: u8,
    /// A read with its lease, or a write with its version.
    read: Option<Option<u8>>,
    mine: u8,
}

/// A run of a program beside the model.
struct Run {
    sim: Sim,
    client: Peer,
    store: Option<Peer>,
    model: Protocol,
    server: [u8; 3],
    waiting: Vec<Waiting>,
    next: u16,
    counts: [u64; 3],
    /// Answers that came with another one.
    early: Vec<Vec<u8>>,
    /// Milliseconds so far, and when the last write of each key began.
    time: u64,
    since: [u64; 3],
    /// Of a cache with ways: how many its set has, and the keys in it, the one used last first.
    set: Option<(usize, Vec<u8>)>,
}

impl Run {
    fn new(program: &Program, module: &wireloom_ir::Module, ways: Option<usize>) -> Run {
        let sets = [("server".to_string(), "10.0.0.9:1".to_string())];
        let app = App::new(program.clone(), module.desc(), &sets).expect("a program and its description");
        let mut sim = Sim::new(vec![app]).expect("the app is simulated");
        let client = sim.client("client").expect("it listens");
        let model = Protocol::new(3, Broken::Nothing);
        Run {
            sim,
            client,
            store: None,
            model,
            server: [0; 3],
            waiting: Vec::new(),
            next: 1,
            counts: [0; 3],
            early: Vec::new(),
            time: 0,
            since: [0; 3],
            set: ways.map(|n| (n, Vec::new())),
        }
    }

    /// A client asks; the answer, if it comes from the cache.
    fn ask(&mut self, write: bool, key: u8) {
        let id = self.next;
        self.next += 1;
        self.client.send(&[(id >> 8) as u8, id as u8, u8::from(write), key]);
        self.sim.settle();
        let mut waiting = Waiting { number: [0; 2], client: id, key, read: None, mine: 0 };
        if write {
            self.since[usize::from(key)] = self.time;
            waiting.mine = self.model.write_begins(key);
            if self.set.is_none() {
                self.model.remove(key);
            }
        } else {
            let (entry, lease) = (self.model.entries.get(&key).copied(), self.model.lease(key));
            if let Some(value) = self.model.hit(entry, &lease) {
                self.counts[0] += 1;
                self.used(key);
                return self.expect(id, value);
            }
            self.counts[1] += 1;
            waiting.read = Some(self.model.take(&lease));
        }
        let store = self.store.get_or_insert_with(|| self.sim.backend("store", 0).expect("it has been asked"));
        let request = store.datagram().expect("a miss asks the server");
        assert_eq!(request[2..], [u8::from(write), key]);
        waiting.number = [request[0], request[1]];
        self.waiting.push(waiting);
    }

    /// The server answers one of the requests.
    fn answer(&mut self, which: usize) {
        let w = self.waiting.swap_remove(which);
        let key = usize::from(w.key);
        if w.read.is_none() {
            self.server[key] = self.server[key].wrapping_add(1) % 200;
        }
        let value = self.server[key];
        self.store.as_ref().expect("it was asked").send(&[w.number[0], w.number[1], value]);
        self.sim.settle();
        match w.read {
            Some(lease) if self.model.may_fill(lease, &self.model.lease(w.key)) => {
                self.model.put(w.key, lease.expect("a fill has a lease"), value);
                self.used(w.key);
            }
            Some(_) => self.counts[2] += 1,
            None => {
                if let Some(version) = self.model.write_ends(w.key, w.mine) {
                    self.model.put(w.key, version, value);
                    self.used(w.key);
                }
            }
        }
        self.expect(w.client, value);
    }

    /// A key of a set was used last; the one that was used least recently makes room.
    fn used(&mut self, key: u8) {
        let Some((ways, keys)) = &mut self.set else { return };
        keys.retain(|k| *k != key);
        keys.insert(0, key);
        for gone in keys.drain(keys.len().min(*ways)..) {
            self.model.remove(gone);
        }
    }

    fn wait(&mut self, ms: u64) {
        self.sim.advance(Duration::from_millis(ms));
        self.time += ms;
        for (lease, since) in self.model.leases.iter_mut().zip(self.since) {
            lease.over = lease.writers > 0 && self.time - since >= 10_000;
        }
    }

    /// The waiting requests are given up; writes are under way for some more time.
    fn lose(&mut self) {
        self.wait(1500);
        for w in std::mem::take(&mut self.waiting) {
            self.expect(w.client, 255);
        }
    }

    /// So much time that no write counts as under way.
    fn rest(&mut self) {
        self.lose();
        self.wait(10_000);
    }

    fn expect(&mut self, id: u16, value: u8) {
        let mut answers = std::mem::take(&mut self.early);
        answers.extend(std::iter::from_fn(|| self.client.datagram()));
        let wanted = vec![(id >> 8) as u8, id as u8, value];
        assert!(answers.contains(&wanted), "{wanted:?} is not among {answers:?}");
        // Several may be given up at once.
        assert!(answers.len() == 1 || value == 255, "{answers:?}");
        self.early.extend(answers.into_iter().filter(|a| *a != wanted));
    }

    fn compare_counts(&self) {
        self.sim.core.publish();
        let counted: Vec<u64> = self.sim.stats(0).counters.iter().map(|c| c.get()).collect();
        assert_eq!(counted, self.counts, "hits, misses, stale fills");
    }
}

#[test]
fn programs_follow_the_protocol() {
    follows("cache-model", APP, None, 60);
}

/// All three keys are in one set.
#[test]
fn programs_with_ways_follow_the_protocol() {
    for ways in [1, 2] {
        let app = APP.replace("capacity 100", &format!("capacity {ways}, ways {ways}"));
        follows(&format!("cache-model-{ways}"), &app, Some(ways), 20);
    }
}

/// Runs of random schedules.
fn follows(name: &str, app: &str, ways: Option<usize>, runs: u64) {
    let folder = Folder::new(name);
    let file = folder.path().join("caching.loom");
    std::fs::write(&file, app).expect("the folder is writable");
    let twins = twins(&file);
    let mut sum = [0; 3];
    for program in [Some(&twins.interpreted), twins.compiled.as_ref()].into_iter().flatten() {
        for seed in 1..=runs {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut run = Run::new(program, &twins.module, ways);
            for _ in 0..150 {
                match random.u8(0..100) {
                    0..=34 => run.ask(false, random.u8(0..3)),
                    35..=54 => run.ask(true, random.u8(0..3)),
                    55..=96 if !run.waiting.is_empty() => {
                        let which = random.usize(0..run.waiting.len());
                        run.answer(which);
                    }
                    97 => run.lose(),
                    98 => run.rest(),
                    _ => {}
                }
            }
            run.compare_counts();
            (0..3).for_each(|i| sum[i] += run.counts[i]);
        }
    }
    assert!(sum.iter().all(|n| *n > 30), "each kind is there: {sum:?}");
}
