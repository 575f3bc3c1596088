"""A LAN behind one public address. First its own frames: what leaves must be a fair translation, from which the mapping is read. Then,
by that mapping: answers, strangers, errors from routers outside and hosts inside, and hosts that reach each other by the public address."""
from common import *

PUBLIC = "198.51.100.1"
INSIDE = [f"192.168.1.{i}" for i in range(10, 60)]


def mac(host):
    return bytes([2, 0x55, 0, 0, 0, int(host.split(".")[3])])


ROUTER = bytes.fromhex("02aa00000001")


def transport(proto, s, d, sp, dp, data, flags=0x10, checksum=True):
    if proto == 6:
        return tcp(s, d, sp, dp, data, flags)
    if proto == 17:
        return udp(s, d, sp, dp, data, checksum)
    return icmp(8 if dp else 0, 0, struct.pack("!HH", sp or dp, 7), data)


def ip_frame(src_mac, dst_mac, s, d, proto, payload, **kw):
    return dst_mac + src_mac + b"\x08\0" + ip4(s, d, proto, payload, **kw)


def make(folder):
    frames, meta, t = [], [], START
    # (inside, port or echo id, protocol); the same port numbers on many hosts, so that they collide
    # outside
    ends = [(h, random.choice([5000, 5001, 40000 + i, 1024 + i]), p) for i, h in enumerate(INSIDE) for p in (6, 17, 1, 17)]
    ends = list(dict.fromkeys(ends))
    for n in range(2500):
        t += random.randrange(1, 300_000)
        e = random.choice(ends)
        d, dp = f"203.0.113.{random.randrange(1, 20)}", random.choice([53, 80, 443])
        kw = {"ident": n, "ttl": 64, "frag": 0x4000 if n % 2 else 0}
        checksum = n % 10 != 0
        payload = transport(e[2], e[0], d, e[1], dp, bytes([n & 255]) * (n % 90), checksum=checksum)
        f = ip_frame(mac(e[0]), ROUTER, e[0], d, e[2], payload, **kw)
        frames.append((t, f))
        meta.append([e[0], e[1], e[2], d, dp, n, checksum])
    arp = bytes(Ether(src=mac(INSIDE[0]), dst=b"\xff" * 6) / ARP(psrc=INSIDE[0], pdst="192.168.1.1"))
    frames.append((t + 10, arp))  # passes as it is
    meta.append(arp.hex())
    extra = [mac(INSIDE[0]) + ROUTER + b"\x86\xdd" + ip6("2001:db8::1", "2001:db8::2", 17, udp("2001:db8::1", "2001:db8::2", 1, 2, b""))]
    for f in extra:  # not to be seen outside
        t += 1000
        frames.append((t, f))
        meta.append(None)
    write(f"{folder}/in.pcap", frames)
    save(folder, "meta.json", meta)


def translated(m, port):
    """The frame of `meta` as it must leave."""
    host, own, proto, d, dp, n, checksum = m
    payload = transport(proto, PUBLIC, d, port, dp, bytes([n & 255]) * (n % 90), checksum=checksum)
    return ip_frame(mac(host), ROUTER, PUBLIC, d, proto, payload, ident=n, ttl=64, frag=0x4000 if n % 2 else 0)


def check_out(folder):
    got, meta, frames = read(f"{folder}/out.pcap"), load(folder, "meta.json"), read(f"{folder}/in.pcap")
    sound(f"{folder}/out.pcap")
    mapping, n = {}, 0
    for (t, _), m in zip(frames, meta):
        if m is None:
            continue
        need(n < len(got), "frames are missing: there are", len(got))
        gt, g = got[n]
        n += 1
        if isinstance(m, str):
            need(g.hex() == m and gt == t, "ARP is not as it was:", g.hex())
            continue
        port = struct.unpack("!H", g[38:40] if m[2] == 1 else g[34:36])[0]
        key = f"{m[0]}|{m[1]}|{m[2]}"
        need(mapping.setdefault(key, port) == port, key, "has the ports", mapping[key], "and", port)
        want = translated(m, port)
        need(g == want, f"frame {n - 1}:\n got ", g.hex(), "\n want", want.hex())
        need(gt == t, "a frame's time is not its own")
    need(n == len(got), len(got) - n, "frames too many went out")
    for p in (6, 17, 1):
        ports = [v for k, v in mapping.items() if k.endswith(f"|{p}")]
        need(len(set(ports)) == len(ports), "two of protocol", p, "share a port")
        need(min(ports) >= 1024 or p == 1, "a port below 1024 is given out")
    save(folder, "mapping.json", mapping)
    second(folder, mapping)


def second(folder, mapping):
    """What comes back from outside, and what goes round inside; with what must become of it."""
    lan, wan = read(f"{folder}/in.pcap"), []
    meta = load(folder, "meta.json")
    lan_out, wan_out = [], read(f"{folder}/out.pcap")
    t = lan[-1][0]
    sample = [m for m in meta if m and not isinstance(m, str)][::5]
    for n, m in enumerate(sample):
        host, own, proto, d, dp, seq, _ = m
        port = mapping[f"{host}|{own}|{proto}"]
        t += random.randrange(1, 100_000)
        data = b"r" * (n % 50)
        kind = n % 8
        kw = {"ident": n, "ttl": 50}

        def both(make_it):
            wan.append((t, make_it(PUBLIC, port, ROUTER, b"\x02\x66\0\0\0\1")))
            lan_out.append((t, make_it(host, own, ROUTER, mac(host))))
        if kind == 0 and proto != 1:  # a router's error about what went out: 8 bytes of the transport header, or all of it
            whole = 8 if n % 16 else 200

            def error(addr, p, src, dst):
                inner = ip4(addr, d, proto, transport(proto, addr, d, p, dp, b"q" * 30, checksum=n % 3 != 0), ident=seq)
                return ip_frame(src, dst, "203.0.113.254", addr, 1, icmp(11, 0, b"\0" * 4, inner[:20 + whole]), **kw)
            both(error)
        elif kind == 1 and proto == 1:

            def error_echo(addr, p, src, dst):
                inner = ip4(addr, d, 1, icmp(8, 0, struct.pack("!HH", p, 7), b"w" * 20), ident=seq)
                return ip_frame(src, dst, "203.0.113.254", addr, 1, icmp(3, 1, b"\0" * 4, inner[:28 if n % 2 else 48]), **kw)
            both(error_echo)
        elif kind == 2:  # nobody's port
            wan.append((t, ip_frame(ROUTER, b"\x02\x66\0\0\0\1", d, PUBLIC, 17, udp(d, PUBLIC, 53, 700, b"x"))))
        elif kind == 3:  # not for the public address
            wan.append((t, ip_frame(ROUTER, b"\x02\x66\0\0\0\1", d, "198.51.100.2", 17, udp(d, "198.51.100.2", 53, port, b"x"))))
        elif kind == 4 and proto == 17 and n % 3:  # a host inside says that its port is closed
            inner_in = ip4(d, host, 17, udp(d, host, dp, own, b"closed"), ident=seq)
            inner_out = ip4(d, PUBLIC, 17, udp(d, PUBLIC, dp, port, b"closed"), ident=seq)
            lan.append((t, ip_frame(mac(host), ROUTER, host, d, 1, icmp(3, 3, b"\0" * 4, inner_in), **kw)))
            wan_out.append((t, ip_frame(mac(host), ROUTER, PUBLIC, d, 1, icmp(3, 3, b"\0" * 4, inner_out), **kw)))
        elif kind == 5 and proto != 1:  # hairpin: from another host inside to the public address
            other = next(m for m in reversed(sample) if m[2] == proto and m[0] != host)
            other_port = mapping[f"{other[0]}|{other[1]}|{proto}"]
            lan.append((t, ip_frame(mac(other[0]), ROUTER, other[0], PUBLIC, proto, transport(proto, other[0], PUBLIC, other[1], port, data), **kw)))
            lan_out.append((t, ip_frame(mac(other[0]), mac(host), PUBLIC, host, proto, transport(proto, PUBLIC, host, other_port, own, data), **kw)))
        else:
            both(lambda addr, p, src, dst: ip_frame(src, dst, d, addr, proto, transport(proto, d, addr, dp if proto != 1 else 0, p, data), **kw) if proto != 1
                 else ip_frame(src, dst, d, addr, 1, icmp(0, 0, struct.pack("!HH", p, 7), data), **kw))
    in_fragments(sample, mapping, t, lan, wan, lan_out, wan_out)
    asks(t + 1_000_000_000, wan, wan_out, lan_out)
    write(f"{folder}/lan2.pcap", lan)
    write(f"{folder}/wan2.pcap", wan)
    write(f"{folder}/lan_want.pcap", lan_out)
    write(f"{folder}/wan_want.pcap", sorted(wan_out))
    for f in ("lan_want", "wan_want"):
        sound(f"{folder}/{f}.pcap")  # the model's own frames are right


def fragments(src, dst, s, d, proto, payload, ident, size):
    """A packet in fragments with `size` bytes each."""
    for at in range(0, len(payload), size):
        more = at + size < len(payload)
        yield ip_frame(src, dst, s, d, proto, payload[at:at + size], ident=ident, ttl=50, frag=(0x2000 if more else 0) | at // 8)


def in_fragments(sample, mapping, t, lan, wan, lan_out, wan_out):
    """Packets in fragments, in both directions; of some a later fragment comes first, and goes nowhere; one round the inside."""
    ids = 0
    for n, m in enumerate(sample[:60]):
        host, own, proto, d, dp = m[:5]
        port = mapping[f"{host}|{own}|{proto}"]
        data, size = bytes([n]) * (100 + 40 * n), 8 * (8 + n)
        checksum = n % 4 != 0
        there = [transport(proto, a, d, p, dp, data, checksum=checksum) for a, p in ((host, own), (PUBLIC, port))]
        back = [transport(proto, d, a, dp if proto != 1 else 0, p, data) for a, p in ((PUBLIC, port), (host, own))]
        ids += len(there[0]) > size
        ident = ids if len(there[0]) > size else 7
        out = zip(fragments(mac(host), ROUTER, host, d, proto, there[0], 7, size), fragments(mac(host), ROUTER, PUBLIC, d, proto, there[1], ident, size))
        for a, b in out:
            t += 10
            lan.append((t, a))
            wan_out.append((t, b))
        home = list(zip(fragments(ROUTER, b"\x02\x66\0\0\0\1", d, PUBLIC, proto, back[0], 300 + n, size),
                        fragments(ROUTER, mac(host), d, host, proto, back[1], 300 + n, size)))
        if n % 5 == 0 and len(home) > 1:
            t += 10
            wan.append((t, home[1][0]))  # too early
            del home[1]
        for a, b in home:
            t += 10
            wan.append((t, a))
            lan_out.append((t, b))
    a, b = (next(m for m in sample if m[2] == 17 and cond(m)) for cond in (lambda m: True, lambda m: m[0] != sample[0][0]))
    to, of = (mapping[f"{m[0]}|{m[1]}|17"] for m in (a, b))
    round_trip = zip(fragments(mac(b[0]), ROUTER, b[0], PUBLIC, 17, udp(b[0], PUBLIC, b[1], to, b"h" * 999), 9, 400),
                     fragments(mac(b[0]), mac(a[0]), PUBLIC, a[0], 17, udp(PUBLIC, a[0], of, a[1], b"h" * 999), ids + 1, 400))
    for f, g in round_trip:
        t += 10
        lan.append((t, f))
        lan_out.append((t, g))


def asks(t, wan, wan_out, lan_out):
    """The router asks for the public address, which is the translator's, and for a host of the LAN, which is not."""
    station, who = bytes.fromhex("02574c000044"), dict(hwsrc=ROUTER, psrc="192.168.1.1")
    ask = bytes(Ether(src=ROUTER, dst=b"\xff" * 6, type=0x806) / ARP(op=1, pdst=PUBLIC, hwdst=b"\0" * 6, **who))
    answer = bytes(Ether(src=station, dst=ROUTER, type=0x806) / ARP(op=2, hwsrc=station, psrc=PUBLIC, hwdst=ROUTER, pdst="192.168.1.1"))
    other = bytes(Ether(src=ROUTER, dst=b"\xff" * 6, type=0x806) / ARP(op=1, pdst=INSIDE[0], hwdst=b"\0" * 6, **who))
    wan += [(t, ask), (t + 1, other)]
    wan_out.append((t, answer))
    lan_out.append((t + 1, other))


def check_both(folder):
    for side in ("wan", "lan"):
        same_frames(f"{folder}/{side}_out.pcap", read(f"{folder}/{side}_want.pcap"), side)
        sound(f"{folder}/{side}_out.pcap")


def dispatch(folder, what):
    {"out": check_out, "both": check_both}[what](folder)


main(make, dispatch)
