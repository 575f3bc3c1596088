"""Four ports with stations that talk, move, fall silent and are forgotten; broadcast, multicast and addresses that no switch forwards."""
from common import *

PORTS, AGE = 4, 300 * NS


def model(events):
    """events: (time, port, dst, src). For each the ports it leaves through."""
    seen, out = {}, []
    for t, port, dst, src in events:
        if not src[0] & 1:
            seen[src] = (port, t)
        if dst[:5] == bytes.fromhex("0180c20000") and dst[5] < 16:
            out.append([])
            continue
        at = seen.get(dst)
        if dst[0] & 1 or at is None or t - at[1] > AGE:
            out.append([p for p in range(PORTS) if p != port])
        else:
            out.append([at[0]] if at[0] != port else [])
    return out


def make(folder):
    stations = [(bytes([2, 0, 0, 0, n, random.randrange(256)]), random.randrange(PORTS)) for n in range(40)]
    groups = [b"\xff" * 6, bytes.fromhex("01005e000001"), bytes.fromhex("333300000001"), bytes.fromhex("0180c2000000"), bytes.fromhex("0180c200000e")]
    events, t = [], START
    for n in range(4000):
        # Within a phase frames come close; between phases stations that were not heard of are
        # forgotten, just before or behind the age.
        t += random.randrange(1, 2_000_000)
        if n and n % 500 == 0:
            t += random.choice([150, 298, 302, 700]) * NS
        i = random.randrange(len(stations)) if n % 500 > 250 else random.randrange(8)
        src, port = stations[i]
        if n % 97 == 0:  # moves
            port = (port + 1) % PORTS
            stations[i] = (src, port)
        kind = random.random()
        dst = random.choice(groups) if kind < 0.1 else bytes([2, 9, 9, 9, 9, 9]) if kind < 0.13 else random.choice(stations)[0]
        if n % 131 == 0:
            src = b"\x03\0\0\0\0\1"  # a group address as source is never learnt
        events.append((t, port, dst, src))
    # A station that is only sent to is forgotten: being looked up is no sign of life.
    quiet, talker = b"\x02\x77\0\0\0\1", b"\x02\x77\0\0\0\2"
    events.append((t + NS, 2, talker, quiet))
    events += [(t + NS + s * 20 * NS, 0, quiet, talker) for s in range(1, 20)]
    frames = [(t, port, dst + src + struct.pack("!H", 0x0800 if n % 9 else 0x0806) + struct.pack("!I", n) + bytes(n % 300 + 42)) for n, (t, port, dst, src) in enumerate(events)]
    for p in range(PORTS):
        write(f"{folder}/p{p}.pcap", [(t, f) for t, port, f in frames if port == p])
    want = model(events)
    need(any(len(w) == 0 for w in want) and any(len(w) == 1 for w in want), "the mix is off")
    save(folder, "want.json", [[t, f.hex(), w] for (t, _, f), w in zip(frames, want)])


def check(folder):
    want = [(t, bytes.fromhex(f), w) for t, f, w in load(folder, "want.json")]
    for p in range(PORTS):
        same_frames(f"{folder}/o{p}.pcap", [(t, f) for t, f, w in want if p in w], f"port {p}")


main(make, check)
