#!/usr/bin/env python3
"""Fairness (FLICK, section 5, figure 7): light clients beside heavy ones on one core.

Usage: bench/fairness/fairness.py [--clients N] [--requests N] [--out FILE]

Two questions. *Shares*: N light and N heavy clients each send all their requests at once; heavy ones ask for 16 times the
work, by larger requests or by requests of the same size. A light client's fair share: as long as every client is served,
each gets an equal part of the core, so all light ones are done after twice the time that they need alone. The same by the time
that the service has had of its core: that holds on a busy machine, too. *Neighbours*: a second
service of the process is asked, one request at a time, while N clients keep the first one busy; its waiting times are shown
by the length of the first one's messages, with the slice beside them.

Prints a Markdown table; WIRELOOM names the binary. The service runs on core 0, this program on core 1.
"""
import argparse, json, os, selectors, signal, socket, struct, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../l7"))
from harness import procstat  # noqa: E402
from harness.settings import WIRELOOM  # noqa: E402

PORT = int(os.environ.get("FAIR_PORT", "19500"))


def request(rounds, size):
    return struct.pack(">II", rounds, size) + b"x" * size


class Service:
    def __init__(self):
        args = [WIRELOOM, "run", os.path.join(HERE, "work.loom"), "--cores", "0",
                "--set", f"worker.port={PORT}", "--set", f"neighbour.port={PORT + 1}"]
        self.process = subprocess.Popen(args, stderr=subprocess.DEVNULL)
        for port in (PORT, PORT + 1):
            self.wait(port)

    def wait(self, port):
        for _ in range(600):
            try:
                s = socket.create_connection(("127.0.0.1", port), 2)
                s.settimeout(2)
                s.sendall(request(1, 1))
                if len(s.recv(8)) == 8:
                    return
            except OSError:
                time.sleep(0.05)
        sys.exit("the service does not answer")

    def cpu_ms(self):
        """Time of the processor so far."""
        return 1000 * procstat.cpu([self.process.pid]).total

    def stop(self):
        self.process.kill()
        self.process.wait()


class Client:
    """Sends `count` requests as fast as they are taken; done when all are answered."""

    def __init__(self, rounds, size, count):
        self.socket = socket.create_connection(("127.0.0.1", PORT))
        self.socket.setblocking(False)
        self.output, self.sent = memoryview(request(rounds, size) * count), 0
        self.due, self.done = 8 * count, None

    def write(self):
        """A piece at a time: no client's requests wait for those of another to be sent."""
        try:
            self.sent += self.socket.send(self.output[self.sent:self.sent + 131072])
        except BlockingIOError:
            pass

    def read(self, now):
        try:
            got = len(self.socket.recv(65536))
        except BlockingIOError:
            return
        if got == 0:
            sys.exit("a connection has ended")
        self.due -= got
        if self.due == 0:
            self.done = now


def play(clients, until):
    """Runs clients until those named are done; the seconds that each of them took."""
    poll = selectors.DefaultSelector()
    for c in clients:
        poll.register(c.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, c)
    begin, left = time.monotonic(), len(until)
    while left > 0:
        for key, mask in poll.select(5):
            c = key.data
            if mask & selectors.EVENT_WRITE:
                c.write()
                if c.sent == len(c.output):
                    poll.modify(c.socket, selectors.EVENT_READ, c)
            if mask & selectors.EVENT_READ and c.due > 0:
                c.read(time.monotonic())
                if c.due == 0:
                    poll.unregister(c.socket)
                    left -= c in until
    for c in clients:
        c.socket.close()
    return sorted(c.done - begin for c in until)


def shares(service, name, light, heavy, clients, count):
    def crowd(kind):
        return [Client(*kind, count) for _ in range(clients)]
    lights, before = crowd(light), service.cpu_ms()
    alone = play(lights, lights)[-1]
    alone_cpu = service.cpu_ms() - before
    time.sleep(0.5)
    lights, heavies, cpu = crowd(light), crowd(heavy), service.cpu_ms()
    # Heavy ones first: an early connection has no advantage.
    beside = play(heavies + lights, lights)
    cpu, answered = service.cpu_ms() - cpu, sum(count - c.due // 8 for c in heavies)
    time.sleep(0.5)
    return {"case": name, "alone_ms": 1000 * alone, "fair_ms": 2000 * alone, "last_ms": 1000 * beside[-1], "ratio": beside[-1] / (2 * alone),
            "service_ms": cpu, "fair_service_ms": 2 * alone_cpu, "service_ratio": cpu / (2 * alone_cpu), "heavy_answers": answered}


def ask_one(s, message):
    begin = time.monotonic()
    s.sendall(message)
    s.recv(8)
    return 1e6 * (time.monotonic() - begin)


def neighbour(rounds, size, clients, asked):
    s = socket.create_connection(("127.0.0.1", PORT + 1))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    light = request(1, 64)
    pid = None
    if rounds:
        pid = os.fork()
        if pid == 0:
            busy = [Client(rounds, size, max(4, 64_000_000 // (rounds * size))) for _ in range(clients)]
            while True:
                play(busy, busy)
                busy = [Client(rounds, size, max(4, 64_000_000 // (rounds * size))) for _ in range(clients)]
        time.sleep(1)
    times = sorted(ask_one(s, light) for _ in range(asked))
    if pid:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        time.sleep(0.3)
    return times[len(times) // 2], times[len(times) * 99 // 100]


def length_us(rounds, size):
    """How long a message takes: many of one client, by their number."""
    c = Client(rounds, size, 200)
    return 1e6 * play([c], [c])[0] / 200


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--asked", type=int, default=2000)
    parser.add_argument("--out")
    a = parser.parse_args()
    service = Service()
    os.sched_setaffinity(0, {1})
    try:
        cases = [shares(service, "16 KiB beside 1 KiB, work by bytes", (32, 1024), (32, 16384), a.clients, a.requests),
                 shares(service, "1 KiB beside 1 KiB, 16 times the rounds", (32, 1024), (512, 1024), a.clients, a.requests)]
        print("| heavy beside light | light alone ms | fair share ms | last light one ms | of its share | fair share, time of the service ms | it worked ms | of its share |\n|---|---|---|---|---|---|---|---|")
        for c in cases:
            print(f"| {c['case']} | {c['alone_ms']:.0f} | {c['fair_ms']:.0f} | {c['last_ms']:.0f} | {c['ratio']:.2f} | {c['fair_service_ms']:.0f} | {c['service_ms']:.0f} | {c['service_ratio']:.2f} |")
        rows = []
        for rounds, size in [(0, 0), (4, 1024), (16, 1024), (4, 16384), (64, 16384)]:
            length = length_us(rounds, size) if rounds else 0
            p50, p99 = neighbour(rounds, size, a.clients, a.asked if length < 500 else a.asked // 4)
            rows.append({"message_us": length, "p50_us": p50, "p99_us": p99})
        print("\n| the neighbour's messages take µs | p50 µs | p99 µs |\n|---|---|---|")
        for r in rows:
            print(f"| {r['message_us']:.0f} | {r['p50_us']:.0f} | {r['p99_us']:.0f} |" if r["message_us"] else f"| (idle) | {r['p50_us']:.0f} | {r['p99_us']:.0f} |")
        if a.out:
            json.dump({"shares": cases, "neighbour": rows}, open(a.out, "w"), indent=1)
    finally:
        service.stop()


if __name__ == "__main__":
    main()
