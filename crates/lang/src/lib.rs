//! The checker. Source files come in. A typed [`ir::Module`] and diagnostics go out.
//!
//! Stages: [`names`] reads the main file and the modules that it uses. Items are resolved at their
//! first use ([`compiler`], with types and constants in [`consts`]). [`units`] lowers grammars.
//! [`protocols`] and [`apps`] lower the parts of programs. All code and all expressions go through
//! [`body`], which checks and lowers in one walk. The grammar analysis of the IR checks units last.
//! One run reports several errors: an erroneous expression gets a type that agrees with every other
//! type.

#![warn(clippy::wildcard_enum_match_arm)]

mod apps;
mod body;
mod clauses_alone;
mod compiler;
mod consts;
mod conversation_clauses;
mod fold;
mod ir_builder;
mod items;
mod limits;
mod names;
mod protocols;
mod repeated;
mod session_pools;
mod shown_names;
mod ty;
mod units;
mod unused;
mod val;

use std::path::Path;
use std::sync::Arc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Item, ItemKind};
use wireloom_syntax::{diagnostic, Diagnostic, SourceMap, World};

/// The result of checking a program.
pub struct Checked {
    /// There if nothing was an error.
    pub module: Option<ir::Module>,
    pub diagnostics: Vec<Diagnostic>,
    /// Each element in C by itself, whether or not the module has one.
    pub elements_in_c: Vec<ir::Module>,
    pub map: Arc<SourceMap>,
    /// The apps of the file, in its order.
    pub apps: Vec<String>,
    /// How many tests of elements it has: see [`compile_test`].
    pub element_tests: usize,
}

impl Checked {
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Checks and lowers a file: its app (the one named, or its first one), and everything else it
/// holds. A file without an app gives a module of its units, functions and tests.
pub fn compile(world: &dyn World, main: &Path, app: Option<&str>) -> Checked {
    checked(world, main, |cx| program(cx, app, &mut Apart::default()))
}

/// Checks and lowers each app of a file; one result of a file in error or without apps. The file is
/// read once, and what stands outside of the apps is told with the first one.
pub fn compile_apps(world: &dyn World, main: &Path) -> Vec<Checked> {
    let read = Read::of(world, main);
    let mut apart = Apart::default();
    let mut all = vec![read.checked(world, |cx| program(cx, None, &mut apart))];
    let others: Vec<String> = all[0].apps.iter().skip(1).cloned().collect();
    all.extend(others.iter().map(|app| read.checked(world, |cx| program(cx, Some(app), &mut apart))));
    // Elements in C are compiled with an app that has no errors.
    let in_c: Vec<_> = all.iter_mut().flat_map(|c| std::mem::take(&mut c.elements_in_c)).collect();
    let good = all.iter().position(|c| !c.has_errors()).unwrap_or(0);
    all[good].elements_in_c = in_c;
    all
}

/// Checks apart from the apps that are done.
#[derive(Default)]
struct Apart {
    items: bool,
    unused: bool,
}

/// Checks and lowers the n-th test of an element in a file. It is an app around an instance of the
/// element, with a port for each of its inputs and outputs.
pub fn compile_test(world: &dyn World, main: &Path, n: usize) -> Checked {
    checked(world, main, |cx| {
        let Some(id) = cx.element_tests().get(n).copied() else { return };
        let item = cx.names.items[id].item.clone();
        if let ItemKind::Test(t) = &item.kind {
            let made = cx.element_test(0, t);
            cx.settle(made, t.span);
            test_is_there(cx, t.span);
        }
        cx.analyze();
    })
}

/// For tests of the compiler: one that loses the tests of a file.
#[doc(hidden)]
pub fn compile_losing_tests(world: &dyn World, main: &Path) -> Checked {
    checked(world, main, |cx| {
        program(cx, None, &mut Apart::default());
        cx.m.tests.clear();
        all_tests_are_there(cx, None);
    })
}

fn checked(world: &dyn World, main: &Path, lower: impl FnOnce(&mut compiler::Compiler)) -> Checked {
    Read::of(world, main).checked(world, lower)
}

/// A file and the modules that it uses, as they were read.
struct Read {
    map: Arc<SourceMap>,
    names: names::Names,
    diagnostics: Vec<Diagnostic>,
}

impl Read {
    fn of(world: &dyn World, main: &Path) -> Self {
        let mut map = SourceMap::new();
        let mut diagnostics = Vec::new();
        let names = names::load(world, main, &mut map, &mut diagnostics);
        Read { map: Arc::new(map), names, diagnostics }
    }

    fn checked(&self, world: &dyn World, lower: impl FnOnce(&mut compiler::Compiler)) -> Checked {
        let mut cx = compiler::Compiler::new(world, &self.map, self.names.clone());
        // An error of the parser at a place is not repeated in other words.
        cx.diags = self.diagnostics.clone();
        if !cx.names.modules.is_empty() {
            lower(&mut cx);
            cx.refuse_untold();
        }
        let mut diagnostics = std::mem::take(&mut cx.diags);
        let module = std::mem::take(&mut cx.m);
        let elements_in_c = std::mem::take(&mut cx.elements_in_c);
        let apps = apps(&cx).iter().filter_map(|i| compiler::item_name(i).map(str::to_string)).collect();
        let element_tests = if cx.names.modules.is_empty() { 0 } else { cx.element_tests().len() };
        drop(cx);
        diagnostic::sort(&mut diagnostics);
        let module = (!diagnostics.iter().any(Diagnostic::is_error)).then_some(module);
        Checked { module, diagnostics, elements_in_c, map: self.map.clone(), apps, element_tests }
    }
}

/// The codes for programs that are too large for the compiler.
const TOO_LARGE: &[&str] = &["E0504", "E0506", "E0508", "E0509", "E0510", "E0512"];

fn program(cx: &mut compiler::Compiler, wanted: Option<&str>, apart: &mut Apart) {
    let main: Vec<_> = (0..cx.names.items.len()).filter(|i| cx.names.items[*i].module == 0).collect();
    for id in &main {
        let item = cx.names.items[*id].item.clone();
        if matches!(item.kind, ItemKind::App(_) | ItemKind::Test(_)) {
            continue;
        }
        if let ItemKind::Element(e) = &item.kind {
            cx.element_item(0, e);
            continue;
        }
        if let Ok(items::Item::Fn(f)) = cx.item(*id, item.span) {
            let made = cx.function(&f, item.span);
            cx.settle(made, item.span);
        }
    }
    let name = app(cx, wanted);
    if wanted.is_some() && name.is_none() {
        return;
    }
    for id in &main {
        let item = cx.names.items[*id].item.clone();
        if let ItemKind::Test(t) = &item.kind {
            let made = cx.test(0, t, name.as_deref());
            cx.settle(made, t.span);
        }
    }
    all_tests_are_there(cx, name.as_deref());
    cx.analyze();
    cx.check_devices();
    // Code that cannot be read, or is too large already, is not checked further.
    let sound = !cx.diags.iter().any(|d| d.code.starts_with("E01") || TOO_LARGE.contains(&d.code));
    if sound && !std::mem::replace(&mut apart.items, true) {
        elements(cx);
        cx.clauses_alone();
    }
    apart.unused = apart.unused || unused::warn(cx);
}

/// Every test of the file's functions, and of the app, is in the module, or an error tells why not.
fn all_tests_are_there(cx: &mut compiler::Compiler, app: Option<&str>) {
    let of_app = |path: &ast::Path| path.parts.last().is_some_and(|n| Some(n.name.as_str()) == app);
    let mut wanted = Vec::new();
    for entry in cx.names.items.iter().filter(|i| i.module == 0) {
        let ItemKind::Test(t) = &entry.item.kind else { continue };
        if t.app.as_ref().is_none_or(|(path, _)| path.parts.len() == 1 && of_app(path)) {
            wanted.push(t.span);
        }
    }
    for at in wanted {
        test_is_there(cx, at);
    }
}

fn test_is_there(cx: &mut compiler::Compiler, at: ast::Span) {
    let span = cx.span(at);
    if !cx.m.tests.iter().any(|t| t.span == span) {
        cx.must_be_told(at);
    }
}

/// Each element by itself. Errors that its use in the app has reported are not repeated.
fn elements(cx: &mut compiler::Compiler) {
    let own = cx.own_elements();
    let begun = cx.begun_elements(&own);
    for id in own {
        let alone = begun.element_alone(id);
        cx.elements_in_c.extend(alone.module);
        if let Some(span) = alone.untold {
            cx.must_be_told(span);
        }
        for d in alone.found {
            if !cx.diags.iter().any(|o| o.code == d.code && o.span() == d.span()) {
                cx.diags.push(d);
            }
        }
    }
}

/// The apps of the main file.
fn apps(cx: &compiler::Compiler) -> Vec<std::rc::Rc<Item>> {
    cx.names
        .items
        .iter()
        .filter(|i| i.module == 0 && matches!(i.item.kind, ItemKind::App(_)))
        .map(|i| i.item.clone())
        .collect()
}

/// Compiles the app; gives its name.
fn app(cx: &mut compiler::Compiler, wanted: Option<&str>) -> Option<String> {
    let apps = apps(cx);
    let named = |i: &&std::rc::Rc<Item>| match (&i.kind, wanted) {
        (ItemKind::App(a), Some(w)) => a.name.name == w,
        _ => true,
    };
    let found: Vec<_> = apps.iter().filter(named).collect();
    match (found.as_slice(), wanted) {
        ([], None) => None,
        ([], Some(w)) => {
            let known: Vec<String> = apps.iter().filter_map(|i| compiler::item_name(i).map(str::to_string)).collect();
            let d = Diagnostic::at("E0204", None, format!("there is no app `{w}` in this file"))
                .note(format!("its apps: {}", known.join(", ")));
            let near = names::suggest(w, known.iter().map(String::as_str));
            cx.report(names::with_hint(d, near));
            None
        }
        ([item, ..], _) => {
            let ItemKind::App(a) = &item.kind else { return None };
            cx.app_item(0, a);
            cx.answer_classes();
            Some(a.name.name.clone())
        }
    }
}
