//! The programs by hand of `bench/xdp`, which include the headers of generated ones: they compile,
//! and the kernel takes them.

use super::*;
use wireloom_tests::root;
use wireloom_xdp::Hand;

#[test]
fn programs_of_the_bench_load() {
    let text = ["head.bpf.c", "hand.bpf.c", "restored.bpf.c"]
        .map(|name| std::fs::read_to_string(root().join("bench/xdp").join(name)).expect("a program by hand"));
    let frame = "#define WL_REQUEST {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}\n#define WL_ANSWER 64\n";
    match Hand::load(&(frame.to_string() + &text.concat())) {
        Ok(hand) => assert!(hand.run("empty", &[0; 64], 1).is_ok()),
        Err(e @ (Error::Rights(_) | Error::Old { .. } | Error::NoClang)) => eprintln!("SKIPPED: no XDP here: {e}"),
        Err(e) => panic!("{e}"),
    }
}
