"""Apache with the event MPM (optional). It closes idle keep-alive connections when all threads are busy, seen as
read errors by wrk, so 512 connections are measured with 640 threads."""
import os

from .. import settings
from .files import write

MODULES = "/usr/lib/apache2/modules"

COMMON = """ServerRoot {scratch}
PidFile {scratch}/{name}.pid
ServerName localhost
Listen 127.0.0.1:{port}
ListenBacklog 4096
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
User www-data
Group www-data
ErrorLog {scratch}/{name}.err
LogLevel crit
StartServers 1
ServerLimit 1
ThreadLimit {threads}
ThreadsPerChild {threads}
MaxRequestWorkers {threads}
MinSpareThreads 1
MaxSpareThreads {threads}
AsyncRequestWorkerFactor 32
MaxConnectionsPerChild 0
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 300
Timeout 300
"""

FILES = """DocumentRoot {root}
<Directory />
    AllowOverride None
    Options FollowSymLinks
</Directory>
FileETag None
"""

BALANCER_MODULES = ("proxy", "proxy_http", "proxy_balancer", "lbmethod_byrequests", "slotmem_shm")


def _argv(name, port, threads, rest):
    text = COMMON.format(scratch=settings.SCRATCH, name=name, port=port, threads=threads, modules=MODULES) + rest
    return ["/usr/sbin/apache2", "-f", write(name + ".conf", text), "-DFOREGROUND"]


def static(threads):
    def start(port, _backends):
        root = os.path.join(settings.SCRATCH, "htdocs")
        os.makedirs(root, exist_ok=True)
        write("htdocs/index.txt", settings.BODY)
        return _argv("apache-static", port, threads, FILES.format(root=root))
    return start


def balancer(threads):
    def start(port, backends):
        lines = [f"LoadModule {m}_module {MODULES}/mod_{m}.so" for m in BALANCER_MODULES]
        lines += ["<Proxy balancer://servers>"]
        lines += [f"    BalancerMember http://127.0.0.1:{b} ttl=300 retry=0" for b in backends]
        lines += ["</Proxy>", "ProxyPass / balancer://servers/", "ProxyRequests Off"]
        return _argv("apache-lb", port, threads, "\n".join(lines) + "\n")
    return start
