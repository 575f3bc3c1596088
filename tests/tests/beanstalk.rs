//! `apps/beanstalk_proxy.loom` between clients and beanstalkd.

use std::process::Command;
use wireloom_tests::{
    admin, client_library, finish, free_port, require_tool, root, servers, Client, Process, Wireloom,
};

fn beanstalkd() -> Process {
    let port = free_port();
    let mut command = Command::new("beanstalkd");
    command.args(["-l", "127.0.0.1", "-p", &port.to_string()]);
    Process::start("beanstalkd", &mut command, port)
}

fn proxy(queues: &[&Process], extra: &[&str]) -> Process {
    let ports: Vec<u16> = queues.iter().map(|q| q.port).collect();
    Wireloom::run("beanstalk_proxy", &[&["--set", &servers(&ports)], extra].concat())
}

#[test]
fn producers_and_workers_of_greenstalk() {
    if !require_tool("beanstalkd") {
        return;
    }
    let Some(library) = client_library("beanstalk/python", "python3") else { return };
    let queues = [beanstalkd(), beanstalkd()];
    let page = free_port();
    let proxy = proxy(&[&queues[0], &queues[1]], &["--admin", &format!("127.0.0.1:{page}")]);
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", library).arg(root().join("tests/clients/beanstalk/client.py"));
    command.args([proxy.port, queues[0].port, queues[1].port].map(|p| p.to_string()));
    let out = finish(&mut command);
    assert_eq!((out.code, out.out.as_str()), (Some(0), "done\n"), "{}", out.text);
    admin::eventually("the jobs are counted", || {
        let counters = &admin::status(page)["apps"][0]["counters"];
        (&counters["sessions"], &counters["reserved"]) == (&16.into(), &400.into())
    });
}

/// Commands of all kinds but those of statistics, and lines that are no commands.
const SCRIPT: &str = "use mail\r\nlist-tube-used\r\nput 5 0 60 6\r\nquit\r\n\r\nput 1 0 60 0\r\n\r\n\
    put 1 60 60 1\r\nx\r\nfetch me\r\n\r\nstatistics\r\npeek 1\r\npeek 9\r\npeek-ready\r\npeek-delayed\r\n\
    peek-buried\r\nwatch mail\r\nwatch other\r\nignore default\r\nignore other\r\nignore mail\r\nlist-tubes-watched\r\n\
    reserve\r\nrelease 2 7 0\r\nreserve-with-timeout 0\r\nbury 1 3\r\ntouch 1\r\nkick 10\r\nreserve-job 1\r\n\
    touch 1\r\nbury 1 3\r\nkick-job 1\r\nkick-job 99\r\ndelete 1\r\ndelete 1\r\nreserve-with-timeout 0\r\n\
    reserve-with-timeout 0\r\npause-tube mail 1\r\npause-tube nowhere 1\r\nstats-tube nowhere\r\nlist-tubes\r\n\
    put 1 0 60 65536\r\n";

/// The replies to the script, from a new server that is asked directly or through the proxy.
fn replies(through: bool, piece: usize) -> String {
    let server = beanstalkd();
    let proxy = through.then(|| proxy(&[&server], &[]));
    let mut client = Client::connect(proxy.as_ref().map_or(server.port, |p| p.port));
    let mut script = SCRIPT.as_bytes().to_vec();
    script.extend([b'x'; 65536]);
    script.extend(b"\r\nquit\r\n");
    client.send_in_pieces(&script[..SCRIPT.len()], piece).send(&script[SCRIPT.len()..]);
    String::from_utf8(client.rest()).expect("replies are text")
}

#[test]
fn the_same_replies_in_the_same_order() {
    if !require_tool("beanstalkd") {
        return;
    }
    let expected = replies(false, SCRIPT.len());
    assert!(expected.starts_with("USING mail\r\nUSING mail\r\nINSERTED 1\r\n"), "{expected}");
    assert!(expected.ends_with("JOB_TOO_BIG\r\n"), "{expected}");
    for piece in [SCRIPT.len(), 7, 1] {
        assert_eq!(replies(true, piece), expected, "in pieces of {piece}");
    }
}

#[test]
fn the_state_of_a_connection_is_its_own() {
    if !require_tool("beanstalkd") {
        return;
    }
    let queue = beanstalkd();
    let proxy = proxy(&[&queue], &[]);
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(proxy.port)).collect();
    for (n, c) in clients.iter_mut().enumerate() {
        c.send(format!("use t{n}\r\nwatch t{n}\r\nignore default\r\nreserve\r\n"));
        c.expect(format!("USING t{n}\r\nWATCHING 2\r\nWATCHING 1\r\n"));
    }
    // One client puts into all tubes, so that each worker has one job.
    let mut producer = Client::connect(proxy.port);
    for n in 0..20 {
        producer.send(format!("use t{n}\r\nput 0 0 60 2\r\n{n:02}\r\n"));
        producer.expect(format!("USING t{n}\r\nINSERTED {}\r\n", n + 1));
    }
    for (n, c) in clients.iter_mut().enumerate() {
        c.expect(format!("RESERVED {} 2\r\n{n:02}\r\n", n + 1));
    }
    // A reserved job belongs to its connection. It is ready again when its worker is gone.
    producer.send("delete 1\r\nwatch t0\r\n").expect("NOT_FOUND\r\nWATCHING 2\r\n");
    clients.remove(0).reset();
    producer.send("reserve\r\n").expect("RESERVED 1 2\r\n00\r\n");
    producer.send("delete 1\r\n").expect("DELETED\r\n");
}

#[test]
fn a_server_that_dies_while_workers_wait() {
    if !require_tool("beanstalkd") {
        return;
    }
    let mut queue = beanstalkd();
    let proxy = proxy(&[&queue], &[]);
    let mut worker = Client::connect(proxy.port);
    worker.send("watch mail\r\nreserve\r\n").expect("WATCHING 2\r\n");
    queue.kill();
    worker.expect_closed();
    let mut late = Client::connect(proxy.port);
    late.send("stats\r\n").expect("INTERNAL_ERROR\r\n").expect_closed();
}
