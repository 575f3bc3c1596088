//! `wireloom explain`: an app's bounds, or a diagnostic's code.

use crate::args::Explain;
use crate::{load, Failure, Outcome};
use std::path::Path;
use wireloom_syntax::codes;

pub fn explain(args: Explain) -> Outcome {
    if args.what == "codes" {
        for code in codes::all() {
            println!("{}  {}", code.code, code.title);
        }
        return Ok(());
    }
    if let Some(code) = codes::find(&args.what) {
        println!("{}: {}\n\n{}", code.code, code.title, code.explanation);
        if !code.example.is_empty() {
            println!("\nFor example:\n");
            code.example.lines().for_each(|l| println!("    {l}"));
        }
        return Ok(());
    }
    let looks_like_code = args.what.len() == 5 && args.what.starts_with(['E', 'W']) && args.what[1..].bytes().all(|b| b.is_ascii_digit());
    if looks_like_code {
        return Err(Failure::Said(format!("there is no code {}; `wireloom explain codes` lists them", args.what)));
    }
    let module = load::load(Path::new(&args.what))?;
    print!("{}", wireloom_ir::explain::report(&module));
    Ok(())
}
