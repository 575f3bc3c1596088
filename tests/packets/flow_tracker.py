"""Many flows over IPv4 and IPv6, with VLAN tags, options, extension headers and fragments; frames without ports, cut off or lying."""
from common import *


def address(i):
    return f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}"


def shapes(src, dst, sport, dport, proto, data, n):
    """One flow's frame in one of several wrappings."""
    six = ":" in src
    inner = tcp(src, dst, sport, dport, data) if proto == 6 else udp(src, dst, sport, dport, data)
    if six:
        hop = struct.pack("!BB", proto, 0) + b"\x01\x04\0\0\0\0"  # PadN
        packet = [lambda: ip6(src, dst, proto, inner), lambda: ip6(src, dst, 0, hop + inner), lambda: ip6(src, dst, 60, hop + inner)][n % 3]()
        kind = 0x86DD
    else:
        packet = ip4(src, dst, proto, inner, options=b"\x94\x04\0\0" if n % 3 == 1 else b"", frag=0x4000 if n % 2 else 0)
        kind = 0x0800
    tag = n // 3 % 3
    if tag == 1:
        return ether(0x8100) + struct.pack("!HH", 100 + n % 7, kind) + packet
    if tag == 2:
        return ether(0x88A8) + struct.pack("!HHHH", 7, 0x8100, 100 + n % 7, kind) + packet
    return ether(kind) + packet


def strangers(i):
    """Frames without ports: of no flow (None), or of one with ports 0 (its protocol)."""
    s, d = address(i), address(i + 1)
    whole = ip4(s, d, 17, udp(s, d, 1, 2, b"x" * 20))
    six = ("2001:db8::1", "2001:db8::2")
    later = struct.pack("!BBHI", 17, 0, 2 << 3, 77) + b"z" * 16
    return [
        (None, bytes(Ether(src="02:00:00:00:00:01", dst="ff:ff:ff:ff:ff:ff") / ARP(psrc=s, pdst=d))),
        ((s, d, 0, 0, 1), ether(0x0800) + ip4(s, d, 1, icmp(8, 0, b"\0\1\0\1", b"ping"))),
        ((s, d, 0, 0, 17), ether(0x0800) + ip4(s, d, 17, udp(s, d, 5, 6, b"y" * 40)[24:], ident=9, frag=3)),
        ((*six, 0, 0, 17), ether(0x86DD) + ip6(*six, 44, later)),
        ((*six, 0, 0, 58), ether(0x86DD) + ip6(*six, 58, b"\x80\0" + struct.pack("!H", ones(pseudo(*six, 58, 8) + b"\x80\0\0\0\0\1\0\1")) + b"\0\1\0\1")),
        (None, ether(0x0800) + whole[:30]),  # cut inside of the ports
        (None, ether(0x0800) + whole[:15]),
        (None, ether(0x0800) + b"\x44" + whole[1:]),  # a header of 16 bytes
        (None, ether(0x0800) + b"\x65" + whole[1:]),  # version 6
        ((s, d, 0, 0, 6), ether(0x0800) + ip4(s, d, 6, tcp(s, d, 3, 4)[:12])),  # half a TCP header
        (None, ether(0x88B5) + b"local experiment"),
        (None, b"\x02\0\0\0\0\x01"),
    ]


def count(flows, e, frame):
    row = flows.setdefault("|".join(str(x) for x in (canonical(e[0]), canonical(e[1]), *e[2:])), [0, 0])
    row[0] += 1
    row[1] += len(frame)


def make(folder):
    flows, frames = {}, []
    ends = []
    for i in range(1500):
        proto = random.choice([6, 17])
        if i % 4 == 3:
            s, d = text(0x20010DB8 << 96 | i * 7), text(0x20010DB8 << 96 | 1 << 64 | i % 9)
        else:
            s, d = address(i * 5), f"192.168.{i % 3}.{i % 200}"
        ends.append((s, d, random.randrange(1, 65536), random.choice([53, 80, 443, random.randrange(1, 65536)]), proto))
    t = START
    for n in range(9000):
        t += random.randrange(1, 200_000)
        if n % 20 == 0:
            group = strangers(n)
            e, frame = group[n // 20 % len(group)]
            frames.append((t, frame))
            if e:
                count(flows, e, frame)
            continue
        e = ends[n % len(ends)] if n < 2000 else ends[int(random.paretovariate(0.7)) % len(ends)]
        if n % 11 == 0:  # the way back is a flow of its own
            e = (e[1], e[0], e[3], e[2], e[4])
        data = b"d" * random.randrange(0, 900)
        if n % 13 == 0 and ":" not in e[0]:  # a first fragment has the ports
            whole = udp(e[0], e[1], e[2], e[3], b"f" * 64) if e[4] == 17 else tcp(e[0], e[1], e[2], e[3], b"f" * 64)
            frame = ether(0x0800) + ip4(e[0], e[1], e[4], whole[:40], ident=n, frag=0x2000)
        else:
            frame = shapes(*e, data, n)
        if len(frame) < 60 and n % 2:
            frame += bytes(60 - len(frame))  # padding counts as what the wire carries
        count(flows, e, frame)
        frames.append((t, frame))
    # The longest possible packet, as captures of the loopback device have it. Its last bytes are
    # beyond the lengths that headers can name.
    e = ("10.0.0.1", "10.0.0.2", 9, 10, 17)
    frame = ether(0x0800) + ip4(*e[:2], 17, udp(*e[:4], b"l" * 65507))
    count(flows, e, frame)
    frames.append((t + 1, frame))
    write(f"{folder}/in.pcap", frames)
    save(folder, "want.json", flows)


def check(folder):
    want, got = load(folder, "want.json"), {}
    rows = load(folder, "flows.json")
    for r in rows:
        need(set(r) == {"src", "dst", "sport", "dport", "proto", "packets", "bytes"}, "a row's fields are", sorted(r))
        key = "|".join(str(x) for x in (canonical(r["src"]), canonical(r["dst"]), r["sport"], r["dport"], r["proto"]))
        need(key not in got, key, "is there twice")
        got[key] = [r["packets"], r["bytes"]]
        need("." in r["src"] or ":" in r["src"], "an address is written", r["src"])
        need(not r["src"].startswith("::ffff:"), "an IPv4 address is written", r["src"])
    for k in want:
        need(got.get(k) == want[k], k, "is", got.get(k), "not", want[k])
    need(len(got) == len(want), "rows that should not be:", [k for k in got if k not in want][:5])


main(make, check)
