"""What the generator has made: rates, sizes, order, bursts, sums."""
from common import *


def make(folder):
    pass


def check(folder, rate, sizes, burst, flows, size):
    rate, burst, flows, size = int(rate), int(burst), int(flows), int(size)
    sound(f"{folder}/{sizes}.pcap")
    of, order, times = {}, [], []
    for t, f in read(f"{folder}/{sizes}.pcap"):
        flow, place, left, at = struct.unpack("!IIQQ", f[42:66])
        need(f[66:].strip(b"\0") == b"", "the rest is not zeros")
        need(len(f) <= size, "a frame has", len(f), "bytes")
        need(f[26:30] == struct.pack("!I", 10 << 24 | flow & 0xFFFFFF), "flow", flow, "comes from", text(f[26:30]))
        need(abs(at - t) < 2 * NS, "a frame of", t, "says that it is of", at)
        row = of.setdefault(flow, [])
        need(place == len(row), "flow", flow, "has packet", place, "behind", len(row))
        need(not row or left == row[-1] - (len(f) - 66), "flow", flow, "counts wrong")
        need(left == 0 or len(f) == size, "a short frame within flow", flow)
        row.append(left)
        of.setdefault(("bytes", flow), []).append(len(f) - 66)
        order.append(flow)
        times.append(at)
    made = [f for f in of if isinstance(f, int)]
    need(sorted(made) == list(range(1, flows + 1)), len(made), "flows, not", flows)
    need(all(of[f][-1] == 0 for f in made), "flows that did not end")
    total = [sum(of[("bytes", f)]) for f in made]
    if sizes == "fixed":
        need(set(total) == {10000}, "sizes", set(total))
    elif sizes == "uniform":
        need(all(1 <= x <= 20000 for x in total) and abs(sum(total) / flows - 10000) < 2000, "mean size", sum(total) / flows)
    else:
        need(set(total) == {1000, 91000} and 0.03 < total.count(91000) / flows < 0.2, "sizes", set(total), total.count(91000))
    need(all(b - a >= NS // rate for a, b in zip(times, times[1:])), "packets that are due together")
    # Most of them: a busy machine may stop the generator for a while.
    gap = sorted(b - a for a, b in zip(times, times[1:]))[len(times) // 2]
    need(0.8 < gap * rate / NS < 1.2, "a packet each", gap, "ns")
    runs, n = [], 1
    for a, b in zip(order, order[1:]):
        if a == b:
            n += 1
        else:
            runs.append(n)
            n = 1
    need(max(runs) == burst or sizes == "heavy", "bursts of", max(runs), "packets")


main(make, check)
