//! The command line at its edges: output that nobody reads, odd files and names, apps of which
//! nothing handles a port, long waits in tests.

use std::process::Command;
use wireloom_tests::folder::Folder;
use wireloom_tests::{root, Output, Wireloom};

/// Ends with an error that names all of these, without a panic.
fn refused(out: &Output, names: &[&str]) {
    assert!(out.code.is_some_and(|c| c != 0), "it succeeded or hung ({:?}): {}", out.code, out.text);
    assert!(!out.text.contains("panicked"), "{}", out.text);
    for name in names {
        assert!(out.text.contains(name), "the message does not name {name}: {}", out.text);
    }
}

/// Where nothing reads the output, commands end without a panic. No command that failed is a
/// success then.
#[test]
fn output_that_nobody_reads() {
    let folder = Folder::new("unread");
    let failing = folder.path().join("failing.loom");
    std::fs::write(&failing, "test \"t\" { expect 1 == 2 }\n").expect("the folder is writable");
    let failing = failing.to_string_lossy().into_owned();
    let app = "apps/http_balancer.loom";
    for args in [
        vec!["explain", "codes"],
        vec!["explain", "E0301"],
        vec!["explain", app],
        vec!["emit", "ir", app],
        vec!["graph", app, "-o", "-"],
        vec!["test", "--interpret", &failing],
        vec!["fuzz", "std.ntp.Message", "--seconds", "5", "--interpret"],
    ] {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
        drop(ours);
        let made = Wireloom::program()
            .args(&args)
            .current_dir(root())
            .stdout(std::os::fd::OwnedFd::from(theirs))
            .output()
            .expect("the compiler runs");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.code() == Some(141) && !said.contains("panicked"), "{args:?}: {:?} {said}", made.status);
    }
}

/// A full disk is told.
#[test]
fn output_without_room() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("there is such a device");
    let made = Wireloom::program().args(["explain", "codes"]).stdout(full).output().expect("it runs");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.code() == Some(1) && said.contains("cannot write the output: No space left"), "{said}");
}

#[test]
fn a_named_pipe_is_no_source_file() {
    let folder = Folder::new("pipe");
    let pipe = folder.path().join("a.loom");
    assert!(Command::new("mkfifo").arg(&pipe).status().is_ok_and(|s| s.success()));
    refused(&Wireloom::command(&["check", &pipe.to_string_lossy()]), &["E0010", "named pipe"]);
    // A shell's own pipe is read.
    let line = format!("{} check <(echo 'fn f() -> u8 = 1')", Wireloom::binary().display());
    assert!(Command::new("bash").args(["-c", &line]).status().is_ok_and(|s| s.success()));
}

/// A name of many parts is refused at once, and briefly.
#[test]
fn a_use_of_many_parts() {
    let folder = Folder::new("parts");
    let file = folder.path().join("a.loom");
    std::fs::write(&file, format!("use a{}\n", ".a".repeat(50_000))).expect("the folder is writable");
    let out = Wireloom::command(&["check", &file.to_string_lossy()]);
    refused(&out, &["E0202", "at most 64 parts"]);
    assert!(out.text.len() < 2000, "{}", out.text);
}

/// A number is no address.
#[test]
fn addresses_of_parameters_are_addresses() {
    let folder = Folder::new("addresses");
    let file = folder.path().join("a.loom");
    let app = "app a { port w = memory(\"w\")  param m: mac = 02:00:00:00:00:01  param i: ip4 = 10.0.0.1\n\
               on w(p) where p.eth { p.eth.src = m  log i  p -> w } }\n";
    std::fs::write(&file, app).expect("the folder is writable");
    let explain = |set: &str| Wireloom::command(&["explain", &file.to_string_lossy(), "--set", set]);
    assert_eq!(explain("m=02:00:00:00:00:09").code, Some(0), "{}", explain("m=02:00:00:00:00:09").text);
    assert_eq!(explain("i=10.0.0.9").code, Some(0));
    refused(&explain("m=1"), &["expected a MAC address"]);
    refused(&explain("i=1"), &["expected an IPv4 address"]);
}

/// A timer runs `n` times within a wait of a test, in an app whose port of frames nothing handles.
fn counted(period: &str, wait: &str, n: u32) {
    let folder = Folder::new("counted");
    let file = folder.path().join("a.loom");
    let app = format!(
        "app a {{ port w = memory(\"w\")  state n: u32  every {period} {{ n += 1 }} }}\n\
         test \"a\" of a {{ wait {wait}  expect n == {n} }}\n"
    );
    std::fs::write(&file, app).expect("the folder is writable");
    let out = Wireloom::command(&["test", &file.to_string_lossy()]);
    assert!(out.code == Some(0) && out.text.contains("1 passed"), "{}", out.text);
}

/// An app may have a port of frames without anything that handles or sends some.
#[test]
fn a_frame_port_without_a_handler() {
    counted("10ms", "1s", 100)
}

/// Time that passes in a test leaves out no run of a timer, however long it is.
#[test]
fn a_long_wait_runs_every_timer() {
    counted("10us", "3s", 300_000)
}
