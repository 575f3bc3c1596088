"""The memory jobs: resident memory of a proxy with 512 client connections, idle and under load.

Idle: every connection is open and has had one request answered, then nothing moves. Loaded: 60% into a run of the
job's load generator with as many connections. `rss_kb` is the larger of the two, the figure that counts.
"""
import threading
import time

from . import load, process, procstat
from .measure import start_proxy

REQUEST = {
    "wrk": (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"HTTP/1.1 200"),
    "mc": (b"get key:none\r\n", b"END"),
}


def open_connections(generator, port, count):
    """Opens the connections and has one request answered on each."""
    request, expected = REQUEST[generator]
    conns = []
    for _ in range(count):
        conn = process.connection(port)
        conn.sendall(request)
        if not conn.recv(65536).startswith(expected):
            raise RuntimeError("wrong answer")
        conns.append(conn)
    return conns


def measure(job, start, conns, seconds, port, backends):
    proxy = start_proxy(start, port, backends.ports)
    try:
        held = open_connections(job.generator, port, conns)
        time.sleep(0.5)
        pids = process.tree(proxy.pid)
        idle = procstat.memory(pids)
        for conn in held:
            conn.close()

        loaded = {}
        sampler = threading.Timer(seconds * 0.6, lambda: loaded.update(procstat.memory(pids)))
        sampler.start()
        figures = load.run(job.generator, port, conns, seconds)
        sampler.join()
    finally:
        process.stop(proxy)
    figures.update(loaded, rss_idle_kb=idle["rss_kb"], rss_loaded_kb=loaded["rss_kb"], procs=len(pids))
    figures["rss_kb"] = max(idle["rss_kb"], loaded["rss_kb"])
    return figures
