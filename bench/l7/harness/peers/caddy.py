"""Caddy (optional)."""
from .. import settings
from .files import write

COMMON = """{
    admin off
    auto_https off
    servers {
        protocols h1
    }
}
http://127.0.0.1:%d {
    bind 127.0.0.1
    %s
}
"""

BALANCER = """reverse_proxy %s {
        lb_policy round_robin
        transport http {
            keepalive_idle_conns_per_host 512
        }
    }"""


def _argv(name, port, body):
    homes = [f"{v}={settings.SCRATCH}" for v in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")]
    config = write(name + ".caddyfile", COMMON % (port, body))
    return ["env", "GOMAXPROCS=1"] + homes + ["caddy", "run", "--adapter", "caddyfile", "--config", config]


def static(port, _backends):
    return _argv("caddy-static", port, f'respond "{settings.BODY}" 200')


def round_robin(port, backends):
    return _argv("caddy-rr", port, BALANCER % " ".join(f"127.0.0.1:{b}" for b in backends))
