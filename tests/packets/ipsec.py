"""ESP against scapy's own (SecurityAssociation, over OpenSSL): it opens what the gateway seals, and the gateway opens what it seals; what was
tampered with, replayed, cut or sent to nobody is gone, and counted."""
import binascii

from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from scapy.layers.ipsec import ESP, SecurityAssociation

from common import *

US, PEER = "192.0.2.1", "192.0.2.2"
GATEWAY = bytes.fromhex("0200000000fe")


def hexed(b):
    return "0x" + binascii.hexlify(b).decode()


class Sa:
    def __init__(self, spi, suite, size, seed, prefix):
        self.spi, self.suite, self.prefix = spi, suite, prefix
        self.cipher = bytes((seed + i * 7) % 256 for i in range(size + 4))
        self.auth = bytes((seed * 3 + i) % 256 for i in range(20)) if suite != "aes_gcm" else b""

    def row(self):
        return {"suite": self.suite, "cipher": hexed(self.cipher), "auth": hexed(self.auth)}

    def scapy(self, source, peer):
        how = dict(crypt_algo="AES-GCM") if self.suite == "aes_gcm" else dict(crypt_algo="AES-CTR", auth_algo="HMAC-SHA1-96", auth_key=self.auth)
        return SecurityAssociation(ESP, spi=self.spi, crypt_key=self.cipher, tunnel_header=IP(src=source, dst=peer), **how)

    def sealed(self, sequence, iv, clear):
        """ESP over these bytes, trailer and all, by OpenSSL alone."""
        head = struct.pack("!II", self.spi, sequence)
        key, salt = self.cipher[:-4], self.cipher[-4:]
        if self.suite == "aes_gcm":
            return head + iv + AESGCM(key).encrypt(salt + iv, clear, head)
        e = Cipher(algorithms.AES(key), modes.CTR(salt + iv + b"\0\0\0\1")).encryptor()
        body = head + iv + e.update(clear) + e.finalize()
        mac = hmac.HMAC(self.auth, hashes.SHA1())
        mac.update(body)
        return body + mac.finalize()[:12]


OUT = [Sa(256, "aes_gcm", 32, 1, "10.2.0.0/16"), Sa(257, "aes_ctr_hmac_sha1", 32, 2, "10.3.0.0/16"), Sa(0xC0000001, "aes_gcm", 16, 3, "2001:db8:2::/48"),
       Sa(259, "aes_ctr_hmac_sha1", 16, 4, "10.4.0.0/16")]
IN = [Sa(512, "aes_gcm", 32, 5, None), Sa(513, "aes_ctr_hmac_sha1", 32, 6, None), Sa(0xFFFFFFFF, "aes_gcm", 16, 7, None)]


def tables(folder):
    policies = [{"key": s.prefix, "spi": s.spi, "source": US, "peer": PEER, "gateway": "02:00:00:00:00:fe", **s.row()} for s in OUT]
    save(folder, "policies.json", policies)
    save(folder, "inbound.json", [{"spi": s.spi, "gateway": "00:00:00:00:00:00", **s.row()} for s in IN])


def forwarded(inner, by=1):
    """An IP packet with its TTL counted down."""
    if inner[0] >> 4 == 6:
        return inner[:7] + bytes([inner[7] - by]) + inner[8:]
    head = inner[:8] + bytes([inner[8] - by]) + inner[9:10] + b"\0\0" + inner[12:20]
    n = (inner[0] & 15) * 4
    return head[:10] + struct.pack("!H", ones(head + inner[20:n])) + head[12:] + inner[20:]


def noise(n):
    return bytes(random.randrange(256) for _ in range(n))


def outbound(folder):
    frames, want, counts = [], [], dict(no_policy=0, expired=0, other=0, too_big=0, encrypted=0)
    tell = []

    def give(inner, kind=0x0800, sa=None, pad=b"", **count):
        frames.append((START + len(frames) * 1000, ether(kind) + inner + pad))
        for c in count:
            counts[c] += 1
        if sa is not None:
            counts["encrypted"] += 1
            want.append((OUT.index(sa), forwarded(inner).hex()))
    for n in range(600):
        sa = OUT[n % 4]
        data = noise(n if n < 300 else random.randrange(1300))
        if sa.prefix.startswith("2001"):
            s, d = "2001:db8:1::5", f"2001:db8:2::{n + 1:x}"
            give(ip6(s, d, 17, udp(s, d, 1000, 2000, data)), 0x86DD, sa)
            continue
        s, d = "10.1.0.5", sa.prefix.replace("0.0/16", f"{n % 250}.9")
        options = b"\1" * 4 if n % 40 == 0 else b""
        flags = 0x4000 if n % 3 else 0
        give(ip4(s, d, 17, udp(s, d, 1000, 2000, data), ident=n, ttl=2 + n % 250, tos=n % 256, frag=flags, options=options), sa=sa,
             # Frames of the shortest length have a tail that belongs to nothing.
             pad=b"tail of Ethernet" if n % 10 == 0 else b"")
    give(ip4("10.1.0.5", "10.9.0.1", 17, udp("10.1.0.5", "10.9.0.1", 1, 2, b"x")), no_policy=1)
    give(ip4("10.1.0.5", "10.2.0.1", 17, udp("10.1.0.5", "10.2.0.1", 1, 2, b"x"), ttl=1), expired=1)
    give(ip6("2001:db8:1::5", "2001:db8:2::5", 17, udp("2001:db8:1::5", "2001:db8:2::5", 1, 2, b"x"), hops=1), 0x86DD, expired=1)
    give(bytes(ARP()), 0x0806, other=1)
    for n in (1437, 1438, 1439, 1500):
        # GCM: 20 + 8 + 8 + (n + pad + 2) + 16 bytes, at most 1500.
        inner = ip4("10.1.0.5", "10.2.0.1", 17, udp("10.1.0.5", "10.2.0.1", 1, 2, noise(n - 28)), frag=0x4000)
        give(inner, sa=OUT[0]) if n <= 1446 else give(inner, too_big=1)
        if n > 1446:
            tell.append(inner.hex())
    for n in (1446, 1447):
        inner = ip4("10.1.0.5", "10.2.0.1", 17, udp("10.1.0.5", "10.2.0.1", 1, 2, noise(n - 28)))
        give(inner, sa=OUT[0]) if n <= 1446 else give(inner, too_big=1)
        if n > 1446:
            tell.append(inner.hex())
    write(f"{folder}/in.pcap", frames)
    save(folder, "out.json", {"want": want, "counts": counts, "tell": tell})


def inbound(folder):
    counts = {c: 0 for c in "no_sa replayed bad_icv malformed expired fragments wrong_source congested dummies other decrypted".split()}
    frames, want, times = [], [], 0
    next_of = {s.spi: 0 for s in IN}

    def frame(esp, kind=50, **kw):
        frames.append((START + len(frames) * 1000, ether(0x0800) + ip4(PEER, US, kind, esp, **kw)))

    def good(inner, ce=False):
        counts["decrypted"] += 1
        want.append(inner.hex())

    def drop(why):
        counts[why] += 1

    def inner4(n=30, src="10.2.0.7", **kw):
        return ip4(src, "10.1.0.5", 17, udp(src, "10.1.0.5", 7, 8, noise(n)), **kw)

    def clear(inner, next=4, extra=0):
        pad = -(len(inner) + 2) % 4 + extra
        return inner + bytes(i + 1 & 255 for i in range(pad)) + bytes([pad, next])

    def seq(sa):
        next_of[sa.spi] += 1
        return next_of[sa.spi]

    # By scapy itself, in order, out of order, and each twice.
    for sa in IN:
        other = sa.scapy(PEER, US)
        ready = []
        for n in range(120):
            if n % 5 == 4:
                s, d = "2001:db8:2::7", "2001:db8:1::5"
                inner = ip6(s, d, 6, tcp(s, d, 1, 2, noise(n * 3)))
                packet = other.encrypt(IPv6(inner), seq_num=seq(sa))
            else:
                inner = inner4(n * 11, tos=n, ident=n)
                packet = other.encrypt(IP(inner), seq_num=seq(sa))
            ready.append((bytes(packet), inner))
        for at in range(0, 120, 10):
            for packet, inner in reversed(ready[at:at + 10]):
                frames.append((START + len(frames) * 1000, ether(0x0800) + packet))
                good(forwarded(inner))
            for packet, inner in ready[at:at + 10]:
                frames.append((START + len(frames) * 1000, ether(0x0800) + packet))
                drop("replayed")
        for packet, _ in ready[::7]:
            if not any(packet == p for p, _ in ready[-64:]):
                frames.append((START + len(frames) * 1000, ether(0x0800) + packet))
                drop("replayed")
    gcm, ctr, short = IN
    for sa in IN:
        # A jump; the window's two ends.
        top = next_of[sa.spi] = next_of[sa.spi] + 1000
        for s, ok in ((top, True), (top - 63, True), (top - 64, False), (top - 1, True), (top - 1, False), (0, False), (top + 64, True), (top, False), (top + 1, True)):
            inner = inner4(40)
            frame(sa.sealed(s, struct.pack("!Q", s), clear(inner)))
            good(forwarded(inner)) if ok else drop("replayed")
        next_of[sa.spi] = top + 100
        # Every byte changed; a forged one with a high number must not move the window.
        whole = sa.sealed(next_of[sa.spi], b"ivivivic", clear(inner4(9)))
        for i in range(4, len(whole)):
            bad = whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1:]
            number = struct.unpack("!I", bad[4:8])[0]
            seen = number <= top + 64 and (top + 64 - number >= 64 or number in (top, top + 1, top + 64))
            frame(bad)
            drop("replayed" if seen else "bad_icv")
        frame(struct.pack("!II", sa.spi, 0xFFFFFFF0) + noise(60))
        drop("bad_icv")
        # Cut at every length: partial words, too short, or other than the sealed bytes.
        icv = 16 if sa.suite == "aes_gcm" else 12
        for n in range(len(whole)):
            if n < 8:
                frame(whole[:n])
                drop("other")  # no ESP header
                continue
            frame(whole[:n])
            drop("malformed" if n - 8 < 12 + icv or (n - 8 - icv) % 4 else "bad_icv")
        inner = inner4(9)
        frame(sa.sealed(seq(sa), b"whole ok", clear(inner)))
        good(forwarded(inner))
        # Sealed correctly, but with impossible content.
        for inside, why in (
            (b"\1\2\3\4\5\6\7\7\x06\x04", None), (inner4(8)[:10], None), (clear(inner4(8))[:-2] + b"\xff\4", "malformed"), (clear(inner4(8))[:-3] + b"\x07\3\4", "malformed"),
            (clear(b"\x45" + b"\0" * 30), "malformed"), (clear(b"\x65" + inner4(8)[1:]), "malformed"), (clear(inner4(8), 41), "malformed"), (clear(inner4(8), 6), "malformed"),
            (clear(b"", 59), "dummies"), (clear(noise(99), 59), "dummies"), (clear(inner4(8)[:19]), "malformed"), (clear(inner4(8)[:-1]), "malformed"), (clear(b""), "malformed"),
            (clear(ip6("2001:db8:2::7", "2001:db8:1::5", 6, b"abc")[:39], 41), "malformed"), (clear(ip6("2001:db8:2::7", "2001:db8:1::5", 6, b"abc")[:-1], 41), "malformed"),
            (clear(inner4(8, src="10.9.0.1")), "wrong_source"), (clear(ip6("2001:db8:9::7", "2001:db8:1::5", 6, b"abc"), 41), "wrong_source"),
            (clear(inner4(8, ttl=1)), "expired"), (clear(ip6("2001:db8:2::7", "2001:db8:1::5", 6, b"abc", hops=1), 41), "expired"),
        ):
            if why is None:
                continue
            frame(sa.sealed(seq(sa), struct.pack("!Q", next_of[sa.spi]), inside))
            drop(why)
        # More padding than needed, bytes behind the inner packet, marks of congestion.
        for extra in (4, 64, 244):
            inner = inner4(13)
            frame(sa.sealed(seq(sa), struct.pack("!Q", next_of[sa.spi]), clear(inner, extra=extra)))
            good(forwarded(inner))
        inner = inner4(13)
        frame(sa.sealed(seq(sa), struct.pack("!Q", next_of[sa.spi]), clear(inner + noise(50))))
        good(forwarded(inner))
        for ecn in range(4):
            inner = inner4(20, tos=0xA0 | ecn)
            frame(sa.sealed(seq(sa), struct.pack("!Q", next_of[sa.spi]), clear(inner)), tos=3)
            marked = inner[:1] + bytes([0xA3]) + inner[2:]
            good(forwarded(marked)) if ecn else drop("congested")
            s, d = "2001:db8:2::7", "2001:db8:1::5"
            inner = ip6(s, d, 17, udp(s, d, 1, 2, b"six"))
            inner = bytes([0x6A, ecn << 4]) + inner[2:]
            frame(sa.sealed(seq(sa), struct.pack("!Q", next_of[sa.spi]), clear(inner, 41)), tos=3)
            marked = bytes([0x6A, 0x30]) + inner[2:]
            good(forwarded(marked)) if ecn else drop("congested")
    # Without an SA, fragmented, and no ESP.
    frame(Sa(999, "aes_gcm", 32, 5, None).sealed(1, b"12345678", clear(inner4())))
    drop("no_sa")
    frame(gcm.sealed(seq(gcm), b"fragment", clear(inner4())), frag=0x2000)
    drop("fragments")
    frame(gcm.sealed(seq(gcm), b"fragment", clear(inner4())), frag=100)
    drop("other")
    frame(udp(PEER, US, 500, 500, b"ike"), kind=17)
    drop("other")
    write(f"{folder}/esp.pcap", frames)
    save(folder, "in.json", {"want": want, "counts": counts})


def make(folder):
    tables(folder)
    outbound(folder)
    inbound(folder)


def check_out(folder, name, ordered=True):
    told = load(folder, "out.json")
    got = read(f"{folder}/{name}.pcap")
    need(len(got) == len(told["want"]), len(got), "frames, not", len(told["want"]))
    sound(f"{folder}/{name}.pcap")
    sas = [s.scapy(US, PEER) for s in OUT]
    by_spi = {s.spi: i for i, s in enumerate(OUT)}
    numbers, vectors, clear = {i: [] for i in range(4)}, set(), []
    for _, f in got:
        need(f[:6] == GATEWAY and f[6:12] == MAC_B and f[12:14] == b"\x08\0", "Ethernet is", f[:14].hex())
        outer = IP(f[14:])
        spi, number = struct.unpack("!II", f[34:42])
        i = by_spi[spi]
        need(outer.src == US and outer.dst == PEER and outer.ttl == 64 and outer.proto == 50 and outer.len == len(f) - 14, "the outer header is", f[14:34].hex())
        numbers[i].append(number)
        vectors.add((spi, f[42:50]))
        inner = bytes(sas[i].decrypt(IP(f[14:])))
        if inner[0] >> 4 == 4:
            need(outer.tos == inner[1], "DSCP and ECN are", outer.tos, "not", inner[1])
            need(bool(int(outer.flags) & 2) == bool(inner[6] & 0x40), "DF is not that of the inner packet")
        else:
            need(outer.tos == ((inner[0] & 15) << 4 | inner[1] >> 4) and int(outer.flags) & 2, "the outer header is not as IPv6 has it")
        clear.append([i, inner.hex()])
    need(len(vectors) == len(got), "vectors are used twice")
    for i, seen in numbers.items():
        need(sorted(seen) == list(range(1, len(seen) + 1)), "sequence numbers of SA", i, "are", seen[:20])
        need(not ordered or seen == sorted(seen), "sequence numbers of SA", i, "are not in order")
    want = [list(w) for w in told["want"]]
    need((clear if ordered else sorted(clear)) == (want if ordered else sorted(want)), "what was sealed is not what came")
    same_counts(folder, f"{name}_counts.json", told["counts"])


def check_told(folder):
    """Those whose packets are too long are told what fits."""
    got = read(f"{folder}/told.pcap")
    tell = [bytes.fromhex(t) for t in load(folder, "out.json")["tell"]]
    need(len(got) == len(tell), len(got), "were told, not", len(tell))
    for (_, f), inner in zip(got, tell):
        need(f[:14] == ether(0x0800, MAC_B, MAC_A), "told by", f[:14].hex())
        p = IP(f[14:])
        need(p.dst == "10.1.0.5" and p.src == US and p[ICMP].type == 3 and p[ICMP].code == 4 and p[ICMP].nexthopmtu == 1446, p.show(dump=True))
        need(bytes(p[ICMP].payload)[:28] == inner[:28], "another packet is quoted")
    sound(f"{folder}/told.pcap")


def check_in(folder, name, ordered=True):
    told = load(folder, "in.json")
    got = read(f"{folder}/{name}.pcap")
    for _, f in got:
        need(f[:12] == MAC_B + MAC_A and f[12:14] == (b"\x86\xdd" if f[14] >> 4 == 6 else b"\x08\0"), "Ethernet is", f[:14].hex())
    clear, want = [f[14:].hex() for _, f in got], told["want"]
    for n, (g, w) in enumerate(zip(clear, want)):
        need(not ordered or g == w, "packet", n, "is\n", g, "not\n", w)
    need(sorted(clear) == sorted(want), len(clear), "packets, not", len(want))
    same_counts(folder, f"{name}_counts.json", told["counts"])


def check(folder, what):
    if what == "out":
        check_out(folder, "out")
        check_told(folder)
    elif what == "in":
        check_in(folder, "clear")
    elif what == "cores":
        check_out(folder, "out2", False)
        check_in(folder, "clear2", False)


main(make, check)
