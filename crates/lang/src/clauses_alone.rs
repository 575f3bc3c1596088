//! Clauses of the main file's protocols that are lowered where a program needs them: `forward` and
//! `on request`. Here each is checked by itself. Its output goes nowhere.

use crate::apps::handlers::own_answers;
use crate::body::{HandlerCtx, Kind, Lower};
use crate::compiler::Compiler;
use crate::ty::Ty;
use crate::val::{OutKind, Outgoing, Validity};
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
            self.aside(|cx| cx.requests_alone(id));
            for response in [false, true] {
                self.aside(|cx| cx.forward_alone(id, response));
            }
        }
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
    fn requests_alone(&mut self, id: ir::ProtocolId) {
        let info = self.protocols[id.index()].clone();
        let ast::ItemKind::Protocol(p) = &info.ast.kind else { return };
        let Some(first) = p.clauses.iter().find(|c| matches!(c.kind, ClauseKind::OnRequest { .. })) else { return };
        let port = self.any_client(id, first.span);
        let place = format!("protocol {}: on request", self.m.protocols[id.index()].name);
        let mut l = Lower::new(self, info.module, Kind::Handler);
        l.place = place;
        let req = l.new_local("request", &Ty::Msg(info.request));
        l.handler = Some(HandlerCtx {
            port,
            protocol: id,
            req,
            one_way: info.response.is_none(),
            no_reply: info.no_reply,
            greeting: false,
        });
        let made = own_answers(&mut l, &info, req);
        l.cx.settle(made, first.span);
    }

    fn any_client(&mut self, id: ir::ProtocolId, span: Span) -> ir::PortId {
        let span = self.span(span);
        self.m.ports.push(ir::Port {
            name: "client".into(),
            span,
            kind: ir::desc::PortKind::Listen(ir::desc::Value::Const(ir::desc::ParamValue::UInt(0))),
            protocols: vec![id],
            options: ir::desc::PortOptions::default(),
            ketama: false,
            consistent: None,
            maglev: false,
            udp: false,
            carries: ir::Carries::default(),
        });
        ir::PortId(self.m.ports.len() as u32 - 1)
    }

    fn forward_alone(&mut self, id: ir::ProtocolId, response: bool) {
        let info = self.protocols[id.index()].clone();
        let ast::ItemKind::Protocol(p) = &info.ast.kind else { return };
        let of = |c: &&ast::Clause| matches!(c.kind, ClauseKind::Forward { response: r, .. } if r == response);
        let unit = if response { info.response } else { Some(info.request) };
        let (Some(clause), Some(unit)) = (p.clauses.iter().find(of), unit) else { return };
        if self.forwarded.contains(&(id, response)) {
            return;
        }
        let span = clause.span;
        let place = format!("protocol {}: forward", self.m.protocols[id.index()].name);
        let mut l = Lower::new(self, info.module, Kind::Handler);
        l.place = place;
        let msg = l.new_local(if response { "response" } else { "request" }, &Ty::Msg(unit));
        l.handler = Some(HandlerCtx {
            port: ir::PortId(u32::MAX),
            protocol: id,
            req: msg,
            one_way: false,
            no_reply: false,
            greeting: false,
        });
        let passed = Outgoing {
            unit,
            kind: OutKind::Pass { msg, edits: vec![], copy: 0 },
            fields: vec![],
            run: None,
            params: vec![],
            ends: None,
            validity: Validity::Sure,
        };
        let made = l.forwarded(&passed, id, response, span);
        l.cx.settle(made, span);
    }
}
