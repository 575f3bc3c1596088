"""What the tests of interfaces do inside a namespace: `ping ADDRESS COUNT SIZE`, `receive`, `send ADDRESS`."""
import os, socket, struct, sys, time


def checksum(b):
    b += b"\0" * (len(b) & 1)
    s = sum(struct.unpack(f"!{len(b) // 2}H", b))
    while s >> 16:
        s = (s & 0xFFFF) + (s >> 16)
    return ~s & 0xFFFF


def ping(address, count, size):
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    me, got = os.getpid() & 0xFFFF, 0
    for seq in range(int(count)):
        data = bytes((seq + i) & 0xFF for i in range(int(size)))
        body = struct.pack("!HH", me, seq) + data
        packet = struct.pack("!BBH", 8, 0, checksum(b"\x08\0\0\0" + body)) + body
        s.sendto(packet, (address, 0))
        end = time.time() + 3
        while (left := end - time.time()) > 0:
            s.settimeout(left)
            try:
                reply = s.recv(65535)[20:]
            except TimeoutError:
                break
            if reply[0] == 0 and reply[4:] == body:
                got += 1
                break
    print(got)


def receive():
    s = socket.create_server(("", 7777))
    s.settimeout(15)
    c, _ = s.accept()
    n = 0
    while b := c.recv(65536):
        n += len(b)
    print(n)


def send(address):
    for _ in range(50):
        try:
            s = socket.create_connection((address, 7777), 5)
            break
        except OSError:
            time.sleep(0.1)
    s.sendall(b"x" * 10000000)


globals()[sys.argv[1]](*sys.argv[2:])
