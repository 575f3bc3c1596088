//! Rows: entries of tables in the text forms of users, files and scripts, and in the forms of a
//! table's signals.
//!
//! In: JSON objects or CSV lines with the fields of key and value (those of a tuple without names
//! are `k0`, `k1`, … and `v0`, `v1`, …). Out: the arguments of `TABLE.insert` and the like. The way
//! back starts from the answers of `TABLE.next`. A field `x` with a companion `x_mask` is a
//! pattern:
//!
//! - a value;
//! - a prefix (`10.0.0.0/8`);
//! - a range (`[1024, 65535]`), which becomes as many prefixes as it needs;
//! - a value and its mask (`5&255`);
//! - absent, which matches every value.
//!
//! Bytes that are no text are written `0x00ff`.

use crate::signal::{decode, HandlerFault, RunHandler};
use crate::value_syntax::{self, expected, octets, short, single, text_of};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{json, Map, Value};
use std::collections::HashMap;
use std::fmt;
use std::net::Ipv6Addr;
use wireloom_ir::desc::{Desc, Form, ParamType, ParamValue, ResultType, SignalDesc};
use wireloom_ir::suggestions;

pub type Row = Map<String, Value>;

/// The most calls that one row may stand for.
pub const ROW_MAX: usize = 65_536;

// ---- from text ----

/// Without the byte order mark that spreadsheets and some editors begin files with.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// A list of objects, or one object per line.
pub fn json_rows(text: &str) -> Result<Vec<Row>, String> {
    let text = without_mark(text);
    if text.trim_start().starts_with('{') {
        let rows = serde_json::Deserializer::from_str(text).into_iter::<Once>().enumerate();
        return rows.map(|(n, row)| row.map(|r| r.0).map_err(|e| format!("object {}: {e}", n + 1))).collect();
    }
    let rows: Vec<Once> = serde_json::from_str(text).map_err(|e| format!("expected a list of objects: {e}"))?;
    Ok(rows.into_iter().map(|r| r.0).collect())
}

/// An object whose fields are each there once.
struct Once(Row);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Once, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Once;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Once, A::Error> {
                let mut row = Row::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if row.contains_key(&name) {
                        return Err(A::Error::custom(format!("`{name}` is given twice")));
                    }
                    row.insert(name, value);
                }
                Ok(Once(row))
            }
        }
        from.deserialize_map(FieldsVisitor)
    }
}

/// The first line's names, and the rows under it (RFC 4180). A field with nothing in it is absent,
/// but `""` is an empty text. A number is one, as in JSON: so dumps show durations.
pub fn csv_rows(text: &str) -> Result<(Vec<String>, Vec<Row>), String> {
    let mut records = csv_records(without_mark(text))?.into_iter();
    let names: Vec<String> =
        records.next().unwrap_or_default().into_iter().map(|f| f.unwrap_or_default().trim().to_string()).collect();
    if let Some((_, name)) = names.iter().enumerate().find(|(i, n)| names[..*i].contains(n)) {
        return Err(format!("the first line names `{name}` twice"));
    }
    let row = |(n, fields): (usize, Vec<Option<String>>)| {
        if fields.len() != names.len() {
            return Err(format!("row {} has {} fields, the first line {}", n + 1, fields.len(), names.len()));
        }
        Ok(names.iter().zip(fields).filter_map(|(name, text)| Some((name.clone(), csv_value(text?)))).collect())
    };
    let rows = records.enumerate().map(row).collect::<Result<_, _>>()?;
    // A column without a name is none, as long as nothing stands in it.
    Ok((names.into_iter().filter(|n| !n.is_empty()).collect(), rows))
}

fn csv_value(text: String) -> Value {
    match text.parse::<u64>() {
        Ok(n) if n.to_string() == text => n.into(),
        _ => Value::String(text),
    }
}

/// The fields of each line that is not blank; `"a ""b"" c"` is `a "b" c`, and between quotes lines
/// may end.
fn csv_records(text: &str) -> Result<Vec<Vec<Option<String>>>, String> {
    let (mut all, mut record, mut field) = (Vec::new(), Vec::new(), None::<String>);
    let mut quoted = false;
    // Of a line with quotes something was meant, even if it is blank.
    let mut meant = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                field.get_or_insert_default().push('"');
                chars.next();
            }
            '"' => {
                quoted = !quoted;
                meant = true;
                field.get_or_insert_default();
            }
            ',' if !quoted => record.push(field.take()),
            '\r' if !quoted && chars.peek() == Some(&'\n') => {}
            // A return alone ends a line, too.
            '\n' | '\r' if !quoted => end_record(&mut all, &mut record, field.take(), std::mem::take(&mut meant)),
            c => field.get_or_insert_default().push(c),
        }
    }
    if quoted {
        return Err(format!("a quote that begins in row {} has no end", all.len()));
    }
    end_record(&mut all, &mut record, field, meant);
    Ok(all)
}

fn end_record(all: &mut Vec<Vec<Option<String>>>, record: &mut Vec<Option<String>>, last: Option<String>, meant: bool) {
    let blank = !meant && record.is_empty() && last.as_ref().is_none_or(|f| !f.is_empty() && f.trim().is_empty());
    let mut done = std::mem::take(record);
    done.push(last);
    if !blank {
        all.push(done);
    }
}

/// A field of a CSV line.
pub fn quoted(text: &str) -> String {
    let blank = |c: Option<char>| c.is_some_and(char::is_whitespace);
    let edges = text.is_empty() || blank(text.chars().next()) || blank(text.chars().last());
    if edges || text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

/// A value as a field of a CSV line; nothing is absent.
pub fn csv_field(v: &Value) -> String {
    match v {
        Value::Null => String::new(),
        Value::String(s) => quoted(s),
        v => quoted(&v.to_string()),
    }
}

/// A fingerprint of a row, to tell apart rows that several cores have.
pub fn fingerprint(row: &str) -> u128 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let half = |salt: u8| {
        let mut h = DefaultHasher::new();
        (salt, row).hash(&mut h);
        u128::from(h.finish())
    };
    half(0) << 64 | half(1)
}

const DOES: [&str; 6] = ["get", "insert", "remove", "next", "len", "clear"];

/// Whether a signal was made for a table.
pub fn is_of_table(desc: &Desc, s: &SignalDesc) -> bool {
    let parts = s.name.rsplit_once('.');
    parts.is_some_and(|(table, what)| DOES.contains(&what) && desc.tables.iter().any(|t| t.name == table))
}

// ---- to arguments ----

/// Names of the fields of a signal's arguments: those of masks are left out.
pub fn fields(signal: &SignalDesc) -> Vec<&str> {
    signal.args.iter().map(|a| a.name.as_str()).filter(|n| !is_mask(signal, n)).collect()
}

fn is_mask(signal: &SignalDesc, name: &str) -> bool {
    signal.masked && name.strip_suffix("_mask").is_some_and(|of| has(signal, of))
}

fn has(signal: &SignalDesc, name: &str) -> bool {
    signal.args.iter().any(|a| a.name == name)
}

/// The first of `names` that is no field of any of these signals.
pub fn stray<'n>(signals: &[&SignalDesc], names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let known = |n: &str| signals.iter().any(|s| has(s, n) && !is_mask(s, n));
    names.into_iter().find(|n| !known(n))
}

/// The error for a name that is no field.
pub fn no_field(signal: &SignalDesc, name: &str) -> String {
    let names = fields(signal);
    let hint = suggestions::lead(name, names.iter().copied());
    format!("`{}` is no field of the table{hint} its fields: {}", short(name), names.join(", "))
}

/// Whether a field takes patterns.
pub fn is_pattern(signal: &SignalDesc, name: &str) -> bool {
    signal.masked && has(signal, &format!("{name}_mask"))
}

/// Of entries with masks but no priority: prefixes.
fn is_prefixes(signal: &SignalDesc) -> bool {
    signal.masked && !has(signal, "priority")
}

/// The calls that a row stands for: one, or several if there are ranges. `exact`: fields that the
/// signal does not take are an error.
pub fn arguments(signal: &SignalDesc, row: &Row, exact: bool) -> Result<Vec<Vec<ParamValue>>, String> {
    if let Some(name) = stray(&[signal], row.keys().map(String::as_str)).filter(|_| exact) {
        return Err(no_field(signal, name));
    }
    // In the order of the arguments; arguments for masks are filled together with their fields.
    let mut calls: Vec<Vec<Option<ParamValue>>> = vec![vec![None; signal.args.len()]];
    for (i, arg) in signal.args.iter().enumerate() {
        let (name, ty) = (&arg.name, arg.ty);
        if is_mask(signal, name) {
            continue;
        }
        let given = row.get(name).filter(|v| !v.is_null());
        let told = |e: String| format!("`{name}`: {e}");
        let mask = format!("{name}_mask");
        if let Some(m) = signal.args.iter().position(|a| signal.masked && a.name == mask) {
            let patterns = match given {
                Some(v) => patterns(ty, &arg.form, name, v).map_err(told)?,
                None if is_prefixes(signal) => {
                    return Err(format!("`{name}` is missing; it is a prefix, `any` for all"))
                }
                None => vec![any(ty)],
            };
            if is_prefixes(signal) && !patterns.iter().all(|(_, m)| is_prefix(ty, m)) {
                return Err(told(format!(
                    "expected a prefix (got `{}`)",
                    short(&given.map(text_of).unwrap_or_default())
                )));
            }
            if calls.len() * patterns.len() > ROW_MAX {
                return Err(format!("its ranges stand for more than {ROW_MAX} entries"));
            }
            let each = |call: &Vec<Option<ParamValue>>| {
                let with = |(value, mask): &Pattern| {
                    let mut call = call.clone();
                    (call[i], call[m]) = (Some(value.clone()), Some(mask.clone()));
                    call
                };
                patterns.iter().map(with).collect::<Vec<_>>()
            };
            calls = calls.iter().flat_map(each).collect();
            continue;
        }
        let value = match (given, &arg.default) {
            (Some(v), _) => single(ty, &arg.form, name, v).map_err(told)?,
            (None, Some(v)) => v.clone(),
            (None, None) => return Err(format!("`{name}` is missing; it is {}", expected(ty, &arg.form))),
        };
        calls.iter_mut().for_each(|c| c[i] = Some(value.clone()));
    }
    Ok(calls.into_iter().map(|c| c.into_iter().flatten().collect()).collect())
}

/// The first call that would replace another row's entry with a different value: the numbers of
/// both rows. `remove` has the arguments that identify an entry.
pub fn replaced(
    insert: &SignalDesc,
    remove: &SignalDesc,
    calls: &[(usize, Vec<ParamValue>)],
) -> Option<(usize, usize)> {
    let key: Vec<bool> = insert.args.iter().map(|a| has(remove, &a.name)).collect();
    let mut seen: HashMap<Vec<&ParamValue>, (usize, &Vec<ParamValue>)> = HashMap::new();
    for (row, args) in calls {
        let of = args.iter().zip(&key).filter(|(_, k)| **k).map(|(a, _)| a).collect();
        if let Some((before, other)) = seen.insert(of, (*row, args)) {
            if before != *row && other != args {
                return Some((before, *row));
            }
        }
    }
    None
}

// ---- patterns ----

type Pattern = (ParamValue, ParamValue);

fn is_prefix(ty: ParamType, mask: &ParamValue) -> bool {
    let bits: Vec<bool> = match mask {
        ParamValue::UInt(m) => (0..width(ty)).rev().map(|i| m >> i & 1 == 1).collect(),
        ParamValue::Bytes(b) => b.iter().flat_map(|b| (0..8).rev().map(move |i| b >> i & 1 == 1)).collect(),
        _ => vec![],
    };
    bits.windows(2).all(|w| w[0] || !w[1])
}

/// The bits that a field has which holds no more than this: patterns are over them, and the others
/// are 0.
fn held(ranges: &[(u64, u64)]) -> Option<u32> {
    match ranges {
        [(0, top)] if top.count_ones() == top.trailing_ones() => Some(top.count_ones()),
        _ => None,
    }
}

fn width(ty: ParamType) -> u32 {
    match ty {
        ParamType::UInt(bits) => bits.into(),
        ParamType::Bytes(n) => n * 8,
        ParamType::Bool => 1,
        ParamType::Duration | ParamType::Endpoint | ParamType::Endpoints(_) | ParamType::Texts(..) => 64,
    }
}

/// A mask of `ones` ones at the front.
fn mask(ty: ParamType, ones: u32) -> ParamValue {
    let all = width(ty);
    match ty {
        ParamType::Bytes(n) => {
            ParamValue::Bytes((0..n).map(|i| (0xff00u32 >> ones.saturating_sub(i * 8).min(8)) as u8).collect())
        }
        _ => ParamValue::UInt(if ones == 0 { 0 } else { u64::MAX >> (64 - all) & u64::MAX << (all - ones) }),
    }
}

/// So many ones, at the end.
fn mask_bits(ones: u32) -> u64 {
    if ones == 0 {
        0
    } else {
        u64::MAX >> (64 - ones)
    }
}

fn any(ty: ParamType) -> Pattern {
    match ty {
        ParamType::Bytes(n) => (ParamValue::Bytes(vec![0; n as usize]), mask(ty, 0)),
        _ => (ParamValue::UInt(0), mask(ty, 0)),
    }
}

fn patterns(ty: ParamType, form: &Form, name: &str, v: &Value) -> Result<Vec<Pattern>, String> {
    let text = text_of(v);
    if matches!(text.as_str(), "any" | "*") {
        return Ok(vec![any(ty)]);
    }
    if text.starts_with('[') {
        let bounds: [u64; 2] =
            serde_json::from_str(&text).map_err(|_| format!("expected a range [low, high] (got {})", short(&text)))?;
        let (ParamType::UInt(bits), Form::Plain | Form::Within(_)) = (ty, form) else {
            return Err("only numbers have ranges".into());
        };
        if let Form::Within(ranges) = form {
            if !ranges.iter().any(|(a, b)| *a <= bounds[0] && bounds[1] <= *b) {
                return Err(format!("expected {} (got [{}, {}])", expected(ty, form), bounds[0], bounds[1]));
            }
        }
        return range(bounds[0], bounds[1], bits.into());
    }
    if let (Form::Within(ranges), true) = (form, text.contains(['/', '&'])) {
        let Some(bits) = held(ranges) else { return Err(format!("takes values and ranges (got `{}`)", short(&text))) };
        // As if the field were of so many bits.
        let narrow = patterns(ParamType::UInt(bits as u8), &Form::Plain, name, v)?;
        let above = !mask_bits(bits) & mask_bits(width(ty));
        let widen = |(v, m): Pattern| {
            (
                v,
                match m {
                    ParamValue::UInt(m) => ParamValue::UInt(m | above),
                    m => m,
                },
            )
        };
        return Ok(narrow.into_iter().map(widen).collect());
    }
    let of = |text: &str| single(ty, form, name, &Value::String(text.into()));
    if let Some((value, mask)) = text.split_once('&') {
        let (value, mask) = (of(value)?, of(mask)?);
        return Ok(vec![(under(&value, &mask), mask)]);
    }
    let Some((value, n)) = text.split_once('/') else {
        return Ok(vec![(single(ty, form, name, v)?, mask(ty, width(ty)))]);
    };
    if *form == Form::Wide {
        return Err(format!("takes values and masks (got `{}`)", short(&text)));
    }
    let value = of(value)?;
    let short = *form == Form::Ip && !text.contains(':');
    let most = if short { 32 } else { width(ty) };
    let n: u32 =
        n.parse().ok().filter(|n| *n <= most).ok_or_else(|| format!("`{text}`: a prefix has at most {most} bits"))?;
    let mask = mask(ty, n + if short { 96 } else { 0 });
    Ok(vec![(under(&value, &mask), mask)])
}

/// The bits of a value that its mask has.
fn under(value: &ParamValue, mask: &ParamValue) -> ParamValue {
    match (value, mask) {
        (ParamValue::UInt(v), ParamValue::UInt(m)) => ParamValue::UInt(v & m),
        (ParamValue::Bytes(v), ParamValue::Bytes(m)) => {
            ParamValue::Bytes(v.iter().zip(m).map(|(a, b)| a & b).collect())
        }
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

// ---- from answers ----

/// The form of an entry: types of the key and the value, and whether it has a mask and a priority.
#[derive(Clone, Debug)]
pub struct Shape {
    key: ResultType,
    value: ResultType,
    /// Of a table of patterns: how the key's fields are written. `lpm`: no priority of their own.
    masks: Option<Vec<(ParamType, Form)>>,
    lpm: bool,
    pub columns: Vec<String>,
}

impl Shape {
    /// Of the answers of `TABLE.next`; None: they are no entries. `insert` tells how patterns are
    /// written.
    pub fn of(next: &SignalDesc, insert: Option<&SignalDesc>) -> Option<Shape> {
        let ResultType::Record(outer) = &next.result else { return None };
        let ResultType::Option(inner) = &outer.iter().find(|f| f.0 == "entry")?.1 else { return None };
        let ResultType::Record(list) = &**inner else { return None };
        let of = |name: &str| list.iter().find(|f| f.0 == name).map(|f| &f.1);
        let (key, value) = (of("key")?.clone(), of("value")?.clone());
        let masked = of("mask").is_some();
        let masks = insert.filter(|_| masked).map(|s| {
            let args = s.args.iter().filter(|a| is_pattern(s, &a.name));
            args.map(|a| (a.ty, a.form.clone())).collect::<Vec<_>>()
        });
        let lpm = !insert.is_some_and(|s| has(s, "priority"));
        let priority = (masks.is_some() && !lpm).then(|| "priority".to_string());
        let (keys, values) = (columns(&key, "key", "k"), columns(&value, "value", "v"));
        // By the names that rows have: a value's field called as one of the key has another one
        // there.
        let names = insert.map_or(Vec::new(), |s| fields(s).into_iter().map(String::from).collect::<Vec<_>>());
        let behind = names.len().checked_sub(values.len()).filter(|n| *n >= keys.len());
        let values = behind.map_or(values, |n| names[n..].to_vec());
        let keys = if behind.is_some() { names[..keys.len()].to_vec() } else { keys };
        let columns = priority.into_iter().chain(keys).chain(values).collect();
        Some(Shape { key, value, masks, lpm, columns })
    }

    /// The cells of an entry, one per column.
    pub fn cells(&self, entry: &mut Row) -> Vec<Value> {
        let mut key = cells(&self.key, entry.remove("key"));
        let mut out = Vec::with_capacity(self.columns.len());
        if let Some(forms) = &self.masks {
            if !self.lpm {
                out.push(entry.remove("priority").unwrap_or(Value::Null));
            }
            let masks = cells(&self.key, entry.remove("mask"));
            for ((k, m), (ty, form)) in key.iter_mut().zip(&masks).zip(forms) {
                *k = pattern_text(*ty, form, k, m);
                if self.lpm && k.is_null() {
                    *k = json!(if *form == Form::Ip4 { "0.0.0.0/0" } else { "::/0" });
                }
            }
        }
        out.append(&mut key);
        out.extend(cells(&self.value, entry.remove("value")));
        out
    }

    /// Fields that may be anything are left out.
    pub fn omits(&self) -> bool {
        self.masks.is_some()
    }

    /// An entry as a row.
    pub fn row(&self, entry: &mut Row) -> Row {
        let cells = self.cells(entry);
        self.columns.iter().cloned().zip(cells).filter(|(_, v)| !(self.omits() && v.is_null())).collect()
    }
}

fn columns(ty: &ResultType, alone: &str, letter: &str) -> Vec<String> {
    match ty {
        ResultType::Record(fields) => {
            let name = |f: &(String, ResultType)| {
                if f.0.bytes().all(|b| b.is_ascii_digit()) {
                    format!("{letter}{}", f.0)
                } else {
                    f.0.clone()
                }
            };
            fields.iter().map(name).collect()
        }
        _ => vec![alone.into()],
    }
}

/// The fields of a value by the names that rows have.
pub fn named(ty: &ResultType, value: Value) -> Row {
    columns(ty, "value", "v").into_iter().zip(cells(ty, Some(value))).collect()
}

fn cells(ty: &ResultType, value: Option<Value>) -> Vec<Value> {
    let value = value.unwrap_or(Value::Null);
    match (ty, value) {
        (ResultType::Record(fields), Value::Object(mut map)) => {
            fields.iter().map(|f| map.remove(&f.0).unwrap_or(Value::Null)).collect()
        }
        (_, value) => vec![value],
    }
}

/// A value and its mask as a pattern that [`patterns`] reads; null is any.
fn pattern_text(ty: ParamType, form: &Form, value: &Value, mask: &Value) -> Value {
    let parse = |v: &Value| bits_of(ty, form, v);
    let (Some(v), Some(mut m)) = (parse(value), parse(mask)) else { return value.clone() };
    let mut width = width(ty);
    let mut mask = mask.clone();
    if m == 0 {
        return Value::Null;
    }
    if let Form::Within(ranges) = form {
        // Bits above the field's own are implied.
        if let Some(bits) =
            held(ranges).filter(|bits| v >> bits == 0 && m >> bits == u128::from(mask_bits(width - bits)))
        {
            (width, m) = (bits, m & u128::from(mask_bits(bits)));
            mask = json!(m as u64);
        }
    }
    let ones = (m << (128 - width)).leading_ones().min(width);
    if ones == width {
        return value.clone();
    }
    if ones != m.count_ones() {
        return Value::String(format!("{}&{}", text_of(value), text_of(&mask)));
    }
    match form {
        Form::Ip if v >> 32 == 0xffff && ones >= 96 => Value::String(format!("{}/{}", text_of(value), ones - 96)),
        Form::Plain | Form::Within(_) => json!([v as u64, (v | (u128::MAX >> (128 - width) & !m)) as u64]),
        _ => Value::String(format!("{}/{ones}", text_of(value))),
    }
}

/// A value's bits, from its text.
fn bits_of(ty: ParamType, form: &Form, v: &Value) -> Option<u128> {
    match (form, ty) {
        (Form::Ip | Form::Ip6, _) => v.as_str()?.parse().ok().map(|ip| u128::from(Ipv6Addr::from(octets(ip)))),
        (_, ParamType::UInt(_)) => match value_syntax::parse(ty, &text_of(v)).ok()? {
            ParamValue::UInt(n) => Some(n.into()),
            _ => None,
        },
        _ => None,
    }
}

/// The cursor behind the last entry.
pub const END: u64 = u64::MAX;

/// One step of a walk over a core's part of a table, by its signal `next`. It returns the entry, if
/// the step found one, and the advanced cursor.
pub fn step(run: &mut RunHandler, next: &SignalDesc, cursor: u64) -> Result<(Option<Row>, u64), HandlerFault> {
    let bytes = run(next.handler, &[ParamValue::UInt(cursor)])?;
    let Some(Value::Object(mut step)) = decode(&next.result, &mut &bytes[..]) else { return Ok((None, END)) };
    let at = step.get("cursor").and_then(Value::as_u64).filter(|at| *at > cursor).unwrap_or(END);
    let entry = match step.remove("entry") {
        Some(Value::Object(entry)) => Some(entry),
        _ => None,
    };
    Ok((entry, at))
}

#[cfg(test)]
mod tests;
