//! The ways that frames leave by.

use super::{Target, XdpSource};
use crate::body::BodyGen;
use crate::frame_act::stored;
use crate::parser::line;
use wireloom_ir::placement::{self, Fate};
use wireloom_ir::*;

impl<'m> BodyGen<'_, 'm> {
    /// The place of a port's first instance in the map of ports.
    fn xdp_place(&mut self, port: PortId) -> usize {
        let (ways, n) = (&mut self.xdp.ways, self.g.instances[port.index()]);
        ways.ports.iter().position(|p| p.0 == port).unwrap_or_else(|| {
            let at = ways.ports.len();
            ways.ports.extend((0..n).map(|i| (port, i)));
            at
        })
    }

    pub(super) fn xdp_send(&mut self, (port, index): (PortId, &Expr), mark: Option<&Expr>, state: &'m [Carried]) {
        let n = self.g.instances[port.index()];
        match placement::fate(self.g.m, self.xdp.port, port) {
            Some(Fate::Process) => self.xdp_to_process((port, index), mark, state),
            Some(Fate::Kernel) => line!(self, "fate = XDP_PASS;"),
            Some(Fate::Back) if n == 1 => line!(self, "fate = XDP_TX;"),
            Some(way) => {
                let (at, text) = (self.xdp_place(port), self.expr(index));
                line!(self, "{{ const uint32_t i_ = (uint32_t)({text});");
                self.check(index.may_fault());
                let redirect =
                    format!("i_ < {n} ? (int)bpf_redirect_map(&wl_ports, {at} + i_, XDP_ABORTED) : XDP_DROP");
                match way {
                    Fate::Back => line!(self, "fate = i_ == WL_X(x)->instance ? XDP_TX : {redirect}; }}"),
                    Fate::Kernel | Fate::Redirected | Fate::Process => line!(self, "fate = {redirect}; }}"),
                }
            }
            None => line!(self, "fate = XDP_DROP;"),
        }
    }

    /// The process is to send the frame there. What crosses with it is told where the program ends.
    fn xdp_to_process(&mut self, (port, index): (PortId, &Expr), mark: Option<&Expr>, state: &'m [Carried]) {
        let m = self.g.m;
        let entry = m.carries(port).map(|c| layout::Entry::of(m, c)).unwrap_or_default();
        let own = if placement::is_process(m, port) { Target::OWN.port } else { port.0 as u16 };
        let to = match (&*index.kind, mark, entry.fields.is_empty()) {
            (ExprKind::Int(i), None, true) => Some(Target { port: own, instance: *i as u16 }),
            _ => None,
        };
        let ways = &mut self.xdp.ways;
        ways.process.insert(to);
        if entry.part != FramePart::Whole || entry.bytes > 0 {
            ways.entry = Some(ways.entry.unwrap_or(0).max(entry.bytes))
        }
        let (text, mark) = (self.expr(index), mark.map_or("0".into(), |m| self.expr(m)));
        line!(self, "{{ const uint32_t i_ = (uint32_t)({text});");
        self.check(index.may_fault());
        let v = self.name(LocalId(0));
        match entry.part {
            FramePart::Whole => line!(self, "WL_X(x)->keep = 0;"),
            FramePart::Nothing => line!(self, "WL_X(x)->keep = 1;"),
            FramePart::Headers(behind) => {
                line!(self, "WL_X(x)->keep = {v}->top + {behind};\nwl_entry_u32(WL_X(x)->entry, 0, wl_there({v}->n, WL_X(x)->keep));")
            }
        }
        for f in &entry.fields {
            let (ty, value) = (m.packet[f.field.index()].ty, state.iter().find(|c| c.field == f.field));
            let text = self.expr(value.map_or(&m.packet[f.field.index()].init, |c| &c.value));
            line!(self, "{}(WL_X(x)->entry, {}, {text});", stored(m, ty), f.at);
        }
        line!(self, "WL_X(x)->note = WL_NOTE({own}, i_, {mark});\nfate = WL_PROCESS; }}");
    }

    /// Sends the frame to all instances of a port; `others`: but for the one that it came from.
    pub(super) fn xdp_broadcast(&mut self, port: PortId, others: bool) {
        let own = self.xdp.port == Some(port);
        if self.g.instances[port.index()] == 1 && own {
            line!(self, "fate = {};", if others { "XDP_DROP" } else { "XDP_TX" });
            return;
        }
        let ways = &mut self.xdp.ways;
        if !ways.broadcasts.contains(&port) {
            ways.broadcasts.push(port)
        }
        let flags = if others { "BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS" } else { "BPF_F_BROADCAST" };
        line!(self, "fate = (int)bpf_redirect_map(&{}, 0, {flags});", XdpSource::broadcast_map(port));
    }
}
