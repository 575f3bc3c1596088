//! `on xdp` behind a handler: the device that runs it.
//!
//! In: the word, and the handlers that were lowered from the member. Out: their device, or a
//! diagnostic for each thing that the device does not have.

use crate::compiler::{Compiler, R};
use ir::desc::{FrameEngine, PortKind};
use wireloom_ir as ir;
use wireloom_ir::ops::Device;
use wireloom_syntax::ast::{FileId, Ident, Span};
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    /// Gives the handlers from a number on to a device.
    pub fn on_device(&mut self, device: &Ident, first: usize) -> R<()> {
        if device.name != "xdp" {
            let d = Diagnostic::error("E0675", device.span, format!("`{}` is no device", device.name));
            return Err(self.report(d.hint("write `on xdp`, or leave it out: then the CPU runs the handler")));
        }
        for n in first..self.m.handlers.len() {
            let h = &self.m.handlers[n];
            let of_nic = |kind: &PortKind| matches!(kind, PortKind::Frames { engine: FrameEngine::Nic, .. });
            let nic = matches!(h.on, ir::On::Frame { port, .. } if of_nic(&self.m.ports[port.index()].kind));
            if !nic {
                let d = Diagnostic::error("E0674", device.span, "XDP runs handlers of the packets of a `nic(…)` only");
                return Err(self.report(d.hint("leave `on xdp` out: then the CPU runs the handler")));
            }
            self.m.handlers[n].device = Device::Xdp;
        }
        Ok(())
    }

    /// Reports what the named devices do not have. The module is whole.
    pub fn check_devices(&mut self) {
        if self.diags.iter().any(Diagnostic::is_error) {
            return;
        }
        for o in ir::placement::refused(&self.m) {
            let at = Span { file: FileId(o.span.file), start: o.span.start, end: o.span.end };
            let d = Diagnostic::error(o.code, at, o.what).label("the handler stands `on xdp`");
            self.report(if o.hint.is_empty() { d } else { d.hint(o.hint) });
        }
    }
}
