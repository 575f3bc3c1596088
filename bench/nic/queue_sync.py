#!/usr/bin/env python3
"""Floem's microbenchmark of queue synchronisation, in the modelled link: packets of several sizes go
from the NIC's process to the CPU's, with batches of one entry and with those of the model. Prints a
table of transactions and bytes per packet. Nothing here is a time of a clock.

    python3 bench/nic/queue_sync.py [PACKETS]
"""
import os, re, struct, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
WIRELOOM = os.environ.get("WIRELOOM", os.path.join(HERE, "../../target/release/wireloom"))
SIZES = (32, 64, 128, 256)


def capture(path, size, count, gap):
    """Packets of one size, so many ns apart."""
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        for n in range(count):
            s, ns = divmod(1_700_000_000_000_000_000 + n * gap, 1_000_000_000)
            f.write(struct.pack("<IIII", s, ns, size, size) + bytes(size))


def run(folder, link):
    """What the run's last line says: frames, transactions, TLPs, payload, overhead."""
    command = [WIRELOOM, "run", os.path.join(HERE, "queue_sync.loom"), "--bind", f"wire=pcap:{folder}/in.pcap"]
    command += ["--bind", "out=null", "--link", link]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r"CPU: (\d+) frames, (\d+) transactions .*?, (\d+) TLPs, (\d+) \+ (\d+) bytes", said.stderr)
    if said.returncode or not found:
        sys.exit(f"{' '.join(command)}:\n{said.stderr}")
    return [int(n) for n in found.groups()]


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print("| packet | apart | without batches | batches of 16 | fewer | bytes per packet |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            for gap in (0, 200, 300):
                capture(f"{folder}/in.pcap", size, count, gap)
                one, many = run(folder, "batch=1,blocking=1"), run(folder, "batch=16")
                assert one[0] == many[0] == count and one[3:] == many[3:]
                each = [r[1] / r[0] for r in (one, many)]
                bytes_each = (many[3] + many[4]) / count
                print(f"| {size} bytes | {gap} ns | {each[0]:.2f} | {each[1]:.3f} | {each[0] / each[1]:.1f} × | {bytes_each:.0f} |")


main()
