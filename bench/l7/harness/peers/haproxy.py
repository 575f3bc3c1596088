"""HAProxy as web server, HTTP balancer and TCP forwarder."""
from .. import settings
from .files import write

COMMON = """global
    nbthread 1
    maxconn 8000
defaults
    mode {mode}
    timeout client 300s
    timeout server 300s
    timeout connect 5s
    timeout http-keep-alive 300s
    backlog 4096
"""


def _argv(name, mode, rest):
    return ["haproxy", "-f", write(name + ".cfg", COMMON.format(mode=mode) + rest)]


def _balancer(name, mode, port, backends, options):
    lines = ["frontend clients", f"    bind 127.0.0.1:{port}", "    default_backend servers", "backend servers"]
    lines += [f"    {option}" for option in options]
    lines += [f"    server s{b} 127.0.0.1:{b}" for b in backends]
    return _argv(name, mode, "\n".join(lines) + "\n")


def static(port, _backends):
    reply = f'http-request return status 200 content-type text/plain string "{settings.BODY}"'
    return _argv("haproxy-static", "http", f"frontend clients\n    bind 127.0.0.1:{port}\n    {reply}\n")


def round_robin(port, backends):
    return _balancer("haproxy-rr", "http", port, backends, ["balance roundrobin", "http-reuse always"])


def hashed(port, backends):
    options = ["balance hash src_port", "hash-type map-based", "http-reuse always"]
    return _balancer("haproxy-hash", "http", port, backends, options)


def tcp(port, backends):
    return _balancer("haproxy-tcp", "tcp", port, backends, ["balance roundrobin"])
