//! Handlers whose bounds are those of years: they end by `--handler-limit`, and their core serves
//! on.

use std::time::{Duration, Instant};
use wireloom_tests::captures::{read, sport, udp, write, Runs, EPOCH, MS};
use wireloom_tests::folder::Folder;
use wireloom_tests::process::finish;
use wireloom_tests::{admin, free_port, Client, Wireloom};

/// `state` keeps a handler from pausing. Each function calls the one before it in a row, so that
/// 2^40 rounds stand in no loop of the handler.
const SERVICE: &str = r#"
unit Line { text: bytes<64> until "\n" }
protocol lines {
    request  Line
    response Line
    stateless
    on fault(f) { if f.kind == overload { reply Line { text: "too long" } } else { reply Line { text: "other" } } }
}

fn grind(a: u64, rounds: u64) -> u64 {
    var h = a
    loop max 1000000 {
        loop max 4000000000 {
            h = h * 31 + 7
            if h % rounds == rounds - 1 { break }
        }
    }
    h
}

fn row0(a: u64) -> u64 { var h = a  loop max 2000000 { h = h * 31 + 7  if h == 9 { break } } h }
FUNCTIONS
app slow {
    param port: u16
    port client = listen tcp(port) as lines
    state last: u64

    on client(line) {
        if line.text == "loop" { last = grind(last, u64(1) << 63) }
        if line.text == "calls" { last = row19(last) }
        reply line
    }
}
"#;

fn service() -> String {
    let row = |n: u32| format!("fn row{n}(a: u64) -> u64 = row{0}(a) ^ row{0}(a + 1)\n", n - 1);
    SERVICE.replace("FUNCTIONS", &(1..20).map(row).collect::<String>())
}

#[test]
fn a_service_gives_up_what_takes_too_long() {
    let folder = Folder::new("handler_limit");
    std::fs::write(folder.file("slow.loom"), service()).expect("the folder is writable");
    for extra in [&["--cores", "1"][..], &["--cores", "1", "--interpret"]] {
        let args = [&["--handler-limit", "1"], extra].concat();
        let mut service = Wireloom::run_file(&folder.name_of("slow.loom"), &args, |_| {});
        let (mut slow, mut other) = (Client::connect(service.port), Client::connect(service.port));
        for word in ["loop\n", "calls\n"] {
            let begun = Instant::now();
            slow.send(word);
            std::thread::sleep(Duration::from_millis(100));
            other.send("quick\n");
            slow.expect("too long\n");
            other.expect("quick\n");
            assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
        }
        service.signal(libc::SIGTERM);
        assert_eq!(service.exit_code(Duration::from_secs(20)), Some(0), "{}", service.output());
        let place = "slow.client: overload at ";
        assert!(service.output().contains(place), "{}", service.output());
    }
}

/// A handler that pauses has no limit: nobody waits for it but its client.
#[test]
fn a_handler_that_pauses_has_no_limit() {
    let folder = Folder::new("handler_limit_pauses");
    let text = service().replace("last = grind(last, u64(1) << 63)", WAITS).replace("    state last: u64\n", "");
    std::fs::write(folder.file("slow.loom"), text.replace("last = row19(last)", "")).expect("the folder is writable");
    let args = ["--handler-limit", "1", "--cores", "1"];
    let service = Wireloom::run_file(&folder.name_of("slow.loom"), &args, |_| {});
    let (mut slow, mut other) = (Client::connect(service.port), Client::connect(service.port));
    slow.send("loop\n");
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    other.send("quick\n").expect("quick\n");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    slow.expect("loop\n");
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
}

const WAITS: &str = "
            let late = now + 2500ms
            var h = u64(1)
            loop max 4000000000 {
                h = h * 31 + 7
                if now > late and h != 0 { break }
            }
";

/// A timer and a signal that compute for ever end, and the next tick is served.
#[test]
fn timers_and_signals_give_up_what_takes_too_long() {
    let folder = Folder::new("handler_limit_timer");
    let timer = "    state ticks: u64
    state ends: u64
    every 50ms {
        ticks += 1
        if ticks == 1 { last = row19(last)  ends += 1 }
        if ticks == 3 { last = grind(last, u64(1) << 63)  ends += 1 }
    }
    signal rest() -> u64 { last = row19(last)  last }
";
    let text = service().replace("    state last: u64\n", &format!("    state last: u64\n{timer}"));
    let text = text.replace(
        "reply line",
        r#"if ticks < 5 { reply Line { text: "not yet" } } else { reply Line { text: if ends == 0 { "ticks" } else { "ends" } } }"#,
    );
    std::fs::write(folder.file("slow.loom"), text).expect("the folder is writable");
    for extra in [&["--cores", "1"][..], &["--cores", "1", "--interpret"]] {
        let page = free_port();
        let admin = page.to_string();
        let args = [&["--handler-limit", "1", "--admin", &admin], extra].concat();
        let sockets = folder.file("sockets");
        let mut service = Wireloom::run_file(&folder.name_of("slow.loom"), &args, |c| {
            c.env("WIRELOOM_SOCKETS", &sockets);
        });
        let mut client = Client::connect(service.port);
        let begun = Instant::now();
        let mut answer = Vec::new();
        while answer != b"ticks\n" && begun.elapsed() < Duration::from_secs(20) {
            client.send("state\n");
            answer = client.take_until(b"\n");
            assert!(answer != b"ends\n", "{}", service.output());
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(answer == b"ticks\n" && begun.elapsed() >= Duration::from_millis(1500), "{answer:?}");
        let said = finish(Wireloom::program().args(["signal", "rest"]).env("WIRELOOM_SOCKETS", &sockets));
        assert!(said.code != Some(0), "{}", said.text);
        client.send("state\n").expect("ticks\n");
        let faults = "wireloom_faults_total{app=\"slow\",kind=\"overload\"";
        assert_eq!(admin::sample(&admin::metrics(page), faults), 3, "{}", admin::metrics(page));
        service.signal(libc::SIGTERM);
        assert_eq!(service.exit_code(Duration::from_secs(20)), Some(0), "{}", service.output());
    }
}

/// Frames of a capture, in one batch: each has time of its own.
#[test]
fn a_frame_that_takes_too_long_is_a_fault() {
    let folder = Folder::new("handler_limit_frames");
    let program = "
        use std.packet
        app grinder {
            port wire = nic(\"wire\")
            port out = nic(\"out\")
            state last: u64
            counter late
            on wire(p: Packet) {
                if let u = p.udp {
                    let rounds = if u.src == 7 { u64(1) << 63 } else { u64(50000000) }
                    var n = u64(0)
                    loop max 1000 {
                        if n > rounds { break }
                        loop max 4000000000 {
                            last = last * 31 + 7
                            n += 1
                            if n > rounds { break }
                        }
                    }
                }
                p -> out
            }
            on fault(f) { if f.kind == overload { late += 1 } }
        }
    ";
    std::fs::write(folder.file("grinder.loom"), program).expect("the folder is writable");
    let frames = (0..12).map(|n| (EPOCH + n * MS, udp(1, if n == 5 { 7 } else { n as u16 + 20 }, 9, 22))).collect();
    write(&folder.file("in.pcap"), &frames);
    let args = ["--bind", "wire=pcap:@/in.pcap", "--bind", "out=pcap:@/out.pcap", "--handler-limit", "1"];
    let text = folder.run("grinder.loom", &args);
    assert!(text.contains("12 frames received, 11 sent, 0 without an output, 1 faults"), "{text}");
    let sent: Vec<u16> = read(&folder.file("out.pcap")).iter().map(|(_, f)| sport(f)).collect();
    assert_eq!(sent, [20, 21, 22, 23, 24, 26, 27, 28, 29, 30, 31]);
}
