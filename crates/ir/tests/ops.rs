//! The tables of operations in the pages are those of `ops.rs`. `BLESS=1` writes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use wireloom_golden::{compare, Golden};
use wireloom_ir::ops::{functions, Call, Device, Function, Operation, Rows, STATEMENTS};
use wireloom_ir::{BinOp, Builtin, UnOp};

fn rows() -> impl Iterator<Item = &'static Operation> {
    fn of<T: Rows>() -> impl Iterator<Item = &'static Operation> {
        T::ROWS.iter().map(|(_, row)| row)
    }
    of::<UnOp>().chain(of::<BinOp>()).chain(of::<Builtin>())
}

/// Each page with its tables, each behind its heading in place of the one that is there.
fn page(name: &str, tables: &[(&str, String)]) -> Golden {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let mut text = fs::read_to_string(&path).expect("the page is there");
    for (heading, table) in tables {
        let section = text.find(&format!("\n{heading}\n")).expect("the page has the heading");
        let start = section + text[section..].find("\n| ").expect("it has a table") + 1;
        let end = start + text[start..].find("\n\n").expect("the table ends") + 1;
        text.replace_range(start..end, table);
    }
    Golden { path, text: Some(text) }
}

fn of_language(crypto: bool) -> String {
    let mut all: Vec<Function> = functions().filter(|f| f.is_crypto() == crypto).collect();
    all.sort_by_key(Function::name);
    let rows = all.iter().map(|f| format!("| `{}` | {} |\n", f.usage, f.doc));
    "| function | result |\n|---|---|\n".chars().chain(rows.collect::<String>().chars()).collect()
}

fn of_ir() -> String {
    let mut table =
        "| operation | operands | result | steps | devices | meaning |\n|---|---|---|---|---|---|\n".to_string();
    for row in rows() {
        let operands: Vec<String> = row.operands.iter().map(ToString::to_string).collect();
        table += &format!(
            "| `{}` | {} | {} | {} | {} | {} |\n",
            row.name,
            operands.join(", "),
            row.result,
            format!("{:?}", row.steps).to_lowercase(),
            devices(row.devices),
            row.doc
        );
    }
    table
}

/// The devices of a row; those without a backend in brackets.
fn devices(all: &[Device]) -> String {
    let has = |d: Device| all.contains(&d);
    let xdp = if has(Device::Xdp) { ", xdp" } else { "" };
    let fpga = if has(Device::Fpga) { " (fpga)" } else { "" };
    format!("cpu{xdp}{fpga}")
}

fn of_placement() -> String {
    let rows: String = STATEMENTS.iter().map(|s| format!("| {} | {} |\n", s.what, devices(s.devices))).collect();
    format!("| construct | devices |\n|---|---|\n{rows}")
}

#[test]
fn the_pages_have_the_tables() {
    let language = [("## Builtins", of_language(false)), ("### Ciphers and digests", of_language(true))];
    let pages = [
        page("language.md", &language),
        page("ir.md", &[("### Operations", of_ir())]),
        page("placement.md", &[("## What runs where", of_placement())]),
    ];
    if let Err(difference) = compare(&pages) {
        panic!("{difference}")
    }
}

#[test]
fn names_are_unique() {
    let names: Vec<&str> = rows().map(|row| row.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    let names: Vec<&str> = functions().map(|f| f.name()).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}

/// A call has as many arguments as the builtin has operands; some builtins have more for the
/// compiler's own use.
#[test]
fn a_usage_has_the_operands_of_its_row() {
    for f in functions() {
        let Call::Builtin(b) = f.call else { continue };
        let (call, row) = (f.arity(), b.row().arity());
        assert!(row.contains(call.start()) && row.contains(call.end()), "{}", f.usage);
        assert!(call.end() < &usize::MAX || row.end() == &usize::MAX, "{}", f.usage);
        for n in 0..*call.start() {
            assert!(b.row().operand(n).is_some(), "{}", f.usage);
        }
    }
}
