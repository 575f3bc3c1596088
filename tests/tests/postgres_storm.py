"""Clients of a pool of sessions that do all that could mix them up: run by tests/tests/postgres_pools.rs.

Arguments: the proxy's port, rounds, clients, the password.
"""
import os
import psycopg
import random
import socket
import sys
import threading
import time

port, rounds, workers, password = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]


def connect():
    return psycopg.connect(host='127.0.0.1', port=port, user='postgres', password=password, dbname='postgres',
                           connect_timeout=20, autocommit=True)


with connect() as c:
    c.execute('drop table if exists kept; create table kept (who int, n int)')
wrong, again, done = [], [0], [0]
keepers = threading.Semaphore(3)
def work(me):
    rnd = random.Random(me)
    c = connect()
    def alone():
        # What another client has left is not there.
        left, = c.execute("select coalesce(current_setting('app.who', true), '')").fetchone()
        temp, = c.execute("select count(*) from pg_class where relname = 'mine' and relpersistence = 't'").fetchone()
        if left not in ('', str(me)): wrong.append((me, 'setting', left))
    for n in range(rounds):
        what = rnd.choice(['ask', 'ask', 'change', 'mark', 'lock', 'copy', 'pipe', 'kill', 'cut', 'keep', 'fail', 'cancel'])
        try:
            alone()
            if what == 'ask':
                got, = c.execute('select %s::int * 1000 + %s::int', (me, n)).fetchone()
                if got != me * 1000 + n: wrong.append((me, what, got))
            elif what == 'change':
                with c.transaction(force_rollback=n % 2 == 0):
                    c.execute('insert into kept values (%s, %s)', (me, n))
                    c.execute("set local app.who to '%d'" % me)
                    time.sleep(rnd.random() / 100)
                    got, = c.execute("select current_setting('app.who')").fetchone()
                    if got != str(me): wrong.append((me, what, got))
            elif what == 'mark':
                # Nothing tells the proxy of it.
                c.execute("select set_config('app.who', %s, false)", (str(me),))
            elif what == 'copy':
                with c.cursor().copy('copy kept from stdin') as copy:
                    for k in range(200): copy.write_row((me, k))
                rows = b''
                with c.cursor().copy("copy (select %d, 'x' from generate_series(1, 300)) to stdout" % me) as copy:
                    for piece in copy: rows += bytes(piece)
                if rows != b'%d\tx\n' % me * 300: wrong.append((me, what, rows[:40]))
            elif what == 'pipe':
                with c.pipeline() as p:
                    all = []
                    for k in range(20):
                        all.append(c.execute('select %s::int', (me * 100 + k,)))
                        if k % 7 == 0: p.sync()
                    got = [x.fetchone()[0] for x in all]
                if got != [me * 100 + k for k in range(20)]: wrong.append((me, what, got))
            elif what == 'fail':
                try:
                    c.execute('select 1 / (%s::int - %s::int)', (n, n))
                    wrong.append((me, what, 'no error'))
                except psycopg.errors.DivisionByZero: pass
                try:
                    with c.transaction():
                        c.execute('insert into kept values (%s, -1)', (me,))
                        c.execute('select * from nowhere')
                except psycopg.errors.UndefinedTable: pass
            elif what == 'kill':
                c.execute('begin')
                c.execute('insert into kept values (%s, -2)', (me,))
                s = socket.socket(fileno=os.dup(c.pgconn.socket))
                s.shutdown(socket.SHUT_RDWR); s.close(); c.close()
                c = connect()
            elif what == 'cut':
                # Half a message, and the end.
                os.write(c.pgconn.socket, b'Q\0\0\0\x40select %d' % me)
                c.close()
                c = connect()
            elif what == 'keep':
                with keepers, connect() as k:
                    k.execute("set app.who to '%d'" % me)
                    k.execute('listen chan_%d' % me)
                    k.execute('create temp table mine (who int)')
                    k.execute('insert into mine values (%s)', (me,))
                    for i in range(5):
                        if k.execute('select %s::int + who from mine', (i,), prepare=True).fetchone()[0] != me + i: wrong.append((me, what))
                    c.execute("select pg_notify('chan_%d', '%d')" % (me, n))
                    said = next(k.notifies())
                    if (said.channel, said.payload) != ('chan_%d' % me, str(n)): wrong.append((me, what, said))
                    if k.execute("select current_setting('app.who')").fetchone()[0] != str(me): wrong.append((me, what))
            elif what == 'cancel':
                t = threading.Timer(rnd.random() / 20, c.cancel)
                t.start()
                try: c.execute('select pg_sleep(0.05), %s::int', (me,))
                except psycopg.errors.QueryCanceled: pass
                t.join()
            done[0] += 1
        except psycopg.errors.QueryCanceled:
            wrong.append((me, what, 'cancelled by another'))
        except psycopg.OperationalError as e:
            again[0] += 1
            if not any(w in str(e) for w in ('cannot be reached', 'no session of the pool', 'terminating', 'closed')): wrong.append((me, what, str(e)))
            while True:
                try: c = connect(); break
                except psycopg.OperationalError as e: time.sleep(0.05)
        except Exception as e:
            wrong.append((me, what, repr(e)))
            c = connect()
threads = [threading.Thread(target=work, args=(n,)) for n in range(1, workers + 1)]
[t.start() for t in threads]
[t.join() for t in threads]
with connect() as c:
    bad = c.execute('select count(*) from kept where n in (-1, -2)').fetchone()[0]
    if bad: wrong.append(('kept', bad))
assert not wrong, wrong[:5]
assert done[0] > rounds * workers * 0.8, (done, again)
print('done')
