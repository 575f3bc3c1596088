"""Starting, finding and stopping the programs of a run. Whatever is started here is stopped at exit."""
import os
import signal
import socket
import subprocess
import time

from . import settings

_started = []


def start(argv, core, **options):
    """Starts a foreground program pinned to a core (or a list of cores such as "0,1"), output to the scratch log."""
    with open(os.path.join(settings.SCRATCH, "out.log"), "ab") as log:
        log_from = log.tell()
        streams = dict(stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        streams.update(options)
        process = subprocess.Popen(["taskset", "-c", str(core)] + argv, start_new_session=True, **streams)
    process.log_from = log_from
    _started.append(process)
    return process


def tree(pid):
    """The process and all its living descendants."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = stat_fields(entry)
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry))
    found, todo = [], [pid]
    while todo:
        current = todo.pop()
        found.append(current)
        todo += children.get(current, [])
    return found


def stat_fields(pid):
    """The fields of /proc/PID/stat after the command name: [0] state, [1] parent, [11] utime, [12] stime."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            text = f.read()
    except OSError:
        return None
    return text[text.rindex(")") + 2:].split()


def stop(process):
    """Ends a program and its children, and waits until all are gone."""
    if process.poll() is None:
        members = tree(process.pid)
        process.terminate()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            _kill(members)
            process.wait()
        if not _gone(members):
            _kill(members)
    if process in _started:
        _started.remove(process)


def stop_all():
    for process in list(_started):
        stop(process)


def _kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def _gone(pids, seconds=2):
    end = time.time() + seconds
    while time.time() < end:
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
            return True
        time.sleep(0.02)
    return False


def wait_port(port, process, seconds=30):
    """Waits until a port is listened on. Looks in /proc/net/tcp: a connection would be one that the program counts."""
    wanted = f":{port:04X}"
    end = time.time() + seconds
    while time.time() < end:
        if process.poll() is not None:
            raise RuntimeError(f"exited with {process.returncode}: {last_words()}")
        if _listening(wanted):
            return
        time.sleep(0.03)
    raise RuntimeError(f"port {port} did not open")


def wait_ready(process, seconds=60):
    """Waits until Wireloom says that it is ready: it listens before its program is compiled."""
    if os.path.basename(settings.WIRELOOM) not in [os.path.basename(str(a)) for a in process.args]:
        return
    end = time.time() + seconds
    while time.time() < end and process.poll() is None:
        with open(os.path.join(settings.SCRATCH, "out.log"), errors="replace") as log:
            log.seek(process.log_from)
            if "ready after" in log.read():
                return
        time.sleep(0.03)
    raise RuntimeError(f"not ready: {last_words()}")


def last_words():
    """The last line in the scratch log, most likely of the program that just ended."""
    with open(os.path.join(settings.SCRATCH, "out.log"), errors="replace") as log:
        lines = [line.strip() for line in log if line.strip()]
    return lines[-1] if lines else "it said nothing"


def _listening(suffix):
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as f:
                lines = f.readlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[1].endswith(suffix) and fields[3] == "0A":
                return True
    return False


def connection(port):
    """A client socket to the program under test."""
    return socket.create_connection(("127.0.0.1", port), 5)
