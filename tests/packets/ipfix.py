"""flow_tracker's export: what the app sent to a collector is decoded here, by tshark and by nfdump, and compared with the flows that were made."""
import signal
import socket
import time

from common import *

MS = 1_000_000


def key(src, dst, sport, dport, proto):
    return "|".join(str(x) for x in (ipaddress.ip_address(src), ipaddress.ip_address(dst), sport, dport, proto))


def make(folder):
    flows, frames = {}, []

    def send(t, src, dst, sport, dport, proto, data, flags=0x10):
        six = ":" in src
        inner = tcp(src, dst, sport, dport, data, flags=flags) if proto == 6 else udp(src, dst, sport, dport, data)
        packet = ip6(src, dst, proto, inner) if six else ip4(src, dst, proto, inner)
        frames.append((t, ether(0x86DD if six else 0x0800) + packet))
        row = flows.setdefault(key(src, dst, sport, dport, proto), [0, 0, t // MS, t // MS])
        row[0] += 1
        row[1] += len(packet)
        row[3] = t // MS

    plan = []
    for i in range(600):
        six = i % 5 == 0
        src, dst = (f"2001:db8::{i:x}", "2001:db8:1::1") if six else (f"10.1.{i >> 8}.{i & 255}", "192.0.2.7")
        begin = START + random.randrange(60 * NS)
        for n in range(random.randint(1, 9)):
            plan.append((begin + n * 400 * MS, src, dst, 1024 + i, 443 if i % 2 else 53, 6 if i % 2 else 17, b"x" * random.randrange(200)))
    for n in range(170):
        plan.append((START + n * NS, "10.9.9.9", "192.0.2.1", 5000, 6000, 17, b"long" * (n % 20)))
    # Connections from SYN to FIN or RST, with packets behind a FIN. The last ten ports serve a
    # second one half a second later.
    ended = {}
    for i in range(40):
        src, dst = (f"2001:db8:9::{i:x}", "2001:db8:1::1") if i % 4 == 0 else (f"10.8.0.{i}", "192.0.2.8")
        begin = START + 20 * NS + i * 300 * MS
        for again in range(2 if i >= 30 else 1):
            turns = [0x02, 0x10, 0x18, 0x11, 0x10, 0x10] if i % 3 else [0x02, 0x10, 0x14]
            for n, flags in enumerate(turns):
                plan.append((begin + again * 500 * MS + n * 20 * MS, src, dst, 2000 + i, 80, 6, b"y" * (n % 3), flags))
            ended.setdefault(key(src, dst, 2000 + i, 80, 6), []).append(len(turns))
    for row in sorted(plan):
        send(*row)
    save(folder, "ended.json", ended)
    write(os.path.join(folder, "in.pcap"), frames)
    save(folder, "expected.json", flows)


def messages(folder):
    data = open(os.path.join(folder, "messages.bin"), "rb").read()
    out = []
    while data:
        n = struct.unpack("!I", data[:4])[0]
        out.append(data[4:4 + n])
        data = data[4 + n:]
    return out


def decode(all_messages):
    """Records as dicts by information element, and those of options by template. RFC 7011, section 3."""
    templates, records, next_sequence, options, about, before = {}, [], {}, set(), {}, {}
    for m in all_messages:
        version, length, when, sequence, domain = struct.unpack("!HHIII", m[:16])
        need(version == 10 and length == len(m) <= 1472, "a message says", version, length, "and has", len(m))
        need(abs(when - START // NS) < 1000, "its time is", when)
        need(sequence == next_sequence.get(domain, 0), "domain", domain, "sequence", sequence, "for", next_sequence.get(domain, 0))
        at, count = 16, 0
        while at < length:
            kind, size = struct.unpack("!HH", m[at:at + 4])
            need(4 <= size <= length - at, "a set of", size)
            body, at = m[at + 4:at + size], at + size
            if kind == 2:
                while len(body) >= 4:
                    number, n = struct.unpack("!HH", body[:4])
                    templates[domain, number] = [struct.unpack("!HH", body[4 + 4 * i:8 + 4 * i]) for i in range(n)]
                    body = body[4 + 4 * n:]
                need(not body, "a template set has", len(body), "bytes left")
                continue
            if kind == 3:
                while len(body) >= 6:
                    number, n, scopes = struct.unpack("!HHH", body[:6])
                    need(1 <= scopes <= n, "options with", scopes, "scopes of", n, "fields")
                    templates[domain, number] = [struct.unpack("!HH", body[6 + 4 * i:10 + 4 * i]) for i in range(n)]
                    options.add(number)
                    body = body[6 + 4 * n:]
                need(not body, "a set of options templates has", len(body), "bytes left")
                continue
            need((domain, kind) in templates, "records before their template", kind)
            fields, p = templates[domain, kind], 0
            while p < len(body):
                record = {"domain": domain, "at": len(records), "before": before.get(domain, (0, 0, 0))}
                for element, n in fields:
                    if n == 65535:
                        n, p = body[p], p + 1
                        need(n < 255, "a long name")
                    need(p + n <= len(body), "a data set of", len(body), "bytes for records of", fields)
                    record.setdefault(element, body[p:p + n])
                    p += n
                (about.setdefault(kind, []) if kind in options else records).append(record)
                count += 1
        next_sequence[domain] = sequence + count
        b = before.get(domain, (0, 0, 0))
        before[domain] = (b[0] + 1, sum(r["domain"] == domain for r in records), b[2] + length)
    return records, about


def number(b):
    return int.from_bytes(b, "big")


def same(expected, sums, who):
    need(sums.keys() == expected.keys(), who, "has", len(sums), "flows of", len(expected), list(set(sums) ^ set(expected))[:5])
    for k, row in sums.items():
        need(row == expected[k][:len(row)], who, k, row, "expected", expected[k])


def check(folder, domains):
    expected = json.load(open(os.path.join(folder, "expected.json")))
    sent = messages(folder)
    records, about = decode(sent)
    describes(about, int(domains))
    sums, reasons, ends = {}, {}, {}
    for r in records:
        src, dst = (r[8], r[12]) if 8 in r else (r[27], r[28])
        k = key(number(src) if len(src) == 4 else ipaddress.IPv6Address(src), number(dst) if len(dst) == 4 else ipaddress.IPv6Address(dst), number(r[7]), number(r[11]), number(r[4]))
        first, last = number(r[152]), number(r[153])
        need(first <= last, k, "ends before it begins")
        row = sums.setdefault(k, [0, 0, first, last])
        row[0], row[1] = row[0] + number(r[2]), row[1] + number(r[1])
        row[2], row[3] = min(row[2], first), max(row[3], last)
        reasons.setdefault(number(r[136]), []).append(k)
        if number(r[136]) == 3:
            ends.setdefault(k, []).append(number(r[2]))
    same(expected, sums, "the export")
    ended = load(folder, "ended.json")
    need(ends == ended, "connections that ended:", {k: (ends.get(k), ended.get(k)) for k in ends.keys() | ended.keys() if ends.get(k) != ended.get(k)})
    need(set(reasons) == {1, 2, 3, 4}, "flows ended for", {n: len(k) for n, k in reasons.items()})
    long = key("10.9.9.9", "192.0.2.1", 5000, 6000, 17)
    need(reasons[2].count(long) == 2 and long in reasons[4], "the long flow was sent", reasons[2].count(long), "times while it went on")
    need(len({r["domain"] for r in records}) == int(domains), "domains", {r["domain"] for r in records})
    sets = sum(1 for m in sent if m[16:18] == b"\0\2")
    all_options = sum(len(rows) for rows in about.values())
    need(sets >= 2 * int(domains), "templates were sent", sets, "times")
    tshark(folder, sent, len(records) + all_options)
    nfdump(folder, sent, expected)


def describes(about, domains):
    """What the exporter says of itself (section 4): with the templates, and at the end."""
    need(set(about) == {258, 259, 260, 261}, "options are", set(about))
    for r in about[258]:
        counts = tuple(number(r[n]) for n in (41, 42, 40))
        need(number(r[149]) == r["domain"] and counts == r["before"], "domain", r["domain"], "says it has sent", counts, "messages, flows and octets, not", r["before"])
    need(len(about[258]) >= 3 * domains, "statistics were sent", len(about[258]), "times")
    for r in about[259]:
        need(number(r[144]) == r["domain"] and not any(number(r[n]) for n in (166, 167, 168, 323)), "flows were lost", r)
    for r in about[260]:
        need(number(r[145]) in (256, 257) and number(r[173]) == 0x1F, "keys are", r)
    for r in about[261]:
        need(number(r[149]) == r["domain"] and r[300] == b"edge one", "the name is", r)


def tshark(folder, sent, count):
    path = os.path.join(folder, "export.pcap")
    write(path, [(START + i, ether(0x0800) + ip4("10.0.0.1", "10.0.0.2", 17, udp("10.0.0.1", "10.0.0.2", 40000, 4739, m))) for i, m in enumerate(sent)])
    out = subprocess.run(["tshark", "-r", path, "-d", "udp.port==4739,cflow", "-V"], capture_output=True, text=True, check=True).stdout
    for bad in ["alformed", "Expert Info (Warn", "Expert Info (Error", "No template found"]:
        need(bad not in out, "tshark:", bad, out[max(0, out.find(bad) - 400):out.find(bad) + 200])
    need(out.count("\n        Flow ") == count, "tshark shows", out.count("\n        Flow "), "records of", count)
    for shown in ["Options Template (Id = 258)", "Scope Field Count", "Observation Domain Name: edge one", "End of Flow detected (3)"]:
        need(shown in out, "tshark does not show", shown)


def nfdump(folder, sent, expected):
    """nfcapd hears the messages, nfdump reads what it has stored."""
    store = os.path.join(folder, "store")
    os.makedirs(store, exist_ok=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    daemon = subprocess.Popen(["nfcapd", "-w", store, "-b", "127.0.0.1", "-p", str(port), "-B", "4000000"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        end = time.time() + 60
        listening = f":{port:04X} "
        while not any(listening in line for line in open("/proc/net/udp")):
            need(daemon.poll() is None and time.time() < end, "nfcapd does not listen")
            time.sleep(0.02)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            for m in sent:
                s.sendto(m, ("127.0.0.1", port))
                time.sleep(0.002)
        time.sleep(1)
    finally:
        daemon.send_signal(signal.SIGTERM)
        said = daemon.communicate(timeout=60)[0]
    out = subprocess.run(["nfdump", "-R", store, "-q", "-N", "-6", "-o", "fmt:%sa|%da|%sp|%dp|%pr|%pkt|%byt"], capture_output=True, text=True, check=True).stdout
    sums = {}
    protocols = {"TCP": 6, "UDP": 17, "6": 6, "17": 17}
    for line in out.splitlines():
        parts = [x.strip() for x in line.split("|")]
        if len(parts) != 7:
            continue
        row = sums.setdefault(key(parts[0], parts[1], int(parts[2]), int(parts[3]), protocols[parts[4]]), [0, 0])
        row[0], row[1] = row[0] + int(parts[5]), row[1] + int(parts[6])
    need(sums, "nfdump shows nothing:", out[:500], said[-1500:])
    same(expected, sums, "nfdump")
    need("Sequence failures: 0" in said or "sequence failure" not in said.lower(), said[-1500:])



main(make, check)
