"""One measurement of a request loop: start the proxy, check its answer, warm it up, load it, read the counters."""
import http.client
import os
import resource
import threading
import time
from dataclasses import dataclass

from . import calibration, load, process, procstat, settings


@dataclass
class Job:
    """What to run: see jobs.py."""
    name: str
    kind: str
    conns: list
    generator: str
    peers: list


@dataclass
class Backends:
    """The servers behind the proxy: their ports and their processes."""
    ports: list
    pids: list


class Snapshot:
    """All counters at one moment."""

    def __init__(self, proxy_pids, backend_pids):
        self.proxy = procstat.cpu(proxy_pids)
        self.backend = procstat.cpu(backend_pids)
        self.proxy_core = procstat.core(settings.PROXY_CORE)
        self.load_core = procstat.core(settings.LOAD_CORE)
        self.softirq = procstat.ksoftirqd(settings.PROXY_CORE)
        self.others = procstat.others(set(proxy_pids) | set(backend_pids) | {os.getpid()})
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.generator = usage.ru_utime + usage.ru_stime
        self.time = time.time()


def differences(before, after, requests):
    """The recorded figures of the time between two snapshots."""
    wall = after.time - before.time
    proxy, backend = after.proxy.since(before.proxy), after.backend.since(before.backend)
    generator = after.generator - before.generator
    busy = after.proxy_core[0] - before.proxy_core[0]
    load_busy = after.load_core[0] - before.load_core[0]
    per_request = 1e6 / max(requests, 1)
    return dict(
        wall=round(wall, 3),
        proxy_user_us=proxy.user * per_request,
        proxy_sys_us=proxy.system * per_request,
        proxy_us=proxy.total * per_request,
        proxy_us_sched=proxy.sched * per_request,
        proxy_util=proxy.total / wall,
        backend_us=backend.total * per_request,
        gen_us=generator * per_request,
        run_delay=proxy.run_delay / wall,
        core_other=max(0.0, busy - proxy.total) / wall,
        core_steal=(after.proxy_core[1] - before.proxy_core[1]) / wall,
        load_core_busy=load_busy / wall,
        load_other=max(0.0, load_busy - backend.total - generator) / wall,
        load_core_steal=(after.load_core[1] - before.load_core[1]) / wall,
        ksoftirqd=(after.softirq - before.softirq) / wall,
        foreign=sum(v - before.others.get(k, 0) for k, v in after.others.items()) / wall,
    )


def check_answer(port, path):
    """Every HTTP peer must answer with status 200 and the same 137 bytes."""
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    conn.request("GET", path)
    answer = conn.getresponse()
    body = answer.read().decode()
    conn.close()
    if answer.status != 200 or body.rstrip("\n") != settings.BODY:
        raise RuntimeError(f"wrong answer: {answer.status} {len(body)} bytes")


def start_proxy(start, port, backend_ports):
    proxy = process.start(start(port, backend_ports), settings.PROXY_CORE)
    try:
        process.wait_port(port, proxy)
        process.wait_ready(proxy)
    except Exception:
        process.stop(proxy)
        raise
    time.sleep(0.15)
    return proxy


def measure(job, peer, start, conns, seconds, port, backends):
    """Runs one peer once and returns its figures. `start` is None for `direct`: load straight onto backend 1."""
    path = "/index.txt" if job.kind == "static" and peer.startswith("apache") else "/"
    calib_before = calibration.calibrate()
    proxy = None
    try:
        if start is None:
            port, pids = backends.ports[0], []
        else:
            proxy = start_proxy(start, port, backends.ports)
        if load.is_http(job.generator):
            check_answer(port, path)
        load.warm_up(job.generator, port, conns, path)
        if proxy:
            pids = process.tree(proxy.pid)

        memory = {}
        sampler = threading.Timer(seconds * 0.6, lambda: memory.update(procstat.memory(pids)))
        before = Snapshot(pids, backends.pids)
        sampler.start()
        figures = load.run(job.generator, port, conns, seconds, path)
        after = Snapshot(pids, backends.pids)
        sampler.join()
    finally:
        if proxy:
            process.stop(proxy)
    calib_after = calibration.calibrate()

    figures.update(differences(before, after, figures["requests"]), procs=len(pids), **memory)
    if calib_before and calib_after:
        calib = {k: (calib_before[k] + calib_after[k]) / 2 for k in calib_before}
        figures.update(calib=calib, proxy_pairs=figures["proxy_us"] * 1e3 / calib["tcp_pair_ns"])
    return figures
