"""redis-py with its defaults: `client.py PORT TAG [PASSWORD]`; says `good`."""
import sys
import redis

port, t = int(sys.argv[1]), sys.argv[2]
c = redis.Redis(port=port, password=sys.argv[3] if len(sys.argv) > 3 else None, socket_timeout=60)
assert c.ping() and c.get(t + "none") is None
assert c.set(t + "a", b"1") and c.get(t + "a") == b"1" and c.incr(t + "a") == 2
assert c.hset(t + "h", mapping={"f": "x", "g": "y"}) == 2 and c.hgetall(t + "h") == {b"f": b"x", b"g": b"y"}
assert c.zadd(t + "z", {"m": 1.5}) == 1 and [tuple(p) for p in c.zrange(t + "z", 0, -1, withscores=True)] == [(b"m", 1.5)]
names = [t + "m%d" % i for i in range(50)]
assert c.mset({n: n for n in names}) and c.mget(names + [t + "none"]) == [n.encode() for n in names] + [None]
assert c.exists(*names) == 50 and c.delete(*names) == 50
big = b"0123456789" * 100_000
assert c.set(t + "big", big) and c.get(t + "big") == big
p = c.pipeline(transaction=False)
for i in range(100):
    p.set(t + "p%d" % i, i).get(t + "p%d" % i)
assert p.execute() == [x for i in range(100) for x in (True, b"%d" % i)]
p = c.pipeline(transaction=True)
p.set("{%s}x" % t, 1).incr("{%s}x" % t).hgetall("{%s}h" % t)
assert p.execute() == [True, 2, {}]
assert c.rpush(t + "l", "x") == 1 and c.blpop([t + "l"], timeout=60) == ((t + "l").encode(), b"x")
assert c.eval("return {KEYS[1], ARGV[1]}", 1, t, "y") == [t.encode(), b"y"]
lock = c.lock(t + "lock", timeout=60)
assert lock.acquire() and not c.lock(t + "lock", blocking=False).acquire() and lock.release() is None
assert c.register_script("return ARGV[1] .. KEYS[1]")(keys=[t], args=["z"]) == b"z" + t.encode()
assert c.client_id() > 0 and c.info()["redis_mode"] == "standalone"
assert sorted(c.scan_iter(match=t + "p*", count=10)) == sorted(b"%sp%d" % (t.encode(), i) for i in range(100))
try:
    c.lpush(t + "a", 1)
    raise SystemExit("no error")
except redis.ResponseError as e:
    assert "WRONGTYPE" in str(e)
c.close()
print("good", redis.__version__)
