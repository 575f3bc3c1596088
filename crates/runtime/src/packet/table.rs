//! Tables from files and to files: `--load TABLE=FILE` before the first frame, `--dump TABLE=FILE` behind the last.
//!
//! Both go through signals that the compiler makes for each table, run on the core that has the entries:
//!
//! - `TABLE.insert`: its arguments are the fields of the key and of the value by name. A field `x` with a companion `x_mask` is a pattern: a value,
//!   a prefix (`10.0.0.0/8`), a range (`[1024, 65535]`, which becomes as many prefixes as it takes), or absent for any.
//! - `TABLE.next(cursor)`: an option of a record `cursor`, `key`, `value`; the first call has cursor 0, none is the end.
//!
//! A row is a JSON object (a CSV line) with the fields of key and value; those of a tuple without names are `k0`, `k1`, … and `v0`, `v1`, ….
//! A table of which each core has its own part is loaded on all and dumped from all.

use super::core::PacketCore;
use crate::error::Error;
use crate::params;
use crate::signal::decode;
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use wireloom_ir::desc::{Desc, ParamType, ParamValue, ResultType, SignalDesc};

type Row = Map<String, Value>;

fn signal<'a>(desc: &'a Desc, table: &str, what: &str) -> Result<&'a SignalDesc, Error> {
    let name = format!("{table}.{what}");
    desc.signals.iter().find(|s| s.name == name).ok_or_else(|| {
        let tables: Vec<&str> = desc.signals.iter().filter_map(|s| s.name.strip_suffix(&format!(".{what}"))).collect();
        let known = if tables.is_empty() { "none".into() } else { tables.join(", ") };
        Error::Param(format!("app `{}` has no table `{table}` for this; it has: {known}", desc.app))
    })
}

fn is_csv(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"))
}

// ---- load ----

struct Load {
    file: PathBuf,
    handler: u32,
    local: bool,
    /// Row of the file and arguments of the call.
    calls: Vec<(usize, Vec<ParamValue>)>,
}

/// What is loaded at the start.
pub struct Loads(Vec<Load>);

impl Loads {
    pub fn read(desc: &Desc, files: &[(String, PathBuf)]) -> Result<Loads, Error> {
        files.iter().map(|(table, file)| load(desc, table, file)).collect::<Result<_, _>>().map(Loads)
    }

    /// Inserts the rows that are for this core.
    pub fn apply(&self, core: &mut PacketCore) -> Result<(), String> {
        let first = core.index() == 0;
        for load in self.0.iter().filter(|l| l.local || first) {
            for (row, args) in &load.calls {
                if core.signal(load.handler, args).is_none() {
                    return Err(format!("{}: row {row} cannot be inserted: {}", load.file.display(), core.last_fault()));
                }
            }
        }
        Ok(())
    }
}

fn load(desc: &Desc, table: &str, file: &Path) -> Result<Load, Error> {
    let insert = signal(desc, table, "insert")?;
    let fail = |e: String| Error::Param(format!("{}: {e}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|e| fail(e.to_string()))?;
    let rows = if is_csv(file) { csv_rows(&text) } else { json_rows(&text) }.map_err(fail)?;
    let mut calls = Vec::new();
    for (n, row) in rows.iter().enumerate() {
        let list = arguments(&insert.args, row).map_err(|e| fail(format!("row {}: {e}", n + 1)))?;
        calls.extend(list.into_iter().map(|args| (n + 1, args)));
    }
    Ok(Load { file: file.into(), handler: insert.handler, local: desc.local_tables.iter().chain(&desc.copied_tables).any(|t| t == table), calls })
}

fn json_rows(text: &str) -> Result<Vec<Row>, String> {
    serde_json::from_str(text).map_err(|e| format!("expected a list of objects: {e}"))
}

fn csv_rows(text: &str) -> Result<Vec<Row>, String> {
    let mut lines = text.lines().filter(|l| !l.trim().is_empty());
    let names: Vec<String> = csv_fields(lines.next().unwrap_or("")).iter().map(|f| f.trim().to_string()).collect();
    let row = |(n, line): (usize, &str)| {
        let fields = csv_fields(line);
        if fields.len() != names.len() {
            return Err(format!("row {} has {} fields, the first line {}", n + 1, fields.len(), names.len()));
        }
        let cell = |(name, text): (&String, String)| (!text.is_empty()).then(|| (name.clone(), Value::String(text)));
        Ok(names.iter().zip(fields).filter_map(cell).collect())
    };
    lines.enumerate().map(row).collect()
}

/// The fields of a line; `"a ""b"" c"` is `a "b" c`.
fn csv_fields(line: &str) -> Vec<String> {
    let (mut out, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                field.push('"');
                chars.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => out.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    out.push(field);
    out
}

/// The calls that a row stands for: one, or several if there are ranges.
fn arguments(args: &[(String, ParamType)], row: &Row) -> Result<Vec<Vec<ParamValue>>, String> {
    if let Some(name) = row.keys().find(|k| !args.iter().any(|(n, _)| n == *k)) {
        let names: Vec<&str> = args.iter().map(|(n, _)| n.as_str()).filter(|n| !n.ends_with("_mask")).collect();
        return Err(format!("`{name}` is no field of the table; its fields: {}", names.join(", ")));
    }
    let mut calls = vec![Vec::new()];
    for (name, ty) in args {
        let has = |n: &str| args.iter().any(|(m, _)| m == n);
        if name.strip_suffix("_mask").is_some_and(has) {
            continue; // set together with what it belongs to
        }
        let given = row.get(name).filter(|v| !v.is_null());
        let told = |e: String| format!("`{name}`: {e}");
        if has(&format!("{name}_mask")) {
            let patterns = given.map_or_else(|| Ok(vec![any(*ty)]), |v| patterns(*ty, name, v)).map_err(told)?;
            let each = |call: &Vec<(String, ParamValue)>| {
                let with = |(value, mask): &(ParamValue, ParamValue)| {
                    let mut call = call.clone();
                    call.push((name.clone(), value.clone()));
                    call.push((format!("{name}_mask"), mask.clone()));
                    call
                };
                patterns.iter().map(with).collect::<Vec<_>>()
            };
            calls = calls.iter().flat_map(each).collect();
            if calls.len() > 65_536 {
                return Err("its ranges stand for more than 65536 entries".into());
            }
            continue;
        }
        let value = match given {
            Some(v) => single(*ty, name, v).map_err(told)?,
            None if name == "priority" => ParamValue::UInt(0),
            None => return Err(format!("`{name}` is missing")),
        };
        calls.iter_mut().for_each(|c| c.push((name.clone(), value.clone())));
    }
    let in_order = |call: Vec<(String, ParamValue)>| {
        let find = |(name, _): &(String, ParamType)| call.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        args.iter().filter_map(find).collect()
    };
    Ok(calls.into_iter().map(in_order).collect())
}

fn text_of(v: &Value) -> String {
    v.as_str().map_or_else(|| v.to_string(), |s| s.trim().to_string())
}

/// One value, addresses and the common protocols by name included.
fn single(ty: ParamType, name: &str, v: &Value) -> Result<ParamValue, String> {
    let text = text_of(v);
    let named = match text.as_str() {
        "icmp" => Some(1),
        "tcp" => Some(6),
        "udp" => Some(17),
        "icmp6" => Some(58),
        _ => None,
    };
    match ty {
        ParamType::UInt(8) if name == "proto" && named.is_some() => Ok(ParamValue::UInt(named.unwrap_or(0))),
        ParamType::Bytes(16) => match text.parse::<IpAddr>() {
            Ok(ip) => Ok(ParamValue::Bytes(octets(ip).to_vec())),
            Err(_) => params::parse_data(ty, &text),
        },
        ParamType::Bytes(_) => params::parse_data(ty, &text),
        _ => params::parse(ty, &text).map_err(|e| format!("{e} (got `{text}`)")),
    }
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v) => v.to_ipv6_mapped().octets(),
        IpAddr::V6(v) => v.octets(),
    }
}

type Pattern = (ParamValue, ParamValue);

fn width(ty: ParamType) -> u32 {
    match ty {
        ParamType::UInt(bits) => bits.into(),
        ParamType::Bytes(n) => n * 8,
        _ => 64,
    }
}

/// A mask of `ones` ones at the front.
fn mask(ty: ParamType, ones: u32) -> ParamValue {
    let all = width(ty);
    match ty {
        ParamType::Bytes(n) => ParamValue::Bytes((0..n).map(|i| (0xff00u32 >> ones.saturating_sub(i * 8).min(8)) as u8).collect()),
        _ => ParamValue::UInt(if ones == 0 { 0 } else { u64::MAX >> (64 - all) & u64::MAX << (all - ones) }),
    }
}

fn any(ty: ParamType) -> Pattern {
    match ty {
        ParamType::Bytes(n) => (ParamValue::Bytes(vec![0; n as usize]), mask(ty, 0)),
        _ => (ParamValue::UInt(0), mask(ty, 0)),
    }
}

fn patterns(ty: ParamType, name: &str, v: &Value) -> Result<Vec<Pattern>, String> {
    let text = text_of(v);
    if matches!(text.as_str(), "any" | "*") {
        return Ok(vec![any(ty)]);
    }
    if text.starts_with('[') {
        let bounds: [u64; 2] = serde_json::from_str(&text).map_err(|_| format!("expected a range [low, high], got {text}"))?;
        let ParamType::UInt(bits) = ty else { return Err("only numbers have ranges".into()) };
        return range(bounds[0], bounds[1], bits.into());
    }
    let Some((value, n)) = text.split_once('/') else {
        return Ok(vec![(single(ty, name, v)?, mask(ty, width(ty)))]);
    };
    let value = single(ty, name, &Value::String(value.into()))?;
    let short = matches!(ty, ParamType::Bytes(16)) && text.contains('.');
    let most = if short { 32 } else { width(ty) };
    let n: u32 = n.parse().ok().filter(|n| *n <= most).ok_or_else(|| format!("`{text}`: a prefix has at most {most} bits"))?;
    let mask = mask(ty, n + if short { 96 } else { 0 });
    Ok(vec![(under(&value, &mask), mask)])
}

/// The bits of a value that its mask has.
fn under(value: &ParamValue, mask: &ParamValue) -> ParamValue {
    match (value, mask) {
        (ParamValue::UInt(v), ParamValue::UInt(m)) => ParamValue::UInt(v & m),
        (ParamValue::Bytes(v), ParamValue::Bytes(m)) => ParamValue::Bytes(v.iter().zip(m).map(|(a, b)| a & b).collect()),
        _ => value.clone(),
    }
}

/// The fewest prefixes that make up a range.
fn range(low: u64, high: u64, bits: u32) -> Result<Vec<Pattern>, String> {
    let top = u64::MAX >> (64 - bits);
    if low > high || high > top {
        return Err(format!("[{low}, {high}] is no range of numbers up to {top}"));
    }
    let (mut at, mut out) = (u128::from(low), Vec::new());
    while at <= u128::from(high) {
        let mut size = if at == 0 { bits } else { at.trailing_zeros().min(bits) };
        while at + (1u128 << size) - 1 > u128::from(high) {
            size -= 1;
        }
        out.push((ParamValue::UInt(at as u64), mask(ParamType::UInt(bits as u8), bits - size)));
        at += 1 << size;
    }
    Ok(out)
}

// ---- dump ----

/// Finds out before the run what cannot be dumped after it.
pub fn check_dumps(desc: &Desc, files: &[(String, PathBuf)]) -> Result<(), Error> {
    for (table, file) in files {
        let next = signal(desc, table, "next")?;
        entry(&next.result).ok_or_else(|| Error::Program(format!("signal `{}` gives no entries", next.name)))?;
        File::create(file).map_err(|e| Error::Io(format!("cannot write {}", file.display()), e))?;
    }
    Ok(())
}

/// Writes tables as they are at the end.
pub fn dump(desc: &Desc, files: &[(String, PathBuf)], cores: &mut [PacketCore]) -> Result<(), Error> {
    for (table, file) in files {
        let next = signal(desc, table, "next")?;
        let parts = if desc.local_tables.iter().any(|t| t == table) { cores.len() } else { cores.len().min(1) };
        let fail = |e: io::Error| Error::Io(format!("cannot write {}", file.display()), e);
        let out = BufWriter::new(File::create(file).map_err(fail)?);
        write_table(next, &mut cores[..parts], is_csv(file), out).map_err(fail)?;
    }
    Ok(())
}

/// Types of the key and the value of an entry.
fn entry(result: &ResultType) -> Option<(&ResultType, &ResultType)> {
    let ResultType::Option(inner) = result else { return None };
    let ResultType::Record(fields) = &**inner else { return None };
    let of = |name: &str| fields.iter().find(|f| f.0 == name).map(|f| &f.1);
    of("cursor")?;
    Some((of("key")?, of("value")?))
}

fn write_table(next: &SignalDesc, cores: &mut [PacketCore], csv: bool, mut out: impl Write) -> io::Result<()> {
    let Some((key, value)) = entry(&next.result) else { return Ok(()) };
    let columns: Vec<String> = columns(key, "key", "k").into_iter().chain(columns(value, "value", "v")).collect();
    let mut rows = 0u64;
    if csv {
        writeln!(out, "{}", columns.iter().map(|c| quoted(c)).collect::<Vec<_>>().join(","))?;
    }
    for core in cores {
        let mut cursor = 0;
        while let Some(bytes) = core.signal(next.handler, &[ParamValue::UInt(cursor)]) {
            let Some(Value::Object(mut entry)) = decode(&next.result, &mut &bytes[..]) else { break };
            let at = entry.get("cursor").and_then(Value::as_u64).unwrap_or(0);
            let mut cells = cells(key, entry.remove("key"));
            cells.extend(self::cells(value, entry.remove("value")));
            if csv {
                writeln!(out, "{}", cells.iter().map(|c| quoted(&text_of(c))).collect::<Vec<_>>().join(","))?;
            } else {
                let pairs: Vec<String> = columns.iter().zip(&cells).map(|(n, v)| format!("{}:{v}", Value::from(n.as_str()))).collect();
                write!(out, "{}{{{}}}", if rows == 0 { "[" } else { ",\n" }, pairs.join(","))?;
            }
            rows += 1;
            if at <= cursor {
                break; // it must move on
            }
            cursor = at;
        }
    }
    if !csv {
        writeln!(out, "{}]", if rows == 0 { "[" } else { "" })?;
    }
    out.flush()
}

fn columns(ty: &ResultType, alone: &str, letter: &str) -> Vec<String> {
    match ty {
        ResultType::Record(fields) => {
            let name = |f: &(String, ResultType)| if f.0.bytes().all(|b| b.is_ascii_digit()) { format!("{letter}{}", f.0) } else { f.0.clone() };
            fields.iter().map(name).collect()
        }
        _ => vec![alone.into()],
    }
}

fn cells(ty: &ResultType, value: Option<Value>) -> Vec<Value> {
    let value = value.unwrap_or(Value::Null);
    match (ty, value) {
        (ResultType::Record(fields), Value::Object(mut map)) => fields.iter().map(|f| map.remove(&f.0).unwrap_or(Value::Null)).collect(),
        (_, value) => vec![value],
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(v: Value) -> Row {
        v.as_object().unwrap().clone()
    }

    #[test]
    fn ranges_are_the_fewest_prefixes() {
        let check = |low: u64, high: u64, bits: u32, count: usize| {
            let list = range(low, high, bits).unwrap();
            assert_eq!(list.len(), count, "[{low}, {high}]");
            let top = if bits == 64 { 1000 } else { (1u64 << bits).min(1 << 16) };
            for x in (0..top).step_by(if top > 1000 { 7 } else { 1 }) {
                let hits = list.iter().filter(|(v, m)| matches!((v, m), (ParamValue::UInt(v), ParamValue::UInt(m)) if x & m == *v)).count();
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
        let n = |s: &str| s.to_string();
        let args = [
            (n("src"), ParamType::UInt(32)), (n("dport"), ParamType::UInt(16)), (n("src_mask"), ParamType::UInt(32)),
            (n("dport_mask"), ParamType::UInt(16)), (n("priority"), ParamType::UInt(32)), (n("action"), ParamType::Bytes(8)),
        ];
        let u = ParamValue::UInt;
        let action = ParamValue::Bytes(b"drop".to_vec());
        let calls = arguments(&args, &row(json!({"src": "10.1.2.3/8", "dport": 80, "action": "drop"}))).unwrap();
        assert_eq!(calls, [vec![u(10 << 24), u(80), u(0xff00_0000), u(0xffff), u(0), action.clone()]]);
        let calls = arguments(&args, &row(json!({"dport": [1, 3], "priority": 7, "action": "drop"}))).unwrap();
        assert_eq!(calls, [vec![u(0), u(1), u(0), u(0xffff), u(7), action.clone()], vec![u(0), u(2), u(0), u(0xfffe), u(7), action]]);
        for (bad, why) in [
            (json!({"dport": 80}), "`action` is missing"),
            (json!({"action": "drop", "x": 1}), "`x` is no field of the table; its fields: src, dport, priority, action"),
            (json!({"action": "drop", "src": "10.0.0.0/33"}), "at most 32 bits"),
            (json!({"action": "drop", "dport": 65536}), "must be at most 65535"),
            (json!({"action": "drop", "dport": [3, 2]}), "is no range"),
        ] {
            let e = arguments(&args, &row(bad.clone())).unwrap_err();
            assert!(e.contains(why), "{bad}: {e}");
        }
    }

    #[test]
    fn prefixes_of_either_family() {
        let (v, m) = patterns(ParamType::Bytes(16), "src", &json!("10.9.0.0/15")).unwrap().remove(0);
        let want = |ip: &str| ParamValue::Bytes(octets(ip.parse().unwrap()).to_vec());
        assert_eq!(v, want("10.8.0.0"));
        assert_eq!(m, want("ffff:ffff:ffff:ffff:ffff:ffff:fffe:0"));
        assert_eq!(patterns(ParamType::Bytes(16), "src", &json!("2001:db8::/32")).unwrap()[0].1, want("ffff:ffff::"));
        assert_eq!(single(ParamType::UInt(48), "m", &json!("02:00:00:00:00:ff")).unwrap(), ParamValue::UInt(0x0200_0000_00ff));
    }

    #[test]
    fn csv_is_read() {
        let rows = csv_rows("src,action\n10.0.0.1,drop\n\n,\"a \"\"b\"\", c\"\n").unwrap();
        assert_eq!(rows[0], row(json!({"src": "10.0.0.1", "action": "drop"})));
        assert_eq!(rows[1], row(json!({"action": "a \"b\", c"})));
        assert_eq!(csv_rows("a,b\n1\n").unwrap_err(), "row 1 has 1 fields, the first line 2");
    }
}
