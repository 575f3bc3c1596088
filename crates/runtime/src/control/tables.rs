//! Commands on tables: list, get, insert, delete, read, clear.
//!
//! Each becomes jobs for the cores that have the table. For a shared table that is the first core.
//! For a table with a part or copy per core it is every core. A job changes whole rows only and
//! lasts a fraction of a millisecond. A request of many rows is many jobs, so packets flow between
//! them. A row that stands for several entries (ranges) is one change: no packet sees a part of it.

use super::answer::{apps_of, fields, several, unknown, word, Answer, Refused};
use crate::abi::{WL_F_CONSTRAINT, WL_F_FULL, WL_F_INDEX};
use crate::signal::{decode, HandlerFault, RunHandler};
use crate::table_io::{self, Row, Shape, END};
use crate::value_syntax;
use crate::view::{Hosted, View};
use serde_json::{json, Value};
use std::ops::Range;
use std::sync::Arc;
use wireloom_ir::desc::{ArgDesc, Desc, ParamValue, ResultType, SegmentDesc, SignalDesc, TableDesc};
use wireloom_ir::text::table_kind;

/// Entries that one job inserts or removes, about.
const JOB: usize = 256;
/// Rows of an answer, if the request does not say, and at most.
const ROWS: u64 = 1000;
const ROWS_MAX: u64 = 10_000;
/// Bytes of an answer's rows, about.
const BYTES: usize = 1 << 20;
/// Steps of a job that walks a table: each looks at some thousand places at most.
const STEPS: usize = 64;
/// Counting the entries of a table with expiry looks at all of them; of larger ones the statistics
/// tell, which packets bring up to date.
const COUNTED: u64 = 64 << 10;

/// A table of an app.
struct HostedTable<'v> {
    hosted: &'v Hosted,
    desc: &'v Desc,
    index: usize,
}

impl<'v> HostedTable<'v> {
    fn name(&self) -> &'v str {
        &self.is().name
    }

    fn is(&self) -> &'v TableDesc {
        &self.desc.tables[self.index]
    }

    fn signal(&self, what: &str) -> Option<&'v SignalDesc> {
        let mine = |s: &&SignalDesc| s.name.strip_suffix(what).and_then(|n| n.strip_suffix('.')) == Some(self.name());
        self.desc.signals.iter().find(mine)
    }

    fn need(&self, what: &str, why: &str) -> Result<&'v SignalDesc, Refused> {
        self.signal(what).ok_or_else(|| format!("table `{}` {why}", self.name()).into())
    }

    fn per_core(&self) -> bool {
        self.is().is_per_core()
    }

    /// Every core has all entries: they come from here.
    fn copied(&self) -> bool {
        self.per_core() && !self.is().written
    }

    /// Cores that run changes.
    fn cores(&self) -> Range<usize> {
        // A table that all cores share is changed on the cores of services, if there are any: they
        // last as long as the process.
        if self.per_core() {
            self.hosted.cores(self.is().core_kind)
        } else {
            let home = self.home();
            home..home + 1
        }
    }

    /// The first core of the process that has the table.
    fn home(&self) -> usize {
        let nic = self.is().nic;
        let of = SegmentDesc::of_cores(&self.desc.segments);
        of.iter().position(|s| self.desc.segments[*s].nic == nic).unwrap_or(0)
    }

    /// Cores that are read.
    fn parts(&self) -> Range<usize> {
        let all = self.cores();
        let part = self.is().cores_that_count(all.len(), &self.desc.segments);
        let part = all.start + part.start..all.start + part.end;
        match self.copied() {
            true => part.start..part.start + 1,
            false => part,
        }
    }

    fn entries(&self) -> u64 {
        let stats = self.hosted.app.table_stats(self.index);
        let scans = self.is().idle > 0 && self.is().capacity > COUNTED;
        let Some(len) = self.signal("len").filter(|_| !scans) else { return stats.map_or(0, |s| s[0]) };
        let handler = len.handler;
        let counts = self.hosted.on(self.parts(), move |run| integer(run(handler, &[]).ok()));
        counts.into_iter().flatten().sum()
    }

    /// The text of an entry's fault.
    fn told(&self, (kind, place): HandlerFault) -> String {
        let app = &self.hosted.app;
        match kind {
            WL_F_FULL => {
                let (name, capacity) = (self.name(), self.is().capacity);
                format!(
                    "table `{name}` of {capacity} entries is full; delete some first, or give it a larger `capacity`"
                )
            }
            WL_F_INDEX => format!("its key is beyond the capacity of table `{}`", self.name()),
            WL_F_CONSTRAINT => "a value is not allowed".into(),
            _ => format!("{} {}", app.fault_name(kind), app.place_name(place)).trim().into(),
        }
    }
}

fn integer(answer: Option<Vec<u8>>) -> u64 {
    answer.and_then(|b| decode(&ResultType::Int, &mut &b[..])).and_then(|v| v.as_u64()).unwrap_or(0)
}

fn ending() -> Refused {
    "a core does not answer; the app is ending, or busy with one batch for seconds".to_string().into()
}

fn table<'v>(view: &'v View, request: &Row) -> Result<HostedTable<'v>, Refused> {
    let (name, apps) = (word(request, "table")?, apps_of(view, request)?);
    let of = |app: &'v Hosted| {
        let (hosted, desc) = (app, app.desc());
        desc.tables.iter().position(|t| t.name == name).map(|index| HostedTable { hosted, desc, index })
    };
    let mut found: Vec<HostedTable> = apps.iter().filter_map(|a| of(a)).collect();
    match (found.pop(), found.is_empty()) {
        (Some(t), true) => Ok(t),
        (Some(last), false) => Err(several("table", name, found.iter().map(|t| t.hosted).chain([last.hosted]))),
        _ => {
            let known = apps.iter().flat_map(|a| a.desc().tables.iter().map(|t| t.name.as_str())).collect();
            Err(unknown("table", name, "here", known))
        }
    }
}

pub(super) fn list(view: &View, request: &Row) -> Answer {
    let mut all = Vec::new();
    for hosted in apps_of(view, request)? {
        let desc = hosted.desc();
        all.extend((0..desc.tables.len()).map(|index| describe(&HostedTable { hosted, desc, index })));
    }
    Ok(fields(json!({ "tables": all })))
}

fn describe(t: &HostedTable) -> Value {
    let form = |s: &SignalDesc, skip: &dyn Fn(&str) -> bool| -> Vec<Value> {
        let one = |a: &ArgDesc| {
            let (n, is) = (&a.name, value_syntax::expected(a.ty, &a.form));
            (!skip(n) && table_io::fields(s).contains(&n.as_str()))
                .then(|| json!({ "name": n, "is": is, "pattern": table_io::is_pattern(s, n) }))
        };
        s.args.iter().filter_map(one).collect()
    };
    let key: Vec<&str> = t.signal("remove").or_else(|| t.signal("get")).map_or(Vec::new(), table_io::fields);
    let insert = t.signal("insert");
    let can: Vec<&str> = ["get", "insert", "remove", "next"].into_iter().filter(|w| t.signal(w).is_some()).collect();
    let mut out = json!({
        "app": t.desc.app,
        "table": t.name(),
        "entries": t.entries(),
        "per_core": t.per_core(),
        "kind": table_kind(t.is().kind),
        "capacity": t.is().capacity,
        "idle_s": t.is().idle as f64 / 1e9,
        "when_full": if t.is().evict_lru { "evict" } else { "reject" },
        "key": insert.map_or(Vec::new(), |s| form(s, &|n| !key.contains(&n))),
        "value": insert.map_or(Vec::new(), |s| form(s, &|n| key.contains(&n))),
        "can": can.iter().map(|w| match *w { "remove" => "delete", "next" => "read", w => w }).collect::<Vec<_>>(),
    });
    if let Some(s) = t.hosted.app.table_stats(t.index) {
        out["stats"] = json!({ "hits": s[1], "misses": s[2], "inserts": s[3], "evictions": s[4], "expired": s[5], "rejected": s[6] });
    }
    out
}

// ---- one entry ----

pub(super) fn get(view: &View, request: &Row) -> Answer {
    let t = table(view, request)?;
    let get = t.need("get", "cannot be read: a value is too large, or not of a kind that is shown")?;
    let key = match request.get("key") {
        Some(Value::Object(key)) => key,
        _ => return Err(format!("`key` is missing: an object with {}", table_io::fields(get).join(", ")).into()),
    };
    let args = table_io::arguments(get, key, true)?.pop().unwrap_or_default();
    let handler = get.handler;
    let answers = t.hosted.on(t.parts(), move |run| run(handler, &args));
    let inner = match &get.result {
        ResultType::Option(inner) => inner,
        other => other,
    };
    let mut found: Vec<Value> = Vec::new();
    for answer in answers {
        let bytes = answer.ok_or_else(ending)?.map_err(|f| t.told(f))?;
        let value = decode(&get.result, &mut &bytes[..]).unwrap_or(Value::Null);
        // An entry whose value is an option that is none looks like no entry.
        if !value.is_null() {
            let value = Value::Object(table_io::named(inner, value));
            if !found.contains(&value) {
                found.push(value);
            }
        }
    }
    let mut out = fields(json!({ "found": !found.is_empty() }));
    if found.len() > 1 {
        out.insert("values".into(), found.clone().into());
    }
    if let Some(first) = found.into_iter().next() {
        out.insert("value".into(), first);
    }
    Ok(out)
}

// ---- changes ----

/// A row's calls.
type Calls = Vec<Vec<ParamValue>>;

/// The rows of a request as calls. One wrong row makes all of them an error.
fn calls(t: &HostedTable, signal: &SignalDesc, request: &Row) -> Result<Vec<Calls>, Refused> {
    let one;
    let list = match (request.get("rows"), request.get("row")) {
        (Some(Value::Array(list)), None) => list,
        (None, Some(row @ Value::Object(_))) => {
            one = vec![row.clone()];
            &one
        }
        _ => {
            return Err(
                format!("`rows` is missing: a list of objects with {}", table_io::fields(signal).join(", ")).into()
            )
        }
    };
    // Rows to delete may be rows that were loaded, with their values.
    let insert = t.signal("insert").unwrap_or(signal);
    let strange = |name: &str| unknown("field", name, &format!("in table `{}`", t.name()), table_io::fields(insert));
    let names = request.get("fields").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    if let Some(name) = table_io::stray(&[signal, insert], names) {
        return Err(strange(name));
    }
    let mut all = Vec::with_capacity(list.len());
    for (n, row) in list.iter().enumerate() {
        let told = |e: String| {
            let text = if list.len() == 1 { e } else { format!("row {}: {e}", n + 1) };
            Refused { text, more: fields(json!({ "row": n + 1, "done": 0 })) }
        };
        let row = row.as_object().ok_or_else(|| told("expected an object".into()))?;
        if let Some(name) = table_io::stray(&[signal, insert], row.keys().map(String::as_str)) {
            return Err(told(strange(name).text));
        }
        all.push(table_io::arguments(signal, row, false).map_err(told)?);
    }
    Ok(all)
}

/// Pieces of about [`JOB`] calls, of whole rows: the number of the first row, and the rows.
fn pieces(rows: Vec<Calls>) -> Vec<(usize, Arc<Vec<Calls>>)> {
    let (mut out, mut piece, mut calls, mut first) = (Vec::new(), Vec::new(), 0, 0);
    for (n, row) in rows.into_iter().enumerate() {
        if calls > 0 && calls + row.len() > JOB {
            out.push((first, Arc::new(std::mem::take(&mut piece))));
            (first, calls) = (n, 0);
        }
        calls += row.len();
        piece.push(row);
    }
    if !piece.is_empty() {
        out.push((first, Arc::new(piece)));
    }
    out
}

pub(super) fn insert(view: &View, request: &Row) -> Answer {
    let t = table(view, request)?;
    let insert =
        t.need("insert", "takes no entries from outside: a part of its values is of no kind that can be written")?;
    let rows = calls(&t, insert, request)?;
    let count = rows.len();
    let entries: usize = rows.iter().map(Vec::len).sum();
    let adder = Adder::of(&t, insert);
    for (first, piece) in pieces(rows) {
        let (work, adder) = (piece.clone(), adder.clone());
        let ends = t.hosted.on(t.cores(), {
            let adder = adder.clone();
            move |run| adder.add(run, &work)
        });
        let done: Vec<(usize, Option<HandlerFault>)> = ends.into_iter().collect::<Option<_>>().ok_or_else(ending)?;
        let Some((least, fault)) = done.iter().filter_map(|(n, f)| f.map(|f| (*n, f))).min_by_key(|(n, _)| *n) else {
            continue;
        };
        // Cores that came further go back, so that all have the same.
        for (core, (n, _)) in t.cores().zip(&done).filter(|(_, (n, _))| *n > least) {
            let (adder, piece, n) = (adder.clone(), piece.clone(), *n);
            t.hosted.on(core..core + 1, move |run| adder.take_back(run, &piece[least..n]));
        }
        let row = first + least;
        let which = if count == 1 { "this".into() } else { format!("row {}", row + 1) };
        return Err(Refused {
            text: format!("{which} cannot be inserted: {}", t.told(fault)),
            more: fields(json!({ "row": row + 1, "done": row })),
        });
    }
    Ok(fields(json!({ "rows": count, "entries": entries })))
}

/// Inserts rows on a core.
#[derive(Clone)]
struct Adder {
    insert: u32,
    /// The handler that removes, and which of the arguments it takes.
    remove: Option<(u32, Vec<usize>)>,
    /// How many entries there are, for a table that says so at once, and its capacity.
    room: Option<(u32, u64)>,
}

impl Adder {
    fn of(t: &HostedTable, insert: &SignalDesc) -> Adder {
        let args =
            |s: &SignalDesc| s.args.iter().filter_map(|a| insert.args.iter().position(|b| a.name == b.name)).collect();
        let remove = t.signal("remove").map(|s| (s.handler, args(s)));
        let room = t.signal("len").filter(|_| t.is().idle == 0).map(|s| (s.handler, t.is().capacity));
        Adder { insert: insert.handler, remove, room }
    }

    /// How many rows are in, and the fault that ended it.
    fn add(&self, run: &mut RunHandler, rows: &[Calls]) -> (usize, Option<HandlerFault>) {
        for (n, row) in rows.iter().enumerate() {
            if let (Some((len, capacity)), true) = (self.room, row.len() > 1) {
                if integer(run(len, &[]).ok()) + row.len() as u64 > capacity {
                    return (n, Some((WL_F_FULL, crate::stats::NO_PLACE)));
                }
            }
            for (k, args) in row.iter().enumerate() {
                if let Err(fault) = run(self.insert, args) {
                    self.take_back(run, &[row[..k].to_vec()]);
                    return (n, Some(fault));
                }
            }
        }
        (rows.len(), None)
    }

    fn take_back(&self, run: &mut RunHandler, rows: &[Calls]) {
        let Some((remove, take)) = &self.remove else { return };
        for args in rows.iter().flatten() {
            let key: Vec<ParamValue> = take.iter().map(|i| args[*i].clone()).collect();
            // It was just put there.
            let _ = run(*remove, &key);
        }
    }
}

pub(super) fn delete(view: &View, request: &Row) -> Answer {
    let t = table(view, request)?;
    let remove = t.need("remove", "has no entries that can be deleted")?;
    let rows = calls(&t, remove, request)?;
    let (handler, result) = (remove.handler, remove.result.clone());
    let (mut deleted, count) = (0, rows.len());
    for (_, piece) in pieces(rows) {
        let (work, result) = (piece.clone(), result.clone());
        let there = t.hosted.on(t.cores(), move |run| {
            let mut gone = |args: &Vec<ParamValue>| {
                run(handler, args).is_ok_and(|b| decode(&result, &mut &b[..]) == Some(true.into()))
            };
            // All of a row's entries, though one may be missing.
            work.iter().map(|row| row.iter().fold(false, |any, args| gone(args) | any)).collect::<Vec<bool>>()
        });
        let there: Vec<Vec<bool>> = there.into_iter().collect::<Option<_>>().ok_or_else(ending)?;
        deleted += (0..piece.len()).filter(|i| there.iter().any(|core| core[*i])).count();
    }
    Ok(fields(json!({ "deleted": deleted, "missing": count - deleted })))
}

// ---- all entries ----

/// The result of a walk: entries, and the cursor behind them.
type WalkPart = (Vec<Row>, u64);

/// A piece of a walk over a core's part.
fn walk(run: &mut RunHandler, next: &SignalDesc, mut cursor: u64, most: usize) -> Result<WalkPart, HandlerFault> {
    let mut entries = Vec::new();
    for _ in 0..STEPS.max(most) {
        let (entry, at) = table_io::step(run, next, cursor)?;
        entries.extend(entry);
        cursor = at;
        if cursor == END || entries.len() >= most {
            break;
        }
    }
    Ok((entries, cursor))
}

fn shape(t: &HostedTable, next: &SignalDesc) -> Result<Shape, Refused> {
    Shape::of(next, t.signal("insert")).ok_or_else(|| format!("table `{}` cannot be read", t.name()).into())
}

pub(super) fn read(view: &View, request: &Row) -> Answer {
    let t = table(view, request)?;
    let next = t.need("next", "cannot be read: its entries are too large, not of a kind that is shown, or not kept")?;
    let shape = shape(&t, next)?;
    let limit = match request.get("limit") {
        None | Some(Value::Null) => ROWS,
        Some(n) => n.as_u64().ok_or_else(|| Refused::from("`limit` is no number".to_string()))?.clamp(1, ROWS_MAX),
    };
    let (mut core, mut cursor) = match request.get("cursor") {
        None | Some(Value::Null) => (t.parts().start, 0),
        Some(c) => match serde_json::from_value::<[u64; 2]>(c.clone()) {
            Ok([core, at]) if t.parts().contains(&usize::try_from(core).unwrap_or(usize::MAX)) => (core as usize, at),
            _ => return Err("`cursor` is none that was given".to_string().into()),
        },
    };
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while core < t.parts().end && (rows.len() as u64) < limit && bytes < BYTES {
        let (signal, most) = (next.clone(), JOB.min(limit as usize - rows.len()));
        let got = t.hosted.on(core..core + 1, move |run| walk(run, &signal, cursor, most)).pop().flatten();
        let (entries, at) = got.ok_or_else(ending)?.map_err(|f| t.told(f))?;
        for mut entry in entries {
            let row = shape.row(&mut entry);
            bytes += row.iter().map(|(k, v)| k.len() + size(v) + 4).sum::<usize>();
            rows.push(Value::Object(row));
        }
        (core, cursor) = if at == END { (core + 1, 0) } else { (core, at) };
    }
    let more = if core < t.parts().end { json!([core, cursor]) } else { Value::Null };
    Ok(fields(json!({ "columns": shape.columns, "rows": rows, "cursor": more })))
}

/// Bytes of a value, about.
fn size(v: &Value) -> usize {
    match v {
        Value::String(s) => s.len(),
        Value::Object(o) => o.values().map(size).sum(),
        _ => 8,
    }
}

/// Removes all entries, piece by piece.
pub(super) fn clear(view: &View, request: &Row) -> Answer {
    let t = table(view, request)?;
    let no = "cannot be cleared: its entries cannot be read and deleted one by one";
    let (next, remove) = (t.need("next", no)?, t.need("remove", no)?);
    let shape = shape(&t, next)?;
    let mut most = 0;
    for core in t.cores() {
        let (mut cursor, mut deleted) = (0, 0u64);
        // Entries that move while others are taken out are met by the second pass.
        for _ in 0..2 {
            while cursor != END {
                let (next, remove, shape) = (next.clone(), remove.clone(), shape.clone());
                let got = t
                    .hosted
                    .on(core..core + 1, move |run| clear_some(run, &next, &remove, &shape, cursor))
                    .pop()
                    .flatten();
                let (gone, at) = got.ok_or_else(ending)?.map_err(|f| t.told(f))?;
                (deleted, cursor) = (deleted + gone, at);
            }
            cursor = 0;
        }
        most = if t.copied() { deleted.max(most) } else { most + deleted };
    }
    Ok(fields(json!({ "deleted": most })))
}

fn clear_some(
    run: &mut RunHandler,
    next: &SignalDesc,
    remove: &SignalDesc,
    shape: &Shape,
    mut cursor: u64,
) -> Result<(u64, u64), HandlerFault> {
    let mut deleted = 0;
    for _ in 0..STEPS {
        let (entries, mut at) = walk(run, next, cursor, 1)?;
        for mut entry in entries {
            let row = shape.row(&mut entry);
            let mut gone = false;
            for args in table_io::arguments(remove, &row, false).unwrap_or_default() {
                gone |= run(remove.handler, &args)?.starts_with(b"4:true");
            }
            if gone {
                deleted += 1;
                // A later entry may have moved into its place.
                at = if at == END { END } else { at.saturating_sub(1) };
            }
        }
        if at == END || at < cursor {
            return Ok((deleted, END));
        }
        cursor = at;
    }
    Ok((deleted, cursor))
}
