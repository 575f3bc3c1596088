"""The peers: how each server or proxy is configured (one worker, no access log, keep-alive limits lifted) and started.

A start function takes the listen port and the backends' ports and returns the argv of a program that stays in the
foreground; the harness pins it. PEERS lists them by kind of work; None stands for `direct`, no proxy at all. A peer
whose program is not installed is skipped with a notice.
"""
import os
import shutil

from . import apache, caddy, floors, haproxy, nginx, nutcracker, wireloom

PEERS = {
    "static": {
        "wireloom": wireloom.static,
        "nginx": nginx.static,
        "haproxy": haproxy.static,
        "apache": apache.static(128),
        "apache_t640": apache.static(640),
        "caddy": caddy.static,
        "floor_static": floors.start("floor_static"),
    },
    "static_close": {
        "wireloom": wireloom.static,
        "nginx": nginx.static,
        "haproxy": haproxy.static,
        "floor_static": floors.start("floor_static", "close"),
    },
    "lb": {
        "wireloom": wireloom.balancer,
        "wireloom_pipelined": wireloom.balancer_pipelined,
        "wireloom_auto": wireloom.balancer_auto,
        "nginx_rr": nginx.round_robin,
        "nginx_hash": nginx.hashed,
        "haproxy_rr": haproxy.round_robin,
        "haproxy_hash": haproxy.hashed,
        "apache_rr": apache.balancer(128),
        "apache_rr_t640": apache.balancer(640),
        "caddy_rr": caddy.round_robin,
        "nginx_stream": nginx.stream,
        "haproxy_tcp": haproxy.tcp,
        "floor_epoll": floors.start("floor_epoll"),
        "floor_uring": floors.start("floor_uring"),
        "direct": None,
    },
    "mc": {
        "wireloom": wireloom.memcached,
        "nutcracker": nutcracker.proxy(16384),
        "nutcracker_m512": nutcracker.proxy(512),
        "haproxy_tcp": haproxy.tcp,
        "nginx_stream": nginx.stream,
        "floor_epoll": floors.start("floor_epoll"),
        "floor_uring": floors.start("floor_uring"),
        "floor_mux": floors.start("floor_mux"),
        "floor_mux_w200": floors.start("floor_mux", "200"),
        "direct": None,
    },
    # `sort` is a pipeline of several processes: see combiner.py.
    "words": {"wireloom": wireloom.combiner, "sort": None, "floor_merge": floors.start("floor_merge")},
}


def missing(name, kind):
    """The reason why a peer cannot run on this machine, or None."""
    if name.split("_")[0] == "wireloom":
        return wireloom.missing(kind)
    if name.startswith("nginx_stream"):
        return None if os.path.exists(nginx.STREAM_MODULE) else "libnginx-mod-stream is not installed"
    program = {"apache": "/usr/sbin/apache2"}.get(name.split("_")[0], name.split("_")[0])
    if program in ("nginx", "haproxy", "caddy", "nutcracker", "/usr/sbin/apache2", "sort"):
        return None if shutil.which(program) else f"{os.path.basename(program)} is not installed"
    return None
