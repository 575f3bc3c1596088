//! The second copy of a short handler, for frames of the most common headers.

use super::process::Link;
use super::*;

/// So many tables with large entries, which a handler changes.
fn tables(n: usize, interface: &str) -> String {
    let declared: String =
        (0..n).map(|t| format!("    table t{t}: (ip, ip, u32) -> Large {{ capacity 64 }}\n")).collect();
    let changed: String = (0..n)
        .map(|t| format!("        update t{t}[(p.ip.src, p.ip.dst, u32({t}))] {{ .last = .first; .first = p.ip.src; .n += {t} }}\n"))
        .collect();
    format!(
        "record Large {{ first: ip, last: ip, n: u64 }}
app large {{
    port wire = nic(\"{interface}\")
{declared}
    on wire(p) where p.ip on xdp {{
{changed}        p -> kernel
    }}
}}
"
    )
}

/// Where the stack has no room for it, the program runs without it, and says so.
#[test]
fn a_copy_that_is_left_out_is_told() {
    let folder = Folder::new("xdp-copies");
    let once = |n: usize| {
        let (m, all) = placed(&module(written(&folder, &tables(n, "eth0"))), &[]);
        let object = load(&m, &all, &[])?;
        Some(object.once().map(String::from))
    };
    let Some(first) = once(1) else { return };
    assert_eq!(first, None, "one table leaves room for it");
    let many = (2..12).find(|n| matches!(once(*n), Some(Some(_)))).expect("so many do not");
    let Some(sum) = compare(&written(&folder, &tables(many, "eth0")), &[], hostile(500)) else { return };
    assert!(sum.sent > 1000, "{sum:?}");
    let Some(link) = Link::new() else { return };
    let path = written(&folder, &tables(many, "a0")).display().to_string();
    let mut run = link.net.app("a", &path, &["--control", "off"]);
    let said = link.end(&mut run);
    assert!(said.contains("no second copy of their handler"), "{said}");
}
