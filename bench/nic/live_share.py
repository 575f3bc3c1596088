#!/usr/bin/env python3
"""Floem's microbenchmark of inferred transfer (table 4 of the paper), in the modelled link: packets go from the NIC's
process to the CPU's, which reads a part of each. Prints transactions and bytes per packet, for what is read and for
whole packets. Nothing here is a time of a clock.

    python3 bench/nic/live_share.py [PACKETS]
"""
import sys, tempfile

from modelled import HERE, OP_NS, capture, link_ns, run

# Live and all bytes of the paper's table, and its speedup.
TABLE = ((64, 320, 3.1), (64, 256, 2.5), (64, 192, 2.0), (64, 128, 1.5), (128, 192, 1.3), (192, 256, 1.2), (256, 320, 1.2), (0, 1500, None), (64, 1500, None))


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print("| live | packet | transactions | bytes, whole | bytes, live | fewer bytes | Floem's speedup |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for live, size, paper in TABLE:
            capture(f"{folder}/in.pcap", [bytes(size)] * count, 0)
            found = []
            for app in ("whole", f"live_{live}"):
                frames, transactions, _, payload, overhead = run(f"{HERE}/live_share.loom:{app}", [f"wire=pcap:{folder}/in.pcap"])["up"]
                assert frames == count
                found.append((transactions / count, (payload + overhead) / count))
            (t, whole), (t_live, part) = found
            assert t == t_live and link_ns(t, part) > t * OP_NS, "bytes take the link's time, not transactions"
            said = f"{paper} ×" if paper else "–"
            print(f"| {live} | {size} | {t:.3f} | {whole:.0f} | {part:.0f} | {whole / part:.2f} × | {said} |")


main()
