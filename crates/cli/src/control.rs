//! The client of the control socket: finds a running app, sends commands, and shows answers.

use crate::args::Target;
use crate::Failure;
use serde_json::{json, Map, Value};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wireloom_runtime::control;

pub type Object = Map<String, Value>;

/// A command's work on a core takes far less.
const WAIT: Duration = Duration::from_secs(60);
/// To tell what it is, a process has so long.
const HELLO_WAIT: Duration = Duration::from_secs(2);
/// The longest answer, and the longest one that tells what a process is.
const ANSWER_MAX: usize = 256 << 20;
const HELLO_MAX: usize = 64 << 10;

/// A connection to a running process. Root's commands ask the processes of all users: none may hold
/// them up, fill the memory or write to the terminal as it likes.
pub struct Client {
    stream: UnixStream,
    app: Option<String>,
    /// Bytes behind the last answer.
    ahead: Vec<u8>,
    wait: Duration,
    most: usize,
}

/// The refusal of a command.
pub struct Refused {
    pub text: String,
    pub answer: Object,
}

impl From<Refused> for Failure {
    fn from(r: Refused) -> Self {
        Failure::Said(r.text)
    }
}

impl From<String> for Refused {
    fn from(text: String) -> Self {
        Refused { text, answer: Map::new() }
    }
}

impl Client {
    /// The process that is meant, or the only one there is.
    pub fn find(target: &Target) -> Result<Client, Failure> {
        if let Some(path) = &target.control {
            let client = Client::connect(path, WAIT).map_err(|e| {
                Failure::Said(format!(
                    "cannot connect to {}: {e}; is the app running, with this --control?",
                    path.display()
                ))
            })?;
            return Ok(Client { app: target.app.clone(), ..client });
        }
        let running = running();
        let fits = |r: &&Running| {
            let app = target.app.as_ref().is_none_or(|a| r.apps.contains(a));
            app && target.pid.is_none_or(|p| p == r.pid)
        };
        let list = |all: &[&Running]| all.iter().map(|r| r.line()).collect::<String>();
        let fitting: Vec<&Running> = running.iter().filter(fits).collect();
        match fitting[..] {
            [one] => {
                let client = Client::connect(&one.path, WAIT)
                    .map_err(|e| Failure::Said(format!("cannot connect to {}: {e}", one.path.display())))?;
                Ok(Client { app: target.app.clone(), ..client })
            }
            [] if running.is_empty() => {
                let folders: Vec<String> = control::known_folders().iter().map(|d| d.display().to_string()).collect();
                // SAFETY: a plain system call.
                let (whose, others) = if unsafe { libc::geteuid() } == 0 {
                    ("", "")
                } else {
                    (" of this user", " (root finds those of all users)")
                };
                let looked = format!("there is no control socket in {}{others}", folders.join(", "));
                Err(Failure::Said(format!("no app{whose} is running: {looked}; start one with `wireloom run`, or name its socket: --control PATH")))
            }
            [] => {
                let what = match (&target.app, target.pid) {
                    (Some(a), _) => format!(
                        "no running app has the name `{a}`{}",
                        wireloom_ir::suggestions::hint(
                            a,
                            running.iter().flat_map(|r| r.apps.iter().map(String::as_str))
                        )
                    ),
                    (_, Some(p)) => format!("process {p} runs no app"),
                    _ => "no app fits".into(),
                };
                Err(Failure::Said(format!("{what}; running:{}", list(&running.iter().collect::<Vec<_>>()))))
            }
            _ => Err(Failure::Said(format!(
                "several apps are running; say which with --app or --pid:{}",
                list(&fitting)
            ))),
        }
    }

    fn connect(path: &Path, wait: Duration) -> std::io::Result<Client> {
        let stream = control::connect(path, wait)?;
        Ok(Client { stream, app: None, ahead: Vec::new(), wait, most: ANSWER_MAX })
    }

    /// A line of the process, within the time and the size that it has for an answer.
    fn line(&mut self) -> std::io::Result<Vec<u8>> {
        let (end, mut seen, mut piece) = (Instant::now() + self.wait, 0, vec![0; 64 << 10]);
        loop {
            if let Some(at) = self.ahead[seen..].iter().position(|b| *b == b'\n') {
                let rest = self.ahead.split_off(seen + at + 1);
                return Ok(std::mem::replace(&mut self.ahead, rest));
            }
            seen = self.ahead.len();
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            if seen > self.most {
                return Err(ErrorKind::InvalidData.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.ahead.extend_from_slice(&piece[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Sends a command and waits for its answer.
    pub fn ask(&mut self, command: Value) -> Result<Object, Refused> {
        let Value::Object(mut request) = command else { return Err("this is no command".to_string().into()) };
        if let Some(app) = &self.app {
            request.insert("app".into(), app.as_str().into());
        }
        let mut line = Value::Object(request).to_string();
        line.push('\n');
        self.stream.write_all(line.as_bytes()).map_err(|e| self.gone(&e))?;
        let answer = self.line().map_err(|e| self.gone(&e))?;
        let mut answer: Object =
            serde_json::from_slice(&answer).map_err(|e| format!("the answer cannot be read: {e}"))?;
        match answer.get("ok").and_then(Value::as_bool) {
            Some(true) => Ok(answer),
            _ => {
                let text =
                    answer.remove("error").and_then(|e| e.as_str().map(shown)).unwrap_or_else(|| "refused".into());
                Err(Refused { text, answer })
            }
        }
    }

    fn gone(&self, e: &std::io::Error) -> Refused {
        match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("no answer after {} s", self.wait.as_secs()).into(),
            ErrorKind::InvalidData => format!("an answer of more than {} bytes", self.most).into(),
            _ => Refused::from("the app has ended".to_string()),
        }
    }
}

/// A process with a control socket.
struct Running {
    path: PathBuf,
    pid: u32,
    apps: Vec<String>,
    /// Its user, if not the one who asks.
    other: Option<u32>,
}

impl Running {
    fn line(&self) -> String {
        let whose = self.other.map_or(String::new(), |uid| format!(" (of user {uid})"));
        format!("\n  --pid {:<8} {}{whose}", self.pid, self.apps.join(", "))
    }
}

/// The sockets that answer. Sockets of killed processes are removed.
fn running() -> Vec<Running> {
    let mut all = Vec::new();
    for (path, pid) in control::sockets() {
        match hello(&path) {
            Some(found) => all.push(found),
            None if pid.is_some_and(wireloom_codegen_c::is_gone) && is_ours(&path) => drop(std::fs::remove_file(&path)),
            None => {}
        }
    }
    all
}

fn is_ours(path: &Path) -> bool {
    // SAFETY: a plain system call.
    std::fs::symlink_metadata(path).is_ok_and(|m| m.uid() == unsafe { libc::geteuid() })
}

/// The name that a process gives itself; its number and its user are the kernel's word.
fn hello(path: &Path) -> Option<Running> {
    let mut client = Client { most: HELLO_MAX, ..Client::connect(path, HELLO_WAIT).ok()? };
    let (peer, uid) = control::peer(&client.stream)?;
    // SAFETY: a plain system call.
    let own = unsafe { libc::geteuid() };
    let answer = client.ask(json!({ "do": "hello" })).ok()?;
    let apps = answer.get("apps")?.as_array()?.iter().map(|a| a.as_str().filter(|a| is_name(a)).map(str::to_string));
    let said = answer.get("pid")?.as_u64()? as u32;
    // 0: a process of a namespace that is not seen from here.
    let pid = if peer == 0 { said } else { peer };
    Some(Running { path: path.into(), pid, apps: apps.collect::<Option<_>>()?, other: (uid != own).then_some(uid) })
}

fn is_name(text: &str) -> bool {
    text.len() <= 256 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

// ---- showing ----

/// Prints to standard output; false: its reader has gone.
pub fn print(text: &str) -> bool {
    std::io::stdout().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush()).is_ok()
}

/// Columns side by side, numbers to the right. `widths` are kept between pages.
pub fn columns(head: &[String], rows: &[Vec<Value>], widths: &mut Vec<usize>) -> String {
    let first = widths.is_empty();
    if first {
        *widths = head.iter().map(|h| h.chars().count()).collect();
    }
    let cells: Vec<Vec<String>> = rows.iter().map(|r| r.iter().map(cell).collect()).collect();
    for row in &cells {
        for (w, c) in widths.iter_mut().zip(row) {
            *w = (*w).max(c.chars().count());
        }
    }
    let numeric = |i: usize| {
        rows.iter().all(|r| r.get(i).is_none_or(|v| v.is_number() || v.is_null()))
            && rows.iter().any(|r| r.get(i).is_some_and(Value::is_number))
    };
    let right: Vec<bool> = (0..head.len()).map(numeric).collect();
    let line = |cells: &[String]| {
        let parts = cells.iter().enumerate().map(|(i, c)| {
            let pad = " ".repeat(widths[i].saturating_sub(c.chars().count()));
            if right[i] {
                pad + c
            } else {
                format!("{c}{pad}")
            }
        });
        parts.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
    };
    let mut out = if first { line(head) } else { String::new() };
    cells.iter().for_each(|c| out.push_str(&line(c)));
    out
}

/// A value for people: control characters never reach the terminal.
fn cell(v: &Value) -> String {
    let text = match v {
        Value::Null => "any".into(),
        Value::String(s) => s.clone(),
        Value::Array(a) if a.len() == 2 => format!("{}-{}", a[0], a[1]),
        v => v.to_string(),
    };
    shown(&text)
}

/// A text of another process.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
