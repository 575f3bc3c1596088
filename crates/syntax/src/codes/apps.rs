//! The codes of bounds, protocols, handlers, ports, state and tables: E05xx to E07xx.
//!
//! The grammar analysis of crate `ir` reports E0680 to E0682.

use super::{code, Code};

pub static CODES: &[Code] = &[
    code("E0501", "a cyclic definition",
        "A function does not call itself. A constant, type or unit is not defined by itself. So \
         every program ends.",
        "fn f(x: u32) -> u32 = f(x)\n"),
    code("E0502", "division by zero",
        "The divisor is zero. In a clause, the divisor may be zero.",
        "fn f(x: u32) -> u32 = x / 0\n"),
    code("E0503", "a size out of bounds",
        "Every size has a bound between 1 and 4 GiB.",
        "fn f(x: bytes<0>) -> u8 = 1\n"),
    code("E0504", "nested too deeply",
        "Split the expression with `let` or functions.",
        ""),
    code("E0505", "a loop without a bound",
        "The compiler must know the largest number of iterations of every loop.",
        "fn f(n: u64) -> u64 { var x = u64(0)\n for i in 0..n { x += 1 }\n x }\n"),
    code("E0506", "an element in too many places",
        "A program has at most 16384 inputs of elements. An element counts once for each wiring in \
         which other nodes follow it, with all elements that it holds. Wire the nodes behind an \
         element once: `a -> e`, `b -> e`, `e -> …`.\n\
         In a service, an element is copied for each send in the middle of a handler, and for each \
         send of an edited message. If each element of a chain has two of these, the number of \
         copies doubles with each element. Send at the end of a way through the handler.",
        ""),
    code("E0507", "a `match` with too many arms",
        "A `match` has at most 256 arms. Join arms by `|`, or move some of them to a function.",
        ""),
    code("E0508", "a wiring that is too long",
        "A wiring has at most 256 nodes. Move a part of it into an element.",
        ""),
    code("E0509", "too many elements",
        "A program has at most 4096 elements. Each instance of an element counts. If elements \
         hold several elements each, the number multiplies at every level.",
        ""),
    code("E0510", "too many outputs for frames that are built",
        "Frames that an element builds are handled like frames that arrive, for each output that \
         takes them. A program has at most 4096 such outputs.",
        ""),
    code("E0511", "values that are too large for the stack",
        "A list reserves room for its largest number of items, on the stack of the core's \
         thread. The large values of a handler or function have at most 1 MiB together, with \
         those of the functions that it calls.\n\
         Each local counts, and each copy on the way to one: an argument, a result, an entry of a \
         table. Values of `state` and `session` do not count where they lie. So an item \
         (`last[i]`) and a length (`len(last)`) cost nothing.",
        "fn f(n: u64) -> u32 {\n    let all = [i for i in 0..min(n, 200000)]\n    len(all)\n}\n"),
    code("E0512", "a type that is too large",
        "A type has at most 1000 parts and 24 levels, the records in it counted through. A value \
         of it has at most 1 EiB. Keep less in one value: use a table, or several variables.",
        "fn f(x: u8?????????????????????????) -> u32 = 1\n"),
    code("E0513", "a type without its largest size",
        "Bytes and lists have a largest size, so that the memory of a program is known: \
         `bytes<1KiB>`, `list<u32, 100>`.",
        "fn f(x: bytes) -> u8 = 1\n"),
    code("E0514", "a loop of too many rounds",
        "A `for` goes over at most 16,777,216 numbers. `loop max N` has no such limit.",
        "fn f() -> u64 { var x = u64(0)\n for _i in 0..20000000 { x += 1 }\n x }\n"),
    code("E0515", "too many steps without a pause",
        "Each loop has a bound, and functions do not recurse. But functions that call others \
         several times can multiply their steps at each level. A handler or function has at most \
         2^30 steps, each loop counted as one round. A handler that cannot pause has fewer than \
         2^64 steps, all rounds counted.",
        "unit M { n: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    state k: u64\n    on c(r) { reply r }\n    every 1s {\n        loop max 4294967295 { loop max 4294967295 { loop max 4294967295 { k += 1 } } }\n    }\n}\n"),
    code("E0601", "a request without an answer",
        "Every path through a handler answers the request once, or says `reply nothing`.",
        "unit M { n: u8  m: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    on c(r) { if r.n == 1 { reply nothing } }\n}\n"),
    code("E0602", "a second answer",
        "A request has one answer.",
        "unit M { n: u8  m: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    on c(r) { reply nothing\n        reply nothing }\n}\n"),
    code("E0603", "not at this port, or not here",
        "`reply` and the connection belong to handlers of listening ports. Calls and messages go \
         to instances of connecting ports.",
        "unit M { n: u8  m: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    every 1s { reply nothing }\n    on c(r) { reply nothing }\n}\n"),
    code("E0604", "a protocol without answers",
        "The messages of a one-way protocol have no answers.",
        "unit M { n: u8 }\nprotocol p { request M }\napp a {\n    port c = listen tcp(80) as p\n    on c(r) { reply nothing }\n}\n"),
    code("E0605", "an answer that is no longer held",
        "The answer of a call can be read until the next call.",
        "unit M { n: u8  m: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    on c(r) {\n        let x = call s(r)\n        let y = call s(r)\n        if x.n == y.n { reply y } else { reply nothing }\n    }\n}\n"),
    code("E0606", "too many bytes kept over a call",
        "A suspended handler keeps at most 4 KiB of the bytes of a value, those of its parts together.",
        "unit M { n: u8  b: bytes<64KiB> [n] }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    on c(r) {\n        let b = lower(r.b)\n        let x = call s(r)\n        if b == \"a\" { reply x } else { reply nothing }\n    }\n}\n"),
    code("E0607", "an edit out of place",
        "A message can be edited at three places:\n\n\
         - in a `forward` block\n\
         - by `with`\n\
         - by `remove` and `append`, just before it is sent",
        "unit M { n: u8  m: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    on c(r) { reply nothing }\n}\nunit L { n: u8 }\nfn g(x: u32) -> u32 { remove x where true\n x }\n"),
    code("E0608", "a message of another unit",
        "A port takes only messages that its unit has parsed or built. So each message that is \
         sent is valid.",
        "unit M { n: u8  m: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    on c(r) { reply \"hello\" }\n}\n"),
    code("E0609", "not compiled yet",
        "The language has this construct. This version does not compile it.",
        "unit M { n: u8  m: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    c -> split -> s\n}\n"),
    code("E0610", "an `else` without an answer",
        "The `else` behind a call leaves the handler, or gives a message. It may give a message \
         if the result of the call is replied at once.",
        "unit M { n: u8  m: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    on c(r) {\n        let x = call s(r) else { 5 }\n        reply x\n    }\n}\n"),
    code("E0611", "a missing handler",
        "Every protocol of a listening port has a handler. So has every queue, every `in` of an \
         element that is wired, and every cache that is written back.",
        "unit M { n: u8  m: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    every 1s { }\n}\n"),
    code("E0612", "a protocol that is not complete",
        "A protocol names its request and at most one response. Both are units. The clauses of \
         the protocol must fit them.",
        "unit M { n: u8 }\nprotocol p { response M }\n"),
    code("E0613", "an app with `in` or `out`",
        "The ports of an app are bound to the world. `in` and `out` belong to elements.",
        "app a { in x: u8 }\n"),
    code("E0614", "unknown option",
        "The port, table, cache or queue has no such option.",
        "table t: u8 -> u8 { capacty 5 }\n"),
    code("E0615", "a parameter or address of the wrong kind",
        "A parameter has a type that a command line can give. A port is bound to endpoints.",
        "app a { param x: (u8, u8) }\n"),
    code("E0616", "a port of another kind",
        "These ports exist:\n\n\
         - `listen tcp(…)`, `listen udp(…)`, `connect tcp(…)` and `connect udp(…)`\n\
         - frame ports: `nic`, `pcap`, `tun`, `tap`, `memory` and `udp`\n\n\
         A frame port has at least one device. All its devices are of one kind.",
        "unit M { n: u8  m: u8 }\nprotocol p { request M  response M }\napp a { port x = listen sctp(53) as p }\n"),
    code("E0617", "a signal that cannot answer",
        "A signal runs at once and makes no calls. Its answer has at most 64 KiB and one of \
         these types:\n\n\
         - an integer or bool\n\
         - bytes\n\
         - an address\n\
         - an option, tuple or record of them",
        "app a { signal f() -> list<u8, 4> { [1, 2] } }\n"),
    code("E0618", "a merge that does not fit",
        "A merge combines streams of one unit by a key field. The number of streams stands \
         behind the port. The combination computes the other fields.",
        "unit M { k: u8  n: u8 }\nprotocol p { stateless  request M }\napp a {\n    port i = listen tcp(80) as p\n    port o = connect tcp(127.0.0.1:81) as p\n    i -> merge by .k with |a, b| M { k: a.k, n: a.n + b.n } -> o\n}\n"),
    code("E0619", "a test step out of place",
        "A test `of` an app or an element sends to ports and sees their output: bytes or \
         packets. Other tests are code.",
        "test \"t\" { client <- \"x\" }\n"),
    code("E0620", "an invalid packet type",
        "A packet type is a list of headers and of members computed from them. The unit of a \
         header has no parameters.",
        "packet P { }\n"),
    code("E0621", "a unit that cannot be a header",
        "A field of a header has a fixed width, or it is bytes whose length an earlier field \
         gives. A header has no text, lists, streams, delimiters or switches. A header has at \
         most one checksum and one length of its own. The checksum is a u16, or bytes whose length \
         is a flag times two or more. It stands at an even offset, and only fields of fixed size \
         stand before it.",
        "unit H { name: bytes<8> until \" \" }\npacket P { h: H }\n"),
    code("E0622", "an invalid edit of a packet",
        "A packet can be edited in these ways:\n\n\
         - An assignment sets a field of fixed size in place.\n\
         - `insert` adds a header.\n\
         - `remove` takes a header out.\n\
         - `update_checksum` takes a header that has a checksum.",
        "unit H { n: u8 }\npacket P { h: H }\napp a {\n    port w = memory(\"w\") as P\n    on w(p) where p.h { update_checksum(p.h) }\n}\n"),
    code("E0623", "a value that is no packet, sent to a frame port",
        "A frame port takes the packet at hand, or a packet that is built of headers and bytes: \
         `[Ethernet { … }, Ipv4 { … }, bytes] -> port`.",
        "app a {\n    port w = memory(\"w\")\n    on w(p) { p.len -> w }\n}\n"),
    code("E0624", "packets and connections that share state of one core",
        "An app may have frame ports and service ports. Packets and connections have cores of \
         their own. These cores share tables. States, rings and copies of rules belong to one \
         core each.",
        "unit M { n: u8  m: u8 }\nprotocol p { request M  response M }\napp a {\n    port w = memory(\"w\")\n    port c = listen tcp(80) as p\n    state last: u32\n    on w(x) { last = x.len }\n    on c(r) {\n        if last > 5 { last = 0 }\n        reply nothing\n    }\n}\n"),
    code("E0625", "shared connections of a protocol that may have a session",
        "`sharing` sends requests of all clients over the same connections. A server may keep a \
         login, a transaction or a database for a connection. Then one client would get answers \
         that belong to another client. The clause `stateless` states that every request means \
         the same on every connection. With `sharing session`, `up` and `down`, each client has \
         connections of its own.",
        "unit M { n: u8 }\nprotocol p { request M  response M  sharing pipelined }\n"),
    code("E0626", "a connect port of a protocol that may have a session",
        "Clients share the connections of a connect port. A server may keep a login, a \
         transaction or a database for a connection. Then one client would get answers that \
         belong to another client. The clause `stateless` states that every request means the \
         same on every connection. A protocol with a session says `sharing session` and has messages \
         `up` and `down`. Then each client has connections of its own.",
        "unit M { n: u8 }\nprotocol p { request M  response M }\napp a { port s = connect tcp(127.0.0.1:81) as p }\n"),
    code("E0627", "a function name that C does not accept",
        "A function of an `extern` file has the same name in C. Keywords and macros of C cannot \
         be names of functions.",
        "extern fn int(x: u32) -> u32 from \"x.c\"\n"),
    code("E0628", "a side effect in a message that is being built",
        "The program evaluates a list of a message twice: once to count it, once to write it. So \
         its expressions may not change a table, call a backend or answer. Do this before the \
         message, and keep the result in a `let`.",
        "unit Row { n: u8  list: list<Item, 9> [n] }\nunit Item { x: u8 }\nprotocol rows { stateless  request Row  response Row }\napp a {\n    port c = listen tcp(81) as rows\n    table t: u8 -> u8 { capacity 10 }\n    fn f(k: u8) -> u8 {\n        t[k] += 1\n        k\n    }\n    on c(req) { reply Row { list: [Item { x: f(i.x) } for i in req.list] } }\n}\n"),
    code("E0629", "an input or output that is not named",
        "The inputs and outputs of an element are wired by name if it has several: `e.y -> …`. \
         An array is wired by index: `a -> e.x[0]`, `e.y[0] -> …`. An element without outputs \
         ends a wiring.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\nelement Fork {\n    in  x: packet\n    out y: packet\n    out z: packet\n    on x(p) { if p.len > 9 { p -> y } else { p -> z } }\n}\napp a {\n    port i = memory(\"i\") as P, o = memory(\"o\") as P\n    fork = Fork()\n    i -> fork -> o\n}\n"),
    code("E0630", "an output that is not wired",
        "Every output of an element leads to a port, to another element, or to `drop`.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\nelement Round {\n    in  x: packet\n    out y: packet\n    on x(p) { p -> y }\n}\napp a {\n    port i = memory(\"i\") as P, o = memory(\"o\") as P\n    quiet = Round()\n    i -> quiet\n}\n"),
    code("E0631", "a node behind the end of a wiring",
        "No node may follow these:\n\n\
         - a port\n\
         - an output of the element\n\
         - `broadcast`\n\
         - `steer`\n\
         - `else`",
        "unit H { order big  src: ip4 }\npacket P { h: H }\napp a {\n    port i = memory(\"i\") as P, o = memory(\"o\") as P\n    i -> broadcast [o] -> o\n}\n"),
    code("E0632", "a name for something that is no element",
        "In an app, `name = …` names only elements: `name = Element(…)`.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\napp a {\n    port i = memory(\"i\") as P, o = memory(\"o\") as P\n    e = P()\n    i -> e -> o\n}\n"),
    code("E0633", "a wiring that begins at neither port nor output",
        "A wiring begins at a port, by its name, or at an output of an element. If several ports \
         lead to one node, each port has a wiring of its own. A wiring in an element begins at an \
         input of the element, at an instance in it, or at a queue.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\nelement Round {\n    in  x: packet\n    out y: packet\n    on x(p) { p -> y }\n}\napp a {\n    port i = memory(\"i\") as P, o = memory(\"o\") as P\n    e = Round()\n    [i, o] -> e -> o\n}\n"),
    code("E0634", "a node of another form",
        "These nodes have fixed forms:\n\n\
         - `broadcast [a, b]`\n\
         - `steer [a, b] by .pair`\n\
         - `tee(a) -> b`\n\
         - `any(.udp, .tcp) -> a`\n\
         - `not(.udp) -> a`",
        "unit H { order big  src: ip4 }\npacket P { h: H }\napp a {\n    port i = memory(\"i\") as P, o = memory(\"o\") as P\n    i -> steer [o]\n}\n"),
    code("E0635", "a cyclic wiring",
        "Messages would circulate for ever. A packet may come back to an element through another \
         `in`. Send packets back to the same `in` through a `queue` and a timer. The handler of a \
         queue does not pop a queue that it sends to, also not by the handlers of other queues.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\nelement Round {\n    in  x: packet\n    out y: packet\n    on x(p) { p -> y }\n}\napp a {\n    port i = memory(\"i\") as P, o = memory(\"o\") as P\n    once = Round()\n    again = Round()\n    i -> once\n    once -> again\n    again -> once\n}\n"),
    code("E0636", "an element without a name",
        "An element has state, so each instance has a name. Add the line `count = Count()` to \
         the app. Then use `count` in wirings.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\nelement Round {\n    in  x: packet\n    out y: packet\n    on x(p) { p -> y }\n}\napp a {\n    port i = memory(\"i\") as P, o = memory(\"o\") as P\n    i -> Round() -> o\n}\n"),
    code("E0637", "an element of several wirings that sends from a timer or at start",
        "Messages that an element sends from a timer or at the start belong to no single wiring. \
         Wire the next node separately: `a -> e`, `b -> e`, `e -> …`.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\nelement Tick {\n    in  x: packet\n    out y: packet\n    on x(p) { p -> y }\n    every 1s { [H { src: 1.1.1.1 }] -> y }\n}\napp a {\n    port i = memory(\"i\") as P, j = memory(\"j\") as P, o = memory(\"o\") as P, q = memory(\"q\") as P\n    tick = Tick()\n    i -> tick -> o\n    j -> tick -> q\n}\n"),
    code("E0638", "a state that is not reset",
        "`signal reset` without a body empties what an element holds. Sketches (`bloom`, \
         `count_min`, `hyper_log_log`) and states of some types are not emptied while they are \
         used. Write the signal out for such an element.",
        "element Seen {\n    in  x: packet\n    out y: packet\n    table seen: bloom u32 { capacity 1K }\n    signal reset\n    on x(p) { if not seen[p.len] { seen[p.len] = true  p -> y } }\n}\n"),
    code("E0639", "a second handler",
        "A port, a queue or an event has one handler or wiring. Join them: `match { … }` in a wiring, \
         `if` in a handler.",
        "unit M { n: u8  m: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    on c(r) { reply r }\n    on c(r) { reply r }\n}\n"),
    code("E0640", "a handler for no protocol of its port",
        "A handler of a port with several protocols names one of them: `on port(req: PROTOCOL)`.",
        "unit M { n: u8  m: u8 }\nprotocol p { stateless  request M  response M }\nprotocol q { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    on c(r: q) { reply r }\n}\n"),
    code("E0641", "an option without effect",
        "The option belongs to another kind of table, port or limiter. It would have no effect here.",
        "table t: lpm ip4 -> u8 { capacity 5, idle 5s }\n"),
    code("E0642", "a wrong value of an option",
        "Some options have a number, a time or a field behind them, others have nothing. `hold_body N` \
         is followed by `else pass`.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\napp a {\n    port wire = memory(\"w\") as P\n    queue q { depth }\n    on wire(p) { p -> q }\n    on q(p) { drop p }\n}\n"),
    code("E0643", "a missing option",
        "A limiter and a meter have rates. A cache says what it keeps: `allocate_on_read`, and \
         `write_through` or `write_back`.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\napp a {\n    port wire = memory(\"w\") as P\n    limiter k { burst 1 }\n    on wire(p) { if k.take(1) { drop p } }\n}\n"),
    code("E0645", "a node of a merge that reaches another port",
        "The nodes before and behind `merge` run in the tasks of the merge. They drop, change, \
         count and log messages. They call no server, and send to no port but the merge's output.",
        "unit M { k: u8  n: u8 }\nprotocol p { stateless  request M }\napp a {\n    port i = listen tcp(80) as p [2]\n    port o = connect tcp(127.0.0.1:81) as p\n    port q = connect tcp(127.0.0.1:82) as p\n    i -> merge by .k with |a, b| M { k: a.k, n: a.n } -> tee(q) -> o\n}\n"),
    code("E0646", "a node of a merge that keeps state",
        "Several cores handle the inputs of a merge. So nodes before it have no `state`, and read \
         no counter. They use tables that all cores share. Behind the merge, one task handles the \
         messages. It has its own state, which no handler, timer or signal elsewhere can use.",
        "unit M { k: u8  n: u8 }\nprotocol p { stateless  request M }\nelement Twice {\n    in  x: M\n    out y: M\n    state last: u8\n    on x(m) { if m.k != last { m -> y }  last = m.k }\n}\napp a {\n    port i = listen tcp(80) as p [2]\n    port o = connect tcp(127.0.0.1:81) as p\n    twice = Twice()\n    i -> twice -> merge by .k with |a, b| M { k: a.k, n: a.n } -> o\n}\n"),
    code("E0647", "a message for the output of a merge",
        "The output of a merge is one sorted stream. Only the merge and the nodes behind it send \
         there. Other messages need a port of their own.",
        "unit M { k: u8  n: u8 }\nprotocol p { stateless  request M }\napp a {\n    port i = listen tcp(80) as p [2]\n    port j = listen tcp(83) as p\n    port o = connect tcp(127.0.0.1:81) as p\n    i -> merge by .k with |a, b| M { k: a.k, n: a.n } -> o\n    j -> o\n}\n"),
    code("E0648", "a request that waits in a queue",
        "A queue keeps the bytes of a message, but not its client. A request that waits for its \
         answer would never get one. Queue a copy, as in `tee(q) -> backend`. Or answer the request \
         in a handler, and queue it there.",
        "unit M { k: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port i = listen tcp(80) as p\n    port o = connect tcp(127.0.0.1:81) as p\n    queue q as M { depth 8 }\n    i -> q\n    q -> o\n    every 1s { q.pop() }\n}\n"),
    code("E0649", "a peak rate below the committed rate",
        "A meter marks what is above `cir` yellow, and what is above `pir` red (RFC 2698). With a \
         lower `pir` it would mark packets red within their committed rate. The start compares \
         rates that are parameters.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\napp a {\n    port wire = memory(\"w\") as P\n    meter m { cir 20, cbs 4, pir 10, pbs 4 }\n    on wire(p) { if m.mark(1) == red { drop p } }\n}\n"),
    code("E0650", "a segment in an element",
        "A segment is a part of an app with a core of its own. An element does not name cores. Its \
         instance belongs to the segment that sends packets to it.",
        "unit H { order big  kind: u8 }\npacket P { h: H }\nelement E {\n    in  x: packet\n    out y: packet\n    segment s on cpu(0) { on x(p) { p -> y } }\n}\napp a {\n    port w = memory(\"w\") as P, o = memory(\"o\") as P\n    e = E()\n    w -> e -> o\n}\n"),
    code("E0651", "a declaration in a segment",
        "A segment holds handlers, timers and wirings. All names belong to the app, and stand outside \
         of its segments.",
        "unit H { order big  kind: u8 }\npacket P { h: H }\napp a {\n    port w = memory(\"w\") as P, o = memory(\"o\") as P\n    segment s on cpu(0) {\n        state last: u32\n        on w(p) { last = p.len  if last > 5 { p -> o } }\n    }\n}\n"),
    code("E0652", "segments in an app with connections",
        "Segments divide the packets of an app between cores. Connections have cores of their own.",
        "unit M { n: u8  m: u8 }\nprotocol p { request M  response M }\napp a {\n    port w = memory(\"w\")\n    port c = listen tcp(80) as p\n    segment s on cpu(0) { on w(x) { } }\n    on c(r) { reply nothing }\n}\n"),
    code("E0653", "packets of no segment",
        "In an app with segments each port and queue is handled in a segment. So the core of every \
         packet is known.",
        "unit H { order big  kind: u8 }\npacket P { h: H }\napp a {\n    port w = memory(\"w\") as P, o = memory(\"o\") as P\n    segment s on cpu(0) { w -> o }\n    o -> w\n}\n"),
    code("E0654", "used by two segments",
        "Each segment has a core of its own. A state, a ring, a queue without a segment of its own, or \
         a table that packets change belongs to one segment. A segment reads only counters that no \
         other one counts. Signals and handlers of faults run in every segment.",
        "unit H { order big  kind: u8 }\npacket P { h: H }\napp a {\n    port w = memory(\"w\") as P, o = memory(\"o\") as P\n    queue q { depth 8 }\n    state last: u32\n    segment s on cpu(0) { on w(p) { last = p.len  p -> q } }\n    segment t on cpu(1) { on q(p) { if last > 5 { p -> o } } }\n}\n"),
    code("E0655", "a queue between segments that is asked",
        "A queue between segments gives its packets to its handler by itself. Its length and its \
         first packet are known to no core. So it has no `pop`, `discard` and `first`, and no `len`.",
        "unit H { order big  kind: u8 }\npacket P { h: H }\napp a {\n    port w = memory(\"w\") as P, o = memory(\"o\") as P\n    queue q { depth 8 }\n    segment s on cpu(0) { on w(p) { if len(q) < 4 { p -> q } } }\n    segment t on cpu(1) { q -> o }\n}\n"),
    code("E0656", "segments in a circle",
        "Queues between segments form no circle. Each segment of a circle would wait for the other \
         when the queues are full, and at the end of the run.",
        "unit H { order big  kind: u8 }\npacket P { h: H }\napp a {\n    port w = memory(\"w\") as P, o = memory(\"o\") as P\n    queue q { depth 8 }\n    queue r { depth 8 }\n    segment s on cpu(0) {\n        w -> q\n        r -> o\n    }\n    segment t on cpu(1) { q -> r }\n}\n"),
    code("E0657", "`lossless` or `lossy` for a queue inside of a segment",
        "These words say what a sender in another segment does when the queue is full. A queue whose \
         senders are in the segment of its handler discards the packet.",
        "unit H { order big  kind: u8 }\npacket P { h: H }\napp a {\n    port w = memory(\"w\") as P, o = memory(\"o\") as P\n    queue q { depth 8, lossless }\n    segment s on cpu(0) {\n        w -> q\n        q -> o\n    }\n}\n"),
    code("E0658", "packets of a segment of several cores",
        "A segment of several cores gets its packets from queues. Instance i of a queue goes to its core \
         i modulo the number of cores, so a queue has at least as many instances. A port is read by one \
         core. Packets do not change wildcard and LPM tables there, since each core has a copy.",
        "unit H { order big  kind: u8 }\npacket P { h: H }\napp a {\n    port w = memory(\"w\") as P, o = memory(\"o\") as P\n    segment s on cpu(0..2) { w -> o }\n}\n"),
    code("E0659", "a thing that the NIC cannot share",
        "Segments `on nic` run in a process of their own, which stands for the card. A port belongs to \
         one of the two processes. So does a table. The XDP hook belongs to the process of the CPU.",
        "unit H { order big  kind: u8 }\npacket P { h: H }\napp a {\n    port w = memory(\"w\") as P, o = memory(\"o\") as P\n    queue q { depth 8 }\n    segment s on nic { on w(p) { if p.len > 9 { p -> o } else { p -> q } } }\n    segment t on cpu(0) { q -> o }\n}\n"),
    code("E0660", "a channel of a queue",
        "`channels [get, set]` gives a queue of packets several channels. `p -> q.get` sends to one, \
         `on q.get(p)` and the wiring `q.get -> …` receive. All channels of a queue lead to one \
         segment, and each of them has a handler.",
        "unit H { order big  kind: u8 }\npacket P { h: H }\napp a {\n    port w = memory(\"w\") as P, o = memory(\"o\") as P\n    queue q { depth 8, channels [get, set] }\n    segment s on cpu(0) { w -> q }\n    segment t on cpu(1) {\n        q.get -> o\n        q.set -> o\n    }\n}\n"),
    code("E0661", "an entry that is no sum",
        "Of a table with `per_core`, each core may have entries of its own. Timers, signals and \
         commands see their sums. So values are unsigned numbers, or records of them, and traffic \
         only adds to them: `t[k] += n`, or `update` with `+=`.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\napp a {\n    port w = memory(\"w\") as P\n    table seen: ip4 -> u64 { capacity 100, per_core }\n    on w(p) where p.h { seen[p.h.src] = 1 }\n}\n"),
    code("E0662", "an answer that nobody waits for",
        "`m -> port` sends without waiting. A server answers this request, and its answer would be \
         taken for that of another one. `call` waits for it. Requests without an answer are those \
         of one-way protocols, and those for which `no_reply` holds.",
        "unit M { n: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    on c(r) {\n        r -> s\n        reply r\n    }\n}\n"),
    code("E0663", "a packet that is sent and was dropped",
        "`drop p` says that the packet goes nowhere. It does not end the handler. On a way behind it \
         the same packet is sent. End that way with `return`. `p -> out  drop p` is no error: a copy \
         has been sent by then.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\napp a {\n    port w = memory(\"w\") as P\n    on w(p) {\n        if p.h.src == 10.0.0.1 { drop p }\n        p -> w\n    }\n}\n"),
    code("E0664", "a request that is passed on after a wait",
        "`req.wait()` reads the rest of a request. Its pieces go to their handler and nowhere else. So \
         the request cannot go to a server any more. Answer it by what its pieces were.",
        "use std.http\napp a {\n    param servers: list<endpoint, 4>\n    port c = listen tcp(80) as http\n    port s = connect tcp(servers) as http\n    request seen: u64\n    on c.body(req, piece) { seen += len(piece) }\n    on c(req) {\n        req.wait()\n        reply call s[0](req)\n    }\n}\n"),
    code("E0665", "a fault that no program raises",
        "`shutdown` and `ended` say why a connection has ended. Handlers compare the kinds that they \
         are told with them. No program raises them. Raise a kind of your own, or one that \
         `docs/language.md` lists under faults.",
        "unit M { n: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    on c(r) {\n        if r.n == 0 { fault shutdown }\n        reply r\n    }\n}\n"),
    code("E0666", "a change behind an inserted header",
        "`insert` sets the lengths and checksums of the headers that it puts in. Later changes of what \
         is behind them would make these wrong, so they stand before the `insert`. In an element \
         behind, the inserted headers are found as any others, and follow all changes.",
        "app a {\n    port wire = nic(\"eth0\")\n    on wire(p) where p.ip4 {\n        insert Ipv6 { next: 17 } before p.ip4\n        remove p.ip4\n        p -> wire\n    }\n}\n"),
    code("E0670", "an operation that XDP does not have",
        "A handler `on xdp` is a program in the kernel, which allows less than the CPU. \
         `docs/placement.md` has the table of what runs there. Leave `on xdp` out, and the CPU runs \
         the handler.",
        "app a {\n    port wire = nic(\"eth0\")\n    on wire(p) on xdp { log p.payload  p -> kernel }\n}\n"),
    code("E0671", "a value that XDP cannot keep",
        "In XDP values are numbers, bools, addresses, endpoints, bytes, and options, records and \
         tuples of these. Keys and values of tables have no options, and at most 64 bytes each. \
         Those of exact tables may have `bytes<N>`: then a key has at most 512 bytes, a value 2048. \
         A `state` has no bytes.",
        "app a {\n    port wire = nic(\"eth0\")\n    table t: u8 -> bytes<4>? { capacity 9 }\n    on wire(p) on xdp { t[1] = none  p -> kernel }\n}\n"),
    code("E0672", "a thing that XDP cannot share with the CPU",
        "A handler `on xdp` and one on the CPU run at the same time on different processors. They \
         cannot share a `state`, a counter that is read, or a table that the CPU changes by \
         `update`.",
        "app a {\n    port wire = nic(\"eth0\")\n    state n: u64\n    on wire(p) on xdp { n += 1  p -> kernel }\n    every 1s { n = 0 }\n}\n"),
    code("E0673", "a way that a packet cannot go from XDP",
        "In XDP a packet has one fate. It goes to the host (`kernel`), back to its port, to another \
         port, to all interfaces of a port, or into a queue. Else it is dropped. It is sent once, as \
         it then is. XDP cannot wait, so the queue is not `lossless`.",
        "app a {\n    port wire = nic(\"eth0\")\n    on wire(p) on xdp { p -> kernel  p -> wire }\n}\n"),
    code("E0674", "a handler that XDP cannot run",
        "`on xdp` stands behind a handler of the packets of a network interface, `nic(…)`. It may \
         stand behind a segment of such handlers, or behind an element's instance to which such \
         packets come. The app has no ports of connections. If two headers of the packets' type may \
         follow one header, their conditions exclude each other. The headers have at most 16,383 \
         bytes together.",
        "app a {\n    port wire = pcap(\"in.pcap\")\n    on wire(p) on xdp { p -> kernel }\n}\n"),
    code("E0675", "an unknown device",
        "The device of a handler, a segment or an element's instance is `xdp`, `cpu(n)` or `nic`. \
         Without a word the CPU runs it.",
        "app a {\n    port wire = nic(\"eth0\")\n    on wire(p) on xpd { p -> kernel }\n}\n"),
    code("E0680", "a protocol that needs a connection",
        "Over UDP each datagram is one message. A tunnel, a merge, and connections that belong to \
         one client need TCP.",
        "unit M { n: u8 }\nprotocol p { request M  response M  tunnel when response.n == 1 }\napp a {\n    port c = listen udp(53) as p\n    on c(r) { reply nothing }\n}\n"),
    code("E0681", "answers that cannot be matched",
        "Datagrams are lost and overtake each other. So each answer carries a number of its \
         request: `order by` names the field, and `sharing pipelined` lets requests share a socket.",
        "unit M { n: u16 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen udp(53) as p\n    port s = connect udp(127.0.0.1:54) as p\n    on c(r) { reply call s(r) }\n}\n"),
    code("E0682", "no connection to a client",
        "A port over UDP has no connections. Nothing lives from one datagram to the next: no \
         `session`, and no `opened`, `closed` or `greeting` handler. An answer is one message.",
        "unit M { n: u8 }\nprotocol p { request M  response M }\napp a {\n    port c = listen udp(53) as p\n    session seen: u32\n    on c(r) {\n        seen += 1\n        reply r\n    }\n}\n"),
    code("E0683", "a cache that could keep old values",
        "A cache without `max_age` keeps a value until a write changes it. So it must see each write \
         to the servers: this program alone writes, and says so by `write_through`. Each call to \
         these servers stands in a block of the cache: `cached c[k] { … }`, `write c[k] { … }`, or \
         `uncached c { … }` for calls that only read.",
        "unit M { n: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    cache t: u8 -> u8 { capacity 100, allocate_on_read }\n    on c(r) { reply M { n: cached t[r.n] { (call s(r)).n } } }\n}\n"),
    code("E0684", "a cache out of place",
        "A cache of an app is used by `cached c[k] { … }`, `write c[k] { … }` and `uncached c { … }`. \
         These blocks do not stand in one another. `write` needs a cache with `write_through` or \
         `write_back`. With `write_back` its block gives the value, without calls and answers. \
         Where requests and answers are packets, the cache and its blocks name the exchange by \
         `by`, and `answered c[k] by x { … }` takes the answer.",
        "unit M { n: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    table t: u8 -> u8 { capacity 100 }\n    on c(r) { reply M { n: cached t[r.n] { 5 } } }\n}\n"),
    code("E0685", "an exported segment out of place",
        "An app exports segments, which other programs call. Elements have signals.",
        "element E {\n    in x: packet\n    on x(p) { }\n    export segment f() -> u8 { 1 }\n}\napp a {\n    port w = nic(\"w\")\n    e = E()\n    w -> e\n}\n"),
    code("E0686", "a C file that cannot be read",
        "The C file of an `extern fn` or `extern element` lies beside the program's file. It is missing, or a folder, or \
         this user may not read it, or it is larger than 16 MiB.",
        "extern fn add_seven(x: u32) -> u32 from \"add.c\"\n"),
    code("E0687", "a C file that the C compiler refuses",
        "The C file of an `extern fn` has an error, or includes a header that is missing. The C \
         compiler's messages name the line.",
        ""),
    code("E0688", "a function that its C file does not have",
        "The C file of an `extern fn` defines a function of the same name, which is not `static`. A \
         declaration alone, or a `static` function, cannot be called.",
        ""),
    code("E0689", "a name that two C files define",
        "The C files of a program are linked together. So two of them cannot define the same \
         function or variable, unless it is `static`.",
        ""),
    code("E0690", "a function in C with other types",
        "The types in the C file are those of the program. They are `uint32_t` for `u32`, `bool` for `bool`, \
         `wl_bytes` of `wireloom.h` for bytes, `void` for no result. With others, the function \
         would read its arguments wrongly. Records, tuples, lists and optional values are not \
         compared.",
        ""),
    code("E0691", "a name that no C file defines",
        "A C file of the program uses a function or variable that neither the C files nor the C \
         library have.",
        ""),
    code("E0693", "a value that a packet does not carry",
        "A field of a packet's state is a number of at most 64 bits, a bool, an enum or an address. All \
         fields of a program have at most 64 bytes together.",
        "app a {\n    port w = nic(\"w\")\n    state of packet { name: bytes<20> }\n    on w(p) { p.name = \"x\"  p -> kernel }\n}\n"),
    code("E0694", "a field of a packet's state that is read before it is written",
        "A packet comes in without state. A field has a value once an element on the packet's way has \
         written it. It is read only where each way has done so, or it has a value to begin with: \
         `user: u32 = 0`.",
        "app a {\n    port w = nic(\"w\")\n    state of packet { user: u32 }\n    counter known\n    on w(p) {\n        if p.udp { p.user = 1 }\n        if p.user == 1 { known += 1 }\n        p -> kernel\n    }\n}\n"),
    code("E0695", "a field of a packet's state that is none",
        "`state of packet` declares fields with a type, which belong to the element or app around it. Or it \
         names fields of other elements: `Top.user`. A field does not have the name of a part of the \
         packet.",
        "app a {\n    port w = nic(\"w\")\n    state of packet { len: u32 = 0 }\n    on w(p) { p.len = 5  p -> kernel }\n}\n"),
    code("E0696", "a clause that does not fit a conversation",
        "A protocol of conversations names the messages of each direction, `up` and `down`, and says \
         `sharing session`. Its messages are not tied to each other. So clauses about requests and \
         their answers do not apply.",
        "unit M { n: u8 }\nprotocol p {\n    up M\n    down M\n    sharing session\n    no_reply when request.n == 1\n}\n"),
    code("E0697", "a conversation's connection that is used as another one",
        "Each client of a conversation has backend connections of its own. The app keeps one in a \
         session, `session up: connection of db`, and sends on it: `m -> up`. Messages to the client \
         go to the listening port: `m -> client`. There are no requests, so no `reply`. `call up(m)` \
         asks on a connection of a session, in handlers that have a client. An app has one listening port with a conversation, and it speaks nothing else.",
        "unit M { n: u8 }\nprotocol p { up M  down M  sharing session }\napp a {\n    port c = listen tcp(80) as p\n    on c(m) { reply m }\n}\n"),
    code("E0698", "a handle that names no client, or a message that none can have",
        "`connection of client` is the type of handles. A handle names a client of the app's \
         conversations, and the app can send it messages: `m -> h`. The port listens, and its protocol \
         has `up`, `down` and `sharing session`. Such a message is whole when it is sent. So its unit \
         has no `stream`, and it does not depend on what the other conversation remembers.",
        "unit M { n: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    table known: u8 -> connection of c { capacity 9 }\n    on c(m) { reply m }\n}\n"),
    code("E0699", "a change of protocol that a connection cannot make",
        "A conversation's connection begins with the protocol of its port, `as lines`, and may become \
         those behind `then`. `become tunnel` is for the connection of the message at hand, `become \
         tunnel for client, up` for these. A connection whose message is not at hand must be on hold, \
         so that none of its messages is read in the old protocol. `hold client` stands in the handler \
         of the message that asks for the change. Protocols of requests and answers do not change.",
        "unit M { n: u8 }\nprotocol p { up M  down M  sharing session }\nprotocol q { up M  down M  sharing session }\napp a {\n    port c = listen tcp(80) as p\n    on c(m) { become q }\n}\n"),
    code("E0700", "a session that cannot go to a pool",
        "A pool keeps sessions with servers for clients of the same key. A session goes back to it \
         behind a message of its server, so `pool` stands in the handler of these messages. The \
         protocol says how a session is reset. It has `on reset { reply … }`, `reset when …` for the \
         message that confirms it, and `idle when …` for the messages behind which a session can \
         go to another client. It also says which messages of a client owe such an answer: `owes \
         when …`. So a session stays with its client until its answers have come.",
        "unit M { n: u8 }\nprotocol p { up M  down M  sharing session }\napp a {\n    port c = listen tcp(80) as p\n    port db = connect tcp(127.0.0.1:81) as p\n    session up: connection of db\n    on c(m) { m -> up }\n    on up(m) { m -> c\n pool up for \"k\" }\n}\n"),
    code("E0701", "not an entry of a table",
        "`remove` and `update` take an entry of a table: `remove table[key]`, `update table[key] \
         { … }`.",
        "fn f(x: u32) { remove x }\n"),
    code("E0702", "no client connection",
        "A `session` belongs to a client connection. It exists only in the handlers of this \
         connection's messages. Nodes of a `merge` see messages only.",
        "unit M { n: u8  m: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    session x: u32\n    every 1s { x = 1 }\n    on c(r) { reply nothing }\n}\n"),
    code("E0703", "a key that is too long",
        "A key has at most 64 KiB.",
        "table t: bytes<1MiB> -> u8 { capacity 5 }\n"),
    code("E0704", "a table without capacity",
        "The memory of a table is reserved at start. So every table has a capacity.",
        "table t: u8 -> u8 { idle 5s }\n"),
    code("E0705", "a key or value that does not fit its kind of table",
        "Each kind of table has its own keys and values:\n\n\
         - The key of a wildcard table consists of unsigned integers and addresses.\n\
         - The key of an lpm table is an address.\n\
         - The key of an array is an unsigned integer.\n\
         - A Bloom filter has no value.\n\
         - A count-min sketch counts in u64.",
        "table t: lpm u32 -> u8 { capacity 5 }\n"),
    code("E0706", "a table larger than any memory",
        "The memory of a table is reserved at start: its capacity times the longest key and \
         value. A table has at most 1 TiB.",
        "table t: u32 -> bytes<1MiB> { capacity 4G }\n"),
    code("E0707", "no table",
        "`remove` and `update` take an entry of a table.",
        "fn f(x: u32) { remove x[1] }\n"),
    code("E0708", "an assignment to a counter",
        "A counter only grows, by `name += n`. So the counts of all cores can be added. Use a \
         `state` for a value that can be set.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\napp a {\n    port wire = memory(\"w\") as P\n    counter n\n    on wire(_p) { n = 1 }\n}\n"),
    code("E0709", "an operation that this kind of table does not have",
        "Each kind of table has its own operations:\n\n\
         - `insert` and `delete` change entries with masks and prefixes.\n\
         - `push` and `pop` change rings.\n\
         - A sketch changes only by counting.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\napp a {\n    port wire = memory(\"w\") as P\n    table ring: ring u32 { capacity 4 }\n    on wire(_p) { remove ring[0] }\n}\n"),
    code("E0710", "a statement that an `update` does not allow",
        "The body of `update` may run under the entry's lock. So the body has none of these:\n\n\
         - a use of a table\n\
         - a call\n\
         - an answer\n\
         - a `return`\n\
         - an exit from a loop\n\n\
         Do this before the `update` or behind it.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\napp a {\n    port wire = memory(\"w\") as P\n    table t: ip4 -> u64 { capacity 4 }\n    on wire(p) where p.h { update t[p.h.src] { t[1.1.1.1] = 2 } }\n}\n"),
    code("E0711", "a missing key",
        "A limiter or meter with a key is used by `name[key].take(…)`.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\napp a {\n    port wire = memory(\"w\") as P\n    limiter k: ip4 { rate 1, burst 1, capacity 4 }\n    on wire(p) { if k.take(1) { drop p } }\n}\n"),
    code("E0712", "state larger than any memory",
        "The memory of `state` and `session` is for the largest values. All `state` has at most \
         1 TiB together. All `session` has at most 1 GiB for each connection.",
        "unit M { n: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    state s: list<list<u64, 1000000>, 1000000>\n    on c(r) { reply r }\n}\n"),
    code("E0713", "a field of an entry changed outside of `update`",
        "An assignment replaces an entry as a whole. Only `update` changes a field of it.",
        "record R { n: u8 }\nunit H { order big  src: ip4 }\npacket P { h: H }\napp a {\n    port wire = memory(\"w\") as P\n    table t: u8 -> R { capacity 4 }\n    on wire(_p) { t[1].n = 2 }\n}\n"),
    code("E0714", "a capacity out of range",
        "Tables, queues and caches have limits of their own, which the message names.",
        "table t: u8 -> u8 { capacity 0 }\n"),
    code("E0715", "a key of a limiter or meter without one",
        "A limiter or meter without a key is used by `name.take(…)`.",
        "unit H { order big  src: ip4 }\npacket P { h: H }\napp a {\n    port wire = memory(\"w\") as P\n    limiter k { rate 1, burst 1 }\n    on wire(p) { if k[p.h.src].take(1) { drop p } }\n}\n"),
    code("E0716", "an element in C out of place",
        "`extern element Name from \"file.c\" { … }` has parameters, `in`s, `out`s and one memory, \
         `state 4KiB`. Its C file has a function for each `in`, which gets these and chooses an `out`. \
         Parameters and values are numbers, bool, bytes, endpoints or addresses. Such an element \
         handles packets. A service calls a function in C by `extern fn`.",
        "element E {\n    in x: packet\n    out y: packet\n    state 64\n    on x(p) { p -> y }\n}\napp a {\n    port w = nic(\"w\")\n    e = E()\n    w -> e -> w\n}\n"),
    code("E0717", "a function in C where no compiled code runs",
        "Only compiled code calls functions in C, those of `extern fn` and of elements in C. The \
         interpreter does not have them, so `--interpret` and `fuzz` refuse such a program. So does a \
         machine without a C compiler. Units in a file of their own can be fuzzed.",
        ""),
    code("E0718", "a call whose answer nothing tells",
        "`call up(m)` waits for one message of the server: the answer to `m`. The protocol tells which \
         one that is. `matches(id = up.id) when down.id == id` compares fields. `owes when` and \
         `settles when` (or `idle when`) count answers in their order.",
        "unit M { n: u8 }\nprotocol p { up M  down M  sharing session }\napp a {\n    port c = listen tcp(80) as p\n    port db = connect tcp(127.0.0.1:81) as p\n    session up: connection of db\n    on c(m) { let r = call up(m)\n r -> c }\n    on up(m) { m -> c }\n}\n"),
    code("E0719", "a call in a conversation that would never be answered",
        "While a handler waits for an answer, the next message of its own connection waits for the \
         handler. So a handler of `up`'s messages cannot wait for an answer on `up`, nor on a \
         connection whose handlers wait for `up`. At the end of a client its connections to servers \
         are closed, so no answer comes there.",
        "unit M { n: u8 }\nprotocol p { up M  down M  sharing session  matches(n = up.n) when down.n == n }\napp a {\n    port c = listen tcp(80) as p\n    port db = connect tcp(127.0.0.1:81) as p\n    session up: connection of db\n    on c(m) { m -> up }\n    on up(m) { let r = call up(m)\n r -> c }\n}\n"),
    code("E0720", "a function that places no points of a ring",
        "`consistent(port, key, place)` takes the name of a function from `bytes<512>` or longer to \
         `u32`. It hashes keys, and the names of the ring's points when a list of servers is new. It \
         sees its argument and parameters of the app, and nothing else. A port has one such ring.",
        "use std.http\napp a {\n    param servers: list<endpoint, 4>\n    port c = listen tcp(80) as http\n    port s = connect tcp(servers) as http\n    fn place(name: bytes<64>) -> u32 = md5(name)\n    on c(req) { reply call s[consistent(s, \"k\", place)](req) }\n}\n"),
];
