//! Handlers of the beginnings of connections, live. The messages of a connection wait for a call
//! in them, and a client on hold becomes another protocol.

use std::time::Duration;
use wireloom_tests::folder::Folder;
use wireloom_tests::{Backend, Client, Process, Wireloom};

/// A client asks for a server by a line. It is let in by another server.
const GATE: &str = r#"use std.tunnel

unit Line { text: text<100> until "\n" }

protocol lines { up Line  down Line  sharing session }
protocol asks { request Line  response Line  sharing pipelined  stateless }

app gate {
    param port:     u16 = 7000
    param servers:  list<endpoint, 4>
    param policies: list<endpoint, 4>
    port client = listen tcp(port)      as lines then tunnel
    port server = connect tcp(servers)  as tunnel
    port policy = connect tcp(policies) as asks
    session up:   connection of server
    session said: u32
    state sum: u32
    on client.opened {
        let r = call policy[0](Line { text: "who" })
        said += u32(len(r.text))
        if r.text != "allow" { close client }
    }
    on client(m: lines.up) {
        said += u32(len(m.text))
        hold client
        up = open server[0]
    }
    on up.opened {
        Line { text: "ok" } -> client
        become tunnel for client
    }
    on client(m: tunnel.up) { m -> up }
    on up(m: tunnel.down) { m -> client }
    on client.closed {
        let r = call policy[0](Line { text: "gone" })
        said += u32(len(r.text))
        sum += said
        log "gone ", said
    }
}
"#;

/// Compiled and interpreted, on either engine.
const WAYS: [&[&str]; 3] = [&[], &["--interpret"], &["--engine", "uring"]];
const SHORT: Duration = Duration::from_millis(100);

struct Gate {
    server: Backend,
    policy: Backend,
    proxy: Process,
    _folder: Folder,
}

fn start(how: &[&str]) -> Gate {
    let folder = Folder::new("beginnings");
    let file = folder.name_of("gate.loom");
    std::fs::write(&file, GATE).expect("the folder is writable");
    let (server, policy) = (Backend::new(), Backend::new());
    let [servers, policies] =
        [("servers", &server), ("policies", &policy)].map(|(name, b)| format!("{name}=127.0.0.1:{}", b.port));
    let args: Vec<&str> =
        ["--cores", "1", "--set", &servers, "--set", &policies].into_iter().chain(how.iter().copied()).collect();
    let proxy = Wireloom::run_file(&file, &args, |_| {});
    Gate { server, policy, proxy, _folder: folder }
}

#[test]
fn a_client_is_read_when_it_has_been_let_in() {
    for how in WAYS {
        let gate = start(how);
        let mut client = Client::connect(gate.proxy.port);
        client.send("go\n");
        let mut policy = gate.policy.accept();
        policy.expect("who\n");
        assert!(gate.server.accept_within(SHORT).is_none(), "{how:?}: the client was read before the answer");
        policy.send("allow\n");
        let mut server = gate.server.accept();
        client.expect("ok\n").send("hello");
        server.expect("hello").send("world");
        client.expect("world").send("more");
        server.expect("more");

        let mut denied = Client::connect(gate.proxy.port);
        denied.send("go\n");
        policy.expect("who\n").send("deny\n");
        denied.expect_closed();
        policy.expect("gone\n").send("well\n");
        assert!(gate.server.accept_within(SHORT).is_none(), "{how:?}: a client that was refused was read");
    }
}

#[test]
fn clients_leave_while_their_handlers_wait() {
    for how in WAYS {
        let gate = start(how);
        let mut policy = None;
        for _ in 0..20 {
            let mut client = Client::connect(gate.proxy.port);
            client.send("go\n");
            let policy = policy.get_or_insert_with(|| gate.policy.accept());
            policy.expect("who\n");
            client.reset();
            policy.expect("gone\n").send("allow\nwell\n");
        }
        let mut policy = policy.expect("a connection");
        let mut client = Client::connect(gate.proxy.port);
        client.send("go\n");
        policy.expect("who\n").send("allow\n");
        client.expect("ok\n");
        drop(gate.server.accept());
        client.expect_closed();
        policy.expect("gone\n").send("well\n");
    }
}
