#!/usr/bin/env python3
"""Measures the packet programs of two checkouts beside each other, to see what a change costs.

    git worktree add /tmp/before COMMIT && (cd /tmp/before && cargo build --release --bins)
    bench/packet/compare.py /tmp/before [--jobs parse,flow_1k] [--rounds 9] [--seconds 0.3]

Each round runs a job with both, in turns, and gives a ratio of CPU times; the median of all rounds
is shown, with the lowest and the highest. Each checkout runs its own apps with its own options.
Jobs that only one of them has are left out. Traces are those of bench.py.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import bench  # noqa: E402


def jobs_of(tree):
    """The jobs of frames in memory, by name."""
    file = os.path.join(tree, "bench/packet/jobs.py")
    spec = importlib.util.spec_from_file_location("jobs_of_" + str(abs(hash(tree))), file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return {j.name: j for j in module.JOBS + module.IN_REGIMES if j.kind == "frames"}


def once(tree, job, seconds):
    """CPU time of a frame, in ns."""
    binary = os.path.join(tree, "target/release/wireloom")
    command = [binary, "bench", *job.app.split(), "--bind", f"wire={bench.capture(job)}", *bench.arguments(job), "--frames",
               bench.frames(job, seconds), "--json", "--repeat", "1", "--no-elements"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tree)
    if done.returncode:
        raise RuntimeError(f"{binary}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)["ns"]


def compare(trees, jobs, rounds, seconds):
    """The ratios after / before of all rounds, and both medians in ns."""
    ratios, times = [], ([], [])
    for n in range(rounds):
        spent = [0, 0]
        for side in (0, 1) if n % 2 else (1, 0):
            spent[side] = once(trees[side], jobs[side], seconds)
            times[side].append(spent[side])
        ratios.append(spent[1] / spent[0])
    return ratios, [statistics.median(t) for t in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="a checkout with its release built")
    parser.add_argument("--after", default=bench.ROOT, help="another one; by default this checkout")
    parser.add_argument("--jobs", default="", help="by default all of frames in memory")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.3, help="CPU time of a run, about")
    options = parser.parse_args()
    trees = os.path.abspath(options.before), os.path.abspath(options.after)
    before, after = map(jobs_of, trees)
    bench.build()
    bench.traces()
    both = [after[name] for name in after if name in before]
    chosen = bench.choose(both, options.jobs.split(",")) if options.jobs else both
    for count in {bench.trace_frames(j) for j in chosen if j.regime}:
        bench.traces_of(count)
    print(f"{bench.machine()}; after / before, median of {options.rounds} rounds (lowest to highest)")
    for job in chosen:
        with bench.neighbour(job.regime and job.regime.neighbour):
            ratios, times = compare(trees, (before[job.name], job), options.rounds, options.seconds)
        print(f"{job.name:18} {times[0]:8.2f} {times[1]:8.2f} ns  {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})", flush=True)


if __name__ == "__main__":
    main()
