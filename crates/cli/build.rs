//! Puts the standard library's sources into the binary, so that an installed `wireloom` needs no
//! source tree; makes the identity of the runtime.

use std::fmt::Write;
use std::hash::Hasher;
use std::path::Path;

fn main() {
    // The folder of this build, not that of the build of this script: a `target/` may be a copy.
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let here = Path::new(&here);
    let root = here.join("../../std");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut table = String::from("pub static FILES: &[(&str, &str)] = &[\n");
    add(&root, &root, &mut table);
    table.push_str("];\n");
    let out = Path::new(&std::env::var("OUT_DIR").expect("cargo sets OUT_DIR")).join("std_files.rs");
    std::fs::write(out, table).expect("the build folder is writable");
    // The runtime is deployed: it goes without names for debuggers.
    println!("cargo::rustc-link-arg-bin=wireloom-runtime=-Wl,--strip-all");
    let mut id = std::hash::DefaultHasher::new();
    for part in ["src/serve", "../runtime/src", "../ir/src", "../interp/src", "../xdp/src", "../../support"] {
        let path = here.join(part);
        println!("cargo::rerun-if-changed={}", path.display());
        hash(&path, &mut id);
    }
    println!("cargo::rustc-env=WIRELOOM_ID={:016x}", id.finish());
}

fn hash(path: &Path, into: &mut impl Hasher) {
    if path.is_dir() {
        let mut entries: Vec<_> =
            std::fs::read_dir(path).expect("it is a folder").flatten().map(|e| e.path()).collect();
        entries.sort();
        entries.iter().for_each(|e| hash(e, into));
    } else {
        into.write(&std::fs::read(path).expect("the sources are there"));
    }
}

fn add(root: &Path, folder: &Path, table: &mut String) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).expect("std/ is there").flatten().map(|e| e.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            add(root, &path, table);
        } else if path.extension().is_some_and(|e| e == "loom") {
            let name = path.strip_prefix(root).expect("below root").to_string_lossy().into_owned();
            let path = path.canonicalize().expect("it exists");
            writeln!(table, "    ({name:?}, include_str!({:?})),", path.display().to_string()).expect("a string");
        }
    }
}
