#!/usr/bin/env python3
"""Measures Wireloom's packet programs beside hand-written C, interleaved: CPU time, several rounds.

    bench/packet/bench.py list
    bench/packet/bench.py run --out FILE [--jobs parse,flow_1k] [--rounds 3] [--seconds 0.3]

Each round runs the reference and then Wireloom, for each job; a ratio compares two of one round. All figures are CPU time, so that other
work on the machine disturbs little. Scratch (built programs, traces) is in $PACKET_WORK, by default /tmp/wireloom-bench-packet.
"""
import argparse
import contextlib
import glob
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import replace

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
from compiled_by import compiled_by  # noqa: E402
from jobs import IN_REGIMES, JOBS  # noqa: E402

WORK = os.environ.get("PACKET_WORK", "/tmp/wireloom-bench-packet")
# Optimised code is measured, from the first request on.
os.environ.setdefault("WIRELOOM_START", "optimized")
WIRELOOM = os.path.abspath(os.environ.get("WIRELOOM", os.path.join(ROOT, "target/release/wireloom")))
# Those of hand-written C with the compiler and the flags of the targets' figures, where they are
# there.
HAND_WRITTEN = {"plain": ["hw.c", "plain.c"], "hw": ["hw.c", "hw_parse.c", "hw_flow.c", "hw_rules.c", "hw_balance.c"]}
PROGRAMS = {**{name: (files, ["-O3"], []) for name, files in HAND_WRITTEN.items()}, "gen": (["gen.c"], ["-O2"], []),
            "stream": (["stream.c"], ["-O2"], []), "xsk": (["xsk.c"], ["-O2"], []), "espb": (["espb.c"], ["-O2"], ["-lcrypto"])}


def compiler():
    """The newest clang, as the compiler of generated code is."""
    clangs = [f"clang-{n}" for n in range(30, 13, -1)]
    return next((c for c in (*clangs, "clang", "gcc") if shutil.which(c)), "cc")


def last_level_cache():
    """Bytes of the largest cache that this core has a share of."""
    sizes = glob.glob("/sys/devices/system/cpu/cpu0/cache/index*/size")
    read = lambda path: int(open(path).read().strip().rstrip("K")) << 10  # noqa: E731
    return max(map(read, sizes), default=32 << 20)


def trace_frames(job):
    """How many frames the job's trace has; none: as many as the generator gives by itself."""
    return (job.regime.bytes or last_level_cache()) // 64 if job.regime else None


def build():
    """Compiles what is older than its sources. A program that does not build is reported; its jobs then fail."""
    os.makedirs(WORK, exist_ok=True)
    src = os.path.join(HERE, "src")
    newest = max(os.path.getmtime(os.path.join(src, f)) for f in os.listdir(src))
    for name, (files, flags, libraries) in PROGRAMS.items():
        out = os.path.join(WORK, name)
        if os.path.exists(out) and os.path.getmtime(out) > newest:
            continue
        command = [compiler(), *flags, "-march=native", "-Wall", "-Wextra", "-o", out, *(os.path.join(src, f) for f in files), *libraries]
        if subprocess.call(command):
            print("warning: could not build", name, file=sys.stderr)


def traces():
    """Makes the captures and rules, once per build of their generator."""
    mark = os.path.join(WORK, "traces.done")
    gen = os.path.join(WORK, "gen")
    if not os.path.exists(mark) or os.path.getmtime(mark) < os.path.getmtime(gen):
        subprocess.run([gen, WORK], check=True)
        open(mark, "w").close()


def traces_of(frames):
    """The same with so many frames each; the last one that is made says that all are there."""
    last = path(f"rules16384-{frames}.pcap")
    if not os.path.exists(last) or os.path.getmtime(last) < os.path.getmtime(path("gen")):
        subprocess.run([path("gen"), WORK, str(frames)], check=True)


@contextlib.contextmanager
def neighbour(wanted):
    """While it holds, another core streams through memory."""
    process = subprocess.Popen([path("stream")], preexec_fn=lambda: os.sched_setaffinity(0, {1})) if wanted else None
    try:
        time.sleep(1 if wanted else 0)
        yield
    finally:
        if process:
            process.kill()
            process.wait()


def path(name):
    return os.path.join(WORK, name)


def run(command, cpus=None):
    """The command's standard output, its CPU seconds and its largest resident size in MiB."""
    pin = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, preexec_fn=pin)
    out, err = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[0]}: {err.decode(errors='replace').strip()[-300:]}")
    return out.decode(), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def arguments(job):
    """Arguments of a job, files named in them made into paths."""
    return [a.split("=")[0] + "=" + path(a.split("=")[1]) if a.endswith(".json") else a for a in job.args]


def frames(job, seconds):
    """How many frames to replay: of a long trace all of them, twice."""
    return str(max(int(seconds * 1e9 / job.ns), 2 * (trace_frames(job) or 0)))


def hand_written(job, seconds, program="hw"):
    trace = [str(trace_frames(job))] if job.regime else []
    out, _, rss = run([path(program), job.name.split("@")[0], frames(job, seconds), *trace], {0})
    return dict(json.loads(out), rss_mib=rss)


def capture(job):
    return path(f"{job.trace}-{trace_frames(job)}.pcap" if job.regime else job.trace + ".pcap")


def wireloom(job, seconds, *extra):
    command = [WIRELOOM, "bench", *job.app.split(), "--bind", f"wire={capture(job)}", *arguments(job), "--frames", frames(job, seconds), "--json", *extra]
    out, _, rss = run(command)
    return dict(json.loads(out), rss_mib=rss)


def one_run(job, seconds, *extra):
    return wireloom(job, seconds, "--repeat", "1", "--no-elements", *extra)


def accepted(counts):
    """The share of frames that a firewall in C let through."""
    return round(counts["accepted"] / (counts["accepted"] + counts["denied"] + counts["unmatched"]), 5)


def compare_frames(job, rounds, seconds, note):
    """A job of frames in memory against the hand-written C, tuned and plain."""
    ours, tuned, plain, extra = [], [], [], {}
    for _ in range(rounds):
        theirs, mine = [hand_written(job, seconds)], one_run(job, seconds)
        if job.plain:
            theirs.append(hand_written(job, seconds, "plain"))
            plain.append(theirs[1]["ns"])
        tuned.append(theirs[0]["ns"])
        ours.append(mine["ns"])
        counts = mine["runs"][0]
        extra = {"rss_mib": round(mine["rss_mib"]), "reference_rss_mib": round(theirs[0]["rss_mib"]), "faults": counts["faults"]}
        if "accepted" in theirs[0]:
            extra["accepted"] = [round(counts["sent"] / counts["received"], 5), *map(accepted, theirs)]
            if max(extra["accepted"]) - min(extra["accepted"]) > 1e-4:
                note(f"verdicts differ: {extra['accepted']}")
    extra["plain"] = plain
    if not job.regime:
        extra["elements"] = wireloom(job, seconds, "--repeat", "1")["elements"]
    return ours, tuned, extra


def insertions(job, rounds, seconds, note):
    ours, tail = [], []
    for _ in range(rounds):
        inserts = one_run(job, max(seconds, 0.5))["inserts"]
        ours.append(inserts["median_ns"] / 1000)
        tail.append(inserts["p99_ns"] / 1000)
    return ours, [], {"p99_us": sorted(tail)[len(tail) // 2], "each_round": inserts["count"]}


def plain_on_each(job, seconds, cpus):
    """The plain C once on each of these cores, all from one moment on; ns per frame of the slowest."""
    command = [path("plain"), job, str(int(seconds * 1e9 / 15)), "0", "hold"]
    pipe = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    running = [subprocess.Popen(command, preexec_fn=lambda c=c: os.sched_setaffinity(0, {c}), **pipe) for c in cpus]
    for p in running:
        p.stdout.readline()
    for p in running:
        p.stdin.write("\n")
        p.stdin.flush()
    return max(json.loads(p.communicate()[0])["ns"] for p in running)


def cores(job, rounds, seconds, note):
    """Frames of two queues on two cores against one queue on one core, by the CPU time of the busiest core.

    Beside it the plain C: one process with all flows, against two that share nothing and have half of the flows each.
    What these lose to one another is the machine's.
    """
    ours, floor = [], []
    for _ in range(rounds):
        floor.append(2 * plain_on_each("flow_1m", seconds, [0]) / plain_on_each("flow_half", seconds, [0, 1]))
        one = one_run(job, seconds)["ns"]
        ours.append(one / one_run(job, seconds, "--cores", "0-1")["ns"])
    return ours, floor, {}


def steering(job, rounds, seconds, note):
    """All frames come to the first core, which hands some of them to the other one, against one core; by wall time."""
    ours, alone = [], []
    for _ in range(rounds):
        alone.append(one_run(job, seconds)["ns"])
        ours.append(alone[-1] / one_run(job, seconds, "--cores", "0-1", "--one-queue")["runs"][0]["wall_ns"])
    return ours, [], {"one_core_ns": sorted(alone)[len(alone) // 2]}


def sharing(job, rounds, seconds, note):
    """What each further app costs that reads a port: four apps that only count, less two of them."""
    file, ours, alone = job.app, [], []
    few = replace(job, app=f"{file}:first {file}:second")
    for _ in range(rounds):
        two, four = one_run(few, seconds)["ns"], one_run(job, seconds)["ns"]
        ours.append((four - two) / 2)
        alone.append(one_run(replace(job, app=f"{file}:first"), seconds)["ns"])
    return ours, [], {"two_apps": two, "one_app": alone[-1]}


def captures(job, rounds, seconds, note):
    """The whole process's CPU time for a capture, less that for a capture of one frame."""
    big, small = path(job.trace + ".pcap"), path("one.pcap")
    with open(big, "rb") as f, open(small, "wb") as g:
        g.write(f.read(24 + 16 + 64))
    count = (os.path.getsize(big) - 24) / 80
    ours, reference = [], []
    for _ in range(rounds):
        spent = lambda file: run([WIRELOOM, "run", job.app, "--cores", "0", "--bind", f"wire=pcap:{file}"])[1]  # noqa: E731
        ours.append((spent(big) - spent(small)) * 1e9 / count)
        _, cpu, _ = run([path("hw"), "pcap", big], {0})
        _, floor, _ = run([path("hw"), "pcap", small], {0})
        reference.append((cpu - floor) * 1e9 / count)
    return ours, reference, {}


def xdp(job, rounds, seconds, note):
    import forwarding
    return forwarding.compare(WORK, WIRELOOM, os.path.join(ROOT, job.app), rounds, max(2.0, 2 * seconds))


def ipsec(job, rounds, seconds, note):
    """The gateway's outbound side, all of it, against the cryptography alone."""
    suite, size = job.args
    policy = {"key": "192.168.0.0/16", "spi": 256, "suite": {"gcm": "aes_gcm", "ctr": "aes_ctr_hmac_sha1"}[suite], "source": "192.0.2.1", "peer": "192.0.2.2",
              "cipher": "0x" + bytes(range(36)).hex(), "auth": "0x" + bytes(range(20)).hex() if suite == "ctr" else "", "gateway": "02:00:00:00:00:02"}
    with open(path(f"policy-{suite}.json"), "w") as f:
        json.dump([policy], f)
    ours, reference, extra = [], [], {}
    # Larger than any packet: a packet that does not fit would be answered, not encrypted.
    load = ["--set", "mtu=9000", "--load", f"policies={path(f'policy-{suite}.json')}", "--bind", f"plain={path(job.trace)}.pcap", "--frames", frames(job, seconds), "--json", "--repeat", "1"]
    for _ in range(rounds):
        out, _, _ = run([path("espb"), suite, size, frames(job, seconds)], {0})
        reference.append(json.loads(out)["ns"])
        mine = json.loads(run([WIRELOOM, "bench", job.app, *load, "--no-elements"])[0])
        ours.append(mine["ns"])
        sent = mine["runs"][0]
        if sent["sent"] < sent["received"]:
            note(f"{sent['received'] - sent['sent']} of {sent['received']} frames did not leave")
    extra["elements"] = json.loads(run([WIRELOOM, "bench", job.app, *load])[0])["elements"]
    return ours, reference, extra


KINDS = {"frames": compare_frames, "insert": insertions, "cores": cores, "steering": steering, "sharing": sharing, "pcap": captures, "xdp": xdp, "ipsec": ipsec}


def version(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout.split("\n")[0]
    except OSError:
        return ""


def machine():
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "?")
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{model}, {os.cpu_count()} cores, {gib:.0f} GiB"


def choose(jobs, names):
    """The jobs of these names; `NAME@` is the job in all regimes, `@` all jobs in all regimes."""
    fits = lambda job, name: job.name == name or name.endswith("@") and "@" in job.name and job.name.startswith(name if name != "@" else "")  # noqa: E731
    unknown = [n for n in names if not any(fits(j, n) for j in jobs)]
    if unknown:
        sys.exit(f"no such job: {', '.join(unknown)}; there are: {', '.join(j.name for j in jobs)}")
    return [j for j in jobs if any(fits(j, n) for n in names)]


def measure(options):
    build()
    traces()
    all_jobs = JOBS + IN_REGIMES
    chosen = choose(all_jobs, options.jobs.split(",")) if options.jobs else all_jobs
    for count in {trace_frames(j) for j in chosen if j.regime}:
        traces_of(count)
    meta = dict(start=time.strftime("%Y-%m-%d %H:%M:%S"), machine=machine(), uname=" ".join(platform.uname()), rounds=options.rounds,
                seconds=options.seconds, last_level_cache=last_level_cache(), command=os.environ.get("BENCH_COMMAND", " ".join(sys.argv)),
                load_before=os.getloadavg()[0], commit=version(["git", "rev-parse", "--short", "HEAD"]), compiler=compiled_by(WIRELOOM), c_compiler=version([compiler(), "--version"]))
    rows = []
    for job in chosen:
        row = dict(job=job.name, notes=[])
        begin = time.time()
        try:
            with neighbour(job.regime and job.regime.neighbour):
                row["ours"], row["reference"], row["extra"] = KINDS[job.kind](job, options.rounds, options.seconds, row["notes"].append)
        except (RuntimeError, OSError, ValueError, KeyError, ImportError) as e:
            row["failed"] = str(e)
        rows.append(row)
        median = lambda values: f"{sorted(values)[len(values) // 2]:.2f}"  # noqa: E731
        said = row.get("failed") or f"{median(row['ours'])} {job.unit}" + (f", {job.reference} {median(row['reference'])}" if row["reference"] else "") + (
            f", plain C {median(row['extra']['plain'])}" if row["extra"].get("plain") else "")
        print(f"{job.name:16} {said}  ({time.time() - begin:.0f} s)", flush=True)
        with open(options.out, "w") as f:
            json.dump(dict(meta=dict(meta, load_after=os.getloadavg()[0]), rows=rows), f, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    runner = commands.add_parser("run")
    runner.add_argument("--out", required=True)
    runner.add_argument("--jobs", default="", help="by default all")
    runner.add_argument("--rounds", type=int, default=3)
    runner.add_argument("--seconds", type=float, default=0.3, help="CPU time of a run, about")
    options = parser.parse_args()
    if options.command == "list":
        for job in JOBS + IN_REGIMES:
            print(f"{job.name:18} {job.label}")
    else:
        measure(options)


if __name__ == "__main__":
    main()
