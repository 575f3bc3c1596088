"""Packets in GRE, with and without its checksum, which tests/programs/gre_sums.loom edits. What must come out is built by scapy."""
from common import *
from scapy.layers.l2 import GRE


def outer(ttl=64):
    return Ether(src=MAC_A, dst=MAC_B) / IP(src="198.51.100.1", dst="192.0.2.9", ttl=ttl, id=7)


def inner(what, data, ttl=9, src="10.0.0.1", dst=None):
    return IP(src=src, dst="10.0.0.2", ttl=ttl, id=3) / UDP(sport=1000, dport=what if dst is None else dst) / data


def edited(head, what, data):
    """The frame behind the edit."""
    gre, ip, udp = head.copy(), inner(what, data), {}
    if what == 1:
        ip = inner(what, data, ttl=8)
    if what == 2:
        ip = inner(what, data, dst=99)
    if what == 3:
        ip = inner(what, data, src="10.9.8.7")
    if what == 4:
        gre.proto = 0x1234
    if what == 5:
        ip = inner(what, data + b"!")
    if what == 6:
        gre.proto, ip = 0x0800, Dot1Q(vlan=5, type=0x0800) / ip
    if what == 7:
        ip = IP(src="10.0.0.1", dst="10.0.0.2", ttl=9, id=3, proto=17) / data
    return gre / ip


def make(folder):
    before, after = [], []
    for what in range(9):
        for n in range(12):
            data = bytes(random.randrange(256) for _ in range(n % 5 + 1))
            head = GRE(chksum_present=n % 4 != 3, key_present=n & 1, key=0x01020304 if n & 1 else None, seqnum_present=n >> 1 & 1, sequence_number=n if n & 2 else None)
            first = bytes(head / inner(what, data))
            if what == 8 and n % 4 != 3:
                first = first[:4] + b"\x12\x34" + first[6:]
            # Padding is no part of the packet.
            pad = b"\xee" * (n % 3)
            before.append(bytes(outer() / Raw(first)) + pad)
            after.append(bytes(outer() / Raw(bytes(edited(head, what, data)))) + pad)
    before = [proto47(f) for f in before]
    after = [proto47(f) for f in after]
    for n in range(1, 9):
        ip, plain = IP(src="10.0.0.1", dst="10.0.0.2", proto=99) / (b"x" * n), inner(53, b"x" * n)
        tunnel = IP(src="192.0.2.1", dst="192.0.2.2", ttl=64, id=0, proto=47)
        eth = Ether(src=MAC_A, dst=MAC_B)
        before += [bytes(eth / ip), bytes(eth / plain)]
        after += [
            bytes(eth / tunnel / GRE(chksum_present=1, key_present=1, key=7) / ip),
            bytes(eth / tunnel / GRE(key_present=1, key=7) / inner(53, b"x" * n, dst=55)),
        ]
    write(f"{folder}/in.pcap", [(START + i, f) for i, f in enumerate(before)])
    save(folder, "want.json", [f.hex() for f in after])


def proto47(frame):
    """The outer header says GRE: scapy does not know what is raw."""
    head = bytearray(frame[14:34])
    head[9], head[10:12] = 47, b"\0\0"
    head[10:12] = struct.pack("!H", ones(bytes(head)))
    return frame[:14] + bytes(head) + frame[34:]


def check(folder):
    got, want = [f.hex() for _, f in read(f"{folder}/out.pcap")], load(folder, "want.json")
    need(len(got) == len(want), len(got), "frames, not", len(want))
    for i, (g, w) in enumerate(zip(got, want)):
        need(g == w, "frame", i, "is", g, "not", w)
    same_counts(folder, "counters.json", {"wrong": 9})


main(make, check)
