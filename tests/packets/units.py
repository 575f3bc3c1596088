"""The protocols of `std/` against tshark: every field of every header and message of captures made by scapy.

`make`: frames.pcap with a list of what is in each frame, and fields.loom, an app that says all fields of all headers it finds; units.loom,
whose tests compare the fields of messages in payloads with what tshark reads there; payloads.json, these payloads; cut.pcap,
snap.pcap and broken.pcap: every frame, every prefix of each (as a frame, and as a longer one that the capture cut off), every byte changed.
`check`: what the app said of frames.pcap is what tshark says; of damaged frames no header is found behind one that is not there.
"""
from common import *
import ssl
import zlib

from scapy.fields import RawVal
from scapy.all import (AH, BOOTP, DHCP, DNS, DNSQR, DNSRR, DNSRRMX, DNSRROPT, DNSRRSOA, DNSRRSRV, ESP, GRE, Dot1AD, ICMPv6EchoRequest,
                       ICMPv6ND_NS, ICMPv6ND_RA, ICMPv6NDOptMTU, ICMPv6NDOptPrefixInfo, ICMPv6NDOptSrcLLAddr, IPOption_RR,
                       IPOption_Router_Alert, IPv6ExtHdrDestOpt, PPPoE, PPPoED, PPPoED_Tags, PPPoETag, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, NTP, RTP,
                       RouterAlert, VXLAN, load_contrib)
from scapy.contrib.geneve import GENEVE, GeneveOptions
from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer
from scapy.contrib.mpls import MPLS
from scapy.layers.radius import Radius, RadiusAttr_NAS_Port_Type, RadiusAttr_User_Name

A, B = "02:00:00:00:00:01", "02:00:00:00:00:02"
ETH = Ether(src=A, dst=B)
V4 = IP(src="192.0.2.1", dst="198.51.100.7", ttl=61, id=0x1234, tos=0xB9)
V6 = IPv6(src="2001:db8::1", dst="2001:db8::7", tc=0x5A, fl=0xABCDE, hlim=33)
U = UDP(sport=4000, dport=5000)
T = TCP(sport=4001, dport=80, seq=0x01020304, ack=0x05060708, flags="SAUPEC", window=4096, urgptr=9)
IN4 = IP(src="10.0.0.1", dst="10.0.0.2", ttl=7)
IN6 = IPv6(src="2001:db8:1::1", dst="2001:db8:1::2", hlim=8)
OPTIONS = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (77, 88)), ("NOP", None), ("WScale", 7)]

# Scapy's own PPP leaves the first byte of the protocol out, which RFC 2516 advises against.
PPP4, PPP6 = Raw(b"\0\x21"), Raw(b"\0\x57")

# The headers of a frame, from the front: members of `Packet`.
FRAMES = [
    ("eth arp", ETH / ARP(op=2, hwsrc=A, psrc="192.0.2.1", hwdst=B, pdst="192.0.2.9")),
    ("eth vlan arp", ETH / Dot1Q(vlan=5, prio=3, id=1) / ARP(op=1, hwsrc=A, psrc="192.0.2.1", pdst="192.0.2.9")),
    ("eth vlan vlan2 ip4 udp", ETH / Dot1AD(vlan=100, prio=1) / Dot1Q(vlan=200, prio=6) / V4 / U / b"qinq"),
    ("eth vlan vlan2 ip6 udp", ETH / Dot1Q(vlan=101, id=1) / Dot1Q(vlan=201, prio=6) / V6 / U / b"qinq"),
    ("eth ip4 tcp", ETH / V4 / T / b"data"),
    ("eth ip4 tcp", ETH / IP(src="10.9.8.7", dst="10.1.2.3", flags="DF") / TCP(flags="S", options=OPTIONS)),
    ("eth ip4 tcp", ETH / V4 / TCP(flags="FRA", options=[("NOP", None), ("NOP", None), ("SAck", (1, 5, 9, 12))])),
    ("eth ip4 udp", ETH / IP(src="10.9.8.7", dst="10.1.2.3", options=[IPOption_RR(length=7, routers=["0.0.0.0"])]) / U / b"route"),
    ("eth ip4 icmp", ETH / IP(src="10.9.8.7", dst="10.1.2.3", options=[IPOption_Router_Alert()]) / ICMP(type=8, id=0x77, seq=5) / b"ping"),
    ("eth ip4 icmp", ETH / V4 / ICMP(type=3, code=4) / IN4 / U),
    ("eth ip4", ETH / IP(src="10.9.8.7", dst="10.1.2.3", proto=17, frag=185, flags="MF") / b"a later fragment"),
    ("eth ip6 udp", ETH / V6 / U / b"six"),
    ("eth ip6 tcp", ETH / V6 / T),
    ("eth ip6 icmp6", ETH / V6 / ICMPv6EchoRequest(id=0x55, seq=6, data=b"x")),
    ("eth ip6 hop icmp6", ETH / V6 / IPv6ExtHdrHopByHop(options=[RouterAlert()]) / ICMPv6EchoRequest(id=1, seq=2)),
    ("eth ip6 hop dest routing fragment udp", ETH / V6 / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt()
     / IPv6ExtHdrRouting(addresses=["2001:db8::9"]) / IPv6ExtHdrFragment(offset=0, m=0, id=0x99) / U / b"only"),
    ("eth ip6 fragment", ETH / V6 / IPv6ExtHdrFragment(nh=17, offset=44, m=1, id=0x99) / b"a later fragment"),
    ("eth ip6 routing dest2 tcp", ETH / V6 / IPv6ExtHdrRouting(addresses=["2001:db8::9"]) / IPv6ExtHdrDestOpt() / T),
    ("eth ip6 dest ext ext2 ext3 ext4 tcp", ETH / V6 / IPv6ExtHdrDestOpt() / IPv6ExtHdrDestOpt() / IPv6ExtHdrDestOpt() / IPv6ExtHdrDestOpt()
     / IPv6ExtHdrDestOpt() / T),
    ("eth ip6 hop dest ext fragment dest2 ext3 udp", ETH / V6 / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / IPv6ExtHdrDestOpt()
     / IPv6ExtHdrFragment(offset=0, m=0, id=0x9A) / IPv6ExtHdrDestOpt() / IPv6ExtHdrDestOpt() / U),
    ("eth ip4 ah tcp", ETH / V4 / AH(nh=6, payloadlen=4, spi=0x1001, seq=3, icv=b"i" * 12) / T),
    ("eth ip6 ah udp", ETH / V6 / AH(nh=17, payloadlen=5, spi=0x1002, seq=4, icv=b"i" * 12, padding=b"pppp") / U),
    ("eth ip4 esp", ETH / V4 / ESP(spi=0x2001, seq=8, data=b"e" * 32)),
    ("eth ip6 esp", ETH / V6 / ESP(spi=0x2002, seq=9, data=b"e" * 32)),
    ("eth ip4 gre inner_ip4 inner_udp", ETH / V4 / GRE(chksum_present=1, key_present=1, seqnum_present=1, key=0xCAFE, sequence_number=5) / IN4 / U),
    ("eth ip4 gre inner_ip6 inner_tcp", ETH / V4 / GRE(proto=0x86DD) / IN6 / T),
    ("eth ip4 gre inner_eth inner_ip4 inner_tcp", ETH / V4 / GRE(proto=0x6558, key_present=1, key=5000 << 8 | 7) / ETH / IN4 / T),
    ("eth ip6 gre inner_ip4 inner_icmp", ETH / V6 / GRE() / IN4 / ICMP(id=3, seq=4)),
    ("eth ip4 udp vxlan inner_eth inner_ip4 inner_udp", ETH / V4 / UDP(sport=9, dport=4789) / VXLAN(vni=0x123456, flags=8) / ETH / IN4 / U),
    ("eth ip4 udp vxlan inner_eth inner_vlan inner_ip6 inner_icmp6", ETH / V4 / UDP(sport=9, dport=4789) / VXLAN(vni=1, flags=8)
     / ETH / Dot1Q(vlan=9) / IN6 / ICMPv6EchoRequest(id=1, seq=2)),
    ("eth ip6 udp vxlan inner_eth inner_arp", ETH / V6 / UDP(sport=9, dport=4789) / VXLAN(vni=2, flags=8) / ETH / ARP(psrc="10.0.0.1", pdst="10.0.0.2")),
    ("eth ip4 udp geneve inner_eth inner_ip4 inner_tcp", ETH / V4 / UDP(sport=9, dport=6081)
     / GENEVE(vni=0x4321, critical=1, proto=0x6558, options=GeneveOptions(classid=0x102, type=0x80, data=b"abcd")) / ETH / IN4 / T),
    ("eth ip4 udp geneve inner_ip6 inner_udp", ETH / V4 / UDP(sport=9, dport=6081) / GENEVE(vni=7, oam=1, proto=0x86DD) / IN6 / U),
    ("eth ip4 udp gtp inner_ip4 inner_udp", ETH / V4 / UDP(sport=2152, dport=2152) / GTP_U_Header(teid=0x55, gtp_type=255) / IN4 / U / b"u"),
    ("eth ip4 udp gtp gtp_more inner_ip4 inner_udp", ETH / V4 / UDP(sport=2152, dport=2152)
     / GTP_U_Header(teid=0x56, S=1, seq=9, PN=1, npdu=3, gtp_type=255) / IN4 / U),
    ("eth ip4 udp gtp gtp_more gtp_ext inner_ip4 inner_udp", ETH / V4 / UDP(sport=2152, dport=2152)
     / GTP_U_Header(teid=0x10203, S=1, seq=77, E=1, next_ex=0x85, gtp_type=255) / GTPPDUSessionContainer(type=0, QFI=9) / IN4 / U),
    ("eth ip4 inner_ip4 inner_tcp", ETH / V4 / IN4 / TCP(flags="S", options=OPTIONS)),
    ("eth ip4 inner_ip6 inner_icmp6", ETH / V4 / IN6 / ICMPv6EchoRequest(id=1, seq=2)),
    ("eth ip6 inner_ip4 inner_udp", ETH / V6 / IN4 / U),
    ("eth ip6 inner_ip6 inner_tcp", ETH / V6 / IN6 / T),
    ("eth mpls ip4 udp", ETH / MPLS(label=16, cos=5, s=1, ttl=64) / V4 / U),
    ("eth pppoe ppp ip4 tcp", ETH / PPPoE(sessionid=0x1234) / PPP4 / V4 / T / b"session"),
    ("eth vlan pppoe ppp ip6 udp", ETH / Dot1Q(vlan=7) / PPPoE(sessionid=7) / PPP6 / V6 / U / b"six"),
    ("eth vlan vlan2 pppoe ppp ip4 icmp", ETH / Dot1AD(vlan=100, prio=1) / Dot1Q(vlan=200, prio=6) / PPPoE(sessionid=9) / PPP4 / V4 / ICMP(type=8, id=3, seq=5)),
    ("eth pppoe ppp", ETH / PPPoE(sessionid=0x1234) / bytes.fromhex("c02109070008deadbeef")),
    ("eth pppoe", ETH / PPPoED(code=0x09) / PPPoED_Tags(tag_list=[PPPoETag(tag_type=0x0101)])),
    ("eth mpls mpls2 mpls3 ip6 tcp", ETH / MPLS(label=100, s=0, ttl=9) / MPLS(label=200, cos=1, s=0, ttl=8) / MPLS(label=300, s=1, ttl=7) / V6 / T),
]

# Fields: the logged expression, and tshark's name for it with a conversion of tshark's number.
ETHER = [("u64(.dst)", "eth.dst"), ("u64(.src)", "eth.src"), (".type", "eth.type")]
VLAN = [(".pcp", "ieee8021ad.priority|vlan.priority"), (".dei", "ieee8021ad.dei|vlan.dei"), (".vid", "ieee8021ad.id|vlan.id"),
        (".type", "vlan.etype")]
ARPS = [(".hardware", "arp.hw.type"), (".protocol", "arp.proto.type"), (".hardware_size", "arp.hw.size"), (".protocol_size", "arp.proto.size"),
        (".op", "arp.opcode"), ("u64(.sender)", "arp.src.hw_mac"), ("u32(.sender_ip)", "arp.src.proto_ipv4"), ("u64(.target)", "arp.dst.hw_mac"),
        ("u32(.target_ip)", "arp.dst.proto_ipv4")]
IPV4 = [(".version", "ip.version"), ("u32(.ihl) * 4", "ip.hdr_len"), (".dscp", "ip.dsfield.dscp"), (".ecn", "ip.dsfield.ecn"),
        (".total", "ip.len"), (".id", "ip.id"), (".flags", "ip.flags"), (".offset", "ip.frag_offset"), (".ttl", "ip.ttl"),
        (".proto", "ip.proto"), (".sum", "ip.checksum"), ("u32(.src)", "ip.src"), ("u32(.dst)", "ip.dst")]
IPV6 = [(".version", "ipv6.version"), (".class", "ipv6.tclass"), (".label", "ipv6.flow"), (".length", "ipv6.plen"), (".next", "ipv6.nxt"),
        (".hops", "ipv6.hlim"), ("text(.src)", "ipv6.src"), ("text(.dst)", "ipv6.dst")]
TCPS = [(".src", "tcp.srcport"), (".dst", "tcp.dstport"), (".seq", "tcp.seq_raw"), (".ack_seq", "tcp.ack_raw"), ("u32(.offset) * 4", "tcp.hdr_len"),
        (".cwr", "tcp.flags.cwr"), (".ece", "tcp.flags.ece"), (".urg", "tcp.flags.urg"), (".ack", "tcp.flags.ack"), (".psh", "tcp.flags.push"),
        (".rst", "tcp.flags.reset"), (".syn", "tcp.flags.syn"), (".fin", "tcp.flags.fin"), (".window", "tcp.window_size_value"),
        (".sum", "tcp.checksum"), (".urgent", "tcp.urgent_pointer"), ("crc32(.options)", "tcp.options")]
UDPS = [(".src", "udp.srcport"), (".dst", "udp.dstport"), (".length", "udp.length"), (".sum", "udp.checksum")]
ICMPS = [(".type", "icmp.type"), (".code", "icmp.code"), (".sum", "icmp.checksum"), ("u16(.rest >> 16)", "icmp.ident"), ("u16(.rest)", "icmp.seq")]
ICMP6 = [(".type", "icmpv6.type"), (".code", "icmpv6.code"), (".sum", "icmpv6.checksum"), ("u16(.rest >> 16)", "icmpv6.echo.identifier"),
         ("u16(.rest)", "icmpv6.echo.sequence_number")]
LABEL = [(".label", "mpls.label"), (".class", "mpls.exp"), (".bottom", "mpls.bottom"), (".ttl", "mpls.ttl")]
DESTINATION = [(".next", "ipv6.dstopts.nxt"), (".size", "ipv6.dstopts.len")]
FIELDS = {
    "eth": ETHER, "vlan": VLAN, "vlan2": VLAN, "mpls": LABEL, "mpls2": LABEL, "mpls3": LABEL, "arp": ARPS, "ip4": IPV4, "ip6": IPV6,
    "hop": [(".next", "ipv6.hopopts.nxt"), (".size", "ipv6.hopopts.len")], "dest": DESTINATION, "dest2": DESTINATION,
    "ext": DESTINATION, "ext2": DESTINATION, "ext3": DESTINATION, "ext4": DESTINATION,
    "routing": [(".next", "ipv6.routing.nxt"), (".size", "ipv6.routing.len"), (".type", "ipv6.routing.type"), (".left", "ipv6.routing.segleft")],
    "fragment": [(".next", "ipv6.fraghdr.nxt"), (".offset", "ipv6.fraghdr.offset"), (".more", "ipv6.fraghdr.more"), (".id", "ipv6.fraghdr.ident")],
    "ah": [(".next", "ah.next_header"), (".words", "ah.length"), (".spi", "ah.spi"), (".sequence", "ah.sequence"), ("crc32(.icv)", "ah.icv")],
    "esp": [(".spi", "esp.spi"), (".sequence", "esp.sequence")],
    "tcp": TCPS, "udp": UDPS, "icmp": ICMPS, "icmp6": ICMP6,
    "gre": [(".has_sum", "gre.flags.checksum"), (".has_key", "gre.flags.key"), (".has_sequence", "gre.flags.sequence_number"),
            (".version", "gre.flags.version"), (".type", "gre.proto"), (".key", "gre.key"), (".sequence", "gre.sequence_number")],
    "vxlan": [(".valid", "vxlan.flag_i"), (".vni", "vxlan.vni")],
    "geneve": [(".version", "geneve.version"), ("u32(.words) * 4", "geneve.option.length"), (".control", "geneve.flags.oam"),
               (".critical", "geneve.flags.critical"), (".type", "geneve.proto_type"), (".vni", "geneve.vni")],
    "gtp": [(".version", "gtp.flags.version"), (".protocol", "gtp.flags.payload"), (".has_next", "gtp.flags.e"), (".has_sequence", "gtp.flags.s"),
            (".has_npdu", "gtp.flags.pn"), (".type", "gtp.message"), (".size", "gtp.length"), (".teid", "gtp.teid")],
    "gtp_more": [(".sequence", "gtp.seq_number"), (".npdu", "gtp.npdu_number"), (".next", "gtp.ext_hdr.next")],
    "gtp_ext": [("u32(.size)", "gtp.ext_hdr.length")],
    "gtp_ext2": [],
    "pppoe": [(".version", "pppoe.version"), (".type", "pppoe.type"), (".code", "pppoe.code"), (".session", "pppoe.session_id"), (".length", "pppoe.payload_length")],
    "ppp": [(".protocol", "ppp.protocol")],
}
for name in ("eth", "vlan", "arp", "ip4", "ip6", "tcp", "udp", "icmp", "icmp6"):
    FIELDS["inner_" + name] = FIELDS[name]

def dgram(sport, dport, payload):
    return ETH / V4 / UDP(sport=sport, dport=dport) / payload


def hello():
    """A ClientHello as OpenSSL makes it."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    client = context.wrap_bio(into, out, server_hostname="www.example.org")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


SIP = (b"Via: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK1\r\nFrom: <sip:alice@example.org>;tag=1\r\nTo: <sip:bob@example.org>\r\n"
       b"Call-ID: 77@192.0.2.1\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n")
NAME = "example.org"
HEADER = [("m.id", "dns.id"), ("m.response", "dns.flags.response"), ("u8(m.opcode)", "dns.flags.opcode"), ("m.truncated", "dns.flags.truncated"),
          ("m.recursion_desired", "dns.flags.recdesired"), ("m.checking_disabled", "dns.flags.checkdisable"),
          ("m.question_count", "dns.count.queries"), ("m.answer_count", "dns.count.answers"), ("m.authority_count", "dns.count.auth_rr"),
          ("m.additional_count", "dns.count.add_rr"), ("u16(m.questions[0].type)", "dns.qry.type"), ("m.questions[0].class", "dns.qry.class"),
          ("dns.dotted(m.questions[0].name)", "dns.qry.name", "name")]
ANSWER = [("m.authoritative", "dns.flags.authoritative"), ("m.recursion_available", "dns.flags.recavail"),
          ("m.authentic_data", "dns.flags.authenticated"), ("u8(m.rcode)", "dns.flags.rcode")]
INVITE = [('sip.header(m, "via", "v") else ""', "sip.Via", "str"), ('sip.header(m, "from", "f") else ""', "sip.From", "str"),
          ('sip.header(m, "to", "t") else ""', "sip.To", "str"), ('sip.header(m, "call-id", "i") else ""', "sip.Call-ID", "str"),
          ('sip.header(m, "cseq", "") else ""', "sip.CSeq", "str"), ('sip.header(m, "content-length", "l") else ""', "sip.Content-Length", "str")]
LONG = [("m.form", "quic.header_form"), ("m.version", "quic.version"), ("m.destination_size", "quic.dcil"), ("m.destination", "quic.dcid", "hex"),
        ("m.source_size", "quic.scil"), ("m.source", "quic.scid", "hex")]

PPPOE = [('pppoe.tag(m, pppoe.service_name) else ""', "pppoed.tags.service_name", "str"), ('pppoe.tag(m, pppoe.ac_name) else ""', "pppoed.tags.ac_name", "str"),
         ('pppoe.tag(m, pppoe.host_uniq) else ""', "pppoed.tags.host_uniq", "hex"), ('pppoe.tag(m, pppoe.ac_cookie) else ""', "pppoed.tags.ac_cookie", "hex")]

# Frame, the function that cuts off its headers, unit, expressions over the message `m`. Each
# expression has tshark's field and the way to read its text.
MESSAGES = [
    (dgram(4000, 53, DNS(id=0x1234, rd=1, cd=1, qd=DNSQR(qname="www.example.org", qtype="AAAA"), ar=DNSRROPT(rclass=1232))), UDP, "dns.Message",
     HEADER + [("u16(m.additionals[0].type)", "dns.resp.type"), ("m.additionals[0].class", "dns.rr.udp_payload_size")]),
    (dgram(53, 4000, DNS(id=7, qr=1, aa=1, rd=1, ra=1, ad=1, qd=DNSQR(qname=NAME, qtype="ALL"),
                         an=DNSRR(rrname=NAME, ttl=300, rdata="192.0.2.33") / DNSRR(rrname=NAME, type="AAAA", ttl=301, rdata="2001:db8::1")
                         / DNSRRMX(rrname=NAME, type=15, ttl=2, preference=10, exchange="mx.example.org")
                         / DNSRR(rrname=NAME, type="TXT", ttl=5, rdata=[b"v=spf1 -all"]),
                         ns=DNSRR(rrname=NAME, type="NS", ttl=9, rdata="ns1.example.org"),
                         ar=DNSRRSRV(rrname="_sip._udp.example.org", type=33, priority=1, weight=2, port=5060, target="sip.example.org", ttl=77))),
     UDP, "dns.Message", HEADER + ANSWER + [
        ("text(m.answers[0].data.a else 0.0.0.0)", "dns.a", "str"), ("m.answers[0].ttl", "dns.resp.ttl"), ("m.answers[0].size", "dns.resp.len"),
        ("if let x = m.answers[1].data.aaaa { text(x) } else { \"\" }", "dns.aaaa", "str"), ("m.answers[1].ttl", "dns.resp.ttl#1"),
        ("if let x = m.answers[2].data.mx { x.preference } else { 0 }", "dns.mx.preference"),
        ("if let x = m.answers[2].data.mx { dns.dotted(x.exchange) } else { \"\" }", "dns.mx.mail_exchange", "name"),
        ("if let x = m.answers[3].data.txt { x[0].text } else { \"\" }", "dns.txt", "str"), ("u16(m.answers[3].type)", "dns.resp.type#3"),
        ("if let x = m.authorities[0].data.ns { dns.dotted(x) } else { \"\" }", "dns.ns", "name"),
        ("if let x = m.additionals[0].data.srv { x.priority } else { 0 }", "dns.srv.priority"),
        ("if let x = m.additionals[0].data.srv { x.weight } else { 0 }", "dns.srv.weight"),
        ("if let x = m.additionals[0].data.srv { x.port } else { 0 }", "dns.srv.port"),
        ("if let x = m.additionals[0].data.srv { dns.dotted(x.target) } else { \"\" }", "dns.srv.target", "name")]),
    (dgram(53, 4000, DNS(id=8, qr=1, rcode=3, qd=DNSQR(qname="no.example", qtype="A"),
                         ns=DNSRRSOA(rrname="example", mname="a.example", rname="b.example", serial=2024, refresh=1, retry=2, expire=3, minimum=4))),
     UDP, "dns.Message", HEADER + ANSWER + [
        (f"if let x = m.authorities[0].data.soa {{ {e} }} else {{ {z} }}", f"dns.soa.{f}", *k) for e, z, f, k in (
            ("dns.dotted(x.mname)", '""', "mname", ("name",)), ("dns.dotted(x.rname)", '""', "rname", ("name",)),
            ("x.serial", 0, "serial_number", ()), ("x.refresh", 0, "refresh_interval", ()), ("x.retry", 0, "retry_interval", ()),
            ("x.expire", 0, "expire_limit", ()), ("x.minimum", 0, "minimum_ttl", ()))]),
    (dgram(68, 67, BOOTP(op=1, xid=0x12345678, secs=3, flags=0x8000, hops=1, ciaddr="10.0.0.1", yiaddr="10.0.0.2", siaddr="10.0.0.3",
                         giaddr="10.0.0.4", chaddr=bytes.fromhex("020000000001"), sname=b"srv", file=b"boot")
           / DHCP(options=[("message-type", "request"), ("hostname", b"box"), ("requested_addr", "10.0.0.9"), ("server_id", "10.0.0.3"),
                           ("lease_time", 3600), "pad", "end"])), UDP, "dhcp.Message",
     [("u8(m.op)", "dhcp.type"), ("m.htype", "dhcp.hw.type"), ("m.hlen", "dhcp.hw.len"), ("m.hops", "dhcp.hops"), ("m.xid", "dhcp.id"),
      ("m.secs", "dhcp.secs"), ("m.broadcast", "dhcp.flags.bc"), ("text(m.ciaddr)", "dhcp.ip.client", "str"), ("text(m.yiaddr)", "dhcp.ip.your", "str"),
      ("text(m.siaddr)", "dhcp.ip.server", "str"), ("text(m.giaddr)", "dhcp.ip.relay", "str"), ("m.chaddr", "dhcp.hw.mac_addr", "hex"),
      ("slice(m.sname, 0, 3)", "dhcp.server", "str"), ("slice(m.file, 0, 4)", "dhcp.file", "str"),
      ("u8(dhcp.kind(m) else dhcp.Kind.nak)", "dhcp.option.dhcp"), ('dhcp.option(m, 12) else ""', "dhcp.option.hostname", "str"),
      ("dhcp.address(m, 50) else 0", "dhcp.option.requested_ip_address", "ip"), ("dhcp.address(m, 54) else 0", "dhcp.option.dhcp_server_id", "ip")]),
    (dgram(123, 123, NTP(leap=1, version=4, mode=4, stratum=2, poll=6, precision=RawVal(b"\xec"), delay=0.5, dispersion=0.25, id="192.0.2.99", ref=3892314112,
                         orig=3892314113, recv=3892314114, sent=3892314115)), UDP, "ntp.Message",
     [("m.leap", "ntp.flags.li"), ("m.version", "ntp.flags.vn"), ("u8(m.mode)", "ntp.flags.mode"), ("m.stratum", "ntp.stratum"), ("u8(m.poll)", "ntp.ppoll"),
      ("u8(m.precision)", "ntp.precision", "byte"), ("m.root_delay", "ntp.rootdelay"), ("m.root_dispersion", "ntp.rootdispersion"),
      ("m.reference_id", "ntp.refid", "hex")]),
    (dgram(40000, 1812, Radius(code=1, id=7, authenticator=b"0123456789abcdef", attributes=[RadiusAttr_NAS_Port_Type(value=5), RadiusAttr_User_Name(value=b"ann")])),
     UDP, "radius.Message",
     [("u8(m.code)", "radius.code"), ("m.id", "radius.id"), ("m.size", "radius.length"), ("m.authenticator", "radius.authenticator", "hex"),
      ('radius.attribute(m, radius.user_name) else ""', "radius.User_Name", "str"), ('from_be32(radius.attribute(m, 61) else "")', "radius.NAS_Port_Type")]),
    (dgram(5004, 5004, RTP(version=2, extension=1, numsync=2, marker=1, payload_type=8, sequence=4242, timestamp=160, sourcesync=0xDEADBEEF, sync=[1, 2])
           / b"\xbe\xde\0\x01\x10\xaa\0\0sound"), UDP, "rtp.Packet",
     [("m.version", "rtp.version"), ("m.padded", "rtp.padding"), ("m.extended", "rtp.ext"), ("m.csrcs", "rtp.cc"), ("m.marker", "rtp.marker"),
      ("m.type", "rtp.p_type"), ("m.sequence", "rtp.seq"), ("m.timestamp", "rtp.timestamp"), ("m.ssrc", "rtp.ssrc"), ("m.sources[0]", "rtp.csrc.item"),
      ("m.sources[1]", "rtp.csrc.item#1"), ("if let e = m.extension { e.profile } else { 0 }", "rtp.ext.profile"),
      ("if let e = m.extension { e.words } else { 0 }", "rtp.ext.len"), ("m.payload", "rtp.payload", "hex")]),
    (dgram(2152, 2152, GTP_U_Header(teid=0x10203, S=1, seq=77, E=1, next_ex=0x85, gtp_type=255) / GTPPDUSessionContainer(type=0, QFI=9) / IN4 / U / b"hi"),
     UDP, "gtp.Packet",
     [("m.header.version", "gtp.flags.version"), ("m.header.type", "gtp.message"), ("m.header.size", "gtp.length"), ("m.header.teid", "gtp.teid"),
      ("if let o = m.optional { o.of.sequence } else { 0 }", "gtp.seq_number"), ("if let o = m.optional { o.of.next } else { 0 }", "gtp.ext_hdr.next"),
      ("if let o = m.optional { o.extensions[0].size } else { 0 }", "gtp.ext_hdr.length")]),
    (dgram(5060, 5060, b"INVITE sip:bob@example.org SIP/2.0\r\n" + SIP), UDP, "sip.Message",
     INVITE + [('if let r = m.request { r.method } else { "" }', "sip.Method", "str"), ('if let r = m.request { r.uri } else { "" }', "sip.r-uri", "str")]),
    (dgram(5060, 5060, b"SIP/2.0 180 Ringing\r\n" + SIP), UDP, "sip.Message",
     INVITE + [("if let s = m.status { s.code } else { 0 }", "sip.Status-Code")]),
    (dgram(4433, 443, bytes.fromhex("c3000000010461626364027879017440") + b"\x40" + b"z" * 64), UDP, "quic.Long",
     LONG + [("m.type", "quic.long.packet_type"), ("if let i = m.initial { i.token_size.value } else { 9 }", "quic.token_length"),
             ("if let i = m.initial { i.token } else { \"\" }", "quic.token", "hex"), ("if let i = m.initial { i.size.value } else { 0 }", "quic.length")]),
    (dgram(4433, 443, bytes.fromhex("e000000001046162636402787914") + b"h" * 20), UDP, "quic.Long",
     LONG + [("m.kind", "quic.long.packet_type"), ("if let s = m.sealed { s.size.value } else { 0 }", "quic.length")]),
    (dgram(443, 4433, bytes.fromhex("f0000000010002") + b"xy" + b"token" + b"\0" * 16), UDP, "quic.Long",
     LONG[:3] + LONG[4:] + [("if let r = m.retry { slice(r, 0, 5) } else { \"\" }", "quic.retry_token", "hex")]),
    (dgram(443, 4433, bytes.fromhex("80000000000461626364027879000000016b3343cf")), UDP, "quic.Long",
     LONG + [("if let v = m.versions { v[0] } else { 0 }", "quic.supported_version"), ("if let v = m.versions { v[1] } else { 0 }", "quic.supported_version#1")]),
    (ETH / PPPoED(code=0x07) / PPPoED_Tags(tag_list=[PPPoETag(tag_type=0x0101, tag_value=b"internet"), PPPoETag(tag_type=0x0102, tag_value=b"bras-7"),
                                                     PPPoETag(tag_type=0x0103, tag_value=b"\1\2\3\4"), PPPoETag(tag_type=0x0104, tag_value=b"c" * 20)]),
     PPPoED, "pppoe.Tags", PPPOE),
    (ETH / V4 / TCP(sport=4001, dport=443, flags="PA") / hello(), TCP, "tls.Opening",
     [("u8(m.type)", "tls.record.content_type"), ("m.version", "tls.record.version"), ("m.record_size", "tls.record.length"),
      ("u8(m.kind)", "tls.handshake.type"), ("m.size", "tls.handshake.length"), ("m.hello.version", "tls.handshake.version"),
      ("m.hello.random", "tls.handshake.random", "hex"), ("m.hello.session_size", "tls.handshake.session_id_length"),
      ("m.hello.session", "tls.handshake.session_id", "hex"), ("m.hello.ciphers_size", "tls.handshake.cipher_suites_length"),
      ("m.hello.ciphers[0]", "tls.handshake.ciphersuite"), ("m.hello.ciphers[1]", "tls.handshake.ciphersuite#1"),
      ("m.hello.compressions", "tls.handshake.comp_methods_length"),
      ("if let x = m.hello.extensions { x.size } else { 0 }", "tls.handshake.extensions_length"),
      ("if let x = m.hello.extensions { x.list[0].type } else { 99 }", "tls.handshake.extension.type"),
      ("if let x = m.hello.extensions { x.list[1].size } else { 99 }", "tls.handshake.extension.len#1"),
      ('tls.server_name(m.hello) else ""', "tls.handshake.extensions_server_name", "str"),
      ('u8(if tls.offers(m.hello, "h2") { 1 } else { 0 })', "tls.handshake.extensions_alpn_str", "h2")]),
]
AS = ["-d", "udp.port==5004,rtp", "-d", "udp.port==4433,quic", "-d", "udp.port==2152,gtp", "-d", "udp.port==6081,geneve", "-d", "udp.port==4789,vxlan"]


def kind_of(member):
    if member.rstrip("123456789") == "ext":  # options in all frames here
        return "dest"
    return member.removeprefix("inner_").rstrip("123456789") if not member.endswith(("ip4", "ip6", "icmp6")) else member.removeprefix("inner_")


def app():
    """Logs, for every frame, a line for each header in it, and one at its end."""
    body = []
    for member, fields in FIELDS.items():
        over = [e.replace("(.", f"(p.{member}.") if "(." in e else f"p.{member}{e}" for e, *_ in fields]
        logged = "".join(f', " ", {e}' for e in over)
        body.append(f'        if p.{member} {{ log "@ ", n, " {member}"{logged} }}')
    return "\n".join(["app fields {", '    port wire = pcap("none")', "", "    state n: u64", "", "    on wire(p) {", *body,
                      '        log "@ ", n, " end"', "        n += 1", "    }", "}", ""])


def columns(path, fields):
    """Frame by frame, the values of each field."""
    names = sorted({a for f in fields for a in f.split("#")[0].split("|")})
    lines = tshark(path, *AS, "-T", "fields", "-E", "separator=/t", "-E", "aggregator=\x01", *[x for n in names for x in ("-e", n)])
    return [dict(zip(names, (c.split("\x01") if c else [] for c in line.split("\t")))) for line in lines]


def number(value):
    """tshark's text as a number where it is one."""
    if value.count(":") == 5:
        return int(value.replace(":", ""), 16)
    if value.count(".") == 3:
        return int(ipaddress.ip_address(value))
    if value in ("True", "False"):
        return int(value == "True")
    return int(value, 0)


def literal(data):
    return '"' + "".join(f"\\x{b:02x}" for b in data) + '"'


def expected(value, kind):
    """tshark's text as a Loom expression."""
    if kind == "str":
        return json.dumps(value)
    if kind == "name":
        return json.dumps(value + ".")
    if kind == "hex":
        return literal(bytes.fromhex(value.replace(":", "")))
    if kind == "h2":
        return str(int(value == "h2"))
    if kind == "byte":
        return str(number(value) & 0xFF)
    return str(number(value))


def messages(folder):
    """units.loom: a test for each message, an `expect` for each field; payloads.json."""
    frames = [(START + i * NS, bytes(m[0])) for i, m in enumerate(MESSAGES)]
    write(f"{folder}/messages.pcap", frames)
    rows = columns(f"{folder}/messages.pcap", [f[1] for m in MESSAGES for f in m[3]])
    need(len(rows) == len(MESSAGES), "tshark reads", len(rows), "frames")
    out, payloads, count = [f"use std.{u}" for u in sorted({m[2].split(".")[0] for m in MESSAGES})], [], 0
    for i, ((frame, below, unit, fields), row) in enumerate(zip(MESSAGES, rows)):
        data = bytes(frame[below].payload)
        payloads.append({"module": unit.split(".")[0], "unit": unit, "bytes": data.hex()})
        out += ["", f'test "message {i}: {unit}" {{', f"    let m = parse {unit}({literal(data)}) else {{ expect false; return }}"]
        for expr, field, *kind in fields:
            name, _, nth = field.partition("#")
            values = row[name]
            need(len(values) > int(nth or 0), unit, "message", i, ": tshark has no", field, values)
            if values[0] == "" and kind == ["hex"]:
                continue
            out.append(f"    expect ({expr}) == {expected(values[int(nth or 0)], (kind or ['n'])[0])}")
            count += 1
        out.append("}")
    need(count >= 150, "only", count, "field values of messages")
    with open(f"{folder}/units.loom", "w") as f:
        f.write("\n".join(out) + "\n")
    save(folder, "payloads.json", payloads)


def make(folder):
    frames = [bytes(p) for _, p in FRAMES]
    write(f"{folder}/frames.pcap", [(START + i * NS, b) for i, b in enumerate(frames)])
    with open(f"{folder}/fields.loom", "w") as f:
        f.write(app())
    messages(folder)
    cut = [(i, f[:n], n) for i, f in enumerate(frames) for n in range(len(f))]
    for name, full in (("cut", False), ("snap", True)):
        with open(f"{folder}/{name}.pcap", "wb") as f:
            f.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
            for i, b, n in cut:
                f.write(struct.pack("<IIII", 1_700_000_000, 0, n, len(frames[i]) if full else n) + b)
    flips = [(START, f[:k] + bytes([f[k] ^ x]) + f[k + 1:]) for f in frames for k in range(len(f)) for x in (1, 0x80, 0xFF)]
    write(f"{folder}/broken.pcap", flips)
    save(folder, "cut.json", [(i, n) for i, _, n in cut])


def said(path):
    """What the app logged: for each frame its headers in order, each with its values."""
    frames, now = [], []
    for line in open(path, errors="replace"):
        if "@ " not in line:
            continue
        n, member, *values = line[line.index("@ ") + 2:].split()
        need(int(n) == len(frames), path, ": frame", n, "where", len(frames), "is expected")
        if member == "end":
            frames.append(now)
            now = []
        else:
            now.append((member, values))
    return frames


def agree(ours, field, value):
    if field in ("tcp.options", "ah.icv"):
        return int(ours) == zlib.crc32(bytes.fromhex(value.replace(":", "")))
    if field.endswith(("ipv6.src", "ipv6.dst")):
        return canonical(ours) == canonical(value)
    return int(ours) == number(value)


def fields(folder):
    rows = columns(f"{folder}/frames.pcap", [f for fs in FIELDS.values() for _, f in fs])
    compared, seen = 0, set()
    frames = said(f"{folder}/frames.log")
    need(len(frames) == len(FRAMES), len(frames), "frames of", len(FRAMES))
    for i, ((want, _), got, row) in enumerate(zip(FRAMES, frames, rows)):
        order = want.split()
        need(sorted(m for m, _ in got) == sorted(order), f"frame {i} has {[m for m, _ in got]}, not {order}")
        for member, values in got:
            nth = [kind_of(m) for m in order[:order.index(member)]].count(kind_of(member))
            for ours, (expr, field) in zip(values, FIELDS[member]):
                theirs = [v for a in field.split("|") for v in row[a]]
                if field == "ip.version":  # which tshark says of IPv6, too
                    theirs = [v for v in theirs if v != "6"]
                if field == "vlan.etype":  # tshark shows no type in outer tags of 802.1ad
                    theirs = [None] * len(row["ieee8021ad.id"]) + theirs
                if len(theirs) <= nth or theirs[nth] is None:
                    need(field in OPTIONAL or theirs, f"frame {i} {member}: tshark has no {field} number {nth}")
                    continue
                need(agree(ours, field, theirs[nth]), f"frame {i} {member}{expr}: {ours}, and tshark's {field} is {theirs[nth]}")
                compared += 1
                seen.add((member, field))
    missed = {(m, f) for m, fs in FIELDS.items() for _, f in fs} - seen
    need(not missed, "never compared:", sorted(missed))
    need(compared >= 1000, "only", compared, "values compared")


# Not all have all: a destination unreachable has no number, a segment without options none of them.
OPTIONAL = {"gtp.npdu_number", "gtp.ext_hdr.next", "tcp.options", "gre.key", "gre.sequence_number", "icmp.ident", "icmp.seq"}


def damaged(folder):
    """A prefix has no more than what the whole frame has, and no header behind one that is cut off; a longer one never has less."""
    for name in ("cut", "snap"):
        frames, before = said(f"{folder}/{name}.log"), (-1, 0)
        want = load(folder, "cut.json")
        need(len(frames) == len(want), name, ":", len(frames), "frames of", len(want))
        for (i, n), got in zip(want, frames):
            order, have = FRAMES[i][0].split(), [m for m, _ in got]
            need(sorted(have) == sorted(order[:len(have)]), name, f"frame {i} cut to {n} bytes has {have}")
            need(before[0] != i or len(have) >= before[1], name, f"frame {i} cut to {n} bytes has {have}, and less of it more")
            need(n >= 14 or not have, name, f"frame {i} cut to {n} bytes has {have}")
            before = (i, len(have))
    broken = said(f"{folder}/broken.log")
    need(len(broken) == sum(3 * len(bytes(p)) for _, p in FRAMES), len(broken), "broken frames")
    for i, got in enumerate(broken):
        have = [m for m, _ in got]
        need(have[:1] == ["eth"], f"broken frame {i} has {have}")
        inner = [m for m in have if m.startswith("inner_")]
        need(not inner or {"gre", "vxlan", "geneve", "gtp", "ip4", "ip6"} & set(have), f"broken frame {i} has {have}")


def check(folder):
    fields(folder)
    damaged(folder)


main(make, check)
