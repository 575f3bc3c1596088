//! Several ports of one app at one interface: which engine each of them gets.

use super::host_stack::{self, TAKES_ALL};
use super::options::Options;
use super::port_targets::{Carrier, PortTarget, PortTargets};
use crate::error::Error;
use std::collections::BTreeMap;
use wireloom_ir::desc::Desc;

/// Ports of one app at one interface. An AF_XDP socket takes each frame for itself, as does a
/// program in the hook. So two that read are AF_PACKET's, which gives the frame to both. One that
/// only sends beside another has a socket of AF_PACKET.
pub fn interfaces_apart(desc: &Desc, options: &Options, ports: &mut [PortTargets]) -> Result<(), Error> {
    let carried = |t: &PortTarget| matches!(t.engine, Carrier::Nic | Carrier::AfXdp | Carrier::AfPacket);
    let mut uses: BTreeMap<String, Vec<InterfaceUse>> = BTreeMap::new();
    for (port, p) in ports.iter().enumerate() {
        let main = p.main.iter().enumerate().map(|(i, t)| (false, i, t));
        let out = p.out.iter().enumerate().map(|(i, t)| (true, i, t));
        for (out, instance, t) in main.chain(out).filter(|(.., t)| carried(t)) {
            let reads = p.handler.is_some() && !out;
            let one = InterfaceUse { port, instance, out, reads, engine: t.engine };
            uses.entry(t.name.clone()).or_default().push(one);
        }
    }
    for (name, mut uses) in uses {
        // The one that keeps its engine comes first.
        uses.sort_by_key(|u| !u.reads);
        let port = |u: &InterfaceUse| &desc.ports[u.port].name;
        let hooked = options.hook_interfaces.contains(&name);
        let has_program =
            |u: &InterfaceUse| options.hooked.iter().any(|h| (h.port, h.instance) == (u.port, u.instance));
        if let Some(u) = uses.iter().find(|u| hooked && u.reads && !has_program(u)) {
            let text = format!(
                "port `{}`: the hook of `{name}` runs a program of this app, which takes its frames; name another \
                 interface, or handle all of its frames at one port",
                port(u)
            );
            return Err(Error::Param(text).at(options.origin(desc, u.port)));
        }
        let several = uses.get(1).is_some_and(|u| u.reads);
        let others = if several { &uses[..] } else { &uses[1..] };
        if let Some(u) = others.iter().find(|u| u.engine == Carrier::AfXdp) {
            let other = uses.iter().find(|o| o.port != u.port).unwrap_or(&uses[0]);
            let text = format!(
                "port `{}`: port `{}` is at `{name}`, too, and an AF_XDP socket takes each frame for one port only; \
                 name another interface, or bind both to afpacket:{name}",
                port(u),
                port(other)
            );
            return Err(Error::Param(text).at(options.origin(desc, u.port)));
        }
        if let Some(u) = others.iter().find(|u| several && u.engine == Carrier::Nic) {
            let why = format!("several ports read `{name}`, so it cannot be AF_XDP's");
            if let Some(refusal) = host_stack::refusal(desc, ports, &name, &why) {
                let text = format!("port `{}`: {refusal}", port(u));
                return Err(Error::Param(text).at(options.origin(desc, u.port)));
            }
            log::warn!(
                target: "wireloom",
                "{name}: several ports read it; using AF_PACKET, which gives each frame to all: {TAKES_ALL}"
            );
        }
        for u in others {
            let p = &mut ports[u.port];
            let all = if u.out { &mut p.out } else { &mut p.main };
            all[u.instance].engine = Carrier::AfPacket;
        }
    }
    Ok(())
}

/// A use of a network interface by a port.
struct InterfaceUse {
    port: usize,
    instance: usize,
    /// Of the port's `--out`.
    out: bool,
    reads: bool,
    engine: Carrier,
}
