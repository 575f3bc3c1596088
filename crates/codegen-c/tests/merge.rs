//! Merge nodes, with every way of cutting inputs and output.
mod common;
use common::*;
use wireloom_ir::*;

fn module() -> Module {
    let mut b = Build::new();
    let (b1k, u64t) = (b.b(1024), b.u(64));
    let mut u = b.unit("kv.Pair");
    let key = u.add("key", b1k, blob(1024, Some(ByteSet::range(b'!', b'z')), Extent::Until(until(&[b"\t"]))));
    let count = u.add("count", u64t, FieldKind::Number { radix: 10, digits: 20, exact: false, until: Some(until(&[b"\n"])) });
    u.unit.max = 1100;
    let unit = u.done(None, false);
    b.m.protocols.push(protocol("kv", unit, None));
    let local = |n: &str| Local { name: n.into(), ty: u64t, in_frame: false };
    let get = |l| Expr::new(u64t, ExprKind::Local(LocalId(l)));
    let combined = b.bin(BinOp::Add, get(0), get(1));
    b.m.merges.push(Merge {
        name: "words".into(), span: Span::default(), from: PortId(0), to: PortId(1), inputs: 5, unit, key,
        values: vec![MergeValue { field: count, a: LocalId(0), b: LocalId(1), combined }], locals: vec![local("a"), local("b")],
    });
    b.m
}

fn merged(inputs: &[&str]) -> String {
    let out = drive(&module(), "merge", inputs);
    assert!(!out.contains("DIFFERENT") && !out.contains("STUCK"), "{out}");
    out.trim_end().to_string()
}

#[test]
fn equal_keys_are_combined() {
    assert_eq!(
        merged(&["a\t1/b\t2/longer-than-eight\t5/", "a\t10/a\t100/c\t1/", "", "longer-than-eighu\t7/z\t1/", "longer-than-eight\t6/z\t18446744073709551615/"]),
        "a\t111/b\t2/c\t1/longer-than-eight\t11/longer-than-eighu\t7/z\t0/"
    );
    assert_eq!(merged(&["x\t1/"]), "x\t1/");
    assert_eq!(merged(&["", "", ""]), "");
    assert_eq!(merged(&["a\t1/ab\t1/", "aa\t1/b\t1/"]), "a\t1/aa\t1/ab\t1/b\t1/");
}

#[test]
fn faults_name_the_input() {
    assert!(merged(&["a\t1/", "b\t1/a\t1/"]).ends_with("BAD input 1 fault 4"));
    assert!(merged(&["a\t1/", "b\t1/c"]).ends_with("BAD input 1 fault 3"));
    assert!(merged(&["a\tx/", "b\t1/"]).ends_with("BAD input 0 fault 1"));
}
