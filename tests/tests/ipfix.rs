//! flow_tracker's export as IPFIX: a script, tshark and nfdump decode the collector's input; and
//! its table as CSV.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;
use wireloom_tests::packets::Captures;

/// All datagrams that come in while `f` runs.
fn collect(socket: UdpSocket, f: impl FnOnce()) -> Vec<Vec<u8>> {
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a time-out");
    let done = Arc::new(AtomicBool::new(false));
    let told = done.clone();
    let thread = std::thread::spawn(move || {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 65536]);
        loop {
            // All sent bytes are there when the app has ended.
            let last = told.load(Ordering::SeqCst);
            match socket.recv(&mut buffer) {
                Ok(n) => all.push(buffer[..n].to_vec()),
                Err(_) if last => return all,
                Err(_) => {}
            }
        }
    });
    f();
    done.store(true, Ordering::SeqCst);
    thread.join().expect("the collector")
}

fn export(name: &str, cores: &str, domains: &str) {
    if !wireloom_tests::require_tool("nfcapd") {
        return;
    }
    let Some(c) = Captures::make("ipfix", name, &[]) else { return };
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let collector = format!("collector={}", socket.local_addr().expect("an address"));
    let messages = collect(socket, || {
        c.run(
            "flow_tracker",
            &[
                "--bind",
                "wire=pcap:@/in.pcap",
                "--set",
                &collector,
                "--set",
                "name=edge one",
                "--cores",
                cores,
                "--rps",
                "on",
            ],
        );
    });
    let mut bytes = Vec::new();
    for m in messages {
        bytes.extend_from_slice(&(m.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&m);
    }
    std::fs::write(c.folder.join("messages.bin"), bytes).expect("writable");
    c.check(&[domains]);
}

#[test]
fn flows_are_exported() {
    export("ipfix", "0", "1");
}

#[test]
fn each_core_is_a_domain() {
    export("ipfix_2", "0-1", "2");
}

#[test]
fn flows_as_csv() {
    let Some(c) = Captures::make("flow_tracker", "flows_csv", &[]) else { return };
    c.run(
        "flow_tracker",
        &["--bind", "wire=pcap:@/in.pcap", "--dump", "flows=@/flows.csv", "--dump", "flows=@/flows.json"],
    );
    let text = std::fs::read_to_string(c.folder.join("flows.csv")).expect("written");
    let json: Vec<serde_json::Map<String, serde_json::Value>> =
        serde_json::from_str(&std::fs::read_to_string(c.folder.join("flows.json")).expect("written")).expect("JSON");
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().expect("a first line").split(',').collect();
    assert_eq!(head, ["src", "dst", "sport", "dport", "proto", "packets", "bytes"]);
    let cell = |v: &serde_json::Value| v.as_str().map_or_else(|| v.to_string(), String::from);
    let mut want: Vec<String> =
        json.iter().map(|row| head.iter().map(|h| cell(&row[*h])).collect::<Vec<_>>().join(",")).collect();
    let mut got: Vec<String> = lines.map(String::from).collect();
    want.sort();
    got.sort();
    assert!(got == want && got.len() > 1000, "{} rows as CSV, {} as JSON", got.len(), want.len());
    c.check(&[]);
}
