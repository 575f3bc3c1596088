//! Conversations in a simulated network: slow and lost ends, in any order, with and without writes
//! that are under way for a while. Messages arrive whole, in order, at the right end. A client that
//! waits in vain is found, since time is simulated as well.

use std::collections::HashSet;
use std::time::Duration;
use wireloom_runtime::core::app::App;
use wireloom_runtime::engine::memory::{Behaviour, Ending, Peer};
use wireloom_runtime::sim::Sim;
use wireloom_runtime::Program;
use wireloom_tests::folder::Folder;
use wireloom_tests::frames::{frame, FRAMES};
use wireloom_tests::programs::{seeds, twins};

/// The longest silence is far below `idle_timeout`: nothing is freed by it.
const APP: &str = "
app passes {
    param servers: list<endpoint, 4>
    port client = listen tcp(7000)     as frames { idle_timeout 9h }
    port db     = connect tcp(servers) as frames { connect_timeout 2s, idle_timeout 9h, eject_after 0 }
    session up: connection of db
    counter ones
    counter heard
    on client.opened { up = open db[client.id % len(db)] }
    on client(m: frames.up) {
        if m.kind == 1 { ones += 1 }
        m -> up
    }
    on up(m: frames.down) {
        heard += 1
        m -> client
    }
}
";

/// One end: the frames that it has sent, and those that have come.
struct End {
    peer: Peer,
    /// Its client's number; of a server: once a frame has told it.
    client: Option<u32>,
    sent: u32,
    got: u32,
    input: Vec<u8>,
    finished: bool,
    /// A fault's letter that has come.
    told: Option<u8>,
}

impl End {
    fn new(peer: Peer, client: Option<u32>) -> End {
        End { peer, client, sent: 0, got: 0, input: Vec::new(), finished: false, told: None }
    }

    fn send(&mut self, direction: char, random: &mut fastrand::Rng) {
        let (Some(client), false) = (self.client, self.finished) else { return };
        let mut all = Vec::new();
        for _ in 0..random.usize(0..4) {
            let rest = [random.usize(0..40), random.usize(0..3000), random.usize(0..90_000)];
            let text = format!("{direction}.{client}.{}.", self.sent);
            let body = [text.as_bytes(), &vec![b'v'; rest[usize::from(random.u8(0..10)).saturating_sub(7)]]].concat();
            all.extend(frame(random.u8(1..=2), &body));
            self.sent += 1;
        }
        let mut rest = &all[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(random.usize(1..=rest.len()));
            self.peer.send(now);
            rest = later;
        }
    }

    /// Takes what has come. Each frame is the next one of the other end.
    fn check(&mut self, direction: char) -> u64 {
        self.input.extend(self.peer.receive());
        let before = self.got;
        let mut at = 0;
        while let Some(head) = self.input.get(at..at + 5) {
            let size = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let kind = head[0];
            let Some(body) = self.input.get(at + 5..at + 5 + size) else { break };
            assert!(self.told.is_none(), "client {:?}: a frame behind a fault", self.client);
            at += 5 + size;
            if kind > 2 {
                assert!(direction == 'd' && size == 0, "an odd frame");
                self.told = Some(kind);
                continue;
            }
            let text = String::from_utf8_lossy(&body[..body.len().min(30)]).into_owned();
            let mut words = text.split('.');
            assert_eq!(words.next(), Some(direction.to_string().as_str()), "{text}");
            let client: u32 = words.next().and_then(|w| w.parse().ok()).expect("a client's number");
            assert_eq!(*self.client.get_or_insert(client), client, "a frame of another client");
            assert_eq!(words.next().map(str::to_string), Some(self.got.to_string()), "client {client}: {text}");
            self.got += 1;
        }
        self.input.drain(..at);
        u64::from(self.got - before)
    }

    fn is_open(&self) -> bool {
        self.peer.ending() == Ending::Open
    }

    /// The other end has ended: this one does so after a while, too. False: it is over.
    fn stays(&mut self, random: &mut fastrand::Rng) -> bool {
        if !self.is_open() && !self.finished && random.u8(0..5) == 0 {
            self.finished = true;
            self.peer.finish();
        }
        self.is_open() || !self.finished
    }

    /// Slow ends read a little of what has come, mostly.
    fn moves_its_window(&self, slow: bool, random: &mut fastrand::Rng) {
        match random.u8(0..40) {
            0..=2 => self.peer.window(Some(random.usize(0..5000))),
            3..=6 => self.peer.window(None),
            7..=25 if slow => self.peer.window(Some(random.usize(0..9000))),
            _ => {}
        }
    }

    fn ends(&mut self, random: &mut fastrand::Rng) {
        self.finished = true;
        match random.u8(0..2) {
            0 => self.peer.reset(),
            _ => self.peer.finish(),
        }
    }
}

struct Storm {
    sim: Sim,
    random: fastrand::Rng,
    clients: Vec<End>,
    servers: Vec<End>,
    names: u32,
    /// Clients that have been cut off, or whose server has.
    cut: HashSet<u32>,
    /// A server does not take connections.
    trouble: bool,
    slow: bool,
    messages: u64,
}

impl Storm {
    fn new(program: &Program, module: &wireloom_ir::Module, seed: u64) -> Storm {
        let sets = [("servers".to_string(), "10.0.0.8:1,10.0.0.9:1".to_string())];
        let app = App::new(program.clone(), module.desc(), &sets).expect("a program and its description");
        let sim = Sim::new(vec![app]).expect("the app is simulated");
        sim.net.asynchronous(seed % 2 == 1);
        sim.net.mix(seed);
        if seed % 3 == 1 {
            sim.net.parts(2);
        }
        let random = fastrand::Rng::with_seed(seed);
        let (clients, servers, cut) = (Vec::new(), Vec::new(), HashSet::new());
        Storm { sim, random, clients, servers, names: 0, cut, trouble: false, slow: seed % 4 < 2, messages: 0 }
    }

    fn round(&mut self) {
        while self.clients.len() < 8 {
            self.names += 1;
            let peer = self.sim.client("client").expect("it listens");
            self.clients.push(End::new(peer, Some(self.names)));
            if self.trouble {
                self.cut.insert(self.names);
            }
        }
        let (slow, random) = (self.slow, &mut self.random);
        for c in &mut self.clients {
            c.send('u', random);
            c.moves_its_window(slow, random);
        }
        self.sim.settle();
        self.take_servers();
        let random = &mut self.random;
        for s in &mut self.servers {
            s.send('d', random);
            s.moves_its_window(slow, random);
            if let (0, Some(client)) = (random.u8(0..250), s.client) {
                s.ends(random);
                self.cut.insert(client);
            }
        }
        if random.u8(0..50) == 0 {
            let how = [Behaviour::Refuse, Behaviour::Silent, Behaviour::Accept, Behaviour::Accept];
            let how = how[random.usize(0..4)];
            (0..2).for_each(|i| self.sim.behave("db", i, how));
            self.trouble = how != Behaviour::Accept;
        }
        if random.u8(0..10) == 0 {
            let ms = random.u64(0..400);
            self.sim.advance(Duration::from_millis(ms));
        }
        self.sim.settle();
        self.check();
        for c in self.clients.iter_mut().filter(|c| !c.finished) {
            if self.random.u8(0..200) == 0 {
                c.ends(&mut self.random);
                self.cut.extend(c.client);
            }
        }
        self.clients.retain_mut(|c| c.stays(&mut self.random));
        self.servers.retain_mut(|s| s.stays(&mut self.random));
    }

    /// The connections that the app has made since.
    fn take_servers(&mut self) {
        while let Some(peer) = (0..4).find_map(|n| self.sim.upstream("db", n)) {
            self.servers.push(End::new(peer, None));
        }
    }

    fn check(&mut self) {
        for c in &mut self.clients {
            self.messages += c.check('d');
        }
        for s in &mut self.servers {
            self.messages += s.check('u');
        }
    }

    /// All ends read again, and clients end in order. Nobody waits for anything.
    fn heal(&mut self, seed: u64) {
        for _ in 0..400 {
            self.take_servers();
            self.clients.iter().chain(&self.servers).for_each(|e| e.peer.window(None));
            self.sim.advance(Duration::from_millis(20));
            self.check();
        }
        for c in &self.clients {
            let Some(client) = c.client.filter(|n| !self.cut.contains(n)) else { continue };
            let server = self.servers.iter().find(|s| s.client == Some(client));
            let (asked, said) = server.map_or((0, 0), |s| (s.got, s.sent));
            assert_eq!((asked, c.got, c.told), (c.sent, said, None), "seed {seed}: client {client} and its server");
            assert!(c.is_open(), "seed {seed}: client {client} is cut off");
        }
        for c in self.clients.iter_mut().filter(|c| !c.finished) {
            c.finished = true;
            c.peer.finish();
        }
        self.sim.advance(Duration::from_millis(100));
        for s in self.servers.iter_mut().filter(|s| !s.finished) {
            assert!(!s.is_open(), "seed {seed}: the server of client {:?} does not see the end", s.client);
            s.peer.finish();
        }
        self.sim.advance(Duration::from_secs(5));
        for c in &self.clients {
            assert!(!c.is_open(), "seed {seed}: client {:?} waits for its end", c.client);
        }
    }
}

#[test]
fn nobody_waits_in_vain() {
    let folder = Folder::new("conversation_storm");
    let file = folder.path().join("frames.loom");
    std::fs::write(&file, format!("{FRAMES}{APP}")).expect("the folder is writable");
    let twins = twins(&file);
    let mut messages = 0;
    for program in [Some(&twins.interpreted), twins.compiled.as_ref()].into_iter().flatten() {
        for seed in seeds(12) {
            let mut storm = Storm::new(program, &twins.module, seed);
            (0..300).for_each(|_| storm.round());
            storm.heal(seed);
            messages += storm.messages;
        }
    }
    assert!(messages > 10_000, "{messages} messages");
}
