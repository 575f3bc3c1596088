#!/usr/bin/env python3
"""Fills the Results sections of bench/README.md from the JSON files in bench/results/ and bench/results/packet/.

For each job the newest file in which Wireloom was measured is used (or, while there is none, the newest with the
job at all), and only that file: ours and the peers come from the same interleaved run. A ratio is the median of the
ratios of each round. `report.py --print` writes to the terminal instead of the README; `--check` exits with 1 if a
measured target is missed.
"""
import argparse
import glob
import json
import os
import statistics
import sys
from dataclasses import dataclass
from typing import Optional

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "l7"), os.path.join(HERE, "packet")]
import packet_report  # noqa: E402
from filled import filled  # noqa: E402
from harness import tables  # noqa: E402

README = os.path.join(HERE, "README.md")
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
PACKETS_BEGIN, PACKETS_END = "<!-- packets:begin -->", "<!-- packets:end -->"


@dataclass
class Goal:
    """A limit on our figure: `factor` times that of `peer`, or `factor` itself where there is no peer."""
    factor: float
    peer: Optional[str] = None


@dataclass
class Target:
    """A row of the table of targets. With two peers to beat there is one Target for each."""
    label: str
    job: str
    conns: int
    unit: str
    must: Goal
    aim: Goal
    ours: str = "wireloom"


REQUEST, MEMORY, WORDS = "CPU µs/request", "RSS MiB", "CPU ms/MB"

TARGETS = [
    Target("static_web", "static", 512, REQUEST, Goal(0.85, "nginx"), Goal(1.0, "floor_static")),
    Target("http_balancer, keep-alive", "lb_ka", 512, REQUEST, Goal(0.75, "nginx_hash"), Goal(1.1, "floor_epoll")),
    Target("http_balancer, keep-alive", "lb_ka", 512, REQUEST, Goal(0.75, "haproxy_hash"), Goal(1.1, "floor_epoll")),
    Target("http_balancer, one request per connection", "lb_close", 64, REQUEST,
           Goal(1.0, "nginx_hash"), Goal(0.9, "nginx_hash")),
    Target("memcached ASCII", "mc_ascii", 512, REQUEST, Goal(0.80, "nutcracker"), Goal(1.05, "floor_mux")),
    Target("memcached binary", "mc_bin", 128, REQUEST, Goal(0.75, "haproxy_tcp"), Goal(1.0, "floor_mux")),
    Target("memcached, 8 outstanding", "mc_pipe8", 128, REQUEST, Goal(0.75, "nutcracker"), Goal(1.0, "haproxy_tcp")),
    Target("resident memory, http_balancer", "mem_lb", 512, MEMORY, Goal(12), Goal(6)),
    Target("resident memory, memcached_proxy", "mem_mc", 512, MEMORY, Goal(12), Goal(6)),
    Target("word_count_combiner, 8 streams", "words", 8, WORDS, Goal(0.8, "sort"), Goal(0.4, "sort")),
]

HEAD = ("job", "conns", "unit", "ours", "named peer", "its figure", "ours / peer", "must reach", "verdict",
        "aim", "aim reached", "date", "machine", "command")


@dataclass
class Session:
    """One result file."""
    name: str
    meta: dict
    groups: dict

    def has(self, job, peer=None):
        return any(key[0] == job and peer in (None, key[2]) for key in self.groups)

    def runs(self, job, conns, peer):
        return self.groups.get((job, conns, peer), [])


def sessions(folder):
    """All result files, the newest first."""
    found = []
    for path in glob.glob(os.path.join(folder, "*.json")):
        with open(path) as f:
            meta = json.load(f)["meta"]
        found.append(Session(os.path.basename(path), meta, tables.load_groups([path])))
    return sorted(found, key=lambda s: s.meta["start"], reverse=True)


def session_for(job, all_sessions):
    for session in all_sessions:
        if session.has(job, "wireloom"):
            return session
    return next((s for s in all_sessions if s.has(job)), None)


def figures(runs):
    return [tables.figure(r) for r in runs if "failed" not in r]


def judge(goal, ours, session, target):
    """Our figure relative to the goal's peer (or itself), and whether the goal is reached; None: not measured."""
    if goal.peer is None:
        values = figures(ours)
    else:
        values = tables.ratios(ours, session.runs(target.job, target.conns, goal.peer))
    if not values:
        return "–", None
    return tables.spread(values), statistics.median(values) <= goal.factor


def goal_text(goal, unit):
    return f"{goal.factor:g} × {goal.peer}" if goal.peer else f"{goal.factor:g} {unit.split()[-1]}"


def verdict(ours, reached):
    """pass, MISS, or why there is no verdict. Wrong or lost answers never pass."""
    if not ours:
        return "not measured"
    failed = [r["failed"] for r in ours if "failed" in r]
    if failed:
        return f"**FAILED** ({failed[0][:60]})"
    wrong = sum(map(tables.errors, ours))
    if wrong:
        return f"**INVALID** ({wrong} errors)"
    if reached is None:
        return "peer not measured"
    return "pass" if reached else "**MISS**"


def row(target, session):
    """The table's cells for one target, and its verdict."""
    must, aim = goal_text(target.must, target.unit), goal_text(target.aim, target.unit)
    start = [target.label, str(target.conns), target.unit]
    if session is None:
        return start + ["not measured", target.must.peer or "–", "–", "–", must, "not measured", aim, "–", "–", "–", "–"]
    ours = session.runs(target.job, target.conns, target.ours)
    peer = figures(session.runs(target.job, target.conns, target.must.peer)) if target.must.peer else []
    ratio, reached = judge(target.must, ours, session, target)
    aimed, aim_reached = judge(target.aim, ours, session, target)
    decision = verdict(ours, reached)
    aim_cell = {None: "–", True: f"yes ({aimed})", False: f"no ({aimed})"}[aim_reached]
    return start + [
        tables.spread(figures(ours)) if figures(ours) else "not measured",
        target.must.peer or "–", tables.spread(peer) if peer else "–",
        ratio if target.must.peer else "–", must, decision,
        aim, aim_cell if decision in ("pass", "**MISS**") else "–",
        session.meta["start"], session.meta.get("machine", "?"), "`" + session.meta.get("command", "?").replace("|", "\\|") + "`",
    ]


def sources(used):
    """Which file, on which machine with which versions, the figures come from."""
    lines = []
    for session, jobs in used:
        versions = ", ".join(v for name, v in session.meta["versions"].items() if v and name != "commit")
        commit = session.meta["versions"].get("commit", "?")
        kernel = session.meta["uname"].split()
        lines.append(f"- `results/{session.name}` ({', '.join(jobs)}): {session.meta['start']}, commit {commit}, "
                     f"{session.meta.get('machine', '?')}, {kernel[0]} {kernel[2]}; {session.meta['rounds']} rounds "
                     f"of {session.meta['dur']} s, {session.meta['words_mib']} MiB of words; {versions}")
    return "\n".join(lines)


def report(all_sessions):
    """The Markdown of the Results section, and whether every measured target is reached."""
    chosen = {t.job: session_for(t.job, all_sessions) for t in TARGETS}
    for session in all_sessions:  # jobs without a target, such as static_close
        for job, _, _ in session.groups:
            chosen.setdefault(job, session_for(job, all_sessions))
    rows = [row(t, chosen[t.job]) for t in TARGETS]
    verdicts = [r[HEAD.index("verdict")] for r in rows]
    misses = [f"{r[0]} ({r[HEAD.index('must reach')]}): {v}" for r, v in zip(rows, verdicts) if "**" in v]

    used, details = [], []
    for session in all_sessions:
        jobs = [job for job, s in chosen.items() if s is session]
        if jobs:
            used.append((session, jobs))
            details += [tables.row(key, runs, True) for key, runs in session.groups.items() if key[0] in jobs]
    parts = ["### Targets", tables.markdown(HEAD, rows)]
    parts.append("Missed: " + ("; ".join(misses) if misses else "none of the measured targets") + ".")
    parts += ["### Every peer", tables.markdown(tables.HEAD, details), word_parts(chosen.get("words"))]
    parts += ["### Where the figures come from", sources(used) or "Nothing has been measured yet."]
    return "\n\n".join(p for p in parts if p), not misses


def word_parts(session):
    """The word-count job by process, as medians."""
    if not session:
        return ""
    rows = []
    for (job, _, peer), runs in session.groups.items():
        good = [r for r in runs if "failed" not in r]
        if job != "words" or not good:
            continue
        for name in good[0]["parts_ms_per_mb"]:
            counted = "no: beside the figure" if name == "receivers" else "yes"
            rows.append([peer, name, f"{statistics.median(r['parts_ms_per_mb'][name] for r in good):.2f}", counted])
        speed = statistics.median(r["mb_per_s"] for r in good)
        rows.append([peer, "throughput", f"{speed:.0f} MB/s", "–"])
    return tables.markdown(("words peer", "process", "CPU ms/MB", "counted"), rows)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--print", action="store_true", help="to the terminal, leaving the README as it is")
    options.add_argument("--check", action="store_true", help="exit with 1 if a measured target is missed")
    options.add_argument("--results", default=os.path.join(HERE, "results"), help="the folder of result files")
    args = options.parse_args()
    text, good = report(sessions(args.results))
    packets, packets_good = packet_report.report(args.results)
    text, packets = filled(text), filled(packets)
    if args.print:
        print(text, packets, sep="\n\n")
    else:
        with open(README) as f:
            readme = f.read()
        for part, begin, end in ((text, BEGIN, END), (packets, PACKETS_BEGIN, PACKETS_END)):
            before, rest = readme.split(begin)
            readme = f"{before}{begin}\n{part}\n{end}{rest.split(end)[1]}"
        with open(README, "w") as f:
            f.write(readme)
        print("refreshed", os.path.relpath(README))
    return 1 if args.check and not (good and packets_good) else 0


if __name__ == "__main__":
    sys.exit(main())
