//! Exported segments that begin at a queue: `export segment name(args) -> T from q(m) { … }`.
//!
//! The block is a function of the arguments and the oldest message. The segment takes that from the
//! queue, and has a result only if there was one.

use super::exprs::expr_of;
use super::{Parser, P};
use crate::ast::{
    Arg, Block, Element, Expr, ExprKind, Fn, FnBody, Ident, Member, MemberKind, Param, Path, Pattern, Span, Stmt,
    StmtKind, Type, TypeKind, OLDEST,
};
use crate::diagnostic::Diagnostic;

fn ident(name: &str, span: Span) -> Ident {
    Ident { name: name.into(), span }
}

fn name(n: &Ident) -> Expr {
    expr_of(n.span, ExprKind::Name(n.clone()))
}

fn call(f: Expr, args: impl IntoIterator<Item = Expr>) -> Expr {
    let args = args.into_iter().map(|value| Arg { name: None, value }).collect();
    expr_of(f.span, ExprKind::Call(f, args))
}

fn stmt(span: Span, kind: StmtKind) -> Stmt {
    Stmt { span, kind }
}

impl Parser<'_> {
    /// `from q(m)`: the queue, and the name of its message.
    pub(super) fn begins_at(&mut self) -> P<Option<Box<(Ident, Ident)>>> {
        if !self.eat_word("from") {
            return Ok(None);
        }
        let queue = self.name("a queue")?;
        let opened = self.expect("(")?;
        let message = self.name("the message")?;
        self.close(")", opened)?;
        Ok(Some(Box::new((queue, message))))
    }

    /// Gives segments that begin at a queue their code.
    pub(super) fn resolve_segments(&mut self, element: &mut Element) {
        let mut functions = Vec::new();
        for at in 0..element.members.len() {
            let MemberKind::Signal { from: Some(from), .. } = &element.members[at].kind else { continue };
            let (queue, message) = (**from).clone();
            let Some(of) = type_of(element, &queue) else {
                let d = Diagnostic::error("E0685", queue.span, format!("`{}` is no queue of messages", queue.name));
                self.report(d.label("a segment begins at one").hint(
                    "declare one in the app: `table tuples: ring Tuple { capacity 1K }`, or `queue tuples as Tuple { depth 1K }`",
                ));
                continue;
            };
            let m = &mut element.members[at];
            let span = m.span;
            let MemberKind::Signal { name: own, params, ret, body, .. } = &mut m.kind else { continue };
            let part = ident(&format!("{} of a message", own.name), own.span);
            let mut all = params.clone();
            let doc = String::new();
            all.push(Param { doc: doc.clone(), name: message.clone(), ty: of, within: None, default: None });
            let (code, result) = taken(&part, &queue, &all, ret.take());
            let block = std::mem::replace(body, Block { span: body.span, stmts: code });
            let f = Fn { name: part, params: all, ret: result.1, body: FnBody::Block(block) };
            *ret = Some(result.0);
            functions.push(Member { doc, span, kind: MemberKind::Fn(f) });
        }
        element.members.extend(functions);
    }
}

/// The type of a queue's messages: a ring's values, or the unit of a queue.
fn type_of(e: &Element, queue: &Ident) -> Option<Type> {
    e.members.iter().find_map(|m| match &m.kind {
        MemberKind::Table(t) if t.name.name == queue.name && t.kind.as_ref().is_some_and(|k| k.name == "ring") => {
            Some(t.value.clone())
        }
        MemberKind::Queue(q) if q.name.name == queue.name => {
            let path = q.packet.clone()?;
            Some(Type { span: path.span, kind: TypeKind::Named { path, args: Vec::new() } })
        }
        _ => None,
    })
}

/// Takes the oldest message and gives it to the function; with the results of both. A segment
/// without a result tells whether there was a message.
fn taken(part: &Ident, queue: &Ident, params: &[Param], ret: Option<Type>) -> (Vec<Stmt>, (Type, Option<Type>)) {
    let at = queue.span;
    let oldest = expr_of(at, ExprKind::Field(Some(name(queue)), ident(OLDEST, at)));
    let nothing = match &ret {
        Some(_) => expr_of(at, ExprKind::None),
        None => expr_of(at, ExprKind::Bool(false)),
    };
    let leave = expr_of(at, ExprKind::Stmt(Box::new(stmt(at, StmtKind::Return(Some(nothing))))));
    let value = expr_of(at, ExprKind::Else(call(oldest, []), leave));
    let message = params.last().map_or_else(|| ident("m", at), |p| p.name.clone());
    let bind = stmt(at, StmtKind::Let { pattern: Pattern::Name(message), ty: None, value });
    let made = call(name(part), params.iter().map(|p| name(&p.name)));
    let span = part.span;
    match ret {
        Some(t) => {
            let whole = Type { span: t.span, kind: TypeKind::Option(Box::new(t.clone())) };
            let some = call(name(&ident("some", span)), [made]);
            (vec![bind, stmt(span, StmtKind::Expr(some))], (whole, Some(t)))
        }
        None => {
            let path = Path { parts: vec![ident("bool", span)], span };
            let truth = Type { span, kind: TypeKind::Named { path, args: Vec::new() } };
            let yes = stmt(span, StmtKind::Expr(expr_of(span, ExprKind::Bool(true))));
            (vec![bind, stmt(span, StmtKind::Expr(made)), yes], (truth, None))
        }
    }
}
