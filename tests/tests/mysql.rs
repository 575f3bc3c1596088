//! `apps/mysql_proxy.loom` between a real MariaDB, its client, and a Python driver.

use std::process::Command;
use wireloom_tests::control::Controlled;
use wireloom_tests::folder::Folder;
use wireloom_tests::mariadb::{mariadb, MariaDb, PASSWORD};
use wireloom_tests::{client_library, finish, free_port, python, root, servers, Client};

fn proxy(server: u16) -> (Controlled, u16) {
    let port = free_port();
    let (set, list) = (format!("port={port}"), servers(&[server]));
    (Controlled::run("mysql_proxy", &["apps/mysql_proxy.loom", "--set", &set, "--set", &list]), port)
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
