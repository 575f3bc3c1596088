//! `test` blocks: code that runs like a handler, and simulated runs of an app or an element. The
//! runs use bytes of connections, or packets (see [`super::frame_tests`]).

use super::scope::AppName;
use crate::body::{Kind, Lower};
use crate::compiler::{Compiler, Reported, R};
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::Vk;
use ir::{SimPort, SimStep, TestKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Arg, Expr, ExprKind, Span, TestStepKind as T};
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    pub fn test(&mut self, module: ModId, t: &ast::Test, app: Option<&str>) -> R<()> {
        match &t.app {
            None => self.code_test(module, t),
            Some((path, args)) => {
                let name = path.parts.last().map(|p| p.name.as_str());
                let id = self.path_item(module, path, "app")?;
                match self.item(id, path.span)? {
                    crate::items::Item::App => {}
                    // Of each a module is made.
                    crate::items::Item::Element => return Ok(()),
                    crate::items::Item::Const(_)
                    | crate::items::Item::Charset(_)
                    | crate::items::Item::Alias(_)
                    | crate::items::Item::Fault
                    | crate::items::Item::Enum(_)
                    | crate::items::Item::Record(_)
                    | crate::items::Item::Unit(_)
                    | crate::items::Item::Protocol(_)
                    | crate::items::Item::Fn(_)
                    | crate::items::Item::Table(_) => {
                        return Err(self.error("E0619", path.span, "a test is of an app or an element"))
                    }
                }
                // Of several apps in a file one is compiled at a time.
                if name != app {
                    return Ok(());
                }
                self.sim_test(module, t, args)
            }
        }
    }

    fn code_test(&mut self, module: ModId, t: &ast::Test) -> R<()> {
        let index = self.m.tests.len() as u32;
        let mut l = Lower::new(self, module, Kind::Test);
        l.place = format!("test \"{}\"", t.name);
        let mut failed = false;
        let mut gone = false;
        for s in &t.steps {
            if gone {
                l.never_reached(s.span);
                break;
            }
            match &s.kind {
                T::Code(stmt) => match l.stmt(stmt) {
                    Ok(never) => gone = never,
                    Err(Reported) => failed = true,
                },
                T::Send { .. }
                | T::See { .. }
                | T::SeeWhere { .. }
                | T::For { .. }
                | T::SeeEnd { .. }
                | T::Act { .. }
                | T::Wait(_) => {
                    l.err("E0619", s.span, "only a test `of` an app has ports");
                    failed = true;
                }
            }
        }
        l.leave();
        let body = l.body();
        if failed {
            return Err(Reported);
        }
        let handler = self.add_handler(&format!("test {index}"), ir::On::Test(index), t.span, body);
        let span = self.span(t.span);
        self.m.tests.push(ir::Test { name: t.name.clone(), span, kind: TestKind::Code(handler) });
        Ok(())
    }

    fn sim_test(&mut self, module: ModId, t: &ast::Test, args: &[Arg]) -> R<()> {
        let mut params = Vec::new();
        for a in args {
            let Some(n) = &a.name else {
                self.error("E0308", a.value.span, "name the parameter: `app(port = 80)`");
                continue;
            };
            if !matches!(self.app.get(&n.name), Some(AppName::Param(..) | AppName::Failed)) {
                let known: Vec<String> = self.m.params.iter().map(|p| p.name.clone()).collect();
                let hint = crate::names::suggest(&n.name, known.iter().map(String::as_str));
                self.report(crate::names::with_hint(
                    Diagnostic::error("E0201", n.span, format!("the app has no parameter `{}`", n.name)),
                    hint,
                ));
                continue;
            }
            if params.iter().any(|(given, _)| *given == n.name) {
                self.error("E0308", n.span, "this parameter is given twice");
                continue;
            }
            let text = self.param_text(&a.value);
            params.push((n.name.clone(), text));
        }
        self.played(module, t, params)
    }

    /// The steps of a simulated run of the current app.
    pub fn played(&mut self, module: ModId, t: &ast::Test, params: Vec<(String, String)>) -> R<()> {
        let index = self.m.tests.len();
        let span = self.span(t.span);
        self.m.tests.push(ir::Test {
            name: t.name.clone(),
            span,
            kind: TestKind::Sim { params: vec![], steps: vec![] },
        });
        let outer = self.enter_test();
        let steps = self.sim_steps(module, &t.steps);
        self.leave_test(outer);
        self.m.tests[index].kind = TestKind::Sim { params, steps };
        Ok(())
    }

    pub fn sim_steps(&mut self, module: ModId, steps: &[ast::TestStep]) -> Vec<(ir::Span, SimStep)> {
        let mut made = Vec::new();
        for s in steps {
            match self.sim_step(module, &s.kind, s.span) {
                Ok(Some(step)) => made.push((self.span(s.span), step)),
                Ok(None) => {}
                Err(Reported) => self.must_be_told(s.span),
            }
        }
        made
    }

    /// A parameter's value as on the command line.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn param_text(&self, e: &Expr) -> String {
        match &*e.kind {
            ExprKind::Bytes(b) => String::from_utf8_lossy(b).into_owned(),
            ExprKind::Address(a) => a.clone(),
            ExprKind::List(es) => es.iter().map(|e| self.param_text(e)).collect::<Vec<_>>().join(","),
            _ => self.map.text(e.span).to_string(),
        }
    }

    fn sim_step(&mut self, module: ModId, k: &T, span: Span) -> R<Option<SimStep>> {
        if let T::See { port, .. } | T::SeeEnd { port, closed: false } = k {
            if self.is_log(port) {
                let line = if let T::See { bytes, .. } = k { Some(self.test_bytes(module, bytes)?) } else { None };
                return Ok(Some(SimStep::SeeLog(line)));
            }
        }
        if let Some(made) = self.frame_step(module, k, span) {
            return made;
        }
        Ok(Some(match k {
            T::Code(stmt) => return self.statement_step(module, stmt, span),
            T::For { var, list, steps } => self.for_step(module, var, list, steps, span)?,
            T::SeeWhere { .. } => {
                return Err(self.error("E0619", span, "`where` is for packets: tests of services send and see bytes"))
            }
            T::Send { port, bytes } => {
                let (p, b) = (self.sim_port(module, port)?, self.test_bytes(module, bytes)?);
                SimStep::Send(p, b)
            }
            T::See { port, bytes } => {
                let (p, b) = (self.sim_port(module, port)?, self.test_bytes(module, bytes)?);
                SimStep::See(p, b)
            }
            T::SeeEnd { port, closed } => {
                let p = self.sim_port(module, port)?;
                if *closed {
                    SimStep::SeeClosed(p)
                } else {
                    SimStep::SeeNothing(p)
                }
            }
            T::Wait(e) => {
                let named = self.test_values();
                SimStep::Wait(self.const_duration_beside(module, e, &named)?)
            }
            T::Act { act, port } => {
                let p = self.sim_port(module, port)?;
                match act.name.as_str() {
                    "close" => SimStep::Close(p),
                    "reset" => SimStep::Reset(p),
                    "refuse" => SimStep::Refuse(p),
                    "accept" => SimStep::Accept(p),
                    other => return Err(self.error("E0619", act.span, format!("a test cannot `{other}`"))),
                }
            }
        }))
    }

    /// The lines that the program logs, unless the app has something else of this name.
    fn is_log(&self, port: &Expr) -> bool {
        matches!(&*port.kind, ExprKind::Name(n) if n.name == "log" && !self.app.has("log"))
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn test_bytes(&mut self, module: ModId, e: &Expr) -> R<Vec<u8>> {
        let named = self.test_values();
        let v = self.constant_beside(module, e, None, &named)?;
        match (&v.ty, &v.kind) {
            (Ty::Bytes(_), Vk::Pure(x)) => match &*x.kind {
                ir::ExprKind::Bytes(b) => Ok(b.clone()),
                _ => Err(Reported),
            },
            (t, _) => {
                let s = self.show(t);
                Err(self.error("E0301", e.span, format!("expected bytes, found {s}")))
            }
        }
    }

    /// `client`, `client.1`, `backends[2]`.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn sim_port(&mut self, module: ModId, e: &Expr) -> R<SimPort> {
        let (name, conn) = match &*e.kind {
            ExprKind::Name(n) => (n.clone(), 0),
            ExprKind::Field(Some(base), n) => match (&*base.kind, n.name.parse::<u32>()) {
                (ExprKind::Name(p), Ok(i)) => (p.clone(), i),
                _ => return Err(self.error("E0619", e.span, "a place is `port`, `port.1` or `port[0]`")),
            },
            ExprKind::Index(base, i) => match &*base.kind {
                ExprKind::Name(p) => {
                    let i = self.const_u64(module, i)?;
                    (p.clone(), u32::try_from(i).unwrap_or(u32::MAX))
                }
                _ => return Err(self.error("E0619", e.span, "a place is `port`, `port.1` or `port[0]`")),
            },
            ExprKind::Error => return Err(Reported),
            _ => return Err(self.error("E0619", e.span, "a place is `port`, `port.1` or `port[0]`")),
        };
        match self.app.get(&name.name) {
            Some(AppName::Port(p)) => Ok(SimPort { port: *p, conn }),
            Some(AppName::Upstream(c)) => {
                let port = self.m.upstreams[c.index()].port;
                Ok(SimPort::own(port, c.0, conn))
            }
            Some(AppName::Failed) => Err(Reported),
            None if name.name == "kernel" && !self.app.frames.is_empty() => {
                match self.m.ports.iter().position(|p| p.name == "kernel") {
                    Some(p) => Ok(SimPort { port: ir::PortId(p as u32), conn }),
                    None => Err(self.error("E0619", e.span, "nothing is sent to `kernel` here")),
                }
            }
            _ => {
                let known = self.app.places();
                Err(self.unknown(module, &name.name, name.span, "port", &known))
            }
        }
    }
}
