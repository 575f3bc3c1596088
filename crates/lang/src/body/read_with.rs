//! The parameters that an answer was read with, and those that its next reader knows: each follows
//! from a request of its own. An answer to HEAD has no body, which a client that has sent GET would
//! wait for. The same holds for parts of messages, and the arguments of their units.

use super::built_message::{EditedMessage, Fields};
use super::unparse_check::edits::{reroot, Changed};
use super::wrong_value::Wrong;
use super::Lower;
use crate::compiler::R;
use crate::ir_builder as build;
use crate::ty::Ty;
use crate::val::Val;
use ir::{BinOp, Edit, ExprKind as K, FaultKind, FieldKind, LocalId, Peer, Root, Step, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::Span;

/// Where the numbers of temporaries begin that were renamed.
const RENAMED: u32 = 1 << 30;

/// A parameter as a request asks for it.
#[derive(Clone, Debug)]
pub struct AskedArg {
    block: ir::Block,
    value: ir::Expr,
    /// Both, with the temporaries in the order of their use. The same for another request means the
    /// same value.
    key: ir::Block,
}

impl AskedArg {
    /// `known`: locals that were there before.
    pub fn new(block: &[ir::Stmt], value: ir::Expr, known: usize) -> Self {
        let mut key = block.to_vec();
        key.push(build::stmt(ir::Span::default(), StmtKind::Set(LocalId(RENAMED), value.clone())));
        let mut own: Vec<LocalId> = vec![LocalId(RENAMED)];
        ir::walk::block_locals_mut(&mut key, &mut |l| {
            if l.index() < known {
                return;
            }
            let n = own.iter().position(|o| o == l).unwrap_or_else(|| {
                own.push(*l);
                own.len() - 1
            });
            *l = LocalId(RENAMED + n as u32);
        });
        AskedArg { block: block.to_vec(), value, key }
    }
}

/// The parameters for which all of some requests ask.
pub fn alike(mut asked: Vec<Vec<AskedArg>>) -> Option<Vec<AskedArg>> {
    let first = asked.pop()?;
    let same =
        |other: &Vec<AskedArg>| other.len() == first.len() && other.iter().zip(&first).all(|(a, b)| a.key == b.key);
    asked.iter().all(same).then_some(first)
}

impl Lower<'_, '_> {
    /// A message was read again behind its edits: what they leave alone is as it was.
    pub fn as_before(&mut self, unit: ir::UnitId, again: LocalId, of: LocalId, edits: &[Edit]) {
        let Some(mut asked) = self.asked_args.pop() else { return };
        // A value that no expression of the grammar has stands for each new one.
        let new = |e: &Edit| match e {
            Edit::Set { field, .. } => {
                let f = *field.first()?;
                Some((f, ir::Expr::new(self.field_ir(unit, f).ty, K::Acc)))
            }
            Edit::Remove { .. } | Edit::Append { .. } => None,
        };
        let values = edits.iter().filter_map(new).collect();
        let c = Changed { unit, msg: of, values, edits, params: vec![], span: Span::default(), again: None };
        for a in &mut asked {
            ir::walk::block_exprs_mut(&mut a.key, &mut |e| {
                let Some(p) = ir::walk::path_of_mut(e).filter(|p| p.root == Root::Local(again)) else { return };
                let whole = matches!(p.steps[..], [Step::Field(_)]);
                p.root = Root::This;
                let (mut was, now) = (e.clone(), self.leaf_now(&c, e));
                reroot(&mut was, of);
                let same = whole && now.is_some_and(|now| now.is_none_or(|now| now == was));
                *e = if same { was } else { e.clone() };
                if let (false, Some(p)) = (same, ir::walk::path_of_mut(e)) {
                    p.root = Root::Local(again);
                }
            });
        }
        self.asked_args.push(asked);
    }

    /// Writes parts that their reader will read with some arguments.
    pub fn read_under(&mut self, fields: &Fields, args: &[ir::Expr], f: impl FnOnce(&mut Self) -> R<()>) -> R<()> {
        let known = self.known_args(fields, args)?;
        let known = (known.len() == args.len()).then_some(known);
        let outer = std::mem::replace(&mut self.part_args, known);
        let made = f(self);
        self.part_args = outer;
        made
    }

    /// A part that was parsed was read with the arguments with which it will be read. Its length is
    /// none of them: it has its bytes.
    pub fn read_alike(&mut self, p: &ir::Path, unit: ir::UnitId, span: Span) -> R<()> {
        let params = self.cx.units[unit.index()].params.clone();
        let own = params.iter().take_while(|(name, _)| name != crate::units::enclosed::END).count();
        if own == 0 {
            return Ok(());
        }
        let (Some(wanted), Some(was)) = (self.part_args.clone(), self.parsed_with(p, own)) else {
            self.unsure();
            return Ok(());
        };
        for (was, now) in was.into_iter().zip(wanted).take(own) {
            let was = crate::fold::fold(&self.cx.m, &was);
            if was == now {
                continue;
            }
            let ok = crate::fold::fold(&self.cx.m, &build::cmp(BinOp::Eq, was, now));
            let why = Wrong::Value("it was read with another argument of its unit");
            self.valid_because(ok, FaultKind::CONSTRAINT, span, why)?;
        }
        Ok(())
    }

    /// The arguments with which a part, or an item, of a message was parsed, as far as they are
    /// known.
    fn parsed_with(&self, p: &ir::Path, n: usize) -> Option<Vec<ir::Expr>> {
        let Some(last) = p.steps.iter().rposition(|s| matches!(s, Step::Field(_))) else {
            let param = |(i, t): (usize, ir::TyId)| ir::Expr::new(t, K::UnitParam(p.root, i as u32));
            let Root::Local(l) = p.root else { return None };
            let unit = self.message_unit(l)?;
            let types = self.cx.m.units[unit.index()].params.iter().map(|p| p.ty).take(n);
            return Some(types.enumerate().map(param).collect());
        };
        let at = ir::Path { root: p.root, steps: p.steps[..=last].to_vec() };
        let owner = ir::Path { root: p.root, steps: p.steps[..last].to_vec() };
        let mut kind = self.field_at(&at)?.kind;
        if let FieldKind::List { element, .. } = kind {
            kind = self.field_ir(self.owner_of(&at)?, element).kind;
        }
        let FieldKind::Unit { args, .. } = kind else { return None };
        let mut known = true;
        let args = args.into_iter().map(|mut a| {
            ir::walk::expr_mut(&mut a, &mut |e| {
                if let K::UnitParam(root @ Root::This, _) = &mut *e.kind {
                    known &= owner.steps.is_empty();
                    *root = owner.root;
                } else if let Some(p) = ir::walk::path_of_mut(e).filter(|p| p.root == Root::This) {
                    p.root = owner.root;
                    p.steps.splice(0..0, owner.steps.iter().cloned());
                }
            });
            a
        });
        let args: Vec<_> = args.take(n).collect();
        (known && args.len() == n).then_some(args)
    }

    /// The parameters of a parsed message that its next reader may know otherwise, by number.
    pub(super) fn reader_knows(
        &mut self,
        target: &EditedMessage,
        proto: ir::ProtocolId,
        response: bool,
        span: Span,
    ) -> R<Vec<(u32, ir::Expr)>> {
        let EditedMessage { unit, msg, .. } = *target;
        let n = self.cx.units[unit.index()].params.len();
        if n == 0 || self.kind == super::Kind::OnFault {
            return Ok(vec![]);
        }
        if self.cx.is_session(proto) {
            return Ok(self.receiver_knows(target, proto, response));
        }
        // A clause that is checked by itself has no port, and no request.
        let answers = response && self.cx.protocols[proto.index()].response == Some(unit);
        let Some(handler) =
            self.handler.filter(|h| answers && h.protocol == proto && h.port.0 != u32::MAX && h.req != msg)
        else {
            return Ok(vec![]);
        };
        let request = Val::path(Ty::Msg(self.cx.m.protocols[proto.index()].request), build::msg(handler.req));
        let start = self.start();
        let before = std::mem::take(&mut self.asked_args);
        let (made, _) = self.sub(|s| s.response_args(proto, &request, span));
        let now = std::mem::replace(&mut self.asked_args, before).pop().unwrap_or_default();
        made?;
        let was = self.read_with.get(&msg);
        let same = |i: usize| was.and_then(|was| was.get(i)).is_some_and(|was| was.key == now[i].key);
        let asked = self.asked_params(unit);
        let differ: Vec<usize> = (0..n.min(now.len())).filter(|i| asked[*i] && !same(*i)).collect();
        if differ.is_empty() {
            self.go_back(start);
            return Ok(vec![]);
        }
        let mut all = vec![];
        for i in differ {
            self.out.extend(now[i].block.clone());
            all.push((i as u32, crate::fold::fold(&self.cx.m, &now[i].value)));
        }
        Ok(all)
    }

    /// The parameters of a message of a conversation, where its receiver's protocol has other
    /// arguments for its unit than those that it was read with.
    fn receiver_knows(&mut self, target: &EditedMessage, proto: ir::ProtocolId, down: bool) -> Vec<(u32, ir::Expr)> {
        let EditedMessage { unit, msg, .. } = *target;
        // A clause that is checked by itself has no port.
        if self.handler.is_some_and(|h| h.port.0 == u32::MAX && h.req == msg) {
            return vec![];
        }
        let here = self.handler.is_some_and(|h| h.req == msg);
        let from = self.talk.came_on.filter(|_| here).map(|peer| peer != Peer::Client);
        let read = self.talk.protocol.zip(from);
        if read == Some((proto, down)) {
            return vec![];
        }
        let args = self.session_args(proto, down);
        let was = read.map(|(proto, down)| self.session_args(proto, down)).unwrap_or_default();
        let same = |i: usize| was.get(i).is_some_and(|was| *was == args[i]);
        let asked = self.asked_params(unit);
        let differ = (0..asked.len().min(args.len())).filter(|i| asked[*i] && !same(*i));
        differ.map(|i| (i as u32, crate::fold::fold(&self.cx.m, &args[i]))).collect()
    }

    /// The parameters of a unit on which its fields depend.
    fn asked_params(&self, unit: ir::UnitId) -> Vec<bool> {
        let mut asked = vec![false; self.cx.units[unit.index()].params.len()];
        self.cx.m.unit_exprs(unit, &mut |e, _| {
            if let K::UnitParam(Root::This, i) = *e.kind {
                asked.get_mut(i as usize).into_iter().for_each(|a| *a = true);
            }
        });
        asked
    }
}
