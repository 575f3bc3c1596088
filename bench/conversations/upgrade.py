#!/usr/bin/env python3
"""CPU time per message that passes a proxy behind an upgrade: `become tunnel` beside nginx, in front of one server.

Clients upgrade to WebSocket and send frames, which a stand-in for a server gives back. The stand-in is a process of
its own. Each round runs both peers, one after the other. CPU time is that of the proxy's processes.
`upgrade.py [--rounds 5] [--seconds 3] [--conns 32]`.
"""
import argparse
import multiprocessing
import pathlib
import selectors
import shutil
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/l7"))
from harness import beside, settings  # noqa: E402

SERVER, NGINX, OURS = (settings.BASE_PORT + n for n in (621, 622, 623))
# Frames of a client under way, and bytes of their payload.
JOBS = {"alone": (1, 64), "bursts": (16, 64), "long": (4, 16384)}
ASK = (b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
       b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
SWITCHED = (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")


def frame(size):
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return b"\x82" + length + b"mask" + b"x" * size


def serve():
    """A server that answers an upgrade, and gives back the bytes behind it."""
    poll = selectors.DefaultSelector()
    listener = socket.create_server(("127.0.0.1", SERVER), backlog=512)
    poll.register(listener, selectors.EVENT_READ)
    heads = {}
    while True:
        for key, _ in poll.select():
            s = key.fileobj
            if s is listener:
                c = s.accept()[0]
                c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                heads[c] = b""
                poll.register(c, selectors.EVENT_READ)
                continue
            try:
                data = s.recv(1 << 18)
            except ConnectionError:
                data = b""
            if not data:
                poll.unregister(s)
                heads.pop(s, None)
                s.close()
            elif s in heads:
                heads[s] += data
                if heads[s].endswith(b"\r\n\r\n"):
                    del heads[s]
                    s.sendall(SWITCHED)
            else:
                s.sendall(data)


def start(folder, children):
    (folder / "n.conf").write_text(f"""daemon off; worker_processes 1; pid {folder}/pid; error_log stderr crit;
events {{ worker_connections 2048; }}
http {{ access_log off; tcp_nodelay on;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 127.0.0.1:{NGINX} backlog=512; location / {{
    proxy_pass http://127.0.0.1:{SERVER}; proxy_http_version 1.1;
    proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;
    proxy_buffer_size 64k; proxy_read_timeout 1h; }} }} }}
""")
    server = multiprocessing.Process(target=serve, daemon=True)
    server.start()
    run = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    peer = subprocess.Popen([shutil.which("nginx") or "/usr/sbin/nginx", "-p", folder, "-c", folder / "n.conf"], **run)
    ours = subprocess.Popen([settings.WIRELOOM, "run", str(ROOT / "std/http_upgrade.loom"), "--set", f"port={OURS}",
                             "--set", f"servers=127.0.0.1:{SERVER}", "--cores", "1"], **run)
    children += [peer, ours]
    for port in (SERVER, OURS, NGINX):
        beside.wait_for(port)
    return server, {"wireloom": (ours.pid, OURS), "nginx": (peer.pid, NGINX)}


def client(port):
    s = socket.create_connection(("127.0.0.1", port))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.sendall(ASK)
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        more = s.recv(4096)
        if not more:
            sys.exit("an upgrade is refused")
        head += more
    if not head.startswith(b"HTTP/1.1 101 "):
        sys.exit(f"no upgrade: {head[:80]}")
    return s


def exchange(clients, bytes_each):
    """Each client sends its frames and gets them back."""
    for s in clients:
        s.sendall(bytes_each)
    for s in clients:
        left = len(bytes_each)
        while left > 0:
            n = len(s.recv(min(left, 1 << 18)))
            if n == 0:
                sys.exit("a connection is closed")
            left -= n


def messages(clients, size, burst, seconds):
    """How many messages have passed, in both directions, until the time is over."""
    passed, end = 0, time.time() + seconds
    while time.time() < end:
        exchange(clients, frame(size) * burst)
        passed += 2 * burst * len(clients)
    return passed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--conns", type=int, default=32)
    args = parser.parse_args()
    with beside.workplace() as (folder, children):
        server, peers = start(folder, children)
        print("| job | connections | burst | bytes | wireloom µs | nginx µs | ratio |\n|---|---|---|---|---|---|---|")
        for job, (burst, size) in JOBS.items():
            def once(pid, port):
                clients = [client(port) for _ in range(args.conns)]
                messages(clients, size, burst, 0.5)
                spent, _ = beside.cost(pid, lambda: messages(clients, size, burst, args.seconds))
                for s in clients:
                    s.close()
                time.sleep(0.1)
                return spent * 1e6
            ours, theirs, ratio = beside.compare(beside.interleaved(peers, args.rounds, once))
            print(f"| {job} | {args.conns} | {burst} | {size} | {ours:.2f} | {theirs:.2f} | {ratio:.2f} |", flush=True)
        server.terminate()


if __name__ == "__main__":
    main()
