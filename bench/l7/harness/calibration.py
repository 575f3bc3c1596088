"""How fast and how quiet the machine is at this moment."""
import json
import subprocess
import time

from . import procstat, settings
from .build import program

QUIET = 0.08  # cores in use by others below which the machine counts as quiet


def calibrate():
    """CPU nanoseconds of fixed user, system-call and TCP work on the proxy core (src/calib.c)."""
    argv = ["taskset", "-c", str(settings.PROXY_CORE), program("calib")]
    done = subprocess.run(argv, capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {}


def wait_for_quiet(longest):
    """Waits, at most this long, until both cores are nearly idle; returns the seconds waited."""
    start = time.time()
    while True:
        before = [procstat.core(n)[0] for n in (settings.PROXY_CORE, settings.LOAD_CORE)]
        time.sleep(0.25)
        after = [procstat.core(n)[0] for n in (settings.PROXY_CORE, settings.LOAD_CORE)]
        busiest = max(b - a for a, b in zip(before, after)) / 0.25
        waited = time.time() - start
        if busiest <= QUIET or waited > longest:
            return waited
