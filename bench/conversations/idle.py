#!/usr/bin/env python3
"""Memory of idle conversations: clients of postgres_proxy that have logged in and say nothing more.

The server is a stand-in that answers the login. `idle.py [10000]` prints the resident memory of the
proxy before and after, in MiB. With `--pool 4` the clients share so many sessions: then the proxy has
half the connections. Where the limit of descriptors is too low for so many sessions, it says so.
"""
import argparse
import asyncio
import os
import pathlib
import resource
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/l7"))
from harness import procstat, settings  # noqa: E402

LOGIN = b"\0\0\0\x12\0\x03\0\0user\0ann\0\0"
DISCARD = b"Q\0\0\0\x10DISCARD ALL\0"
DISCARDED = b"C\0\0\0\x10DISCARD ALL\0Z\0\0\0\x05I"
READY = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x07keysZ\0\0\0\x05I"


def resident(pid):
    return procstat.memory([pid])["rss_kb"] / 1024


async def serve(reader, writer):
    await reader.readexactly(len(LOGIN))
    writer.write(READY)
    try:
        while await reader.read(len(DISCARD)):
            writer.write(DISCARDED)
    except (asyncio.CancelledError, ConnectionError):
        pass
    writer.close()


async def main(n, pool):
    # The proxy keeps an eighth, and 256, for other purposes.
    need = (n + pool + 100 if pool else 2 * n) * 8 // 7 + 257
    try:
        hard = max(need, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, PermissionError):
        sys.exit(f"{n} sessions need {need} descriptors, see `ulimit -Hn`")
    server = await asyncio.start_server(serve, "127.0.0.1", 6601, backlog=4096)
    proxy = subprocess.Popen([settings.WIRELOOM, "run", str(ROOT / "apps/postgres_proxy.loom"), "--set", "port=6602", "--set",
                              "servers=127.0.0.1:6601", "--set", f"db.pool={pool}", "--cores", "1"], stderr=subprocess.PIPE)
    try:
        while b"ready" not in proxy.stderr.readline():
            pass
        before = resident(proxy.pid)
        clients = []
        for i in range(n):
            # Both ends of a connection have a port of this address.
            address = f"127.0.{1 + i // 10000}.1"
            reader, writer = await asyncio.open_connection("127.0.0.1", 6602, local_addr=(address, 0))
            writer.write(LOGIN)
            await reader.readexactly(len(READY))
            clients.append(writer)
        what = f"idle clients of a pool of {pool}" if pool else "idle sessions"
        print(f"{n} {what}: {before:.1f} MiB before, {resident(proxy.pid):.1f} MiB with them")
    finally:
        proxy.kill()
        proxy.wait()
        server.close()


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("sessions", type=int, nargs="?", default=10000)
parser.add_argument("--pool", type=int, default=0)
args = parser.parse_args()
asyncio.run(main(args.sessions, args.pool))
