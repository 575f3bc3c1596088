"""nginx as web server, HTTP balancer and TCP forwarder; also the HTTP backends of every balancer."""
from .. import settings
from .files import write

STREAM_MODULE = "/usr/lib/nginx/modules/ngx_stream_module.so"

MAIN = """user root;
worker_processes 1;
pid {scratch}/{name}.pid;
error_log {scratch}/{name}.err crit;
worker_rlimit_nofile 19000;
{modules}
events {{ worker_connections 8192; }}
{body}
"""

HTTP = """http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
    sendfile on;
    tcp_nodelay on;
    default_type text/plain;
    client_body_temp_path {scratch}/t1;
    proxy_temp_path {scratch}/t2;
    fastcgi_temp_path {scratch}/t3;
    uwsgi_temp_path {scratch}/t4;
    scgi_temp_path {scratch}/t5;
    {body}
}}"""

FIXED = '    server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ return 200 "{text}"; }} }}\n'

BALANCER = """    upstream backends {{
        {policy}
        {servers}
        keepalive 512;
        keepalive_requests 1000000000;
        keepalive_timeout 300s;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://backends;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
    }}"""

STREAM = """stream {{
    upstream backends {{ {servers} }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        proxy_pass backends;
        tcp_nodelay on;
        proxy_timeout 300s;
    }}
}}"""


def _argv(name, body, modules=""):
    text = MAIN.format(scratch=settings.SCRATCH, name=name, modules=modules, body=body)
    return ["nginx", "-p", settings.SCRATCH, "-c", write(name + ".conf", text), "-g", "daemon off;"]


def _http(name, body):
    return _argv(name, HTTP.format(scratch=settings.SCRATCH, body=body))


def _servers(ports):
    return " ".join(f"server 127.0.0.1:{port} max_fails=0;" for port in ports)


def static(port, _backends):
    return _http("nginx-static", FIXED.format(port=port, text=settings.BODY))


def http_backends(ports):
    """One nginx that answers on all the backends' ports."""
    return _http("nginx-backends", "".join(FIXED.format(port=port, text=settings.BODY) for port in ports))


def round_robin(port, backends):
    return _http("nginx-rr", BALANCER.format(policy="", servers=_servers(backends), port=port))


def hashed(port, backends):
    policy = "hash $remote_addr$remote_port;"
    return _http("nginx-hash", BALANCER.format(policy=policy, servers=_servers(backends), port=port))


def stream(port, backends):
    body = STREAM.format(servers=_servers(backends), port=port)
    return _argv("nginx-stream", body, modules=f"load_module {STREAM_MODULE};")
