//! Complete messages in front of a malformed one, in one read: they are handled and answered first,
//! then comes the fault. So it is for requests, for answers and for both ways of conversations.

use std::time::Duration;
use wireloom_tests::folder::Folder;
use wireloom_tests::{servers, Backend, Client, Process, Wireloom};

const ASKED: &str = "
unit Line { code: u8  text: bytes<8> until \"\\n\" }
protocol asked {
    request Line  response Line  sharing pipelined  stateless
    on fault(f) {
        reply Line { code: '!', text: if f.kind == bad_reply { \"reply\" } else { \"what\" } } then close
    }
}
app front {
    param port:    u16 = 7000
    param servers: list<endpoint, 4>
    port client = listen tcp(port)     as asked
    port back   = connect tcp(servers) as asked { eject_after 0 }
    on client(m) {
        if m.code == 'X' { reply Line { code: '-', text: m.text } return }
        reply call back[0](m)
    }
}
";

const TALK: &str = "
unit Line { RECOVER  code: u8  text: bytes<8> until \"\\n\" }
protocol talk {
    up Line  down Line  sharing session
    owes when true  settles when down.code != '~'  idle when down.code != '~'
    on fault(f) {
        reply Line { code: '!', text: if f.kind == bad_reply { \"reply\" } else { \"what\" } } END
    }
}
app front {
    param port:    u16 = 7000
    param servers: list<endpoint, 4>
    port client = listen tcp(port)     as talk { idle_timeout 700ms }
    port back   = connect tcp(servers) as talk { eject_after 0 }
    session up: connection of back
    on client.opened { up = open back[0] }
    on client(m: talk.up) {
        if m.code == 'X' { Line { code: '-', text: m.text } -> client return }
        m -> up
    }
    on up(m: talk.down) { m -> client }
}
";

fn each(name: &str, source: &str, backend: &Backend, test: impl Fn(&Process)) {
    let folder = Folder::new(name);
    let file = folder.name_of("front.loom");
    std::fs::write(&file, source).expect("the folder is writable");
    let set = servers(&[backend.port]);
    for extra in [&[][..], &["--interpret"], &["--engine", "uring"]] {
        test(&Wireloom::run_file(&file, &[&["--cores", "1", "--set", &set], extra].concat(), |_| {}));
    }
}

const SAID: &str = "Aone\nXtwo\nBthree\nCmuch too long for it\n";

/// A text torn at places before its fault is there.
fn torn(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let fault = text.find("much").expect("a message that is too long") + "much too".len();
    (0..fault).step_by(3).map(|cut| text.split_at(cut))
}

#[test]
fn requests_in_front_of_a_malformed_one_are_answered() {
    let backend = Backend::new();
    each("batch_requests", ASKED, &backend, |front| {
        let mut server: Option<Client> = None;
        for (begin, end) in torn(SAID) {
            let mut client = Client::connect(front.port);
            client.send(begin);
            std::thread::sleep(Duration::from_millis(2));
            client.send(end);
            let server = server.get_or_insert_with(|| backend.accept());
            server.expect("Aone\n");
            server.send("=1\n");
            server.expect("Bthree\n");
            client.expect("=1\n-two\n");
            client.expect_silence(Duration::from_millis(2));
            server.send("=3\n");
            client.expect("=3\n!what\n");
            client.expect_closed();
        }
    });
}

#[test]
fn answers_in_front_of_a_malformed_one_are_passed_on() {
    let backend = Backend::new();
    each("batch_answers", ASKED, &backend, |front| {
        for (begin, end) in torn("=1\n=2\n=much too long for it\n") {
            let mut client = Client::connect(front.port);
            client.send("Aone\nBtwo\nCthree\n");
            let mut server = backend.accept();
            server.expect("Aone\nBtwo\nCthree\n");
            server.send(begin);
            std::thread::sleep(Duration::from_millis(2));
            server.send(end);
            client.expect("=1\n=2\n!reply\n");
            client.expect_closed();
            server.expect_closed();
        }
    });
}

#[test]
fn a_conversation_answers_what_came_before_a_malformed_message() {
    let backend = Backend::new();
    each("batch_talk", &TALK.replace("RECOVER", "").replace("END", "then close"), &backend, |front| {
        for (begin, end) in torn(SAID) {
            let mut client = Client::connect(front.port);
            client.send(begin);
            std::thread::sleep(Duration::from_millis(2));
            client.send(end);
            let mut server = backend.accept();
            server.expect("Aone\nBthree\n");
            server.send("~1\n=1\n~3\n");
            client.expect("-two\n~1\n=1\n~3\n");
            client.expect_silence(Duration::from_millis(2));
            server.send("=3\n");
            client.expect("=3\n!what\n");
            client.expect_closed();
            server.expect_closed();
        }
        let spoiled = || {
            let mut client = Client::connect(front.port);
            client.send("Aone\nCmuch too long for it\n");
            let mut server = backend.accept();
            server.expect("Aone\n");
            (client, server)
        };
        // It has ended its direction within the message, or the server is lost meanwhile.
        let mut client = Client::connect(front.port);
        client.send("Aone\nB").finish_sending();
        let mut server = backend.accept();
        server.expect("Aone\n");
        client.expect_silence(Duration::from_millis(20));
        server.send("=1\n");
        client.expect("=1\n!what\n");
        client.expect_closed();
        let (mut client, server) = spoiled();
        drop(server);
        client.expect("!what\n");
        client.expect_closed();
        // The server waits for more of the client, and hears that nothing comes.
        let (mut client, mut server) = spoiled();
        server.send("~who?\n");
        server.expect_closed();
        drop(server);
        client.expect("~who?\n!what\n");
        client.expect_closed();
        // A server that does not answer holds it no longer than any other.
        let (mut client, mut server) = spoiled();
        client.expect("!what\n");
        client.expect_closed();
        server.expect_closed();
    });
}

/// Its words come in their place among the answers, and the client is read on behind them.
#[test]
fn a_fault_in_step_keeps_its_place() {
    let backend = Backend::new();
    let source = TALK.replace("RECOVER", "recover until \"\\n\"").replace("END", "");
    each("batch_in_step", &source, &backend, |front| {
        let said = "Aone\nCmuch too long for it\nXtwo\nBthree\n";
        for (begin, end) in torn(said) {
            let mut client = Client::connect(front.port);
            client.send(begin);
            std::thread::sleep(Duration::from_millis(2));
            client.send(end).finish_sending();
            let mut server = backend.accept();
            server.expect("Aone\n");
            server.expect_silence(Duration::from_millis(2));
            server.send("=1\n");
            server.expect("Bthree\n");
            server.send("=3\n");
            client.expect("=1\n!what\n-two\n=3\n");
            server.expect_closed();
        }
        // The server waits for the client, which goes on.
        let mut client = Client::connect(front.port);
        client.send("Aone\n");
        let mut server = backend.accept();
        server.expect("Aone\n");
        server.send("~who?\n");
        client.expect("~who?\n");
        client.send("Cmuch too long for it\nBme\n");
        client.expect("!what\n");
        server.expect("Bme\n");
        drop((client, server));
        // A client that has said no more.
        let mut client = Client::connect(front.port);
        client.send("Aone\nCmuch too long for it\n").finish_sending();
        let mut server = backend.accept();
        server.expect("Aone\n");
        server.send("=1\n");
        client.expect("=1\n!what\n");
        server.expect_closed();
    });
}

/// A server's complete messages in front of its malformed one.
#[test]
fn a_conversation_passes_on_what_came_before_a_bad_answer() {
    let backend = Backend::new();
    each("batch_down", &TALK.replace("RECOVER", "").replace("END", "then close"), &backend, |front| {
        for (begin, end) in torn("~1\n=1\n=much too long for it\n") {
            let mut client = Client::connect(front.port);
            client.send("Aone\nBtwo\n");
            let mut server = backend.accept();
            server.expect("Aone\nBtwo\n");
            server.send(begin);
            std::thread::sleep(Duration::from_millis(2));
            server.send(end);
            client.expect("~1\n=1\n!reply\n");
            client.expect_closed();
        }
    });
}
