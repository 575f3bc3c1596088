//! The client of the control socket: finds a running app, sends commands, and shows answers.

use crate::args::Target;
use crate::Failure;
use serde_json::{json, Map, Value};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wireloom_runtime::control;

pub type Object = Map<String, Value>;

/// A command's work on a core takes far less.
const WAIT: Duration = Duration::from_secs(60);

/// A connection to a running process.
pub struct Client {
    stream: BufReader<UnixStream>,
    app: Option<String>,
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
            let stream = connect(path).map_err(|e| {
                Failure::Said(format!(
                    "cannot connect to {}: {e}; is the app running, with this --control?",
                    path.display()
                ))
            })?;
            return Ok(Client { stream, app: target.app.clone() });
        }
        let running = running();
        let fits = |r: &&Running| {
            let app = target.app.as_ref().is_none_or(|a| r.apps.contains(a));
            app && target.pid.is_none_or(|p| p == r.pid)
        };
        let list = |all: &[&Running]| {
            all.iter().map(|r| format!("\n  --pid {:<8} {}", r.pid, r.apps.join(", "))).collect::<String>()
        };
        let fitting: Vec<&Running> = running.iter().filter(fits).collect();
        match fitting[..] {
            [one] => {
                let stream = connect(&one.path)
                    .map_err(|e| Failure::Said(format!("cannot connect to {}: {e}", one.path.display())))?;
                Ok(Client { stream, app: target.app.clone() })
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

    /// Sends a command and waits for its answer.
    pub fn ask(&mut self, command: Value) -> Result<Object, Refused> {
        let Value::Object(mut request) = command else { return Err("this is no command".to_string().into()) };
        if let Some(app) = &self.app {
            request.insert("app".into(), app.as_str().into());
        }
        let mut line = Value::Object(request).to_string();
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes()).map_err(gone)?;
        let mut answer = String::new();
        if self.stream.read_line(&mut answer).map_err(gone)? == 0 {
            return Err(gone(ErrorKind::UnexpectedEof.into()));
        }
        let mut answer: Object =
            serde_json::from_str(&answer).map_err(|e| format!("the answer cannot be read: {e}"))?;
        match answer.get("ok").and_then(Value::as_bool) {
            Some(true) => Ok(answer),
            _ => {
                let text = answer
                    .remove("error")
                    .and_then(|e| e.as_str().map(str::to_string))
                    .unwrap_or_else(|| "refused".into());
                Err(Refused { text, answer })
            }
        }
    }
}

fn gone(e: std::io::Error) -> Refused {
    match e.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("no answer after {} s", WAIT.as_secs()).into(),
        _ => Refused::from("the app has ended".to_string()),
    }
}

fn connect(path: &Path) -> std::io::Result<BufReader<UnixStream>> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    Ok(BufReader::with_capacity(1 << 20, stream))
}

/// A process with a control socket.
struct Running {
    path: PathBuf,
    pid: u32,
    apps: Vec<String>,
}

/// The sockets that answer. Sockets of killed processes are removed.
fn running() -> Vec<Running> {
    let mut all = Vec::new();
    for (path, pid) in control::sockets() {
        match hello(&path) {
            Some((pid, apps)) => all.push(Running { path, pid, apps }),
            None if pid.is_some_and(|p| !Path::new(&format!("/proc/{p}")).exists()) && is_ours(&path) => {
                drop(std::fs::remove_file(&path))
            }
            None => {}
        }
    }
    all
}

fn is_ours(path: &Path) -> bool {
    // SAFETY: a plain system call.
    std::fs::symlink_metadata(path).is_ok_and(|m| m.uid() == unsafe { libc::geteuid() })
}

fn hello(path: &Path) -> Option<(u32, Vec<String>)> {
    let stream = connect(path).ok()?;
    stream.get_ref().set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    let answer = Client { stream, app: None }.ask(json!({ "do": "hello" })).ok()?;
    let apps = answer.get("apps")?.as_array()?.iter().filter_map(|a| a.as_str().map(str::to_string)).collect();
    Some((answer.get("pid")?.as_u64()? as u32, apps))
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
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
