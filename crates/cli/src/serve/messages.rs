//! Lines about the service on the standard error: the time (UTC), how grave it is, and whose it is.
//! Lines of the start, and the sums at the end, begin with `wireloom:` instead.

use log::{Level, LevelFilter, Log, Metadata, Record};
use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::time::{SystemTime, UNIX_EPOCH};
use wireloom_runtime::log_queue;

/// The target of notices: new settings, new code, the end. They are written unless `RUST_LOG` says
/// otherwise.
pub const NOTICE: &str = "wireloom";

/// Writes a line of the start or the end, in the order of all lines.
macro_rules! say {
    ($($text:tt)*) => {
        ::wireloom_runtime::log_queue::put(format!("wireloom: {}\n", format_args!($($text)*)).as_bytes())
    };
}
pub(crate) use say;

/// Writes a line about the running process.
macro_rules! notice {
    ($level:expr, $($text:tt)*) => {
        ::log::log!(target: $crate::serve::NOTICE, $level, $($text)*)
    };
}
pub(crate) use notice;

/// From now on warnings and notices are written, or what `RUST_LOG` says.
pub fn write_messages() {
    let wanted = std::env::var("RUST_LOG").ok();
    let mut filter = env_filter::Builder::new();
    filter.parse(wanted.as_deref().unwrap_or("warn"));
    let lines = Lines { filter: filter.build(), notices: wanted.is_none(), coloured: is_coloured() };
    log::set_max_level(lines.filter.filter().max(if lines.notices { LevelFilter::Info } else { LevelFilter::Off }));
    // There is no other logger.
    let _ = log::set_boxed_logger(Box::new(lines));
}

/// Whether the terminal, and the user, want colours.
fn is_coloured() -> bool {
    let is = |name: &str, value: &str| std::env::var_os(name).is_some_and(|v| v == value);
    match std::env::var("RUST_LOG_STYLE").as_deref() {
        Ok("always") => true,
        Ok("never") => false,
        _ => std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() && !is("TERM", "dumb"),
    }
}

struct Lines {
    filter: env_filter::Filter,
    notices: bool,
    coloured: bool,
}

thread_local! {
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Log for Lines {
    fn enabled(&self, of: &Metadata) -> bool {
        self.filter.enabled(of) || self.is_notice(of)
    }

    fn log(&self, record: &Record) {
        if !self.filter.matches(record) && !self.is_notice(record.metadata()) {
            return;
        }
        LINE.with(|line| match line.try_borrow_mut() {
            Ok(mut line) => self.write(record, &mut line),
            // An argument logs while it is written.
            Err(_) => self.write(record, &mut Vec::new()),
        });
    }

    fn flush(&self) {}
}

impl Lines {
    fn is_notice(&self, of: &Metadata) -> bool {
        self.notices && of.target() == NOTICE && of.level() <= Level::Info
    }

    fn write(&self, record: &Record, line: &mut Vec<u8>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let (now, level) = (wireloom_ir::date::rfc3339(now), record.level());
        let (colour, plain) = if self.coloured { (colour(level), "\x1b[0m") } else { ("", "") };
        line.clear();
        let _ = writeln!(line, "[{now}Z {colour}{level:<5}{plain} {}] {}", record.target(), record.args());
        log_queue::put(line);
    }
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::Error => "\x1b[1m\x1b[31m",
        Level::Warn => "\x1b[33m",
        Level::Info => "\x1b[32m",
        Level::Debug => "\x1b[34m",
        Level::Trace => "\x1b[36m",
    }
}
