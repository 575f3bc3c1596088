//! Packet apps on captures. A script of `tests/packets` writes the input and the expected results,
//! the app runs from end to end, and the script judges its output. Models and checksums are
//! scapy's, tshark's and the scripts' own.

use crate::process::finish;
use crate::{root, Output, Process, Wireloom};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// One app's script with a folder of its own, removed at the end unless the test fails.
pub struct Captures {
    script: PathBuf,
    pub folder: PathBuf,
    python: &'static str,
}

impl Captures {
    /// Writes the captures. None if scapy or tshark is not installed (that fails in CI).
    pub fn make(script: &str, name: &str, args: &[&str]) -> Option<Captures> {
        let tools = (crate::python::with("scapy"), crate::require_tool("tshark"));
        let (Some(python), true) = tools else {
            return None;
        };
        let folder = std::env::temp_dir().join(format!("wireloom-packets-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
        let made = Captures { script: root().join(format!("tests/packets/{script}.py")), folder, python };
        made.script("make", args);
        Some(made)
    }

    /// Has the script judge; panics with its objections.
    pub fn check(&self, args: &[&str]) {
        self.script("check", args);
    }

    fn script(&self, what: &str, args: &[&str]) {
        let output = finish(Command::new(self.python).arg(&self.script).arg(what).arg(&self.folder).args(args));
        assert_eq!(
            output.code,
            Some(0),
            "{} {what} {args:?} in {}:\n{}",
            self.script.display(),
            self.folder.display(),
            output.text
        );
    }

    /// `wireloom run apps/APP.loom ARGS` to its end; `@` in an argument is the folder.
    pub fn run(&self, app: &str, args: &[&str]) -> Output {
        self.run_program(&format!("apps/{app}"), args)
    }

    /// The same of another program, by its path without `.loom`.
    pub fn run_program(&self, app: &str, args: &[&str]) -> Output {
        let folder = self.folder.display().to_string();
        let mut command = Wireloom::program();
        command.current_dir(root()).args(["run", &format!("{app}.loom")]);
        command.args(args.iter().map(|a| a.replace('@', &folder)));
        let output = finish(&mut command);
        assert_eq!(output.code, Some(0), "{app} {args:?} in {folder}:\n{}", tail(&output.text));
        output
    }
}

fn tail(text: &str) -> &str {
    let from = text.len().saturating_sub(4000);
    let from = (from..text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    &text[from..]
}

impl Drop for Captures {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::fs::remove_dir_all(&self.folder).ok();
        }
    }
}

impl Captures {
    /// Starts the app, and ends it by SIGINT some time after it said that it is ready. `@` as in
    /// `run`.
    pub fn run_for(&self, app: &str, args: &[&str], time: Duration) {
        let mut running = self.start(app, args);
        std::thread::sleep(time);
        running.signal(libc::SIGINT);
        let code = running.exit();
        assert_eq!(code, Some(0), "{app} {args:?}:\n{}", tail(&running.output()));
    }

    /// Starts the app and waits until it is ready.
    pub fn start(&self, app: &str, args: &[&str]) -> Process {
        let folder = self.folder.display().to_string();
        let mut command = Wireloom::program();
        command.current_dir(root()).args(["run", &format!("apps/{app}.loom")]);
        command.args(args.iter().map(|a| a.replace('@', &folder)));
        Process::start_ours(app, &mut command, crate::free_port())
    }
}
