//! Declarations of the main file that nothing uses: modules (W0903), members of elements and apps,
//! and items of programs (W0907).
//!
//! A name is used if it stands in the text behind its declaration or in front of it, in its scope.
//! So the check does not depend on what was lowered: a handler that nothing calls uses its names.

use crate::apps;
use crate::compiler::Compiler;
use std::collections::HashMap;
use wireloom_syntax::ast::{Ident, Item, ItemKind, Member, MemberKind, Span};
use wireloom_syntax::lexer::lex;
use wireloom_syntax::token::{Tok, Token};
use wireloom_syntax::Diagnostic;

/// The app of a library's file that shows how to use it: the file's items are for others.
const EXAMPLE: &str = "example";

/// Whether it could tell: lines that could not be read may use them.
pub fn warn(cx: &mut Compiler) -> bool {
    if cx.diags.iter().any(Diagnostic::is_error) {
        return false;
    }
    modules(cx);
    let own: Vec<_> = cx.names.items.iter().filter(|e| e.module == 0).map(|e| e.item.clone()).collect();
    let Some(file) = own.first().map(|i| i.span.file) else { return true };
    let Some(source) = cx.map.file(file) else { return true };
    let words = Words::of(&source.text, file);
    let mut found = Vec::new();
    for item in &own {
        members(item, &words, &mut found);
    }
    let program = |i: &&std::rc::Rc<Item>| matches!(&i.kind, ItemKind::App(a) if a.name.name != EXAMPLE);
    if own.iter().any(|i| program(&i)) {
        own.iter().for_each(|i| items(i, &words, &mut found));
    }
    for d in found {
        cx.report(d);
    }
    true
}

/// Where each word stands that is no field (`.word`), in the order of the text.
struct Words<'a>(HashMap<&'a str, Vec<u32>>);

impl<'a> Words<'a> {
    fn of(text: &'a str, file: wireloom_syntax::ast::FileId) -> Self {
        let mut all: HashMap<&str, Vec<u32>> = HashMap::new();
        let mut field = false;
        for Token { tok, span, .. } in lex(file, text, &mut Vec::new()).tokens {
            if tok == Tok::Word && !field {
                all.entry(&text[span.start as usize..span.end as usize]).or_default().push(span.start);
            }
            field = tok == Tok::Sign(".");
        }
        Words(all)
    }

    /// Whether the name stands where it says.
    fn stands(&self, name: &Ident) -> bool {
        self.0.get(name.name.as_str()).is_some_and(|places| places.contains(&name.span.start))
    }

    /// Whether the name stands in the scope, outside of the span.
    fn uses(&self, name: &str, scope: Span, outside: Span) -> bool {
        let inside = |s: Span, at: u32| s.start <= at && at < s.end;
        let places = self.0.get(name).map_or(&[][..], Vec::as_slice);
        places.iter().any(|at| inside(scope, *at) && !inside(outside, *at))
    }
}

/// The word for a member in messages, and its name; none for one that others use, or that acts by
/// itself.
pub fn member(m: &Member) -> Option<(&str, &Ident)> {
    Some(match &m.kind {
        MemberKind::Param(p) => ("parameter", &p.name),
        MemberKind::State { name, .. } => ("state", name),
        MemberKind::Session { name, of_request: true, .. } => ("request", name),
        MemberKind::Session { name, .. } | MemberKind::Upstream { name, .. } => ("session", name),
        MemberKind::Counter(name) => ("counter", name),
        MemberKind::Table(t) => ("table", &t.name),
        MemberKind::Queue(q) => ("queue", &q.name),
        MemberKind::Cache(c) => ("cache", &c.name),
        MemberKind::Gauge(g) => (&g.word.name, &g.name),
        MemberKind::Const { name, .. } => ("constant", name),
        MemberKind::Fn(f) => ("function", &f.name),
        MemberKind::In { .. }
        | MemberKind::Out { .. }
        | MemberKind::Port(_)
        | MemberKind::PacketState(_)
        | MemberKind::Segment { .. }
        | MemberKind::Link { .. }
        | MemberKind::Handler(_)
        | MemberKind::Signal { .. }
        | MemberKind::Instance { .. }
        | MemberKind::Wiring(_) => return None,
    })
}

fn members(item: &Item, words: &Words, found: &mut Vec<Diagnostic>) {
    let (ItemKind::Element(e) | ItemKind::App(e)) = &item.kind else { return };
    let (scope, is_element) = (item.span, matches!(item.kind, ItemKind::Element(_)));
    for m in &e.members {
        // `signal stop` brings a state with it, which is not written.
        // The C file uses what an element in C has.
        if e.in_c.is_some() {
            break;
        }
        let Some((word, name)) = member(m).filter(|(_, name)| words.stands(name)) else { continue };
        // A function that calls itself, or a table whose options name it, is not used by that.
        let own = if matches!(m.kind, MemberKind::Counter(_)) { name.span } else { m.span };
        // Functions of an element are for its app, too: `gate.open(true)`.
        let outside = is_element && matches!(m.kind, MemberKind::Fn(_));
        if !outside && !words.uses(&name.name, scope, own) {
            found.extend(unused(word, name));
        }
    }
}

/// Items of a program. A test is a use: it may have functions of its own.
fn items(item: &Item, words: &Words, found: &mut Vec<Diagnostic>) {
    let file = Span { start: 0, end: u32::MAX, ..item.span };
    let (word, name) = match &item.kind {
        ItemKind::Fault(names) => {
            let unnamed = names.iter().filter(|n| !words.uses(&n.name, file, n.span));
            found.extend(unnamed.filter_map(|n| unused("fault", n)));
            return;
        }
        ItemKind::Const { name, .. } => ("constant", name),
        ItemKind::Charset { name, .. } => ("charset", name),
        ItemKind::Alias { name, .. } => ("type", name),
        ItemKind::Enum { name, .. } => ("enum", name),
        ItemKind::Record { name, .. } => ("record", name),
        ItemKind::Unit(u) => ("unit", &u.name),
        ItemKind::Packet(p) => ("packet type", &p.name),
        ItemKind::Protocol(p) => ("protocol", &p.name),
        ItemKind::Fn(f) => ("function", &f.name),
        ItemKind::Element(e) => ("element", &e.name),
        ItemKind::Table(t) => ("table", &t.name),
        ItemKind::Use(_) | ItemKind::App(_) | ItemKind::Test(_) => return,
    };
    if !words.uses(&name.name, file, item.span) {
        found.extend(unused(word, name));
    }
}

fn unused(word: &str, name: &Ident) -> Option<Diagnostic> {
    if name.name.starts_with('_') {
        return None;
    }
    let d = Diagnostic::warning("W0907", name.span, format!("nothing uses the {word} `{}`", name.name));
    Some(d.label("not used").hint(format!("remove it, or name it `_{}`", name.name)))
}

/// `use`s that nothing needs. Of several apps one is compiled: the others may need them.
fn modules(cx: &mut Compiler) {
    if apps(cx).len() > 1 {
        return;
    }
    let unused = cx.names.modules[0].uses.iter().filter(|u| !u.used);
    let spans: Vec<(Span, String)> = unused.map(|u| (u.span, u.parts.join("."))).collect();
    for (span, name) in spans {
        cx.report(
            Diagnostic::warning("W0903", span, format!("`{name}` is not used"))
                .label("not used")
                .hint("remove this `use`"),
        );
    }
}
