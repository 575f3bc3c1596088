//! The remedies of common mistakes. Each mistake is one error, whose hint says how it is written
//! here.

use std::path::Path;
use wireloom_syntax::{diagnostic, MemoryWorld};

/// The place of a mistake: the body of a service's handler, a member of its app, a handler of
/// packets, or items.
enum Part {
    Service(&'static str),
    Member(&'static str),
    Packets(&'static str),
    Items(&'static str),
}
use Part::{Items, Member, Packets, Service};

fn program(part: &Part) -> String {
    let service = |member: &str, body: &str| {
        format!(
            "use std.http\napp a {{\n    param servers: list<endpoint, 4>\n    port client = listen tcp(80) as http\n    \
             port srv = connect tcp(servers) as http\n    counter seen\n    \
             table t: u8 -> record {{ n: u64, m: u8 }} {{ capacity 4 }}\n    \
             limiter l: u8 {{ rate 1, burst 1, capacity 4 }}\n    {member}\n    on client(req) {{\n        {body}\n        \
             reply http.ok(\"a\", \"b\")\n    }}\n}}\n"
        )
    };
    match part {
        Service(body) => service("", body),
        Member(member) => service(member, ""),
        Packets(body) => format!("app a {{\n    port wire = nic(\"eth0\")\n    on wire(p) {body}\n}}\n"),
        Items(items) => items.to_string(),
    }
}

const REMEDIES: &[(Part, &str, &str)] = &[
    (Items("fn f(b: bytes<9>) -> bytes<9> = trim(b)"), "E0308", "it is `trim(b, set)`"),
    (Service("set t[1] = { n: 1, m: 2 }"), "E0101", "write `place = value`: `t[k] = true` for an entry"),
    (Items("use std.memcached\napp a { port c = listen tcp(81) as memcached }"), "E0201", "its protocols are `memcached.binary`"),
    (Items("fn f(l: list<bytes<9>, 4>) -> u32 { let x = [trim(p) for p in l]  u32(len(x)) }"), "E0308", "it is `trim(b, set)`"),
    (Service("req.target = \"/x\""), "E0313", "send a changed copy: `req with { target: … }`"),
    (Service("let r = http.ok(\"a\", \"b\")  r.status = 404"), "E0313", "`http.Response { status: … }`"),
    (
        Service("for h in req.headers { h.value = \"x\" }"),
        "E0313",
        "a list of a message is edited by `remove list where …` and `append list { … }`",
    ),
    (
        Service("let r = http.ok(\"a\", \"b\")  append r.headers { name: \"x\", value: \"y\" }"),
        "E0607",
        "where it is built: `http.Response { headers: [ … ] … }`",
    ),
    (
        Service("let r = http.ok(\"a\", \"b\")  remove r.headers where .name == \"x\""),
        "E0607",
        "where it is built: `http.Response { headers: [ … ] … }`",
    ),
    (
        Member("queue q as http.Request { depth 9, longest 16KiB }  every 1s { let _ = q.pop() }  on q(m) { let _ = call srv[0](m) else { return } }"),
        "E0702",
        "of the parts that a unit of your own has in the queue",
    ),
    (
        Member("queue q as http.Request { depth 9, longest 16KiB }  every 1s { let _ = q.pop() }  on q(m) { let b: bytes<9> = m.data else { return }  log b }"),
        "E0301",
        "a queue keeps such bytes as a value of a unit of your own",
    ),
    (
        Member("queue q as http.Request { depth 9, longest 16KiB }  every 1s { let _ = q.pop() }  on q(m) { let b = m.data else \"\"  log b }"),
        "E0309",
        "a queue keeps such bytes as a value of a unit of your own",
    ),
    (Service("req.headers[\"x\"] = \"b\""), "E0313", "by `append req.headers { … }`"),
    (Service("remove req.headers[\"x\"]"), "E0707", "by `remove req.headers where …`"),
    (Service("let xs = [1, 2]  xs[0] = 3"), "E0313", "only entries of tables can"),
    (Service("update t[1] { n += 1 }"), "E0201", "`.n`"),
    (Service("update t[1] { .n += m }"), "E0201", "`.m`"),
    (Service("t[1].n = 3"), "E0713", "write `update t[1] { .n = … }`"),
    (Service("seen -= 3"), "E0708", "write `seen += n`"),
    (Service("log concat(\"n=\", seen)"), "E0301", "convert it: `text(…)`"),
    (Service("log req.data else \"\""), "E0309", "`{ hold_body 64KiB else pass }`"),
    (Service("let b = req.data  log len(b)"), "E0305", "`{ hold_body 64KiB else pass }`"),
    (Service("if let b = req.data { log concat(b, \"\") }"), "E0301", "`{ hold_body 64KiB else pass }`"),
    (Service("log(\"x\")"), "E0201", "write `log \"text\", x`, without parentheses"),
    (Service("fault(\"x\")"), "E0201", "`fault …` is a statement: write it without parentheses"),
    (Service("log req.target[0..3]"), "E0301", "`slice(req.target, 0, 3)`"),
    (Service("log req.target[0..=seen]"), "E0301", "`slice(req.target, 0, seen + 1)`"),
    (Service("log len([1, 2, 3][0..2])"), "E0301", "`[1, 2, 3][i]`"),
    (Service("log req.target.len()"), "E0201", "it is a function: `len(req.target)`"),
    (Service("log req.target.length"), "E0303", "it is a function: `len(req.target)`"),
    (Service("log req.headers.size"), "E0303", "it is a function: `len(req.headers)`"),
    (Service("log req.target.toUpperCase()"), "E0201", "it is a function: `upper(req.target)`"),
    (Service("log req.target.indexOf(\"/\")"), "E0201", "it is a function: `find(req.target, \"/\")`"),
    (Service("log req.path"), "E0201", "did you mean `target`?"),
    (Service("let r = call srv(req) else { return }  log r.status"), "E0603", "write `srv[i]`"),
    (Service("if l.take(1) { seen += 1 }"), "E0711", "write `l[key].take(…)`"),
    (Service("req = http.Request { }"), "E0313", "give the new message a name of its own"),
    (Service("let x = seen  x = 3"), "E0313", "write `var x = …`"),
    (Service("for x in 0..3 { x += 1 }"), "E0313", "`var changed = x`"),
    (Service("l[1].give(3)"), "E0201", "write `l[key].take(1)`"),
    (Member("table r: ring u64 { capacity 8 }\n    every 1s { r[1] = 3 }"), "E0709", "write `r.push(value)`"),
    (Member("table r: ring u64 { capacity 8 }\n    every 1s { remove r[1] }"), "E0709", "write `r.pop()`"),
    (Service("if seen { seen += 1 }"), "E0301", "a number is compared: `seen != 0`"),
    (Service("if req.target { seen += 1 }"), "E0301", "whether it is empty: `len(req.target) == 0`"),
    (
        Member("cache c: u8 -> http.Response { capacity 10, allocate_on_read, max_age 1s }"),
        "E0309",
        "messages are kept in tables: `table t: K -> http.Response { … }`",
    ),
    (Member("state s: int\n    every 1s { s += 1 }"), "E0201", "integers are `u8` to `u64`"),
    (
        Member("cache c: u8 -> fooo { capacity 10, allocate_on_read, max_age 1s }\n    every 1s { forget c }"),
        "E0201",
        "",
    ),
    (
        Member("cache c: u8 -> u8 { capacity 10, allocate_on_read, max_age 1s }\n    every 1s { forget c[1] }"),
        "E0684",
        "write `forget c`",
    ),
    (Member("table u: u8 -> fooo { capacity 10 }\n    every 1s { remove u[1] }"), "E0201", ""),
    (Member("table u: u8 -> fooo { capacity 10 }\n    every 1s { update u[1] { .n = 1 } }"), "E0201", ""),
    (Packets("where p.ip4 { if p.ip4.src == \"10.0.0.1\" { drop p } }"), "E0301", "without quotes: `10.0.0.1`"),
    (Packets("where p.ip4 { if p.ip4.src in \"10.0.0.0/8\" { drop p } }"), "E0301", "without quotes: `10.0.0.0/8`"),
    (Packets("where p.ip6 { p.ip6.src = \"::1\" }"), "E0301", "without quotes: `2001:db8::1`"),
    (Packets("where p.eth { p.eth.src = \"02:00:00:00:00:01\" }"), "E0301", "without quotes: `02:00:00:00:00:01`"),
    (Packets("where p.tcp { if p.tcp.syn { drop p } }"), "E0301", "a bit is compared: `p.tcp.syn == 1`"),
    (Packets("where p.tcp { if p.tcp.dport == 80 { drop p } }"), "E0201", "did you mean `dst`?"),
    (Packets("where p.ip4 { if p.ip4.protocol == 6 { drop p } }"), "E0201", "did you mean `proto`?"),
    (Packets("{ if p.tcp.dst == 80 { drop p } }"), "E0305", "`if p.tcp { … }`, `where p.tcp`"),
    (Items("app a {\n    port wire = nic(eth0)\n    on wire(p) { drop p }\n}\n"), "E0201", "in quotes: `\"eth0\"`"),
    (Items("unit H { n: u16le }\nunit Q { xs: list<H, 5> to end }\n"), "E0201", "`u16 little`"),
    (Items("unit H { n: be32 }\nunit Q { h: H  xs: list<H, 5> to end }\n"), "E0201", "`u16 big`"),
    (Items("fn f(n: uint32_t) -> u8 = 1\n"), "E0201", "integers are `u8` to `u64`"),
    (Items("fn f() -> u8 { let k }\n"), "E0101", "write `let name = value`"),
    (
        Items(
            "table t: u8 -> u8 { capacity 8 }\nfn f(a: u8) -> bool { t[a] is some(_) }\nunit U { a: u8  require f(a) }\n",
        ),
        "E0430",
        "ask for it in a handler",
    ),
];

#[test]
fn mistakes_have_remedies() {
    let std = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../std");
    let mut wrong = String::new();
    for (part, code, hint) in REMEDIES {
        let text = program(part);
        let mut world = MemoryWorld::new().with("/app/main.loom", text.clone());
        for file in std::fs::read_dir(&std).expect("std is there").flatten().filter(|f| f.path().is_file()) {
            let text = std::fs::read(file.path()).expect("a module of std");
            world.add(Path::new("/std").join(file.file_name()), text);
        }
        let checked = wireloom_lang::compile(&world, Path::new("/app/main.loom"), None);
        let errors: Vec<_> = checked.diagnostics.iter().filter(|d| d.is_error()).collect();
        let told = |d: &diagnostic::Diagnostic| d.code == *code && d.hint.clone().unwrap_or_default().contains(hint);
        if !matches!(&errors[..], [d] if told(d)) {
            let said = diagnostic::render_all(&checked.diagnostics, &checked.map, false);
            wrong += &format!("---- {code} with `{hint}` is not all that is said of:\n{text}\nsaid:\n{said}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Names of the file's own module stand in a remedy as the file writes them.
#[test]
fn own_names_are_bare() {
    const TALKS: &str = "unit Line { text: text<80> until \"\\n\" }\n\
         protocol lines { up Line  down Line  sharing session }\n\
         protocol other { up Line  down Line  sharing session }\n\
         protocol asks { stateless  request Line  response Line }\n";
    const CASES: &[(&str, &str)] = &[
        ("port client = listen tcp(80) as lines", "write `on client(m: lines.up) { … }`"),
        ("port client = listen tcp(80) as asks", "write `on client(req: asks) { … }`"),
        (
            "port client = listen tcp(80) as lines then other  on client(m: lines.up) { m -> client }",
            "write `on client(m: other.up) { … }`",
        ),
        (
            "port client = listen tcp(80) as lines then other  on client(m) { m -> client }",
            "write `on client(m: lines.up)`",
        ),
        (
            "port client = listen tcp(80) as lines  on client(m) { m -> client  become other }",
            "declare it: `port client = … as … then other`",
        ),
        (
            "port client = listen tcp(80) as lines  port db = connect tcp(127.0.0.1:1) as lines then other\n    \
             session up: connection of db  on client(m) { m -> up }  on up(m: lines.down) { m -> client }",
            "write `on up(m: other.down) { m -> client }`",
        ),
        (
            "port client = listen tcp(80) as asks\n    on client(r) { let m = Line { text: \"a\" }  m.text = \"b\"  reply m }",
            "give it where `m` is built: `Line { text: … }`",
        ),
        ("state last: Line", "messages are kept in tables: `table t: K -> Line { … }`"),
    ];
    let mut wrong = String::new();
    for (members, hint) in CASES {
        let text = format!("{TALKS}app a {{\n    {members}\n}}\n");
        let world = MemoryWorld::new().with("/app/main.loom", text.clone());
        let checked = wireloom_lang::compile(&world, Path::new("/app/main.loom"), None);
        if !checked.diagnostics.iter().any(|d| d.hint.as_deref() == Some(*hint)) {
            let said = diagnostic::render_all(&checked.diagnostics, &checked.map, false);
            wrong += &format!("---- no `{hint}` for:\n{text}\nsaid:\n{said}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Mistakes of those who know services, in conversations and elsewhere.
#[test]
fn names_from_elsewhere() {
    let talk = |clauses: &str, members: &str| {
        format!(
            "unit Line {{ kind: u8  text: text<80> until \"\\n\" }}\nprotocol lines {{ up Line  down Line  \
             sharing session  session data: bool  {clauses} }}\napp a {{\n    port client = listen tcp(80) as lines\n    \
             port db = connect tcp(127.0.0.1:1) as lines\n    session up: connection of db\n    \
             on up(m) {{ m -> client }}\n    {members}\n}}\n"
        )
    };
    let sends = "on client(m) { m -> up }";
    let cases = [
        (talk("idle when response.kind == 1  owes when up.kind == 1", sends), "is `down` in a conversation"),
        (talk("idle when down.kind == 1  owes when request.kind == 1", sends), "is `up` in a conversation"),
        (talk("", "on client(m) { data = true  m -> up }"), "for each client: `client.data`"),
        (talk("", "on client(m) { if data { m -> up } }"), "for each client: `client.data`"),
        (talk("", &format!("{sends}\n    on db(m: lines.down) {{ m -> client }}")), "`session up: connection of db`"),
        ("use std.postgress\n".into(), "did you mean `std.postgres`?"),
        ("use std.htpt\n".into(), "did you mean `std.http`?"),
        ("use std.rdis\n".into(), "did you mean `std.redis`?"),
        ("use std.nothing_like_it\n".into(), "modules are files"),
        (
            "unit U { n: u8 }\nprotocol p { stateless  request U  response U }\napp a {\n    param port: u32 = 80\n    \
             port client = listen tcp(port) as p\n    on client(r) { reply r }\n}\n"
                .into(),
            "`param port: endpoint or u16`",
        ),
        ("unit U { text: bytes<10> [size]  size: u8 }\n".into(), "the field `size` stands behind this place"),
        (
            "use std.http\napp a {\n    port client = listen tcp(80) as http\n    on client(req) {\n        \
             if req.data == \"x\" { reply http.ok(\"a\", \"b\") } else { reply http.ok(\"a\", \"c\") }\n    }\n}\n"
                .into(),
            "`{ hold_body 64KiB else pass }`",
        ),
    ];
    let mut wrong = String::new();
    for (text, hint) in cases {
        let mut world = MemoryWorld::new().with("/app/main.loom", text.clone());
        for name in ["http", "postgres", "redis"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../std/{name}.loom"));
            world.add(Path::new("/std").join(format!("{name}.loom")), std::fs::read(path).expect("a module of std"));
        }
        let checked = wireloom_lang::compile(&world, Path::new("/app/main.loom"), None);
        if !checked.diagnostics.iter().any(|d| d.hint.as_deref().is_some_and(|h| h.contains(hint))) {
            let said = diagnostic::render_all(&checked.diagnostics, &checked.map, false);
            wrong += &format!("---- no `{hint}` for:\n{text}\nsaid:\n{said}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The places of a test are ports and connections, and no other names of the app.
#[test]
fn places_of_tests_are_ports() {
    let text = "unit Z { n: u8 }\nprotocol p { up Z  down Z  sharing session }\napp a {\n    \
                port client = listen tcp(80) as p\n    port db = connect tcp(127.0.0.1:1) as p\n    \
                session up: connection of db\n    session n: u8\n    on client(m) { n += 1  m -> up }\n    \
                on up(m) { m -> client }\n}\ntest \"t\" of a {\n    zzz <- \"x\"\n}\n";
    let world = MemoryWorld::new().with("/app/main.loom", text);
    let checked = wireloom_lang::compile(&world, Path::new("/app/main.loom"), None);
    let said = diagnostic::render_all(&checked.diagnostics, &checked.map, false);
    assert!(said.contains("the app has: client, db, up\n"), "{said}");
}

/// A device without a name is `null`.
#[test]
fn devices_without_a_name() {
    let text =
        "unit H { n: u8 }\npacket P { h: H }\napp a {\n    port wire = nic(\"\") as P\n    on wire(p) { drop p }\n}\n";
    let world = MemoryWorld::new().with("/app/main.loom", text);
    let checked = wireloom_lang::compile(&world, Path::new("/app/main.loom"), None);
    assert!(checked.module.is_some(), "{}", diagnostic::render_all(&checked.diagnostics, &checked.map, false));
}
