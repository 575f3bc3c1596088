//! Networks of namespaces and veth pairs, in which apps with frame ports meet real stacks: `ping`,
//! `curl`, `iperf3`. Every network has names of its own, and is removed with its processes when
//! dropped. Networks of test processes that have ended are removed by the next one.
//!
//! Nothing leaves the machine: no namespace is tied to the host's own network.

use crate::process::{finish, require_tool, Output, Process, Wireloom};
use crate::{root, thrice, PATIENCE};
use std::cell::RefCell;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A network: namespaces by short names.
pub struct Net {
    tag: String,
    names: RefCell<Vec<String>>,
    /// Python programs and the files that they serve.
    pub folder: std::path::PathBuf,
}

/// The first part of the names of all namespaces of tests; then comes the process.
const PREFIX: &str = "wlnet-";

fn run(command: &mut Command) -> Output {
    finish(command)
}

/// A line of shell in no namespace.
fn sh(line: &str) -> Output {
    run(Command::new("sh").args(["-ec", line]))
}

fn remove_what_ended_runs_left() {
    let Ok(list) = std::fs::read_dir("/run/netns") else { return };
    for entry in list.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()).unwrap_or("");
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            sh(&format!("ip netns del {name}"));
        }
    }
}

impl Net {
    /// Namespaces with these names. None if there are no rights to make any, or tools are missing
    /// (the latter fails in CI).
    pub fn new(names: &[&str], tools: &[&str]) -> Option<Net> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !["ip", "python3"].iter().chain(tools).all(|t| require_tool(t)) {
            return None;
        }
        remove_what_ended_runs_left();
        let tag = format!("{PREFIX}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(&tag);
        std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
        let net = Net { tag, names: RefCell::default(), folder };
        for name in names {
            let made = sh(&format!("ip netns add {}", net.name(name)));
            if made.code != Some(0) {
                eprintln!("SKIPPED: no namespaces here: {}", made.text);
                return None;
            }
            net.names.borrow_mut().push(name.to_string());
            // No neighbour discovery and the like among the tested frames. The reverse path check
            // would refuse answers on another way.
            net.sh(name, "ip link set lo up; sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 \
                 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 2>/dev/null || \
                 for f in ipv6/conf/all/disable_ipv6:1 ipv6/conf/default/disable_ipv6:1 ipv4/conf/all/rp_filter:0 ipv4/conf/default/rp_filter:0; \
                 do echo ${f#*:} > /proc/sys/net/${f%:*} || true; done");
        }
        Some(net)
    }

    fn name(&self, ns: &str) -> String {
        format!("{}-{ns}", self.tag)
    }

    /// A line of shell in a namespace, and its result.
    pub fn try_sh(&self, ns: &str, line: &str) -> Output {
        run(self.command(ns, "sh").args(["-ec", line]))
    }

    /// The same, which must end well; its output.
    pub fn sh(&self, ns: &str, line: &str) -> String {
        let o = self.try_sh(ns, line);
        assert_eq!(o.code, Some(0), "in {ns}: {line}\n{}", o.text);
        o.text
    }

    /// A command in a namespace.
    pub fn command(&self, ns: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut c = Command::new("ip");
        c.args(["netns", "exec", &self.name(ns)]).arg(program).current_dir(root());
        c
    }

    /// A veth pair between two namespaces, both ends up: (namespace, device, address of Ethernet).
    pub fn link(&self, a: (&str, &str, &str), b: (&str, &str, &str)) {
        self.wide_link(a, b, 1);
    }

    /// The same with several queues in each direction.
    pub fn wide_link(&self, a: (&str, &str, &str), b: (&str, &str, &str), queues: u32) {
        let wide = format!("numrxqueues {queues} numtxqueues {queues}");
        let (na, nb) = (self.name(a.0), self.name(b.0));
        let made = sh(&format!(
            "ip link add {} address {} {wide} netns {na} type veth peer name {} address {} {wide} netns {nb}; ip -n {na} link set dev {} up; ip -n {nb} link set dev {} up",
            a.1, a.2, b.1, b.2, a.1, b.1
        ));
        assert_eq!(made.code, Some(0), "{}", made.text);
    }

    /// Starts an app of `apps/` in a namespace, and waits until it is ready. `app` may also be a
    /// path.
    pub fn app(&self, ns: &str, app: &str, args: &[&str]) -> Process {
        let path = if app.contains('/') { app.to_string() } else { format!("apps/{app}.loom") };
        let mut command = self.command(ns, Wireloom::binary());
        command.arg("run").arg(path).args(args);
        let name = app.rsplit('/').next().unwrap_or(app).to_string();
        Process::start_ours(&name, &mut command, crate::free_port())
    }

    /// Starts a server in the network's folder, and waits until it has said `ready`.
    pub fn server(&self, ns: &str, name: &str, args: &[&str], ready: &str) -> Process {
        let mut command = self.command(ns, args[0]);
        command.args(&args[1..]).current_dir(&self.folder);
        Process::start_saying(name, &mut command, crate::free_port(), ready)
    }

    /// An HTTP server that says its name at `/`, gives a megabyte at `/big`, and tells how much it
    /// was given.
    pub fn http(&self, ns: &str, port: u16) -> Process {
        let program = root().join("tests/packets/http_server.py").display().to_string();
        self.server(ns, "http", &["python3", &program, &port.to_string(), ns], "serving")
    }

    pub fn iperf_server(&self, ns: &str) -> Process {
        self.server(ns, "iperf3", &["iperf3", "-s", "--forceflush"], "Server listening")
    }

    /// `count` pings, all of which must be answered. A kernel that is short of time may lose one.
    pub fn ping(&self, ns: &str, to: &str, count: u32, size: u32) {
        thrice(|| {
            let said = self.try_sh(ns, &format!("ping -n -q -c {count} -i 0.02 -W 5 -s {size} {to}"));
            let good = said.text.contains(&format!("{count} packets transmitted, {count} received"));
            good.then_some(()).ok_or(format!("ping of {size} bytes to {to}:\n{}", said.text))
        });
    }

    /// The body that curl gets.
    pub fn curl(&self, ns: &str, args: &str) -> String {
        self.sh(ns, &format!("curl -sS --fail --max-time 60 {args}"))
    }

    /// Sends so many bytes by TCP (`args`: `-R` for the other direction). All must arrive, except
    /// those still under way at the end.
    pub fn iperf(&self, ns: &str, to: &str, bytes: u64, args: &str) {
        let said = self.sh(ns, &format!("iperf3 -J -c {to} -n {bytes} {args}"));
        let json: serde_json::Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
        let got = json["end"]["sum_received"]["bytes"].as_f64().unwrap_or(0.0);
        let retransmits = &json["end"]["sum_sent"]["retransmits"];
        let rate = json["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0) / 1e6;
        eprintln!("iperf3 {ns} -> {to} {args}: {rate:.0} Mbit/s, {retransmits} retransmits");
        assert!(got >= bytes as f64 * 0.7, "{got} of {bytes} bytes came:\n{said}");
    }

    /// Frames that a device has received.
    pub fn received(&self, ns: &str, device: &str) -> u64 {
        self.sh(ns, &format!("cat /sys/class/net/{device}/statistics/rx_packets")).trim().parse().expect("a number")
    }

    /// Waits until something holds.
    pub fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for ns in self.names.borrow().iter() {
            // Processes that still run there would keep it.
            let name = self.name(ns);
            sh(&format!("for p in $(ip netns pids {name}); do kill -9 $p; done; ip netns del {name}"));
        }
        std::fs::remove_dir_all(&self.folder).ok();
    }
}
