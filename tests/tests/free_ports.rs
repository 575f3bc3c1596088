//! The ports that tests hand out to servers are free when the server opens them.

use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use wireloom_tests::{free_port, Ports};

/// Each child that is being started has a copy of all descriptors for a moment.
#[test]
fn beside_children_that_start() {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    Command::new("true").status().expect("true is there");
                }
            });
        }
        let taken = (0..100).map(|_| free_port()).filter(|p| TcpListener::bind(("127.0.0.1", *p)).is_err()).count();
        over.store(true, Ordering::Relaxed);
        assert_eq!(taken, 0, "of 100 ports");
    });
}

#[test]
fn no_port_twice() {
    let threads = [(); 4].map(|()| std::thread::spawn(|| (0..20).map(|_| free_port()).collect::<Vec<_>>()));
    let mut ports: Vec<u16> = threads.into_iter().flat_map(|t| t.join().expect("it ends")).collect();
    ports.sort();
    ports.dedup();
    assert_eq!(ports.len(), 80);
}

/// A port in use is passed over, with TCP and UDP, on any address. The ports are the test's own:
/// another test may just be given one that is bound here.
#[test]
fn none_in_use() {
    let mut ports = Ports::default();
    let next = ports.free_port() + 1;
    let _tcp = TcpListener::bind(("127.0.0.2", next));
    let _udp = std::net::UdpSocket::bind(("0.0.0.0", next + 1));
    let given: Vec<u16> = (0..8).map(|_| ports.free_port()).collect();
    assert!(!given.contains(&next) && !given.contains(&(next + 1)), "{given:?}");
}
