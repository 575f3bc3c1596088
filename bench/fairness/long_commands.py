#!/usr/bin/env python3
"""How long a command of very many keys holds the core of a proxy.

Usage: bench/fairness/long_commands.py [--keys N] [--rounds N] [--out FILE]

`redis_proxy` (two servers) and `memcached_proxy` (two servers) run on core 0, this program and the servers on core 1. One
client sends commands of N keys. Another one sends PING (`mn` to memcached_proxy), which the proxy answers by itself, over and
over. Its longest wait, beside its waits with no long command, is the time that the long one holds the core: the copy of its
words, the check of them, the reading of its keys, the joining of the answers.

The longest wait of each round counts, and the table shows the median and the largest of the rounds. Prints a Markdown table;
WIRELOOM names the binary.
"""
import argparse, json, os, socket, statistics, subprocess, sys, threading, time

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


class Pinger(threading.Thread):
    """Asks over and over; the waits in milliseconds, with their beginnings."""

    def __init__(self, port, ask, answer):
        super().__init__(daemon=True)
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ask, self.answer, self.stop, self.waits = ask, answer, False, []

    def run(self):
        while not self.stop:
            begin = time.monotonic()
            self.socket.sendall(self.ask)
            if self.socket.recv(64) != self.answer:
                sys.exit("another answer than asked for")
            self.waits.append(1000 * (time.monotonic() - begin))
            time.sleep(0.0002)

    def longest(self, during):
        """The longest wait while something is done, in ms."""
        self.waits = []
        during()
        time.sleep(0.01)
        return max(self.waits)


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


def measure(port, ask, answer, commands, end, rounds):
    """A row for each command: the size in bytes, its time, the longest wait beside it."""
    pinger = Pinger(port, ask, answer)
    pinger.start()
    time.sleep(0.2)
    rows = [{"command": "(none)", "bytes": 0, "took_ms": 0.0, "waits_ms": [pinger.longest(lambda: time.sleep(0.3)) for _ in range(rounds)]}]
    with socket.create_connection(("127.0.0.1", port)) as s:
        for name, request in commands:
            waits, took = [], []
            for _ in range(rounds):
                begin = time.monotonic()
                waits.append(pinger.longest(lambda: exchange(s, request, end)))
                took.append(1000 * (time.monotonic() - begin))
            rows.append({"command": name, "bytes": len(request), "took_ms": statistics.median(took), "waits_ms": waits})
    pinger.stop = True
    pinger.join()
    return rows


def redis(keys, rounds):
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
        return measure(PORT, b"PING\r\n", b"+PONG\r\n", [(n, c + echo) for n, c in commands], end, rounds)
    finally:
        for p in [proxy, *servers]:
            p.kill()
            p.wait()


def memcached(keys, rounds):
    ports = [PORT + 1, PORT + 2]
    servers = [started(["memcached", "-u", "root", "-l", "127.0.0.1", "-p", str(p)], p, b"mn\r\n", 1) for p in ports]
    proxy = started([WIRELOOM, "run", "apps/memcached_proxy.loom", "--cores", "0", "--set", f"port={PORT}",
                     "--set", "servers=" + ",".join(f"127.0.0.1:{p}" for p in ports)], PORT, b"mn\r\n", 0)
    try:
        # A line of keys has at most 1 MiB.
        names = [b"k%x" % n for n in range(min(keys, 150_000))]
        commands = [(f"get of {len(names)} keys of both servers", b"get " + b" ".join(names) + b"\r\nmn\r\n")]
        return measure(PORT, b"mn\r\n", b"MN\r\n", commands, b"MN\r\n", rounds)
    finally:
        for p in [proxy, *servers]:
            p.kill()
            p.wait()


def table(name, rows):
    lines = [f"| {name} | bytes | takes ms | longest wait beside it, median ms | largest ms |", "|---|---|---|---|---|"]
    for r in rows:
        waits = sorted(r["waits_ms"])
        lines.append(f"| {r['command']} | {r['bytes']} | {r['took_ms']:.0f} | {statistics.median(waits):.1f} | {waits[-1]:.1f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out")
    a = parser.parse_args()
    os.sched_setaffinity(0, {1})
    result = {}
    for name, of in (("redis_proxy", redis), ("memcached_proxy", memcached)):
        result[name] = of(a.keys, a.rounds)
        print(table(name, result[name]) + "\n", flush=True)
    if a.out:
        with open(a.out, "w") as out:
            json.dump(result, out, indent=1)


if __name__ == "__main__":
    main()
