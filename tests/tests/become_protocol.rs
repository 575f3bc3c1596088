//! Connections of conversations that change their protocol: torn at every byte, with bytes ahead of
//! the change, between several protocols, compiled and interpreted.

use std::time::Duration;
use wireloom_tests::{admin, free_port, servers, Backend, Client, Process, Wireloom};

fn start(servers: &str, extra: &[&str]) -> Process {
    let args: Vec<&str> = ["--set", servers].into_iter().chain(extra.iter().copied()).collect();
    Wireloom::run_file("tests/programs/becomes.loom", &args, |_| {})
}

fn small(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, body.len() as u8], body].concat()
}

/// Compiled and interpreted, on either engine.
const WAYS: [&[&str]; 3] = [&[], &["--interpret"], &["--engine", "uring"]];

#[test]
fn rest_of_the_request_torn_at_every_byte() {
    for how in WAYS {
        let backend = Backend::new();
        let proxy = start(&servers(&[backend.port]), how);
        // Lines, frames, wide frames, lines again, and frames whose session has begun anew.
        let frames =
            [small(1, b"ab"), small(2, b""), small(7, b"x"), vec![3, 1, 44], vec![b'.'; 300], vec![9, 0, 0]].concat();
        let all = [&b"loose\n"[..], &frames, b"loose\n", &small(5, b"four"), &small(9, b"")].concat();
        let answer = [
            &b"ok\n"[..],
            &small(1, b"2"),
            &small(2, b"0"),
            &small(7, b"1"),
            &small(3, b"300"),
            &small(9, b"5"),
            b"ok\n",
            &small(5, b"4"),
            &small(9, b"2"),
        ]
        .concat();
        for cut in 0..all.len() {
            let mut client = Client::connect(proxy.port);
            client.send(&all[..cut]);
            std::thread::sleep(Duration::from_micros(300));
            client.send(&all[cut..]);
            client.expect(&answer);
        }
        for size in [1, 2, 3, 7] {
            Client::connect(proxy.port).send_in_pieces(&all, size).expect(&answer);
        }
    }
}

#[test]
fn bytes_ahead_of_a_change_are_refused_wherever_they_are_torn() {
    for how in WAYS {
        let backend = Backend::new();
        let page = free_port();
        let admin_at = format!("127.0.0.1:{page}");
        let proxy = start(&servers(&[backend.port]), &[how, &["--admin", &admin_at]].concat());
        // In one segment: the bytes are there. The answer to the request has gone out before.
        for behind in [&b"\x01"[..], b"\x01\x02ab", &[0; 3000]] {
            let mut client = Client::connect(proxy.port);
            client.send([b"strict\n", behind].concat());
            client.expect("ok\n");
            client.expect_closed();
        }
        // Behind the answer they are the new protocol's.
        let mut client = Client::connect(proxy.port);
        client.send("strict\n").expect([&b"ok\n"[..], &small(1, b"begun")].concat());
        client.send(small(4, b"x")).expect(small(4, b"1"));
        // While a client is on hold, bytes of it wait: in one segment with the request, or later.
        for pieces in [&[&b"both\nremove all\n"[..]][..], &[b"both\n", b"remove", b" all\n"]] {
            let mut client = Client::connect(proxy.port);
            let mut server = None;
            for p in pieces {
                client.send(p);
                let server = server.get_or_insert_with(|| backend.accept());
                server.expect(if p.starts_with(b"both") { "both\n" } else { "" });
                std::thread::sleep(Duration::from_millis(5));
            }
            let mut server = server.expect("it is there");
            server.expect_nothing_more();
            server.send("yes\n");
            client.expect("yes\n");
            client.expect_closed();
            server.expect_closed();
        }
        // A server's bytes behind its answer.
        let mut client = Client::connect(proxy.port);
        client.send("both\n");
        let mut server = backend.accept();
        server.expect("both\n");
        server.send([&b"yes\n"[..], &small(1, b"ahead")].concat());
        client.expect("yes\n");
        client.expect_closed();
        server.expect_closed();
        admin::eventually("they are counted", || admin::faults(&admin::status(page), "early") == 6);
    }
}

#[test]
fn both_sides_change_and_a_refusal_changes_nothing() {
    for how in WAYS {
        let backend = Backend::new();
        let proxy = start(&servers(&[backend.port]), how);
        for cut in 0..5 {
            let mut client = Client::connect(proxy.port);
            client.send("both\nasked\n");
            let mut server = backend.accept();
            server.expect("both\n");
            // It is read on in the old protocol.
            server.send("no\n").expect("asked\n");
            client.expect("no\n");
            client.send("both\n");
            server.expect("both\n");
            let yes = [&b"yes, at once\n"[..], &small(8, b"first")].concat();
            server.send(&yes[..yes.len() - cut]);
            std::thread::sleep(Duration::from_millis(1));
            server.send(&yes[yes.len() - cut..]);
            client.expect(&yes);
            client.send_in_pieces(&small(3, b"request"), 2);
            server.expect(small(3, b"request"));
            server.send_in_pieces(&small(4, b"answer"), 2);
            client.expect(small(4, b"answer"));
            client.finish_sending();
            server.expect_closed();
        }
    }
}

#[test]
fn a_message_of_another_protocol_is_not_sent() {
    for how in WAYS {
        let backend = Backend::new();
        let proxy = start(&servers(&[backend.port]), how);
        let mut client = Client::connect(proxy.port);
        client.send("wrong\n");
        // The fault is told in the protocol that the client speaks by now.
        client.expect(small(b'X', b"unspoken"));
        client.expect_closed();
        // Messages of a server that would be passed on in a run.
        let mut client = Client::connect(proxy.port);
        client.send("hello\n");
        let mut server = backend.accept();
        server.expect("hello\n").send("a\nb\n");
        client.expect("a\nb\n").send("loose\n").expect("ok\n");
        server.send("c\nd\n");
        client.expect(small(b'X', b"unspoken"));
        client.expect_closed();
        // A client that is not on hold, though its message is not at hand.
        let mut client = Client::connect(proxy.port);
        client.send("hello\n");
        let mut server = backend.accept();
        server.expect("hello\n");
        server.send("yes\n");
        client.expect("yes\n");
        client.expect_closed();
    }
}

/// A server that cannot be reached: the bytes of the new protocol go to the next one, in the new
/// protocol.
#[test]
fn a_change_before_the_server_is_there() {
    for how in WAYS {
        let (lost, backend) = (Backend::refusing(), Backend::new());
        let proxy = start(&servers(&[lost.port, backend.port]), how);
        let mut client = Client::connect(proxy.port);
        client.send([&b"through\n"[..], &small(1, b"early")].concat());
        client.expect("ok\n");
        let mut server = backend.accept();
        server.expect(small(1, b"early"));
        server.send(small(2, b"answer"));
        client.expect(small(2, b"answer")).send(small(3, b"more"));
        server.expect(small(3, b"more"));
    }
}
