//! Answers that carry ids, in a simulated network: in any order, late, twice, with foreign ids, in
//! pieces. Each client sees answers to its own requests only, and each request ends once.

use std::collections::HashMap;
use std::time::Duration;
use wireloom_runtime::core::app::App;
use wireloom_runtime::engine::memory::{Ending, Peer};
use wireloom_runtime::sim::Sim;
use wireloom_runtime::Program;
use wireloom_tests::folder::Folder;
use wireloom_tests::programs::{seeds, twins};

const SOURCE: &str = "
unit Ask    { kind: u8  id: uID  size: u32 = len(data)  data: bytes<512KiB> [size] }
unit Answer { id: uID  kind: u8  size: u32 = len(data)  data: bytes<512KiB> [size] }

protocol quiz {
    request  Ask
    response Answer
    order    by id
    sharing  pipelined
    stateless
    no_reply when request.kind == 2
    on fault(f) {
        if let r = request {
            reply Answer { kind: if f.kind == timeout { 101 } else { 102 }, id: r.id, data: \"\" }
        }
    }
}

app relay {
    param servers: list<endpoint, 4>
    port client = listen tcp(7000)     as quiz { idle_timeout 9h }
    port expert = connect tcp(servers) as quiz { answer_timeout 500ms, stream_timeout 2s, eject_after 0, connections 2 }
    on client(a) { reply call expert[client.id % len(expert)](a) }
}
";

const ASK: u8 = 1;
const NOTE: u8 = 2;
const GOOD: u8 = 100;
const TIMEOUT: u8 = 101;
const LOST: u8 = 102;
/// An answer within this time is not late, in milliseconds.
const SOON: u64 = 400;

/// A message: its kind, its id, and what it says.
struct Message {
    kind: u8,
    id: Vec<u8>,
    text: Vec<u8>,
}

impl Message {
    fn request(&self) -> Vec<u8> {
        [&[self.kind][..], &self.id, &(self.text.len() as u32).to_be_bytes(), &self.text].concat()
    }

    fn answer(&self) -> Vec<u8> {
        [&self.id, &[self.kind][..], &(self.text.len() as u32).to_be_bytes(), &self.text].concat()
    }

    /// The message at the front of some bytes, and its length. Answers have their id first.
    fn first(bytes: &[u8], width: usize, answers: bool) -> Option<(Message, usize)> {
        let head = bytes.get(..5 + width)?;
        let size = u32::from_be_bytes(head[1 + width..].try_into().expect("four bytes")) as usize;
        let text = bytes.get(5 + width..5 + width + size)?;
        let (kind, id) = if answers { (head[width], &head[..width]) } else { (head[0], &head[1..1 + width]) };
        Some((Message { kind, id: id.to_vec(), text: text.to_vec() }, 5 + width + size))
    }

    fn all(bytes: &mut Vec<u8>, width: usize, answers: bool) -> Vec<Message> {
        let (mut all, mut at) = (Vec::new(), 0);
        while let Some((m, n)) = Message::first(&bytes[at..], width, answers) {
            all.push(m);
            at += n;
        }
        bytes.drain(..at);
        all
    }
}

/// A request that its client has sent.
struct Asked {
    id: Vec<u8>,
    text: String,
}

struct Client {
    peer: Peer,
    name: u32,
    asked: Vec<Asked>,
    ended: usize,
    input: Vec<u8>,
    /// Bytes of its last request that it has not sent.
    left: Vec<u8>,
    gone: bool,
}

/// A connection to a server: requests that have come, and bytes that are on their way.
struct Server {
    peer: Peer,
    input: Vec<u8>,
    owed: Vec<(u64, Message)>,
    answered: Vec<Message>,
    output: Vec<u8>,
}

struct Storm {
    sim: Sim,
    random: fastrand::Rng,
    width: usize,
    /// Servers answer twice, with foreign ids, and in pieces that come slowly.
    hostile: bool,
    clients: Vec<Client>,
    servers: Vec<Server>,
    names: u32,
    now: u64,
    /// Of requests that were answered in time: no client may hear otherwise.
    soon: HashMap<String, ()>,
    seed: u64,
    seen: [u64; 3],
}

impl Storm {
    fn new(program: &Program, module: &wireloom_ir::Module, (width, hostile): (usize, bool), seed: u64) -> Storm {
        let sets = [("servers".to_string(), "10.0.0.8:1,10.0.0.9:1".to_string())];
        let app = App::new(program.clone(), module.desc(), &sets).expect("a program and its description");
        let sim = Sim::new(vec![app]).expect("the app is simulated");
        sim.net.asynchronous(seed % 2 == 1);
        sim.net.mix(seed);
        let random = fastrand::Rng::with_seed(seed);
        let (clients, servers, soon) = (Vec::new(), Vec::new(), HashMap::new());
        Storm { sim, random, width, hostile, clients, servers, names: 0, now: 0, soon, seed, seen: [0; 3] }
    }

    fn round(&mut self) {
        while self.clients.len() < 6 {
            self.names += 1;
            let peer = self.sim.client("client").expect("it listens");
            let (name, asked, input, left) = (self.names, Vec::new(), Vec::new(), Vec::new());
            self.clients.push(Client { peer, name, asked, ended: 0, input, left, gone: false });
        }
        for i in 0..self.clients.len() {
            self.ask(i);
        }
        self.sim.settle();
        self.take_requests();
        for i in 0..self.servers.len() {
            self.serve(i);
        }
        let ms = self.random.u64(0..60);
        self.advance(ms);
        self.check();
        for c in &mut self.clients {
            if self.random.u8(0..150) == 0 {
                c.gone = true;
                c.peer.reset();
            }
        }
        self.clients.retain(|c| !c.gone);
        self.servers.retain(|s| s.peer.ending() == Ending::Open);
    }

    fn advance(&mut self, ms: u64) {
        self.now += ms;
        self.sim.advance(Duration::from_millis(ms));
        self.sim.settle();
    }

    /// A client sends a few requests, now and then a large one in pieces.
    fn ask(&mut self, i: usize) {
        let (c, random) = (&mut self.clients[i], &mut self.random);
        if !c.left.is_empty() {
            let n = random.usize(1..=c.left.len());
            c.peer.send(&c.left[..n]);
            c.left.drain(..n);
            return;
        }
        for _ in 0..random.usize(0..4) {
            let id: Vec<u8> = (0..self.width).map(|_| random.u8(..)).collect();
            if random.u8(0..10) == 0 {
                c.peer.send(&Message { kind: NOTE, id, text: b"note".to_vec() }.request());
                continue;
            }
            let text = format!("{}.{}.", c.name, c.asked.len());
            let large = random.u8(0..60) == 0;
            let more = if large { random.usize(0..150_000) } else { random.usize(0..50) };
            let m = Message { kind: ASK, id: id.clone(), text: [text.as_bytes(), &vec![b'q'; more]].concat() };
            c.asked.push(Asked { id, text });
            let bytes = m.request();
            if large {
                let n = random.usize(1..bytes.len());
                c.peer.send(&bytes[..n]);
                c.left = bytes[n..].to_vec();
                return;
            }
            c.peer.send(&bytes);
        }
    }

    fn take_requests(&mut self) {
        while let Some(peer) = (0..4).find_map(|n| self.sim.upstream("expert", n)) {
            let (input, output) = (Vec::new(), Vec::new());
            self.servers.push(Server { peer, input, owed: Vec::new(), answered: Vec::new(), output });
        }
        for s in &mut self.servers {
            s.input.extend(s.peer.receive());
            let all = Message::all(&mut s.input, self.width, false);
            let (notes, asks): (Vec<_>, Vec<_>) = all.into_iter().partition(|m| m.kind == NOTE);
            for m in &asks {
                let known = s.owed.iter().any(|(_, o)| o.id == m.id);
                assert!(!known, "seed {}: two requests under way have the id {:x?}", self.seed, m.id);
            }
            s.owed.extend(asks.into_iter().map(|m| (self.now, m)));
            if self.hostile {
                // No message without an answer is answered in order.
                s.answered.extend(notes.into_iter().filter(|_| self.random.u8(0..40) == 0));
            }
        }
    }

    /// The answer to a request: its first words, and more of any length.
    fn answer(&mut self, m: &Message) -> Vec<u8> {
        let n = m.text.iter().rposition(|b| *b == b'.').map_or(0, |n| n + 1);
        let rest = [0, self.random.usize(0..60), self.random.usize(0..40_000), self.random.usize(0..400_000)];
        let more = rest[usize::from(self.random.u8(0..40)).saturating_sub(36)];
        let text = [&m.text[..n], &vec![b'a'; more]].concat();
        Message { kind: GOOD, id: m.id.clone(), text }.answer()
    }

    fn serve(&mut self, i: usize) {
        while !self.servers[i].owed.is_empty() && self.random.u8(0..4) != 0 {
            let n = self.random.usize(0..self.servers[i].owed.len());
            // One of twenty is late, or has no answer at all.
            if self.servers[i].owed[n].0 + SOON > self.now && self.servers[i].owed[n].1.text.len() % 20 == 7 {
                break;
            }
            let (came, m) = self.servers[i].owed.swap_remove(n);
            if came + SOON > self.now && !self.hostile {
                let n = m.text.iter().rposition(|b| *b == b'.').map_or(0, |n| n + 1);
                self.soon.insert(String::from_utf8_lossy(&m.text[..n]).into_owned(), ());
            }
            let bytes = self.answer(&m);
            self.servers[i].output.extend(bytes);
            if self.hostile && self.random.u8(0..30) == 0 {
                self.servers[i].answered.push(m);
            }
        }
        if self.hostile {
            self.misbehave(i);
        }
        self.send(i);
    }

    /// A second answer, or one with any id.
    fn misbehave(&mut self, i: usize) {
        while let Some(m) = self.servers[i].answered.pop() {
            let again = self.answer(&m);
            self.servers[i].output.extend(again);
        }
        if self.random.u8(0..60) == 0 {
            let id: Vec<u8> = (0..self.width).map(|_| self.random.u8(..)).collect();
            // It may be that of a request under way: then its own words are due.
            if self.servers[i].owed.iter().all(|(_, o)| o.id != id) {
                let foreign = Message { kind: GOOD, id, text: b"nobody.".to_vec() }.answer();
                self.servers[i].output.extend(foreign);
            }
        }
    }

    /// Sends what is on its way in pieces: all of it, or a part if the server is slow.
    fn send(&mut self, i: usize) {
        let mut rest = std::mem::take(&mut self.servers[i].output);
        let stops = self.hostile && self.random.u8(0..3) == 0;
        while !rest.is_empty() {
            let n = self.random.usize(1..=rest.len());
            self.servers[i].peer.send(&rest[..n]);
            rest.drain(..n);
            self.sim.settle();
            if stops {
                break;
            }
        }
        self.servers[i].output = rest;
    }

    fn check(&mut self) {
        for c in &mut self.clients {
            c.input.extend(c.peer.receive());
            for m in Message::all(&mut c.input, self.width, true) {
                let asked = c.asked.get(c.ended).expect("an answer has a request");
                let (seed, text) = (self.seed, &asked.text);
                assert_eq!(m.id, asked.id, "seed {seed}: {text}");
                match m.kind {
                    GOOD => assert!(m.text.starts_with(text.as_bytes()), "seed {seed}: {text} {:?}", m.text),
                    TIMEOUT => {}
                    LOST => assert!(self.hostile, "seed {seed}: {text} is lost"),
                    kind => panic!("seed {seed}: {text}: an answer of kind {kind}"),
                }
                let soon = self.soon.contains_key(text);
                assert!(!soon || m.kind == GOOD, "seed {seed}: {text} was answered in time, and heard {}", m.kind);
                self.seen[usize::from(m.kind - GOOD)] += 1;
                c.ended += 1;
            }
            if c.peer.ending() != Ending::Open {
                assert!(self.hostile, "seed {}: a client is cut off", self.seed);
                c.gone = true;
            }
        }
    }

    /// Servers say no more, so all that is under way comes to its end.
    fn end(&mut self) {
        for c in &mut self.clients {
            c.peer.send(&std::mem::take(&mut c.left));
        }
        self.advance(10);
        for _ in 0..6 {
            for i in 0..self.servers.len() {
                let rest = std::mem::take(&mut self.servers[i].output);
                self.servers[i].peer.send(&rest);
            }
            self.advance(700);
            self.check();
        }
        for c in self.clients.iter().filter(|c| !c.gone) {
            assert_eq!((c.ended, c.input.len()), (c.asked.len(), 0), "seed {}: client {}", self.seed, c.name);
        }
        self.sim.core.shut();
        assert_eq!(self.sim.core.in_use(), [0; 4], "seed {}: connections, tasks, slots, calls", self.seed);
    }
}

fn storms(width: usize, hostile: bool) {
    let folder = Folder::new(&format!("answer_storm_{width}_{hostile}"));
    let file = folder.path().join("quiz.loom");
    std::fs::write(&file, SOURCE.replace("uID", &format!("u{}", 8 * width))).expect("the folder is writable");
    let twins = twins(&file);
    let mut seen = [0; 3];
    for program in [Some(&twins.interpreted), twins.compiled.as_ref()].into_iter().flatten() {
        for seed in seeds(8) {
            let mut storm = Storm::new(program, &twins.module, (width, hostile), seed);
            (0..300).for_each(|_| storm.round());
            storm.end();
            (0..3).for_each(|i| seen[i] += storm.seen[i]);
        }
    }
    let few = if hostile { [1000, 100, 100] } else { [10_000, 100, 0] };
    assert!(seen.iter().zip(few).all(|(n, least)| *n >= least), "answers, late ones, lost ones: {seen:?}");
}

#[test]
fn late_answers_in_any_order() {
    storms(2, false);
}

#[test]
fn hostile_answers_in_pieces() {
    storms(2, true);
}

/// There are few of them, so requests wait for ids.
#[test]
fn late_answers_with_ids_of_one_byte() {
    storms(1, false);
}

#[test]
fn hostile_answers_with_ids_of_one_byte() {
    storms(1, true);
}

#[test]
fn late_answers_with_ids_of_three_bytes() {
    storms(3, false);
}
