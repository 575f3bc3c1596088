//! The options of `wireloom run` and of executables made by `wireloom build`, as clap reads them.

use super::config::{is_name, Config, Setting};
use super::Failure;
use clap::{Args, Parser, ValueEnum};
use std::path::PathBuf;
use wireloom_runtime::Origin;

/// The command line of an executable made by `build`.
#[derive(Parser)]
#[command(max_term_width = 100)]
pub struct Built {
    #[command(flatten)]
    pub serve: Serve,
    /// Where the kernel runs programs in the hook: in the driver, or in the network stack; `auto`:
    /// in the driver if it can.
    #[arg(long, value_enum, default_value_t = XdpMode::Auto)]
    pub xdp_mode: XdpMode,
}

/// Options of `run` and of built executables.
#[derive(Args, Clone)]
pub struct Serve {
    /// A parameter (`port=80`), an option of a port (`client.idle_timeout=60s`), or either of one
    /// of several apps (`app.port=80`).
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// A TOML file with options, by their long names, and parameters, in a table `[set]`. The
    /// command line goes before. SIGHUP has it read again.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[arg(skip)]
    pub read: Option<Config>,
    /// CPUs to run on, one thread each, pinned: `0`, `0-3`, `0,2`, `all`. Without it: one thread,
    /// not pinned.
    #[arg(long, value_name = "LIST")]
    pub cores: Option<String>,
    /// How sockets are driven.
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    pub engine: Engine,
    /// Serve /metrics (Prometheus) and /status (JSON) here: `127.0.0.1:9900`, or a port on
    /// 127.0.0.1.
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
    /// A name by which requests may ask for the admin page, beside `localhost` and its address.
    #[arg(long, value_name = "NAME")]
    pub admin_host: Vec<String>,
    /// Write a line for each request here; `-`: standard output. SIGHUP has the file opened anew.
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// Log every fault with its place, client and backend, at most one of a kind a second. Without
    /// it: those that are answered and are not the client's.
    #[arg(long)]
    pub log_faults: bool,
    /// The socket for `wireloom table`, `counter` and `signal`: a path, or `off`. By default they
    /// find it by themselves.
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// The longest time in microseconds that a busy core waits for more input. Waiting saves work
    /// if many clients share backend connections. At light load and with few clients a core never
    /// waits. 0: never.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 200)]
    pub batch_wait: u64,
    /// The target of a frame port, in place of the app's own: `wire=pcap:in.pcap`,
    /// `ports=nic:eth0,nic:eth1`. Engines: pcap (reads or writes pcap and pcapng, .gz and .zst
    /// too), nic, afpacket, afxdp, tun, tap, kernel, udp, memory, null.
    #[arg(long, value_name = "PORT=ENGINE:NAME,…")]
    pub bind: Vec<String>,
    /// Where a port that is read from a capture writes its frames:
    /// `ports=pcap:o0.pcap,pcap:o1.pcap`.
    #[arg(long, value_name = "PORT=ENGINE:NAME,…")]
    pub out: Vec<String>,
    /// Fills a table before the first frame, from a JSON list of objects or a CSV file.
    #[arg(long, value_name = "TABLE=FILE")]
    pub load: Vec<String>,
    /// Writes a table when the run has ended, as JSON or, by the file's name, CSV.
    #[arg(long, value_name = "TABLE=FILE")]
    pub dump: Vec<String>,
    /// Read captures at the speed at which they were made, rather than as fast as possible.
    #[arg(long)]
    pub pace: bool,
    /// Whether a core that receives the frames of all cores, as from a single queue, hands them
    /// over: `auto`, if the handler costs enough.
    #[arg(long, value_enum, default_value_t = Rps::Auto)]
    pub rps: Rps,
    /// CPUs for the cores of segments `on nic`, as `--cores`. Without it they are not pinned.
    #[arg(long, value_name = "LIST")]
    pub nic_cores: Option<String>,
    /// A parameter of the modelled link to the NIC: `batch=16`. `wireloom explain` shows all.
    #[arg(long, value_name = "NAME=NUMBER,…")]
    pub link: Vec<String>,
    /// How often names of servers are resolved again, in seconds; 0: at SIGHUP only.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub resolve: u64,
    /// How long a handler may compute without a pause, in seconds of CPU time; then its message has
    /// the fault `overload`. 0: there is no limit.
    #[arg(long, value_name = "SECONDS", default_value_t = wireloom_runtime::time_limit::DEFAULT.as_secs())]
    pub handler_limit: u64,
    /// How long a drain may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub drain: u64,
}

impl Serve {
    /// Parameters and options of ports: of the command line, and of the file.
    pub fn sets(&self) -> Sets<'_> {
        Sets { line: &self.set, file: self.read.as_ref().map_or(&[], |c| &c.settings) }
    }

    /// An error with the name of what the user has set.
    pub fn named(&self, e: Failure) -> Failure {
        e.named(&self.set, self.read.as_ref())
    }
}

impl Failure {
    /// Names what the user has set: the place in the file, or the option of the command line, with
    /// its `--set`s.
    pub fn named(self, line: &[String], file: Option<&Config>) -> Failure {
        let Failure::Of(origin, text) = self else { return self };
        let Origin { option, name, app } = &origin;
        let of_line = |s: &&String| s.split_once('=').is_some_and(|(n, _)| is_name(n.trim(), name, app));
        let written = match (*option, line.iter().find(of_line)) {
            ("set", Some(pair)) => format!("--set {pair}"),
            (_, _) => match file.and_then(|c| c.place_of(option, name, app)) {
                Some(place) => return place.error(text),
                // A parameter that has its default.
                None if *option == "set" => return Failure::Said(text),
                None => format!("--{option}"),
            },
        };
        match text.contains(&format!("--{option}")) {
            true => Failure::Said(text),
            false => Failure::Said(format!("`{written}`: {text}")),
        }
    }
}

/// Parameters and options of ports.
#[derive(Clone, Copy)]
pub struct Sets<'a> {
    /// `NAME=VALUE` of the command line.
    pub line: &'a [String],
    /// Those of the file, which the command line goes before.
    pub file: &'a [Setting],
}

impl<'a> From<&'a [String]> for Sets<'a> {
    fn from(line: &'a [String]) -> Sets<'a> {
        Sets { line, file: &[] }
    }
}

/// Receive packet steering in software.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Rps {
    Auto,
    On,
    Off,
}

impl Rps {
    pub fn policy(self) -> wireloom_runtime::packet::Rps {
        match self {
            Rps::Auto => wireloom_runtime::packet::Rps::Auto,
            Rps::On => wireloom_runtime::packet::Rps::On,
            Rps::Off => wireloom_runtime::packet::Rps::Off,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum XdpMode {
    Auto,
    Native,
    Generic,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    Auto,
    Epoll,
    Uring,
}
