//! Interfaces whose frames the app gives to the host's own stack, or keeps from it.
//!
//! With AF_XDP the stack gets no frame of an interface but those that the app gives it. With
//! AF_PACKET it takes every frame by itself, so a filter would let everything pass. So such an app
//! does not change from AF_XDP to AF_PACKET unasked.

use super::port_targets::{Carrier, PortTarget, PortTargets};
use crate::core::app::App;
use std::collections::HashMap;
use std::sync::Arc;
use wireloom_ir::desc::{Desc, FrameEngine, PortKind};

/// The port by which an app gives frames to the host's stack.
fn way(desc: &Desc, ports: &[PortTargets]) -> Option<usize> {
    let leads = |t: &PortTarget| matches!(t.engine, Carrier::Kernel | Carrier::Tap | Carrier::Tun);
    let is_kernel = |kind: &PortKind| matches!(kind, PortKind::Frames { engine: FrameEngine::Kernel, .. });
    let to_host = |(n, p): &(usize, &PortTargets)| {
        desc.ports[*n].sent && (is_kernel(&desc.ports[*n].kind) || p.main.iter().chain(&p.out).any(leads))
    };
    ports.iter().enumerate().find(to_host).map(|(n, _)| n)
}

/// The refusal of AF_PACKET at an interface that an app reads. None: the app sends nothing to the
/// host's stack.
pub fn refusal(desc: &Desc, ports: &[PortTargets], name: &str, why: &str) -> Option<String> {
    way(desc, ports).map(|n| sentence(&desc.ports[n].name, name, why))
}

fn sentence(way: &str, name: &str, why: &str) -> String {
    format!(
        "{why}; without AF_XDP the host's stack would take all frames of `{name}` by itself, whatever the app drops \
         or sends to `{way}`; mend the cause, or bind the port to afpacket:{name} to look only"
    )
}

/// The warning where an interface is AF_PACKET's in the place of AF_XDP.
pub const TAKES_ALL: &str = "the host's stack gets all of its frames, too, whatever the app does with them";

/// For each interface that an app reads to decide about the stack's frames: the port to the stack.
pub struct Guarded(HashMap<String, String>);

impl Guarded {
    pub fn of(apps: &[Arc<App>], all: &[Vec<PortTargets>]) -> Guarded {
        let mut found = HashMap::new();
        for (app, ports) in apps.iter().zip(all) {
            let Some(way) = way(&app.desc, ports) else { continue };
            let read = ports.iter().filter(|p| p.handler.is_some()).flat_map(|p| &p.main);
            found.extend(read.map(|t| (t.name.clone(), app.desc.ports[way].name.clone())));
        }
        Guarded(found)
    }

    /// The refusal of AF_PACKET at an interface that has no AF_XDP.
    pub fn refusal(&self, name: &str, why: &str) -> Option<String> {
        self.0.get(name).map(|way| sentence(way, name, why))
    }

    /// Tells that AF_PACKET decides nothing, where it was asked for.
    pub fn tell(&self, name: &str) {
        if let Some(way) = self.0.get(name) {
            log::warn!(target: "wireloom", "{name}: {TAKES_ALL} (AF_PACKET); frames sent to `{way}` are further copies");
        }
    }
}
