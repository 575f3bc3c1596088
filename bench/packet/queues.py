#!/usr/bin/env python3
"""queues.py [ROUNDS [FRAMES]]: queues between cores of one process, in ns per frame.

One interleaved run: in each round each app of apps/queues.loom reads a capture of so many frames of 64 and of 1,500 bytes, on two CPUs. Printed
are the time of the run and the CPU time of its threads, over the frames: what the app `alone` takes, which has no queue, and what the others
take more. Medians and quartiles of the rounds. WIRELOOM names the binary.
"""
import os
import re
import resource
import statistics
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault("WIRELOOM_START", "optimized")
WIRELOOM = os.environ.get("WIRELOOM", os.path.join(HERE, "../../target/release/wireloom"))
APPS = ("alone", "headers", "whole", "state", "twice")
SIZES = (64, 1500)


def capture(path, size, count):
    payload = bytes(size - 42)
    udp = struct.pack(">HHHH", 5000, 53, 8 + len(payload), 0) + payload
    head = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, 0x0A000001, 0x0A010001)
    frame = b"\2\0\0\0\0\2\2\0\0\0\0\1\x08\0" + head + udp
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        record = struct.pack("<IIII", 1700000000, 0, size, size) + frame
        for _ in range(count // 1000):
            f.write(record * 1000)


def once(app, path, count):
    """Wall and CPU ns per frame, of the run as it tells it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [WIRELOOM, "run", f"{HERE}/apps/queues.loom:{app}", "--cores", "0,1", "--bind", f"wire=pcap:{path}", "--control", "off"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ms = int(re.search(r"faults.*in (\d+) ms", said)[1])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return ms * 1e6 / count, cpu * 1e9 / count


def spread(values):
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return f"{middle:.0f} [{low:.0f} to {high:.0f}]"


def main():
    rounds, count = int((sys.argv[1:] or ["5"])[0]), int((sys.argv[2:] or ["1000000"])[0])
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        print("| app | bytes | time of the run, ns per frame | more than without a queue | CPU time more, ns per frame |")
        print("|---|---|---|---|---|")
        for size in SIZES:
            n = count if size < 500 else count // 5
            path = f"{folder}/in.pcap"
            capture(path, size, n)
            # What a start takes is not part of a frame.
            found = {app: [] for app in APPS}
            for _ in range(rounds):
                for app in APPS:
                    found[app].append(once(app, path, n))
            for app in APPS:
                wall = [w for w, _ in found[app]]
                more = [w - b for (w, _), (b, _) in zip(found[app], found["alone"])]
                cpu = [c - b for (_, c), (_, b) in zip(found[app], found["alone"])]
                columns = [spread(wall)] + (["–", "–"] if app == "alone" else [spread(more), spread(cpu)])
                print(f"| {app} | {size} | " + " | ".join(columns) + " |")


main()
