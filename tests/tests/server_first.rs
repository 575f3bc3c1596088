//! Servers that speak first (`server_first`): nothing reaches one before its greeting, and one that
//! does not greet, or refuses, is followed by the next.

use std::time::Duration;
use wireloom_tests::admin::{eventually, port_of, status};
use wireloom_tests::folder::Folder;
use wireloom_tests::{free_port, servers, Backend, Client, Process, Wireloom};

const POLITE: &str = "
unit Line { code: u8  more: u8 in {' ', '-'}  text: bytes<60> until \"\\n\" }

protocol polite {
    up   Line
    down Line
    sharing session
    server_first
    refusal when down.code == '5'
    owes when true
    settles when down.more == ' '
    idle when down.more == ' '
    on fault(f) { reply Line { code: '4', more: ' ', text: \"nobody is there\" } then close }
}

app waits {
    param port:    u16 = 7000
    param servers: list<endpoint, 4>

    port client = listen tcp(port)     as polite
    port db     = connect tcp(servers) as polite { failover next, connect_timeout 500ms }

    session up: connection of db

    on client.opened { up = open db[0] }
    on client(m: polite.up) { m -> up }
    on up.opened { Line { code: '0', more: ' ', text: text(up.owed) } -> client }
    on up(m: polite.down) {
        m -> client
        Line { code: '0', more: ' ', text: text(up.owed) } -> client
    }
}
";

fn each(name: &str, backends: &[&Backend], test: impl Fn(&Process)) {
    let folder = Folder::new(name);
    let file = folder.name_of("polite.loom");
    std::fs::write(&file, POLITE).expect("the folder is writable");
    let set = servers(&backends.iter().map(|b| b.port).collect::<Vec<_>>());
    for extra in [&["--cores", "1"][..], &["--cores", "1", "--interpret"]] {
        let args: Vec<&str> = ["--set", &set].into_iter().chain(extra.iter().copied()).collect();
        test(&Wireloom::run_file(&file, &args, |_| {}));
    }
}

#[test]
fn nothing_is_sent_before_the_greeting_is_complete() {
    let backend = Backend::new();
    each("server_first", &[&backend], |front| {
        for cut in 1.."2-hello\n2 ready\n".len() {
            let mut client = Client::connect(front.port);
            client.send("a b\na c\n");
            let mut server = backend.accept();
            server.expect_silence(Duration::from_millis(3));
            let (begin, end) = "2-hello\n2 ready\n".split_at(cut);
            server.send(begin);
            server.expect_silence(Duration::from_millis(3));
            server.send(end);
            server.expect("a b\na c\n");
            // The client's messages are handled behind it.
            client.expect("2-hello\n0 0\n0 0\n2 ready\n0 0\n");
            server.send("2-one\n2 one\n2 two\n");
            client.expect("2-one\n0 2\n2 one\n0 1\n2 two\n0 0\n");
        }
    });
}

#[test]
fn a_server_that_refuses_or_says_nothing_is_followed_by_the_next() {
    let (mute, other) = (Backend::new(), Backend::new());
    for how in ["refuses", "closes", "is mute"] {
        each("server_first_next", &[&mute, &other], |front| {
            let mut client = Client::connect(front.port);
            client.send("a b\n");
            let mut first = mute.accept();
            match how {
                "refuses" => drop(first.send("5 full\n")),
                "closes" => drop(first),
                _ => {
                    // It is given up after `connect_timeout`.
                    first.expect_closed();
                }
            }
            let mut second = other.accept();
            second.expect_silence(Duration::from_millis(3));
            second.send("2 ready\n");
            second.expect("a b\n");
            client.expect("0 0\n2 ready\n0 0\n");
        });
    }
}

/// A server that takes connections and says nothing, or refuses, is not back yet.
#[test]
fn a_server_that_is_down_is_well_when_it_greets() {
    let (down, other) = (Backend::new(), Backend::new());
    let folder = Folder::new("server_first_probe");
    let file = folder.name_of("polite.loom");
    std::fs::write(&file, POLITE).expect("the folder is writable");
    let (set, page) = (servers(&[down.port, other.port]), free_port());
    let admin = format!("127.0.0.1:{page}");
    let options = ["db.eject_after=1", "db.eject_time=200ms"].map(|o| ["--set", o]).concat();
    let args = [&["--cores", "1", "--interpret", "--admin", &admin, "--set", &set][..], &options].concat();
    let front = Wireloom::run_file(&file, &args, |_| {});
    let mut client = Client::connect(front.port);
    down.accept().send("5 full\n");
    other.accept().send("2 ready\n");
    client.expect("0 0\n2 ready\n0 0\n");
    let is_up = || port_of(&status(page), "db")["backends"][0]["up"] == true;
    assert!(!is_up());
    // Two probes that find it mute, or full.
    let mute = down.accept();
    std::thread::sleep(Duration::from_millis(100));
    assert!(!is_up());
    drop(mute);
    down.accept().send("5 full\n");
    let mut greets = down.accept();
    assert!(!is_up());
    greets.send("2-hello\n");
    std::thread::sleep(Duration::from_millis(50));
    assert!(!is_up());
    greets.send("2 ready\n");
    eventually("it is up", is_up);
    greets.expect_closed();
}

#[test]
fn a_refusal_of_the_only_server_is_heard() {
    let backend = Backend::new();
    each("server_first_one", &[&backend], |front| {
        let mut client = Client::connect(front.port);
        backend.accept().send("5 full\n");
        client.expect("0 0\n5 full\n0 0\n");
        let mut client = Client::connect(front.port);
        let begun = std::time::Instant::now();
        let server = backend.accept();
        client.expect("4 nobody is there\n");
        assert!(begun.elapsed() > Duration::from_millis(400), "{:?}", begun.elapsed());
        drop(server);
    });
}

const FRONT: &str = "
unit Line { code: u8  text: bytes<8> until \"\\n\" }

protocol polite {
    up Line  down Line  sharing session  server_first
    on fault(f) {
        reply Line { code: '!', text: if f.kind == refused { \"refused\" } else { \"what\" } } then close
    }
}

protocol asked { request Line  response Line  sharing pipelined  stateless }

app waits {
    param port:    u16 = 7000
    param servers: list<endpoint, 4>
    param helper:  endpoint = 127.0.0.1:1

    port client = listen tcp(port)     as polite
    port db     = connect tcp(servers) as polite { connect_timeout 500ms }
    port other  = connect tcp(helper)  as asked

    session up: connection of db

    on client.opened { up = open db[0] }
    on client(m: polite.up) {
        if m.code == 'X' { Line { code: '-', text: \"no\" } -> client return }
        if m.code == 'O' { up = open db[0] }
        m -> up
    }
    on up(m: polite.down) {
        if m.code == '?' {
            let a = call other(Line { code: '?', text: m.text }) else { return }
            Line { code: '+', text: a.text } -> client
            return
        }
        m -> client
    }
}
";

fn each_front(name: &str, servers_of: &[&Backend], helper: &Backend, test: impl Fn(&Process)) {
    let folder = Folder::new(name);
    let file = folder.name_of("waits.loom");
    std::fs::write(&file, FRONT).expect("the folder is writable");
    let set = servers(&servers_of.iter().map(|b| b.port).collect::<Vec<_>>());
    let helper = format!("helper=127.0.0.1:{}", helper.port);
    for extra in [&[][..], &["--interpret"], &["--engine", "uring"]] {
        let args = [&["--cores", "1", "--set", &set, "--set", &helper], extra].concat();
        test(&Wireloom::run_file(&file, &args, |_| {}));
    }
}

/// The program's own replies and its words about faults, with both sides torn at every byte.
#[test]
fn nothing_of_a_client_is_handled_before_the_greeting() {
    let (backend, helper) = (Backend::new(), Backend::new());
    each_front("server_first_early", &[&backend], &helper, |front| {
        let (said, greeting) = ("Xa\nb\nXtoo long for it\n", "+ready\n");
        for (cut, greeted) in (1..said.len()).map(|i| (i, 1 + i % (greeting.len() - 1))) {
            let mut client = Client::connect(front.port);
            client.send(&said[..cut]);
            let mut server = backend.accept();
            client.send(&said[cut..]);
            client.expect_silence(Duration::from_millis(2));
            server.send(&greeting[..greeted]);
            client.expect_silence(Duration::from_millis(2));
            server.send(&greeting[greeted..]);
            server.expect("b\n");
            client.expect("+ready\n-no\n!what\n");
            client.expect_closed();
        }
    });
}

/// It is not passed on before its handler has got an answer from elsewhere.
#[test]
fn a_greeting_whose_handler_waits_is_not_overtaken() {
    let (backend, helper) = (Backend::new(), Backend::new());
    each_front("server_first_asks", &[&backend], &helper, |front| {
        let mut client = Client::connect(front.port);
        let mut server = backend.accept();
        server.send("?name\n");
        let mut other = helper.accept();
        other.expect("?name\n");
        client.send("Xa\nb\n");
        client.expect_silence(Duration::from_millis(20));
        other.send("=here\n");
        client.expect("+here\n-no\n");
        server.expect("b\n");
        // Messages behind it hold nobody.
        server.send("?more\n");
        other.expect("?more\n");
        client.send("Xc\n");
        client.expect("-no\n");
        other.send("=come\n");
        client.expect("+come\n");
    });
}

/// Another server is opened by a message: those behind it wait for its greeting, too.
#[test]
fn a_server_that_is_opened_later_greets_first_as_well() {
    let (backend, helper) = (Backend::new(), Backend::new());
    each_front("server_first_later", &[&backend], &helper, |front| {
        let mut client = Client::connect(front.port);
        let mut first = backend.accept();
        first.send("+one\n");
        client.expect("+one\n");
        client.send("Xa\nOb\nXc\n");
        client.expect("-no\n");
        let mut second = backend.accept();
        client.expect_silence(Duration::from_millis(20));
        second.send("+two\n");
        second.expect("Ob\n");
        client.expect("+two\n-no\n");
    });
}

#[test]
fn a_server_that_never_greets_is_told_before_the_client_is_read() {
    let (backend, helper) = (Backend::new(), Backend::new());
    each_front("server_first_mute", &[&backend], &helper, |front| {
        let begun = std::time::Instant::now();
        let mut client = Client::connect(front.port);
        client.send("Xa\nb\n");
        // One has ended its direction, one leaves, one sends without an end.
        let mut ended = Client::connect(front.port);
        ended.send("Xa\n").finish_sending();
        let mut gone = Client::connect(front.port);
        gone.send("Xa\n");
        let (mut first, mut second) = (backend.accept(), backend.accept());
        let mut third = backend.accept();
        gone.reset();
        third.expect_closed();
        assert!(begun.elapsed() < Duration::from_millis(400), "{:?}", begun.elapsed());
        client.expect("!refused\n");
        client.expect_closed();
        ended.expect("!refused\n");
        ended.expect_closed();
        assert!(begun.elapsed() > Duration::from_millis(400), "{:?}", begun.elapsed());
        first.expect_closed();
        second.expect_closed();
    });
    // Nobody listens there.
    let down = Backend::new();
    let port = down.port;
    drop(down);
    let folder = Folder::new("server_first_down");
    let file = folder.name_of("waits.loom");
    std::fs::write(&file, FRONT).expect("the folder is writable");
    let front = Wireloom::run_file(&file, &["--cores", "1", "--interpret", "--set", &servers(&[port])], |_| {});
    let mut client = Client::connect(front.port);
    client.send("Xa\nb\n");
    client.expect("!refused\n");
    client.expect_closed();
}

/// A client that is not read cannot fill the memory, and loses nothing.
#[test]
fn a_client_that_speaks_early_is_held_by_backpressure() {
    use std::io::Write;
    let (backend, helper) = (Backend::new(), Backend::new());
    each_front("server_first_full", &[&backend], &helper, |front| {
        let stream = std::net::TcpStream::connect(("127.0.0.1", front.port)).expect("the front listens");
        stream.set_write_timeout(Some(Duration::from_millis(100))).expect("a time");
        let mut server = backend.accept();
        let block = b"a234567\n".repeat(8 << 10);
        let mut sent = 0;
        while let Ok(n) = (&stream).write(&block[sent % block.len()..]) {
            sent += n;
            assert!(sent < 64 << 20, "nothing holds it");
        }
        server.send("+ready\n");
        let all: Vec<u8> = block.iter().copied().cycle().take(sent / 8 * 8).collect();
        assert!(server.take(all.len()) == all, "bytes are lost");
    });
}
