//! Many messages with random faults, on real sockets. Clients of both memcached protocols, with
//! values of their own, use `memcached_proxy` while its servers are killed, stopped and revived. No
//! answer to the wrong client, none lost without an error, none twice. `SOAK=<messages>` sets the
//! size (40,000 by default).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wireloom_tests::memcached::binary::{op, Packet};
use wireloom_tests::{alone, servers, Client, Process, Wireloom};

const CLIENTS: usize = 16;
const KEYS: u64 = 40;

/// The run ends when enough messages and enough faults have been.
const FAULTS: u64 = 12;

/// Counts over all clients, and of the faults.
#[derive(Default)]
struct Tally {
    faults: AtomicU64,
    answered: AtomicU64,
    errors: AtomicU64,
    hits: AtomicU64,
}

/// A client's request whose answer it expects now.
enum Asked {
    Set,
    Get(Vec<u64>),
    Delete,
    BinarySet(u32),
    BinaryGet(u32, u64),
}

/// One client: a batch of requests in one write, then all their answers, again and again.
struct Talker {
    id: usize,
    client: Client,
    random: fastrand::Rng,
    /// Values sent so far; each value is used once.
    sequence: u64,
    own_errors: u64,
    tally: Arc<Tally>,
}

impl Talker {
    fn key(&self, n: u64) -> String {
        format!("soak{}-{n}", self.id)
    }

    /// A value tells its client, its key and its number, and is of any size.
    fn value(&mut self, key: u64) -> String {
        self.sequence += 1;
        let size = if self.random.u64(..50) == 0 { 20_000 } else { self.random.u64(..200) as usize };
        format!("{}/{key}/{}/{}", self.id, self.sequence, "p".repeat(size))
    }

    fn check_value(&self, key: u64, value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        let parts: Vec<&str> = text.splitn(4, '/').collect();
        assert!(
            parts.len() == 4 && parts[3].bytes().all(|b| b == b'p'),
            "client {}: a broken value {text:.80}",
            self.id
        );
        assert_eq!(
            (parts[0], parts[1]),
            (self.id.to_string().as_str(), key.to_string().as_str()),
            "someone else's value"
        );
        assert!(parts[2].parse::<u64>().is_ok_and(|n| n <= self.sequence), "a value from the future: {text:.80}");
    }

    fn text_batch(&mut self) -> (Vec<u8>, Vec<Asked>) {
        let (mut say, mut asked) = (Vec::new(), Vec::new());
        for _ in 0..=self.random.u64(..15) {
            let n = self.random.u64(..KEYS);
            let key = self.key(n);
            match self.random.u64(..10) {
                0..4 => {
                    let value = self.value(n);
                    say.extend(format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()).bytes());
                    asked.push(Asked::Set);
                }
                4..8 => {
                    say.extend(format!("get {key}\r\n").bytes());
                    asked.push(Asked::Get(vec![n]));
                }
                8 => {
                    let keys: Vec<u64> = (0..5).map(|_| self.random.u64(..KEYS)).collect();
                    let names: Vec<String> = keys.iter().map(|k| self.key(*k)).collect();
                    say.extend(format!("get {}\r\n", names.join(" ")).bytes());
                    asked.push(Asked::Get(keys));
                }
                _ => {
                    say.extend(format!("delete {key}\r\n").bytes());
                    asked.push(Asked::Delete);
                }
            }
        }
        (say, asked)
    }

    fn binary_batch(&mut self) -> (Vec<u8>, Vec<Asked>) {
        let (mut say, mut asked) = (Vec::new(), Vec::new());
        for _ in 0..=self.random.u64(..15) {
            let n = self.random.u64(..KEYS);
            let key = self.key(n);
            let opaque = self.random.u64(..1 << 32) as u32;
            if self.random.u64(..2) == 0 {
                let value = self.value(n);
                say.extend(Packet::store(op::SET, &key, value.as_bytes()).opaque(opaque).bytes());
                asked.push(Asked::BinarySet(opaque));
            } else {
                say.extend(Packet::request(op::GETK, &key).opaque(opaque).bytes());
                asked.push(Asked::BinaryGet(opaque, n));
            }
        }
        (say, asked)
    }

    fn run(&mut self, messages: u64) {
        let until = Instant::now() + Duration::from_secs(600);
        while self.tally.answered.load(Relaxed) < messages || self.tally.faults.load(Relaxed) < FAULTS {
            assert!(Instant::now() < until, "the run does not come to its end");
            let (say, asked) = if self.id.is_multiple_of(2) { self.text_batch() } else { self.binary_batch() };
            self.client.send(say);
            let errors = self.own_errors;
            for a in &asked {
                self.hear(a);
            }
            if self.own_errors > errors {
                // As a real client would: no use in asking a lost server as fast as it can be
                // refused.
                std::thread::sleep(Duration::from_millis(2));
            }
            if self.tally.answered.fetch_add(asked.len() as u64, Relaxed) > messages {
                // Only faults are missing.
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        // In step to the end, and nothing twice.
        if self.id.is_multiple_of(2) {
            self.client.send("mn\r\n").expect("MN\r\n").expect_nothing_more();
        } else {
            self.client.in_step();
            self.client.expect_nothing_more();
        }
    }

    fn hear(&mut self, asked: &Asked) {
        match asked {
            Asked::Set => self.line(&["STORED"]),
            Asked::Delete => self.line(&["DELETED", "NOT_FOUND"]),
            Asked::Get(keys) => self.values(keys),
            Asked::BinarySet(opaque) => {
                let got = Packet::take(&mut self.client);
                assert_eq!(
                    (got.opcode, got.opaque),
                    (op::SET, *opaque),
                    "client {}: another's answer {got:?}",
                    self.id
                );
                self.error_if(got.status != 0);
            }
            Asked::BinaryGet(opaque, key) => {
                let got = Packet::take(&mut self.client);
                assert_eq!(
                    (got.opcode, got.opaque),
                    (op::GETK, *opaque),
                    "client {}: another's answer {got:?}",
                    self.id
                );
                if got.status == 0 {
                    assert_eq!(got.key, self.key(*key).into_bytes());
                    self.check_value(*key, &got.value);
                    self.tally.hits.fetch_add(1, Relaxed);
                }
                self.error_if(got.status > 1);
            }
        }
    }

    fn error_if(&mut self, error: bool) {
        self.own_errors += u64::from(error);
        self.tally.errors.fetch_add(u64::from(error), Relaxed);
    }

    fn line(&mut self, good: &[&str]) {
        let line = self.client.take_line();
        let error = line.starts_with("SERVER_ERROR");
        assert!(error || good.contains(&line.as_str()), "client {}: wanted {good:?}, got {line:.80}", self.id);
        self.error_if(error);
    }

    /// The values of these keys, each once at most, some missing; or an error. Those of one server
    /// come behind those of another.
    fn values(&mut self, keys: &[u64]) {
        let mut left = keys.to_vec();
        loop {
            let line = self.client.take_line();
            if line == "END" {
                return;
            }
            if line.starts_with("SERVER_ERROR") && left.len() == keys.len() {
                return self.error_if(true);
            }
            let words: Vec<&str> = line.split(' ').collect();
            let [_, key, _, size] = words[..] else { panic!("client {}: wanted a value, got {line:.80}", self.id) };
            let Some(at) = left.iter().position(|k| self.key(*k) == key) else {
                panic!("client {}: {key} was not asked, or is answered twice", self.id)
            };
            let value = self.client.take(size.parse().expect("a size"));
            self.client.expect("\r\n");
            self.check_value(left.remove(at), &value);
            self.tally.hits.fetch_add(1, Relaxed);
        }
    }
}

/// Kills, stops and revives servers until told to end.
fn faults(mut backends: Vec<Process>, tally: &Tally, end: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(0x5eed_1234_5678_9abc);
    while !end.load(Relaxed) {
        let i = random.u64(..backends.len() as u64) as usize;
        if random.u64(..3) == 0 {
            backends[i].stop();
            std::thread::sleep(Duration::from_millis(random.u64(..500)));
            backends[i].resume();
        } else {
            let port = backends[i].port;
            backends[i].kill();
            std::thread::sleep(Duration::from_millis(random.u64(..150)));
            backends[i] = Process::memcached_on(port);
        }
        tally.faults.fetch_add(1, Relaxed);
        std::thread::sleep(Duration::from_millis(random.u64(..200)));
    }
}

fn soak(options: &[&str]) {
    let _turn = alone();
    let messages: u64 = std::env::var("SOAK").ok().and_then(|n| n.replace('_', "").parse().ok()).unwrap_or(40_000);
    let backends: Vec<Process> = (0..4).map(|_| Process::memcached()).collect();
    let list = servers(&backends.iter().map(|b| b.port).collect::<Vec<_>>());
    let mut args = vec!["--set", list.as_str()];
    for o in
        ["ascii.call_timeout=300ms", "binary.call_timeout=300ms", "ascii.eject_time=100ms", "binary.eject_time=100ms"]
    {
        args.extend(["--set", o]);
    }
    args.extend(options);
    let proxy = Wireloom::run("memcached_proxy", &args);
    let (tally, end) = (Arc::new(Tally::default()), Arc::new(AtomicBool::new(false)));
    let (ended, count) = (end.clone(), tally.clone());
    let injector = std::thread::spawn(move || faults(backends, &count, &ended));
    let start = Instant::now();
    let talkers: Vec<_> = (0..CLIENTS)
        .map(|id| {
            let random = fastrand::Rng::with_seed(0x9e37_79b9 * (id as u64 + 1));
            let mut talker = Talker {
                id,
                client: Client::connect(proxy.port),
                random,
                sequence: 0,
                own_errors: 0,
                tally: tally.clone(),
            };
            std::thread::spawn(move || talker.run(messages))
        })
        .collect();
    let failed = talkers.into_iter().filter_map(|t| t.join().err()).count();
    end.store(true, Relaxed);
    injector.join().expect("the injector ends");
    let made = tally.faults.load(Relaxed);
    let (answered, errors, hits) = (tally.answered.load(Relaxed), tally.errors.load(Relaxed), tally.hits.load(Relaxed));
    eprintln!("{answered} messages in {:?}: {made} faults, {errors} errors, {hits} hits", start.elapsed());
    assert_eq!(failed, 0, "{failed} clients saw something wrong");
    assert!(answered >= messages && hits > messages / 20);
    // On a slow machine servers miss their time, too.
    assert!(errors < answered / 10 * 9, "{errors} of {answered} are errors");
    assert!(proxy.rss_kib() < 100 * 1024, "{} KiB", proxy.rss_kib());
}

#[test]
fn no_answer_goes_astray() {
    soak(&[]);
}

#[test]
fn no_answer_goes_astray_over_io_uring() {
    soak(&["--engine", "uring"]);
}

#[test]
fn no_answer_goes_astray_on_two_cores() {
    soak(&["--cores", "0-1"]);
}
