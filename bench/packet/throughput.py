#!/usr/bin/env python3
"""TCP through real stacks: a switch and a NAT of ours beside the kernel's bridge and MASQUERADE.

Hosts are network namespaces joined by veth pairs. iperf3 sends for --seconds through one device and then
through the other, --rounds times in turn. Printed are Gbit/s: the median of the rounds and their extremes,
and ours as a share of the kernel's. All run on the cores of this machine together, senders and receivers too.

    sudo bench/packet/throughput.py [--rounds 5] [--seconds 3] [--engine afpacket] [--json FILE]

Needs root, ip, iperf3, nft and target/release/wireloom (or WIRELOOM).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Optimised code is measured, from the first request on.
os.environ.setdefault("WIRELOOM_START", "optimized")
WIRELOOM = os.environ.get("WIRELOOM", str(ROOT / "target/release/wireloom"))
PREFIX = f"wlt{os.getpid()}"


def sh(line):
    return subprocess.run(line, shell=True, check=True, capture_output=True, text=True).stdout


def ns(name):
    return f"{PREFIX}-{name}"


def within(name, line):
    return sh(f"ip netns exec {ns(name)} {line}")


def link(a, device_a, b, device_b):
    sh(f"ip link add {device_a} netns {ns(a)} type veth peer name {device_b} netns {ns(b)}")
    within(a, f"ip link set {device_a} up")
    within(b, f"ip link set {device_b} up")


def make():
    """Two hosts and two middles: `k` has the kernel's device, `w` ours."""
    for host in ("a", "b", "k", "w"):
        sh(f"ip netns add {ns(host)}")
        within(host, "ip link set lo up")
    for n, middle in enumerate(("k", "w")):
        link("a", f"{middle}0", middle, "lan")
        link("b", f"{middle}0", middle, "wan")
        within("a", f"ip addr add 10.{n}.0.1/24 dev {middle}0")
        within("b", f"ip addr add 10.{n}.0.2/24 dev {middle}0")
    # On the way to ours a host must not answer for the other's addresses.
    for host in ("a", "b"):
        within(host, "sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2")


def bridge():
    within("k", "ip link add br0 type bridge")
    for device in ("lan", "wan"):
        within("k", f"ip link set {device} master br0")
    within("k", "ip link set br0 up")


def masquerade():
    """The kernel routes and translates; ours translates between two hosts of one network."""
    within("k", "ip link del br0")
    within("a", "ip addr del 10.0.0.1/24 dev k0")
    within("a", "ip addr add 10.8.0.1/24 dev k0")
    within("a", "ip route add 10.0.0.0/24 via 10.8.0.2 dev k0")
    within("k", "ip addr add 10.8.0.2/24 dev lan")
    within("k", "ip addr add 10.0.0.9/24 dev wan")
    within("k", "sysctl -qw net.ipv4.ip_forward=1")
    within("k", "nft add table ip nat")
    within("k", "nft add chain ip nat post '{ type nat hook postrouting priority 100; }'")
    within("k", "nft add rule ip nat post oifname wan masquerade")


def start(app, *args):
    line = ["ip", "netns", "exec", ns("w"), WIRELOOM, "run", str(ROOT / f"apps/{app}.loom"), *args]
    p = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    for text in p.stderr:
        if "ready" in text:
            return p
    sys.exit(f"{app} did not start")


def stop(p):
    p.terminate()
    p.wait(timeout=20)


def rate(target, seconds):
    server = subprocess.Popen(["ip", "netns", "exec", ns("b"), "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    out = json.loads(within("a", f"iperf3 -J -c {target} -t {seconds} -O 0.5"))
    server.wait(timeout=20)
    return out["end"]["sum_received"]["bits_per_second"] / 1e9


def compare(name, options):
    ours, theirs = [], []
    for _ in range(options.rounds):
        theirs.append(rate("10.0.0.2", options.seconds))
        ours.append(rate("10.1.0.2", options.seconds))
    share = statistics.median(o / t for o, t in zip(ours, theirs))
    row = {"job": name, "wireloom": sorted(ours), "kernel": sorted(theirs), "share": round(share, 2)}
    median = statistics.median
    print(f"{name}: wireloom {median(ours):.1f} Gbit/s ({min(ours):.1f} to {max(ours):.1f}), "
          f"kernel {median(theirs):.1f} ({min(theirs):.1f} to {max(theirs):.1f}), {share:.2f} x")
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--engine", default="afpacket")
    p.add_argument("--json")
    options = p.parse_args()
    e, rows = options.engine, []
    try:
        make()
        bridge()
        app = start("learning_switch", "--bind", f"ports={e}:lan,{e}:wan")
        rows.append(compare("switch", options))
        stop(app)
        masquerade()
        app = start("nat44", "--bind", f"lan={e}:lan", "--bind", f"wan={e}:wan", "--set", "public=10.1.0.9")
        within("a", "ip neigh replace 10.1.0.2 dev w0 lladdr " + mac("b", "w0"))
        rows.append(compare("nat", options))
        stop(app)
    finally:
        for host in ("a", "b", "k", "w"):
            subprocess.run(["ip", "netns", "del", ns(host)], check=False)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


def mac(host, device):
    return within(host, f"cat /sys/class/net/{device}/address").strip()


if __name__ == "__main__":
    main()
