//! `wireloom build --export`: names that C, C++ or the library need for themselves. Each library is
//! built, called from C, and its header is read by C++.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use wireloom_tests::folder::Folder;
use wireloom_tests::{finish, quickly_compiled, require_tool, Wireloom};

/// Builds an app, and runs a program in C that uses it.
fn called(app: &str, file: &str, program: &str, main: &str) {
    if !require_tool("gcc") || !require_tool("g++") {
        return;
    }
    let folder = Folder::new(&format!("export-{app}"));
    let loom = folder.name_of(&format!("{app}.loom"));
    std::fs::write(&loom, program).expect("the folder is writable");
    let out = folder.name_of("build");
    let built = Wireloom::command_with(&["build", &loom, "--export", "-o", &out], |c| {
        quickly_compiled(c);
    });
    assert_eq!(built.code, Some(0), "{}", built.text);
    let text = format!("#include <unistd.h>\n#include \"{file}.h\"\n#include <math.h>\n#include <string.h>\nint main(void) {{\n{main}\n}}\n");
    std::fs::write(folder.file("main.c"), text).expect("the folder is writable");
    let library = format!("build/lib{file}.a");
    let c = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Ibuild", "main.c", &library, "-o", "main"];
    let compiled = finish(Command::new("gcc").current_dir(folder.path()).args(c));
    assert_eq!(compiled.code, Some(0), "{}", compiled.text);
    let ran = finish(&mut Command::new(folder.file("main")));
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    let cpp = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++"];
    let header = format!("build/{file}.h");
    let read = finish(Command::new("g++").current_dir(folder.path()).args(cpp).arg(&header));
    assert_eq!(read.code, Some(0), "{}", read.text);
}

#[test]
fn of_arguments() {
    let program = "app hdr {
    export segment twice(double: u32, instance: u32, result: u32) -> u32 { double * 2 + instance + result }
    export segment words(class: u32, new: bytes<4>, args: u32, uint32_t: u32, memset: u32, hdr_bytes: bytes<3>) -> u32 {
        class + args + uint32_t + memset + u32(len(new)) + u32(len(hdr_bytes))
    }
}
";
    let main = "    hdr *h; uint32_t r;
    if (hdr_open(&h, NULL) || hdr_twice(h, 4, 20, 300, &r) || r != 328) return 1;
    hdr_bytes b = {(const uint8_t *)\"abc\", 3};
    if (hdr_words(h, 1, b, 10, 100, 1000, b, &r) || r != 1117) return 2;
    hdr_close(h);
    return 0;";
    let wide = main.replace("uint32_t r", "uint64_t r");
    called("hdr", "hdr", program, &wide);
}

#[test]
fn of_fields_and_parameters() {
    let program = "record R { int: u32, class: u32, int_: u32, NULL: bool }
app fields {
    param int: u32 = 3
    param this: bytes<4> = \"ab\"
    export segment make(x: u32) -> R { R { int: x, class: int, int_: u32(len(this)), NULL: true } }
}
";
    let main = "    fields *f; fields_make_result r; fields_params p;
    fields_defaults(&p);
    p.int_ = 7;
    if (p.this_.size != 2 || fields_open(&f, &p) || fields_make(f, 5, &r)) return 1;
    if (r.int__ != 5 || r.class_ != 7 || r.int_ != 2 || !r.NULL_) return 2;
    fields_close(f);
    return 0;";
    called("fields", "fields", program, main);
}

#[test]
fn of_segments_and_faults() {
    let program = "fault OK, ok, bad_argument, no_memory, export_h
/// Ends */ a comment.
app mine {
    export segment open(x: u32) -> u32 { x }
    export segment close(x: u32) -> u32 { x }
    export segment error(x: u32) -> u32 { x }
    export segment status(x: u32) -> u32 { x }
    /// Ends */ a comment, too.
    export segment params(x: u32) -> u32 { x }
    export segment bytes(x: u32) -> u32 { x }
    export segment defaults(x: u32) -> u32 { x }
    export segment get(x: u32) -> u32? { some(x) }
    export segment get_result(x: u32) -> u32? { some(x) }
    export segment a(x: u32) -> u32 {
        if x == 1 { fault OK }
        if x == 2 { fault ok }
        if x == 3 { fault bad_argument }
        if x == 4 { fault no_memory }
        if x == 5 { fault export_h }
        x
    }
}
";
    let main = "    mine *o; uint64_t r; mine_get_result_ g; mine_get_result_result h;
    if (mine_open(&o, NULL) || mine_open_(o, 5, &r) || r != 5 || mine_close_(o, 6, &r) || r != 6) return 1;
    if (mine_status(o, 7, &r) || r != 7 || mine_bytes_(o, 8, &r) || r != 8) return 2;
    if (mine_get(o, 9, &g) || g.value != 9 || mine_get_result(o, 10, &h) || h.value != 10) return 3;
    if (mine_a(o, 1, &r) != MINE_OK_ || mine_a(o, 2, &r) != MINE_OK__) return 4;
    if (mine_a(o, 3, &r) != MINE_BAD_ARGUMENT_ || mine_a(o, 4, &r) != MINE_NO_MEMORY_) return 5;
    if (mine_a(o, 5, &r) != MINE_EXPORT_H_ || strcmp(mine_error(MINE_OK), \"ok\")) return 6;
    mine_close(o);
    return 0;";
    called("mine", "mine", program, main);
}

/// Words of C and C++, functions and headers of the C library, headers of the compiler.
#[test]
fn of_apps() {
    for app in ["int", "class", "time", "string", "sem", "export", "wl", "index", "own", "made"] {
        let program = format!("app {app} {{ export segment double(x: u32) -> u32 {{ x * 2 }} }}\n");
        let main = format!(
            "    {app}_ *h; uint64_t r;\n    return {app}__open(&h, NULL) || {app}__double(h, 4, &r) || r != 8;"
        );
        called(app, &format!("{app}_"), &program, &main);
    }
    let program = "app frame { export segment wireloom(x: u32) -> u32 { x * 2 } }\n";
    called(
        "frame",
        "frame",
        program,
        "    frame *h; uint64_t r;\n    return frame_open(&h, NULL) || frame_wireloom(h, 4, &r) || r != 8;",
    );
}

/// A C compiler that refuses the code: the mistake is Wireloom's, and nothing half is left.
#[test]
fn refused_code_is_told_and_kept() {
    let folder = Folder::new("export-refused-code");
    let (cc, loom) = (folder.file("cc"), folder.name_of("a.loom"));
    std::fs::write(&cc, "#!/bin/sh\necho 'segments.c:1: it cannot be' >&2\nexit 1\n").expect("the folder is writable");
    std::fs::set_permissions(&cc, std::fs::Permissions::from_mode(0o755)).expect("our own");
    std::fs::write(&loom, "app a { export segment f(x: u32) -> u32 { x } }\n").expect("the folder is writable");
    let out = folder.name_of("build");
    let refused = Wireloom::command_with(&["build", &loom, "--export", "-o", &out], |c| {
        c.env("WIRELOOM_CC", &cc).env("TMPDIR", folder.path());
    });
    assert_eq!(refused.code, Some(1), "{}", refused.text);
    assert!(
        refused.text.contains("it cannot be") && refused.text.contains("a mistake of Wireloom"),
        "{}",
        refused.text
    );
    assert!(!folder.file("build").exists(), "no half library");
    let mut all = std::fs::read_dir(folder.path()).expect("it is there").flatten();
    let kept = all.find(|e| e.file_name().to_string_lossy().starts_with("wireloom-report-")).expect("the report");
    let names: Vec<_> = std::fs::read_dir(kept.path()).expect("it is there").flatten().map(|e| e.file_name()).collect();
    for file in ["a.c", "messages.txt", "0-a.loom"] {
        assert!(names.iter().any(|n| n == file), "{file} in {names:?}");
    }
}
