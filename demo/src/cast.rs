//! The programs of the demo: two proxies and their backends, each a `wireloom run` of its own on
//! loopback.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const BACKENDS: usize = 3;

/// One program: how to start it again after it was killed.
pub struct Actor {
    pub name: String,
    pub port: u16,
    pub admin: Option<u16>,
    /// The network namespace that it runs in.
    namespace: Option<String>,
    args: Vec<String>,
    child: Option<Child>,
    /// How often it was started.
    lives: usize,
    log: PathBuf,
}

/// A proxy and what stands behind it.
pub struct Side {
    pub proxy: Actor,
    pub backends: Vec<Actor>,
}

pub struct Cast {
    pub memcached: Side,
    pub http: Side,
    /// Logs, and programs that are written for the demo.
    pub folder: PathBuf,
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

pub fn binary() -> std::io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.with_file_name("wireloom"))
}

/// The repository: where `apps/` is.
fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// The kernel's unit of CPU time.
pub fn ticks_per_second() -> f64 {
    // SAFETY: a query without arguments that could be wrong.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64
}

impl Actor {
    fn new(folder: &std::path::Path, name: String, app: &str, admin: bool, sets: &[String]) -> std::io::Result<Actor> {
        let port = free_port()?;
        let admin = if admin { Some(free_port()?) } else { None };
        let mut args = vec!["run".to_string(), format!("apps/{app}.loom"), "--set".into(), format!("port={port}")];
        for set in sets {
            args.extend(["--set".to_string(), set.clone()]);
        }
        if let Some(admin) = admin {
            args.extend(["--admin".to_string(), format!("127.0.0.1:{admin}")]);
        }
        let log = folder.join(format!("{name}.log"));
        Ok(Actor { name, port, admin, namespace: None, args, child: None, lives: 0, log })
    }

    /// `wireloom` with these arguments in a network namespace.
    pub fn inside(folder: &std::path::Path, name: &str, namespace: &str, args: &[&str]) -> Actor {
        Actor {
            name: name.into(),
            port: 0,
            admin: None,
            namespace: Some(namespace.into()),
            args: args.iter().map(|a| a.to_string()).collect(),
            child: None,
            lives: 0,
            log: folder.join(format!("{name}.log")),
        }
    }

    pub fn start(&mut self) -> Result<(), String> {
        let binary = binary().map_err(|e| e.to_string())?;
        let log = File::options().create(true).append(true).open(&self.log).map_err(|e| e.to_string())?;
        let errors = log.try_clone().map_err(|e| e.to_string())?;
        let mut command = match &self.namespace {
            None => Command::new(&binary),
            Some(name) => {
                let mut ip = Command::new("ip");
                ip.args(["netns", "exec", name]).arg(&binary);
                ip
            }
        };
        let child = command
            .current_dir(root())
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            // A group of their own: Ctrl-C is for the demo, which then drains them.
            .process_group(0)
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", binary.display()))?;
        self.child = Some(child);
        self.lives += 1;
        Ok(())
    }

    /// Waits until it says that it is ready: it listens before that.
    pub fn wait(&mut self) -> Result<(), String> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            // Of a second life the log has two.
            if log.matches("wireloom: ready ").count() >= self.lives {
                return Ok(());
            }
            let ended = self.child.as_mut().and_then(|c| c.try_wait().ok().flatten());
            if ended.is_some() || Instant::now() > until {
                return Err(format!("{} does not come up:\n{log}", self.name));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGKILL: what a crash looks like to the proxy.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    pub fn alive(&self) -> bool {
        self.child.is_some()
    }

    /// SIGTERM, and the exit code (None: it had to be killed).
    pub fn stop(&mut self) -> Option<i32> {
        let mut child = self.child.take()?;
        // SAFETY: a signal to our own child, which has not been waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            if let Ok(Some(status)) = child.try_wait() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill().ok();
        child.wait().ok();
        None
    }

    /// Resident memory in KiB.
    pub fn memory(&self) -> u64 {
        let Some(child) = &self.child else { return 0 };
        let text = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        text.lines()
            .find_map(|l| l.strip_prefix("VmRSS:"))
            .and_then(|l| l.split_whitespace().next())
            .and_then(|n| n.parse().ok())
            .unwrap_or(0)
    }

    /// CPU seconds used so far.
    pub fn cpu(&self) -> f64 {
        let Some(child) = &self.child else { return 0.0 };
        let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        let rest = text.rsplit_once(") ").map_or("", |(_, r)| r);
        let ticks: u64 = rest.split(' ').skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
        ticks as f64 / ticks_per_second()
    }

    /// The proxy's own status page.
    pub fn status(&self) -> Option<serde_json::Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.admin?)).ok()?;
        stream.set_read_timeout(Some(Duration::from_millis(300))).ok()?;
        stream.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
    }
}

impl Side {
    fn new(
        folder: &std::path::Path,
        name: &str,
        proxy: &str,
        backend: &str,
        sets: impl Fn(usize) -> Vec<String>,
    ) -> std::io::Result<Side> {
        let backends = (0..BACKENDS)
            .map(|i| Actor::new(folder, format!("{name}-{}", i + 1), backend, false, &sets(i)))
            .collect::<std::io::Result<Vec<_>>>()?;
        let servers: Vec<String> = backends.iter().map(|b| format!("127.0.0.1:{}", b.port)).collect();
        let proxy = Actor::new(folder, proxy.to_string(), proxy, true, &[format!("servers={}", servers.join(","))])?;
        Ok(Side { proxy, backends })
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Actor> {
        self.backends.iter_mut().chain(std::iter::once(&mut self.proxy))
    }
}

/// A new folder of this user alone.
fn folder() -> Result<PathBuf, String> {
    let mut names = (0..100).map(|n| std::env::temp_dir().join(format!("wireloom-demo-{}-{n}", std::process::id())));
    let new = |path: &PathBuf| std::fs::DirBuilder::new().mode(0o700).create(path).is_ok();
    names.find(new).ok_or_else(|| "cannot make a temporary folder".to_string())
}

impl Cast {
    pub fn start() -> Result<Cast, String> {
        let folder = folder()?;
        let memcached =
            Side::new(&folder, "kv", "memcached_proxy", "kv_server", |_| Vec::new()).map_err(|e| e.to_string())?;
        let http =
            Side::new(&folder, "web", "http_balancer", "static_web", |i| vec![format!("body=backend {}\n", i + 1)])
                .map_err(|e| e.to_string())?;
        let mut cast = Cast { memcached, http, folder };
        println!("starting 2 proxies and {} backends, all written in Wireloom …", 2 * BACKENDS);
        // One of each first: the others then find its compiled code in the cache.
        for side in [&mut cast.memcached, &mut cast.http] {
            side.backends[0].start()?;
            side.proxy.start()?;
        }
        for side in [&mut cast.memcached, &mut cast.http] {
            side.backends[0].wait()?;
            side.proxy.wait()?;
            for backend in &mut side.backends[1..] {
                backend.start()?;
            }
        }
        for side in [&mut cast.memcached, &mut cast.http] {
            for backend in &mut side.backends[1..] {
                backend.wait()?;
            }
        }
        Ok(cast)
    }

    /// Drains everything; the exit codes that were not 0.
    pub fn stop(&mut self) -> Vec<String> {
        let mut bad = Vec::new();
        for side in [&mut self.memcached, &mut self.http] {
            // Proxies first: a drained proxy closes its backend connections.
            let Side { proxy, backends } = side;
            for actor in std::iter::once(proxy).chain(backends.iter_mut()).filter(|a| a.alive()) {
                match actor.stop() {
                    Some(0) => {}
                    Some(code) => bad.push(format!("{} ended with exit code {code}", actor.name)),
                    None => bad.push(format!("{} did not drain within 5 s", actor.name)),
                }
            }
        }
        bad
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        for side in [&mut self.memcached, &mut self.http] {
            side.all().for_each(Actor::kill);
        }
        std::fs::remove_dir_all(&self.folder).ok();
    }
}
