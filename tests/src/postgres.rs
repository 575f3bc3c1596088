//! A PostgreSQL server of a test's own, with passwords (SCRAM).

use crate::folder::Folder;
use crate::process::as_user;
use crate::{finish, free_port, Process};
use std::path::Path;
use std::process::Command;

pub const PASSWORD: &str = "se cret";

pub struct Postgres {
    pub process: Process,
    _data: Folder,
}

/// The folder of the server's programs, which Debian has not in the path.
fn program(name: &str) -> std::path::PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|v| v.path().join("bin").join(name)).find(|p| p.exists());
    found.unwrap_or_else(|| Path::new(name).to_path_buf())
}

impl Postgres {
    /// None: it is not installed, which is said.
    pub fn start(name: &str) -> Option<Postgres> {
        if !crate::require_tool("psql") {
            return None;
        }
        let data = Folder::new(&format!("postgres-{name}"));
        std::fs::write(data.file("password"), PASSWORD).expect("the folder is writable");
        let path = data.name_of("data");
        std::fs::create_dir_all(&path).expect("the folder is writable");
        finish(Command::new("chown").args(["-R", "postgres", &data.path().display().to_string()]));
        let password = data.name_of("password");
        let made = finish(as_user(
            "postgres",
            Command::new(program("initdb"))
                .args(["-D", &path, "-U", "postgres", "-A", "scram-sha-256", "-N", "--locale=C", "-E", "UTF8"])
                .arg(format!("--pwfile={password}"))
                .current_dir(data.path()),
        ));
        assert_eq!(made.code, Some(0), "{}", made.text);
        let port = free_port();
        let process = Self::serve(&data, port);
        Some(Postgres { process, _data: data })
    }

    /// A server that follows this one, and only reads.
    pub fn replica(&self, name: &str) -> Option<Postgres> {
        let data = Folder::new(&format!("postgres-{name}"));
        finish(Command::new("chown").args(["-R", "postgres", &data.path().display().to_string()]));
        let made = finish(as_user(
            "postgres",
            Command::new(program("pg_basebackup"))
                .args(["-h", "127.0.0.1", "-p", &self.port().to_string(), "-U", "postgres", "-R", "-c", "fast"])
                .args(["-D", &data.name_of("data")])
                .env("PGPASSWORD", PASSWORD)
                .current_dir(data.path()),
        ));
        assert_eq!(made.code, Some(0), "{}", made.text);
        let process = Self::serve(&data, free_port());
        Some(Postgres { process, _data: data })
    }

    fn serve(data: &Folder, port: u16) -> Process {
        let folder = data.path().display().to_string();
        let options =
            ["fsync=off", "listen_addresses=127.0.0.1", "max_connections=200", "max_locks_per_transaction=64"];
        let mut command = Command::new(program("postgres"));
        command.args(["-D", &data.name_of("data"), "-p", &port.to_string(), "-k", &folder]);
        for o in options {
            command.args(["-c", o]);
        }
        let mut process = Process::start("postgres", as_user("postgres", &mut command).current_dir(data.path()), port);
        // It accepts before it serves.
        let until = std::time::Instant::now() + crate::PATIENCE;
        while psql(port, "postgres", "select 1").code != Some(0) {
            assert!(
                std::time::Instant::now() < until && process.exit_code(std::time::Duration::ZERO).is_none(),
                "{}",
                process.output()
            );
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        process
    }

    pub fn port(&self) -> u16 {
        self.process.port
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // With its children.
        self.process.signal(libc::SIGQUIT);
        self.process.exit_code(std::time::Duration::from_secs(5));
    }
}

/// Runs statements through a port.
pub fn psql(port: u16, database: &str, statements: &str) -> crate::Output {
    finish(
        Command::new("psql")
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres"])
            .args(["-p", &port.to_string(), "-d", database, "-c", statements])
            .env("PGPASSWORD", PASSWORD)
            .env("PGCONNECT_TIMEOUT", "10"),
    )
}
