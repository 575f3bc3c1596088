//! `apps/postgres_proxy.loom` with pools: clients share the sessions of a real PostgreSQL,
//! transaction by transaction, and none sees anything of another.

use std::process::Command;
use std::time::{Duration, Instant};
use wireloom_tests::folder::Folder;
use wireloom_tests::postgres::{psql, Postgres, PASSWORD};
use wireloom_tests::{finish, free_port, python, require_tool, root, servers, Client, Process, Wireloom};

fn proxy(server: &[u16], more: &[&str]) -> Process {
    let servers = servers(server);
    let mut args = vec!["--cores", "1", "--set", &servers];
    more.iter().for_each(|m| args.extend(["--set", m]));
    Wireloom::run("postgres_proxy", &args)
}

/// Runs Python code with a driver, and gives its output.
fn script(port: u16, text: &str) -> Option<String> {
    let python = python::with("psycopg")?;
    let head = format!(
        "import psycopg, sys, threading, time\n\
         def connect(**more):\n    \
             more.setdefault('prepare_threshold', None)\n    \
             return psycopg.connect(host='127.0.0.1', port={port}, user='postgres', password='{PASSWORD}', \
             dbname='postgres', connect_timeout=10, autocommit=True, **more)\n"
    );
    let out = finish(Command::new(python).args(["-c", &format!("{head}{text}")]));
    assert_eq!(out.code, Some(0), "{}", out.text);
    Some(out.out)
}

/// Such a script comes to its end.
fn succeeds(port: u16, text: &str) {
    if let Some(out) = script(port, text) {
        assert_eq!(out, "done\n");
    }
}

fn pgbench(port: u16, args: &[&str]) -> String {
    let port = port.to_string();
    let usual = ["-h", "127.0.0.1", "-U", "postgres", "-p", &port, "postgres"];
    let out = finish(Command::new("pgbench").args(args).args(usual).env("PGPASSWORD", PASSWORD));
    assert_eq!(out.code, Some(0), "{}", out.text);
    out.text
}

fn storm(port: u16, rounds: u32, workers: u32) {
    let Some(python) = python::with("psycopg") else { return };
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/postgres_storm.py");
    let (port, rounds, workers) = (port.to_string(), rounds.to_string(), workers.to_string());
    let out = finish(Command::new(python).args([file, &port, &rounds, &workers, PASSWORD]));
    assert_eq!(out.code, Some(0), "{}", out.text);
    assert_eq!(out.out, "done\n", "{}", out.text);
}

#[test]
fn many_clients_share_a_few_sessions() {
    let Some(server) = Postgres::start("pool_bench") else { return };
    if !require_tool("pgbench") {
        return;
    }
    let proxy = proxy(&[server.port()], &["db.pool=4"]);
    pgbench(server.port(), &["-i", "-s", "2", "-q"]);
    for mode in ["simple", "extended"] {
        let text = pgbench(proxy.port, &["-M", mode, "-c", "32", "-t", "20"]);
        assert!(text.contains("number of transactions actually processed: 640/640"), "{text}");
        assert!(text.contains("number of failed transactions: 0"), "{text}");
        let left = "select count(*) from pg_stat_activity where application_name = 'pgbench'";
        assert_eq!(psql(server.port(), "postgres", left).out, "4\n");
    }
}

#[test]
fn no_client_sees_anything_of_another() {
    let Some(server) = Postgres::start("pool_storm") else { return };
    let proxy = proxy(&[server.port()], &["db.pool=6"]);
    storm(proxy.port, 15, 16);
}

/// The same on two cores, and with io_uring.
#[test]
fn no_client_sees_anything_of_another_on_two_cores() {
    let Some(server) = Postgres::start("pool_cores") else { return };
    let args = ["--cores", "0-1", "--engine", "uring", "--set", "db.pool=4", "--set", &servers(&[server.port()])];
    let proxy = Wireloom::run("postgres_proxy", &args);
    storm(proxy.port, 10, 16);
}

#[test]
fn who_has_not_logged_in_gets_no_session() {
    let Some(server) = Postgres::start("pool_login") else { return };
    let proxy = proxy(&[server.port()], &["db.pool=4"]);
    assert_eq!(psql(proxy.port, "postgres", "create database other").code, Some(0));
    assert_eq!(psql(proxy.port, "other", "select current_database()").out, "other\n");
    assert_eq!(psql(proxy.port, "postgres", "select current_database()").out, "postgres\n");
    let start = b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0";
    let query = b"Q\0\0\0\x12select 12345\0";
    // The pool of these parameters has a session: that of a client that was accepted.
    let text = "c = connect()\nassert c.execute('select 1').fetchone() == (1,)\ntime.sleep(3)\nprint('done')\n";
    let accepted = std::thread::spawn({
        let port = proxy.port;
        move || script(port, text)
    });
    std::thread::sleep(Duration::from_millis(500));
    for bytes in [&[&start[..], query].concat()[..], query, &[&start[..], start].concat()] {
        let mut client = Client::connect(proxy.port);
        client.send(bytes).finish_sending();
        let told = String::from_utf8_lossy(&client.rest()).into_owned();
        assert!(!told.contains("12345") && !told.contains("SELECT"), "{told:?}");
    }
    let wrong = finish(
        Command::new("psql")
            .args(["-X", "-h", "127.0.0.1", "-U", "postgres", "-p", &proxy.port.to_string(), "-c", "select 1"])
            .env("PGPASSWORD", "wrong"),
    );
    assert!(wrong.text.contains("password authentication failed"), "{}", wrong.text);
    accepted.join().expect("the accepted client is served");
}

/// A client that was accepted as one user cannot go on as another.
#[test]
fn a_client_logs_in_once() {
    let Some(server) = Postgres::start("pool_once") else { return };
    let proxy = proxy(&[server.port()], &["db.pool=4"]);
    let text = "
import os
c = connect()
assert c.execute('select 1').fetchone() == (1,)
time.sleep(0.2)
os.set_blocking(c.pgconn.socket, True)
os.write(c.pgconn.socket, b'\\0\\0\\0\\x12\\0\\x03\\0\\0user\\0ann\\0\\0Q\\0\\0\\0\\x0dselect 1\\0')
got = b''
while True:
    piece = os.read(c.pgconn.socket, 4096)
    if not piece: break
    got += piece
assert b'08P01' in got and b'SELECT' not in got, got
print('done')
";
    succeeds(proxy.port, text);
}

#[test]
fn clients_wait_for_a_session_in_order_and_not_for_ever() {
    let Some(server) = Postgres::start("pool_wait") else { return };
    let proxy = proxy(&[server.port()], &["db.pool=1", "db.pool_timeout=4s"]);
    let text = "
a, b, c, d = connect(), connect(), connect(), connect()
for x in (a, b, c, d): assert x.execute('select 1').fetchone() == (1,)
a.execute('begin')
order = []
def ask(x, name):
    # When the server has run it: threads here may be late.
    order.append((x.execute('select clock_timestamp()').fetchone()[0], name))
threads = []
for x, name in ((b, 'b'), (c, 'c'), (d, 'd')):
    t = threading.Thread(target=ask, args=(x, name)); t.start(); threads.append(t)
    time.sleep(0.2)
assert order == []
a.execute('commit')
[t.join() for t in threads]
assert [n for _, n in sorted(order)] == ['b', 'c', 'd'], order
a.execute('begin')
begun = time.time()
try:
    b.execute('select 3')
    assert False
except psycopg.OperationalError as e:
    assert 'no session of the pool is free' in str(e), e
assert 3.5 < time.time() - begun < 12
a.execute('commit')
assert c.execute('select 4').fetchone() == (4,)
# A client that leaves while it waits, and one that leaves within its transaction.
a.execute('begin')
import os
os.write(d.pgconn.socket, b'Q\\0\\0\\0\\x0dselect 5\\0')
time.sleep(0.1)
d.close()
a.execute('commit')
assert c.execute('select 6').fetchone() == (6,)
print('done')
";
    succeeds(proxy.port, text);
}

#[test]
fn settings_keep_their_session() {
    let Some(server) = Postgres::start("pool_pins") else { return };
    let proxy = proxy(&[server.port()], &["db.pool=2", "db.pool_timeout=3s"]);
    let text = "
a, b, c = connect(prepare_threshold=5), connect(), connect()
for n in range(20):
    assert a.execute('select %s::int', (n,), prepare=True).fetchone() == (n,)
    assert b.execute('select 1').fetchone() == (1,)
    assert c.execute('select 1').fetchone() == (1,)
a.execute('set search_path to elsewhere')
b.execute('set search_path to nowhere')
try:
    c.execute('select 1')
    assert False
except psycopg.OperationalError as e:
    assert 'no session of the pool is free' in str(e), e
assert b.execute('show search_path').fetchone() == ('nowhere',)
b.execute('discard all')
c = connect()
assert c.execute('show search_path').fetchone()[0] != 'nowhere'
# Whose text is too long to be looked at, keeps its session as well.
for parameters in [None, (1,)]:
    d = connect()
    d.execute('create temp table aside (n int) -- ' + 'x' * 3000)
    d.execute('insert into aside select 1' + (' where 1 = %s' if parameters else ''), parameters)
    assert d.execute('select n from aside').fetchone() == (1,)
    d.close()
# Any blank may stand between two words.
for made in ['create\\ntemp table aside (n int)', 'create\\ttemporary table aside (n int)',
             'create table pg_temp.aside (n int)', 'select 0 as n into/**/temp aside']:
    d = connect()
    d.execute(made)
    d.execute('insert into aside select 1')
    assert d.execute('select max(n) from aside').fetchone() == (1,)
    d.close()
# As pg_dump begins.
for call in [\"SELECT pg_catalog.set_config('search_path', 'kept', false)\",
             \"select set_config('a.b', 'x', true), set_config('search_path', 'kept', $1)\".replace('$1', 'false'),
             \"select set_config('search_path', 'kept', %s)\"]:
    d = connect()
    d.execute(call, (False,) if '%s' in call else None)
    assert d.execute('show search_path').fetchone() == ('kept',), call
    d.close()
# A setting of one transaction keeps nothing: four clients share what is left of the pool.
for d in [connect() for _ in range(4)]:
    assert d.execute(\"select set_config('a.b', 'x', true)\").fetchone() == ('x',)
print('done')
";
    succeeds(proxy.port, text);
}

/// Statements prepared by name are there in each session that their client gets. All clients use
/// the same names, in pipelines and behind errors, and drop some.
#[test]
fn named_statements_follow_their_client() {
    let Some(server) = Postgres::start("pool_named") else { return };
    // A client with more of them keeps its session, and takes it along in the end.
    let proxy = proxy(&[server.port()], &["db.pool=3", "statements_kept=1000"]);
    let text = "
errors = []
def work(k):
    try:
        c = connect(prepare_threshold=0)
        for n in range(40):
            i = n % 9
            got = c.execute(f'select {k * 100 + i}, %s::int', (n,)).fetchone()
            assert got == (k * 100 + i, n), got
            if n % 7 == 3:
                try: c.execute('select 1 / %s', (0,)); assert False
                except psycopg.errors.DivisionByZero: pass
            if n % 11 == 5:
                with c.pipeline():
                    all = [c.execute(f'select {k}, %s::int + {j % 3}', (j,)) for j in range(90)]
                    for j, r in enumerate(all): assert r.fetchone() == (k, j + j % 3)
            if n % 13 == 2:
                with c.transaction():
                    for j in range(5):
                        assert c.execute(f'select {k + j}, %s::text', (str(n),)).fetchone() == (k + j, str(n))
        # More than psycopg keeps: it drops old ones.
        if k < 2:
            for n in range(120): assert c.execute(f'select {n}, %s::int', (k,)).fetchone() == (n, k)
        c.close()
    except Exception as e:
        errors.append((k, repr(e)[:300]))
threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
[t.start() for t in threads]
[t.join() for t in threads]
print(errors or 'done')
";
    succeeds(proxy.port, text);
    if require_tool("pgbench") {
        pgbench(server.port(), &["-i", "-s", "1", "-q"]);
        let text = pgbench(proxy.port, &["-M", "prepared", "-c", "8", "-j", "8", "-t", "20"]);
        assert!(text.contains("number of transactions actually processed: 160/160"), "{text}");
        assert!(text.contains("number of failed transactions: 0"), "{text}");
    }
    let open =
        "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()";
    let open: u32 = psql(server.port(), "postgres", open).out.trim().parse().expect("a number");
    // Those of pgbench and those of the script are pools of their own.
    assert!(open <= 6, "{open}");
}

/// A server skips the statements that the proxy prepares behind an error. In a session that its
/// client keeps, they are prepared when they are needed again. Those before the error stay.
#[test]
fn statements_behind_an_error_are_prepared_when_they_are_needed_again() {
    let Some(server) = Postgres::start("pool_behind") else { return };
    let proxy = proxy(&[server.port()], &["db.pool=2"]);
    let text = "
from psycopg import pq
c = connect()
p = c.pgconn
def told(r): return r.get_value(0, 0) if r and r.ntuples else r.status if r else None
for name in (b'one', b'two', b'three'):
    r = p.prepare(name, b\"select '\" + name + b\"'::text\")
    assert r.status == pq.ExecStatus.COMMAND_OK, r.error_message
def batch(*all):
    p.enter_pipeline_mode()
    for s in all:
        if s.startswith(b'select'): p.send_query_params(s, None)
        else: p.send_query_prepared(s, None)
    p.pipeline_sync()
    out = []
    while True:
        r = p.get_result()
        if r is None: continue
        if r.status == pq.ExecStatus.PIPELINE_SYNC: break
        out.append(told(r))
    p.exit_pipeline_mode()
    return out
FAILED, SKIPPED = pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.PIPELINE_ABORTED
assert p.exec_(b'begin').status == pq.ExecStatus.COMMAND_OK
for n in range(3):
    assert p.exec_(b'savepoint s').status == pq.ExecStatus.COMMAND_OK
    got = batch(b'one', b'select 1 / 0', b'two', b'three', b'one')
    assert got == [b'one', FAILED, SKIPPED, SKIPPED, SKIPPED], got
    assert p.exec_(b'rollback to s').status == pq.ExecStatus.COMMAND_OK
got = batch(b'one', b'two', b'three', b'two', b'one')
assert got == [b'one', b'two', b'three', b'two', b'one'], got
assert p.exec_(b'commit').status == pq.ExecStatus.COMMAND_OK
# In another session, and in one that is kept for good.
got = batch(b'select 1 / 0', b'two')
assert got == [FAILED, SKIPPED], got
assert batch(b'two') == [b'two']
c.execute('set search_path to elsewhere')
got = batch(b'select 1 / 0', b'three')
assert got == [FAILED, SKIPPED], got
assert batch(b'three', b'two', b'one') == [b'three', b'two', b'one']
print('done')
";
    succeeds(proxy.port, text);
}

/// A client without a statement cancels none, whichever client has its session now.
#[test]
fn a_cancellation_reaches_its_own_session_only() {
    let Some(server) = Postgres::start("pool_cancel") else { return };
    let proxy = proxy(&[server.port()], &["db.pool=1"]);
    let text = "
a, b = connect(), connect()
for x in (a, b): assert x.execute('select 1').fetchone() == (1,)
t = threading.Timer(0.3, a.cancel); t.start()
assert b.execute('select pg_sleep(1), 2').fetchone()[1] == 2
t.join()
t = threading.Timer(0.3, b.cancel); t.start()
begun = time.time()
try:
    b.execute('select pg_sleep(5)')
    assert False
except psycopg.errors.QueryCanceled: pass
assert time.time() - begun < 3
t.join()
assert a.execute('select 3').fetchone() == (3,)
# A cancellation just before the end, and the next client at once. One that takes too long closes the
# session, as it may still be under way: a login brings another one.
lost = 0
for n in range(40):
    t = threading.Timer(0.02, b.cancel); t.start()
    try: b.execute('select pg_sleep(0.02)')
    except psycopg.errors.QueryCanceled: pass
    except psycopg.OperationalError: lost += 1; b = connect()
    try: assert a.execute('select pg_sleep(0.01), 4').fetchone()[1] == 4
    except psycopg.errors.QueryCanceled: raise
    except psycopg.OperationalError: lost += 1; a = connect()
    t.join()
assert lost < 10, lost
print('done')
";
    succeeds(proxy.port, text);
}

#[test]
fn lost_sessions_are_told_and_replaced_by_new_logins() {
    let Some(server) = Postgres::start("pool_lost") else { return };
    let proxy = proxy(&[server.port()], &["db.pool=2"]);
    let text = format!(
        "
a, b = connect(), connect()
for x in (a, b): assert x.execute('select 1').fetchone() == (1,)
k = psycopg.connect(host='127.0.0.1', port={}, user='postgres', password='{PASSWORD}', dbname='postgres', autocommit=True)
k.execute(\"select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'\")
time.sleep(0.3)
try:
    a.execute('select 2')
    assert False
except psycopg.OperationalError as e:
    assert 'cannot be reached' in str(e) or 'terminating' in str(e), e
a = connect()
assert a.execute('select 3').fetchone() == (3,)
# The session that was brought anew serves the other client, too.
assert b.execute('select 4').fetchone() == (4,)
print('done')
",
        server.port()
    );
    succeeds(proxy.port, &text);
}

#[test]
fn reads_go_to_a_replica() {
    let Some(primary) = Postgres::start("pool_primary") else { return };
    let Some(replica) = primary.replica("pool_replica") else { return };
    let proxy = proxy(&[primary.port(), replica.port()], &["db.pool=4", "split=true"]);
    let text = "
all = [connect() for n in range(6)]
a = all[0]
a.execute('create table t (n int)')
where = 'select pg_is_in_recovery()'
def replica(c, q='select inet_server_port()'): return c.execute(q).fetchone()[0]
ports = {replica(c) for c in all}
assert len(ports) == 1, ports
reads = ports.pop()
for c in all:
    c.execute('insert into t values (1)')
    with c.transaction():
        assert replica(c) != reads
        c.execute('insert into t values (2)')
    assert replica(c) == reads
    for more in [' for update', '\\nfor\\tupdate', '\\nfor share', ' for no key update']:
        assert replica(c, 'select inet_server_port()' + more) != reads
    with c.cursor() as k:
        k.execute('select inet_server_port(); select 1')
        assert k.fetchone()[0] != reads
n = 0
for i in range(100):
    # The replica may be behind, even by the table.
    try: n = a.execute('select count(*) from t').fetchone()[0]
    except psycopg.errors.UndefinedTable: pass
    if n == 12: break
    time.sleep(0.1)
assert n == 12, n
# A write right behind a read, before its answer.
import os
for i in range(20):
    with a.pipeline() as p:
        x = a.execute('select count(*) from t')
        p.sync()
        y = a.execute('insert into t values (3) returning inet_server_port()')
        p.sync()
        assert y.fetchone()[0] != reads
print('done')
";
    succeeds(proxy.port, text);
}

/// A service that ends says so to idle clients, and lets others finish their transactions.
#[test]
fn the_end_of_the_service_is_told() {
    let Some(server) = Postgres::start("pool_end") else { return };
    for more in [&["db.pool=4"][..], &[]] {
        let mut proxy = proxy(&[server.port()], more);
        let text = "
import os
a, b = connect(), connect()
for x in (a, b): assert x.execute('select 1').fetchone() == (1,)
b.execute('begin')
print('ready', flush=True)
os.set_blocking(a.pgconn.socket, True)
got = b''
begun = time.time()
while True:
    piece = os.read(a.pgconn.socket, 4096)
    if not piece: break
    got += piece
assert b'57P01' in got, got
assert time.time() - begun < 8, time.time() - begun
time.sleep(1)
assert b.execute('select 5').fetchone() == (5,)
b.execute('commit')
print('done')
";
        let port = proxy.port;
        let client = std::thread::spawn(move || script(port, text));
        std::thread::sleep(Duration::from_secs(3));
        let begun = Instant::now();
        proxy.signal(libc::SIGTERM);
        let out = client.join().expect("the client is served to its end");
        if out.is_some() {
            assert_eq!(proxy.exit_code(Duration::from_secs(10)), Some(0), "{}", proxy.output());
            assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        }
    }
}

/// With one of two servers down every user is served by the other one.
#[test]
fn a_pool_at_another_server_is_found() {
    let Some(server) = Postgres::start("pool_failover") else { return };
    for servers in [[free_port(), server.port()], [server.port(), free_port()]] {
        let proxy = proxy(&servers, &["db.pool=2"]);
        let text = "
a, b = connect(), connect()
for n in range(5):
    for x in (a, b): assert x.execute('select %s::int', (n,)).fetchone() == (n,)
# A statement is cancelled where it runs.
t = threading.Timer(0.3, a.cancel); t.start()
try:
    a.execute('select pg_sleep(5)')
    assert False
except psycopg.errors.QueryCanceled: pass
t.join()
print('done')
";
        succeeds(proxy.port, text);
    }
}

/// COPY, and several queries at once: each is answered by its own session.
#[test]
fn clients_that_do_not_wait_get_all_their_answers() {
    let Some(server) = Postgres::start("pool_pipeline") else { return };
    let proxy = proxy(&[server.port()], &["db.pool=2"]);
    let text = "
import psycopg
def work(k):
    x = connect()
    for n in range(30):
        with x.pipeline() as p:
            cs = [x.execute('select %s::int', (k * 1000 + i,)) for i in range(10)]
            p.sync()
            ds = [x.execute('select %s::int', (k * 2000 + i,)) for i in range(10)]
        assert [c.fetchone()[0] for c in cs] == [k * 1000 + i for i in range(10)]
        assert [d.fetchone()[0] for d in ds] == [k * 2000 + i for i in range(10)]
        with x.cursor() as c:
            with c.copy('copy kept from stdin') as f: f.write(f'{k}\\n')
            try:
                with c.copy('copy kept from stdin') as f:
                    for i in range(2000): f.write('no number\\n')
                assert False
            except psycopg.Error: pass
x = connect()
x.execute('create table kept (n int)')
ts = [threading.Thread(target=work, args=(k,)) for k in range(6)]
for t in ts: t.start()
for t in ts: t.join()
assert x.execute('select count(*) from kept').fetchone() == (180,)
print('done')
";
    succeeds(proxy.port, text);
}

/// The proxy with a pool, in virtual time.
const SIMULATED: &str = r#"
test "a cancellation whose end is not known ends its session" of postgres_proxy(servers = "10.0.0.1:1") {
    client <- "\0\0\0\x12\0\x03\0\0user\0bob\0\0"
    up -> "\0\0\0\x12\0\x03\0\0user\0bob\0\0"
    up <- "K\0\0\0\x0c\0\0\0\x07keysZ\0\0\0\x05I"
    client -> "K\0\0\0\x0c\0\0\0\x07keysZ\0\0\0\x05I"
    up -> "Q\0\0\0\x10DISCARD ALL\0"
    up <- "C\0\0\0\x10DISCARD ALL\0Z\0\0\0\x05I"
    client <- "Q\0\0\0\x0dselect 1\0"
    up -> "Q\0\0\0\x0dselect 1\0"
    client.1 <- "\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07keys"
    up.1 -> "\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07keys"
    // No message that belongs there: it is turned out.
    client.1 <- "X\0\0\0\x04"
    client.1 -> "E\0\0\0\x3dSFATAL\0VFATAL\0C08P01\0Mthis message does not belong here\0\0"
    client.1 -> closed
    close client.1
    up <- "C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I"
    client -> "C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I"
    // At once, and without the reset of a session that goes on.
    up -> closed
}

test "a cancellation that could not be sent is none" of postgres_proxy(servers = "10.0.0.1:1") {
    client <- "\0\0\0\x12\0\x03\0\0user\0bob\0\0"
    up -> "\0\0\0\x12\0\x03\0\0user\0bob\0\0"
    up <- "K\0\0\0\x0c\0\0\0\x07keysZ\0\0\0\x05I"
    client -> "K\0\0\0\x0c\0\0\0\x07keysZ\0\0\0\x05I"
    up -> "Q\0\0\0\x10DISCARD ALL\0"
    up <- "C\0\0\0\x10DISCARD ALL\0Z\0\0\0\x05I"
    client <- "Q\0\0\0\x0dselect 1\0"
    up -> "Q\0\0\0\x0dselect 1\0"
    client.1 <- "\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07keys"
    up.1 -> "\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07keys"
    // There is no place for a third connection.
    client.2 <- "\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07keys"
    client.2 -> "E\0\0\0\x3aSFATAL\0VFATAL\0C53300\0Mno session of the pool is free\0\0"
    client.2 -> closed
    close client.2
    close up.1
    up <- "C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I"
    client -> "C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I"
    up -> "Q\0\0\0\x10DISCARD ALL\0"
}

test "a replica that does not answer gets no write" of postgres_proxy(
    servers = "10.0.0.1:1,10.0.0.2:1",
    split = true
) {
    client <- "\0\0\0\x12\0\x03\0\0user\0bob\0\0"
    up -> "\0\0\0\x12\0\x03\0\0user\0bob\0\0"
    up <- "K\0\0\0\x0c\0\0\0\x07keysZ\0\0\0\x05I"
    client -> "K\0\0\0\x0c\0\0\0\x07keysZ\0\0\0\x05I"
    up -> "Q\0\0\0\x10DISCARD ALL\0"
    up <- "C\0\0\0\x10DISCARD ALL\0Z\0\0\0\x05I"
    client.1 <- "\0\0\0\x12\0\x03\0\0user\0bob\0\0"
    up.1 -> "\0\0\0\x12\0\x03\0\0user\0bob\0\0"
    up.1 <- "K\0\0\0\x0c\0\0\0\x08keysZ\0\0\0\x05I"
    client.1 -> "K\0\0\0\x0c\0\0\0\x08keysZ\0\0\0\x05I"
    up.1 -> "Q\0\0\0\x10DISCARD ALL\0"
    up.1 <- "C\0\0\0\x10DISCARD ALL\0Z\0\0\0\x05I"
    client.1 <- "Q\0\0\0\x0dselect 1\0Q\0\0\0\x0ddelete 1\0"
    up.1 -> "Q\0\0\0\x0dselect 1\0"
    wait 70s
    up.1 -> nothing
    client.1 -> "E\0\0\0\x37SFATAL\0VFATAL\0C08006\0Mthe replica does not answer\0\0"
    client.1 -> closed
}
"#;

#[test]
fn the_proxy_with_a_pool_in_virtual_time() {
    let folder = Folder::new("pool_simulated");
    let app = std::fs::read_to_string(root().join("apps/postgres_proxy.loom")).expect("the app");
    let app = app.split("\ntest \"").next().unwrap_or_default();
    let pooled = app.replace("{ failover next,", "{ pool 2, max_connections 2, failover next,");
    assert_ne!(app, pooled);
    let file = folder.name_of("postgres_proxy.loom");
    std::fs::write(&file, format!("{pooled}{SIMULATED}")).expect("the folder is writable");
    let out = Wireloom::command(&["test", &file]);
    assert_eq!(out.code, Some(0), "{}", out.text);
}
