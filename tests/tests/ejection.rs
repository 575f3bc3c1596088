//! Servers that hang, and that come back: `memcached_proxy` before three of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;
use wireloom_tests::admin::eventually;
use wireloom_tests::{require_tool, servers, thrice, Client, Process, Wireloom};

/// Clients that get keys of all servers, one after the other, and their answers.
struct Load {
    stop: Arc<AtomicBool>,
    good: Arc<AtomicU64>,
    bad: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start(port: u16, clients: usize) -> Load {
        let (stop, good, bad) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let threads = (0..clients)
            .map(|c| {
                let (stop, good, bad) = (stop.clone(), good.clone(), bad.clone());
                std::thread::spawn(move || {
                    let mut client = Client::connect(port);
                    for n in (0u64..).take_while(|_| !stop.load(Relaxed)) {
                        client.send(format!("get key{c}.{}\r\n", n % 1000));
                        let right = client.take_line().starts_with("END");
                        if right { &good } else { &bad }.fetch_add(1, Relaxed);
                    }
                })
            })
            .collect();
        Load { stop, good, bad, threads }
    }

    /// Good and bad answers in this time.
    fn in_time(&self, time: Duration) -> (u64, u64) {
        let before = (self.good.load(Relaxed), self.bad.load(Relaxed));
        std::thread::sleep(time);
        (self.good.load(Relaxed) - before.0, self.bad.load(Relaxed) - before.1)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.threads.drain(..).for_each(|t| drop(t.join()));
    }
}

#[test]
fn a_server_that_hangs_is_left_out_and_comes_back() {
    if !require_tool("memcached") {
        return;
    }
    let backends: Vec<Process> = (0..3).map(|_| Process::memcached()).collect();
    let ports: Vec<u16> = backends.iter().map(|b| b.port).collect();
    let proxy = Wireloom::run("memcached_proxy", &["--set", &servers(&ports), "--set", "ascii.call_timeout=2s"]);
    let load = Load::start(proxy.port, 8);
    let (before, errors) = load.in_time(Duration::from_secs(1));
    assert!(before > 100 && errors == 0, "{before} {errors}");
    backends[1].signal(libc::SIGSTOP);
    let address = format!("127.0.0.1:{}", ports[1]);
    let lines = |what: &str| proxy.output().lines().filter(|l| l.contains(&address) && l.contains(what)).count();
    let down = "is down: it does not answer in time";
    eventually("it is left out", || lines(down) == 1);
    // A client may wait for the one that is tried; the others do not. If all did, there were some
    // 50 answers.
    thrice(|| {
        let (good, bad) = load.in_time(Duration::from_secs(3));
        let said = format!("{before} a second before, {good} in three seconds now, {bad} errors");
        (good > before / 4 && good > 100 && bad > 0).then_some(()).ok_or(said)
    });
    backends[1].signal(libc::SIGCONT);
    eventually("errors end", || load.in_time(Duration::from_millis(250)).1 == 0);
    drop(load);
    assert_eq!((lines(down), lines("is up again")), (1, 1), "{}", proxy.output());
}

/// After any absence of a server, no request waits longer for it than a second or so.
#[test]
fn a_server_that_was_away_is_used_at_once() {
    if !require_tool("memcached") {
        return;
    }
    let mut backends: Vec<Process> = (0..2).map(|_| Process::memcached()).collect();
    let ports: Vec<u16> = backends.iter().map(|b| b.port).collect();
    let proxy = Wireloom::run("memcached_proxy", &["--set", &servers(&ports)]);
    let load = Load::start(proxy.port, 4);
    thrice(|| {
        backends[1].kill();
        std::thread::sleep(Duration::from_secs(5));
        eventually("it is away", || load.in_time(Duration::from_millis(200)).1 > 0);
        backends[1] = Process::memcached_on(ports[1]);
        std::thread::sleep(Duration::from_millis(1500));
        let errors = load.in_time(Duration::from_secs(1)).1;
        (errors == 0).then_some(()).ok_or(format!("{errors} errors 1.5 s after its return"))
    });
}
