#!/usr/bin/env python3
"""How long a user waits: `check` of each app, and from the start of `run` to the first answer, cold and warm.

In: the binary under test (WIRELOOM, or target/release/wireloom) and apps/. Out: a table between the marks of
bench/README.md and the figures as JSON in bench/results/startup/latest.json; with --print only the table, on the terminal.

  cold   nothing in the cache: C is generated, compiled with clang or gcc, loaded, and the first request answered, by code that is not
         optimised. Network functions run on a capture of one frame, and the end of the run counts
  optimised  the same by `run --optimized`, which compiles with all optimisations first; without it that is done beside the service
  warm   the compiled program is in the cache
  interpreted   the same request by `run --interpret`, which needs no C compiler
  check  the whole process of `wireloom check APP`
"""
import argparse, contextlib, datetime, json, os, pathlib, platform, select, shutil, socket, statistics, struct, subprocess, sys, tempfile, textwrap, threading, time

from compiled_by import compiled_by
from filled import filled

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- startup:begin -->", "<!-- startup:end -->"
HTTP = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
NOOP = bytes([0x80, 0x0A]) + bytes(22)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
# The first request, the beginning of its answer, and a backend's answer to any request.
ASK = {
    "static_web": (HTTP, b"HTTP/1.1 200", None),
    "http_balancer": (HTTP, b"HTTP/1.1 200", OK),
    "http_cache": (HTTP, b"HTTP/1.1 200", OK),
    "websocket_gateway": (HTTP, b"HTTP/1.1 200", None),
    "kv_server": (b"version\r\n", b"VERSION", None),
    "memcached_proxy": (b"get a\r\n", b"END\r\n", b"END\r\n"),
    "memcached_proxy_brief": (NOOP, b"\x81\x0a", b"\x81\x0a" + bytes(22)),
    "kv_cache": (b"get a\r\n", b"END\r\n", b"END\r\n"),
    # A request for TLS, and a mail server that is not there: both are answered by the program.
    "postgres_proxy": (b"\0\0\0\x08\x04\xd2\x16\x2f", b"N", None),
    "mqtt_balancer": (b"\x10\x0f\0\x04MQTT\x04\x02\0\x3c\0\x03ann", b"\x20\x02", b"\x20\x02\0\0"),
    "mqtt_broker": (b"\x10\x0f\0\x04MQTT\x04\x02\0\x3c\0\x03ann", b"\x20\x02", None),
    "beanstalk_proxy": (b"list-tube-used\r\n", b"USING default\r\n", b"USING default\r\n"),
    "smtp_gateway": (b"NOOP\r\n", b"421", None),
    # An alert, as these bytes are no TLS; and a server that is not there.
    "tls_router": (b"GET / HTTP/1.1\r\n\r\n", b"\x15\x03\x03", None),
    "mysql_proxy": (b"\0", b"\x25\0\0\0\xff", None),
    "redis_proxy": (b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", b"$-1\r\n", b"$-1\r\n"),
}
# The mappers of the merge, and a stream of each. A merge has no answers: the stream at its reducer
# is its first service.
MAPPERS, STREAM, MERGED = 8, b"a\t1\n\n", b"a\t8\n"

# Services over UDP: the same, in datagrams. Programs number their own questions, so the backend's
# answer begins with the question's id.
QUESTION = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\0\0\x01\0\x01"
NO_RECORDS = b"\x81\x80\0\x01\0\0\0\0\0\0\x07example\0\0\x01\0\x01"
SYSLOG = b"<34>Oct 11 22:14:15 mymachine su: failed"
UDP = {
    "dns_cache": (QUESTION, b"\x12\x34" + NO_RECORDS, lambda q: q[:2] + NO_RECORDS),
    "dns_forwarder": (QUESTION, b"\x12\x34" + NO_RECORDS, lambda q: q[:2] + NO_RECORDS),
    "memcached_udp_proxy": (b"\x12\x34\0\0\0\x01\0\0get a\r\n", b"\x12\x34\0\0\0\x01\0\0END\r\n", lambda q: q[:2] + b"\0\0\0\x01\0\0END\r\n"),
    # Has no answers: the message at its collector is its first service.
    "syslog_relay": (SYSLOG, SYSLOG, None),
    "statsd_relay": (b"gorets:1|c", b"gorets:1|c", None),
}
SERVERS = {"word_count_combiner": "reducer", "mqtt_balancer": "brokers", "kv_cache": "server", "dns_cache": "resolvers", "dns_forwarder": "resolvers", "syslog_relay": "collectors", "statsd_relay": "collectors"}
# Apps without ports: other programs call their segments.
CALLED = ["top_users"]

# UDP from 198.51.100.7 to 192.0.2.1, and how an app is told to handle it: "{in}" is the capture,
# "{out}" a file for what it writes.
FRAME = bytes.fromhex("020000000002020000000001080045000020000100004011") + bytes.fromhex("8e90" "c6336407" "c0000201" "0fa00035000c0000") + b"data"
PACKETS = {
    "aes_gateway": "--set key=0123456789abcdef0123456789abcdef --bind plain=pcap:{in} --bind secret=pcap:{out}",
    "ddos_filter": "--bind wire=pcap:{in} --bind samples=pcap:{out}",
    "dns_tap": "--bind lan=pcap:{in} --bind mon=pcap:{out}",
    "dpi_balancer": "--bind lan=pcap:{in} --bind workers=pcap:{out},null,null",
    "flow_classifier": "--bind wire=pcap:{in} --set least=1 --dump heavy={out}",
    "flow_tracker": "--bind wire=pcap:{in} --dump flows={out}",
    "ipsec_gateway": "--bind plain=pcap:{in} --bind wire=pcap:{out}",
    "l4_balancer": "--bind wire=pcap:{in} --set vip=192.0.2.1 --set dips=10.0.0.1 --bind out=pcap:{out}",
    "learning_switch": "--bind ports=pcap:{in},null,null,null",
    "nat44": "--set public=203.0.113.1 --bind lan=pcap:{in} --bind wan=pcap:{out}",
    "network_sequencer": "--bind wire=pcap:{in} --bind out=pcap:{out}",
    "openflow_firewall": "--bind wire=pcap:{in} --set otherwise=accept --bind accepted=pcap:{out}",
    "packet_capture": "--bind wire=pcap:{in} --bind loggers=null,null,pcap:{out},null",
    # Has no input: its first frames count, in the file.
    "packet_generator": "--set rate=100000 --bind wire=pcap:{out}",
    "pfabric_scheduler": "--bind wire=pcap:{in} --bind link=pcap:{out}",
    "port_knocking": "--bind wire=pcap:{in} --dump stage={out}",
    "xdp_firewall": "--bind wire=pcap:{in}",
    "xdp_kv_cache": "--bind outside=pcap:{in} --bind inside=pcap:{out}",
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def backend(answer):
    """A server on loopback that says `answer` to whatever it receives; its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(conn):
        try:
            while conn.recv(65536):
                conn.sendall(answer)
        except OSError:
            pass

    def accept():
        while True:
            conn, _ = listener.accept()
            threading.Thread(target=serve, args=(conn,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def environment(cache):
    env = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    env.pop("WIRELOOM_START", None)
    return env


class Run:
    """An app on a free port, until the end of the `with`. Then `took` has the seconds to its first
    answer, and `cpu` its CPU seconds, the C compiler's included."""

    def __init__(self, app, binary, cache, extra, servers=None):
        self.app, self.port, self.log = app, free_port(), tempfile.TemporaryFile()
        command = [binary, "run", f"apps/{app}.loom", "--set", f"port={self.port}", *extra]
        if servers:
            command += ["--set", f"{SERVERS.get(app, 'servers')}=127.0.0.1:{servers}"]
        self.start = time.monotonic()
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment(cache), stdout=subprocess.DEVNULL, stderr=self.log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        used = os.wait4(self.process.pid, 0)[2]
        self.process.returncode = 0
        self.cpu = used.ru_utime + used.ru_stime
        self.log.close()

    def check_alive(self):
        if os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            self.log.seek(0)
            sys.exit(f"startup: {self.app} ended: {self.log.read().decode()}")

    def connected(self):
        """A connection to the app, as soon as it listens."""
        while True:
            self.check_alive()
            try:
                return socket.create_connection(("127.0.0.1", self.port), 60)
            except ConnectionRefusedError:
                time.sleep(0.001)

    def answered(self, got, due):
        self.took = time.monotonic() - self.start
        if not got.startswith(due):
            sys.exit(f"startup: {self.app} answered {got!r}")


def first_answer(app, binary, cache, extra, servers):
    """Seconds from the start of the process to the first answer, and the CPU seconds it took, the C compiler's included."""
    ask, due, _ = ASK[app]
    with Run(app, binary, cache, extra, servers) as run:
        with run.connected() as conn:
            conn.sendall(ask)
            run.answered(conn.recv(65536), due)
    return run.took, run.cpu


def first_merge(app, binary, cache, extra):
    """The same for the merge: all its mappers connect and send, and its reducer gets the sum."""
    with socket.create_server(("127.0.0.1", 0)) as reducer:
        reducer.settimeout(30)
        with Run(app, binary, cache, extra, reducer.getsockname()[1]) as run:
            for _ in range(MAPPERS):
                with run.connected() as mapper:
                    mapper.sendall(STREAM)
            with reducer.accept()[0] as out:
                run.answered(out.recv(65536), MERGED)
    return run.took, run.cpu


def first_datagram(app, binary, cache, extra):
    """The same over UDP. Datagrams have no receiver before the program is ready: they are sent again."""
    ask, due, answers = UDP[app]
    datagrams = (socket.AF_INET, socket.SOCK_DGRAM)
    with socket.socket(*datagrams) as client, socket.socket(*datagrams) as server:
        server.bind(("127.0.0.1", 0))
        client.setblocking(False)
        with Run(app, binary, cache, extra, server.getsockname()[1]) as run:
            client.connect(("127.0.0.1", run.port))
            sent, got = run.start, None
            while got is None:
                run.check_alive()
                if time.monotonic() - sent > 0.005:
                    sent = time.monotonic()
                    with contextlib.suppress(ConnectionRefusedError):
                        client.send(ask)
                for ready in select.select([client, server], [], [], 0.005)[0]:
                    with contextlib.suppress(ConnectionRefusedError):
                        text, sender = ready.recvfrom(65536)
                        if ready is server and answers:
                            server.sendto(answers(text), sender)
                        else:
                            got = text
            run.answered(got, due)
    return run.took, run.cpu


def first_frame(app, binary, cache, extra):
    """The same from the start of the process to its end, on a capture of one frame."""
    with tempfile.TemporaryDirectory(prefix="wireloom-startup-") as folder:
        there, out = pathlib.Path(folder) / "in.pcap", pathlib.Path(folder) / "out.pcap"
        record = struct.pack("<IIII", 1_700_000_000, 0, len(FRAME), len(FRAME)) + FRAME
        there.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + record)
        options = [a.replace("{in}", str(there)).replace("{out}", str(out)) for a in PACKETS[app].split()]
        start = time.monotonic()
        with tempfile.TemporaryFile() as log:
            command = [binary, "run", f"apps/{app}.loom", *options, *extra]
            process = subprocess.Popen(command, cwd=ROOT, env=environment(cache), stdout=subprocess.DEVNULL, stderr=log)
            endless = "{in}" not in PACKETS[app]
            # A capture without a frame has 24 bytes.
            while endless and process.poll() is None and not (out.exists() and out.stat().st_size > 24):
                time.sleep(0.001)
            took = time.monotonic() - start
            if endless:
                process.terminate()
            _, status, used = os.wait4(process.pid, 0)
            took = took if endless else time.monotonic() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            log.seek(0)
            said = log.read().decode()
        if process.returncode or f"{0 if endless else 1} frames received" not in said:
            sys.exit(f"startup: {app} did not handle its frame: {said}")
        return took, used.ru_utime + used.ru_stime


def check(app, binary):
    start = time.monotonic()
    subprocess.run([binary, "check", f"apps/{app}.loom"], cwd=ROOT, check=True, capture_output=True)
    return time.monotonic() - start


def measure(app, binary, rounds):
    answer = ASK[app][2] if app in ASK else None
    servers = backend(answer) if answer is not None else None

    def first(cache, *extra):
        if app in PACKETS:
            return first_frame(app, binary, cache, extra)
        if app == "word_count_combiner":
            return first_merge(app, binary, cache, extra)
        if app in UDP:
            return first_datagram(app, binary, cache, extra)
        return first_answer(app, binary, cache, extra, servers)

    cold, cpu, optimised, warm, interpreted = [], [], [], [], []
    for _ in range(rounds):
        cache = pathlib.Path(tempfile.mkdtemp(prefix="wireloom-startup-"))
        took, used = first(cache)
        cold.append(took)
        cpu.append(used)
        optimised.append(first(cache, "--optimized")[0])
        warm += [first(cache)[0] for _ in range(3)]
        interpreted.append(first(cache, "--interpret")[0])
        shutil.rmtree(cache)
    checks = [check(app, binary) for _ in range(3 * rounds)]
    code = subprocess.run([binary, "emit", "c", f"apps/{app}.loom"], cwd=ROOT, check=True, capture_output=True).stdout
    ms = lambda xs: [round(1000 * f(xs), 1) for f in (statistics.median, min, max)]
    return {"app": app, "c_lines": code.count(b"\n"), "check": ms(checks), "cold": ms(cold), "cold_cpu": ms(cpu), "optimised": ms(optimised), "warm": ms(warm), "interpreted": ms(interpreted)}


def table(result):
    cell = lambda v: f"{v[0]:.0f} [{v[1]:.0f}..{v[2]:.0f}]"
    worst = lambda key: max(r[key][0] for r in result["apps"])
    verdict = lambda key, most: f"{worst(key):.0f} ms, {'pass' if worst(key) < most else '**MISS**'}"
    made = (
        f"{result['date']}, {result['machine']}, load average {result['load']:.1f}, {result['rounds']} rounds, {result['compiler']}, "
        f"commit {result['commit']}: `python3 bench/startup.py`. Milliseconds, median [smallest..largest]."
    )
    lines = [
        textwrap.fill(made, 100),
        "",
        "| app | lines of C | check | cold start to first answer or frame | of it CPU time | cold and optimised | warm start | interpreted |",
        "|---|---|---|---|---|---|---|---|",
        *(f"| {r['app']} | {r['c_lines']} | {cell(r['check'])} | {cell(r['cold'])} | {cell(r['cold_cpu'])} | {cell(r['optimised'])} | {cell(r['warm'])} | {cell(r['interpreted'])} |" for r in result["apps"]),
        f"| must stay under | | 50 | 1500 | | | 100 | |",
        f"| worst median | | {verdict('check', 50)} | {verdict('cold', 1500)} | {worst('cold_cpu'):.0f} ms | {worst('optimised'):.0f} ms | {verdict('warm', 100)} | |",
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--print", action="store_true", help="only print the table")
    args = parser.parse_args()
    apps = sorted(f.stem for f in (ROOT / "apps").glob("*.loom"))
    missing = set(apps) ^ {"word_count_combiner", *ASK, *UDP, *PACKETS, *CALLED}
    assert not missing, f"each app is measured: {missing}"
    binary = str(pathlib.Path(os.environ.get("WIRELOOM", ROOT / "target/release/wireloom")).resolve())
    run = lambda *command: subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    result = {
        "date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
        "machine": f"{cpu}, {os.cpu_count()} cores",
        "load": os.getloadavg()[0],
        "rounds": args.rounds,
        "compiler": compiled_by(binary),
        "commit": run("git", "rev-parse", "--short", "HEAD"),
        "apps": [measure(app, binary, args.rounds) for app in [*ASK, "word_count_combiner", *UDP, *PACKETS]],
    }
    text = filled(table(result))
    if args.print:
        print(text)
        return
    (ROOT / "bench/results/startup").mkdir(exist_ok=True)
    (ROOT / "bench/results/startup/latest.json").write_text(json.dumps(result, indent=1) + "\n")
    page = ROOT / "bench/README.md"
    before, rest = page.read_text().split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}")
    print(text)


if __name__ == "__main__":
    main()
