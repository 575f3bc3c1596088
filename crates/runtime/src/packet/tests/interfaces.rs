//! Real interfaces: veth pairs into namespaces of the test, a TUN device, UDP sockets. A test
//! without the rights that it needs is skipped, and says so.
use super::*;
use crate::stats::CoreStats;
use std::net::UdpSocket;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A program that runs until it is dropped.
struct Running {
    stop: Stop,
    thread: Option<JoinHandle<Result<Summary, Error>>>,
}

impl Running {
    fn new(mode: u64, wire: &str, out: &str, cores: usize) -> Running {
        let bind = pairs(&[("wire", wire.to_string()), ("out", out.to_string()), ("mon", "null".into())]);
        Running::apps(vec![(program(&[]), desc(mode))], Options { bind, ..Options::default() }, cores).0
    }

    /// Several apps, and their numbers.
    fn apps(apps: Vec<(Program, Desc)>, frames: Options, cores: usize) -> (Running, Arc<Vec<CoreStats>>) {
        let (stop, (tx, rx)) = (Stop::default(), mpsc::channel());
        let (told, wire) = (stop.clone(), frames.bind[0].1.clone());
        let thread = std::thread::spawn(move || {
            run_all(
                apps,
                frames,
                cores,
                told,
                Some(Box::new(move |r| tx.send(r.view.groups[0].stats.clone()).unwrap())),
            )
        });
        match rx.recv_timeout(Duration::from_secs(60)) {
            Ok(stats) => (Running { stop, thread: Some(thread) }, stats),
            Err(_) => panic!("{wire}: {}", thread.join().unwrap().unwrap_err()),
        }
    }

    fn end(mut self) -> Summary {
        self.stop.drain();
        self.thread.take().unwrap().join().unwrap().unwrap()
    }
}

fn sh(line: &str) -> Result<String, String> {
    let out = Command::new("sh").arg("-c").arg(line).output().map_err(|e| e.to_string())?;
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    if out.status.success() {
        Ok(text(&out.stdout))
    } else {
        Err(format!("{line}: {}{}", text(&out.stdout), text(&out.stderr)))
    }
}

/// Two namespaces, each with one end of a veth pair; the other ends are here.
struct Net {
    tag: String,
}

impl Net {
    fn new(tag: &str) -> Option<Net> {
        let net = Net { tag: format!("{tag}{}", std::process::id() % 100_000) };
        let t = &net.tag;
        for (end, ip) in [("a", 1), ("b", 2)] {
            let made = sh(&format!(
                "ip netns add wl{t}{end} && ip link add {t}{end}0 type veth peer name {t}{end}1 netns wl{t}{end} && \
                 ip link set {t}{end}0 up && ip -n wl{t}{end} addr add 10.77.0.{ip}/24 dev {t}{end}1 && ip -n wl{t}{end} link set {t}{end}1 up"
            ));
            if let Err(e) = made {
                eprintln!("SKIPPED: no namespaces here: {e}");
                return None;
            }
        }
        Some(net)
    }

    fn wire(&self, engine: &str) -> String {
        format!("{engine}:{0}a0,{engine}:{0}b0", self.tag)
    }

    /// A command of net.py in one of the namespaces.
    fn py(&self, end: &str, what: &str) -> String {
        format!("ip netns exec wl{}{end} {}", self.tag, py(what))
    }

    /// Whether every ping is answered: small ones, and ones of several frames.
    fn ping(&self) {
        assert_eq!(sh(&self.py("a", "ping 10.77.0.2 50 56")).unwrap().trim(), "50");
        assert_eq!(sh(&self.py("b", "ping 10.77.0.1 5 8000")).unwrap().trim(), "5");
    }

    /// Ten megabytes by TCP: more frames than any ring holds.
    fn transfer(&self) {
        let said = sh(&format!(
            "timeout 20 {} & timeout 20 {}; wait",
            self.py("b", "receive"),
            self.py("a", "send 10.77.0.2")
        ))
        .unwrap();
        assert_eq!(said.trim(), "10000000");
    }
}

fn py(what: &str) -> String {
    format!("python3 {}/src/packet/tests/net.py {what}", env!("CARGO_MANIFEST_DIR"))
}

impl Drop for Net {
    fn drop(&mut self) {
        for end in ["a", "b"] {
            let _ = sh(&format!("ip netns del wl{0}{end}; ip link del {0}{end}0 2>/dev/null", self.tag));
        }
    }
}

#[test]
fn af_packet_forwards_between_veths() {
    let Some(net) = Net::new("p") else { return };
    for cores in [1, 2] {
        let r = Running::new(BRIDGE, &net.wire("afpacket"), "null", cores);
        net.ping();
        let s = r.end();
        assert!(s.frames >= 60 && s.frames_dropped == 0, "{s:?}");
    }
    // Checksums and segmentation that the sender leaves to hardware are done on the way.
    let r = Running::new(BRIDGE, &net.wire("afpacket"), "null", 1);
    net.transfer();
    r.end();
}

#[test]
fn af_xdp_forwards_between_veths() {
    let Some(net) = Net::new("x") else { return };
    for (engine, cores) in [("afxdp", 1), ("nic", 2)] {
        let r = Running::new(BRIDGE, &net.wire(engine), "null", cores);
        net.ping();
        net.transfer();
        if engine == "afxdp" {
            // There is no second AF_XDP program on an interface: `nic` does without.
            Running::new(FORWARD, &net.wire("nic"), "null", 1).end();
        }
        let s = r.end();
        assert!(s.frames >= 7000 && s.frames_dropped == 0, "{s:?}");
    }
}

/// One counts, one passes on, two change their frames, each for itself: all by one socket for each
/// queue.
#[test]
fn apps_share_an_interface() {
    let Some(net) = Net::new("s") else { return };
    for (engine, cores) in [("afpacket", 1), ("afxdp", 1), ("nic", 2), ("afpacket", 2)] {
        let app = |name: &str, mode| (program(&[]), Desc { app: name.into(), cluster: Some(0), ..desc(mode) });
        let apps = vec![app("grow", GROW), app("bridge", BRIDGE), app("count", DROP), app("shrink", SHRINK)];
        let sinks = ["grow", "shrink"].map(|_| Arc::new(FrameSink { keep: true, ..FrameSink::default() }));
        let bind = pairs(&[
            ("wire", net.wire(engine)),
            ("mon", "null".into()),
            ("grow.out", "memory:grow".into()),
            ("shrink.out", "memory:shrink".into()),
            ("bridge.out", "null".into()),
            ("count.out", "null".into()),
        ]);
        let memory = ["grow", "shrink"]
            .into_iter()
            .zip(&sinks)
            .map(|(n, s)| (n.to_string(), (Frames::default(), Some(s.clone()))))
            .collect();
        let (r, stats) = Running::apps(apps, Options { bind, memory, ..Options::default() }, cores);
        net.ping();
        let s = r.end();
        let received: Vec<u64> =
            (0..4).map(|app| stats.iter().map(|c| c.apps[app].ports[0].frames.received.get()).sum()).collect();
        assert!(
            received[0] >= 60 && received.iter().all(|n| *n == received[0]) && s.frames_dropped == 0,
            "{engine}: {received:?} {s:?}"
        );
        // Each has seen all frames as they came.
        let [mut grown, mut shrunk] =
            sinks.map(|s| s.frames.lock().unwrap().iter().map(|f| f.2.clone()).collect::<Vec<_>>());
        assert_eq!((grown.len() as u64, shrunk.len() as u64), (received[0], received[0]), "{engine}");
        grown.iter_mut().for_each(|f| *f = f.split_off(24));
        shrunk.sort();
        grown.sort();
        assert!(grown == shrunk, "{engine}: what one has changed another has seen");
        let copied = |app: usize| stats.iter().map(|c| c.apps[app].ports[0].frames.copied.get()).sum::<u64>();
        assert_eq!(copied(2), 0, "{engine}: frames were copied for one that only counts");
        if cores == 1 {
            assert_eq!(
                (copied(0), copied(3)),
                (received[0], 0),
                "{engine}: the last one to change a frame has it for itself"
            );
        }
    }
}

#[test]
fn a_tun_device_answers_a_ping() {
    let name = format!("wlt{}", std::process::id() % 100_000);
    if sh("id -u").unwrap().trim() != "0" || !Path::new("/dev/net/tun").exists() {
        eprintln!("SKIPPED a_tun_device_answers_a_ping: no /dev/net/tun, or not root");
        return;
    }
    let r = Running::new(REPLY, &format!("tun:{name}"), "null", 1);
    sh(&format!("ip addr add 10.78.0.1/24 dev {name}")).unwrap();
    assert_eq!(sh(&py("ping 10.78.0.9 20 100")).unwrap().trim(), "20");
    assert!(r.end().frames_sent >= 20);
}

#[test]
fn the_host_takes_what_it_is_given() {
    let name = format!("wlk{}", std::process::id() % 100_000);
    if sh("id -u").unwrap().trim() != "0" || !Path::new("/dev/net/tun").exists() {
        eprintln!("SKIPPED the_host_takes_what_it_is_given: no /dev/net/tun, or not root");
        return;
    }
    let spare = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let r = Running::new(FORWARD, &format!("udp:{spare}"), &format!("kernel:{name}"), 1);
    sh(&format!("ip addr add 10.79.0.1/24 dev {name}")).unwrap();
    let host = UdpSocket::bind("10.79.0.1:7979").unwrap();
    host.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // Broadcast by Ethernet; IPv4 from 10.79.0.5, UDP to port 7979, without checksum.
    let mut frame = vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 0];
    let mut ip = vec![0x45, 0, 0, 33, 0, 0, 0, 0, 64, 17, 0, 0, 10, 79, 0, 5, 10, 79, 0, 1];
    let sum: u32 = ip.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    ip[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    frame.extend(ip);
    frame.extend([0, 9, 31, 43, 0, 13, 0, 0]);
    frame.extend(b"hello");
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&frame, spare).unwrap();
    let mut buf = [0; 100];
    let (n, from) = host.recv_from(&mut buf).unwrap();
    assert_eq!((&buf[..n], from.to_string().as_str()), (&b"hello"[..], "10.79.0.5:9"));
    r.end();
}

/// Signals and numbers while frames flow.
#[test]
fn the_admin_page_shows_frame_ports() {
    let spare = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (stop, (tx, rx)) = (Stop::default(), mpsc::channel());
    let bind = pairs(&[("wire", format!("udp:{spare}")), ("out", "null".into()), ("mon", "null".into())]);
    let options = ServeOptions {
        cpus: vec![0, 1],
        admin: Some(([127, 0, 0, 1], 0).into()),
        frames: Options { bind, ..Options::default() },
        stop: stop.clone(),
        ready: Some(Box::new(move |r| tx.send(r.admin.unwrap()).unwrap())),
        ..ServeOptions::default()
    };
    let specs = vec![AppSpec { program: program(&[]), desc: desc(ECHO), sets: Vec::new() }];
    let thread = std::thread::spawn(move || crate::serve(specs, options).unwrap());
    let admin = rx.recv_timeout(Duration::from_secs(60)).unwrap();
    let ask = |method: &str, path: &str| {
        use std::io::{Read, Write};
        let mut s = std::net::TcpStream::connect(admin).unwrap();
        write!(s, "{method} {path} HTTP/1.1\r\nHost: {admin}\r\nContent-Type: application/json\r\n\r\n").unwrap();
        let mut text = String::new();
        s.read_to_string(&mut text).unwrap();
        text
    };
    let get = |path| ask("GET", path);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    for n in [10, 20, 30] {
        client.send_to(&vec![1; n], spare).unwrap();
        assert_eq!(client.recv(&mut [0; 100]).unwrap(), n);
    }
    // The last frame is counted after it was sent.
    let sent = "wireloom_frame_sent_bytes_total{app=\"test\",port=\"wire\"} 60";
    let end = std::time::Instant::now() + Duration::from_secs(60);
    let mut metrics = get("/metrics");
    while !metrics.contains(sent) && std::time::Instant::now() < end {
        metrics = get("/metrics");
    }
    for line in ["wireloom_frames_received_total{app=\"test\",port=\"wire\"} 3", sent] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    assert!(!metrics.contains("wireloom_connections{app"), "{metrics}");
    assert!(ask("POST", "/signal/test/t.insert?k=5&v=6").contains("200 OK"));
    let next = ask("POST", "/signal/test/t.next?cursor=0");
    assert!(next.contains(r#""cursor":1"#) && next.contains(r#""key":{"k":5,"w":"x"},"value":6"#), "{next}");
    assert!(get("/status").contains(r#""instances":["udp:"#));
    stop.drain();
    assert_eq!(thread.join().unwrap().frames, 3);
}

#[test]
fn datagrams_go_back_to_their_senders() {
    let spare = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let r = Running::new(ECHO, &format!("udp:{spare}"), "null", 1);
    let clients: Vec<UdpSocket> = (0..5).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for (i, c) in clients.iter().enumerate() {
        c.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        for k in 0..20u8 {
            c.send_to(&vec![k; 100 * i + usize::from(k)], spare).unwrap();
        }
    }
    let mut buf = [0; 4096];
    for (i, c) in clients.iter().enumerate() {
        for k in 0..20u8 {
            let n = c.recv(&mut buf).unwrap();
            assert_eq!(buf[..n], vec![k; 100 * i + usize::from(k)], "client {i}");
        }
    }
    let s = r.end();
    assert_eq!((s.frames, s.frames_sent), (100, 100));
}
