"""The load generators (wrk for HTTP, src/mcload.c for memcached), pinned to the load core."""
import json
import os
import re
import subprocess

from . import settings
from .build import program

# Extra arguments of mcload for each generator name of jobs.py.
MCLOAD = {"mc": [], "mc_bin": ["-b"], "mc_getk": ["-k"], "mc_pipe8": ["-P", "8"], "mc_bin_pipe8": ["-b", "-P", "8"]}


def is_http(generator):
    return generator.startswith("wrk")


def command(generator, port, conns, seconds, path="/"):
    if not is_http(generator):
        return [program("mcload"), "-p", str(port), "-c", str(conns), "-d", str(seconds)] + MCLOAD[generator]
    argv = ["wrk", "-t1", f"-c{conns}", f"-d{seconds}s", "--timeout", "10s"]
    argv += ["-s", os.path.join(settings.SRC, "wrk_json.lua")]
    if generator == "wrk_close":
        argv += ["-H", "Connection: close"]
    return argv + [f"http://127.0.0.1:{port}{path}"]


def run(generator, port, conns, seconds, path="/"):
    """Runs the generator to its end and returns its JSON summary."""
    argv = ["taskset", "-c", str(settings.LOAD_CORE)] + command(generator, port, conns, seconds, path)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds * 4 + 30)
    match = re.search(r"\{.*\}", done.stdout)
    if not match:
        raise RuntimeError("load generator: " + (done.stderr or done.stdout)[-300:])
    return json.loads(match[0])


def warm_up(generator, port, conns, path="/"):
    run(generator, port, min(conns, 64), 1 if is_http(generator) else 0.6, path)
