//! Child processes: ours and real servers. All are killed when dropped.

use crate::client::{CLOSING, PATIENCE};
use crate::{free_port, plain, root, stand_in};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// True if the tool is installed. If not: says so, and fails the test in CI.
pub fn require_tool(name: &str) -> bool {
    let found = std::env::var_os("PATH")
        .map(|p| std::env::split_paths(&p).chain([PathBuf::from("/usr/sbin")]).any(|d| d.join(name).exists()))
        .unwrap_or(false);
    if !found {
        assert!(std::env::var_os("CI").is_none(), "{name} is not installed; scripts/setup.sh test installs it");
        eprintln!("SKIPPED: {name} is not installed");
    }
    found
}

/// A command that runs as another user where the tests run as root: some servers refuse to be root.
pub fn as_user<'c>(user: &str, command: &'c mut Command) -> &'c mut Command {
    // SAFETY: no arguments, no memory.
    if unsafe { libc::geteuid() } == 0 {
        let id = |flag| {
            let out = finish(Command::new("id").args([flag, user]));
            out.out.trim().parse().unwrap_or_else(|_| panic!("there is a user `{user}`"))
        };
        command.gid(id("-g")).uid(id("-u"));
    }
    command
}

/// Where `scripts/clients.sh` has installed a client's library. If it is not there: says so, and
/// fails the test in CI where it could have been.
pub fn client_library(client: &str, needs: &str) -> Option<PathBuf> {
    let folder =
        std::env::var_os("WIRELOOM_CLIENTS").map_or_else(|| root().join("target/clients"), PathBuf::from).join(client);
    if folder.join("installed").exists() {
        return Some(folder);
    }
    let has_tool =
        Command::new(needs).arg("--version").output().is_ok() || Command::new(needs).arg("version").output().is_ok();
    let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    let why = format!(
        "{client}: nothing in {}; scripts/setup.sh test installs it where there is `{needs}`\n{log}",
        folder.display()
    );
    assert!(std::env::var_os("CI").is_none() || !has_tool, "{why}");
    eprintln!("SKIPPED: {why}");
    None
}

pub struct Process {
    pub child: Child,
    pub port: u16,
    pub log: PathBuf,
}

impl Process {
    /// Starts a command whose output goes to a log, and waits until the port accepts.
    pub fn start(name: &str, command: &mut Command, port: u16) -> Process {
        let mut process = Self::spawn(name, command, port);
        process.wait(PATIENCE, "opens its port", |p| TcpStream::connect(("127.0.0.1", p.port)).is_ok());
        process
    }

    /// Starts one of ours, and waits until it says that it is ready: a connection made to find that
    /// out would be its first client.
    pub fn start_ours(name: &str, command: &mut Command, port: u16) -> Process {
        let mut process = Self::spawn(name, command, port);
        // It compiles before, which a busy machine makes long.
        process.wait(HANGS, "says that it is ready", |p| p.output().contains("wireloom: ready "));
        process
    }

    /// Starts a server that has no port on this side, and waits until it has said something.
    pub fn start_saying(name: &str, command: &mut Command, id: u16, text: &str) -> Process {
        let mut process = Self::spawn(name, command, id);
        process.wait(PATIENCE, &format!("says `{text}`"), |p| p.output().contains(text));
        process
    }

    fn spawn(name: &str, command: &mut Command, port: u16) -> Process {
        let log = std::env::temp_dir().join(format!("wireloom-test-{}-{name}-{port}.log", std::process::id()));
        let file = std::fs::File::create(&log).expect("the temporary folder is writable");
        let out = file.try_clone().expect("a descriptor");
        let child = spawned(command.stdin(Stdio::null()).stdout(out).stderr(file));
        Process { child, port, log }
    }

    fn wait(&mut self, longest: Duration, what: &str, ready: impl Fn(&Process) -> bool) {
        let until = Instant::now() + longest;
        while !ready(self) {
            if let Some(status) = self.child.try_wait().expect("the child is ours") {
                panic!("exited with {status} before it {what}:\n{}", self.output());
            }
            assert!(
                Instant::now() < until,
                "after {longest:?} it still has not done what is waited for, {what}:\n{}",
                self.output()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Its output so far, with the lines that it has logged and not written yet.
    pub fn output(&self) -> String {
        let until = Instant::now() + PATIENCE;
        while self.writes_lines() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Whether its thread that writes the log has not done so.
    fn writes_lines(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        // The state stands behind the name.
        let runs = |stat: String| stat.contains(" (log) R ") || stat.contains(" (log) D ");
        tasks.filter_map(|t| std::fs::read_to_string(t.path().join("stat")).ok()).any(runs)
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: kill on our own child's pid.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// SIGSTOP, and waits until all its threads stand still: the signal alone returns before.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let tasks = format!("/proc/{}/task", self.child.id());
        let stands = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // The state is the word behind the name, which is in brackets.
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        };
        let until = Instant::now() + PATIENCE;
        while !std::fs::read_dir(&tasks).expect("it runs").flatten().all(stands) {
            assert!(Instant::now() < until, "it does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Goes on behind `stop`.
    pub fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }

    /// Waits for an exit of its own accord; None if it does not come.
    pub fn exit(&mut self) -> Option<i32> {
        self.exit_code(CLOSING)
    }

    /// Waits for the exit; None after the time.
    pub fn exit_code(&mut self, within: Duration) -> Option<i32> {
        let until = Instant::now() + within;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().expect("the child is ours") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// A test that fails shows the state of its processes, and the end of their output.
    fn tell(&mut self) {
        let state = match self.child.try_wait() {
            Ok(Some(status)) => format!("it had ended, {status}"),
            _ => "it ran".to_string(),
        };
        let output = self.output();
        let from = output.char_indices().rev().nth(2000).map_or(0, |(at, _)| at);
        eprintln!("{} on port {}: {state}; its output:\n{}", self.log.display(), self.port, &output[from..]);
    }

    /// Resident memory, in KiB.
    pub fn rss_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or("");
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    /// Processor time used so far, with that of its children that have ended, in milliseconds.
    /// Other load does not count.
    pub fn cpu_ms(&self) -> u64 {
        self.ticks(11..15) * 10
    }

    /// The same without its children, such as the compiler.
    pub fn own_cpu_ms(&self) -> u64 {
        self.ticks(11..13) * 10
    }

    /// The sum of utime, stime, cutime and cstime, in ticks of 10 ms.
    fn ticks(&self, fields: std::ops::Range<usize>) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or("");
        let all: Vec<u64> = after_name.split_whitespace().map(|f| f.parse().unwrap_or(0)).collect();
        all.get(fields).map_or(0, |f| f.iter().sum())
    }

    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).map_or(0, |d| d.count())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell()
        }
        self.kill();
        std::fs::remove_file(&self.log).ok();
    }
}

/// Our binary with one app.
pub struct Wireloom;

impl Wireloom {
    pub fn binary() -> PathBuf {
        let path = std::env::var_os("WIRELOOM").map_or_else(Self::beside, PathBuf::from);
        assert!(
            path.exists(),
            "{} is not built; run `cargo build --profile checks --bins`, or name another by WIRELOOM",
            path.display()
        );
        path
    }

    /// A command of it. Modules are verified behind all passes, not behind each: that is done by
    /// [`Wireloom::command`] and by tests that compile in their own process. Code is optimised as
    /// `WIRELOOM_TESTS_OPT` says; tests that measure it use [`fully_compiled`].
    pub fn program() -> Command {
        let mut command = Command::new(Self::binary());
        command.env("WIRELOOM_VERIFY", "end");
        if let Ok(opt) = std::env::var("WIRELOOM_TESTS_OPT") {
            command.env("WIRELOOM_OPT", opt);
        }
        command
    }

    /// The binary that was built with the test: tests lie in `target/PROFILE/deps`.
    fn beside() -> PathBuf {
        let test = std::env::current_exe().expect("a test has a file");
        let profile = test.parent().and_then(Path::parent).expect("in target/PROFILE/deps");
        profile.join("wireloom")
    }

    /// `wireloom run apps/<app>.loom --set port=… <extra>` on a free port.
    pub fn run(app: &str, extra: &[&str]) -> Process {
        Self::run_with(app, extra, |_| {})
    }

    /// The same, with a last word on the command (limits, environment).
    pub fn run_with(app: &str, extra: &[&str], adjust: impl FnOnce(&mut Command)) -> Process {
        if plain() {
            return stand_in::start(app, extra, adjust);
        }
        Self::run_file(&format!("apps/{app}.loom"), extra, adjust)
    }

    /// `wireloom run <file> --set port=… <extra>` on a free port. The file's name counts from the
    /// root.
    pub fn run_file(file: &str, extra: &[&str], adjust: impl FnOnce(&mut Command)) -> Process {
        let name = Path::new(file).file_stem().map_or(file.into(), |s| s.to_string_lossy());
        let port = free_port();
        let mut command = Self::program();
        command.current_dir(root()).args(["run", file, "--set", &format!("port={port}")]).args(extra);
        adjust(&mut command);
        Process::start_ours(&name, &mut command, port)
    }
}

/// A command that has not ended after this time hangs.
const HANGS: Duration = Duration::from_secs(600);

/// The output of a command, its exit code (None: by a signal, or because it hung), and its cost.
pub struct Output {
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard output and standard error.
    pub text: String,
    /// Processor time of it and of its children that have ended. Other load does not count.
    pub cpu: Duration,
}

impl Wireloom {
    /// Runs `wireloom <args>` to its end.
    pub fn command(args: &[&str]) -> Output {
        Self::command_with(args, |_| {})
    }

    pub fn command_with(args: &[&str], adjust: impl FnOnce(&mut Command)) -> Output {
        let mut command = Self::program();
        command.current_dir(root()).env_remove("WIRELOOM_VERIFY").args(args);
        adjust(&mut command);
        finish(&mut command)
    }
}

/// Programs of this command are compiled without optimisation, in a fourth of the time: for tests
/// of the meaning of programs.
pub fn quickly_compiled(command: &mut Command) -> &mut Command {
    command.env("WIRELOOM_OPT", "0")
}

/// Programs of this command are compiled as for users, whatever `WIRELOOM_TESTS_OPT` says.
pub fn fully_compiled(command: &mut Command) -> &mut Command {
    command.env_remove("WIRELOOM_OPT")
}

/// How a child ended, if it has, and its processor time. It is no longer there then.
fn ended(child: &Child) -> Option<(Option<i32>, Duration)> {
    let mut status = 0;
    // SAFETY: plain numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: our own child, not waited for yet, and valid places for the results.
    let got = unsafe { libc::wait4(child.id() as i32, &raw mut status, libc::WNOHANG, &raw mut usage) };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    (got == child.id() as i32).then(|| (code, time(usage.ru_utime) + time(usage.ru_stime)))
}

/// Runs a command to its end.
// `ended` waits for the child: clippy looks for `wait` only.
#[allow(clippy::zombie_processes)]
pub fn finish(command: &mut Command) -> Output {
    let mut child = spawned(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let (out, err) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let until = Instant::now() + HANGS;
    let (code, cpu) = loop {
        if let Some(end) = ended(&child) {
            break end;
        }
        if Instant::now() > until {
            child.kill().ok();
            child.wait().ok();
            break (None, HANGS);
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let out = out.join().unwrap_or_default();
    let text = format!("{out}{}", err.join().unwrap_or_default());
    Output { code, out, text, cpu }
}

/// Starts a command. A program that a test has just written may be busy for a moment. A child that
/// another test forked meanwhile has the file open for writing until it begins its own program.
fn spawned(command: &mut Command) -> Child {
    let until = Instant::now() + PATIENCE;
    loop {
        match command.spawn() {
            Err(e) if e.raw_os_error() == Some(libc::ETXTBSY) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5))
            }
            child => return child.expect("the command starts"),
        }
    }
}

/// Reads a pipe to its end beside the rest.
fn collect(pipe: Option<impl std::io::Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).ok();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// `127.0.0.1:p1,127.0.0.1:p2`, as the `servers` parameter takes it.
pub fn servers(ports: &[u16]) -> String {
    let list: Vec<String> = ports.iter().map(|p| format!("127.0.0.1:{p}")).collect();
    format!("servers={}", list.join(","))
}

impl Process {
    pub fn memcached() -> Process {
        Self::memcached_on(free_port())
    }

    pub fn memcached_on(port: u16) -> Process {
        Self::memcached_server(port, &["-m", "256"])
    }

    /// With these arguments of memcached.
    pub fn memcached_with(args: &[&str]) -> Process {
        Self::memcached_server(free_port(), args)
    }

    fn memcached_server(port: u16, args: &[&str]) -> Process {
        let usual = ["-u", "root", "-l", "127.0.0.1", "-t", "1", "-U", "0", "-c", "4096"];
        Process::start(
            "memcached",
            Command::new("memcached").args(usual).args(args).args(["-p", &port.to_string()]),
            port,
        )
    }

    pub fn redis() -> Process {
        Self::redis_on(free_port())
    }

    pub fn redis_on(port: u16) -> Process {
        Self::redis_server(port, &[])
    }

    /// With these arguments of redis-server.
    pub fn redis_with(args: &[&str]) -> Process {
        Self::redis_server(free_port(), args)
    }

    fn redis_server(port: u16, args: &[&str]) -> Process {
        let usual = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        Process::start(
            "redis",
            Command::new("redis-server").args(usual).args(args).args(["--port", &port.to_string()]),
            port,
        )
    }

    /// nginx with these lines in its `server` block.
    pub fn nginx(server: &str) -> Process {
        Self::nginx_with(server, |_| {})
    }

    /// Where nginx with this port has its files.
    pub fn nginx_folder(port: u16) -> PathBuf {
        std::env::temp_dir().join(format!("wireloom-test-nginx-{}-{port}", std::process::id()))
    }

    /// One process: a worker would outlive its master, which is killed at the test's end.
    pub fn nginx_with(server: &str, adjust: impl FnOnce(&mut Command)) -> Process {
        Self::nginx_on(free_port(), server, adjust)
    }

    pub fn nginx_on(port: u16, server: &str, adjust: impl FnOnce(&mut Command)) -> Process {
        let folder = Self::nginx_folder(port);
        std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
        let d = folder.display();
        let text = format!(
            "master_process off; daemon off; pid {d}/pid; error_log {d}/err warn; events {{ worker_connections 16384; }}\n\
             http {{ access_log off; client_body_temp_path {d}/a; proxy_temp_path {d}/b; fastcgi_temp_path {d}/c; uwsgi_temp_path {d}/e; \
             scgi_temp_path {d}/f; client_max_body_size 0; keepalive_requests 1000000; server {{ listen 127.0.0.1:{port}; root {d}; {server} }} }}\n"
        );
        let conf = folder.join("nginx.conf");
        std::fs::write(&conf, text).expect("the temporary folder is writable");
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-p").arg(&folder).arg("-c").arg(&conf);
        adjust(&mut command);
        Process::start("nginx", &mut command, port)
    }
}
