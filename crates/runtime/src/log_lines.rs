//! The lines that programs log.

use std::fmt::Write;

/// The level of a `log` statement, as in [`log_line`].
pub const STATEMENT: u32 = 1;

/// Logs a program's line. The level is that of the C ABI: 0 is an error, 1 a warning, 2 and 3 tell,
/// and above they trace.
pub fn log_line(app: &str, level: u32, text: &[u8]) {
    use log::Level::{Debug, Error, Info, Trace, Warn};
    let level = [Error, Warn, Info, Debug].get(level as usize).copied().unwrap_or(Trace);
    log::log!(target: "app", level, "{app}: {}", one_line(text));
}

/// A program's line. Its values may come from anybody: they must not begin another line, nor
/// control a terminal. So such characters are escaped: `\n` and `\u{1b}` are written.
fn one_line(text: &[u8]) -> String {
    let mut line = String::with_capacity(text.len());
    for c in String::from_utf8_lossy(text).chars() {
        if c != '\t' && c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            let _ = write!(line, "{}", c.escape_default());
        } else {
            line.push(c)
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn a_value_begins_no_line() {
        let text = "a\nERROR b\r\u{1b}[2J\u{9b}\0\u{202e}\t\u{e9}\\";
        assert_eq!(one_line(text.as_bytes()), "a\\nERROR b\\r\\u{1b}[2J\\u{9b}\\u{0}\\u{202e}\t\u{e9}\\");
        assert_eq!(one_line(b"\xff"), "\u{fffd}");
    }
}
