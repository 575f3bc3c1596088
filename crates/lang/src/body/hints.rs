//! Remedies for mistakes: what a program that has one of them most likely means.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of Ty and Val")]

use super::Lower;
use crate::compiler::Reported;
use crate::ty::Ty;
use crate::val::{OutKind, Val, Vk};
use ir::Step;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, ExprKind, Ident, Span};
use wireloom_syntax::Diagnostic;

/// Longer code is not repeated in a hint.
const LONGEST: usize = 40;

/// Functions of the language by the names that methods have elsewhere.
const METHODS: &[(&str, &str)] = &[
    ("length", "len"),
    ("size", "len"),
    ("count", "len"),
    ("to_lower", "lower"),
    ("toLowerCase", "lower"),
    ("lowercase", "lower"),
    ("to_upper", "upper"),
    ("toUpperCase", "upper"),
    ("uppercase", "upper"),
    ("startswith", "starts_with"),
    ("startsWith", "starts_with"),
    ("index", "find"),
    ("indexOf", "find"),
    ("substr", "slice"),
    ("substring", "slice"),
    ("strip", "trim"),
];

impl Lower<'_, '_> {
    /// The code at a place, if it is short.
    pub fn code(&self, span: Span) -> Option<&str> {
        let text = self.cx.map.text(span);
        (!text.is_empty() && text.len() <= LONGEST && !text.contains('\n')).then_some(text)
    }

    /// An expression as it is written, else this name for one.
    pub fn code_of<'t>(&'t self, e: &Expr, other: &'t str) -> &'t str {
        self.code(e.span).unwrap_or(other)
    }

    /// A table's name as the program has it, without that of the element around.
    pub fn table_called(&self, t: ir::TableId) -> &str {
        let name = &self.cx.m.tables[t.index()].name;
        name.rsplit_once('.').map_or(name, |(_, own)| own)
    }

    /// An assignment to a name that is no variable. `at`: where it is bound.
    pub fn no_variable(&mut self, n: &Ident, message: bool, at: Span) -> Reported {
        let d = Diagnostic::error("E0313", n.span, format!("`{}` cannot be assigned to", n.name));
        let before = Span { start: at.start.saturating_sub(4), ..at };
        let by_let = self.cx.map.text(before).starts_with("let ");
        let d = d.label(if by_let { "bound by `let`" } else { "no variable" }).also(at, "bound here");
        let hint = match (message, by_let) {
            (true, _) => "give the new message a name of its own: `let changed = …`".to_string(),
            (_, true) => format!("write `var {} = …`", n.name),
            _ => format!("a name that changes is a variable: `var changed = {}`", n.name),
        };
        self.cx.report(d.hint(hint))
    }

    /// The remedy for text where something else is wanted that has a form of its own.
    pub fn quoted(&self, want: &Ty, found: &Ty, span: Span) -> Option<&'static str> {
        let quotes = matches!(found, Ty::Bytes(_)) && self.cx.map.text(span).contains('"');
        match want {
            Ty::Ip | Ty::Ip4 if quotes => Some("an address is written without quotes: `10.0.0.1`"),
            Ty::Ip6 if quotes => Some("an address is written without quotes: `2001:db8::1`"),
            Ty::Prefix if quotes => Some("a prefix is written without quotes: `10.0.0.0/8`"),
            Ty::Mac if quotes => Some("an address is written without quotes: `02:00:00:00:00:01`"),
            Ty::Endpoint if quotes => Some("an endpoint is written without quotes: `127.0.0.1:80`"),
            _ => None,
        }
    }

    /// The remedy for a value that is no condition.
    pub fn as_condition(&self, t: &Ty, span: Span) -> Option<String> {
        let x = self.code(span).unwrap_or("x");
        match t {
            Ty::Int { bits: 1, .. } => Some(format!("a bit is compared: `{x} == 1`")),
            Ty::Int { .. } | Ty::Lit if x.contains(' ') => Some(format!("a number is compared: `({x}) != 0`")),
            Ty::Int { .. } | Ty::Lit => Some(format!("a number is compared: `{x} != 0`")),
            Ty::Bytes(_) | Ty::List(..) | Ty::Items(..) => Some(format!("whether it is empty: `len({x}) == 0`")),
            _ => None,
        }
    }

    /// A method that is a function here: `x.len()`, `x.length`.
    pub fn as_function(&self, base: &Expr, name: &Ident, args: &[&Expr]) -> Option<String> {
        let known = METHODS.iter().find(|(n, _)| *n == name.name).map_or(name.name.as_str(), |(_, f)| f);
        let f = ir::ops::function(known).filter(|f| f.arity().contains(&(args.len() + 1)))?;
        let mut all = vec![self.code_of(base, "x")];
        all.extend(args.iter().map(|a| self.code_of(a, "y")));
        Some(format!("it is a function: `{}({})`", f.name(), all.join(", ")))
    }

    /// A field that is a function here: `x.length`. `span` is that of the whole.
    pub fn field_as_function(&self, t: &Ty, name: &Ident, span: Span) -> Option<String> {
        let sized = matches!(t, Ty::Bytes(_) | Ty::List(..) | Ty::Items(..));
        let known = METHODS.iter().find(|(n, _)| *n == name.name).map_or(name.name.as_str(), |(_, f)| f);
        let f = ir::ops::function(known).filter(|f| sized && f.arity().contains(&1))?;
        let x = self.code(span).and_then(|c| c.strip_suffix(&name.name)?.strip_suffix('.')).unwrap_or("x");
        Some(format!("it is a function: `{}({x})`", f.name()))
    }

    /// A range in the place of an index.
    pub fn range_as_index(&mut self, base: &Expr, t: &Ty, index: &Expr) -> Option<Reported> {
        let ExprKind::Range(from, to, inclusive) = &*index.kind else { return None };
        let d = Diagnostic::error("E0301", index.span, "a range is no index");
        let b = self.code_of(base, "b");
        let (from, to) = (self.code_of(from, "from"), self.code_of(to, "to"));
        let more = if *inclusive { " + 1" } else { "" };
        let hint = match t {
            Ty::Bytes(_) => format!("a part of bytes is `slice({b}, {from}, {to}{more})`"),
            Ty::List(..) | Ty::Items(..) => format!("its items are `{b}[i]`, or those of `for x in {b}`"),
            _ => return None,
        };
        Some(self.cx.report(d.hint(hint)))
    }

    /// The place of a name that is not visible here.
    pub fn elsewhere(&mut self, name: &Ident) -> Option<Diagnostic> {
        let hint = self.side(&name.name).or_else(|| self.connections(name)).or_else(|| self.later_field(&name.name))?;
        let d = Diagnostic::error("E0201", name.span, format!("unknown name `{}`", name.name));
        Some(d.label("not known here").hint(hint))
    }

    /// `request` and `response` in the clause of a conversation.
    fn side(&self, name: &str) -> Option<String> {
        let sides: &[&str] = match name {
            "request" => &["up", "down"],
            "response" => &["down", "up"],
            _ => return None,
        };
        let side = sides.iter().find(|side| self.kind == super::Kind::Clause && self.lookup(side).is_some())?;
        let whose = if *side == "up" { "a client" } else { "a server" };
        Some(format!("the message of {whose} is `{side}` in a conversation"))
    }

    /// A value that a conversation's protocol remembers, without the client's name.
    fn connections(&mut self, name: &Ident) -> Option<String> {
        let (port, _) = self.cx.conversation_port().filter(|_| self.in_app)?;
        let impure = self.impure;
        let found = self.remembered_of(port, name);
        self.impure = impure;
        found?;
        Some(format!(
            "its protocol remembers it for each client: `{}.{}`",
            self.cx.m.ports[port.index()].name,
            name.name
        ))
    }

    /// A field of the unit that stands behind the place where it is named.
    #[allow(clippy::wildcard_enum_match_arm, reason = "two kinds of many have names")]
    fn later_field(&self, name: &str) -> Option<String> {
        let super::Kind::Grammar(unit) = self.kind else { return None };
        let whole = &self.cx.m.units[unit.index()].name;
        let short = whole.rsplit('.').next().unwrap_or(whole);
        let (id, _) = self.cx.names.modules.get(self.module)?.names.get(short)?;
        let ast::ItemKind::Unit(u) = &self.cx.names.items[*id].item.kind else { return None };
        let later = u.fields.iter().any(|f| match &f.kind {
            ast::FieldKind::Value { name: Some(n), .. } | ast::FieldKind::Let { name: n, .. } => n.name == name,
            _ => false,
        });
        later.then(|| format!("the field `{name}` stands behind this place: put it before"))
    }

    /// A field of the entry or message at hand that is named without its dot.
    pub fn without_dot(&self, name: &Ident) -> Option<Diagnostic> {
        let has = match &self.dot.as_ref()?.ty {
            Ty::Record(r) => self.cx.records[r.index()].iter().any(|(n, _)| *n == name.name),
            Ty::Msg(u) => self.cx.units[u.index()].member(&name.name).is_some(),
            _ => false,
        };
        let d = || Diagnostic::error("E0201", name.span, format!("unknown name `{}`", name.name));
        has.then(|| d().label("not known here").hint(format!("a field of what is at hand has a dot: `.{}`", name.name)))
    }

    /// An assignment to a field of a message: messages are changed by `with`.
    pub fn part_of_message(&mut self, base: &Expr, field: &Ident) -> Option<Reported> {
        let ExprKind::Name(n) = &*base.kind else { return None };
        let (i, j) = self.lookup(&n.name)?;
        let b = &self.scopes[i][j];
        let (Ty::Msg(_), None) = (&b.val.ty, b.var) else { return None };
        let text = format!("a field of the message `{}` cannot be assigned to", n.name);
        let d = Diagnostic::error("E0313", base.span, text).also(b.span, "bound here");
        let d = match &b.val.kind {
            Vk::Path(p) if p.steps.iter().any(|s| matches!(s, Step::Index(_))) => {
                d.hint("a list of a message is edited by `remove list where …` and `append list { … }`")
            }
            Vk::Out(o) if !matches!(o.kind, OutKind::Pass { .. }) => {
                let unit = self.cx.written(self.module, &self.cx.m.units[o.unit.index()].name);
                d.hint(format!("give it where `{}` is built: `{unit} {{ {}: … }}`", n.name, field.name))
            }
            _ => d.hint(format!("send a changed copy: `{} with {{ {}: … }}`", n.name, field.name)),
        };
        Some(self.cx.report(d))
    }

    /// The list of a message in the place of a table.
    pub fn list_as_table(&self, list: &Expr, v: &Val, removes: bool) -> Option<String> {
        let Ty::Items(..) = v.ty else { return None };
        let list = self.code_of(list, "list");
        Some(match removes {
            true => format!("items of a message's list are taken out by `remove {list} where …`"),
            false => format!("an item comes to a message's list by `append {list} {{ … }}`"),
        })
    }

    /// An edit of a list of a message that is built here.
    pub fn edited_while_built(&mut self, list: &Expr) -> Option<Reported> {
        let ExprKind::Field(Some(base), field) = &*list.kind else { return None };
        let ExprKind::Name(n) = &*base.kind else { return None };
        let (i, j) = self.lookup(&n.name)?;
        let b = &self.scopes[i][j];
        let Vk::Out(o) = &b.val.kind else { return None };
        if matches!(o.kind, OutKind::Pass { .. }) {
            return None;
        }
        let d = Diagnostic::error("E0607", list.span, format!("`{}` is built here, and not edited", n.name));
        let d = d.also(b.span, "built here");
        let unit = self.cx.written(self.module, &self.cx.m.units[o.unit.index()].name);
        let hint = format!("give all of its `{0}` where it is built: `{unit} {{ {0}: [ … ] … }}`", field.name);
        Some(self.cx.report(d.hint(hint)))
    }

    /// The remedy for streamed bytes in the place of a value.
    pub fn streamed(&self) -> &'static str {
        if !self.popping.is_empty() {
            return "a queue keeps such bytes as a value of a unit of your own: `Copy { body: req.data … } -> q`, from a \
                    port with `{ hold_body 64KiB else pass }`";
        }
        "its bytes are still to come; `{ hold_body 64KiB else pass }` at the message's port makes them a value"
    }
}
