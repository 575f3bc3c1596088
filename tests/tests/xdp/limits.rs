//! Handlers beyond what the kernel's stack and its verifier have room for, if their values were
//! kept as those of others are. They lie in memory instead, and mean the same.

use super::*;

/// A program whose values are alive all at once: of each entry, until it is logged.
fn nested() -> String {
    let names = ('a'..='l').map(String::from).collect::<Vec<_>>();
    let open = |(n, c): (usize, &String)| format!("if let {c} = two[n % {}] {{\n", n + 2);
    let close = |c: &String| format!("log \"{c} \", {c}.a, \" \", {c}.b, \" \", {c}.n\n}}\n");
    let opened: String = names.iter().enumerate().map(open).collect();
    let closed: String = names.iter().rev().map(close).collect();
    format!(
        "record Two {{ a: bytes<16>  b: bytes<16>  n: u32 }}
fn cut(b: bytes<64>) -> bytes<16> = slice(b, 0, 16)
app nested {{
    port wire = nic(\"eth0\")
    state n: u32 = 1
    table two: u32 -> Two {{ capacity 64 }}
    on wire(p) where p.ip4 {{
        n += u32(p.ip4.ttl)
        update two[n % 16] {{
            .a = cut(concat(.b, text(n)))
            .b = cut(slice(p.payload, 0, 12))
            .n += n
        }}
{opened}{closed}
        p -> kernel
    }}
}}
"
    )
}

/// Runs a program beside the interpreter; its values must lie in memory.
fn in_memory(name: &str, text: &str) {
    let folder = Folder::new(name);
    let run = |both: &mut Both| {
        assert!(both.object.lock().unwrap().is_far(), "there are programs that are faster");
        hostile(2_000)(&mut |bytes| both.frame(bytes));
    };
    let Some(sum) = beside_it(&written(&folder, text), &[], 1000, run) else { return };
    assert!(sum.sent > 1000 && sum.entries > 3, "{sum:?}");
}

#[test]
fn more_values_than_the_stack_holds() {
    in_memory("xdp-nested", &nested());
}
