//! `wireloom table`: lists, reads and changes the tables of a running app while packets flow.

use crate::args::{Table, TableDo};
use crate::control::{columns, print, Client, Object, Refused};
use crate::whole_file::WholeFile;
use crate::{Failure, Outcome};
use serde_json::{json, Map, Value};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::time::Instant;
use wireloom_runtime::table_io;

/// Rows of a request: enough to make its cost small beside theirs.
const BATCH: usize = 2000;
/// Rows that are shown, if nothing else is said.
const SHOWN: u64 = 1000;

pub fn table(args: Table) -> Outcome {
    let action = args.action.unwrap_or(TableDo::Read);
    check_csv(&args, action)?;
    let mut client = Client::find(&args.target)?;
    let Some(name) = &args.table else { return list(&mut client, &args) };
    let fields = || pairs(&args.rest);
    let done = |args: &Table, answer: Object, text: String| {
        print(&if args.target.json { plain(answer) } else { text + "\n" });
        Ok(())
    };
    match action {
        TableDo::Read => no_more(&args.rest).and_then(|()| read(&mut client, name, &args)),
        TableDo::Dump => dump(&mut client, name, &args),
        TableDo::Load => load(&mut client, name, &args),
        TableDo::Get => {
            let answer = client.ask(json!({ "do": "get", "table": name, "key": fields()? }))?;
            let found = answer.get("found").and_then(Value::as_bool) == Some(true);
            if args.target.json {
                print(&plain(answer));
            } else if found {
                let values = answer
                    .get("values")
                    .and_then(Value::as_array)
                    .cloned()
                    .unwrap_or_else(|| vec![answer["value"].clone()]);
                print(&objects(&values, args.csv));
            }
            if found {
                Ok(())
            } else {
                Err(Failure::Said(format!("table `{name}` has no such entry")))
            }
        }
        TableDo::Insert => {
            let answer = client.ask(json!({ "do": "insert", "table": name, "rows": [fields()?] }))?;
            let entries = answer.get("entries").and_then(Value::as_u64).unwrap_or(1);
            done(&args, answer, if entries == 1 { "inserted".into() } else { format!("inserted: {entries} entries") })
        }
        TableDo::Delete => {
            let answer = client.ask(json!({ "do": "delete", "table": name, "rows": [fields()?] }))?;
            match answer.get("deleted").and_then(Value::as_u64) {
                Some(0) => Err(Failure::Said(format!("table `{name}` has no such entry"))),
                _ => done(&args, answer, "deleted".into()),
            }
        }
        TableDo::Clear => {
            no_more(&args.rest)?;
            let answer = client.ask(json!({ "do": "clear", "table": name }))?;
            let text = match answer.get("deleted").and_then(Value::as_u64).unwrap_or(0) {
                1 => "one entry deleted".to_string(),
                n => format!("{n} entries deleted"),
            };
            done(&args, answer, text)
        }
    }
}

/// Rows have a form as CSV, other answers do not. A file that is loaded has one form, and the
/// answer about it another.
fn check_csv(args: &Table, action: TableDo) -> Outcome {
    let has_rows = !matches!(action, TableDo::Insert | TableDo::Delete | TableDo::Clear);
    match args.csv {
        true if !has_rows => Err(Failure::Said("`--csv` is for read, get, dump and load".into())),
        true if args.target.json && action != TableDo::Load => {
            Err(Failure::Said("`--csv` and `--json`: an answer has one form".into()))
        }
        _ => Ok(()),
    }
}

fn no_more(rest: &[String]) -> Outcome {
    match rest.first() {
        None => Ok(()),
        Some(r) => Err(Failure::Said(format!("`{r}` is one argument too many"))),
    }
}

/// `field=value …`
pub fn pairs(list: &[String]) -> Result<Object, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.trim().to_string(), Value::String(value.into()))),
        _ => Err(Failure::Said(format!("`{text}`: expected FIELD=VALUE, as in dport=80"))),
    };
    let mut all = Object::new();
    for (name, value) in list.iter().map(pair).collect::<Result<Vec<_>, _>>()? {
        if all.insert(name.clone(), value).is_some() {
            return Err(Failure::Said(format!("`{name}` is given twice")));
        }
    }
    Ok(all)
}

/// An unchanged answer, on a line.
pub fn plain(mut answer: Object) -> String {
    answer.remove("ok");
    Value::Object(answer).to_string() + "\n"
}

fn cells(row: &Value, head: &[String]) -> Vec<Value> {
    head.iter().map(|h| row.get(h).cloned().unwrap_or(Value::Null)).collect()
}

/// Objects with the same fields, as a table.
fn objects(list: &[Value], csv: bool) -> String {
    let head: Vec<String> = list.first().and_then(Value::as_object).map_or(Vec::new(), |o| o.keys().cloned().collect());
    rows_text(&head, &list.iter().map(|r| cells(r, &head)).collect::<Vec<_>>(), csv)
}

/// Columns for people, or CSV.
fn rows_text(head: &[String], rows: &[Vec<Value>], csv: bool) -> String {
    if !csv {
        return columns(head, rows, &mut Vec::new());
    }
    let rows = rows.iter().map(|row| csv_line(row.iter().map(table_io::csv_field)));
    [csv_head(head)].into_iter().chain(rows).collect()
}

fn csv_head(head: &[String]) -> String {
    csv_line(head.iter().map(|h| table_io::quoted(h)))
}

fn csv_line(fields: impl Iterator<Item = String>) -> String {
    fields.collect::<Vec<_>>().join(",") + "\n"
}

fn list(client: &mut Client, args: &Table) -> Outcome {
    let answer = client.ask(json!({ "do": "tables" }))?;
    let tables = answer.get("tables").and_then(Value::as_array).cloned().unwrap_or_default();
    if args.target.json {
        print(&(Value::Array(tables).to_string() + "\n"));
        return Ok(());
    }
    if tables.is_empty() {
        return Err(Failure::Said("the app has no tables".into()));
    }
    let names = |v: &Value| {
        let list = v.as_array().map_or(&[][..], |l| l);
        Value::String(list.iter().filter_map(|f| f["name"].as_str()).collect::<Vec<_>>().join(" "))
    };
    let row = |t: &Value| {
        vec![
            t["app"].clone(),
            t["table"].clone(),
            t["kind"].clone(),
            t["entries"].clone(),
            t["capacity"].clone(),
            names(&t["key"]),
            names(&t["value"]),
        ]
    };
    let head = ["app", "table", "kind", "entries", "capacity", "key", "value"].map(String::from);
    print(&rows_text(&head, &tables.iter().map(row).collect::<Vec<_>>(), args.csv));
    Ok(())
}

// ---- all entries ----

/// All entries, a page at a time; entries that several cores have are given once. `page` says
/// whether to go on.
fn pages(
    client: &mut Client,
    table: &str,
    mut page: impl FnMut(&[String], Vec<Object>) -> Result<bool, Failure>,
) -> Outcome {
    let (mut cursor, mut seen) = (Value::Null, std::collections::HashSet::new());
    loop {
        let answer = client.ask(json!({ "do": "read", "table": table, "cursor": cursor, "limit": BATCH }))?;
        let core = |c: &Value| c.get(0).and_then(Value::as_u64).unwrap_or(0);
        let next = answer.get("cursor").cloned().unwrap_or(Value::Null);
        let head: Vec<String> = answer
            .get("columns")
            .and_then(Value::as_array)
            .map_or(Vec::new(), |c| c.iter().filter_map(|n| n.as_str().map(String::from)).collect());
        let rows = answer.get("rows").and_then(Value::as_array).cloned().unwrap_or_default();
        // Only where there is a second core's part, or the first is not over.
        let several = core(&cursor) > 0 || !next.is_null();
        let fresh = rows.into_iter().filter(|r| !several || seen.insert(table_io::fingerprint(&r.to_string())));
        let rows = fresh
            .filter_map(|r| match r {
                Value::Object(o) => Some(o),
                _ => None,
            })
            .collect();
        if !page(&head, rows)? || next.is_null() {
            return Ok(());
        }
        cursor = next;
    }
}

fn read(client: &mut Client, name: &str, args: &Table) -> Outcome {
    if args.target.json || args.csv {
        return write_all(client, name, crate::output::Stdout, args.csv, args.limit).map(|_| ());
    }
    let limit = args.limit.unwrap_or(SHOWN);
    let (mut widths, mut count, mut more) = (Vec::new(), 0u64, false);
    pages(client, name, |head, rows| {
        let room = if limit == 0 { usize::MAX } else { (limit - count) as usize };
        more = rows.len() > room;
        let rows: Vec<Vec<Value>> = rows.into_iter().take(room).map(|r| cells(&Value::Object(r), head)).collect();
        count += rows.len() as u64;
        let text = columns(head, &rows, &mut widths);
        Ok(print(&text) && !more)
    })?;
    if more {
        eprintln!(
            "wireloom: the first {limit} entries; `--limit 0` shows all, `wireloom table {name} dump FILE` writes them"
        );
    }
    Ok(())
}

fn dump(client: &mut Client, name: &str, args: &Table) -> Outcome {
    let csv = |path: &str| args.csv || Path::new(path).extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"));
    match args.rest.first().map(String::as_str) {
        None | Some("-") => write_all(client, name, crate::output::Stdout, args.csv, args.limit).map(|_| ()),
        Some(path) => {
            no_more(&args.rest[1..])?;
            let count = replace(Path::new(path), |file| write_all(client, name, file, csv(path), args.limit))?;
            eprintln!("wireloom: {count} entries written to {path}");
            Ok(())
        }
    }
}

/// Replaces a file when the new one is whole. A pipe or device is written as it is. A link stays
/// one, and a file keeps its permissions.
fn replace(path: &Path, write: impl FnOnce(&File) -> Result<u64, Failure>) -> Result<u64, Failure> {
    let fail = |e: std::io::Error| Failure::Said(format!("cannot write {}: {e}", path.display()));
    let old = std::fs::metadata(path).ok();
    if old.as_ref().is_some_and(|m| !m.is_file()) {
        return write(&File::create(path).map_err(fail)?);
    }
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let new = WholeFile::create(&target, 0o666).map_err(fail)?;
    old.map_or(Ok(()), |m| new.file.set_permissions(m.permissions())).map_err(fail)?;
    let count = write(&new.file)?;
    new.put().map_err(fail)?;
    Ok(count)
}

/// An object with its fields in the table's order; absent fields match any value.
fn ordered(row: &Value, head: &[String]) -> String {
    let fields = head.iter().filter_map(|h| Some(format!("{}:{}", Value::from(h.as_str()), row.get(h)?)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn write_all(client: &mut Client, name: &str, out: impl Write, csv: bool, limit: Option<u64>) -> Result<u64, Failure> {
    let mut out = BufWriter::new(out);
    let (mut count, mut begun, limit) = (0, false, limit.filter(|n| *n > 0).unwrap_or(u64::MAX));
    pages(client, name, |head, rows| {
        if csv && !std::mem::replace(&mut begun, true) {
            out.write_all(csv_head(head).as_bytes())?;
        }
        for row in rows.into_iter().take((limit - count) as usize) {
            let value = Value::Object(row);
            match csv {
                true => write!(out, "{}", csv_line(cells(&value, head).iter().map(table_io::csv_field)))?,
                false => write!(out, "{}{}", if count == 0 { "[" } else { ",\n" }, ordered(&value, head))?,
            }
            count += 1;
        }
        Ok(count < limit)
    })?;
    if !csv {
        writeln!(out, "{}]", if count == 0 { "[" } else { "" })?;
    }
    out.flush()?;
    Ok(count)
}

// ---- bulk ----

fn load(client: &mut Client, name: &str, args: &Table) -> Outcome {
    let (path, rest) = args.rest.split_first().ok_or_else(|| {
        Failure::Said(format!("`wireloom table {name} load FILE`: which file? `-` is standard input"))
    })?;
    no_more(rest)?;
    let told = |e: &str| Failure::Said(format!("{}: {e}", if path == "-" { "standard input" } else { path }));
    let text = match path.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|e| told(&e.to_string()))?;
            text
        }
        path => std::fs::read_to_string(path).map_err(|e| told(&e.to_string()))?,
    };
    let named = Path::new(path).extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"));
    let json = !args.csv && !named && (path != "-" || text.trim_start().starts_with(['[', '{']));
    let (names, rows) =
        if json { table_io::json_rows(&text).map(|r| (Vec::new(), r)) } else { table_io::csv_rows(&text) }
            .map_err(|e| told(&e))?;
    // Asked once even if there are no rows: the table and the fields must be there.
    let mut names = Some(names);
    let (begin, total, mut done, mut entries) = (Instant::now(), rows.len(), 0, 0);
    let mut rows = rows.into_iter();
    loop {
        let batch: Vec<Value> = rows.by_ref().take(BATCH).map(Value::Object).collect();
        if batch.is_empty() && names.is_none() {
            break;
        }
        let count = batch.len();
        match client.ask(json!({ "do": "insert", "table": name, "fields": names.take(), "rows": batch })) {
            Ok(answer) => entries += answer.get("entries").and_then(Value::as_u64).unwrap_or(0),
            Err(r) => return Err(told(&stopped(r, done, count))),
        }
        done += count;
    }
    let seconds = begin.elapsed().as_secs_f64();
    if args.target.json {
        print(&plain(Map::from_iter([
            ("rows".into(), total.into()),
            ("entries".into(), entries.into()),
            ("seconds".into(), seconds.into()),
        ])));
    } else {
        let each = seconds * 1e6 / total.max(1) as f64;
        print(&format!("{total} rows loaded, {entries} entries, in {seconds:.2} s ({each:.1} µs each)\n"));
    }
    Ok(())
}

/// Where a load ended; rows count from the file's first one.
fn stopped(r: Refused, done: usize, batch: usize) -> String {
    let number = |name: &str| r.answer.get(name).and_then(Value::as_u64).map(|n| n as usize);
    let Some(row) = number("row") else { return r.text };
    let before = done + number("done").unwrap_or(0);
    let text = r.text.strip_prefix(&format!("row {row}")).unwrap_or(&r.text);
    let text = if batch == 1 { format!(": {text}") } else { text.to_string() };
    format!("row {}{text}; {before} rows before it are loaded", done + row)
}
