//! Hostile input: no panic, no endless loop, no exhausted stack, for any text.

use wireloom_syntax::ast::FileId;
use wireloom_syntax::parse;

fn codes(text: &str) -> Vec<&'static str> {
    parse(FileId(0), text).diagnostics.iter().map(|d| d.code).collect()
}

#[test]
fn deep_nesting_is_refused() {
    let in_fn = |e: String| format!("fn f() -> u32 = {e}\n");
    let deep = |open: &str, close: &str| in_fn(format!("{}1{}", open.repeat(20_000), close.repeat(20_000)));
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("- ", ""),
        ("not ", ""),
        ("if a { ", " }"),
        ("f(", ")"),
        ("|x| ", ""),
        ("a[", "]"),
        ("{ ", " }"),
        ("x else ", ""),
        ("x is ", ""),
        ("match a { _ => ", "}"),
    ] {
        assert!(codes(&deep(open, close)).contains(&"E0104"), "{open}");
    }
    for (open, close) in [("(", ")"), ("[", "; 1]"), ("list<", ", 1>"), ("record { a: ", " }")] {
        let text = format!("type T = {}u8{}\n", open.repeat(20_000), close.repeat(20_000));
        assert!(codes(&text).contains(&"E0104"), "{open}");
    }
    let text = format!("unit U {{ a: {}u8{} }}", "list<".repeat(5000), ", 1> to end".repeat(5000));
    assert!(codes(&text).contains(&"E0104"));
    let text = format!("unit U {{ a: {} nothing {} }}", "switch { else => b: ".repeat(5000), "}".repeat(5000));
    assert!(codes(&text).contains(&"E0104"));
}

#[test]
fn long_chains_are_refused() {
    for (link, end) in
        [(" + 1", ""), (".a", ""), ("(1)", ""), ("[1]", ""), (" else 1", ""), (" and b", ""), (" with { }", "")]
    {
        let text = format!("fn f() -> u32 = x{}{end}\n", link.repeat(20_000));
        assert!(codes(&text).contains(&"E0104"), "{link}");
    }
    let text = format!("fn f() {{ if a {{ }} {} }}\n", "else if a { } ".repeat(20_000));
    assert!(codes(&text).contains(&"E0104"));
    // Chains nested in chains are as high as they look.
    let text = format!("fn f() -> u32 = {}1{}\n", "(".repeat(200), " + 1".repeat(200).add_close(200));
    assert!(codes(&text).is_empty() || codes(&text).contains(&"E0104"));
    assert!(codes(&format!("type T = u8{}\n", "?".repeat(20_000))).contains(&"E0104"));
}

trait AddClose {
    fn add_close(&self, n: usize) -> String;
}

impl AddClose for String {
    fn add_close(&self, n: usize) -> String {
        format!("{self})").repeat(n)
    }
}

/// Processor time of this thread, in seconds: other load does not count.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts");
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

/// Lines of one block are laid out in a time that grows with their number, not with its square.
#[test]
fn very_many_short_lines_are_laid_out() {
    for line in ["x = x + 1", "x = x + 1  // more", "x = x + 1;", "let y = f(x)"] {
        let text = format!(
            "app a {{\n    on start {{\n        var x = 0\n{}    }}\n}}\n",
            format!("        {line}\n").repeat(20_000)
        );
        let begin = processor_time();
        let laid_out = wireloom_syntax::format::format(&text).expect("it parses");
        // Some 0.3 s; by the square of the number it was 7 s.
        let took = processor_time() - begin;
        assert!(took < 4.0, "{line}: {took} s");
        assert_eq!(laid_out.lines().count(), text.lines().count());
    }
}

/// Wires through 50,000 elements are laid out, on one line or on many.
#[test]
fn very_long_wires_are_laid_out() {
    for gap in [" ", "\n        "] {
        let chain: String = (0..50_000).map(|n| format!("-> t{n}{gap}")).collect();
        let text =
            format!("app a {{\n    port wire = nic(\"eth0\"), far = nic(\"eth1\")\n    wire {chain}-> far\n}}\n");
        let begin = processor_time();
        let laid_out = wireloom_syntax::format::format(&text).expect("it parses");
        let took = processor_time() - begin;
        assert!(took < 4.0, "{took} s");
        assert_eq!(laid_out.matches("-> ").count(), 50_001);
        assert_eq!(wireloom_syntax::format::format(&laid_out).as_ref(), Ok(&laid_out));
    }
}
