//! Functions in C: each mistake in their files is told with a code and a place in the program.

use wireloom_tests::folder::Folder;
use wireloom_tests::{Output, Wireloom};

const HEAD: &str = "#include <stdint.h>\n#include <stdbool.h>\n";

/// A program with these functions, each used once, beside these files.
struct Program {
    folder: Folder,
}

impl Program {
    fn new(name: &str, text: &str, files: &[(&str, &str)]) -> Program {
        let folder = Folder::new(name);
        std::fs::write(folder.file("a.loom"), text).expect("written");
        for (name, text) in files {
            std::fs::write(folder.file(name), format!("{HEAD}{text}")).expect("written");
        }
        Program { folder }
    }

    fn command(&self, command: &str) -> Output {
        Wireloom::command(&[command, &self.folder.name_of("a.loom")])
    }

    /// `check` and `test` refuse it at this place of the program with these words, and nothing else
    /// is told.
    fn refused(&self, code: &str, place: &str, words: &[&str]) {
        for command in ["check", "test"] {
            let out = self.command(command);
            assert_eq!(out.code, Some(1), "{}", out.text);
            assert_eq!(out.text.matches("error[").count(), 1, "{}", out.text);
            for word in [&format!("error[{code}]"), &format!("a.loom:{place}\n"), "= hint"]
                .into_iter()
                .chain(words.iter().copied())
            {
                assert!(out.text.contains(word), "{command}: {word} is missing:\n{}", out.text);
            }
        }
    }

    fn passes(&self) {
        for command in ["check", "test"] {
            let out = self.command(command);
            assert_eq!(out.code, Some(0), "{}", out.text);
        }
    }
}

const SEVEN: &str = "extern fn seven(x: u32) -> u32 from \"c.c\"\ntest \"it\" { expect seven(3) == 10 }\n";

fn with(name: &str, c: &str) -> Program {
    Program::new(name, SEVEN, &[("c.c", c)])
}

#[test]
fn a_file_that_cannot_be_read() {
    let place = "1:37";
    let missing = Program::new("c-missing", SEVEN, &[]);
    missing.refused("E0686", place, &["`c.c`", "there is no such file"]);
    std::fs::create_dir(missing.folder.file("c.c")).expect("made");
    missing.refused("E0686", place, &["`c.c`", "this is a folder"]);
    // Also a file whose function nobody calls.
    let unused = Program::new("c-unused", "extern fn seven(x: u32) -> u32 from \"c.c\"\n", &[]);
    unused.refused("E0686", place, &["`c.c`"]);
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } != 0 {
        use std::os::unix::fs::PermissionsExt;
        let closed = with("c-closed", "uint32_t seven(uint32_t x) { return x + 7; }\n");
        std::fs::set_permissions(closed.folder.file("c.c"), std::fs::Permissions::from_mode(0o000)).expect("ours");
        closed.refused("E0686", place, &["this user may not read it"]);
    }
    let endless = Program::new("c-endless", &SEVEN.replace("c.c", "/dev/zero"), &[]);
    endless.refused("E0686", place, &["larger than 16 MiB"]);
}

#[test]
fn a_file_that_the_c_compiler_refuses() {
    let place = "1:11";
    with("c-wrong", "uint32_t seven(uint32_t x) { return y + 7; }\n").refused(
        "E0687",
        place,
        &["the C compiler refuses `c.c`", "c.c:3:", "undeclared"],
    );
    with("c-header", "#include \"none.h\"\nuint32_t seven(uint32_t x) { return x + 7; }\n").refused(
        "E0687",
        place,
        &["c.c:3:", "none.h"],
    );
}

#[test]
fn a_function_that_is_not_there() {
    let place = "1:11";
    with("c-empty", "").refused("E0688", place, &["`c.c` has no function `seven`", "define it there"]);
    with("c-other", "uint32_t sevens(uint32_t x) { return x + 7; }\n").refused(
        "E0688",
        place,
        &["`seven`", "did you mean `sevens`?"],
    );
    with("c-declared", "uint32_t seven(uint32_t x);\n").refused("E0688", place, &["`seven`"]);
    with("c-static", "static __attribute__((used)) uint32_t seven(uint32_t x) { return x + 7; }\n").refused(
        "E0688",
        place,
        &["it is `static` in the C file"],
    );
    with("c-within", "uint32_t eight(uint32_t);\nuint32_t seven(uint32_t x) { return eight(x) - 1; }\n").refused(
        "E0691",
        place,
        &["`c.c` uses `eight`"],
    );
}

#[test]
fn a_function_with_other_types() {
    let place = "1:11";
    for (name, c) in [
        ("c-wide", "uint32_t seven(uint64_t x) { return x + 7; }\n"),
        ("c-result", "uint64_t seven(uint32_t x) { return x + 7; }\n"),
        ("c-more", "uint32_t seven(uint32_t x, uint32_t y) { return x + y; }\n"),
        ("c-pointer", "uint32_t seven(uint32_t *x) { return *x + 7; }\n"),
        ("c-variable", "uint32_t seven = 7;\n"),
    ] {
        with(name, c).refused("E0690", place, &["`seven` has other types in `c.c`", "uint32_t seven(uint32_t)"]);
    }
    // Of several functions those that are wrong are told, and each of them.
    let text = "extern fn one(x: u8) -> bool from \"c.c\"\nextern fn two(x: i64) -> u64 from \"c.c\"\nextern fn three() -> u16 from \"c.c\"\ntest \"it\" { expect one(1) and two(2) == 2 and three() == 3 }\n";
    let c = "bool one(int x) { return x == 1; }\nunsigned long long two(long long x) { return x; }\nunsigned three(void) { return 3; }\n";
    let out = Program::new("c-several", text, &[("c.c", c)]).command("check");
    assert_eq!(out.text.matches("error[E0690]").count(), 2, "{}", out.text);
    assert!(out.text.contains("bool one(uint8_t)") && out.text.contains("uint16_t three(void)"), "{}", out.text);
}

#[test]
fn files_that_do_not_go_together() {
    let text = "extern fn one() -> u8 from \"a.c\"\nextern fn two() -> u8 from \"b.c\"\ntest \"it\" { expect one() == two() }\n";
    let a = ("a.c", "uint8_t same(void) { return 1; }\nuint8_t one(void) { return same(); }\n");
    Program::new(
        "c-twice",
        text,
        &[a, ("b.c", "uint8_t same(void) { return 1; }\nuint8_t two(void) { return same(); }\n")],
    )
    .refused("E0689", "2:11", &["both `a.c` and `b.c` define `same`"]);
    // One may use what the other defines; `static` names are its own.
    Program::new("c-apart", text, &[a, ("b.c", "uint8_t same(void);\nuint8_t two(void) { return same(); }\n")])
        .passes();
    Program::new(
        "c-own",
        text,
        &[a, ("b.c", "static uint8_t same(void) { return 1; }\nuint8_t two(void) { return same(); }\n")],
    )
    .passes();
}

/// All types that are compared, functions of the C library, macros of the same name, and records,
/// which are not compared.
#[test]
fn functions_that_fit() {
    let text = "record Pair { a: u32, b: u32 }\nextern fn size(b: bytes<8>) -> u64 from \"c.c\"\nextern fn low(a: ip4, e: endpoint) -> bool from \"c.c\"\nextern fn sum(p: Pair) -> u32 from \"c.c\"\nextern fn root(x: u32) -> u32 from \"c.c\"\nextern fn note(x: u32) from \"c.c\"\ntest \"it\" {\n    note(3)\n    expect size(\"abc\") == 3 and low(10.0.0.1, 10.0.0.1:80) and sum(Pair { a: 1, b: 2 }) == 3 and root(9) == 3\n}\n";
    let c = "#include <math.h>\n#include <string.h>\n#include \"wireloom.h\"\n#define root(x) isqrt(x)\n#undef root\nstruct pair { uint32_t a, b; };\n\
        uint64_t size(wl_bytes b) { return b.n; }\nbool low(uint32_t a, wl_endpoint e) { (void)a; (void)e; return true; }\n\
        uint32_t sum(struct pair p) { return p.a + p.b; }\nuint32_t root(uint32_t x) { return (uint32_t)sqrt(x); }\nvoid note(uint32_t x) { (void)x; }\n";
    Program::new("c-fits", text, &[("c.c", c)]).passes();
}

/// Names that the generated code, the C library or the compiler has: the file's function is called.
#[test]
fn names_that_others_have() {
    let names = [
        "abs",
        "labs",
        "ffs",
        "isdigit",
        "exit",
        "abort",
        "memcpy",
        "malloc",
        "run",
        "interim",
        "fault_reply",
        "note",
        "context",
        "answer",
        "steer",
        "batch",
        "init_shared",
        "init_core",
        "run_of",
        "on_0_w",
        "fn_f",
        "f_",
        "t_t_",
    ];
    for group in names.chunks(6) {
        let (mut program, mut c) = (String::new(), String::new());
        for (n, name) in group.iter().enumerate() {
            program += &format!("extern fn {name}(x: u32) -> u32 from \"c.c\"\n");
            program += &format!("test \"{name}\" {{ expect {name}(7) == {} }}\n", 1007 + n);
            c += &format!("uint32_t {name}(uint32_t x) {{ return x + {}; }}\n", 1000 + n);
        }
        let calls: Vec<String> = group.iter().map(|n| format!("{n}(7)")).collect();
        program += &format!(
            "fn f(x: u32) -> u32 = x + 1\napp a {{ port w = memory(\"x\")  port o = memory(\"y\")\n\
             table t: flow5 -> u32 {{ capacity 100 }}  state s: bytes<8>  state sum: u32\n\
             on w(p) {{ s = slice(p.payload, 0, 4)  t[p.flow5] += 1  sum = f({})  p -> o }} }}\n\
             test \"in a handler\" of a {{ w <- [Ethernet {{ type: 0x0800 }}, Ipv4 {{ proto: 17 }}, Udp {{ dst: 9 }}, \"four\"]\n\
             expect sum == {} }}\n",
            calls.join(" + "),
            1 + (0..group.len()).map(|n| 1007 + n).sum::<usize>()
        );
        Program::new("c-names", &program, &[("c.c", &c)]).passes();
    }
}
