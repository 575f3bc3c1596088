#!/usr/bin/env python3
"""crossing.py [ROUNDS [SECONDS]]: a queue from the XDP hook to the process, cut against whole frames, over veth.

    generator -> gen0 ==== in0 [hook] -> AF_XDP or a ring -> [process]

One interleaved run: in each round each app of apps/crossing.loom gets frames of 64 and of 1,500 bytes. The frames come in pages, as those of a
card do, and another CPU has written each of their lines just before (`xsk live`). What is counted is the CPU time of the kernel's thread that
receives for in0 (threaded NAPI: the hook's program, the copy to AF_XDP, the wake-up) and of the process, system calls included, over the frames
that the process has handled. Nothing else works for a frame on that CPU: softirqs of in0 run in that thread. A ratio is of two runs of one
round. Medians and quartiles of the rounds are printed. WIRELOOM names the binary, BENCH_WORK the folder with `xsk` (made here if it is not there). Needs root.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

from forwarding import NAMESPACE, inside, ip, start, stop, write

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
os.environ.setdefault("WIRELOOM_START", "optimized")
APPS = ("dropped", "headers", "headers_whole", "state", "state_whole")
SIZES = tuple(int(n) for n in os.environ.get("SIZES", "64 1500").split())
RATE, BURST = 250000, 64
# What the ratios must be, by size.
MUST = {64: 1.02, 1500: 0.75}


def set_up():
    ip("netns", "del", NAMESPACE, check=False)
    ip("netns", "add", NAMESPACE)
    one = ["numrxqueues", "1", "numtxqueues", "1"]
    ip("-n", NAMESPACE, "link", "add", "gen0", *one, "type", "veth", "peer", "name", "in0", *one)
    write(1, "/proc/sys/net/ipv6/conf/all/disable_ipv6")
    for name in ("gen0", "in0"):
        ip("-n", NAMESPACE, "link", "set", name, "up")


def receiver():
    """The kernel's thread that receives for in0, pinned to the first CPU."""
    write(1, "/sys/class/net/in0/threaded")
    for _ in range(50):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm") as f:
                    name = f.read().strip()
            except OSError:
                continue
            if name.startswith("napi/in0"):
                subprocess.run(["taskset", "-pc", "0", pid], capture_output=True)
                return int(pid)
        time.sleep(0.1)
    raise RuntimeError("the kernel has no thread for in0")


def run_ns(pid):
    """Run time of each thread, as the scheduler counts it."""
    times = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat") as f:
                times[thread] = int(f.read().split()[0])
        except OSError:
            pass
    return times


def once(wireloom, work, app, size, seconds):
    """CPU ns per frame: of the kernel's thread, of the process."""
    set_up()
    control = os.path.join(work, "control")
    process = start(inside("taskset", "-c", "0", wireloom, "run", f"{HERE}/apps/crossing.loom:{app}", "--cores", "0", "--control", control), "ready")
    try:
        thread = receiver()
        sender_cpu = str(os.cpu_count() - 1)
        sender = start(inside("taskset", "-c", sender_cpu, os.path.join(work, "xsk"), "live", "gen0", str(size), str(RATE), str(seconds), str(BURST)), "ok")

        def handled():
            out = subprocess.run([wireloom, "counter", "handled", "--control", control], capture_output=True, text=True, check=True).stdout
            return int(out.split()[-1])

        def now():
            return handled(), run_ns(thread), run_ns(process.pid)

        def spent(before, after):
            return sum(ns - before.get(thread, 0) for thread, ns in after.items())
        time.sleep(0.4)
        first = now()
        time.sleep(seconds - 0.9)
        last = now()
        frames = last[0] - first[0]
        times = [spent(first[1], last[1]), spent(first[2], last[2])]
        sender.wait()
    finally:
        stop(process)
        ip("netns", "del", NAMESPACE, check=False)
    if frames < RATE * (seconds - 0.9) * 0.5:
        raise RuntimeError(f"{app}: only {frames} frames were handled")
    return [t / frames for t in times]


def spread(values):
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return middle, low, high


def main():
    rounds, seconds = int((sys.argv[1:] or ["5"])[0]), float((sys.argv[2:] or ["2.5"])[0])
    wireloom = os.environ.get("WIRELOOM", os.path.join(ROOT, "target/release/wireloom"))
    with tempfile.TemporaryDirectory() as scratch:
        work = os.environ.get("BENCH_WORK", scratch)
        if not os.path.exists(os.path.join(work, "xsk")):
            subprocess.run(["cc", "-O2", "-o", os.path.join(work, "xsk"), f"{HERE}/src/xsk.c"], check=True)
        found = {(app, size): [] for app in APPS for size in SIZES}
        for _ in range(rounds):
            for (app, size), all_of_it in found.items():
                all_of_it.append(once(wireloom, work, app, size, seconds))
    print(f"{'app':14} {'bytes':>6} {'kernel ns':>10} {'process ns':>11} {'sum':>7} {'quartiles':>14}")
    sums = {key: [kernel + own for kernel, own in runs] for key, runs in found.items()}
    for (app, size), runs in found.items():
        kernel, own = (statistics.median(r[k] for r in runs) for k in range(2))
        middle, low, high = spread(sums[app, size])
        print(f"{app:14} {size:6} {kernel:10.0f} {own:11.0f} {middle:7.0f} {f'{low:.0f} to {high:.0f}':>14}")
    for app in ("headers", "state"):
        for size in SIZES:
            ratio, low, high = spread([cut / whole for cut, whole in zip(sums[app, size], sums[app + "_whole", size])])
            must = f"must {MUST[size]}: {'met' if ratio <= MUST[size] else 'missed'}" if size in MUST else ""
            print(f"{app} only, {size} B, against whole frames: {ratio:.2f} [{low:.2f} to {high:.2f}] {must}")


if __name__ == "__main__":
    main()
