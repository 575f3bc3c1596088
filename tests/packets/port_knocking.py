"""Clients that knock rightly, wrongly, too slowly, with repeats and in between each other; then one connection each."""
from common import *

KNOCKS = [5123, 6234, 7345, 8456]


def model(events):
    """events: (time, src, dst, sport, dport, is_tcp). Which are let through."""
    stage, opened, passed = {}, set(), []
    for i, (t, s, d, sp, dp, is_tcp) in enumerate(events):
        if not is_tcp:
            continue
        if (s, d, sp, dp) in opened:
            passed.append(i)
            continue
        at, since = stage.get((s, d), (0, t))
        if t - since > 30 * NS:
            at = 0
        if at < 4 and dp == KNOCKS[at]:
            stage[(s, d)] = (at + 1, t)
        elif at == 4 and dp == 22:
            del stage[(s, d)]
            opened.add((s, d, sp, dp))
            passed.append(i)
        else:
            stage.pop((s, d), None)
    return passed


def make(folder):
    server = "192.0.2.7"
    plans = []
    for c in range(400):
        src = f"10.9.{c >> 8}.{c & 255}" if c % 5 else text(0x20010DB8 << 96 | c)
        dst = server if c % 5 else "2001:db8::7:7"
        t = START + random.randrange(0, 20 * NS)
        kind = c % 8
        ports, gaps = KNOCKS + [22], [random.randrange(NS // 100, 2 * NS) for _ in range(5)]
        if kind == 1:  # a wrong port in between
            ports = KNOCKS[:2] + [9999] + KNOCKS[2:] + [22]
        elif kind == 2:  # too slow before one of them
            gaps[1 + random.randrange(4)] = 31 * NS
        elif kind == 3:  # just in time
            gaps[1 + random.randrange(4)] = 29 * NS
        elif kind == 4:  # the same knock twice
            ports = [KNOCKS[0]] + ports
        elif kind == 5:  # one is missing
            ports = KNOCKS[:3] + [22]
        elif kind == 6:  # wrong, then right
            ports = [KNOCKS[1], KNOCKS[0], 80] + ports
        gaps += [NS // 10] * 10
        sport = 30000 + c
        events = []
        for p, g in zip(ports, gaps):
            t += g
            events.append((t, src, dst, sport, p, True))
        for n in range(4):  # data on the connection, and of another one that never knocked
            t += 50_000_000 if n < 3 else 90 * NS  # an open door stays open
            events.append((t, src, dst, sport, 22, True))
            events.append((t + 10, src, dst, sport + 1, 22, True))
        if c % 6 == 0:  # UDP to the same ports is no knock and does not disturb
            events.append((events[1][0] + 5, src, dst, sport, 9, False))
        plans += events
    plans.sort()
    frames = []
    for t, s, d, sp, dp, is_tcp in plans:
        inner = tcp(s, d, sp, dp, flags=2) if is_tcp else udp(s, d, sp, dp, b"u")
        six = ":" in s
        packet = (ip6 if six else ip4)(s, d, 6 if is_tcp else 17, inner)
        frames.append((t, ether(0x86DD if six else 0x0800) + packet))
    write(f"{folder}/in.pcap", frames)
    passed = model(plans)
    need(400 < len(passed) < len(plans) // 2, "the test's own mix is off:", len(passed), len(plans))
    save(folder, "passed.json", passed)


def check(folder):
    frames = read(f"{folder}/in.pcap")
    same_frames(f"{folder}/accepted.pcap", [frames[i] for i in load(folder, "passed.json")])
    sound(f"{folder}/accepted.pcap")


main(make, check)
