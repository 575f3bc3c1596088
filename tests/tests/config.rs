//! A configuration file: options and parameters, checked with their places in it. SIGHUP has it
//! read again: running services take what may change, and say what may not.

use std::time::Duration;
use wireloom_tests::folder::Folder;
use wireloom_tests::{admin, finish, free_port, plain, quickly_compiled, Client, Process, Wireloom};

/// Answers each line with a word, and with a number that its core has kept since the start.
const PROGRAM: &str = r#"
unit Line { text: bytes<64> until "\n" }
unit Answer { text: bytes<64> until "\n" }
protocol lines {
    request  Line
    response Answer
    stateless
}

app words {
    param port:  u16
    param word:  bytes<16> = "one"
    param first: u32 = 1

    state kept: u32 = 0
    port client = listen tcp(port) as lines

    on start { kept = first }

    on client(line) {
        reply Answer { text: concat(line.text, concat(word, text(kept))) }
    }
}
"#;

/// A service with a file that it reads.
struct Service {
    folder: Folder,
    process: Process,
}

impl Service {
    fn new(config: &str, args: &[&str]) -> Service {
        let folder = Folder::new("config");
        std::fs::write(folder.file("words.loom"), PROGRAM).unwrap();
        std::fs::write(folder.file("words.toml"), config).unwrap();
        let (program, file) = (folder.name_of("words.loom"), folder.name_of("words.toml"));
        let args = [&["--config", file.as_str()], args].concat();
        let process = Wireloom::run_file(&program, &args, |c| {
            quickly_compiled(c);
        });
        Service { folder, process }
    }

    /// Changes the file, and waits until the service has said so.
    fn reload(&self, config: &str, says: &str) {
        let said = || self.process.output().matches(says).count();
        let before = said();
        std::fs::write(self.folder.file("words.toml"), config).unwrap();
        self.process.signal(libc::SIGHUP);
        admin::eventually(says, || said() > before);
    }

    fn client(&self) -> Client {
        Client::connect(self.process.port)
    }
}

fn ask(client: &mut Client, answer: &str) {
    client.send("x").send("\n").expect(format!("x{answer}\n"));
}

#[test]
fn a_service_takes_what_may_change_and_says_what_may_not() {
    if plain() {
        return;
    }
    let mut service = Service::new("[set]\nword = \"two\"\nfirst = 7\n", &[]);
    let mut client = service.client();
    ask(&mut client, "two7");
    service.reload("drain = 3\n[set]\nword = \"three\"\nfirst = 8\n", "words.first keeps its value");
    let said = service.process.output();
    assert!(said.contains("words.word has its new value") && said.contains("--drain keeps its value"), "{said}");
    ask(&mut client, "three7");
    ask(&mut service.client(), "three7");
    // One without a value has the program's own again.
    service.reload("[set]\nfirst = 7\n", "words.word has its new value");
    ask(&mut client, "one7");
    service.reload("[set]\nfirst = 7\n", "nothing has changed");
    service.process.signal(15);
    assert_eq!(service.process.exit(), Some(0));
    let said = service.process.output();
    let running: Vec<&str> = said.lines().skip_while(|l| !l.contains("wireloom: ready ")).skip(1).collect();
    let in_form =
        |l: &&&str| l.starts_with("[20") && (l.contains("Z INFO  wireloom] ") || l.contains("Z WARN  wireloom] "));
    assert_eq!(running.iter().filter(in_form).count(), running.len(), "{said}");
    assert!(said.contains("INFO  wireloom] words.word has its new value"), "{said}");
    assert!(said.contains("WARN  wireloom] words.first keeps its value"), "{said}");
}

/// A file with an error changes nothing, and the next one is taken.
#[test]
fn an_error_changes_nothing() {
    if plain() {
        return;
    }
    let service = Service::new("[set]\nword = \"two\"\n", &[]);
    let mut client = service.client();
    let cases = [
        ("[set]\nword = \"three\"\nfirst = \"many\"\n", "words.toml:3:1: parameter `first`"),
        ("[set]\nword = \"three\"\nwrod = 1\n", "did you mean `word`?"),
        ("[set]\nword = \"a word that is too long\"\n", "words.toml:2:1: parameter `word`"),
        ("[set\n", "words.toml:1:"),
        ("drain = \"soon\"\n[set]\nword = \"three\"\n", "words.toml:1:9: "),
        ("admin = \"nowhere\"\n[set]\nword = \"three\"\n", "words.toml:1:9: `nowhere` is no address"),
        ("cores = 777\n[set]\nword = \"three\"\n", "words.toml:1:9: `--cores 777`: there is no CPU 777"),
    ];
    for (config, says) in cases {
        service.reload(config, says);
        ask(&mut client, "two1");
    }
    std::fs::remove_file(service.folder.file("words.toml")).unwrap();
    service.process.signal(libc::SIGHUP);
    admin::eventually("no file", || service.process.output().contains("No such file"));
    ask(&mut client, "two1");
    service.reload("[set]\nword = \"four\"\n", "words.word has its new value");
    ask(&mut client, "four1");
}

#[test]
fn the_command_line_goes_before_the_file() {
    if plain() {
        return;
    }
    let service = Service::new("[set]\nword = \"file\"\nfirst = 2\nport = 1\n", &["--set", "word=line"]);
    let mut client = service.client();
    ask(&mut client, "line2");
    service
        .reload("[set]\nword = \"again\"\nfirst = 2\nclient.idle_timeout = \"9s\"\n", "words.client.idle_timeout has");
    ask(&mut client, "line2");
    assert!(service.process.output().contains("words.word keeps the value of the command line"));
}

/// An option of the command line does not wait for the next start, which has the same command line.
#[test]
fn a_change_of_what_the_command_line_gives_is_told() {
    if plain() {
        return;
    }
    let service = Service::new("drain = 3\nbatch-wait = 9\n", &["--drain", "4", "--set", "words.word=line"]);
    service
        .reload("drain = 5\nbatch-wait = 8\n[set]\nword = \"a\"\n", "words.word keeps the value of the command line");
    let said = service.process.output();
    assert!(said.contains("--drain keeps the value of the command line"), "{said}");
    assert!(said.contains("--batch-wait keeps its value until the next start"), "{said}");
    service.reload("drain = 3\nbatch-wait = 9\n[set]\nword = \"a\"\n", "nothing has changed");
    ask(&mut service.client(), "line1");
}

/// Places of a port: more are given at once, fewer as clients leave.
#[test]
fn limits_of_ports_change_under_clients() {
    if plain() {
        return;
    }
    let limit = |n: u32| format!("[set.client]\nmax_connections = {n}\naccept_timeout = \"60s\"\n");
    let mut service = Service::new(&limit(2), &[]);
    let (mut a, mut b) = (service.client(), service.client());
    ask(&mut a, "one1");
    ask(&mut b, "one1");
    let (mut c, mut d) = (service.client(), service.client());
    c.send("x\n").expect_silence(Duration::from_millis(300));
    service.reload(&limit(3), "max_connections has its new value");
    c.expect("xone1\n");
    d.send("x\n").expect_silence(Duration::from_millis(300));
    // Three are in; of a limit of one, only the last to leave makes room.
    service.reload(&limit(1), "max_connections has its new value");
    drop(a);
    d.expect_silence(Duration::from_millis(300));
    drop(b);
    d.expect_silence(Duration::from_millis(300));
    drop(c);
    d.expect("xone1\n");
    // A shorter patience holds for connections from their next bytes on.
    service.reload("[set.client]\nidle_timeout = \"100ms\"\n", "client.idle_timeout has its new value");
    ask(&mut d, "one1");
    d.expect_closed();
    service.process.signal(15);
    assert_eq!(service.process.exit(), Some(0));
}

/// Errors show their place in the file, before anything is opened.
#[test]
fn errors_show_their_places() {
    let cases = [
        ("prot = 1\n", "b.toml:1:1: there is no option `prot`"),
        ("drian = 1\n", "did you mean `drain`?"),
        ("cores = \"0\"\ndrain = -1\n", "b.toml:2:9: invalid value '-1' for '--drain <SECONDS>'"),
        ("rps = \"often\"\n", "[possible values: auto, on, off]"),
        ("pace = 3\n", "b.toml:1:8: expected true or false"),
        ("set = 3\n", "b.toml:1:7: expected a table of parameters: `[set]`"),
        ("bind = \"wire=pcap:x\"\n", "expected a table: `[bind]`"),
        ("config = \"other.toml\"\n", "there is no option `config`"),
        ("admin = 1979-05-27\n", "b.toml:1:9: no option is a date"),
        ("[set]\nport = 70000\n", "b.toml:2:1: parameter `port`: must be at most 65535"),
        ("[set]\nservers = [\"127.0.0.1:1\", \"nonsense\"]\n", "b.toml:2:1: parameter `servers`"),
        ("[set]\nservers = [\"127.0.0.1:1,127.0.0.1:2\"]\n", "b.toml:2:12: an item of a list has no comma"),
        (
            "[set.clinet]\nidle = \"1s\"\n",
            "b.toml:2:1: app `http_balancer` has no port `clinet`; did you mean `client`?",
        ),
        ("[set]\nport = 1\nport = 2\n", "b.toml:3:1: duplicate key"),
        ("access-log = \"a\"\naccess_log = \"b\"\n", "b.toml:2:1: the option `access-log` is said twice"),
        ("access_log = \"a\"\naccess-log = \"b\"\n", "b.toml:2:1: the option `access-log` is said twice"),
    ];
    let folder = Folder::new("config-errors");
    for (config, says) in cases {
        std::fs::write(folder.file("b.toml"), config).unwrap();
        let out = Wireloom::command(&["run", "apps/http_balancer.loom", "--config", &folder.name_of("b.toml")]);
        assert!(out.code == Some(1) && out.text.contains(says), "{config}: {}", out.text);
    }
}

/// So do errors that only the start finds. On the command line they name the option.
#[test]
fn errors_of_the_start_show_their_places() {
    let (folder, port) = (Folder::new("config-start"), free_port());
    let busy = std::net::TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let busy = busy.local_addr().unwrap().port();
    std::fs::write(folder.file("words.loom"), PROGRAM).unwrap();
    let (words, flows) = (folder.name_of("words.loom"), "apps/flow_tracker.loom".to_string());
    let set = format!("[set]\nport = {port}\n");
    let cases = [
        (&words, format!("cores = \"0\"\nnic-cores = [777]\n{set}"), "b.toml:2:13: `--nic-cores 777`"),
        (&words, format!("cores = [0, 777]\n{set}"), "b.toml:1:9: `--cores 0,777`: there is no CPU 777"),
        (&words, format!("admin = true\n{set}"), "b.toml:1:9: `admin` is no switch"),
        (&words, format!("admin = \"nowhere\"\n{set}"), "b.toml:1:9: `nowhere` is no address"),
        (&words, format!("admin = {busy}\n{set}"), "b.toml:1:9: cannot listen on 127.0.0.1"),
        (&words, format!("access-log = \"/nowhere/x\"\n{set}"), "b.toml:1:14: cannot open the access log"),
        (&words, format!("control = \"/nowhere/x\"\n{set}"), "b.toml:1:11: cannot open the control socket"),
        (&words, format!("link = {{ batch = 0 }}\n{set}"), "b.toml:1:18: `--link batch=0`: `batch` is 1 to 4096"),
        (&words, format!("load = {{ t = \"x\" }}\n{set}"), "b.toml:1:14: `--bind`, `--out`, `--load` and `--dump` are"),
        (&words, "[set]\nport = 0\n".into(), "b.toml:2:1: words.client: port 0 is no port to listen on"),
        (&words, format!("[set]\nport = {busy}\n"), "b.toml:2:1: words.client: cannot listen on"),
        (&words, format!("[set]\nwords.port = {busy}\n"), "b.toml:2:7: words.client: cannot listen on"),
        (&flows, "[bind]\nwire = \"foo:x\"\n".into(), "b.toml:2:8: `--bind wire=foo:x`: `foo:x` names no engine"),
        (&flows, "[bind]\nwrie = \"null\"\n".into(), "b.toml:2:8: `--bind wrie=null`: app `flow_tracker` has no"),
        (&flows, "[bind]\nwire = \"pcap:/nowhere/x\"\n".into(), "b.toml:2:8: port `wire`: cannot open /nowhere/x"),
        (&flows, "[bind]\nwire = \"null\"\n[dump]\nflows = \"/nowhere/x\"\n".into(), "b.toml:4:9: cannot write"),
        (&flows, "[bind]\nwire = \"null\"\n[load]\nflosw = \"x\"\n".into(), "b.toml:4:9: app `flow_tracker` has no"),
    ];
    for (app, config, says) in cases {
        std::fs::write(folder.file("b.toml"), &config).unwrap();
        let out = Wireloom::command(&["run", app, "--interpret", "--config", &folder.name_of("b.toml")]);
        assert!(out.code == Some(1) && out.text.contains(says), "{config}: {}", out.text);
        assert!(out.text.contains("^"), "{config}: {}", out.text);
    }
    let lines: [(&[&str], &str); 4] = [
        (&["--admin=nowhere"], "wireloom: `--admin`: `nowhere` is no address"),
        (&["--nic-cores=777"], "wireloom: `--nic-cores 777`: there is no CPU"),
        (&["--set=port=0"], "wireloom: `--set port=0`: words.client: port 0 is no port"),
        (&["--access-log=/nowhere/x"], "wireloom: `--access-log`: cannot open"),
    ];
    std::fs::write(folder.file("b.toml"), format!("admin = 1\ncores = \"0\"\n{set}")).unwrap();
    for (line, says) in lines {
        let config = folder.name_of("b.toml");
        let args = [&["run", &words, "--interpret", "--config", &config], line].concat();
        let out = Wireloom::command(&args);
        assert!(out.code == Some(1) && out.text.contains(says), "{line:?}: {}", out.text);
    }
}

/// The rates of a meter that are parameters are compared at the start, wherever they come from.
#[test]
fn rates_of_meters_are_compared() {
    let folder = Folder::new("config-meter");
    let program = "app m {
    param pir: u64 = 20
    param cir: u64 = 10
    port wire = memory(\"w\")
    meter marks { cir cir, cbs 2, pir pir, pbs 4 }
    on wire(p) { if marks.mark(1) == red { drop p } else { p -> wire } }
}
";
    std::fs::write(folder.file("m.loom"), program).unwrap();
    std::fs::write(folder.file("m.toml"), "[set]\ncir = 30\n").unwrap();
    let (program, config) = (folder.name_of("m.loom"), folder.name_of("m.toml"));
    let run =
        |args: &[&str]| Wireloom::command(&[&["run", &program, "--interpret", "--bind", "wire=null"], args].concat());
    let says = |pir: u32, cir: u32| {
        format!("meter `marks`: its peak rate `pir` is {pir}, below its committed rate `cir` of {cir}")
    };
    let cases: [(&[&str], String); 4] = [
        (&["--set", "pir=9"], format!("`--set pir=9`: {}", says(9, 10))),
        (&["--set", "cir=21"], format!("`--set cir=21`: {}", says(20, 21))),
        (&["--config", &config], format!("m.toml:2:1: {}", says(20, 30))),
        (&["--config", &config, "--set", "pir=29"], format!("`--set pir=29`: {}", says(29, 30))),
    ];
    for (args, says) in cases {
        let out = run(args);
        assert!(out.code == Some(1) && out.text.contains(&says), "{args:?}: {}", out.text);
    }
    assert_eq!(run(&["--set", "pir=10"]).code, Some(0));
    assert_eq!(run(&["--config", &config, "--set", "pir=30"]).code, Some(0));
}

/// A list is for options and parameters that have several values.
#[test]
fn lists_are_for_lists() {
    let folder = Folder::new("config-lists");
    std::fs::write(folder.file("words.loom"), PROGRAM).unwrap();
    let cases = [
        ("drain = [3]\n", "b.toml:1:9: `drain` has one value, not a list"),
        ("access-log = [\"a\", \"b\"]\n", "b.toml:1:14: `access-log` has one value, not a list"),
        ("admin-host = [[\"a\", \"b\"]]\n", "b.toml:1:15: `admin-host` has one value, not a list"),
        ("[dump]\nflows = [\"a\", \"b\"]\n", "b.toml:2:9: `dump.flows` has one value, not a list"),
        ("[link]\nbatch = [1]\n", "b.toml:2:9: `link.batch` has one value, not a list"),
        ("[set]\nport = [8080]\n", "b.toml:2:1: `port` has one value, not a list"),
        ("[set]\nword = [\"a\", \"b\"]\n", "b.toml:2:1: `word` has one value, not a list"),
        ("[set]\nclient.slice = [\"1ms\"]\n", "b.toml:2:8: `client.slice` has one value, not a list"),
    ];
    for (config, says) in cases {
        std::fs::write(folder.file("b.toml"), config).unwrap();
        let (words, config_name) = (folder.name_of("words.loom"), folder.name_of("b.toml"));
        let out = Wireloom::command(&["run", &words, "--interpret", "--config", &config_name]);
        assert!(out.code == Some(1) && out.text.contains(says), "{config}: {}", out.text);
    }
    // Of a list that is in the wrong place no item is looked at.
    let text = "use std.http\napp a {\n    param server: endpoint\n    port c = listen tcp(1) as http\n    \
                port s = connect tcp(server) as http\n    on c(req) { reply call s(req) }\n}\n";
    std::fs::write(folder.file("one.loom"), text).unwrap();
    std::fs::write(folder.file("b.toml"), "[set]\nserver = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n").unwrap();
    let (one, config) = (folder.name_of("one.loom"), folder.name_of("b.toml"));
    let out = Wireloom::command(&["run", &one, "--interpret", "--config", &config]);
    assert!(out.text.contains("b.toml:2:1: `server` has one value, not a list"), "{}", out.text);
    // Those of a port's targets, and of CPUs, are lists.
    std::fs::write(folder.file("b.toml"), "cores = [0]\n[bind]\nwire = [\"pcap:/nowhere/a\", \"pcap:/nowhere/b\"]\n")
        .unwrap();
    let out =
        Wireloom::command(&["run", "apps/flow_tracker.loom", "--interpret", "--config", &folder.name_of("b.toml")]);
    assert!(out.text.contains("b.toml:3:8: port `wire[0]`: cannot open /nowhere/a"), "{}", out.text);
}

/// An executable made by `build` has no `run` in front of its options.
#[test]
fn a_built_program_reads_it_too() {
    if plain() {
        return;
    }
    let (folder, port) = (Folder::new("config-built"), free_port());
    std::fs::write(folder.file("words.loom"), PROGRAM).unwrap();
    std::fs::write(folder.file("words.toml"), format!("[set]\nport = {port}\nword = \"built\"\n")).unwrap();
    let (program, built) = (folder.name_of("words.loom"), folder.name_of("words"));
    let out = Wireloom::command_with(&["build", &program, "-o", &built], |c| {
        quickly_compiled(c);
    });
    assert_eq!(out.code, Some(0), "{}", out.text);
    let help = finish(std::process::Command::new(&built).arg("--help")).text;
    for line in
        ["  port  u16, required", "  word  bytes<16>, default \"one\"", "  client accept_timeout=1s, cancel=false"]
    {
        assert!(help.contains(line), "{help}");
    }
    // `run` shows the same.
    let of_run = Wireloom::command(&["run", &program, "--help"]).out;
    let settings = |help: &str| help.split_once("Parameters (").map(|h| h.1.trim_end().to_string());
    assert_eq!(settings(&of_run), settings(&help));
    let mut command = std::process::Command::new(&built);
    command.args(["--config", &folder.name_of("words.toml")]);
    let process = Process::start_ours("words", &mut command, port);
    ask(&mut Client::connect(process.port), "built1");
    let refused = finish(std::process::Command::new(&built).args(["--config", "/nowhere.toml"]));
    assert!(refused.code == Some(1) && refused.text.contains("/nowhere.toml"), "{}", refused.text);
}
