"""What the packet tests share: captures written and read, frames put together byte by byte, checksums judged by tshark.

The scripts beside this one are each `SCRIPT make DIR` (write the input captures and what must come of them) and `SCRIPT check DIR [ARGS]`
(judge what the app wrote). What must come out is known from how the input was made or from a model in Python: never from our own code.
"""
import ipaddress
import json
import os
import random
import struct
import subprocess
import sys

# Not scapy.all, which takes twice as long: scripts are started a hundred times.
from scapy.layers.inet import ICMP, IP, TCP, UDP  # noqa: F401
from scapy.layers.inet6 import IPv6  # noqa: F401
from scapy.layers.l2 import ARP, Dot1Q, Ether  # noqa: F401
from scapy.packet import Raw  # noqa: F401
from scapy.utils import RawPcapReader, RawPcapWriter

NS = 1_000_000_000
START = 1_700_000_000 * NS  # the captures' first moment


class Fail(Exception):
    pass


def need(cond, *what):
    if not cond:
        raise Fail(" ".join(str(w) for w in what))


def write(path, frames):
    """frames: (ns since 1970, bytes), written with nanoseconds."""
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        for t, b in frames:
            f.write(struct.pack("<IIII", t // NS, t % NS, len(b), len(b)))
            f.write(b)


def read(path):
    """All frames of a capture as (ns, bytes)."""
    need(os.path.exists(path), path, "was not written")
    out = []
    reader = RawPcapReader(path)
    scale = 1 if getattr(reader, "nano", False) else 1000
    for data, meta in reader:
        if hasattr(meta, "sec"):
            t = meta.sec * NS + meta.usec * scale
        else:  # pcapng: resolution in the record
            ticks = (meta.tshigh << 32) | meta.tslow
            t = ticks * NS // meta.tsresol
        need(len(data) == meta.wirelen, path, "has a frame that is cut short")
        out.append((t, bytes(data)))
    reader.close()
    return out


def save(folder, name, value):
    with open(os.path.join(folder, name), "w") as f:
        json.dump(value, f)


def load(folder, name):
    with open(os.path.join(folder, name)) as f:
        return json.load(f)


def same_counts(folder, name, want):
    """The counters that a run has dumped."""
    got = load(folder, name)
    for c, n in want.items():
        need(got[c] == n, name, ":", c, "is", got[c], "not", n)


def tshark(path, *args):
    run = subprocess.run(["tshark", "-r", path, *args], capture_output=True, text=True)
    need(run.returncode == 0, "tshark:", run.stderr[-2000:])
    return [line for line in run.stdout.split("\n") if line]


# Only the protocols that the apps touch: the payloads are noise that would look like broken
# messages of other protocols.
ONLY = ["-d", "udp.port==0-65535,data", "-d", "tcp.port==0-65535,data"]
CHECKED = [f"-o{p}.check_checksum:TRUE" for p in ("ip", "tcp", "udp")]
BAD = ["ip.checksum.status==0", "tcp.checksum.status==0", "udp.checksum.status==0", "icmp.checksum.status==0",
       "icmpv6.checksum.status==0", "_ws.malformed", "_ws.expert.severity==0x00800000"]


def sound(path):
    """tshark finds no wrong checksum, no length that lies and nothing malformed in any frame."""
    lines = tshark(path, *CHECKED, *ONLY, "-Y", " or ".join(BAD), "-V")
    need(not lines, path, ": tshark objects:\n", "\n".join(lines[:120]))


def same_frames(path, want, what=""):
    """The capture holds exactly these frames: times, bytes, order."""
    got = read(path)
    for i, (g, w) in enumerate(zip(got, want)):
        need(g[1] == w[1], what or path, f"frame {i} differs:\n got  {g[1].hex()}\n want {w[1].hex()}")
        need(g[0] == w[0], what or path, f"frame {i} is of {g[0]}, not {w[0]}")
    need(len(got) == len(want), what or path, f"has {len(got)} frames, not {len(want)}")


def text(addr):
    return str(ipaddress.ip_address(addr))


def canonical(addr):
    """One spelling for an address, be it IPv4, IPv6 or IPv4 in IPv6."""
    a = ipaddress.ip_address(addr)
    mapped = getattr(a, "ipv4_mapped", None)
    return str(mapped or a)


# ---- frames, by scapy once per shape, then patched: a capture of 10K frames must not take a minute


def ones(data, start=0):
    """The Internet checksum (RFC 1071) over some bytes."""
    if len(data) % 2:
        data += b"\0"
    s = start + sum(struct.unpack(f"!{len(data) // 2}H", data))
    while s >> 16:
        s = (s & 0xFFFF) + (s >> 16)
    return ~s & 0xFFFF


MAC_A, MAC_B = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")


def ether(kind, src=MAC_A, dst=MAC_B):
    return dst + src + struct.pack("!H", kind)


def ip4(src, dst, proto, payload, ident=0, frag=0, ttl=64, tos=0, options=b""):
    src, dst = ipaddress.IPv4Address(src).packed, ipaddress.IPv4Address(dst).packed
    words = 5 + len(options) // 4
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | words, tos, words * 4 + len(payload), ident, frag, ttl, proto, 0, src, dst) + options
    return head[:10] + struct.pack("!H", ones(head)) + head[12:] + payload


def ip6(src, dst, proto, payload, hops=64):
    src, dst = ipaddress.IPv6Address(src).packed, ipaddress.IPv6Address(dst).packed
    return struct.pack("!IHBB16s16s", 6 << 28, len(payload), proto, hops, src, dst) + payload


def pseudo(src, dst, proto, length):
    s, d = ipaddress.ip_address(src).packed, ipaddress.ip_address(dst).packed
    return s + d + struct.pack("!II", length, proto)


def udp(src, dst, sport, dport, data, checksum=True):
    head = struct.pack("!HHHH", sport, dport, 8 + len(data), 0)
    c = ones(pseudo(src, dst, 17, len(head) + len(data)) + head + data) or 0xFFFF
    return head[:6] + struct.pack("!H", c if checksum else 0) + data


def tcp(src, dst, sport, dport, data=b"", flags=0x10, seq=1000, ack=0, options=b""):
    words = 5 + len(options) // 4
    head = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, words << 4, flags, 8192, 0, 0) + options
    c = ones(pseudo(src, dst, 6, len(head) + len(data)) + head + data)
    return head[:16] + struct.pack("!H", c) + head[18:] + data


def icmp(kind, code, rest, data=b""):
    head = struct.pack("!BBH", kind, code, 0) + rest + data
    return head[:2] + struct.pack("!H", ones(head)) + head[4:]


def frame4(src, dst, proto, sport, dport, data=b"", flags=0x10, **kw):
    inner = tcp(src, dst, sport, dport, data, flags) if proto == 6 else udp(src, dst, sport, dport, data)
    return ether(0x0800) + ip4(src, dst, proto, inner, **kw)


def main(make, check):
    random.seed(20260101)
    try:
        if sys.argv[1] == "make":
            make(sys.argv[2], *sys.argv[3:])
        else:
            check(sys.argv[2], *sys.argv[3:])
    except Fail as e:
        print(e)
        sys.exit(1)
