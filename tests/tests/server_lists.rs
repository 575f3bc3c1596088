//! Lists of servers that change at SIGHUP, under load: of requests, of conversations, over UDP.

use std::ffi::{CStr, CString};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use wireloom_tests::admin::{eventually, metrics, port_of, sample, status};
use wireloom_tests::dns::{answer, ask, question, socket, Resolver};
use wireloom_tests::folder::Folder;
use wireloom_tests::{free_port, plain, quickly_compiled, Backend, Client, Process, Wireloom};

/// Requests go to a server by ketama, or by their number.
const REQUESTS: &str = r#"
unit Line { text: bytes<64> until "\n" }
protocol lines {
    request  Line
    response Line
    stateless
    on fault(f) { reply Line { text: "lost" } }
}

app balance {
    param port:    u16
    param servers: list<endpoint, 16>

    state turn: u32 = 0
    port client   = listen tcp(port)     as lines
    port backends = connect tcp(servers) as lines

    on client(m) {
        turn = if turn > 1000 { 0 } else { turn + 1 }
        if starts_with(m.text, "k") {
            reply call backends[ketama(backends, m.text)](m)
        } else {
            reply call backends[turn % len(backends)](m)
        }
    }
}
"#;

/// Each client has a session with a server.
const SESSIONS: &str = r#"
unit Line { text: bytes<64> until "\n" }
protocol talk {
    up Line
    down Line
    sharing session
    on fault(f) {
        match f.kind {
            shutdown => reply Line { text: "shutdown" } then close
            _        => reply Line { text: "lost" } then close
        }
    }
}

app talks {
    param port:    u16
    param servers: list<endpoint, 16>

    port client = listen tcp(port)     as talk
    port db     = connect tcp(servers) as talk

    session up: connection of db

    on client.opened { up = open db[0] }
    on client(m: talk.up) { m -> up }
    on up(m: talk.down) { m -> client }
}
"#;

struct Service {
    folder: Folder,
    process: Process,
    page: u16,
}

impl Service {
    fn new(name: &str, program: &str, servers: &[u16], args: &[&str]) -> Service {
        let (folder, page) = (Folder::new(name), free_port());
        std::fs::write(folder.file("a.loom"), program).expect("the folder is writable");
        std::fs::write(folder.file("a.toml"), config(servers)).expect("the folder is writable");
        let (file, toml, admin) = (folder.name_of("a.loom"), folder.name_of("a.toml"), format!("127.0.0.1:{page}"));
        let args = [&["--config", toml.as_str(), "--admin", admin.as_str()], args].concat();
        let process = Wireloom::run_file(&file, &args, |c| {
            quickly_compiled(c);
        });
        Service { folder, process, page }
    }

    /// Has the service read the file again, and waits until it has said `says`.
    fn read(&self, text: &str, says: &str) {
        let said = || self.process.output().matches(says).count();
        let before = said();
        std::fs::write(self.folder.file("a.toml"), text).expect("the folder is writable");
        self.process.signal(libc::SIGHUP);
        eventually(says, || said() > before);
    }

    fn list(&self, servers: &[u16]) {
        self.read(&config(servers), "servers has its new value");
    }
}

fn config(servers: &[u16]) -> String {
    let all: Vec<String> = servers.iter().map(|p| format!("\"127.0.0.1:{p}\"")).collect();
    format!("[set]\nservers = [{}]\n", all.join(", "))
}

/// A server that answers each line by itself, and counts.
struct Echo {
    port: u16,
    asked: Arc<AtomicU64>,
    open: Arc<AtomicU64>,
}

impl Echo {
    fn new() -> Echo {
        Echo::on(TcpListener::bind("127.0.0.1:0").expect("loopback has ports"))
    }

    fn on(listener: TcpListener) -> Echo {
        let port = listener.local_addr().expect("it is bound").port();
        let (asked, open) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (count, now) = (asked.clone(), open.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (count, now) = (count.clone(), now.clone());
                now.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    let mut out = stream.try_clone().expect("descriptors");
                    for line in BufReader::new(stream).lines().map_while(Result::ok) {
                        count.fetch_add(1, Ordering::SeqCst);
                        if out.write_all(format!("{line}\n").as_bytes()).is_err() {
                            break;
                        }
                    }
                    now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Echo { port, asked, open }
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    fn open(&self) -> u64 {
        self.open.load(Ordering::SeqCst)
    }
}

/// Asks until told to stop: each answer is that of its request.
fn client(port: u16, who: u64, over: &AtomicBool) -> u64 {
    let mut out = TcpStream::connect(("127.0.0.1", port)).expect("the service listens");
    let mut lines = BufReader::new(out.try_clone().expect("descriptors")).lines();
    let mut n = 0;
    while !over.load(Ordering::Relaxed) {
        let texts: Vec<String> =
            (0..1 + n % 4).map(|i| format!("{}{who}.{}", ["k", "r"][i as usize % 2], n + i)).collect();
        out.write_all(format!("{}\n", texts.join("\n")).as_bytes()).expect("the service reads");
        for text in &texts {
            let line = lines.next().expect("an answer").expect("the service answers");
            assert_eq!(&line, text, "{who} got another answer");
        }
        n += texts.len() as u64;
    }
    n
}

#[test]
fn requests_are_neither_lost_nor_mixed_up() {
    if plain() {
        return;
    }
    let servers: Vec<Echo> = (0..5).map(|_| Echo::new()).collect();
    let ports = |of: &[usize]| of.iter().map(|i| servers[*i].port).collect::<Vec<_>>();
    for args in [&["--cores", "0-1"][..], &["--cores", "0-1", "--interpret"]] {
        let service = Service::new("server-lists", REQUESTS, &ports(&[0, 1, 2]), args);
        let over = AtomicBool::new(false);
        let answered = std::thread::scope(|s| {
            let (over, port) = (&over, service.process.port);
            let clients: Vec<_> = (0..6).map(|who| s.spawn(move || client(port, who, over))).collect();
            for round in 0..12 {
                service.list(&ports([&[3, 0][..], &[1, 2, 3, 4], &[4], &[2, 1, 0]][round % 4]));
            }
            over.store(true, Ordering::Relaxed);
            clients.into_iter().map(|c| c.join().expect("all answers are right")).sum::<u64>()
        });
        assert!(answered > 500, "{answered}");
        // The last list has three servers; nobody else has a connection, or a line in the metrics.
        eventually("connections drain", || servers[3].open() + servers[4].open() == 0);
        let before = [servers[3].asked(), servers[4].asked()];
        let mut client = Client::connect(service.process.port);
        (0..30).for_each(|n| {
            client.send(format!("k{n}\nr{n}\n")).expect(format!("k{n}\nr{n}\n"));
        });
        assert_eq!([servers[3].asked(), servers[4].asked()], before);
        let shown = status(service.page);
        let listed: Vec<String> = port_of(&shown, "backends")["backends"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|b| b["address"].as_str().expect("an address").to_string())
            .collect();
        assert_eq!(listed, ports(&[2, 1, 0]).iter().map(|p| format!("127.0.0.1:{p}")).collect::<Vec<_>>());
        let text = metrics(service.page);
        assert!(!text.contains(&format!("backend=\"127.0.0.1:{}\"", servers[4].port)), "{text}");
        let line = format!(
            "wireloom_backend_requests_total{{app=\"balance\",port=\"backends\",backend=\"127.0.0.1:{}\"}}",
            servers[0].port
        );
        assert!(sample(&text, &line) > 0, "{text}");
    }
}

#[test]
fn sessions_end_by_themselves_or_with_the_drain() {
    if plain() {
        return;
    }
    let (a, b) = (Backend::new(), Backend::new());
    let service = Service::new("server-lists-talks", SESSIONS, &[a.port], &["--drain", "2"]);
    let (mut one, mut two) = (Client::connect(service.process.port), Client::connect(service.process.port));
    one.send("hello\n");
    let mut first = a.accept();
    first.expect("hello\n");
    two.send("hi\n");
    let mut second = a.accept();
    second.expect("hi\n");
    service.list(&[b.port]);
    // Both go on; a new client talks to the new server.
    one.send("again\n");
    first.expect("again\n").send("yes\n");
    one.expect("yes\n");
    let mut three = Client::connect(service.process.port);
    three.send("new\n");
    b.accept().expect("new\n");
    let gone = &status(service.page);
    assert_eq!(port_of(gone, "db")["gone"][0]["connections"], 2, "{gone}");
    // One ends by itself, the other one is told at the end of the drain.
    drop(one);
    first.expect_closed();
    two.expect("shutdown\n").expect_closed();
    second.expect_closed();
    eventually("nothing is left", || {
        port_of(&status(service.page), "db")["gone"].as_array().is_some_and(Vec::is_empty)
    });
}

/// A client's server is remembered by its address, in a table and in the session.
const STICKY: &str = r#"
unit Line { text: bytes<64> until "\n" }
protocol lines {
    request  Line
    response Line
    stateless
    on fault(f) { reply Line { text: "lost" } }
}

app sticky {
    param port:    u16
    param servers: list<endpoint, 16>

    table homes: bytes<64> -> endpoint { capacity 100 }
    session last: endpoint
    port client   = listen tcp(port)     as lines
    port backends = connect tcp(servers) as lines

    on client(m) {
        if m.text == "where" { reply Line { text: text(last) }; return }
        if m.text == "number" {
            reply Line { text: if let i = instance(backends, last) { text(i) } else { "gone" } }
            return
        }
        var to = u32(len(backends)) - 1
        if let home = homes[m.text] { to = instance(backends, home) else to }
        homes[m.text] = server(backends, to)
        last = server(backends, to)
        reply call backends[to](m)
    }
}
"#;

/// Another order, and a list without the server.
#[test]
fn a_server_that_is_remembered_by_its_address_stays_the_same() {
    let all = [Echo::new(), Echo::new(), Echo::new()];
    let [a, b, c] = [all[0].port, all[1].port, all[2].port];
    for args in [&["--cores", "0-1"][..], &["--interpret"]] {
        let service = Service::new("server_sticky", STICKY, &[a, b, c], args);
        let mut client = Client::connect(service.process.port);
        let mut ask = |text: &str| {
            client.send(format!("{text}\n"));
            String::from_utf8_lossy(&client.take_until(b"\n")).trim_end().to_string()
        };
        let before = all.each_ref().map(Echo::asked);
        assert_eq!((ask("one"), ask("where"), ask("number")), ("one".into(), format!("127.0.0.1:{c}"), "2".into()));
        for (list, number) in [(&[c, a, b][..], "0"), (&[a, c], "1"), (&[c], "0")] {
            service.list(list);
            eventually("the core has the list", || ask("number") == number);
            assert_eq!((ask("one"), ask("where")), ("one".into(), format!("127.0.0.1:{c}")));
        }
        assert_eq!(all.each_ref().map(Echo::asked), [before[0], before[1], before[2] + 4]);
        service.list(&[b, a]);
        eventually("the core has the list", || ask("number") == "gone");
        assert_eq!((ask("one"), ask("where"), ask("number")), ("one".into(), format!("127.0.0.1:{a}"), "1".into()));
    }
}

#[test]
fn datagrams_go_to_the_new_list() {
    if plain() {
        return;
    }
    let one = Resolver::new(|_, q| vec![answer(q, 60, [192, 0, 2, 1])]);
    let two = Resolver::new(|_, q| vec![answer(q, 60, [192, 0, 2, 2])]);
    let list = |at: &Resolver| format!("[set]\nresolvers = [\"{}\"]\n", at.addr);
    let folder = Folder::new("server-lists-udp");
    std::fs::write(folder.file("a.toml"), list(&one)).expect("the folder is writable");
    let toml = folder.name_of("a.toml");
    let process = Wireloom::run("dns_forwarder", &["--config", &toml, "--interpret"]);
    let client = socket();
    let (q, mut second) = (question(7, "a.example"), 0);
    assert_eq!(ask(&client, process.port, &q), Some(answer(&q, 60, [192, 0, 2, 1])));
    std::fs::write(folder.file("a.toml"), list(&two)).expect("the folder is writable");
    process.signal(libc::SIGHUP);
    eventually("it is read", || process.output().contains("resolvers has its new value"));
    for _ in 0..5 {
        second += u32::from(ask(&client, process.port, &q) == Some(answer(&q, 60, [192, 0, 2, 2])));
    }
    assert_eq!(second, 5);
}

/// A bad list is refused with its place, and the old one stays.
#[test]
fn a_bad_list_is_refused() {
    if plain() {
        return;
    }
    let echo = Echo::new();
    let service = Service::new("server-lists-bad", REQUESTS, &[echo.port], &[]);
    let mut client = Client::connect(service.process.port);
    client.send("r1\n").expect("r1\n");
    for (text, says) in [
        ("[set]\nservers = [\"127.0.0.1\"]\n", "a.toml:2:1: parameter `servers`: `127.0.0.1` has no port"),
        ("[set]\nservers = []\n", "a.toml:2:1: parameter `servers`: expected host:port"),
        ("[set]\nservers = [\"127.0.0.1:x\"]\n", "a.toml:2:1: parameter `servers`: `127.0.0.1:x`"),
    ] {
        service.read(text, says);
        client.send("r2\n").expect("r2\n");
    }
    assert!(service.process.output().contains("the settings stay as they were"));
}

/// Gives a process files of its own for the system's resolver: hosts, and no other source.
fn own_names(command: &mut std::process::Command, folder: &Folder) {
    use std::os::unix::process::CommandExt;
    std::fs::write(folder.file("nsswitch"), "hosts: files\n").expect("the folder is writable");
    let path = |name: &str| CString::new(folder.file(name).into_os_string().into_encoded_bytes()).expect("a path");
    let over = [(path("hosts"), c"/etc/hosts"), (path("nsswitch"), c"/etc/nsswitch.conf")];
    let mount = |from: *const libc::c_char, to: &CStr, flags| {
        // SAFETY: texts that live here, and no data.
        match unsafe { libc::mount(from, to.as_ptr(), std::ptr::null(), flags, std::ptr::null()) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    let own = move || {
        // SAFETY: a plain system call.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        mount(std::ptr::null(), c"/", libc::MS_REC | libc::MS_PRIVATE)?;
        over.iter().try_for_each(|(from, to)| mount(from.as_ptr(), to, libc::MS_BIND))
    };
    // SAFETY: system calls only.
    unsafe { command.pre_exec(own) };
}

/// Whether processes can have names of their own: with the right to mount files.
fn names_can_change() -> bool {
    let mut none = std::process::Command::new("true");
    let folder = Folder::new("server-names-none");
    std::fs::write(folder.file("hosts"), "").expect("the folder is writable");
    own_names(&mut none, &folder);
    !plain() && none.status().is_ok()
}

/// Two servers at one port of two addresses, and a name that stands for one of them.
struct Named {
    one: Echo,
    two: Echo,
    name: String,
}

impl Named {
    fn new() -> Named {
        let one = Echo::new();
        let two = Echo::on(TcpListener::bind(("127.0.0.2", one.port)).expect("the port is free there"));
        let name = format!("echo.test:{}", one.port);
        Named { one, two, name }
    }

    /// How many requests each has got of one.
    fn ask(&self, client: &mut Client) -> (u64, u64) {
        let asked = || (self.one.asked(), self.two.asked());
        let before = asked();
        client.send("r\n").expect("r\n");
        (asked().0 - before.0, asked().1 - before.1)
    }
}

/// Every second the names are resolved again. The configuration is not read for it, and a resolver
/// without an answer changes nothing.
#[test]
fn names_of_servers_are_looked_up_by_themselves() {
    if !names_can_change() {
        return;
    }
    let named = Named::new();
    let name = &named.name;
    let folder = Folder::new("server-names-looks");
    let write = |name: &str, text: &str| std::fs::write(folder.file(name), text).expect("the folder is writable");
    write("a.loom", REQUESTS);
    write("hosts", "127.0.0.1 echo.test\n");
    write("a.toml", &format!("resolve = 1\n[set]\nservers = [\"{name}\"]\n"));
    let args = ["--config", &folder.name_of("a.toml")];
    let process = Wireloom::run_file(&folder.name_of("a.loom"), &args, |c| own_names(quickly_compiled(c), &folder));
    // Half of a change that is written at the moment.
    write("a.toml", "[set]\nservers = [\n");
    let says = |what: String| eventually(&what, || process.output().contains(&what));
    let mut client = Client::connect(process.port);
    let mut ask = || named.ask(&mut client);
    assert_eq!(ask(), (1, 0));
    write("hosts", "127.0.0.2 echo.test\n");
    says(format!("balance: `{name}` is now 127.0.0.2 and was 127.0.0.1"));
    assert_eq!(ask(), (0, 1));
    write("hosts", "127.0.0.1 other.test\n");
    says(format!("`{name}` keeps its address 127.0.0.2: cannot resolve `echo.test`"));
    assert_eq!(ask(), (0, 1));
    write("hosts", "127.0.0.2 echo.test\n");
    says(format!("`{name}` can be resolved again"));
    write("hosts", "127.0.0.1 echo.test\n");
    says(format!("`{name}` is now 127.0.0.1 and was 127.0.0.2"));
    assert_eq!(ask(), (1, 0));
    let output = process.output();
    assert_eq!(output.matches(" is now ").count(), 2, "{output}");
    assert!(!output.contains("stay as they were"), "{output}");
}

/// At SIGHUP the names of servers are resolved again, with a file and without one.
#[test]
fn names_of_servers_are_resolved_again() {
    if !names_can_change() {
        return;
    }
    let named = Named::new();
    let name = &named.name;
    for has_file in [false, true] {
        let folder = Folder::new("server-names");
        let write = |name: &str, text: &str| std::fs::write(folder.file(name), text).expect("the folder is writable");
        write("a.loom", REQUESTS);
        write("hosts", "127.0.0.1 echo.test\n");
        write("a.toml", &format!("[set]\nservers = [\"{name}\"]\n"));
        let set = ["--set".to_string(), format!("servers={name}")];
        let file = ["--config".to_string(), folder.name_of("a.toml")];
        let args = if has_file { &file } else { &set };
        let process = Wireloom::run_file(&folder.name_of("a.loom"), &args.each_ref().map(String::as_str), |c| {
            own_names(quickly_compiled(c), &folder);
        });
        let reload = |says: &str| {
            process.signal(libc::SIGHUP);
            eventually(says, || process.output().contains(says));
        };
        let mut client = Client::connect(process.port);
        let mut ask = || named.ask(&mut client);
        assert_eq!(ask(), (1, 0));
        reload("again: nothing has changed");
        assert_eq!(ask(), (1, 0));
        write("hosts", "127.0.0.2 echo.test\n");
        reload(&format!("balance: `{name}` is now 127.0.0.2 and was 127.0.0.1"));
        assert!(process.output().contains(&format!("one server; new: {name} (127.0.0.2); gone: {name} (127.0.0.1)")));
        assert_eq!(ask(), (0, 1));
        // A name that has no address any more changes nothing.
        write("hosts", "127.0.0.1 other.test\n");
        reload(&format!("balance: `{name}` keeps its address 127.0.0.2: cannot resolve `echo.test`"));
        assert_eq!(ask(), (0, 1));
    }
}

/// Answers which server owns a key on the ring of a function that sees a parameter.
const RINGS: &str = r#"
unit Line { text: bytes<64> until "\n" }
protocol lines {
    request  Line
    response Line
    stateless
}

app rings {
    param port:    u16
    param servers: list<endpoint, 16>
    param seed:    u32 = 5

    port client   = listen tcp(port)     as lines
    port backends = connect tcp(servers) as lines

    fn point(name: bytes<512>) -> u32 = fnv1a32(name) ^ seed

    on client(m) { reply Line { text: text(u8(consistent(backends, m.text, point))) } }
}
"#;

/// The server with the first point at or after the key, around a ring of 100 points for each.
fn owner(servers: &[u16], key: &str) -> usize {
    let hash = |b: &str| b.bytes().fold(2_166_136_261u32, |h, b| (h ^ u32::from(b)).wrapping_mul(16_777_619)) ^ 5;
    let points =
        |(i, port): (usize, &u16)| (0..100).map(|n| (hash(&format!("127.0.0.1:{port}-{n}")), i)).collect::<Vec<_>>();
    let mut ring: Vec<(u32, usize)> = servers.iter().enumerate().flat_map(points).collect();
    ring.sort_unstable();
    ring.iter().find(|p| p.0 >= hash(key)).unwrap_or(&ring[0]).1
}

#[test]
fn rings_of_a_function_follow_the_list() {
    for how in [&[][..], &["--interpret"]] {
        let first = [7001, 7002, 7003];
        let service = Service::new("rings", RINGS, &first, how);
        let ask = |servers: &[u16]| {
            let mut client = Client::connect(service.process.port);
            for n in 0..300 {
                let key = format!("key {n}");
                client.send(format!("{key}\n")).expect(format!("{}\n", owner(servers, &key)));
            }
        };
        ask(&first);
        let second = [7003, 7004, 7001, 7005];
        service.list(&second);
        ask(&second);
    }
}
