//! Elements in C: what their functions get and may change, on one core and on several, and each
//! mistake.

use wireloom_tests::folder::Folder;
use wireloom_tests::programs::LONG;
use wireloom_tests::{quickly_compiled, Output, Wireloom};

const C: &str = r#"
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "wireloom.h"

/* One memory for both functions. */
struct counts { uint64_t of_place[3]; uint64_t answers; };

/* Frames of each place. Every third frame of a place leaves by `third`, frames of 9 bytes nowhere. */
uint32_t Places_x(void *memory, uint32_t place, uint32_t every, wl_bytes name, uint32_t length, bool first) {
    struct counts *c = memory;
    if (length == 9 || name.n != 3 || first != (place == 0)) return 7;
    c->of_place[place]++;
    return c->of_place[place] % every == 0 ? 2 : place == 1;
}

/* Answers with the frames so far. */
uint32_t Places_ask(void *memory, uint8_t *frame, uint32_t *length, uint32_t room, uint32_t every, wl_bytes name) {
    struct counts *c = memory;
    (void)every;
    c->answers++;
    *length = name.n + 2;
    if (*length > room) return 9;
    memcpy(frame, name.p, name.n);
    frame[name.n] = (uint8_t)('0' + c->of_place[0] + c->of_place[1] + c->of_place[2]);
    frame[name.n + 1] = (uint8_t)('0' + c->answers);
    return 2;
}

/* A frame becomes another one: its type is changed, and bytes are added or taken. */
uint32_t Retype_x(uint8_t *frame, uint32_t *length, uint32_t room, uint16_t type) {
    if (*length < 15) { *length = frame[0] == 'm' ? room + 1 : 0; return 0; }
    frame[12] = (uint8_t)(type >> 8);
    frame[13] = (uint8_t)type;
    if (frame[14] == '+') for (int i = 0; i < 3; i++) frame[(*length)++] = '!';
    if (frame[14] == '-') *length -= 3;
    return 0;
}
"#;

const PROGRAM: &str = r#"
unit Word { order big  kind: u16 }

packet Frame { word: Word }

extern element Places from "c.c" {
    param every: u32
    param name:  bytes<8> = "abc"
    in  x: packet [3] as (.len, .port == 0)
    in  ask: packet
    out y: packet [2]
    out third: packet
    state 32
}

extern element Retype from "c.c" {
    param kind: u16
    in  x: packet
    out y: packet
}

app places {
    port wires = [memory("a"), memory("b"), memory("c")] as Frame, asked = memory("asked") as Frame
    port out = [memory("o"), memory("p")] as Frame, third = memory("third") as Frame
    queue q as Frame { depth 8, lossless }
    one = Places(every = 3)
    segment front on cpu(0) {
        on wires[i](p) { p -> one.x[i] }
        asked -> one.ask
    }
    one.y[0] -> out[0]
    one.y[1] -> out[1]
    one.third -> q
    segment back on cpu(1) { q -> third }
}

test "places, values and memory" of places {
    wires[0] <- ["four"]
    out[0] -> ["four"]
    wires[1] <- ["five."]
    out[1] -> ["five."]
    wires[1] <- ["nine....."]
    out[1] -> nothing
    wires[1] <- ["six..."]
    out[1] -> ["six..."]
    wires[1] <- ["seven.."]
    third -> ["seven.."]
    asked <- ["how many"]
    third -> ["abc41"]
    asked <- ["how many"]
    third -> ["abc42"]
}

app retyped {
    port wire = memory("wire"), far = memory("far"), copy = memory("copy")
    counter faults
    retype = Retype(0x8100)
    on wire(p) {
        p -> retype
        // The sender has the packet as it was.
        if p.eth and p.eth.type != 0x8100 { p -> copy }
    }
    retype -> match { .vlan => far, else => copy }
    on fault(f) { if f.kind == overload { faults += 1 } }
}

test "a frame that a function changes" of retyped {
    wire <- [Ethernet { type: 0x0800 }, "+234567890"]
    far -> where .vlan and .len == 27
    copy -> where .eth.type == 0x0800 and .len == 24
    wire <- [Ethernet { type: 0x0800 }, "-234567890"]
    far -> where .vlan and .len == 21
    copy -> where .len == 24
    // Too long, and too short.
    wire <- ["many"]
    wire <- ["none"]
    far -> nothing
    copy -> nothing
    expect faults == 2
}
"#;

fn program(name: &str, text: &str) -> Folder {
    let folder = Folder::new(name);
    std::fs::write(folder.file("a.loom"), text).expect("written");
    std::fs::write(folder.file("c.c"), C).expect("written");
    folder
}

fn command(folder: &Folder, args: &[&str]) -> Output {
    let file = folder.name_of("a.loom");
    Wireloom::command_with(&[args, &[file.as_str()]].concat(), |c| {
        quickly_compiled(c);
    })
}

#[test]
fn frames_values_and_memory() {
    let folder = program("in-c", PROGRAM);
    let out = command(&folder, &["test"]);
    assert_eq!(out.code, Some(0), "{}", out.text);
    assert!(out.text.contains("2 passed, 0 failed") && out.text.contains("compiled code only"), "{}", out.text);
    let file = folder.name_of("a.loom:retyped");
    let ir = Wireloom::command(&["emit", "ir", &file]);
    for part in ["element \"retype\" of \"Retype\"", "extern \"c.c\" \"Retype_x\"", "in_c Retype_x#0 whole ("] {
        assert!(ir.text.contains(part), "{part}: {}", ir.text);
    }
    let explained = Wireloom::command(&["explain", &file.replace("retyped", "places")]);
    for part in ["nothing is proven of them", "Places_ask c.c", "memory of one per core; 32 B"] {
        assert!(explained.text.contains(part), "{part}: {}", explained.text);
    }
    let small = program("in-c-small", SMALL);
    std::fs::write(small.file("c.c"), SMALL_C.replace("FAR", "0")).expect("written");
    for refused in [&["test", "--interpret"][..], &["fuzz", "--seconds=1"]] {
        let out = command(&small, refused);
        assert!(out.code == Some(1) && out.text.contains("[E0717]"), "{}", out.text);
    }
}

/// Without a C compiler a program with functions in C does not run. That it cannot be checked
/// either is no error.
#[test]
fn without_a_c_compiler() {
    let folder = program("in-c-no-compiler", SMALL);
    std::fs::write(folder.file("c.c"), SMALL_C.replace("FAR", "0")).expect("written");
    let file = folder.name_of("a.loom");
    let without = |args: &[&str]| {
        Wireloom::command_with(&[args, &[file.as_str()]].concat(), |c| {
            c.env("PATH", folder.path()).env_remove("WIRELOOM_CC");
        })
    };
    assert_eq!(without(&["check"]).code, Some(0));
    for command in ["test", "run"] {
        let out = without(&[command]);
        assert_eq!(out.code, Some(1), "{command}: {}", out.text);
        for word in ["no C compiler", "`E_x` is a function in C", "[E0717]"] {
            assert!(out.text.contains(word), "{command}: {word} is missing:\n{}", out.text);
        }
    }
}

/// A small program, for the sanitizers.
const SMALL: &str = r#"
unit Word { order big  kind: u16 }

packet Frame { word: Word }

extern element E from "c.c" {
    in  x: packet
    out y: packet
    state 64
}

app small {
    port w = memory("w") as Frame, o = memory("o") as Frame
    e = E()
    w -> e -> o
}

test "one frame" of small {
    w <- ["some bytes"]
    o -> ["SOME BYTES!"]
}
"#;

/// The whole memory, and a byte behind the frame.
const SMALL_C: &str = r#"
#include <stdint.h>
uint32_t E_x(void *memory, uint8_t *frame, uint32_t *length, uint32_t room) {
    uint64_t *seen = memory;
    for (int i = 0; i < 8; i++) seen[i + FAR] += *length;
    for (uint32_t i = 0; i < *length; i++) if (frame[i] >= 'a') frame[i] -= 32;
    if (*length < room) frame[(*length)++] = '!';
    return 0;
}
"#;

/// A function that writes far behind its memory ends the run; one within its bounds does not.
#[test]
fn sanitized() {
    let folder = program("in-c-sanitized", SMALL);
    for (far, passes) in [("(1 << 20)", false), ("0", true)] {
        // The run without a finding takes another second of a processor.
        if passes && std::env::var_os(LONG).is_none() {
            continue;
        }
        std::fs::write(folder.file("c.c"), SMALL_C.replace("FAR", far)).expect("written");
        let out = command(&folder, &["test", "--sanitize"]);
        assert_eq!(out.code == Some(0), passes, "{}", out.text);
        assert_eq!(out.text.contains("AddressSanitizer"), !passes, "{}", out.text);
    }
}

#[test]
fn mistakes() {
    let head = "extern element E from \"c.c\" {\n    in  x: packet\n    out y: packet\n";
    let app = "\napp a {\n    port w = memory(\"w\")\n    e = E()\n    w -> e -> w\n}\n";
    let refused = |name: &str, text: &str, c: &str, words: &[&str]| {
        let folder = program(&format!("in-c-{name}"), text);
        if !c.is_empty() {
            std::fs::write(folder.file("c.c"), c).expect("written");
        }
        let out = command(&folder, &["check"]);
        assert_eq!(out.code, Some(1), "{name}: {}", out.text);
        assert_eq!(out.text.matches("error[").count(), 1, "{name}: {}", out.text);
        for word in words.iter().chain(&["a.loom:", "= hint"]) {
            assert!(out.text.contains(word), "{name}: {word} is missing:\n{}", out.text);
        }
    };
    let of = |members: &str| format!("{head}{members}}}{app}");
    for (name, members) in
        [("handler", "    on x(p) { p -> y }\n"), ("table", "    table t: u8 -> u8 { capacity 2 }\n")]
    {
        refused(name, &of(members), "", &["error[E0716]", "no such member"]);
    }
    refused("memories", &of("    state 8\n    state 9\n"), "", &["error[E0716]", "one memory"]);
    refused("large", &of("    state 17MiB\n"), "", &["error[E0716]", "16 MiB"]);
    refused("list", &of("    param l: list<u8, 2> = [1]\n"), "", &["error[E0716]", "takes no"]);
    refused("missing", &of(""), "", &["error[E0688]", "no function `E_x`"]);
    let wrong = "#include <stdint.h>\nuint32_t E_x(uint8_t *frame, uint32_t length) { return frame[length]; }\n";
    refused("types", &of(""), wrong, &["error[E0690]", "uint32_t E_x(uint8_t *, uint32_t *, uint32_t)"]);
    refused("nofile", &of("").replace("c.c", "d.c"), "", &["error[E0686]", "d.c"]);
    // Nobody uses the element, or this `in` of it.
    let unused =
        "\napp a {\n    port w = memory(\"w\")\n    w -> w\n}\napp b {\n    port w = memory(\"w\")\n    w -> w\n}\n";
    refused("unused", &format!("{head}}}{unused}"), "", &["error[E0688]", "no function `E_x`"]);
    refused("unused-types", &format!("{head}    param n: u32\n}}{unused}"), wrong, &["error[E0690]", "uint32_t)"]);
    let right = "#include <stdint.h>\nuint32_t E_x(uint8_t *f, uint32_t *n, uint32_t r) { return f[*n - 1] + r; }\n";
    let unwired = of("    in  z: packet\n").replace("    w -> e -> w", "    w -> e.x\n    e -> w");
    refused("unwired", &unwired, right, &["error[E0688]", "no function `E_z`"]);
    let plain = of("    on x(p) { p -> y }\n").replace("extern element E from \"c.c\"", "element E");
    refused("outside", &plain.replace("out y", "state 8\n    out y"), "", &["error[E0716]", "for elements in C"]);
    let hook = of("")
        .replace("memory(\"w\")", "nic(\"w\")")
        .replace("    w -> e -> w", "    on w(p) on xdp { p -> e }\n    e -> w");
    refused("hook", &hook, right, &["error[E0670]", "an element in C cannot run in XDP"]);
    let service = "unit M { n: u8 }\nprotocol p { stateless  request M  response M }\n\
        extern element E from \"c.c\" {\n    in  x: M as (.n)\n    out y: M\n}\n\
        app a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    e = E()\n    c -> e -> s\n}\n";
    refused("service", service, "", &["error[E0716]", "handles packets"]);
}
