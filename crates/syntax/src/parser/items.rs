//! Items: the top level of a file.

use super::recover::{nearest, ITEM_WORDS};
use super::{Abort, Column, Parser, P};
use crate::ast::{Expr, Fn, FnBody, Ident, Item, ItemKind, Param, Type, Variant};
use crate::diagnostic::Diagnostic;
use crate::token::Tok;

/// Words of other languages, and what stands for them here.
const FOREIGN: &[(&str, &str)] = &[
    ("import", "use"),
    ("include", "use"),
    ("def", "fn"),
    ("func", "fn"),
    ("function", "fn"),
    ("struct", "record"),
    ("class", "element"),
    ("header", "unit"),
    ("message", "unit"),
    ("let", "const"),
    ("var", "const"),
    ("error", "fault"),
];

impl Parser<'_> {
    pub(super) fn file_items(&mut self) -> Vec<Item> {
        let mut items = Vec::new();
        while !self.at_end() {
            if self.eat(";") {
                continue;
            }
            let before = self.at;
            self.mark_start();
            match self.item() {
                Ok(more) => items.extend(more),
                Err(Abort) => self.skip_item(before),
            }
            if self.at == before {
                self.bump();
            }
        }
        items
    }

    /// One item; `table a…, b…` is never more than one, but a fault in it may leave none.
    fn item(&mut self) -> P<Option<Item>> {
        let (doc, start) = (self.doc(), self.span());
        if matches!(self.tok(), Tok::Sign("}" | ")" | "]")) {
            let found = self.slice(start);
            let d = Diagnostic::error("E0103", start, format!("this `{found}` closes nothing"))
                .hint("remove it, or look for a `{` that is missing above");
            self.report(d);
            self.bump();
            return Ok(None);
        }
        let Some(word) = self.word_text(0) else { return self.unexpected("an item: `app`, `unit`, `fn`, …") };
        let kind = self.item_kind(word)?;
        Ok(Some(Item { doc, span: self.since(start), kind }))
    }

    fn item_kind(&mut self, word: &str) -> P<ItemKind> {
        match word {
            "use" => {
                self.bump();
                self.path("a module's name").map(ItemKind::Use)
            }
            "const" => {
                let (name, ty, value) = self.constant()?;
                Ok(ItemKind::Const { name, ty, value })
            }
            "fault" => self.fault_item(),
            "charset" => {
                self.bump();
                let name = self.name("a character set")?;
                self.column(Column::Equals);
                self.expect("=")?;
                Ok(ItemKind::Charset { name, value: self.set_union()? })
            }
            "type" => {
                self.bump();
                let name = self.name("a type")?;
                self.column(Column::Equals);
                self.expect("=")?;
                Ok(ItemKind::Alias { name, ty: self.ty()? })
            }
            "enum" => self.enum_item(),
            "record" => {
                self.bump();
                let name = self.name("a record")?;
                let fields = self.braced(|p| p.param(true))?;
                Ok(ItemKind::Record { name, fields })
            }
            "unit" => self.unit().map(ItemKind::Unit),
            "packet" => self.packet().map(ItemKind::Packet),
            "protocol" => self.protocol().map(ItemKind::Protocol),
            "extern" if self.word_at(1, "element") => self.element_in_c().map(ItemKind::Element),
            "fn" | "extern" => self.function().map(ItemKind::Fn),
            "element" => self.element().map(ItemKind::Element),
            "app" => self.element().map(ItemKind::App),
            "table" | "global" => self.table().map(ItemKind::Table),
            "test" => self.test().map(ItemKind::Test),
            _ if self.at_foreign_fn(word) => self.foreign_fn("item").map(ItemKind::Fn),
            "event" => self.not_yet(&format!("`{word}`")),
            _ => self.unknown_item(word),
        }
    }

    #[cold]
    fn unknown_item<T>(&mut self, word: &str) -> P<T> {
        let d = Diagnostic::error("E0108", self.span(), format!("`{word}` starts no item"));
        if super::apps::MEMBERS.contains(&word) {
            let hint = format!("`{word}` is a part of an app: write it inside of `app name {{ … }}`");
            self.report(d.hint(hint));
            return Err(Abort);
        }
        let foreign = FOREIGN.iter().find(|(w, _)| *w == word).map(|(_, w)| *w);
        let d = match foreign.or_else(|| nearest(word, ITEM_WORDS)) {
            Some(near) => d.hint(format!("did you mean `{near}`?")),
            None => d.note(
                "items are `use const fault charset type enum record unit packet protocol fn element app table test`",
            ),
        };
        self.report(d);
        Err(Abort)
    }

    /// `const name: T = value`
    pub(super) fn constant(&mut self) -> P<(Ident, Option<Type>, Expr)> {
        self.bump();
        let name = self.name("a constant")?;
        let ty = self.type_annotation()?;
        self.column(Column::Equals);
        self.expect("=")?;
        Ok((name, ty, self.expr()?))
    }

    fn fault_item(&mut self) -> P<ItemKind> {
        self.bump();
        let mut names = vec![self.name("a fault")?];
        while self.eat(",") {
            names.push(self.name("a fault")?);
        }
        Ok(ItemKind::Fault(names))
    }

    /// A charset's value; ranges stand between its `|` without parentheses.
    fn set_union(&mut self) -> P<Expr> {
        let start = self.span();
        let mut union = self.alternative()?;
        while self.at_sign("|") {
            self.grow()?;
            self.bump();
            let right = self.alternative()?;
            let kind = crate::ast::ExprKind::Binary(crate::ast::BinOp::BitOr, union, right);
            union = super::exprs::expr_of(self.since(start), kind);
        }
        Ok(union)
    }

    fn enum_item(&mut self) -> P<ItemKind> {
        self.bump();
        let name = self.name("an enum")?;
        let base = self.type_annotation()?;
        let mut open = false;
        let variants = self.braced(|p| {
            if p.at_word("_") {
                let at = p.bump();
                if open {
                    let d = Diagnostic::error("E0203", at, "`_` is given twice").label("a second time");
                    p.report(d.hint("one `_` stands for all values without a name"));
                }
                open = true;
                return Ok(None);
            }
            let doc = p.doc();
            let name = p.any_word("a variant's name")?;
            let value = if p.eat("=") { Some(p.expr()?) } else { None };
            Ok(Some(Variant { doc, name, value }))
        })?;
        Ok(ItemKind::Enum { name, base, variants: variants.into_iter().flatten().collect(), open })
    }

    // ---- parameters, functions ----

    /// `(a: T, b: T)`
    pub(super) fn params(&mut self) -> P<Vec<Param>> {
        self.mark_tight();
        self.bracketed("(", ")", |p| p.param(false))
    }

    /// `name: T = default`; a record's fields, `name: T in set = default`, may have any name and
    /// stand in columns.
    pub(super) fn param(&mut self, field: bool) -> P<Param> {
        let doc = self.doc();
        let name = if field { self.any_word("a field")? } else { self.name("a parameter")? };
        self.colon("before the type")?;
        if field {
            self.column(Column::Type);
        }
        let ty = self.ty()?;
        let within = if field && self.at_within() { Some(self.within()?) } else { None };
        if field && within.is_none() && self.at_sign("=") {
            self.column(Column::Equals);
        }
        let default = if self.eat("=") { Some(self.expr()?) } else { None };
        if let Some(value) = default.as_ref().filter(|_| !field) {
            let d = Diagnostic::error("E0112", value.span, "a parameter of a function, signal or unit has no default")
                .hint("give the value wherever it is used; an app's `param` and a record's field may have defaults");
            self.report(d);
        }
        Ok(Param { doc, name, ty, within, default })
    }

    /// `function f(…)`, as other languages have it.
    pub(super) fn at_foreign_fn(&self, word: &str) -> bool {
        FOREIGN.contains(&(word, "fn")) && self.word_here(1) && self.sign_at(2, "(")
    }

    /// Reports the word before a function and reads the function: its callers are not blamed.
    #[cold]
    pub(super) fn foreign_fn(&mut self, place: &str) -> P<Fn> {
        let at = self.bump();
        let d = Diagnostic::error("E0108", at, format!("`{}` starts no {place}", self.slice(at)));
        self.report(d.hint("did you mean `fn`?"));
        self.function_after_word(false)
    }

    /// `fn f(a: T) -> R = e`, `fn f(a: T) -> R { … }`, `extern fn f(a: T) -> R from "file.c"`
    pub(super) fn function(&mut self) -> P<Fn> {
        let is_extern = self.eat_word("extern");
        self.expect_word("fn")?;
        self.function_after_word(is_extern)
    }

    fn function_after_word(&mut self, is_extern: bool) -> P<Fn> {
        let name = self.name("a function")?;
        if !self.at_sign("(") {
            return self.unexpected("`(`");
        }
        let params = self.params()?;
        let ret = self.result_type()?;
        let body = if is_extern {
            let (file, at) = self.c_file()?;
            FnBody::Extern(file, at)
        } else if self.eat("=") {
            FnBody::Expr(self.expr()?)
        } else if self.at_sign("{") {
            FnBody::Block(self.block()?)
        } else {
            let colon = self.at_sign(":");
            return self.unexpected_with("`=` and a value, or `{`", |d| {
                if colon {
                    d.hint("the result's type stands behind an arrow: `fn f(a: u32) -> u32`")
                } else {
                    d
                }
            });
        };
        Ok(Fn { name, params, ret, body })
    }

    /// `-> T`, if there is one
    pub(super) fn result_type(&mut self) -> P<Option<Type>> {
        if !self.at_sign("->") && !self.at_sign("=>") {
            return Ok(None);
        }
        self.arrow("->", "=>", "before the result's type")?;
        self.ty().map(Some)
    }
}
