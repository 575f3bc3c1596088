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
    "Outside of strings and comments a program consists of ASCII letters, digits, `_` and the language's signs. \
     Remove the character, or put it into a string.",
    "const größe = 1\n";

    "E0002" "a string without an end",
    "A string ends with `\"` on the line where it starts. A line break inside is written `\\n`.",
    "const greeting = \"hello\n";

    "E0003" "an unknown escape",
    "The escapes in strings are \\r \\n \\t \\0 \\\\ \\\" \\' and \\xHH with two hexadecimal digits.",
    "const bell = \"\\a\"\n";

    "E0004" "a malformed number",
    "A number is decimal (`1_000`), hexadecimal (`0x1f`) or binary (`0b101`) and at most 128 bits wide. There are no \
     fractions: use a smaller unit, as in `1500ms`.",
    "const half = 0.5\n";

    "E0005" "an unknown suffix of a number",
    "Numbers may have the suffixes K M G (times 1000), KiB MiB GiB (times 1024), ns us ms s m h (durations) and bps \
     Kbps Mbps Gbps (rates).",
    "const size = 64KB\n";

    "E0006" "a malformed address",
    "Addresses are written `10.0.0.1`, `10.0.0.0/8`, `127.0.0.1:80`, `::1`, `[::1]:80` and `02:00:00:00:00:01`. Each \
     part must be in its range.",
    "const net = 10.0.0.0/40\n";

    "E0007" "a malformed byte in single quotes",
    "Single quotes hold exactly one ASCII character or escape, whose value is a `u8`. Several bytes are a string: `\"ab\"`.",
    "const c = 'ab'\n";

    "E0010" "a file that cannot be read",
    "The file is missing, is not readable, or is larger than 16 MiB.",
    "";

    "E0011" "a file that is not text",
    "Source files are UTF-8. Bytes that are not text are written with escapes: `\"\\xff\"`.",
    "";

    "E0101" "something else was expected here",
    "The grammar has no rule for this token at this place. The message says what may stand here.",
    "fn double(x u32) -> u32 = x + x\n";

    "E0102" "a bracket that is never closed",
    "The bracket that is shown has no partner before the list, the item or the file around it ends.",
    "unit Point {\n    x: u8\n\nunit Line { a: Point }\n";

    "E0103" "a bracket that closes nothing",
    "Every bracket in front of this one has its partner already. An opening one may be missing above.",
    "const a = 1\n}\n";

    "E0104" "nested too deeply",
    "Brackets nest at most 256 levels deep, and at most 512 operators follow each other in one expression. Give parts \
     names with `let`, or move them to a function.",
    "";

    "E0105" "a reserved word as a name",
    "These words cannot be defined: let var if else match for loop return reply true false none and or not in is. \
     Fields and variants may have any name.",
    "const match = 1\n";

    "E0106" "an operator of another language",
    "Conditions are joined with `and` and `or`; `=` assigns and `==` compares; `->` sends and names a result's type, \
     `=>` stands between a case and its body.",
    "fn both(a: bool, b: bool) -> bool = a && b\n";

    "E0107" "`=` where `:` belongs",
    "A name and its type, or a field and its value, are joined by `:`. In a unit `=` says how a field is computed, \
     elsewhere it gives a default.",
    "unit Point {\n    x = u8\n}\n";

    "E0108" "a word that starts nothing here",
    "No item, member or clause starts with this word. Items are use const fault charset type enum record unit protocol \
     fn element app table test; statements stand in a handler or function.",
    "struct Point { x: u8 }\n";

    "E0109" "a size or an end that is missing",
    "Every field of variable size says how large it may be (`bytes<250>`, `list<Header, 100>`) and where it ends: \
     `[length]`, `until` a delimiter, or `to end`.",
    "unit Line { text: bytes<250> }\n";

    "E0110" "not supported yet",
    "The language has this construct, but this version has no backend that runs it.",
    "event seen { n: u32 }\n";

    "E0111" "a value built right before a block",
    "After `if`, `match`, `for` and `where` a `{` opens the block. Put `Name { … }` in parentheses, or name it first.",
    "record P { x: u8 }\nfn f(p: P) {\n    if p == P { x: 1 } { return }\n}\n";

    "E0112" "a value that cannot be given here",
    "A session's values start as zero, empty or `none` for every connection. Parameters of functions, signals and units are given wherever those are used.",
    "app a {\n    session n: u32 = 1\n}\n";
}
