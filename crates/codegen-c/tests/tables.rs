//! Tables under threads.
mod common;
use common::*;

#[test]
fn four_threads() {
    let mut b = Build::new();
    let mut u = b.unit("t.U");
    u.uint("n", 1);
    let u = u.done(None, false);
    b.m.protocols.push(protocol("t", u, None));
    let out = drive(&b.m, "table", &[]);
    assert!(out.starts_with("hits 1 evictions 1\nentries 0 bytes 0 blocks 3000 of 3000"), "{out}");
}
