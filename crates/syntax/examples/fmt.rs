//! Formats standard input: `cargo run --example fmt < FILE`.
fn main() {
    let text = std::io::read_to_string(std::io::stdin()).unwrap_or_default();
    match wireloom_syntax::format(&text) {
        Ok(out) => print!("{out}"),
        Err(errors) => eprintln!("{} errors", errors.len()),
    }
}
