"""AF_XDP over veth: the forwarder's CPU time per frame, ours and the plainest there is.

    generator -> gen0 ==== in0 [forwarder] out0 ==== sink0 (XDP drop)

All in one network namespace that is made and removed here. The forwarder runs on CPU 0; generator and the kernel's threads that receive
for the veth pairs (threaded NAPI) on the last CPU. Both forwarders get the same frames at the same rate; what is counted is the CPU
time of the forwarder's process, system calls included, over what the far end has received.
"""
import os
import signal
import subprocess
import time

NAMESPACE = "wireloom-bench"
RATE, BURST = 400000, 64
PAIRS = (("gen0", "in0"), ("out0", "sink0"))


def ip(*words, check=True):
    subprocess.run(["ip", *words], check=check, capture_output=True)


def inside(*command):
    return ["ip", "netns", "exec", NAMESPACE, *command]


def write(text, file):
    subprocess.run(inside("sh", "-c", f"echo {text} > {file}"), check=False, capture_output=True)


def set_up():
    ip("netns", "del", NAMESPACE, check=False)
    ip("netns", "add", NAMESPACE)
    for a, b in PAIRS:
        one = ["numrxqueues", "1", "numtxqueues", "1"]
        ip("-n", NAMESPACE, "link", "add", a, *one, "type", "veth", "peer", "name", b, *one)
    write(1, "/proc/sys/net/ipv6/conf/all/disable_ipv6")
    for name in sum(PAIRS, ()):
        ip("-n", NAMESPACE, "link", "set", name, "up")


def threads():
    """The kernel threads that receive for the namespace's interfaces exist once this is on."""
    for name in ("in0", "sink0"):
        write(1, f"/sys/class/net/{name}/threaded")
    last = str(os.cpu_count() - 1)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as f:
                name = f.read().strip()
        except OSError:
            continue
        if name.startswith(("napi/in0", "napi/sink0")):
            subprocess.run(["taskset", "-pc", last, pid], capture_output=True)


def start(command, ready):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        if ready in line:
            return process
    raise RuntimeError(f"{' '.join(command)} has ended with {process.wait()}")


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cpu_ns(pid):
    """Of all threads; run time as the scheduler counts it."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as f:
            total += int(f.read().split()[0])
    return total


def received():
    out = subprocess.run(inside("cat", "/sys/class/net/sink0/statistics/rx_packets"), capture_output=True, text=True, check=True)
    return int(out.stdout)


def once(command, ready, work, seconds):
    """CPU ns per frame that arrives, and the share of the frames sent that did."""
    set_up()
    sink = start(inside(os.path.join(work, "xsk"), "drop", "sink0"), "ok")
    forwarder = start(inside("taskset", "-c", "0", *command), ready)
    try:
        threads()
        last = str(os.cpu_count() - 1)
        sender = start(inside("taskset", "-c", last, os.path.join(work, "xsk"), "send", "gen0", os.path.join(work, "rules10.pcap"), str(RATE), str(seconds), str(BURST)), "ok")
        time.sleep(0.3)
        frames, cpu, begin = received(), cpu_ns(forwarder.pid), time.time()
        time.sleep(seconds - 0.8)
        frames, cpu, wall = received() - frames, cpu_ns(forwarder.pid) - cpu, time.time() - begin
        sender.wait()
    finally:
        stop(forwarder)
        stop(sink)
        ip("netns", "del", NAMESPACE, check=False)
    if frames < 1000:
        raise RuntimeError(f"only {frames} frames arrived")
    return cpu / frames, frames / wall


def compare(work, wireloom, app, rounds, seconds):
    if os.geteuid():
        raise RuntimeError("AF_XDP needs root")
    plain = [os.path.join(work, "xsk"), "forward", "in0", "out0"]
    own = [wireloom, "run", app, "--bind", "a=afxdp:in0", "--bind", "b=afxdp:out0", "--cores", "0"]
    ours, reference, rates = [], [], []
    for _ in range(rounds):
        ns, rate = once(plain, "ok", work, seconds)
        reference.append(ns)
        ns, ours_rate = once(own, "ready", work, seconds)
        ours.append(ns)
        rates.append([round(rate), round(ours_rate)])
    return ours, reference, {"frames_per_second": rates, "offered": RATE}
