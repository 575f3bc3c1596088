//! The codes of names and types: E02xx and E03xx.

use super::{code, Code};

pub static CODES: &[Code] = &[
    code("E0201", "unknown name",
        "The name is not defined here. It is not imported by `use`, and it is not built in. \
         Names of another module are written `module.name`.",
        "const size: u32 = limti\nconst limit: u32 = 5\n"),
    code("E0202", "unknown module",
        "`use a.b` reads the file `a/b.loom`, relative to the folder of the importing file. `use \
         std.x` reads the standard library.",
        "use std.htpp\n"),
    code("E0203", "a name defined twice",
        "Every name has one meaning in its module, app, unit or enum. The fields of a unit's \
         switch cases count as fields of the unit.",
        "const a: u8 = 1\nconst a: u8 = 2\n"),
    code("E0204", "no such app",
        "The file has no app of the name that the command line gives.",
        ""),
    code("E0301", "wrong type",
        "A value of another type is expected here. Integers widen by themselves. Other \
         conversions are written by name: `u8(x)`, `text(x)`.",
        "const a: u32 = \"text\"\n"),
    code("E0302", "bytes that may be too long",
        "The largest size of the bytes value exceeds the largest size of its destination. Code \
         that runs checks the length and raises the fault `too_long`. In constants and clauses \
         this is an error. Bytes that grow have the room of their first value, unless a type says \
         otherwise: `\"\"` has none.",
        "const a: bytes<2> = \"abc\"\n"),
    code("E0303", "no such field, item or length",
        "The value has no field, item or length of this kind.",
        "fn f(x: u32) -> u64 = len(x)\n"),
    code("E0304", "a number out of range",
        "The constant does not fit its type or its destination.",
        "const a: u8 = 300\n"),
    code("E0305", "an optional value without a check",
        "The value may be absent. The program must check this before it uses the value:\n\n\
         - `if x { … }`\n\
         - `if let y = x { … }`\n\
         - `match`\n\
         - an alternative with `else`",
        "unit U {\n    kind: u8\n    body: switch { when kind == 1 => size: u16, else => nothing }\n    let double = size + size\n}\n"),
    code("E0306", "not a constant",
        "Sizes, defaults and constants are known at compile time. They consist of literals, \
         other constants and arithmetic on them.",
        "fn f(n: u32) -> u32 = n\nconst a: u32 = f(1)\n"),
    code("E0307", "a match that misses values",
        "The arms of a `match` must cover every value.",
        "enum E: u8 { a, b }\nfn f(e: E) -> u8 = match e { a => 1 }\n"),
    code("E0308", "wrong number of arguments",
        "The number of arguments differs from the number of parameters. The call names a \
         function, a conversion, a unit or a response.",
        "fn f(x: u32) -> u32 = x\nfn g() -> u32 = f(1, 2)\n"),
    code("E0309", "not plain data",
        "Messages, lists of a message and ports cannot be stored, compared or chosen. Read their \
         fields, or pass them on.",
        "unit M { n: u8 }\nfn f(m: M, o: M) -> bool = m == o\n"),
    code("E0311", "a pattern that does not fit",
        "One of these holds:\n\n\
         - The pattern has another form than the value.\n\
         - The pattern of a `let` may fail to match.",
        "fn f(x: u32) -> u32 { let (a, b) = x\n a }\n"),
    code("E0312", "`break` outside of a loop",
        "`break` and `continue` stand inside of a loop.",
        "fn f() -> u32 { break }\n"),
    code("E0313", "cannot be assigned to",
        "Only `var`, state, sessions and entries of tables can be assigned to. A `let` is \
         constant.",
        "fn f() -> u32 { let x = u32(1)\n x = 2\n x }\n"),
    code("E0314", "a key or vector of wrong size",
        "AES needs these sizes:\n\n\
         - key: 16 or 32 bytes\n\
         - counter block and initialisation vector: 16 bytes\n\
         - GCM nonce: 12 bytes\n\
         - CBC data: a multiple of 16 bytes\n\n\
         A size that is unknown at compile time is checked when the program runs (fault \
         `constraint`).",
        "fn f(nonce: bytes<12>, data: bytes<64>) -> bytes<64> = aes_ctr(\"sixteen byte key\", nonce, data)\n"),
    code("E0315", "a type that is not known",
        "A `none`, an empty list and a record without a name have no type of their own. Write the \
         type, or use the value where one type is expected.",
        "fn f() -> u32 = len([none, none])\n"),
    code("E0316", "an enum without variants",
        "An enum has at least one variant, or `_` for any other value.",
        "enum E: u8 { }\n"),
    code("E0317", "an operand that never comes back",
        "`return`, `fault`, `break` and `continue` leave. An operand that always leaves has no \
         value, so nothing can be done with it. Leave in a statement of its own, or only on one \
         way: `x else { return }`.",
        "fn f(b: bytes<9>) -> bytes<9> = concat(\"x\", { return b })\n"),
];
