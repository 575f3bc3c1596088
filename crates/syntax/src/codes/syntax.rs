//! The lexer's and parser's codes: E00xx and E01xx.

use super::Code;

macro_rules! codes {
    ($($code:literal $title:literal, $explanation:literal, $example:literal;)+) => {
        pub static CODES: &[Code] =
            &[$(Code { code: $code, title: $title, explanation: $explanation, example: $example }),+];
    };
}

codes! {
    "E0001" "a character that means nothing",
    "Outside of strings and comments a program consists of ASCII letters, digits, `_` and the \
     language's signs. Remove the character, or put it into a string.",
    "const größe = 1\n";

    "E0002" "a string without an end",
    "A string ends with `\"` on the line where it starts. A line break inside is written `\\n`.",
    "const greeting = \"hello\n";

    "E0003" "an unknown escape",
    "Strings have these escapes:\n\n\
     - `\\r` `\\n` `\\t` `\\0` `\\\\` `\\\"` `\\'`\n\
     - `\\xHH` with two hexadecimal digits",
    "const bell = \"\\a\"\n";

    "E0004" "a malformed number",
    "A number is decimal (`1_000`), hexadecimal (`0x1f`) or binary (`0b101`). It has at most 128 \
     bits. There are no fractions. Use a smaller unit, as in `1500ms`.",
    "const half = 0.5\n";

    "E0005" "an unknown suffix of a number",
    "Numbers may have these suffixes:\n\n\
     - `K` `M` `G`: powers of 1000\n\
     - `KiB` `MiB` `GiB`: powers of 1024\n\
     - `ns` `us` `ms` `s` `m` `h`: durations\n\
     - `bps` `Kbps` `Mbps` `Gbps`: rates",
    "const size = 64KB\n";

    "E0006" "a malformed address",
    "Addresses are written `10.0.0.1`, `10.0.0.0/8`, `127.0.0.1:80`, `::1`, `[::1]:80` and \
     `02:00:00:00:00:01`. Each part must be in its range.",
    "const net = 10.0.0.0/40\n";

    "E0007" "a malformed byte in single quotes",
    "Single quotes hold exactly one ASCII character or escape. Its value is a `u8`. Several \
     bytes are a string: `\"ab\"`.",
    "const c = 'ab'\n";

    "E0010" "a file that cannot be read",
    "The file is missing, is not readable, or is larger than 16 MiB.",
    "";

    "E0011" "a file that is not text",
    "Source files are UTF-8. Write other bytes with escapes: `\"\\xff\"`.",
    "";

    "E0101" "something else was expected here",
    "The grammar has no rule for this token here. The message lists the tokens that may stand \
     here.",
    "fn double(x u32) -> u32 = x + x\n";

    "E0102" "a bracket that is never closed",
    "The list, the item or the file ends before this bracket is closed.",
    "unit Point {\n    x: u8\n\nunit Line { a: Point }\n";

    "E0103" "a bracket that closes nothing",
    "Every opening bracket before this one is closed already. An opening bracket may be missing \
     above.",
    "const a = 1\n}\n";

    "E0104" "nested too deeply",
    "Brackets nest at most 256 levels deep. One expression has at most 512 operators in a row. \
     From 120 on, an expression that is computed is nested too deeply, too (E0504). Give parts \
     names with `let`, or move them to a function.",
    "";

    "E0105" "a reserved word as a name",
    "These words cannot be defined: `let var if else match for loop return reply true false none \
     and or not in is`. Fields and variants may have any name.",
    "const match = 1\n";

    "E0106" "an operator of another language",
    "Wireloom writes these operators in another way:\n\n\
     - `and` and `or` join conditions.\n\
     - `=` assigns, and `==` compares.\n\
     - `->` sends. It also stands before the type of a result.\n\
     - `=>` stands between a case and its body.",
    "fn both(a: bool, b: bool) -> bool = a && b\n";

    "E0107" "`=` where `:` belongs",
    "A `:` stands between a name and its type, and between a field and its value. In a unit, `=` \
     computes a field. Elsewhere `=` gives a default.",
    "unit Point {\n    x = u8\n}\n";

    "E0108" "a word that begins nothing here",
    "No item, member or clause begins with this word. These words begin items: `use const fault \
     charset type enum record unit protocol fn element app table test`. Statements stand in a \
     handler or a function.",
    "struct Point { x: u8 }\n";

    "E0109" "a missing size or end",
    "Every field of variable size has a largest size: `bytes<250>`, `list<Header, 100>`. It also \
     has an end: `[length]`, `until` a delimiter, or `to end`.",
    "unit Line { text: bytes<250> }\n";

    "E0110" "not supported yet",
    "The language has this construct. This version has no backend that runs it.",
    "event seen { n: u32 }\n";

    "E0111" "a value built right before a block",
    "After `if`, `match`, `for` and `where`, a `{` opens the block. Put `Name { … }` in \
     parentheses, or give it a name first.",
    "record P { x: u8 }\nfn f(p: P) {\n    if p == P { x: 1 } { return }\n}\n";

    "E0112" "a value that cannot be given here",
    "The values of a session start as zero, empty or `none` for every connection. Parameters of \
     functions, signals and units get their values where these are used.",
    "app a {\n    session n: u32 = 1\n}\n";
}
