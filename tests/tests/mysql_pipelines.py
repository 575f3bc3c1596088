"""Commands of all kinds in pipelines, through the proxy. Arguments: the port, the password, rounds.

Prints how many answers a server owes for them, with those of the logins. The answers are not read
by their kind: a last command of each pipeline gives a word that nothing else has.
"""

import random
import struct
import sys

import pymysql

PORT, PASSWORD, ROUNDS = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
NO_MARKS = 1 << 24


def connect(flags=0):
    return pymysql.connect(
        host="127.0.0.1", port=PORT, user="ann", password=PASSWORD, database="shop", client_flag=flags,
        connect_timeout=10, read_timeout=60, autocommit=None)


def packet(command, rest=b""):
    return struct.pack("<I", 1 + len(rest))[:3] + b"\0" + bytes([command]) + rest


def query(text):
    return packet(3, text.encode())


LAST = b"\xff\xff\xff\xff"  # the statement that was prepared last
EXECUTE = LAST + b"\0" + struct.pack("<I", 1)
CURSOR = LAST + b"\1" + struct.pack("<I", 1)
NUMBER = b"\0\1\x08\0" + struct.pack("<q", 41)
TEXT = b"\0\1\xfc\0"

# The bytes of commands, and how many answers they owe.
KINDS = [
    (query("select 1"), 1),
    (query("select null, 1"), 1),
    (query("select '', 'OK'"), 1),
    (query("select repeat('x', 70000)"), 1),
    (query("select n, s from t"), 1),
    (query("select n from t where n > 1000"), 1),
    (query("select nothing from t"), 1),
    (query("select 1; select 2; do 1; select s from t"), 1),
    (query("select 1; select nothing; select 2"), 1),
    (query("do 1; do 2"), 1),
    (query("call twice()"), 1),
    (query("insert into gone values (1)"), 1),
    (query("begin"), 1),
    (query("update t set s = concat(s, '') where n = 1"), 1),
    (query("commit"), 1),
    (query("show processlist"), 1),
    (query("load data infile '/nowhere' into table t"), 1),
    (query("select " + ", ".join(str(n) for n in range(300))), 1),
    (packet(22, b"select 1, ?") + packet(23, EXECUTE + NUMBER), 2),
    (packet(22, b"do 1") + packet(23, EXECUTE), 2),
    (packet(22, b"select ?") + packet(24, LAST + b"\0\0" + b"y" * 5000) + packet(23, EXECUTE + TEXT), 2),
    (packet(22, b"call twice()") + packet(23, EXECUTE), 2),
    (packet(22, b"select nothing from nowhere"), 1),
    (packet(22, b"select n, s from t") + packet(23, CURSOR) + packet(28, LAST + struct.pack("<I", 2))
     + packet(28, LAST + struct.pack("<I", 99)) + packet(26, LAST) + packet(25, LAST), 5),
    (packet(23, struct.pack("<I", 99999) + b"\0" + struct.pack("<I", 1)), 1),
    (packet(25, struct.pack("<I", 99999)), 0),
    (packet(2, b"shop"), 1),
    (packet(2, b"nowhere"), 1),
    (packet(4, b"t\0"), 1),
    (packet(4, b"nothing\0"), 1),
    (packet(9), 1),
    (packet(10), 1),
    (packet(14), 1),
    (packet(27, b"\0\0"), 1),
    (packet(31) + packet(2, b"shop"), 2),
    (packet(0), 1),
    (b"\0\0\0\0", 1),
]


def make(c):
    q = c.cursor()
    for text in (
        "create table if not exists t (n int primary key, s text)",
        "replace into t values (1, 'a'), (2, null), (3, ''), (4, repeat('z', 300))",
        "drop procedure if exists twice",
        "create procedure twice() begin select n, s from t; select 2; end",
    ):
        q.execute(text)
    c.commit()
    return 5


def pipeline(c, rounds, seed):
    """Sends commands, and reads until the last one is answered."""
    rng = random.Random(seed)
    owed = 0
    for n in range(rounds):
        batch = [rng.choice(KINDS) for _ in range(rng.choice([1, 2, 5, 40]))] if n > 0 else list(KINDS)
        # Settings of one pipeline are those of the next.
        word = b"<end %d %d>" % (seed, n)
        last = query(f"select concat('<end', ' {seed} {n}>')")
        sent = b"".join(b for b, _ in batch) + packet(27, b"\0\0") + last
        owed += sum(n for _, n in batch) + 2
        c._sock.sendall(sent)
        got = b""
        while word not in got[-600:]:
            more = c._sock.recv(65536)
            assert more, (seed, n, got[-300:])
            got += more
        # The end of its rows.
        while got[got.rindex(word):].count(b"\xfe") == 0:
            got += c._sock.recv(65536)
    return owed


c = connect()
owed = 1 + make(c)
for seed, flags in enumerate([0, NO_MARKS, 0, NO_MARKS]):
    c = connect(flags)
    owed += 1 + pipeline(c, ROUNDS, seed)
    c._sock.close()
print(owed)
