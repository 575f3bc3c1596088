"""Runs of an app on a capture, and what crossed the modelled link in them. Nothing here is a time of a clock."""
import os, re, struct, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
WIRELOOM = os.environ.get("WIRELOOM", os.path.join(HERE, "../../target/release/wireloom"))
START = 1_700_000_000_000_000_000
# Parameters of the model that times follow from.
OP_NS, MBITS = 100, 63015


def capture(path, frames, gap):
    """Frames so many ns apart."""
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        for n, frame in enumerate(frames):
            s, ns = divmod(START + n * gap, 1_000_000_000)
            f.write(struct.pack("<IIII", s, ns, len(frame), len(frame)) + frame)


def run(app, binds, *more):
    """By queue: what its line says: frames, transactions, TLPs, payload, overhead."""
    command = [WIRELOOM, "run", app, *more]
    for b in binds:
        command += ["--bind", b]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if said.returncode:
        sys.exit(f"{' '.join(command)}:\n{said.stderr}")
    form = r"modelled link, `(\w+)` .*?: (\d+) frames, (\d+) transactions .*?, (\d+) TLPs, (\d+) \+ (\d+) bytes"
    return {m[0]: [int(n) for n in m[1:]] for m in re.findall(form, said.stderr)}


def link_ns(transactions, bytes_):
    """How long the link is at it: its engine and its bytes work side by side."""
    return max(transactions * OP_NS, bytes_ * 8000 / MBITS)
