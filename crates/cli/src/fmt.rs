//! `wireloom fmt`.

use crate::args::Fmt;
use crate::{Failure, Outcome};
use std::io::IsTerminal;
use wireloom_syntax::SourceMap;

pub fn fmt(args: Fmt) -> Outcome {
    let mut failed = false;
    for path in &args.files {
        let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        let formatted = match wireloom_syntax::format(&text) {
            Ok(formatted) => formatted,
            Err(diagnostics) => {
                let mut map = SourceMap::new();
                map.add(path, text);
                let colour = std::io::stderr().is_terminal();
                diagnostics.iter().for_each(|d| eprintln!("{}", d.render(&map, colour)));
                failed = true;
                continue;
            }
        };
        if formatted == text {
            continue;
        }
        if args.check {
            eprintln!("{} is not formatted", path.display());
            failed = true;
        } else {
            std::fs::write(path, formatted).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
            eprintln!("formatted {}", path.display());
        }
    }
    if failed {
        return Err(Failure::Silent);
    }
    Ok(())
}
