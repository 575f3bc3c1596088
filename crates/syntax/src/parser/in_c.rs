//! Elements in C: `extern element Name from "file.c" { … }`.
//!
//! The file has a function for each `in`. Its call is the handler of the `in`, which is not
//! written.

use super::{Parser, P};
use crate::ast::{
    Block, Element, Expr, Handler, Ident, InC, Member, MemberKind, On, Path, Span, Stmt, StmtKind, Type, TypeArg,
    TypeKind, MEMORY,
};
use crate::diagnostic::Diagnostic;
use crate::token::Tok;

/// Names that no source has.
const PACKET: &str = "its packet";
const PLACE: &str = "its place";

fn ident(name: &str, span: Span) -> Ident {
    Ident { name: name.into(), span }
}

impl Parser<'_> {
    /// `from "file.c"`: the file, and where it is named.
    pub(super) fn c_file(&mut self) -> P<(String, Span)> {
        self.expect_word("from")?;
        let at = self.span();
        let file = self.string("the C file's name")?;
        Ok((String::from_utf8_lossy(&file).into_owned(), at))
    }

    /// `extern element Name from "file.c" { … }`
    pub(super) fn element_in_c(&mut self) -> P<Element> {
        self.bump();
        let mut element = self.element()?;
        let Some((file, at)) = element.in_c.clone() else { return self.unexpected("`from` and the C file") };
        let mut handlers = Vec::new();
        for m in &element.members {
            match &m.kind {
                MemberKind::In { name, count, values, .. } => {
                    let place = count.as_ref().map(|_| ident(PLACE, name.span));
                    let call = call(&element, (&file, at), name, place.clone(), values.clone());
                    handlers.push(handler(name, place, call));
                }
                MemberKind::State { name, .. } if name.name == MEMORY => {}
                MemberKind::Param(_) | MemberKind::Out { .. } => {}
                _ => {
                    let d = Diagnostic::error("E0716", m.span, "an element in C has no such member")
                        .label("its C file has all else")
                        .hint("it has `param`, `in`, `out`, and one memory: `state 4KiB`");
                    self.report(d);
                }
            }
        }
        if let Some((name, _)) = element.types.first() {
            let d = Diagnostic::error("E0716", name.span, "an element in C has no type parameters");
            self.report(d.hint("a function in C has the same types everywhere"));
        }
        let (mut has_one, mut second) = (false, None);
        element.members.retain(|m| {
            let again = is_memory(&m.kind) && std::mem::replace(&mut has_one, true);
            if again {
                second.get_or_insert(m.span);
            }
            !again
        });
        if let Some(second) = second {
            let d = Diagnostic::error("E0716", second, "an element in C has one memory");
            self.report(d.hint("let it hold a `struct` of all that the C file keeps"));
        }
        element.members.extend(handlers);
        Ok(element)
    }

    /// Members that only an element in C has.
    pub(super) fn only_in_c(&mut self, members: &[Member]) {
        for m in members {
            let span = match &m.kind {
                MemberKind::In { values: Some(values), .. } => values.first().map_or(m.span, |e| e.span),
                kind if is_memory(kind) => m.span,
                _ => continue,
            };
            let d = Diagnostic::error("E0716", span, "this is for elements in C");
            self.report(d.hint("`extern element Name from \"file.c\" { … }`; a state has a name and a type"));
        }
    }

    /// `as (.len, .mark)` behind an `in`.
    pub(super) fn values_in_c(&mut self) -> P<Option<Vec<Expr>>> {
        if !self.at_word("as") || self.breaks(0) {
            return Ok(None);
        }
        self.bump();
        self.bracketed("(", ")", Self::expr).map(Some)
    }

    /// Whether `state 4KiB` is at hand.
    pub(super) fn at_memory(&self) -> bool {
        self.at_word("state") && matches!(self.token(1).tok, Tok::Int(_) | Tok::Scaled(..)) && !self.token(1).newline
    }

    pub(super) fn memory(&mut self) -> P<MemberKind> {
        let at = self.bump();
        let size = self.expr()?;
        let path = Path { parts: vec![ident("bytes", at)], span: at };
        let kind = TypeKind::Named { path, args: vec![TypeArg::Const(size)] };
        Ok(MemberKind::State { name: ident(MEMORY, at), ty: Type { span: self.since(at), kind }, init: None })
    }
}

fn is_memory(m: &MemberKind) -> bool {
    matches!(m, MemberKind::State { name, .. } if name.name == MEMORY)
}

fn call(e: &Element, (file, at): (&str, Span), input: &Ident, place: Option<Ident>, values: Option<Vec<Expr>>) -> InC {
    let (mut params, mut outs, mut memory) = (Vec::new(), Vec::new(), None);
    for m in &e.members {
        match &m.kind {
            MemberKind::Param(p) => params.push(p.name.clone()),
            MemberKind::Out { name, count, .. } => outs.push((name.clone(), count.is_some())),
            MemberKind::State { name, .. } => memory = Some(name.clone()),
            _ => {}
        }
    }
    let symbol = ident(&format!("{}_{}", e.name.name, input.name), e.name.span);
    InC { file: file.into(), at, symbol, packet: ident(PACKET, input.span), place, memory, params, values, outs }
}

fn handler(input: &Ident, place: Option<Ident>, call: InC) -> Member {
    let span = input.span;
    let on = On::Message { port: input.clone(), index: place, param: call.packet.clone(), protocol: None };
    let body = Block { span, stmts: vec![Stmt { span, kind: StmtKind::InC(call) }] };
    let kind = MemberKind::Handler(Handler { on, guard: None, device: None, body });
    Member { doc: String::new(), span, kind }
}
