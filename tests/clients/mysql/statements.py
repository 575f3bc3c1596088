"""Prepared statements of MySQL's own driver, in the binary protocol. Arguments: the port, the password."""

import datetime
import decimal
import io
import sys
import threading

import mysql.connector

PORT, PASSWORD = int(sys.argv[1]), sys.argv[2]


def connect():
    return mysql.connector.connect(
        host="127.0.0.1", port=PORT, user="ann", password=PASSWORD, database="shop", use_pure=True,
        ssl_disabled=True, charset="utf8mb4", collation="utf8mb4_general_ci", autocommit=True,
        connection_timeout=20,
    )


def values(c):
    """Types of the binary protocol, in both directions, and nothing."""
    q = c.cursor(prepared=True)
    all = (
        1, -1, 1 << 40, 1.5, "grüße", b"\x00\xff", None, decimal.Decimal("12.50"),
        datetime.datetime(2026, 2, 3, 4, 5, 6, 789), datetime.date(2026, 2, 3),
    )
    q.execute("create table if not exists v (a bigint, b bigint, c bigint, d double, e text, f blob, g int, "
              "h decimal(10,2), i datetime(6), j date)")
    q.execute("insert into v values (" + ", ".join(["%s"] * len(all)) + ")", all)
    q.execute("select * from v")
    rows = q.fetchall()
    assert len(rows) == 1 and rows[0][:4] == all[:4] and rows[0][6:] == all[6:], rows
    q.close()


def rounds(c, n):
    """One statement, executed often; its own parameters come back."""
    q = c.cursor(prepared=True)
    for i in range(n):
        q.execute("select %s + 1, %s", (i, "x" * i))
        got = q.fetchall()
        assert int(got[0][0]) == i + 1 and len(got[0][1]) == i, (i, got)
    # Its parameters are forgotten, the statement is not.
    statement = q._prepared["statement_id"]
    c.cmd_stmt_reset(statement)
    q.execute("select %s + 1, %s", (41, "y"))
    assert int(q.fetchall()[0][0]) == 42
    # Closing is not answered: the next command is.
    q.close()
    plain = c.cursor()
    plain.execute("select 7")
    assert plain.fetchall() == [(7,)]
    try:
        c.cmd_stmt_reset(statement)
        raise AssertionError("a statement that was closed")
    except mysql.connector.Error as e:
        assert e.errno == 1243, e
    plain.close()


def long_data(c):
    """Parameters in pieces of their own, which are not answered."""
    q = c.cursor(prepared=True)
    q.execute("create table if not exists l (n int, b longblob)")
    for n in (1, 8192, 8193, 3_000_000):
        q.execute("insert into l values (%s, %s)", (n, io.BytesIO(b"z" * n)))
    q.execute("select n, length(b) from l order by n")
    rows = q.fetchall()
    assert [(a, b or 0) for a, b in rows] == [(n, n) for n in (1, 8192, 8193, 3_000_000)], rows
    q.execute("select b from l where n = %s", (3_000_000,))
    assert q.fetchall()[0][0] in (b"z" * 3_000_000, bytearray(b"z" * 3_000_000))
    q.close()


def errors(c):
    """An error in a statement ends nothing."""
    q = c.cursor(prepared=True)
    try:
        q.execute("select nothing from nowhere where a = %s", (1,))
        raise AssertionError("a table that is not there")
    except mysql.connector.Error as e:
        assert e.errno == 1146, e
    q.close()
    rounds(c, 3)


def other_user(c):
    """A login within the session: its packets are no commands."""
    for n in range(3):
        c.cmd_change_user("ann", PASSWORD, "shop", charset=45)
        rounds(c, 3)


def all_of(n, problems):
    try:
        rounds(connect(), 50 + n)
    except BaseException as e:
        problems.append(repr(e))


c = connect()
values(c)
rounds(c, 100)
long_data(c)
errors(c)
other_user(c)
# Numbers of statements are those of a session: many have the same.
problems = []
threads = [threading.Thread(target=all_of, args=(n, problems)) for n in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert not problems, problems
print("done")
