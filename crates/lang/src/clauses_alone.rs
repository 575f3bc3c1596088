//! Clauses of the main file's protocols that are lowered where a program needs them: `forward` and
//! `on request`. Here each is checked by itself. Its output goes nowhere.

use crate::apps::handlers::own_answers;
use crate::body::{HandlerCtx, Kind, Lower};
use crate::compiler::Compiler;
use crate::ty::Ty;
use crate::val::Outgoing;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, ClauseKind, Span};

impl Compiler<'_> {
    /// Clauses that no app has needed, too.
    pub fn clauses_alone(&mut self) {
        for i in 0..self.protocols.len() {
            if self.protocols[i].module != 0 {
                continue;
            }
            let id = ir::ProtocolId(i as u32);
            let has_answers = |c: &ast::Clause| matches!(c.kind, ClauseKind::OnRequest { .. });
            if let Some(first) = self.clause_of(id, has_answers) {
                self.aside(|cx| cx.requests_alone(id, first));
            }
            for response in [false, true] {
                let of = |c: &ast::Clause| matches!(c.kind, ClauseKind::Forward { response: r, .. } if r == response);
                let clause = self.clause_of(id, of).filter(|_| !self.forwarded.contains(&(id, response)));
                if let Some(span) = clause {
                    self.aside(|cx| cx.forward_alone(id, response, span));
                }
            }
        }
    }

    /// The first such clause of a protocol.
    fn clause_of(&self, id: ir::ProtocolId, is: impl Fn(&ast::Clause) -> bool) -> Option<Span> {
        let ast::ItemKind::Protocol(p) = &self.protocols[id.index()].ast.kind else { return None };
        p.clauses.iter().find(|c| is(c)).map(|c| c.span)
    }

    /// Leaves the module as it was. An error that was reported for another use is not reported
    /// again.
    fn aside(&mut self, check: impl FnOnce(&mut Self)) {
        let (module, before) = (self.m.clone(), self.diags.len());
        check(self);
        self.m = module;
        let told = self.diags.split_off(before);
        for d in told {
            if !self.diags.iter().any(|o| o.code == d.code && o.span() == d.span()) {
                self.diags.push(d);
            }
        }
    }

    /// As a handler of a listening port has them.
    fn requests_alone(&mut self, id: ir::ProtocolId, first: Span) {
        let info = self.protocols[id.index()].clone();
        let port = self.any_client(id, first);
        let place = format!("protocol {}: on request", self.m.protocols[id.index()].name);
        let mut l = Lower::new(self, info.module, Kind::Handler);
        l.place = place;
        let req = l.new_local("request", &Ty::Msg(info.request));
        l.handler = Some(HandlerCtx {
            port,
            one_way: info.response.is_none(),
            no_reply: info.no_reply,
            ..HandlerCtx::without_port(id, req)
        });
        let made = own_answers(&mut l, &info, req);
        l.cx.settle(made, first);
    }

    fn any_client(&mut self, id: ir::ProtocolId, span: Span) -> ir::PortId {
        let kind = ir::desc::PortKind::Listen(ir::desc::Value::Const(ir::desc::ParamValue::UInt(0)));
        let port = ir::Port::new("client", self.span(span), kind);
        self.m.ports.push(ir::Port { protocols: vec![id], ..port });
        ir::PortId(self.m.ports.len() as u32 - 1)
    }

    fn forward_alone(&mut self, id: ir::ProtocolId, response: bool, span: Span) {
        let info = self.protocols[id.index()].clone();
        let Some(unit) = (if response { info.response } else { Some(info.request) }) else { return };
        let place = format!("protocol {}: forward", self.m.protocols[id.index()].name);
        let mut l = Lower::new(self, info.module, Kind::Handler);
        l.place = place;
        let msg = l.new_local(if response { "response" } else { "request" }, &Ty::Msg(unit));
        l.handler = Some(HandlerCtx::without_port(id, msg));
        let passed = Outgoing::passed(unit, msg);
        let made = l.forwarded(&passed, id, response, span);
        l.cx.settle(made, span);
    }
}
