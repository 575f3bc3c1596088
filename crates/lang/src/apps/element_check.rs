//! Checks each element by itself, as if a program had one instance of it, whether or not one has.
//!
//! The instance stands in a compilation of its own, with ports of packets around it. A parameter
//! may be any value. So the check runs several times: once with parameters set at the start of the
//! program, and then with constants. Only errors of all runs that have an instance are reported.

use super::frame_tests::way_in;
use super::scope::AppName;
use super::wire_ends::Direction;
use crate::body::{HandlerCtx, Lower};
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::items::{Item, ProtocolInfo};
use crate::names::{ItemId, ModId};
use crate::ty::Ty;
use crate::val::Val;
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Arg, Expr, ExprKind, Ident, ItemKind, MemberKind, Span};
use wireloom_syntax::Diagnostic;

/// The most units that are tried as answers.
const UNITS: usize = 32;

/// Names that no source has.
const IT: &str = "the element";

/// An element that was checked by itself.
#[derive(Default)]
pub struct Alone {
    pub found: Vec<Diagnostic>,
    /// Of an element in C.
    pub module: Option<ir::Module>,
    /// Where something failed without an error.
    pub untold: Option<ast::Span>,
    /// There was an instance of it.
    made: bool,
}

impl Compiler<'_> {
    /// The elements of the main file, as indices of items.
    pub fn own_elements(&self) -> Vec<ItemId> {
        (0..self.names.items.len())
            .filter(|i| {
                self.names.items[*i].module == 0 && matches!(self.names.items[*i].item.kind, ItemKind::Element(_))
            })
            .collect()
    }

    /// The check of each element begins with this compilation, which knows the types of their ways.
    pub fn begun_elements(&self, own: &[ItemId]) -> Self {
        let new = || Compiler::new(self.world, self.map, self.names.clone());
        let mut begun = new();
        for id in own {
            let ItemKind::Element(e) = &self.names.items[*id].item.kind else { continue };
            let ways = e.members.iter().filter_map(|m| {
                let (MemberKind::In { ty, .. } | MemberKind::Out { ty, .. }) = &m.kind else { return None };
                e.types.is_empty().then_some(ty)
            });
            for ty in ways {
                // A type in error is told of in each element.
                if begun.ty(0, ty).is_err() {
                    return new();
                }
            }
        }
        if begun.diags.is_empty() {
            begun
        } else {
            new()
        }
    }

    /// Errors of an element by itself, independent of its uses; and the program of an element in C
    /// without errors.
    pub fn element_alone(&self, id: ItemId) -> Alone {
        let ItemKind::Element(e) = &self.names.items[id].item.kind else { return Alone::default() };
        let set = self.attempt(e, None);
        let takes = e.members.iter().any(|m| matches!(m.kind, MemberKind::Param(_)));
        if !takes || !set.found.iter().any(Diagnostic::is_error) {
            return set;
        }
        // Sizes of arrays are constants: there may be none with a parameter that is set.
        let sizes: &[u64] = if set.made { &[1] } else { &[1, 2, 8, 64] };
        let mut all: Vec<Alone> = sizes.iter().map(|n| self.attempt(e, Some(*n))).collect();
        if all.iter().any(|a| a.made) {
            all.retain(|a| a.made);
        }
        let mut first = all.remove(0);
        all.extend((set.made || !first.made).then_some(set));
        let told = |a: &Alone, d: &Diagnostic| a.found.iter().any(|o| o.code == d.code && o.span() == d.span());
        first.found.retain(|d| all.iter().all(|a| told(a, d)));
        first
    }

    /// `constant`: the number that parameters have.
    fn attempt(&self, e: &ast::Element, constant: Option<u64>) -> Alone {
        let mut cx = self.clone();
        cx.any_types = !e.types.is_empty();
        let made = cx.stand_alone(0, e, constant);
        cx.settle(made, e.name.span);
        let failed = cx.diags.iter().any(Diagnostic::is_error);
        let module = (e.in_c.is_some() && !failed).then_some(cx.m);
        // Type parameters have no types here.
        let untold = cx.untold.filter(|_| !failed && !cx.any_types);
        let made = cx.app.has(IT);
        Alone { found: cx.diags, module, untold, made }
    }

    fn stand_alone(&mut self, module: ModId, e: &ast::Element, constant: Option<u64>) -> R<()> {
        self.m.app = e.name.name.clone();
        let span = e.name.span;
        let args = self.any_args(module, e, constant)?;
        let path = ast::Path { parts: vec![e.name.clone()], span };
        let it = Ident { name: IT.into(), span };
        let made = self.instance(module, &it, &path, &args)?;
        let AppName::Instance(i) = &made else { return Err(Reported) };
        let i = i.clone();
        self.add(&it, made);
        let ins = self.ports_around(&i, IT, span, false)?;
        for m in &e.members {
            let MemberKind::In { name, ty, .. } = &m.kind else { continue };
            let _ = match ins.iter().find(|(n, ..)| n.name == name.name) {
                Some((_, port, node)) => {
                    self.pass_frames(module, &e.name.name, *port, std::slice::from_ref(node), span)
                }
                None => {
                    let count = self.array_sizes(&i, Direction::In)?.into_iter().find(|(n, _)| *n == name.name);
                    self.pass_value(module, e, way_in(&it, name, count.map(|(_, c)| some_place(c, span)), span), ty)
                }
            };
        }
        let members = [ast::Member {
            doc: String::new(),
            span,
            kind: MemberKind::Instance { name: it.clone(), element: path, args: vec![], device: None },
        }];
        self.instance_handlers(module, &members);
        self.behind_handlers(&e.name.name);
        self.unused_functions(&it, &i, span);
        self.signals(module, &ast::Element { members: members.to_vec(), ..e.clone() });
        self.table_signals();
        self.behind_handlers(&e.name.name);
        self.check_graph();
        Ok(())
    }

    /// Something for each parameter: one that is set at the start, or a constant.
    fn any_args(&mut self, module: ModId, e: &ast::Element, constant: Option<u64>) -> R<Vec<Arg>> {
        let mut args: Vec<Arg> = Vec::new();
        for m in &e.members {
            let MemberKind::Param(p) = &m.kind else { continue };
            // One of two of a name has been told of.
            if args.iter().any(|a| a.name.as_ref().is_some_and(|n| n.name == p.name.name)) {
                return Err(Reported);
            }
            if let ast::TypeKind::Fn(params, ret) = &p.ty.kind {
                let types = crate::apps::scope::any_types(module, e);
                let any = self.given_function((module, &types), (params, ret), module, None, p.ty.span)?;
                let name = Ident { name: format!("{IT}'s {}", p.name.name), span: p.name.span };
                self.add(&name, any);
                let value = Expr { span: p.name.span, kind: Box::new(ExprKind::Name(name)) };
                args.push(Arg { name: Some(p.name.clone()), value });
                continue;
            }
            let t = self.ty_in(&crate::apps::scope::any_types(module, e), module, &p.ty)?;
            // Not under its own name: what it is given is looked up where the instance stands.
            let name = Ident { name: format!("{IT}'s {}", p.name.name), span: p.name.span };
            let told = self.diags.len();
            let settable = if constant.is_some() { None } else { self.param_type(&t, p.ty.span).ok() };
            self.diags.truncate(told);
            let value = match (settable, &p.default) {
                (Some(ty), _) => {
                    let (form, value_ty) = (self.argument_form(&t), self.lower_ty(&t));
                    self.m.params.push(ir::Param {
                        name: name.name.clone(),
                        doc: String::new(),
                        ty,
                        form,
                        value_ty,
                        default: None,
                    });
                    AppName::Param(ir::ParamId(self.m.params.len() as u32 - 1), t)
                }
                (None, Some(_)) => continue,
                (None, None) => AppName::Const(some_constant(self, &t, constant.unwrap_or(1))),
            };
            self.add(&name, value);
            args.push(Arg {
                name: Some(p.name.clone()),
                value: Expr { span: p.name.span, kind: Box::new(ExprKind::Name(name)) },
            });
        }
        Ok(args)
    }

    /// A default is checked although the parameter has been given something.
    pub fn default_alone(&mut self, owner: ModId, instance: &Ident, p: &ast::Param, default: Option<&Expr>) {
        if let Some(e) = default.filter(|_| instance.name == IT) {
            let made = self.default_arg(owner, p, e);
            self.settle(made, e.span);
        }
    }

    /// A message that is no packet comes in; nobody waits for an answer.
    fn pass_value(&mut self, module: ModId, e: &ast::Element, to: ast::Node, ty: &ast::Type) -> R<()> {
        let t = self.ty_in(&crate::apps::scope::any_types(module, e), module, ty)?;
        let Ty::Msg(unit) = t else { return Ok(()) };
        // The port from which a request comes says which unit an answer has: one of those is here.
        let replies = format!("{:?}", e.members).contains("Reply {");
        let known = match replies {
            false => vec![self.one_way(module, e, unit, None)],
            true => self.answering(unit, e.name.span),
        };
        // No protocol of the file has these requests: any unit may be the answer.
        let known = match known.is_empty() {
            false => known,
            true => self.own_units(e.name.span).into_iter().map(|u| self.one_way(module, e, unit, Some(u))).collect(),
        };
        let told = self.diags.len();
        let mut least: Option<Vec<Diagnostic>> = None;
        for protocol in known {
            let made = self.pass_request(module, e, to.clone(), (unit, protocol, replies));
            self.settle(made, e.name.span);
            let said = self.diags.split_off(told);
            // An answer of another unit is for another protocol.
            let errors = |all: &[Diagnostic]| {
                (all.iter().filter(|d| d.code == "E0608").count(), all.iter().filter(|d| d.is_error()).count())
            };
            if least.as_ref().is_none_or(|l| errors(&said) < errors(l)) {
                least = Some(said);
            }
        }
        self.diags.extend(least.into_iter().flatten());
        Ok(())
    }

    /// The units of the main file.
    fn own_units(&mut self, span: Span) -> Vec<ir::UnitId> {
        let told = self.diags.len();
        let own = |(_, i): &(usize, &crate::names::Entry)| i.module == 0 && matches!(i.item.kind, ItemKind::Unit(_));
        let ids: Vec<ItemId> = self.names.items.iter().enumerate().filter(own).map(|(n, _)| n).take(UNITS).collect();
        let found: Vec<_> = ids.into_iter().filter_map(|i| self.item(i, span).ok()).collect();
        self.diags.truncate(told);
        found.into_iter().filter_map(|i| if let Item::Unit(u) = i { Some(u) } else { None }).collect()
    }

    /// A protocol of requests with these answers, or none.
    fn one_way(
        &mut self,
        module: ModId,
        e: &ast::Element,
        unit: ir::UnitId,
        response: Option<ir::UnitId>,
    ) -> ir::ProtocolId {
        let p = ast::Protocol { name: e.name.clone(), clauses: vec![] };
        let item = Rc::new(ast::Item { doc: String::new(), span: e.name.span, kind: ItemKind::Protocol(p) });
        self.protocols.push(ProtocolInfo {
            module,
            ast: item,
            request: unit,
            response,
            no_reply: false,
            stateless: true,
            asked: (0, vec![]),
            sessions: vec![],
            probe: None,
            reset: None,
        });
        ir::ProtocolId(self.protocols.len() as u32 - 1)
    }

    /// The protocols that answer such requests, of all modules that the file knows. Their own
    /// mistakes are told elsewhere.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn answering(&mut self, unit: ir::UnitId, span: Span) -> Vec<ir::ProtocolId> {
        let all = 0..self.names.items.len();
        let protocols: Vec<ItemId> =
            all.filter(|i| matches!(self.names.items[*i].item.kind, ItemKind::Protocol(_))).collect();
        let told = self.diags.len();
        let found: Vec<_> = protocols.into_iter().filter_map(|i| self.item(i, span).ok()).collect();
        self.diags.truncate(told);
        let answers = |p: &ProtocolInfo| p.request == unit && p.response.is_some();
        found
            .into_iter()
            .filter_map(|item| match item {
                Item::Protocol(p) if answers(&self.protocols[p.index()]) => Some(p),
                _ => None,
            })
            .collect()
    }

    fn pass_request(
        &mut self,
        module: ModId,
        e: &ast::Element,
        to: ast::Node,
        (unit, protocol, replies): (ir::UnitId, ir::ProtocolId, bool),
    ) -> R<()> {
        let mut l = super::frames::begin(self, module, format!("element {}", e.name.name));
        l.frames = false;
        let msg = l.new_local("m", &Ty::Msg(unit));
        l.handler = Some(HandlerCtx { one_way: !replies, ..HandlerCtx::without_port(protocol, msg) });
        l.flow(&[to], Val::path(Ty::Msg(unit), build::msg(msg)), e.name.span)?;
        l.ends(e.name.span);
        Ok(())
    }

    /// Functions of the element that none of its handlers calls.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn unused_functions(&mut self, it: &Ident, i: &Rc<super::scope::Instance>, span: Span) {
        let fns: Vec<_> = i
            .element
            .members
            .iter()
            .filter_map(|m| match &m.kind {
                MemberKind::Fn(f) => i.scope.function(&f.name.name),
                _ => None,
            })
            .collect();
        let outlet = {
            let mut l = super::frames::begin(self, i.module, String::new());
            l.outlet_of(&it.name, i, &[], span)
        };
        let Ok(outlet) = outlet else { return };
        let app = std::mem::replace(&mut self.app, i.scope.clone());
        let around = std::mem::replace(&mut self.around, vec![outlet]);
        for f in fns {
            let made = self.function(&f, f.ast.name.span);
            self.settle(made, f.ast.name.span);
        }
        self.around = around;
        self.app = app;
    }
}

/// A place of an array that the compiler does not know: `random(count)`.
fn some_place(count: u64, span: Span) -> Expr {
    let e = |kind| Expr { span, kind: Box::new(kind) };
    let random = e(ExprKind::Name(Ident { name: "random".into(), span }));
    e(ExprKind::Call(random, vec![Arg { name: None, value: e(ExprKind::Int(count.into())) }]))
}

/// A value that most uses of a parameter take: the least size, sixteen bytes, all items of a list.
fn some_constant(cx: &mut Compiler, t: &Ty, n: u64) -> Val {
    let mut l = super::frames::begin(cx, 0, String::new());
    some_value(&mut l, t, n).map_or_else(Val::error, |e| Val::pure(t.clone(), e))
}

/// Lists of more items are not filled: an element with one is checked where it is used.
const ITEMS: u32 = 1024;

#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn some_value(l: &mut Lower, t: &Ty, n: u64) -> Option<ir::Expr> {
    let kind = match t {
        Ty::Bool => ir::ExprKind::Bool(true),
        Ty::Bytes(most) => ir::ExprKind::Bytes(vec![b'x'; (*most).min(16) as usize]),
        Ty::Int { .. } => ir::ExprKind::Int(n.into()),
        Ty::Enum(_) => ir::ExprKind::Int(1),
        Ty::Duration => ir::ExprKind::Int(1_000_000_000),
        Ty::Option(t) => ir::ExprKind::Some(some_value(l, t, n)?),
        Ty::List(t, most) if *most <= ITEMS => ir::ExprKind::MakeList(vec![some_value(l, t, n)?; *most as usize]),
        Ty::Tuple(parts) => ir::ExprKind::Make(parts.iter().map(|t| some_value(l, t, n)).collect::<Option<_>>()?),
        Ty::Record(r) => {
            let fields = l.cx.records[r.index()].clone();
            ir::ExprKind::Make(fields.iter().map(|(_, t)| some_value(l, t, n)).collect::<Option<_>>()?)
        }
        Ty::Instant | Ty::Ip | Ty::Ip4 | Ty::Ip6 | Ty::Endpoint | Ty::Mac | Ty::Prefix | Ty::Handle => {
            return Some(l.zero(t))
        }
        _ => return None,
    };
    Some(ir::Expr::new(l.cx.lower_ty(t), kind))
}
