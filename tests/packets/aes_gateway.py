"""Payloads of all lengths: OpenSSL (by python's cryptography) decrypts what comes out."""
from common import *

KEY = bytes(range(16))


def make(folder):
    frames = []
    for n in range(1500):
        six = n % 4 == 0
        s, d = ("2001:db8::1", "2001:db8::2") if six else ("10.0.0.1", "10.0.0.2")
        u = udp(s, d, 4000, 5000, bytes(random.randrange(256) for _ in range(n % 1409)))
        frames.append((START + n * 1000, ether(0x86DD) + ip6(s, d, 17, u) if six else ether(0x0800) + ip4(s, d, 17, u, ident=n)))
    frames.append((START + 2_000_000, frame4("10.0.0.1", "10.0.0.2", 6, 1, 2, b"tcp")))
    frames.append((START + 2_000_001, bytes(Ether() / ARP())))
    write(f"{folder}/in.pcap", frames)


def check_back(folder):
    """Decrypted, it is what it was; what was tampered with is gone."""
    frames = read(f"{folder}/in.pcap")
    same_frames(f"{folder}/back.pcap", frames)
    sound(f"{folder}/back.pcap")
    got = [f for _, f in read(f"{folder}/rest.pcap")]
    need(got == [f for _, f in frames[1500:]], len(got), "frames come of damaged ones")


def damage(folder, frames):
    """Blocks cut off, and a last block whose padding cannot be right."""
    out = []
    for n, (t, f) in enumerate(frames):
        if n < 1500:
            six = f[12:14] == b"\x86\xdd"
            s, d = ("2001:db8::1", "2001:db8::2") if six else ("10.0.0.1", "10.0.0.2")
            head = 62 if six else 42
            data = f[head:]
            if n % 3 == 0:
                data = data[:-1]
            elif n % 3 == 1:
                data = data[:16]
            else:  # the last byte of the plain text becomes 17 or more
                plain = 16 - (n % 1409) % 16
                data = data[:-17] + bytes([data[-17] ^ plain ^ 200]) + data[-16:]
            u = udp(s, d, 4000, 5000, data)
            f = ether(0x86DD) + ip6(s, d, 17, u) if six else ether(0x0800) + ip4(s, d, 17, u)
        out.append((t, f))
    write(f"{folder}/damaged.pcap", out)


def check(folder, what):
    if what == "back":
        return check_back(folder)
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    sound(f"{folder}/out.pcap")
    frames, got, vectors = read(f"{folder}/in.pcap"), read(f"{folder}/out.pcap"), set()
    need(len(got) == len(frames), len(got), "frames, not", len(frames))
    for n, ((_, f), (_, g)) in enumerate(zip(frames, got)):
        if n >= 1500:
            need(f == g, "what is no UDP changed")
            continue
        head = 62 if f[12:14] == b"\x86\xdd" else 42
        data, secret = f[head:], g[head:]
        need(len(secret) == 16 + len(data) // 16 * 16 + 16, "frame", n, "has", len(secret), "bytes for", len(data))
        vectors.add(secret[:16])
        d = Cipher(algorithms.AES(KEY), modes.CBC(secret[:16])).decryptor()
        plain = d.update(secret[16:]) + d.finalize()
        pad = 16 - len(data) % 16
        need(plain == data + bytes([pad]) * pad, "frame", n, "is decrypted as", plain.hex(), "not", data.hex())
        need(g[:14] == f[:14] and g[head - 8:head - 4] == f[head - 8:head - 4], "the headers changed")
    damage(folder, got)
    need(len(vectors) == 1500, "vectors are used twice")


main(make, check)
