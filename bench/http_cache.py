#!/usr/bin/env python3
"""Hits of http_cache and of nginx's proxy_cache: CPU time per request, in one interleaved run.

    bench/http_cache.py [--body 1024] [--targets 100] [--connections 64] [--rounds 5] [--seconds 3]

Both caches use one core, and stand before the same nginx. All targets are in them before it is measured, and the
origin counts what reaches it. The load is wrk's, with keep-alive. CPU time is what the kernel has counted for the
cache's processes. nginx keeps its answers in /dev/shm. Needs nginx, wrk, and target/release/wireloom (or WIRELOOM).
`--ports` is the first of three ports.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench/l7"))
from harness import beside  # noqa: E402
from harness.settings import WIRELOOM  # noqa: E402


def nginx(folder, name, http):
    path = os.path.join(folder, name)
    os.makedirs(path)
    conf = os.path.join(path, "nginx.conf")
    with open(conf, "w") as f:
        f.write(
            f"daemon off; worker_processes 1; pid {path}/pid; error_log {path}/error;\n"
            f"events {{ worker_connections 4096; }}\nhttp {{ access_log off; keepalive_requests 100000000; tcp_nodelay on; {http} }}\n"
        )
    return ["nginx", "-p", path, "-c", conf]


def get(port, target):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{target}") as r:
        return r.read()


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in [("body", 1024), ("targets", 100), ("connections", 64), ("rounds", 5), ("seconds", 3), ("ports", 22900)]:
        args.add_argument(f"--{name}", type=int, default=value)
    a = args.parse_args()
    origin, theirs, ours = a.ports, a.ports + 1, a.ports + 2
    folder, shm = tempfile.mkdtemp(), tempfile.mkdtemp(dir="/dev/shm")
    os.chmod(folder, 0o755)
    os.chmod(shm, 0o777)
    children = []

    def start(command, port):
        children.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        beside.wait_for(port)
        return children[-1].pid

    try:
        body = "x" * a.body
        answer = f'location / {{ add_header Cache-Control max-age=3600; return 200 "{body}"; }} location /status {{ stub_status; }}'
        start(nginx(folder, "origin", f"server {{ listen 127.0.0.1:{origin}; {answer} }}"), origin)
        cached = (
            f"proxy_cache_path {shm} levels=1:2 keys_zone=z:10m inactive=60m use_temp_path=off; server {{ listen 127.0.0.1:{theirs}; location / "
            f"{{ proxy_pass http://127.0.0.1:{origin}; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_cache z; proxy_cache_lock on; }} }}"
        )
        caches = {
            "nginx": (theirs, start(nginx(folder, "cache", cached), theirs)),
            "wireloom": (
                ours,
                start(
                    [WIRELOOM, "run", os.path.join(ROOT, "apps/http_cache.loom"), "--cores", "1", "--set", f"port={ours}", "--set", f"servers=127.0.0.1:{origin}"],
                    ours,
                ),
            ),
        }
        script = os.path.join(folder, "targets.lua")
        with open(script, "w") as f:
            f.write(f"local n = 0\nrequest = function() n = n + 1; return wrk.format('GET', '/t/' .. n % {a.targets}) end\n")
        for port, _ in caches.values():
            for n in range(a.targets):
                assert get(port, f"/t/{n}") == body.encode()

        def reached():
            return int(re.findall(r"\d+", get(origin, "/status").decode())[3])

        def load(port, seconds):
            text = subprocess.run(
                ["wrk", "-t1", f"-c{a.connections}", f"-d{seconds}s", "-s", script, f"http://127.0.0.1:{port}"], capture_output=True, text=True, check=True
            ).stdout
            if "Non-2xx" in text or "Socket errors" in text:
                raise SystemExit(text)
            return int(re.search(r"(\d+) requests in", text).group(1))

        for port, _ in caches.values():
            load(port, 1)
        before_all = reached()
        seen = beside.interleaved(caches, a.rounds, lambda port, pid: beside.cost(pid, lambda: load(port, a.seconds)))
        print(f"requests that reached the origin meanwhile: {reached() - before_all - 1}")
        for name, rounds in seen.items():
            spent, rate = (statistics.median(values) for values in zip(*rounds))
            print(f"{name:10} {spent * 1e6:8.2f} us of CPU per hit  {rate / a.seconds:10.0f} hits/s")
        _, _, ratio = beside.compare({name: [spent for spent, _ in seen[name]] for name in ("wireloom", "nginx")})
        print(
            f"CPU per hit, wireloom : nginx = {ratio:.2f} (must 0.7; bodies of {a.body} bytes, {a.targets} targets, {a.connections} connections, {a.rounds} rounds)"
        )
    finally:
        for c in children:
            c.terminate()
        for c in children:
            c.wait()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(shm, ignore_errors=True)


if __name__ == "__main__":
    main()
