#!/usr/bin/env python3
"""CPU time per transaction of postgres_proxy beside pgbouncer, in front of one PostgreSQL.

Each round runs pgbench through both, one after the other. CPU time is that of the proxy's process, so
other load on the machine changes little. `postgres.py [--rounds 5] [--seconds 4] [--conns 16]`.

`floor` is the hand-written layer-4 proxy of bench/l7/src: it passes bytes on and reads none of them.

Without more, each client has a session of its own (pgbouncer: session mode). With `--pool 4` clients
share so many by transaction. pgbouncer resets no session then, if it is not told so; `--reset` tells
it (`server_reset_query_always`). postgres_proxy always does.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/l7"))
from harness import beside, build, settings  # noqa: E402

USER, PASSWORD = "postgres", "secret"
JOBS = {
    "select": ["-S", "-M", "simple"],
    "prepared": ["-S", "-M", "prepared"],
    "tpcb": ["-M", "simple"],
    "extended": ["-S", "-M", "extended"],
    "rows": ["-n", "-f", "rows.sql"],
}


def as_user(args):
    """PostgreSQL and pgbouncer do not run as root."""
    if os.geteuid() == 0:
        return ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"] + args
    return args


def program(name):
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else name


def wait(port, database="postgres"):
    for _ in range(200):
        args = ["psql", "-X", "-h", "127.0.0.1", "-p", str(port), "-U", USER, "-d", database, "-c", "select 1"]
        if subprocess.run(args, capture_output=True).returncode == 0:
            return
        time.sleep(0.05)
    sys.exit(f"nobody answers on port {port}")


def start(folder, children, pool, reset):
    data = folder / "data"
    (folder / "password").write_text(PASSWORD)
    (folder / "rows.sql").write_text("select * from generate_series(1, 200) n;\n")
    if os.geteuid() == 0:
        shutil.chown(folder, USER)
        shutil.chown(folder / "password", USER)
    run = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(as_user([program("initdb"), "-D", str(data), "-U", USER, "-A", "scram-sha-256", "-N",
                            f"--pwfile={folder}/password"]), check=True, **run)
    children.append(subprocess.Popen(as_user([
        program("postgres"), "-D", str(data), "-p", "6501", "-k", str(folder), "-c", "fsync=off",
        "-c", "synchronous_commit=off", "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=500"]), **run))
    wait(6501)
    (folder / "users.txt").write_text(f'"{USER}" "{PASSWORD}"\n')
    (folder / "bouncer.ini").write_text(
        "[databases]\n* = host=127.0.0.1 port=6501\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=6502\n"
        f"auth_type=plain\nauth_file={folder}/users.txt\npool_mode={'transaction' if pool else 'session'}\n"
        f"max_client_conn=1000\ndefault_pool_size={pool or 400}\nserver_reset_query_always={int(reset)}\nignore_startup_parameters=extra_float_digits\nunix_socket_dir=\nlogfile=\n")
    for name in ("users.txt", "bouncer.ini"):
        if os.geteuid() == 0:
            shutil.chown(folder / name, USER)
    bouncer = subprocess.Popen(as_user(["pgbouncer", "-q", str(folder / "bouncer.ini")]), **run)
    children.append(bouncer)
    ours = subprocess.Popen([settings.WIRELOOM, "run", str(ROOT / "apps/postgres_proxy.loom"), "--set", "port=6503",
                             "--set", "servers=127.0.0.1:6501", "--set", f"db.pool={pool}", "--cores", "1"], **run)
    children.append(ours)
    wait(6502)
    wait(6503)
    peers = {"wireloom": (ours.pid, 6503), "pgbouncer": (bouncer.pid, 6502)}
    if not pool:
        build.build()
        floor = subprocess.Popen([build.program("floor_epoll"), "6504", "6501"], **run)
        children.append(floor)
        wait(6504)
        peers["floor"] = (floor.pid, 6504)
    return peers


def bench(folder, port, args, conns, seconds):
    out = subprocess.run(["pgbench", "-h", "127.0.0.1", "-p", str(port), "-U", USER, "-c", str(conns), "-j", "1",
                          "-T", str(seconds)] + args + ["postgres"], cwd=folder, capture_output=True, text=True)
    found = re.search(r"actually processed: (\d+)", out.stdout)
    if not found:
        sys.exit(out.stdout + out.stderr)
    return int(found.group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--conns", type=int, default=16)
    parser.add_argument("--jobs")
    parser.add_argument("--pool", type=int, default=0)
    parser.add_argument("--reset", action="store_true")
    args = parser.parse_args()
    os.environ["PGPASSWORD"] = PASSWORD
    with beside.workplace() as (folder, children):
        peers = start(folder, children, args.pool, args.reset)
        subprocess.run(["pgbench", "-i", "-q", "-s", "2", "-h", "127.0.0.1", "-p", "6501", "-U", USER, "postgres"],
                       check=True, capture_output=True)
        print("| job | connections | wireloom µs | pgbouncer µs | ratio | floor's ratio |\n|---|---|---|---|---|---|")
        # A prepared statement keeps its session.
        jobs = args.jobs.split(",") if args.jobs else [j for j in JOBS if not (args.pool and j == "prepared")]
        for job in jobs:
            def once(pid, port):
                return beside.cost(pid, lambda: bench(folder, port, JOBS[job], args.conns, args.seconds))[0] * 1e6
            seen = beside.interleaved(peers, args.rounds, once)
            ours, theirs, ratio = beside.compare({name: seen[name] for name in ("wireloom", "pgbouncer")})
            floor = f"{beside.compare({name: seen[name] for name in ('floor', 'pgbouncer')})[2]:.2f}" if "floor" in seen else "–"
            print(f"| {job} | {args.conns} | {ours:.2f} | {theirs:.2f} | {ratio:.2f} | {floor} |", flush=True)


if __name__ == "__main__":
    main()
