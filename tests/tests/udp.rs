//! Services over UDP: real clients and servers (dig, dnsmasq, memcached, logger), lost and forged
//! answers, and hostile datagrams.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wireloom_tests::admin::{eventually, faults, metrics, port_of, sample, status};
use wireloom_tests::dns::{answer, ask, question, socket, Resolver};
use wireloom_tests::{finish, free_port, require_tool, Process, Wireloom, PATIENCE};

fn forwarder(resolvers: &str, extra: &[&str]) -> (Process, u16) {
    let page = free_port();
    let admin = format!("127.0.0.1:{page}");
    let resolvers = format!("resolvers={resolvers}");
    let all = [&["--admin", &admin, "--set", &resolvers][..], extra].concat();
    (Wireloom::run("dns_forwarder", &all), page)
}

#[test]
fn questions_and_answers_on_both_engines() {
    for engine in ["epoll", "uring"] {
        let resolver = Resolver::new(|n, q| vec![answer(q, 60, [192, 0, 2, n as u8])]);
        let (service, page) = forwarder(&resolver.addr.to_string(), &["--engine", engine, "--interpret"]);
        // Two clients with the same number get their own answers.
        let (one, two) = (socket(), socket());
        for round in 0..20u8 {
            let q = question(7, &format!("a{round}.example"));
            let a = ask(&one, service.port, &q).expect("an answer");
            let b = ask(&two, service.port, &q).expect("an answer");
            assert_eq!(a, answer(&q, 60, [192, 0, 2, 2 * round + 1]), "{engine}");
            assert_eq!(b, answer(&q, 60, [192, 0, 2, 2 * round + 2]), "{engine}");
        }
        eventually("a datagram leaves nothing behind", || {
            let s = status(page);
            let client = port_of(&s, "client");
            (&client["requests"], &client["replies"], &client["open"]) == (&40.into(), &40.into(), &0.into())
        });
    }
}

/// Many questions at once, on two cores, each answered once and rightly.
#[test]
fn many_at_once() {
    let resolver = Resolver::new(|_, q| vec![answer(q, 60, q[13..17].try_into().expect("a name"))]);
    let (service, page) = forwarder(&resolver.addr.to_string(), &["--interpret", "--cores", "0,1"]);
    std::thread::scope(|s| {
        for t in 0..4u8 {
            let port = service.port;
            s.spawn(move || {
                let client = socket();
                client.set_read_timeout(Some(Duration::from_millis(500))).expect("a time limit");
                let mut wanted = HashMap::new();
                for n in 0..200u16 {
                    let q = question(n, &format!("{t}{n:03}.example"));
                    client.send_to(&q, ("127.0.0.1", port)).expect("loopback takes datagrams");
                    wanted.insert(n, answer(&q, 60, q[13..17].try_into().expect("a name")));
                    if n % 20 == 19 {
                        take(&client, &mut wanted, 2);
                    }
                }
                take(&client, &mut wanted, 0);
                assert!(wanted.len() < 20, "{} of 200 answers are missing", wanted.len());
            });
        }
    });
    assert_eq!(
        sample(&metrics(page), "wireloom_datagrams_unmatched_total{app=\"dns_forwarder\",port=\"resolver\"}"),
        0
    );
}

fn take(client: &UdpSocket, wanted: &mut HashMap<u16, Vec<u8>>, left: usize) {
    let mut bytes = [0; 2048];
    while wanted.len() > left {
        let Ok((n, _)) = client.recv_from(&mut bytes) else { return };
        let id = u16::from_be_bytes([bytes[0], bytes[1]]);
        let right = wanted.remove(&id).expect("an answer comes once, to the one who asked");
        assert_eq!(bytes[..n], right);
    }
}

/// Lost, late, wrong, repeated and forged answers.
#[test]
fn what_resolvers_do() {
    let resolver = Resolver::new(|_, q| {
        let good = answer(q, 60, [192, 0, 2, 1]);
        let edit = |at: usize, to: u8| {
            let mut a = good.clone();
            a[at] = to;
            a
        };
        match q[13] {
            b'l' => vec![],                                        // lost
            b't' => vec![good.clone(), good.clone(), good],        // thrice
            b'o' => vec![edit(14, b'X'), good],                    // of another question first
            b'n' => vec![edit(0, !q[0]), edit(1, q[1] ^ 1), good], // of other numbers
            b'q' => vec![q.to_vec(), good],                        // the question itself
            b'c' => vec![good[..11].to_vec()],                     // cut
            b'e' => vec![Vec::new(), b"\0".to_vec(), good],        // nothing, and too little
            _ => vec![good],
        }
    });
    let (service, page) =
        forwarder(&resolver.addr.to_string(), &["--interpret", "--set", "resolver.answer_timeout=300ms"]);
    let client = socket();
    for (name, right) in [("tt", true), ("oo", true), ("nn", true), ("qq", true), ("ee", true), ("aa", true)] {
        let q = question(9, &format!("{name}.example"));
        let a = ask(&client, service.port, &q).expect("an answer");
        assert_eq!(a == answer(&q, 60, [192, 0, 2, 1]), right, "{name}: {a:x?}");
    }
    for name in ["ll", "cc"] {
        let q = question(9, &format!("{name}.example"));
        let a = ask(&client, service.port, &q).expect("a server failure");
        assert_eq!((&a[..4], &a[12..]), (&b"\0\x09\x81\x02"[..], &q[12..]), "{name}");
    }
    let s = status(page);
    let to = port_of(&s, "resolver");
    // Two of `tt`, one of `oo`, two of `nn`, one of `qq`, two of `ee`.
    assert_eq!(to["unmatched"], 8, "{to}");
    assert_eq!((faults(&s, "bad_reply"), faults(&s, "timeout")), (2, 1), "{s}");
    client.set_read_timeout(Some(Duration::from_millis(100))).expect("a time limit");
    assert!(client.recv_from(&mut [0; 100]).is_err(), "nobody is answered twice");
}

/// A port on which nothing listens: the kernel tells, and the client learns it at once.
#[test]
fn nobody_listens() {
    let gone = UdpSocket::bind("127.0.0.1:0").expect("loopback has ports").local_addr().expect("it is bound");
    let (service, _) = forwarder(&gone.to_string(), &["--interpret"]);
    let begun = Instant::now();
    let q = question(1, "a.example");
    let a = ask(&socket(), service.port, &q).expect("a server failure");
    assert_eq!(a[3] & 15, 2);
    assert!(begun.elapsed() < Duration::from_secs(2), "before the time is up");
}

/// Every prefix and every changed byte of a question, and datagrams of all sizes. The service
/// answers each at most once, no answer to a broken one is longer than it, and goes on.
#[test]
fn hostile_datagrams() {
    let resolver = Resolver::new(|_, q| vec![answer(q, 60, [192, 0, 2, 1])]);
    let (service, page) = forwarder(&resolver.addr.to_string(), &["--set", "rate=1000000"]);
    let client = socket();
    let good = question(0x1234, "www.example");
    let mut all: Vec<Vec<u8>> = (0..good.len()).map(|n| good[..n].to_vec()).collect();
    for at in 0..good.len() {
        for flip in [1, 0x80, 0xff] {
            let mut q = good.clone();
            q[at] ^= flip;
            all.push(q);
        }
    }
    all.extend([0, 1, 11, 12, 512, 4096, 65_507].map(|n| vec![0xff; n]));
    all.push([&good[..], &[0; 60_000]].concat());
    let last = question(0x9999, "last.example");
    for q in &all {
        client.send_to(q, ("127.0.0.1", service.port)).expect("loopback takes datagrams");
        // Behind the answer to this one, that to `q` has come.
        let mut bytes = [0; 65536];
        client.send_to(&last, ("127.0.0.1", service.port)).expect("loopback takes datagrams");
        let mut answers = 0;
        loop {
            let (n, _) = client.recv_from(&mut bytes).expect("the service goes on");
            if bytes[..n] == answer(&last, 60, [192, 0, 2, 1])[..] {
                break;
            }
            answers += 1;
            assert!(answers == 1, "one answer at most to {q:x?}");
            assert!(n <= q.len() || bytes[3] & 15 != 1, "an answer of {n} bytes to {q:x?}");
        }
    }
    let s = status(page);
    assert!(faults(&s, "malformed") + faults(&s, "truncated") + faults(&s, "constraint") > 50, "{s}");
    eventually("none is left open", || port_of(&status(page), "client")["open"] == 0);
}

/// A datagram for a longer answer than may be sent is not answered.
#[test]
fn an_answer_that_is_too_long() {
    let resolver = Resolver::new(|_, q| vec![answer(q, 60, [192, 0, 2, 1])]);
    let (service, page) = forwarder(&resolver.addr.to_string(), &["--interpret", "--set", "client.max_answer=44"]);
    let client = socket();
    assert!(ask(&client, service.port, &question(1, "a.b")).is_some(), "37 bytes");
    client.set_read_timeout(Some(Duration::from_millis(200))).expect("a time limit");
    assert_eq!(ask(&client, service.port, &question(1, "a-longer.name")), None);
    assert_eq!(faults(&status(page), "too_long"), 1);
}

/// A drain answers what is under way.
#[test]
fn a_drain_answers() {
    let resolver = Resolver::new(|_, q| {
        std::thread::sleep(Duration::from_millis(400));
        vec![answer(q, 60, [192, 0, 2, 1])]
    });
    let (mut service, _) = forwarder(&resolver.addr.to_string(), &["--interpret"]);
    let client = socket();
    client.send_to(&question(1, "a.example"), ("127.0.0.1", service.port)).expect("loopback takes datagrams");
    eventually("the resolver is asked", || resolver.asked() == 1);
    service.signal(libc::SIGTERM);
    assert!(client.recv_from(&mut [0; 100]).is_ok(), "the answer comes");
    assert_eq!(service.exit_code(PATIENCE), Some(0));
}

/// The answer leaves from the address that was asked, as a resolver's client expects.
#[test]
fn the_address_that_was_asked_answers() {
    let resolver = Resolver::new(|_, q| vec![answer(q, 60, [192, 0, 2, 1])]);
    let (service, _) = forwarder(&resolver.addr.to_string(), &["--interpret"]);
    let client = socket();
    for to in ["127.0.0.1", "127.0.0.2", "127.1.2.3"] {
        client.send_to(&question(1, "a.example"), (to, service.port)).expect("loopback takes datagrams");
        let (_, from) = client.recv_from(&mut [0; 100]).expect("an answer");
        assert_eq!(from, SocketAddr::new(to.parse().expect("an address"), service.port));
    }
}

#[test]
fn dig_and_dnsmasq() {
    if !require_tool("dig") || !require_tool("dnsmasq") {
        return;
    }
    let port = free_port();
    let mut dnsmasq = Command::new("dnsmasq")
        .args(["--no-daemon", "--no-resolv", "--no-hosts", "--bind-interfaces", "--listen-address=127.0.0.1"])
        .args(["--conf-file=/dev/null", "--user=root", "--pid-file="])
        .args([format!("--port={port}"), "--address=/example.test/192.0.2.7".into()])
        .args(["--txt-record=text.example.test,hello"])
        .stderr(Stdio::null())
        .spawn()
        .expect("dnsmasq starts");
    let (service, _) = forwarder(&format!("127.0.0.1:{port}"), &[]);
    let dig = |args: &[&str]| {
        finish(Command::new("dig").args(["@127.0.0.1", "-p", &service.port.to_string(), "+tries=3"]).args(args)).out
    };
    assert_eq!(dig(&["a.example.test", "+short"]).trim(), "192.0.2.7");
    assert_eq!(dig(&["text.example.test", "TXT", "+short"]).trim(), "\"hello\"");
    assert!(dig(&["a.example.test", "+edns", "+cookie"]).contains("status: NOERROR"));
    assert!(dig(&["elsewhere.test"]).contains("status: REFUSED"));
    dnsmasq.kill().expect("our own child");
    dnsmasq.wait().expect("our own child");
}

#[test]
fn memcached_over_udp() {
    if !require_tool("memcached") {
        return;
    }
    let port = free_port();
    let udp = port.to_string();
    let mut args = vec!["-U", &udp, "-p", &udp, "-l", "127.0.0.1"];
    if cfg!(target_os = "linux") {
        args.extend(["-u", "root"]);
    }
    let _memcached = Process::start("memcached", Command::new("memcached").args(args), port);
    let service = Wireloom::run("memcached_udp_proxy", &["--set", &format!("servers=127.0.0.1:{port}")]);
    let client = socket();
    let frame = |id: u16, text: &[u8]| [&id.to_be_bytes()[..], b"\0\0\0\x01\0\0", text].concat();
    assert_eq!(ask(&client, service.port, &frame(5, b"set a 0 0 5\r\nhello\r\n")), Some(frame(5, b"STORED\r\n")));
    assert_eq!(ask(&client, service.port, &frame(6, b"get a\r\n")), Some(frame(6, b"VALUE a 0 5\r\nhello\r\nEND\r\n")));
    assert_eq!(ask(&client, service.port, &frame(7, b"incr a 1\r\n")).expect("an answer")[..2], [0, 7]);
    // A value of several datagrams, which are counted.
    let value = vec![b'v'; 5000];
    let set = [&b"set big 0 0 5000\r\n"[..], &value, b"\r\n"].concat();
    assert_eq!(ask(&client, service.port, &frame(8, &set)), Some(frame(8, b"STORED\r\n")));
    client.send_to(&frame(9, b"get big\r\n"), ("127.0.0.1", service.port)).expect("loopback takes datagrams");
    let (mut whole, mut total) = (Vec::new(), 1);
    let mut bytes = [0; 65536];
    let mut seen = 0;
    while seen < total {
        let (n, _) = client.recv_from(&mut bytes).expect("the rest of the value");
        assert_eq!(bytes[..4], [0, 9, 0, seen as u8]);
        total = u16::from_be_bytes([bytes[4], bytes[5]]);
        whole.extend_from_slice(&bytes[8..n]);
        seen += 1;
    }
    assert!(total > 1, "one datagram does not hold it");
    assert_eq!(whole, [&b"VALUE big 0 5000\r\n"[..], &value, b"\r\nEND\r\n"].concat());
}

/// Four metrics in one datagram, then one by itself.
const STATSD: &str = r#"
import statsd, sys
client = statsd.StatsClient("127.0.0.1", int(sys.argv[1]))
with client.pipeline() as together:
    together.incr("gorets")
    together.timing("a", 320, rate=1)
    together.gauge("gorets", -10, delta=True)
    together.set("answers", 765)
client.decr("a", 2)
"#;

/// The metrics of Python's client reach the collectors of their names; malformed ones reach none.
#[test]
fn statsd_client() {
    let collectors = [socket(), socket()];
    let to = collectors.each_ref().map(|c| c.local_addr().expect("it is bound").to_string()).join(",");
    let page = free_port();
    let admin = format!("127.0.0.1:{page}");
    let service = Wireloom::run("statsd_relay", &["--set", &format!("collectors={to}"), "--admin", &admin]);
    let receive = |n: usize| {
        let mut bytes = [0; 9000];
        let (n, _) = collectors[n].recv_from(&mut bytes).expect("metrics");
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    };
    if let Some(python) = wireloom_tests::python::with("statsd") {
        let out = finish(Command::new(python).args(["-c", STATSD, &service.port.to_string()]));
        assert_eq!(out.code, Some(0), "{}", out.text);
        assert_eq!(receive(0), "gorets:1|c\ngorets:-10|g\nanswers:765|s");
        // Datagrams have no order.
        let mut two = [receive(1), receive(1)];
        two.sort();
        assert_eq!(two, ["a:-2|c", "a:320.000000|ms\n"]);
    }
    let client = socket();
    let bad = [&b""[..], b"a", b"a:1", b"a:1|", b":1|c", b"a b:1|c", b"a:1|c@1", b"a:1|c\nb", &[b'a'; 9000]];
    for bad in bad {
        client.send_to(bad, ("127.0.0.1", service.port)).expect("loopback takes datagrams");
    }
    client.send_to(b"a:1|c|#zone:eu", ("127.0.0.1", service.port)).expect("loopback takes datagrams");
    assert_eq!(receive(1), "a:1|c|#zone:eu");
    eventually("all are counted", || {
        let s = status(page);
        ["malformed", "truncated", "too_long", "constraint"].iter().map(|k| faults(&s, k)).sum::<u64>()
            == bad.len() as u64
    });
}

#[test]
fn logger_and_syslog() {
    let collector = socket();
    let to = format!("collectors={}", collector.local_addr().expect("it is bound"));
    let page = free_port();
    let service = Wireloom::run("syslog_relay", &["--set", &to, "--admin", &format!("127.0.0.1:{page}")]);
    let receive = || {
        let mut bytes = [0; 9000];
        let (n, _) = collector.recv_from(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    };
    if require_tool("logger") {
        let port = service.port.to_string();
        let log = |more: &[&str]| {
            let args = [&["--server", "127.0.0.1", "--port", &port, "--udp"][..], more].concat();
            assert_eq!(finish(Command::new("logger").args(args)).code, Some(0));
        };
        log(&["--priority", "local0.warning", "hello"]);
        let m = receive();
        assert!(m.starts_with("<132>") && m.ends_with("hello"), "{m}");
        log(&["--priority", "local0.debug", "not this one"]);
        log(&["--priority", "user.notice", "--rfc3164", "another"]);
        let m = receive();
        assert!(m.starts_with("<13>") && m.ends_with("another"), "{m}");
    }
    let client = socket();
    for bad in [&b""[..], b"<", b"<13", b"<192>x", b"<-1>x", b"<1x", b"hello", &[0xff; 9000]] {
        client.send_to(bad, ("127.0.0.1", service.port)).expect("loopback takes datagrams");
    }
    client.send_to(b"<0>good", ("127.0.0.1", service.port)).expect("loopback takes datagrams");
    assert_eq!(receive(), "<0>good");
    eventually("all are counted", || {
        let s = status(page);
        ["malformed", "truncated", "too_long", "constraint"].iter().map(|k| faults(&s, k)).sum::<u64>() == 8
    });
}
