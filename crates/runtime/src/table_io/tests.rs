//! Rows as files and scripts write them: accepted rows, and refused rows with their messages.

use super::*;
use wireloom_ir::desc::ArgDesc;

fn row(v: Value) -> Row {
    v.as_object().unwrap().clone()
}

fn arg((name, ty, form): &(&str, ParamType, Form)) -> ArgDesc {
    let default = (*name == "priority").then_some(ParamValue::UInt(0));
    ArgDesc { name: name.to_string(), ty: *ty, form: form.clone(), default }
}

fn signal(args: &[(&str, ParamType, Form)], result: ResultType) -> SignalDesc {
    SignalDesc {
        name: "t.insert".into(),
        doc: String::new(),
        handler: 0,
        args: args.iter().map(arg).collect(),
        masked: args.iter().any(|(n, ..)| n.ends_with("_mask")),
        result,
    }
}

fn rules() -> SignalDesc {
    let action = Form::Enum(vec!["drop".into(), "accept".into()]);
    let args = [
        ("src", ParamType::UInt(32), Form::Ip4),
        ("src_mask", ParamType::UInt(32), Form::Ip4),
        ("dport", ParamType::UInt(16), Form::Plain),
        ("dport_mask", ParamType::UInt(16), Form::Plain),
        ("priority", ParamType::UInt(32), Form::Plain),
        ("action", ParamType::Bytes(8), action),
    ];
    signal(&args, ResultType::Nothing)
}

#[test]
fn ranges_are_the_fewest_prefixes() {
    let check = |low: u64, high: u64, bits: u32, count: usize| {
        let list = range(low, high, bits).unwrap();
        assert_eq!(list.len(), count, "[{low}, {high}]");
        let top = if bits == 64 { 1000 } else { (1u64 << bits).min(1 << 16) };
        for x in (0..top).step_by(if top > 1000 { 7 } else { 1 }) {
            let hits = list
                .iter()
                .filter(|(v, m)| matches!((v, m), (ParamValue::UInt(v), ParamValue::UInt(m)) if x & m == *v))
                .count();
            assert_eq!(hits, usize::from(low <= x && x <= high), "{x} in [{low}, {high}]");
        }
    };
    check(0, 65535, 16, 1);
    check(80, 80, 16, 1);
    check(1024, 65535, 16, 6);
    check(1, 65534, 16, 30);
    check(0, u64::MAX, 64, 1);
    assert!(range(5, 4, 16).is_err() && range(0, 65536, 16).is_err());
}

#[test]
fn rows_become_calls() {
    let s = rules();
    let u = ParamValue::UInt;
    let action = ParamValue::Bytes(b"drop".to_vec());
    let calls = arguments(&s, &row(json!({"src": "10.1.2.3/8", "dport": 80, "action": "drop"})), true).unwrap();
    assert_eq!(calls, [vec![u(10 << 24), u(0xff00_0000), u(80), u(0xffff), u(0), action.clone()]]);
    let calls = arguments(&s, &row(json!({"dport": [1, 3], "priority": 7, "action": "drop"})), true).unwrap();
    assert_eq!(
        calls,
        [vec![u(0), u(0), u(1), u(0xffff), u(7), action.clone()], vec![u(0), u(0), u(2), u(0xfffe), u(7), action]]
    );
    for (bad, why) in [
        (json!({"dport": 80}), "`action` is missing; it is drop or accept"),
        (json!({"action": "drop", "x": 1}), "`x` is no field of the table; its fields: src, dport, priority, action"),
        (json!({"action": "drop", "dprt": 1}), "did you mean `dport`?"),
        (json!({"action": "drop", "dport_mask": 1}), "`dport_mask` is no field of the table; its fields: src, dport"),
        (json!({"action": "acept"}), "`action`: expected drop or accept (got `acept`); did you mean `accept`?"),
        (json!({"action": "drop", "src": "10.0.0.0/33"}), "at most 32 bits"),
        (json!({"action": "drop", "src": "fe80::1"}), "expected an IPv4 address (got `fe80::1`)"),
        (json!({"action": "drop", "dport": 65536}), "must be at most 65535"),
        (json!({"action": "drop", "dport": "http"}), "`dport`: expected a number of 16 bits (got `http`)"),
        (json!({"action": "drop", "dport": {"a": 1}}), "expected a number of 16 bits"),
        (json!({"action": "drop", "dport": [3, 2]}), "is no range"),
        (json!({"action": "drop", "dport": 1e300}), "expected a number"),
    ] {
        let e = arguments(&s, &row(bad.clone()), true).unwrap_err();
        assert!(e.contains(why), "{bad}: {e}");
    }
}

#[test]
fn what_is_left_out_is_the_default() {
    let mut s = signal(
        &[
            ("key", ParamType::UInt(8), Form::Plain),
            ("esn", ParamType::Bool, Form::Plain),
            ("n", ParamType::UInt(8), Form::Plain),
        ],
        ResultType::Nothing,
    );
    s.args[1].default = Some(ParamValue::Bool(true));
    let of = |v: Value| arguments(&s, &row(v), true);
    let (u, b) = (ParamValue::UInt, ParamValue::Bool);
    assert_eq!(of(json!({"key": 1, "n": 2})), Ok(vec![vec![u(1), b(true), u(2)]]));
    assert_eq!(of(json!({"key": 1, "n": 2, "esn": null})), Ok(vec![vec![u(1), b(true), u(2)]]));
    assert_eq!(of(json!({"key": 1, "n": 2, "esn": false})), Ok(vec![vec![u(1), b(false), u(2)]]));
    assert_eq!(of(json!({"key": 1})), Err("`n` is missing; it is a number of 8 bits".into()));
    assert_eq!(of(json!({"n": 1})), Err("`key` is missing; it is a number of 8 bits".into()));
}

/// A field of 32 bits with the range of 16 bits: ports, and the value for none.
#[test]
fn what_a_field_may_hold_is_all_that_comes_in() {
    let (ty, f) = (ParamType::UInt(32), Form::Within(vec![(0, 65535)]));
    let of = |v: Value| patterns(ty, &f, "dport", &v);
    let u = ParamValue::UInt;
    assert_eq!(of(json!(80)), Ok(vec![(u(80), u(0xffff_ffff))]));
    assert_eq!(of(json!([0, 65535])), Ok(vec![(u(0), u(0xffff_0000))]));
    assert_eq!(of(json!("*")), Ok(vec![(u(0), u(0))]));
    assert_eq!(of(json!("80&255")), Ok(vec![(u(80), u(0xffff_00ff))]));
    assert_eq!(of(json!("0x8000/1")), Ok(vec![(u(0x8000), u(0xffff_8000))]));
    for bad in [
        json!(65536),
        json!([65536, 70000]),
        json!([80, 70000]),
        json!([9, 8]),
        json!("80/17"),
        json!("65536&65536"),
        json!(-1),
        json!("10.0.0.1"),
        json!(true),
    ] {
        assert!(of(bad.clone()).is_err(), "{bad}");
    }
    assert_eq!(of(json!(70000)).unwrap_err(), "expected a number from 0 to 65535 (got `70000`)");
    assert_eq!(of(json!([80, 70000])).unwrap_err(), "expected a number from 0 to 65535 (got [80, 70000])");
    // As they are shown.
    for v in [json!(80), json!([0, 65535]), json!([1024, 2047]), json!("80&255")] {
        let shown: Vec<Value> =
            of(v.clone()).unwrap().iter().map(|(v, m)| pattern_text(ty, &f, &number_of(v), &number_of(m))).collect();
        assert_eq!(shown, [v]);
    }
    let odd = Form::Within(vec![(1, 1), (6, 17)]);
    assert_eq!(single(ParamType::UInt(8), &odd, "x", &json!(7)), Ok(u(7)));
    assert_eq!(
        single(ParamType::UInt(8), &odd, "x", &json!(5)).unwrap_err(),
        "expected a number 1 or from 6 to 17 (got `5`)"
    );
    assert!(
        patterns(ParamType::UInt(8), &odd, "x", &json!("6/4")).is_err()
            && patterns(ParamType::UInt(8), &odd, "x", &json!([1, 6])).is_err()
    );
}

fn number_of(v: &ParamValue) -> Value {
    match v {
        ParamValue::UInt(n) => json!(n),
        _ => Value::Null,
    }
}

#[test]
fn addresses_and_numbers_are_not_each_other() {
    let six = |v: Value| single(ParamType::Bytes(16), &Form::Ip6, "x", &v);
    assert!(six(json!("2001:db8::1")).is_ok());
    assert_eq!(six(json!("10.0.0.1")).unwrap_err(), "expected an IPv6 address (got `10.0.0.1`)");
    assert!(patterns(ParamType::Bytes(16), &Form::Ip6, "x", &json!("10.0.0.0/8")).is_err());
    let wide = |v: Value| single(ParamType::Bytes(16), &Form::Wide, "x", &v);
    assert_eq!(wide(json!(5)), Ok(ParamValue::Bytes([vec![0; 15], vec![5]].concat())));
    assert_eq!(wide(json!("0x1ff")), Ok(ParamValue::Bytes([vec![0; 14], vec![1, 255]].concat())));
    for bad in ["x", "-1", "1.5", "0x", "340282366920938463463374607431768211456"] {
        assert!(wide(json!(bad)).is_err(), "{bad}");
    }
    assert!(single(ParamType::UInt(32), &Form::Plain, "x", &json!("10.0.0.1")).is_err());
    assert!(single(ParamType::UInt(48), &Form::Plain, "x", &json!("02:00:00:00:00:01")).is_err());
    assert_eq!(single(ParamType::UInt(32), &Form::Ip4, "x", &json!("10.0.0.1")), Ok(ParamValue::UInt(10 << 24 | 1)));
}

#[test]
fn prefixes_only_in_tables_of_prefixes() {
    let s = signal(
        &[
            ("key", ParamType::Bytes(16), Form::Ip),
            ("key_mask", ParamType::Bytes(16), Form::Ip),
            ("value", ParamType::UInt(8), Form::Plain),
        ],
        ResultType::Nothing,
    );
    let of = |v: Value| arguments(&s, &row(v), true).map(|c| c.len());
    for good in ["10.0.0.0/8", "10.0.0.1", "::/0", "any", "10.0.0.0&255.0.0.0"] {
        let mapped = good != "10.0.0.0&255.0.0.0";
        assert_eq!(of(json!({"key": good, "value": 1})).is_ok(), mapped, "{good}");
    }
    assert_eq!(of(json!({"value": 1})).unwrap_err(), "`key` is missing; it is a prefix, `any` for all");
    assert!(of(json!({"key": "2001:db8::1&ffff::ffff", "value": 1})).unwrap_err().contains("expected a prefix"));
    assert_eq!(of(json!({"key": "2001:db8::1&ffff::", "value": 1})), Ok(1));
}

#[test]
fn prefixes_of_numbers_begin_with_their_first_bit() {
    let s = signal(
        &[
            ("key", ParamType::UInt(32), Form::Ip4),
            ("key_mask", ParamType::UInt(32), Form::Ip4),
            ("value", ParamType::UInt(8), Form::Plain),
        ],
        ResultType::Nothing,
    );
    let of = |v: &str| arguments(&s, &row(json!({"key": v, "value": 1})), true).map(|c| c.len());
    for good in ["10.0.0.0/8", "10.0.0.1", "any", "10.0.0.0&255.0.0.0", "0.0.0.0/0"] {
        assert_eq!(of(good), Ok(1), "{good}");
    }
    for bad in ["10.1.0.0&0.255.0.0", "10.0.0.0&255.0.255.0", "10.0.0.1&0.0.0.255"] {
        assert!(of(bad).unwrap_err().contains("expected a prefix"), "{bad}");
    }
}

/// A field that is called as a mask would be is a field.
#[test]
fn a_field_called_mask_is_a_field() {
    let mut s = signal(
        &[("net", ParamType::UInt(32), Form::Ip4), ("net_mask", ParamType::UInt(32), Form::Ip4)],
        ResultType::Nothing,
    );
    s.masked = false;
    let u = ParamValue::UInt;
    assert_eq!(
        arguments(&s, &row(json!({"net": "10.0.0.0", "net_mask": "255.0.0.0"})), true),
        Ok(vec![vec![u(10 << 24), u(0xff00_0000)]])
    );
    assert_eq!(fields(&s), ["net", "net_mask"]);
}

#[test]
fn what_is_given_twice_is_told() {
    assert!(json_rows("[{\"a\":1,\"a\":2}]").unwrap_err().contains("`a` is given twice"));
    assert!(json_rows("{\"a\":1}\n{\"a\":1,\"a\":2}").unwrap_err().contains("object 2: `a` is given twice"));
    assert_eq!(csv_rows("a,b,a\n1,2,3\n").unwrap_err(), "the first line names `a` twice");
    let (insert, remove) = (
        rules(),
        signal(
            &[("src", ParamType::UInt(32), Form::Ip4), ("priority", ParamType::UInt(32), Form::Plain)],
            ResultType::Nothing,
        ),
    );
    let call = |row: usize, src: u64, dport: u64| {
        (
            row,
            vec![
                ParamValue::UInt(src),
                ParamValue::UInt(0),
                ParamValue::UInt(dport),
                ParamValue::UInt(0),
                ParamValue::UInt(7),
                ParamValue::Bytes(vec![]),
            ],
        )
    };
    assert_eq!(replaced(&insert, &remove, &[call(1, 5, 1), call(2, 6, 1), call(3, 5, 2)]), Some((1, 3)));
    assert_eq!(replaced(&insert, &remove, &[call(1, 5, 1), call(1, 5, 2), call(2, 6, 1), call(3, 6, 1)]), None);
}

#[test]
fn prefixes_of_either_family() {
    let (ty, f) = (ParamType::Bytes(16), &Form::Ip);
    let (v, m) = patterns(ty, f, "src", &json!("10.9.0.0/15")).unwrap().remove(0);
    let want = |ip: &str| ParamValue::Bytes(octets(ip.parse().unwrap()).to_vec());
    assert_eq!(v, want("10.8.0.0"));
    assert_eq!(m, want("ffff:ffff:ffff:ffff:ffff:ffff:fffe:0"));
    assert_eq!(patterns(ty, f, "src", &json!("2001:db8::/32")).unwrap()[0].1, want("ffff:ffff::"));
    assert_eq!(
        single(ParamType::UInt(48), &Form::Mac, "m", &json!("02:00:00:00:00:ff")).unwrap(),
        ParamValue::UInt(0x0200_0000_00ff)
    );
}

/// The patterns that a table shows can be loaded again.
#[test]
fn patterns_come_back_as_they_went() {
    let (ip, number) = ((ParamType::Bytes(16), Form::Ip), (ParamType::UInt(16), Form::Plain));
    let text = |of: &(ParamType, Form), p: &Pattern| {
        let show = |v: &ParamValue| match v {
            ParamValue::Bytes(b) => {
                json!(std::net::Ipv6Addr::from(<[u8; 16]>::try_from(&b[..]).unwrap()).to_canonical().to_string())
            }
            ParamValue::UInt(n) => json!(n),
            _ => Value::Null,
        };
        pattern_text(of.0, &of.1, &show(&p.0), &show(&p.1))
    };
    for (of, v) in [
        (&ip, json!("10.0.0.0/8")),
        (&ip, json!("10.1.2.3")),
        (&ip, json!("2001:db8::/32")),
        (&ip, json!("fe80::1")),
        (&number, json!([1024, 2047])),
        (&number, json!(80)),
        (&number, json!("5&255")),
    ] {
        let list = patterns(of.0, &of.1, "x", &v).unwrap();
        assert_eq!(list.iter().map(|p| text(of, p)).collect::<Vec<_>>(), [v]);
    }
    assert_eq!(text(&ip, &any(ip.0)), Value::Null);
}

#[test]
fn csv_is_read() {
    let rows = csv_rows("src,action\n10.0.0.1,drop\n\n,\"a \"\"b\"\", c\"\n").unwrap().1;
    assert_eq!(rows[0], row(json!({"src": "10.0.0.1", "action": "drop"})));
    assert_eq!(rows[1], row(json!({"action": "a \"b\", c"})));
    assert_eq!(csv_rows("a,b\n1\n").unwrap_err(), "row 1 has 1 fields, the first line 2");
    assert_eq!(csv_rows("\u{feff}key\r\n5\r\n").unwrap().1[0]["key"], 5);
    assert_eq!(csv_rows("key,value\r1,2\r3,4\r").unwrap().1.len(), 2, "a return alone ends a line, too");
    // A line may end between quotes, and an empty quoted field is a value: written rows are read
    // back.
    let texts = ["a\nb", "\r\n", "", "q\"uo,te", " x ", "\\n"];
    let all: String = texts.iter().map(|t| format!("{},{}\r\n", quoted(t), quoted(t))).collect();
    let rows = csv_rows(&format!("key,value\r\n{all}")).unwrap().1;
    assert_eq!(rows.iter().map(|r| r["key"].as_str().unwrap()).collect::<Vec<_>>(), texts);
    assert_eq!(csv_rows("key\n\"\"\n\n").unwrap().1.len(), 1);
    assert_eq!(csv_rows("a,b\n1,2\n\"3,4\n").unwrap_err(), "a quote that begins in row 2 has no end");
    let bytes = csv_rows("key\n0x00ff\n").unwrap().1.remove(0);
    assert_eq!(single(ParamType::Bytes(4), &Form::Plain, "key", &bytes["key"]), Ok(ParamValue::Bytes(vec![0, 255])));
}

#[test]
fn bytes_are_taken_as_they_are() {
    let take = |v: Value| single(ParamType::Bytes(3), &Form::Plain, "k", &v);
    assert_eq!(take(json!(" a ")), Ok(ParamValue::Bytes(b" a ".to_vec())));
    assert_eq!(take(json!(" 0x")), Ok(ParamValue::Bytes(b" 0x".to_vec())));
    assert_eq!(take(json!("0x0A0b")), Ok(ParamValue::Bytes(vec![10, 11])));
    for bad in
        [json!("0x0"), json!("0xé0"), json!("0x00000000"), json!({"x": 1}), json!("abcd"), json!(true), json!([1])]
    {
        assert!(take(bad.clone()).is_err(), "{bad}");
    }
}

/// A dump of any key loads as the same bytes.
#[test]
fn dumps_are_loaded_as_they_were() {
    const PIECES: [&[u8]; 20] = [
        b" ",
        b"0x",
        b"0X",
        b"\"",
        b",",
        b"\n",
        b"\r",
        b"\0",
        b"a",
        b"\xef\xbb\xbf",
        "é".as_bytes(),
        b"\\",
        b"[",
        b"null",
        b"\t",
        b"41",
        b"\xff",
        b"{",
        "\u{a0}".as_bytes(),
        b"key",
    ];
    let mut seed = 1u64;
    let mut next = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    let take = |v: &Value| single(ParamType::Bytes(64), &Form::Plain, "key", v);
    let mut keys = vec![b" 0x41".to_vec(), b"\t0x".to_vec(), b" ".to_vec(), b"".to_vec()];
    keys.extend(
        (0..20_000).map(|_| (0..next(6)).flat_map(|_| PIECES[next(PIECES.len())].to_vec()).collect::<Vec<u8>>()),
    );
    for key in keys {
        let (value, want) = (Value::String(crate::value_syntax::data_text(&key)), Ok(ParamValue::Bytes(key.clone())));
        let lines = json_rows(&format!("{}\n", json!({ "key": value }))).unwrap();
        let list = json_rows(&json!([{ "key": value }]).to_string()).unwrap();
        assert_eq!((take(&lines[0]["key"]), take(&list[0]["key"])), (want.clone(), want.clone()), "{key:?}");
        let field = csv_field(&value);
        for text in [format!("key\r\n{field}\r\n"), format!("key\n{field}\n")] {
            let rows = csv_rows(&text).unwrap().1;
            assert!(rows.len() == 1 && take(&rows[0]["key"]) == want, "{key:?} in {text:?}");
        }
        let rows = csv_rows(&format!("key,value,more\n{field},{field},{field}\n")).unwrap().1;
        assert!(["key", "value", "more"].iter().all(|n| take(&rows[0][*n]) == want), "{key:?}");
    }
}

#[test]
fn json_is_a_list_or_lines() {
    assert_eq!(json_rows("[{\"a\":1},{\"a\":2}]").unwrap().len(), 2);
    assert_eq!(json_rows("{\"a\":1}\n{\"a\":2}\n").unwrap().len(), 2);
    assert!(json_rows("{\"a\":1}\n{\"a\":").unwrap_err().starts_with("object 2:"));
    assert_eq!(json_rows("\u{feff}[{\"a\":1}]").unwrap().len(), 1);
    assert_eq!(json_rows("\u{feff}{\"a\":1}").unwrap().len(), 1);
    assert!(json_rows("nothing").is_err());
}
