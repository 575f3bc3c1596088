//! The command line: refusals and their messages, help, building, running several apps, and running
//! without a C compiler.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wireloom_tests::folder::Folder;
use wireloom_tests::{finish, free_port, fully_compiled, root, Client, Output, Process, Wireloom};

fn loom_files(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).expect("the folder is there");
    let mut files: Vec<String> = entries
        .flatten()
        .map(|e| format!("{folder}/{}", e.file_name().to_string_lossy()))
        .filter(|n| n.ends_with(".loom"))
        .collect();
    files.sort();
    files
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("wireloom-test-cli-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
    folder
}

/// Ends with an error that names all of these, without a panic.
fn refused(out: &Output, names: &[&str]) {
    assert!(out.code.is_some_and(|c| c != 0), "it succeeded or hung ({:?}): {}", out.code, out.text);
    assert!(!out.text.contains("panicked"), "{}", out.text);
    for name in names {
        assert!(out.text.contains(name), "the message does not name {name}: {}", out.text);
    }
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// `explain --set` shows the app as `run` would run it, and refuses what `run` refuses.
#[test]
fn explain_takes_settings() {
    let explain = |args: &[&str]| Wireloom::command(&[&["explain", "apps/http_balancer.loom"], args].concat());
    let two = ["--set", "servers=127.0.0.1:1,127.0.0.1:2", "--set", "client.max_connections=7", "--set", "port=99"];
    let told = explain(&two).out;
    for says in [
        "port        endpoint or u16, set to 0.0.0.0:99",
        "policy      bytes<16>, default \"hash\"",
        "listen tcp(port = 0.0.0.0:99)",
        "at most 7 connections",
        "; 2 backends: ",
    ] {
        assert!(told.contains(says), "{says}: {told}");
    }
    assert!(explain(&[]).out.contains("; 64 backends: "));
    assert!(explain(&["--set", "servers=127.0.0.1:1"]).out.contains("; one backend: "));
    assert!(explain(&["--set", "backend.eject_after=0"]).out.contains("; never ejected"));
    for wrong in ["nonsense=1", "port=70000", "client.idle=5", "cliend.idle=5s", "servers=foo", "policy"] {
        let explained = explain(&["--set", wrong]);
        let ran = Wireloom::command(&["run", "apps/http_balancer.loom", "--set", wrong]);
        assert_eq!((explained.code, explained.text), (Some(1), ran.text), "{wrong}");
    }
    refused(&Wireloom::command(&["explain", "apps/flow_tracker.loom", "--bind", "wrie=null"]), &["no port `wrie`"]);
    let files = ["explain", "apps/flow_tracker.loom", "apps/dns_tap.loom", "--set", "flow_tracker.idle=20s"];
    assert!(Wireloom::command(&files).out.contains("idle      duration, set to 20s"));
    refused(&Wireloom::command(&["emit", "c", "apps/flow_tracker.loom", "--set", "idle=1s"]), &["`--set` is for"]);
}

/// The first 50 diagnostics are shown, and how many more there are.
#[test]
fn diagnostics_have_an_end() {
    let folder = Folder::new("many_diagnostics");
    let show = |errors: usize, extra: &[&str]| {
        let text: String = (0..errors).map(|n| format!("const c{n}: u8 = missing\n")).collect();
        std::fs::write(folder.file("many.loom"), text).expect("written");
        let out = Wireloom::command(&[&["check", folder.name_of("many.loom").as_str()], extra].concat());
        assert_eq!(out.code, Some(1), "{}", out.text);
        (out.text.matches("error[").count(), out.text)
    };
    let (shown, text) = show(73, &[]);
    assert!(shown == 50 && text.contains("… and 23 more diagnostics (`wireloom check --max-errors 0`"), "{text}");
    assert!(text.contains("73 errors"), "{text}");
    let (shown, text) = show(51, &[]);
    assert!(shown == 50 && text.contains("… and 1 more diagnostic ("), "{text}");
    let (shown, text) = show(50, &[]);
    assert!(shown == 50 && !text.contains("… and"), "{text}");
    assert_eq!(show(73, &["--max-errors", "0"]).0, 73);
}

#[test]
fn help_teaches() {
    let help = Wireloom::command(&["--help"]);
    assert_eq!(help.code, Some(0));
    for command in ["run", "check", "build", "test", "fmt", "emit", "graph", "explain", "fuzz"] {
        assert!(help.out.contains(command), "{}", help.out);
        let own = Wireloom::command(&[command, "--help"]);
        assert!(
            own.code == Some(0)
                && own.out.contains("Usage:")
                && own.out.contains("Example")
                && own.out.contains(&format!("wireloom {command} ")),
            "{command}: {}",
            own.text
        );
    }
    assert!(Wireloom::command(&["run", "--help"]).out.contains("--set"));
    assert_eq!(Wireloom::command(&["--version"]).code, Some(0));
    refused(&Wireloom::command(&[]), &["Usage"]);
    refused(&Wireloom::command(&["nonsense"]), &["nonsense"]);
    refused(&Wireloom::command(&["run"]), &["FILE"]);
}

#[test]
fn wrong_parameters_are_named() {
    let web = |set: &str| Wireloom::command(&["run", "apps/static_web.loom", "--set", set]);
    refused(&web("prot=80"), &["prot", "did you mean `port`?"]);
    refused(&web("client.idel_timeout=1s"), &["did you mean `idle_timeout`?"]);
    refused(&web("clinet.idle_timeout=1s"), &["did you mean `client`?"]);
    refused(&web("port=x"), &["port", "x"]);
    refused(&web("port=70000"), &["port", "65535"]);
    refused(&web("port=-1"), &["port"]);
    refused(&web("port"), &["NAME=VALUE"]);
    refused(&web("client.nonsense=1"), &["nonsense"]);
    refused(&web("client.idle_timeout=soon"), &["idle_timeout", "duration"]);
    refused(&web("nobody.idle_timeout=1s"), &["nobody", "client"]);
    refused(&web(&format!("content_type={}", "x".repeat(200))), &["content_type", "128"]);
    let proxy = |args: &[&str]| Wireloom::command(&[&["run", "apps/memcached_proxy.loom"], args].concat());
    refused(&proxy(&[]), &["servers"]);
    refused(&proxy(&["--set", "servers="]), &["servers"]);
    refused(&proxy(&["--set", "servers=nonsense"]), &["servers", "`nonsense` has no port", "host:port"]);
    refused(&proxy(&["--set", "servers=127.0.0.1"]), &["servers", "`127.0.0.1` has no port"]);
    refused(&proxy(&["--set", "servers=127.0.0.1:1,8080"]), &["servers", "`8080` has no host"]);
    refused(&web("port=0"), &["port 0 is no port to listen on"]);
    refused(&proxy(&["--set", "servers=127.0.0.1:99999"]), &["servers", "`99999` is no port number"]);
    refused(&proxy(&["--set", "port=1", "--set", "port=2"]), &["`port` is set twice"]);
    refused(&Wireloom::command(&["run", "apps/static_web.loom", "--cores", "1000"]), &["no CPU 1000"]);
    refused(&Wireloom::command(&["run", "apps/static_web.loom", "--nonsense"]), &["--nonsense"]);
    refused(&Wireloom::command(&["run", "apps/static_web.loom", "--engine", "steam"]), &["steam"]);
    refused(&Wireloom::command(&["run", "apps/static_web.loom", "--admin", "nowhere"]), &["nowhere"]);
}

#[test]
fn what_is_not_there_is_named() {
    refused(&Wireloom::command(&["run", "apps/nothing.loom"]), &["nothing.loom"]);
    refused(&Wireloom::command(&["check", "nothing.loom"]), &["nothing.loom"]);
    refused(&Wireloom::command(&["fmt", "--check", "nothing.loom"]), &["nothing.loom"]);
    refused(&Wireloom::command(&["fuzz", "std.http.Nothing", "--seconds", "1"]), &["Nothing"]);
    refused(&Wireloom::command(&["fuzz", "std.http.Reqest", "--seconds", "1"]), &["did you mean `Request`?"]);
    refused(&Wireloom::command(&["fuzz", "std.htp.Request", "--seconds", "1"]), &["did you mean `std.http`?"]);
    refused(&Wireloom::command(&["run", "static_web"]), &["did you mean `apps/static_web.loom`?"]);
    let option = |o: &str| Wireloom::command(&["run", "apps/static_web.loom", o]);
    for (given, hint) in [("--port=8080", "`--set NAME=VALUE`"), ("--interface=eth0", "`--bind PORT=ENGINE:NAME`")] {
        let said = option(given);
        assert!(said.code == Some(2) && said.text.contains(hint), "{}", said.text);
    }
    refused(&Wireloom::command(&["run", "apps/static_wbe.loom"]), &["did you mean `apps/static_web.loom`?"]);
    refused(&Wireloom::command(&["run", "std/http.loom"]), &["no app to run"]);
    refused(&Wireloom::command(&["build", "std/http.loom"]), &["no app to build"]);
    refused(&Wireloom::command(&["graph", "std/http.loom"]), &["no app to draw"]);
    refused(&Wireloom::command(&["explain", "std/http.loom"]), &["std/http.loom has no app to explain"]);
    refused(&Wireloom::command(&["emit", "bpf", "std/http.loom"]), &["there is no app"]);
    // Before the parameters that it would need.
    let balancer = Wireloom::command(&["emit", "bpf", "apps/http_balancer.loom"]);
    refused(&balancer, &["app `http_balancer` has no handler of packets"]);
    refused(
        &Wireloom::command(&["test", "std/http.loom", "--filter", "no such test"]),
        &["no test has `no such test`"],
    );
    refused(&Wireloom::command(&["explain", "E9999"]), &["E9999"]);
    assert!(Wireloom::command(&["explain", "e0601"]).out.starts_with("E0601"));
    refused(&Wireloom::command(&["build", "apps/static_web.loom", "-o", "/nowhere/at/all"]), &["/nowhere/at/all"]);
}

#[test]
fn a_port_in_use_is_named() {
    let listener = std::net::TcpListener::bind(("0.0.0.0", 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let out = Wireloom::command(&["run", "apps/static_web.loom", "--set", &format!("port={port}")]);
    refused(&out, &[&port.to_string(), "in use"]);
    let out = Wireloom::command(&[
        "run",
        "apps/static_web.loom",
        "--set",
        &format!("port={}", free_port()),
        "--admin",
        &format!("127.0.0.1:{port}"),
    ]);
    refused(&out, &[&port.to_string()]);
}

#[test]
fn errors_in_a_source_are_shown_with_their_place() {
    let folder = scratch("errors");
    let file = folder.join("bad.loom");
    std::fs::write(&file, "app bad {\n    param port: u16 = 80\n    port client = listen tcp(port) as nonsense\n    on client(req) { reply req }\n}\n")
        .expect("the folder is writable");
    let name = file.to_str().expect("a plain name");
    for command in ["check", "run", "build", "test"] {
        let out = Wireloom::command(&[command, name]);
        refused(&out, &["bad.loom", "nonsense", "E0"]);
    }
    let json = Wireloom::command(&["check", "--json", name]);
    refused(&json, &[]);
    for line in json.out.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("a diagnostic is JSON");
    }
    std::fs::write(&file, "app { } } unit \u{0} \"").expect("the folder is writable");
    refused(&Wireloom::command(&["check", name]), &["bad.loom"]);
    refused(&Wireloom::command(&["fmt", name]), &["bad.loom"]);
    std::fs::write(&file, [0xff, 0xfe, 0]).expect("the folder is writable");
    refused(&Wireloom::command(&["check", name]), &["bad.loom"]);
    std::fs::remove_dir_all(folder).ok();
}

const PAIR: &str = "
unit Line { text: text<20> until \"\\n\" }

protocol lines {
    stateless
    request  Line
    response Line
}

fn one() -> u32 = 1

app upper_case {
    param port: u16 = 7000
    port client = listen tcp(port) as lines
    on client(req) { reply Line { text: upper(req.text) } }
}

app twice {
    param port: u16 = 7001
    port client = listen tcp(port) as lines
    on client(req) { reply [Line { text: req.text }, Line { text: req.text }] }
}

test \"one\" { expect one() == 1 }
test \"upper\" of upper_case { client <- \"a\\n\"
    client -> \"A\\n\" }
test \"twice\" of twice { client <- \"a\\n\"
    client -> \"a\\na\\n\" }
";

/// All apps of a file are checked, tested and run; `FILE:APP` is one of them.
#[test]
fn several_apps_in_a_file() {
    let folder = scratch("pair");
    let file = folder.join("pair.loom");
    let name = file.to_str().expect("a plain name");
    let one = format!("{name}:twice");
    std::fs::write(&file, PAIR.replace("reply [Line { text: req.text }, Line { text: req.text }]", "reply nonsense"))
        .expect("the folder is writable");
    refused(&Wireloom::command(&["check", name]), &["nonsense", "1 error,"]);
    std::fs::write(&file, PAIR).expect("the folder is writable");
    let check = Wireloom::command(&["check", name]);
    assert!(check.code == Some(0) && check.text.contains("0 errors, 0 warnings"), "{}", check.text);
    let test = Wireloom::command(&["test", name]);
    assert!(test.code == Some(0) && test.out.contains("3 passed"), "{}", test.text);
    let test = Wireloom::command(&["test", &one]);
    assert!(test.code == Some(0) && test.out.contains("2 passed"), "{}", test.text);
    let explain = Wireloom::command(&["explain", name]);
    assert!(explain.out.contains("app upper_case") && explain.out.contains("app twice"), "{}", explain.text);
    refused(&Wireloom::command(&["graph", name]), &["several apps: upper_case, twice", &format!("{name}:upper_case")]);
    refused(&Wireloom::command(&["run", &format!("{name}:thrice")]), &["thrice", "upper_case, twice"]);
    refused(&Wireloom::command(&["run", &one, &one]), &["two apps have the name `twice`"]);
    refused(&Wireloom::command(&["run", name, "--set", "port=1"]), &["several apps have `port`", "upper_case.port"]);
    refused(&Wireloom::command(&["run", name, "--set", "twce.port=1"]), &["did you mean `twice`?"]);
    let (a, b) = (free_port(), free_port());
    let mut command = Wireloom::program();
    command.args(["run", name, "--set", &format!("upper_case.port={a}"), "--set", &format!("twice.port={b}")]);
    let _pair = Process::start_ours("pair", &mut command, a);
    Client::connect(a).send("x\n").expect("X\n");
    Client::connect(b).send("x\n").expect("x\nx\n");
    std::fs::remove_dir_all(folder).ok();
}

#[test]
fn all_apps_check_and_all_sources_are_formatted() {
    let apps = loom_files("apps");
    for app in &apps {
        let out = Wireloom::command(&["check", app]);
        assert!(out.code == Some(0), "{app}: {}", out.text);
        // The aim is 50 ms, which `bench/startup.py` measures.
        assert!(out.cpu < Duration::from_secs(2), "{app} took {:?} of processor time", out.cpu);
        // Verified behind each pass.
        let ir = Wireloom::command(&["emit", "ir", app]);
        assert!(ir.code == Some(0) && ir.out.len() > 200, "{app}: {}", ir.text);
        for what in [&["explain"][..], &["emit", "c"], &["graph", "-o", "-"]] {
            let out = finish(Wireloom::program().current_dir(root()).args(what).arg(app));
            assert!(out.code == Some(0) && out.out.len() > 200, "{what:?} {app}: {}", out.text);
        }
    }
    let sources = [loom_files("std"), apps].concat();
    let args: Vec<&str> = ["fmt", "--check"].into_iter().chain(sources.iter().map(String::as_str)).collect();
    let out = Wireloom::command(&args);
    assert_eq!(out.code, Some(0), "{}", out.text);
}

#[test]
fn build_gives_a_file_that_runs() {
    let folder = scratch("build");
    let file = folder.join("web");
    let built = Wireloom::command(&["build", "apps/static_web.loom", "-o", file.to_str().expect("a plain name")]);
    assert_eq!(built.code, Some(0), "{}", built.text);
    let run = |args: &[&str]| finish(Command::new(&file).env("PATH", "").current_dir("/").args(args));
    let help = run(&["--help"]);
    assert!(help.code == Some(0) && help.out.contains("--set"), "{}", help.text);
    refused(&run(&["--set", "prot=1"]), &["prot"]);
    let port = free_port();
    let mut process = Process::start_ours(
        "built",
        Command::new(&file).env("PATH", "").current_dir("/").args([
            "--set",
            &format!("port={port}"),
            "--set",
            "body=from a file",
        ]),
        port,
    );
    Client::connect(port).send(GET).expect("HTTP/1.1 200 OK\r\n").take_until(b"from a file");
    process.signal(libc::SIGTERM);
    assert_eq!(process.exit(), Some(0), "{}", process.output());
    std::fs::remove_dir_all(folder).ok();
}

#[test]
fn the_interpreter_serves_too() {
    let web = Wireloom::run("static_web", &["--interpret", "--set", "body=slowly"]);
    let mut c = Client::connect(web.port);
    c.send(GET.repeat(20));
    for _ in 0..20 {
        c.expect("HTTP/1.1 200 OK\r\n").take_until(b"slowly");
    }
    let memcached = Process::memcached();
    let proxy =
        Wireloom::run("memcached_proxy", &["--interpret", "--set", &format!("servers=127.0.0.1:{}", memcached.port)]);
    let mut c = Client::connect(proxy.port);
    c.send("set k 0 0 1\r\nx\r\nget k none k\r\n").expect("STORED\r\nVALUE k 0 1\r\nx\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
}

/// A PATH with nothing in it: the interpreter takes over and says so.
#[test]
fn without_a_compiler_the_interpreter_takes_over() {
    let folder = scratch("no-compiler");
    let bare = |c: &mut Command| {
        c.env("PATH", &folder).env("XDG_CACHE_HOME", folder.join("cache")).env_remove("CC");
    };
    let web = Wireloom::run_with("static_web", &["--set", "body=bare"], |c| bare(c));
    Client::connect(web.port).send(GET).expect("HTTP/1.1 200 OK\r\n").take_until(b"bare");
    let said = web.output();
    assert!(said.contains("interpreter") && said.contains("compiler"), "it does not say so: {said}");
    let build = Wireloom::command_with(
        &["build", "apps/static_web.loom", "-o", folder.join("x").to_str().expect("a plain name")],
        |c| bare(c),
    );
    refused(&build, &["compiler"]);
    let test = Wireloom::command_with(&["test", "apps/static_web.loom"], |c| bare(c));
    assert!(
        test.code == Some(0) && test.text.contains("interpreter") && !test.out.starts_with("0 passed"),
        "{}",
        test.text
    );
    std::fs::remove_dir_all(&folder).ok();
}

/// A command without any rights, also when root runs the tests.
fn nobody(binary: &Path) -> Command {
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } != 0 {
        return Command::new(binary);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"])
        .arg(binary);
    command
}

/// A file that may not be opened is named, with advice; existing files stay.
#[test]
fn interfaces_and_files_without_rights() {
    use std::os::unix::fs::PermissionsExt;
    let folder = scratch("rights");
    let may = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own file")
    };
    let file = |name: &str| folder.join(name);
    let (binary, app) = (file("wireloom"), file("tap.loom"));
    std::fs::copy(Wireloom::binary(), &binary).expect("a copy that everybody may run");
    std::fs::write(&app, "app tap {\n    port wire = nic(\"lo\"), out = pcap(\"out.pcap\")\n    on wire(p) { p -> out; p -> kernel }\n}\n").expect("an app");
    let header = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0";
    let captures = ["in.pcap", "secret.pcap", "old.pcap"].map(file);
    captures.iter().for_each(|c| std::fs::write(c, header).expect("a capture"));
    may(&folder, 0o755);
    may(&binary, 0o755);
    [&app, &captures[0], &captures[2]].iter().for_each(|f| may(f, 0o444));
    may(&captures[1], 0o000);
    let run = |binds: &[&str], names: &[&str]| {
        let mut command = nobody(&binary);
        command.args(["run", "--interpret"]).arg(&app).current_dir(&folder).env("XDG_CACHE_HOME", "/nonexistent");
        for b in binds {
            command.args(["--bind", b]);
        }
        let out = finish(&mut command);
        assert_eq!(out.code, Some(1), "{binds:?}: {}", out.text);
        refused(&out, names);
    };
    for wire in ["wire=nic:lo", "wire=afpacket:lo", "wire=afxdp:lo"] {
        run(&[wire, "out=null", "kernel=null"], &["port `wire`: no permission for `lo`", "CAP_NET_RAW", "setcap"]);
    }
    for wire in ["wire=tun:wlrights", "wire=tap:wlrights"] {
        run(&[wire, "out=null", "kernel=null"], &["port `wire`", "CAP_NET_ADMIN", "setcap"]);
    }
    run(&["wire=pcap:in.pcap", "out=null", "kernel=kernel"], &["port `kernel`", "CAP_NET_ADMIN"]);
    run(
        &["wire=pcap:secret.pcap", "out=null", "kernel=null"],
        &["port `wire`: cannot open secret.pcap: Permission denied"],
    );
    run(
        &["wire=pcap:in.pcap", "out=pcap:old.pcap", "kernel=null"],
        &["port `out`: cannot write old.pcap: Permission denied"],
    );
    run(
        &["wire=pcap:in.pcap", "out=pcap:/nonexistent/new.pcap", "kernel=null"],
        &["port `out`: cannot write /nonexistent/new.pcap"],
    );
    run(
        &["wire=pcap:in.pcap", "out=pcap:./in.pcap", "kernel=null"],
        &["port `out`: ./in.pcap is the capture that port `wire` reads"],
    );
    assert_eq!(std::fs::read(&captures[2]).expect("it is there"), header);
    std::fs::remove_dir_all(&folder).ok();
}

/// A loop takes years here. SIGTERM ends the process soon if it is in `on start`, and after the
/// drain limit if it is in a timer.
#[test]
fn a_long_handler_does_not_keep_the_process() {
    let folder = scratch("long-handler");
    let loops = "for _i in 0..16000000 { for _j in 0..16000000 { turn += turn >> 3 } }";
    for (name, begin, expected) in [("start", "on start", 0), ("timer", "every 10ms", 1)] {
        let (file, port) = (folder.join(format!("{name}.loom")), free_port());
        let text = format!(
            "unit H {{ order big  kind: u8 }}\npacket P {{ h: H }}\napp {name} {{\n    port wire = udp(\"127.0.0.1:{port}\") as P\n    \
             state turn: u64 = 9\n    {begin} {{ log \"long one\"  {loops} }}\n    on wire(p) {{ turn += 1 }}\n}}\n"
        );
        std::fs::write(&file, text).expect("the folder can be written to");
        let mut command = Wireloom::program();
        command.current_dir(root()).arg("run").arg(&file).args(["--interpret", "--drain", "1"]);
        let mut process = Process::start_saying(name, &mut command, 0, "long one");
        process.signal(libc::SIGTERM);
        let code = process.exit_code(Duration::from_secs(8));
        assert_eq!(code, Some(expected), "{}", process.output());
        assert_eq!(process.output().contains("wireloom: ready"), name == "timer", "{}", process.output());
    }
    std::fs::remove_dir_all(folder).ok();
}

#[test]
fn two_apps_in_one_process() {
    let (web, kv) = (free_port(), free_port());
    let mut command = Wireloom::program();
    command.current_dir(root()).args(["run", "apps/static_web.loom", "apps/kv_server.loom"]);
    command.args([
        "--set",
        &format!("static_web.port={web}"),
        "--set",
        &format!("kv_server.port={kv}"),
        "--set",
        "static_web.body=both",
    ]);
    let mut process = Process::start_ours("two", &mut command, web);
    Client::connect(web).send(GET).expect("HTTP/1.1 200 OK\r\n").take_until(b"both");
    Client::connect(kv).send("set k 0 0 1\r\nx\r\nget k\r\n").expect("STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
    process.signal(libc::SIGTERM);
    assert_eq!(process.exit(), Some(0), "{}", process.output());
    // The same port twice cannot be, in one process or in two.
    let port = format!("port={}", free_port());
    let out = Wireloom::command(&[
        "run",
        "apps/static_web.loom",
        "apps/kv_server.loom",
        "--set",
        &format!("static_web.{port}"),
        "--set",
        &format!("kv_server.{port}"),
    ]);
    refused(&out, &["in use"]);
    let first = Wireloom::run("static_web", &[]);
    let out = Wireloom::command(&["run", "apps/static_web.loom", "--set", &format!("port={}", first.port)]);
    refused(&out, &[&first.port.to_string(), "in use"]);
}

/// A service with the programs of this cache, and its processor time until it has served a request.
fn until_served(cache: &Path) -> (Process, u64) {
    let proxy = Wireloom::run_with("memcached_proxy", &["--set", "servers=127.0.0.1:1"], |c| {
        fully_compiled(c).env("XDG_CACHE_HOME", cache).env_remove("WIRELOOM_START");
    });
    Client::connect(proxy.port).send("version\r\n").take_until(b"\r\n");
    let used = proxy.cpu_ms();
    (proxy, used)
}

/// A cold start serves before optimised code is there; a warm one compiles nothing. The aims, 1.5 s
/// and 100 ms, are measured by `bench/startup.py`.
#[test]
fn starts_cold_and_warm_are_quick() {
    let folder = Folder::new("starts");
    let (cold, used) = until_served(folder.path());
    assert!(cold.output().contains("compiling memcached_proxy"), "{}", cold.output());
    assert!(used < 10_000, "a cold start took {used} ms of processor time");
    let told = "memcached_proxy runs optimised code from now on";
    let until = std::time::Instant::now() + crate::first_minutes::OPTIMISED;
    while !cold.output().contains(told) {
        assert!(std::time::Instant::now() < until, "no optimised code: {}", cold.output());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(cold);
    let (warm, used) = until_served(folder.path());
    assert!(!warm.output().contains("compiling"), "{}", warm.output());
    assert!(used < 1500, "a warm start took {used} ms of processor time");
}

#[test]
fn both_engines_serve() {
    for engine in ["epoll", "uring"] {
        let port = free_port();
        let mut command = Wireloom::program();
        command.current_dir(root()).args([
            "run",
            "apps/static_web.loom",
            "--engine",
            engine,
            "--set",
            &format!("port={port}"),
        ]);
        if engine == "uring" && !uring_allowed() {
            eprintln!("SKIPPED: io_uring is not allowed here");
            continue;
        }
        let _web = Process::start_ours(engine, &mut command, port);
        let mut c = Client::connect(port);
        c.send(GET.repeat(100));
        for _ in 0..100 {
            c.take_until(b"Hello from Wireloom.\n");
        }
    }
}

fn uring_allowed() -> bool {
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    // SAFETY: a call that fails for its null argument, or for want of permission.
    let denied = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, std::ptr::null::<u8>()) };
    let error = std::io::Error::last_os_error().raw_os_error();
    denied == -1
        && disabled.trim() != "2"
        && !matches!(error, Some(libc::ENOSYS | libc::EPERM))
        && Path::new("/proc").exists()
}

/// The interpreter cannot run functions in C, and says so; compiled code can.
#[test]
fn functions_in_c_need_the_compiler() {
    let folder = scratch("extern");
    std::fs::write(folder.join("add.c"), "#include <stdint.h>\nuint32_t add_seven(uint32_t x) { return x + 7; }\n")
        .expect("written");
    let file = folder.join("ext.loom");
    let source = "extern fn add_seven(x: u32) -> u32 from \"add.c\"\nunit L { a: u8 }\n\
        protocol p { stateless  request L  response L  order in_order  sharing pipelined }\n\
        app a { port c = listen tcp(7997) as p\n on c(req) { reply L { a: u8(add_seven(u32(req.a))) } } }\n\
        test \"code\" { expect add_seven(3) == 10 }\ntest \"an app\" of a { c <- \"\\x01\"\n c -> \"\\x08\" }\n";
    std::fs::write(&file, source).expect("written");
    let path = file.to_str().expect("a plain name");
    let tested = Wireloom::command(&["test", path]);
    assert_eq!(tested.code, Some(0), "{}", tested.text);
    assert!(tested.out.contains("2 passed, 0 failed") && tested.text.contains("compiled code only"), "{}", tested.text);
    refused(&Wireloom::command(&["test", "--interpret", path]), &["add_seven", "interpreter"]);
    refused(&Wireloom::command(&["run", "--interpret", path]), &["add_seven", "interpreter"]);
    refused(&Wireloom::command(&["fuzz", "--seconds=1", &format!("{path}:L")]), &["add_seven", "interpreter"]);
    std::fs::remove_dir_all(folder).ok();
}

/// Every app of a file is tested, and named where there are several.
#[test]
fn all_apps_of_a_file_are_tested() {
    let folder = scratch("apps");
    let file = folder.join("two.loom");
    let units =
        "unit L { a: u8 }\nprotocol p { stateless  request L  response L  order in_order  sharing pipelined }\n";
    let app = |name: &str, n: u8| {
        format!("app {name} {{ port c = listen tcp(1) as p\n on c(req) {{ reply L {{ a: {n} }} }} }}\n")
    };
    let test = |name: &str, n: u8| format!("test \"answers\" of {name} {{ c <- \"\\0\"\n c -> \"\\x0{n}\" }}\n");
    let code = "test \"code\" { expect 1 == 1 }\n";
    std::fs::write(&file, [units, &app("one", 1), &app("two", 2), &test("one", 1), &test("two", 3), code].concat())
        .expect("written");
    let path = file.to_str().expect("a plain name");
    let out = Wireloom::command(&["test", path]);
    assert_eq!(out.code, Some(1), "{}", out.text);
    for line in ["one: answers ... ok", "two: answers ... FAILED", " code ... ok", "2 passed, 1 failed"] {
        assert!(out.out.contains(line), "{line}: {}", out.text);
    }
    assert_eq!(out.out.matches(" code ...").count(), 1, "{}", out.text);
    std::fs::remove_dir_all(folder).ok();
}

/// An app may end a server's connection of a test by itself. The test is told how it goes on.
#[test]
fn tests_go_on_to_the_next_connection() {
    let folder = scratch("next-connection");
    let file = folder.join("app.loom");
    let path = file.to_str().expect("a plain name");
    let text = |close: &str| {
        format!(
            "use std.http\napp a {{\n    param servers: list<endpoint, 4>\n    port client = listen tcp(8080) as http\n    \
             port server = connect tcp(servers) as http\n    request seen: u64\n    \
             on client(req) {{ seen += 1  reply call server[0](req) }}\n}}\n\
             test \"t\" of a {{\n    client <- \"GET /a HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n\"\n    \
             server[0] -> \"GET /a HTTP/1.1\\r\\nHost: a\\r\\nx-forwarded-for: 10.0.0.2\\r\\n\\r\\n\"\n    \
             server[0] <- \"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\nContent-Length: 0\\r\\n\\r\\n\"\n    {close}\n    \
             client <- \"GET /b HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n\"\n    server[0] -> \"GET /b \"\n}}\n"
        )
    };
    std::fs::write(&file, text("")).expect("written");
    let out = Wireloom::command(&["test", "--interpret", path]);
    let says = "the app has ended this connection, and `close server[0]` goes on to its next one";
    assert!(out.code == Some(1) && out.text.contains(says), "{}", out.text);
    std::fs::write(&file, text("close server[0]")).expect("written");
    let out = Wireloom::command(&["test", "--interpret", path]);
    assert_eq!(out.code, Some(0), "{}", out.text);
    let told = Wireloom::command(&["explain", path]).out;
    assert!(told.contains("request seen per client connection, anew with each request; u64"), "{told}");
    // Standard output has a name.
    assert_eq!(Wireloom::command(&["emit", "c", path, "-o", "-"]).out, Wireloom::command(&["emit", "c", path]).out);
    assert!(!std::path::Path::new("-").exists());
    std::fs::remove_dir_all(folder).ok();
}

/// Types and values as programs write them, not as the compiler keeps them.
#[test]
fn explain_speaks_the_language() {
    let told = Wireloom::command(&["explain", "apps/nat44.loom"]);
    assert_eq!(told.code, Some(0), "{}", told.text);
    for what in [
        "public  ip4, required",
        "station mac, default 02:57:4c:00:00:44",
        "Inside -> Mapping",
        "u32 -> record { until: u64 }",
    ] {
        assert!(told.out.contains(what), "it does not say {what}:\n{}", told.out);
    }
    assert!(!told.out.contains('#'), "{}", told.out);
}

/// A clause that reads an item of a large list makes room for all of them in each view.
#[test]
fn explain_tells_of_lists_that_cost_time() {
    let folder = scratch("large-list");
    let file = folder.join("a.loom");
    let said = |clause: &str| {
        let text = format!(
            "charset letter = 'a'..='z'\n\
             unit Pair {{ key: token<4> of letter until \"=\"  value: bytes<8> until \";\" }}\n\
             unit Batch {{\n limit 16MiB\n n: u32  items: list<Pair, 1000000> until \"\\n\"\n data: stream bytes [n] }}\n\
             protocol batches {{ request Batch  response Pair  close request when {clause} }}\n\
             app sink {{ port client = listen tcp(7000) as batches\n on client(_req) {{ reply Pair {{ key: \"a\" }} }} }}\n"
        );
        std::fs::write(&file, text).expect("writable");
        let out = Wireloom::command(&["explain", file.to_str().expect("a plain name")]);
        assert_eq!(out.code, Some(0), "{}", out.text);
        out.out.contains("for the 1 000 000 items of a.Batch.items")
    };
    assert!(said("request.items.count(\"x\") > 0"));
    assert!(!said("len(request.items) == 3"));
    std::fs::remove_dir_all(folder).ok();
}

/// Where there is no clang, gcc compiles: services and packets, with tables, rules, queues and
/// edits.
#[test]
fn gcc_compiles_what_clang_does() {
    let apps = ["flow_tracker", "openflow_firewall", "pfabric_scheduler", "dpi_balancer", "redis_proxy"]
        .map(|a| root().join(format!("apps/{a}.loom")));
    let mut command = Wireloom::program();
    let out = finish(command.arg("test").args(&apps).env("WIRELOOM_CC", "gcc").current_dir(root()));
    assert_eq!(out.code, Some(0), "{}", out.text);
    assert!(!out.text.contains("interpreter") && out.text.contains("passed"), "{}", out.text);
}

/// When the C compiler refuses generated code, all is kept that a report needs, in a new folder
/// each time.
#[test]
fn a_mistake_of_ours_is_kept_for_a_report() {
    let folder = Folder::new("mistake");
    let (compiler, program) = (folder.name_of("cc"), folder.name_of("p.loom"));
    std::fs::write(&compiler, "#!/bin/sh\necho it was refused >&2\nexit 1\n").expect("written");
    std::fs::set_permissions(&compiler, std::fs::Permissions::from_mode(0o755)).expect("our own");
    std::fs::write(&program, "test \"nothing\" { expect 1 == 1 }\n").expect("written");
    std::fs::create_dir(folder.file("tmp")).expect("made");
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut command = Wireloom::program();
        command
            .args(["test", &program])
            .env("WIRELOOM_CC", &compiler)
            .env("TMPDIR", folder.file("tmp"))
            .env("XDG_CACHE_HOME", folder.file("cache"));
        let out = finish(&mut command);
        assert!(
            out.code == Some(1)
                && out.text.contains("This is a mistake of Wireloom")
                && out.text.contains("it was refused"),
            "{}",
            out.text
        );
        let at =
            out.text.split("the folder ").nth(1).and_then(|t| t.split(": it holds").next()).expect("a folder is named");
        let read = |name: &str| std::fs::read_to_string(Path::new(at).join(name)).unwrap_or_default();
        assert!(
            read("module.c").contains("#include")
                && read("messages.txt").contains("it was refused")
                && read("0-p.loom").contains("nothing"),
            "{at}"
        );
        assert_eq!(std::fs::metadata(at).expect("there").permissions().mode() & 0o777, 0o700);
        kept.push(at.to_string());
    }
    assert_ne!(kept[0], kept[1]);
}

/// `wireloom fuzz --seconds N` ends after N seconds also while it compiles. No compiler goes on,
/// and no file is left.
#[test]
fn the_time_of_fuzz_counts_while_it_compiles() {
    let folder = Folder::new("fuzz-time");
    let (compiler, program) = (folder.name_of("cc"), folder.name_of("p.loom"));
    std::fs::write(&compiler, format!("#!/bin/sh\necho $$ > {}\nsleep 300 &\nwait\n", folder.name_of("pid")))
        .expect("written");
    std::fs::set_permissions(&compiler, std::fs::Permissions::from_mode(0o755)).expect("our own");
    std::fs::write(
        &program,
        "use std.packet\napp p {\n    port a = pcap(\"x\") as packet.Packet, b = pcap(\"y\")\n    on a(p) { p -> b }\n}\n",
    )
    .expect("written");
    for what in ["std.kv.Pair", &program] {
        std::fs::remove_dir_all(folder.file("tmp")).ok();
        std::fs::create_dir(folder.file("tmp")).expect("made");
        let mut command = Wireloom::program();
        command
            .args(["fuzz", what, "--seconds", "2"])
            .current_dir(root())
            .env("WIRELOOM_CC", &compiler)
            .env("TMPDIR", folder.file("tmp"))
            .env("XDG_CACHE_HOME", folder.file("cache"));
        let begin = std::time::Instant::now();
        let out = finish(&mut command);
        assert!(begin.elapsed() < Duration::from_secs(60), "it took {:?}: {}", begin.elapsed(), out.text);
        assert_eq!(out.code, Some(1), "{}", out.text);
        assert!(
            out.text.contains("nothing was compared: compiling took longer than the 2 s of --seconds"),
            "{}",
            out.text
        );
        let pid = std::fs::read_to_string(folder.file("pid")).expect("the compiler was started");
        let running = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        assert!(running.is_empty() || running.contains(") Z "), "{running}");
        let left: Vec<_> = std::fs::read_dir(folder.file("tmp")).expect("there").flatten().map(|e| e.path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
