//! A user's first minutes: a cold start, a file to deploy, a terminal that closes, commands to
//! running apps.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use wireloom_tests::admin::eventually;
use wireloom_tests::folder::{gone, left_behind, Folder};
use wireloom_tests::{finish, free_port, fully_compiled, root, thrice, Client, Output, Process, Wireloom};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn executable(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("our own");
}

/// A client that connects while the program is compiled waits, and is answered.
#[test]
fn a_cold_start_listens_first() {
    let folder = Folder::new("cold-start");
    let (compiler, _) = wireloom_codegen_c::find_compiler(None).expect("a C compiler");
    let slow = folder.file(&format!("slow-{compiler}"));
    executable(&slow, &format!("#!/bin/sh\nsleep 2\nexec {compiler} \"$@\"\n"));
    for engine in ["epoll", "uring"] {
        let port = free_port();
        let mut command = Wireloom::program();
        fully_compiled(&mut command);
        command.current_dir(root()).args([
            "run",
            "apps/static_web.loom",
            "--engine",
            engine,
            "--set",
            &format!("port={port}"),
        ]);
        command.env("XDG_CACHE_HOME", folder.file(engine)).env("WIRELOOM_CC", &slow);
        let web = Process::start_saying(engine, &mut command, port, "compiling static_web");
        let mut early: Vec<Client> = (0..5).map(|_| Client::connect(port)).collect();
        early[0].send(GET);
        assert!(!web.output().contains("ready"), "{}", web.output());
        for c in &mut early[1..] {
            c.send(GET);
        }
        for c in &mut early {
            c.expect("HTTP/1.1 200 OK\r\n");
        }
    }
    // Two of one port are told before anything is compiled.
    let late = folder.name_of("late");
    executable(&slow, &format!("#!/bin/sh\nsleep 5\necho late > {late}\nexec {compiler} \"$@\"\n"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let out = Wireloom::command_with(
        &["run", "apps/static_web.loom", "--set", &format!("port={}", taken.local_addr().expect("its own").port())],
        |c| {
            c.env("XDG_CACHE_HOME", folder.file("none")).env("WIRELOOM_CC", &slow);
        },
    );
    assert!(out.code == Some(1) && out.text.contains("cannot listen on"), "{}", out.text);
    assert!(!folder.file("late").exists(), "it waited for the compiler");
}

/// A cold start in two steps, as users have it: code that is not optimised serves until optimised
/// code is there.
fn in_two_steps(c: &mut Command, folder: &Folder) {
    fully_compiled(c).env_remove("WIRELOOM_START").env("XDG_CACHE_HOME", folder.file("cache"));
}

/// Programs in the cache, by their names.
fn kept(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.file("cache/wireloom")).expect("a cache").flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|n| !n.starts_with("include-")).collect()
}

/// Optimised code is compiled beside the service, with the processor time that other processes
/// leave.
pub const OPTIMISED: Duration = Duration::from_secs(400);

/// Values stored before are there afterwards, and requests are answered all the time.
#[test]
fn optimised_code_takes_over_while_requests_flow() {
    let folder = Folder::new("take-over");
    let mut store =
        Wireloom::run_with("kv_server", &["--set", "client.read_timeout=300s"], |c| in_two_steps(c, &folder));
    let mut early = Client::connect(store.port);
    early.send("set early 0 0 5\r\nvalue\r\n").expect("STORED\r\n");
    let (mut n, until) = (0, Instant::now() + OPTIMISED);
    let mut waits = Client::connect(store.port);
    waits.send("set late 0 0 4\r\nva");
    let mut after = 0;
    while after < 100 {
        let (key, value) = (n % 50, n % 10);
        early
            .send(format!("set k{key} 0 0 1\r\n{value}\r\nget k{key}\r\n"))
            .expect(format!("STORED\r\nVALUE k{key} 0 1\r\n{value}\r\nEND\r\n"));
        n += 1;
        std::thread::sleep(Duration::from_millis(2));
        if store.output().contains("kv_server runs optimised code from now on") {
            after += 1
        }
        assert!(Instant::now() < until, "{}", store.output());
    }
    assert!(n > 110, "the code was exchanged after {} requests: not while they flowed", n - 100);
    // The parser that had begun to read this message goes on in the new code.
    waits
        .send("lu\r\nget late\r\nget early\r\n")
        .expect("STORED\r\nVALUE late 0 4\r\nvalu\r\nEND\r\nVALUE early 0 5\r\nvalue\r\nEND\r\n");
    store.signal(libc::SIGTERM);
    assert_eq!(store.exit(), Some(0), "{}", store.output());
    assert_eq!(
        kept(&folder).iter().filter(|n| n.ends_with(".so")).count(),
        2,
        "both codes are kept: {:?}",
        kept(&folder)
    );
    let again = Wireloom::run_with("kv_server", &[], |c| in_two_steps(c, &folder));
    assert!(!again.output().contains("compiling"), "{}", again.output());
}

/// A service that ends stops the compiler that still works for it, and nothing of that is left.
#[test]
fn who_ends_early_does_not_wait_for_the_compiler() {
    let folder = Folder::new("ends-early");
    let (compiler, _) = wireloom_codegen_c::find_compiler(None).expect("a C compiler");
    let slow = folder.file(&format!("slow-{compiler}"));
    // Optimised code takes a minute, by a child of a child.
    executable(
        &slow,
        &format!(
            "#!/bin/sh\ncase \"$*\" in *-O2*) sleep 60; echo late > {} ;; esac\nexec {compiler} \"$@\"\n",
            folder.name_of("late")
        ),
    );
    let mut web = Wireloom::run_with("static_web", &[], |c| {
        in_two_steps(c, &folder);
        c.env("WIRELOOM_CC", &slow);
    });
    Client::connect(web.port).send(GET).expect("HTTP/1.1 200 OK\r\n");
    web.signal(libc::SIGTERM);
    assert_eq!(web.exit(), Some(0), "{}", web.output());
    assert!(!folder.file("late").exists());
    assert!(kept(&folder).iter().all(|n| n.ends_with(".so") || n.ends_with(".c")), "{:?}", kept(&folder));
}

/// A service that is killed takes the compiler along, too.
#[test]
fn who_is_killed_leaves_no_compiler() {
    let folder = Folder::new("killed-early");
    let (compiler, _) = wireloom_codegen_c::find_compiler(None).expect("a C compiler");
    let slow = folder.file(&format!("slow-{compiler}"));
    // Optimised code takes ten minutes.
    let begun = folder.name_of("begun");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *-O2*) echo $$ >> {begun}; exec sleep 600 ;; esac\nexec {compiler} \"$@\"\n"
    );
    executable(&slow, &script);
    let mut web = Wireloom::run_with("static_web", &[], |c| {
        in_two_steps(c, &folder);
        c.env("WIRELOOM_CC", &slow);
    });
    let compilers = || std::fs::read_to_string(&begun).unwrap_or_default();
    eventually("the compiler is at work", || !compilers().is_empty());
    web.kill();
    let alive = |pid: &str| Path::new("/proc").join(pid).join("exe").exists();
    eventually("the compiler has ended", || !compilers().lines().any(alive));
}

fn build(folder: &Folder, umask: u32) -> Output {
    Wireloom::command_with(&["build", "apps/static_web.loom", "-o", &folder.name_of("web")], |c| {
        // SAFETY: one system call that is safe after `fork`.
        unsafe {
            c.pre_exec(move || {
                libc::umask(umask);
                Ok(())
            });
        }
    })
}

/// An altered file is refused, whichever part of the appended program was altered or cut off. So is
/// a file that has the compiler in it.
#[test]
fn an_altered_file_is_told() {
    let folder = Folder::new("altered");
    let built = build(&folder, 0o022);
    assert_eq!(built.code, Some(0), "{}", built.text);
    executable(&folder.file("copy"), "");
    let run = |bytes: &[u8]| {
        std::fs::write(folder.file("copy"), bytes).expect("written");
        finish(Command::new(folder.file("copy")).arg("--help"))
    };
    // Without the runtime beside it the compiler appends the program to itself.
    std::fs::copy(Wireloom::binary(), folder.file("wireloom")).expect("written");
    let large =
        finish(Command::new(folder.file("wireloom")).current_dir(root()).env("XDG_CACHE_HOME", folder.path()).args([
            "build",
            "apps/static_web.loom",
            "-o",
            &folder.name_of("large"),
        ]));
    assert!(large.code == Some(0) && large.text.contains("the compiler goes into the file"), "{}", large.text);
    for name in ["web", "large"] {
        let whole = std::fs::read(folder.file(name)).expect("built");
        let out = run(&whole);
        assert!(out.code == Some(0) && !out.out.contains("fmt"), "{}", out.text);
        let refused = |bytes: &[u8], what: &str| {
            let out = run(bytes);
            assert!(out.code == Some(1) && out.text.contains("damaged"), "{name}, {what}: {:?} {}", out.code, out.text);
        };
        // In the magic, the trailer, the description, and the compiled program.
        for back in [1, 16, 20, 40, 60, 70, 200, 5000] {
            let mut bytes = whole.clone();
            let at = bytes.len() - back;
            bytes[at] ^= 0x10;
            refused(&bytes, &format!("{back} bytes from the end"));
        }
        for cut in [1, 64, 65, 5000] {
            refused(&whole[..whole.len() - cut], &format!("without {cut} bytes"));
        }
        refused(&[&whole[..], b"x"].concat(), "with one more byte");
        let mut inner = whole.clone();
        inner.remove(whole.len() - 5000);
        refused(&inner, "without a byte in the middle");
    }
}

#[test]
fn a_built_file_is_small_and_as_open_as_the_umask_says() {
    let folder = Folder::new("built-modes");
    std::fs::write(folder.file("web.partial"), "the user's").expect("written");
    left_behind(&folder.file(&format!(".web.{}.partial", gone())));
    for (umask, mode) in [(0o077, 0o700), (0o022, 0o755), (0o027, 0o750)] {
        let built = build(&folder, umask);
        assert_eq!(built.code, Some(0), "{}", built.text);
        let meta = std::fs::metadata(folder.file("web")).expect("built");
        assert_eq!(meta.mode() & 0o777, mode);
        assert!(meta.len() < 10 << 20, "{} bytes", meta.len());
    }
    assert_eq!(std::fs::read(folder.file("web.partial")).expect("there"), b"the user's");
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 2, "nothing is left");
}

#[test]
fn a_terminal_that_closes_ends_nothing() {
    let folder = Folder::new("hangup");
    assert_eq!(build(&folder, 0o022).code, Some(0));
    let port = free_port();
    let mut built = Command::new(folder.file("web"));
    built.args(["--set", &format!("port={port}")]);
    for mut web in [
        Wireloom::run_with("static_web", &[], |c| {
            fully_compiled(c);
        }),
        Process::start_ours("built", &mut built, port),
    ] {
        web.signal(libc::SIGHUP);
        std::thread::sleep(Duration::from_millis(200));
        web.signal(libc::SIGHUP);
        Client::connect(web.port).send(GET).expect("HTTP/1.1 200 OK\r\n");
        web.signal(libc::SIGTERM);
        assert_eq!(web.exit(), Some(0), "{}", web.output());
    }
}

#[test]
fn fuzzing_ends_in_time() {
    for unit in ["std.http.Request", "apps/flow_tracker.loom"] {
        let takes = |seconds: &str| {
            let begin = Instant::now();
            let out = Wireloom::command(&["fuzz", unit, "--seconds", seconds]);
            assert_eq!(out.code, Some(0), "{}", out.text);
            (begin.elapsed(), out)
        };
        // Compiled before it is measured.
        takes("0");
        thrice(|| {
            // Start and end cost as much without a second of fuzzing.
            let (around, (took, out)) = (takes("0").0, takes("3"));
            assert!(!out.out.contains(" in 0 "), "{}", out.text);
            let good = (Duration::from_millis(2900)..Duration::from_millis(4500) + 2 * around).contains(&took);
            good.then_some(())
                .ok_or(format!("{took:?} and {around:?} without fuzzing, on a processor {:?}: {}", out.cpu, out.text))
        });
    }
}

/// Root finds the apps of all users; without any, the message names the searched folders.
#[test]
fn apps_of_other_users() {
    let folder = Folder::new("other-users");
    let out = Wireloom::command_with(&["table"], |c| {
        c.env("WIRELOOM_SOCKETS", folder.path());
    });
    assert!(out.code == Some(1) && out.text.contains(&folder.path().display().to_string()), "{}", out.text);
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("SKIPPED: only root looks into the folders of others");
        return;
    }
    let binary = folder.file("wireloom");
    std::fs::copy(Wireloom::binary(), &binary).expect("a copy that everybody may run");
    std::fs::copy(root().join("apps/static_web.loom"), folder.file("static_web.loom")).expect("a copy");
    for path in [folder.path(), &binary] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("our own");
    }
    std::fs::create_dir(folder.file("tmp")).expect("made");
    std::fs::set_permissions(folder.file("tmp"), std::fs::Permissions::from_mode(0o1777)).expect("our own");
    let port = free_port();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&binary)
        .args(["run", "--interpret"])
        .arg(folder.file("static_web.loom"));
    command.args(["--set", &format!("port={port}")]).env("TMPDIR", folder.file("tmp")).env_remove("XDG_RUNTIME_DIR");
    let web = Process::start_ours("nobodys", &mut command, port);
    let pid = web.child.id().to_string();
    let found = Wireloom::command_with(&["counter", "--all", "--json", "--pid", &pid], |c| {
        c.env("TMPDIR", folder.file("tmp"));
    });
    assert!(found.code == Some(0), "{}", found.text);
    // A folder that bears another user's name is not trusted.
    std::os::unix::fs::chown(folder.file("tmp/wireloom-65534"), Some(65533), None).expect("root may");
    let lost = Wireloom::command_with(&["counter", "--all", "--json", "--pid", &pid], |c| {
        c.env("TMPDIR", folder.file("tmp"));
    });
    assert_eq!(lost.code, Some(1), "{}", lost.text);
}
