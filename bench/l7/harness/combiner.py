"""The word-count job: eight sorted "word<TAB>count" streams combined into one, CPU time per MB of input.

Eight mappers (src/mapper.c) send a file each over TCP at full speed; a reducer (src/reducer.c) takes the combined
stream over TCP, checks its order and compares its digest with the one the generator computed. Between them runs

* wireloom: word_count_combiner.loom, one process that takes the eight connections and makes the ninth;
* floor_merge: the same by hand in C, with no safety (src/floor_merge.c);
* sort: src/receiver.c (socket to FIFO by splice), eight times, `LC_ALL=C sort -m` over the FIFOs, src/combine.c.

What is counted is user and system time of the processes between mappers and reducer. For `sort` the figure is sort
and combine alone (`cpu_ms_per_mb`); its receivers, without which it could not read TCP, are recorded beside it
(`cpu_all_ms_per_mb`), so the comparison is the hard one for Wireloom, whose figure includes its eight sockets.
The combining processes share the proxy core, mappers and reducer the load core. MB is 10^6 bytes.
"""
import fcntl
import json
import os
import subprocess
import time

from . import process, procstat, settings
from .build import program
from .measure import start_proxy

STREAMS = 8
PIPE_SIZE = 1 << 20


def make_streams(mib):
    """Generates the streams once per size; returns their folder and the expected digests."""
    folder = os.path.join(settings.SCRATCH, f"words-{mib}")
    digest = os.path.join(folder, "digest.json")
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(digest):
        print(f"words: generating {STREAMS} streams, {mib} MiB in all", flush=True)
        out = subprocess.check_output([program("gen_streams"), folder, str(mib), str(STREAMS)], text=True)
        with open(digest, "w") as f:
            f.write(out)
    for i in range(STREAMS):  # into the page cache, so that the disk is not measured
        with open(stream(folder, i), "rb") as f:
            while f.read(1 << 20):
                pass
    with open(digest) as f:
        return folder, json.load(f)


def stream(folder, i):
    return os.path.join(folder, f"stream{i}.txt")


def start_reducer(marks=0):
    reducer = process.start([program("reducer"), str(settings.REDUCER_PORT), str(marks)], settings.LOAD_CORE,
                            stdout=subprocess.PIPE, text=True)
    process.wait_port(settings.REDUCER_PORT, reducer)
    return reducer


def start_mappers(folder, ports, marks=0):
    return [process.start([program("mapper"), str(port), stream(folder, i), str(marks)], settings.LOAD_CORE)
            for i, port in enumerate(ports)]


def finish_reducer(reducer, expected, timeout):
    """Waits for the end of the combined stream and checks it against the generator's digest."""
    out, _ = reducer.communicate(timeout=timeout)
    got = json.loads(out)
    if got["output"] != expected["output"] or got["disorder"] or got["malformed"] or not got["clean"]:
        raise RuntimeError(f"wrong result: {out.strip()} expected {json.dumps(expected['output'])}")
    return got


def cpu_of(child):
    """Waits for a child and returns its CPU time."""
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{child.args[3]} ended with {child.returncode}")
    return procstat.Cpu(user=usage.ru_utime, system=usage.ru_stime)


def run_service(peer, start, port, folder, expected, timeout):
    """A single process's CPU time between the first mapper's start and the end of the reducer's stream."""
    marks = int(peer == "wireloom")  # the others take the end of a connection for the end of its stream
    reducer = start_reducer(marks)
    started, combiner = [reducer], None
    try:
        combiner = start_proxy(start, port, [settings.REDUCER_PORT])
        pids = process.tree(combiner.pid)
        before, begun = procstat.cpu(pids), time.time()
        started += start_mappers(folder, [port] * STREAMS, marks)
        result = finish_reducer(reducer, expected, timeout)
        wall = time.time() - begun
        used = procstat.cpu(pids).since(before)
        memory = procstat.memory(pids)
    finally:
        for child in started + ([combiner] if combiner else []):
            process.stop(child)
    return result, wall, {peer: used}, memory


def run_sort(folder, expected, timeout):
    """The same through receivers, `sort -m` and combine; each process's CPU time from its exit."""
    fifos = [os.path.join(settings.SCRATCH, f"fifo{i}") for i in range(STREAMS)]
    for fifo in fifos:
        if not os.path.exists(fifo):
            os.mkfifo(fifo)
    core, begun = settings.PROXY_CORE, None
    reducer = start_reducer()
    started = [reducer]
    try:
        receivers = [process.start([program("receiver"), str(port), fifo], core)
                     for port, fifo in zip(settings.RECEIVER_PORTS, fifos)]
        started += receivers
        for port, receiver in zip(settings.RECEIVER_PORTS, receivers):
            process.wait_port(port, receiver)
        sort = process.start(["sort", "-m"] + fifos, core, stdout=subprocess.PIPE,
                             env=dict(os.environ, LC_ALL="C"))
        fcntl.fcntl(sort.stdout, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        combine = process.start([program("combine"), str(settings.REDUCER_PORT)], core, stdin=sort.stdout)
        sort.stdout.close()
        started += [sort, combine]
        begun = time.time()
        started += start_mappers(folder, settings.RECEIVER_PORTS)
        result = finish_reducer(reducer, expected, timeout)
        wall = time.time() - begun
        parts = {"sort": cpu_of(sort), "combine": cpu_of(combine)}
        taken = [cpu_of(r) for r in receivers]
        parts["receivers"] = procstat.Cpu(user=sum(c.user for c in taken), system=sum(c.system for c in taken))
    finally:
        for child in started:
            process.stop(child)
    return result, wall, parts, {}


def measure(peer, start, mib, port):
    folder, expected = make_streams(mib)
    timeout = 60 + mib  # slow machines included
    if peer == "sort":
        result, wall, parts, memory = run_sort(folder, expected, timeout)
    else:
        result, wall, parts, memory = run_service(peer, start, port, folder, expected, timeout)
    megabytes = expected["input"]["bytes"] / 1e6
    combining = [c for name, c in parts.items() if name != "receivers"]
    per_mb = 1e3 / megabytes
    return dict(
        input_mb=megabytes, input_lines=expected["input"]["lines"], output_lines=result["output"]["lines"],
        wall=round(wall, 3), mb_per_s=megabytes / wall,
        cpu_ms_per_mb=sum(c.total for c in combining) * per_mb,
        cpu_user_ms_per_mb=sum(c.user for c in combining) * per_mb,
        cpu_sys_ms_per_mb=sum(c.system for c in combining) * per_mb,
        cpu_all_ms_per_mb=sum(c.total for c in parts.values()) * per_mb,
        parts_ms_per_mb={name: c.total * per_mb for name, c in parts.items()},
        **memory,
    )
