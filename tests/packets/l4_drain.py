"""Flows that began before a DIP is drained keep it; flows that begin afterwards do not get it. Paced: the draining happens meanwhile."""
from common import *


def make(folder):
    frames = []
    for begin, flows in ((0, range(200)), (8 * NS, range(400))):
        for i in flows:
            flags = 0x02 if begin == 0 or i >= 200 else 0x10
            frames.append((START + begin + i * 1_000_000, frame4(f"198.51.100.{i % 250 + 1}", "192.0.2.1", 6, 2000 + i, 80, b"x" if flags == 0x10 else b"", flags)))
    write(f"{folder}/in.pcap", frames)


def check(folder, drained):
    of = {}
    for t, f in read(f"{folder}/out.pcap"):
        sport, dip = struct.unpack("!H", f[54:56])[0], text(f[30:34])
        late = t >= START + 5 * NS
        need(of.setdefault(sport, dip) == dip, "flow", sport, "moves")
        need(not (late and sport >= 2200 and dip == drained), "a new flow goes to the drained", dip)
    need(len(of) == 400, len(of), "flows")
    need(sum(1 for s, d in of.items() if s < 2200 and d == drained) > 20, "no old flow is on", drained)


main(make, check)
