//! `--admin`: `/metrics` and `/status` count the traffic.

use std::time::{Duration, Instant};
use wireloom_tests::memcached::{key_of, Service};
use wireloom_tests::{admin, free_port, servers, thrice, Backend, Client, Process, Wireloom, CLOSING, PATIENCE};

fn proxy(n: usize, extra: &[&str]) -> (Service, u16) {
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let mut args = vec!["--admin", address.as_str()];
    args.extend(extra);
    (Service::proxy(n, &args), port)
}

#[test]
fn counts_match_the_traffic() {
    if wireloom_tests::plain() {
        return;
    }
    let (service, page) = proxy(2, &[]);
    let before = admin::status(page);
    let opened = admin::port_of(&before, "client")["opened"].as_u64().unwrap_or(0);
    let mut clients: Vec<Client> = (0..5).map(|_| Client::connect(service.port)).collect();
    for c in &mut clients {
        for i in 0..10 {
            c.send(format!("set k{i} 0 0 1\r\nx\r\n")).expect("STORED\r\n");
            c.send(format!("get k{i} none\r\n")).expect(format!("VALUE k{i} 0 1\r\nx\r\nEND\r\n"));
            c.send(format!("get k{i}\r\n")).expect(format!("VALUE k{i} 0 1\r\nx\r\nEND\r\n"));
        }
    }
    let mut status = admin::status(page);
    // A core writes its numbers one after the other, the page reads them meanwhile.
    admin::eventually("150 requests, and none under way", || {
        status = admin::status(page);
        let idle = |b: &serde_json::Value| b["load"] == 0;
        let backends = admin::port_of(&status, "ascii")["backends"].as_array().cloned().unwrap_or_default();
        admin::port_of(&status, "client")["replies"] == 150 && backends.iter().all(idle)
    });
    let client = admin::port_of(&status, "client");
    assert_eq!(client["requests"], 150, "{status}");
    assert_eq!(client["opened"].as_u64(), Some(opened + 5), "{status}");
    assert!(client["bytes_in"].as_u64() >= Some(150 * 8), "{status}");
    let text = admin::port_of(&status, "ascii");
    let backends = text["backends"].as_array().expect("backends");
    let mut requests: Vec<u64> = backends.iter().filter_map(|b| b["requests"].as_u64()).collect();
    requests.sort_unstable();
    let sum = Some(requests.iter().sum::<u64>());
    assert_eq!((text["requests"].as_u64(), text["replies"].as_u64()), (sum, sum), "{status}");
    // A get of two keys is one command for each of their servers. `far` keys lie on the other
    // server than `none`: that server has three commands for each of those. This one has three for
    // each other key and one for `none`.
    let split = |far: u64| {
        let mut both = [5 * 3 * far, 5 * (3 * (10 - far) + far)];
        both.sort_unstable();
        both
    };
    assert!((0..=10).any(|far| requests == split(far)), "{requests:?}");
    assert!(backends.iter().all(|b| b["up"] == true && b["load"] == 0), "{status}");
    // Each answer of a backend has a class, also one of several to a request.
    for b in backends {
        let classes = b["classes"].as_object().expect("classes");
        let all: u64 = classes.values().filter_map(serde_json::Value::as_u64).sum();
        assert_eq!(Some(all), b["requests"].as_u64(), "{status}");
        assert!(classes["ok"].as_u64() > Some(0) && classes["error"] == 0, "{status}");
    }
    admin::eventually("the program's counters", || {
        let counters = &admin::status(page)["apps"][0]["counters"];
        (&counters["gets"], &counters["multigets"], &counters["writes"]) == (&100.into(), &50.into(), &50.into())
    });
    let metrics = admin::metrics(page);
    assert_eq!(admin::sample(&metrics, "wireloom_requests_total{app=\"memcached_proxy\",port=\"client\"}"), 150);
    assert_eq!(admin::sample(&metrics, "wireloom_counter_total{app=\"memcached_proxy\",name=\"writes\"}"), 50);
    assert_eq!(admin::sample(&metrics, "wireloom_request_seconds_count"), 150);
    drop(clients);
    admin::eventually("connections are closed", || admin::port_of(&admin::status(page), "client")["open"] == 0);
}

/// The page has the picture, with a place for each number that it reads from `/status`.
#[test]
fn the_picture_of_a_running_app() {
    let page = free_port();
    let kv = Wireloom::run("kv_server", &["--interpret", "--admin", &format!("127.0.0.1:{page}")]);
    let (html, status) = (admin::graph(page), admin::status(page));
    assert!(html.contains("<section data-app=\"kv_server\">") && html.contains("</svg>"), "{html}");
    assert!(html.contains("fetch('/status')"), "{html}");
    let counters = status["apps"][0]["counters"].as_object().expect("counters");
    let mut places: Vec<String> = counters.keys().map(|c| format!("counter {c}")).collect();
    let tables = status["apps"][0]["tables"].as_object().expect("tables");
    places.extend(tables.keys().map(|t| format!("table {t} entries")));
    places.push("port client requests".into());
    for place in places {
        assert!(html.contains(&format!("data-live=\"{place}\"")), "{place}: {html}")
    }
    drop(kv);
}

#[test]
fn counters_of_the_interpreter_are_shown_too() {
    let page = free_port();
    let kv = Wireloom::run("kv_server", &["--interpret", "--admin", &format!("127.0.0.1:{page}")]);
    Client::connect(kv.port)
        .send("set k 0 0 1\r\nx\r\nget k\r\nget none\r\n")
        .expect("STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\nEND\r\n");
    admin::eventually("the program's counters", || {
        let counters = &admin::status(page)["apps"][0]["counters"];
        (&counters["gets"], &counters["sets"]) == (&2.into(), &1.into())
    });
    let tables = &admin::status(page)["apps"][0]["tables"];
    assert!(tables.as_object().expect("tables").values().any(|t| t["entries"] == 1), "{tables}");
}

#[test]
fn metrics_are_well_formed() {
    if wireloom_tests::plain() {
        return;
    }
    let (service, page) = proxy(1, &[]);
    Client::connect(service.port).send("nonsense\r\nset k 0 0 1\r\nabc\r\n").expect("ERROR\r\nCLIENT_ERROR");
    for line in admin::metrics(page).lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            assert!(comment.starts_with("HELP wireloom_") || comment.starts_with("TYPE wireloom_"), "{line}");
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap_or((line, ""));
        let labels = name.find('{').map_or("{}", |at| &name[at..]);
        assert!(name.starts_with("wireloom_") && labels.ends_with('}') && value.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn faults_are_counted_by_kind() {
    let backend = Backend::new();
    let page = free_port();
    let address = format!("127.0.0.1:{page}");
    let list = servers(&[backend.port]);
    let proxy =
        Wireloom::run("http_balancer", &["--set", &list, "--set", "backend.call_timeout=500ms", "--admin", &address]);
    for _ in 0..3 {
        Client::connect(proxy.port).send("GET / HTTP/9.9\r\nHost: a\r\n\r\n").expect("HTTP/1.1 ");
    }
    Client::connect(proxy.port).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("HTTP/1.1 504 ");
    admin::eventually("a timeout is counted", || admin::faults(&admin::status(page), "timeout") == 1);
    let status = admin::status(page);
    let all: u64 =
        status["apps"][0]["faults"].as_array().into_iter().flatten().filter_map(|f| f["count"].as_u64()).sum();
    assert_eq!(all, 4, "{status}");
    let metrics = admin::metrics(page);
    assert_eq!(admin::sample(&metrics, "wireloom_faults_total"), 4, "{metrics}");
}

/// A backend that is lost is shown as ejected, and as up again after its return.
#[test]
fn ejection_and_return_are_shown() {
    if wireloom_tests::plain() {
        return;
    }
    let (mut service, page) = proxy(2, &["--set", "ascii.eject_time=200ms"]);
    let key = key_of(1, 2, "eject");
    let up = |server: usize| admin::port_of(&admin::status(page), "ascii")["backends"][server]["up"] == true;
    assert!(up(0) && up(1));
    let port = service.backends[1].port;
    service.backends[1].kill();
    let mut c = Client::connect(service.port);
    admin::eventually("the backend is ejected", || {
        c.send(format!("get {key}\r\n"));
        assert!(c.take_line().starts_with("SERVER_ERROR"));
        !up(1)
    });
    assert!(up(0));
    let status = admin::status(page);
    let lost = &admin::port_of(&status, "ascii")["backends"][1];
    assert!(lost["ejections"].as_u64() > Some(0) && lost["failures"].as_u64() > Some(0), "{status}");
    service.backends[1] = Process::memcached_on(port);
    admin::eventually("the backend is up again", || {
        c.send(format!("get {key}\r\n"));
        c.take_line();
        up(1)
    });
    c.send(format!("get {key}\r\n")).expect("END\r\n");
}

/// A static page with an admin page.
fn web(extra: &[&str]) -> (Process, u16) {
    let page = free_port();
    let address = format!("127.0.0.1:{page}");
    let mut args = vec!["--admin", address.as_str()];
    args.extend(extra);
    (Wireloom::run("static_web", &args), page)
}

#[test]
fn unknown_paths_and_bad_requests_do_no_harm() {
    let (web, page) = web(&[]);
    let refused = |request: &str, status: &str| {
        let (head, _) = admin::ask(page, request);
        assert_eq!(head.lines().next(), Some(format!("HTTP/1.1 {status}").as_str()), "{request}");
    };
    refused("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", "404 Not Found");
    refused("PUT /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", "405 Method Not Allowed");
    refused("GET /metrics\r\n\r\n", "400 Bad Request");
    refused(&format!("GET /{} HTTP/1.1\r\n", "x".repeat(9000)), "431 Request Header Fields Too Large");
    Client::connect(page).send(vec![0xff; 20_000]).finish_sending();
    let silent = Client::connect(page);
    admin::status(page);
    drop(silent);
    Client::connect(web.port).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("HTTP/1.1 200 OK\r\n");
}

/// Pages of a browser on this machine may neither read nor change anything.
#[test]
fn requests_that_a_foreign_page_can_send_are_refused() {
    let (_web, page) = web(&["--admin-host", "status.example"]);
    let asked = |fields: &str| admin::ask(page, &format!("GET /status HTTP/1.1\r\n{fields}\r\n\r\n")).0;
    for ours in ["Host: localhost", "Host: status.example:80", "Host: 127.0.0.1:9900\r\nOrigin: http://127.0.0.1:9900"]
    {
        assert!(asked(ours).starts_with("HTTP/1.1 200 "), "{ours}");
    }
    for foreign in [
        "Host: evil.example",
        "Host: localhost\r\nOrigin: http://evil.example",
        "Host: localhost\r\nOrigin: http://localhost:1",
        "Host: localhost\r\nOrigin: null",
    ] {
        assert!(asked(foreign).starts_with("HTTP/1.1 403 "), "{foreign}");
    }
    let signal = |start: &str| admin::ask(page, &format!("{start}\r\nHost: localhost\r\n\r\n")).0;
    assert!(signal("GET /signal/static_web/x HTTP/1.1").starts_with("HTTP/1.1 405 "));
    assert!(signal("POST /signal/static_web/x HTTP/1.1").starts_with("HTTP/1.1 415 "));
    assert!(signal("POST /signal/static_web/x HTTP/1.1\r\nContent-Type: text/plain").starts_with("HTTP/1.1 415 "));
    assert!(signal("POST /signal/static_web/x HTTP/1.1\r\nContent-Type: application/json").starts_with("HTTP/1.1 404 "));
}

/// Idle and slow clients hold up neither others nor the end.
#[test]
fn slow_clients_hold_up_nobody() {
    let (running, page) = web(&[]);
    let mut slow: Vec<Client> = (0..200).map(|_| Client::connect(page)).collect();
    for c in &mut slow[180..] {
        c.send("GET /sta");
    }
    // If the page had waited for one after the other, this were twenty minutes.
    admin::status(page);
    // One that sends a byte at a time has as long as one that sends nothing.
    let mut dripping = std::net::TcpStream::connect(("127.0.0.1", page)).expect("the page listens");
    let begin = Instant::now();
    let mut dripped = 0;
    while std::io::Write::write_all(&mut dripping, b"x").is_ok() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
        dripped += 1;
    }
    assert!(begin.elapsed() < CLOSING && dripped > 5, "{dripped} bytes in {:?}", begin.elapsed());
    drop(running);
    // The end does not wait until their time is over, which is 5 s.
    thrice(|| {
        let (mut running, page) = web(&[]);
        let _slow: Vec<Client> = (0..50).map(|_| Client::connect(page)).collect();
        let begin = Instant::now();
        running.signal(libc::SIGTERM);
        assert_eq!(running.exit(), Some(0));
        (begin.elapsed() < Duration::from_secs(3)).then_some(()).ok_or(format!("{:?}", begin.elapsed()))
    });
}

/// The processor time of the admin page's thread, in ticks.
fn page_ticks(process: &Process) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.child.id())).expect("it runs");
    let stats = tasks.flatten().filter_map(|t| std::fs::read_to_string(t.path().join("stat")).ok());
    let of_page = stats.filter_map(|s| s.split_once(" (admin) ").map(|(_, rest)| rest.to_string()));
    let ticks = |rest: String| rest.split(' ').skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum::<u64>();
    of_page.map(ticks).sum()
}

/// Without descriptors the page rests, and goes on when there are some.
#[test]
fn without_descriptors_the_page_does_not_spin() {
    let page = free_port();
    let address = format!("127.0.0.1:{page}");
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    let web = Wireloom::run_with("static_web", &["--admin", &address], |c| {
        use std::os::unix::process::CommandExt;
        // SAFETY: a plain system call between fork and exec.
        unsafe {
            c.pre_exec(move || {
                libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
                Ok(())
            })
        };
    });
    let held: Vec<Client> = (0..100).map(|_| Client::connect(web.port)).collect();
    let mut asking: Vec<Client> = (0..40).map(|_| Client::connect(page)).collect();
    for c in &mut asking {
        c.send("GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    std::thread::sleep(Duration::from_millis(300));
    let before = page_ticks(&web);
    std::thread::sleep(Duration::from_secs(1));
    let used = page_ticks(&web) - before;
    assert!(used < 30, "{used} ticks in a second");
    drop(held);
    asking.pop().expect("the last one").expect("HTTP/1.1 200 OK\r\n");
    admin::status(page);
}

/// A client that leaves while its signal waits for a core is forgotten at once.
#[test]
fn a_client_that_leaves_during_a_signal_costs_nothing() {
    let page = free_port();
    let folder = wireloom_tests::folder::Folder::new("admin-signal");
    let file = folder.file("busy.loom");
    let program = "unit M { n: u8 }\nprotocol p { stateless  request M  response M }\n\
                   fn long(n: u8) -> u64 {\n    var x = u64(n)\n    loop max 1000000000 { x = x * 31 + 7 }\n    x\n}\n\
                   app busy {\n    param port: u16 = 7000\n    port c = listen tcp(port) as p\n\
                       on c(r) { reply M { n: u8(long(r.n) & 255) } }\n    signal poke() -> u64 { 1 }\n}\n";
    std::fs::write(&file, program).expect("writable");
    let address = format!("127.0.0.1:{page}");
    let busy = Wireloom::run_file(&file.to_string_lossy(), &["--admin", &address], |_| {});
    let _asked = Client::connect(busy.port).send("x");
    std::thread::sleep(Duration::from_millis(100));
    let mut leaving = Client::connect(page);
    leaving.send("POST /signal/busy/poke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n");
    std::thread::sleep(Duration::from_millis(100));
    leaving.reset();
    let before = page_ticks(&busy);
    std::thread::sleep(Duration::from_millis(500));
    let used = page_ticks(&busy) - before;
    assert!(used < 15, "{used} ticks in half a second");
}
