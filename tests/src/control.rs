//! The control socket of a running app, and the commands that use it.

use crate::{finish, free_port, root, Output, Process, Wireloom, PATIENCE};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// An app with a folder for its socket that no other test uses.
pub struct Controlled {
    pub app: Process,
    pub folder: PathBuf,
}

impl Controlled {
    /// `wireloom run ARGS`, with the socket in a folder of its own.
    pub fn run(name: &str, args: &[&str]) -> Controlled {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let own = format!("wireloom-control-{}-{name}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(own);
        std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
        let app = Self::start(&folder, name, args);
        Controlled { app, folder }
    }

    /// One more app in the same folder.
    pub fn start(folder: &std::path::Path, name: &str, args: &[&str]) -> Process {
        let mut command = Wireloom::program();
        command.current_dir(root()).env("WIRELOOM_SOCKETS", folder.join("wireloom")).arg("run").args(args);
        Process::start_ours(name, &mut command, free_port())
    }

    /// `wireloom ARGS`.
    pub fn ask(&self, args: &[&str]) -> Output {
        self.ask_with(args, "")
    }

    /// With something on standard input.
    pub fn ask_with(&self, args: &[&str], input: &str) -> Output {
        std::fs::write(self.folder.join("input"), input).expect("the folder is writable");
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" < input"]).arg(Wireloom::binary());
        command.current_dir(&self.folder).env("WIRELOOM_SOCKETS", self.folder.join("wireloom")).args(args);
        finish(&mut command)
    }

    /// The output of a command that succeeds.
    pub fn told(&self, args: &[&str]) -> String {
        let out = self.ask(args);
        assert_eq!(out.code, Some(0), "{args:?}: {}", out.text);
        out.text
    }

    /// The message of a command that fails.
    pub fn refused(&self, args: &[&str]) -> String {
        let out = self.ask(args);
        assert_eq!(out.code, Some(1), "{args:?}: {}", out.text);
        out.text
    }

    pub fn json(&self, args: &[&str]) -> Value {
        let text = self.told(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"))
    }

    pub fn path(&self) -> PathBuf {
        let pid = self.app.child.id().to_string();
        let dir = self.folder.join("wireloom");
        let found = std::fs::read_dir(&dir)
            .expect("the folder of sockets")
            .flatten()
            .find(|e| e.file_name().to_string_lossy().contains(&pid));
        found.expect("a socket with the process's number").path()
    }

    pub fn connect(&self) -> ControlLine {
        let stream = UnixStream::connect(self.path()).expect("the control socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        ControlLine(BufReader::new(stream))
    }
}

impl Drop for Controlled {
    fn drop(&mut self) {
        self.app.kill();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// A connection that sends and takes lines.
pub struct ControlLine(pub BufReader<UnixStream>);

impl ControlLine {
    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    /// The next answer; None: the connection has ended.
    pub fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))),
        }
    }

    pub fn ask(&mut self, request: &str) -> Value {
        self.send(format!("{request}\n").as_bytes()).expect("sent");
        self.answer().unwrap_or_else(|| panic!("no answer to {request}"))
    }
}
