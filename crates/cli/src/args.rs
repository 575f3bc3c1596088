//! The command line, as clap reads it, with its help texts.

use crate::serve::args::Serve;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Errors and warnings that are shown of a file.
pub const MAX_ERRORS: usize = 50;

/// Wireloom: programs that sit on the wire.
#[derive(Parser)]
#[command(
    name = "wireloom",
    version,
    max_term_width = 100,
    after_help = "\
First steps:
  wireloom run apps/static_web.loom --set port=8080        # serve; then: curl localhost:8080
  wireloom check my.loom                                   # types, bounds, grammars
  wireloom test my.loom                                    # the `test` blocks in the file
  wireloom build apps/http_balancer.loom -o balancer       # one file to deploy: ./balancer --set …"
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Compile and run an app on real traffic.
    #[command(after_help = "\
Examples:
  wireloom run apps/http_balancer.loom --set port=8080 --set servers=127.0.0.1:9001,127.0.0.1:9002
  wireloom run a.loom b.loom --set a.port=80 --set b.port=81     # two apps in one process
  wireloom run both.loom:a --set port=80                         # one of the apps in a file
  wireloom run apps/kv_server.loom --set client.idle_timeout=10s # an option of a port
  wireloom run apps/flow_tracker.loom --bind wire=pcap:in.pcap --dump flows=flows.json
SIGTERM or SIGINT drains: no new connections, what is under way is finished, exit 0. A run on captures ends with them.")]
    Run(Box<Run>),
    /// Check files: types, bounds, grammars, protocols. Exits 1 on errors.
    #[command(after_help = "\
Examples:
  wireloom check my.loom
  wireloom check std/*.loom apps/*.loom
  wireloom check --json my.loom          # for editors: {\"code\":\"E0301\",\"line\":7,…}
  wireloom explain E0301                 # what a code means, with an example")]
    Check(Files),
    /// Make one executable file to deploy; it takes the options of `run`.
    #[command(after_help = "\
Examples:
  wireloom build apps/http_balancer.loom -o balancer
  ./balancer --help                                      # the app's parameters
  ./balancer --set port=80 --set servers=10.0.0.1:8080,10.0.0.2:8080 --cores all
The file needs neither a C compiler nor the sources where it runs.")]
    Build(Build),
    /// Run the `test` blocks of files, by the interpreter and by compiled code, and compare.
    #[command(after_help = "\
Examples:
  wireloom test my.loom
  wireloom test std/*.loom --filter chunked   # only tests with this in their name
A test without a name of an app is code; `test … of APP` plays clients and backends in a simulated network:
  test \"what was put is got\" of store {
      client <- \"put a 1\\nget a\\n\"       # a client sends
      client -> \"ok\\n1\\n\"               # and must see this
  }")]
    Test(Test),
    /// Format files in place.
    #[command(after_help = "\
Examples:
  wireloom fmt my.loom
  wireloom fmt --check std/*.loom apps/*.loom   # for CI: changes nothing, exits 1 where a file would change")]
    Fmt(Fmt),
    /// Print the compiler's results for an app: the intermediate representation or the C code.
    #[command(after_help = "\
Examples:
  wireloom emit ir my.loom            # typed and bounded, before code is made of it
  wireloom emit c my.loom -o my.c     # what clang or gcc compiles
  wireloom emit bpf my.loom           # what clang compiles for the kernel's XDP hook")]
    Emit(Emit),
    /// Draw the app's graph as SVG, by default into a file of the working folder.
    #[command(after_help = "\
Examples:
  wireloom graph apps/memcached_proxy.loom               # writes memcached_proxy.svg
  wireloom graph apps/memcached_proxy.loom -o - | rsvg-convert -o graph.png
Light or dark follows the viewer.")]
    Graph(Graph),
    /// Report worst-case steps, suspensions with the state that they keep, and the whole memory
    /// bill; or explain an error code.
    #[command(
        after_help = "Examples:\n  wireloom explain apps/memcached_proxy.loom\n  wireloom explain E0401\n  wireloom explain codes              # all codes"
    )]
    Explain(Explain),
    /// Feed a unit generated and mutated messages; compiled code and interpreter must agree and
    /// survive.
    #[command(
        after_help = "Example:\n  wireloom fuzz std.http.Request --seconds 60\n  wireloom fuzz my.loom:Request --seed 7      # a failure prints its seed"
    )]
    Fuzz(Fuzz),
    /// Measure the cost per frame of an app with frame ports, on one core, with frames from memory.
    #[command(
        after_help = "Example:\n  wireloom bench apps/flow_tracker.loom --bind wire=trace.pcap     # CPU nanoseconds per frame"
    )]
    Bench(Bench),
    /// List, read and change the tables of a running app, while its packets flow.
    #[command(after_help = "\
Examples:
  wireloom table                                         # the app's tables
  wireloom table rules                                   # entries
  wireloom table rules insert priority=7 src=10.0.0.0/8 dport=[1024,65535] action=drop
  wireloom table rules delete priority=7 src=10.0.0.0/8 dport=[1024,65535]
  wireloom table exact get src=10.0.0.1 dst=10.0.0.2 sport=1 dport=2 proto=tcp
  wireloom table rules load rules.csv                    # or JSON, or - for standard input
  wireloom table flows dump flows.json                   # or .csv, or standard output
  wireloom table flows --csv                             # all entries, for other programs
  wireloom table flows clear
Every change is whole for a packet: it sees an entry as it was before, or as it is after.")]
    Table(Table),
    /// Show the counters of a running app.
    #[command(after_help = "\
Examples:
  wireloom counter                    # the program's counters
  wireloom counter --all --watch      # ports and faults, too, every second, with rates
  wireloom counter unmatched --json")]
    Counter(Counter),
    /// Call a signal of a running app; without a name: which there are.
    #[command(after_help = "\
Examples:
  wireloom signal
  wireloom signal drain 10.0.0.1
  wireloom signal drain dip=10.0.0.1 --app l4_balancer")]
    Signal(Signal),
}

/// Which running app is meant: needed where there are several.
#[derive(Args)]
pub struct Target {
    /// The app's name.
    #[arg(long, value_name = "NAME")]
    pub app: Option<String>,
    /// Its process.
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Its control socket.
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Answer with JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Table {
    /// A table; without it: which there are.
    #[arg(value_name = "TABLE")]
    pub table: Option<String>,
    /// The action.
    #[arg(value_enum, value_name = "WHAT")]
    pub action: Option<TableDo>,
    /// Fields of an entry (get: of its key), or the file to load or dump.
    #[arg(value_name = "FIELD=VALUE|FILE")]
    pub rest: Vec<String>,
    /// Read or dump at most so many entries; 0: all.
    #[arg(long, value_name = "ENTRIES")]
    pub limit: Option<u64>,
    /// CSV, to show, to dump and to load; the file's name does not matter.
    #[arg(long)]
    pub csv: bool,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableDo {
    /// Show the entries.
    Read,
    /// Look a key up; exits 1 if it is not there.
    Get,
    /// Add or replace an entry.
    Insert,
    /// Remove an entry; exits 1 if it is not there.
    Delete,
    /// Remove all entries.
    Clear,
    /// Insert all rows of a file: JSON or CSV, `-` is standard input.
    Load,
    /// Write all entries to a file, or to standard output.
    Dump,
}

#[derive(Args)]
pub struct Counter {
    /// Counters; without any: all counters of the program.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// The counters of ports and faults, too.
    #[arg(long)]
    pub all: bool,
    /// Again and again, every so many seconds, with rates.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", require_equals = true)]
    pub watch: Option<f64>,
    /// With --watch: so many times.
    #[arg(long, value_name = "TIMES")]
    pub count: Option<u64>,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args)]
pub struct Signal {
    /// The signal; without it: which there are.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Its arguments, by name (`n=5`) or in order.
    #[arg(value_name = "ARG")]
    pub args: Vec<String>,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args)]
pub struct Bench {
    /// Sources with apps, which share the process, its cores and ports of one name; FILE:APP is one
    /// app of a file with several.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A capture whose frames come in on a port, over and over.
    #[arg(long, value_name = "PORT=FILE", required = true)]
    pub bind: Vec<String>,
    /// A parameter.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// A table's entries, from JSON or CSV.
    #[arg(long, value_name = "TABLE=FILE")]
    pub load: Vec<String>,
    /// Entries that are put into a table one by one while frames flow, each of them timed.
    #[arg(long, value_name = "TABLE=FILE")]
    pub insert: Option<String>,
    /// Batches of frames between two such insertions.
    #[arg(long, default_value_t = 8)]
    pub every: u64,
    /// About how many frames a run has.
    #[arg(long, default_value_t = 20_000_000)]
    pub frames: u64,
    /// Each round has source ports of its own, so that there are so many times as many flows; at
    /// most 16.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub many: u8,
    /// Runs; the median is shown.
    #[arg(long, default_value_t = 5)]
    pub repeat: u32,
    /// The CPUs to run on, one thread each: `0`, `0-1`, `all`.
    #[arg(long, value_name = "LIST", default_value = "0")]
    pub cores: String,
    /// With several cores: the first receives the frames of all; without, each has a queue of its
    /// own.
    #[arg(long)]
    pub one_queue: bool,
    /// With one queue: whether the core that receives hands frames to the others; `auto`: if the
    /// handler costs enough.
    #[arg(long, value_enum, default_value_t = crate::serve::args::Rps::Auto)]
    pub rps: crate::serve::args::Rps,
    /// Leave out the cost of each element, which takes a run of its own. With several apps it is
    /// left out.
    #[arg(long)]
    pub no_elements: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub compile: Compile,
}

#[derive(Args)]
pub struct Files {
    /// Sources; all apps of each are checked.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Diagnostics as JSON, one per line.
    #[arg(long)]
    pub json: bool,
    /// Shows so many errors and warnings; the rest is counted. 0: all of them.
    #[arg(long, value_name = "N", default_value_t = MAX_ERRORS)]
    pub max_errors: usize,
}

#[derive(Args)]
pub struct Run {
    /// Apps to run; several share the process and its cores. FILE:APP is one app of a file with
    /// several.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub serve: Serve,
    #[command(flatten)]
    pub compile: Compile,
    /// Where the program is not in the cache: optimise it before it serves. Without it, code that
    /// is not optimised serves meanwhile.
    #[arg(long)]
    pub optimized: bool,
    /// Give handlers of packets to a device: `xdp` is the kernel's hook in front of an interface.
    /// Handlers that cannot run there stay on the CPU.
    #[arg(long, value_enum, value_name = "DEVICE")]
    pub place: Option<PlacementDevice>,
    /// Where the kernel runs programs in the hook: in the driver, or in the network stack; `auto`:
    /// in the driver if it can.
    #[arg(long, value_enum, default_value_t = crate::serve::args::XdpMode::Auto)]
    pub xdp_mode: crate::serve::args::XdpMode,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlacementDevice {
    Xdp,
}

#[derive(Args, Clone)]
pub struct Compile {
    /// Run the reference interpreter instead of compiled code.
    #[arg(long)]
    pub interpret: bool,
    /// Compile with AddressSanitizer and UBSan (slow).
    #[arg(long, hide = true)]
    pub sanitize: bool,
}

#[derive(Args)]
pub struct Build {
    /// A source with an app; FILE:APP where it has several.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The executable to write; by default the app's name. With --export, the folder.
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Make a static library and a C header of the app's exported segments.
    #[arg(long)]
    pub export: bool,
    /// For any x86-64 machine of the last ten years rather than this one.
    #[arg(long)]
    pub portable: bool,
    /// A parameter or an option of a port: its value where the executable is not given another one.
    #[arg(long = "set", value_name = "NAME=VALUE", conflicts_with = "export")]
    pub set: Vec<String>,
    /// Give handlers of packets to a device, as `run` does.
    #[arg(long, value_enum, value_name = "DEVICE", conflicts_with = "export")]
    pub place: Option<PlacementDevice>,
}

#[derive(Args)]
pub struct Test {
    /// Sources with `test` blocks.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Only tests whose name contains this.
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    #[command(flatten)]
    pub compile: Compile,
}

#[derive(Args)]
pub struct Fmt {
    /// Sources.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Change nothing; exit 1 if a file is not formatted.
    #[arg(long)]
    pub check: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Artifact {
    Ir,
    C,
    Bpf,
}

#[derive(Args)]
pub struct Emit {
    /// `ir`: the intermediate representation; `c`: the C code; `bpf`: the C code for the kernel's
    /// XDP hook.
    #[arg(value_enum)]
    pub what: Artifact,
    /// A source; FILE:APP where it has several apps.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// By default `-`, standard output.
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// With `bpf` or `--place`: a parameter. Its value is part of the code.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// With `ir`: give handlers of packets to this device, as `run` does.
    #[arg(long, value_enum, value_name = "DEVICE")]
    pub place: Option<PlacementDevice>,
}

#[derive(Args)]
pub struct Graph {
    /// A source; FILE:APP where it has several apps.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// By default the app's name with `.svg`, in the working folder; `-` for standard output.
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
}

#[derive(Args)]
pub struct Explain {
    /// Files that are run together, or an error code such as E0401; `codes` lists all codes.
    #[arg(value_name = "FILE|CODE", required = true)]
    pub what: Vec<String>,
    /// As for `run`: apps whose ports are bound to one thing share it; without, ports of one name
    /// are one.
    #[arg(long, value_name = "PORT=ENGINE:NAME")]
    pub bind: Vec<String>,
    /// As for `run`: a parameter, or an option of a port.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// As for `run`: a parameter of the modelled link to a NIC.
    #[arg(long, value_name = "NAME=NUMBER,…")]
    pub link: Vec<String>,
    /// Show instead which handlers this device can run, and what keeps the others off it.
    #[arg(long, value_enum, value_name = "DEVICE")]
    pub place: Option<PlacementDevice>,
}

#[derive(Args)]
pub struct Fuzz {
    /// `std.http.Request` or `file.loom:Unit`; `std.http` or `file.loom` for all messages of their
    /// protocols; `app.loom`, an app with frame ports, for its frames.
    #[arg(value_name = "UNIT")]
    pub unit: String,
    /// Of an app: a capture whose frames are changed, beside a few of most kinds.
    #[arg(long, value_name = "FILE")]
    pub frames: Vec<PathBuf>,
    /// Of an app: a parameter. Frames to and from addresses among them are tried, too.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// How long, from the start of the command, compiling included. An error if that is not
    /// enough to compile. 0: once every prefix and every changed byte of frames, or a few hundred
    /// messages.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Seed of the generator; a failure prints the one that repeats it.
    #[arg(long)]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub compile: Compile,
}
