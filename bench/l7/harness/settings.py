"""Where things are: folders, cores and ports. All can be moved through the environment."""
import os

L7 = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(os.path.dirname(L7))
SRC = os.path.join(L7, "src")

SCRATCH = os.environ.get("L7_WORK", "/tmp/wireloom-bench-l7")
BIN = os.path.join(SCRATCH, "bin")
# Optimised code is measured, from the first request on.
os.environ.setdefault("WIRELOOM_START", "optimized")
WIRELOOM = os.path.abspath(os.environ.get("WIRELOOM", os.path.join(ROOT, "target/release/wireloom")))
APPS = os.path.join(ROOT, "apps")

PROXY_CORE = int(os.environ.get("L7_PROXY_CORE", "0"))
LOAD_CORE = int(os.environ.get("L7_LOAD_CORE", "1"))

BASE_PORT = int(os.environ.get("L7_BASE", "18000"))
HTTP_PORTS = [BASE_PORT + 81 + i for i in range(4)]
MEMCACHED_PORTS = [BASE_PORT + 211 + i for i in range(4)]
REDUCER_PORT = BASE_PORT + 231
RECEIVER_PORTS = [BASE_PORT + 241 + i for i in range(8)]
PROXY_PORTS = [BASE_PORT + 300 + i for i in range(50)]

# Every HTTP server in a run answers with these 137 bytes.
BODY = ("0123456789" * 14)[:137]
