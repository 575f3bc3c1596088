//! The codes of warnings: W09xx. Examples are as in `lang.rs`.

use super::code;
use super::Code;

pub static CODES: &[Code] = &[
    code("W0901", "a decision by a value from before a call",
        "The program reads state before a call, and the value decides something after the call. \
         Another handler may have changed the state meanwhile.",
        "unit M { n: u8  m: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    state x: u32\n    on c(r) {\n        let y = x\n        let z = call s(r)\n        if y == 1 { reply z } else { reply nothing }\n    }\n}\n"),
    code("W0902", "a name that is not used",
        "Remove the name, or begin it with `_`.",
        "fn f() -> u32 { let x = u32(5)\n 1 }\n"),
    code("W0903", "a module that is not used",
        "Remove the `use`.",
        "use std.kv\n"),
    code("W0904", "never reached",
        "The statement before this one always leaves, or earlier arms of a `match` take all values \
         of this arm.",
        "fn f() -> u32 { return 1\n let x = u32(2)\n 2 }\n"),
    code("W0905", "a value that is not used",
        "The value of a statement is not used.",
        "fn f(x: u32) -> u32 { x + 1\n 2 }\n"),
    code("W0906", "a comparison that is always true or always false",
        "The type or the mask of one side decides the comparison with a number for every value. An \
         unsigned value is never below 0. `x & 0x10` never equals 0x20.",
        "fn f(flags: u8) -> bool = flags & 0x10 == 0x20\n"),
    code("W0907", "a declaration that nothing uses",
        "Nothing in its element or app names the parameter, table, counter, state or queue. Nothing in \
         the program names the function or another item. Remove it, or begin its name with `_`. A \
         file without an app is a library, and so is one with only `app example`: others use its \
         items.",
        "unit M { n: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    counter lost\n    on c(r) { reply r }\n}\n"),
    code("W0908", "the number of a server that is kept",
        "A list of servers may change while the program runs. Then `db[2]` is the third server of the \
         new list. A number in a state, a session or a table stays what it was, and is another \
         server's. Keep the server's address, which `server(db, i)` gives. `instance(db, address)` is \
         its number now, or `none` if it is not in the list any more.",
        "unit M { n: u8 }\nprotocol p { up M  down M  sharing session }\napp a {\n    param servers: list<endpoint, 4>\n    port c = listen tcp(80) as p\n    port db = connect tcp(servers) as p\n    session up: connection of db\n    session home: u32\n    on c(m) {\n        home = u32(m.n) % len(db)\n        up = open db[home]\n        m -> up\n    }\n    on up(m) { m -> c }\n}\n"),
    code("W0909", "a request that may go on twice",
        "The rest of a request with a stream, as the body of HTTP, goes on as it arrives. It goes to \
         one server, once. A second call has the fault `constraint` if anything of the rest has gone \
         on before. So it fails for large bodies and works for small ones. `hold_body` on the port \
         keeps the bytes. For another server when one is down, no second call is needed: `failover`.",
        "use std.http\napp a {\n    param servers: list<endpoint, 4>\n    port c = listen tcp(80) as http\n    port s = connect tcp(servers) as http\n    on c(req) {\n        let a = call s[0](req) else { reply call s[1](req); return }\n        reply a\n    }\n}\n"),
    code("W0910", "a connection of a session that nothing opens",
        "A message opens a session's connection by itself if the port has one server. With several \
         servers it does not know which one, and the conversation ends with `constraint`. Choose \
         one with `open`.",
        "unit M { n: u8 }\nprotocol p { up M  down M  sharing session }\napp a {\n    param servers: list<endpoint, 4>\n    port c = listen tcp(80) as p\n    port db = connect tcp(servers) as p\n    session up: connection of db\n    on c(m) { m -> up }\n    on up(m) { m -> c }\n}\n"),
];
