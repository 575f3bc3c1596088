#!/usr/bin/env python3
"""How long a command of very many keys holds the core of a proxy.

Usage: bench/fairness/long_commands.py [--keys N] [--rounds N] [--out FILE]

`redis_proxy` (two servers) and `memcached_proxy` (two servers) run on core 0, all else on core 1. One client sends commands
of N keys, one behind the other. Another one sends PING (`mn` to memcached_proxy), which the proxy answers by itself, every
200 us (`waits.c`). It has real-time priority, so neither the servers nor this program delay it. Beside each wait it measures
the processor time that the proxy has used in it. The smaller of both is the time that the proxy held its core.

Each command is sent once for each round. The table shows the p99 of all waits of the rounds (the median of them), and the
median and the largest of the longest times held. Prints a Markdown table; WIRELOOM names the binary. Needs root.
"""
import argparse, json, os, socket, statistics, subprocess, sys, tempfile, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
os.environ.setdefault("WIRELOOM_START", "optimized")
WIRELOOM = os.environ.get("WIRELOOM", os.path.join(ROOT, "target/release/wireloom"))
PORT = int(os.environ.get("FAIR_PORT", "19520"))


def started(command, port, ask, core):
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    for _ in range(600):
        try:
            with socket.create_connection(("127.0.0.1", port), 2) as s:
                s.settimeout(2)
                s.sendall(ask)
                if s.recv(64):
                    return process
        except OSError:
            time.sleep(0.05)
    sys.exit(f"{command[0]} does not answer")


def resp(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


class Waits:
    """The light client (`waits.c`)."""

    def __init__(self, folder, port, proxy, ask, answer):
        text = [t.decode().replace("\r", "\\r").replace("\n", "\\n") for t in (ask, answer)]
        self.process = subprocess.Popen([os.path.join(folder, "waits"), str(port), str(proxy), "1", *text],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def during(self, work):
        """Waits while something is done, in milliseconds: their number, p50, p99, longest; held p99, longest."""
        self.read()
        work()
        return self.read()

    def read(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        count, *times = self.process.stdout.readline().split()
        return [int(count), *[float(t) / 1000 for t in times]]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def built(folder):
    subprocess.run(["cc", "-O2", "-Wall", "-pthread", "-o", os.path.join(folder, "waits"), os.path.join(HERE, "waits.c")], check=True)


def exchange(s, request, end):
    """Sends a request and reads until the answer ends with `end` behind it."""
    sender = threading.Thread(target=s.sendall, args=(request,))
    sender.start()
    tail, size = b"", 0
    while not tail.endswith(end):
        got = s.recv(1 << 20)
        if not got:
            sys.exit("the connection has ended")
        size += len(got)
        tail = (tail + got)[-64:]
    sender.join()
    return size


def measure(folder, port, proxy, ask, answer, commands, end, rounds):
    """A row for each command: the size in bytes, its time, the waits beside it."""
    waits = Waits(folder, port, proxy, ask, answer)
    time.sleep(0.2)
    rows = [{"command": "(none)", "bytes": 0, "took_ms": 0.0, "waits": [waits.during(lambda: time.sleep(0.3)) for _ in range(rounds)]}]
    with socket.create_connection(("127.0.0.1", port)) as s:
        for name, request in commands:
            seen, took = [], []
            for _ in range(rounds):
                begin = time.monotonic()
                seen.append(waits.during(lambda: exchange(s, request, end)))
                took.append(1000 * (time.monotonic() - begin))
            rows.append({"command": name, "bytes": len(request), "took_ms": statistics.median(took), "waits": seen})
    waits.stop()
    return rows


def redis(folder, keys, rounds):
    ports = [PORT + 1, PORT + 2]
    servers = [started(["redis-server", "--port", str(p), "--save", "", "--appendonly", "no"], p, b"PING\r\n", 1) for p in ports]
    proxy = started([WIRELOOM, "run", "apps/redis_proxy.loom", "--cores", "0", "--set", f"port={PORT}",
                     "--set", "servers=" + ",".join(f"127.0.0.1:{p}" for p in ports)], PORT, b"PING\r\n", 0)
    try:
        names = [b"k%x" % n for n in range(keys)]
        # The end of an answer: that to an ECHO behind the command.
        echo, end = resp(b"ECHO", b"the end of it"), b"$13\r\nthe end of it\r\n"
        commands = [("MGET of keys of both servers", resp(b"MGET", *names)), ("EXISTS of keys of both servers", resp(b"EXISTS", *names)),
                    ("MGET of keys of one server", resp(b"MGET", *[b"{a}%x" % n for n in range(keys)])),
                    ("MSET of half as many keys", resp(b"MSET", *[w for n in names[:keys // 2] for w in (n, b"v")])),
                    ("SADD of one key", resp(b"SADD", b"set", *names)), ("DEL of keys of both servers", resp(b"DEL", *names))]
        return measure(folder, PORT, proxy.pid, b"PING\r\n", b"+PONG\r\n", [(n, c + echo) for n, c in commands], end, rounds)
    finally:
        for p in [proxy, *servers]:
            p.kill()
            p.wait()


def memcached(folder, keys, rounds):
    ports = [PORT + 1, PORT + 2]
    servers = [started(["memcached", "-u", "root", "-l", "127.0.0.1", "-p", str(p)], p, b"mn\r\n", 1) for p in ports]
    proxy = started([WIRELOOM, "run", "apps/memcached_proxy.loom", "--cores", "0", "--set", f"port={PORT}",
                     "--set", "servers=" + ",".join(f"127.0.0.1:{p}" for p in ports)], PORT, b"mn\r\n", 0)
    try:
        # A line of keys has at most 1 MiB.
        names = [b"k%x" % n for n in range(min(keys, 150_000))]
        commands = [(f"get of {len(names)} keys of both servers", b"get " + b" ".join(names) + b"\r\nmn\r\n")]
        return measure(folder, PORT, proxy.pid, b"mn\r\n", b"MN\r\n", commands, b"MN\r\n", rounds)
    finally:
        for p in [proxy, *servers]:
            p.kill()
            p.wait()


def table(name, rows):
    lines = [f"| {name} | bytes | takes ms | p99 of the waits ms | longest held, median ms | largest ms |", "|---|---|---|---|---|---|"]
    for r in rows:
        p99, held = [w[2] for w in r["waits"]], [w[5] for w in r["waits"]]
        lines.append(f"| {r['command']} | {r['bytes']} | {r['took_ms']:.0f} | {statistics.median(p99):.2f} | {statistics.median(held):.2f} | {max(held):.2f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out")
    a = parser.parse_args()
    os.sched_setaffinity(0, {1})
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        built(folder)
        for name, of in (("redis_proxy", redis), ("memcached_proxy", memcached)):
            result[name] = of(folder, a.keys, a.rounds)
            print(table(name, result[name]) + "\n", flush=True)
    if a.out:
        with open(a.out, "w") as out:
            json.dump(result, out, indent=1)


if __name__ == "__main__":
    main()
