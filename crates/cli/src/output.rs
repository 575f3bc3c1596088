//! The standard output and error of commands. Their `println!` and `eprintln!` stand in the place
//! of std's, which panic where nothing reads: `wireloom test x.loom | head`.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// The status of a command whose reader has gone, as shells show it: 128, and the number of
/// SIGPIPE.
pub const READER_GONE: i32 = 141;

macro_rules! print {
    ($($text:tt)*) => { $crate::output::out(format_args!($($text)*)) };
}
macro_rules! println {
    ($($text:tt)*) => { $crate::output::out(format_args!("{}\n", format_args!($($text)*))) };
}
macro_rules! eprintln {
    () => { $crate::output::err(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::err(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes to the standard output. The command ends where that fails.
pub fn out(text: Arguments) {
    if let Err(e) = io::stdout().write_fmt(text) {
        failed(&e)
    }
}

/// The standard output, for what takes a writer.
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes).map_err(|e| failed(&e))
    }
    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().map_err(|e| failed(&e))
    }
}

/// Ends the command: quietly if its reader has gone.
pub fn failed(e: &io::Error) -> ! {
    if e.kind() == ErrorKind::BrokenPipe {
        std::process::exit(READER_GONE)
    }
    err(format_args!("wireloom: cannot write the output: {e}\n"));
    std::process::exit(1)
}

/// Writes to the standard error. A service goes on where that fails.
pub fn err(text: Arguments) {
    let _ = io::stderr().write_fmt(text);
}
