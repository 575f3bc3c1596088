//! Compares the tables of two programs. In: the programs at rest. Out: the first difference.
//!
//! Entries are read as `--dump` does, by the signal `TABLE.next(cursor)`. Its result is a record of
//! the next cursor and an optional entry. The order of entries may differ. Sketches are left out,
//! because the interpreter's are exact and those of compiled code are not.

use super::{hex, Runner};
use wireloom_ir::{desc::SignalDesc, Module, TableKind};
use wireloom_runtime::abi::wl_param;

/// How many entries there are.
pub fn compare(module: &Module, a: &mut Runner, b: &mut Runner) -> Result<u64, String> {
    let signals: Vec<SignalDesc> = a.core.app.desc.signals.iter().filter(|s| is_walk(module, s)).cloned().collect();
    let mut sum = 0;
    for s in signals {
        let (x, y) = (entries(a, &s)?, entries(b, &s)?);
        sum += x.len() as u64;
        if x != y {
            let only = |p: &[Vec<u8>], q: &[Vec<u8>]| {
                p.iter().find(|e| q.binary_search(e).is_err()).map_or("nothing".into(), |e| shown(e))
            };
            let name = s.name.trim_end_matches(".next");
            return Err(format!(
                "table {name} at the end: a has {} entries, b {}\n  only a: {}\n  only b: {}",
                x.len(),
                y.len(),
                only(&x, &y),
                only(&y, &x)
            ));
        }
    }
    Ok(sum)
}

fn is_walk(module: &Module, s: &SignalDesc) -> bool {
    let Some(table) = s.name.strip_suffix(".next") else { return false };
    let exact = |k: TableKind| !matches!(k, TableKind::Bloom | TableKind::CountMin | TableKind::HyperLogLog);
    matches!(s.args.as_slice(), [a] if a.name == "cursor")
        && module.tables.iter().any(|t| t.name == table && exact(t.kind))
}

/// All entries, as the program writes them, sorted.
fn entries(r: &mut Runner, next: &SignalDesc) -> Result<Vec<Vec<u8>>, String> {
    let (mut all, mut cursor) = (Vec::new(), 0);
    loop {
        r.host.result.clear();
        r.task(next.handler, &[wl_param { u: cursor, ..wl_param::default() }]);
        let said = &r.host.result;
        let Some((behind, entry)) = leaf(said) else {
            return Err(format!("signal {} answers {:?}", next.name, String::from_utf8_lossy(said)));
        };
        if let Some(entry) = entry.strip_prefix(b"+") {
            all.push(entry.to_vec());
        }
        if behind == u64::MAX || behind <= cursor {
            all.sort();
            return Ok(all);
        }
        cursor = behind;
    }
}

/// A number, `LENGTH:DIGITS`, and the rest.
fn leaf(b: &[u8]) -> Option<(u64, &[u8])> {
    let colon = b.iter().position(|c| *c == b':')?;
    let n: usize = std::str::from_utf8(&b[..colon]).ok()?.parse().ok()?;
    let digits = b.get(colon + 1..)?.get(..n)?;
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, &b[colon + 1 + n..]))
}

fn shown(entry: &[u8]) -> String {
    std::str::from_utf8(entry).map_or_else(|_| hex(entry), |t| t.escape_debug().to_string())
}
