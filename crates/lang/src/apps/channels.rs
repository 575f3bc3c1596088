//! Channels: several logical queues in one queue of packets.
//!
//! `queue q { depth 64, channels [get, set] }` declares two. `p -> q.get` sends. `on q.get(p)`
//! and the wiring `q.get -> …` receive. The channels share the queue's instances, so the packets of
//! all of them keep their order. The channel is a field of the packet's state, of one byte. The
//! handlers of a queue's channels are one handler of the queue, which asks for the field.

use super::scope::AppName;
use crate::body::Lower;
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::Val;
use ir::{BinOp, LocalId, PacketFieldId, PortId};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, ExprKind, Ident, MemberKind, Node, NodeKind, On, Span};
use wireloom_syntax::Diagnostic;

/// Channels of a queue.
const MOST: usize = 256;
/// The field of the packet's state, which no program can name.
const FIELD: &str = "queue.channel";
const CODE: &str = "E0660";

/// The member that handles the packets of a channel.
struct ChannelArm<'a> {
    channel: &'a Ident,
    does: ChannelBody<'a>,
    span: Span,
}

enum ChannelBody<'a> {
    Handler(&'a ast::Handler, Option<&'a Ident>),
    Nodes(&'a [Node]),
}

/// `q.get`: a name of the app, and one behind it.
fn parts(e: &Expr) -> Option<(&Ident, &Ident)> {
    let ExprKind::Field(Some(base), channel) = &*e.kind else { return None };
    Some((base.as_name()?, channel))
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn arm(m: &ast::Member) -> Option<(&Ident, ChannelArm<'_>)> {
    match &m.kind {
        MemberKind::Handler(h) => {
            let On::Event { port, event, param } = &h.on else { return None };
            Some((port, ChannelArm { channel: event, does: ChannelBody::Handler(h, param.as_ref()), span: m.span }))
        }
        MemberKind::Wiring(nodes) => {
            let (Node { kind: NodeKind::Expr(e), .. }, rest) = nodes.split_first()? else { return None };
            let (queue, channel) = parts(e)?;
            Some((queue, ChannelArm { channel, does: ChannelBody::Nodes(rest), span: m.span }))
        }
        _ => None,
    }
}

impl Compiler<'_> {
    /// `channels [get, set]`: the queue without this option, and the channels.
    pub fn channels_of(&mut self, q: &ast::Queue) -> R<(ast::Queue, Vec<Ident>)> {
        let mut rest = q.clone();
        let Some(at) = rest.options.iter().position(|(n, _)| n.name == "channels") else { return Ok((rest, vec![])) };
        let (option, value) = rest.options.remove(at);
        let names = match value.as_ref().map(|e| &*e.kind) {
            Some(ExprKind::List(all)) => all.iter().map(|e| e.as_name().cloned()).collect::<Option<Vec<Ident>>>(),
            _ => None,
        };
        let Some(names) = names.filter(|n| (1..=MOST).contains(&n.len())) else {
            let at = value.map_or(option.span, |e| e.span);
            let d = Diagnostic::error(CODE, at, format!("a queue has the names of 1 to {MOST} channels"));
            return Err(self.report(d.hint("write `channels [get, set]`")));
        };
        self.distinct(names.iter())?;
        if !self.making.is_empty() {
            let d = Diagnostic::error(CODE, option.span, "a queue of an element has no channels").label("not here");
            return Err(self.report(d.hint("give the element one queue for each, or let the app have the queue")));
        }
        Ok((rest, names))
    }

    pub fn note_channels(&mut self, queue: PortId, names: Vec<Ident>) {
        if names.is_empty() {
            return;
        }
        if !self.m.packet.iter().any(|f| f.name == FIELD) {
            let ty = self.lower_ty(&Ty::Int { bits: 8, signed: false });
            let init = build::int(ty, 0);
            self.m.packet.push(ir::PacketField { name: FIELD.into(), ty, init, required: false });
        }
        self.channels.insert(queue, names);
    }

    pub fn has_channels(&self, queue: PortId) -> bool {
        self.channels.contains_key(&queue)
    }

    fn channel_field(&self) -> Option<PacketFieldId> {
        self.m.packet.iter().position(|f| f.name == FIELD).map(|n| PacketFieldId(n as u32))
    }

    /// The place of a channel among those of its queue.
    fn channel_of(&mut self, queue: PortId, channel: &Ident) -> R<u8> {
        let names = self.channels.get(&queue).cloned().unwrap_or_default();
        if let Some(n) = names.iter().position(|n| n.name == channel.name) {
            return Ok(n as u8);
        }
        let all = names.iter().map(|n| format!("`{}`", n.name)).collect::<Vec<_>>().join(", ");
        let name = self.m.ports[queue.index()].name.clone();
        let d = Diagnostic::error(CODE, channel.span, format!("queue `{name}` has no channel `{}`", channel.name))
            .note(format!("its channels: {all}"));
        Err(self.report(crate::names::with_hint(
            d,
            crate::names::suggest(&channel.name, names.iter().map(|n| n.name.as_str())),
        )))
    }

    /// A queue with channels is named with one of them.
    pub fn which_channel(&mut self, queue: PortId, span: Span) -> Reported {
        let name = self.m.ports[queue.index()].name.clone();
        let first = self.channels.get(&queue).and_then(|c| c.first()).map_or("", |c| &c.name).to_string();
        let short = name.rsplit('.').next().unwrap_or("q");
        let d = Diagnostic::error(CODE, span, format!("queue `{name}` has channels: which one?"))
            .hint(format!("write `{short}.{first}`"));
        self.once(d)
    }

    /// The queue with channels that a member's packets come from.
    pub fn channel_queue(&self, m: &ast::Member) -> Option<PortId> {
        let (queue, _) = arm(m)?;
        let Some(AppName::Port(p)) = self.app.get(&queue.name) else { return None };
        self.has_channels(*p).then_some(*p)
    }

    /// The handler of a queue with channels, made where the first of its members stands.
    pub fn channel_handlers(&mut self, module: ModId, app: &ast::Element, port: PortId) -> R<()> {
        if self.m.frame_handler(port).is_some() {
            return Ok(());
        }
        let unit = self.app.frames.get(&port).copied().ok_or(Reported)?;
        let members = app.members.iter().filter(|m| self.channel_queue(m) == Some(port));
        let arms: Vec<ChannelArm> = members.filter_map(|m| arm(m).map(|(_, a)| a)).collect();
        let Some(first) = arms.first().map(|a| a.span) else { return Ok(()) };
        let arms = self.arms_in_order(port, arms);
        let name = self.m.ports[port.index()].name.clone();
        let mut l = super::frames::begin(self, module, format!("app {}: on {name}", app.name.name));
        l.queued = true;
        let p = l.new_local("p", &Ty::Msg(unit));
        let made = arms.and_then(|arms| l.channel_arms(&arms, p, unit));
        let body = if made.is_ok() { l.body() } else { ir::Body::default() };
        self.add_handler(&name, ir::On::Frame { port, unit }, first, body);
        made
    }

    /// One for each channel, in one segment and on one device.
    fn arms_in_order<'a>(&mut self, port: PortId, arms: Vec<ChannelArm<'a>>) -> R<Vec<ChannelArm<'a>>> {
        let names = self.channels.get(&port).cloned().unwrap_or_default();
        let mut placed: Vec<Option<ChannelArm>> = names.iter().map(|_| None).collect();
        let first = arms.first().map(|a| (a.span, self.segment_at(a.span)));
        for a in arms {
            let n = usize::from(self.channel_of(port, a.channel)?);
            if let Some(other) = &placed[n] {
                let text = format!("the packets of channel `{}` are handled already", a.channel.name);
                let d = Diagnostic::error("E0639", a.channel.span, text).label("a second time");
                return Err(self.report(d.also(other.channel.span, "here first")));
            }
            if let Some((at, _)) = first.filter(|(_, s)| *s != self.segment_at(a.span)) {
                let d = Diagnostic::error(CODE, a.channel.span, "the channels of a queue lead to one segment")
                    .label("in another segment")
                    .also(at, "the first one is here");
                return Err(self.report(d.hint("give the other segment a queue of its own")));
            }
            if let ChannelBody::Handler(ast::Handler { device: Some(d), .. }, _) = &a.does {
                let d = Diagnostic::error(CODE, d.name.span, "a channel's handler is placed by its segment");
                return Err(self.report(d.hint("put the handlers of all channels into `segment name on … { … }`")));
            }
            placed[n] = Some(a);
        }
        if let Some(n) = placed.iter().position(Option::is_none) {
            let (queue, channel) = (self.m.ports[port.index()].name.clone(), names[n].clone());
            let text = format!("no handler for the packets of channel `{}`", channel.name);
            let d = Diagnostic::error("E0611", channel.span, text).label("no handler");
            return Err(self.report(
                d.hint(format!("write `on {queue}.{0}(p) {{ … }}`, or wire it: `{queue}.{0} -> …`", channel.name)),
            ));
        }
        Ok(placed.into_iter().flatten().collect())
    }
}

impl Lower<'_, '_> {
    /// `q.get`: the queue, if it has channels. The next packet goes to that channel.
    pub fn channel_arg(&mut self, e: &Expr) -> R<Option<PortId>> {
        let Some((queue, channel)) = parts(e).filter(|(q, _)| self.in_app && self.lookup(&q.name).is_none()) else {
            return Ok(None);
        };
        let Some(port) = self.cx.app.port(&queue.name).filter(|p| self.cx.has_channels(*p)) else { return Ok(None) };
        let n = self.cx.channel_of(port, channel)?;
        self.channel = Some((port, n));
        Ok(Some(port))
    }

    /// The state of a packet that goes to a queue, with the channel that was named for it.
    pub fn in_channel(&mut self, port: PortId, state: &mut [ir::Carried], span: Span) -> R<()> {
        let named = self.channel.take().filter(|(p, _)| *p == port);
        if !self.cx.has_channels(port) {
            return Ok(());
        }
        let Some((_, n)) = named else { return Err(self.cx.which_channel(port, span)) };
        let field = self.cx.channel_field().ok_or(Reported)?;
        let ty = self.cx.m.packet[field.index()].ty;
        for c in state.iter_mut().filter(|c| c.field == field) {
            c.value = build::int(ty, n.into());
        }
        Ok(())
    }

    /// A queue is asked as a whole, and takes no packets that are built: they have no state.
    pub fn no_channel(&mut self, port: PortId, built: bool, span: Span) -> R<()> {
        let named = self.channel.take().is_some();
        let d = match built {
            true if self.cx.has_channels(port) => {
                Diagnostic::error(CODE, span, "a packet that is built does not go to a channel")
                    .label("it has no state that could name the channel")
                    .hint("send it to a queue without channels")
            }
            false if named => Diagnostic::error(CODE, span, "a queue is asked as a whole")
                .hint("leave the channel out: `q.pop()` takes the oldest packet of all channels"),
            true | false => return Ok(()),
        };
        Err(self.cx.report(d))
    }

    /// The packet goes the way of its channel.
    fn channel_arms(&mut self, arms: &[ChannelArm], p: LocalId, unit: ir::UnitId) -> R<()> {
        let field = self.cx.channel_field().ok_or(Reported)?;
        let ty = self.cx.m.packet[field.index()].ty;
        let local = self.new_local_of("channel", ty);
        self.fields.insert(field, local);
        let on = self.local_expr(local);
        self.arms_from(0, arms, &on, (p, unit)).map(|_| ())
    }

    fn arms_from(&mut self, n: usize, arms: &[ChannelArm], on: &ir::Expr, (p, unit): (LocalId, ir::UnitId)) -> R<Val> {
        let Some((a, rest)) = arms.split_first() else { return Ok(Val::unit()) };
        if rest.is_empty() {
            return self.channel_arm(a, p, unit);
        }
        let cond = build::cmp(BinOp::Eq, on.clone(), build::int(on.ty, n as u128));
        self.branch(
            cond,
            a.span,
            Some(&Ty::Unit),
            |s| s.channel_arm(a, p, unit),
            |s| s.arms_from(n + 1, rest, on, (p, unit)),
        )
    }

    fn channel_arm(&mut self, a: &ChannelArm, p: LocalId, unit: ir::UnitId) -> R<Val> {
        let v = Val::path(Ty::Msg(unit), build::msg(p));
        self.enter();
        let made = match &a.does {
            ChannelBody::Nodes(nodes) => self.flow(nodes, v, a.span).map(|_| Val::unit()),
            ChannelBody::Handler(h, param) => {
                if let Some(param) = param {
                    self.bind_all(&[((*param).clone(), v)])
                }
                let body = |s: &mut Self| s.block(&h.body, Some(&Ty::Unit));
                match &h.guard {
                    None => body(self),
                    Some(g) => {
                        self.decide(g).and_then(|c| self.branch(c, a.span, Some(&Ty::Unit), body, |_| Ok(Val::unit())))
                    }
                }
            }
        };
        self.leave();
        made
    }
}
