"""DNS among other traffic, for dns_tap and dpi_balancer: UDP from and to port 53, TCP 53, IPv6, tags, fragments, ARP."""
from common import *


def make(folder):
    frames, dns, pairs = [], [], []
    t = START
    hosts = [f"10.1.{i % 7}.{i}" for i in range(60)] + [f"2001:db8:1::{i:x}" for i in range(1, 30)]
    for n in range(3000):
        t += random.randrange(1, 900_000)
        s, d = random.sample([h for h in hosts if (":" in h) == (n % 3 == 0)], 2)
        six = ":" in s
        wrap = (lambda p, b: ether(0x86DD) + ip6(s, d, p, b)) if six else (lambda p, b: ether(0x0800) + ip4(s, d, p, b))
        kind = n % 10
        pair = sorted([s, d])
        is_dns = False
        if kind == 0:
            frame, is_dns = wrap(17, udp(s, d, random.randrange(1024, 65536), 53, b"\x12\x34\1\0\0\1\0\0\0\0\0\0\3www\7example\0\0\1\0\1")), True
        elif kind == 1:
            frame, is_dns = wrap(17, udp(s, d, 53, random.randrange(1024, 65536), b"answer" * random.randrange(1, 90))), True
        elif kind == 2:
            frame = wrap(6, tcp(s, d, 40000, 53, b"tcp dns is no udp"))
        elif kind == 3:
            frame = wrap(17, udp(s, d, 5353, 5353, b"multicast"))
        elif kind == 4 and not six:
            frame = ether(0x0800) + ip4(s, d, 17, b"\0\x35\0\x35not a header", ident=n, frag=100)  # a later fragment
        elif kind == 5:
            inner = ip6(s, d, 17, udp(s, d, 53, 53, b"t")) if six else ip4(s, d, 17, udp(s, d, 53, 53, b"t"))
            frame, is_dns = ether(0x8100) + struct.pack("!HH", 5, 0x86DD if six else 0x0800) + inner, True
        elif kind == 6 and n % 20 == 6:
            frame, pair = bytes(Ether() / ARP(psrc="10.1.1.1", pdst="10.1.1.2")), None
        else:
            frame = wrap(6, tcp(s, d, random.randrange(1024, 65536), 443, b"s" * random.randrange(0, 400)))
        frames.append((t, frame))
        dns.append(is_dns)
        pairs.append(pair)
    write(f"{folder}/in.pcap", frames)
    save(folder, "want.json", {"dns": dns, "pairs": pairs})


def check(folder, app):
    frames, want = read(f"{folder}/in.pcap"), load(folder, "want.json")
    if app == "dns_tap":
        same_frames(f"{folder}/out.pcap", [f for f, d in zip(frames, want["dns"]) if d])
        sound(f"{folder}/out.pcap")
        return
    number = {f: i for i, f in enumerate(frames)}  # times make them unique
    where, of_pair = {}, {}
    for w in range(3):
        last = -1
        for f in read(f"{folder}/w{w}.pcap"):
            need(f in number, "a frame that was not sent:", f[1].hex())
            i = number[f]
            need(i > last, "worker", w, "gets frames out of order or twice")
            last = i
            where.setdefault(i, []).append(w)
    for i, (dns, pair) in enumerate(zip(want["dns"], want["pairs"])):
        got = where.get(i, [])
        if pair is None:
            need(got == [], "frame", i, "is ARP and went to", got)
        elif dns:
            need(got == [0, 1, 2], "DNS frame", i, "went to", got)
        else:
            need(len(got) == 1, "frame", i, "went to", got)
            need(of_pair.setdefault(str(pair), got) == got, "both directions of", pair, "are not with one worker")
    load_of = [sum(1 for p in of_pair.values() if p == [w]) for w in range(3)]
    need(min(load_of) > len(of_pair) / 3 * 0.8, "pairs are not spread:", load_of)


main(make, check)
