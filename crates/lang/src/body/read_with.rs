//! The parameters that an answer was read with, and those that its next reader knows: each follows
//! from a request of its own. An answer to HEAD has no body, which a client that has sent GET would
//! wait for.

use super::built_message::EditedMessage;
use super::unparse_check::edits::{reroot, Changed};
use super::Lower;
use crate::compiler::R;
use crate::ir_builder as build;
use crate::ty::Ty;
use crate::val::Val;
use ir::{Edit, ExprKind as K, LocalId, Root, Step, StmtKind};
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
        let answers = response && !self.cx.is_session(proto) && self.kind != super::Kind::OnFault;
        // A clause that is checked by itself has no port, and no request.
        let answers = answers && self.cx.protocols[proto.index()].response == Some(unit);
        let Some(handler) =
            self.handler.filter(|h| answers && n > 0 && h.protocol == proto && h.port.0 != u32::MAX && h.req != msg)
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
        let mut asked = vec![false; n];
        self.cx.m.unit_exprs(unit, &mut |e, _| {
            if let K::UnitParam(Root::This, i) = *e.kind {
                asked.get_mut(i as usize).into_iter().for_each(|a| *a = true);
            }
        });
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
}
