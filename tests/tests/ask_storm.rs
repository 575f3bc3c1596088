//! Calls in conversations, in a simulated network: answers that are late, foreign, given twice or
//! not at all, torn bytes, ends that are lost. A model says which answer belongs to which call:
//! each text names its client, and the question that it is of. An answer to a call reaches that
//! call and nobody else, and each call ends once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;
use wireloom_runtime::core::app::App;
use wireloom_runtime::engine::memory::{Ending, Peer};
use wireloom_runtime::sim::Sim;
use wireloom_runtime::Program;
use wireloom_tests::folder::Folder;
use wireloom_tests::programs::{seeds, twins};

/// Messages of clients: for `c` and `l` a handler asks the server. `p` goes on to the server and
/// is answered, `n` is not. The server of `aside` pushes `s`, for which its handler
/// asks `up`, too.
const SOURCE: &str = "
unit M { kind: u8  id: u16  size: u32 = len(data)  data: bytes<512KiB> [size] }

protocol talk {
    up      M
    down    M
    sharing session
    CLAUSES
    on fault(f) { reply M { kind: 'f', id: 0, data: \"\" } then close }
}

app relay {
    param servers: list<endpoint, 4>
    port client = listen tcp(7000)            as talk { idle_timeout 9h }
    port db     = connect tcp(servers)        as talk { idle_timeout 9h, eject_after 0, connect_timeout 2s }
    port aside  = connect tcp(10.0.0.7:1)     as talk { idle_timeout 9h, eject_after 0, connect_timeout 2s }
    session up:   connection of db
    session side: connection of aside

    on client.opened { up = open db[client.id % len(db)] }

    on client(m: talk.up) {
        if m.kind == 'h' {
            m -> side
        } else if m.kind == 'c' {
            let r = call up(M { kind: '?', id: m.id, data: m.data }) within 500ms else {
                M { kind: 't', id: m.id, data: \"\" } -> client
                return
            }
            M { kind: 'r', id: r.id, data: r.data } -> client
        } else if m.kind == 'l' {
            let long = call up(M { kind: '?', id: m.id, data: m.data }) within 500ms else {
                M { kind: 't', id: m.id, data: \"\" } -> client
                return
            }
            long -> client
        } else {
            m -> up
        }
    }

    on up(m: talk.down) { m -> client }

    on side(m: talk.down) {
        let r = call up(M { kind: '?', id: m.id, data: m.data }) within 500ms else {
            M { kind: 'T', id: m.id, data: \"\" } -> client
            return
        }
        M { kind: 'S', id: r.id, data: r.data } -> client
    }
}
";

const BY_FIELD: &str = "matches(id = up.id) when down.id == id and down.kind == 'a'";
const BY_ORDER: &str = "owes when up.kind == '?' or up.kind == 'p'  idle when down.kind == 'a'";

/// Ids that no question has.
const FOREIGN: u16 = 60_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tied {
    Order,
    /// Ids are those of one question.
    Field,
    /// A few ids come again and again. The server answers those of one id in their order.
    SameIds,
}

struct Message {
    kind: u8,
    id: u16,
    text: Vec<u8>,
}

impl Message {
    fn new(kind: u8, id: u16, text: &str, more: usize) -> Message {
        Message { kind, id, text: [text.as_bytes(), &vec![b'v'; more]].concat() }
    }

    fn bytes(&self) -> Vec<u8> {
        let size = (self.text.len() as u32).to_be_bytes();
        [&[self.kind][..], &self.id.to_be_bytes(), &size, &self.text].concat()
    }

    fn all(bytes: &mut Vec<u8>) -> Vec<Message> {
        let (mut all, mut at) = (Vec::new(), 0);
        while let Some(head) = bytes.get(at..at + 7) {
            let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
            let (kind, id) = (head[0], u16::from_be_bytes([head[1], head[2]]));
            let Some(text) = bytes.get(at + 7..at + 7 + size) else { break };
            all.push(Message { kind, id, text: text.to_vec() });
            at += 7 + size;
        }
        bytes.drain(..at);
        all
    }

    /// Its words, without the bytes that fill it.
    fn says(&self) -> String {
        let n = self.text.iter().rposition(|b| *b == b'.').map_or(0, |n| n + 1);
        String::from_utf8_lossy(&self.text[..n]).into_owned()
    }
}

/// A connection as the other side of it sees it.
struct End {
    peer: Peer,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl End {
    fn new(peer: Peer) -> End {
        End { peer, input: Vec::new(), output: Vec::new() }
    }

    fn take(&mut self) -> Vec<Message> {
        self.input.extend(self.peer.receive());
        Message::all(&mut self.input)
    }

    /// Sends in pieces what is on its way: all of it, or a part.
    fn send(&mut self, sim: &mut Sim, random: &mut fastrand::Rng) {
        let stops = random.u8(0..3) == 0;
        while !self.output.is_empty() {
            let n = random.usize(1..=self.output.len());
            self.peer.send(&self.output[..n]);
            self.output.drain(..n);
            if random.u8(0..2) == 0 {
                sim.settle();
            }
            if stops {
                break;
            }
        }
    }

    fn is_open(&self) -> bool {
        self.peer.ending() == Ending::Open
    }
}

struct Client {
    end: End,
    name: u32,
    sent: u32,
    /// Questions that are asked for it and not answered: their ids and texts.
    calls: VecDeque<(u16, String)>,
    /// Those that were passed on.
    passed: VecDeque<String>,
    told: bool,
    gone: bool,
}

/// A connection to `db`: questions that have come, with their time.
struct Server {
    end: End,
    client: Option<u32>,
    owed: VecDeque<(u64, Message)>,
}

/// A connection to `aside`.
struct Side {
    end: End,
    client: Option<u32>,
    pushed: u32,
}

struct Storm {
    sim: Sim,
    random: fastrand::Rng,
    tied: Tied,
    clients: Vec<Client>,
    servers: Vec<Server>,
    sides: Vec<Side>,
    /// Pushed messages whose questions are not answered, by client.
    pushes: HashMap<u32, VecDeque<String>>,
    /// Clients that were cut off, or whose servers were.
    cut: HashSet<u32>,
    names: u32,
    now: u64,
    seed: u64,
    /// Calls that were answered and not, questions passed on, messages of nobody.
    seen: [u64; 4],
}

impl Storm {
    fn new(program: &Program, module: &wireloom_ir::Module, tied: Tied, seed: u64) -> Storm {
        let sets = [("servers".to_string(), "10.0.0.8:1,10.0.0.9:1".to_string())];
        let app = App::new(program.clone(), module.desc(), &sets).expect("a program and its description");
        let sim = Sim::new(vec![app]).expect("the app is simulated");
        sim.net.asynchronous(seed % 2 == 1);
        sim.net.mix(seed);
        Storm {
            sim,
            random: fastrand::Rng::with_seed(seed),
            tied,
            clients: Vec::new(),
            servers: Vec::new(),
            sides: Vec::new(),
            pushes: HashMap::new(),
            cut: HashSet::new(),
            names: 0,
            now: 0,
            seed,
            seen: [0; 4],
        }
    }

    fn id(&mut self, n: u32, odd: u16) -> u16 {
        match self.tied {
            Tied::SameIds => 2 * self.random.u16(0..2) + odd,
            Tied::Order | Tied::Field => (2 * n) as u16 + odd,
        }
    }

    fn round(&mut self) {
        while self.clients.len() < 8 {
            self.names += 1;
            let mut end = End::new(self.sim.client("client").expect("it listens"));
            end.output.extend(Message::new(b'h', 0, &format!("h.{}.", self.names), 0).bytes());
            let (calls, passed) = (VecDeque::new(), VecDeque::new());
            self.clients.push(Client { end, name: self.names, sent: 0, calls, passed, told: false, gone: false });
        }
        for i in 0..self.clients.len() {
            self.ask(i);
        }
        self.sim.settle();
        self.take();
        for i in 0..self.servers.len() {
            self.serve(i);
        }
        for i in 0..self.sides.len() {
            self.push(i);
        }
        let ms = self.random.u64(0..60);
        self.advance(ms);
        self.check();
        self.lose();
    }

    fn advance(&mut self, ms: u64) {
        self.now += ms;
        self.sim.advance(Duration::from_millis(ms));
        self.sim.settle();
    }

    fn ask(&mut self, i: usize) {
        for _ in 0..self.random.usize(0..3) {
            if self.clients[i].calls.len() > 5 {
                break;
            }
            let kind = [b'c', b'c', b'l', b'p', b'p', b'n'][self.random.usize(0..6)];
            let (name, n) = (self.clients[i].name, self.clients[i].sent);
            let id = self.id(n, 0);
            let text = format!("{}.{name}.{n}.", if kind == b'l' { 'c' } else { kind as char });
            let c = &mut self.clients[i];
            match kind {
                b'c' | b'l' => c.calls.push_back((id, text.clone())),
                b'p' => c.passed.push_back(text.clone()),
                _ => {}
            }
            // With `matches`, what is passed on may have the id of a question, but is none.
            let id = if kind == b'p' { FOREIGN } else { id };
            c.end.output.extend(Message::new(kind, id, &text, self.random.usize(0..300)).bytes());
            c.sent += 1;
        }
        self.clients[i].end.send(&mut self.sim, &mut self.random);
    }

    /// The connections that the app has made since, and what it has said on them.
    fn take(&mut self) {
        while let Some(peer) = (0..4).find_map(|n| self.sim.upstream("db", n)) {
            self.servers.push(Server { end: End::new(peer), client: None, owed: VecDeque::new() });
        }
        while let Some(peer) = self.sim.upstream("aside", 0) {
            self.sides.push(Side { end: End::new(peer), client: None, pushed: 0 });
        }
        let seed = self.seed;
        let named = |m: &Message| m.says().split('.').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0u32);
        for s in &mut self.servers {
            for m in s.end.take() {
                let name = named(&m);
                assert_eq!(*s.client.get_or_insert(name), name, "seed {seed}: a message of another client");
                if m.kind != b'n' {
                    s.owed.push_back((self.now, m));
                }
            }
        }
        for s in &mut self.sides {
            for m in s.end.take() {
                s.client = Some(named(&m));
            }
        }
    }

    fn size(&mut self) -> usize {
        let sizes = [0, self.random.usize(0..60), self.random.usize(0..40_000), self.random.usize(0..300_000)];
        sizes[usize::from(self.random.u8(0..40)).saturating_sub(36)]
    }

    fn serve(&mut self, i: usize) {
        let name = self.servers[i].client.unwrap_or(0);
        while !self.servers[i].owed.is_empty() && self.random.u8(0..5) != 0 {
            let n = match self.tied {
                Tied::Order => 0,
                Tied::Field => self.random.usize(0..self.servers[i].owed.len()),
                Tied::SameIds => {
                    let n = self.random.usize(0..self.servers[i].owed.len());
                    let (id, owed) = (self.servers[i].owed[n].1.id, &self.servers[i].owed);
                    owed.iter().position(|(_, m)| m.id == id).unwrap_or(n)
                }
            };
            // Some are late.
            let (came, m) = &self.servers[i].owed[n];
            if m.text.len() % 13 == 7 && came + 700 > self.now {
                break;
            }
            let Some((_, m)) = self.servers[i].owed.remove(n) else { break };
            if self.tied == Tied::Field && m.kind == b'?' && self.random.u8(0..40) == 0 {
                // There is no answer.
                continue;
            }
            let more = self.size();
            for _ in 0..self.random.usize(0..3) {
                let row = Message::new(b'd', m.id, &format!("d.{name}."), self.random.usize(0..30));
                self.servers[i].end.output.extend(row.bytes());
            }
            self.servers[i].end.output.extend(Message::new(b'a', m.id, &m.says(), more).bytes());
            if self.tied == Tied::Field && self.random.u8(0..20) == 0 {
                // Once more, and one that nobody has asked for.
                for id in [m.id, FOREIGN + 1] {
                    self.servers[i].end.output.extend(Message::new(b'a', id, &format!("x.{name}."), 3).bytes());
                }
            }
        }
        self.servers[i].end.send(&mut self.sim, &mut self.random);
    }

    fn push(&mut self, i: usize) {
        let Some(name) = self.sides[i].client else { return };
        if self.random.u8(0..6) == 0 {
            let n = self.sides[i].pushed;
            let (id, text) = (self.id(n, 1), format!("s.{name}.{n}."));
            self.pushes.entry(name).or_default().push_back(text.clone());
            let side = &mut self.sides[i];
            side.pushed += 1;
            side.end.output.extend(Message::new(b's', id, &text, 0).bytes());
        }
        self.sides[i].end.send(&mut self.sim, &mut self.random);
    }

    fn check(&mut self) {
        let seed = self.seed;
        for c in &mut self.clients {
            let name = c.name;
            for m in c.end.take() {
                let says = m.says();
                let (kind, of) = (m.kind, says.chars().next());
                let at = format!("seed {seed}, client {name}: {} {} {says}", kind as char, m.id);
                assert!(!c.told, "{at}: behind a fault");
                assert!(says.is_empty() || says.split('.').nth(1) == Some(&name.to_string()), "{at}: of another");
                let pushes = self.pushes.entry(name).or_default();
                match (kind, of) {
                    (b'r' | b'a', Some('c')) => {
                        assert_eq!(c.calls.pop_front(), Some((m.id, says)), "{at}");
                        self.seen[0] += 1;
                    }
                    (b't', None) => {
                        assert_eq!(c.calls.pop_front().map(|q| q.0), Some(m.id), "{at}");
                        self.seen[1] += 1;
                    }
                    (b'S', Some('s')) => {
                        assert_eq!(pushes.pop_front(), Some(says), "{at}");
                        self.seen[0] += 1;
                    }
                    (b'T', None) => {
                        assert!(pushes.pop_front().is_some(), "{at}");
                        self.seen[1] += 1;
                    }
                    (b'a', Some('p')) => {
                        let n = c.passed.iter().position(|p| *p == says);
                        assert!(n == Some(0) || n.is_some() && self.tied != Tied::Order, "{at}");
                        n.map(|n| c.passed.remove(n));
                        self.seen[2] += 1;
                    }
                    (b'd', Some('d')) | (b'a', Some('x')) => self.seen[3] += 1,
                    (b'f', None) => c.told = true,
                    _ => panic!("{at}"),
                }
            }
            if !c.end.is_open() {
                assert!(self.cut.contains(&name), "seed {seed}: client {name} is cut off");
                c.gone = true;
            }
        }
    }

    /// Ends are lost at random.
    fn lose(&mut self) {
        for c in &mut self.clients {
            if self.random.u8(0..150) == 0 {
                c.gone = true;
                c.end.peer.reset();
            }
        }
        let ends = self.servers.iter().map(|s| (&s.end, s.client)).chain(self.sides.iter().map(|s| (&s.end, s.client)));
        for (end, client) in ends {
            let (Some(name), 0) = (client, self.random.u8(0..250)) else { continue };
            self.cut.insert(name);
            match self.random.bool() {
                true => end.peer.reset(),
                false => end.peer.finish(),
            }
        }
        self.clients.retain(|c| !c.gone);
        self.servers.retain(|s| s.end.is_open());
        self.sides.retain(|s| s.end.is_open());
    }

    /// Servers answer all, and nobody waits for anything.
    fn end(&mut self) {
        for _ in 0..60 {
            for c in &mut self.clients {
                let rest = std::mem::take(&mut c.end.output);
                c.end.peer.send(&rest);
            }
            self.advance(1);
            self.take();
            for s in &mut self.servers {
                for (_, m) in s.owed.drain(..) {
                    s.end.output.extend(Message::new(b'a', m.id, &m.says(), 0).bytes());
                }
                let rest = std::mem::take(&mut s.end.output);
                s.end.peer.send(&rest);
            }
            for s in &mut self.sides {
                let rest = std::mem::take(&mut s.end.output);
                s.end.peer.send(&rest);
            }
            self.advance(100);
            self.check();
        }
        let seed = self.seed;
        for c in self.clients.iter().filter(|c| !c.gone && !self.cut.contains(&c.name)) {
            let pushes = self.pushes.get(&c.name).map_or(0, VecDeque::len);
            let left = (c.calls.len(), pushes, c.passed.len(), c.end.input.len());
            assert_eq!(left, (0, 0, 0, 0), "seed {seed}: client {}: calls, pushes, questions, bytes", c.name);
        }
        for c in self.clients.iter().filter(|c| !c.gone) {
            c.end.peer.finish();
        }
        self.advance(100);
        for s in self.servers.iter().map(|s| &s.end).chain(self.sides.iter().map(|s| &s.end)) {
            s.peer.finish();
        }
        self.advance(5000);
        for c in &self.clients {
            assert!(!c.end.is_open(), "seed {seed}: client {} waits for its end", c.name);
        }
        self.sim.core.shut();
        assert_eq!(self.sim.core.in_use(), [0; 4], "seed {seed}: connections, tasks, slots, calls");
    }
}

fn storms(name: &str, clauses: &str, tied: Tied) {
    let folder = Folder::new(&format!("ask_storm_{name}"));
    let file = folder.path().join("talk.loom");
    std::fs::write(&file, SOURCE.replace("CLAUSES", clauses)).expect("the folder is writable");
    let twins = twins(&file);
    let mut seen = [0; 4];
    for program in [Some(&twins.interpreted), twins.compiled.as_ref()].into_iter().flatten() {
        for seed in seeds(8) {
            let mut storm = Storm::new(program, &twins.module, tied, seed);
            (0..300).for_each(|_| storm.round());
            storm.end();
            (0..4).for_each(|i| seen[i] += storm.seen[i]);
        }
    }
    let few = [2000, 200, 2000, 500];
    assert!(seen.iter().zip(few).all(|(n, least)| *n >= least), "answered, not, passed on, others: {seen:?}");
}

#[test]
fn a_drain_waits_for_a_call() {
    let folder = Folder::new("ask_drain");
    let file = folder.path().join("talk.loom");
    std::fs::write(&file, SOURCE.replace("CLAUSES", BY_FIELD).replace("500ms", "20s")).expect("the folder is writable");
    let twins = twins(&file);
    let mut storm = Storm::new(&twins.interpreted, &twins.module, Tied::Field, 2);
    let client = storm.sim.client("client").expect("it listens");
    client.send(&Message::new(b'c', 7, "c.1.0.", 0).bytes());
    storm.sim.settle();
    storm.take();
    assert_eq!(storm.servers.len(), 1);
    storm.sim.core.drain();
    storm.advance(10_000);
    assert_eq!((client.receive(), client.ending()), (Vec::new(), Ending::Open), "the call is under way");
    storm.servers[0].end.peer.send(&Message::new(b'a', 7, "c.1.0.", 0).bytes());
    storm.advance(5000);
    let said = Message::all(&mut client.receive());
    assert_eq!(said.iter().map(|m| m.kind).collect::<Vec<_>>(), *b"rf", "the answer, and the end");
    assert_ne!(client.ending(), Ending::Open);
}

#[test]
fn calls_by_a_field() {
    storms("field", BY_FIELD, Tied::Field);
}

#[test]
fn calls_by_a_field_whose_values_come_again() {
    storms("same", BY_FIELD, Tied::SameIds);
}

#[test]
fn calls_by_order() {
    storms("order", BY_ORDER, Tied::Order);
}
