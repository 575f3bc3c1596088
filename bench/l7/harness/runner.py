"""Runs the jobs: rounds outermost, then jobs, connection counts and peers, so that every peer of a job is measured
within the same minute and slow changes of the machine fall on all alike. Results are written after every run."""
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import time

from . import calibration, combiner, measure, memory, process, settings
from .build import build, program
from .jobs import JOBS, QUICK, peers_at
from .peers import PEERS, missing, nginx

VERSIONS = {
    "nginx": "nginx -v 2>&1",
    "haproxy": "haproxy -v | head -1",
    "apache": "apache2 -v | head -1",
    "caddy": "caddy version",
    "nutcracker": "nutcracker -V 2>&1 | head -1",
    "memcached": "memcached -V",
    "wrk": "wrk -v 2>&1 | head -1",
    "sort": "sort --version | head -1",
    "wireloom": f"{shlex.quote(settings.WIRELOOM)} --version",
    "commit": f"git -C {shlex.quote(settings.ROOT)} rev-parse --short HEAD",
}


def describe_machine():
    """CPU model, cores and memory, as one phrase."""
    with open("/proc/cpuinfo") as f:
        model = re.search(r"model name\s*:\s*(.*)", f.read())
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model[1] if model else os.uname().machine}, {os.cpu_count()} cores, {gib:.0f} GiB"


def describe(args):
    """What the figures' reader must know about the run."""
    def version(command):
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 and "not found" not in done.stdout else ""
    return dict(
        start=time.strftime("%F %T"), uname=" ".join(os.uname()), machine=describe_machine(),
        proxy_core=settings.PROXY_CORE, load_core=settings.LOAD_CORE,
        dur=args.dur, rounds=args.rounds, words_mib=args.words_mib,
        command=os.environ.get("BENCH_COMMAND") or shlex.join(["bench/l7/bench.py"] + sys.argv[1:]),
        versions={name: version(command) for name, command in VERSIONS.items()},
    )


def parse_put(texts):
    """--put NAME@KIND=COMMAND: further peers, by kind."""
    extra = {}
    for text in texts or []:
        match = re.match(r"([\w.-]+)@(\w+)=(.*)", text, re.S)
        if not match or match[2] not in PEERS:
            sys.exit("--put wants NAME@KIND=COMMAND with KIND one of " + ", ".join(PEERS))
        extra.setdefault(match[2], {})[match[1]] = _from_template(match[3])
    return extra


def _from_template(command):
    def start(port, backends):
        single = {f"b{i}": b for i, b in enumerate(backends)}
        return shlex.split(command.format(
            port=port, wd=settings.SCRATCH, bports=",".join(map(str, backends)),
            backends=",".join(f"127.0.0.1:{b}" for b in backends), **single))
    return start


class Bench:
    """One session of measuring: its options, its output file and the peers it knows."""

    def __init__(self, args):
        self.args = args
        self.extra = parse_put(args.put)
        self.waited = 0.0
        self.out = dict(meta=describe(args), runs=[])
        self.noticed = set()

    def plan(self, job):
        """The connection counts and peer names of a job under these options."""
        conns, names = (QUICK[job.name] if self.args.quick and job.name in QUICK else (job.conns, job.peers))
        if self.args.conns and job.kind != "words":
            conns = [int(c) for c in self.args.conns.split(",")]
        if self.args.peers:
            names = self.args.peers.split(",")
        known = set(PEERS[job.kind])
        names = [n for n in names if n.split(":")[0] in known and self.available(n.split(":")[0], job.kind)]
        return conns, names + list(self.extra.get(job.kind, {}))

    def available(self, name, kind):
        reason = missing(name, kind)
        if reason and reason not in self.noticed:
            self.noticed.add(reason)
            print(f"skipped: {name} ({reason})", flush=True)
        return reason is None

    def run(self):
        for turn in range(self.args.rounds):
            for name in self.args.jobs.split(","):
                self.run_job(JOBS[name], turn)
        print("wrote", self.args.out)

    def run_job(self, job, turn):
        conns, names = self.plan(job)
        if not names:
            return
        servers, backends = start_backends(job.kind)
        try:
            for count in conns:
                for peer in peers_at(names, count):
                    self.run_peer(job, peer, count, turn, backends)
        finally:
            for server in servers:
                process.stop(server)

    def run_peer(self, job, peer, conns, turn, backends):
        """One measurement, repeated while others kept the machine busy, up to --retry times; all are recorded."""
        table = dict(PEERS[job.kind], **self.extra.get(job.kind, {}))
        for _ in range(1 + self.args.retry):
            budget = max(0.0, self.args.wait_total - self.waited)
            waited = calibration.wait_for_quiet(min(self.args.wait, budget))
            self.waited += waited
            record = dict(job=job.name, peer=peer, conns=conns, rep=turn, t=time.time(), waited=round(waited, 2))
            port = settings.PROXY_PORTS[len(self.out["runs"]) % len(settings.PROXY_PORTS)]
            try:
                record.update(self.figures(job, peer, table[peer], conns, port, backends))
            except Exception as error:  # a peer that fails is a row of the table, not the end of the session
                record["failed"] = f"{type(error).__name__}: {error}"
            record["contended"] = self.contended(record, direct=peer == "direct")
            self.out["runs"].append(record)
            self.save()
            print(summary(record), flush=True)
            if not record["contended"]:
                return

    def figures(self, job, peer, start, conns, port, backends):
        if job.kind == "words":
            return combiner.measure(peer, start, self.args.words_mib, port)
        if job.name.startswith("mem_"):
            return memory.measure(job, start, conns, self.args.dur, port, backends)
        return measure.measure(job, peer, start, conns, self.args.dur, port, backends)

    def contended(self, record, direct):
        return (record.get("foreign", 0) > self.args.contended or record.get("load_other", 0) > 0.2
                or (not direct and record.get("core_other", 0) > 0.2))

    def save(self):
        """One line per run, so that a result file can be read and compared by line."""
        runs = ",\n".join(json.dumps(run) for run in self.out["runs"])
        with open(self.args.out, "w") as f:
            f.write('{"meta": %s,\n"runs": [\n%s\n]}\n' % (json.dumps(self.out["meta"]), runs))


def start_backends(kind):
    """The servers behind the proxies of a kind: none, one nginx on four ports, or four memcached with all keys."""
    servers, ports = [], []
    if kind == "lb":
        ports = settings.HTTP_PORTS
        servers = [process.start(nginx.http_backends(ports), settings.LOAD_CORE)]
    elif kind == "mc":
        ports = settings.MEMCACHED_PORTS
        common = ["memcached", "-u", "root", "-l", "127.0.0.1", "-U", "0", "-t", "1", "-m", "64", "-c", "4096", "-p"]
        servers = [process.start(common + [str(port)], settings.LOAD_CORE) for port in ports]
    for i, port in enumerate(ports):
        process.wait_port(port, servers[min(i, len(servers) - 1)])
    if kind == "mc":
        subprocess.check_call([program("mcload"), "-L", ",".join(map(str, ports))])
    time.sleep(0.2)
    return servers, measure.Backends(ports, [pid for s in servers for pid in process.tree(s.pid)])


def summary(record):
    """One line about a run, for the terminal."""
    head = f"{record['job']} {record['peer']} c={record['conns']} round={record['rep']} "
    if "failed" in record:
        return head + "FAILED " + record["failed"]
    if "cpu_ms_per_mb" in record:
        parts = " ".join(f"{name}={value:.2f}" for name, value in record["parts_ms_per_mb"].items())
        return head + f"cpu={record['cpu_ms_per_mb']:.2f} ms/MB ({parts}) {record['mb_per_s']:.0f} MB/s"
    wrong = "+".join(str(record.get(k, 0)) for k in ("errors", "non2xx", "miss"))
    if "rss_idle_kb" in record:
        mib = tuple(record[k] / 1024 for k in ("rss_idle_kb", "rss_loaded_kb", "hwm_kb"))
        return head + "rss idle=%.1f loaded=%.1f peak=%.1f MiB" % mib + f" err={wrong}"
    return head + (f"rps={record['rps']:.0f} us/req={record['proxy_us']:.2f} util={record['proxy_util']:.2f} "
                   f"p50={record['p50_us']:.0f} p99={record['p99_us']:.0f} err={wrong} "
                   f"foreign={record['foreign']:.2f} rss={record['rss_kb']}")


def run(args):
    """Entry of `bench.py run`."""
    os.makedirs(settings.SCRATCH, exist_ok=True)
    build()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    Bench(args).run()
