"""Packets to groups, some to several, over both versions of IP; others in between."""
from common import *

LAYOUT = "!HHIIIIQQQQ"


def make(folder):
    frames, want, counters = [], [], {}
    for n in range(3000):
        six = n % 3 == 0
        s, d = ("2001:db8::1", "2001:db8::2") if six else ("10.0.0.1", "10.0.0.2")
        groups = [random.choice([0, 1, 2, 3, 70000, random.randrange(1, 1 << 32 if n % 9 == 0 else 50)]) for _ in range(4)]
        tail = b"command" * (n % 20)
        port = 5151 if n % 4 else 5152
        magic = 0x5351 if n % 7 else 0x5352
        before = struct.pack(LAYOUT, magic, 0, *groups, 0, 0, 0, 0) + tail

        def frame(data):
            u = udp(s, d, 4000, port, data, checksum=six or n % 5 != 0)
            return ether(0x86DD) + ip6(s, d, 17, u) if six else ether(0x0800) + ip4(s, d, 17, u, ident=n)
        after = before
        if port == 5151 and magic == 0x5351:
            places = []
            for g in groups:
                counters[g] = counters.get(g, 0) + 1
                places.append(counters[g] if g else 0)
            after = struct.pack(LAYOUT, magic, 9, *groups, *places) + tail
        frames.append((START + n * 1000, frame(before)))
        want.append((START + n * 1000, frame(after)))
    write(f"{folder}/in.pcap", frames)
    write(f"{folder}/want.pcap", want)


def check(folder):
    same_frames(f"{folder}/out.pcap", read(f"{folder}/want.pcap"))
    sound(f"{folder}/out.pcap")


main(make, check)
