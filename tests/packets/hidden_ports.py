"""Sends SYNs to port 22 of a neighbour, in frames that hide the port, and prints those that it answers (SYN-ACK or RST).

Call: hidden_ports.py INTERFACE. The neighbour is 10.8.0.1, fd00::1 and 02:00:00:00:0a:01.
"""
import socket
import struct
import sys
import time

MAC = bytes.fromhex("020000000a01020000000b01")
FROM4, TO4 = socket.inet_aton("10.8.0.2"), socket.inet_aton("10.8.0.1")
FROM6, TO6 = socket.inet_pton(socket.AF_INET6, "fd00::2"), socket.inet_pton(socket.AF_INET6, "fd00::1")


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def syn(port, pseudo):
    head = struct.pack(">HHIIBBHHH", port, 22, 5, 0, 0x50, 2, 1024, 0, 0)
    return head[:16] + struct.pack(">H", checksum(pseudo + head)) + head[18:]


def four(port, size):
    """The segment in fragments of so many bytes."""
    data = syn(port, FROM4 + TO4 + struct.pack(">HH", 6, 20))
    for at in range(0, len(data), size):
        part = data[at:at + size]
        where = at // 8 | (0x2000 if at + size < len(data) else 0)
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(part), port, where, 64, 6, 0) + FROM4 + TO4
        head = head[:10] + struct.pack(">H", checksum(head)) + head[12:]
        yield MAC + b"\x08\x00" + head + part


def six(port, chain):
    data = syn(port, FROM6 + TO6 + struct.pack(">II", 20, 6))
    rest = b""
    for kind, after in zip(chain, [*chain[1:], 6]):
        # A whole packet behind a fragment header; a routing header of an experimental type, without
        # addresses to visit; padding.
        rest += bytes([after, 0]) + {44: bytes([0, 0, 0, 0, 0, port & 255]), 43: bytes([253, 0, 0, 0, 0, 0])}.get(kind, bytes([1, 4, 0, 0, 0, 0]))
    rest += data
    yield MAC + b"\x86\xdd" + struct.pack(">IHBB", 0x60000000, len(rest), [*chain, 6][0], 64) + FROM6 + TO6 + rest


CASES = [("v6", six, []), ("v6+60", six, [60]), ("v6+60+60", six, [60, 60]), ("v6+60+43+60", six, [60, 43, 60]), ("v6+60x7", six, [60] * 7),
         ("v6+44+60", six, [44, 60]), ("v4", four, 20), ("v4/8", four, 8)]


def main():
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    link.bind((sys.argv[1], 0))
    link.settimeout(0.1)
    first = 20000 + int(time.time()) % 1000 * 10
    for i, (_, make, how) in enumerate(CASES):
        for frame in make(first + i, how):
            link.send(frame)
    answered, end = set(), time.time() + 1.5
    while time.time() < end:
        try:
            frame = link.recv(2048)
        except TimeoutError:
            continue
        at = {b"\x08\x00": 34, b"\x86\xdd": 54}.get(frame[12:14])
        if at and frame[6:12] == MAC[:6] and len(frame) >= at + 20:
            source, target = struct.unpack(">HH", frame[at:at + 4])
            if source == 22 and first <= target < first + len(CASES):
                answered.add(target - first)
    print(*[CASES[i][0] for i in sorted(answered)])


main()
