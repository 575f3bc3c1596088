"""A service beside its peer, in turns under the same load: CPU time per unit of work."""
import contextlib
import multiprocessing
import pathlib
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time

from . import process, procstat


@contextlib.contextmanager
def workplace():
    """A scratch folder, and a list for the processes that are started: both are gone at the end."""
    folder, children = pathlib.Path(tempfile.mkdtemp(prefix="wireloom-bench-")), []
    try:
        yield folder, children
    finally:
        for child in reversed(children):
            child.terminate()
        for child in children:
            child.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _serve(port, answer, rest):
    listener = socket.create_server(("127.0.0.1", port), backlog=64)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=answer, args=(sock, *rest), daemon=True).start()


def server(port, answer, *rest):
    """A process that listens, until `terminate`: a thread for each connection runs `answer(socket, *rest)`."""
    behind = multiprocessing.Process(target=_serve, args=(port, answer, rest), daemon=True)
    behind.start()
    return behind


def wait_for(port, seconds=30):
    """Waits until a port takes a connection."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
    sys.exit(f"nothing listens on port {port}")


def cost(pid, work):
    """Seconds of CPU time, of a process and its children, for a unit of what `work` has done; and how many units those were."""
    pids = process.tree(pid)
    before = procstat.cpu(pids)
    done = work()
    return procstat.cpu(pids).since(before).total / done, done


def interleaved(peers, rounds, once):
    """Results by the names of peers. Each round asks all of them, one after the other: `once` gets a peer's values."""
    seen = {name: [] for name in peers}
    for _ in range(rounds):
        for name, peer in peers.items():
            seen[name].append(once(*peer))
    return seen


def compare(seen):
    """Of the costs of two peers: both medians, and the median of the rounds' ratios, the first peer's to the second's."""
    ours, theirs = seen.values()
    return statistics.median(ours), statistics.median(theirs), statistics.median(a / b for a, b in zip(ours, theirs))
