#!/usr/bin/env python3
"""Reads of 100 keys through memcached_proxy or redis_proxy, and twemproxy: CPU time per key, and keys per second, in one interleaved run.

    bench/multiget.py [--redis] [--keys 100] [--servers 4] [--rounds 5] [--seconds 3] [--values 100]

Both proxies use one core, and stand before the same servers (memcached, or Redis) with the same keys; rounds alternate between them. CPU time is
what the kernel has counted for the proxy's process. Needs memcached or redis-server, nutcracker, and target/release/wireloom (or WIRELOOM).
"""

import argparse
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench/l7"))
from harness import beside  # noqa: E402
from harness.settings import WIRELOOM  # noqa: E402


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


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


def server(redis, port):
    if redis:
        return ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    return ["memcached", "-u", "nobody", "-p", str(port), "-U", "0", "-l", "127.0.0.1", "-t", "1"]


def words(*list_of):
    return b"*%d\r\n" % len(list_of) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in list_of)


def store(redis, port, keys, value):
    with socket.create_connection(("127.0.0.1", port)) as s:
        for k in keys:
            s.sendall(words(b"SET", k.encode(), value) if redis else b"set %s 0 0 %d\r\n%s\r\n" % (k.encode(), len(value), value))
            assert s.recv(100) == (b"+OK\r\n" if redis else b"STORED\r\n")


def read_of(redis, keys, value):
    """The request for all keys, and the size of its answer."""
    if redis:
        return words(b"MGET", *(k.encode() for k in keys)), len(words(*[value] * len(keys)))
    size = sum(len(f"VALUE {k} 0 {len(value)}\r\n") + len(value) + 2 for k in keys) + 5
    return ("get " + " ".join(keys) + "\r\n").encode(), size


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--redis", action="store_true", help="MGET of Redis")
    for name, value in [("keys", 100), ("servers", 4), ("rounds", 5), ("seconds", 3), ("values", 100)]:
        args.add_argument(f"--{name}", type=int, default=value)
    a = args.parse_args()
    children = []
    try:
        ports = [free_port() for _ in range(a.servers)]
        for p in ports:
            children.append(subprocess.Popen(server(a.redis, p), stdout=subprocess.DEVNULL))
            beside.wait_for(p)
        ours, theirs, stats = free_port(), free_port(), free_port()
        config = tempfile.NamedTemporaryFile("w", suffix=".yml", delete=False)
        servers = "".join(f"   - 127.0.0.1:{p}:1\n" for p in ports)
        config.write(f"farm:\n  listen: 127.0.0.1:{theirs}\n  hash: fnv1a_64\n  distribution: modula\n  redis: {str(a.redis).lower()}\n  servers:\n{servers}")
        config.close()
        proxies = {
            "twemproxy": (theirs, ["nutcracker", "-c", config.name, "-s", str(stats), "-a", "127.0.0.1"]),
            "wireloom": (ours, [WIRELOOM, "run", os.path.join(ROOT, "apps", "redis_proxy.loom" if a.redis else "memcached_proxy.loom"), "--cores", "1",
                                "--set", f"port={ours}", "--set", "servers=" + ",".join(f"127.0.0.1:{p}" for p in ports)]),
        }
        pids = {}
        for name, (port, command) in proxies.items():
            children.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            pids[name] = children[-1].pid
            beside.wait_for(port)
        keys = [f"user:{i:06}:name" for i in range(a.keys)]
        value = b"v" * a.values
        # Each places them in its own way.
        for port, _ in proxies.values():
            store(a.redis, port, keys, value)
        request, size = read_of(a.redis, keys, value)
        for name in proxies:
            load(proxies[name][0], request, size, 1)
        peers = {name: (pids[name], port) for name, (port, _) in proxies.items()}
        seen = beside.interleaved(peers, a.rounds, lambda pid, port: beside.cost(pid, lambda: load(port, request, size, a.seconds) * a.keys))
        for name, rounds in seen.items():
            spent, read = (statistics.median(values) for values in zip(*rounds))
            print(f"{name:10} {spent * 1e9:8.0f} ns of CPU per key  {read / a.seconds:10.0f} keys/s")
        _, _, ratio = beside.compare({name: [spent for spent, _ in seen[name]] for name in ("wireloom", "twemproxy")})
        print(f"CPU per key, wireloom : twemproxy = {ratio:.2f} ({a.keys} keys, {a.servers} servers, values of {a.values} bytes, {a.rounds} rounds)")
    finally:
        for c in children:
            c.terminate()
        for c in children:
            c.wait()


if __name__ == "__main__":
    main()
