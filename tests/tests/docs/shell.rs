//! A shell in which the commands of a page run one after the other, in a folder of their own. The
//! pages' port numbers are exchanged for free ones.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;
use wireloom_tests::{free_port, root, Wireloom, PATIENCE};

/// Port numbers that pages may use in commands.
const PORTS: &[&str] = &["8080", "8081", "9001", "9002", "9900", "11211", "11212", "11213", "7000", "7001", "7002"];
const MARK: &str = "--- done ---";

pub struct Shell {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    folder: PathBuf,
    ports: Vec<(String, String)>,
}

impl Shell {
    pub fn new(name: &str) -> Shell {
        let folder = std::env::temp_dir().join(format!("wireloom-docs-{}-{name}", std::process::id()));
        std::fs::create_dir_all(folder.join(".bin")).expect("the temporary folder is writable");
        let link = |from: &Path, to: &str| {
            std::os::unix::fs::symlink(from, folder.join(to)).expect("the temporary folder is writable");
        };
        link(&Wireloom::binary().canonicalize().expect("the binary is there"), ".bin/wireloom");
        link(&root().join("apps"), "apps");
        link(&root().join("examples"), "examples");
        let path = format!("{}:{}", folder.join(".bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("bash");
        // With `-m` every command in the background is `%1`, `%2`, … as in a terminal.
        command.args(["--norc", "-m"]).current_dir(&folder).env("PATH", path).env("LC_ALL", "C.UTF-8");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("bash is there");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            stdout
                .split(b'\n')
                .map_while(Result::ok)
                .try_for_each(|l| send.send(String::from_utf8_lossy(&l).into_owned()))
        });
        let ports = PORTS.iter().map(|p| (p.to_string(), free_port().to_string())).collect();
        let mut shell = Shell { child, stdin, lines, folder, ports };
        shell.say("exec 2>&1");
        shell
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn say(&mut self, text: &str) {
        writeln!(self.stdin, "{text}").expect("the shell lives");
    }

    /// Runs a command; a service in the background has said that it is ready when this returns.
    pub fn run(&mut self, command: &str) -> Vec<String> {
        let mut command = command.to_string();
        for (doc, real) in &self.ports {
            command = exchange(&command, doc, real);
        }
        if let Some(service) = command.strip_suffix('&') {
            self.say("rm -f .log; touch .log");
            self.say(&format!("{} >.log 2>&1 </dev/null &", service.trim_end()));
            self.say("for i in $(seq 6000); do grep -q 'wireloom: ready' .log && break; kill -0 $! || break; sleep 0.01; done; cat .log");
        } else {
            self.say(&format!("{{ {command}\n}} </dev/null"));
        }
        // A last line without a line break, as in a terminal, stands before the next prompt.
        self.say(&format!("printf '\\n%s\\n' '{MARK}'"));
        let mut out = Vec::new();
        loop {
            let line = self
                .lines
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("`{command}` does not end; so far:\n{}", out.join("\n")));
            if line == MARK {
                break;
            }
            // Only the first run of a program says so.
            if line.starts_with("wireloom: compiling ") {
                continue;
            }
            out.push(
                self.ports
                    .iter()
                    .fold(line.trim_end_matches('\r').to_string(), |l, (doc, real)| exchange(&l, real, doc)),
            );
        }
        if out.last().is_some_and(String::is_empty) {
            out.pop();
        }
        out
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Services that the page leaves running end with the shell.
        writeln!(self.stdin, "kill $(jobs -p); wait; exit").ok();
        let mut left = 500;
        while left > 0 && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
            left -= 1;
        }
        self.child.kill().ok();
        self.child.wait().ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// Replaces a number where it stands as a whole.
fn exchange(text: &str, from: &str, to: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let (before, after) = (&rest[..at], &rest[at + from.len()..]);
        let whole = !before.ends_with(|c: char| c.is_ascii_alphanumeric())
            && !after.starts_with(|c: char| c.is_ascii_alphanumeric());
        out.push_str(before);
        out.push_str(if whole { to } else { from });
        rest = after;
    }
    out + rest
}
