//! `wireloom build --export`: programs in C, Rust and Go that are linked with an app.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use wireloom_tests::folder::Folder;
use wireloom_tests::{finish, quickly_compiled, require_tool, Wireloom};

fn export(file: &str, folder: &Path) -> wireloom_tests::Output {
    let out = folder.join("build").to_string_lossy().into_owned();
    Wireloom::command_with(&["build", file, "--export", "-o", &out], |c| {
        quickly_compiled(c);
    })
}

/// A program in C with these flags; what it says. Exits other than with 0 are failures.
fn c_program(folder: &Path, text: &str, libraries: &[&str]) -> String {
    std::fs::write(folder.join("main.c"), text).expect("the folder is writable");
    let mut cc = Command::new("gcc");
    cc.current_dir(folder).args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-Ibuild", "main.c", "-o", "main"]);
    let built = finish(cc.args(libraries).arg("-lpthread"));
    assert_eq!(built.code, Some(0), "{}", built.text);
    let ran = finish(&mut Command::new(folder.join("main")));
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    ran.out
}

/// A program in Rust that is linked with the library of an app; what it says.
fn rust_program(folder: &Path, text: &str) -> String {
    std::fs::write(folder.join("main.rs"), text).expect("the folder is writable");
    let mut rustc = Command::new("rustc");
    rustc.current_dir(folder).args(["--edition", "2021", "-L", "build", "main.rs", "-o", "main"]);
    let built = finish(&mut rustc);
    assert_eq!(built.code, Some(0), "{}", built.text);
    let ran = finish(&mut Command::new(folder.join("main")));
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    ran.out
}

/// One program at a time: Go's library is compiled for the first one only.
static GO: Mutex<()> = Mutex::new(());

/// A program in Go, likewise. It uses no packages, which would all be compiled: `println` writes to
/// the standard error.
fn go_program(folder: &Path, app: &str, text: &str) -> String {
    std::fs::write(folder.join("main.go"), text).expect("the folder is writable");
    std::fs::write(folder.join("go.mod"), "module worker\n\ngo 1.18\n").expect("the folder is writable");
    let mut go = Command::new("go");
    go.current_dir(folder).args(["build", "-o", "main", "."]).env("GOFLAGS", "-mod=mod").env("CGO_ENABLED", "1");
    let library = folder.join(format!("build/lib{app}.a"));
    let _one = GO.lock().unwrap_or_else(|e| e.into_inner());
    go.env("GOCACHE", wireloom_tests::root().join("target/go-cache"))
        .env("CGO_LDFLAGS_ALLOW", ".*")
        .env("CGO_LDFLAGS", library);
    let built = finish(&mut go);
    assert_eq!(built.code, Some(0), "{}", built.text);
    let ran = finish(&mut Command::new(folder.join("main")));
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    ran.text
}

/// Storm's top-n: each worker, a thread with an instance of its own, counts its users' events; a
/// ranker merges their ranks. The result is that of plain arrays.
const STORM: &str = r#"
#include "top_users.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 4, EVENTS = 200000, USERS = 1000, TOP = 10 };
static uint64_t exact[WORKERS][USERS];
static top_users *worker[WORKERS];

/* A user of a skewed distribution, of those of this worker. */
static uint64_t user_of(uint64_t *seed, unsigned w) {
    uint64_t least = USERS;
    for (int i = 0; i < 3; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t u = (*seed >> 33) % USERS;
        if (u < least) least = u;
    }
    return least - least % WORKERS + w;
}

static void *work(void *arg) {
    unsigned w = (unsigned)(uintptr_t)arg;
    uint64_t seed = w + 1, n;
    for (int i = 0; i < EVENTS; i++) {
        uint64_t u = user_of(&seed, w);
        exact[w][u]++;
        if (top_users_count(worker[w], u, 1, &n) != TOP_USERS_OK || n != exact[w][u]) abort();
    }
    return NULL;
}

static uint64_t count_of(uint64_t u) { return exact[u % WORKERS][u]; }

int main(void) {
    pthread_t thread[WORKERS];
    top_users *ranker;
    if (top_users_open(&ranker, NULL)) return 1;
    for (unsigned w = 0; w < WORKERS; w++) {
        if (top_users_open(&worker[w], NULL)) return 1;
        pthread_create(&thread[w], NULL, work, (void *)(uintptr_t)w);
    }
    for (int w = 0; w < WORKERS; w++) pthread_join(thread[w], NULL);
    for (unsigned w = 0; w < WORKERS; w++)
        for (uint32_t i = 0; i < TOP; i++) {
            top_users_top_result r;
            if (top_users_top(worker[w], i, &r)) return 2;
            if (!r.there || r.value.n != exact[w][r.value.user]) return 3;
            if (top_users_rank(ranker, r.value.user, r.value.n)) return 4;
        }
    uint64_t before = UINT64_MAX;
    for (uint32_t i = 0; i < TOP; i++) {
        top_users_top_result r;
        if (top_users_top(ranker, i, &r) || !r.there) return 5;
        unsigned above = 0;
        for (uint64_t u = 0; u < USERS; u++) above += count_of(u) > r.value.n;
        if (r.value.n > before || r.value.n != count_of(r.value.user) || above > i) return 6;
        before = r.value.n;
    }
    top_users_top_result none;
    if (top_users_top(ranker, TOP, &none) || none.there) return 7;
    if (top_users_count(NULL, 1, 1, NULL) != TOP_USERS_BAD_ARGUMENT) return 8;
    for (int w = 0; w < WORKERS; w++) top_users_close(worker[w]);
    top_users_close(ranker);
    top_users_close(NULL);
    printf("%s\n", top_users_error(TOP_USERS_FULL));
    return 0;
}
"#;

#[test]
fn workers_of_storm() {
    if !require_tool("gcc") {
        return;
    }
    let folder = Folder::new("export-storm");
    let out = export("apps/top_users.loom", folder.path());
    assert_eq!(out.code, Some(0), "{}", out.text);
    assert_eq!(c_program(folder.path(), STORM, &["build/libtop_users.a"]), "fault full\n");
}

/// All types of arguments and results, parameters, faults, and bytes in both directions.
const TYPES: &str = r#"
fault odd, never
record Pair { left: bytes<8>  right: i32  deep: (bool, u8?) }

app types {
    /// The first number.
    param first: u32 = 5
    param greeting: bytes<16> = "hello \"you\""
    param loud: bool
    param wait: duration = 2s

    table few: u8 -> u32 { capacity 2, reject }
    state calls: u64

    on start { calls = u64(first) }

    export segment next() -> u64 { calls += 1  calls }
    export segment greet(name: bytes<10>) -> bytes<32> {
        let text = concat(greeting, " ", name)
        if loud { upper(text) } else { text }
    }
    export segment half(n: u8) -> u8 { if n % 2 == 1 { fault odd }  n / 2 }
    export segment ratio(a: u32, b: u32) -> u32 { a / b }
    export segment put(key: u8) { few[key] = 1 }
    export segment negative(n: u16) -> i32 { i32(0) - i32(n) }
    export segment is_small(n: u16) -> bool { n < 10 }
    export segment pair(n: u8) -> Pair {
        Pair { left: slice("abcdefgh", 0, u64(n)), right: 0 - 1, deep: (n > 3, if n > 5 { some(n) } else { none }) }
    }
    export segment waits() -> u64 { u64(wait) }
    signal inside() -> u64 { calls }
}
"#;

const USES_TYPES: &str = r#"
#include "types.h"
#include <string.h>
#define EXPECT(e) do { if (!(e)) return __LINE__ % 200 + 1; } while (0)

int main(void) {
    types *a, *b;
    types_params p;
    types_defaults(&p);
    EXPECT(p.first == 5 && p.wait == 2000000000u && p.greeting.size == 11);
    EXPECT(types_open(&a, NULL) == TYPES_BAD_ARGUMENT && !a);   /* `loud` has no default */
    p.loud = false;
    EXPECT(types_open(&a, &p) == TYPES_OK);
    char text[] = "HI";
    p.first = 100; p.loud = true; p.greeting = (types_bytes){(const uint8_t *)text, 2};
    EXPECT(types_open(&b, &p) == TYPES_OK);
    text[0] = 'x';                                              /* it was copied */
    uint64_t n;
    EXPECT(!types_next(a, &n) && n == 6 && !types_next(b, &n) && n == 101 && !types_next(a, &n) && n == 7);
    types_bytes bytes, name = {(const uint8_t *)"anna", 4};
    EXPECT(!types_greet(a, name, &bytes) && bytes.size == 16 && !memcmp(bytes.data, "hello \"you\" anna", 16));
    EXPECT(!types_greet(b, name, &bytes) && bytes.size == 7 && !memcmp(bytes.data, "HI ANNA", 7));
    name.size = 11;
    EXPECT(types_greet(a, name, &bytes) == TYPES_BAD_ARGUMENT);
    name = (types_bytes){NULL, 0};
    EXPECT(!types_greet(b, name, &bytes) && bytes.size == 3);
    n = 77;
    EXPECT(types_half(a, 3, &n) == TYPES_ODD && n == 77 && !types_half(a, 8, &n) && n == 4);
    EXPECT(types_ratio(a, 1, 0, &n) == TYPES_DIVISION && !types_ratio(a, 7, 2, &n) && n == 3);
    EXPECT(!types_put(a, 1) && !types_put(a, 2) && types_put(a, 3) == TYPES_FULL && !types_put(b, 3));
    EXPECT(!types_negative(a, 7, &n) && (int64_t)n == -7);
    bool small;
    EXPECT(!types_is_small(a, 9, &small) && small && !types_is_small(a, 10, &small) && !small);
    types_pair_result r;
    EXPECT(!types_pair(a, 6, &r) && r.left.size == 6 && !memcmp(r.left.data, "abcdef", 6) && (int64_t)r.right == -1);
    EXPECT(r.deep.part0 && r.deep.part1.there && r.deep.part1.value == 6);
    EXPECT(!types_pair(a, 2, &r) && !r.deep.part0 && !r.deep.part1.there && r.left.size == 2);
    EXPECT(!types_waits(a, &n) && n == 2000000000u && !types_next(a, NULL));
    EXPECT(!strcmp(types_error(TYPES_ODD), "fault odd") && !strcmp(types_error(12345), "unknown status"));
    types_close(a);
    EXPECT(!types_next(b, &n) && n == 102);
    types_close(b);
    return 0;
}
"#;

#[test]
fn all_types_and_two_instances() {
    if !require_tool("gcc") {
        return;
    }
    let folder = Folder::new("export-types");
    let file = folder.file("types.loom");
    std::fs::write(&file, TYPES).expect("the folder is writable");
    let out = export(&file.to_string_lossy(), folder.path());
    assert_eq!(out.code, Some(0), "{}", out.text);
    let header = std::fs::read_to_string(folder.file("build/types.h")).expect("the header");
    assert!(header.contains("/* The first number. */") && !header.contains("inside"), "{header}");
    assert!(header.contains("used by one thread at a time"), "{header}");
    c_program(folder.path(), USES_TYPES, &["build/libtypes.a"]);
    // Two libraries in one program.
    let out = export("apps/top_users.loom", folder.path());
    assert_eq!(out.code, Some(0), "{}", out.text);
    let both = "#include \"types.h\"\n#include \"top_users.h\"\nint main(void) {\n    top_users *t; types *y; types_params p;\n    types_defaults(&p);\n    return top_users_open(&t, NULL) || types_open(&y, &p);\n}\n";
    c_program(folder.path(), both, &["build/libtypes.a", "build/libtop_users.a"]);
    let symbols = finish(Command::new("nm").arg(folder.file("build/libtypes.a")));
    let global: Vec<&str> =
        symbols.out.lines().filter(|l| l.contains(" T ") || l.contains(" D ") || l.contains(" B ")).collect();
    assert!(global.iter().all(|l| l.contains(" types_")), "every name is the app's: {global:?}");
    // Tables of constants with addresses in them are no data that change.
    let sizes = finish(Command::new("size").arg("-A").arg(folder.file("build/libtypes.a")));
    let changes =
        |l: &&str| [".data ", ".bss "].iter().any(|s| l.starts_with(s)) && l.split_whitespace().nth(1) != Some("0");
    let found: Vec<&str> = sizes.out.lines().filter(changes).collect();
    assert!(sizes.out.contains(".text") && found.is_empty(), "{found:?}");
}

#[test]
fn called_from_rust() {
    if !require_tool("rustc") {
        return;
    }
    let folder = Folder::new("export-rust");
    let out = export("apps/top_users.loom", folder.path());
    assert_eq!(out.code, Some(0), "{}", out.text);
    let text = r#"
        #[repr(C)] #[derive(Default)] struct Top { there: bool, user: u64, n: u64 }
        #[link(name = "top_users", kind = "static")]
        extern "C" {
            fn top_users_open(out: *mut *mut u8, params: *const u8) -> i32;
            fn top_users_close(i: *mut u8);
            fn top_users_count(i: *mut u8, user: u64, events: u32, result: *mut u64) -> i32;
            fn top_users_top(i: *mut u8, rank: u32, result: *mut Top) -> i32;
        }
        fn main() {
            unsafe {
                let (mut i, mut n, mut top) = (std::ptr::null_mut(), 0, Top::default());
                assert_eq!(top_users_open(&mut i, std::ptr::null()), 0);
                for user in 1..=5 {
                    assert_eq!(top_users_count(i, user, user as u32 * 10, &mut n), 0);
                    assert_eq!(n, user * 10);
                }
                assert_eq!(top_users_top(i, 1, &mut top), 0);
                println!("{} {} {}", top.there, top.user, top.n);
                top_users_close(i);
            }
        }
    "#;
    assert_eq!(rust_program(folder.path(), text), "true 4 40\n");
}

#[test]
fn called_from_go() {
    if !require_tool("go") || !require_tool("gcc") {
        return;
    }
    let folder = Folder::new("export-go");
    let out = export("apps/top_users.loom", folder.path());
    assert_eq!(out.code, Some(0), "{}", out.text);
    let text = r#"package main

// #cgo CFLAGS: -Ibuild
// #include "top_users.h"
import "C"

func main() {
	var i *C.top_users
	if status := C.top_users_open(&i, nil); status != C.TOP_USERS_OK {
		panic(C.GoString(C.top_users_error(status)))
	}
	defer C.top_users_close(i)
	var n C.uint64_t
	for user := 1; user <= 5; user++ {
		C.top_users_count(i, C.uint64_t(user), C.uint32_t(user*10), &n)
	}
	var top C.top_users_top_result
	C.top_users_top(i, 0, &top)
	println(n, top.there, top.value.user, top.value.n)
}
"#;
    assert_eq!(go_program(folder.path(), "top_users", text), "50 true 5 50\n");
}

#[test]
fn what_cannot_be_exported() {
    let folder = Folder::new("export-refused");
    let refused = |name: &str, text: &str, why: &str| {
        let file = folder.file(&format!("{name}.loom"));
        std::fs::write(&file, text).expect("the folder is writable");
        let out = export(&file.to_string_lossy(), folder.path());
        assert!(out.code == Some(1) && out.text.contains(why), "{name}: {:?} {}", out.code, out.text);
        assert!(!folder.file(&format!("build/lib{name}.a")).exists());
    };
    refused("plain", "app plain { state x: u8\n signal f() -> u8 { x } }\n", "exports nothing");
    refused(
        "ported",
        "app ported { port w = memory(\"w\")\n on w(p) { }\n export segment f() -> u8 { 1 } }\n",
        "has a port (`w`)",
    );
    refused(
        "timed",
        "app timed { state x: u64\n every 1s { x += 1 }\n export segment f() -> u64 { x } }\n",
        "runs when it is called",
    );
    refused("secret", "app secret { export segment f() -> bytes<20> { sha1(\"a\") } }\n", "ciphers or digests");
    refused("listed", "app listed { export segment f() -> list<u8, 3> { [1] } }\n", "E0617");
    refused("remote", "app remote { param to: endpoint\n export segment f() -> u16 { to.port } }\n", "is an address");
}

/// Another user of the machine may have put folders and links where a process of this number might
/// work.
#[test]
fn what_others_put_into_the_temporary_folder_is_not_used() {
    let folder = Folder::new("export-planted");
    let (tmp, victim) = (folder.file("tmp"), folder.file("victim"));
    std::fs::create_dir_all(&tmp).expect("writable");
    std::fs::write(&victim, "mine").expect("writable");
    // `exec` keeps the number of the process.
    let plant = "d=$TMPDIR/wireloom-export-$$; mkdir $d; for f in program.c segments.c export.h; do \
                 ln -s \"$VICTIM\" $d/$f; done; exec \"$0\" build apps/top_users.loom --export -o \"$OUT\"";
    let mut command = Command::new("sh");
    command.args(["-c", plant]).arg(Wireloom::binary()).current_dir(wireloom_tests::root());
    command.env("TMPDIR", &tmp).env("VICTIM", &victim).env("OUT", folder.file("build"));
    let out = finish(quickly_compiled(&mut command));
    assert_eq!(out.code, Some(0), "{}", out.text);
    assert_eq!(std::fs::read_to_string(&victim).expect("it is there"), "mine");
    let mut left = std::fs::read_dir(&tmp).expect("it is there").flatten().map(|e| e.file_name());
    let planted = left.next().expect("the planted folder");
    assert!(planted.to_string_lossy().starts_with("wireloom-export-") && left.next().is_none());
}

/// A worker that takes tuples from a queue at its own pace, and another queue, of plain values.
const QUEUES: &str = r#"
fault unlucky
record Pair { left: u8  right: bytes<4> }
unit Tuple { order big  user: u32  size: u8 = len(name)  name: bytes<8> [size] }

app queues {
    queue tuples as Tuple { depth 2 }
    table pairs: ring Pair { capacity 3 }
    state seen: u64

    export segment offer(user: u32, name: bytes<8>) -> u32 {
        Tuple { user: user, name: name } -> tuples
        len(tuples)
    }
    export segment work(core: u32) -> (u64, bytes<8>) from tuples(t) {
        if t.user == 13 { fault unlucky }
        seen += 1
        (u64(t.user) + u64(core), t.name)
    }
    export segment keep(left: u8) -> bool { pairs.push(Pair { left: left, right: "abcd" }) }
    export segment forget() from pairs(p) { seen += u64(p.left) }
    export segment total() -> u64 { seen }
}
"#;

const USES_QUEUES: &str = r#"
#include "queues.h"
#include <string.h>
#define EXPECT(e) do { if (!(e)) return __LINE__ % 200 + 1; } while (0)

int main(void) {
    queues *q;
    uint64_t n;
    bool b;
    queues_work_result r;
    EXPECT(!queues_open(&q, NULL));
    EXPECT(!queues_work(q, 1, &r) && !r.there);
    queues_bytes anna = {(const uint8_t *)"anna", 4};
    EXPECT(!queues_offer(q, 12, anna, &n) && n == 1 && !queues_offer(q, 13, anna, &n) && n == 2);
    EXPECT(!queues_offer(q, 14, anna, &n) && n == 2);           /* full: it is discarded */
    EXPECT(!queues_work(q, 100, &r) && r.there && r.value.part0 == 112);
    EXPECT(r.value.part1.size == 4 && !memcmp(r.value.part1.data, "anna", 4));
    EXPECT(queues_work(q, 0, &r) == QUEUES_UNLUCKY);            /* that one is gone, too */
    EXPECT(!queues_work(q, 0, &r) && !r.there);
    EXPECT(!queues_forget(q, &b) && !b);
    for (int i = 0; i < 3; i++) EXPECT(!queues_keep(q, 10, &b) && b);
    EXPECT(!queues_keep(q, 10, &b) && !b);
    EXPECT(!queues_forget(q, &b) && b && !queues_total(q, &n) && n == 11);
    queues_close(q);
    return 0;
}
"#;

#[test]
fn segments_that_begin_at_a_queue() {
    if !require_tool("gcc") {
        return;
    }
    let folder = queues("export-queues");
    let file = folder.file("queues.loom");
    c_program(folder.path(), USES_QUEUES, &["build/libqueues.a"]);
    // A queue that is not there, and one of packets.
    for (from, others) in [("none", ""), ("t", "table t: u8 -> u8 { capacity 2 }\n"), ("q", "queue q { depth 2 }\n")] {
        let text = format!("app no {{ {others} export segment f() -> u8 from {from}(_m) {{ 1 }} }}\n");
        std::fs::write(&file, text).expect("the folder is writable");
        let out = Wireloom::command(&["check", &file.to_string_lossy()]);
        assert!(out.code == Some(1) && out.text.contains("error[E0685]"), "{from}: {}", out.text);
    }
}

/// The library of [`QUEUES`] in a folder.
fn queues(name: &str) -> Folder {
    let folder = Folder::new(name);
    let file = folder.file("queues.loom");
    std::fs::write(&file, QUEUES).expect("the folder is writable");
    let out = export(&file.to_string_lossy(), folder.path());
    assert_eq!(out.code, Some(0), "{}", out.text);
    folder
}

#[test]
fn queues_called_from_rust() {
    if !require_tool("rustc") {
        return;
    }
    let folder = queues("export-queues-rust");
    let text = r#"
        #[repr(C)] #[derive(Clone, Copy)] struct Bytes { data: *const u8, size: usize }
        #[repr(C)] struct Done { part0: u64, part1: Bytes }
        #[repr(C)] struct Work { there: bool, value: Done }
        #[link(name = "queues", kind = "static")]
        extern "C" {
            fn queues_open(out: *mut *mut u8, params: *const u8) -> i32;
            fn queues_close(i: *mut u8);
            fn queues_offer(i: *mut u8, user: u32, name: Bytes, result: *mut u64) -> i32;
            fn queues_work(i: *mut u8, core: u32, result: *mut Work) -> i32;
            fn queues_forget(i: *mut u8, result: *mut bool) -> i32;
        }
        fn main() {
            unsafe {
                let (mut i, mut waiting, mut any) = (std::ptr::null_mut(), 0, true);
                assert_eq!(queues_open(&mut i, std::ptr::null()), 0);
                for (user, name) in [(12, "anna"), (13, "eve")] {
                    let name = Bytes { data: name.as_ptr(), size: name.len() };
                    assert_eq!(queues_offer(i, user, name, &mut waiting), 0);
                }
                let none = Done { part0: 0, part1: Bytes { data: std::ptr::null(), size: 0 } };
                let mut work = Work { there: false, value: none };
                // The second one is a fault, and gone; then the queue is empty.
                let mut said = Vec::new();
                for core in [100, 0, 0] {
                    let status = queues_work(i, core, &mut work);
                    said.push((status == 0, work.there));
                    if said.len() == 1 {
                        let name = std::slice::from_raw_parts(work.value.part1.data, work.value.part1.size);
                        println!("{} {} {}", waiting, work.value.part0, String::from_utf8_lossy(name));
                    }
                }
                assert_eq!((said[0], said[1].0, said[2]), ((true, true), false, (true, false)));
                assert!(queues_forget(i, &mut any) == 0 && !any);
                queues_close(i);
            }
        }
    "#;
    assert_eq!(rust_program(folder.path(), text), "2 112 anna\n");
}

#[test]
fn queues_called_from_go() {
    if !require_tool("go") || !require_tool("gcc") {
        return;
    }
    let folder = queues("export-queues-go");
    let text = r#"package main

// #cgo CFLAGS: -Ibuild
// #include <stdlib.h>
// #include "queues.h"
import "C"
import "unsafe"

func main() {
	var q *C.queues
	if status := C.queues_open(&q, nil); status != C.QUEUES_OK {
		panic(C.GoString(C.queues_error(status)))
	}
	defer C.queues_close(q)
	anna := C.CString("anna")
	defer C.free(unsafe.Pointer(anna))
	name := C.queues_bytes{data: (*C.uint8_t)(unsafe.Pointer(anna)), size: 4}
	var waiting C.uint64_t
	for user := 12; user <= 13; user++ {
		C.queues_offer(q, C.uint32_t(user), name, &waiting)
	}
	var w C.queues_work_result
	status := C.queues_work(q, 100, &w)
	part := w.value.part1
	println(status, waiting, w.there, w.value.part0, C.GoStringN((*C.char)(unsafe.Pointer(part.data)), C.int(part.size)))
	println(C.queues_work(q, 0, &w) == C.QUEUES_UNLUCKY)
	C.queues_work(q, 0, &w)
	println(bool(w.there))
}
"#;
    assert_eq!(go_program(folder.path(), "queues", text), "0 2 true 112 anna\ntrue\nfalse\n");
}
