//! Connections of conversations that change their protocol: torn at every byte, with bytes ahead of
//! the change, between several protocols, compiled and interpreted.

use std::time::Duration;
use wireloom_tests::folder::Folder;
use wireloom_tests::{admin, free_port, servers, Backend, Client, Process, Wireloom};

/// Lines, of which `up` asks for frames on the client's side, and `both` on both sides. Frames of
/// kind 9 go back to lines. `plain` is as `up`, for clients that may go on at once.
const TALKS: &str = "
unit Line { text: text<100> until \"\\n\" }
unit Frame(wide: bool) {
    kind: u8
    size: switch { when wide => two: u16, else => one: u8 }
    let n = if wide { two else 0 } else { u16(one else 0) }
    body: stream bytes [n]
}
unit Small { kind: u8  size: u8 = len(body)  body: bytes<200> [size] }
protocol lines {
    up      Line
    down    Line
    sharing session
    on fault(f) {
        let word = match f.kind {
            early => \"early\"
            unspoken => \"unspoken\"
            malformed | too_long | constraint => \"bad\"
            _ => \"other\"
        }
        reply Line { text: word } then close
    }
}
protocol frames {
    up      Frame(wide = wide)
    down    Small
    session wide: bool
    session seen: u8
    sharing session
    on fault(f) { reply Small { kind: 'X', body: if f.kind == unspoken { \"unspoken\" } else { \"fault\" } } then close }
}
protocol passed { up Small  down Small  sharing session }

app talks {
    param port:    u16 = 7000
    param servers: list<endpoint, 4>
    port client = listen tcp(port)     as lines then frames or passed { idle_timeout 20s }
    port db     = connect tcp(servers) as lines then passed
    session up: connection of db

    counter changes

    on client(m: lines.up) {
        if m.text == \"strict\" {
            Line { text: \"ok\" } -> client
            become frames
            changes += 1
            Small { kind: 1, body: \"begun\" } -> client
            return
        }
        if m.text == \"loose\" {
            Line { text: \"ok\" } -> client
            become frames with rest
            changes += 1
            return
        }
        if m.text == \"wrong\" {
            become frames with rest
            Line { text: \"too late\" } -> client
            return
        }
        if m.text == \"both\" { hold client }
        m -> up
    }

    on up(m: lines.down) {
        m -> client
        if m.text == \"yes\" {
            become passed for client, up
            changes += 1
        }
        if m.text == \"yes, at once\" {
            become passed for client, up with rest
            changes += 1
        }
        if m.text == \"no\" { release client }
    }

    on client(m: frames.up) {
        client.seen += 1
        if m.kind == 7 { client.wide = true }
        if m.kind == 9 {
            Small { kind: 9, body: text(client.seen) } -> client
            become lines with rest
            return
        }
        Small { kind: m.kind, body: text(m.n) } -> client
    }

    on client(m: passed.up) { m -> up }
    on up(m: passed.down)   { m -> client }
}
";

fn start(folder: &Folder, backend: u16, extra: &[&str]) -> Process {
    let file = folder.name_of("talks.loom");
    std::fs::write(&file, TALKS).expect("the folder is writable");
    let set = servers(&[backend]);
    let args: Vec<&str> = ["--set", &set].into_iter().chain(extra.iter().copied()).collect();
    Wireloom::run_file(&file, &args, |_| {})
}

fn small(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, body.len() as u8], body].concat()
}

/// Compiled and interpreted, on either engine.
const WAYS: [&[&str]; 3] = [&[], &["--interpret"], &["--engine", "uring"]];

#[test]
fn rest_of_the_request_torn_at_every_byte() {
    for how in WAYS {
        let folder = Folder::new("become_torn");
        let backend = Backend::new();
        let proxy = start(&folder, backend.port, how);
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
        let folder = Folder::new("become_ahead");
        let backend = Backend::new();
        let page = free_port();
        let admin_at = format!("127.0.0.1:{page}");
        let proxy = start(&folder, backend.port, &[how, &["--admin", &admin_at]].concat());
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
        let folder = Folder::new("become_both");
        let backend = Backend::new();
        let proxy = start(&folder, backend.port, how);
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
        let folder = Folder::new("become_unspoken");
        let backend = Backend::new();
        let proxy = start(&folder, backend.port, how);
        let mut client = Client::connect(proxy.port);
        client.send("wrong\n");
        // The fault is told in the protocol that the client speaks by now.
        client.expect(small(b'X', b"unspoken"));
        client.expect_closed();
        // A server that is not on hold, though its client is not at hand.
        let mut client = Client::connect(proxy.port);
        client.send("hello\n");
        let mut server = backend.accept();
        server.expect("hello\n");
        server.send("yes\n");
        client.expect("yes\n");
        client.expect_closed();
    }
}
