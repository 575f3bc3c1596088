"""Captures of all kinds: what the app reads is what tshark reads. `make` writes them, and a list of their names with what is wrong with those that
are damaged; `check` compares what came out of each with what tshark says of what went in: times, lengths on the wire, bytes."""
from common import *
import gzip
import shutil
import subprocess

BASE = 1_700_000_000_000_000_000


def frames():
    return [bytes(Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=4000 + i % 5, dport=53) / (bytes([i]) * (i * 13 % 700))) for i in range(60)]


def classic(list_, order="<", nanos=True, snap=262144):
    magic = 0xA1B23C4D if nanos else 0xA1B2C3D4
    out = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap, 1)
    for t, f in list_:
        part = f[:snap]
        out += struct.pack(order + "IIII", t // 10**9, t % 10**9 // (1 if nanos else 1000), len(part), len(f)) + part
    return out


def block(order, kind, body):
    body += b"\0" * (-len(body) % 4)
    n = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + n + body + n


def section(list_, order, interfaces):
    """A section with interfaces of these resolutions (ticks per second, its code, seconds to add), which take turns."""
    out = block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
    for ticks, code, offset in interfaces:
        options = struct.pack(order + "HH", 9, 1) + bytes([code, 0, 0, 0]) if code is not None else b""
        options += struct.pack(order + "HHq", 14, 8, offset) if offset else b""
        out += block(order, 1, struct.pack(order + "HHI", 1, 0, 0) + options + (b"\0\0\0\0" if options else b""))
    for i, (t, f) in enumerate(list_):
        which = i % len(interfaces)
        ticks, _, offset = interfaces[which]
        count = (t - offset * 10**9) * ticks // 10**9
        out += block(order, 5, struct.pack(order + "IQ", which, 0)) if i % 7 == 3 else b""  # statistics: to be skipped
        out += block(order, 6, struct.pack(order + "IIIII", which, count >> 32, count & 0xFFFFFFFF, len(f), len(f)) + f)
    return out


def make(folder):
    list_ = [(BASE + i * 1_234_567, f) for i, f in enumerate(frames())]
    micro = (10**6, None, 0)
    good = {
        "nano.pcap": classic(list_), "micro.pcap": classic(list_, nanos=False), "swapped.pcap": classic(list_, ">"),
        "swapped_micro.pcap": classic(list_, ">", False), "snap.pcap": classic(list_, snap=40),
        "one.pcapng": section(list_, "<", [micro]),
        "several.pcapng": section(list_, "<", [micro, (10**9, 9, 0), (1 << 20, 0x94, 0), (10**3, 3, 0), (10**9, 9, 1_000_000)]),
        "big.pcapng": section(list_, ">", [(10**9, 9, 0), micro]),
        "sections.pcapng": section(list_[:20], "<", [micro, (10**9, 9, 0)]) + section(list_[20:40], ">", [(10**9, 9, 0)]) + section(list_[40:], "<", [micro]),
        "empty.pcap": classic([]), "empty.pcapng": section([], "<", [micro]),
    }
    good["packed.pcap.gz"] = gzip.compress(good["nano.pcap"])
    good["twice.pcap.gz"] = gzip.compress(good["nano.pcap"][:3000]) + gzip.compress(good["nano.pcap"][3000:])
    good["packed.pcapng.gz"] = gzip.compress(good["several.pcapng"])
    for name, data in good.items():
        open(f"{folder}/{name}", "wb").write(data)
    bad = {
        "nothing.pcap": (b"", "too few"), "short.pcap": (good["nano.pcap"][:20], "too few"), "garbage.pcap": (bytes(range(7, 256)) * 9, "not a capture"),
        "text.pcap": (b"no capture at all, but a text\n" * 3, "not a capture"), "link.pcap": (classic([])[:20] + struct.pack("<I", 147), "link type 147"),
        "cut.pcap": (good["nano.pcap"][:-5], "after 59 frames: cut off"), "cut.pcap.gz": (good["packed.pcap.gz"][:-300], "cannot be read|damaged"),
        "crc.pcap.gz": (good["packed.pcap.gz"][:-8] + b"\0" * 8, "cannot be read|damaged"),
        "large.pcap": (good["nano.pcap"] + struct.pack("<IIII", 1, 1, 1 << 30, 1 << 30), "after 60 frames: a frame of 1073741824"),
        "block.pcapng": (good["one.pcapng"] + struct.pack("<II", 6, 7) + b"\0" * 40, "after 60 frames: a block of 7"),
        "lengths.pcapng": (good["one.pcapng"][:-4] + struct.pack("<I", 8), "after 59 frames: a block whose two lengths differ"),
        "interface.pcapng": (section([], "<", [micro]) + block("<", 6, struct.pack("<IIIII", 3, 0, 0, 4, 4) + b"abcd"), "interface 3, which is not described"),
    }
    for name, (data, _) in bad.items():
        open(f"{folder}/{name}", "wb").write(data)
    if shutil.which("zstd"):
        subprocess.run(["zstd", "-q", f"{folder}/nano.pcap", "-o", f"{folder}/packed.pcap.zst"], check=True)
        good["packed.pcap.zst"] = b""
    save(folder, "good.json", sorted(good))
    save(folder, "bad.json", [[name, why] for name, (_, why) in sorted(bad.items())])


def seen(path):
    out = subprocess.run(["tshark", "-n", "-r", path, "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "frame.cap_len", "-e", "udp.srcport"],
                         capture_output=True, text=True)
    need(out.returncode == 0, path, out.stderr)
    return [[str(int(float(row.split("\t")[0]) // 1)), row.split("\t")[0].split(".")[1].ljust(9, "0")[:9]] + row.split("\t")[1:] for row in out.stdout.splitlines()]


def check(folder, *names):
    for name in names:
        want, got = seen(f"{folder}/{name}"), seen(f"{folder}/out-{name}.pcap")
        need(len(want) == len(got), name, ":", len(got), "frames of", len(want))
        need(len(want) in (0, 60), name, "has", len(want), "frames")
        for n, (w, g) in enumerate(zip(want, got)):
            need(w == g, f"{name}, frame {n}: tshark reads {w}, we {g}")


main(make, check)
