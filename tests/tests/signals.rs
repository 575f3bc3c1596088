//! The language's own tests, run by both engines, and signals of a running app.

use serde_json::{json, Value};
use std::io::{Read, Write};
use std::process::Command;
use wireloom_tests::{free_port, root, Client, Wireloom};

#[test]
fn the_literate_cases_hold() {
    for name in ["meaning", "addresses", "enclosed", "chains", "tee"] {
        let file = root().join(format!("crates/lang/tests/cases/{name}.loom"));
        for mode in [&["test"][..], &["test", "--interpret"]] {
            let mut args = mode.to_vec();
            let path = file.display().to_string();
            args.push(&path);
            let out = Wireloom::command(&args);
            assert_eq!(out.code, Some(0), "{name} {mode:?}: {}", out.text);
        }
    }
}

/// Status code and body.
fn call(port: u16, path: &str) -> (u16, String) {
    let mut s = std::net::TcpStream::connect(("127.0.0.1", port)).expect("the admin page");
    write!(s, "POST /signal/signalled/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n")
        .expect("sent");
    let mut all = String::new();
    s.read_to_string(&mut all).expect("an answer");
    let code = all.split(' ').nth(1).and_then(|c| c.parse().ok()).unwrap_or(0);
    (code, all.split_once("\r\n\r\n").map_or(String::new(), |(_, b)| b.to_string()))
}

fn answer(port: u16, path: &str) -> Value {
    let (code, body) = call(port, path);
    assert_eq!(code, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path}: {e}: {body}"))
}

fn signals(extra: &[&str]) {
    if wireloom_tests::plain() {
        return;
    }
    let page = free_port();
    let with_page = |c: &mut Command| {
        c.args(["--admin", &format!("127.0.0.1:{page}")]);
    };
    let app = Wireloom::run_file("crates/lang/tests/cases/signals.loom", extra, with_page);
    let mut c = Client::connect(app.port);
    c.send("a\n").expect("ok\n");
    c.send("b \"q\"\n").expect("ok\n");
    let seen = answer(page, "seen");
    assert_eq!(seen["cores"], json!([{"lines": 2, "last": "b \"q\"", "odd": false}]));
    assert_eq!(answer(page, "lowest"), json!({"app": "signalled", "signal": "lowest", "cores": [-5], "sum": -5}));
    assert_eq!(answer(page, "cnt.read")["sum"], 0);
    let set = |query: &str| answer(page, &format!("set?{query}"))["cores"][0].clone();
    assert_eq!(set("name=k&n=7&on=true&at=10.0.0.1:80"), json!({"0": null, "1": "10.0.0.1:80", "2": true}));
    assert_eq!(set("at=%5bfd00::1%5d:80&on=no&name=k&n=8"), json!({"0": 7, "1": "[fd00::1]:80", "2": false}));
    answer(page, "reset");
    // Nothing has been seen: a division by zero.
    assert_eq!(call(page, "ask?n=4").0, 500);
    c.send("c\n").expect("ok\n");
    assert_eq!(answer(page, "ask?n=4")["sum"], 4);
    for (path, code) in [
        ("none", 404),
        ("ask", 400),
        ("ask?n=x", 400),
        ("ask?n=1&m=2", 400),
        ("set?name=123456789012345678901&n=1&on=1&at=1.1.1.1:1", 400),
    ] {
        assert_eq!(call(page, path).0, code, "{path}");
    }
}

#[test]
fn signals_answer() {
    signals(&[]);
}

#[test]
fn signals_answer_interpreted() {
    signals(&["--interpret"]);
}

/// The wall clock is known from the start on, not only after the first round.
#[test]
fn the_start_knows_the_time() {
    let folder = std::env::temp_dir().join(format!("wireloom-test-start-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
    let program = r#"
unit Line { text: text<40> until "\n" }
protocol lines { stateless  request Line  response Line  on fault(f) { reply Line { text: "fault" } } }
app began {
    param port: u16
    port client = listen tcp(port) as lines
    state at: u64
    on start { at = u64(unix_time()) }
    on client(req) { reply Line { text: text(at) } }
}
"#;
    let file = folder.join("began.loom");
    std::fs::write(&file, program).expect("the folder is writable");
    let app = Wireloom::run_file(&file.to_string_lossy(), &["--interpret"], |_| {});
    let line = Client::connect(app.port).send("?\n").take_until(b"\n");
    let line = String::from_utf8_lossy(&line).into_owned();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    assert!(line.trim().parse::<u64>().is_ok_and(|at| now - at < 60), "{line}, not {now}");
    drop(app);
    std::fs::remove_dir_all(&folder).ok();
}
