#!/usr/bin/env python3
"""CPU time for the rows of a stream: passed on, and passed on with a handler of each row.

A client sends batches of rows with values of `--size` bytes over one connection. The server behind reads them to
their end. Each round runs both programs with `--mib` MiB of rows. CPU time is that of the proxy's process.
`items.py [--rounds 5] [--mib 256] [--sizes 20,200,2000] [--ports 22500]`. Needs target/release/wireloom (or WIRELOOM).
"""
import argparse
import pathlib
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/l7"))
from harness import beside, settings  # noqa: E402

BATCH = 10_000


def batch(size):
    row = lambda more: b"k%c" % more + size.to_bytes(2, "big") + b"v" * size
    return b"batch\n" + row(1) * (BATCH - 1) + row(0)


def answer(sock, lengths):
    """Reads batches; the length of the values in the first row tells how long one is."""
    buffer, left = bytearray(1 << 20), 0
    while True:
        n = sock.recv_into(buffer)
        if n == 0:
            return
        if left == 0:
            left = lengths[int.from_bytes(buffer[8:10], "big")]
        left -= n
        if left == 0:
            sock.sendall(b"done\n")


def load(port, size, mib):
    rows = (mib << 20) // (size + 4) // BATCH * BATCH
    sock, data = socket.create_connection(("127.0.0.1", port)), batch(size)
    for _ in range(rows // BATCH):
        sock.sendall(data)
        if sock.recv(100) != b"done\n":
            raise SystemExit("a batch was not passed on")
    sock.close()
    return rows / 1e6


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in [("rounds", 5), ("mib", 256), ("ports", 22500)]:
        args.add_argument(f"--{name}", type=int, default=value)
    args.add_argument("--sizes", default="20,200,2000")
    a = args.parse_args()
    sizes = [int(s) for s in a.sizes.split(",")]
    server = beside.server(a.ports, answer, {s: len(batch(s)) for s in sizes})
    beside.wait_for(a.ports)
    with beside.workplace() as (_, children):
        peers = {}
        for n, name in enumerate(["passes", "counts"], 1):
            command = [settings.WIRELOOM, "run", str(ROOT / f"bench/items/{name}.loom"), "--cores", "1",
                       "--set", f"port={a.ports + n}", "--set", f"servers=127.0.0.1:{a.ports}"]
            children.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            beside.wait_for(a.ports + n)
            peers[name] = (a.ports + n, children[-1].pid)
        for size in sizes:
            run = lambda port, pid: beside.cost(pid, lambda: load(port, size, a.mib))[0]
            for port, _ in peers.values():
                load(port, size, 32)
            seen = beside.interleaved(peers, a.rounds, run)
            one, two, ratio = beside.compare({name: seen[name] for name in ("counts", "passes")})
            print(f"{size:5} bytes: counts : passes = {ratio:.2f}  ({one * 1e3:.0f} and {two * 1e3:.0f} ns of CPU for a row)")
    server.terminate()


if __name__ == "__main__":
    main()
