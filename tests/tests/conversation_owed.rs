//! Answers that a conversation's server owes and that do not come: its client hears of them, and
//! log lines name both.

use std::time::{Duration, Instant};
use wireloom_tests::folder::Folder;
use wireloom_tests::{admin, free_port, servers, Backend, Client, Process, Wireloom};

const OWED: &str = "
unit Line { text: text<20> until \"\\n\" }

protocol lines {
    up      Line
    down    Line
    sharing session
    owes when up.text != \"note\"
    settles when down.text != \"more\"
    idle when down.text != \"more\"
    on fault(f) {
        match f.kind {
            lost    => reply Line { text: \"lost\" } then close
            timeout => reply Line { text: \"timeout\" } then close
            _       => reply Line { text: \"fault\" } then close
        }
    }
}

app owed {
    param port:    u16 = 7000
    param servers: list<endpoint, 4>
    port client = listen tcp(port)     as lines
    port db     = connect tcp(servers) as lines

    session up: connection of db

    on client(m: lines.up) { m -> up }
    on up(m: lines.down) {
        let of: list<u8, 3> = [1, 2, 3]
        if m.text == \"index\" { log of[len(m.text)] }
        m -> client
    }
    on up.closed(why) {
        match why {
            ended => log \"up ended\"
            lost => log \"up lost\"
            timeout => log \"up timeout\"
            _ => log \"up another\"
        }
    }
}
";

const CUT: &str = "
unit Line { text: text<20> until \"\\n\" }
unit Long { size: decimal<u32> until \"\\n\"  content: stream bytes [size] }

protocol parts { up Line  down Long  sharing session }

app cut {
    param port:    u16 = 7000
    param servers: list<endpoint, 4>
    port client = listen tcp(port)     as parts
    port db     = connect tcp(servers) as parts

    session up: connection of db

    on client(m: parts.up) { m -> up }
    on up(m: parts.down) { m -> client }
}
";

struct Owed {
    proxy: Process,
    admin: u16,
}

impl Owed {
    fn start(name: &str, port: u16, options: &[&str]) -> Owed {
        Owed::start_app(name, OWED, port, options)
    }

    fn start_app(name: &str, text: &str, port: u16, options: &[&str]) -> Owed {
        let folder = Folder::new(name);
        let file = folder.name_of("owed.loom");
        std::fs::write(&file, text).expect("the folder is writable");
        let (set, page) = (servers(&[port]), free_port());
        let address = format!("127.0.0.1:{page}");
        let mut args = vec!["--cores", "1", "--admin", &address, "--set", &set];
        options.iter().for_each(|o| args.extend(["--set", o]));
        Owed { proxy: Wireloom::run_file(&file, &args, |_| {}), admin: page }
    }

    fn says(&self, line: &str) {
        admin::eventually(&format!("no `{line}`"), || self.proxy.output().contains(line));
    }

    fn faults(&self, kind: &str, n: u64) {
        let has = || admin::faults(&admin::status(self.admin), kind);
        admin::eventually(&format!("{n} faults `{kind}`"), || has() == n);
    }

    /// A client that has sent a line, and its server, which has got it.
    fn pair(&self, backend: &mut Backend, line: &str) -> (Client, Client) {
        let mut client = Client::connect(self.proxy.port);
        client.send(line);
        let mut server = backend.accept();
        server.expect(line);
        (client, server)
    }
}

#[test]
fn a_server_that_closes_before_it_answers_is_lost() {
    let mut backend = Backend::new();
    let owed = Owed::start("owed_closes", backend.port, &[]);
    let (mut client, server) = owed.pair(&mut backend, "question\n");
    let name = client.address();
    drop(server);
    client.expect("lost\n").expect_closed();
    owed.says("up lost");
    // The place is the declaration of `up`.
    owed.says("owed.db: lost at ");
    owed.says(&format!("owed.loom:26:13: client {name}, backend 127.0.0.1:{}", backend.port));
    owed.faults("lost", 1);

    // A message that is not answered is no reason, nor is an answer that has begun: it may have
    // said why.
    let (mut client, server) = owed.pair(&mut backend, "note\n");
    drop(server);
    client.expect_closed();
    let (mut client, mut server) = owed.pair(&mut backend, "question\n");
    server.send("more\n");
    client.expect("more\n");
    drop(server);
    client.expect_closed();
    owed.faults("lost", 1);
    // The second of two questions is not answered.
    let (mut client, mut server) = owed.pair(&mut backend, "one\n");
    server.send("answer\n");
    client.expect("answer\n").send("two\n");
    server.expect("two\n");
    drop(server);
    client.expect("lost\n").expect_closed();
    owed.faults("lost", 2);
}

#[test]
fn a_silent_server_has_the_time_that_is_set() {
    let mut backend = Backend::new();
    let times = ["db.answer_timeout=400ms", "db.stream_timeout=1s"];
    let owed = Owed::start("owed_silent", backend.port, &times);
    let (mut client, mut server) = owed.pair(&mut backend, "question\n");
    let begun = Instant::now();
    client.expect("timeout\n").expect_closed();
    assert!((300..900).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    server.expect_closed();
    owed.says("up timeout");
    owed.faults("timeout", 1);

    // Further questions give no more time.
    let (mut client, _server) = owed.pair(&mut backend, "question\n");
    let begun = Instant::now();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(100));
        client.send("another\n");
    }
    client.expect("timeout\n").expect_closed();
    assert!(begun.elapsed() < Duration::from_millis(1200), "{:?}", begun.elapsed());

    // An answer that has begun has the time between two pieces.
    let (mut client, mut server) = owed.pair(&mut backend, "question\n");
    std::thread::sleep(Duration::from_millis(200));
    server.send("more\n");
    client.expect("more\n").expect_silence(Duration::from_millis(700));
    server.send("more\n");
    client.expect("more\n").expect("timeout\n").expect_closed();

    // No answer is owed.
    let (mut client, mut server) = owed.pair(&mut backend, "question\n");
    server.send("answer\n");
    client.expect("answer\n").expect_silence(Duration::from_millis(1500));
    server.send("word\n");
    client.expect("word\n");
    owed.faults("timeout", 3);
}

#[test]
fn an_idle_conversation_ends_with_a_word_if_an_answer_is_owed() {
    let mut backend = Backend::new();
    let owed = Owed::start("owed_idle", backend.port, &["client.idle_timeout=500ms"]);
    let (mut client, mut server) = owed.pair(&mut backend, "question\n");
    client.expect("timeout\n").expect_closed();
    server.expect_closed();
    owed.faults("timeout", 1);
    let (mut client, mut server) = owed.pair(&mut backend, "question\n");
    server.send("answer\n");
    client.expect("answer\n").expect_closed();
    server.expect_closed();
    owed.faults("timeout", 1);
}

/// A protocol that does not count its answers has no such time.
#[test]
fn the_time_of_answers_that_nobody_counts_is_refused() {
    let folder = Folder::new("owed_uncounted");
    let file = folder.name_of("cut.loom");
    std::fs::write(&file, CUT).expect("the folder is writable");
    let said = Wireloom::command(&["run", &file, "--set", "servers=127.0.0.1:1", "--set", "db.answer_timeout=1s"]);
    assert_eq!(said.code, Some(1));
    assert!(said.text.contains("the protocol does not say which messages a server answers"), "{}", said.text);
}

/// Lines of servers' faults come without an option, as those of answers do.
#[test]
fn lines_of_faults_name_client_and_server() {
    let mut backend = Backend::new();
    let owed = Owed::start("owed_lines", backend.port, &[]);
    let port = backend.port;
    let pair = |client: &Client| format!(": client {}, backend 127.0.0.1:{port}", client.address());
    let (mut client, mut server) = owed.pair(&mut backend, "question\n");
    let parties = pair(&client);
    server.send("x".repeat(30) + "\n");
    client.expect("fault\n").expect_closed();
    owed.says("owed.db: bad_reply at ");
    owed.says(&parties);
    let (mut client, mut server) = owed.pair(&mut backend, "question\n");
    let parties = pair(&client);
    server.send("index\n");
    client.expect("fault\n").expect_closed();
    owed.says("index at ");
    owed.says(&parties);
}

/// A long answer that is cut is one fault, at its server's unit.
#[test]
fn a_cut_answer_is_one_fault() {
    let mut backend = Backend::new();
    let owed = Owed::start_app("owed_cut", CUT, backend.port, &[]);
    let (mut client, mut server) = owed.pair(&mut backend, "question\n");
    let long = format!("100000\n{}", "x".repeat(60_000));
    server.send(&long);
    client.expect(&long);
    drop(server);
    assert!(client.was_reset());
    owed.faults("lost", 1);
    owed.says("owed.loom:3:44: client ");
}

/// The line of a conversation in the access log: messages, bytes, server and end.
#[test]
fn conversations_have_lines_in_the_access_log() {
    let mut backend = Backend::new();
    let folder = Folder::new("owed_access");
    let file = folder.name_of("owed.loom");
    std::fs::write(&file, OWED).expect("the folder is writable");
    let log = folder.name_of("access.log");
    let set = servers(&[backend.port]);
    let args = ["--cores", "1", "--access-log", &log, "--set", &set];
    let owed = Owed { proxy: Wireloom::run_file(&file, &args, |_| {}), admin: 0 };
    let (mut client, mut server) = owed.pair(&mut backend, "question\n");
    let first = client.address();
    server.send("answer\n");
    client.expect("answer\n").send("note\n");
    server.expect("note\n");
    drop(client);
    server.expect_closed();
    drop(server);
    let (mut client, server) = owed.pair(&mut backend, "question\n");
    let second = client.address();
    drop(server);
    client.expect("lost\n").expect_closed();
    drop(client);
    let lines = || std::fs::read_to_string(&log).unwrap_or_default();
    admin::eventually(&format!("two lines of {log}"), || lines().lines().count() == 2);
    let text = lines();
    let line =
        |address: &str| text.lines().find(|l| l.contains(address)).unwrap_or_else(|| panic!("{text}")).to_string();
    let backend = format!("127.0.0.1:{}", backend.port);
    let (a, b) = (line(&first), line(&second));
    assert!(a.contains(&format!("owed.client {first} \"conversation\" \"2\" - 7 0.")), "{a}");
    assert!(a.ends_with(&format!(" {backend} -")), "{a}");
    assert!(b.contains("\"conversation\" \"1\" - 5 ") && b.ends_with(&format!(" {backend} lost")), "{b}");
}
