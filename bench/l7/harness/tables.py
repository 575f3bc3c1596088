"""Markdown tables of recorded runs: medians per job, connection count and peer, and ratios to one peer."""
import json
import statistics

from .jobs import JOBS

HEAD = ("job", "conns", "peer", "runs", "CPU us/req med [min..max]", "in calib pairs", "user+sys",
        "req/s med [min..max]", "core util", "p50 us", "p99 us", "RSS MiB (PSS)", "load+backend us", "err",
        "foreign CPU (cores)")


def load_groups(files):
    """{(job, conns, peer): [runs]}, in the order of the jobs."""
    groups = {}
    for path in files:
        with open(path) as f:
            for run in json.load(f)["runs"]:
                groups.setdefault((run["job"], run["conns"], run["peer"]), []).append(run)
    order = list(JOBS)
    return dict(sorted(groups.items(), key=lambda g: (order.index(g[0][0]) if g[0][0] in order else 99, g[0][1])))


def usable(runs, use_all=False):
    """The runs that succeeded; only the quiet ones where there are at least three."""
    good = [r for r in runs if "failed" not in r]
    quiet = [r for r in good if not r["contended"]]
    return quiet if len(quiet) >= 3 and not use_all else good


def figure(run):
    """The main figure of a run: CPU ms per MB, memory in MiB, or CPU us per request."""
    if "cpu_ms_per_mb" in run:
        return run["cpu_ms_per_mb"]
    if "rss_idle_kb" in run:
        return run["rss_kb"] / 1024
    return run.get("proxy_us")


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}..{max(values):.{digits}f}]"


def row(key, runs, use_all):
    job, conns, peer = key
    good = usable(runs, use_all)
    cells = [job, str(conns), peer, f"{len(good)}/{len(runs)}"]
    if not good:
        return cells + ["FAILED " + runs[0]["failed"][:80]] + [""] * (len(HEAD) - 5)
    if "cpu_ms_per_mb" in good[0]:
        text = f"{spread([figure(r) for r in good])} ms/MB"
        return cells + [text] + ["-"] * (len(HEAD) - 5)
    if "rss_idle_kb" in good[0]:
        memory = f"{spread([figure(r) for r in good], 1)}"
        return cells + ["-"] * 7 + [memory, "-", str(sum(map(errors, good))), "-"]

    def mid(name):
        return statistics.median(r.get(name, 0) for r in good)
    pairs = [r["proxy_pairs"] for r in good if "proxy_pairs" in r]
    return cells + [
        spread([r["proxy_us"] for r in good]), spread(pairs) if pairs else "-",
        f"{mid('proxy_user_us'):.1f}+{mid('proxy_sys_us'):.1f}", spread([r["rps"] for r in good], 0),
        f"{mid('proxy_util'):.2f}", f"{mid('p50_us'):.0f}", f"{mid('p99_us'):.0f}",
        f"{mid('rss_kb') / 1024:.1f} ({mid('pss_kb') / 1024:.1f})", f"{mid('gen_us') + mid('backend_us'):.1f}",
        str(sum(map(errors, good))), f"{mid('foreign'):.2f}",
    ]


def errors(run):
    return run.get("errors", 0) + run.get("non2xx", 0) + run.get("miss", 0)


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows])


def ratios(runs, reference_runs):
    """Main figures divided by the reference's of the same round."""
    by_round = {r["rep"]: figure(r) for r in reference_runs if "failed" not in r and figure(r)}
    return [figure(r) / by_round[r["rep"]] for r in runs if "failed" not in r and r["rep"] in by_round]


def table(args):
    """Entry of `bench.py table`."""
    groups = load_groups(args.files)
    print(markdown(HEAD, [row(key, runs, args.all) for key, runs in groups.items()]))
    if not args.ref:
        return
    rows = []
    for (job, conns, peer), runs in groups.items():
        values = ratios(runs, groups.get((job, conns, args.ref), []))
        if values and peer not in (args.ref, "direct"):
            rows.append([job, str(conns), peer, spread(values)])
    print()
    print(markdown(("job", "conns", "peer", f"relative to {args.ref}, same round: median [min..max]"), rows))
