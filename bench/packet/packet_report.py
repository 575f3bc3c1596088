"""The section about packets in bench/README.md, from the newest result of each job in bench/results/packet/."""
import glob
import json
import os
import statistics

from jobs import JOBS, PEERS_FROM, REGIMES, in_regimes

HEAD = ("job", "unit", "ours", "reference", "its figure", "ours / reference", "tuned C", "ours / tuned C", "must reach", "verdict", "aim", "aim reached", "peers, quoted")


def sessions(folder):
    """Result files, the newest first."""
    found = []
    for path in glob.glob(os.path.join(folder, "packet", "*.json")):
        with open(path) as f:
            found.append(dict(json.load(f), name=os.path.basename(path)))
    return sorted(found, key=lambda s: s["meta"]["start"], reverse=True)


def newest(job, all_sessions):
    """The newest row of a job, one that has not failed if there is any, and its session."""
    rows = [(row, s) for s in all_sessions for row in s["rows"] if row["job"] == job.name]
    return next((r for r in rows if "failed" not in r[0]), rows[0] if rows else (None, None))


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}..{max(values):.{digits}f}]"


def reached(job, goal, values):
    """Whether the median keeps to a goal; None: there is none."""
    if goal is None or not values:
        return None
    median = statistics.median(values)
    return median <= goal if job.less else median >= goal


def ratios(ours, theirs):
    return [a / b for a, b in zip(ours, theirs)]


def row(job, measured):
    """A job's row. Targets are judged by the plain C, where it has the job and was measured; the tuned C stands beside it."""
    plain = (measured or {}).get("extra", {}).get("plain") if "failed" not in (measured or {}) else None
    name = "plain C" if plain else job.reference
    goal = lambda g: "–" if g is None else f"{g:g} {job.unit.split(',')[0]}" if job.absolute else f"{g:g} × {name}"  # noqa: E731
    start = [job.label, job.unit]
    end = [goal(job.must)]
    if measured is None or "failed" in measured:
        why = "not measured" if measured is None else "**not measured**: " + measured["failed"][:80].replace("|", "\\|").replace("\n", " ")
        return start + ["–", name or "–", "–", "–", "–", "–", *end, why, goal(job.aim), "–", job.peers or "–"]
    ours, tuned, extra = measured["ours"], measured["reference"], measured["extra"]
    reference = plain or tuned
    judged = ours if job.absolute else ratios(ours, reference)
    must, aim = reached(job, job.must, judged), reached(job, job.aim, judged)
    if measured["notes"]:
        verdict = "**INVALID**: " + "; ".join(measured["notes"])
    elif job.memory_mib and extra["rss_mib"] > job.memory_mib:
        verdict = f"**MISSED** ({extra['rss_mib']} MiB)"
    else:
        verdict = {None: "–", True: "met", False: "**MISSED**"}[must]
    if job.memory_mib and "MISSED" not in verdict:
        verdict += f"; {extra['rss_mib']} MiB in all of {job.memory_mib}"
    beside = [spread(tuned), spread(ratios(ours, tuned))] if plain else ["–", "–"]
    return start + [spread(ours), name or "–", spread(reference) if reference else "–", "–" if job.absolute else spread(judged), *beside, *end, verdict,
                    goal(job.aim), {None: "–", True: "yes", False: "no"}[aim], job.peers or "–"]


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, r)) + " |" for r in rows])


def regimes(all_sessions):
    """The jobs with their frames in and outside of the caches: ours / plain C; which miss their target; the sessions they are from."""
    missed, used, rows = [], [], []
    for job in [j for j in JOBS if in_regimes(j)]:
        cells = [job.label]
        for variant in in_regimes(job):
            measured, session = newest(variant, all_sessions)
            if measured is None or "failed" in measured:
                cells.append("not measured")
                continue
            if session not in used:
                used.append(session)
            theirs = measured["extra"]["plain"]
            judged = ratios(measured["ours"], theirs)
            met = reached(job, job.must, judged) and not measured["notes"]
            if not met:
                missed.append(f"{job.label} ({variant.regime.label}: {statistics.median(judged):.2f})")
            figure = f"{statistics.median(measured['ours']):.1f} / {statistics.median(theirs):.1f} ns: {spread(judged)}"
            cells.append(figure if met else f"{figure} **MISSED**")
        rows.append(cells)
    if not used:
        return "", [], []
    text = "### In the caches and outside of them\n\nOurs and the plain C, frames of 64 bytes in a trace of so many bytes; must: 1.3.\n\n"
    named = "Missed: " + ("; ".join(missed) if missed else "none") + "."
    return text + markdown(["job", *(r.label for r in REGIMES)], rows) + "\n\n" + named, missed, used


def flatness(found):
    """16K rules against 1K, which must cost about the same."""
    few, many = found.get("rules_1k"), found.get("rules_16k")
    if not few or not many or "failed" in few or "failed" in many:
        return ""
    grown = [b / a for a, b in zip(few["ours"], many["ours"])]
    theirs = [b / a for a, b in zip(few["reference"], many["reference"])]
    return f"From 1K to 16K rules ours grows by the factor {spread(grown)}, the tuned C by {spread(theirs)} (its tables leave the caches, too)."


def details(found):
    """What else the runs have said."""
    lines = []
    for job in JOBS:
        row = found.get(job.name)
        if not row or "failed" in row:
            continue
        extra = row["extra"]
        parts = ", ".join(f"{e['element']} {e['ns']:.1f}" for e in extra.get("elements", []))
        if parts:
            lines.append(f"- {job.label}, ns by element: {parts}")
        if job.kind == "steering":
            lines.append(f"- {job.label}: one core takes {extra['one_core_ns']:.1f} ns")
        if job.kind == "insert":
            lines.append(f"- {job.label}: 99 of 100 within {extra['p99_us']:.2f} µs, {extra['each_round']} insertions a round")
        if job.kind == "xdp":
            lines.append(f"- {job.label}: frames a second that arrived, plain and ours, by round: {extra['frames_per_second']} of {extra['offered']} offered")
    return "\n".join(lines)


def c_compiler(session):
    name = session["meta"].get("c_compiler")
    return f" (hand-written C: {name})" if name else ""


def report(folder):
    """The Markdown, and whether every measured target is met."""
    all_sessions = sessions(folder)
    found, used = {}, []
    for job in JOBS:
        measured, session = newest(job, all_sessions)
        if measured:
            found[job.name] = measured
            if session not in used:
                used.append(session)
    rows = [row(job, found.get(job.name)) for job in JOBS]
    missed = [r[0] for r in rows if "**" in r[HEAD.index("verdict")]]
    in_regimes, missed_there, more = regimes(all_sessions)
    used += [s for s in more if s not in used]
    sources = [f"- `results/packet/{s['name']}`: {s['meta']['start']}, commit {s['meta']['commit']}, {s['meta']['machine']}, {' '.join(s['meta']['uname'].split()[i] for i in (0, 2))}, "
               f"{s['meta']['compiler']}{c_compiler(s)}; {s['meta']['rounds']} rounds of about {s['meta']['seconds']} s; load {s['meta']['load_before']:.1f} before, {s['meta']['load_after']:.1f} after; "
               f"`{s['meta']['command']}`" for s in used]
    parts = [markdown(HEAD, rows), "Missed or not measured: " + ("; ".join(missed) if missed else "none") + ".", flatness(found), in_regimes,
             f"Peers: {PEERS_FROM}.", "### By element, and more", details(found), "### Where the figures come from", "\n".join(sources) or "Nothing has been measured yet."]
    return "\n\n".join(p for p in parts if p), not missed and not missed_there
