//! `apps/mysql_proxy.loom` between a real MariaDB, its client, and a Python driver.

use std::process::Command;
use wireloom_tests::control::Controlled;
use wireloom_tests::folder::Folder;
use wireloom_tests::mariadb::{mariadb, MariaDb, PASSWORD};
use wireloom_tests::{admin, client_library, finish, free_port, python, root, servers, Client, Process};

fn proxy(server: u16) -> (Controlled, u16) {
    let (proxy, port, _) = proxy_with_page(server);
    (proxy, port)
}

/// The proxy, its port and its admin page.
fn proxy_with_page(server: u16) -> (Controlled, u16, u16) {
    let (port, page) = (free_port(), free_port());
    let (set, list, at) = (format!("port={port}"), servers(&[server]), format!("127.0.0.1:{page}"));
    let args = ["apps/mysql_proxy.loom", "--set", &set, "--set", &list, "--admin", &at, "--drain", "20"];
    (Controlled::run("mysql_proxy", &args), port, page)
}

/// Runs Python code with a driver, and gives its output.
fn script(port: u16, text: &str) -> Option<String> {
    let python = python::with("pymysql")?;
    let head = format!(
        "import pymysql, sys, threading\n\
         def connect(**more):\n    \
             return pymysql.connect(host='127.0.0.1', port={port}, user='ann', password='{PASSWORD}', \
             connect_timeout=10, read_timeout=60, autocommit=True, **more)\n"
    );
    let out = finish(Command::new(python).args(["-c", &format!("{head}{text}")]));
    assert_eq!(out.code, Some(0), "{}", out.text);
    Some(out.out)
}

fn counted(proxy: &Controlled, database: &str, kind: &str) -> String {
    let args = ["table", "counts", "get", "user=ann", &format!("database={database}"), &format!("kind={kind}")];
    proxy.told(&args).split_whitespace().last().unwrap_or_default().into()
}

#[test]
fn logins_statements_and_errors_are_counted() {
    let Some(server) = MariaDb::start("statements") else { return };
    let (proxy, port) = proxy(server.port());
    assert_eq!(mariadb(port, "select 6 * 7", &[]).out, "42\n");
    let made = "create table t (n int, s longtext); insert into t values (1, 'a'), (2, null); select sum(n) from t";
    assert_eq!(mariadb(port, made, &["shop"]).out, "3\n");
    let failed = mariadb(port, "select nothing from t", &["shop"]);
    assert!(failed.code != Some(0) && failed.text.contains("Unknown column 'nothing'"), "{}", failed.text);
    // Another database is another account; a wrong password is no login.
    assert_eq!(mariadb(port, "use shop; select count(*) from t", &[]).out, "2\n");
    let wrong = mariadb(port, "select 1", &["-pwrong"]);
    assert!(wrong.text.contains("Access denied for user 'ann'"), "{}", wrong.text);
    let none = mariadb(port, "select 1", &["nowhere"]);
    assert!(none.text.contains("Unknown database 'nowhere'"), "{}", none.text);
    for (kind, n) in [("SELECT", "3"), ("CREATE", "1"), ("INSERT", "1")] {
        assert_eq!(counted(&proxy, "shop", kind), n, "{kind}");
    }
    // A client that must have TLS is told that there is none.
    let secure = mariadb(port, "select 1", &["--ssl", "--ssl-verify-server-cert"]);
    assert!(secure.code != Some(0) && secure.text.contains("does not support it"), "{}", secure.text);
}

#[test]
fn prepared_statements_and_packets_of_16_mib() {
    let Some(server) = MariaDb::start("large") else { return };
    let (proxy, port) = proxy(server.port());
    let prepared = "prepare p from 'select ? + 1'; set @a = 41; execute p using @a";
    assert_eq!(mariadb(port, prepared, &[]).out, "42\n");
    // Values around the largest packet, and beyond two of them, in both directions.
    let text = "
c = connect(max_allowed_packet=256 << 20)
q = c.cursor()
for n in [1, 65535, 0xffffff - 100, 0xffffff - 15, 0xffffff - 14, 0xffffff - 13, 0xffffff, 40_000_000]:
    q.execute('select %s', ('x' * n,))
    assert len(q.fetchone()[0]) == n, n
q.execute('select repeat(0x0a, 20000000)')
assert len(q.fetchone()[0]) == 20000000
q.execute('select 7')
assert q.fetchone() == (7,)
# Sizes at which a row is exactly one packet, and one and a rest.
for n in range(0xffffff - 6, 0xffffff + 3):
    q.execute('select repeat(0x61, %s)', (n,))
    assert len(q.fetchone()[0]) == n, n
c.select_db('shop')
q.execute('select 1')
c.ping()
c.close()
print('done')
";
    let Some(out) = script(port, text) else { return };
    assert_eq!(out, "done\n");
    assert_eq!(counted(&proxy, "shop", "SELECT"), "1");
    assert!(proxy.app.rss_kib() < 100_000, "{} KiB", proxy.app.rss_kib());
}

/// COM_STMT_PREPARE, EXECUTE, RESET, CLOSE and SEND_LONG_DATA, of which two have no answer.
fn statements(language: &str, command: &mut Command) {
    let Some(server) = MariaDb::start(&format!("binary_{language}")) else { return };
    let (proxy, port) = proxy(server.port());
    let out = finish(command.args([&port.to_string(), PASSWORD]));
    assert_eq!((out.code, out.out.as_str()), (Some(0), "done\n"), "{}", out.text);
    assert!(proxy.app.rss_kib() < 100_000, "{} KiB", proxy.app.rss_kib());
}

#[test]
fn binary_statements_of_mysql_connector() {
    let Some(library) = client_library("mysql/python", "python3") else { return };
    let mut command = Command::new("python3");
    statements("python", command.env("PYTHONPATH", library).arg(root().join("tests/clients/mysql/statements.py")));
}

#[test]
fn binary_statements_of_node() {
    let Some(library) = client_library("mysql/node", "node") else { return };
    let mut command = Command::new("node");
    let script = root().join("tests/clients/mysql/node/statements.js");
    statements("node", command.env("NODE_PATH", library.join("node_modules")).arg(script));
}

#[test]
fn files_are_loaded_and_their_pieces_are_no_commands() {
    let Some(server) = MariaDb::start("files") else { return };
    let (proxy, port) = proxy(server.port());
    let folder = Folder::new("mysql_files");
    let file = folder.name_of("rows");
    // Each piece begins with a byte that is a command elsewhere.
    let rows: String = (0..300_000).map(|n| format!("\u{3}\t{n} select {}\n", "x".repeat(n % 50))).collect();
    std::fs::write(&file, &rows).expect("the folder is writable");
    let load = format!(
        "create table f (k text, s text); load data local infile '{file}' into table f; select count(*) from f"
    );
    assert_eq!(mariadb(port, &load, &["shop", "--local-infile=1"]).out, "300000\n");
    let text = format!(
        "
c = connect(local_infile=True, database='shop')
q = c.cursor()
for _ in range(3):
    assert q.execute(\"load data local infile '{file}' into table f\") == 300000
q.execute('select count(*) from f')
print(q.fetchone()[0])
"
    );
    if let Some(out) = script(port, &text) {
        assert_eq!(out, "1200000\n");
        assert_eq!(counted(&proxy, "shop", "LOAD"), "4");
        assert_eq!(counted(&proxy, "shop", "SELECT"), "2");
    }
    assert!(proxy.app.rss_kib() < 100_000, "{} KiB", proxy.app.rss_kib());
}

/// Commands in one segment, and a file that the second of them asks for.
#[test]
fn a_file_in_a_pipeline_is_no_commands() {
    let Some(server) = MariaDb::start("file_later") else { return };
    let (proxy, port) = proxy(server.port());
    let folder = Folder::new("mysql_file_later");
    let file = folder.name_of("rows");
    // Each of the driver's pieces begins with the byte of a query.
    std::fs::write(&file, format!("\u{3}select\t{}\n", "x".repeat(55)).repeat(5_000)).expect("the folder is writable");
    let text = format!(
        "
import struct
from pymysql.connections import MySQLResult
c = connect(local_infile=True, database='shop')
q = c.cursor()
q.execute('create table f (k text, s text)')
def query(text): return struct.pack('<I', 1 + len(text))[:3] + b'\\0\\x03' + text.encode()
def answer():
    c._next_seq_id = 1
    r = MySQLResult(c)
    r.read()
    return r.rows or r.affected_rows
# A row that begins like the request for a file.
c._sock.sendall(query('select null') + query(\"load data local infile '{file}' into table f\"))
assert answer() == ((None,),)
assert answer() == 5000
q.execute('select count(*) from f')
print(q.fetchone()[0])
"
    );
    let Some(out) = script(port, &text) else { return };
    assert_eq!(out, "5000\n");
    for (kind, n) in [("LOAD", "1"), ("SELECT", "2"), ("CREATE", "1")] {
        assert_eq!(counted(&proxy, "shop", kind), n, "{kind}");
    }
    let others = proxy.ask(&["table", "counts", "get", "user=ann", "database=shop", "kind=OTHER"]);
    assert!(!others.text.chars().any(|c| c.is_ascii_digit()), "{}", others.text);
}

/// The proxy knows the end of each answer, with EOF packets and without.
#[test]
fn answers_of_all_kinds_are_counted_in_pipelines() {
    let Some(server) = MariaDb::start("pipelines") else { return };
    let Some(python) = python::with("pymysql") else { return };
    let (_proxy, port, page) = proxy_with_page(server.port());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mysql_pipelines.py");
    let out = finish(Command::new(python).args([file, &port.to_string(), PASSWORD, "25"]));
    assert_eq!(out.code, Some(0), "{}", out.text);
    let owed: u64 = out.out.trim().parse().expect("a number");
    let answers = || admin::status(page)["apps"][0]["counters"]["answers"].as_u64();
    admin::eventually(&format!("{owed} answers, not {:?}", answers()), || answers() == Some(owed));
}

/// A server that ends an idle session: its client is closed, and finds out at its next command. One
/// that asks is told in a way that drivers take for a lost connection.
#[test]
fn ends_of_servers_are_told_as_drivers_expect() {
    let Some(mut server) = MariaDb::start("ends") else { return };
    let (proxy, port) = proxy(server.port());
    let text = "
idle, again = connect(), connect()
idle.cursor().execute('set wait_timeout=1')
time.sleep(2.5)
try:
    idle.cursor().execute('select 1')
    assert False
except pymysql.err.OperationalError as e: assert e.args[0] in (2006, 2013), e
again.ping()
busy = connect()
busy._sock.sendall(b'\\x10\\0\\0\\0\\x03select sleep(9)')
other = connect().cursor()
other.execute('select id from information_schema.processlist where info like \"select sleep%\"')
other.execute('kill %d' % other.fetchone())
told = busy._sock.recv(1000)
assert told[3] == 1 and told[4] == 0xff and told[5] + told[6] * 256 in (1927, 1317), told
print('done')
";
    if let Some(out) = script(port, &format!("import time\n{text}")) {
        assert_eq!(out, "done\n");
    }
    server.process.signal(libc::SIGTERM);
    server.process.exit();
    let gone = mariadb(port, "select 1", &[]);
    assert!(gone.text.contains("the server cannot be reached"), "{}", gone.text);
    drop(proxy);
}

/// A drain waits for all commands of a pipeline and for a transaction, and ends an idle session.
#[test]
fn a_drain_ends_no_session_within_a_command_or_a_transaction() {
    let Some(server) = MariaDb::start("drain") else { return };
    let (proxy, port) = proxy(server.port());
    let text = format!(
        "
import os, signal, struct, time
idle, busy, within = connect(), connect(), connect()
within.begin()
q = within.cursor()
q.execute('select 1')
def query(text): return struct.pack('<I', 1 + len(text))[:3] + b'\\0\\x03' + text.encode()
busy._sock.sendall(query('select 1') + query('select sleep(2), \"slept\"'))
time.sleep(0.5)
os.kill({}, signal.SIGTERM)
begun = time.time()
told = idle._sock.recv(1000)
assert b'the service ends' in told and time.time() - begun < 2, told
# Nobody has asked for this packet: its number is 0, as servers give it.
assert told[3] == 0, told
# More than the time after which a session without a byte counted as idle.
time.sleep(1.2)
assert q.execute('select 2') == 1
got = b''
while b'slept' not in got[-40:]:
    more = busy._sock.recv(1000)
    assert more and b'the service ends' not in more, more
    got += more
within.commit()
assert b'the service ends' in within._sock.recv(1000)
print('done')
",
        proxy.app.child.id()
    );
    if let Some(out) = script(port, &text) {
        assert_eq!(out, "done\n");
    }
}

/// Logins with the whole password under the server's key, and those that the server knows.
#[test]
fn logins_by_caching_sha2_password() {
    let Some(python) = python::with("pymysql, cryptography") else { return };
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mysql_sha2.py");
    let at = free_port();
    let server = Process::start("mysql_sha2", Command::new(python).args([file, &at.to_string(), PASSWORD]), at);
    let (_proxy, port, page) = proxy_with_page(server.port);
    let text = "
for n in range(3):
    q = connect().cursor()
    q.execute('select 42')
    assert q.fetchone() == ('42',)
q.execute('forget')
connect()
try:
    pymysql.connect(host='127.0.0.1', port=PORT, user='bob', password='wrong')
    assert False
except pymysql.err.OperationalError as e: assert e.args[0] == 1045, e
q.execute('logins')
print(q.fetchone()[0])
";
    let Some(out) = script(port, &text.replace("PORT", &port.to_string())) else { return };
    assert_eq!(out, "whole fast fast whole\n");
    let counter = |name: &str| admin::status(page)["apps"][0]["counters"][name].as_u64();
    // Five logins, four of them accepted; two commands `forget` and `logins`, four selects and
    // settings of the driver.
    admin::eventually("all is answered", || counter("answers") == counter("statements").map(|n| n + 5));
    if let Some(library) = client_library("mysql/node", "node") {
        let text = format!(
            "const m = require('mysql2/promise'); (async () => {{\n\
             const make = () => m.createConnection({{host: '127.0.0.1', port: {port}, user: 'eve', password: '{PASSWORD}'}});\n\
             for (let i = 0; i < 3; i++) {{ const c = await make();\n\
             const [[row]] = await c.query('select 42'); if (row.n !== '42') throw row; c.destroy(); }}\n\
             console.log('done'); }})()"
        );
        let mut command = Command::new("node");
        let out = finish(command.args(["-e", &text]).env("NODE_PATH", library.join("node_modules")));
        assert_eq!(out.out, "done\n", "{}", out.text);
    }
}

/// Sessions of many clients at once: each keeps its variables and transactions.
#[test]
fn sessions_stay_apart() {
    let Some(server) = MariaDb::start("apart") else { return };
    let (_proxy, port) = proxy(server.port());
    let text = "
problems = []
def work(n):
    try:
        c = connect(database='shop')
        q = c.cursor()
        q.execute('set @mine = %s', (n,))
        for k in range(50):
            q.execute('select @mine, %s', (k,))
            if q.fetchall() != ((n, k),):
                problems.append((n, k))
        c.close()
    except Exception as e:
        problems.append(e)
all = [threading.Thread(target=work, args=(n,)) for n in range(30)]
[t.start() for t in all]
[t.join() for t in all]
print(problems)
";
    if let Some(out) = script(port, text) {
        assert_eq!(out, "[]\n");
    }
}

#[test]
fn hostile_packets_end_their_own_session_only() {
    let Some(server) = MariaDb::start("hostile") else { return };
    let (_proxy, port) = proxy(server.port());
    let login = b"\x20\0\0\x01\x85\xa6\x3f\x00\0\0\0\x01\x21RRRRRRRRRRRRRRRRRRRRRRR";
    for n in 0..login.len() {
        let mut client = Client::connect(port);
        client.take(4);
        client.send(&login[..n]).finish_sending();
        client.rest();
    }
    // TLS that was not offered; a name without an end; a length without bytes.
    for (bytes, told) in [
        (&b"\x20\0\0\x01\x85\xae\x3f\x00\0\0\0\x01\x21RRRRRRRRRRRRRRRRRRRRRRR"[..], &b"not offered"[..]),
        (&b"\x04\0\0\x01\xff\xff\xff\xff"[..], &b"no packet of the protocol"[..]),
        (&b"\x24\0\0\x01\x85\xa6\x3f\x00\0\0\0\x01\x21RRRRRRRRRRRRRRRRRRRRRRRxxxx"[..], &b""[..]),
    ] {
        let mut client = Client::connect(port);
        client.take(4);
        client.send(bytes).finish_sending();
        let rest = client.rest();
        assert!(told.is_empty() || rest.windows(told.len()).any(|w| w == told), "{rest:?}");
    }
    assert_eq!(mariadb(port, "select 1", &[]).out, "1\n");
}
