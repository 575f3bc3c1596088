"""Reads /metrics with Prometheus's own parser: names and types, and the counts that a test knows.

usage: metrics.py PAGE BACKEND_PORT ANSWERED FAILED
"""
import re
import sys
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

page, port, answered, failed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
text = urllib.request.urlopen(f"http://127.0.0.1:{page}/metrics", timeout=60).read().decode()
parsed = list(text_string_to_metric_families(text))
# The parser takes `_total` from the names of counters.
families = {f.name + "_total" * (f.type == "counter"): f for f in parsed}
docs = open(sys.path[0] + "/../../docs/operations.md").read()

assert len(families) == len(parsed) == text.count("# TYPE "), "no family comes twice"
for name, f in families.items():
    assert re.fullmatch("wireloom_[a-z_]+", f.name), f.name
    assert f.type in ("counter", "gauge", "histogram"), f"{f.name} is {f.type}"
    assert f.documentation, f.name
    assert f"`{name}`" in docs, f"{name} is not in docs/operations.md"
    assert len({(s.name, tuple(sorted(s.labels.items()))) for s in f.samples}) == len(f.samples), f"{f.name}: twice"


def value(sample, **labels):
    """The one sample of that name with these labels."""
    family = families[re.sub("_(bucket|sum|count)$", "", sample)]
    found = [s.value for s in family.samples if s.name == sample and labels.items() <= s.labels.items()]
    assert len(found) == 1, f"{sample} {labels}: {found}"
    return found[0]


def histogram(name, count, **labels):
    buckets = [(float(s.labels["le"]), s.value) for s in families[name].samples
               if s.name == name + "_bucket" and labels.items() <= s.labels.items()]
    assert buckets == sorted(buckets) and buckets[-1] == (float("inf"), count), f"{name} {labels}: {buckets}"
    assert all(a[1] <= b[1] for a, b in zip(buckets, buckets[1:])), "each bucket holds those before it"
    assert value(name + "_count", **labels) == count
    total = value(name + "_sum", **labels)
    assert 0 < total < 20 * max(count, 1) if count else total == 0, f"{name}: {total} s"


backend = f"127.0.0.1:{port}"
assert value("wireloom_responses_total", port="client", **{"class": "2xx"}) == answered
assert value("wireloom_responses_total", port="client", **{"class": "5xx"}) == failed
assert value("wireloom_responses_total", port="client", **{"class": "4xx"}) == 0
assert value("wireloom_backend_responses_total", backend=backend, **{"class": "2xx"}) == answered
for s in families["wireloom_backend_responses_total"].samples:
    assert s.value == 0 or s.labels["class"] == "2xx", f"no backend has said {s}"
assert families["wireloom_responses_total"].type == "counter"
assert families["wireloom_request_seconds"].type == families["wireloom_backend_seconds"].type == "histogram"
histogram("wireloom_request_seconds", answered + failed, port="client")
histogram("wireloom_backend_seconds", answered, backend=backend)
assert value("wireloom_access_log_lost_total") == 0
print("good")
