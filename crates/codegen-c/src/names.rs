//! Names in C, stable from the source.

use wireloom_ir::*;

const RESERVED: &[&str] = &[
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float", "for", "goto", "if",
    "inline", "int", "long", "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union",
    "unsigned", "void", "volatile", "while", "bool", "true", "false", "asm", "typeof",
    // Names of the generated file itself.
    "run", "program", "fault_reply", "interim", "init_core", "init_shared", "unit_table", "merge_table", "app_state", "app_session", "app_shared", "main",
];

/// A C identifier made of a source name (`memcached.Command` → `memcached_Command`).
pub fn ident(name: &str) -> String {
    let mut s: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if s.is_empty() || s.as_bytes()[0].is_ascii_digit() { s.insert(0, '_') }
    if RESERVED.contains(&s.as_str()) { s.push('_') }
    s
}

/// Part of an identifier made of a C type.
pub fn mangle(cty: &str) -> String { cty.replace("struct ", "").replace("unsigned __int128", "u128").replace(' ', "_") }

/// A local of a body: its source name and its index, so that shadowing needs no thought.
pub fn local(l: &Local, i: usize) -> String { format!("{}_{i}", ident(&l.name)) }

/// The struct of a unit's fields; `_view` is appended for a message's view.
pub fn unit(m: &Module, u: UnitId) -> String { nth(m.units.iter().map(|u| &u.name), u.index()) }

/// Identifier of the i-th of several names; its number is appended where an earlier one looks the same in C.
fn nth<'a>(names: impl Iterator<Item = &'a String> + Clone, i: usize) -> String {
    let name = names.clone().nth(i).map(|n| ident(n)).unwrap_or_default();
    if names.take(i).any(|n| ident(n) == name) { format!("{name}_{i}") } else { name }
}

pub fn func(m: &Module, f: FuncId) -> String { format!("fn_{}", nth(m.funcs.iter().map(|f| &f.name), f.index())) }
pub fn record(m: &Module, r: RecordId) -> String { nth(m.records.iter().map(|r| &r.name), r.index()) }
pub fn state(m: &Module, s: StateId) -> String { nth(m.states.iter().map(|s| &s.name), s.index()) }
pub fn session(m: &Module, s: SessionId) -> String { nth(m.sessions.iter().map(|s| &s.name), s.index()) }
pub fn table(m: &Module, t: TableId) -> String { format!("t_{}", nth(m.tables.iter().map(|t| &t.name), t.index())) }

/// The member of a field in its unit's struct.
pub fn field(m: &Module, u: UnitId, f: FieldId) -> String {
    let unit = m.unit(u);
    match &unit.fields[f.index()].name {
        Some(name) => {
            let taken = unit.fields[..f.index()].iter().any(|o| o.name.as_deref() == Some(name));
            if taken { format!("{}_{}", ident(name), f.0) } else { ident(name) }
        }
        None => format!("_{}", f.0),
    }
}

/// Text that is safe inside a C comment.
pub fn comment(s: &str) -> String { s.replace("*/", "* /").replace("/*", "/ *").replace(['\n', '\\'], " ") }

/// A C string literal of these bytes; digits after an escape are escaped, too.
pub fn literal(bytes: &[u8]) -> String {
    let mut s = String::from("\"");
    for b in bytes {
        match b {
            b'"' | b'\\' | b'?' => { s.push('\\'); s.push(*b as char) }
            b'\r' => s.push_str("\\r"),
            b'\n' => s.push_str("\\n"),
            b'\t' => s.push_str("\\t"),
            // Three octal digits always end the escape.
            0x20..=0x7e => s.push(*b as char),
            _ => s.push_str(&format!("\\{b:03o}")),
        }
    }
    s.push('"');
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_and_literals() {
        assert_eq!(ident("memcached.Command"), "memcached_Command");
        assert_eq!(ident("default"), "default_");
        assert_eq!(ident("2x"), "_2x");
        assert_eq!(literal(b"a\r\n\x001\"\\?"), "\"a\\r\\n\\0001\\\"\\\\\\?\"");
        assert_eq!(comment("a */ b"), "a * / b");
    }
}
