//! The environment that `wireloom` and built files find: mistyped variables, and roots that lack
//! what a usual system has.

use std::path::Path;
use std::process::Command;
use wireloom_tests::folder::Folder;
use wireloom_tests::{finish, free_port, require_tool, root, Client, Process, Wireloom};

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// A compiler that is not there must not mean the interpreter, which is many times slower.
#[test]
fn a_mistyped_variable_is_an_error() {
    let cases = [
        ("WIRELOOM_CC", "/opt/none/clang", "`WIRELOOM_CC=/opt/none/clang` names no C compiler: there is no such file"),
        ("WIRELOOM_CC", "no-such-cc", "`WIRELOOM_CC=no-such-cc` names no C compiler: no folder of PATH has it"),
        ("WIRELOOM_OPT", "fast", "`WIRELOOM_OPT=fast` is of no use; expected 0, 1, 2 or 3"),
        ("WIRELOOM_OPT", "4", "`WIRELOOM_OPT=4` is of no use"),
        ("WIRELOOM_START", "optimised", "`WIRELOOM_START=optimised` is of no use; expected `optimized`"),
        ("WIRELOOM_STD", "/opt/none/std", "`WIRELOOM_STD=/opt/none/std` is no folder"),
    ];
    let folder = Folder::new("mistyped");
    for (name, value, said) in cases {
        let set = format!("port={}", free_port());
        let out = Wireloom::command_with(&["run", "apps/static_web.loom", "--set", &set], |c| {
            c.env("XDG_CACHE_HOME", folder.path()).env_remove("WIRELOOM_START").env(name, value);
        });
        assert_eq!(out.code, Some(1), "{name}: {}", out.text);
        assert!(out.text.contains(said), "{name}: {}", out.text);
        assert!(!out.text.contains("interpreter") && !out.text.contains("ready"), "{name}: {}", out.text);
    }
}

/// The unit of the documentation is one that systemd takes.
#[test]
fn the_unit_for_systemd_is_valid() {
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        eprintln!("SKIPPED: systemd is not installed");
        return;
    }
    let page = std::fs::read_to_string(root().join("docs/operations.md")).expect("our own");
    let (_, rest) = page.split_once("```ini\n").expect("a unit");
    let (unit, _) = rest.split_once("```").expect("its end");
    let folder = Folder::new("systemd");
    let file = folder.file("balancer.service");
    // The program and the user of the example are not there.
    let real = unit.replace("/usr/local/bin/balancer", "/bin/true").replace("User=wireloom\n", "User=daemon\n");
    assert_ne!(real, unit);
    std::fs::write(&file, real).expect("written");
    let out = finish(Command::new("systemd-analyze").arg("verify").arg(&file));
    assert_eq!((out.code, out.text.as_str()), (Some(0), ""));
}

/// Copies a file and the libraries that it is linked with to the same places under a root.
fn install(root: &Path, file: &Path) {
    let libraries = finish(Command::new("ldd").arg(file));
    let paths = libraries.out.split_whitespace().filter(|w| w.starts_with('/'));
    for path in paths.map(Path::new) {
        let to = root.join(path.strip_prefix("/").expect("from the root"));
        std::fs::create_dir_all(to.parent().expect("in a folder")).expect("made");
        std::fs::copy(path, to).expect("copied");
    }
    std::fs::copy(file, root.join("web")).expect("copied");
}

/// A root with the built file and its libraries, and no `/proc`.
#[test]
fn a_built_file_needs_no_proc() {
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } != 0 || !require_tool("chroot") {
        eprintln!("SKIPPED: only root changes the root");
        return;
    }
    let folder = Folder::new("bare-root");
    let built = folder.file("built");
    let made = Wireloom::command(&["build", "apps/static_web.loom", "-o", built.to_str().expect("a plain name")]);
    assert_eq!(made.code, Some(0), "{}", made.text);
    let bare = folder.file("root");
    std::fs::create_dir_all(&bare).expect("made");
    install(&bare, &built);
    let inside = |name: &str, set: &str| {
        let mut command = Command::new("chroot");
        command.arg(&bare).args([name, "--set", set, "--set", "body=bare"]);
        command
    };
    let port = free_port();
    let web = Process::start_saying("web", &mut inside("/web", &format!("port=127.0.0.1:{port}")), port, "ready after");
    Client::connect(port).send(GET).expect("HTTP/1.1 200 OK\r\n").take_until(b"bare");
    drop(web);
    let left: Vec<_> = std::fs::read_dir(&bare).expect("our own").flatten().map(|e| e.file_name()).collect();
    assert!(!left.iter().any(|n| n.to_string_lossy().contains("program")), "{left:?}");
}
