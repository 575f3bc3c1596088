//! Messages to handles: clients of two cores, with connections that end at any time, and a reader
//! that does not read.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use wireloom_tests::folder::Folder;
use wireloom_tests::{admin, free_port, Process, Wireloom, PATIENCE};

const APP: &str = "
unit Line { text: bytes<64KiB> until \"\\n\" }
protocol chat { up Line  down Line  sharing session }

app rooms {
    param port: u16 = 7000
    port client = listen tcp(port) as chat { idle_timeout 60s, write_timeout 60s, max_queued 262144 }
    session room: bytes<20>
    table members: bytes<20> -> record { all: list<connection of client, 64> } { capacity 1000 }
    table ever: u8 -> record { all: list<connection of client, 2048> } { capacity 1 }
    on client(m: chat.up) {
        if room == \"\" {
            room = slice(m.text, 0, 20)
            update members[room] { .all = .all.added(client) }
            update ever[0] { if len(.all) < 2048 { .all = .all.added(client) } }
            Line { text: \"in\" } -> client
            return
        }
        if starts_with(m.text, \"all \") {
            if let e = ever[0] { m -> e.all }
            return
        }
        if starts_with(m.text, \"end \") {
            if let r = members[room] {
                let others = r.all.without(client)
                close others
            }
            return
        }
        if let r = members[room] { m -> r.all }
    }
    on client.closed { if room != \"\" { update members[room] { .all = .all.without(client) } } }
}
";

fn rooms(name: &str) -> (Process, u16, Folder) {
    let folder = Folder::new(name);
    let file = folder.name_of("rooms.loom");
    std::fs::write(&file, APP).expect("the folder is writable");
    let page = free_port();
    let cores = if std::thread::available_parallelism().map_or(1, |n| n.get()) > 1 { "0,1" } else { "0" };
    let at = format!("127.0.0.1:{page}");
    let process = Wireloom::run_file(&file, &["--cores", cores, "--admin", &at], |_| {});
    (process, page, folder)
}

struct Member {
    stream: TcpStream,
    held: Vec<u8>,
}

impl Member {
    fn enter(port: u16, room: &str) -> Member {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the service listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
        stream.set_nodelay(true).expect("an option can be set");
        let mut m = Member { stream, held: Vec::new() };
        m.say(room);
        assert_eq!(m.line(), b"in");
        m
    }

    /// Reads for a moment. The lines are those of rounds, in order and whole, up to one that begins
    /// with `again`; whether that one has come.
    fn catches_up(&mut self, last: &mut Option<usize>) -> bool {
        let until = Instant::now() + Duration::from_millis(200);
        self.stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout can be set");
        while Instant::now() < until {
            if let Err(e) = self.read() {
                assert!(matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{e}");
            }
            while self.held.contains(&b'\n') {
                let line = self.line();
                if line.starts_with(b"again ") {
                    return true;
                }
                let (number, rest) = line.split_at(line.iter().position(|b| *b == b' ').expect("a number"));
                let number: usize = String::from_utf8_lossy(number).parse().expect("a number");
                assert!(rest.len() == 10_001 && last.is_none_or(|n| number > n), "{number} after {last:?}");
                *last = Some(number);
            }
        }
        false
    }

    fn say(&mut self, text: &str) {
        self.stream.write_all(format!("{text}\n").as_bytes()).expect("the service reads");
    }

    fn line(&mut self) -> Vec<u8> {
        loop {
            if let Some(at) = self.held.iter().position(|b| *b == b'\n') {
                let rest = self.held.split_off(at + 1);
                let mut line = std::mem::replace(&mut self.held, rest);
                line.pop();
                return line;
            }
            self.read().expect("a line comes");
        }
    }

    /// Reads once. A read with a time limit may be interrupted by a stop of the whole process.
    fn read(&mut self) -> std::io::Result<()> {
        let mut more = [0; 65536];
        let n = loop {
            match self.stream.read(&mut more) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                n => break n?,
            }
        };
        assert!(n > 0, "it was closed");
        self.held.extend(&more[..n]);
        Ok(())
    }
}

/// Each of the members of each room says its lines; all get them, each speaker's in order, and no
/// line of another room. Others come and are reset meanwhile, and a speaker names all who have ever
/// been there.
#[test]
fn lines_reach_their_rooms_while_others_come_and_go() {
    const LINES: usize = 300;
    let (service, page, _folder) = rooms("handles_rooms");
    let port = service.port;
    let members: Vec<(usize, Member)> = (0..24).map(|n| (n, Member::enter(port, &format!("room{}", n % 4)))).collect();
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let churn: Vec<_> = (0..2)
        .map(|n| {
            let over = over.clone();
            std::thread::spawn(move || {
                let mut rounds = 0;
                while rounds < 150 || !over.load(std::sync::atomic::Ordering::Relaxed) && rounds < 800 {
                    let mut m = Member::enter(port, &format!("room{}", (rounds + n) % 4));
                    m.say(&format!("guest {n}"));
                    reset(m.stream);
                    rounds += 1;
                }
            })
        })
        .collect();
    let threads: Vec<_> = members
        .into_iter()
        .map(|(n, mut m)| {
            std::thread::spawn(move || {
                let mut next = [0usize; 24];
                let mut said = 0;
                while next.iter().enumerate().any(|(k, seen)| k % 4 == n % 4 && *seen < LINES) {
                    if said < LINES {
                        m.say(&format!("{n} {said}"));
                        said += 1;
                    }
                    let text = String::from_utf8(m.line()).expect("text");
                    if text.starts_with("guest") {
                        continue;
                    }
                    let (who, k) = text.split_once(' ').expect("two numbers");
                    let (who, k): (usize, usize) = (who.parse().expect("a number"), k.parse().expect("a number"));
                    assert_eq!(who % 4, n % 4, "a line of another room");
                    assert_eq!(k, next[who], "a line of {who} is lost, doubled or out of order");
                    next[who] += 1;
                }
                m
            })
        })
        .collect();
    let mut members: Vec<Member> = threads.into_iter().map(|t| t.join().expect("a member is content")).collect();
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    churn.into_iter().for_each(|t| t.join().expect("guests are content"));
    // To all who have ever been there: it reaches those who still are, and the others are counted.
    let before = admin::faults(&admin::status(page), "lost");
    members[0].say("all are named");
    for m in &mut members {
        loop {
            let line = m.line();
            if !line.starts_with(b"guest") {
                assert_eq!(line, b"all are named");
                break;
            }
        }
    }
    admin::eventually("handles of those who are gone are counted", || {
        admin::faults(&admin::status(page), "lost") > before + 100
    });
    // Others are closed by their handles.
    members[3].say("end of it");
    let mut closed = 0;
    for (n, m) in members.iter_mut().enumerate().filter(|(n, _)| n % 4 == 3 && *n != 3) {
        m.stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
        let mut rest = Vec::new();
        m.stream.read_to_end(&mut rest).unwrap_or_else(|e| panic!("{n} is not closed: {e}"));
        closed += 1;
    }
    assert_eq!(closed, 5);
}

fn reset(stream: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the option's value is of its type, and the descriptor is open.
    unsafe {
        libc::setsockopt(
            std::os::fd::AsRawFd::as_raw_fd(&stream),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            std::mem::size_of::<libc::linger>() as u32,
        );
    }
}

/// One member does not read: the others get all lines at their speed, its own are dropped whole
/// beyond `max_queued`, and counted. Later it gets lines again.
#[test]
fn a_member_that_does_not_read_holds_up_nobody() {
    let (service, page, _folder) = rooms("handles_slow");
    let mut all: Vec<Member> = (0..6).map(|_| Member::enter(service.port, "r")).collect();
    let mut slow = Member::enter(service.port, "r");
    let text = "x".repeat(10_000);
    let began = Instant::now();
    for round in 0..3000 {
        let from = round % all.len();
        all[from].say(&format!("{round} {text}"));
        for m in &mut all {
            let line = m.line();
            assert!(line.starts_with(format!("{round} x").as_bytes()) && line.len() > 10_000);
        }
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    admin::eventually("dropped messages are counted", || admin::faults(&admin::status(page), "overload") > 500);
    assert!(service.rss_kib() < 200_000, "{} KiB", service.rss_kib());
    // Whole lines in order, then gaps. A word is said again until it comes. No pause is the end,
    // since the kernel may need time to begin anew after a full window.
    let mut last = None;
    let began = Instant::now();
    for word in 1.. {
        assert!(began.elapsed() < PATIENCE, "it gets no lines any more, after {last:?}");
        all[0].say(&format!("again {word}"));
        assert_eq!(all[0].line(), format!("again {word}").as_bytes());
        if slow.catches_up(&mut last) {
            break;
        }
    }
    assert!(last.is_some(), "it got nothing of what came before");
}
