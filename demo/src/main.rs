//! `make demo`: the memcached proxy and the HTTP balancer on real traffic, with faults in the
//! middle. Then a filter of packets on the CPU and in the kernel's XDP hook.
//!
//! In: the built `wireloom` binary and `apps/`. Out: a live picture in the terminal (or a line a
//! second where there is none), then a summary. It ends by itself, with exit code 0 if all went as
//! it should. [`cast`] starts the programs, all of them written in Wireloom. [`load`] drives
//! traffic from clients of its own. [`plot`] is the script of the faults. [`stage`] watches and
//! draws. [`filter`] has the packets.

mod cast;
mod filter;
mod load;
mod plot;
mod signals;
mod stage;

use std::process::ExitCode;

fn main() -> ExitCode {
    signals::catch();
    let play = match cast::Cast::start() {
        Ok(cast) => cast,
        Err(e) => {
            eprintln!("demo: {e}");
            return ExitCode::from(1);
        }
    };
    plot::perform(play)
}
