"""A mixed capture for std's elements: one packet of every kind that they look at, then the same cut short, and with wrong bits and bytes."""
from common import *
from scapy.contrib.mpls import MPLS
from scapy.layers.dns import DNS, DNSQR
from scapy.layers.inet import IPOption
from scapy.layers.inet6 import ICMPv6EchoRequest, ICMPv6ND_NS, IPv6ExtHdrFragment
from scapy.layers.l2 import GRE
from scapy.layers.ppp import PPPoE, PPPoED
from scapy.layers.vxlan import VXLAN


def eth(**more):
    return Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", **more)


def kinds():
    here, there, inner = "192.0.2.1", "192.0.2.2", IP(src="10.0.0.1", dst="10.0.0.2")
    return [
        eth() / IP(src="10.0.0.1", dst="10.1.2.3", tos=0xB9) / TCP(sport=5000, dport=80, flags="S", options=[("MSS", 1460), ("NOP", None), ("SAckOK", b"")]),
        eth() / IP(src="8.8.8.8", dst=here) / TCP(sport=5000, dport=80, flags="A") / b"GET / HTTP/1.1\r\n\r\n",
        eth() / IP(src="10.0.0.10", dst="8.8.8.8") / TCP(sport=80, dport=9, flags="FA"),
        eth() / IP(src="10.0.0.8", dst="8.8.8.8") / TCP(sport=8080, dport=9, flags="R"),
        eth() / IP(src="10.0.0.1", dst="192.0.2.9") / UDP(sport=1000, dport=53) / DNS(rd=1, qd=DNSQR(qname="www.example.net")),
        eth() / IP(src="10.0.0.1", dst=here) / ICMP(type=8, id=7, seq=1) / b"ping",
        eth() / IP(src="192.0.2.9", dst=here) / ICMP(type=0, id=1, seq=1) / b"wireloom",
        eth() / IP(src="10.0.0.1", dst=here) / ICMP(type=3, code=1) / IP(src=here, dst="10.0.0.1") / UDP(),
        eth() / ARP(op=1, hwsrc="02:00:00:00:00:01", psrc="192.0.2.9", pdst=here),
        Ether(src="02:00:00:00:00:09", dst="ff:ff:ff:ff:ff:ff") / ARP(op=2, hwsrc="02:00:00:00:00:09", psrc="192.0.2.9", pdst=here),
        eth() / IPv6(src="2001:db8::9", dst="2001:db8::1") / ICMPv6EchoRequest(id=1, seq=1),
        eth() / IPv6(src="2001:db8::9", dst="ff02::1:ff00:1", hlim=255) / ICMPv6ND_NS(tgt="2001:db8::1"),
        eth() / IPv6(src="2001:db8::9", dst="2001:db8::1", tc=2) / UDP(sport=9, dport=10) / b"data",
        eth() / IPv6(src="2001:db8::9", dst="2001:db8::1") / IPv6ExtHdrFragment(id=3, m=1) / UDP() / b"12345678",
        eth() / Dot1Q(vlan=100, prio=3) / inner / UDP(sport=1, dport=2) / b"x",
        eth(type=0x88A8) / Dot1Q(vlan=100) / Dot1Q(vlan=200) / inner / UDP() / b"x",
        eth(type=0x8847) / MPLS(label=16, s=0, ttl=9) / MPLS(label=17, s=1, ttl=8) / inner / UDP(),
        eth(type=0x8847) / MPLS(label=16, s=1, ttl=9) / inner / UDP(),
        eth() / PPPoE(sessionid=5) / b"\0\x21" / inner / UDP() / b"in",
        eth() / Dot1Q(vlan=100) / PPPoE(sessionid=5) / b"\0\x57" / IPv6(src="2001:db8::9") / UDP() / b"in",
        eth() / PPPoE(sessionid=5) / b"\xc0\x21\x09\x07\0\x08magi",
        eth() / PPPoED(code=9) / b"\1\1\0\0",
        eth() / IP(src=here, dst=there) / GRE(key_present=1, key=7) / inner / UDP(),
        eth() / IP(src=here, dst=there) / GRE(proto=0x6558, key_present=1, key=0x138801) / eth() / inner / UDP(),
        eth() / IP(src=here, dst=there) / UDP(dport=4789) / VXLAN(vni=42) / eth() / inner / UDP() / b"in",
        eth() / IP(src=here, dst=there) / UDP(dport=6081) / (b"\0\0\x65\x58\0\0\x2a\0" + bytes(eth() / inner / UDP())),
        eth() / IP(src=here, dst=there, tos=3) / IP(src="10.0.0.1", tos=1) / UDP() / b"in",
        eth() / IP(src=here, dst=there, proto=41) / IPv6(src="2001:db8::9") / UDP() / b"in",
        eth() / IP(src=here) / UDP(sport=2152, dport=2152) / (b"\x30\xff\0\x1c\0\0\x12\x34" + bytes(inner / UDP())),
        eth() / IP(src="10.0.0.1", dst="10.0.0.2", id=9, flags="MF") / UDP() / (b"a" * 24),
        eth() / IP(src="10.0.0.1", dst="10.0.0.2", id=9, frag=4, proto=17) / (b"b" * 8),
        eth() / IP(src="10.0.0.1", dst="10.0.0.2", flags="DF") / UDP() / (b"z" * 1450),
        eth() / inner / UDP() / (b"z" * 1450),
        eth() / IP(src="10.0.0.1", dst="10.0.0.2", options=[IPOption(b"\x83\x03\x04")]) / UDP() / b"options",
        eth() / IP(src="10.0.0.66", dst="255.255.255.255") / UDP(sport=67, dport=68) / b"dhcp",
        eth() / IP(src="10.0.0.1", dst="224.0.0.5", ttl=1) / b"last hop",
        Ether(src="02:00:00:00:00:01", dst="01:00:5e:00:00:05") / IP(src="10.0.0.1", dst="224.0.0.5", ttl=1) / UDP(),
        eth() / inner / UDP() / b"padded" / Raw(b"\0" * 12),
    ]


def make(folder):
    random.seed(7)
    whole = [bytes(p) for p in kinds()]
    frames, t = [], START
    for turn in range(12):
        for b in whole:
            if turn % 4 == 1:
                b = b[: random.randrange(len(b))]
            elif turn % 4 == 2:
                i = random.randrange(len(b))
                b = b[:i] + bytes([b[i] ^ (1 << random.randrange(8))]) + b[i + 1 :]
            elif turn % 4 == 3:
                i = random.randrange(14, len(b))
                b = b[:i] + bytes([random.randrange(256)]) + b[i + 1 :]
            t += random.choice([0, 1000, 300_000, 2_000_000, 50_000_000])
            frames.append((t, b))
    write(os.path.join(folder, "in.pcap"), frames)


main(make, lambda folder: None)
