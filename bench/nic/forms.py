#!/usr/bin/env python3
"""Floem's applications in several forms, in the modelled link: on the CPU, divided between CPU and NIC, on the NIC.
The forms of one application get the same capture, and must send the same frames. Prints what crosses the link, by frame
of the capture. Nothing here is a time of a clock.

    python3 bench/nic/forms.py [FRAMES]
"""
import os, random, struct, sys, tempfile

from modelled import HERE, capture, run

EXAMPLES = os.path.join(HERE, "../../examples")
KV = ("kv_on_cpu", "kv_split", "kv_cached")
USERS = ("users_on_cpu", "users_split", "users_bypass")
FUNCTIONS = {
    "aes": ("aes_on_cpu", "aes_split", "aes_on_nic"),
    "flows": ("flows_whole", "flows_on_cpu", "flows_split", "flows_on_nic"),
    "sequencer": ("sequencer_on_cpu", "sequencer_split", "sequencer_on_nic"),
}
GAP = 200


def checksum(head):
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def ip(proto, src, payload):
    head = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(payload), 0, 0, 64, proto, 0, 0x0A000000 + src, 0x0A010001)
    head = head[:10] + struct.pack(">H", checksum(head)) + head[12:]
    return b"\2\0\0\0\0\2\2\0\0\0\0\1\x08\0" + head + payload


def udp(src, sport, dport, payload):
    return ip(17, src, struct.pack(">HHHH", sport, dport, 8 + len(payload), 0) + payload)


def tcp(src, dport, payload):
    return ip(6, src, struct.pack(">HHIIBBHHH", 4000, dport, 0, 0, 0x50, 0x10, 1000, 0, 0) + payload)


def kv_traffic(count, rng):
    """Nine gets to a set, of Zipf's keys, among other traffic; before that, three quarters of the keys are set."""
    keys = list(range(200))
    weights = [1 / (k + 1) for k in keys]
    ask = lambda op, key, value: udp(key % 50, 4000 + key, 5252, struct.pack(">BBHQ", op, 0, 0, key) + value)
    value = lambda key: bytes([key % 251]) * 64
    frames = [ask(1, k, value(k)) for k in keys[: len(keys) * 3 // 4]]
    while len(frames) < count:
        key = rng.choices(keys, weights)[0]
        frames.append(ask(1, key, value(key + 1)) if rng.random() < 0.1 else ask(0, key, b""))
        if rng.random() < 0.3:
            frames.append(tcp(3, 80, bytes(200)))
    return frames


def traffic(count, rng):
    """A half in UDP, a fifth of a sequencer's groups."""
    def one():
        r, src = rng.random(), rng.randrange(60)
        if r < 0.2:
            return udp(src, 4000, 5151, struct.pack(">HHQ", 0x5351, rng.randrange(8), 0) + bytes(rng.randrange(400)))
        payload = bytes(rng.choice((20, 200, 1000)))
        return udp(src, 4000, 53, payload) if r < 0.5 else tcp(src, 80, payload)
    return [one() for _ in range(count)]


def tuples(count, rng):
    """Events of users by Zipf's law."""
    users = list(range(1000))
    weights = [1 / (u + 1) for u in users]
    event = lambda: udp(rng.randrange(20), 4000, 7777, struct.pack(">QQ", rng.choices(users, weights)[0], 1) + bytes(100))
    return [event() for _ in range(count)]


def rows(app, forms, folder, count):
    first, base = None, None
    for form in forms:
        binds = [f"wire=pcap:{folder}/in.pcap"] + ([] if app.endswith("flows") else [f"out=pcap:{folder}/out.pcap"])
        file = {"kv": "offload_kv", "users": "offload_users"}.get(app, "offload_functions")
        dump = f"{folder}/counters.json"
        queues = run(f"{EXAMPLES}/{file}.loom:{form}", binds, "--dump", f"counters={dump}")
        came = open(dump, "rb").read() if app.endswith("flows") else open(f"{folder}/out.pcap", "rb").read()
        first = first or came
        assert first == came, f"{form} sends other frames than {forms[0]}"
        transactions = sum(q[1] for q in queues.values()) / count
        size = sum(q[3] + q[4] for q in queues.values()) / count
        base = base or (transactions, size)
        ratio = lambda now, of: f"{of / now:.2f} ×" if now else "none cross"
        print(f"| {form} | {sum(q[0] for q in queues.values()) / count:.2f} | {transactions:.3f} | {size:.0f} | {ratio(transactions, base[0])} | {ratio(size, base[1])} |")


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    rng = random.Random(1)
    print("| form | crossings per frame | transactions | bytes | fewer transactions | fewer bytes |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        frames = kv_traffic(count, rng)
        capture(f"{folder}/in.pcap", frames, GAP)
        rows("kv", KV, folder, len(frames))
        frames = tuples(count, rng)
        capture(f"{folder}/in.pcap", frames, GAP)
        rows("users", USERS, folder, len(frames))
        frames = traffic(count, rng)
        capture(f"{folder}/in.pcap", frames, GAP)
        for name, forms in FUNCTIONS.items():
            rows(name, forms, folder, len(frames))


main()
