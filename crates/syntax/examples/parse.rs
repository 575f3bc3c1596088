//! Parses files and shows their diagnostics: `cargo run --example parse FILE…`. With `--ast`, the
//! tree too.
fn main() {
    let mut map = wireloom_syntax::SourceMap::new();
    let args: Vec<String> = std::env::args().skip(1).collect();
    for path in args.iter().filter(|a| *a != "--ast") {
        let Ok(text) = std::fs::read_to_string(path) else {
            eprintln!("cannot read {path}");
            continue;
        };
        let id = map.add(path, text.clone());
        let parsed = wireloom_syntax::parse(id, &text);
        if args.iter().any(|a| a == "--ast") {
            println!("{:#?}", parsed.file);
        }
        print!("{}", wireloom_syntax::diagnostic::render_all(&parsed.diagnostics, &map, false));
    }
}
