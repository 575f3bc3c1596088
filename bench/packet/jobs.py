"""What is measured: each job's way of being run, its target, and what others need for the same work.

`must` and `aim` are factors over the reference of the same run; with `less` false a larger figure is better. For frames in memory there are two
programs in C: the plain one, by which targets are judged (`plain`, src/plain.c; not every job has it), and the one that is tuned further
(src/hw_*.c). Targets are judged by the former where there is one, and the latter is shown beside it. Figures of peers are quoted from measurements on another machine; see PEERS_FROM.
"""
from dataclasses import dataclass, field, replace
from typing import Optional

PEERS_FROM = ("quoted, not measured here: 2-vCPU KVM guest, Sapphire Rapids, Linux 6.18, DPDK-less FastClick 93ca5a6d0, katran 19f08fec by "
              "BPF_PROG_TEST_RUN, nftables 1.0.6 with the kernel's whole receive path, OpenSSL 3.0.19; ns per packet, median")


@dataclass
class Job:
    name: str
    label: str
    kind: str = "frames"          # frames, insert, cores, steering, sharing, xdp, pcap, ipsec
    app: str = ""
    trace: str = ""
    args: list = field(default_factory=list)
    unit: str = "ns/frame"
    reference: str = "tuned C"
    plain: bool = False           # the plain C has the job
    must: Optional[float] = 1.3
    aim: Optional[float] = 1.05
    absolute: bool = False        # must and aim are figures, not factors
    less: bool = True
    ns: float = 20                # a guess, for the number of frames
    peers: str = ""
    memory_mib: Optional[int] = None
    regime: Optional["Regime"] = None


@dataclass(frozen=True)
class Regime:
    """Where the frames of a trace lie while they are replayed."""
    name: str
    label: str
    bytes: int                    # of frames; 0: as many as the last-level cache has
    neighbour: bool = False       # another core streams through memory meanwhile


REGIMES = [Regime("small", "4 MB", 4 << 20), Regime("cache", "the last-level cache's size", 0), Regime("memory", "256 MB", 256 << 20),
           Regime("neighbour", "the last-level cache's size, and a neighbour that streams through memory", 0, neighbour=True)]


FIREWALL = "apps/openflow_firewall.loom"
BALANCER = "apps/l4_balancer.loom"
VIP = ["--set", "vip=192.168.0.1", "--set", "dips=" + ",".join(f"10.100.0.{i}" for i in range(1, 65))]


def rules(name, label, n, must, peers, plain):
    return Job(name, f"openflow_firewall, {label} wildcard rules", app=FIREWALL, trace=f"rules{n}", args=["--load", f"rules=rules{n}.json"],
               must=must, ns=20, peers=peers, plain=plain)


def steering(ns, must):
    return Job(f"steer_{ns}", f"frames of one queue on two cores, handler of some {ns} ns", kind="steering", app=f"bench/packet/apps/costly.loom:costly_{ns}",
               trace="flow1000", unit="× as fast", reference="", must=must, aim=None, absolute=True, less=False, ns=ns)


def ipsec(suite, label, size, ns, peers):
    return Job(f"ipsec_{suite}_{size}", f"ipsec_gateway, {label}, {size} B", kind="ipsec", app="apps/ipsec_gateway.loom", trace=f"plain{size}", args=[suite, str(size)],
               reference="OpenSSL EVP per packet, crypto only", must=1.1, aim=1.0, ns=ns, peers=peers)


JOBS = [
    Job("parse", "parse + count", plain=True, app="bench/packet/apps/parse_count.loom", trace="flow1000", ns=4, peers="FastClick CheckIPHeader 48; empty XDP 8–17"),
    Job("flow_1k", "flow_tracker, 1K flows", plain=True, app="apps/flow_tracker.loom", trace="flow1000", ns=15, peers="FastClick 96–216; XDP hash 74–86"),
    Job("flow_100k", "flow_tracker, 100K flows", plain=True, app="apps/flow_tracker.loom", trace="flow100000", ns=18, peers="FastClick 270–340; XDP hash 356–378"),
    Job("flow_1m", "flow_tracker, 1M flows", plain=True, app="apps/flow_tracker.loom", trace="flow1000000", ns=35, peers="FastClick 387–1776; XDP hash 318–336"),
    Job("flow_burst", "flow_tracker, 1K flows in bursts of 16 frames", plain=True, app="apps/flow_tracker.loom", trace="burst1000", ns=15, must=None, aim=None),
    rules("rules_10", "10", 10, 1.3, "FastClick IPFilter 118; nft 520", True),
    rules("rules_1k", "1K", 1000, 1.3, "FastClick IPFilter 2870; nft 8840, pipapo 1959", True),
    rules("rules_16k", "16K", 16384, 1.3, "", False),
    Job("rule_insert", "rule insertion under load (1K rules, traffic between)", kind="insert", app=FIREWALL, trace="rules1000",
        args=["--load", "rules=rules1000.json", "--insert", "rules=more8192.json", "--every", "8"], unit="µs, median", reference="", must=10, aim=2,
        absolute=True, ns=100),
    Job("lb_1k", "l4_balancer with IP-in-IP, 1K flows", plain=True, app=BALANCER, trace="vip1000", args=VIP, ns=40, peers="katran 134–151"),
    Job("lb_1m", "l4_balancer with IP-in-IP, 1M flows", plain=True, app=BALANCER, trace="vip1000000", args=VIP, ns=80, peers="katran 540–664"),
    Job("lb_32m", "l4_balancer with IP-in-IP, 32M flows", app=BALANCER, trace="vip2097152", args=VIP + ["--many", "16"], ns=120, memory_mib=2048),
    Job("xdp", "AF_XDP forward over veth", kind="xdp", app="bench/packet/apps/forward.loom", reference="plainest AF_XDP forwarder", unit="CPU ns/frame",
        must=1.15, aim=1.0),
    Job("cores", "flow_tracker, 1M flows, two cores instead of one", kind="cores", app="apps/flow_tracker.loom", trace="flow1000000", unit="× as fast",
        reference="plain C, two processes", must=1.8, aim=1.95, absolute=True, less=False, ns=35),
    *(steering(ns, must) for ns, must in [(60, 1.4), (90, 1.4), (140, 1.4), (300, 1.4)]),
    Job("sharing", "each further app that reads a port and only counts", kind="sharing", app="bench/packet/apps/count_each.loom", trace="flow1000",
        reference="", must=None, aim=None, absolute=True, ns=10),
    ipsec("gcm", "AES-256-GCM", 64, 600, "EVP 380"),
    ipsec("gcm", "AES-256-GCM", 1500, 1200, "EVP 707"),
    ipsec("ctr", "AES-256-CTR + HMAC-SHA1-96", 64, 900, "EVP 545"),
    ipsec("ctr", "AES-256-CTR + HMAC-SHA1-96", 1500, 2500, "EVP 1805"),
    Job("pcap", "flow_tracker from a capture file, 1M flows", kind="pcap", app="apps/flow_tracker.loom", trace="flow1000000", unit="CPU ns/frame",
        must=None, aim=None),
]


def in_regimes(job):
    """A job of frames in memory with its trace in each regime: `name@regime`. Only jobs that the plain C has, too."""
    if job.kind != "frames" or not job.plain or not job.must:
        return []
    return [replace(job, name=f"{job.name}@{r.name}", label=f"{job.label}, frames of {r.label}", regime=r) for r in REGIMES]


IN_REGIMES = [variant for job in JOBS for variant in in_regimes(job)]
