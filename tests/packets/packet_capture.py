"""The same traffic to four loggers: whole, by connection, and as fields."""
from common import *


def make(folder):
    frames, seen, t = [], [], START
    flows = [(f"10.3.{i >> 6}.{i}", "10.4.0.1", 1000 + i, 80, 6 if i % 2 else 17) if i % 5 else (f"2001:db8::{i + 1:x}", "2001:db8::9", 1000 + i, 80, 6) for i in range(200)]
    for n in range(4000):
        t += random.randrange(1, 10_000)
        s, d, sp, dp, proto = random.choice(flows)
        if n % 2:
            s, d, sp, dp = d, s, dp, sp
        flags = random.choice([0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0xC2])
        data = b"p" * random.randrange(300)
        inner = tcp(s, d, sp, dp, data, flags) if proto == 6 else udp(s, d, sp, dp, data)
        frame = ether(0x86DD) + ip6(s, d, proto, inner) if ":" in s else ether(0x0800) + ip4(s, d, proto, inner, ident=n)
        frames.append((t, frame))
        seen.append([s, d, sp, dp, proto, flags if proto == 6 else 0])
    frames.append((t + 1, bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / ARP())))
    seen.append(None)
    write(f"{folder}/in.pcap", frames)
    save(folder, "seen.json", seen)


def spread(folder, name):
    """(logger, frame) of all that was written, by what the loggers have in order."""
    out = []
    for i in range(4):
        got = read(f"{folder}/{name}{i}.pcap")
        need(got == sorted(got, key=lambda f: f[0]), "logger", i, "has frames out of order")
        need(len(got) > 400, "logger", i, "has only", len(got))
        out += [(i, f) for f in got]
    return out


def check(folder):
    frames, seen = read(f"{folder}/in.pcap"), load(folder, "seen.json")
    of = dict(zip(frames, seen))
    for name, both in (("whole", False), ("both", True)):
        at, got = {}, spread(folder, name)
        need(sorted(f for _, f in got) == sorted(frames), name, ": frames are missing or too many")
        for logger, f in got:
            if of[f] is None:
                need(logger == 0, "ARP went to logger", logger)
                continue
            s, d, sp, dp, proto, _ = of[f]
            key = str((sorted([[s, sp], [d, dp]]), proto)) if both else str((s, d, sp, dp, proto))
            need(at.setdefault(key, logger) == logger, name, key, "is with two loggers")
    want = []
    for t, f in frames:
        if of[(t, f)] is None:
            continue
        s, d, sp, dp, proto, flags = of[(t, f)]
        wide = [ipaddress.IPv6Address(a if ":" in a else "::ffff:" + a).packed for a in (s, d)]
        want.append(f[:12] + b"\x88\xb5" + struct.pack("!QI16s16sHHBB", t, len(f), *wide, sp, dp, proto, flags))
    got = sorted((f[1][:64] for _, f in spread(folder, "fields")), key=lambda f: f[14:22])
    for i, (g, w) in enumerate(zip(got, want)):
        need(g == w, "record", i, "differs:\n got ", g.hex(), "\n want", w.hex())
    need(len(got) == len(want), len(got), "records, not", len(want))


main(make, check)
