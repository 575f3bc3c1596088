//! A MariaDB server of a test's own, with a user who has a password.

use crate::folder::Folder;
use crate::process::as_user;
use crate::{finish, free_port, require_tool, Process, PATIENCE};
use std::process::Command;
use std::time::{Duration, Instant};

pub const PASSWORD: &str = "se cret";

pub struct MariaDb {
    pub process: Process,
    _data: Folder,
}

impl MariaDb {
    /// None: it is not installed, which is said.
    pub fn start(name: &str) -> Option<MariaDb> {
        if !require_tool("mariadbd") || !require_tool("mariadb") {
            return None;
        }
        let data = Folder::new(&format!("mariadb-{name}"));
        finish(Command::new("chown").args(["mysql", &data.path().display().to_string()]));
        let (path, socket) = (data.name_of("data"), data.name_of("socket"));
        // In `tmpdir` a server that starts removes temporary tables, also those of other servers.
        let made = finish(as_user(
            "mysql",
            Command::new("mariadb-install-db")
                .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--force"])
                .arg(format!("--datadir={path}"))
                .arg(format!("--tmpdir={}", data.path().display()))
                .current_dir(data.path()),
        ));
        assert_eq!(made.code, Some(0), "{}", made.text);
        let port = free_port();
        let mut command = Command::new("/usr/sbin/mariadbd");
        command
            .args(["--no-defaults", "--bind-address=127.0.0.1", "--local-infile=1", "--max-allowed-packet=256M"])
            .args(["--skip-log-bin", "--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=96M"])
            .arg(format!("--tmpdir={}", data.path().display()))
            .args([format!("--datadir={path}"), format!("--socket={socket}"), format!("--port={port}")]);
        let mut process = Process::start("mariadbd", as_user("mysql", &mut command).current_dir(data.path()), port);
        let user = format!(
            "create user ann@'%' identified by '{PASSWORD}'; grant all on *.* to ann@'%'; create database shop"
        );
        let until = Instant::now() + PATIENCE;
        loop {
            let args = ["--no-defaults", "-u", "root", "-S", &socket, "-e", &user];
            let out = finish(Command::new("mariadb").args(args));
            if out.code == Some(0) {
                break;
            }
            let runs = process.exit_code(Duration::ZERO).is_none();
            assert!(Instant::now() < until && runs, "{}{}", out.text, process.output());
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(MariaDb { process, _data: data })
    }

    pub fn port(&self) -> u16 {
        self.process.port
    }
}

/// Runs statements through a port.
pub fn mariadb(port: u16, statements: &str, more: &[&str]) -> crate::Output {
    let usual = ["--no-defaults", "-h", "127.0.0.1", "-u", "ann", "-N", "--connect-timeout=10"];
    let password = format!("-p{PASSWORD}");
    finish(
        Command::new("mariadb")
            .args(usual)
            .args(["-P", &port.to_string(), &password])
            .args(more)
            .args(["-e", statements]),
    )
}
