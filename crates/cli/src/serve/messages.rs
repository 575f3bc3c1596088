//! Lines about the service on the standard error: the time (UTC), how grave it is, and whose it is.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// From now on warnings are written, or what `RUST_LOG` says.
pub fn write_messages() {
    let wanted = env_logger::Env::default().default_filter_or("warn");
    let mut lines = env_logger::Builder::from_env(wanted);
    lines.format(|out, line| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let (now, style) = (wireloom_ir::date::rfc3339(now), out.default_level_style(line.level()));
        writeln!(out, "[{now}Z {style}{:<5}{style:#} {}] {}", line.level(), line.target(), line.args())
    });
    lines.init();
}
