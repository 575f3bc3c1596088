//! Tables, and searches of text: harnesses that need no program.
mod common;
use common::*;

#[test]
fn four_threads() {
    let out = drive(&module("echo"), "shared_hash_table", &[]);
    assert!(out.starts_with("hits 1 evictions 1\nentries 0 bytes 0 blocks 3000 of 3000"), "{out}");
}

/// Builds a harness that needs no program, with sanitizers, and runs it.
fn plain(harness: &str, arch: &str, args: &[&str]) {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let (cc, _) = wireloom_codegen_c::find_compiler(None).unwrap();
    let exe = cache().join(format!("{harness}.{}.exe", std::process::id()));
    std::fs::create_dir_all(cache()).unwrap();
    let built = std::process::Command::new(&cc)
        .args([
            "-std=c11",
            "-D_GNU_SOURCE",
            "-g",
            "-O1",
            arch,
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
        ])
        .arg("-I")
        .arg(dir.join("../../support"))
        .arg("-o")
        .arg(&exe)
        .arg(dir.join("tests/harness").join(format!("{harness}.c")))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let out = std::process::Command::new(&exe).args(args).env("ASAN_OPTIONS", "detect_leaks=0").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "good", "{}", String::from_utf8_lossy(&out.stderr));
    std::fs::remove_file(exe).unwrap();
}

/// Tables of one core: use, removal, expiry, eviction, walks, lookups of a batch, against a list;
/// with vectors and without.
#[test]
fn flow_tables() {
    for arch in ["-march=native", "-march=x86-64"] {
        plain("core_hash_table", arch, &[])
    }
}

/// Wildcard tables against the plain meaning, with vectors and without.
#[test]
fn wildcard_tables() {
    for arch in ["-march=native", "-march=x86-64"] {
        plain("tuple_space", arch, &["20000"])
    }
}

/// Lookups of whole batches, with vectors and without.
#[test]
fn wildcard_batches() {
    for arch in ["-march=native", "-march=x86-64"] {
        plain("tuple_space_batch", arch, &["500"])
    }
}

/// Sixteen frames at a time, with all vector instructions of this processor and with those of the
/// first AVX-512 processors. Without AVX-512 there are no lanes.
#[test]
fn lanes() {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512cd")
    {
        plain("simd", "-march=skylake-avx512", &[]);
    }
    for arch in ["-march=native", "-march=x86-64"] {
        plain("simd", arch, &[])
    }
}

/// Searches and comparisons of text against their plain meaning, with vectors and without.
#[test]
fn texts() {
    for arch in ["-march=native", "-march=x86-64-v3", "-march=x86-64"] {
        plain("text", arch, &[])
    }
}
