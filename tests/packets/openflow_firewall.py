"""Random rules of prefixes, ranges and priorities, against the plain reading of them: the first that fits, from the highest priority. With
exact rules for some of the frames, these decide."""
from common import *


def prefix(six=False):
    if six:
        return ipaddress.ip_network((random.getrandbits(20) << 108 | 0x2001 << 112, random.choice([16, 32, 48, 64])), strict=False)
    n = random.choice([8, 8, 12, 16, 16, 20, 24, 24, 24, 32, 32])
    return ipaddress.ip_network((10 << 24 | random.getrandbits(24), n), strict=False)


def port(wide):
    kind = random.random()
    if kind < 0.45:
        return None
    if kind < 0.85 or not wide:
        return random.choice([22, 53, 80, 443, random.randrange(65536)])
    a, b = sorted([random.randrange(65536), random.randrange(65536)])
    return random.choice([[a, b], [0, 1023], [1024, 65535], [a, min(a + 7, 65535)]])


def rule(n, wide):
    r = {"priority": n, "action": random.choice(["accept", "drop"])}
    six = random.random() < 0.1
    if random.random() < 0.8:
        r["src"] = str(prefix(six))
    if random.random() < 0.8:
        r["dst"] = str(prefix(six))
    for name in ("sport", "dport"):
        p = port(wide and random.random() < 0.3)
        if p is not None:
            r[name] = p
    if random.random() < 0.6:
        r["proto"] = random.choice([6, 17, 17, 1])
    if r.get("proto") == 1:
        r.pop("sport", None), r.pop("dport", None)
    if "src" in r and r["src"].endswith("/32") and random.random() < 0.5:
        r["src"] = r["src"][:-3]  # an address alone is itself
    return r


def ready(r):
    """The rule as numbers: (priority, action, src, dst, sport, dport, proto), any: None."""
    def net(x):
        if x is None:
            return None
        n = ipaddress.ip_network(x)
        return (n.version, int(n.network_address), int(n.netmask))

    def span(x):
        return None if x is None else (x, x) if isinstance(x, int) else tuple(x)
    return (r["priority"], r["action"], net(r.get("src")), net(r.get("dst")), span(r.get("sport")), span(r.get("dport")), r.get("proto"))


def fits(r, p):
    """p: (version, src, dst, sport or None, dport or None, proto)."""
    for net, addr in ((r[2], p[1]), (r[3], p[2])):
        if net is not None and (net[0] != p[0] or addr & net[2] != net[1]):
            return False
    for span, x in ((r[4], p[3]), (r[5], p[4])):
        if span is not None and (x is None or not span[0] <= x <= span[1]):
            return False
    return r[6] is None or r[6] == p[5]


def packet(rules):
    """One that some rule may fit, or none."""
    r = random.choice(rules)

    def addr(x, six):
        if x and (x[0] == 6) == six:
            bits = 128 if six else 32
            return x[1] | (random.getrandbits(bits) & ~x[2] & (1 << bits) - 1)
        return (0x2001 << 112 | random.getrandbits(100)) if six else (10 << 24 | random.getrandbits(24))

    def pick(x):
        return random.choice([x[0], x[1], random.randint(*x)]) if x and random.random() < 0.9 else random.randrange(65536)
    six = 6 in [x[0] for x in (r[2], r[3]) if x] or random.random() < 0.05
    proto = r[6] or random.choice([6, 17, 17, 6, 1])
    if proto == 1 and six:
        proto = 17
    s, d = addr(r[2], six), addr(r[3], six)
    sp, dp = (None, None) if proto == 1 else (pick(r[4]), pick(r[5]))
    return (6 if six else 4, s, d, sp, dp, proto)


def addresses(p):
    return [str(ipaddress.IPv6Address(x) if p[0] == 6 else ipaddress.IPv4Address(x)) for x in p[1:3]]


def frame(p, n):
    s, d = addresses(p)
    if p[5] == 1:
        inner = icmp(8, 0, struct.pack("!HH", 1, n & 0xFFFF), b"echo")
    else:
        inner = tcp(s, d, p[3], p[4], b"t") if p[5] == 6 else udp(s, d, p[3], p[4], b"u")
    if p[0] == 6:
        return ether(0x86DD) + ip6(s, d, p[5], inner)
    return ether(0x0800) + ip4(s, d, p[5], inner, ident=n & 0xFFFF)


def make(folder, count):
    count = int(count)
    rules = [rule(n, wide=count <= 1000 or n % 20 == 0) for n in random.sample(range(1, 60000), count)]
    # Rules for all frames would hide the ones below them.
    rules = [r for r in rules if ("src" in r or "dst" in r) or r["priority"] < 600]
    for i, r in enumerate(rules):
        r["action"] = "accept" if i % 5 < 3 else "drop"
    plain = sorted((ready(r) for r in rules), reverse=True)
    frames, packets, want, exact, by_rule = [], [], [], {}, 0
    for n in range(4000 if count <= 100 else 1500 if count <= 1000 else 300):
        p = packet(plain)
        hit = next((r for r in plain if fits(r, p)), None)
        by_rule += hit is not None
        frames.append((START + n * 1000, frame(p, n)))
        accept = hit is not None and hit[1] == "accept"
        want.append(accept)
        if p[5] != 1 and n % 4 == 0:
            exact.setdefault(p, "drop" if accept else "accept")
        packets.append(p)
    frames.append((START + len(frames) * 1000, bytes(Ether() / ARP())))
    want_exact = [exact[p] == "accept" if p in exact else w for p, w in zip(packets, want)]
    for wanted in (want, want_exact):
        wanted.append(False)  # no IP: nothing that a rule could say accept to
    need(len(want) / 12 < sum(want) < len(want) * 19 / 20, "the mix is off", sum(want))
    write(f"{folder}/in.pcap", frames)
    save(folder, "rules.json", rules)
    save(folder, "exact.json", [{**dict(zip(("src", "dst"), addresses(p))), "sport": p[3], "dport": p[4], "proto": p[5], "action": a} for p, a in exact.items()])
    save(folder, "want_out.json", want)
    save(folder, "want_exact.json", want_exact)


def check(folder, out):
    frames = read(f"{folder}/in.pcap")
    same_frames(f"{folder}/{out}.pcap", [f for f, w in zip(frames, load(folder, f"want_{out}.json")) if w])


main(make, check)
