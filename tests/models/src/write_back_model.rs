//! Caches that are written back (`lang/src/apps/write_back.rs`): all interleavings of their steps.
//! `write_back_programs.rs` compares programs with the rules.
//!
//! The steps of dirty entries stand in front of those of [`crate::cache_model::Protocol`]. Two
//! clients write, one reads, and two tasks write back: cores do that at the same time. One key is
//! enough: keys meet in their leases only, which `cache_model.rs` has. A message may be lost. A
//! server may still do within `write_timeout` what its client has given up.
//!
//! Writes are known by their numbers. A write that began behind the end of another one *supersedes*
//! it, once it has ended itself. No read gives a value that was superseded when the read began.
//! When all is done, the server has no superseded value. Both hold unless a lost write was counted.

use crate::cache_model::{Broken as NotBroken, Lease, Protocol};
use stateright::{Checker, HasDiscoveries, Model, Property};
use wireloom_tests::programs::LONG;

/// A part of the protocol that is left out, to see that the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Broken {
    Nothing,
    /// A try whose answer is lost is followed by the next one at once.
    TriesAgainAtOnce,
    /// Tasks write an entry that another one has claimed.
    WithoutClaims,
    /// An entry that was written back leaves, even if the entry has been written since.
    LeavesWhenChanged,
    /// A write changes an entry that is leaving.
    WritesLeavingEntry,
    /// A read takes an entry that is leaving for a dirty one.
    ReadsLeavingEntry,
    /// Writing back leaves the leases as they are.
    LeasesStay,
    /// A claim that finds no entry leaves behind the one that it has made.
    ClaimMakesEntry,
}

/// The number of an entry that is leaving, and of one that a claim has made.
const LEAVING: u8 = u8::MAX;
const NOTHING: u8 = 0;
const KEY: u8 = 0;

/// The dirty entry. `claimed`: by which claim, and whether its time is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Dirty {
    value: u8,
    number: u8,
    claimed: Option<(u8, bool)>,
    tries: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Message {
    Request,
    Answer(u8),
}

/// A write under way: its value, the lease's version at its beginning, and for which claim it is
/// made; none: for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Writing {
    value: u8,
    mine: u8,
    claim: Option<(u8, u8)>,
}

/// Where a task is. Of reads, `bad` are the values that it must not give.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum At {
    Idle,
    // A read.
    LooksAtEntry { bad: u8 },
    LooksAtLease { bad: u8, entry: Option<(u8, u8)> },
    Asks { bad: u8, lease: Option<u8>, message: Message },
    Fills { bad: u8, lease: Option<u8>, value: u8, may: Option<bool> },
    // A write of a client; `room` was found for it.
    MakesDirty { value: u8, room: bool },
    // A task that writes back.
    SeesEntry,
    Removes,
    // Both: through to the server.
    Begins { value: u8, claim: Option<(u8, u8)> },
    Clears(Writing),
    Writes(Writing, Message),
    Ends(Writing),
    LooksAgain(Writing, u8),
    Keeps(Writing, u8, u8),
    EndsClaim(Writing),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct State {
    broken: Broken,
    cache: Protocol,
    dirty: Option<Dirty>,
    server: u8,
    /// Turns that are left, and where each client is; and tasks that write back.
    clients: Vec<(u8, At)>,
    tasks: Vec<At>,
    /// By number: the writes that had ended when it began.
    before: Vec<u8>,
    ended: u8,
    superseded: u8,
    /// Values of writes that were given up, and whether one was for a claim.
    astray: Vec<(u8, bool)>,
    claims: u8,
    losses: u8,
    /// Writes that were given up for good.
    lost: u8,
    wrong: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Read(usize),
    Write(usize, bool),
    Step(usize),
    Serve(usize),
    GiveUp(usize),
    /// A task of a timer begins.
    Tick(usize),
    Astray(usize, bool),
    ClaimIsOver,
    LeaseIsOver,
    Evict,
}

#[derive(Clone)]
struct World {
    broken: Broken,
    turns: Vec<u8>,
    losses: u8,
    /// How often a write is tried.
    tries: Option<u8>,
}

impl State {
    /// Clients come first, then the tasks.
    fn at(&mut self, who: usize) -> &mut At {
        let clients = self.clients.len();
        match who < clients {
            true => &mut self.clients[who].1,
            false => &mut self.tasks[who - clients],
        }
    }

    fn all(&self) -> impl Iterator<Item = &At> {
        self.clients.iter().map(|c| &c.1).chain(&self.tasks)
    }

    fn canonical(mut self) -> State {
        self.clients.sort_unstable();
        self.tasks.sort_unstable();
        self.astray.sort_unstable();
        self
    }

    /// A write begins; its number.
    fn begin(&mut self) -> u8 {
        self.before.push(self.ended);
        self.before.len() as u8
    }

    /// Its client has the answer.
    fn end(&mut self, value: u8) {
        self.ended |= 1 << value;
        // Nothing is older than what was there at first.
        self.superseded |= self.before[usize::from(value) - 1] | 1;
    }

    /// Behind a write that was given up, the server's value is the one before it.
    fn reads(&mut self, bad: u8, value: u8) -> At {
        self.wrong |= self.lost == 0 && bad & 1 << value != 0;
        At::Idle
    }

    fn is_dirty(&self, d: &Dirty) -> bool {
        d.number != NOTHING && (d.number != LEAVING || self.broken == Broken::ReadsLeavingEntry)
    }

    fn read(&mut self) -> At {
        let bad = self.superseded;
        match self.dirty.clone().filter(|d| self.is_dirty(d)) {
            Some(d) => self.reads(bad, d.value),
            None => At::LooksAtEntry { bad },
        }
    }

    fn make_dirty(&mut self, value: u8, room: bool) -> At {
        let leaving = |d: &Dirty| d.number == LEAVING && self.broken != Broken::WritesLeavingEntry;
        if !room || self.dirty.as_ref().is_some_and(leaving) {
            return At::Begins { value, claim: None };
        }
        let d = self.dirty.get_or_insert_with(Dirty::default);
        // Of a leaving entry the number is lost.
        let last = if d.number == LEAVING { 0 } else { d.number };
        *d = Dirty { value, number: (last + 1).max(value), tries: 0, ..d.clone() };
        self.end(value);
        At::Idle
    }

    fn claim(&mut self, tries: Option<u8>) -> At {
        let without = self.broken == Broken::WithoutClaims;
        let d = self.dirty.get_or_insert_with(Dirty::default);
        let free = d.number != LEAVING && (without || d.claimed.is_none_or(|c| c.1));
        if !free {
            return At::Idle;
        }
        if d.number == NOTHING {
            if self.broken == Broken::ClaimMakesEntry {
                d.number = 1;
                return At::Idle;
            }
            d.number = LEAVING;
            return At::Removes;
        }
        if tries.is_some_and(|n| d.tries >= n) {
            self.lost += 1;
            d.number = LEAVING;
            return At::Removes;
        }
        self.claims += 1;
        d.tries += 1;
        d.claimed = Some((self.claims, false));
        At::Begins { value: d.value, claim: Some((self.claims, d.number)) }
    }

    fn end_claim(&mut self, w: Writing) -> At {
        let Some((claim, number)) = w.claim else { return At::Idle };
        let d = self.dirty.get_or_insert_with(Dirty::default);
        if d.number == number || d.number == NOTHING || self.broken == Broken::LeavesWhenChanged {
            d.number = LEAVING;
            return At::Removes;
        }
        if d.claimed.is_some_and(|c| c.0 == claim) {
            d.claimed = None;
        }
        d.tries = 0;
        At::Idle
    }

    fn step(&mut self, who: usize, tries: Option<u8>) {
        let silent = self.broken == Broken::LeasesStay;
        let next = match self.at(who).clone() {
            At::Idle => At::Idle,
            At::LooksAtEntry { bad } => At::LooksAtLease { bad, entry: self.cache.entries.get(&KEY).copied() },
            At::LooksAtLease { bad, entry } => {
                let lease = self.cache.lease(KEY);
                match self.cache.hit(entry, &lease) {
                    Some(value) => self.reads(bad, value),
                    None => At::Asks { bad, lease: self.cache.take(&lease), message: Message::Request },
                }
            }
            At::Asks { bad, lease, message: Message::Answer(value) } => At::Fills { bad, lease, value, may: None },
            At::Fills { bad, lease, value, may: None } => {
                let may = self.cache.may_fill(lease, &self.cache.lease(KEY));
                At::Fills { bad, lease, value, may: Some(may) }
            }
            At::Fills { bad, lease, value, may: Some(may) } => {
                if let (true, Some(version)) = (may, lease) {
                    self.cache.put(KEY, version, value);
                }
                self.reads(bad, value)
            }
            At::MakesDirty { value, room } => self.make_dirty(value, room),
            At::SeesEntry => self.claim(tries),
            At::Removes => {
                self.dirty = None;
                At::Idle
            }
            At::Begins { value, claim } => {
                let mine = if silent { self.cache.lease(KEY).version } else { self.cache.write_begins(KEY) };
                At::Clears(Writing { value, mine, claim })
            }
            At::Clears(w) => {
                self.cache.remove(KEY);
                At::Writes(w, Message::Request)
            }
            At::Writes(w, Message::Answer(_)) => At::Ends(w),
            At::Ends(w) => {
                let version = if silent { None } else { self.cache.write_ends(KEY, w.mine) };
                match (w.claim, version) {
                    (None, _) => {
                        self.end(w.value);
                        At::Idle
                    }
                    (Some(_), Some(version)) => At::LooksAgain(w, version),
                    (Some(_), None) => At::EndsClaim(w),
                }
            }
            At::LooksAgain(w, version) => match &self.dirty {
                Some(d) if w.claim.is_some_and(|c| c.1 == d.number) => At::Keeps(w, version, d.value),
                _ => At::EndsClaim(w),
            },
            At::Keeps(w, version, value) => {
                self.cache.put(KEY, version, value);
                At::EndsClaim(w)
            }
            At::EndsClaim(w) => self.end_claim(w),
            waiting => waiting,
        };
        *self.at(who) = next;
    }

    fn serve(&mut self, who: usize) {
        let now = self.server;
        match self.at(who) {
            At::Asks { message, .. } => *message = Message::Answer(now),
            At::Writes(w, message) => {
                let value = w.value;
                *message = Message::Answer(value);
                self.server = value;
            }
            _ => {}
        }
    }

    fn give_up(&mut self, who: usize) {
        self.losses -= 1;
        if let At::Writes(w, Message::Request) = self.at(who).clone() {
            self.astray.push((w.value, w.claim.is_some()));
        }
        *self.at(who) = At::Idle;
    }

    /// Whether a claim's write is under way.
    fn is_written(&self) -> bool {
        let mine = |w: &Option<(u8, u8)>| w.map(|c| c.0) == self.dirty.as_ref().and_then(|d| d.claimed).map(|c| c.0);
        self.all().any(|at| match at {
            At::Begins { claim, .. } => claim.is_some() && mine(claim),
            At::Clears(w)
            | At::Writes(w, _)
            | At::Ends(w)
            | At::LooksAgain(w, _)
            | At::Keeps(w, ..)
            | At::EndsClaim(w) => w.claim.is_some() && mine(&w.claim),
            _ => false,
        })
    }

    fn at_rest(&self) -> bool {
        self.clients.iter().all(|c| *c == (0, At::Idle))
            && self.tasks.iter().all(|t| *t == At::Idle)
            && self.dirty.is_none()
            && self.astray.is_empty()
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            broken: self.broken,
            cache: Protocol::new(1, NotBroken::Nothing),
            dirty: None,
            server: 0,
            clients: self.turns.iter().map(|n| (*n, At::Idle)).collect(),
            tasks: vec![At::Idle; 2],
            before: Vec::new(),
            ended: 0,
            superseded: 0,
            astray: Vec::new(),
            claims: 0,
            losses: self.losses,
            lost: 0,
            wrong: false,
        }]
    }

    fn actions(&self, s: &State, out: &mut Vec<Action>) {
        for (who, at) in s.all().enumerate() {
            match (at, s.clients.get(who)) {
                (At::Idle, Some((0, _))) => {}
                (At::Idle, Some(_)) => {
                    out.extend([Action::Read(who), Action::Write(who, true), Action::Write(who, false)])
                }
                (At::Idle, None) if s.dirty.is_some() => out.push(Action::Tick(who)),
                (At::Idle, None) => {}
                (At::Asks { message, .. } | At::Writes(_, message), _) => {
                    out.push(match message {
                        Message::Request => Action::Serve(who),
                        Message::Answer(_) => Action::Step(who),
                    });
                    if s.losses > 0 {
                        out.push(Action::GiveUp(who));
                    }
                }
                _ => out.push(Action::Step(who)),
            }
        }
        for n in 0..s.astray.len() {
            out.extend([Action::Astray(n, true), Action::Astray(n, false)]);
        }
        let claimed = s.dirty.as_ref().and_then(|d| d.claimed).is_some_and(|c| !c.1);
        let settled = !s.astray.iter().any(|a| a.1) || self.broken == Broken::TriesAgainAtOnce;
        if claimed && settled && !s.is_written() {
            out.push(Action::ClaimIsOver);
        }
        let Lease { writers, over, .. } = s.cache.lease(KEY);
        let writing = s.all().any(|at| matches!(at, At::Clears(_) | At::Writes(..) | At::Ends(_)));
        if writers > 0 && !over && !writing && s.astray.is_empty() {
            out.push(Action::LeaseIsOver);
        }
        if !s.cache.entries.is_empty() {
            out.push(Action::Evict);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut s = last.clone();
        match action {
            Action::Read(who) => {
                s.clients[who].0 -= 1;
                s.clients[who].1 = s.read();
            }
            Action::Write(who, room) => {
                // An entry that is dirty already has its room.
                let known = s.dirty.as_ref().is_some_and(|d| d.number != NOTHING && d.number != LEAVING);
                if known && !room {
                    return None;
                }
                s.clients[who].0 -= 1;
                s.clients[who].1 = At::MakesDirty { value: s.begin(), room };
            }
            Action::Step(who) => s.step(who, self.tries),
            Action::Serve(who) => s.serve(who),
            Action::GiveUp(who) => s.give_up(who),
            Action::Tick(who) => *s.at(who) = At::SeesEntry,
            Action::Astray(n, done) => {
                let (value, _) = s.astray.remove(n);
                if done {
                    s.server = value;
                }
            }
            Action::ClaimIsOver => {
                if let Some(claimed) = s.dirty.as_mut().and_then(|d| d.claimed.as_mut()) {
                    claimed.1 = true;
                }
            }
            Action::LeaseIsOver => s.cache.leases[0].over = true,
            Action::Evict => s.cache.remove(KEY),
        }
        Some(s.canonical())
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always("no read gives a superseded value", |_, s: &State| !s.wrong),
            Property::always("no write is lost without a count", |_, s: &State| {
                !s.at_rest() || s.lost > 0 || s.superseded & 1 << s.server == 0
            }),
            Property::sometimes("two writes become one", |_, s: &State| {
                s.at_rest() && s.claims == 1 && s.before.len() == 2 && s.ended == 0b110 && s.losses > 0
            }),
            Property::sometimes("a write that finds the entry leaving", |_, s: &State| {
                s.dirty.as_ref().is_some_and(|d| d.number == LEAVING)
                    && s.clients.iter().any(|c| matches!(c.1, At::Begins { .. }))
            }),
            Property::sometimes("a try is lost, and the next one is not", |_, s: &State| {
                s.at_rest() && s.losses == 0 && s.claims == 2 && s.lost == 0
            }),
        ]
    }
}

fn world(broken: Broken) -> World {
    let turns = if std::env::var_os(LONG).is_some() { vec![2, 1, 1] } else { vec![2, 1] };
    World { broken, turns, losses: 1, tries: None }
}

#[test]
fn all_interleavings() {
    let checker = world(Broken::Nothing).checker().threads(2).spawn_dfs().join();
    assert!(checker.is_done());
    eprintln!("{} states", checker.unique_state_count());
    assert!(checker.unique_state_count() > 10_000);
    checker.assert_properties();
}

/// With a limit of tries: what is given up is counted.
#[test]
fn all_interleavings_with_a_limit_of_tries() {
    let world = World { tries: Some(1), ..world(Broken::Nothing) };
    let checker = world.checker().threads(2).spawn_dfs().join();
    assert!(checker.is_done() && checker.unique_state_count() > 10_000);
    checker.assert_no_discovery("no read gives a superseded value");
    checker.assert_no_discovery("no write is lost without a count");
}

/// Each part of the protocol is needed.
#[test]
fn without_a_part_there_is_a_counterexample() {
    for broken in [
        Broken::TriesAgainAtOnce,
        Broken::WithoutClaims,
        Broken::LeavesWhenChanged,
        Broken::WritesLeavingEntry,
        Broken::ReadsLeavingEntry,
        Broken::LeasesStay,
        Broken::ClaimMakesEntry,
    ] {
        let checker = world(broken).checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let found = ["no read gives a superseded value", "no write is lost without a count"]
            .into_iter()
            .any(|p| checker.discovery(p).is_some());
        assert!(found, "{broken:?} makes no difference");
    }
}
