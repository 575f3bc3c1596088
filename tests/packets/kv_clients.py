"""Clients of a memcached over UDP: no answer is older than an acknowledged write.

kv_clients.py SERVER SECONDS WRITERS READERS

Each writer has keys of its own, and sets each to the next number once the last set was answered.
Readers read all keys. An answer must not be below the number that was acknowledged before the
request was sent. Prints: gets, sets, answers without a number, lost, stale.
"""
import itertools
import random
import socket
import sys
import threading
import time

server, seconds, writers, readers = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
KEYS = 3
end = time.monotonic() + seconds
acknowledged = {}
totals = {"gets": 0, "sets": 0, "odd": 0, "lost": 0, "stale": 0}
lock = threading.Lock()


class Client:
    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect((server, 11211))
        self.socket.settimeout(0.2)
        self.ids = itertools.count(random.randrange(1 << 16))

    def ask(self, text):
        number = next(self.ids) & 0xFFFF
        head = number.to_bytes(2, "big")
        self.socket.send(head + b"\0\0\0\1\0\0" + text)
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            try:
                answer = self.socket.recv(2048)
            except socket.timeout:
                return None
            if answer[:2] == head:
                return answer[8:]
        return None


def count(what, n=1):
    with lock:
        totals[what] += n


def write(me):
    client, n = Client(), 0
    while time.monotonic() < end:
        n += 1
        key = "key%u.%u" % (me, n % KEYS)
        text = str(n)
        said = client.ask(("set %s 0 0 %u\r\n%s\r\n" % (key, len(text), text)).encode())
        if said is None:
            # It may have been applied or not: nobody was told.
            count("lost")
        elif said == b"STORED\r\n":
            acknowledged[key] = n
            count("sets")
        else:
            count("odd")
        time.sleep(random.random() * 0.004)


def read():
    client = Client()
    while time.monotonic() < end:
        key = "key%u.%u" % (random.randrange(writers), random.randrange(KEYS))
        least = acknowledged.get(key, 0)
        said = client.ask(("get %s\r\n" % key).encode())
        if said is None:
            count("lost")
            continue
        lines = said.split(b"\r\n")
        if lines[0] == b"END":
            count("stale" if least else "odd")
        elif lines[0].split()[:2] == [b"VALUE", key.encode()]:
            count("gets")
            if int(lines[1]) < least:
                count("stale")
        else:
            count("odd")


threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
threads += [threading.Thread(target=read) for _ in range(readers)]
[t.start() for t in threads]
[t.join() for t in threads]
print(" ".join("%s=%u" % t for t in totals.items()))
