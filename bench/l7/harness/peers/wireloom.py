"""Wireloom itself: the apps of this repository, run by the binary that $WIRELOOM names, on the proxy core."""
import os

from .. import settings

APP_OF_KIND = {
    "static": "static_web.loom",
    "static_close": "static_web.loom",
    "lb": "http_balancer.loom",
    "mc": "memcached_proxy.loom",
    "words": "word_count_combiner.loom",
}


def missing(kind):
    """The reason why Wireloom cannot run this kind of work yet, or None."""
    app = os.path.join(settings.APPS, APP_OF_KIND[kind])
    for path in (settings.WIRELOOM, app):
        if not os.path.exists(path):
            return f"{path} does not exist"
    return None


def _argv(app, **params):
    argv = [settings.WIRELOOM, "run", os.path.join(settings.APPS, app)]
    for name, value in params.items():
        argv += ["--set", f"{name}={value}"]
    return argv + ["--cores", str(settings.PROXY_CORE)]


def _endpoints(ports):
    return ",".join(f"127.0.0.1:{port}" for port in ports)


def static(port, _backends):
    return _argv("static_web.loom", port=port, body=settings.BODY)


def balancer(port, backends):
    return _argv("http_balancer.loom", port=port, servers=_endpoints(backends))


def balancer_pipelined(port, backends):
    """Up to sixteen requests share a backend connection, always."""
    return balancer(port, backends) + ["--set", "backend.pipeline=16"]


def balancer_auto(port, backends):
    """Requests that arrive together share backend connections: an opt-in for trusted backends."""
    return balancer(port, backends) + ["--set", "backend.pipeline=auto"]


def memcached(port, backends):
    return _argv("memcached_proxy.loom", port=port, servers=_endpoints(backends))


def combiner(port, reducers):
    return _argv("word_count_combiner.loom", port=port, reducer=_endpoints(reducers))
