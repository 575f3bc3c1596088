//! Merge nodes, with every way of cutting inputs and output.
mod common;
use common::*;
use wireloom_ir::*;

/// `key<TAB>count<LF>`; keys are text, or numbers.
fn merge_of(inputs: u32, numbers: bool) -> Module {
    let mut m = module(if numbers { "merge_numbers" } else { "merge" });
    m.merges[0].inputs = inputs;
    m
}

fn merged(inputs: &[&str]) -> String {
    merged_by(&merge_of(5, false), inputs)
}

fn merged_by(m: &Module, inputs: &[&str]) -> String {
    let out = drive(m, "merge", inputs);
    assert!(!out.contains("DIFFERENT") && !out.contains("STUCK"), "{out}");
    out.trim_end().to_string()
}

#[test]
fn equal_keys_are_combined() {
    assert_eq!(
        merged(&[
            "a\t1/b\t2/longer-than-eight\t5/",
            "a\t10/a\t100/c\t1/",
            "",
            "longer-than-eighu\t7/z\t1/",
            "longer-than-eight\t6/z\t18446744073709551615/"
        ]),
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

/// Some of these keys in order, with counts; and their sums.
fn streams(
    n: usize,
    keys: &std::collections::BTreeSet<String>,
) -> (Vec<String>, std::collections::BTreeMap<String, u64>) {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut random = move |below: u64| rng.u64(..below);
    let mut sums = std::collections::BTreeMap::new();
    let mut stream = || {
        let mut text = String::new();
        for k in keys {
            for _ in 0..[0, 1, 1, 2][random(4) as usize] {
                let count =
                    [random(10), random(100_000_000), 99_999_999, 100_000_000 + random(1 << 30), 0][random(5) as usize];
                *sums.entry(k.clone()).or_insert(0) += count;
                text += &format!("{k}\t{}{count}/", "0".repeat(random(3) as usize));
            }
        }
        text
    };
    ((0..n).map(|_| stream()).collect(), sums)
}

/// Lines that are read as one block, longer ones, and keys that only differ late.
#[test]
fn lines_of_all_lengths() {
    let mut keys: std::collections::BTreeSet<String> = (0..34).map(|n| "k".repeat(n)).collect();
    keys.extend((6..20).flat_map(|n| ["a", "b", "\u{7f}"].map(|end| "k".repeat(n) + end)));
    let (inputs, sums) = streams(5, &keys);
    let wanted: String = sums.iter().map(|(k, n)| format!("{k}\t{n}/")).collect();
    assert_eq!(merged(&inputs.iter().map(String::as_str).collect::<Vec<_>>()), wanted);
}

#[test]
fn more_inputs_than_a_word_has_bits() {
    let keys = (0..6).map(|n| "k".repeat(3 * n)).collect();
    let (inputs, sums) = streams(70, &keys);
    let wanted: String = sums.iter().map(|(k, n)| format!("{k}\t{n}/")).collect();
    assert_eq!(merged_by(&merge_of(70, false), &inputs.iter().map(String::as_str).collect::<Vec<_>>()), wanted);
}

#[test]
fn keys_that_are_numbers() {
    let m = merge_of(5, true);
    assert_eq!(
        merged_by(
            &m,
            &["5\t1/10\t2/18446744073709551615\t1/", "5\t1/9\t1/", "", "0\t3/10\t5/10\t1/", "18446744073709551615\t2/"]
        ),
        "0\t3/5\t2/9\t1/10\t8/18446744073709551615\t3/"
    );
    assert!(merged_by(&m, &["10\t1/9\t1/", "1\t1/"]).ends_with("BAD input 0 fault 4"));
}

/// Faults in lines that have enough behind them to be read as a block.
#[test]
fn faults_in_long_windows() {
    let rest = "z\t1/".repeat(40);
    let bad = |line: &str, fault: u32| {
        let text = format!("a\t1/{line}{rest}");
        let out = merged(&["a\t1/", &text]);
        assert!(out.ends_with(&format!("BAD input 1 fault {fault}")), "{line:?}: {out}");
    };
    for line in ["b\tx/", "b\t/", "b\t-1/", "/", "b/", "b\t1 /", "b\t1\t/", "b\t99999999999999999999/", "\t:/"] {
        bad(line, 1)
    }
    for line in ["/c\t1/", "B\t1/"] {
        bad(line, if line.starts_with('/') { 1 } else { 4 })
    }
    bad(&format!("{}\t1/", "k".repeat(1025)), 2);
    bad("c\t1/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\t1/", 4);
    bad("cccccccccccccccccccd\t1/cccccccccccccccccccc\t1/", 4);
}
