//! Types: `u32`, `bytes<250>`, `list<Header, 100>`, `(ip4, u16)`, `[T; N]`, `record { … }`, `T?`.

use super::exprs::Level;
use super::{Parser, P};
use crate::ast::{Expr, Ident, Type, TypeArg, TypeKind};
use crate::token::Tok;

impl Parser<'_> {
    pub(super) fn ty(&mut self) -> P<Type> {
        self.nested(Self::ty_unchecked)
    }

    fn ty_unchecked(&mut self) -> P<Type> {
        let start = self.span();
        let kind = match self.tok() {
            Tok::Sign("(") => {
                let mut parts = self.bracketed("(", ")", Self::ty)?;
                match parts.len() {
                    // Parentheses around one type only group.
                    1 => parts.remove(0).kind,
                    _ => TypeKind::Tuple(parts),
                }
            }
            Tok::Sign("[") => self.array_type()?,
            Tok::Word if self.at_word("record") && self.sign_at(1, "{") => {
                self.bump();
                TypeKind::Record(self.record_type()?)
            }
            Tok::Word if self.at_word("fn") && self.sign_at(1, "(") => {
                self.bump();
                self.mark_tight();
                let params = self.bracketed("(", ")", Self::ty)?;
                self.arrow("->", "=>", "before the result type")?;
                TypeKind::Fn(params, Box::new(self.ty()?))
            }
            Tok::Word if self.at_word("connection") && self.word_at(1, "of") => {
                self.bump();
                self.bump();
                TypeKind::Connection(self.name("a port")?)
            }
            Tok::Word => {
                let path = self.path("a type")?;
                let args = if self.at_sign("<") { self.type_args()? } else { Vec::new() };
                TypeKind::Named { path, args }
            }
            _ => return self.unexpected("a type"),
        };
        let mut ty = Type { span: self.since(start), kind };
        while self.at_sign("?") && !self.breaks(0) {
            self.grow()?;
            self.mark_tight();
            self.bump();
            ty = Type { span: self.since(start), kind: TypeKind::Option(Box::new(ty)) };
        }
        Ok(ty)
    }

    /// `[T; N]`
    fn array_type(&mut self) -> P<TypeKind> {
        let opened = self.expect("[")?;
        self.inside(false, |p| {
            let element = p.ty()?;
            p.expect(";")?;
            let count = p.expr()?;
            p.close("]", opened)?;
            Ok(TypeKind::Array(Box::new(element), Box::new(count)))
        })
    }

    fn record_type(&mut self) -> P<Vec<(Ident, Type)>> {
        self.braced(|p| {
            let name = p.any_word("a field's name")?;
            p.colon("before the field's type")?;
            p.column(super::Column::Type);
            Ok((name, p.ty()?))
        })
    }

    /// `<T, N>`
    pub(super) fn type_args(&mut self) -> P<Vec<TypeArg>> {
        self.angled(|p| p.type_arg())
    }

    /// `<item, item>`
    pub(super) fn angled<T>(&mut self, mut item: impl FnMut(&mut Self) -> P<T>) -> P<Vec<T>> {
        self.open_angle()?;
        let mut items = vec![item(self)?];
        while self.eat_kept_comma() {
            items.push(item(self)?);
        }
        self.close_angle()?;
        Ok(items)
    }

    pub(super) fn open_angle(&mut self) -> P<()> {
        self.mark_tight();
        self.mark_glue();
        self.expect("<").map(|_| ())
    }

    pub(super) fn close_angle(&mut self) -> P<()> {
        self.mark_tight();
        self.expect(">").map(|_| ())
    }

    /// A bare name is taken as a type: `lang` decides. A longer expression is a constant: `N + 1`.
    fn type_arg(&mut self) -> P<TypeArg> {
        let is_type = match self.tok() {
            Tok::Sign("(" | "[") => true,
            Tok::Word if self.at_word("record") && self.sign_at(1, "{") => true,
            Tok::Word if self.at_word("connection") && self.word_at(1, "of") => true,
            Tok::Word => {
                let mut ahead = 1;
                while self.sign_at(ahead, ".") && self.token(ahead + 1).tok == Tok::Word {
                    ahead += 2;
                }
                matches!(self.token(ahead).tok, Tok::Sign("," | ">" | "<" | "?") | Tok::End)
            }
            _ => false,
        };
        if is_type {
            return Ok(TypeArg::Type(self.ty()?));
        }
        Ok(TypeArg::Const(self.const_arg()?))
    }

    /// A constant between `<` and `>`: an expression without comparisons.
    pub(super) fn const_arg(&mut self) -> P<Expr> {
        self.nested(|p| p.binary(Level::Sum))
    }
}
