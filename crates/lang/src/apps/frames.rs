//! Frame ports (`nic("eth0")`, `pcap("f")`, lists of them) and the handlers of their frames.

use super::scope::AppName;
use crate::body::{Kind, Lower};
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::names::{ItemId, Meaning, ModId};
use crate::ty::Ty;
use crate::units::findings::source;
use crate::val::Val;
use ir::desc::{FrameEngine, ParamValue, PortKind, PortOptions, Value};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, ExprKind, Ident, Node, Span};
use wireloom_syntax::Diagnostic;

const DEVICES: &[(&str, FrameEngine)] = &[
    ("nic", FrameEngine::Nic),
    ("pcap", FrameEngine::Pcap),
    ("tun", FrameEngine::Tun),
    ("tap", FrameEngine::Tap),
    ("memory", FrameEngine::Memory),
    ("udp", FrameEngine::Udp),
];

/// Most instances of a frame port.
const MAX_INSTANCES: usize = 1024;

impl Compiler<'_> {
    /// `nic("eth0")`, `[tun("a"), tun("b")]`, `nic(names)` with a parameter.
    pub fn frame_port(&mut self, module: ModId, p: &ast::Port) -> R<AppName> {
        let (engine, names, mut instances) = self.devices(module, p)?;
        // `nic(names) [8]`: a parameter names up to so many devices.
        if let (Some(e), Value::Param(_), None) = (&p.count, &names, instances) {
            instances = Some(self.const_size(module, e)?.min(MAX_INSTANCES as u64));
        } else if let Some(e) = &p.count {
            return Err(self.report(
                Diagnostic::error("E0641", e.span, "a frame port has as many instances as it names")
                    .hint("write `[nic(\"a\"), nic(\"b\")]`"),
            ));
        }
        let mut options = PortOptions::default();
        self.options_once(p.options.iter().map(|(n, _)| n));
        for (n, e) in &p.options {
            let made = self.frame_option(module, &mut options, n, e);
            self.settle(made, n.span);
        }
        let unit = self.packet_type(module, p, engine)?;
        let id = ir::PortId(self.m.ports.len() as u32);
        self.app.frames.insert(id, unit);
        self.frame_units.push(unit);
        match instances {
            Some(n) => {
                self.app.instances.insert(id, n);
            }
            None => {
                self.app.single.insert(id);
                self.app.instances.insert(id, 1);
            }
        }
        let span = self.span(p.name.span);
        let kind = PortKind::Frames { engine, names };
        self.m.ports.push(ir::Port { options, ..ir::Port::new(&p.name.name, span, kind) });
        Ok(AppName::Port(id))
    }

    fn frame_option(&mut self, module: ModId, o: &mut PortOptions, name: &Ident, e: &Expr) -> R<()> {
        if name.name != "offload" {
            let d = Diagnostic::error("E0614", name.span, format!("a frame port has no option `{}`", name.name))
                .note("options: offload");
            return Err(self.report(d));
        }
        o.offload = self.const_bool(module, e)?;
        Ok(())
    }

    fn devices(&mut self, module: ModId, p: &ast::Port) -> R<(FrameEngine, Value, Option<u64>)> {
        if p.transport.name != "list" {
            let engine = self.device(&p.transport)?;
            let [arg] = p.args.as_slice() else {
                return Err(self.error(
                    "E0308",
                    p.transport.span,
                    format!("`{}` takes one argument: a name", p.transport.name),
                ));
            };
            if let ExprKind::Name(n) = &*arg.kind {
                match self.app.get(&n.name).cloned() {
                    Some(AppName::Param(id, Ty::Bytes(_) | Ty::Endpoint)) => {
                        return Ok((engine, Value::Param(id.0), None))
                    }
                    Some(AppName::Param(id, Ty::List(_, n))) => {
                        return Ok((engine, Value::Param(id.0), Some(n.into())))
                    }
                    Some(AppName::Failed) => return Err(Reported),
                    _ => {}
                }
            }
            if let ExprKind::List(es) = &*arg.kind {
                let names = es.iter().map(|e| self.device_name(module, e)).collect::<R<Vec<_>>>()?;
                return self.instances(names, arg.span).map(|(v, n)| (engine, v, n));
            }
            let name = self.device_name(module, arg)?;
            return Ok((engine, Value::Const(ParamValue::Bytes(name.into_bytes())), None));
        }
        let (mut engine, mut names) = (None, Vec::new());
        for e in &p.args {
            let ExprKind::Call(f, args) = &*e.kind else {
                return Err(self.error("E0616", e.span, "a list of devices: `[nic(\"a\"), nic(\"b\")]`"));
            };
            let (ExprKind::Name(word), [arg]) = (&*f.kind, args.as_slice()) else {
                return Err(self.error("E0616", e.span, "a list of devices: `[nic(\"a\"), nic(\"b\")]`"));
            };
            let this = self.device(word)?;
            if engine.is_some_and(|o| o != this) {
                return Err(self.error("E0616", word.span, "the instances of a port are of one kind"));
            }
            engine = Some(this);
            names.push(self.device_name(module, &arg.value)?);
        }
        let Some(engine) = engine else {
            return Err(self.error("E0616", p.transport.span, "a port has at least one device"));
        };
        self.instances(names, p.transport.span).map(|(v, n)| (engine, v, n))
    }

    fn instances(&mut self, names: Vec<String>, span: Span) -> R<(Value, Option<u64>)> {
        if names.len() > MAX_INSTANCES {
            return Err(self.error("E0616", span, format!("a port has at most {MAX_INSTANCES} devices")));
        }
        let n = names.len() as u64;
        Ok((Value::Const(ParamValue::Endpoints(names)), Some(n)))
    }

    fn device(&mut self, word: &Ident) -> R<FrameEngine> {
        if let Some((_, e)) = DEVICES.iter().find(|(n, _)| *n == word.name) {
            return Ok(*e);
        }
        let hint = crate::names::suggest(&word.name, DEVICES.iter().map(|(n, _)| *n));
        let d = Diagnostic::error("E0616", word.span, format!("there is no device `{}`", word.name))
            .note("devices: `nic`, `pcap`, `tun`, `tap`, `memory`, `udp`; streams: `listen tcp(…)`, `connect tcp(…)`");
        Err(self.report(crate::names::with_hint(d, hint)))
    }

    fn device_name(&mut self, module: ModId, e: &Expr) -> R<String> {
        if let ExprKind::Address(a) = &*e.kind {
            return Ok(a.clone());
        }
        if let ExprKind::Name(n) = &*e.kind {
            if !self.app.has(&n.name) && self.names.find(module, &[&n.name]).is_none() {
                let d = Diagnostic::error("E0201", e.span, format!("unknown constant `{}`", n.name));
                let hint = format!("the name of a device stands in quotes: `\"{}\"`", n.name);
                return Err(self.report(d.label("not known here").hint(hint)));
            }
        }
        let v = self.constant(module, e, None)?;
        if let ir::ExprKind::Bytes(b) = *v.kind.into_pure().ok_or(Reported)?.kind {
            // An empty name is `null`.
            return Ok(String::from_utf8_lossy(&b).into_owned());
        }
        Err(self.error("E0615", e.span, "a device is named by text: `nic(\"eth0\")`"))
    }

    /// The content of the port's frames: the packet type named, or the library's for this kind of
    /// device.
    fn packet_type(&mut self, module: ModId, p: &ast::Port, engine: FrameEngine) -> R<ir::UnitId> {
        let id = match p.protocols.as_slice() {
            [path] => self.path_item(module, path, "packet type")?,
            [] if engine == FrameEngine::Udp => {
                return Err(self.report(
                    Diagnostic::error("E0612", p.name.span, "a udp port needs a packet type")
                        .hint("its frames are the datagrams' payloads: `udp(\"0.0.0.0:53\") as Query`"),
                ))
            }
            [] => self.library_packet(if engine == FrameEngine::Tun { "IpPacket" } else { "Packet" }, p.name.span)?,
            _ => return Err(self.error("E0612", p.name.span, "a frame port has one packet type")),
        };
        let at = p.protocols.first().map_or(p.name.span, |p| p.span);
        self.packet_unit(id, at)
    }

    /// The packet type that an item is.
    pub(super) fn packet_unit(&mut self, id: ItemId, at: Span) -> R<ir::UnitId> {
        match self.item(id, at)?.unit().filter(|u| self.m.units[u.index()].frame.is_some()) {
            Some(u) if self.units[u.index()].ok => Ok(u),
            Some(_) => Err(Reported),
            None => Err(self.report(
                Diagnostic::error("E0612", at, "this is no packet type").hint("a packet type is a `packet` item"),
            )),
        }
    }

    /// The packet type of frames that begin with Ethernet.
    pub fn standard_packet(&mut self, span: Span) -> R<ir::UnitId> {
        let id = self.library_packet("Packet", span)?;
        self.item(id, span)?.unit().filter(|u| self.units[u.index()].ok).ok_or(Reported)
    }

    pub fn library_packet(&mut self, name: &str, span: Span) -> R<crate::names::ItemId> {
        match self.names.packet.and_then(|m| self.names.modules.get(m)).and_then(|m| m.names.get(name)) {
            Some((id, _)) => Ok(*id),
            None => Err(self.error("E0202", span, "the standard library has no `packet`")),
        }
    }

    /// `kernel`, which every packet app can send to.
    pub fn kernel_port(&mut self) -> Option<ir::PortId> {
        if self.app.frames.is_empty() {
            return None;
        }
        let found = self.m.ports.iter().position(|p| p.name == "kernel");
        let id = ir::PortId(found.unwrap_or(self.m.ports.len()) as u32);
        // It may have been made where another scope was at hand.
        self.app.single.insert(id);
        self.app.instances.insert(id, 1);
        if found.is_some() {
            return Some(id);
        }
        let names = Value::Const(ParamValue::Bytes(b"kernel".to_vec()));
        let kind = PortKind::Frames { engine: FrameEngine::Kernel, names };
        self.m.ports.push(ir::Port::new("kernel", ir::Span::default(), kind));
        Some(id)
    }

    pub fn frame_handler(&mut self, module: ModId, app: &str, h: &ast::Handler, port: ir::PortId, span: Span) -> R<()> {
        let ast::On::Message { port: name, param, index, .. } = &h.on else { return Err(Reported) };
        let Some(unit) = self.app.frames.get(&port).copied() else { return Err(Reported) };
        if self.has_channels(port) {
            return Err(self.which_channel(port, name.span));
        }
        self.handled_once(port, name.span)?;
        let arrives = !self.is_queue(port);
        let mut l = begin(self, module, format!("app {app}: on {}", name.name));
        (l.arrival, l.queued) = (arrives, !arrives);
        l.came_from = arrives.then_some(port);
        let p = l.new_local(&param.name, &Ty::Msg(unit));
        l.bind_all(&[(param.clone(), Val::path(Ty::Msg(unit), build::msg(p)))]);
        let body = l
            .bind_instance(index.as_ref(), port, p)
            .and_then(|()| super::handlers::run(l, &h.body, h.guard.as_ref(), span))
            .unwrap_or_default();
        self.add_handler(&name.name, ir::On::Frame { port, unit }, span, body);
        Ok(())
    }

    pub fn handled_once(&mut self, port: ir::PortId, span: Span) -> R<()> {
        let Some(first) = self.m.frame_handler(port).map(|h| source(h.span)) else { return Ok(()) };
        let name = self.m.ports[port.index()].name.clone();
        Err(self.report(
            Diagnostic::error("E0639", span, format!("the packets of port `{name}` are handled already"))
                .label("a second time")
                .also(first, "here first")
                .hint("to take them two ways: `port -> broadcast [a, b]`"),
        ))
    }

    /// `lan -> … -> mon`: every packet goes along the nodes.
    pub fn pass_frames(&mut self, module: ModId, app: &str, port: ir::PortId, nodes: &[Node], span: Span) -> R<()> {
        let Some(unit) = self.app.frames.get(&port).copied() else { return Err(Reported) };
        if self.has_channels(port) {
            return Err(self.which_channel(port, nodes.first().map_or(span, |n| Span { end: n.span.start, ..span })));
        }
        self.handled_once(port, span)?;
        let name = self.m.ports[port.index()].name.clone();
        let arrives = !self.is_queue(port);
        let mut l = begin(self, module, format!("app {app}: {name}"));
        (l.arrival, l.queued) = (arrives, !arrives);
        let p = l.new_local("p", &Ty::Msg(unit));
        let made = l.flow(nodes, Val::path(Ty::Msg(unit), build::msg(p)), span);
        let body = l.body();
        self.add_handler(&name, ir::On::Frame { port, unit }, span, body);
        made
    }

    /// The packet type that `packet` stands for.
    pub fn any_packet(&mut self, module: ModId, t: &ast::Type) -> bool {
        let ast::TypeKind::Named { path, args } = &t.kind else { return false };
        let [one] = path.parts.as_slice() else { return false };
        one.name == "packet"
            && args.is_empty()
            && matches!((self.names.find(module, &["packet"]), self.names.packet), (Some((Meaning::Item(id), _)), Some(m)) if self.names.items[id].module == m)
    }
}

impl Lower<'_, '_> {
    /// `on ports[i](p)`, `on q[i](p)`: the instance that a frame came from.
    pub fn bind_instance(&mut self, index: Option<&Ident>, port: ir::PortId, frame: ir::LocalId) -> R<()> {
        let Some(index) = index else { return Ok(()) };
        if self.cx.app.is_single(port) {
            let (name, what) =
                (self.cx.m.ports[port.index()].name.clone(), if self.cx.is_queue(port) { "queue" } else { "port" });
            return Err(self.cx.no_array(&name, what, index.span));
        }
        let at = ir::Expr::new(crate::compiler::T_U32, ir::ExprKind::FrameInstance(frame));
        self.bind_all(&[(index.clone(), Val::pure(crate::ty::U32, at))]);
        Ok(())
    }
}

pub fn begin<'c, 'a>(cx: &'c mut Compiler<'a>, module: ModId, place: String) -> Lower<'c, 'a> {
    let mut l = Lower::new(cx, module, Kind::Handler);
    l.place = place;
    l.in_app = true;
    l.frames = true;
    l
}
