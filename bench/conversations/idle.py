#!/usr/bin/env python3
"""Memory of idle conversations: clients of postgres_proxy that have logged in and say nothing more.

The server is a stand-in that answers the login. `idle.py [10000]` prints the resident memory of the
proxy before and after, in MiB.
"""
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
READY = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x07keysZ\0\0\0\x05I"


def resident(pid):
    return procstat.memory([pid])["rss_kb"] / 1024


async def serve(reader, writer):
    await reader.readexactly(len(LOGIN))
    writer.write(READY)
    try:
        await reader.read()
    except (asyncio.CancelledError, ConnectionError):
        pass
    writer.close()


async def main(n):
    # The proxy keeps an eighth, and 256, for other purposes.
    need = 2 * n * 8 // 7 + 257
    try:
        hard = max(need, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, PermissionError):
        sys.exit(f"{n} sessions need {need} descriptors, see `ulimit -Hn`")
    server = await asyncio.start_server(serve, "127.0.0.1", 6601, backlog=4096)
    proxy = subprocess.Popen([settings.WIRELOOM, "run", str(ROOT / "apps/postgres_proxy.loom"), "--set", "port=6602", "--set",
                              "servers=127.0.0.1:6601", "--cores", "1"], stderr=subprocess.PIPE)
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
        print(f"{n} idle sessions: {before:.1f} MiB before, {resident(proxy.pid):.1f} MiB with them")
    finally:
        proxy.kill()
        proxy.wait()
        server.close()


asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10000))
