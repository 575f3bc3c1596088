//! `--config FILE`: options and parameters from a TOML file.
//!
//! In: the file, and the command whose options it may name. Out: arguments in the place of those
//! that the command line does not give, and settings with their places. Its keys are the options'
//! long names; options of pairs (`--bind PORT=…`) and `[set]` are tables. Every error names the
//! file, the line and the column, and shows the line. docs/operations.md describes the file.

use super::Failure;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use log::Level;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};
use toml::Spanned;
use wireloom_ir::suggestions;
use wireloom_runtime::reload::ChangeLine;

/// The table of parameters and of options of ports.
const SET: &str = "set";

/// Options whose value is a list: of CPUs, or of a port's targets.
const LISTS: [&str; 4] = ["cores", "nic-cores", "bind", "out"];

/// A list in the place of one value would be a text with commas.
pub fn one_value(name: &str) -> String {
    format!("`{name}` has one value, not a list")
}

/// A file that was read.
#[derive(Clone)]
pub struct Config {
    pub path: PathBuf,
    /// Makes the command whose options the file may name.
    command: fn() -> Command,
    options: Vec<ConfigOption>,
    pub settings: Vec<Setting>,
    /// The options of the command line, which has its own values of them.
    on_line: Vec<String>,
}

/// An option by its long name, and its values: none of a switch.
#[derive(Clone)]
struct ConfigOption {
    name: String,
    id: String,
    values: Vec<ConfigValue>,
    place: Place,
}

/// A value as the command line has it, of a pair with its name in front.
#[derive(Clone)]
struct ConfigValue {
    text: String,
    place: Place,
}

impl ConfigOption {
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(|v| v.text.as_str())
    }

    fn is(&self, other: &ConfigOption) -> bool {
        self.name == other.name && self.texts().eq(other.texts())
    }

    /// The value with this name of a pair; without a name the only one.
    fn place_of(&self, name: &str, app: &str) -> &Place {
        let is_named = |v: &&ConfigValue| v.text.split_once('=').is_some_and(|(n, _)| is_name(n, name, app));
        let found = match (&self.values[..], name) {
            ([one], "") => Some(one),
            (_, "") => None,
            _ => self.values.iter().find(is_named),
        };
        found.map_or(&self.place, |v| &v.place)
    }
}

/// Whether a name is this one of an app, with or without the app in front.
pub fn is_name(written: &str, name: &str, app: &str) -> bool {
    written == name || written.strip_suffix(name).and_then(|w| w.strip_suffix('.')) == Some(app)
}

/// A parameter of an app, or an option of a port.
#[derive(Clone)]
pub struct Setting {
    pub name: String,
    pub value: String,
    pub is_list: bool,
    pub place: Place,
}

/// A part of the file, for errors.
#[derive(Clone)]
pub struct Place {
    file: String,
    line: usize,
    column: usize,
    /// How many characters of the line it has.
    width: usize,
    text: String,
}

impl Place {
    pub fn error(&self, text: impl std::fmt::Display) -> Failure {
        let Place { file, line, column, width, text: source } = self;
        let number = line.to_string();
        let (margin, before) = (" ".repeat(number.len()), " ".repeat(column - 1));
        let mark = "^".repeat(*width);
        Failure::Said(format!(
            "{file}:{line}:{column}: {text}\n{margin} |\n{number} | {source}\n{margin} | {before}{mark}"
        ))
    }
}

impl Config {
    /// Reads and checks a file. Values of settings are checked with their apps.
    pub fn read(path: &Path, command: fn() -> Command) -> Result<Config, Failure> {
        let text =
            std::fs::read_to_string(path).map_err(|e| Failure::Said(format!("--config {}: {e}", path.display())))?;
        let source = Source { file: path.display().to_string(), text: &text };
        let root =
            DeTable::parse(&text).map_err(|e| source.place(&e.span().unwrap_or_default()).error(e.message().trim()))?;
        let mut config = Config {
            path: path.to_path_buf(),
            command,
            options: Vec::new(),
            settings: Vec::new(),
            on_line: Vec::new(),
        };
        let (known, mut said) = (command(), std::collections::BTreeSet::new());
        // In the order of the file.
        let mut all: Vec<_> = root.get_ref().iter().collect();
        all.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in all {
            if key.get_ref() == SET {
                let table = source.table(value, "a table of parameters: `[set]`")?;
                source.settings(table, "", &mut config.settings)?;
            } else {
                let name = key.get_ref().replace('_', "-");
                if !said.insert(name.clone()) {
                    return Err(source.error(key, format!("the option `{name}` is said twice")));
                }
                config.options.extend(source.option(key, value, &known)?);
            }
        }
        Ok(config)
    }

    /// Reads the file again.
    pub fn again(&self) -> Result<Config, Failure> {
        // The opening of a pipe would wait for a writer.
        if std::fs::metadata(&self.path).is_ok_and(|m| !m.is_file()) {
            return Err(Failure::Said(format!("--config {}: it is no file any more", self.path.display())));
        }
        Ok(Config { on_line: self.on_line.clone(), ..Config::read(&self.path, self.command)? })
    }

    /// The options as arguments, but for those that the command line gives.
    pub fn arguments(&mut self, given: &ArgMatches) -> Vec<OsString> {
        let from_line = |id: &str| given.value_source(id) == Some(ValueSource::CommandLine);
        let ids = (self.command)().get_arguments().map(|a| a.get_id().to_string()).collect::<Vec<_>>();
        self.on_line = ids.into_iter().filter(|id| from_line(id)).collect();
        let mut all = Vec::new();
        for option in self.options.iter().filter(|o| !self.on_line.contains(&o.id)) {
            if option.values.is_empty() {
                all.push(format!("--{}", option.name).into());
            }
            all.extend(option.texts().map(|v| OsString::from(format!("--{}={v}", option.name))));
        }
        all
    }

    /// The only value of an option, if it is in force.
    pub fn value(&self, option: &str) -> Option<&str> {
        let in_force = self.options.iter().find(|o| o.name == option && !self.on_line.contains(&o.id))?;
        in_force.values.first().map(|v| v.text.as_str())
    }

    /// The place of an option's value that is in force, or that of its pair with this name.
    pub fn place_of(&self, option: &str, name: &str, app: &str) -> Option<&Place> {
        if option == SET {
            return self.settings.iter().find(|s| is_name(&s.name, name, app)).map(|s| &s.place);
        }
        let in_force = |o: &&ConfigOption| o.name == option && !self.on_line.contains(&o.id);
        self.options.iter().find(in_force).map(|o| o.place_of(name, app))
    }

    /// A line for each option that another reading of the file has otherwise.
    pub fn changed_options(&self, other: &Config) -> Vec<ChangeLine> {
        let missing = |a: &Config, b: &Config| -> Vec<ConfigOption> {
            a.options.iter().filter(|o| !b.options.iter().any(|p| o.is(p))).cloned().collect()
        };
        let mut all = missing(self, other);
        all.extend(missing(other, self));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all.dedup_by(|a, b| a.name == b.name);
        let line = |o: &ConfigOption| match self.on_line.contains(&o.id) {
            true => format!("--{} keeps the value of the command line", o.name),
            false => format!("--{} keeps its value until the next start", o.name),
        };
        all.iter().map(|o| (Level::Warn, line(o))).collect()
    }

    /// The settings that another reading of the file has otherwise.
    pub fn changed_settings<'a>(&'a self, other: &'a Config) -> impl Iterator<Item = &'a str> {
        let value = |c: &'a Config, name: &str| c.settings.iter().find(|s| s.name == name).map(|s| s.value.as_str());
        let gone = self.settings.iter().filter(move |s| value(other, &s.name).is_none());
        let new = other.settings.iter().filter(move |s| value(self, &s.name) != Some(&s.value));
        gone.chain(new).map(|s| s.name.as_str())
    }
}

struct Source<'s> {
    file: String,
    text: &'s str,
}

impl Source<'_> {
    fn place(&self, span: &Range<usize>) -> Place {
        let start = span.start.min(self.text.len());
        let from = self.text[..start].rfind('\n').map_or(0, |n| n + 1);
        let to = self.text[start..].find('\n').map_or(self.text.len(), |n| start + n);
        let end = span.end.clamp(start, to);
        Place {
            file: self.file.clone(),
            line: self.text[..from].matches('\n').count() + 1,
            column: self.text[from..start].chars().count() + 1,
            width: self.text[start..end].chars().count().max(1),
            // A tab moves the mark.
            text: self.text[from..to].trim_end().replace('\t', " "),
        }
    }

    fn error<T>(&self, at: &Spanned<T>, text: impl std::fmt::Display) -> Failure {
        self.place(&at.span()).error(text)
    }

    fn table<'v, 't>(&self, value: &'v Spanned<DeValue<'t>>, expected: &str) -> Result<&'v DeTable<'t>, Failure> {
        value.get_ref().as_table().ok_or_else(|| self.error(value, format!("expected {expected}")))
    }

    /// The settings of a table; `client.idle_timeout` may be written as a table `client`.
    fn settings(&self, table: &DeTable, before: &str, to: &mut Vec<Setting>) -> Result<(), Failure> {
        for (key, value) in table {
            let name = format!("{before}{}", key.get_ref());
            match value.get_ref().as_table() {
                Some(inner) => self.settings(inner, &format!("{name}."), to)?,
                // An error may be about the name as well as about the value.
                None => to.push(Setting {
                    name,
                    value: self.text_of(value)?,
                    is_list: value.get_ref().is_array(),
                    place: self.place(&(key.span().start..value.span().end)),
                }),
            }
        }
        Ok(())
    }

    /// A value as the command line has it: items of a list with commas between.
    fn text_of(&self, value: &Spanned<DeValue>) -> Result<String, Failure> {
        Ok(match value.get_ref() {
            DeValue::String(s) => s.to_string(),
            DeValue::Integer(n) => match i128::from_str_radix(n.as_str(), n.radix()) {
                Ok(n) => n.to_string(),
                Err(_) => n.as_str().to_string(),
            },
            DeValue::Float(n) => n.as_str().to_string(),
            DeValue::Boolean(b) => b.to_string(),
            DeValue::Array(items) => {
                let mut all = Vec::new();
                for item in items {
                    let text = self.text_of(item)?;
                    if text.contains(',') || item.get_ref().is_array() {
                        return Err(self.error(item, "an item of a list has no comma"));
                    }
                    all.push(text);
                }
                all.join(",")
            }
            DeValue::Datetime(_) => return Err(self.error(value, "no option is a date; a text has quotation marks")),
            DeValue::Table(_) => return Err(self.error(value, "expected a value, not a table")),
        })
    }

    fn option(
        &self,
        key: &Spanned<std::borrow::Cow<str>>,
        value: &Spanned<DeValue>,
        known: &Command,
    ) -> Result<Option<ConfigOption>, Failure> {
        let name = key.get_ref().replace('_', "-");
        let usable = |a: &&Arg| a.get_long().is_some_and(|l| !matches!(l, "help" | "config" | SET));
        let Some(arg) = known.get_arguments().filter(usable).find(|a| a.get_long() == Some(&name)) else {
            let names = known.get_arguments().filter(usable).filter_map(Arg::get_long);
            let hint = suggestions::lead(&name, names.chain([SET]));
            let text = format!("there is no option `{name}`{hint} parameters are in the table `[set]`");
            return Err(self.error(key, text));
        };
        let id = arg.get_id().to_string();
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            let on = value.get_ref().as_bool().ok_or_else(|| self.error(value, "expected true or false"))?;
            return Ok(on.then_some(ConfigOption { name, id, values: Vec::new(), place: self.place(&value.span()) }));
        }
        let pairs = arg.get_value_names().is_some_and(|n| n.iter().any(|n| n.contains('=')));
        let values = if pairs { self.pairs(arg, value)? } else { self.values(arg, value)? };
        Ok(Some(ConfigOption { name, id, values, place: self.place(&value.span()) }))
    }

    /// `NAME=VALUE` of a table.
    fn pairs(&self, arg: &Arg, value: &Spanned<DeValue>) -> Result<Vec<ConfigValue>, Failure> {
        let table = self.table(value, &format!("a table: `[{}]`", arg.get_long().unwrap_or_default()))?;
        let mut all = Vec::new();
        for (key, value) in table {
            let name = format!("{}.{}", arg.get_long().unwrap_or_default(), key.get_ref());
            let text = format!("{}={}", key.get_ref(), self.argument_of((arg, &name), value)?);
            self.check(arg, value, &text)?;
            all.push(ConfigValue { text, place: self.place(&value.span()) });
        }
        Ok(all)
    }

    /// The value of an option, or those of one that may be given several times.
    fn values(&self, arg: &Arg, value: &Spanned<DeValue>) -> Result<Vec<ConfigValue>, Failure> {
        let items = match value.get_ref().as_array() {
            Some(items) if matches!(arg.get_action(), ArgAction::Append) => items.iter().collect(),
            _ => vec![value],
        };
        let mut all = Vec::new();
        for item in items {
            let text = self.argument_of((arg, arg.get_long().unwrap_or_default()), item)?;
            self.check(arg, item, &text)?;
            all.push(ConfigValue { text, place: self.place(&item.span()) });
        }
        Ok(all)
    }

    /// The text of an option's value. `name`: of a pair with its own.
    fn argument_of(&self, (arg, name): (&Arg, &str), value: &Spanned<DeValue>) -> Result<String, Failure> {
        let takes_lists = arg.get_long().is_some_and(|l| LISTS.contains(&l));
        match value.get_ref() {
            DeValue::Array(_) if !takes_lists => Err(self.error(value, one_value(name))),
            DeValue::Boolean(on) => {
                Err(self.error(value, format!("`{name}` is no switch: expected a value, not {on}")))
            }
            _ => self.text_of(value),
        }
    }

    /// Whether the command line would take the value.
    fn check(&self, arg: &Arg, value: &Spanned<DeValue>, text: &str) -> Result<(), Failure> {
        let flag = format!("--{}={text}", arg.get_long().unwrap_or_default());
        let alone = Command::new("wireloom").arg(arg.clone().required(false));
        match alone.try_get_matches_from(["wireloom", &flag]) {
            Ok(_) => Ok(()),
            Err(e) => {
                let said = e.to_string();
                let lines: Vec<&str> = said.lines().take_while(|l| !l.is_empty()).map(str::trim).collect();
                Err(self.error(value, lines.join(" ").trim_start_matches("error: ")))
            }
        }
    }
}
