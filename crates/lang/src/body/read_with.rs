//! The parameters that an answer was read with, and those that its next reader knows: each follows
//! from a request of its own. An answer to HEAD has no body, which a client that has sent GET would
//! wait for.

use super::built_message::EditedMessage;
use super::Lower;
use crate::compiler::R;
use crate::ir_builder as build;
use crate::ty::Ty;
use crate::val::Val;
use ir::StmtKind;
use wireloom_ir as ir;
use wireloom_syntax::ast::Span;

/// The parameters of the answers to these calls, if they are the same for all of them.
pub fn asked_alike(stmts: &[ir::Stmt]) -> Option<Vec<ir::Expr>> {
    let (mut found, mut alike) = (None, true);
    ir::walk::stmts(stmts, &mut |s| {
        if let StmtKind::Call { response_args, .. } = &s.kind {
            alike &= found.get_or_insert_with(|| response_args.clone()) == response_args;
        }
    });
    found.filter(|_| alike)
}

impl Lower<'_, '_> {
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
        let (made, block) = self.sub(|s| s.response_args(proto, &request, span));
        let now = made?;
        let was = self.read_with.get(&msg).cloned().unwrap_or_default();
        let same = |i: usize| was.get(i).is_some_and(|was| *was == now[i]);
        let mut asked = vec![false; n];
        self.cx.m.unit_exprs(unit, &mut |e, _| {
            if let ir::ExprKind::UnitParam(ir::Root::This, i) = *e.kind {
                asked.get_mut(i as usize).into_iter().for_each(|a| *a = true);
            }
        });
        let differ: Vec<usize> = (0..n).filter(|i| asked[*i] && !same(*i)).collect();
        if differ.is_empty() {
            self.go_back(start);
            return Ok(vec![]);
        }
        self.out.extend(block);
        Ok(differ.into_iter().map(|i| (i as u32, crate::fold::fold(&self.cx.m, &now[i]))).collect())
    }
}
