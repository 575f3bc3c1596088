//! Standard error that nobody reads, or nobody any more: services serve on and end in time, and
//! runs over captures lose no line.

use std::io::Read;
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};
use wireloom_tests::captures::{udp, write, EPOCH, MS};
use wireloom_tests::folder::Folder;
use wireloom_tests::{admin, free_port, plain, quickly_compiled, Client, Wireloom, PATIENCE};

/// Logs each line, and crashes at one that says so.
const PROGRAM: &str = r#"
unit Line { text: bytes<64> until "\n" }
unit Answer { text: bytes<64> until "\n" }
protocol lines {
    request  Line
    response Answer
    stateless
}

extern fn crash(n: u32) -> u32 from "crash.c"

app talks {
    param port: u16
    param word: bytes<16> = "one"
    port client = listen tcp(port) as lines
    on client(line) {
        log "line ", line.text, " ", word
        if line.text == "crash" {
            reply Answer { text: text(crash(1)) }
            return
        }
        reply Answer { text: line.text }
    }
}
"#;
const CRASH: &str = "#include <stdint.h>\nuint32_t crash(uint32_t n) { __builtin_trap(); return n; }\n";

/// The least pipe of the system, whose reader is the test.
struct Talker {
    child: Child,
    stderr: Option<ChildStderr>,
    port: u16,
    page: u16,
    folder: Folder,
}

impl Drop for Talker {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn narrow(pipe: &impl AsRawFd) {
    // SAFETY: a plain system call on a pipe of ours.
    assert!(unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) } >= 4096);
}

fn folder() -> Folder {
    let folder = Folder::new("talks");
    for (name, text) in [("talks.loom", PROGRAM), ("crash.c", CRASH), ("talks.toml", "[set]\nword = \"one\"\n")] {
        std::fs::write(folder.file(name), text).expect("the folder is writable");
    }
    folder
}

impl Talker {
    fn start(args: &[&str]) -> Talker {
        let (folder, port, page) = (folder(), free_port(), free_port());
        let mut command = Wireloom::program();
        let set = format!("port={port}");
        let (admin, config) = (page.to_string(), folder.name_of("talks.toml"));
        command.arg("run").arg(folder.file("talks.loom")).args(["--set", &set, "--admin", &admin, "--config", &config]);
        quickly_compiled(&mut command).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let stderr = child.stderr.take().inspect(narrow);
        child.stdout.as_ref().into_iter().for_each(narrow);
        let talker = Talker { child, stderr, port, page, folder };
        let until = Instant::now() + PATIENCE;
        while std::net::TcpStream::connect(("127.0.0.1", page)).is_err() {
            assert!(Instant::now() < until, "its page does not open");
            std::thread::sleep(Duration::from_millis(10));
        }
        talker
    }

    /// So many lines, each of which is answered.
    fn talk(&self, lines: usize) {
        let mut client = Client::connect(self.port);
        for _ in 0..lines / 100 {
            client.send("x\n".repeat(100)).expect("x\n".repeat(100));
        }
    }

    fn lost(&self) -> u64 {
        admin::sample(&admin::metrics(self.page), "wireloom_log_lost_total")
    }

    fn signal(&self, signal: i32) {
        // SAFETY: kill on our own child's pid.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// How long it still runs, and its exit code.
    fn ends(&mut self) -> (Duration, Option<i32>) {
        let begin = Instant::now();
        loop {
            match self.child.try_wait().expect("the child is ours") {
                Some(status) => return (begin.elapsed(), status.code()),
                None if begin.elapsed() > PATIENCE => return (begin.elapsed(), None),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

/// More lines than the pipe and the queue have room for.
const MANY: usize = 40_000;

#[test]
fn a_full_standard_error_stops_nobody() {
    if plain() {
        return;
    }
    let mut talker = Talker::start(&["--drain", "1"]);
    talker.talk(MANY);
    let lost = talker.lost();
    assert!(lost > 0, "the queue has a bound");
    talker.signal(libc::SIGTERM);
    let (time, code) = talker.ends();
    assert!(code == Some(0) && time < Duration::from_secs(10), "{code:?} after {time:?}");
}

/// Lines come out in their order. The number of the lost ones stands in their place.
#[test]
fn lost_lines_are_told() {
    if plain() {
        return;
    }
    let mut talker = Talker::start(&[]);
    talker.talk(MANY);
    let lost = talker.lost();
    let mut stderr = talker.stderr.take().expect("a pipe");
    let reader = std::thread::spawn(move || {
        let mut all = String::new();
        stderr.read_to_string(&mut all).map(|_| all)
    });
    let told = format!("{lost} lines were lost");
    // Room comes when the thread has written what it has.
    std::thread::sleep(Duration::from_secs(1));
    talker.talk(100);
    talker.signal(libc::SIGTERM);
    assert_eq!(talker.ends().1, Some(0));
    let all = reader.join().expect("it ends").expect("text");
    let lines: Vec<&str> = all.lines().collect();
    let said = lines.iter().filter(|l| l.ends_with("talks: line x one")).count() as u64;
    assert_eq!(said + lost, MANY as u64 + 100, "{}", all.len());
    let place = lines.iter().position(|l| l.contains(&told)).expect("the number is told");
    assert_eq!(lines.len() - place - 1, 100, "later lines stand behind it");
}

/// A request under way and a full standard output hold up no second signal.
#[test]
fn a_second_signal_ends_it_at_once() {
    if plain() {
        return;
    }
    let mut talker = Talker::start(&["--drain", "60", "--access-log", "-"]);
    talker.talk(MANY);
    let mut client = Client::connect(talker.port);
    client.send("begun");
    std::thread::sleep(Duration::from_millis(300));
    talker.signal(libc::SIGTERM);
    std::thread::sleep(Duration::from_millis(500));
    talker.signal(libc::SIGTERM);
    let (time, code) = talker.ends();
    assert!(code.is_some() && time < Duration::from_millis(1500), "{code:?} after {time:?}");
}

/// A reader that has gone costs lines, and nothing else.
#[test]
fn a_closed_standard_error_does_not_matter() {
    if plain() {
        return;
    }
    let mut talker = Talker::start(&[]);
    drop(talker.stderr.take());
    talker.talk(100);
    std::fs::write(talker.folder.file("talks.toml"), "[set]\nword = \"two\"\n").expect("the folder is writable");
    talker.signal(libc::SIGHUP);
    std::thread::sleep(Duration::from_millis(300));
    talker.talk(100);
    admin::eventually("all are counted", || talker.lost() >= 200);
    talker.signal(libc::SIGTERM);
    assert_eq!(talker.ends().1, Some(0));
}

/// Lines of before a crash are written, even if their reader is late.
#[test]
fn a_crash_loses_no_line() {
    if plain() {
        return;
    }
    let mut talker = Talker::start(&[]);
    talker.talk(200);
    Client::connect(talker.port).send("crash\n");
    std::thread::sleep(Duration::from_millis(200));
    let mut all = String::new();
    talker.stderr.take().expect("a pipe").read_to_string(&mut all).expect("text");
    assert_eq!(talker.ends().1, None, "a signal ends it");
    assert_eq!(all.matches("talks: line x one").count(), 200);
    assert_eq!(all.matches("talks: line crash one").count(), 1);
}

const FRAMES: &str = "use std.packet\n
app each {
    port wire = nic(\"eth0\")
    on wire(p) { log \"a frame, and some more words to fill the line\" }
}
";

/// A run over captures waits for its reader.
#[test]
fn captures_lose_no_line() {
    if plain() {
        return;
    }
    let folder = Folder::new("each");
    std::fs::write(folder.file("each.loom"), FRAMES).expect("the folder is writable");
    let frames = (0..MANY as u64).map(|n| (EPOCH + n * MS, udp(1, 7, 9, 4))).collect();
    write(&folder.file("in.pcap"), &frames);
    let mut command: Command = Wireloom::program();
    command.arg("run").arg(folder.file("each.loom")).args(folder.arguments(&["--bind", "wire=pcap:@/in.pcap"]));
    let mut child =
        quickly_compiled(&mut command).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stderr = child.stderr.take().inspect(narrow).expect("a pipe");
    // It has more to say than the pipe and the queue hold.
    std::thread::sleep(Duration::from_secs(2));
    let mut all = String::new();
    stderr.read_to_string(&mut all).expect("text");
    assert!(child.wait().expect("it ends").success(), "{all}");
    assert_eq!(all.matches("each: a frame").count(), MANY);
    assert!(!all.contains("lost"));
}
