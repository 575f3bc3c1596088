#!/usr/bin/env python3
"""CPU time for a gibibyte of bodies: passed on, passed on and counted by a handler of pieces, and by nginx.

The load is uploads and downloads of `--mib` MiB each, in turns, with a length and in chunks, on a connection of
each proxy. The server behind is a process of its own; it reads and writes plain bytes. nginx proxies without
buffering (`proxy_request_buffering off`, `proxy_buffering off`). Each round runs all three. CPU time is that of the
proxy's processes. `body_pieces.py [--rounds 5] [--mib 256] [--ports 22400]`. Needs nginx, and
target/release/wireloom (or WIRELOOM).
"""
import argparse
import pathlib
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/l7"))
from harness import beside, settings  # noqa: E402

BLOCK = bytes(1 << 20)


def head_of(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            return None, b""
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.lower() + b"\r\n", rest


def field(head, name):
    for line in head.split(b"\r\n"):
        key, _, value = line.partition(b":")
        if key == name:
            return value.strip()
    return None


def drain(sock, head, rest):
    """Reads a body to its end; how many bytes came."""
    length, buffer, seen = field(head, b"content-length"), bytearray(1 << 20), len(rest)
    if length is not None:
        while seen < int(length):
            n = sock.recv_into(buffer)
            if n == 0:
                raise SystemExit("a body was cut")
            seen += n
        return seen
    last = rest[-5:]
    while last != b"0\r\n\r\n":
        n = sock.recv_into(buffer)
        if n == 0:
            raise SystemExit("a body was cut")
        seen, last = seen + n, (last + bytes(buffer[max(0, n - 5):n]))[-5:]
    return seen


def body(sock, mib, chunked):
    for _ in range(mib):
        if chunked:
            sock.sendall(b"100000\r\n")
        sock.sendall(BLOCK)
        if chunked:
            sock.sendall(b"\r\n")
    if chunked:
        sock.sendall(b"0\r\n\r\n")


def framing(mib, chunked):
    return b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % (mib << 20)


def answer(sock, mib):
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        head, rest = head_of(sock)
        if head is None:
            break
        if head.startswith(b"post"):
            drain(sock, head, rest)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        else:
            chunked = b"/chunks" in head
            sock.sendall(b"HTTP/1.1 200 OK\r\n" + framing(mib, chunked) + b"\r\n\r\n")
            body(sock, mib, chunked)


def load(port, mib):
    """Four bodies; GiB that have passed."""
    sock = socket.create_connection(("127.0.0.1", port))
    for chunked in (False, True):
        target = b"/chunks" if chunked else b"/length"
        sock.sendall(b"POST %s HTTP/1.1\r\nHost: a\r\n" % target + framing(mib, chunked) + b"\r\n\r\n")
        body(sock, mib, chunked)
        head, rest = head_of(sock)
        drain(sock, head, rest)
        sock.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % target)
        head, rest = head_of(sock)
        if not head.startswith(b"http/1.1 200") or drain(sock, head, rest) < mib << 20:
            raise SystemExit(head)
    sock.close()
    return 4 * mib / 1024


def nginx(folder, port, behind):
    (folder / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error;\n"
        f"events {{ worker_connections 1024; }}\nhttp {{ access_log off; tcp_nodelay on; client_max_body_size 0;\n"
        f"upstream behind {{ server 127.0.0.1:{behind}; keepalive 4; }}\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://behind; proxy_http_version 1.1;\n"
        f"proxy_set_header Connection ''; proxy_request_buffering off; proxy_buffering off; proxy_buffer_size 64k; proxy_buffers 8 64k; client_body_buffer_size 64k; }} }} }}"
    )
    return ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in [("rounds", 5), ("mib", 256), ("ports", 22400)]:
        args.add_argument(f"--{name}", type=int, default=value)
    a = args.parse_args()
    behind = a.ports
    server = beside.server(behind, answer, a.mib)
    beside.wait_for(behind)
    with beside.workplace() as (folder, children):
        peers = {}
        for n, name in enumerate(["passes", "counts"], 1):
            command = [settings.WIRELOOM, "run", str(ROOT / f"bench/bodies/{name}.loom"), "--cores", "1",
                       "--set", f"port={a.ports + n}", "--set", f"servers=127.0.0.1:{behind}"]
            peers[name] = (a.ports + n, command)
        peers["nginx"] = (a.ports + 3, nginx(folder, a.ports + 3, behind))
        for name, (port, command) in peers.items():
            children.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            beside.wait_for(port)
            peers[name] = (port, children[-1].pid)
        for port, _ in peers.values():
            load(port, a.mib)
        seen = beside.interleaved(peers, a.rounds, lambda port, pid: beside.cost(pid, lambda: load(port, a.mib))[0])
    for name, costs in seen.items():
        print(f"{name:8} " + "  ".join(f"{c * 1e3:6.0f}" for c in costs) + "  ms of CPU for a GiB")
    for first, second in [("counts", "passes"), ("counts", "nginx"), ("passes", "nginx")]:
        one, two, ratio = beside.compare({name: seen[name] for name in (first, second)})
        print(f"{first} : {second} = {ratio:.2f}  ({one * 1e3:.0f} and {two * 1e3:.0f} ms; medians of {a.rounds} rounds)")
    server.terminate()


if __name__ == "__main__":
    main()
