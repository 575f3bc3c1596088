#!/usr/bin/env python3
"""CPU time per delivered message of mqtt_broker beside mosquitto: QoS 0, from one publisher to many subscribers.

Each round asks both, one after the other. CPU time is that of the broker's process, so other load on the machine
changes little. The publisher sends `burst` messages and waits until each subscriber has them all.
`mqtt.py [--rounds 5] [--seconds 3] [--subscribers 100]`.
"""
import argparse
import pathlib
import select
import shutil
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/l7"))
from harness import beside, settings  # noqa: E402

MOSQUITTO, WIRELOOM = settings.BASE_PORT + 611, settings.BASE_PORT + 612
TOPIC = b"plant/7/line/3/temperature"
# The filter of all subscribers, messages under way, bytes of payload.
JOBS = {
    "alone": (TOPIC, 1, 64),
    "bursts": (TOPIC, 32, 64),
    "wildcard": (b"plant/+/line/#", 32, 64),
    "long": (TOPIC, 8, 4096),
}


def packet(kind, *parts):
    body, length = b"".join(parts), b""
    n = len(body)
    while True:
        length += bytes([n % 128 | (128 if n > 127 else 0)])
        n //= 128
        if n == 0:
            return bytes([kind]) + length + body


def text(b):
    return len(b).to_bytes(2, "big") + b


def exactly(s, n):
    got = b""
    while len(got) < n:
        more = s.recv(n - len(got))
        if not more:
            sys.exit("the broker has closed a connection")
        got += more
    return got


def client(port, name, topic=None):
    s = socket.create_connection(("127.0.0.1", port))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.sendall(packet(0x10, text(b"MQTT"), b"\x04\x02\0\0", text(name)))
    if exactly(s, 4) != b"\x20\x02\0\0":
        sys.exit("a client is refused")
    if topic:
        s.sendall(packet(0x82, b"\0\x01", text(topic), b"\0"))
        if exactly(s, 5) != b"\x90\x03\0\x01\0":
            sys.exit("a subscription is refused")
    return s


def start(folder, children):
    (folder / "m.conf").write_text(f"listener {MOSQUITTO} 127.0.0.1\nallow_anonymous true\npersistence false\n"
                                   "log_type none\nmax_queued_messages 0\nset_tcp_nodelay true\n")
    run = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    path = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    peer = subprocess.Popen([path, "-c", str(folder / "m.conf")], **run)
    ours = subprocess.Popen([settings.WIRELOOM, "run", str(ROOT / "apps/mqtt_broker.loom"), "--set", f"port={WIRELOOM}",
                             "--cores", "1"], **run)
    children += [peer, ours]
    for port in (WIRELOOM, MOSQUITTO):
        beside.wait_for(port)
    return {"wireloom": (ours.pid, WIRELOOM), "mosquitto": (peer.pid, MOSQUITTO)}


class Crowd:
    """The subscribers of one broker, and its publisher."""

    def __init__(self, port, topic, count):
        self.all = [client(port, b"sub%d" % n, topic) for n in range(count)]
        self.publisher = client(port, b"pub")
        self.poll = select.epoll()
        self.by = {}
        for s in self.all:
            s.setblocking(False)
            self.poll.register(s.fileno(), select.EPOLLIN)
            self.by[s.fileno()] = s
        self.room = bytearray(1 << 20)

    def burst(self, message, count):
        """Sends messages and waits for them at all subscribers."""
        self.publisher.sendall(message * count)
        due = len(message) * count * len(self.all)
        while due > 0:
            ready = self.poll.poll(10)
            if not ready:
                sys.exit(f"{due} bytes have not come")
            for fd, _ in ready:
                n = self.by[fd].recv_into(self.room)
                if n == 0:
                    sys.exit("the broker has closed a subscriber")
                due -= n
        return count * len(self.all)

    def close(self):
        for s in self.all + [self.publisher]:
            s.close()


def deliver(crowd, message, burst, seconds):
    """Sends bursts until the time is over; how many messages have been delivered."""
    delivered, end = 0, time.time() + seconds
    while time.time() < end:
        delivered += crowd.burst(message, burst)
    return delivered


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--subscribers", type=int, default=100)
    parser.add_argument("--jobs", default=",".join(JOBS))
    args = parser.parse_args()
    with beside.workplace() as (folder, children):
        peers = start(folder, children)
        print("| job | subscribers | burst | bytes | wireloom µs | mosquitto µs | ratio |\n|---|---|---|---|---|---|---|")
        for job in args.jobs.split(","):
            topic, burst, size = JOBS[job]
            message = packet(0x30, text(TOPIC), b"x" * size)

            def once(pid, port):
                crowd = Crowd(port, topic, args.subscribers)
                # The first burst also waits until optimised code is there.
                crowd.burst(message, burst)
                spent, _ = beside.cost(pid, lambda: deliver(crowd, message, burst, args.seconds))
                crowd.close()
                time.sleep(0.1)
                return spent * 1e6
            ours, theirs, ratio = beside.compare(beside.interleaved(peers, args.rounds, once))
            print(f"| {job} | {args.subscribers} | {burst} | {size} | {ours:.2f} | {theirs:.2f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
