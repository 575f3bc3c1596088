//! The ways that frames leave by.

use super::{Target, XdpSource};
use crate::body::BodyGen;
use crate::parser::line;
use wireloom_ir::placement::{self, Fate};
use wireloom_ir::*;

impl BodyGen<'_, '_> {
    /// The place of a port's first instance in the map of ports.
    fn xdp_place(&mut self, port: PortId) -> usize {
        let (ways, n) = (&mut self.xdp.ways, self.g.instances[port.index()]);
        ways.ports.iter().position(|p| p.0 == port).unwrap_or_else(|| {
            let at = ways.ports.len();
            ways.ports.extend((0..n).map(|i| (port, i)));
            at
        })
    }

    pub(super) fn xdp_send(&mut self, port: PortId, index: &Expr, mark: Option<&Expr>) {
        let n = self.g.instances[port.index()];
        match placement::fate(self.g.m, self.xdp.port, port) {
            Some(Fate::Process) => self.xdp_to_process(port, index, mark),
            Some(Fate::Kernel) => line!(self, "fate = XDP_PASS;"),
            Some(Fate::Back) if n == 1 => line!(self, "fate = XDP_TX;"),
            Some(way) => {
                let (at, text) = (self.xdp_place(port), self.expr(index));
                line!(self, "{{ const uint32_t i_ = (uint32_t)({text});");
                self.check(index.may_fault());
                let redirect =
                    format!("i_ < {n} ? (int)bpf_redirect_map(&wl_ports, {at} + i_, XDP_ABORTED) : XDP_DROP");
                match way {
                    Fate::Back => line!(self, "fate = i_ == x->instance ? XDP_TX : {redirect}; }}"),
                    Fate::Kernel | Fate::Redirected | Fate::Process => line!(self, "fate = {redirect}; }}"),
                }
            }
            None => line!(self, "fate = XDP_DROP;"),
        }
    }

    /// The process is to send the frame there.
    fn xdp_to_process(&mut self, port: PortId, index: &Expr, mark: Option<&Expr>) {
        let port = if placement::is_process(self.g.m, port) { Target::OWN.port } else { port.0 as u16 };
        let to = match (&*index.kind, mark) {
            (ExprKind::Int(i), None) => Some(Target { port, instance: *i as u16 }),
            _ => None,
        };
        self.xdp.ways.process.insert(to);
        let (text, mark) = (self.expr(index), mark.map_or("0".into(), |m| self.expr(m)));
        line!(self, "{{ const uint32_t i_ = (uint32_t)({text});");
        self.check(index.may_fault());
        line!(self, "x->note = WL_NOTE({port}, i_, {mark});\nfate = WL_PROCESS; }}");
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
