"""Extended sequence numbers (RFC 4303) and outer headers of IPv6, against scapy's own ESP: numbers that pass 2^32 in both directions, the upper half
found by a model of RFC 4303's appendix A2, written from its two cases, and packets whose upper half is another one than the receiver finds. Scapy has
the upper half in GCM's associated data, but not in the HMAC of ESP (2.2.1): that is computed here, by OpenSSL."""
import binascii

from cryptography.hazmat.primitives import hashes, hmac

from scapy.layers.inet6 import ICMPv6PacketTooBig
from scapy.layers.ipsec import ESP, IPSecIntegrityError, SecurityAssociation

from common import *

ENDS4, ENDS6 = ("192.0.2.1", "192.0.2.2"), ("2001:db8:ffff::1", "2001:db8:ffff::2")
HALF = 1 << 32
WINDOW = 64


class Sa:
    """`first`: the number that was used, or seen, last."""

    def __init__(self, spi, suite, esn, ends, prefix, first):
        self.spi, self.suite, self.esn, self.ends, self.prefix, self.first = spi, suite, esn, ends, prefix, first
        self.cipher = bytes((spi + i * 11) % 256 for i in range(36))
        self.auth = bytes((spi * 5 + i) % 256 for i in range(20)) if suite != "aes_gcm" else b""

    def row(self):
        hexed = lambda b: "0x" + binascii.hexlify(b).decode()
        row = {"spi": self.spi, "suite": self.suite, "cipher": hexed(self.cipher), "auth": hexed(self.auth), "gateway": "00:00:00:00:00:00"}
        return {**row, "esn": True} if self.esn else row

    def scapy(self, source, peer):
        how = dict(crypt_algo="AES-GCM") if self.suite == "aes_gcm" else dict(crypt_algo="AES-CTR", auth_algo="HMAC-SHA1-96", auth_key=self.auth)
        outer = (IPv6 if ":" in source else IP)(src=source, dst=peer)
        return SecurityAssociation(ESP, spi=self.spi, crypt_key=self.cipher, tunnel_header=outer, **how)

    def icv(self, esp, number):
        """HMAC-SHA1-96 over ESP without its check value, and the upper half behind it."""
        mac = hmac.HMAC(self.auth, hashes.SHA1())
        mac.update(esp + (struct.pack("!I", number // HALF) if self.esn else b""))
        return mac.finalize()[:12]

    def sealed(self, inner, number):
        """As the peer sends it, an IP packet."""
        packet = (IPv6 if inner[0] >> 4 == 6 else IP)(inner)
        us, peer = self.ends
        sa = self.scapy(peer, us)
        sa.seq_num = number % HALF
        out = bytes(sa.encrypt(packet, esn_en=self.esn, esn=number // HALF if self.esn else 0))
        head = 40 if ":" in us else 20
        return out if self.suite == "aes_gcm" else out[:-12] + self.icv(out[head:-12], number)

    def opened(self, outer, esp, number):
        """What scapy finds in it."""
        if self.suite != "aes_gcm" and self.icv(esp[:-12], number) != esp[-12:]:
            raise IPSecIntegrityError("another HMAC")
        return bytes(self.scapy(*self.ends).decrypt(outer, verify=self.suite == "aes_gcm", esn_en=self.esn, esn=number // HALF if self.esn else 0))


OUT = [
    Sa(300, "aes_gcm", True, ENDS4, "10.2.0.0/16", HALF - 30),
    Sa(301, "aes_ctr_hmac_sha1", True, ENDS6, "10.3.0.0/16", HALF - 31),
    Sa(302, "aes_gcm", False, ENDS6, "10.4.0.0/16", 0),
    Sa(303, "aes_ctr_hmac_sha1", True, ENDS4, "2001:db8:2::/48", 5 * HALF - 1),
    Sa(304, "aes_gcm", True, ENDS6, "2001:db8:3::/48", HALF * HALF - 21),
    Sa(305, "aes_ctr_hmac_sha1", False, ENDS6, "10.5.0.0/16", HALF - 21),
]
IN = [
    Sa(400, "aes_gcm", True, ENDS4, None, HALF - 200),
    Sa(401, "aes_ctr_hmac_sha1", True, ENDS6, None, HALF - 200),
    Sa(402, "aes_gcm", True, ENDS6, None, 0),
    Sa(403, "aes_ctr_hmac_sha1", True, ENDS4, None, 7 * HALF + 20),
    Sa(404, "aes_ctr_hmac_sha1", False, ENDS6, None, 0),
    Sa(405, "aes_gcm", False, ENDS4, None, HALF - 100),
]


def forwarded(inner):
    """An IP packet with its TTL counted down."""
    if inner[0] >> 4 == 6:
        return inner[:7] + bytes([inner[7] - 1]) + inner[8:]
    head = inner[:8] + bytes([inner[8] - 1]) + inner[9:10] + b"\0\0" + inner[12:20]
    return head[:10] + struct.pack("!H", ones(head)) + head[12:] + inner[20:]


def noise(n):
    return bytes(random.randrange(256) for _ in range(n))


def clear(sa, n, size):
    if sa.prefix.startswith("2001"):
        s, d = "2001:db8:1::5", sa.prefix.replace(":/48", f":{n + 1:x}")
        inner = ip6(s, d, 17, udp(s, d, 1000, 2000, noise(size)))
        return struct.pack("!I", 6 << 28 | (n & 255) << 20 | n) + inner[4:]
    s, d = "10.1.0.5", sa.prefix.replace("0.0/16", f"{n % 250}.9")
    return ip4(s, d, 17, udp(s, d, 1000, 2000, noise(size)), ident=n, tos=n % 256, frag=0x4000 if n % 2 else 0)


def outbound(folder):
    frames, want, counts, tell = [], [], dict(encrypted=0, overflow=0, too_big=0, mixed=3), []
    used = {sa.spi: sa.first for sa in OUT}

    def give(inner):
        frames.append((START + len(frames) * 1000, ether(0x86DD if inner[0] >> 4 == 6 else 0x0800) + inner))
    for n in range(360):
        sa = OUT[n % len(OUT)]
        inner = clear(sa, n, n if n < 200 else random.randrange(1200))
        give(inner)
        if used[sa.spi] == (HALF * HALF if sa.esn else HALF) - 1:
            counts["overflow"] += 1
            continue
        used[sa.spi] += 1
        counts["encrypted"] += 1
        want.append([OUT.index(sa), used[sa.spi], forwarded(inner).hex(), inner[1] if inner[0] >> 4 == 4 else None, n])
    # ESP in IPv6 by GCM: 40 + 8 + 8 + (n + pad + 2) + 16 bytes, at most 1500; by HMAC the check
    # value is shorter.
    for sa, most in ((OUT[2], 1426), (OUT[1], 1430), (OUT[3], 1450)):
        over = 48 if sa.prefix.startswith("2001") else 28
        inner = clear(sa, 7, most - over)
        give(inner)
        used[sa.spi] += 1
        counts["encrypted"] += 1
        want.append([OUT.index(sa), used[sa.spi], forwarded(inner).hex(), inner[1] if inner[0] >> 4 == 4 else None, 7])
        inner = clear(sa, 7, most - over + 1)
        give(inner)
        counts["too_big"] += 1
        # A tunnel of IPv4 has no address from which a sender of IPv6 could be told.
        if sa is not OUT[3]:
            tell.append([inner.hex(), most])
    six = OUT[4]
    inner = clear(six, 9, 1450)
    give(inner)
    counts["too_big"] += 1
    tell.append([inner.hex(), 1426])
    for n in range(3):
        give(ip4("10.1.0.5", "10.9.0.1", 17, udp("10.1.0.5", "10.9.0.1", 1, 2, noise(n))))
    write(f"{folder}/in.pcap", frames)
    policies = [{"key": s.prefix, "source": s.ends[0], "peer": s.ends[1], **s.row()} for s in OUT]
    policies.append({"key": "10.9.0.0/16", "source": ENDS4[0], "peer": ENDS6[1], **OUT[0].row()})
    policies += [{"key": "10.77.0.0/16", "source": s.ends[0], "peer": s.ends[1], **s.row()} for s in IN[:1]]
    policies += [{"key": "10.78.0.0/16", "source": s.ends[0], "peer": s.ends[1], **s.row()} for s in IN[1:2]]
    save(folder, "policies.json", policies)
    save(folder, "sent.json", [{"spi": s.spi, "last": s.first} for s in OUT])
    save(folder, "out.json", {"want": want, "counts": counts, "tell": tell})


class Receiver:
    """RFC 4303, appendix A2: `th`, `tl` are the halves of the highest number that has come."""

    def __init__(self, sa):
        self.sa, self.seen = sa, {sa.first} if sa.first else set()
        self.th, self.tl = divmod(sa.first, HALF)

    def number(self, low):
        if not self.sa.esn:
            return low
        if self.tl >= WINDOW - 1:  # case A: the window lies within one half
            high = self.th if low >= self.tl - WINDOW + 1 else self.th + 1
        else:  # case B: it began in the half before
            high = self.th - 1 if low >= (self.tl - WINDOW + 1) % HALF else self.th
        return high * HALF + low

    def judge(self, number):
        """What becomes of a packet that was sealed with this number."""
        found = self.number(number % HALF)
        top = self.th * HALF + self.tl
        if found <= 0 or found <= top - WINDOW or found in self.seen:
            return "replayed"
        if self.sa.esn and found != number:
            return "bad_icv"
        self.seen.add(found)
        self.th, self.tl = divmod(max(top, found), HALF)
        return "decrypted"


def arrivals(sa):
    """Numbers around the end of a half: shuffled, twice, at the window's ends, far ahead, and those that no receiver can find."""
    first = sa.first
    near = [first + n for n in range(1, 300)]
    for at in range(0, 300, 30):
        part = near[at:at + 30]
        random.shuffle(part)
        near[at:at + 30] = part
    out = [n for m in near for n in ((m, m) if m % 9 == 0 else (m,))]
    out += [first + 299 - 63, first + 299 - 64, first + 310, first + 310 - 63, first + 310 - 64, first + 246, first + 247]
    if sa.esn:
        # One half too far ahead or behind, then as far as possible, and numbers that lay in the
        # window before.
        out += [first + HALF + 310, first + HALF + 400, max(first - HALF, 0) + 320, first + 300, first + 310 + HALF - 64, first + 305, first + 310 + HALF - 64 - 63, first + 310 + HALF - 64]
    return [n for n in out if 0 < n < (HALF * HALF if sa.esn else HALF)]


def inbound(folder):
    frames, want, counts = [], [], dict(decrypted=0, replayed=0, bad_icv=0, fragments=0, other=0, wrong_source=0, congested=0)

    def give(outer):
        frames.append((START + len(frames) * 1000, ether(0x86DD if outer[0] >> 4 == 6 else 0x0800) + outer))
    for sa in IN:
        receiver = Receiver(sa)
        for i, number in enumerate(arrivals(sa)):
            src = "10.77.0.3" if sa.ends == ENDS4 else "10.78.0.3"
            inner = ip4(src, "10.1.0.5", 17, udp(src, "10.1.0.5", 7, 8, noise(i % 300)), ident=i, tos=i % 256 & 0xFC)
            give(sa.sealed(inner, number))
            what = receiver.judge(number)
            counts[what] += 1
            if what == "decrypted":
                want.append(forwarded(inner).hex())
        sa.next = receiver.th * HALF + receiver.tl
    # In IPv6: cut off, in parts, from the peer of another policy, marked.
    sa = IN[1]
    inner = ip4("10.78.0.3", "10.1.0.5", 17, udp("10.78.0.3", "10.1.0.5", 7, 8, b"x"), tos=0x29)
    whole = sa.sealed(inner, sa.next + 1)
    give(ip6(*reversed(ENDS6), 50, whole[40:47]))
    counts["other"] += 1
    give(ip6(*reversed(ENDS6), 44, struct.pack("!BBHI", 50, 0, 1, 77) + whole[40:]))
    counts["fragments"] += 1
    give(ip6("2001:db8:ffff::3", ENDS6[0], 50, whole[40:]))
    counts["wrong_source"] += 1
    whole = sa.sealed(inner, sa.next + 2)
    give(bytes([whole[0], whole[1] | 0x30]) + whole[2:])
    counts["decrypted"] += 1
    want.append(forwarded(inner[:1] + bytes([0x2B]) + inner[2:]).hex())
    inner = ip4("10.78.0.3", "10.1.0.5", 17, udp("10.78.0.3", "10.1.0.5", 7, 8, b"x"), tos=0x28)
    whole = sa.sealed(inner, sa.next + 3)
    give(bytes([whole[0], whole[1] | 0x30]) + whole[2:])
    counts["congested"] += 1
    need(all(counts[c] > 10 for c in ("decrypted", "replayed", "bad_icv")), "the arrivals try too little:", counts)
    write(f"{folder}/esp.pcap", frames)
    save(folder, "inbound.json", [s.row() for s in IN])
    save(folder, "windows.json", [{"spi": s.spi, "top": s.first, "seen": 1} for s in IN if s.first])
    save(folder, "in.json", {"want": want, "counts": counts})


def make(folder):
    outbound(folder)
    inbound(folder)


def check_out(folder):
    told = load(folder, "out.json")
    got = read(f"{folder}/out.pcap")
    need(len(got) == len(told["want"]), len(got), "frames, not", len(told["want"]))
    sound(f"{folder}/out.pcap")
    vectors = set()
    for (_, f), (i, number, inner, tos, n) in zip(got, told["want"]):
        sa = OUT[i]
        six = sa.ends == ENDS6
        outer, length = ((IPv6 if six else IP)(f[14:]), 40 if six else 20)
        need(f[12:14] == (b"\x86\xdd" if six else b"\x08\0") and outer.src == sa.ends[0] and outer.dst == sa.ends[1], "the outer header is", f[12:14 + length].hex())
        if six:
            traffic, label = (tos, 0) if tos is not None else (n & 255, n)
            need((outer.nh, outer.hlim, outer.plen, outer.tc, outer.fl) == (50, 64, len(f) - 54, traffic, label), "the outer header is", f[14:54].hex())
        esp = f[14 + length:]
        need(struct.unpack("!II", esp[:8]) == (sa.spi, number % HALF), "ESP is", esp[:8].hex(), "not of number", number)
        vectors.add((sa.spi, esp[8:16]))
        clear = sa.opened(outer, esp, number)
        need(clear.hex() == inner, "number", number, "of SA", sa.spi, "holds", clear.hex(), "not", inner)
        if sa.esn and number % 7 == 0:
            # The upper half is in the check value.
            try:
                sa.opened((IPv6 if six else IP)(f[14:]), esp, (number + HALF) % (HALF * HALF))
                raise Fail(f"number {number} of SA {sa.spi} is right with another upper half")
            except IPSecIntegrityError:
                pass
    need(len(vectors) == len(got), "vectors are used twice")
    same_counts(folder, "out_counts.json", told["counts"])
    last = {r["spi"]: r["last"] for r in load(folder, "sent_then.json")}
    for sa in OUT:
        mine = [w[1] for w in told["want"] if OUT[w[0]] is sa]
        need(last[sa.spi] == max(mine), "the last number of SA", sa.spi, "is", last[sa.spi], "not", max(mine))
    check_told(folder, told["tell"])


def check_told(folder, tell):
    """Those whose packets are too long are told what fits: senders of IPv4 by an address of the tunnel, or by RFC 7600's."""
    got = read(f"{folder}/told.pcap")
    need(len(got) == len(tell), len(got), "were told, not", len(tell))
    for (_, f), (inner, most) in zip(got, tell):
        inner = bytes.fromhex(inner)
        if inner[0] >> 4 == 4:
            p = IP(f[14:])
            need(p.dst == "10.1.0.5" and p.src == "192.0.0.8" and p[ICMP].type == 3 and p[ICMP].code == 4 and p[ICMP].nexthopmtu == most, p.show(dump=True))
            need(bytes(p[ICMP].payload)[:28] == inner[:28], "another packet is quoted")
        else:
            p = IPv6(f[14:])
            need(p.dst == "2001:db8:1::5" and p.src == ENDS6[0] and p[ICMPv6PacketTooBig].mtu == most, p.show(dump=True))
            need(f[62:] == inner[:1232] and len(f) == 14 + 1280, "another packet is quoted")
    sound(f"{folder}/told.pcap")


def check_in(folder, name, ordered):
    told = load(folder, "in.json")
    clear, want = [f[14:].hex() for _, f in read(f"{folder}/{name}.pcap")], told["want"]
    same_counts(folder, f"{name}_counts.json", told["counts"])
    need((clear if ordered else sorted(clear)) == (want if ordered else sorted(want)), "what was opened is not what was sealed")


def check(folder, what):
    if what == "out":
        check_out(folder)
    elif what == "in":
        check_in(folder, "clear", True)
    elif what == "cores":
        check_in(folder, "clear2", False)


main(make, check)
