"""greenstalk through beanstalk_proxy: producers and workers of eight tubes at once.

Arguments: the proxy's port, the ports of its servers.
"""
import sys, threading
import greenstalk

port, servers = int(sys.argv[1]), [int(p) for p in sys.argv[2:]]
at = ("127.0.0.1", port)
tubes = ["tube%d" % n for n in range(8)]
bodies = [b"", b"a", b"quit\r\n", b"\r\n" * 50, bytes(range(256)) * 255, b"x" * 65535]


def client(tube):
    return greenstalk.Client(at, encoding=None, use=tube, watch=tube)


got = {t: [] for t in tubes}


def work(tube):
    worker = client(tube)
    for n in range(len(bodies) * 5):
        job = worker.reserve(timeout=20)
        got[tube].append(job.body)
        if n % 3 == 0:
            worker.bury(job)
            worker.kick_job(job)
            job = worker.reserve_job(job.id)
        if n % 3 == 1:
            worker.release(job, delay=0)
            job = worker.reserve_job(job.id)
        worker.touch(job)
        worker.delete(job)
    worker.close()


threads = [threading.Thread(target=work, args=(t,)) for t in tubes]
[t.start() for t in threads]
producers = [client(t) for t in tubes]
for _ in range(5):
    for body in bodies:
        for tube, producer in zip(tubes, producers):
            producer.put(tube.encode() + b":" + body if len(body) < 65000 else body)
[t.join() for t in threads]
for tube in tubes:
    expected = [tube.encode() + b":" + b if len(b) < 65000 else b for b in bodies] * 5
    assert sorted(got[tube]) == sorted(expected), (tube, len(got[tube]))

# Each tube is on one server, and both servers have some.
there = [set(greenstalk.Client(("127.0.0.1", p)).tubes()) - {"default"} for p in servers]
assert there[0] | there[1] == set(tubes) and not there[0] & there[1] and all(there), there

one = producers[0]
assert one.using() == "tube0" and one.watching() == ["tube0"]
assert one.stats()["version"] and one.stats_tube("tube0")["total-jobs"] == 30
assert one.peek(one.put(b"seen")).body == b"seen"
home = [s for s in there if "tube0" in s][0]
for command in (one.use, one.watch):
    for tube in set(tubes) - home:
        try:
            command(tube)
            assert False, tube
        except greenstalk.NotFoundError:
            pass
try:
    one.put(b"x" * 65536)
    assert False
except greenstalk.JobTooBigError:
    pass
print("done")
