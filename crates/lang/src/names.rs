//! Modules, `use` and items: the file of a name, and its meaning.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use wireloom_ir::suggestions;
use wireloom_syntax::ast::{self, Item, ItemKind, Span};
use wireloom_syntax::{parser, Diagnostic, SourceMap, World};

/// Index of a file's module.
pub type ModId = usize;
/// Index of an item of any module.
pub type ItemId = usize;

/// One source file.
#[derive(Clone)]
pub struct Module {
    pub path: PathBuf,
    /// Dotted names by which it is used; for messages: the last part.
    pub name: String,
    pub names: Rc<HashMap<String, (ItemId, Span)>>,
    pub uses: Vec<Import>,
}

#[derive(Clone)]
pub struct Import {
    /// `std`, `memcached`: all parts that name the module.
    pub parts: Vec<String>,
    pub module: ModId,
    /// `use std.http.Request` brings this one item in.
    pub item: Option<String>,
    pub span: Span,
    pub used: bool,
}

#[derive(Clone)]
pub struct Entry {
    pub module: ModId,
    pub item: Rc<Item>,
}

/// All modules reachable from the main file. Copies share what is known of items.
#[derive(Clone)]
pub struct Names {
    pub modules: Vec<Module>,
    pub items: Rc<Vec<Entry>>,
    /// `std.packet`, whose items packet programs use without `use`.
    pub packet: Option<ModId>,
}

/// The meaning of a dotted name.
pub enum Meaning {
    Item(ItemId),
    Module,
}

/// Words of which a packet program has at least one.
const PACKET_WORDS: &[&str] = &["nic", "pcap", "tun", "tap", "memory", "udp", "packet", "flow5"];

/// Most parts of a name in `use`: each may be a folder.
const MOST_PARTS: usize = 64;

struct Loader<'a> {
    world: &'a dyn World,
    map: &'a mut SourceMap,
    diags: &'a mut Vec<Diagnostic>,
    names: Names,
    by_path: HashMap<PathBuf, ModId>,
}

/// Reads the main file and all files that it uses; module 0 is the main file.
pub fn load(world: &dyn World, main: &Path, map: &mut SourceMap, diags: &mut Vec<Diagnostic>) -> Names {
    let names = Names { modules: Vec::new(), items: Rc::default(), packet: None };
    let mut loader = Loader { world, map, diags, names, by_path: HashMap::new() };
    loader.module(main, None);
    loader.packets(main);
    loader.names
}

impl Loader<'_> {
    fn module(&mut self, path: &Path, at: Option<Span>) -> Option<ModId> {
        if let Some(&id) = self.by_path.get(path) {
            return Some(id);
        }
        let file = match self.map.load(self.world, path, at) {
            Ok(file) => file,
            Err(d) => {
                self.diags.push(*d);
                return None;
            }
        };
        let text = self.map.file(file).map(|f| f.text.clone()).unwrap_or_default();
        let parsed = parser::parse(file, &text);
        self.diags.extend(parsed.diagnostics);
        let id = self.names.modules.len();
        self.by_path.insert(path.to_path_buf(), id);
        let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        self.names.modules.push(Module { path: path.to_path_buf(), name, names: Rc::default(), uses: Vec::new() });
        for item in parsed.file.items {
            self.item(id, item);
        }
        Some(id)
    }

    /// Packet programs see `std.packet`; other programs do not pay for it.
    fn packets(&mut self, main: &Path) {
        let speaks =
            |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| PACKET_WORDS.contains(&w));
        if !self.map.files().any(|(_, f)| speaks(&f.text)) {
            return;
        }
        let from = main.parent().map(Path::to_path_buf).unwrap_or_default();
        let Some((file, 2)) = self.world.resolve(&from, &["std", "packet"]) else { return };
        self.names.packet = self.module(&file, None);
    }

    fn item(&mut self, module: ModId, item: Item) {
        let id = self.names.items.len();
        let names: Vec<ast::Ident> = match &item.kind {
            ItemKind::Use(path) => {
                let path = path.clone();
                self.use_(module, &path);
                return;
            }
            ItemKind::Const { name, .. }
            | ItemKind::Charset { name, .. }
            | ItemKind::Alias { name, .. }
            | ItemKind::Enum { name, .. }
            | ItemKind::Record { name, .. } => vec![name.clone()],
            ItemKind::Fault(names) => names.clone(),
            ItemKind::Unit(u) => vec![u.name.clone()],
            ItemKind::Packet(p) => vec![p.name.clone()],
            ItemKind::Protocol(p) => vec![p.name.clone()],
            ItemKind::Fn(f) => vec![f.name.clone()],
            ItemKind::Element(e) | ItemKind::App(e) => vec![e.name.clone()],
            ItemKind::Table(t) => vec![t.name.clone()],
            ItemKind::Test(_) => vec![],
        };
        for name in names {
            let table = Rc::make_mut(&mut self.names.modules[module].names);
            if let Some((_, first)) = table.get(&name.name) {
                let first = *first;
                self.diags.push(
                    Diagnostic::error("E0203", name.span, format!("`{}` is defined twice", name.name))
                        .label("defined again here")
                        .also(first, "first defined here")
                        .hint("rename one of them"),
                );
                continue;
            }
            table.insert(name.name, (id, name.span));
        }
        Rc::make_mut(&mut self.names.items).push(Entry { module, item: Rc::new(item) });
    }

    /// A module whose last name differs by one letter, or by the order of two.
    fn near_module(&self, from: &Path, parts: &[&str]) -> Option<String> {
        let (last, before) = parts.split_last()?;
        if !(3..=40).contains(&last.len()) {
            return None;
        }
        let letters: Vec<char> = last.chars().collect();
        let others = || ('a'..='z').chain('0'..='9').chain(['_']);
        let near = (0..=letters.len()).flat_map(|i| {
            let (head, tail) = letters.split_at(i);
            let with = |more: &[char], rest: &[char]| [head, more, rest].concat();
            let rest = tail.get(1..);
            let less = rest.map(|rest| with(&[], rest));
            let swapped = tail.get(2..).map(|rest| with(&[tail[1], tail[0]], rest));
            let more = others().map(move |c| [head, &[c], tail].concat());
            let other = others().filter_map(move |c| rest.map(|rest| [head, &[c], rest].concat()));
            less.into_iter().chain(swapped).chain(more).chain(other).collect::<Vec<_>>()
        });
        near.map(String::from_iter).filter(|n| n != last).find_map(|name| {
            let near: Vec<&str> = before.iter().copied().chain([name.as_str()]).collect();
            let found = self.world.resolve(from, &near).is_some_and(|(_, taken)| taken == near.len());
            found.then(|| near.join("."))
        })
    }

    fn use_(&mut self, module: ModId, path: &ast::Path) {
        let parts: Vec<&str> = path.parts.iter().map(|p| p.name.as_str()).collect();
        if parts.len() > MOST_PARTS {
            let text = format!("a name in `use` has at most {MOST_PARTS} parts");
            let d = Diagnostic::error("E0202", path.span, text).label(format!("this has {}", parts.len()));
            self.diags.push(d);
            return;
        }
        let from = self.names.modules[module].path.parent().map(Path::to_path_buf).unwrap_or_default();
        let Some((file, taken)) = self.world.resolve(&from, &parts) else {
            let d = Diagnostic::error("E0202", path.span, format!("there is no module `{}`", parts.join(".")));
            let d = d.label("not found");
            self.diags.push(match self.near_module(&from, &parts) {
                Some(near) => d.hint(format!("did you mean `{near}`?")),
                None => d.hint(
                    "modules are files: `use a.b` reads `a/b.loom` beside this file, `use std.x` the standard library",
                ),
            });
            return;
        };
        let Some(target) = self.module(&file, Some(path.span)) else { return };
        let item = match parts.len() - taken {
            0 => None,
            1 => Some(parts[taken].to_string()),
            _ => {
                self.diags.push(Diagnostic::error(
                    "E0202",
                    path.span,
                    format!("`{}` is no module", parts[..=taken].join(".")),
                ));
                return;
            }
        };
        if let Some(name) = &item {
            if !self.names.modules[target].names.contains_key(name) {
                let hint = suggest(name, self.names.modules[target].names.keys().map(String::as_str));
                self.diags.push(with_hint(
                    Diagnostic::error(
                        "E0201",
                        path.span,
                        format!("module `{}` has no `{name}`", parts[..taken].join(".")),
                    )
                    .label("unknown name"),
                    hint,
                ));
                return;
            }
        }
        let parts = parts[..taken].iter().map(|s| s.to_string()).collect();
        self.names.modules[module].uses.push(Import { parts, module: target, item, span: path.span, used: false });
    }
}

impl Names {
    /// The meaning of a dotted name in a module: its own items first, then its imports. The second
    /// value counts the parts taken.
    pub fn find(&mut self, module: ModId, parts: &[&str]) -> Option<(Meaning, usize)> {
        let first = *parts.first()?;
        if let Some(&(id, _)) = self.modules.get(module)?.names.get(first) {
            return Some((Meaning::Item(id), 1));
        }
        let Some(at) = self.modules[module].uses.iter().position(|u| match &u.item {
            Some(item) => item == first,
            None => {
                u.parts.last().is_some_and(|l| l == first)
                    || (parts.len() >= u.parts.len() && u.parts.iter().zip(parts).all(|(a, b)| a == b))
            }
        }) else {
            let id = self.modules.get(self.packet?)?.names.get(first)?.0;
            return Some((Meaning::Item(id), 1));
        };
        let u = &mut self.modules[module].uses[at];
        u.used = true;
        let (target, item) = (u.module, u.item.clone());
        let taken = if u.parts.last().is_some_and(|l| l == first) || item.is_some() { 1 } else { u.parts.len() };
        let in_target = |names: &Names, name: &str| names.modules[target].names.get(name).map(|&(id, _)| id);
        let (found, taken) = match (item, parts.get(taken)) {
            (Some(item), _) => (Meaning::Item(in_target(self, &item)?), 1),
            (None, Some(name)) if in_target(self, name).is_some() => (Meaning::Item(in_target(self, name)?), taken + 1),
            // A module's item of the module's own name may be called by that name: `as http`.
            (None, _) => match in_target(self, first) {
                Some(id) if parts.len() == taken => (Meaning::Item(id), taken),
                _ => (Meaning::Module, taken),
            },
        };
        Some((found, taken))
    }

    /// The content of an imported module, for the hint after a missing name.
    pub fn contents(&self, module: ModId, name: &str) -> Option<String> {
        let u =
            self.modules.get(module)?.uses.iter().find(|u| {
                u.item.is_none() && (u.parts.last().is_some_and(|l| l == name) || u.parts.join(".") == name)
            })?;
        let mut all: Vec<&str> = self.modules[u.module].names.keys().map(String::as_str).collect();
        all.sort_unstable();
        Some(format!("`{name}` has: {}", all.join(", ")))
    }

    /// All names that could be meant in a module, for hints.
    pub fn known(&self, module: ModId) -> Vec<Cow<'_, str>> {
        let Some(m) = self.modules.get(module) else { return Vec::new() };
        let mut all: Vec<Cow<'_, str>> = m.names.keys().map(|n| n.as_str().into()).collect();
        for u in &m.uses {
            let last = u.parts.last().cloned().unwrap_or_default();
            match &u.item {
                Some(i) => all.push(i.as_str().into()),
                None => {
                    all.extend(self.modules[u.module].names.keys().map(|n| format!("{last}.{n}").into()));
                    all.push(last.into());
                }
            }
        }
        all
    }
}

/// The known name nearest to an unknown one, if any is near.
pub fn suggest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    // One letter is as near to any other.
    let limit = if name.len() < 3 { 0 } else { 1 + name.len() / 4 };
    let plain = |k: &str| k.rsplit('.').next().unwrap_or(k).to_string();
    let rank = |k: &'a str| {
        let last_part = k.contains('.') && plain(k) == name;
        suggestions::rank(name, k, limit).or(last_part.then_some((1, Reverse(0)))).map(|r| (r, k))
    };
    // The name itself is there, as something else, or out of sight: it is not mistyped.
    known.filter(|k| *k != name).filter_map(rank).min().map(|(_, k)| k.to_string())
}

pub fn with_hint(d: Diagnostic, name: Option<String>) -> Diagnostic {
    match name {
        Some(n) => d.hint(format!("did you mean `{n}`?")),
        None => d,
    }
}
