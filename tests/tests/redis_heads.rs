//! Heads of RESP requests that are odd or wrong, sent to `redis_proxy` and to a real server. Both
//! pass over the same ones. Both end the connection after the same others, with the same error.

use wireloom_tests::redis::Service;
use wireloom_tests::{plain, Client, Process};

const PING: &str = "*1\r\n$4\r\nPING\r\n";

/// Each is sent in front of PING.
const HEADS: &[&str] = &[
    // Counts of no words.
    "*0\r\n",
    "*-1\r\n",
    "*-5\r\n",
    "*-2147483649\r\n",
    "*-9223372036854775808\r\n",
    "*-1\r\n*-1\r\n*0\r\n",
    "\r\n",
    "\n",
    "  \r\n",
    // Counts that are none.
    "*-9223372036854775809\r\n",
    "*9223372036854775807\r\n",
    "*2147483648\r\n",
    "*-0\r\n",
    "*00\r\n",
    "*-01\r\n",
    "*01\r\n$4\r\nPING\r\n",
    "*+1\r\n$4\r\nPING\r\n",
    "*\r\n",
    "*-\r\n",
    "* 1\r\n",
    "*1 \r\n",
    "*x\r\n",
    "*-x\r\n",
    "*1x\r\n",
    "*-1x\r\n",
    "*1\n$4\r\nPING\r\n",
    "*-1\n",
    "*0\n",
    // Sizes of the name.
    "*1\r\n$-1\r\n",
    "*1\r\n$-0\r\n",
    "*1\r\n$04\r\nPING\r\n",
    "*1\r\n$+4\r\nPING\r\n",
    "*1\r\n$\r\n",
    "*1\r\n$x\r\n",
    "*1\r\n$4xx\r\nPING\r\n",
    "*1\r\n$4\nPING\r\n",
    "*1\r\n$536870913\r\n",
    // Sizes of other words.
    "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
    "*2\r\n$4\r\nECHO\r\n$-1\r\n",
    "*2\r\n$4\r\nECHO\r\n$536870913\r\n",
    "*2\r\n$4\r\nECHO\r\n$99999999999999999999\r\n",
    "*2\r\n$3\r\nGET\r\n$-1\r\n",
    "*3\r\n$3\r\nSET\r\n$-1\r\n",
    "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$-1\r\n",
    "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870913\r\n",
    // Words without a size.
    "*1\r\n+PING\r\n",
    "*1\r\n:4\r\n",
    "*1\r\n*1\r\n$4\r\nPING\r\n",
    "*1\r\n\r\n",
    "*1\r\n\"x\r\n",
    "*1\r\n\x01\r\n",
    "*2\r\n$4\r\nECHO\r\nx\r\n",
    "*3\r\n$3\r\nSET\r\n:1\r\n",
    "*3\r\n$3\r\nSET\r\n$1\r\nk\r\nx\r\n",
];

/// The bytes that come until the connection ends, at the latest by QUIT.
fn answers(port: u16, head: &str) -> String {
    let mut client = Client::connect(port);
    client.send([head, PING, "*1\r\n$4\r\nQUIT\r\n"].concat());
    String::from_utf8_lossy(&client.rest()).into_owned()
}

/// A real server also names the byte that it found.
fn without_the_byte(said: &str) -> String {
    match said.split_once(", got '") {
        Some((front, _)) => format!("{front}\r\n"),
        None => said.to_string(),
    }
}

#[test]
fn heads_mean_what_they_mean_to_a_server() {
    if plain() {
        return;
    }
    let (redis, proxy) = (Process::redis(), Service::proxy(1, &[]));
    let mut wrong = Vec::new();
    for head in HEADS {
        let (theirs, ours) = (answers(redis.port, head), answers(proxy.port, head));
        assert!(theirs.contains("PONG") || theirs.contains("Protocol error"), "{head:?}: {theirs}");
        if without_the_byte(&theirs) != ours {
            wrong.push(format!("{head:?}: a server says {theirs:?}, the proxy {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
