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
            // The greeting has answered neither of them.
            client.expect("2-hello\n0 2\n0 2\n2 ready\n0 2\n");
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
            client.expect("0 1\n2 ready\n0 1\n");
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
