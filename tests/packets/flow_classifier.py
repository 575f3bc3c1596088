"""A few heavy flows among thousands of light ones."""
from common import *


def make(folder):
    truth, frames = {}, []
    flows = [(f"10.2.{i >> 8}.{i & 255}", f"172.16.0.{i % 250}", 1024 + i, 443, 6 if i % 2 else 17) for i in range(8000)]
    t = START
    for n in range(30000):
        t += random.randrange(1, 5000)
        e = flows[random.randrange(20)] if 10 <= n < 29990 and random.random() < 0.5 else flows[random.randrange(len(flows))]
        if n < 10 or n >= 29997:
            e = flows[-1]  # heavy at the beginning: at the end it has less than a thousandth, but its bytes count on
        f = frame4(e[0], e[1], e[4], e[2], e[3], b"x" * (1200 if e in flows[:20] or e == flows[-1] else random.randrange(20, 300)))
        key = "|".join(str(x) for x in e)
        truth[key] = truth.get(key, 0) + len(f)
        frames.append((t, f))
    write(f"{folder}/in.pcap", frames)
    save(folder, "truth.json", truth)


def check(folder):
    truth, got = load(folder, "truth.json"), {}
    for r in load(folder, "heavy.json"):
        need(set(r) == {"src", "dst", "sport", "dport", "proto", "bytes"}, "a row's fields are", sorted(r))
        got["|".join(str(x) for x in (canonical(r["src"]), canonical(r["dst"]), r["sport"], r["dport"], r["proto"]))] = r["bytes"]
    total = sum(truth.values())
    for k, v in got.items():
        need(k in truth, "no such flow:", k)
        need(v >= truth[k], k, "is said to have", v, "bytes, fewer than its", truth[k])
        need(v <= truth[k] + total / 1000, k, "is said to have", v, "bytes, far more than its", truth[k])
    heavy = {k for k, v in truth.items() if v > total / 100}
    need(len(heavy) == 20, "the mix is off:", len(heavy))
    need(heavy <= set(got), "heavy flows are missing:", sorted(heavy - set(got))[:5])
    need(len(got) <= 40, len(got), "flows are said to be heavy")


main(make, check)
