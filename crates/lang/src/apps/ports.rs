//! Parameters and ports: the connections of a program to the outside.

use super::scope::AppName;
use crate::compiler::{Compiler, Reported, R};
use crate::items::Item;
use crate::names::ModId;
use crate::ty::{Ty, U16};
use crate::val::Vk;
use ir::desc::{Failover, ParamType, ParamValue, PortKind, PortOptions, Reuse, Value};
use ir::port_options::{self, slot, Slot};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, ExprKind, Ident, Span};
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    /// The type of a value that a command line or a signal's caller can give.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn param_type(&mut self, t: &Ty, span: Span) -> R<ParamType> {
        Ok(match t {
            Ty::Bool => ParamType::Bool,
            Ty::Int { bits, signed: false } if *bits <= 64 => ParamType::UInt(*bits),
            // Written as addresses, too.
            Ty::Ip4 => ParamType::UInt(32),
            Ty::Mac => ParamType::UInt(48),
            Ty::Duration => ParamType::Duration,
            Ty::Bytes(n) if *n <= 1 << 24 => ParamType::Bytes(*n as u32),
            Ty::Endpoint => ParamType::Endpoint,
            Ty::List(inner, n) if **inner == Ty::Endpoint => ParamType::Endpoints(*n),
            Ty::List(inner, n) if inner.bytes_max() <= 1 << 16 && matches!(**inner, Ty::Bytes(_)) => {
                ParamType::Texts(*n, inner.bytes_max() as u32)
            }
            Ty::Error => return Err(Reported),
            t => {
                let s = self.show(t);
                return Err(self.report(
                    Diagnostic::error("E0615", span, format!("a parameter cannot be {s}"))
                        .label("not a parameter's type")
                        .hint("bool, u1 to u64, ip4, mac, duration, bytes<N> up to 16MiB, endpoint, list<endpoint, N>, list<bytes<N>, N>"),
                ));
            }
        })
    }

    pub fn param(&mut self, module: ModId, p: &ast::Param, doc: &str) -> R<AppName> {
        let (t, or_port) = if let ast::TypeKind::Or(one, other) = &p.ty.kind {
            let both = (self.ty(module, one)?, self.ty(module, other)?);
            if both != (Ty::Endpoint, U16) {
                let d = Diagnostic::error("E0615", p.ty.span, "a parameter is one or the other only for ports");
                return Err(self.report(d.hint("write `endpoint or u16`")));
            }
            (Ty::Endpoint, true)
        } else {
            (self.ty(module, &p.ty)?, false)
        };
        let ty = self.param_type(&t, p.ty.span)?;
        let default = match &p.default {
            Some(Expr { kind, span }) if or_port && matches!(**kind, ExprKind::Int(_)) => {
                let ExprKind::Int(n) = **kind else { return Err(Reported) };
                let Ok(port) = u16::try_from(n) else {
                    return Err(self.error("E0304", *span, format!("{n} is no port number (0 to 65535)")));
                };
                Some(ParamValue::Endpoints(vec![format!("0.0.0.0:{port}")]))
            }
            Some(e) => Some(self.param_value(module, e, &t)?),
            None => None,
        };
        let value_ty = self.lower_ty(&t);
        let doc = if doc.is_empty() { p.doc.clone() } else { doc.to_string() };
        self.m.params.push(ir::Param {
            name: p.name.name.clone(),
            doc,
            ty,
            form: if or_port { ir::desc::Form::OrPort } else { self.argument_form(&t) },
            value_ty,
            default,
        });
        Ok(AppName::Param(ir::ParamId(self.m.params.len() as u32 - 1), t))
    }

    fn param_value(&mut self, module: ModId, e: &Expr, t: &Ty) -> R<ParamValue> {
        if matches!(t, Ty::Endpoint) || matches!(t, Ty::List(of, _) if **of == Ty::Endpoint) {
            return self.endpoints(e).map(ParamValue::Endpoints);
        }
        let v = self.constant(module, e, Some(t))?;
        let Vk::Pure(x) = &v.kind else { return Err(Reported) };
        Ok(match (&*x.kind, t) {
            (ir::ExprKind::Bool(b), _) => ParamValue::Bool(*b),
            (ir::ExprKind::Bytes(b), _) => ParamValue::Bytes(b.clone()),
            (ir::ExprKind::MakeList(items), _) => {
                let text = |x: &ir::Expr| {
                    if let ir::ExprKind::Bytes(b) = &*x.kind {
                        Ok(b.clone())
                    } else {
                        Err(Reported)
                    }
                };
                ParamValue::Texts(items.iter().map(text).collect::<R<_>>()?)
            }
            (ir::ExprKind::Int(n), Ty::Duration) => ParamValue::Duration(*n as u64),
            (ir::ExprKind::Int(n), _) => ParamValue::UInt(*n as u64),
            _ => return Err(Reported),
        })
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn endpoints(&mut self, e: &Expr) -> R<Vec<String>> {
        match &*e.kind {
            ExprKind::Address(a) => Ok(vec![self.with_port(a, e.span)?]),
            ExprKind::Bytes(b) => match std::str::from_utf8(b) {
                Ok(s) => {
                    s.split(',').map(str::trim).filter(|s| !s.is_empty()).map(|s| self.with_port(s, e.span)).collect()
                }
                Err(_) => Err(self.error("E0615", e.span, "an endpoint is text: `\"host:port\"`")),
            },
            ExprKind::List(es) => {
                let mut all = vec![];
                for e in es {
                    all.extend(self.endpoints(e)?);
                }
                Ok(all)
            }
            ExprKind::Error => Err(Reported),
            _ => Err(self.error("E0615", e.span, "expected an endpoint: `127.0.0.1:80` or `\"host:port\"`")),
        }
    }

    /// An endpoint is an address or a name, and a port.
    fn with_port(&mut self, text: &str, span: Span) -> R<String> {
        let port = text.rsplit(':').next().unwrap_or(text);
        if port.parse::<u16>().is_ok() {
            return Ok(text.to_string());
        }
        Err(self.report(
            Diagnostic::error("E0615", span, format!("`{text}` has no port")).hint(format!("write `{text}:80`")),
        ))
    }

    pub fn port(&mut self, module: ModId, p: &ast::Port) -> R<AppName> {
        if p.direction.name == "device" {
            return self.frame_port(module, p);
        }
        let udp = p.transport.name == "udp";
        if !udp && p.transport.name != "tcp" || !matches!(p.direction.name.as_str(), "listen" | "connect") {
            let what = if p.direction.name == p.transport.name {
                p.direction.name.clone()
            } else {
                format!("{} {}", p.direction.name, p.transport.name)
            };
            let d =
                Diagnostic::error("E0616", p.direction.span, format!("ports of kind `{what}` are not compiled yet"))
                    .hint("`listen` and `connect` take `tcp(…)` or `udp(…)`");
            return Err(self.report(d));
        }
        let listen = p.direction.name == "listen";
        let id = ir::PortId(self.m.ports.len() as u32);
        let [arg] = p.args.as_slice() else {
            return Err(self.error(
                "E0308",
                p.transport.span,
                format!("`{}` takes one argument: a port number, an endpoint or a list", p.transport.name),
            ));
        };
        let (value, instances) = self.port_value(module, arg, listen)?;
        let protocols = self.port_protocols(module, p, listen)?;
        let sharing: Vec<_> = protocols.iter().map(|p| self.m.protocols[p.index()].sharing).collect();
        let probes = protocols.iter().any(|p| self.protocols[p.index()].probe.is_some());
        // Merges are not known yet.
        let traits = port_options::Traits { udp, sharing: &sharing, probes, merges: true };
        let mut options = match sharing.contains(&ir::desc::Sharing::Session) {
            _ if udp => PortOptions::udp(),
            true if !listen => PortOptions::conversation(),
            _ => PortOptions::default(),
        };
        self.options_once(p.options.iter().map(|(n, _)| n));
        for (n, e) in &p.options {
            if !port_options::applies(&n.name, listen) {
                let text = format!("`{}` is for {}", n.name, port_options::where_it_applies(&n.name));
                self.report(Diagnostic::error("E0641", n.span, text).label("it would have no effect here"));
                continue;
            }
            let unused = match port_options::only_for(&n.name, traits) {
                Some(others) => Some((format!("`{}` is for {others}", n.name), None)),
                None if n.name == "pipeline" && !self.says(&protocols, is_pipeline) => Some((
                    "this protocol does not say which requests share a connection".to_string(),
                    Some("add `pipeline when …` to the protocol"),
                )),
                None if port_options::of_pools(&n.name) && !self.says(&protocols, is_reset) => Some((
                    "this protocol does not say how a session is reset".to_string(),
                    Some("add `on reset`, `reset when`, `idle when` and `owes when` to the protocol"),
                )),
                None => None,
            };
            if let Some((text, hint)) = unused {
                let d = Diagnostic::error("E0641", n.span, text).label("it would have no effect here");
                self.report(match hint {
                    Some(hint) => d.hint(hint),
                    None => d,
                });
                continue;
            }
            let silent = !self.says(&protocols, is_owes) && !self.says(&protocols, is_matches);
            if n.name == "answer_timeout" && options.answer_timeout == 0 && silent {
                let d = Diagnostic::error(
                    "E0641",
                    n.span,
                    "this protocol does not say which messages a server answers",
                )
                .label("it would have no effect here")
                .hint("add `owes when` and `idle when` to the protocol, or use `idle_timeout` of the listening port");
                self.report(d);
                continue;
            }
            if n.name == "hold_body" {
                let made = self.hold_body(module, &mut options, (n, e), &protocols, (listen, udp));
                self.settle(made, n.span);
                continue;
            }
            let made = self.port_option(module, &mut options, n, e);
            self.settle(made, n.span);
        }
        if let Some(e) = &p.count {
            let n = self.const_size(module, e)?;
            self.app.counts.insert(id, u32::try_from(n).unwrap_or(u32::MAX));
        }
        match instances {
            Some(n) => {
                self.app.instances.insert(id, n);
            }
            None => {
                self.app.single.insert(id);
                self.app.instances.insert(id, 1);
            }
        }
        let kind = if listen { PortKind::Listen(value) } else { PortKind::Connect(value) };
        let same = |o: &&ir::Port| o.udp == udp && o.kind == kind;
        if let Some(other) = self.m.ports.iter().find(same).filter(|_| listen && !any_port(&kind)) {
            let (name, first) = (other.name.clone(), crate::units::findings::source(other.span));
            let text = format!("port `{name}` listens here already");
            let d = Diagnostic::error("E0639", p.name.span, text).label("a second time").also(first, "here first");
            self.report(d.hint("connections would go to either: let one port speak both, `as a or b`"));
        }
        let span = self.span(p.name.span);
        self.m.ports.push(ir::Port { protocols, options, udp, ..ir::Port::new(&p.name.name, span, kind) });
        Ok(AppName::Port(id))
    }

    /// Whether one of the protocols has a clause of a kind, which may have an error.
    #[allow(clippy::wildcard_enum_match_arm, reason = "one kind of many is looked for")]
    fn says(&self, protocols: &[ir::ProtocolId], is: fn(&ast::ClauseKind) -> bool) -> bool {
        protocols.iter().any(|p| match &self.protocols[p.index()].ast.kind {
            ast::ItemKind::Protocol(p) => p.clauses.iter().any(|c| is(&c.kind)),
            _ => false,
        })
    }

    /// Options of pools in a program that gives no session to one, and of merges where none is.
    pub fn unused_options(&mut self, app: &ast::Element) {
        for m in &app.members {
            let ast::MemberKind::Port(port) = &m.kind else { continue };
            let Some(id) = self.app.port(&port.name.name) else { continue };
            for (n, _) in &port.options {
                let d = if port_options::of_pools(&n.name) && !ir::describe::gives_to_pools(&self.m, id) {
                    Diagnostic::error("E0641", n.span, format!("no session of `{}` goes to a pool", port.name.name))
                        .hint("in the handler of its messages: `on up(m) { … pool up for key }`")
                } else if n.name == "end_mark" && !self.m.merges.iter().any(|m| m.from == id || m.to == id) {
                    Diagnostic::error("E0641", n.span, "`end_mark` is for ports of a merge")
                } else {
                    continue;
                };
                self.report(d.label("it would have no effect here"));
                break;
            }
        }
    }

    fn port_protocols(&mut self, module: ModId, p: &ast::Port, listen: bool) -> R<Vec<ir::ProtocolId>> {
        let mut all = Vec::new();
        for path in p.protocols.iter().chain(&p.becomes) {
            let id = self.path_item(module, path, "protocol")?;
            match self.item(id, path.span)? {
                Item::Protocol(id) if all.contains(&id) => {
                    self.error("E0203", path.span, "this protocol is listed twice");
                }
                Item::Protocol(id) => all.push(id),
                Item::Const(_)
                | Item::Charset(_)
                | Item::Alias(_)
                | Item::Fault
                | Item::Enum(_)
                | Item::Record(_)
                | Item::Unit(_)
                | Item::Fn(_)
                | Item::Table(_)
                | Item::App
                | Item::Element => return Err(self.error("E0612", path.span, "this is no protocol")),
            }
        }
        if all.is_empty() {
            return Err(
                self.report(Diagnostic::error("E0612", p.name.span, "a port needs a protocol").hint("write `as http`"))
            );
        }
        if listen {
            self.one_conversation(p, &all)?;
        }
        if let (Some(id), 1, false) = (all.first(), p.protocols.len(), listen) {
            self.connects_without_state(*id, p.protocols[0].span);
        }
        self.only_conversations_change(p, &all)?;
        if !listen && p.protocols.len() > 1 {
            return Err(self.error("E0612", p.name.span, "a connecting port speaks one protocol"));
        }
        Ok(all)
    }

    /// The value bound to, and the most instances (None: exactly one).
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn port_value(&mut self, module: ModId, e: &Expr, listen: bool) -> R<(Value, Option<u64>)> {
        if let ExprKind::Name(n) = &*e.kind {
            match self.app.get(&n.name).cloned() {
                Some(AppName::Param(id, t)) => return self.port_param(id, &t, listen, e.span),
                Some(AppName::Failed) => return Err(Reported),
                _ => {}
            }
        }
        match &*e.kind {
            ExprKind::Address(_) | ExprKind::List(_) | ExprKind::Bytes(_) => {
                let all = self.endpoints(e)?;
                if listen && all.len() != 1 {
                    return Err(self.error("E0615", e.span, "a port listens at one address"));
                }
                let n = (all.len() != 1).then_some(all.len() as u64);
                Ok((Value::Const(ParamValue::Endpoints(all)), n))
            }
            _ if listen => {
                let v = self.constant(module, e, Some(&U16))?;
                let x = v.kind.into_pure().ok_or(Reported)?;
                Ok((Value::Const(ParamValue::UInt(crate::ir_builder::as_int(&x).unwrap_or(0) as u64)), None))
            }
            _ => {
                // A name that nobody knows is told as such.
                if matches!(&*e.kind, ExprKind::Name(n) if !self.app.has(&n.name)) {
                    self.constant(module, e, None)?;
                }
                let d = Diagnostic::error("E0615", e.span, "expected an endpoint or a list of endpoints");
                Err(self.report(d.hint("a `param servers: list<endpoint, 64>`, or `127.0.0.1:11211`")))
            }
        }
    }

    fn port_param(&mut self, id: ir::ParamId, t: &Ty, listen: bool, span: Span) -> R<(Value, Option<u64>)> {
        let value = Value::Param(id.0);
        match (t, listen) {
            (Ty::Int { bits, signed: false }, true) if *bits <= 16 => Ok((value, None)),
            (Ty::Endpoint, _) => Ok((value, None)),
            (Ty::List(inner, n), false) if **inner == Ty::Endpoint => Ok((value, Some(u64::from(*n)))),
            (t, _) => {
                let s = self.show(t);
                let d = Diagnostic::error("E0615", span, format!("this port cannot be bound to {s}"));
                let name = &self.m.params[id.0 as usize].name;
                let hint = if !listen {
                    format!("declare its servers: `param {name}: list<endpoint, 64>`")
                } else {
                    format!("declare it as an address or a port's number: `param {name}: endpoint or u16`")
                };
                Err(self.report(d.hint(hint)))
            }
        }
    }

    fn port_option(&mut self, module: ModId, o: &mut PortOptions, name: &Ident, e: &Expr) -> R<()> {
        match slot(o, &name.name) {
            Some(Slot::Time(t, least)) => *t = self.option_time(module, e, least)?,
            Some(Slot::Times(all)) => {
                let t = self.option_time(module, e, port_options::TICK)?;
                all.into_iter().for_each(|slot| *slot = t);
            }
            Some(Slot::Auto(n, _)) if matches!(&*e.kind, ExprKind::Name(n) if n.name == "auto") => *n = 0,
            Some(Slot::Auto(n, most)) => *n = self.option_count(module, e, 1..=most)?,
            Some(Slot::Count(n, range)) => *n = self.option_count(module, e, range)?,
            Some(Slot::Switch(on)) if matches!(&*e.kind, ExprKind::Bool(_)) => *on = self.const_bool(module, e)?,
            Some(Slot::Switch(on)) => match self.const_u64(module, e)? {
                n @ 0..=1 => *on = n == 1,
                _ => return Err(self.error("E0304", e.span, "this option is true or false")),
            },
            Some(Slot::Byte(b)) => match u8::try_from(self.const_u64(module, e)?) {
                Ok(n) => *b = n,
                Err(_) => return Err(self.error("E0304", e.span, "an end mark is a byte, such as '\\n'; 0 is none")),
            },
            Some(Slot::Reuse(r)) => *r = self.option_word(Reuse::NAMES, e)?,
            Some(Slot::Failover(f)) => *f = self.option_word(Failover::NAMES, e)?,
            None => {
                let hint = crate::names::suggest(&name.name, port_options::NAMES.into_iter());
                let d = Diagnostic::error("E0614", name.span, format!("a port has no option `{}`", name.name))
                    .note(format!("options: {}", port_options::NAMES.join(", ")));
                return Err(self.report(crate::names::with_hint(d, hint)));
            }
        }
        Ok(())
    }

    /// `hold_body 64KiB else pass`
    fn hold_body(
        &mut self,
        module: ModId,
        o: &mut PortOptions,
        (name, e): (&Ident, &Expr),
        protocols: &[ir::ProtocolId],
        (listen, udp): (bool, bool),
    ) -> R<()> {
        let ExprKind::Else(n, other) = &*e.kind else {
            let d = Diagnostic::error("E0642", e.span, "`hold_body` does not say the fate of a longer body")
                .label("not said");
            return Err(self.report(d.hint("write `hold_body 64KiB else pass`: it streams")));
        };
        if other.as_name().is_none_or(|w| w.name != "pass") {
            let d = Diagnostic::error("E0642", other.span, "a longer body streams: `else pass`");
            return Err(self.report(d.hint("a handler may refuse it: `let body = req.data else { … }`")));
        }
        let units: Vec<ir::UnitId> = protocols
            .iter()
            .filter_map(|p| {
                let p = &self.m.protocols[p.index()];
                if listen {
                    Some(p.request)
                } else {
                    p.response
                }
            })
            .collect();
        let session = protocols.iter().any(|p| self.is_session(*p));
        let why = if udp || session {
            Some("`hold_body` is for requests and answers over TCP")
        } else if !units.iter().any(|u| self.has_streams(*u)) {
            Some("these messages have no streams: their fields can be read")
        } else if units.iter().any(|u| self.has_endless_lists(*u)) {
            Some("`hold_body` is not for messages with a list that ends with the connection")
        } else {
            None
        };
        if let Some(why) = why {
            return Err(self.report(Diagnostic::error("E0641", name.span, why).label("it would have no effect here")));
        }
        o.hold_body = self.option_count(module, n, 1..=port_options::HOLD_MAX)?;
        Ok(())
    }

    fn option_time(&mut self, module: ModId, e: &Expr, least: u64) -> R<u64> {
        let t = self.const_duration(module, e)?;
        if t < least {
            let least = ir::explain::duration(least);
            return Err(self.error("E0304", e.span, format!("the time of this option is at least {least}")));
        }
        Ok(t)
    }

    fn option_count(&mut self, module: ModId, e: &Expr, range: std::ops::RangeInclusive<u32>) -> R<u32> {
        let n = self.const_u64(module, e)?;
        match u32::try_from(n) {
            Ok(n) if range.contains(&n) => Ok(n),
            _ if *range.end() == u32::MAX => {
                Err(self.error("E0304", e.span, format!("this option is between {} and 4G", range.start())))
            }
            _ => Err(self.error(
                "E0304",
                e.span,
                format!("this option is between {} and {}", range.start(), range.end()),
            )),
        }
    }

    /// The value of an option that is one of some words.
    fn option_word<T: Copy>(&mut self, names: &[(T, &str)], e: &Expr) -> R<T> {
        let said = if matches!(&*e.kind, ast::ExprKind::None) { Some("none") } else { e.as_name().map(|n| &*n.name) };
        let found = said.and_then(|said| names.iter().find(|(_, word)| *word == said));
        found.map(|(value, _)| *value).ok_or_else(|| {
            let all = names.iter().map(|(_, word)| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            self.error("E0304", e.span, format!("this option is one of {all}"))
        })
    }
}

fn is_owes(c: &ast::ClauseKind) -> bool {
    matches!(c, ast::ClauseKind::Flag { flag: ast::FlagKind::Owes, .. })
}

fn is_matches(c: &ast::ClauseKind) -> bool {
    matches!(c, ast::ClauseKind::Matches { .. })
}

fn is_pipeline(c: &ast::ClauseKind) -> bool {
    matches!(c, ast::ClauseKind::Flag { flag: ast::FlagKind::Pipeline, .. })
}

fn is_reset(c: &ast::ClauseKind) -> bool {
    matches!(c, ast::ClauseKind::OnReset { .. })
}

/// The system chooses the port of each.
fn any_port(kind: &PortKind) -> bool {
    match kind {
        PortKind::Listen(ir::desc::Value::Const(ir::desc::ParamValue::UInt(0))) => true,
        PortKind::Listen(ir::desc::Value::Const(ir::desc::ParamValue::Endpoints(all))) => {
            all.iter().any(|e| e.ends_with(":0"))
        }
        PortKind::Listen(_) | PortKind::Connect(_) | PortKind::Frames { .. } => false,
    }
}
