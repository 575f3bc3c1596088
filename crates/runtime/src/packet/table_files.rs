//! Tables from files and to files: `--load TABLE=FILE` before the first frame, `--dump TABLE=FILE`
//! behind the last.
//!
//! Both use signals that the compiler makes for each table, run on the core that has the entries.
//! The arguments of `TABLE.insert` are the fields of key and value by name. `TABLE.next(cursor)`
//! gives a record: the next `cursor` and perhaps an `entry` of `key` and `value`. Cursor 0 begins,
//! and all ones is the end. [`crate::table_io`] defines rows. A table with a part per core is
//! loaded on all cores and dumped from all. Equal entries of several cores are written once.

use super::core::PacketCore;
use super::options::Inserts;
use crate::core::app::App;
use crate::error::{Error, Origin};
use crate::signal::{HandlerFault, RunHandler};
use crate::table_io::{self, Shape, END};
use serde_json::Value;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use wireloom_ir::desc::{Desc, ParamValue, SegmentDesc, SignalDesc, TableDesc};
use wireloom_ir::suggestions;

fn signal<'a>(desc: &'a Desc, table: &str, what: &str) -> Result<&'a SignalDesc, Error> {
    let name = format!("{table}.{what}");
    desc.signals.iter().find(|s| s.name == name).ok_or_else(|| {
        let tables: Vec<&str> = desc.signals.iter().filter_map(|s| s.name.strip_suffix(&format!(".{what}"))).collect();
        let known = if tables.is_empty() { "none".into() } else { tables.join(", ") };
        if desc.tables.iter().any(|t| t.name == table) {
            return Error::Param(format!(
                "app `{}`: table `{table}` has no `{what}`: a file has no form for all fields of its key and value \
                 (options, lists, signed numbers, those of 128 bits, endpoints, records within them)",
                desc.app
            ));
        }
        let hint = suggestions::lead(table, tables.iter().copied());
        Error::Param(format!("app `{}` has no table `{table}` for this{hint} it has: {known}", desc.app))
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

/// The files that are loaded at the start.
#[derive(Default)]
pub struct Loads(Vec<Load>);

impl Loads {
    pub fn read(desc: &Desc, files: &[(String, PathBuf)]) -> Result<Loads, Error> {
        let origin = |table: &str| Origin::of_app("load", desc, table);
        let load = |(table, file): &(String, PathBuf)| load(desc, table, file).map_err(|e| e.at(origin(table)));
        files.iter().map(load).collect::<Result<_, _>>().map(Loads)
    }

    /// Inserts this core's rows. Rows of shared tables are inserted by the `first` core only.
    pub fn apply(&self, first: bool, run: &mut RunHandler) -> Result<(), (String, HandlerFault)> {
        for load in self.0.iter().filter(|l| l.local || first) {
            for (row, args) in &load.calls {
                run(load.handler, args)
                    .map_err(|fault| (format!("{}: row {row} cannot be inserted", load.file.display()), fault))?;
            }
        }
        Ok(())
    }
}

/// The first core's part in [`Inserts`].
pub struct Inserting {
    load: Load,
    next: usize,
    batches: u64,
    inserts: Arc<Inserts>,
}

impl Inserting {
    pub fn new(desc: &Desc, inserts: &Arc<Inserts>) -> Result<Inserting, Error> {
        Ok(Inserting {
            load: load(desc, &inserts.table, &inserts.file)?,
            next: 0,
            batches: 0,
            inserts: inserts.clone(),
        })
    }

    /// After a batch.
    pub fn step(&mut self, core: &mut PacketCore) {
        self.batches += 1;
        if !self.batches.is_multiple_of(self.inserts.every.max(1)) {
            return;
        }
        let Some((_, args)) = self.load.calls.get(self.next) else { return };
        self.next += 1;
        let begin = Instant::now();
        if core.signal(self.load.handler, args).is_ok() {
            let ns = begin.elapsed().as_nanos() as u64;
            self.inserts.took.lock().unwrap_or_else(|e| e.into_inner()).push(ns);
        }
    }
}

fn load(desc: &Desc, table: &str, file: &Path) -> Result<Load, Error> {
    let insert = signal(desc, table, "insert")?;
    let fail = |e: String| Error::Param(format!("{}: {e}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|e| fail(e.to_string()))?;
    let (names, rows) =
        if is_csv(file) { table_io::csv_rows(&text) } else { table_io::json_rows(&text).map(|r| (Vec::new(), r)) }
            .map_err(fail)?;
    if let Some(name) = table_io::stray(&[insert], names.iter().map(String::as_str)) {
        return Err(fail(format!("the first line: {}", table_io::no_field(insert, name))));
    }
    let mut calls = Vec::new();
    for (n, row) in rows.iter().enumerate() {
        let list = table_io::arguments(insert, row, true).map_err(|e| fail(format!("row {}: {e}", n + 1)))?;
        calls.extend(list.into_iter().map(|args| (n + 1, args)));
    }
    if let Some((before, row)) =
        signal(desc, table, "remove").ok().and_then(|remove| table_io::replaced(insert, remove, &calls))
    {
        log::warn!("{}: row {row} replaces row {before}: they have the same key and other values", file.display());
    }
    Ok(Load {
        file: file.into(),
        handler: insert.handler,
        local: find(desc, table).is_some_and(TableDesc::is_per_core),
        calls,
    })
}

// ---- dump ----

fn shape(desc: &Desc, table: &str, next: &SignalDesc) -> Result<Shape, Error> {
    Shape::of(next, signal(desc, table, "insert").ok())
        .ok_or_else(|| Error::Program(format!("signal `{}` gives no entries", next.name)))
}

/// `--dump counters=FILE` writes all counters, unless a table has that name.
fn is_counters(desc: &Desc, table: &str) -> bool {
    table == "counters" && !desc.signals.iter().any(|s| s.name == "counters.next")
}

/// The counters' sums over the cores: an object, or lines of name and value.
fn write_counters(desc: &Desc, sums: impl Iterator<Item = u64>, csv: bool, mut out: impl Write) -> io::Result<()> {
    let sums = desc.counters.iter().map(|c| c.name.clone()).zip(sums);
    if csv {
        writeln!(out, "counter,value")?;
        sums.into_iter().try_for_each(|(name, n)| writeln!(out, "{},{n}", table_io::quoted(&name)))?;
    } else {
        writeln!(out, "{}", Value::Object(sums.map(|(name, n)| (name, Value::from(n))).collect()))?;
    }
    out.flush()
}

/// Finds tables that cannot be dumped before the run begins.
pub fn check_dumps(desc: &Desc, files: &[(String, PathBuf)]) -> Result<(), Error> {
    let check = |(table, file): &(String, PathBuf)| {
        if !is_counters(desc, table) {
            shape(desc, table, signal(desc, table, "next")?)?;
        }
        // The old content stays until there is something to write.
        let opened = File::options().append(true).create(true).open(file);
        opened.map(drop).map_err(|e| Error::Io(format!("cannot write {}", file.display()), e))
    };
    files.iter().try_for_each(|f| check(f).map_err(|e| e.at(Origin::of_app("dump", desc, &f.0))))
}

fn find<'d>(desc: &'d Desc, table: &str) -> Option<&'d TableDesc> {
    desc.tables.iter().find(|t| t.name == table)
}

/// Whether cores have parts of their own, rather than the same entries.
fn divided(desc: &Desc, table: &str) -> bool {
    find(desc, table).is_some_and(|t| t.is_per_core() && t.written)
}

/// The sums of an app's packet counters, to be written with those of its connections.
pub struct Counted {
    file: PathBuf,
    pub app: Arc<App>,
    sums: Vec<u64>,
}

impl Counted {
    /// `connections`: their counts, by counter.
    pub fn write(&self, connections: &[u64]) -> Result<(), Error> {
        let fail = |e: io::Error| Error::Io(format!("cannot write {}", self.file.display()), e);
        let all = self.sums.iter().enumerate().map(|(n, s)| s.wrapping_add(connections.get(n).copied().unwrap_or(0)));
        write_counters(&self.app.desc, all, is_csv(&self.file), BufWriter::new(File::create(&self.file).map_err(fail)?))
            .map_err(fail)
    }
}

/// Writes tables as they are at the end; counters are for the caller to write. `beside`: what other
/// cores have counted.
pub fn dump(
    app: &Arc<App>,
    files: &[(String, PathBuf)],
    cores: &mut [PacketCore],
    beside: &[u64],
) -> Result<Vec<Counted>, Error> {
    let (desc, mut counted) = (&app.desc, Vec::new());
    for (table, file) in files {
        let fail = |e: io::Error| Error::Io(format!("cannot write {}", file.display()), e);
        if is_counters(desc, table) {
            let parts: Vec<Vec<u64>> = cores.iter().map(PacketCore::counts).collect();
            let here = |i: usize| parts.iter().map(|p| p[i]).sum::<u64>();
            let sums = (0..desc.counters.len()).map(|i| here(i) + beside.get(i).copied().unwrap_or(0)).collect();
            counted.push(Counted { file: file.clone(), app: app.clone(), sums });
            continue;
        }
        let next = signal(desc, table, "next")?;
        let shape = shape(desc, table, next)?;
        let parts = find(desc, table).map_or(0..cores.len(), |t| parts_of(t, desc, cores));
        let parts = if divided(desc, table) { parts } else { parts.start..parts.end.min(parts.start + 1) };
        let out = BufWriter::new(File::create(file).map_err(fail)?);
        write_table(next, &shape, &mut cores[parts], is_csv(file), out).map_err(fail)?;
    }
    Ok(counted)
}

/// The cores of this process whose entries of a table count.
fn parts_of(t: &TableDesc, desc: &Desc, cores: &[PacketCore]) -> Range<usize> {
    let of_app = t.cores_that_count(SegmentDesc::of_cores(&desc.segments).len(), &desc.segments);
    let [first, end] = [of_app.start, of_app.end].map(|n| cores.partition_point(|c| c.index() < n));
    if first < end {
        first..end
    } else {
        0..cores.len()
    }
}

fn write_table(
    next: &SignalDesc,
    shape: &Shape,
    cores: &mut [PacketCore],
    csv: bool,
    mut out: impl Write,
) -> io::Result<()> {
    let mut rows = 0u64;
    if csv {
        writeln!(out, "{}", shape.columns.iter().map(|c| table_io::quoted(c)).collect::<Vec<_>>().join(","))?;
    }
    let (several, mut seen) = (cores.len() > 1, HashSet::new());
    for core in cores {
        let mut cursor = 0;
        while cursor != END {
            let Ok((entry, at)) = table_io::step(&mut |handler, args| core.signal(handler, args), next, cursor) else {
                break;
            };
            cursor = at;
            let Some(mut entry) = entry else { continue };
            let cells = shape.cells(&mut entry);
            let line = if csv {
                cells.iter().map(table_io::csv_field).collect::<Vec<_>>().join(",")
            } else {
                let pairs = shape.columns.iter().zip(&cells).filter(|(_, v)| !(shape.omits() && v.is_null()));
                format!(
                    "{{{}}}",
                    pairs.map(|(n, v)| format!("{}:{v}", Value::from(n.as_str()))).collect::<Vec<_>>().join(",")
                )
            };
            if !several || seen.insert(table_io::fingerprint(&line)) {
                match (csv, rows) {
                    (true, _) => writeln!(out, "{line}")?,
                    (false, 0) => write!(out, "[{line}")?,
                    (false, _) => write!(out, ",\n{line}")?,
                }
                rows += 1;
            }
        }
    }
    if !csv {
        writeln!(out, "{}]", if rows == 0 { "[" } else { "" })?;
    }
    out.flush()
}
