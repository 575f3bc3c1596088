//! `cargo run -p wireloom-lang --example check FILE [--ir]`: checks a file and prints the checker's
//! diagnostics, or the IR.

use std::path::Path;
use wireloom_syntax::{diagnostic, OsWorld};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(file) = args.iter().find(|a| !a.starts_with("--")) else { return };
    let checked = wireloom_lang::compile(&OsWorld::new("std"), Path::new(file), None);
    print!("{}", diagnostic::render_all(&checked.diagnostics, &checked.map, false));
    let Some(mut module) = checked.module else { std::process::exit(1) };
    wireloom_ir::passes::run_all(&mut module);
    for e in wireloom_ir::verify::verify(&module) {
        println!("verifier: {e:?}");
    }
    if args.iter().any(|a| a == "--ir") {
        println!("{}", wireloom_ir::text::print(&module));
    }
}
