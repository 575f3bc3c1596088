//! The API for tests, `wireloom test` and fuzzers: parse a message and see its fields; run a test
//! block.

use crate::differential::Mock;
use crate::eval::field_name;
use crate::grammar::tree::{Content, FieldNode, Node};
use crate::grammar::{Answer, Grammar, View};
use crate::value::Value;
use std::fmt::Write;
use std::sync::Arc;
use wireloom_ir::*;
use wireloom_runtime::abi::{wl_parser, WL_M_IN_STEP, WL_M_OMIT, WL_T_DONE};

/// The result of parsing some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A message of `used` bytes; `dump` names its fields, line by line.
    Message { head: usize, used: usize, flags: u32, dump: String },
    /// It needs more bytes.
    More,
    /// `used`: bytes after which the stream is in step again.
    Bad { kind: FaultKind, place: PlaceId, in_step: bool, used: usize },
}

/// Parses the message at the start of `bytes`. `eof`: nothing follows them.
pub fn parse_message(module: &Module, unit: UnitId, bytes: &[u8], ctx: u64, eof: bool) -> Parsed {
    let mut module = module.clone();
    crate::grammar::tail::intern_types(&mut module);
    parse_with(&Grammar::new(Arc::new(module)), unit, bytes, ctx, eof)
}

/// As [`parse_message`], with grammars that are ready.
pub fn parse_with(g: &Grammar, unit: UnitId, bytes: &[u8], ctx: u64, eof: bool) -> Parsed {
    let mut v =
        View { parser: wl_parser { ctx, ..wl_parser::default() }, extra: Default::default(), slots: Vec::new() };
    let mut answer = g.parse(unit, &mut v, bytes, eof);
    let head = v.parser.head as usize;
    let mut used = head;
    if answer == Answer::Head {
        loop {
            let omit = v.parser.flags & WL_M_OMIT;
            let (next, n) = g.tail(unit, &mut v, &bytes[used.min(bytes.len())..], eof);
            answer = next;
            used += n;
            if answer != Answer::More || v.parser.flags & WL_M_OMIT == omit {
                break;
            }
        }
    }
    match answer {
        Answer::More => Parsed::More,
        Answer::Bad | Answer::Head => Parsed::Bad {
            kind: FaultKind(v.parser.fault),
            place: PlaceId(v.parser.place),
            in_step: v.parser.flags & WL_M_IN_STEP != 0,
            used: if v.parser.flags & WL_M_IN_STEP != 0 { used } else { 0 },
        },
        Answer::Whole => {
            let whole = &bytes[..used.min(bytes.len())];
            let mut p = g.parser(whole, true);
            let def = g.module.unit(unit);
            let dump = match p.message(unit, def, g.args(unit, ctx)) {
                Ok(node) => dump(&g.module, &node, whole),
                Err(halt) => format!("(not readable as a whole: {halt:?})\n"),
            };
            Parsed::Message { head, used, flags: v.parser.flags, dump }
        }
    }
}

/// The fields of a parsed unit, one a line, nested ones indented.
pub fn dump(m: &Module, node: &Node, buf: &[u8]) -> String {
    let mut out = String::new();
    unit(m, node, buf, 0, &mut out);
    out
}

fn unit(m: &Module, node: &Node, buf: &[u8], depth: usize, out: &mut String) {
    let def = m.unit(node.unit);
    for (i, found) in node.fields.iter().enumerate() {
        let Some(found) = found else { continue };
        let f = FieldId(i as u32);
        if matches!(found.content, Content::None) {
            continue;
        }
        let name = field_name(def, f);
        let _ = write!(out, "{:1$}{name}", "", 2 * depth);
        field(m, found, buf, depth, out);
    }
}

fn field(m: &Module, found: &FieldNode, buf: &[u8], depth: usize, out: &mut String) {
    let end = match &found.content {
        Content::None => writeln!(out),
        Content::Scalar(v) => writeln!(out, " = {}", text(v)),
        Content::Span(a, b) => writeln!(out, " = \"{}\"", buf[*a..*b].escape_ascii()),
        Content::Case(n) => writeln!(out, " is case {n}"),
        Content::Unit(inner) => {
            let _ = writeln!(out, ": {}", m.unit(inner.unit).name);
            return unit(m, inner, buf, depth + 1, out);
        }
        Content::Items(items) => {
            let _ = writeln!(out, ": {} items", items.len());
            for item in items {
                let _ = write!(out, "{:1$}-", "", 2 * depth + 2);
                field(m, item, buf, depth + 1, out);
            }
            Ok(())
        }
    };
    let _ = end;
}

fn text(v: &Value) -> String {
    match v {
        Value::Int(i) => i.to_string(),
        Value::Bool(b) => b.to_string(),
        Value::Bytes(b) => format!("\"{}\"", b.escape_ascii()),
        Value::Option(Some(v)) => text(v),
        Value::Option(None) => "none".into(),
        other => format!("{other:?}"),
    }
}

/// Why a test block failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FaultKind,
    pub place: PlaceId,
    /// The place in the source, and the text.
    pub message: String,
}

/// Runs a `test` block of code. Simulated runs ([`TestKind::Sim`]) need the runtime:
/// `wireloom test` does those.
pub fn eval_test(module: &Module, test: usize) -> Result<(), Failure> {
    let failure = |kind, place, message: String| Err(Failure { kind, place, message });
    let Some(Test { name, kind: TestKind::Code(handler), .. }) = module.tests.get(test) else {
        return failure(FaultKind::EXPECT, PlaceId(0), format!("test {test} is not a block of code"));
    };
    let program = crate::program(Arc::new(module.clone()));
    // SAFETY: the table is our own and lives to the end of this function.
    let mut mock = unsafe { Mock::new(program.table(), program.module(), &[]) };
    let (code, kind, place) = mock.run_plain(handler.0);
    if code == WL_T_DONE {
        return Ok(());
    }
    let at = module.places.get(place as usize);
    let at = at.map_or_else(String::new, |p| format!("{}:{}: {}", p.span.line, p.span.column, p.name));
    failure(FaultKind(kind), PlaceId(place), format!("test \"{name}\" fails with fault {kind} at {at}"))
}
