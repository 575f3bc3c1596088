"""A server of MySQL's protocol whose user has a password of `caching_sha2_password`.

Arguments: the port, the password. The first login needs the whole password, encrypted by the
server's public key; later ones are known by their hash. `select N` gives N, `forget` forgets the
logins, and `logins` tells how they went. It follows CLIENT_DEPRECATE_EOF.
"""

import hashlib
import os
import socketserver
import struct
import sys
import threading

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

PORT, PASSWORD = int(sys.argv[1]), sys.argv[2].encode()
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PEM = KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
NO_MARKS = 1 << 24
# Long passwords, databases, 4.1, transactions, secure, plugins, attributes; TLS is taken out.
OFFERED = 0x1 | 0x8 | 0x200 | 0x800 | 0x2000 | 0x8000 | 0x80000 | 0x100000 | 0x200000 | NO_MARKS
PLUGIN = b"caching_sha2_password\0"
known, ways, lock = set(), [], threading.Lock()


def xor(a, b):
    return bytes(x ^ b[i % len(b)] for i, x in enumerate(a))


def scramble(salt):
    once = hashlib.sha256(PASSWORD).digest()
    return xor(once, hashlib.sha256(hashlib.sha256(once).digest() + salt).digest())


class Session(socketserver.BaseRequestHandler):
    def packet(self, data):
        self.request.sendall(struct.pack("<I", len(data))[:3] + bytes([self.number]) + data)
        self.number = (self.number + 1) % 256

    def bytes(self, n):
        got = b""
        while len(got) < n:
            more = self.request.recv(n - len(got))
            if not more:
                raise EOFError
            got += more
        return got

    def read(self):
        head = self.bytes(4)
        self.number = (head[3] + 1) % 256
        return self.bytes(int.from_bytes(head[:3], "little"))

    def log_in(self):
        salt = bytes(1 + x % 127 for x in os.urandom(20))
        self.number = 0
        self.packet(
            b"\x0a8.0.99\0" + struct.pack("<I", 7) + salt[:8] + b"\0" + struct.pack("<H", OFFERED & 0xffff)
            + b"\x21" + struct.pack("<H", 2) + struct.pack("<H", OFFERED >> 16) + b"\x15" + b"\0" * 10
            + salt[8:] + b"\0" + PLUGIN)
        login = self.read()
        self.taken = struct.unpack("<I", login[:4])[0]
        assert self.taken & 0x800 == 0, "TLS was taken"
        user, rest = login[32:].split(b"\0", 1)
        proof = rest[1:1 + rest[0]]
        with lock:
            fast = user in known
        if proof != scramble(salt) and fast:
            return self.refuse()
        if fast:
            self.packet(b"\x01\x03")
        else:
            self.packet(b"\x01\x04")
            told = self.read()
            if told == b"\x02":
                self.packet(b"\x01" + PEM)
                told = self.read()
            oaep = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
            try:
                told = xor(KEY.decrypt(told, oaep), salt)
            except ValueError:
                told = b""
            if told != PASSWORD + b"\0":
                return self.refuse()
        with lock:
            known.add(user)
            ways.append("fast" if fast else "whole")
        self.ok()
        return True

    def refuse(self):
        self.packet(b"\xff" + struct.pack("<H", 1045) + b"#28000Access denied")
        return False

    def ok(self, first=b"\0"):
        self.packet(first + b"\0\0" + struct.pack("<HH", 2, 0))

    def mark(self, last=False):
        if not self.taken & NO_MARKS:
            self.packet(b"\xfe" + struct.pack("<HH", 0, 2))
        elif last:
            self.ok(b"\xfe")

    def result(self, value):
        def text(t):
            return bytes([len(t)]) + t
        self.packet(b"\x01")
        kind = struct.pack("<HIBHB", 33, 300, 253, 0, 0)
        self.packet(text(b"def") + text(b"") * 3 + text(b"n") * 2 + b"\x0c" + kind + b"\0\0")
        self.mark()
        self.packet(text(value))
        self.mark(last=True)

    def handle(self):
        try:
            if not self.log_in():
                return
            while True:
                command = self.read()
                if command[0] == 1:
                    return
                text = command[1:].lower()
                if command[0] == 3 and text.startswith(b"select "):
                    self.result(text[7:])
                elif command[0] == 3 and text == b"logins":
                    with lock:
                        self.result(" ".join(ways).encode())
                else:
                    if text == b"forget":
                        with lock:
                            known.clear()
                    self.ok()
        except (EOFError, ConnectionError):
            pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


Server(("127.0.0.1", PORT), Session).serve_forever()
