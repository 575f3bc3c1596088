//! Frames: headers with options and wrong lengths, fields set in place, a header put in front,
//! bytes behind all headers, and a local table. They are driven from C.
mod common;
use common::*;
use wireloom_ir::*;

#[test]
fn headers_edits_tables_and_tunnels() {
    let m = module("frames");
    let problems = verify::verify(&m);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(text::parse(&text::print(&m)).as_ref(), Ok(&m));
    let out = drive(&m, "frame", &[]);
    assert_eq!(out.trim(), "good");
}
