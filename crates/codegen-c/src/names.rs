//! Names in C, stable from the source, and unique.
//!
//! [`ident`] is injective. Plain names stay unchanged, and `__` joins the parts of dotted names.
//! Other names get a part that begins with a digit, which no source name has. Names of units,
//! records and tables end in `_`. So derived names (`NAME_view`, `NAME_tail`) have `__` where the
//! name ends, and differ from names derived from others.

use wireloom_ir::*;

pub use wireloom_ir::c_words::is_c_word;

/// Beginnings of names that generated code and its headers have for themselves.
const OWN: &[&str] = &[
    "wl_", "fn_", "on_", "r_", "s_", "t_", "v_", "eq_", "hash_", "put_", "get_", "keep_", "list_of_", "find_",
    "count_", "any_", "view_", "enc_", "frame_", "merge_", "pack_", "unpack_", "size_", "sums_", "set_", "is_",
    "asked_",
];

/// A C identifier made of a source name (`memcached.Command` → `memcached__Command`).
pub fn ident(name: &str) -> String {
    let plain = |p: &str| {
        p.starts_with(|c: char| c.is_ascii_alphabetic())
            && p.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !p.ends_with('_')
            && !p.contains("__")
    };
    if name.split('.').all(plain) {
        let s = name.replace('.', "__");
        return if is_c_word(&s) { s + "__0v" } else { s };
    }
    // For people the letters, for the compiler all bytes.
    let letters: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|p| !p.is_empty()).collect();
    let first =
        if letters.first().is_some_and(|p| p.starts_with(|c: char| c.is_ascii_alphabetic())) { "" } else { "n" };
    let bytes: String = name.bytes().map(|b| format!("{b:02x}")).collect();
    format!("{first}{}__0x{bytes}", letters.join("_"))
}

/// Part of an identifier made of a C type.
pub fn mangle(cty: &str) -> String {
    cty.replace("struct ", "").replace("unsigned __int128", "u128").replace(' ', "_")
}

/// A local of a body: its source name and its index, so that shadowing needs no thought.
pub fn local(l: &Local, i: usize) -> String {
    let name = if l.name.is_empty() { "t".into() } else { ident(&l.name) };
    if OWN.iter().any(|o| name.starts_with(o)) {
        format!("v__{name}_{i}")
    } else {
        format!("{name}_{i}")
    }
}

/// The function of an input that is joined to.
pub fn input(m: &Module, i: InputId) -> String {
    format!("in_{}_{}", i.0, ident(&m.inputs[i.index()].name))
}

/// The struct of a unit's fields; `_view` is appended for a message's view.
pub fn unit(m: &Module, u: UnitId) -> String {
    let name = nth(m.units.iter().map(|u| &u.name), u.index());
    // Short names with `_` behind them are variables of parsers.
    if name.len() <= 3 || OWN.iter().any(|o| name.starts_with(o)) {
        format!("u__{name}_")
    } else {
        name + "_"
    }
}

/// Identifier of the i-th of several names; its number is appended where an earlier one is the
/// same.
fn nth<'a>(names: impl Iterator<Item = &'a String> + Clone, i: usize) -> String {
    let Some(name) = names.clone().nth(i) else { return "none".into() };
    if names.take(i).any(|n| n == name) {
        format!("{}__{i}", ident(name))
    } else {
        ident(name)
    }
}

pub fn func(m: &Module, f: FuncId) -> String {
    format!("fn_{}", nth(m.funcs.iter().map(|f| &f.name), f.index()))
}
pub fn record(m: &Module, r: RecordId) -> String {
    nth(m.records.iter().map(|r| &r.name), r.index()) + "_"
}
pub fn state(m: &Module, s: StateId) -> String {
    nth(m.states.iter().map(|s| &s.name), s.index())
}
pub fn session(m: &Module, s: SessionId) -> String {
    nth(m.sessions.iter().map(|s| &s.name), s.index())
}
pub fn table(m: &Module, t: TableId) -> String {
    format!("t_{}_", nth(m.tables.iter().map(|t| &t.name), t.index()))
}
/// The member of a unit's parameter.
pub fn param(name: &str) -> String {
    format!("p__{}", ident(name))
}

/// The member of a field in its unit's struct.
pub fn field(m: &Module, u: UnitId, f: FieldId) -> String {
    let unit = m.unit(u);
    match &unit.fields[f.index()].name {
        Some(name) => {
            let taken = unit.fields[..f.index()].iter().any(|o| o.name.as_deref() == Some(name));
            if taken {
                format!("{}__{}", ident(name), f.0)
            } else {
                ident(name)
            }
        }
        None => format!("_{}", f.0),
    }
}

/// The prefix of names that belong to one field of a unit; a suffix follows.
pub fn field_of(m: &Module, u: UnitId, f: FieldId) -> String {
    format!("{}_0{}_", unit(m, u), field(m, u, f))
}

/// A call of a function, with its arguments as C has them.
pub fn call(m: &Module, f: FuncId, args: &str) -> String {
    match &m.funcs[f.index()].body {
        FuncBody::Extern { symbol, .. } => format!("{}({args})", extern_fn(symbol)),
        FuncBody::Body(_) if args.is_empty() => format!("{}(x)", func(m, f)),
        FuncBody::Body(_) => format!("{}(x, {args})", func(m, f)),
    }
}

/// A function in C is called by a name that no header has; an assembler name in its declaration
/// leads to it.
pub fn extern_fn(symbol: &str) -> String {
    format!("fn__{}", ident(symbol))
}

/// The assembler's name of a program's function in C. It is no name in C, so neither generated code
/// nor the C library has it.
pub fn extern_symbol(symbol: &str) -> String {
    format!("extern.{symbol}")
}

/// Text that is safe inside a C comment.
pub fn comment(s: &str) -> String {
    s.replace("*/", "* /").replace("/*", "/ *").replace(['\n', '\\'], " ")
}

/// A C string literal of these bytes; digits after an escape are escaped, too.
pub fn literal(bytes: &[u8]) -> String {
    let mut s = String::from("\"");
    for b in bytes {
        match b {
            b'"' | b'\\' | b'?' => {
                s.push('\\');
                s.push(*b as char)
            }
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

    /// Names that look alike, over the few signs that matter, all get names of their own, which C
    /// takes.
    #[test]
    fn no_two_names_are_the_same() {
        let mut names = vec![String::new()];
        for length in 1..=6 {
            let shorter: Vec<String> = names.iter().filter(|n| n.len() == length - 1).cloned().collect();
            for n in shorter {
                names.extend(["a", "_", ".", "0", "x"].iter().map(|c| format!("{n}{c}")))
            }
        }
        names.extend(["int", "int_", "int__0v", "EOF", "NULL", "_EOF", "errno", "a b", "a-b"].map(String::from));
        let mut seen = std::collections::HashMap::new();
        for n in &names {
            let c = ident(n);
            assert!(
                c.starts_with(|c: char| c.is_ascii_alphabetic())
                    && c.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                    && !is_c_word(&c),
                "{n:?}: {c}"
            );
            assert!(!c.ends_with('_'), "{n:?}: {c}");
            if let Some(other) = seen.insert(c.clone(), n) {
                panic!("{n:?} and {other:?} are both {c}")
            }
        }
    }

    #[test]
    fn identifiers_and_literals() {
        assert_eq!(ident("memcached.Command"), "memcached__Command");
        assert_eq!(ident("a_b1"), "a_b1");
        assert_eq!(ident("default"), "default__0v");
        assert_eq!(ident("EOF"), "EOF__0v");
        assert_eq!(ident("2x"), "n2x__0x3278");
        assert_eq!(ident("_x"), "x__0x5f78");
        assert_eq!(literal(b"a\r\n\x001\"\\?"), "\"a\\r\\n\\0001\\\"\\\\\\?\"");
        assert_eq!(comment("a */ b"), "a * / b");
    }
}
