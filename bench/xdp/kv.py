#!/usr/bin/env python3
"""Gets of a memcached over UDP: alone, and behind `xdp_kv_cache`, in turn. Needs root.

    sudo bench/xdp/kv.py [ROUNDS] [SECONDS] [SIZE]

The client has processor 0, the server's side processor 1: memcached, and the threads in which the
kernel receives frames there (threaded NAPI). Figures are those threads' processor time for an
answer, and answers per second. Medians of the rounds.
"""
import glob
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 3
SIZE = int(sys.argv[3]) if len(sys.argv) > 3 else 32
KEYS = 1000
TAG = "wlkv%u" % os.getpid()
WIRELOOM = os.environ.get("WIRELOOM", os.path.join(ROOT, "target/checks/wireloom"))


def name(ns):
    return "%s-%s" % (TAG, ns)


def sh(ns, line, check=True):
    where = ["ip", "netns", "exec", name(ns)] if ns else []
    return subprocess.run(where + ["sh", "-c", line], capture_output=True, text=True, check=check).stdout


def start(ns, line):
    command = ["ip", "netns", "exec", name(ns), "sh", "-c", "exec " + line]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def link(a, b):
    pairs = "netns %s type veth peer name %s netns %s" % (name(a[0]), b[1], name(b[0]))
    sh(None, "ip link add %s %s" % (a[1], pairs))
    for ns, device in (a, b):
        sh(ns, "ip link set %s up; ethtool -K %s gro on tx off" % (device, device))


def address(ns, device, ip):
    sh(ns, "sysctl -qw net.ipv6.conf.all.disable_ipv6=1; ip addr add %s/24 dev %s; ip link set lo up" % (ip, device))


def receivers(devices):
    """Gives the interfaces threads of their own, and moves them to a processor."""
    threads = []
    for ns, device, cpu in devices:
        sh(ns, "echo 1 > /sys/class/net/%s/threaded" % device)
    time.sleep(0.2)
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            comm = open(path).read().strip()
        except OSError:
            continue
        for ns, device, cpu in devices:
            if comm.startswith("napi/%s" % device):
                pid = int(path.split("/")[2])
                subprocess.run(["taskset", "-pc", str(cpu), str(pid)], capture_output=True)
                if cpu == 1:
                    threads.append(pid)
    return threads


def spent(pids):
    total = 0
    for pid in pids:
        for path in glob.glob("/proc/%u/task/*/schedstat" % pid):
            total += int(open(path).read().split()[0])
    return total


def measure(cached, client):
    """Nanoseconds of the server's side for an answer, answers per second, lost and wrong ones."""
    for ns in ("c", "m", "s"):
        sh(None, "ip netns add " + name(ns))
    started = []
    try:
        if cached:
            link(("c", "kvc"), ("m", "kvo"))
            link(("m", "kvi"), ("s", "kvs"))
        else:
            link(("c", "kvc"), ("s", "kvs"))
        address("c", "kvc", "10.6.0.1")
        address("s", "kvs", "10.6.0.2")
        server = start("s", "taskset -c 1 memcached -u nobody -l 10.6.0.2 -U 11211 -t 1 -m 256")
        started.append(server)
        if cached:
            bind = "--bind outside=nic:kvo --bind inside=nic:kvi --control off --set most=60s --set largest=1024"
            app = os.path.join(ROOT, "apps/xdp_kv_cache.loom")
            started.append(start("m", "%s run %s %s" % (WIRELOOM, app, bind)))
        # At the client's end: the kernel wants it there before it delivers what XDP sends back.
        passing = os.path.join(ROOT, "bench/xdp/pass.loom")
        started.append(start("c", "%s run %s --bind wire=nic:kvc --control off" % (WIRELOOM, passing)))
        devices = [("c", "kvc", 0), ("s", "kvs", 1)] + ([("m", "kvo", 1), ("m", "kvi", 1)] if cached else [])
        time.sleep(4)
        threads = receivers(devices)
        fill = (
            "import socket; s = socket.create_connection(('10.6.0.2', 11211))\n"
            "for i in range(%u):\n v = '%%0*u' %% (%u, i)\n"
            " s.sendall(('set key%%08u 0 0 %%u\\r\\n%%s\\r\\n' %% (i, len(v), v)).encode()); assert s.recv(99) == b'STORED\\r\\n'"
        ) % (KEYS, SIZE)
        sh("c", "python3 -c \"%s\"" % fill)
        get = "taskset -c 0 %s 10.6.0.2 %u %g 32 %u" % (client, KEYS, 1, SIZE)
        sh("c", get)
        before = spent(threads + [server.pid])
        said = sh("c", get.replace(" 1 32 ", " %g 32 " % SECONDS))
        after = spent(threads + [server.pid])
        answers, lost, wrong = (int(n) for n in re.findall(r"=(\d+)", said))
        return (after - before) / max(answers, 1), answers / SECONDS, lost, wrong
    finally:
        for p in reversed(started):
            p.terminate()
            p.wait()
        for ns in ("c", "m", "s"):
            sh(None, "ip netns del " + name(ns), check=False)


def main():
    folder = tempfile.mkdtemp()
    client = os.path.join(folder, "kv_get")
    subprocess.run(["cc", "-O2", "-o", client, os.path.join(ROOT, "bench/xdp/kv_get.c")], check=True)
    results = {False: [], True: []}
    for _ in range(ROUNDS):
        for cached in (False, True):
            results[cached].append(measure(cached, client))
    model = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    print("%s, Linux %s, %u rounds of %g s, values of %u bytes" % (model[1], platform.release(), ROUNDS, SECONDS, SIZE))
    for cached, title in ((False, "memcached alone"), (True, "xdp_kv_cache")):
        ns, rate = (statistics.median(r[i] for r in results[cached]) for i in (0, 1))
        lost, wrong = (sum(r[i] for r in results[cached]) for i in (2, 3))
        spread = "%.0f-%.0f" % (min(r[0] for r in results[cached]), max(r[0] for r in results[cached]))
        print("%-16s %6.0f ns of the server's side (%s), %7.0f answers/s, lost %u, wrong %u" % (title, ns, spread, rate, lost, wrong))
    ratio = [b[0] / a[0] for a, b in zip(results[False], results[True])]
    print("ratio of processor time: %.2f" % statistics.median(ratio))


main()
