//! Programs of many parts: four times as many take less than eight times as long to be checked.

use std::path::Path;
use std::time::Duration;
use wireloom_lang::compile_apps;
use wireloom_syntax::MemoryWorld;

/// The time of this thread's work, so that other work of the machine does not count.
fn worked() -> Duration {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` is a place for one time.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut at) }, 0);
    Duration::new(at.tv_sec as u64, at.tv_nsec as u32)
}

fn time(text: String) -> Duration {
    let std = Path::new(env!("CARGO_MANIFEST_DIR")).join("../std");
    let mut world = MemoryWorld::new().with("/app/main.loom", text);
    for file in std::fs::read_dir(std).expect("std is there").flatten().filter(|f| f.path().is_file()) {
        let text = std::fs::read(file.path()).expect("a module of std");
        world.add(Path::new("/std").join(file.file_name()), text);
    }
    let begin = worked();
    let all = compile_apps(&world, Path::new("/app/main.loom"));
    let took = worked() - begin;
    assert!(all.iter().all(|c| !c.has_errors()), "{:?}", all[0].diagnostics.first());
    took
}

/// The least of three tries counts.
fn grows_with(few: usize, program: impl Fn(usize) -> String) {
    let least = |n: usize| (0..3).map(|_| time(program(n))).min().unwrap_or_default();
    let (short, long) = (least(few), least(4 * few));
    assert!(long < short * 8, "{few}: {short:?}, {}: {long:?}", 4 * few);
}

fn joined(n: usize, of: impl Fn(usize) -> String) -> String {
    (0..n).map(of).collect()
}

const ENDS: &str = "port w = memory(\"w\"), o = memory(\"o\")  w -> o";

#[test]
fn elements_that_nobody_uses() {
    grows_with(250, |n| {
        joined(n, |i| {
            format!(
                "element E{i} {{ in x: packet  out y: packet  param n: u32  state c: u32  on x(p) {{ c += n  p -> y }} }}\n"
            )
        })
    });
}

#[test]
fn apps_of_a_file() {
    grows_with(60, |n| joined(n, |i| format!("app a{i} {{ {ENDS} }}\n")));
}

#[test]
fn apps_and_elements_of_a_file() {
    grows_with(30, |n| {
        joined(n, |i| {
            format!("element E{i} {{ in x: packet  out y: packet  on x(p) {{ p -> y }} }}\napp a{i} {{ {ENDS} }}\n")
        })
    });
}

#[test]
fn tables_of_an_app() {
    grows_with(1000, |n| {
        let tables = joined(n, |i| format!("table t{i}: u32 -> u32 {{ capacity 16 }}\n"));
        format!("app a {{ {ENDS}\n{tables} }}\n")
    });
}
