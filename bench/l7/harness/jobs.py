"""The jobs: kind of work, connection counts, load generator and default peers.

"peer:512" means this peer only at 512 connections. `QUICK` is the part of each job that the targets need.
"""
from .measure import Job

JOBS = {job.name: job for job in (
    Job("static", "static", [64, 512], "wrk",
        ["wireloom", "nginx", "haproxy", "apache:64", "apache_t640:512", "caddy", "floor_static"]),
    Job("static_close", "static_close", [64], "wrk_close",
        ["wireloom", "nginx", "haproxy", "floor_static"]),
    Job("lb_ka", "lb", [64, 512], "wrk",
        ["wireloom", "wireloom_auto", "wireloom_pipelined", "nginx_rr", "nginx_hash", "haproxy_rr", "haproxy_hash", "apache_rr:64",
         "apache_rr_t640:512", "caddy_rr", "floor_epoll", "floor_uring", "direct"]),
    Job("lb_close", "lb", [64], "wrk_close",
        ["wireloom", "nginx_rr", "nginx_hash", "haproxy_rr", "haproxy_hash", "apache_rr", "caddy_rr", "floor_epoll",
         "floor_uring", "direct"]),
    Job("mc_ascii", "mc", [128, 512], "mc",
        ["wireloom", "nutcracker", "nutcracker_m512", "haproxy_tcp", "nginx_stream", "floor_epoll", "floor_uring",
         "floor_mux", "floor_mux_w200", "direct"]),
    Job("mc_bin", "mc", [128], "mc_bin",
        ["wireloom", "haproxy_tcp", "nginx_stream", "floor_epoll", "floor_uring", "floor_mux",
         "floor_mux_w200", "direct"]),
    Job("mc_pipe8", "mc", [128], "mc_pipe8",
        ["wireloom", "nutcracker", "haproxy_tcp", "floor_epoll", "floor_uring", "direct"]),
    Job("mem_lb", "lb", [512], "wrk",
        ["wireloom", "nginx_hash", "haproxy_hash", "floor_epoll"]),
    Job("mem_mc", "mc", [512], "mc",
        ["wireloom", "nutcracker", "nutcracker_m512", "haproxy_tcp", "floor_mux"]),
    Job("words", "words", [8], "words",
        ["wireloom", "sort", "floor_merge"]),
)}

# job -> (connection counts, peers): the peers of the targets, and the hand-written floors.
QUICK = {
    "static": ([512], ["wireloom", "nginx", "floor_static"]),
    "lb_ka": ([512], ["wireloom", "wireloom_auto", "wireloom_pipelined", "nginx_hash", "haproxy_hash", "floor_epoll"]),
    "lb_close": ([64], ["wireloom", "nginx_hash"]),
    "mc_ascii": ([512], ["wireloom", "nutcracker", "floor_mux"]),
    "mc_bin": ([128], ["wireloom", "haproxy_tcp", "floor_mux"]),
    "mc_pipe8": ([128], ["wireloom", "nutcracker", "haproxy_tcp"]),
    "mem_lb": ([512], ["wireloom", "nginx_hash", "haproxy_hash"]),
    "mem_mc": ([512], ["wireloom", "nutcracker"]),
    "words": ([8], ["wireloom", "sort", "floor_merge"]),
}


def peers_at(names, conns):
    """The peers of a list that run at this connection count."""
    return [name.split(":")[0] for name in names if ":" not in name or int(name.split(":")[1]) == conns]
