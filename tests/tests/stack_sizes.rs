//! Large values of all kinds of places are copied on the stacks of a live service. The largest
//! sizes that the checker accepts are survived, in handlers that pause, too. Larger ones are E0511.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use wireloom_tests::programs::checked;
use wireloom_tests::{free_port, Client, Wireloom};

const HEAD: &str = "unit W { text: bytes<40> until \"\\n\" }\nprotocol words { request W  response W  stateless }\n";

/// A kind of place for a value. `N` stands for its size, `K` for the kind's number.
struct Kind {
    name: &'static str,
    outside: &'static str,
    inside: &'static str,
    handler: &'static str,
}

const KINDS: [Kind; 11] = [
    Kind {
        name: "state",
        outside: "",
        inside: "state aK: list<u64, N>",
        handler: "let b = aK  aK = [h]  aK = b  let c = aK  aK = [h, 2]  aK = c",
    },
    Kind { name: "session", outside: "", inside: "session aK: list<u64, N>", handler: "let b = aK  aK = [h]  aK = b" },
    Kind { name: "request", outside: "", inside: "request aK: list<u64, N>", handler: "let b = aK  aK = [h]  aK = b" },
    Kind {
        name: "bytes",
        outside: "",
        inside: "state aK: list<bytes<24>, N>",
        handler: "let b = aK  aK = [w.text]  aK = b",
    },
    Kind {
        name: "option",
        outside: "",
        inside: "state aK: list<u32, N>?",
        handler: "aK = some([3])  let b = aK else { fault constraint }  aK = none  aK = some(b)",
    },
    Kind {
        name: "record",
        outside: "record RK { l: list<bytes<8>, N>  m: list<u8, N>  a: u8 }",
        inside: "state aK: RK",
        handler: "let b = aK  aK = RK { a: 3 }  aK = b",
    },
    Kind {
        name: "table",
        outside: "record RK { l: list<u64, N>  a: u8 }",
        inside: "table tK: u32 -> RK { capacity 2 }",
        handler: "tK[1] = RK { a: 3 }  let b = tK[1] else { fault constraint }  tK[1] = b  update tK[1] { .a = 4 }",
    },
    Kind {
        name: "array",
        outside: "record RK { l: list<bytes<4>, N>  a: u8 }",
        inside: "table tK: array u8 -> RK { capacity 2 }",
        handler: "tK[1] = RK { a: 3 }  let b = tK[1] else { fault constraint }  tK[1] = b",
    },
    Kind {
        name: "functions",
        outside: "fn fK(x: list<u64, N>) -> list<u64, N> = x\nfn gK(x: list<u64, N>) -> list<u64, N> = fK(fK(x))",
        inside: "state aK: list<u64, N>",
        handler: "aK = gK(aK)  aK = fK(aK)",
    },
    Kind {
        name: "comprehension",
        outside: "",
        inside: "state aK: list<u64, N>",
        handler: "let b = [x + h for x in aK if x != 3]  aK = b",
    },
    Kind {
        name: "tuple",
        outside: "",
        inside: "state aK: (list<u32, N>, bytes<8>)",
        handler: "let (p, q) = aK  aK = (p, q)",
    },
];

/// The declarations outside and inside of the app, and the handler, of a kind with a size. A
/// handler with a long loop pauses.
fn parts(kind: &Kind, number: usize, size: u64, long: bool, port: &str) -> [String; 2] {
    let set = |text: &str| text.replace('K', &number.to_string()).replace('N', &size.to_string());
    let rounds = if long { 100_000 } else { 3 };
    let inside = format!(
        "    port cK = listen tcp({port}) as words\n    {}\n    on cK(w) {{\n        var h = u64(1)\n        \
         for i in 0..{rounds} {{ h = h * 31 + u64(i) }}\n        {}\n        reply W {{ text: \"done\" }}\n    }}\n",
        kind.inside, kind.handler
    );
    [format!("{}\n", kind.outside), inside].map(|text| set(&text))
}

fn source(all: &[[String; 2]], params: &str) -> String {
    let mut text = HEAD.to_string();
    all.iter().for_each(|p| text.push_str(&p[0]));
    let _ = writeln!(text, "app a {{\n{params}");
    all.iter().for_each(|p| text.push_str(&p[1]));
    text + "}\n"
}

fn accepted(file: &Path, kind: &Kind, size: u64, long: bool) -> bool {
    std::fs::write(file, source(&[parts(kind, 0, size, long, "7000")], "")).expect("the temporary folder is writable");
    match checked(file, None) {
        Ok(_) => true,
        Err(text) => {
            assert!(text.contains("E0511"), "{} of {size}: {text}", kind.name);
            false
        }
    }
}

/// The largest size that is accepted, within a sixteenth.
fn largest(file: &Path, kind: &Kind, long: bool) -> u64 {
    let (mut low, mut high) = (64, 4_000_000);
    assert!(accepted(file, kind, low, long), "{} of {low}", kind.name);
    assert!(!accepted(file, kind, high, long), "{} of {high}", kind.name);
    while high - low > low / 16 {
        let middle = low.midpoint(high);
        match accepted(file, kind, middle, long) {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("wireloom-stack-{name}-{}.loom", std::process::id()))
}

fn survives(name: &str, long: bool, level: &str) {
    let file = file(name);
    let ports: Vec<u16> = KINDS.iter().map(|_| free_port()).collect();
    let mut all = Vec::new();
    for (n, kind) in KINDS.iter().enumerate() {
        let size = largest(&file, kind, long);
        assert!(size > 1000, "{} has {size} items at most", kind.name);
        let port = if n == 0 { "port".into() } else { ports[n].to_string() };
        all.push(parts(kind, n, size, long, &port));
    }
    std::fs::write(&file, source(&all, "    param port: u16 = 7000")).expect("the temporary folder is writable");
    let opt = |c: &mut std::process::Command| {
        c.env("WIRELOOM_OPT", level);
    };
    let service = Wireloom::run_file(&file.to_string_lossy(), &["--cores", "1"], opt);
    for (n, kind) in KINDS.iter().enumerate() {
        let mut client = Client::connect(if n == 0 { service.port } else { ports[n] });
        for _ in 0..3 {
            client.send("a\n").expect("done\n");
        }
        assert!(!service.output().contains("fault"), "{}: {}", kind.name, service.output());
    }
    std::fs::remove_file(&file).ok();
}

#[test]
fn large_values_do_not_end_a_service() {
    survives("plain", false, "0");
    survives("optimized", false, "2");
}

#[test]
fn large_values_do_not_end_a_service_whose_handlers_pause() {
    survives("pausing", true, "0");
}

/// A list is filled where it lies, of items that may come from there.
#[test]
fn lists_of_their_own_items() {
    let file = file("items");
    let source = HEAD.to_string()
        + "app a {\n    port c = listen tcp(7000) as words\n    \
           state l: list<bytes<10>, 4> = [\"aa\", \"bbb\"]\n    state n: list<u32, 4> = [1, 2]\n    on c(w) {\n        \
           l = [l[1], l[0], w.text]\n        n = [n[1], n[0]]\n        var m = [n[0], n[1]]\n        m = [m[1], m[0]]\n        \
           reply W { text: concat(l[0], \"-\", l[1], \"-\", l[2], \"-\", text(n[0]), text(m[0])) }\n    }\n}\n\
           test \"swaps\" of a { c <- \"x\\n\"  c -> \"bbb-aa-x-21\\n\"  c <- \"y\\n\"  c -> \"aa-bbb-y-12\\n\" }\n";
    std::fs::write(&file, source).expect("the temporary folder is writable");
    let out = Wireloom::command(&["test", &file.to_string_lossy()]);
    std::fs::remove_file(&file).ok();
    assert_eq!(out.code, Some(0), "{}", out.text);
}

/// A packet handler runs on a core's stack like others, and `wireloom test` runs it in both ways.
#[test]
fn large_values_of_packet_handlers() {
    let file = file("packets");
    let app = |size: u32| {
        format!(
            "element E {{\n    in i: packet\n    out o: packet\n    state mine: list<u64, {size}>\n    \
             on i(p) {{ let b = mine  mine = [1, 2]  mine = b  p -> o }}\n}}\n\
             app a {{\n    port w = memory(\"w\"), o = memory(\"o\")\n    state last: list<u64, {size}>\n    \
             e = E()\n    e -> o\n    on w(p) {{ let b = last  last = [1, 2]  last = b  if len(b) == 0 {{ p -> e }} }}\n}}\n\
             test \"passes\" of a {{ w <- [\"abc\"]  o -> where .len == 3 }}\n"
        )
    };
    for (size, code) in [(12_000, Some(0)), (2_000_000, Some(1))] {
        std::fs::write(&file, app(size)).expect("the temporary folder is writable");
        let out = Wireloom::command(&["test", &file.to_string_lossy()]);
        assert_eq!(out.code, code, "{size}: {}", out.text);
        assert_eq!(out.text.contains("E0511"), code == Some(1), "{size}: {}", out.text);
    }
    std::fs::remove_file(&file).ok();
}

/// A message that is built is read again, with a view that is larger than a stack.
#[test]
fn large_views_of_built_messages() {
    let file = file("views");
    let source = "unit I { n: bytes<1> until \",\" }\nunit U { items: list<I, 500000> until .n == \"z\" }\n\
                  protocol words { request U  response U  stateless }\napp a {\n    port c = listen tcp(7000) as words\n    \
                  on c(w) { reply U { items: [x for x in w.items if x.n != \"b\"] } }\n}\n\
                  test \"a\" of a { c <- \"a,b,z,\"  c -> \"a,z,\" }\n";
    std::fs::write(&file, source).expect("the temporary folder is writable");
    let out = Wireloom::command(&["test", &file.to_string_lossy()]);
    std::fs::remove_file(&file).ok();
    assert_eq!(out.code, Some(0), "{}", out.text);
}
