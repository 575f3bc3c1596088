//! Servers that hang, and that come back: `memcached_proxy` before three of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wireloom_tests::{require_tool, servers, Client, Process, Wireloom};

/// Clients that get keys of all servers, one after the other; what they were answered.
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
    let proxy = Wireloom::run("memcached_proxy", &["--set", &servers(&ports), "--set", "ascii.call_timeout=500ms"]);
    let load = Load::start(proxy.port, 8);
    let (before, errors) = load.in_time(Duration::from_secs(1));
    assert!(before > 100 && errors == 0, "{before} {errors}");
    backends[1].signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_secs(2));
    let (good, bad) = load.in_time(Duration::from_secs(3));
    // A client may wait for the one that is tried; the others do not.
    assert!(good > before / 2 && bad > 0, "{before} a second before, {good} in three seconds now, {bad} errors");
    backends[1].signal(libc::SIGCONT);
    let began = Instant::now();
    while load.in_time(Duration::from_millis(250)).1 > 0 {
        assert!(began.elapsed() < Duration::from_secs(5), "errors go on");
    }
    drop(load);
    let log = proxy.output();
    let address = format!("127.0.0.1:{}", ports[1]);
    let lines = |what: &str| log.lines().filter(|l| l.contains(&address) && l.contains(what)).count();
    assert_eq!((lines("is down: it does not answer in time"), lines("is up again")), (1, 1), "{log}");
}

/// However long it was away, nobody waits longer for it than a second or so.
#[test]
fn a_server_that_was_away_is_used_at_once() {
    if !require_tool("memcached") {
        return;
    }
    let mut backends: Vec<Process> = (0..2).map(|_| Process::memcached()).collect();
    let ports: Vec<u16> = backends.iter().map(|b| b.port).collect();
    let proxy = Wireloom::run("memcached_proxy", &["--set", &servers(&ports)]);
    let load = Load::start(proxy.port, 4);
    backends[1].kill();
    std::thread::sleep(Duration::from_secs(5));
    assert!(load.in_time(Duration::from_millis(200)).1 > 0);
    backends[1] = Process::memcached_on(ports[1]);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(load.in_time(Duration::from_secs(1)).1, 0);
}
