#!/usr/bin/env python3
"""Answers that reach another client when a backend sends surplus bytes late.

Usage: bench/l7/late_surplus.py [--requests N] [--delays 0,1,2,5] [--out FILE]

A backend answers each request with its path. Behind one answer in ten it sends a second response, a few milliseconds late.
32 clients ask through a proxy, each for paths of its own, with a pause of 1 ms between two requests. An answer with another
body than the path is one that was not meant for its client. Wireloom's `http_balancer` runs with its defaults, beside nginx
(`keepalive`) and HAProxy (`http-reuse safe`), which are skipped if they are not installed.

Prints a Markdown table; WIRELOOM names the binary.
"""
import argparse, asyncio, json, os, random, shutil, socket, subprocess, sys, tempfile, time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
WIRELOOM = os.environ.get("WIRELOOM", os.path.join(ROOT, "target/release/wireloom"))
PORT = int(os.environ.get("L7_BASE", "18700"))
CLIENTS = 32


def response(body):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


async def head(reader):
    return await reader.readuntil(b"\r\n\r\n")


def backend(delay, sent):
    chance = random.Random(7)

    async def late(writer):
        await asyncio.sleep(delay / 1000)
        if not writer.is_closing():
            writer.write(response(b"FORGED"))
            sent[0] += 1

    async def serve(reader, writer):
        try:
            while True:
                path = (await head(reader)).split(b" ")[1]
                writer.write(response(path))
                if chance.random() < 0.1:
                    asyncio.ensure_future(late(writer))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    return serve


async def client(number, requests, count):
    reader = writer = None
    for n in range(requests):
        path = b"/%d.%d" % (number, n)
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
            writer.write(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path)
            got = await asyncio.wait_for(head(reader), 5)
            length = int(got.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            count["wrong" if got.startswith(b"HTTP/1.1 200") and body != path else "right" if body == path else "errors"] += 1
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.TimeoutError, IndexError):
            count["errors"] += 1
            writer = None
        await asyncio.sleep(0.001)
    if writer is not None:
        writer.close()


async def trial(delay, requests):
    count, sent = {"right": 0, "wrong": 0, "errors": 0}, [0]
    server = await asyncio.start_server(backend(delay, sent), "127.0.0.1", PORT + 1)
    await asyncio.gather(*(client(k, requests, count) for k in range(CLIENTS)))
    server.close()
    return {**count, "surplus": sent[0]}


def peers(folder):
    """Name and command of each proxy that is there."""
    yield "wireloom", [WIRELOOM, "run", "apps/http_balancer.loom", "--set", f"port={PORT}", "--set", f"servers=127.0.0.1:{PORT + 1}"]
    if shutil.which("nginx") or os.path.exists("/usr/sbin/nginx"):
        conf = os.path.join(folder, "nginx.conf")
        with open(conf, "w") as f:
            f.write(f"daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log /dev/null; events {{}}\n"
                    f"http {{ access_log off; keepalive_requests 1000000; upstream b {{ server 127.0.0.1:{PORT + 1}; keepalive 64; }}\n"
                    f"server {{ listen {PORT}; location / {{ proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection ''; }} }} }}\n")
        yield "nginx", [shutil.which("nginx") or "/usr/sbin/nginx", "-c", conf, "-p", folder]
    if shutil.which("haproxy") or os.path.exists("/usr/sbin/haproxy"):
        conf = os.path.join(folder, "haproxy.cfg")
        with open(conf, "w") as f:
            f.write("defaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n http-reuse safe\n"
                    f"frontend f\n bind 127.0.0.1:{PORT}\n default_backend b\nbackend b\n server s 127.0.0.1:{PORT + 1}\n")
        yield "haproxy", [shutil.which("haproxy") or "/usr/sbin/haproxy", "-f", conf]


def started(command):
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", PORT), 1).close()
            return process
        except OSError:
            time.sleep(0.05)
    sys.exit(f"{command[0]} does not listen")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--delays", default="0,1,2,5")
    parser.add_argument("--out")
    a = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, command in peers(folder):
            for delay in [float(d) for d in a.delays.split(",")]:
                # Each trial with a proxy that has seen nothing yet.
                process = started(command)
                try:
                    rows.append({"proxy": name, "delay_ms": delay, **asyncio.run(trial(delay, a.requests))})
                finally:
                    process.terminate()
                    process.wait()
    print("| proxy | surplus after ms | surplus responses | right | wrong | errors |\n|---|---|---|---|---|---|")
    for r in rows:
        print(f"| {r['proxy']} | {r['delay_ms']:g} | {r['surplus']} | {r['right']} | {r['wrong']} | {r['errors']} |")
    if a.out:
        with open(a.out, "w") as out:
            json.dump(rows, out, indent=1)


if __name__ == "__main__":
    main()
