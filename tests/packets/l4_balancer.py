"""Flows to a virtual address from many clients: encapsulation, spread, affinity, ends of flows."""
from common import *

VIP, DIPS = "192.0.2.1", [f"10.0.0.{i}" for i in range(1, 9)]


def make(folder):
    flows = []
    for i in range(4000):
        flows.append((f"198.51.{100 + i % 50}.{i % 254 + 1}", 1024 + i * 13 % 60000, 443 if i % 3 else 80, 6 if i % 4 else 17))
    flows = list(dict.fromkeys(flows))
    frames, keys, ends = [], [], {}
    t, order = START, []
    for i, f in enumerate(flows):
        script = [(0x02, b""), (0x10, b""), (0x18, b"GET / HTTP/1.1\r\n\r\n" * (i % 9)), (0x10, b"")]
        script.append([(0x11, b""), (0x04, b""), (0x10, b"more")][i % 3])
        for k, (flags, data) in enumerate(script):
            order.append((i // 20 + k * 3 + random.random(), i, flags, data))
        if f[3] == 6:
            ends[i] = ["fin", "rst", "open"][i % 3]
    order.sort()
    for n, (_, i, flags, data) in enumerate(order):
        t += random.randrange(1, 100_000)
        src, sport, dport, proto = flows[i]
        kw = {"ident": n & 0xFFFF, "frag": 0x4000, "tos": n % 3 * 4}
        if n % 50 == 0:
            kw["options"] = b"\x94\x04\0\0"
        f = frame4(src, VIP, proto, sport, dport, data, flags, **kw)
        if len(f) < 60 and n % 5 == 0:
            f += b"\xAA" * (60 - len(f))  # padding is no part of the packet
        frames.append((t, f))
        keys.append(i)
        if n % 40 == 0:  # not for the virtual address
            frames.append((t + 1, frame4(src, "192.0.2.99", proto, sport, dport, b"x")))
            keys.append(None)
    write(f"{folder}/in.pcap", frames)
    live = [i for i, f in enumerate(flows) if ends.get(i, "open") == "open"]
    save(folder, "want.json", {"keys": keys, "flows": flows, "live": live})


def unpack(data, encap, packet, whole):
    """The DIP, if this is a right encapsulation of `packet` (in the frame `whole`)."""
    need(data[12:14] == b"\x08\0" and data[14] == 0x45, "no IPv4 header of 20 bytes outside:", data[:40].hex())
    outer, total = data[14:34], struct.unpack("!H", data[16:18])[0]
    inner, padding = data[34:14 + total], data[14 + total:]
    need(14 + total <= len(data), "the outer length lies")
    need(padding == b"" or padding == whole[14 + len(packet):], "padding of its own follows:", padding.hex())
    need(outer[9] == (4 if encap == "ipip" else 47), "outer protocol", outer[9])
    need(outer[8] >= 32, "outer time to live", outer[8])
    if encap == "gre":
        need(inner[:4] == b"\0\0\x08\0", "GRE header", inner[:4].hex())
        inner = inner[4:]
    elif encap == "nvgre":
        need(inner[:4] == b"\x20\0\x65\x58", "NVGRE header", inner[:4].hex())
        need(int.from_bytes(inner[4:7], "big") == 4097, "virtual subnet", inner[4:7].hex())
        inner, packet = inner[8:], whole if len(inner) - 8 == len(whole) else whole[:14] + packet
    need(inner == packet, "what is inside is not what came:\n", inner.hex(), "\n", packet.hex())
    return text(outer[16:20])


def check(folder, encap, file, *dips):
    frames, want = read(f"{folder}/in.pcap"), load(folder, "want.json")
    got, n, of_flow = read(f"{folder}/{file}.pcap"), 0, {}
    for (t, f), key in zip(frames, want["keys"]):
        if key is None:
            continue
        need(n < len(got), "frames are missing: there are", len(got))
        packet = f[14:14 + struct.unpack("!H", f[16:18])[0]]
        need(got[n][0] == t, "a frame's time is not its own")
        dip = unpack(got[n][1], encap, packet, f)
        need(dip in dips, dip, "is no DIP")
        need(of_flow.setdefault(key, dip) == dip, "flow", key, "moves from", of_flow[key], "to", dip)
        n += 1
    need(n == len(got), "there are", len(got) - n, "frames too many")
    sound(f"{folder}/{file}.pcap")
    share = len(of_flow) / len(dips)
    for d in dips:
        have = sum(1 for x in of_flow.values() if x == d)
        need(abs(have - share) < 5 * share ** 0.5 + share / 20, d, "has", have, "flows; its share is", share)
    save(folder, f"{file}.json", of_flow)


def check_less(folder, before, after, gone):
    """One DIP less moves its flows, and hardly any other."""
    a, b = load(folder, f"{before}.json"), load(folder, f"{after}.json")
    others = [k for k in a if a[k] != gone]
    moved = [k for k in others if a[k] != b[k]]
    need(len(moved) < len(others) / 20, len(moved), "of", len(others), "flows moved though their DIP is still there")


def check_live(folder):
    """The connection table has the flows that did not end, and no others."""
    want = load(folder, "want.json")
    flows = {tuple(want["flows"][i]) for i in want["live"]}
    rows = {(canonical(r["src"]), r["sport"], r["dport"], r["proto"]) for r in load(folder, "connections.json")}
    need(rows == flows, "connections:", len(rows), "wanted:", len(flows), "e.g.", sorted(rows ^ flows)[:4])


def dispatch(folder, what, *args):
    {"frames": check, "less": check_less, "live": check_live}[what](folder, *args)


main(make, dispatch)
