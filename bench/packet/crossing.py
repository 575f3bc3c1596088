#!/usr/bin/env python3
"""crossing.py [ROUNDS [SECONDS]]: a queue from the XDP hook to the process, cut against whole frames, over veth.

    generator -> gen0 ==== in0 [hook] -> AF_XDP -> [process]

One interleaved run: in each round each app of apps/crossing.loom gets frames of 64 and of 1,500 bytes. What is counted is the CPU time of
the kernel's thread that receives for in0 (threaded NAPI: the hook's program, the copy to AF_XDP) and of the process, over the frames that the
process has handled. WIRELOOM names the binary, BENCH_WORK the folder with `xsk` (made here if it is not there). Needs root.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

from forwarding import NAMESPACE, cpu_ns, inside, ip, start, stop, write

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
os.environ.setdefault("WIRELOOM_START", "optimized")
APPS = ("headers", "headers_whole", "state", "state_whole")
SIZES = (64, 1500)
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


def capture(path, size):
    """A capture of 1,024 UDP frames of so many bytes."""
    def frame(i):
        payload = bytes((i + k) & 255 for k in range(size - 42))
        udp = (5000 + i).to_bytes(2, "big") + (53).to_bytes(2, "big") + (8 + len(payload)).to_bytes(2, "big") + b"\0\0"
        head = bytearray(b"\x45\0" + (20 + 8 + len(payload)).to_bytes(2, "big") + b"\0\0\0\0\x40\x11\0\0" + bytes([10, 0, i >> 8, i & 255]) + bytes([10, 1, 0, 1]))
        total = sum(int.from_bytes(head[k:k + 2], "big") for k in range(0, 20, 2))
        total = (total & 0xffff) + (total >> 16)
        head[10:12] = (~total & 0xffff).to_bytes(2, "big")
        return b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0" + bytes(head) + udp + payload
    with open(path, "wb") as f:
        for n in (0xa1b2c3d4, 0x00040002, 0, 0, 65535, 1):
            f.write(n.to_bytes(4, "little"))
        for i in range(1024):
            data = frame(i)
            for n in (1700000000, i, len(data), len(data)):
                f.write(n.to_bytes(4, "little"))
            f.write(data)


def once(wireloom, work, app, size, seconds):
    """CPU ns per frame: of the kernel's thread, of the process."""
    set_up()
    control = os.path.join(work, "control")
    process = start(inside("taskset", "-c", "0", wireloom, "run", f"{HERE}/apps/crossing.loom:{app}", "--cores", "0", "--control", control), "ready")
    try:
        thread = receiver()
        last = str(os.cpu_count() - 1)
        pcap = os.path.join(work, f"udp{size}.pcap")
        sender = start(inside("taskset", "-c", last, os.path.join(work, "xsk"), "send", "gen0", pcap, str(RATE), str(seconds), str(BURST)), "ok")

        def handled():
            out = subprocess.run([wireloom, "counter", "handled", "--control", control], capture_output=True, text=True, check=True).stdout
            return int(out.split()[-1])
        time.sleep(0.4)
        before, kernel, own = handled(), cpu_ns(thread), cpu_ns(process.pid)
        time.sleep(seconds - 0.9)
        frames, kernel, own = handled() - before, cpu_ns(thread) - kernel, cpu_ns(process.pid) - own
        sender.wait()
    finally:
        stop(process)
        ip("netns", "del", NAMESPACE, check=False)
    if frames < 1000:
        raise RuntimeError(f"only {frames} frames were handled")
    return kernel / frames, own / frames


def main():
    rounds, seconds = int((sys.argv[1:] or ["5"])[0]), float((sys.argv[2:] or ["3"])[0])
    wireloom = os.environ.get("WIRELOOM", os.path.join(ROOT, "target/release/wireloom"))
    with tempfile.TemporaryDirectory() as scratch:
        work = os.environ.get("BENCH_WORK", scratch)
        if not os.path.exists(os.path.join(work, "xsk")):
            subprocess.run(["cc", "-O2", "-o", os.path.join(work, "xsk"), f"{HERE}/src/xsk.c"], check=True)
        for size in SIZES:
            capture(os.path.join(work, f"udp{size}.pcap"), size)
        found = {(app, size): [] for app in APPS for size in SIZES}
        for _ in range(rounds):
            for (app, size), all_of_it in found.items():
                all_of_it.append(once(wireloom, work, app, size, seconds))
    print(f"{'app':14} {'bytes':>6} {'kernel ns':>10} {'process ns':>11} {'sum':>7}")
    sums = {}
    for (app, size), runs in found.items():
        kernel, own = (statistics.median(r[k] for r in runs) for k in (0, 1))
        sums[app, size] = statistics.median(sum(r) for r in runs)
        print(f"{app:14} {size:6} {kernel:10.0f} {own:11.0f} {sums[app, size]:7.0f}")
    for app in ("headers", "state"):
        for size in SIZES:
            ratio = sums[app, size] / sums[app + "_whole", size]
            print(f"{app} only, {size} B, against whole frames: {ratio:.2f} (must {MUST[size]}) {'met' if ratio <= MUST[size] else 'missed'}")


if __name__ == "__main__":
    main()
