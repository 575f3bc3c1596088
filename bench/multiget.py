#!/usr/bin/env python3
"""Reads of 100 keys through memcached_proxy and twemproxy: CPU time per key, and keys per second, in one interleaved run.

    bench/multiget.py [--keys 100] [--servers 4] [--rounds 5] [--seconds 3] [--values 100]

Both proxies use one core, and stand before the same memcached servers with the same keys; rounds alternate between them. CPU time is
what the kernel has counted for the proxy's process. Needs memcached, nutcracker, and target/release/wireloom (or WIRELOOM).
"""

import argparse
import os
import selectors
import socket
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What is measured is optimised code, from the first request on.
os.environ.setdefault("WIRELOOM_START", "optimized")
WIRELOOM = os.environ.get("WIRELOOM", os.path.join(ROOT, "target/release/wireloom"))
TICK = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port):
    for _ in range(400):
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port}")


def cpu(pid):
    """Seconds that a process has used, all its threads."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def load(port, request, size, seconds, connections=8):
    """Answers of `size` bytes to the request, on several connections, until the time is over; how many."""
    poll = selectors.DefaultSelector()
    for _ in range(connections):
        s = socket.create_connection(("127.0.0.1", port))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.sendall(request)
        poll.register(s, selectors.EVENT_READ, [0])
    done, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        for key, _ in poll.select(0.1):
            data = key.fileobj.recv(1 << 18)
            if not data:
                raise SystemExit("a proxy has closed the connection")
            key.data[0] += len(data)
            if key.data[0] == size:
                key.data[0] = 0
                done += 1
                key.fileobj.sendall(request)
            elif key.data[0] > size:
                raise SystemExit("an answer is longer than it may be")
    for key in list(poll.get_map().values()):
        key.fileobj.close()
    return done


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in [("keys", 100), ("servers", 4), ("rounds", 5), ("seconds", 3), ("values", 100)]:
        args.add_argument(f"--{name}", type=int, default=value)
    a = args.parse_args()
    children = []
    try:
        ports = [free_port() for _ in range(a.servers)]
        for p in ports:
            children.append(subprocess.Popen(["memcached", "-u", "nobody", "-p", str(p), "-U", "0", "-l", "127.0.0.1", "-t", "1"]))
            wait_for(p)
        ours, theirs, stats = free_port(), free_port(), free_port()
        config = tempfile.NamedTemporaryFile("w", suffix=".yml", delete=False)
        servers = "".join(f"   - 127.0.0.1:{p}:1\n" for p in ports)
        config.write(f"farm:\n  listen: 127.0.0.1:{theirs}\n  hash: fnv1a_64\n  distribution: modula\n  servers:\n{servers}")
        config.close()
        proxies = {
            "twemproxy": (theirs, ["nutcracker", "-c", config.name, "-s", str(stats), "-a", "127.0.0.1"]),
            "wireloom": (ours, [WIRELOOM, "run", os.path.join(ROOT, "apps/memcached_proxy.loom"), "--cores", "1", "--set", f"port={ours}", "--set", "distribution=modula",
                                "--set", "servers=" + ",".join(f"127.0.0.1:{p}" for p in ports)]),
        }
        pids = {}
        for name, (port, command) in proxies.items():
            children.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            pids[name] = children[-1].pid
            wait_for(port)
        keys = [f"user:{i:06}:name" for i in range(a.keys)]
        value = b"v" * a.values
        with socket.create_connection(("127.0.0.1", theirs)) as s:
            for k in keys:
                s.sendall(b"set %s 0 0 %d\r\n%s\r\n" % (k.encode(), len(value), value))
                assert s.recv(100) == b"STORED\r\n"
        request = ("get " + " ".join(keys) + "\r\n").encode()
        size = sum(len(f"VALUE {k} 0 {len(value)}\r\n") + len(value) + 2 for k in keys) + 5
        for name in proxies:
            load(proxies[name][0], request, size, 1)
        seen = {name: [] for name in proxies}
        for _ in range(a.rounds):
            for name, (port, _) in proxies.items():
                before = cpu(pids[name])
                n = load(port, request, size, a.seconds)
                seen[name].append(((cpu(pids[name]) - before) / (n * a.keys) * 1e9, n * a.keys / a.seconds))
        for name, rounds in seen.items():
            print(f"{name:10} {statistics.median(r[0] for r in rounds):8.0f} ns of CPU per key  {statistics.median(r[1] for r in rounds):10.0f} keys/s")
        ratio = statistics.median(w[0] / t[0] for w, t in zip(seen["wireloom"], seen["twemproxy"]))
        print(f"CPU per key, wireloom : twemproxy = {ratio:.2f} ({a.keys} keys, {a.servers} servers, values of {a.values} bytes, {a.rounds} rounds)")
    finally:
        for c in children:
            c.terminate()


if __name__ == "__main__":
    main()
