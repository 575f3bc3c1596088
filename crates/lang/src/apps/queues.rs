//! Queues of packets and rings of values: storage inside of an app, first in, first out.
//!
//! A queue is a port inside of the program. `p -> q` sends to it. `q.pop()` takes the oldest
//! packet, which `on q(p)` or the wiring `q -> …` then handles. A ring is a table of values.

use super::arrays::name_at;
use super::scope::AppName;
use crate::body::Lower;
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::{Ty, U32};
use crate::units::findings::source;
use crate::val::Val;
use ir::desc::{FrameEngine, ParamValue, PortKind, Value};
use ir::{PortId, QueueAct, StmtKind, TableId};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Arg, Expr, Ident, Span};
use wireloom_syntax::Diagnostic;

/// Packets that one queue holds, and all instances of it.
const DEPTH_MAX: u64 = 1 << 20;
const INSTANCES_MAX: u64 = 4096;

/// The numbers of a queue's options, and one of its words, each with its place.
type QueueOptions<const N: usize> = ([Option<(u64, Span)>; N], Option<(&'static str, Span)>);

impl Compiler<'_> {
    pub fn queue(&mut self, module: ModId, q: &ast::Queue) -> R<AppName> {
        if let Some(path) = &q.packet {
            let id = self.path_item(module, path, "packet type or unit")?;
            if let Some(u) = self.item(id, path.span)?.unit().filter(|u| self.m.units[u.index()].frame.is_none()) {
                return self.message_queue(module, q, u);
            }
        }
        let (q, whole) = self.carried_whole(q)?;
        let (q, channels) = self.channels_of(&q)?;
        let ([depth, instances], word) =
            self.queue_options(module, &q, ["depth", "instances"], &["lossless", "lossy"])?;
        let Some((depth, at)) = depth else { return Err(self.no_depth(&q, "packets")) };
        let (n, n_at) = instances.unwrap_or((1, q.name.span));
        if depth == 0 || depth > DEPTH_MAX {
            return Err(self.error("E0714", at, "a queue holds 1 to 1M packets"));
        }
        if n == 0 || n > INSTANCES_MAX || n.saturating_mul(depth) > DEPTH_MAX {
            return Err(self.error(
                "E0714",
                n_at,
                "a queue has 1 to 4096 instances, which hold at most 1M packets together",
            ));
        }
        let unit = self.queue_packet(module, &q)?;
        let id = PortId(self.m.ports.len() as u32);
        self.app.frames.insert(id, unit);
        self.app.instances.insert(id, n);
        if let Some((word, at)) = word {
            self.lossless.insert(id, (word == "lossless", at));
        }
        if instances.is_none() {
            self.app.single.insert(id);
        }
        let span = self.span(q.name.span);
        let names = Value::Const(ParamValue::Endpoints(vec![depth.to_string(); n as usize]));
        let kind = PortKind::Frames { engine: FrameEngine::Queue, names };
        let carries = ir::Carries { fixed: whole, ..Default::default() };
        self.m.ports.push(ir::Port { carries, ..ir::Port::new(&q.name.name, span, kind) });
        self.note_channels(id, channels);
        Ok(AppName::Port(id))
    }

    /// `carries whole`: the queue without this option, and whether it has it.
    fn carried_whole(&mut self, q: &ast::Queue) -> R<(ast::Queue, bool)> {
        let mut rest = q.clone();
        let Some(at) = rest.options.iter().position(|(n, _)| n.name == "carries") else { return Ok((rest, false)) };
        let (name, value) = rest.options.remove(at);
        let whole = value.as_ref().and_then(|e| e.as_name()).is_some_and(|n| n.name == "whole");
        if whole && rest.options.iter().all(|(n, _)| n.name != "carries") {
            return Ok((rest, true));
        }
        let d = Diagnostic::error("E0614", name.span, "a queue says `carries whole`, once, or nothing")
            .note("without it the compiler finds out what is read behind the queue")
            .hint("leave it out, or write `carries whole`");
        Err(self.report(d))
    }

    /// The given numbers, and the given word of `words`, each with its place.
    pub fn queue_options<const N: usize>(
        &mut self,
        module: ModId,
        q: &ast::Queue,
        numbers: [&'static str; N],
        words: &[&'static str],
    ) -> R<QueueOptions<N>> {
        let (mut given, mut word) = ([None; N], None);
        self.options_once(q.options.iter().map(|(n, _)| n));
        for (name, e) in &q.options {
            if let Some(w) = words.iter().find(|w| **w == name.name) {
                if let Some(e) = e {
                    return Err(self.error("E0642", e.span, format!("`{w}` takes no value")));
                }
                word = Some((*w, name.span));
                continue;
            }
            let Some(at) = numbers.iter().position(|k| *k == name.name) else {
                let hint = crate::names::suggest(&name.name, numbers.iter().chain(words).copied());
                let options = numbers.iter().map(|k| format!("`{k} N`")).chain(words.iter().map(|w| format!("`{w}`")));
                let d = Diagnostic::error("E0614", name.span, format!("a queue has no option `{}`", name.name))
                    .note(format!("options: {}", options.collect::<Vec<_>>().join(", ")));
                return Err(self.report(crate::names::with_hint(d, hint)));
            };
            let Some(e) = e else {
                return Err(self.error("E0642", name.span, format!("`{}` needs a number", name.name)));
            };
            given[at] = Some((self.number_in_app(module, e)?, e.span));
        }
        Ok((given, word))
    }

    pub fn no_depth(&mut self, q: &ast::Queue, of: &str) -> Reported {
        self.report(
            Diagnostic::error("E0704", q.name.span, format!("queue `{}` has no depth", q.name.name))
                .label(format!("how many {of}?"))
                .hint("write `{ depth 1024 }`"),
        )
    }

    fn queue_packet(&mut self, module: ModId, q: &ast::Queue) -> R<ir::UnitId> {
        let (id, at) = match (&q.packet, self.frame_units.first().copied()) {
            (Some(path), _) => (self.path_item(module, path, "packet type")?, path.span),
            (None, Some(u)) => return Ok(u),
            (None, None) => (self.library_packet("Packet", q.name.span)?, q.name.span),
        };
        self.packet_unit(id, at)
    }

    pub fn is_queue(&self, p: PortId) -> bool {
        self.m.is_queue(p)
    }

    /// Queues whose packets nobody handles: what is taken from them would be lost.
    pub fn unhandled_queues(&mut self) {
        for i in 0..self.m.ports.len() {
            let id = PortId(i as u32);
            if self.m.frame_handler(id).is_some() || !self.is_queue(id) {
                continue;
            }
            let port = self.m.ports[i].clone();
            let at = Span { file: ast::FileId(port.span.file), start: port.span.start, end: port.span.end };
            let d = Diagnostic::error("E0611", at, format!("no handler for the packets of queue `{}`", port.name))
                .label("no handler");
            self.report(d.hint(format!(
                "write `on {0}(p) {{ … }}` or wire it: `{0} -> …`",
                port.name.rsplit('.').next().unwrap_or("q")
            )));
        }
    }
}

impl Compiler<'_> {
    /// Packets that would be handled for ever: by queues whose handlers send them back and pop them
    /// again, or by elements that build them.
    pub fn endless_queues(&mut self) {
        if self.diags.iter().any(Diagnostic::is_error) {
            return;
        }
        for e in ir::endless::endless(&self.m) {
            let port = &self.m.ports[e.queue.index()];
            let at = source(e.sends);
            let d = if port.kind.is_loop() {
                let text = format!("the packets that are built for `{}` come back to where they are built", port.name);
                Diagnostic::error("E0635", at, text)
                    .label("built here, each time")
                    .note("packets would go round for ever")
                    .hint("end the wiring elsewhere; packets that come again go through a `queue` and a timer")
            } else {
                let text =
                    format!("the packets of queue `{}` are sent back to it, and popped again, for ever", port.name);
                Diagnostic::error("E0635", at, text)
                    .label("sent back here")
                    .also(source(e.pops), "popped again by a handler of a queue")
                    .hint("pop in a timer, or in the handler of a port: `loop max 16 { if not q.pop() { break } }`")
            };
            self.report(d);
        }
    }
}

impl Lower<'_, '_> {
    /// `q`, `q[i]`: the queue that is asked.
    pub fn queue_of<'e>(&self, e: &'e Expr) -> Option<(PortId, Option<&'e Expr>)> {
        let (name, index) = name_at(e)?;
        if !self.in_app || self.lookup(&name.name).is_some() {
            return None;
        }
        let p = self.cx.app.port(&name.name)?;
        self.cx.is_queue(p).then_some((p, index))
    }

    /// Packets that wait: `len(q)`, `len(q[i])`. Of an array of queues the number of its instances.
    pub fn queue_len(&mut self, e: &Expr) -> Option<R<Val>> {
        let (p, index) = self.queue_of(e)?;
        if index.is_none() && !self.cx.app.is_single(p) {
            return None;
        }
        Some(self.ask_queue(e, QueueAct::Len, e.span))
    }

    pub fn queue_method(&mut self, base: &Expr, name: &Ident, args: &[Arg], span: Span) -> R<Val> {
        let act = match name.name.as_str() {
            "pop" => QueueAct::Pop,
            "discard" => QueueAct::Drop,
            "first" => QueueAct::First,
            other => {
                let hint = crate::names::suggest(other, ["pop", "discard", "first"].into_iter());
                let d = Diagnostic::error("E0201", name.span, format!("a queue has no method `{other}`"))
                    .note("`q.pop()`, `q.discard()`, `q.first()` (bytes of the oldest packet), `len(q)`; `p -> q` sends to it");
                return Err(self.cx.report(crate::names::with_hint(d, hint)));
            }
        };
        if !args.is_empty() {
            return Err(self.err("E0308", span, format!("`{}` takes no arguments", name.name)));
        }
        self.ask_queue(base, act, span)
    }

    fn ask_queue(&mut self, e: &Expr, act: QueueAct, span: Span) -> R<Val> {
        if self.pure_only() || self.kind == crate::body::Kind::OnFault {
            return Err(self.involved(span));
        }
        self.impure = true;
        let (port, index) = self.target(e)?;
        self.no_channel(port, false, span)?;
        let ty = match act {
            QueueAct::Pop | QueueAct::Drop => Ty::Bool,
            QueueAct::Len | QueueAct::First => U32,
        };
        let dst = self.new_local("", &ty);
        self.push(span, StmtKind::Queue { port, index, act, dst });
        Ok(Val::pure(ty, self.local_expr(dst)))
    }

    /// `r.push(v)`, `r.pop()`, `r.peek()`.
    pub fn ring_method(&mut self, table: TableId, name: &Ident, args: &[Arg], span: Span) -> R<Val> {
        let value = self.cx.tables[table.index()].value.clone();
        match (name.name.as_str(), args) {
            ("push", [v]) => {
                let value = self.expr_as(&v.value, &value)?;
                let dst = self.new_local("", &Ty::Bool);
                self.push(span, StmtKind::TablePush { table, value, dst });
                Ok(Val::pure(Ty::Bool, self.local_expr(dst)))
            }
            ("pop" | ast::OLDEST, []) => {
                let ty = value.option();
                let dst = self.new_local("", &ty);
                self.push(span, StmtKind::TablePop { table, dst });
                Ok(Val::pure(ty, self.local_expr(dst)))
            }
            ("peek", []) => {
                let ty = value.option();
                let dst = self.new_local("", &ty);
                self.push(span, StmtKind::TableGet { table, key: build::u32(0), dst });
                Ok(Val::pure(ty, self.local_expr(dst)))
            }
            (other, _) => {
                let d = Diagnostic::error(
                    "E0201",
                    name.span,
                    format!("a ring has no method `{other}` of {} arguments", args.len()),
                );
                Err(self.cx.report(d.note("`r.push(value)` is a bool, `r.pop()` and `r.peek()` are options, `r[i]` is the i-th from the oldest on, `len(r)` how many there are")))
            }
        }
    }
}
