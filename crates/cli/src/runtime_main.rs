//! `wireloom-runtime`: the executable to which `wireloom build` appends a program. It has no
//! compiler, and runs the program that it carries.

mod serve;

use std::process::ExitCode;

/// By this `wireloom build` knows the runtime that belongs to it.
#[used]
static ID: &[u8] = serve::payload::ID.as_bytes();

fn main() -> ExitCode {
    serve::write_messages();
    serve::ended(match serve::payload::of_this_executable() {
        Ok(Some(payload)) => serve::built(payload),
        Ok(None) => Err(
            "this executable carries no program: its end is missing or damaged, or `wireloom build` has not made it"
                .into(),
        ),
        Err(e) => Err(e.into()),
    })
}
