"""Counters from /proc: CPU time of processes and cores, memory, and the work of everybody else on the machine."""
import os
import re
from dataclasses import dataclass

from .process import stat_fields

TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Cpu:
    """CPU seconds of a set of processes. `sched` has nanosecond precision but misses threads that have ended."""
    user: float = 0.0
    system: float = 0.0
    run_delay: float = 0.0
    sched: float = 0.0

    @property
    def total(self):
        return self.user + self.system

    def since(self, earlier):
        return Cpu(self.user - earlier.user, self.system - earlier.system,
                   self.run_delay - earlier.run_delay, self.sched - earlier.sched)


def cpu(pids):
    """CPU time so far of these processes with all their threads."""
    sum_ = Cpu()
    for pid in pids:
        fields = stat_fields(pid)
        if not fields:
            continue
        sum_.user += int(fields[11]) / TICK
        sum_.system += int(fields[12]) / TICK
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/schedstat") as f:
                    ran, waited, _ = f.read().split()
                sum_.sched += int(ran) / 1e9
                sum_.run_delay += int(waited) / 1e9
        except OSError:
            pass
    return sum_


def others(mine):
    """CPU seconds so far of every process that is not ours, by process id."""
    seconds = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in mine:
            fields = stat_fields(entry)
            if fields:
                seconds[entry] = (int(fields[11]) + int(fields[12])) / TICK
    return seconds


def core(number):
    """Busy and stolen seconds of a core so far."""
    with open("/proc/stat") as f:
        for line in f:
            if line.startswith(f"cpu{number} "):
                user, nice, system, _idle, _iowait, irq, softirq, steal = (int(x) / TICK for x in line.split()[1:9])
                return user + nice + system + irq + softirq + steal, steal
    return 0.0, 0.0


def ksoftirqd(number):
    """CPU seconds of the kernel's softirq thread of a core."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/comm") as f:
                name = f.read().strip()
        except OSError:
            continue
        if name == f"ksoftirqd/{number}":
            fields = stat_fields(entry)
            return (int(fields[11]) + int(fields[12])) / TICK if fields else 0.0
    return 0.0


def memory(pids):
    """Memory of these processes in KiB: resident, proportional, and the sum of their resident peaks."""
    rss = pss = peak = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/status") as f:
                status = f.read()
            with open(f"/proc/{pid}/smaps_rollup") as f:
                rollup = f.read()
        except OSError:
            continue
        rss += _kib("VmRSS", status)
        peak += _kib("VmHWM", status)
        pss += _kib("Pss", rollup)
    return dict(rss_kb=rss, pss_kb=pss, hwm_kb=peak)


def _kib(name, text):
    match = re.search(rf"^{name}:\s+(\d+)", text, re.M)
    return int(match[1]) if match else 0
