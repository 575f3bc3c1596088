#!/usr/bin/env python3
"""CPU time per mail of smtp_gateway beside HAProxy in TCP mode, in front of one stand-in for a mail server.

Clients send mails one after the other on connections that stay open. The stand-in is a process of its own.
Each round runs both peers, one after the other. CPU time is that of the proxy's process, so other load on the
machine changes little.
`smtp.py [--rounds 5] [--seconds 3] [--conns 16]`.
"""
import argparse
import multiprocessing
import pathlib
import selectors
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/l7"))
from harness import beside, settings  # noqa: E402

SERVER, HAPROXY, OURS = 6701, 6702, 6703
# Lines and bytes of a mail.
MAILS = {"small": (10, 60), "large": (2000, 76)}
END = b"\r\n.\r\n"


def mail(lines, width):
    body = b"".join(b"line %d %s\r\n" % (n, b"x" * width) for n in range(lines))
    return b"Subject: a mail\r\n\r\n" + body + b".\r\n"


def serve():
    """A mail server that answers each command, and the end of each mail."""
    poll = selectors.DefaultSelector()
    listener = socket.create_server(("127.0.0.1", SERVER), backlog=512)
    poll.register(listener, selectors.EVENT_READ)
    state = {}
    while True:
        for key, _ in poll.select():
            s = key.fileobj
            if s is listener:
                c = s.accept()[0]
                c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                state[c] = [False, b""]
                poll.register(c, selectors.EVENT_READ)
                c.sendall(b"220 ready\r\n")
                continue
            try:
                data = s.recv(1 << 18)
            except ConnectionError:
                data = b""
            if not data:
                poll.unregister(s)
                s.close()
                del state[s]
                continue
            answers = step(state[s], data)
            if answers:
                s.sendall(answers)


def step(state, data):
    """The answers to some bytes. `state`: whether a mail is under way, and the bytes that are not worked off."""
    state[1] += data
    out = b""
    while True:
        if state[0]:
            at = state[1].find(END)
            if at < 0:
                state[1] = state[1][-len(END) + 1:]
                return out
            state[0], state[1] = False, state[1][at + len(END):]
            out += b"250 kept\r\n"
            continue
        line, sep, rest = state[1].partition(b"\r\n")
        if not sep:
            return out
        state[1] = rest
        state[0] = line == b"DATA"
        # The line behind DATA counts as the first of the mail.
        state[1] = b"\r\n" + rest if state[0] else rest
        out += b"354 go on\r\n" if state[0] else b"250 ok\r\n"


def client(port, conns, seconds, body, done):
    """Sends mails until the time is over; tells how many have been accepted."""
    poll = selectors.DefaultSelector()
    head = b"MAIL FROM:<me@example.org>\r\nRCPT TO:<to@example.org>\r\nDATA\r\n"
    # Per connection: what it waits for, as lines, and what it sends then.
    state = {}
    for _ in range(conns):
        s = socket.create_connection(("127.0.0.1", port))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        state[s] = [1, "mail"]
        poll.register(s, selectors.EVENT_READ)
    n, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for key, _ in poll.select(0.1):
            s = key.fileobj
            data = s.recv(4096)
            if not data:
                sys.exit("a connection has ended")
            state[s][0] -= data.count(b"\n")
            if state[s][0] > 0:
                continue
            if state[s][1] == "mail":
                state[s][:] = [3, "body"]
                s.sendall(head)
            else:
                state[s][:] = [1, "mail"]
                s.sendall(body)
                n += 1
    done.put(n)


def mails(port, conns, seconds, body):
    """The mails that a process of its own has sent."""
    done = multiprocessing.Queue()
    work = multiprocessing.Process(target=client, args=(port, conns, seconds, body, done))
    work.start()
    n = done.get(timeout=seconds + 30)
    work.join()
    return n


def start(folder, children):
    config = folder / "haproxy.cfg"
    config.write_text(
        "global\n nbthread 1\n maxconn 4000\ndefaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n"
        f"frontend f\n bind 127.0.0.1:{HAPROXY}\n default_backend b\nbackend b\n server s 127.0.0.1:{SERVER}\n")
    run = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    haproxy = subprocess.Popen(["haproxy", "-db", "-f", str(config)], **run)
    ours = subprocess.Popen([settings.WIRELOOM, "run", str(ROOT / "apps/smtp_gateway.loom"), "--set", f"port={OURS}", "--set",
                             f"servers=127.0.0.1:{SERVER}", "--cores", "1"], **run)
    children += [haproxy, ours]
    for port in (HAPROXY, OURS):
        beside.wait_for(port)
    return {"wireloom": (ours.pid, OURS), "haproxy": (haproxy.pid, HAPROXY)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--conns", type=int, default=16)
    parser.add_argument("--mails", default=",".join(MAILS))
    args = parser.parse_args()
    server = multiprocessing.Process(target=serve, daemon=True)
    server.start()
    with beside.workplace() as (folder, children):
        peers = start(folder, children)
        print("| mail | bytes | connections | wireloom µs | haproxy µs | ratio |\n|---|---|---|---|---|---|")
        for name in args.mails.split(","):
            body = mail(*MAILS[name])

            def once(pid, port):
                return beside.cost(pid, lambda: mails(port, args.conns, args.seconds, body))[0] * 1e6
            ours, theirs, ratio = beside.compare(beside.interleaved(peers, args.rounds, once))
            print(f"| {name} | {len(body)} | {args.conns} | {ours:.2f} | {theirs:.2f} | {ratio:.2f} |", flush=True)
    server.terminate()


if __name__ == "__main__":
    main()
