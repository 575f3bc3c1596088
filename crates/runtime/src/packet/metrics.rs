//! Counters of frame ports, for `/metrics` and `/status`.

use crate::admin::Family;
use crate::stats::{Cell, FrameStats};
use crate::view::{Hosted, View};
use serde_json::{json, Value};
use wireloom_ir::desc::PortKind;

type Get = fn(&FrameStats) -> &Cell;

const FAMILIES: [(&str, &str, Get); 8] = [
    ("wireloom_frames_received_total", "Frames received.", |s| &s.received),
    ("wireloom_frames_sent_total", "Frames sent.", |s| &s.sent),
    ("wireloom_frames_dropped_total", "Frames that could not be sent.", |s| &s.dropped),
    ("wireloom_frames_discarded_total", "Frames that a queue has discarded.", |s| &s.discarded),
    ("wireloom_frames_lost_total", "Frames that the kernel dropped before they were received.", |s| &s.lost),
    ("wireloom_frames_copied_total", "Frames copied because other apps of the process read them, too.", |s| &s.copied),
    ("wireloom_frame_received_bytes_total", "Bytes of frames received.", |s| &s.received_bytes),
    ("wireloom_frame_sent_bytes_total", "Bytes of frames sent.", |s| &s.sent_bytes),
];

fn sum(app: &Hosted, port: usize, get: Get) -> u64 {
    app.sum(|a| get(&a.ports[port].frames).get())
}

/// In the Prometheus text format; nothing if no app has frame ports.
pub fn metrics(out: &mut String, view: &View) {
    let frames = |k: &PortKind| matches!(k, PortKind::Frames { .. });
    if !view.apps.iter().any(|a| a.desc().ports.iter().any(|p| frames(&p.kind))) {
        return;
    }
    for (name, help, get) in FAMILIES {
        let mut f = Family::new(out, name, "counter", help);
        for a in &view.apps {
            for (p, port) in a.desc().ports.iter().enumerate().filter(|(_, p)| frames(&p.kind)) {
                f.add(&[("app", a.name()), ("port", &port.name)], sum(a, p, get));
            }
        }
    }
    hook(out, view);
    super::nic::metrics(out, view);
}

/// Frames that the XDP hook has received; nothing if it runs no handlers.
fn hook(out: &mut String, view: &View) {
    let all: Vec<_> = view
        .apps
        .iter()
        .filter_map(|a| Some((a, a.app.program.outside()?.fates())))
        .filter(|a| !a.1.is_empty())
        .collect();
    if all.is_empty() {
        return;
    }
    let help = "Frames that the XDP hook has received, by their fate there.";
    let mut f = Family::new(out, "wireloom_xdp_frames_total", "counter", help);
    for (a, fates) in all {
        fates.into_iter().for_each(|(fate, n)| f.add(&[("app", a.name()), ("fate", fate)], n));
    }
    let help = "Lines of the log for which the XDP hook found no room.";
    let mut f = Family::new(out, "wireloom_xdp_lines_lost_total", "counter", help);
    for a in view.apps.iter() {
        if let Some(outside) = a.app.program.outside().filter(|o| !o.fates().is_empty()) {
            f.add(&[("app", a.name())], outside.lines_lost())
        }
    }
}

/// A frame port as JSON.
pub fn status(a: &Hosted, p: usize) -> Value {
    let all = |get: Get| sum(a, p, get);
    json!({
        "port": a.desc().ports[p].name,
        "instances": a.app.settings.ports[p].names,
        "received": all(|s| &s.received),
        "sent": all(|s| &s.sent),
        "dropped": all(|s| &s.dropped),
        "discarded": all(|s| &s.discarded),
        "lost": all(|s| &s.lost),
        "copied": all(|s| &s.copied),
        "received_bytes": all(|s| &s.received_bytes),
        "sent_bytes": all(|s| &s.sent_bytes),
    })
}
