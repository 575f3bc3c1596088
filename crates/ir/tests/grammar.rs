//! The results of the analysis of grammars, and one case per code of its errors.

use wireloom_ir::grammar::{self, analyze, begins_tail, Finding};
use wireloom_ir::{text, ByteSet, FieldId, Module, UnitId};

/// A unit's text from its fields (`name: type = kind`); `in (…)` and the like may follow the type.
/// `body`: all but those listed in `inner`.
fn unit(name: &str, head: &str, fields: &[&str], inner: &[usize]) -> String {
    let mut out = format!("unit \"{name}\" {{ {head} measure tail 0 min 0 max 0 head_max 0 first \"\";\n");
    for (n, f) in fields.iter().enumerate() {
        let (decl, kind) = f.split_once(" = ").expect("name: type = kind");
        let (field, ty) = decl.split_once(": ").expect("name: type");
        let (ty, more) = ty.split_once(' ').unwrap_or((ty, ""));
        let field = if field == "_" { "_".into() } else { format!("\"{field}\"") };
        let end = if kind.starts_with("switch") { "" } else { ";" };
        out.push_str(&format!(
            "field #{n} {field}: {ty} at 0 bad 1 too_long 2 {more} = {kind}{end} @0:{n}:{n}:{n}:1\n"
        ));
    }
    let body: Vec<String> = (0..fields.len()).filter(|n| !inner.contains(n)).map(|n| format!("#{n}")).collect();
    out + &format!("body ({}); }}\n", body.join(", "))
}

fn protocol(units: &str) -> String {
    format!("app \"x\"\nplace \"p\"\n{units}protocol \"p\" {{ request M#0; response M#0; sharing pipelined; }}\n")
}

fn module(text: &str) -> Module {
    text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn findings(text: &str) -> Vec<Finding> {
    analyze(&mut module(text))
}

#[track_caller]
fn refused(code: &str, text: &str) {
    let found = findings(text);
    assert!(found.iter().any(|f| f.code == code), "{code} not among {found:#?}");
    assert!(found.iter().all(|f| !f.message.is_empty()));
    assert!(grammar::CODES.iter().any(|(c, _)| *c == code));
}

#[track_caller]
fn accepted(text: &str) -> Module {
    let mut m = module(text);
    assert_eq!(analyze(&mut m), []);
    m
}

const U8: &str = "uint bytes 1 shift 0 bits 8 big advance";

#[test]
fn sizes_and_first_bytes() {
    let m = accepted(&protocol(&unit(
        "M",
        "",
        &[
            &format!("magic: u8 in (128..129) = {U8}"),
            "len: u16 = uint bytes 2 shift 0 bits 16 big advance",
            "word: bytes<8> = bytes 1..8 class \"61-7a\" until (b\" \", b\"\\r\\n\")",
            "n: u32 = number radix 10 digits 9 until (b\"\\n\")",
            "list: unit = list #5 max 4 count read(this.len#1):u16",
            "item: u8 = uint bytes 1 shift 0 bits 8 big advance",
            "end: unit = literal (b\"ab\", b\"c\")",
        ],
        &[5],
    )));
    let u = &m.units[0];
    assert_eq!((u.min, u.max, u.head_max), (1 + 2 + 2 + 2 + 1, 1 + 2 + 10 + 10 + 4 + 2, 29));
    assert_eq!(u.first, ByteSet::of(&[128, 129]));
    assert_eq!((u.tail as usize, u.streams), (u.body.len(), false));
}

#[test]
fn bits_of_one_container_meet_in_the_first_byte() {
    let m = accepted(&protocol(&unit(
        "M",
        "",
        &[
            "hi: u4 in (4..4) = uint bytes 1 shift 4 bits 4 big",
            "lo: u4 in (5..15) = uint bytes 1 shift 0 bits 4 big advance",
        ],
        &[],
    )));
    assert_eq!((m.units[0].min, m.units[0].max), (1, 1));
    assert_eq!(m.units[0].first, ByteSet::range(0x45, 0x4f));
}

#[test]
fn optional_parts_let_the_next_begin() {
    let m = accepted(&protocol(&unit("M", "", &[
        "_: unit = bytes 0..9 class \"20\" run",
        "f: bool = flag b\"no\"",
        "s: unit = switch { case \"a\" literal (b\"x\") => (); case \"b\" literal (b\"yy\") => (); case _ fault 1 => (); }",
    ], &[])));
    assert_eq!(m.units[0].first, ByteSet::of(b" nxy"));
    assert_eq!((m.units[0].min, m.units[0].max), (1, 13));
}

/// A message of a key and a value that is longer than the limit of heads.
fn keyed() -> String {
    unit(
        "M",
        "",
        &[
            &format!("n: u8 = {U8}"),
            "key: bytes<250> = bytes 0..250 length read(this.n#0):u8",
            "value: bytes<8192> = bytes 0..8192 length 9:u16",
            "end: unit = literal (b\"\\n\")",
        ],
        &[],
    )
}

#[test]
fn a_long_field_begins_the_tail() {
    let m = accepted(&protocol(&keyed()));
    let u = &m.units[0];
    assert_eq!((u.tail, u.head_max, u.streams), (2, 251, false));
    let begins: Vec<bool> = (0..4).map(|f| begins_tail(&m, UnitId(0), UnitId(0), FieldId(f))).collect();
    assert_eq!(begins, [false, false, true, false]);
}

#[test]
fn the_tail_begins_within_a_nested_unit() {
    let text = unit(
        "M",
        "",
        &[
            "s: unit = switch { case \"set\" literal (b\"set \") => (#1); case \"get\" literal (b\"get \") => (#2); }",
            "set: unit = unit Set#1 ()",
            "get: unit = unit Get#2 ()",
        ],
        &[1, 2],
    ) + &unit(
        "Set",
        "",
        &["key: bytes<10> = bytes 0..10 until (b\" \")", "data: bytes<8192> = bytes 0..8192 length 9:u16"],
        &[],
    ) + &unit("Get", "", &["key: bytes<20> = bytes 0..20 until (b\"\\n\")"], &[]);
    let m = accepted(&protocol(&text));
    assert_eq!((m.units[0].tail, m.units[0].head_max), (0, 25));
    assert!(begins_tail(&m, UnitId(0), UnitId(1), FieldId(1)));
    assert!(!begins_tail(&m, UnitId(0), UnitId(1), FieldId(0)));
}

#[test]
fn streams_decide_the_split_where_they_are() {
    let m = accepted(&protocol(&unit(
        "M",
        "",
        &["target: bytes<8192> = bytes 0..8192 until (b\" \")", "body: unit = stream_bytes close"],
        &[],
    )));
    let u = &m.units[0];
    assert_eq!((u.tail, u.head_max, u.streams, u.max), (1, 8193, true, 8193));
}

#[test]
fn a_request_whose_tail_is_read_is_parsed_whole() {
    let text = format!("{}port \"c\" listen uint 1 as (#0)\nhandler \"h\" on message #0 #0 steps 0 {{ local %0: msg<#0> \"r\"; log (read(%#0.#2):bytes<8192>); }}", protocol(&keyed()));
    let m = accepted(&text);
    let u = &m.units[0];
    assert_eq!((u.tail as usize, u.head_max), (u.body.len(), u.max));
    assert!(!begins_tail(&m, UnitId(0), UnitId(0), FieldId(2)));
    let key_only = text.replace("read(%#0.#2):bytes<8192>", "read(%#0.#1):bytes<250>");
    assert_eq!(accepted(&key_only).units[0].tail, 2);
}

#[test]
fn e0401_list_end() {
    refused(
        "E0401",
        &protocol(&unit(
            "M",
            "",
            &["l: unit = list #1 max 9 until (b\"\\r\\n\")", "e: bytes<9> = bytes 1..9 until (b\" \")"],
            &[1],
        )),
    );
    accepted(&protocol(&unit(
        "M",
        "",
        &["l: unit = list #1 max 9 until (b\"\\r\\n\")", "e: bytes<9> = bytes 1..9 class \"61-7a\" until (b\" \")"],
        &[1],
    )));
    // Both literals: told apart by looking further.
    let item = |v: &str| {
        unit("M", "", &["l: unit = list #1 max 9 until (b\"END\")", "e: unit = unit I#1 ()"], &[1])
            + &unit("I", "", &[&format!("_: unit = literal (b\"{v}\")")], &[])
    };
    accepted(&protocol(&item("EXT")));
    refused("E0401", &protocol(&item("ENDS")));
}

#[test]
fn e0402_unreachable_case() {
    let switch = |cases: &str| {
        protocol(&unit("M", "", &[&format!("s: unit = switch {{ {cases} }}"), &format!("n: u8 = {U8}")], &[]))
    };
    refused("E0402", &switch("case _ literal (b\"get\") => (); case _ literal (b\"gets\") => ();"));
    accepted(&switch("case _ literal (b\"gets\") => (); case _ literal (b\"get\") => ();"));
    refused("E0402", &switch("case _ else => (); case _ literal (b\"x\") => ();"));
    refused("E0402", &switch("case _ when true:bool => (); case _ else => ();"));
    refused("E0402", &switch("case _ when false:bool => (); case _ else => ();"));
}

#[test]
fn e0403_empty_item() {
    refused(
        "E0403",
        &protocol(&unit(
            "M",
            "",
            &["l: unit = list #1 max 9 count 3:u8", "e: bytes<9> = bytes 0..9 class \"20\" run"],
            &[1],
        )),
    );
    refused(
        "E0403",
        &protocol(
            &(unit("M", "", &["s: unit = stream_unit I#1 () until true:bool"], &[])
                + &unit("I", "", &["b: bytes<1> = bytes 0..1 length 0:u8"], &[])),
        ),
    );
}

#[test]
fn e0404_no_maximum() {
    refused("E0404", &protocol(&unit("M", "", &["b: unit = bytes 0..18446744073709551615 until (b\"\\n\")"], &[])));
    refused(
        "E0404",
        &protocol(&unit("M", "", &["l: unit = list #1 max 4294967295 to_end", &format!("e: u8 = {U8}")], &[1])),
    );
}

#[test]
fn e0405_head_too_large() {
    let text = protocol(&unit(
        "M",
        "",
        &[
            "first: bytes<9> = bytes 0..9 until (b\"\\n\")",
            "large: unit = list #2 max 1000 until (b\"\\n\")",
            "e: bytes<4096> = bytes 1..4096 class \"61-7a\" until (b\" \")",
        ],
        &[2],
    ));
    refused("E0405", &text);
    assert!(findings(&text).iter().any(|f| f.labels.iter().any(|l| l.1.contains("`large`"))));
}

#[test]
fn e0406_recursion() {
    refused(
        "E0406",
        &protocol(&(unit("M", "", &["a: unit = unit B#1 ()"], &[]) + &unit("B", "", &["b: unit = unit M#0 ()"], &[]))),
    );
}

#[test]
fn e0407_read_behind_a_stream() {
    let text = protocol(&unit("M", "", &["body: unit = stream_bytes length 5:u8", &format!("after: u8 = {U8}")], &[]));
    accepted(&text);
    refused("E0407", &format!("{text}port \"c\" listen uint 1 as (#0)\nhandler \"h\" on message #0 #0 steps 0 {{ local %0: msg<#0> \"r\"; log (read(%#0.#1):u8); }}"));
    refused(
        "E0407",
        &text.replace("sharing pipelined;", "sharing pipelined; no_reply eq(read(this.#1):u8, 1:u8):bool;"),
    );
}

#[test]
fn e0414_bytes_that_have_flowed_by() {
    let fields = |body: &str, last: &str| {
        protocol(&unit(
            "M",
            "",
            &[
                "name: bytes<9> = bytes 0..9 until (b\":\")",
                body,
                "note: bytes<9> = bytes 0..9 until (b\"\\n\")",
                &format!("ask: unit = require ne(read(this.#{last}):bytes<9>, b\"x\":bytes<1>):bool"),
            ],
            &[],
        ))
    };
    let stream = "body: unit = stream_bytes length 5:u8";
    refused("E0414", &fields(stream, "0"));
    accepted(&fields(stream, "2"));
    // Without streams it is held whole for it.
    let long = "body: bytes<8192> = bytes 0..8192 length 5:u8";
    let m = accepted(&fields(long, "0"));
    assert_eq!((m.units[0].tail as usize, m.units[0].head_max), (4, m.units[0].max));
    assert_eq!(accepted(&fields(long, "2")).units[0].tail, 1);
}

#[test]
fn e0408_parameters() {
    refused(
        "E0408",
        &protocol(&unit(
            "M",
            "param \"a\": u64 shift 0 bits 64; param \"b\": bool shift 64 bits 1;",
            &[&format!("n: u8 = {U8}")],
            &[],
        )),
    );
}

#[test]
fn e0409_order_by() {
    let by = |f: usize, bytes: u32| {
        let id = U8.replace("bytes 1", &format!("bytes {bytes}")).replace("bits 8", &format!("bits {}", 8 * bytes));
        protocol(&keyed())
            .replace(": u8 at", &format!(": u{} at", 8 * bytes))
            .replace(U8, &id)
            .replace("length read(this.n#0):u8", "length 9:u16")
            .replace("sharing pipelined;", &format!("sharing pipelined; order_by #{f};"))
    };
    for bytes in 1..=8 {
        let m = accepted(&by(0, bytes));
        assert_eq!(grammar::fixed_offset(&m, UnitId(0), FieldId(0)), Some((0, bytes as u8)));
    }
    refused("E0409", &by(0, 9));
    refused("E0409", &by(1, 2));
    refused("E0409", &by(3, 2));
}

#[test]
fn e0410_alternatives() {
    let two = |a: &str, b: &str| {
        format!("app \"x\"\nplace \"p\"\n{}{}protocol \"a\" {{ request M#0; sharing pipelined; }}\nprotocol \"b\" {{ request N#1; sharing pipelined; }}\nport \"c\" listen uint 1 as (#0, #1)",
        unit("M", "", &[&format!("n: u8 in ({a}) = {U8}")], &[]), unit("N", "", &[&format!("n: u8 in ({b}) = {U8}")], &[]))
    };
    accepted(&two("1..2", "3..4"));
    accepted(&two("1..2", "0..255"));
    refused("E0410", &two("0..255", "3..4"));
}

#[test]
fn e0411_swallowing_run() {
    refused(
        "E0411",
        &protocol(&unit(
            "M",
            "",
            &["w: bytes<9> = bytes 1..9 class \"61-7a\" run", "_: unit = literal (b\"end\")"],
            &[],
        )),
    );
    refused(
        "E0411",
        &protocol(&unit("M", "", &["w: u32 = number radix 10 digits 9", "_: unit = literal (b\"0\")"], &[])),
    );
    accepted(&protocol(&unit(
        "M",
        "",
        &["w: bytes<9> = bytes 1..9 class \"61-7a\" run", "_: unit = literal (b\" end\")"],
        &[],
    )));
}

#[test]
fn e0412_held_message_too_large() {
    let text = protocol(&unit(
        "M",
        "",
        &[&format!("n: u8 = {U8}"), "value: bytes<33554432> = bytes 0..33554432 length read(this.n#0):u8"],
        &[],
    ));
    accepted(&text);
    refused("E0412", &format!("{text}port \"c\" listen uint 1 as (#0)\nhandler \"h\" on message #0 #0 steps 0 {{ local %0: msg<#0> \"r\"; log (read(%#0.#1):bytes<33554432>); }}"));
}

/// A unit in an extent has as many bytes as the extent at most; not where its length may wrap.
#[test]
fn an_extent_bounds_its_unit() {
    let bounded = |length: &str, before: &str| {
        let size = format!("size: u8 in (0..200) = {U8}");
        let of = format!("_: unit = require eq(len_bytes(raw(this.inner#2):bytes<100000>):u64, {length}):bool");
        let fields = [&size, before, "inner: unit = unit I#1 ()", &of];
        let inner = unit("I", "", &["value: bytes<90000> = bytes 0..90000 until (b\"\\n\")"], &[]);
        let m = accepted(&protocol(&(unit("M", "", &fields, &[]) + &inner)));
        (m.units[0].max, m.units[0].head_max)
    };
    let (wide, any) = ("cast(read(this.size#0):u8):u64", "_: unit = nothing");
    assert_eq!(bounded(wide, any), (201, 201));
    assert_eq!(bounded(&format!("add({wide}, 7:u64):u64"), any).0, 208);
    assert_eq!(bounded("cast(add(read(this.size#0):u8, 7:u8):u8):u64", any).0, 208);
    // From here on the length may be any: it wraps.
    assert_eq!(bounded("cast(add(read(this.size#0):u8, 90:u8):u8):u64", any).0, 90_002);
    let less = "cast(sub(read(this.size#0):u8, 4:u8):u8):u64";
    assert_eq!(bounded(less, any).0, 90_002);
    assert_eq!(bounded(less, "_: unit = require ge(read(this.size#0):u8, 4:u8):bool").0, 197);
    assert_eq!(bounded(less, "_: unit = require ge(cast(read(this.size#0):u8):u64, 5:u64):bool").0, 197);
    assert_eq!(bounded(less, "_: unit = require ge(read(this.size#0):u8, 3:u8):bool").0, 90_002);
    assert_eq!(bounded(&format!("div({wide}, 2:u64):u64"), any).0, 101);
}

#[test]
fn e0413_empty_delimiter() {
    refused("E0413", &protocol(&unit("M", "", &["w: bytes<9> = bytes 0..9 until (b\"\")"], &[])));
}

#[test]
fn description() {
    let mut m = text::parse(include_str!("sample.ir")).unwrap();
    assert_eq!(analyze(&mut m), []);
    wireloom_ir::passes::run_all(&mut m);
    let d = m.desc();
    assert_eq!(d.protocols[0].order, wireloom_ir::desc::Order::ById { request: 8, response: 8, width: 4 });
    assert_eq!(d.protocols[0].first, [128, 129]);
    assert_eq!(d.handlers.len(), 3, "tests are left out");
    assert_eq!(d.handlers[1].on, wireloom_ir::desc::HandlerOn::Message { port: 0, alternative: 1 });
    assert!(d.handlers.iter().all(|h| h.steps > 0));
    assert_eq!((d.counters[0].offset, d.tables[0].stats), (0, 0));
    assert_eq!((d.places[0].file.as_str(), d.places[0].line), ("sample.loom", 1));
}

#[test]
fn units_nested_many_times() {
    let nested = |levels: usize| {
        let mut text = unit("M", "", &["a: unit = unit N#1 ()", "b: unit = unit N#1 ()"], &[]);
        for n in 2..levels {
            text += &unit("N", "", &[&format!("a: unit = unit N#{n} ()"), &format!("b: unit = unit N#{n} ()")], &[])
        }
        protocol(&(text + &unit("N", "", &["n: unit = nothing", "x: bool = flag b\"x\""], &[])))
    };
    accepted(&nested(10));
    // Told of the smallest that is too large, and of those around it that are by themselves.
    let found = findings(&nested(60));
    assert!(!found.is_empty() && found.iter().all(|f| f.code == "E0416"));
}
