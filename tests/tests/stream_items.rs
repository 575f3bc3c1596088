//! Handlers of the items of streams (`on client.rows`), and of pieces, in requests and in
//! conversations: torn at every byte, changed, dropped, answered, with slow readers.

use std::io::Write;
use std::time::Duration;
use wireloom_tests::folder::Folder;
use wireloom_tests::{servers, Backend, Client, Process, Wireloom};

const REQUESTS: &str = "tests/programs/stream_items.loom";
const FEED: &str = "tests/programs/stream_items_feed.loom";

fn both(file: &str, test: impl Fn(&Process, &Backend)) {
    for extra in [&[][..], &["--interpret"]] {
        let backend = Backend::new();
        let list = servers(&[backend.port]);
        let mut args = vec!["--set", &list];
        args.extend(extra);
        let front = Wireloom::run_file(file, &args, |_| {});
        test(&front, &backend);
    }
}

/// Rows of a batch; the last one says that it is.
fn rows(all: &[(u8, &str)]) -> Vec<u8> {
    let row = |(n, (key, value)): (usize, &(u8, &str))| {
        let mut row = vec![*key, u8::from(n + 1 < all.len())];
        row.extend((value.len() as u16).to_be_bytes());
        row.extend(value.as_bytes());
        row
    };
    all.iter().enumerate().flat_map(row).collect()
}

fn batch(name: &str, all: &[(u8, &str)]) -> Vec<u8> {
    [format!("{name}\n").into_bytes(), rows(all), b"#".to_vec()].concat()
}

#[test]
fn items_torn_at_every_byte_are_counted() {
    let request = batch("count", &[(1, "a"), (2, "bcd"), (3, ""), (4, "efgh")]);
    both(REQUESTS, |front, _| {
        for cut in 1..request.len() {
            let mut client = Client::connect(front.port);
            client.send(&request[..cut]);
            std::thread::sleep(Duration::from_millis(1));
            client.send(&request[cut..]);
            client.expect("4 18\n");
        }
        let mut client = Client::connect(front.port);
        client.send_in_pieces(&request, 1);
        client.expect("4 18\n");
        // Each request begins anew.
        client.send(request.repeat(3));
        client.expect("4 18\n".repeat(3));
        // So many that their connection has several turns.
        let many: Vec<(u8, &str)> = (0..30_000).map(|_| (1, "a")).collect();
        client.send([batch("count", &many), request.clone()].concat());
        client.expect("30000 60000\n4 18\n");
    });
}

#[test]
fn items_are_changed_and_dropped_on_their_way() {
    let sent = [(1, "one"), (3, "three"), (4, "four"), (6, "six")];
    let built = [(1, "1"), (3, "2"), (4, "3"), (6, "4")];
    let upper = [(1, "ONE"), (3, "THREE"), (4, "FOUR"), (6, "SIX")];
    both(REQUESTS, |front, backend| {
        for (name, wanted) in [("upper", &upper[..]), ("built", &built), ("odd", &sent[2..]), ("as it came", &sent)] {
            let request = batch(name, &sent);
            for cut in [1, 8, 12, 20, request.len() - 2] {
                let mut client = Client::connect(front.port);
                client.send(&request[..cut]);
                std::thread::sleep(Duration::from_millis(2));
                client.send(&request[cut..]);
                let mut server = backend.accept();
                server.expect(batch(name, wanted));
                server.send("ok\n");
                client.expect("ok\n");
            }
        }
    });
}

#[test]
fn a_stream_keeps_its_end() {
    both(REQUESTS, |front, backend| {
        // The last item is odd and cannot be dropped; nor can another one say that it is the last.
        for (name, last) in [("odd", 7), ("ends", 8)] {
            let mut client = Client::connect(front.port);
            client.send(batch(name, &[(2, "a"), (4, "b"), (last, "c")]));
            client.expect("fault\n");
            client.expect_closed();
            let got = backend.accept().rest();
            assert!(!got.ends_with(b"#"), "half a request is not taken for a whole one: {got:?}");
        }
    });
}

#[test]
fn an_item_is_answered() {
    both(REQUESTS, |front, backend| {
        for (name, answer) in [("stop", "stopped at 3\n"), ("fault", "forbidden\n")] {
            let request = batch(name, &[(1, "a"), (2, "b"), (3, "c"), (4, "d")]);
            let mut client = Client::connect(front.port);
            client.send(&request);
            client.expect(answer);
            client.expect_closed();
            assert!(!backend.accept().rest().ends_with(b"#"));
        }
        // Without the handler of the message its items are not read.
        let mut client = Client::connect(front.port);
        client.send(batch("none", &[(1, "a"), (2, "b")]));
        client.expect("none\n");
        client.send([batch("none", &[(1, "a"), (2, "b")]), batch("count", &[(1, "a")])].concat());
        client.expect("none\n1 2\n");
        client.send(batch("none", &[(1, "a"), (2, "b")]));
        client.finish_sending();
        client.expect("none\n").expect_closed();
    });
}

#[test]
fn long_items_and_cut_ones() {
    let long = "v".repeat(65_000);
    both(REQUESTS, |front, backend| {
        let mut client = Client::connect(front.port);
        client.send(batch("upper", &[(1, &long), (2, "b"), (3, &long)]));
        let mut server = backend.accept();
        server.expect(batch("upper", &[(1, &long.to_uppercase()), (2, "B"), (3, &long.to_uppercase())]));
        server.send("ok\n");
        client.expect("ok\n");
        // A client that ends within an item: no part of it goes on.
        let mut client = Client::connect(front.port);
        let request = batch("cut", &[(1, "first"), (2, "second")]);
        client.send(&request[..request.len() - 4]);
        let first = batch("cut", &[(1, "first"), (2, "")]);
        let mut server = backend.accept();
        server.expect(&first[..first.len() - 5]);
        client.finish_sending();
        server.expect_closed();
    });
}

#[test]
fn items_of_conversations_go_both_ways() {
    both(FEED, |front, backend| {
        let sent =
            [&b"B"[..], &rows(&[(b'a', "x"), (b'd', "gone"), (b'u', "low"), (b't', "told"), (b'z', "")])].concat();
        let wanted = [&b"B"[..], &rows(&[(b'a', "x"), (b'u', "LOW"), (b't', "told"), (b'z', "")])].concat();
        for cut in (1..sent.len()).step_by(2) {
            let mut client = Client::connect(front.port);
            client.send(&sent[..cut]);
            std::thread::sleep(Duration::from_millis(1));
            client.send(&sent[cut..]);
            client.send("Lnext\n");
            let mut server = backend.accept();
            server.expect(&wanted);
            server.expect("Lnext\n");
            client.expect("Lrow 4\n");
            server.send([&b"B"[..], &rows(&[(b'd', "gone"), (b'y', "yes")]), b"Lend\n"].concat());
            client.expect([&b"B"[..], &rows(&[(b'y', "yes")]), b"Lend\n"].concat());
            client.send("Lcount\n");
            client.expect("L5 2\n");
        }
    });
}

#[test]
fn a_conversation_waits_for_all_items_or_ends_by_one() {
    both(FEED, |front, backend| {
        let mut client = Client::connect(front.port);
        let all = [&b"W"[..], &rows(&[(b'a', "x"), (b'b', "y"), (b'c', "z")])].concat();
        client.send(&all[..9]);
        client.expect_silence(Duration::from_millis(10));
        client.send(&all[9..]);
        client.expect("Lwaited 1003\n");
        client.send([&all[..], b"Lcount\n"].concat());
        client.expect("Lwaited 2006\nL2006 0\n");
        // A message to the server waits until the batch around it is complete.
        client.send([&b"B"[..], &rows(&[(b's', "x"), (b'e', "y")])].concat());
        let mut server = backend.accept();
        server.expect([&b"B"[..], &rows(&[(b's', "x"), (b'e', "y")]), b"Laside\n"].concat());
        // A fault of an item: the server does not take half a batch for a whole one.
        client.send([&b"B"[..], &rows(&[(b'a', "x"), (b'f', "y"), (b'a', "z")])].concat());
        client.expect("Lforbidden\n");
        client.expect_closed();
        let got = server.rest();
        assert!(got.is_empty() || got == [&b"B"[..], &rows(&[(b'a', "x"), (b'f', "")])[..5]].concat(), "{got:?}");
    });
}

#[test]
fn a_server_that_does_not_read_holds_up_the_batch() {
    both(FEED, |front, backend| {
        let before = front.rss_kib();
        let client = Client::connect(front.port);
        let value = "v".repeat(60_000);
        let mut row = vec![b'a', 1];
        row.extend((value.len() as u16).to_be_bytes());
        row.extend(value.as_bytes());
        let mut socket = client.stream.try_clone().expect("a socket");
        socket.set_write_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        socket.write_all(b"B").expect("room");
        let server = backend.accept();
        let sent = (0..2000).take_while(|_| socket.write_all(&row).is_ok()).count();
        assert!(sent < 1000, "{sent} rows of 60 kB were taken, and nobody reads them");
        let grown = front.rss_kib().saturating_sub(before);
        assert!(grown < 16 << 10, "{grown} KiB more");
        drop(server);
    });
}

#[test]
fn a_client_that_does_not_read_its_answers_is_not_read() {
    both(FEED, |front, _| {
        let before = front.rss_kib();
        let client = Client::connect(front.port);
        let mut socket = client.stream.try_clone().expect("a socket");
        socket.set_write_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        socket.write_all(b"B").expect("room");
        // Each of these rows is answered at once, by more bytes than it has.
        let rows = [b't', 1, 0, 0].repeat(10_000);
        let sent = (0..2_000).take_while(|_| socket.write_all(&rows).is_ok()).count();
        assert!(sent < 1_500, "{sent} times 10,000 rows were taken");
        let grown = front.rss_kib().saturating_sub(before);
        assert!(grown < 16 << 10, "{grown} KiB more");
    });
}

const PIECES: &str = "
unit Part { kind: u8  size: u32  data: stream bytes [size] }

protocol parts {
    up      Part
    down    Part
    sharing session
}

app front {
    param port:    u16 = 7000
    param servers: list<endpoint, 4>

    port client = listen tcp(port)     as parts
    port source = connect tcp(servers) as parts

    session up: connection of source
    session seen: u64

    counter bytes_up

    on client.body(m, piece) {
        bytes_up += len(piece)
        seen += len(piece)
        if m.kind == 'u' { piece = upper(piece) }
        if m.kind == 'x' and seen > 100 { piece = \"shorter\" }
    }

    on up.body(m: parts.down, piece) { if m.kind == 'u' { piece = upper(piece) } }

    on client(m: parts.up) { m -> up }
    on up(m: parts.down) { m -> client }
}
";

fn part(kind: u8, data: &str) -> Vec<u8> {
    [&[kind][..], &(data.len() as u32).to_be_bytes(), data.as_bytes()].concat()
}

#[test]
fn messages_of_conversations_have_pieces() {
    let folder = Folder::new("conversation_pieces");
    let file = folder.name_of("parts.loom");
    std::fs::write(&file, PIECES).expect("the folder is writable");
    both(&file, |front, backend| {
        let (sent, wanted) =
            ([part(b'u', "abc"), part(b'n', "abc")].concat(), [part(b'u', "ABC"), part(b'n', "abc")].concat());
        let mut client = Client::connect(front.port);
        client.send(&sent);
        let mut server = backend.accept();
        server.expect(&wanted);
        for cut in 1..sent.len() {
            client.send(&sent[..cut]);
            std::thread::sleep(Duration::from_millis(1));
            client.send(&sent[cut..]);
            server.send(&sent[..cut]);
            server.expect(&wanted);
            server.send(&sent[cut..]);
            client.expect(&wanted);
        }
        // The length of the piece has gone out with the head.
        client.send(part(b'x', &"x".repeat(1000)));
        client.expect_closed();
        let got = server.rest();
        assert!(got.len() < 1005, "{} bytes", got.len());
    });
}
