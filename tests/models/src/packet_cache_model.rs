//! The protocol of caches of packets (`lang/src/apps/packet_caches.rs`): all interleavings of its
//! steps.
//!
//! Requests and answers are packets. The network loses them, brings them in any order, and brings
//! some twice. Several processors handle them at once, so each look at a table and each change of
//! an entry is a step of its own. A client may send a second request before the first one is
//! answered. Stateright visits every state. No answer from the cache is older than a write whose
//! answer has passed before.

use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::BTreeMap;
use wireloom_tests::programs::LONG;

/// A part of the protocol that is left out, to see that the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Broken {
    Nothing,
    /// An answer is kept without a look at its lease.
    FillWithoutLease,
    /// An entry counts whatever its version.
    HitWithoutVersion,
    /// The second request of an exchange takes the place of the first.
    SecondRequestCounts,
    /// Answers to writes that are not known void nothing.
    UnknownAnswersPass,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Lease {
    version: u8,
    writers: u8,
    /// The last write to begin has been under way for longer than `write_timeout`.
    over: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Note {
    #[default]
    None,
    Read {
        key: u8,
        lease: Option<u8>,
    },
    Write {
        key: u8,
    },
    Unclear,
}

/// Where a packet is, and what its handling has found out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum At {
    Sent,
    Looks {
        floor: u8,
        entry: Option<(u8, u8)>,
    },
    Leased {
        floor: u8,
        entry: Option<(u8, u8)>,
        lease: Lease,
    },
    Missed {
        lease: Option<u8>,
    },
    Begun,
    Removed,
    Passed,
    /// The answer, with its value.
    Answered(u8),
    Taken(u8, Note),
    FillLeased(u8, Note, Lease),
    Fills(u8, u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Packet {
    /// Its exchange: the client's.
    x: usize,
    write: bool,
    key: u8,
    at: At,
}

impl Packet {
    /// Whether it is in the network, and not being handled.
    fn travels(&self) -> bool {
        matches!(self.at, At::Sent | At::Passed | At::Answered(_))
    }
}

#[derive(Clone, Debug)]
struct World {
    leases: usize,
    keys: u8,
    broken: Broken,
    /// Of each client: requests, and whether they are writes; `None`: they may be both.
    clients: Vec<(u8, Option<bool>)>,
    losses: u8,
    copies: u8,
    /// A client uses its number again while packets of its last use may be under way.
    hasty: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct State {
    turns: Vec<u8>,
    losses: u8,
    copies: u8,
    packets: Vec<Packet>,
    leases: Vec<Lease>,
    epoch: u8,
    entries: BTreeMap<u8, (u8, u8)>,
    notes: Vec<Note>,
    server: [u8; 2],
    /// Values of writes whose answers have passed.
    known: [u8; 2],
    hit: bool,
    refused: bool,
    wrong: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Ask {
        client: usize,
        write: bool,
        key: u8,
    },
    Step(usize),
    Lose(usize),
    Copy(usize),
    Over(usize),
    Evict(u8),
    /// A note is so old that no packet of its exchange is under way.
    Expire(usize),
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            turns: self.clients.iter().map(|c| c.0).collect(),
            losses: self.losses,
            copies: self.copies,
            packets: Vec::new(),
            leases: vec![Lease::default(); self.leases],
            epoch: 0,
            entries: BTreeMap::new(),
            notes: vec![Note::None; self.clients.len()],
            server: [0; 2],
            known: [0; 2],
            hit: false,
            refused: false,
            wrong: false,
        }]
    }

    fn actions(&self, s: &State, out: &mut Vec<Action>) {
        let around = |x: usize| s.packets.iter().any(|p| p.x == x);
        for client in (0..s.turns.len()).filter(|c| s.turns[*c] > 0 && (self.hasty || !around(*c))) {
            for key in 0..self.keys {
                let may = |write: &bool| self.clients[client].1.is_none_or(|w| w == *write);
                out.extend([false, true].into_iter().filter(may).map(|write| Action::Ask { client, write, key }))
            }
        }
        for (n, p) in s.packets.iter().enumerate() {
            // Equal packets are one.
            if n > 0 && s.packets[n - 1] == *p {
                continue;
            }
            out.push(Action::Step(n));
            if p.travels() && s.losses > 0 {
                out.push(Action::Lose(n))
            }
            if p.travels() && s.copies > 0 {
                out.push(Action::Copy(n))
            }
        }
        let over = |l: &Lease| l.writers > 0 && !l.over;
        out.extend((0..s.leases.len()).filter(|n| over(&s.leases[*n])).map(Action::Over));
        out.extend(s.entries.keys().map(|k| Action::Evict(*k)));
        let old = |x: &usize| s.notes[*x] != Note::None && !around(*x);
        out.extend((0..s.notes.len()).filter(old).map(Action::Expire));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut s = last.clone();
        match action {
            Action::Ask { client, write, key } => {
                s.turns[client] -= 1;
                s.packets.push(Packet { x: client, write, key, at: At::Sent });
            }
            Action::Step(n) => {
                let mut p = s.packets.remove(n);
                if let Some(at) = self.step(&mut s, &p) {
                    p.at = at;
                    s.packets.push(p);
                }
            }
            Action::Lose(n) => {
                s.losses -= 1;
                s.packets.remove(n);
            }
            Action::Copy(n) => {
                s.copies -= 1;
                s.packets.push(s.packets[n].clone());
            }
            Action::Over(slot) => s.leases[slot].over = true,
            Action::Evict(key) => {
                s.entries.remove(&key);
            }
            Action::Expire(x) => s.notes[x] = Note::None,
        }
        s.packets.sort_unstable();
        Some(self.canonical(s))
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always("no answer older than a known write", |_, s: &State| !s.wrong),
            Property::sometimes("a hit", |_, s: &State| s.hit),
            Property::sometimes("an answer is not kept", |_, s: &State| s.refused),
            Property::sometimes("an exchange is unclear", |w: &World, s: &State| {
                (w.copies == 0 && w.clients.iter().all(|c| c.0 < 2)) || s.notes.contains(&Note::Unclear)
            }),
        ]
    }
}

impl World {
    /// Of states that are equal but for the names of keys and of clients of one kind, one is
    /// visited.
    fn canonical(&self, s: State) -> State {
        let mirrored = (self.keys == 2).then(|| self.least_of_clients(s.clone().with_keys_exchanged()));
        let s = self.least_of_clients(s);
        match mirrored {
            Some(mirrored) => s.min(mirrored),
            None => s,
        }
    }

    fn least_of_clients(&self, mut s: State) -> State {
        for b in 0..self.clients.len() {
            for a in (0..b).filter(|a| self.clients[*a] == self.clients[b]) {
                let exchanged = s.clone().with_clients_exchanged(a, b);
                s = s.min(exchanged);
            }
        }
        s
    }

    /// The next step of a packet; `None`: it has reached its client.
    fn step(&self, s: &mut State, p: &Packet) -> Option<At> {
        let slot = usize::from(p.key) % self.leases;
        Some(match p.at.clone() {
            At::Sent if p.write => {
                let l = &mut s.leases[slot];
                l.writers = if l.over { 1 } else { l.writers + 1 };
                (l.version, l.over) = (l.version + 1, false);
                At::Begun
            }
            At::Sent => At::Looks { floor: s.known[usize::from(p.key)], entry: s.entries.get(&p.key).copied() },
            At::Looks { floor, entry } => At::Leased { floor, entry, lease: s.leases[slot].clone() },
            At::Leased { floor, entry, lease } => {
                let (version, quiet) = (lease.version + s.epoch, lease.writers == 0 || lease.over);
                match entry {
                    Some((v, value)) if quiet && (v == version || self.broken == Broken::HitWithoutVersion) => {
                        s.hit = true;
                        s.wrong |= value < floor;
                        return None;
                    }
                    _ => At::Missed { lease: quiet.then_some(version) },
                }
            }
            At::Missed { lease } => {
                self.note(s, p.x, Note::Read { key: p.key, lease });
                At::Passed
            }
            At::Begun => {
                s.entries.remove(&p.key);
                At::Removed
            }
            At::Removed => {
                self.note(s, p.x, Note::Write { key: p.key });
                At::Passed
            }
            At::Passed => {
                let value = &mut s.server[usize::from(p.key)];
                *value += u8::from(p.write);
                At::Answered(*value)
            }
            At::Answered(value) => {
                let note = s.notes[p.x];
                if note != Note::Unclear {
                    s.notes[p.x] = Note::None
                }
                At::Taken(value, note)
            }
            At::Taken(value, note) => return self.taken(s, p, value, note),
            At::FillLeased(value, note, lease) => {
                let Note::Read { lease: Some(mine), .. } = note else {
                    s.refused = true;
                    return None;
                };
                let (version, quiet) = (lease.version + s.epoch, lease.writers == 0 || lease.over);
                if self.broken == Broken::FillWithoutLease {
                    At::Fills(value, version)
                } else if quiet && mine == version {
                    At::Fills(value, mine)
                } else {
                    s.refused = true;
                    return None;
                }
            }
            At::Fills(value, version) => {
                s.entries.insert(p.key, (version, value));
                return None;
            }
        })
    }

    fn note(&self, s: &mut State, x: usize, note: Note) {
        let first = s.notes[x] == Note::None || self.broken == Broken::SecondRequestCounts;
        s.notes[x] = if first { note } else { Note::Unclear };
    }

    /// An answer, with the note of its exchange.
    fn taken(&self, s: &mut State, p: &Packet, value: u8, note: Note) -> Option<At> {
        match note {
            Note::Read { key, .. } if !p.write && key == p.key => {
                return Some(At::FillLeased(value, note, s.leases[usize::from(p.key) % self.leases].clone()))
            }
            Note::Write { key } => {
                let l = &mut s.leases[usize::from(key) % self.leases];
                (l.version, l.writers) = (l.version + 1, l.writers.saturating_sub(1));
            }
            Note::None | Note::Unclear if p.write && self.broken != Broken::UnknownAnswersPass => s.epoch += 1,
            Note::None | Note::Unclear | Note::Read { .. } => {}
        }
        if p.write {
            let known = &mut s.known[usize::from(p.key)];
            *known = (*known).max(value);
        }
        None
    }
}

impl State {
    fn with_clients_exchanged(mut self, a: usize, b: usize) -> State {
        self.turns.swap(a, b);
        self.notes.swap(a, b);
        for p in &mut self.packets {
            p.x = match p.x {
                x if x == a => b,
                x if x == b => a,
                x => x,
            };
        }
        self.packets.sort_unstable();
        self
    }

    fn with_keys_exchanged(mut self) -> State {
        self.leases.reverse();
        self.entries = self.entries.into_iter().map(|(key, entry)| (1 - key, entry)).collect();
        self.server.reverse();
        self.known.reverse();
        for note in &mut self.notes {
            *note = note.with_keys_exchanged();
        }
        for p in &mut self.packets {
            p.key = 1 - p.key;
            match &mut p.at {
                At::Taken(_, note) | At::FillLeased(_, note, _) => *note = note.with_keys_exchanged(),
                _ => {}
            }
        }
        self.packets.sort_unstable();
        self
    }
}

impl Note {
    fn with_keys_exchanged(self) -> Note {
        match self {
            Note::Read { key, lease } => Note::Read { key: 1 - key, lease },
            Note::Write { key } => Note::Write { key: 1 - key },
            Note::None | Note::Unclear => self,
        }
    }
}

/// Each client asks once, about one key: one reads, one writes, one does this or that.
fn world() -> World {
    let clients = vec![(1, Some(false)), (1, Some(true)), (1, None)];
    World { leases: 1, keys: 1, broken: Broken::Nothing, clients, losses: 1, copies: 0, hasty: true }
}

/// Two keys have one lease, or one each.
fn keys(leases: usize) -> World {
    // A long run takes minutes.
    let last = if std::env::var_os(LONG).is_some() { None } else { Some(false) };
    World { leases, keys: 2, losses: 0, clients: vec![(1, Some(false)), (1, Some(true)), (1, last)], ..world() }
}

/// A client asks a second time before it has its answer.
fn hasty() -> World {
    World { losses: 0, clients: vec![(2, Some(false)), (1, Some(true)), (1, Some(false))], ..world() }
}

/// Packets come twice, but no number is used again while they may.
fn copying() -> World {
    World { copies: 1, losses: 0, hasty: false, clients: keys(1).clients, ..world() }
}

fn no_counterexample(world: World) {
    let checker = world.clone().checker().threads(2).spawn_dfs().join();
    assert!(checker.is_done());
    eprintln!("{world:?}: {} states", checker.unique_state_count());
    assert!(checker.unique_state_count() > 10_000);
    checker.assert_properties();
}

#[test]
fn all_interleavings() {
    no_counterexample(world());
}

#[test]
fn all_interleavings_with_two_keys() {
    no_counterexample(keys(1));
    no_counterexample(keys(2));
}

#[test]
fn all_interleavings_of_two_requests_of_an_exchange() {
    no_counterexample(hasty());
}

#[test]
fn all_interleavings_of_packets_that_come_twice() {
    no_counterexample(copying());
}

/// Each part of the protocol is needed.
#[test]
fn without_a_part_there_is_a_counterexample() {
    for (broken, world) in [
        (Broken::FillWithoutLease, world()),
        (Broken::HitWithoutVersion, world()),
        (Broken::SecondRequestCounts, hasty()),
        (Broken::UnknownAnswersPass, copying()),
    ] {
        let checker = World { broken, ..world }.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let found = checker.discovery("no answer older than a known write");
        assert!(found.is_some(), "{broken:?} makes no difference");
    }
}
