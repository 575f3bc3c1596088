#!/usr/bin/env python3
"""Layer-7 benchmark: `bench.py run` measures, `bench.py table` prints what was measured. See bench/README.md."""
import argparse
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import process, runner, settings, tables  # noqa: E402
from harness.jobs import JOBS  # noqa: E402


def parser():
    top = argparse.ArgumentParser(description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)

    run = commands.add_parser("run", help="measure jobs and write a JSON file")
    run.add_argument("--jobs", default=",".join(JOBS), help="comma-separated; default: all")
    run.add_argument("--quick", action="store_true", help="only the peers and connection counts the targets need")
    run.add_argument("--peers", help="only these peers, in this order")
    run.add_argument("--conns", help="these connection counts instead of the job's")
    run.add_argument("--rounds", type=int, default=5, help="rounds over all jobs; default 5")
    run.add_argument("--dur", type=int, default=3, help="seconds of load per run; default 3")
    run.add_argument("--words-mib", type=int, default=1024, help="input of the word-count job in MiB; default 1024")
    run.add_argument("--retry", type=int, default=1, help="repeat a contended run up to this many times")
    run.add_argument("--wait", type=float, default=10, help="longest wait for a quiet machine before each run, s")
    run.add_argument("--wait-total", type=float, default=300, help="and in all, s")
    run.add_argument("--contended", type=float, default=0.06,
                     help="a run is contended when other processes use more cores than this")
    run.add_argument("--put", action="append", metavar="NAME@KIND=COMMAND", help="one more peer; may be repeated")
    run.add_argument("--out", default="l7.json")
    run.set_defaults(entry=runner.run)

    table = commands.add_parser("table", help="print medians as a Markdown table")
    table.add_argument("files", nargs="+")
    table.add_argument("--all", action="store_true", help="use contended runs too, even with 3 or more quiet ones")
    table.add_argument("--ref", help="also print the ratios to this peer, paired by round")
    table.set_defaults(entry=tables.table)
    return top


def main():
    args = parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if args.command == "run":
        unknown = set(args.jobs.split(",")) - set(JOBS)
        if unknown:
            sys.exit("unknown job: " + ", ".join(sorted(unknown)))
        os.sched_setaffinity(0, {settings.LOAD_CORE})
    try:
        args.entry(args)
    finally:
        process.stop_all()


if __name__ == "__main__":
    main()
