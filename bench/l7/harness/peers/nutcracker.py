"""nutcracker, which is twemproxy. Its buffers' size (-m) decides its memory."""
from .. import settings
from .files import write

CONFIG = """pool:
  listen: 127.0.0.1:{port}
  hash: fnv1a_64
  distribution: modula
  preconnect: true
  auto_eject_hosts: false
  backlog: 4096
  timeout: 5000
  servers:
"""


def proxy(mbuf_size):
    def start(port, backends):
        text = CONFIG.format(port=port) + "".join(f"   - 127.0.0.1:{b}:1\n" for b in backends)
        config, log = write(f"nutcracker-{mbuf_size}.yml", text), f"{settings.SCRATCH}/nutcracker.log"
        stats = ["-s", str(port + 900), "-i", "300000"]
        return ["nutcracker", "-c", config, "-o", log, "-v", "1", "-m", str(mbuf_size)] + stats
    return start
