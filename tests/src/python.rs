//! An HTTP backend in Python: echoes bodies, sends bodies of any size by length, chunked or until
//! close.

use crate::{free_port, Process};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

const SERVER: &str = r#"
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    def log_message(self, *a): pass
    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            out = b""
            while True:
                n = int(self.rfile.readline().split(b";")[0], 16)
                out += self.rfile.read(n)
                self.rfile.readline()
                if n == 0: return out
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))
    def give(self, data, kind="length"):
        self.send_response(200)
        self.send_header("X-Seen-Method", self.command)
        self.send_header("X-Seen-For", self.headers.get("X-Forwarded-For", ""))
        if kind == "length": self.send_header("Content-Length", str(len(data)))
        elif kind == "chunked": self.send_header("Transfer-Encoding", "chunked")
        else: self.close_connection = True
        self.end_headers()
        if self.command == "HEAD": return
        if kind == "chunked":
            for i in range(0, len(data), 10000):
                piece = data[i:i + 10000]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        else: self.wfile.write(data)
    def do_GET(self):
        parts = self.path.strip("/").split("/")
        kind = parts[0] if parts[0] in ("chunked", "close") else "length"
        size = int(parts[-1]) if parts[-1].isdigit() else 2
        self.give((b"0123456789abcdef" * (size // 16 + 1))[:size], kind)
    do_HEAD = do_GET
    def do_POST(self): self.give(self.body())
    do_PUT = do_POST
http.server.ThreadingHTTPServer.request_queue_size = 512
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

/// The answer to `/size/<n>`, `/chunked/<n>` and `/close/<n>`.
pub fn body(size: usize) -> Vec<u8> {
    b"0123456789abcdef".iter().copied().cycle().take(size).collect()
}

/// A Python that has a module (Debian's packages belong to /usr/bin/python3); none: it is said, and
/// where tests must run, it fails them.
pub fn with(module: &'static str) -> Option<&'static str> {
    // Some take a second to be imported.
    static KNOWN: Mutex<BTreeMap<&str, Option<&str>>> = Mutex::new(BTreeMap::new());
    let has =
        |p: &&str| Command::new(p).args(["-c", &format!("import {module}")]).output().is_ok_and(|o| o.status.success());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = *known.entry(module).or_insert_with(|| ["/usr/bin/python3", "python3"].into_iter().find(has));
    drop(known);
    assert!(
        found.is_some() || std::env::var_os("CI").is_none(),
        "no python3 has {module}; scripts/setup.sh test installs it"
    );
    if found.is_none() {
        eprintln!("SKIPPED: no python3 has {module}");
    }
    found
}

impl Process {
    pub fn python_http() -> Process {
        let port = free_port();
        Process::start("python", Command::new("python3").args(["-c", SERVER, &port.to_string()]), port)
    }
}
