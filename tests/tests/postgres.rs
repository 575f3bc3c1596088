//! `apps/postgres_proxy.loom` between real clients (psql, pgbench, psycopg) and a real PostgreSQL.

use std::process::Command;
use std::time::{Duration, Instant};
use wireloom_tests::folder::Folder;
use wireloom_tests::postgres::{psql, Postgres, PASSWORD};
use wireloom_tests::{finish, free_port, python, require_tool, servers, Client, Process, Wireloom};

fn proxy(server: u16) -> Process {
    Wireloom::run("postgres_proxy", &["--set", &servers(&[server])])
}

/// Runs Python code with a driver, and gives its output.
fn script(port: u16, text: &str) -> Option<String> {
    let python = python::with("psycopg")?;
    let head = format!(
        "import psycopg, sys, threading, time\n\
         def connect(**more):\n    \
             return psycopg.connect(host='127.0.0.1', port={port}, user='postgres', password='{PASSWORD}', \
             dbname='postgres', connect_timeout=10, **more)\n"
    );
    let out = finish(Command::new(python).args(["-c", &format!("{head}{text}")]));
    assert_eq!(out.code, Some(0), "{}", out.text);
    Some(out.out)
}

#[test]
fn logins_queries_and_errors() {
    let Some(server) = Postgres::start("queries") else { return };
    let proxy = proxy(server.port());
    assert_eq!(psql(proxy.port, "postgres", "select 6 * 7").out, "42\n");
    assert_eq!(
        psql(
            proxy.port,
            "postgres",
            "create table t (n int); insert into t select generate_series(1, 1000); select sum(n) from t"
        )
        .out,
        "500500\n"
    );
    let failed = psql(proxy.port, "postgres", "select 1 / 0");
    assert!(failed.code != Some(0) && failed.text.contains("division by zero"), "{}", failed.text);
    let none = psql(proxy.port, "nowhere", "select 1");
    assert!(none.text.contains("database \"nowhere\" does not exist"), "{}", none.text);
    let wrong = finish(
        Command::new("psql")
            .args(["-X", "-h", "127.0.0.1", "-U", "postgres", "-p", &proxy.port.to_string(), "-c", "select 1"])
            .env("PGPASSWORD", "wrong"),
    );
    assert!(wrong.text.contains("password authentication failed"), "{}", wrong.text);
    // A row of 30 MB streams through.
    let large = psql(proxy.port, "postgres", "select repeat('x', 30000000)");
    assert_eq!(large.out.len(), 30_000_001);
    assert!(proxy.rss_kib() < 100_000, "{} KiB", proxy.rss_kib());
}

#[test]
fn copies_of_any_size() {
    let Some(server) = Postgres::start("copy") else { return };
    let proxy = proxy(server.port());
    let folder = Folder::new("postgres_copy");
    let (file, back) = (folder.name_of("in"), folder.name_of("out"));
    let rows: String = (0..400_000).map(|n| format!("{n}\t{}\n", "row of some length ".repeat(n % 7))).collect();
    std::fs::write(&file, &rows).expect("the folder is writable");
    let made = psql(proxy.port, "postgres", "create table copied (n int, text text)");
    assert_eq!(made.code, Some(0), "{}", made.text);
    for line in
        [format!("\\copy copied from '{file}'"), format!("\\copy (select * from copied order by n) to '{back}'")]
    {
        let out = psql(proxy.port, "postgres", &line);
        assert_eq!(out.code, Some(0), "{}", out.text);
    }
    assert!(std::fs::read_to_string(&back).expect("it is there") == rows, "the copy is another");
    assert!(proxy.rss_kib() < 100_000, "{} KiB", proxy.rss_kib());
}

#[test]
fn pgbench_in_all_modes() {
    let Some(server) = Postgres::start("pgbench") else { return };
    if !require_tool("pgbench") {
        return;
    }
    let proxy = proxy(server.port());
    let run = |args: &[&str]| {
        let port = proxy.port.to_string();
        let usual = ["-h", "127.0.0.1", "-U", "postgres", "-p", &port, "postgres"];
        let out = finish(Command::new("pgbench").args(args).args(usual).env("PGPASSWORD", PASSWORD));
        assert_eq!(out.code, Some(0), "{}", out.text);
        out.text
    };
    run(&["-i", "-s", "2", "-q"]);
    for mode in ["simple", "extended", "prepared"] {
        let text = run(&["-M", mode, "-c", "8", "-t", "100"]);
        assert!(text.contains("number of transactions actually processed: 800/800"), "{text}");
        assert!(text.contains("number of failed transactions: 0"), "{text}");
    }
    // A connection for each transaction.
    run(&["-S", "-C", "-c", "4", "-t", "20"]);
}

#[test]
fn a_statement_is_cancelled_by_its_client_only() {
    let Some(server) = Postgres::start("cancel") else { return };
    let proxy = proxy(server.port());
    let start = Instant::now();
    let sleep = || {
        Command::new("psql")
            .args([
                "-X",
                "-h",
                "127.0.0.1",
                "-U",
                "postgres",
                "-p",
                &proxy.port.to_string(),
                "-c",
                "select pg_sleep(3)",
            ])
            .env("PGPASSWORD", PASSWORD)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("it starts")
    };
    let (mut one, other) = (sleep(), sleep());
    std::thread::sleep(Duration::from_millis(1000));
    // SAFETY: kill on our own child's pid.
    unsafe { libc::kill(one.id() as i32, libc::SIGINT) };
    assert!(!one.wait().expect("it ends").success());
    assert!(start.elapsed() < Duration::from_millis(2900), "{:?}", start.elapsed());
    let other = other.wait_with_output().expect("it ends");
    assert!(other.status.success(), "{}", String::from_utf8_lossy(&other.stderr));
}

#[test]
fn a_driver_with_pipelines_notifications_and_prepared_statements() {
    let Some(server) = Postgres::start("driver") else { return };
    let proxy = proxy(server.port());
    let text = "
a = connect(autocommit=True)
b = connect(autocommit=True)
a.execute('create table d (n int primary key, t text, b bytea)')
with a.pipeline() as p:
    c = a.cursor()
    for n in range(500):
        c.execute('insert into d values (%s, %s, %s)', (n, 'x' * (n % 50), bytes([n % 256]) * n))
rows = b.execute('select n, length(t), b from d order by n', binary=True).fetchall()
assert [(r[0], r[1]) for r in rows] == [(n, n % 50) for n in range(500)]
assert all(r[2] == bytes([r[0] % 256]) * r[0] for r in rows)
for n in range(300):
    assert b.execute('select n + %s from d where n = %s', (n, n), prepare=True).fetchone()[0] == 2 * n
a.execute('listen news')
for n in range(20):
    b.execute('select pg_notify(%s, %s)', ('news', 'item %d' % n))
said = a.notifies()
got = [next(said).payload for n in range(20)]
assert got == ['item %d' % n for n in range(20)], got
with b.cursor().copy('copy d (n, t) from stdin') as copy:
    for n in range(1000, 21000):
        copy.write_row((n, 'y' * 100))
assert b.execute('select count(*) from d').fetchone()[0] == 20500
try:
    b.execute('select * from nothing')
    assert False
except psycopg.errors.UndefinedTable:
    pass
assert b.execute('select 1').fetchone()[0] == 1
print('done')
";
    let Some(out) = script(proxy.port, text) else { return };
    assert_eq!(out, "done\n");
}

/// Settings, temporary tables and transactions belong to a session.
#[test]
fn sessions_stay_apart() {
    let Some(server) = Postgres::start("apart") else { return };
    let proxy = proxy(server.port());
    let text = "
wrong = []
def work(me):
    for round in range(4):
        with connect() as c:
            c.execute('set application_name to %s' % ('client_%d_%d' % (me, round)))
            c.execute('create temp table mine (n int)')
            for n in range(30):
                c.execute('insert into mine values (%s)', (me,))
                name, = c.execute('show application_name').fetchone()
                rows = c.execute('select distinct n from mine').fetchall()
                if name != 'client_%d_%d' % (me, round) or rows != [(me,)]:
                    wrong.append((me, name, rows))
            if me % 3 == 0: c.rollback()
            if me % 5 == 0: break
threads = [threading.Thread(target=work, args=(n,)) for n in range(24)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not wrong, wrong[:3]
print('done')
";
    let Some(out) = script(proxy.port, text) else { return };
    assert_eq!(out, "done\n");
    let left = || {
        psql(server.port(), "postgres", "select count(*) from pg_stat_activity where application_name like 'client%'")
            .out
    };
    let until = Instant::now() + Duration::from_secs(5);
    while left() != "0\n" {
        assert!(Instant::now() < until, "{} sessions are left", left());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_server_that_goes_is_told_in_the_protocol() {
    let Some(server) = Postgres::start("goes") else { return };
    let proxy = proxy(server.port());
    let text = "
c = connect(autocommit=True)
d = connect(autocommit=True)
pid = c.info.backend_pid
d.execute('select pg_terminate_backend(%s)', (pid,))
try:
    c.execute('select 1')
    assert False
except psycopg.OperationalError as e:
    # The driver may see the end of the connection before it reads why.
    assert 'administrator command' in str(e), e
assert d.execute('select 1').fetchone()[0] == 1
print('done')
";
    if let Some(out) = script(proxy.port, text) {
        assert_eq!(out, "done\n");
    }
    drop(server);
    let out = psql(proxy.port, "postgres", "select 1");
    assert!(out.text.contains("the server cannot be reached"), "{}", out.text);
}

#[test]
fn nonsense_is_refused_and_harms_nobody() {
    let Some(server) = Postgres::start("nonsense") else { return };
    let proxy = proxy(server.port());
    let told = |bytes: &[u8]| {
        let mut client = Client::connect(proxy.port);
        client.send(bytes).finish_sending();
        String::from_utf8_lossy(&client.rest()).into_owned()
    };
    assert!(told(b"\0\xff\xff\xff\0\x03\0\0").contains("08P01"));
    assert!(told(b"\0\0\0\x08\0\x07\0\0").contains("08P01"));
    assert!(told(b"Q\0\0\0\x01").contains("08P01"));
    assert!(told(b"\0\0\0\x12\0\x03\0\0user\0a").contains("08P01"));
    // A request for TLS is refused with one byte, twice.
    let mut client = Client::connect(proxy.port);
    client.send(b"\0\0\0\x08\x04\xd2\x16\x2f").expect(b"N").send(b"\0\0\0\x08\x04\xd2\x16\x30").expect(b"N");
    // A request to cancel something that nobody runs.
    assert_eq!(told(b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02"), "");
    assert_eq!(psql(proxy.port, "postgres", "select 1").out, "1\n");
    let unused = free_port();
    let alone = Wireloom::run("postgres_proxy", &["--set", &servers(&[unused])]);
    assert!(psql(alone.port, "postgres", "select 1").text.contains("the server cannot be reached"));
}
