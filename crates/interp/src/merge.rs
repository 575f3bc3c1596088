//! The meaning of `merge`: sorted streams of messages combined into one, over complete inputs.

use crate::env::Env;
use crate::grammar::parse::{Halt, Parser};
use crate::grammar::tree::{Content, FieldNode, Node};
use crate::stop::{Res, Stop};
use crate::value::{int_type, signed, Value};
use std::cmp::Ordering;
use wireloom_ir::*;

/// One message of an input.
pub(crate) struct Record {
    pub key: Value,
    pub values: Vec<Value>,
    /// Its bytes.
    pub len: usize,
}

/// Why there is no record.
pub(crate) enum NoRecord {
    /// It goes on behind these bytes.
    More(PlaceId),
    Stop(Stop),
}

/// The message at the beginning of `buf`.
pub(crate) fn record(m: &Module, merge: &Merge, buf: &[u8], eof: bool) -> Result<Record, NoRecord> {
    let unit = m.unit(merge.unit);
    let mut p = Parser::new(m, buf, eof);
    let node = match p.message(merge.unit, unit, Vec::new()) {
        Ok(node) => node,
        Err(Halt::More(place)) => return Err(NoRecord::More(place)),
        Err(Halt::Fault { kind, place, .. }) => return Err(NoRecord::Stop(Stop::Fault { kind, place })),
        Err(Halt::Internal(why)) => return Err(NoRecord::Stop(Stop::Internal(why))),
    };
    let values = merge.values.iter().map(|v| value(&node, v.field, buf)).collect();
    Ok(Record { key: value(&node, merge.key, buf), values, len: node.end })
}

struct Reader<'a> {
    m: &'a Module,
    merge: &'a Merge,
    buf: &'a [u8],
    pos: usize,
    last: Option<Value>,
}

impl Reader<'_> {
    /// The next message; a key below the one before it is a fault, a cut message too.
    fn next(&mut self) -> Res<Option<Record>> {
        if self.pos == self.buf.len() {
            return Ok(None);
        }
        let found = record(self.m, self.merge, &self.buf[self.pos..], true).map_err(|none| match none {
            NoRecord::More(place) => Stop::Fault { kind: FaultKind::TRUNCATED, place },
            NoRecord::Stop(stop) => stop,
        })?;
        self.pos += found.len;
        if self.last.as_ref().is_some_and(|last| order(self.m, self.merge, last, &found.key).is_gt()) {
            return Err(unsorted(self.m, self.merge));
        }
        self.last = Some(found.key.clone());
        Ok(Some(found))
    }
}

/// A key below the one before it.
pub(crate) fn unsorted(m: &Module, merge: &Merge) -> Stop {
    Stop::Fault { kind: FaultKind::CONSTRAINT, place: m.unit(merge.unit).fields[merge.key.index()].place }
}

fn value(node: &Node, f: FieldId, buf: &[u8]) -> Value {
    match node.field(f) {
        Some(FieldNode { content: Content::Span(a, b), .. }) => Value::bytes(&buf[*a..*b]),
        Some(FieldNode { content: Content::Scalar(v), .. }) => v.clone(),
        _ => Value::Unit,
    }
}

pub(crate) fn order(m: &Module, merge: &Merge, a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => match int_type(m.ty(m.unit(merge.unit).fields[merge.key.index()].ty)) {
            Some((bits, true)) => signed(*a, bits).cmp(&signed(*b, bits)),
            _ => a.cmp(b),
        },
        _ => Ordering::Equal,
    }
}

/// Combines the records of equal keys, those of earlier inputs first, and renders the result.
pub fn merge_reference(m: &Module, n: usize, inputs: &[&[u8]]) -> Res<Vec<u8>> {
    let merge = &m.merges[n];
    let mut readers: Vec<Reader> = inputs.iter().map(|buf| Reader { m, merge, buf, pos: 0, last: None }).collect();
    let mut heads = readers.iter_mut().map(Reader::next).collect::<Res<Vec<_>>>()?;
    let mut out = Vec::new();
    loop {
        let least = heads.iter().flatten().min_by(|a, b| order(m, merge, &a.key, &b.key)).map(|r| r.key.clone());
        let Some(key) = least else { return Ok(out) };
        let mut sum: Option<Vec<Value>> = None;
        for (reader, head) in readers.iter_mut().zip(&mut heads) {
            while head.as_ref().is_some_and(|r| r.key == key) {
                let values = head.take().map(|r| r.values).unwrap_or_default();
                sum = Some(match sum {
                    None => values,
                    Some(a) => combine(m, merge, &a, &values)?,
                });
                *head = reader.next()?;
            }
        }
        render(m, merge, &key, &sum.unwrap_or_default(), &mut out);
    }
}

pub(crate) fn combine(m: &Module, merge: &Merge, a: &[Value], b: &[Value]) -> Res<Vec<Value>> {
    let mut locals: Vec<Value> = merge.locals.iter().map(|l| Value::zero(m, l.ty)).collect();
    for ((v, a), b) in merge.values.iter().zip(a).zip(b) {
        locals[v.a.index()] = a.clone();
        locals[v.b.index()] = b.clone();
    }
    let env = Env::plain(m, &locals);
    merge.values.iter().map(|v| env.eval(&v.combined)).collect()
}

/// A message of the unit with this key and these values; other fields as when a message is built.
pub(crate) fn render(m: &Module, merge: &Merge, key: &Value, values: &[Value], out: &mut Vec<u8>) {
    let given = |f: FieldId| match merge.values.iter().position(|v| v.field == f) {
        Some(i) => values.get(i).cloned(),
        None => (f == merge.key).then(|| key.clone()),
    };
    crate::generate::render(m, merge.unit, &given, out);
}
