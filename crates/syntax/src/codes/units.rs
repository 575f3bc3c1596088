//! The codes of units and grammar: E04xx.
//!
//! The grammar analysis of crate `ir` reports E0401 to E0416, and E0418.

use super::{code, Code};

pub static CODES: &[Code] = &[
    code("E0401", "a list's end that looks like an item",
        "An item may begin with the bytes that end the list. A parser cannot tell them apart.",
        "unit I { b: bytes<4> until \",\" }\nunit U { items: list<I, 4> until \"x\" }\n"),
    code("E0402", "a case that is never taken",
        "The cases before this one accept every value of it.",
        "unit U { s: switch { else => nothing  \"a\" => nothing } }\n"),
    code("E0403", "an item that may be empty",
        "An empty item would repeat for ever. Every repeated item has at least one byte.",
        "charset x = \"x\"\nunit I { b: bytes<4> of x }\nunit U { items: list<I, 4> to end }\n"),
    code("E0404", "no largest size",
        "Every field has a maximum, so that memory is bounded.",
        "unit U { items: list<u8, 4GiB> to end }\n"),
    code("E0405", "a head that is too long",
        "The head of a message ends at its first stream field or first large field. A head has \
         at most 1 MiB.",
        "unit I { b: bytes<4KiB> until \"\\n\" }\nunit M { items: list<I, 1000> until \"\\n\"  data: stream bytes until close }\nprotocol p { request M }\n"),
    code("E0406", "a unit that contains itself",
        "Units nest to a fixed depth. In source text this error is E0501.",
        ""),
    code("E0407", "a field that is not held",
        "A `stream` field and the fields behind it are not held. A program cannot read them.",
        "unit M { n: u8  data: stream bytes [n]  m: u8 }\nprotocol p { request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    on c(r) { log r.m\n reply r }\n}\n"),
    code("E0408", "too many parameters of a unit",
        "The parameters of a unit have at most 64 bits together. In source text this error is \
         E0424.",
        ""),
    code("E0409", "`order by` a field that cannot carry any id",
        "`order by` pairs requests and answers by a field. The field has 1 to 8 bytes, as many \
         in both messages, and a fixed offset in each.\n\n\
         On the way to a server a request gets an id of the runtime, and its answer gets the \
         client's. So if a port connects with the protocol, the field has no set (`in`) and no \
         computed value. Nothing else in either unit depends on it: no case, length, `let`, \
         `require` or argument. Nor does a clause that the server follows. Over TCP, ids are \
         never 0, except in messages without an answer. So a set of all numbers but 0, and \
         `require id != 0`, are allowed if the protocol has no `no_reply`.",
        "unit M { a: bytes<9> until \" \"  id: u32 }\nprotocol p { request M  response M  order by id }\napp x { port c = listen tcp(80) as p\n    on c(r) { reply nothing } }\n"),
    code("E0410", "protocols that begin with the same byte",
        "On a port of several protocols, the first byte of a connection selects the protocol.",
        "unit M { n: u8  m: u8 }\nprotocol p { request M  response M }\nprotocol q { request M  response M }\napp a {\n    port c = listen tcp(80) as p or q\n    on c(r: p) { reply nothing }\n    on c(r: q) { reply nothing }\n}\n"),
    code("E0411", "bytes that leave nothing for the next field",
        "One of these holds:\n\n\
         - A run of bytes in a set takes every byte of the set. The next field needs a byte of \
         this set.\n\
         - A field reads to the end. The next field gets no bytes.\n\
         - A message on a connection ends in a run, a number without a delimiter or a flag. Its \
         reader looks at the next message to find the end.",
        "charset d = '0'..='9'\nunit U { n: token<9> of d  \"0\" }\n"),
    code("E0412", "a message that is too large to be held",
        "The program reads fields behind the head, so the whole message is held. A held message \
         has at most 16 MiB.",
        "unit M { n: u32  b: bytes<32MiB> [n] }\nprotocol p { request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    on c(r) { log len(r.b)\n reply r }\n}\n"),
    code("E0413", "an empty literal",
        "An empty literal would match anywhere. In source text this error is E0427.",
        ""),
    code("E0414", "bytes that are not held any more",
        "Behind the beginning of a `stream` field, parsed bytes are passed on whenever the \
         parser waits for more. Numbers, flags and each `let` of them are kept. Bytes can be \
         tested directly behind their field only, and up to 64 KiB.",
        "unit M { n: u8  data: stream bytes [n]  name: text<9> until \":\"  value: text<9> until \"\\n\"  require name != \"x\" }\nprotocol p { request M  response M }\n"),
    code("E0415", "a `let` with too many operators",
        "A `let` with bytes, or of a packet's header, is not stored. Every read computes it \
         again. Each `let` that it reads is computed again, too. Together they have at most 4096 \
         operators.",
        "unit U {\n    a: text<10> until \"\\n\"\n    n: u8\n    let b = if n > 1 { slice(a, 0, 4) } else { a }\n    let c = if n > 2 { slice(b, 0, 4) } else { b }\n    let d = if n > 3 { slice(c, 0, 4) } else { c }\n    let e = if n > 4 { slice(d, 0, 4) } else { d }\n    let f = if n > 5 { slice(e, 0, 4) } else { e }\n    let g = if n > 6 { slice(f, 0, 4) } else { f }\n    let h = if n > 7 { slice(g, 0, 4) } else { g }\n    let i = if n > 8 { slice(h, 0, 4) } else { h }\n    let j = if n > 9 { slice(i, 0, 4) } else { i }\n    let k = if n > 10 { slice(j, 0, 4) } else { j }\n    let l = if n > 11 { slice(k, 0, 4) } else { k }\n    let m = if n > 12 { slice(l, 0, 4) } else { l }\n}\n"),
    code("E0416", "a unit with too many fields",
        "A unit has at most 4096 fields. The fields of a nested unit count at each use. A list \
         counts once.",
        "unit A { p: u8  q: u8  r: u8  s: u8 }\nunit B { p: A  q: A  r: A  s: A }\nunit C { p: B  q: B  r: B  s: B }\nunit D { p: C  q: C  r: C  s: C }\nunit E { p: D  q: D  r: D  s: D }\nunit F { p: E  q: E  r: E  s: E }\n"),
    code("E0417", "`pass when` outside of a stream",
        "`pass when` selects the parts of a stream that are passed on. It has two places:\n\n\
         - behind the beginning of a `stream` field\n\
         - in the unit of a `stream` field\n\n\
         Fields before a stream are the message's head. `forward` edits the head.",
        "unit M { n: u8  pass when n > 1  data: stream bytes [n] }\nprotocol p { request M  response M }\n"),
    code("E0418", "a request that may begin with bytes that its protocol ignores",
        "`ignore` drops bytes in front of a request. A request that begins with them would be read \
         without them, and another message with it.",
        "unit Line { text: bytes<20> until \"\\n\" }\nprotocol p { request Line  response Line  stateless  ignore \"\\n\" max 4 }\n"),
    code("E0421", "a field without a wire format or an end",
        "Every field has a wire format and an end: a fixed width, `[length]`, `until` or `of \
         set`.",
        "unit U { a: bool }\n"),
    code("E0422", "bit fields that do not fill bytes",
        "A group of bit fields ends on a whole byte. It has at most 64 bits.",
        "unit U { a: u3  b: u8 }\n"),
    code("E0423", "a case out of place",
        "Cases by value belong to `switch e`. `else` is the last case.",
        "unit U { s: switch { else => nothing  \"a\" => nothing } }\n"),
    code("E0424", "a wrong parameter of a unit",
        "The parameters of a unit are integers, enums and bools. They have at most 64 bits \
         together. Only units take arguments. The same holds for the values that `matches` keeps \
         for an answer: with the parameters of its unit they have at most 62 bits.",
        "unit U(b: bytes<4>) { n: u8 }\n"),
    code("E0425", "a field that cannot be computed when a message is built",
        "A field `= …` is a sum of `len(field)` and constants. The fields are bytes, nested units and \
         switches of the same unit, and none of them streams. The builder can compute nothing else.",
        "unit U { a: u8 = len(b) * 2  b: bytes<9> [a] }\n"),
    code("E0427", "a part that nothing matches",
        "Nothing would match one of these:\n\n\
         - an empty set, range or literal\n\
         - a `require` that never holds\n\
         - a length above the most bytes or items of its field\n\
         - a `limit` below the least size of its unit",
        "unit U { a: u8 in 5..5 }\n"),
    code("E0428", "a missing field",
        "A message is built from its fields:\n\n\
         - One case of each switch is chosen.\n\
         - Fields that cannot be zero or empty are given.\n\
         - The field that holds a count is given where the items do not tell it.",
        "unit M { n: u8  m: u8 }\nunit N { s: switch { \"a\" => x: M, \"b\" => y: M } }\nprotocol p { stateless  request M  response N }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    on c(r) { reply N { } }\n}\n"),
    code("E0429", "a part that cannot be built or replaced",
        "Some parts of a message can only be passed on:\n\n\
         - streams of units\n\
         - aligned messages\n\
         - fields inside of groups of bits\n\
         - parts whose length stands before them, and is not known before they are written: trimmed \
         bytes, lists from comprehensions over messages\n\
         - numbers of varying size inside of such a part",
        "unit M { n: u4  k: u4  m: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    on c(r) { reply call s(r with { n: 1 }) }\n}\n"),
    code("E0430", "a statement in a unit or clause",
        "Units and clauses hold only expressions. Move statements into a function.",
        "table t: u8 -> u8 { capacity 8 }\nunit U { a: u8  require t[a] is some(_) }\n"),
    code("E0431", "an end that does not fit",
        "One of these holds:\n\n\
         - Another type than a unit or an enum of text has an end.\n\
         - A unit in a length reads its last field `to end`. The fields before have no known \
         length.",
        "unit I { text: bytes<4> until \",\"  rest: bytes<9> to end }\nunit U { n: u8  i: I [n] }\n"),
    code("E0432", "a built message cannot be read",
        "Lists and nested units of a message that is being built have no value yet.",
        "unit I { n: u8 }\nunit M { n: u8  items: list<I, 4> [n] }\nprotocol p { request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    on c(r) { let m = M { items: [I { n: 1 }] }\n log len(m.items)\n reply m }\n}\n"),
    code("E0433", "a value that is not valid in its field",
        "The receiver would refuse the message: the value is outside of the field's set, range or \
         sizes.",
        "unit M { n: u8 in {1, 2}  m: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    on c(r) { reply M { n: 7 } }\n}\n"),
    code("E0434", "a message that breaks a rule of its unit",
        "The receiver would refuse the message. One of these holds:\n\n\
         - A `require` of the message's unit fails.\n\
         - The fields belong to another case than the receiver would select.\n\n\
         The program built the message, or changed it by `with`, `append`, `remove` or \
         `forward`.",
        "unit Row { n: u8  m: u8  require n > m }\ntest \"rows\" { expect bytes_of(Row { n: 1, m: 2 }) == \"\" }\n"),
    code("E0435", "a switch without a case",
        "A message is one of the cases of a switch. Without a case, no message would fit the unit.",
        "unit U { n: u8  s: switch n { } }\n"),
    code("E0436", "a field that is not given",
        "A computed field has its value from other fields. Of a switch one case is given, by the \
         name of its field. Leave the other fields out.",
        "unit M { len: u8 = len(data)  data: bytes<9> [len] }\ntest \"t\" { expect bytes_of(M { len: 1, data: \"a\" }) == \"\" }\n"),
    code("E0437", "a list with a wrong number of items",
        "The receiver would refuse the message. A list has as many items as its count says, and no \
         more than its unit allows.",
        "unit I { n: u8 }\nunit M { items: list<I, 2> [2] }\ntest \"t\" { expect bytes_of(M { items: [I { n: 1 }] }) == \"\" }\n"),
    code("E0438", "a length that does not fit its bytes",
        "The receiver would refuse the message. Bytes are as long as their length says, and the \
         length fits its field.",
        "unit M { data: bytes<9> [4] }\ntest \"t\" { expect bytes_of(M { data: \"abc\" }) == \"\" }\n"),
    code("E0439", "a value with the end of its field in it",
        "The receiver would take the rest of the value for the next field. Remove the delimiter from \
         the value, or give the field a length.",
        "unit M { line: bytes<9> until \"\\n\" }\ntest \"t\" { expect bytes_of(M { line: \"a\\nb\" }) == \"\" }\n"),
    code("E0440", "a value that would be read as something else",
        "The value begins like another case, a flag, or a continuation of the field before it. The \
         receiver would take that.",
        "unit M { plus: flag \"+\"  text: bytes<9> until \"\\n\" }\ntest \"t\" { expect bytes_of(M { plus: false, text: \"+1\" }) == \"\" }\n"),
    code("E0441", "a message that may stream past is kept",
        "A message whose streamed bytes are not held flows through its handler. So it cannot be kept \
         in a table. A port holds short ones with `hold_body`.",
        "unit Ask { n: u8 }\nunit Data { size: u32  data: stream bytes [size] }\nprotocol p { stateless  sharing exclusive  request Ask  response Data }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    table t: u8 -> Data { capacity 9 }\n    on c(req) {\n        let r = call s(req)\n        t[req.n] = r\n        reply r\n    }\n}\n"),
    code("E0442", "a body that is not handled in pieces here",
        "`on client.body(req, piece)` handles the pieces of a request's streamed bytes as they flow; with \
         a connecting port, those of answers. The message's unit has a `stream`. With the name of a \
         stream of units, `on client.rows(req, row)` handles its items. The port is of TCP and does not \
         hold bodies. The handler makes no calls: the piece waits for it. Nor does it pass on the \
         message that the piece belongs to: the message's own handler has done that. Items have no \
         parameters and no streams of their own. An item is not read once another one has its place. \
         `req.wait()` waits for the rest of a request, in the request's handler, before the answer.",
        "unit M { n: u8 }\nprotocol p { stateless  request M  response M }\napp a {\n    port c = listen tcp(80) as p\n    on c.body(m, piece) { log \"piece\", len(piece), m.n }\n    on c(m) { reply m }\n}\n"),
    code("E0443", "a kept message that depends on its request",
        "A message in a table is read again under the request at hand. Its unit may depend on parameters \
         in `require`, and in conditions of its last switch for empty cases. A message whose other \
         fields depend on them would be another one for another request.",
        "unit Ask { wide: u8 }\nunit Data(wide: bool) { n: switch { when wide => big: u16, else => small: u8 } }\nprotocol p { stateless  sharing exclusive  request Ask  response Data(wide = request.wide == 1) }\napp a {\n    port c = listen tcp(80) as p\n    port s = connect tcp(127.0.0.1:81) as p\n    table t: u8 -> Data { capacity 9 }\n    on c(req) {\n        let r = call s(req)\n        t[req.wide] = r\n        reply r\n    }\n}\n"),
];
